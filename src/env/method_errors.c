/* SPDX-License-Identifier: Apache-2.0
 *
 * How ExecutionEnv methods fail: the interface's words beside our codes, and the frame that every
 * method begins and ends with. The caller's thread. Invariant: a failed method leaves a word, and
 * the path it is about, in the evidence; a successful one leaves neither. */
#include "env/methods_int.h"

const char *tc_env_error_name(tc_env_error error)
{
    static const char *const names[] = {
        [TC_ENV_OK] = "",
        [TC_ENV_ABORTED] = "aborted",
        [TC_ENV_NOT_FOUND] = "not_found",
        [TC_ENV_PERMISSION_DENIED] = "permission_denied",
        [TC_ENV_NOT_DIRECTORY] = "not_directory",
        [TC_ENV_IS_DIRECTORY] = "is_directory",
        [TC_ENV_INVALID] = "invalid",
        [TC_ENV_NOT_SUPPORTED] = "not_supported",
        [TC_ENV_UNKNOWN] = "unknown",
        [TC_ENV_TIMEOUT] = "timeout",
        [TC_ENV_SHELL_UNAVAILABLE] = "shell_unavailable",
        [TC_ENV_SPAWN_ERROR] = "spawn_error",
        [TC_ENV_CALLBACK_ERROR] = "callback_error",
    };
    size_t i = (size_t)error;
    return i < TCI_ARRAY_LEN(names) ? names[i] : "unknown";
}

tc_evidence *tci_env_evidence(const tc_call *call)
{
    return (tc_evidence *)(uintptr_t)tc_result_evidence(call->result); /* the result is ours */
}

void tci_env_blame(const tc_call *call, tc_env_error word, tc_str about)
{
    tc_evidence *e = tci_env_evidence(call);
    tc_err ignored; /* without memory the failure is told without its path */
    e->env_error = word;
    if (tc_result_dup(call->result, about, &e->path, &ignored) < 0)
        e->path = (tc_str){0};
}

tc_env_error tci_env_word_of(int code)
{
    switch (code) {
    case TC_E_CANCELLED:
    case TC_E_TIMEOUT:
        return TC_ENV_ABORTED;
    case TC_E_NOT_FOUND:
        return TC_ENV_NOT_FOUND;
    case TC_E_DENIED:
        return TC_ENV_PERMISSION_DENIED;
    case TC_E_INVALID:
        return TC_ENV_INVALID;
    case TC_E_UNSUPPORTED:
        return TC_ENV_NOT_SUPPORTED;
    default: /* of many: whatever else went wrong */
        return TC_ENV_UNKNOWN;
    }
}

int tci_env_check_abort(const tc_call *call, tc_str about, tc_err *err)
{
    int rc = tci_ctx_check(call->ctx, err);
    if (rc < 0)
        tci_env_blame(call, TC_ENV_ABORTED, about);
    return rc;
}

int tci_env_begin(tc_env *env, const tc_call *call, bool is_change, tc_err *err)
{
    if (call == NULL || call->size < sizeof *call || call->result == NULL)
        return tc_err_set(err, TC_E_INVALID, "a call needs its size and a result");
    tci_result_reset_evidence(call->result, is_change ? TC_OUTCOME_NOT_STARTED : TC_OUTCOME_NONE);
    int rc = tci_env_check_abort(call, (tc_str){0}, err);
    if (rc < 0)
        return rc;
    rc = tci_env_enter(env, err);
    if (rc < 0)
        tci_env_blame(call, TC_ENV_UNKNOWN, (tc_str){0});
    return rc;
}

int tci_env_begin_path(tc_env *env, const tc_call *call, bool is_change, tc_str *path, tc_err *err)
{
    int rc = tci_env_begin(env, call, is_change, err);
    if (rc < 0)
        return rc;
    tc_str given = *path;
    rc = tci_env_absolute(env, call, given, path, err);
    return rc < 0 ? tci_env_finish(env, call, rc, given) : 0;
}

int tci_env_finish(tc_env *env, const tc_call *call, int rc, tc_str path)
{
    tc_evidence *e = tci_env_evidence(call);
    tci_env_leave(env);
    if (rc >= 0) {
        e->env_error = TC_ENV_OK;
        e->path = (tc_str){0};
        return rc;
    }
    tc_env_error word = e->env_error != TC_ENV_OK ? e->env_error : tci_env_word_of(rc);
    tci_env_blame(call, word, e->path.len > 0 ? e->path : path);
    return rc;
}
