/* SPDX-License-Identifier: Apache-2.0
 *
 * One question to a stub, and what came of it. */
#ifndef TEST_LLM_ASK_H
#define TEST_LLM_ASK_H

#include "base/json_tree.h"
#include "model_stub.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <telechir/model.h>
#include <cmocka.h>

/* What the sink was told, put together again. */
typedef struct told {
    tci_buf text; /* of all TEXT events */
    size_t nblocks, nended, nevents;
    size_t stop_after; /* events; 0: never */
} told;

static inline int on_told(void *user, const tc_model_event *event, tc_err *err)
{
    told *t = user;
    t->nevents++;
    if (event->type == TC_MODEL_TEXT)
        tci_buf_append_str(&t->text, event->text);
    t->nblocks += event->type == TC_MODEL_BLOCK;
    t->nended += event->type == TC_MODEL_BLOCK_END;
    if (t->stop_after > 0 && t->nevents >= t->stop_after)
        return tc_err_set(err, TC_E_CANCELLED, "enough");
    return 0;
}

typedef struct asked {
    tc_models *models;
    model_stub *stub;
    tc_result *r;
    tc_str message;
    const tc_json *v;
    told told;
} asked;

typedef struct question {
    const char *provider;
    const stub_reply *replies;
    size_t nreplies;
    const char *messages; /* NULL: one of the user */
    uint64_t max_retries;
    tc_ctx *ctx;
    tc_model facts;
    const char *reasoning;
} question;

static inline asked ask(const question *q)
{
    asked a = {0};
    tc_err err;
    tc_model_request request = {.size = sizeof request};
    tci_buf_init(&a.told.text, TCI_BUF_MAX);
    a.stub = model_stub_start(q->replies, q->nreplies);
    tc_models_options options = {
        .size = sizeof options, .base_url = tci_str(model_stub_url(a.stub)), .facts = q->facts};
    assert_int_equal(tc_models_open(&options, &a.models, &err), 0);
    assert_int_equal(tc_result_new(&a.r, &err), 0);
    assert_int_equal(a.models->get_model(a.models->user, tci_str(q->provider), TC_STR("test-1"),
                                         a.r, &request.model, &err),
                     0);
    tc_str messages = q->messages != NULL
                          ? tci_str(q->messages)
                          : TC_STR("[{\"role\":\"user\",\"content\":\"hi\",\"timestamp\":1}]");
    assert_int_equal(tc_messages_parse(messages, a.r, &request.messages, &request.nmessages, &err),
                     0);
    request.max_retries = q->max_retries;
    request.reasoning = tci_str(q->reasoning);
    tc_model_sink sink = {.on_event = on_told, .user = &a.told};
    assert_int_equal(a.models->ask(a.models->user, q->ctx, &request, &sink, a.r, &a.message, &err),
                     0);
    assert_int_equal(tc_json_parse(a.r, a.message, &a.v, &err), 0);
    return a;
}

static inline void asked_done(asked *a)
{
    tc_models_close(a->models);
    model_stub_stop(a->stub);
    tc_result_free(a->r);
    tci_buf_done(&a->told.text);
}

/* The text at a JSON pointer of the message is... */
static inline void assert_at(const asked *a, const char *pointer, const char *expected)
{
    tc_str s = {NULL, 0};
    const tc_json *v = tc_json_find(a->v, pointer);
    if (!tc_json_as_str(v, &s) || !tci_str_eq(s, tci_str(expected))) {
        print_error("%s is '%.*s', expected '%s', in %.*s\n", pointer, TC_STR_ARG(s), expected,
                    TC_STR_ARG(a->message));
        fail();
    }
}

static inline void assert_number(const asked *a, const char *pointer, uint64_t expected)
{
    uint64_t n = 0;
    assert_true(tc_json_as_u64(tc_json_find(a->v, pointer), &n));
    assert_int_equal(n, expected);
}

static inline bool contains(tc_str s, const char *part)
{
    return tci_str_find(s, tci_str(part)) < s.len;
}

#endif
