/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole trees: descendants that hide, orphans of a PID 1, others that may live on. */
#include "fixture.h"

#include "plat/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void case_04_left_the_session(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    run_start(&r, f,
              "(trap '' TERM; setsid sh -c 'echo $$ >case_04.tmp; mv case_04.tmp case_04.pid; "
              "sleep 300' &); "
              "while [ ! -f case_04.pid ]; do sleep 0.01; done; echo x",
              fix_opts());
    run_wait(&r, 30000);
    int pid = pid_in_file(f, "case_04.pid");
    assert_output(r.out, "x\n");
    assert_int_equal(r.status.cleanup, TCI_EXEC_CLEANUP_COMPLETE);
    assert_false(is_alive(pid));
    assert_true(r.nleft >= 1);
    run_done(&r);
    (void)remove("case_04.pid");
}

/* Two trees at once, each with an orphan in a session of its own: only the right one dies. */
static void orphans_of_two_trees_are_told_apart(void **state)
{
    fix *f = fix_of(state);
    static const char script[] =
        "(setsid sh -c 'echo $$ >$N.tmp; mv $N.tmp $N.pid; sleep 300' >/dev/null 2>&1 &); "
        "while [ ! -f $N.pid ]; do sleep 0.01; done; read x";
    const char *env_a[] = {"PATH=/usr/bin:/bin", "N=tree_a", NULL};
    const char *env_b[] = {"PATH=/usr/bin:/bin", "N=tree_b", NULL};
    run a = {0}, b = {0};
    tci_exec_opts opts = fix_opts();
    opts.keep_stdin_open = true;
    opts.envp = env_a;
    run_start(&a, f, script, opts);
    opts.envp = env_b;
    run_start(&b, f, script, opts);
    int pid_a = pid_in_file(f, "tree_a.pid"), pid_b = pid_in_file(f, "tree_b.pid");
    tci_exec_close_stdin(a.exec);
    run_wait(&a, 30000);
    assert_int_equal(a.status.cleanup, TCI_EXEC_CLEANUP_COMPLETE);
    assert_false(is_alive(pid_a));
    assert_true(is_alive(pid_b));
    assert_false(b.is_done);
    tci_exec_kill(b.exec);
    run_wait(&b, 30000);
    assert_int_equal(b.status.cleanup, TCI_EXEC_CLEANUP_COMPLETE);
    assert_false(is_alive(pid_b));
    run_done(&a);
    run_done(&b);
    (void)remove("tree_a.pid");
    (void)remove("tree_b.pid");
}

static void others_may_live_on(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    tci_exec_opts opts = fix_opts();
    opts.leave_others = true;
    run_start(&r, f, "sleep 300 & echo $! >others.pid; echo done", opts);
    run_wait(&r, 30000);
    int pid = pid_in_file(f, "others.pid");
    assert_int_equal(r.status.phase, TCI_EXEC_EXITED);
    assert_output(r.out, "done\n");
    assert_int_equal(r.nleft, 0);
    assert_true(is_alive(pid));
    assert_int_equal(kill(pid, SIGKILL), 0);
    run_done(&r);
    (void)remove("others.pid");

    run killed = {0}; /* a kill takes the others as well */
    run_start(&killed, f, "sleep 300 & echo $! >others.pid; sleep 300", opts);
    pid = pid_in_file(f, "others.pid");
    tci_exec_cancel(killed.exec);
    run_wait(&killed, 30000);
    assert_int_equal(killed.status.phase, TCI_EXEC_CANCELLED);
    assert_false(is_alive(pid));
    run_done(&killed);
    (void)remove("others.pid");
}

static int drop_output(tci_exec *exec, tci_exec_stream stream, tc_str bytes, tc_err *err)
{
    TCI_UNUSED(exec);
    TCI_UNUSED(stream);
    TCI_UNUSED(bytes);
    TCI_UNUSED(err);
    return 0;
}

/* Until the limit, which takes them. A busy machine may keep them from writing for too long, or the
 * first from its end, but not every time. */
static void output_of_others_is_waited_for(void **state)
{
    fix *f = fix_of(state);
    enum { TRIES = 20, LIMIT_MS = 700 };
    tci_exec_opts opts = fix_opts();
    opts.leave_others = true;
    opts.wall_time_ms = LIMIT_MS;
    opts.on_output = drop_output; /* more than is to be kept */
    for (int i = 0; i < TRIES; i++) {
        run r = {0};
        run_start(&r, f, "yes & echo $! >others.pid; exit 0", opts);
        run_wait(&r, 30000);
        tci_exec_phase at_exit = r.at_exit.phase, phase = r.status.phase;
        run_done(&r);
        if (phase != TCI_EXEC_TIMED_OUT || at_exit != TCI_EXEC_EXITED) {
            (void)remove("others.pid");
            continue;
        }
        assert_false(is_alive(pid_in_file(f, "others.pid")));
        (void)remove("others.pid");
        return;
    }
    fail();
}

/* We hold the pipe open when the command has ended, and close it before we look at the time. */
static void output_that_ended_while_we_did_not_look_is_complete(void **state)
{
    fix *f = fix_of(state);
    char path[64];
    run r = {0};
    tci_exec_opts opts = fix_opts();
    opts.keep_stdin_open = true;
    run_start(&r, f, "read x; echo x", opts);
    (void)snprintf(path, sizeof path, "/proc/%d/fd/1", tci_exec_pid(r.exec));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    tci_exec_close_stdin(r.exec);
    fix_wait_for(f, &r.has_exit, 30000);
    (void)usleep((TCI_EXEC_PIPES_MS + 100) * 1000);
    assert_int_equal(close(fd), 0);
    run_wait(&r, 30000);
    assert_int_equal(r.status.phase, TCI_EXEC_EXITED);
    assert_int_equal(r.status.cleanup, TCI_EXEC_CLEANUP_COMPLETE);
    assert_true(tci_spool_info_of(r.out).content_complete);
    assert_output(r.out, "x\n");
    run_done(&r);
}

/* A tree that keeps forking while it is being killed. */
static void forking_while_dying(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    run_start(
        &r, f,
        "echo go; f() { while :; do (setsid sleep 200 &) ; sleep 0.001; done; }; f & f & f & wait",
        fix_opts());
    while (tci_spool_info_of(r.out).retained_bytes == 0)
        tci_loop_turn(f->loop, 100);
    for (int i = 0; i < 20; i++)
        tci_loop_turn(f->loop, 5);
    tci_exec_kill(r.exec);
    run_wait(&r, 30000);
    assert_int_equal(r.status.phase, TCI_EXEC_SIGNALED);
    assert_int_equal(r.status.cleanup, TCI_EXEC_CLEANUP_COMPLETE);
    assert_int_equal(r.nsurvivors, 0);
    run_done(&r);
}

static void abandoned_commands_vanish(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    run_start(&r, f, "echo $$ >abandoned.pid; sleep 300", fix_opts());
    int pid = pid_in_file(f, "abandoned.pid");
    run_done(&r); /* abandons it */
    assert_false(is_alive(pid));
    assert_int_equal(tci_exec_host_count(f->host), 0);
    (void)remove("abandoned.pid");
}

/* ---- case 10 ---- */

enum { NCOMMANDS = 500, AT_ONCE = 10, WRONG_CODE = 30, ZOMBIES = 31, NOT_PID1 = 32 };

int as_pid1(bool no_cgroup)
{
    if (tci_proc_self() != 1)
        return NOT_PID1;
    fix_mode mode = no_cgroup ? FIX_MARK : FIX_CGROUP;
    void *state = &mode;
    (void)fix_setup(&state);
    fix *f = state;
    for (int i = 0; i < NCOMMANDS; i += AT_ONCE) {
        run runs[AT_ONCE] = {{0}};
        char script[64];
        for (int j = 0; j < AT_ONCE; j++) {
            tci_exec_opts opts = fix_opts();
            opts.leave_others = j % 2 == 0; /* half the orphans end by themselves */
            (void)snprintf(script, sizeof script, "sleep 0.05 >/dev/null 2>&1 & exit %d",
                           (i + j) % 100);
            run_start(&runs[j], f, script, opts);
        }
        for (int j = 0; j < AT_ONCE; j++) {
            run_wait(&runs[j], 30000);
            if (runs[j].status.phase != TCI_EXEC_EXITED ||
                runs[j].status.exit_code != (i + j) % 100)
                return WRONG_CODE;
            run_done(&runs[j]);
        }
    }
    int64_t end_ns = tci_clock_mono_ns() + 30000000000;
    int pids[64];
    while (tci_clock_mono_ns() < end_ns && tci_proc_children(1, pids, TCI_ARRAY_LEN(pids)) != 0)
        tci_loop_turn(f->loop, 20);
    if (count_zombies() != 0 || tci_proc_children(1, pids, TCI_ARRAY_LEN(pids)) != 0)
        return ZOMBIES;
    (void)fix_teardown(&state);
    return 0;
}

static void case_10_pid1_reaps_orphans(void **state)
{
    fix *f = fix_of(state);
    static const char *const ways[] = {"pid1", "pid1-marks"};
    tc_err err;
    char self[TCI_PATH_MAX];
    tc_str self_str;
    assert_int_equal(tci_file_realpath(TC_STR("/proc/self/exe"), self, &self_str, &err), 0);
    for (size_t i = 0; i < TCI_ARRAY_LEN(ways); i++) {
        run probe = {0}, r = {0};
        run_script(&probe, f, "unshare --pid --fork --mount-proc true");
        bool is_permitted = probe.status.phase == TCI_EXEC_EXITED && probe.status.exit_code == 0;
        run_done(&probe);
        if (!is_permitted) {
            print_message("skipped: no pid namespace to be had\n");
            skip();
        }
        char script[TCI_PATH_MAX + 128];
        (void)snprintf(
            script, sizeof script,
            "mkdir -p pid1 && cd pid1 && exec unshare --pid --fork --kill-child --mount-proc %s %s",
            self, ways[i]);
        run_start(&r, f, script, fix_opts());
        run_wait(&r, 120000);
        assert_int_equal(r.status.phase, TCI_EXEC_EXITED);
        assert_int_equal(r.status.exit_code, 0);
        run_done(&r);
    }
}

int run_exec_tree_tests(void)
{
    const struct CMUnitTest tests[] = {
        IN_ALL_MODES(case_04_left_the_session),
        IN_ALL_MODES(orphans_of_two_trees_are_told_apart),
        IN_ALL_MODES(others_may_live_on),
        IN_ALL_MODES(output_of_others_is_waited_for),
        IN_ALL_MODES(forking_while_dying),
        IN_ALL_MODES(abandoned_commands_vanish),
        IN_ONE_MODE(output_that_ended_while_we_did_not_look_is_complete),
        IN_ONE_MODE(case_10_pid1_reaps_orphans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
