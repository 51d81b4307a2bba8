/* SPDX-License-Identifier: Apache-2.0
 *
 * What exec and sh print: output as it comes, and how it ended, as text or as JSON lines. Leaves
 * running the command to others. Any thread for output, one for each stream; the rest on the main
 * thread. Invariant: no byte is printed twice or left out; with --json a character is never cut. */
#include "exec.h"

#include "base/utf8.h"
#include "client/client.h"

void exec_out_init(exec_out *o, cli *c)
{
    *o = (exec_out){.c = c};
    tci_mutex_init(&o->lock);
}

void exec_out_done(exec_out *o)
{
    tci_mutex_done(&o->lock);
}

/* ---- output ---- */

static int put_event(exec_out *o, tc_stream_kind stream, tc_str data, tc_err *err)
{
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "event", TC_STR("output"));
    cli_json_str(&b, &first, "stream", stream == TC_STDERR ? TC_STR("stderr") : TC_STR("stdout"));
    cli_json_bytes(&b, &first, "data", data);
    tci_buf_append_str(&b, TC_STR("}\n"));
    int rc = tci_buf_error(&b, err);
    tci_mutex_lock(&o->lock);
    if (rc == 0)
        rc = cli_write_stdout(tci_buf_str(&b), err);
    tci_mutex_unlock(&o->lock);
    tci_buf_done(&b);
    return rc;
}

/* Text is passed on in whole characters, so that a character in two pieces stays text. */
static int put_json(exec_out *o, tc_stream_kind stream, tc_str data, tc_err *err)
{
    exec_stream *st = &o->streams[stream];
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
            rc = put_event(o, stream, tci_str_sub(whole, 0, whole.len - cut), err);
    }
    tci_buf_done(&b);
    return rc;
}

int exec_put(exec_out *o, tc_stream_kind stream, tc_str data, tc_err *err)
{
    o->streams[stream].nbytes += data.len;
    if (data.len == 0)
        return 0;
    if (o->c->is_json)
        return put_json(o, stream, data, err);
    if (stream == TC_STDOUT)
        return cli_write_stdout(data, err);
    return cli_write_stderr(data, err);
}

int exec_put_rest(exec_out *o, tc_stream_kind stream, tc_err *err)
{
    exec_stream *st = &o->streams[stream];
    tc_str rest = tci_str_of(st->carry, st->ncarry);
    st->ncarry = 0;
    return rest.len > 0 ? put_event(o, stream, rest, err) : 0;
}

int exec_put_started(exec_out *o, const tc_env *env, tc_err *err)
{
    tci_buf b;
    bool first = true;
    bool was_said = o->is_started;
    o->is_started = true;
    if (!o->c->is_json || was_said)
        return 0;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "event", TC_STR("started"));
    cli_json_str(&b, &first, "provider", tc_env_provider(env));
    if (tc_env_session_id(env).len > 0) {
        cli_json_str(&b, &first, "device_id", tc_env_device_id(env));
        cli_json_u64(&b, &first, "generation", tc_env_generation(env));
        cli_json_str(&b, &first, "session_id", tc_env_session_id(env));
    }
    tc_str operation = tc_result_evidence(o->c->result)->operation_id;
    if (operation.len > 0)
        cli_json_str(&b, &first, "operation_id", operation);
    tci_buf_append_str(&b, TC_STR("}\n"));
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = cli_write_stdout(tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}

void exec_put_started_late(exec_out *o, const tc_env *env, const exec_ending *e)
{
    tc_err ignored; /* the last line comes to the same end, and says so */
    if (strcmp(e->outcome, "not_started") == 0)
        return;
    int rc = exec_put_started(o, env, &ignored);
    TCI_UNUSED(rc);
}

/* ---- the end ---- */

static const char *signal_name(tc_signal s)
{
    static const char *const names[] = {"unknown", "interrupt", "terminate", "kill"};
    return names[s];
}

static int finish_json(exec_out *o, const exec_ending *e)
{
    cli *c = o->c;
    tci_buf b;
    bool first = true;
    const tc_process_status *p = &e->process;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "event", TC_STR("end"));
    cli_json_str(&b, &first, "outcome", tci_str(e->outcome));
    cli_json_u64(&b, &first, "status", (uint64_t)e->status);
    if (e->has_status && p->phase == TC_PROCESS_EXITED && p->has_exit_code)
        cli_json_i64(&b, &first, "exit_code", p->exit_code);
    if (e->has_status && p->phase == TC_PROCESS_SIGNALED) {
        cli_json_str(&b, &first, "signal", tci_str(signal_name(p->signal)));
        if (e->signum > 0)
            cli_json_u64(&b, &first, "signal_number", (uint64_t)e->signum);
    }
    cli_json_bool(&b, &first, "timed_out", e->has_status && p->phase == TC_PROCESS_TIMED_OUT);
    cli_json_bool(&b, &first, "interrupted", cli_caught() != 0);
    if (e->has_status)
        cli_json_bool(&b, &first, "cleaned_up", p->cleanup == TC_CLEANUP_COMPLETE);
    cli_json_u64(&b, &first, "stdout_bytes", o->streams[0].nbytes);
    cli_json_u64(&b, &first, "stderr_bytes", o->streams[1].nbytes);
    if (e->err != NULL)
        cli_json_error(&b, &first, c, e->err);
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    if (is_fine)
        return e->status;
    cli_warn(c, "%s", c->err.msg);
    return cli_caught() != 0 ? e->status : CLI_OURS;
}

int exec_finish(exec_out *o, const exec_ending *e)
{
    if (e->err != NULL) {
        /* What kind of failure it is would be in the status of other commands. */
        cli_warn(o->c, "%s (%s)", e->err->msg, tc_code_name(e->err->code));
        if (e->err->hint[0] != '\0')
            cli_warn(o->c, "%s", e->err->hint);
    }
    return o->c->is_json ? finish_json(o, e) : e->status;
}

static void ended_badly(const tc_process_status *p, exec_ending *e, tc_err *err)
{
    e->err = err;
    if (p->termination == TC_TERMINATION_OUTPUT_LIMIT) {
        e->outcome = "killed";
        (void)tc_err_set(err, TC_E_OUTPUT_LIMIT,
                         "the command was killed: it wrote more than the target keeps");
        (void)tc_err_hint(err, "send its output to a file there, then copy that");
    } else {
        e->outcome = "unknown";
        (void)tc_err_set(err, TC_E_UNKNOWN_OUTCOME,
                         "the target lost sight of the command: it may still run");
    }
}

exec_ending exec_ending_of(cli *c, const tc_process_status *p, tc_err *err)
{
    exec_ending e = {.has_status = true, .process = *p, .outcome = "done", .status = CLI_OURS};
    switch (p->phase) {
    case TC_PROCESS_EXITED:
        e.status = p->exit_code;
        break;
    case TC_PROCESS_SIGNALED:
        e.signum = tci_signal_number(p->signal);
        if (e.signum == 0 && p->exit_code > CLI_SIGNAL_BASE)
            e.signum = p->exit_code - CLI_SIGNAL_BASE; /* one that has no name of its own */
        e.status = CLI_SIGNAL_BASE + e.signum;
        cli_detail(c, "the command ended by signal %d", e.signum);
        break;
    case TC_PROCESS_TIMED_OUT:
        e.outcome = "killed";
        e.status = CLI_TIMED_OUT;
        cli_say(c, "the command was killed: its time ran out");
        break;
    case TC_PROCESS_CANCELLED:
        e.outcome = "killed";
        e.err = err;
        (void)tc_err_set(err, TC_E_CANCELLED, "the command was cancelled at the target");
        break;
    case TC_PROCESS_FAILED:
    case TC_PROCESS_STARTING:
    case TC_PROCESS_RUNNING:
        ended_badly(p, &e, err);
        break;
    }
    if (p->cleanup == TC_CLEANUP_FAILED)
        cli_warn(c, "some of what the command started may still run");
    return e;
}

int exec_no_target(cli *c)
{
    bool is_usage = tc_code_exit_status(c->err.code) == CLI_USAGE;
    if (!c->is_json || (is_usage && cli_caught() == 0))
        return cli_fail(c);
    exec_out o;
    exec_out_init(&o, c);
    exec_ending e = {.outcome = "not_started", .err = &c->err, .status = CLI_OURS};
    if (cli_caught() != 0)
        e.status = CLI_SIGNAL_BASE + cli_caught();
    int status = exec_finish(&o, &e);
    exec_out_done(&o);
    return status;
}
