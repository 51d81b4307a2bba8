/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat Completions: answers put together from streams cut anywhere, failures as messages, what is sent. */
#include "ask.h"

#define EVENT(json) "data: " json "\n\n"
#define DONE EVENT("[DONE]")
#define TEXT(t)                                                                                  \
    EVENT("{\"id\":\"r1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" t \
          "\"}}]}")
#define FINISH(why) \
    EVENT("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"" why "\"}]}")
#define USAGE                                                                                \
    EVENT("{\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":7,"        \
          "\"prompt_tokens_details\":{\"cached_tokens\":60},\"completion_tokens_details\":{" \
          "\"reasoning_tokens\":3}}}")

static const char hello[] = TEXT("Hel") TEXT("lo \\ud83d\\ude00") FINISH("stop") USAGE DONE;

static void text_comes_whole_whatever_the_pieces(void **state)
{
    (void)state;
    for (size_t chunk = 1; chunk < 40; chunk += 6) {
        stub_reply reply = {.body = hello, .chunk = chunk};
        asked a = ask(&(question){.provider = "openai", .replies = &reply, .nreplies = 1});
        assert_at(&a, "/content/0/text", "Hello \xf0\x9f\x98\x80");
        assert_at(&a, "/stopReason", "stop");
        assert_at(&a, "/responseId", "r1");
        assert_number(&a, "/usage/input", 40);
        assert_number(&a, "/usage/cacheRead", 60);
        assert_number(&a, "/usage/output", 7);
        assert_number(&a, "/usage/totalTokens", 107);
        assert_true(tci_str_eq(tci_buf_str(&a.told.text), TC_STR("Hello \xf0\x9f\x98\x80")));
        asked_done(&a);
    }
}

#define CALL(i, id, name, args)                                                      \
    EVENT("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":" #i ",\"id\":\"" id \
          "\",\"function\":{\"name\":\"" name "\",\"arguments\":\"" args "\"}}]}}]}")
#define MORE(i, args)                                                \
    EVENT("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":" #i \
          ",\"function\":{\"arguments\":\"" args "\"}}]}}]}")

static void calls_are_assembled_by_index(void **state)
{
    (void)state;
    stub_reply reply = {.body = CALL(0, "a", "read", "{\\\"pa") CALL(1, "b", "bash", "")
                            MORE(0, "th\\\":\\\"x\\\"}") MORE(1, "{\\\"n\\\":9007199254740993}")
                                FINISH("tool_calls") DONE};
    asked a = ask(&(question){.provider = "openai", .replies = &reply, .nreplies = 1});
    assert_at(&a, "/content/0/name", "read");
    assert_at(&a, "/content/0/arguments/path", "x");
    assert_at(&a, "/content/1/name", "bash");
    assert_at(&a, "/stopReason", "toolUse");
    assert_true(contains(a.message, "{\"n\":9007199254740993}"));
    assert_int_equal(a.told.nblocks, 2);
    assert_int_equal(a.told.nended, 2);
    asked_done(&a);
}

static void case_84_numbers_keep_their_digits(void **state)
{
    (void)state;
    stub_reply reply = {.body =
                            CALL(0, "a", "t",
                                 "{\\\"a\\\":9007199254740993,\\\"b\\\":-0,\\\"c\\\":1e400,"
                                 "\\\"d\\\":0.10000000000000000555}") FINISH("tool_calls") DONE};
    asked a = ask(&(question){.provider = "openai", .replies = &reply, .nreplies = 1});
    assert_true(contains(
        a.message, "{\"a\":9007199254740993,\"b\":-0,\"c\":1e400,\"d\":0.10000000000000000555}"));
    asked_done(&a);
}

static void case_83_a_cut_call_is_an_error_and_no_call(void **state)
{
    (void)state;
    static const char begun[] =
        CALL(0, "a", "write", "{\\\"path\\\":\\\"x\\\",\\\"content\\\":\\\"half");
    stub_reply cut = {.body = begun, .is_cut = true}, ended = {.body = begun},
               too_long = {.body =
                               CALL(0, "a", "write", "{\\\"path\\\":\\\"x") FINISH("length") DONE},
               wrong = {.body =
                            CALL(0, "a", "write", "{\\\"path\\\":\\\"x") FINISH("tool_calls") DONE};
    asked a = ask(&(question){.provider = "openai", .replies = &cut, .nreplies = 1});
    assert_at(&a, "/stopReason", "error");
    asked_done(&a);
    a = ask(&(question){.provider = "openai", .replies = &ended, .nreplies = 1});
    assert_at(&a, "/stopReason", "error");
    assert_at(&a, "/errorMessage", "the stream ended without a finish reason");
    asked_done(&a);
    a = ask(&(question){.provider = "openai", .replies = &too_long, .nreplies = 1});
    assert_at(&a, "/stopReason", "length");
    asked_done(&a);
    a = ask(&(question){.provider = "openai", .replies = &wrong, .nreplies = 1});
    assert_at(&a, "/stopReason", "toolUse");
    assert_at(&a, "/content/0/argumentsError", "{\"path\":\"x");
    assert_int_equal(tc_json_count(tc_json_find(a.v, "/content/0/arguments")), 0);
    asked_done(&a);
}

static void case_87_one_id_twice_in_an_answer_becomes_two(void **state)
{
    (void)state;
    stub_reply reply = {.body = CALL(0, "same", "t", "{}") CALL(1, "same", "t", "{}")
                            CALL(2, "", "t", "{}") FINISH("tool_calls") DONE};
    asked a = ask(&(question){.provider = "openai", .replies = &reply, .nreplies = 1});
    tc_str ids[3];
    for (size_t i = 0; i < 3; i++)
        assert_true(tc_json_as_str(
            tc_json_get(tc_json_item(tc_json_get(a.v, TC_STR("content")), i), TC_STR("id")),
            &ids[i]));
    assert_true(tci_str_eq(ids[0], TC_STR("same")));
    assert_false(tci_str_eq(ids[0], ids[1]) || tci_str_eq(ids[1], ids[2]) || ids[2].len == 0);
    asked_done(&a);
}

static void case_86_a_refusal_is_asked_once_and_a_busy_server_again(void **state)
{
    (void)state;
    stub_reply bad = {.status = 400, .body = "{\"error\":{\"message\":\"no such thing\"}}"};
    asked a =
        ask(&(question){.provider = "openai", .replies = &bad, .nreplies = 1, .max_retries = 3});
    assert_at(&a, "/stopReason", "error");
    assert_at(&a, "/errorMessage", "400: no such thing");
    assert_int_equal(model_stub_count(a.stub), 1);
    asked_done(&a);
    stub_reply busy[] = {{.status = 500, .body = "{}"},
                         {.status = 429, .headers = "retry-after-ms: 1\r\n", .body = "{}"},
                         {.body = hello}};
    a = ask(&(question){.provider = "openai", .replies = busy, .nreplies = 3, .max_retries = 2});
    assert_at(&a, "/stopReason", "stop");
    assert_int_equal(model_stub_count(a.stub), 3);
    asked_done(&a);
    stub_reply patient = {.status = 429, .headers = "retry-after: 3600\r\n", .body = "{}"};
    a = ask(
        &(question){.provider = "openai", .replies = &patient, .nreplies = 1, .max_retries = 5});
    assert_at(&a, "/stopReason", "error");
    assert_true(contains(a.message, "3600 s"));
    assert_int_equal(model_stub_count(a.stub), 1);
    asked_done(&a);
    stub_reply no = {.status = 500, .headers = "x-should-retry: false\r\n", .body = "{}"};
    a = ask(&(question){.provider = "openai", .replies = &no, .nreplies = 1, .max_retries = 5});
    assert_int_equal(model_stub_count(a.stub), 1);
    asked_done(&a);
}

static void the_transcript_is_sent_as_the_server_wants_it(void **state)
{
    (void)state;
    static const char messages[] =
        "[{\"role\":\"system\",\"content\":\"\",\"sections\":{\"a\":\"<a>\\nA\\n</"
        "a>\",\"b\":\"B\"},"
        "\"toolsAdded\":[{\"name\":\"t\",\"description\":\"T\",\"parameters\":{\"type\":\"object\"}"
        "},"
        "{\"name\":\"gone\",\"description\":\"\"}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"see\"},"
        "{\"type\":\"image\",\"data\":\"AAAA\",\"mimeType\":\"image/png\"}]},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"secret\"},"
        "{\"type\":\"text\",\"text\":\"ok\"},{\"type\":\"toolCall\",\"id\":\"c1\",\"name\":\"t\","
        "\"arguments\":{\"x\":1.50}}],\"stopReason\":\"toolUse\"},"
        "{\"role\":\"toolResult\",\"toolCallId\":\"c1\",\"toolName\":\"t\",\"content\":[],"
        "\"isError\":false},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"lost\"}],"
        "\"stopReason\":\"error\"},"
        "{\"role\":\"system\",\"content\":\"\",\"sections\":{\"b\":null},\"toolsRemoved\":[{"
        "\"name\":\"gone\"}]},"
        "{\"role\":\"user\",\"content\":\"go on\"}]";
    stub_reply reply = {.body = hello};
    asked a = ask(
        &(question){.provider = "openai", .replies = &reply, .nreplies = 1, .messages = messages});
    assert_at(&a, "/stopReason", "stop");
    tc_str body = model_stub_body(a.stub, 0);
    assert_true(contains(body, "{\"role\":\"system\",\"content\":\"<a>\\nA\\n</a>\"}"));
    assert_true(contains(body, "(image omitted"));
    assert_true(contains(body, "\"arguments\":\"{\\\"x\\\":1.50}\""));
    assert_true(contains(
        body, "{\"role\":\"tool\",\"content\":\"(no tool output)\",\"tool_call_id\":\"c1\"}"));
    assert_false(contains(body, "secret") || contains(body, "lost") || contains(body, "gone"));
    assert_true(contains(body, "\"stream_options\":{\"include_usage\":true},\"store\":false"));
    asked_done(&a);
}

static void cancelling_ends_a_silent_stream(void **state)
{
    (void)state;
    tc_ctx *ctx;
    tc_err err;
    assert_int_equal(tc_ctx_new(50, &ctx, &err), 0);
    stub_reply reply = {.body = TEXT("Hel"), .is_silent = true};
    asked a = ask(&(question){.provider = "openai", .replies = &reply, .nreplies = 1, .ctx = ctx});
    assert_at(&a, "/stopReason", "aborted");
    asked_done(&a);
    tc_ctx_free(ctx);
}

static void an_error_in_the_stream_is_the_answer(void **state)
{
    (void)state;
    stub_reply reply = {.body = TEXT("Hel") EVENT("{\"error\":{\"message\":\"overloaded\"}}")},
               odd = {.body = TEXT("Hel") EVENT("{nonsense") FINISH("stop")},
               filtered = {.body = TEXT("x") FINISH("content_filter")};
    asked a = ask(&(question){.provider = "openai", .replies = &reply, .nreplies = 1});
    assert_at(&a, "/errorMessage", "overloaded");
    assert_at(&a, "/content/0/text", "Hel");
    asked_done(&a);
    a = ask(&(question){.provider = "openai", .replies = &odd, .nreplies = 1});
    assert_at(&a, "/stopReason", "error");
    asked_done(&a);
    a = ask(&(question){.provider = "openai", .replies = &filtered, .nreplies = 1});
    assert_at(&a, "/errorMessage", "the model stopped: content_filter");
    asked_done(&a);
}

static void thinking_is_kept_apart(void **state)
{
    (void)state;
    stub_reply reply = {.body = EVENT("{\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}")
                            TEXT("Yes") FINISH("stop") DONE};
    asked a = ask(&(question){.provider = "openai", .replies = &reply, .nreplies = 1});
    assert_at(&a, "/content/0/thinking", "hm");
    assert_at(&a, "/content/0/thinkingSignature", "reasoning_content");
    assert_at(&a, "/content/1/text", "Yes");
    asked_done(&a);
}

static void the_key_goes_into_its_header_only(void **state)
{
    (void)state;
    tc_err err;
    tc_models *models;
    tc_result *r;
    tc_str message;
    stub_reply reply = {.body = hello};
    model_stub *stub = model_stub_start(&reply, 1);
    const char *folder = getenv("TC_TEST_DIR");
    char path[512];
    (void)snprintf(path, sizeof path, "%s/key", folder != NULL ? folder : ".");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("sk-very-secret\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    tc_models_options options = {.size = sizeof options,
                                 .base_url = tci_str(model_stub_url(stub)),
                                 .key_file = tci_str(path)};
    assert_int_equal(tc_models_open(&options, &models, &err), 0);
    assert_int_equal(tc_result_new(&r, &err), 0);
    tc_model_request request = {.size = sizeof request};
    assert_int_equal(
        models->get_model(models->user, TC_STR("openai"), TC_STR("m"), r, &request.model, &err), 0);
    assert_int_equal(models->ask(models->user, NULL, &request, NULL, r, &message, &err), 0);
    assert_true(contains(model_stub_head(stub, 0), "Authorization: Bearer sk-very-secret\r\n"));
    assert_false(contains(message, "sk-very-secret"));
    tc_models_close(models);
    model_stub_stop(stub);
    tc_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_comes_whole_whatever_the_pieces),
        cmocka_unit_test(calls_are_assembled_by_index),
        cmocka_unit_test(case_84_numbers_keep_their_digits),
        cmocka_unit_test(case_83_a_cut_call_is_an_error_and_no_call),
        cmocka_unit_test(case_87_one_id_twice_in_an_answer_becomes_two),
        cmocka_unit_test(case_86_a_refusal_is_asked_once_and_a_busy_server_again),
        cmocka_unit_test(the_transcript_is_sent_as_the_server_wants_it),
        cmocka_unit_test(cancelling_ends_a_silent_stream),
        cmocka_unit_test(an_error_in_the_stream_is_the_answer),
        cmocka_unit_test(thinking_is_kept_apart),
        cmocka_unit_test(the_key_goes_into_its_header_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
