/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of an answer: a final one, a tool round, a retry, a compaction, a poll, a failure.
 * Leaves tool rounds to generation_tools.c and failed runs to generation_end.c. On the task's thread.
 * Invariant: every answer but a deferred one is appended exactly once, in the commit that acts on it;
 * the ids of its calls are unlike all others the model can see. */
#include "base/json.h"
#include "harness/generation/generation.h"
#include "harness/generation/live.h"
#include "llm/llm.h"

enum { POLL_AFTER_MS = 5000 };

typedef struct answer {
    tci_generation *g;
    tc_str message;
    const tci_json *v;
    tc_str stop_reason, error;
    bool has_calls;
} answer;

static bool is_call(const tci_json *item)
{
    tc_str type;
    return tci_json_as_str(tci_json_get(item, TC_STR("type")), &type) &&
           tci_str_eq(type, TC_STR("toolCall"));
}

static int read_answer(answer *a, tc_err *err)
{
    if (tci_parse(a->g->r, a->message, &a->v, err) < 0)
        return tc_err_wrap(err, "answer of the model");
    a->stop_reason = a->error = (tc_str){NULL, 0};
    (void)tci_json_as_str(tci_json_get(a->v, TC_STR("stopReason")),
                          &a->stop_reason); /* else empty */
    (void)tci_json_as_str(tci_json_get(a->v, TC_STR("errorMessage")), &a->error);
    const tci_json *content = tci_json_get(a->v, TC_STR("content"));
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++)
        a->has_calls = a->has_calls || is_call(&content->u.items[i]);
    return 0;
}

static bool stopped_with(const answer *a, const char *reason)
{
    return tci_str_eq(a->stop_reason, tci_str(reason));
}

/* ---- ids of calls ---- */

/* Whether the context or an earlier call of this answer has the id. */
static bool is_taken(const tci_context *c, const tc_str *before, size_t nbefore, tc_str id)
{
    for (size_t i = 0; i < nbefore; i++) {
        if (tci_str_eq(before[i], id))
            return true;
    }
    return tci_context_has_call(c, id);
}

static int unique_id(const tci_context *c, const tc_str *before, size_t nbefore, tc_str id,
                     tc_result *r, tc_str *ret, tc_err *err)
{
    *ret = id;
    for (unsigned n = 2; is_taken(c, before, nbefore, *ret); n++) {
        if (tci_result_printf(r, ret, err, "%.*s_%u", TC_STR_ARG(id), n) < 0)
            return err->code;
    }
    return 0;
}

/* The content with the calls' ids replaced. */
static void put_content(tci_buf *b, const tci_json *content, const tc_str *ids)
{
    size_t ncalls = 0;
    tci_buf id;
    tci_buf_init(&id, TCI_BUF_MAX);
    tci_buf_append_byte(b, '[');
    for (uint32_t i = 0; i < content->count; i++) {
        const tci_json *item = &content->u.items[i];
        if (i > 0)
            tci_buf_append_byte(b, ',');
        if (!is_call(item)) {
            tci_json_put(b, item, TCI_JSON_AS_IS);
            continue;
        }
        tci_buf_clear(&id);
        tci_json_put_str(&id, ids[ncalls++]);
        const tci_json_change change = {TC_STR("id"), tci_buf_str(&id)};
        tci_json_edit(b, item, &change, 1);
    }
    tci_buf_append_byte(b, ']');
    if (!tci_buf_ok(&id))
        b->failed = id.failed;
    tci_buf_done(&id);
}

static int replace_content(answer *a, const tci_json *content, const tc_str *ids, tc_err *err)
{
    tci_buf text, b;
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_buf_init(&b, TCI_BUF_MAX);
    put_content(&text, content, ids);
    const tci_json_change change = {TC_STR("content"), tci_buf_str(&text)};
    tci_json_edit(&b, a->v, &change, 1);
    int rc = tci_buf_error(&text, err);
    tci_buf_done(&text);
    if (rc < 0) {
        tci_buf_done(&b);
        return rc;
    }
    if (tci_result_take(a->g->r, &b, &a->message, err) < 0)
        return err->code;
    return tci_parse(a->g->r, a->message, &a->v, err);
}

/* Models reuse ids, in one answer or over turns. Results belong to ids, and providers refuse two calls
 * of one id: a later one gets another name. */
static int make_ids_unique(answer *a, tc_err *err)
{
    const tci_json *content = tci_json_get(a->v, TC_STR("content"));
    tci_context *c;
    bool is_changed = false;
    size_t n = 0;
    if (!a->has_calls)
        return 0;
    tc_str *ids = tci_arena_items(tci_result_arena(a->g->r), tc_str, content->count);
    if (ids == NULL)
        return tci_arena_error(tci_result_arena(a->g->r), err);
    if (tci_context_read(a->g->h, a->g->conversation, a->g->cutoff, &c, err) < 0)
        return err->code;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < content->count; i++) {
        const tci_json *item = &content->u.items[i];
        tc_str id = {NULL, 0};
        if (!is_call(item))
            continue;
        bool is_text = tci_json_as_str(tci_json_get(item, TC_STR("id")), &id);
        rc = unique_id(c, ids, n, is_text && id.len > 0 ? id : TC_STR("call"), a->g->r, &ids[n],
                       err);
        is_changed = is_changed || !is_text || !tci_str_eq(ids[n], id);
        n++;
    }
    tci_context_release(a->g->h, c);
    if (rc < 0 || !is_changed)
        return rc;
    return replace_content(a, content, ids, err);
}

/* ---- deferred ---- */

static int show_deferred(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    answer *a = arg;
    tci_generation *g = a->g;
    const tci_json *handle = tci_json_get(a->v, TC_STR("deferred"));
    tc_str shown, handle_text;
    tc_doc *live;
    tci_buf b;
    bool first = true;
    uint64_t after = POLL_AFTER_MS;
    if (tci_doc_of(tx, &tci_live_doc, g->conversation, &live, err) < 0 ||
        tc_json_text(handle, g->r, &handle_text, err) < 0)
        return err->code;
    (void)tci_json_as_u64(tci_json_get(handle, TC_STR("pollAfterMs")),
                          &after); /* else the default */
    int64_t poll_at = tc_task_now(t) + (int64_t)(after < INT32_MAX ? after : INT32_MAX);
    if (g->poll_at != 0 && poll_at <= g->poll_at)
        poll_at = g->poll_at + 1;
    if (tci_result_printf(g->r, &shown, err, "{\"attempt\":%llu,\"deferred\":{\"pollAt\":%lld}}",
                          (unsigned long long)g->attempt, (long long)poll_at) < 0 ||
        tc_doc_set(live, TC_STR("/generation"), shown, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("phase"), TC_STR("poll"));
    tci_put_u64_member(&b, &first, TC_STR("attempt"), g->attempt);
    if (g->compacted != 0)
        tci_put_u64_member(&b, &first, TC_STR("compacted"), g->compacted);
    tci_put_raw_member(&b, &first, TC_STR("model"), g->model);
    tci_put_u64_member(&b, &first, TC_STR("cutoff"), g->cutoff);
    tci_put_raw_member(&b, &first, TC_STR("handle"), handle_text);
    tci_put_i64_member(&b, &first, TC_STR("pollAt"), poll_at);
    tci_buf_append_byte(&b, '}');
    next->kind = TC_NEXT_SLEEPING;
    next->until_ms = poll_at;
    return tci_result_take(g->r, &b, &next->checkpoint, err);
}

/* ---- hooks ---- */

static int after_response(answer *a, tc_err *err)
{
    const tci_agent *agent;
    tc_hook hook = {a->g->t};
    if (tci_task_agent(a->g->t, &agent, err) < 0)
        return err->code;
    for (size_t i = 0; i < agent->nextensions; i++) {
        const tc_extension *e = agent->extensions[i];
        tc_err failure;
        if (e->hooks == NULL || e->hooks->after_response == NULL)
            continue;
        if (e->hooks->after_response(e->user, &hook, a->message, &failure) < 0) {
            if (tci_ctx_check(tc_task_ctx(a->g->t), err) < 0)
                return err->code;
            tci_hook_failed(a->g->t, e, &failure);
        }
    }
    return 0;
}

/* What the first hook that wants to go on says; empty: nobody. */
static int on_yield(answer *a, tc_str *ret_continue, tc_err *err)
{
    const tci_agent *agent;
    tc_hook hook = {a->g->t};
    *ret_continue = (tc_str){NULL, 0};
    if (tci_task_agent(a->g->t, &agent, err) < 0)
        return err->code;
    for (size_t i = 0; i < agent->nextensions && ret_continue->len == 0; i++) {
        const tc_extension *e = agent->extensions[i];
        tc_err failure;
        tc_str text = {NULL, 0};
        const tci_json *v;
        if (e->hooks == NULL || e->hooks->on_yield == NULL)
            continue;
        int rc = e->hooks->on_yield(e->user, &hook, a->message, a->g->r, &text, &failure);
        if (rc == 0 && text.len > 0)
            rc = tci_parse(a->g->r, text, &v, &failure);
        if (rc == 0) {
            *ret_continue = text;
        } else {
            if (tci_ctx_check(tc_task_ctx(a->g->t), err) < 0)
                return err->code;
            tci_hook_failed(a->g->t, e, &failure);
        }
    }
    return 0;
}

/* ---- a final answer ---- */

typedef struct finishing {
    answer *a;
    tc_str go_on; /* content, JSON; empty: none */
} finishing;

static int go_on(finishing *f, tc_tx *tx, tc_doc *live, tc_err *err)
{
    tci_generation *g = f->a->g;
    uint64_t entry;
    if (tci_append_input(tx, g->conversation, f->go_on, (tc_str){NULL, 0}, tc_task_now(g->t),
                         &entry, err) < 0 ||
        tc_doc_delete(live, TC_STR("/generation"), err) < 0)
        return err->code;
    return tci_hand_over(g, tx, live, err);
}

static int finish(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    finishing *f = arg;
    tci_generation *g = f->a->g;
    tci_boundary boundary;
    tci_placed placed;
    tc_settlement done = {.answer = 0};
    tc_doc *live;
    if (tci_boundary_prepare(g->h, tx, g->conversation, &boundary, err) < 0 ||
        tci_doc_of(tx, &tci_live_doc, g->conversation, &live, err) < 0 ||
        tci_append_assistant(tx, g->conversation, f->a->message, &done.answer, err) < 0 ||
        tci_boundary_apply(tx, &boundary, true, tc_task_now(t), &placed, err) < 0)
        return err->code;
    int rc = f->go_on.len > 0 && placed.nusers == 0 && !placed.is_reset
                 ? go_on(f, tx, live, err)
                 : tci_end_and_start(g, tx, live, &done, &placed, err);
    if (rc < 0)
        return rc;
    next->kind = TC_NEXT_COMPLETED;
    return tci_result_printf(g->r, &next->result, err, "{\"entryId\":%llu}",
                             (unsigned long long)done.answer);
}

/* ---- errors ---- */

static int start_compaction(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    answer *a = arg;
    tci_generation *g = a->g;
    tc_doc *live;
    uint64_t entry;
    tci_buf b;
    bool first = true;
    TCI_UNUSED(t);
    uint64_t *child = tci_arena_new(tci_result_arena(g->r), uint64_t);
    if (child == NULL)
        return tci_arena_error(tci_result_arena(g->r), err);
    if (tci_doc_of(tx, &tci_live_doc, g->conversation, &live, err) < 0 ||
        tci_append_assistant(tx, g->conversation, a->message, &entry, err) < 0 ||
        tc_doc_delete(live, TC_STR("/generation"), err) < 0 ||
        tci_compaction_create(tx, live, g->conversation, g->id, TC_STR("overflow"),
                              (tc_str){NULL, 0}, child, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("phase"), TC_STR("prepare"));
    tci_put_u64_member(&b, &first, TC_STR("attempt"), g->attempt);
    tci_put_u64_member(&b, &first, TC_STR("compacted"), *child);
    tci_put_str_member(&b, &first, TC_STR("overflow"),
                       a->error.len > 0 ? a->error : TC_STR("Context overflow"));
    tci_buf_append_byte(&b, '}');
    *next = (tc_next){.kind = TC_NEXT_WAITING, .on = child, .non = 1};
    return tci_result_take(g->r, &b, &next->checkpoint, err);
}

static int start_retry(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    answer *a = arg;
    tci_generation *g = a->g;
    tc_doc *live;
    tc_str shown;
    uint64_t entry;
    tci_buf b;
    bool first = true;
    int64_t until = tc_task_now(t) + tci_retry_delay_ms(&g->settings, g->attempt);
    if (tci_doc_of(tx, &tci_live_doc, g->conversation, &live, err) < 0 ||
        tci_append_assistant(tx, g->conversation, a->message, &entry, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "{\"attempt\":%llu,\"retry\":{\"at\":%lld,\"error\":",
                   (unsigned long long)g->attempt, (long long)until);
    tci_json_put_str(&b, a->error);
    tci_buf_append_str(&b, TC_STR("}}"));
    if (tci_result_take(g->r, &b, &shown, err) < 0 ||
        tc_doc_set(live, TC_STR("/generation"), shown, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("phase"), TC_STR("retry"));
    tci_put_u64_member(&b, &first, TC_STR("attempt"), g->attempt);
    if (g->compacted != 0)
        tci_put_u64_member(&b, &first, TC_STR("compacted"), g->compacted);
    tci_put_i64_member(&b, &first, TC_STR("until"), until);
    tci_buf_append_byte(&b, '}');
    *next = (tc_next){.kind = TC_NEXT_SLEEPING, .until_ms = until};
    return tci_result_take(g->r, &b, &next->checkpoint, err);
}

/* Whether there is something to be cut off, so that a smaller question can be asked. */
static int can_compact(answer *a, bool *ret, tc_err *err)
{
    tci_generation *g = a->g;
    tci_context *c;
    tc_compaction_policy policy = tci_compaction_policy(&g->settings, g->provider, g->model_id);
    *ret = false;
    if (g->compacted != 0 || !policy.is_enabled)
        return 0;
    if (tci_context_read(g->h, g->conversation, g->cutoff, &c, err) < 0)
        return err->code;
    *ret = tci_select_cut(c, policy.keep_recent_tokens) != TCI_NO_CUT;
    tci_context_release(g->h, c);
    return 0;
}

static int fail_with_answer(answer *a, tc_err *err)
{
    tci_failure failure = {
        .reason = TC_STR("model_error"), .text = a->error, .message = a->message, .gain = -1};
    if (a->error.len == 0 &&
        tci_result_printf(a->g->r, &failure.text, err, "Model response ended with stop reason %.*s",
                          TC_STR_ARG(a->stop_reason)) < 0)
        return err->code;
    return tci_generation_fail(a->g, &failure, err);
}

static int classify_error(answer *a, tc_err *err)
{
    bool is_error = stopped_with(a, "error");
    bool is_overflow = is_error && tci_llm_is_overflow(a->error), can = false;
    if (is_overflow && can_compact(a, &can, err) < 0)
        return err->code;
    if (can)
        return tci_task_change(a->g->t, start_compaction, a, err);
    if (is_error && !is_overflow && tci_may_retry(&a->g->settings, a->error, a->g->attempt))
        return tci_task_change(a->g->t, start_retry, a, err);
    return fail_with_answer(a, err);
}

int tci_generation_classify(tci_generation *g, tc_str message, tc_err *err)
{
    answer a = {.g = g, .message = message};
    finishing f = {.a = &a};
    if (tci_ctx_check(tc_task_ctx(g->t), err) < 0 || read_answer(&a, err) < 0)
        return err->code;
    const tci_json *handle = tci_json_get(a.v, TC_STR("deferred"));
    if (stopped_with(&a, "deferred") && handle != NULL && handle->kind == TCI_JSON_OBJECT)
        return tci_task_change(g->t, show_deferred, &a, err);
    if (make_ids_unique(&a, err) < 0 || after_response(&a, err) < 0)
        return err->code;
    if (stopped_with(&a, "toolUse") && a.has_calls)
        return tci_generation_start_tools(g, a.message, a.v, err);
    if (!stopped_with(&a, "stop") && !stopped_with(&a, "length") && !stopped_with(&a, "toolUse"))
        return classify_error(&a, err);
    if (on_yield(&a, &f.go_on, err) < 0)
        return err->code;
    return tci_task_change(g->t, finish, &f, err);
}
