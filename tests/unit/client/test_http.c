/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP carrier: which options are refused, and answers a daemon may not give. The server is a
 * script over one listening socket. */
#include "tests.h"

#include "plat/clock.h"
#include "plat/fd.h"
#include "plat/socket.h"

#define SECRET "marker-of-the-credential"

/* ---- options ---- */

static void endpoints_are_origins_and_plain_text_stays_at_home(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *endpoint;
        bool is_private, is_good;
    } cases[] = {
        {"https://envd.example.com", false, true},
        {"https://envd.example.com:8443/", false, true},
        {"http://127.0.0.1:7070", false, true},
        {"http://[::1]:7070", false, true},
        {"http://localhost:1", false, true},
        {"http://10.0.0.8:7070", false, false},
        {"http://10.0.0.8:7070", true, true},
        {"http://envd.example.com", false, false},
        {"https://envd.example.com/eip/control", false, false},
        {"https://envd.example.com?x=1", false, false},
        {"https://user:" SECRET "@envd.example.com", false, false},
        {"ws://envd.example.com", false, false},
        {"envd.example.com", false, false},
        {"", false, false},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        tc_err err;
        tc_http_options o = {.size = sizeof o,
                             .endpoint = tci_str(cases[i].endpoint),
                             .credential = TC_STR(SECRET),
                             .allow_plaintext_private_link = cases[i].is_private};
        int rc = tc_http_options_check(&o, &err);
        if ((rc == 0) != cases[i].is_good)
            fail_msg("%s: %s", cases[i].endpoint, tc_code_name(rc));
        if (rc < 0) /* case 62 */
            assert_null(strstr(err.msg, SECRET));
    }
}

static void case_62_credentials_are_checked_and_never_shown(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tc_http_options o = {.size = sizeof o, .endpoint = TC_STR("http://127.0.0.1:1")};
    assert_int_equal(tc_http_options_check(&o, &err), TC_E_INVALID); /* none */
    o.credential = TC_STR(SECRET);
    o.credential_file = TC_STR("/tmp/x");
    assert_int_equal(tc_http_options_check(&o, &err), TC_E_INVALID); /* both */
    o.credential_file = (tc_str){0};
    o.credential = TC_STR(SECRET " \r\nX-Evil: 1");
    assert_int_equal(tc_http_options_check(&o, &err), TC_E_INVALID);
    assert_null(strstr(err.msg, SECRET));
    assert_null(strstr(err.hint, SECRET));
}

/* ---- answers ---- */

typedef struct server {
    int listen_fd;
    unsigned port;
    const char *answer; /* to the first request, as it is; NULL: the link is cut */
    tci_thread *thread;
    bool saw_credential, saw_path;
} server;

static int wait_accept(int fd)
{
    int got = -1;
    tci_addr from;
    tc_err err;
    tci_wake never = {0};
    while (got < 0 && tci_socket_accept(fd, &got, &from, &err) == 0 && got < 0)
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + 1000000);
    return got;
}

static void serve_one(void *arg)
{
    server *s = arg;
    tc_err err;
    char buf[8192];
    size_t len = 0;
    int fd = wait_accept(s->listen_fd);
    if (fd < 0 || tci_fd_set_nonblocking(fd, false, NULL, &err) < 0)
        return;
    while (len < sizeof buf - 1) {
        size_t n = 0;
        if (tci_fd_read(fd, buf + len, sizeof buf - 1 - len, &n, &err) < 0)
            break;
        len += n;
        buf[len] = 0;
        if (strstr(buf, "\"initialize\"") != NULL)
            break;
    }
    s->saw_credential = strstr(buf, "Authorization: Bearer " SECRET "\r\n") != NULL;
    s->saw_path = strstr(buf, "POST /api/devices/work/eip/control HTTP/1.1\r\n") == buf;
    if (s->answer != NULL) {
        tci_fd_part part = {(void *)(uintptr_t)s->answer, strlen(s->answer)};
        size_t n = 0;
        if (tci_socket_send(fd, &part, 1, &n, &err) < 0)
            n = 0;
    }
    tci_fd_close(&fd);
}

static void start_server(server *s)
{
    tci_addr at, bound;
    tc_err err;
    assert_int_equal(tci_addr_parse(TC_STR("127.0.0.1:0"), &at, &err), 0);
    assert_int_equal(tci_socket_listen(&at, 4, &s->listen_fd, &err), 0);
    assert_int_equal(tci_socket_local_addr(s->listen_fd, &bound, &err), 0);
    s->port = bound.port;
    assert_int_equal(tci_thread_new(serve_one, s, 0, &s->thread, &err), 0);
}

static const struct {
    const char *name, *answer;
    int code;
} answers[] = {
    {"401", "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", TC_E_AUTH},
    {"403", "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", TC_E_AUTH},
    {"404", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", TC_E_INCOMPATIBLE},
    {"429", "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n", TC_E_BUSY},
    {"redirect",
     "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: "
     "0\r\n\r\n",
     TC_E_PROTOCOL},
    {"wrong type", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n{}",
     TC_E_PROTOCOL},
    {"no type", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", TC_E_PROTOCOL},
    {"encoded",
     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
     "Content-Length: 2\r\n\r\n{}",
     TC_E_PROTOCOL},
    {"not a reply",
     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
     TC_E_PROTOCOL},
    {"other id",
     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 38\r\n\r\n"
     "{\"id\":99,\"jsonrpc\":\"2.0\",\"result\":{}}  ",
     TC_E_PROTOCOL},
    {"cut short",
     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{", 0},
    {"cut", NULL, 0},
};

static void answers_that_are_not_a_daemons_are_refused(void **state)
{
    TCI_UNUSED(state);
    tc_runtime *rt;
    tc_err err;
    assert_int_equal(tc_runtime_open(NULL, &rt, &err), 0);
    for (size_t i = 0; i < TCI_ARRAY_LEN(answers); i++) {
        server s = {.answer = answers[i].answer};
        char endpoint[64];
        tc_device *d = NULL;
        start_server(&s);
        snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u", s.port);
        tc_http_options o = {
            .size = sizeof o, .endpoint = tci_str(endpoint), .credential = TC_STR(SECRET)};
        int rc = tc_device_connect_http(rt, NULL, &o, NULL, &d, &err);
        tci_thread_join(s.thread);
        tci_fd_close(&s.listen_fd);
        if (rc >= 0 || (answers[i].code != 0 && rc != answers[i].code))
            fail_msg("%s: %s: %s", answers[i].name, tc_code_name(rc), err.msg);
        assert_true(s.saw_credential);
        assert_null(strstr(err.msg, SECRET)); /* case 62 */
        assert_null(strstr(err.hint, SECRET));
    }
    tc_runtime_close(rt);
}

/* ---- below a path ---- */

static void paths_are_checked(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *path;
        bool is_good;
    } cases[] = {
        {"", true},
        {"/", true},
        {"/api/devices/work/", true},
        {"/api/devices/work", true},
        {"/a%20b/", true},
        {"api/devices", false},
        {"/a b/", false},
        {"/a?x=1", false},
        {"/a#b", false},
        {"/a/../b/", false},
        {"/./a/", false},
        {"//a/", false},
        {"/a\r\nb/", false},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        tc_err err;
        tc_http_options o = {.size = sizeof o,
                             .endpoint = TC_STR("http://127.0.0.1:1"),
                             .path = tci_str(cases[i].path),
                             .credential = TC_STR(SECRET)};
        if ((tc_http_options_check(&o, &err) == 0) != cases[i].is_good)
            fail_msg("%s", cases[i].path);
    }
}

#define REFUSED(status, body) "HTTP/1.1 " status " X\r\nContent-Type: application/json\r\n\r\n" body
#define SAID(code, message) "{\"error\":{\"code\":\"" code "\",\"message\":\"" message "\"}}"

static const struct {
    const char *answer;
    int code;
    const char *msg, *hint;
} refusals[] = {
    {REFUSED("401", SAID("unauthenticated", "not signed in")), TC_E_AUTH, "not signed in",
     "telechir host login http://127.0.0.1:"},
    {REFUSED("404", SAID("not_found", "no such device")), TC_E_NOT_FOUND, "no such device",
     "telechir devices"},
    {REFUSED("409", SAID("conflict", "two have it")), TC_E_CONFLICT, "two have it", "id"},
    {REFUSED("403", SAID("revoked", "it was revoked")), TC_E_DENIED, "revoked", "connect"},
    {REFUSED("403", SAID("not_approved", "it waits")), TC_E_DENIED, "waits", "approve"},
    {REFUSED("503", SAID("offline", "'work' is offline")), TC_E_CONNECT, "offline", "daemon"},
    {REFUSED("429", SAID("busy", "later")), TC_E_BUSY, "later", "later"},
    {REFUSED("502", SAID("answer_lost", "the link ended")), TC_E_CONNECT, "the link ended", ""},
    /* Whatever it says, a terminal shows it in one line. */
    {REFUSED("503", SAID("offline", "a\\u001b[2Jb\\nc")), TC_E_CONNECT, "a?[2Jb?c", ""},
    /* What is not a Host's. */
    {REFUSED("503", "<html>"), TC_E_CONNECT, "status 503", ""},
    {REFUSED("503", SAID("other", "x")), TC_E_CONNECT, "status 503", ""},
    {REFUSED("401", ""), TC_E_AUTH, "status 401", "telechir host login"},
};

static void what_a_host_says_is_a_typed_error(void **state)
{
    TCI_UNUSED(state);
    tc_runtime *rt;
    tc_err err;
    assert_int_equal(tc_runtime_open(NULL, &rt, &err), 0);
    for (size_t i = 0; i < TCI_ARRAY_LEN(refusals); i++) {
        server s = {.answer = refusals[i].answer};
        char endpoint[64];
        tc_device *d = NULL;
        start_server(&s);
        snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u", s.port);
        tc_http_options o = {.size = sizeof o,
                             .endpoint = tci_str(endpoint),
                             .path = TC_STR("/api/devices/work"),
                             .credential = TC_STR(SECRET)};
        int rc = tc_device_connect_http(rt, NULL, &o, NULL, &d, &err);
        tci_thread_join(s.thread);
        tci_fd_close(&s.listen_fd);
        if (rc != refusals[i].code || strstr(err.msg, refusals[i].msg) == NULL ||
            strstr(err.hint, refusals[i].hint) == NULL)
            fail_msg("%zu: %s: %s / %s", i, tc_code_name(rc), err.msg, err.hint);
        assert_true(s.saw_credential && s.saw_path);
        assert_null(strstr(err.msg, SECRET)); /* case 62 */
        assert_null(strstr(err.hint, SECRET));
    }
    tc_runtime_close(rt);
}

static void nobody_there_is_a_connect_error(void **state)
{
    TCI_UNUSED(state);
    tc_runtime *rt;
    tc_err err;
    tc_device *d = NULL;
    assert_int_equal(tc_runtime_open(NULL, &rt, &err), 0);
    tc_http_options o = {
        .size = sizeof o, .endpoint = TC_STR("http://127.0.0.1:1"), .credential = TC_STR(SECRET)};
    assert_int_equal(tc_device_connect_http(rt, NULL, &o, NULL, &d, &err), TC_E_CONNECT);
    tc_runtime_close(rt);
}

const struct CMUnitTest http_tests[] = {
    cmocka_unit_test(endpoints_are_origins_and_plain_text_stays_at_home),
    cmocka_unit_test(case_62_credentials_are_checked_and_never_shown),
    cmocka_unit_test(answers_that_are_not_a_daemons_are_refused),
    cmocka_unit_test(paths_are_checked),
    cmocka_unit_test(what_a_host_says_is_a_typed_error),
    cmocka_unit_test(nobody_there_is_a_connect_error),
};
const size_t nhttp_tests = TCI_ARRAY_LEN(http_tests);
