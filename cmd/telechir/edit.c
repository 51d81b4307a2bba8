/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir edit`: exact replacement, or a unified diff. Leaves the texts to edit_diff.c. Invariant:
 * only the bytes replaced change, and lines that somebody else changed meanwhile are never
 * overwritten where the change can be sent as a diff. */
#include "edit.h"

#include "cli.h"
#include "plat/file.h"

enum { TEXT_MAX = 16 * 1024 * 1024, CONTENT_MAX = 64 * 1024 * 1024, DIFF_MAX = 8 * 1024 * 1024 };

/* ---- the texts ---- */

/* From a file here, or standard input for "-". In the command's arena. */
static int read_text(cli *c, const char *path, tc_str *ret)
{
    char *text = NULL;
    size_t len = 0;
    int rc;
    if (strcmp(path, "-") == 0) {
        tci_buf b;
        tci_buf_init(&b, TEXT_MAX);
        rc = cli_input_all(c, &b);
        if (rc == 0)
            rc = tci_arena_dup(&c->arena, tci_buf_str(&b), ret, &c->err);
        tci_buf_done(&b);
        return rc;
    }
    rc = tci_file_read_whole(TCI_FILE_CWD, tci_str(path), TEXT_MAX, &text, &len, &c->err);
    if (rc == 0)
        rc = tci_arena_dup(&c->arena, tci_str_of(text, len), ret, &c->err);
    tci_free(text);
    return rc;
}

/* --old TEXT or --old-file FILE. */
static int one_text(cli *c, const char *option, const char *file_option, tc_str *ret)
{
    const char *text = cli_value(c, option), *path = cli_value(c, file_option);
    if ((text == NULL) == (path == NULL))
        return tc_err_set(&c->err, TC_E_INVALID, "give --%s TEXT or --%s FILE, one of them", option,
                          file_option);
    if (path != NULL)
        return read_text(c, path, ret);
    *ret = tci_str(text);
    return 0;
}

/* ---- answering ---- */

/* what: the member's name, in the plural. */
static int say_done(cli *c, const cli_place *p, const char *what, uint64_t n, const char *method)
{
    if (!c->is_json) {
        cli_say(c, "%s: %llu %.*s", p->path, (unsigned long long)n,
                (int)(strlen(what) - (n == 1 ? 1 : 0)), what);
        return CLI_OK;
    }
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "path", p->absolute);
    cli_json_u64(&b, &first, what, n);
    cli_json_str(&b, &first, "method", tci_str(method));
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine ? CLI_OK : cli_fail(c);
}

static int explain_conflict(cli *c, const char *typed)
{
    tc_err_set(&c->err, TC_E_CONFLICT, "'%s' was changed by somebody else meanwhile", typed);
    return tc_err_hint(&c->err, "nothing was written; look at it again and repeat");
}

/* ---- a diff given ---- */

/* What tools write before the first file's header means nothing to a target. */
static tc_str without_preamble(tc_str patch)
{
    tc_str rest = patch;
    while (rest.len > 0 && !tci_str_starts(rest, TC_STR("--- ")) &&
           !tci_str_starts(rest, TC_STR("@@ "))) {
        size_t end = tci_str_find_byte(rest, '\n');
        rest = tci_str_sub(rest, end + 1, SIZE_MAX);
    }
    return rest.len > 0 ? rest : patch;
}

static int apply_patch(cli *c, const cli_place *p, const char *typed)
{
    tc_env *env = p->env;
    const char *path = p->path;
    tc_str patch = {0};
    uint64_t nhunks = 0;
    tc_call call = cli_call(c);
    tc_file_info info;
    int rc = read_text(c, cli_value(c, "patch"), &patch);
    if (rc < 0)
        return cli_fail(c);
    rc = tc_env_patch(env, &call, tci_str(path), without_preamble(patch), &nhunks, &info, &c->err);
    if (rc == 0)
        return say_done(c, p, "hunks", nhunks, "patch");
    (void)cli_blame(c, "patch", typed, "the diff does not fit it");
    if (rc == TC_E_CONFLICT)
        (void)tc_err_hint(&c->err, "the diff must match the file exactly, at its line numbers");
    return cli_fail(c);
}

/* ---- replacement ---- */

static bool is_same_version(const tc_file_info *a, const tc_file_info *b)
{
    return a->size_bytes == b->size_bytes && a->modified_at.sec == b->modified_at.sec &&
           a->modified_at.nsec == b->modified_at.nsec;
}

typedef struct edit {
    const char *path, *typed;
    tc_str old, with, text;
    tc_file_info info;
    size_t n;
} edit;

/* Where a diff cannot carry it: compare the file's facts just before writing the whole. */
static int rewrite(cli *c, tc_env *env, const edit *e, tc_str content)
{
    tc_file_info now;
    tc_transfer t;
    tc_call call = cli_call(c);
    tc_write_options o = {.size = sizeof o, .mode = TC_WRITE_REPLACE};
    int rc = tc_env_stat(env, &call, tci_str(e->path), true, &now, &c->err);
    if (rc == 0 && !is_same_version(&e->info, &now))
        return explain_conflict(c, e->typed);
    return rc == 0 ? tc_env_write(env, &call, tci_str(e->path), content, &o, &t, &c->err) : rc;
}

static int send_edit(cli *c, tc_env *env, const edit *e, const char **ret_method)
{
    tci_buf b;
    tc_file_info info;
    uint64_t nhunks;
    tc_call call = cli_call(c);
    tci_buf_init(&b, DIFF_MAX);
    int rc;
    if (cli_edit_diff(e->text, e->old, e->with, e->n, &b)) {
        *ret_method = "patch";
        rc = tc_env_patch(env, &call, tci_str(e->path), tci_buf_str(&b), &nhunks, &info, &c->err);
        if (rc == TC_E_CONFLICT)
            rc = explain_conflict(c, e->typed);
        tci_buf_done(&b);
        return rc;
    }
    tci_buf_done(&b);
    tci_buf_init(&b, TCI_BUF_MAX);
    *ret_method = "rewrite";
    cli_edit_replace(e->text, e->old, e->with, e->n, &b);
    rc = tci_buf_error(&b, &c->err);
    if (rc == 0)
        rc = rewrite(c, env, e, tci_buf_str(&b));
    tci_buf_done(&b);
    return rc;
}

static int look(cli *c, tc_env *env, edit *e)
{
    tc_call call = cli_call(c);
    int rc = tc_env_stat(env, &call, tci_str(e->path), true, &e->info, &c->err);
    if (rc == 0)
        rc = tc_env_read(env, &call, tci_str(e->path), NULL, CONTENT_MAX, &e->text, &c->err);
    if (rc < 0)
        return cli_blame(c, "read", e->typed, "it changed meanwhile, or is no file");
    size_t found = cli_edit_count(e->text, e->old);
    e->n = found;
    if (found == 0)
        return tc_err_set(&c->err, TC_E_NOT_FOUND, "the old text is not in '%s'", e->typed);
    if (found == 1 || cli_has(c, "all"))
        return 0;
    tc_err_set(&c->err, TC_E_CONFLICT, "the old text is in '%s' %zu times", e->typed, found);
    return tc_err_hint(&c->err, "give more of the text around it, or --all");
}

static int replace(cli *c, const char *typed)
{
    edit e = {0};
    cli_place p;
    const char *method = "";
    const char *old_file = cli_value(c, "old-file"), *new_file = cli_value(c, "new-file");
    if (old_file != NULL && new_file != NULL && strcmp(old_file, "-") == 0 &&
        strcmp(new_file, "-") == 0)
        return cli_usage(c, "only one text can come from standard input");
    if (one_text(c, "old", "old-file", &e.old) < 0 || one_text(c, "new", "new-file", &e.with) < 0)
        return cli_fail(c);
    if (e.old.len == 0)
        return cli_usage(c, "the old text is empty");
    if (cli_there(c, typed, &p) < 0)
        return cli_fail(c);
    e.path = p.path;
    e.typed = typed;
    if (look(c, p.env, &e) < 0 || send_edit(c, p.env, &e, &method) < 0)
        return cli_fail(c);
    return say_done(c, &p, "replacements", e.n, method);
}

int cmd_edit(cli *c)
{
    if (!cli_want_args(c, 1, 1))
        return cli_fail(c);
    if (cli_value(c, "patch") == NULL)
        return replace(c, c->args[0]);
    if (cli_has(c, "old") || cli_has(c, "old-file") || cli_has(c, "new") ||
        cli_has(c, "new-file") || cli_has(c, "all"))
        return cli_usage(c, "--patch goes without --old, --new and --all");
    cli_place p;
    return cli_there(c, c->args[0], &p) == 0 ? apply_patch(c, &p, c->args[0]) : cli_fail(c);
}
