/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands, processes and ports through every provider, and what happens when the daemon is gone. */
#include "fixture.h"

static tc_command script(const char *text_of_it)
{
    return (tc_command){.size = sizeof(tc_command), .script = tci_str(text_of_it)};
}

/* ---- to the end ---- */

static void a_command_says_how_it_ended(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "ends"));
    tc_run_result res;
    assert_true(tc_env_can_exec(env));
    tc_command c = script("echo out; echo err >&2; exit 3");
    assert_ok(f, tc_env_run(env, &call, &c, NULL, &res, &f->err));
    assert_int_equal(res.status.phase, TC_PROCESS_EXITED);
    assert_int_equal(res.status.exit_code, 3);
    assert_text(res.out, "out\n");
    assert_text(res.err, "err\n");
    c = script("kill -9 $$");
    assert_ok(f, tc_env_run(env, &call, &c, NULL, &res, &f->err));
    assert_int_equal(res.status.phase, TC_PROCESS_SIGNALED);
    assert_int_equal(res.status.signal, TC_SIGNAL_KILL);
    assert_false(res.status.has_exit_code);
    c = script("exit 137");
    assert_ok(f, tc_env_run(env, &call, &c, NULL, &res, &f->err));
    assert_true(res.status.has_exit_code && res.status.exit_code == 137);
    tc_env_release(env);
}

static void a_command_gets_input_variables_and_folder(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "gets"));
    tc_run_result res;
    tc_pair set = {TC_STR("GREETING"), TC_STR("a=b\nc")};
    tc_str args[] = {TC_STR("-c"), TC_STR("cat; printf %s \"$GREETING\"; basename \"$PWD\"")};
    tc_command c = {.size = sizeof c,
                    .program = TC_STR("sh"),
                    .args = args,
                    .nargs = 2,
                    .cwd = TC_STR("below"),
                    .set_env = &set,
                    .nset_env = 1,
                    .input = TC_STR("given,")};
    assert_ok(f, tc_env_mkdir(env, &call, TC_STR("below"), false, false, &f->err));
    assert_ok(f, tc_env_run(env, &call, &c, NULL, &res, &f->err));
    assert_text(res.out, "given,a=b\ncbelow\n");
    c = (tc_command){.size = sizeof c, .program = TC_STR("no-such-program-here")};
    assert_code(f, f->p->is_pi ? TC_E_START_FAILED : TC_E_DENIED,
                tc_env_run(env, &call, &c, NULL, &res, &f->err));
    /* case 1: without input there is an end at once. */
    c = script("cat");
    assert_ok(f, tc_env_run(env, &call, &c, NULL, &res, &f->err));
    assert_int_equal(res.out.len, 0);
    tc_env_release(env);
}

static void time_out_is_a_result_and_kills(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_str dir = folder(f, "slow");
    tc_env *env = make_env(f, dir);
    tc_run_result res;
    tc_run_options o = {.size = sizeof o, .timeout_ms = 300};
    tc_command c = script("echo begun; touch begun; sleep 60; echo ended");
    bool exists;
    char begun[4096];
    snprintf(begun, sizeof begun, "%.*s/begun", TC_STR_ARG(dir));
    for (; !file_exists(begun) && o.timeout_ms < 60000; o.timeout_ms *= 2) {
        assert_ok(f, tc_env_run(env, &call, &c, &o, &res, &f->err)); /* time enough to begin */
        assert_true(res.is_timed_out);
    }
    assert_text(res.out, "begun\n");
    c = script("sleep 60; touch late");
    o.timeout_ms = 300;
    assert_ok(f, tc_env_run(env, &call, &c, &o, &res, &f->err));
    assert_true(res.is_timed_out);
    assert_ok(f, tc_env_exists(env, &call, TC_STR("late"), &exists, &f->err));
    assert_false(exists);
    tc_env_release(env);
}

/* ---- while it runs ---- */

typedef struct heard {
    tci_buf out, err;
    tc_env *env;
    fixture *f;
    bool answered;
} heard;

/* Answers the command's first words, which it waits for: output comes while it runs. */
static int listen(void *user, tc_stream_kind stream, const void *bytes, size_t len, tc_err *err)
{
    heard *h = user;
    tci_buf_append(stream == TC_STDERR ? &h->err : &h->out, bytes, len);
    if (h->answered || h->out.len == 0)
        return 0;
    h->answered = true;
    tc_result *r;
    int rc = tc_result_new(&r, err);
    if (rc < 0)
        return rc;
    tc_call call = TC_CALL(NULL, r);
    rc = tc_env_write_text(h->env, &call, TC_STR("answer"), TC_STR("go"), NULL, NULL, err);
    tc_result_free(r);
    return rc;
}

static void output_comes_while_it_runs(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    heard h = {.f = f, .env = make_env(f, folder(f, "live"))};
    tc_run_result res;
    tci_buf_init(&h.out, TCI_BUF_MAX);
    tci_buf_init(&h.err, TCI_BUF_MAX);
    tc_run_options o = {.size = sizeof o, .on_output = listen, .user = &h, .max_collect = 4};
    tc_command c = script("echo asking; until [ -s answer ]; do sleep 0.01; done; "
                          "echo heard >&2; exit 5");
    assert_ok(f, tc_env_run(h.env, &call, &c, &o, &res, &f->err));
    assert_int_equal(res.status.exit_code, 5);
    assert_text(tci_buf_str(&h.out), "asking\n");
    assert_text(tci_buf_str(&h.err), "heard\n");
    assert_text(res.out, "aski");
    assert_true(res.is_out_cut && res.out_nbytes == 7);
    assert_int_equal(tc_result_evidence(f->r)->outcome, TC_OUTCOME_DONE);
    tci_buf_done(&h.out);
    tci_buf_done(&h.err);
    tc_env_release(h.env);
}

static int count(void *user, tc_stream_kind stream, const void *bytes, size_t len, tc_err *err)
{
    TCI_UNUSED(bytes);
    TCI_UNUSED(err);
    uint64_t *n = user;
    n[stream == TC_STDERR] += len;
    return 0;
}

static void much_output_arrives_whole(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "much"));
    tc_run_result res;
    uint64_t n[2] = {0, 0};
    tc_run_options o = {.size = sizeof o, .on_output = count, .user = n};
    tc_command c = script("head -c 6000000 /dev/zero; head -c 5 /dev/zero >&2");
    assert_ok(f, tc_env_run(env, &call, &c, &o, &res, &f->err));
    assert_int_equal(n[0], 6000000);
    assert_int_equal(n[1], 5);
    /* Without a listener as much as asked for is kept, beyond what one answer carries. */
    o = (tc_run_options){.size = sizeof o, .max_collect = 3000000};
    assert_ok(f, tc_env_run(env, &call, &c, &o, &res, &f->err));
    assert_int_equal(res.out.len, 3000000);
    assert_true(res.is_out_cut && res.out_nbytes == 6000000);
    tc_env_release(env);
}

static int refuse(void *user, tc_stream_kind stream, const void *bytes, size_t len, tc_err *err)
{
    TCI_UNUSED(user);
    TCI_UNUSED(stream);
    TCI_UNUSED(bytes);
    TCI_UNUSED(len);
    return tc_err_set(err, TC_E_NO_SPACE, "no more");
}

static void a_listener_that_gives_up_ends_the_command(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "gives-up"));
    tc_run_result res;
    bool exists;
    tc_run_options o = {.size = sizeof o, .on_output = refuse};
    tc_command c = script("echo x; sleep 60; touch late");
    assert_code(f, TC_E_NO_SPACE, tc_env_run(env, &call, &c, &o, &res, &f->err));
    c = script("true");
    assert_ok(f, tc_env_run(env, &call, &c, NULL, &res, &f->err));
    assert_ok(f, tc_env_exists(env, &call, TC_STR("late"), &exists, &f->err));
    assert_false(exists);
    tc_env_release(env);
}

static int cancel_it(void *user, tc_stream_kind stream, const void *bytes, size_t len, tc_err *err)
{
    TCI_UNUSED(stream);
    TCI_UNUSED(bytes);
    TCI_UNUSED(len);
    TCI_UNUSED(err);
    tc_ctx_cancel(user);
    return 0;
}

static void cancel_ends_the_command(void **state)
{
    fixture *f = *state;
    tc_env *env = make_env(f, folder(f, "cancel"));
    tc_run_result res;
    tc_ctx *ctx;
    assert_ok(f, tc_ctx_new(-1, &ctx, &f->err));
    tc_call call = TC_CALL(ctx, f->r);
    tc_run_options o = {.size = sizeof o, .on_output = cancel_it, .user = ctx};
    tc_command c = script("echo $$ >pid; echo x; sleep 60");
    assert_code(f, TC_E_CANCELLED, tc_env_run(env, &call, &c, &o, &res, &f->err));
    call = plain_call(f);
    c = script("! kill -0 $(cat pid) 2>/dev/null");
    assert_ok(f, tc_env_run(env, &call, &c, NULL, &res, &f->err));
    assert_int_equal(res.status.exit_code, 0);
    tc_ctx_free(ctx);
    tc_env_release(env);
}

typedef struct canceller {
    fixture *f;
    tc_env *env;
    tc_ctx *ctx;
} canceller;

/* From another thread, once the command is seen to run. */
static void cancel_when_running(void *arg)
{
    canceller *c = arg;
    tc_err err;
    tc_result *r;
    bool exists = false;
    if (tc_result_new(&r, &err) < 0)
        return;
    tc_call call = TC_CALL(NULL, r);
    while (!exists && tc_env_exists(c->env, &call, TC_STR("running"), &exists, &err) == 0)
        tc_result_clear(r);
    tc_ctx_cancel(c->ctx);
    tc_result_free(r);
}

static void cancel_from_another_thread_ends_a_waiting_call(void **state)
{
    fixture *f = *state;
    canceller c = {.f = f, .env = make_env(f, folder(f, "other-thread"))};
    tci_thread *thread;
    tc_run_result res;
    assert_ok(f, tc_ctx_new(-1, &c.ctx, &f->err));
    assert_ok(f, tci_thread_new(cancel_when_running, &c, 0, &thread, &f->err));
    tc_call call = TC_CALL(c.ctx, f->r);
    tc_command command = script("touch running; sleep 60; touch late");
    int rc = tc_env_run(c.env, &call, &command, NULL, &res, &f->err);
    tci_thread_join(thread);
    /* The daemon tells what became of it; at worst nobody knows, but it never claims success. */
    if (rc == 0)
        assert_int_equal(res.status.phase, TC_PROCESS_CANCELLED);
    else
        assert_true(rc == TC_E_UNKNOWN_OUTCOME || (f->p->is_pi && rc == TC_E_CANCELLED));
    tc_ctx_free(c.ctx);
    tc_env_release(c.env);
}

/* ---- live input ---- */

typedef struct writer {
    tc_input *in;
    size_t nbytes;
    int rc;
    tc_err err;
} writer;

static void write_pattern(void *arg)
{
    writer *w = arg;
    char piece[7001];
    for (size_t i = 0; i < sizeof piece; i++)
        piece[i] = (char)(i * 7);
    for (size_t n = 0; w->rc == 0 && n < w->nbytes; n += sizeof piece)
        w->rc = tc_input_write(w->in, NULL, piece, sizeof piece, &w->err);
    tc_input_close(w->in);
}

static void run_with_input(fixture *f, tc_env *env, const tc_command *c, writer *w,
                           tc_run_result *res)
{
    tc_call call = plain_call(f);
    tci_thread *thread;
    assert_ok(f, tc_input_new(&w->in, &f->err));
    tc_run_options o = {.size = sizeof o, .input = w->in, .max_collect = 8 * 1024 * 1024};
    assert_ok(f, tci_thread_new(write_pattern, w, 0, &thread, &f->err));
    int rc = tc_env_run(env, &call, c, &o, res, &f->err);
    tci_thread_join(thread);
    tc_input_free(w->in);
    assert_ok(f, rc);
}

static void input_goes_to_a_running_command_byte_for_byte(void **state)
{
    fixture *f = *state;
    tc_env *env = make_env(f, folder(f, "live-input"));
    tc_run_result res;
    writer w = {.nbytes = 3 * 1024 * 1024};
    tc_command c = script("cat");
    c.input = TC_STR("first:");
    run_with_input(f, env, &c, &w, &res);
    assert_int_equal(w.rc, 0);
    assert_true(tci_str_starts(res.out, TC_STR("first:")));
    tc_str rest = tci_str_sub(res.out, 6, SIZE_MAX);
    assert_int_equal(rest.len % 7001, 0);
    assert_true(rest.len >= w.nbytes);
    for (size_t i = 0; i < rest.len; i++)
        if (rest.ptr[i] != (char)((i % 7001) * 7))
            fail_msg("byte %zu is another", i);
    tc_env_release(env);
}

static void a_writer_is_told_when_the_command_takes_no_more(void **state)
{
    fixture *f = *state;
    tc_env *env = make_env(f, folder(f, "no-more"));
    tc_run_result res;
    writer w = {.nbytes = 64 * 1024 * 1024};
    tc_command c = script("head -c 10 >taken; exit 6");
    run_with_input(f, env, &c, &w, &res);
    assert_int_equal(res.status.exit_code, 6);
    assert_int_equal(w.rc, TC_E_CLOSED);
    tc_env_release(env);
}

/* ---- processes and ports ---- */

static void processes_live_between_calls(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "lives"));
    tc_process p;
    tc_output_page page;
    uint64_t accepted = 0;
    tc_command c =
        script("read line; echo got $line; until [ -e done ]; do sleep 0.01; done; exit 4");
    c.keep_stdin_open = true;
    assert_ok(f, tc_env_process_start(env, &call, &c, &p, &f->err));
    assert_true(p.is_stdin_open);
    assert_ok(f, tc_env_process_inspect(env, &call, p.handle, &p, &f->err));
    assert_ok(
        f, tc_env_process_write(env, &call, p.handle, TC_STR("word\n"), true, &accepted, &f->err));
    assert_int_equal(accepted, 5);
    assert_ok(f, tc_env_write_text(env, &call, TC_STR("done"), TC_STR(""), NULL, NULL, &f->err));
    assert_ok(f, tc_env_process_wait(env, &call, p.handle, true, &p, &f->err));
    assert_int_equal(p.status.exit_code, 4);
    assert_ok(f, tc_env_output_read(env, &call, p.out.reference, 4, 0, &page, &f->err));
    assert_text(page.data, "word\n");
    assert_true(page.is_end);
    assert_ok(f, tc_env_process_release(env, &call, p.handle, &f->err));
    assert_code(f, TC_E_NOT_FOUND, tc_env_process_inspect(env, &call, p.handle, &p, &f->err));
    tc_env_release(env);
}

static void processes_are_signalled_and_killed(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "kills"));
    tc_process p;
    bool accepted = false;
    tc_command c = script("trap 'exit 9' TERM; echo ready; while :; do sleep 0.02; done");
    tc_output_page page;
    assert_ok(f, tc_env_process_start(env, &call, &c, &p, &f->err));
    do
        assert_ok(f, tc_env_output_read(env, &call, p.out.reference, 0, 10000, &page, &f->err));
    while (page.data.len == 0);
    assert_text(page.data, "ready\n");
    assert_ok(f,
              tc_env_process_signal(env, &call, p.handle, TC_SIGNAL_TERMINATE, &accepted, &f->err));
    assert_true(accepted);
    assert_ok(f, tc_env_process_wait(env, &call, p.handle, true, &p, &f->err));
    assert_int_equal(p.status.exit_code, 9);
    c = script("sleep 60");
    assert_ok(f, tc_env_process_start(env, &call, &c, &p, &f->err));
    assert_ok(f, tc_env_process_kill(env, &call, p.handle, &p, &f->err));
    assert_int_equal(p.status.signal, TC_SIGNAL_KILL);
    assert_int_equal(p.status.cleanup, TC_CLEANUP_COMPLETE);
    tc_env_release(env);
}

static void a_wait_that_runs_out_leaves_the_process(void **state)
{
    fixture *f = *state;
    tc_ctx *ctx;
    tc_process p;
    tc_env *env = make_env(f, folder(f, "waits"));
    tc_call call = plain_call(f);
    tc_command c = script("sleep 60");
    assert_ok(f, tc_env_process_start(env, &call, &c, &p, &f->err));
    assert_ok(f, tc_ctx_new(200, &ctx, &f->err));
    call.ctx = ctx;
    assert_code(f, TC_E_TIMEOUT, tc_env_process_wait(env, &call, p.handle, true, &p, &f->err));
    call = plain_call(f);
    assert_ok(f, tc_env_process_inspect(env, &call, p.handle, &p, &f->err));
    assert_int_equal(p.status.phase, TC_PROCESS_RUNNING);
    /* Cleaning up ends what this adapter started. */
    assert_ok(f, tc_env_cleanup(env, NULL, &f->err));
    assert_ok(f, tc_env_process_inspect(env, &call, p.handle, &p, &f->err));
    assert_int_equal(p.status.phase, TC_PROCESS_SIGNALED);
    tc_ctx_free(ctx);
    tc_env_release(env);
}

static void ports_are_seen(void **state)
{
    fixture *f = *state;
    tc_call call = plain_call(f);
    tc_env *env = make_env(f, folder(f, "ports"));
    tc_port port;
    tc_ctx *ctx;
    assert_ok(f, tc_env_port_inspect(env, &call, 1, TC_PORT_LOOPBACK, &port, &f->err));
    assert_int_equal(port.status, TC_PORT_NOT_LISTENING);
    assert_code(
        f, TC_E_INVALID,
        tc_env_port_wait(env, &call, 1, TC_PORT_LOOPBACK, TC_PORT_LISTENING, &port, &f->err));
    assert_ok(f, tc_ctx_new(200, &ctx, &f->err));
    call.ctx = ctx;
    assert_code(
        f, TC_E_TIMEOUT,
        tc_env_port_wait(env, &call, 1, TC_PORT_LOOPBACK, TC_PORT_LISTENING, &port, &f->err));
    tc_ctx_reset(ctx, 20000);
    assert_ok(f, tc_env_port_wait(env, &call, 1, TC_PORT_LOOPBACK, TC_PORT_NOT_LISTENING, &port,
                                  &f->err));
    tc_ctx_free(ctx);
    tc_env_release(env);
}

/* ---- the daemon is gone ---- */

/* Last: it takes the daemon away. Every operation must fail, and none may act on this machine. */
static void case_71_a_lost_daemon_is_never_replaced_by_this_machine(void **state)
{
    fixture *f = *state;
    not_if(f, is_pi); /* its daemon is started again: test_link.c */
    tc_str dir = folder(f, "lost");
    tc_env *env = make_env(f, dir);
    tc_call call = plain_call(f);
    tc_run_result res;
    tc_process p;
    tc_file_info info;
    tc_file_page page;
    tc_search_page found;
    tc_text_page lines;
    tc_port port;
    tc_str bytes;
    bool exists;
    char marker[4096];
    tc_command c = script("touch marker");
    kill_daemon(f, env);
    snprintf(marker, sizeof marker, "%.*s/marker", TC_STR_ARG(dir));
    assert_true(tc_env_run(env, &call, &c, NULL, &res, &f->err) < 0);
    assert_true(tc_result_evidence(f->r)->outcome != TC_OUTCOME_DONE);
    assert_true(tc_env_process_start(env, &call, &c, &p, &f->err) < 0);
    assert_true(tc_env_write_text(env, &call, TC_STR("marker"), TC_STR("x"), NULL, NULL, &f->err) <
                0);
    assert_int_equal(tc_result_evidence(f->r)->outcome, TC_OUTCOME_NOT_STARTED);
    assert_true(tc_env_write(env, &call, TC_STR("marker"), TC_STR("x"), NULL, NULL, &f->err) < 0);
    assert_true(tc_env_mkdir(env, &call, TC_STR("marker"), true, true, &f->err) < 0);
    assert_true(
        tc_env_copy(env, &call, TC_STR("/etc/passwd"), TC_STR("marker"), true, NULL, &f->err) < 0);
    assert_true(tc_env_move(env, &call, TC_STR("x"), TC_STR("marker"), true, NULL, &f->err) < 0);
    assert_true(tc_env_patch(env, &call, TC_STR("x"), TC_STR(""), NULL, NULL, &f->err) < 0);
    assert_true(tc_env_remove(env, &call, TC_STR("."), TC_FILE_DIRECTORY, true, 0, NULL, &f->err) <
                0);
    assert_true(tc_env_stat(env, &call, TC_STR("/etc/passwd"), true, &info, &f->err) < 0);
    assert_true(tc_env_exists(env, &call, TC_STR("/etc/passwd"), &exists, &f->err) < 0);
    assert_true(tc_env_list(env, &call, TC_STR("/etc"), NULL, &page, &f->err) < 0);
    assert_true(tc_env_find(env, &call, TC_STR("/etc"), TC_STR("*"), NULL, &page, &f->err) < 0);
    assert_true(tc_env_search(env, &call, TC_STR("/etc"), TC_STR("root"), NULL, &found, &f->err) <
                0);
    assert_true(tc_env_read_text(env, &call, TC_STR("/etc/passwd"), NULL, &lines, &f->err) < 0);
    assert_true(tc_env_read(env, &call, TC_STR("/etc/passwd"), NULL, 0, &bytes, &f->err) < 0);
    assert_true(tc_env_port_inspect(env, &call, 1, TC_PORT_LOOPBACK, &port, &f->err) < 0);
    assert_false(file_exists(marker));
    tc_env_release(env);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_command_says_how_it_ended),
    cmocka_unit_test(a_command_gets_input_variables_and_folder),
    cmocka_unit_test(time_out_is_a_result_and_kills),
    cmocka_unit_test(output_comes_while_it_runs),
    cmocka_unit_test(much_output_arrives_whole),
    cmocka_unit_test(a_listener_that_gives_up_ends_the_command),
    cmocka_unit_test(cancel_ends_the_command),
    cmocka_unit_test(cancel_from_another_thread_ends_a_waiting_call),
    cmocka_unit_test(input_goes_to_a_running_command_byte_for_byte),
    cmocka_unit_test(a_writer_is_told_when_the_command_takes_no_more),
    cmocka_unit_test(processes_live_between_calls),
    cmocka_unit_test(processes_are_signalled_and_killed),
    cmocka_unit_test(a_wait_that_runs_out_leaves_the_process),
    cmocka_unit_test(ports_are_seen),
    cmocka_unit_test(case_71_a_lost_daemon_is_never_replaced_by_this_machine),
};

int main(int argc, char **argv)
{
    if (!fixture_choose(argc, argv))
        return TEST_SKIPPED;
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
