/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations as the code of one invocation uses them: who asks, whether he may still, and what would
 * wait for itself. Leaves submissions to submit.c and waiting to waits.c. Any thread of that code.
 * Invariant: what is bound to an invocation does nothing once that one is over; it is found by its
 * number, never by a pointer. */
#include "harness/sched/sched_int.h"

tc_task *tci_bound_task(const tc_bound *c, tc_err *err)
{
    tc_harness *h = c->harness;
    const tci_live *live = tci_live_of(h, c->task);
    tc_task *t = live != NULL ? live->invocation : NULL;
    unsigned long long id = c->task;
    if (h->is_failed)
        *err = h->failure;
    else if (h->is_closing)
        (void)tc_err_set(err, TC_E_CANCELLED, "the harness closes; task %llu goes on later", id);
    else if (t == NULL || t->serial != c->invocation || t->is_ended)
        (void)tc_err_set(err, TC_E_CLOSED,
                         "the invocation of task %llu that asked for this conversation has ended",
                         id);
    else if (t->mode != TCI_MODE_ABORT && live->task.is_abort_requested)
        (void)tc_err_set(err, TC_E_CANCELLED, "task %llu is to be aborted", id);
    else
        return t;
    return NULL;
}

static int check(const tc_bound *c, tc_err *err)
{
    tci_mutex_lock(&c->harness->lock);
    const tc_task *t = tci_bound_task(c, err);
    tci_mutex_unlock(&c->harness->lock);
    return t != NULL ? 0 : err->code;
}

int tc_task_conversation(tc_task *t, uint64_t id, struct tc_bound *ret_bound, tc_err *err)
{
    const tc_bound c = {
        .harness = t->h, .conversation = id, .task = t->id, .invocation = t->serial};
    tci_arena a;
    tci_conversation found;
    if (check(&c, err) < 0)
        return err->code;
    tci_arena_init(&a, 0);
    int rc = tci_durable_conversation(t->h->session, id, &a, &found, err);
    if (rc == 0 && found.id == 0)
        rc = tc_err_set(err, TC_E_NOT_FOUND, "no conversation %llu", (unsigned long long)id);
    tci_arena_done(&a);
    if (rc == 0)
        *ret_bound = c;
    return rc;
}

int tci_bound_begin(const tc_bound *c, tc_ctx *ctx, tc_tx **ret_tx, tc_err *err)
{
    tc_tx *tx;
    if (check(c, err) < 0 || tc_durable_begin(c->harness->session, ctx, &tx, err) < 0)
        return err->code;
    if (check(c, err) < 0) { /* again, now that it has its turn */
        tc_tx_rollback(tx);
        return err->code;
    }
    *ret_tx = tx;
    return 0;
}

int tci_bound_join(const tc_bound *c, tci_waiter *w, tc_err *err)
{
    tci_mutex_lock(&c->harness->lock);
    tc_task *t = tci_bound_task(c, err);
    if (t != NULL)
        tci_list_push_back(&t->waiters, &w->of_task);
    tci_mutex_unlock(&c->harness->lock);
    return t != NULL ? 0 : err->code;
}

tc_task *tci_bound_park(const tc_bound *c)
{
    tc_harness *h = c->harness;
    tci_mutex_lock(&h->lock);
    const tci_live *live = tci_live_of(h, c->task);
    tc_task *t = live != NULL ? live->invocation : NULL;
    if (t != NULL && (t->serial != c->invocation || t->thread != tci_task_thread_mark()))
        t = NULL;
    tci_mutex_unlock(&h->lock);
    if (t != NULL)
        tci_task_park(t); /* it cannot go: its handler is here */
    return t;
}

/* ---- waiting for oneself ---- */

/* The next one above that is not over before node is; NULL: nobody waits for it. */
static const tci_node *waits_for(const tci_node *node)
{
    return node->is_background ? NULL : node->parent;
}

bool tci_task_keeps_busy(const tc_task *t, uint64_t conversation_id)
{
    for (const tci_node *n = t->live->node; n != NULL; n = waits_for(n))
        if (n->is_conversation && n->id == conversation_id)
            return true;
    return false;
}

bool tci_bound_is_awaited_by(const tc_bound *c, uint64_t task)
{
    bool is_found = false;
    tci_mutex_lock(&c->harness->lock);
    const tci_live *live = tci_live_of(c->harness, c->task);
    for (const tci_node *n = live != NULL ? live->node : NULL; n != NULL && !is_found;
         n = waits_for(n))
        is_found = !n->is_conversation && n->id == task;
    tci_mutex_unlock(&c->harness->lock);
    return is_found;
}
