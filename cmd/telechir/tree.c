/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir tree`: all that is below a folder, as one listing. Invariant: when not all is shown,
 * that is said. */
#include "listing.h"

#include "base/num.h"

enum { INDENT = 2, ENTRIES_MAX = 50000, BYTES_MAX = 15900000, TIME_MS = 120000 };

static int read_options(cli *c, tc_list_files_options *o)
{
    uint64_t max = 0;
    size_t n = 0;
    if (!cli_number(c, "max-entries", 1, 0, &max))
        return c->err.code;
    while (cli_nth(c, "exclude", n) != NULL)
        n++;
    tc_str *names = tci_arena_items(&c->arena, tc_str, n + 1);
    if (names == NULL)
        return tci_arena_error(&c->arena, &c->err);
    for (size_t i = 0; i < n; i++)
        names[i] = tci_str(cli_nth(c, "exclude", i));
    *o = (tc_list_files_options){.size = sizeof *o,
                                 .without_hidden = cli_has(c, "no-hidden"),
                                 .without_gitignore = cli_has(c, "no-ignore"),
                                 .has_max_entries = max > 0,
                                 .max_entries =
                                     (int64_t)tci_min_u64(max, (uint64_t)TC_SAFE_INTEGER_MAX),
                                 .has_max_bytes = true,
                                 .max_bytes = BYTES_MAX,
                                 .has_timeout_ms = true,
                                 .timeout_ms = TIME_MS,
                                 .exclude = {names, n}};
    return 0;
}

static size_t depth_of(tc_str path)
{
    size_t depth = 0;
    for (size_t i = 0; i < path.len; i++)
        depth += path.ptr[i] == '/';
    return depth;
}

static void put_line(tci_buf *b, tc_str path, tc_file_kind kind)
{
    size_t slash = tci_str_rfind_byte(path, '/');
    for (size_t i = 0; i < (depth_of(path) + 1) * INDENT; i++)
        tci_buf_append_byte(b, ' ');
    cli_put_name(b, slash < path.len ? tci_str_sub(path, slash + 1, SIZE_MAX) : path);
    if (kind == TC_FILE_DIRECTORY)
        tci_buf_append_byte(b, '/');
    else if (kind == TC_FILE_SYMLINK)
        tci_buf_append_byte(b, '@');
}

static void put_json_line(tci_buf *b, tc_str root, const tc_tree_entry *e, tci_buf *path)
{
    bool first = true;
    tci_buf_clear(path);
    tci_buf_append_str(path, root);
    if (!tci_str_ends(root, TC_STR("/")))
        tci_buf_append_byte(path, '/');
    tci_buf_append_str(path, e->path);
    tci_buf_append_byte(b, '{');
    cli_json_str(b, &first, "relative_path", e->path);
    cli_json_str(b, &first, "path", tci_buf_str(path));
    cli_json_str(b, &first, "kind", tci_str(cli_kind_name(e->kind)));
    tci_buf_append_byte(b, '}');
}

static int show(cli_listing *l, const char *typed, const cli_place *p, const tc_tree *tree)
{
    tci_buf path;
    int rc = 0;
    tci_buf_init(&path, TCI_BUF_MAX);
    if (!l->c->is_json) {
        cli_put_name(&l->buf, tci_str(typed));
        tci_buf_append_byte(&l->buf, '\n');
    }
    for (size_t i = 0; rc == 0 && i < tree->count; i++) {
        if (l->c->is_json)
            put_json_line(&l->buf, p->absolute, &tree->entries[i], &path);
        else
            put_line(&l->buf, tree->entries[i].path, tree->entries[i].kind);
        tci_buf_append_byte(&l->buf, '\n');
        rc = cli_listing_add(l) ? 0 : (int)l->c->err.code;
    }
    tci_buf_done(&path);
    l->is_cut = tree->is_truncated;
    return rc;
}

int cmd_tree(cli *c)
{
    cli_listing l;
    cli_place p;
    tc_tree tree;
    tc_list_files_options o;
    tc_call call = cli_call(c);
    if (!cli_want_args(c, 0, 1) || read_options(c, &o) < 0 || !cli_listing_init(&l, c))
        return cli_fail(c);
    const char *typed = c->nargs > 0 ? c->args[0] : ".";
    int rc = cli_there(c, typed, &p);
    if (rc == 0) {
        rc = tc_env_list_files(p.env, &call, tci_str(p.path), &o, &tree, &c->err);
        if (rc < 0)
            (void)cli_blame(c, "list", typed, "it is no folder");
    }
    if (rc == 0 && tree.count < (o.has_max_entries ? (uint64_t)o.max_entries : ENTRIES_MAX))
        l.cut_by = "too much for one listing: name a folder below it";
    else
        l.cut_by = o.has_max_entries ? "as --max-entries says" : "--max-entries N shows more";
    if (rc == 0)
        rc = show(&l, typed, &p, &tree);
    return cli_listing_end(&l, rc);
}
