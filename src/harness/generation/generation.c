/* SPDX-License-Identifier: Apache-2.0
 *
 * The task "pi.generation": one turn, that is one answer and its tool round. Prepares a request, makes
 * it, waits between attempts, and gives up cleanly. Leaves streaming, classification and tool rounds
 * to the files named after them. On the task's thread. Invariant: what is asked is pinned by a
 * checkpoint before it is asked, so that a restart asks the same. */
#include "harness/generation/generation.h"
#include "base/json.h"
#include "harness/generation/live.h"
#include "harness/generation/prompt.h"
#include "harness/calls/tool_int.h"

/* ---- reading a checkpoint ---- */

int tci_generation_init(tci_generation *g, tc_task *t, tc_err *err)
{
    const tc_task_info *info = tc_task_current(t);
    *g = (tci_generation){.t = t,
                          .h = tc_task_harness(t),
                          .r = tc_task_result(t),
                          .conversation = info->conversation_id,
                          .id = info->id};
    tci_harness_settings(g->h, g->r, &g->settings);
    if (tci_parse(g->r, info->checkpoint, &g->checkpoint, err) < 0)
        return err->code;
    /* absent ones stay 0 and empty */
    (void)tci_json_as_u64(tci_json_get(g->checkpoint, TC_STR("attempt")), &g->attempt);
    (void)tci_json_as_u64(tci_json_get(g->checkpoint, TC_STR("compacted")), &g->compacted);
    (void)tci_json_as_u64(tci_json_get(g->checkpoint, TC_STR("cutoff")), &g->cutoff);
    (void)tci_json_as_i64(tci_json_get(g->checkpoint, TC_STR("pollAt")), &g->poll_at);
    const tci_json *model = tci_json_get(g->checkpoint, TC_STR("model"));
    (void)tci_json_as_str(tci_json_get(model, TC_STR("provider")), &g->provider);
    (void)tci_json_as_str(tci_json_get(model, TC_STR("modelId")), &g->model_id);
    return model == NULL ? 0 : tc_json_text(model, g->r, &g->model, err);
}

static int fail_no_model(tci_generation *g, tc_err *err)
{
    tci_failure failure = {.reason = TC_STR("no_model"), .gain = -1};
    if (tci_no_model_text(g->r, g->provider, g->model_id, &failure.text, err) < 0)
        return err->code;
    return tci_generation_fail(g, &failure, err);
}

static int fail_model_error(tci_generation *g, tc_str text, tc_err *err)
{
    const tci_failure failure = {.reason = TC_STR("model_error"), .text = text, .gain = -1};
    return tci_generation_fail(g, &failure, err);
}

/* ---- prepare ---- */

typedef enum pressure { PRESSURE_NONE, PRESSURE_BACKGROUND, PRESSURE_BLOCKING } pressure;

typedef struct preparing {
    tci_generation g;
    const tci_agent *agent;
    tc_model model;
    tci_prompt_plan plan;
    pressure pressure; /* with a cut */
    int gain;          /* negative: nothing to be stored */
    uint64_t gain_at;
    uint64_t compaction; /* created */
} preparing;

/* What the compaction this generation waited for came to; *ret_text empty: it is fine. */
static int check_compaction(preparing *p, tc_str *ret_text, tc_err *err)
{
    tci_generation *g = &p->g;
    tc_str outcome, status = {NULL, 0}, overflow, text;
    const tci_json *v;
    *ret_text = (tc_str){NULL, 0};
    if (tc_task_outcome(g->t, g->compacted, &outcome, err) < 0 ||
        tci_parse(g->r, outcome, &v, err) < 0)
        return err->code;
    bool is_completed = tci_json_as_str(tci_json_get(v, TC_STR("status")), &status) &&
                        tci_str_eq(status, TC_STR("completed"));
    if (tci_json_as_str(tci_json_get(g->checkpoint, TC_STR("overflow")), &overflow)) {
        bool has_entry = tci_json_get(tci_json_get(v, TC_STR("result")), TC_STR("entryId")) != NULL;
        *ret_text = is_completed && has_entry ? *ret_text : overflow;
        return 0;
    }
    if (is_completed || tci_json_get(g->checkpoint, TC_STR("threshold")) == NULL)
        return 0;
    if (tci_json_as_str(tci_json_get(tci_json_get(v, TC_STR("error")), TC_STR("message")), &text) ||
        (tci_str_eq(status, TC_STR("orphaned")) &&
         tci_json_as_str(tci_json_get(v, TC_STR("reason")), &text)))
        return tci_result_printf(g->r, ret_text, err, "Compaction failed: %.*s", TC_STR_ARG(text));
    *ret_text = TC_STR("Compaction was aborted");
    return 0;
}

/* The sections as they should be, and the entries that lead there. */
static int plan_prompt(preparing *p, tci_context *c, tc_err *err)
{
    tci_generation *g = &p->g;
    const tci_shown *shown;
    tci_section_text *desired;
    size_t ndesired;
    tc_env *env = NULL;
    tc_err failure;
    if (tci_prompt_replay(c, &shown, err) < 0)
        return err->code;
    if (tci_harness_env(g->h, g->conversation, tc_task_ctx(g->t), &env, &failure) < 0) {
        if (tci_ctx_check(tc_task_ctx(g->t), err) < 0)
            return err->code;
        tc_report report = {.type = TC_REPORT_HOST_ERROR,
                            .message = tci_str(failure.msg),
                            .task_id = g->id,
                            .kind = TC_STR("pi.generation"),
                            .conversation_id = g->conversation,
                            .callback = TC_STR("env")};
        tci_harness_report(g->h, &report);
        env = NULL;
    }
    int rc = tci_prompt_render(g->t, p->agent, env, shown, g->r, &desired, &ndesired, err);
    tci_harness_env_release(g->h, env);
    if (rc < 0)
        return rc;
    return tci_prompt_plan_entries(c, shown, desired, ndesired, &p->agent->tools, tc_task_now(g->t),
                                   g->r, &p->plan, err);
}

/* How full the model is, and whether the last compaction helped. */
static int measure(preparing *p, tci_context *c, tc_err *err)
{
    tci_generation *g = &p->g;
    tc_compaction_policy policy = tci_compaction_policy(&g->settings, g->provider, g->model_id);
    uint64_t window = p->model.context_window, count, at;
    p->pressure = PRESSURE_NONE;
    p->gain = -1;
    if (!policy.is_enabled || window == 0)
        return 0;
    uint64_t tokens = tci_estimate_context(c);
    for (size_t i = 0; i < p->plan.count; i++)
        tokens += tci_estimate_message(p->plan.messages[i]);
    uint64_t blocking = window > policy.reserve_tokens ? window - policy.reserve_tokens : 0;
    uint64_t background =
        blocking > policy.background_tokens ? blocking - policy.background_tokens : 0;
    pressure is = tokens > blocking                                     ? PRESSURE_BLOCKING
                  : policy.background_tokens > 0 && tokens > background ? PRESSURE_BACKGROUND
                                                                        : PRESSURE_NONE;
    if (tci_gain_read(g->h, g->conversation, &count, &at, err) < 0)
        return err->code;
    if (is != PRESSURE_NONE && tci_is_just_compacted(c) && at != c->head_id) {
        p->gain = (int)(count < TCI_COMPACTIONS_WITHOUT_GAIN_MAX ? count + 1 : count);
        p->gain_at = c->head_id;
    } else if (is == PRESSURE_NONE && count > 0) {
        p->gain = 0;
    }
    if (is != PRESSURE_NONE && tci_select_cut(c, policy.keep_recent_tokens) != TCI_NO_CUT)
        p->pressure = is;
    count = p->gain >= 0 ? (uint64_t)p->gain : count;
    if (count >= TCI_COMPACTIONS_WITHOUT_GAIN_MAX && is == PRESSURE_BLOCKING &&
        (p->gain >= 0 || p->pressure == PRESSURE_BLOCKING))
        return tc_err_set(
            err, TC_E_TOO_BIG,
            "The conversation does not fit the model %.*s/%.*s: %d compactions in a row "
            "left it above %llu tokens",
            TC_STR_ARG(g->provider), TC_STR_ARG(g->model_id), TCI_COMPACTIONS_WITHOUT_GAIN_MAX,
            (unsigned long long)blocking);
    if (count >= TCI_COMPACTIONS_WITHOUT_GAIN_MAX && is == PRESSURE_BACKGROUND)
        p->pressure = PRESSURE_NONE;
    if (g->compacted != 0)
        p->pressure = PRESSURE_NONE; /* one per generation */
    return 0;
}

static int wait_for_compaction(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    preparing *p = arg;
    tc_doc *live;
    TCI_UNUSED(t);
    if (tci_doc_of(tx, &tci_live_doc, p->g.conversation, &live, err) < 0 ||
        tci_compaction_create(tx, live, p->g.conversation, p->g.id, TC_STR("threshold"),
                              (tc_str){NULL, 0}, &p->compaction, err) < 0 ||
        (p->gain >= 0 &&
         tci_gain_write(tx, p->g.conversation, (uint64_t)p->gain, p->gain_at, err) < 0))
        return err->code;
    *next = (tc_next){.kind = TC_NEXT_WAITING, .on = &p->compaction, .non = 1};
    return tci_result_printf(
        p->g.r, &next->checkpoint, err,
        "{\"phase\":\"prepare\",\"attempt\":%llu,\"compacted\":%llu,\"threshold\":true}",
        (unsigned long long)p->g.attempt, (unsigned long long)p->compaction);
}

static int newest_entry(tc_tx *tx, uint64_t conversation, tc_result *r, uint64_t *ret, tc_err *err)
{
    const tc_page page = {.limit = 1};
    tc_records records;
    const tci_json *v;
    *ret = 0;
    if (tc_tx_scan_entries(tx, conversation, 0, 0, &page, r, &records, err) < 0)
        return err->code;
    if (records.count == 0)
        return 0;
    if (tci_parse(r, records.items[0], &v, err) < 0)
        return err->code;
    (void)tci_json_as_u64(tci_json_get(v, TC_STR("id")), ret); /* else none */
    return 0;
}

static int put_request(preparing *p, uint64_t cutoff, tc_str *ret, tc_err *err)
{
    tci_generation *g = &p->g;
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("phase"), TC_STR("request"));
    tci_put_u64_member(&b, &first, TC_STR("attempt"), g->attempt);
    if (g->compacted != 0)
        tci_put_u64_member(&b, &first, TC_STR("compacted"), g->compacted);
    tci_put_raw_member(&b, &first, TC_STR("model"), p->agent->model);
    tci_put_str_member(&b, &first, TC_STR("thinkingLevel"), p->agent->thinking_level);
    tci_put_raw_member(&b, &first, TC_STR("streamOptions"),
                       g->settings.stream.len > 0 ? g->settings.stream : TC_STR("{}"));
    tci_put_u64_member(&b, &first, TC_STR("cutoff"), cutoff);
    tci_buf_append_byte(&b, '}');
    return tci_result_take(g->r, &b, ret, err);
}

static int pin_request(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    preparing *p = arg;
    tci_generation *g = &p->g;
    tc_doc *live;
    uint64_t cutoff;
    TCI_UNUSED(t);
    if (newest_entry(tx, g->conversation, g->r, &cutoff, err) < 0)
        return err->code;
    for (size_t i = 0; i < p->plan.count; i++) {
        if (tc_tx_append_entry(tx, g->conversation, p->plan.drafts[i], &cutoff, err) < 0)
            return err->code;
    }
    if (cutoff == 0)
        return tc_err_set(err, TC_E_CONFLICT, "conversation %llu has no entries to send",
                          (unsigned long long)g->conversation);
    if (p->gain >= 0 && tci_gain_write(tx, g->conversation, (uint64_t)p->gain, p->gain_at, err) < 0)
        return err->code;
    if (p->pressure == PRESSURE_BACKGROUND) {
        if (tci_doc_of(tx, &tci_live_doc, g->conversation, &live, err) < 0)
            return err->code;
        if (tci_json_get(tc_doc_value(live), TC_STR("compactions")) == NULL &&
            tci_compaction_create(tx, live, g->conversation, 0, TC_STR("threshold"),
                                  (tc_str){NULL, 0}, &p->compaction, err) < 0)
            return err->code;
    }
    /* Should the power go before the answer is there, it is asked anew: nothing else comes of a question. */
    tci_tx_set_how(tx, TCI_TX_LAZY);
    next->kind = TC_NEXT_RUNNING;
    return put_request(p, cutoff, &next->checkpoint, err);
}

static int prepare(tc_task *t, tc_err *err)
{
    preparing p = {.gain = -1};
    tci_context *c;
    bool is_known;
    tc_str text;
    if (tci_generation_init(&p.g, t, err) < 0 || tci_task_agent(t, &p.agent, err) < 0)
        return err->code;
    p.g.provider = p.agent->provider;
    p.g.model_id = p.agent->model_id;
    if (tci_find_model(p.g.h, p.g.provider, p.g.model_id, p.g.r, &p.model, &is_known, err) < 0)
        return err->code;
    if (!is_known)
        return fail_no_model(&p.g, err);
    if (p.g.compacted != 0) {
        if (check_compaction(&p, &text, err) < 0)
            return err->code;
        if (text.len > 0)
            return fail_model_error(&p.g, text, err);
    }
    if (tci_context_read(p.g.h, p.g.conversation, 0, &c, err) < 0)
        return err->code;
    int rc = plan_prompt(&p, c, err);
    bool is_planned = rc == 0;
    if (is_planned)
        rc = measure(&p, c, err);
    tci_context_release(p.g.h, c);
    if (is_planned && rc == TC_E_TOO_BIG && p.gain != 0) {
        tci_failure failure = {
            .reason = TC_STR("model_error"), .gain = p.gain, .gain_at = p.gain_at};
        if (tc_result_dup(p.g.r, tci_str(err->msg), &failure.text, err) < 0)
            return err->code;
        return tci_generation_fail(&p.g, &failure, err);
    }
    if (rc < 0)
        return rc;
    return tci_task_change(t, p.pressure == PRESSURE_BLOCKING ? wait_for_compaction : pin_request,
                           &p, err);
}

/* ---- request ---- */

/* What an attempt that was cut off had streamed becomes an entry, and the next one begins. */
static int begin_attempt(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    tci_generation *g = arg;
    tc_doc *live;
    tc_str shown;
    uint64_t attempt;
    TCI_UNUSED(t);
    TCI_UNUSED(next);
    tci_tx_set_how(tx, TCI_TX_DEFERRED); /* what is asked is pinned already */
    if (tci_doc_of(tx, &tci_live_doc, g->conversation, &live, err) < 0 ||
        tci_convert_partial(tx, live, g->conversation, err) < 0)
        return err->code;
    const tci_json *had = tci_json_get(tc_doc_value(live), TC_STR("generation"));
    if (had != NULL && had->count == 1 &&
        tci_json_as_u64(tci_json_get(had, TC_STR("attempt")), &attempt) && attempt == g->attempt)
        return 0;
    if (tci_result_printf(g->r, &shown, err, "{\"attempt\":%llu}", (unsigned long long)g->attempt) <
        0)
        return err->code;
    return tc_doc_set(live, TC_STR("/generation"), shown, err);
}

/* Hooks may send something else. */
static int before_request(tci_generation *g, tc_model_request *q, tc_err *err)
{
    const tci_agent *agent;
    tc_hook hook = {g->t};
    tc_str messages = {NULL, 0}; /* as text, once a hook wants them */
    if (tci_task_agent(g->t, &agent, err) < 0)
        return err->code;
    for (size_t i = 0; i < agent->nextensions; i++) {
        const tc_extension *e = agent->extensions[i];
        tc_err failure;
        tc_str replaced = {NULL, 0};
        if (e->hooks == NULL || e->hooks->before_request == NULL)
            continue;
        if (messages.len == 0 &&
            tc_messages_text(q->messages, q->nmessages, g->r, &messages, err) < 0)
            return err->code;
        int rc = e->hooks->before_request(e->user, &hook, messages, g->r, &replaced, &failure);
        if (rc == 0 && replaced.len > 0)
            rc = tc_messages_parse(replaced, g->r, &q->messages, &q->nmessages, &failure);
        if (rc == 0 && replaced.len > 0)
            messages = replaced;
        if (rc == 0)
            continue;
        if (tci_ctx_check(tc_task_ctx(g->t), err) < 0)
            return err->code;
        tci_hook_failed(g->t, e, &failure);
    }
    return 0;
}

static int read_messages(tci_generation *g, tc_model_request *q, tci_texts **ret_texts, tc_err *err)
{
    tci_context *c;
    if (tci_context_read(g->h, g->conversation, g->cutoff, &c, err) < 0)
        return err->code;
    int rc = tci_context_messages(c, g->r, &q->messages, &q->nmessages, ret_texts, err);
    tci_context_release(g->h, c);
    return rc;
}

static int ask(tci_generation *g, tc_model_request *q, tc_str *ret_message, tc_err *err)
{
    tci_texts *texts;
    if (read_messages(g, q, &texts, err) < 0)
        return err->code;
    int rc = before_request(g, q, err);
    if (rc == 0)
        rc = tci_generation_ask(g, q, ret_message, err);
    tci_texts_unref(texts);
    return rc;
}

static int request(tc_task *t, tc_err *err)
{
    tci_generation g;
    tc_model model;
    tc_model_request q;
    bool is_known;
    tc_str message, options, level = TC_STR("off");
    if (tci_generation_init(&g, t, err) < 0 || tci_task_change(t, begin_attempt, &g, err) < 0 ||
        tci_find_model(g.h, g.provider, g.model_id, g.r, &model, &is_known, err) < 0)
        return err->code;
    if (!is_known)
        return fail_no_model(&g, err);
    const tci_json *persisted = tci_json_get(g.checkpoint, TC_STR("streamOptions"));
    (void)tci_json_as_str(tci_json_get(g.checkpoint, TC_STR("thinkingLevel")),
                          &level); /* else off */
    if (tc_json_text(persisted, g.r, &options, err) < 0 ||
        tci_request_init(t, &model, options, level, &q, err) < 0 || ask(&g, &q, &message, err) < 0)
        return err->code;
    return tci_generation_classify(&g, message, err);
}

/* ---- between attempts ---- */

static int begin_again(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    tci_generation *g = arg;
    unsigned long long attempt = (unsigned long long)g->attempt + 1;
    tc_doc *live;
    tc_str shown;
    TCI_UNUSED(t);
    if (tci_doc_of(tx, &tci_live_doc, g->conversation, &live, err) < 0 ||
        tci_result_printf(g->r, &shown, err, "{\"attempt\":%llu}", attempt) < 0 ||
        tc_doc_set(live, TC_STR("/generation"), shown, err) < 0)
        return err->code;
    next->kind = TC_NEXT_RUNNING;
    if (g->compacted != 0)
        return tci_result_printf(g->r, &next->checkpoint, err,
                                 "{\"phase\":\"prepare\",\"attempt\":%llu,\"compacted\":%llu}",
                                 attempt, (unsigned long long)g->compacted);
    return tci_result_printf(g->r, &next->checkpoint, err,
                             "{\"phase\":\"prepare\",\"attempt\":%llu}", attempt);
}

static int retry(tc_task *t, tc_err *err)
{
    tci_generation g;
    int64_t until = 0;
    if (tci_generation_init(&g, t, err) < 0)
        return err->code;
    (void)tci_json_as_i64(tci_json_get(g.checkpoint, TC_STR("until")), &until); /* else at once */
    if (until > tc_task_now(t))
        return tc_task_sleep_until(t, until, tc_task_current(t)->checkpoint, err);
    return tci_task_change(t, begin_again, &g, err);
}

static int poll(tc_task *t, tc_err *err)
{
    tci_generation g;
    tc_model model;
    bool is_known;
    tc_str handle, message;
    if (tci_generation_init(&g, t, err) < 0)
        return err->code;
    if (g.poll_at > tc_task_now(t))
        return tc_task_sleep_until(t, g.poll_at, tc_task_current(t)->checkpoint, err);
    if (tci_find_model(g.h, g.provider, g.model_id, g.r, &model, &is_known, err) < 0)
        return err->code;
    struct tc_models *models = tci_harness_models(g.h);
    if (!is_known || models == NULL || models->fetch_deferred == NULL)
        return fail_no_model(&g, err);
    if (tc_json_text(tci_json_get(g.checkpoint, TC_STR("handle")), g.r, &handle, err) < 0 ||
        models->fetch_deferred(models->user, tc_task_ctx(t), &model, handle, g.r, &message, err) <
            0)
        return err->code;
    return tci_generation_classify(&g, message, err);
}

/* ---- the end ---- */

/* Names of the calls that were never started. */
typedef struct aborting {
    tci_generation g;
    tc_str *ids, *names;
    size_t count;
} aborting;

static int read_unstarted(aborting *a, tc_err *err)
{
    const tci_json *pending = tci_json_get(a->g.checkpoint, TC_STR("pending")), *v;
    uint64_t assistant;
    tc_str record;
    if (pending == NULL || pending->kind != TCI_JSON_ARRAY || pending->count == 0 ||
        !tci_json_as_u64(tci_json_get(a->g.checkpoint, TC_STR("assistant")), &assistant))
        return 0;
    tci_arena *arena = tci_result_arena(a->g.r);
    a->ids = tci_arena_items(arena, tc_str, pending->count);
    a->names = tci_arena_items(arena, tc_str, pending->count);
    if (a->ids == NULL || a->names == NULL)
        return tci_arena_error(arena, err);
    if (tc_durable_entry(tci_harness_session(a->g.h), 0, assistant, a->g.r, &record, err) < 0)
        return err->code;
    if (record.len == 0)
        return 0;
    if (tci_parse(a->g.r, record, &v, err) < 0)
        return err->code;
    const tci_json *model = tci_json_get(v, TC_STR("model"));
    const tci_json *message = model != NULL && model->count > 0 ? &model->u.items[0] : NULL;
    for (uint32_t i = 0; i < pending->count; i++) {
        tc_str id;
        if (!tci_json_as_str(&pending->u.items[i], &id))
            continue;
        const tci_json *call = tci_find_call(message, id);
        if (call == NULL ||
            !tci_json_as_str(tci_json_get(call, TC_STR("name")), &a->names[a->count]))
            continue;
        a->ids[a->count++] = id;
    }
    return 0;
}

static int stop(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    static const tc_settlement aborted = {.reason = {"aborted", 7}};
    aborting *a = arg;
    tci_generation *g = &a->g;
    tc_doc *live;
    if (tci_doc_of(tx, &tci_live_doc, g->conversation, &live, err) < 0 ||
        tci_convert_partial(tx, live, g->conversation, err) < 0)
        return err->code;
    for (size_t i = 0; i < a->count; i++) {
        tc_tool_result result;
        tc_str text;
        uint64_t entry;
        if (tci_result_printf(g->r, &text, err, "Tool %.*s was aborted", TC_STR_ARG(a->names[i])) <
                0 ||
            tci_tool_error_result(g->r, TC_STR("aborted"), text, &result, err) < 0 ||
            tci_tool_append_result(tx, g->conversation, a->ids[i], a->names[i], &result,
                                   tc_task_now(t), -1, &entry, err) < 0)
            return err->code;
    }
    next->kind = TC_NEXT_ABORTED;
    return tci_end_and_start(g, tx, live, &aborted, NULL, err);
}

static void cancel_deferred(tci_generation *g)
{
    tc_model model;
    bool is_known;
    tc_str handle;
    tc_err err;
    struct tc_models *models = tci_harness_models(g->h);
    if (models == NULL || models->cancel_deferred == NULL)
        return;
    int rc = tci_find_model(g->h, g->provider, g->model_id, g->r, &model, &is_known, &err);
    if (rc == 0 && is_known) {
        rc = tc_json_text(tci_json_get(g->checkpoint, TC_STR("handle")), g->r, &handle, &err);
        if (rc == 0)
            rc = models->cancel_deferred(models->user, tc_task_ctx(g->t), &model, handle, &err);
    }
    if (rc < 0) {
        tc_report report = {.type = TC_REPORT_HOST_ERROR,
                            .message = tci_str(err.msg),
                            .task_id = g->id,
                            .kind = TC_STR("pi.generation"),
                            .conversation_id = g->conversation,
                            .callback = TC_STR("models")};
        tci_harness_report(g->h, &report);
    }
}

static int abort_run(tc_task *t, tc_err *err)
{
    aborting a = {.count = 0};
    tc_str phase = tc_task_current(t)->phase;
    if (tci_generation_init(&a.g, t, err) < 0)
        return err->code;
    if (tci_str_eq(phase, TC_STR("poll")))
        cancel_deferred(&a.g);
    if (tci_str_eq(phase, TC_STR("tools")) && read_unstarted(&a, err) < 0)
        return err->code;
    return tci_task_change(t, stop, &a, err);
}

/* The scheduler ends the task itself: its run ends with it. */
static int settle_fault(tc_tx *tx, tc_doc *live, uint64_t conversation, uint64_t task,
                        const tci_json *outcome, tc_result *r, tc_err *err)
{
    tc_settlement settlement = {.reason = TC_STR("faulted")};
    tc_str status = {NULL, 0};
    (void)tci_json_as_str(tci_json_get(outcome, TC_STR("status")), &status); /* else a fault */
    if (tci_str_eq(status, TC_STR("orphaned"))) {
        if (!tci_json_as_str(tci_json_get(outcome, TC_STR("reason")), &settlement.reason))
            settlement.reason = TC_STR("orphaned");
    } else {
        const tci_json *message =
            tci_json_get(tci_json_get(outcome, TC_STR("error")), TC_STR("message"));
        if (message != NULL && tc_json_text(message, r, &settlement.detail, err) < 0)
            return err->code;
    }
    if (tci_convert_partial(tx, live, conversation, err) < 0)
        return err->code;
    return tci_live_end_run(tx, live, task, &settlement, err);
}

static int on_fault(void *user, tc_harness *h, tc_tx *tx, tc_str record, tc_str outcome,
                    tc_err *err)
{
    tc_result *r;
    tci_task task;
    const tci_json *v;
    tc_doc *live;
    uint64_t running;
    TCI_UNUSED(user);
    TCI_UNUSED(h);
    if (tc_result_new(&r, err) < 0)
        return err->code;
    int rc = tci_task_parse(record, tci_result_arena(r), NULL, &task, err);
    if (rc == 0)
        rc = tci_parse(r, outcome, &v, err);
    if (rc == 0)
        rc = tci_doc_of(tx, &tci_live_doc, task.conversation_id, &live, err);
    if (rc == 0 && tci_live_run(tc_doc_value(live), &running) && running == task.id)
        rc = settle_fault(tx, live, task.conversation_id, task.id, v, r, err);
    tc_result_free(r);
    return rc;
}

static int initial(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint, tc_err *err)
{
    TCI_UNUSED(user);
    TCI_UNUSED(input);
    return tc_result_dup(r, TC_STR("{\"phase\":\"prepare\",\"attempt\":1}"), ret_checkpoint, err);
}

static const tc_task_phase phases[] = {{"prepare", prepare},
                                       {"request", request},
                                       {"retry", retry},
                                       {"poll", poll},
                                       {"tools", tci_generation_tools}};

const tc_task_def tci_generation_task = {.size = sizeof(tc_task_def),
                                         .name = "pi.generation",
                                         .is_prompt = true,
                                         .commits_first = true,
                                         .version = 1,
                                         .initial = initial,
                                         .phases = phases,
                                         .nphases = sizeof phases / sizeof phases[0],
                                         .abort = abort_run,
                                         .on_fault = on_fault};
