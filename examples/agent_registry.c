/* SPDX-License-Identifier: Apache-2.0
 *
 * Extensions that come and go while the harness runs: one is replaced in its place, one is refused and
 * changes nothing, one is taken out.
 *
 *     agent_registry SCRIPT SESSION */
#include "agent_start.h"
#include <telechir/tool.h>

/* A tool that says what its version of the extension knows. */
static int look(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                tc_tool_result *ret_result, tc_err *err)
{
    (void)arguments;
    (void)ctx;
    (void)ret_result;
    return tc_tool_output(api, text(user), NULL, err);
}

/* A section that says it too. */
static int render(void *user, const tc_prompt *prompt, tc_result *r, tc_str *ret_text, tc_err *err)
{
    (void)prompt;
    (void)r;
    (void)err;
    *ret_text = text(user);
    return 0;
}

/* A task of the extension's own; nobody starts it here. */
static int first_checkpoint(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint,
                            tc_err *err)
{
    (void)user;
    (void)input;
    (void)r;
    (void)err;
    *ret_checkpoint = TC_STR("{\"phase\":\"watch\"}");
    return 0;
}

static int end_task(tc_task *t, tc_err *err)
{
    const tc_next next = {.kind = TC_NEXT_ABORTED};
    return tc_task_next(t, &next, err);
}

static const tc_task_def watch_sky = {.size = sizeof(tc_task_def),
                                      .name = "app.watch-sky",
                                      .version = 1,
                                      .initial = first_checkpoint,
                                      .abort = end_task};
static const tc_task_def *const tasks[] = {&watch_sky};

static char sunny[] = "sunny", stormy[] = "stormy", brief[] = "Be brief.";
static const tc_tool old_look = {
    .size = sizeof(tc_tool), .name = {"look", 4}, .execute = look, .user = sunny};
static const tc_tool new_look = {
    .size = sizeof(tc_tool), .name = {"look", 4}, .execute = look, .user = stormy};
static const tc_tool forecast = {
    .size = sizeof(tc_tool), .name = {"forecast", 8}, .execute = look, .user = stormy};
static const tc_tool *const old_tools[] = {&old_look};
static const tc_tool *const new_tools[] = {&new_look, &forecast};
static const tc_section old_sky[] = {{.key = {"sky", 3}, .render = render, .user = sunny}};
static const tc_section new_sky[] = {{.key = {"sky", 3}, .render = render, .user = stormy}};
static const tc_section manner[] = {{.key = {"manner", 6}, .render = render, .user = brief}};

/* What is installed, and all it points to, stays as it is until the registry is freed: a reload
 * brings a new one and leaves the old one alone. */
static const tc_extension old_weather = {.size = sizeof(tc_extension),
                                         .name = {"weather", 7},
                                         .tools = old_tools,
                                         .ntools = 1,
                                         .sections = old_sky,
                                         .nsections = 1,
                                         .tasks = tasks,
                                         .ntasks = 1};
static const tc_extension new_weather = {.size = sizeof(tc_extension),
                                         .name = {"weather", 7},
                                         .tools = new_tools,
                                         .ntools = 2,
                                         .sections = new_sky,
                                         .nsections = 1,
                                         .tasks = tasks,
                                         .ntasks = 1};
static const tc_extension house = {
    .size = sizeof(tc_extension), .name = {"house", 5}, .sections = manner, .nsections = 1};
static const tc_extension rival = {.size = sizeof(tc_extension),
                                   .name = {"rival", 5},
                                   .sections = manner,
                                   .nsections = 1,
                                   .tasks = tasks,
                                   .ntasks = 1};

static void check_agent(agent_world *w, const char *extensions, const char *tools)
{
    tc_err err;
    tc_str agent, has_extensions, has_tools;
    const tc_json *v;
    tc_call call = TC_CALL(NULL, w->r);
    need(tc_conversation_agent(w->harness, &call, w->root, &agent, &err), &err, "agent");
    need(tc_json_parse(w->r, agent, &v, &err), &err, "agent");
    need(tc_json_text(tc_json_get(v, TC_STR("extensions")), w->r, &has_extensions, &err), &err,
         "extensions");
    need(tc_json_text(tc_json_get(v, TC_STR("tools")), w->r, &has_tools, &err), &err, "tools");
    printf("agent has %.*s with %.*s\n", TC_STR_ARG(has_extensions), TC_STR_ARG(has_tools));
    agent_check(agent_is(has_extensions, extensions), extensions);
    agent_check(agent_is(has_tools, tools), tools);
}

static void ask(agent_world *w, const char *sky)
{
    agent_answer(w, "agent", agent_submit(w, w->root, "The sky?", TC_WHEN_BUSY_FOLLOW_UP));
    agent_check(agent_is(agent_tool_result(w), sky), sky);
}

int main(int argc, char **argv)
{
    agent_world w;
    tc_err err;
    if (argc != 3) {
        fprintf(stderr, "usage: agent_registry SCRIPT SESSION\n");
        return 2;
    }
    agent_start(&w, argv[1], argv[2], &old_weather);
    need(tc_registry_install(w.registry, &house, &err), &err, "house");
    check_agent(&w, "[\"weather\",\"house\"]", "[\"look\"]");
    ask(&w, sunny);

    /* The same name: in its place, before "house". The next turn has the new tools and sections. */
    need(tc_registry_install(w.registry, &new_weather, &err), &err, "new weather");
    check_agent(&w, "[\"weather\",\"house\"]", "[\"look\",\"forecast\"]");
    ask(&w, stormy);

    /* Another name with a task that is there already: refused, and nothing of it is installed. */
    int rc = tc_registry_install(w.registry, &rival, &err);
    agent_check(rc == TC_E_CONFLICT, "two extensions cannot have one task");
    printf("refused: %s\n", err.msg);
    check_agent(&w, "[\"weather\",\"house\"]", "[\"look\",\"forecast\"]");

    need(tc_registry_uninstall(w.registry, TC_STR("weather"), &err), &err, "uninstall");
    check_agent(&w, "[\"house\"]", "[]");
    rc = tc_registry_uninstall(w.registry, TC_STR("weather"), &err);
    agent_check(rc == TC_E_NOT_FOUND, "it is gone");
    ask(&w, stormy); /* no new call */
    need(tc_registry_install(w.registry, &rival, &err), &err, "rival");
    check_agent(&w, "[\"house\",\"rival\"]", "[]");
    agent_stop(&w);
    return 0;
}
