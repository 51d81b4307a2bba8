/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes on a device that keeps receipts: who would have to be asked is committed before the change is
 * made, and asked when the call was cut off. Only a receipt says that something was done; everything
 * else stays unknown, and nothing is done again. The document "tc.operation" belongs to the call's task
 * and goes with it.
 *
 * To keep: an operation id is committed before it leaves this function. */
#include "harness/calls/tool_int.h"

#include "base/hash.h"
#include "env/env.h"
#include "plat/clock.h"

enum { RECEIPT_WAIT_MS = 5000, RANDOM_BYTES = 8 };

const tc_doc_def tci_operation_doc = {.size = sizeof(tc_doc_def),
                                      .kind = "tc.operation",
                                      .version = 1,
                                      .scope = TC_SCOPE_TASK,
                                      .initial_json = "{\"items\":[]}",
                                      .checkpoint_when = tc_checkpoint_never};

typedef struct note {
    tc_tool_api *api;
    tc_str id, what;
} note;

static int commit_note(void *user, tc_tx *tx, tc_err *err)
{
    const note *n = user;
    const tc_env *env = n->api->env;
    tc_doc *doc;
    tci_buf b;
    bool first = true;
    if (tc_tx_doc(tx, &tci_operation_doc, n->api->task_id, (tc_str){0}, (tc_str){0}, &doc, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("[{"));
    tci_put_str_member(&b, &first, TC_STR("operationId"), n->id);
    tci_put_str_member(&b, &first, TC_STR("what"), n->what);
    tci_put_str_member(&b, &first, TC_STR("deviceId"), tc_env_device_id(env));
    tci_put_u64_member(&b, &first, TC_STR("generation"), tc_env_generation(env));
    tci_put_str_member(&b, &first, TC_STR("sessionId"), tc_env_session_id(env));
    tci_buf_append_str(&b, TC_STR("}]"));
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_doc_splice(doc, TC_STR("/items"),
                           tc_json_count(tc_json_get(tc_doc_value(doc), TC_STR("items"))), 0,
                           tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}

int tc_tool_operation(tc_tool_api *api, tc_ctx *ctx, tc_str what, tc_result *r,
                      tc_str *ret_operation_id, tc_err *err)
{
    uint8_t random[RANDOM_BYTES];
    char hex[2 * RANDOM_BYTES];
    note n = {.api = api, .what = what};
    *ret_operation_id = (tc_str){0};
    if (api->task == NULL || api->env == NULL || !tci_env_has_receipts(api->env))
        return 0;
    tci_mutex_lock(&api->lock);
    uint64_t nth = ++api->noperations;
    tci_mutex_unlock(&api->lock);
    tci_random_bytes(random, sizeof random);
    tci_hex(random, sizeof random, hex);
    if (tci_result_printf(r, &n.id, err, "tc-%llu-%llu-%.*s", (unsigned long long)api->task_id,
                          (unsigned long long)nth, (int)sizeof hex, hex) < 0 ||
        tc_tool_commit(api, ctx, commit_note, &n, err) < 0)
        return err->code;
    *ret_operation_id = n.id;
    return 0;
}

/* ---- after a restart ---- */

typedef struct asking {
    tc_task *t;
    tc_env *env; /* NULL: none could be had */
    tc_result *r;
    tci_buf items;
} asking;

static void say(asking *w, tc_severity severity, tc_str what, const char *rest)
{
    tci_buf line;
    tci_buf_init(&line, TCI_BUF_MAX);
    tci_buf_append_str(&line, what.len > 0 ? what : TC_STR("a change"));
    tci_buf_append_str(&line, tci_str(rest));
    if (w->items.len > 0)
        tci_buf_append_byte(&w->items, ',');
    tci_put_diagnostic(&w->items, severity, TC_STR("operation"), tci_buf_str(&line));
    tci_buf_done(&line);
}

static void ask(asking *w, const tci_json *item)
{
    tci_env_operation o = {0};
    tc_str what = {0};
    tc_outcome outcome = TC_OUTCOME_UNKNOWN;
    tc_receipt receipt = {0};
    tc_err ignored;
    tc_call call = TC_CALL(tc_task_ctx(w->t), w->r);
    call.timeout_ms = RECEIPT_WAIT_MS;
    (void)tci_json_as_str(tci_json_get(item, TC_STR("what")), &what); /* told without it */
    bool is_whole = tci_json_as_str(tci_json_get(item, TC_STR("operationId")), &o.operation_id) &&
                    tci_json_as_str(tci_json_get(item, TC_STR("deviceId")), &o.device_id) &&
                    tci_json_as_str(tci_json_get(item, TC_STR("sessionId")), &o.session_id) &&
                    tci_json_as_u64(tci_json_get(item, TC_STR("generation")), &o.generation);
    if (!is_whole || w->env == NULL ||
        tci_env_ask_operation(w->env, &call, &o, &outcome, &receipt, &ignored) < 0)
        outcome = TC_OUTCOME_UNKNOWN;
    if (outcome != TC_OUTCOME_DONE)
        say(w, TC_SEVERITY_WARN, what,
            ": the device has no record of it, so it may or may not have been done");
    else if (tci_str_eq(receipt.method, TC_STR("process.start")))
        say(w, TC_SEVERITY_WARN, what, ": was started on the device; how it ended is not known");
    else if (receipt.outcome == TC_RECEIPT_SUCCEEDED)
        say(w, TC_SEVERITY_INFO, what, ": was done on the device before the interruption");
    else
        say(w, TC_SEVERITY_WARN, what,
            ": was tried on the device before the interruption, and failed there");
}

int tci_operation_diagnostics(tc_task *t, tc_str *ret_items, tc_err *err)
{
    tc_doc_addr addr = {&tci_operation_doc, tc_task_current(t)->id, {NULL, 0}};
    asking w = {.t = t, .r = tc_task_result(t)};
    tc_str text;
    const tci_json *v;
    tc_err ignored;
    *ret_items = (tc_str){0};
    if (tc_durable_snapshot(tci_harness_session(tc_task_harness(t)), &addr, w.r, &text, err) < 0)
        return err->code;
    if (text.len == 0)
        return 0;
    if (tci_parse(w.r, text, &v, err) < 0)
        return err->code;
    const tci_json *items = tci_json_get(v, TC_STR("items"));
    if (items == NULL || items->kind != TCI_JSON_ARRAY || items->count == 0)
        return 0;
    if (tc_task_env(t, &w.env, &ignored) < 0)
        w.env = NULL; /* then nobody can be asked: unknown */
    tci_buf_init(&w.items, TCI_BUF_MAX);
    for (size_t i = 0; i < items->count; i++)
        ask(&w, &items->u.items[i]);
    tc_task_env_release(t, w.env);
    return tci_result_take(w.r, &w.items, ret_items, err);
}
