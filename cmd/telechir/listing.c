/* SPDX-License-Identifier: Apache-2.0
 *
 * Printing many names. Invariant: whenever fewer are shown than there are, that is said. */
#include "listing.h"

enum { WRITE_AT = 64 * 1024 };

bool cli_listing_init(cli_listing *l, cli *c)
{
    *l = (cli_listing){.c = c, .cut_by = "as --max says"};
    tci_buf_init(&l->buf, TCI_BUF_MAX);
    return cli_number(c, "max", 1, 0, &l->max);
}

uint32_t cli_listing_room(const cli_listing *l, uint32_t page)
{
    uint64_t left = l->max > 0 ? l->max - l->nshown : page;
    return left < page ? (uint32_t)left : page;
}

static bool flush(cli_listing *l)
{
    bool is_fine = tci_buf_error(&l->buf, &l->c->err) == 0 && cli_out(l->c, tci_buf_str(&l->buf));
    tci_buf_clear(&l->buf);
    return is_fine;
}

bool cli_listing_add(cli_listing *l)
{
    l->nshown++;
    return l->buf.len < WRITE_AT || flush(l);
}

static void put_note(cli_listing *l)
{
    bool first = true;
    tci_buf_append_byte(&l->buf, '{');
    cli_json_bool(&l->buf, &first, "truncated", l->is_cut);
    cli_json_u64(&l->buf, &first, "shown", l->nshown);
    cli_json_u64(&l->buf, &first, "omitted_unrepresentable", l->nomitted);
    tci_buf_append_str(&l->buf, TC_STR("}\n"));
}

int cli_listing_end(cli_listing *l, int rc)
{
    cli *c = l->c;
    tc_err first_err = c->err;
    bool is_partial = l->is_cut || l->nomitted > 0;
    if (rc == 0 && c->is_json && is_partial)
        put_note(l);
    bool is_fine = flush(l);
    tci_buf_done(&l->buf);
    if (rc < 0) {
        c->err = first_err;
        return cli_fail(c);
    }
    if (!is_fine)
        return cli_fail(c);
    if (l->is_cut)
        cli_say(c, "cut after %llu: %s", (unsigned long long)l->nshown, l->cut_by);
    if (l->nomitted > 0)
        cli_warn(c, "left out: %llu name%s not in UTF-8", (unsigned long long)l->nomitted,
                 cli_s(l->nomitted));
    return CLI_OK;
}

int cli_root_of(cli *c, const char *typed, cli_root *ret)
{
    cli_place p;
    int rc = cli_there(c, typed, &p);
    if (rc < 0)
        return rc;
    *ret = (cli_root){.typed = typed, .env = p.env};
    rc = tc_env_absolute_path(p.env, tci_str(p.path), c->result, &ret->absolute, &c->err);
    return rc == 0 ? tci_arena_dup(&c->arena, ret->absolute, &ret->absolute, &c->err) : rc;
}

void cli_put_below(tci_buf *b, const cli_root *root, tc_str path)
{
    tc_str typed = tci_str(root->typed);
    if (!tci_str_starts(path, root->absolute)) {
        cli_put_name(b, path);
        return;
    }
    tc_str rest = tci_str_sub(path, root->absolute.len, SIZE_MAX);
    if (rest.len > 0 && rest.ptr[0] == '/')
        rest = tci_str_sub(rest, 1, SIZE_MAX);
    if (!tci_str_eq(typed, TC_STR("."))) {
        cli_put_name(b, typed);
        if (rest.len > 0 && !tci_str_ends(typed, TC_STR("/")) && !tci_str_ends(typed, TC_STR(":")))
            tci_buf_append_byte(b, '/');
    }
    cli_put_name(b, rest);
}
