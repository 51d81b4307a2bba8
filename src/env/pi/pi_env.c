/* SPDX-License-Identifier: Apache-2.0
 *
 * Environments over a pi-env connection: made, connected, ended; and the local one. Leaves the
 * operations to the other pi_*.c files and the wire to client/pienv.h. The caller's thread.
 * Invariant: a lazy environment remembers no failure; nothing of one environment ends with another
 * that shares its connection. */
#include "env/pi/pi_int.h"

/* ---- how requests fail ---- */

static tc_env_error word_of(const tci_pi_fault *fault, int rc)
{
    static const struct {
        const char *code;
        tc_env_error word;
    } table[] = {
        {"ENOENT", TC_ENV_NOT_FOUND},        {"EACCES", TC_ENV_PERMISSION_DENIED},
        {"EPERM", TC_ENV_PERMISSION_DENIED}, {"ENOTDIR", TC_ENV_NOT_DIRECTORY},
        {"EISDIR", TC_ENV_IS_DIRECTORY},     {"EINVAL", TC_ENV_INVALID},
        {"SYMLINK", TC_ENV_INVALID},         {"NOT_REGULAR", TC_ENV_INVALID},
        {"aborted", TC_ENV_ABORTED},         {"not_supported", TC_ENV_NOT_SUPPORTED},
    };
    if (fault->is_lost)
        return TC_ENV_UNKNOWN;
    if (fault->error.code.len == 0)
        return rc == TC_E_UNKNOWN_OUTCOME ? TC_ENV_ABORTED : tci_env_word_of(rc);
    for (size_t i = 0; i < TCI_ARRAY_LEN(table); i++)
        if (tci_str_eq(tci_str(table[i].code), fault->error.code))
            return table[i].word;
    return TC_ENV_UNKNOWN;
}

int tci_penv_blame(const tc_call *call, const tci_pi_call *request, int rc, tc_str about)
{
    tc_str path = request->fault.error.path;
    tci_env_blame(call, word_of(&request->fault, rc), path.len > 0 ? path : about);
    return rc;
}

int tci_penv_ask_in(tc_env *env, const tc_call *call, uint64_t session, int op, const void *params,
                    void *reply, tc_str about, tc_err *err)
{
    tci_pi_call request = {
        .op = op, .params = params, .reply = reply, .result = call->result, .session = session};
    int rc = tci_pi_do(tci_penv_of(env)->pi, call->ctx, &request, err);
    return rc < 0 ? tci_penv_blame(call, &request, rc, about) : 0;
}

int tci_penv_ask(tc_env *env, const tc_call *call, int op, const void *params, void *reply,
                 tc_str about, tc_err *err)
{
    return tci_penv_ask_in(env, call, 0, op, params, reply, about, err);
}

/* ---- closing handles without waiting ---- */

typedef struct pi_closing {
    tci_link link;
    tc_result *r;
    tci_pi_call request;
} pi_closing;

static void free_closing(pi_closing *c)
{
    tc_result_free(c->r);
    tci_free(c);
}

/* Those that are over; with is_end, all of them. */
static void reap_closing(tci_penv *e, bool is_end)
{
    tci_list over;
    tci_list_init(&over);
    tci_mutex_lock(&e->base.lock);
    TCI_LIST_EACH (&e->closing, link) {
        if (!is_end && !tci_pi_poll(&TCI_CONTAINER(link, pi_closing, link)->request))
            continue;
        tci_link_remove(link);
        tci_list_push_back(&over, link);
    }
    tci_mutex_unlock(&e->base.lock);
    for (tci_link *link; (link = tci_list_pop_front(&over)) != NULL;) {
        pi_closing *c = TCI_CONTAINER(link, pi_closing, link);
        tci_pi_drop(&c->request);
        free_closing(c);
    }
}

void tci_penv_close_later(tci_penv *e, uint64_t session, uint64_t handle)
{
    tc_err ignored; /* a handle that stays open ends with the session */
    tci_pi_close_params params = {.handle = handle};
    pi_closing *c = tci_new(pi_closing);
    reap_closing(e, false);
    if (c == NULL || tc_result_new(&c->r, &ignored) < 0) {
        tci_free(c);
        return;
    }
    c->request =
        (tci_pi_call){.op = TCI_PI_CLOSE, .params = &params, .result = c->r, .session = session};
    if (tci_pi_session(e->pi) != session || tci_pi_begin(e->pi, NULL, &c->request, &ignored) < 0) {
        free_closing(c);
        return;
    }
    tci_mutex_lock(&e->base.lock);
    tci_list_push_back(&e->closing, &c->link);
    tci_mutex_unlock(&e->base.lock);
}

void tci_penv_close_now(tci_penv *e, uint64_t session, uint64_t handle)
{
    enum { PATIENCE_MS = 5000 };
    tc_err ignored; /* as above */
    tc_result *r = NULL;
    tc_ctx *ctx = NULL;
    tci_pi_close_params params = {.handle = handle};
    int rc = tc_result_new(&r, &ignored);
    if (rc == 0)
        rc = tc_ctx_new(PATIENCE_MS, &ctx, &ignored);
    tci_pi_call request = {.op = TCI_PI_CLOSE, .params = &params, .result = r, .session = session};
    if (rc == 0)
        rc = tci_pi_do(e->pi, ctx, &request, &ignored);
    TCI_UNUSED(rc);
    tc_ctx_free(ctx);
    tc_result_free(r);
}

/* ---- what is known of the place ---- */

static int keep_facts(tc_env *env, const tci_pi_facts *facts, tc_err *err)
{
    tci_env_place *place = &env->place;
    if (env->has_place)
        return 0;
    place->is_windows = facts->separator.len > 0 && facts->separator.ptr[0] == '\\';
    int rc = tc_result_dup(env->held, facts->home, &place->home, err);
    if (rc == 0)
        rc = tc_result_dup(env->held, facts->tmpdir, &place->tmpdir, err);
    if (rc == 0)
        rc = tc_result_dup(env->held, facts->cwd.len > 0 ? facts->cwd : facts->home,
                           &place->first_cwd, err);
    if (rc < 0)
        return rc;
    if (env->cwd.len == 0)
        env->cwd = place->first_cwd;
    env->boundary = (tc_boundary){.backend = TC_STR("native")};
    env->has_home = true;
    env->has_place = true;
    return 0;
}

static int learn(tc_env *env, tc_ctx *ctx, tc_result *r, tci_pi_fault *fault, tc_err *err)
{
    tci_pi_facts facts;
    int rc = tci_pi_get_facts(tci_penv_of(env)->pi, ctx, r, &facts, fault, err);
    if (rc < 0)
        return rc;
    tci_mutex_lock(&env->lock);
    rc = keep_facts(env, &facts, err);
    tci_mutex_unlock(&env->lock);
    return rc;
}

int tci_penv_know(tc_env *env, const tc_call *call, bool needs_home, tc_err *err)
{
    TCI_UNUSED(needs_home);
    tci_pi_fault fault = {.is_lost = false};
    int rc = learn(env, call->ctx, call->result, &fault, err);
    if (rc < 0) {
        tci_env_blame(call, word_of(&fault, rc), (tc_str){0});
        tci_env_evidence(call)->is_lost = fault.is_lost;
    }
    return rc;
}

/* ---- running commands ---- */

static tci_penv_wish wish_of(tci_penv *e, const tci_penv_running *run)
{
    tci_mutex_lock(&e->base.lock);
    tci_penv_wish wish = e->is_closing ? TCI_PI_ABORT_IT : run->wish;
    tci_mutex_unlock(&e->base.lock);
    return wish;
}

/* Until it is over, or its context is. */
static void attend_begun(tci_penv *e, const tc_call *call, tci_pi_call *request,
                         const tci_penv_running *run)
{
    tc_err ignored; /* wait finds out again */
    tci_penv_wish done = TCI_PI_GO_ON;
    for (;;) {
        unsigned seen = tci_wake_count(run->wake);
        if (tci_pi_poll(request) || tci_ctx_check(call->ctx, &ignored) < 0)
            return;
        tci_penv_wish wish = wish_of(e, run);
        if (wish > done)
            tci_pi_cancel(request, wish == TCI_PI_KILL_IT);
        done = wish > done ? wish : done;
        tci_wake_wait(run->wake, seen, tci_ctx_deadline_ns(call->ctx));
    }
}

int tci_penv_attend(tci_penv *e, const tc_call *call, tci_pi_call *request, tci_penv_running *run,
                    int (*started)(void *user, tc_err *err), void *user, tc_err *err)
{
    run->wake = call->ctx != NULL ? tci_ctx_wake(call->ctx) : &run->own_wake;
    request->wake = run->wake;
    /* Known to a cleanup from before it begins, so that none misses it. */
    tci_mutex_lock(&e->base.lock);
    tci_list_push_back(&e->running, &run->link);
    tci_mutex_unlock(&e->base.lock);
    int rc = tci_pi_begin(e->pi, call->ctx, request, err);
    tc_err start_err;
    int start_rc = rc == 0 && started != NULL ? started(user, &start_err) : 0;
    if (start_rc < 0)
        tci_pi_cancel(request, false);
    if (rc == 0) {
        attend_begun(e, call, request, run);
        rc = tci_pi_wait(request, err);
    }
    tci_mutex_lock(&e->base.lock);
    tci_link_remove(&run->link);
    tci_mutex_unlock(&e->base.lock);
    if (start_rc < 0)
        *err = start_err;
    return start_rc < 0 ? start_rc : rc;
}

void tci_penv_end(tci_penv *e, tci_penv_running *run)
{
    tci_mutex_lock(&e->base.lock);
    run->wish = TCI_PI_ABORT_IT;
    if (run->wake != NULL)
        tci_wake_all(run->wake);
    tci_mutex_unlock(&e->base.lock);
}

static void wish_all(tci_penv *e, tci_penv_wish wish)
{
    tci_mutex_lock(&e->base.lock);
    e->is_closing |= wish == TCI_PI_ABORT_IT;
    TCI_LIST_EACH (&e->running, link) {
        tci_penv_running *run = TCI_CONTAINER(link, tci_penv_running, link);
        run->wish = wish > run->wish ? wish : run->wish;
        tci_wake_all(run->wake);
    }
    tci_mutex_unlock(&e->base.lock);
}

/* The EIP environment behind it, if there is one; the caller's reference. */
static tc_env *take_eip(tci_penv *e, bool is_end)
{
    tci_mutex_lock(&e->base.lock);
    tc_env *eip = e->eip;
    if (is_end)
        e->eip = NULL;
    else if (eip != NULL)
        tc_env_retain(eip);
    tci_mutex_unlock(&e->base.lock);
    return eip;
}

/* ---- life ---- */

static int pi_ready(tc_env *env, tc_ctx *ctx, tc_err *err)
{
    tc_result *r = NULL;
    int rc = tc_result_new(&r, err);
    if (rc == 0)
        rc = learn(env, ctx, r, NULL, err);
    tc_result_free(r);
    return rc;
}

static int pi_end(tc_env *env, tc_ctx *ctx, tc_err *err)
{
    tci_penv *e = tci_penv_of(env);
    wish_all(e, TCI_PI_ABORT_IT);
    tc_env *eip = take_eip(e, true);
    int rc = eip != NULL ? tc_env_close(eip, ctx, err) : 0;
    tc_env_release(eip);
    return rc;
}

static void pi_free(tc_env *env)
{
    tci_penv *e = tci_penv_of(env);
    tc_env_release(take_eip(e, true));
    reap_closing(e, true);
    tci_pi_release(e->pi);
    if (e->on_free != NULL)
        e->on_free(e->user);
    tci_env_done(env);
    tci_free(e);
}

static int pi_cleanup(tc_env *env, tc_ctx *ctx, tc_err *err)
{
    tci_penv *e = tci_penv_of(env);
    wish_all(e, TCI_PI_KILL_IT);
    tc_env *eip = take_eip(e, false);
    int rc = eip != NULL && tc_env_is_ready(eip) ? tc_env_cleanup(eip, ctx, err) : 0;
    tc_env_release(eip);
    return rc;
}

/* ---- making one ---- */

static int check_options(const tc_env_options *o, tc_err *err)
{
    const char *what = NULL;
    if (o == NULL || o->size < sizeof *o)
        return tc_err_set(err, TC_E_INVALID, "options without their size");
    if (o->allow_create)
        what = "it only connects: it cannot create a machine";
    else if (o->egress != NULL)
        what = "it has no control over where commands connect to";
    else if (o->expected_boundary != NULL && (o->expected_boundary->is_restricted ||
                                              o->expected_boundary->egress != TC_EGRESS_INHERIT))
        what = "it has no boundary";
    else if (o->state.len > 0)
        what = "it has no state to be found by";
    return what != NULL ? tc_err_set(err, TC_E_UNSUPPORTED, "not with this provider: %s", what) : 0;
}

static int make(tc_runtime *rt, const tci_pi_recipe *recipe, const tc_env_options *options,
                tci_penv **ret_env, tc_err *err)
{
    int rc = check_options(options, err);
    tci_penv *e = rc == 0 ? tci_new(tci_penv) : NULL;
    if (rc == 0 && e == NULL)
        rc = tci_err_no_memory(err);
    if (rc < 0)
        return rc;
    tci_list_init(&e->running);
    tci_list_init(&e->closing);
    rc = tci_env_init(&e->base, &tci_penv_env_vtable, rt, options, err);
    if (rc < 0) {
        tci_free(e);
        return rc;
    }
    e->base.provider = recipe->provider;
    e->base.is_lazy = recipe->is_lazy;
    e->base.is_without_state = true;
    if (options->files_id.len == 0)
        rc = tc_result_dup(e->base.held, recipe->files_id, &e->base.files_id, err);
    if (rc == 0) {
        *ret_env = e;
        return 0;
    }
    tci_env_done(&e->base);
    tci_free(e);
    return rc;
}

int tci_pi_env_new_own(tc_runtime *rt, const tci_pi_recipe *recipe, const tc_env_options *options,
                       tci_pi *pi, tc_env **ret_env, tc_err *err)
{
    tci_penv *e = NULL;
    int rc = make(rt, recipe, options, &e, err);
    if (rc < 0) {
        tci_pi_release(pi);
        if (recipe->on_free != NULL)
            recipe->on_free(recipe->user);
        return rc;
    }
    e->pi = pi;
    e->on_free = recipe->on_free;
    e->user = recipe->user;
    *ret_env = &e->base;
    return 0;
}

/* ---- on this machine ---- */

typedef struct local_launch {
    tc_runtime *rt;
    tc_str program;
} local_launch;

static int launch_local(void *arg, tci_pi **ret_pi, tc_err *err)
{
    const local_launch *l = arg;
    tci_pi_launcher launcher;
    tc_spawn_options spawn = {.size = sizeof spawn, .program = l->program};
    int rc = tci_pi_launch_command(l->rt, &spawn, &launcher, err);
    return rc == 0 ? tci_pi_new_own(l->rt, &launcher, NULL, ret_pi, err) : rc;
}

/* The connection to the daemon of this program, shared by all adapters of the runtime. */
static int local_connection(tc_runtime *rt, const tc_local_pi_options *o, tci_pi **ret_pi,
                            tc_err *err)
{
    tci_arena a;
    tc_str key;
    local_launch launch = {.rt = rt};
    tci_arena_init(&a, 0);
    int rc = tci_env_daemon_program(rt, o->executable, &a, &launch.program, err);
    if (rc < 0 && o->executable.len > 0) {
        launch.program = o->executable; /* it may be there when it is started */
        rc = 0;
    }
    if (rc == 0)
        rc = tci_arena_printf(&a, &key, err, "local %.*s", TC_STR_ARG(launch.program));
    if (rc == 0)
        rc = tci_runtime_shared_pi(rt, key, launch_local, &launch, ret_pi, err);
    tci_arena_done(&a);
    return rc;
}

int tc_env_create_local_pi(tc_runtime *rt, const tc_env_options *options,
                           const tc_local_pi_options *local, tc_env **ret_env, tc_err *err)
{
    tc_local_pi_options none = {.size = sizeof none};
    const tc_local_pi_options *o = local != NULL ? local : &none;
    tci_pi *pi = NULL;
    int rc = tci_env_options_check(local, sizeof none, err);
    if (rc == 0)
        rc = check_options(options, err);
    if (rc == 0)
        rc = local_connection(rt, o, &pi, err);
    if (rc < 0)
        return rc;
    tci_pi_recipe recipe = {
        .provider = TC_STR("local"), .files_id = TC_STR("local"), .is_lazy = o->is_lazy};
    return tci_pi_env_new_own(rt, &recipe, options, pi, ret_env, err);
}

/* ---- the table ---- */

static bool pi_can_exec(const tc_env *env)
{
    TCI_UNUSED(env);
    return true;
}

const tci_env_vtable tci_penv_env_vtable = {
    .provider = {"local", 5},
    .ready = pi_ready,
    .end = pi_end,
    .free = pi_free,
    .cleanup = pi_cleanup,
    .can_exec = pi_can_exec,
    .methods = &tci_penv_methods,
    .stat = tci_penv_stat,
    .list = tci_penv_list,
    .find = tci_penv_find_files,
    .search = tci_penv_search,
    .read_text = tci_penv_read_text,
    .read_stream = tci_penv_read_stream,
    .read_file = tci_penv_read_file,
    .write_text = tci_penv_write_text,
    .write_stream = tci_penv_write_stream,
    .sync = tci_penv_sync,
    .patch = tci_penv_patch,
    .mkdir = tci_penv_mkdir,
    .copy = tci_penv_copy,
    .move = tci_penv_move,
    .remove = tci_penv_remove,
    .run = tci_penv_run,
    .process_start = tci_penv_process_start,
    .process_inspect = tci_penv_process_inspect,
    .process_wait = tci_penv_process_wait,
    .process_write = tci_penv_process_write,
    .process_signal = tci_penv_process_signal,
    .process_kill = tci_penv_process_kill,
    .process_release = tci_penv_process_release,
    .output_read = tci_penv_output_read,
    .port_inspect = tci_penv_port_inspect,
    .port_wait = tci_penv_port_wait,
    .reconcile = tci_penv_reconcile,
};
