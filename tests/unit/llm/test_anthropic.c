/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: blocks, signatures, usage that comes in two parts, what is sent. */
#include "ask.h"

#define EVENT(name, json) "event: " name "\ndata: {\"type\":\"" name "\"" json "}\n\n"
#define START                                                               \
    EVENT("message_start",                                                  \
          ",\"message\":{\"id\":\"msg_1\",\"model\":\"test-1\",\"usage\":{" \
          "\"input_tokens\":11,\"cache_read_input_tokens\":5,\"output_tokens\":1}}")
#define BLOCK(i, block) EVENT("content_block_start", ",\"index\":" #i ",\"content_block\":" block)
#define DELTA(i, delta) EVENT("content_block_delta", ",\"index\":" #i ",\"delta\":" delta)
#define STOP(i) EVENT("content_block_stop", ",\"index\":" #i)
#define END(why)                                                                      \
    EVENT("message_delta",                                                            \
          ",\"delta\":{\"stop_reason\":\"" why "\"},\"usage\":{\"output_tokens\":9}") \
    EVENT("message_stop", "")

static void blocks_come_whole_whatever_the_pieces(void **state)
{
    (void)state;
    static const char body[] = START EVENT("ping",
                                           "") BLOCK(0, "{\"type\":\"thinking\",\"thinking\":\"\"}")
        DELTA(0, "{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}")
            DELTA(0, "{\"type\":\"signature_delta\",\"signature\":\"S1\"}") STOP(0) BLOCK(
                1, "{\"type\":\"text\",\"text\":\"\"}")
                DELTA(1, "{\"type\":\"text_delta\",\"text\":\"Hello\"}") STOP(1) BLOCK(
                    2, "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"read\",\"input\":{}}")
                    DELTA(2, "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"path\\\":\"}")
                        DELTA(2, "{\"type\":\"input_json_delta\",\"partial_json\":\"\\\"x\\\"}\"}")
                            STOP(2) END("tool_use");
    for (size_t chunk = 1; chunk < 60; chunk += 13) {
        stub_reply reply = {.body = body, .chunk = chunk};
        asked a = ask(&(question){.provider = "anthropic", .replies = &reply, .nreplies = 1});
        assert_at(&a, "/content/0/thinking", "hm");
        assert_at(&a, "/content/0/thinkingSignature", "S1");
        assert_at(&a, "/content/1/text", "Hello");
        assert_at(&a, "/content/2/arguments/path", "x");
        assert_at(&a, "/content/2/id", "t1");
        assert_at(&a, "/stopReason", "toolUse");
        assert_number(&a, "/usage/input", 11);
        assert_number(&a, "/usage/output", 9);
        assert_number(&a, "/usage/cacheRead", 5);
        assert_number(&a, "/usage/totalTokens", 25);
        asked_done(&a);
    }
}

static void a_stream_that_ends_early_is_an_error(void **state)
{
    (void)state;
    stub_reply cut = {.body = START BLOCK(0, "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"w\"}")
                          DELTA(0, "{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}"),
                      .is_cut = true},
               refused = {.body = START END("refusal")},
               failed = {
                   .body = START EVENT(
                       "error",
                       ",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}")};
    asked a = ask(&(question){.provider = "anthropic", .replies = &cut, .nreplies = 1});
    assert_at(&a, "/stopReason", "error");
    asked_done(&a);
    a = ask(&(question){.provider = "anthropic", .replies = &refused, .nreplies = 1});
    assert_at(&a, "/stopReason", "error");
    assert_at(&a, "/rawStopReason", "refusal");
    asked_done(&a);
    a = ask(&(question){.provider = "anthropic", .replies = &failed, .nreplies = 1});
    assert_at(&a, "/errorMessage", "overloaded_error: Overloaded");
    asked_done(&a);
}

static void the_transcript_is_sent_as_the_server_wants_it(void **state)
{
    (void)state;
    static const char messages[] =
        "[{\"role\":\"system\",\"content\":\"Be "
        "brief.\",\"toolsAdded\":[{\"name\":\"t\",\"description\":\"T\"}]},"
        "{\"role\":\"user\",\"content\":\"hi\"},"
        "{\"role\":\"assistant\",\"provider\":\"anthropic\",\"api\":\"anthropic-messages\","
        "\"model\":\"test-1\","
        "\"content\":[{\"type\":\"thinking\",\"thinking\":\"mine\",\"thinkingSignature\":\"S\"},"
        "{\"type\":\"toolCall\",\"id\":\"a.1\",\"name\":\"t\",\"arguments\":{}},"
        "{\"type\":\"toolCall\",\"id\":\"b\",\"name\":\"t\",\"arguments\":{}}],\"stopReason\":"
        "\"toolUse\"},"
        "{\"role\":\"toolResult\",\"toolCallId\":\"a.1\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"1\"}],\"isError\":true},"
        "{\"role\":\"toolResult\",\"toolCallId\":\"b\",\"content\":[],\"isError\":false},"
        "{\"role\":\"assistant\",\"provider\":\"openai\",\"model\":\"other\",\"content\":[{"
        "\"type\":\"thinking\","
        "\"thinking\":\"theirs\"}],\"stopReason\":\"stop\"},{\"role\":\"user\",\"content\":\"on\"}"
        "]";
    stub_reply reply = {.body = START END("end_turn")};
    asked a = ask(&(question){.provider = "anthropic",
                              .replies = &reply,
                              .nreplies = 1,
                              .messages = messages,
                              .facts = {.reasons = true, .max_tokens = 4096},
                              .reasoning = "low"});
    assert_at(&a, "/stopReason", "stop");
    tc_str body = model_stub_body(a.stub, 0), head = model_stub_head(a.stub, 0);
    assert_true(contains(head, "POST /v1/messages "));
    assert_true(contains(head, "anthropic-version: 2023-06-01"));
    assert_true(contains(body, "\"system\":[{\"type\":\"text\",\"text\":\"Be "
                               "brief.\",\"cache_control\":{\"type\":\"ephemeral\"}}]"));
    assert_true(contains(
        body, "\"max_tokens\":4096,\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2048}"));
    assert_true(
        contains(body, "{\"type\":\"thinking\",\"thinking\":\"mine\",\"signature\":\"S\"}"));
    assert_true(contains(body, "\"tool_use_id\":\"a_1\""));
    assert_true(
        contains(body, "\"is_error\":true},{\"type\":\"tool_result\",\"tool_use_id\":\"b\""));
    assert_true(contains(
        body, "\"input_schema\":{\"type\":\"object\",\"properties\":{}},\"cache_control\""));
    assert_false(contains(body, "theirs"));
    asked_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_whole_whatever_the_pieces),
        cmocka_unit_test(a_stream_that_ends_early_is_an_error),
        cmocka_unit_test(the_transcript_is_sent_as_the_server_wants_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
