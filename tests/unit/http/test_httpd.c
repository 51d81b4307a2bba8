/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server over a socket whose other end the test holds. */
#include "http_peer.h"
#include "net/httpd.h"

enum { ECHO_MAX = 1 << 20, PIECE = 256 * 1024 };

/* What the handlers of these tests know. */
typedef struct app {
    tci_loop *loop;
    tci_httpd *httpd;
    tci_buf body;        /* of the request being read */
    uint64_t nbody;      /* its bytes */
    tci_httpd_req *held; /* a request that waits for the test */
    tc_str held_bytes;   /* what it was given when it paused */
    int ndone, nwhole, nheads, nends;
    char *piece; /* what /stream sends over and over */
    uint64_t stream_left;
    int64_t body_within_ms; /* of every body; 0: whenever it likes */
    uint64_t naccepted;     /* bytes that stream_write took without asking to wait */
    bool is_ended, is_drained, drain_is_clean;
    tci_stream *taken;
    tci_buf rest;
} app;

static app *app_of(tci_httpd_req *req)
{
    return tci_httpd_user(tci_httpd_of(req));
}

static bool is_at(tci_httpd_req *req, const char *target)
{
    return tci_str_eq(tci_httpd_head(req)->target, tci_str(target));
}

static void answer(tci_httpd_req *req, unsigned status, const char *text)
{
    tc_err err;
    assert_int_equal(tci_httpd_respond(req, status, NULL, 0, tci_str(text), &err), 0);
}

/* As much as goes without waiting. */
static void pump(tci_httpd_req *req)
{
    app *a = app_of(req);
    bool is_pending = false;
    tc_err err;
    while (a->stream_left > 0 && !is_pending) {
        size_t n = a->stream_left < PIECE ? (size_t)a->stream_left : PIECE;
        tci_iovec parts[2] = {{a->piece, n / 2}, {a->piece + n / 2, n - n / 2}};
        if (tci_httpd_stream_write(req, parts, 2, &is_pending, &err) < 0) {
            assert_int_equal(err.code, TC_E_CLOSED);
            return;
        }
        a->stream_left -= n;
        a->naccepted += n;
    }
    if (a->stream_left == 0 && !is_pending)
        tci_httpd_stream_end(req);
}

static void start_stream(tci_httpd_req *req, uint64_t length)
{
    tc_err err;
    if (tci_httpd_stream_start(req, 200, NULL, 0, length, &err) == 0)
        pump(req);
    else
        assert_int_equal(err.code, TC_E_UNSUPPORTED);
}

static void on_head(tci_httpd_req *req)
{
    app *a = app_of(req);
    tc_err err;
    a->nheads++;
    if (a->body_within_ms > 0)
        tci_httpd_body_within(req, a->body_within_ms);
    tci_buf_clear(&a->body);
    a->nbody = 0;
    if (is_at(req, "/hello"))
        answer(req, 200, "hello");
    else if (is_at(req, "/empty"))
        answer(req, 204, "");
    else if (is_at(req, "/early"))
        answer(req, 413, "");
    else if (is_at(req, "/wait") || is_at(req, "/keep"))
        a->held = req;
    else if (is_at(req, "/wait-early")) {
        a->held = req;
        tci_httpd_pause(req);
    } else if (is_at(req, "/stream"))
        start_stream(req, TCI_HTTPD_CHUNKED);
    else if (is_at(req, "/fixed-stream"))
        start_stream(req, a->stream_left);
    else if (is_at(req, "/short"))
        start_stream(req, a->stream_left + 1);
    else if (is_at(req, "/broken")) {
        bool is_pending = false;
        tci_iovec part = {"some", 4};
        assert_int_equal(tci_httpd_stream_start(req, 200, NULL, 0, TCI_HTTPD_CHUNKED, &err), 0);
        assert_int_equal(tci_httpd_stream_write(req, &part, 1, &is_pending, &err), 0);
        assert_false(is_pending);
        tci_httpd_abort(req);
    } else if (is_at(req, "/inject")) {
        tci_http_header bad = {TC_STR("X"), TC_STR("a\r\nY: b")};
        assert_int_equal(tci_httpd_respond(req, 200, &bad, 1, TC_STR(""), &err), TC_E_INVALID);
    } else if (is_at(req, "/ours")) {
        tci_http_header bad = {TC_STR("content-length"), TC_STR("7")};
        assert_int_equal(tci_httpd_respond(req, 200, &bad, 1, TC_STR(""), &err), TC_E_INVALID);
    } else if (is_at(req, "/ws"))
        assert_int_equal(tci_httpd_take_stream(req, &a->taken, &a->rest, &err), 0);
    else if (!is_at(req, "/echo") && !is_at(req, "/slow") && !is_at(req, "/count") &&
             !is_at(req, "/big"))
        answer(req, 404, "");
}

static void on_body(tci_httpd_req *req, tc_str bytes)
{
    app *a = app_of(req);
    a->nbody += bytes.len;
    if (is_at(req, "/echo"))
        tci_buf_append_str(&a->body, bytes);
    if (is_at(req, "/slow")) {
        tci_httpd_pause(req);
        a->held = req;
        a->held_bytes = bytes;
    }
}

static void on_end(tci_httpd_req *req)
{
    app *a = app_of(req);
    tc_err err;
    a->nends++;
    if (is_at(req, "/echo")) {
        tci_http_header type = {TC_STR("Content-Type"), TC_STR("text/plain")};
        tc_str body = tci_buf_str(&a->body);
        assert_int_equal(tci_httpd_respond(req, 200, &type, 1, body, &err), 0);
    } else if (is_at(req, "/big")) {
        tci_buf big;
        tci_buf_init(&big, TCI_BUF_MAX);
        char *room = tci_buf_reserve(&big, (size_t)a->stream_left);
        assert_non_null(room);
        memset(room, 'b', (size_t)a->stream_left);
        tci_buf_commit(&big, (size_t)a->stream_left);
        assert_int_equal(tci_httpd_respond_own(req, 200, NULL, 0, &big, &err), 0);
        assert_int_equal(big.len, 0);
    } else if (is_at(req, "/count") || is_at(req, "/slow")) {
        char text[32];
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)a->nbody); /* fits */
        answer(req, 200, text);
    }
}

static void on_writable(tci_httpd_req *req)
{
    pump(req);
}

static void on_done(tci_httpd_req *req, bool is_whole)
{
    app *a = app_of(req);
    a->ndone++;
    a->nwhole += is_whole;
    if (a->held == req)
        a->held = NULL;
}

static const tci_httpd_handler handler = {on_head, on_body, on_end, on_writable, on_done};

static app *app_open(tci_httpd_options options)
{
    tc_err err;
    app *a = calloc(1, sizeof *a);
    assert_non_null(a);
    options.handler = &handler;
    options.user = a;
    tci_buf_init(&a->body, ECHO_MAX);
    tci_buf_init(&a->rest, ECHO_MAX);
    a->piece = malloc(PIECE);
    assert_non_null(a->piece);
    memset(a->piece, 'p', PIECE);
    assert_int_equal(tci_loop_new(&a->loop, &err), 0);
    assert_int_equal(tci_httpd_new(a->loop, &options, &a->httpd, &err), 0);
    return a;
}

static void app_close(app *a)
{
    tci_httpd_free(a->httpd);
    tci_stream_close(a->taken);
    tci_loop_turn(a->loop, 0);
    tci_loop_free(a->loop);
    tci_buf_done(&a->body);
    tci_buf_done(&a->rest);
    free(a->piece);
    free(a);
}

static peer *connect_to(app *a)
{
    peer *p = malloc(sizeof *p);
    assert_non_null(p);
    tci_httpd_accept_own(a->httpd, peer_open(p, a->loop));
    return p;
}

static void hang_up(peer *p)
{
    peer_close(p);
    free(p);
}

#define HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

/* ---- the ordinary ---- */

static void test_requests_follow_each_other_on_one_connection(void **state)
{
    app *a = app_open((tci_httpd_options){.server = "tc/1"});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    for (int i = 0; i < 3; i++) {
        peer_send(p, GET("/hello"));
        peer_expect(p, "HTTP/1.1 200 OK\r\nServer: tc/1\r\nContent-Length: 5\r\n\r\nhello");
    }
    peer_send(p, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nping");
    peer_expect(p, "HTTP/1.1 200 OK\r\nServer: tc/1\r\nContent-Type: text/plain\r\n"
                   "Content-Length: 4\r\n\r\nping");
    peer_send(p, "DELETE /empty HTTP/1.1\r\nHost: a\r\n\r\n");
    peer_expect(p, "HTTP/1.1 204 No Content\r\nServer: tc/1\r\n\r\n");
    peer_send(p, "HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    peer_expect(p, "HTTP/1.1 200 OK\r\nServer: tc/1\r\nContent-Length: 5\r\n\r\n");
    peer_send(p, "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    peer_expect(p, "HTTP/1.1 200 OK\r\nServer: tc/1\r\nContent-Length: 5\r\n"
                   "Connection: close\r\n\r\nhello");
    PEER_UNTIL(p, peer_is_at_end(p));
    assert_int_equal(a->nwhole, 7);
    assert_int_equal(tci_httpd_nconnections(a->httpd), 0);
    assert_int_equal(tci_httpd_nrequests(a->httpd), 0);
    hang_up(p);
    app_close(a);
}

static void test_every_answer_is_dated(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    char weekday[4], month[4];
    int day, year, hour, minute, second;
    TCI_UNUSED(state);
    peer_send(p, GET("/empty"));
    PEER_UNTIL(p, peer_contains(p, "\r\n\r\n"));
    const char *at = strstr(p->got, "Date: ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "Date: %3[a-zA-Z], %2d %3[a-zA-Z] %4d %2d:%2d:%2d GMT\r", weekday,
                            &day, month, &year, &hour, &minute, &second),
                     7);
    assert_in_range(day, 1, 31);
    assert_in_range(year, 2024, 9999);
    hang_up(p);
    app_close(a);
}

static void test_any_cut_of_a_request_gives_the_same_answer(void **state)
{
    static const char in[] = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                             "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n" GET("/hello");
    app *a = app_open((tci_httpd_options){0});
    TCI_UNUSED(state);
    peer *p = connect_to(a);
    for (size_t cut = 1; cut < sizeof in - 1; cut++) {
        peer_send_bytes(p, in, cut);
        tci_loop_turn(a->loop, 0);
        peer_send_bytes(p, in + cut, sizeof in - 1 - cut);
        peer_expect(p, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n\r\n"
                       "abcdefg" HELLO);
    }
    hang_up(p);
    app_close(a);
}

static void test_pipelined_requests_are_answered_in_order(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    peer_send(p, GET("/wait") GET("/hello") "POST /echo HTTP/1.1\r\nHost: a\r\n"
                                            "Content-Length: 2\r\n\r\nxy" GET("/hello"));
    PEER_UNTIL(p, a->held != NULL);
    peer_settle(p);
    assert_int_equal(a->nheads, 1);
    assert_int_equal(peer_read(p, SIZE_MAX), 0);
    answer(a->held, 202, "first");
    peer_expect(p,
                "HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nfirst" HELLO
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nxy" HELLO);
    assert_int_equal(a->nwhole, 4);
    hang_up(p);
    app_close(a);
}

static void test_many_pipelined_requests(void **state)
{
    enum { N = 2000 };
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    for (int i = 0; i < N; i++) {
        peer_send(p, GET("/hello"));
        peer_read(p, SIZE_MAX);
    }
    PEER_UNTIL(p, (peer_read(p, SIZE_MAX), a->nwhole == N));
    hang_up(p);
    app_close(a);
}

static void test_streamed_answers(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    a->stream_left = 7;
    peer_send(p, GET("/stream"));
    peer_expect(p,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nppppppp\r\n0\r\n\r\n");
    a->stream_left = 0;
    peer_send(p, GET("/stream"));
    peer_expect(p, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    a->stream_left = 3;
    peer_send(p, GET("/fixed-stream"));
    peer_expect(p, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nppp");
    a->stream_left = 3;
    peer_send(p, "HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    peer_expect(p, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_int_equal(a->nwhole, 4);
    a->stream_left = 3;
    peer_send(p, GET("/short"));
    peer_expect(p, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nppp");
    PEER_UNTIL(p, peer_is_at_end(p));
    assert_int_equal(a->nwhole, 4);
    assert_int_equal(a->ndone, 5);
    hang_up(p);
    app_close(a);
}

static void test_large_fixed_answer(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    a->stream_left = 8 << 20;
    peer_send(p, GET("/big") GET("/hello"));
    PEER_UNTIL(p, peer_contains(p, "hello"));
    const char *body = strstr(p->got, "\r\n\r\n") + 4;
    assert_int_equal(strspn(body, "b"), 8 << 20);
    peer_drop_dates(p);
    assert_string_equal(strstr(p->got, "\r\n\r\nb") + 4 + (8 << 20), HELLO);
    hang_up(p);
    app_close(a);
}

/* ---- things going wrong ---- */

static void test_aborted_stream_has_no_last_chunk(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    peer_send(p, GET("/broken"));
    PEER_UNTIL(p, peer_is_at_end(p));
    peer_expect(p, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n");
    assert_int_equal(a->ndone, 1);
    assert_int_equal(a->nwhole, 0);
    hang_up(p);
    app_close(a);
}

static void test_peer_leaves_in_the_middle(void **state)
{
    static const char *const starts[] = {
        "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfive5",
        "POST /count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfive5\r\n",
        GET("/wait"),
    };
    app *a = app_open((tci_httpd_options){0});
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(starts); i++) {
        peer *p = connect_to(a);
        peer_send(p, starts[i]);
        PEER_UNTIL(p, a->nheads == (int)i + 1);
        tci_fd_close(&p->fd);
        PEER_UNTIL(p, a->ndone == (int)i + 1);
        assert_int_equal(tci_httpd_nconnections(a->httpd), 0);
        hang_up(p);
    }
    assert_int_equal(a->nwhole, 0);
    app_close(a);
}

static void test_peer_leaves_while_it_is_streamed_to(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    a->stream_left = 64 << 20;
    peer_send(p, GET("/stream"));
    PEER_UNTIL(p, a->naccepted > 0);
    tci_fd_close(&p->fd);
    PEER_UNTIL(p, a->ndone == 1);
    assert_int_equal(a->nwhole, 0);
    hang_up(p);
    app_close(a);
}

static void test_refused_heads_end_the_connection(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n" GET("/hello"),
         "400 Bad Request"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n" GET(
             "/hello"),
         "400 Bad Request"},
        {"GET /hello HTTP/1.1\r\n\r\n" GET("/hello"), "400 Bad Request"},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" GET("/hello"), "400 Bad Request"},
        {"nonsense\r\n\r\n", "400 Bad Request"},
        /* What two readers could take differently. */
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
         "0\r\n\r\n" GET("/hello"),
         "400 Bad Request"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nabcde", "400 Bad Request"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nabcde", "400 Bad Request"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nabcde", "400 Bad Request"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
         "400 Bad Request"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
         "400 Bad Request"},
        {"POST /echo HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "400 Bad Request"},
        {"GET /hello HTTP/1.1\nHost: a\n\n", "400 Bad Request"},
        {"GET /hello HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", "400 Bad Request"},
        {"GET /hello HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", "400 Bad Request"},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nX: y\r\n folded\r\n\r\n", "400 Bad Request"},
        {"GET /hello HTTP/1.1\r\n Host: a\r\n\r\n", "400 Bad Request"},
        {"GET  /hello HTTP/1.1\r\nHost: a\r\n\r\n", "400 Bad Request"},
        {"GET /he llo HTTP/1.1\r\nHost: a\r\n\r\n", "400 Bad Request"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
         "501 Not Implemented"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
         "501 Not Implemented"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
         "501 Not Implemented"},
        {"GET /hello HTTP/2.0\r\n\r\n", "505 HTTP Version Not Supported"},
    };
    app *a = app_open((tci_httpd_options){0});
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        char expected[256];
        peer *p = connect_to(a);
        peer_send(p, cases[i].in);
        (void)snprintf(expected, sizeof expected,
                       "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                       cases[i].out); /* fits */
        PEER_UNTIL(p, peer_is_at_end(p));
        peer_expect(p, expected);
        hang_up(p);
    }
    assert_int_equal(a->nheads, 0);
    app_close(a);
}

static void test_oversized_heads(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    peer_send(p, "GET /hello HTTP/1.1\r\nHost: a\r\nX: ");
    char *filler = malloc(80000);
    assert_non_null(filler);
    memset(filler, 'x', 80000);
    peer_send_bytes(p, filler, 80000);
    PEER_UNTIL(p, peer_is_at_end(p));
    peer_expect(p, "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n"
                   "Connection: close\r\n\r\n");
    hang_up(p);
    p = connect_to(a);
    peer_send(p, "GET /hello HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 128; i++)
        peer_send(p, "X: y\r\n");
    peer_send(p, "\r\n");
    PEER_UNTIL(p, peer_contains(p, "HTTP/1.1 431 "));
    hang_up(p);
    free(filler);
    app_close(a);
}

static void test_broken_body_is_answered_and_ends_the_request(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    peer_send(p, "POST /count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "5\r\nfive5\r\nnonsense" GET("/hello"));
    PEER_UNTIL(p, peer_is_at_end(p));
    peer_expect(p, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert_int_equal(a->nheads, 1);
    assert_int_equal(a->nends, 0);
    assert_int_equal(a->ndone, 1);
    assert_int_equal(a->nwhole, 0);
    hang_up(p);
    app_close(a);
}

static void test_headers_cannot_be_injected(void **state)
{
    static const char *const targets[] = {GET("/inject"), GET("/ours")};
    app *a = app_open((tci_httpd_options){0});
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(targets); i++) {
        peer *p = connect_to(a);
        peer_send(p, targets[i]);
        PEER_UNTIL(p, peer_is_at_end(p));
        assert_int_equal(p->ngot, 0);
        assert_int_equal(a->ndone, (int)i + 1);
        hang_up(p);
    }
    app_close(a);
}

static void test_older_clients(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    peer_send(p, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    peer_expect(p, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello");
    peer_send(p, "GET /hello HTTP/1.0\r\n\r\n");
    peer_expect(p, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
    PEER_UNTIL(p, peer_is_at_end(p));
    hang_up(p);
    p = connect_to(a);
    peer_send(p, "GET /stream HTTP/1.0\r\n\r\n");
    PEER_UNTIL(p, peer_contains(p, "HTTP/1.1 505 "));
    hang_up(p);
    app_close(a);
}

/* ---- expectations and early answers ---- */

static void test_continue_goes_out_when_the_body_is_wanted(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    peer_send(
        p, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    peer_expect(p, "HTTP/1.1 100 Continue\r\n\r\n");
    peer_send(p, "ok");
    peer_expect(p, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok");
    /* not asked for when the body is there already */
    peer_send(
        p, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok");
    peer_expect(p, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok");
    /* a handler that first wants to look around */
    peer_send(p, "POST /wait-early HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                 "Content-Length: 2\r\n\r\n");
    PEER_UNTIL(p, a->held != NULL);
    peer_settle(p);
    assert_int_equal(peer_read(p, SIZE_MAX), 0);
    tci_httpd_resume(a->held);
    peer_expect(p, "HTTP/1.1 100 Continue\r\n\r\n");
    peer_send(p, "ok");
    PEER_UNTIL(p, a->nends == 3);
    answer(a->held, 200, "");
    peer_expect(p, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    hang_up(p);
    app_close(a);
}

static void test_refusal_instead_of_continue_ends_the_connection(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    peer_send(
        p, "POST /early HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
    PEER_UNTIL(p, peer_is_at_end(p));
    peer_expect(p,
                "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    hang_up(p);
    app_close(a);
}

static void test_early_answer_drops_a_short_rest_and_goes_on(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    peer_send(p, "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    peer_expect(p, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
    for (int i = 0; i < 100; i++)
        peer_send(p, "0123456789");
    peer_send(p, GET("/hello"));
    peer_expect(p, HELLO);
    assert_int_equal(a->nbody, 0);
    hang_up(p);
    app_close(a);
}

static void test_early_answer_to_a_long_body_arrives_before_the_end(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    char filler[4096];
    TCI_UNUSED(state);
    memset(filler, 'x', sizeof filler);
    peer_send(p, "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
    for (int i = 0; i < 16; i++)
        peer_send_bytes(p, filler, sizeof filler);
    peer_expect(p,
                "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    /* whoever goes on sending for ever is cut off */
    PEER_UNTIL(p, (peer_try_send(p, filler, sizeof filler), tci_httpd_nconnections(a->httpd) == 0));
    hang_up(p);
    app_close(a);
}

/* ---- back-pressure ---- */

static void test_slow_reader_is_waited_for(void **state)
{
    enum { TOTAL = 48 << 20 };
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    a->stream_left = TOTAL;
    peer_send(p, GET("/fixed-stream"));
    PEER_UNTIL(p, a->naccepted > 0);
    for (int i = 0; i < 50; i++)
        tci_loop_turn(a->loop, 1);
    assert_true(a->naccepted < TOTAL / 4); /* what a socket holds, not more */
    uint64_t before = a->naccepted, ntaken = 0;
    PEER_UNTIL(p, (ntaken += peer_read(p, 1 << 20), p->ngot = 0, a->nwhole == 1));
    while (ntaken < TOTAL)
        PEER_UNTIL(p, (ntaken += peer_read(p, SIZE_MAX), p->ngot = 0, true));
    assert_true(before < a->naccepted);
    assert_in_range(ntaken, TOTAL, TOTAL + 4096);
    hang_up(p);
    app_close(a);
}

static void test_slow_handler_is_waited_for(void **state)
{
    enum { TOTAL = 24 << 20 };
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    char head[128], *data = malloc(1 << 20);
    size_t nsent = 0, largest = 0;
    TCI_UNUSED(state);
    assert_non_null(data);
    for (size_t i = 0; i < 1 << 20; i++)
        data[i] = (char)(i * 7 + i / 251);
    (void)snprintf(head, sizeof head,
                   "POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n",
                   TOTAL); /* fits */
    peer_send(p, head);
    PEER_UNTIL(p, (nsent += peer_try_send(p, data + nsent, 1000), a->held != NULL));
    /* paused: the socket fills, then nothing more is taken */
    for (int i = 0; i < 200; i++) {
        nsent += peer_try_send(p, data + nsent % (1 << 20), (1 << 20) - nsent % (1 << 20));
        tci_loop_turn(a->loop, 0);
    }
    assert_true(nsent < TOTAL / 2);
    size_t ntaken = 0;
    while (ntaken < TOTAL) {
        PEER_UNTIL(p, (nsent < TOTAL ? nsent += peer_try_send(p, data + nsent % (1 << 20),
                                                              (1 << 20) - nsent % (1 << 20))
                                     : 0,
                       a->held != NULL));
        tc_str bytes = a->held_bytes; /* still there, turns later */
        size_t at = ntaken % (1 << 20), n = bytes.len < (1 << 20) - at ? bytes.len : (1 << 20) - at;
        assert_memory_equal(bytes.ptr, data + at, n);
        assert_memory_equal(bytes.ptr + n, data, bytes.len - n);
        ntaken += bytes.len;
        largest = bytes.len > largest ? bytes.len : largest;
        tci_httpd_req *held = a->held;
        a->held = NULL;
        tci_httpd_resume(held);
    }
    assert_in_range(largest, 64 * 1024, 256 * 1024);
    peer_expect(p, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n25165824");
    free(data);
    hang_up(p);
    app_close(a);
}

/* ---- limits of number and time ---- */

static void test_connection_limit(void **state)
{
    app *a = app_open((tci_httpd_options){.max_connections = 2});
    TCI_UNUSED(state);
    peer *idle = connect_to(a), *busy = connect_to(a);
    peer_send(idle, GET("/hello"));
    peer_expect(idle, HELLO);
    peer_send(busy, GET("/wait"));
    PEER_UNTIL(busy, a->held != NULL);
    peer *third = connect_to(a); /* the idle one makes room */
    PEER_UNTIL(idle, peer_is_at_end(idle));
    peer_send(third, GET("/keep"));
    PEER_UNTIL(third, a->nheads == 3);
    peer *fourth = connect_to(a); /* nobody can */
    PEER_UNTIL(fourth, peer_is_at_end(fourth));
    assert_int_equal(tci_httpd_nconnections(a->httpd), 2);
    hang_up(idle);
    hang_up(busy);
    hang_up(third);
    hang_up(fourth);
    app_close(a);
}

/* Who opens many connections and says little on each keeps nobody out: the one that was longest at it goes. */
static void test_the_slow_make_room(void **state)
{
    static const char *const slow[] = {
        "GET /hello HTTP/1.1\r\nHo",                                     /* a head */
        "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx", /* a short body */
        "",                                                              /* nothing at all */
        "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx", /* answered; the rest of it */
    };
    enum { N = TCI_ARRAY_LEN(slow) };
    app *a = app_open((tci_httpd_options){.max_connections = N + 1});
    peer *peers[N], *late[N];
    TCI_UNUSED(state);
    a->body_within_ms = 60000;
    peer *busy = connect_to(a);
    peer_send(busy, GET("/wait"));
    PEER_UNTIL(busy, a->held != NULL);
    for (size_t i = 0; i < N; i++) {
        int nheads = a->nheads;
        peers[i] = connect_to(a);
        peer_send(peers[i], slow[i]);
        if (slow[i][0] == 'P')
            PEER_UNTIL(peers[i], a->nheads > nheads);
        if (i == N - 1)
            PEER_UNTIL(peers[i], a->ndone == 1);
    }
    for (size_t i = 0; i < N; i++) {
        int nheads = a->nheads;
        late[i] = connect_to(a);
        PEER_UNTIL(peers[i], peer_is_at_end(peers[i]));
        peer_send(late[i], GET("/keep"));
        PEER_UNTIL(late[i], a->nheads > nheads);
    }
    assert_false(peer_is_at_end(busy));
    for (size_t i = 0; i < N; i++)
        assert_false(peer_is_at_end(late[i]));
    for (size_t i = 0; i < N; i++) {
        hang_up(peers[i]);
        hang_up(late[i]);
    }
    hang_up(busy);
    app_close(a);
}

/* However steadily it drips, a short body has its time. */
static void test_a_short_body_in_drops_runs_out_of_time(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    a->body_within_ms = 60;
    peer_send(p, "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n");
    PEER_UNTIL(p, (peer_try_send(p, "x", 1), peer_is_at_end(p)));
    assert_true(peer_contains(p, "HTTP/1.1 408 "));
    assert_int_equal(a->ndone, 1);
    hang_up(p);
    a->body_within_ms = 60000;
    p = connect_to(a); /* in time: as ever, and the next one has its own */
    for (int i = 0; i < 2; i++)
        peer_send(p, "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    peer_expect(p, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"
                   "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
    hang_up(p);
    app_close(a);
}

static void test_time_limits(void **state)
{
    app *a = app_open((tci_httpd_options){.head_timeout_ms = 1000,
                                          .idle_timeout_ms = 1000,
                                          .body_timeout_ms = 1000,
                                          .write_timeout_ms = 1000});
    TCI_UNUSED(state);
    peer *silent = connect_to(a), *halting = connect_to(a), *idle = connect_to(a),
         *stuck = connect_to(a), *slow = connect_to(a);
    peer_send(halting, "GET /hello HTTP/1.1\r\nHost:");
    peer_send(idle, GET("/hello"));
    peer_send(stuck, "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfive5");
    a->stream_left = 48 << 20;
    peer_send(slow, GET("/stream"));
    PEER_UNTIL(silent, tci_httpd_nconnections(a->httpd) == 0);
    peer_expect(silent, "");
    peer_expect(halting,
                "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    peer_expect(stuck,
                "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    peer_expect(idle, HELLO);
    assert_int_equal(a->ndone, 3);
    assert_int_equal(a->nwhole, 1);
    peer *all[] = {silent, halting, idle, stuck, slow};
    for (size_t i = 0; i < TCI_ARRAY_LEN(all); i++)
        hang_up(all[i]);
    app_close(a);
}

static void test_a_head_in_drops_runs_out_of_time(void **state)
{
    app *a = app_open((tci_httpd_options){.head_timeout_ms = 60});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    PEER_UNTIL(p, (peer_try_send(p, "G", 1), peer_is_at_end(p)));
    hang_up(p);
    app_close(a);
}

static void test_no_time_limit_while_the_handler_thinks(void **state)
{
    app *a = app_open((tci_httpd_options){.head_timeout_ms = 1000,
                                          .idle_timeout_ms = 1000,
                                          .body_timeout_ms = 1000,
                                          .write_timeout_ms = 1000});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    peer_send(p, GET("/wait"));
    PEER_UNTIL(p, a->held != NULL);
    int64_t until = tci_clock_mono_ns() + INT64_C(2000000000);
    PEER_UNTIL(p, tci_clock_mono_ns() > until);
    assert_non_null(a->held);
    answer(a->held, 200, "hello");
    peer_expect(p, HELLO);
    hang_up(p);
    app_close(a);
}

/* ---- the end ---- */

static void on_drained(tci_httpd *httpd, bool is_clean)
{
    app *a = tci_httpd_user(httpd);
    a->is_drained = true;
    a->drain_is_clean = is_clean;
}

static void test_drain_lets_running_requests_finish(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    TCI_UNUSED(state);
    peer *idle = connect_to(a), *busy = connect_to(a);
    peer_send(idle, GET("/hello"));
    peer_expect(idle, HELLO);
    peer_send(busy, GET("/wait"));
    PEER_UNTIL(busy, a->held != NULL);
    tci_httpd_drain(a->httpd, 10000, on_drained);
    assert_false(a->is_drained);
    PEER_UNTIL(idle, peer_is_at_end(idle));
    peer *late = connect_to(a);
    PEER_UNTIL(late, peer_is_at_end(late));
    assert_false(a->is_drained);
    answer(a->held, 200, "last");
    peer_expect(busy, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlast");
    PEER_UNTIL(busy, a->is_drained);
    assert_true(a->drain_is_clean);
    assert_int_equal(a->nwhole, 2);
    hang_up(idle);
    hang_up(busy);
    hang_up(late);
    app_close(a);
}

static void test_drain_is_bounded(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    peer_send(p, GET("/wait"));
    PEER_UNTIL(p, a->held != NULL);
    tci_httpd_drain(a->httpd, 20, on_drained);
    PEER_UNTIL(p, a->is_drained);
    assert_false(a->drain_is_clean);
    assert_int_equal(a->ndone, 1);
    assert_true(peer_is_at_end(p));
    hang_up(p);
    app_close(a);
}

static void test_drain_of_nothing(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    TCI_UNUSED(state);
    tci_httpd_drain(a->httpd, 10000, on_drained);
    assert_false(a->is_drained);
    while (!a->is_drained)
        tci_loop_turn(a->loop, 5);
    assert_true(a->drain_is_clean);
    app_close(a);
}

static void test_free_ends_what_runs(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    peer_send(p, GET("/wait"));
    PEER_UNTIL(p, a->held != NULL);
    tci_httpd_free(a->httpd);
    a->httpd = NULL;
    assert_int_equal(a->ndone, 1);
    hang_up(p);
    app_close(a);
}

static void test_connection_taken_for_another_protocol(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    char buf[16];
    size_t n = 0;
    tc_err err;
    TCI_UNUSED(state);
    peer_send(
        p, "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nxyz");
    PEER_UNTIL(p, a->taken != NULL);
    assert_true(tci_str_eq(tci_buf_str(&a->rest), TC_STR("xyz")));
    assert_int_equal(tci_httpd_nconnections(a->httpd), 0);
    assert_int_equal(tci_httpd_nrequests(a->httpd), 0);
    assert_int_equal(a->ndone, 0);
    tci_iovec part = {"raw", 3};
    assert_int_equal(tci_stream_writev(a->taken, &part, 1, &n, &err), 0);
    peer_expect(p, "raw");
    peer_send(p, "more");
    n = 0;
    PEER_UNTIL(p, tci_stream_want(a->taken, TCI_WATCH_READ, &err) == 0 &&
                      tci_stream_read(a->taken, buf, sizeof buf, &n, &err) == 0 && n > 0);
    assert_memory_equal(buf, "more", 4);
    hang_up(p);
    app_close(a);
}

static void test_upgrade_nobody_takes_is_an_ordinary_request(void **state)
{
    app *a = app_open((tci_httpd_options){0});
    peer *p = connect_to(a);
    TCI_UNUSED(state);
    peer_send(p, "GET /hello HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n");
    peer_expect(p, HELLO);
    peer_send(
        p, "GET /hello HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    peer_expect(p, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
    hang_up(p);
    app_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_follow_each_other_on_one_connection),
        cmocka_unit_test(test_every_answer_is_dated),
        cmocka_unit_test(test_any_cut_of_a_request_gives_the_same_answer),
        cmocka_unit_test(test_pipelined_requests_are_answered_in_order),
        cmocka_unit_test(test_many_pipelined_requests),
        cmocka_unit_test(test_streamed_answers),
        cmocka_unit_test(test_large_fixed_answer),
        cmocka_unit_test(test_aborted_stream_has_no_last_chunk),
        cmocka_unit_test(test_peer_leaves_in_the_middle),
        cmocka_unit_test(test_peer_leaves_while_it_is_streamed_to),
        cmocka_unit_test(test_refused_heads_end_the_connection),
        cmocka_unit_test(test_oversized_heads),
        cmocka_unit_test(test_broken_body_is_answered_and_ends_the_request),
        cmocka_unit_test(test_headers_cannot_be_injected),
        cmocka_unit_test(test_older_clients),
        cmocka_unit_test(test_continue_goes_out_when_the_body_is_wanted),
        cmocka_unit_test(test_refusal_instead_of_continue_ends_the_connection),
        cmocka_unit_test(test_early_answer_drops_a_short_rest_and_goes_on),
        cmocka_unit_test(test_early_answer_to_a_long_body_arrives_before_the_end),
        cmocka_unit_test(test_slow_reader_is_waited_for),
        cmocka_unit_test(test_slow_handler_is_waited_for),
        cmocka_unit_test(test_connection_limit),
        cmocka_unit_test(test_the_slow_make_room),
        cmocka_unit_test(test_a_short_body_in_drops_runs_out_of_time),
        cmocka_unit_test(test_time_limits),
        cmocka_unit_test(test_a_head_in_drops_runs_out_of_time),
        cmocka_unit_test(test_no_time_limit_while_the_handler_thinks),
        cmocka_unit_test(test_drain_lets_running_requests_finish),
        cmocka_unit_test(test_drain_is_bounded),
        cmocka_unit_test(test_drain_of_nothing),
        cmocka_unit_test(test_free_ends_what_runs),
        cmocka_unit_test(test_connection_taken_for_another_protocol),
        cmocka_unit_test(test_upgrade_nobody_takes_is_an_ordinary_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
