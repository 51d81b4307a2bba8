/* SPDX-License-Identifier: Apache-2.0
 *
 * What only EIP has, for environments over pi-env: an EIP environment on the device behind the same
 * connection, opened when it is first needed and again after the link was lost. The caller's thread.
 * Invariant: what belongs to a lost session (handles of processes) stays lost. */
#include "env/pi/pi_int.h"

static int leave(tc_env *eip, int rc)
{
    tci_penv_eip_leave(eip);
    return rc;
}

static bool is_alive(tc_env *eip)
{
    return tc_session_is_alive(TCI_CONTAINER(eip, tci_eip_env, base)->session);
}

/* The one there is, when it still lives; the caller's reference. */
static tc_env *current(tci_penv *e)
{
    tc_env *old = NULL;
    tci_mutex_lock(&e->base.lock);
    tc_env *eip = e->eip;
    if (eip != NULL && is_alive(eip)) {
        tc_env_retain(eip);
    } else {
        old = eip;
        eip = e->eip = NULL;
    }
    tci_mutex_unlock(&e->base.lock);
    tc_env_release(old);
    return eip;
}

/* Keep ours, or use what another thread has made meanwhile. */
static tc_env *settle(tci_penv *e, tc_env *made)
{
    tc_env *unused = NULL;
    tci_mutex_lock(&e->base.lock);
    if (e->eip != NULL && is_alive(e->eip)) {
        unused = made;
        made = e->eip;
    } else {
        unused = e->eip;
        e->eip = made;
    }
    tc_env_retain(made);
    tci_mutex_unlock(&e->base.lock);
    tc_env_release(unused);
    return made;
}

static int open_eip(tci_penv *e, const tc_call *call, tc_env **ret_eip, tc_err *err)
{
    tc_device *device = NULL;
    tc_env *made = NULL;
    tc_env_options options = {.size = sizeof options,
                              .environment_id = e->base.id,
                              .working_directory = tci_env_cwd_now(&e->base)};
    int rc = tci_pi_device(e->pi, call->ctx, NULL, &device, err);
    if (rc == 0)
        rc = tc_env_create_on_device(device, &options, &made, err);
    if (rc == 0)
        rc = tc_env_ready(made, call->ctx, err);
    if (device != NULL)
        tc_device_close(device); /* our reference only */
    if (rc == 0)
        *ret_eip = settle(e, made);
    else
        tc_env_release(made);
    return rc;
}

int tci_penv_eip_enter(tc_env *env, const tc_call *call, tc_env **ret_eip, tc_err *err)
{
    tci_penv *e = tci_penv_of(env);
    tc_env *eip = current(e);
    int rc = eip != NULL ? 0 : open_eip(e, call, &eip, err);
    if (rc < 0)
        return rc;
    rc = tci_env_enter(eip, err);
    if (rc == 0)
        *ret_eip = eip;
    else
        tc_env_release(eip);
    return rc;
}

void tci_penv_eip_leave(tc_env *eip)
{
    tci_env_leave(eip);
    tc_env_release(eip);
}

/* ---- the operations ---- */

int tci_penv_list(tc_env *env, const tc_call *call, tc_str path, const tc_list_options *options,
                  tc_file_page *ret_page, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc : leave(eip, eip->v->list(eip, call, path, options, ret_page, err));
}

int tci_penv_find_files(tc_env *env, const tc_call *call, tc_str root, tc_str pattern,
                        const tc_find_options *options, tc_file_page *ret_page, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc : leave(eip, eip->v->find(eip, call, root, pattern, options, ret_page, err));
}

int tci_penv_search(tc_env *env, const tc_call *call, tc_str root, tc_str query,
                    const tc_search_options *options, tc_search_page *ret_page, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc : leave(eip, eip->v->search(eip, call, root, query, options, ret_page, err));
}

int tci_penv_read_text(tc_env *env, const tc_call *call, tc_str path,
                       const tc_read_text_options *options, tc_text_page *ret_page, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc : leave(eip, eip->v->read_text(eip, call, path, options, ret_page, err));
}

int tci_penv_patch(tc_env *env, const tc_call *call, tc_str path, tc_str patch,
                   uint64_t *ret_nhunks, tc_file_info *ret_info, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc
                  : leave(eip, eip->v->patch(eip, call, path, patch, ret_nhunks, ret_info, err));
}

int tci_penv_mkdir(tc_env *env, const tc_call *call, tc_str path, bool with_parents, bool exist_ok,
                   tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc : leave(eip, eip->v->mkdir(eip, call, path, with_parents, exist_ok, err));
}

int tci_penv_copy(tc_env *env, const tc_call *call, tc_str source, tc_str destination, bool replace,
                  tc_file_info *ret_info, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0
               ? rc
               : leave(eip, eip->v->copy(eip, call, source, destination, replace, ret_info, err));
}

int tci_penv_move(tc_env *env, const tc_call *call, tc_str source, tc_str destination, bool replace,
                  tc_file_info *ret_info, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0
               ? rc
               : leave(eip, eip->v->move(eip, call, source, destination, replace, ret_info, err));
}

int tci_penv_remove(tc_env *env, const tc_call *call, tc_str path, tc_file_kind kind,
                    bool is_recursive, uint64_t max_entries, uint64_t *ret_nremoved, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc
                  : leave(eip, eip->v->remove(eip, call, path, kind, is_recursive, max_entries,
                                              ret_nremoved, err));
}

int tci_penv_process_start(tc_env *env, const tc_call *call, const tc_command *command,
                           tc_process *ret_process, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc : leave(eip, eip->v->process_start(eip, call, command, ret_process, err));
}

int tci_penv_process_inspect(tc_env *env, const tc_call *call, tc_str handle,
                             tc_process *ret_process, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc : leave(eip, eip->v->process_inspect(eip, call, handle, ret_process, err));
}

int tci_penv_process_wait(tc_env *env, const tc_call *call, tc_str handle, bool tree_cleaned,
                          tc_process *ret_process, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc
                  : leave(eip,
                          eip->v->process_wait(eip, call, handle, tree_cleaned, ret_process, err));
}

int tci_penv_process_write(tc_env *env, const tc_call *call, tc_str handle, tc_str data,
                           bool close_after, uint64_t *ret_naccepted, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc
                  : leave(eip, eip->v->process_write(eip, call, handle, data, close_after,
                                                     ret_naccepted, err));
}

int tci_penv_process_signal(tc_env *env, const tc_call *call, tc_str handle, tc_signal sig,
                            bool *ret_accepted, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc
                  : leave(eip, eip->v->process_signal(eip, call, handle, sig, ret_accepted, err));
}

int tci_penv_process_kill(tc_env *env, const tc_call *call, tc_str handle, tc_process *ret_process,
                          tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc : leave(eip, eip->v->process_kill(eip, call, handle, ret_process, err));
}

int tci_penv_process_release(tc_env *env, const tc_call *call, tc_str handle, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc : leave(eip, eip->v->process_release(eip, call, handle, err));
}

int tci_penv_output_read(tc_env *env, const tc_call *call, tc_str reference, uint64_t start_offset,
                         uint64_t wait_ms, tc_output_page *ret_page, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc
                  : leave(eip, eip->v->output_read(eip, call, reference, start_offset, wait_ms,
                                                   ret_page, err));
}

int tci_penv_port_inspect(tc_env *env, const tc_call *call, uint16_t port, tc_port_address address,
                          tc_port *ret_port, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc : leave(eip, eip->v->port_inspect(eip, call, port, address, ret_port, err));
}

int tci_penv_port_wait(tc_env *env, const tc_call *call, uint16_t port, tc_port_address address,
                       tc_port_status desired, tc_port *ret_port, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc
                  : leave(eip, eip->v->port_wait(eip, call, port, address, desired, ret_port, err));
}

int tci_penv_reconcile(tc_env *env, const tc_call *call, tc_str operation_id,
                       tc_outcome *ret_outcome, tc_receipt *ret_receipt, tc_err *err)
{
    tc_env *eip;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    return rc < 0 ? rc
                  : leave(eip, eip->v->reconcile(eip, call, operation_id, ret_outcome, ret_receipt,
                                                 err));
}
