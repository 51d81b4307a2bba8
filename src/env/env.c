/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of adapters: created, ready, dead or closed, and how many calls are using one. Leaves what a
 * provider does to its table, and the operations to ops.c. Any thread. Invariant: ready runs at
 * most once, and the provider's end only when no call is left in it. */
#include "env/env_int.h"

/* ---- the shared part ---- */

static int keep_shell_env(tc_env *env, const tc_env_options *options, tc_err *err)
{
    tci_arena *a = tci_result_arena(env->held);
    tc_pair *pairs = tci_arena_items(a, tc_pair, options->nshell_env);
    if (pairs == NULL && options->nshell_env > 0)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < options->nshell_env; i++) {
        int rc = tc_result_dup(env->held, options->shell_env[i].key, &pairs[i].key, err);
        if (rc == 0)
            rc = tc_result_dup(env->held, options->shell_env[i].value, &pairs[i].value, err);
        if (rc < 0)
            return rc;
    }
    env->shell_env = pairs;
    env->nshell_env = options->nshell_env;
    return 0;
}

int tci_env_init(tc_env *env, const tci_env_vtable *v, tc_runtime *rt,
                 const tc_env_options *options, tc_err *err)
{
    if (options->environment_id.len == 0)
        return tc_err_set(err, TC_E_INVALID, "an environment needs an id of the program's own");
    tc_str cwd = options->working_directory;
    bool is_windows = tci_win_is_absolute(cwd);
    if (cwd.len > 0 && !is_windows && !tci_env_is_absolute(cwd))
        return tc_err_set(err, TC_E_INVALID, "the working directory '%.*s' is not absolute",
                          TC_STR_ARG(cwd));
    env->v = v;
    env->provider = v->provider;
    atomic_init(&env->refs, 1);
    tci_mutex_init(&env->lock);
    tci_list_init(&env->watchers);
    env->rt = tci_runtime_retain(rt);
    int rc = tc_result_new(&env->held, err);
    if (rc == 0)
        rc = tc_result_dup(env->held, options->environment_id, &env->id, err);
    if (rc == 0)
        rc = tc_result_dup(env->held, options->files_id, &env->files_id, err);
    if (rc == 0)
        rc = tc_result_dup(env->held, options->shell_path, &env->shell_path, err);
    if (rc == 0)
        rc = keep_shell_env(env, options, err);
    if (rc == 0 && cwd.len > 0 && !is_windows)
        rc = tci_env_resolve(TC_STR("/"), cwd, tci_result_arena(env->held), &env->cwd, err);
    if (rc == 0 && is_windows)
        rc = tc_result_dup(env->held, cwd, &env->cwd, err);
    if (rc < 0)
        tci_env_done(env);
    return rc;
}

void tci_env_done(tc_env *env)
{
    if (env->rt == NULL)
        return;
    tc_result_free(env->held);
    tci_runtime_release(env->rt);
    env->rt = NULL;
    tci_mutex_done(&env->lock);
}

/* ---- using it ---- */

static int refuse(const tc_env *env, tc_err *err)
{
    switch (env->state) {
    case TCI_ENV_DEAD: {
        *err = env->why_dead;
        tc_err_wrap(err, "the environment is dead since its preparation failed");
        tc_err_hint(err, "make a new one");
        return tc_err_recode(err, TC_E_NOT_READY);
    }
    case TCI_ENV_CLOSED:
        return tc_err_set(err, TC_E_CLOSED, "the environment was closed");
    case TCI_ENV_CREATED:
    case TCI_ENV_MAKING_READY:
    case TCI_ENV_READY:
        break;
    }
    return tc_err_set(err, TC_E_NOT_READY, "the environment is not ready yet");
}

int tci_env_enter(tc_env *env, tc_err *err)
{
    tci_mutex_lock(&env->lock);
    bool is_usable = env->state == TCI_ENV_READY || (env->is_lazy && env->state == TCI_ENV_CREATED);
    int rc = is_usable ? 0 : refuse(env, err);
    if (rc == 0)
        env->nusers++;
    tci_mutex_unlock(&env->lock);
    return rc;
}

void tci_env_leave(tc_env *env)
{
    tci_mutex_lock(&env->lock);
    if (--env->nusers == 0)
        tci_wake_all(&env->changed);
    tci_mutex_unlock(&env->lock);
}

/* ---- getting ready ---- */

/* 1: it is ours to prepare; 0: it is ready. */
static int claim(tc_env *env, tc_err *err)
{
    for (;;) {
        unsigned seen = tci_wake_count(&env->changed);
        tci_mutex_lock(&env->lock);
        tci_env_state state = env->state;
        if (state == TCI_ENV_CREATED)
            env->state = TCI_ENV_MAKING_READY;
        int rc = state == TCI_ENV_CREATED ? 1 : 0;
        if (state == TCI_ENV_DEAD || state == TCI_ENV_CLOSED)
            rc = refuse(env, err);
        tci_mutex_unlock(&env->lock);
        if (state != TCI_ENV_MAKING_READY)
            return rc;
        tci_wake_wait(&env->changed, seen, 0);
    }
}

static void settle(tc_env *env, tci_env_state state, const tc_err *why)
{
    tci_mutex_lock(&env->lock);
    env->state = state;
    if (why != NULL)
        env->why_dead = *why;
    tci_wake_all(&env->changed);
    tci_mutex_unlock(&env->lock);
}

/* A lazy one connects as any of its operations would, and stays what it is. */
static int ready_lazily(tc_env *env, tc_ctx *ctx, tc_err *err)
{
    int rc = tci_env_enter(env, err);
    if (rc < 0)
        return rc;
    rc = env->v->ready(env, ctx, err);
    tci_env_leave(env);
    return rc;
}

int tc_env_ready(tc_env *env, tc_ctx *ctx, tc_err *err)
{
    if (env->is_lazy)
        return ready_lazily(env, ctx, err);
    int rc = claim(env, err);
    if (rc <= 0)
        return rc;
    rc = env->v->ready(env, ctx, err);
    if (rc == 0) {
        settle(env, TCI_ENV_READY, NULL);
        return 0;
    }
    tc_err ignored; /* why it is not ready is what matters */
    (void)env->v->end(env, NULL, &ignored);
    settle(env, TCI_ENV_DEAD, err);
    return rc;
}

bool tc_env_is_ready(const tc_env *env)
{
    tci_mutex *lock = (tci_mutex *)(uintptr_t)&env->lock; /* looking takes the lock too */
    tci_mutex_lock(lock);
    bool is_ready = env->state == TCI_ENV_READY ||
                    (env->is_lazy && env->state == TCI_ENV_CREATED && env->has_place);
    tci_mutex_unlock(lock);
    return is_ready;
}

/* ---- the end ---- */

tc_env *tc_env_retain(tc_env *env)
{
    atomic_fetch_add(&env->refs, 1);
    return env;
}

static void wait_for_users(tc_env *env)
{
    for (;;) {
        unsigned seen = tci_wake_count(&env->changed);
        tci_mutex_lock(&env->lock);
        bool is_free = env->nusers == 0;
        tci_mutex_unlock(&env->lock);
        if (is_free)
            return;
        tci_wake_wait(&env->changed, seen, 0);
    }
}

int tc_env_close(tc_env *env, tc_ctx *ctx, tc_err *err)
{
    tci_mutex_lock(&env->lock);
    bool was_usable =
        env->state == TCI_ENV_READY || (env->is_lazy && env->state == TCI_ENV_CREATED);
    if (was_usable || env->state == TCI_ENV_CREATED)
        env->state = TCI_ENV_CLOSED;
    tci_mutex_unlock(&env->lock);
    if (!was_usable)
        return 0;
    tci_watchers_stop(env);
    int rc = env->v->end(env, ctx, err);
    wait_for_users(env);
    return rc;
}

void tc_env_release(tc_env *env)
{
    if (env == NULL || atomic_fetch_sub(&env->refs, 1) != 1)
        return;
    tc_err ignored; /* there is nobody to tell */
    (void)tc_env_close(env, NULL, &ignored);
    env->v->free(env);
}

int tc_env_cleanup(tc_env *env, tc_ctx *ctx, tc_err *err)
{
    int rc = tci_env_enter(env, err);
    if (rc < 0)
        return rc;
    rc = env->v->cleanup(env, ctx, err);
    tci_env_leave(env);
    return rc;
}

/* ---- facts ---- */

tc_str tc_env_id(const tc_env *env)
{
    return env->id;
}
tc_str tc_env_provider(const tc_env *env)
{
    return env->provider;
}
tc_str tc_env_files_id(const tc_env *env)
{
    return env->files_id;
}
tc_str tc_env_cwd(const tc_env *env)
{
    return tci_env_cwd_now(env);
}

int tc_env_set_cwd(tc_env *env, tc_str cwd, tc_err *err)
{
    tci_env_place none = {0};
    tc_str kept = {0};
    tci_mutex_lock(&env->lock);
    tci_arena *a = tci_result_arena(env->held);
    bool is_windows = tci_win_is_absolute(cwd);
    int rc = is_windows || tci_env_is_absolute(cwd)
                 ? 0
                 : tc_err_set(err, TC_E_INVALID, "the working directory '%.*s' is not absolute",
                              TC_STR_ARG(cwd));
    if (rc == 0 && is_windows)
        rc = tci_win_resolve(&none, cwd, cwd, a, &kept, err);
    else if (rc == 0)
        rc = tci_env_resolve(cwd, cwd, a, &kept, err);
    if (rc == 0)
        env->cwd = kept;
    tci_mutex_unlock(&env->lock);
    return rc;
}
tc_str tc_env_device_id(const tc_env *env)
{
    return env->device_id;
}
uint64_t tc_env_generation(const tc_env *env)
{
    return env->generation;
}
tc_str tc_env_session_id(const tc_env *env)
{
    return env->session_id;
}
bool tc_env_can_exec(const tc_env *env)
{
    return tc_env_is_ready(env) && env->v->can_exec(env);
}

const tc_boundary *tc_env_boundary(const tc_env *env)
{
    return tc_env_is_ready(env) ? &env->boundary : NULL;
}

int tc_env_state(const tc_env *env, tc_result *r, tc_str *ret_json, tc_err *err)
{
    if (env->is_without_state)
        return tc_err_set(err, TC_E_UNSUPPORTED, "'%.*s' has nothing to save",
                          TC_STR_ARG(env->provider));
    if (env->device_id.len == 0)
        return tc_err_set(err, TC_E_NOT_READY, "the device is not known yet");
    return tc_env_state_make(env->provider, env->device_id, r, ret_json, err);
}
