/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a command: exit, signals, limits, kills, failures to start. */
#include "fixture.h"

#include "base/buf.h"
#include "plat/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t took_ms(const run *r)
{
    return (r->ended_ns - r->started_ns) / 1000000;
}

static void exit_code_and_output(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    run_script(&r, f, "echo out; echo err >&2; exit 3");
    assert_int_equal(r.status.phase, TCI_EXEC_EXITED);
    assert_int_equal(r.status.reason, TCI_EXEC_REASON_EXIT);
    assert_true(r.status.has_exit_code);
    assert_int_equal(r.status.exit_code, 3);
    assert_int_equal(r.status.cleanup, TCI_EXEC_CLEANUP_COMPLETE);
    assert_true(r.status.has_ended);
    assert_output(r.out, "out\n");
    assert_output(r.err, "err\n");
    assert_true(tci_spool_info_of(r.out).content_complete);
    assert_int_equal(r.nleft, 0);
    run_done(&r);
}

static void case_01_no_stdin_is_end_of_file(void **state)
{
    fix *f = fix_of(state);
    run a = {0}, b = {0};
    run_script(&a, f, "cat");
    run_script(&b, f, "wc -l");
    assert_int_equal(a.status.exit_code, 0);
    assert_output(a.out, "");
    assert_int_equal(b.status.exit_code, 0);
    assert_output(b.out, "0\n");
    run_done(&a);
    run_done(&b);

    run kept = {0};
    tci_exec_opts opts = fix_opts();
    opts.keep_stdin_open = true;
    run_start(&kept, f, "read x; echo \"got $x\"", opts);
    fix_wait_for(f, &kept.has_started, 30000);
    assert_true(tci_exec_is_stdin_open(kept.exec));
    tci_exec_close_stdin(kept.exec);
    tci_exec_close_stdin(kept.exec);
    assert_false(tci_exec_is_stdin_open(kept.exec));
    run_wait(&kept, 30000);
    assert_output(kept.out, "got \n");
    run_done(&kept);
}

static void case_02_limit_with_a_grandchild_on_the_pipe(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    int64_t limit_ms = run_limited(
        &r, f, "echo a; sleep 600 & echo $! >case_02.tmp; mv case_02.tmp case_02.pid; sleep 600",
        fix_opts(), "case_02.pid");
    int pid = pid_in_file(f, "case_02.pid");
    assert_true(took_ms(&r) >= limit_ms);
    assert_int_equal(r.status.phase, TCI_EXEC_TIMED_OUT);
    assert_int_equal(r.status.reason, TCI_EXEC_REASON_TIMEOUT);
    assert_false(r.status.has_exit_code);
    assert_int_equal(r.status.cleanup, TCI_EXEC_CLEANUP_COMPLETE);
    assert_output(r.out, "a\n");
    assert_false(is_alive(pid));
    run_done(&r);
    (void)remove("case_02.pid");
}

static void case_03_background_child_holds_stdout(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    run_start(&r, f, "sleep 300 & echo $! >case_03.pid; echo done", fix_opts());
    run_wait(&r, 30000);
    int pid = pid_in_file(f, "case_03.pid");
    assert_true(took_ms(&r) < 30000); /* far from 300 s */
    assert_int_equal(r.status.phase, TCI_EXEC_EXITED);
    assert_int_equal(r.status.exit_code, 0);
    assert_output(r.out, "done\n");
    assert_true(tci_spool_info_of(r.out).content_complete);
    assert_false(is_alive(pid));
    assert_int_equal(r.nleft, 1);
    assert_int_equal(r.left_pid, pid);
    run_done(&r);
    (void)remove("case_03.pid");
}

static void case_05_signal_death_and_exit_137(void **state)
{
    fix *f = fix_of(state);
    run a = {0}, b = {0}, c = {0}, d = {0};
    run_script(&a, f, "kill -9 $$");
    assert_int_equal(a.status.phase, TCI_EXEC_SIGNALED);
    assert_int_equal(a.status.reason, TCI_EXEC_REASON_SIGNAL);
    assert_int_equal(a.status.signal, TCI_EXEC_SIGNAL_KILL);
    assert_int_equal(a.status.signum, 9);
    assert_false(a.status.has_exit_code);
    run_script(&b, f, "exit 137");
    assert_int_equal(b.status.phase, TCI_EXEC_EXITED);
    assert_int_equal(b.status.exit_code, 137);
    assert_int_equal(b.status.signum, 0);
    run_script(&c, f, "kill -TERM $$");
    assert_int_equal(c.status.signal, TCI_EXEC_SIGNAL_TERMINATE);
    run_script(&d, f, "kill -USR1 $$"); /* no name on the wire */
    assert_int_equal(d.status.phase, TCI_EXEC_SIGNALED);
    assert_int_equal(d.status.signal, TCI_EXEC_SIGNAL_NONE);
    run_done(&a);
    run_done(&b);
    run_done(&c);
    run_done(&d);
}

static void case_07_limit_acts_in_time(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    tci_exec_opts opts = fix_opts();
    opts.wall_time_ms = 300;
    run_start(&r, f, "sleep 60; touch late", opts);
    run_wait(&r, 30000);
    assert_int_equal(r.status.phase, TCI_EXEC_TIMED_OUT);
    assert_true(took_ms(&r) >= 300);
    assert_true(took_ms(&r) < 30000);
    assert_false(file_exists("late")); /* nobody is left who could make it */
    assert_int_equal(r.status.cleanup, TCI_EXEC_CLEANUP_COMPLETE);
    run_done(&r);
}

static void case_09_unfinished_scripts_end(void **state)
{
    static const char *const scripts[] = {
        "cat <<END\n  text\n  END\n", /* indented end word */
        "echo 'one open quote\n",
    };
    fix *f = fix_of(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(scripts); i++) {
        run r = {0};
        run_script(&r, f, scripts[i]);
        assert_int_equal(r.status.phase, TCI_EXEC_EXITED);
        if (i == 1)
            assert_int_not_equal(r.status.exit_code, 0);
        assert_true(tci_spool_info_of(r.err).retained_bytes > 0 || i == 0);
        run_done(&r);
    }
    tci_buf script;
    tci_buf_init(&script, TCI_BUF_MAX);
    for (int i = 0; i < 300; i++)
        tci_buf_printf(&script, "x%d=`echo \"a$((%d+1))\"` # \r\n", i, i);
    tci_buf_printf(&script, "echo $x299");
    tci_buf_append_byte(&script, '\0');
    assert_true(tci_buf_ok(&script));
    run r = {0};
    run_script(&r, f, script.ptr);
    assert_int_equal(r.status.exit_code, 0);
    assert_output(r.out, "a300\n");
    run_done(&r);
    tci_buf_done(&script);
}

static void case_14_server_lives_between_calls(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    run_start(
        &r, f,
        "trap 'echo bye; exit 5' TERM; echo up; echo $$ >case_14.pid; while :; do sleep 0.02; done",
        fix_opts());
    int pid = pid_in_file(f, "case_14.pid");
    for (int i = 0; i < 5; i++) {
        run other = {0};
        run_script(&other, f, "echo hi");
        assert_output(other.out, "hi\n");
        run_done(&other);
        assert_true(is_alive(pid));
        assert_false(r.is_done);
    }
    assert_output(r.out, "up\n");
    assert_true(tci_exec_send_signal(r.exec, TCI_EXEC_SIGNAL_TERMINATE));
    run_wait(&r, 30000);
    assert_int_equal(r.status.phase, TCI_EXEC_EXITED);
    assert_int_equal(r.status.exit_code, 5);
    assert_output(r.out, "up\nbye\n");
    assert_false(is_alive(pid));
    run_done(&r);
    (void)remove("case_14.pid");
}

static void kill_cancel_and_deadline(void **state)
{
    fix *f = fix_of(state);
    static const struct {
        void (*act)(tci_exec *exec);
        tci_exec_phase phase;
        tci_exec_reason reason;
        tci_exec_signal signal;
    } ways[] = {
        {tci_exec_kill, TCI_EXEC_SIGNALED, TCI_EXEC_REASON_SIGNAL, TCI_EXEC_SIGNAL_KILL},
        {tci_exec_cancel, TCI_EXEC_CANCELLED, TCI_EXEC_REASON_CANCELLED, TCI_EXEC_SIGNAL_NONE},
        {tci_exec_time_out, TCI_EXEC_TIMED_OUT, TCI_EXEC_REASON_TIMEOUT, TCI_EXEC_SIGNAL_NONE},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(ways); i++) {
        run r = {0};
        run_start(&r, f, "trap '' TERM INT; echo before; sleep 100", fix_opts());
        while (tci_spool_info_of(r.out).retained_bytes == 0)
            tci_loop_turn(f->loop, 100);
        assert_int_equal(tci_exec_status_of(r.exec).phase, TCI_EXEC_RUNNING);
        ways[i].act(r.exec);
        ways[i].act(r.exec);
        run_wait(&r, 30000);
        assert_int_equal(r.status.phase, ways[i].phase);
        assert_int_equal(r.status.reason, ways[i].reason);
        assert_int_equal(r.status.signal, ways[i].signal);
        assert_int_equal(r.status.cleanup, TCI_EXEC_CLEANUP_COMPLETE);
        assert_int_equal(r.nleft, 0); /* asked for: nothing was left behind */
        assert_output(r.out, "before\n");
        run_done(&r);
    }
}

static void an_end_that_came_first_stays_the_truth(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    run_start(&r, f, "exit 4", fix_opts());
    int pid = tci_exec_pid(r.exec);
    while (is_alive(pid)) /* ended, but the loop does not know */
        (void)usleep(1000);
    tci_exec_cancel(r.exec);
    run_wait(&r, 30000);
    assert_int_equal(r.status.phase, TCI_EXEC_EXITED);
    assert_int_equal(r.status.exit_code, 4);
    run_done(&r);
}

static void cannot_start(void **state)
{
    fix *f = fix_of(state);
    static const struct {
        const char *program, *cwd;
        int rc;
    } bad[] = {
        {"/no/such/program", NULL, TC_E_NOT_FOUND},
        {"/bin/true", "/no/such/folder", TC_E_NOT_FOUND},
        {"/bin/true", "/etc/passwd", TC_E_DENIED},
        {"/etc", NULL, TC_E_DENIED},
        {"true", NULL, TC_E_INVALID},
    };
    size_t nfds = count_entries("/proc/self/fd");
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        const char *argv[] = {bad[i].program, NULL}, *envp[] = {NULL};
        tci_exec_opts opts = TCI_EXEC_OPTS_NONE;
        tci_exec *exec = NULL;
        tc_err err;
        opts.program = argv[0];
        opts.argv = argv;
        opts.envp = envp;
        opts.cwd = bad[i].cwd;
        assert_int_equal(tci_exec_start(f->host, &opts, &exec, &err), bad[i].rc);
        assert_null(exec);
    }
    assert_int_equal(tci_exec_host_count(f->host), 0);
    assert_in_range(count_entries("/proc/self/fd"), nfds, nfds + 5); /* the host's own */
    assert_int_equal(count_zombies(), 0);
}

typedef struct frugal {
    tci_exec *exec;
    bool is_done;
} frugal;

static void on_frugal_done(tci_exec *exec)
{
    frugal *g = tci_exec_user(exec);
    g->is_done = true;
    tci_exec_free(exec);
}

/* The n-th allocation fails, for every n: an error at the start, or a command that ends as usual. */
static void memory_runs_out(void **state)
{
    fix *f = fix_of(state);
    const char *argv[] = {"/bin/sh", "-c", "cat; sleep 100 & echo x", NULL}, *envp[] = {NULL};
    enum { SPARE = 4 };
    size_t nstarted = 0;
    for (size_t n = 1; nstarted < SPARE; n++) {
        tc_err err;
        frugal g = {0};
        tci_exec_opts opts = TCI_EXEC_OPTS_NONE;
        opts.program = argv[0];
        opts.argv = argv;
        opts.envp = envp;
        opts.initial_stdin = TC_STR("text");
        opts.user = &g;
        opts.on_done = on_frugal_done;
        opts.wall_time_ms = 20000;
        tci_mem_fail_at(n);
        int rc = tci_exec_start(f->host, &opts, &g.exec, &err);
        bool has_failed = tci_mem_count() >= n;
        tci_mem_fail_at(0);
        assert_true(rc == 0 || rc == TC_E_NO_MEMORY);
        if (rc < 0)
            continue;
        nstarted += !has_failed;
        fix_wait_for(f, &g.is_done, 30000);
    }
    assert_int_equal(tci_exec_host_count(f->host), 0);
    assert_int_equal(count_zombies(), 0);
}

static long resident_kib(void)
{
#ifdef __SANITIZE_ADDRESS__
    return 0; /* it keeps what was freed */
#else
    long total = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &total, &pages), 2);
    (void)fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
#endif
}

/* What is on its way out is given its time: a thread is listed until the system has ended it. */
static void assert_threads(fix *f, size_t want)
{
    enum { TURNS = 500, TURN_MS = 10 };
    for (int i = 0; i < TURNS && count_entries("/proc/self/task") != want; i++)
        tci_loop_turn(f->loop, TURN_MS);
    assert_int_equal(count_entries("/proc/self/task"), want);
}

static void case_18_counts_stay_flat(void **state)
{
    fix *f = fix_of(state);
    bool is_full = getenv("TC_FULL") != NULL;
    int n = is_full ? 20000 : 300;
    size_t nfds = 0, nthreads = 0;
    long kib = 0;
    for (int i = 0; i <= n + 20; i++) { /* the first measured and the last end by themselves */
        run r = {0};
        run_start(&r, f, i % 2 == 0 ? "echo x" : "sleep 100", fix_opts());
        if (i % 2 == 1) {
            uint8_t random;
            tci_random_bytes(&random, sizeof random);
            if (random < 128) /* from at once to after a few milliseconds */
                tci_loop_turn(f->loop, random % 4);
            tci_exec_cancel(r.exec);
        }
        run_wait(&r, 30000);
        assert_int_equal(r.status.phase, i % 2 == 0 ? TCI_EXEC_EXITED : TCI_EXEC_CANCELLED);
        run_done(&r);
        if (i == 20) { /* warm */
            nfds = count_entries("/proc/self/fd");
            nthreads = count_entries("/proc/self/task");
            kib = resident_kib();
        }
    }
    assert_int_equal(count_entries("/proc/self/fd"), nfds);
    assert_threads(f, nthreads);
    assert_in_range(resident_kib(), 0, kib + 1024);
    assert_int_equal(count_zombies(), 0);
}

static void case_19_long_silence(void **state)
{
    fix *f = fix_of(state);
    bool is_full = getenv("TC_FULL") != NULL;
    run r = {0};
    tci_exec_opts opts = fix_opts();
    opts.wall_time_ms = 120000;
    run_start(&r, f, is_full ? "sleep 45; echo late" : "sleep 1; echo late", opts);
    run_wait(&r, 110000);
    assert_int_equal(r.status.exit_code, 0);
    assert_output(r.out, "late\n");
    run_done(&r);
}

static void case_27_ten_at_once(void **state)
{
    fix *f = fix_of(state); /* with the default quota: 1 GiB for the session */
    enum { NRUNS = 10 };
    run runs[NRUNS] = {{0}};
    tci_exec_opts opts = fix_opts();
    opts.keep_stdin_open = true; /* so that all of them run at the same time */
    for (int i = 0; i < NRUNS; i++)
        run_start(&runs[i], f, "echo hi; read x; echo there", opts);
    assert_int_equal(tci_exec_host_count(f->host), NRUNS);
    for (int i = 0; i < NRUNS; i++)
        tci_exec_close_stdin(runs[i].exec);
    for (int i = 0; i < NRUNS; i++) {
        run_wait(&runs[i], 30000);
        assert_int_equal(runs[i].status.exit_code, 0);
        assert_output(runs[i].out, "hi\nthere\n");
        run_done(&runs[i]);
    }
}

/* ---- case 95: a program with a controlling terminal runs commands that must not have it ---- */

int as_terminal_program(void)
{
    fix f = {.mode = FIX_MARK, .root = TCI_FILE_NONE};
    void *state = (void *)(uintptr_t)&f.mode;
    int fd = open("/dev/tty", O_RDWR);
    if (fd < 0)
        return 10; /* the test itself is wrong: there must be one */
    (void)close(fd);
    (void)fix_setup(&state);
    run r = {0};
    run_script(&r, state, "tty && exit 20; (: </dev/tty) && exit 21; [ -t 0 ] && exit 22; exit 0");
    int code = r.status.phase == TCI_EXEC_EXITED ? r.status.exit_code : 11;
    run_done(&r);
    (void)fix_teardown(&state);
    return code;
}

static void case_95_no_controlling_terminal(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    run_script(&r, f, "tty; (: </dev/tty) 2>/dev/null || echo none");
    assert_output(r.out, "not a tty\nnone\n");
    run_done(&r);

    tc_err err;
    char self[TCI_PATH_MAX];
    tc_str self_str;
    assert_int_equal(tci_file_realpath(TC_STR("/proc/self/exe"), self, &self_str, &err), 0);
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) {
        print_message("skipped: no terminal to be had\n");
        skip();
    }
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    const char *argv[] = {self, "terminal", NULL}, *envp[] = {"PATH=/usr/bin:/bin", NULL};
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    opts.program = self;
    opts.argv = argv;
    opts.envp = envp;
    opts.stdio[0] = opts.stdio[1] = opts.stdio[2] = slave;
    opts.flags = TCI_SPAWN_SESSION | TCI_SPAWN_TERMINAL;
    tci_child child;
    tci_exit how;
    bool was_lost;
    tci_ptree_owned owned = {0};
    assert_int_equal(tci_spawn(&opts, &child, &err), 0);
    owned.pid = child.pid;
    tci_ptree_own(f->trees, &owned);
    tci_child_reap_wait(&child, &how, &was_lost);
    tci_ptree_disown(&owned);
    (void)close(slave);
    (void)close(master);
    assert_false(how.is_signal);
    assert_int_equal(how.code, 0);
}

int run_exec_tests(void)
{
    const struct CMUnitTest tests[] = {
        IN_ALL_MODES(exit_code_and_output),
        IN_ONE_MODE(case_01_no_stdin_is_end_of_file),
        IN_ALL_MODES(case_02_limit_with_a_grandchild_on_the_pipe),
        IN_ALL_MODES(case_03_background_child_holds_stdout),
        IN_ALL_MODES(case_05_signal_death_and_exit_137),
        IN_ALL_MODES(case_07_limit_acts_in_time),
        IN_ONE_MODE(case_09_unfinished_scripts_end),
        IN_ALL_MODES(case_14_server_lives_between_calls),
        IN_ALL_MODES(kill_cancel_and_deadline),
        IN_ALL_MODES(an_end_that_came_first_stays_the_truth),
        IN_ONE_MODE(cannot_start),
        IN_ALL_MODES(memory_runs_out),
        IN_ALL_MODES(case_18_counts_stay_flat),
        IN_ONE_MODE(case_19_long_silence),
        IN_ALL_MODES(case_27_ten_at_once),
        IN_ONE_MODE(case_95_no_controlling_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
