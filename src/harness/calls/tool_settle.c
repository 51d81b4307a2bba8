/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a tool call: its result entry (or, for a nested call, its place in the caller's document),
 * its slot in "pi.live", its usage and the end of its task, all in one commit. The thread of the task.
 *
 * To keep: nested calls that still run are ended before, so what they had to say is stored before
 * their slots go. */
#include "harness/calls/tool_int.h"

#include "harness/generation/context_scan.h"
#include "harness/generation/usage.h"

static int is_nested_call(tc_task *t, uint64_t id, bool *ret_is, tc_err *err)
{
    tci_task task;
    tci_arena a;
    tci_arena_init(&a, 0);
    int rc = tci_durable_task(tci_harness_session(tc_task_harness(t)), id, &a, &task, err);
    *ret_is =
        rc == 0 && task.id != 0 && tci_str_eq(task.kind, TC_STR("pi.tool")) &&
        tci_part_is_str(tci_part_get(tci_part_get(task.json, TC_STR("input")), TC_STR("kind")),
                        TC_STR("nested"));
    tci_arena_done(&a);
    return rc;
}

/* Mark all of them before waiting for any: one may run until another is ended. */
static int end_nested_calls(tc_task *t, tc_err *err)
{
    const uint64_t *owned;
    size_t n, nnested = 0;
    tc_tx *tx;
    if (tc_task_owned(t, &owned, &n, err) < 0)
        return err->code;
    uint64_t *nested = tci_arena_items(tci_result_arena(tc_task_result(t)), uint64_t, n);
    if (nested == NULL)
        return tci_arena_error(tci_result_arena(tc_task_result(t)), err);
    for (size_t i = 0; i < n; i++) {
        bool is_nested;
        if (is_nested_call(t, owned[i], &is_nested, err) < 0)
            return err->code;
        if (is_nested)
            nested[nnested++] = owned[i];
    }
    if (nnested == 0)
        return 0;
    if (tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    for (size_t i = 0; i < nnested; i++)
        if (tci_tx_mark_task(tc_task_harness(t), tx, nested[i], false, err) < 0) {
            tc_tx_rollback(tx);
            return err->code;
        }
    tc_next stay = {.kind = TC_NEXT_STAY};
    if (tc_task_commit(t, tx, &stay, err) < 0)
        return err->code;
    for (size_t i = 0; i < nnested; i++)
        if (tc_task_abort_owned(t, nested[i], err) < 0 && err->code != TC_E_INVALID)
            return err->code; /* INVALID: it has ended, so nobody's child any more */
    return 0;
}

/* ---- the commit ---- */

typedef struct settling {
    tc_task *t;
    const tci_tool_call *call;
    const tci_tool_settlement *s;
    tc_result *r;
    tc_tx *tx;
    tc_doc *live;
    tci_spot slot;
    tc_tool_result result;
    tc_err *err;
} settling;

static int make_result(settling *w)
{
    if (w->s->result != NULL) {
        w->result = *w->s->result;
        return 0;
    }
    const tc_json *slot =
        w->slot.text[0] != '\0' ? tc_json_find(tc_doc_value(w->live), w->slot.text) : NULL;
    return tci_tool_partial_result(w->r, slot, w->s->more_diagnostics, w->s->code, w->s->message,
                                   &w->result, w->err);
}

static int set_member(settling *w, const char *name, tc_str json)
{
    tci_spot at = tci_spot_member(&w->slot, name);
    return tc_doc_set(w->live, tci_spot_str(&at), json, w->err);
}

/* Its slot in the round, or among the nested calls: they look alike but for this. */
static bool is_nested_slot(const settling *w)
{
    tci_spot at = tci_spot_member(&w->slot, "parentTaskId");
    return tc_json_find(tc_doc_value(w->live), at.text) != NULL;
}

static int finish_slot(settling *w, tc_str name, tc_str json)
{
    if (w->slot.text[0] == '\0' || is_nested_slot(w) != w->call->is_nested)
        return 0;
    char member[16];
    if (tci_cstr(name, member, sizeof member, w->err) < 0 ||
        tci_live_finish_slot(w->live, &w->slot, w->err) < 0)
        return w->err->code;
    return set_member(w, member, json);
}

static int store_nested(settling *w, tc_str *ret_receipt)
{
    const tc_task_info *info = tc_task_current(w->t);
    tc_doc *state;
    uint64_t id = 0;
    tci_buf b;
    tc_str text;
    if (w->result.usage.len > 0 && tci_usage_record(w->tx, info->conversation_id, TC_STR("tools"),
                                                    w->call->name, w->result.usage, w->err) < 0)
        return w->err->code;
    if (tc_tx_doc(w->tx, &tci_nested_call_doc, w->call->parent, w->call->key, (tc_str){0}, &state,
                  w->err) < 0)
        return w->err->code;
    if (!tc_json_as_u64(tc_json_get(tc_doc_value(state), TC_STR("taskId")), &id) || id != info->id)
        return tc_err_set(w->err, TC_E_INTERNAL, "nested call %.*s is not in its caller's index",
                          TC_STR_ARG(w->call->id));
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_tool_put_nested(&b, info->id, &w->result, w->s->duration_ms);
    if (tci_result_take(w->r, &b, &text, w->err) < 0 ||
        tc_doc_set(state, TC_STR("/result"), text, w->err) < 0)
        return w->err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_tool_put_summary(&b, w->r, &w->result, w->s->duration_ms);
    if (tci_result_take(w->r, &b, &text, w->err) < 0 || finish_slot(w, TC_STR("summary"), text) < 0)
        return w->err->code;
    *ret_receipt = TC_STR("{\"kind\":\"nested\"}");
    return 0;
}

static int store_of_model(settling *w, tc_str *ret_receipt)
{
    const tc_task_info *info = tc_task_current(w->t);
    uint64_t entry;
    tc_str id;
    bool first = true;
    tci_buf b;
    if (tci_tool_append_result(w->tx, info->conversation_id, w->call->id, w->call->name, &w->result,
                               tc_task_now(w->t), w->s->duration_ms, &entry, w->err) < 0 ||
        tci_result_printf(w->r, &id, w->err, "%llu", (unsigned long long)entry) < 0 ||
        finish_slot(w, TC_STR("entry"), id) < 0)
        return w->err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("kind"), TC_STR("model"));
    tci_put_u64_member(&b, &first, TC_STR("entryId"), entry);
    if (w->s->ending.kind == TC_NEXT_COMPLETED && w->result.control.len > 0 &&
        w->result.control.ptr[0] == '{')
        tci_put_raw_member(&b, &first, TC_STR("control"), w->result.control);
    tci_buf_append_byte(&b, '}');
    return tci_result_take(w->r, &b, ret_receipt, w->err);
}

static int store(settling *w, bool made_nested, tc_str *ret_receipt)
{
    const tc_task_info *info = tc_task_current(w->t);
    if (tci_doc_of(w->tx, &tci_live_doc, info->conversation_id, &w->live, w->err) < 0)
        return w->err->code;
    w->slot = tci_live_slot(tc_doc_value(w->live), info->id);
    if (make_result(w) < 0)
        return w->err->code;
    int rc = w->call->is_nested ? store_nested(w, ret_receipt) : store_of_model(w, ret_receipt);
    if (rc == 0 && made_nested)
        rc = tci_live_remove_nested(w->live, info->id, w->err);
    return rc;
}

int tci_tool_settle(tc_task *t, const tci_tool_call *call, const tci_tool_settlement *settlement,
                    tc_err *err)
{
    settling w = {.t = t, .call = call, .s = settlement, .r = tc_task_result(t), .err = err};
    bool made_nested;
    tc_str memo, receipt;
    if (end_nested_calls(t, err) < 0 ||
        tc_task_get_memo(t, TCI_MADE_NESTED_CALLS, &made_nested, &memo, err) < 0 ||
        tc_task_begin(t, &w.tx, NULL, err) < 0)
        return err->code;
    if (store(&w, made_nested, &receipt) < 0) {
        tc_tx_rollback(w.tx);
        return err->code;
    }
    tc_next next = {
        .kind = settlement->ending.kind, .result = receipt, .message = settlement->ending.message};
    return tc_task_commit(t, w.tx, &next, err);
}
