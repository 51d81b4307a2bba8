/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers that speak the Messages API of Anthropic: the request's body, and the events of its stream.
 * Leaves sending to exchange.c. The asking thread. Source: docs.anthropic.com/en/api/messages. */
#include "llm/llm_int.h"

#include "base/num.h"

#define API "anthropic-messages"

enum { DEFAULT_MAX_TOKENS = 8192, ANSWER_MIN = 1024, CALL_ID_MAX = 64 };

/* ---- the request ---- */

static void put_cache_control(tci_buf *b, tc_cache_retention retention)
{
    if (retention != TC_CACHE_NONE)
        tci_buf_append_str(
            b, retention == TC_CACHE_LONG
                   ? TC_STR(",\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}")
                   : TC_STR(",\"cache_control\":{\"type\":\"ephemeral\"}"));
}

static void comma(tci_buf *b, bool *first)
{
    if (!*first)
        tci_buf_append_byte(b, ',');
    *first = false;
}

static void put_text(tci_buf *b, bool *first, tc_str text)
{
    if (text.len == 0) /* an empty block is refused */
        return;
    comma(b, first);
    tci_buf_append_str(b, TC_STR("{\"type\":\"text\",\"text\":"));
    tci_json_put_str(b, text);
    tci_buf_append_byte(b, '}');
}

static void put_image(tci_buf *b, bool *first, const tci_json *image)
{
    bool first_member = false;
    comma(b, first);
    tci_buf_append_str(b, TC_STR("{\"type\":\"image\",\"source\":{\"type\":\"base64\""));
    tci_json_put_member(b, &first_member, "media_type", tci_json_str_member(image, "mimeType"));
    tci_json_put_member(b, &first_member, "data", tci_json_str_member(image, "data"));
    tci_buf_append_str(b, TC_STR("}}"));
}

/* Text and images of a content list; images a model cannot see become a remark, several in a row one. */
static void put_content(tci_buf *b, const tci_json *content, const tc_model *model)
{
    bool first = true, was_remark = false;
    tci_buf_append_byte(b, '[');
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++) {
        const tci_json *part = &content->u.items[i];
        bool is_image = tci_is_type(part, "image"), is_remark = is_image && !model->takes_images;
        if (is_image && !is_remark)
            put_image(b, &first, part);
        else if (!is_remark || !was_remark)
            put_text(b, &first, is_remark ? TCI_NO_IMAGE : tci_json_str_member(part, "text"));
        was_remark = is_remark;
    }
    if (first)
        put_text(b, &first, TC_STR("(no output)"));
    tci_buf_append_byte(b, ']');
}

/* Ids of other servers may hold what this one refuses. */
static void put_call_id(tci_buf *b, tc_str id)
{
    char out[CALL_ID_MAX];
    size_t n = id.len < CALL_ID_MAX ? id.len : CALL_ID_MAX;
    for (size_t i = 0; i < n; i++) {
        char c = id.ptr[i];
        bool is_fine = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
        out[i] = is_fine ? c : '_';
    }
    tci_json_put_str(b, tci_str_of(out, n));
}

static void put_call(tci_buf *b, bool *first, const tci_json *call)
{
    bool first_member = false;
    const tci_json *input = tci_json_get(call, TC_STR("arguments"));
    comma(b, first);
    tci_buf_append_str(b, TC_STR("{\"type\":\"tool_use\",\"id\":"));
    put_call_id(b, tci_json_str_member(call, "id"));
    tci_json_put_member(b, &first_member, "name", tci_json_str_member(call, "name"));
    tci_buf_append_str(b, TC_STR(",\"input\":"));
    if (input != NULL && input->kind == TCI_JSON_OBJECT)
        tci_json_put(b, input, TCI_JSON_AS_IS);
    else
        tci_buf_append_str(b, TC_STR("{}"));
    tci_buf_append_byte(b, '}');
}

/* Thinking goes back only to the model it came from; unsigned, it is ordinary text. */
static void put_thinking(tci_buf *b, bool *first, const tci_json *block, bool is_own)
{
    bool is_redacted = false, first_member = false;
    const tci_json *redacted = tci_json_get(block, TC_STR("redacted"));
    tc_str signature = tci_json_str_member(block, "thinkingSignature");
    if (redacted != NULL)
        (void)tci_json_as_bool(redacted, &is_redacted);
    if (!is_own)
        return;
    if (is_redacted) {
        comma(b, first);
        tci_buf_append_str(b, TC_STR("{\"type\":\"redacted_thinking\""));
        tci_json_put_member(b, &first_member, "data", signature);
        tci_buf_append_byte(b, '}');
    } else if (signature.len == 0) {
        put_text(b, first, tci_json_str_member(block, "thinking"));
    } else {
        comma(b, first);
        tci_buf_append_str(b, TC_STR("{\"type\":\"thinking\""));
        tci_json_put_member(b, &first_member, "thinking", tci_json_str_member(block, "thinking"));
        tci_json_put_member(b, &first_member, "signature", signature);
        tci_buf_append_byte(b, '}');
    }
}

/* false: nothing of it can be told. */
static bool put_assistant(tci_buf *b, const tci_json *message, const tc_model *model)
{
    const tci_json *content = tci_json_get(message, TC_STR("content"));
    bool is_own = tci_is_own(message, model, API), first = true;
    size_t start = b->len;
    tci_buf_append_str(b, TC_STR("{\"role\":\"assistant\",\"content\":["));
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++) {
        const tci_json *block = &content->u.items[i];
        if (tci_is_type(block, "text"))
            put_text(b, &first, tci_json_str_member(block, "text"));
        else if (tci_is_type(block, "thinking"))
            put_thinking(b, &first, block, is_own);
        else if (tci_is_type(block, "toolCall"))
            put_call(b, &first, block);
    }
    tci_buf_append_str(b, TC_STR("]}"));
    if (first)
        tci_buf_truncate(b, start);
    return !first;
}

static void put_result(tci_buf *b, const tci_json *message, const tc_model *model)
{
    bool is_error = false;
    const tci_json *e = tci_json_get(message, TC_STR("isError"));
    if (e != NULL)
        (void)tci_json_as_bool(e, &is_error);
    tci_buf_append_str(b, TC_STR("{\"type\":\"tool_result\",\"tool_use_id\":"));
    put_call_id(b, tci_json_str_member(message, "toolCallId"));
    tci_buf_append_str(b, TC_STR(",\"content\":"));
    put_content(b, tci_json_get(message, TC_STR("content")), model);
    tci_buf_append_str(b,
                       is_error ? TC_STR(",\"is_error\":true}") : TC_STR(",\"is_error\":false}"));
}

static void put_user(tci_buf *b, const tci_json *message, const tc_model *model)
{
    const tci_json *content = tci_json_get(message, TC_STR("content"));
    tci_buf_append_str(b, TC_STR("{\"role\":\"user\",\"content\":"));
    if (content != NULL && content->kind == TCI_JSON_ARRAY)
        put_content(b, content, model);
    else
        tci_json_put_str(b, tci_json_str_member(message, "content"));
    tci_buf_append_byte(b, '}');
}

static void put_messages(tci_buf *b, const tc_model_request *request, const tci_transcript *t)
{
    bool first = true;
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < t->nmessages; i++) {
        tc_str role = tci_role_of(t->messages[i]);
        size_t start = b->len;
        bool was_first = first;
        comma(b, &first);
        if (tci_str_eq(role, TC_STR("assistant"))) {
            if (!put_assistant(b, t->messages[i], &request->model)) {
                tci_buf_truncate(b, start);
                first = was_first;
            }
        } else if (tci_str_eq(role, TC_STR("toolResult"))) {
            tci_buf_append_str(b, TC_STR("{\"role\":\"user\",\"content\":["));
            put_result(b, t->messages[i], &request->model);
            while (i + 1 < t->nmessages &&
                   tci_str_eq(tci_role_of(t->messages[i + 1]), TC_STR("toolResult"))) {
                tci_buf_append_byte(b, ',');
                put_result(b, t->messages[++i], &request->model);
            }
            tci_buf_append_str(b, TC_STR("]}"));
        } else {
            put_user(b, t->messages[i], &request->model);
        }
    }
    tci_buf_append_byte(b, ']');
}

static void put_tools(tci_buf *b, const tci_transcript *t, tc_cache_retention retention)
{
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < t->ntools; i++) {
        bool first = true;
        const tci_json *schema = tci_json_get(t->tools[i], TC_STR("parameters"));
        tci_buf_append_str(b, i > 0 ? TC_STR(",{") : TC_STR("{"));
        tci_json_put_member(b, &first, "name", tci_json_str_member(t->tools[i], "name"));
        tci_json_put_member(b, &first, "description",
                            tci_json_str_member(t->tools[i], "description"));
        tci_json_put_key(b, &first, TC_STR("input_schema"));
        if (schema != NULL)
            tci_json_put(b, schema, TCI_JSON_AS_IS);
        else
            tci_buf_append_str(b, TC_STR("{\"type\":\"object\",\"properties\":{}}"));
        if (i + 1 == t->ntools)
            put_cache_control(b, retention);
        tci_buf_append_byte(b, '}');
    }
    tci_buf_append_byte(b, ']');
}

/* Tokens for thinking at each level; 0: off. */
static uint64_t thinking_budget(tc_str level)
{
    static const struct {
        const char *level;
        uint64_t tokens;
    } budgets[] = {{"minimal", 1024}, {"low", 2048},    {"medium", 8192},
                   {"high", 16384},   {"xhigh", 16384}, {"max", 16384}};
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        if (tci_str_eq(level, tci_str(budgets[i].level)))
            return budgets[i].tokens;
    }
    return 0;
}

static void put_limits(tci_buf *b, bool *first, const tc_model_request *request)
{
    const tc_model *m = &request->model;
    uint64_t max = request->max_tokens > 0 ? request->max_tokens
                   : m->max_tokens > 0     ? m->max_tokens
                                           : DEFAULT_MAX_TOKENS;
    uint64_t budget = m->reasons ? thinking_budget(request->reasoning) : 0;
    if (budget > 0) {
        max += budget;
        if (m->max_tokens > 0 && max > m->max_tokens)
            max = m->max_tokens;
        if (max < budget + ANSWER_MIN) /* some room must be left for the answer */
            budget = max > ANSWER_MIN ? max - ANSWER_MIN : 0;
    }
    tci_json_put_key(b, first, TC_STR("max_tokens"));
    tci_buf_append_u64(b, max);
    if (budget > 0)
        tci_buf_printf(b, ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":%llu}",
                       (unsigned long long)budget);
}

static void put_metadata(tci_buf *b, bool *first, tc_str metadata)
{
    tci_arena a;
    tci_json v;
    tc_err ignored;
    tci_arena_init(&a, 0);
    tc_str user = {NULL, 0};
    if (metadata.len > 0 && tci_json_parse(metadata, 0, &a, &v, &ignored) == 0)
        user = tci_json_str_member(&v, "user_id");
    if (user.len > 0) {
        bool first_member = true;
        tci_json_put_key(b, first, TC_STR("metadata"));
        tci_buf_append_byte(b, '{');
        tci_json_put_member(b, &first_member, "user_id", user);
        tci_buf_append_byte(b, '}');
    }
    tci_arena_done(&a);
}

static int put_request(tci_buf *b, const tc_model_request *request, const tci_transcript *t,
                       bool is_vendor, tc_err *err)
{
    (void)is_vendor;
    bool first = true;
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &first, "model", request->model.id);
    tci_buf_append_str(b, TC_STR(",\"stream\":true"));
    put_limits(b, &first, request);
    if (t->system.len > 0) {
        tci_buf_append_str(b, TC_STR(",\"system\":[{\"type\":\"text\",\"text\":"));
        tci_json_put_str(b, t->system);
        put_cache_control(b, request->cache_retention);
        tci_buf_append_str(b, TC_STR("}]"));
    }
    tci_json_put_key(b, &first, TC_STR("messages"));
    put_messages(b, request, t);
    if (t->ntools > 0) {
        tci_json_put_key(b, &first, TC_STR("tools"));
        put_tools(b, t, request->cache_retention);
    }
    put_metadata(b, &first, request->metadata);
    tci_buf_append_byte(b, '}');
    return tci_buf_error(b, err);
}

static int put_key_header(tci_buf *b, tc_str key)
{
    tci_buf_append_str(b, TC_STR("x-api-key: "));
    tci_buf_append_str(b, key);
    return 0;
}

/* ---- the answer ---- */

/* The count, if it is stated at all. */
static bool count_of(const tci_json *v, const char *key, uint64_t *ret)
{
    const tci_json *m = v != NULL ? tci_json_get(v, tci_str(key)) : NULL;
    return m != NULL && tci_json_as_u64(m, ret);
}

/* What is stated replaces what was; the rest stays from before. */
static void take_usage(tci_answer *a, const tci_json *usage)
{
    if (usage == NULL || usage->kind != TCI_JSON_OBJECT)
        return;
    tci_usage *u = &a->usage;
    (void)count_of(usage, "input_tokens", &u->input);
    (void)count_of(usage, "output_tokens", &u->output);
    (void)count_of(usage, "cache_read_input_tokens", &u->cache_read);
    (void)count_of(usage, "cache_creation_input_tokens", &u->cache_write);
    (void)count_of(tci_json_get(usage, TC_STR("cache_creation")), "ephemeral_1h_input_tokens",
                   &u->cache_write_1h);
    (void)count_of(tci_json_get(usage, TC_STR("output_tokens_details")), "thinking_tokens",
                   &u->reasoning);
    u->total = u->input + u->output + u->cache_read + u->cache_write;
}

static int on_message_start(tci_answer *a, const tci_json *event, tc_err *err)
{
    const tci_json *message = tci_json_get(event, TC_STR("message"));
    if (message == NULL || message->kind != TCI_JSON_OBJECT)
        return 0;
    take_usage(a, tci_json_get(message, TC_STR("usage")));
    if (tci_arena_dup(a->arena, tci_json_str_member(message, "id"), &a->response_id, err) < 0 ||
        tci_arena_dup(a->arena, tci_json_str_member(message, "model"), &a->response_model, err) < 0)
        return err->code;
    return tci_answer_tell(a, err);
}

static int64_t index_of(const tci_json *event)
{
    uint64_t index = 0;
    return count_of(event, "index", &index) ? (int64_t)(index & INT32_MAX) : 0;
}

static int on_block_start(tci_answer *a, const tci_json *event, tc_err *err)
{
    const tci_json *block = tci_json_get(event, TC_STR("content_block"));
    const tc_str none = {NULL, 0};
    int64_t key = index_of(event);
    tci_block *made;
    if (block == NULL)
        return 0;
    if (tci_is_type(block, "tool_use"))
        return tci_answer_block(a, TCI_BLOCK_CALL, key, tci_json_str_member(block, "id"),
                                tci_json_str_member(block, "name"), &made, err);
    if (tci_is_type(block, "text")) {
        if (tci_answer_block(a, TCI_BLOCK_TEXT, key, none, none, &made, err) < 0)
            return err->code;
        return tci_answer_text(a, made, tci_json_str_member(block, "text"), err);
    }
    bool is_redacted = tci_is_type(block, "redacted_thinking");
    if (!is_redacted && !tci_is_type(block, "thinking"))
        return 0;
    if (tci_answer_block(a, TCI_BLOCK_THINKING, key, none, none, &made, err) < 0)
        return err->code;
    made->is_redacted = is_redacted;
    if (is_redacted)
        tci_buf_append_str(&made->signature, tci_json_str_member(block, "data"));
    return tci_answer_text(a, made, tci_json_str_member(block, "thinking"), err);
}

static int on_block_delta(tci_answer *a, const tci_json *event, tc_err *err)
{
    const tci_json *delta = tci_json_get(event, TC_STR("delta"));
    if (delta == NULL)
        return 0;
    static const struct {
        const char *type, *member;
        tci_block_kind kind;
    } kinds[] = {{"text_delta", "text", TCI_BLOCK_TEXT},
                 {"thinking_delta", "thinking", TCI_BLOCK_THINKING},
                 {"input_json_delta", "partial_json", TCI_BLOCK_CALL}};
    int64_t key = index_of(event);
    for (size_t i = 0; i < 3; i++) {
        if (!tci_is_type(delta, kinds[i].type))
            continue;
        tci_block *block = tci_answer_find(a, kinds[i].kind, key);
        return block != NULL
                   ? tci_answer_text(a, block, tci_json_str_member(delta, kinds[i].member), err)
                   : 0;
    }
    tci_block *thinking = tci_answer_find(a, TCI_BLOCK_THINKING, key);
    if (thinking != NULL && tci_is_type(delta, "signature_delta"))
        tci_buf_append_str(&thinking->signature, tci_json_str_member(delta, "signature"));
    return thinking != NULL ? tci_buf_error(&thinking->signature, err) : 0;
}

static int on_block_stop(tci_answer *a, const tci_json *event, tc_err *err)
{
    int64_t key = index_of(event);
    for (size_t i = 0; i < a->nblocks; i++) {
        if (a->blocks[i].key == key && tci_answer_end_block(a, &a->blocks[i], err) < 0)
            return err->code;
    }
    return 0;
}

static int on_message_delta(tci_answer *a, const tci_json *event, tc_err *err)
{
    static const struct {
        const char *word, *stop;
    } words[] = {{"end_turn", "stop"},
                 {"stop_sequence", "stop"},
                 {"pause_turn", "stop"},
                 {"max_tokens", "length"},
                 {"tool_use", "toolUse"}};
    const tci_json *delta = tci_json_get(event, TC_STR("delta"));
    take_usage(a, tci_json_get(event, TC_STR("usage")));
    tc_str reason = delta != NULL ? tci_json_str_member(delta, "stop_reason") : (tc_str){NULL, 0};
    if (reason.len == 0)
        return tci_answer_tell(a, err);
    if (tci_arena_dup(a->arena, reason, &a->raw_stop_reason, err) < 0)
        return err->code;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (tci_str_eq(reason, tci_str(words[i].word)))
            a->stop_reason = words[i].stop;
    }
    if (a->stop_reason == NULL)
        tci_answer_fail(a, "error", "the model stopped: %.*s", TC_STR_ARG(reason));
    return tci_answer_tell(a, err);
}

static int on_error(tci_answer *a, const tci_json *event, tc_err *err)
{
    (void)err;
    const tci_json *error = tci_json_get(event, TC_STR("error"));
    tc_str none = TC_STR("unknown");
    tc_str type = error != NULL ? tci_json_str_member(error, "type") : none;
    tc_str message = error != NULL ? tci_json_str_member(error, "message") : none;
    tci_answer_fail(a, "error", "%.*s: %.*s", TC_STR_ARG(type), TC_STR_ARG(message));
    return 0;
}

static int on_event(tci_answer *a, tc_str name, tc_str data, tc_err *err)
{
    static const struct {
        const char *type;
        int (*handle)(tci_answer *a, const tci_json *event, tc_err *err);
    } events[] = {{"message_start", on_message_start},     {"content_block_start", on_block_start},
                  {"content_block_delta", on_block_delta}, {"content_block_stop", on_block_stop},
                  {"message_delta", on_message_delta},     {"error", on_error}};
    (void)name; /* the data says it too */
    if (a->error_message.len > 0)
        return 0;
    tci_arena arena;
    tci_json event;
    tc_err bad;
    int rc = 0;
    tci_arena_init(&arena, 0);
    if (tci_json_parse(data, TCI_JSON_DURABLE, &arena, &event, &bad) < 0) {
        tci_answer_fail(a, "error", "server error: an event of the answer is not JSON");
    } else {
        for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
            if (tci_is_type(&event, events[i].type))
                rc = events[i].handle(a, &event, err);
        }
    }
    tci_arena_done(&arena);
    return rc;
}

static void on_end(tci_answer *a)
{
    if (a->stop_reason == NULL)
        tci_answer_fail(a, "error", "the stream ended without a stop reason");
}

const tci_server tci_anthropic = {.provider = "anthropic",
                                  .api = API,
                                  .default_url = "https://api.anthropic.com",
                                  .path = "/v1/messages",
                                  .key_variable = "ANTHROPIC_API_KEY",
                                  .put_request = put_request,
                                  .put_key_header = put_key_header,
                                  .fixed_header = "anthropic-version: 2023-06-01",
                                  .on_event = on_event,
                                  .on_end = on_end};
