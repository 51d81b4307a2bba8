/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers while they come: what is committed of them, and what watchers are told. */
#include "run_world.h"

#include "base/json.h"
#include <stdio.h>

typedef struct ops {
    tci_buf all; /* operations on "pi.live", one commit a line */
    size_t bytes, ncommits;
} ops;

static void on_commit(void *user, const tc_commit *commit)
{
    ops *o = user;
    for (size_t i = 0; i < commit->ndocs; i++) {
        if (!tci_str_eq(commit->docs[i].kind, TC_STR("pi.live")))
            continue;
        tci_buf_append_str(&o->all, commit->docs[i].ops);
        tci_buf_append_byte(&o->all, '\n');
        o->bytes += commit->docs[i].ops.len;
        o->ncommits++;
    }
}

static void partials_are_stored_as_the_text_that_is_new(void **state)
{
    world w;
    ops o = {.bytes = 0};
    tc_listener *listener;
    char text[1501];
    (void)state;
    memset(text, 'a', 1500);
    text[1500] = '\0';
    world_init(&w);
    world_open(&w);
    tci_buf_init(&o.all, TCI_BUF_MAX);
    OK(tc_durable_on_commit(tc_harness_session(w.h), on_commit, &o, &listener, err));
    run_model_say(&w.model, run_text(text));
    assert_string_equal(world_answer(&w, world_say(&w, "go")), text);
    world_idle(&w);
    tc_listener_remove(listener);
    tc_str all = tci_buf_str(&o.all);
    /* the first shows the message, all others four characters more */
    assert_true(has_text(
        all, "[[\"s\",[\"generation\",\"message\"],{\"role\":\"assistant\",\"content\":[{\"type\":"
             "\"text\",\"text\":\"\"}]"));
    assert_true(has_text(all, "\"stopReason\":\"pending\""));
    assert_int_equal(
        count_text(all, "[[\"a\",[\"generation\",\"message\",\"content\",0,\"text\"],\"aaaa\"]]"),
        375);
    assert_true(o.bytes < 60 * 375 + 2000);
    tci_buf_done(&o.all);
    world_done(&w);
}

static void nothing_is_stored_before_the_interval(void **state)
{
    world w;
    ops o = {.bytes = 0};
    tc_listener *listener;
    (void)state;
    world_init(&w);
    w.settings.partial_interval_ms = 3600000;
    world_open(&w);
    tci_buf_init(&o.all, TCI_BUF_MAX);
    OK(tc_durable_on_commit(tc_harness_session(w.h), on_commit, &o, &listener, err));
    run_model_say(&w.model, run_text("a short answer"));
    (void)world_answer(&w, world_say(&w, "go"));
    world_idle(&w);
    tc_listener_remove(listener);
    assert_false(has_text(tci_buf_str(&o.all), "message"));
    assert_int_equal(o.ncommits, 3); /* run, attempt, end */
    tci_buf_done(&o.all);
    world_done(&w);
}

/* ---- watching ---- */

static void next(world *w, tc_watch *watch, tc_frame *ret)
{
    tc_ctx *ctx;
    (void)w;
    OK(tc_ctx_new(60000, &ctx, err));
    OK(tc_watch_next(watch, ctx, ret, err));
    tc_ctx_free(ctx);
}

static void view_follows_every_commit(void **state)
{
    world w;
    tc_watch *watch;
    tc_frame frame;
    tc_str view;
    (void)state;
    world_init(&w);
    w.settings.partial_interval_ms = 3600000;
    world_open(&w);
    OK(tc_conversation_watch(w.h, NULL, w.root, &watch, err));
    run_model_say(&w.model, run_call("c1", "echo", "{\"text\":\"x\"}"));
    run_model_say(&w.model, run_text("fine"));
    uint64_t reset;
    (void)world_answer(&w, world_say(&w, "go"));
    world_idle(&w);
    OK(tc_conversation_reset(w.h, NULL, w.root, TC_STR("on"), &reset, err));
    OK(tc_conversation_configure(w.h, NULL, w.root, TC_STR("{\"cwd\":\"/tmp\"}"), err));
    OK(tc_conversation_view(w.h, &TC_CALL(NULL, w.r), w.root, &view, err));
    for (;;) {
        tci_buf b;
        next(&w, watch, &frame);
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_json_put(&b, frame.value, TCI_JSON_AS_IS);
        bool is_there = has_text(tci_buf_str(&b), "\"cwd\"");
        if (is_there) {
            tc_str text = tci_buf_str(&b);
            char *expected = tci_mem_cstr(view);
            CHECK_JSON(text, expected);
            tci_mem_free(expected);
        }
        tci_buf_done(&b);
        if (is_there)
            break;
    }
    /* the reset stands in the place of all before it */
    assert_int_equal(count_text(view, "\"kind\":"), 1);
    tc_watch_free(watch);
    FAILS(TC_E_NOT_FOUND, tc_conversation_watch(w.h, NULL, 99, &watch, err));
    world_done(&w);
}

static void types_of(tci_buf *b, tc_str events)
{
    tci_arena a;
    tci_json v;
    tci_arena_init(&a, 0);
    OK(tci_json_parse(events, TCI_JSON_KEEP_SURROGATES, &a, &v, err));
    for (uint32_t i = 0; i < v.count; i++) {
        tc_str type;
        assert_true(tci_json_as_str(tci_json_get(&v.u.items[i], TC_STR("type")), &type));
        tci_buf_printf(b, "%s%.*s", i > 0 ? " " : "", TC_STR_ARG(type));
    }
    tci_buf_append_byte(b, '\n');
    tci_arena_done(&a);
}

static void events_of_a_streamed_answer_come_in_order(void **state)
{
    world w;
    tc_watch *watch;
    tc_frame frame;
    tci_buf b;
    (void)state;
    world_init(&w);
    world_open(&w);
    tci_buf_init(&b, TCI_BUF_MAX);
    OK(tc_conversation_watch_events(w.h, NULL, w.root, &watch, err));
    run_model_say(&w.model, run_text("fine!"));
    (void)world_answer(&w, world_say(&w, "go"));
    world_idle(&w);
    while (!has_text(tci_buf_str(&b), "run_end")) {
        next(&w, watch, &frame);
        assert_null(frame.value);
        types_of(&b, frame.ops);
    }
    tci_buf_append_byte(&b, '\0');
    assert_string_equal(b.ptr, "snapshot\n"
                               "message_start message_end submission run_start turn_start\n"
                               "message_start message_end\n" /* the prompt */
                               "message_start\nmessage_update\nmessage_update\n"
                               "message_end turn_end run_end submission usage_changed\n");
    tci_buf_done(&b);
    tc_watch_free(watch);
    world_done(&w);
}

static void events_of_a_tool_round(void **state)
{
    world w;
    tc_watch *watch;
    tc_frame frame;
    tci_buf b;
    (void)state;
    world_init(&w);
    w.settings.partial_interval_ms = 3600000;
    world_open(&w);
    tci_buf_init(&b, TCI_BUF_MAX);
    OK(tc_conversation_watch_events(w.h, NULL, w.root, &watch, err));
    run_model_say(&w.model, run_call("c1", "echo", "{\"text\":\"x\"}"));
    run_model_say(&w.model, run_text("fine"));
    (void)world_answer(&w, world_say(&w, "go"));
    world_idle(&w);
    while (!has_text(tci_buf_str(&b), "run_end")) {
        next(&w, watch, &frame);
        if (has_text(frame.ops, "tool_execution_start"))
            assert_true(has_text(frame.ops, "\"args\":{\"text\":\"x\"}"));
        if (has_text(frame.ops, "tool_execution_update"))
            assert_true(has_text(frame.ops, "\"output\":{\"set\":\"hello x\\n\"}"));
        types_of(&b, frame.ops);
    }
    tci_buf_append_byte(&b, '\0');
    assert_string_equal(b.ptr,
                        "snapshot\n"
                        "message_start message_end submission run_start turn_start\n"
                        "message_start message_end\n"
                        "message_start message_end usage_changed\n"
                        "tool_execution_start\n"
                        "tool_execution_update\n"
                        "tool_execution_end message_start message_end\n"
                        "turn_end turn_start\n"
                        "message_start message_end turn_end run_end submission usage_changed\n");
    tci_buf_done(&b);
    tc_watch_free(watch);
    world_done(&w);
}

static void who_comes_late_gets_what_is_shown(void **state)
{
    world w;
    tc_watch *events, *view;
    tc_frame frame;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_hold(&w.model, run_text("half an answer"), 4);
    uint64_t id = world_say(&w, "go");
    run_model_wait_held(&w.model, 1);
    OK(tc_conversation_watch_events(w.h, NULL, w.root, &events, err));
    OK(tc_conversation_watch(w.h, NULL, w.root, &view, err));
    next(&w, events, &frame);
    assert_true(has_text(frame.ops, "\"generation\":{\"attempt\":1,\"message\":{"));
    assert_true(has_text(frame.ops, "\"run\":{\"inputs\":["));
    assert_true(tci_json_get(tci_json_get(tc_watch_value(view), TC_STR("docs")),
                             TC_STR("pi.live")) != NULL);
    run_model_release(&w.model);
    assert_string_equal(world_answer(&w, id), "half an answer");
    next(&w, events, &frame);
    assert_true(has_text(frame.ops, "\"text_delta\""));
    world_close(&w); /* ends both */
    tc_err e;
    while (tc_watch_next(view, NULL, &frame, &e) == 0)
        ;
    assert_int_equal(e.code, TC_E_END);
    tc_watch_free(events);
    tc_watch_free(view);
    world_done(&w);
}

static void watcher_that_sleeps_gets_a_snapshot(void **state)
{
    world w;
    tc_watch *watch;
    tc_frame frame;
    char text[801];
    (void)state;
    memset(text, 'b', 800);
    text[800] = '\0';
    world_init(&w);
    world_open(&w);
    OK(tc_conversation_watch_events(w.h, NULL, w.root, &watch, err));
    run_model_say(&w.model, run_text(text)); /* two hundred frames */
    (void)world_answer(&w, world_say(&w, "go"));
    world_idle(&w);
    next(&w, watch, &frame);
    assert_true(has_text(frame.ops, "\"type\":\"snapshot\""));
    assert_true(has_text(frame.ops, "pi.user"));
    tc_watch_free(watch);
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partials_are_stored_as_the_text_that_is_new),
        cmocka_unit_test(nothing_is_stored_before_the_interval),
        cmocka_unit_test(view_follows_every_commit),
        cmocka_unit_test(events_of_a_streamed_answer_come_in_order),
        cmocka_unit_test(events_of_a_tool_round),
        cmocka_unit_test(who_comes_late_gets_what_is_shown),
        cmocka_unit_test(watcher_that_sleeps_gets_a_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
