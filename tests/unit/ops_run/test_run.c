/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands from start to settled end: output, time, kill, the file, standard input. */
#include "run_fixture.h"

#include "plat/clock.h"
#include "plat/file.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPLACED "\xef\xbf\xbd"

static const int64_t ms = 1000000;

/* ---- output ---- */

static void streams_are_told_apart(void **state)
{
    task t;
    task_script(&t, *state, "echo one; echo two >&2; echo three", task_opts());
    (void)task_wait(&t);
    assert_out(&t, "one\nthree\n");
    assert_err(&t, "two\n");
    assert_int_equal(t.end, TCI_RUN_EXITED);
    assert_int_equal(t.exit_code, 0);
    assert_int_equal(t.nsurvivors, 0);
    task_done(&t);
}

static void case_22_a_character_in_two_writes(void **state)
{
    task t;
    task_script(&t, *state,
                "printf '\\344'; printf '\\303' >&2; sleep 0.3; printf '\\270\\255'; printf "
                "'\\251' >&2",
                task_opts());
    (void)task_wait(&t);
    assert_out(&t, "\xe4\xb8\xad");
    assert_err(&t, "\xc3\xa9");
    task_done(&t);
    task_script(&t, *state, "printf 'x\\344\\270'", task_opts());
    (void)task_wait(&t);
    assert_out(&t, "x" REPLACED);
    task_done(&t);
}

static void text_and_raw_bytes(void **state)
{
    static const char script[] = "printf '\\357\\273\\277a\\357\\273\\277\\377\\000b'";
    task t;
    tci_run_opts opts = task_opts();
    task_script(&t, *state, script, opts);
    (void)task_wait(&t);
    assert_buf(&t.out[0], TC_STR("a\xef\xbb\xbf" REPLACED "\0b"));
    task_done(&t);
    opts.is_raw = true;
    task_script(&t, *state, script, opts);
    (void)task_wait(&t);
    assert_buf(&t.out[0], TC_STR("\xef\xbb\xbf"
                                 "a\xef\xbb\xbf\xff\0b"));
    task_done(&t);
}

static bool has_much(void *arg)
{
    const task *t = arg;
    return t->all.len > 200000;
}

static void a_paused_command_waits(void **state)
{
    world *w = *state;
    task t;
    task_script(&t, w, "head -c 3000000 /dev/zero | tr '\\0' x; echo", task_opts());
    world_wait(w, has_much, &t);
    tci_run_pause_output(t.run, true);
    size_t before = t.all.len;
    int64_t end_ns = tci_clock_mono_ns() + 150 * ms; /* longer than the quiet time at the end */
    while (tci_clock_mono_ns() < end_ns)
        tci_loop_turn(w->loop, 20);
    assert_int_equal(t.all.len, before);
    assert_false(t.is_done);
    tci_run_pause_output(t.run, false);
    (void)task_wait(&t);
    assert_int_equal(t.all.len, 3000001);
    task_done(&t);
}

/* ---- standard input and what a command is born with ---- */

static void case_01_no_input_is_an_empty_input(void **state)
{
    task t;
    task_script(&t, *state, "cat; wc -l; readlink /proc/self/fd/0", task_opts());
    (void)task_wait(&t);
    assert_true(tci_str_ends(tci_buf_str(&t.out[0]), TC_STR("0\n/dev/null\n")));
    assert_int_equal(t.exit_code, 0);
    task_done(&t);
}

static void case_95_no_controlling_terminal(void **state)
{
    task t;
    task_script(&t, *state,
                "(: </dev/tty) 2>/dev/null || echo none; read pid comm st ppid grp ses tty rest "
                "</proc/self/stat; [ $ses = $$ ] && echo own; echo $tty",
                task_opts());
    (void)task_wait(&t);
    assert_out(&t, "none\nown\n0\n");
    task_done(&t);
}

static void signals_are_as_at_login(void **state)
{
    task t; /* this program ignores SIGPIPE */
    task_script(&t, *state, "grep -E '^Sig(Ign|Blk)' /proc/self/status", task_opts());
    (void)task_wait(&t);
    assert_out(&t, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    task_done(&t);
}

typedef struct input {
    tci_exec_write write;
    bool is_done;
    int rc;
} input;

static void on_written(tci_exec_write *write, int rc, const tc_err *err)
{
    input *in = TCI_CONTAINER(write, input, write);
    TCI_UNUSED(err);
    in->is_done = true;
    in->rc = rc;
}

static void give(task *t, input *in, tc_str data, bool is_last)
{
    tc_err err;
    *in = (input){.write = {.data = data, .close_after = is_last, .cb = on_written}};
    assert_int_equal(tci_run_write_stdin(t->run, &in->write, &err), 0);
    assert_false(in->is_done);
}

static bool is_written(void *arg)
{
    const input *in = arg;
    return in->is_done;
}

static void input_in_pieces(void **state)
{
    world *w = *state;
    task t;
    input a, b;
    tci_run_opts opts = task_opts();
    opts.has_stdin = true;
    task_script(&t, w, "cat", opts);
    give(&t, &a, TC_STR("one "), false);
    world_wait(w, is_written, &a);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.write.accepted, 4);
    give(&t, &a, TC_STR("two "), false);
    give(&t, &b, TC_STR("three"), true);
    tc_err err;
    input late = {.write = {.data = TC_STR("x"), .cb = on_written}};
    assert_int_equal(tci_run_write_stdin(t.run, &late.write, &err), TC_E_CONFLICT);
    (void)task_wait(&t);
    assert_out(&t, "one two three");
    assert_true(a.is_done && b.is_done);
    task_done(&t);
}

/* A reader may take its time; what it does not take is told. */
static void input_larger_than_the_pipe(void **state)
{
    world *w = *state;
    enum { LARGE = 4 * 1024 * 1024 };
    char *bytes = tci_mem_alloc(LARGE);
    assert_non_null(bytes);
    task t;
    input in;
    tci_run_opts opts = task_opts();
    opts.has_stdin = true;
    task_script(&t, w, "sleep 0.2; wc -c", opts);
    give(&t, &in, tci_str_of(bytes, LARGE), true);
    (void)task_wait(&t);
    assert_out(&t, "4194304\n");
    assert_true(in.is_done && in.rc == 0 && in.write.accepted == LARGE);
    task_done(&t);

    task_script(&t, w, "exit 3", opts);
    give(&t, &in, tci_str_of(bytes, LARGE), true);
    (void)task_wait(&t);
    assert_int_equal(t.exit_code, 3);
    assert_true(in.is_done && in.rc == 0 && in.write.accepted < LARGE);
    task_done(&t);

    task_script(&t, w, "sleep 300", opts); /* given up in the middle */
    give(&t, &in, tci_str_of(bytes, LARGE), true);
    task_done(&t);
    assert_true(in.is_done);
    assert_int_equal(in.rc, TC_E_CANCELLED);
    tci_mem_free(bytes);
}

static void no_pipe_no_input(void **state)
{
    task t;
    tc_err err;
    input in = {.write = {.data = TC_STR("x"), .cb = on_written}};
    task_script(&t, *state, "sleep 300", task_opts());
    assert_int_equal(tci_run_write_stdin(t.run, &in.write, &err), TC_E_CONFLICT);
    task_done(&t);
}

/* ---- ends ---- */

static void case_05_signals_and_codes(void **state)
{
    static const struct {
        const char *script;
        int exit_code, signum;
    } rows[] = {{"exit 7", 7, 0},
                {"kill -9 $$", 137, 9},
                {"exit 137", 137, 0},
                {"kill -TERM $$", 143, 15},
                {"exit 255", 255, 0}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        task t;
        task_script(&t, *state, rows[i].script, task_opts());
        (void)task_wait(&t);
        assert_int_equal(t.end, TCI_RUN_EXITED);
        assert_int_equal(t.exit_code, rows[i].exit_code);
        assert_int_equal(t.signum, rows[i].signum);
        task_done(&t);
    }
}

static void case_02_a_limit_ends_grandchildren_too(void **state)
{
    world *w = *state;
    task t;
    enum { LEAST_MS = 400, MOST_MS = 30000 };
    tci_run_opts opts = task_opts();
    (void)remove("case_02.pid");
    for (int64_t limit_ms = LEAST_MS;; limit_ms *= 2) { /* time enough to say who it is */
        opts.timeout_ns = limit_ms * ms;
        task_script(
            &t, w,
            "echo a; sleep 600 & echo $! >case_02.tmp; mv case_02.tmp case_02.pid; sleep 600",
            opts);
        int64_t took_ms = task_wait(&t);
        assert_int_equal(t.end, TCI_RUN_TIMED_OUT);
        assert_true(took_ms >= limit_ms);
        if (is_file("case_02.pid") || limit_ms > MOST_MS)
            break;
        task_done(&t);
    }
    int pid = number_in(w, "case_02.pid");
    assert_out(&t, "a\n");
    assert_false(is_running(pid));
    task_done(&t);
}

static void case_03_a_background_child_lives_on(void **state)
{
    world *w = *state;
    task t;
    task_script(&t, w, "sleep 300 & echo $! >case_03.pid; echo done", task_opts());
    int64_t took_ms = task_wait(&t);
    int pid = number_in(w, "case_03.pid");
    assert_int_equal(t.end, TCI_RUN_EXITED);
    assert_int_equal(t.exit_code, 0);
    assert_out(&t, "done\n");
    assert_true(took_ms < 20000);
    assert_int_equal(t.nsurvivors, 0);
    assert_true(is_running(pid));
    task_done(&t);
    assert_true(is_running(pid));
    assert_int_equal(kill(pid, SIGKILL), 0);
}

/* As long as it writes, and no longer than its time. A busy machine may keep it from writing for too
 * long, but not every time. */
static void output_after_the_end_is_waited_for(void **state)
{
    world *w = *state;
    enum { TRIES = 20 };
    tci_run_opts opts = task_opts();
    opts.timeout_ns = 1000 * ms;
    for (int i = 0; i < TRIES; i++) {
        task t;
        (void)remove("yes.pid");
        task_script(&t, w, "yes & echo $! >yes.tmp; mv yes.tmp yes.pid; exit 0", opts);
        int64_t took_ms = task_wait(&t);
        tci_run_end end = t.end;
        task_done(&t);
        if (end != TCI_RUN_TIMED_OUT || !is_file("yes.pid"))
            continue;
        assert_true(took_ms >= 1000);
        assert_false(is_running(number_in(w, "yes.pid")));
        return;
    }
    fail();
}

static void case_04_who_left_the_session_dies_too(void **state)
{
    world *w = *state;
    task t;
    (void)remove("case_04.pid");
    task_script(&t, w,
                "(trap '' TERM; setsid sh -c 'echo $$ >case_04.tmp; mv case_04.tmp case_04.pid; "
                "sleep 300' &); echo x; sleep 300",
                task_opts());
    int pid = number_in(w, "case_04.pid");
    tci_run_abort(t.run);
    (void)task_wait(&t);
    assert_int_equal(t.end, TCI_RUN_ABORTED);
    assert_false(is_running(pid));
    assert_int_equal(t.nsurvivors, 0);
    task_done(&t);
}

static void case_07_nothing_happens_after_the_limit(void **state)
{
    task t;
    tci_run_opts opts = task_opts();
    opts.timeout_ns = 300 * ms;
    (void)remove("late");
    task_script(&t, *state, "sleep 60; touch late", opts);
    int64_t took_ms = task_wait(&t);
    assert_int_equal(t.end, TCI_RUN_TIMED_OUT);
    assert_true(took_ms >= 300 && took_ms < 30000);
    assert_false(is_file("late"));
    task_done(&t);
}

static void aborted_or_killed(void **state)
{
    world *w = *state;
    task t;
    tci_run_opts opts = task_opts();
    task_script(&t, w, "echo x; sleep 300", opts);
    tci_run_abort(t.run); /* at once */
    (void)task_wait(&t);
    assert_int_equal(t.end, TCI_RUN_ABORTED);
    task_done(&t);
    task_script(&t, w, "sleep 300", opts);
    tci_run_kill(t.run);
    tci_run_kill(t.run);
    (void)task_wait(&t);
    assert_int_equal(t.end, TCI_RUN_EXITED);
    assert_int_equal(t.exit_code, 137);
    assert_int_equal(t.signum, 9);
    task_done(&t);
    opts.timeout_ns = 0; /* no time at all, which is what is told of both */
    task_script(&t, w, "sleep 300", opts);
    tci_run_abort(t.run);
    (void)task_wait(&t);
    assert_int_equal(t.end, TCI_RUN_TIMED_OUT);
    task_done(&t);
}

static void a_killed_command_ends_while_paused_output_is_left(void **state)
{
    world *w = *state;
    task t;
    task_script(&t, w, "yes", task_opts());
    world_wait(w, has_much, &t);
    tci_run_pause_output(t.run, true);
    task_done(&t); /* abandoned: does not hang */
}

static void twenty_are_aborted(void **state)
{
    world *w = *state;
    enum { N = 20 };
    task tasks[N];
    for (int i = 0; i < N; i++)
        task_script(&tasks[i], w, "sleep 300", task_opts());
    for (int i = 0; i < N; i++) {
        tci_loop_turn(w->loop, i % 4);
        tci_run_abort(tasks[i].run);
    }
    for (int i = 0; i < N; i++) {
        (void)task_wait(&tasks[i]);
        assert_int_equal(tasks[i].end, TCI_RUN_ABORTED);
        task_done(&tasks[i]);
    }
}

/* ---- the file ---- */

static tci_run_opts spill_opts(uint64_t after_bytes, uint64_t after_lines)
{
    tci_run_opts opts = task_opts();
    if (mkdir("spill", 0755) < 0)
        assert_true(is_file("spill"));
    opts.has_spill = true;
    opts.spill_after_bytes = after_bytes;
    opts.spill_after_lines = after_lines;
    opts.tmp_dir = TC_STR("spill");
    return opts;
}

static int nspilled(void)
{
    DIR *dir = opendir("spill");
    int n = 0;
    assert_non_null(dir);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* The file holds what came; it and its folder are gone afterwards. */
static void check_spilled(task *t, tc_str expected)
{
    tc_err err;
    char *text;
    size_t len;
    struct stat st;
    assert_true(strlen(t->spill_path) > 0);
    assert_int_equal(
        tci_file_read_whole(TCI_FILE_CWD, tci_str(t->spill_path), 1 << 26, &text, &len, &err), 0);
    assert_int_equal(len, expected.len);
    assert_memory_equal(text, expected.ptr, len);
    tci_free(text);
    assert_int_equal(unlink(t->spill_path), 0);
    char *slash = strrchr(t->spill_path, '/');
    assert_true(tci_str_starts(tci_str(slash), TC_STR("/pi-output-")));
    assert_int_equal(strlen(slash),
                     sizeof "/pi-output-01234567-0123-4123-8123-0123456789ab.log" - 1);
    *slash = '\0';
    assert_int_equal(stat(t->spill_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_true(tci_str_starts(tci_str(t->spill_path), TC_STR("spill/tmp-")));
    assert_int_equal(rmdir(t->spill_path), 0);
}

static void short_output_makes_no_file(void **state)
{
    task t;
    task_script(&t, *state, "printf '12345\\n1234'", spill_opts(10, 2));
    (void)task_wait(&t);
    assert_string_equal(t.spill_path, "");
    assert_int_equal(nspilled(), 0);
    task_done(&t);
    task_script(&t, *state, "printf '12345\\n12345'", spill_opts(10, 2)); /* a byte more */
    (void)task_wait(&t);
    check_spilled(&t, TC_STR("12345\n12345"));
    task_done(&t);
    task_script(&t, *state, "printf '1\\n2\\n3'", spill_opts(100, 2)); /* a line more */
    (void)task_wait(&t);
    check_spilled(&t, TC_STR("1\n2\n3"));
    task_done(&t);
}

static void the_file_has_the_very_bytes(void **state)
{
    task t;
    task_script(&t, *state, "printf 'a\\377\\000\\303'; printf 'b\\303' >&2", spill_opts(0, 0));
    (void)task_wait(&t);
    assert_true(strlen(t.spill_path) > 0);
    bool is_out_first = tci_str_starts(tci_buf_str(&t.all), TC_STR("a"));
    check_spilled(&t, is_out_first ? TC_STR("a\xff\0\xc3"
                                            "b\xc3")
                                   : TC_STR("b\xc3"
                                            "a\xff\0\xc3"));
    task_done(&t);
}

static void long_output_is_kept_and_seen(void **state)
{
    task t;
    task_script(&t, *state, "seq 1 15000; seq 1 100 >&2; seq 15001 90000",
                spill_opts(UINT64_MAX, 2000));
    (void)task_wait(&t);
    assert_int_equal(tci_str_count_byte(tci_buf_str(&t.all), '\n'), 90100);
    check_spilled(&t, tci_buf_str(&t.all));
    task_done(&t);
}

static void the_file_is_told_of_after_a_timeout(void **state)
{
    task t;
    tci_run_opts opts = spill_opts(3, 100);
    opts.timeout_ns = 400 * ms;
    task_script(&t, *state, "echo some text; sleep 300", opts);
    (void)task_wait(&t);
    assert_int_equal(t.end, TCI_RUN_TIMED_OUT);
    if (t.all.len > 0) /* it had the time to say it */
        check_spilled(&t, TC_STR("some text\n"));
    task_done(&t);
}

static void a_file_that_cannot_be_made(void **state)
{
    task t;
    tci_run_opts opts = spill_opts(3, 100);
    opts.tmp_dir = TC_STR("spill/nowhere");
    task_script(&t, *state, "echo some text; sleep 300", opts);
    (void)task_wait(&t);
    assert_int_equal(t.end, TCI_RUN_SPILL_FAILED);
    assert_true(strlen(t.message) > 0);
    assert_string_equal(t.spill_path, "");
    assert_out(&t, "some text\n"); /* and is seen all the same */
    task_done(&t);
}

static void a_disk_that_gets_full(void **state)
{
    world *w = *state;
    task t;
    task_script(&t, w, "seq 1 100000; sleep 300", spill_opts(10000, 100));
    tci_file_fail_write_at(2, 28 /* no space */);
    (void)task_wait(&t);
    tci_file_fail_write_at(0, 0);
    assert_int_equal(t.end, TCI_RUN_SPILL_FAILED);
    assert_int_equal(unlink(t.spill_path), 0);
    *strrchr(t.spill_path, '/') = '\0';
    assert_int_equal(rmdir(t.spill_path), 0);
    task_done(&t);
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

static void many_short_commands_leave_nothing(void **state)
{
    world *w = *state;
    enum { WARM = 20, ROUNDS = 200 };
    int before = 0;
    for (int i = 0; i < WARM + ROUNDS; i++) {
        task t;
        if (i == WARM)
            before = nfiles_open();
        task_script(&t, w, "echo x", task_opts());
        if (i % 2 == 1) {
            tci_loop_turn(w->loop, i % 3);
            if (t.run != NULL)
                tci_run_abort(t.run);
        }
        (void)task_wait(&t);
        task_done(&t);
    }
    assert_true(nfiles_open() <= before + 8); /* groups kept for use vary */
}

/* It is refused, or it comes to some end. */
static void memory_may_fail_anywhere(void **state)
{
    world *w = *state;
    enum { MORE_THAN_ENOUGH = 300 };
    for (size_t n = 1; n < MORE_THAN_ENOUGH; n++) {
        tc_err err;
        task t;
        tci_run_opts opts = spill_opts(1, 1);
        opts.command = TC_STR("printf 'ab\\377'");
        opts.timeout_ns = 60000 * ms;
        tci_mem_fail_at(n);
        int rc = task_try(&t, w, opts, &err);
        for (int i = 0; rc == 0 && !t.is_done && i < MORE_THAN_ENOUGH; i++)
            tci_loop_turn(w->loop, 10);
        bool was_reached = tci_mem_count() >= n;
        tci_mem_fail_at(0);
        if (rc < 0)
            assert_int_equal(rc, TC_E_NO_MEMORY);
        else
            (void)task_wait(&t);
        if (t.spill_path[0] != '\0') {
            (void)unlink(t.spill_path);
            *strrchr(t.spill_path, '/') = '\0';
            (void)rmdir(t.spill_path);
        }
        t.run = NULL;
        task_done(&t);
        tci_arena_done(&w->arena);
        tci_arena_init(&w->arena, 0);
        if (!was_reached) {
            assert_int_equal(t.end, TCI_RUN_EXITED);
            return;
        }
    }
    fail();
}

int run_run_tests(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH(streams_are_told_apart),
        IN_MARK(case_22_a_character_in_two_writes),
        IN_MARK(text_and_raw_bytes),
        IN_MARK(a_paused_command_waits),
        IN_MARK(case_01_no_input_is_an_empty_input),
        IN_MARK(case_95_no_controlling_terminal),
        IN_MARK(signals_are_as_at_login),
        IN_MARK(input_in_pieces),
        IN_MARK(input_larger_than_the_pipe),
        IN_MARK(no_pipe_no_input),
        IN_BOTH(case_05_signals_and_codes),
        IN_BOTH(case_02_a_limit_ends_grandchildren_too),
        IN_BOTH(case_03_a_background_child_lives_on),
        IN_BOTH(output_after_the_end_is_waited_for),
        IN_BOTH(case_04_who_left_the_session_dies_too),
        IN_MARK(case_07_nothing_happens_after_the_limit),
        IN_BOTH(aborted_or_killed),
        IN_MARK(a_killed_command_ends_while_paused_output_is_left),
        IN_BOTH(twenty_are_aborted),
        IN_MARK(short_output_makes_no_file),
        IN_MARK(the_file_has_the_very_bytes),
        IN_MARK(long_output_is_kept_and_seen),
        IN_MARK(the_file_is_told_of_after_a_timeout),
        IN_MARK(a_file_that_cannot_be_made),
        IN_MARK(a_disk_that_gets_full),
        IN_BOTH(many_short_commands_leave_nothing),
        IN_BOTH(memory_may_fail_anywhere),
    };
    return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
