/* SPDX-License-Identifier: Apache-2.0
 *
 * local_envd: environments on this machine, through a daemon child of the program. The caller's
 * thread. Invariant: the child gets no daemon setting but those given here, and no variable that a
 * secret of the recipe comes from. */
#include "env/env_int.h"
#include "env/pi/pi_env.h"

#include "plat/file.h"

typedef struct local_own {
    tc_local_envd_options local;
} local_own;

static const tci_env_vtable local_vtable = TCI_EIP_ENV_VTABLE("local_envd");

static void local_forget(tci_eip_env *e)
{
    tci_free(e->own);
}

/* ---- which program ---- */

/* "telechird" in the folder of the running program. */
static bool beside_us(tci_arena *a, tc_str *ret_path)
{
    char buf[TCI_PATH_MAX];
    tc_str self, parent, name;
    tc_err err;
    /* Where this system does not say which program runs, the other places are looked at. */
    if (tci_file_readlink(TCI_FILE_CWD, TC_STR("/proc/self/exe"), buf, sizeof buf, &self, &err) < 0)
        return false;
    tci_path_split(self, &parent, &name);
    return tci_arena_printf(a, ret_path, &err, "%.*s/telechird", TC_STR_ARG(parent)) == 0 &&
           tci_is_program(*ret_path);
}

int tci_env_daemon_program(tc_runtime *rt, tc_str named, tci_arena *a, tc_str *ret_path,
                           tc_err *err)
{
    if (named.len > 0)
        return tci_find_program(rt, named, a, ret_path, err);
    if (beside_us(a, ret_path))
        return 0;
    static const char *const variables[] = {"TELECHIRD_EXECUTABLE", "A13N_ENVD_EXECUTABLE"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(variables); i++) {
        named = tci_str(tci_runtime_getenv(rt, variables[i]));
        if (named.len > 0)
            return tci_find_program(rt, named, a, ret_path, err);
    }
    if (tci_find_program(rt, TC_STR("telechird"), a, ret_path, err) == 0 ||
        tci_find_program(rt, TC_STR("a13n-envd"), a, ret_path, err) == 0)
        return 0;
    tc_err_set(err, TC_E_NOT_FOUND, "no daemon program: neither beside this one nor on PATH");
    return tc_err_hint(err, "install telechird, or set TELECHIRD_EXECUTABLE");
}

/* ---- its environment ---- */

static bool is_daemon_setting(tc_str name)
{
    return tci_str_starts(name, TC_STR("A13N_ENVD_")) || tci_str_starts(name, TC_STR("TELECHIRD_"));
}

/* Names the child must not see: settings meant for other daemons, and where secrets come from. */
static int names_to_hide(tci_eip_env *e, tci_arena *a, tc_strs *ret, tc_err *err)
{
    const char *const *environ_list = tci_runtime_environ(e->base.rt);
    size_t n = 0, max = e->egress.nsecrets;
    for (size_t i = 0; environ_list[i] != NULL; i++)
        max++;
    tc_str *names = tci_arena_items(a, tc_str, max);
    if (names == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; environ_list[i] != NULL; i++) {
        tc_str entry = tci_str(environ_list[i]);
        tc_str name = tci_str_sub(entry, 0, tci_str_find_byte(entry, '='));
        if (is_daemon_setting(name))
            names[n++] = name;
    }
    for (size_t i = 0; i < e->egress.nsecrets; i++)
        if (tci_str_eq(e->egress.secrets[i].kind, TC_STR("environment")))
            names[n++] = e->egress.secrets[i].name;
    *ret = (tc_strs){names, n};
    return 0;
}

/* ---- starting ---- */

typedef struct launch {
    tci_eip_env *env;
    tci_arena arena;
    tc_str executable;
    tc_strs hidden;
} launch;

/* A folder of our own, removed once the daemon is gone. */
static void remove_folder(void *arg)
{
    char *path = arg;
    tci_env_remove_folder(tci_str(path));
    tci_free(path);
}

static int runtime_folder(launch *l, tc_str *ret_dir, char **ret_own, tc_err *err)
{
    const local_own *own = l->env->own;
    if (own->local.runtime_dir.len > 0) {
        *ret_dir = own->local.runtime_dir;
        return 0;
    }
    tc_str base;
    int rc = tci_env_temp_folder(l->env->base.rt, &l->arena, &base, err);
    if (rc < 0)
        return rc;
    *ret_own = tci_mem_cstr(base);
    if (*ret_own == NULL) {
        tci_env_remove_folder(base);
        return tci_err_no_memory(err);
    }
    /* One below: the daemon keeps its identity beside its runtime folder. */
    return tci_arena_printf(&l->arena, ret_dir, err, "%.*s/run", TC_STR_ARG(base));
}

static size_t daemon_settings(const local_own *own, tc_str device_id, tc_pair out[3])
{
    size_t n = 0;
    if (own->local.full_control)
        out[n++] = (tc_pair){TC_STR("A13N_ENVD_FULL_CONTROL"), TC_STR("true")};
    if (own->local.config_json.len > 0)
        out[n++] = (tc_pair){TC_STR("A13N_ENVD_CONFIG_JSON"), own->local.config_json};
    if (device_id.len > 0)
        out[n++] = (tc_pair){TC_STR("A13N_ENVD_DEVICE_ID"), device_id};
    return n;
}

static int launch_now(void *arg, tc_ctx *ctx, tc_device **ret_device, tc_err *err)
{
    launch *l = arg;
    tc_pair settings[3];
    char *own_folder = NULL;
    tc_spawn_options spawn = {.size = sizeof spawn,
                              .program = l->executable,
                              .unset_env = l->hidden.items,
                              .nunset_env = l->hidden.count,
                              .set_env = settings};
    spawn.nset_env = daemon_settings(l->env->own, l->env->base.device_id, settings);
    tc_device_options device = {.size = sizeof device,
                                .expected_device_id = l->env->base.device_id};
    int rc = runtime_folder(l, &spawn.runtime_dir, &own_folder, err);
    if (rc == 0)
        rc = tc_device_spawn(l->env->base.rt, ctx, &spawn, &device, ret_device, err);
    if (own_folder == NULL)
        return rc;
    if (rc == 0)
        tci_device_on_end(*ret_device, remove_folder, own_folder);
    else
        remove_folder(own_folder);
    return rc;
}

/* Everything that makes one launch different from another. */
static int launch_key(const launch *l, tci_buf *key, tc_err *err)
{
    const local_own *own = l->env->own;
    tc_str parts[] = {TC_STR("local_envd"), l->executable, own->local.runtime_dir,
                      own->local.config_json, l->env->base.device_id};
    for (size_t i = 0; i < TCI_ARRAY_LEN(parts); i++) {
        tci_buf_append_str(key, parts[i]);
        tci_buf_append_byte(key, 0);
    }
    tci_buf_append_byte(key, own->local.full_control ? '1' : '0');
    for (size_t i = 0; i < l->hidden.count; i++) {
        if (is_daemon_setting(l->hidden.items[i]))
            continue; /* the same for all */
        tci_buf_append_byte(key, 0);
        tci_buf_append_str(key, l->hidden.items[i]);
    }
    return tci_buf_error(key, err);
}

static int local_connect(tci_eip_env *e, tc_ctx *ctx, tc_device **ret_device, tc_err *err)
{
    launch l = {.env = e};
    tci_buf key;
    tci_buf_init(&key, TCI_BUF_MAX);
    tci_arena_init(&l.arena, 0);
    const local_own *own = e->own;
    int rc =
        tci_env_daemon_program(e->base.rt, own->local.executable, &l.arena, &l.executable, err);
    if (rc == 0)
        rc = names_to_hide(e, &l.arena, &l.hidden, err);
    if (rc == 0)
        rc = launch_key(&l, &key, err);
    if (rc == 0)
        rc = tci_runtime_shared_device(e->base.rt, tci_buf_str(&key), ctx, launch_now, &l,
                                       ret_device, err);
    tci_buf_done(&key);
    tci_arena_done(&l.arena);
    return rc;
}

/* ---- creating ---- */

static int keep_options(tci_eip_env *e, const tc_local_envd_options *local, tc_err *err)
{
    local_own *own = e->own;
    tc_result *r = e->base.held;
    own->local = *local;
    int rc = tc_result_dup(r, local->executable, &own->local.executable, err);
    if (rc == 0)
        rc = tc_result_dup(r, local->runtime_dir, &own->local.runtime_dir, err);
    if (rc == 0)
        rc = tc_result_dup(r, local->config_json, &own->local.config_json, err);
    if (rc == 0 && local->device_id.len > 0) {
        if (e->base.device_id.len > 0 && !tci_str_eq(e->base.device_id, local->device_id))
            return tc_err_set(err, TC_E_INVALID, "the state names another device");
        rc = tc_result_dup(r, local->device_id, &e->base.device_id, err);
    }
    return rc;
}

int tc_env_create_local(tc_runtime *rt, const tc_env_options *options,
                        const tc_local_envd_options *local, tc_env **ret_env, tc_err *err)
{
    tc_local_envd_options none = {.size = sizeof none};
    const tc_local_envd_options *o = local != NULL ? local : &none;
    tci_eip_env *e = NULL;
    int rc = tci_env_options_check(local, sizeof none, err);
    if (rc == 0)
        rc = tci_eip_env_new(rt, &local_vtable, options, false, &e, err);
    if (rc < 0)
        return rc;
    if (o->runtime_dir.len > 0 && o->runtime_dir.ptr[0] != '/')
        rc = tc_err_set(err, TC_E_INVALID, "the runtime folder is not absolute");
    if (rc == 0) {
        e->own = tci_new(local_own);
        rc = e->own != NULL ? 0 : tci_err_no_memory(err);
    }
    if (rc == 0) {
        e->forget = local_forget;
        e->connect = local_connect;
        rc = keep_options(e, o, err);
    }
    if (rc < 0) {
        tci_eip_free(&e->base);
        return rc;
    }
    *ret_env = &e->base;
    return 0;
}
