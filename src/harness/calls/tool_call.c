/* SPDX-License-Identifier: Apache-2.0
 *
 * Which call a task of "pi.tool" stands for, which tool that is, and whether its arguments will do.
 * The thread of the task, off the line.
 *
 * To keep: two calls of one answer may have the same id, so a call is found by the place of the task's
 * slot in its round first, and by the id alone only when the round is gone. */
#include "harness/calls/tool_int.h"

#include "harness/schema/validate.h"

static int fill_call(tc_task *t, const tci_json *v, tci_tool_call *call, tc_err *err)
{
    if (!tci_json_as_str(tci_json_get(v, TC_STR("id")), &call->id) ||
        !tci_json_as_str(tci_json_get(v, TC_STR("name")), &call->name))
        return tc_err_set(err, TC_E_PARSE, "a tool call without id or name");
    call->arguments = tci_json_get(v, TC_STR("arguments"));
    (void)tci_json_as_str(tci_json_get(v, TC_STR("argumentsError")), &call->arguments_error);
    if (call->json.len > 0)
        return 0;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, v, TCI_JSON_AS_IS);
    return tci_result_take(tc_task_result(t), &b, &call->json, err);
}

static int read_nested(tc_task *t, const tci_json *input, tci_tool_call *call, tc_err *err)
{
    const tci_json *v = tci_json_get(input, TC_STR("call"));
    bool progress = true;
    (void)tci_json_as_bool(tci_json_get(input, TC_STR("progress")), &progress);
    call->is_nested = true;
    call->is_silent = !progress;
    if (v == NULL || v->kind != TCI_JSON_OBJECT ||
        !tci_json_as_id(tci_json_get(input, TC_STR("parent")), &call->parent) ||
        !tci_json_as_str(tci_json_get(input, TC_STR("parentCallId")), &call->parent_call_id) ||
        !tci_json_as_str(tci_json_get(input, TC_STR("key")), &call->key))
        return tc_err_set(err, TC_E_PARSE, "the input of a nested tool call is damaged");
    tci_buf b, parent;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_init(&parent, TCI_BUF_MAX);
    tci_buf_append_byte(&parent, '{');
    tci_put_u64_member(&parent, &first, TC_STR("taskId"), call->parent);
    tci_put_str_member(&parent, &first, TC_STR("callId"), call->parent_call_id);
    tci_buf_append_byte(&parent, '}');
    tci_json_change change = {TC_STR("parent"), tci_buf_str(&parent)};
    tci_json_edit(&b, v, &change, 1);
    int rc = tci_buf_error(&parent, err);
    tci_buf_done(&parent);
    if (rc < 0) {
        tci_buf_done(&b);
        return rc;
    }
    if (tci_result_take(tc_task_result(t), &b, &call->json, err) < 0)
        return err->code;
    return fill_call(t, v, call, err);
}

static bool is_call(const tci_json *item)
{
    tc_str type;
    return tci_json_as_str(tci_json_get(item, TC_STR("type")), &type) &&
           tci_str_eq(type, TC_STR("toolCall"));
}

/* The nth call of the message, if it has this id; else the first with it. */
static const tci_json *find_call(const tci_json *content, size_t nth, tc_str id)
{
    const tci_json *first = NULL;
    size_t n = 0;
    tc_str at;
    if (content == NULL || content->kind != TCI_JSON_ARRAY)
        return NULL;
    for (size_t i = 0; i < content->count; i++) {
        const tci_json *item = &content->u.items[i];
        if (!is_call(item))
            continue;
        if (tci_json_as_str(tci_json_get(item, TC_STR("id")), &at) && tci_str_eq(at, id)) {
            if (n == nth)
                return item;
            if (first == NULL)
                first = item;
        }
        n++;
    }
    return first;
}

/* Where this task's slot is in the round; SIZE_MAX: nowhere. */
static int place_in_round(tc_task *t, size_t *ret_place, tc_err *err)
{
    const tc_task_info *info = tc_task_current(t);
    tc_doc_addr addr = {&tci_live_doc, info->conversation_id, {NULL, 0}};
    tc_str text;
    const tci_json *live;
    *ret_place = SIZE_MAX;
    if (tc_durable_snapshot(tci_harness_session(tc_task_harness(t)), &addr, tc_task_result(t),
                            &text, err) < 0)
        return err->code;
    if (text.len == 0)
        return 0;
    if (tci_parse(tc_task_result(t), text, &live, err) < 0)
        return err->code;
    const tci_json *tools = tci_json_get(live, TC_STR("tools"));
    for (size_t i = 0; tools != NULL && tools->kind == TCI_JSON_ARRAY && i < tools->count; i++) {
        uint64_t id;
        if (tci_json_as_u64(tci_json_get(&tools->u.items[i], TC_STR("taskId")), &id) &&
            id == info->id)
            *ret_place = i;
    }
    return 0;
}

static int read_of_model(tc_task *t, const tci_json *input, tci_tool_call *call, tc_err *err)
{
    uint64_t assistant;
    tc_str id, text;
    const tci_json *entry;
    size_t nth;
    if (!tci_json_as_id(tci_json_get(input, TC_STR("assistant")), &assistant) ||
        !tci_json_as_str(tci_json_get(input, TC_STR("callId")), &id))
        return tc_err_set(err, TC_E_PARSE, "the input of a tool call is damaged");
    if (tc_durable_entry(tci_harness_session(tc_task_harness(t)), 0, assistant, tc_task_result(t),
                         &text, err) < 0 ||
        place_in_round(t, &nth, err) < 0)
        return err->code;
    const tci_json *found = NULL;
    if (text.len > 0) {
        if (tci_parse(tc_task_result(t), text, &entry, err) < 0)
            return err->code;
        const tci_json *model = tci_json_get(entry, TC_STR("model"));
        if (model != NULL && model->kind == TCI_JSON_ARRAY && model->count > 0)
            found = find_call(tci_json_get(&model->u.items[0], TC_STR("content")), nth, id);
    }
    if (found == NULL)
        return tc_err_set(err, TC_E_NOT_FOUND, "Entry %llu has no tool call %.*s",
                          (unsigned long long)assistant, TC_STR_ARG(id));
    return fill_call(t, found, call, err);
}

int tci_tool_read_call(tc_task *t, tci_tool_call *ret_call, tc_err *err)
{
    const tci_json *input;
    tc_str kind;
    *ret_call = (tci_tool_call){0};
    if (tci_parse(tc_task_result(t), tc_task_current(t)->input, &input, err) < 0)
        return err->code;
    if (tci_json_as_str(tci_json_get(input, TC_STR("kind")), &kind) &&
        tci_str_eq(kind, TC_STR("nested")))
        return read_nested(t, input, ret_call, err);
    return read_of_model(t, input, ret_call, err);
}

int tci_tool_resolve(tc_task *t, const tci_tool_call *call, const tc_tool **ret_tool, tc_err *err)
{
    const tci_agent *agent;
    if (tci_task_agent(t, &agent, err) < 0)
        return err->code;
    *ret_tool = tci_tools_find(call->is_nested ? &agent->callable : &agent->tools, call->name);
    return 0;
}

tci_output_limits tci_tool_limits(const tc_tool *tool)
{
    return (tci_output_limits){
        .max_bytes = tool->max_output_bytes > 0 ? tool->max_output_bytes : TCI_OUTPUT_MAX_BYTES,
        .max_lines = tool->max_output_lines > 0 ? tool->max_output_lines : TCI_OUTPUT_MAX_LINES,
        .retain = tool->retain};
}

static int refuse_unread(tc_task *t, const tci_tool_call *call, tc_str *ret_refusal, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("Invalid arguments for tool \""));
    tci_buf_append_str(&b, call->name);
    tci_buf_append_str(&b, TC_STR("\": "));
    tci_buf_append_str(&b, call->arguments_error);
    return tci_result_take(tc_task_result(t), &b, ret_refusal, err);
}

int tci_tool_check_arguments(tc_task *t, const tci_tool_call *call, const tc_tool *tool,
                             tc_str arguments, bool with_repair, tc_str *ret_arguments,
                             tc_str *ret_refusal, tc_err *err)
{
    tc_result *r = tc_task_result(t);
    tc_err problem = {0};
    const tci_json *v;
    bool is_valid;
    tc_str text;
    *ret_refusal = *ret_arguments = (tc_str){0};
    if (call->arguments_error.len > 0) /* never repaired: what is missing is not known */
        return refuse_unread(t, call, ret_refusal, err);
    if (with_repair && tool->prepare != NULL &&
        tool->prepare(tool->user, arguments, r, &arguments, &problem) < 0)
        return tc_result_dup(r, tci_str(problem.msg), ret_refusal, err);
    if (tci_parse(r, arguments, &v, &problem) < 0)
        return tc_result_dup(r, tci_str(problem.msg), ret_refusal, err);
    if (tci_validate_arguments(call->name, tool->parameters, v, tci_result_arena(r), &is_valid,
                               &text, &problem) < 0) {
        if (problem.code == TC_E_NO_MEMORY) {
            *err = problem;
            return err->code;
        }
        return tc_result_dup(r, tci_str(problem.msg), ret_refusal, err);
    }
    *(is_valid ? ret_arguments : ret_refusal) = text;
    return 0;
}
