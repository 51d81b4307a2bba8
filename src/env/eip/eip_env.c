/* SPDX-License-Identifier: Apache-2.0
 *
 * Adapters over EIP: copying a recipe, getting ready, checking the boundary, ending. Leaves how a
 * device is reached to local_envd.c and http_envd.c. The caller's thread. Invariant: secrets are
 * resolved when a session is opened and forgotten right after. */
#include "env/env_int.h"

/* ---- copying a recipe ---- */

static int dup_str(tc_result *r, tc_str *s, tc_err *err)
{
    return tc_result_dup(r, *s, s, err);
}

static int dup_strs(tc_result *r, tc_strs *list, tc_err *err)
{
    tc_str *items = tci_arena_items(tci_result_arena(r), tc_str, list->count);
    if (items == NULL)
        return tci_arena_error(tci_result_arena(r), err);
    for (size_t i = 0; i < list->count; i++) {
        items[i] = list->items[i];
        int rc = dup_str(r, &items[i], err);
        if (rc < 0)
            return rc;
    }
    list->items = items;
    return 0;
}

static int dup_egress(tc_result *r, tc_egress_recipe *e, tc_err *err)
{
    int rc = dup_strs(r, &e->destinations.hosts, err);
    tc_secret_ref *refs = tci_arena_items(tci_result_arena(r), tc_secret_ref, e->nsecrets);
    if (rc == 0 && refs == NULL)
        rc = tci_arena_error(tci_result_arena(r), err);
    for (size_t i = 0; rc == 0 && i < e->nsecrets; i++) {
        refs[i] = e->secrets[i];
        rc = dup_str(r, &refs[i].env, err);
        if (rc == 0)
            rc = dup_str(r, &refs[i].kind, err);
        if (rc == 0)
            rc = dup_str(r, &refs[i].name, err);
        if (rc == 0)
            rc = dup_strs(r, &refs[i].inject_hosts, err);
    }
    e->secrets = refs;
    return rc;
}

static int dup_expected(tc_result *r, tc_expected_boundary *b, tc_err *err)
{
    tc_grant *grants = tci_arena_items(tci_result_arena(r), tc_grant, b->ngrants);
    if (grants == NULL)
        return tci_arena_error(tci_result_arena(r), err);
    for (size_t i = 0; i < b->ngrants; i++) {
        grants[i] = b->grants[i];
        if (!tci_env_is_absolute(grants[i].path))
            return tc_err_set(err, TC_E_INVALID, "the grant '%.*s' is not absolute",
                              TC_STR_ARG(grants[i].path));
        int rc = dup_str(r, &grants[i].path, err);
        if (rc < 0)
            return rc;
    }
    b->grants = grants;
    if (!b->is_restricted && b->ngrants > 0)
        return tc_err_set(err, TC_E_INVALID, "grants are for a restricted sandbox");
    return 0;
}

static int copy_recipe(tci_eip_env *e, const tc_env_options *o, tc_err *err)
{
    tc_result *r = e->base.held;
    e->required_methods = o->required_methods;
    int rc = dup_strs(r, &e->required_methods, err);
    if (rc == 0 && o->egress != NULL) {
        e->has_egress = true;
        e->egress = *o->egress;
        rc = tci_egress_check(o->egress, err);
        if (rc == 0)
            rc = dup_egress(r, &e->egress, err);
    }
    if (rc == 0 && o->expected_boundary != NULL) {
        e->has_expected = true;
        e->expected = *o->expected_boundary;
        rc = dup_expected(r, &e->expected, err);
    }
    return rc;
}

int tci_eip_env_new(tc_runtime *rt, const tci_env_vtable *v, const tc_env_options *options,
                    bool needs_state, tci_eip_env **ret_env, tc_err *err)
{
    if (options == NULL || options->size < sizeof *options)
        return tc_err_set(err, TC_E_INVALID, "options without their size");
    if (options->allow_create)
        return tc_err_set(err, TC_E_UNSUPPORTED, "'%.*s' only connects: it cannot create a machine",
                          TC_STR_ARG(v->provider));
    if (needs_state && options->state.len == 0)
        return tc_err_set(err, TC_E_INVALID, "'%.*s' needs the state that names its device",
                          TC_STR_ARG(v->provider));
    tci_eip_env *e = tci_new(tci_eip_env);
    if (e == NULL)
        return tci_err_no_memory(err);
    int rc = tci_env_init(&e->base, v, rt, options, err);
    if (rc < 0) {
        tci_free(e);
        return rc;
    }
    tci_list_init(&e->runs);
    rc = copy_recipe(e, options, err);
    if (rc == 0 && options->state.len > 0)
        rc = tc_env_state_check(options->state, v->provider, e->base.held, &e->base.device_id, err);
    if (rc < 0) {
        tci_eip_free(&e->base);
        return rc;
    }
    *ret_env = e;
    return 0;
}

/* ---- what a device must be ---- */

static int check_boundary(const tci_eip_env *e, const tc_boundary *b, tc_err *err)
{
    const tc_expected_boundary *want = &e->expected;
    const char *what = NULL;
    if (!e->has_expected)
        return 0;
    if (want->is_restricted != b->is_restricted)
        what = want->is_restricted ? "it has no sandbox" : "it has a sandbox";
    else if (want->full_disk_read != b->full_disk_read)
        what = "its sandbox reads another part of the disk";
    else if (want->egress != b->egress)
        what = "its network mode is another";
    else if (want->check_privilege_gain &&
             want->privilege_gain_blocked != b->privilege_gain_blocked)
        what = "privilege gain is handled otherwise";
    else if (want->check_identity &&
             (!b->has_identity || want->uid != b->uid || want->gid != b->gid))
        what = "it runs as another user";
    else if (want->ngrants != b->ngrants)
        what = "its sandbox has other grants";
    for (size_t i = 0; what == NULL && i < b->ngrants; i++) {
        bool is_found = false;
        for (size_t k = 0; k < want->ngrants; k++)
            is_found |= want->grants[k].is_writable == b->grants[i].is_writable &&
                        tci_str_eq(want->grants[k].path, b->grants[i].path);
        if (!is_found)
            what = "its sandbox has other grants";
    }
    if (what == NULL)
        return 0;
    return tc_err_set(err, TC_E_INCOMPATIBLE, "the device's boundary is not the expected one: %s",
                      what);
}

static int check_device(const tci_eip_env *e, const tc_device_info *info, tc_err *err)
{
    tc_str want = e->base.device_id;
    if (want.len > 0 && !tci_str_eq(want, info->device_id))
        return tc_err_set(err, TC_E_INCOMPATIBLE, "the daemon is device '%.*s', expected '%.*s'",
                          TC_STR_ARG(info->device_id), TC_STR_ARG(want));
    int rc = check_boundary(e, &info->boundary, err);
    if (rc < 0)
        return rc;
    bool is_controlled = info->boundary.egress == TC_EGRESS_CONTROLLED;
    if (is_controlled && !e->has_egress)
        return tc_err_set(err, TC_E_INVALID,
                          "the device controls egress: the recipe must name destinations");
    if (!is_controlled && e->has_egress)
        return tc_err_set(err, TC_E_INVALID,
                          "the device does not control egress: the recipe may not name any");
    return 0;
}

/* ---- opening the session ---- */

static int resolve_secrets(tci_eip_env *e, tc_result *r, tc_egress_secret **ret, tc_err *err)
{
    size_t n = e->egress.nsecrets;
    tc_egress_secret *list = tci_arena_items(tci_result_arena(r), tc_egress_secret, n);
    if (list == NULL)
        return tci_arena_error(tci_result_arena(r), err);
    for (size_t i = 0; i < n; i++) {
        const tc_secret_ref *ref = &e->egress.secrets[i];
        list[i].env = ref->env;
        list[i].inject_hosts = ref->inject_hosts;
        int rc = tci_runtime_secret(e->base.rt, ref->kind, ref->name, r, &list[i].value, err);
        if (rc < 0)
            return rc;
    }
    *ret = list;
    return 0;
}

static int open_session(tci_eip_env *e, tc_ctx *ctx, tc_err *err)
{
    tc_egress_policy policy = {.destinations = e->egress.destinations,
                               .nsecrets = e->egress.nsecrets};
    tc_session_options o = {
        .size = sizeof o,
        .working_directory = e->base.cwd,
        .required_methods = e->required_methods,
    };
    tc_egress_secret *secrets = NULL;
    tc_result *r = NULL;
    int rc = tc_result_new(&r, err);
    if (rc == 0 && e->has_egress)
        rc = resolve_secrets(e, r, &secrets, err);
    if (rc == 0 && e->has_egress) {
        policy.secrets = secrets;
        o.egress = &policy;
    }
    if (rc == 0)
        rc = tc_session_open(e->device, ctx, &o, &e->session, err);
    tc_result_free(r);
    return rc;
}

static int take_facts(tci_eip_env *e, tc_err *err)
{
    const tc_session_info *info = tc_session_get_info(e->session);
    tc_env *env = &e->base;
    env->generation = info->generation;
    env->boundary = info->boundary;
    env->is_windows = tc_device_get_info(e->device)->is_windows;
    tci_mutex_lock(&env->lock);
    int rc = tc_result_dup(env->held, info->working_directory, &env->cwd, err);
    if (rc == 0)
        rc = tc_result_dup(env->held, info->device_id, &env->device_id, err);
    if (rc == 0)
        rc = tc_result_dup(env->held, info->session_id, &env->session_id, err);
    if (rc == 0 && env->files_id.len == 0)
        rc = tci_arena_printf(tci_result_arena(env->held), &env->files_id, err, "eip:%.*s",
                              TC_STR_ARG(info->device_id));
    env->has_place = rc == 0;
    tci_mutex_unlock(&env->lock);
    return rc;
}

int tci_eip_ready(tc_env *env, tc_ctx *ctx, tc_err *err)
{
    tci_eip_env *e = TCI_CONTAINER(env, tci_eip_env, base);
    int rc = e->connect(e, ctx, &e->device, err);
    if (rc == 0)
        rc = check_device(e, tc_device_get_info(e->device), err);
    if (rc == 0)
        rc = open_session(e, ctx, err);
    if (rc == 0)
        rc = take_facts(e, err);
    return rc;
}

/* ---- the end ---- */

int tci_eip_end(tc_env *env, tc_ctx *ctx, tc_err *err)
{
    tci_eip_env *e = TCI_CONTAINER(env, tci_eip_env, base);
    return e->session != NULL ? tci_session_end(e->session, ctx, err) : 0;
}

void tci_eip_free(tc_env *env)
{
    tci_eip_env *e = TCI_CONTAINER(env, tci_eip_env, base);
    tc_session_detach(e->session); /* ended before */
    tc_device_close(e->device);    /* our reference only */
    if (e->forget != NULL)
        e->forget(e);
    for (tci_link *link; (link = tci_list_pop_front(&e->runs)) != NULL;)
        tci_free(TCI_CONTAINER(link, tci_eip_run, link));
    tci_env_done(env);
    tci_free(e);
}

bool tci_eip_can_exec(const tc_env *env)
{
    const tci_eip_env *e = TCI_CONTAINER(env, tci_eip_env, base);
    return tc_session_has_method(e->session, TC_STR("shell.exec"));
}

/* ---- what runs ---- */

tci_eip_run *tci_eip_track(tci_eip_env *e, tc_str text, bool is_process)
{
    tci_eip_run *run = tci_mem_alloc(sizeof *run + text.len);
    if (run == NULL)
        return NULL;
    run->len = text.len;
    run->is_process = is_process;
    memcpy(run->text, text.ptr, text.len);
    tci_mutex_lock(&e->base.lock);
    tci_list_push_back(&e->runs, &run->link);
    tci_mutex_unlock(&e->base.lock);
    return run;
}

void tci_eip_untrack(tci_eip_env *e, tci_eip_run *run)
{
    if (run == NULL)
        return;
    tci_mutex_lock(&e->base.lock);
    tci_link_remove(&run->link);
    tci_mutex_unlock(&e->base.lock);
    tci_free(run);
}

void tci_eip_untrack_handle(tci_eip_env *e, tc_str handle)
{
    tci_mutex_lock(&e->base.lock);
    TCI_LIST_EACH (&e->runs, link) {
        tci_eip_run *run = TCI_CONTAINER(link, tci_eip_run, link);
        if (!run->is_process || !tci_str_eq(tci_str_of(run->text, run->len), handle))
            continue;
        tci_link_remove(link);
        tci_free(run);
    }
    tci_mutex_unlock(&e->base.lock);
}

void tci_eip_track_process(tci_eip_env *e, tc_str handle, unsigned started)
{
    tc_err ignored; /* it ends with the session at the latest */
    tc_result *r = NULL;
    /* Without memory to remember it, cleanup would miss it; the end of the session would not. */
    (void)tci_eip_track(e, handle, true);
    if (atomic_load(&e->ncleanups) == started || tc_result_new(&r, &ignored) < 0)
        return;
    tc_call call = TC_CALL(NULL, r);
    int rc = tc_session_process_kill(e->session, &call, handle, NULL, &ignored);
    TCI_UNUSED(rc);
    tc_result_free(r);
}

/* Copies, since a run may end while we ask. */
static size_t snapshot(tci_eip_env *e, tci_arena *a, bool is_process, tc_str **ret, tc_err *err)
{
    size_t n = 0, max = 0;
    tci_mutex_lock(&e->base.lock);
    TCI_LIST_EACH (&e->runs, link)
        max++;
    tc_str *list = tci_arena_items(a, tc_str, max);
    TCI_LIST_EACH (&e->runs, link) {
        const tci_eip_run *run = TCI_CONTAINER(link, tci_eip_run, link);
        if (list != NULL && run->is_process == is_process &&
            tci_arena_dup(a, tci_str_of(run->text, run->len), &list[n], err) == 0)
            n++;
    }
    tci_mutex_unlock(&e->base.lock);
    *ret = list;
    return n;
}

int tci_eip_cleanup(tc_env *env, tc_ctx *ctx, tc_err *err)
{
    tci_eip_env *e = TCI_CONTAINER(env, tci_eip_env, base);
    tc_result *r = NULL;
    int rc = tc_result_new(&r, err);
    if (rc < 0)
        return rc;
    tc_call call = TC_CALL(ctx, r);
    tc_err why;
    tc_str *list;
    atomic_fetch_add(&e->ncleanups, 1);
    size_t n = snapshot(e, tci_result_arena(r), false, &list, err);
    for (size_t i = 0; i < n; i++) {
        tc_cancel_status status;
        int one = tc_session_cancel(e->session, &call, list[i], &status, &why);
        if (one < 0 && rc == 0) {
            *err = why;
            rc = one;
        }
    }
    n = snapshot(e, tci_result_arena(r), true, &list, err);
    for (size_t i = 0; i < n; i++) {
        int one = tc_session_process_kill(e->session, &call, list[i], NULL, &why);
        if (one == 0 || one == TC_E_NOT_FOUND) {
            tci_eip_untrack_handle(e, list[i]);
        } else if (rc == 0) {
            *err = why;
            rc = one;
        }
    }
    tc_result_free(r);
    return rc;
}
