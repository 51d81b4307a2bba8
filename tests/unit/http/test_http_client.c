/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP client: against a peer that the test plays by hand, and against our own server. */
#include "http_peer.h"
#include "net/http_dial.h"
#include "net/httpd.h"
#include "net/tcp.h"

enum { MAX_PEERS = 8, PIECE = 256 * 1024 };

/* One attempt of the test's dialler: a socket pair, ready at the end of the turn. */
struct tci_http_dial {
    tci_later later;
    struct rig *rig;
    void (*done)(void *arg, tci_stream *stream, const tc_err *err);
    void *arg;
};

typedef struct rig {
    tci_loop *loop;
    tci_http_client *client;
    tci_http_dialler dialler;
    tci_httpd *httpd; /* set: connections lead there, else to peers */
    bool refuses;     /* dialling fails */
    bool never_connects;
    peer peers[MAX_PEERS];
    size_t ndials, ncancels;
    char scheme[8], host[64];
    unsigned port;
} rig;

static void on_dial_later(tci_later *later)
{
    struct tci_http_dial *d = TCI_CONTAINER(later, struct tci_http_dial, later);
    struct tci_http_dial done = *d;
    rig *r = d->rig;
    free(d);
    if (r->refuses) {
        tc_err err;
        tc_err_set(&err, TC_E_CONNECT, "nobody listens");
        done.done(done.arg, NULL, &err);
        return;
    }
    assert_true(r->ndials <= MAX_PEERS);
    peer *p = &r->peers[r->ndials - 1];
    tci_stream *stream = peer_open(p, r->loop);
    if (r->httpd != NULL) {
        tc_err err;
        tci_stream *served = NULL;
        assert_int_equal(tci_fd_stream_new(r->loop, p->fd, p->fd, true, &served, &err), 0);
        p->fd = -1;
        tci_httpd_accept_own(r->httpd, served);
    }
    done.done(done.arg, stream, NULL);
}

static int dial(tci_http_dialler *dialler, tc_str scheme, tc_str host, unsigned port,
                void (*done)(void *arg, tci_stream *stream, const tc_err *err), void *arg,
                tci_http_dial **ret_dial, tc_err *err)
{
    rig *r = TCI_CONTAINER(dialler, rig, dialler);
    struct tci_http_dial *d = calloc(1, sizeof *d);
    assert_non_null(d);
    assert_int_equal(tci_cstr(scheme, r->scheme, sizeof r->scheme, err), 0);
    assert_int_equal(tci_cstr(host, r->host, sizeof r->host, err), 0);
    r->port = port;
    r->ndials++;
    *d = (struct tci_http_dial){.later = {.cb = on_dial_later}, .rig = r, .done = done, .arg = arg};
    if (!r->never_connects)
        tci_loop_later(r->loop, &d->later);
    *ret_dial = d;
    return 0;
}

static void cancel_dial(tci_http_dialler *dialler, tci_http_dial *d)
{
    rig *r = TCI_CONTAINER(dialler, rig, dialler);
    r->ncancels++;
    tci_later_cancel(&d->later);
    free(d);
}

/* What a call brought. */
typedef struct result {
    tci_http_call *call;
    unsigned status;
    char location[64];
    tci_buf body;
    uint64_t nbody, nheads;
    bool is_done, not_sent, pauses;
    int code;
    tc_err err;
    /* a streamed request body */
    uint64_t to_send, naccepted;
    char *piece;
    bool ends_by_hand;
    /* upgrade */
    bool takes;
    tci_stream *taken;
    tci_buf rest;
} result;

static void on_head(tci_http_call *call, const tci_http_head *head)
{
    result *r = tci_http_call_user(call);
    tc_str value;
    tc_err err;
    r->nheads++;
    r->status = head->status;
    if (tci_http_head_get(head, TC_STR("location"), &value, NULL))
        assert_int_equal(tci_cstr(value, r->location, sizeof r->location, &err), 0);
    if (r->takes) {
        assert_int_equal(tci_http_call_take_stream(call, &r->taken, &r->rest, &err), 0);
        r->call = NULL;
    }
}

static void on_body(tci_http_call *call, tc_str bytes)
{
    result *r = tci_http_call_user(call);
    r->nbody += bytes.len;
    tci_buf_append_str(&r->body, bytes);
    if (r->pauses)
        tci_http_call_pause(call);
}

static void on_writable(tci_http_call *call)
{
    result *r = tci_http_call_user(call);
    bool is_pending = false;
    tc_err err;
    while (r->to_send > 0 && !is_pending) {
        size_t n = r->to_send < PIECE ? (size_t)r->to_send : PIECE;
        tci_iovec part = {r->piece, n};
        if (tci_http_call_write(call, &part, 1, &is_pending, &err) < 0) {
            assert_int_equal(err.code, TC_E_CLOSED);
            return;
        }
        r->to_send -= n;
        r->naccepted += n;
    }
    if (r->to_send == 0 && !r->ends_by_hand)
        tci_http_call_write_end(call);
}

static void on_done(tci_http_call *call, int code, bool not_sent, const tc_err *err)
{
    result *r = tci_http_call_user(call);
    assert_false(r->is_done);
    r->is_done = true;
    r->code = code;
    r->not_sent = not_sent;
    if (code < 0) {
        assert_int_equal(err->code, code);
        r->err = *err;
    }
    r->call = NULL;
}

static const tci_http_call_handler handler = {on_head, on_body, on_writable, on_done};

static rig *rig_open(tci_http_client_options options)
{
    tc_err err;
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->dialler = (tci_http_dialler){dial, cancel_dial};
    options.dialler = &r->dialler;
    assert_int_equal(tci_loop_new(&r->loop, &err), 0);
    assert_int_equal(tci_http_client_new(r->loop, &options, &r->client, &err), 0);
    for (size_t i = 0; i < MAX_PEERS; i++)
        r->peers[i].fd = -1;
    return r;
}

static void rig_close(rig *r)
{
    tci_http_client_free(r->client);
    tci_httpd_free(r->httpd);
    for (size_t i = 0; i < MAX_PEERS; i++)
        if (r->peers[i].got != NULL)
            peer_close(&r->peers[i]);
    tci_loop_turn(r->loop, 0);
    tci_loop_free(r->loop);
    free(r);
}

static result *result_new(void)
{
    result *r = calloc(1, sizeof *r);
    assert_non_null(r);
    tci_buf_init(&r->body, TCI_BUF_MAX);
    tci_buf_init(&r->rest, 4096);
    r->piece = malloc(PIECE);
    assert_non_null(r->piece);
    memset(r->piece, 'p', PIECE);
    return r;
}

static void result_free(result *r)
{
    tci_buf_done(&r->body);
    tci_buf_done(&r->rest);
    tci_stream_close(r->taken);
    free(r->piece);
    free(r);
}

static tci_http_request request_of(const char *method, const char *target)
{
    return (tci_http_request){.scheme = TC_STR("http"),
                              .host = TC_STR("a"),
                              .port = 80,
                              .method = tci_str(method),
                              .target = tci_str(target),
                              .handler = &handler};
}

static result *start(rig *r, tci_http_request request)
{
    tc_err err;
    result *res = result_new();
    request.user = res;
    assert_int_equal(tci_http_call_start(r->client, &request, &res->call, &err), 0);
    return res;
}

static result *get(rig *r, const char *target)
{
    return start(r, request_of("GET", target));
}

/* The peer of the n-th connection, once it is there. */
static peer *peer_at(rig *r, size_t n)
{
    r->peers[n].loop = r->loop;
    PEER_UNTIL(&r->peers[n], r->peers[n].got != NULL);
    return &r->peers[n];
}

static void wait_done(rig *r, result *res)
{
    peer p = {.loop = r->loop, .got = (char *)(uintptr_t) ""};
    PEER_UNTIL(&p, res->is_done);
}

#define GET_A(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

/* ---- requests as they are sent ---- */

static void test_request_heads(void **state)
{
    const tci_http_header headers[] = {{TC_STR("X-Y"), TC_STR("z")}};
    rig *r = rig_open((tci_http_client_options){0});
    TCI_UNUSED(state);
    tci_http_request q = request_of("POST", "/p?q=1");
    q.host = TC_STR("::1");
    q.port = 8080;
    q.headers = headers;
    q.nheaders = 1;
    q.body = TC_STR("body");
    result *res = start(r, q);
    peer *p = peer_at(r, 0);
    peer_expect(
        p, "POST /p?q=1 HTTP/1.1\r\nHost: [::1]:8080\r\nX-Y: z\r\nContent-Length: 4\r\n\r\nbody");
    assert_string_equal(r->host, "::1");
    assert_string_equal(r->scheme, "http");
    assert_int_equal(r->port, 8080);
    peer_send(p, "HTTP/1.1 204 No Content\r\n\r\n");
    wait_done(r, res);
    assert_int_equal(res->code, 0);
    assert_int_equal(res->status, 204);
    assert_false(res->not_sent);
    result_free(res);

    q = request_of("GET", "/");
    q.scheme = TC_STR("https");
    q.port = 443;
    res = start(r, q);
    peer_expect(peer_at(r, 1), GET_A("/"));
    tci_http_call_cancel(res->call);
    result_free(res);
    q = request_of("PUT", "/");
    res = start(r, q);
    peer_expect(peer_at(r, 2), "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    tci_http_call_cancel(res->call);
    result_free(res);
    rig_close(r);
}

static void test_requests_that_cannot_be_sent(void **state)
{
    const tci_http_header bad[][1] = {{{TC_STR("X Y"), TC_STR("z")}},
                                      {{TC_STR("X"), TC_STR("a\nb")}},
                                      {{TC_STR("Host"), TC_STR("b")}},
                                      {{TC_STR("content-length"), TC_STR("1")}},
                                      {{TC_STR("Transfer-Encoding"), TC_STR("x")}},
                                      {{TC_STR("Connection"), TC_STR("x")}}};
    rig *r = rig_open((tci_http_client_options){0});
    tci_http_call *call = NULL;
    tc_err err;
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        tci_http_request q = request_of("GET", "/");
        q.headers = bad[i];
        q.nheaders = 1;
        assert_int_equal(tci_http_call_start(r->client, &q, &call, &err), TC_E_INVALID);
    }
    tci_http_request q = request_of("GET", "/a b");
    assert_int_equal(tci_http_call_start(r->client, &q, &call, &err), TC_E_INVALID);
    q = request_of("GET", "");
    assert_int_equal(tci_http_call_start(r->client, &q, &call, &err), TC_E_INVALID);
    q = request_of("G T", "/");
    assert_int_equal(tci_http_call_start(r->client, &q, &call, &err), TC_E_INVALID);
    q = request_of("GET", "/");
    q.host = TC_STR("a\r\nX: b");
    assert_int_equal(tci_http_call_start(r->client, &q, &call, &err), TC_E_INVALID);
    q = request_of("GET", "/");
    q.scheme = TC_STR("ftp");
    assert_int_equal(tci_http_call_start(r->client, &q, &call, &err), TC_E_INVALID);
    q = request_of("GET", "/");
    q.port = 0;
    assert_int_equal(tci_http_call_start(r->client, &q, &call, &err), TC_E_INVALID);
    assert_int_equal(r->ndials, 0);
    rig_close(r);
}

/* ---- answers ---- */

static void test_answers_of_every_framing(void **state)
{
    static const struct {
        const char *in, *body;
        unsigned status;
        bool ends; /* the peer closes behind it */
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", 200, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
         "abc", 200, false},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
         "x", 200, false},
        {"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n", "", 302, false},
        {"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nsad!", "sad!", 500, false},
        {"HTTP/1.1 200 OK\r\n\r\nuntil the end", "until the end", 200, true},
        {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200, true},
    };
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        for (size_t cut = 1; cut <= strlen(cases[i].in); cut += 7) {
            rig *r = rig_open((tci_http_client_options){0});
            result *res = get(r, "/");
            peer *p = peer_at(r, 0);
            peer_expect(p, GET_A("/"));
            peer_send_bytes(p, cases[i].in, cut);
            tci_loop_turn(r->loop, 0);
            peer_send(p, cases[i].in + cut);
            if (cases[i].ends)
                tci_fd_close(&p->fd);
            wait_done(r, res);
            assert_int_equal(res->code, 0);
            assert_int_equal(res->status, cases[i].status);
            assert_int_equal(res->nheads, 1);
            assert_true(tci_str_eq(tci_buf_str(&res->body), tci_str(cases[i].body)));
            if (cases[i].status == 302)
                assert_string_equal(res->location, "/there");
            result_free(res);
            rig_close(r);
        }
    }
}

static void test_answers_to_head(void **state)
{
    rig *r = rig_open((tci_http_client_options){0});
    TCI_UNUSED(state);
    result *res = start(r, request_of("HEAD", "/"));
    peer *p = peer_at(r, 0);
    peer_expect(p, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    peer_send(p, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    wait_done(r, res);
    assert_int_equal(res->code, 0);
    result_free(res);
    res = get(r, "/next"); /* on the same connection, and with a body again */
    peer_expect(p, GET_A("/next"));
    peer_send(p, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    wait_done(r, res);
    assert_int_equal(res->nbody, 1);
    assert_int_equal(r->ndials, 1);
    result_free(res);
    rig_close(r);
}

static void test_broken_answers(void **state)
{
    static const struct {
        const char *in;
        int code;
        bool ends;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", TC_E_CLOSED, true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", TC_E_CLOSED, true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n", TC_E_CLOSED,
         true},
        {"HTTP/1.1 200 OK\r\nContent-Le", TC_E_CLOSED, true},
        {"", TC_E_CLOSED, true},
        {"HTTP/1.1 100 Continue\r\n\r\n", TC_E_CLOSED, true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", TC_E_PARSE,
         false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", TC_E_PARSE, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", TC_E_PARSE, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", TC_E_UNSUPPORTED, false},
        {"SSH-2.0-OpenSSH_9.2\r\n", TC_E_CLOSED, true},
        {"HTTP/1.1 101 Switching Protocols\r\n\r\n", TC_E_PROTOCOL, false},
    };
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        rig *r = rig_open((tci_http_client_options){0});
        result *res = get(r, "/");
        peer *p = peer_at(r, 0);
        peer_expect(p, GET_A("/"));
        peer_send(p, cases[i].in);
        if (cases[i].ends)
            tci_fd_close(&p->fd);
        wait_done(r, res);
        assert_int_equal(res->code, cases[i].code);
        assert_false(res->not_sent);
        assert_true(cases[i].ends || peer_is_at_end(p));
        result_free(res);
        rig_close(r);
    }
}

static void test_oversized_head(void **state)
{
    rig *r = rig_open((tci_http_client_options){0});
    result *res = get(r, "/");
    peer *p = peer_at(r, 0);
    TCI_UNUSED(state);
    peer_send(p, "HTTP/1.1 200 OK\r\nX: ");
    PEER_UNTIL(p, (peer_try_send(p, "xxxxxxxxxxxxxxxx", 16), res->is_done));
    assert_int_equal(res->code, TC_E_TOO_BIG);
    result_free(res);
    rig_close(r);
}

/* ---- the pool ---- */

static void answer_hello(peer *p, const char *request)
{
    peer_expect(p, request);
    peer_send(p, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
}

static void get_hello(rig *r, size_t on_peer)
{
    result *res = get(r, "/");
    answer_hello(peer_at(r, on_peer), GET_A("/"));
    wait_done(r, res);
    assert_int_equal(res->code, 0);
    result_free(res);
}

static void test_connections_are_kept(void **state)
{
    rig *r = rig_open((tci_http_client_options){0});
    TCI_UNUSED(state);
    for (int i = 0; i < 3; i++)
        get_hello(r, 0);
    assert_int_equal(r->ndials, 1);
    tci_http_client_drop_idle(r->client);
    PEER_UNTIL(&r->peers[0], peer_is_at_end(&r->peers[0]));
    get_hello(r, 1);
    rig_close(r);
}

static void test_connections_are_not_kept_when_told_so(void **state)
{
    rig *r = rig_open((tci_http_client_options){0});
    TCI_UNUSED(state);
    result *res = get(r, "/");
    peer *p = peer_at(r, 0);
    peer_expect(p, GET_A("/"));
    peer_send(p, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx");
    wait_done(r, res);
    assert_int_equal(res->code, 0);
    PEER_UNTIL(p, peer_is_at_end(p));
    result_free(res);
    /* nor after bytes nobody asked for */
    res = get(r, "/");
    p = peer_at(r, 1);
    peer_expect(p, GET_A("/"));
    peer_send(p, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n\r\n");
    wait_done(r, res);
    assert_int_equal(res->code, 0);
    PEER_UNTIL(p, peer_is_at_end(p));
    result_free(res);
    get_hello(r, 2);
    peer_send(&r->peers[2], "unasked");
    PEER_UNTIL(&r->peers[2], peer_is_at_end(&r->peers[2]));
    get_hello(r, 3);
    rig_close(r);
}

static void test_kept_connection_found_closed_is_replaced(void **state)
{
    rig *r = rig_open((tci_http_client_options){0});
    TCI_UNUSED(state);
    get_hello(r, 0);
    /* Closed while a call begins: the call's first write meets a dead socket. */
    result *res = get(r, "/again");
    tci_fd_close(&r->peers[0].fd);
    answer_hello(peer_at(r, 1), GET_A("/again"));
    wait_done(r, res);
    assert_int_equal(res->code, 0);
    assert_int_equal(r->ndials, 2);
    result_free(res);
    rig_close(r);
}

static void test_nothing_is_tried_again_once_a_byte_went_out(void **state)
{
    rig *r = rig_open((tci_http_client_options){0});
    TCI_UNUSED(state);
    get_hello(r, 0);
    result *res = get(r, "/once");
    peer_expect(&r->peers[0], GET_A("/once"));
    tci_fd_close(&r->peers[0].fd);
    wait_done(r, res);
    assert_int_equal(res->code, TC_E_CLOSED);
    assert_false(res->not_sent);
    assert_int_equal(r->ndials, 1);
    result_free(res);
    rig_close(r);
}

static void test_idle_connections_grow_old(void **state)
{
    rig *r = rig_open((tci_http_client_options){.idle_timeout_ms = 20});
    TCI_UNUSED(state);
    get_hello(r, 0);
    PEER_UNTIL(&r->peers[0], peer_is_at_end(&r->peers[0]));
    get_hello(r, 1);
    rig_close(r);
}

static void test_calls_wait_for_a_connection(void **state)
{
    rig *r = rig_open((tci_http_client_options){.max_connections = 1});
    TCI_UNUSED(state);
    result *first = get(r, "/1"), *second = get(r, "/2"), *third = get(r, "/3");
    peer *p = peer_at(r, 0);
    peer_expect(p, GET_A("/1"));
    peer_settle(p);
    assert_int_equal(r->ndials, 1);
    tci_http_call_cancel(second->call);
    assert_int_equal(second->code, TC_E_CANCELLED);
    assert_true(second->not_sent);
    peer_send(p, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    wait_done(r, first);
    answer_hello(p, GET_A("/3"));
    wait_done(r, third);
    assert_int_equal(third->code, 0);
    assert_int_equal(r->ndials, 1);
    result_free(first);
    result_free(second);
    result_free(third);
    rig_close(r);
}

static void test_a_failed_connection_lets_the_next_call_go(void **state)
{
    rig *r = rig_open((tci_http_client_options){.max_connections = 1});
    TCI_UNUSED(state);
    r->refuses = true;
    result *first = get(r, "/1"), *second = get(r, "/2");
    wait_done(r, first);
    wait_done(r, second);
    assert_int_equal(first->code, TC_E_CONNECT);
    assert_true(first->not_sent);
    assert_int_equal(second->code, TC_E_CONNECT);
    assert_int_equal(r->ndials, 2);
    result_free(first);
    result_free(second);
    rig_close(r);
}

/* ---- ends from outside ---- */

static void test_deadline_and_cancel(void **state)
{
    rig *r = rig_open((tci_http_client_options){0});
    TCI_UNUSED(state);
    tci_http_request q = request_of("GET", "/late");
    q.deadline_ns = tci_clock_mono_ns() + 1000 * 1000000; /* it is sent by then */
    result *res = start(r, q);
    peer *p = peer_at(r, 0);
    peer_expect(p, GET_A("/late"));
    wait_done(r, res);
    assert_int_equal(res->code, TC_E_TIMEOUT);
    assert_false(res->not_sent);
    PEER_UNTIL(p, peer_is_at_end(p));
    result_free(res);

    res = get(r, "/never");
    tci_http_call_cancel(res->call); /* before anything began */
    assert_true(res->is_done && res->not_sent);
    assert_int_equal(res->code, TC_E_CANCELLED);
    result_free(res);

    r->never_connects = true;
    q.deadline_ns = tci_clock_mono_ns() + 1000 * 1000000; /* it is being dialled by then */
    res = start(r, q);
    wait_done(r, res);
    assert_int_equal(res->code, TC_E_TIMEOUT);
    assert_true(res->not_sent);
    assert_int_equal(r->ncancels, 1);
    result_free(res);
    r->never_connects = false;

    res = get(r, "/cancel");
    p = peer_at(r, 2);
    peer_expect(p, GET_A("/cancel"));
    peer_send(p, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
    PEER_UNTIL(p, res->nbody == 2);
    tci_http_call_cancel(res->call);
    assert_int_equal(res->code, TC_E_CANCELLED);
    assert_false(res->not_sent);
    PEER_UNTIL(p, peer_is_at_end(p));
    result_free(res);
    rig_close(r);
}

static void test_free_ends_every_call(void **state)
{
    rig *r = rig_open((tci_http_client_options){.max_connections = 1});
    TCI_UNUSED(state);
    result *running = get(r, "/1"), *waiting = get(r, "/2");
    peer_expect(peer_at(r, 0), GET_A("/1"));
    tci_http_client_free(r->client);
    r->client = NULL;
    assert_int_equal(running->code, TC_E_CANCELLED);
    assert_false(running->not_sent);
    assert_int_equal(waiting->code, TC_E_CANCELLED);
    assert_true(waiting->not_sent);
    result_free(running);
    result_free(waiting);
    rig_close(r);
}

static void test_slow_consumer_is_waited_for(void **state)
{
    rig *r = rig_open((tci_http_client_options){0});
    result *res = get(r, "/");
    peer *p = peer_at(r, 0);
    char *data = calloc(1, 1 << 20);
    size_t nsent = 0, total = 24 << 20;
    TCI_UNUSED(state);
    assert_non_null(data);
    res->pauses = true;
    peer_expect(p, GET_A("/"));
    peer_send(p, "HTTP/1.1 200 OK\r\nContent-Length: 25165824\r\n\r\n");
    for (int i = 0; i < 200; i++) {
        nsent += peer_try_send(p, data, 1 << 20);
        tci_loop_turn(r->loop, 0);
    }
    assert_true(nsent < total / 2);
    assert_in_range(res->nbody, 1, 256 * 1024);
    while (!res->is_done) {
        size_t n = total - nsent < 1 << 20 ? total - nsent : 1 << 20;
        nsent += n > 0 ? peer_try_send(p, data, n) : 0;
        tci_loop_turn(r->loop, 1);
        tci_buf_clear(&res->body);
        if (res->call != NULL)
            tci_http_call_resume(res->call);
    }
    assert_int_equal(res->code, 0);
    assert_int_equal(res->nbody, total);
    free(data);
    result_free(res);
    rig_close(r);
}

/* ---- streamed request bodies ---- */

static void test_streamed_bodies(void **state)
{
    rig *r = rig_open((tci_http_client_options){0});
    TCI_UNUSED(state);
    tci_http_request q = request_of("POST", "/up");
    q.streams_body = true;
    q.body_length = TCI_HTTP_BODY_CHUNKED;
    result *res = result_new();
    tc_err err;
    q.user = res;
    res->to_send = 5;
    assert_int_equal(tci_http_call_start(r->client, &q, &res->call, &err), 0);
    peer *p = peer_at(r, 0);
    peer_expect(p, "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "5\r\nppppp\r\n0\r\n\r\n");
    peer_send(p, "HTTP/1.1 204 No Content\r\n\r\n");
    wait_done(r, res);
    assert_int_equal(res->code, 0);
    result_free(res);

    res = result_new();
    q.user = res;
    q.body_length = res->to_send = 5;
    assert_int_equal(tci_http_call_start(r->client, &q, &res->call, &err), 0);
    peer_expect(p, "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nppppp");
    peer_send(p, "HTTP/1.1 204 No Content\r\n\r\n");
    wait_done(r, res);
    assert_int_equal(res->code, 0);
    assert_int_equal(r->ndials, 1);
    result_free(res);

    res = result_new(); /* too short: the peer must not take it for whole */
    q.user = res;
    q.body_length = 6;
    res->to_send = 5;
    assert_int_equal(tci_http_call_start(r->client, &q, &res->call, &err), 0);
    wait_done(r, res);
    assert_int_equal(res->code, TC_E_INVALID);
    PEER_UNTIL(p, peer_is_at_end(p));
    peer_expect(p, "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nppppp");
    result_free(res);
    rig_close(r);
}

static void test_slow_server_is_waited_for(void **state)
{
    rig *r = rig_open((tci_http_client_options){0});
    uint64_t total = 24 << 20, ntaken = 0;
    tc_err err;
    TCI_UNUSED(state);
    tci_http_request q = request_of("POST", "/up");
    q.streams_body = true;
    q.body_length = total;
    result *res = result_new();
    q.user = res;
    res->to_send = total;
    assert_int_equal(tci_http_call_start(r->client, &q, &res->call, &err), 0);
    peer *p = peer_at(r, 0);
    PEER_UNTIL(p, res->naccepted > 0);
    for (int i = 0; i < 50; i++)
        tci_loop_turn(r->loop, 1);
    assert_true(res->naccepted < total / 4);
    PEER_UNTIL(p, (ntaken += peer_read(p, 1 << 20), p->ngot = 0, ntaken >= total));
    peer_send(p, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    wait_done(r, res);
    assert_int_equal(res->code, 0);
    result_free(res);
    rig_close(r);
}

static void test_answer_before_the_body_is_sent(void **state)
{
    rig *r = rig_open((tci_http_client_options){0});
    tc_err err;
    TCI_UNUSED(state);
    tci_http_request q = request_of("POST", "/up");
    q.streams_body = true;
    q.body_length = TCI_HTTP_BODY_CHUNKED;
    result *res = result_new();
    q.user = res;
    res->to_send = 64 << 20;
    assert_int_equal(tci_http_call_start(r->client, &q, &res->call, &err), 0);
    peer *p = peer_at(r, 0);
    PEER_UNTIL(p, res->naccepted > 0);
    peer_send(p, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
    wait_done(r, res);
    assert_int_equal(res->code, 0);
    assert_int_equal(res->status, 413);
    assert_int_equal(res->nbody, 2);
    PEER_UNTIL(p, (p->ngot = 0, peer_is_at_end(p))); /* not kept */
    result_free(res);
    rig_close(r);
}

/* ---- upgrade ---- */

static void test_connection_taken_for_another_protocol(void **state)
{
    const tci_http_header headers[] = {{TC_STR("Upgrade"), TC_STR("websocket")},
                                       {TC_STR("Connection"), TC_STR("Upgrade")}};
    rig *r = rig_open((tci_http_client_options){0});
    TCI_UNUSED(state);
    tci_http_request q = request_of("GET", "/ws");
    q.headers = headers;
    q.nheaders = 2;
    q.takes_upgrade = true;
    result *res = start(r, q);
    res->takes = true;
    peer *p = peer_at(r, 0);
    peer_expect(p,
                "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    peer_send(p, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                 "Connection: Upgrade\r\n\r\nfirst");
    PEER_UNTIL(p, res->taken != NULL);
    assert_false(res->is_done);
    assert_true(tci_str_eq(tci_buf_str(&res->rest), TC_STR("first")));
    result_free(res);
    /* a refusal is an ordinary answer */
    res = start(r, q);
    p = peer_at(r, 1);
    peer_send(p, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    wait_done(r, res);
    assert_int_equal(res->code, 0);
    assert_int_equal(res->status, 403);
    result_free(res);
    rig_close(r);
}

/* ---- with our own server ---- */

/* Fixed answers after the whole body: its length. */
static void cnt_head(tci_httpd_req *req)
{
    tci_httpd_set_data(req, NULL);
}

static void cnt_body(tci_httpd_req *req, tc_str bytes)
{
    uint64_t *count = tci_httpd_user(tci_httpd_of(req));
    *count += bytes.len;
}

static void cnt_end(tci_httpd_req *req)
{
    uint64_t *count = tci_httpd_user(tci_httpd_of(req));
    char text[32];
    tc_err err;
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)*count); /* fits */
    *count = 0;
    assert_int_equal(tci_httpd_respond(req, 200, NULL, 0, tci_str(text), &err), 0);
}

static void test_uploads_to_our_server(void **state)
{
    static const tci_httpd_handler counting = {
        .on_head = cnt_head, .on_body = cnt_body, .on_end = cnt_end};
    uint64_t count = 0;
    rig *r = rig_open((tci_http_client_options){0});
    tci_httpd_options o = {.handler = &counting, .user = &count};
    tc_err err;
    TCI_UNUSED(state);
    assert_int_equal(tci_httpd_new(r->loop, &o, &r->httpd, &err), 0);
    for (int i = 0; i < 4; i++) {
        tci_http_request q = request_of("POST", "/");
        q.streams_body = true;
        result *res = result_new();
        q.user = res;
        res->to_send = 16 << 20;
        q.body_length = i % 2 ? TCI_HTTP_BODY_CHUNKED : res->to_send;
        assert_int_equal(tci_http_call_start(r->client, &q, &res->call, &err), 0);
        wait_done(r, res);
        assert_int_equal(res->code, 0);
        assert_true(tci_str_eq(tci_buf_str(&res->body), TC_STR("16777216")));
        result_free(res);
    }
    assert_int_equal(r->ndials, 1);
    rig_close(r);
}

typedef struct source {
    char *piece;
    uint64_t left;
} source;

static void src_more(tci_httpd_req *req)
{
    source *s = tci_httpd_user(tci_httpd_of(req));
    bool is_pending = false;
    tc_err err;
    while (s->left > 0 && !is_pending) {
        tci_iovec part = {s->piece, PIECE};
        if (tci_httpd_stream_write(req, &part, 1, &is_pending, &err) < 0)
            return;
        s->left -= PIECE;
    }
    if (s->left == 0 && !is_pending)
        tci_httpd_stream_end(req);
}

static void src_head(tci_httpd_req *req)
{
    tc_err err;
    assert_int_equal(tci_httpd_stream_start(req, 200, NULL, 0, TCI_HTTPD_CHUNKED, &err), 0);
    src_more(req);
}

static void test_downloads_from_our_server(void **state)
{
    static const tci_httpd_handler streaming = {.on_head = src_head, .on_writable = src_more};
    rig *r = rig_open((tci_http_client_options){0});
    source s = {.piece = malloc(PIECE), .left = 64 << 20};
    tci_httpd_options o = {.handler = &streaming, .user = &s};
    tc_err err;
    TCI_UNUSED(state);
    assert_non_null(s.piece);
    memset(s.piece, 'q', PIECE);
    assert_int_equal(tci_httpd_new(r->loop, &o, &r->httpd, &err), 0);
    result *res = get(r, "/");
    peer p = {.loop = r->loop, .got = (char *)(uintptr_t) ""};
    PEER_UNTIL(&p, (tci_buf_clear(&res->body), res->is_done));
    assert_int_equal(res->code, 0);
    assert_int_equal(res->nbody, 64 << 20);
    result_free(res);
    free(s.piece);
    rig_close(r);
}

/* ---- over TCP ---- */

static void on_accept(void *user, tci_stream *stream, const tci_addr *peer_addr)
{
    assert_true(tci_addr_is_loopback(peer_addr));
    tci_httpd_accept_own(user, stream);
}

static void test_ordinary_dialler(void **state)
{
    static const tci_httpd_handler counting = {
        .on_head = cnt_head, .on_body = cnt_body, .on_end = cnt_end};
    uint64_t count = 0;
    tc_err err;
    tci_addr at;
    tci_tcp_listener *listener = NULL;
    tci_http_net_dialler dialler;
    rig *r = rig_open((tci_http_client_options){0});
    tci_httpd_options so = {.handler = &counting, .user = &count};
    TCI_UNUSED(state);
    assert_int_equal(tci_httpd_new(r->loop, &so, &r->httpd, &err), 0);
    assert_int_equal(tci_addr_parse(TC_STR("127.0.0.1:0"), &at, &err), 0);
    assert_int_equal(tci_tcp_listener_open(r->loop, &at, 0, on_accept, r->httpd, &listener, &err),
                     0);
    tci_http_net_dialler_init(&dialler, r->loop, NULL, true, 0);
    tci_http_client_free(r->client);
    tci_http_client_options co = {.dialler = &dialler.base};
    assert_int_equal(tci_http_client_new(r->loop, &co, &r->client, &err), 0);
    tci_http_request q = request_of("POST", "/");
    q.host = TC_STR("127.0.0.1");
    q.port = tci_tcp_listener_addr(listener).port;
    q.body = TC_STR("four");
    for (int i = 0; i < 3; i++) {
        result *res = start(r, q);
        wait_done(r, res);
        assert_int_equal(res->code, 0);
        assert_true(tci_str_eq(tci_buf_str(&res->body), TC_STR("4")));
        result_free(res);
    }
    assert_int_equal(tci_httpd_nconnections(r->httpd), 1);
    q.scheme = TC_STR("https"); /* not set up */
    result *res = start(r, q);
    wait_done(r, res);
    assert_int_equal(res->code, TC_E_INVALID);
    assert_true(res->not_sent);
    result_free(res);
    tci_tcp_listener_close(listener);
    q.scheme = TC_STR("http");
    tci_http_client_drop_idle(r->client);
    res = start(r, q);
    wait_done(r, res);
    assert_int_equal(res->code, TC_E_CONNECT);
    assert_true(res->not_sent);
    result_free(res);
    rig_close(r);
}

/* ---- without memory ---- */

/* Whatever fails, every call and every request ends once. */
typedef struct ends {
    int ncalls, ncalls_done, nrequests, nrequests_done;
    tci_loop *loop;
} ends;

static void poor_head(tci_httpd_req *req)
{
    ends *e = tci_httpd_user(tci_httpd_of(req));
    e->nrequests++;
}

static void poor_end(tci_httpd_req *req)
{
    bool is_pending = false;
    tci_iovec part = {"piece", 5};
    tc_err err;
    if (tci_httpd_stream_start(req, 200, NULL, 0, TCI_HTTPD_CHUNKED, &err) < 0)
        return;
    if (tci_httpd_stream_write(req, &part, 1, &is_pending, &err) < 0)
        return;
    tci_httpd_stream_end(req);
}

static void poor_done(tci_httpd_req *req, bool is_whole)
{
    ends *e = tci_httpd_user(tci_httpd_of(req));
    TCI_UNUSED(is_whole);
    e->nrequests_done++;
}

static void poor_call_done(tci_http_call *call, int code, bool not_sent, const tc_err *err)
{
    ends *e = tci_http_call_user(call);
    TCI_UNUSED(code);
    TCI_UNUSED(not_sent);
    TCI_UNUSED(err);
    e->ncalls_done++;
}

typedef struct poor_dialler {
    tci_http_dialler base;
    tci_loop *loop;
    tci_httpd *httpd;
} poor_dialler;

struct poor_dial {
    tci_later later;
    poor_dialler *dialler;
    void (*done)(void *arg, tci_stream *stream, const tc_err *err);
    void *arg;
};

static void on_poor_later(tci_later *later)
{
    struct poor_dial *d = TCI_CONTAINER(later, struct poor_dial, later);
    struct poor_dial copy = *d;
    int fds[2];
    tc_err err;
    tci_stream *ours = NULL, *theirs = NULL;
    free(d);
    assert_int_equal(tci_socket_pair(fds, &err), 0);
    int rc = tci_fd_stream_new(copy.dialler->loop, fds[0], fds[0], true, &ours, &err);
    if (rc < 0)
        tci_fd_close(&fds[0]);
    rc = rc < 0 ? rc : tci_fd_stream_new(copy.dialler->loop, fds[1], fds[1], true, &theirs, &err);
    if (rc < 0) {
        tci_fd_close(&fds[1]);
        tci_stream_close(ours);
        copy.done(copy.arg, NULL, &err);
        return;
    }
    tci_httpd_accept_own(copy.dialler->httpd, theirs);
    copy.done(copy.arg, ours, NULL);
}

static int poor_dial_start(tci_http_dialler *dialler, tc_str scheme, tc_str host, unsigned port,
                           void (*done)(void *arg, tci_stream *stream, const tc_err *err),
                           void *arg, tci_http_dial **ret_dial, tc_err *err)
{
    poor_dialler *p = TCI_CONTAINER(dialler, poor_dialler, base);
    struct poor_dial *d = calloc(1, sizeof *d);
    TCI_UNUSED(scheme);
    TCI_UNUSED(host);
    TCI_UNUSED(port);
    TCI_UNUSED(err);
    assert_non_null(d);
    *d = (struct poor_dial){.later = {.cb = on_poor_later}, .dialler = p, .done = done, .arg = arg};
    tci_loop_later(p->loop, &d->later);
    *ret_dial = (tci_http_dial *)(void *)d;
    return 0;
}

static void poor_dial_cancel(tci_http_dialler *dialler, tci_http_dial *dialled)
{
    struct poor_dial *d = (struct poor_dial *)(void *)dialled;
    TCI_UNUSED(dialler);
    tci_later_cancel(&d->later);
    free(d);
}

/* Two calls on one connection, with the n-th allocation failing and all after it. Returns how many
 * allocations there were. */
static size_t run_poor(size_t n)
{
    static const tci_httpd_handler serving = {
        .on_head = poor_head, .on_end = poor_end, .on_done = poor_done};
    static const tci_http_call_handler calling = {.on_done = poor_call_done};
    ends e = {0};
    tc_err err;
    poor_dialler dialler = {.base = {poor_dial_start, poor_dial_cancel}};
    tci_httpd_options so = {.handler = &serving, .user = &e, .server = "tc/1"};
    tci_http_client_options co = {.dialler = &dialler.base};
    tci_http_client *client = NULL;
    assert_int_equal(tci_loop_new(&dialler.loop, &err), 0);
    tci_mem_fail_at(n);
    if (tci_httpd_new(dialler.loop, &so, &dialler.httpd, &err) == 0 &&
        tci_http_client_new(dialler.loop, &co, &client, &err) == 0) {
        for (int i = 0; i < 2; i++) {
            tci_http_request q = request_of("POST", "/");
            tci_http_call *call = NULL;
            q.handler = &calling;
            q.user = &e;
            q.body = TC_STR("body");
            q.deadline_ns = tci_clock_mono_ns() + (int64_t)PEER_PATIENCE_MS * 1000000;
            if (tci_http_call_start(client, &q, &call, &err) == 0)
                e.ncalls++;
            while (e.ncalls_done < e.ncalls)
                tci_loop_turn(dialler.loop, 5);
        }
    }
    size_t count = tci_mem_count();
    tci_http_client_free(client);
    tci_httpd_free(dialler.httpd);
    tci_mem_fail_at(0);
    assert_int_equal(e.ncalls, e.ncalls_done);
    assert_int_equal(e.nrequests, e.nrequests_done);
    assert_true(n > 0 || e.nrequests == 2);
    tci_loop_turn(dialler.loop, 0);
    tci_loop_free(dialler.loop);
    return count;
}

static void test_every_allocation_may_fail(void **state)
{
    TCI_UNUSED(state);
    size_t count = run_poor(0);
    assert_in_range(count, 5, 500);
    for (size_t n = 1; n <= count; n++)
        (void)run_poor(n); /* the count differs when one fails */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_ordinary_dialler),
        cmocka_unit_test(test_request_heads),
        cmocka_unit_test(test_requests_that_cannot_be_sent),
        cmocka_unit_test(test_answers_of_every_framing),
        cmocka_unit_test(test_answers_to_head),
        cmocka_unit_test(test_broken_answers),
        cmocka_unit_test(test_oversized_head),
        cmocka_unit_test(test_connections_are_kept),
        cmocka_unit_test(test_connections_are_not_kept_when_told_so),
        cmocka_unit_test(test_kept_connection_found_closed_is_replaced),
        cmocka_unit_test(test_nothing_is_tried_again_once_a_byte_went_out),
        cmocka_unit_test(test_idle_connections_grow_old),
        cmocka_unit_test(test_calls_wait_for_a_connection),
        cmocka_unit_test(test_a_failed_connection_lets_the_next_call_go),
        cmocka_unit_test(test_deadline_and_cancel),
        cmocka_unit_test(test_free_ends_every_call),
        cmocka_unit_test(test_slow_consumer_is_waited_for),
        cmocka_unit_test(test_streamed_bodies),
        cmocka_unit_test(test_slow_server_is_waited_for),
        cmocka_unit_test(test_answer_before_the_body_is_sent),
        cmocka_unit_test(test_connection_taken_for_another_protocol),
        cmocka_unit_test(test_uploads_to_our_server),
        cmocka_unit_test(test_downloads_from_our_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
