/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls at a later time. The scheduler's thread looks at the clock, threads of the pool make the
 * calls, few at a time: what is called commits, and commits take turns anyway. Invariant: the list is
 * ordered by time, and a call is on it, on the list of due ones, or being made, or not set. */
#include "harness/sched/sched_int.h"

#include "base/num.h"
#include "plat/clock.h"

enum { THREADS_MAX = 4 };
enum { IDLE, SET, READY, CALLING, CALLING_SET }; /* tci_later.state */

static void insert(tc_harness *h, tci_later *later)
{
    tci_later **at = &h->laters;
    while (*at != NULL && (*at)->due_ns <= later->due_ns)
        at = &(*at)->next;
    later->next = *at;
    *at = later;
}

static bool unlink_from(tci_later **at, tci_later *later)
{
    while (*at != NULL && *at != later)
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    *at = later->next;
    return true;
}

void tci_later_set(tc_harness *h, tci_later *later, int64_t due_ns, void (*call)(void *arg),
                   void *arg)
{
    tci_mutex_lock(&h->lock);
    if (later->state == SET)
        (void)unlink_from(&h->laters, later);
    later->harness = h;
    later->due_ns = due_ns;
    later->call = call;
    later->arg = arg;
    bool is_first = h->laters == NULL || h->laters->due_ns > due_ns;
    if (later->state == IDLE || later->state == SET) {
        later->state = SET;
        insert(h, later);
    } else if (later->state == CALLING || later->state == CALLING_SET) {
        later->state = CALLING_SET; /* put on the list when the call under way has returned */
    }                               /* READY: it comes at once anyway */
    if (is_first)
        tci_sched_call_locked(h);
    tci_mutex_unlock(&h->lock);
}

static void call_ready(tci_work *w)
{
    tci_late_work *work = TCI_CONTAINER(w, tci_late_work, work);
    tc_harness *h = work->h;
    tci_mutex_lock(&h->lock);
    for (tci_later *later; (later = h->late_ready) != NULL;) {
        h->late_ready = later->next;
        later->state = CALLING;
        void (*call)(void *arg) = later->call;
        void *arg = later->arg;
        tci_mutex_unlock(&h->lock);
        call(arg);
        tci_mutex_lock(&h->lock);
        if (later->state == CALLING_SET) {
            later->state = SET;
            insert(h, later);
            tci_sched_call_locked(h);
        } else {
            later->state = IDLE;
        }
        tci_wake_all(&h->late_done);
    }
    work->is_busy = false;
    tci_wake_all(&h->late_done);
    tci_mutex_unlock(&h->lock);
}

void tci_later_drop(tci_later *later)
{
    tc_harness *h = later->harness;
    if (h == NULL)
        return;
    tci_mutex_lock(&h->lock);
    while (later->state != IDLE) {
        if (later->state == SET && unlink_from(&h->laters, later)) {
            later->state = IDLE;
        } else if (later->state == READY && unlink_from(&h->late_ready, later)) {
            later->state = IDLE;
        } else {
            if (later->state == CALLING_SET)
                later->state = CALLING;
            unsigned seen = tci_wake_count(&h->late_done);
            tci_mutex_unlock(&h->lock);
            tci_wake_wait(&h->late_done, seen, 0);
            tci_mutex_lock(&h->lock);
        }
    }
    tci_mutex_unlock(&h->lock);
}

static void start_thread(tc_harness *h)
{
    tc_err err;
    for (size_t i = 0; i < THREADS_MAX; i++) {
        tci_late_work *work = &h->late_work[i];
        if (work->is_busy)
            continue;
        work->is_busy = true;
        work->h = h;
        work->work.run = call_ready;
        if (tci_workers_run(&h->workers, &work->work, &err) < 0)
            work->is_busy = false; /* no thread to be had: the next look at the clock tries again */
        return;
    }
}

int64_t tci_laters_run(tc_harness *h, int64_t now_ns)
{
    tci_later **end = &h->late_ready;
    size_t n = 0;
    while (*end != NULL) {
        end = &(*end)->next;
        n++;
    }
    for (tci_later *later; (later = h->laters) != NULL && later->due_ns <= now_ns; n++) {
        h->laters = later->next;
        later->next = NULL;
        later->state = READY;
        *end = later;
        end = &later->next;
    }
    for (size_t i = 0; i < n && i < THREADS_MAX; i++)
        start_thread(h);
    return h->laters != NULL ? h->laters->due_ns : 0;
}

/* Closing: what is due is called, what is not never will be; its owner cancels it all the same. */
void tci_laters_stop(tc_harness *h)
{
    tci_mutex_lock(&h->lock);
    for (tci_later *later; (later = h->laters) != NULL;) {
        h->laters = later->next;
        later->state = IDLE;
    }
    for (size_t i = 0; i < THREADS_MAX; i++) {
        while (h->late_work[i].is_busy) {
            unsigned seen = tci_wake_count(&h->late_done);
            tci_mutex_unlock(&h->lock);
            tci_wake_wait(&h->late_done, seen, 0);
            tci_mutex_lock(&h->lock);
        }
    }
    for (tci_later *later; (later = h->late_ready) != NULL;) {
        h->late_ready = later->next;
        later->state = IDLE;
    }
    tci_mutex_unlock(&h->lock);
}
