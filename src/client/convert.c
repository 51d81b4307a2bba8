/* SPDX-License-Identifier: Apache-2.0
 *
 * From the wire's generated structs to the public ones. Texts are not copied: both live in the same
 * result. Any thread. Invariant: an enum's unknown value cannot occur here, decoding refused it. */
#include "client/client_int.h"

static tc_time to_time(bool is_known, tci_instant t)
{
    return is_known ? (tc_time){true, t.nsec, t.sec} : (tc_time){false, 0, 0};
}

static tc_strs to_strs(tc_str *items, size_t count)
{
    return (tc_strs){.items = items, .count = count};
}

bool tci_strs_has(const tc_strs *list, tc_str s)
{
    for (size_t i = 0; i < list->count; i++)
        if (tci_str_eq(list->items[i], s))
            return true;
    return false;
}

/* ---- files ---- */

static tc_file_kind to_kind(tci_eip_entry_kind kind)
{
    switch (kind) {
    case TCI_EIP_ENTRY_KIND_FILE:
        return TC_FILE_REGULAR;
    case TCI_EIP_ENTRY_KIND_DIRECTORY:
        return TC_FILE_DIRECTORY;
    case TCI_EIP_ENTRY_KIND_SYMLINK:
        return TC_FILE_SYMLINK;
    case TCI_EIP_ENTRY_KIND_OTHER:
        break;
    }
    return TC_FILE_OTHER;
}

void tci_to_file_info(const tci_eip_file_info *in, tc_file_info *out)
{
    *out = (tc_file_info){
        .path = in->path.path,
        .kind = to_kind(in->kind),
        .has_size = in->has_size_bytes,
        .size_bytes = in->size_bytes,
        .has_executable = in->has_executable,
        .is_executable = in->executable,
        .modified_at = to_time(in->has_modified_at, in->modified_at),
    };
}

/* ---- commands ---- */

static tc_process_phase to_phase(tci_eip_process_phase phase)
{
    switch (phase) {
    case TCI_EIP_PROCESS_PHASE_STARTING:
        return TC_PROCESS_STARTING;
    case TCI_EIP_PROCESS_PHASE_RUNNING:
        return TC_PROCESS_RUNNING;
    case TCI_EIP_PROCESS_PHASE_EXITED:
        return TC_PROCESS_EXITED;
    case TCI_EIP_PROCESS_PHASE_SIGNALED:
        return TC_PROCESS_SIGNALED;
    case TCI_EIP_PROCESS_PHASE_TIMED_OUT:
        return TC_PROCESS_TIMED_OUT;
    case TCI_EIP_PROCESS_PHASE_CANCELLED:
        return TC_PROCESS_CANCELLED;
    case TCI_EIP_PROCESS_PHASE_FAILED:
        break;
    }
    return TC_PROCESS_FAILED;
}

static tc_termination to_termination(tci_eip_termination_reason reason)
{
    switch (reason) {
    case TCI_EIP_TERMINATION_REASON_EXIT:
        return TC_TERMINATION_EXIT;
    case TCI_EIP_TERMINATION_REASON_SIGNAL:
        return TC_TERMINATION_SIGNAL;
    case TCI_EIP_TERMINATION_REASON_TIMEOUT:
        return TC_TERMINATION_TIMEOUT;
    case TCI_EIP_TERMINATION_REASON_CANCELLED:
        return TC_TERMINATION_CANCELLED;
    case TCI_EIP_TERMINATION_REASON_OUTPUT_LIMIT:
        return TC_TERMINATION_OUTPUT_LIMIT;
    case TCI_EIP_TERMINATION_REASON_BACKEND_LOST:
        break;
    }
    return TC_TERMINATION_BACKEND_LOST;
}

int tci_signal_number(tc_signal s)
{
    enum { INT = 2, KILL = 9, TERM = 15 };
    switch (s) {
    case TC_SIGNAL_INTERRUPT:
        return INT;
    case TC_SIGNAL_TERMINATE:
        return TERM;
    case TC_SIGNAL_KILL:
        return KILL;
    case TC_SIGNAL_NONE:
        break;
    }
    return 0;
}

static tc_signal to_signal(tci_eip_process_signal sig)
{
    switch (sig) {
    case TCI_EIP_PROCESS_SIGNAL_INTERRUPT:
        return TC_SIGNAL_INTERRUPT;
    case TCI_EIP_PROCESS_SIGNAL_TERMINATE:
        return TC_SIGNAL_TERMINATE;
    case TCI_EIP_PROCESS_SIGNAL_KILL:
        break;
    }
    return TC_SIGNAL_KILL;
}

static tc_cleanup to_cleanup(tci_eip_cleanup_outcome cleanup)
{
    switch (cleanup) {
    case TCI_EIP_CLEANUP_OUTCOME_PENDING:
        return TC_CLEANUP_PENDING;
    case TCI_EIP_CLEANUP_OUTCOME_COMPLETE:
        return TC_CLEANUP_COMPLETE;
    case TCI_EIP_CLEANUP_OUTCOME_RESIDUAL_CONFINED:
        return TC_CLEANUP_RESIDUAL_CONFINED;
    case TCI_EIP_CLEANUP_OUTCOME_FAILED:
        break;
    }
    return TC_CLEANUP_FAILED;
}

void tci_to_status(const tci_eip_process_status *in, tc_process_status *out)
{
    *out = (tc_process_status){
        .phase = to_phase(in->phase),
        .termination = in->has_termination_reason ? to_termination(in->termination_reason)
                                                  : TC_TERMINATION_NONE,
        .has_exit_code = in->has_exit_code,
        .exit_code = in->exit_code,
        .signal = in->has_signal ? to_signal(in->signal) : TC_SIGNAL_NONE,
        .cleanup = to_cleanup(in->cleanup),
        .started_at = to_time(in->has_started_at, in->started_at),
        .ended_at = to_time(in->has_ended_at, in->ended_at),
    };
}

void tci_to_output(const tci_eip_output_info *in, tc_output *out)
{
    *out = (tc_output){
        .reference = in->reference,
        .is_producer_complete = in->producer_complete,
        .is_content_complete = in->content_complete,
        .produced_bytes = in->produced_bytes,
        .retained_bytes = in->retained_bytes,
        .preview = in->preview.data,
    };
}

void tci_to_process(const tci_eip_process_info *in, tc_process *out)
{
    *out = (tc_process){.handle = in->handle, .is_stdin_open = in->stdin_open};
    tci_to_status(&in->status, &out->status);
    tci_to_output(&in->output.stdout, &out->out);
    tci_to_output(&in->output.stderr, &out->err);
}

/* ---- receipts and ports ---- */

static tc_receipt_stage to_stage(tci_eip_receipt_stage stage)
{
    switch (stage) {
    case TCI_EIP_RECEIPT_STAGE_ACCEPTED:
        return TC_RECEIPT_ACCEPTED;
    case TCI_EIP_RECEIPT_STAGE_DISPATCHED:
        return TC_RECEIPT_DISPATCHED;
    case TCI_EIP_RECEIPT_STAGE_EXEC_CONFIRMED:
        return TC_RECEIPT_EXEC_CONFIRMED;
    case TCI_EIP_RECEIPT_STAGE_COMPLETED:
        return TC_RECEIPT_COMPLETED;
    case TCI_EIP_RECEIPT_STAGE_UNKNOWN:
        break;
    }
    return TC_RECEIPT_UNKNOWN;
}

static tc_receipt_outcome to_outcome(tci_eip_receipt_outcome outcome)
{
    switch (outcome) {
    case TCI_EIP_RECEIPT_OUTCOME_SUCCEEDED:
        return TC_RECEIPT_SUCCEEDED;
    case TCI_EIP_RECEIPT_OUTCOME_FAILED:
        return TC_RECEIPT_FAILED;
    case TCI_EIP_RECEIPT_OUTCOME_CANCELLED:
        return TC_RECEIPT_CANCELLED;
    case TCI_EIP_RECEIPT_OUTCOME_TIMED_OUT:
        return TC_RECEIPT_TIMED_OUT;
    case TCI_EIP_RECEIPT_OUTCOME_UNKNOWN:
        break;
    }
    return TC_RECEIPT_OUTCOME_UNKNOWN;
}

void tci_to_receipt(const tci_eip_operation_receipt *in, tc_receipt *out)
{
    *out = (tc_receipt){
        .operation_id = in->operation_id,
        .method = in->method,
        .device_id = in->device_id,
        .session_id = in->session_id,
        .generation = in->generation,
        .request_digest = in->request_digest,
        .stage = to_stage(in->stage),
        .outcome = in->has_outcome ? to_outcome(in->outcome) : TC_RECEIPT_OUTCOME_NONE,
        .observed_at = to_time(true, in->observed_at),
    };
}

void tci_to_port(const tci_eip_port_observation *in, tc_port *out)
{
    *out = (tc_port){
        .number = (uint16_t)in->target.port,
        .address = in->target.address == TCI_EIP_PORT_ADDRESS_ANY ? TC_PORT_ANY : TC_PORT_LOOPBACK,
        .observed_at = to_time(true, in->observed_at),
    };
    switch (in->status) {
    case TCI_EIP_PORT_STATUS_LISTENING:
        out->status = TC_PORT_LISTENING;
        break;
    case TCI_EIP_PORT_STATUS_NOT_LISTENING:
        out->status = TC_PORT_NOT_LISTENING;
        break;
    case TCI_EIP_PORT_STATUS_UNKNOWN:
        out->status = TC_PORT_UNKNOWN;
        break;
    }
}

/* ---- descriptors ---- */

void tci_to_limits(const tci_eip_limits *in, tc_limits *out)
{
    *out = (tc_limits){
        .max_request_bytes = in->max_request_bytes,
        .max_response_bytes = in->max_response_bytes,
        .max_concurrent_operations = in->max_concurrent_operations,
        .max_processes = in->max_processes,
        .max_operation_duration_ms = in->max_operation_duration_ms,
        .max_output_preview_bytes = in->max_output_preview_bytes,
        .max_output_bytes_per_stream = in->max_output_bytes_per_stream,
        .max_transfer_frame_bytes = in->max_transfer_frame_bytes,
        .max_concurrent_file_transfers = in->max_concurrent_file_transfers,
        .max_file_transfer_bytes = in->max_file_transfer_bytes,
        .max_file_bytes = in->max_file_bytes,
    };
}

static tc_egress_mode to_egress_mode(tci_eip_egress_mode mode)
{
    switch (mode) {
    case TCI_EIP_EGRESS_MODE_INHERIT:
        return TC_EGRESS_INHERIT;
    case TCI_EIP_EGRESS_MODE_DENY:
        return TC_EGRESS_DENY;
    case TCI_EIP_EGRESS_MODE_CONTROLLED:
        break;
    }
    return TC_EGRESS_CONTROLLED;
}

int tci_to_boundary(tci_arena *a, const tci_eip_execution_boundary *in, tc_boundary *out,
                    tc_err *err)
{
    *out = (tc_boundary){
        .has_identity = in->has_identity,
        .uid = in->identity.uid,
        .gid = in->identity.gid,
        .is_restricted = in->sandbox.mode == TCI_EIP_SANDBOX_POLICY_RESTRICTED,
        .egress = to_egress_mode(in->egress),
        .privilege_gain_blocked = in->privilege_gain_blocked,
        .backend = tci_eip_execution_backend_names[in->backend],
        .policy_digest = in->policy_digest,
    };
    if (!out->is_restricted)
        return 0;
    const tci_eip_sandbox_policy_restricted *r = &in->sandbox.u.restricted;
    tc_grant *grants = tci_arena_items(a, tc_grant, r->grants.count);
    if (grants == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < r->grants.count; i++)
        grants[i] = (tc_grant){
            .path = r->grants.items[i].path,
            .is_writable = r->grants.items[i].access == TCI_EIP_GRANT_ACCESS_READ_WRITE,
        };
    out->grants = grants;
    out->ngrants = r->grants.count;
    out->full_disk_read = r->full_disk_read;
    return 0;
}

int tci_to_egress(tci_arena *a, const tci_eip_egress_status *in, tc_egress_status *out, tc_err *err)
{
    *out = (tc_egress_status){.revision = in->revision, .nsecrets = in->secrets.count};
    if (in->destinations.mode == TCI_EIP_EGRESS_DESTINATIONS_ALLOWLIST) {
        out->destinations.is_allowlist = true;
        out->destinations.hosts = to_strs(in->destinations.u.allowlist.hosts.items,
                                          in->destinations.u.allowlist.hosts.count);
    }
    tc_egress_placeholder *list = tci_arena_items(a, tc_egress_placeholder, in->secrets.count);
    if (list == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < in->secrets.count; i++) {
        const tci_eip_egress_secret_status *s = &in->secrets.items[i];
        list[i] = (tc_egress_placeholder){
            .env = s->env,
            .sentinel = s->sentinel,
            .inject_hosts = to_strs(s->inject_hosts.items, s->inject_hosts.count),
        };
    }
    out->secrets = list;
    return 0;
}

int tci_to_device_info(tci_arena *a, const tci_eip_device_descriptor *in, tc_device_info *out,
                       tc_err *err)
{
    *out = (tc_device_info){
        .device_id = in->device_id,
        .generation = in->generation,
        .display_name = in->display_name,
        .description = in->description,
        .is_windows = in->path_style == TCI_EIP_PATH_STYLE_WINDOWS,
        .default_working_directory = in->default_working_directory,
        .can_list_directories = in->directory_discovery,
        .available_methods = to_strs(in->available_methods.items, in->available_methods.count),
        .idle_timeout_ms = in->lifecycle.idle_timeout_ms,
        .disconnect_grace_ms = in->lifecycle.disconnect_grace_ms,
    };
    if (in->has_system_info)
        out->system = (tc_system_info){
            .os = tci_eip_operating_system_names[in->system_info.os],
            .os_version = in->system_info.os_version,
            .kernel_version = in->system_info.kernel_version,
            .architecture = in->system_info.architecture,
            .cpu_model = in->system_info.cpu_model,
        };
    tci_to_limits(&in->limits, &out->limits);
    return tci_to_boundary(a, &in->boundary, &out->boundary, err);
}

int tci_to_session_info(tci_arena *a, const tci_eip_session_descriptor *in, tc_session_info *out,
                        tc_err *err)
{
    *out = (tc_session_info){
        .device_id = in->device_id,
        .session_id = in->session_id,
        .generation = in->generation,
        .working_directory = in->working_directory,
        .available_methods = to_strs(in->available_methods.items, in->available_methods.count),
        .nprofiles = in->shell_profiles.count,
        .can_interrupt = in->execution_features.signal_interrupt,
        .can_terminate = in->execution_features.signal_terminate,
        .idle_timeout_ms = in->lifecycle.idle_timeout_ms,
        .disconnect_grace_ms = in->lifecycle.disconnect_grace_ms,
        .has_egress = in->has_egress,
    };
    tc_shell_profile *profiles = tci_arena_items(a, tc_shell_profile, in->shell_profiles.count);
    if (profiles == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < in->shell_profiles.count; i++) {
        const tci_eip_shell_profile *p = &in->shell_profiles.items[i];
        profiles[i] = (tc_shell_profile){
            .profile_id = p->profile_id,
            .display_name = p->display_name,
            .supports_login = p->supports_login_mode,
            .max_script_bytes = p->max_script_bytes,
        };
    }
    out->profiles = profiles;
    tci_to_limits(&in->limits, &out->limits);
    if (in->has_egress && tci_to_egress(a, &in->egress, &out->egress, err) < 0)
        return err->code;
    return tci_to_boundary(a, &in->boundary, &out->boundary, err);
}
