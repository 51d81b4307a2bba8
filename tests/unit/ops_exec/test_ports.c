/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports that listen, do not listen, begin and stop to. */
#include "tests_spool.h"

#include "ops/ports.h"
#include "plat/clock.h"
#include "plat/fd.h"

#include <netinet/in.h>
#include <sys/socket.h>

typedef struct asked {
    tci_port_check check; /* first */
    bool is_answered;
    int rc;
} asked;

static void on_answer(tci_port_check *check, int rc, const tc_err *err)
{
    asked *a = (asked *)check;
    TCI_UNUSED(err);
    assert_false(a->is_answered);
    a->is_answered = true;
    a->rc = rc;
}

static tci_loop *new_loop(void)
{
    tc_err err;
    tci_loop *loop;
    assert_int_equal(tci_loop_new(&loop, &err), 0);
    return loop;
}

static void wait_for(tci_loop *loop, const asked *a)
{
    int64_t end_ns = tci_clock_mono_ns() + 20000000000;
    while (!a->is_answered) {
        assert_true(tci_clock_mono_ns() < end_ns);
        tci_loop_turn(loop, 100);
    }
}

/* A socket that has the port, so that nobody else gets it, and does not listen yet. */
static int take_port(uint16_t *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static void one_look(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_loop *loop = new_loop();
    uint16_t port;
    int fd = take_port(&port);
    asked b = {0}, c = {0};
    assert_int_equal(tci_port_inspect(&b.check, loop, TCI_PORT_LOOPBACK, port, on_answer, &err), 0);
    wait_for(loop, &b);
    assert_int_equal(b.check.status, TCI_PORT_NOT_LISTENING);
    assert_int_equal(listen(fd, 8), 0);
    static const tci_port_address addresses[] = {TCI_PORT_LOOPBACK, TCI_PORT_ANY};
    for (size_t i = 0; i < TCI_ARRAY_LEN(addresses); i++) {
        asked a = {0};
        assert_int_equal(tci_port_inspect(&a.check, loop, addresses[i], port, on_answer, &err), 0);
        assert_false(a.is_answered);
        wait_for(loop, &a);
        assert_int_equal(a.rc, 0);
        assert_int_equal(a.check.status, TCI_PORT_LISTENING);
        assert_true(a.check.observed_at.sec > 0);
    }
    tci_fd_close(&fd);
    assert_int_equal(tci_port_inspect(&c.check, loop, TCI_PORT_LOOPBACK, 0, on_answer, &err),
                     TC_E_INVALID);
    tci_loop_free(loop);
}

static void waiting_for_a_change(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_loop *loop = new_loop();
    uint16_t port;
    int fd = take_port(&port);
    asked up = {0};
    int64_t far_ns = tci_clock_mono_ns() + 60000000000;
    assert_int_equal(tci_port_wait(&up.check, loop, TCI_PORT_LOOPBACK, port, TCI_PORT_LISTENING,
                                   far_ns, on_answer, &err),
                     0);
    for (int i = 0; i < 5; i++)
        tci_loop_turn(loop, 30);
    assert_false(up.is_answered);
    assert_int_equal(listen(fd, 8), 0);
    wait_for(loop, &up);
    assert_int_equal(up.rc, 0);
    assert_int_equal(up.check.status, TCI_PORT_LISTENING);

    asked down = {0};
    assert_int_equal(tci_port_wait(&down.check, loop, TCI_PORT_LOOPBACK, port,
                                   TCI_PORT_NOT_LISTENING, far_ns, on_answer, &err),
                     0);
    tci_loop_turn(loop, 30);
    tci_fd_close(&fd);
    wait_for(loop, &down);
    assert_int_equal(down.rc, 0);
    tci_loop_free(loop);
}

static void deadline_and_cancel(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_loop *loop = new_loop();
    uint16_t port;
    int fd = take_port(&port);
    asked late = {0}, gone = {0};
    int64_t from_ns = tci_clock_mono_ns();
    assert_int_equal(tci_port_wait(&late.check, loop, TCI_PORT_LOOPBACK, port, TCI_PORT_LISTENING,
                                   from_ns + 120000000, on_answer, &err),
                     0);
    assert_int_equal(tci_port_wait(&gone.check, loop, TCI_PORT_LOOPBACK, port, TCI_PORT_LISTENING,
                                   from_ns + 50000000, on_answer, &err),
                     0);
    tci_port_cancel(&gone.check);
    tci_port_cancel(&gone.check);
    wait_for(loop, &late);
    assert_int_equal(late.rc, TC_E_TIMEOUT);
    assert_true(tci_clock_mono_ns() - from_ns >= 120000000);
    assert_false(gone.is_answered);
    tci_fd_close(&fd);
    tci_loop_free(loop);
}

int run_ports_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_look),
        cmocka_unit_test(waiting_for_a_change),
        cmocka_unit_test(deadline_and_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
