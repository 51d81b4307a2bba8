/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams over pipes, sockets and files. */
#include "test_net.h"

#include "net/fd.h"
#include "plat/fd.h"
#include "plat/socket.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 5000000 };

static char *many_bytes(void)
{
    char *bytes = malloc(MANY);
    assert_non_null(bytes);
    for (size_t i = 0; i < MANY; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    return bytes;
}

static void carry_both_ways(tci_loop *loop, tci_stream *a, tci_stream *b)
{
    char *bytes = many_bytes();
    end x, y;
    end_init(&x, a);
    end_init(&y, b);
    x.ends_after_out = y.ends_after_out = true;
    end_send(&x, bytes, MANY);
    end_send(&y, bytes, MANY / 2);
    TURN_UNTIL(loop, x.is_over && y.is_over);
    assert_int_equal(x.result, TC_E_END);
    assert_int_equal(y.result, TC_E_END);
    assert_int_equal(y.in.len, MANY);
    assert_memory_equal(y.in.ptr, bytes, MANY);
    assert_int_equal(x.in.len, MANY / 2);
    assert_memory_equal(x.in.ptr, bytes, MANY / 2);
    end_done(&x);
    end_done(&y);
    free(bytes);
}

static void sockets_carry_many_bytes_and_the_end(void **state)
{
    TCI_UNUSED(state);
    tci_loop *loop = new_loop();
    tci_stream *pair[2];
    stream_pair(loop, pair);
    carry_both_ways(loop, pair[0], pair[1]);
    tci_loop_free(loop);
}

static void pipes_carry_many_bytes_and_the_end(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    int there[2], back[2];
    tci_stream *a = NULL, *b = NULL;
    tci_loop *loop = new_loop();
    assert_int_equal(tci_fd_pipe(there, &err), 0);
    assert_int_equal(tci_fd_pipe(back, &err), 0);
    assert_int_equal(tci_fd_stream_new(loop, back[0], there[1], true, &a, &err), 0);
    assert_int_equal(tci_fd_stream_new(loop, there[0], back[1], true, &b, &err), 0);
    carry_both_ways(loop, a, b);
    tci_loop_free(loop);
}

static void vanished_peer_shows_as_closed(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    int fds[2];
    char bytes[100] = "x";
    tci_loop *loop = new_loop();
    tci_stream *pair[2];
    end e;
    stream_pair(loop, pair);
    tci_stream_close(pair[1]);
    end_init(&e, pair[0]);
    e.is_paused = true;
    end_send(&e, bytes, sizeof bytes);
    TURN_UNTIL(loop, e.is_over);
    assert_int_equal(e.result, TC_E_CLOSED);
    end_done(&e);

    assert_int_equal(tci_fd_pipe(fds, &err), 0);
    tci_stream *s = NULL;
    assert_int_equal(tci_fd_stream_new(loop, -1, fds[1], true, &s, &err), 0);
    tci_fd_close(&fds[0]);
    end_init(&e, s);
    end_send(&e, bytes, sizeof bytes);
    TURN_UNTIL(loop, e.is_over);
    assert_int_equal(e.result, TC_E_CLOSED);
    end_done(&e);
    tci_loop_free(loop);
}

static void borrowed_descriptors_are_given_back_as_they_were(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    int fds[2], ready[2];
    tci_stream *s = NULL;
    tci_loop *loop = new_loop();
    assert_int_equal(tci_fd_pipe(fds, &err), 0);
    assert_int_equal(tci_fd_stream_new(loop, fds[0], fds[1], false, &s, &err), 0);
    assert_true(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(tci_stream_shutdown_write(s, &err), 0);
    assert_false(fcntl(fds[1], F_GETFL) & O_NONBLOCK);
    tci_stream_close(s);
    assert_false(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(write(fds[1], "x", 1), 1);
    tci_fd_close(&fds[0]);
    tci_fd_close(&fds[1]);
    assert_int_equal(tci_socket_pair(ready, &err), 0); /* non-blocking before: stays so */
    assert_int_equal(tci_fd_stream_new(loop, ready[0], ready[0], false, &s, &err), 0);
    tci_stream_close(s);
    assert_true(fcntl(ready[0], F_GETFL) & O_NONBLOCK);
    tci_fd_close(&ready[0]);
    tci_fd_close(&ready[1]);
    assert_int_equal(tci_fd_stream_new(loop, 9999, -1, false, &s, &err), TC_E_IO);
    tci_loop_free(loop);
}

static void file_as_input_is_read_to_its_end(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_stream *s = NULL;
    char bytes[70000];
    memset(bytes, 'f', sizeof bytes);
    int in = open("input", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int out = open("output", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    assert_int_equal(tci_fd_write_all(in, bytes, sizeof bytes, &err), 0);
    assert_int_equal(lseek(in, 0, SEEK_SET), 0);
    tci_loop *loop = new_loop();
    assert_int_equal(tci_fd_stream_new(loop, in, out, true, &s, &err), 0);
    end e;
    end_init(&e, s);
    e.read_cap = 1000;
    end_send(&e, bytes, 500);
    TURN_UNTIL(loop, e.is_over);
    assert_int_equal(e.result, TC_E_END);
    assert_int_equal(e.in.len, sizeof bytes);
    assert_int_equal(lseek(out, 0, SEEK_END), 500);
    end_done(&e);
    tci_loop_free(loop);
}

/* Others who share the descriptor still wait. */
static void a_pipe_opened_again_does_not_wait(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    int fds[2], again = -1;
    char bytes[4096] = {0};
    size_t n = 1, total = 0;
    assert_int_equal(tci_fd_pipe(fds, &err), 0);
    assert_int_equal(tci_fd_open_again(fds[1], &again, &err), 0);
    for (; n > 0; total += n)
        assert_int_equal(tci_fd_write(again, bytes, sizeof bytes, &n, &err), 0);
    assert_true(total >= sizeof bytes);
    assert_int_equal(fcntl(fds[1], F_GETFL) & O_NONBLOCK, 0);
    tci_fd_close(&fds[0]);
    assert_int_equal(tci_fd_write(again, bytes, sizeof bytes, &n, &err), TC_E_CLOSED);
    tci_fd_close(&again);
    tci_fd_close(&fds[1]);
    int file = open("plain", O_CREAT | O_RDWR, 0600);
    assert_int_equal(tci_fd_open_again(file, &again, &err), TC_E_UNSUPPORTED);
    tci_fd_close(&file);
}

const struct CMUnitTest fd_tests[] = {
    cmocka_unit_test(sockets_carry_many_bytes_and_the_end),
    cmocka_unit_test(pipes_carry_many_bytes_and_the_end),
    cmocka_unit_test(vanished_peer_shows_as_closed),
    cmocka_unit_test(borrowed_descriptors_are_given_back_as_they_were),
    cmocka_unit_test(file_as_input_is_read_to_its_end),
    cmocka_unit_test(a_pipe_opened_again_does_not_wait),
};
const size_t nfd_tests = TCI_ARRAY_LEN(fd_tests);
