/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop: timers, descriptors, jobs on other threads, and calls from other threads. One
 * thread owns a loop; everything here is called on it, but tci_loop_post.
 * Wraps libuv's loop (not its pool, not its processes). Timers live in a heap of ours behind one
 * handle, so a timer is plain storage and costs nothing when it is not due. */
#ifndef TCI_LOOP_H
#define TCI_LOOP_H

#include "base/list.h"
#include <stdatomic.h>
#include <telechir/error.h>

typedef struct tci_loop tci_loop;

int tci_loop_new(tci_loop **ret_loop, tc_err *err) TC_CHECKED;
/* All watches must be closed; runs pending close callbacks; joins the pool. NULL is fine. */
void tci_loop_free(tci_loop *loop);
/* Run until tci_loop_stop. */
void tci_loop_run(tci_loop *loop);
/* One turn, waiting at most max_wait_ms (-1: for ever; 0: not at all). For tests. */
void tci_loop_turn(tci_loop *loop, int64_t max_wait_ms);
void tci_loop_stop(tci_loop *loop);
/* The caller must be the loop's thread (the first one that ran it, until then the creator). */
void tci_loop_assert(const tci_loop *loop);
/* Monotonic, cached once per turn. */
int64_t tci_loop_now_ns(const tci_loop *loop);
static inline int64_t tci_loop_now_ms(const tci_loop *loop)
{
    return tci_loop_now_ns(loop) / 1000000;
}

/* Run cb on the loop thread, soon. The storage is the caller's until cb runs. ANY THREAD. */
typedef struct tci_post {
    tci_link link;
    void (*cb)(struct tci_post *post);
} tci_post;
void tci_loop_post(tci_loop *loop, tci_post *post);

/* Run cb at the end of this turn, before the loop waits again: the place to flush what the turn
 * gathered (several answers in one write). Idempotent until it runs. Loop thread. */
typedef struct tci_later {
    tci_link link;
    void (*cb)(struct tci_later *later);
} tci_later;
void tci_loop_later(tci_loop *loop, tci_later *later);
void tci_later_cancel(tci_later *later);

/* One-shot timer. Zeroed storage with loop and cb set by init. Restart replaces. */
typedef struct tci_timer {
    tci_loop *loop;
    void (*cb)(struct tci_timer *timer);
    int64_t due_ns;
    size_t heap_at; /* 1-based; 0: not armed */
} tci_timer;
void tci_timer_init(tci_timer *t, tci_loop *loop, void (*cb)(tci_timer *timer));
/* NO_MEMORY only. */
int tci_timer_start(tci_timer *t, int64_t delay_ms, tc_err *err) TC_CHECKED;
int tci_timer_start_at(tci_timer *t, int64_t due_ns, tc_err *err) TC_CHECKED;
void tci_timer_stop(tci_timer *t); /* fine when not armed */
static inline bool tci_timer_is_armed(const tci_timer *t)
{
    return t->heap_at != 0;
}

/* Readiness of a descriptor that epoll can watch. cb gets the ready events; an error or hang-up
 * shows as both. The descriptor is made non-blocking and stays the caller's. */
typedef enum tci_watch_events {
    TCI_WATCH_READ = 1 << 0,
    TCI_WATCH_WRITE = 1 << 1
} tci_watch_events;
typedef struct tci_watch {
    tci_loop *loop;
    void (*cb)(struct tci_watch *watch, unsigned events);
    struct tci_watch_handle *handle; /* NULL: not open */
    unsigned events;
} tci_watch;
int tci_watch_open(tci_watch *w, tci_loop *loop, int fd, void (*cb)(tci_watch *w, unsigned events),
                   tc_err *err) TC_CHECKED;
/* Which events to report; 0 pauses. Cheap when nothing changes. */
int tci_watch_set(tci_watch *w, unsigned events, tc_err *err) TC_CHECKED;
/* No callback after this; the descriptor may be closed right away. Fine when not open. */
void tci_watch_close(tci_watch *w);

/* Signals of the process, delivered on the loop. For programs only, not for library code. */
typedef struct tci_signal {
    void (*cb)(struct tci_signal *sig, int signum);
    struct tci_signal_handle *handle;
} tci_signal;
int tci_signal_open(tci_signal *s, tci_loop *loop, int signum,
                    void (*cb)(tci_signal *sig, int signum), tc_err *err) TC_CHECKED;
void tci_signal_close(tci_signal *s);

/* A job: work runs on a pool thread, done afterwards on the loop thread, exactly once. Inputs
 * are copied in, outputs copied out; work touches no state of the loop. Threads start when needed
 * (at most max_threads), leave after two idle seconds, so an idle process has one thread.
 * lane: jobs of one lane never take more than its share, so slow ones cannot starve quick ones. */
typedef enum tci_job_lane { TCI_JOB_QUICK, TCI_JOB_BULK, TCI_JOB_LANES } tci_job_lane;
typedef struct tci_job {
    tci_link link;
    void (*work)(struct tci_job *job);
    void (*done)(struct tci_job *job);
    tci_loop *loop;
    tci_job_lane lane;
} tci_job;
/* Threads per lane; call before the first submit. Default 4 quick, 4 bulk, stacks of 256 KiB. */
void tci_loop_pool_size(tci_loop *loop, unsigned quick_threads, unsigned bulk_threads);
/* Never fails: with no thread to be had the work runs at once on the calling thread. */
void tci_job_submit(tci_loop *loop, tci_job_lane lane, tci_job *job);
/* Jobs submitted and not yet done. */
size_t tci_loop_pending_jobs(const tci_loop *loop);

#endif
