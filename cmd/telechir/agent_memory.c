/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session keeps about how it was run, in its document "tc.run": the target and how to reach it, the
 * model's server, the file with the key, whether to ask before tools run, and from which record on which
 * target was the one. Names and paths only. The main thread. Invariant: a target that was not named on
 * the command line is the one that was used last, reached the same way. */
#include "agent.h"

#include "base/json_tree.h"
#include "target.h"

static const tc_doc_def run_doc = {.size = sizeof run_doc,
                                   .kind = AGENT_RUN_DOC,
                                   .version = 1,
                                   .scope = TC_SCOPE_SESSION,
                                   .initial_json = "{}"};

/* ---- where a record was made ---- */

tc_str agent_place(const tci_json *memory, uint64_t id)
{
    tc_str found = {NULL, 0};
    const tci_json *places = memory != NULL && memory->kind == TCI_JSON_OBJECT
                                 ? tci_json_get(memory, TC_STR("places"))
                                 : NULL;
    for (uint32_t i = 0; places != NULL && places->kind == TCI_JSON_ARRAY && i < places->count;
         i++) {
        uint64_t from = 0;
        const tci_json *v = tci_json_get(&places->u.items[i], TC_STR("from"));
        if (v != NULL && tci_json_as_u64(v, &from) && from <= id)
            found = tci_json_str_member(&places->u.items[i], "on");
    }
    return found;
}

/* The first id that nothing has yet. */
static int next_id(agent *a, uint64_t *ret)
{
    tc_durable *s = agent_session(a);
    tc_err *err = &a->c->err;
    tc_result *r = a->c->result;
    tc_page newest = {.order = TC_ORDER_DESCENDING, .limit = 1};
    tc_task_query all = TC_TASK_QUERY_ALL;
    tc_records found[2];
    if (tc_durable_entries(s, 0, 0, 0, &newest, r, &found[0], err) < 0 ||
        tc_durable_tasks(s, &all, &newest, r, &found[1], err) < 0)
        return err->code;
    *ret = 1;
    for (size_t i = 0; i < TCI_ARRAY_LEN(found); i++) {
        const tc_json *record;
        int64_t id;
        if (found[i].count == 0)
            continue;
        if (tc_json_parse(r, found[i].items[0], &record, err) < 0)
            return err->code;
        if (tc_json_as_i64(tc_json_get(record, TC_STR("id")), &id) && (uint64_t)id >= *ret)
            *ret = (uint64_t)id + 1;
    }
    return 0;
}

/* ---- reading it ---- */

/* An option of the command line, or what was kept under key; NULL: neither. */
static int option_or(agent *a, const char *option, const char *key, const char **ret)
{
    tc_str kept = tci_json_str_member(a->memory, key);
    char *text;
    *ret = cli_value(a->c, option);
    if (*ret != NULL || kept.len == 0)
        return 0;
    if (tci_arena_cstr(&a->c->arena, kept, &text, &a->c->err) < 0)
        return a->c->err.code;
    *ret = text;
    return 0;
}

/* The options of targets: how to reach one. */
static const cli_option *way(size_t n)
{
    if (n < cli_ntarget_options)
        return &cli_target_options[n];
    n -= cli_ntarget_options;
    return n < cli_nssh_options ? &cli_ssh_options[n] : NULL;
}

tc_str agent_way(const agent *a, const char *option)
{
    const tci_json *ways = a->memory != NULL ? tci_json_get(a->memory, TC_STR("ways")) : NULL;
    return ways != NULL && ways->kind == TCI_JSON_OBJECT ? tci_json_str_member(ways, option)
                                                         : (tc_str){NULL, 0};
}

/* As if they had been typed: what the target was reached with last time. */
static int use_ways(agent *a)
{
    cli *c = a->c;
    const cli_option *o;
    const tci_json *ways = a->memory != NULL ? tci_json_get(a->memory, TC_STR("ways")) : NULL;
    for (size_t i = 0; ways != NULL && ways->kind == TCI_JSON_OBJECT && (o = way(i)) != NULL; i++) {
        const tci_json *v = tci_json_get(ways, tci_str(o->name));
        char *text = NULL;
        if (v == NULL || cli_has(c, o->name) || c->ngiven == CLI_VALUES_MAX)
            continue;
        if (o->value != NULL &&
            tci_arena_cstr(&c->arena, tci_json_str_member(ways, o->name), &text, &c->err) < 0)
            return c->err.code;
        c->given[c->ngiven++] = (cli_given){o, text};
    }
    return 0;
}

int agent_recall(agent *a)
{
    cli *c = a->c;
    tc_doc_addr addr = {.def = &run_doc};
    tc_str text;
    if (tc_durable_snapshot(a->session, &addr, c->result, &text, &c->err) < 0)
        return c->err.code;
    if (text.len > 0) {
        tci_json *memory = tci_arena_new(&c->arena, tci_json);
        if (memory == NULL)
            return tci_arena_error(&c->arena, &c->err);
        if (tci_arena_dup(&c->arena, text, &text, &c->err) < 0 ||
            tci_json_parse(text, TCI_JSON_DURABLE, &c->arena, memory, &c->err) < 0)
            return c->err.code;
        a->memory = memory;
    }
    if (option_or(a, "on", "on", &a->on_text) < 0 ||
        option_or(a, "base-url", "baseUrl", &a->base_url) < 0 ||
        option_or(a, "key-file", "keyFile", &a->key_file) < 0)
        return c->err.code;
    if (a->on_text == NULL)
        a->on_text = "local";
    a->on = tci_str(a->on_text);
    tc_str was = tci_json_str_member(a->memory, "on");
    a->is_moved = was.len > 0 && !tci_str_eq(was, a->on);
    const tci_json *ask = a->memory != NULL ? tci_json_get(a->memory, TC_STR("ask")) : NULL;
    bool did_ask = false;
    if (ask != NULL)
        (void)tci_json_as_bool(ask, &did_ask); /* else it did not */
    a->is_asking = cli_has(c, "ask") || (did_ask && !cli_has(c, "yes"));
    return cli_has(c, "on") ? 0 : use_ways(a);
}

/* ---- keeping it ---- */

static int put_ways(agent *a, tci_buf *b)
{
    cli *c = a->c;
    const cli_option *o;
    bool first = true;
    tc_str here;
    if (cli_here(c, &here, &c->err) < 0)
        return c->err.code;
    tci_buf_append_byte(b, '{');
    for (size_t i = 0; (o = way(i)) != NULL; i++) {
        tc_str value = tci_str(cli_value(c, o->name));
        if (!cli_has(c, o->name))
            continue;
        bool is_relative = o->value != NULL && strcmp(o->value, "FILE") == 0 && value.len > 0 &&
                           value.ptr[0] != '/';
        if (is_relative && tci_arena_printf(&c->arena, &value, &c->err, "%.*s/%.*s",
                                            TC_STR_ARG(here), TC_STR_ARG(value)) < 0)
            return c->err.code;
        if (o->value != NULL)
            cli_json_str(b, &first, o->name, value);
        else
            cli_json_bool(b, &first, o->name, true);
    }
    tci_buf_append_byte(b, '}');
    return tci_buf_error(b, &c->err);
}

/* The places so far, and this one when it is another than the last. */
static int put_places(agent *a, tci_buf *b)
{
    const tci_json *places = a->memory != NULL ? tci_json_get(a->memory, TC_STR("places")) : NULL;
    tc_str last = agent_place(a->memory, UINT64_MAX);
    uint64_t from;
    bool first = true;
    if (next_id(a, &from) < 0)
        return a->c->err.code;
    tci_buf_append_byte(b, '[');
    for (uint32_t i = 0; places != NULL && places->kind == TCI_JSON_ARRAY && i < places->count;
         i++) {
        if (i > 0)
            tci_buf_append_byte(b, ',');
        tci_json_put(b, &places->u.items[i], TCI_JSON_AS_IS);
    }
    if (last.len == 0 || !tci_str_eq(last, a->on)) {
        tci_buf_append_str(b, last.len > 0 ? TC_STR(",{") : TC_STR("{"));
        cli_json_str(b, &first, "on", a->on);
        cli_json_u64(b, &first, "from", from);
        tci_buf_append_byte(b, '}');
    }
    tci_buf_append_byte(b, ']');
    return tci_buf_error(b, &a->c->err);
}

static int put_text(cli *c, tc_str *ret, const char *text)
{
    tci_buf b;
    *ret = (tc_str){NULL, 0};
    if (text == NULL)
        return 0;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put_str(&b, tci_str(text));
    int rc = tci_buf_error(&b, &c->err);
    if (rc == 0)
        rc = tci_arena_dup(&c->arena, tci_buf_str(&b), ret, &c->err);
    tci_buf_done(&b);
    return rc;
}

static int put_memory(agent *a, tci_buf *out)
{
    static const tci_json nothing = {.kind = TCI_JSON_OBJECT};
    cli *c = a->c;
    tci_buf ways, places;
    tci_json_change all[] = {{.key = TC_STR("on")},      {.key = TC_STR("baseUrl")},
                             {.key = TC_STR("keyFile")}, {.key = TC_STR("ask")},
                             {.key = TC_STR("ways")},    {.key = TC_STR("places")}};
    const char *key_file = a->key_file;
    tc_str here, full;
    char *text;
    if (key_file != NULL && key_file[0] != '/') {
        if (cli_here(c, &here, &c->err) < 0 ||
            tci_arena_printf(&c->arena, &full, &c->err, "%.*s/%s", TC_STR_ARG(here), key_file) <
                0 ||
            tci_arena_cstr(&c->arena, full, &text, &c->err) < 0)
            return c->err.code;
        key_file = text;
    }
    if (put_text(c, &all[0].text, a->on_text) < 0 || put_text(c, &all[1].text, a->base_url) < 0 ||
        put_text(c, &all[2].text, key_file) < 0)
        return c->err.code;
    if (a->is_asking)
        all[3].text = TC_STR("true");
    tci_buf_init(&ways, TCI_BUF_MAX);
    tci_buf_init(&places, TCI_BUF_MAX);
    int rc = put_ways(a, &ways);
    if (rc == 0)
        rc = put_places(a, &places);
    if (rc == 0) {
        all[4].text = tci_buf_str(&ways);
        all[5].text = tci_buf_str(&places);
        tci_json_edit(out, a->memory != NULL ? a->memory : &nothing, all, TCI_ARRAY_LEN(all));
        rc = tci_buf_error(out, &c->err);
    }
    tci_buf_done(&ways);
    tci_buf_done(&places);
    return rc;
}

static int commit_memory(agent *a, tc_str text)
{
    tc_tx *tx;
    tc_doc *doc;
    tc_err *err = &a->c->err;
    tc_str none = {NULL, 0};
    if (tc_durable_begin(agent_session(a), a->c->ctx, &tx, err) < 0)
        return err->code;
    int rc = tc_tx_doc(tx, &run_doc, 0, none, none, &doc, err);
    if (rc == 0)
        rc = tc_doc_replace(doc, text, err);
    if (rc == 0)
        return tc_tx_commit(tx, err);
    tc_tx_rollback(tx);
    return rc;
}

int agent_remember(agent *a)
{
    cli *c = a->c;
    tci_buf out;
    tci_json now;
    tci_buf_init(&out, TCI_BUF_MAX);
    int rc = put_memory(a, &out);
    tc_str text = tci_buf_str(&out);
    if (rc == 0)
        rc = tci_arena_dup(&c->arena, text, &text, &c->err);
    if (rc == 0)
        rc = tci_json_parse(text, TCI_JSON_DURABLE, &c->arena, &now, &c->err);
    if (rc == 0 && (a->memory == NULL || !tci_json_equal(a->memory, &now)))
        rc = commit_memory(a, text);
    if (rc == 0) {
        tci_json *kept = tci_arena_new(&c->arena, tci_json);
        if (kept == NULL)
            rc = tci_arena_error(&c->arena, &c->err);
        else
            *kept = now;
        if (rc == 0)
            a->memory = kept;
    }
    tci_buf_done(&out);
    return rc;
}
