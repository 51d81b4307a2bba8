/* SPDX-License-Identifier: Apache-2.0
 *
 * Reloading an extension while a call of it is under way, as an agent does that works on its own tools:
 * the call ends with the code it began with, the next one has the new code. And what was chosen for a
 * conversation: it is stored by name, so it outlives the program and waits for an extension that is
 * installed later.
 *
 *     agent_reload SCRIPT SESSION */
#include "agent_start.h"
#include <telechir/tool.h>

static agent_world w;
static const tc_extension new_builder;

static int build_old(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                     tc_tool_result *ret_result, tc_err *err)
{
    (void)user;
    (void)arguments;
    (void)ctx;
    (void)ret_result;
    if (tc_tool_output(api, TC_STR("begun by the old one, "), NULL, err) < 0 ||
        tc_registry_install(w.registry, &new_builder, err) < 0)
        return err->code;
    printf("reloaded in the middle of call %.*s\n", TC_STR_ARG(tc_tool_call_id(api)));
    return tc_tool_output(api, TC_STR("ended by the old one"), NULL, err);
}

static int build_new(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                     tc_tool_result *ret_result, tc_err *err)
{
    (void)user;
    (void)arguments;
    (void)ctx;
    (void)ret_result;
    return tc_tool_output(api, TC_STR("done by the new one"), NULL, err);
}

/* Hooks go with the tool they came with. */
static int after_tool(void *user, tc_hook *hook, tc_str call, tc_str result, tc_result *r,
                      tc_str *ret_result, tc_err *err)
{
    (void)hook;
    (void)call;
    (void)result;
    (void)r;
    (void)ret_result;
    (void)err;
    printf("after it: the %s hook\n", (const char *)user);
    return 0;
}

static char old_words[] = "old", new_words[] = "new";
static const tc_tool old_build = {
    .size = sizeof(tc_tool), .name = {"build", 5}, .execute = build_old};
static const tc_tool new_build = {
    .size = sizeof(tc_tool), .name = {"build", 5}, .execute = build_new};
static const tc_tool clean = {.size = sizeof(tc_tool), .name = {"clean", 5}, .execute = build_new};
static const tc_tool test = {.size = sizeof(tc_tool), .name = {"test", 4}, .execute = build_new};
static const tc_tool *const old_tools[] = {&old_build};
static const tc_tool *const new_tools[] = {&new_build, &clean};
static const tc_tool *const tester_tools[] = {&test};
static const tc_hooks hooks = {.size = sizeof hooks, .after_tool = after_tool};
static const tc_extension old_builder = {.size = sizeof(tc_extension),
                                         .name = {"builder", 7},
                                         .tools = old_tools,
                                         .ntools = 1,
                                         .hooks = &hooks,
                                         .user = old_words};
static const tc_extension new_builder = {.size = sizeof(tc_extension),
                                         .name = {"builder", 7},
                                         .tools = new_tools,
                                         .ntools = 2,
                                         .hooks = &hooks,
                                         .user = new_words};
static const tc_extension tester = {
    .size = sizeof(tc_extension), .name = {"tester", 6}, .tools = tester_tools, .ntools = 1};
static const tc_extension gossip = {.size = sizeof(tc_extension), .name = {"gossip", 6}};

/* A question that makes the model call "build". */
static void build(const char *gives)
{
    agent_answer(&w, "agent", agent_submit(&w, w.root, "Build it.", TC_WHEN_BUSY_FOLLOW_UP));
    tc_str result = agent_tool_result(&w);
    printf("build: %.*s\n", TC_STR_ARG(result));
    agent_check(agent_is(result, gives), gives);
}

static void check_agent(const char *member, const char *is)
{
    tc_err err;
    tc_str agent, has;
    const tc_json *v;
    tc_call call = TC_CALL(NULL, w.r);
    need(tc_conversation_agent(w.harness, &call, w.root, &agent, &err), &err, "agent");
    need(tc_json_parse(w.r, agent, &v, &err), &err, "agent");
    need(tc_json_text(tc_json_get(v, text(member)), w.r, &has, &err), &err, member);
    printf("%s: %.*s\n", member, TC_STR_ARG(has));
    agent_check(agent_is(has, is), is);
}

int main(int argc, char **argv)
{
    tc_err err;
    if (argc != 3) {
        fprintf(stderr, "usage: agent_reload SCRIPT SESSION\n");
        return 2;
    }
    agent_start(&w, argv[1], argv[2], &old_builder);
    build("begun by the old one, ended by the old one");
    build("done by the new one");

    /* Choices, by name: one is not installed, and one that is installed is not chosen. */
    need(tc_registry_install(w.registry, &gossip, &err), &err, "gossip");
    need(tc_conversation_configure(
             w.harness, NULL, w.root,
             TC_STR("{\"extensions\":[\"builder\",\"tester\"],"
                    "\"tools\":[\"test\",\"build\"],\"thinkingLevel\":\"low\"}"),
             &err),
         &err, "configure");
    check_agent("extensions", "[\"builder\"]");
    check_agent("tools", "[\"build\"]");
    agent_stop(&w);

    /* Another program, a registry of its own, the same session. */
    agent_start(&w, argv[1], argv[2], &gossip);
    check_agent("extensions", "[]");
    check_agent("tools", "[]");
    check_agent("thinkingLevel", "\"low\"");
    need(tc_registry_install(w.registry, &tester, &err), &err, "tester");
    need(tc_registry_install(w.registry, &new_builder, &err), &err, "builder");
    check_agent("extensions", "[\"builder\",\"tester\"]"); /* as chosen, not as installed */
    check_agent("tools", "[\"test\",\"build\"]");
    build("done by the new one");
    agent_stop(&w);
    return 0;
}
