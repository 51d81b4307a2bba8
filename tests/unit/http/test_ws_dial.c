/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning of a WebSocket, both sides of it: our client and our server over TCP, and our client
 * against a server that is written by hand. */
#include "http_peer.h"

#include "net/http_dial.h"
#include "net/httpd.h"
#include "net/tcp.h"
#include "net/ws_dial.h"

#define PROTOCOL TC_STR("eip.v1")

typedef struct rig {
    tci_loop *loop;
    tci_tcp_listener *listener;
    uint16_t port;
    tci_httpd *httpd;
    tci_http_net_dialler dialler;
    tci_http_client *client;
    char url_text[100];
    tci_url url;
    tci_ws_dial *dial;
    tci_ws_dialled result;
    unsigned ndialled;
    tci_ws *ours, *theirs; /* client, server */
    int upgrade_rc;
    char got[2][100]; /* by client, by server */
    tci_ws_end ends[2];
    unsigned nends[2];
    const char *authorization; /* what the server demands; NULL: nothing */
    /* a server by hand */
    tci_stream *raw;
    const char *answer; /* NULL: none; it closes after an empty one */
    tci_buf request;
} rig;

/* ---- the two ends ---- */

static void on_message(tci_ws *ws, tci_ws_kind kind, tc_str bytes, char *own)
{
    rig *r = tci_ws_user(ws);
    (void)snprintf(r->got[ws == r->theirs], sizeof r->got[0], "%c:%.*s",
                   kind == TCI_WS_TEXT ? 'T' : 'B', TC_STR_ARG(bytes));
    tci_free(own);
}

static void on_end(tci_ws *ws, const tci_ws_end *end)
{
    rig *r = tci_ws_user(ws);
    size_t i = ws == r->theirs;
    r->ends[i] = *end;
    r->nends[i]++;
}

static const tci_ws_handler ws_handler = {.on_message = on_message, .on_end = on_end};

static tci_ws_options ws_options(rig *r)
{
    return (tci_ws_options){
        .handler = &ws_handler, .user = r, .max_text_bytes = 1000, .max_binary_bytes = 1000};
}

static void on_head(tci_httpd_req *req)
{
    tc_err err;
    tc_str value = TC_STR("");
    rig *r = tci_httpd_user(tci_httpd_of(req));
    tci_ws_options o = ws_options(r);
    (void)tci_http_head_get(tci_httpd_head(req), TC_STR("authorization"), &value, NULL);
    if (r->authorization != NULL && !tci_str_eq(value, tci_str(r->authorization))) {
        assert_int_equal(tci_httpd_respond(req, 401, NULL, 0, TC_STR(""), &err), 0);
        return;
    }
    r->upgrade_rc = tci_ws_upgrade(req, r->loop, PROTOCOL, &o, &r->theirs, &err);
}

static const tci_httpd_handler httpd_handler = {.on_head = on_head};

static void accept_http(void *user, tci_stream *stream, const tci_addr *from)
{
    rig *r = user;
    TCI_UNUSED(from);
    tci_httpd_accept_own(r->httpd, stream);
}

/* ---- a server by hand ---- */

static void raw_ready(tci_stream *s, unsigned events)
{
    tc_err err;
    rig *r = s->user;
    char bytes[4096];
    size_t n = 0;
    TCI_UNUSED(events);
    if (tci_stream_read(s, bytes, sizeof bytes, &n, &err) < 0) {
        tci_stream_close(s);
        r->raw = NULL;
        return;
    }
    tci_buf_append(&r->request, bytes, n);
    if (r->answer == NULL ||
        tci_str_find(tci_buf_str(&r->request), TC_STR("\r\n\r\n")) == r->request.len)
        return;
    tci_iovec v = {r->answer, strlen(r->answer)};
    if (v.len > 0)
        assert_int_equal(tci_stream_writev(s, &v, 1, &n, &err), 0);
    if (v.len == 0) {
        tci_stream_close(s);
        r->raw = NULL;
    }
}

static void accept_raw(void *user, tci_stream *stream, const tci_addr *from)
{
    tc_err err;
    rig *r = user;
    TCI_UNUSED(from);
    r->raw = stream;
    stream->user = r;
    stream->on_ready = raw_ready;
    assert_int_equal(tci_stream_want(stream, TCI_WATCH_READ, &err), 0);
}

/* ---- the rig ---- */

static void rig_init(rig *r, bool by_hand)
{
    tc_err err;
    tci_addr at;
    memset(r, 0, sizeof *r);
    assert_int_equal(tci_loop_new(&r->loop, &err), 0);
    tci_buf_init(&r->request, TCI_BUF_MAX);
    tci_httpd_options o = {.handler = &httpd_handler, .user = r};
    assert_int_equal(tci_httpd_new(r->loop, &o, &r->httpd, &err), 0);
    assert_int_equal(tci_addr_parse(TC_STR("127.0.0.1:0"), &at, &err), 0);
    assert_int_equal(tci_tcp_listener_open(r->loop, &at, 0, by_hand ? accept_raw : accept_http, r,
                                           &r->listener, &err),
                     0);
    r->port = tci_tcp_listener_addr(r->listener).port;
    tci_http_net_dialler_init(&r->dialler, r->loop, NULL, false, 0);
    tci_http_client_options c = {.dialler = &r->dialler.base};
    assert_int_equal(tci_http_client_new(r->loop, &c, &r->client, &err), 0);
    (void)snprintf(r->url_text, sizeof r->url_text, "ws://127.0.0.1:%u/eip?x=1", r->port);
    assert_int_equal(
        tci_url_parse(tci_str(r->url_text), TCI_URL_PATH | TCI_URL_QUERY, &r->url, &err), 0);
}

static void rig_done(rig *r)
{
    tci_ws_dial_cancel(r->dial);
    tci_ws_free(r->ours);
    tci_ws_free(r->theirs);
    tci_http_client_free(r->client);
    tci_httpd_free(r->httpd);
    tci_tcp_listener_close(r->listener);
    tci_stream_close(r->raw);
    tci_buf_done(&r->request);
    tci_loop_free(r->loop);
}

static void on_dialled(void *user, const tci_ws_dialled *result)
{
    rig *r = user;
    r->dial = NULL;
    r->result = *result;
    r->ours = result->ws;
    r->ndialled++;
}

static void dial(rig *r, int64_t timeout_ms)
{
    tc_err err;
    tci_http_header h = {TC_STR("Authorization"), TC_STR("Bearer me")};
    tci_ws_dial_options o = {.url = &r->url,
                             .subprotocol = PROTOCOL,
                             .headers = &h,
                             .nheaders = 1,
                             .timeout_ms = timeout_ms,
                             .ws = ws_options(r)};
    assert_int_equal(tci_ws_dial_open(r->loop, r->client, &o, on_dialled, r, &r->dial, &err), 0);
    assert_int_equal(r->ndialled, 0);
}

#define UNTIL(r, cond)                                                              \
    do {                                                                            \
        int64_t until_ = tci_clock_mono_ns() + (int64_t)PEER_PATIENCE_MS * 1000000; \
        while (!(cond)) {                                                           \
            tci_loop_turn((r)->loop, 5);                                            \
            assert_true(tci_clock_mono_ns() < until_);                              \
        }                                                                           \
    } while (0)

static void say(tci_ws *ws, tci_ws_kind kind, const char *text)
{
    tc_err err;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, tci_str(text));
    assert_int_equal(tci_ws_send_own(ws, kind, &b, &err), 0);
}

static void client_and_server(void **state)
{
    (void)state;
    rig r;
    rig_init(&r, false);
    r.authorization = "Bearer me";
    dial(&r, 0);
    UNTIL(&r, r.ours != NULL && r.theirs != NULL);
    assert_int_equal(r.upgrade_rc, 0);
    say(r.ours, TCI_WS_TEXT, "there");
    say(r.theirs, TCI_WS_BINARY, "back");
    UNTIL(&r, r.got[0][0] != '\0' && r.got[1][0] != '\0');
    assert_string_equal(r.got[1], "T:there");
    assert_string_equal(r.got[0], "B:back");
    tci_ws_close(r.ours, 1001, TC_STR("enough"));
    UNTIL(&r, r.nends[0] == 1 && r.nends[1] == 1);
    assert_int_equal(r.ends[0].cause, TCI_WS_CLOSED);
    assert_int_equal(r.ends[1].cause, TCI_WS_PEER_CLOSED);
    assert_int_equal(r.ends[1].code, 1001);
    rig_done(&r);
}

static void the_server_refuses(void **state)
{
    (void)state;
    rig r;
    rig_init(&r, false);
    r.authorization = "Bearer somebody else";
    dial(&r, 0);
    UNTIL(&r, r.ndialled == 1);
    assert_null(r.ours);
    assert_int_equal(r.result.status, 401);
    assert_int_equal(r.result.err.code, TC_E_DENIED);
    rig_done(&r);
}

/* The request as a server reads it. */
static void the_request(void **state)
{
    (void)state;
    rig r;
    rig_init(&r, true);
    r.answer = "HTTP/1.1 503 Later\r\nContent-Length: 4\r\n\r\nbusy";
    dial(&r, 0);
    UNTIL(&r, r.ndialled == 1);
    assert_int_equal(r.result.status, 503);
    assert_true(r.result.was_asked);
    tci_buf_append_byte(&r.request, '\0');
    const char *text = r.request.ptr;
    static const char *const lines[] = {
        "GET /eip?x=1 HTTP/1.1\r\n",        "\r\nUpgrade: websocket\r\n",
        "\r\nConnection: Upgrade\r\n",      "\r\nSec-WebSocket-Version: 13\r\n",
        "\r\nSec-WebSocket-Key: ",          "\r\nSec-WebSocket-Protocol: eip.v1\r\n",
        "\r\nAuthorization: Bearer me\r\n", "\r\nHost: 127.0.0.1:"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(lines); i++)
        assert_non_null(strstr(text, lines[i]));
    assert_null(strstr(text, "Extensions"));
    rig_done(&r);
}

static void answers_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        int code;
    } rows[] = {
        {"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
         "Sec-WebSocket-Protocol: eip.v1\r\nSec-WebSocket-Accept: "
         "AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
         TC_E_PROTOCOL},
        {"HTTP/1.1 101 x\r\n\r\n", TC_E_PROTOCOL},
        {"SSH-2.0-x\r\n\r\n", TC_E_PARSE},
        {"", TC_E_CLOSED},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        rig r;
        rig_init(&r, true);
        r.answer = rows[i].answer;
        dial(&r, 0);
        UNTIL(&r, r.ndialled == 1);
        assert_null(r.ours);
        assert_int_equal(r.result.status, 0);
        assert_int_equal(r.result.err.code, rows[i].code);
        assert_true(r.result.was_asked);
        rig_done(&r);
    }
}

static void no_way_and_no_answer(void **state)
{
    (void)state;
    rig r;
    rig_init(&r, true);
    dial(&r, 30);
    UNTIL(&r, r.ndialled == 1);
    assert_int_equal(r.result.err.code, TC_E_TIMEOUT);
    rig_done(&r);

    rig_init(&r, true);
    tci_tcp_listener_close(r.listener);
    r.listener = NULL;
    dial(&r, 0);
    UNTIL(&r, r.ndialled == 1);
    assert_int_equal(r.result.err.code, TC_E_CONNECT);
    assert_false(r.result.was_asked);
    rig_done(&r);
}

static void given_up(void **state)
{
    (void)state;
    rig r;
    rig_init(&r, true);
    dial(&r, 0);
    tci_ws_dial_cancel(r.dial);
    dial(&r, 0);
    UNTIL(&r, r.request.len > 0);
    tci_ws_dial_cancel(r.dial);
    r.dial = NULL;
    UNTIL(&r, r.raw == NULL);
    assert_int_equal(r.ndialled, 0);
    rig_done(&r);
}

/* What is no request for us is answered, and the HTTP server goes on. */
static void requests_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *status;
    } rows[] = {
        {"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: eip.v1\r\n"
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
         "HTTP/1.1 101 "},
        {"Sec-WebSocket-Version: 8\r\n", "HTTP/1.1 426 "},
        {"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: v2\r\n", "HTTP/1.1 400 "},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        rig r;
        peer p;
        char text[500];
        rig_init(&r, false);
        tci_httpd_accept_own(r.httpd, peer_open(&p, r.loop));
        (void)snprintf(
            text, sizeof text,
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n%s\r\n",
            rows[i].fields);
        peer_send(&p, text);
        PEER_UNTIL(&p, peer_contains(&p, "\r\n\r\n"));
        assert_memory_equal(p.got, rows[i].status, strlen(rows[i].status));
        assert_int_equal(strstr(p.got, "Sec-WebSocket-Version: 13") != NULL, i == 1);
        assert_int_equal(r.theirs != NULL, i == 0);
        peer_close(&p);
        rig_done(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client_and_server),
        cmocka_unit_test(the_server_refuses),
        cmocka_unit_test(the_request),
        cmocka_unit_test(answers_that_are_none),
        cmocka_unit_test(no_way_and_no_answer),
        cmocka_unit_test(given_up),
        cmocka_unit_test(requests_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
