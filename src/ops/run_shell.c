/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command line means here: which shell or program, in which folder, with which environment.
 * Leaves executing to exec.c, so a place that may not be executed is only found out there. Any
 * thread; everything lives in the caller's arena. */
#include "ops/run_int.h"

#include "base/num.h"
#include "plat/env.h"

#define USUAL_SHELL TC_STR("/bin/bash")
#define USUAL_SEARCH TC_STR("/bin:/usr/bin") /* of execvp(3) when there is no PATH */

enum { PASSWD_MAX = 1024 * 1024, PASSWD_FIELDS = 7, EXECUTE_BITS = 0111 };

static int cannot(tc_err *err, int os, const char *what, tc_str subject)
{
    if (os != 0)
        return tc_err_set_os(err, TC_E_START_FAILED, os, "%s '%.*s'", what, TC_STR_ARG(subject));
    return tc_err_set(err, TC_E_START_FAILED, "%s '%.*s'", what, TC_STR_ARG(subject));
}

/* A C string in the arena; text with a NUL can be no argument. */
static int arena_cstr(tci_arena *a, tc_str s, const char *what, const char **ret, tc_err *err)
{
    char *copy;
    int rc = tci_arena_cstr(a, s, &copy, err);
    if (rc == TC_E_INVALID)
        return tc_err_set(err, TC_E_START_FAILED, "nul byte found in %s", what);
    if (rc == 0)
        *ret = copy;
    return rc;
}

/* ---- the shell ---- */

static bool is_there(tc_str path)
{
    tci_file_stat st;
    tc_err err;
    return tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &err) == 0;
}

static bool is_program(tc_str path)
{
    tci_file_stat st;
    tc_err err;
    return tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &err) == 0 &&
           st.kind == TCI_FILE_KIND_REGULAR && (st.mode & EXECUTE_BITS) != 0;
}

/* As which(1) finds it in the PATH of this process. */
static int find_bash(tci_arena *a, tc_str *ret, tc_err *err)
{
    tc_str rest = tci_str(tci_env_get("PATH")), folder;
    while (rest.len > 0 && tci_str_split(&rest, ':', &folder)) {
        tc_str path;
        if (tci_arena_printf(a, &path, err, "%.*s/bash",
                             TC_STR_ARG(folder.len > 0 ? folder : TC_STR("."))) < 0)
            return err->code;
        if (is_program(path)) {
            *ret = path;
            return 0;
        }
    }
    *ret = TC_STR("sh");
    return 0;
}

static tc_str field_of(tc_str line, int n)
{
    tc_str field = TC_STR("");
    for (int i = 0; i < n; i++)
        if (!tci_str_split(&line, ':', &field))
            return TC_STR("");
    return field;
}

/* What login(1) and sshd(8) said when the session began, else what the account file says. */
static int account_shell(tci_arena *a, tc_str *ret, tc_err *err)
{
    tc_str said = tci_str(tci_env_get("SHELL")), line;
    *ret = TC_STR("/bin/sh");
    if (said.len > 0 && said.ptr[0] == '/' && is_there(said)) {
        *ret = said;
        return 0;
    }
    char *text, uid[TCI_NUM_TEXT_MAX];
    size_t len;
    tc_err ignored;
    if (tci_file_read_whole(TCI_FILE_CWD, TC_STR("/etc/passwd"), PASSWD_MAX, &text, &len,
                            &ignored) < 0)
        return 0;
    tc_str rest = tci_str_of(text, len);
    tci_buf wanted;
    int rc = 0;
    tci_buf_init(&wanted, sizeof uid);
    tci_buf_append_u64(&wanted, tci_file_euid());
    while (rc == 0 && tci_str_split(&rest, '\n', &line)) {
        tc_str shell = field_of(line, PASSWD_FIELDS);
        if (!tci_str_eq(field_of(line, 3), tci_buf_str(&wanted)) || shell.len == 0)
            continue;
        rc = tci_arena_dup(a, shell, ret, err);
        break;
    }
    tci_buf_done(&wanted);
    tci_free(text);
    return rc;
}

static int choose_shell(const tci_run_opts *opts, tci_arena *a, tc_str *ret, tc_err *err)
{
    if (opts->shell_path.ptr != NULL) {
        *ret = opts->shell_path;
        if (is_there(opts->shell_path))
            return 0;
        return tc_err_set(err, TC_E_NOT_FOUND, "shell '%.*s' does not exist",
                          TC_STR_ARG(opts->shell_path));
    }
    if (opts->is_login)
        return account_shell(a, ret, err);
    *ret = USUAL_SHELL;
    return is_there(USUAL_SHELL) ? 0 : find_bash(a, ret, err);
}

/* "-bash": a shell takes the dash for being asked to log in. */
static int login_name(tc_str shell, tci_arena *a, const char **ret, tc_err *err)
{
    tc_str folder, name = shell, dashed;
    if (shell.len > 0 && shell.ptr[0] == '/')
        tci_path_split(shell, &folder, &name);
    if (tci_arena_printf(a, &dashed, err, "-%.*s", TC_STR_ARG(name)) < 0)
        return err->code;
    return arena_cstr(a, dashed, "the shell", ret, err);
}

static int plan_shell(const tci_run_opts *opts, tci_arena *a, run_plan *plan, tc_err *err)
{
    tc_str shell;
    const char **argv = tci_arena_items(a, const char *, 4);
    if (argv == NULL)
        return tci_arena_error(a, err);
    int rc = choose_shell(opts, a, &shell, err);
    if (rc == 0)
        rc = arena_cstr(a, shell, "the shell", &plan->file, err);
    if (rc == 0)
        rc = arena_cstr(a, opts->command, "the command", &argv[2], err);
    argv[0] = plan->file;
    argv[1] = "-c";
    if (rc == 0 && opts->is_login)
        rc = login_name(shell, a, &argv[0], err);
    plan->argv = argv;
    return rc;
}

/* ---- arguments, environment, folder ---- */

static int plan_argv(const tci_run_opts *opts, tci_arena *a, run_plan *plan, tc_err *err)
{
    if (opts->nargv == 0)
        return tc_err_set(err, TC_E_START_FAILED, "there is no program to run");
    if (opts->argv[0].len == 0)
        return tc_err_set(err, TC_E_START_FAILED, "the name of the program is empty");
    const char **argv = tci_arena_items(a, const char *, opts->nargv + 1);
    if (argv == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < opts->nargv; i++)
        if (arena_cstr(a, opts->argv[i], "an argument", &argv[i], err) < 0)
            return err->code;
    plan->argv = argv;
    plan->file = argv[0];
    return 0;
}

static bool has_name(const char *entry, tc_str name)
{
    return strncmp(entry, name.ptr, name.len) == 0 && entry[name.len] == '=';
}

/* Its place in the n entries so far, or n. */
static size_t find_var(const char *const *envp, size_t n, tc_str name)
{
    for (size_t i = 0; i < n; i++)
        if (name.len > 0 && has_name(envp[i], name))
            return i;
    return n;
}

static int plan_env(const tci_run_opts *opts, tci_arena *a, run_plan *plan, tc_err *err)
{
    const char *const *inherited = (const char *const *)tci_env_list();
    size_t n = 0;
    while (opts->inherit_env && inherited[n] != NULL)
        n++;
    const char **envp = tci_arena_items(a, const char *, n + opts->nvars + 1);
    if (envp == NULL)
        return tci_arena_error(a, err);
    if (n > 0)
        memcpy(envp, inherited, n * sizeof *envp);
    for (size_t i = 0; i < opts->nvars; i++) {
        const tci_run_var *v = &opts->vars[i];
        tc_str entry;
        if (tci_arena_printf(a, &entry, err, "%.*s=%.*s", TC_STR_ARG(v->name),
                             TC_STR_ARG(v->value)) < 0)
            return err->code;
        if (v->name.len + v->value.len + 1 != strlen(entry.ptr))
            return tc_err_set(err, TC_E_START_FAILED, "nul byte found in a variable");
        size_t at = find_var(envp, n, v->name);
        envp[at] = entry.ptr;
        n += at == n;
    }
    plan->envp = envp;
    size_t at = find_var(envp, n, TC_STR("PATH"));
    plan->search = at < n ? tci_str(envp[at] + sizeof "PATH=" - 1) : USUAL_SEARCH;
    return 0;
}

static int plan_cwd(tc_str cwd, tci_arena *a, run_plan *plan, tc_err *err)
{
    tci_file_stat st;
    if (tci_file_stat_at(TCI_FILE_CWD, cwd, true, &st, err) < 0) {
        if (err->code == TC_E_NOT_FOUND || err->os == 0)
            return cannot(err, 0, "Working directory does not exist:", cwd);
        return cannot(err, err->os, "cannot enter working directory", cwd);
    }
    if (st.kind != TCI_FILE_KIND_DIRECTORY)
        return cannot(err, 0, "working directory is not a directory:", cwd);
    if (cwd.ptr[0] != '/') {
        char whole[TCI_PATH_MAX];
        tc_str path;
        if (tci_file_realpath(cwd, whole, &path, err) < 0)
            return cannot(err, err->os, "cannot enter working directory", cwd);
        return arena_cstr(a, path, "the working directory", &plan->cwd, err);
    }
    return arena_cstr(a, cwd, "the working directory", &plan->cwd, err);
}

int tci_run_plan(const tci_run_opts *opts, tci_arena *a, run_plan *ret, tc_err *err)
{
    run_plan plan = {0};
    int rc = opts->command.ptr != NULL ? plan_shell(opts, a, &plan, err)
                                       : plan_argv(opts, a, &plan, err);
    if (rc == 0)
        rc = plan_cwd(opts->cwd, a, &plan, err);
    if (rc == 0)
        rc = plan_env(opts, a, &plan, err);
    if (rc == 0)
        *ret = plan;
    return rc;
}

/* ---- where the program is ---- */

/* Put folder below cwd (unless it is absolute), and file in it. false: too long. */
static bool join(const char *cwd, tc_str folder, const char *file, char buf[TCI_PATH_MAX])
{
    tci_buf path;
    bool is_absolute = folder.len > 0 && folder.ptr[0] == '/';
    tc_err err;
    tci_buf_init(&path, TCI_PATH_MAX);
    if (!is_absolute) {
        tci_buf_append_str(&path, tci_str(cwd));
        tci_buf_append_byte(&path, '/');
    }
    tci_buf_append_str(&path, folder);
    if (folder.len > 0)
        tci_buf_append_byte(&path, '/');
    tci_buf_append_str(&path, tci_str(file));
    bool fits = tci_buf_ok(&path) && tci_cstr(tci_buf_str(&path), buf, TCI_PATH_MAX, &err) == 0;
    tci_buf_done(&path);
    return fits;
}

bool tci_run_candidate(const run_plan *plan, size_t i, char buf[TCI_PATH_MAX])
{
    if (strchr(plan->file, '/') != NULL) {
        if (i > 0)
            return false;
        tc_err err;
        return plan->file[0] == '/' ? tci_cstr(tci_str(plan->file), buf, TCI_PATH_MAX, &err) == 0
                                    : join(plan->cwd, TC_STR(""), plan->file, buf);
    }
    tc_str rest = plan->search, folder = TC_STR("");
    for (size_t n = 0; n <= i; n++)
        if (!tci_str_split(&rest, ':', &folder))
            return false;
    if (!join(plan->cwd, folder, plan->file, buf))
        buf[0] = '\0';
    return true;
}
