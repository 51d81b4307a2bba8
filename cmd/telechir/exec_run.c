/* SPDX-License-Identifier: Apache-2.0
 *
 * One command by one call: output comes on the main thread, a second one feeds it our standard
 * input. Providers over EIP have a better view of what became of a command that was given up, so
 * theirs is exec_follow.c. Invariant: when this returns the command has ended, or it is said that
 * this could not be confirmed. */
#include "exec.h"

typedef struct exec_run {
    cli *c;
    tc_env *env;
    exec_out out;
    tc_input *input;   /* NULL: the command's input is empty */
    tc_ctx *input_ctx; /* ended when the command has ended */
    int input_rc;
    tc_err input_err;
} exec_run;

static int on_output(void *user, tc_stream_kind stream, const void *bytes, size_t len, tc_err *err)
{
    exec_run *run = user;
    int rc = exec_put_started(&run->out, run->env, err);
    return rc == 0 ? exec_put(&run->out, stream, tci_str_of(bytes, len), err) : rc;
}

/* ---- input ---- */

static int feed(exec_run *run, char *buf, size_t cap)
{
    cli_input *in = NULL;
    int rc = cli_input_open(run->c, &in, &run->input_err);
    while (rc == 0) {
        size_t n = 0;
        rc = cli_input_read(in, run->input_ctx, buf, cap, &n, &run->input_err);
        if (rc < 0)
            break;
        if (n == 0) {
            tc_input_close(run->input);
            break;
        }
        rc = tc_input_write(run->input, run->input_ctx, buf, n, &run->input_err);
    }
    return rc == TC_E_CLOSED ? 0 : rc; /* it has had all it wants, or has ended */
}

static void forward_input(void *arg)
{
    enum { PIECE = 256 * 1024 };
    exec_run *run = arg;
    char *buf = tci_mem_resize(NULL, PIECE);
    run->input_rc = buf != NULL ? feed(run, buf, PIECE) : tci_err_no_memory(&run->input_err);
    tci_free(buf);
    if (tc_ctx_is_cancelled(run->input_ctx))
        run->input_rc = 0; /* the command ended first */
    else if (run->input_rc < 0)
        tc_ctx_cancel(run->c->ctx);
}

/* ---- the end ---- */

/* Ctrl-C, or a failure of ours: what became of the command? */
static void tell_given_up(exec_run *run, tc_outcome outcome, exec_ending *e)
{
    cli *c = run->c;
    const char *why = cli_caught() != 0 ? "interrupted: " : "";
    switch (outcome) {
    case TC_OUTCOME_DONE:
        e->outcome = "killed";
        cli_say(c, "%sthe command was killed", why);
        break;
    case TC_OUTCOME_NOT_STARTED:
        e->outcome = "not_started";
        cli_say(c, "%sthe command was not started", why);
        break;
    case TC_OUTCOME_NONE:
    case TC_OUTCOME_UNKNOWN:
        e->outcome = "unknown";
        cli_warn(
            c,
            "%sit could not be confirmed that the command ended; the daemon there kills it when "
            "it learns that we are gone, within 35 s, if it still runs",
            why);
        break;
    }
}

/* The call failed: was that the command's start, the link, or us? */
static int failed(exec_run *run, int rc)
{
    cli *c = run->c;
    tc_outcome outcome = tc_result_evidence(c->result)->outcome;
    exec_ending e = {.outcome = "not_started", .err = &c->err, .status = CLI_OURS};
    bool is_ours = run->input_rc < 0;
    if (is_ours) {
        c->err = run->input_err;
        (void)tc_err_wrap(&c->err, "cannot pass input on");
    }
    if (cli_caught() != 0) {
        e.status = CLI_SIGNAL_BASE + cli_caught();
        e.err = NULL;
    }
    if (rc == TC_E_CANCELLED || is_ours || run->out.is_started)
        tell_given_up(run, outcome, &e);
    else if (outcome == TC_OUTCOME_UNKNOWN)
        tell_given_up(run, outcome, &e);
    else
        (void)tc_err_wrap(&c->err, "cannot start the command");
    exec_put_started_late(&run->out, run->env, &e);
    return exec_finish(&run->out, &e);
}

static int ended(exec_run *run, const tc_run_result *res)
{
    cli *c = run->c;
    tc_process_status status = res->status;
    exec_ending e;
    if (res->is_timed_out)
        status.phase = TC_PROCESS_TIMED_OUT;
    int rc = exec_put_started(&run->out, run->env, &c->err);
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = exec_put_rest(&run->out, i == 0 ? TC_STDOUT : TC_STDERR, &c->err);
    if (rc < 0) {
        e = (exec_ending){.outcome = "done", .err = &c->err, .status = CLI_OURS};
        return exec_finish(&run->out, &e);
    }
    e = exec_ending_of(c, &status, &c->err);
    return exec_finish(&run->out, &e);
}

/* ---- the whole ---- */

static int run_it(exec_run *run, const tc_command *command, tc_run_result *ret)
{
    cli *c = run->c;
    tci_thread *in_thread = NULL;
    tc_call call = cli_call(c);
    tc_run_options options = {.size = sizeof options,
                              .on_output = on_output,
                              .user = run,
                              .timeout_ms = command->wall_time_ms,
                              .input = run->input};
    if (run->input != NULL && tci_thread_new(forward_input, run, 0, &in_thread, &c->err) < 0)
        return c->err.code;
    int rc = tc_env_run(run->env, &call, command, &options, ret, &c->err);
    tc_ctx_cancel(run->input_ctx);
    tci_thread_join(in_thread);
    return rc;
}

int cli_run_command(cli *c, tc_env *env, const tc_command *command, bool has_input)
{
    exec_run run = {.c = c, .env = env};
    tc_run_result res;
    if (cli_is_eip(env))
        return cli_follow_command(c, env, command, has_input);
    if (tc_ctx_new(-1, &run.input_ctx, &c->err) < 0 ||
        (has_input && tc_input_new(&run.input, &c->err) < 0)) {
        tc_ctx_free(run.input_ctx);
        return cli_fail(c);
    }
    exec_out_init(&run.out, c);
    int rc = run_it(&run, command, &res);
    int status = rc == 0 ? ended(&run, &res) : failed(&run, rc);
    exec_out_done(&run.out);
    tc_input_free(run.input);
    tc_ctx_free(run.input_ctx);
    return status;
}
