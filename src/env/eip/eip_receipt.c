/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking a device what became of a change that an earlier program made through a session of its own.
 * Nothing is repeated, and that session is left as it was. The caller's thread.
 *
 * To keep: only a receipt of the same device and generation says that something was done. */
#include "env/eip/eip_int.h"

static int ask_earlier(tci_eip_env *e, const tc_call *call, const tci_env_operation *o,
                       tc_outcome *ret_outcome, tc_receipt *ret_receipt, tc_err *err)
{
    tc_session *earlier;
    int rc = tc_session_attach(e->device, call->ctx, o->session_id, o->generation, &earlier, err);
    if (rc < 0)
        return rc;
    rc = tc_session_reconcile(earlier, call, o->operation_id, ret_outcome, ret_receipt, err);
    tc_session_detach(earlier);
    return rc;
}

int tci_env_ask_operation(tc_env *env, const tc_call *call, const tci_env_operation *o,
                          tc_outcome *ret_outcome, tc_receipt *ret_receipt, tc_err *err)
{
    int rc = tci_env_enter(env, err);
    if (rc < 0)
        return rc;
    *ret_outcome = TC_OUTCOME_UNKNOWN;
    *ret_receipt = (tc_receipt){0};
    if (env->v->reconcile == tci_eip_reconcile && tci_str_eq(env->device_id, o->device_id) &&
        env->generation == o->generation) {
        tci_eip_env *e = TCI_CONTAINER(env, tci_eip_env, base);
        rc = tci_str_eq(env->session_id, o->session_id)
                 ? tci_eip_reconcile(env, call, o->operation_id, ret_outcome, ret_receipt, err)
                 : ask_earlier(e, call, o, ret_outcome, ret_receipt, err);
    }
    tci_env_leave(env);
    return rc;
}

bool tci_env_has_receipts(const tc_env *env)
{
    return env->v->reconcile == tci_eip_reconcile &&
           !tci_str_eq(env->provider, TC_STR("local_envd")) && env->session_id.len > 0;
}
