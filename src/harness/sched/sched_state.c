/* SPDX-License-Identifier: Apache-2.0
 *
 * States of tasks as records: what a handler or the scheduler decided, checked, written as JSON and
 * staged in a transaction. Leaves it to others when. On the line. Invariant: nothing is staged for a
 * state that is refused. */
#include "harness/sched/sched_int.h"

#include "base/num.h"

/* ---- staging ---- */

int tci_tx_stage_state(tc_tx *tx, const tci_task *record, tc_str state, bool drop_restarts,
                       tc_err *err)
{
    tci_json_change changes[2] = {{TC_STR("state"), state}, {TC_STR("restarts"), {NULL, 0}}};
    return tci_tx_change_task(tx, record, changes, drop_restarts && record->restarts > 0 ? 2 : 1,
                              err);
}

/* An outcome: what was remembered for the way there goes. */
static int stage_outcome(tc_tx *tx, const tci_task *record, const char *status, tc_str outcome,
                         tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "{\"status\":\"%s\",\"outcome\":", status);
    tci_buf_append_str(&b, outcome);
    tci_buf_append_byte(&b, '}');
    const tci_json_change changes[] = {{TC_STR("state"), tci_buf_str(&b)},
                                       {TC_STR("restarts"), {NULL, 0}},
                                       {TC_STR("memos"), {NULL, 0}}};
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tci_tx_change_task(tx, record, changes, 3, err);
    tci_buf_done(&b);
    return rc;
}

int tci_tx_settle_fault(tc_harness *h, tc_tx *tx, const tci_task *record, const tci_json *outcome,
                        tc_str outcome_text, tc_err *err)
{
    tc_str status;
    if (!tci_json_as_str(tci_json_get(outcome, TC_STR("status")), &status) ||
        (!tci_str_eq(status, TC_STR("faulted")) && !tci_str_eq(status, TC_STR("orphaned"))))
        return 0;
    tci_snapshot *s = tci_harness_snapshot(h);
    const tc_task_def *def = tci_snapshot_task(s, record->kind, NULL);
    int rc = 0;
    if (def != NULL && def->on_fault != NULL)
        rc = def->on_fault(def->user, h, tx, record->json, outcome_text, err);
    tci_snapshot_unref(s);
    return rc;
}

int tci_tx_terminate(tc_harness *h, tc_tx *tx, const tci_task *record, tc_str outcome, tc_err *err)
{
    bool has_work;
    if (tci_tx_has_owned_live(h, tx, record->id, &has_work, err) < 0)
        return err->code;
    if (has_work)
        return stage_outcome(tx, record, "completing", outcome, err);
    if (stage_outcome(tx, record, "terminal", outcome, err) < 0)
        return err->code;
    tci_arena a;
    tci_json tree;
    tci_arena_init(&a, 0);
    int rc = tci_json_parse(outcome, TCI_JSON_KEEP_SURROGATES, &a, &tree, err);
    if (rc == 0)
        rc = tci_tx_settle_fault(h, tx, record, &tree, outcome, err);
    tci_arena_done(&a);
    return rc;
}

/* ---- waits: what may be waited for ---- */

/* What a search for a circle knows: how it came to each task. */
typedef struct visit {
    uint64_t id;
    struct visit *via, *next; /* next: still to be looked at */
} visit;

typedef struct search {
    tc_harness *h;
    tc_tx *tx;
    tci_arena a;
    tci_by_id seen;
    visit *todo;
    const tci_task *staged;
    size_t nstaged;
} search;

static int reach(search *s, uint64_t id, visit *via, tc_err *err)
{
    if (tci_by_id_get(&s->seen, id) != NULL)
        return 0;
    visit *v = tci_arena_new(&s->a, visit);
    if (v == NULL)
        return tci_arena_error(&s->a, err);
    *v = (visit){id, via, s->todo};
    s->todo = v;
    return tci_by_id_put(&s->seen, id, v, err);
}

static int reach_list(search *s, const tci_json *state, visit *via, tc_err *err)
{
    const tci_json *on = tci_json_get(state, TC_STR("on"));
    for (size_t i = 0; on != NULL && on->kind == TCI_JSON_ARRAY && i < on->count; i++) {
        uint64_t id;
        if (tci_json_as_u64(&on->u.items[i], &id) && reach(s, id, via, err) < 0)
            return err->code;
    }
    return 0;
}

static const tci_task *staged_of(const search *s, uint64_t id)
{
    for (size_t i = 0; i < s->nstaged; i++)
        if (s->staged[i].id == id)
            return &s->staged[i];
    return NULL;
}

/* What a task waits for: its list, and the work it owns, without which it does not end. */
static int expand(search *s, visit *v, tc_err *err)
{
    const tci_task *staged = staged_of(s, v->id);
    tci_live *live = tci_live_of(s->h, v->id);
    const tci_task *record = staged != NULL ? staged : live != NULL ? &live->task : NULL;
    if (record == NULL || record->status == TCI_TASK_TERMINAL)
        return 0;
    if (record->status == TCI_TASK_WAITING && !record->is_abort_requested) {
        const tci_json *tree = live != NULL ? live->tree : NULL;
        tci_task again;
        if (staged != NULL && tci_task_parse(staged->json, &s->a, &tree, &again, err) < 0)
            return err->code;
        if (reach_list(s, tci_json_get(tree, TC_STR("state")), v, err) < 0)
            return err->code;
    }
    tci_live **below = NULL;
    size_t n = 0;
    if (live != NULL && tci_node_all_below(live->node, false, &s->a, &below, &n, err) < 0)
        return err->code;
    for (size_t i = 0; i < n; i++)
        if (reach(s, below[i]->task.id, v, err) < 0)
            return err->code;
    for (size_t i = 0; i < s->nstaged; i++)
        if (s->staged[i].owner == v->id && !s->staged[i].is_background &&
            reach(s, s->staged[i].id, v, err) < 0)
            return err->code;
    return 0;
}

static int circle_error(uint64_t task, const visit *end, tc_err *err)
{
    uint64_t ids[16];
    size_t n = 0;
    for (const visit *v = end; v != NULL; v = v->via)
        if (n < sizeof(ids) / sizeof(ids[0]))
            ids[n++] = v->id; /* from the end to the first; a longer way is cut */
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_u64(&b, task);
    for (size_t i = n; i > 0; i--) {
        tci_buf_append(&b, " -> ", 4);
        tci_buf_append_u64(&b, ids[i - 1]);
    }
    int rc = tc_err_set(err, TC_E_CONFLICT, "task %llu cannot wait on %llu: %.*s is a wait cycle",
                        (unsigned long long)task, (unsigned long long)ids[n - 1],
                        TC_STR_ARG(tci_buf_str(&b)));
    tci_buf_done(&b);
    return rc;
}

static int look_for_circle(search *s, uint64_t task, tc_err *err)
{
    while (s->todo != NULL) {
        visit *v = s->todo;
        s->todo = v->next;
        if (v->id == task)
            return circle_error(task, v, err);
        if (expand(s, v, err) < 0)
            return err->code;
    }
    return 0;
}

static int check_member(search *s, const tci_task *current, const tc_next *next, uint64_t id,
                        tc_err *err)
{
    tci_task member;
    if (tci_tx_current_task(s->tx, id, &s->a, &member, err) < 0)
        return err->code;
    if (member.id == 0)
        return tc_err_set(err, TC_E_INVALID, "task %llu does not exist", (unsigned long long)id);
    if (next->policy == TC_WAIT_FAIL_FAST && member.owner != current->id)
        return tc_err_set(err, TC_E_INVALID,
                          "task %llu can wait failFast only on tasks it owns; %llu is not one",
                          (unsigned long long)current->id, (unsigned long long)id);
    if (member.status == TCI_TASK_TERMINAL || member.owner == current->id)
        return 0;
    return reach(s, id, NULL, err);
}

static int check_wait(tc_task *t, tc_tx *tx, const tci_task *current, const tc_next *next,
                      tc_err *err)
{
    search s = {.h = t->h, .tx = tx};
    tci_arena_init(&s.a, 0);
    int rc = tci_tx_staged_tasks(tx, &s.staged, &s.nstaged, err);
    for (size_t i = 0; rc == 0 && i < next->non; i++)
        rc = check_member(&s, current, next, next->on[i], err);
    if (rc == 0)
        rc = look_for_circle(&s, current->id, err);
    tci_by_id_done(&s.seen);
    tci_arena_done(&s.a);
    return rc;
}

/* ---- the next state as text ---- */

static void put_member(tci_buf *b, const char *key, tc_str json)
{
    if (json.len == 0)
        return;
    tci_buf_printf(b, ",\"%s\":", key);
    tci_buf_append_str(b, json);
}

static void put_outcome(tci_buf *b, const tc_next *next)
{
    switch (next->kind) {
    case TC_NEXT_COMPLETED:
        tci_buf_append_str(b, TC_STR("{\"status\":\"completed\""));
        put_member(b, "result", next->result.len > 0 ? next->result : TC_STR("null"));
        break;
    case TC_NEXT_FAILED:
        tci_buf_append_str(b, TC_STR("{\"status\":\"failed\",\"error\":{\"message\":"));
        tci_json_put_str(b, next->message);
        put_member(b, "detail", next->detail);
        tci_buf_append_byte(b, '}');
        put_member(b, "result", next->result);
        break;
    case TC_NEXT_ABORTED:
        tci_buf_append_str(b, TC_STR("{\"status\":\"aborted\""));
        if (next->reason.len > 0) {
            tci_buf_append_str(b, TC_STR(",\"reason\":"));
            tci_json_put_str(b, next->reason);
        }
        put_member(b, "result", next->result);
        break;
    case TC_NEXT_STAY:
    case TC_NEXT_RUNNING:
    case TC_NEXT_WAITING:
    case TC_NEXT_SLEEPING:
        return;
    }
    tci_buf_append_byte(b, '}');
}

static void put_live_state(tci_buf *b, const tc_next *next)
{
    const char *status = next->kind == TC_NEXT_RUNNING   ? "running"
                         : next->kind == TC_NEXT_WAITING ? "waiting"
                                                         : "sleeping";
    tci_buf_printf(b, "{\"status\":\"%s\"", status);
    put_member(b, "checkpoint", next->checkpoint);
    if (next->kind == TC_NEXT_WAITING) {
        tci_buf_append_str(b, TC_STR(",\"on\":["));
        for (size_t i = 0; i < next->non; i++) {
            if (i > 0)
                tci_buf_append_byte(b, ',');
            tci_buf_append_u64(b, next->on[i]);
        }
        tci_buf_printf(b, "],\"policy\":\"%s\"",
                       next->policy == TC_WAIT_FAIL_FAST ? "failFast" : "allSettled");
    }
    if (next->kind == TC_NEXT_SLEEPING)
        tci_buf_printf(b, ",\"until\":%lld", (long long)next->until_ms);
    tci_buf_append_byte(b, '}');
}

static bool is_outcome(const tc_next *next)
{
    return next->kind >= TC_NEXT_COMPLETED;
}

/* The text must be JSON; a live state has a checkpoint with a phase. ret_tree lives in a. */
static int check_text(tc_str text, bool is_live, tci_arena *a, tci_json *ret_tree, tc_err *err)
{
    tc_str phase;
    if (tci_json_parse(text, TCI_JSON_DURABLE, a, ret_tree, err) < 0) {
        (void)tc_err_recode(err, TC_E_INVALID);
        return tc_err_wrap(err, "a state of a task");
    }
    const tci_json *checkpoint = tci_json_get(ret_tree, TC_STR("checkpoint"));
    if (is_live && !tci_json_as_str(tci_json_get(checkpoint, TC_STR("phase")), &phase))
        return tc_err_set(err, TC_E_INVALID, "a checkpoint is an object with a text 'phase'");
    return 0;
}

static int stage_live_state(tc_tx *tx, const tci_task *current, const tc_next *next, tc_err *err)
{
    tci_buf b;
    tci_arena a;
    tci_json tree;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_arena_init(&a, 0);
    put_live_state(&b, next);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = check_text(tci_buf_str(&b), true, &a, &tree, err);
    /* The same state again is intent repeated, not progress: the count of restarts stays. */
    bool is_progress = true;
    const tci_json *record = NULL;
    tci_task decoded;
    if (rc == 0 && current->restarts > 0) {
        rc = tci_task_parse(current->json, &a, &record, &decoded, err);
        if (rc == 0)
            is_progress = !tci_json_equal(&tree, tci_json_get(record, TC_STR("state")));
    }
    if (rc == 0)
        rc = tci_tx_stage_state(tx, current, tci_buf_str(&b), is_progress, err);
    tci_arena_done(&a);
    tci_buf_done(&b);
    return rc;
}

static int stage_end(tc_task *t, tc_tx *tx, const tci_task *current, const tc_next *next,
                     tc_err *err)
{
    tci_buf b;
    tci_arena a;
    tci_json tree;
    bool has_work = false;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_arena_init(&a, 0);
    put_outcome(&b, next);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = check_text(tci_buf_str(&b), false, &a, &tree, err);
    if (rc == 0)
        rc = tci_tx_has_owned_live(t->h, tx, current->id, &has_work, err);
    if (rc == 0)
        rc = stage_outcome(tx, current, has_work ? "completing" : "terminal", tci_buf_str(&b), err);
    tci_arena_done(&a);
    tci_buf_done(&b);
    return rc;
}

int tci_tx_stage_next(tc_task *t, tc_tx *tx, const tci_task *current, const tc_next *next,
                      tc_err *err)
{
    if (next->kind == TC_NEXT_STAY)
        return 0;
    if (is_outcome(next))
        return stage_end(t, tx, current, next, err);
    if (next->kind != TC_NEXT_RUNNING && t->mode != TCI_MODE_RUN)
        return tc_err_set(err, TC_E_INVALID, "the %s handler of task %llu cannot %s",
                          t->mode == TCI_MODE_ABORT ? "abort" : "restart limit",
                          (unsigned long long)t->id,
                          next->kind == TC_NEXT_WAITING ? "wait" : "sleep");
    if (next->kind == TC_NEXT_WAITING && check_wait(t, tx, current, next, err) < 0)
        return err->code;
    if (next->kind == TC_NEXT_SLEEPING &&
        (next->until_ms < 0 || (uint64_t)next->until_ms > TCI_ID_MAX))
        return tc_err_set(err, TC_E_INVALID, "task %llu cannot sleep until %lld",
                          (unsigned long long)t->id, (long long)next->until_ms);
    return stage_live_state(tx, current, next, err);
}
