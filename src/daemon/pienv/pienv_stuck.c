/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads for work that may wait for ever: each takes one task at a time, so that one that hangs holds up
 * nobody but itself. A thread stays for two idle seconds. Leaves what a task does to its owner.
 * Submitting and done on the loop thread; run on a thread of its own.
 *
 * Invariant: a thread is in idle or has a task; the list of tasks that wait is empty unless
 * TCI_PI_STUCK_MAX threads have one. */
#include "daemon/pienv/pienv_core_int.h"

#include "plat/thread.h"

enum { IDLE_MS = 2000 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STACK_BYTES = 1024 * 1024 };
#else
enum { STACK_BYTES = 256 * 1024 };
#endif

typedef struct stuck_thread {
    tci_link link; /* in idle */
    tci_pi_stuck *pool;
    tci_loop *loop;
    tci_thread *thread;
    tci_wake wake;
    _Atomic(tci_pi_task *) task;
    atomic_bool must_leave;
    tci_pi_task *running; /* the loop's view */
    tci_post post;
} stuck_thread;

static void run_thread(void *arg)
{
    stuck_thread *t = arg;
    for (;;) {
        unsigned seen = tci_wake_count(&t->wake);
        tci_pi_task *task = atomic_exchange(&t->task, NULL);
        if (task != NULL) {
            task->run(task);
            tci_loop_post(t->loop, &t->post);
        } else if (atomic_load(&t->must_leave)) {
            return;
        } else {
            tci_wake_wait(&t->wake, seen, 0);
        }
    }
}

static void give(stuck_thread *t, tci_pi_task *task)
{
    t->running = task;
    atomic_store(&t->task, task);
    tci_wake_all(&t->wake);
}

static void dismiss(stuck_thread *t)
{
    tci_pi_stuck *p = t->pool;
    tci_link_remove(&t->link);
    atomic_store(&t->must_leave, true);
    tci_wake_all(&t->wake);
    tci_thread_join(t->thread); /* it waits for nothing else any more */
    tci_free(t);
    p->nthreads--;
}

static void park(stuck_thread *t)
{
    tc_err err;
    tci_pi_stuck *p = t->pool;
    tci_list_push_front(&p->idle, &t->link);
    if (p->is_closed)
        dismiss(t);
    else if (!tci_timer_is_armed(&p->trim) && tci_timer_start(&p->trim, IDLE_MS, &err) < 0)
        dismiss(t);
}

static void on_done(tci_post *post)
{
    stuck_thread *t = TCI_CONTAINER(post, stuck_thread, post);
    tci_pi_stuck *p = t->pool;
    tci_pi_task *task = t->running;
    t->running = NULL;
    tci_link *next = tci_list_pop_front(&p->waiting);
    if (next != NULL)
        give(t, TCI_CONTAINER(next, tci_pi_task, link));
    else
        park(t);
    task->done(task);
    if (p->is_closed && p->nthreads == 0)
        p->on_empty(p);
}

/* The half that was needed least goes. */
static void on_trim(tci_timer *timer)
{
    tc_err err;
    tci_pi_stuck *p = TCI_CONTAINER(timer, tci_pi_stuck, trim);
    size_t n = 0;
    TCI_LIST_EACH (&p->idle, k)
        n++;
    for (n = (n + 1) / 2; n > 0; n--)
        dismiss(TCI_CONTAINER(p->idle.head.prev, stuck_thread, link));
    if (!tci_list_is_empty(&p->idle) && tci_timer_start(timer, IDLE_MS, &err) < 0)
        while (!tci_list_is_empty(&p->idle))
            dismiss(TCI_CONTAINER(tci_list_first(&p->idle), stuck_thread, link));
}

static stuck_thread *new_thread(tci_pi_stuck *p)
{
    tc_err err;
    stuck_thread *t = tci_new(stuck_thread);
    if (t == NULL)
        return NULL;
    t->pool = p;
    t->loop = p->loop;
    t->post.cb = on_done;
    if (tci_thread_new(run_thread, t, STACK_BYTES, &t->thread, &err) < 0) {
        tci_free(t);
        return NULL;
    }
    p->nthreads++;
    return t;
}

void tci_pi_stuck_init(tci_pi_stuck *p, tci_loop *loop, void (*on_empty)(tci_pi_stuck *stuck))
{
    *p = (tci_pi_stuck){.loop = loop, .on_empty = on_empty};
    tci_list_init(&p->idle);
    tci_list_init(&p->waiting);
    tci_timer_init(&p->trim, loop, on_trim);
}

void tci_pi_stuck_submit(tci_pi_stuck *p, tci_pi_task *task)
{
    tci_link *k = tci_list_pop_front(&p->idle);
    stuck_thread *t = k != NULL ? TCI_CONTAINER(k, stuck_thread, link) : NULL;
    if (t == NULL && p->nthreads < TCI_PI_STUCK_MAX)
        t = new_thread(p);
    if (t != NULL) {
        give(t, task);
        return;
    }
    if (p->nthreads > 0) {
        tci_list_push_back(&p->waiting, &task->link);
        return;
    }
    task->run(task); /* no thread is to be had at all */
    task->done(task);
}

void tci_pi_stuck_close(tci_pi_stuck *p)
{
    p->is_closed = true;
    tci_timer_stop(&p->trim);
    while (!tci_list_is_empty(&p->idle))
        dismiss(TCI_CONTAINER(tci_list_first(&p->idle), stuck_thread, link));
    for (tci_link *k; (k = tci_list_pop_front(&p->waiting)) != NULL;) {
        tci_pi_task *task = TCI_CONTAINER(k, tci_pi_task, link);
        task->done(task);
    }
}
