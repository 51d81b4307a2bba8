/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool "tool_search": finds tools that are not offered yet by words, and has them offered. The
 * thread of the call. */
#include "harness/calls/search.h"
#include "harness/tools/tool_common.h"

#include "base/num.h"
#include <math.h>

enum { LIMIT = 8, DEPTH_MAX = 32 };

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"query\":{\"type\":\"string\",\"description\":\"Words for what the tool should do\"},"
    "\"limit\":{\"type\":\"number\",\"description\":\"Most tools to load (8)\"}},"
    "\"required\":[\"query\"]}";

static void put_word(tci_buf *b, tc_str text)
{
    if (text.len == 0)
        return;
    tci_buf_append_byte(b, ' ');
    tci_buf_append_str(b, text);
}

/* Names and descriptions of a schema and of what is in it. */
static void put_schema(tci_buf *b, const tci_json *schema_at, unsigned depth)
{
    static const tc_str choices[] = {{"anyOf", 5}, {"oneOf", 5}, {"allOf", 5}};
    tc_str text;
    if (schema_at == NULL || schema_at->kind != TCI_JSON_OBJECT || depth > DEPTH_MAX)
        return;
    if (tci_json_as_str(tci_json_get(schema_at, TC_STR("description")), &text))
        put_word(b, text);
    const tci_json *properties = tci_json_get(schema_at, TC_STR("properties"));
    for (size_t i = 0;
         properties != NULL && properties->kind == TCI_JSON_OBJECT && i < properties->count; i++) {
        put_word(b, properties->u.members[i].key);
        put_schema(b, &properties->u.members[i].value, depth + 1);
    }
    put_schema(b, tci_json_get(schema_at, TC_STR("items")), depth + 1);
    for (size_t c = 0; c < TCI_ARRAY_LEN(choices); c++) {
        const tci_json *all = tci_json_get(schema_at, choices[c]);
        for (size_t i = 0; all != NULL && all->kind == TCI_JSON_ARRAY && i < all->count; i++)
            put_schema(b, &all->u.items[i], depth + 1);
    }
}

static int text_of(tc_result *r, const tc_tool *tool, tc_str *ret, tc_err *err)
{
    const tci_json *v = NULL;
    tc_err ignored;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, tool->name);
    tci_buf_append_byte(&b, ' ');
    for (size_t i = 0; i < tool->name.len; i++)
        tci_buf_append_byte(&b, tool->name.ptr[i] == '_' ? ' ' : tool->name.ptr[i]);
    put_word(&b, tool->description);
    if (tool->parameters.len > 0 && tci_parse(r, tool->parameters, &v, &ignored) == 0)
        put_schema(&b, v, 0);
    return tci_result_take(r, &b, ret, err);
}

static tc_str first_line(tc_str s)
{
    while (s.len > 0 && strchr(" \t\r\n", s.ptr[0]) != NULL && s.ptr[0] != '\0')
        s = tci_str_sub(s, 1, s.len);
    s = tci_str_trim(tci_str_sub(s, 0, tci_str_find_byte(s, '\n')));
    return s.len > 0 && s.ptr[s.len - 1] == '\r' ? tci_str_sub(s, 0, s.len - 1) : s;
}

typedef struct job {
    tc_tool_api *api;
    tc_result *r;
    const tci_tools *tools;
    size_t *found;
    size_t nfound;
    tc_err *err;
} job;

static int find(job *j, tc_str query, size_t limit)
{
    size_t n = j->tools->count;
    tc_str *texts = tci_arena_items(tci_result_arena(j->r), tc_str, n + 1);
    if (texts == NULL)
        return tci_arena_error(tci_result_arena(j->r), j->err);
    for (size_t i = 0; i < n; i++)
        if (text_of(j->r, j->tools->items[i], &texts[i], j->err) < 0)
            return j->err->code;
    return tci_search_rank(query, texts, n, limit, tci_result_arena(j->r), &j->found, &j->nfound,
                           j->err);
}

static int put_names(job *j, const char *before, const char *after, tc_str *ret)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, tci_str(before));
    for (size_t i = 0; i < j->nfound; i++) {
        tci_buf_append_str(&b, i > 0 ? TC_STR(",") : TC_STR(""));
        tci_json_put_str(&b, j->tools->items[j->found[i]]->name);
    }
    tci_buf_append_str(&b, tci_str(after));
    return tci_result_take(j->r, &b, ret, j->err);
}

static int say(job *j, tc_tool_result *ret)
{
    tci_buf b, text;
    tci_buf_init(&text, TCI_BUF_MAX);
    if (j->nfound == 0)
        tci_buf_append_str(&text, TC_STR("No matching tools found."));
    else
        tci_buf_printf(&text,
                       "Loaded %zu tool%s. They are available from your next call:", j->nfound,
                       j->nfound == 1 ? "" : "s");
    for (size_t i = 0; i < j->nfound; i++) {
        const tc_tool *tool = j->tools->items[j->found[i]];
        tci_buf_append_str(&text, TC_STR("\n- "));
        tci_buf_append_str(&text, tool->name);
        tci_buf_append_str(&text, TC_STR(": "));
        tci_buf_append_str(&text, first_line(tool->description));
    }
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("[{\"type\":\"text\",\"text\":"));
    tci_json_put_str(&b, tci_buf_str(&text));
    tci_buf_append_str(&b, TC_STR("}]"));
    tci_buf_done(&text);
    if (tci_result_take(j->r, &b, &ret->output, j->err) < 0 ||
        put_names(j, "{\"loaded\":[", "]}", &ret->details) < 0)
        return j->err->code;
    return j->nfound == 0 ? 0 : put_names(j, "{\"addTools\":[", "]}", &ret->control);
}

static int execute(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                   tc_err *err)
{
    job j = {.api = api, .r = tc_tool_result_memory(api), .err = err};
    const tci_json *v;
    const tci_agent *agent;
    tc_str query = {0};
    double limit = LIMIT;
    TCI_UNUSED(user);
    TCI_UNUSED(ctx);
    if (tci_parse(j.r, arguments, &v, err) < 0)
        return err->code;
    (void)tci_json_as_str(tci_json_get(v, TC_STR("query")), &query);    /* the schema demands it */
    (void)tci_json_as_double(tci_json_get(v, TC_STR("limit")), &limit); /* absent: 8 */
    if (first_line(query).len == 0)
        return tc_tool_fail(api, err, "query must not be empty");
    if (!(limit >= 1) || limit > floor(limit))
        return tc_tool_fail(api, err, "limit must be a positive integer");
    if (api->task == NULL)
        return tc_tool_fail(api, err, "there is no agent to load tools for");
    if (tci_task_agent(api->task, &agent, err) < 0)
        return err->code;
    j.tools = &agent->deferred;
    if (find(&j, query, limit > 1000 ? 1000 : (size_t)limit) < 0)
        return err->code;
    return say(&j, ret);
}

void tc_tool_search(tc_tool *ret_tool)
{
    *ret_tool =
        (tc_tool){.size = sizeof *ret_tool,
                  .name = TC_STR("tool_search"),
                  .description = TC_STR(
                      "There are more tools than those shown. Search them by what they should do; "
                      "those found can be called from the next turn on."),
                  .parameters = {schema, sizeof schema - 1},
                  .execute = execute,
                  .callers = TC_CALLERS_MODEL,
                  .replay = TC_REPLAY_SAFE};
}
