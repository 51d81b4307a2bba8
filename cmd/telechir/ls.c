/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir ls`: the entries of folders, all pages of them. */
#include "listing.h"

#include "base/rfc3339.h"

enum { PAGE = 2000 };

static void put_long(tci_buf *b, const tc_file_info *info)
{
    static const char kinds[] = {'?', '-', 'd', 'l'};
    char text[TCI_RFC3339_MAX];
    tci_instant at = {.sec = info->modified_at.sec};
    size_t len = info->modified_at.is_known ? tci_rfc3339_text(at, text) : 0;
    tci_buf_printf(b, "%c%c %12llu %20.*s ", kinds[info->kind], info->is_executable ? 'x' : '-',
                   info->has_size ? (unsigned long long)info->size_bytes : 0ULL, (int)len, text);
}

static bool put_entry(cli_listing *l, tc_str name, const tc_file_info *info)
{
    tci_buf *b = &l->buf;
    if (l->c->is_json) {
        bool first = true;
        tci_buf_append_byte(b, '{');
        cli_json_str(b, &first, "name", name);
        cli_json_info(b, &first, info);
        tci_buf_append_byte(b, '}');
    } else {
        if (cli_has(l->c, "long"))
            put_long(b, info);
        cli_put_name(b, name);
    }
    tci_buf_append_byte(b, '\n');
    return cli_listing_add(l);
}

static int list_folder(cli_listing *l, tc_env *env, const char *path)
{
    cli *c = l->c;
    tc_list_options o = {.size = sizeof o, .include_hidden = cli_has(c, "all")};
    for (;;) {
        tc_file_page page;
        tc_call call = cli_call(c);
        tc_result_clear(c->result);
        o.max_results = cli_listing_room(l, PAGE);
        if (o.max_results == 0) {
            l->is_cut = true;
            return 0;
        }
        int rc = tc_env_list(env, &call, tci_str(path), &o, &page, &c->err);
        if (rc < 0)
            return rc;
        for (size_t i = 0; i < page.count; i++)
            if (!put_entry(l, page.entries[i].relative_path, &page.entries[i].info))
                return c->err.code;
        o.offset += page.count;
        if (!page.has_more) {
            l->nomitted += page.omitted_unrepresentable;
            return 0;
        }
    }
}

static int list_path(cli_listing *l, const char *typed)
{
    cli *c = l->c;
    cli_place p;
    tc_file_info info;
    tc_call call = cli_call(c);
    int rc = cli_there(c, typed, &p);
    if (rc < 0)
        return rc;
    rc = tc_env_stat(p.env, &call, tci_str(p.path), true, &info, &c->err);
    if (rc == TC_E_NOT_FOUND) /* a link that leads nowhere is an entry too */
        rc = tc_env_stat(p.env, &call, tci_str(p.path), false, &info, &c->err);
    if (rc < 0)
        return cli_blame(c, "list", typed, "it is no folder");
    if (info.kind != TC_FILE_DIRECTORY)
        return put_entry(l, tci_str(typed), &info) ? 0 : c->err.code;
    if (c->nargs > 1 && !c->is_json)
        tci_buf_printf(&l->buf, "%s%s:\n", l->nshown > 0 ? "\n" : "", typed);
    rc = list_folder(l, p.env, p.path);
    return rc < 0 ? cli_blame(c, "list", typed, "it is no folder") : 0;
}

int cmd_ls(cli *c)
{
    cli_listing l;
    if (!cli_want_args(c, 0, SIZE_MAX) || !cli_listing_init(&l, c))
        return cli_fail(c);
    int rc = c->nargs == 0 ? list_path(&l, ".") : 0;
    for (size_t i = 0; rc == 0 && i < c->nargs; i++)
        rc = list_path(&l, c->args[i]);
    return cli_listing_end(&l, rc);
}
