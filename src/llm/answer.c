/* SPDX-License-Identifier: Apache-2.0
 *
 * An assistant message being put together from what a server sends, and told to a sink on the way.
 * Leaves the meaning of events to the servers' files. The asking thread. Invariant: the message is
 * whole JSON at every moment (tci_answer_put), and what the sink was told adds up to it. */
#include "llm/llm_int.h"

#include "base/num.h"
#include "base/plain.h"
#include "base/utf8.h"
#include "plat/clock.h"
#include <stdarg.h>
#include <stdio.h>

void tci_answer_init(tci_answer *a, tci_arena *arena, const char *api, const tc_model *model,
                     const tc_model_sink *sink, int64_t now_ms)
{
    *a =
        (tci_answer){.arena = arena, .api = api, .model = model, .sink = sink, .timestamp = now_ms};
}

void tci_answer_done(tci_answer *a)
{
    for (size_t i = 0; i < a->nblocks; i++) {
        tci_buf_done(&a->blocks[i].text);
        tci_buf_done(&a->blocks[i].signature);
    }
    tci_free(a->blocks);
    a->blocks = NULL;
    a->nblocks = a->cap = 0;
}

/* ---- writing it ---- */

static void put_count(tci_buf *b, bool *first, const char *key, uint64_t value)
{
    tci_json_put_key(b, first, tci_str(key));
    tci_buf_append_u64(b, value);
}

/* USD per million; writing for an hour costs twice the input. */
static void put_cost(tci_buf *b, const tci_usage *u, const tc_model *m)
{
    const double million = 1e6;
    uint64_t short_writes =
        u->cache_write - (u->cache_write_1h < u->cache_write ? u->cache_write_1h : u->cache_write);
    double input = (double)u->input * m->cost_input / million;
    double output = (double)u->output * m->cost_output / million;
    double read = (double)u->cache_read * m->cost_cache_read / million;
    double write = ((double)short_writes * m->cost_cache_write +
                    (double)(u->cache_write - short_writes) * 2 * m->cost_input) /
                   million;
    const char *names[] = {"input", "output", "cacheRead", "cacheWrite", "total"};
    double values[] = {input, output, read, write, input + output + read + write};
    bool first = true;
    tci_buf_append_byte(b, '{');
    for (size_t i = 0; i < 5; i++) {
        tci_json_put_key(b, &first, tci_str(names[i]));
        tci_json_put_double(b, values[i]);
    }
    tci_buf_append_byte(b, '}');
}

static void put_usage(tci_buf *b, const tci_answer *a)
{
    const tci_usage *u = &a->usage;
    bool first = true;
    tci_buf_append_byte(b, '{');
    put_count(b, &first, "input", u->input);
    put_count(b, &first, "output", u->output);
    put_count(b, &first, "cacheRead", u->cache_read);
    put_count(b, &first, "cacheWrite", u->cache_write);
    put_count(b, &first, "totalTokens", u->total);
    if (u->cache_write_1h > 0)
        put_count(b, &first, "cacheWrite1h", u->cache_write_1h);
    if (u->reasoning > 0)
        put_count(b, &first, "reasoning", u->reasoning);
    tci_json_put_key(b, &first, TC_STR("cost"));
    put_cost(b, u, a->model);
    tci_buf_append_byte(b, '}');
}

static void put_call(tci_buf *b, bool *first, const tci_block *block)
{
    tci_json_put_member(b, first, "id", block->id);
    tci_json_put_member(b, first, "name", block->name);
    tci_json_put_key(b, first, TC_STR("arguments"));
    bool is_bad = false;
    if (block->is_ended)
        tci_arguments_put(b, tci_buf_str(&block->text), &is_bad);
    else
        tci_buf_append_str(b, TC_STR("{}"));
    if (is_bad)
        tci_json_put_member(b, first, "argumentsError", tci_buf_str(&block->text));
}

static void put_block(tci_buf *b, const tci_block *block)
{
    static const char *const types[] = {"text", "thinking", "toolCall"};
    bool first = true;
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &first, "type", tci_str(types[block->kind]));
    if (block->kind == TCI_BLOCK_CALL)
        put_call(b, &first, block);
    else
        tci_json_put_member(b, &first, types[block->kind], tci_buf_str(&block->text));
    if (block->kind == TCI_BLOCK_THINKING && block->signature.len > 0)
        tci_json_put_member(b, &first, "thinkingSignature", tci_buf_str(&block->signature));
    if (block->is_redacted) {
        tci_json_put_key(b, &first, TC_STR("redacted"));
        tci_json_put_bool(b, true);
    }
    tci_buf_append_byte(b, '}');
}

/* Everything but role and content. */
static void put_rest(tci_buf *b, bool *first, const tci_answer *a, const char *stop_reason)
{
    tci_json_put_member(b, first, "api", tci_str(a->api));
    tci_json_put_member(b, first, "provider", a->model->provider);
    tci_json_put_member(b, first, "model", a->model->id);
    tci_json_put_key(b, first, TC_STR("usage"));
    put_usage(b, a);
    tci_json_put_member(b, first, "stopReason", tci_str(stop_reason));
    if (a->error_message.len > 0)
        tci_json_put_member(b, first, "errorMessage", a->error_message);
    if (a->response_id.len > 0)
        tci_json_put_member(b, first, "responseId", a->response_id);
    if (a->response_model.len > 0 && !tci_str_eq(a->response_model, a->model->id))
        tci_json_put_member(b, first, "responseModel", a->response_model);
    if (a->raw_stop_reason.len > 0)
        tci_json_put_member(b, first, "rawStopReason", a->raw_stop_reason);
    tci_json_put_key(b, first, TC_STR("timestamp"));
    tci_buf_append_i64(b, a->timestamp);
}

void tci_answer_put(tci_buf *b, const tci_answer *a)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &first, "role", TC_STR("assistant"));
    tci_json_put_key(b, &first, TC_STR("content"));
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < a->nblocks; i++) {
        if (i > 0)
            tci_buf_append_byte(b, ',');
        put_block(b, &a->blocks[i]);
    }
    tci_buf_append_byte(b, ']');
    put_rest(b, &first, a, a->stop_reason != NULL ? a->stop_reason : "pending");
    tci_buf_append_byte(b, '}');
}

/* ---- telling it ---- */

static int tell(tci_answer *a, const tc_model_event *event, tc_err *err)
{
    return a->sink != NULL && a->sink->on_event != NULL
               ? a->sink->on_event(a->sink->user, event, err)
               : 0;
}

static int tell_json(tci_answer *a, tc_model_event_type type, size_t index, const tci_buf *json,
                     tc_err *err)
{
    if (tci_buf_error(json, err) < 0)
        return err->code;
    tc_model_event event = {.type = type, .index = index, .json = tci_buf_str(json)};
    return tell(a, &event, err);
}

/* The first event of an answer is the message without its blocks. */
static int start(tci_answer *a, tc_err *err)
{
    if (a->has_started || a->sink == NULL)
        return 0;
    a->has_started = true;
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_json_put_member(&b, &first, "role", TC_STR("assistant"));
    tci_json_put_key(&b, &first, TC_STR("content"));
    tci_buf_append_str(&b, TC_STR("[]"));
    put_rest(&b, &first, a, "pending");
    tci_buf_append_byte(&b, '}');
    int rc = tell_json(a, TC_MODEL_START, 0, &b, err);
    tci_buf_done(&b);
    return rc;
}

int tci_answer_tell(tci_answer *a, tc_err *err)
{
    if (a->sink == NULL)
        return 0;
    if (!a->has_started)
        return start(a, err);
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    put_rest(&b, &first, a, "pending");
    tci_buf_append_byte(&b, '}');
    int rc = tell_json(a, TC_MODEL_MESSAGE, 0, &b, err);
    tci_buf_done(&b);
    return rc;
}

static int tell_block(tci_answer *a, tc_model_event_type type, const tci_block *block, tc_err *err)
{
    if (a->sink == NULL)
        return 0;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    put_block(&b, block);
    int rc = tell_json(a, type, (size_t)(block - a->blocks), &b, err);
    tci_buf_done(&b);
    return rc;
}

/* ---- blocks ---- */

static bool is_id_taken(const tci_answer *a, tc_str id)
{
    for (size_t i = 0; i < a->nblocks; i++) {
        if (a->blocks[i].kind == TCI_BLOCK_CALL && tci_str_eq(a->blocks[i].id, id))
            return true;
    }
    return false;
}

/* The id a call gets: its own, unless that is missing or names another call of this answer. */
static int call_id(tci_answer *a, tc_str id, tc_str *ret, tc_err *err)
{
    if (id.len > 0 && !is_id_taken(a, id))
        return tci_arena_dup(a->arena, id, ret, err);
    tc_str base = id.len > 0 ? id : TC_STR("call");
    for (size_t n = a->nblocks + 1;; n++) {
        if (tci_arena_printf(a->arena, ret, err, "%.*s_%zu", TC_STR_ARG(base), n) < 0)
            return err->code;
        if (!is_id_taken(a, *ret))
            return 0;
    }
}

int tci_answer_block(tci_answer *a, tci_block_kind kind, int64_t key, tc_str id, tc_str name,
                     tci_block **ret_block, tc_err *err)
{
    if (a->nblocks == TCI_BLOCKS_MAX)
        return tc_err_set(err, TC_E_TOO_BIG, "the answer has more than %d blocks", TCI_BLOCKS_MAX);
    if (a->nblocks == a->cap) {
        size_t cap = a->cap > 0 ? a->cap * 2 : 4;
        tci_block *blocks = tci_mem_resize(a->blocks, cap * sizeof *blocks);
        if (blocks == NULL)
            return tci_err_no_memory(err);
        a->blocks = blocks;
        a->cap = cap;
    }
    tci_block block = {.kind = kind, .key = key};
    tci_buf_init(&block.text, TCI_ANSWER_MAX);
    tci_buf_init(&block.signature, TCI_ANSWER_MAX);
    if (kind == TCI_BLOCK_CALL &&
        (call_id(a, id, &block.id, err) < 0 || tci_arena_dup(a->arena, name, &block.name, err) < 0))
        return err->code;
    if (start(a, err) < 0)
        return err->code;
    a->blocks[a->nblocks] = block;
    *ret_block = &a->blocks[a->nblocks++];
    return tell_block(a, TC_MODEL_BLOCK, *ret_block, err);
}

tci_block *tci_answer_find(tci_answer *a, tci_block_kind kind, int64_t key)
{
    for (size_t i = a->nblocks; i > 0; i--) {
        tci_block *block = &a->blocks[i - 1];
        if (block->kind == kind && block->key == key && !block->is_ended)
            return block;
    }
    return NULL;
}

int tci_answer_text(tci_answer *a, tci_block *block, tc_str text, tc_err *err)
{
    if (text.len == 0)
        return 0;
    if (text.len > TCI_ANSWER_MAX - a->nbytes)
        return tc_err_set(err, TC_E_TOO_BIG, "the answer is over %d bytes", TCI_ANSWER_MAX);
    a->nbytes += text.len;
    tci_buf_append_str(&block->text, text);
    if (tci_buf_error(&block->text, err) < 0)
        return err->code;
    if (block->kind == TCI_BLOCK_CALL)
        return 0;
    tc_model_event event = {
        .type = TC_MODEL_TEXT, .index = (size_t)(block - a->blocks), .text = text};
    return tell(a, &event, err);
}

int tci_answer_end_block(tci_answer *a, tci_block *block, tc_err *err)
{
    if (block->is_ended)
        return 0;
    block->is_ended = true;
    return tell_block(a, TC_MODEL_BLOCK_END, block, err);
}

int tci_answer_end_blocks(tci_answer *a, tc_err *err)
{
    for (size_t i = 0; i < a->nblocks; i++) {
        if (tci_answer_end_block(a, &a->blocks[i], err) < 0)
            return err->code;
    }
    return 0;
}

void tci_answer_fail(tci_answer *a, const char *stop_reason, const char *fmt, ...)
{
    if (a->error_message.len > 0)
        return;
    a->stop_reason = stop_reason;
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args); /* cut when too long */
    va_end(args);
    tc_str whole = tci_str(text);
    tc_err ignored;
    tci_buf b;
    tci_buf_init(&b, sizeof text * 4);
    whole.len -= tci_utf8_cut_tail(whole);
    tci_plain_put(&b, whole, TCI_PLAIN_UTF8); /* servers send any bytes, and the message is JSON */
    if (tci_buf_error(&b, &ignored) < 0 ||
        tci_arena_dup(a->arena, tci_buf_str(&b), &a->error_message, &ignored) < 0)
        a->error_message = TC_STR("out of memory");
    tci_buf_done(&b);
}

bool tci_pause_ms(tc_ctx *ctx, const tc_model_sink *sink, int64_t ms)
{
    int64_t end = tci_clock_mono_ns() + ms * 1000000;
    tci_wake unused = {0}, *wake = ctx != NULL ? tci_ctx_wake(ctx) : &unused;
    while (true) {
        unsigned seen = tci_wake_count(wake);
        tc_err ignored;
        if (tci_ctx_check(ctx, &ignored) < 0)
            return false;
        int64_t tick_ms = sink != NULL && sink->on_tick != NULL ? sink->on_tick(sink->user) : -1;
        int64_t now = tci_clock_mono_ns(), until = end;
        if (now >= end)
            return true;
        if (tick_ms >= 0 && now + tick_ms * 1000000 < until)
            until = now + tick_ms * 1000000;
        int64_t deadline = tci_ctx_deadline_ns(ctx);
        if (deadline != 0 && deadline < until)
            until = deadline;
        tci_wake_wait(wake, seen, until);
    }
}
