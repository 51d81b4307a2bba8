/* SPDX-License-Identifier: Apache-2.0
 *
 * One command as a process behind EIP, followed to its end: standard output on the main thread,
 * standard error on a second, input on a third. Invariant: when this returns the command has ended,
 * or it is said that this could not be confirmed. */
#include "exec.h"

#include "plat/clock.h"

enum {
    WAIT_MS = 20000,      /* for more output, then ask again */
    READ_MS = 30000,      /* for the answer to that */
    KILL_MS = 10000,      /* to confirm a kill */
    INPUT_MIN = 4 * 1024, /* one write must be taken within seconds: small for slow readers */
    INPUT_MAX = 256 * 1024,
    INPUT_QUICK_MS = 50,
    INPUT_SLOW_MS = 500
};

typedef struct exec_run exec_run;

typedef struct followed {
    exec_run *run;
    tc_stream_kind kind;
    tc_str reference;
    int rc;
    tc_err err;
} followed;

struct exec_run {
    cli *c;
    tc_env *env;
    tc_str handle;
    exec_out out;
    followed streams[2];
    tc_ctx *input_ctx; /* ended when the command has ended */
    int input_rc;
    tc_err input_err;
    uint64_t input_nbytes;
};

/* ---- output ---- */

static int follow_pages(followed *st, tc_result *r)
{
    exec_run *run = st->run;
    uint64_t offset = 0;
    for (;;) {
        tc_output_page page;
        tc_call call = TC_CALL(run->c->ctx, r);
        call.timeout_ms = READ_MS;
        tc_result_clear(r);
        int rc =
            tc_env_output_read(run->env, &call, st->reference, offset, WAIT_MS, &page, &st->err);
        if (rc == 0)
            rc = exec_put(&run->out, st->kind, page.data, &st->err);
        if (rc < 0)
            return rc;
        offset = page.next_offset;
        if (page.is_end)
            return exec_put_rest(&run->out, st->kind, &st->err);
    }
}

static void follow(void *arg)
{
    followed *st = arg;
    tc_result *r = NULL;
    st->rc = tc_result_new(&r, &st->err);
    if (st->rc == 0)
        st->rc = follow_pages(st, r);
    tc_result_free(r);
    if (st->rc < 0)
        tc_ctx_cancel(st->run->c->ctx); /* the other stream need not go on */
}

/* ---- input ---- */

/* The reader of the other end went away: it has had all it wants. */
static bool is_input_over(int rc)
{
    return rc == TC_E_CONFLICT || rc == TC_E_NOT_FOUND || rc == TC_E_BAD_HANDLE;
}

/* Whether bytes arrived can be unknown because the command has ended: then it does not matter. */
static bool has_ended(exec_run *run, tc_result *r)
{
    tc_err ignored; /* not known to have ended */
    tc_process p;
    tc_call call = TC_CALL(run->input_ctx, r);
    tc_result_clear(r);
    return tc_env_process_inspect(run->env, &call, run->handle, &p, &ignored) == 0 &&
           p.status.phase != TC_PROCESS_STARTING && p.status.phase != TC_PROCESS_RUNNING;
}

static int send_piece(exec_run *run, tc_result *r, tc_str piece, bool is_last, bool *ret_is_over)
{
    uint64_t naccepted = 0;
    tc_call call = TC_CALL(run->input_ctx, r);
    tc_result_clear(r);
    int rc = tc_env_process_write(run->env, &call, run->handle, piece, is_last, &naccepted,
                                  &run->input_err);
    if (rc == TC_E_UNKNOWN_OUTCOME && has_ended(run, r))
        rc = TC_E_CONFLICT;
    *ret_is_over = is_last || is_input_over(rc) || (rc == 0 && naccepted < piece.len);
    run->input_nbytes += naccepted;
    return is_input_over(rc) ? 0 : rc;
}

/* Large pieces while they are taken at once, small ones for a slow reader. */
static size_t next_size(size_t size, int64_t took_ms)
{
    if (took_ms < INPUT_QUICK_MS && size < INPUT_MAX)
        return size * 2;
    return took_ms > INPUT_SLOW_MS && size > INPUT_MIN ? size / 2 : size;
}

static int send_input(exec_run *run, tc_result *r, char *buf)
{
    cli_input *in = NULL;
    bool is_over = false;
    size_t size = INPUT_MIN;
    int rc = cli_input_open(run->c, &in, &run->input_err);
    while (rc == 0 && !is_over) {
        size_t n = 0;
        rc = cli_input_read(in, run->input_ctx, buf, size, &n, &run->input_err);
        if (rc < 0)
            break;
        int64_t begin = tci_clock_mono_ns();
        rc = send_piece(run, r, tci_str_of(buf, n), n == 0, &is_over);
        size = next_size(size, (tci_clock_mono_ns() - begin) / 1000000);
    }
    return rc;
}

static void explain_input(tc_err *err, uint64_t nbytes)
{
    if (err->code == TC_E_OUTPUT_LIMIT) {
        (void)tc_err_set(err, TC_E_OUTPUT_LIMIT, "the target takes no more input after %llu bytes",
                         (unsigned long long)nbytes);
        (void)tc_err_hint(err, "copy the input there with 'telechir cp' and read it from the file");
    } else if (err->code == TC_E_UNKNOWN_OUTCOME) {
        (void)tc_err_wrap(err, "the command did not take its input in time");
    } else {
        (void)tc_err_wrap(err, "cannot pass input on");
    }
}

static void forward_input(void *arg)
{
    exec_run *run = arg;
    tc_result *r = NULL;
    char *buf = tci_mem_resize(NULL, INPUT_MAX);
    run->input_rc =
        buf != NULL ? tc_result_new(&r, &run->input_err) : tci_err_no_memory(&run->input_err);
    if (run->input_rc == 0)
        run->input_rc = send_input(run, r, buf);
    tc_result_free(r);
    tci_free(buf);
    if (tc_ctx_is_cancelled(run->input_ctx)) {
        run->input_rc = 0; /* the command ended first */
    } else if (run->input_rc < 0) {
        explain_input(&run->input_err, run->input_nbytes);
        tc_ctx_cancel(run->c->ctx);
    }
}

/* ---- the end ---- */

/* The kill was not confirmed. The end of the session kills too: perhaps that is. */
static void say_unconfirmed(exec_run *run, bool is_caught, const tc_err *why, exec_ending *e)
{
    tc_err err;
    if (tc_env_close(run->env, NULL, &err) == 0) {
        e->outcome = "killed";
        cli_say(run->c, "%sthe session was ended, and the command with it",
                is_caught ? "interrupted: " : "");
        return;
    }
    cli_warn(run->c, "%sit could not be confirmed that the command ended: %s",
             is_caught ? "interrupted: " : "", why->msg);
}

/* Make sure of the end before the first failure, or Ctrl-C, is told. */
static int give_up(exec_run *run, const tc_err *why)
{
    cli *c = run->c;
    tc_ctx *ctx = NULL;
    tc_process p;
    tc_err kill_err;
    bool is_caught = cli_caught() != 0;
    exec_ending e = {.outcome = "unknown", .err = is_caught ? NULL : why};
    e.status = is_caught ? CLI_SIGNAL_BASE + cli_caught() : CLI_OURS;
    int rc = tc_ctx_new(KILL_MS, &ctx, &kill_err);
    if (rc == 0) {
        tc_call call = TC_CALL(ctx, c->result);
        rc = tc_env_process_kill(run->env, &call, run->handle, &p, &kill_err);
    }
    if (rc == 0) {
        e.has_status = true;
        e.process = p.status;
        bool was_over = p.status.phase == TC_PROCESS_EXITED;
        e.outcome = was_over ? "done" : "killed";
        cli_say(c, "%s%s", is_caught ? "interrupted: " : "",
                was_over ? "the command had ended already"
                         : "the command was killed, and all that it had started is gone");
    } else {
        say_unconfirmed(run, is_caught, &kill_err, &e);
    }
    int status = exec_finish(&run->out, &e);
    tc_ctx_free(ctx);
    return status;
}

/* ---- the whole ---- */

static const tc_err *first_failure(const exec_run *run)
{
    const tc_err *found = NULL;
    if (run->input_rc < 0)
        found = &run->input_err;
    for (int i = 0; i < 2; i++)
        if (run->streams[i].rc < 0 && (found == NULL || (found->code == TC_E_CANCELLED)))
            found = &run->streams[i].err;
    return found;
}

static int follow_all(exec_run *run, bool has_input)
{
    cli *c = run->c;
    tci_thread *err_thread = NULL, *in_thread = NULL;
    int rc = tci_thread_new(follow, &run->streams[1], 0, &err_thread, &c->err);
    if (rc == 0 && has_input)
        rc = tci_thread_new(forward_input, run, 0, &in_thread, &c->err);
    if (rc == 0)
        follow(&run->streams[0]);
    else
        tc_ctx_cancel(c->ctx);
    tci_thread_join(err_thread);
    const tc_err *failed = rc < 0 ? &c->err : first_failure(run);
    tc_process p;
    tc_call call = cli_call(c);
    if (rc == 0 && failed == NULL &&
        tc_env_process_wait(run->env, &call, run->handle, true, &p, &c->err) < 0)
        failed = &c->err;
    tc_ctx_cancel(run->input_ctx);
    tci_thread_join(in_thread);
    if (failed != NULL && failed->code == TC_E_CANCELLED && first_failure(run) != NULL)
        failed = first_failure(run);
    if (failed != NULL)
        return give_up(run, failed);
    exec_ending e = exec_ending_of(c, &p.status, &c->err);
    return exec_finish(&run->out, &e);
}

/* The start failed, or was interrupted: nothing to follow. */
static int not_started(exec_run *run)
{
    cli *c = run->c;
    tc_outcome outcome = tc_result_evidence(c->result)->outcome;
    exec_ending e = {.outcome = outcome == TC_OUTCOME_UNKNOWN ? "unknown" : "not_started",
                     .err = &c->err,
                     .status = CLI_OURS};
    if (outcome == TC_OUTCOME_DONE && c->err.code == TC_E_UNKNOWN_OUTCOME)
        e.outcome = "unknown";
    if (cli_caught() != 0)
        e.status = CLI_SIGNAL_BASE + cli_caught();
    if (c->err.code == TC_E_DENIED) /* the target tells no more, so that nobody can probe with it */
        (void)tc_err_set(&c->err, TC_E_DENIED,
                         "cannot start the command: its program or folder is not there, is not "
                         "executable, or is not allowed");
    else
        (void)tc_err_wrap(&c->err, "cannot start the command");
    if (strcmp(e.outcome, "unknown") == 0) {
        (void)tc_err_hint(&c->err, "it may have started: ending the session ends it");
        tc_err ignored;
        if (tc_env_close(run->env, NULL, &ignored) == 0)
            cli_say(c, "the session was ended, and whatever had started in it");
    }
    exec_put_started_late(&run->out, run->env, &e);
    return exec_finish(&run->out, &e);
}

static int keep(exec_run *run, const tc_process *p)
{
    tci_arena *a = &run->c->arena;
    tc_err *err = &run->c->err;
    int rc = tci_arena_dup(a, p->handle, &run->handle, err);
    if (rc == 0)
        rc = tci_arena_dup(a, p->out.reference, &run->streams[0].reference, err);
    if (rc == 0)
        rc = tci_arena_dup(a, p->err.reference, &run->streams[1].reference, err);
    return rc;
}

int cli_follow_command(cli *c, tc_env *env, const tc_command *command, bool has_input)
{
    exec_run run = {.c = c, .env = env};
    tc_command wanted = *command;
    tc_process p;
    tc_call call = cli_call(c);
    wanted.keep_stdin_open = has_input;
    run.streams[0] = (followed){.run = &run, .kind = TC_STDOUT};
    run.streams[1] = (followed){.run = &run, .kind = TC_STDERR};
    if (tc_ctx_new(-1, &run.input_ctx, &c->err) < 0)
        return cli_fail(c);
    exec_out_init(&run.out, c);
    int status;
    if (tc_env_process_start(env, &call, &wanted, &p, &c->err) < 0)
        status = not_started(&run);
    else if (keep(&run, &p) < 0 || exec_put_started(&run.out, env, &c->err) < 0)
        status = give_up(&run, &c->err);
    else
        status = follow_all(&run, has_input);
    exec_out_done(&run.out);
    tc_ctx_free(run.input_ctx);
    return status;
}
