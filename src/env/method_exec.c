/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands of the ExecutionEnv interface: what is wrong with one before it runs, and whose failure it
 * is afterwards. The caller's thread. Invariant: a failure of the caller's own sink is told before
 * any other, and nothing runs with a time limit that makes no sense. */
#include "env/methods_int.h"

#include <math.h>

#define TIMEOUT_MAX_MS 2147483647.0

/* The caller's sink, and whether it is what failed. */
typedef struct guard {
    tc_text_sink sink;
    void *user;
    int rc;
    tc_err err;
} guard;

static int guarded(void *user, tc_stream_kind stream, tc_str text, const tc_skipped *skipped,
                   tc_err *err)
{
    guard *g = user;
    if (g->rc == 0)
        g->rc = g->sink(g->user, stream, text, skipped, &g->err);
    if (g->rc != 0)
        *err = g->err;
    return g->rc;
}

static int check_timeout(const tc_exec_options *o, const tc_call *call, tc_err *err)
{
    if (!o->has_timeout)
        return 0;
    if (!isfinite(o->timeout_s) || o->timeout_s <= 0)
        return tci_env_fail(call, TC_ENV_TIMEOUT, (tc_str){0}, err, TC_E_INVALID,
                            "Invalid timeout: must be a finite number of seconds");
    if (o->timeout_s * 1000 > TIMEOUT_MAX_MS)
        return tci_env_fail(call, TC_ENV_TIMEOUT, (tc_str){0}, err, TC_E_INVALID,
                            "Invalid timeout: maximum is 2147483.647 seconds");
    return 0;
}

static int resolve_cwd(tc_env *env, const tc_call *call, const tc_exec_options *o, tc_str *ret_cwd,
                       tc_err *err)
{
    *ret_cwd = tci_env_cwd_now(env);
    if (o->cwd.len == 0 && ret_cwd->len > 0)
        return 0;
    int rc = tci_env_absolute(env, call, o->cwd, ret_cwd, err);
    if (rc < 0 && tci_env_evidence(call)->env_error != TC_ENV_ABORTED)
        tci_env_blame(call, tci_env_word_of(rc) == TC_ENV_ABORTED ? TC_ENV_ABORTED : TC_ENV_UNKNOWN,
                      (tc_str){0});
    return rc == 0 ? tci_env_check_abort(call, (tc_str){0}, err) : rc;
}

int tc_env_exec(tc_env *env, const tc_call *call, const tc_exec_options *options,
                tc_exec_outcome *ret_outcome, tc_err *err)
{
    tc_str cwd;
    if (options == NULL || options->size < sizeof *options)
        return tc_err_set(err, TC_E_INVALID, "a command without its size");
    int rc = tci_env_begin(env, call, true, err);
    if (rc < 0)
        return rc;
    tc_exec_options o = *options;
    guard g = {.sink = o.on_output, .user = o.user};
    if (o.on_output != NULL) {
        o.on_output = guarded;
        o.user = &g;
    }
    rc = check_timeout(&o, call, err);
    if (rc == 0)
        rc = resolve_cwd(env, call, &o, &cwd, err);
    if (rc == 0 && o.is_argv && o.argv.count == 0)
        rc = tci_env_fail(call, TC_ENV_SPAWN_ERROR, (tc_str){0}, err, TC_E_START_FAILED,
                          "there is no program in an empty command");
    if (rc == 0)
        rc = env->v->methods->exec(env, call, &o, cwd, ret_outcome, err);
    if (g.rc != 0) {
        *err = g.err;
        rc = g.rc < 0 ? g.rc : TC_E_INTERNAL;
        tci_env_blame(call, TC_ENV_CALLBACK_ERROR, (tc_str){0});
    }
    return tci_env_finish(env, call, rc, (tc_str){0});
}
