/* SPDX-License-Identifier: Apache-2.0
 *
 * Reconciling: what follows from ends and cancellations. One pass is one commit: it marks what is
 * below a cancelled owner, marks the rest of a failFast wait that failed, withdraws inputs queued below
 * cancelled owners, and ends tasks that only waited for their own work. Leaves running anything to
 * reservation, and works while scheduling is paused too. Invariant: all it does is derived from
 * records, so that a pass that a crash undid is made again at the next open. */
#include "harness/sched/sched_int.h"

bool tci_reconcile_has_work(const tc_harness *h)
{
    return h->is_cascade_pending || !tci_list_is_empty(&h->finalize_checks) ||
           !tci_list_is_empty(&h->fail_checks);
}

int tci_tx_stage_mark(tc_tx *tx, const tci_task *record, bool is_restart, tc_err *err)
{
    const tci_json_change changes[] = {
        {TC_STR("abortRequested"), TC_STR("true")},
        {TC_STR("abortReason"), is_restart ? TC_STR("\"restart\"") : (tc_str){NULL, 0}},
        {TC_STR("restarts"), {NULL, 0}}};
    return tci_tx_change_task(tx, record, changes, 3, err);
}

/* One pass. The lists it works on were taken at its beginning. */
typedef struct pass {
    tc_harness *h;
    tc_tx *tx;
    tci_arena a;
    bool is_cascade;
    tci_by_id marks; /* task id -> &restart_mark or &host_mark */
    tci_live **fails, **finals;
    size_t nfails, nfinals, cap;
} pass;

static char restart_mark, host_mark;

/* A host's mark replaces a restart's, never the other way round; nothing is marked twice alike. */
static int mark(pass *p, const tci_live *live, bool is_restart, tc_err *err)
{
    const tci_task *t = &live->task;
    void *staged = tci_by_id_get(&p->marks, t->id);
    if (staged == &host_mark || (staged != NULL && is_restart))
        return 0;
    if (t->is_abort_requested && (!t->is_abort_by_restart || is_restart))
        return 0;
    if (tci_tx_stage_mark(p->tx, t, is_restart, err) < 0)
        return err->code;
    tci_by_id_remove(&p->marks, t->id);
    return tci_by_id_put(&p->marks, t->id, is_restart ? &restart_mark : &host_mark, err);
}

static int cascade(pass *p, tc_err *err)
{
    TCI_LIST_EACH (&p->h->intents, k) {
        const tci_live *owner = TCI_CONTAINER(k, tci_live, intent);
        bool is_restart = owner->task.is_abort_by_restart && !owner->is_outcome_failed;
        tci_live **below;
        size_t n;
        if (tci_node_all_below(owner->node, false, &p->a, &below, &n, err) < 0)
            return err->code;
        for (size_t i = 0; i < n; i++)
            if (mark(p, below[i], is_restart, err) < 0)
                return err->code;
    }
    return 0;
}

/* Has a member of the wait failed? A member that is not alive has ended: its record says how. */
static int has_failed_member(pass *p, const tci_live *waiter, bool *ret, tc_err *err)
{
    const tci_json *on = tci_json_get(waiter->state, TC_STR("on"));
    *ret = false;
    for (size_t i = 0; on != NULL && on->kind == TCI_JSON_ARRAY && i < on->count && !*ret; i++) {
        uint64_t id;
        if (!tci_json_as_u64(&on->u.items[i], &id))
            continue;
        const tci_live *member = tci_live_of(p->h, id);
        if (member != NULL) {
            *ret = member->is_outcome_failed;
            continue;
        }
        tci_task ended, decoded;
        const tci_json *tree;
        if (tci_durable_task(p->h->session, id, &p->a, &ended, err) < 0 ||
            (ended.id != 0 && tci_task_parse(ended.json, &p->a, &tree, &decoded, err) < 0))
            return err->code;
        *ret = ended.id != 0 && tci_outcome_is_failed(tci_json_get(tree, TC_STR("state")));
    }
    return 0;
}

static int fail_fast(pass *p, tc_err *err)
{
    for (size_t f = 0; f < p->nfails; f++) {
        const tci_live *waiter = p->fails[f];
        bool is_failed;
        if (waiter->task.status != TCI_TASK_WAITING)
            continue;
        if (has_failed_member(p, waiter, &is_failed, err) < 0)
            return err->code;
        const tci_json *on = tci_json_get(waiter->state, TC_STR("on"));
        for (size_t i = 0; is_failed && i < on->count; i++) {
            uint64_t id;
            tci_live *member = NULL;
            if (tci_json_as_u64(&on->u.items[i], &id))
                member = tci_live_of(p->h, id);
            if (member != NULL && !member->is_outcome_failed && mark(p, member, false, err) < 0)
                return err->code;
        }
    }
    return 0;
}

/* Inputs that are queued where nobody will answer. */
static int withdraw(pass *p, tc_err *err)
{
    if (p->h->parts == NULL || p->h->parts->withdraw_inputs == NULL ||
        tci_list_is_empty(&p->h->intents))
        return 0;
    tci_by_id done = {0};
    tc_page page = {.limit = 256};
    int rc = 0;
    do {
        tci_submission *queued;
        size_t n;
        rc = tci_durable_scan_submissions(p->h->session, 0, TCI_SUBMISSION_QUEUED, &page, &p->a,
                                          &queued, &n, &page.cursor, err);
        for (size_t i = 0; rc == 0 && i < n; i++) {
            tci_place place;
            if (queued[i].type != TCI_SUBMISSION_INPUT ||
                tci_by_id_get(&done, queued[i].conversation_id) != NULL)
                continue;
            rc = tci_by_id_put(&done, queued[i].conversation_id, &done, err);
            if (rc == 0)
                rc = tci_conversation_place(p->h, queued[i].conversation_id, 0, false, &place, err);
            if (rc == 0 && place.is_below_cancelled)
                rc = p->h->parts->withdraw_inputs(p->h, p->tx, queued[i].conversation_id,
                                                  TC_STR("aborted"), err);
        }
    } while (rc == 0 && page.cursor.after != 0);
    tci_by_id_done(&done);
    return rc;
}

/* End one completing task whose own work is gone. *ret_above: a completing one above it, to look at
 * next; NULL: none. */
static int finalize_one(pass *p, tci_live *live, tci_live **ret_above, tc_err *err)
{
    tci_task now, decoded;
    const tci_json *tree;
    bool has_work;
    *ret_above = NULL;
    if (tci_tx_current_task(p->tx, live->task.id, &p->a, &now, err) < 0)
        return err->code;
    if (now.status != TCI_TASK_COMPLETING)
        return 0;
    if (tci_tx_has_owned_live(p->h, p->tx, now.id, &has_work, err) < 0)
        return err->code;
    if (has_work)
        return 0;
    if (tci_task_parse(now.json, &p->a, &tree, &decoded, err) < 0)
        return err->code;
    const tci_json *outcome = tci_json_get(tci_json_get(tree, TC_STR("state")), TC_STR("outcome"));
    if (outcome == NULL)
        return tc_err_set(err, TC_E_PARSE, "task %llu completes without an outcome",
                          (unsigned long long)now.id);
    tci_buf text, state;
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_buf_init(&state, TCI_BUF_MAX);
    tci_json_put(&text, outcome, TCI_JSON_AS_IS);
    tci_buf_append_str(&state, TC_STR("{\"status\":\"terminal\",\"outcome\":"));
    tci_buf_append_str(&state, tci_buf_str(&text));
    tci_buf_append_byte(&state, '}');
    int rc = tci_buf_error(&state, err);
    if (rc == 0)
        rc = tci_tx_stage_state(p->tx, &now, tci_buf_str(&state), true, err);
    if (rc == 0)
        rc = tci_tx_settle_fault(p->h, p->tx, &now, outcome, tci_buf_str(&text), err);
    tci_buf_done(&text);
    tci_buf_done(&state);
    tci_live *above = tci_live_above(live->node);
    if (above != NULL && above->task.status == TCI_TASK_COMPLETING)
        *ret_above = above;
    return rc;
}

static int finalize(pass *p, tc_err *err)
{
    for (size_t i = 0; i < p->nfinals; i++)
        for (tci_live *live = p->finals[i]; live != NULL;)
            if (finalize_one(p, live, &live, err) < 0)
                return err->code;
    return 0;
}

/* Take over the lists. On the line. */
static int take(pass *p, tc_err *err)
{
    tc_harness *h = p->h;
    tci_mutex_lock(&h->lock);
    p->is_cascade = h->is_cascade_pending;
    h->is_cascade_pending = false;
    p->fails = tci_arena_items(&p->a, tci_live *, h->nlives + 1);
    p->finals = tci_arena_items(&p->a, tci_live *, h->nlives + 1);
    bool is_ok = p->fails != NULL && p->finals != NULL;
    tci_link *k;
    while (is_ok && (k = tci_list_pop_front(&h->fail_checks)) != NULL)
        p->fails[p->nfails++] = TCI_CONTAINER(k, tci_live, fail_check);
    while (is_ok && (k = tci_list_pop_front(&h->finalize_checks)) != NULL)
        p->finals[p->nfinals++] = TCI_CONTAINER(k, tci_live, check);
    tci_mutex_unlock(&h->lock);
    return is_ok ? 0 : tci_arena_error(&p->a, err);
}

int tci_reconcile(tc_harness *h, tc_err *err)
{
    pass p = {.h = h};
    if (tc_durable_begin(h->session, NULL, &p.tx, err) < 0)
        return err->code;
    tci_arena_init(&p.a, 0);
    int rc = take(&p, err);
    if (rc == 0 && p.is_cascade)
        rc = cascade(&p, err);
    if (rc == 0)
        rc = fail_fast(&p, err);
    if (rc == 0 && p.is_cascade)
        rc = withdraw(&p, err);
    if (rc == 0)
        rc = finalize(&p, err);
    if (rc < 0)
        tc_tx_rollback(p.tx);
    else
        rc = tc_tx_commit(p.tx, err);
    tci_by_id_done(&p.marks);
    tci_arena_done(&p.a);
    return rc;
}
