/* SPDX-License-Identifier: Apache-2.0
 *
 * The reverse WebSocket carrier and a Host in one process: dialling, back-off, what ends the daemon and
 * what does not, sessions that outlive their connection. Times are short, chance is ours. */
#include "fixture.h"

#include "daemon/carrier/carrier_ws.h"
#include "net/httpd.h"
#include "net/tcp.h"
#include "net/ws.h"
#include "plat/file.h"

#include <stdio.h>

enum { DELAYS_MAX = 32 };

/* A Host, and the daemon that dials it. */
typedef struct host {
    fixture f; /* loop, device, arena, answers */
    tci_ws_carrier *carrier;
    tci_ws_carrier_options options;
    tci_httpd *httpd;
    tci_tcp_listener *listener;
    tci_ws *ws; /* the connection; NULL: none */
    unsigned nconnections, nrequests, nends;
    unsigned status; /* instead of an upgrade */
    char authorization[100];
    tci_ws_end end;
    size_t nframes;
    unsigned ncarrier_ends;
    int end_status;
    char end_message[TC_ERR_MSG_MAX];
    uint64_t delays[DELAYS_MAX]; /* the most each could have been */
    size_t ndelays;
    bool holds_dials; /* delays are as long as can be */
    bool is_poor;     /* memory fails, the Host's too */
} host;

/* ---- the Host's side ---- */

static void on_message(tci_ws *ws, tci_ws_kind kind, tc_str bytes, char *own)
{
    tc_err err;
    tc_str copy;
    host *h = tci_ws_user(ws);
    fixture *f = &h->f;
    assert_int_equal(tci_arena_dup(&f->arena, bytes, &copy, &err), 0);
    tci_free(own);
    if (kind == TCI_WS_TEXT) {
        assert_true(f->nreplies < REPLIES_MAX);
        assert_int_equal(tci_json_parse(copy, 0, &f->arena, &f->replies[f->nreplies++], &err), 0);
    } else {
        assert_true(f->nframes < FRAMES_MAX);
        assert_int_equal(tci_eipd_decode(copy, &f->frames[f->nframes++], &err), 0);
    }
}

static void host_ended(tci_ws *ws, const tci_ws_end *end)
{
    host *h = tci_ws_user(ws);
    h->end = *end;
    h->nends++;
    if (h->ws == ws)
        h->ws = NULL;
    tci_ws_free(ws);
}

static const tci_ws_handler host_handler = {.on_message = on_message, .on_end = host_ended};

static void on_head(tci_httpd_req *req)
{
    tc_err err;
    tc_str value = TC_STR("");
    host *h = tci_httpd_user(tci_httpd_of(req));
    tci_ws_options o = {.handler = &host_handler,
                        .user = h,
                        .max_text_bytes = 1 << 20,
                        .max_binary_bytes = 1 << 23};
    h->nrequests++;
    (void)tci_http_head_get(tci_httpd_head(req), TC_STR("authorization"), &value, NULL);
    (void)snprintf(h->authorization, sizeof h->authorization, "%.*s", TC_STR_ARG(value));
    if (h->status != 0) {
        assert_int_equal(tci_httpd_respond(req, h->status, NULL, 0, TC_STR(""), &err), 0);
        return;
    }
    tci_ws_free(h->ws); /* it has come again: the old one is dead */
    h->ws = NULL;
    if (tci_ws_upgrade(req, h->f.loop, TC_STR("eip.v1"), &o, &h->ws, &err) == 0)
        h->nconnections++;
    else
        assert_true(h->is_poor);
}

static const tci_httpd_handler httpd_handler = {.on_head = on_head};

static void on_accept(void *user, tci_stream *stream, const tci_addr *from)
{
    TCI_UNUSED(from);
    tci_httpd_accept_own(((host *)user)->httpd, stream);
}

static void listen_on(host *h)
{
    tc_err err;
    tci_addr at_any;
    tci_httpd_options o = {.handler = &httpd_handler, .user = h};
    assert_int_equal(tci_httpd_new(h->f.loop, &o, &h->httpd, &err), 0);
    assert_int_equal(tci_addr_parse(TC_STR("127.0.0.1:0"), &at_any, &err), 0);
    assert_int_equal(tci_tcp_listener_open(h->f.loop, &at_any, 0, on_accept, h, &h->listener, &err),
                     0);
    assert_int_equal(tci_arena_printf(&h->f.config.arena, &h->f.config.ws_url, &err,
                                      "ws://127.0.0.1:%u/eip",
                                      tci_tcp_listener_addr(h->listener).port),
                     0);
}

/* ---- the daemon's side ---- */

static uint64_t chance(void *arg, uint64_t max)
{
    host *h = arg;
    if (h->ndelays < DELAYS_MAX)
        h->delays[h->ndelays++] = max;
    return h->holds_dials ? max : 0;
}

static void carrier_ended(void *user, int status, tc_str message)
{
    host *h = user;
    h->carrier = NULL;
    h->ncarrier_ends++;
    h->end_status = status;
    (void)snprintf(h->end_message, sizeof h->end_message, "%.*s", TC_STR_ARG(message));
}

static void put_credential(host *h, const char *text)
{
    tc_err err;
    char path[600];
    FILE *f;
    (void)snprintf(path, sizeof path, "%s/credential", h->f.folder);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    h->f.config.ws_credential_name = TC_STR("A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE");
    assert_int_equal(
        tci_arena_printf(&h->f.config.arena, &h->f.config.ws_credential_file, &err, "%s", path), 0);
}

static void host_prepare(host *h)
{
    tc_err err;
    memset(h, 0, sizeof *h);
    fixture_prepare(&h->f);
    assert_int_equal(tci_loop_new(&h->f.loop, &err), 0);
    listen_on(h);
    put_credential(h, "secret\n");
    h->options.random_upto = chance;
    h->options.arg = h;
}

static void host_start(host *h)
{
    tc_err err;
    assert_int_equal(tci_device_new(h->f.loop, &h->f.config, &h->f.device, &err), 0);
    assert_int_equal(
        tci_ws_carrier_open(h->f.device, &h->options, carrier_ended, h, &h->carrier, &err), 0);
}

/* Make the carrier say that it has ended, and take everything apart. */
static void host_stop(host *h)
{
    fixture *f = &h->f;
    if (h->carrier != NULL)
        tci_ws_carrier_drain(h->carrier);
    wait_until(f, h->ncarrier_ends == 1);
    wait_until(f, f->device->ninflight == 0 && f->device->nsessions == 0 &&
                      tci_loop_pending_jobs(f->loop) == 0);
    tci_ws_free(h->ws);
    tci_httpd_free(h->httpd);
    tci_tcp_listener_close(h->listener);
    tci_device_free(f->device);
    tci_loop_free(f->loop);
    tci_arena_done(&f->config.arena);
    tci_arena_done(&f->arena);
}

/* ---- the conversation ---- */

static void say(host *h, tci_ws_kind kind, const void *bytes, size_t len)
{
    tc_err err;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append(&b, bytes, len);
    assert_non_null(h->ws);
    assert_int_equal(tci_ws_send_own(h->ws, kind, &b, &err), 0);
}

static uint64_t TC_PRINTF(4, 5)
    tell(host *h, const char *session, const char *method, const char *params, ...)
{
    char text[2000], all[2600];
    va_list ap;
    uint64_t id = ++h->f.next_id;
    va_start(ap, params);
    (void)vsnprintf(text, sizeof text, params, ap);
    va_end(ap);
    int n = snprintf(
        all, sizeof all, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"%s\",\"params\":%s%s%s%s}",
        (unsigned long long)id, method, text, session != NULL ? ",\"eip_session\":\"" : "",
        session != NULL ? session : "", session != NULL ? "\"" : "");
    say(h, TCI_WS_TEXT, all, (size_t)n);
    return id;
}

static const tci_json *told(host *h, uint64_t id)
{
    fixture *f = &h->f;
    wait_until(f, is_answered(f, id));
    return answer(f, id);
}

static void initialize(host *h)
{
    assert_ok(told(h, tell(h, NULL, "initialize",
                           "{\"supported_protocol_versions\":[\"0.3\"],\"client\":{\"name\":\"t\","
                           "\"version\":\"1\"}}")));
}

/* The nth connection, initialized. */
static void connected(host *h, unsigned n)
{
    wait_until(&h->f, h->ws != NULL && h->nconnections == n);
    initialize(h);
}

static void open_session(host *h)
{
    fixture *f = &h->f;
    const tci_json *r = told(h, tell(h, NULL, "session.open",
                                     "{\"expected_device_id\":\"device-1\","
                                     "\"expected_generation\":%llu,\"protocol_version\":\"0.3\"}",
                                     (unsigned long long)f->device->generation));
    assert_ok(r);
    (void)snprintf(f->session, sizeof f->session, "%.*s",
                   TC_STR_ARG(text_at(r, "result", "descriptor", "session_id")));
    assert_ok(told(h, tell(h, f->session, "environment.readiness",
                           "{\"context\":{\"operation_id\":\"ready\"}}")));
}

/* Cut the link without a word, and be dialled again. */
static void cut(host *h)
{
    tci_ws *ws = h->ws;
    h->ws = NULL;
    tci_ws_free(ws);
}

static const tci_json *attach(host *h)
{
    return told(h, tell(h, h->f.session, "session.attach", "{}"));
}

/* ---- dialling ---- */

static void back_off_doubles_up_to_its_limit(void **state)
{
    static const uint64_t want[] = {250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000};
    host h;
    (void)state;
    host_prepare(&h);
    h.status = 503;
    host_start(&h);
    wait_until(&h.f, h.ndelays >= TCI_ARRAY_LEN(want));
    for (size_t i = 0; i < TCI_ARRAY_LEN(want); i++)
        assert_int_equal(h.delays[i], want[i]);
    h.status = 0;
    connected(&h, 1);
    size_t n = h.ndelays;
    cut(&h);
    connected(&h, 2);
    assert_int_equal(h.delays[n], 30000); /* that connection was a short one */
    host_stop(&h);
    assert_int_equal(h.end_status, 0);
}

static void back_off_begins_anew_after_a_long_connection(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    h.options.settled_ms = -1;
    h.status = 503;
    host_start(&h);
    wait_until(&h.f, h.ndelays >= 3);
    h.status = 0;
    connected(&h, 1);
    size_t n = h.ndelays;
    cut(&h);
    connected(&h, 2);
    assert_int_equal(h.delays[n], 250);
    host_stop(&h);
}

static void what_a_status_means(void **state)
{
    static const struct {
        unsigned status;
        const char *message; /* NULL: it tries again */
    } rows[] = {
        {401, "reverse WebSocket attachment authorization failed"},
        {403, "reverse WebSocket attachment authorization failed"},
        {302, "reverse WebSocket redirect is forbidden"},
        {200, "reverse WebSocket upgrade was rejected"},
        {404, "reverse WebSocket upgrade was rejected"},
        {501, "reverse WebSocket upgrade was rejected"},
        {408, NULL},
        {425, NULL},
        {429, NULL},
        {500, NULL},
        {502, NULL},
        {503, NULL},
        {504, NULL},
    };
    (void)state;
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        host h;
        host_prepare(&h);
        h.status = rows[i].status;
        host_start(&h);
        wait_until(&h.f, h.ncarrier_ends == 1 || h.nrequests == 2);
        assert_int_equal(h.ncarrier_ends, rows[i].message != NULL);
        host_stop(&h);
        assert_int_equal(h.end_status, rows[i].message != NULL);
        if (rows[i].message != NULL)
            assert_non_null(strstr(h.end_message, rows[i].message));
        assert_null(strstr(h.end_message, "secret"));
    }
}

static void nobody_listens_at_first(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    tci_tcp_listener_close(h.listener);
    h.listener = NULL;
    host_start(&h);
    wait_until(&h.f, h.ndelays >= 2);
    host_stop(&h);
    assert_int_equal(h.end_status, 0);
}

static void the_credential_is_read_before_each_attempt(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    h.status = 503;
    host_start(&h);
    wait_until(&h.f, h.nrequests == 1);
    assert_string_equal(h.authorization, "Bearer secret");
    put_credential(&h, "another");
    wait_until(&h.f, strcmp(h.authorization, "Bearer another") == 0);
    put_credential(&h, "not one");
    wait_until(&h.f, h.ncarrier_ends == 1);
    assert_int_equal(h.end_status, 1);
    assert_non_null(strstr(h.end_message, "A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE must hold"));
    host_stop(&h);
}

/* ---- the first message ---- */

static void nobody_says_initialize(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    h.options.first_message_ms = 20;
    host_start(&h);
    wait_until(&h.f, h.nconnections == 2);
    assert_int_equal(h.ncarrier_ends, 0);
    host_stop(&h);
    assert_int_equal(h.end_status, 0);
}

static void initialize_fails(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    host_start(&h);
    wait_until(&h.f, h.ws != NULL);
    uint64_t id = tell(&h, NULL, "device.describe", "{}");
    assert_error(told(&h, id), "not_initialized"); /* it is told why */
    wait_until(&h.f, h.nends == 1);
    assert_int_equal(h.end.cause, TCI_WS_PEER_CLOSED);
    assert_int_equal(h.end.code, 1005);
    connected(&h, 2);
    host_stop(&h);
    assert_int_equal(h.end_status, 0);
}

static void what_a_host_must_not_send(void **state)
{
    static const struct {
        tci_ws_kind kind;
        bool is_first;
        size_t len;
        const char *message;
    } rows[] = {
        {TCI_WS_BINARY, true, 4, "initialize must be the first EIP WebSocket message"},
        {TCI_WS_BINARY, false, 4, "invalid EIP WebSocket data frame"},
        {TCI_WS_BINARY, false, 0, "invalid EIP WebSocket data frame"},
        {TCI_WS_TEXT, false, 2001, "WebSocket message exceeds its EIP limit"},
        {TCI_WS_BINARY, false, 3001, "WebSocket message exceeds its EIP limit"},
        {TCI_WS_TEXT, true, 2001, "WebSocket message exceeds its EIP limit"},
    };
    char bytes[4000];
    (void)state;
    memset(bytes, ' ', sizeof bytes);
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        host h;
        host_prepare(&h);
        h.f.config.limits.max_request_bytes = 2000;
        h.f.config.limits.max_transfer_frame_bytes = 3000;
        host_start(&h);
        wait_until(&h.f, h.ws != NULL);
        if (!rows[i].is_first)
            initialize(&h);
        say(&h, rows[i].kind, bytes, rows[i].len);
        wait_until(&h.f, h.ncarrier_ends == 1);
        assert_int_equal(h.end_status, 1);
        assert_string_equal(h.end_message, rows[i].message);
        host_stop(&h);
        assert_int_equal(h.nconnections, 1);
    }
}

/* Text that is text, binary that is binary: a request in a binary message is no request. */
static void text_and_binary_are_kept_apart(void **state)
{
    static const char request[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"device.describe\"}";
    host h;
    (void)state;
    host_prepare(&h);
    host_start(&h);
    connected(&h, 1);
    say(&h, TCI_WS_BINARY, request, sizeof request - 1);
    wait_until(&h.f, h.ncarrier_ends == 1);
    assert_string_equal(h.end_message, "invalid EIP WebSocket data frame");
    host_stop(&h);

    host_prepare(&h);
    host_start(&h);
    connected(&h, 1);
    size_t n = h.f.nreplies;
    say(&h, TCI_WS_TEXT, "EIPD", 4);
    wait_until(&h.f, h.f.nreplies == n + 1);
    assert_error(&h.f.replies[n], "parse_error");
    assert_ok(told(&h, tell(&h, NULL, "device.describe", "{}")));
    host_stop(&h);
    assert_int_equal(h.end_status, 0);
}

/* ---- sessions and lost connections ---- */

static void a_session_is_attached_again(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    host_start(&h);
    connected(&h, 1);
    open_session(&h);
    const char *s = h.f.session;
    const tci_json *r = told(
        &h,
        tell(&h, s, "process.start",
             "{\"context\":{\"operation_id\":\"start\"},\"request\":{\"command\":{\"kind\":"
             "\"shell\",\"profile_id\":\"default\",\"script\":\"echo before; cat; echo end\"}}}"));
    assert_ok(r);
    char process[64], output[64];
    const tci_json *info = at(r, "result", "process", NULL);
    (void)snprintf(process, sizeof process, "%.*s",
                   TC_STR_ARG(text_at(info, "handle", NULL, NULL)));
    (void)snprintf(output, sizeof output, "%.*s",
                   TC_STR_ARG(text_at(info, "output", "stdout", "reference")));
    cut(&h);
    connected(&h, 2);
    /* Not before it is attached. */
    assert_error(
        told(&h, tell(&h, s, "environment.describe", "{\"context\":{\"operation_id\":\"early\"}}")),
        "not_initialized");
    r = attach(&h);
    assert_ok(r);
    assert_str(text_at(r, "result", "descriptor", "session_id"), s);
    assert_ok(attach(&h)); /* by its owner once more */
    assert_ok(
        told(&h, tell(&h, s, "process.close_stdin",
                      "{\"context\":{\"operation_id\":\"eof\"},\"handle\":\"%s\"}", process)));
    r = told(&h, tell(&h, s, "process.wait",
                      "{\"context\":{\"operation_id\":\"wait\"},\"handle\":\"%s\",\"condition\":"
                      "\"tree_cleaned\"}",
                      process));
    assert_ok(r);
    r = told(
        &h,
        tell(&h, s, "output.read",
             "{\"context\":{\"operation_id\":\"read\"},\"reference\":\"%s\",\"start_offset\":7}",
             output));
    assert_ok(r); /* from where the reader was */
    assert_int_equal(h.f.device->nsessions, 1);
    host_stop(&h);
    assert_int_equal(h.end_status, 0);
}

static void nobody_attaches_in_time(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    h.f.config.disconnect_grace_ms = 20;
    host_start(&h);
    connected(&h, 1);
    open_session(&h);
    cut(&h);
    wait_until(&h.f, h.f.device->nsessions == 0);
    connected(&h, 2);
    assert_error(attach(&h), "not_initialized");
    host_stop(&h);
}

/* A session that is attached in time has all the time in the world again. */
static void attaching_ends_the_grace(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    host_start(&h);
    connected(&h, 1);
    open_session(&h);
    const tci_session *session = tci_session_find(h.f.device, tci_str(h.f.session));
    cut(&h);
    wait_until(&h.f, tci_timer_is_armed(&session->grace));
    connected(&h, 2);
    assert_ok(attach(&h));
    assert_false(tci_timer_is_armed(&session->grace));
    host_stop(&h);
}

static void case_63_a_silent_host_is_noticed(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    h.options.ping_interval_ms = 10;
    h.options.pong_timeout_ms = 1000;
    host_start(&h);
    connected(&h, 1);
    open_session(&h);
    tci_ws_pause(h.ws); /* it neither reads nor answers, and its end of the link stays open */
    wait_until(&h.f, h.nconnections == 2 && h.ws != NULL);
    initialize(&h);
    assert_ok(attach(&h));
    host_stop(&h);
    assert_int_equal(h.end_status, 0);
}

static void transfers_end_with_their_connection(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    host_start(&h);
    connected(&h, 1);
    open_session(&h);
    const char *s = h.f.session;
    const tci_json *r = told(&h, tell(&h, s, "file.open_writer",
                                      "{\"context\":{\"operation_id\":\"w\"},\"path\":{\"path\":"
                                      "\"%s/new\"},\"mode\":\"create\"}",
                                      h.f.folder));
    assert_ok(r);
    char writer[64];
    (void)snprintf(writer, sizeof writer, "%.*s", TC_STR_ARG(text_at(r, "result", "writer", NULL)));
    char frame[300];
    tci_eipd e = {.kind = TCI_EIPD_ATTACH, .session = tci_str(s), .handle = tci_str(writer)};
    say(&h, TCI_WS_BINARY, frame, tci_eipd_put_head(&e, frame));
    wait_until(&h.f, h.f.nframes == 1);
    assert_int_equal(h.f.frames[0].kind, TCI_EIPD_ATTACHED);
    e.kind = TCI_EIPD_CHUNK;
    e.payload = TC_STR("content");
    size_t head = tci_eipd_put_head(&e, frame);
    memcpy(frame + head, "content", 7);
    say(&h, TCI_WS_BINARY, frame, head + 7);
    wait_until(&h.f, h.f.nframes == 2);
    assert_int_equal(h.f.frames[1].kind, TCI_EIPD_CREDIT);
    assert_int_equal(h.f.frames[1].offset, 7);
    cut(&h);
    connected(&h, 2);
    assert_ok(attach(&h));
    wait_until(&h.f, h.f.device->ntransfers == 0);
    r = told(&h,
             tell(&h, s, "file.commit_writer",
                  "{\"context\":{\"operation_id\":\"c\"},\"writer\":\"%s\",\"transferred_bytes\":7,"
                  "\"transfer_digest\":{\"algorithm\":\"sha256\",\"value\":\"%064d\"}}",
                  writer, 0));
    assert_error(r, "invalid_handle");
    host_stop(&h);
}

/* What waits is dropped after its second; what is only looked at goes on. */
static void requests_in_flight(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    h.options.in_flight_ms = 20;
    host_start(&h);
    connected(&h, 1);
    open_session(&h);
    const char *s = h.f.session;
    (void)tell(&h, s, "shell.exec",
               "{\"context\":{\"operation_id\":\"long\"},\"request\":{\"command\":{\"kind\":"
               "\"shell\",\"profile_id\":\"default\",\"script\":\"exec sleep 600\"}}}");
    wait_until(&h.f, h.f.device->nprocesses == 1 && h.f.device->ninflight == 1);
    size_t n = h.f.nreplies;
    cut(&h);
    wait_until(&h.f, h.f.device->ninflight == 0);
    connected(&h, 2);
    assert_ok(attach(&h));
    assert_int_equal(h.f.nreplies,
                     n + 2); /* nothing of the old connection comes over the new one */
    const tci_json *r = told(&h, tell(&h, s, "receipt.get",
                                      "{\"context\":{\"operation_id\":\"ask\"},\"operation_id\":"
                                      "\"long\"}"));
    assert_ok(r);
    assert_str(text_at(r, "result", "receipt", "outcome"), "cancelled");
    host_stop(&h);
}

/* ---- the end ---- */

static void a_signal_ends_it_in_good_order(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    host_start(&h);
    connected(&h, 1);
    open_session(&h);
    uint64_t id =
        tell(&h, h.f.session, "shell.exec",
             "{\"context\":{\"operation_id\":\"long\"},\"request\":{\"command\":{\"kind\":"
             "\"shell\",\"profile_id\":\"default\",\"script\":\"exec sleep 600\"}}}");
    wait_until(&h.f, h.f.device->nprocesses == 1);
    tci_ws_carrier_drain(h.carrier);
    wait_until(&h.f, h.ncarrier_ends == 1);
    assert_int_equal(h.end_status, 0);
    wait_until(&h.f, h.nends == 1);
    assert_int_equal(h.end.cause, TCI_WS_PEER_CLOSED);
    assert_int_equal(h.end.code, 1005);
    assert_true(is_answered(&h.f, id)); /* what was under way is answered first */
    host_stop(&h);
}

static void a_signal_while_dialling(void **state)
{
    host h;
    (void)state;
    host_prepare(&h);
    host_start(&h);
    host_stop(&h); /* before the first attempt's files are read */
    assert_int_equal(h.end_status, 0);

    host_prepare(&h);
    h.holds_dials = true;
    h.status = 503;
    host_start(&h);
    wait_until(&h.f, h.ndelays == 1);
    host_stop(&h);
    assert_int_equal(h.end_status, 0);
    assert_int_equal(h.nrequests, 1);
}

/* Every allocation from the nth on fails while it dials, until it has come through, given up, or begun
 * anew: then it either ends and says why, or is there when memory is. */
static void memory_runs_out_while_dialling(void **state)
{
    (void)state;
    for (size_t n = 1; n < 80; n++) {
        host h;
        tc_err err;
        host_prepare(&h);
        h.is_poor = true;
        assert_int_equal(tci_device_new(h.f.loop, &h.f.config, &h.f.device, &err), 0);
        tci_mem_fail_at(n);
        int rc = tci_ws_carrier_open(h.f.device, &h.options, carrier_ended, &h, &h.carrier, &err);
        for (int i = 0;
             i < 300 && rc == 0 && h.ncarrier_ends == 0 && h.ndelays < 2 && h.nconnections == 0;
             i++)
            tci_loop_turn(h.f.loop, 5);
        tci_mem_fail_at(0);
        h.is_poor = false;
        if (rc < 0)
            h.ncarrier_ends = 1;
        wait_until(&h.f, h.ncarrier_ends == 1 || h.ws != NULL);
        if (rc == 0 && h.ncarrier_ends == 1)
            assert_string_equal(h.end_message, "out of memory");
        host_stop(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(back_off_doubles_up_to_its_limit),
        cmocka_unit_test(back_off_begins_anew_after_a_long_connection),
        cmocka_unit_test(what_a_status_means),
        cmocka_unit_test(nobody_listens_at_first),
        cmocka_unit_test(the_credential_is_read_before_each_attempt),
        cmocka_unit_test(nobody_says_initialize),
        cmocka_unit_test(initialize_fails),
        cmocka_unit_test(what_a_host_must_not_send),
        cmocka_unit_test(text_and_binary_are_kept_apart),
        cmocka_unit_test(a_session_is_attached_again),
        cmocka_unit_test(nobody_attaches_in_time),
        cmocka_unit_test(attaching_ends_the_grace),
        cmocka_unit_test(case_63_a_silent_host_is_noticed),
        cmocka_unit_test(transfers_end_with_their_connection),
        cmocka_unit_test(requests_in_flight),
        cmocka_unit_test(a_signal_ends_it_in_good_order),
        cmocka_unit_test(a_signal_while_dialling),
        cmocka_unit_test(memory_runs_out_while_dialling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
