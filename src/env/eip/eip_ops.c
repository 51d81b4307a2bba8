/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of an adapter over EIP that are one session method each. Running commands to their end
 * is in eip_run.c. The caller's thread. */
#include "env/env_int.h"

static tc_session *session_of(tc_env *env)
{
    return TCI_CONTAINER(env, tci_eip_env, base)->session;
}

int tci_eip_stat(tc_env *env, const tc_call *call, tc_str path, bool follow_symlink,
                 tc_file_info *ret_info, tc_err *err)
{
    return tc_session_stat(session_of(env), call, path, follow_symlink, ret_info, err);
}

int tci_eip_list(tc_env *env, const tc_call *call, tc_str path, const tc_list_options *options,
                 tc_file_page *ret_page, tc_err *err)
{
    return tc_session_list(session_of(env), call, path, options, ret_page, err);
}

int tci_eip_find(tc_env *env, const tc_call *call, tc_str root, tc_str pattern,
                 const tc_find_options *options, tc_file_page *ret_page, tc_err *err)
{
    return tc_session_find(session_of(env), call, root, pattern, options, ret_page, err);
}

int tci_eip_search(tc_env *env, const tc_call *call, tc_str root, tc_str query,
                   const tc_search_options *options, tc_search_page *ret_page, tc_err *err)
{
    return tc_session_search(session_of(env), call, root, query, options, ret_page, err);
}

int tci_eip_read_text(tc_env *env, const tc_call *call, tc_str path,
                      const tc_read_text_options *options, tc_text_page *ret_page, tc_err *err)
{
    return tc_session_read_text(session_of(env), call, path, options, ret_page, err);
}

int tci_eip_read_stream(tc_env *env, const tc_call *call, tc_str path, const tc_range *range,
                        tc_sink sink, void *user, tc_transfer *ret_transfer, tc_err *err)
{
    return tc_session_download(session_of(env), call, path, range, sink, user, ret_transfer, err);
}

int tci_eip_write_text(tc_env *env, const tc_call *call, tc_str path, tc_str text,
                       const tc_write_options *options, tc_file_info *ret_info, tc_err *err)
{
    return tc_session_write_text(session_of(env), call, path, text, options, ret_info, err);
}

int tci_eip_write_stream(tc_env *env, const tc_call *call, tc_str path,
                         const tc_write_options *options, tc_source source, void *user,
                         tc_transfer *ret_transfer, tc_err *err)
{
    return tc_session_upload(session_of(env), call, path, options, source, user, ret_transfer, err);
}

/* Every write of this kind is on stable storage when it is answered. */
int tci_eip_sync(tc_env *env, const tc_call *call, tc_str path, tc_err *err)
{
    tc_file_info info;
    return tci_eip_stat(env, call, path, true, &info, err);
}

int tci_eip_patch(tc_env *env, const tc_call *call, tc_str path, tc_str patch, uint64_t *ret_nhunks,
                  tc_file_info *ret_info, tc_err *err)
{
    return tc_session_patch_text(session_of(env), call, path, patch, ret_nhunks, ret_info, err);
}

int tci_eip_mkdir(tc_env *env, const tc_call *call, tc_str path, bool with_parents, bool exist_ok,
                  tc_err *err)
{
    return tc_session_mkdir(session_of(env), call, path, with_parents, exist_ok, NULL, NULL, err);
}

int tci_eip_copy(tc_env *env, const tc_call *call, tc_str source, tc_str destination, bool replace,
                 tc_file_info *ret_info, tc_err *err)
{
    return tc_session_copy(session_of(env), call, source, destination, replace, NULL, ret_info,
                           err);
}

int tci_eip_move(tc_env *env, const tc_call *call, tc_str source, tc_str destination, bool replace,
                 tc_file_info *ret_info, tc_err *err)
{
    return tc_session_move(session_of(env), call, source, destination, replace, ret_info, err);
}

int tci_eip_remove(tc_env *env, const tc_call *call, tc_str path, tc_file_kind kind,
                   bool is_recursive, uint64_t max_entries, uint64_t *ret_nremoved, tc_err *err)
{
    return tc_session_remove(session_of(env), call, path, kind, is_recursive, max_entries,
                             ret_nremoved, err);
}

int tci_eip_process_start(tc_env *env, const tc_call *call, const tc_command *command,
                          tc_process *ret_process, tc_err *err)
{
    tci_eip_env *e = TCI_CONTAINER(env, tci_eip_env, base);
    unsigned started = atomic_load(&e->ncleanups);
    int rc = tc_session_process_start(e->session, call, command, ret_process, err);
    if (rc < 0)
        return rc;
    tci_eip_track_process(e, ret_process->handle, started);
    return 0;
}

int tci_eip_process_inspect(tc_env *env, const tc_call *call, tc_str handle,
                            tc_process *ret_process, tc_err *err)
{
    return tc_session_process_inspect(session_of(env), call, handle, ret_process, err);
}

int tci_eip_process_wait(tc_env *env, const tc_call *call, tc_str handle, bool tree_cleaned,
                         tc_process *ret_process, tc_err *err)
{
    return tc_session_process_wait(session_of(env), call, handle, tree_cleaned, ret_process, err);
}

int tci_eip_process_write(tc_env *env, const tc_call *call, tc_str handle, tc_str data,
                          bool close_after, uint64_t *ret_naccepted, tc_err *err)
{
    return tc_session_process_write(session_of(env), call, handle, data, close_after, ret_naccepted,
                                    err);
}

int tci_eip_process_signal(tc_env *env, const tc_call *call, tc_str handle, tc_signal sig,
                           bool *ret_accepted, tc_err *err)
{
    return tc_session_process_signal(session_of(env), call, handle, sig, ret_accepted, NULL, err);
}

int tci_eip_process_kill(tc_env *env, const tc_call *call, tc_str handle, tc_process *ret_process,
                         tc_err *err)
{
    return tc_session_process_kill(session_of(env), call, handle, ret_process, err);
}

/* Its two outputs are freed with it; the evidence is that of the release. */
int tci_eip_process_release(tc_env *env, const tc_call *call, tc_str handle, tc_err *err)
{
    tci_eip_env *e = TCI_CONTAINER(env, tci_eip_env, base);
    tc_result *aux = NULL;
    tc_process p;
    int rc = tc_result_new(&aux, err);
    if (rc < 0)
        return rc;
    tc_call look = TC_CALL(call->ctx, aux);
    rc = tc_session_process_inspect(e->session, &look, handle, &p, err);
    if (rc == 0)
        rc = tc_session_process_release(e->session, call, handle, err);
    if (rc == 0) {
        tc_err ignored; /* the daemon drops them later by itself */
        tci_eip_untrack_handle(e, handle);
        int freed = tc_session_output_release(e->session, &look, p.out.reference, &ignored);
        freed |= tc_session_output_release(e->session, &look, p.err.reference, &ignored);
        TCI_UNUSED(freed);
    }
    tc_result_free(aux);
    return rc;
}

int tci_eip_output_read(tc_env *env, const tc_call *call, tc_str reference, uint64_t start_offset,
                        uint64_t wait_ms, tc_output_page *ret_page, tc_err *err)
{
    return tc_session_output_read(session_of(env), call, reference, start_offset, wait_ms, ret_page,
                                  err);
}

int tci_eip_port_inspect(tc_env *env, const tc_call *call, uint16_t port, tc_port_address address,
                         tc_port *ret_port, tc_err *err)
{
    return tc_session_port_inspect(session_of(env), call, port, address, ret_port, err);
}

int tci_eip_port_wait(tc_env *env, const tc_call *call, uint16_t port, tc_port_address address,
                      tc_port_status desired, tc_port *ret_port, tc_err *err)
{
    return tc_session_port_wait(session_of(env), call, port, address, desired, ret_port, err);
}

int tci_eip_reconcile(tc_env *env, const tc_call *call, tc_str operation_id,
                      tc_outcome *ret_outcome, tc_receipt *ret_receipt, tc_err *err)
{
    return tc_session_reconcile(session_of(env), call, operation_id, ret_outcome, ret_receipt, err);
}
