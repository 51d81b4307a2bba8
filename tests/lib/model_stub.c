/* SPDX-License-Identifier: Apache-2.0
 *
 * The stub: one thread, one connection at a time. Leaves the content of replies to the tests. Invariant:
 * requests are complete before they are counted. */
#include "model_stub.h"

#include "base/json.h"
#include "base/num.h"
#include "plat/socket.h"
#include "plat/thread.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { REQUESTS_MAX = 512 };

typedef struct request {
    tci_buf bytes;
    size_t head_len;
} request;

struct model_stub {
    const stub_reply *replies;
    size_t nreplies;
    int listen_fd;
    int bell[2];
    char url[64];
    tci_thread *thread;
    tci_mutex lock;
    tci_wake wake;
    request requests[REQUESTS_MAX];
    size_t nrequests;
    size_t ngo; /* pauses that are over */
    atomic_bool is_over;
};

/* ---- strictness ---- */

static tc_str text_of(const tci_json *v, const char *key)
{
    tc_str s = {NULL, 0};
    const tci_json *m = tci_json_get(v, tci_str(key));
    if (m != NULL)
        (void)tci_json_as_str(m, &s);
    return s;
}

/* The results that follow message at: each call of it has one, and no other is there. */
static const char *check_calls(const tci_json *messages, uint32_t at, uint32_t *ret_next)
{
    const tci_json *calls = tci_json_get(&messages->u.items[at], TC_STR("tool_calls"));
    uint32_t ncalls = calls != NULL && calls->kind == TCI_JSON_ARRAY ? calls->count : 0;
    bool seen[256] = {false};
    uint32_t i = at + 1;
    for (; i < messages->count; i++) {
        const tci_json *m = &messages->u.items[i];
        if (!tci_str_eq(text_of(m, "role"), TC_STR("tool")))
            break;
        uint32_t k = 0;
        while (k < ncalls &&
               !tci_str_eq(text_of(&calls->u.items[k], "id"), text_of(m, "tool_call_id")))
            k++;
        if (k == ncalls)
            return "a tool message answers no call";
        if (k < 256 && seen[k])
            return "a call is answered twice";
        if (k < 256)
            seen[k] = true;
    }
    for (uint32_t k = 0; k < ncalls; k++) {
        for (uint32_t n = 0; n < k; n++) {
            if (tci_str_eq(text_of(&calls->u.items[k], "id"), text_of(&calls->u.items[n], "id")))
                return "two calls of one id";
        }
        if (k < 256 && !seen[k])
            return "a call is not answered";
    }
    *ret_next = i;
    return NULL;
}

const char *model_stub_complaint(tc_str body)
{
    tci_arena a;
    tci_json v;
    tc_err err;
    const char *complaint = NULL;
    tci_arena_init(&a, 0);
    if (tci_json_parse(body, TCI_JSON_KEEP_SURROGATES, &a, &v, &err) < 0)
        complaint = "the request is not JSON";
    const tci_json *messages = complaint == NULL ? tci_json_get(&v, TC_STR("messages")) : NULL;
    for (uint32_t i = 0; messages != NULL && i < messages->count && complaint == NULL;) {
        const tci_json *m = &messages->u.items[i];
        if (tci_str_eq(text_of(m, "role"), TC_STR("tool")))
            complaint = "a tool message follows no call";
        else if (tci_json_get(m, TC_STR("tool_calls")) != NULL)
            complaint = check_calls(messages, i, &i);
        else
            i++;
    }
    tci_arena_done(&a);
    return complaint;
}

/* ---- sending and receiving ---- */

/* false: the stub is stopped, or the client went away. */
static bool wait_for(model_stub *s, int fd, bool to_read)
{
    tci_fd_event events[2] = {{.fd = fd, .want_read = to_read, .want_write = !to_read},
                              {.fd = s->bell[0], .want_read = true}};
    tc_err err;
    while (!atomic_load(&s->is_over)) {
        if (tci_fd_wait(events, 2, -1, &err) < 0)
            return false;
        if (events[0].can_read || events[0].can_write)
            return true;
        if (events[1].can_read)
            return false;
    }
    return false;
}

static bool send_all(model_stub *s, int fd, tc_str bytes)
{
    tc_err err;
    while (bytes.len > 0) {
        size_t n;
        tci_fd_part part = {(void *)(uintptr_t)bytes.ptr, bytes.len};
        if (tci_socket_send(fd, &part, 1, &n, &err) < 0)
            return false;
        bytes = tci_str_sub(bytes, n, bytes.len);
        if (bytes.len > 0 && !wait_for(s, fd, false))
            return false;
    }
    return true;
}

static uint64_t length_of(tc_str head)
{
    tc_str line;
    while (tci_str_split(&head, '\n', &line)) {
        tc_str name = tci_str_sub(line, 0, 15);
        uint64_t n;
        tc_err err;
        tc_str value = tci_str_trim(tci_str_sub(line, 15, line.len));
        if (value.len > 0 && value.ptr[value.len - 1] == '\r')
            value.len--;
        if (tci_str_eq_nocase(name, TC_STR("content-length:")) && tci_num_u64(value, &n, &err) == 0)
            return n;
    }
    return 0;
}

/* One whole request; false: there is none any more. */
static bool receive(model_stub *s, int fd, request *r)
{
    tc_err err;
    while (true) {
        size_t at = tci_str_find(tci_buf_str(&r->bytes), TC_STR("\r\n\r\n"));
        if (at < r->bytes.len) {
            r->head_len = at + 4;
            if (r->bytes.len - r->head_len >= length_of(tci_str_sub(tci_buf_str(&r->bytes), 0, at)))
                return true;
        }
        char *room = tci_buf_reserve(&r->bytes, 65536);
        size_t n = 0;
        if (!wait_for(s, fd, true) || tci_fd_read(fd, room, 65536, &n, &err) < 0)
            return false;
        tci_buf_commit(&r->bytes, n);
    }
}

static bool send_pieces(model_stub *s, int fd, tc_str body, size_t chunk)
{
    size_t piece = chunk > 0 ? chunk : body.len;
    for (size_t at = 0; at < body.len; at += piece) {
        tc_str part = tci_str_sub(body, at, piece);
        char size[32];
        (void)snprintf(size, sizeof size, "%zx\r\n", part.len);
        if (!send_all(s, fd, tci_str(size)) || !send_all(s, fd, part) ||
            !send_all(s, fd, TC_STR("\r\n")))
            return false;
    }
    return true;
}

/* false: the stub is stopped. */
static bool wait_go(model_stub *s)
{
    while (!atomic_load(&s->is_over)) {
        unsigned seen = tci_wake_count(&s->wake);
        tci_mutex_lock(&s->lock);
        bool can_go = s->ngo > 0;
        s->ngo -= can_go ? 1 : 0;
        tci_mutex_unlock(&s->lock);
        if (can_go)
            return true;
        if (!atomic_load(&s->is_over)) /* stop says so before it wakes */
            tci_wake_wait(&s->wake, seen, 0);
    }
    return false;
}

static bool send_body(model_stub *s, int fd, const stub_reply *reply)
{
    tc_str body = tci_str(reply->body);
    tc_str begin = tci_str_sub(body, 0, reply->pause_at);
    if (begin.len > 0 && (!send_pieces(s, fd, begin, reply->chunk) || !wait_go(s)))
        return false;
    if (!send_pieces(s, fd, tci_str_sub(body, begin.len, body.len), reply->chunk))
        return false;
    if (reply->is_silent)
        return wait_for(s, fd, true) && false;
    return !reply->is_cut && send_all(s, fd, TC_STR("0\r\n\r\n"));
}

static bool answer(model_stub *s, int fd, const stub_reply *reply)
{
    char head[1024];
    int status = reply->status != 0 ? reply->status : 200;
    (void)snprintf(head, sizeof head,
                   "HTTP/1.1 %d Told\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n%s\r\n",
                   status, status == 200 ? "text/event-stream" : "application/json",
                   reply->headers != NULL ? reply->headers : "");
    return send_all(s, fd, tci_str(head)) && send_body(s, fd, reply);
}

static void serve(model_stub *s, int fd)
{
    while (s->nrequests < REQUESTS_MAX) {
        request *r = &s->requests[s->nrequests];
        tci_buf_init(&r->bytes, TCI_BUF_MAX);
        if (!receive(s, fd, r)) {
            tci_buf_done(&r->bytes);
            return;
        }
        size_t i = s->nrequests < s->nreplies ? s->nrequests : s->nreplies - 1;
        const char *complaint =
            model_stub_complaint(tci_str_sub(tci_buf_str(&r->bytes), r->head_len, r->bytes.len));
        char refusal[256];
        (void)snprintf(refusal, sizeof refusal, "{\"error\":{\"message\":\"strict: %s\"}}",
                       complaint != NULL ? complaint : "");
        const stub_reply refused = {.status = 400, .body = refusal};
        tci_mutex_lock(&s->lock);
        s->nrequests++;
        tci_mutex_unlock(&s->lock);
        tci_wake_all(&s->wake);
        if (!answer(s, fd, complaint != NULL ? &refused : &s->replies[i]))
            return;
    }
}

static void run(void *arg)
{
    model_stub *s = arg;
    tc_err err;
    while (wait_for(s, s->listen_fd, true)) {
        int fd;
        tci_addr peer;
        if (tci_socket_accept(s->listen_fd, &fd, &peer, &err) < 0 || fd < 0)
            continue;
        serve(s, fd);
        tci_fd_close(&fd);
    }
}

model_stub *model_stub_start(const stub_reply *replies, size_t nreplies)
{
    model_stub *s = tci_new(model_stub);
    assert_non_null(s);
    tc_err err;
    tci_addr at = {.family = TCI_ADDR_IPV4, .ip = {127, 0, 0, 1}};
    s->replies = replies;
    s->nreplies = nreplies;
    tci_mutex_init(&s->lock);
    assert_int_equal(tci_fd_pipe(s->bell, &err), 0);
    assert_int_equal(tci_socket_listen(&at, 16, &s->listen_fd, &err), 0);
    assert_int_equal(tci_socket_local_addr(s->listen_fd, &at, &err), 0);
    (void)snprintf(s->url, sizeof s->url, "http://127.0.0.1:%u", at.port);
    assert_int_equal(tci_thread_new(run, s, 0, &s->thread, &err), 0);
    return s;
}

const char *model_stub_url(const model_stub *s)
{
    return s->url;
}

size_t model_stub_count(model_stub *s)
{
    tci_mutex_lock(&s->lock);
    size_t n = s->nrequests;
    tci_mutex_unlock(&s->lock);
    return n;
}

tc_str model_stub_head(model_stub *s, size_t i)
{
    return tci_str_sub(tci_buf_str(&s->requests[i].bytes), 0, s->requests[i].head_len);
}

tc_str model_stub_body(model_stub *s, size_t i)
{
    const request *r = &s->requests[i];
    return tci_str_sub(tci_buf_str(&r->bytes), r->head_len, r->bytes.len);
}

void model_stub_await(model_stub *s, size_t count)
{
    while (true) {
        unsigned seen = tci_wake_count(&s->wake);
        if (model_stub_count(s) >= count)
            return;
        tci_wake_wait(&s->wake, seen, 0);
    }
}

void model_stub_go(model_stub *s)
{
    tci_mutex_lock(&s->lock);
    s->ngo++;
    tci_mutex_unlock(&s->lock);
    tci_wake_all(&s->wake);
}

void model_stub_stop(model_stub *s)
{
    tc_err err;
    atomic_store(&s->is_over, true);
    tci_wake_all(&s->wake);
    assert_int_equal(tci_fd_write_all(s->bell[1], "", 1, &err), 0);
    tci_thread_join(s->thread);
    for (size_t i = 0; i < s->nrequests; i++)
        tci_buf_done(&s->requests[i].bytes);
    tci_fd_close(&s->listen_fd);
    tci_fd_close(&s->bell[0]);
    tci_fd_close(&s->bell[1]);
    tci_mutex_done(&s->lock);
    tci_free(s);
}
