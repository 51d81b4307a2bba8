/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: initialize and its checks, references, and the calls without a session. The caller's
 * thread. Invariant: identity, generation and boundary never change while a device lives. */
#include "client/client_int.h"

#include "plat/fd.h"

enum { INITIALIZE_MS = 10000, DEVICE_CALL_MS = 30000, GRACE_MS = 30000, DIRECTORY_PAGE = 100 };

/* ---- what a descriptor must be ---- */

bool tci_boundary_eq(const tc_boundary *a, const tc_boundary *b)
{
    if (a->has_identity != b->has_identity || a->uid != b->uid || a->gid != b->gid ||
        a->is_restricted != b->is_restricted || a->full_disk_read != b->full_disk_read ||
        a->egress != b->egress || a->privilege_gain_blocked != b->privilege_gain_blocked ||
        !tci_str_eq(a->backend, b->backend) || !tci_str_eq(a->policy_digest, b->policy_digest) ||
        a->ngrants != b->ngrants)
        return false;
    for (size_t i = 0; i < a->ngrants; i++)
        if (a->grants[i].is_writable != b->grants[i].is_writable ||
            !tci_str_eq(a->grants[i].path, b->grants[i].path))
            return false;
    return true;
}

const char *tci_methods_fault(const tc_strs *methods, bool session_only)
{
    for (size_t i = 0; i < methods->count; i++) {
        const tci_method *m = tci_method_find(methods->items[i]);
        if (m == NULL)
            return "an offer of an unknown method";
        if (session_only && m->scope != TCI_SCOPE_SESSION)
            return "an offer of a device method in a session";
        for (size_t k = 0; k < i; k++)
            if (tci_str_eq(methods->items[k], methods->items[i]))
                return "a method offered twice";
    }
    return NULL;
}

/* ---- initialize ---- */

static int check_initialized(tc_device *d, const tci_eip_initialize_result *res, tc_err *err)
{
    if (!tci_str_eq(res->server.name, TC_STR("a13n-envd")))
        return tc_err_set(err, TC_E_INCOMPATIBLE, "the other side is '%.*s', not an EIP daemon",
                          TC_STR_ARG(res->server.name));
    if (!tci_str_eq(res->protocol_version, TC_STR(TCI_EIP_PROTOCOL_VERSION)))
        return tc_err_set(err, TC_E_INCOMPATIBLE, "the daemon chose protocol '%.*s', not %s",
                          TC_STR_ARG(res->protocol_version), TCI_EIP_PROTOCOL_VERSION);
    if (d->expected_device_id.len > 0 && !tci_str_eq(d->info.device_id, d->expected_device_id))
        return tc_err_set(err, TC_E_INCOMPATIBLE, "the daemon is device '%.*s', expected '%.*s'",
                          TC_STR_ARG(d->info.device_id), TC_STR_ARG(d->expected_device_id));
    const char *fault = tci_methods_fault(&d->info.available_methods, false);
    if (fault != NULL)
        return tc_err_set(err, TC_E_PROTOCOL, "the daemon broke the protocol: %s", fault);
    return 0;
}

static void narrow(atomic_uint_fast64_t *ours, uint64_t theirs)
{
    atomic_store(ours, tci_min_u64(atomic_load(ours), theirs));
}

/* An initialize on its way. */
struct tci_device_start {
    tc_str version;
    tci_eip_initialize_params params;
    tci_eip_initialize_result result;
    tc_call opts;
    tci_ask ask;
    tci_call *call;
};

static void fill_start(tci_device_start *s, tc_device *d)
{
    const tc_runtime *rt = d->rt;
    s->version = TC_STR(TCI_EIP_PROTOCOL_VERSION);
    s->params = (tci_eip_initialize_params){
        .supported_protocol_versions = {&s->version, 1},
        .client = {.name = rt->client_name, .version = rt->client_version},
        .has_expected_device_id = d->expected_device_id.len > 0,
        .expected_device_id = d->expected_device_id,
    };
    s->opts = TC_CALL(NULL, d->held);
    s->ask = (tci_ask){.device = d,
                       .opts = &s->opts,
                       .method = TCI_EIP_INITIALIZE,
                       .params = &s->params,
                       .result = &s->result};
}

/* Its answer is there: what it says of the device. */
static int take_start(tci_device_start *s, tc_err *err)
{
    tc_device *d = s->ask.device;
    int rc = tci_to_device_info(&d->held->arena, &s->result.descriptor, &d->info, err);
    if (rc == 0)
        rc = check_initialized(d, &s->result, err);
    if (rc < 0)
        return rc;
    d->initialized = s->ask.text;
    d->initialized_id = s->ask.id_text;
    narrow(&d->conn->max_request_bytes, d->info.limits.max_request_bytes);
    narrow(&d->conn->max_response_bytes, d->info.limits.max_response_bytes);
    narrow(&d->conn->max_frame_bytes, d->info.limits.max_transfer_frame_bytes);
    return 0;
}

static int initialize(tc_device *d, tc_ctx *ctx, int64_t limit_ms, tc_err *err)
{
    tci_device_start s = {.call = NULL};
    fill_start(&s, d);
    s.opts.ctx = ctx;
    s.ask.limit_ms = limit_ms;
    int rc = tci_ask_do(&s.ask, err);
    return rc == 0 ? take_start(&s, err) : rc;
}

int tci_device_start_begin(tc_device *d, tci_post *done, tci_device_start **ret_start, tc_err *err)
{
    tci_device_start *s = tci_new(tci_device_start);
    if (s == NULL)
        return tci_err_no_memory(err);
    fill_start(s, d);
    s->ask.done = done;
    int rc = tci_ask_begin(&s->ask, NULL, &s->call, err);
    if (rc == 0 && tci_ask_is_done(s->call)) /* the runtime is closed: nothing will be posted */
        rc = tci_ask_end(&s->ask, s->call, err);
    if (rc < 0) {
        tci_free(s);
        return rc;
    }
    *ret_start = s;
    return 0;
}

int tci_device_start_end_own(tci_device_start *s, tc_err *err)
{
    int rc = tci_ask_end(&s->ask, s->call, err);
    if (rc == 0)
        rc = take_start(s, err);
    tci_free(s);
    return rc;
}

int tci_device_options_check(const tc_device_options *o, tc_err *err)
{
    if (o->size < sizeof *o)
        return tc_err_set(err, TC_E_INVALID, "options without their size");
    return 0;
}

static int give_up(tc_device *d, tci_conn *c, int rc)
{
    if (d != NULL) {
        tc_result_free(d->held);
        tci_runtime_release(d->rt);
        tci_free(d);
    }
    if (tci_link_is_in(&c->link))
        tci_conn_close(c);
    else
        c->v->free(c); /* it never began */
    return rc;
}

int tci_device_new_own(tc_runtime *rt, tci_conn *c, const tc_device_options *options,
                       tc_device **ret_device, tc_err *err)
{
    tc_device *d = tci_new(tc_device);
    if (d == NULL)
        return give_up(d, c, tci_err_no_memory(err));
    atomic_init(&d->refs, 1);
    d->rt = tci_runtime_retain(rt);
    d->conn = c;
    d->response_grace_ms = options->response_grace_ms > 0 ? options->response_grace_ms : GRACE_MS;
    int rc = tc_result_new(&d->held, err);
    if (rc == 0)
        rc = tc_result_dup(d->held, options->expected_device_id, &d->expected_device_id, err);
    if (rc < 0)
        return give_up(d, c, rc);
    *ret_device = d;
    return 0;
}

int64_t tci_device_initialize_ms(const tc_device_options *options)
{
    return options->initialize_timeout_ms > 0 ? options->initialize_timeout_ms : INITIALIZE_MS;
}

int tci_device_start_own(tc_runtime *rt, tci_conn *c, tc_ctx *ctx, const tc_device_options *options,
                         tc_device **ret_device, tc_err *err)
{
    tc_device *d = NULL;
    int rc = tci_device_new_own(rt, c, options, &d, err);
    if (rc < 0)
        return rc;
    rc = initialize(d, ctx, tci_device_initialize_ms(options), err);
    if (rc < 0) {
        tc_device_close(d);
        return rc;
    }
    *ret_device = d;
    return 0;
}

int tc_device_adopt_own(tc_runtime *rt, tc_ctx *ctx, int read_fd, int write_fd,
                        const tc_device_options *options, tc_device **ret_device, tc_err *err)
{
    tc_device_options none = {.size = sizeof none};
    const tc_device_options *o = options != NULL ? options : &none;
    tci_conn *c = NULL;
    int rc = tci_device_options_check(o, err);
    if (rc == 0)
        rc = tci_framed_open_own(rt, read_fd, write_fd, o, &c, err);
    else {
        if (write_fd != read_fd)
            tci_fd_close(&write_fd);
        tci_fd_close(&read_fd);
    }
    if (rc < 0)
        return rc;
    return tci_device_start_own(rt, c, ctx, o, ret_device, err);
}

/* ---- references and facts ---- */

tc_device *tc_device_retain(tc_device *d)
{
    atomic_fetch_add(&d->refs, 1);
    return d;
}

void tc_device_close(tc_device *d)
{
    if (d == NULL || atomic_fetch_sub(&d->refs, 1) != 1)
        return;
    tci_conn_close(d->conn);
    if (d->on_end != NULL)
        d->on_end(d->on_end_arg);
    tc_result_free(d->held);
    tci_runtime_release(d->rt);
    tci_free(d);
}

void tci_device_drop(tc_device *d)
{
    tci_conn *c = d->conn;
    tci_loop_assert(c->rt->loop);
    if (atomic_fetch_sub(&d->refs, 1) != 1)
        return;
    tci_link_remove(&c->link);
    c->v->free(c);
    tc_result_free(d->held);
    tci_runtime_release(d->rt);
    tci_free(d);
}

bool tc_device_is_alive(const tc_device *d)
{
    return atomic_load(&d->conn->is_alive);
}

const tc_device_info *tc_device_get_info(const tc_device *d)
{
    return &d->info;
}

bool tc_device_has_method(const tc_device *d, tc_str method)
{
    return tci_strs_has(&d->info.available_methods, method);
}

void tci_device_on_end(tc_device *d, void (*fn)(void *arg), void *arg)
{
    d->on_end = fn;
    d->on_end_arg = arg;
}

tc_runtime *tci_device_runtime(const tc_device *d)
{
    return d->rt;
}

/* ---- calls ---- */

int tc_device_describe(tc_device *d, const tc_call *call, tc_device_info *ret_info, tc_err *err)
{
    tci_eip_device_describe_params params = {0};
    tci_eip_device_describe_result res = {0};
    tci_ask ask = {.device = d,
                   .opts = call,
                   .method = TCI_EIP_DEVICE_DESCRIBE,
                   .params = &params,
                   .result = &res,
                   .limit_ms = DEVICE_CALL_MS};
    int rc = tci_ask_do(&ask, err);
    tc_device_info info = {0};
    if (rc == 0)
        rc = tci_to_device_info(&call->result->arena, &res.descriptor, &info, err);
    if (rc < 0)
        return rc;
    const char *fault = tci_methods_fault(&info.available_methods, false);
    if (fault == NULL &&
        (!tci_str_eq(info.device_id, d->info.device_id) || info.generation != d->info.generation))
        fault = "it became another device";
    if (fault == NULL && !tci_boundary_eq(&info.boundary, &d->info.boundary))
        fault = "its boundary changed";
    if (fault != NULL)
        return tci_ask_violation(&ask, err, fault);
    *ret_info = info;
    return 0;
}

int tc_device_list_directory(tc_device *d, const tc_call *call, tc_str path, uint64_t offset,
                             uint64_t limit, tc_directory_page *ret_page, tc_err *err)
{
    tci_eip_directory_list_params params = {
        .expected_device_id = d->info.device_id,
        .expected_generation = d->info.generation,
        .path = path,
        .offset = offset,
        .limit = limit > 0 ? limit : DIRECTORY_PAGE,
    };
    tci_eip_directory_list_result res = {0};
    tci_ask ask = {.device = d,
                   .opts = call,
                   .method = TCI_EIP_DIRECTORY_LIST,
                   .params = &params,
                   .result = &res,
                   .limit_ms = DEVICE_CALL_MS};
    int rc = tci_ask_do(&ask, err);
    if (rc < 0)
        return rc;
    tc_directory_entry *entries =
        tci_arena_items(&call->result->arena, tc_directory_entry, res.entries.count);
    if (entries == NULL)
        return tci_arena_error(&call->result->arena, err);
    for (size_t i = 0; i < res.entries.count; i++)
        entries[i] = (tc_directory_entry){res.entries.items[i].name, res.entries.items[i].path};
    *ret_page = (tc_directory_page){
        .path = res.path,
        .parent_path = res.parent_path,
        .entries = entries,
        .count = res.entries.count,
        .has_more = res.has_next_offset,
        .next_offset = res.next_offset,
    };
    return 0;
}

int tc_device_metrics(tc_device *d, const tc_call *call, tc_device_metrics_info *ret_metrics,
                      tc_err *err)
{
    tci_eip_device_metrics_params params = {
        .expected_device_id = d->info.device_id,
        .expected_generation = d->info.generation,
    };
    tci_eip_device_metrics_result res = {0};
    tci_ask ask = {.device = d,
                   .opts = call,
                   .method = TCI_EIP_DEVICE_METRICS,
                   .params = &params,
                   .result = &res,
                   .limit_ms = DEVICE_CALL_MS};
    int rc = tci_ask_do(&ask, err);
    if (rc < 0)
        return rc;
    tc_device_metrics_info out = {.sample_interval_ms = res.sample_interval_ms};
    if (res.has_sample) {
        out.has_sample = true;
        out.sequence = res.sample.sequence;
        out.sample_age_ms = res.sample.sample_age_ms;
        out.sampled_at = (tc_time){true, res.sample.sampled_at.nsec, res.sample.sampled_at.sec};
        tci_buf text;
        tci_buf_init(&text, TCI_BUF_MAX);
        tci_proto_encode(&tci_eip_metrics_sample_type, &res.sample, &text, 0);
        rc = tci_buf_error(&text, err);
        if (rc == 0)
            rc = tc_result_dup(call->result, tci_buf_str(&text), &out.sample_json, err);
        tci_buf_done(&text);
        if (rc < 0)
            return rc;
    }
    *ret_metrics = out;
    return 0;
}
