/* SPDX-License-Identifier: Apache-2.0
 *
 * EIP through a Host, with a scripted device: what passes and what does not, what is said of a request without an
 * answer, windows and resets of content, and sessions over a link that comes back. */
#include "hosted.h"

#include "host/eip/eip.h"
#include "plat/fd.h"

#include <sys/socket.h>

#define JSON "Content-Type: application/json\r\n"
#define SESSION "session-t-1"
#define OPEN "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"session.open\",\"params\":{}}"
#define IN_SESSION(id, method, params)                                                        \
    "{\"eip_session\":\"" SESSION "\",\"id\":" id ",\"jsonrpc\":\"2.0\",\"method\":\"" method \
    "\",\"params\":" params "}"

static void assert_asked(const hosted *h, const char *body, int status, const char *part)
{
    answer a;
    hosted_ask(h, body, &a);
    if (a.status != status || !a.is_whole || strstr(a.body.ptr, part) == NULL)
        fail_msg("%s: %d %s", body, a.status, a.body.ptr);
    answer_done(&a);
}

/* What the Host has of its one device, as the loop sees it. */
typedef struct seen {
    const hosted *h;
    size_t nasks, nxfers, nsessions, nover, nexchanges;
} seen;

static void look_on_loop(void *arg)
{
    seen *s = arg;
    s->nexchanges = s->h->host->eip->nexchanges;
    TCI_LIST_EACH (&s->h->host->eip->remotes, k) {
        const tci_relay *r = &TCI_CONTAINER(k, tci_eip_remote, link)->relay;
        s->nasks = r->nasks;
        s->nxfers = r->nxfers;
        s->nsessions = r->nsessions;
        s->nover = r->nover;
    }
}

static seen look(const hosted *h)
{
    seen s = {.h = h};
    assert_true(tci_runtime_run(h->rt, look_on_loop, &s));
    return s;
}

/* ---- the door ---- */

static void play_nothing(peer *p)
{
    bool is_data;
    if (!peer_initialize(p))
        return;
    while (peer_next(p, &is_data))
        peer_fail(p, "something has come through");
}

static const struct {
    const char *method, *what, *more, *body;
    int status;
    const char *code;
} doors[] = {
    {"GET", "control", JSON, "", 405, "method_not_allowed"},
    {"DELETE", "control", JSON, "", 405, "method_not_allowed"},
    {"POST", "nothing", JSON, "{}", 404, "not_found"},
    {"POST", "control?", JSON, "{}", 400, "invalid_request"},
    {"POST", "control", JSON "Authorization: Bearer x\r\n", "{}", 401, "unauthenticated"},
    {"POST", "control", JSON "Cookie: a=b\r\n", "{}", 400, "invalid_request"},
    {"POST", "control", JSON "Content-Encoding: gzip\r\n", "{}", 400, "invalid_request"},
    {"POST", "control", "", "{}", 415, "unsupported_media_type"},
    {"POST", "control", "Content-Type: application/json; charset=utf-8\r\n", "{}", 415,
     "unsupported_media_type"},
    {"POST", "control", JSON "EIP-Transfer-Handle: h\r\n", "{}", 415, "unsupported_media_type"},
    {"POST", "control", JSON "EIP-Session: s\r\n", "{}", 400, "invalid_request"},
    {"POST", "control", JSON, "{\"a\":\"\xff\"}", 400, "invalid_request"},
    {"POST", "control", JSON, "{", 200, "-32700"},
    {"POST", "control", JSON, "", 200, "-32700"},
    {"POST", "control", JSON, "[]", 200, "-32600"},
    {"POST", "control", JSON, "{\"id\":1,\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":[]}", 200,
     "\"id\":1"},
    {"POST", "control", JSON,
     "{\"id\":1,\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"a\":1,\"a\":1}}", 200, "-32600"},
    {"POST", "control", JSON,
     "{\"id\":1,\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"a\":[1e999]}}", 200, "-32700"},
    {"POST", "control", JSON,
     "{\"id\":1,\"jsonrpc\":\"2.0\",\"x\":-1e999,\"method\":\"x\",\"params\":{}}", 200, "-32700"},
    {"POST", "control", JSON,
     "{\"id\":1,\"jsonrpc\":\"2.0\",\"eip_x\":1,\"method\":\"x\",\"params\":{}}", 200, "-32600"},
    {"POST", "control", JSON,
     "{\"id\":1,\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"a\":\"\\ud800\"}}", 200,
     "-32700"},
    {"POST", "transfer", "", "", 415, "unsupported_media_type"},
    {"POST", "transfer", "Content-Type: application/octet-stream\r\n", "", 409, "bad_handle"},
    {"POST", "transfer",
     "Content-Type: application/octet-stream\r\nEIP-Session: s\r\n"
     "EIP-Transfer-Direction: read\r\n",
     "", 400, "invalid_request"},
    {"POST", "transfer",
     "Content-Type: application/octet-stream\r\nEIP-Session: s\r\nEIP-Transfer-Handle: h\r\n"
     "EIP-Transfer-Direction: sideways\r\n",
     "", 400, "invalid_request"},
    {"POST", "transfer",
     "Content-Type: application/octet-stream\r\nEIP-Session: s\r\nEIP-Transfer-Handle: h\r\n"
     "EIP-Transfer-Direction: read\r\n",
     "body", 400, "invalid_request"},
    {"POST", "transfer",
     "Content-Type: application/octet-stream\r\nEIP-Session: s\r\nEIP-Transfer-Handle: h\r\n"
     "EIP-Transfer-Direction: read\r\n",
     "", 409, "bad_handle"},
    {"DELETE", "transfer",
     "Content-Type: application/octet-stream\r\nEIP-Session: s\r\nEIP-Transfer-Handle: h\r\n"
     "EIP-Transfer-Direction: write\r\n",
     "", 409, "bad_handle"},
};

static void what_a_client_sends_wrong_stays_at_the_door(void **state)
{
    TCI_UNUSED(state);
    hosted h;
    attached a;
    peer p = {0};
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_nothing, NULL);
    for (size_t i = 0; i < TCI_ARRAY_LEN(doors); i++) {
        answer got;
        int fd = hosted_dial(&h);
        hosted_head(&h, fd, doors[i].method, doors[i].what, doors[i].more,
                    (long long)strlen(doors[i].body));
        hosted_send(fd, doors[i].body, strlen(doors[i].body));
        hosted_read(fd, &got);
        if (got.status != doors[i].status || strstr(got.body.ptr, doors[i].code) == NULL)
            fail_msg("%zu: %s %s: %d %s", i, doors[i].method, doors[i].body, got.status,
                     got.body.ptr);
        answer_done(&got);
        tci_fd_close(&fd);
    }
    assert_false(attach_is_over(&a));
    hosted_close(&h);
    (void)attach_end(&a);
    peer_close(&p);
}

/* One that is longer than the device takes is not sent: a daemon ends its link for that. */
static void a_request_over_the_devices_limit_is_not_sent(void **state)
{
    TCI_UNUSED(state);
    enum { MAX = 16777216 };
    hosted h;
    attached a;
    peer p = {0};
    answer got;
    tc_device *d;
    tc_err err;
    char *body = malloc(MAX + 1);
    assert_non_null(body);
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_nothing, NULL);
    int fd = hosted_dial(&h);
    hosted_head(&h, fd, "POST", "control", JSON, MAX + 1);
    hosted_read(fd, &got);
    assert_int_equal(got.status, 413);
    answer_done(&got);
    tci_fd_close(&fd);
    /* As long as it may be; with an id of the Host's in it it is longer. */
    int n = snprintf(body, MAX,
                     "{\"id\":1,\"jsonrpc\":\"2.0\",\"method\":\"file.stat\",\"params\":{\"a\":\"");
    memset(body + n, 'x', MAX - (size_t)n);
    memcpy(body + MAX - 3, "\"}}", 4);
    assert_int_equal(tc_connections_wait(h.host->connections, NULL, TC_STR("dev-1"), 0, &d, &err),
                     0);
    atomic_store(&d->conn->next_id, 1000000);
    tc_device_close(d);
    fd = hosted_dial(&h);
    hosted_head(&h, fd, "POST", "control", JSON, MAX);
    hosted_send(fd, body, MAX);
    hosted_read(fd, &got);
    assert_int_equal(got.status, 413);
    assert_non_null(strstr(got.body.ptr, "too_large"));
    answer_done(&got);
    tci_fd_close(&fd);
    free(body);
    hosted_close(&h);
    (void)attach_end(&a);
    peer_close(&p);
}

/* ---- what passes ---- */

static void play_echo(peer *p)
{
    bool is_data;
    if (!peer_initialize(p))
        return;
    while (peer_next(p, &is_data)) {
        tci_buf b;
        tci_buf_init(&b, 1 << 26);
        tci_json_put(&b, &p->params, TCI_JSON_AS_IS);
        tci_buf_append_byte(&b, 0);
        peer_result(p, b.ptr);
        tci_buf_done(&b);
    }
}

static void requests_and_answers_pass_as_they_are(void **state)
{
    TCI_UNUSED(state);
    hosted h;
    attached a;
    peer p = {0};
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_echo, NULL);
    /* Members that nobody here knows, numbers as written, and the client's id in all its forms. */
    static const struct {
        const char *id, *params;
    } cases[] = {
        {"1", "{\"x\":1.50e+01,\"y\":[18446744073709551615,-0.0,{}],\"z\":\"\\u00e9\xc3\xa9\"}"},
        {"-9223372036854775808", "{}"},
        {"\"an id\"", "{\"id\":5}"},
        {"\"\\u0041\\\"\"", "{\"a\":\"}\\\"\"}"},
        {"9223372036854775807", "{\"deep\":[[[[[\"]\"]]]]]}"},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        char body[512], want[512];
        answer got;
        snprintf(body, sizeof body,
                 " { \"params\" :%s,\"more\":[1,{\"id\":3}], \"\\u0069d\" : %s ,\"method\":\"x.y\","
                 "\"jsonrpc\":\"2.0\"} ",
                 cases[i].params, cases[i].id);
        hosted_ask(&h, body, &got);
        assert_int_equal(got.status, 200);
        snprintf(want, sizeof want, "{\"id\":%s,\"jsonrpc\":\"2.0\",\"result\":", cases[i].id);
        if (strncmp(got.body.ptr, want, strlen(want)) != 0)
            fail_msg("%s", got.body.ptr);
        /* A string comes back as the device wrote it. */
        if (i == 0)
            assert_non_null(strstr(got.body.ptr,
                                   "{\"x\":1.50e+01,\"y\":[18446744073709551615,-0.0,{}],"
                                   "\"z\":\"\xc3\xa9\xc3\xa9\"}"));
        answer_done(&got);
    }
    hosted_close(&h);
    (void)attach_end(&a);
    peer_close(&p);
}

/* Longer than what is copied. */
static void a_long_answer_comes_whole(void **state)
{
    TCI_UNUSED(state);
    enum { LEN = 3000000 };
    hosted h;
    attached a;
    peer p = {0};
    answer got;
    char *body = malloc(LEN + 200);
    assert_non_null(body);
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_echo, NULL);
    int n = snprintf(body, 100, "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"a\":\"");
    memset(body + n, 'x', LEN);
    snprintf(body + n + LEN, 100, "\"},\"id\":\"my own\"}");
    hosted_ask(&h, body, &got);
    assert_int_equal(got.status, 200);
    assert_true(got.is_whole);
    tc_str start = TC_STR("{\"id\":\"my own\",\"jsonrpc\":\"2.0\",\"result\":{\"a\":\"x");
    assert_true(tci_str_starts(tci_buf_str(&got.body), start));
    assert_int_equal(got.body.len, start.len - 1 + LEN + 3);
    answer_done(&got);
    free(body);
    hosted_close(&h);
    (void)attach_end(&a);
    peer_close(&p);
}

static void initialize_is_answered_by_what_the_device_said(void **state)
{
    TCI_UNUSED(state);
    hosted h;
    attached a;
    peer p = {0};
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_nothing, NULL);
#define INITIALIZE(versions, more)                                                         \
    "{\"id\":\"i\",\"jsonrpc\":\"2.0\",\"method\":\"initialize\",\"params\":{\"client\":{" \
    "\"name\":\"t\",\"version\":\"1\"},\"supported_protocol_versions\":[" versions "]" more "}}"
    for (int i = 0; i < 2; i++)
        assert_asked(&h, INITIALIZE("\"0.2\",\"0.3\"", ""), 200,
                     "{\"id\":\"i\",\"jsonrpc\":\"2.0\",\"result\":{\"descriptor\":{");
    assert_asked(&h, INITIALIZE("\"0.3\"", ",\"expected_device_id\":\"dev-1\""), 200,
                 "\"generation\":18446744073709551615");
    assert_asked(&h, INITIALIZE("\"0.3\"", ",\"expected_device_id\":\"dev-2\""), 200, "-32003");
    assert_asked(&h, INITIALIZE("\"0.2\"", ""), 200, "-32003");
    assert_asked(&h, INITIALIZE("\"0.3\"", ",\"colour\":1"), 200, "-32602");
    assert_asked(&h, IN_SESSION("1", "initialize", "{}"), 200, "-32600");
    hosted_close(&h);
    (void)attach_end(&a);
    peer_close(&p);
}

/* ---- names ---- */

static void names_are_found_and_offline_is_said(void **state)
{
    TCI_UNUSED(state);
    hosted h;
    hosted_open(&h);
    assert_asked(&h, OPEN, 503, "\"offline\"");
    snprintf(h.path, sizeof h.path, "/api/devices/%s/", h.id);
    assert_asked(&h, OPEN, 503, "\"offline\"");
    snprintf(h.path, sizeof h.path, "/api/devices/other/");
    assert_asked(&h, OPEN, 404, "\"not_found\"");
    memset(h.token, '0', TCI_TOKEN_LEN);
    assert_asked(&h, OPEN, 401, "\"unauthenticated\"");
    hosted_close(&h);
}

/* ---- what is known of a request without an answer ---- */

static void play_cut_after_request(peer *p)
{
    if (peer_initialize(p) && peer_expect(p, "file.write_text"))
        peer_cut(p);
}

static void a_lost_answer_is_unknown_and_what_never_left_is_not(void **state)
{
    TCI_UNUSED(state);
    hosted h;
    attached a;
    peer p = {0};
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_cut_after_request, NULL);
    assert_asked(&h, IN_SESSION("1", "file.write_text", "{}"), 502, "\"answer_lost\"");
    assert_asked(&h, IN_SESSION("2", "file.write_text", "{}"), 503, "\"offline\"");
    (void)attach_end(&a);
    peer_close(&p);
    hosted_close(&h);
}

typedef struct asking {
    const hosted *h;
    const char *body;
    answer answer;
    tci_thread *thread;
} asking;

static void ask_main(void *arg)
{
    asking *k = arg;
    hosted_ask(k->h, k->body, &k->answer);
}

static void ask_start(asking *k, const hosted *h, const char *body)
{
    tc_err err;
    *k = (asking){.h = h, .body = body};
    assert_int_equal(tci_thread_new(ask_main, k, 0, &k->thread, &err), 0);
}

static void assert_answered(asking *k, int status, const char *part)
{
    tci_thread_join(k->thread);
    if (k->answer.status != status || strstr(k->answer.body.ptr, part) == NULL)
        fail_msg("%s: %d %s", k->body, k->answer.status, k->answer.body.ptr);
    answer_done(&k->answer);
}

static void play_ignore(peer *p)
{
    bool is_data;
    if (peer_initialize(p))
        while (peer_next(p, &is_data))
            continue;
}

/* The socket has taken the first one and is stuck: the second has provably not left. */
static void a_request_that_waits_to_be_sent_is_not_started(void **state)
{
    TCI_UNUSED(state);
    hosted h;
    attached a;
    peer p = {0};
    asking first, second;
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_ignore, NULL);
    int before = atomic_load(&a.plug.nsending);
    atomic_store(&a.plug.is_send_held, true);
    ask_start(&first, &h, IN_SESSION("1", "file.write_text", "{}"));
    for (unsigned count; atomic_load(&a.plug.nsending) == before;) {
        count = tci_wake_count(&a.plug.changed);
        if (atomic_load(&a.plug.nsending) == before)
            tci_wake_wait(&a.plug.changed, count, 0);
    }
    ask_start(&second, &h, IN_SESSION("2", "file.write_text", "{}"));
    while (look(&h).nasks < 2)
        continue;
    assert_int_equal(shutdown(a.plug.fd, SHUT_RDWR), 0);
    assert_answered(&first, 502, "\"answer_lost\"");
    assert_answered(&second, 503, "\"not_delivered\"");
    (void)attach_end(&a);
    peer_close(&p);
    hosted_close(&h);
}

static void play_unknown_id(peer *p)
{
    if (!peer_initialize(p) || !peer_expect(p, "file.stat"))
        return;
    peer_result_as(p, p->id + 100, p->session, "{}");
    bool is_data;
    while (peer_next(p, &is_data))
        continue;
}

static void an_answer_that_breaks_the_protocol_ends_the_link(void **state)
{
    TCI_UNUSED(state);
    hosted h;
    attached a;
    peer p = {0};
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_unknown_id, NULL);
    assert_asked(&h, IN_SESSION("1", "file.stat", "{}"), 502, "\"answer_lost\"");
    assert_int_equal(attach_end(&a), TC_E_PROTOCOL);
    peer_close(&p);
    hosted_close(&h);
}

/* ---- clients that go ---- */

typedef struct leaving {
    tci_wake changed;
    atomic_int ngot, ngone; /* requests that the device has; clients that are gone */
} leaving;

static void wait_for(leaving *l, atomic_int *what, int n)
{
    while (atomic_load(what) < n) {
        unsigned count = tci_wake_count(&l->changed);
        if (atomic_load(what) < n)
            tci_wake_wait(&l->changed, count, 0);
    }
}

static void tell(leaving *l, atomic_int *what)
{
    atomic_fetch_add(what, 1);
    tci_wake_all(&l->changed);
}

static void play_gone(peer *p)
{
    leaving *l = p->arg;
    if (!peer_initialize(p) || !peer_expect(p, "file.stat"))
        return;
    tell(l, &l->ngot);
    wait_for(l, &l->ngone, 1);
    peer_result(p, "{}");
    if (!peer_expect(p, "session.open"))
        return;
    tell(l, &l->ngot);
    wait_for(l, &l->ngone, 2);
    peer_give_session(p);
    /* Nobody knows of this session: it is closed. Others are not disturbed. */
    bool is_data, is_closed = false;
    while (peer_next(p, &is_data)) {
        bool is_close = strcmp(p->method, "session.close") == 0;
        is_closed = is_closed || is_close;
        peer_result(p, is_close ? "{\"closed\":true}" : "{\"still\":\"here\"}");
        if (is_close)
            tell(l, &l->ngot);
    }
    if (!is_closed)
        peer_fail(p, "a session that nobody has is left open");
}

static void ask_and_go(const hosted *h, leaving *l, const char *body)
{
    int fd = hosted_dial(h);
    int n = atomic_load(&l->ngot) + 1;
    hosted_head(h, fd, "POST", "control", JSON, (long long)strlen(body));
    hosted_send(fd, body, strlen(body));
    wait_for(l, &l->ngot, n);
    tci_fd_close(&fd);
    while (look(h).nexchanges > 0)
        continue;
    tell(l, &l->ngone);
}

static void a_client_that_goes_leaves_the_link_alone(void **state)
{
    TCI_UNUSED(state);
    hosted h;
    attached a;
    peer p = {0};
    leaving l = {.ngot = 0};
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_gone, &l);
    ask_and_go(&h, &l, IN_SESSION("1", "file.stat", "{}"));
    ask_and_go(&h, &l, OPEN);
    assert_asked(&h,
                 "{\"eip_session\":\"another\",\"id\":3,\"jsonrpc\":\"2.0\",\"method\":"
                 "\"file.stat\",\"params\":{}}",
                 200, "{\"still\":\"here\"}");
    wait_for(&l, &l.ngot, 3); /* the close */
    hosted_close(&h);
    (void)attach_end(&a);
    peer_close(&p);
}

/* ---- a link that comes back ---- */

static void play_session_then_cut(peer *p)
{
    if (!peer_session(p))
        return;
    peer_cut(p);
}

static void play_attached_again(peer *p)
{
    if (!peer_initialize(p) || !peer_expect(p, "session.attach"))
        return;
    if (strcmp(p->session, SESSION) != 0)
        peer_fail(p, "another session");
    peer_give_session(p);
    if (peer_expect(p, "file.stat"))
        peer_result(p, "{\"found\":true}");
    bool is_data;
    while (peer_next(p, &is_data))
        continue;
}

static void play_attach_refused(peer *p)
{
    if (!peer_initialize(p) || !peer_expect(p, "session.attach"))
        return;
    peer_error(p, -32001, "not_initialized", "pre_dispatch");
    if (peer_expect(p, "file.stat"))
        peer_error(p, -32001, "not_initialized", "pre_dispatch");
    bool is_data;
    while (peer_next(p, &is_data))
        continue;
}

static void open_session(const hosted *h)
{
    assert_asked(h, OPEN, 200, SESSION);
    assert_asked(h, IN_SESSION("8", "environment.readiness", "{}"), 200, "\"ready\":true");
}

static void sessions_are_attached_again_and_nothing_is_sent_twice(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        void (*play)(peer *p);
        const char *part;
    } cases[] = {{play_attached_again, "{\"found\":true}"}, {play_attach_refused, "-32001"}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        hosted h;
        attached a, b;
        peer p = {0}, q = {0};
        hosted_open(&h);
        hosted_link(&h, &a, &p, play_session_then_cut, NULL);
        open_session(&h);
        (void)attach_end(&a);
        peer_close(&p);
        hosted_link(&h, &b, &q, cases[i].play, NULL);
        assert_asked(&h, IN_SESSION("9", "file.stat", "{}"), 200, cases[i].part);
        hosted_close(&h);
        (void)attach_end(&b);
        peer_close(&q);
    }
}

static void play_other_generation(peer *p)
{
    if (!peer_expect(p, "initialize"))
        return;
    peer_result(p, peer_format(p,
                               "{\"descriptor\":{\"available_methods\":[\"file.stat\"],"
                               "\"boundary\":%s,\"default_working_directory\":\"/w\","
                               "\"device_id\":\"dev-1\",\"directory_discovery\":true,"
                               "\"generation\":5,\"lifecycle\":{\"disconnect_grace_ms\":10,"
                               "\"idle_timeout_ms\":1000},\"limits\":%s,\"path_style\":\"posix\"},"
                               "\"protocol_version\":\"0.3\",\"server\":{\"name\":\"a13n-envd\","
                               "\"version\":\"0.5.1\"}}",
                               peer_boundary(p), peer_limits(p)));
    if (peer_expect(p, "file.stat"))
        peer_error(p, -32001, "not_initialized", "pre_dispatch");
    bool is_data;
    while (peer_next(p, &is_data))
        continue;
}

static void another_generation_is_not_asked_for_old_sessions(void **state)
{
    TCI_UNUSED(state);
    hosted h;
    attached a, b;
    peer p = {0}, q = {0};
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_session_then_cut, NULL);
    open_session(&h);
    (void)attach_end(&a);
    peer_close(&p);
    hosted_link(&h, &b, &q, play_other_generation, NULL);
    assert_asked(&h, IN_SESSION("9", "file.stat", "{}"), 200, "-32001");
    hosted_close(&h);
    (void)attach_end(&b);
    peer_close(&q);
}

static void play_many_sessions(peer *p)
{
    bool is_data;
    if (!peer_initialize(p))
        return;
    while (peer_next(p, &is_data))
        peer_result(p, "{}");
}

static void what_is_remembered_of_sessions_is_bounded(void **state)
{
    TCI_UNUSED(state);
    hosted h;
    attached a;
    peer p = {0};
    answer got;
    char body[256];
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_many_sessions, NULL);
    int fd = hosted_dial(&h);
    enum { CLOSED = TCI_RELAY_OVER_MAX + 4, ALL = CLOSED + TCI_RELAY_SESSIONS_MAX + 4 };
    for (int i = 0; i < ALL; i++) {
        snprintf(body, sizeof body,
                 "{\"eip_session\":\"s%d\",\"id\":1,\"jsonrpc\":\"2.0\",\"method\":\"%s\","
                 "\"params\":{}}",
                 i, i < CLOSED ? "session.close" : "file.stat");
        hosted_head(&h, fd, "POST", "control", JSON, (long long)strlen(body));
        hosted_send(fd, body, strlen(body));
        hosted_read(fd, &got);
        assert_int_equal(got.status, 200);
        answer_done(&got);
    }
    assert_true(look(&h).nsessions <= TCI_RELAY_SESSIONS_MAX + 1);
    assert_true(look(&h).nover <= TCI_RELAY_OVER_MAX);
    tci_fd_close(&fd);
    hosted_close(&h);
    (void)attach_end(&a);
    peer_close(&p);
}

/* ---- content ---- */

#define TRANSFER(direction)                                                  \
    "Content-Type: application/octet-stream\r\nEIP-Session: " SESSION "\r\n" \
    "EIP-Transfer-Handle: handle-1\r\nEIP-Transfer-Direction: " direction "\r\n"

enum { PIECE = 65000, NPIECES = 400 };

/* What a piece of content is, wherever it is. */
static char byte_at(uint64_t offset)
{
    return (char)(offset * 2654435761u >> 13);
}

static void fill(char *to, uint64_t offset, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = byte_at(offset + i);
}

static bool is_content(const char *bytes, uint64_t offset, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != byte_at(offset + i))
            return false;
    return true;
}

/* Others may ask before it begins. */
static bool serve_attach(peer *p)
{
    bool is_data;
    if (!peer_session(p))
        return false;
    for (;;) {
        if (!peer_next(p, &is_data))
            return false;
        if (is_data)
            break;
        peer_result(p, "{\"sent\":0,\"got\":0}");
    }
    if (p->data.kind != TCI_EIPD_ATTACH)
        return peer_fail(p, "not attached first");
    peer_data(p, TCI_EIPD_ATTACHED, TCI_EIPD_STATUS_NONE, 0, NULL, 0);
    return true;
}

/* A window at a time; at the end what is asked of it. The client has not read yet when the first windows go, so that
 * other requests must pass in between. */
static void play_download(peer *p)
{
    char piece[PIECE];
    uint64_t sent = 0, credited = 0, total = (uint64_t)NPIECES * PIECE;
    bool is_data;
    if (!serve_attach(p))
        return;
    while (credited < total) {
        while (sent < total && sent - credited < 8 * PIECE) {
            fill(piece, sent, PIECE);
            peer_data(p, TCI_EIPD_CHUNK, TCI_EIPD_STATUS_NONE, sent, piece, PIECE);
            sent += PIECE;
        }
        if (!peer_next(p, &is_data))
            return;
        if (!is_data) {
            peer_result(p, peer_format(p, "{\"sent\":%llu}", (unsigned long long)sent));
            continue;
        }
        credited = p->data.offset;
        if (p->data.kind != TCI_EIPD_CREDIT || credited % PIECE != 0 || credited > sent) {
            peer_fail(p, "not credit");
            return;
        }
    }
    peer_data(p, TCI_EIPD_END, TCI_EIPD_STATUS_NONE, total, NULL, 0);
    while (peer_next(p, &is_data))
        peer_result(p, "{\"sent\":0}");
}

/* How far the device has got, by another client. */
static unsigned long long ask_sent(const hosted *h)
{
    answer got;
    hosted_ask(h, IN_SESSION("1", "file.stat", "{}"), &got);
    assert_int_equal(got.status, 200);
    const char *at = strstr(got.body.ptr, "\"sent\":");
    assert_non_null(at);
    unsigned long long n = number_at(tci_str(at + 7));
    answer_done(&got);
    return n;
}

static void a_slow_reader_holds_up_nobody_and_nothing_but_itself(void **state)
{
    TCI_UNUSED(state);
    hosted h;
    attached a;
    peer p = {0};
    answer got;
    int small = 65536;
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_download, NULL);
    open_session(&h);
    int fd = hosted_dial(&h);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    hosted_head(&h, fd, "POST", "transfer", TRANSFER("read"), 0);
    /* It comes to a stop: what the sockets hold, and a window. */
    unsigned long long sent = ask_sent(&h), before;
    do {
        before = sent;
        for (int i = 0; i < 20; i++)
            sent = ask_sent(&h);
    } while (sent != before || sent == 0);
    assert_true(sent < (unsigned long long)NPIECES * PIECE);
    hosted_read(fd, &got);
    assert_int_equal(got.status, 200);
    assert_true(got.is_whole);
    assert_int_equal(got.body.len, NPIECES * PIECE);
    assert_true(is_content(got.body.ptr, 0, got.body.len));
    answer_done(&got);
    tci_fd_close(&fd);
    hosted_close(&h);
    (void)attach_end(&a);
    peer_close(&p);
}

/* Gives so many pieces, then resets. */
static void play_broken_download(peer *p)
{
    const unsigned *npieces = p->arg;
    char piece[PIECE];
    bool is_data;
    if (!peer_session(p) || !peer_expect_data(p, TCI_EIPD_ATTACH, 0))
        return;
    if (*npieces > 0)
        peer_data(p, TCI_EIPD_ATTACHED, TCI_EIPD_STATUS_NONE, 0, NULL, 0);
    for (unsigned i = 0; i < *npieces; i++) {
        fill(piece, (uint64_t)i * PIECE, PIECE);
        peer_data(p, TCI_EIPD_CHUNK, TCI_EIPD_STATUS_NONE, (uint64_t)i * PIECE, piece, PIECE);
        if (!peer_expect_data(p, TCI_EIPD_CREDIT, (uint64_t)(i + 1) * PIECE))
            return;
    }
    peer_data(p, TCI_EIPD_RESET, TCI_EIPD_STATUS_SOURCE, 0, NULL, 0);
    while (peer_next(p, &is_data))
        peer_result(p, "{\"on\":1}");
}

static void a_read_that_is_cut_never_looks_whole(void **state)
{
    TCI_UNUSED(state);
    for (unsigned npieces = 0; npieces < 4; npieces++) {
        hosted h;
        attached a;
        peer p = {0};
        answer got;
        hosted_open(&h);
        hosted_link(&h, &a, &p, play_broken_download, &npieces);
        open_session(&h);
        int fd = hosted_dial(&h);
        hosted_head(&h, fd, "POST", "transfer", TRANSFER("read"), 0);
        hosted_read(fd, &got);
        assert_int_equal(got.status, npieces == 0 ? 500 : 200);
        assert_int_equal(got.is_whole, npieces == 0);
        answer_done(&got);
        tci_fd_close(&fd);
        assert_asked(&h, IN_SESSION("1", "file.stat", "{}"), 200, "{\"on\":1}");
        hosted_close(&h);
        (void)attach_end(&a);
        peer_close(&p);
    }
}

/* Credit only when the window is full, or the end is there. */
static void play_upload(peer *p)
{
    uint64_t got = 0, credited = 0;
    unsigned nout = 0;
    bool is_data;
    if (!serve_attach(p))
        return;
    while (peer_next(p, &is_data)) {
        if (!is_data) { /* credit what there is */
            peer_result(p, peer_format(p, "{\"got\":%llu}", (unsigned long long)got));
            if (got > credited)
                peer_data(p, TCI_EIPD_CREDIT, TCI_EIPD_STATUS_NONE, got, NULL, 0);
            credited = got;
            nout = 0;
            continue;
        }
        if (p->data.kind == TCI_EIPD_END) {
            peer_data(p, TCI_EIPD_END_ACK, TCI_EIPD_STATUS_NONE, got, NULL, 0);
            continue;
        }
        if (p->data.kind != TCI_EIPD_CHUNK || p->data.offset != got ||
            !is_content(p->data.payload.ptr, got, p->data.payload.len)) {
            peer_fail(p, "not the content");
            return;
        }
        got += p->data.payload.len;
        if (++nout > 8) {
            peer_fail(p, "more than a window");
            return;
        }
    }
}

typedef struct sending {
    int fd;
    size_t len;
    tci_thread *thread;
} sending;

static void send_main(void *arg)
{
    sending *s = arg;
    char piece[4096];
    for (size_t at = 0; at < s->len; at += sizeof piece) {
        size_t n = tci_min_size(sizeof piece, s->len - at);
        fill(piece, at, n);
        hosted_send(s->fd, piece, n);
    }
}

static void a_slow_device_holds_a_window_of_an_upload(void **state)
{
    TCI_UNUSED(state);
    hosted h;
    attached a;
    peer p = {0};
    answer got;
    tc_err err;
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_upload, NULL);
    open_session(&h);
    sending s = {.fd = hosted_dial(&h), .len = 8000001};
    hosted_head(&h, s.fd, "POST", "transfer", TRANSFER("write"), (long long)s.len);
    assert_int_equal(tci_thread_new(send_main, &s, 0, &s.thread, &err), 0);
    unsigned long long there = 0;
    while (there < s.len) { /* others pass; each of them lets a window go on */
        hosted_ask(&h, IN_SESSION("1", "file.stat", "{}"), &got);
        assert_int_equal(got.status, 200);
        const char *at = strstr(got.body.ptr, "\"got\":");
        assert_non_null(at);
        there = number_at(tci_str(at + 6));
        answer_done(&got);
    }
    hosted_read(s.fd, &got);
    assert_int_equal(got.status, 204);
    answer_done(&got);
    tci_thread_join(s.thread);
    tci_fd_close(&s.fd);
    hosted_close(&h);
    (void)attach_end(&a);
    peer_close(&p);
}

/* A client that goes in the middle: the device hears of it, and others do not. */
static void play_abandoned(peer *p)
{
    const bool *is_read = p->arg;
    char piece[PIECE];
    bool is_data;
    if (!serve_attach(p))
        return;
    if (*is_read) {
        fill(piece, 0, PIECE);
        peer_data(p, TCI_EIPD_CHUNK, TCI_EIPD_STATUS_NONE, 0, piece, PIECE);
    }
    do {
        if (!peer_next(p, &is_data))
            return;
    } while (is_data && p->data.kind != TCI_EIPD_RESET);
    if (!is_data || p->data.status != TCI_EIPD_STATUS_CANCELLED) {
        peer_fail(p, "no reset");
        return;
    }
    /* What was under way when it came. */
    if (*is_read)
        peer_data(p, TCI_EIPD_CHUNK, TCI_EIPD_STATUS_NONE, PIECE, piece, PIECE);
    peer_data(p, TCI_EIPD_RESET, TCI_EIPD_STATUS_CANCELLED, 0, NULL, 0);
    while (peer_next(p, &is_data))
        peer_result(p, "{\"on\":1}");
}

static void a_client_that_goes_resets_its_transfer_only(void **state)
{
    TCI_UNUSED(state);
    for (int i = 0; i < 2; i++) {
        hosted h;
        attached a;
        peer p = {0};
        bool is_read = i == 0;
        char some[1000];
        hosted_open(&h);
        hosted_link(&h, &a, &p, play_abandoned, &is_read);
        open_session(&h);
        int fd = hosted_dial(&h);
        hosted_head(&h, fd, "POST", "transfer", is_read ? TRANSFER("read") : TRANSFER("write"),
                    is_read ? 0 : 5000);
        if (!is_read)
            hosted_send(fd, "some", 4);
        else
            assert_true(recv(fd, some, sizeof some, 0) > 0);
        while (look(&h).nxfers == 0)
            continue;
        tci_fd_close(&fd);
        while (look(&h).nxfers > 0) /* until its reset is echoed */
            continue;
        assert_asked(&h, IN_SESSION("1", "file.stat", "{}"), 200, "{\"on\":1}");
        assert_false(attach_is_over(&a));
        hosted_close(&h);
        (void)attach_end(&a);
        peer_close(&p);
    }
}

static void play_resets(peer *p)
{
    bool is_data;
    if (!peer_session(p))
        return;
    while (peer_next(p, &is_data)) {
        if (!is_data)
            peer_result(p, "{\"on\":1}");
        else if (tci_str_eq(p->data.handle, TC_STR("handle-1")))
            peer_data(p, TCI_EIPD_RESET, p->data.status, 0, NULL, 0);
        else
            peer_data_to(p, SESSION, "unknown", TCI_EIPD_RESET, 0, NULL, TCI_EIPD_STATUS_DENIED);
    }
}

static void resets_say_whether_there_was_anything(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *more;
        int status;
    } cases[] = {{TRANSFER("write"), 204},
                 {TRANSFER("read"), 204}, /* again */
                 {"Content-Type: application/octet-stream\r\nEIP-Session: " SESSION "\r\n"
                  "EIP-Transfer-Handle: unknown\r\nEIP-Transfer-Direction: read\r\n",
                  409}};
    hosted h;
    attached a;
    peer p = {0};
    answer got;
    hosted_open(&h);
    hosted_link(&h, &a, &p, play_resets, NULL);
    open_session(&h);
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        int fd = hosted_dial(&h);
        hosted_head(&h, fd, "DELETE", "transfer", cases[i].more, 0);
        hosted_read(fd, &got);
        if (got.status != cases[i].status)
            fail_msg("%zu: %d %s", i, got.status, got.body.ptr);
        answer_done(&got);
        tci_fd_close(&fd);
    }
    assert_asked(&h, IN_SESSION("1", "file.stat", "{}"), 200, "{\"on\":1}");
    hosted_close(&h);
    (void)attach_end(&a);
    peer_close(&p);
}

/* ---- our client ---- */

static void play_cut_write(peer *p)
{
    if (peer_session(p) && peer_expect(p, "file.write_text"))
        peer_cut(p);
}

/* What became of a change, and what to do, as a program sees it. */
static void our_client_tells_not_started_from_unknown(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    hosted h;
    attached a;
    tc_session *s;
    hosted_open(&h);
    assert_int_equal(tc_runtime_open(NULL, &g.rt, &g.err), 0);
    assert_int_equal(tc_result_new(&g.r, &g.err), 0);
    memset(&g.peer, 0, sizeof g.peer);
    hosted_link(&h, &a, &g.peer, play_cut_write, NULL);
    assert_ok(&g, hosted_connect(&h, g.rt, &g.device, &g.err));
    assert_ok(&g, tc_session_open(g.device, NULL, NULL, &s, &g.err));
    tc_call call = rig_call(&g);
    assert_code(&g, TC_E_UNKNOWN_OUTCOME,
                tc_session_write_text(s, &call, TC_STR("/w/f"), TC_STR("x"), NULL, NULL, &g.err));
    assert_outcome(&g, TC_OUTCOME_UNKNOWN);
    (void)attach_end(&a);
    tc_result_clear(g.r);
    assert_code(&g, TC_E_CONNECT,
                tc_session_write_text(s, &call, TC_STR("/w/f"), TC_STR("x"), NULL, NULL, &g.err));
    assert_non_null(strstr(g.err.hint, "daemon"));
    assert_outcome(&g, TC_OUTCOME_NOT_STARTED);
    tc_session_detach(s);
    tc_device_close(g.device);
    peer_close(&g.peer);
    tc_result_free(g.r);
    tc_runtime_close(g.rt);
    hosted_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_client_sends_wrong_stays_at_the_door),
        cmocka_unit_test(a_request_over_the_devices_limit_is_not_sent),
        cmocka_unit_test(requests_and_answers_pass_as_they_are),
        cmocka_unit_test(a_long_answer_comes_whole),
        cmocka_unit_test(initialize_is_answered_by_what_the_device_said),
        cmocka_unit_test(names_are_found_and_offline_is_said),
        cmocka_unit_test(a_lost_answer_is_unknown_and_what_never_left_is_not),
        cmocka_unit_test(a_request_that_waits_to_be_sent_is_not_started),
        cmocka_unit_test(an_answer_that_breaks_the_protocol_ends_the_link),
        cmocka_unit_test(a_client_that_goes_leaves_the_link_alone),
        cmocka_unit_test(sessions_are_attached_again_and_nothing_is_sent_twice),
        cmocka_unit_test(another_generation_is_not_asked_for_old_sessions),
        cmocka_unit_test(what_is_remembered_of_sessions_is_bounded),
        cmocka_unit_test(a_slow_reader_holds_up_nobody_and_nothing_but_itself),
        cmocka_unit_test(a_read_that_is_cut_never_looks_whole),
        cmocka_unit_test(a_slow_device_holds_a_window_of_an_upload),
        cmocka_unit_test(a_client_that_goes_resets_its_transfer_only),
        cmocka_unit_test(resets_say_whether_there_was_anything),
        cmocka_unit_test(our_client_tells_not_started_from_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
