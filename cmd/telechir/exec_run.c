/* SPDX-License-Identifier: Apache-2.0
 *
 * One command, followed to its end: standard output on the main thread, standard error on a second,
 * input on a third. Invariant: when this returns the command has ended, or it is said that this
 * could not be confirmed; no byte of output is printed twice or left out before a failure. */
#include "exec.h"

#include "base/utf8.h"
#include "plat/clock.h"
#include "plat/fd.h"
#include "plat/thread.h"

enum {
    FD_ERR = 2,
    WAIT_MS = 20000,      /* for more output, then ask again */
    READ_MS = 30000,      /* for the answer to that */
    KILL_MS = 10000,      /* to confirm a kill */
    CARRY_MAX = 3,        /* bytes of a character that is not whole yet */
    INPUT_MIN = 4 * 1024, /* one write must be taken within seconds: small for slow readers */
    INPUT_MAX = 256 * 1024,
    INPUT_QUICK_MS = 50,
    INPUT_SLOW_MS = 500
};

typedef struct exec_run exec_run;

typedef struct exec_stream {
    exec_run *run;
    bool is_err;
    tc_str reference;
    uint64_t nbytes;
    char carry[CARRY_MAX];
    size_t ncarry;
    int rc;
    tc_err err;
} exec_stream;

struct exec_run {
    cli *c;
    tc_env *env;
    tc_str handle;
    tci_mutex lock; /* JSON lines come from both streams */
    exec_stream streams[2];
    tc_ctx *input_ctx; /* ended when the command has ended */
    int input_rc;
    tc_err input_err;
    uint64_t input_nbytes;
};

/* ---- output ---- */

static int put_event(exec_stream *st, tc_str data, tc_err *err)
{
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "event", TC_STR("output"));
    cli_json_str(&b, &first, "stream", st->is_err ? TC_STR("stderr") : TC_STR("stdout"));
    cli_json_bytes(&b, &first, "data", data);
    tci_buf_append_str(&b, TC_STR("}\n"));
    int rc = tci_buf_error(&b, err);
    tci_mutex_lock(&st->run->lock);
    if (rc == 0)
        rc = cli_write_stdout(tci_buf_str(&b), err);
    tci_mutex_unlock(&st->run->lock);
    tci_buf_done(&b);
    return rc;
}

/* Text is passed on in whole characters, so that a character in two pieces stays text. */
static int put_json(exec_stream *st, tc_str data, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append(&b, st->carry, st->ncarry);
    tci_buf_append_str(&b, data);
    st->ncarry = 0;
    int rc = tci_buf_error(&b, err);
    if (rc == 0) {
        tc_str whole = tci_buf_str(&b);
        size_t cut = tci_utf8_cut_tail(whole);
        tc_str tail = tci_str_sub(whole, whole.len - cut, cut);
        memcpy(st->carry, tail.ptr, cut);
        st->ncarry = cut;
        if (whole.len > cut)
            rc = put_event(st, tci_str_sub(whole, 0, whole.len - cut), err);
    }
    tci_buf_done(&b);
    return rc;
}

static int put_output(exec_stream *st, tc_str data, tc_err *err)
{
    st->nbytes += data.len;
    if (data.len == 0)
        return 0;
    if (st->run->c->is_json)
        return put_json(st, data, err);
    if (!st->is_err)
        return cli_write_stdout(data, err);
    int rc = tci_fd_write_all(FD_ERR, data.ptr, data.len, err);
    return rc < 0 ? tc_err_recode(err, TC_E_IO) : 0;
}

static int follow_pages(exec_stream *st, tc_result *r)
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
            rc = put_output(st, page.data, &st->err);
        if (rc < 0)
            return rc;
        offset = page.next_offset;
        if (!page.is_end)
            continue;
        tc_str rest = tci_str_of(st->carry, st->ncarry);
        return rest.len > 0 ? put_event(st, rest, &st->err) : 0;
    }
}

static void follow(void *arg)
{
    exec_stream *st = arg;
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
    char *buf = tci_mem_alloc(INPUT_MAX);
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

static int signal_number(tc_signal s)
{
    enum { INT = 2, KILL = 9, TERM = 15 };
    switch (s) {
    case TC_SIGNAL_INTERRUPT:
        return INT;
    case TC_SIGNAL_TERMINATE:
        return TERM;
    case TC_SIGNAL_KILL:
        return KILL;
    case TC_SIGNAL_NONE:
        break;
    }
    return 0;
}

static const char *signal_name(tc_signal s)
{
    static const char *const names[] = {"unknown", "interrupt", "terminate", "kill"};
    return names[s];
}

/* What is known at the end, for the message and the last JSON line. */
typedef struct ending {
    bool has_status;
    tc_process_status process;
    const char *outcome; /* "done", "killed", "unknown", "not_started" */
    const tc_err *err;
    int status;
} ending;

static int finish_json(exec_run *run, const ending *e)
{
    cli *c = run->c;
    tci_buf b;
    bool first = true;
    const tc_process_status *p = &e->process;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "event", TC_STR("end"));
    cli_json_str(&b, &first, "outcome", tci_str(e->outcome));
    cli_json_u64(&b, &first, "status", (uint64_t)e->status);
    if (e->has_status && p->has_exit_code)
        cli_json_i64(&b, &first, "exit_code", p->exit_code);
    if (e->has_status && p->phase == TC_PROCESS_SIGNALED)
        cli_json_str(&b, &first, "signal", tci_str(signal_name(p->signal)));
    cli_json_bool(&b, &first, "timed_out", e->has_status && p->phase == TC_PROCESS_TIMED_OUT);
    cli_json_bool(&b, &first, "interrupted", cli_caught() != 0);
    if (e->has_status)
        cli_json_bool(&b, &first, "cleaned_up", p->cleanup == TC_CLEANUP_COMPLETE);
    cli_json_u64(&b, &first, "stdout_bytes", run->streams[0].nbytes);
    cli_json_u64(&b, &first, "stderr_bytes", run->streams[1].nbytes);
    if (e->err != NULL)
        cli_json_error(&b, &first, c, e->err);
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    if (is_fine)
        return e->status;
    cli_warn(c, "%s", c->err.msg);
    return CLI_OURS;
}

static int finish(exec_run *run, const ending *e)
{
    if (e->err != NULL) {
        cli_warn(run->c, "%s", e->err->msg);
        if (e->err->hint[0] != '\0')
            cli_warn(run->c, "%s", e->err->hint);
    }
    return run->c->is_json ? finish_json(run, e) : e->status;
}

/* It ran to an end of its own, or to its limit. */
static int ended(exec_run *run, const tc_process_status *p)
{
    cli *c = run->c;
    ending e = {.has_status = true, .process = *p, .outcome = "done", .status = CLI_OURS};
    switch (p->phase) {
    case TC_PROCESS_EXITED:
        e.status = p->exit_code;
        break;
    case TC_PROCESS_SIGNALED:
        e.status = CLI_SIGNAL_BASE + signal_number(p->signal);
        cli_detail(c, "the command ended by signal %s", signal_name(p->signal));
        break;
    case TC_PROCESS_TIMED_OUT:
        e.outcome = "killed";
        e.status = CLI_TIMED_OUT;
        cli_say(c, "the command was killed: its time ran out");
        break;
    case TC_PROCESS_CANCELLED:
        e.outcome = "killed";
        e.err = &c->err;
        (void)tc_err_set(&c->err, TC_E_CANCELLED, "the command was cancelled at the target");
        break;
    case TC_PROCESS_FAILED:
    case TC_PROCESS_STARTING:
    case TC_PROCESS_RUNNING:
        e.err = &c->err;
        if (p->termination == TC_TERMINATION_OUTPUT_LIMIT) {
            e.outcome = "killed";
            (void)tc_err_set(&c->err, TC_E_OUTPUT_LIMIT,
                             "the command was killed: it wrote more than the target keeps");
            (void)tc_err_hint(&c->err, "send its output to a file there, then copy that");
        } else {
            e.outcome = "unknown";
            (void)tc_err_set(&c->err, TC_E_UNKNOWN_OUTCOME,
                             "the target lost sight of the command: it may still run");
        }
        break;
    }
    if (p->cleanup == TC_CLEANUP_FAILED)
        cli_warn(c, "some of what the command started may still run");
    return finish(run, &e);
}

/* The kill was not confirmed. The end of the session kills too: perhaps that is. */
static void say_unconfirmed(exec_run *run, bool is_caught, const tc_err *why, ending *e)
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
    ending e = {.outcome = "unknown", .err = is_caught ? NULL : why};
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
    int status = finish(run, &e);
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
    return failed != NULL ? give_up(run, failed) : ended(run, &p.status);
}

/* The start failed, or was interrupted: nothing to follow. */
static int not_started(exec_run *run)
{
    cli *c = run->c;
    tc_outcome outcome = tc_result_evidence(c->result)->outcome;
    ending e = {.outcome = outcome == TC_OUTCOME_UNKNOWN ? "unknown" : "not_started",
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
    return finish(run, &e);
}

static bool put_started(exec_run *run)
{
    cli *c = run->c;
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "event", TC_STR("started"));
    cli_json_str(&b, &first, "device_id", tc_env_device_id(run->env));
    cli_json_u64(&b, &first, "generation", tc_env_generation(run->env));
    cli_json_str(&b, &first, "session_id", tc_env_session_id(run->env));
    cli_json_str(&b, &first, "operation_id", tc_result_evidence(c->result)->operation_id);
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine;
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

int cli_run_command(cli *c, tc_env *env, const tc_command *command, bool has_input)
{
    exec_run run = {.c = c, .env = env};
    tc_command wanted = *command;
    tc_process p;
    tc_call call = cli_call(c);
    wanted.keep_stdin_open = has_input;
    run.streams[0] = (exec_stream){.run = &run};
    run.streams[1] = (exec_stream){.run = &run, .is_err = true};
    if (tc_ctx_new(-1, &run.input_ctx, &c->err) < 0)
        return cli_fail(c);
    tci_mutex_init(&run.lock);
    int status;
    if (tc_env_process_start(env, &call, &wanted, &p, &c->err) < 0)
        status = not_started(&run);
    else if (keep(&run, &p) < 0 || (c->is_json && !put_started(&run)))
        status = give_up(&run, &c->err);
    else
        status = follow_all(&run, has_input);
    tci_mutex_done(&run.lock);
    tc_ctx_free(run.input_ctx);
    return status;
}
