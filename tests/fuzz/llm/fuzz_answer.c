/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte 0 says whose server it is, the rest is its event stream. Whatever came, the answer is a message: JSON,
 * calls with ids of their own and arguments that are objects, none of it run that was cut off; what was
 * told on the way adds up to it. The same bytes are also tried as the arguments of a call, as an error's body
 * and as its text. */
#include "base/json_tree.h"
#include "llm/llm_int.h"
#include "wire/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct stream {
    tci_answer answer;
    const tci_server *server;
    size_t nblocks, ntext, nended; /* told */
} stream;

static int on_told(void *user, const tc_model_event *event, tc_err *err)
{
    stream *s = user;
    tci_arena a;
    tci_json v;
    tci_arena_init(&a, 0);
    if (event->json.len > 0)
        TC_ASSERT(tci_json_parse(event->json, TCI_JSON_DURABLE, &a, &v, err) == 0);
    s->nblocks += event->type == TC_MODEL_BLOCK;
    s->nended += event->type == TC_MODEL_BLOCK_END;
    s->ntext += event->type == TC_MODEL_TEXT ? event->text.len : 0;
    TC_ASSERT(event->type != TC_MODEL_TEXT || event->index < s->nblocks);
    tci_arena_done(&a);
    return 0;
}

static int on_sse(void *user, tc_str name, tc_str data, tc_err *err)
{
    stream *s = user;
    return s->server->on_event(&s->answer, name, data, err);
}

static void check_call(const tci_json *content, uint32_t at)
{
    const tci_json *block = &content->u.items[at];
    const tci_json *arguments = tci_json_get(block, TC_STR("arguments"));
    tc_str id = tci_json_str_member(block, "id");
    TC_ASSERT(id.len > 0 && arguments != NULL && arguments->kind == TCI_JSON_OBJECT);
    for (uint32_t i = 0; i < at; i++)
        TC_ASSERT(!tci_is_type(&content->u.items[i], "toolCall") ||
                  !tci_str_eq(id, tci_json_str_member(&content->u.items[i], "id")));
}

static void check_message(const tci_answer *answer)
{
    tci_arena a;
    tci_buf text;
    tci_json v;
    tc_err err;
    tci_arena_init(&a, 0);
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_answer_put(&text, answer);
    TC_ASSERT(tci_buf_ok(&text));
    TC_ASSERT(tci_json_parse(tci_buf_str(&text), TCI_JSON_DURABLE, &a, &v, &err) == 0);
    const tci_json *content = tci_json_get(&v, TC_STR("content"));
    TC_ASSERT(content != NULL && content->kind == TCI_JSON_ARRAY);
    for (uint32_t i = 0; i < content->count; i++)
        if (tci_is_type(&content->u.items[i], "toolCall"))
            check_call(content, i);
    tci_buf_done(&text);
    tci_arena_done(&a);
}

static void play(const tci_server *server, tc_str bytes)
{
    tc_model model = {.provider = TC_STR("p"), .id = TC_STR("m")};
    stream s = {.server = server};
    tc_model_sink sink = {.on_event = on_told, .user = &s};
    tci_arena a;
    tci_sse sse;
    tc_err err;
    tci_arena_init(&a, 0);
    tci_answer_init(&s.answer, &a, server->api, &model, &sink, 1);
    tci_sse_init(&sse, on_sse, &s);
    int rc = tci_sse_feed(&sse, bytes, &err);
    if (rc < 0)
        tci_answer_fail(&s.answer, "error", "%s", err.msg);
    else
        server->on_end(&s.answer);
    check_message(&s.answer);
    TC_ASSERT(s.nblocks == s.answer.nblocks && s.nended <= s.nblocks);
    size_t ntext = 0;
    for (size_t i = 0; i < s.answer.nblocks; i++)
        ntext += s.answer.blocks[i].kind != TCI_BLOCK_CALL ? s.answer.blocks[i].text.len : 0;
    TC_ASSERT(s.ntext <= ntext);
    tci_sse_done(&sse);
    tci_answer_done(&s.answer);
    tci_arena_done(&a);
}

static void check_arguments(tc_str text)
{
    tci_arena a;
    tci_buf made;
    tci_json v;
    tc_err err;
    bool is_bad = false;
    tci_arena_init(&a, 0);
    tci_buf_init(&made, TCI_BUF_MAX);
    tci_arguments_put(&made, text, &is_bad);
    TC_ASSERT(tci_buf_ok(&made));
    TC_ASSERT(tci_json_parse(tci_buf_str(&made), TCI_JSON_DURABLE, &a, &v, &err) == 0);
    TC_ASSERT(v.kind == TCI_JSON_OBJECT && (!is_bad || v.count == 0));
    tci_buf_done(&made);
    enum { SOME = 200 }; /* they look for many words */
    text = tci_str_sub(text, 0, SOME);
    (void)tci_llm_is_retryable(text); /* any answer will do */
    (void)tci_llm_is_overflow(text);
    (void)tci_error_text(text, &a);
    tci_arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    tc_str bytes = tci_str_of(data + 1, size - 1);
    play(data[0] & 1 ? &tci_openai : &tci_anthropic, bytes);
    check_arguments(bytes);
    return 0;
}
