/* SPDX-License-Identifier: Apache-2.0
 *
 * WebSocket frames and handshake: every rule, and the same answer however the input is cut. */
#include "wire/ws.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { INPUT_MAX = 200000, NOTE_MAX = 4096, MAX_TEXT = 1000, MAX_BINARY = 70000 };

/* What came out, as text. */
typedef struct notes {
    char text[NOTE_MAX];
    size_t len;
} notes;

static void TC_PRINTF(2, 3) note(notes *n, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(n->text + n->len, sizeof n->text - n->len, fmt, ap);
    va_end(ap);
    assert_true(len >= 0 && (size_t)len < sizeof n->text - n->len);
    n->len += (size_t)len;
}

/* A user of the reader: gathers messages, writes down what comes. */
typedef struct user {
    tci_ws_reader r;
    char message[INPUT_MAX];
    size_t len;
    bool failed;
    notes out;
} user;

static void message_over(user *u)
{
    if (!u->r.is_last)
        return;
    note(&u->out, "%c%zu:%.*s;", u->r.kind == TCI_WS_TEXT ? 'T' : 'B', u->len,
         (int)(u->len < 40 ? u->len : 40), u->message);
    u->len = 0;
}

static void event(user *u, tci_ws_event e)
{
    switch (e) {
    case TCI_WS_MORE:
        break;
    case TCI_WS_FRAME:
        if (u->r.frame_left == 0)
            message_over(u);
        break;
    case TCI_WS_PING:
    case TCI_WS_PONG:
        note(&u->out, "%s:%.*s;", e == TCI_WS_PING ? "ping" : "pong", u->r.control_len,
             u->r.control);
        break;
    case TCI_WS_CLOSE:
        note(&u->out, "close%u:%.*s;", u->r.close_code, TC_STR_ARG(u->r.close_reason));
        break;
    }
}

static void feed(user *u, tc_str piece)
{
    tc_err err;
    while (piece.len > 0 && !u->failed) {
        size_t used;
        tci_ws_event e;
        if (u->r.frame_left > 0) {
            size_t n = u->r.frame_left < piece.len ? (size_t)u->r.frame_left : piece.len;
            memcpy(u->message + u->len, piece.ptr, n);
            tci_ws_payload(&u->r, u->message + u->len, n);
            u->len += n;
            piece = tci_str_sub(piece, n, piece.len);
            if (u->r.frame_left == 0)
                message_over(u);
            continue;
        }
        if (tci_ws_next(&u->r, piece, &used, &e, &err) < 0) {
            note(&u->out, "!%u %s", u->r.violation, tc_code_name((int)err.code));
            u->failed = true;
            return;
        }
        assert_true(used <= piece.len && (used > 0 || e != TCI_WS_MORE));
        piece = tci_str_sub(piece, used, piece.len);
        event(u, e);
    }
}

static user *new_user(tci_ws_role role)
{
    user *u = calloc(1, sizeof *u);
    assert_non_null(u);
    tci_ws_reader_init(&u->r, role, MAX_TEXT, MAX_BINARY);
    return u;
}

static void check_cut(tci_ws_role role, tc_str in, size_t first, size_t step, const char *want)
{
    user *u = new_user(role);
    feed(u, tci_str_sub(in, 0, first));
    for (size_t at = first; at < in.len; at += step)
        feed(u, tci_str_sub(in, at, step));
    assert_string_equal(u->out.text, want);
    free(u);
}

/* Whole, cut in two at every byte, and byte by byte. */
static void check(tci_ws_role role, tc_str in, const char *want)
{
    check_cut(role, in, in.len, in.len, want);
    if (in.len < 2000) {
        for (size_t cut = 0; cut <= in.len; cut++)
            check_cut(role, in, cut, in.len, want);
        check_cut(role, in, 0, 1, want);
    }
    check_cut(role, in, 0, 7, want);
}

#define BYTES(literal) tci_str_of("" literal, sizeof(literal) - 1)

/* ---- frames ---- */

static void samples_of_the_standard(void **state)
{
    (void)state;
    /* RFC 6455 section 5.7 */
    check(TCI_WS_CLIENT, BYTES("\x81\x05Hello"), "T5:Hello;");
    check(TCI_WS_SERVER, BYTES("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), "T5:Hello;");
    check(TCI_WS_CLIENT, BYTES("\x01\x03Hel\x80\x02lo"), "T5:Hello;");
    check(TCI_WS_CLIENT, BYTES("\x89\x05Hello"), "ping:Hello;");
    check(TCI_WS_SERVER, BYTES("\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), "pong:Hello;");
}

static void control_frames_between_fragments(void **state)
{
    (void)state;
    check(TCI_WS_CLIENT,
          BYTES("\x01\x02"
                "ab\x89\x01p\x00\x00\x8a\x00\x00\x01"
                "c\x80\x01"
                "d\x82\x00\x88\x05\x03\xe8"
                "bye"),
          "ping:p;pong:;T4:abcd;B0:;close1000:bye;");
    check(TCI_WS_SERVER,
          BYTES("\x01\x81\0\0\0\1`\x89\x81\1\0\0\0q\x80\x81\0\0\0\0b\x88\x80\0\0\0\0"),
          "ping:p;T2:`b;close1005:;");
}

static void lengths_of_every_kind(void **state)
{
    (void)state;
    static const size_t lens[] = {0, 1, 125, 126, 127, 1000, 65535, 65536, MAX_BINARY};
    const uint8_t mask[4] = {0x12, 0, 0xff, 0x80};
    char *in = malloc(INPUT_MAX), want[80];
    assert_non_null(in);
    for (size_t i = 0; i < TCI_ARRAY_LEN(lens); i++) {
        for (int masked = 0; masked < 2; masked++) {
            size_t head =
                tci_ws_put_head(in, TCI_WS_OP_BINARY, true, lens[i], masked ? mask : NULL);
            memset(in + head, 'x', lens[i]);
            if (masked)
                tci_ws_mask(in + head, in + head, lens[i], mask, 0);
            (void)snprintf(want, sizeof want, "B%zu:%.*s;", lens[i],
                           (int)(lens[i] < 40 ? lens[i] : 40),
                           "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
            user *u = new_user(masked ? TCI_WS_SERVER : TCI_WS_CLIENT);
            feed(u, tci_str_of(in, head + lens[i]));
            assert_memory_equal(u->out.text, want, strlen(want) < 30 ? strlen(want) : 30);
            assert_true(tci_ws_reader_is_between(&u->r));
            free(u);
        }
    }
    free(in);
}

static void what_breaks_the_protocol(void **state)
{
    (void)state;
    static const struct {
        tci_ws_role role;
        tc_str in;
    } rows[] = {
#define ROW(role, literal)                  \
    {                                       \
        TCI_WS_##role,                      \
        {                                   \
            "" literal, sizeof(literal) - 1 \
        }                                   \
    }
        ROW(CLIENT, "\xc1\x00"), /* reserved bits */
        ROW(CLIENT, "\xa1\x00"),
        ROW(CLIENT, "\x91\x00"),
        ROW(CLIENT, "\x83\x00"), /* reserved kinds */
        ROW(CLIENT, "\x8b\x00"),
        ROW(CLIENT, "\x8f\x00"),
        ROW(CLIENT, "\x81\x80\0\0\0\0"), /* a mask from the server */
        ROW(SERVER, "\x81\x00"),         /* none from the client */
        ROW(CLIENT, "\x09\x00"),         /* control in fragments */
        ROW(CLIENT, "\x89\x7e\x00\x7e"), /* control too long */
        ROW(CLIENT, "\x80\x00"),         /* continues nothing */
        ROW(CLIENT, "\x01\x00\x81\x00"), /* a message inside another */
        ROW(CLIENT, "\x01\x00\x02\x00"),
        ROW(CLIENT, "\x81\x7e\x00\x7d"), /* not the shortest */
        ROW(CLIENT, "\x82\x7f\0\0\0\0\0\0\xff\xff"),
        ROW(CLIENT, "\x82\x7f\x80\0\0\0\0\0\0\0"),
        ROW(CLIENT, "\x88\x01\x03"),     /* half a code */
        ROW(CLIENT, "\x88\x02\x03\xed"), /* 1005 */
        ROW(CLIENT, "\x88\x02\x03\xee"), /* 1006 */
        ROW(CLIENT, "\x88\x02\x03\xe7"), /* 999 */
        ROW(CLIENT, "\x88\x02\x0b\xb7"), /* 2999 */
        ROW(CLIENT, "\x88\x02\x13\x88"), /* 5000 */
#undef ROW
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        user *u = new_user(rows[i].role);
        feed(u, rows[i].in);
        assert_string_equal(u->out.text, "!1002 PROTOCOL");
        free(u);
        check(rows[i].role, rows[i].in, "!1002 PROTOCOL");
    }
    check(TCI_WS_CLIENT, BYTES("\x88\x03\x03\xe8\xff"), "!1007 PROTOCOL");
    check(TCI_WS_CLIENT, BYTES("\x88\x00\x81\x00"), "close1005:;!1002 PROTOCOL");
}

/* A limit is known from the header: not one byte of the payload is waited for. */
static void limits_by_kind(void **state)
{
    (void)state;
    check(TCI_WS_CLIENT, BYTES("\x81\x7e\x03\xe9"), "!1009 TOO_BIG");
    check(TCI_WS_CLIENT, BYTES("\x82\x7f\0\0\0\0\0\1\x11\x71"), "!1009 TOO_BIG");
    check(TCI_WS_CLIENT, BYTES("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff"), "!1009 TOO_BIG");
    user *u = new_user(TCI_WS_CLIENT);
    feed(u, BYTES("\x82\x7f\0\0\0\0\0\1\x11\x70"));
    assert_int_equal(u->r.frame_left, MAX_BINARY);
    free(u);
    /* All fragments together. */
    u = new_user(TCI_WS_CLIENT);
    char part[4 + 500] = "\x01\x7e\x01\xf4";
    memset(part + 4, 'y', 500);
    feed(u, tci_str_of(part, sizeof part));
    part[0] = 0;
    feed(u, tci_str_of(part, sizeof part));
    assert_string_equal(u->out.text, "");
    feed(u, BYTES("\x80\x01"));
    assert_string_equal(u->out.text, "!1009 TOO_BIG");
    free(u);
}

static void masks_at_every_offset(void **state)
{
    (void)state;
    const uint8_t mask[4] = {1, 2, 4, 8};
    char in[64], whole[64], parts[64];
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (char)(i * 37);
    tci_ws_mask(whole, in, sizeof in, mask, 0);
    for (size_t i = 0; i < sizeof in; i++)
        assert_int_equal((uint8_t)whole[i], (uint8_t)in[i] ^ mask[i % 4]);
    for (size_t cut = 0; cut <= sizeof in; cut++) {
        tci_ws_mask(parts, in, cut, mask, 0);
        tci_ws_mask(parts + cut, in + cut, sizeof in - cut, mask, cut);
        assert_memory_equal(parts, whole, sizeof whole);
    }
}

static void close_payloads(void **state)
{
    (void)state;
    char out[TCI_WS_CONTROL_MAX], many[200];
    memset(many, 'a', sizeof many);
    memcpy(many + 122, "\xc3\xa9", 2); /* would be cut in half */
    assert_int_equal(tci_ws_put_close(out, TCI_WS_CODE_NONE, TC_STR("x")), 0);
    assert_int_equal(tci_ws_put_close(out, 1000, TC_STR("bye")), 5);
    assert_memory_equal(out,
                        "\x03\xe8"
                        "bye",
                        5);
    assert_int_equal(tci_ws_put_close(out, 4999, tci_str_of(many, sizeof many)), 124);
}

/* ---- handshake ---- */

static void key_and_accept(void **state)
{
    (void)state;
    char accept[TCI_WS_ACCEPT_LEN], key[TCI_WS_KEY_LEN];
    uint8_t random[16];
    for (size_t i = 0; i < sizeof random; i++)
        random[i] = (uint8_t)(i + 1);
    /* RFC 6455 sections 1.3 and 4.1 */
    tci_ws_accept_of("dGhlIHNhbXBsZSBub25jZQ==", accept);
    assert_memory_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", sizeof accept);
    tci_ws_key(random, key);
    assert_memory_equal(key, "AQIDBAUGBwgJCgsMDQ4PEA==", sizeof key);
}

typedef struct heads {
    tci_http1 *reader;
    const tci_http_head *head;
} heads;

static heads parse_head(tci_http1_type type, const char *text)
{
    heads h = {0};
    tc_err err;
    tci_http1_event event_;
    size_t used;
    tc_str body, in = tci_str(text);
    assert_int_equal(tci_http1_new(type, &h.reader, &err), 0);
    tci_http1_set_flags(h.reader, TCI_HTTP1_UPGRADE);
    do {
        assert_int_equal(tci_http1_next(h.reader, in, &used, &event_, &body, &err), 0);
        in = tci_str_sub(in, used, in.len);
    } while (event_ != TCI_HTTP1_HEAD);
    h.head = tci_http1_head(h.reader);
    return h;
}

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define UP "Upgrade: websocket\r\n"
#define CON "Connection: keep-alive, Upgrade\r\n"
#define ACCEPT "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
#define PROTO "Sec-WebSocket-Protocol: eip.v1\r\n"

static void answers(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        const char *fault; /* NULL: none */
    } rows[] = {
        {UP CON ACCEPT PROTO, NULL},
        {"upgrade: WebSocket\r\nconnection: upgrade\r\n" ACCEPT PROTO, NULL},
        {CON ACCEPT PROTO, "upgrade"},
        {"Upgrade: h2c\r\n" CON ACCEPT PROTO, "upgrade"},
        {UP UP CON ACCEPT PROTO, "upgrade"},
        {UP ACCEPT PROTO, "Connection"},
        {UP "Connection: close\r\n" ACCEPT PROTO, "Connection"},
        {UP CON PROTO, "Accept"},
        {UP CON ACCEPT ACCEPT PROTO, "Accept"},
        {UP CON "Sec-WebSocket-Accept: S3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" PROTO, "Accept"},
        {UP CON ACCEPT, "subprotocol"},
        {UP CON ACCEPT PROTO PROTO, "subprotocol"},
        {UP CON ACCEPT "Sec-WebSocket-Protocol: EIP.v1\r\n", "subprotocol"},
        {UP CON ACCEPT "Sec-WebSocket-Protocol: eip.v1, x\r\n", "subprotocol"},
        {UP CON ACCEPT PROTO "Sec-WebSocket-Extensions: permessage-deflate\r\n", "extension"},
        {UP CON ACCEPT PROTO "Sec-WebSocket-Extensions:\r\n", "extension"},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        tc_err err;
        char text[1024];
        (void)snprintf(text, sizeof text, "HTTP/1.1 101 Switching Protocols\r\n%s\r\n",
                       rows[i].fields);
        heads h = parse_head(TCI_HTTP1_RESPONSE, text);
        int rc = tci_ws_check_answer(h.head, KEY, TC_STR("eip.v1"), &err);
        assert_int_equal(rc, rows[i].fault == NULL ? 0 : TC_E_PROTOCOL);
        if (rows[i].fault != NULL)
            assert_non_null(strstr(err.msg, rows[i].fault));
        tci_http1_free(h.reader);
    }
}

#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define KEYED "Sec-WebSocket-Key: " KEY "\r\n"

static void requests(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *fields;
        unsigned status; /* 0: fine */
    } rows[] = {
        {"GET /x HTTP/1.1", UP CON VERSION KEYED PROTO, 0},
        {"GET /x HTTP/1.1", UP CON VERSION KEYED "Sec-WebSocket-Protocol: a, eip.v1\r\n", 0},
        {"GET /x HTTP/1.1", UP CON VERSION KEYED "Sec-WebSocket-Protocol: a\r\n" PROTO, 0},
        {"GET /x HTTP/1.1",
         UP CON VERSION KEYED PROTO "Sec-WebSocket-Extensions: permessage-deflate\r\n", 0},
        {"POST /x HTTP/1.1", UP CON VERSION KEYED PROTO, 405},
        {"GET /x HTTP/1.0", UP CON VERSION KEYED PROTO, 400},
        {"GET /x HTTP/1.1", CON VERSION KEYED PROTO, 400},
        {"GET /x HTTP/1.1", UP VERSION KEYED PROTO, 400},
        {"GET /x HTTP/1.1", UP CON KEYED PROTO, 426},
        {"GET /x HTTP/1.1", UP CON "Sec-WebSocket-Version: 8\r\n" KEYED PROTO, 426},
        {"GET /x HTTP/1.1", UP CON VERSION KEYED, 400},
        {"GET /x HTTP/1.1", UP CON VERSION KEYED "Sec-WebSocket-Protocol: EIP.v1\r\n", 400},
        {"GET /x HTTP/1.1", UP CON VERSION PROTO, 400},
        {"GET /x HTTP/1.1", UP CON VERSION KEYED KEYED PROTO, 400},
        {"GET /x HTTP/1.1", UP CON VERSION PROTO "Sec-WebSocket-Key: AAAA\r\n", 400},
        {"GET /x HTTP/1.1", UP CON VERSION PROTO "Sec-WebSocket-Key: !GhlIHNhbXBsZSBub25jZQ==\r\n",
         400},
        {"GET /x HTTP/1.1", UP CON VERSION PROTO "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR==\r\n",
         400},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        tc_err err;
        unsigned status = 0;
        char text[1024], key[TCI_WS_KEY_LEN];
        (void)snprintf(text, sizeof text, "%s\r\nHost: a\r\n%s\r\n", rows[i].line, rows[i].fields);
        heads h = parse_head(TCI_HTTP1_REQUEST, text);
        int rc = tci_ws_check_request(h.head, TC_STR("eip.v1"), key, &status, &err);
        assert_int_equal(rc, rows[i].status == 0 ? 0 : TC_E_PROTOCOL);
        assert_int_equal(status, rows[i].status);
        if (rc == 0)
            assert_memory_equal(key, KEY, sizeof key);
        tci_http1_free(h.reader);
    }
}

/* What one half writes the other half takes. */
static void our_answer_is_an_answer(void **state)
{
    (void)state;
    tc_err err;
    tci_buf b;
    tci_buf_init(&b, 1000);
    tci_ws_put_answer(&b, KEY, TC_STR("eip.v1"));
    tci_buf_append_byte(&b, '\0');
    heads h = parse_head(TCI_HTTP1_RESPONSE, b.ptr);
    assert_int_equal(h.head->status, 101);
    assert_int_equal(tci_ws_check_answer(h.head, KEY, TC_STR("eip.v1"), &err), 0);
    tci_http1_free(h.reader);
    tci_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_of_the_standard),
        cmocka_unit_test(control_frames_between_fragments),
        cmocka_unit_test(lengths_of_every_kind),
        cmocka_unit_test(what_breaks_the_protocol),
        cmocka_unit_test(limits_by_kind),
        cmocka_unit_test(masks_at_every_offset),
        cmocka_unit_test(close_payloads),
        cmocka_unit_test(key_and_accept),
        cmocka_unit_test(answers),
        cmocka_unit_test(requests),
        cmocka_unit_test(our_answer_is_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
