/* SPDX-License-Identifier: Apache-2.0
 *
 * Who belongs to whom: what keeps a conversation busy, what an abort reaches, and what of it a crash
 * leaves to be derived again. */
#include "sched_world.h"

#include <stdio.h>
#include <string.h>

static world *the_world;
static const char *the_suffix;
static unsigned the_serial;
static gate hold;

/* Settle what is queued in the conversation; there is no inbox here. */
static int withdraw_inputs(tc_harness *h, tc_tx *tx, uint64_t conversation, tc_str reason,
                           tc_err *err)
{
    tci_arena a;
    tci_submission *found;
    size_t n;
    tci_arena_init(&a, 0);
    int rc = tci_durable_scan_submissions(tci_harness_session(h), conversation,
                                          TCI_SUBMISSION_QUEUED, NULL, &a, &found, &n, NULL, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (found[i].type == TCI_SUBMISSION_INPUT)
            rc = tc_tx_settle_submission(tx, found[i].id, &(tc_settlement){.reason = reason}, err);
    tci_arena_done(&a);
    return rc;
}

static int set_up(void **state)
{
    static world w;
    char path[64];
    (void)snprintf(path, sizeof(path), "owners-%u%s", the_serial++, the_suffix);
    world_init(&w, path);
    w.parts.withdraw_inputs = withdraw_inputs;
    memset(&hold, 0, sizeof(hold));
    *state = the_world = &w;
    return 0;
}

static int tear_down(void **state)
{
    world_done(*state);
    return 0;
}

static void assert_get(world *w, uint64_t id, const char *pointer, const char *want)
{
    assert_string_equal(world_get(w, id, pointer), want);
}

static int hold_start(tc_task *t, tc_err *err)
{
    if (gate_pass(&hold, t, err) < 0)
        return err->code;
    return next_done(t, "1", err);
}
static int hold_abort(tc_task *t, tc_err *err)
{
    world_effect(the_world, "abort %llu", (unsigned long long)tc_task_current(t)->id);
    return abort_plain(t, err);
}
static const tc_task_phase hold_phases[] = {{"start", hold_start}};
static tc_task_def holder = {.size = sizeof(tc_task_def),
                             .name = "t.hold",
                             .version = 1,
                             .initial = initial_start,
                             .phases = hold_phases,
                             .nphases = 1,
                             .abort = hold_abort};

static int quick_start(tc_task *t, tc_err *err)
{
    tc_str input = tc_task_current(t)->input;
    if (tci_str_eq(input, TC_STR("\"fail\"")))
        return tc_task_next(t, &(tc_next){.kind = TC_NEXT_FAILED, .message = TC_STR("failed")},
                            err);
    return next_done(t, "1", err);
}
DEF(quick, "t.quick", 1, {"start", quick_start});

/* A conversation of its own with work in it; then it ends: input "fail" or anything else. */
static atomic_ullong spawned_conversation, spawned_task;
static int parent_start(tc_task *t, tc_err *err)
{
    tc_tx *tx;
    uint64_t conversation, id;
    tc_task_options options = TC_TASK_OPTIONS;
    if (tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    if (tc_tx_create_conversation(tx, tc_task_current(t)->id, &conversation, err) < 0 ||
        (options.conversation_id = conversation,
         tc_tx_create_task_of(tx, &holder, TC_STR("1"), &options, &id, err)) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    atomic_store(&spawned_conversation, conversation);
    atomic_store(&spawned_task, id);
    if (tc_task_commit(t, tx, NULL, err) < 0)
        return err->code;
    bool is_bad = tci_str_eq(tc_task_current(t)->input, TC_STR("\"fail\""));
    return tc_task_next(t,
                        &(tc_next){.kind = is_bad ? TC_NEXT_FAILED : TC_NEXT_COMPLETED,
                                   .message = TC_STR("failed"),
                                   .result = TC_STR("1")},
                        err);
}
DEF(parent, "t.parent", 1, {"start", parent_start});

static void install_all(world *w)
{
    const tc_task_def *const defs[] = {&holder, &quick, &parent};
    world_install(w, "test", defs, 3);
}

static uint64_t held_task(world *w, uint64_t conversation, uint64_t owner, bool is_background)
{
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = conversation;
    options.owner_task_id = owner;
    options.is_background = is_background;
    return world_task_with(w, &holder, "1", &options);
}

static bool is_idle(world *w, uint64_t conversation)
{
    tc_ctx *ctx;
    tc_err err;
    assert_int_equal(tc_ctx_new(0, &ctx, &err), 0);
    int rc = tc_harness_wait_idle(w->h, ctx, conversation, &err);
    tc_ctx_free(ctx);
    assert_true(rc == 0 || rc == TC_E_TIMEOUT);
    return rc == 0;
}

static uint64_t queue_input(world *w, uint64_t conversation)
{
    tc_tx *tx;
    tc_err err;
    uint64_t id;
    assert_int_equal(tc_durable_begin(tc_harness_session(w->h), NULL, &tx, &err), 0);
    assert_int_equal(tc_tx_create_submission(tx, conversation,
                                             TC_STR("{\"type\":\"input\",\"status\":\"queued\"}"),
                                             &id, &err),
                     0);
    assert_int_equal(tc_tx_commit(tx, &err), 0);
    return id;
}

static void assert_submission(world *w, uint64_t id, const char *status)
{
    tc_str json;
    tc_err err;
    const tc_json *v;
    tc_str text;
    assert_int_equal(tc_durable_submission(tc_harness_session(w->h), id, w->r, &json, &err), 0);
    assert_int_equal(tc_json_parse(w->r, json, &v, &err), 0);
    assert_true(tc_json_as_str(tc_json_get(v, TC_STR("status")), &text));
    assert_true(tci_str_eq(text, lit(status)));
}

static void settle(world *w)
{
    /* Passes that are due are over when nothing is active. */
    int64_t until = tci_clock_mono_ns() + INT64_C(20) * 1000 * 1000 * 1000;
    for (;;) {
        tci_mutex_lock(&w->h->lock);
        bool is_busy = tci_reconcile_has_work(w->h) || w->h->nreconciling > 0;
        tci_mutex_unlock(&w->h->lock);
        if (!is_busy)
            return;
        assert_true(tci_clock_mono_ns() < until);
    }
}

/* ---- idle ---- */

static void
a_conversation_is_busy_while_something_is_alive_below_it_also_below_ended_owners(void **state)
{
    world *w = *state;
    install_all(w);
    world_open(w);
    uint64_t id = world_task(w, &parent, "1");
    world_resume(w);
    gate_wait(&hold, 1);
    while (strcmp(world_get(w, id, "/state/status"), "\"completing\"") != 0)
        ;
    assert_false(is_idle(w, w->root));
    assert_false(is_idle(w, 0));
    assert_false(is_idle(w, atomic_load(&spawned_conversation)));
    gate_open(&hold, 1);
    world_wait_task(w, id);
    assert_true(is_idle(w, w->root));
    /* Work that is created later below an owner that has ended, and after a restart */
    uint64_t late = held_task(w, atomic_load(&spawned_conversation), 0, false);
    gate_wait(&hold, 2);
    assert_false(is_idle(w, w->root));
    world_kill(w);
    world_open(w);
    assert_false(is_idle(w, w->root)); /* implies scheduling */
    gate_wait(&hold, 3);
    gate_open(&hold, 2);
    world_wait_task(w, late);
    assert_true(is_idle(w, w->root));
    assert_int_equal(w->h->nodes.count, 0); /* what is not alive is not remembered */
}

static void idle_stops_at_background_work(void **state)
{
    world *w = *state;
    install_all(w);
    world_open(w);
    uint64_t background = held_task(w, w->root, 0, true);
    uint64_t below = held_task(w, 0, background, false);
    world_resume(w);
    gate_wait(&hold, 2);
    assert_true(is_idle(w, w->root));
    assert_true(is_idle(w, 0));
    uint64_t ordinary = held_task(w, w->root, 0, false);
    assert_false(is_idle(w, w->root));
    gate_wait(&hold, 3);
    gate_open(&hold, 3);
    world_wait_task(w, ordinary);
    world_wait_task(w, below);
    world_wait_task(w, background);
}

/* ---- cancellation ---- */

static void
a_mark_reaches_the_ordinary_subtree_and_withdraws_inputs_but_not_background_work(void **state)
{
    world *w = *state;
    install_all(w);
    world_open(w);
    uint64_t top = held_task(w, w->root, 0, false);
    uint64_t inside = world_conversation(w, top);
    uint64_t child = held_task(w, inside, 0, false);
    uint64_t grandchild = held_task(w, 0, child, false);
    uint64_t background = held_task(w, inside, 0, true);
    uint64_t shielded = held_task(w, 0, background, false);
    uint64_t below_background = world_conversation(w, background);
    uint64_t input = queue_input(w, inside), kept = queue_input(w, below_background),
             elsewhere = queue_input(w, w->root);
    world_resume(w);
    gate_wait(&hold, 5);
    world_abort(w, top);
    world_wait_task(w, top);
    assert_get(w, grandchild, "/state/outcome/status", "\"aborted\"");
    assert_get(w, child, "/state/outcome/status", "\"aborted\"");
    assert_int_equal(w->neffects, 3);
    char first[32], last[32];
    (void)snprintf(first, sizeof(first), "abort %llu", (unsigned long long)grandchild);
    (void)snprintf(last, sizeof(last), "abort %llu", (unsigned long long)top);
    assert_string_equal(w->effects[0].text, first); /* from below */
    assert_string_equal(w->effects[2].text, last);
    assert_get(w, background, "/abortRequested", "false");
    assert_get(w, shielded, "/abortRequested", "false");
    settle(w);
    assert_submission(w, input, "unanswered");
    assert_submission(w, kept, "queued");
    assert_submission(w, elsewhere, "queued");
    world_abort(w, background); /* and directly, it takes its own */
    world_wait_task(w, background);
    assert_get(w, shielded, "/state/outcome/status", "\"aborted\"");
    assert_submission(w, kept, "unanswered");
}

static void a_failed_owner_cascades_and_a_completed_one_does_not(void **state)
{
    world *w = *state;
    install_all(w);
    world_open(w);
    uint64_t failing = world_task(w, &parent, "\"fail\"");
    world_wait_task(w, failing);
    uint64_t child = atomic_load(&spawned_task);
    assert_get(w, child, "/state/outcome/status", "\"aborted\"");
    assert_get(w, failing, "/state/outcome/status", "\"failed\"");
    unsigned before = atomic_load(&hold.narrived);
    uint64_t completing = world_task(w, &parent, "1");
    gate_wait(&hold, before + 1);
    settle(w);
    child = atomic_load(&spawned_task);
    assert_get(w, child, "/abortRequested", "false");
    gate_open(&hold, before + 1);
    world_wait_task(w, completing);
    assert_get(w, child, "/state/outcome/status", "\"completed\"");
}

static void work_created_below_a_cancelled_owner_is_marked_when_it_appears(void **state)
{
    world *w = *state;
    install_all(w);
    world_open(w);
    uint64_t top = held_task(w, w->root, 0, false);
    uint64_t child = held_task(w, 0, top, false);
    uint64_t inside = world_conversation(w, child);
    assert_false(world_abort(w, top)); /* paused: only marks */
    settle(w);
    assert_get(w, child, "/abortRequested", "true");
    tc_tx *tx;
    tc_err err;
    tc_task_options options = TC_TASK_OPTIONS;
    uint64_t late;
    options.conversation_id = inside;
    assert_int_equal(tc_durable_begin(tc_harness_session(w->h), NULL, &tx, &err), 0);
    assert_int_equal(tc_tx_create_task_of(tx, &holder, TC_STR("1"), &options, &late, &err), 0);
    assert_int_equal(tc_tx_commit(tx, &err), 0);
    uint64_t input = queue_input(w, inside);
    settle(w);
    assert_get(w, late, "/abortRequested", "true");
    assert_submission(w, input, "unanswered");
    world_wait_task(w, top);
    assert_int_equal(atomic_load(&hold.narrived), 0);
    /* Once the owner has ended, what is created in its conversations stands by itself. */
    late = held_task(w, inside, 0, false);
    gate_wait(&hold, 1);
    gate_open(&hold, 1);
    world_wait_task(w, late);
    assert_get(w, late, "/state/outcome/status", "\"completed\"");
}

static void aborting_a_conversation_keeps_background_work_unless_asked(void **state)
{
    world *w = *state;
    tc_err err;
    install_all(w);
    world_open(w);
    uint64_t ordinary = held_task(w, w->root, 0, false);
    uint64_t background = held_task(w, w->root, 0, true);
    uint64_t input = queue_input(w, w->root);
    world_resume(w);
    gate_wait(&hold, 2);
    assert_int_equal(tci_harness_abort_below(w->h, NULL, NULL, w->root, false, &err), 0);
    assert_get(w, ordinary, "/state/outcome/status", "\"aborted\"");
    assert_get(w, background, "/abortRequested", "false");
    assert_submission(w, input, "unanswered");
    assert_int_equal(tci_harness_abort_below(w->h, NULL, NULL, w->root, true, &err), 0);
    assert_get(w, background, "/state/outcome/status", "\"aborted\"");
}

static void marks_that_a_crash_left_unapplied_are_derived_at_open(void **state)
{
    world *w = *state;
    install_all(w);
    world_open(w);
    uint64_t top = held_task(w, w->root, 0, false);
    uint64_t inside = world_conversation(w, top);
    uint64_t child = held_task(w, inside, 0, false);
    uint64_t input = queue_input(w, inside);
    /* Only the mark itself is stored; the pass that would follow is not made here. */
    tc_tx *tx;
    tc_err err;
    tci_abort what;
    assert_int_equal(tc_durable_begin(tc_harness_session(w->h), NULL, &tx, &err), 0);
    assert_int_equal(tci_tx_stage_abort(w->h, tx, top, false, &what, &err), 0);
    tci_mutex_lock(&w->h->lock);
    w->h->is_stopping = true; /* no thread for passes */
    tci_mutex_unlock(&w->h->lock);
    assert_int_equal(tc_tx_commit(tx, &err), 0);
    world_kill(w);
    world_open(w);
    settle(w); /* while paused */
    assert_get(w, child, "/abortRequested", "true");
    assert_submission(w, input, "unanswered");
    assert_get(w, child, "/state/status", "\"pending\"");
    world_wait_task(w, top);
    assert_int_equal(atomic_load(&hold.narrived), 0);
}

static void an_owner_marked_by_a_restart_passes_the_reason_on(void **state)
{
    world *w = *state;
    install_all(w);
    world_open(w);
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = w->root;
    options.abandon_on_restart = true;
    uint64_t top = world_task_with(w, &holder, "1", &options);
    uint64_t child = held_task(w, 0, top, false);
    world_kill(w);
    world_open(w);
    world_wait_task(w, top);
    assert_get(w, child, "/abortReason", "\"restart\"");
    assert_get(w, top, "/abortReason", "\"restart\"");
}

static void a_mark_of_the_host_replaces_one_of_a_restart(void **state)
{
    world *w = *state;
    world_open(w); /* nothing can run it, so a restart mark stays */
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = w->root;
    options.abandon_on_restart = true;
    uint64_t top = world_task_with(w, &holder, "1", &options);
    uint64_t child = held_task(w, 0, top, false);
    world_kill(w);
    world_open(w);
    world_resume(w);
    while (strcmp(world_get(w, child, "/abortReason"), "\"restart\"") != 0)
        ;
    world_abort(w, top);
    settle(w);
    assert_get(w, top, "/abortReason", "");
    while (strcmp(world_get(w, child, "/abortReason"), "") != 0)
        ;
    world_wait_task(w, top);
    assert_get(w, top, "/state/outcome", "{\"status\":\"orphaned\",\"reason\":\"missing_task\"}");
}

static int on_fault(void *user, tc_harness *h, tc_tx *tx, tc_str record, tc_str outcome,
                    tc_err *err)
{
    (void)user;
    (void)h;
    (void)record;
    uint64_t id;
    world_effect(the_world, "fault %.*s", TC_STR_ARG(outcome));
    return tc_tx_append_entry(tx, TCI_ROOT_ID, TC_STR("{\"kind\":\"t.fault\"}"), &id, err);
}
static int throw_start(tc_task *t, tc_err *err)
{
    (void)t;
    return tc_err_set(err, TC_E_IO, "broken");
}
DEF(thrower, "t.throw", 1, {"start", throw_start});

static void the_definition_joins_the_commit_that_faults_its_task(void **state)
{
    world *w = *state;
    thrower.on_fault = on_fault;
    const tc_task_def *const defs[] = {&thrower};
    world_install(w, "test", defs, 1);
    world_open(w);
    uint64_t id = world_task(w, &thrower, "1");
    world_wait_task(w, id);
    assert_int_equal(
        world_count(w, "fault {\"status\":\"faulted\",\"error\":{\"message\":\"broken\"}}"), 1);
    tc_records entries;
    tc_err err;
    assert_int_equal(
        tc_durable_entries(tc_harness_session(w->h), w->root, 0, 0, NULL, w->r, &entries, &err), 0);
    assert_int_equal(entries.count, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_conversation_is_busy_while_something_is_alive_below_it_also_below_ended_owners),
        TEST(idle_stops_at_background_work),
        TEST(a_mark_reaches_the_ordinary_subtree_and_withdraws_inputs_but_not_background_work),
        TEST(a_failed_owner_cascades_and_a_completed_one_does_not),
        TEST(work_created_below_a_cancelled_owner_is_marked_when_it_appears),
        TEST(aborting_a_conversation_keeps_background_work_unless_asked),
        TEST(marks_that_a_crash_left_unapplied_are_derived_at_open),
        TEST(an_owner_marked_by_a_restart_passes_the_reason_on),
        TEST(a_mark_of_the_host_replaces_one_of_a_restart),
        TEST(the_definition_joins_the_commit_that_faults_its_task),
    };
    the_suffix = ".sqlite";
    int nfailed = cmocka_run_group_tests_name("sqlite", tests, NULL, NULL);
    the_suffix = "";
    return nfailed + cmocka_run_group_tests_name("jsonl", tests, NULL, NULL);
}
