/* SPDX-License-Identifier: Apache-2.0
 *
 * The task graph, as a value and as a watch. */
#include "sched_world.h"

#include <stdio.h>
#include <string.h>

static world *the_world;
static gate hold;

static int set_up(void **state)
{
    static world w;
    world_init(&w, "");
    memset(&hold, 0, sizeof(hold));
    *state = the_world = &w;
    return 0;
}

static int tear_down(void **state)
{
    world_done(*state);
    return 0;
}

static int hold_start(tc_task *t, tc_err *err)
{
    if (gate_pass(&hold, t, err) < 0)
        return err->code;
    return tc_task_sleep_until(t, 5000, TC_STR("{\"phase\":\"late\",\"secret\":1}"), err);
}
static int hold_late(tc_task *t, tc_err *err)
{
    return next_done(t, "1", err);
}
DEF(holder, "t.hold", 1, {"start", hold_start}, {"late", hold_late});

static int top_start(tc_task *t, tc_err *err)
{
    uint64_t id;
    if (tc_task_create(t, &holder, TC_STR("{\"secret\":1}"), false, &id, err) < 0)
        return err->code;
    return next_wait(t, "{\"phase\":\"over\"}", &id, 1, TC_WAIT_FAIL_FAST, err);
}
DEF(top, "t.top", 1, {"start", top_start}, {"over", hold_late});

static const char *graph(world *w)
{
    tc_err err;
    tc_str text;
    tc_result_clear(w->r);
    assert_int_equal(tc_harness_task_graph(w->h, NULL, w->r, &text, &err), 0);
    assert_int_equal(tc_result_dup(w->r, text, &text, &err), 0);
    return text.ptr;
}

static void wait_for_state(world *w, uint64_t id, const char *state)
{
    while (strcmp(world_state(w, id), state) != 0)
        ;
}

static void the_graph_shows_live_tasks_their_waits_and_conversations(void **state)
{
    world *w = *state;
    const tc_task_def *const defs[] = {&top, &holder};
    atomic_store(&w->now, 1000);
    world_open(w);
    assert_string_equal(graph(w), "{\"tasks\":{}}");
    uint64_t id = world_task(w, &top, "1");
    assert_int_equal(id, 2);
    assert_string_equal(
        graph(w),
        "{\"tasks\":{\"2\":{\"id\":2,\"kind\":\"t.top\",\"conversationId\":1,\"background\":false,"
        "\"abortRequested\":false,\"state\":{\"status\":\"pending\",\"phase\":\"start\"},"
        "\"blocked\":\"missing_task\",\"conversations\":[]}}}");
    world_install(w, "test", defs, 2);
    world_resume(w);
    gate_wait(&hold, 1);
    uint64_t inside = world_conversation(w, id);
    assert_int_equal(inside, 4);
    gate_open(&hold, 1);
    wait_for_state(w, 3, "sleeping");
    wait_for_state(w, id, "waiting"); /* for it, perhaps only now */
    assert_string_equal(
        graph(w),
        "{\"tasks\":{\"2\":{\"id\":2,\"kind\":\"t.top\",\"conversationId\":1,\"background\":false,"
        "\"abortRequested\":false,\"state\":{\"status\":\"waiting\",\"phase\":\"over\",\"on\":[3],"
        "\"policy\":\"failFast\"},\"conversations\":[4]},"
        "\"3\":{\"id\":3,\"kind\":\"t.hold\",\"conversationId\":1,\"owner\":2,\"background\":false,"
        "\"abortRequested\":false,\"state\":{\"status\":\"sleeping\",\"phase\":\"late\",\"until\":"
        "5000},"
        "\"conversations\":[]}}}");
    atomic_store(&w->now, 6000);
    world_resume(w);
    world_wait_task(w, id);
    assert_string_equal(graph(w), "{\"tasks\":{}}");
}

static void a_watch_follows_commits_and_the_registry(void **state)
{
    world *w = *state;
    tc_watch *watch;
    tc_frame frame;
    tc_err err;
    tc_ctx *ctx;
    tc_str text;
    const tc_task_def *const defs[] = {&top, &holder};
    world_open(w);
    assert_int_equal(tc_ctx_new(WORLD_WAIT_MS, &ctx, &err), 0);
    assert_int_equal(tc_harness_watch_task_graph(w->h, NULL, &watch, &err), 0);
    uint64_t id = world_task(w, &top, "1");
    assert_int_equal(tc_watch_next(watch, ctx, &frame, &err), 0);
    assert_true(tci_str_starts(frame.ops, TC_STR("[[\"s\",[\"tasks\",\"2\"],{\"id\":2,")));
    assert_int_equal(tc_json_text(tc_watch_value(watch), w->r, &text, &err), 0);
    assert_true(tci_str_find(text, TC_STR("missing_task")) < text.len);
    world_install(w, "test", defs, 2);
    assert_int_equal(tc_watch_next(watch, ctx, &frame, &err), 0);
    assert_int_equal(tc_json_text(tc_watch_value(watch), w->r, &text, &err), 0);
    assert_true(tci_str_find(text, TC_STR("missing_task")) == text.len);
    gate_open(&hold, 1);
    world_wait_task(w, id); /* the real clock is past its time */
    do {
        assert_int_equal(tc_watch_next(watch, ctx, &frame, &err), 0);
        assert_int_equal(tc_json_text(tc_watch_value(watch), w->r, &text, &err), 0);
    } while (!tci_str_eq(text, TC_STR("{\"tasks\":{}}")));
    assert_true(tci_str_eq(frame.ops, TC_STR("[[\"d\",[\"tasks\",\"2\"]]]")));
    assert_int_equal(tc_harness_close(w->h, &err), 0);
    assert_int_equal(tc_watch_next(watch, ctx, &frame, &err), TC_E_END);
    assert_int_equal(tc_watch_reason(watch, NULL), TC_WATCH_SESSION_CLOSED);
    tc_watch_free(watch);
    tc_ctx_free(ctx);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_graph_shows_live_tasks_their_waits_and_conversations),
        TEST(a_watch_follows_commits_and_the_registry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
