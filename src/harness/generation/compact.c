/* SPDX-License-Identifier: Apache-2.0
 *
 * The task "pi.compaction": picks the older part of a context, has it summarised, and puts the summary
 * in its place. Leaves sizes and cuts to compact_size.c, words to compact_text.c. On the task's thread.
 * Invariant: what is summarised is pinned by a checkpoint; the entry is placed at most once. */
#include "harness/generation/compact.h"
#include "base/json.h"
#include "harness/generation/generation.h"
#include "harness/generation/live.h"
#include "harness/submit.h"
#include "harness/generation/usage.h"

typedef struct compaction {
    tc_task *t;
    tc_harness *h;
    tc_result *r;
    const tc_task_info *info;
    const tci_json *input, *checkpoint;
    tc_settings settings;
    tc_str reason, instructions;
    uint64_t attempt, max_tokens, tail, first_kept;
    tc_str provider, model_id;
} compaction;

static int init(compaction *c, tc_task *t, tc_err *err)
{
    *c = (compaction){.t = t,
                      .h = tc_task_harness(t),
                      .r = tc_task_result(t),
                      .info = tc_task_current(t),
                      .reason = TC_STR("manual")};
    tci_harness_settings(c->h, c->r, &c->settings);
    if (tci_parse(c->r, c->info->input, &c->input, err) < 0 ||
        tci_parse(c->r, c->info->checkpoint, &c->checkpoint, err) < 0)
        return err->code;
    /* absent ones keep what they have */
    (void)tci_json_as_str(tci_json_get(c->input, TC_STR("reason")), &c->reason);
    (void)tci_json_as_str(tci_json_get(c->input, TC_STR("instructions")), &c->instructions);
    (void)tci_json_as_u64(tci_json_get(c->checkpoint, TC_STR("attempt")), &c->attempt);
    (void)tci_json_as_u64(tci_json_get(c->checkpoint, TC_STR("maxTokens")), &c->max_tokens);
    (void)tci_json_as_u64(tci_json_get(c->checkpoint, TC_STR("tail")), &c->tail);
    (void)tci_json_as_u64(tci_json_get(c->checkpoint, TC_STR("firstKept")), &c->first_kept);
    const tci_json *model = tci_json_get(c->checkpoint, TC_STR("model"));
    (void)tci_json_as_str(tci_json_get(model, TC_STR("provider")), &c->provider);
    (void)tci_json_as_str(tci_json_get(model, TC_STR("modelId")), &c->model_id);
    return 0;
}

int tci_compaction_create(tc_tx *tx, tc_doc *live, uint64_t conversation, uint64_t owner,
                          tc_str reason, tc_str instructions, uint64_t *ret_task, tc_err *err)
{
    tc_task_options options = TC_TASK_OPTIONS;
    tci_buf b;
    bool first = true;
    options.conversation_id = conversation;
    options.owner_task_id = owner;
    options.is_background = owner == 0 && !tci_str_eq(reason, TC_STR("manual"));
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("reason"), reason);
    if (instructions.len > 0)
        tci_put_str_member(&b, &first, TC_STR("instructions"), instructions);
    tci_buf_append_byte(&b, '}');
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_tx_create_task_of(tx, &tci_compaction_task, tci_buf_str(&b), &options, ret_task,
                                  err);
    tci_buf_done(&b);
    return rc < 0 ? rc : tci_live_add_compaction(live, *ret_task, reason, owner != 0, err);
}

/* ---- ends ---- */

typedef struct ending {
    compaction *c;
    tc_str error, detail; /* of a failure */
    tc_str summary;
    tc_str usage_key, usage; /* what the question cost; empty: nothing to count */
} ending;

static int live_of(compaction *c, tc_tx *tx, tc_doc **ret, tc_err *err)
{
    return tci_doc_of(tx, &tci_live_doc, c->info->conversation_id, ret, err);
}

static int complete(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    compaction *c = arg;
    tc_doc *live;
    TCI_UNUSED(t);
    next->kind = TC_NEXT_COMPLETED;
    next->result = TC_STR("{}");
    if (live_of(c, tx, &live, err) < 0)
        return err->code;
    return tci_live_remove_compaction(live, c->info->id, err);
}

static int count_usage(ending *e, tc_tx *tx, tc_err *err)
{
    return e->usage.len == 0 ? 0
                             : tci_usage_record(tx, e->c->info->conversation_id, TC_STR("models"),
                                                e->usage_key, e->usage, err);
}

static int fail(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    ending *e = arg;
    tc_doc *live;
    TCI_UNUSED(t);
    next->kind = TC_NEXT_FAILED;
    next->message = e->error;
    next->detail = e->detail;
    if (count_usage(e, tx, err) < 0 || live_of(e->c, tx, &live, err) < 0)
        return err->code;
    return tci_live_fail_compaction(live, e->c->info->id, e->error, err);
}

static int fail_no_model(compaction *c, tc_str provider, tc_str model_id, tc_err *err)
{
    ending e = {.c = c, .detail = TC_STR("{\"reason\":\"no_model\"}")};
    if (tci_no_model_text(c->r, provider, model_id, &e.error, err) < 0)
        return err->code;
    return tci_task_change(c->t, fail, &e, err);
}

/* A generation that waits gets the entry at once; else it is submitted as a write, and may have to
 * wait for a boundary or come too late. */
static int place_entry(ending *e, tc_tx *tx, tc_str draft, tc_next *next, tc_err *err)
{
    compaction *c = e->c;
    uint64_t id;
    tci_submit write = {.is_write = true, .entry = draft};
    if (c->info->owner_task_id != 0) {
        if (tc_tx_append_entry(tx, c->info->conversation_id, draft, &id, err) < 0)
            return err->code;
        return tci_result_printf(c->r, &next->result, err, "{\"entryId\":%llu}",
                                 (unsigned long long)id);
    }
    if (tci_result_printf(c->r, &write.request_id, err, "compaction:%llu",
                          (unsigned long long)c->info->id) < 0 ||
        tci_submit_admit(c->h, tx, c->info->conversation_id, &write, tc_task_now(c->t), &id, err) <
            0)
        return err->code;
    return tci_result_printf(c->r, &next->result, err, "{\"submissionId\":%llu}",
                             (unsigned long long)id);
}

static int place(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    ending *e = arg;
    compaction *c = e->c;
    tc_doc *live;
    tc_str draft;
    next->kind = TC_NEXT_COMPLETED;
    if (count_usage(e, tx, err) < 0 || live_of(c, tx, &live, err) < 0 ||
        tci_live_remove_compaction(live, c->info->id, err) < 0 ||
        tc_doc_delete(live, TC_STR("/compactionFailure"), err) < 0 ||
        tci_summary_entry(e->summary, c->first_kept, c->reason, tc_task_now(t), c->r, &draft, err) <
            0)
        return err->code;
    return place_entry(e, tx, draft, next, err);
}

/* ---- select ---- */

static int put_compaction(compaction *c, const tci_context *context, size_t cut, tc_str *ret,
                          tc_err *err)
{
    tci_buf messages, b;
    bool first = true;
    tci_buf_init(&messages, TCI_BUF_MAX);
    int rc = tci_summarised_messages(context, cut, &messages, err);
    if (rc == 0)
        rc = tci_buf_error(&messages, err);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("reason"), c->reason);
    if (c->instructions.len > 0)
        tci_put_str_member(&b, &first, TC_STR("instructions"), c->instructions);
    tci_put_u64_member(&b, &first, TC_STR("firstKept"), c->first_kept);
    tci_put_raw_member(&b, &first, TC_STR("messages"), tci_buf_str(&messages));
    tci_buf_append_byte(&b, '}');
    tci_buf_done(&messages);
    if (rc < 0) {
        tci_buf_done(&b);
        return rc;
    }
    return tci_result_take(c->r, &b, ret, err);
}

static bool has_hook(const tci_agent *agent)
{
    for (size_t i = 0; i < agent->nextensions; i++) {
        if (agent->extensions[i]->hooks != NULL &&
            agent->extensions[i]->hooks->before_compact != NULL)
            return true;
    }
    return false;
}

/* What the first hook that decides says. */
static int before_compact(compaction *c, const tci_agent *agent, tc_str description,
                          tc_compact_decision *ret, tc_err *err)
{
    tc_hook hook = {c->t};
    *ret = (tc_compact_decision){false, {NULL, 0}};
    for (size_t i = 0; i < agent->nextensions; i++) {
        const tc_extension *e = agent->extensions[i];
        tc_compact_decision d = {false, {NULL, 0}};
        tc_err failure;
        if (e->hooks == NULL || e->hooks->before_compact == NULL)
            continue;
        if (e->hooks->before_compact(e->user, &hook, description, c->r, &d, &failure) < 0) {
            if (tci_ctx_check(tc_task_ctx(c->t), err) < 0)
                return err->code;
            tci_hook_failed(c->t, e, &failure);
        } else if (!ret->is_declined && ret->summary.len == 0) {
            *ret = d;
        }
    }
    return 0;
}

static void put_request(tci_buf *b, const char *phase, const tci_json *request, uint64_t attempt,
                        int64_t until)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    tci_put_str_member(b, &first, TC_STR("phase"), tci_str(phase));
    for (uint32_t i = 0; i < request->count; i++) {
        const tci_json_member *m = &request->u.members[i];
        if (tci_str_eq(m->key, TC_STR("phase")) || tci_str_eq(m->key, TC_STR("until")))
            continue;
        tci_json_put_key(b, &first, m->key);
        if (tci_str_eq(m->key, TC_STR("attempt")))
            tci_buf_append_u64(b, attempt);
        else
            tci_json_put(b, &m->value, TCI_JSON_AS_IS);
    }
    if (until != 0)
        tci_put_i64_member(b, &first, TC_STR("until"), until);
    tci_buf_append_byte(b, '}');
}

/* Pin the question. */
static int start(compaction *c, const tci_agent *agent, const tc_model *model, uint64_t tail,
                 tc_err *err)
{
    tc_compaction_policy policy =
        tci_compaction_policy(&c->settings, agent->provider, agent->model_id);
    uint64_t max_tokens = policy.reserve_tokens / 5 * 4 + policy.reserve_tokens % 5 * 4 / 5;
    tc_next next = {.kind = TC_NEXT_RUNNING};
    tci_buf b;
    bool first = true;
    if (model->max_tokens > 0 && max_tokens > model->max_tokens)
        max_tokens = model->max_tokens;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("phase"), TC_STR("summarize"));
    tci_put_u64_member(&b, &first, TC_STR("attempt"), 1);
    tci_put_raw_member(&b, &first, TC_STR("model"), agent->model);
    tci_put_str_member(&b, &first, TC_STR("thinkingLevel"), agent->thinking_level);
    tci_put_raw_member(&b, &first, TC_STR("streamOptions"),
                       c->settings.stream.len > 0 ? c->settings.stream : TC_STR("{}"));
    tci_put_u64_member(&b, &first, TC_STR("maxTokens"), max_tokens);
    tci_put_u64_member(&b, &first, TC_STR("tail"), tail);
    tci_put_u64_member(&b, &first, TC_STR("firstKept"), c->first_kept);
    tci_buf_append_byte(&b, '}');
    if (tci_result_take(c->r, &b, &next.checkpoint, err) < 0)
        return err->code;
    return tc_task_next(c->t, &next, err);
}

static int decide(compaction *c, const tci_agent *agent, const tc_model *model,
                  tci_context *context, tc_compact_decision *decision, uint64_t *ret_tail,
                  bool *ret_has_cut, tc_err *err)
{
    tc_compaction_policy policy =
        tci_compaction_policy(&c->settings, agent->provider, agent->model_id);
    size_t cut = tci_select_cut(context, policy.keep_recent_tokens);
    tc_str description;
    TCI_UNUSED(model);
    *ret_has_cut = cut != TCI_NO_CUT;
    *ret_tail = context->tail;
    if (cut == TCI_NO_CUT)
        return 0;
    c->first_kept = context->entries[context->active[cut]].id;
    if (!has_hook(agent))
        return 0;
    if (put_compaction(c, context, cut, &description, err) < 0)
        return err->code;
    return before_compact(c, agent, description, decision, err);
}

static int select_range(tc_task *t, tc_err *err)
{
    compaction c;
    ending e = {.c = &c};
    const tci_agent *agent;
    tc_model model;
    bool is_known, has_cut;
    uint64_t tail;
    tc_compact_decision decision = {false, {NULL, 0}};
    tci_context *context;
    if (init(&c, t, err) < 0 || tci_task_agent(t, &agent, err) < 0 ||
        tci_find_model(c.h, agent->provider, agent->model_id, c.r, &model, &is_known, err) < 0)
        return err->code;
    if (!is_known)
        return fail_no_model(&c, agent->provider, agent->model_id, err);
    if (tci_context_read(c.h, c.info->conversation_id, 0, &context, err) < 0)
        return err->code;
    int rc = decide(&c, agent, &model, context, &decision, &tail, &has_cut, err);
    tci_context_release(c.h, context);
    if (rc < 0)
        return rc;
    if (!has_cut || decision.is_declined)
        return tci_task_change(t, complete, &c, err);
    if (decision.summary.len > 0) {
        e.summary = decision.summary;
        return tci_task_change(t, place, &e, err);
    }
    return start(&c, agent, &model, tail, err);
}

/* ---- summarize ---- */

static size_t find_cut(const tci_context *context, uint64_t first_kept)
{
    for (size_t i = 0; i < context->nactive; i++) {
        if (context->entries[context->active[i]].id == first_kept)
            return i;
    }
    return context->nactive;
}

static int ask(compaction *c, const tc_model *model, tc_str *ret_message, tc_err *err)
{
    struct tc_models *models = tci_harness_models(c->h);
    tci_context *context;
    tc_model_request q;
    tc_message messages[TCI_SUMMARY_MESSAGES];
    tc_str options, level = TC_STR("off");
    (void)tci_json_as_str(tci_json_get(c->checkpoint, TC_STR("thinkingLevel")),
                          &level); /* else off */
    if (tci_context_read(c->h, c->info->conversation_id, c->tail, &context, err) < 0)
        return err->code;
    int rc = tci_summary_request(context, find_cut(context, c->first_kept), c->instructions,
                                 tc_task_now(c->t), c->r, messages, err);
    tci_context_release(c->h, context);
    if (rc < 0 ||
        tc_json_text(tci_json_get(c->checkpoint, TC_STR("streamOptions")), c->r, &options, err) <
            0 ||
        tci_request_init(c->t, model, options, level, &q, err) < 0)
        return err->code;
    q.messages = messages;
    q.nmessages = TCI_SUMMARY_MESSAGES;
    q.max_tokens = c->max_tokens;
    q.cache_retention = TC_CACHE_NONE;
    q.may_defer = false;
    return models->ask(models->user, tc_task_ctx(c->t), &q, NULL, c->r, ret_message, err);
}

static bool is_type(const tci_json *item, const char *type)
{
    tc_str text;
    return tci_json_as_str(tci_json_get(item, TC_STR("type")), &text) &&
           tci_str_eq(text, tci_str(type));
}

static tc_str trim(tc_str s)
{
    static const char blanks[] = " \t\r\n\f\v";
    while (s.len > 0 && memchr(blanks, s.ptr[0], sizeof blanks - 1) != NULL)
        s = tci_str_sub(s, 1, s.len);
    while (s.len > 0 && memchr(blanks, s.ptr[s.len - 1], sizeof blanks - 1) != NULL)
        s.len--;
    return s;
}

/* The text of a clean answer; empty, and why, for any other. */
static int read_summary(compaction *c, const tci_json *v, tc_str *ret_summary, tc_str *ret_error,
                        tc_err *err)
{
    const tci_json *content = tci_json_get(v, TC_STR("content"));
    tc_str stop = {NULL, 0}, text, error;
    bool has_call = false;
    tci_buf b;
    *ret_summary = (tc_str){NULL, 0};
    *ret_error = TC_STR("Summarization produced no text");
    (void)tci_json_as_str(tci_json_get(v, TC_STR("stopReason")),
                          &stop); /* else none that is fine */
    tci_buf_init(&b, TCI_BUF_MAX);
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++) {
        const tci_json *item = &content->u.items[i];
        has_call = has_call || is_type(item, "toolCall");
        if (!is_type(item, "text") || !tci_json_as_str(tci_json_get(item, TC_STR("text")), &text))
            continue;
        if (b.len > 0)
            tci_buf_append_byte(&b, '\n');
        tci_buf_append_str(&b, text);
    }
    if (tci_result_take(c->r, &b, &text, err) < 0)
        return err->code;
    if (tci_str_eq(stop, TC_STR("stop")) && !has_call)
        *ret_summary = trim(text);
    else if (tci_str_eq(stop, TC_STR("length")))
        *ret_error = TC_STR("Summarization hit the token limit; the summary is incomplete");
    else if (has_call && !tci_str_eq(stop, TC_STR("error")) && !tci_str_eq(stop, TC_STR("aborted")))
        *ret_error = TC_STR("Summarization attempted to call a tool");
    else if (!tci_str_eq(stop, TC_STR("stop")))
        return tci_result_printf(
            c->r, ret_error, err, "Summarization failed: %.*s",
            TC_STR_ARG(tci_json_as_str(tci_json_get(v, TC_STR("errorMessage")), &error) &&
                               error.len > 0
                           ? error
                           : stop));
    return 0;
}

typedef struct retrying {
    ending *e;
    tc_str error;
    int64_t until;
} retrying;

static int sleep_then_retry(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    retrying *w = arg;
    compaction *c = w->e->c;
    tc_doc *live;
    tci_buf b;
    TCI_UNUSED(t);
    if (count_usage(w->e, tx, err) < 0 || live_of(c, tx, &live, err) < 0)
        return err->code;
    tci_spot spot = tci_live_compaction(tc_doc_value(live), c->info->id);
    if (spot.text[0] != '\0') {
        tci_spot at = tci_spot_member(&spot, "retry");
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_buf_printf(&b, "{\"at\":%lld,\"error\":", (long long)w->until);
        tci_json_put_str(&b, w->error);
        tci_buf_append_byte(&b, '}');
        int rc = tci_buf_error(&b, err);
        if (rc == 0)
            rc = tc_doc_set(live, tci_spot_str(&at), tci_buf_str(&b), err);
        tci_buf_done(&b);
        if (rc < 0)
            return rc;
    }
    tci_buf_init(&b, TCI_BUF_MAX);
    put_request(&b, "retry", c->checkpoint, c->attempt, w->until);
    *next = (tc_next){.kind = TC_NEXT_SLEEPING, .until_ms = w->until};
    return tci_result_take(c->r, &b, &next->checkpoint, err);
}

static int read_usage(compaction *c, const tci_json *v, ending *e, tc_err *err)
{
    const tci_json *usage = tci_json_get(v, TC_STR("usage"));
    tc_str provider = c->provider, model = c->model_id;
    (void)tci_json_as_str(tci_json_get(v, TC_STR("provider")),
                          &provider); /* else the pinned ones */
    (void)tci_json_as_str(tci_json_get(v, TC_STR("model")), &model);
    if (tci_result_printf(c->r, &e->usage_key, err, "%.*s/%.*s", TC_STR_ARG(provider),
                          TC_STR_ARG(model)) < 0)
        return err->code;
    return usage == NULL ? 0 : tc_json_text(usage, c->r, &e->usage, err);
}

static int summarize(tc_task *t, tc_err *err)
{
    compaction c;
    ending e = {.c = &c, .detail = TC_STR("{\"reason\":\"model_error\"}")};
    tc_model model;
    bool is_known;
    tc_str message, stop = {NULL, 0}, error = {NULL, 0};
    const tci_json *v;
    if (init(&c, t, err) < 0 ||
        tci_find_model(c.h, c.provider, c.model_id, c.r, &model, &is_known, err) < 0)
        return err->code;
    if (!is_known)
        return fail_no_model(&c, c.provider, c.model_id, err);
    if (ask(&c, &model, &message, err) < 0 || tci_ctx_check(tc_task_ctx(t), err) < 0 ||
        tci_parse(c.r, message, &v, err) < 0 || read_usage(&c, v, &e, err) < 0 ||
        read_summary(&c, v, &e.summary, &e.error, err) < 0)
        return err->code;
    if (e.summary.len > 0)
        return tci_task_change(t, place, &e, err);
    (void)tci_json_as_str(tci_json_get(v, TC_STR("stopReason")), &stop); /* else no error */
    (void)tci_json_as_str(tci_json_get(v, TC_STR("errorMessage")), &error);
    if (tci_str_eq(stop, TC_STR("error")) && tci_may_retry(&c.settings, error, c.attempt)) {
        retrying w = {&e, error, tc_task_now(t) + tci_retry_delay_ms(&c.settings, c.attempt)};
        return tci_task_change(t, sleep_then_retry, &w, err);
    }
    return tci_task_change(t, fail, &e, err);
}

/* ---- retry, abort, fault ---- */

static int begin_again(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    compaction *c = arg;
    tc_doc *live;
    tc_str attempt;
    tci_buf b;
    TCI_UNUSED(t);
    if (live_of(c, tx, &live, err) < 0 ||
        tci_result_printf(c->r, &attempt, err, "%llu", (unsigned long long)c->attempt + 1) < 0)
        return err->code;
    tci_spot spot = tci_live_compaction(tc_doc_value(live), c->info->id);
    if (spot.text[0] != '\0') {
        tci_spot number = tci_spot_member(&spot, "attempt"),
                 waiting = tci_spot_member(&spot, "retry");
        if (tc_doc_set(live, tci_spot_str(&number), attempt, err) < 0 ||
            tc_doc_delete(live, tci_spot_str(&waiting), err) < 0)
            return err->code;
    }
    tci_buf_init(&b, TCI_BUF_MAX);
    put_request(&b, "summarize", c->checkpoint, c->attempt + 1, 0);
    next->kind = TC_NEXT_RUNNING;
    return tci_result_take(c->r, &b, &next->checkpoint, err);
}

static int retry(tc_task *t, tc_err *err)
{
    compaction c;
    int64_t until = 0;
    if (init(&c, t, err) < 0)
        return err->code;
    (void)tci_json_as_i64(tci_json_get(c.checkpoint, TC_STR("until")), &until); /* else at once */
    if (until > tc_task_now(t))
        return tc_task_sleep_until(t, until, c.info->checkpoint, err);
    return tci_task_change(t, begin_again, &c, err);
}

static int stop(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    compaction *c = arg;
    tc_doc *live;
    TCI_UNUSED(t);
    next->kind = TC_NEXT_ABORTED;
    if (live_of(c, tx, &live, err) < 0)
        return err->code;
    return tci_live_remove_compaction(live, c->info->id, err);
}

static int abort_compaction(tc_task *t, tc_err *err)
{
    compaction c;
    if (init(&c, t, err) < 0)
        return err->code;
    return tci_task_change(t, stop, &c, err);
}

static int on_fault(void *user, tc_harness *h, tc_tx *tx, tc_str record, tc_str outcome,
                    tc_err *err)
{
    tc_result *r;
    tci_task task;
    const tci_json *v;
    tc_doc *live;
    tc_str text = {NULL, 0};
    TCI_UNUSED(user);
    TCI_UNUSED(h);
    if (tc_result_new(&r, err) < 0)
        return err->code;
    int rc = tci_task_parse(record, tci_result_arena(r), NULL, &task, err);
    if (rc == 0)
        rc = tci_parse(r, outcome, &v, err);
    if (rc == 0)
        rc = tci_doc_of(tx, &tci_live_doc, task.conversation_id, &live, err);
    if (rc == 0) {
        if (!tci_json_as_str(tci_json_get(tci_json_get(v, TC_STR("error")), TC_STR("message")),
                             &text))
            (void)tci_json_as_str(tci_json_get(v, TC_STR("reason")), &text); /* else no words */
        rc = tci_live_fail_compaction(live, task.id, text, err);
    }
    tc_result_free(r);
    return rc;
}

static int initial(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint, tc_err *err)
{
    TCI_UNUSED(user);
    TCI_UNUSED(input);
    return tc_result_dup(r, TC_STR("{\"phase\":\"select\"}"), ret_checkpoint, err);
}

static const tc_task_phase phases[] = {
    {"select", select_range}, {"summarize", summarize}, {"retry", retry}};

const tc_task_def tci_compaction_task = {.size = sizeof(tc_task_def),
                                         .name = "pi.compaction",
                                         .is_prompt = true,
                                         .version = 1,
                                         .initial = initial,
                                         .phases = phases,
                                         .nphases = sizeof phases / sizeof phases[0],
                                         .abort = abort_compaction,
                                         .on_fault = on_fault};
