/* SPDX-License-Identifier: Apache-2.0
 *
 * Reservation: which tasks run next. One pass looks at all candidates and is one commit, so that a
 * task is stored as running before any of its code runs. Leaves running them to sched_run.c. One pass
 * at a time, on the scheduler's thread. Invariant: a candidate leaves the list with an invocation, or
 * because something has to happen first that puts it back. */
#include "harness/sched/sched_int.h"

#define DEFAULT_RESTART_LIMIT 5

uint64_t tci_sched_restart_limit(tc_harness *h)
{
    tc_err err;
    tc_result *r;
    if (h->options.get_settings == NULL)
        return h->options.settings != NULL && h->options.settings->restart_limit > 0
                   ? h->options.settings->restart_limit
                   : DEFAULT_RESTART_LIMIT;
    if (tc_result_new(&r, &err) < 0)
        return DEFAULT_RESTART_LIMIT;
    tc_settings settings;
    tci_harness_settings(h, r, &settings);
    tc_result_free(r);
    return settings.restart_limit;
}

/* ---- who can run it ---- */

tci_fit tci_sched_fit(const tci_live *live, const tci_snapshot *snapshot)
{
    tci_fit fit = {.kind = TCI_FIT_BLOCKED};
    fit.def = tci_snapshot_task(snapshot, live->task.kind, &fit.extension);
    if (fit.def == NULL) {
        fit.reason = "missing_task";
    } else if (fit.def->version == live->task.version) {
        fit.kind = TCI_FIT_READY;
    } else if (fit.def->version < live->task.version) {
        fit.reason = "task_too_old";
    } else if (live->failed_migration == fit.def) {
        fit.reason = "migration_failed";
        fit.error = live->migration_error;
    } else {
        fit.kind = TCI_FIT_MIGRATES;
    }
    return fit;
}

bool tci_sched_is_parked(const tci_live *live, const tc_task_def *def, uint64_t limit)
{
    return !live->task.is_abort_requested && live->task.restarts > 0 &&
           live->task.restarts >= limit && (def == NULL || def->on_restart_limit == NULL);
}

/* Remember a migration that failed, and tell. */
static void migration_failed(tc_harness *h, tci_live *live, const tci_fit *fit, const tc_err *error)
{
    tci_mutex_lock(&h->lock);
    live->failed_migration = fit->def;
    tci_free(live->migration_error);
    live->migration_error = tci_mem_cstr(tci_str(error->msg)); /* NULL: blocked without words */
    tci_mutex_unlock(&h->lock);
    tci_harness_report(h, &(tc_report){.type = TC_REPORT_MIGRATION_FAILED,
                                       .message = tci_str(error->msg),
                                       .task_id = live->task.id,
                                       .kind = live->task.kind,
                                       .conversation_id = live->task.conversation_id,
                                       .extension = fit->extension});
}

/* Input and checkpoint of the definition's version, in r. */
static int migrate(const tci_live *live, const tc_task_def *def, tc_result *r, tc_str *ret_input,
                   tc_str *ret_checkpoint, tc_err *err)
{
    if (def->migrate == NULL)
        return tc_err_set(err, TC_E_INCOMPATIBLE,
                          "task '%s' has version %llu and cannot migrate from %llu", def->name,
                          (unsigned long long)def->version, (unsigned long long)live->task.version);
    tci_arena *arena = tci_result_arena(r);
    tci_buf input, checkpoint;
    tci_buf_init(&input, TCI_BUF_MAX);
    tci_buf_init(&checkpoint, TCI_BUF_MAX);
    tci_json_put(&input, tci_json_get(live->tree, TC_STR("input")), TCI_JSON_AS_IS);
    tci_json_put(&checkpoint, tci_json_get(live->state, TC_STR("checkpoint")), TCI_JSON_AS_IS);
    int rc = tci_buf_error(&input, err) < 0 ? err->code : tci_buf_error(&checkpoint, err);
    if (rc == 0)
        rc = def->migrate(def->user, tci_buf_str(&input), tci_buf_str(&checkpoint),
                          live->task.version, r, ret_input, ret_checkpoint, err);
    if (rc == 0) /* it may have given back what it was given */
        rc = tci_arena_dup(arena, *ret_input, ret_input, err);
    if (rc == 0)
        rc = tci_arena_dup(arena, *ret_checkpoint, ret_checkpoint, err);
    tci_json tree;
    tc_str phase;
    if (rc == 0)
        rc = tci_json_parse(*ret_input, TCI_JSON_KEEP_SURROGATES, arena, &tree, err);
    if (rc == 0)
        rc = tci_json_parse(*ret_checkpoint, TCI_JSON_KEEP_SURROGATES, arena, &tree, err);
    if (rc == 0 && !tci_json_as_str(tci_json_get(&tree, TC_STR("phase")), &phase))
        rc = tc_err_set(err, TC_E_INVALID, "a migrated checkpoint has no phase");
    tci_buf_done(&input);
    tci_buf_done(&checkpoint);
    return rc;
}

/* ---- staging a reservation ---- */

static void put_running(tci_buf *b, tc_str checkpoint)
{
    tci_buf_append_str(b, TC_STR("{\"status\":\"running\",\"checkpoint\":"));
    tci_buf_append_str(b, checkpoint);
    tci_buf_append_byte(b, '}');
}

static int stage_running(tc_tx *tx, const tci_live *live, tc_err *err)
{
    if (live->task.status == TCI_TASK_RUNNING)
        return 0;
    tci_buf checkpoint, state;
    tci_buf_init(&checkpoint, TCI_BUF_MAX);
    tci_buf_init(&state, TCI_BUF_MAX);
    tci_json_put(&checkpoint, tci_json_get(live->state, TC_STR("checkpoint")), TCI_JSON_AS_IS);
    put_running(&state, tci_buf_str(&checkpoint));
    int rc = tci_buf_error(&state, err);
    if (rc == 0)
        rc = tci_tx_stage_state(tx, &live->task, tci_buf_str(&state), false, err);
    tci_buf_done(&checkpoint);
    tci_buf_done(&state);
    return rc;
}

/* *ret_is_blocked: it failed, which is no failure of the pass. */
static int stage_migrated(tc_harness *h, tc_tx *tx, tci_live *live, const tci_fit *fit,
                          bool *ret_is_blocked, tc_err *err)
{
    tc_result *r;
    tc_str input, checkpoint;
    if (tc_result_new(&r, err) < 0)
        return err->code;
    *ret_is_blocked = migrate(live, fit->def, r, &input, &checkpoint, err) < 0;
    int rc = 0;
    if (*ret_is_blocked) {
        migration_failed(h, live, fit, err);
    } else {
        tci_buf version, state;
        tci_buf_init(&version, TCI_BUF_MAX);
        tci_buf_append_u64(&version, fit->def->version);
        tci_buf_init(&state, TCI_BUF_MAX);
        put_running(&state, checkpoint);
        const tci_json_change changes[] = {{TC_STR("version"), tci_buf_str(&version)},
                                           {TC_STR("input"), input},
                                           {TC_STR("state"), tci_buf_str(&state)}};
        rc = tci_buf_error(&state, err);
        if (rc == 0)
            rc = tci_buf_error(&version, err);
        if (rc == 0)
            rc = tci_tx_change_task(tx, &live->task, changes, 3, err);
        tci_buf_done(&version);
        tci_buf_done(&state);
    }
    tc_result_free(r);
    return rc;
}

/* ---- a pass ---- */

typedef struct pass {
    tc_harness *h;
    tc_tx *tx;
    tci_snapshot *snapshot;
    uint64_t limit;
    size_t nfree;     /* how many more may start */
    tci_list started; /* tc_task.link */
    tci_live **kept;  /* go back to the list */
    size_t nkept;
    tci_arena a;
    bool is_full;
    bool is_more; /* than reservations that need not be synced by themselves */
} pass;

static int keep(pass *p, tci_live *live, tc_err *err)
{
    tci_live **more =
        tci_arena_grow(&p->a, p->kept, p->nkept * sizeof(*more), (p->nkept + 1) * sizeof(*more));
    if (more == NULL)
        return tci_arena_error(&p->a, err);
    p->kept = more;
    p->kept[p->nkept++] = live;
    return 0;
}

static int new_invocation(pass *p, tci_live *live, tci_mode mode, const tci_fit *fit, tc_err *err)
{
    tc_task *t = tci_new(tc_task);
    if (t == NULL)
        return tci_err_no_memory(err);
    if (tc_result_new(&t->result, err) < 0) {
        tci_free(t);
        return err->code;
    }
    t->work.run = tci_task_run;
    t->h = p->h;
    t->live = live;
    t->id = live->task.id;
    t->conversation_id = live->task.conversation_id;
    t->mode = mode;
    t->serial = ++p->h->run_serial;
    t->def = fit->def;
    t->snapshot = tci_snapshot_ref(p->snapshot);
    t->extension = fit->extension;
    tci_list_init(&t->waiters);
    tci_list_init(&t->joiners);
    tci_mutex_lock(&p->h->lock);
    live->invocation = t;
    tci_mutex_unlock(&p->h->lock);
    tci_list_push_back(&p->started, &t->link);
    p->nfree--;
    return 0;
}

static int orphan(pass *p, const tci_live *live, const char *reason, tc_err *err)
{
    tci_buf outcome;
    tci_buf_init(&outcome, TCI_BUF_MAX);
    tci_buf_printf(&outcome, "{\"status\":\"orphaned\",\"reason\":\"%s\"}", reason);
    int rc = tci_buf_error(&outcome, err);
    if (rc == 0)
        rc = tci_tx_terminate(p->h, p->tx, &live->task, tci_buf_str(&outcome), err);
    tci_buf_done(&outcome);
    return rc;
}

/* An abort handler that was cut off as often as may be would be so for ever. */
static int fault_abort(pass *p, const tci_live *live, tc_err *err)
{
    tc_str message;
    if (tci_arena_printf(&p->a, &message, err,
                         "Abort handler of task %llu (%.*s) was cut off %llu times",
                         (unsigned long long)live->task.id, TC_STR_ARG(live->task.kind),
                         (unsigned long long)live->task.restarts) < 0)
        return err->code;
    tci_buf outcome;
    tci_buf_init(&outcome, TCI_BUF_MAX);
    tci_buf_append_str(&outcome, TC_STR("{\"status\":\"faulted\",\"error\":{\"message\":"));
    tci_json_put_str(&outcome, message);
    tci_buf_append_str(&outcome, TC_STR(",\"detail\":{\"reason\":\"restart_limit\"}}}"));
    int rc = tci_buf_error(&outcome, err);
    if (rc == 0)
        rc = tci_tx_terminate(p->h, p->tx, &live->task, tci_buf_str(&outcome), err);
    tci_buf_done(&outcome);
    tc_str extension;
    (void)tci_snapshot_task(p->snapshot, live->task.kind, &extension);
    if (rc == 0)
        tci_harness_report(p->h, &(tc_report){.type = TC_REPORT_TASK_FAULTED,
                                              .message = message,
                                              .task_id = live->task.id,
                                              .kind = live->task.kind,
                                              .conversation_id = live->task.conversation_id,
                                              .extension = extension,
                                              .reason = TC_STR("restart_limit")});
    return rc;
}

/* Something has to happen before it can run, which will put it on the list again. */
static bool has_to_wait(tc_harness *h, const tci_live *live)
{
    if (live->task.status == TCI_TASK_COMPLETING || live->invocation != NULL)
        return true;
    if (live->task.is_abort_requested)
        return tci_node_first_below(live->node) != NULL;
    if (live->task.status == TCI_TASK_WAITING)
        return live->nopen > 0;
    return live->task.status == TCI_TASK_SLEEPING &&
           live->until_ms > tci_durable_now_ms(h->session);
}

static int start_one(pass *p, tci_live *live, tci_mode mode, const tci_fit *fit, tc_err *err)
{
    bool is_blocked = false;
    int rc = fit->kind == TCI_FIT_MIGRATES
                 ? stage_migrated(p->h, p->tx, live, fit, &is_blocked, err)
                 : stage_running(p->tx, live, err);
    if (rc < 0)
        return rc;
    if (!is_blocked)
        return new_invocation(p, live, mode, fit, err);
    return mode == TCI_MODE_ABORT && !live->task.is_abort_by_restart
               ? orphan(p, live, "migration_failed", err)
               : 0;
}

static int consider(pass *p, tci_live *live, tc_err *err)
{
    tc_harness *h = p->h;
    if (has_to_wait(h, live))
        return 0;
    tci_fit fit = tci_sched_fit(live, p->snapshot);
    if (tci_sched_is_parked(live, fit.def, p->limit)) {
        live->is_parked = true;
        tci_mutex_lock(&h->lock);
        h->has_parked = true;
        tci_mutex_unlock(&h->lock);
        return 0;
    }
    live->is_parked = false;
    bool is_abort = live->task.is_abort_requested;
    if (!is_abort && !live->node->is_background && tci_node_is_below_cancelled(live->node)) {
        tci_mutex_lock(&h->lock);
        h->is_cascade_pending = true; /* which will mark it */
        tci_sched_kick_locked(h);
        tci_mutex_unlock(&h->lock);
        return 0;
    }
    bool is_over = live->task.restarts > 0 && live->task.restarts >= p->limit;
    p->is_more = p->is_more || is_abort;
    if (is_abort && is_over)
        return fault_abort(p, live, err);
    if (fit.kind == TCI_FIT_BLOCKED)
        return is_abort && !live->task.is_abort_by_restart ? orphan(p, live, fit.reason, err) : 0;
    if (p->nfree == 0) {
        p->is_full = true;
        return keep(p, live, err);
    }
    tci_mode mode = is_abort ? TCI_MODE_ABORT : is_over ? TCI_MODE_LIMIT : TCI_MODE_RUN;
    /* Of one that was here before, another end of the process must be counted, or a phase that brings
     * it about would never be given up. */
    if (mode != TCI_MODE_RUN || fit.kind == TCI_FIT_MIGRATES || !fit.def->commits_first ||
        live->task.restarts > 0 || live->was_here)
        p->is_more = true;
    return start_one(p, live, mode, &fit, err);
}

static tci_live *pop_candidate(tc_harness *h)
{
    tci_mutex_lock(&h->lock);
    tci_link *k = tci_list_pop_front(&h->runnable);
    tci_mutex_unlock(&h->lock);
    return k != NULL ? TCI_CONTAINER(k, tci_live, runnable) : NULL;
}

/* What became possible without a commit: a new registry, a higher limit, a time that has come. */
static void gather(pass *p)
{
    tc_harness *h = p->h;
    tci_mutex_lock(&h->lock);
    (void)tci_sched_wake_due(h, tci_durable_now_ms(h->session));
    if (h->is_registry_changed || h->has_parked) {
        bool is_all = h->is_registry_changed;
        h->has_parked = false;
        TCI_LIST_EACH (&h->lives, k) {
            tci_live *live = TCI_CONTAINER(k, tci_live, all);
            if (is_all || live->is_parked)
                tci_sched_push_runnable(h, live);
        }
        h->is_registry_changed = false;
    }
    size_t nbusy = h->nrunning;
    p->nfree = h->max_running > nbusy ? h->max_running - nbusy : 0;
    tci_mutex_unlock(&h->lock);
}

static int consider_all(pass *p, tc_err *err)
{
    tci_live *live;
    gather(p);
    p->limit = tci_sched_restart_limit(p->h);
    while ((live = pop_candidate(p->h)) != NULL)
        if (consider(p, live, err) < 0)
            return err->code;
    return 0;
}

static void forget(pass *p)
{
    tci_link *k;
    while ((k = tci_list_pop_front(&p->started)) != NULL) {
        tc_task *t = TCI_CONTAINER(k, tc_task, link);
        tci_mutex_lock(&p->h->lock);
        if (t->live != NULL) {
            t->live->invocation = NULL;
            tci_sched_push_runnable(p->h, t->live);
        }
        tci_mutex_unlock(&p->h->lock);
        tci_snapshot_unref(t->snapshot);
        tc_result_free(t->result);
        tci_free(t);
    }
}

/* After the commit: the invocations get their threads. One that gets none is over at once, and the task
 * a candidate again when a thread has become free. */
static void start_all(pass *p, tc_task **ret_mine)
{
    tc_harness *h = p->h;
    tci_list begin;
    tci_link *k;
    tci_list_init(&begin);
    tci_mutex_lock(&h->lock);
    while ((k = tci_list_pop_front(&p->started)) != NULL) {
        tci_list_push_back(&h->invocations, k);
        h->ninvocations++;
        h->nrunning++;
        tc_task *t = TCI_CONTAINER(k, tc_task, link);
        tci_list_push_back(&begin, &t->work.link);
        if (h->is_closing || h->is_failed)
            tci_task_cancel(t);
    }
    tci_mutex_unlock(&h->lock);
    while ((k = tci_list_pop_front(&begin)) != NULL) {
        tc_err err;
        tc_task *t = TCI_CONTAINER(k, tc_task, work.link);
        if (ret_mine != NULL && *ret_mine == NULL)
            *ret_mine = t;
        else if (tci_workers_run(&h->workers, &t->work, &err) < 0)
            tci_durable_fail(h->session, &err), tci_task_run(&t->work);
    }
}

/* Tasks that are not to be resumed after a restart, before anything else runs. */
static int mark_abandoned(tc_harness *h, tc_tx *tx, bool *ret_any, tc_err *err)
{
    *ret_any = h->nabandoned > 0;
    for (size_t i = 0; i < h->nabandoned; i++) {
        tci_live *live = tci_live_of(h, h->abandoned[i]);
        if (live != NULL && !live->task.is_abort_requested &&
            tci_tx_stage_mark(tx, &live->task, true, err) < 0)
            return err->code;
    }
    return 0;
}

static void put_back(pass *p)
{
    tci_mutex_lock(&p->h->lock);
    for (size_t i = 0; i < p->nkept; i++)
        tci_sched_push_runnable(p->h, p->kept[i]);
    tci_mutex_unlock(&p->h->lock);
}

int tci_reserve(tc_harness *h, tc_task **ret_mine, bool *ret_again, tc_err *err)
{
    pass p = {.h = h};
    bool is_marking = false;
    *ret_again = false;
    if (tc_durable_begin(h->session, NULL, &p.tx, err) < 0)
        return err->code;
    tci_list_init(&p.started);
    tci_arena_init(&p.a, 0);
    p.snapshot = tci_harness_snapshot(h);
    int rc = mark_abandoned(h, p.tx, &is_marking, err);
    if (rc == 0 && !is_marking)
        rc = consider_all(&p, err);
    put_back(&p); /* on the line, where those tasks are sure to be there */
    if (!is_marking && !p.is_more)
        tci_tx_set_how(p.tx, TCI_TX_DEFERRED);
    if (rc < 0)
        tc_tx_rollback(p.tx);
    else
        rc = tc_tx_commit(p.tx, err);
    if (rc < 0) {
        forget(&p);
    } else {
        start_all(&p, ret_mine);
        if (is_marking)
            h->nabandoned = 0;
        *ret_again = is_marking;
    }
    tci_snapshot_unref(p.snapshot);
    tci_arena_done(&p.a);
    return rc;
}
