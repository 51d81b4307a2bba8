/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks over the end of their process: what a close and what a crash leaves, and how it goes on. Each
 * test runs over both kinds of files. */
#include "sched_world.h"

#include <stdio.h>
#include <string.h>

static world *the_world;
static const char *the_suffix;
static unsigned the_serial;

static int set_up(void **state)
{
    static world w;
    char path[64];
    (void)snprintf(path, sizeof(path), "session-%u%s", the_serial++, the_suffix);
    world_init(&w, path);
    *state = the_world = &w;
    return 0;
}

static int tear_down(void **state)
{
    world_done(*state);
    return 0;
}

static void install(world *w, const tc_task_def *def)
{
    world_install(w, "test", &def, 1);
}

static void assert_get(world *w, uint64_t id, const char *pointer, const char *want)
{
    assert_string_equal(world_get(w, id, pointer), want);
}

/* ---- a payment: intent, effect, outcome ---- */

static gate pay_gate;   /* between intent and effect */
static gate abort_gate; /* inside the abort handler */
static bool is_abort_gated;

static int pay_start(tc_task *t, tc_err *err)
{
    tc_str key;
    if (tc_task_memo(t, TC_STR("key"), TC_STR("\"k1\""), &key, err) < 0)
        return err->code;
    return next_phase(t, "{\"phase\":\"charge\",\"amount\":7}", err);
}
static int pay_charge(tc_task *t, tc_err *err)
{
    tc_str key;
    bool is_known;
    if (tc_task_get_memo(t, TC_STR("key"), &is_known, &key, err) < 0)
        return err->code;
    world_effect(the_world, "charge %.*s", TC_STR_ARG(tc_task_current(t)->checkpoint));
    if (gate_pass(&pay_gate, t, err) < 0)
        return err->code;
    if (world_count(the_world, "booked \"k1\"") == 0) /* the other side knows the key */
        world_effect(the_world, "booked %.*s", TC_STR_ARG(key));
    return next_done(t, "\"receipt\"", err);
}
static int pay_abort(tc_task *t, tc_err *err)
{
    world_effect(the_world, "abort");
    if (is_abort_gated && gate_pass(&abort_gate, t, err) < 0)
        return err->code;
    return tc_task_next(t, &(tc_next){.kind = TC_NEXT_ABORTED, .result = TC_STR("\"undone\"")},
                        err);
}
static const tc_task_phase pay_phases[] = {{"start", pay_start}, {"charge", pay_charge}};
static tc_task_def pay = {.size = sizeof(tc_task_def),
                          .name = "t.pay",
                          .version = 1,
                          .initial = initial_start,
                          .phases = pay_phases,
                          .nphases = 2,
                          .abort = pay_abort};

/* A payment that is in its charge phase, held there. */
static uint64_t begin_payment(world *w)
{
    memset(&pay_gate, 0, sizeof(pay_gate));
    memset(&abort_gate, 0, sizeof(abort_gate));
    is_abort_gated = false;
    install(w, &pay);
    world_open(w);
    uint64_t id = world_task(w, &pay, "1");
    world_resume(w);
    gate_wait(&pay_gate, 1);
    return id;
}

static void a_task_cut_off_between_intent_and_outcome_goes_on_in_its_phase(void **state)
{
    world *w = *state;
    uint64_t id = begin_payment(w);
    world_kill(w);
    world_open(w);
    assert_string_equal(world_state(w, id), "ready");
    assert_get(w, id, "/state",
               "{\"status\":\"pending\",\"checkpoint\":{\"phase\":\"charge\",\"amount\":7}}");
    assert_get(w, id, "/restarts", "1");
    assert_get(w, id, "/memos", "{\"key\":\"k1\"}");
    assert_int_equal(atomic_load(&pay_gate.narrived), 1); /* nothing runs before resume */
    world_resume(w);
    gate_wait(&pay_gate, 2);
    gate_open(&pay_gate, 2);
    world_wait_task(w, id);
    assert_int_equal(world_count(w, "booked \"k1\""), 1);
    assert_int_equal(world_count(w, "charge {\"phase\":\"charge\",\"amount\":7}"), 2);
    world_kill(w);
    world_open(w);
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome", "{\"status\":\"completed\",\"result\":\"receipt\"}");
    assert_get(w, id, "/restarts", "");
    assert_true(world_abort(w, id));
    assert_int_equal(world_count(w, "booked \"k1\""), 1);
}

static void a_close_counts_no_restart(void **state)
{
    world *w = *state;
    uint64_t id = begin_payment(w);
    world_close(w);
    world_open(w);
    assert_get(w, id, "/state/status", "\"pending\"");
    assert_get(w, id, "/state/checkpoint/phase", "\"charge\"");
    assert_get(w, id, "/restarts", "");
    world_resume(w);
    gate_wait(&pay_gate, 2);
    gate_open(&pay_gate, 2);
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome/status", "\"completed\"");
}

static void after_a_mark_only_the_abort_handler_runs_however_often_it_is_cut_off(void **state)
{
    world *w = *state;
    uint64_t id = begin_payment(w);
    is_abort_gated = true;
    assert_false(world_abort(w, id)); /* the phase has ended */
    gate_wait(&abort_gate, 1);
    world_kill(w);
    world_open(w);
    world_resume(w);
    gate_wait(&abort_gate, 2);
    world_close(w);
    world_open(w);
    assert_get(w, id, "/abortRequested", "true");
    assert_get(w, id, "/restarts", "1"); /* of the kill, not of the close */
    world_resume(w);
    gate_wait(&abort_gate, 3);
    gate_open(&abort_gate, 3);
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome", "{\"status\":\"aborted\",\"result\":\"undone\"}");
    assert_int_equal(world_count(w, "abort"), 3);
    assert_int_equal(atomic_load(&pay_gate.narrived), 1);
    assert_int_equal(world_count(w, "booked \"k1\""), 0);
    world_kill(w);
    world_open(w);
    world_wait_idle(w, 0);
    assert_true(world_abort(w, id));
    assert_int_equal(world_count(w, "abort"), 3);
}

/* That it was taken up the first time need not be stored before it commits something; that it was cut off
 * must be from then on, or it would end its process for ever. */
static void a_phase_that_ends_its_process_before_it_commits_is_given_up(void **state)
{
    enum { LIMIT = 5 };
    static const tc_task_phase phases[] = {{"start", pay_charge}};
    static tc_task_def fatal = {.size = sizeof(tc_task_def),
                                .name = "t.fatal",
                                .version = 1,
                                .initial = initial_start,
                                .phases = phases,
                                .nphases = 1,
                                .abort = pay_abort,
                                .commits_first = true};
    world *w = *state;
    memset(&pay_gate, 0, sizeof(pay_gate));
    is_abort_gated = false;
    install(w, &fatal);
    world_open(w);
    uint64_t id = world_task(w, &fatal, "1");
    for (unsigned n = 1; n <= LIMIT + 2; n++) {
        world_resume(w);
        gate_wait(&pay_gate, n);
        world_kill(w);
        world_open(w);
        if (strcmp(world_get(w, id, "/restarts"), "5") == 0)
            break;
    }
    assert_get(w, id, "/restarts", "5");
    unsigned begun = atomic_load(&pay_gate.narrived);
    assert_in_range(begun, LIMIT, LIMIT + 1);
    world_resume(w);
    assert_string_equal(world_state(w, id), "blocked restart_limit");
    assert_int_equal(atomic_load(&pay_gate.narrived), begun);
}

static void a_reservation_that_was_not_stored_leaves_it_pending(void **state)
{
    world *w = *state;
    memset(&pay_gate, 0, sizeof(pay_gate));
    install(w, &pay);
    world_open(w);
    uint64_t id = world_task(w, &pay, "1");
    world_kill(w); /* while paused: no reservation was made */
    world_open(w);
    assert_get(w, id, "/state/status", "\"pending\"");
    assert_get(w, id, "/restarts", "");
    assert_int_equal(w->neffects, 0);
}

/* ---- definitions that are not there ---- */

static int plain_start(tc_task *t, tc_err *err)
{
    world_effect(the_world, "plain %.*s", TC_STR_ARG(tc_task_current(t)->input));
    return next_done(t, "1", err);
}
DEF(plain, "t.plain", 1, {"start", plain_start});
DEF(plain2, "t.plain", 2, {"start", plain_start});

static void a_missing_definition_keeps_a_task_and_the_session_busy_until_installed(void **state)
{
    world *w = *state;
    world_open(w);
    uint64_t id = world_task(w, &plain, "1");
    world_kill(w);
    world_open(w);
    world_resume(w);
    assert_string_equal(world_state(w, id), "blocked missing_task");
    tc_ctx *ctx;
    tc_err err;
    assert_int_equal(tc_ctx_new(20, &ctx, &err), 0);
    assert_int_equal(tc_harness_wait_idle(w->h, ctx, w->root, &err), TC_E_TIMEOUT);
    tc_ctx_free(ctx);
    install(w, &plain);
    world_wait_idle(w, w->root);
    assert_get(w, id, "/state/outcome/status", "\"completed\"");
}

static void a_record_newer_than_its_definition_waits_for_a_newer_one(void **state)
{
    world *w = *state;
    install(w, &plain);
    world_open(w);
    uint64_t id = world_task(w, &plain2, "1");
    world_resume(w);
    assert_string_equal(world_state(w, id), "blocked task_too_old");
    install(w, &plain2);
    world_wait_task(w, id);
}

static int up_migrate(void *user, tc_str input, tc_str checkpoint, uint64_t from, tc_result *r,
                      tc_str *ret_input, tc_str *ret_checkpoint, tc_err *err)
{
    (void)user;
    (void)input;
    (void)checkpoint;
    char text[32];
    (void)snprintf(text, sizeof(text), "\"from %llu\"", (unsigned long long)from);
    *ret_checkpoint = TC_STR("{\"phase\":\"start\"}");
    return tc_result_dup(r, lit(text), ret_input, err);
}

static void an_older_record_migrates_when_it_is_reserved(void **state)
{
    world *w = *state;
    world_open(w);
    uint64_t id = world_task(w, &plain, "1");
    world_close(w);
    install(w, &plain2);
    world_open(w);
    assert_string_equal(world_state(w, id), "blocked migration_failed"); /* it has none */
    tc_task_def with = plain2;
    with.migrate = up_migrate;
    install(w, &with);
    assert_string_equal(world_state(w, id), "ready migrates");
    assert_get(w, id, "/version", "1");
    world_wait_task(w, id);
    assert_int_equal(world_count(w, "plain \"from 1\""), 1);
    assert_get(w, id, "/version", "2");
    world_close(w);
}

static const tc_doc_def note_doc = {
    .size = sizeof(tc_doc_def), .kind = "t.note", .version = 1, .scope = TC_SCOPE_TASK};

static void aborting_a_blocked_task_orphans_it_and_retires_its_documents(void **state)
{
    world *w = *state;
    tc_err err;
    tc_tx *tx;
    tc_doc *doc;
    world_open(w);
    uint64_t id = world_task(w, &plain, "1");
    assert_int_equal(tc_durable_begin(tc_harness_session(w->h), NULL, &tx, &err), 0);
    assert_int_equal(tc_tx_doc(tx, &note_doc, id, TC_STR(""), TC_STR(""), &doc, &err), 0);
    assert_int_equal(tc_tx_commit(tx, &err), 0);
    world_kill(w);
    world_open(w);
    assert_false(world_abort(w, id));
    assert_get(w, id, "/state/outcome", "{\"status\":\"orphaned\",\"reason\":\"missing_task\"}");
    tc_str text;
    const tc_doc_addr addr = {&note_doc, id, {NULL, 0}};
    assert_int_equal(tc_durable_snapshot(tc_harness_session(w->h), &addr, w->r, &text, &err), 0);
    assert_int_equal(text.len, 0);
}

static void a_marked_task_without_definition_is_orphaned_once_scheduling_resumes(void **state)
{
    world *w = *state;
    uint64_t id = begin_payment(w);
    is_abort_gated = true;
    world_abort(w, id);
    gate_wait(&abort_gate, 1);
    world_kill(w);
    tc_err err;
    assert_int_equal(tc_registry_uninstall(w->registry, TC_STR("test"), &err), 0);
    world_open(w);
    assert_get(w, id, "/state/status", "\"pending\"");
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome", "{\"status\":\"orphaned\",\"reason\":\"missing_task\"}");
}

/* ---- the restart limit ---- */

static void a_task_cut_off_too_often_is_parked_until_retried(void **state)
{
    world *w = *state;
    tc_settings settings;
    tc_settings_init(&settings);
    settings.restart_limit = 2;
    w->options.settings = &settings;
    uint64_t id = begin_payment(w);
    world_kill(w);
    world_open(w);
    assert_int_equal(w->nreports, 0);
    world_resume(w);
    gate_wait(&pay_gate, 2);
    world_kill(w);
    world_open(w);
    world_wait_report(w, "task_parked t.pay");
    assert_string_equal(world_state(w, id), "blocked restart_limit");
    world_resume(w);
    assert_get(w, id, "/restarts", "2");
    assert_get(w, id, "/state/status", "\"pending\"");
    world_close(w); /* which counts nothing */
    world_open(w);
    assert_get(w, id, "/restarts", "2");
    assert_int_equal(atomic_load(&pay_gate.narrived), 2);
    tc_err err;
    assert_int_equal(tc_harness_retry_task(w->h, NULL, id, &err), 0);
    gate_wait(&pay_gate, 3);
    gate_open(&pay_gate, 3);
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome/status", "\"completed\"");
    assert_int_equal(world_count_reports(w, "task_parked t.pay"), 1);
}

static void a_higher_limit_lets_a_parked_task_run(void **state)
{
    world *w = *state;
    tc_settings settings;
    tc_settings_init(&settings);
    settings.restart_limit = 1;
    w->options.settings = &settings;
    uint64_t id = begin_payment(w);
    world_kill(w);
    world_open(w);
    world_resume(w);
    assert_string_equal(world_state(w, id), "blocked restart_limit");
    settings.restart_limit = TC_NO_RESTART_LIMIT;
    world_resume(w);
    gate_wait(&pay_gate, 2);
    gate_open(&pay_gate, 2);
    world_wait_task(w, id);
}

static int slow_start(tc_task *t, tc_err *err)
{
    return gate_pass(&pay_gate, t, err) < 0 ? err->code
                                            : next_phase(t, "{\"phase\":\"next\"}", err);
}
static int slow_next(tc_task *t, tc_err *err)
{
    return gate_pass(&pay_gate, t, err) < 0 ? err->code : next_done(t, "1", err);
}
DEF(slow, "t.slow", 1, {"start", slow_start}, {"next", slow_next});

static void progress_clears_the_count(void **state)
{
    world *w = *state;
    memset(&pay_gate, 0, sizeof(pay_gate));
    install(w, &slow);
    world_open(w);
    uint64_t id = world_task(w, &slow, "1");
    world_resume(w);
    gate_wait(&pay_gate, 1);
    world_kill(w);
    world_open(w);
    assert_get(w, id, "/restarts", "1");
    world_resume(w);
    gate_wait(&pay_gate, 2);
    gate_open(&pay_gate, 2);
    gate_wait(&pay_gate, 3);
    assert_get(w, id, "/restarts", "");
    gate_open(&pay_gate, 1);
    world_wait_task(w, id);
}

/* The same checkpoint again is intent before an effect, not progress. */
static int again_start(tc_task *t, tc_err *err)
{
    if (next_phase(t, "{\"n\":1.0,\"phase\":\"start\"}", err) < 0)
        return err->code;
    return gate_pass(&pay_gate, t, err) < 0 ? err->code : next_done(t, "1", err);
}
static int again_initial(void *user, tc_str input, tc_result *r, tc_str *ret, tc_err *err)
{
    (void)user;
    (void)input;
    return tc_result_dup(r, TC_STR("{\"phase\":\"start\",\"n\":1}"), ret, err);
}
DEF(again, "t.again", 1, {"start", again_start});

static void the_same_checkpoint_again_is_no_progress(void **state)
{
    world *w = *state;
    memset(&pay_gate, 0, sizeof(pay_gate));
    again.initial = again_initial;
    install(w, &again);
    world_open(w);
    uint64_t id = world_task(w, &again, "1");
    world_resume(w);
    for (unsigned n = 1; n <= 3; n++) {
        gate_wait(&pay_gate, n);
        assert_get(w, id, "/state/checkpoint", "{\"n\":1.0,\"phase\":\"start\"}");
        world_kill(w);
        world_open(w);
        char want[8];
        (void)snprintf(want, sizeof(want), "%u", n);
        assert_get(w, id, "/restarts", want);
        world_resume(w);
    }
    gate_wait(&pay_gate, 4);
    gate_open(&pay_gate, 4);
    world_wait_task(w, id);
}

static void an_abort_of_a_parked_task_runs_its_handler(void **state)
{
    world *w = *state;
    tc_settings settings;
    tc_settings_init(&settings);
    settings.restart_limit = 1;
    w->options.settings = &settings;
    uint64_t id = begin_payment(w);
    world_kill(w);
    world_open(w);
    assert_string_equal(world_state(w, id), "blocked restart_limit");
    assert_false(world_abort(w, id));
    assert_get(w, id, "/restarts", "");
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome/status", "\"aborted\"");
}

static void an_abort_handler_cut_off_that_often_faults(void **state)
{
    world *w = *state;
    tc_settings settings;
    tc_settings_init(&settings);
    settings.restart_limit = 2;
    w->options.settings = &settings;
    uint64_t id = begin_payment(w);
    is_abort_gated = true;
    world_abort(w, id);
    for (unsigned n = 1; n <= 2; n++) {
        gate_wait(&abort_gate, n);
        world_kill(w);
        world_open(w);
        world_resume(w);
    }
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome/status", "\"faulted\"");
    assert_get(w, id, "/state/outcome/error/detail", "{\"reason\":\"restart_limit\"}");
    world_wait_report(w, "task_faulted restart_limit t.pay");
    assert_int_equal(world_count(w, "abort"), 2);
}

static int over_limit(tc_task *t, tc_err *err)
{
    tc_err no;
    uint64_t on = tc_task_current(t)->id;
    if (next_wait(t, "{\"phase\":\"x\"}", &on, 1, TC_WAIT_ALL_SETTLED, &no) != TC_E_INVALID)
        return tc_err_set(err, TC_E_INVALID, "it could wait");
    world_effect(the_world, "over %llu", (unsigned long long)tc_task_current(t)->restarts);
    return tc_task_next(t,
                        &(tc_next){.kind = TC_NEXT_FAILED,
                                   .message = TC_STR("cut off too often"),
                                   .detail = TC_STR("{\"reason\":\"restart_limit\"}")},
                        err);
}

static void a_definition_with_an_end_for_the_limit_is_not_parked(void **state)
{
    world *w = *state;
    tc_settings settings;
    tc_settings_init(&settings);
    settings.restart_limit = 1;
    w->options.settings = &settings;
    tc_task_def ending = pay;
    ending.on_restart_limit = over_limit;
    uint64_t id = begin_payment(w);
    install(w, &ending);
    world_kill(w);
    world_open(w);
    assert_string_equal(world_state(w, id), "ready");
    world_wait_task(w, id);
    assert_int_equal(world_count(w, "over 1"), 1);
    assert_get(w, id, "/state/outcome/error/message", "\"cut off too often\"");
    assert_int_equal(atomic_load(&pay_gate.narrived), 1);
    assert_int_equal(w->nreports, 0);
    world_close(w);
}

/* ---- tasks that are not to be resumed ---- */

static int abandoned_abort(tc_task *t, tc_err *err)
{
    world_effect(the_world, "abandoned '%.*s'", TC_STR_ARG(tc_task_current(t)->abort_reason));
    return abort_plain(t, err);
}

static void a_task_that_is_abandoned_on_restart_is_marked_before_anything_runs(void **state)
{
    world *w = *state;
    tc_task_def def = plain;
    def.abort = abandoned_abort;
    install(w, &def);
    world_open(w);
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = w->root;
    options.abandon_on_restart = true;
    uint64_t id = world_task_with(w, &def, "1", &options);
    world_close(w); /* a close is a restart to it too */
    world_open(w);
    assert_get(w, id, "/abortRequested", "false");
    world_wait_task(w, id);
    assert_get(w, id, "/abortReason", "\"restart\"");
    assert_int_equal(world_count(w, "abandoned 'restart'"), 1);
    assert_int_equal(world_count(w, "plain 1"), 0);
    world_close(w);
}

/* ---- sleeping ---- */

static int nap_start(tc_task *t, tc_err *err)
{
    return tc_task_sleep_until(t, 5000, TC_STR("{\"phase\":\"awake\"}"), err);
}
static int nap_awake(tc_task *t, tc_err *err)
{
    world_effect(the_world, "awake at %lld", (long long)tc_task_now(t));
    return next_done(t, "1", err);
}
DEF(nap, "t.nap", 1, {"start", nap_start}, {"awake", nap_awake});

static void a_sleep_survives_and_ends_at_its_time(void **state)
{
    world *w = *state;
    atomic_store(&w->now, 1000);
    install(w, &nap);
    world_open(w);
    uint64_t id = world_task(w, &nap, "1");
    world_resume(w);
    while (strcmp(world_state(w, id), "sleeping") != 0)
        ;
    world_kill(w);
    world_open(w);
    assert_string_equal(world_state(w, id), "sleeping");
    assert_get(w, id, "/restarts", "");
    tc_wake wake = tc_harness_wake(w->h);
    assert_false(wake.is_active);
    assert_int_equal(wake.at_ms, 5000);
    world_resume(w);
    assert_string_equal(world_state(w, id), "sleeping");
    atomic_store(&w->now, 5001);
    world_resume(w);
    world_wait_task(w, id);
    assert_int_equal(world_count(w, "awake at 5001"), 1);
}

static void an_abort_ends_a_sleep_after_a_restart(void **state)
{
    world *w = *state;
    atomic_store(&w->now, 1000);
    install(w, &nap);
    world_open(w);
    uint64_t id = world_task(w, &nap, "1");
    world_resume(w);
    while (strcmp(world_state(w, id), "sleeping") != 0)
        ;
    world_abort(w, id);
    world_kill(w);
    world_open(w);
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome/status", "\"aborted\"");
    assert_int_equal(w->neffects, 0);
}

/* ---- opening ---- */

static int refuse_attach(tc_harness *h, void **ret_state, tc_err *err)
{
    (void)h;
    (void)ret_state;
    return tc_err_set(err, TC_E_DENIED, "not today");
}

static void a_failing_open_lets_go_of_registry_and_storage(void **state)
{
    world *w = *state;
    tc_durable *s;
    tc_harness *h;
    tc_err err;
    const tci_run_parts bad = {.attach = refuse_attach};
    assert_int_equal(tc_durable_open(lit(w->path), NULL, &s, &err), 0);
    assert_int_equal(tci_harness_open_with(s, &w->options, &bad, NULL, &h, &err), TC_E_DENIED);
    tc_ctx *ctx;
    assert_int_equal(tc_ctx_new(-1, &ctx, &err), 0);
    tc_ctx_cancel(ctx);
    assert_int_equal(tc_durable_open(lit(w->path), NULL, &s, &err), 0); /* it is nobody's */
    assert_int_equal(tci_harness_open_with(s, &w->options, NULL, ctx, &h, &err), TC_E_CANCELLED);
    tc_ctx_free(ctx);
    world_open(w);
}

static void opening_without_running_tasks_writes_nothing(void **state)
{
    world *w = *state;
    install(w, &plain);
    world_open(w);
    (void)world_task(w, &plain, "1");
    world_close(w);
    world_open(w);
    assert_int_equal(tc_durable_seq(tc_harness_session(w->h)), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_task_cut_off_between_intent_and_outcome_goes_on_in_its_phase),
        TEST(a_close_counts_no_restart),
        TEST(after_a_mark_only_the_abort_handler_runs_however_often_it_is_cut_off),
        TEST(a_phase_that_ends_its_process_before_it_commits_is_given_up),
        TEST(a_reservation_that_was_not_stored_leaves_it_pending),
        TEST(a_missing_definition_keeps_a_task_and_the_session_busy_until_installed),
        TEST(a_record_newer_than_its_definition_waits_for_a_newer_one),
        TEST(an_older_record_migrates_when_it_is_reserved),
        TEST(aborting_a_blocked_task_orphans_it_and_retires_its_documents),
        TEST(a_marked_task_without_definition_is_orphaned_once_scheduling_resumes),
        TEST(a_task_cut_off_too_often_is_parked_until_retried),
        TEST(a_higher_limit_lets_a_parked_task_run),
        TEST(progress_clears_the_count),
        TEST(the_same_checkpoint_again_is_no_progress),
        TEST(an_abort_of_a_parked_task_runs_its_handler),
        TEST(an_abort_handler_cut_off_that_often_faults),
        TEST(a_definition_with_an_end_for_the_limit_is_not_parked),
        TEST(a_task_that_is_abandoned_on_restart_is_marked_before_anything_runs),
        TEST(a_sleep_survives_and_ends_at_its_time),
        TEST(an_abort_ends_a_sleep_after_a_restart),
        TEST(a_failing_open_lets_go_of_registry_and_storage),
        TEST(opening_without_running_tasks_writes_nothing),
    };
    the_suffix = ".sqlite";
    int nfailed = cmocka_run_group_tests_name("sqlite", tests, NULL, NULL);
    the_suffix = "";
    return nfailed + cmocka_run_group_tests_name("jsonl", tests, NULL, NULL);
}
