/* SPDX-License-Identifier: Apache-2.0
 *
 * Readiness of sockets, pipes and files. */
#include "test_loop.h"

#include "base/str.h"
#include "plat/fd.h"
#include "plat/socket.h"
#include <fcntl.h>
#include <unistd.h>

typedef struct seen_watch {
    tci_watch watch;
    int fd;
    unsigned last, nread, nwrite;
    bool closes_itself;
    tci_watch *also_close;
    size_t nbytes;
    bool is_ended;
} seen_watch;

static void on_ready(tci_watch *w, unsigned events)
{
    seen_watch *s = TCI_CONTAINER(w, seen_watch, watch);
    s->last = events;
    s->nread += (events & TCI_WATCH_READ) != 0;
    s->nwrite += (events & TCI_WATCH_WRITE) != 0;
    if (s->also_close != NULL)
        tci_watch_close(s->also_close);
    if (s->closes_itself)
        tci_watch_close(w);
}

static void socket_reports_what_was_asked(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    int fds[2];
    tci_loop *loop = new_loop();
    assert_int_equal(tci_socket_pair(fds, &err), 0);
    seen_watch s = {.fd = fds[0]};
    assert_int_equal(tci_watch_open(&s.watch, loop, fds[0], on_ready, &err), 0);
    assert_int_equal(tci_watch_set(&s.watch, TCI_WATCH_WRITE, &err), 0);
    tci_loop_turn(loop, -1);
    assert_int_equal(s.last, TCI_WATCH_WRITE);

    assert_int_equal(tci_watch_set(&s.watch, TCI_WATCH_READ, &err), 0);
    tci_loop_turn(loop, 0);
    assert_int_equal(s.nread, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    tci_loop_turn(loop, -1);
    assert_int_equal(s.last, TCI_WATCH_READ);

    unsigned nread = s.nread; /* paused: nothing, though the byte is still there */
    assert_int_equal(tci_watch_set(&s.watch, 0, &err), 0);
    tci_loop_turn(loop, 0);
    tci_loop_turn(loop, 0);
    assert_int_equal(s.nread, nread);
    assert_int_equal(tci_watch_set(&s.watch, TCI_WATCH_READ, &err), 0);
    tci_loop_turn(loop, -1);
    assert_int_equal(s.nread, nread + 1);

    tci_watch_close(&s.watch);
    tci_watch_close(&s.watch);
    assert_true(tci_watch_set(&s.watch, TCI_WATCH_READ, &err) < 0);
    tci_fd_close(&fds[0]); /* right away; the number may come back in a new watch */
    tci_fd_close(&fds[1]);
    assert_int_equal(tci_socket_pair(fds, &err), 0);
    assert_int_equal(tci_watch_open(&s.watch, loop, fds[0], on_ready, &err), 0);
    assert_int_equal(tci_watch_set(&s.watch, TCI_WATCH_WRITE, &err), 0);
    s.last = 0;
    TURN_UNTIL(loop, s.last == TCI_WATCH_WRITE);
    tci_watch_close(&s.watch);
    tci_fd_close(&fds[0]);
    tci_fd_close(&fds[1]);
    tci_loop_free(loop);
}

static void callback_may_close_any_watch(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    int a[2], b[2];
    tci_loop *loop = new_loop();
    assert_int_equal(tci_socket_pair(a, &err), 0);
    assert_int_equal(tci_socket_pair(b, &err), 0);
    seen_watch first = {.closes_itself = true}, second = {.closes_itself = true};
    first.also_close = &second.watch;
    second.also_close = &first.watch;
    assert_int_equal(tci_watch_open(&first.watch, loop, a[0], on_ready, &err), 0);
    assert_int_equal(tci_watch_open(&second.watch, loop, b[0], on_ready, &err), 0);
    assert_int_equal(tci_watch_set(&first.watch, TCI_WATCH_WRITE, &err), 0);
    assert_int_equal(tci_watch_set(&second.watch, TCI_WATCH_WRITE, &err), 0);
    for (int i = 0; i < 5; i++)
        tci_loop_turn(loop, 0);
    assert_int_equal(first.nwrite + second.nwrite, 1); /* the other was closed before its turn */
    for (int i = 0; i < 2; i++) {
        tci_fd_close(&a[i]);
        tci_fd_close(&b[i]);
    }
    tci_loop_free(loop);
}

static void lost_reader_shows_as_ready(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    int fds[2];
    tci_loop *loop = new_loop();
    assert_int_equal(tci_fd_pipe(fds, &err), 0);
    seen_watch s = {.closes_itself = true};
    assert_int_equal(tci_watch_open(&s.watch, loop, fds[1], on_ready, &err), 0);
    assert_int_equal(tci_watch_set(&s.watch, TCI_WATCH_READ, &err), 0); /* nothing to read, ever */
    tci_loop_turn(loop, 0);
    assert_int_equal(s.last, 0);
    tci_fd_close(&fds[0]);
    TURN_UNTIL(loop, s.last != 0);
    assert_int_equal(s.last, TCI_WATCH_READ | TCI_WATCH_WRITE);
    tci_fd_close(&fds[1]);
    tci_loop_free(loop);
}

static void on_file_ready(tci_watch *w, unsigned events)
{
    seen_watch *s = TCI_CONTAINER(w, seen_watch, watch);
    tc_err err;
    char buf[1000];
    size_t n = 0;
    assert_int_equal(events, TCI_WATCH_READ);
    int rc = tci_fd_read(s->fd, buf, sizeof buf, &n, &err);
    if (rc == TC_E_END) {
        s->is_ended = true;
        tci_watch_close(w);
        return;
    }
    assert_int_equal(rc, 0);
    s->nbytes += n;
    if (s->nbytes == 5000) { /* a pause and a change of mind inside the callback */
        assert_int_equal(tci_watch_set(w, 0, &err), 0);
        assert_int_equal(tci_watch_set(w, TCI_WATCH_READ, &err), 0);
    }
}

static void regular_file_is_always_ready(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    char text[10000];
    memset(text, 'a', sizeof text);
    int fd = open("always", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(tci_fd_write_all(fd, text, sizeof text, &err), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    tci_loop *loop = new_loop();
    seen_watch s = {.fd = fd};
    assert_int_equal(tci_watch_open(&s.watch, loop, fd, on_file_ready, &err), 0);
    assert_int_equal(tci_watch_set(&s.watch, TCI_WATCH_READ, &err), 0);
    TURN_UNTIL(loop, s.is_ended);
    assert_int_equal(s.nbytes, sizeof text);
    tci_fd_close(&fd);
    tci_loop_free(loop);
}

static void bad_descriptors_are_refused(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    int fds[2];
    tci_loop *loop = new_loop();
    seen_watch s = {0}, twice = {0};
    assert_int_equal(tci_watch_open(&s.watch, loop, 9999, on_ready, &err), TC_E_INVALID);
    assert_int_equal(tci_fd_pipe(fds, &err), 0);
    assert_int_equal(tci_watch_open(&s.watch, loop, fds[0], on_ready, &err), 0);
    assert_int_equal(tci_watch_set(&s.watch, TCI_WATCH_READ, &err), 0);
    tci_loop_turn(loop, 0);
    assert_int_equal(tci_watch_open(&twice.watch, loop, fds[0], on_ready, &err), TC_E_INVALID);
    tci_loop_free(loop); /* a watch left open does not leak */
    tci_fd_close(&fds[0]);
    tci_fd_close(&fds[1]);
}

const struct CMUnitTest watch_tests[] = {
    cmocka_unit_test(socket_reports_what_was_asked), cmocka_unit_test(callback_may_close_any_watch),
    cmocka_unit_test(lost_reader_shows_as_ready),    cmocka_unit_test(regular_file_is_always_ready),
    cmocka_unit_test(bad_descriptors_are_refused),
};
const size_t nwatch_tests = TCI_ARRAY_LEN(watch_tests);
