/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir rm`: removing what is named, and nothing else. Links are removed, not followed. */
#include "cli.h"

#include "plat/file.h"

enum { ENTRIES_MAX = 10000 };

static int say_removed(cli *c, const cli_place *p, uint64_t nremoved)
{
    if (!c->is_json) {
        cli_detail(c, "removed '%s' (%llu %s)", p->path, (unsigned long long)nremoved,
                   nremoved == 1 ? "entry" : "entries");
        return 0;
    }
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "path", p->absolute);
    cli_json_u64(&b, &first, "removed", nremoved);
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine ? 0 : c->err.code;
}

/* What is too much to be meant: nothing at all after "TARGET:", a folder by "." or "..", the home
 * folder, the root. The same rule as rm(1) has, and the home folder on top. */
static bool is_too_much(const char *typed, const char *path)
{
    tc_str p = tci_str(path), parent, name;
    size_t len = strlen(typed);
    if (p.len == 0 || (len > 0 && typed[len - 1] == ':'))
        return true;
    while (p.len > 1 && p.ptr[p.len - 1] == '/')
        p.len--;
    tci_path_split(p, &parent, &name);
    if (tci_str_find_byte(p, '/') == p.len)
        name = p;
    return tci_str_eq(name, TC_STR(".")) || tci_str_eq(name, TC_STR("..")) ||
           tci_str_eq(p, TC_STR("~")) || tci_str_eq(p, TC_STR("/"));
}

static int refuse(cli *c, const char *typed)
{
    tc_err_set(&c->err, TC_E_INVALID, "'%s' is a whole folder that you may be in", typed);
    return tc_err_hint(&c->err, "name what is in it, or the folder by its own name");
}

static int remove_one(cli *c, const cli_place *p, uint64_t max_entries)
{
    tc_env *env = p->env;
    const char *path = p->path;
    tc_call call = cli_call(c);
    tc_file_info info;
    uint64_t nremoved = 0;
    bool is_recursive = cli_has(c, "recursive");
    tc_result_clear(c->result);
    int rc = tc_env_stat(env, &call, tci_str(path), false, &info, &c->err);
    if (rc == TC_E_NOT_FOUND && cli_has(c, "force"))
        return 0;
    if (rc < 0)
        return rc;
    if (info.kind == TC_FILE_DIRECTORY && !is_recursive) {
        tc_err_set(&c->err, TC_E_CONFLICT, "it is a folder");
        return tc_err_hint(&c->err, "pass -r to remove it with all that is in it");
    }
    bool is_tree = info.kind == TC_FILE_DIRECTORY;
    rc = tc_env_remove(env, &call, tci_str(path), info.kind, is_tree, is_tree ? max_entries : 0,
                       &nremoved, &c->err);
    if (rc == TC_E_QUOTA)
        (void)tc_err_hint(&c->err, "nothing was removed; --max-entries N allows more than %llu",
                          (unsigned long long)max_entries);
    return rc < 0 ? rc : say_removed(c, p, nremoved);
}

int cmd_rm(cli *c)
{
    uint64_t max_entries;
    int status = CLI_OK;
    if (!cli_want_args(c, 1, SIZE_MAX) ||
        !cli_number(c, "max-entries", 1, ENTRIES_MAX, &max_entries))
        return cli_fail(c);
    for (size_t i = 0; i < c->nargs; i++) {
        cli_place p;
        if (cli_there(c, c->args[i], &p) < 0)
            return cli_fail(c);
        if (is_too_much(c->args[i], p.path)) {
            (void)refuse(c, c->args[i]);
            return cli_fail(c);
        }
        if (remove_one(c, &p, max_entries) == 0)
            continue;
        (void)cli_blame(c, "remove", c->args[i], "it changed meanwhile, or is not empty");
        status = cli_fail(c);
        if (cli_caught() != 0)
            break;
    }
    return status;
}
