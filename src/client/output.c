/* SPDX-License-Identifier: Apache-2.0
 *
 * Output of commands: pages, and following a stream to its end. The caller's thread. Invariant: no
 * byte is delivered twice or left out, and what a stream said of itself before is never taken back.
 */
#include "client/session_int.h"

enum { FOLLOW_WAIT_MS = 20000, FOLLOW_DEADLINE_MS = 30000 };

/* ---- one page ---- */

static const char *page_fault(const tci_eip_output_read_params *asked,
                              const tci_eip_output_read_result *got)
{
    const tci_eip_output_info *o = &got->output;
    if (got->start_offset != asked->start_offset || !tci_str_eq(o->reference, asked->reference))
        return "another piece of output than asked for";
    if (got->next_offset != got->start_offset + got->data.data.len)
        return "a gap in output";
    if (got->next_offset > o->retained_bytes || o->retained_bytes > o->produced_bytes)
        return "output beyond what it retains";
    if (o->content_complete && (!o->producer_complete || o->retained_bytes != o->produced_bytes))
        return "output called complete that is not";
    /* An empty page before the end of what is there would never end. */
    if (got->data.data.len == 0 && got->start_offset < o->retained_bytes)
        return "an empty page before the end of output";
    return NULL;
}

int tc_session_output_read(tc_session *s, const tc_call *call, tc_str reference,
                           uint64_t start_offset, uint64_t wait_ms, tc_output_page *ret_page,
                           tc_err *err)
{
    tci_eip_output_read_params params = {
        .reference = reference,
        .start_offset = start_offset,
        .wait_ms = wait_ms,
    };
    tci_eip_output_read_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_OUTPUT_READ, &params, &res, err);
    if (rc < 0)
        return rc;
    const char *fault = page_fault(&params, &res);
    if (fault != NULL)
        return tci_session_violation(s, NULL, err, fault);
    *ret_page = (tc_output_page){
        .start_offset = res.start_offset,
        .next_offset = res.next_offset,
        .data = res.data.data,
        .is_end = res.output.producer_complete && res.next_offset == res.output.retained_bytes,
    };
    tci_to_output(&res.output, &ret_page->output);
    return 0;
}

/* ---- a whole stream ---- */

/* What the stream said before; the preview is copied since pages come and go. */
typedef struct memory {
    bool is_set;
    tc_output output;
    tci_buf preview;
} memory;

static const char *growth_fault(const memory *m, const tc_output *now)
{
    if (!m->is_set)
        return NULL;
    const tc_output *was = &m->output;
    if (now->produced_bytes < was->produced_bytes || now->retained_bytes < was->retained_bytes ||
        (was->is_producer_complete && !now->is_producer_complete) ||
        (was->is_content_complete && !now->is_content_complete))
        return "output that shrank";
    if (was->is_producer_complete && now->produced_bytes != was->produced_bytes)
        return "output that grew after its end";
    if (!tci_str_starts(now->preview, tci_buf_str(&m->preview)))
        return "a preview that changed";
    return NULL;
}

static int remember(memory *m, const tc_output *now, tc_err *err)
{
    m->is_set = true;
    m->output = *now;
    if (now->preview.len > m->preview.len)
        tci_buf_append(&m->preview, now->preview.ptr + m->preview.len,
                       now->preview.len - m->preview.len);
    return tci_buf_error(&m->preview, err);
}

/* One stream being followed: the call that is out for it, and what came so far. */
typedef struct stream {
    tc_session *session;
    tc_str reference;
    uint64_t offset;
    memory seen;
    tc_result *result; /* of the current page */
    tc_call opts;
    tci_ask ask;
    tci_call *call;
    tci_eip_output_read_params params;
    tci_eip_output_read_result res;
    int64_t late_ns; /* when an answer is overdue */
    bool is_end;
} stream;

static int stream_init(stream *st, tc_session *s, tc_ctx *ctx, tc_str reference, uint64_t offset,
                       tc_err *err)
{
    *st = (stream){.session = s, .reference = reference, .offset = offset};
    tci_buf_init(&st->seen.preview, TCI_BUF_MAX);
    int rc = tc_result_new(&st->result, err);
    if (rc < 0)
        return rc;
    st->opts = TC_CALL(ctx, st->result);
    st->opts.timeout_ms = FOLLOW_DEADLINE_MS;
    return 0;
}

static void stream_done(stream *st)
{
    tci_buf_done(&st->seen.preview);
    tc_result_free(st->result);
}

static int stream_ask(stream *st, tci_wake *wake, tc_err *err)
{
    tc_result_clear(st->result);
    st->params = (tci_eip_output_read_params){
        .reference = st->reference,
        .start_offset = st->offset,
        .wait_ms = FOLLOW_WAIT_MS,
    };
    st->res = (tci_eip_output_read_result){0};
    st->ask = (tci_ask){.device = st->session->device,
                        .session = st->session,
                        .opts = &st->opts,
                        .method = TCI_EIP_OUTPUT_READ,
                        .params = &st->params,
                        .result = &st->res};
    st->late_ns = tci_clock_mono_ns() +
                  (FOLLOW_DEADLINE_MS + st->session->device->response_grace_ms) * 1000000;
    return tci_ask_begin(&st->ask, wake, &st->call, err);
}

/* The answer is there: check it against what was said before. */
static int stream_take(stream *st, tc_str *ret_data, tc_err *err)
{
    tci_call *call = st->call;
    st->call = NULL;
    int rc = tci_ask_end(&st->ask, call, err);
    if (rc < 0)
        return rc;
    tc_output now;
    tci_to_output(&st->res.output, &now);
    const char *fault = page_fault(&st->params, &st->res);
    if (fault == NULL)
        fault = growth_fault(&st->seen, &now);
    if (fault != NULL)
        return tci_session_violation(st->session, NULL, err, fault);
    st->offset = st->res.next_offset;
    st->is_end = now.is_producer_complete && st->offset == now.retained_bytes;
    *ret_data = st->res.data.data;
    return remember(&st->seen, &now, err);
}

typedef int (*both_sink)(void *user, bool is_err, const void *bytes, size_t len, tc_err *err);

/* Nobody may be left waiting for an answer when this returns. */
static void drain(stream *streams, size_t n, tci_wake *wake, const tc_err *why)
{
    for (size_t i = 0; i < n; i++) {
        if (streams[i].call == NULL)
            continue;
        tci_ask_stop(streams[i].call, why);
        for (;;) {
            unsigned seen = tci_wake_count(wake);
            if (tci_ask_is_done(streams[i].call))
                break;
            tci_wake_wait(wake, seen, 0);
        }
        tc_err ignored;
        int rc = tci_ask_end(&streams[i].ask, streams[i].call, &ignored);
        TCI_UNUSED(rc); /* the reason for draining is told */
        streams[i].call = NULL;
    }
}

/* One round: start what is idle, wait, and deliver what came. 0: go on; 1: all streams ended. */
static int follow_round(stream *streams, size_t n, tc_ctx *ctx, tci_wake *wake, both_sink sink,
                        void *user, tc_err *err)
{
    unsigned seen = tci_wake_count(wake);
    bool is_busy = false, has_news = false;
    int64_t until = tci_ctx_deadline_ns(ctx);
    for (size_t i = 0; i < n; i++) {
        stream *st = &streams[i];
        if (st->call == NULL && !st->is_end && stream_ask(st, wake, err) < 0)
            return err->code;
        if (st->call == NULL)
            continue;
        is_busy = true;
        if (until == 0 || st->late_ns < until)
            until = st->late_ns;
        if (!tci_ask_is_done(st->call))
            continue;
        has_news = true;
        tc_str data = {0};
        int rc = stream_take(st, &data, err);
        if (rc == 0 && data.len > 0)
            rc = sink(user, i == 1, data.ptr, data.len, err);
        if (rc < 0)
            return rc;
    }
    if (!is_busy)
        return 1;
    int rc = tci_ctx_check(ctx, err);
    if (rc < 0 || has_news)
        return rc;
    if (tci_clock_mono_ns() >= until)
        return tc_err_set(err, TC_E_TIMEOUT, "no answer in time");
    tci_wake_wait(wake, seen, until);
    return 0;
}

static int follow(stream *streams, size_t n, tc_ctx *ctx, both_sink sink, void *user, tc_err *err)
{
    tci_wake own = {0};
    tci_wake *wake = ctx != NULL ? &ctx->wake : &own;
    int rc = 0;
    while (rc == 0)
        rc = follow_round(streams, n, ctx, wake, sink, user, err);
    if (rc < 0)
        drain(streams, n, wake, err);
    return rc < 0 ? rc : 0;
}

static int give_output(const stream *st, tc_result *r, tc_output *ret, tc_err *err)
{
    *ret = st->seen.output;
    int rc = tc_result_dup(r, st->reference, &ret->reference, err);
    if (rc == 0)
        rc = tc_result_dup(r, tci_buf_str(&st->seen.preview), &ret->preview, err);
    return rc;
}

typedef struct one_sink {
    tc_sink sink;
    void *user;
} one_sink;

static int to_one(void *user, bool is_err, const void *bytes, size_t len, tc_err *err)
{
    TCI_UNUSED(is_err);
    const one_sink *o = user;
    return o->sink(o->user, bytes, len, err);
}

int tc_session_output_follow(tc_session *s, const tc_call *call, tc_str reference,
                             uint64_t start_offset, tc_sink sink, void *user, tc_output *ret_output,
                             tc_err *err)
{
    stream st;
    one_sink one = {sink, user};
    int rc = tci_call_check(call, err);
    if (rc < 0)
        return rc;
    rc = stream_init(&st, s, call->ctx, reference, start_offset, err);
    if (rc == 0)
        rc = follow(&st, 1, call->ctx, to_one, &one, err);
    if (rc == 0 && ret_output != NULL)
        rc = give_output(&st, call->result, ret_output, err);
    stream_done(&st);
    return rc;
}

int tci_session_follow_both(tc_session *s, tc_ctx *ctx, tc_result *r, tc_str out_reference,
                            tc_str err_reference, both_sink sink, void *user, tc_output *ret_out,
                            tc_output *ret_err, tc_err *err)
{
    stream st[2] = {{.offset = 0}, {.offset = 0}};
    int rc = stream_init(&st[0], s, ctx, out_reference, 0, err);
    if (rc == 0)
        rc = stream_init(&st[1], s, ctx, err_reference, 0, err);
    if (rc == 0)
        rc = follow(st, 2, ctx, sink, user, err);
    if (rc == 0)
        rc = give_output(&st[0], r, ret_out, err);
    if (rc == 0)
        rc = give_output(&st[1], r, ret_err, err);
    stream_done(&st[0]);
    stream_done(&st[1]);
    return rc;
}

int tc_session_output_release(tc_session *s, const tc_call *call, tc_str reference, tc_err *err)
{
    tci_eip_output_release_params params = {.reference = reference};
    tci_eip_output_release_result res = {0};
    return tci_session_ask(s, call, TCI_EIP_OUTPUT_RELEASE, &params, &res, err);
}
