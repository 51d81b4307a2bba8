/* SPDX-License-Identifier: Apache-2.0
 *
 * Scripts: the turn follows the transcript, text comes in pieces, mistakes are answers. */
#include "ask.h"

static void write_script(char *path, size_t size, const char *text)
{
    const char *folder = getenv("TC_TEST_DIR");
    (void)snprintf(path, size, "%s/script.json", folder != NULL ? folder : ".");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static asked play(const char *path, const char *messages)
{
    asked a = {0};
    tc_err err;
    tc_model_request request = {.size = sizeof request};
    tci_buf_init(&a.told.text, TCI_BUF_MAX);
    assert_int_equal(tc_models_open(NULL, &a.models, &err), 0);
    assert_int_equal(tc_result_new(&a.r, &err), 0);
    assert_int_equal(
        tc_messages_parse(tci_str(messages), a.r, &request.messages, &request.nmessages, &err), 0);
    assert_int_equal(a.models->get_model(a.models->user, TC_STR("scripted"), tci_str(path), a.r,
                                         &request.model, &err),
                     0);
    tc_model_sink sink = {.on_event = on_told, .user = &a.told};
    assert_int_equal(a.models->ask(a.models->user, NULL, &request, &sink, a.r, &a.message, &err),
                     0);
    assert_int_equal(tc_json_parse(a.r, a.message, &a.v, &err), 0);
    return a;
}

static void played(asked *a)
{
    tc_models_close(a->models);
    tc_result_free(a->r);
    tci_buf_done(&a->told.text);
}

static void the_turn_is_the_number_of_answers_so_far(void **state)
{
    (void)state;
    char path[512];
    write_script(
        path, sizeof path,
        "{\"turns\":[{\"text\":\"first, and long enough to come in several pieces\","
        "\"tool_calls\":[{\"id\":\"c1\",\"name\":\"t\",\"arguments\":{\"n\":9007199254740993}}]},"
        "{\"text\":\"second\"},{\"error\":\"503: "
        "overloaded\"},{\"text\":\"x\",\"stop\":\"length\"}]}");
    asked a = play(path, "[{\"role\":\"user\",\"content\":\"hi\"}]");
    assert_at(&a, "/stopReason", "toolUse");
    assert_true(contains(a.message, "9007199254740993"));
    assert_true(a.told.nevents > 4);
    assert_true(tci_str_eq(tci_buf_str(&a.told.text),
                           TC_STR("first, and long enough to come in several pieces")));
    played(&a);
    a = play(path, "[{\"role\":\"assistant\"}]");
    assert_at(&a, "/content/0/text", "second");
    assert_at(&a, "/stopReason", "stop");
    played(&a);
    a = play(path, "[{\"role\":\"assistant\"},{\"role\":\"assistant\"}]");
    assert_at(&a, "/errorMessage", "503: overloaded");
    played(&a);
    a = play(path, "[{\"role\":\"assistant\"},{\"role\":\"assistant\"},{\"role\":\"assistant\"}]");
    assert_at(&a, "/stopReason", "length");
    played(&a);
}

static void a_missing_script_is_an_answer_that_says_so(void **state)
{
    (void)state;
    asked a = play("/nonexistent/script.json", "[]");
    assert_at(&a, "/stopReason", "error");
    assert_true(contains(a.message, "/nonexistent/script.json"));
    played(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_turn_is_the_number_of_answers_so_far),
        cmocka_unit_test(a_missing_script_is_an_answer_that_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
