/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir find`: names below a folder that match a pattern, all pages of them. */
#include "listing.h"

enum { PAGE = 2000 };

static int read_kinds(cli *c, unsigned *ret)
{
    static const struct {
        const char *name;
        unsigned kind;
    } kinds[] = {{"file", TC_KINDS_FILE},           {"f", TC_KINDS_FILE},
                 {"directory", TC_KINDS_DIRECTORY}, {"d", TC_KINDS_DIRECTORY},
                 {"symlink", TC_KINDS_SYMLINK},     {"l", TC_KINDS_SYMLINK},
                 {"other", TC_KINDS_OTHER}};
    const char *word;
    for (size_t n = 0; (word = cli_nth(c, "type", n)) != NULL; n++) {
        unsigned found = 0;
        for (size_t i = 0; i < TCI_ARRAY_LEN(kinds); i++)
            if (strcmp(kinds[i].name, word) == 0)
                found = kinds[i].kind;
        if (found == 0)
            return tc_err_set(&c->err, TC_E_INVALID,
                              "--type is file, directory, symlink or other, not '%s'", word);
        *ret |= found;
    }
    return 0;
}

static bool put_found(cli_listing *l, const cli_root *root, const tc_file_entry *e)
{
    tci_buf *b = &l->buf;
    if (l->c->is_json) {
        bool first = true;
        tci_buf_append_byte(b, '{');
        cli_json_str(b, &first, "relative_path", e->relative_path);
        cli_json_info(b, &first, &e->info);
        tci_buf_append_byte(b, '}');
    } else {
        cli_put_below(b, root, e->info.path);
    }
    tci_buf_append_byte(b, '\n');
    return cli_listing_add(l);
}

static int find_all(cli_listing *l, const cli_root *root, tc_find_options *o)
{
    cli *c = l->c;
    for (;;) {
        tc_file_page page;
        tc_call call = cli_call(c);
        tc_result_clear(c->result);
        o->max_results = cli_listing_room(l, PAGE);
        if (o->max_results == 0) {
            l->is_cut = true;
            return 0;
        }
        int rc =
            tc_env_find(root->env, &call, root->absolute, tci_str(c->args[0]), o, &page, &c->err);
        if (rc < 0)
            return cli_blame(c, "search below", root->typed, "it is in the way");
        for (size_t i = 0; i < page.count; i++)
            if (!put_found(l, root, &page.entries[i]))
                return c->err.code;
        o->offset += page.count;
        if (!page.has_more) {
            l->nomitted += page.omitted_unrepresentable;
            return 0;
        }
    }
}

int cmd_find(cli *c)
{
    cli_listing l;
    cli_root root;
    tc_find_options o = {.size = sizeof o,
                         .include_hidden = cli_has(c, "hidden"),
                         .respect_git_ignore = cli_has(c, "git-ignore"),
                         .is_flat = cli_has(c, "flat")};
    if (!cli_want_args(c, 1, 2) || read_kinds(c, &o.kinds) < 0 || !cli_listing_init(&l, c))
        return cli_fail(c);
    int rc = cli_root_of(c, c->nargs > 1 ? c->args[1] : ".", &root);
    if (rc == 0)
        rc = find_all(&l, &root, &o);
    return cli_listing_end(&l, rc);
}
