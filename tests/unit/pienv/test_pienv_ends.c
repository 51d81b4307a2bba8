/* SPDX-License-Identifier: Apache-2.0
 *
 * The program: its words, its exit statuses, and that no way out leaves a running command behind. */
#include "pienv_peer.h"

#include "base/num.h"
#include "plat/clock.h"
#include "plat/fd.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef TC_TELECHIRD
#define TC_TELECHIRD "telechird"
#endif

/* ---- words ---- */

typedef struct said {
    int status;
    char out[512], err[512];
} said;

static void read_all(int fd, char *to, size_t size)
{
    size_t len = 0;
    for (ssize_t n; len < size - 1 && (n = read(fd, to + len, size - 1 - len)) > 0;)
        len += (size_t)n;
    to[len] = '\0';
    close(fd);
}

static said run(const char *const *argv)
{
    tc_err err;
    said s = {0};
    int out[2], errs[2];
    bool was_lost;
    tci_exit e;
    tci_child child;
    static const char *const envp[] = {"PATH=/usr/bin:/bin", NULL};
    tci_spawn_opts o = TCI_SPAWN_OPTS_NONE;
    assert_int_equal(tci_fd_pipe(out, &err), 0);
    assert_int_equal(tci_fd_pipe(errs, &err), 0);
    o.program = TC_TELECHIRD;
    o.argv = argv;
    o.envp = envp;
    o.stdio[1] = out[1];
    o.stdio[2] = errs[1];
    assert_int_equal(tci_spawn(&o, &child, &err), 0);
    close(out[1]);
    close(errs[1]);
    read_all(out[0], s.out, sizeof s.out);
    read_all(errs[0], s.err, sizeof s.err);
    tci_child_reap_wait(&child, &e, &was_lost);
    s.status = e.is_signal ? 128 + e.signum : e.code;
    return s;
}

static void the_words_are_those_of_the_reference(void **state)
{
    (void)state;
    static const char *const no_token[] = {"telechird", "serve", NULL};
    static const char *const last[] = {"telechird", "serve", "--token", NULL};
    static const char *const good[] = {"telechird", "serve", "more", "--token", "a b", "--x", NULL};
    static const char *const version[] = {"telechird", "--version", NULL};
    said s = run(no_token);
    assert_int_equal(s.status, 2);
    assert_string_equal(s.out, "");
    assert_true(strstr(s.err, "usage") != NULL);
    s = run(last);
    assert_int_equal(s.status, 2);
    assert_true(strstr(s.err, "usage") != NULL);
    s = run(good); /* its input is /dev/null: it begins, and ends */
    assert_int_equal(s.status, 0);
    assert_string_equal(s.out, "PI-ENV a b\n");
    assert_string_equal(s.err, "");
    s = run(version);
    assert_int_equal(s.status, 0);
    assert_true(strncmp(s.out, "telechird ", 10) == 0);
}

/* ---- ways out ---- */

static bool is_alive(uint64_t pid)
{
    tci_proc_stat st;
    return tci_proc_stat_read((int)pid, &st) && st.state != 'Z' && st.state != 'X';
}

static uint64_t number_of(tc_str text)
{
    tc_err err;
    uint64_t n = 0;
    assert_true(text.len > 1);
    assert_int_equal(tci_num_u64(tci_str_sub(text, 0, text.len - 1), &n, &err), 0);
    return n;
}

/* A command that runs, and a process of it in the same group. */
static void start_command(pi_peer *p, uint64_t pids[2])
{
    uint32_t id = pi_peer_send(
        p,
        "{\"op\":\"exec\",\"command\":\"sleep 600 & echo $!; echo $$ >&2; wait\",\"cwd\":\"/\"}");
    for (int i = 0; i < 2; i++) {
        pi_frame *f = pi_peer_next(p, id);
        pids[i] = number_of(f->payload);
        pi_frame_free(f);
    }
}

/* One whose first process has ended, and that left another behind. */
static uint64_t start_background(pi_peer *p)
{
    uint32_t id = pi_peer_send(
        p, "{\"op\":\"exec\",\"command\":\"sleep 600 >/dev/null 2>&1 & echo $!\",\"cwd\":\"/\"}");
    pi_frame *f = pi_peer_next(p, id);
    uint64_t pid = number_of(f->payload);
    pi_frame_free(f);
    pi_frame_free(pi_peer_answer(p, id));
    return pid;
}

typedef void way_out(pi_peer *p);

static void leaves_nothing(way_out *leave, int status)
{
    pi_peer p;
    uint64_t pids[2];
    pi_peer_spawn(&p, TC_TELECHIRD, true);
    uint64_t background = start_background(&p);
    start_command(&p, pids);
    assert_true(is_alive(pids[0]) && is_alive(pids[1]) && is_alive(background));
    leave(&p);
    assert_int_equal(pi_peer_wait_end(&p), status);
    assert_false(is_alive(pids[0]));
    assert_false(is_alive(pids[1]));
    assert_true(is_alive(background)); /* its command had settled */
    assert_int_equal(kill((pid_t)background, SIGKILL), 0);
    pi_peer_close(&p);
}

static void by_eof(pi_peer *p)
{
    tci_fd_close(&p->fd_out);
}

static void by_bad_frame(pi_peer *p)
{
    pi_peer_send_raw(p, "\0\0\0\0", 4);
}

static void by_eof_in_a_frame(pi_peer *p)
{
    pi_peer_send_raw(p, "\0\0\0\x0b\x06", 5);
    tci_fd_close(&p->fd_out);
}

static void by_term(pi_peer *p)
{
    assert_true(tci_child_signal(&p->child, SIGTERM));
}

static void by_hup(pi_peer *p)
{
    assert_true(tci_child_signal(&p->child, SIGHUP));
}

static void by_int(pi_peer *p)
{
    assert_true(tci_child_signal(&p->child, SIGINT));
}

static void no_way_out_leaves_a_running_command(void **state)
{
    (void)state;
    leaves_nothing(by_eof, 0);
    leaves_nothing(by_bad_frame, 1);
    leaves_nothing(by_eof_in_a_frame, 1);
    leaves_nothing(by_term, 128 + SIGTERM);
    leaves_nothing(by_hup, 128 + SIGHUP);
    leaves_nothing(by_int, 128 + SIGINT);
}

/* Nobody takes what it writes, and nobody is there to be told. */
static void a_closed_output_ends_it(void **state)
{
    pi_peer p;
    uint64_t pids[2];
    (void)state;
    pi_peer_spawn(&p, TC_TELECHIRD, true);
    start_command(&p, pids);
    tci_fd_close(&p.fd_in);
    p.saw_end = true;
    (void)pi_peer_send(&p, "{\"op\":\"lstat\",\"path\":\"/\"}");
    assert_int_equal(pi_peer_wait_end(&p), 1);
    assert_false(is_alive(pids[0]));
    assert_false(is_alive(pids[1]));
    pi_peer_close(&p);
}

static void what_hangs_does_not_keep_it_from_ending(void **state)
{
    pi_peer p;
    (void)state;
    assert_int_equal(mkfifo("hang", 0600), 0);
    pi_peer_spawn(&p, TC_TELECHIRD, true);
    for (int i = 0; i < 20; i++)
        (void)pi_peer_send(&p, "{\"op\":\"open\",\"path\":\"hang\",\"mode\":\"read\"}");
    (void)pi_peer_send(&p, "{\"op\":\"write\",\"path\":\"hang\"}");
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"hang\"}"));
    assert_int_equal(pi_peer_finish(&p), 0);
    pi_peer_close(&p);
}

/* Answers that were under way are still flushed to a peer that has closed its sending side. */
static void answers_are_flushed_before_the_end(void **state)
{
    enum { N = 200 };
    pi_peer p;
    uint32_t ids[N];
    (void)state;
    pi_peer_spawn(&p, TC_TELECHIRD, true);
    for (int i = 0; i < N; i++)
        ids[i] = pi_peer_send(&p, "{\"op\":\"lstat\",\"path\":\"/\"}");
    assert_int_equal(pi_peer_finish(&p), 0);
    for (int i = 0; i < N; i++)
        pi_frame_free(pi_peer_answer(&p, ids[i]));
    pi_peer_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_words_are_those_of_the_reference),
        cmocka_unit_test(no_way_out_leaves_a_running_command),
        cmocka_unit_test(a_closed_output_ends_it),
        cmocka_unit_test(what_hangs_does_not_keep_it_from_ending),
        cmocka_unit_test(answers_are_flushed_before_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
