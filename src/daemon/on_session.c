/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of device, session, environment and operation methods. All but directory.list run on the
 * loop thread. */
#include "daemon/device.h"
#include "daemon/gen/handlers.h"
#include "daemon/metrics.h"
#include "daemon/req.h"
#include "ops/dirlist.h"
#include "plat/file.h"

/* ---- device ---- */

static int check_identity(tci_req *r, tc_str device_id, uint64_t generation, tc_err *err)
{
    if (!tci_str_eq(device_id, r->device->id) || generation != r->device->generation)
        return tci_req_fail(r, err, TC_E_INCOMPATIBLE, TCI_EIP_CAUSE_DEVICE_MISMATCH);
    return 0;
}

int tci_on_initialize(tci_req *r, tc_err *err)
{
    const tci_eip_initialize_params *p = r->params;
    tci_eip_initialize_result *res = r->result;
    bool has_version = false;
    if (r->carrier->is_initialized && !r->carrier->is_stateless)
        return tci_req_fail(r, err, TC_E_CONFLICT, TCI_EIP_CAUSE_ALREADY_INITIALIZED);
    for (size_t i = 0; i < p->supported_protocol_versions.count; i++)
        has_version = has_version || tci_str_eq(p->supported_protocol_versions.items[i],
                                                TC_STR(TCI_EIP_PROTOCOL_VERSION));
    if (!has_version ||
        (p->has_expected_device_id && !tci_str_eq(p->expected_device_id, r->device->id)))
        return tci_req_fail(r, err, TC_E_INCOMPATIBLE, TCI_EIP_CAUSE_INITIALIZE_MISMATCH);
    r->carrier->is_initialized = true;
    res->protocol_version = TC_STR(TCI_EIP_PROTOCOL_VERSION);
    /* The wire's literals: released clients compare the name, the harness the version. */
    res->server.name = TC_STR("a13n-envd");
    res->server.version = TC_STR("0.5.1");
    res->descriptor = r->device->descriptor;
    return 0;
}

int tci_on_device_describe(tci_req *r, tc_err *err)
{
    TCI_UNUSED(err);
    ((tci_eip_device_describe_result *)r->result)->descriptor = r->device->descriptor;
    return 0;
}

int tci_on_device_metrics(tci_req *r, tc_err *err)
{
    const tci_eip_device_metrics_params *p = r->params;
    tci_eip_device_metrics_result *res = r->result;
    if (check_identity(r, p->expected_device_id, p->expected_generation, err) < 0)
        return err->code;
    res->device_id = r->device->id;
    res->generation = r->device->generation;
    res->sample_interval_ms = tci_metrics_interval_ms(r->device->metrics);
    res->has_sample = tci_metrics_sample(r->device->metrics, &res->sample);
    return 0;
}

int tci_on_directory_list(tci_req *r, tc_err *err)
{
    const tci_eip_directory_list_params *p = r->params;
    tci_eip_directory_list_result *res = r->result;
    tci_ops_dirlist_result list;
    if (check_identity(r, p->expected_device_id, p->expected_generation, err) < 0)
        return err->code;
    r->cancel.deadline_ns = tci_clock_mono_ns() + INT64_C(5000000000);
    tci_ops_dirlist_request q = {.path = p->path,
                                 .offset = p->offset,
                                 .limit = p->limit,
                                 .budget_bytes = r->device->config->limits.max_response_bytes / 6};
    int rc = tci_ops_dirlist(&q, &r->cancel, &r->arena, &list, err);
    if (rc == TC_E_TIMEOUT)
        return tc_err_recode(err, TC_E_QUOTA); /* the reference bounds the scan, not the request */
    if (rc < 0)
        return rc;
    res->path = list.path;
    res->has_parent_path = list.has_parent;
    res->parent_path = list.parent_path;
    res->has_next_offset = list.has_next;
    res->next_offset = list.next_offset;
    res->entries.items = tci_arena_items(&r->arena, tci_eip_directory_entry, list.count);
    if (res->entries.items == NULL && list.count > 0)
        return tci_arena_error(&r->arena, err);
    res->entries.count = list.count;
    for (size_t i = 0; i < list.count; i++)
        res->entries.items[i] =
            (tci_eip_directory_entry){.name = list.items[i].name, .path = list.items[i].path};
    return 0;
}

/* ---- sessions ---- */

static tci_eip_session_descriptor describe(const tci_session *s)
{
    tci_eip_session_descriptor d = s->device->session_descriptor;
    d.session_id = s->id;
    d.working_directory = s->cwd;
    return d;
}

static int check_required(tci_req *r, const tci_eip_session_open_params *p, tc_err *err)
{
    for (size_t i = 0; i < p->required_methods.count; i++) {
        const tci_method *m = tci_method_find(p->required_methods.items[i]);
        if (m == NULL || m->scope != TCI_SCOPE_SESSION || !tci_device_offers(r->device, m))
            return tci_req_fail(r, err, TC_E_UNSUPPORTED, TCI_EIP_CAUSE_REQUIRED_METHOD);
    }
    return 0;
}

/* The directory as it is really called, when it can be entered. */
static int canonical_cwd(tci_req *r, tc_str wanted, char buf[TCI_PATH_MAX], tc_str *ret,
                         tc_err *err)
{
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    if (tci_file_realpath(wanted, buf, ret, err) < 0 ||
        tci_file_open(*ret, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &dir, err) < 0)
        return tci_req_fail(r, err, TC_E_NOT_FOUND, TCI_EIP_CAUSE_WORKING_DIRECTORY);
    return 0;
}

int tci_on_session_open(tci_req *r, tc_err *err)
{
    const tci_eip_session_open_params *p = r->params;
    tci_device *d = r->device;
    char buf[TCI_PATH_MAX];
    tc_str cwd;
    tci_session *s;
    if (check_identity(r, p->expected_device_id, p->expected_generation, err) < 0)
        return err->code;
    if (!tci_str_eq(p->protocol_version, TC_STR(TCI_EIP_PROTOCOL_VERSION)))
        return tci_req_fail(r, err, TC_E_INCOMPATIBLE, TCI_EIP_CAUSE_SESSION_PROTOCOL);
    if (p->has_egress)
        return tci_req_fail(r, err, TC_E_INVALID, TCI_EIP_CAUSE_EGRESS_POLICY_PRESENCE);
    if (check_required(r, p, err) < 0)
        return err->code;
    tc_str wanted =
        p->has_working_directory ? p->working_directory : d->config->default_working_directory;
    if (canonical_cwd(r, wanted, buf, &cwd, err) < 0)
        return err->code;
    tci_session_relieve(d);
    int rc = tci_session_open(d, r->carrier, cwd, &s, err);
    if (rc == TC_E_BUSY)
        return tci_req_fail(r, err, TC_E_BUSY, TCI_EIP_CAUSE_SESSION_CAPACITY);
    if (rc < 0)
        return rc;
    ((tci_eip_session_open_result *)r->result)->descriptor = describe(s);
    return 0;
}

int tci_on_session_attach(tci_req *r, tc_err *err)
{
    TCI_UNUSED(err);
    tci_session_adopt(r->session, r->carrier);
    ((tci_eip_session_attach_result *)r->result)->descriptor = describe(r->session);
    return 0;
}

int tci_on_session_keepalive(tci_req *r, tc_err *err)
{
    TCI_UNUSED(err);
    ((tci_eip_session_keepalive_result *)r->result)->alive = true;
    return 0;
}

typedef struct close_wait {
    tci_session_closer closer;
    tci_req *req;
} close_wait;

static void session_closed(tci_session_closer *closer, bool is_clean)
{
    tc_err err;
    close_wait *w = TCI_CONTAINER(closer, close_wait, closer);
    tci_req *r = w->req;
    int rc = 0;
    if (!is_clean)
        rc = tci_req_fail(r, &err, TC_E_INTERNAL, TCI_EIP_CAUSE_SESSION_CLEANUP);
    ((tci_eip_session_close_result *)r->result)->closed = true;
    tci_req_finish(r, rc, &err);
}

int tci_on_session_close(tci_req *r, tc_err *err)
{
    close_wait *w = tci_arena_new(&r->arena, close_wait);
    if (w == NULL)
        return tci_arena_error(&r->arena, err);
    w->closer.done = session_closed;
    w->req = r;
    r->is_closing = true;
    tci_session_close(r->session, &w->closer);
    return 0;
}

int tci_on_egress_update(tci_req *r, tc_err *err)
{
    return tci_req_fail(r, err, TC_E_UNSUPPORTED, TCI_EIP_CAUSE_METHOD_UNAVAILABLE);
}

/* ---- environment ---- */

int tci_on_environment_readiness(tci_req *r, tc_err *err)
{
    tci_eip_environment_readiness_result *res = r->result;
    TCI_UNUSED(err);
    r->session->state = TCI_SESSION_READY;
    res->ready = true;
    res->device_id = r->device->id;
    res->generation = r->device->generation;
    res->session_id = r->session->id;
    return 0;
}

int tci_on_environment_describe(tci_req *r, tc_err *err)
{
    TCI_UNUSED(err);
    ((tci_eip_environment_describe_result *)r->result)->descriptor = describe(r->session);
    return 0;
}

/* ---- operations ---- */

int tci_on_operation_cancel(tci_req *r, tc_err *err)
{
    const tci_eip_operation_cancel_params *p = r->params;
    tci_eip_operation_cancel_result *res = r->result;
    TCI_UNUSED(err);
    tci_record *rec = tci_ledger_find(&r->session->ledger, p->target_operation_id);
    if (tci_str_eq(p->target_operation_id, r->operation_id)) {
        res->status =
            TCI_EIP_CANCEL_STATUS_CANCELLATION_REQUESTED; /* of itself: granted, and over */
    } else if (rec == NULL) {
        res->status = TCI_EIP_CANCEL_STATUS_NOT_FOUND;
    } else if (rec->req == NULL) {
        res->status = TCI_EIP_CANCEL_STATUS_ALREADY_TERMINAL;
    } else {
        res->status = TCI_EIP_CANCEL_STATUS_CANCELLATION_REQUESTED;
        tci_req_cancel(rec->req);
    }
    return 0;
}

int tci_on_receipt_get(tci_req *r, tc_err *err)
{
    const tci_eip_receipt_get_params *p = r->params;
    tci_record *rec = tci_ledger_find(&r->session->ledger, p->operation_id);
    if (rec == NULL || rec->req != NULL || rec->method->replay != TCI_REPLAY_TERMINAL)
        return tci_req_fail(r, err, TC_E_NOT_FOUND, TCI_EIP_CAUSE_RECEIPT_MISSING);
    tci_eip_operation_receipt *receipt = &((tci_eip_receipt_get_result *)r->result)->receipt;
    char *hex = tci_arena_bytes(&r->arena, TCI_SHA256_HEX);
    if (hex == NULL)
        return tci_arena_error(&r->arena, err);
    tci_hex(rec->digest, TCI_SHA256_BYTES, hex);
    tci_ledger_touch(&r->session->ledger, rec);
    *receipt = (tci_eip_operation_receipt){.operation_id = rec->operation_id,
                                           .method = rec->method->name,
                                           .device_id = r->device->id,
                                           .session_id = r->session->id,
                                           .generation = r->device->generation,
                                           .request_digest = tci_str_of(hex, TCI_SHA256_HEX),
                                           .stage = rec->stage,
                                           .has_outcome = true,
                                           .outcome = rec->outcome,
                                           .observed_at = rec->observed_at};
    return 0;
}
