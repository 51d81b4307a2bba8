/* SPDX-License-Identifier: Apache-2.0
 *
 * What tasks need to ask a model: finding it, the options of a question, when to try again. Leaves
 * asking to its callers. On the task's thread. */
#include "base/json.h"
#include "harness/generation/generation.h"
#include "llm/llm.h"

int tci_task_change(tc_task *t, tci_change_fn fn, void *arg, tc_err *err)
{
    tc_tx *tx;
    tc_next next = {.kind = TC_NEXT_STAY};
    if (tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    if (fn(t, tx, arg, &next, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    return tc_task_commit(t, tx, &next, err);
}

int tci_find_model(tc_harness *h, tc_str provider, tc_str model_id, tc_result *r,
                   tc_model *ret_model, bool *ret_is_known, tc_err *err)
{
    struct tc_models *models = tci_harness_models(h);
    *ret_is_known = false;
    if (models == NULL || provider.len == 0)
        return 0;
    tc_model model = {{NULL, 0}, {NULL, 0}, 0, 0, false, false, 0, 0, 0, false, 0, 0, 0, 0};
    if (models->get_model(models->user, provider, model_id, r, &model, err) < 0)
        return err->code == TC_E_NOT_FOUND ? 0 : err->code;
    *ret_model = model;
    *ret_is_known = true;
    return 0;
}

int tci_no_model_text(tc_result *r, tc_str provider, tc_str model_id, tc_str *ret, tc_err *err)
{
    if (provider.len == 0)
        return tc_result_dup(r, TC_STR("No model is configured"), ret, err);
    return tci_result_printf(r, ret, err, "Model %.*s/%.*s is not available", TC_STR_ARG(provider),
                             TC_STR_ARG(model_id));
}

/* ---- the provider's key ---- */

static int session_id_of(tc_result *r, tc_str state, tc_str *ret, tc_err *err)
{
    const tci_json *v;
    if (tci_parse(r, state, &v, err) < 0)
        return err->code;
    if (!tci_json_as_str(tci_json_get(v, TC_STR("sessionId")), ret))
        *ret = (tc_str){NULL, 0};
    return 0;
}

static int make_provider(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    tc_doc *doc;
    TCI_UNUSED(arg);
    TCI_UNUSED(next);
    return tci_doc_of(tx, &tci_provider_doc, tc_task_current(t)->conversation_id, &doc, err);
}

int tci_provider_session(tc_task *t, tc_str *ret_session_id, tc_err *err)
{
    tc_durable *s = tci_harness_session(tc_task_harness(t));
    const tc_doc_addr addr = {&tci_provider_doc, tc_task_current(t)->conversation_id, {NULL, 0}};
    tc_str state;
    if (tc_durable_snapshot(s, &addr, tc_task_result(t), &state, err) < 0)
        return err->code;
    if (state.len == 0 && (tci_task_change(t, make_provider, NULL, err) < 0 ||
                           tc_durable_snapshot(s, &addr, tc_task_result(t), &state, err) < 0))
        return err->code;
    return session_id_of(tc_task_result(t), state, ret_session_id, err);
}

/* ---- options ---- */

static uint64_t number_of(const tci_json *options, const char *key)
{
    uint64_t n;
    return tci_json_as_u64(tci_json_get(options, tci_str(key)), &n) ? n : 0;
}

static int object_of(const tci_json *options, const char *key, tc_result *r, tc_str *ret,
                     tc_err *err)
{
    const tci_json *v = tci_json_get(options, tci_str(key));
    *ret = (tc_str){NULL, 0};
    return v == NULL || v->kind != TCI_JSON_OBJECT ? 0 : tc_json_text(v, r, ret, err);
}

static tc_cache_retention retention_of(const tci_json *options)
{
    tc_str text;
    if (!tci_json_as_str(tci_json_get(options, TC_STR("cacheRetention")), &text))
        return TC_CACHE_SHORT;
    if (tci_str_eq(text, TC_STR("none")))
        return TC_CACHE_NONE;
    return tci_str_eq(text, TC_STR("long")) ? TC_CACHE_LONG : TC_CACHE_SHORT;
}

int tci_request_init(tc_task *t, const tc_model *model, tc_str stream_options,
                     tc_str thinking_level, tc_model_request *ret, tc_err *err)
{
    tc_result *r = tc_task_result(t);
    const tci_json *options;
    tc_model_request q = {.size = sizeof q, .model = *model};
    if (tci_parse(r, stream_options.len > 0 ? stream_options : TC_STR("{}"), &options, err) < 0 ||
        object_of(options, "headers", r, &q.headers, err) < 0 ||
        object_of(options, "metadata", r, &q.metadata, err) < 0 ||
        tci_provider_session(t, &q.session_id, err) < 0)
        return err->code;
    const tci_json *deferred = tci_json_get(options, TC_STR("deferred"));
    q.may_defer =
        deferred != NULL && deferred->kind != TCI_JSON_FALSE && deferred->kind != TCI_JSON_NULL;
    q.cache_retention = retention_of(options);
    q.timeout_ms = number_of(options, "timeoutMs");
    q.max_retries = number_of(options, "maxRetries");
    q.max_retry_delay_ms = number_of(options, "maxRetryDelayMs");
    if (!tci_str_eq(thinking_level, TC_STR("off")))
        q.reasoning = thinking_level;
    *ret = q;
    return 0;
}

/* ---- trying again ---- */

bool tci_may_retry(const tc_settings *settings, tc_str error_message, uint64_t attempt)
{
    return settings->retry.is_enabled && attempt <= settings->retry.max_retries &&
           tci_llm_is_retryable(error_message);
}

int64_t tci_retry_delay_ms(const tc_settings *settings, uint64_t attempt)
{
    int64_t delay = settings->retry.base_delay_ms, max = settings->retry.max_delay_ms;
    for (uint64_t i = 1; i < attempt && delay < max; i++)
        delay = delay > max / 2 ? max : delay * 2;
    return delay < max ? delay : max;
}
