/* SPDX-License-Identifier: Apache-2.0
 *
 * A request from the caller's side: filling in its context, sending, waiting, decoding strictly,
 * and saying what is known of a change. The caller's thread. Invariant: the evidence is set before
 * any return, and NOT_STARTED is claimed only where it is proved. */
#include "client/client_int.h"

#include "proto/gen/errors.h"

enum { ANSWER_SLACK_MS = 250 };

int tci_call_check(const tc_call *opts, tc_err *err)
{
    if (opts == NULL || opts->size < sizeof(tc_call) || opts->result == NULL)
        return tc_err_set(err, TC_E_INVALID, "a call needs its size and a result");
    tci_result_reset_evidence(opts->result, TC_OUTCOME_NONE);
    return 0;
}

static bool is_change(const tci_method *m)
{
    return m->replay == TCI_REPLAY_TERMINAL;
}

/* ---- the context of a request ---- */

static int fill_context(tci_ask *ask, const tci_method *m, tc_err *err)
{
    const void *member = tci_type_member(m->params, ask->params, TC_STR("context"));
    if (member == NULL)
        return 0;
    tci_eip_context *context =
        (tci_eip_context *)((char *)ask->params + ((const char *)member - (char *)ask->params));
    const tc_call *o = ask->opts;
    char made[TCI_OPERATION_ID_LEN + 1];
    tc_str id = o->operation_id;
    if (id.len == 0 || !is_change(m)) {
        tci_operation_id(made);
        id = tci_str_of(made, TCI_OPERATION_ID_LEN);
    }
    int rc = tc_result_dup(o->result, id, &context->operation_id, err);
    if (rc < 0)
        return rc;
    ask->operation_id = context->operation_id;
    if (is_change(m))
        o->result->evidence.operation_id = context->operation_id;
    uint64_t timeout = o->timeout_ms;
    int64_t left = o->ctx != NULL ? tc_ctx_remaining_ms(o->ctx) : -1;
    if (left >= 0 && (timeout == 0 || (uint64_t)left < timeout))
        timeout = tci_max_u64((uint64_t)left, 1);
    if (timeout > 0) {
        context->has_timeout_ms = true;
        context->timeout_ms =
            tci_min_u64(timeout, ask->session->info.limits.max_operation_duration_ms);
    }
    return 0;
}

/* ---- sending and waiting ---- */

static void start_on_loop(tci_post *post)
{
    tci_call_start(TCI_CONTAINER(post, tci_call, start));
}

static void stop_on_loop(tci_post *post)
{
    tci_call *call = TCI_CONTAINER(post, tci_call, stop);
    tc_runtime *rt = call->conn->rt;
    tci_mutex_lock(&rt->lock);
    bool is_done = call->is_done;
    tci_wake *wake = call->wake;
    uint64_t id = call->id;
    call->is_stop_seen = true;
    if (is_done)
        tci_wake_count_one(wake);
    tci_mutex_unlock(&rt->lock); /* a call that is done may be gone from here on */
    if (is_done)
        tci_wake_send(wake, tci_wake_bit(id));
    if (!is_done)
        tci_call_stop(call);
}

/* When we stop waiting by ourselves, and why. 0: never. */
static int64_t patience_ns(const tci_ask *ask, const char **ret_why)
{
    const tc_call *o = ask->opts;
    int64_t deadline = tci_ctx_deadline_ns(o->ctx);
    int64_t mine = 0;
    if (o->timeout_ms > 0 && ask->operation_id.len > 0)
        mine = (int64_t)tci_min_u64(o->timeout_ms, INT64_MAX / 4000000) +
               ask->device->response_grace_ms;
    else if (ask->limit_ms > 0)
        mine = ask->limit_ms;
    *ret_why = "time ran out";
    if (deadline != 0 && ask->operation_id.len > 0)
        deadline += (int64_t)ANSWER_SLACK_MS * 1000000; /* the other side says so itself, first */
    if (mine == 0)
        return deadline;
    mine = tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns((uint64_t)mine));
    if (deadline != 0 && deadline <= mine)
        return deadline;
    *ret_why = "no answer in time";
    return mine;
}

bool tci_ask_is_done(tci_call *call)
{
    tc_runtime *rt = call->conn->rt;
    tci_mutex_lock(&rt->lock);
    bool is_done = call->is_done && (call->is_stop_seen || !call->is_stop_posted);
    tci_mutex_unlock(&rt->lock);
    return is_done;
}

void tci_ask_stop(tci_call *call, const tc_err *why)
{
    if (call->is_stopping)
        return;
    call->is_stopping = true;
    call->stop_err = *why;
    /* With the runtime closed it ends all the same. */
    call->is_stop_posted = tci_runtime_post(call->conn->rt, &call->stop);
}

/* Wait until the loop has finished the call. Giving up is asked of the loop too, which ends it in a
 * bounded time. */
static void wait_call(const tci_ask *ask, tci_call *call)
{
    const char *why;
    int64_t deadline = patience_ns(ask, &why);
    tc_ctx *ctx = ask->opts->ctx;
    for (;;) {
        unsigned seen = tci_wake_count(call->wake);
        if (tci_ask_is_done(call))
            return;
        tc_err err;
        if (ctx != NULL && tc_ctx_is_cancelled(ctx)) {
            tc_err_set(&err, TC_E_CANCELLED, "cancelled");
            tci_ask_stop(call, &err);
        } else if (deadline != 0 && tci_clock_mono_ns() >= deadline) {
            tc_err_set(&err, TC_E_TIMEOUT, "%s", why);
            tci_ask_stop(call, &err);
        }
        tci_wake_wait_bits(call->wake, seen, tci_wake_bit(call->id),
                           call->is_stopping ? 0 : deadline);
    }
}

static int encode(const tci_ask *ask, const tci_method *m, tci_call *call, tc_err *err)
{
    tci_conn *c = call->conn;
    uint64_t max = atomic_load(&c->max_request_bytes);
    call->id = atomic_fetch_add(&c->next_id, 1);
    tci_buf_init(&call->request, (size_t)max);
    tci_eip_put_request(&call->request, call->id, call->sess != NULL ? &call->sess->id : NULL,
                        m->name, m->params, ask->params, false);
    if (call->request.failed == TC_E_TOO_BIG)
        return tc_err_set(err, TC_E_TOO_BIG, "the request is over the device's limit of %llu bytes",
                          (unsigned long long)max);
    return tci_buf_error(&call->request, err);
}

/* ---- what an answer says ---- */

static tc_outcome outcome_of_receipt(const tci_eip_operation_receipt *r)
{
    bool is_unknown = r->stage == TCI_EIP_RECEIPT_STAGE_UNKNOWN ||
                      (r->has_outcome && r->outcome == TCI_EIP_RECEIPT_OUTCOME_UNKNOWN);
    return is_unknown ? TC_OUTCOME_UNKNOWN : TC_OUTCOME_DONE;
}

static tc_outcome outcome_of_error(const tci_eip_error_data *d)
{
    if (d->error_type == TCI_EIP_ERROR_TYPE_UNKNOWN_OUTCOME ||
        d->error_type == TCI_EIP_ERROR_TYPE_OPERATION_IN_PROGRESS)
        return TC_OUTCOME_UNKNOWN;
    /* The same operation has ended before, and its answer is gone: it did run, somehow. */
    if (d->error_type == TCI_EIP_ERROR_TYPE_CONFLICT && !d->has_receipt &&
        d->retry_hint == TCI_EIP_RETRY_HINT_RECONCILE_FIRST)
        return TC_OUTCOME_UNKNOWN;
    switch (d->dispatch_stage) {
    case TCI_EIP_DISPATCH_STAGE_PRE_DISPATCH:
        return TC_OUTCOME_NOT_STARTED;
    case TCI_EIP_DISPATCH_STAGE_COMPLETED:
        return d->has_receipt ? outcome_of_receipt(&d->receipt) : TC_OUTCOME_DONE;
    case TCI_EIP_DISPATCH_STAGE_DISPATCHING:
    case TCI_EIP_DISPATCH_STAGE_DISPATCHED:
    case TCI_EIP_DISPATCH_STAGE_UNKNOWN:
        break;
    }
    return TC_OUTCOME_UNKNOWN;
}

int tci_ask_violation(const tci_ask *ask, tc_err *err, const char *what)
{
    if (ask->session != NULL)
        return tci_session_violation(ask->session, ask->opts->result, err, what);
    tc_err_set(err, TC_E_PROTOCOL, "the daemon broke the protocol: %s", what);
    if (ask->done != NULL) /* on the loop */
        tci_conn_fail(ask->device->conn, err);
    else
        tci_conn_break(ask->device->conn, err);
    return TC_E_PROTOCOL;
}

int tci_session_violation(tc_session *s, tc_result *r, tc_err *err, const char *what)
{
    if (r != NULL && r->evidence.outcome == TC_OUTCOME_DONE)
        r->evidence.outcome = TC_OUTCOME_UNKNOWN; /* what it says cannot be trusted */
    tc_err_set(err, TC_E_PROTOCOL, "the daemon broke the protocol: %s", what);
    tci_sess_break(s->sess, err);
    return TC_E_PROTOCOL;
}

/* A receipt must be about this very request. */
static int take_receipt(const tci_ask *ask, const tci_eip_operation_receipt *r, tc_err *err)
{
    const tc_session_info *info = &ask->session->info;
    if (!tci_str_eq(r->operation_id, ask->operation_id) ||
        !tci_str_eq(r->method, tci_eip_methods[ask->method].name) ||
        !tci_str_eq(r->device_id, info->device_id) || r->generation != info->generation ||
        !tci_str_eq(r->session_id, info->session_id))
        return tci_ask_violation(ask, err, "a receipt of something else");
    tci_to_receipt(r, &ask->opts->result->evidence.receipt);
    return 0;
}

static int take_error(tci_ask *ask, const tci_call *call, tc_err *err)
{
    tc_result *r = ask->opts->result;
    const tci_method *m = &tci_eip_methods[ask->method];
    tci_eip_error_data *d = tci_arena_new(&r->arena, tci_eip_error_data);
    if (d == NULL)
        return tci_arena_error(&r->arena, err);
    const tci_eip_reply *reply = &call->reply;
    if (reply->data == NULL ||
        tci_proto_decode(&tci_eip_error_data_type, reply->data, &r->arena, d, err) < 0)
        return tci_ask_violation(ask, err, "an error without proper data");
    tc_str type = tci_eip_error_type_names[d->error_type];
    if (tci_eip_error_code(type) != reply->code)
        return tci_ask_violation(ask, err, "an error whose code and type differ");
    tc_evidence *e = &r->evidence;
    e->error_type = type;
    e->retry_hint = tci_eip_retry_hint_names[d->retry_hint];
    e->dispatch_stage = tci_eip_dispatch_stage_names[d->dispatch_stage];
    e->field = d->field;
    e->detail = d->safe_detail;
    e->has_emitted_items = d->has_emitted_items;
    e->emitted_items = d->emitted_items;
    if (d->has_receipt && ask->session != NULL && take_receipt(ask, &d->receipt, err) < 0)
        return err->code;
    if (is_change(m))
        e->outcome = outcome_of_error(d);
    ask->error = d;
    tc_err_set(err, tci_eip_error_local(type), "%.*s: %.*s", TC_STR_ARG(m->name),
               TC_STR_ARG(reply->message));
    if (d->has_field || d->has_safe_detail)
        tc_err_hint(err, "%.*s %.*s", TC_STR_ARG(d->field), TC_STR_ARG(d->safe_detail));
    return err->code;
}

static int take_result(tci_ask *ask, const tci_call *call, tc_err *err)
{
    tc_result *r = ask->opts->result;
    const tci_method *m = &tci_eip_methods[ask->method];
    if (tci_proto_decode(m->result, call->reply.result, &r->arena, ask->result, err) < 0) {
        if (err->code == TC_E_NO_MEMORY || err->code == TC_E_TOO_BIG)
            return err->code;
        char why[TC_ERR_MSG_MAX];
        memcpy(why, err->msg, sizeof why);
        return tci_ask_violation(ask, err, why);
    }
    if (!is_change(m))
        return 0;
    const tci_eip_operation_receipt *receipt =
        tci_type_member(m->result, ask->result, TC_STR("receipt"));
    r->evidence.outcome = TC_OUTCOME_DONE;
    if (receipt == NULL || ask->session == NULL)
        return 0;
    r->evidence.outcome = outcome_of_receipt(receipt);
    return take_receipt(ask, receipt, err);
}

/* There is no answer: what is known of a change, and what to tell the caller. */
static int no_answer(const tci_ask *ask, const tci_call *call, tc_err *err)
{
    *err = call->err;
    if (!is_change(&tci_eip_methods[ask->method]))
        return err->code;
    tc_evidence *e = &ask->opts->result->evidence;
    e->outcome = call->is_unsent ? TC_OUTCOME_NOT_STARTED : TC_OUTCOME_UNKNOWN;
    if (call->is_unsent || err->code == TC_E_PROTOCOL)
        return err->code;
    return tc_err_recode(err, TC_E_UNKNOWN_OUTCOME);
}

static int prepare(tci_ask *ask, const tci_method *m, tci_call *call, tc_err *err)
{
    int rc = tci_ctx_check(ask->opts->ctx, err);
    if (rc == 0)
        rc = fill_context(ask, m, err);
    if (rc == 0)
        rc = encode(ask, m, call, err);
    if (rc < 0 && is_change(m))
        ask->opts->result->evidence.outcome = TC_OUTCOME_NOT_STARTED;
    return rc;
}

int tci_ask_begin(tci_ask *ask, tci_wake *wake, tci_call **ret_call, tc_err *err)
{
    const tci_method *m = &tci_eip_methods[ask->method];
    int rc = tci_call_check(ask->opts, err);
    if (rc < 0)
        return rc;
    if (ask->opts->operation_id.len > TCI_EIP_OPERATION_ID_MAX)
        return tc_err_set(err, TC_E_INVALID, "operation id over %d bytes",
                          TCI_EIP_OPERATION_ID_MAX);
    tci_call *call = tci_new(tci_call);
    if (call == NULL)
        return tci_err_no_memory(err);
    call->conn = ask->device->conn;
    call->sess = ask->session != NULL ? ask->session->sess : NULL;
    call->method = m;
    call->wake = wake != NULL ? wake : &call->own_wake;
    call->done = ask->done;
    call->start.cb = start_on_loop;
    call->stop.cb = stop_on_loop;
    rc = prepare(ask, m, call, err);
    if (rc < 0) {
        tci_buf_done(&call->request);
        tci_free(call);
        return rc;
    }
    call->operation_id = ask->operation_id;
    if (!tci_runtime_post(call->conn->rt, &call->start)) {
        call->code = tc_err_set(&call->err, TC_E_CLOSED, "the runtime is closed");
        call->is_unsent = true;
        call->is_done = true;
    }
    *ret_call = call;
    return 0;
}

int tci_ask_end(tci_ask *ask, tci_call *call, tc_err *err)
{
    const tci_method *m = &tci_eip_methods[ask->method];
    int rc;
    if (call->held == NULL) {
        rc = no_answer(ask, call, err);
    } else {
        ask->is_reply = true;
        ask->text = tci_str_of(call->held->text, call->held->len);
        ask->id_text = call->reply.id_text;
        tci_result_keep_own(ask->opts->result, call->held);
        if (is_change(m)) /* until the answer has been understood */
            ask->opts->result->evidence.outcome = TC_OUTCOME_UNKNOWN;
        rc = call->reply.result == NULL ? take_error(ask, call, err) : take_result(ask, call, err);
    }
    tci_buf_done(&call->request);
    tci_free(call);
    return rc;
}

int tci_ask_do(tci_ask *ask, tc_err *err)
{
    tci_call *call = NULL;
    tc_ctx *ctx = ask->opts != NULL ? ask->opts->ctx : NULL;
    int rc = tci_ask_begin(ask, ctx != NULL ? &ctx->wake : NULL, &call, err);
    if (rc < 0)
        return rc;
    wait_call(ask, call);
    return tci_ask_end(ask, call, err);
}
