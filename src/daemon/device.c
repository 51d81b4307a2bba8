/* SPDX-License-Identifier: Apache-2.0
 *
 * Making the device and its descriptions, and ending it. Leaves sessions to session.c.
 *
 * Invariant: descriptor and session_descriptor are complete before the first request and never
 * change. */
#include "daemon/device.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/num.h"
#include "daemon/command.h"
#include "daemon/metrics.h"
#include "daemon/sysinfo.h"
#include "daemon/totals.h"
#include "plat/clock.h"
#include "plat/file.h"

#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP_MS = 100 };

static const char *const handle_prefix[TCI_HANDLE_KINDS] = {
    [TCI_HANDLE_SESSION] = "session", [TCI_HANDLE_PROCESS] = "process",
    [TCI_HANDLE_OUTPUT] = "output",   [TCI_HANDLE_READER] = "reader",
    [TCI_HANDLE_WRITER] = "writer",
};

size_t tci_device_handle(tci_device *d, tci_handle_kind kind, char out[TCI_HANDLE_TEXT_MAX])
{
    int n = snprintf(out, TCI_HANDLE_TEXT_MAX, "%s-%s-%llu", handle_prefix[kind],
                     d->generation_text, (unsigned long long)++d->next_handle[kind]);
    return (size_t)n;
}

bool tci_device_offers(const tci_device *d, const tci_method *m)
{
    switch (m->feature) {
    case TCI_FEATURE_ALWAYS:
        return true;
    case TCI_FEATURE_DIRECTORIES:
        return d->config->directory_discovery;
    case TCI_FEATURE_MONITORING:
        return d->config->has_monitoring;
    case TCI_FEATURE_COMMANDS:
    case TCI_FEATURE_SIGNALS:
        return d->config->has_commands;
    case TCI_FEATURE_COMPUTER:
    case TCI_FEATURE_EGRESS:
        return false;
    }
    return false;
}

/* ---- descriptions ---- */

static int compare_names(const void *a, const void *b)
{
    return tci_str_cmp(*(const tc_str *)a, *(const tc_str *)b);
}

static int list_methods(tci_device *d, bool sessions_only, tc_str **ret_items, size_t *ret_count,
                        tc_err *err)
{
    size_t n = 0;
    tc_str *items = tci_arena_items(&d->arena, tc_str, TCI_EIP_METHOD_COUNT);
    if (items == NULL)
        return tci_arena_error(&d->arena, err);
    for (size_t i = 0; i < TCI_EIP_METHOD_COUNT; i++) {
        const tci_method *m = &tci_eip_methods[i];
        if (tci_device_offers(d, m) && (!sessions_only || m->scope == TCI_SCOPE_SESSION))
            items[n++] = m->name;
    }
    qsort(items, n, sizeof items[0], compare_names);
    *ret_items = items;
    *ret_count = n;
    return 0;
}

static int describe_boundary(tci_device *d, tci_eip_execution_boundary *b, tc_err *err)
{
    uint8_t digest[TCI_SHA256_BYTES];
    tci_eip_boundary_content content = {
        .has_identity = true,
        .identity = {.uid = tci_file_euid(), .gid = tci_file_egid()},
        .sandbox = {.mode = TCI_EIP_SANDBOX_POLICY_DISABLED},
        .egress = TCI_EIP_EGRESS_MODE_INHERIT,
        .backend = TCI_EIP_EXECUTION_BACKEND_NATIVE,
    };
    tci_buf *text = &d->scratch;
    tci_buf_clear(text);
    tci_proto_encode(&tci_eip_boundary_content_type, &content, text, 0);
    char *hex = tci_arena_bytes(&d->arena, TCI_SHA256_HEX);
    if (!tci_buf_ok(text) || hex == NULL)
        return tci_err_no_memory(err);
    tci_sha256_of(tci_buf_str(text), digest);
    tci_hex(digest, sizeof digest, hex);
    *b = (tci_eip_execution_boundary){.has_identity = true,
                                      .identity = content.identity,
                                      .sandbox = content.sandbox,
                                      .egress = content.egress,
                                      .backend = content.backend,
                                      .policy_digest = tci_str_of(hex, TCI_SHA256_HEX)};
    return 0;
}

static tci_eip_limits wire_limits(const tci_limits *l)
{
    return (tci_eip_limits){
        .max_request_bytes = l->max_request_bytes,
        .max_response_bytes = l->max_response_bytes,
        .max_concurrent_operations = l->max_concurrent_operations,
        .max_processes = l->max_processes,
        .max_operation_duration_ms = l->max_operation_duration_ms,
        .max_output_preview_bytes = l->max_output_preview_bytes,
        .max_output_bytes_per_stream = l->max_output_bytes_per_stream,
        .max_transfer_frame_bytes = l->max_transfer_frame_bytes,
        .max_concurrent_file_transfers = l->max_concurrent_file_transfers,
        .max_file_transfer_bytes = l->max_staged_file_bytes,
        .max_file_bytes = l->max_file_bytes,
    };
}

static int describe_profiles(tci_device *d, tci_eip_session_descriptor *sd, tc_err *err)
{
    const tci_config *c = d->config;
    if (c->nprofiles == 0)
        return 0;
    sd->shell_profiles.items = tci_arena_items(&d->arena, tci_eip_shell_profile, c->nprofiles);
    if (sd->shell_profiles.items == NULL)
        return tci_arena_error(&d->arena, err);
    sd->shell_profiles.count = c->nprofiles;
    for (size_t i = 0; i < c->nprofiles; i++) {
        const tci_shell_profile *p = &c->profiles[i];
        sd->shell_profiles.items[i] =
            (tci_eip_shell_profile){.profile_id = p->id,
                                    .display_name = p->display_name,
                                    .supports_login_mode = p->allows_login,
                                    .max_script_bytes = p->max_script_bytes};
    }
    return 0;
}

static int describe(tci_device *d, tc_err *err)
{
    const tci_config *c = d->config;
    tci_eip_device_descriptor *dd = &d->descriptor;
    tci_eip_session_descriptor *sd = &d->session_descriptor;
    dd->device_id = sd->device_id = d->id;
    dd->generation = sd->generation = d->generation;
    dd->has_display_name = c->name.len > 0;
    dd->display_name = c->name;
    dd->has_description = c->description.len > 0;
    dd->description = c->description;
    dd->path_style = TCI_EIP_PATH_STYLE_POSIX;
    dd->default_working_directory = c->default_working_directory;
    dd->directory_discovery = c->directory_discovery;
    dd->limits = sd->limits = wire_limits(&c->limits);
    dd->lifecycle.idle_timeout_ms = sd->lifecycle.idle_timeout_ms = c->idle_timeout_ms;
    dd->lifecycle.disconnect_grace_ms = sd->lifecycle.disconnect_grace_ms = c->disconnect_grace_ms;
    dd->has_system_info = true;
    tci_sysinfo(&d->arena, &dd->system_info);
    sd->execution_features.signal_interrupt = c->has_commands;
    sd->execution_features.signal_terminate = c->has_commands;
    if (describe_boundary(d, &dd->boundary, err) < 0)
        return err->code;
    sd->boundary = dd->boundary;
    if (list_methods(d, false, &dd->available_methods.items, &dd->available_methods.count, err) <
            0 ||
        list_methods(d, true, &sd->available_methods.items, &sd->available_methods.count, err) < 0)
        return err->code;
    return describe_profiles(d, sd, err);
}

/* ---- life ---- */

static void new_generation(tci_device *d)
{
    while (d->generation == 0)
        tci_random_bytes(&d->generation, sizeof d->generation);
    size_t n = tci_num_base36_text(d->generation, d->generation_text);
    d->generation_text[n] = '\0';
    tci_random_bytes(&d->map_seed, sizeof d->map_seed);
}

/* What commands need is made when the first requests are answered: it also ends what the commands of a
 * daemon that was killed have left running. A failure shows with the first command. */
static void on_warm_up(tci_timer *t)
{
    tc_err err;
    tci_command_host *host;
    if (tci_command_host_get(TCI_CONTAINER(t, tci_device, warm_up), &host, &err) < 0)
        tci_log(TCI_LOG_DEBUG, "%s", err.msg);
}

static int prepare(tci_device *d, tc_err *err)
{
    const tci_config *c = d->config;
    d->id = c->device_id;
    if (d->id.len == 0 && tci_device_identity(c->state_dir, &d->arena, &d->id, err) < 0)
        return err->code;
    d->runtime = c->runtime;
    if (d->runtime == NULL && tci_runtime_dir_open(c->runtime_dir, &d->runtime, err) < 0)
        return err->code;
    if (describe(d, err) < 0)
        return err->code;
    if (tci_totals_new(d, &d->totals, err) < 0)
        return err->code;
    if (c->has_commands && tci_timer_start(&d->warm_up, WARM_UP_MS, err) < 0)
        return err->code;
    return c->has_monitoring ? tci_metrics_new(d, &d->metrics, err) : 0;
}

int tci_device_new(tci_loop *loop, const tci_config *config, tci_device **ret, tc_err *err)
{
    tci_device *d = tci_new(tci_device);
    if (d == NULL)
        return tci_err_no_memory(err);
    d->loop = loop;
    d->config = config;
    new_generation(d);
    tci_timer_init(&d->warm_up, loop, on_warm_up);
    tci_arena_init(&d->arena, 0);
    tci_buf_init(&d->scratch, TCI_BUF_MAX);
    tci_map_init(&d->sessions, d->map_seed);
    tci_list_init(&d->session_list);
    tci_list_init(&d->carriers);
    tci_list_init(&d->requests);
    tci_list_init(&d->free_reqs);
    d->spool = (tci_spool_quota){.max_bytes = config->limits.max_device_spool_bytes,
                                 .max_objects = config->limits.max_device_spool_objects};
    if (prepare(d, err) < 0) {
        tci_device_free(d);
        return err->code;
    }
    *ret = d;
    return 0;
}

void tci_device_free(tci_device *d)
{
    if (d == NULL)
        return;
    TC_ASSERT(d->nsessions == 0);
    for (tci_link *k; (k = tci_list_pop_front(&d->free_reqs)) != NULL;) {
        tci_req *r = TCI_CONTAINER(k, tci_req, link);
        tci_arena_done(&r->arena);
        tci_free(r);
    }
    tci_timer_stop(&d->warm_up);
    tci_totals_free(d->totals);
    tci_metrics_free(d->metrics);
    tci_command_host_free(d->commands);
    tci_runtime_dir_close(d->runtime);
    tci_map_done(&d->sessions);
    tci_mounts_done(&d->mounts);
    tci_buf_done(&d->scratch);
    tci_arena_done(&d->arena);
    tci_free(d);
}

/* ---- drain ---- */

typedef struct drain_closer {
    tci_session_closer base;
    tci_drain *drain;
} drain_closer;

static void one_less(tci_drain *drain, bool is_clean)
{
    drain->is_clean = drain->is_clean && is_clean;
    if (--drain->nwaiting == 0)
        drain->done(drain, drain->is_clean);
}

static void session_closed(tci_session_closer *base, bool is_clean)
{
    drain_closer *c = TCI_CONTAINER(base, drain_closer, base);
    tci_drain *drain = c->drain;
    tci_free(c);
    one_less(drain, is_clean);
}

static void close_for_drain(tci_session *s, tci_drain *drain)
{
    drain_closer *c = tci_new(drain_closer);
    if (c == NULL) { /* closed all the same, only not waited for */
        drain->is_clean = false;
        tci_session_close(s, NULL);
        return;
    }
    c->base.done = session_closed;
    c->drain = drain;
    drain->nwaiting++;
    tci_session_close(s, &c->base);
}

void tci_device_drain(tci_device *d, tci_drain *drain)
{
    d->is_draining = true;
    drain->nwaiting = 1;
    drain->is_clean = true;
    TCI_LIST_EACH (&d->session_list, k)
        close_for_drain(TCI_CONTAINER(k, tci_session, link), drain);
    one_less(drain, true);
}
