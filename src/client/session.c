/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions: opening, attaching, closing, and what concerns a session as a whole. The caller's
 * thread. Invariant: a handle exists only for a session whose descriptor passed every check. */
#include "client/client_int.h"

#include "plat/clock.h"

enum { OPEN_MS = 40000, READY_MS = 10000, CLOSE_MS = 5000, KEEPALIVE_PART = 3, EGRESS_MS = 30000 };

/* ---- checks ---- */

static const char *descriptor_fault(const tc_device *d, const tc_session_info *info)
{
    const char *fault = tci_methods_fault(&info->available_methods, true);
    if (fault != NULL)
        return fault;
    if (!tci_str_eq(info->device_id, d->info.device_id) || info->generation != d->info.generation)
        return "a session of another device";
    if (!tci_boundary_eq(&info->boundary, &d->info.boundary))
        return "a session with another boundary than its device";
    if (info->has_egress != (info->boundary.egress == TC_EGRESS_CONTROLLED))
        return "egress facts that do not fit the boundary";
    bool has_signal = tci_strs_has(&info->available_methods, TC_STR("process.signal"));
    if (has_signal != (info->can_interrupt || info->can_terminate))
        return "signals offered that do not fit its features";
    for (size_t i = 0; i < info->nprofiles; i++)
        for (size_t k = 0; k < i; k++)
            if (tci_str_eq(info->profiles[i].profile_id, info->profiles[k].profile_id))
                return "a shell profile named twice";
    return NULL;
}

static bool limits_grew(const tc_limits *now, const tc_limits *before)
{
    return now->max_request_bytes > before->max_request_bytes ||
           now->max_response_bytes > before->max_response_bytes ||
           now->max_concurrent_operations > before->max_concurrent_operations ||
           now->max_processes > before->max_processes ||
           now->max_operation_duration_ms > before->max_operation_duration_ms ||
           now->max_output_preview_bytes > before->max_output_preview_bytes ||
           now->max_output_bytes_per_stream > before->max_output_bytes_per_stream ||
           now->max_transfer_frame_bytes > before->max_transfer_frame_bytes ||
           now->max_concurrent_file_transfers > before->max_concurrent_file_transfers ||
           now->max_file_transfer_bytes > before->max_file_transfer_bytes ||
           now->max_file_bytes > before->max_file_bytes;
}

/* A session described again may only have less than before. */
static const char *change_fault(const tc_session *s, const tc_session_info *now)
{
    const tc_session_info *was = &s->info;
    if (!tci_str_eq(now->session_id, was->session_id) ||
        !tci_str_eq(now->working_directory, was->working_directory))
        return "it became another session";
    if (limits_grew(&now->limits, &was->limits))
        return "its limits grew";
    for (size_t i = 0; i < now->available_methods.count; i++)
        if (!tci_strs_has(&was->available_methods, now->available_methods.items[i]))
            return "its methods grew";
    return NULL;
}

/* ---- making a handle ---- */

typedef struct add_job {
    tci_sess *sess;
} add_job;

static void add_on_loop(void *arg)
{
    add_job *job = arg;
    tci_sess_add(job->sess);
}

static void remove_on_loop(void *arg)
{
    tci_sess *s = arg;
    tci_sess_remove(s);
}

static int session_new(tc_device *d, tc_session **ret_session, tc_err *err)
{
    tc_session *s = tci_new(tc_session);
    if (s == NULL)
        return tci_err_no_memory(err);
    int rc = tc_result_new(&s->held, err);
    if (rc < 0) {
        tci_free(s);
        return rc;
    }
    s->device = tc_device_retain(d);
    *ret_session = s;
    return 0;
}

static void session_free(tc_session *s)
{
    if (s->sess != NULL) {
        (void)tci_runtime_run(s->device->rt, remove_on_loop,
                              s->sess); /* no loop: nothing knows it */
        tci_sess_free(s->sess);
    }
    tc_device_close(s->device);
    tc_result_free(s->held);
    tci_free(s);
}

static int link_session(tc_session *s, tc_str id, uint64_t max_concurrent, int64_t keepalive_ms,
                        tc_err *err)
{
    s->sess = tci_sess_new(s->device->conn, id, max_concurrent, keepalive_ms);
    if (s->sess == NULL)
        return tci_err_no_memory(err);
    add_job job = {s->sess};
    if (tci_runtime_run(s->device->rt, add_on_loop, &job))
        return 0;
    return tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
}

static int ask_session(tc_session *s, const tc_call *call, int method, void *params, void *result,
                       int64_t limit_ms, tc_err *err)
{
    tci_ask ask = {.device = s->device,
                   .session = s,
                   .opts = call,
                   .method = method,
                   .params = params,
                   .result = result,
                   .limit_ms = limit_ms};
    return tci_ask_do(&ask, err);
}

/* ---- egress policies ---- */

static void put_destinations(const tc_destinations *in, tci_eip_egress_destinations *out)
{
    out->mode = in->is_allowlist ? TCI_EIP_EGRESS_DESTINATIONS_ALLOWLIST
                                 : TCI_EIP_EGRESS_DESTINATIONS_PUBLIC;
    if (in->is_allowlist) {
        out->u.allowlist.hosts.items = (tc_str *)(uintptr_t)in->hosts.items; /* only read */
        out->u.allowlist.hosts.count = in->hosts.count;
    }
}

static int put_secrets(const tc_egress_secret *in, size_t count, tci_eip_egress_secret **ret,
                       tc_err *err)
{
    tci_eip_egress_secret *out = tci_mem_array(count, sizeof *out);
    if (out == NULL)
        return tci_err_no_memory(err);
    for (size_t i = 0; i < count; i++) {
        out[i].env = in[i].env;
        out[i].value = in[i].value;
        out[i].inject_hosts.items = (tc_str *)(uintptr_t)in[i].inject_hosts.items; /* only read */
        out[i].inject_hosts.count = in[i].inject_hosts.count;
    }
    *ret = out;
    return 0;
}

/* ---- opening ---- */

static int fill_methods(const tc_session_options *o, tc_str *items, tci_eip_session_open_params *p)
{
    size_t n = 0;
    items[n++] = TC_STR("environment.readiness");
    if (o->egress != NULL)
        items[n++] = TC_STR("egress.update");
    for (size_t i = 0; i < o->required_methods.count; i++) {
        tc_strs so_far = {items, n};
        if (!tci_strs_has(&so_far, o->required_methods.items[i]))
            items[n++] = o->required_methods.items[i];
    }
    p->required_methods.items = items;
    p->required_methods.count = n;
    return 0;
}

static int open_request(tc_session *s, tc_ctx *ctx, const tc_session_options *o,
                        tci_eip_session_open_params *params, tc_err *err)
{
    tci_eip_session_open_result res = {0};
    tc_call opts = TC_CALL(ctx, s->held);
    tci_ask ask = {.device = s->device,
                   .opts = &opts,
                   .method = TCI_EIP_SESSION_OPEN,
                   .params = params,
                   .result = &res,
                   .limit_ms = OPEN_MS};
    int rc = tci_ask_do(&ask, err);
    if (rc == 0)
        rc = tci_to_session_info(&s->held->arena, &res.descriptor, &s->info, err);
    if (rc < 0)
        return rc;
    const char *fault = descriptor_fault(s->device, &s->info);
    if (fault != NULL)
        return tci_ask_violation(&ask, err, fault);
    int64_t keepalive =
        o->without_keepalive
            ? 0
            : (int64_t)tci_min_u64(s->info.idle_timeout_ms / KEEPALIVE_PART, INT32_MAX);
    return link_session(s, s->info.session_id, s->info.limits.max_concurrent_operations,
                        o->without_keepalive ? 0 : keepalive + (keepalive == 0), err);
}

static int make_ready(tc_session *s, tc_ctx *ctx, tc_err *err)
{
    bool is_ready = false;
    tc_call opts = TC_CALL(ctx, s->held);
    int rc = tc_session_is_ready(s, &opts, &is_ready, err);
    if (rc == 0 && !is_ready)
        rc = tc_err_set(err, TC_E_NOT_READY, "the session is not ready: the daemon is draining");
    return rc;
}

int tc_session_open(tc_device *d, tc_ctx *ctx, const tc_session_options *options,
                    tc_session **ret_session, tc_err *err)
{
    tc_session_options none = {.size = sizeof none};
    const tc_session_options *o = options != NULL ? options : &none;
    if (o->size < sizeof *o)
        return tc_err_set(err, TC_E_INVALID, "options without their size");
    tci_eip_session_open_params params = {
        .expected_device_id = d->info.device_id,
        .expected_generation = d->info.generation,
        .protocol_version = TC_STR(TCI_EIP_PROTOCOL_VERSION),
        .has_working_directory = o->working_directory.len > 0,
        .working_directory = o->working_directory,
        .has_egress = o->egress != NULL,
    };
    tci_eip_egress_secret *secrets = NULL;
    tc_session *s = NULL;
    int rc = session_new(d, &s, err);
    if (rc < 0)
        return rc;
    tc_str *methods = tci_arena_items(&s->held->arena, tc_str, o->required_methods.count + 2);
    if (methods == NULL)
        rc = tci_arena_error(&s->held->arena, err);
    else
        rc = fill_methods(o, methods, &params);
    if (rc == 0 && o->egress != NULL) {
        put_destinations(&o->egress->destinations, &params.egress.destinations);
        rc = put_secrets(o->egress->secrets, o->egress->nsecrets, &secrets, err);
        params.egress.secrets.items = secrets;
        params.egress.secrets.count = o->egress->nsecrets;
    }
    if (rc == 0)
        rc = open_request(s, ctx, o, &params, err);
    tci_free(secrets);
    if (rc == 0)
        rc = make_ready(s, ctx, err);
    if (rc < 0) {
        tc_err ignored; /* the first failure is the one to tell */
        if (s->sess != NULL)
            (void)tc_session_close(s, NULL, &ignored);
        else
            session_free(s);
        return rc;
    }
    *ret_session = s;
    return 0;
}

int tc_session_attach(tc_device *d, tc_ctx *ctx, tc_str session_id, uint64_t generation,
                      tc_session **ret_session, tc_err *err)
{
    if (generation != d->info.generation)
        return tc_err_set(err, TC_E_INCOMPATIBLE, "the session belongs to another generation");
    tc_session *s = NULL;
    int rc = session_new(d, &s, err);
    if (rc < 0)
        return rc;
    int64_t keepalive = (int64_t)tci_min_u64(d->info.idle_timeout_ms / KEEPALIVE_PART, INT32_MAX);
    rc = link_session(s, session_id, d->info.limits.max_concurrent_operations, keepalive, err);
    tci_eip_session_attach_params params = {0};
    tci_eip_session_attach_result res = {0};
    tc_call opts = TC_CALL(ctx, s->held);
    if (rc == 0)
        rc = ask_session(s, &opts, TCI_EIP_SESSION_ATTACH, &params, &res, OPEN_MS, err);
    if (rc == 0)
        rc = tci_to_session_info(&s->held->arena, &res.descriptor, &s->info, err);
    if (rc == 0) {
        const char *fault = descriptor_fault(d, &s->info);
        if (fault == NULL && !tci_str_eq(s->info.session_id, session_id))
            fault = "another session than asked for";
        if (fault != NULL)
            rc = tci_session_violation(s, NULL, err, fault);
    }
    if (rc == 0)
        rc = make_ready(s, ctx, err);
    if (rc < 0) {
        session_free(s);
        return rc;
    }
    *ret_session = s;
    return 0;
}

/* ---- ending ---- */

static void end_on_loop(void *arg)
{
    tc_err err;
    tc_err_set(&err, TC_E_CLOSED, "the session was closed");
    tci_sess_fail(arg, &err);
}

int tci_session_end(tc_session *s, tc_ctx *ctx, tc_err *err)
{
    tci_eip_session_close_params params = {0};
    tci_eip_session_close_result res = {0};
    tc_result *r = NULL;
    int rc = tc_result_new(&r, err);
    if (rc == 0) {
        tc_call opts = TC_CALL(ctx, r);
        rc = ask_session(s, &opts, TCI_EIP_SESSION_CLOSE, &params, &res, ctx == NULL ? CLOSE_MS : 0,
                         err);
    }
    tc_result_free(r);
    (void)tci_runtime_run(s->device->rt, end_on_loop, s->sess); /* without a loop it is dead */
    if (rc == TC_E_NOT_READY)
        return 0; /* it had expired or was closed before */
    if (rc == TC_E_INTERNAL)
        return tc_err_recode(err, TC_E_CLEANUP_FAILED);
    return rc;
}

int tc_session_close(tc_session *s, tc_ctx *ctx, tc_err *err)
{
    if (s == NULL)
        return 0;
    int rc = tci_session_end(s, ctx, err);
    session_free(s);
    return rc;
}

void tc_session_detach(tc_session *s)
{
    if (s != NULL)
        session_free(s);
}

/* ---- facts and calls ---- */

bool tc_session_is_alive(const tc_session *s)
{
    return atomic_load(&s->sess->is_alive);
}
tc_device *tc_session_device(const tc_session *s)
{
    return s->device;
}
const tc_session_info *tc_session_get_info(const tc_session *s)
{
    return &s->info;
}

bool tc_session_has_method(const tc_session *s, tc_str method)
{
    return tci_strs_has(&s->info.available_methods, method);
}

int tc_session_describe(tc_session *s, const tc_call *call, tc_session_info *ret_info, tc_err *err)
{
    tci_eip_environment_describe_params params = {0};
    tci_eip_environment_describe_result res = {0};
    int rc = ask_session(s, call, TCI_EIP_ENVIRONMENT_DESCRIBE, &params, &res, 0, err);
    tc_session_info info;
    if (rc == 0)
        rc = tci_to_session_info(&call->result->arena, &res.descriptor, &info, err);
    if (rc < 0)
        return rc;
    const char *fault = descriptor_fault(s->device, &info);
    if (fault == NULL)
        fault = change_fault(s, &info);
    if (fault != NULL)
        return tci_session_violation(s, NULL, err, fault);
    *ret_info = info;
    return 0;
}

int tc_session_is_ready(tc_session *s, const tc_call *call, bool *ret_is_ready, tc_err *err)
{
    tci_eip_environment_readiness_params params = {0};
    tci_eip_environment_readiness_result res = {0};
    int rc = ask_session(s, call, TCI_EIP_ENVIRONMENT_READINESS, &params, &res, READY_MS, err);
    if (rc < 0)
        return rc;
    const tc_session_info *info = &s->info;
    if (!tci_str_eq(res.device_id, info->device_id) || res.generation != info->generation ||
        !tci_str_eq(res.session_id, info->session_id))
        return tci_session_violation(s, NULL, err, "readiness of something else");
    *ret_is_ready = res.ready;
    return 0;
}

int tc_session_keepalive(tc_session *s, tc_ctx *ctx, tc_err *err)
{
    tci_eip_session_keepalive_params params = {0};
    tci_eip_session_keepalive_result res = {0};
    tc_result *r = NULL;
    int rc = tc_result_new(&r, err);
    if (rc < 0)
        return rc;
    tc_call opts = TC_CALL(ctx, r);
    rc = ask_session(s, &opts, TCI_EIP_SESSION_KEEPALIVE, &params, &res, READY_MS, err);
    tc_result_free(r);
    return rc;
}

int tc_session_cancel(tc_session *s, const tc_call *call, tc_str target_operation_id,
                      tc_cancel_status *ret_status, tc_err *err)
{
    tci_eip_operation_cancel_params params = {.target_operation_id = target_operation_id};
    tci_eip_operation_cancel_result res = {0};
    int rc = ask_session(s, call, TCI_EIP_OPERATION_CANCEL, &params, &res, 0, err);
    if (rc < 0)
        return rc;
    switch (res.status) {
    case TCI_EIP_CANCEL_STATUS_NOT_FOUND:
        *ret_status = TC_CANCEL_NOT_FOUND;
        break;
    case TCI_EIP_CANCEL_STATUS_ALREADY_TERMINAL:
        *ret_status = TC_CANCEL_ALREADY_ENDED;
        break;
    case TCI_EIP_CANCEL_STATUS_CANCELLATION_REQUESTED:
        *ret_status = TC_CANCEL_REQUESTED;
        break;
    case TCI_EIP_CANCEL_STATUS_NOT_CANCELLABLE:
        *ret_status = TC_CANCEL_NOT_POSSIBLE;
        break;
    }
    return 0;
}

int tc_session_reconcile(tc_session *s, const tc_call *call, tc_str operation_id,
                         tc_outcome *ret_outcome, tc_receipt *ret_receipt, tc_err *err)
{
    tci_eip_receipt_get_params params = {.operation_id = operation_id};
    tci_eip_receipt_get_result res = {0};
    int rc = ask_session(s, call, TCI_EIP_RECEIPT_GET, &params, &res, 0, err);
    if (rc == TC_E_NOT_FOUND) {
        *ret_outcome = TC_OUTCOME_UNKNOWN;
        if (ret_receipt != NULL)
            *ret_receipt = (tc_receipt){0};
        return 0;
    }
    if (rc < 0)
        return rc;
    tc_receipt receipt;
    tci_to_receipt(&res.receipt, &receipt);
    const tc_session_info *info = &s->info;
    if (!tci_str_eq(receipt.operation_id, operation_id) ||
        !tci_str_eq(receipt.session_id, info->session_id) ||
        !tci_str_eq(receipt.device_id, info->device_id) || receipt.generation != info->generation)
        return tci_session_violation(s, NULL, err, "a receipt of something else");
    bool is_unknown =
        receipt.stage == TC_RECEIPT_UNKNOWN || receipt.outcome == TC_RECEIPT_OUTCOME_UNKNOWN;
    *ret_outcome = is_unknown ? TC_OUTCOME_UNKNOWN : TC_OUTCOME_DONE;
    call->result->evidence.receipt = receipt;
    if (ret_receipt != NULL)
        *ret_receipt = receipt;
    return 0;
}

int tc_session_update_egress(tc_session *s, const tc_call *call, const tc_egress_update *update,
                             tc_egress_status *ret_status, tc_err *err)
{
    int rc = tci_call_check(call, err);
    if (rc < 0)
        return rc;
    if (update == NULL || update->size < sizeof *update)
        return tc_err_set(err, TC_E_INVALID, "an update without its size");
    tci_eip_egress_update_params params = {
        .expected_revision = update->expected_revision,
        .has_destinations = update->destinations != NULL,
        .remove_secrets = {(tc_str *)(uintptr_t)update->remove_secrets.items, /* only read */
                           update->remove_secrets.count},
    };
    tci_eip_egress_secret *secrets = NULL;
    if (update->destinations != NULL)
        put_destinations(update->destinations, &params.destinations);
    rc = put_secrets(update->set_secrets, update->nset_secrets, &secrets, err);
    if (rc < 0)
        return rc;
    params.set_secrets.items = secrets;
    params.set_secrets.count = update->nset_secrets;
    tci_eip_egress_update_result res = {0};
    rc = ask_session(s, call, TCI_EIP_EGRESS_UPDATE, &params, &res, EGRESS_MS, err);
    tci_free(secrets);
    if (rc < 0)
        return rc;
    return tci_to_egress(&call->result->arena, &res.egress, ret_status, err);
}
