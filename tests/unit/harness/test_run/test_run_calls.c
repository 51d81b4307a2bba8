/* SPDX-License-Identifier: Apache-2.0
 *
 * Tool rounds: every call of an answer runs at most once and has exactly one result in every later
 * request, whatever its id, however the answer stopped, and whatever happened to the tool. */
#include "run_world.h"

#include "base/json.h"
#include <stdio.h>

/* What a strict provider checks: ids of calls unlike each other, and directly after each answer one
 * result for each of its calls, in their order. */
static void check_request(const char *messages)
{
    tci_arena a;
    tci_json v;
    tc_str ids[256], role, id;
    size_t nids = 0, nopen = 0;
    tci_arena_init(&a, 0);
    OK(tci_json_parse(tci_str(messages), TCI_JSON_KEEP_SURROGATES, &a, &v, err));
    for (uint32_t i = 0; i < v.count; i++) {
        const tci_json *m = &v.u.items[i], *content = tci_json_get(m, TC_STR("content"));
        assert_true(tci_json_as_str(tci_json_get(m, TC_STR("role")), &role));
        if (tci_str_eq(role, TC_STR("toolResult"))) {
            assert_true(nopen > 0);
            assert_true(tci_json_as_str(tci_json_get(m, TC_STR("toolCallId")), &id));
            assert_true(tci_str_eq(id, ids[nids - nopen]));
            nopen--;
            continue;
        }
        assert_int_equal(nopen, 0);
        for (uint32_t k = 0; content->kind == TCI_JSON_ARRAY && k < content->count; k++) {
            if (!tci_json_as_str(tci_json_get(&content->u.items[k], TC_STR("type")), &role) ||
                !tci_str_eq(role, TC_STR("toolCall")))
                continue;
            assert_true(tci_json_as_str(tci_json_get(&content->u.items[k], TC_STR("id")), &id));
            for (size_t n = 0; n < nids; n++)
                assert_false(tci_str_eq(ids[n], id));
            assert_true(nids < 256);
            ids[nids++] = id;
            nopen++;
        }
    }
    assert_int_equal(nopen, 0);
    tci_arena_done(&a);
}

static void check_requests(world *w)
{
    for (size_t i = 0; i < run_model_asked(&w->model); i++)
        check_request(w->model.requests[i]);
}

static const char *last_request(world *w)
{
    return w->model.requests[run_model_asked(&w->model) - 1];
}

#define HEAD "{\"role\":\"assistant\",\"content\":["
#define TAIL(stop)                                                                            \
    "],\"api\":\"faux\",\"provider\":\"faux\",\"model\":\"faux-1\",\"usage\":{\"input\":1,"   \
    "\"output\":1,\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":2},\"stopReason\":\"" stop \
    "\",\"timestamp\":1000}"
#define CALL(id, name, args) \
    "{\"type\":\"toolCall\",\"id\":\"" id "\",\"name\":\"" name "\",\"arguments\":" args "}"

static void case_87_one_id_for_two_calls_of_an_answer(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, HEAD CALL("x", "echo", "{\"text\":\"one\"}") "," CALL(
                                "x", "echo", "{\"text\":\"two\"}") TAIL("toolUse"));
    run_model_say(&w.model, run_text("fine"));
    assert_string_equal(world_answer(&w, world_say(&w, "go")), "fine");
    assert_int_equal(atomic_load(&w.nexecuted), 2);
    check_requests(&w);
    assert_int_equal(count_text(tci_str(last_request(&w)), "hello one"), 1);
    assert_int_equal(count_text(tci_str(last_request(&w)), "hello two"), 1);
    world_done(&w);
}

static void case_87_one_id_over_many_turns(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    for (unsigned i = 0; i < 20; i++) {
        char args[64];
        (void)snprintf(args, sizeof args, "{\"text\":\"turn %u.\"}", i);
        run_model_say(&w.model, run_call("call_1", "echo", args));
    }
    run_model_say(&w.model, run_text("fine"));
    assert_string_equal(world_answer(&w, world_say(&w, "go")), "fine");
    assert_int_equal(atomic_load(&w.nexecuted), 20);
    check_requests(&w);
    for (unsigned i = 0; i < 20; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "hello turn %u.", i);
        assert_int_equal(count_text(tci_str(last_request(&w)), line), 1);
    }
    world_done(&w);
}

static void case_87_true_repeat_after_a_crash_is_one_call(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_hold(&w.model, run_call("c1", "echo", "{\"text\":\"once\"}"), -1);
    uint64_t id = world_say(&w, "go");
    run_model_wait_held(&w.model, 1);
    world_kill(&w);
    run_model_say(&w.model, run_call("c1", "echo", "{\"text\":\"once\"}"));
    run_model_say(&w.model, run_text("fine"));
    world_open(&w);
    assert_string_equal(world_answer(&w, id), "fine");
    assert_int_equal(atomic_load(&w.nexecuted), 1);
    check_requests(&w);
    assert_true(has_text(tci_str(last_request(&w)), "\"toolCallId\":\"c1\""));
    world_done(&w);
}

static void case_83_cut_off_call_is_not_executed(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, HEAD CALL("c1", "echo", "{\"text\":\"cut\"}") TAIL("length"));
    run_model_say(&w.model, HEAD CALL("c2", "echo", "{\"text\":\"cut\"}") TAIL("stop"));
    run_model_say(&w.model, run_text("fine"));
    (void)world_answer(&w, world_say(&w, "one"));
    (void)world_answer(&w, world_say(&w, "two"));
    assert_string_equal(world_answer(&w, world_say(&w, "three")), "fine");
    assert_int_equal(atomic_load(&w.nexecuted), 0);
    check_requests(&w);
    /* The model is told that both have no result. */
    assert_int_equal(count_text(tci_str(last_request(&w)), "missing_result"), 2);
    world_done(&w);
}

static void case_83_arguments_that_could_not_be_read_are_refused(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model,
                  HEAD "{\"type\":\"toolCall\",\"id\":\"c1\",\"name\":\"echo\",\"arguments\":{},"
                       "\"argumentsError\":\"cut off\"}" TAIL("toolUse"));
    run_model_say(&w.model, run_text("fine"));
    assert_string_equal(world_answer(&w, world_say(&w, "go")), "fine");
    assert_int_equal(atomic_load(&w.nexecuted), 0);
    check_requests(&w);
    world_done(&w);
}

static void case_84_numbers_keep_their_digits(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(
        &w.model,
        run_call("c1", "echo",
                 "{\"text\":\"n\",\"a\":9007199254740993,\"b\":-0,\"c\":1e400,\"d\":0.1000}"));
    run_model_say(&w.model, run_text("fine"));
    assert_string_equal(world_answer(&w, world_say(&w, "go")), "fine");
    assert_true(has_text(tci_str(last_request(&w)),
                         "\"a\":9007199254740993,\"b\":-0,\"c\":1e400,\"d\":0.1000"));
    world_done(&w);
}

static void case_81_call_cut_off_by_a_crash_has_one_result(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_call("c1", "held", "{}"));
    uint64_t id = world_say(&w, "go");
    world_wait_holding(&w, 1);
    world_kill(&w);
    run_model_say(&w.model, run_text("fine"));
    world_open(&w);
    assert_string_equal(world_answer(&w, id), "fine");
    assert_int_equal(atomic_load(&w.nexecuted), 1);
    check_requests(&w);
    assert_true(has_text(tci_str(last_request(&w)), "half\\n"));
    assert_true(has_text(tci_str(last_request(&w)), "was interrupted and may have partially run"));
    CHECK_JSON(world_doc(&w, &tci_live_doc), "{}");
    world_done(&w);
}

static void unknown_tool_is_answered_at_once(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, HEAD CALL("c1", "nope", "{}") "," CALL("c2", "echo", "{\"text\":\"b\"}")
                                TAIL("toolUse"));
    run_model_say(&w.model, run_call("c3", "nope", "{}"));
    run_model_say(&w.model, run_text("fine"));
    assert_string_equal(world_answer(&w, world_say(&w, "go")), "fine");
    check_requests(&w);
    assert_int_equal(count_text(tci_str(last_request(&w)), "Tool nope is not available"), 2);
    world_done(&w);
}

static void run_goes_on_after_a_tool_that_fails(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_call("c1", "boom", "{}"));
    run_model_say(&w.model, run_text("fine"));
    assert_string_equal(world_answer(&w, world_say(&w, "go")), "fine");
    assert_true(has_text(tci_str(last_request(&w)), "[error] boom"));
    world_done(&w);
}

static void sequential_round_runs_one_after_another(void **state)
{
    world w;
    tc_str live;
    (void)state;
    world_init(&w);
    w.settings.tool_execution = TC_TOOLS_SEQUENTIAL;
    world_open(&w);
    run_model_say(&w.model,
                  HEAD CALL("a", "held", "{}") "," CALL("b", "held", "{}") TAIL("toolUse"));
    run_model_say(&w.model, run_text("fine"));
    uint64_t id = world_say(&w, "go");
    world_wait_holding(&w, 1);
    live = world_doc(&w, &tci_live_doc);
    assert_int_equal(count_text(live, "\"status\":\"running\""), 1);
    assert_int_equal(count_text(live, "\"status\":\"pending\""), 1);
    assert_int_equal(count_text(live, "\"taskId\""), 2); /* of the run and of the first call */
    world_let(&w);
    world_wait_holding(&w, 2);
    world_let(&w);
    assert_string_equal(world_answer(&w, id), "fine");
    check_requests(&w);
    world_done(&w);
}

static void aborted_sequential_round_answers_calls_that_never_began(void **state)
{
    world w;
    tc_submission s;
    (void)state;
    world_init(&w);
    w.settings.tool_execution = TC_TOOLS_SEQUENTIAL;
    world_open(&w);
    run_model_say(&w.model, HEAD CALL("a", "held", "{}") "," CALL("b", "echo", "{\"text\":\"b\"}")
                                TAIL("toolUse"));
    run_model_say(&w.model, run_text("fine"));
    uint64_t id = world_say(&w, "go");
    world_wait_holding(&w, 1);
    OK(tc_conversation_abort(w.h, NULL, w.root, false, err));
    world_wait(&w, id, &s);
    assert_int_equal(s.status, TC_SUBMISSION_UNANSWERED);
    assert_true(tci_str_eq(s.reason, TC_STR("aborted")));
    assert_string_equal(world_answer(&w, world_say(&w, "again")), "fine");
    check_requests(&w);
    assert_true(has_text(tci_str(last_request(&w)), "Tool held was aborted"));
    assert_true(has_text(tci_str(last_request(&w)), "Tool echo was aborted"));
    assert_int_equal(atomic_load(&w.nexecuted), 1);
    world_done(&w);
}

static void terminate_ends_the_run_with_the_call(void **state)
{
    world w;
    tc_submission s;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_call("c1", "control", "{\"terminate\":true}"));
    uint64_t id = world_say(&w, "go");
    world_wait(&w, id, &s);
    assert_int_equal(s.status, TC_SUBMISSION_DONE);
    world_idle(&w);
    assert_int_equal(run_model_asked(&w.model), 1);
    CHECK_JSON(world_doc(&w, &tci_live_doc), "{}");
    world_done(&w);
}

static void handoff_begins_anew_and_ends_the_run(void **state)
{
    world w;
    tc_submission s;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_call("c1", "control", "{\"handoff\":\"carry this\"}"));
    run_model_say(&w.model, run_text("fine"));
    world_wait(&w, world_say(&w, "secret past"), &s);
    assert_int_equal(s.status, TC_SUBMISSION_DONE);
    world_idle(&w);
    assert_string_equal(world_answer(&w, world_say(&w, "next")), "fine");
    assert_false(has_text(tci_str(last_request(&w)), "secret past"));
    assert_true(has_text(tci_str(last_request(&w)), "carry this"));
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_87_one_id_for_two_calls_of_an_answer),
        cmocka_unit_test(case_87_one_id_over_many_turns),
        cmocka_unit_test(case_87_true_repeat_after_a_crash_is_one_call),
        cmocka_unit_test(case_83_cut_off_call_is_not_executed),
        cmocka_unit_test(case_83_arguments_that_could_not_be_read_are_refused),
        cmocka_unit_test(case_84_numbers_keep_their_digits),
        cmocka_unit_test(case_81_call_cut_off_by_a_crash_has_one_result),
        cmocka_unit_test(unknown_tool_is_answered_at_once),
        cmocka_unit_test(run_goes_on_after_a_tool_that_fails),
        cmocka_unit_test(sequential_round_runs_one_after_another),
        cmocka_unit_test(aborted_sequential_round_answers_calls_that_never_began),
        cmocka_unit_test(terminate_ends_the_run_with_the_call),
        cmocka_unit_test(handoff_begins_anew_and_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
