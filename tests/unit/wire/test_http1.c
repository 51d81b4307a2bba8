/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 messages: the same events however the input is cut, limits, and what is refused because
 * two readers could read it differently. */
#include "wire/http1.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { NOTE_MAX = 4096 };

/* Everything a reader said, as one line. Body pieces are joined. */
typedef struct notes {
    char text[NOTE_MAX];
    size_t len;
    bool in_body;
} notes;

static void add(notes *n, const char *fmt, ...) TC_PRINTF(2, 3);
static void add(notes *n, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(n->text + n->len, sizeof n->text - n->len, fmt, ap);
    va_end(ap);
    assert_true(len >= 0 && (size_t)len < sizeof n->text - n->len);
    n->len += (size_t)len;
}

static void add_head(notes *n, const tci_http_head *h)
{
    if (h->method.len > 0)
        add(n, "[%.*s %.*s", TC_STR_ARG(h->method), TC_STR_ARG(h->target));
    else
        add(n, "[%u %.*s", h->status, TC_STR_ARG(h->reason));
    for (size_t i = 0; i < h->nheaders; i++)
        add(n, "|%.*s=%.*s", TC_STR_ARG(h->headers[i].name), TC_STR_ARG(h->headers[i].value));
    add(n, "|%s%s%s%s%s%s]", h->has_body ? "b" : "", h->is_chunked ? "c" : "",
        h->has_length ? "l" : "", h->keeps_alive ? "k" : "", h->wants_continue ? "x" : "",
        h->is_upgrade ? "u" : "");
}

typedef struct reader {
    tci_http1 *h;
    unsigned flags;
    notes out;
    bool is_over; /* failed or upgraded */
} reader;

static void feed(reader *r, tc_str piece)
{
    char *in = malloc(piece.len > 0 ? piece.len : 1);
    assert_non_null(in);
    if (piece.len > 0)
        memcpy(in, piece.ptr, piece.len);
    tc_str rest = tci_str_of(in, piece.len);
    while (!r->is_over) {
        size_t used = 0;
        tci_http1_event event = TCI_HTTP1_MORE;
        tc_str body = {NULL, 0};
        tc_err err;
        if (tci_http1_next(r->h, rest, &used, &event, &body, &err) < 0) {
            add(&r->out, "!%s", tc_code_name(err.code));
            r->is_over = true;
            break;
        }
        assert_true(used <= rest.len);
        if (event == TCI_HTTP1_BODY) {
            assert_true(body.len > 0 && body.ptr >= rest.ptr &&
                        body.ptr + body.len <= rest.ptr + used);
            add(&r->out, "%.*s", TC_STR_ARG(body));
        }
        rest = tci_str_sub(rest, used, rest.len);
        if (event == TCI_HTTP1_MORE) {
            assert_int_equal(rest.len, 0);
            break;
        }
        if (event == TCI_HTTP1_HEAD)
            add_head(&r->out, tci_http1_head(r->h));
        if (event == TCI_HTTP1_END) {
            add(&r->out, ";");
            tci_http1_set_flags(r->h, r->flags);
        }
        if (event == TCI_HTTP1_UPGRADED) {
            add(&r->out, "^%.*s", TC_STR_ARG(rest));
            r->is_over = true;
        }
    }
    free(in);
}

static void feed_end(reader *r)
{
    bool is_end = false;
    tc_err err;
    if (r->is_over)
        return;
    if (tci_http1_eof(r->h, &is_end, &err) < 0)
        add(&r->out, "!%s", tc_code_name(err.code));
    else
        add(&r->out, is_end ? ";." : ".");
}

static void expect_pieces(tci_http1_type type, unsigned flags, tc_str in, size_t first, size_t each,
                          const char *expected)
{
    reader r = {.flags = flags};
    tc_err err;
    assert_int_equal(tci_http1_new(type, &r.h, &err), 0);
    tci_http1_set_flags(r.h, flags);
    feed(&r, tci_str_sub(in, 0, first));
    for (size_t at = first; at < in.len; at += each)
        feed(&r, tci_str_sub(in, at, each));
    feed_end(&r);
    /* after an upgrade the rest is only what was in hand */
    if (strchr(expected, '^') != NULL && each < in.len)
        assert_memory_equal(r.out.text, expected, (size_t)(strchr(expected, '^') - expected));
    else
        assert_string_equal(r.out.text, expected);
    tci_http1_free(r.h);
}

static void expect(tci_http1_type type, unsigned flags, tc_str in, const char *expected)
{
    expect_pieces(type, flags, in, in.len, 1, expected);
    if (strchr(expected, '^') == NULL)
        for (size_t at = 0; at <= in.len; at++)
            expect_pieces(type, flags, in, at, in.len, expected);
    expect_pieces(type, flags, in, 0, 1, expected);
}

#define REQUEST(text, expected) expect(TCI_HTTP1_REQUEST, 0, TC_STR(text), expected)
#define RESPONSE(text, expected) expect(TCI_HTTP1_RESPONSE, 0, TC_STR(text), expected)

static void test_requests(void **state)
{
    TCI_UNUSED(state);
    REQUEST("", ".");
    REQUEST("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "[GET /|Host=a|k];.");
    REQUEST("POST /eip/control HTTP/1.1\r\nHost:a\r\nContent-Length: 5\r\nX:  y z \r\n\r\nhello",
            "[POST /eip/control|Host=a|Content-Length=5|X=y z|blk]hello;.");
    REQUEST("GET /a HTTP/1.1\r\n\r\nDELETE /b?x=%20 HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
            "PUT /c HTTP/1.1\r\nContent-Length: 1\r\n\r\nx\r\nGET /d HTTP/1.1\r\n\r\n",
            "[GET /a|k];[DELETE /b?x=%20|Content-Length=0|lk];[PUT /c|Content-Length=1|blk]x;"
            "[GET /d|k];.");
    REQUEST("GET / HTTP/1.0\r\n\r\n", "[GET /|];.");
    REQUEST("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n",
            "[GET /|Connection=keep-alive|k];[GET /|];.");
    REQUEST("GET / HTTP/1.1\r\nConnection: close\r\n\r\nGET",
            "[GET /|Connection=close|];!PROTOCOL");
    REQUEST("POST / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
            "[POST /|Expect=100-Continue|Content-Length=1|blkx]x;.");
    REQUEST("GET / HTTP/1.1\r\nX:\r\n\r\n", "[GET /|X=|k];.");
}

static void test_chunked_bodies(void **state)
{
    TCI_UNUSED(state);
    REQUEST("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            "5\r\nhello\r\n6;a=\"b c\"\r\n world\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "[POST /|Transfer-Encoding=chunked|bck]hello world;[GET /|k];.");
    REQUEST("POST / HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n",
            "[POST /|transfer-encoding=Chunked|bck];.");
    REQUEST("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n000\r\n\r\n",
            "[POST /|Transfer-Encoding=chunked|bck]0123456789;.");
    /* trailers: none in requests, ignored in responses */
    REQUEST("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n",
            "[POST /|Transfer-Encoding=chunked|bck]!PARSE");
    RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n",
             "[200 OK|Transfer-Encoding=chunked|bck]a;.");
    RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\nZ: a\r\n\r\n",
             "[200 OK|Transfer-Encoding=chunked|bck]!PARSE");
    RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX y\r\n\r\n",
             "[200 OK|Transfer-Encoding=chunked|bck]!PARSE");
    RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX",
             "[200 OK|Transfer-Encoding=chunked|bck]!PROTOCOL");
}

static void test_responses(void **state)
{
    TCI_UNUSED(state);
    RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 204 No Content\r\n\r\n",
             "[200 OK|Content-Length=2|blk]ok;[204 No Content|k];.");
    RESPONSE("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "[200 |Content-Length=0|lk];.");
    RESPONSE("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 \r\nContent-Length: 1\r\n\r\nx",
             "[100 Continue|k];[200 |Content-Length=1|blk]x;.");
    RESPONSE("HTTP/1.1 200 OK\r\n\r\nuntil the end", "[200 OK|b]until the end;.");
    RESPONSE("HTTP/1.1 200 OK\r\n\r\n", "[200 OK|b];.");
    RESPONSE("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
             "[304 Not Modified|Content-Length=7|lk];.");
    expect(TCI_HTTP1_RESPONSE, TCI_HTTP1_NO_BODY,
           TC_STR("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nHTTP/1.1 200 OK\r\n"
                  "Transfer-Encoding: chunked\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
           "[200 OK|Content-Length=7|lk];[200 OK|Transfer-Encoding=chunked|ck];[200 OK|k];.");
}

static void test_end_inside_a_message(void **state)
{
    TCI_UNUSED(state);
    REQUEST("GET / HT", "!PROTOCOL");
    REQUEST("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhell",
            "[POST /|Content-Length=5|blk]hell!PROTOCOL");
    RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
             "[200 OK|Transfer-Encoding=chunked|bck]hello!PROTOCOL");
    RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
             "[200 OK|Transfer-Encoding=chunked|bck]hello!PROTOCOL");
}

static void test_upgrades(void **state)
{
    static const char ask[] =
        "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: x, Upgrade\r\n\r\n";
    TCI_UNUSED(state);
    expect(TCI_HTTP1_REQUEST, TCI_HTTP1_UPGRADE,
           TC_STR("GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: x, Upgrade\r\n\r\nframes"),
           "[GET /ws|Upgrade=websocket|Connection=x, Upgrade|ku]^frames");
    /* not wanted: an ordinary request */
    expect(TCI_HTTP1_REQUEST, 0, tci_str(ask),
           "[GET /ws|Upgrade=websocket|Connection=x, Upgrade|k];.");
    REQUEST("CONNECT a:1 HTTP/1.1\r\n\r\n", "[CONNECT a:1|k];.");
    expect(TCI_HTTP1_REQUEST, TCI_HTTP1_UPGRADE, TC_STR("CONNECT a:1 HTTP/1.1\r\n\r\nx"),
           "[CONNECT a:1|ku]^x");
    expect(TCI_HTTP1_RESPONSE, TCI_HTTP1_UPGRADE,
           TC_STR("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                  "Connection: Upgrade\r\n\r\nxy"),
           "[101 Switching Protocols|Upgrade=websocket|Connection=Upgrade|ku]^xy");
    RESPONSE("HTTP/1.1 101 Switching Protocols\r\n\r\n", "!PROTOCOL");
    expect(TCI_HTTP1_RESPONSE, TCI_HTTP1_UPGRADE | TCI_HTTP1_TO_CONNECT,
           TC_STR("HTTP/1.1 200 OK\r\n\r\ntls"), "[200 OK|u]^tls");
    expect(TCI_HTTP1_RESPONSE, TCI_HTTP1_UPGRADE | TCI_HTTP1_TO_CONNECT,
           TC_STR("HTTP/1.1 407 No\r\nContent-Length: 1\r\n\r\nx"),
           "[407 No|Content-Length=1|blk]x;.");
}

static void test_what_two_readers_could_read_differently(void **state)
{
    static const char *const heads[] = {
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length:",
        "Content-Length: 18446744073709551616",
        "Content-Length : 5",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        ("Transfer-Encoding:\x0b"
         "chunked"),
        "Transfer-Encoding:\r\n chunked",
        "X: a\r\n b",
        "X: a\r\n\tb",
        "X: a\nTransfer-Encoding: chunked",
        "X: a\rTransfer-Encoding: chunked",
        "X: a\r\rY: b",
        "X: a\x01",
        "X\x80: a",
        "X(: a",
        ": a",
        "no colon",
        "Host: a\r\nHost: b",
    };
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(heads); i++) {
        char in[512];
        int n = snprintf(in, sizeof in, "POST / HTTP/1.1\r\n%s\r\n\r\n", heads[i]);
        assert_true(n > 0 && (size_t)n < sizeof in);
        bool is_coding = strstr(heads[i], "ncoding: chunked, chunked") != NULL ||
                         strstr(heads[i], "gzip") != NULL || strstr(heads[i], "identity") != NULL ||
                         strstr(heads[i], "xchunked") != NULL;
        expect(TCI_HTTP1_REQUEST, 0, tci_str(in), is_coding ? "!UNSUPPORTED" : "!PARSE");
    }
    REQUEST("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "!PARSE");
    RESPONSE("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
             "!PARSE");
    RESPONSE("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "!PARSE");
}

static void test_broken_start_lines(void **state)
{
    static const char *const lines[] = {
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET / http/1.1",
        "GET /",
        "GET",
        "G@T / HTTP/1.1",
        "GET /\x7f HTTP/1.1",
        "GET /\xc3\xa9 HTTP/1.1",
        "GET / HTTP/11",
        "get / HTTP/1.1",
        "NOSUCH / HTTP/1.1",
    };
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(lines); i++) {
        char in[128];
        (void)snprintf(in, sizeof in, "%s\r\nHost: a\r\n\r\n", lines[i]); /* fits */
        expect(TCI_HTTP1_REQUEST, 0, tci_str(in), "!PARSE");
    }
    REQUEST("GET / HTTP/2.0\r\n\r\n", "!UNSUPPORTED");
    REQUEST("GET / HTTP/1.2\r\n\r\n", "!UNSUPPORTED");
    REQUEST("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "!UNSUPPORTED");
    REQUEST("\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n", "!PARSE");
    REQUEST("\r\n\r\nGET / HTTP/1.1\r\n\r\n", "[GET /|k];.");
    REQUEST("GET / HTTP/1.1\n\n", "!PARSE");
    RESPONSE("\r\nHTTP/1.1 200 OK\r\n\r\n", "!PARSE");
    RESPONSE("HTTP/1.1 20 OK\r\n\r\n", "!PARSE");
    RESPONSE("HTTP/1.1 2000 OK\r\n\r\n", "!PARSE");
    RESPONSE("HTTP/1.1 099 OK\r\n\r\n", "!PARSE");
    RESPONSE("HTTP/1.1  200 OK\r\n\r\n", "!PARSE");
    RESPONSE("ICY 200 OK\r\n\r\n", "!PARSE");
}

static void test_broken_chunks(void **state)
{
    static const char *const bodies[] = {
        "5 \r\nhello\r\n",
        " 5\r\nhello\r\n",
        "+5\r\nhello\r\n",
        "-5\r\nhello\r\n",
        "0x5\r\nhello\r\n",
        "5\nhello\r\n",
        "5\r\nhello\n0\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhelloX\r\n",
        "\r\nhello\r\n",
        "g\r\nhello\r\n",
        "5;a\nb\r\nhello\r\n",
        "5;a\rb\r\nhello\r\n",
        "5\rhello\r\n",
        "5\r\rhello\r\n",
        "10000000000000000\r\nx",
        "5,\r\nhello\r\n",
        "5;\x01\r\nhello\r\n",
        "0\r\n\nGET / HTTP/1.1\r\n\r\n",
    };
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(bodies); i++) {
        char in[256];
        (void)snprintf(in, sizeof in, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n%s",
                       bodies[i]); /* fits */
        for (size_t at = 0; at <= strlen(in); at++) {
            reader r = {0};
            tc_err err;
            assert_int_equal(tci_http1_new(TCI_HTTP1_REQUEST, &r.h, &err), 0);
            feed(&r, tci_str_sub(tci_str(in), 0, at));
            feed(&r, tci_str_sub(tci_str(in), at, sizeof in));
            if (!r.is_over || strstr(r.out.text, "!PARSE") == NULL)
                fail_msg("accepted: %s as %s", bodies[i], r.out.text);
            tci_http1_free(r.h);
        }
    }
}

/* A head of nheaders fields with values of value_len bytes. */
static size_t make_head(char *out, size_t nheaders, size_t value_len)
{
    static const char start[] = "GET / HTTP/1.1\r\n";
    size_t at = sizeof start - 1;
    memcpy(out, start, at);
    for (size_t i = 0; i < nheaders; i++) {
        memcpy(out + at, "X: ", 3);
        memset(out + at + 3, 'v', value_len);
        memcpy(out + at + 3 + value_len, "\r\n", 2);
        at += value_len + 5;
    }
    memcpy(out + at, "\r\n", 2);
    return at + 2;
}

static int run(const char *in, size_t len, size_t each)
{
    tc_err err = {.code = TC_OK};
    tci_http1 *h = NULL;
    int rc = 0;
    assert_int_equal(tci_http1_new(TCI_HTTP1_REQUEST, &h, &err), 0);
    for (size_t at = 0; at < len && rc == 0;) {
        size_t used = 0;
        tci_http1_event event;
        tc_str body;
        size_t n = each < len - at ? each : len - at;
        rc = tci_http1_next(h, tci_str_of(in + at, n), &used, &event, &body, &err);
        at += rc == 0 ? used : 0;
    }
    tci_http1_free(h);
    return rc;
}

static void test_limits(void **state)
{
    enum { ROOM = 200 * 1024 };
    char *in = malloc(ROOM);
    TCI_UNUSED(state);
    assert_non_null(in);
    assert_int_equal(run(in, make_head(in, 128, 10), 1000), 0);
    assert_int_equal(run(in, make_head(in, 129, 10), 1000), TC_E_TOO_BIG);
    size_t fixed = make_head(in, 0, 0);
    assert_int_equal(run(in, make_head(in, 1, TCI_HTTP1_HEAD_MAX - fixed - 5), 65536), 0);
    assert_int_equal(run(in, make_head(in, 1, TCI_HTTP1_HEAD_MAX - fixed - 5), 1), 0);
    assert_int_equal(run(in, make_head(in, 1, TCI_HTTP1_HEAD_MAX - fixed - 4), 65536),
                     TC_E_TOO_BIG);
    assert_int_equal(run(in, make_head(in, 1, TCI_HTTP1_HEAD_MAX - fixed - 4), 1), TC_E_TOO_BIG);
    memset(in, 'A', ROOM);
    assert_int_equal(run(in, ROOM, ROOM), TC_E_TOO_BIG);
    assert_int_equal(run(in, TCI_HTTP1_HEAD_MAX, 4096), 0);

    /* much beside little body */
    static const char start[] = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    size_t n = sizeof start - 1;
    memcpy(in, start, n);
    memcpy(in + n, "1;", 2);
    memset(in + n + 2, 'x', ROOM - n - 2);
    assert_int_equal(run(in, ROOM, 4096), TC_E_TOO_BIG);
    memset(in + n, '0', ROOM - n);
    assert_int_equal(run(in, ROOM, 4096), TC_E_TOO_BIG);
    size_t at = n;
    while (at < ROOM - 64) {
        memcpy(in + at, "1;aaaaaaaaaaaaaaaa=bbbb\r\nx\r\n", 28);
        at += 28;
    }
    assert_int_equal(run(in, at, 4096), TC_E_TOO_BIG);
    free(in);
}

static void test_emitters(void **state)
{
    tci_buf b;
    tc_err err;
    TCI_UNUSED(state);
    tci_buf_init(&b, 4096);
    tci_http1_put_status(&b, 204);
    assert_int_equal(tci_http1_put_header(&b, TC_STR("X-A"), TC_STR("b\tc"), &err), 0);
    assert_int_equal(tci_http1_put_header(&b, TC_STR("X A"), TC_STR("b"), &err), TC_E_INVALID);
    assert_int_equal(tci_http1_put_header(&b, TC_STR("X"), TC_STR("b\r\nY: c"), &err),
                     TC_E_INVALID);
    assert_int_equal(tci_http1_put_header(&b, TC_STR(""), TC_STR("b"), &err), TC_E_INVALID);
    tci_http1_put_end(&b);
    assert_true(
        tci_str_eq(tci_buf_str(&b), TC_STR("HTTP/1.1 204 No Content\r\nX-A: b\tc\r\n\r\n")));
    tci_buf_clear(&b);
    tci_http1_put_request(&b, TC_STR("POST"), TC_STR("/x"));
    assert_true(tci_str_eq(tci_buf_str(&b), TC_STR("POST /x HTTP/1.1\r\n")));
    tci_buf_done(&b);
    char chunk[TCI_HTTP1_CHUNK_HEAD_MAX];
    size_t n = tci_http1_put_chunk_head(chunk, 262144);
    assert_true(tci_str_eq(tci_str_of(chunk, n), TC_STR("40000\r\n")));
    n = tci_http1_put_chunk_head(chunk, UINT64_MAX);
    assert_true(tci_str_eq(tci_str_of(chunk, n), TC_STR("ffffffffffffffff\r\n")));
    assert_false(tci_http1_target_is_valid(TC_STR("/a b")));
    assert_false(tci_http1_target_is_valid(TC_STR("")));
    assert_true(tci_str_eq(tci_http1_reason(404), TC_STR("Not Found")));
    assert_int_equal(tci_http1_reason(299).len, 0);
}

static void test_header_lookup(void **state)
{
    const tci_http_header headers[] = {
        {TC_STR("A"), TC_STR("1")}, {TC_STR("b"), TC_STR("2")}, {TC_STR("a"), TC_STR("3")}};
    tci_http_head head = {.headers = headers, .nheaders = 3};
    tc_str value;
    size_t count = 9;
    TCI_UNUSED(state);
    assert_true(tci_http_head_get(&head, TC_STR("a"), &value, &count));
    assert_true(tci_str_eq(value, TC_STR("1")));
    assert_int_equal(count, 2);
    assert_true(tci_http_head_get(&head, TC_STR("B"), &value, NULL));
    assert_false(tci_http_head_get(&head, TC_STR("c"), &value, &count));
    assert_int_equal(count, 0);
}

/* A request from its first byte to its end; 0, or the error. */
static int read_request(tc_str in, tc_err *err)
{
    tci_http1 *h;
    if (tci_http1_new(TCI_HTTP1_REQUEST, &h, err) < 0)
        return err->code;
    tci_http1_event event = TCI_HTTP1_MORE;
    int rc = 0;
    while (rc == 0 && event != TCI_HTTP1_END) {
        size_t used = 0;
        tc_str body;
        tc_str piece = tci_str_sub(in, 0, in.len < 7 ? in.len : 7); /* a head in many pieces */
        rc = tci_http1_next(h, piece, &used, &event, &body, err);
        in = tci_str_sub(in, used, in.len);
    }
    tci_http1_free(h);
    return rc;
}

static void test_every_allocation_may_fail(void **state)
{
    TCI_UNUSED(state);
    tc_str in = TC_STR("POST /eip/control HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "5\r\nhello\r\n0\r\n\r\n");
    for (uint64_t n = 1;; n++) {
        tc_err err;
        tci_mem_fail_at(n);
        int rc = read_request(in, &err);
        bool has_failed = tci_mem_count() >= n;
        tci_mem_fail_at(0);
        assert_int_equal(rc, has_failed ? TC_E_NO_MEMORY : 0);
        if (!has_failed)
            break;
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_chunked_bodies),
        cmocka_unit_test(test_responses),
        cmocka_unit_test(test_end_inside_a_message),
        cmocka_unit_test(test_upgrades),
        cmocka_unit_test(test_what_two_readers_could_read_differently),
        cmocka_unit_test(test_broken_start_lines),
        cmocka_unit_test(test_broken_chunks),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_emitters),
        cmocka_unit_test(test_header_lookup),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
