/* SPDX-License-Identifier: Apache-2.0
 *
 * The task "pi.tool": one call of a tool, from its arguments to its result. What it means to do is
 * committed before it does it (checkpoint "execute"), so that a call that was cut off is known to be
 * one; "execute" is entered as a phase only then. Finding and checking a call is tool_call.c's, making
 * a result tool_result.c's, storing it tool_settle.c's, what a running tool may do tool_api.c's. The
 * thread of the task, off the line.
 *
 * To keep: no environment is asked for and nothing of the tool runs before the intent is committed;
 * without an environment tools fail, they never act on this machine instead. */
#include "harness/calls/tool_int.h"

#include "harness/calls/approval.h"
#include "plat/clock.h"

static int settle_error(tc_task *t, const tci_tool_call *call, tc_str code, tc_str message,
                        tc_err *err)
{
    tc_tool_result result;
    tci_tool_settlement s = {
        .result = &result, .ending = {.kind = TC_NEXT_COMPLETED}, .duration_ms = -1};
    if (tci_tool_error_result(tc_task_result(t), code, message, &result, err) < 0)
        return err->code;
    return tci_tool_settle(t, call, &s, err);
}

/* The result is what the slot says, and a last word. */
static int settle_partial(tc_task *t, const tci_tool_call *call, const char *code, tc_str message,
                          tc_str more, tc_next_kind kind, tc_err *err)
{
    tci_tool_settlement s = {.code = tci_str(code),
                             .message = message,
                             .more_diagnostics = more,
                             .ending = {kind, kind == TC_NEXT_FAILED ? message : (tc_str){0}},
                             .duration_ms = -1};
    return tci_tool_settle(t, call, &s, err);
}

/* "Tool NAME ..." in the task's result. */
static int words(tc_task *t, const tci_tool_call *call, const char *what, tc_str *ret, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("Tool "));
    tci_buf_append_str(&b, call->name);
    tci_buf_append_str(&b, tci_str(what));
    return tci_result_take(tc_task_result(t), &b, ret, err);
}

/* ---- running a tool ---- */

/* Ask for the environment and run the tool in it. *ret_duration_ms stays as it is when it was not
 * run. */
static int execute(tc_task *t, tc_tool_api *api, tc_str arguments, tc_tool_result *ret_result,
                   int64_t *ret_duration_ms, tc_err *err)
{
    if (tc_task_env(t, &api->env, err) < 0)
        return err->code;
    int64_t started = tci_clock_mono_ns();
    int rc = api->tool->execute(api->tool->user, arguments, api, tc_task_ctx(t), ret_result, err);
    *ret_duration_ms = (tci_clock_mono_ns() - started + 500000) / 1000000;
    tc_task_env_release(t, api->env);
    api->env = NULL;
    return rc;
}

/* A change that was sent, and whose answer never came: the model has to know. */
static int say_unknown(tc_task *t, const tci_tool_call *call, tc_str *message, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, *message);
    tci_buf_append_str(&b, TC_STR(". Tool "));
    tci_buf_append_str(&b, call->name);
    tci_buf_append_str(&b, TC_STR(" may have partially run"));
    return tci_result_take(tc_task_result(t), &b, message, err);
}

/* A tool that failed: its words are the result, and what it owned is cancelled with it. */
static int result_of_failure(tc_task *t, tc_tool_api *api, const tci_tool_call *call,
                             const tc_err *problem, tc_tool_result *ret_result,
                             tci_tool_ending *ret_ending, tc_err *err)
{
    tc_str message = api->failure.len > 0 ? tci_buf_str(&api->failure) : tci_str(problem->msg);
    if (problem->code == TC_E_UNKNOWN_OUTCOME && say_unknown(t, call, &message, err) < 0)
        return err->code;
    *ret_ending = (tci_tool_ending){.kind = TC_NEXT_FAILED};
    if (words(t, call, " threw", &ret_ending->message, err) < 0 ||
        tci_tool_error_result(tc_task_result(t), TC_STR("tool_error"), message, ret_result, err) <
            0)
        return err->code;
    ret_result->output = (tc_str){0}; /* what it reported before stays */
    return 0;
}

static int run_in(tc_task *t, tc_tool_api *api, const tci_tool_call *call, tc_str arguments,
                  tc_err *err)
{
    tc_tool_result raw = {.size = sizeof raw}, final;
    tc_err problem = {0};
    tci_tool_settlement s = {
        .result = &final, .ending = {.kind = TC_NEXT_COMPLETED}, .duration_ms = -1};
    int rc = execute(t, api, arguments, &raw, &s.duration_ms, &problem);
    bool is_ending = tc_ctx_is_cancelled(tc_task_ctx(t));
    tci_output_end(&api->reported.output);
    if (rc < 0 && is_ending) { /* the abort handler, or the next start, has the last word */
        tci_reported_stop(&api->reported, true);
        *err = problem;
        return tc_err_recode(err, TC_E_CANCELLED);
    }
    tci_reported_stop(&api->reported, false);
    if (rc < 0 && result_of_failure(t, api, call, &problem, &raw, &s.ending, err) < 0)
        return err->code;
    if (tci_tool_final_result(t, call, api->tool, &raw, &api->reported, &final, err) < 0)
        return err->code;
    return tci_tool_settle(t, call, &s, err);
}

static int run_tool(tc_task *t, const tci_tool_call *call, const tc_tool *tool, tc_str arguments,
                    tc_err *err)
{
    struct tc_tool_api api;
    if (tci_tool_api_init(&api, t, call, tool, tci_harness_turns(tc_task_harness(t)), err) < 0)
        return err->code;
    int rc = run_in(t, &api, call, arguments, err);
    tci_tool_api_done(&api);
    return rc;
}

/* ---- phase "call" ---- */

/* Asks the before_tool hooks. *ret_block: why not; *arguments may change; *ret_is_gated: approval was
 * asked for. */
static int run_before_tool(tc_task *t, const tci_tool_call *call, tc_str *arguments,
                           tc_str *ret_block, bool *ret_is_gated, tc_err *err)
{
    const tci_agent *agent;
    struct tc_hook hook = {t};
    tc_result *r = tc_task_result(t);
    *ret_block = (tc_str){0};
    *ret_is_gated = false;
    if (tci_task_agent(t, &agent, err) < 0)
        return err->code;
    for (size_t i = 0; i < agent->nextensions && ret_block->len == 0; i++) {
        const tc_extension *ext = agent->extensions[i];
        const tci_json *v;
        tc_tool_decision decision = {0};
        tc_str now;
        tci_buf b;
        if (ext->hooks == NULL || ext->hooks->before_tool == NULL)
            continue;
        *ret_is_gated |= tci_approval_is_gate(ext);
        if (tci_parse(r, call->json, &v, err) < 0)
            return err->code;
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_json_change change = {TC_STR("arguments"), *arguments};
        tci_json_edit(&b, v, &change, 1);
        if (tci_result_take(r, &b, &now, err) < 0)
            return err->code;
        tc_err problem = {0};
        int rc = ext->hooks->before_tool(ext->user, &hook, now, r, &decision, &problem);
        if (rc < 0 && tc_ctx_is_cancelled(tc_task_ctx(t))) {
            *err = problem;
            return tc_err_recode(err, TC_E_CANCELLED);
        }
        if (rc < 0)
            rc = tc_result_dup(r, problem.msg[0] != '\0' ? tci_str(problem.msg) : TC_STR("unknown"),
                               ret_block, err);
        else if (decision.block.len > 0)
            *ret_block = decision.block;
        else if (decision.arguments.len > 0)
            *arguments = decision.arguments;
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int settle_blocked(tc_task *t, const tci_tool_call *call, tc_str reason, tc_err *err)
{
    tc_str message;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("Tool call blocked: "));
    tci_buf_append_str(&b, reason);
    if (tci_result_take(tc_task_result(t), &b, &message, err) < 0)
        return err->code;
    return settle_error(t, call, TC_STR("blocked"), message, err);
}

/* A nested slot shows what the call runs with, which may not be what was asked for. */
static int show_arguments(const tci_tool_call *call, tc_doc *live, const tci_spot *slot,
                          tc_str arguments, tci_arena *a, tc_err *err)
{
    tci_json v;
    tci_spot parent = tci_spot_member(slot, "parentTaskId"),
             at = tci_spot_member(slot, "arguments");
    if (!call->is_nested || tc_json_find(tc_doc_value(live), parent.text) == NULL)
        return 0;
    if (tci_json_parse(arguments, TCI_JSON_DURABLE, a, &v, err) < 0)
        return err->code;
    if (call->arguments != NULL && tci_json_equal(&v, call->arguments))
        return 0;
    return tc_doc_set(live, tci_spot_str(&at), arguments, err);
}

static int commit_intent(tc_task *t, const tci_tool_call *call, const tc_tool *tool,
                         tc_str arguments, tc_err *err)
{
    tc_tx *tx;
    tc_doc *live;
    tc_next next = {.kind = TC_NEXT_RUNNING};
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("phase"), TC_STR("execute"));
    tci_put_raw_member(&b, &first, TC_STR("arguments"), arguments);
    tci_put_str_member(&b, &first, TC_STR("replay"),
                       tool->replay == TC_REPLAY_SAFE ? TC_STR("safe") : TC_STR("unsafe"));
    tci_buf_append_byte(&b, '}');
    if (tci_result_take(tc_task_result(t), &b, &next.checkpoint, err) < 0 ||
        tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    int rc = tci_doc_of(tx, &tci_live_doc, tc_task_current(t)->conversation_id, &live, err);
    if (rc == 0) {
        tci_spot slot = tci_live_slot(tc_doc_value(live), tc_task_current(t)->id);
        tci_spot status = tci_spot_member(&slot, "status");
        if (slot.text[0] != '\0')
            rc = tc_doc_set(live, tci_spot_str(&status), TC_STR("\"running\""), err);
        if (rc == 0 && slot.text[0] != '\0')
            rc = show_arguments(call, live, &slot, arguments, tci_tx_arena(tx), err);
    }
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    return tc_task_commit(t, tx, &next, err);
}

static int run_call(tc_task *t, tc_err *err)
{
    tci_tool_call call;
    const tc_tool *tool;
    tc_str arguments, message;
    bool is_gated;
    tci_buf b;
    if (tci_tool_read_call(t, &call, err) < 0 || tci_tool_resolve(t, &call, &tool, err) < 0)
        return err->code;
    if (tool == NULL) {
        if (words(t, &call, " is not available", &message, err) < 0)
            return err->code;
        return settle_error(t, &call, TC_STR("tool_unavailable"), message, err);
    }
    tci_buf_init(&b, TCI_BUF_MAX);
    if (call.arguments != NULL && call.arguments->kind != TCI_JSON_NULL)
        tci_json_put(&b, call.arguments, TCI_JSON_AS_IS);
    else
        tci_buf_append_str(&b, TC_STR("{}"));
    if (tci_result_take(tc_task_result(t), &b, &arguments, err) < 0 ||
        tci_tool_check_arguments(t, &call, tool, arguments, true, &arguments, &message, err) < 0)
        return err->code;
    if (message.len > 0)
        return settle_error(t, &call, TC_STR("invalid_arguments"), message, err);
    if (run_before_tool(t, &call, &arguments, &message, &is_gated, err) < 0)
        return err->code;
    if (message.len > 0)
        return settle_blocked(t, &call, message, err);
    if (tci_tool_check_arguments(t, &call, tool, arguments, false, &arguments, &message, err) < 0)
        return err->code;
    if (message.len > 0)
        return settle_error(t, &call, TC_STR("invalid_arguments"), message, err);
    if (is_gated && tci_approval_check(t, call.name, arguments, &message, err) < 0)
        return err->code;
    if (message.len > 0)
        return settle_blocked(t, &call, message, err);
    if (commit_intent(t, &call, tool, arguments, err) < 0)
        return err->code;
    return run_tool(t, &call, tool, arguments, err);
}

/* ---- phase "execute": after a restart only ---- */

static int clear_progress(tc_task *t, tc_err *err)
{
    tc_tx *tx;
    tc_doc *live;
    tc_next stay = {.kind = TC_NEXT_STAY};
    if (tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    int rc = tci_doc_of(tx, &tci_live_doc, tc_task_current(t)->conversation_id, &live, err);
    if (rc == 0) {
        tci_spot slot = tci_live_slot(tc_doc_value(live), tc_task_current(t)->id);
        if (slot.text[0] != '\0')
            rc = tci_live_clear_progress(live, &slot, err);
    }
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    return tc_task_commit(t, tx, &stay, err);
}

static int run_execute(tc_task *t, tc_err *err)
{
    tci_tool_call call;
    const tc_tool *tool;
    const tci_json *checkpoint;
    tc_str replay = {0}, arguments, message, known;
    tci_buf b;
    if (tci_tool_read_call(t, &call, err) < 0 || tci_tool_resolve(t, &call, &tool, err) < 0 ||
        tci_parse(tc_task_result(t), tc_task_current(t)->checkpoint, &checkpoint, err) < 0)
        return err->code;
    (void)tci_json_as_str(tci_json_get(checkpoint, TC_STR("replay")), &replay); /* else unsafe */
    const tci_json *stored = tci_json_get(checkpoint, TC_STR("arguments"));
    if (tci_str_eq(replay, TC_STR("safe")) && tool != NULL && tool->replay == TC_REPLAY_SAFE &&
        stored != NULL) {
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_json_put(&b, stored, TCI_JSON_AS_IS);
        if (tci_result_take(tc_task_result(t), &b, &arguments, err) < 0 ||
            clear_progress(t, err) < 0)
            return err->code;
        return run_tool(t, &call, tool, arguments, err);
    }
    if (words(t, &call, " was interrupted and may have partially run", &message, err) < 0 ||
        tci_operation_diagnostics(t, &known, err) < 0)
        return err->code;
    return settle_partial(t, &call, "interrupted", message, known, TC_NEXT_FAILED, err);
}

/* ---- other ends ---- */

static int run_abort(tc_task *t, tc_err *err)
{
    const tc_task_info *info = tc_task_current(t);
    tci_tool_call call;
    tc_str message, known = {0};
    const char *code = "aborted", *what = " was aborted";
    if (tci_tool_read_call(t, &call, err) < 0)
        return err->code;
    bool has_begun = tci_str_eq(info->phase, TC_STR("execute"));
    if (info->abort_reason.len > 0) {
        code = has_begun ? "interrupted" : "abandoned";
        what = has_begun ? " was interrupted by a restart and may have partially run"
                         : " was not started: its caller ended with a restart";
    }
    if (words(t, &call, what, &message, err) < 0 ||
        (has_begun && tci_operation_diagnostics(t, &known, err) < 0))
        return err->code;
    return settle_partial(t, &call, code, message, known, TC_NEXT_ABORTED, err);
}

static int run_restart_limit(tc_task *t, tc_err *err)
{
    tci_tool_call call;
    tc_str message, known = {0};
    char what[128];
    if (tci_tool_read_call(t, &call, err) < 0)
        return err->code;
    bool has_begun = tci_str_eq(tc_task_current(t)->phase, TC_STR("execute"));
    tci_buf line = {.ptr = what, .cap = sizeof what - 1, .max = sizeof what - 1};
    tci_buf_append_str(&line, TC_STR(" was cut off "));
    tci_buf_append_u64(&line, tc_task_current(t)->restarts);
    tci_buf_append_str(&line, TC_STR(" times and was given up"));
    tci_buf_append_str(&line, has_begun ? TC_STR("; it may have partially run") : TC_STR(""));
    what[line.len] = '\0';
    if (words(t, &call, what, &message, err) < 0 ||
        (has_begun && tci_operation_diagnostics(t, &known, err) < 0))
        return err->code;
    return settle_partial(t, &call, "restart_limit", message, known, TC_NEXT_FAILED, err);
}

/* Version 1 had calls of models only, and no word for it. */
static int migrate(void *user, tc_str input, tc_str checkpoint, uint64_t from_version, tc_result *r,
                   tc_str *ret_input, tc_str *ret_checkpoint, tc_err *err)
{
    const tci_json *v;
    tci_buf b;
    tci_json_change change = {TC_STR("kind"), TC_STR("\"model\"")};
    (void)user;
    (void)from_version;
    if (tci_parse(r, input, &v, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_edit(&b, v, &change, 1);
    *ret_checkpoint = checkpoint;
    return tci_result_take(r, &b, ret_input, err);
}

static int initial(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint, tc_err *err)
{
    (void)user;
    (void)input;
    (void)r;
    (void)err;
    *ret_checkpoint = TC_STR("{\"phase\":\"call\"}");
    return 0;
}

static const tc_task_phase phases[] = {{"call", run_call}, {"execute", run_execute}};

const tc_task_def tci_tool_task = {.size = sizeof(tc_task_def),
                                   .name = "pi.tool",
                                   .is_prompt = true,
                                   .commits_first = true,
                                   .version = 2,
                                   .initial = initial,
                                   .phases = phases,
                                   .nphases = TCI_ARRAY_LEN(phases),
                                   .abort = run_abort,
                                   .migrate = migrate,
                                   .on_restart_limit = run_restart_limit};
