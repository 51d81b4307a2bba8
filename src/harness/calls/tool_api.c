/* SPDX-License-Identifier: Apache-2.0
 *
 * What a running tool may do (telechir/tool.h), except calling other tools (tool_nested.c) and noting
 * changes (operation.c). Threads as the header says.
 *
 * To keep: a tool sees only its own call's environment, and none when there is none. */
#include "harness/calls/tool_int.h"

#include "base/num.h"
#include "harness/conversation.h"
#include "plat/clock.h"
#include <stdio.h>

static int publish(tc_tool_api *api, tc_task *task, const tci_tool_call *call, tc_err *err)
{
    tc_settings settings;
    tc_result *r;
    if (tc_result_new(&r, err) < 0)
        return err->code;
    tci_harness_settings(api->h, r, &settings);
    int64_t interval = settings.output_interval_ms;
    tc_result_free(r);
    if (!call->is_silent)
        tci_reported_publish(&api->reported, task, interval);
    if (api->window.max_bytes > 0)
        api->window.min_interval_ms = interval > 0 ? (uint64_t)interval : 0;
    return 0;
}

int tci_tool_api_init(tc_tool_api *api, tc_task *task, const tci_tool_call *call,
                      const tc_tool *tool, tci_turns *turns, tc_err *err)
{
    tci_output_limits limits = tci_tool_limits(tool);
    *api = (tc_tool_api){.task = task, .call = call, .tool = tool, .turns = turns};
    if (tc_result_new(&api->memory, err) < 0)
        return err->code;
    tci_mutex_init(&api->lock);
    tci_buf_init(&api->failure, TCI_BUF_MAX);
    tci_reported_init(&api->reported, &limits);
    if (limits.retain == TC_RETAIN_TAIL)
        api->window = (tc_output_window){.max_bytes = limits.max_bytes,
                                         .max_lines = limits.max_lines,
                                         .min_interval_ms = 100,
                                         .bytes_per_second = TCI_OUTPUT_BYTES_PER_SECOND};
    if (task == NULL)
        return 0;
    api->h = tc_task_harness(task);
    api->task_id = tc_task_current(task)->id;
    api->conversation_id = tc_task_current(task)->conversation_id;
    if (publish(api, task, call, err) < 0) {
        tci_tool_api_done(api);
        return err->code;
    }
    return 0;
}

void tci_tool_api_done(tc_tool_api *api)
{
    tci_reported_done(&api->reported);
    tci_buf_done(&api->failure);
    tci_mutex_done(&api->lock);
    tc_result_free(api->memory);
}

int tc_tool_conversation(tc_tool_api *api, uint64_t id, struct tc_bound *ret_bound, tc_err *err)
{
    if (api->task == NULL)
        return tc_err_set(err, TC_E_UNSUPPORTED, "this call belongs to no task");
    return tc_task_conversation(api->task, id, ret_bound, err);
}

uint64_t tc_tool_task_id(const tc_tool_api *api)
{
    return api->task_id;
}

uint64_t tc_tool_conversation_id(const tc_tool_api *api)
{
    return api->conversation_id;
}

tc_str tc_tool_call_id(const tc_tool_api *api)
{
    return api->call->id;
}

struct tc_harness *tc_tool_harness(const tc_tool_api *api)
{
    return api->h;
}

int64_t tc_tool_now_ms(const tc_tool_api *api)
{
    if (api->h != NULL)
        return tc_harness_now(api->h);
    tci_instant now = tci_clock_now();
    return now.sec * 1000 + now.nsec / 1000000;
}

tc_result *tc_tool_result_memory(tc_tool_api *api)
{
    return api->memory;
}

tc_env *tc_tool_env(const tc_tool_api *api)
{
    return api->env;
}

int tc_tool_require_env(const tc_tool_api *api, tc_env **ret_env, tc_err *err)
{
    if (api->env == NULL)
        return tc_err_set(err, TC_E_UNSUPPORTED, "No execution environment is configured");
    *ret_env = api->env;
    return 0;
}

int tc_tool_fail(tc_tool_api *api, tc_err *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    tci_mutex_lock(&api->lock);
    tci_buf_clear(&api->failure);
    char *out = n > 0 ? tci_buf_reserve(&api->failure, (size_t)n + 1) : NULL;
    if (out != NULL) {
        va_start(args, fmt);
        (void)vsnprintf(out, (size_t)n + 1, fmt, args); /* as long as it was measured */
        va_end(args);
        tci_buf_commit(&api->failure, (size_t)n);
    }
    int rc = tc_err_set(err, TC_E_INVALID, "%.*s", TC_STR_ARG(tci_buf_str(&api->failure)));
    tci_mutex_unlock(&api->lock);
    return rc;
}

/* ---- reports ---- */

int tc_tool_output(tc_tool_api *api, tc_str bytes, const tc_skipped *skipped, tc_err *err)
{
    return tci_reported_output(&api->reported, bytes, skipped, err);
}

int tc_tool_retained_output(tc_tool_api *api, tc_result *r, tc_str *ret_text, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_reported_text(&api->reported, &b, NULL);
    return tci_result_take(r, &b, ret_text, err);
}

int tc_tool_diagnostic(tc_tool_api *api, tc_severity severity, tc_str code, tc_str message,
                       tc_err *err)
{
    if ((unsigned)severity > TC_SEVERITY_ERROR)
        return tc_err_set(err, TC_E_INVALID, "no such severity");
    return tci_reported_diagnostic(&api->reported, severity, code, message, err);
}

int tc_tool_details(tc_tool_api *api, tc_str json, tc_err *err)
{
    tci_arena a;
    tci_json v;
    tci_buf b;
    tci_arena_init(&a, 0);
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = tci_json_parse(json, TCI_JSON_DURABLE, &a, &v, err);
    if (rc == 0) {
        tci_json_put(&b, &v, TCI_JSON_AS_IS);
        rc = tci_buf_error(&b, err);
    }
    if (rc == 0)
        rc = tci_reported_details(&api->reported, tci_buf_str(&b), err);
    tci_buf_done(&b);
    tci_arena_done(&a);
    return rc;
}

int tc_tool_flush(tc_tool_api *api, tc_ctx *ctx, tc_err *err)
{
    return tci_reported_flush(&api->reported, ctx, err);
}

const tc_output_window *tc_tool_output_window(const tc_tool_api *api)
{
    return api->window.max_bytes > 0 ? &api->window : NULL;
}

/* ---- durable state ---- */

static int need_task(const tc_tool_api *api, tc_err *err)
{
    return api->task != NULL ? 0 : tc_err_set(err, TC_E_UNSUPPORTED, "this call keeps nothing");
}

int tc_tool_memo(tc_tool_api *api, tc_ctx *ctx, tc_str name, tc_str value, tc_result *r,
                 tc_str *ret_value, tc_err *err)
{
    if (need_task(api, err) < 0 || tci_ctx_check(ctx, err) < 0)
        return err->code;
    if (value.len == 0)
        return tci_task_get_memo(api->task, name, r, ret_value, err);
    return tci_task_memo(api->task, name, value, r, ret_value, err);
}

int tc_tool_commit(tc_tool_api *api, tc_ctx *ctx, tc_tool_change change, void *user, tc_err *err)
{
    tc_tx *tx;
    tc_next stay = {.kind = TC_NEXT_STAY};
    if (need_task(api, err) < 0 || tci_ctx_check(ctx, err) < 0 ||
        tc_task_begin(api->task, &tx, NULL, err) < 0)
        return err->code;
    int rc = change(user, tx, err);
    if (rc != 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    return tc_task_commit(api->task, tx, &stay, err);
}

/* ---- turns ---- */

int tc_tool_file_turn(tc_tool_api *api, tc_ctx *ctx, tc_str path, tc_file_turn **ret_turn,
                      tc_err *err)
{
    tc_env *env;
    tc_result *r;
    tc_str absolute, key;
    tc_file_turn *turn;
    if (tc_tool_require_env(api, &env, err) < 0 || tc_result_new(&r, err) < 0)
        return err->code;
    tc_call call = TC_CALL(ctx, r);
    int rc = tc_env_resolve_path(env, &call, path, &absolute, err);
    if (rc == 0)
        rc = tci_turn_key(env, &call, absolute, &key, err);
    if (rc == 0)
        rc = tci_turns_join(api->turns, key, &turn, err);
    tc_result_free(r);
    if (rc < 0)
        return rc;
    if (api->task != NULL)
        tci_task_park(api->task);
    rc = tci_turn_wait(turn, ctx, err);
    if (api->task != NULL)
        tci_task_unpark(api->task);
    if (rc == 0)
        *ret_turn = turn;
    return rc;
}

tci_turns *tci_harness_turns(tc_harness *h)
{
    return tci_run_of(h)->turns;
}
