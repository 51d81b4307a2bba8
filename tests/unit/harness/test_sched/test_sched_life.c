/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of tasks within one process: phases, waits, sleeps, faults, aborts, hand over. */
#include "sched_world.h"

#include <stdio.h>
#include <string.h>

static world *the_world; /* of the test that runs */

static int set_up(void **state)
{
    static world w;
    world_init(&w, "");
    *state = the_world = &w;
    return 0;
}

static int tear_down(void **state)
{
    world_done(*state);
    return 0;
}

#define INSTALL(w, ...)                                                      \
    do {                                                                     \
        const tc_task_def *const defs_[] = {__VA_ARGS__};                    \
        world_install((w), "test", defs_, sizeof(defs_) / sizeof(defs_[0])); \
    } while (0)

static void assert_get(world *w, uint64_t id, const char *pointer, const char *want)
{
    assert_string_equal(world_get(w, id, pointer), want);
}

/* ---- phases ---- */

static int two_start(tc_task *t, tc_err *err)
{
    const tc_task_info *now = tc_task_current(t);
    world_effect(the_world, "start %.*s", TC_STR_ARG(now->input));
    return next_phase(t, "{\"phase\":\"end\",\"n\":1}", err);
}
static int two_end(tc_task *t, tc_err *err)
{
    world_effect(the_world, "end %.*s", TC_STR_ARG(tc_task_current(t)->checkpoint));
    return next_done(t, "{\"ok\":true}", err);
}
DEF(two, "t.two", 1, {"start", two_start}, {"end", two_end});

static void nothing_runs_before_resume_and_phases_run_in_order(void **state)
{
    world *w = *state;
    INSTALL(w, &two);
    world_open(w);
    uint64_t id = world_task(w, &two, "{\"a\":9007199254740993}");
    assert_string_equal(world_state(w, id), "ready");
    assert_int_equal(w->neffects, 0);
    assert_get(w, id, "/state", "{\"status\":\"pending\",\"checkpoint\":{\"phase\":\"start\"}}");
    world_wait_task(w, id); /* implies scheduling */
    assert_int_equal(w->neffects, 2);
    assert_string_equal(w->effects[0].text, "start {\"a\":9007199254740993}");
    assert_string_equal(w->effects[1].text, "end {\"phase\":\"end\",\"n\":1}");
    assert_get(w, id, "/state",
               "{\"status\":\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":{\"ok\":"
               "true}}}");
    assert_string_not_equal(world_get(w, id, "/startedAt"), "");
    assert_string_not_equal(world_get(w, id, "/endedAt"), "");
    assert_string_equal(world_state(w, id), "none");
}

static int same_start(tc_task *t, tc_err *err)
{
    return next_phase(t, "{\"phase\":\"start\"}", err);
}
static int lazy_start(tc_task *t, tc_err *err)
{
    (void)t;
    (void)err;
    return 0;
}
static int bad_start(tc_task *t, tc_err *err)
{
    (void)t;
    return tc_err_set(err, TC_E_INVALID, "it \"broke\"");
}
static int lost_start(tc_task *t, tc_err *err)
{
    return next_phase(t, "{\"phase\":\"nowhere\"}", err);
}
DEF(same, "t.same", 1, {"start", same_start});
DEF(lazy, "t.lazy", 1, {"start", lazy_start});
DEF(bad, "t.bad", 1, {"start", bad_start});
DEF(lost, "t.lost", 1, {"start", lost_start});

static void phases_without_progress_and_failing_ones_fault_and_are_reported(void **state)
{
    world *w = *state;
    INSTALL(w, &same, &lazy, &bad, &lost);
    world_open(w);
    uint64_t a = world_task(w, &same, "1"), b = world_task(w, &lazy, "1"),
             c = world_task(w, &bad, "1"), d = world_task(w, &lost, "1");
    world_wait_idle(w, 0);
    const char *stuck = "\"task t.same phase start returned without durable progress\"";
    assert_get(w, a, "/state/outcome/error/message", stuck);
    assert_get(w, b, "/state/outcome/status", "\"faulted\"");
    assert_get(w, c, "/state/outcome/error/message", "\"it \\\"broke\\\"\"");
    assert_get(w, d, "/state/outcome/error/message", "\"task t.lost has no phase nowhere\"");
    world_wait_report(w, "task_faulted threw t.same");
    world_wait_report(w, "task_faulted threw t.bad");
    world_wait_report(w, "task_faulted threw t.lost");
}

/* A bad state is refused and changes nothing; the handler may do better. */
static int picky_start(tc_task *t, tc_err *err)
{
    static const char *const bad_points[] = {"{}", "[]", "{\"phase\":1}", "{",
                                             "{\"phase\":\"x\"}}"};
    tc_err no;
    for (size_t i = 0; i < sizeof(bad_points) / sizeof(bad_points[0]); i++)
        if (next_phase(t, bad_points[i], &no) != TC_E_INVALID)
            return tc_err_set(err, TC_E_INVALID, "point %zu was taken", i);
    if (tc_task_sleep_until(t, -1, TC_STR("{\"phase\":\"x\"}"), &no) != TC_E_INVALID)
        return tc_err_set(err, TC_E_INVALID, "a time before time was taken");
    uint64_t nobody = 9999;
    if (next_wait(t, "{\"phase\":\"x\"}", &nobody, 1, TC_WAIT_ALL_SETTLED, &no) != TC_E_INVALID)
        return tc_err_set(err, TC_E_INVALID, "a wait for nobody was taken");
    if (next_done(t, "{\"a\"}", &no) != TC_E_INVALID)
        return tc_err_set(err, TC_E_INVALID, "a broken result was taken");
    if (next_done(t, "1e400", err) < 0)
        return err->code;
    if (next_done(t, "2", &no) != TC_E_CLOSED)
        return tc_err_set(err, TC_E_INVALID, "a second end was taken");
    return 0;
}
DEF(picky, "t.picky", 1, {"start", picky_start});

static void bad_states_are_refused_and_the_first_good_end_counts(void **state)
{
    world *w = *state;
    INSTALL(w, &picky);
    world_open(w);
    uint64_t id = world_task(w, &picky, "1");
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome", "{\"status\":\"completed\",\"result\":1e400}");
    assert_int_equal(w->nreports, 0);
}

/* ---- children and waits ---- */

static gate leaf_gate;
static int leaf_start(tc_task *t, tc_err *err)
{
    tc_str input = tc_task_current(t)->input;
    world_effect(the_world, "leaf %.*s", TC_STR_ARG(input));
    if (tci_str_eq(input, TC_STR("\"fail\"")))
        return tc_task_next(t,
                            &(tc_next){.kind = TC_NEXT_FAILED,
                                       .message = TC_STR("no money"),
                                       .detail = TC_STR("{\"code\":7}")},
                            err);
    if (tci_str_eq(input, TC_STR("\"hang\"")) && gate_pass(&leaf_gate, t, err) < 0)
        return err->code;
    return next_done(t, "\"paid\"", err);
}
static int leaf_abort(tc_task *t, tc_err *err)
{
    world_effect(the_world, "abort %.*s", TC_STR_ARG(tc_task_current(t)->input));
    return tc_task_next(t, &(tc_next){.kind = TC_NEXT_ABORTED, .reason = TC_STR("told to")}, err);
}
static const tc_task_phase leaf_phases[] = {{"start", leaf_start}};
static tc_task_def leaf = {.size = sizeof(tc_task_def),
                           .name = "t.leaf",
                           .version = 1,
                           .initial = initial_start,
                           .phases = leaf_phases,
                           .nphases = 1,
                           .abort = leaf_abort};

/* input: {"leaves":[...],"failFast":bool} */
static int family_start(tc_task *t, tc_err *err)
{
    const tc_json *input;
    tc_tx *tx;
    uint64_t ids[8];
    bool is_fail_fast = false;
    if (tc_json_parse(tc_task_result(t), tc_task_current(t)->input, &input, err) < 0 ||
        tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    (void)tc_json_as_bool(tc_json_get(input, TC_STR("failFast")), &is_fail_fast);
    const tc_json *leaves = tc_json_get(input, TC_STR("leaves"));
    tc_task_options options = TC_TASK_OPTIONS;
    options.owner_task_id = tc_task_current(t)->id;
    for (size_t i = 0; i < tc_json_count(leaves); i++) {
        tc_str text;
        if (tc_json_text(tc_json_item(leaves, i), tc_task_result(t), &text, err) < 0 ||
            tc_tx_create_task_of(tx, &leaf, text, &options, &ids[i], err) < 0) {
            tc_tx_rollback(tx);
            return err->code;
        }
    }
    return tc_task_commit(
        t, tx,
        &(tc_next){.kind = TC_NEXT_WAITING,
                   .checkpoint = TC_STR("{\"phase\":\"collect\"}"),
                   .on = ids,
                   .non = tc_json_count(leaves),
                   .policy = is_fail_fast ? TC_WAIT_FAIL_FAST : TC_WAIT_ALL_SETTLED},
        err);
}
static int family_collect(tc_task *t, tc_err *err)
{
    world_effect(the_world, "collect");
    return next_done(t, "\"all\"", err);
}
DEF(family, "t.family", 1, {"start", family_start}, {"collect", family_collect});

static void a_waiting_task_goes_on_when_all_of_its_list_have_ended(void **state)
{
    world *w = *state;
    INSTALL(w, &family, &leaf);
    world_open(w);
    uint64_t id = world_task(w, &family, "{\"leaves\":[1,\"fail\",3]}");
    world_wait_task(w, id);
    assert_int_equal(w->neffects, 4);
    assert_string_equal(w->effects[3].text, "collect");
    assert_get(w, id, "/state/outcome/status", "\"completed\"");
    assert_get(
        w, id + 2, "/state/outcome",
        "{\"status\":\"failed\",\"error\":{\"message\":\"no money\",\"detail\":{\"code\":7}}}");
}

static void a_fail_fast_wait_aborts_the_others_when_one_fails(void **state)
{
    world *w = *state;
    memset(&leaf_gate, 0, sizeof(leaf_gate));
    INSTALL(w, &family, &leaf);
    world_open(w);
    uint64_t id =
        world_task(w, &family, "{\"failFast\":true,\"leaves\":[\"hang\",\"hang\",\"fail\"]}");
    world_wait_task(w, id);
    assert_int_equal(world_count(w, "abort \"hang\""), 2);
    assert_get(w, id + 1, "/state/outcome", "{\"status\":\"aborted\",\"reason\":\"told to\"}");
    assert_get(w, id, "/state/outcome/status", "\"completed\"");
}

static void aborting_the_owner_aborts_what_it_owns_first(void **state)
{
    world *w = *state;
    memset(&leaf_gate, 0, sizeof(leaf_gate));
    INSTALL(w, &family, &leaf);
    world_open(w);
    uint64_t id = world_task(w, &family, "{\"leaves\":[\"hang\",\"hang\"]}");
    world_resume(w);
    gate_wait(&leaf_gate, 2);
    while (strcmp(world_state(w, id), "waiting") != 0)
        ; /* its handler returns a moment after its commit */
    assert_false(world_abort(w, id));
    world_wait_task(w, id);
    assert_int_equal(world_count(w, "abort \"hang\""), 2);
    assert_int_equal(world_count(w, "collect"), 0);
    assert_get(w, id, "/state/outcome/status", "\"aborted\"");
    assert_get(w, id + 1, "/abortRequested", "true");
    assert_true(world_abort(w, id)); /* "terminal" */
}

/* A task that ends before its own work is completing until that is gone. */
static int early_start(tc_task *t, tc_err *err)
{
    uint64_t id;
    if (tc_task_create(t, &leaf, TC_STR("\"hang\""), false, &id, err) < 0)
        return err->code;
    return next_done(t, "\"early\"", err);
}
DEF(early, "t.early", 1, {"start", early_start});

static void an_end_is_held_until_owned_work_is_gone(void **state)
{
    world *w = *state;
    memset(&leaf_gate, 0, sizeof(leaf_gate));
    INSTALL(w, &early, &leaf);
    world_open(w);
    uint64_t id = world_task(w, &early, "1");
    world_resume(w);
    gate_wait(&leaf_gate, 1);
    while (strcmp(world_get(w, id, "/state/status"), "\"completing\"") != 0)
        ;
    assert_get(w, id, "/memos", "");
    gate_open(&leaf_gate, 1);
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome", "{\"status\":\"completed\",\"result\":\"early\"}");
}

/* ---- waits in circles ---- */

static atomic_ullong other_id;
static gate circle_gate;
static int circle_first(tc_task *t, tc_err *err)
{
    if (gate_pass(&circle_gate, t, err) < 0)
        return err->code;
    uint64_t on = atomic_load(&other_id);
    return next_wait(t, "{\"phase\":\"done\"}", &on, 1, TC_WAIT_ALL_SETTLED, err);
}
static int circle_done(tc_task *t, tc_err *err)
{
    return next_done(t, "1", err);
}
DEF(circle, "t.circle", 1, {"start", circle_first}, {"done", circle_done});
DEF(closer, "t.closer", 1, {"start", circle_first}, {"done", circle_done});

static void a_wait_that_would_never_end_is_refused_with_its_circle(void **state)
{
    world *w = *state;
    memset(&circle_gate, 0, sizeof(circle_gate));
    INSTALL(w, &circle, &closer);
    world_open(w);
    uint64_t a = world_task(w, &circle, "1");
    world_resume(w);
    gate_wait(&circle_gate, 1);
    uint64_t b = world_task(w, &closer, "1");
    atomic_store(&other_id, b);
    gate_wait(&circle_gate, 2);
    gate_open(&circle_gate, 1); /* a waits for b */
    while (strcmp(world_state(w, a), "waiting") != 0)
        ;
    atomic_store(&other_id, a);
    gate_open(&circle_gate, 1); /* and b may not wait for a */
    world_wait_idle(w, 0);
    char want[200];
    (void)snprintf(want, sizeof(want),
                   "\"task %llu cannot wait on %llu: %llu -> %llu -> %llu is a wait cycle\"",
                   (unsigned long long)b, (unsigned long long)a, (unsigned long long)b,
                   (unsigned long long)a, (unsigned long long)b);
    assert_get(w, b, "/state/outcome/error/message", want);
    assert_get(w, a, "/state/outcome/status", "\"completed\"");
}

/* ---- memos ---- */

static int memo_start(tc_task *t, tc_err *err)
{
    tc_str first, second;
    bool is_known;
    if (tc_task_get_memo(t, TC_STR("who"), &is_known, &first, err) < 0)
        return err->code;
    if (is_known)
        return tc_err_set(err, TC_E_INVALID, "a memo out of nothing");
    if (tc_task_memo(t, TC_STR("who"), TC_STR("{\"n\":1e400}"), &first, err) < 0 ||
        tc_task_memo(t, TC_STR("who"), TC_STR("\"late\""), &second, err) < 0 ||
        tc_task_memo(t, TC_STR("other"), TC_STR("null"), &first, err) < 0)
        return err->code;
    world_effect(the_world, "memo %.*s", TC_STR_ARG(second));
    if (tc_task_get_memo(t, TC_STR("other"), &is_known, &first, err) < 0)
        return err->code;
    world_effect(the_world, "other %d %.*s", is_known, TC_STR_ARG(first));
    return next_done(t, "1", err);
}
DEF(memo, "t.memo", 1, {"start", memo_start});

static void the_first_value_of_a_memo_stays_and_memos_go_with_the_end(void **state)
{
    world *w = *state;
    INSTALL(w, &memo);
    world_open(w);
    uint64_t id = world_task(w, &memo, "1");
    world_wait_task(w, id);
    assert_int_equal(world_count(w, "memo {\"n\":1e400}"), 1);
    assert_int_equal(world_count(w, "other 1 null"), 1);
    assert_get(w, id, "/state/outcome/status", "\"completed\"");
    assert_get(w, id, "/memos", "");
}

/* ---- sleeping ---- */

static int nap_start(tc_task *t, tc_err *err)
{
    return tc_task_sleep_until(t, tc_task_now(t) + 30, TC_STR("{\"phase\":\"awake\"}"), err);
}
static int nap_awake(tc_task *t, tc_err *err)
{
    world_effect(the_world, "awake");
    return next_done(t, "1", err);
}
DEF(nap, "t.nap", 1, {"start", nap_start}, {"awake", nap_awake});

static void a_sleeping_task_wakes_by_itself(void **state)
{
    world *w = *state;
    INSTALL(w, &nap);
    world_open(w);
    uint64_t id = world_task(w, &nap, "1");
    world_wait_task(w, id);
    assert_int_equal(world_count(w, "awake"), 1);
}

static void on_wake(void *user, const tc_wake *wake)
{
    world *w = user;
    tci_mutex_lock(&w->lock);
    w->last_wake = *wake;
    w->nwakes++;
    tci_mutex_unlock(&w->lock);
    tci_wake_all(&w->wake);
}

static void a_host_that_keeps_the_time_is_told_when_and_resumes(void **state)
{
    world *w = *state;
    w->options.on_wake = on_wake;
    atomic_store(&w->now, 1000);
    INSTALL(w, &nap);
    world_open(w);
    uint64_t id = world_task(w, &nap, "1");
    world_resume(w);
    for (;;) {
        unsigned seen = tci_wake_count(&w->wake);
        tci_mutex_lock(&w->lock);
        tc_wake last = w->last_wake;
        tci_mutex_unlock(&w->lock);
        if (!last.is_active && last.at_ms == 1030)
            break;
        tci_wake_wait(&w->wake, seen, 0);
    }
    assert_string_equal(world_state(w, id), "sleeping");
    tc_wake now = tc_harness_wake(w->h);
    assert_false(now.is_active);
    assert_int_equal(now.at_ms, 1030);
    atomic_store(&w->now, 1030);
    assert_true(tc_harness_wake(w->h).is_active);
    world_resume(w);
    world_wait_task(w, id);
    assert_int_equal(world_count(w, "awake"), 1);
}

static void an_abort_ends_a_sleep(void **state)
{
    world *w = *state;
    atomic_store(&w->now, 1000);
    INSTALL(w, &nap);
    world_open(w);
    uint64_t id = world_task(w, &nap, "1");
    world_resume(w);
    while (strcmp(world_state(w, id), "sleeping") != 0)
        ;
    world_abort(w, id);
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome/status", "\"aborted\"");
    assert_int_equal(world_count(w, "awake"), 0);
}

/* ---- the pool ---- */

/* Waits in place for a child, which waits for its own, and so on. */
DEF(deep, "t.deep", 1, {"start", NULL});
static int deep_start(tc_task *t, tc_err *err)
{
    uint64_t left = 0, id;
    const tc_json *v;
    tc_str record;
    char input[32];
    if (tc_json_parse(tc_task_result(t), tc_task_current(t)->input, &v, err) < 0)
        return err->code;
    (void)tc_json_as_u64(v, &left);
    if (left > 0) {
        (void)snprintf(input, sizeof(input), "%llu", (unsigned long long)left - 1);
        if (tc_task_create(t, &deep, lit(input), false, &id, err) < 0)
            return err->code;
        /* as a handler waits, and as any code it calls may */
        if ((left % 2 == 0 ? tc_task_wait(t, id, &record, err)
                           : tc_harness_wait_task(tc_task_harness(t), tc_task_ctx(t), id,
                                                  tc_task_result(t), &record, err)) < 0)
            return err->code;
    }
    world_effect(the_world, "deep %llu", (unsigned long long)left);
    return next_done(t, "1", err);
}
static const tc_task_phase deep_start_phases[] = {{"start", deep_start}};

static void a_pool_full_of_waiters_lets_others_run(void **state)
{
    world *w = *state;
    w->options.max_running = 2;
    deep.phases = deep_start_phases;
    INSTALL(w, &deep);
    world_open(w);
    uint64_t a = world_task(w, &deep, "8"), b = world_task(w, &deep, "8");
    world_wait_task(w, a);
    world_wait_task(w, b);
    assert_int_equal(world_count(w, "deep 0"), 2);
    assert_int_equal(world_count(w, "deep 8"), 2);
    assert_int_equal(w->nreports, 0);
}

static void no_more_run_at_once_than_allowed(void **state)
{
    world *w = *state;
    memset(&leaf_gate, 0, sizeof(leaf_gate));
    w->options.max_running = 2;
    INSTALL(w, &leaf);
    world_open(w);
    uint64_t ids[6];
    for (size_t i = 0; i < 6; i++)
        ids[i] = world_task(w, &leaf, "\"hang\"");
    world_resume(w);
    for (unsigned i = 0; i < 6; i++) {
        gate_wait(&leaf_gate, i < 5 ? i + 2 : 6);
        assert_true(atomic_load(&leaf_gate.narrived) <= i + 2);
        gate_open(&leaf_gate, 1);
    }
    for (size_t i = 0; i < 6; i++)
        world_wait_task(w, ids[i]);
}

/* ---- abort ---- */

static int stubborn_abort(tc_task *t, tc_err *err)
{
    tc_err no;
    uint64_t on = tc_task_current(t)->id;
    if (next_wait(t, "{\"phase\":\"x\"}", &on, 1, TC_WAIT_ALL_SETTLED, &no) != TC_E_INVALID ||
        tc_task_sleep_until(t, 1, TC_STR("{\"phase\":\"x\"}"), &no) != TC_E_INVALID)
        return tc_err_set(err, TC_E_INVALID, "an abort handler could wait");
    return 0;
}
static gate phase_gate;
static int gated_start(tc_task *t, tc_err *err)
{
    tc_err no;
    (void)gate_pass(&phase_gate, t, &no);
    world_effect(the_world, "cancelled %d", tc_ctx_is_cancelled(tc_task_ctx(t)));
    return next_done(t, "1", err);
}
DEF(stubborn, "t.stubborn", 1, {"start", gated_start});

static void a_marked_phase_cannot_commit_and_an_abort_handler_must_end_it(void **state)
{
    world *w = *state;
    memset(&phase_gate, 0, sizeof(phase_gate));
    stubborn.abort = stubborn_abort;
    INSTALL(w, &stubborn);
    world_open(w);
    uint64_t id = world_task(w, &stubborn, "1");
    world_resume(w);
    gate_wait(&phase_gate, 1);
    assert_false(world_abort(w, id)); /* returns when the phase has ended */
    assert_int_equal(world_count(w, "cancelled 1"), 1);
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome/status", "\"faulted\"");
    char want[120];
    (void)snprintf(want, sizeof(want),
                   "\"abort handler of task %llu returned without a terminal outcome\"",
                   (unsigned long long)id);
    assert_get(w, id, "/state/outcome/error/message", want);
    world_wait_report(w, "task_faulted threw t.stubborn");
}

static void aborting_a_task_nothing_can_run_orphans_it_at_once(void **state)
{
    world *w = *state;
    world_open(w);
    uint64_t id = world_task(w, &two, "1");
    world_resume(w);
    assert_string_equal(world_state(w, id), "blocked missing_task");
    assert_false(world_abort(w, id));
    assert_get(w, id, "/state/outcome", "{\"status\":\"orphaned\",\"reason\":\"missing_task\"}");
}

static void an_aborted_task_without_a_start_never_runs_a_phase(void **state)
{
    world *w = *state;
    INSTALL(w, &leaf);
    world_open(w);
    uint64_t id = world_task(w, &leaf, "5");
    assert_false(world_abort(w, id)); /* while paused */
    assert_get(w, id, "/abortRequested", "true");
    world_wait_task(w, id);
    assert_int_equal(w->neffects, 1);
    assert_string_equal(w->effects[0].text, "abort 5");
}

static int keeper_start(tc_task *t, tc_err *err)
{
    uint64_t id;
    const uint64_t *ids;
    size_t n;
    tc_str outcome;
    if (tc_task_create(t, &leaf, TC_STR("\"hang\""), false, &id, err) < 0 ||
        tc_task_owned(t, &ids, &n, err) < 0)
        return err->code;
    if (n != 1 || ids[0] != id)
        return tc_err_set(err, TC_E_INVALID, "it owns %zu", n);
    if (tc_task_outcome(t, id, &outcome, err) != TC_E_CONFLICT)
        return tc_err_set(err, TC_E_INVALID, "an outcome too early");
    if (tc_task_abort_owned(t, tc_task_current(t)->id, err) != TC_E_INVALID)
        return tc_err_set(err, TC_E_INVALID, "it owns itself");
    if (tc_task_abort_owned(t, id, err) < 0 || tc_task_outcome(t, id, &outcome, err) < 0)
        return err->code;
    world_effect(the_world, "outcome %.*s", TC_STR_ARG(outcome));
    return next_done(t, "1", err);
}
DEF(keeper, "t.keeper", 1, {"start", keeper_start});

static void a_task_ends_what_it_owns_and_reads_how_it_ended(void **state)
{
    world *w = *state;
    memset(&leaf_gate, 0, sizeof(leaf_gate));
    INSTALL(w, &keeper, &leaf);
    world_open(w);
    uint64_t id = world_task(w, &keeper, "1");
    world_wait_task(w, id);
    assert_get(w, id, "/state/outcome/status", "\"completed\"");
    assert_int_equal(world_count(w, "outcome {\"status\":\"aborted\",\"reason\":\"told to\"}"), 1);
}

/* ---- closing ---- */

static void a_close_ends_handlers_and_waits(void **state)
{
    world *w = *state;
    memset(&leaf_gate, 0, sizeof(leaf_gate));
    INSTALL(w, &leaf);
    world_open(w);
    uint64_t id = world_task(w, &leaf, "\"hang\"");
    world_resume(w);
    gate_wait(&leaf_gate, 1);
    tc_err err;
    tc_str record;
    assert_int_equal(tc_harness_close(w->h, &err), 0);
    assert_int_equal(tc_harness_close(w->h, &err), 0);
    assert_int_equal(tc_harness_wait_task(w->h, NULL, id, w->r, &record, &err), TC_E_CLOSED);
    assert_int_equal(tc_harness_wait_idle(w->h, NULL, 0, &err), TC_E_CLOSED);
    assert_int_equal(tc_harness_resume(w->h, &err), TC_E_CLOSED);
    assert_int_equal(w->nreports, 0);
}

static void a_wait_says_of_what_the_session_failed_case_77(void **state)
{
    world *w = *state;
    memset(&leaf_gate, 0, sizeof(leaf_gate));
    INSTALL(w, &leaf);
    world_open(w);
    uint64_t id = world_task(w, &leaf, "\"hang\"");
    world_resume(w);
    gate_wait(&leaf_gate, 1);
    tc_err err;
    tc_str record;
    (void)tc_err_set(&err, TC_E_NO_SPACE, "no room left");
    tci_durable_fail(tc_harness_session(w->h), &err);
    assert_int_equal(tc_harness_wait_task(w->h, NULL, id, w->r, &record, &err), TC_E_NO_SPACE);
    assert_string_equal(err.msg, "no room left");
    assert_int_equal(tc_harness_wait_idle(w->h, NULL, 0, &err), TC_E_NO_SPACE);
    assert_int_equal(tc_harness_resume(w->h, &err), TC_E_NO_SPACE);
}

static void a_wait_ends_with_its_context(void **state)
{
    world *w = *state;
    INSTALL(w, &nap);
    world_open(w);
    atomic_store(&w->now, 1000);
    uint64_t id = world_task(w, &nap, "1");
    tc_ctx *ctx;
    tc_err err;
    tc_str record;
    assert_int_equal(tc_ctx_new(20, &ctx, &err), 0);
    assert_int_equal(tc_harness_wait_task(w->h, ctx, id, w->r, &record, &err), TC_E_TIMEOUT);
    assert_int_equal(tc_harness_wait_idle(w->h, ctx, w->root, &err), TC_E_TIMEOUT);
    tc_ctx_free(ctx);
    assert_int_equal(tc_harness_wait_task(w->h, NULL, 4711, w->r, &record, &err), TC_E_NOT_FOUND);
}

/* ---- hand over ---- */

static gate hand_gate;
static int hand_start(tc_task *t, tc_err *err)
{
    const char *whose = tc_task_user(t);
    if (gate_pass(&hand_gate, t, err) < 0)
        return err->code;
    world_effect(the_world, "%s start", whose);
    return next_phase(t, "{\"phase\":\"second\"}", err);
}
static int hand_second(tc_task *t, tc_err *err)
{
    world_effect(the_world, "%s second", (const char *)tc_task_user(t));
    return next_done(t, "1", err);
}
static int hand_abort(tc_task *t, tc_err *err)
{
    world_effect(the_world, "%s abort", (const char *)tc_task_user(t));
    return abort_plain(t, err);
}
static int hand_migrate(void *user, tc_str input, tc_str checkpoint, uint64_t from, tc_result *r,
                        tc_str *ret_input, tc_str *ret_checkpoint, tc_err *err)
{
    world_effect(the_world, "%s migrates %.*s from %llu", (const char *)user,
                 TC_STR_ARG(checkpoint), (unsigned long long)from);
    if (tci_str_eq(input, TC_STR("\"bad\"")))
        return tc_err_set(err, TC_E_INVALID, "cannot");
    *ret_input = TC_STR("\"new\"");
    return tc_result_dup(r, checkpoint, ret_checkpoint, err);
}
static tc_task_def hand_def(const char *whose, uint64_t version)
{
    static const tc_task_phase phases[] = {{"start", hand_start}, {"second", hand_second}};
    return (tc_task_def){.size = sizeof(tc_task_def),
                         .name = "t.hand",
                         .version = version,
                         .initial = initial_start,
                         .phases = phases,
                         .nphases = 2,
                         .abort = hand_abort,
                         .user = (void *)(uintptr_t)whose};
}

static uint64_t hand_begin(world *w, const tc_task_def *old, const char *input)
{
    memset(&hand_gate, 0, sizeof(hand_gate));
    INSTALL(w, old);
    world_open(w);
    uint64_t id = world_task(w, old, input);
    world_resume(w);
    gate_wait(&hand_gate, 1);
    return id;
}

static void another_definition_takes_over_at_the_next_phase(void **state)
{
    world *w = *state;
    tc_task_def old = hand_def("old", 1), fresh = hand_def("fresh", 1);
    uint64_t id = hand_begin(w, &old, "1");
    INSTALL(w, &fresh);
    gate_open(&hand_gate, 1);
    world_wait_task(w, id);
    assert_int_equal(w->neffects, 2);
    assert_string_equal(w->effects[0].text, "old start");
    assert_string_equal(w->effects[1].text, "fresh second");
    world_close(w);
}

static void a_newer_definition_takes_over_with_a_migration(void **state)
{
    world *w = *state;
    tc_task_def old = hand_def("old", 1), fresh = hand_def("fresh", 2);
    fresh.migrate = hand_migrate;
    uint64_t id = hand_begin(w, &old, "1");
    INSTALL(w, &fresh);
    gate_open(&hand_gate, 1);
    world_wait_task(w, id);
    assert_int_equal(world_count(w, "fresh migrates {\"phase\":\"second\"} from 1"), 1);
    assert_int_equal(world_count(w, "fresh second"), 1);
    assert_get(w, id, "/version", "2");
    assert_get(w, id, "/input", "\"new\"");
    world_close(w);
}

static void a_failing_migration_blocks_and_is_tried_again_only_by_another_definition(void **state)
{
    world *w = *state;
    tc_task_def old = hand_def("old", 1), fresh = hand_def("fresh", 2),
                third = hand_def("third", 1);
    fresh.migrate = hand_migrate;
    uint64_t id = hand_begin(w, &old, "\"bad\"");
    INSTALL(w, &fresh);
    gate_open(&hand_gate, 1);
    world_wait_report(w, "migration_failed t.hand");
    assert_string_equal(world_state(w, id), "blocked migration_failed");
    assert_get(w, id, "/state/status", "\"pending\"");
    assert_get(w, id, "/version", "1");
    INSTALL(w, &fresh); /* the same again changes nothing */
    assert_string_equal(world_state(w, id), "blocked migration_failed");
    INSTALL(w, &third);
    world_wait_task(w, id);
    assert_int_equal(world_count(w, "third second"), 1);
    assert_int_equal(world_count_reports(w, "migration_failed t.hand"), 1);
    assert_int_equal(world_count(w, "fresh migrates {\"phase\":\"second\"} from 1"), 1);
    world_close(w);
}

static void a_missing_or_unfit_replacement_leaves_the_old_code_running(void **state)
{
    world *w = *state;
    tc_err err;
    tc_task_def old = hand_def("old", 2), older = hand_def("older", 1);
    uint64_t id = hand_begin(w, &old, "1");
    assert_int_equal(tc_registry_uninstall(w->registry, TC_STR("test"), &err), 0);
    gate_open(&hand_gate, 1);
    world_wait_task(w, id);
    world_wait_report(w, "task_outdated missing_task t.hand");
    assert_int_equal(world_count(w, "old second"), 1);
    INSTALL(w, &old);
    id = world_task(w, &old, "1");
    gate_wait(&hand_gate, 2);
    INSTALL(w, &older);
    gate_open(&hand_gate, 1);
    world_wait_task(w, id);
    world_wait_report(w, "task_outdated incompatible_task t.hand");
    assert_int_equal(world_count(w, "old second"), 2);
    world_close(w);
}

static void a_mark_that_races_the_hand_over_wins_and_the_new_definition_aborts(void **state)
{
    world *w = *state;
    tc_task_def old = hand_def("old", 1), fresh = hand_def("fresh", 1);
    uint64_t id = hand_begin(w, &old, "1");
    INSTALL(w, &fresh);
    world_abort(w, id); /* the gate gives way to it */
    world_wait_task(w, id);
    assert_int_equal(world_count(w, "fresh abort"), 1);
    assert_int_equal(world_count(w, "old second") + world_count(w, "fresh second"), 0);
    world_close(w);
}

static void a_task_name_belongs_to_one_extension(void **state)
{
    world *w = *state;
    tc_err err;
    const tc_task_def *const defs[] = {&two};
    world_install(w, "one", defs, 1);
    assert_int_equal(tc_registry_install_tasks(w->registry, TC_STR("other"), defs, 1, &err),
                     TC_E_CONFLICT);
    assert_int_equal(tc_registry_uninstall(w->registry, TC_STR("other"), &err), TC_E_NOT_FOUND);
    assert_int_equal(tc_registry_uninstall(w->registry, TC_STR("one"), &err), 0);
    world_install(w, "other", defs, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_runs_before_resume_and_phases_run_in_order),
        TEST(phases_without_progress_and_failing_ones_fault_and_are_reported),
        TEST(bad_states_are_refused_and_the_first_good_end_counts),
        TEST(a_waiting_task_goes_on_when_all_of_its_list_have_ended),
        TEST(a_fail_fast_wait_aborts_the_others_when_one_fails),
        TEST(aborting_the_owner_aborts_what_it_owns_first),
        TEST(an_end_is_held_until_owned_work_is_gone),
        TEST(a_wait_that_would_never_end_is_refused_with_its_circle),
        TEST(the_first_value_of_a_memo_stays_and_memos_go_with_the_end),
        TEST(a_sleeping_task_wakes_by_itself),
        TEST(a_host_that_keeps_the_time_is_told_when_and_resumes),
        TEST(an_abort_ends_a_sleep),
        TEST(a_pool_full_of_waiters_lets_others_run),
        TEST(no_more_run_at_once_than_allowed),
        TEST(a_marked_phase_cannot_commit_and_an_abort_handler_must_end_it),
        TEST(aborting_a_task_nothing_can_run_orphans_it_at_once),
        TEST(an_aborted_task_without_a_start_never_runs_a_phase),
        TEST(a_task_ends_what_it_owns_and_reads_how_it_ended),
        TEST(a_close_ends_handlers_and_waits),
        TEST(a_wait_says_of_what_the_session_failed_case_77),
        TEST(a_wait_ends_with_its_context),
        TEST(another_definition_takes_over_at_the_next_phase),
        TEST(a_newer_definition_takes_over_with_a_migration),
        TEST(a_failing_migration_blocks_and_is_tried_again_only_by_another_definition),
        TEST(a_missing_or_unfit_replacement_leaves_the_old_code_running),
        TEST(a_mark_that_races_the_hand_over_wins_and_the_new_definition_aborts),
        TEST(a_task_name_belongs_to_one_extension),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
