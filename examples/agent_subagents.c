/* SPDX-License-Identifier: Apache-2.0
 *
 * Agents in the background, led by another one through five tools: it spawns them, sends them messages,
 * waits for one, stops one and lists them. Each is a background task that owns a conversation and has a
 * mailbox, a document of the task. What one answers is reported to the conversation it was spawned in,
 * under a request id of its own: so a report comes once, also when the program dies after making it and
 * before writing down that it did. Given "crash", this program dies there; run again, it goes on.
 *
 *     agent_subagents FOLDER SESSION [crash]
 *
 * FOLDER has the scripts of all of them: leader.json, and NAME.json for each that is spawned. */
#include "agent_subagent.h"
#include <telechir/tool.h>

/* ---- the leader's tools ---- */

static bool same(tc_str a, tc_str b)
{
    return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

static int quoted(tc_str s, tc_result *r, tc_str *ret_json, tc_err *err)
{
    tc_json_out *o;
    if (tc_json_out_new(&o, err) < 0)
        return err->code;
    tc_json_out_str(o, s);
    int rc = tc_json_out_take(o, r, ret_json, err);
    tc_json_out_free(o);
    return rc;
}

typedef struct order {
    tc_tool_api *api;
    tc_str name, words;
} order;

/* The agents that were spawned in the call's conversation: the first hundred records. */
static int all_agents(tc_tool_api *api, tc_records *ret_all, tc_err *err)
{
    tc_task_query query = TC_TASK_QUERY_ALL;
    query.kind = TC_STR("demo.subagent");
    query.conversation = tc_tool_conversation_id(api);
    return tc_durable_tasks(tc_harness_session(tc_tool_harness(api)), &query, NULL,
                            tc_tool_result_memory(api), ret_all, err);
}

/* The one of that name; *ret_id 0: none. */
static int find(const order *o, uint64_t *ret_id, tc_err *err)
{
    tc_records all;
    *ret_id = 0;
    int rc = all_agents(o->api, &all, err);
    for (size_t i = 0; rc == 0 && i < all.count; i++) {
        const tc_json *v;
        rc = tc_json_parse(tc_tool_result_memory(o->api), all.items[i], &v, err);
        if (rc == 0 && same(member(v, "/input/name"), o->name))
            *ret_id = number(v, "/id");
    }
    return rc;
}

static int put_in_mailbox(const order *o, tc_tx *tx, uint64_t agent, tc_err *err)
{
    tc_str words;
    tc_doc *doc;
    int rc = quoted(o->words, tc_tool_result_memory(o->api), &words, err);
    if (rc == 0)
        rc = tc_tx_doc(tx, &mailbox, agent, TC_STR(""), TC_STR(""), &doc, err);
    return rc < 0 ? rc : tc_doc_set(doc, TC_STR("/words/-"), words, err);
}

/* One commit looks whether it is there, makes it and gives it its first message. */
static int spawn_in(void *user, tc_tx *tx, tc_err *err)
{
    order *o = user;
    uint64_t id;
    char input[80];
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = tc_tool_conversation_id(o->api);
    options.is_background = true;
    int rc = find(o, &id, err);
    if (rc < 0 || id != 0)
        return rc;
    snprintf(input, sizeof input, "{\"name\":\"%.*s\"}", TC_STR_ARG(o->name));
    rc = tc_tx_create_task_of(tx, &subagent, text(input), &options, &id, err);
    return rc < 0 ? rc : put_in_mailbox(o, tx, id, err);
}

/* Refused when it has ended: its mailbox ended with it. */
static int message_in(void *user, tc_tx *tx, tc_err *err)
{
    order *o = user;
    uint64_t id;
    int rc = find(o, &id, err);
    if (rc == 0 && id == 0)
        rc = tc_err_set(err, TC_E_NOT_FOUND, "there is no agent of that name");
    return rc < 0 ? rc : put_in_mailbox(o, tx, id, err);
}

/* How every tool starts: what is it about? */
static int read_order(order *o, tc_tool_api *api, tc_str arguments, tc_err *err)
{
    const tc_json *v = NULL;
    int rc = tc_json_parse(tc_tool_result_memory(api), arguments, &v, err);
    *o = (order){.api = api, .name = member(v, "/name"), .words = member(v, "/words")};
    return rc;
}

/* A tool that is one commit: which, and what it says then. */
typedef struct errand {
    tc_tool_change change;
    const char *said;
} errand;
static const errand spawning = {spawn_in, "on its way"}, telling = {message_in, "told"};

static int do_errand(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                     tc_tool_result *ret_result, tc_err *err)
{
    const errand *e = user;
    order o;
    (void)ret_result;
    int rc = read_order(&o, api, arguments, err);
    if (rc == 0)
        rc = tc_tool_commit(api, ctx, e->change, &o, err);
    if (rc == TC_E_CONFLICT)
        return tc_tool_fail(api, err, "%.*s has ended", TC_STR_ARG(o.name));
    return rc < 0 ? rc : tc_tool_output(api, text(e->said), NULL, err);
}

/* Wait for its end, after asking for it when user says so, and say how it ended. */
static int wait_or_stop(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                        tc_tool_result *ret_result, tc_err *err)
{
    const bool *is_to_stop = user;
    tc_harness *h = tc_tool_harness(api);
    tc_result *r = tc_tool_result_memory(api);
    const tc_json *v;
    tc_str record;
    uint64_t id;
    bool was_over;
    order o;
    (void)ret_result;
    if (read_order(&o, api, arguments, err) < 0 || find(&o, &id, err) < 0)
        return err->code;
    if (id == 0)
        return tc_tool_fail(api, err, "there is no agent of that name");
    if ((*is_to_stop && tc_harness_abort_task(h, ctx, id, &was_over, err) < 0) ||
        tc_harness_wait_task(h, ctx, id, r, &record, err) < 0 ||
        tc_json_parse(r, record, &v, err) < 0)
        return err->code;
    return tc_tool_output(api, member(v, "/state/outcome/status"), NULL, err);
}

static int list_agents(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                       tc_tool_result *ret_result, tc_err *err)
{
    tc_records all;
    char line[120];
    (void)user;
    (void)arguments;
    (void)ctx;
    (void)ret_result;
    int rc = all_agents(api, &all, err);
    for (size_t i = 0; rc == 0 && i < all.count; i++) {
        const tc_json *v;
        rc = tc_json_parse(tc_tool_result_memory(api), all.items[i], &v, err);
        if (rc < 0)
            break;
        tc_str end = member(v, "/state/outcome/status");
        snprintf(line, sizeof line, "%s%.*s %.*s", i > 0 ? ", " : "",
                 TC_STR_ARG(member(v, "/input/name")),
                 TC_STR_ARG(end.len > 0 ? end : TC_STR("works")));
        rc = tc_tool_output(api, text(line), NULL, err);
    }
    return rc;
}

/* ---- what the agents in the background can do: go where a road is open ---- */

static const tc_doc_def roads = {.size = sizeof(tc_doc_def),
                                 .kind = "demo.roads",
                                 .version = 1,
                                 .scope = TC_SCOPE_SESSION,
                                 .initial_json = "{}"};

static int open_road(tc_durable *s, const char *json, tc_err *err)
{
    tc_tx *tx;
    tc_doc *doc;
    if (tc_durable_begin(s, NULL, &tx, err) < 0)
        return err->code;
    if (tc_tx_doc(tx, &roads, 0, TC_STR(""), TC_STR(""), &doc, err) < 0 ||
        tc_doc_replace(doc, text(json), err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    return tc_tx_commit(tx, err);
}

/* Waits until the road is open, or the call is to end. */
static int walk(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                tc_tool_result *ret_result, tc_err *err)
{
    const tc_doc_addr addr = {&roads, 0, {NULL, 0}};
    const tc_json *v;
    tc_watch *watch;
    tc_frame frame;
    (void)user;
    (void)ret_result;
    if (tc_json_parse(tc_tool_result_memory(api), arguments, &v, err) < 0 ||
        tc_durable_watch(tc_harness_session(tc_tool_harness(api)), &addr, &watch, err) < 0)
        return err->code;
    int rc = 0;
    while (rc == 0 && tc_json_get(tc_watch_value(watch), member(v, "/to")) == NULL)
        rc = tc_watch_next(watch, ctx, &frame, err);
    tc_watch_free(watch);
    return rc < 0 ? rc : tc_tool_output(api, TC_STR("arrived"), NULL, err);
}

/* ---- the program ---- */

static bool stops = true, only_waits = false;
#define WITH_NAME                                                                                  \
    TC_STR("{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"pattern\":\"^[a-" \
           "z]{1,20}$\"},\"words\":{\"type\":\"string\",\"maxLength\":200}},\"required\":["        \
           "\"name\"]}")

static uint64_t say(agent_world *w, const char *request, const char *words)
{
    tc_err err;
    uint64_t id;
    tc_user_input input = {.size = sizeof input, .text = text(words), .request_id = text(request)};
    need(tc_conversation_submit(w->harness, NULL, w->root, &input, &id, &err), &err, words);
    return id;
}

/* What tools and agents said to the leader, in the order it heard it; how many reports are among it. */
static size_t print_heard(agent_world *w)
{
    tc_err err;
    size_t nreports = 0;
    tc_page page = {.order = TC_ORDER_ASCENDING, .limit = 100};
    tc_records entries;
    need(tc_durable_entries(tc_harness_session(w->harness), w->root, 0, 0, &page, w->r, &entries,
                            &err),
         &err, "entries");
    for (size_t i = 0; i < entries.count; i++) {
        const tc_json *v;
        need(tc_json_parse(w->r, entries.items[i], &v, &err), &err, "entry");
        tc_str tool = member(v, "/model/0/toolName");
        if (agent_is(member(v, "/kind"), "demo.report")) {
            printf("%.*s\n", TC_STR_ARG(member(v, "/model/0/content")));
            nreports++;
        } else if (tool.len > 0) {
            printf("%.*s: %.*s\n", TC_STR_ARG(tool),
                   TC_STR_ARG(member(v, "/model/0/content/0/text")));
        }
    }
    return nreports;
}

int main(int argc, char **argv)
{
    const tc_tool spawn = {.size = sizeof spawn,
                           .name = TC_STR("spawn_agent"),
                           .parameters = WITH_NAME,
                           .execute = do_errand,
                           .user = (void *)&spawning,
                           .replay = TC_REPLAY_SAFE};
    /* At most once: after a restart in the middle of it the leader is told, and may look. */
    const tc_tool message = {.size = sizeof message,
                             .name = TC_STR("message_agent"),
                             .parameters = WITH_NAME,
                             .execute = do_errand,
                             .user = (void *)&telling};
    const tc_tool wait = {.size = sizeof wait,
                          .name = TC_STR("wait_agent"),
                          .parameters = WITH_NAME,
                          .execute = wait_or_stop,
                          .user = &only_waits,
                          .replay = TC_REPLAY_SAFE};
    const tc_tool stop_tool = {.size = sizeof stop_tool,
                               .name = TC_STR("stop_agent"),
                               .parameters = WITH_NAME,
                               .execute = wait_or_stop,
                               .user = &stops,
                               .replay = TC_REPLAY_SAFE};
    const tc_tool list = {.size = sizeof list,
                          .name = TC_STR("list_agents"),
                          .execute = list_agents,
                          .replay = TC_REPLAY_SAFE};
    const tc_tool go = {
        .size = sizeof go, .name = TC_STR("walk"), .execute = walk, .replay = TC_REPLAY_SAFE};
    const tc_tool *const tools[] = {&spawn, &message, &wait, &stop_tool, &list, &go};
    const tc_extension team = {.size = sizeof team,
                               .name = TC_STR("team"),
                               .tools = tools,
                               .ntools = sizeof tools / sizeof tools[0],
                               .tasks = tasks,
                               .ntasks = 1};
    agent_world w;
    tc_err err;
    char leader[400];
    if (argc != 3 && (argc != 4 || strcmp(argv[3], "crash") != 0)) {
        fprintf(stderr, "usage: agent_subagents FOLDER SESSION [crash]\n");
        return 2;
    }
    folder = argv[1];
    is_to_crash = argc == 4;
    snprintf(leader, sizeof leader, "%s/leader.json", folder);
    agent_start(&w, leader, argv[2], &team);
    w.settings.steering_mode = TC_QUEUE_ALL; /* all reports that wait are heard at once */
    need(tc_conversation_configure(w.harness, NULL, w.root,
                                   TC_STR("{\"tools\":{\"remove\":[\"walk\"]}}"), &err),
         &err, "configure");
    need(open_road(tc_harness_session(w.harness), "{}", &err), &err, "roads");

    agent_answer(&w, "leader", say(&w, "first", "How far is the mill, and how far the sea?"));
    uint64_t second = say(&w, "second", "What did they find?");
    need(open_road(tc_harness_session(w.harness), "{\"mill\":true}", &err), &err, "the mill");
    agent_answer(&w, "leader", second);
    agent_check(print_heard(&w) == 2, "there are two reports");
    agent_stop(&w);
    return 0;
}
