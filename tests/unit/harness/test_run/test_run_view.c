/* SPDX-License-Identifier: Apache-2.0
 *
 * The view of a conversation as a state: read at any time, and told to who subscribes. */
#include "run_world.h"

#include "base/json.h"

typedef struct heard {
    tci_buf last; /* the value of the last call */
    uint64_t sequence, ncalls;
    bool has_gap;
    tc_state *other; /* freed by the first change */
    tc_watch *watch; /* stopped by it */
    tc_listener *own;
    bool is_stopping;
} heard;

static void on_value(void *user, uint64_t sequence, const tc_json *value)
{
    heard *h = user;
    h->has_gap = h->has_gap || (h->ncalls > 0 && sequence != h->sequence + 1);
    h->sequence = sequence;
    h->ncalls++;
    tci_buf_clear(&h->last);
    tci_json_put(&h->last, value, TCI_JSON_AS_IS);
    if (sequence == 0)
        return;
    if (h->is_stopping) {
        tc_listener_remove(h->own);
        h->own = NULL;
        h->is_stopping = false;
    }
    tc_state_free(h->other);
    h->other = NULL;
    if (h->watch != NULL)
        tc_watch_stop(h->watch);
    h->watch = NULL;
}

static void start(world *w)
{
    world_init(w);
    w->settings.partial_interval_ms = 3600000;
    world_open(w);
}

static void check_same(tc_str actual, tc_str expected)
{
    char *text = tci_mem_cstr(expected);
    CHECK_JSON(actual, text);
    tci_mem_free(text);
}

static void state_follows_every_commit(void **state)
{
    world w;
    tc_state *st;
    heard h = {.ncalls = 0};
    tc_str value, view;
    uint64_t reset;
    (void)state;
    start(&w);
    tci_buf_init(&h.last, TCI_BUF_MAX);
    OK(tc_conversation_view_state(w.h, NULL, w.root, &st, err));
    OK(tc_state_subscribe(st, on_value, &h, &h.own, err));
    assert_int_equal(h.ncalls, 1); /* at once, and what it is now */
    assert_int_equal(h.sequence, 0);
    run_model_say(&w.model, run_call("c1", "echo", "{\"text\":\"x\"}"));
    run_model_say(&w.model, run_text("fine"));
    (void)world_answer(&w, world_say(&w, "go"));
    world_idle(&w);
    OK(tc_conversation_reset(w.h, NULL, w.root, TC_STR("on"), &reset, err));
    OK(tc_conversation_configure(w.h, NULL, w.root, TC_STR("{\"cwd\":\"/tmp\"}"), err));
    OK(tc_conversation_view(w.h, &TC_CALL(NULL, w.r), w.root, &view, err));
    OK(tc_state_value(st, w.r, &value, err));
    check_same(value, view);
    check_same(tci_buf_str(&h.last), view);
    assert_false(h.has_gap);
    assert_true(h.sequence >=
                8); /* prompt, sections, answer, call, its end, answer, reset, agent */
    tc_listener_remove(h.own);
    tc_state_free(st);
    FAILS(TC_E_NOT_FOUND, tc_conversation_view_state(w.h, NULL, 99, &st, err));
    tci_buf_done(&h.last);
    world_done(&w);
}

static void state_made_in_a_run_goes_on_from_there(void **state)
{
    world w;
    tc_state *st;
    tc_str value, view;
    (void)state;
    world_init(&w);
    world_open(&w); /* every piece is committed */
    run_model_hold(&w.model, run_text("half an answer"), 4);
    uint64_t id = world_say(&w, "go");
    run_model_wait_held(&w.model, 1);
    OK(tc_conversation_view_state(w.h, NULL, w.root, &st, err));
    OK(tc_state_value(st, w.r, &value, err));
    assert_true(has_text(value, "\"stopReason\":\"pending\""));
    run_model_release(&w.model);
    assert_string_equal(world_answer(&w, id), "half an answer");
    world_idle(&w);
    OK(tc_state_value(st, w.r, &value, err));
    OK(tc_conversation_view(w.h, &TC_CALL(NULL, w.r), w.root, &view, err));
    check_same(value, view);
    tc_state_free(st);
    world_done(&w);
}

static void state_keeps_its_last_value_when_the_harness_closes(void **state)
{
    world w;
    tc_state *st;
    heard h = {.ncalls = 0};
    tc_str before, after;
    (void)state;
    start(&w);
    tci_buf_init(&h.last, TCI_BUF_MAX);
    OK(tc_conversation_view_state(w.h, NULL, w.root, &st, err));
    OK(tc_state_subscribe(st, on_value, &h, &h.own, err));
    run_model_say(&w.model, run_text("fine"));
    (void)world_answer(&w, world_say(&w, "go"));
    world_idle(&w);
    OK(tc_conversation_view(w.h, &TC_CALL(NULL, w.r), w.root, &before, err));
    uint64_t ncalls = h.ncalls;
    OK(tc_harness_close(w.h, err));
    OK(tc_state_value(st, w.r, &after, err));
    check_same(after, before);
    assert_int_equal(h.ncalls, ncalls);
    FAILS(TC_E_CLOSED, tc_conversation_view_state(w.h, NULL, w.root, &(tc_state *){NULL}, err));
    tc_listener_remove(h.own);
    tc_state_free(st);
    tci_buf_done(&h.last);
    world_done(&w);
}

/* Somebody who is told of a change may end what others watch, and himself. */
static void listener_may_end_any_of_them(void **state)
{
    for (int order = 0; order < 2; order++) {
        world w;
        tc_state *st;
        tc_watch *watch;
        heard h = {.is_stopping = true};
        tc_str value, view;
        (void)state;
        start(&w);
        tci_buf_init(&h.last, TCI_BUF_MAX);
        if (order == 0)
            OK(tc_conversation_view_state(w.h, NULL, w.root, &st, err));
        OK(tc_conversation_view_state(w.h, NULL, w.root, &h.other, err));
        OK(tc_conversation_watch(w.h, NULL, w.root, &watch, err));
        h.watch = watch;
        if (order == 1)
            OK(tc_conversation_view_state(w.h, NULL, w.root, &st, err));
        OK(tc_state_subscribe(st, on_value, &h, &h.own, err));
        OK(tc_conversation_configure(w.h, NULL, w.root, TC_STR("{\"cwd\":\"/a\"}"), err));
        assert_int_equal(h.ncalls, 2);
        assert_null(h.other);
        OK(tc_conversation_configure(w.h, NULL, w.root, TC_STR("{\"cwd\":\"/b\"}"), err));
        assert_int_equal(h.ncalls, 2);
        OK(tc_state_value(st, w.r, &value, err));
        OK(tc_conversation_view(w.h, &TC_CALL(NULL, w.r), w.root, &view, err));
        check_same(value, view);
        assert_int_equal(tc_watch_reason(watch, NULL), TC_WATCH_STOPPED);
        tc_watch_free(watch);
        tc_state_free(st);
        tci_buf_done(&h.last);
        world_done(&w);
    }
}

static void fork_is_followed_by_itself(void **state)
{
    world w;
    tc_state *of_root, *of_fork;
    tc_submission s;
    tc_str value, view;
    uint64_t fork;
    (void)state;
    start(&w);
    run_model_say(&w.model, run_text("fine"));
    world_wait(&w, world_say(&w, "go"), &s);
    OK(tc_conversation_fork(w.h, NULL, w.root, s.answer, NULL, &fork, err));
    OK(tc_conversation_view_state(w.h, NULL, w.root, &of_root, err));
    OK(tc_conversation_view_state(w.h, NULL, fork, &of_fork, err));
    run_model_say(&w.model, run_text("only here"));
    w.root = fork;
    (void)world_answer(&w, world_say(&w, "on"));
    world_idle(&w);
    OK(tc_state_value(of_fork, w.r, &value, err));
    OK(tc_conversation_view(w.h, &TC_CALL(NULL, w.r), fork, &view, err));
    check_same(value, view);
    assert_true(has_text(value, "only here"));
    OK(tc_state_value(of_root, w.r, &value, err));
    assert_false(has_text(value, "only here"));
    tc_state_free(of_root);
    tc_state_free(of_fork);
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_follows_every_commit),
        cmocka_unit_test(state_made_in_a_run_goes_on_from_there),
        cmocka_unit_test(state_keeps_its_last_value_when_the_harness_closes),
        cmocka_unit_test(listener_may_end_any_of_them),
        cmocka_unit_test(fork_is_followed_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
