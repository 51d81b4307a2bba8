/* SPDX-License-Identifier: Apache-2.0
 *
 * An extension that keeps a document of its own in every conversation: its tools write and read it, a
 * section of the prompt shows it, and a hook refuses a call because of it. The document is durable and
 * changes in commits, so they all agree, also after a restart.
 *
 *     agent_notes SCRIPT SESSION */
#include "agent_start.h"
#include <telechir/tool.h>

enum { NOTES_MAX = 2 };

/* A fork starts without notes. */
static const tc_doc_def notes_doc = {.size = sizeof(tc_doc_def),
                                     .kind = "app.notes",
                                     .version = 1,
                                     .scope = TC_SCOPE_CONVERSATION,
                                     .fork = TC_FORK_INITIAL,
                                     .initial_json = "{\"items\":[]}"};

/* The committed items as a JSON array, NULL when there is no document yet. Not on the line: sections,
 * hooks and tools are not. */
static int read_notes(tc_harness *h, uint64_t conversation, tc_result *r, const tc_json **ret_items,
                      tc_err *err)
{
    const tc_doc_addr addr = {&notes_doc, conversation, {NULL, 0}};
    const tc_json *v;
    tc_str value;
    *ret_items = NULL;
    if (tc_durable_snapshot(tc_harness_session(h), &addr, r, &value, err) < 0)
        return err->code;
    if (value.len == 0)
        return 0;
    if (tc_json_parse(r, value, &v, err) < 0)
        return err->code;
    *ret_items = tc_json_get(v, TC_STR("items"));
    return 0;
}

/* ---- tools ---- */

typedef struct addition {
    uint64_t conversation;
    tc_str item; /* JSON */
} addition;

/* On the line: no waiting in here. */
static int add_item(void *user, struct tc_tx *tx, tc_err *err)
{
    const addition *a = user;
    tc_doc *doc;
    if (tc_tx_doc(tx, &notes_doc, a->conversation, TC_STR(""), TC_STR(""), &doc, err) < 0)
        return err->code;
    return tc_doc_set(doc, TC_STR("/items/-"), a->item, err);
}

static int note(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                tc_tool_result *ret_result, tc_err *err)
{
    addition a = {.conversation = tc_tool_conversation_id(api)};
    tc_result *r = tc_tool_result_memory(api);
    const tc_json *v;
    (void)user;
    (void)ret_result;
    if (tc_json_parse(r, arguments, &v, err) < 0 ||
        tc_json_text(tc_json_get(v, TC_STR("text")), r, &a.item, err) < 0 ||
        tc_tool_commit(api, ctx, add_item, &a, err) < 0)
        return err->code;
    return tc_tool_output(api, TC_STR("Noted."), NULL, err);
}

static int list_notes(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                      tc_tool_result *ret_result, tc_err *err)
{
    const tc_json *items;
    (void)user;
    (void)arguments;
    (void)ctx;
    (void)ret_result;
    if (read_notes(tc_tool_harness(api), tc_tool_conversation_id(api), tc_tool_result_memory(api),
                   &items, err) < 0)
        return err->code;
    for (size_t i = 0; i < tc_json_count(items); i++) {
        tc_str item;
        if (tc_json_as_str(tc_json_item(items, i), &item) &&
            (tc_tool_output(api, item, NULL, err) < 0 ||
             tc_tool_output(api, TC_STR("\n"), NULL, err) < 0))
            return err->code;
    }
    return 0;
}

/* ---- the section and the hook ---- */

static int render_notes(void *user, const tc_prompt *prompt, tc_result *r, tc_str *ret_text,
                        tc_err *err)
{
    const tc_json *items;
    (void)user;
    if (read_notes(tc_hook_harness(prompt->hook), prompt->conversation, r, &items, err) < 0)
        return err->code;
    /* empty: no such section */
    return tc_json_count(items) > 0 ? tc_json_text(items, r, ret_text, err) : 0;
}

static int before_tool(void *user, tc_hook *hook, tc_str call, tc_result *r,
                       tc_tool_decision *ret_decision, tc_err *err)
{
    const tc_json *items, *v;
    tc_str name;
    (void)user;
    if (tc_json_parse(r, call, &v, err) < 0 ||
        read_notes(tc_hook_harness(hook), tc_hook_conversation(hook), r, &items, err) < 0)
        return err->code;
    if (tc_json_as_str(tc_json_get(v, TC_STR("name")), &name) && agent_is(name, "note") &&
        tc_json_count(items) >= NOTES_MAX)
        ret_decision->block = TC_STR("The notebook is full.");
    return 0;
}

static const char note_schema[] = "{\"type\":\"object\",\"required\":[\"text\"],"
                                  "\"properties\":{\"text\":{\"type\":\"string\"}}}";
static const tc_tool note_tool = {.size = sizeof(tc_tool),
                                  .name = {"note", 4},
                                  .description = {"Keep a note", 11},
                                  .parameters = {note_schema, sizeof note_schema - 1},
                                  .execute = note,
                                  .is_sequential = true}; /* so that two cannot both be the last */
static const tc_tool list_tool = {.size = sizeof(tc_tool),
                                  .name = {"notes", 5},
                                  .description = {"All notes", 9},
                                  .execute = list_notes,
                                  .replay = TC_REPLAY_SAFE};
static const tc_tool *const tools[] = {&note_tool, &list_tool};
static const tc_section sections[] = {{.key = {"notes", 5}, .render = render_notes}};
static const tc_hooks hooks = {.size = sizeof hooks, .before_tool = before_tool};
static const tc_extension notebook = {.size = sizeof notebook,
                                      .name = {"notebook", 8},
                                      .tools = tools,
                                      .ntools = 2,
                                      .sections = sections,
                                      .nsections = 1,
                                      .hooks = &hooks};

/* Prints what the tools gave and what the prompt's section said, in order. */
static void print_transcript(agent_world *w)
{
    tc_err err;
    tc_records entries;
    tc_page page = {.order = TC_ORDER_ASCENDING, .limit = 100};
    need(tc_durable_entries(tc_harness_session(w->harness), w->root, 0, 0, &page, w->r, &entries,
                            &err),
         &err, "entries");
    for (size_t i = 0; i < entries.count; i++) {
        const tc_json *v;
        tc_str section, name, said;
        need(tc_json_parse(w->r, entries.items[i], &v, &err), &err, "entry");
        if (tc_json_as_str(tc_json_find(v, "/model/0/sections/notes"), &section))
            printf("section: %.*s\n", TC_STR_ARG(section));
        if (tc_json_as_str(tc_json_find(v, "/model/0/toolName"), &name) &&
            tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"), &said))
            printf("%.*s: %.*s\n", TC_STR_ARG(name), TC_STR_ARG(said));
    }
}

static void check_notes(agent_world *w, uint64_t conversation, size_t count)
{
    tc_err err;
    const tc_json *items;
    need(read_notes(w->harness, conversation, w->r, &items, &err), &err, "notes");
    agent_check(tc_json_count(items) == count, "so many notes are kept");
}

int main(int argc, char **argv)
{
    agent_world w;
    tc_err err;
    uint64_t fork;
    tc_submission asked;
    if (argc != 3) {
        fprintf(stderr, "usage: agent_notes SCRIPT SESSION\n");
        return 2;
    }
    agent_start(&w, argv[1], argv[2], &notebook);
    check_notes(&w, w.root, 0);
    uint64_t first = agent_submit(&w, w.root, "Milk, and bread.", TC_WHEN_BUSY_FOLLOW_UP);
    agent_answer(&w, "agent", first);
    check_notes(&w, w.root, NOTES_MAX);
    agent_stop(&w);

    /* Another program, the same notes: the third is refused, the section has the first two. */
    agent_start(&w, argv[1], argv[2], &notebook);
    check_notes(&w, w.root, NOTES_MAX);
    agent_answer(&w, "agent", agent_submit(&w, w.root, "And jam.", TC_WHEN_BUSY_FOLLOW_UP));
    check_notes(&w, w.root, NOTES_MAX);
    print_transcript(&w);

    tc_call call = TC_CALL(NULL, w.r);
    need(tc_submission_get(w.harness, &call, first, &asked, &err), &err, "submission");
    need(tc_conversation_fork(w.harness, NULL, w.root, asked.answer, NULL, &fork, &err), &err,
         "fork");
    check_notes(&w, fork, 0);
    agent_stop(&w);
    return 0;
}
