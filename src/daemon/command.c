/* SPDX-License-Identifier: Apache-2.0
 *
 * See command.h. Leaves starting and watching to process.c.
 *
 * Invariant: what a command gets as environment never holds a name that belongs to the daemon. */
#include "daemon/command.h"

#include "daemon/device.h"
#include "daemon/envname.h"
#include "plat/fd.h"
#include "plat/file.h"
#include "plat/proc.h"

enum {
    ARGUMENTS_MAX = 1024,
    ARGUMENT_BYTES_MAX = 1024 * 1024,
    ENVIRONMENT_MAX = 1024,
    ENVIRONMENT_BYTES_MAX = 2 * 1024 * 1024
};

/* ---- what all commands share ---- */

static tc_str name_of(const char *entry)
{
    const char *eq = strchr(entry, '=');
    return tci_str_of(entry, eq != NULL ? (size_t)(eq - entry) : strlen(entry));
}

static bool is_hidden(const tci_config *c, tc_str name)
{
    for (size_t i = 0; i < c->nhidden_variables; i++) {
        if (tci_str_eq(name, c->hidden_variables[i]))
            return true;
    }
    return false;
}

static int base_environment(tci_command_host *h, const tci_config *c, tc_err *err)
{
    const char *const *all;
    size_t n, kept = 0;
    if (tci_environ_snapshot(&h->arena, &all, &n, err) < 0)
        return err->code;
    const char **base = tci_arena_items(&h->arena, const char *, n + 1);
    if (base == NULL)
        return tci_arena_error(&h->arena, err);
    for (size_t i = 0; i < n; i++) {
        tc_str name = name_of(all[i]);
        if (tci_envname_is_valid(name) && !tci_envname_is_reserved(name) && !is_hidden(c, name))
            base[kept++] = all[i];
    }
    h->base_env = base;
    h->nbase_env = kept;
    return 0;
}

static int host_new(tci_device *d, tci_command_host **ret, tc_err *err)
{
    tci_file dir = TCI_FILE_NONE;
    tci_command_host *h = tci_new(tci_command_host);
    if (h == NULL)
        return tci_err_no_memory(err);
    tci_arena_init(&h->arena, 0);
    h->spool_dir.dir_fd = -1;
    int rc = base_environment(h, d->config, err);
    if (rc == 0)
        rc = tci_file_open(tci_runtime_dir_spool(d->runtime), TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0,
                           &dir, err);
    h->spool_dir.dir_fd = dir.fd;
    tci_ptree_opts opts = {.is_program = true};
    h->trees = d->trees;
    h->has_shared_trees = d->trees != NULL;
    if (rc == 0 && h->trees == NULL)
        rc = tci_ptree_host_new(d->loop, &opts, &h->trees, err);
    if (rc == 0)
        rc = tci_exec_host_new(d->loop, h->trees, &h->execs, err);
    if (rc < 0) {
        tci_command_host_free(h);
        return rc;
    }
    *ret = h;
    return 0;
}

int tci_command_host_get(tci_device *d, tci_command_host **ret, tc_err *err)
{
    if (d->commands == NULL && host_new(d, &d->commands, err) < 0)
        return err->code;
    *ret = d->commands;
    return 0;
}

void tci_command_host_free(tci_command_host *h)
{
    if (h == NULL)
        return;
    tci_exec_host_free(h->execs);
    if (!h->has_shared_trees)
        tci_ptree_host_free(h->trees);
    tci_file dir = {h->spool_dir.dir_fd};
    tci_file_close(&dir);
    tci_arena_done(&h->arena);
    tci_free(h);
}

/* ---- limits ---- */

static int prepare_limits(tci_req *r, const tci_eip_command_request *in, tci_command *ret,
                          tc_err *err)
{
    const tci_limits *l = &r->device->config->limits;
    const tci_eip_command_limits *cl = &in->limits;
    if (cl->has_process_count || cl->has_memory_bytes || cl->has_cpu_time_ms)
        return tc_err_set(err, TC_E_UNSUPPORTED, "the limit is not available here");
    uint64_t wall = cl->has_wall_time_ms ? cl->wall_time_ms : l->max_operation_duration_ms;
    uint64_t input = cl->has_stdin_bytes ? cl->stdin_bytes : l->max_request_bytes;
    if (wall == 0 || wall > l->max_operation_duration_ms || input == 0)
        return tc_err_set(err, TC_E_INVALID, "a command limit is out of range");
    ret->wall_time_ms = (int64_t)wall;
    ret->stdin_max_bytes = tci_min_u64(input, l->max_request_bytes);
    ret->initial_stdin = in->has_initial_stdin ? in->initial_stdin.data : TC_STR("");
    ret->keep_stdin_open = in->keep_stdin_open;
    if (ret->initial_stdin.len > ret->stdin_max_bytes)
        return tc_err_set(err, TC_E_INVALID, "initial stdin is over its limit");
    return 0;
}

/* ---- directory and program ---- */

static int denied(tc_err *err, tc_str what)
{
    return tc_err_set(err, TC_E_DENIED, "'%.*s' is not available to commands", TC_STR_ARG(what));
}

static int prepare_cwd(tci_req *r, const tci_eip_command_request *in, tci_command *ret, tc_err *err)
{
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    char *cwd;
    tc_str wanted = in->has_cwd ? in->cwd.path : r->session->cwd;
    if (tci_file_open(wanted, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &dir, err) < 0)
        return denied(err, wanted);
    if (tci_arena_cstr(&r->arena, wanted, &cwd, err) < 0)
        return err->code;
    ret->cwd = cwd;
    return 0;
}

/* The canonical path of an executable regular file. */
static int resolve(tci_req *r, tc_str path, char **ret, tc_str *ret_canonical, tc_err *err)
{
    char buf[TCI_PATH_MAX];
    tci_file_stat st;
    tc_str canonical;
    if (tci_file_realpath(path, buf, &canonical, err) < 0 ||
        tci_file_stat_at(TCI_FILE_CWD, canonical, true, &st, err) < 0)
        return err->code;
    if (st.kind != TCI_FILE_KIND_REGULAR || (st.mode & 0111) == 0)
        return denied(err, path);
    if (tci_arena_cstr(&r->arena, canonical, ret, err) < 0)
        return err->code;
    *ret_canonical = tci_str(*ret);
    return 0;
}

static bool is_below(tc_str path, tc_str root)
{
    return tci_str_starts(path, root) &&
           (tci_str_eq(root, TC_STR("/")) || (path.len > root.len && path.ptr[root.len] == '/'));
}

static bool is_plain_name(tc_str name)
{
    if (name.len == 0 || tci_str_eq(name, TC_STR(".")) || tci_str_eq(name, TC_STR("..")))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        if (strchr("/\\:", name.ptr[i]) != NULL) /* the NUL too */
            return false;
    }
    return true;
}

/* First match in the roots. With full control the file under the name is what runs, so that programs
 * that look at their own name work; otherwise only what really lies in the root. */
static int find_by_name(tci_req *r, tc_str name, char **ret, tc_err *err)
{
    const tci_config *c = r->device->config;
    if (!is_plain_name(name))
        return tc_err_set(err, TC_E_INVALID, "'%.*s' is no program name", TC_STR_ARG(name));
    for (size_t i = 0; i < c->nroots; i++) {
        tc_str path, canonical;
        if (tci_arena_printf(&r->arena, &path, err, "%.*s/%.*s", TC_STR_ARG(c->roots[i]),
                             TC_STR_ARG(name)) < 0)
            return err->code;
        char *real;
        if (resolve(r, path, &real, &canonical, err) < 0)
            continue;
        if (!c->full_control && !is_below(canonical, c->roots[i]))
            continue;
        *ret = c->full_control ? (char *)path.ptr : real; /* printf ends it with a NUL */
        return 0;
    }
    return denied(err, name);
}

static int prepare_argv(tci_req *r, const tci_eip_command_spec_argv *in, tci_command *ret,
                        tc_err *err)
{
    char *program = NULL;
    tc_str canonical;
    size_t bytes = 0;
    int rc;
    if (in->arguments.count > ARGUMENTS_MAX)
        return tc_err_set(err, TC_E_INVALID, "too many arguments");
    if (in->executable_spec.kind == TCI_EIP_EXECUTABLE_SPEC_NAME)
        rc = find_by_name(r, in->executable_spec.u.name.name, &program, err);
    else if ((rc = resolve(r, in->executable_spec.u.path.path.path, &program, &canonical, err)) < 0)
        rc = denied(err, in->executable_spec.u.path.path.path);
    if (rc < 0)
        return rc;
    const char **argv = tci_arena_items(&r->arena, const char *, in->arguments.count + 2);
    if (argv == NULL)
        return tci_arena_error(&r->arena, err);
    argv[0] = program;
    for (size_t i = 0; i < in->arguments.count; i++) {
        char *arg;
        bytes += in->arguments.items[i].len;
        if (bytes > ARGUMENT_BYTES_MAX)
            return tc_err_set(err, TC_E_INVALID, "arguments are too long");
        if (tci_arena_cstr(&r->arena, in->arguments.items[i], &arg, err) < 0)
            return err->code;
        argv[i + 1] = arg;
    }
    ret->program = program;
    ret->argv = argv;
    return 0;
}

static const tci_shell_profile *find_profile(const tci_config *c, tc_str id)
{
    for (size_t i = 0; i < c->nprofiles; i++) {
        if (tci_str_eq(c->profiles[i].id, id))
            return &c->profiles[i];
    }
    return NULL;
}

static int prepare_shell(tci_req *r, const tci_eip_command_spec_shell *in,
                         const tci_shell_profile **ret_profile, tci_command *ret, tc_err *err)
{
    size_t n = 0;
    char *text;
    const tci_shell_profile *p = find_profile(r->device->config, in->profile_id);
    if (p == NULL)
        return tc_err_set(err, TC_E_UNSUPPORTED, "no shell profile '%.*s'",
                          TC_STR_ARG(in->profile_id));
    if (in->script.len > p->max_script_bytes || (in->login && !p->allows_login))
        return tc_err_set(err, TC_E_INVALID, "the shell profile does not allow this script");
    const char **argv = tci_arena_items(&r->arena, const char *, p->nfixed_arguments + 4);
    if (argv == NULL)
        return tci_arena_error(&r->arena, err);
    if (tci_arena_cstr(&r->arena, p->executable, &text, err) < 0)
        return err->code;
    ret->program = argv[n++] = text;
    if (in->login)
        argv[n++] = "-l";
    for (size_t i = 0; i < p->nfixed_arguments; i++) {
        if (tci_arena_cstr(&r->arena, p->fixed_arguments[i], &text, err) < 0)
            return err->code;
        argv[n++] = text;
    }
    if (tci_arena_cstr(&r->arena, in->script, &text, err) < 0)
        return err->code; /* INVALID for a NUL in the script */
    argv[n++] = text;
    ret->argv = argv;
    *ret_profile = p;
    return 0;
}

/* ---- environment ---- */

typedef struct env_list {
    tci_arena *arena;
    const char **items;
    size_t count, cap, bytes;
} env_list;

static size_t env_index(const env_list *e, tc_str name)
{
    for (size_t i = 0; i < e->count; i++) {
        if (strncmp(e->items[i], name.ptr, name.len) == 0 && e->items[i][name.len] == '=')
            return i;
    }
    return e->count;
}

static void env_unset(env_list *e, tc_str name)
{
    size_t i = env_index(e, name);
    if (i < e->count)
        e->items[i] = e->items[--e->count];
}

static int env_set(env_list *e, tc_str name, tc_str value, tc_err *err)
{
    tc_str entry;
    if (memchr(value.ptr != NULL ? value.ptr : "", '\0', value.len) != NULL)
        return tc_err_set(err, TC_E_INVALID, "a NUL in the value of '%.*s'", TC_STR_ARG(name));
    if (tci_arena_printf(e->arena, &entry, err, "%.*s=%.*s", TC_STR_ARG(name), TC_STR_ARG(value)) <
        0)
        return err->code;
    size_t i = env_index(e, name);
    if (i == e->count) {
        if (e->count == e->cap)
            return tc_err_set(err, TC_E_INVALID, "too many environment variables");
        e->count++;
    }
    e->items[i] = entry.ptr;
    return 0;
}

static int check_changes(const tci_eip_command_environment *in, tc_err *err)
{
    size_t bytes = 0;
    if (in->set.count + in->unset.count > ENVIRONMENT_MAX)
        return tc_err_set(err, TC_E_INVALID, "too many environment changes");
    for (size_t i = 0; i < in->set.count; i++) {
        bytes += in->set.items[i].key.len + in->set.items[i].value.len + 2;
        if (!tci_envname_is_valid(in->set.items[i].key) ||
            tci_envname_is_reserved(in->set.items[i].key))
            return tc_err_set(err, TC_E_INVALID, "an environment name is reserved or malformed");
    }
    for (size_t i = 0; i < in->unset.count; i++) {
        if (!tci_envname_is_valid(in->unset.items[i]) ||
            tci_envname_is_reserved(in->unset.items[i]))
            return tc_err_set(err, TC_E_INVALID, "an environment name is reserved or malformed");
    }
    if (bytes > ENVIRONMENT_BYTES_MAX)
        return tc_err_set(err, TC_E_INVALID, "the environment is too large");
    return 0;
}

static int env_set_path(env_list *e, const tc_str *roots, size_t nroots, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, ENVIRONMENT_BYTES_MAX);
    for (size_t i = 0; i < nroots; i++) {
        if (i > 0)
            tci_buf_append_byte(&b, ':');
        tci_buf_append_str(&b, roots[i]);
    }
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = env_set(e, TC_STR("PATH"), tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}

static int prepare_environment(tci_req *r, const tci_eip_command_environment *in,
                               const tci_shell_profile *p, tci_command *ret, tc_err *err)
{
    const tci_config *c = r->device->config;
    const tci_command_host *h = r->device->commands;
    size_t nprofile = p != NULL ? p->nenvironment : 0;
    if (check_changes(in, err) < 0)
        return err->code;
    env_list e = {.arena = &r->arena, .cap = h->nbase_env + nprofile + in->set.count + 1};
    e.items = tci_arena_items(&r->arena, const char *, e.cap + 1);
    if (e.items == NULL)
        return tci_arena_error(&r->arena, err);
    memcpy(e.items, h->base_env, h->nbase_env * sizeof e.items[0]);
    e.count = h->nbase_env;
    int rc = 0;
    for (size_t i = 0; i < nprofile && rc == 0; i++)
        rc = env_set(&e, p->environment[i].name, p->environment[i].value, err);
    if (rc == 0 && p != NULL && p->nroots > 0)
        rc = env_set_path(&e, p->roots, p->nroots, err);
    else if (rc == 0 && p == NULL && !c->full_control)
        rc = env_set_path(&e, c->roots, c->nroots, err);
    for (size_t i = 0; i < in->unset.count; i++)
        env_unset(&e, in->unset.items[i]);
    for (size_t i = 0; i < in->set.count && rc == 0; i++)
        rc = env_set(&e, in->set.items[i].key, in->set.items[i].value, err);
    size_t bytes = 0;
    for (size_t i = 0; i < e.count; i++)
        bytes += strlen(e.items[i]) + 1;
    if (rc == 0 && (e.count > ENVIRONMENT_MAX || bytes > ENVIRONMENT_BYTES_MAX))
        rc = tc_err_set(err, TC_E_INVALID, "the environment is too large");
    e.items[e.count] = NULL;
    ret->envp = e.items;
    return rc;
}

int tci_command_prepare(tci_req *r, const tci_eip_command_request *in, tci_command *ret,
                        tc_err *err)
{
    tci_command_host *host;
    const tci_shell_profile *profile = NULL;
    memset(ret, 0, sizeof *ret);
    if (tci_command_host_get(r->device, &host, err) < 0)
        return err->code;
    if (prepare_limits(r, in, ret, err) < 0 || prepare_cwd(r, in, ret, err) < 0)
        return err->code;
    int rc = in->command.kind == TCI_EIP_COMMAND_SPEC_ARGV
                 ? prepare_argv(r, &in->command.u.argv, ret, err)
                 : prepare_shell(r, &in->command.u.shell, &profile, ret, err);
    return rc < 0 ? rc : prepare_environment(r, &in->environment, profile, ret, err);
}
