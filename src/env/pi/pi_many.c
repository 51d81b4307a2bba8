/* SPDX-License-Identifier: Apache-2.0
 *
 * Many small files in flight from one thread, over pi-env. Leaves whole files of any size to pi_read.c and
 * pi_write.c. The caller's thread. Invariant: the adapter is entered exactly while something is begun. */
#include "env/many.h"

#include "env/env_int.h"
#include "env/pi/pi_int.h"

bool tci_env_has_many(const tc_env *env)
{
    return env->v == &tci_penv_env_vtable;
}

/* As the public operations do. */
static int enter(tc_env *env, const tc_call *call, bool is_change, tc_str *path, tc_err *err)
{
    tci_result_reset_evidence(call->result, is_change ? TC_OUTCOME_NOT_STARTED : TC_OUTCOME_NONE);
    int rc = tci_env_enter(env, err);
    if (rc < 0)
        return rc;
    rc = tci_env_absolute(env, call, *path, path, err);
    if (rc < 0)
        tci_env_leave(env);
    return rc;
}

/* ---- writing ---- */

int tci_env_put_begin(tci_env_put *p, tc_env *env, const tc_call *call, tc_str path, tc_str bytes,
                      const tc_write_options *options, tc_err *err)
{
    int rc = enter(env, call, true, &path, err);
    if (rc < 0)
        return rc;
    tci_pi_write_params params;
    tci_penv_write_params(path, options, &params);
    *p = (tci_env_put){.env = env, .call = *call, .path = path};
    p->request = (tci_pi_call){.op = TCI_PI_WRITE,
                               .params = &params,
                               .reply = &p->reply,
                               .result = call->result,
                               .parts = {{bytes.ptr, bytes.len}},
                               .nparts = bytes.len > 0 ? 1 : 0,
                               .needs_ext = true};
    rc = tci_pi_begin(tci_penv_of(env)->pi, call->ctx, &p->request, err);
    if (rc < 0) {
        (void)tci_penv_blame(call, &p->request, rc, path);
        tci_env_leave(env);
    }
    return rc;
}

int tci_env_put_end(tci_env_put *p, tc_err *err)
{
    int rc = tci_pi_wait(&p->request, err);
    if (rc < 0)
        (void)tci_penv_blame(&p->call, &p->request, rc, p->path);
    tci_env_leave(p->env);
    return rc;
}

/* ---- reading ---- */

static int begin(tci_env_get *g, tc_err *err)
{
    int rc = tci_pi_begin(tci_penv_of(g->env)->pi, g->call.ctx, &g->request, err);
    return rc < 0 ? tci_penv_blame(&g->call, &g->request, rc, g->path) : 0;
}

int tci_env_get_begin(tci_env_get *g, tc_env *env, const tc_call *call, tc_str path, tc_err *err)
{
    int rc = enter(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    tci_pi_open_params params = {.path = path};
    *g = (tci_env_get){.env = env, .call = *call, .path = path};
    g->request = (tci_pi_call){
        .op = TCI_PI_OPEN, .params = &params, .reply = &g->open, .result = call->result};
    rc = begin(g, err);
    if (rc < 0) {
        tci_env_leave(env);
        g->env = NULL;
    }
    return rc;
}

/* Its close is waited for when the storage is used again, by when it was answered long ago. */
static void end(tci_env_get *g)
{
    tc_err ignored; /* a handle that stays open ends with the session */
    tci_pi_close_params params = {.handle = g->open.handle};
    if (g->is_open) {
        g->closing = (tci_pi_call){.op = TCI_PI_CLOSE,
                                   .params = &params,
                                   .result = g->call.result,
                                   .session = g->request.ran_in};
        g->is_closing =
            tci_pi_session(tci_penv_of(g->env)->pi) == g->request.ran_in &&
            tci_pi_begin(tci_penv_of(g->env)->pi, g->call.ctx, &g->closing, &ignored) == 0;
    }
    g->is_open = false;
    if (!g->is_closing) {
        tci_env_leave(g->env);
        g->env = NULL;
    }
}

int tci_env_get_info(tci_env_get *g, tc_file_info *ret_info, tc_err *err)
{
    int rc = tci_pi_wait(&g->request, err);
    if (rc < 0) {
        (void)tci_penv_blame(&g->call, &g->request, rc, g->path);
        end(g);
        return rc;
    }
    g->is_open = true;
    tci_penv_to_file_info(&g->open.info, g->path, ret_info);
    return 0;
}

int tci_env_get_read(tci_env_get *g, void *buf, size_t cap, tc_err *err)
{
    tci_pi_pread_params params = {
        .handle = g->open.handle, .length = cap, .has_offset = true, .offset = 0};
    g->request = (tci_pi_call){.op = TCI_PI_PREAD,
                               .params = &params,
                               .result = g->call.result,
                               .session = g->request.ran_in,
                               .dst = buf,
                               .dst_cap = cap};
    int rc = begin(g, err);
    if (rc < 0)
        end(g);
    return rc;
}

int tci_env_get_end(tci_env_get *g, size_t *ret_len, tc_err *err)
{
    size_t cap = g->request.dst_cap;
    int rc = tci_pi_wait(&g->request, err);
    if (rc < 0)
        (void)tci_penv_blame(&g->call, &g->request, rc, g->path);
    else if (g->request.payload.len > cap)
        rc = tc_err_set(err, TC_E_PROTOCOL, "the daemon sent more than was asked for");
    if (rc == 0)
        *ret_len = g->request.payload.len;
    end(g);
    return rc;
}

void tci_env_get_drop(tci_env_get *g)
{
    tc_err ignored; /* as above */
    if (g->env == NULL)
        return;
    if (g->is_open)
        end(g);
    if (g->is_closing) {
        int rc = tci_pi_wait(&g->closing, &ignored);
        TCI_UNUSED(rc);
        g->is_closing = false;
        tci_env_leave(g->env);
        g->env = NULL;
    }
}
