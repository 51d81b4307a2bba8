/* SPDX-License-Identifier: Apache-2.0
 *
 * Compaction: by hand, before a request that would not fit, behind one that still fits, after one that
 * did not; hooks; and that it stops when it does not help. */
#include "run_world.h"

#include "harness/generation/compact.h"
#include <stdio.h>

static const char *last_request(world *w)
{
    return w->model.requests[run_model_asked(&w->model) - 1];
}

/* A world whose model has room for `window` tokens, of which 100 are kept free. */
static void init(world *w, uint64_t window, uint64_t keep, uint64_t background)
{
    world_init(w);
    world_limit_tools(w, 1);
    w->model.context_window = window;
    w->settings.compaction.reserve_tokens = 100;
    w->settings.compaction.keep_recent_tokens = keep;
    w->settings.compaction.background_tokens = background;
}

/* An answer that the provider counted as this many tokens. */
static const char *counted(const char *text, unsigned tokens)
{
    static char ring[16][8192];
    static unsigned at;
    char *s = ring[at++ % 16];
    (void)snprintf(
        s, sizeof ring[0],
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"%s\"}],\"api\":"
        "\"faux\","
        "\"provider\":\"faux\",\"model\":\"faux-1\",\"usage\":{\"input\":%u,\"output\":0,"
        "\"cacheRead\":0,"
        "\"cacheWrite\":0,\"totalTokens\":%u},\"stopReason\":\"stop\",\"timestamp\":1000}",
        text, tokens, tokens);
    return s;
}

static char *words(size_t n)
{
    static char text[20000];
    assert_true(n < sizeof text);
    for (size_t i = 0; i < n; i++)
        text[i] = i % 5 == 4 ? ' ' : 'w';
    text[n] = '\0';
    return text;
}

static void wait_task(world *w, uint64_t task, tc_str *ret_record)
{
    OK(tc_harness_wait_task(w->h, NULL, task, w->r, ret_record, err));
}

static void by_hand_without_a_cut_does_nothing(void **state)
{
    world w;
    uint64_t task;
    tc_str record;
    (void)state;
    init(&w, 200000, 20000, 0);
    world_open(&w);
    OK(tc_conversation_compact(w.h, NULL, w.root, TC_STR(""), &task, err));
    wait_task(&w, task, &record);
    assert_true(has_text(record, "\"outcome\":{\"status\":\"completed\",\"result\":{}}"));
    CHECK_JSON(world_doc(&w, &tci_live_doc), "{}");
    world_done(&w);
}

static void by_hand_puts_a_summary_in_place(void **state)
{
    world w;
    uint64_t task;
    tc_str record;
    (void)state;
    init(&w, 200000, 1, 0);
    world_open(&w);
    run_model_say(&w.model, run_text("first answer"));
    run_model_say(&w.model, run_text("second answer"));
    (void)world_answer(&w, world_say(&w, "first question"));
    (void)world_answer(&w, world_say(&w, "second question"));
    world_idle(&w);
    run_model_say(&w.model, run_text("THE SUMMARY"));
    OK(tc_conversation_compact(w.h, NULL, w.root, TC_STR("names"), &task, err));
    wait_task(&w, task, &record);
    assert_true(has_text(record, "\"submissionId\""));
    assert_true(has_text(tci_str(last_request(&w)), "[User]: first question"));
    assert_true(has_text(tci_str(last_request(&w)), "[Assistant]: first answer"));
    assert_true(has_text(tci_str(last_request(&w)), "names"));
    assert_true(has_text(tci_str(w.model.options[2]), " 80 ")); /* 0.8 of what is kept free */
    run_model_say(&w.model, run_text("third answer"));
    assert_string_equal(world_answer(&w, world_say(&w, "third question")), "third answer");
    assert_true(has_text(tci_str(last_request(&w)), "<summary>\\nTHE SUMMARY\\n</summary>"));
    assert_false(has_text(tci_str(last_request(&w)), "first question"));
    assert_true(has_text(tci_str(last_request(&w)), "You are terse.")); /* told anew */
    assert_true(
        has_text(world_doc(&w, &tci_usage_doc), "\"totalTokens\":60")); /* the summary's too */
    world_done(&w);
}

static void a_request_that_would_not_fit_waits_for_a_summary(void **state)
{
    world w;
    (void)state;
    init(&w, 1000, 10, 0);
    world_open(&w);
    run_model_say(&w.model, counted("first answer", 950));
    run_model_say(&w.model, run_text("THE SUMMARY"));
    run_model_say(&w.model, run_text("second answer"));
    (void)world_answer(&w, world_say(&w, "first question"));
    assert_string_equal(world_answer(&w, world_say(&w, words(40))), "second answer");
    assert_true(has_text(tci_str(last_request(&w)), "THE SUMMARY"));
    assert_true(has_text(tci_str(world_kinds(&w)), "pi.compaction"));
    CHECK_JSON(world_doc(&w, &tci_live_doc), "{}");
    world_done(&w);
}

static void a_request_that_still_fits_does_not_wait(void **state)
{
    world w;
    (void)state;
    init(&w, 1000, 10, 200);
    world_open(&w);
    run_model_say(&w.model, counted("first answer", 750));
    run_model_hold(&w.model, counted("one", 20),
                   -1); /* the answer or the summary, whoever is first */
    run_model_hold(&w.model, counted("two", 20), -1);
    (void)world_answer(&w, world_say(&w, "first question"));
    uint64_t id = world_say(&w, words(40));
    run_model_wait_held(&w.model, 2);
    tc_str live = world_doc(&w, &tci_live_doc);
    assert_true(has_text(live, "\"blocking\":false"));
    assert_true(has_text(live, "\"run\""));
    run_model_release(&w.model);
    run_model_release(&w.model);
    assert_string_not_equal(world_answer(&w, id), "");
    world_done(&w);
}

static void an_answer_that_says_too_long_is_asked_again_shorter(void **state)
{
    world w;
    (void)state;
    init(&w, 200000, 10, 0);
    world_open(&w);
    run_model_say(&w.model, run_text("first answer"));
    run_model_say(&w.model, run_error("prompt is too long: 300000 tokens > 200000 maximum"));
    run_model_say(&w.model, run_text("THE SUMMARY"));
    run_model_say(&w.model, run_text("second answer"));
    (void)world_answer(&w, world_say(&w, "first question"));
    assert_string_equal(world_answer(&w, world_say(&w, words(40))), "second answer");
    assert_true(has_text(tci_str(last_request(&w)), "THE SUMMARY"));
    world_done(&w);
}

static void an_overflow_again_ends_the_run(void **state)
{
    world w;
    tc_submission s;
    (void)state;
    init(&w, 200000, 10, 0);
    world_open(&w);
    run_model_say(&w.model, run_text("first answer"));
    run_model_say(&w.model, run_error("prompt is too long: 300000 tokens > 200000 maximum"));
    run_model_say(&w.model, run_text("THE SUMMARY"));
    run_model_say(&w.model, run_error("prompt is too long: 250000 tokens > 200000 maximum"));
    (void)world_answer(&w, world_say(&w, "first question"));
    world_wait(&w, world_say(&w, words(40)), &s);
    assert_true(tci_str_eq(s.reason, TC_STR("model_error")));
    assert_int_equal(run_model_asked(&w.model), 4);
    world_done(&w);
}

static int long_section(void *user, const tc_prompt *prompt, tc_result *r, tc_str *ret, tc_err *err)
{
    (void)user;
    (void)prompt;
    (void)r;
    (void)err;
    *ret = tci_str(words(15000));
    return 0;
}

/* Answers with calls for ever; counts how often it was asked for a summary. */
static unsigned nsummaries;
static const char *call_for_ever(void *user, tc_str messages)
{
    static unsigned n;
    static char answer[1024]; /* nobody counts its tokens */
    (void)user;
    if (has_text(messages, "<conversation>")) {
        nsummaries++;
        return run_text("THE SUMMARY");
    }
    assert_true(n < 100);
    (void)snprintf(
        answer, sizeof answer,
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"toolCall\",\"id\":\"c%u\",\"name\":"
        "\"echo\",\"arguments\":{\"text\":\"%.200s\"}}],\"api\":\"faux\",\"provider\":\"faux\","
        "\"model\":\"faux-1\",\"stopReason\":\"toolUse\",\"timestamp\":1000}",
        n++, words(200));
    return answer;
}

static void case_85_prompt_that_fills_the_window_stops_clearly(void **state)
{
    world w;
    tc_submission s;
    static const tc_section section = {.key = {"long", 4}, .render = long_section};
    static const tc_extension extension = {
        .size = sizeof extension, .name = {"long", 4}, .sections = &section, .nsections = 1};
    (void)state;
    nsummaries = 0;
    init(&w, 4000, 100, 0); /* the prompt alone has more than 4200 */
    OK(tc_registry_install(w.registry, &extension, err));
    w.model.decide = call_for_ever;
    world_open(&w);
    world_wait(&w, world_say(&w, "go"), &s);
    assert_true(tci_str_eq(s.reason, TC_STR("model_error")));
    assert_true(has_text(s.detail, "2 compactions in a row"));
    assert_int_equal(nsummaries, 2);
    /* and the next submission does not begin again */
    world_wait(&w, world_say(&w, words(600)), &s);
    assert_true(tci_str_eq(s.reason, TC_STR("model_error")));
    assert_int_equal(nsummaries, 2);
    CHECK_JSON(world_doc(&w, &tci_live_doc), "{}");
    world_done(&w);
}

static void case_85_one_turn_larger_than_the_window_stops(void **state)
{
    world w;
    tc_submission s;
    (void)state;
    init(&w, 1000, 500, 0);
    world_open(&w);
    run_model_say(&w.model, run_error("prompt is too long: 6000 tokens > 1000 maximum"));
    world_wait(&w, world_say(&w, words(15000)), &s);
    assert_true(tci_str_eq(s.reason, TC_STR("model_error")));
    assert_int_equal(run_model_asked(&w.model), 1);
    world_done(&w);
}

/* ---- hooks ---- */

static bool is_declining;
static int before_compact(void *user, tc_hook *hook, tc_str compaction, tc_result *r,
                          tc_compact_decision *ret, tc_err *err)
{
    (void)user;
    (void)hook;
    (void)r;
    (void)err;
    assert_true(has_text(compaction, "\"reason\":\"manual\""));
    assert_true(has_text(compaction, "first question"));
    ret->is_declined = is_declining;
    if (!is_declining)
        ret->summary = TC_STR("MY OWN WORDS");
    return 0;
}

static void a_hook_may_decline_or_summarise(void **state)
{
    world w;
    uint64_t task;
    tc_str record;
    (void)state;
    init(&w, 200000, 1, 0);
    w.hooks = (tc_hooks){.size = sizeof(tc_hooks), .before_compact = before_compact};
    world_open(&w);
    run_model_say(&w.model, run_text("first answer"));
    run_model_say(&w.model, run_text("second answer"));
    (void)world_answer(&w, world_say(&w, "first question"));
    world_idle(&w);
    is_declining = true;
    OK(tc_conversation_compact(w.h, NULL, w.root, TC_STR(""), &task, err));
    wait_task(&w, task, &record);
    assert_true(has_text(record, "\"result\":{}"));
    is_declining = false;
    OK(tc_conversation_compact(w.h, NULL, w.root, TC_STR(""), &task, err));
    wait_task(&w, task, &record);
    assert_true(has_text(record, "\"submissionId\""));
    (void)world_answer(&w, world_say(&w, "second question"));
    assert_true(has_text(tci_str(last_request(&w)), "MY OWN WORDS"));
    assert_int_equal(run_model_asked(&w.model), 2);
    world_done(&w);
}

static void a_summary_that_fails_is_told(void **state)
{
    world w;
    uint64_t task;
    tc_str record;
    (void)state;
    init(&w, 200000, 1, 0);
    w.settings.retry.base_delay_ms = 1;
    world_open(&w);
    run_model_say(&w.model, run_text("first answer"));
    (void)world_answer(&w, world_say(&w, "first question"));
    world_idle(&w);
    run_model_say(&w.model, run_error("503 overloaded")); /* tried again */
    run_model_say(&w.model, run_call("c1", "echo", "{}"));
    OK(tc_conversation_compact(w.h, NULL, w.root, TC_STR(""), &task, err));
    wait_task(&w, task, &record);
    assert_true(has_text(record, "Summarization attempted to call a tool"));
    CHECK_JSON(world_doc(&w, &tci_live_doc),
               "{\"compactionFailure\":{\"taskId\":12,\"reason\":\"manual\",\"error\":"
               "\"Summarization attempted to call a tool\"}}");
    world_done(&w);
}

static void estimates_count_characters(void **state)
{
    (void)state;
    assert_int_equal(tci_estimate_message(TC_STR("{\"role\":\"user\",\"content\":\"1234567\"}")),
                     2);
    assert_int_equal(tci_estimate_message(TC_STR("{\"role\":\"user\",\"content\":\"12345678\"}")),
                     3);
    assert_int_equal(
        tci_estimate_message(TC_STR("{\"role\":\"user\",\"content\":\"\\u00e9\\u00e9\\u00e9\"}")),
        1);
    assert_int_equal(
        tci_estimate_message(TC_STR("{\"role\":\"user\",\"content\":[{\"type\":\"image\","
                                    "\"data\":\"\",\"mimeType\":\"image/png\"}]}")),
        1372);
    assert_int_equal(tci_estimate_message(TC_STR("{\"role\":\"assistant\",\"content\":[{\"type\":"
                                                 "\"toolCall\",\"id\":\"x\",\"name\":\"ab\","
                                                 "\"arguments\":{\"a\":1}}]}")),
                     3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand_without_a_cut_does_nothing),
        cmocka_unit_test(by_hand_puts_a_summary_in_place),
        cmocka_unit_test(a_request_that_would_not_fit_waits_for_a_summary),
        cmocka_unit_test(a_request_that_still_fits_does_not_wait),
        cmocka_unit_test(an_answer_that_says_too_long_is_asked_again_shorter),
        cmocka_unit_test(an_overflow_again_ends_the_run),
        cmocka_unit_test(case_85_prompt_that_fills_the_window_stops_clearly),
        cmocka_unit_test(case_85_one_turn_larger_than_the_window_stops),
        cmocka_unit_test(a_hook_may_decline_or_summarise),
        cmocka_unit_test(a_summary_that_fails_is_told),
        cmocka_unit_test(estimates_count_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
