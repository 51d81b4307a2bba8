/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for the end of a task, or for a conversation to be idle. Leaves noticing to the observer.
 * The calling thread. Invariant: a waiter is answered exactly once, with the lock held, and is on no
 * list from then on. */
#include "harness/sched/sched_int.h"

enum { WAITING = 1 };

void tci_waiter_answer(tci_waiter *w, int rc, tc_code code)
{
    w->rc = rc;
    w->code = code;
    tci_link_remove(&w->link);
    tci_link_remove(&w->of_task);
    tci_wake_all(w->word);
}

void tci_waits_end_all(tc_harness *h)
{
    tci_link *k;
    TCI_LIST_EACH (&h->lives, l) {
        tci_live *live = TCI_CONTAINER(l, tci_live, all);
        while ((k = tci_list_first(&live->waiters)) != NULL)
            tci_waiter_answer(TCI_CONTAINER(k, tci_waiter, link), TC_E_CLOSED, TC_E_CLOSED);
    }
    while ((k = tci_list_first(&h->idle_waiters)) != NULL)
        tci_waiter_answer(TCI_CONTAINER(k, tci_waiter, link), TC_E_CLOSED, TC_E_CLOSED);
}

int tci_harness_closed_error(tc_harness *h, tc_err *err)
{
    return tc_durable_failure(h->session, err)
               ? err->code
               : tc_err_set(err, TC_E_CLOSED, "the harness is closed");
}

static int answer_error(tc_harness *h, const tci_waiter *w, tc_err *err)
{
    if (w->code == TC_E_CLOSED && tci_harness_is_closing(h))
        return tci_harness_closed_error(h, err);
    if (w->code == TC_E_CLOSED)
        return tc_err_set(err, TC_E_CLOSED, "the invocation that waited has ended");
    if (w->code == TC_E_CANCELLED)
        return tc_err_set(err, TC_E_CANCELLED, "the task that waited is to end");
    return tc_err_set(err, w->code, "a wait failed");
}

int tci_waiter_wait(tc_harness *h, tci_waiter *w, tc_ctx *ctx, tc_err *err)
{
    for (;;) {
        unsigned seen = tci_wake_count(w->word);
        tci_mutex_lock(&h->lock);
        int rc = w->rc;
        if (rc == WAITING && tci_ctx_check(ctx, err) < 0) {
            w->rc = rc = err->code;
            tci_link_remove(&w->link);
            tci_link_remove(&w->of_task);
            tci_mutex_unlock(&h->lock);
            return rc;
        }
        tci_mutex_unlock(&h->lock);
        if (rc != WAITING)
            return rc == 0 ? 0 : answer_error(h, w, err);
        tci_wake_wait(w->word, seen, tci_ctx_deadline_ns(ctx));
    }
}

void tci_waiter_init(tci_waiter *w, tc_ctx *ctx)
{
    *w = (tci_waiter){.rc = WAITING};
    tci_wake *word = tci_ctx_wake(ctx);
    w->word = word != NULL ? word : &w->own;
}

int tci_waiter_check(tc_harness *h, const tci_waiter *w, tc_err *err)
{
    tci_mutex_lock(&h->lock);
    int rc = w->rc;
    tci_mutex_unlock(&h->lock);
    return rc == WAITING || rc == 0 ? 0 : answer_error(h, w, err);
}

void tci_waiter_leave(tc_harness *h, tci_waiter *w)
{
    tci_mutex_lock(&h->lock);
    tci_link_remove(&w->link);
    tci_link_remove(&w->of_task);
    tci_mutex_unlock(&h->lock);
}

/* The record of a task that is not alive: *ret_again when it turns out to be so after all. */
static int read_ended(tc_harness *h, uint64_t id, tc_result *r, tc_str *ret_record, bool *ret_again,
                      tc_err *err)
{
    tci_arena a;
    tci_task task;
    tci_arena_init(&a, 0);
    *ret_again = false;
    int rc = tci_durable_task(h->session, id, &a, &task, err);
    if (rc == 0 && task.id == 0)
        rc = tc_err_set(err, TC_E_NOT_FOUND, "task %llu does not exist", (unsigned long long)id);
    else if (rc == 0 && task.status != TCI_TASK_TERMINAL)
        *ret_again = true;
    else if (rc == 0 && r != NULL)
        rc = tc_result_dup(r, task.json, ret_record, err);
    tci_arena_done(&a);
    return rc;
}

/* t or by: on whose behalf; both NULL: nobody's. */
static int wait_task(tc_harness *h, tc_task *t, const tc_bound *by, tc_ctx *ctx, uint64_t id,
                     tc_result *r, tc_str *ret_record, tc_err *err)
{
    bool is_again = true;
    while (is_again) {
        tci_waiter w;
        tci_waiter_init(&w, ctx);
        w.result = r;
        tci_mutex_lock(&h->lock);
        if (by != NULL && (t = tci_bound_task(by, err)) == NULL) {
            tci_mutex_unlock(&h->lock);
            return err->code;
        }
        bool is_closed = h->is_closing || h->is_failed;
        bool is_cancelled = t != NULL && tc_ctx_is_cancelled(&t->ctx);
        tci_live *live = tci_live_of(h, id);
        bool is_waiting = !is_closed && !is_cancelled && live != NULL;
        if (is_waiting) {
            tci_list_push_back(&live->waiters, &w.link);
            if (t != NULL)
                tci_list_push_back(&t->waiters, &w.of_task);
        }
        tci_mutex_unlock(&h->lock);
        if (is_cancelled)
            return tc_err_set(err, TC_E_CANCELLED, "task %llu is to end",
                              (unsigned long long)t->id);
        if (is_closed)
            return tci_harness_closed_error(h, err);
        if (is_waiting) {
            int rc = tci_waiter_wait(h, &w, ctx, err);
            if (rc == 0 && r != NULL)
                *ret_record = w.record;
            return rc;
        }
        if (read_ended(h, id, r, ret_record, &is_again, err) < 0)
            return err->code;
    }
    return 0;
}

/* A wait with the line held would never end. */
static int check_off_line(tc_harness *h, tc_err *err)
{
    return tci_durable_has_line(h->session)
               ? tc_err_set(err, TC_E_CONFLICT, "nothing can be waited for inside a transaction")
               : 0;
}

static tc_task *park(tc_harness *h, const tc_bound *by)
{
    return by != NULL ? tci_bound_park(by) : tci_harness_park_here(h);
}

int tci_harness_wait_task(tc_harness *h, const tc_bound *by, tc_ctx *ctx, uint64_t id, tc_result *r,
                          tc_str *ret_record, tc_err *err)
{
    if (check_off_line(h, err) < 0 || tci_harness_enable(h, err) < 0)
        return err->code;
    tc_task *parked = park(h, by);
    int rc = wait_task(h, NULL, by, ctx, id, r, ret_record, err);
    tci_harness_unpark_here(parked);
    return rc;
}

int tc_harness_wait_task(tc_harness *h, tc_ctx *ctx, uint64_t id, tc_result *r, tc_str *ret_record,
                         tc_err *err)
{
    return tci_harness_wait_task(h, NULL, ctx, id, r, ret_record, err);
}

int tci_task_wait(tc_task *t, tc_ctx *ctx, uint64_t id, tc_result *r, tc_str *ret_record,
                  tc_err *err)
{
    if (check_off_line(t->h, err) < 0)
        return err->code;
    tci_task_park(t);
    int rc = wait_task(t->h, t, NULL, ctx, id, r, ret_record, err);
    tci_task_unpark(t);
    /* A task of a session that failed has ended with it: it has nothing to say of it. */
    return rc < 0 && tci_harness_is_closing(t->h) ? tc_err_recode(err, TC_E_CLOSED) : rc;
}

/* Puts w on the lists of who waits for it, unless it is so already. With the lock. */
static int join_idle(tc_harness *h, const tc_bound *by, tci_waiter *w, tc_err *err)
{
    tc_task *t = NULL;
    if (by != NULL && (t = tci_bound_task(by, err)) == NULL)
        return err->code;
    if (t != NULL && tci_task_keeps_busy(t, w->conversation_id))
        return tc_err_set(err, TC_E_CONFLICT,
                          "task %llu keeps conversation %llu busy itself: it would wait for ever",
                          (unsigned long long)t->id, (unsigned long long)w->conversation_id);
    if (tci_harness_is_idle(h, w->conversation_id)) {
        w->rc = 0;
        return 0;
    }
    tci_list_push_back(&h->idle_waiters, &w->link);
    if (t != NULL)
        tci_list_push_back(&t->waiters, &w->of_task);
    return 0;
}

int tci_harness_wait_idle(tc_harness *h, const tc_bound *by, tc_ctx *ctx, uint64_t conversation_id,
                          tc_err *err)
{
    tci_waiter w;
    if (check_off_line(h, err) < 0 || tci_harness_enable(h, err) < 0)
        return err->code;
    tci_waiter_init(&w, ctx);
    w.conversation_id = conversation_id;
    tci_mutex_lock(&h->lock);
    bool is_closed = h->is_closing || h->is_failed;
    int rc = is_closed ? 0 : join_idle(h, by, &w, err);
    tci_mutex_unlock(&h->lock);
    if (is_closed)
        return tci_harness_closed_error(h, err);
    if (rc < 0)
        return rc;
    tc_task *parked = park(h, by);
    rc = tci_waiter_wait(h, &w, ctx, err);
    tci_harness_unpark_here(parked);
    return rc;
}

int tc_harness_wait_idle(tc_harness *h, tc_ctx *ctx, uint64_t conversation_id, tc_err *err)
{
    return tci_harness_wait_idle(h, NULL, ctx, conversation_id, err);
}
