/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a command to its end over EIP. Without a listener one shell.exec does it; with one the
 * command is started as a process and both its streams are followed. The caller's thread.
 * Invariant: the evidence left in the call is that of the start, and no command is left running or
 * unreleased. */
#include "env/methods_int.h"

#include "base/hash.h"
#include "plat/clock.h"

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

/* A name that cleanup can cancel it by. */
static int name_it(tc_call *call, tc_err *err)
{
    enum { BYTES = 12 };
    uint8_t random[BYTES];
    char hex[2 * BYTES];
    if (call->operation_id.len > 0)
        return 0;
    tci_random_bytes(random, sizeof random);
    tci_hex(random, sizeof random, hex);
    return tc_result_dup(call->result, tci_str_of(hex, sizeof hex), &call->operation_id, err);
}

static int run_at_once(tci_eip_env *e, const tc_call *call, const tc_command *command, collector *c,
                       tc_result *aux, tc_run_result *ret, tc_err *err)
{
    tc_exec_result res;
    tc_call named = *call;
    int rc = name_it(&named, err);
    if (rc < 0)
        return rc;
    tci_eip_run *run = tci_eip_track(e, named.operation_id, false);
    rc = tc_session_exec(e->session, &named, command, &res, err);
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

/* ---- live input ---- */

/* One write must be taken within seconds: small for slow readers, and never more than a pipe holds. */
enum { INPUT_MIN = 4 * 1024, INPUT_MAX = 32 * 1024, INPUT_QUICK_NS = 50 * 1000 * 1000 };

typedef struct feeding {
    tci_eip_env *e;
    tc_str handle;
    tc_input *in;
    tc_ctx *ctx; /* ended when the command has ended */
    tci_thread *thread;
    int rc; /* why the command did not get its input; it was killed then */
    tc_err err;
} feeding;

/* The command has had all it wants, or is gone. */
static bool is_input_over(int rc)
{
    return rc == TC_E_CONFLICT || rc == TC_E_NOT_FOUND || rc == TC_E_BAD_HANDLE;
}

/* Pieces of what is written, until it is closed or the command takes no more. */
static int feed_pieces(feeding *f, tc_result *r, char *buf)
{
    size_t size = INPUT_MIN, n = 1;
    while (n > 0) {
        uint64_t naccepted = 0;
        int rc = tci_input_take(f->in, buf, size, &n, &f->err);
        if (rc < 0)
            return 0; /* the command is over */
        tc_result_clear(r);
        tc_call call = TC_CALL(f->ctx, r);
        int64_t begin = tci_clock_mono_ns();
        rc = tc_session_process_write(f->e->session, &call, f->handle, tci_str_of(buf, n), n == 0,
                                      &naccepted, &f->err);
        if (is_input_over(rc) || (rc == 0 && naccepted < n))
            return 0;
        if (rc < 0)
            return rc;
        bool is_quick = tci_clock_mono_ns() - begin < INPUT_QUICK_NS;
        size = is_quick ? tci_min_size(2 * size, INPUT_MAX) : INPUT_MIN;
    }
    return 0;
}

static void feed(void *arg)
{
    feeding *f = arg;
    tc_result *r = NULL;
    char *buf = tci_mem_alloc(INPUT_MAX);
    f->rc = buf != NULL ? tc_result_new(&r, &f->err) : tci_err_no_memory(&f->err);
    if (f->rc == 0)
        f->rc = feed_pieces(f, r, buf);
    tci_input_over(f->in);
    if (f->rc < 0 && tc_ctx_is_cancelled(f->ctx))
        f->rc = 0; /* the command ended first */
    if (f->rc < 0 && r != NULL)
        kill_process(f->e, r, f->handle);
    tc_result_free(r);
    tci_free(buf);
}

static int feed_start(feeding *f, tci_eip_env *e, tc_str handle, tc_input *in, tc_err *err)
{
    *f = (feeding){.e = e, .handle = handle, .in = in};
    if (in == NULL)
        return 0;
    int rc = tc_ctx_new(-1, &f->ctx, err);
    return rc == 0 ? tci_thread_new(feed, f, 0, &f->thread, err) : rc;
}

static void feed_end(feeding *f)
{
    if (f->in == NULL)
        return;
    tci_input_over(f->in);
    if (f->ctx != NULL)
        tc_ctx_cancel(f->ctx);
    tci_thread_join(f->thread);
    tc_ctx_free(f->ctx);
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
                        tc_input *in, collector *c, tc_result *aux, tc_run_result *ret, tc_err *err)
{
    tc_process p;
    feeding f;
    unsigned started = atomic_load(&e->ncleanups);
    int rc = tc_session_process_start(e->session, call, command, &p, err);
    if (rc < 0)
        return rc;
    tci_eip_track_process(e, p.handle, started);
    rc = feed_start(&f, e, p.handle, in, err);
    if (rc == 0)
        rc = follow_process(e, call, &p, c, aux, ret, err);
    feed_end(&f);
    if (f.rc < 0) {
        *err = f.err;
        rc = tc_err_wrap(err, "the command did not get its input");
    }
    if (rc < 0)
        kill_process(e, aux, p.handle);
    release_process(e, aux, &p);
    tci_eip_untrack_handle(e, p.handle); /* cleanup may have done it */
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
    c.keep_stdin_open = options->input != NULL;
    if (options->on_output != NULL || options->input != NULL)
        rc = run_followed(e, call, &c, options->input, &kept, aux, ret_result, err);
    else
        rc = run_at_once(e, call, &c, &kept, aux, ret_result, err);
    collector_done(&kept);
    tc_result_free(aux);
    return rc;
}
