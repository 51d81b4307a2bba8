/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir grep`: lines that match, all pages of them, printed as the usual tools do. Invariant:
 * each line of a file is printed at most once, also where contexts overlap or pages meet. */
#include "listing.h"

enum { PAGE = 1000, CONTEXT_MAX = 20 };

typedef struct grep {
    cli_listing l;
    const cli_root *root;
    uint64_t context;
    tci_buf path;    /* of the file being printed */
    uint64_t last;   /* last line of it that was printed */
    tci_buf after;   /* lines of context behind the last match, not printed yet */
    bool has_groups; /* something was printed: groups are set apart */
} grep;

static void put_line(grep *g, uint64_t number, char mark, tc_str text)
{
    tci_buf *b = &g->l.buf;
    if (g->context > 0 && g->has_groups && (g->last == 0 || number > g->last + 1))
        tci_buf_append_str(b, TC_STR("--\n"));
    cli_put_below(b, g->root, tci_buf_str(&g->path));
    tci_buf_printf(b, "%c%llu%c", mark, (unsigned long long)number, mark);
    tci_buf_append_str(b, text);
    tci_buf_append_byte(b, '\n');
    g->last = number;
    g->has_groups = true;
}

/* The context behind the last match, up to (not with) line `until`. */
static void put_after(grep *g, uint64_t until)
{
    tc_str rest = tci_buf_str(&g->after), line;
    uint64_t number = g->last + 1;
    while (rest.len > 0 && tci_str_split(&rest, '\n', &line) && number < until)
        put_line(g, number++, '-', line);
    tci_buf_clear(&g->after);
}

static void new_file(grep *g, tc_str path)
{
    put_after(g, UINT64_MAX);
    tci_buf_clear(&g->path);
    tci_buf_append_str(&g->path, path);
    g->last = 0;
}

/* A match with the lines around it. */
static void put_with_context(grep *g, const tc_search_match *m)
{
    tc_str rest = m->context, line;
    uint64_t number = m->context_start_line;
    put_after(g, m->line_number);
    while (number < m->line_number && rest.len > 0 && tci_str_split(&rest, '\n', &line)) {
        if (number > g->last)
            put_line(g, number, '-', line);
        number++;
    }
    put_line(g, m->line_number, ':', m->preview);
    if (rest.len > 0 && tci_str_split(&rest, '\n', &line))
        tci_buf_append_str(&g->after, rest);
}

static void put_json_match(grep *g, const tc_search_match *m)
{
    tci_buf *b = &g->l.buf;
    bool first = true;
    tci_buf_append_byte(b, '{');
    cli_json_str(b, &first, "path", m->path);
    cli_json_u64(b, &first, "line", m->line_number);
    cli_json_str(b, &first, "text", m->preview);
    if (m->is_preview_truncated)
        cli_json_bool(b, &first, "text_truncated", true);
    if (g->context > 0) {
        cli_json_str(b, &first, "context", m->context);
        cli_json_u64(b, &first, "context_start_line", m->context_start_line);
    }
    tci_buf_append_str(b, TC_STR("}\n"));
}

static bool put_match(grep *g, const tc_search_match *m)
{
    if (g->l.c->is_json) {
        put_json_match(g, m);
        return cli_listing_add(&g->l);
    }
    if (!tci_str_eq(tci_buf_str(&g->path), m->path))
        new_file(g, m->path);
    if (cli_has(g->l.c, "files")) {
        if (g->last == 0) {
            cli_put_below(&g->l.buf, g->root, m->path);
            tci_buf_append_byte(&g->l.buf, '\n');
        }
        g->last = m->line_number;
    } else if (g->context > 0) {
        put_with_context(g, m);
    } else {
        put_line(g, m->line_number, ':', m->preview);
    }
    return cli_listing_add(&g->l);
}

/* Of a bad pattern the daemon only says that some input was invalid. */
static int explain(cli *c, const char *typed)
{
    tc_str hint = tci_str(c->err.hint);
    if (tci_str_find(hint, TC_STR("invalid_regex")) == hint.len)
        return cli_blame(c, "search", typed, "it is in the way");
    tc_err_set(&c->err, TC_E_INVALID, "'%s' is no regular expression that can be used here",
               c->args[0]);
    return tc_err_hint(&c->err, "-F takes plain text");
}

static int search_root(grep *g, tc_search_options o)
{
    cli *c = g->l.c;
    for (;;) {
        tc_search_page page;
        tc_call call = cli_call(c);
        tc_result_clear(c->result);
        o.max_results = cli_listing_room(&g->l, PAGE);
        if (o.max_results == 0) {
            g->l.is_cut = true;
            return 0;
        }
        int rc = tc_env_search(g->root->env, &call, g->root->absolute, tci_str(c->args[0]), &o,
                               &page, &c->err);
        if (rc < 0)
            return explain(c, g->root->typed);
        for (size_t i = 0; i < page.count; i++)
            if (!put_match(g, &page.matches[i]))
                return c->err.code;
        o.offset += page.count;
        if (page.has_more)
            continue;
        g->l.nomitted += page.omitted_unrepresentable;
        return 0;
    }
}

static int read_options(cli *c, tc_search_options *o, uint64_t *ret_context)
{
    o->size = sizeof *o;
    o->is_regex = !cli_has(c, "fixed-strings");
    o->ignore_case = cli_has(c, "ignore-case");
    o->include_hidden = cli_has(c, "hidden");
    o->respect_git_ignore = cli_has(c, "git-ignore");
    o->include_pattern = tci_str(cli_value(c, "include"));
    if (!cli_number(c, "context", 0, 0, ret_context) ||
        !cli_number(c, "max-per-file", 1, 0, &o->max_matches_per_file))
        return c->err.code;
    if (*ret_context > CONTEXT_MAX)
        return tc_err_set(&c->err, TC_E_INVALID, "--context is at most %d", CONTEXT_MAX);
    if (cli_has(c, "files"))
        o->max_matches_per_file = 1;
    o->context_lines = (uint32_t)*ret_context;
    return 0;
}

int cmd_grep(cli *c)
{
    grep g = {0};
    cli_root root;
    tc_search_options o = {0};
    if (!cli_want_args(c, 1, SIZE_MAX) || read_options(c, &o, &g.context) < 0 ||
        !cli_listing_init(&g.l, c))
        return cli_fail(c);
    tci_buf_init(&g.path, TCI_BUF_MAX);
    tci_buf_init(&g.after, TCI_BUF_MAX);
    g.root = &root;
    int rc = 0;
    for (size_t i = 1; rc == 0 && (i < c->nargs || i == 1); i++) {
        rc = cli_root_of(c, i < c->nargs ? c->args[i] : ".", &root);
        if (rc == 0)
            rc = search_root(&g, o);
        new_file(&g, TC_STR(""));
    }
    int status = cli_listing_end(&g.l, rc);
    tci_buf_done(&g.path);
    tci_buf_done(&g.after);
    return status == CLI_OK && g.l.nshown == 0 ? CLI_FAILED : status;
}
