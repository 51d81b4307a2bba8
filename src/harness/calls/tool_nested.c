/* SPDX-License-Identifier: Apache-2.0
 *
 * A tool that calls another: the inner call is a task of the outer one, found again by its key when the
 * outer runs again. Any thread of the outer tool, several at once.
 *
 * To keep: the memo that nested calls were made is committed before the first of an attempt, and a
 * call, its slot and its place in the index are one commit. */
#include "harness/calls/tool_int.h"

#include "base/num.h"
#include "harness/generation/context_scan.h"

const tc_doc_def tci_nested_call_doc = {.size = sizeof(tc_doc_def),
                                        .kind = "pi.tool.nested-call",
                                        .version = 1,
                                        .scope = TC_SCOPE_TASK,
                                        .is_family = true,
                                        .checkpoint_when = tc_checkpoint_never};

/* Keys of the caller's own are steps of call ids, and never look like ours. */
static int check_key(tc_str key, tc_err *err)
{
    uint64_t n;
    tc_err ignored;
    bool is_number = tci_num_u64(key, &n, &ignored) == 0 && n > 0;
    bool is_long_number = key.len > 19;
    for (size_t i = 0; is_long_number && i < key.len; i++)
        is_long_number = key.ptr[i] >= (i == 0 ? '1' : '0') && key.ptr[i] <= '9';
    if (key.len > 0 && tci_str_find_byte(key, '/') == key.len &&
        !tci_str_eq(key, TC_STR("__proto__")) && !is_number && !is_long_number)
        return 0;
    return tc_err_set(err, TC_E_INVALID,
                      "Nested call key \"%.*s\" must be non-empty, without \"/\", not "
                      "\"__proto__\", and not a positive integer",
                      TC_STR_ARG(key));
}

typedef struct admission {
    tc_tool_api *api;
    tc_result *r; /* of this admission */
    tc_str key, name, arguments, call_id, call;
    const tci_json *parsed;
    bool is_silent;
    uint64_t id;
    tc_err *err;
} admission;

/* {"type":"toolCall","id":..,"name":..,"arguments":..} */
static int make_call(admission *w)
{
    tci_buf b;
    bool first = true;
    if (tci_result_printf(w->r, &w->call_id, w->err, "%.*s/%.*s", TC_STR_ARG(w->api->call->id),
                          TC_STR_ARG(w->key)) < 0)
        return w->err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, w->parsed, TCI_JSON_AS_IS);
    if (tci_result_take(w->r, &b, &w->arguments, w->err) < 0)
        return w->err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("type"), TC_STR("toolCall"));
    tci_put_str_member(&b, &first, TC_STR("id"), w->call_id);
    tci_put_str_member(&b, &first, TC_STR("name"), w->name);
    tci_put_raw_member(&b, &first, TC_STR("arguments"), w->arguments);
    tci_buf_append_byte(&b, '}');
    return tci_result_take(w->r, &b, &w->call, w->err);
}

/* The same call, made before. */
static int find_made(admission *w, tc_tx *tx)
{
    tci_task task;
    const tci_json *record;
    tc_str name = {0};
    if (tci_tx_current_task(tx, w->id, tci_result_arena(w->r), &task, w->err) < 0)
        return w->err->code;
    const tci_json *call = NULL;
    if (task.id != 0) {
        if (tci_parse(w->r, task.json, &record, w->err) < 0)
            return w->err->code;
        call = tci_json_get(tci_json_get(record, TC_STR("input")), TC_STR("call"));
    }
    const tci_json *arguments = tci_json_get(call, TC_STR("arguments"));
    (void)tci_json_as_str(tci_json_get(call, TC_STR("name")), &name); /* empty: not the same */
    if (tci_str_eq(name, w->name) && arguments != NULL && tci_json_equal(arguments, w->parsed))
        return 0;
    return tc_err_set(w->err, TC_E_CONFLICT,
                      "Nested call %.*s was already made with another tool or other arguments",
                      TC_STR_ARG(w->call_id));
}

static int put_input(admission *w, tc_str *ret)
{
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("kind"), TC_STR("nested"));
    tci_put_u64_member(&b, &first, TC_STR("parent"), w->api->task_id);
    tci_put_str_member(&b, &first, TC_STR("parentCallId"), w->api->call->id);
    tci_put_str_member(&b, &first, TC_STR("key"), w->key);
    tci_put_raw_member(&b, &first, TC_STR("call"), w->call);
    if (w->is_silent)
        tci_put_bool_member(&b, &first, TC_STR("progress"), false);
    tci_buf_append_byte(&b, '}');
    return tci_result_take(w->r, &b, ret, w->err);
}

/* Nested slots are kept by ascending task id: a new one is the last. */
static int add_slot(admission *w, tc_tx *tx)
{
    tci_buf b;
    bool first = true;
    tc_str slot;
    tc_doc *live;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("[{"));
    tci_put_str_member(&b, &first, TC_STR("callId"), w->call_id);
    tci_put_str_member(&b, &first, TC_STR("parentCallId"), w->api->call->id);
    tci_put_u64_member(&b, &first, TC_STR("parentTaskId"), w->api->task_id);
    tci_put_str_member(&b, &first, TC_STR("name"), w->name);
    tci_put_u64_member(&b, &first, TC_STR("taskId"), w->id);
    tci_put_raw_member(&b, &first, TC_STR("arguments"), w->arguments);
    tci_put_str_member(&b, &first, TC_STR("status"), TC_STR("pending"));
    tci_buf_append_str(&b, TC_STR("}]"));
    if (tci_result_take(w->r, &b, &slot, w->err) < 0 ||
        tci_doc_of(tx, &tci_live_doc, w->api->conversation_id, &live, w->err) < 0)
        return w->err->code;
    const tc_json *there = tc_json_get(tc_doc_value(live), TC_STR("nestedTools"));
    if (there == NULL)
        return tc_doc_set(live, TC_STR("/nestedTools"), slot, w->err);
    return tc_doc_splice(live, TC_STR("/nestedTools"), tc_json_count(there), 0, slot, w->err);
}

static int admit_in(admission *w, tc_tx *tx)
{
    tc_doc *state;
    tc_str input, id;
    tc_task_options options = TC_TASK_OPTIONS;
    options.owner_task_id = w->api->task_id;
    options.abandon_on_restart = w->api->tool->replay != TC_REPLAY_SAFE;
    if (tc_tx_doc(tx, &tci_nested_call_doc, w->api->task_id, w->key, (tc_str){0}, &state, w->err) <
        0)
        return w->err->code;
    if (tc_json_as_u64(tc_json_get(tc_doc_value(state), TC_STR("taskId")), &w->id))
        return find_made(w, tx);
    if (put_input(w, &input) < 0 ||
        tc_tx_create_task_of(tx, &tci_tool_task, input, &options, &w->id, w->err) < 0 ||
        tci_result_printf(w->r, &id, w->err, "%llu", (unsigned long long)w->id) < 0 ||
        tc_doc_set(state, TC_STR("/taskId"), id, w->err) < 0)
        return w->err->code;
    return add_slot(w, tx);
}

static int mark_made(tc_tool_api *api, tc_result *r, tc_err *err)
{
    tc_str ignored;
    tci_mutex_lock(&api->lock);
    bool is_marked = api->has_marked_nested;
    tci_mutex_unlock(&api->lock);
    if (is_marked)
        return 0;
    int rc = tci_task_memo(api->task, TCI_MADE_NESTED_CALLS, TC_STR("true"), r, &ignored, err);
    tci_mutex_lock(&api->lock);
    api->has_marked_nested |= rc == 0;
    tci_mutex_unlock(&api->lock);
    return rc;
}

static int admit(admission *w)
{
    tc_tx *tx;
    tc_next stay = {.kind = TC_NEXT_STAY};
    if (tci_parse(w->r, w->arguments, &w->parsed, w->err) < 0 || make_call(w) < 0 ||
        mark_made(w->api, w->r, w->err) < 0 || tc_task_begin(w->api->task, &tx, NULL, w->err) < 0)
        return w->err->code;
    if (admit_in(w, tx) < 0) {
        tc_tx_rollback(tx);
        return w->err->code;
    }
    return tc_task_commit(w->api->task, tx, &stay, w->err);
}

/* ---- the answer ---- */

static int member_text(tc_result *r, const tci_json *v, tc_str key, tc_str *ret, tc_err *err)
{
    const tci_json *member = tci_json_get(v, key);
    tci_buf b;
    if (member == NULL)
        return 0;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, member, TCI_JSON_AS_IS);
    return tci_result_take(r, &b, ret, err);
}

static int read_result(tc_result *r, const tci_json *v, tc_nested_result *n, tc_err *err)
{
    (void)tci_json_as_bool(tci_json_get(v, TC_STR("isError")), &n->is_error);
    n->has_duration = tci_json_as_i64(tci_json_get(v, TC_STR("durationMs")), &n->duration_ms);
    if (member_text(r, v, TC_STR("structuredOutput"), &n->structured_output, err) < 0 ||
        member_text(r, v, TC_STR("details"), &n->details, err) < 0 ||
        member_text(r, v, TC_STR("diagnostics"), &n->diagnostics, err) < 0)
        return err->code;
    return member_text(r, v, TC_STR("usage"), &n->usage, err);
}

/* A call that ended without a result: the scheduler ended it. */
static int read_outcome(tc_result *r, tc_str name, tc_str record, tc_nested_result *n, tc_err *err)
{
    tc_str outcome = tci_part_get(tci_part_get(record, TC_STR("state")), TC_STR("outcome"));
    tc_str status = {0}, why = {0};
    tci_buf b, line;
    (void)tci_part_str(tci_part_get(outcome, TC_STR("status")), tci_result_arena(r), &status);
    tci_buf_init(&line, TCI_BUF_MAX);
    tci_buf_append_str(&line, TC_STR("Tool "));
    tci_buf_append_str(&line, name);
    if (tci_str_eq(status, TC_STR("faulted"))) {
        (void)tci_part_str(tci_part_get(tci_part_get(outcome, TC_STR("error")), TC_STR("message")),
                           tci_result_arena(r), &why);
        tci_buf_append_str(&line, TC_STR(" failed: "));
        tci_buf_append_str(&line, why);
    } else if (tci_str_eq(status, TC_STR("orphaned"))) {
        (void)tci_part_str(tci_part_get(outcome, TC_STR("reason")), tci_result_arena(r), &why);
        tci_buf_append_str(&line, TC_STR(" could not resume: "));
        tci_buf_append_str(&line, why);
    } else {
        tci_buf_append_str(&line, TC_STR(" ended without a result"));
    }
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '[');
    tci_put_diagnostic(&b, TC_SEVERITY_ERROR, status, tci_buf_str(&line));
    tci_buf_append_byte(&b, ']');
    tci_buf_done(&line);
    n->is_error = true;
    return tci_result_take(r, &b, &n->diagnostics, err);
}

static int wait_for(tc_tool_api *api, tc_ctx *ctx, const admission *w, tc_result *r,
                    tc_nested_result *ret, tc_err *err)
{
    tc_doc_addr addr = {&tci_nested_call_doc, api->task_id, w->key};
    tc_nested_result n = {.task_id = w->id};
    tc_str record, stored;
    const tci_json *v;
    if (tci_task_wait(api->task, ctx, w->id, r, &record, err) < 0 ||
        tc_durable_snapshot(tci_harness_session(api->h), &addr, r, &stored, err) < 0)
        return err->code;
    const tci_json *result = NULL;
    if (stored.len > 0) {
        if (tci_parse(r, stored, &v, err) < 0)
            return err->code;
        result = tci_json_get(v, TC_STR("result"));
    }
    int rc = result != NULL ? read_result(r, result, &n, err)
                            : read_outcome(r, w->name, record, &n, err);
    if (rc == 0)
        *ret = n;
    return rc;
}

int tc_tool_execute_tool(tc_tool_api *api, tc_ctx *ctx, tc_str name, tc_str arguments,
                         const tc_nested_options *options, tc_result *r,
                         tc_nested_result *ret_result, tc_err *err)
{
    admission w = {.api = api, .r = r, .name = name, .arguments = arguments, .err = err};
    if (api->task == NULL)
        return tc_err_set(err, TC_E_UNSUPPORTED, "this call can make no others");
    if (options != NULL && options->size < sizeof *options)
        return tc_err_set(err, TC_E_INVALID, "options without their size");
    w.is_silent = options != NULL && options->without_progress;
    if (options != NULL && options->key.ptr != NULL) {
        w.key = options->key;
        if (check_key(w.key, err) < 0)
            return err->code;
    } else {
        tci_mutex_lock(&api->lock);
        uint64_t n = ++api->nnested;
        tci_mutex_unlock(&api->lock);
        if (tci_result_printf(r, &w.key, err, "%llu", (unsigned long long)n) < 0)
            return err->code;
    }
    if (tci_ctx_check(ctx, err) < 0 || admit(&w) < 0)
        return err->code;
    return wait_for(api, ctx, &w, r, ret_result, err);
}
