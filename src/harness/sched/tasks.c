/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program asks of tasks from outside: to look at them, to abort them, to try again. Leaves the
 * consequences to the passes. Any thread. Invariant: an abort is a mark in the record; nothing but
 * the record decides what becomes of it. */
#include "harness/sched/sched_int.h"

#include <stdlib.h>

const char *tc_task_state_name(tc_task_state state)
{
    switch (state) {
    case TC_TASK_RUNNING:
        return "running";
    case TC_TASK_COMPLETING:
        return "completing";
    case TC_TASK_WAITING:
        return "waiting";
    case TC_TASK_SLEEPING:
        return "sleeping";
    case TC_TASK_READY:
        return "ready";
    case TC_TASK_BLOCKED:
        return "blocked";
    }
    return "";
}

int tc_harness_get_task(tc_harness *h, tc_ctx *ctx, uint64_t id, tc_result *r, tc_str *ret_record,
                        tc_err *err)
{
    tci_arena a;
    tci_task task;
    if (tci_ctx_check(ctx, err) < 0)
        return err->code;
    tci_arena_init(&a, 0);
    int rc = tci_durable_task(h->session, id, &a, &task, err);
    if (rc == 0 && task.id == 0)
        rc = tc_err_set(err, TC_E_NOT_FOUND, "task %llu does not exist", (unsigned long long)id);
    if (rc == 0)
        rc = tc_result_dup(r, task.json, ret_record, err);
    tci_arena_done(&a);
    return rc;
}

/* ---- aborting ---- */

/* Nothing that is installed can ever run it, so nobody could end it: it ends here. */
static int orphan_blocked(tc_harness *h, tc_tx *tx, const tci_live *live, bool *ret_done,
                          tc_err *err)
{
    tci_snapshot *s = tci_harness_snapshot(h);
    tci_fit fit = tci_sched_fit(live, s);
    if (fit.kind == TCI_FIT_MIGRATES && fit.def->migrate == NULL) {
        fit.kind = TCI_FIT_BLOCKED;
        fit.reason = "migration_failed";
    }
    int rc = 0;
    *ret_done = fit.kind == TCI_FIT_BLOCKED;
    if (*ret_done) {
        tci_buf outcome;
        tci_buf_init(&outcome, TCI_BUF_MAX);
        tci_buf_printf(&outcome, "{\"status\":\"orphaned\",\"reason\":\"%s\"}", fit.reason);
        rc = tci_buf_error(&outcome, err);
        if (rc == 0)
            rc = tci_tx_terminate(h, tx, &live->task, tci_buf_str(&outcome), err);
        tci_buf_done(&outcome);
    }
    tci_snapshot_unref(s);
    return rc;
}

static bool is_invoked(tc_harness *h, const tci_live *live, bool *ret_is_phase)
{
    tci_mutex_lock(&h->lock);
    const tc_task *t = live->invocation;
    *ret_is_phase = t != NULL && t->mode != TCI_MODE_ABORT;
    tci_mutex_unlock(&h->lock);
    return t != NULL;
}

int tci_tx_stage_abort(tc_harness *h, tc_tx *tx, uint64_t id, bool keep_restart, tci_abort *ret,
                       tc_err *err)
{
    tci_arena a;
    tci_task now;
    *ret = (tci_abort){0};
    tci_arena_init(&a, 0);
    int rc = tci_tx_current_task(tx, id, &a, &now, err);
    const tci_live *live = tci_live_of(h, id);
    bool is_done = false;
    if (rc == 0 && now.id == 0) {
        rc = tc_err_set(err, TC_E_NOT_FOUND, "task %llu does not exist", (unsigned long long)id);
    } else if (rc == 0 && now.status == TCI_TASK_TERMINAL) {
        ret->is_terminal = true;
        is_done = true;
    } else if (rc == 0 && keep_restart && now.is_abort_by_restart) {
        is_done = true;
    } else if (rc == 0 && live != NULL && !is_invoked(h, live, &ret->is_running) &&
               now.status != TCI_TASK_COMPLETING && tci_node_first_below(live->node) == NULL) {
        rc = orphan_blocked(h, tx, live, &is_done, err);
    }
    if (rc == 0 && !is_done && (!now.is_abort_requested || now.is_abort_by_restart))
        rc = tci_tx_stage_mark(tx, &now, false, err);
    tci_arena_done(&a);
    return rc;
}

int tci_tx_mark_task(tc_harness *h, tc_tx *tx, uint64_t id, bool keep_restart, tc_err *err)
{
    tci_abort what;
    return tci_tx_stage_abort(h, tx, id, keep_restart, &what, err);
}

/* Wait for the end of the phase that runs now: answered when it has returned. False: there is none. */
static bool join_phase(tc_harness *h, uint64_t id, tci_waiter *w)
{
    bool is_found = false;
    tci_mutex_lock(&h->lock);
    const tci_live *live = tci_live_of(h, id);
    tc_task *t = live != NULL ? live->invocation : NULL;
    if (t != NULL && t->mode != TCI_MODE_ABORT) {
        tci_list_push_back(&t->joiners, &w->link);
        is_found = true;
    }
    tci_mutex_unlock(&h->lock);
    return is_found;
}

int tc_harness_abort_task(tc_harness *h, tc_ctx *ctx, uint64_t id, bool *ret_is_terminal,
                          tc_err *err)
{
    tc_tx *tx;
    tci_abort what;
    tci_waiter w;
    if (tc_durable_begin(h->session, ctx, &tx, err) < 0)
        return err->code;
    if (tci_tx_stage_abort(h, tx, id, false, &what, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    /* Before the commit, which cancels the phase: it might be gone right after. */
    tci_waiter_init(&w, ctx);
    bool is_joined = what.is_running && join_phase(h, id, &w);
    int rc = tc_tx_commit(tx, err);
    if (rc < 0 && is_joined)
        tci_waiter_leave(h, &w);
    else if (is_joined)
        rc = tci_waiter_wait(h, &w, ctx, err);
    if (rc == 0)
        *ret_is_terminal = what.is_terminal;
    return rc;
}

int tc_harness_retry_task(tc_harness *h, tc_ctx *ctx, uint64_t id, tc_err *err)
{
    tc_tx *tx;
    tci_arena a;
    tci_task task;
    if (tc_durable_begin(h->session, ctx, &tx, err) < 0)
        return err->code;
    tci_arena_init(&a, 0);
    int rc = tci_durable_task(h->session, id, &a, &task, err);
    if (rc == 0 && task.id == 0)
        rc = tc_err_set(err, TC_E_NOT_FOUND, "task %llu does not exist", (unsigned long long)id);
    if (rc == 0 && task.restarts > 0 && task.status != TCI_TASK_TERMINAL)
        rc = tci_tx_change_task(tx, &task, &(tci_json_change){TC_STR("restarts"), {NULL, 0}}, 1,
                                err);
    if (rc < 0)
        tc_tx_rollback(tx);
    else
        rc = tc_tx_commit(tx, err);
    tci_arena_done(&a);
    return rc < 0 ? rc : tci_harness_enable(h, err);
}

/* ---- a whole conversation ---- */

typedef struct sweep {
    tc_harness *h;
    tc_tx *tx;
    tci_arena a;
    uint64_t conversation_id;
    bool with_background;
    tci_live **below;
    size_t nbelow;
    uint64_t *ids;
} sweep;

static int mark_below(sweep *s, tc_err *err)
{
    const tci_node *node = tci_node_of(s->h, s->conversation_id);
    if (node != NULL &&
        tci_node_all_below(node, s->with_background, &s->a, &s->below, &s->nbelow, err) < 0)
        return err->code;
    s->ids = tci_arena_items(&s->a, uint64_t, s->nbelow + 1);
    if (s->ids == NULL)
        return tci_arena_error(&s->a, err);
    for (size_t i = 0; i < s->nbelow; i++) {
        const tci_task *t = &s->below[i]->task;
        s->ids[i] = t->id;
        if ((!t->is_abort_requested || t->is_abort_by_restart) &&
            tci_tx_stage_mark(s->tx, t, false, err) < 0)
            return err->code;
    }
    return 0;
}

static int withdraw_below(sweep *s, tc_err *err)
{
    const tci_run_parts *parts = s->h->parts;
    if (parts == NULL || parts->withdraw_inputs == NULL)
        return 0;
    tci_by_id done = {0};
    tc_page page = {.limit = 256};
    int rc = 0;
    do {
        tci_submission *queued;
        size_t n;
        rc = tci_durable_scan_submissions(s->h->session, 0, TCI_SUBMISSION_QUEUED, &page, &s->a,
                                          &queued, &n, &page.cursor, err);
        for (size_t i = 0; rc == 0 && i < n; i++) {
            tci_place place;
            uint64_t id = queued[i].conversation_id;
            if (queued[i].type != TCI_SUBMISSION_INPUT || tci_by_id_get(&done, id) != NULL)
                continue;
            rc = tci_by_id_put(&done, id, &done, err);
            if (rc == 0)
                rc = tci_conversation_place(s->h, id, s->conversation_id, s->with_background,
                                            &place, err);
            if (rc == 0 && place.is_in_scope)
                rc = parts->withdraw_inputs(s->h, s->tx, id, TC_STR("aborted"), err);
        }
    } while (rc == 0 && page.cursor.after != 0);
    tci_by_id_done(&done);
    return rc;
}

/* Everything is marked: until it is over. Who is among what was marked ends before that. */
static int wait_below(const sweep *s, const tc_bound *by, tc_ctx *ctx, tc_err *err)
{
    for (size_t i = 0; by != NULL && i < s->nbelow; i++)
        if (s->ids[i] == by->task)
            return tc_err_set(err, TC_E_CANCELLED, "task %llu is to be aborted itself",
                              (unsigned long long)by->task);
    for (size_t i = 0; s->with_background && i < s->nbelow; i++)
        if (tci_harness_wait_task(s->h, by, ctx, s->ids[i], NULL, NULL, err) < 0)
            return err->code;
    return tci_harness_wait_idle(s->h, by, ctx, s->conversation_id, err);
}

int tci_harness_abort_below(tc_harness *h, const tc_bound *by, tc_ctx *ctx,
                            uint64_t conversation_id, bool with_background, tc_err *err)
{
    sweep s = {.h = h, .conversation_id = conversation_id, .with_background = with_background};
    if (tci_harness_enable(h, err) < 0)
        return err->code;
    if ((by != NULL ? tci_bound_begin(by, ctx, &s.tx, err)
                    : tc_durable_begin(h->session, ctx, &s.tx, err)) < 0)
        return err->code;
    tci_arena_init(&s.a, 0);
    int rc = mark_below(&s, err);
    if (rc == 0)
        rc = withdraw_below(&s, err);
    if (rc < 0)
        tc_tx_rollback(s.tx);
    else
        rc = tc_tx_commit(s.tx, err);
    if (rc == 0)
        rc = wait_below(&s, by, ctx, err);
    tci_arena_done(&s.a);
    return rc;
}

int tci_tx_is_idle(tc_harness *h, tc_tx *tx, uint64_t conversation_id, bool *ret_is_idle,
                   tc_err *err)
{
    (void)tx;
    (void)err;
    *ret_is_idle = tci_harness_is_idle(h, conversation_id);
    return 0;
}

/* ---- looking ---- */

static int waiting_on(const tci_live *live, tci_arena *a, tc_task_inspection *ret, tc_err *err)
{
    uint64_t *ids = NULL;
    size_t n = 0;
    if (live->task.is_abort_requested) {
        tci_live **below;
        if (tci_node_all_below(live->node, false, a, &below, &n, err) < 0)
            return err->code;
        ids = tci_arena_items(a, uint64_t, n + 1);
        if (ids == NULL)
            return tci_arena_error(a, err);
        for (size_t i = 0; i < n; i++)
            ids[i] = below[i]->task.id;
    } else if (live->nopen > 0) {
        const tci_json *on = tci_json_get(live->state, TC_STR("on"));
        ids = tci_arena_items(a, uint64_t, live->nawaits + 1);
        if (ids == NULL)
            return tci_arena_error(a, err);
        for (size_t i = 0; i < live->nawaits; i++)
            if (tci_link_is_in(&live->awaits[i].link) && tci_json_as_u64(&on->u.items[i], &ids[n]))
                n++;
    }
    ret->on = ids;
    ret->non = n;
    return 0;
}

/* Why it cannot run; false: it can. */
static bool is_blocked(const tci_live *live, const tci_snapshot *s, uint64_t limit, tci_fit *ret)
{
    *ret = tci_sched_fit(live, s);
    if (tci_sched_is_parked(live, ret->def, limit)) {
        *ret = (tci_fit){.kind = TCI_FIT_BLOCKED, .def = ret->def, .reason = "restart_limit"};
    } else if (ret->kind == TCI_FIT_MIGRATES && ret->def->migrate == NULL) {
        ret->kind = TCI_FIT_BLOCKED;
        ret->reason = "migration_failed";
        ret->error = "its definition is newer and has no migration";
    }
    return ret->kind == TCI_FIT_BLOCKED;
}

const char *tci_sched_blocked_reason(const tci_live *live, const tci_snapshot *s, uint64_t limit)
{
    tci_fit fit;
    return live->task.status != TCI_TASK_COMPLETING && is_blocked(live, s, limit, &fit) ? fit.reason
                                                                                        : NULL;
}

static int inspect_task(tc_harness *h, const tci_live *live, const tci_snapshot *s, uint64_t limit,
                        tc_result *r, tc_task_inspection *ret, tc_err *err)
{
    bool is_phase;
    tci_fit fit;
    *ret = (tc_task_inspection){.id = live->task.id};
    if (tc_result_dup(r, live->task.json, &ret->record, err) < 0)
        return err->code;
    if (is_invoked(h, live, &is_phase)) {
        ret->state = TC_TASK_RUNNING;
        return 0;
    }
    if (live->task.status == TCI_TASK_COMPLETING) {
        ret->state = TC_TASK_COMPLETING;
        return 0;
    }
    if (waiting_on(live, tci_result_arena(r), ret, err) < 0)
        return err->code;
    if (ret->non > 0) {
        ret->state = TC_TASK_WAITING;
    } else if (live->task.status == TCI_TASK_SLEEPING && !live->task.is_abort_requested &&
               live->until_ms > tci_durable_now_ms(h->session)) {
        ret->state = TC_TASK_SLEEPING;
        ret->until_ms = live->until_ms;
    } else if (is_blocked(live, s, limit, &fit)) {
        ret->state = TC_TASK_BLOCKED;
        ret->reason = tci_str(fit.reason);
        return tc_result_dup(r, tci_str(fit.error), &ret->error, err);
    } else {
        ret->state = TC_TASK_READY;
        ret->migrates = fit.kind == TCI_FIT_MIGRATES;
    }
    return 0;
}

static int inspect_submissions(tc_harness *h, tc_result *r, tc_inspection *ret, tc_err *err)
{
    tci_arena *a = tci_result_arena(r);
    tc_str *items = NULL;
    size_t total = 0;
    for (int status = TCI_SUBMISSION_QUEUED; status <= TCI_SUBMISSION_PLACED; status++) {
        tc_page page = {.limit = 256};
        do {
            tci_submission *found;
            size_t n;
            if (tci_durable_scan_submissions(h->session, 0, status, &page, a, &found, &n,
                                             &page.cursor, err) < 0)
                return err->code;
            items =
                tci_arena_grow(a, items, total * sizeof(*items), (total + n + 1) * sizeof(*items));
            if (items == NULL)
                return tci_arena_error(a, err);
            for (size_t i = 0; i < n; i++)
                items[total++] = found[i].json;
        } while (page.cursor.after != 0);
    }
    ret->submissions = items;
    ret->nsubmissions = total;
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const tc_task_inspection *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int inspect_all(tc_harness *h, tci_snapshot *s, uint64_t limit, tc_result *r,
                       tc_inspection *ret, tc_err *err)
{
    tci_mutex_lock(&h->lock);
    ret->scheduling = h->is_closing || h->is_failed ? TC_STR("closing")
                      : h->is_enabled               ? TC_STR("running")
                                                    : TC_STR("paused");
    tci_mutex_unlock(&h->lock);
    tc_task_inspection *tasks =
        tci_arena_items(tci_result_arena(r), tc_task_inspection, h->nlives + 1);
    if (tasks == NULL)
        return tci_arena_error(tci_result_arena(r), err);
    TCI_LIST_EACH (&h->lives, k) {
        if (inspect_task(h, TCI_CONTAINER(k, tci_live, all), s, limit, r, &tasks[ret->ntasks++],
                         err) < 0)
            return err->code;
    }
    qsort(tasks, ret->ntasks, sizeof(*tasks), by_id);
    ret->tasks = tasks;
    return inspect_submissions(h, r, ret, err);
}

int tc_harness_inspect(tc_harness *h, tc_ctx *ctx, tc_result *r, tc_inspection *ret, tc_err *err)
{
    if (tci_ctx_check(ctx, err) < 0)
        return err->code;
    uint64_t limit = tci_sched_restart_limit(h);
    if (tci_durable_enter(h->session, err) < 0)
        return err->code;
    tci_snapshot *s = tci_harness_snapshot(h);
    tc_inspection found = {0};
    int rc = inspect_all(h, s, limit, r, &found, err);
    tci_snapshot_unref(s);
    tci_durable_leave(h->session);
    if (rc == 0)
        *ret = found;
    return rc;
}
