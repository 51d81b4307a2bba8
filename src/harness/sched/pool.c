/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that run invocations. Leaves how many there may be to those who give them work. They start
 * when needed, with small stacks, and leave when they had nothing to do for a while; the newest idle
 * one is taken first, so that the others get to leave. Any thread. Invariant: work is only ever queued
 * when no thread is idle and none could be started; every thread is joined, by the next one that
 * leaves or by tci_workers_done. */
#include "harness/sched/sched_int.h"

#include "base/num.h"
#include "plat/clock.h"

#define IDLE_NS (INT64_C(2) * 1000 * 1000 * 1000)

struct tci_worker {
    tci_workers *pool;
    tci_worker *next; /* idle, or gone */
    tci_thread *thread;
    tci_work *work; /* given to it while it was idle */
    tci_wake wake;
    bool is_idle, is_started; /* started: thread is known */
};

void tci_workers_init(tci_workers *p)
{
    *p = (tci_workers){0};
    tci_mutex_init(&p->lock);
    tci_list_init(&p->queue);
}

static void unlink_idle(tci_workers *p, tci_worker *w)
{
    tci_worker **at = &p->idle;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    w->is_idle = false;
}

/* Under lock, which it gives back while it waits. NULL: leave. */
static tci_work *next_work(tci_workers *p, tci_worker *w)
{
    tci_link *k = tci_list_pop_front(&p->queue);
    if (k != NULL)
        return TCI_CONTAINER(k, tci_work, link);
    if (p->is_stopping)
        return NULL;
    w->is_idle = true;
    w->next = p->idle;
    p->idle = w;
    int64_t deadline = tci_add_ns(tci_clock_mono_ns(), IDLE_NS);
    while (w->is_idle) {
        unsigned seen = tci_wake_count(&w->wake);
        tci_mutex_unlock(&p->lock);
        tci_wake_wait(&w->wake, seen, deadline);
        tci_mutex_lock(&p->lock);
        if (w->is_idle && (p->is_stopping || tci_clock_mono_ns() >= deadline)) {
            unlink_idle(p, w);
            return NULL;
        }
    }
    tci_work *work = w->work;
    w->work = NULL;
    return work;
}

static void join_gone(tci_worker *w)
{
    while (w != NULL) {
        tci_worker *next = w->next;
        tci_thread_join(w->thread);
        tci_free(w);
        w = next;
    }
}

static void run_worker(void *arg)
{
    tci_worker *w = arg;
    tci_workers *p = w->pool;
    tci_mutex_lock(&p->lock);
    for (tci_work *work = w->work != NULL ? w->work : next_work(p, w); work != NULL;
         work = next_work(p, w)) {
        w->work = NULL;
        tci_mutex_unlock(&p->lock);
        work->run(work);
        tci_mutex_lock(&p->lock);
    }
    tci_worker *gone = p->gone;
    w->next = NULL;
    p->gone = w;
    p->nthreads--;
    tci_wake_all(&p->left);
    tci_mutex_unlock(&p->lock); /* from here on the pool may be gone */
    join_gone(gone);
}

/* Under lock. */
static int start_worker(tci_workers *p, tci_work *work, tc_err *err)
{
    tci_worker *w = tci_new(tci_worker);
    if (w == NULL)
        return tci_err_no_memory(err);
    w->pool = p;
    w->work = work;
    /* The thread waits for the lock, so it is known who it is before anybody can join it. */
    if (tci_thread_new(run_worker, w, TCI_TASK_STACK_BYTES, &w->thread, err) < 0) {
        tci_free(w);
        return err->code;
    }
    p->nthreads++;
    return 0;
}

int tci_workers_run(tci_workers *p, tci_work *work, tc_err *err)
{
    int rc = 0;
    tci_mutex_lock(&p->lock);
    tci_worker *w = p->idle;
    if (w != NULL) {
        p->idle = w->next;
        w->is_idle = false;
        w->work = work;
        tci_wake_count_one(&w->wake);
    } else if (start_worker(p, work, err) < 0) {
        if (p->nthreads > 0)
            tci_list_push_back(&p->queue, &work->link); /* those there are do it */
        else
            rc = err->code;
    }
    tci_mutex_unlock(&p->lock);
    if (w != NULL)
        tci_wake_send(&w->wake, UINT32_MAX); /* not into a lock that is held */
    return rc;
}

void tci_workers_done(tci_workers *p)
{
    tci_mutex_lock(&p->lock);
    p->is_stopping = true;
    for (tci_worker *w = p->idle; w != NULL; w = w->next)
        tci_wake_all(&w->wake);
    while (p->nthreads > 0) {
        unsigned seen = tci_wake_count(&p->left);
        tci_mutex_unlock(&p->lock);
        tci_wake_wait(&p->left, seen, 0);
        tci_mutex_lock(&p->lock);
    }
    tci_worker *gone = p->gone;
    p->gone = NULL;
    tci_mutex_unlock(&p->lock);
    join_gone(gone);
    tci_mutex_done(&p->lock);
}
