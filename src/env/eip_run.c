/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a command to its end over EIP. Without a listener one shell.exec does it; with one the
 * command is started as a process and both its streams are followed. The caller's thread.
 * Invariant: the evidence left in the call is that of the start, and no command is left running or
 * unreleased. */
#include "env/env_int.h"

enum { COLLECT_DEFAULT = 1024 * 1024, TIDY_MS = 10000 };

/* What is kept of both streams. */
typedef struct collector {
    tci_buf bufs[2];
    uint64_t max;
    tc_output_sink sink;
    void *user;
} collector;

static void collector_init(collector *c, const tc_run_options *o)
{
    c->sink = o->on_output;
    c->user = o->user;
    c->max = o->max_collect;
    if (c->max == 0 && o->on_output == NULL)
        c->max = COLLECT_DEFAULT;
    for (int i = 0; i < 2; i++)
        tci_buf_init(&c->bufs[i], TCI_BUF_MAX);
}

static void collector_done(collector *c)
{
    tci_buf_done(&c->bufs[0]);
    tci_buf_done(&c->bufs[1]);
}

static int keep(collector *c, bool is_err, const void *bytes, size_t len, tc_err *err)
{
    tci_buf *b = &c->bufs[is_err];
    size_t room = (size_t)tci_min_u64(c->max - b->len, SIZE_MAX);
    tci_buf_append(b, bytes, tci_min_size(len, room));
    return tci_buf_error(b, err);
}

static int on_piece(void *user, bool is_err, const void *bytes, size_t len, tc_err *err)
{
    collector *c = user;
    int rc = keep(c, is_err, bytes, len, err);
    if (rc == 0 && c->sink != NULL)
        rc = c->sink(c->user, is_err ? TC_STDERR : TC_STDOUT, bytes, len, err);
    return rc;
}

static int give(const collector *c, const tc_process_status *status, const tc_output *out,
                const tc_output *err_out, tc_result *r, tc_run_result *ret, tc_err *err)
{
    tc_run_result res = {
        .status = *status,
        .is_timed_out = status->phase == TC_PROCESS_TIMED_OUT,
        .out_nbytes = out->produced_bytes,
        .err_nbytes = err_out->produced_bytes,
        .is_out_cut = out->produced_bytes > c->bufs[0].len,
        .is_err_cut = err_out->produced_bytes > c->bufs[1].len,
    };
    int rc = tc_result_dup(r, tci_buf_str(&c->bufs[0]), &res.out, err);
    if (rc == 0)
        rc = tc_result_dup(r, tci_buf_str(&c->bufs[1]), &res.err, err);
    if (rc == 0)
        *ret = res;
    return rc;
}

/* Calls after the fact: their failures do not matter, the end of the session does the same later.
 */
static void release_output(tci_eip_env *e, tc_result *aux, tc_str reference)
{
    tc_err ignored;
    tc_call call = TC_CALL(NULL, aux);
    call.timeout_ms = TIDY_MS;
    int rc = tc_session_output_release(e->session, &call, reference, &ignored);
    TCI_UNUSED(rc);
}

/* ---- one call ---- */

/* The preview is the start of the stream; when more is wanted and there, read on. */
static int collect_output(tci_eip_env *e, tc_ctx *ctx, collector *c, bool is_err,
                          const tc_output *output, tc_result *aux, tc_err *err)
{
    int rc = keep(c, is_err, output->preview.ptr, output->preview.len, err);
    uint64_t offset = output->preview.len;
    while (rc == 0 && offset < output->retained_bytes && c->bufs[is_err].len < c->max) {
        tc_output_page page;
        tc_call call = TC_CALL(ctx, aux);
        tc_result_clear(aux);
        rc = tc_session_output_read(e->session, &call, output->reference, offset, 0, &page, err);
        if (rc == 0)
            rc = keep(c, is_err, page.data.ptr, page.data.len, err);
        if (rc == 0)
            offset = page.next_offset;
    }
    return rc;
}

static int run_at_once(tci_eip_env *e, const tc_call *call, const tc_command *command, collector *c,
                       tc_result *aux, tc_run_result *ret, tc_err *err)
{
    tc_exec_result res;
    tci_eip_run *run = NULL;
    if (call->operation_id.len > 0)
        run = tci_eip_track(e, call->operation_id, false);
    int rc = tc_session_exec(e->session, call, command, &res, err);
    tci_eip_untrack(e, run);
    if (rc < 0)
        return rc;
    rc = collect_output(e, call->ctx, c, false, &res.out, aux, err);
    if (rc == 0)
        rc = collect_output(e, call->ctx, c, true, &res.err, aux, err);
    if (rc == 0)
        rc = give(c, &res.status, &res.out, &res.err, call->result, ret, err);
    release_output(e, aux, res.out.reference);
    release_output(e, aux, res.err.reference);
    return rc;
}

/* ---- with a listener ---- */

static void kill_process(tci_eip_env *e, tc_result *aux, tc_str handle)
{
    tc_err ignored; /* the failure that led here is told */
    tc_call call = TC_CALL(NULL, aux);
    call.timeout_ms = TIDY_MS;
    int rc = tc_session_process_kill(e->session, &call, handle, NULL, &ignored);
    TCI_UNUSED(rc);
}

static void release_process(tci_eip_env *e, tc_result *aux, const tc_process *p)
{
    tc_err ignored;
    tc_call call = TC_CALL(NULL, aux);
    call.timeout_ms = TIDY_MS;
    int rc = tc_session_process_release(e->session, &call, p->handle, &ignored);
    if (rc != 0)
        return;
    release_output(e, aux, p->out.reference);
    release_output(e, aux, p->err.reference);
}

static int follow_process(tci_eip_env *e, const tc_call *call, const tc_process *p, collector *c,
                          tc_result *aux, tc_run_result *ret, tc_err *err)
{
    tc_output out, err_out;
    tc_process ended;
    tc_call wait = TC_CALL(call->ctx, aux);
    int rc = tci_session_follow_both(e->session, call->ctx, aux, p->out.reference, p->err.reference,
                                     on_piece, c, &out, &err_out, err);
    if (rc == 0)
        rc = tc_session_process_wait(e->session, &wait, p->handle, true, &ended, err);
    if (rc == 0)
        rc = give(c, &ended.status, &out, &err_out, call->result, ret, err);
    return rc;
}

static int run_followed(tci_eip_env *e, const tc_call *call, const tc_command *command,
                        collector *c, tc_result *aux, tc_run_result *ret, tc_err *err)
{
    tc_process p;
    int rc = tc_session_process_start(e->session, call, command, &p, err);
    if (rc < 0)
        return rc;
    tci_eip_run *run = tci_eip_track(e, p.handle, true);
    rc = follow_process(e, call, &p, c, aux, ret, err);
    if (rc < 0)
        kill_process(e, aux, p.handle);
    release_process(e, aux, &p);
    tci_eip_untrack(e, run);
    return rc;
}

int tci_eip_run_command(tc_env *env, const tc_call *call, const tc_command *command,
                        const tc_run_options *options, tc_run_result *ret_result, tc_err *err)
{
    tci_eip_env *e = TCI_CONTAINER(env, tci_eip_env, base);
    if (command->keep_stdin_open)
        return tc_err_set(err, TC_E_INVALID, "a command that runs to its end gets all its input");
    tc_command c = *command;
    if (options->timeout_ms > 0)
        c.wall_time_ms = options->timeout_ms;
    tc_result *aux = NULL;
    int rc = tc_result_new(&aux, err);
    if (rc < 0)
        return rc;
    collector kept;
    collector_init(&kept, options);
    if (options->on_output != NULL)
        rc = run_followed(e, call, &c, &kept, aux, ret_result, err);
    else
        rc = run_at_once(e, call, &c, &kept, aux, ret_result, err);
    collector_done(&kept);
    tc_result_free(aux);
    return rc;
}
