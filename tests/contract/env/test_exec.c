/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands of the ExecutionEnv interface over every provider. Over EIP there is no window and the end
 * of a command ends all it started: docs/env-mapping.md. */
#include "tool.h"

#include "client/client.h"
#include "plat/clock.h"
#include "plat/file.h"
#include <math.h>

/* What came out. */
typedef struct heard {
    tci_buf out[2], all;
    uint64_t nbytes, nnewlines, nskips;
    uint64_t since_skip_bytes, since_skip_lines;
    uint64_t max_bytes, max_lines; /* of a window; 0: none */
    bool broke_rule;
} heard;

static void heard_init(heard *h)
{
    *h = (heard){.nbytes = 0};
    tci_buf_init(&h->out[0], TCI_BUF_MAX);
    tci_buf_init(&h->out[1], TCI_BUF_MAX);
    tci_buf_init(&h->all, TCI_BUF_MAX);
}

static void heard_done(heard *h)
{
    tci_buf_done(&h->out[0]);
    tci_buf_done(&h->out[1]);
    tci_buf_done(&h->all);
}

static uint64_t count_newlines(tc_str s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += s.ptr[i] == '\n';
    return n;
}

static int hear(void *user, tc_stream_kind stream, tc_str piece, const tc_skipped *skipped,
                tc_err *err)
{
    heard *h = user;
    TCI_UNUSED(err);
    if (skipped != NULL) {
        h->nskips++;
        h->nbytes += skipped->nbytes;
        h->nnewlines += skipped->nnewlines;
        h->broke_rule |= piece.len <= h->max_bytes && count_newlines(piece) <= h->max_lines;
        tci_buf_clear(&h->all);
    }
    h->nbytes += piece.len;
    h->nnewlines += count_newlines(piece);
    tci_buf_append_str(&h->out[stream], piece);
    tci_buf_append_str(&h->all, piece);
    return 0;
}

static tc_exec_options script(const char *text_of_it, heard *h)
{
    return (tc_exec_options){.size = sizeof(tc_exec_options),
                             .script = text(text_of_it),
                             .on_output = h != NULL ? hear : NULL,
                             .user = h};
}

static tc_exec_options program(const tc_str *argv, size_t n, heard *h)
{
    return (tc_exec_options){.size = sizeof(tc_exec_options),
                             .is_argv = true,
                             .argv = {argv, n},
                             .on_output = h != NULL ? hear : NULL,
                             .user = h};
}

static tc_exec_outcome ran(bench *b, const tc_exec_options *o)
{
    tc_exec_outcome out;
    assert_ok(b->f, tc_env_exec(b->env, &b->call, o, &out, &b->f->err));
    return out;
}

/* ---- what is run ---- */

static void arguments_are_not_looked_at(void **state)
{
    bench b;
    heard h;
    bench_open(&b, *state, "argv");
    heard_init(&h);
    tc_str argv[] = {TC_STR("printf"), TC_STR("%s|"),       TC_STR("a b"), TC_STR("\"q\""),
                     TC_STR("$(x)"),   TC_STR("`touch z`"), TC_STR("*"),   TC_STR("; touch y")};
    tc_exec_options o = program(argv, TCI_ARRAY_LEN(argv), &h);
    assert_int_equal(ran(&b, &o).exit_code, 0);
    assert_text(tci_buf_str(&h.out[0]), "a b|\"q\"|$(x)|`touch z`|*|; touch y|");
    assert_false(is_there(&b, "z") || is_there(&b, "y"));
    heard_done(&h);
    bench_close(&b);
}

static void each_stream_has_its_own_text(void **state)
{
    static const char text_of_it[] = "for i in 1 2 3; do echo out$i; echo err$i >&2; done; "
                                     "printf '\\342\\202'; sleep 0.05; printf '\\254\\377'";
    bench b;
    heard h;
    bench_open(&b, *state, "streams");
    for (int as_argv = 0; as_argv < 2; as_argv++) {
        tc_str argv[] = {TC_STR("sh"), TC_STR("-c"), text(text_of_it)};
        heard_init(&h);
        tc_exec_options o = as_argv ? program(argv, 3, &h) : script(text_of_it, &h);
        ran(&b, &o);
        assert_text(tci_buf_str(&h.out[0]), "out1\nout2\nout3\n\xE2\x82\xAC\xEF\xBF\xBD");
        assert_text(tci_buf_str(&h.out[1]), "err1\nerr2\nerr3\n");
        heard_done(&h);
    }
    bench_close(&b);
}

static void folder_and_variables_are_seen(void **state)
{
    bench b;
    heard h;
    tc_pair shell[] = {{TC_STR("FROM_SHELL"), TC_STR("s")}, {TC_STR("BOTH"), TC_STR("shell")}};
    tc_pair own[] = {{TC_STR("OWN"), TC_STR("o")}, {TC_STR("BOTH"), TC_STR("")}};
    tc_env_options options = env_options((tc_str){0});
    options.shell_env = shell;
    options.nshell_env = 2;
    bench_open_with(&b, *state, "vars", &options);
    put_dir(&b, "sub");
    heard_init(&h);
    tc_exec_options o = script("basename \"$PWD\"; echo \"$FROM_SHELL,$OWN,$BOTH\"; exit 3", &h);
    o.cwd = TC_STR("sub");
    assert_int_equal(ran(&b, &o).exit_code, 3);
    assert_text(tci_buf_str(&h.out[0]), "sub\ns,,shell\n");
    tci_buf_clear(&h.out[0]);
    o.set_env = own;
    o.nset_env = 2;
    ran(&b, &o);
    assert_text(tci_buf_str(&h.out[0]), "sub\ns,o,\n");
    tci_buf_clear(&h.out[0]);
    tc_str env_program[] = {TC_STR("/usr/bin/env")};
    o = program(env_program, 1, &h);
    o.set_env = own;
    o.nset_env = 1;
    o.without_inherited_env = true;
    ran(&b, &o);
    assert_text(tci_buf_str(&h.out[0]), "OWN=o\n");
    heard_done(&h);
    bench_close(&b);
}

static void a_shell_can_be_chosen(void **state)
{
    bench b;
    heard h;
    tc_exec_outcome out;
    tc_env_options options = env_options((tc_str){0});
    options.shell_path = TC_STR("/bin/sh");
    bench_open_with(&b, *state, "shell", &options);
    heard_init(&h);
    tc_exec_options o = script("echo ${BASH_VERSION:-none}", &h);
    ran(&b, &o);
    heard_done(&h);
    bench_close(&b);
    options.shell_path = TC_STR("/no/such/shell");
    bench_open_with(&b, *state, "noshell", &options);
    assert_word(&b, TC_ENV_SHELL_UNAVAILABLE, tc_env_exec(b.env, &b.call, &o, &out, &b.f->err));
    bench_close(&b);
    options.shell_path = TC_STR("/etc/passwd"); /* a file, but no program */
    bench_open_with(&b, *state, "badshell", &options);
    assert_word(&b, TC_ENV_SPAWN_ERROR, tc_env_exec(b.env, &b.call, &o, &out, &b.f->err));
    bench_close(&b);
}

/* ---- how it ends ---- */

static void what_cannot_start_is_told(void **state)
{
    bench b;
    tc_exec_outcome out;
    bench_open(&b, *state, "nostart");
    put_file(&b, "plain", text("x"));
    tc_str missing[] = {TC_STR("no-such-program-here")};
    tc_exec_options o = program(missing, 1, NULL);
    assert_word(&b, TC_ENV_SPAWN_ERROR, tc_env_exec(b.env, &b.call, &o, &out, &b.f->err));
    o = program(missing, 0, NULL);
    assert_word(&b, TC_ENV_SPAWN_ERROR, tc_env_exec(b.env, &b.call, &o, &out, &b.f->err));
    o = script("touch ran", NULL);
    o.cwd = TC_STR("no-such-folder");
    assert_word(&b, TC_ENV_SPAWN_ERROR, tc_env_exec(b.env, &b.call, &o, &out, &b.f->err));
    o.cwd = TC_STR("plain");
    assert_word(&b, TC_ENV_SPAWN_ERROR, tc_env_exec(b.env, &b.call, &o, &out, &b.f->err));
    assert_false(is_there(&b, "ran"));
    bench_close(&b);
}

static void exit_codes_and_signals_are_results(void **state)
{
    bench b;
    bench_open(&b, *state, "codes");
    tc_exec_options o = script("exit 7", NULL);
    assert_int_equal(ran(&b, &o).exit_code, 7);
    o = script("kill -9 $$", NULL);
    assert_int_equal(ran(&b, &o).exit_code, 137);
    bench_close(&b);
}

static void time_limits_that_make_no_sense_run_nothing(void **state)
{
    static const double wrong[] = {0, -1, NAN, INFINITY, -INFINITY, 2147484};
    bench b;
    tc_exec_outcome out;
    bench_open(&b, *state, "limits");
    tc_exec_options o = script("touch ran", NULL);
    o.has_timeout = true;
    for (size_t i = 0; i < TCI_ARRAY_LEN(wrong); i++) {
        o.timeout_s = wrong[i];
        assert_word(&b, TC_ENV_TIMEOUT, tc_env_exec(b.env, &b.call, &o, &out, &b.f->err));
        assert_true(tci_str_starts(text(b.f->err.msg), TC_STR("Invalid timeout")));
    }
    assert_false(is_there(&b, "ran"));
    bench_close(&b);
}

static void time_runs_out_and_aborts_come_through(void **state)
{
    bench b;
    tc_exec_outcome out;
    tc_ctx *ctx;
    bench_open(&b, *state, "ends");
    int64_t begin = tci_clock_mono_ns();
    tc_exec_options o = script("sleep 600", NULL);
    o.has_timeout = true;
    o.timeout_s = 0.1;
    assert_word(&b, TC_ENV_TIMEOUT, tc_env_exec(b.env, &b.call, &o, &out, &b.f->err));
    assert_text(text(b.f->err.msg), "timeout:0.1");
    o.has_timeout = false;
    assert_ok(b.f, tc_ctx_new(100, &ctx, &b.f->err));
    tc_call call = TC_CALL(ctx, b.f->r);
    assert_word(&b, TC_ENV_ABORTED, tc_env_exec(b.env, &call, &o, &out, &b.f->err));
    tc_ctx_free(ctx);
    /* Far from the ten minutes that the commands would have taken. */
    assert_true(tci_clock_mono_ns() - begin < (int64_t)60 * 1000000000);
    bench_close(&b);
}

typedef struct aborter {
    bench *b;
    tc_ctx *ctx;
    int64_t after_ns;
    tci_thread *thread;
    tc_env_error word;
    int rc;
} aborter;

static void run_until_aborted(void *arg)
{
    aborter *a = arg;
    tc_result *r;
    tc_err err;
    tc_exec_outcome out;
    if (tc_result_new(&r, &err) < 0)
        return;
    tc_call call = TC_CALL(a->ctx, r);
    tc_exec_options o = script("sleep 600", NULL);
    a->rc = tc_env_exec(a->b->env, &call, &o, &out, &err);
    a->word = tc_result_evidence(r)->env_error;
    tc_result_free(r);
}

static void many_commands_are_aborted_at_once(void **state)
{
    enum { COUNT = 20 };
    bench b;
    aborter a[COUNT];
    bench_open(&b, *state, "manyaborts");
    int64_t begin = tci_clock_mono_ns();
    for (int i = 0; i < COUNT; i++) {
        a[i] = (aborter){.b = &b};
        assert_ok(b.f, tc_ctx_new(-1, &a[i].ctx, &b.f->err));
        assert_ok(b.f, tci_thread_new(run_until_aborted, &a[i], 0, &a[i].thread, &b.f->err));
        tci_wake never = {0};
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + (int64_t)(i % 5) * 1000000);
        tc_ctx_cancel(a[i].ctx);
    }
    for (int i = 0; i < COUNT; i++) {
        tci_thread_join(a[i].thread);
        assert_true(a[i].rc < 0);
        assert_int_equal(a[i].word, TC_ENV_ABORTED);
        tc_ctx_free(a[i].ctx);
    }
    assert_true(tci_clock_mono_ns() - begin < (int64_t)60 * 1000000000);
    bench_close(&b);
}

static int refuse(void *user, tc_stream_kind stream, tc_str piece, const tc_skipped *skipped,
                  tc_err *err)
{
    TCI_UNUSED(stream);
    TCI_UNUSED(piece);
    TCI_UNUSED(skipped);
    ++*(int *)user;
    return tc_err_set(err, TC_E_NO_SPACE, "the listener broke");
}

static void a_broken_listener_is_told_before_all_else(void **state)
{
    bench b;
    int calls = 0;
    tc_exec_outcome out;
    bench_open(&b, *state, "listener");
    tc_exec_options o = script("echo x; echo y; sleep 60", NULL);
    o.on_output = refuse;
    o.user = &calls;
    assert_word(&b, TC_ENV_CALLBACK_ERROR, tc_env_exec(b.env, &b.call, &o, &out, &b.f->err));
    assert_text(text(b.f->err.msg), "the listener broke");
    assert_int_equal(calls, 1);
    bench_close(&b);
}

typedef struct cleaner {
    bench *b;
    tc_exec_outcome out;
    int rc;
} cleaner;

static void run_a_minute(void *arg)
{
    cleaner *c = arg;
    tc_result *r;
    tc_err err;
    if (tc_result_new(&r, &err) < 0)
        return;
    tc_call call = TC_CALL(NULL, r);
    tc_exec_options o = script("touch running; sleep 60", NULL);
    c->rc = tc_env_exec(c->b->env, &call, &o, &c->out, &err);
    tc_result_free(r);
}

static void cleanup_ends_commands_as_results(void **state)
{
    bench b;
    tci_thread *thread;
    bench_open(&b, *state, "cleanup");
    cleaner c = {.b = &b, .rc = -1};
    assert_ok(b.f, tci_thread_new(run_a_minute, &c, 0, &thread, &b.f->err));
    tci_wake never = {0};
    while (!is_there(&b, "running"))
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + 1000000);
    assert_ok(b.f, tc_env_cleanup(b.env, NULL, &b.f->err));
    tci_thread_join(thread);
    assert_int_equal(c.rc, 0);
    assert_int_equal(c.out.exit_code, 137);
    bench_close(&b);
}

/* ---- much output ---- */

static void a_window_leaves_out_what_would_be_dropped(void **state)
{
    bench b;
    heard h;
    uint64_t total = 0;
    bench_open(&b, *state, "window");
    heard_init(&h);
    h.max_bytes = 200;
    h.max_lines = 5;
    tc_exec_options o = script("i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done", &h);
    o.has_window = true;
    o.window_max_bytes = 200;
    o.window_max_lines = 5;
    o.window_bytes_per_second = 1000000000;
    ran(&b, &o);
    for (int i = 0; i < 2000; i++)
        total += (uint64_t)snprintf(NULL, 0, "line %d\n", i);
    assert_int_equal(h.nbytes, total);
    assert_int_equal(h.nnewlines, 2000);
    assert_false(h.broke_rule);
    assert_true(tci_str_ends(tci_buf_str(&h.all),
                             TC_STR("line 1995\nline 1996\nline 1997\nline 1998\nline 1999\n")));
    heard_done(&h);
    bench_close(&b);
}

static void a_slow_window_drops_most_and_keeps_the_tail(void **state)
{
    enum { TOTAL = 5000000, LINE = 17 };
    bench b;
    heard h;
    only_if((fixture *)*state, is_pi);
    bench_open(&b, *state, "slowwindow");
    heard_init(&h);
    h.max_bytes = 1000;
    h.max_lines = 20;
    tc_exec_options o = script("yes 0123456789abcdef | head -c 5000000", &h);
    o.has_window = true;
    o.window_max_bytes = 1000;
    o.window_max_lines = 20;
    o.window_min_interval_ms = 200;
    o.window_bytes_per_second = 1000000;
    ran(&b, &o);
    assert_int_equal(h.nbytes, TOTAL);
    assert_true(h.nskips > 0);
    if (h.out[0].len >= TOTAL / 10)
        fail_msg("%zu bytes were delivered", h.out[0].len);
    assert_false(h.broke_rule);
    tc_str tail = tci_buf_str(&h.all);
    assert_true(tail.len > 1000 || count_newlines(tail) > 20);
    for (size_t i = 0; i < tail.len; i++) {
        size_t at = (TOTAL - tail.len + i) % LINE;
        assert_int_equal(tail.ptr[i], "0123456789abcdef\n"[at]);
    }
    heard_done(&h);
    bench_close(&b);
}

static tc_str spilled(bench *b, tc_str path)
{
    char *bytes;
    size_t len;
    tc_str copy;
    assert_ok(b->f, tci_file_read_whole(TCI_FILE_CWD, path, 64 << 20, &bytes, &len, &b->f->err));
    assert_ok(b->f, tc_result_dup(b->f->r, tci_str_of(bytes, len), &copy, &b->f->err));
    tci_free(bytes);
    tc_str folder_of_it = tci_str_sub(path, 0, tci_str_rfind_byte(path, '/'));
    assert_ok(b->f, tc_env_remove_path(b->env, &b->call, folder_of_it, true, false, &b->f->err));
    return copy;
}

static void much_output_is_spilled_whole(void **state)
{
    bench b;
    heard h;
    tc_exec_outcome out;
    bench_open(&b, *state, "spill");
    heard_init(&h);
    tc_exec_options o = script("printf 'few\\n'", &h);
    o.has_spill = true;
    o.spill_after_bytes = 50;
    o.spill_after_lines = 10;
    assert_int_equal(ran(&b, &o).spill_path.len, 0);
    o.script = TC_STR("printf 'a\\000b\\377'; head -c 500000 /dev/zero | tr '\\0' x");
    out = ran(&b, &o);
    assert_true(tci_str_find(out.spill_path, TC_STR("pi-output-")) < out.spill_path.len);
    tc_str raw = spilled(&b, out.spill_path);
    assert_int_equal(raw.len, 500004);
    assert_true(tci_str_starts(raw, TC_STR("a\0b\377xxx")));
    /* By lines, while all of it is streamed. */
    heard_done(&h);
    heard_init(&h);
    o.script = TC_STR("seq 15000");
    o.spill_after_bytes = 10000000;
    out = ran(&b, &o);
    assert_int_equal(count_newlines(tci_buf_str(&h.out[0])), 15000);
    assert_true(tci_str_eq(spilled(&b, out.spill_path), tci_buf_str(&h.out[0])));
    /* And when time runs out, which is enough to say all that. */
    o.script = TC_STR("seq 20; touch said; sleep 600");
    o.has_timeout = true;
    for (o.timeout_s = 1; !is_there(&b, "said") && o.timeout_s < 60; o.timeout_s *= 2)
        assert_word(&b, TC_ENV_TIMEOUT, tc_env_exec(b.env, &b.call, &o, &out, &b.f->err));
    tc_str path;
    assert_ok(b.f, tc_result_dup(b.f->r, tc_result_evidence(b.f->r)->spill_path, &path, &b.f->err));
    assert_int_equal(count_newlines(spilled(&b, path)), 20);
    heard_done(&h);
    bench_close(&b);
}

static void background_children_live_on_and_hold_nothing_up(void **state)
{
    bench b;
    heard h;
    only_if((fixture *)*state, is_pi);
    bench_open(&b, *state, "background");
    heard_init(&h);
    tc_exec_options o =
        script("(until [ -e go ]; do sleep 0.02; done; touch done) & echo started", &h);
    ran(&b, &o);
    assert_text(tci_buf_str(&h.out[0]), "started\n");
    put_file(&b, "go", text(""));
    tci_wake never = {0};
    int64_t until = tci_clock_mono_ns() + (int64_t)60 * 1000000000;
    while (!is_there(&b, "done") && tci_clock_mono_ns() < until)
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + 5000000);
    assert_true(is_there(&b, "done"));
    heard_done(&h);
    bench_close(&b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(arguments_are_not_looked_at),
    cmocka_unit_test(each_stream_has_its_own_text),
    cmocka_unit_test(folder_and_variables_are_seen),
    cmocka_unit_test(a_shell_can_be_chosen),
    cmocka_unit_test(what_cannot_start_is_told),
    cmocka_unit_test(exit_codes_and_signals_are_results),
    cmocka_unit_test(time_limits_that_make_no_sense_run_nothing),
    cmocka_unit_test(time_runs_out_and_aborts_come_through),
    cmocka_unit_test(many_commands_are_aborted_at_once),
    cmocka_unit_test(a_broken_listener_is_told_before_all_else),
    cmocka_unit_test(cleanup_ends_commands_as_results),
    cmocka_unit_test(a_window_leaves_out_what_would_be_dropped),
    cmocka_unit_test(a_slow_window_drops_most_and_keeps_the_tail),
    cmocka_unit_test(much_output_is_spilled_whole),
    cmocka_unit_test(background_children_live_on_and_hold_nothing_up),
};

int main(int argc, char **argv)
{
    return RUN_SUITE(argc, argv, tests);
}
