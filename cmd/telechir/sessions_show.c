/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir sessions show` and `export`: one conversation as people read it, as Markdown, or as the JSON
 * of its entries. Reads the storage without owning it, a page at a time, so it works beside a run. The
 * main thread. */
#include "sessions.h"

#include "agent.h"
#include "base/json_tree.h"
#include "base/rfc3339.h"
#include "store/store.h"

enum { PAGE = 200 };

typedef enum form { FORM_TEXT, FORM_BRIEF, FORM_MARKDOWN, FORM_JSON } form;

typedef struct view {
    cli *c;
    tci_store *store;
    form form;
    tci_arena arena; /* of one page */
    tci_buf out;
    tci_tree memory; /* how the session was run: where its calls were */
} view;

/* Text of somebody else: it may not steer a terminal. */
static void put_text(view *v, tc_str text)
{
    cli_put_text(&v->out, text);
}

static void put_heading(view *v, const char *who, uint64_t id)
{
    if (v->form == FORM_MARKDOWN)
        tci_buf_printf(&v->out, "\n## %s (%llu)\n\n", who, (unsigned long long)id);
    else
        tci_buf_printf(&v->out, "\n--- %s (%llu)\n", who, (unsigned long long)id);
}

static void put_call(view *v, const tci_json *block)
{
    const tci_json *arguments = tci_json_get(block, TC_STR("arguments"));
    tci_buf_append_str(&v->out, v->form == FORM_MARKDOWN ? TC_STR("- call `") : TC_STR("* "));
    cli_put_name(&v->out, tci_json_str_member(block, "name"));
    tci_buf_append_byte(&v->out, ' ');
    if (arguments != NULL) {
        tci_buf json;
        tci_buf_init(&json, TCI_BUF_MAX);
        tci_json_put(&json, arguments, TCI_JSON_AS_IS);
        put_text(v, tci_buf_str(&json)); /* no memory: what is shown is cut */
        tci_buf_done(&json);
    }
    if (v->form == FORM_MARKDOWN)
        tci_buf_append_byte(&v->out, '`');
    tci_buf_append_byte(&v->out, '\n');
}

static void put_block(view *v, const tci_json *block)
{
    tc_str type = tci_json_str_member(block, "type");
    if (tci_str_eq(type, TC_STR("toolCall"))) {
        put_call(v, block);
        return;
    }
    if (tci_str_eq(type, TC_STR("image"))) {
        tci_buf_append_str(&v->out, TC_STR("(image)\n"));
        return;
    }
    bool is_thinking = tci_str_eq(type, TC_STR("thinking"));
    tc_str text = tci_json_str_member(block, is_thinking ? "thinking" : "text");
    if (is_thinking && text.len > 0)
        tci_buf_append_str(&v->out, TC_STR("(thinking) "));
    put_text(v, text);
    if (text.len > 0 && text.ptr[text.len - 1] != '\n')
        tci_buf_append_byte(&v->out, '\n');
}

static void put_content(view *v, const tci_json *message)
{
    const tci_json *content = tci_json_get(message, TC_STR("content"));
    if (content != NULL && content->kind == TCI_JSON_STRING) {
        put_text(v, content->u.text);
        tci_buf_append_byte(&v->out, '\n');
        return;
    }
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++)
        put_block(v, &content->u.items[i]);
}

/* Where a call ran: of one that was cut off, where it began. */
static tc_str place_of(const view *v, const tci_json *entry, uint64_t id)
{
    uint64_t task = 0;
    const tci_json *by = tci_json_get(entry, TC_STR("byTaskId"));
    if (agent_was_cut(entry) && by != NULL && tci_json_as_u64(by, &task))
        id = task;
    return agent_place(&v->memory.root, id);
}

/* What ended badly, or took time; of results also where. */
static void put_facts(view *v, const tci_json *message, const tci_json *entry, uint64_t id)
{
    tc_str stop = tci_json_str_member(message, "stopReason"),
           why = tci_json_str_member(message, "errorMessage");
    const tci_json *ms = tci_json_get(message, TC_STR("durationMs"));
    bool is_error = false;
    const tci_json *e = tci_json_get(message, TC_STR("isError"));
    if (e != NULL)
        (void)tci_json_as_bool(e, &is_error);
    if (tci_str_eq(stop, TC_STR("error")) || tci_str_eq(stop, TC_STR("aborted")) ||
        tci_str_eq(stop, TC_STR("length"))) {
        tci_buf_append_byte(&v->out, '[');
        put_text(v, stop);
        if (why.len > 0) {
            tci_buf_append_str(&v->out, TC_STR(": "));
            put_text(v, why);
        }
        tci_buf_append_str(&v->out, TC_STR("]\n"));
    }
    if (!tci_str_eq(tci_json_str_member(message, "role"), TC_STR("toolResult")))
        return;
    tc_str on = place_of(v, entry, id);
    tci_buf_append_byte(&v->out, '[');
    put_text(v, on.len > 0 ? on : TC_STR("somewhere"));
    if (ms != NULL)
        tci_buf_printf(&v->out, ", %.*s ms", TC_STR_ARG(ms->u.text));
    tci_buf_printf(&v->out, ": %s]\n",
                   agent_was_cut(entry) ? "interrupted, may have partly run"
                   : is_error           ? "error"
                                        : "ok");
}

static const char *who_of(tc_str role)
{
    static const char *const names[][2] = {{"user", "user"},
                                           {"assistant", "assistant"},
                                           {"toolResult", "result"},
                                           {"system", "system"}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++) {
        if (tci_str_eq(role, tci_str(names[i][0])))
            return names[i][1];
    }
    return "entry";
}

static void put_system(view *v, const tci_json *message)
{
    const tci_json *added = tci_json_get(message, TC_STR("toolsAdded"));
    const tci_json *sections = tci_json_get(message, TC_STR("sections"));
    for (uint32_t i = 0;
         sections != NULL && sections->kind == TCI_JSON_OBJECT && i < sections->count; i++) {
        put_text(v, sections->u.members[i].value.kind == TCI_JSON_STRING
                        ? sections->u.members[i].value.u.text
                        : sections->u.members[i].key);
        tci_buf_append_byte(&v->out, '\n');
    }
    for (uint32_t i = 0; added != NULL && added->kind == TCI_JSON_ARRAY && i < added->count; i++) {
        tci_buf_append_str(&v->out, i == 0 ? TC_STR("tools: ") : TC_STR(", "));
        put_text(v, tci_json_str_member(&added->u.items[i], "name"));
    }
    if (added != NULL && added->count > 0)
        tci_buf_append_byte(&v->out, '\n');
}

/* ---- brief: what was said, and a line for each call ---- */

/* At most a few lines of it, each behind a bar. */
static void put_lines(view *v, tc_str text)
{
    enum { SHOWN = 4 };
    tc_str line;
    for (int n = 0; tci_str_split(&text, '\n', &line); n++) {
        if (line.len == 0 || tci_str_eq(line, TC_STR("<harness>")) ||
            tci_str_eq(line, TC_STR("</harness>")))
            continue;
        if (n >= SHOWN) {
            tci_buf_append_str(&v->out, TC_STR("       | ...\n"));
            return;
        }
        tci_buf_append_str(&v->out, TC_STR("       | "));
        cli_put_name(&v->out, line);
        tci_buf_append_byte(&v->out, '\n');
    }
}

static void put_brief_result(view *v, const tci_json *message, const tci_json *entry, uint64_t id)
{
    const tci_json *content = tci_json_get(message, TC_STR("content"));
    put_facts(v, message, entry, id);
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++)
        put_lines(v, tci_json_str_member(&content->u.items[i], "text"));
}

static void put_brief_call(view *v, const tci_json *block)
{
    const tci_json *arguments = tci_json_get(block, TC_STR("arguments"));
    bool is_object =
        arguments != NULL && arguments->kind == TCI_JSON_OBJECT && arguments->count > 0;
    tc_str first = {NULL, 0};
    if (is_object)
        (void)tci_json_as_str(&arguments->u.members[0].value, &first); /* else only the name */
    tci_buf_append_str(&v->out, TC_STR("  call "));
    cli_put_name(&v->out, tci_json_str_member(block, "name"));
    tci_buf_append_byte(&v->out, ' ');
    cli_put_name(&v->out, tci_str_sub(first, 0, tci_str_find_byte(first, '\n')));
    tci_buf_append_byte(&v->out, '\n');
}

static void put_brief(view *v, const tci_json *message, const tci_json *entry, uint64_t id)
{
    tc_str role = tci_json_str_member(message, "role");
    const tci_json *content = tci_json_get(message, TC_STR("content"));
    if (tci_str_eq(role, TC_STR("toolResult"))) {
        tci_buf_append_str(&v->out, TC_STR("       "));
        cli_put_name(&v->out, tci_json_str_member(message, "toolName"));
        tci_buf_append_byte(&v->out, ' ');
        put_brief_result(v, message, entry, id);
        return;
    }
    if (tci_str_eq(role, TC_STR("system")))
        return;
    bool is_user = tci_str_eq(role, TC_STR("user"));
    if (content != NULL && content->kind == TCI_JSON_STRING) {
        tci_buf_append_str(&v->out, is_user ? TC_STR("you:   ") : TC_STR("model: "));
        put_text(v, content->u.text);
        tci_buf_append_byte(&v->out, '\n');
    }
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++) {
        const tci_json *block = &content->u.items[i];
        if (tci_str_eq(tci_json_str_member(block, "type"), TC_STR("toolCall"))) {
            put_brief_call(v, block);
        } else if (tci_str_eq(tci_json_str_member(block, "type"), TC_STR("text"))) {
            tci_buf_append_str(&v->out, is_user ? TC_STR("you:   ") : TC_STR("model: "));
            put_text(v, tci_json_str_member(block, "text"));
            tci_buf_append_byte(&v->out, '\n');
        }
    }
    if (!is_user)
        put_facts(v, message, entry, id);
}

static int put_entry(view *v, const tci_entry *e)
{
    const tci_json *tree;
    tci_entry decoded;
    if (v->form == FORM_JSON) {
        tci_buf_append_str(&v->out, e->json);
        tci_buf_append_byte(&v->out, '\n');
        return 0;
    }
    if (tci_entry_parse(e->json, &v->arena, &tree, &decoded, &v->c->err) < 0)
        return v->c->err.code;
    const tci_json *model = tci_json_get(tree, TC_STR("model"));
    if (v->form == FORM_BRIEF) {
        for (uint32_t i = 0; model != NULL && i < model->count; i++)
            put_brief(v, &model->u.items[i], tree, e->id);
        return 0;
    }
    if (model == NULL || model->count == 0) {
        put_heading(v, "entry", e->id);
        put_text(v, e->kind);
        tci_buf_append_byte(&v->out, '\n');
    }
    for (uint32_t i = 0; model != NULL && i < model->count; i++) {
        const tci_json *message = &model->u.items[i];
        put_heading(v, who_of(tci_json_str_member(message, "role")), e->id);
        put_system(v, message);
        put_content(v, message);
        put_facts(v, message, tree, e->id);
    }
    return 0;
}

static int show_entries(view *v, uint64_t conversation)
{
    cli *c = v->c;
    tci_page page = {.order = TCI_ORDER_ASCENDING, .limit = PAGE};
    do {
        tci_entry *items;
        size_t n;
        tci_arena_clear(&v->arena);
        int rc = tci_store_scan_entries(v->store, conversation, 0, 0, &page, &v->arena, &items, &n,
                                        &page.cursor, &c->err);
        for (size_t i = 0; rc == 0 && i < n; i++)
            rc = put_entry(v, &items[i]);
        if (rc == 0)
            rc = tci_buf_error(&v->out, &c->err);
        if (rc == 0 && !(v->form == FORM_JSON ? cli_out_lines(c, tci_buf_str(&v->out))
                                              : cli_out(c, tci_buf_str(&v->out))))
            rc = c->err.code;
        if (rc < 0)
            return rc;
        tci_buf_clear(&v->out);
    } while (page.cursor.after != 0);
    return 0;
}

/* What is under way, so that "does it go on?" is answered. */
static int show_live(view *v)
{
    size_t nlive = 0;
    static const tci_task_status live[] = {TCI_TASK_PENDING, TCI_TASK_RUNNING, TCI_TASK_WAITING,
                                           TCI_TASK_SLEEPING, TCI_TASK_COMPLETING};
    for (size_t i = 0; i < TCI_ARRAY_LEN(live); i++) {
        tci_task_query q = TCI_TASK_QUERY_ALL;
        tci_page page = {.limit = PAGE};
        tci_task *items;
        size_t n;
        tci_cursor next;
        q.status = (int)live[i];
        if (tci_store_scan_tasks(v->store, &q, &page, &v->arena, &items, &n, &next, &v->c->err) < 0)
            return v->c->err.code;
        nlive += n;
    }
    if (nlive > 0)
        cli_say(v->c, "%zu task%s unfinished: `telechir run --session %s` goes on", nlive,
                nlive == 1 ? " is" : "s are", v->c->args[1]);
    return 0;
}

/* Empty when it was run by another program. */
static int read_memory(view *v)
{
    tci_document record = {0};
    tci_document_state state = {.version = 0};
    tci_address address = {.kind = TC_STR(AGENT_RUN_DOC), .scope = TCI_SCOPE_SESSION};
    int rc = tci_store_find_document(v->store, &address, 0, &v->arena, &record, &v->c->err);
    return rc < 0 || record.id == 0 ? rc
                                    : tci_store_document(v->store, record.id, 0, &v->arena, &state,
                                                         &v->memory, &v->c->err);
}

static int show_as(cli *c, const char *path, form as)
{
    view v = {.c = c, .form = as, .memory = TCI_TREE_NONE};
    uint64_t conversation;
    tci_store_options options = {.is_read_only = true, .must_exist = true};
    if (!cli_number(c, "conversation", 1, TCI_ROOT_ID, &conversation))
        return c->err.code;
    if (tci_store_open(tci_str(path), &options, &v.store, &c->err) < 0)
        return c->err.code;
    tci_arena_init(&v.arena, 0);
    tci_buf_init(&v.out, TCI_BUF_MAX);
    int rc = read_memory(&v);
    if (rc == 0)
        rc = show_entries(&v, conversation);
    if (rc == TC_E_NOT_FOUND)
        (void)tc_err_hint(&c->err, "`telechir sessions dump %s` begins with its conversations",
                          path);
    if (rc == 0 && as == FORM_TEXT)
        rc = show_live(&v);
    tci_tree_done(&v.memory);
    tci_buf_done(&v.out);
    tci_arena_done(&v.arena);
    tc_err ignored; /* it was only read */
    if (tci_store_close(v.store, &ignored) < 0)
        cli_detail(c, "closing: %s", ignored.msg);
    return rc;
}

int sessions_brief(cli *c, const char *path)
{
    return show_as(c, path, FORM_BRIEF);
}

int sessions_show(cli *c)
{
    form as = cli_has(c, "brief") ? FORM_BRIEF : FORM_TEXT;
    return show_as(c, c->args[1], c->is_json ? FORM_JSON : as);
}

int sessions_export(cli *c)
{
    return show_as(c, c->args[1], c->is_json ? FORM_JSON : FORM_MARKDOWN);
}
