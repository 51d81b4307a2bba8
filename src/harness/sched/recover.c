/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening over what a session holds: live tasks are loaded, and those that were cut off are made ready
 * again, in one commit. Leaves everything that follows (marks, ends, running) to the passes. Runs once,
 * before the harness is anybody else's. Invariant: without tasks that were running nothing is written. */
#include "harness/sched/sched_int.h"

static const char *const live_statuses[] = {"pending", "running", "waiting", "sleeping",
                                            "completing"};

typedef struct recovery {
    tc_harness *h;
    tc_tx *tx;
    tci_arena a;
} recovery;

static int abandoned(tc_harness *h, uint64_t id, tc_err *err)
{
    uint64_t *more = tci_mem_resize(h->abandoned, (h->nabandoned + 1) * sizeof(*more));
    if (more == NULL)
        return tci_err_no_memory(err);
    h->abandoned = more;
    h->abandoned[h->nabandoned++] = id;
    return 0;
}

static int load_status(recovery *r, const char *status, tc_err *err)
{
    tc_task_query query = TC_TASK_QUERY_ALL;
    tc_page page = {.limit = 256};
    query.status = tci_str(status);
    do {
        tci_task *tasks;
        size_t n;
        tci_arena_clear(&r->a);
        if (tci_durable_scan_tasks(r->h->session, &query, &page, &r->a, &tasks, &n, &page.cursor,
                                   err) < 0)
            return err->code;
        for (size_t i = 0; i < n; i++) {
            tci_live *live;
            bool is_new;
            tci_mutex_lock(&r->h->lock);
            int rc = tci_live_put(r->h, &tasks[i], &live, &is_new, err);
            tci_mutex_unlock(&r->h->lock);
            if (rc < 0)
                return rc;
        }
    } while (page.cursor.after != 0);
    return 0;
}

/* What the lists should have of a task that was there before. With the lock. */
static int enlist(tc_harness *h, tci_live *live, tc_err *err)
{
    const tci_task *t = &live->task;
    live->was_here = true;
    if (tci_live_link(h, live, err) < 0)
        return err->code;
    if (tci_live_is_cancelling(live))
        tci_list_push_back(&h->intents, &live->intent);
    if (t->is_abandoned_on_restart && !t->is_abort_requested && abandoned(h, t->id, err) < 0)
        return err->code;
    switch (t->status) {
    case TCI_TASK_COMPLETING:
        tci_list_push_back(&h->finalize_checks, &live->check);
        break;
    case TCI_TASK_SLEEPING:
        if (tci_sched_track_sleep(h, live, err) < 0)
            return err->code;
        tci_sched_push_runnable(h, live);
        break;
    case TCI_TASK_WAITING:
        if (live->is_fail_fast)
            tci_list_push_back(&h->fail_checks, &live->fail_check);
        if (live->nopen == 0 || t->is_abort_requested)
            tci_sched_push_runnable(h, live);
        break;
    case TCI_TASK_PENDING:
    case TCI_TASK_RUNNING:
        tci_sched_push_runnable(h, live);
        break;
    case TCI_TASK_TERMINAL:
        break;
    }
    return 0;
}

static int stage_cut_off(recovery *r, tci_live *live, tc_err *err)
{
    live->was_cut_off = true;
    tci_buf state, restarts;
    tci_buf_init(&state, TCI_BUF_MAX);
    tci_buf_init(&restarts, TCI_BUF_MAX);
    tci_buf_append_str(&state, TC_STR("{\"status\":\"pending\",\"checkpoint\":"));
    tci_json_put(&state, tci_json_get(live->state, TC_STR("checkpoint")), TCI_JSON_AS_IS);
    tci_buf_append_byte(&state, '}');
    tci_buf_append_u64(&restarts, live->task.restarts + 1);
    const tci_json_change changes[] = {{TC_STR("state"), tci_buf_str(&state)},
                                       {TC_STR("restarts"), tci_buf_str(&restarts)}};
    int rc = tci_buf_error(&state, err) < 0 ? err->code : tci_buf_error(&restarts, err);
    if (rc == 0)
        rc = tci_tx_change_task(r->tx, &live->task, changes, 2, err);
    tci_buf_done(&state);
    tci_buf_done(&restarts);
    return rc;
}

static int load_all(recovery *r, tc_err *err)
{
    tc_harness *h = r->h;
    for (size_t i = 0; i < sizeof(live_statuses) / sizeof(live_statuses[0]); i++)
        if (load_status(r, live_statuses[i], err) < 0)
            return err->code;
    int rc = 0;
    tci_mutex_lock(&h->lock);
    TCI_LIST_EACH (&h->lives, k) {
        if (rc == 0)
            rc = enlist(h, TCI_CONTAINER(k, tci_live, all), err);
    }
    /* Marks that a crash left unapplied, inputs that it left queued. */
    h->is_cascade_pending = !tci_list_is_empty(&h->intents);
    tci_mutex_unlock(&h->lock);
    TCI_LIST_EACH (&h->lives, k) {
        tci_live *live = TCI_CONTAINER(k, tci_live, all);
        if (rc == 0 && live->task.status == TCI_TASK_RUNNING)
            rc = stage_cut_off(r, live, err);
    }
    return rc;
}

/* Those that were parked by it, or before. */
static void report_parked(tc_harness *h)
{
    uint64_t limit = tci_sched_restart_limit(h);
    tci_snapshot *s = tci_harness_snapshot(h);
    TCI_LIST_EACH (&h->lives, k) {
        const tci_live *live = TCI_CONTAINER(k, tci_live, all);
        tc_str extension;
        const tc_task_def *def = tci_snapshot_task(s, live->task.kind, &extension);
        if (!tci_sched_is_parked(live, def, limit) || !live->was_cut_off)
            continue;
        tc_err error;
        (void)tc_err_set(&error, TC_E_BUSY,
                         "task %llu (%.*s) was cut off %llu times without progress; it is parked "
                         "until it is retried",
                         (unsigned long long)live->task.id, TC_STR_ARG(live->task.kind),
                         (unsigned long long)live->task.restarts);
        tci_harness_report(h, &(tc_report){.type = TC_REPORT_TASK_PARKED,
                                           .message = tci_str(error.msg),
                                           .task_id = live->task.id,
                                           .kind = live->task.kind,
                                           .conversation_id = live->task.conversation_id,
                                           .extension = extension});
    }
    tci_snapshot_unref(s);
}

int tci_recover(tc_harness *h, tc_ctx *ctx, tc_err *err)
{
    recovery r = {.h = h};
    if (tc_durable_begin(h->session, ctx, &r.tx, err) < 0)
        return err->code;
    tci_arena_init(&r.a, 0);
    int rc = load_all(&r, err);
    if (rc < 0)
        tc_tx_rollback(r.tx);
    else
        rc = tc_tx_commit(r.tx, err);
    tci_arena_done(&r.a);
    if (rc < 0)
        return rc;
    report_parked(h);
    tci_mutex_lock(&h->lock);
    h->is_open = true;
    h->is_called = false;
    h->is_dirty = false;
    if (tci_reconcile_has_work(h))
        tci_sched_kick_locked(h);
    if (h->reports != NULL || h->options.on_wake != NULL)
        tci_sched_call_locked(h);
    tci_mutex_unlock(&h->lock);
    return 0;
}
