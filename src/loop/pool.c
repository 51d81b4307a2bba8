/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads that run jobs. Leaves what a job does to its owner. Submitting and done callbacks on
 * the loop thread, work on threads of the pool. Invariants: a lane has at least as many threads,
 * up to its maximum, as jobs wait for one; the loop is woken only when the list of finished jobs
 * was empty; every thread is joined, by the next one that leaves or by tci_pool_done. */
#include "loop/loop_int.h"

#include "base/mem.h"
#include "plat/thread.h"

#define IDLE_NS ((uint64_t)2 * 1000 * 1000 * 1000)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STACK_BYTES = 1024 * 1024 }; /* sanitizers need room around every variable */
#else
enum { STACK_BYTES = 256 * 1024 };
#endif

struct tci_pool_worker {
    tci_pool *pool;
    tci_pool_lane *lane;
    tci_thread *thread;
};

static void join_worker(tci_pool_worker *w)
{
    if (w == NULL)
        return;
    tci_thread_join(w->thread);
    tci_free(w);
}

/* Wait for a job; NULL when this thread is to leave. Under lock. */
static tci_job *next_job(tci_pool *p, tci_pool_lane *lane)
{
    while (lane->nqueued == 0) {
        if (p->is_stopping)
            return NULL;
        lane->nidle++;
        int rc = uv_cond_timedwait(&lane->has_work, &p->lock, IDLE_NS);
        lane->nidle--;
        if (rc == UV_ETIMEDOUT && lane->nqueued == 0)
            return NULL;
    }
    lane->nqueued--;
    return TCI_CONTAINER(tci_list_pop_front(&lane->queue), tci_job, link);
}

/* Under lock. true: the loop must be woken. */
static bool push_finished(tci_pool *p, tci_job *job)
{
    bool was_empty = tci_list_is_empty(&p->finished);
    tci_list_push_back(&p->finished, &job->link);
    return was_empty;
}

static void run_worker(void *arg)
{
    tci_pool_worker *w = arg;
    tci_pool *p = w->pool;
    uv_mutex_lock(&p->lock);
    for (tci_job *job = next_job(p, w->lane); job != NULL; job = next_job(p, w->lane)) {
        uv_mutex_unlock(&p->lock);
        job->work(job);
        uv_mutex_lock(&p->lock);
        if (push_finished(p, job)) {
            uv_mutex_unlock(&p->lock);
            (void)uv_async_send(&p->loop->async); /* fails only on what is not an async handle */
            uv_mutex_lock(&p->lock);
        }
    }
    tci_pool_worker *gone = p->last_gone;
    p->last_gone = w;
    w->lane->nthreads--;
    if (p->is_stopping)
        uv_cond_signal(&p->has_left);
    uv_mutex_unlock(&p->lock); /* from here on the pool may be gone */
    join_worker(gone);
}

/* One more thread for the lane, if there is one to be had. Under lock. */
static void start_worker(tci_pool *p, tci_pool_lane *lane)
{
    tc_err err;
    tci_pool_worker *w = tci_new(tci_pool_worker);
    if (w == NULL)
        return;
    w->pool = p;
    w->lane = lane;
    if (tci_thread_new(run_worker, w, STACK_BYTES, &w->thread, &err) < 0) {
        tci_free(w); /* the threads there are, or the caller, do the work */
        return;
    }
    lane->nthreads++;
}

void tci_job_submit(tci_loop *loop, tci_job_lane lane_id, tci_job *job)
{
    tci_loop_assert(loop);
    tci_pool *p = &loop->pool;
    tci_pool_lane *lane = &p->lanes[lane_id];
    job->loop = loop;
    job->lane = lane_id;
    loop->npending_jobs++;
    uv_mutex_lock(&p->lock);
    bool needs_thread = lane->nqueued >= lane->nidle && lane->nthreads < lane->max_threads;
    if (needs_thread)
        start_worker(p, lane);
    bool is_queued = lane->nthreads > 0, has_idle = lane->nidle > 0;
    if (is_queued) {
        tci_list_push_back(&lane->queue, &job->link);
        lane->nqueued++;
    }
    uv_mutex_unlock(&p->lock);
    if (is_queued) {
        if (has_idle)
            uv_cond_signal(&lane->has_work); /* after unlock: the thread finds the lock free */
        return;
    }
    job->work(job);
    uv_mutex_lock(&p->lock);
    (void)push_finished(p, job);
    uv_mutex_unlock(&p->lock);
    (void)uv_async_send(&loop->async); /* as above */
}

void tci_pool_deliver(tci_pool *p)
{
    tci_list batch;
    uv_mutex_lock(&p->lock);
    tci_list_take(&p->finished, &batch);
    uv_mutex_unlock(&p->lock);
    for (tci_link *k = tci_list_pop_front(&batch); k != NULL; k = tci_list_pop_front(&batch)) {
        tci_job *job = TCI_CONTAINER(k, tci_job, link);
        p->loop->npending_jobs--;
        job->done(job);
    }
}

void tci_loop_pool_size(tci_loop *loop, unsigned quick_threads, unsigned bulk_threads)
{
    tci_loop_assert(loop);
    loop->pool.lanes[TCI_JOB_QUICK].max_threads = quick_threads;
    loop->pool.lanes[TCI_JOB_BULK].max_threads = bulk_threads;
}

size_t tci_loop_pending_jobs(const tci_loop *loop)
{
    return loop->npending_jobs;
}

int tci_pool_init(tci_pool *p, tci_loop *loop, tc_err *err)
{
    p->loop = loop;
    tci_list_init(&p->finished);
    if (uv_mutex_init(&p->lock) != 0)
        return tc_err_set(err, TC_E_BUSY, "cannot make a lock");
    uv_cond_t *conds[] = {&p->has_left, &p->lanes[0].has_work, &p->lanes[1].has_work};
    for (size_t i = 0; i < TCI_ARRAY_LEN(conds); i++) {
        if (uv_cond_init(conds[i]) == 0)
            continue;
        while (i-- > 0)
            uv_cond_destroy(conds[i]);
        uv_mutex_destroy(&p->lock);
        return tc_err_set(err, TC_E_BUSY, "cannot make a condition variable");
    }
    for (size_t i = 0; i < TCI_JOB_LANES; i++) {
        tci_list_init(&p->lanes[i].queue);
        p->lanes[i].max_threads = 4;
    }
    return 0;
}

/* Let all threads finish the queue and leave. */
static void stop_threads(tci_pool *p)
{
    uv_mutex_lock(&p->lock);
    p->is_stopping = true;
    for (size_t i = 0; i < TCI_JOB_LANES; i++)
        uv_cond_broadcast(&p->lanes[i].has_work);
    while (p->lanes[TCI_JOB_QUICK].nthreads + p->lanes[TCI_JOB_BULK].nthreads > 0)
        uv_cond_wait(&p->has_left, &p->lock);
    p->is_stopping = false;
    uv_mutex_unlock(&p->lock);
}

void tci_pool_done(tci_pool *p)
{
    stop_threads(p);
    while (p->loop->npending_jobs > 0) {
        tci_pool_deliver(p); /* which may submit again */
        stop_threads(p);
    }
    join_worker(p->last_gone);
    p->last_gone = NULL;
    for (size_t i = 0; i < TCI_JOB_LANES; i++)
        uv_cond_destroy(&p->lanes[i].has_work);
    uv_cond_destroy(&p->has_left);
    uv_mutex_destroy(&p->lock);
}
