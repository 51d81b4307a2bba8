/* SPDX-License-Identifier: Apache-2.0
 *
 * A tool that asks another agent: it owns a conversation of its own, waits for the answer there and gives
 * it back. It may run again after a restart: the memo names the conversation it made, and the request id
 * keeps the question from being asked twice.
 *
 *     tool_subagent SCRIPT CHILD-SCRIPT SESSION */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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

/* The conversation of this call: the one an earlier attempt made, or a new one. */
static int find_child(tc_tool_api *api, tc_ctx *ctx, const char *script, uint64_t *ret_id,
                      tc_err *err)
{
    tc_result *r = tc_tool_result_memory(api);
    tc_str known;
    const tc_json *v;
    char agent[512], value[32];
    int rc = tc_tool_memo(api, ctx, TC_STR("child"), (tc_str){NULL, 0}, r, &known, err);
    if (rc == 0 && known.len == 0) {
        snprintf(agent, sizeof agent,
                 "{\"model\":{\"provider\":\"scripted\",\"modelId\":\"%s\"},\"tools\":[]}", script);
        tc_conversation_options options = {
            .size = sizeof options, .owner_task = tc_tool_task_id(api), .agent = text(agent)};
        rc = tc_conversation_create(tc_tool_harness(api), ctx, &options, ret_id, err);
        snprintf(value, sizeof value, "%" PRIu64, *ret_id);
        if (rc == 0)
            rc = tc_tool_memo(api, ctx, TC_STR("child"), text(value), r, &known, err);
    }
    if (rc == 0)
        rc = tc_json_parse(r, known, &v, err);
    if (rc == 0 && !tc_json_as_u64(v, ret_id))
        rc = tc_err_set(err, TC_E_INVALID, "the memo is no conversation");
    return rc;
}

static int ask_child(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                     tc_tool_result *ret_result, tc_err *err)
{
    tc_result *r = tc_tool_result_memory(api);
    tc_call call = TC_CALL(ctx, r);
    tc_user_input input = {.size = sizeof input, .request_id = TC_STR("question")};
    tc_submission done;
    uint64_t child = 0, submission;
    const tc_json *v;
    tc_str entry, answer = {0};
    (void)ret_result;
    int rc = tc_json_parse(r, arguments, &v, err);
    (void)tc_json_as_str(tc_json_get(v, TC_STR("question")), &input.text);
    if (rc == 0)
        rc = find_child(api, ctx, user, &child, err);
    if (rc == 0)
        rc = tc_conversation_submit(tc_tool_harness(api), ctx, child, &input, &submission, err);
    if (rc == 0)
        rc = tc_submission_wait(tc_tool_harness(api), &call, submission, &done, err);
    if (rc < 0)
        return rc;
    if (done.status != TC_SUBMISSION_DONE)
        return tc_tool_fail(api, err, "the other agent did not answer: %.*s",
                            TC_STR_ARG(done.reason));
    rc = tc_durable_entry(tc_harness_session(tc_tool_harness(api)), child, done.answer, r, &entry,
                          err);
    if (rc == 0)
        rc = tc_json_parse(r, entry, &v, err);
    if (rc < 0)
        return rc;
    (void)tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"), &answer);
    return tc_tool_output(api, answer, NULL, err);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: tool_subagent SCRIPT CHILD-SCRIPT SESSION\n");
        return 2;
    }
    tc_tool tool = {.size = sizeof tool,
                    .name = TC_STR("ask_expert"),
                    .description = TC_STR("Ask another agent a question."),
                    .parameters =
                        TC_STR("{\"type\":\"object\",\"properties\":{\"question\":{\"type\":"
                               "\"string\"}},\"required\":[\"question\"]}"),
                    .execute = ask_child,
                    .user = argv[2],
                    .replay = TC_REPLAY_SAFE};
    const tc_tool *const tools[] = {&tool};
    const tc_extension extension = {
        .size = sizeof extension, .name = TC_STR("experts"), .tools = tools, .ntools = 1};
    tc_err err;
    tc_result *r = NULL;
    tc_models *models = NULL;
    tc_registry *registry = NULL;
    tc_durable *durable;
    tc_harness *harness = NULL;
    char agent[512];
    snprintf(agent, sizeof agent, "{\"model\":{\"provider\":\"scripted\",\"modelId\":\"%s\"}}",
             argv[1]);
    int rc = tc_result_new(&r, &err);
    if (rc == 0)
        rc = tc_models_open(NULL, &models, &err);
    if (rc == 0)
        rc = tc_registry_new(&registry, &err);
    if (rc == 0)
        rc = tc_registry_install(registry, &extension, &err);
    if (rc == 0)
        rc = tc_durable_open(text(argv[3]), NULL, &durable, &err);
    tc_harness_options options = {.size = sizeof options, .registry = registry, .models = models};
    if (rc == 0)
        rc = tc_harness_open(durable, &options, NULL, &harness, &err);
    tc_conversation_options root = {.size = sizeof root, .agent = text(agent)};
    tc_user_input input = {.size = sizeof input, .text = TC_STR("find out")};
    tc_call call = TC_CALL(NULL, r);
    tc_submission done;
    uint64_t conversation, submission;
    tc_str entry, said = {0};
    const tc_json *v = NULL;
    if (rc == 0)
        rc = tc_harness_root(harness, NULL, &root, &conversation, &err);
    if (rc == 0)
        rc = tc_conversation_submit(harness, NULL, conversation, &input, &submission, &err);
    if (rc == 0)
        rc = tc_submission_wait(harness, &call, submission, &done, &err);
    tc_page newest = {.limit = 2};
    tc_records entries = {0};
    if (rc == 0)
        rc = tc_durable_entries(tc_harness_session(harness), conversation, 0, 0, &newest, r,
                                &entries, &err);
    for (size_t i = entries.count; rc == 0 && i-- > 0;) {
        entry = entries.items[i];
        rc = tc_json_parse(r, entry, &v, &err);
        if (rc == 0 && tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"), &said))
            printf("%.*s\n", TC_STR_ARG(said));
    }
    if (rc < 0)
        fprintf(stderr, "tool_subagent: %s\n", err.msg);
    tc_harness_free(harness);
    tc_registry_free(registry);
    tc_models_close(models);
    tc_result_free(r);
    return rc < 0 ? tc_code_exit_status(rc) : 0;
}
