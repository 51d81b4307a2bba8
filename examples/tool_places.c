/* SPDX-License-Identifier: Apache-2.0
 *
 * A coding agent that can be turned while it runs. Its settings are asked for at each use, so a switch of
 * the program holds from the next request on; where it works is the agent's "cwd", which a tool of its
 * own changes in the middle of a run: the next call and the prompt are there. The place is in the session
 * (a fork of an earlier point works where it was then, and a restart changes nothing); the switches are
 * not.
 *
 *     tool_places DAEMON SCRIPT SESSION FOLDER FOLDER */
#include "tool_start.h"
#include <stdatomic.h>

/* The switches. Any thread may ask, also while the session is locked: so they are only looked at. */
static atomic_bool has_hands_off, goes_in_order;

static int settings_now(void *user, tc_result *r, tc_settings *settings, tc_err *err)
{
    static const tc_str only_places[] = {{"places", 6}};
    (void)user;
    (void)r;
    (void)err;
    if (atomic_load(&has_hands_off)) {
        settings->has_extensions = true;
        settings->extensions = only_places;
        settings->nextensions = 1;
    }
    if (atomic_load(&goes_in_order))
        settings->tool_execution = TC_TOOLS_SEQUENTIAL;
    return 0;
}

/* ---- the extension "places" ---- */

/* Go on elsewhere: a change of the agent, as a person would make it. */
static int enter(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                 tc_tool_result *ret_result, tc_err *err)
{
    tc_result *r = tc_tool_result_memory(api);
    const tc_json *v;
    tc_str path, change;
    tc_json_out *o;
    (void)user;
    (void)ret_result;
    if (tc_json_parse(r, arguments, &v, err) < 0)
        return err->code;
    if (!tc_json_as_str(tc_json_get(v, TC_STR("path")), &path))
        return tc_tool_fail(api, err, "path is missing");
    if (tc_json_out_new(&o, err) < 0)
        return err->code;
    tc_json_out_object(o);
    tool_put(o, "cwd", path);
    tc_json_out_end(o);
    int rc = tc_json_out_take(o, r, &change, err);
    tc_json_out_free(o);
    if (rc == 0)
        rc = tc_conversation_configure(tc_tool_harness(api), ctx, tc_tool_conversation_id(api),
                                       change, err);
    return rc < 0 ? rc : tc_tool_output(api, TC_STR("entered"), NULL, err);
}

/* Tells the model where it is, from the environment its tools will get. */
static int render_place(void *user, const tc_prompt *prompt, tc_result *r, tc_str *ret_text,
                        tc_err *err)
{
    (void)user;
    return prompt->env == NULL ? 0 : tc_result_dup(r, tc_env_cwd(prompt->env), ret_text, err);
}

static const char path_schema[] =
    "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"}},\"required\":[\"path\"]}";
static const tc_tool enter_tool = {.size = sizeof(tc_tool),
                                   .name = {"enter", 5},
                                   .parameters = {path_schema, sizeof path_schema - 1},
                                   .execute = enter,
                                   .replay = TC_REPLAY_SAFE};
static const tc_tool *const tools[] = {&enter_tool};
static const tc_section sections[] = {{.key = {"place", 5}, .render = render_place}};
static const tc_extension places = {.size = sizeof(tc_extension),
                                    .name = {"places", 6},
                                    .tools = tools,
                                    .ntools = 1,
                                    .sections = sections,
                                    .nsections = 1};

/* ---- the program ---- */

static void open_world(tool_world *t, char **argv)
{
    tc_err err;
    tc_json_out *o;
    tc_conversation_options root = {.size = sizeof root};
    t->daemon = text(argv[1]);
    t->folder = text(argv[4]);
    tool_start(t, argv[3], &places, settings_now);
    need(tc_json_out_new(&o, &err), &err, "agent");
    tc_json_out_object(o);
    tc_json_out_key(o, TC_STR("model"));
    tc_json_out_object(o);
    tool_put(o, "provider", TC_STR("scripted"));
    tool_put(o, "modelId", text(argv[2]));
    tc_json_out_end(o);
    tool_put(o, "cwd", t->folder);
    tc_json_out_end(o);
    need(tc_json_out_take(o, t->w.r, &root.agent, &err), &err, "agent");
    tc_json_out_free(o);
    need(tc_harness_root(t->w.harness, NULL, &root, &t->w.root, &err), &err, "root");
}

static tc_str agent_member(tool_world *t, uint64_t conversation, const char *name)
{
    tc_err err;
    tc_str agent, value = {NULL, 0};
    const tc_json *v;
    tc_call call = TC_CALL(NULL, t->w.r);
    need(tc_conversation_agent(t->w.harness, &call, conversation, &agent, &err), &err, "agent");
    need(tc_json_parse(t->w.r, agent, &v, &err), &err, "agent");
    v = tc_json_get(v, text(name));
    if (tc_json_type_of(v) == TC_JSON_STRING)
        (void)tc_json_as_str(v, &value);
    else
        need(tc_json_text(v, t->w.r, &value, &err), &err, "agent");
    return value;
}

static uint64_t ask(tool_world *t, uint64_t conversation, const char *words)
{
    uint64_t id = agent_submit(&t->w, conversation, words, TC_WHEN_BUSY_FOLLOW_UP);
    agent_answer(&t->w, "agent", id);
    return id;
}

/* What tools said, and where the model was told it is. */
static void print_heard(tool_world *t)
{
    tc_err err;
    tc_page page = {.order = TC_ORDER_ASCENDING, .limit = 100};
    tc_records entries;
    need(tc_durable_entries(tc_harness_session(t->w.harness), t->w.root, 0, 0, &page, t->w.r,
                            &entries, &err),
         &err, "entries");
    for (size_t i = 0; i < entries.count; i++) {
        const tc_json *v;
        tc_str words;
        need(tc_json_parse(t->w.r, entries.items[i], &v, &err), &err, "entry");
        if (tc_json_as_str(tc_json_find(v, "/model/0/sections/place"), &words))
            printf("place: %.*s\n", TC_STR_ARG(words));
        else if (tc_json_find(v, "/model/0/toolName") != NULL &&
                 tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"), &words))
            printf("tool: %.*s\n", TC_STR_ARG(words));
    }
}

int main(int argc, char **argv)
{
    tool_world t = {0};
    tc_err err;
    tc_submission s;
    uint64_t fork;
    if (argc != 6) {
        fprintf(stderr, "usage: tool_places DAEMON SCRIPT SESSION FOLDER FOLDER\n");
        return 2;
    }
    open_world(&t, argv);
    uint64_t first = ask(&t, t.w.root, "Sign both folders.");
    agent_check(agent_is(agent_member(&t, t.w.root, "cwd"), argv[5]), "it works in the second now");

    atomic_store(&has_hands_off, true);
    agent_check(agent_is(agent_member(&t, t.w.root, "tools"), "[\"enter\"]"), "its hands are off");
    ask(&t, t.w.root, "Wipe the board.");
    atomic_store(&has_hands_off, false);
    atomic_store(&goes_in_order, true);
    ask(&t, t.w.root, "One thing after another.");
    tc_call call = TC_CALL(NULL, t.w.r);
    need(tc_submission_get(t.w.harness, &call, first, &s, &err), &err, "first");
    tool_stop(&t);

    open_world(&t, argv);
    agent_check(agent_is(agent_member(&t, t.w.root, "cwd"), argv[5]), "and after a restart");
    need(tc_conversation_fork(t.w.harness, NULL, t.w.root, s.entry, NULL, &fork, &err), &err,
         "fork");
    agent_check(agent_is(agent_member(&t, fork, "cwd"), argv[4]), "the fork is where that was");
    ask(&t, fork, "Sign again.");
    print_heard(&t);
    tool_stop(&t);
    return 0;
}
