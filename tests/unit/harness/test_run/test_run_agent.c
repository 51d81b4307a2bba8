/* SPDX-License-Identifier: Apache-2.0
 *
 * Agents: which extensions, tools and sections a conversation gets, what the model is told of them and
 * when, changes of the agent, wraps, and hooks of requests. */
#include "run_world.h"

#include <stdio.h>

static const char *last_request(world *w)
{
    return w->model.requests[run_model_asked(&w->model) - 1];
}

static void configure(world *w, const char *change)
{
    OK(tc_conversation_configure(w->h, NULL, w->root, tci_str(change), err));
}

static tc_str agent(world *w)
{
    tc_str text;
    OK(tc_conversation_agent(w->h, &TC_CALL(NULL, w->r), w->root, &text, err));
    return text;
}

/* Say something and give the request it led to. */
static const char *ask(world *w)
{
    run_model_say(&w->model, run_text("ok"));
    assert_string_equal(world_answer(w, world_say(w, "x")), "ok");
    world_idle(w);
    return last_request(w);
}

static void tools_are_chosen_by_name(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    configure(&w, "{\"tools\":[\"safe\",\"echo\",\"nope\",\"safe\"]}");
    assert_true(
        has_text(agent(&w), "\"tools\":[\"safe\",\"echo\"],\"callable\":[\"safe\",\"echo\"]"));
    configure(&w, "{\"tools\":{\"remove\":[\"held\",\"held-safe\",\"boom\",\"control\"]}}");
    assert_true(has_text(agent(&w), "\"tools\":[\"echo\",\"safe\"]"));
    configure(&w, "{\"modelTools\":{\"remove\":[\"echo\"]}}");
    assert_true(has_text(agent(&w), "\"tools\":[\"safe\"],\"callable\":[\"echo\",\"safe\"]"));
    configure(&w, "{\"modelTools\":[\"echo\"]}");
    assert_true(has_text(agent(&w), "\"tools\":[\"echo\"],"));
    configure(&w, "{\"tools\":null,\"modelTools\":null,\"extensions\":[]}");
    assert_true(has_text(agent(&w), "\"extensions\":[],\"tools\":[]"));
    configure(&w, "{\"extensions\":{\"remove\":[\"test\"],\"add\":[\"nope\"]}}");
    assert_true(has_text(agent(&w), "\"extensions\":[]"));
    world_done(&w);
}

static void wrong_changes_are_refused(void **state)
{
    static const char *const changes[] = {"[]",
                                          "{\"model\":\"x\"}",
                                          "{\"model\":{\"provider\":\"p\"}}",
                                          "{\"thinkingLevel\":\"a lot\"}",
                                          "{\"tools\":{\"add\":[]}}",
                                          "{\"tools\":[1]}",
                                          "{\"extensions\":{\"remove\":\"x\"}}",
                                          "{\"cwd\":1}",
                                          "{\"other\":1}",
                                          "{"};
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        tc_err e;
        if (tc_conversation_configure(w.h, NULL, w.root, tci_str(changes[i]), &e) == 0)
            fail_msg("%s was taken", changes[i]);
    }
    FAILS(TC_E_NOT_FOUND, tc_conversation_configure(w.h, NULL, 77, TC_STR("{}"), err));
    CHECK_JSON(world_doc(&w, &tci_agent_doc),
               "{\"model\":{\"provider\":\"faux\",\"modelId\":\"faux-1\"}}");
    world_done(&w);
}

static void prompt_is_patched_not_repeated(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_limit_tools(&w, 2);
    world_open(&w);
    (void)ask(&w);
    size_t before = world_nentries(&w);
    (void)ask(&w); /* nothing changed: no entry */
    assert_int_equal(world_nentries(&w), before + 2);
    configure(&w, "{\"instructions\":\"Be kind.\"}");
    (void)ask(&w);
    CHECK_JSON(world_entry(&w, before + 3),
               "{\"id\":19,\"conversationId\":1,\"kind\":\"pi.system\",\"model\":[{\"role\":"
               "\"system\",\"content\":\"\","
               "\"sections\":{\"instructions\":\"<instructions>\\nBe "
               "kind.\\n</instructions>\"},\"timestamp\":1}],"
               "\"byTaskId\":18}");
    configure(&w, "{\"instructions\":null,\"tools\":[\"safe\"]}");
    (void)ask(&w);
    tc_str entry = world_entry(&w, before + 6);
    assert_true(has_text(
        entry, "\"sections\":{\"instructions\":null},\"toolsRemoved\":[{\"name\":\"echo\"}]"));
    assert_false(has_text(entry, "toolsAdded"));
    configure(&w, "{\"tools\":[\"echo\",\"safe\"]}"); /* another order: all anew */
    (void)ask(&w);
    entry = world_entry(&w, before + 9);
    assert_true(has_text(
        entry, "\"toolsRemoved\":[{\"name\":\"safe\"}],\"toolsAdded\":[{\"name\":\"echo\""));
    world_done(&w);
}

static void thinking_level_reaches_the_model(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    configure(&w, "{\"thinkingLevel\":\"high\"}");
    (void)ask(&w);
    assert_true(has_text(tci_str(w.model.options[0]), "high 0 "));
    configure(&w, "{\"thinkingLevel\":null}");
    (void)ask(&w);
    assert_true(w.model.options[1][0] == ' ');
    /* both with the conversation's own key */
    assert_string_equal(strrchr(w.model.options[0], ' '), strrchr(w.model.options[1], ' '));
    assert_int_equal(strlen(strrchr(w.model.options[0], ' ')), 37);
    world_done(&w);
}

/* ---- wraps and sections that fail ---- */

static int rename_tool(void *user, const tc_tool *inner, tc_result *r, const tc_tool **ret,
                       tc_err *err)
{
    static tc_tool other;
    (void)user;
    (void)r;
    (void)err;
    other = *inner;
    other.name = TC_STR("other");
    *ret = &other;
    return 0;
}

static int describe(void *user, const tc_tool *inner, tc_result *r, const tc_tool **ret,
                    tc_err *err)
{
    static tc_tool wrapped;
    (void)user;
    (void)r;
    (void)err;
    wrapped = *inner;
    wrapped.description = TC_STR("Wrapped");
    *ret = &wrapped;
    return 0;
}

static void wraps_change_or_lose_a_tool(void **state)
{
    static const tc_wrap wraps[] = {{.tool = {"echo", 4}, .wrap_tool = describe},
                                    {.tool = {"safe", 4}, .wrap_tool = rename_tool},
                                    {.tool = {"nobody", 6}, .wrap_tool = describe}};
    static const tc_extension extension = {
        .size = sizeof extension, .name = {"wraps", 5}, .wraps = wraps, .nwraps = 3};
    world w;
    (void)state;
    world_init(&w);
    world_limit_tools(&w, 2);
    OK(tc_registry_install(w.registry, &extension, err));
    world_open(&w);
    assert_true(has_text(tci_str(ask(&w)), "\"description\":\"Wrapped\""));
    assert_false(has_text(tci_str(last_request(&w)), "\"safe\""));
    world_wait_report(&w, "extension_error wraps wrapper renamed 'safe' to 'other'");
    world_done(&w);
}

static bool is_failing;
static int moody(void *user, const tc_prompt *prompt, tc_result *r, tc_str *ret, tc_err *err)
{
    (void)user;
    (void)r;
    assert_true(has_text(prompt->agent, "\"thinkingLevel\":\"off\""));
    if (is_failing)
        return tc_err_set(err, TC_E_INVALID, "bad mood");
    *ret = TC_STR("In a mood.");
    return 0;
}

static void section_that_fails_stays_as_it_was(void **state)
{
    static const tc_section section = {.key = {"mood", 4}, .is_untagged = true, .render = moody};
    static const tc_extension extension = {
        .size = sizeof extension, .name = {"moods", 5}, .sections = &section, .nsections = 1};
    world w;
    (void)state;
    is_failing = false;
    world_init(&w);
    OK(tc_registry_install(w.registry, &extension, err));
    world_open(&w);
    assert_true(has_text(tci_str(ask(&w)), "\"mood\":\"In a mood.\""));
    size_t before = world_nentries(&w);
    is_failing = true;
    (void)ask(&w);
    assert_int_equal(world_nentries(&w), before + 2);
    world_wait_report(&w, "extension_error moods bad mood");
    world_done(&w);
}

/* ---- hooks of a request ---- */

static int shorten(void *user, tc_hook *hook, tc_str messages, tc_result *r, tc_str *ret,
                   tc_err *err)
{
    (void)user;
    (void)r;
    (void)err;
    assert_true(tc_hook_conversation(hook) == 1 && tc_hook_task(hook) != 0);
    assert_true(has_text(messages, "\"role\":\"user\""));
    *ret = TC_STR("[{\"role\":\"user\",\"content\":\"REPLACED\"}]");
    return 0;
}

static unsigned nresponses;
static int count_response(void *user, tc_hook *hook, tc_str message, tc_err *err)
{
    (void)user;
    (void)hook;
    nresponses++;
    assert_true(has_text(message, "\"role\":\"assistant\""));
    return tc_err_set(err, TC_E_INVALID, "told");
}

static int once_more(void *user, tc_hook *hook, tc_str message, tc_result *r, tc_str *ret,
                     tc_err *err)
{
    (void)user;
    (void)hook;
    (void)r;
    (void)err;
    if (has_text(message, "first"))
        *ret = TC_STR("\"go on\"");
    return 0;
}

static void hooks_replace_watch_and_continue(void **state)
{
    world w;
    (void)state;
    nresponses = 0;
    world_init(&w);
    w.hooks = (tc_hooks){.size = sizeof(tc_hooks),
                         .before_request = shorten,
                         .after_response = count_response,
                         .on_yield = once_more};
    world_open(&w);
    run_model_say(&w.model, run_text("first"));
    run_model_say(&w.model, run_text("second"));
    assert_string_equal(world_answer(&w, world_say(&w, "x")), "second");
    assert_string_equal(w.model.requests[0], "[{\"role\":\"user\",\"content\":\"REPLACED\"}]");
    assert_int_equal(nresponses, 2);
    assert_string_equal(world_kinds(&w),
                        "pi.user pi.system pi.assistant:stop pi.user pi.assistant:stop");
    world_wait_report(&w, "extension_error test told");
    world_done(&w);
}

static void continuation_is_dropped_for_a_follow_up(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    w.hooks = (tc_hooks){.size = sizeof(tc_hooks), .on_yield = once_more};
    world_open(&w);
    run_model_hold(&w.model, run_text("first"), -1);
    run_model_say(&w.model, run_text("second"));
    uint64_t one = world_say(&w, "one");
    run_model_wait_held(&w.model, 1);
    uint64_t two = world_say(&w, "two");
    run_model_release(&w.model);
    assert_string_equal(world_answer(&w, one), "first");
    assert_string_equal(world_answer(&w, two), "second");
    assert_false(has_text(tci_str(last_request(&w)), "go on"));
    world_done(&w);
}

/* ---- loading tools, owned conversations, usage ---- */

static void tools_added_by_a_tool_are_offered_next(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    configure(&w, "{\"tools\":[\"control\"],\"modelTools\":{\"remove\":[\"echo\",\"safe\"]}}");
    run_model_say(&w.model, run_call("c1", "control", "{\"addTools\":[\"echo\"]}"));
    run_model_say(&w.model, run_text("ok"));
    assert_string_equal(world_answer(&w, world_say(&w, "x")), "ok");
    CHECK_JSON(world_doc(&w, &tci_agent_doc),
               "{\"model\":{\"provider\":\"faux\",\"modelId\":\"faux-1\"},\"tools\":[\"control\","
               "\"echo\"],"
               "\"modelTools\":{\"remove\":[\"safe\"],\"add\":[\"echo\"]}}");
    assert_true(has_text(tci_str(last_request(&w)), "\"name\":\"echo\",\"description\""));
    world_done(&w);
}

static void usage_is_summed_over_conversations(void **state)
{
    world w;
    uint64_t other, id;
    tc_str usage;
    tc_submission s;
    const tc_conversation_options options = {
        .size = sizeof options,
        .agent = TC_STR("{\"model\":{\"provider\":\"faux\",\"modelId\":\"faux-1\"}}")};
    const tc_user_input input = {.size = sizeof input, .text = TC_STR("hi")};
    (void)state;
    world_init(&w);
    world_open(&w);
    OK(tc_conversation_create(w.h, NULL, &options, &other, err));
    (void)ask(&w);
    run_model_say(&w.model, run_text("ok"));
    OK(tc_conversation_submit(w.h, NULL, other, &input, &id, err));
    world_wait(&w, id, &s);
    OK(tc_conversation_usage(w.h, &TC_CALL(NULL, w.r), 0, &usage, err));
    assert_true(has_text(usage, "\"faux/faux-1\":{\"input\":20,\"output\":10,"));
    assert_true(has_text(usage, "\"cost\":{\"input\":0.0,"));
    OK(tc_conversation_usage(w.h, &TC_CALL(NULL, w.r), other, &usage, err));
    assert_true(has_text(usage, "\"input\":10,"));
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tools_are_chosen_by_name),
        cmocka_unit_test(wrong_changes_are_refused),
        cmocka_unit_test(prompt_is_patched_not_repeated),
        cmocka_unit_test(thinking_level_reaches_the_model),
        cmocka_unit_test(wraps_change_or_lose_a_tool),
        cmocka_unit_test(section_that_fails_stays_as_it_was),
        cmocka_unit_test(hooks_replace_watch_and_continue),
        cmocka_unit_test(continuation_is_dropped_for_a_follow_up),
        cmocka_unit_test(tools_added_by_a_tool_are_offered_next),
        cmocka_unit_test(usage_is_summed_over_conversations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
