/* SPDX-License-Identifier: Apache-2.0
 *
 * Listening and connecting, on this machine only. */
#include "test_net.h"

#include "net/tcp.h"
#include "plat/fd.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FLOOD = 200 };

typedef struct server {
    tci_tcp_listener *listener;
    tci_stream *streams[FLOOD];
    size_t naccepted;
    tci_addr last_peer;
    bool closes_itself;
} server;

static void on_accept(void *user, tci_stream *stream, const tci_addr *peer)
{
    server *s = user;
    assert_true(s->naccepted < FLOOD);
    s->streams[s->naccepted++] = stream;
    s->last_peer = *peer;
    if (s->closes_itself) {
        tci_tcp_listener_close(s->listener);
        s->listener = NULL;
    }
}

static void server_open(server *s, tci_loop *loop, const char *at)
{
    tc_err err;
    tci_addr addr;
    *s = (server){0};
    assert_int_equal(tci_addr_parse(tci_str(at), &addr, &err), 0);
    assert_int_equal(tci_tcp_listener_open(loop, &addr, 0, on_accept, s, &s->listener, &err), 0);
    assert_true(tci_tcp_listener_addr(s->listener).port != 0);
}

static void server_done(server *s)
{
    tci_tcp_listener_close(s->listener);
    for (size_t i = 0; i < s->naccepted; i++)
        tci_stream_close(s->streams[i]);
}

typedef struct outcome {
    bool is_done;
    tci_stream *stream;
    tc_err err;
} outcome;

static void on_connect(void *user, tci_stream *stream, const tc_err *err)
{
    outcome *o = user;
    assert_false(o->is_done);
    o->is_done = true;
    o->stream = stream;
    if (stream == NULL)
        o->err = *err;
}

static void start(tci_loop *loop, const char *host, uint16_t port, int64_t timeout_ms, outcome *o,
                  tci_tcp_connect **ret)
{
    tc_err err;
    *o = (outcome){0};
    int rc = tci_tcp_connect_open(loop, tci_str(host), port, timeout_ms, on_connect, o, ret, &err);
    assert_int_equal(rc, 0);
    assert_false(o->is_done);
}

static outcome connect_to(tci_loop *loop, const char *host, uint16_t port)
{
    outcome o;
    tci_tcp_connect *c = NULL;
    start(loop, host, port, 0, &o, &c);
    TURN_UNTIL(loop, o.is_done);
    return o;
}

static uint16_t port_of(const server *s)
{
    return tci_tcp_listener_addr(s->listener).port;
}

static void connects_by_address_and_by_name(void **state)
{
    TCI_UNUSED(state);
    /* the last is no numeric address to us, but the system's lookup knows it without a network */
    static const char *const hosts[] = {"127.0.0.1", "localhost", "127.1"};
    tci_loop *loop = new_loop();
    server s;
    server_open(&s, loop, "127.0.0.1:0");
    for (size_t i = 0; i < TCI_ARRAY_LEN(hosts); i++) {
        outcome o = connect_to(loop, hosts[i], port_of(&s));
        assert_non_null(o.stream);
        TURN_UNTIL(loop, s.naccepted == i + 1);
        assert_true(tci_addr_is_loopback(&s.last_peer));
        end client, peer;
        end_init(&client, o.stream);
        end_init(&peer, s.streams[i]);
        end_send(&client, "question", 8);
        TURN_UNTIL(loop, peer.in.len == 8);
        peer.ends_after_out = true;
        end_send(&peer, "answer", 6);
        TURN_UNTIL(loop, client.is_over);
        assert_int_equal(client.in.len, 6);
        end_done(&client);
        end_done(&peer);
        s.streams[i] = NULL;
    }
    server_done(&s);
    tci_loop_free(loop);
}

static void next_address_is_tried(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_addr addr;
    tci_loop *loop = new_loop();
    server s = {0};
    assert_int_equal(tci_addr_parse(TC_STR("[::1]:0"), &addr, &err), 0);
    if (tci_tcp_listener_open(loop, &addr, 0, on_accept, &s, &s.listener, &err) < 0) {
        tci_loop_free(loop);
        print_message("no IPv6 on this machine\n");
        skip();
    }
    outcome o = connect_to(loop, "localhost", port_of(&s)); /* nothing listens on 127.0.0.1 */
    assert_non_null(o.stream);
    tci_stream_close(o.stream);
    server_done(&s);
    tci_loop_free(loop);
}

static void refusal_names_host_and_port(void **state)
{
    TCI_UNUSED(state);
    char expected[40];
    tci_loop *loop = new_loop();
    server s;
    server_open(&s, loop, "127.0.0.1:0");
    uint16_t port = port_of(&s);
    server_done(&s);
    outcome o = connect_to(loop, "127.0.0.1", port);
    assert_null(o.stream);
    assert_int_equal(o.err.code, TC_E_CONNECT);
    (void)snprintf(expected, sizeof expected, "127.0.0.1:%u", (unsigned)port);
    assert_non_null(strstr(o.err.msg, expected));
    char name[80]; /* a label no name may have: refused without asking the network */
    memset(name, 'a', 70);
    name[70] = '\0';
    o = connect_to(loop, name, 80);
    assert_null(o.stream);
    assert_true(o.err.code == TC_E_NOT_FOUND || o.err.code == TC_E_CONNECT);
    tci_loop_free(loop);
}

static void silent_server_times_out(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_addr addr;
    int listen_fd = -1, fds[8];
    tci_loop *loop = new_loop();
    assert_int_equal(tci_addr_parse(TC_STR("127.0.0.1:0"), &addr, &err), 0);
    assert_int_equal(tci_socket_listen(&addr, 1, &listen_fd, &err), 0);
    assert_int_equal(tci_socket_local_addr(listen_fd, &addr, &err), 0);
    for (size_t i = 0; i < 8; i++) { /* nobody accepts: the queue is full after a few */
        bool is_connected = false;
        assert_int_equal(tci_socket_connect(&addr, &fds[i], &is_connected, &err), 0);
    }
    outcome o;
    tci_tcp_connect *c = NULL;
    start(loop, "127.0.0.1", addr.port, 50, &o, &c);
    TURN_UNTIL(loop, o.is_done);
    assert_null(o.stream);
    assert_int_equal(o.err.code, TC_E_TIMEOUT);
    start(loop, "127.0.0.1", addr.port, 0, &o, &c);
    tci_loop_turn(loop, 0);
    tci_tcp_connect_cancel(c);
    start(loop, "127.1", addr.port, 0, &o, &c);
    tci_tcp_connect_cancel(c); /* while it is looked up */
    TURN_UNTIL(loop, tci_loop_pending_jobs(loop) == 0);
    assert_false(o.is_done);
    for (size_t i = 0; i < 8; i++)
        tci_fd_close(&fds[i]);
    tci_fd_close(&listen_fd);
    tci_loop_free(loop);
}

static void taken_port_is_a_conflict(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_loop *loop = new_loop();
    server s;
    server_open(&s, loop, "127.0.0.1:0");
    tci_addr addr = tci_tcp_listener_addr(s.listener);
    tci_tcp_listener *second = NULL;
    assert_int_equal(tci_tcp_listener_open(loop, &addr, 0, on_accept, &s, &second, &err),
                     TC_E_CONFLICT);
    assert_int_equal(tci_addr_parse(TC_STR("192.0.2.1:0"), &addr, &err), 0);
    assert_int_equal(tci_tcp_listener_open(loop, &addr, 0, on_accept, &s, &second, &err),
                     TC_E_INVALID);
    server_done(&s);
    tci_loop_free(loop);
}

static void connect_raw(const server *s, int *fds, size_t nfds)
{
    tci_addr addr = tci_tcp_listener_addr(s->listener);
    for (size_t i = 0; i < nfds; i++) {
        tc_err err;
        bool is_connected = false;
        assert_int_equal(tci_socket_connect(&addr, &fds[i], &is_connected, &err), 0);
    }
}

static void flood_is_accepted_and_pause_holds_it_back(void **state)
{
    TCI_UNUSED(state);
    int fds[FLOOD];
    tci_loop *loop = new_loop();
    server s;
    server_open(&s, loop, "127.0.0.1:0");
    connect_raw(&s, fds, 100);
    TURN_UNTIL(loop, s.naccepted == 100);
    tci_tcp_listener_pause(s.listener);
    connect_raw(&s, fds + 100, 100);
    for (int i = 0; i < 20; i++)
        tci_loop_turn(loop, 0);
    assert_int_equal(s.naccepted, 100);
    tci_tcp_listener_resume(s.listener);
    TURN_UNTIL(loop, s.naccepted == FLOOD);
    for (size_t i = 0; i < FLOOD; i++)
        tci_fd_close(&fds[i]);
    server_done(&s);
    server_open(&s, loop, "127.0.0.1:0");
    s.closes_itself = true;
    connect_raw(&s, fds, 5);
    TURN_UNTIL(loop, s.naccepted > 0);
    tci_loop_turn(loop, 0);
    assert_int_equal(s.naccepted, 1); /* closed in its own callback */
    for (size_t i = 0; i < 5; i++)
        tci_fd_close(&fds[i]);
    server_done(&s);
    tci_loop_free(loop);
}

static void without_descriptors_connections_wait(void **state)
{
    TCI_UNUSED(state);
    int fds[10];
    struct rlimit before, low;
    tci_loop *loop = new_loop();
    server s;
    server_open(&s, loop, "127.0.0.1:0");
    connect_raw(&s, fds, 10);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    int lowest_free = dup(0);
    assert_true(lowest_free >= 0);
    assert_int_equal(close(lowest_free), 0);
    low.rlim_cur = (rlim_t)lowest_free;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    tci_loop_turn(loop, -1);
    size_t naccepted = s.naccepted;
    tci_loop_turn(loop, 0); /* at rest: nothing is tried again at once */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(naccepted, 0);
    assert_int_equal(s.naccepted, 0);
    TURN_UNTIL(loop, s.naccepted == 10);
    for (size_t i = 0; i < 10; i++)
        tci_fd_close(&fds[i]);
    server_done(&s);
    tci_loop_free(loop);
}

const struct CMUnitTest tcp_tests[] = {
    cmocka_unit_test(connects_by_address_and_by_name),
    cmocka_unit_test(next_address_is_tried),
    cmocka_unit_test(refusal_names_host_and_port),
    cmocka_unit_test(silent_server_times_out),
    cmocka_unit_test(taken_port_is_a_conflict),
    cmocka_unit_test(flood_is_accepted_and_pause_holds_it_back),
    cmocka_unit_test(without_descriptors_connections_wait),
};
const size_t ntcp_tests = TCI_ARRAY_LEN(tcp_tests);
