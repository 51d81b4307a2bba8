/* SPDX-License-Identifier: Apache-2.0
 *
 * See run_model.h. */
#include "run_model.h"

#include "base/json.h"
#include "base/str.h"
#include "base/json_tree.h"
#include "plat/call.h"
#include "plat/clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define USAGE                                                                                   \
    "\"usage\":{\"input\":10,\"output\":5,\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":15," \
    "\"cost\":{"                                                                                \
    "\"input\":0.0,\"output\":0.0,\"cacheRead\":0.0,\"cacheWrite\":0.0,\"total\":0.0}}"

static char ring[64][2048];
static unsigned ring_at;

static char *slot(void)
{
    return ring[ring_at++ % 64];
}

const char *run_text(const char *text)
{
    char *s = slot();
    (void)snprintf(s, sizeof ring[0],
                   "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"%s\"}],"
                   "\"api\":\"faux\","
                   "\"provider\":\"faux\",\"model\":\"faux-1\"," USAGE
                   ",\"stopReason\":\"stop\",\"timestamp\":1000}",
                   text);
    return s;
}

const char *run_call(const char *id, const char *name, const char *arguments)
{
    char *s = slot();
    (void)snprintf(
        s, sizeof ring[0],
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"toolCall\",\"id\":\"%s\",\"name\":\"%s\","
        "\"arguments\":%s}],\"api\":\"faux\",\"provider\":\"faux\",\"model\":\"faux-1\"," USAGE
        ",\"stopReason\":\"toolUse\",\"timestamp\":1000}",
        id, name, arguments);
    return s;
}

const char *run_error(const char *text)
{
    char *s = slot();
    (void)snprintf(s, sizeof ring[0],
                   "{\"role\":\"assistant\",\"content\":[],\"api\":\"faux\",\"provider\":\"faux\","
                   "\"model\":\"faux-1\"," USAGE
                   ",\"stopReason\":\"error\",\"errorMessage\":\"%s\",\"timestamp\":1000}",
                   text);
    return s;
}

/* ---- what is asked ---- */

static int get_model(void *user, tc_str provider, tc_str id, tc_result *r, tc_model *ret,
                     tc_err *err)
{
    run_model *m = user;
    (void)r;
    if (m->is_missing)
        return tc_err_set(err, TC_E_NOT_FOUND, "no model");
    *ret = (tc_model){.provider = provider,
                      .id = id,
                      .context_window = m->context_window,
                      .max_tokens = m->max_tokens};
    return 0;
}

static char *copy(tc_str s)
{
    char *text = tci_mem_cstr(s);
    assert_non_null(text);
    return text;
}

static size_t take_step(run_model *m, const tc_model_request *q, tc_str messages)
{
    char options[256];
    tci_mutex_lock(&m->lock);
    size_t n = m->nasked++;
    assert_true(n < RUN_STEPS_MAX);
    m->requests[n] = copy(messages);
    (void)snprintf(options, sizeof options, "%.*s %llu %.*s", TC_STR_ARG(q->reasoning),
                   (unsigned long long)q->max_tokens, TC_STR_ARG(q->session_id));
    m->options[n] = copy(tci_str(options));
    tci_mutex_unlock(&m->lock);
    tci_wake_all(&m->wake);
    return n;
}

/* True when it may go on, false when ctx ended first. */
static bool wait_release(run_model *m, tc_ctx *ctx)
{
    tci_mutex_lock(&m->lock);
    size_t mine = m->nheld++;
    tci_mutex_unlock(&m->lock);
    tci_wake_all(&m->wake);
    for (;;) {
        unsigned seen = tci_wake_count(&m->wake);
        tc_err err;
        tci_mutex_lock(&m->lock);
        bool is_free = m->nreleased > mine;
        tci_mutex_unlock(&m->lock);
        if (is_free)
            return true;
        if (tci_ctx_check(ctx, &err) < 0)
            return false;
        tci_wake_wait(&m->wake, seen, tci_clock_mono_ns() + 5000000); /* ctx has another word */
    }
}

typedef struct playing {
    run_model *m;
    const tc_model_sink *sink;
    tc_ctx *ctx;
    const run_step *step;
    int npieces;
    bool is_cut;
} playing;

static int give(playing *p, tc_model_event_type type, size_t index, tc_str json, tc_str text)
{
    const tc_model_event e = {type, index, json, text};
    tc_err err;
    if (p->sink == NULL)
        return 0;
    if (p->sink->on_event(p->sink->user, &e, &err) < 0)
        return -1;
    if (p->sink->on_tick != NULL)
        (void)p->sink->on_tick(p->sink->user);
    p->npieces++;
    if (p->step->is_held && p->npieces == p->step->npieces && !wait_release(p->m, p->ctx))
        p->is_cut = true;
    return p->is_cut ? -1 : 0;
}

static int stream_text(playing *p, size_t index, tc_str text)
{
    for (size_t at = 0; at < text.len;) {
        size_t n = text.len - at < 4 ? text.len - at : 4;
        while (at + n < text.len && ((unsigned char)text.ptr[at + n] & 0xc0) == 0x80)
            n++;
        if (give(p, TC_MODEL_TEXT, index, (tc_str){NULL, 0}, tci_str_sub(text, at, n)) < 0)
            return -1;
        at += n;
    }
    return 0;
}

static int stream_block(playing *p, size_t index, const tci_json *block)
{
    tci_buf b, whole;
    tc_str type, text = {NULL, 0};
    int rc;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_init(&whole, TCI_BUF_MAX);
    tci_json_put(&whole, block, TCI_JSON_AS_IS);
    assert_true(tci_json_as_str(tci_json_get(block, TC_STR("type")), &type));
    if (tci_str_eq(type, TC_STR("text"))) {
        tci_buf_append_str(&b, TC_STR("{\"type\":\"text\",\"text\":\"\"}"));
        (void)tci_json_as_str(tci_json_get(block, TC_STR("text")), &text);
    } else {
        tci_buf_append_str(&b, TC_STR("{\"type\":\"toolCall\",\"id\":"));
        tci_json_put(&b, tci_json_get(block, TC_STR("id")), TCI_JSON_AS_IS);
        tci_buf_append_str(&b, TC_STR(",\"name\":"));
        tci_json_put(&b, tci_json_get(block, TC_STR("name")), TCI_JSON_AS_IS);
        tci_buf_append_str(&b, TC_STR(",\"arguments\":{}}"));
    }
    rc = give(p, TC_MODEL_BLOCK, index, tci_buf_str(&b), (tc_str){NULL, 0});
    if (rc == 0)
        rc = stream_text(p, index, text);
    if (rc == 0)
        rc = give(p, TC_MODEL_BLOCK_END, index, tci_buf_str(&whole), (tc_str){NULL, 0});
    tci_buf_done(&b);
    tci_buf_done(&whole);
    return rc;
}

static int stream(playing *p, const tci_json *v)
{
    static const tci_json_change begun[] = {{{"content", 7}, {"[]", 2}},
                                            {{"stopReason", 10}, {"\"pending\"", 9}}};
    const tci_json *content = tci_json_get(v, TC_STR("content"));
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_edit(&b, v, begun, 2);
    int rc = give(p, TC_MODEL_START, 0, tci_buf_str(&b), (tc_str){NULL, 0});
    for (uint32_t i = 0; rc == 0 && i < content->count; i++)
        rc = stream_block(p, i, &content->u.items[i]);
    tci_buf_done(&b);
    return rc;
}

static const char aborted[] =
    "{\"role\":\"assistant\",\"content\":[],\"api\":\"faux\",\"provider\":\"faux\",\"model\":"
    "\"faux-1\"," USAGE
    ",\"stopReason\":\"aborted\",\"errorMessage\":\"Request was aborted\",\"timestamp\":1000}";

static int ask(void *user, tc_ctx *ctx, const tc_model_request *q, const tc_model_sink *sink,
               tc_result *r, tc_str *ret_message, tc_err *err)
{
    run_model *m = user;
    tc_str messages;
    if (tc_messages_text(q->messages, q->nmessages, r, &messages, err) < 0)
        return err->code;
    size_t n = take_step(m, q, messages);
    tci_arena a;
    tci_json v;
    if (n >= m->nsteps && m->decide == NULL)
        return tc_err_set(err, TC_E_INTERNAL, "question %zu was not expected", n + 1);
    const run_step step = m->decide != NULL
                              ? (run_step){.message = m->decide(m->decide_user, messages)}
                              : m->steps[n];
    playing p = {.m = m, .sink = sink, .ctx = ctx, .step = &step};
    tci_arena_init(&a, 0);
    int rc = tci_json_parse(tci_str(step.message), TCI_JSON_KEEP_SURROGATES, &a, &v, err);
    assert_int_equal(rc, 0);
    bool is_over = stream(&p, &v) < 0;
    if (!is_over && step.is_held && step.npieces < 0)
        is_over = !wait_release(m, ctx);
    tci_arena_done(&a);
    return tc_result_dup(r, tci_str(is_over ? aborted : step.message), ret_message, err);
}

static int fetch_deferred(void *user, tc_ctx *ctx, const tc_model *model, tc_str handle,
                          tc_result *r, tc_str *ret_message, tc_err *err)
{
    run_model *m = user;
    (void)ctx;
    (void)model;
    (void)handle;
    tci_mutex_lock(&m->lock);
    size_t n = m->nasked++;
    m->npolled++;
    tci_mutex_unlock(&m->lock);
    if (n >= m->nsteps)
        return tc_err_set(err, TC_E_INTERNAL, "poll %zu was not expected", n + 1);
    return tc_result_dup(r, tci_str(m->steps[n].message), ret_message, err);
}

static int cancel_deferred(void *user, tc_ctx *ctx, const tc_model *model, tc_str handle,
                           tc_err *err)
{
    run_model *m = user;
    (void)ctx;
    (void)model;
    (void)handle;
    (void)err;
    tci_mutex_lock(&m->lock);
    m->ncancelled++;
    tci_mutex_unlock(&m->lock);
    return 0;
}

/* ---- for the test ---- */

void run_model_init(run_model *m)
{
    *m = (run_model){.models = {.size = sizeof(tc_models),
                                .user = m,
                                .get_model = get_model,
                                .ask = ask,
                                .fetch_deferred = fetch_deferred,
                                .cancel_deferred = cancel_deferred},
                     .context_window = 200000,
                     .max_tokens = 8000};
    tci_mutex_init(&m->lock);
}

void run_model_done(run_model *m)
{
    for (size_t i = 0; i < RUN_STEPS_MAX; i++) {
        tci_mem_free(m->requests[i]);
        tci_mem_free(m->options[i]);
        tci_mem_free((void *)(uintptr_t)m->steps[i].message);
    }
    tci_mutex_done(&m->lock);
}

static void add(run_model *m, run_step step)
{
    step.message = copy(tci_str(step.message));
    tci_mutex_lock(&m->lock);
    assert_true(m->nsteps < RUN_STEPS_MAX);
    m->steps[m->nsteps++] = step;
    tci_mutex_unlock(&m->lock);
}

void run_model_say(run_model *m, const char *message)
{
    add(m, (run_step){.message = message});
}

void run_model_hold(run_model *m, const char *message, int npieces)
{
    add(m, (run_step){.message = message, .is_held = true, .npieces = npieces});
}

void run_model_wait_held(run_model *m, size_t n)
{
    for (;;) {
        unsigned seen = tci_wake_count(&m->wake);
        tci_mutex_lock(&m->lock);
        bool is_there = m->nheld >= n;
        tci_mutex_unlock(&m->lock);
        if (is_there)
            return;
        tci_wake_wait(&m->wake, seen, 0);
    }
}

void run_model_release(run_model *m)
{
    tci_mutex_lock(&m->lock);
    m->nreleased++;
    tci_mutex_unlock(&m->lock);
    tci_wake_all(&m->wake);
}

size_t run_model_asked(run_model *m)
{
    tci_mutex_lock(&m->lock);
    size_t n = m->nasked;
    tci_mutex_unlock(&m->lock);
    return n;
}
