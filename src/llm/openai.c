/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers that speak the Chat Completions API of OpenAI: the request's body, and the events of its
 * stream. Leaves sending to exchange.c. The asking thread.
 * Source: platform.openai.com/docs/api-reference/chat. */
#include "llm/llm_int.h"

#define API "openai-completions"

/* ---- the request ---- */

static void put_image(tci_buf *b, const tci_json *image)
{
    tci_buf_append_str(b, TC_STR("{\"type\":\"image_url\",\"image_url\":{\"url\":"));
    tci_buf url;
    tci_buf_init(&url, TCI_BUF_MAX);
    tci_buf_append_str(&url, TC_STR("data:"));
    tci_buf_append_str(&url, tci_json_str_member(image, "mimeType"));
    tci_buf_append_str(&url, TC_STR(";base64,"));
    tci_buf_append_str(&url, tci_json_str_member(image, "data"));
    tci_json_put_str(b, tci_buf_str(&url));
    if (!tci_buf_ok(&url))
        b->failed = url.failed;
    tci_buf_done(&url);
    tci_buf_append_str(b, TC_STR("}}"));
}

static void put_text_part(tci_buf *b, tc_str text)
{
    tci_buf_append_str(b, TC_STR("{\"type\":\"text\",\"text\":"));
    tci_json_put_str(b, text);
    tci_buf_append_byte(b, '}');
}

/* The parts of a user's message. Images a model cannot see become a remark, several in a row one. */
static void put_user_parts(tci_buf *b, const tci_json *content, const tc_model *model)
{
    bool first = true, was_remark = false;
    tci_buf_append_byte(b, '[');
    for (uint32_t i = 0; i < content->count; i++) {
        const tci_json *part = &content->u.items[i];
        bool is_image = tci_is_type(part, "image"), is_remark = is_image && !model->takes_images;
        if (is_remark && was_remark)
            continue;
        was_remark = is_remark;
        if (!first)
            tci_buf_append_byte(b, ',');
        first = false;
        if (is_image && !is_remark)
            put_image(b, part);
        else
            put_text_part(b, is_remark ? TCI_NO_IMAGE : tci_json_str_member(part, "text"));
    }
    tci_buf_append_byte(b, ']');
}

static void put_user(tci_buf *b, const tci_json *message, const tc_model *model)
{
    const tci_json *content = tci_json_get(message, TC_STR("content"));
    tci_buf_append_str(b, TC_STR("{\"role\":\"user\",\"content\":"));
    if (content != NULL && content->kind == TCI_JSON_ARRAY)
        put_user_parts(b, content, model);
    else
        tci_json_put_str(b, tci_json_str_member(message, "content"));
    tci_buf_append_byte(b, '}');
}

/* All text of a content list; thinking of other models does not count, nor is it told again. */
static void put_all_text(tci_buf *out, const tci_json *content)
{
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++) {
        const tci_json *part = &content->u.items[i];
        if (tci_is_type(part, "text"))
            tci_buf_append_str(out, tci_json_str_member(part, "text"));
    }
}

static void put_call(tci_buf *b, const tci_json *call)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &first, "id", tci_json_str_member(call, "id"));
    tci_json_put_member(b, &first, "type", TC_STR("function"));
    tci_buf_append_str(b, TC_STR(",\"function\":{\"name\":"));
    tci_json_put_str(b, tci_json_str_member(call, "name"));
    tci_buf_append_str(b, TC_STR(",\"arguments\":"));
    const tci_json *arguments = tci_json_get(call, TC_STR("arguments"));
    tci_buf text;
    tci_buf_init(&text, TCI_BUF_MAX);
    if (arguments != NULL)
        tci_json_put(&text, arguments, TCI_JSON_AS_IS);
    else
        tci_buf_append_str(&text, TC_STR("{}"));
    tci_json_put_str(b, tci_buf_str(&text));
    if (!tci_buf_ok(&text))
        b->failed = text.failed;
    tci_buf_done(&text);
    tci_buf_append_str(b, TC_STR("}}"));
}

/* false: there is nothing in it to tell. */
static bool put_assistant(tci_buf *b, const tci_json *message, bool is_first)
{
    const tci_json *content = tci_json_get(message, TC_STR("content"));
    tci_buf text, calls;
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_buf_init(&calls, TCI_BUF_MAX);
    put_all_text(&text, content);
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++) {
        if (!tci_is_type(&content->u.items[i], "toolCall"))
            continue;
        if (calls.len > 0)
            tci_buf_append_byte(&calls, ',');
        put_call(&calls, &content->u.items[i]);
    }
    bool is_there = text.len > 0 || calls.len > 0;
    if (is_there) {
        if (!is_first)
            tci_buf_append_byte(b, ',');
        tci_buf_append_str(b, TC_STR("{\"role\":\"assistant\",\"content\":"));
        if (text.len > 0)
            tci_json_put_str(b, tci_buf_str(&text));
        else
            tci_buf_append_str(b, TC_STR("null"));
        if (calls.len > 0) {
            tci_buf_append_str(b, TC_STR(",\"tool_calls\":["));
            tci_buf_append_str(b, tci_buf_str(&calls));
            tci_buf_append_byte(b, ']');
        }
        tci_buf_append_byte(b, '}');
    }
    if (!tci_buf_ok(&text) || !tci_buf_ok(&calls))
        b->failed = !tci_buf_ok(&text) ? text.failed : calls.failed;
    tci_buf_done(&text);
    tci_buf_done(&calls);
    return is_there;
}

static bool has_image(const tci_json *content)
{
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++) {
        if (tci_is_type(&content->u.items[i], "image"))
            return true;
    }
    return false;
}

/* Text items joined by newlines. */
static void put_result_text(tci_buf *out, const tci_json *content)
{
    bool first = true;
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++) {
        if (!tci_is_type(&content->u.items[i], "text"))
            continue;
        if (!first)
            tci_buf_append_byte(out, '\n');
        first = false;
        tci_buf_append_str(out, tci_json_str_member(&content->u.items[i], "text"));
    }
}

static void put_result(tci_buf *b, const tci_json *message, const tc_model *model)
{
    const tci_json *content = tci_json_get(message, TC_STR("content"));
    tci_buf text;
    bool first = true;
    tci_buf_init(&text, TCI_BUF_MAX);
    put_result_text(&text, content);
    if (text.len == 0) {
        tc_str instead = TC_STR("(no tool output)");
        if (has_image(content))
            instead = model->takes_images ? TC_STR("(see attached image)") : TCI_NO_IMAGE;
        tci_buf_append_str(&text, instead);
    }
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &first, "role", TC_STR("tool"));
    tci_json_put_member(b, &first, "content", tci_buf_str(&text));
    tci_json_put_member(b, &first, "tool_call_id", tci_json_str_member(message, "toolCallId"));
    tci_buf_append_byte(b, '}');
    if (!tci_buf_ok(&text))
        b->failed = text.failed;
    tci_buf_done(&text);
}

/* Images of the results [from, to), in one message of the user: tools' messages hold text only. */
static void put_result_images(tci_buf *b, const tci_transcript *t, size_t from, size_t to)
{
    bool any = false;
    for (size_t i = from; i < to; i++) {
        const tci_json *content = tci_json_get(t->messages[i], TC_STR("content"));
        for (uint32_t k = 0; has_image(content) && k < content->count; k++) {
            if (!tci_is_type(&content->u.items[k], "image"))
                continue;
            if (!any) {
                tci_buf_append_str(b, TC_STR(",{\"role\":\"user\",\"content\":["));
                put_text_part(b, TC_STR("Images of the tool results above:"));
            }
            any = true;
            tci_buf_append_byte(b, ',');
            put_image(b, &content->u.items[k]);
        }
    }
    if (any)
        tci_buf_append_str(b, TC_STR("]}"));
}

static void put_messages(tci_buf *b, const tc_model_request *request, const tci_transcript *t)
{
    bool first = t->system.len == 0;
    tci_buf_append_byte(b, '[');
    if (!first) {
        tci_buf_append_str(b, request->model.reasons
                                  ? TC_STR("{\"role\":\"developer\",\"content\":")
                                  : TC_STR("{\"role\":\"system\",\"content\":"));
        tci_json_put_str(b, t->system);
        tci_buf_append_byte(b, '}');
    }
    for (size_t i = 0; i < t->nmessages; i++) {
        tc_str role = tci_role_of(t->messages[i]);
        if (tci_str_eq(role, TC_STR("assistant"))) {
            first = !put_assistant(b, t->messages[i], first) && first;
            continue;
        }
        if (!first)
            tci_buf_append_byte(b, ',');
        first = false;
        if (!tci_str_eq(role, TC_STR("toolResult"))) {
            put_user(b, t->messages[i], &request->model);
            continue;
        }
        size_t from = i;
        put_result(b, t->messages[i], &request->model);
        while (i + 1 < t->nmessages &&
               tci_str_eq(tci_role_of(t->messages[i + 1]), TC_STR("toolResult"))) {
            tci_buf_append_byte(b, ',');
            put_result(b, t->messages[++i], &request->model);
        }
        if (request->model.takes_images)
            put_result_images(b, t, from, i + 1);
    }
    tci_buf_append_byte(b, ']');
}

static void put_tools(tci_buf *b, const tci_transcript *t)
{
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < t->ntools; i++) {
        bool first = true;
        const tci_json *parameters = tci_json_get(t->tools[i], TC_STR("parameters"));
        if (i > 0)
            tci_buf_append_byte(b, ',');
        tci_buf_append_str(b, TC_STR("{\"type\":\"function\",\"function\":{"));
        tci_json_put_member(b, &first, "name", tci_json_str_member(t->tools[i], "name"));
        tci_json_put_member(b, &first, "description",
                            tci_json_str_member(t->tools[i], "description"));
        tci_json_put_key(b, &first, TC_STR("parameters"));
        if (parameters != NULL)
            tci_json_put(b, parameters, TCI_JSON_AS_IS);
        else
            tci_buf_append_str(b, TC_STR("{\"type\":\"object\",\"properties\":{}}"));
        tci_buf_append_str(b, TC_STR("}}"));
    }
    tci_buf_append_byte(b, ']');
}

static const char *effort_of(tc_str reasoning)
{
    static const char *const same[] = {"minimal", "low", "medium", "high"};
    for (size_t i = 0; i < 4; i++) {
        if (tci_str_eq(reasoning, tci_str(same[i])))
            return same[i];
    }
    return "high"; /* xhigh, max */
}

static int put_request(tci_buf *b, const tc_model_request *request, const tci_transcript *t,
                       bool is_vendor, tc_err *err)
{
    bool first = true;
    uint64_t max_tokens = request->max_tokens > 0 ? request->max_tokens : request->model.max_tokens;
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &first, "model", request->model.id);
    tci_json_put_key(b, &first, TC_STR("messages"));
    put_messages(b, request, t);
    tci_buf_append_str(
        b, TC_STR(",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"store\":false"));
    if (t->ntools > 0 || t->has_calls) {
        tci_json_put_key(b, &first, TC_STR("tools"));
        put_tools(b, t);
    }
    if (max_tokens > 0) {
        tci_json_put_key(b, &first, TC_STR("max_completion_tokens"));
        tci_buf_append_u64(b, max_tokens);
    }
    if (request->reasoning.len > 0 && request->model.reasons)
        tci_json_put_member(b, &first, "reasoning_effort", tci_str(effort_of(request->reasoning)));
    bool is_long = request->cache_retention == TC_CACHE_LONG;
    if (request->session_id.len > 0 &&
        (is_long || (is_vendor && request->cache_retention != TC_CACHE_NONE)))
        tci_json_put_member(b, &first, "prompt_cache_key", tci_str_sub(request->session_id, 0, 64));
    if (is_long)
        tci_json_put_member(b, &first, "prompt_cache_retention", TC_STR("24h"));
    if (request->metadata.len > 0) {
        tci_json_put_key(b, &first, TC_STR("metadata"));
        tci_buf_append_str(b, request->metadata);
    }
    tci_buf_append_byte(b, '}');
    return tci_buf_error(b, err);
}

static int put_key_header(tci_buf *b, tc_str key)
{
    tci_buf_append_str(b, TC_STR("Authorization: Bearer "));
    tci_buf_append_str(b, key);
    return 0;
}

/* ---- the answer ---- */

static uint64_t count_of(const tci_json *v, const char *key)
{
    uint64_t n = 0;
    const tci_json *m = v != NULL ? tci_json_get(v, tci_str(key)) : NULL;
    if (m != NULL)
        (void)tci_json_as_u64(m, &n); /* absent, null or odd: 0 */
    return n;
}

static void take_usage(tci_answer *a, const tci_json *usage)
{
    if (usage == NULL || usage->kind != TCI_JSON_OBJECT)
        return;
    const tci_json *prompt = tci_json_get(usage, TC_STR("prompt_tokens_details"));
    const tci_json *completion = tci_json_get(usage, TC_STR("completion_tokens_details"));
    uint64_t input = count_of(usage, "prompt_tokens"), read = count_of(prompt, "cached_tokens");
    if (read == 0)
        read = count_of(usage, "prompt_cache_hit_tokens");
    if (read == 0)
        read = count_of(usage, "cached_tokens");
    uint64_t write = count_of(prompt, "cache_write_tokens");
    uint64_t cached = read + write;
    a->usage = (tci_usage){.input = input > cached ? input - cached : 0,
                           .output = count_of(usage, "completion_tokens"),
                           .cache_read = read,
                           .cache_write = write,
                           .reasoning = count_of(completion, "reasoning_tokens")};
    a->usage.total = a->usage.input + a->usage.output + read + write;
}

/* Text goes into the open block of its kind, or begins one (and ends the other). */
static int add_text(tci_answer *a, tci_block_kind kind, tc_str text, const char *signature,
                    tc_err *err)
{
    if (text.len == 0)
        return 0;
    tci_block *block = tci_answer_find(a, kind, -1);
    if (block == NULL) {
        if (tci_answer_end_blocks(a, err) < 0 ||
            tci_answer_block(a, kind, -1, (tc_str){NULL, 0}, (tc_str){NULL, 0}, &block, err) < 0)
            return err->code;
        tci_buf_append_str(&block->signature, tci_str(signature));
    }
    return tci_answer_text(a, block, text, err);
}

static int add_call(tci_answer *a, const tci_json *call, size_t position, tc_err *err)
{
    uint64_t index = position;
    const tci_json *i = tci_json_get(call, TC_STR("index"));
    if (i != NULL)
        (void)tci_json_as_u64(i, &index);
    const tci_json *function = tci_json_get(call, TC_STR("function"));
    tci_block *block = tci_answer_find(a, TCI_BLOCK_CALL, (int64_t)(index & INT32_MAX));
    if (block == NULL) {
        tc_str name = function != NULL ? tci_json_str_member(function, "name") : (tc_str){NULL, 0};
        if (tci_answer_block(a, TCI_BLOCK_CALL, (int64_t)(index & INT32_MAX),
                             tci_json_str_member(call, "id"), name, &block, err) < 0)
            return err->code;
    }
    return function != NULL
               ? tci_answer_text(a, block, tci_json_str_member(function, "arguments"), err)
               : 0;
}

static int take_delta(tci_answer *a, const tci_json *delta, tc_err *err)
{
    static const char *const thinking[] = {"reasoning_content", "reasoning", "reasoning_text"};
    for (size_t i = 0; i < 3; i++) {
        tc_str text = tci_json_str_member(delta, thinking[i]);
        if (text.len == 0)
            continue;
        if (add_text(a, TCI_BLOCK_THINKING, text, thinking[i], err) < 0)
            return err->code;
        break;
    }
    if (add_text(a, TCI_BLOCK_TEXT, tci_json_str_member(delta, "content"), "", err) < 0)
        return err->code;
    const tci_json *calls = tci_json_get(delta, TC_STR("tool_calls"));
    for (uint32_t i = 0; calls != NULL && calls->kind == TCI_JSON_ARRAY && i < calls->count; i++) {
        if (add_call(a, &calls->u.items[i], i, err) < 0)
            return err->code;
    }
    return 0;
}

static int take_finish(tci_answer *a, tc_str reason, tc_err *err)
{
    static const struct {
        const char *word, *stop;
    } words[] = {{"stop", "stop"},
                 {"end", "stop"},
                 {"length", "length"},
                 {"tool_calls", "toolUse"},
                 {"function_call", "toolUse"}};
    if (tci_arena_dup(a->arena, reason, &a->raw_stop_reason, err) < 0)
        return err->code;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (tci_str_eq(reason, tci_str(words[i].word))) {
            a->stop_reason = words[i].stop;
            return 0;
        }
    }
    tci_answer_fail(a, "error", "the model stopped: %.*s", TC_STR_ARG(reason));
    return 0;
}

static int take_chunk(tci_answer *a, const tci_json *chunk, tc_err *err)
{
    const tci_json *error = tci_json_get(chunk, TC_STR("error"));
    if (error != NULL && error->kind == TCI_JSON_OBJECT) {
        tci_answer_fail(a, "error", "%.*s", TC_STR_ARG(tci_json_str_member(error, "message")));
        return 0;
    }
    if (a->response_id.len == 0 &&
        (tci_arena_dup(a->arena, tci_json_str_member(chunk, "id"), &a->response_id, err) < 0 ||
         tci_arena_dup(a->arena, tci_json_str_member(chunk, "model"), &a->response_model, err) < 0))
        return err->code;
    const tci_json *usage = tci_json_get(chunk, TC_STR("usage"));
    if (usage != NULL && usage->kind == TCI_JSON_OBJECT) {
        take_usage(a, usage);
        if (tci_answer_tell(a, err) < 0)
            return err->code;
    }
    const tci_json *choices = tci_json_get(chunk, TC_STR("choices"));
    if (choices == NULL || choices->kind != TCI_JSON_ARRAY || choices->count == 0)
        return 0;
    const tci_json *choice = &choices->u.items[0], *delta = tci_json_get(choice, TC_STR("delta"));
    if (delta != NULL && delta->kind == TCI_JSON_OBJECT && take_delta(a, delta, err) < 0)
        return err->code;
    tc_str reason = tci_json_str_member(choice, "finish_reason");
    return reason.len > 0 ? take_finish(a, reason, err) : 0;
}

static int on_event(tci_answer *a, tc_str name, tc_str data, tc_err *err)
{
    (void)name;
    if (tci_str_eq(data, TC_STR("[DONE]")) || a->error_message.len > 0)
        return 0;
    tci_arena arena;
    tci_json chunk;
    tc_err bad;
    tci_arena_init(&arena, 0);
    int rc = 0;
    if (tci_json_parse(data, TCI_JSON_DURABLE, &arena, &chunk, &bad) < 0 ||
        chunk.kind != TCI_JSON_OBJECT)
        tci_answer_fail(a, "error", "server error: an event of the answer is not JSON");
    else
        rc = take_chunk(a, &chunk, err);
    tci_arena_done(&arena);
    return rc;
}

static void on_end(tci_answer *a)
{
    if (a->stop_reason == NULL)
        tci_answer_fail(a, "error", "the stream ended without a finish reason");
}

const tci_server tci_openai = {.provider = "openai",
                               .api = API,
                               .default_url = "https://api.openai.com/v1",
                               .path = "/chat/completions",
                               .key_variable = "OPENAI_API_KEY",
                               .put_request = put_request,
                               .put_key_header = put_key_header,
                               .on_event = on_event,
                               .on_end = on_end};
