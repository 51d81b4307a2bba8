/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools of one's own in place of others, and around them: an extension that is installed later replaces
 * "look" by name, and another one wraps it to say how long each call took.
 *
 *     tool_override SCRIPT SESSION */
#include <stdio.h>
#include <string.h>
#include <telechir/agent.h>
#include <telechir/harness.h>
#include <telechir/model.h>
#include <telechir/tool.h>

static tc_str text(const char *cstr)
{
    tc_str s = {cstr, strlen(cstr)};
    return s;
}

static int say(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
               tc_tool_result *ret_result, tc_err *err)
{
    (void)arguments;
    (void)ctx;
    (void)ret_result;
    return tc_tool_output(api, text(user), NULL, err);
}

static char plain_words[] = "the plain one", better_words[] = "the better one";
static const tc_tool plain = {
    .size = sizeof(tc_tool), .name = {"look", 4}, .execute = say, .user = plain_words};
static const tc_tool better = {
    .size = sizeof(tc_tool), .name = {"look", 4}, .execute = say, .user = better_words};
static const tc_tool *const plain_tools[] = {&plain};
static const tc_tool *const better_tools[] = {&better};

/* Calls the tool inside, and remarks on it. */
static int timed(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                 tc_tool_result *ret_result, tc_err *err)
{
    const tc_tool *inner = user;
    char remark[80];
    int64_t began = tc_tool_now_ms(api);
    int rc = inner->execute(inner->user, arguments, api, ctx, ret_result, err);
    if (rc < 0)
        return rc;
    snprintf(remark, sizeof remark, "took %s",
             tc_tool_now_ms(api) - began < 60000 ? "less than a minute" : "long");
    return tc_tool_diagnostic(api, TC_SEVERITY_INFO, TC_STR("timing"), text(remark), err);
}

typedef struct timed_tool {
    tc_tool tool, inner;
} timed_tool;

static int wrap(void *user, const tc_tool *inner, tc_result *r, const tc_tool **ret_tool,
                tc_err *err)
{
    void *room;
    (void)user;
    /* It lives as long as the resolved agent does. */
    int rc = tc_result_alloc(r, sizeof(timed_tool), &room, err);
    if (rc < 0)
        return rc;
    timed_tool *wrapped = room;
    wrapped->inner = *inner;
    wrapped->tool = *inner;
    wrapped->tool.execute = timed;
    wrapped->tool.user = &wrapped->inner;
    *ret_tool = &wrapped->tool;
    return 0;
}

int main(int argc, char **argv)
{
    static const tc_wrap around[] = {{.tool = {"look", 4}, .wrap_tool = wrap}};
    const tc_extension extensions[] = {
        {.size = sizeof(tc_extension), .name = TC_STR("plain"), .tools = plain_tools, .ntools = 1},
        {.size = sizeof(tc_extension),
         .name = TC_STR("better"),
         .tools = better_tools,
         .ntools = 1},
        {.size = sizeof(tc_extension), .name = TC_STR("timing"), .wraps = around, .nwraps = 1}};
    tc_err err;
    tc_result *r = NULL;
    tc_models *models = NULL;
    tc_registry *registry = NULL;
    tc_durable *durable;
    tc_harness *harness = NULL;
    char agent[512];
    if (argc != 3) {
        fprintf(stderr, "usage: tool_override SCRIPT SESSION\n");
        return 2;
    }
    snprintf(agent, sizeof agent, "{\"model\":{\"provider\":\"scripted\",\"modelId\":\"%s\"}}",
             argv[1]);
    int rc = tc_result_new(&r, &err);
    if (rc == 0)
        rc = tc_models_open(NULL, &models, &err);
    if (rc == 0)
        rc = tc_registry_new(&registry, &err);
    for (size_t i = 0; rc == 0 && i < 3; i++)
        rc = tc_registry_install(registry, &extensions[i], &err);
    if (rc == 0)
        rc = tc_durable_open(text(argv[2]), NULL, &durable, &err);
    tc_harness_options options = {.size = sizeof options, .registry = registry, .models = models};
    if (rc == 0)
        rc = tc_harness_open(durable, &options, NULL, &harness, &err);
    tc_conversation_options root = {.size = sizeof root, .agent = text(agent)};
    tc_user_input input = {.size = sizeof input, .text = TC_STR("look")};
    tc_call call = TC_CALL(NULL, r);
    tc_page newest = {.limit = 10};
    tc_records entries = {0};
    tc_submission done;
    uint64_t conversation, submission;
    if (rc == 0)
        rc = tc_harness_root(harness, NULL, &root, &conversation, &err);
    if (rc == 0)
        rc = tc_conversation_submit(harness, NULL, conversation, &input, &submission, &err);
    if (rc == 0)
        rc = tc_submission_wait(harness, &call, submission, &done, &err);
    if (rc == 0)
        rc = tc_durable_entries(tc_harness_session(harness), conversation, 0, 0, &newest, r,
                                &entries, &err);
    for (size_t i = 0; rc == 0 && i < entries.count; i++) {
        const tc_json *v;
        tc_str said;
        rc = tc_json_parse(r, entries.items[i], &v, &err);
        for (size_t k = 0; rc == 0 && k < tc_json_count(tc_json_find(v, "/model/0/content")); k++)
            if (tc_json_find(v, "/model/0/toolName") != NULL &&
                tc_json_as_str(tc_json_get(tc_json_item(tc_json_find(v, "/model/0/content"), k),
                                           TC_STR("text")),
                               &said))
                printf("%.*s\n", TC_STR_ARG(said));
    }
    if (rc < 0)
        fprintf(stderr, "tool_override: %s\n", err.msg);
    tc_harness_free(harness);
    tc_registry_free(registry);
    tc_models_close(models);
    tc_result_free(r);
    return rc < 0 ? tc_code_exit_status(rc) : 0;
}
