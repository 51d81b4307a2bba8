/* SPDX-License-Identifier: Apache-2.0
 *
 * See harness_work.h. */
#include "harness_work.h"

#include <string.h>
#include <telechir/json.h>

static const char commands_schema[] =
    "{\"type\":\"object\",\"properties\":{\"commands\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"string\"}}},\"required\":[\"commands\"]}";
static const char delegate_schema[] =
    "{\"type\":\"object\",\"properties\":{\"script\":{\"type\":\"string\"},\"text\":{\"type\":"
    "\"string\"}},\"required\":[\"script\",\"text\"]}";

/* ---- texts ---- */

static int text_of(tc_tool_api *api, tc_str text, tc_tool_result *ret, tc_err *err)
{
    tc_json_out *out;
    if (tc_json_out_new(&out, err) < 0)
        return err->code;
    tc_json_out_array(out);
    tc_json_out_object(out);
    tc_json_out_key(out, TC_STR("type"));
    tc_json_out_str(out, TC_STR("text"));
    tc_json_out_key(out, TC_STR("text"));
    tc_json_out_str(out, text);
    tc_json_out_end(out);
    tc_json_out_end(out);
    int rc = tc_json_out_take(out, tc_tool_result_memory(api), &ret->output, err);
    tc_json_out_free(out);
    return rc;
}

static int join(tc_result *r, tc_str a, tc_str b, tc_str *ret, tc_err *err)
{
    void *room;
    if (tc_result_alloc(r, a.len + b.len + 1, &room, err) < 0)
        return err->code;
    if (a.len > 0)
        memcpy(room, a.ptr, a.len);
    if (b.len > 0)
        memcpy((char *)room + a.len, b.ptr, b.len);
    *ret = (tc_str){room, a.len + b.len};
    return 0;
}

/* ---- calls of other tools ---- */

static int run_command(tc_tool_api *api, tc_ctx *ctx, tc_str key, const tc_json *command,
                       tc_str *ret, tc_err *err)
{
    const tc_nested_options options = {.size = sizeof options, .key = key};
    tc_result *r = tc_tool_result_memory(api);
    tc_nested_result result;
    tc_json_out *out;
    const tc_json *v;
    tc_str text = {NULL, 0}, arguments;
    (void)tc_json_as_str(command, &text);
    if (tc_json_out_new(&out, err) < 0)
        return err->code;
    tc_json_out_object(out);
    tc_json_out_key(out, TC_STR("command"));
    tc_json_out_str(out, text);
    tc_json_out_end(out);
    int rc = tc_json_out_take(out, r, &arguments, err);
    tc_json_out_free(out);
    if (rc < 0 ||
        tc_tool_execute_tool(api, ctx, TC_STR("bash"), arguments, &options, r, &result, err) < 0)
        return err->code;
    if (result.is_error) {
        *ret = TC_STR("cut\n");
        return 0;
    }
    if (tc_json_parse(r, result.structured_output, &v, err) < 0)
        return err->code;
    return tc_json_as_str(tc_json_get(v, TC_STR("output")), ret)
               ? 0
               : tc_tool_fail(api, err, "bash gave no output");
}

static int both(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                tc_err *err)
{
    static const tc_str keys[2] = {{"first", 5}, {"second", 6}};
    tc_result *r = tc_tool_result_memory(api);
    const tc_json *v;
    tc_str text = {NULL, 0}, more;
    (void)user;
    if (tc_json_parse(r, arguments, &v, err) < 0)
        return err->code;
    for (size_t i = 0; i < 2; i++) {
        const tc_json *command = tc_json_item(tc_json_get(v, TC_STR("commands")), i);
        if (run_command(api, ctx, keys[i], command, &more, err) < 0 ||
            join(r, text, more, &text, err) < 0)
            return err->code;
    }
    return text_of(api, text, ret, err);
}

static int wrap(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                tc_err *err)
{
    const tc_nested_options options = {.size = sizeof options, .key = TC_STR("in")};
    tc_result *r = tc_tool_result_memory(api);
    tc_nested_result result;
    const tc_json *v;
    tc_str text = TC_STR("cut\n");
    (void)user;
    if (tc_tool_execute_tool(api, ctx, TC_STR("both"), arguments, &options, r, &result, err) < 0)
        return err->code;
    if (!result.is_error && tc_json_parse(r, result.structured_output, &v, err) < 0)
        return err->code;
    if (!result.is_error)
        (void)tc_json_as_str(v, &text);
    return text_of(api, text, ret, err);
}

/* ---- a conversation of its own ---- */

static int make_child(tc_tool_api *api, tc_ctx *ctx, tc_str script, uint64_t *ret, tc_err *err)
{
    tc_conversation_options options = {.size = sizeof options, .owner_task = tc_tool_task_id(api)};
    tc_json_out *out;
    if (tc_json_out_new(&out, err) < 0)
        return err->code;
    tc_json_out_object(out);
    tc_json_out_key(out, TC_STR("model"));
    tc_json_out_object(out);
    tc_json_out_key(out, TC_STR("provider"));
    tc_json_out_str(out, TC_STR("scripted"));
    tc_json_out_key(out, TC_STR("modelId"));
    tc_json_out_str(out, script);
    tc_json_out_end(out);
    tc_json_out_end(out);
    int rc = tc_json_out_take(out, tc_tool_result_memory(api), &options.agent, err);
    tc_json_out_free(out);
    return rc < 0 ? rc : tc_conversation_create(tc_tool_harness(api), ctx, &options, ret, err);
}

/* The one that this call made before it was cut off, or a new one. */
static int child_of(tc_tool_api *api, tc_ctx *ctx, tc_str script, tc_bound *ret, tc_err *err)
{
    tc_result *r = tc_tool_result_memory(api);
    tc_records found;
    const tc_json *v;
    uint64_t id = 0;
    if (tc_durable_conversations(tc_harness_session(tc_tool_harness(api)),
                                 tc_tool_conversation_id(api), tc_tool_task_id(api), NULL, r,
                                 &found, err) < 0)
        return err->code;
    if (found.count == 0) {
        if (make_child(api, ctx, script, &id, err) < 0)
            return err->code;
    } else {
        if (tc_json_parse(r, found.items[0], &v, err) < 0)
            return err->code;
        (void)tc_json_as_u64(tc_json_get(v, TC_STR("id")), &id);
    }
    return tc_tool_conversation(api, id, ret, err);
}

static int delegate(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                    tc_tool_result *ret, tc_err *err)
{
    tc_result *r = tc_tool_result_memory(api);
    tc_user_input input = {.size = sizeof input, .request_id = TC_STR("job")};
    tc_str script = {NULL, 0}, entry, text;
    const tc_json *v;
    tc_bound child;
    tc_submission s;
    uint64_t submission;
    (void)user;
    if (tc_json_parse(r, arguments, &v, err) < 0)
        return err->code;
    (void)tc_json_as_str(tc_json_get(v, TC_STR("script")), &script);
    (void)tc_json_as_str(tc_json_get(v, TC_STR("text")), &input.text);
    if (child_of(api, ctx, script, &child, err) < 0 ||
        tc_bound_submit(&child, ctx, &input, &submission, err) < 0 ||
        tc_bound_wait(&child, &TC_CALL(ctx, r), submission, &s, err) < 0)
        return err->code;
    if (s.status != TC_SUBMISSION_DONE)
        return tc_tool_fail(api, err, "no answer: %.*s", TC_STR_ARG(s.reason));
    if (tc_durable_entry(tc_harness_session(tc_tool_harness(api)), 0, s.answer, r, &entry, err) <
            0 ||
        tc_json_parse(r, entry, &v, err) < 0)
        return err->code;
    return tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"), &text)
               ? text_of(api, text, ret, err)
               : tc_tool_fail(api, err, "an answer without text");
}

/* ---- the extension ---- */

static tc_str text_str(const char *cstr)
{
    return (tc_str){cstr, strlen(cstr)};
}

void work_init(work *w)
{
    static const struct {
        const char *name, *schema;
        tc_tool_execute execute;
        tc_tool_replay replay;
    } tools[WORK_TOOLS] = {{"both", commands_schema, both, TC_REPLAY_SAFE},
                           {"both-once", commands_schema, both, TC_REPLAY_UNSAFE},
                           {"wrap", commands_schema, wrap, TC_REPLAY_SAFE},
                           {"delegate", delegate_schema, delegate, TC_REPLAY_SAFE}};
    *w = (work){.extension = {.size = sizeof w->extension,
                              .name = TC_STR("work"),
                              .tools = w->all,
                              .ntools = WORK_TOOLS}};
    for (size_t i = 0; i < WORK_TOOLS; i++) {
        w->tools[i] = (tc_tool){.size = sizeof w->tools[i],
                                .name = text_str(tools[i].name),
                                .parameters = text_str(tools[i].schema),
                                .execute = tools[i].execute,
                                .replay = tools[i].replay};
        w->all[i] = &w->tools[i];
    }
}
