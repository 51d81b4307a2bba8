/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of environments over pi-env when the daemon goes away, cannot be started, or the
 * environment is closed under a running command. */
#include "tool.h"

#include "client/client.h"
#include "env/pi/pi_env.h"
#include "plat/clock.h"

static int collect(void *user, tc_stream_kind stream, tc_str piece, const tc_skipped *skipped,
                   tc_err *err)
{
    TCI_UNUSED(stream);
    TCI_UNUSED(skipped);
    tci_buf_append_str(user, piece);
    return tci_buf_error(user, err);
}

static uint64_t daemon_pid(bench *b)
{
    tci_buf out;
    uint64_t pid = 0;
    tc_exec_outcome outcome;
    tci_buf_init(&out, TCI_BUF_MAX);
    tc_exec_options o = {
        .size = sizeof o, .script = TC_STR("printf %s $PPID"), .on_output = collect, .user = &out};
    assert_ok(b->f, tc_env_exec(b->env, &b->call, &o, &outcome, &b->f->err));
    assert_ok(b->f, tci_num_u64(tci_buf_str(&out), &pid, &b->f->err));
    tci_buf_done(&out);
    return pid;
}

/* Kill the daemon by a command of its own, whose end is then unknown. */
static void kill_it(bench *b)
{
    tc_exec_outcome outcome;
    tc_exec_options o = {.size = sizeof o, .script = TC_STR("kill -9 $PPID; sleep 1")};
    assert_word(b, TC_ENV_UNKNOWN, tc_env_exec(b->env, &b->call, &o, &outcome, &b->f->err));
    const tc_evidence *e = tc_result_evidence(b->f->r);
    assert_true(e->is_lost);
    assert_int_equal(e->outcome, TC_OUTCOME_UNKNOWN);
}

static void a_reader_never_reads_from_a_newer_daemon(void **state)
{
    bench b;
    tc_str got;
    tc_line line;
    tc_env_files page;
    tc_binary_reader *old = NULL, *fresh = NULL;
    tc_line_reader *lines = NULL;
    tc_dir_reader *dir = NULL;
    bench_open(&b, *state, "newer");
    put_file(&b, "old", text("old"));
    put_file(&b, "fresh", text("fresh"));
    uint64_t pid = daemon_pid(&b);
    assert_ok(b.f, tc_env_open_binary_reader(b.env, &b.call, text("old"), false, &old, &b.f->err));
    assert_ok(b.f, tc_env_open_line_reader(b.env, &b.call, text("old"), &lines, &b.f->err));
    assert_ok(b.f, tc_env_open_dir_reader(b.env, &b.call, text("."), &dir, &b.f->err));
    kill_it(&b);
    assert_word(&b, TC_ENV_UNKNOWN, tc_binary_reader_read(old, &b.call, 0, 9, &got, &b.f->err));
    assert_true(tc_result_evidence(b.f->r)->is_lost);
    /* The next operation starts another daemon, whose handles have the same numbers. */
    assert_ok(b.f,
              tc_env_open_binary_reader(b.env, &b.call, text("fresh"), false, &fresh, &b.f->err));
    assert_ok(b.f, tc_binary_reader_read(fresh, &b.call, 0, 9, &got, &b.f->err));
    assert_text(got, "fresh");
    assert_word(&b, TC_ENV_UNKNOWN, tc_binary_reader_read(old, &b.call, 0, 9, &got, &b.f->err));
    assert_word(&b, TC_ENV_UNKNOWN, tc_line_reader_next(lines, &b.call, &line, &b.f->err));
    assert_word(&b, TC_ENV_UNKNOWN, tc_dir_reader_next(dir, &b.call, 1, &page, &b.f->err));
    assert_true(daemon_pid(&b) != pid);
    tc_binary_reader_free(old);
    tc_binary_reader_free(fresh);
    tc_line_reader_free(lines);
    tc_dir_reader_free(dir);
    bench_close(&b);
}

static void what_only_the_old_daemon_had_stays_lost(void **state)
{
    bench b;
    tc_process p, again;
    tc_file_page page;
    only_if((fixture *)*state, has_ext);
    bench_open(&b, *state, "stayslost");
    tc_command c = {.size = sizeof c, .script = TC_STR("sleep 20")};
    assert_ok(b.f, tc_env_process_start(b.env, &b.call, &c, &p, &b.f->err));
    kill_it(&b);
    assert_true(tc_env_process_inspect(b.env, &b.call, p.handle, &again, &b.f->err) < 0);
    /* The rest of EIP is there again. */
    put_file(&b, "f", text("x"));
    assert_ok(b.f, tc_env_find(b.env, &b.call, text("."), TC_STR("*"), NULL, &page, &b.f->err));
    assert_int_equal(page.count, 1);
    bench_close(&b);
}

/* ---- watching on ---- */

typedef struct heard {
    tci_mutex lock;
    tci_wake wake;
    unsigned noverflows, nchanges;
} heard;

static void hear(void *user, const tc_watch_event *event)
{
    heard *h = user;
    tci_mutex_lock(&h->lock);
    h->noverflows += event->kind == TC_WATCH_OVERFLOW;
    h->nchanges += event->kind == TC_WATCH_CHANGE;
    tci_mutex_unlock(&h->lock);
    tci_wake_all(&h->wake);
}

static void wait_for(heard *h, const unsigned *counter)
{
    int64_t until = tci_clock_mono_ns() + (int64_t)30 * 1000000000;
    for (;;) {
        unsigned seen = tci_wake_count(&h->wake);
        tci_mutex_lock(&h->lock);
        bool is_there_now = *counter > 0;
        tci_mutex_unlock(&h->lock);
        if (is_there_now)
            return;
        assert_true(tci_clock_mono_ns() < until);
        tci_wake_wait(&h->wake, seen, until);
    }
}

static void a_watcher_goes_on_with_the_next_daemon(void **state)
{
    bench b;
    heard h = {.noverflows = 0};
    tc_watcher *w = NULL;
    bench_open(&b, *state, "goeson");
    tci_mutex_init(&h.lock);
    tc_watch_target t = {.path = TC_STR("."), .is_recursive = true};
    assert_ok(b.f, tc_env_watch(b.env, &b.call, &t, 1, NULL, hear, &h, &w, &b.f->err));
    kill_it(&b);
    wait_for(&h, &h.noverflows);
    put_file(&b, "f", text("x"));
    wait_for(&h, &h.nchanges);
    tc_watcher_free(w);
    tci_mutex_done(&h.lock);
    bench_close(&b);
}

/* ---- starts that fail ---- */

typedef struct failing {
    unsigned nstarts;
    tci_pi_launcher real;
} failing;

static int launch_second_time(void *user, tc_ctx *ctx, tc_str token, tci_pi_child *ret_child,
                              tc_err *err)
{
    failing *l = user;
    if (++l->nstarts == 1)
        return tc_err_set(err, TC_E_CONNECT, "the road is closed");
    return l->real.launch(l->real.user, ctx, token, ret_child, err);
}

static tc_env *failing_env(bench *b, failing *l, bool is_lazy)
{
    tci_pi *pi = NULL;
    tc_env *env = NULL;
    tc_spawn_options spawn = {.size = sizeof spawn, .program = text(b->f->daemon)};
    assert_ok(b->f, tci_pi_launch_command(b->f->rt, &spawn, &l->real, &b->f->err));
    tci_pi_launcher launcher = {.launch = launch_second_time, .user = l};
    assert_ok(b->f, tci_pi_new_own(b->f->rt, &launcher, NULL, &pi, &b->f->err));
    tci_pi_recipe recipe = {
        .provider = TC_STR("test"), .files_id = TC_STR("test:1"), .is_lazy = is_lazy};
    tc_env_options o = env_options(b->dir);
    assert_ok(b->f, tci_pi_env_new_own(b->f->rt, &recipe, &o, pi, &env, &b->f->err));
    return env;
}

static void a_lazy_environment_tries_again(void **state)
{
    bench b;
    tc_str got;
    only_if((fixture *)*state, has_ext);
    bench_open(&b, *state, "lazy");
    put_file(&b, "f", text("content"));
    failing l = {.nstarts = 0};
    tc_env *env = failing_env(&b, &l, true);
    assert_text(tc_env_files_id(env), "test:1");
    assert_false(tc_env_is_ready(env));
    assert_word(&b, TC_ENV_UNKNOWN,
                tc_env_read_text_file(env, &b.call, text("f"), &got, &b.f->err));
    assert_true(tc_result_evidence(b.f->r)->is_lost);
    assert_true(tci_str_find(text(b.f->err.msg), TC_STR("the road is closed")) <
                strlen(b.f->err.msg));
    assert_ok(b.f, tc_env_read_text_file(env, &b.call, text("f"), &got, &b.f->err));
    assert_text(got, "content");
    assert_true(tc_env_is_ready(env));
    assert_int_equal(l.nstarts, 2);
    tc_env_release(env);
    l.real.free(l.real.user);
    bench_close(&b);
}

static void a_failed_start_of_a_command_is_its_own(void **state)
{
    bench b;
    tc_exec_outcome out;
    only_if((fixture *)*state, has_ext);
    bench_open(&b, *state, "lazyexec");
    failing l = {.nstarts = 0};
    tc_env *env = failing_env(&b, &l, true);
    tc_exec_options o = {.size = sizeof o, .script = TC_STR("exit 4")};
    assert_word(&b, TC_ENV_SPAWN_ERROR, tc_env_exec(env, &b.call, &o, &out, &b.f->err));
    assert_true(tci_str_find(text(b.f->err.msg), TC_STR("the road is closed")) <
                strlen(b.f->err.msg));
    assert_ok(b.f, tc_env_exec(env, &b.call, &o, &out, &b.f->err));
    assert_int_equal(out.exit_code, 4);
    tc_env_release(env);
    l.real.free(l.real.user);
    bench_close(&b);
}

static void an_eager_environment_is_dead_after_a_failed_ready(void **state)
{
    bench b;
    only_if((fixture *)*state, has_ext);
    bench_open(&b, *state, "eager");
    failing l = {.nstarts = 0};
    tc_env *env = failing_env(&b, &l, false);
    assert_code(b.f, TC_E_CONNECT, tc_env_ready(env, NULL, &b.f->err));
    assert_code(b.f, TC_E_NOT_READY, tc_env_ready(env, NULL, &b.f->err));
    assert_int_equal(l.nstarts, 1);
    tc_env_release(env);
    l.real.free(l.real.user);
    bench_close(&b);
}

static void a_spill_that_cannot_be_written_fails_the_command(void **state)
{
    bench b;
    tci_pi *pi = NULL;
    tc_env *env = NULL;
    tci_pi_launcher launcher;
    tc_exec_outcome out;
    tc_pair no_room = {TC_STR("TMPDIR"), TC_STR("/no/such/folder")};
    only_if((fixture *)*state, has_ext);
    bench_open(&b, *state, "noroom");
    tc_spawn_options spawn = {
        .size = sizeof spawn, .program = text(b.f->daemon), .set_env = &no_room, .nset_env = 1};
    assert_ok(b.f, tci_pi_launch_command(b.f->rt, &spawn, &launcher, &b.f->err));
    assert_ok(b.f, tci_pi_new_own(b.f->rt, &launcher, NULL, &pi, &b.f->err));
    tci_pi_recipe recipe = {.provider = TC_STR("test"), .files_id = TC_STR("test:2")};
    tc_env_options options = env_options(b.dir);
    assert_ok(b.f, tci_pi_env_new_own(b.f->rt, &recipe, &options, pi, &env, &b.f->err));
    assert_ok(b.f, tc_env_ready(env, NULL, &b.f->err));
    tc_exec_options o = {.size = sizeof o, .script = TC_STR("seq 100; sleep 60")};
    o.has_spill = true;
    o.spill_after_bytes = 10;
    o.spill_after_lines = 10;
    assert_word(&b, TC_ENV_UNKNOWN, tc_env_exec(env, &b.call, &o, &out, &b.f->err));
    assert_true(
        tci_str_starts(text(b.f->err.msg), TC_STR("Failed to preserve complete shell output")));
    tc_env_release(env);
    bench_close(&b);
}

/* ---- closed under way ---- */

typedef struct runner {
    tc_env *env;
    tc_env_error word;
    int rc;
} runner;

static void run_a_minute(void *arg)
{
    runner *run = arg;
    tc_result *r;
    tc_err err;
    tc_exec_outcome out;
    if (tc_result_new(&r, &err) < 0)
        return;
    tc_call call = TC_CALL(NULL, r);
    tc_exec_options o = {.size = sizeof o, .script = TC_STR("touch running; sleep 60")};
    run->rc = tc_env_exec(run->env, &call, &o, &out, &err);
    run->word = tc_result_evidence(r)->env_error;
    tc_result_free(r);
}

static void closing_ends_running_commands_and_nobody_elses(void **state)
{
    bench b;
    tc_env *other = NULL;
    tci_thread *thread;
    tc_str got;
    bench_open(&b, *state, "closing");
    tc_env_options o = env_options(b.dir);
    assert_ok(b.f, make_env_with(b.f, &o, &other));
    assert_ok(b.f, tc_env_ready(other, NULL, &b.f->err));
    runner run = {.env = b.env};
    assert_ok(b.f, tci_thread_new(run_a_minute, &run, 0, &thread, &b.f->err));
    tci_wake never = {0};
    while (!is_there(&b, "running"))
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + 1000000);
    assert_ok(b.f, tc_env_close(b.env, NULL, &b.f->err));
    tci_thread_join(thread);
    assert_true(run.rc < 0);
    assert_int_equal(run.word, TC_ENV_ABORTED);
    assert_ok(b.f, tc_env_read_text_file(other, &b.call, text("running"), &got, &b.f->err));
    assert_word(&b, TC_ENV_UNKNOWN,
                tc_env_read_text_file(b.env, &b.call, text("running"), &got, &b.f->err));
    tc_env_release(other);
    bench_close(&b);
}

/* ---- what a recipe may not ask for ---- */

static void what_pi_env_cannot_promise_is_refused(void **state)
{
    fixture *f = *state;
    tc_env *env = NULL;
    tc_egress_recipe egress = {.nsecrets = 0};
    tc_expected_boundary boundary = {.is_restricted = true};
    tc_env_options o = env_options(text(f->root));
    o.egress = &egress;
    assert_code(f, TC_E_UNSUPPORTED, make_env_with(f, &o, &env));
    o = env_options(text(f->root));
    o.expected_boundary = &boundary;
    assert_code(f, TC_E_UNSUPPORTED, make_env_with(f, &o, &env));
    o = env_options(text(f->root));
    o.state = TC_STR("{}");
    assert_code(f, TC_E_UNSUPPORTED, make_env_with(f, &o, &env));
    assert_null(env);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_reader_never_reads_from_a_newer_daemon),
    cmocka_unit_test(what_only_the_old_daemon_had_stays_lost),
    cmocka_unit_test(a_watcher_goes_on_with_the_next_daemon),
    cmocka_unit_test(a_lazy_environment_tries_again),
    cmocka_unit_test(a_failed_start_of_a_command_is_its_own),
    cmocka_unit_test(an_eager_environment_is_dead_after_a_failed_ready),
    cmocka_unit_test(a_spill_that_cannot_be_written_fails_the_command),
    cmocka_unit_test(closing_ends_running_commands_and_nobody_elses),
    cmocka_unit_test(what_pi_env_cannot_promise_is_refused),
};

int main(int argc, char **argv)
{
    return RUN_SUITE(argc, argv, tests);
}
