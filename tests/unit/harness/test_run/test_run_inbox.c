/* SPDX-License-Identifier: Apache-2.0
 *
 * Submissions: queues and boundaries, withdrawal, resets, stale writes, failed runs, forks. */
#include "run_world.h"

#include <stdio.h>

static const char *last_request(world *w)
{
    return w->model.requests[run_model_asked(&w->model) - 1];
}

static const char *reason(world *w, uint64_t id)
{
    tc_submission s;
    world_wait(w, id, &s);
    tc_str text;
    OK(tc_result_dup(w->r, s.status == TC_SUBMISSION_UNANSWERED ? s.reason : TC_STR("done"), &text,
                     err));
    return text.ptr;
}

static uint64_t write_entry(world *w, const char *draft)
{
    uint64_t id;
    OK(tc_conversation_write(w->h, NULL, w->root, tci_str(draft), TC_STR(""), &id, err));
    return id;
}

static tc_submission_status status(world *w, uint64_t id)
{
    tc_submission s;
    OK(tc_submission_get(w->h, &TC_CALL(NULL, w->r), id, &s, err));
    return s.status;
}

/* A run that is held while its answer is awaited. */
static uint64_t begin_held(world *w)
{
    run_model_hold(&w->model, run_text("first"), -1);
    uint64_t id = world_say(w, "one");
    run_model_wait_held(&w->model, 1);
    return id;
}

static void follow_ups_have_a_run_each(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    uint64_t one = begin_held(&w), two = world_say(&w, "two"), three = world_say(&w, "three");
    uint64_t note = write_entry(
        &w, "{\"kind\":\"app.note\",\"model\":[{\"role\":\"user\",\"content\":\"n\"}]}");
    CHECK_JSON(
        world_doc(&w, &tci_inbox_doc),
        "{\"items\":[{\"id\":11,\"mode\":\"followUp\",\"content\":\"two\"},{\"id\":12,\"mode\":"
        "\"followUp\",\"content\":\"three\"},{\"id\":13,\"mode\":\"write\",\"entry\":{\"kind\":"
        "\"app.note\",\"model\":[{\"role\":\"user\",\"content\":\"n\"}]}}]}");
    run_model_say(&w.model, run_text("second"));
    run_model_say(&w.model, run_text("third"));
    run_model_release(&w.model);
    assert_string_equal(world_answer(&w, one), "first");
    assert_string_equal(world_answer(&w, two), "second");
    assert_string_equal(world_answer(&w, three), "third");
    assert_int_equal(status(&w, note), TC_SUBMISSION_DONE);
    /* writes first, then one follow-up */
    assert_string_equal(world_kinds(&w), "pi.user pi.system pi.assistant:stop app.note pi.user "
                                         "pi.assistant:stop pi.user pi.assistant:stop");
    CHECK_JSON(world_doc(&w, &tci_inbox_doc), "{\"items\":[]}");
    world_done(&w);
}

static void mode_all_takes_them_together(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    w.settings.follow_up_mode = TC_QUEUE_ALL;
    world_open(&w);
    (void)begin_held(&w);
    uint64_t two = world_say(&w, "two"), three = world_say(&w, "three");
    run_model_say(&w.model, run_text("both"));
    run_model_release(&w.model);
    assert_string_equal(world_answer(&w, two), "both");
    assert_string_equal(world_answer(&w, three), "both");
    world_done(&w);
}

static void steering_joins_after_the_tools(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_call("c1", "held", "{}"));
    run_model_say(&w.model, run_text("steered"));
    run_model_say(&w.model, run_text("later"));
    uint64_t one = world_say(&w, "one");
    world_wait_holding(&w, 1);
    uint64_t after = world_say(&w, "after"),
             steer = world_say_when(&w, "turn left", TC_WHEN_BUSY_STEER);
    world_let(&w);
    assert_string_equal(world_answer(&w, one), "steered");
    assert_string_equal(world_answer(&w, steer), "steered");
    assert_string_equal(world_answer(&w, after), "later");
    assert_true(has_text(tci_str(w.model.requests[1]), "turn left"));
    assert_false(has_text(tci_str(w.model.requests[1]), "\"after\""));
    world_done(&w);
}

static void busy_may_refuse(void **state)
{
    world w;
    const tc_user_input input = {
        .size = sizeof input, .text = TC_STR("x"), .when_busy = TC_WHEN_BUSY_REJECT};
    uint64_t id;
    (void)state;
    world_init(&w);
    world_open(&w);
    uint64_t one = begin_held(&w);
    FAILS(TC_E_BUSY, tc_conversation_submit(w.h, NULL, w.root, &input, &id, err));
    run_model_release(&w.model);
    assert_string_equal(world_answer(&w, one), "first");
    world_done(&w);
}

static void queued_can_be_taken_back_and_placed_cannot(void **state)
{
    world w;
    tc_abort_answer answer;
    (void)state;
    world_init(&w);
    world_open(&w);
    uint64_t one = begin_held(&w), two = world_say(&w, "two");
    OK(tc_submission_abort(w.h, NULL, two, &answer, err));
    assert_int_equal(answer, TC_ABORT_ABORTED);
    assert_string_equal(reason(&w, two), "aborted");
    OK(tc_submission_abort(w.h, NULL, two, &answer, err));
    assert_int_equal(answer, TC_ABORT_SETTLED);
    OK(tc_submission_abort(w.h, NULL, one, &answer, err));
    assert_int_equal(answer, TC_ABORT_ALREADY_PLACED);
    OK(tc_submission_abort(w.h, NULL, 99999, &answer, err));
    assert_int_equal(answer, TC_ABORT_NOT_FOUND);
    CHECK_JSON(world_doc(&w, &tci_inbox_doc), "{\"items\":[]}");
    run_model_release(&w.model);
    assert_string_equal(world_answer(&w, one), "first");
    world_done(&w);
}

static void abort_keeps_writes_and_what_was_streamed(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_hold(&w.model, run_text("half an answer"), 4);
    uint64_t one = world_say(&w, "one");
    run_model_wait_held(&w.model, 1);
    uint64_t two = world_say(&w, "two");
    uint64_t note = write_entry(
        &w, "{\"kind\":\"app.note\",\"model\":[{\"role\":\"user\",\"content\":\"n\"}]}");
    OK(tc_conversation_abort(w.h, NULL, w.root, false, err));
    assert_string_equal(reason(&w, one), "aborted");
    assert_string_equal(reason(&w, two), "aborted");
    assert_int_equal(status(&w, note), TC_SUBMISSION_QUEUED);
    assert_string_equal(world_kinds(&w), "pi.user pi.system pi.assistant:aborted");
    CHECK_JSON(world_doc(&w, &tci_live_doc), "{}");
    run_model_say(&w.model, run_text("fine"));
    assert_string_equal(world_answer(&w, world_say(&w, "three")), "fine");
    assert_int_equal(status(&w, note), TC_SUBMISSION_DONE);
    assert_false(has_text(tci_str(last_request(&w)), "half"));
    world_done(&w);
}

static void reset_while_idle_begins_anew(void **state)
{
    world w;
    uint64_t id;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_text("a"));
    run_model_say(&w.model, run_text("b"));
    assert_string_equal(world_answer(&w, world_say(&w, "old words")), "a");
    OK(tc_conversation_reset(w.h, NULL, w.root, TC_STR("what matters"), &id, err));
    assert_int_equal(status(&w, id), TC_SUBMISSION_DONE);
    assert_string_equal(world_answer(&w, world_say(&w, "new words")), "b");
    assert_false(has_text(tci_str(last_request(&w)), "old words"));
    assert_true(has_text(tci_str(last_request(&w)), "what matters"));
    assert_true(has_text(tci_str(last_request(&w)), "toolsAdded")); /* a fresh baseline */
    world_done(&w);
}

static void reset_while_busy_ends_the_run_after_its_tools(void **state)
{
    world w;
    uint64_t reset;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_call("c1", "held", "{}"));
    run_model_say(&w.model, run_text("b"));
    uint64_t one = world_say(&w, "one");
    world_wait_holding(&w, 1);
    OK(tc_conversation_reset(w.h, NULL, w.root, TC_STR(""), &reset, err));
    uint64_t two = world_say(&w, "two");
    world_let(&w);
    assert_string_equal(reason(&w, one), "reset");
    assert_string_equal(world_answer(&w, two), "b");
    assert_false(has_text(tci_str(last_request(&w)), "\"one\""));
    world_done(&w);
}

static void head_write_before_the_range_is_stale(void **state)
{
    world w;
    uint64_t id;
    char draft[128];
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_text("a"));
    (void)world_answer(&w, world_say(&w, "one"));
    OK(tc_conversation_reset(w.h, NULL, w.root, TC_STR(""), &id, err));
    assert_string_equal(reason(&w, write_entry(&w, "{\"kind\":\"app.head\",\"head\":7}")), "stale");
    (void)snprintf(draft, sizeof draft, "{\"kind\":\"app.head\",\"head\":\"self\"}");
    assert_string_equal(reason(&w, write_entry(&w, draft)), "done");
    world_done(&w);
}

static void display_only_write_is_placed_while_busy(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    uint64_t one = begin_held(&w);
    uint64_t note = write_entry(&w, "{\"kind\":\"app.note\",\"data\":{\"n\":1}}");
    assert_int_equal(status(&w, note), TC_SUBMISSION_DONE);
    run_model_release(&w.model);
    assert_string_equal(world_answer(&w, one), "first");
    assert_string_equal(world_kinds(&w), "pi.user pi.system app.note pi.assistant:stop");
    world_done(&w);
}

static void bad_drafts_are_refused(void **state)
{
    static const char *const drafts[] = {
        "{}",
        "{\"kind\":\"\"}",
        "{\"kind\":\"a\",\"more\":1}",
        "{\"kind\":\"a\",\"head\":\"other\"}",
        "{\"kind\":\"a\",\"head\":null}",
        "{\"kind\":\"a\",\"model\":[{\"content\":\"x\"}]}",
        "{\"kind\":\"a\",\"edits\":[{\"target\":1,\"action\":\"replace\"}]}",
        "[1]",
        "{"};
    world w;
    uint64_t id;
    tc_user_input input = {
        .size = sizeof input, .text = TC_STR("x"), .entry_kind = TC_STR("pi.mine")};
    (void)state;
    world_init(&w);
    world_open(&w);
    for (size_t i = 0; i < sizeof drafts / sizeof drafts[0]; i++)
        FAILS(TC_E_INVALID,
              tc_conversation_write(w.h, NULL, w.root, tci_str(drafts[i]), TC_STR(""), &id, err));
    FAILS(TC_E_INVALID, tc_conversation_submit(w.h, NULL, w.root, &input, &id, err));
    input.entry_kind = TC_STR("");
    FAILS(TC_E_NOT_FOUND, tc_conversation_submit(w.h, NULL, 77, &input, &id, err));
    assert_int_equal(world_nentries(&w), 0);
    world_done(&w);
}

static void an_input_may_have_a_kind_of_its_own(void **state)
{
    world w;
    uint64_t id;
    const tc_user_input input = {.size = sizeof input,
                                 .content = TC_STR("[{\"type\":\"text\",\"text\":\"hi\"}]"),
                                 .entry_kind = TC_STR("app.mail"),
                                 .entry_data = TC_STR("{\"from\":\"me\"}")};
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_text("ok"));
    OK(tc_conversation_submit(w.h, NULL, w.root, &input, &id, err));
    assert_string_equal(world_answer(&w, id), "ok");
    CHECK_JSON(
        world_entry(&w, 0),
        "{\"id\":7,\"conversationId\":1,\"kind\":\"app.mail\",\"data\":{\"from\":\"me\"},\"model\":"
        "[{"
        "\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"timestamp\":1}]}");
    world_done(&w);
}

static void failed_run(tc_after_failed_run policy, const char *queued_reason)
{
    world w;
    world_init(&w);
    w.settings.after_failed_run = policy;
    world_open(&w);
    run_model_hold(&w.model, run_error("invalid request"), -1);
    uint64_t one = world_say(&w, "one");
    run_model_wait_held(&w.model, 1);
    uint64_t two = world_say(&w, "two");
    if (policy == TC_FAILED_RUN_CONTINUE)
        run_model_say(&w.model, run_text("fine"));
    run_model_release(&w.model);
    assert_string_equal(reason(&w, one), "model_error");
    if (policy == TC_FAILED_RUN_KEEP) {
        world_idle(&w);
        assert_int_equal(status(&w, two), TC_SUBMISSION_QUEUED);
        run_model_say(&w.model, run_text("fine"));
        run_model_say(&w.model, run_text("fine too"));
        uint64_t three = world_say(&w, "three");
        assert_string_equal(world_answer(&w, two), "fine");
        assert_string_equal(world_answer(&w, three), "fine too");
    } else {
        assert_string_equal(reason(&w, two), queued_reason);
    }
    world_done(&w);
}

static void failed_run_keeps_what_is_queued(void **state)
{
    (void)state;
    failed_run(TC_FAILED_RUN_KEEP, "");
}

static void failed_run_may_go_on_or_withdraw(void **state)
{
    (void)state;
    failed_run(TC_FAILED_RUN_CONTINUE, "done");
    failed_run(TC_FAILED_RUN_WITHDRAW, "run_failed");
}

static void no_model_ends_the_run(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    w.model.is_missing = true;
    assert_string_equal(reason(&w, world_say(&w, "one")), "no_model");
    OK(tc_conversation_configure(w.h, NULL, w.root, TC_STR("{\"model\":null}"), err));
    assert_string_equal(reason(&w, world_say(&w, "two")), "no_model");
    CHECK_JSON(world_doc(&w, &tci_live_doc), "{}");
    world_done(&w);
}

static void fork_shares_the_past_and_has_its_own_future(void **state)
{
    world w;
    uint64_t fork;
    const tc_conversation_options options = {.size = sizeof options,
                                             .agent = TC_STR("{\"instructions\":\"Be kind.\"}")};
    tc_context_view view;
    tc_submission s;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_text("a"));
    run_model_say(&w.model, run_text("in the fork"));
    world_wait(&w, world_say(&w, "one"), &s);
    world_idle(&w);
    OK(tc_conversation_fork(w.h, NULL, w.root, s.entry, &options, &fork, err));
    const tc_user_input input = {.size = sizeof input, .text = TC_STR("other")};
    uint64_t id;
    OK(tc_conversation_submit(w.h, NULL, fork, &input, &id, err));
    world_wait(&w, id, &s);
    assert_int_equal(s.status, TC_SUBMISSION_DONE);
    assert_true(has_text(tci_str(last_request(&w)), "\"one\""));
    assert_true(has_text(tci_str(last_request(&w)), "Be kind."));
    assert_false(has_text(tci_str(last_request(&w)), "\"text\":\"a\""));
    OK(tc_conversation_context(w.h, &TC_CALL(NULL, w.r), w.root, 0, &view, err));
    assert_int_equal(view.nentries, 3);
    FAILS(TC_E_NOT_FOUND, tc_conversation_fork(w.h, NULL, w.root, 99999, NULL, &fork, err));
    world_done(&w);
}

typedef struct waiting {
    world *w;
    uint64_t id;
    int rc;
} waiting;

static void wait_in_thread(void *arg)
{
    waiting *x = arg;
    tc_result *r;
    tc_submission s;
    tc_err e;
    assert_int_equal(tc_result_new(&r, &e), 0);
    x->rc = tc_submission_wait(x->w->h, &TC_CALL(NULL, r), x->id, &s, &e);
    tc_result_free(r);
}

static void closing_ends_the_waits(void **state)
{
    world w;
    tci_thread *thread;
    tc_submission s;
    tc_ctx *ctx;
    (void)state;
    world_init(&w);
    world_open(&w);
    waiting x = {.w = &w, .id = begin_held(&w)};
    OK(tc_ctx_new(-1, &ctx, err));
    tc_ctx_cancel(ctx);
    FAILS(TC_E_CANCELLED, tc_submission_wait(w.h, &TC_CALL(ctx, w.r), x.id, &s, err));
    tc_ctx_reset(ctx, 5);
    FAILS(TC_E_TIMEOUT, tc_submission_wait(w.h, &TC_CALL(ctx, w.r), x.id, &s, err));
    tc_ctx_free(ctx);
    OK(tci_thread_new(wait_in_thread, &x, 0, &thread, err));
    OK(tc_harness_close(w.h, err));
    tci_thread_join(thread);
    assert_int_equal(x.rc, TC_E_CLOSED);
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follow_ups_have_a_run_each),
        cmocka_unit_test(mode_all_takes_them_together),
        cmocka_unit_test(steering_joins_after_the_tools),
        cmocka_unit_test(busy_may_refuse),
        cmocka_unit_test(queued_can_be_taken_back_and_placed_cannot),
        cmocka_unit_test(abort_keeps_writes_and_what_was_streamed),
        cmocka_unit_test(reset_while_idle_begins_anew),
        cmocka_unit_test(reset_while_busy_ends_the_run_after_its_tools),
        cmocka_unit_test(head_write_before_the_range_is_stale),
        cmocka_unit_test(display_only_write_is_placed_while_busy),
        cmocka_unit_test(bad_drafts_are_refused),
        cmocka_unit_test(an_input_may_have_a_kind_of_its_own),
        cmocka_unit_test(failed_run_keeps_what_is_queued),
        cmocka_unit_test(failed_run_may_go_on_or_withdraw),
        cmocka_unit_test(no_model_ends_the_run),
        cmocka_unit_test(fork_shares_the_past_and_has_its_own_future),
        cmocka_unit_test(closing_ends_the_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
