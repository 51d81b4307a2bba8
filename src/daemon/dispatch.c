/* SPDX-License-Identifier: Apache-2.0
 *
 * From one control body to one answer: decode, check in the documented order, admit, run, reply.
 * Leaves to others: what a method does (on_*.c), what is kept of it (ledger.c), how bytes travel
 * (carriers). Loop thread; only the work of WORKER handlers runs elsewhere.
 *
 * Invariant: every tci_req is answered exactly once, by finish(), and its lanes, record and references
 * are given back there and nowhere else, before the answer leaves. */
#include "daemon/device.h"
#include "daemon/gen/handlers.h"
#include "daemon/req.h"

#include "base/log.h"

enum { REQ_POOL_MAX = 64, SMALL_TEXT_MAX = 64 * 1024 };

/* ---- life of a request ---- */

static tci_req *req_new(tci_carrier *c, void *reply_to)
{
    tci_device *d = c->device;
    tci_link *free_link = tci_list_pop_front(&d->free_reqs);
    tci_req *r;
    if (free_link != NULL) {
        r = TCI_CONTAINER(free_link, tci_req, link);
        d->nfree_reqs--;
    } else {
        r = tci_new(tci_req);
        if (r == NULL)
            return NULL;
        tci_arena_init(&r->arena, 0);
    }
    r->device = d;
    r->carrier = tci_carrier_ref(c);
    r->reply_to = reply_to;
    d->ninflight++;
    return r;
}

static void req_free(tci_req *r)
{
    tci_device *d = r->device;
    tci_arena arena = r->arena;
    tci_carrier_unref(r->carrier);
    tci_free(r->text);
    tci_buf_done(&r->body);
    d->ninflight--;
    if (d->nfree_reqs >= REQ_POOL_MAX) {
        tci_arena_done(&arena);
        tci_free(r);
        return;
    }
    tci_arena_clear(&arena);
    memset(r, 0, sizeof *r);
    r->arena = arena;
    tci_list_push_front(&d->free_reqs, &r->link);
    d->nfree_reqs++;
}

const tci_eip_context *tci_req_context(const tci_req *r)
{
    TC_ASSERT(r->method->replay != TCI_REPLAY_EXTERNAL);
    return r->params; /* the generator puts context first */
}

int tci_req_fail(tci_req *r, tc_err *err, tc_code code, tci_eip_cause cause)
{
    r->cause = &tci_eip_error_causes[cause];
    return tc_err_set(err, code, "%.*s", TC_STR_ARG(r->cause->message));
}

void tci_req_receipt(const tci_req *r, tci_eip_receipt_stage stage, tci_eip_receipt_outcome outcome,
                     tci_eip_operation_receipt *ret)
{
    ret->operation_id = r->operation_id;
    ret->method = r->method->name;
    ret->device_id = r->device->id;
    ret->session_id = r->session->id;
    ret->generation = r->device->generation;
    ret->stage = stage;
    ret->has_outcome = true;
    ret->outcome = outcome;
    ret->observed_at = tci_clock_now();
    char *hex = tci_arena_bytes((tci_arena *)&r->arena, TCI_SHA256_HEX);
    if (hex != NULL) {
        tci_hex(r->record->digest, TCI_SHA256_BYTES, hex);
        ret->request_digest = tci_str_of(hex, TCI_SHA256_HEX);
    }
}

/* ---- answers ---- */

static void failure_stage(const tci_req *r, tci_eip_receipt_stage *stage,
                          tci_eip_receipt_outcome *outcome)
{
    *stage = r->is_undispatched ? TCI_EIP_RECEIPT_STAGE_ACCEPTED : TCI_EIP_RECEIPT_STAGE_COMPLETED;
    *outcome = TCI_EIP_RECEIPT_OUTCOME_FAILED;
    if (r->rc == TC_E_TIMEOUT)
        *outcome = TCI_EIP_RECEIPT_OUTCOME_TIMED_OUT;
    else if (r->rc == TC_E_CANCELLED)
        *outcome = TCI_EIP_RECEIPT_OUTCOME_CANCELLED;
    else if (r->rc == TC_E_UNKNOWN_OUTCOME) {
        *stage = TCI_EIP_RECEIPT_STAGE_UNKNOWN;
        *outcome = TCI_EIP_RECEIPT_OUTCOME_UNKNOWN;
    }
}

/* The error object's text into out, and for a mutation in the ledger its receipt. */
static void put_error_text(tci_req *r, tci_buf *out, tci_eip_receipt_stage *ret_stage,
                           tci_eip_receipt_outcome *ret_outcome, tci_instant *ret_at)
{
    tci_family family = r->method != NULL ? r->method->family : TCI_FAMILY_DEVICE;
    const tci_eip_error_row *row =
        r->cause != NULL ? r->cause : tci_eip_error_row_for(family, (tc_code)r->rc);
    tci_eip_error_data *e = &r->error;
    e->error_type = row->type;
    e->retry_hint = r->has_error_hint ? r->error_hint : row->hint;
    e->dispatch_stage = TCI_EIP_DISPATCH_STAGE_PRE_DISPATCH;
    if (r->record != NULL && r->method->replay == TCI_REPLAY_TERMINAL) {
        failure_stage(r, ret_stage, ret_outcome);
        e->has_operation_id = e->has_device_id = e->has_session_id = e->has_generation = true;
        e->operation_id = r->operation_id;
        e->device_id = r->device->id;
        e->session_id = r->session->id;
        e->generation = r->device->generation;
        tci_req_receipt(r, *ret_stage, *ret_outcome, &e->receipt);
        e->has_receipt = e->receipt.request_digest.len > 0; /* without memory there is none */
        *ret_at = e->receipt.observed_at;
        if (r->rc == TC_E_UNKNOWN_OUTCOME)
            e->dispatch_stage = TCI_EIP_DISPATCH_STAGE_UNKNOWN;
        else if (!r->is_undispatched)
            e->dispatch_stage = TCI_EIP_DISPATCH_STAGE_COMPLETED;
    }
    tci_eip_put_error_object(out, row->code, row->message, e);
    if (tci_log_enabled(TCI_LOG_DEBUG))
        tci_log(TCI_LOG_DEBUG, "%.*s: %s (%s)",
                TC_STR_ARG(r->method != NULL ? r->method->name : TC_STR("request")), r->err.msg,
                tc_code_name(r->rc));
}

/* An error, or stored evidence of either kind: small, so it is copied into its envelope. text.ptr NULL: it
 * could not be made, which only the carrier can answer. */
static void send_text(tci_req *r, bool is_error, tc_str text)
{
    if (text.ptr == NULL) {
        r->carrier->v->reply(r->carrier, r->reply_to, r->is_lane_full, NULL);
        return;
    }
    tci_buf body;
    tci_buf_init(&body, TCI_BUF_MAX);
    const tc_str *session = r->env.has_session ? &r->env.session : NULL;
    if (is_error)
        tci_eip_put_error_text(&body, &r->env.id, session, text);
    else {
        tci_eip_begin_result(&body, &r->env.id, session);
        tci_buf_append_str(&body, text);
        tci_eip_end_result(&body);
    }
    r->carrier->v->reply(r->carrier, r->reply_to, r->is_lane_full, &body);
    tci_buf_done(&body);
}

/* A receipt without its digest is none. */
static bool has_whole_receipt(const tci_req *r)
{
    if (r->method->replay != TCI_REPLAY_TERMINAL)
        return true;
    const tci_eip_operation_receipt *receipt =
        tci_type_member(r->method->result, r->result, TC_STR("receipt"));
    return receipt == NULL || receipt->request_digest.len > 0;
}

/* The whole answer into r->body, once, on whichever thread has the result in hand. Only the range
 * of the result's own text is remembered, for the ledger. */
int tci_req_encode(tci_req *r, tc_err *err)
{
    tci_buf *b = &r->body;
    tci_buf_init(b, TCI_BUF_MAX);
    tci_eip_begin_result(b, &r->env.id, r->env.has_session ? &r->env.session : NULL);
    r->result_at = b->len;
    tci_proto_encode(r->method->result, r->result, b, 0);
    r->result_len = b->len - r->result_at;
    tci_eip_end_result(b);
    if (!tci_buf_ok(b) || !has_whole_receipt(r) ||
        b->len > r->device->config->limits.max_response_bytes) {
        tci_buf_done(b);
        return tci_req_fail(r, err, TC_E_INTERNAL, TCI_EIP_CAUSE_RESPONSE_TOO_BIG);
    }
    r->is_encoded = true;
    return 0;
}

static void release(tci_req *r)
{
    tci_timer_stop(&r->deadline);
    if (r->in_device_lane)
        r->device->nrequests--;
    if (r->in_lane)
        r->session->nlane[r->method->lane]--;
    r->in_lane = r->in_device_lane = false;
    tci_link_remove(&r->link);
    if (r->record != NULL && r->record->req == r)
        tci_ledger_drop(&r->session->ledger, r->record);
    r->record = NULL;
}

static void settle(tci_req *r, bool is_error, tc_str text, tci_eip_receipt_stage stage,
                   tci_eip_receipt_outcome outcome, tci_instant at)
{
    const tci_eip_operation_receipt *receipt = NULL;
    if (r->record == NULL || r->method->replay != TCI_REPLAY_TERMINAL)
        return;
    if (!is_error)
        receipt = tci_type_member(r->method->result, r->result, TC_STR("receipt"));
    if (receipt != NULL) {
        stage = receipt->stage;
        outcome = receipt->outcome;
        at = receipt->observed_at;
    }
    tci_ledger_settle(&r->session->ledger, r->record, is_error, text, stage, outcome, at);
}

static void finish_failure(tci_req *r)
{
    tci_buf *text = &r->device->scratch;
    tci_eip_receipt_stage stage = TCI_EIP_RECEIPT_STAGE_COMPLETED;
    tci_eip_receipt_outcome outcome = TCI_EIP_RECEIPT_OUTCOME_FAILED;
    tci_instant at = {0};
    tci_buf_clear(text);
    put_error_text(r, text, &stage, &outcome, &at);
    tc_str made = tci_buf_ok(text) ? tci_buf_str(text) : tci_str_of(NULL, 0);
    settle(r, true, made, stage, outcome, at);
    release(r);
    send_text(r, true, made);
    tci_buf_clear(text);
    tci_buf_trim(text, SMALL_TEXT_MAX);
}

static void finish_success(tci_req *r)
{
    tc_str text = tci_str_of(r->body.ptr + r->result_at, r->result_len);
    settle(r, false, text, TCI_EIP_RECEIPT_STAGE_COMPLETED, TCI_EIP_RECEIPT_OUTCOME_SUCCEEDED,
           (tci_instant){0});
    release(r);
    r->carrier->v->reply(r->carrier, r->reply_to, false, &r->body);
    tci_buf_done(&r->body);
}

/* The one way out. The result has been filled (rc 0), or rc and err say why not. */
static void finish(tci_req *r)
{
    tci_session *s = r->session;
    TC_ASSERT(!r->is_done);
    r->is_done = true;
    if (r->rc == 0 && !r->is_encoded)
        r->rc = tci_req_encode(r, &r->err);
    if (r->rc == 0)
        finish_success(r);
    else
        finish_failure(r);
    req_free(r);
    if (s != NULL) {
        tci_session_check_closed(s);
        tci_session_unref(s);
    }
}

void tci_req_finish(tci_req *r, int rc, const tc_err *err)
{
    r->rc = rc;
    if (rc != 0 && err != &r->err)
        r->err = *err;
    finish(r);
}

/* ---- stopping ---- */

static void stop_async(tci_req *r)
{
    void (*on_stop)(tci_req *) = r->on_stop;
    r->on_stop = NULL;
    tci_timer_stop(&r->deadline);
    if (on_stop != NULL)
        on_stop(r);
}

void tci_req_cancel(tci_req *r)
{
    atomic_store(&r->cancel.is_cancelled, true);
    if (r->where == TCI_WHERE_ASYNC)
        stop_async(r);
}

static void on_deadline(tci_timer *t)
{
    stop_async(TCI_CONTAINER(t, tci_req, deadline));
}

/* ---- running ---- */

static void work(tci_job *job)
{
    tci_req *r = TCI_CONTAINER(job, tci_req, job);
    r->rc = tci_cancel_check(&r->cancel, &r->err);
    if (r->rc == 0)
        r->rc = tci_handlers[r->method - tci_eip_methods](r, &r->err);
    if (r->rc == 0 && r->after == NULL)
        r->rc = tci_req_encode(r, &r->err);
}

static void work_done(tci_job *job)
{
    tci_req *r = TCI_CONTAINER(job, tci_req, job);
    if (r->rc == 0 && r->after != NULL)
        r->rc = r->after(r, &r->err);
    finish(r);
}

static void run(tci_req *r)
{
    tci_device *d = r->device;
    tci_handler handler = tci_handlers[r->method - tci_eip_methods];
    switch (r->where) {
    case TCI_WHERE_LOOP:
        r->rc = handler(r, &r->err);
        finish(r);
        return;
    case TCI_WHERE_WORKER:
        r->job.work = work;
        r->job.done = work_done;
        tci_job_submit(d->loop, r->method->is_bulk ? TCI_JOB_BULK : TCI_JOB_QUICK, &r->job);
        return;
    case TCI_WHERE_ASYNC:
        tci_timer_init(&r->deadline, d->loop, on_deadline);
        if (r->cancel.deadline_ns != 0) {
            r->rc = tci_timer_start_at(&r->deadline, r->cancel.deadline_ns, &r->err);
            if (r->rc < 0) {
                finish(r);
                return;
            }
        }
        r->rc = handler(r, &r->err);
        if (r->rc < 0)
            finish(r);
        return;
    }
}

/* ---- the checks, in the order of the reference ---- */

/* 3..6: carrier, method, selector. */
static int check_method(tci_req *r, tc_err *err)
{
    tci_carrier *c = r->carrier;
    bool is_initialize = tci_str_eq(r->env.method, TC_STR("initialize"));
    if (c->is_closed || r->device->is_draining)
        return tci_req_fail(r, err, TC_E_NOT_READY, TCI_EIP_CAUSE_CARRIER_CLOSED);
    if (!c->is_initialized && !is_initialize)
        return tci_req_fail(r, err, TC_E_NOT_READY, TCI_EIP_CAUSE_NOT_INITIALIZED);
    const tci_method *m = tci_method_find(r->env.method);
    if (m == NULL)
        return tci_req_fail(r, err, TC_E_NO_METHOD, TCI_EIP_CAUSE_NO_METHOD);
    r->method = m;
    if (m->scope == TCI_SCOPE_DEVICE && r->env.has_session)
        return tci_req_fail(r, err, TC_E_INVALID, TCI_EIP_CAUSE_SESSION_FORBIDDEN);
    if (m->scope == TCI_SCOPE_SESSION && !r->env.has_session)
        return tci_req_fail(r, err, TC_E_INVALID, TCI_EIP_CAUSE_SESSION_REQUIRED);
    return 0;
}

/* 7..9: session known, ours, offering the method, ready. */
static int check_session(tci_req *r, tc_err *err)
{
    const tci_method *m = r->method;
    if (m->scope == TCI_SCOPE_DEVICE) {
        if (!tci_device_offers(r->device, m))
            return tci_req_fail(r, err, TC_E_UNSUPPORTED, TCI_EIP_CAUSE_METHOD_UNAVAILABLE);
        return 0;
    }
    tci_session *s = tci_session_find(r->device, r->env.session);
    if (s == NULL || s->state >= TCI_SESSION_CLOSING)
        return tci_req_fail(r, err, TC_E_NOT_READY, TCI_EIP_CAUSE_UNKNOWN_SESSION);
    size_t id = (size_t)(m - tci_eip_methods);
    if (s->owner != r->carrier && !(id == TCI_EIP_SESSION_ATTACH && s->owner == NULL))
        return tci_req_fail(r, err, TC_E_NOT_READY, TCI_EIP_CAUSE_SESSION_ELSEWHERE);
    r->session = tci_session_ref(s);
    tci_session_touch(s);
    if (!tci_device_offers(r->device, m))
        return tci_req_fail(r, err, TC_E_UNSUPPORTED, TCI_EIP_CAUSE_METHOD_UNAVAILABLE);
    bool needs_ready = id != TCI_EIP_ENVIRONMENT_READINESS && id != TCI_EIP_SESSION_ATTACH &&
                       id != TCI_EIP_SESSION_KEEPALIVE && id != TCI_EIP_SESSION_CLOSE;
    if (needs_ready && s->state != TCI_SESSION_READY)
        return tci_req_fail(r, err, TC_E_NOT_READY, TCI_EIP_CAUSE_SESSION_NOT_READY);
    return 0;
}

static int take_lanes(tci_req *r, tc_err *err)
{
    const tci_limits *l = &r->device->config->limits;
    tci_session *s = r->session;
    tci_lane lane = r->method->lane;
    uint64_t session_max = lane == TCI_LANE_ORDINARY  ? l->max_concurrent_operations
                           : lane == TCI_LANE_CLEANUP ? 4
                                                      : 1;
    bool is_full =
        (s != NULL && s->nlane[lane] >= session_max) ||
        (lane == TCI_LANE_ORDINARY && r->device->nrequests >= l->max_device_concurrent_operations);
    if (is_full) {
        r->is_lane_full = true;
        return tci_req_fail(r, err, TC_E_BUSY, TCI_EIP_CAUSE_ADMISSION);
    }
    if (s != NULL) {
        s->nlane[lane]++;
        r->in_lane = true;
    }
    if (lane == TCI_LANE_ORDINARY) {
        r->device->nrequests++;
        r->in_device_lane = true;
    }
    return 0;
}

static int decode_params(tci_req *r, tc_err *err)
{
    void *params = tci_arena_alloc(&r->arena, tci_type_size(r->method->params));
    r->result = tci_arena_alloc(&r->arena, tci_type_size(r->method->result));
    if (params == NULL || r->result == NULL)
        return tci_arena_error(&r->arena, err);
    int rc = tci_proto_decode(r->method->params, r->env.params, &r->arena, params, err);
    if (rc < 0)
        return rc;
    r->params = params;
    return 0;
}

/* Where this request runs, when the table's answer depends on the file system: facts of a file are asked
 * for on the loop thread, and a small file in memory is written there, since nothing can wait and changing
 * threads costs more than the call. A link could lead anywhere, so both only on a machine that has no slow
 * file system at all. */
static tci_where place_of(tci_req *r)
{
    tci_mounts *m = &r->device->mounts;
    size_t id = (size_t)(r->method - tci_eip_methods);
    if (id != TCI_EIP_FILE_STAT && id != TCI_EIP_FILE_WRITE_TEXT)
        return r->method->where;
    tci_mounts_refresh(m, tci_loop_now_ns(r->device->loop));
    if (id == TCI_EIP_FILE_STAT) {
        bool is_slow = m->nslow > 0 || m->count == 0;
        return is_slow ? TCI_WHERE_WORKER : TCI_WHERE_LOOP;
    }
    const tci_eip_file_write_text_params *p = r->params;
    bool is_instant = p->text.len <= SMALL_TEXT_MAX && p->mode != TCI_EIP_WRITE_MODE_APPEND &&
                      m->nslow == 0 && tci_mounts_kind_of(m, p->path.path) == TCI_MOUNT_MEMORY;
    return is_instant ? TCI_WHERE_LOOP : TCI_WHERE_WORKER;
}

/* ---- the ledger ---- */

static void put_canonical(const tci_req *r, tci_buf *out)
{
    tci_buf_append(out, "0.3", 4); /* with its NUL */
    tci_buf_append_str(out, r->method->name);
    tci_buf_append_byte(out, '\0');
    tci_proto_encode(r->method->params, r->params, out, TCI_PROTO_FOR_DIGEST);
}

static int digest_of(tci_req *r, uint8_t out[TCI_SHA256_BYTES], tc_err *err)
{
    tci_buf *b = &r->device->scratch;
    tci_buf_clear(b);
    put_canonical(r, b);
    if (tci_buf_error(b, err) < 0)
        return err->code;
    tci_sha256_of(tci_buf_str(b), out);
    tci_buf_clear(b);
    tci_buf_trim(b, SMALL_TEXT_MAX);
    return 0;
}

/* What to do with an operation id that has a record. 1: the stored answer was sent, r is done. */
static int meet_record(tci_req *r, tci_record *rec, tc_err *err)
{
    uint8_t digest[TCI_SHA256_BYTES];
    uint8_t other[TCI_SHA256_BYTES];
    r->record = NULL;
    bool is_same = rec->method == r->method;
    if (is_same) {
        if (digest_of(r, digest, err) < 0)
            return err->code;
        if (rec->method->replay == TCI_REPLAY_TERMINAL)
            memcpy(other, rec->digest, sizeof other);
        else if (digest_of(rec->req, other, err) < 0)
            return err->code;
        is_same = memcmp(digest, other, sizeof digest) == 0;
    }
    if (!is_same)
        return tci_req_fail(r, err, TC_E_CONFLICT, TCI_EIP_CAUSE_OPERATION_CONFLICT);
    if (rec->req != NULL)
        return tci_req_fail(r, err, TC_E_IN_PROGRESS, TCI_EIP_CAUSE_OPERATION_RUNNING);
    tci_buf *b = &r->device->scratch;
    tci_buf_clear(b);
    tci_ledger_touch(&r->session->ledger, rec);
    if (tci_ledger_evidence(&r->session->ledger, rec, b, err) < 0)
        return tci_req_fail(r, err, TC_E_CONFLICT, TCI_EIP_CAUSE_OPERATION_NO_EVIDENCE);
    tci_session *s = r->session;
    bool is_error = rec->is_error;
    r->is_done = true;
    release(r);
    send_text(r, is_error, tci_buf_str(b));
    tci_buf_clear(b);
    tci_buf_trim(b, SMALL_TEXT_MAX);
    req_free(r);
    tci_session_unref(s);
    return 1;
}

/* 0: go on; 1: answered from the record; or an error. */
static int enter_ledger(tci_req *r, tc_err *err)
{
    const tci_limits *l = &r->device->config->limits;
    if (r->method->replay == TCI_REPLAY_EXTERNAL)
        return 0;
    const tci_eip_context *ctx = tci_req_context(r);
    uint64_t limit_ms = l->max_operation_duration_ms;
    if (ctx->has_timeout_ms)
        limit_ms = tci_min_u64(limit_ms, ctx->timeout_ms);
    r->operation_id = ctx->operation_id;
    r->cancel.deadline_ns = tci_add_ns(tci_loop_now_ns(r->device->loop), tci_ms_to_ns(limit_ms));

    tci_record *rec = tci_ledger_find(&r->session->ledger, ctx->operation_id);
    if (rec != NULL)
        return meet_record(r, rec, err);
    /* Nobody can meet an operation that begins and ends inside this call and leaves no evidence. */
    if (r->where == TCI_WHERE_LOOP && r->method->replay == TCI_REPLAY_ACTIVE)
        return 0;
    if (tci_ledger_admit(&r->session->ledger, r, &r->record, err) < 0)
        return tci_req_fail(r, err, err->code, TCI_EIP_CAUSE_OPERATION_CAPACITY);
    if (r->method->replay == TCI_REPLAY_TERMINAL)
        return digest_of(r, r->record->digest, err);
    return 0;
}

/* ---- entry ---- */

/* The request's own copy of the text, unless it owns the block already. */
static int keep_text(tci_req *r, tc_str *text, char *own, tc_err *err)
{
    r->text = own;
    if (own != NULL)
        return 0;
    char *copy = tci_arena_bytes(&r->arena, text->len);
    if (copy == NULL)
        return tci_arena_error(&r->arena, err);
    memcpy(copy, text->ptr, text->len);
    text->ptr = copy;
    return 0;
}

void tci_dispatch(tci_carrier *c, void *reply_to, tc_str text, char *own)
{
    tci_req *r = req_new(c, reply_to);
    if (r == NULL) {
        tci_free(own);
        c->v->reply(c, reply_to, false, NULL);
        return;
    }
    tc_err *err = &r->err;
    int rc = keep_text(r, &text, own, err);
    if (rc == 0) {
        rc = tci_eip_request_decode(text, &r->arena, &r->env, err);
        if (rc < 0) {
            r->env.has_session = false; /* envelope errors never echo the selector */
            r->cause = &tci_eip_error_causes[rc == TC_E_PARSE ? TCI_EIP_CAUSE_BAD_JSON
                                                              : TCI_EIP_CAUSE_BAD_ENVELOPE];
        }
    }
    if (rc == 0)
        rc = check_method(r, err);
    if (rc == 0)
        rc = check_session(r, err);
    if (rc == 0)
        rc = take_lanes(r, err);
    if (rc == 0) {
        rc = decode_params(r, err);
        if (rc == TC_E_INVALID)
            r->cause = &tci_eip_error_causes[TCI_EIP_CAUSE_BAD_PARAMS];
    }
    if (rc == 0) {
        r->where = place_of(r);
        rc = enter_ledger(r, err);
    }
    if (rc > 0)
        return;
    if (rc < 0) {
        r->rc = rc;
        finish(r);
        return;
    }
    tci_list_push_back(r->session != NULL ? &r->session->requests : &c->device->requests, &r->link);
    run(r);
}
