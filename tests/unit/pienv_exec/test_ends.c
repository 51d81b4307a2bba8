/* SPDX-License-Identifier: Apache-2.0
 *
 * How commands end: by themselves, by time, by cancel, with the connection; and what is left. */
#include "collect.h"

#include "plat/clock.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>

static int64_t now_ms(void)
{
    return tci_clock_mono_ns() / 1000000;
}

static void case_02_a_limit_ends_the_whole_tree(void **state)
{
    pi_peer *p = *state;
    enum { LEAST_MS = 500, MOST_MS = 30000 };
    output o;
    for (int limit_ms = LEAST_MS;; limit_ms *= 2) { /* time enough to say who it is */
        int64_t begun = now_ms();
        run(p, &o,
            "\"command\":\"echo a; sleep 600 & echo $! >c02.tmp; mv c02.tmp c02.pid; "
            "sleep 600\",\"timeoutMs\":%d.5",
            limit_ms);
        assert_code(&o, "timeout");
        assert_true(now_ms() - begun >= limit_ms);
        if (is_file("c02.pid") || limit_ms > MOST_MS)
            break;
        output_done(&o);
    }
    int pid = pid_from(p, "c02.pid");
    assert_out(&o, "a\n");
    assert_false(is_running(pid));
    output_done(&o);
}

static void no_time_at_all(void **state)
{
    output o;
    run(*state, &o, "\"command\":\"sleep 300\",\"timeoutMs\":0");
    assert_code(&o, "timeout");
    output_done(&o);
}

static void a_silent_command_times_out(void **state)
{
    output o;
    int64_t begun = now_ms();
    run(*state, &o, "\"command\":\"sleep 600\",\"timeoutMs\":300");
    assert_code(&o, "timeout");
    assert_true(now_ms() - begun < 60000);
    output_done(&o);
}

static void case_03_a_background_child_lives_on(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o, "\"command\":\"sleep 300 & echo $! >c03.pid; echo done\"");
    int pid = pid_from(p, "c03.pid");
    assert_exit(&o, 0);
    assert_out(&o, "done\n");
    assert_true(is_running(pid));
    output_done(&o);
    assert_int_equal(pi_peer_finish(p), TCI_PI_END_EOF); /* not killed with the connection either */
    assert_true(is_running(pid));
    assert_int_equal(kill(pid, SIGKILL), 0);
}

static void case_04_who_left_the_session_is_gone_too(void **state)
{
    pi_peer *p = *state;
    output o = {0};
    uint32_t id =
        start(p, "\"command\":\"echo x; (trap '' TERM; setsid sh -c 'echo $$ >c04.tmp; mv "
                 "c04.tmp c04.pid; sleep 300' &); sleep 300\"");
    int pid = pid_from(p, "c04.pid");
    pi_peer_cancel(p, id, true);
    collect(p, id, &o);
    assert_exit(&o, 137);
    assert_out(&o, "x\n");
    assert_false(is_running(pid));
    assert_null(pi_frame_get(o.answer, "survivors"));
    output_done(&o);
}

static void case_07_nothing_happens_after_the_limit(void **state)
{
    output o;
    run(*state, &o, "\"command\":\"sleep 60; touch late\",\"timeoutMs\":400");
    assert_code(&o, "timeout");
    assert_false(is_file("late"));
    output_done(&o);
}

static void aborted_or_killed(void **state)
{
    pi_peer *p = *state;
    output o = {0};
    uint32_t id = start(p, "\"command\":\"sleep 300\"");
    pi_peer_cancel(p, id, false); /* right behind it */
    collect(p, id, &o);
    assert_code(&o, "aborted");
    output_done(&o);
    o = (output){0};
    id = start(p, "\"command\":\"sleep 300\"");
    pi_peer_cancel(p, id, true);
    pi_peer_cancel(p, id, true);
    collect(p, id, &o);
    assert_exit(&o, 137);
    output_done(&o);
    pi_peer_cancel(p, id, false); /* of what is over: nothing */
    pi_peer_cancel(p, 4000000000, true);
    run(p, &o, "\"command\":\"echo still here\"");
    assert_out(&o, "still here\n");
    output_done(&o);
}

static void twenty_are_aborted_at_once(void **state)
{
    pi_peer *p = *state;
    enum { N = 20 };
    uint32_t ids[N];
    for (int i = 0; i < N; i++) {
        ids[i] = start(p, "\"command\":\"sleep 300\"");
        if (i % 5 != 0)
            pi_peer_turn(p, i % 5 - 1);
        pi_peer_cancel(p, ids[i], false);
    }
    for (int i = 0; i < N; i++) {
        output o = {0};
        collect(p, ids[i], &o);
        assert_code(&o, "aborted");
        output_done(&o);
    }
}

static void many_at_a_time(void **state)
{
    pi_peer *p = *state;
    enum { N = 60 };
    uint32_t ids[N];
    for (int i = 0; i < N; i++)
        ids[i] = start(p, "\"command\":\"echo %d; exit %d\"", i, i);
    for (int i = N - 1; i >= 0; i--) {
        output o = {0};
        char expected[16];
        collect(p, ids[i], &o);
        (void)snprintf(expected, sizeof expected, "%d\n", i);
        assert_text(&o.out, tci_str(expected));
        assert_exit(&o, (uint64_t)i);
        output_done(&o);
    }
}

static void case_19_silence_is_no_death(void **state)
{
    output o;
    run(*state, &o, "\"command\":\"sleep 1.5; echo late\",\"timeoutMs\":120000");
    assert_out(&o, "late\n");
    assert_exit(&o, 0);
    output_done(&o);
}

/* ---- the connection ends ---- */

static void start_tree(pi_peer *p, int *ret_first, int *ret_escaped)
{
    (void)start(p,
                "\"command\":\"echo $$ >first.tmp; mv first.tmp first.pid; (setsid sh -c 'echo $$ "
                ">escaped.tmp; mv escaped.tmp escaped.pid; sleep 300' &); sleep 300\"");
    *ret_first = pid_from(p, "first.pid");
    *ret_escaped = pid_from(p, "escaped.pid");
}

static void the_end_of_input_kills_what_runs(void **state)
{
    pi_peer *p = *state;
    int first, escaped;
    start_tree(p, &first, &escaped);
    assert_int_equal(pi_peer_finish(p), TCI_PI_END_EOF);
    assert_true(p->was_clean);
    wait_gone(NULL, first);
    wait_gone(NULL, escaped);
}

static void a_broken_frame_kills_what_runs(void **state)
{
    pi_peer *p = *state;
    int first, escaped;
    start_tree(p, &first, &escaped);
    pi_peer_send_raw(p, "\0\0\0\1garbage that is no frame", 28);
    assert_int_equal(pi_peer_wait_end(p), TCI_PI_END_BROKEN);
    wait_gone(NULL, first);
    wait_gone(NULL, escaped);
}

static void a_stop_kills_what_runs(void **state)
{
    pi_peer *p = *state;
    int first, escaped;
    start_tree(p, &first, &escaped);
    tci_pi_stop(p->server);
    assert_int_equal(pi_peer_wait_end(p), TCI_PI_END_SIGNAL);
    wait_gone(NULL, first);
    wait_gone(NULL, escaped);
}

/* With output under way and nobody reading. */
static void an_end_in_the_middle_of_much_output(void **state)
{
    pi_peer *p = *state;
    (void)start(p, "\"command\":\"yes\"");
    (void)start(p, "\"command\":\"yes\",\"window\":{\"maxBytes\":1000,\"maxLines\":20,"
                   "\"minIntervalMs\":1,\"bytesPerSecond\":1000000}");
    for (int i = 0; i < 50; i++)
        tci_loop_turn(p->loop, 2);
    (void)pi_peer_finish(p);
    assert_true(p->was_clean);
}

/* ---- nothing is left behind ---- */

static int nfiles_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

static long resident_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *in = fopen("/proc/self/status", "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in) != NULL)
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    (void)fclose(in);
    return kib;
}

static void case_18_short_commands_leave_nothing(void **state)
{
    pi_peer *p = *state;
    enum { WARM = 200, ROUNDS = 2000 };
#if defined(__SANITIZE_ADDRESS__)
    const long kib_max = 1L << 30; /* freed memory is kept back on purpose */
#else
    const long kib_max = 2048;
#endif
    int files = 0;
    long kib = 0;
    uint32_t seed = 18;
    for (int i = 0; i < WARM + ROUNDS; i++) {
        output o = {0};
        uint32_t id = start(p, "\"argv\":[\"echo\",\"x\"]");
        if (i == WARM) {
            files = nfiles_open();
            kib = resident_kib();
        }
        if (i % 2 == 1) {
            seed = seed * 1664525 + 1013904223;
            for (uint32_t turns = seed >> 30; turns > 0; turns--)
                pi_peer_turn(p, 0);
            pi_peer_cancel(p, id, (seed >> 29 & 1) != 0);
        }
        collect(p, id, &o);
        output_done(&o);
    }
    assert_true(nfiles_open() <= files + 32); /* groups kept for use vary */
    assert_true(resident_kib() - kib < kib_max);
}

int run_end_tests(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOREIGN(case_02_a_limit_ends_the_whole_tree),
        WITH_FOREIGN(no_time_at_all),
        WITH_FOREIGN(a_silent_command_times_out),
        WITH_FOREIGN(case_03_a_background_child_lives_on),
        WITH_FOREIGN(case_04_who_left_the_session_is_gone_too),
        WITH_FOREIGN(case_07_nothing_happens_after_the_limit),
        WITH_FOREIGN(aborted_or_killed),
        WITH_FOREIGN(twenty_are_aborted_at_once),
        WITH_FOREIGN(many_at_a_time),
        WITH_FOREIGN(case_19_silence_is_no_death),
        WITH_OURS(the_end_of_input_kills_what_runs),
        WITH_OURS(a_broken_frame_kills_what_runs),
        WITH_OURS(a_stop_kills_what_runs),
        WITH_OURS(an_end_in_the_middle_of_much_output),
        WITH_FOREIGN(case_18_short_commands_leave_nothing),
    };
    return cmocka_run_group_tests_name("ends", tests, NULL, NULL);
}
