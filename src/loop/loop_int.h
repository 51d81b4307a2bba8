/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this module share: the loop itself and its pool. */
#ifndef TCI_LOOP_INT_H
#define TCI_LOOP_INT_H

#include "loop/loop.h"
#include <uv.h>

/* One thread of the pool. Freed by whoever joins it. */
typedef struct tci_pool_worker tci_pool_worker;

typedef struct tci_pool_lane {
    tci_list queue;
    size_t nqueued;
    unsigned nthreads, nidle, max_threads;
    uv_cond_t has_work;
} tci_pool_lane;

/* Everything here is under lock but max_threads (set before the first job). */
typedef struct tci_pool {
    tci_loop *loop;
    uv_mutex_t lock;
    uv_cond_t has_left; /* a thread left while is_stopping */
    tci_pool_lane lanes[TCI_JOB_LANES];
    tci_list finished;
    tci_pool_worker *last_gone; /* left, not joined yet; joined by the next that leaves */
    bool is_stopping;
} tci_pool;

struct tci_loop {
    uv_loop_t uv;
    uv_async_t async;     /* posts or finished jobs are there */
    uv_prepare_t prepare; /* right before the loop waits */
    uv_idle_t spin;       /* active: the next wait takes no time */
    uv_timer_t tick;      /* for the first of the timers */
    uv_timer_t limit;     /* of tci_loop_turn */
    uv_thread_t owner;
    bool has_run, is_running, is_turn;
    int64_t now_ns; /* 0: to be read */

    tci_timer **heap; /* [0] is due first; heap_at is the index + 1 */
    size_t ntimers, heap_cap;
    int64_t tick_due_ns; /* what tick is set for; 0: not set */

    tci_list laters;
    tci_list dirty; /* watches whose events libuv does not know yet */

    uv_mutex_t posts_lock;
    tci_list posts; /* under posts_lock */

    tci_pool pool;
    size_t npending_jobs;
};

/* Move everything from `from` to the empty list `to`. */
static inline void tci_list_take(tci_list *from, tci_list *to)
{
    tci_list_init(to);
    if (tci_list_is_empty(from))
        return;
    to->head = from->head;
    to->head.next->prev = &to->head;
    to->head.prev->next = &to->head;
    tci_list_init(from);
}

/* timer.c: run what is due; true if something was. Set tick for the rest. */
bool tci_timers_run(tci_loop *loop);
void tci_timers_arm(tci_loop *loop);

/* watch.c: tell libuv what changed; the close callbacks for handles left open at the end. */
void tci_watches_apply(tci_loop *loop);
void tci_watch_handle_gone(uv_handle_t *h);
void tci_signal_handle_gone(uv_handle_t *h);

/* pool.c: done callbacks of what is finished. _done runs what is queued and joins all threads. */
int tci_pool_init(tci_pool *p, tci_loop *loop, tc_err *err) TC_CHECKED;
void tci_pool_done(tci_pool *p);
void tci_pool_deliver(tci_pool *p);

#endif
