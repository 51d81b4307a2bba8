/* SPDX-License-Identifier: Apache-2.0
 *
 * A model server for tests, on loopback: it answers the n-th request with the n-th reply, byte for byte
 * as told, keeps what it was asked, and refuses transcripts that a strict server would. */
#ifndef TEST_MODEL_STUB_H
#define TEST_MODEL_STUB_H

#include "base/str.h"

/* One reply.
 *   status       0: 200
 *   headers      lines to add, each with "\r\n"; NULL: none
 *   body         an event stream for status 200, else JSON
 *   chunk        bytes a piece; 0: all at once
 *   is_cut       the connection ends before the body does
 *   is_silent    the body is sent, and then nothing until the client goes away
 *   pause_at     so many bytes of the body, and then nothing until model_stub_go; 0: no pause */
typedef struct stub_reply {
    int status;
    const char *headers;
    const char *body;
    size_t chunk;
    bool is_cut, is_silent;
    size_t pause_at;
} stub_reply;

typedef struct model_stub model_stub;

/* The last reply repeats. replies are borrowed. Asserts that it works. */
model_stub *model_stub_start(const stub_reply *replies, size_t nreplies);
/* "http://127.0.0.1:PORT" */
const char *model_stub_url(const model_stub *s);
/* What was asked so far; heads and bodies live until stop. */
size_t model_stub_count(model_stub *s);
tc_str model_stub_head(model_stub *s, size_t i);
tc_str model_stub_body(model_stub *s, size_t i);
/* Wait until so many requests have come. */
void model_stub_await(model_stub *s, size_t count);
/* Go on after one pause, now or when it comes. */
void model_stub_go(model_stub *s);
void model_stub_stop(model_stub *s);

/* NULL, or what a strict server would say against a Chat Completions transcript: a call without exactly one
 * result right after it, a result without a call, two calls of one id in one message. For a caller's own
 * asserts too. */
const char *model_stub_complaint(tc_str body);

#endif
