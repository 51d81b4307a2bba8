/* SPDX-License-Identifier: Apache-2.0
 *
 * One invocation, from its reservation to its end: phase after phase, or the abort handler once.
 * Leaves what a phase does to its definition. Runs on a thread of the pool. Invariant: between phases
 * the record is looked at again, and nothing of a task runs once it is marked (but its abort handler),
 * taken over, or the harness closes. */
#include "harness/sched/sched_int.h"

/* What came of the phase before. */
typedef struct passed {
    tci_buf checkpoint; /* the one it started with, as text */
    bool is_any, is_failed;
    tc_err error;
} passed;

/* ---- what the handler sees ---- */

/* A value as text in r's storage; empty for none. */
static int keep_text(const tci_json *v, tc_result *r, tc_str *ret, tc_err *err)
{
    tci_buf b;
    *ret = (tc_str){NULL, 0};
    if (v == NULL)
        return 0;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, v, TCI_JSON_AS_IS);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_result_dup(r, tci_buf_str(&b), ret, err);
    tci_buf_done(&b);
    return rc;
}

/* Copy the record for the handler, and its checkpoint for the comparison afterwards. With the lock. */
static int show(tc_task *t, passed *p, tc_err *err)
{
    const tci_live *live = t->live;
    const tci_task *task = &live->task;
    tc_result_clear(t->result);
    t->info = (tc_task_info){.id = task->id,
                             .conversation_id = task->conversation_id,
                             .owner_task_id = task->owner,
                             .version = task->version,
                             .is_background = task->is_background,
                             .is_abort = t->mode == TCI_MODE_ABORT,
                             .abandon_on_restart = task->is_abandoned_on_restart,
                             .restarts = task->restarts};
    if (task->is_abort_by_restart)
        t->info.abort_reason = TC_STR("restart");
    if (tc_result_dup(t->result, task->json, &t->info.record, err) < 0 ||
        tc_result_dup(t->result, task->kind, &t->info.kind, err) < 0 ||
        tc_result_dup(t->result, live->phase, &t->info.phase, err) < 0 ||
        keep_text(tci_json_get(live->tree, TC_STR("input")), t->result, &t->info.input, err) < 0 ||
        keep_text(tci_json_get(live->state, TC_STR("checkpoint")), t->result, &t->info.checkpoint,
                  err) < 0)
        return err->code;
    tci_buf_clear(&p->checkpoint); /* the handler may clear its result, so this is kept apart */
    tci_buf_append_str(&p->checkpoint, t->info.checkpoint);
    return tci_buf_error(&p->checkpoint, err);
}

/* Is the checkpoint the one the phase started with? Equal by value, whatever the spelling. */
static bool is_same_checkpoint(const tci_live *live, const passed *p)
{
    tci_arena a;
    tci_json before;
    tc_err err;
    tci_arena_init(&a, 0);
    bool is_same =
        tci_json_parse(tci_buf_str(&p->checkpoint), TCI_JSON_DURABLE, &a, &before, &err) == 0 &&
        tci_json_equal(tci_json_get(live->state, TC_STR("checkpoint")), &before);
    tci_arena_done(&a);
    return is_same;
}

/* ---- the end of an invocation ---- */

/* With the lock. */
void tci_task_cancel(tc_task *t)
{
    tc_ctx_cancel(&t->ctx);
    tci_link *k;
    while ((k = tci_list_first(&t->waiters)) != NULL)
        tci_waiter_answer(TCI_CONTAINER(k, tci_waiter, of_task), TC_E_CANCELLED, TC_E_CANCELLED);
}

/* The invocation is over. The next one for this thread, NULL: none. */
static tc_task *finish(tc_task *t)
{
    tc_harness *h = t->h;
    tci_mutex_lock(&h->lock);
    t->is_ended = true;
    if (t->live != NULL) {
        t->live->invocation = NULL;
        if (t->live->task.status != TCI_TASK_COMPLETING &&
            (t->live->task.status != TCI_TASK_WAITING || t->live->nopen == 0 ||
             t->live->task.is_abort_requested))
            tci_sched_push_runnable(h, t->live);
    }
    tci_link_remove(&t->link);
    h->ninvocations--;
    if (t->nparked == 0)
        h->nrunning--;
    h->is_dirty = h->is_dirty || !tci_list_is_empty(&h->runnable);
    bool has_work = h->is_dirty && !h->is_stopping;
    if (h->options.on_wake != NULL)
        tci_sched_call_locked(h);
    tci_link *k;
    while ((k = tci_list_first(&t->joiners)) != NULL)
        tci_waiter_answer(TCI_CONTAINER(k, tci_waiter, link), 0, TC_OK);
    while ((k = tci_list_first(&t->waiters)) != NULL) /* of threads that outlive their handler */
        tci_waiter_answer(TCI_CONTAINER(k, tci_waiter, of_task), TC_E_CLOSED, TC_E_CLOSED);
    if (h->is_closing)
        tci_wake_all(&h->ended);
    tci_mutex_unlock(&h->lock);
    tci_snapshot_unref(t->snapshot);
    tc_result_free(t->result);
    tci_free(t);
    tc_task *next = NULL;
    if (has_work)
        tci_sched_passes(h, &next); /* closing waits for this thread */
    return next;
}

/* ---- faults ---- */

static int stage_fault(tc_task *t, tc_tx *tx, const tc_err *error, bool *ret_is_faulted,
                       tc_err *err)
{
    tc_harness *h = t->h;
    tci_mutex_lock(&h->lock);
    const tci_live *live = t->live;
    bool holds = live != NULL && live->task.status == TCI_TASK_RUNNING && !h->is_closing &&
                 !(t->mode != TCI_MODE_ABORT && live->task.is_abort_requested);
    t->is_ended = true;
    tci_mutex_unlock(&h->lock);
    *ret_is_faulted = holds;
    if (!holds)
        return 0;
    tci_buf outcome;
    tci_buf_init(&outcome, TCI_BUF_MAX);
    tci_buf_append_str(&outcome, TC_STR("{\"status\":\"faulted\",\"error\":{\"message\":"));
    tci_json_put_str(&outcome, tci_str(error->msg));
    tci_buf_append_str(&outcome, TC_STR("}}"));
    int rc = tci_buf_error(&outcome, err);
    if (rc == 0)
        rc = tci_tx_terminate(h, tx, &live->task, tci_buf_str(&outcome), err);
    tci_buf_done(&outcome);
    return rc;
}

/* The task ends as faulted, and that is told once it is so. */
static void fault(tc_task *t, const tc_err *error)
{
    tc_err err;
    tc_tx *tx;
    bool is_faulted = false;
    int rc = tc_durable_begin(t->h->session, NULL, &tx, &err);
    if (rc < 0)
        return; /* closed: it is found running and goes on, or was told of as failed */
    rc = stage_fault(t, tx, error, &is_faulted, &err);
    if (rc < 0)
        tc_tx_rollback(tx);
    else
        rc = tc_tx_commit(tx, &err);
    if (rc < 0)
        tci_durable_fail(t->h->session, &err);
    else if (is_faulted)
        tci_harness_report_task(t->h, TC_REPORT_TASK_FAULTED, &t->info, t->extension,
                                TC_STR("threw"), error);
}

/* ---- between phases ---- */

typedef enum decision { STOP, GO, FAULT, HAND_OVER } decision;

/* Another definition is installed: take it over, or tell once that it cannot. With the lock; GO,
 * HAND_OVER. *ret_reason: what to tell, NULL: nothing. */
static decision follow_registry(tc_task *t, const tci_live *live, tci_snapshot *now,
                                const char **ret_reason)
{
    tc_str extension;
    const tc_task_def *def = tci_snapshot_task(now, live->task.kind, &extension);
    *ret_reason = NULL;
    if (def == t->def) {
        tci_snapshot *old = t->snapshot;
        t->snapshot = tci_snapshot_ref(now);
        t->extension = extension;
        tci_snapshot_unref(old);
        return GO;
    }
    if (def != NULL && (def->version == live->task.version ||
                        (def->version > live->task.version && def->migrate != NULL)))
        return HAND_OVER;
    if ((def == NULL && t->is_reported_missing) || (def != NULL && t->reported == def))
        return GO;
    t->is_reported_missing = def == NULL;
    t->reported = def;
    *ret_reason = def == NULL ? "missing_task" : "incompatible_task";
    return GO;
}

/* Look at the record again. With the lock. */
static decision decide(tc_task *t, passed *p, tci_snapshot *now, const char **ret_reason,
                       tc_err *error)
{
    tc_harness *h = t->h;
    const tci_live *live = t->live;
    *ret_reason = NULL;
    if (h->is_closing || h->is_failed || live == NULL || live->task.status != TCI_TASK_RUNNING)
        return STOP;
    if (t->mode == TCI_MODE_RUN || t->mode == TCI_MODE_LIMIT) {
        if (live->task.is_abort_requested)
            return STOP;
        if (!live->node->is_background && tci_node_is_below_cancelled(live->node)) {
            h->is_cascade_pending = true;
            tci_sched_kick_locked(h);
            return STOP;
        }
    }
    if (!p->is_any)
        return GO;
    if (p->is_failed) {
        *error = p->error;
        return FAULT;
    }
    if (is_same_checkpoint(live, p)) {
        (void)tc_err_set(error, TC_E_INVALID,
                         "task %.*s phase %.*s returned without durable progress",
                         TC_STR_ARG(live->task.kind), TC_STR_ARG(live->phase));
        return FAULT;
    }
    return now != t->snapshot ? follow_registry(t, live, now, ret_reason) : GO;
}

/* Written back as pending: the new definition takes it from there. */
static void hand_over(tc_task *t)
{
    tc_err err;
    tc_tx *tx;
    tc_harness *h = t->h;
    if (tc_durable_begin(h->session, NULL, &tx, &err) < 0)
        return;
    tci_mutex_lock(&h->lock);
    const tci_live *live = t->live;
    bool holds = live != NULL && live->task.status == TCI_TASK_RUNNING && !h->is_closing &&
                 !live->task.is_abort_requested;
    t->is_ended = true;
    tci_mutex_unlock(&h->lock);
    tci_buf state;
    tci_buf_init(&state, TCI_BUF_MAX);
    int rc = 0;
    if (holds) {
        tci_buf_append_str(&state, TC_STR("{\"status\":\"pending\",\"checkpoint\":"));
        tci_json_put(&state, tci_json_get(live->state, TC_STR("checkpoint")), TCI_JSON_AS_IS);
        tci_buf_append_byte(&state, '}');
        rc = tci_buf_error(&state, &err);
        if (rc == 0)
            rc = tci_tx_stage_state(tx, &live->task, tci_buf_str(&state), false, &err);
    }
    tci_buf_done(&state);
    if (rc < 0)
        tc_tx_rollback(tx);
    else
        rc = tc_tx_commit(tx, &err);
    if (rc < 0)
        tci_durable_fail(h->session, &err);
}

static void report_outdated(tc_task *t, const char *reason)
{
    tc_err error;
    (void)tc_err_set(&error, TC_E_INCOMPATIBLE,
                     "task %llu (%.*s) goes on under a definition that is not installed any more",
                     (unsigned long long)t->id, TC_STR_ARG(t->info.kind));
    tci_harness_report_task(t->h, TC_REPORT_TASK_OUTDATED, &t->info, t->extension, tci_str(reason),
                            &error);
}

/* True: run the phase that the record is in, which t->info shows. */
static bool step(tc_task *t, passed *p)
{
    tc_harness *h = t->h;
    tc_err error;
    const char *reason;
    tci_snapshot *now = tci_harness_snapshot(h);
    tci_mutex_lock(&h->lock);
    decision d = decide(t, p, now, &reason, &error);
    if (d == GO && show(t, p, &error) < 0)
        d = FAULT;
    else if (d == STOP)
        t->is_ended = true;
    tci_mutex_unlock(&h->lock);
    tci_snapshot_unref(now);
    if (reason != NULL)
        report_outdated(t, reason);
    if (d == FAULT)
        fault(t, &error);
    else if (d == HAND_OVER)
        hand_over(t);
    return d == GO;
}

/* ---- the invocation ---- */

static int call(tc_task *t, tc_task_fn run, tc_err *err)
{
    t->slot = NULL;
    t->free_slot = NULL;
    *err = (tc_err){0};
    int rc = run(t, err);
    if (rc < 0 && err->code == TC_OK)
        (void)tc_err_set(err, TC_E_INTERNAL, "the handler of task %llu failed without saying why",
                         (unsigned long long)t->id);
    if (t->slot != NULL && t->free_slot != NULL)
        t->free_slot(t->slot);
    t->slot = NULL;
    return rc;
}

static tc_task_fn handler_of(const tc_task_def *def, tc_str phase)
{
    for (size_t i = 0; i < def->nphases; i++)
        if (tci_str_eq(tci_str(def->phases[i].name), phase))
            return def->phases[i].run;
    return NULL;
}

static void run_phases(tc_task *t, passed *p)
{
    while (step(t, p)) {
        tc_task_fn run = handler_of(t->def, t->info.phase);
        p->is_any = true;
        if (run == NULL) {
            p->is_failed = true;
            (void)tc_err_set(&p->error, TC_E_INVALID, "task %.*s has no phase %.*s",
                             TC_STR_ARG(t->info.kind), TC_STR_ARG(t->info.phase));
        } else {
            p->is_failed = call(t, run, &p->error) < 0;
        }
    }
}

/* Once, and it has to end the task. */
static void run_once(tc_task *t, passed *p, tc_task_fn run, const char *what)
{
    tc_err error;
    if (!step(t, p))
        return;
    bool is_failed = call(t, run, &error) < 0;
    if (!is_failed)
        (void)tc_err_set(&error, TC_E_INVALID,
                         "%s handler of task %llu returned without a terminal outcome", what,
                         (unsigned long long)t->id);
    fault(t, &error); /* nothing, when it has ended */
}

static tc_task *run(tc_task *t)
{
    passed p = {0};
    tci_buf_init(&p.checkpoint, TCI_BUF_MAX);
    tci_mutex_lock(&t->h->lock);
    t->thread = tci_task_thread_mark();
    tci_mutex_unlock(&t->h->lock);
    switch (t->mode) {
    case TCI_MODE_RUN:
        run_phases(t, &p);
        break;
    case TCI_MODE_ABORT:
        run_once(t, &p, t->def->abort, "abort");
        break;
    case TCI_MODE_LIMIT:
        run_once(t, &p, t->def->on_restart_limit, "restart limit");
        break;
    }
    tci_buf_done(&p.checkpoint);
    return finish(t);
}

void tci_task_run(tci_work *w)
{
    for (tc_task *t = TCI_CONTAINER(w, tc_task, work); t != NULL;)
        t = run(t);
}
