/* SPDX-License-Identifier: Apache-2.0
 *
 * The talk with a Host, times made short: a thread plays the Host and answers one connection after the other
 * with what the test wrote down. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/connect/connect_int.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWERS_MAX = 8 };

typedef struct host {
    int listener;
    pthread_t thread;
    char url[64];
    const char *answers[ANSWERS_MAX]; /* bodies; the last one repeats; NULL: silence */
    const char *status;               /* "200 OK" unless set */
    atomic_uint nrequests;
    tci_connect_options options;
    tci_connect_state state;
    tci_arena arena;
    tc_err err;
    char said[4096];
} host;

#define PENDING(code)                                                      \
    "{\"status\":\"pending\",\"challenge\":{\"verification_code\":\"" code \
    "\"},\"approval_url\":\"/a\",\"poll_after_seconds\":1}"
#define APPROVED "{\"status\":\"approved\",\"resource_id\":\"r\",\"websocket_url\":\"/ws\"}"

static bool read_request(int conn)
{
    char buf[4096];
    size_t n = 0;
    while (n < sizeof buf - 1) { /* the body is one object, and nothing else has a '}' */
        ssize_t got = read(conn, buf + n, sizeof buf - 1 - n);
        if (got <= 0)
            return false;
        n += (size_t)got;
        if (memchr(buf, '}', n) != NULL)
            return true;
    }
    return false;
}

static void answer(host *h, int conn, unsigned at)
{
    char head[256];
    const char *body;
    while (at > 0 && h->answers[at] == NULL && h->answers[at - 1] != NULL)
        at--;
    body = h->answers[at];
    if (body == NULL) {
        (void)!read(conn, head, 1); /* until the other side has had enough */
        return;
    }
    int n = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n",
                     h->status != NULL ? h->status : "200 OK", strlen(body));
    (void)send(conn, head, (size_t)n, MSG_NOSIGNAL); /* it may have had enough */
    (void)send(conn, body, strlen(body), MSG_NOSIGNAL);
}

static void *play(void *arg)
{
    host *h = arg;
    int conn;
    while ((conn = accept(h->listener, NULL, NULL)) >= 0) {
        if (read_request(conn)) {
            unsigned at = atomic_fetch_add(&h->nrequests, 1);
            answer(h, conn, at < ANSWERS_MAX ? at : ANSWERS_MAX - 1);
        }
        (void)close(conn);
    }
    return NULL;
}

static void say(void *user, tc_str line)
{
    host *h = user;
    size_t n = strlen(h->said);
    (void)snprintf(h->said + n, sizeof h->said - n, "%.*s\n", TC_STR_ARG(line));
}

static int set_up(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    host *h = tci_new(host);
    assert_non_null(h);
    h->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(h->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(h->listener, 16), 0);
    assert_int_equal(getsockname(h->listener, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(h->url, sizeof h->url, "http://127.0.0.1:%u/p/", ntohs(at.sin_port));
    tci_arena_init(&h->arena, 0);
    h->options = (tci_connect_options){
        .request_ms = 60000, .limit_ms = 60000, .second_ms = 1, .say = say, .user = h};
    h->state = (tci_connect_state){.folder = TCI_FILE_NONE,
                                   .device_id = TC_STR("device-x"),
                                   .record = {.url = tci_str(h->url), .name = TC_STR("me")}};
    assert_int_equal(tci_secret_init(&h->state.credential, TC_STR("5ec2e7"), &h->err), 0);
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    host *h = *state;
    (void)shutdown(h->listener, SHUT_RDWR);
    (void)pthread_join(h->thread, NULL);
    (void)close(h->listener);
    tci_connect_state_close(&h->state);
    tci_arena_done(&h->arena);
    tci_free(h);
    return 0;
}

static int pair(host *h)
{
    assert_int_equal(pthread_create(&h->thread, NULL, play, h), 0);
    return tci_connect_pair(&h->state, &h->options, &h->arena, &h->err);
}

static void until_it_is_approved(void **state)
{
    host *h = *state;
    char want[512];
    h->answers[0] = h->answers[1] = h->answers[2] = PENDING("A-1");
    h->answers[3] = PENDING("B-2");
    h->answers[4] = APPROVED;
    assert_int_equal(pair(h), 0);
    assert_true(h->state.record.is_registered);
    assert_true(tci_str_eq(h->state.record.resource_id, TC_STR("r")));
    assert_true(tci_str_eq(h->state.record.websocket_url, TC_STR("/ws")));
    assert_int_equal(atomic_load(&h->nrequests), 5);
    tc_str origin = tci_str_sub(tci_str(h->url), 0, strlen(h->url) - 3);
    (void)snprintf(want, sizeof want,
                   "Approve this envd in the Host's device settings. Verification code: A-1\n"
                   "Open: %.*s/a\n"
                   "Approve this envd in the Host's device settings. Verification code: B-2\n"
                   "Open: %.*s/a\n",
                   TC_STR_ARG(origin), TC_STR_ARG(origin));
    assert_string_equal(h->said, want); /* once per code */
}

static void nobody_approves(void **state)
{
    host *h = *state;
    h->options.limit_ms = 100;
    h->answers[0] = PENDING("A-1");
    assert_int_equal(pair(h), TC_E_TIMEOUT);
    assert_string_equal(h->err.msg, "pairing expired; run connect again");
    assert_false(h->state.record.is_registered);
}

static void the_limit_ends_a_request(void **state)
{
    host *h = *state;
    h->options.limit_ms = 100;
    assert_int_equal(pair(h), TC_E_TIMEOUT);
    assert_string_equal(h->err.msg, "pairing expired; run connect again");
}

static void a_silent_host(void **state)
{
    host *h = *state;
    h->options.request_ms = 100;
    assert_int_equal(pair(h), TC_E_TIMEOUT);
    assert_string_equal(h->err.msg, "Host pairing request timed out");
}

static void a_refusal_ends_it(void **state)
{
    host *h = *state;
    h->status = "409 Conflict";
    h->answers[0] = "{\"error\":{\"code\":\"c\",\"message\":\"not 5ec2e7\"}}";
    assert_int_equal(pair(h), TC_E_AUTH);
    assert_string_equal(
        h->err.msg,
        "Host rejected pairing (HTTP 409): c: not [redacted]; no credential was replaced");
    assert_int_equal(atomic_load(&h->nrequests), 1);
}

static void an_answer_that_is_too_large(void **state)
{
    static char body[TCI_PAIR_ANSWER_MAX + 2];
    host *h = *state;
    memset(body, ' ', TCI_PAIR_ANSWER_MAX + 1);
    h->answers[0] = body;
    assert_int_equal(pair(h), TC_E_TOO_BIG);
}

static void an_answer_that_just_fits(void **state)
{
    static char body[TCI_PAIR_ANSWER_MAX + 1];
    host *h = *state;
    memset(body, ' ', TCI_PAIR_ANSWER_MAX);
    memcpy(body, APPROVED, sizeof APPROVED - 1);
    h->answers[0] = body;
    assert_int_equal(pair(h), 0);
}

static void a_socket_elsewhere(void **state)
{
    host *h = *state;
    h->answers[0] =
        "{\"status\":\"approved\",\"resource_id\":\"r\",\"websocket_url\":\"ws://evil.example/\"}";
    assert_int_equal(pair(h), TC_E_INVALID);
    assert_string_equal(h->err.msg, "connection URL must stay on the paired Host and retain TLS");
    assert_false(h->state.record.is_registered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(until_it_is_approved),     T(nobody_approves),
        T(the_limit_ends_a_request), T(a_silent_host),
        T(a_refusal_ends_it),        T(an_answer_that_is_too_large),
        T(an_answer_that_just_fits), T(a_socket_elsewhere),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
