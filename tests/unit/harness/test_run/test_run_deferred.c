/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers that come later: the model gives a handle, which is asked about until the answer is there, over
 * any number of restarts, and given up when nobody wants the answer any more. */
#include "run_world.h"

#include "base/json.h"
#include "plat/clock.h"
#include <stdio.h>

enum { POLLS_MAX = 8 };

/* What one poll says. */
typedef struct poll_step {
    const char *message; /* NULL: it fails */
    bool is_held;        /* until far_release, or its end */
} poll_step;

typedef struct far {
    world w;
    poll_step polls[POLLS_MAX];
    char handles[POLLS_MAX][256];
    atomic_uint npolls, ncancels, nheld, nreleased, nended;
    atomic_bool may_defer, is_cancel_failing;
    char cancelled[256];
    int (*ask)(void *user, tc_ctx *ctx, const tc_model_request *q, const tc_model_sink *sink,
               tc_result *r, tc_str *ret, tc_err *err);
    tci_wake wake;
} far;

static far *far_of(void *user)
{
    return TCI_CONTAINER((run_model *)user, far, w.model);
}

static int ask(void *user, tc_ctx *ctx, const tc_model_request *q, const tc_model_sink *sink,
               tc_result *r, tc_str *ret, tc_err *err)
{
    far *f = far_of(user);
    atomic_store(&f->may_defer, q->may_defer);
    return f->ask(user, ctx, q, sink, r, ret, err);
}

static int hold(far *f, tc_ctx *ctx, tc_err *err)
{
    unsigned mine = atomic_fetch_add(&f->nheld, 1);
    int rc = 0;
    tci_wake_all(&f->wake);
    while (rc == 0 && atomic_load(&f->nreleased) <= mine) {
        unsigned seen = tci_wake_count(&f->wake);
        rc = tci_ctx_check(ctx, err);
        if (rc == 0)
            tci_wake_wait(&f->wake, seen, tci_clock_mono_ns() + 5000000); /* ctx has another word */
    }
    atomic_fetch_add(&f->nended, 1);
    tci_wake_all(&f->wake);
    return rc;
}

static int fetch(void *user, tc_ctx *ctx, const tc_model *model, tc_str handle, tc_result *r,
                 tc_str *ret, tc_err *err)
{
    far *f = far_of(user);
    unsigned n = atomic_fetch_add(&f->npolls, 1);
    assert_true(n < POLLS_MAX);
    assert_true(tci_str_eq(model->id, TC_STR("faux-1")));
    (void)snprintf(f->handles[n], sizeof f->handles[n], "%.*s", TC_STR_ARG(handle));
    if (f->polls[n].is_held && hold(f, ctx, err) < 0)
        return err->code;
    if (f->polls[n].message == NULL)
        return tc_err_set(err, TC_E_IO, "nobody there");
    return tc_result_dup(r, tci_str(f->polls[n].message), ret, err);
}

static int cancel(void *user, tc_ctx *ctx, const tc_model *model, tc_str handle, tc_err *err)
{
    far *f = far_of(user);
    (void)model;
    atomic_fetch_add(&f->ncancels, 1);
    (void)snprintf(f->cancelled, sizeof f->cancelled, "%.*s", TC_STR_ARG(handle));
    tc_err ended;
    assert_int_equal(tci_ctx_check(ctx, &ended), 0); /* it may be waited for */
    return atomic_load(&f->is_cancel_failing) ? tc_err_set(err, TC_E_IO, "cannot be reached") : 0;
}

static void far_init(far *f)
{
    memset(f, 0, sizeof *f);
    world_init(&f->w);
    f->ask = f->w.model.models.ask;
    f->w.model.models.ask = ask;
    f->w.model.models.fetch_deferred = fetch;
    f->w.model.models.cancel_deferred = cancel;
    f->w.settings.stream = TC_STR("{\"deferred\":true}");
}

static const char *later(const char *handle)
{
    static char ring[8][512];
    static unsigned at;
    char *s = ring[at++ % 8];
    (void)snprintf(
        s, sizeof ring[0],
        "{\"role\":\"assistant\",\"content\":[],\"api\":\"faux\",\"provider\":\"faux\","
        "\"model\":\"faux-1\",\"usage\":{\"input\":0,\"output\":0,\"cacheRead\":0,"
        "\"cacheWrite\":0,\"totalTokens\":0},\"stopReason\":\"deferred\",\"deferred\":%s,"
        "\"timestamp\":1000}",
        handle);
    return s;
}

#define SOON "{\"id\":\"d1\",\"pollAfterMs\":1,\"exact\":1.50}"
#define HOUR "{\"id\":\"d1\",\"pollAfterMs\":3600000}"

static void wait_count(far *f, const atomic_uint *count, unsigned n)
{
    for (;;) {
        unsigned seen = tci_wake_count(&f->wake);
        if (atomic_load(count) >= n)
            return;
        tci_wake_wait(&f->wake, seen, tci_clock_mono_ns() + 5000000);
    }
}

static void wait_live(far *f, const char *text)
{
    while (!has_text(world_doc(&f->w, &tci_live_doc), text))
        tci_wake_wait(&f->wake, tci_wake_count(&f->wake), tci_clock_mono_ns() + 2000000);
}

/* The time until which the generation sleeps; 0: it does not. */
static int64_t look_at_sleep(far *f)
{
    tc_inspection seen;
    const tc_json *v;
    int64_t until = 0, poll_at = 0;
    OK(tc_harness_inspect(f->w.h, NULL, f->w.r, &seen, err));
    assert_int_equal(seen.ntasks, 1);
    OK(tc_json_parse(f->w.r, seen.tasks[0].record, &v, err));
    if (!tci_json_as_i64(tc_json_find(v, "/state/until"), &until))
        return 0;
    assert_true(tci_json_as_i64(tc_json_find(v, "/state/checkpoint/pollAt"), &poll_at));
    assert_int_equal(until, poll_at);
    return until;
}

static int64_t sleeps_until(far *f)
{
    int64_t until = look_at_sleep(f);
    assert_true(until > 0);
    return until;
}

static void polls_until_the_answer_is_there(void **state)
{
    far f;
    tc_watch *watch;
    tc_frame frame;
    size_t npolls = 0;
    bool is_over = false;
    (void)state;
    far_init(&f);
    world_open(&f.w);
    OK(tc_conversation_watch_events(f.w.h, NULL, f.w.root, &watch, err));
    run_model_say(&f.w.model, later(SOON));
    f.polls[0].message = later("{\"id\":\"d2\",\"pollAfterMs\":1}");
    f.polls[1].message = later("{\"id\":\"d2\",\"pollAfterMs\":1}");
    f.polls[2].message = run_text("fine");
    assert_string_equal(world_answer(&f.w, world_say(&f.w, "go")), "fine");
    world_idle(&f.w);
    assert_true(atomic_load(&f.may_defer));
    assert_int_equal(run_model_asked(&f.w.model), 1);
    assert_int_equal(atomic_load(&f.npolls), 3);
    assert_string_equal(f.handles[0], SOON); /* as it was given */
    assert_string_equal(f.handles[1], "{\"id\":\"d2\",\"pollAfterMs\":1}");
    assert_int_equal(atomic_load(&f.ncancels), 0);
    assert_string_equal(world_kinds(&f.w), "pi.user pi.system pi.assistant:stop");
    assert_true(has_text(world_doc(&f.w, &tci_usage_doc), "\"totalTokens\":15"));
    CHECK_JSON(world_doc(&f.w, &tci_live_doc), "{}");
    while (!is_over) {
        OK(tc_watch_next(watch, NULL, &frame, err));
        npolls += count_text(frame.ops, "\"deferred_poll\"");
        is_over = has_text(frame.ops, "\"run_end\"");
    }
    assert_int_equal(npolls, 3);
    tc_watch_free(watch);
    world_done(&f.w);
}

static void nothing_is_deferred_unless_it_may_be(void **state)
{
    far f;
    (void)state;
    far_init(&f);
    f.w.settings.stream = TC_STR("{}");
    world_open(&f.w);
    run_model_say(&f.w.model, run_text("fine"));
    (void)world_answer(&f.w, world_say(&f.w, "go"));
    assert_false(atomic_load(&f.may_defer));
    world_done(&f.w);
}

static void deferred_calls_are_made(void **state)
{
    far f;
    (void)state;
    far_init(&f);
    world_open(&f.w);
    run_model_say(&f.w.model, later(SOON));
    f.polls[0].message = run_call("c1", "echo", "{\"text\":\"x\"}");
    run_model_say(&f.w.model, later(SOON));
    f.polls[1].message = run_text("fine");
    assert_string_equal(world_answer(&f.w, world_say(&f.w, "go")), "fine");
    assert_string_equal(world_kinds(&f.w),
                        "pi.user pi.system pi.assistant:toolUse pi.tool-result pi.assistant:stop");
    world_done(&f.w);
}

/* Without a word of when, after five seconds; never at the time of the poll before. */
static void time_of_the_next_poll(void **state)
{
    far f;
    (void)state;
    far_init(&f);
    world_open(&f.w);
    run_model_say(&f.w.model, later("{\"id\":\"d1\"}"));
    int64_t before = tc_harness_now(f.w.h);
    (void)world_say(&f.w, "go");
    wait_live(&f, "\"deferred\"");
    int64_t until = sleeps_until(&f), after = tc_harness_now(f.w.h);
    assert_true(until >= before + 5000 && until <= after + 5000);
    f.polls[0].message = later("{\"id\":\"d1\",\"pollAfterMs\":0}");
    f.polls[1].message = later(HOUR);
    f.polls[0].is_held = true;
    atomic_store(&f.w.clock, until); /* it is time */
    OK(tc_harness_resume(f.w.h, err));
    wait_count(&f, &f.nheld, 1);
    atomic_store(&f.w.clock, until - 10); /* a clock that was set back */
    atomic_fetch_add(&f.nreleased, 1);
    tci_wake_all(&f.wake);
    wait_count(&f, &f.npolls, 2);
    world_done(&f.w);
}

/* ---- restarts ---- */

static void reopen(far *f, bool is_kill)
{
    if (is_kill)
        world_kill(&f->w);
    else
        world_close(&f->w);
    world_open(&f->w);
}

static void sleep_between_polls_survives(void **state)
{
    for (int is_kill = 0; is_kill < 2; is_kill++) {
        far f;
        (void)state;
        far_init(&f);
        world_open(&f.w);
        run_model_say(&f.w.model, later(HOUR));
        f.polls[0].message = run_text("fine");
        uint64_t id = world_say(&f.w, "go");
        wait_live(&f, "\"deferred\"");
        int64_t until = sleeps_until(&f);
        reopen(&f, is_kill);
        OK(tc_harness_resume(f.w.h, err));
        assert_int_equal(sleeps_until(&f), until);
        assert_int_equal(atomic_load(&f.npolls), 0);
        atomic_store(&f.w.clock, until);
        OK(tc_harness_resume(f.w.h, err));
        assert_string_equal(world_answer(&f.w, id), "fine");
        assert_string_equal(f.handles[0], HOUR);
        assert_int_equal(run_model_asked(&f.w.model), 1);
        assert_int_equal(atomic_load(&f.ncancels), 0);
        world_done(&f.w);
    }
}

static void poll_that_was_cut_off_is_made_again(void **state)
{
    for (int is_kill = 0; is_kill < 2; is_kill++) {
        far f;
        (void)state;
        far_init(&f);
        world_open(&f.w);
        run_model_say(&f.w.model, later(SOON));
        f.polls[0].is_held = true;
        f.polls[1].message = run_text("fine");
        uint64_t id = world_say(&f.w, "go");
        wait_count(&f, &f.nheld, 1);
        reopen(&f, is_kill);
        assert_int_equal(atomic_load(&f.nended), 1);
        assert_string_equal(world_answer(&f.w, id), "fine");
        assert_int_equal(atomic_load(&f.npolls), 2);
        assert_string_equal(f.handles[1], SOON);
        assert_int_equal(run_model_asked(&f.w.model), 1); /* asked once, whatever happened */
        assert_int_equal(atomic_load(&f.ncancels), 0);
        assert_string_equal(world_kinds(&f.w), "pi.user pi.system pi.assistant:stop");
        world_done(&f.w);
    }
}

/* ---- giving up ---- */

static void check_aborted(far *f, uint64_t id)
{
    tc_submission s;
    world_wait(&f->w, id, &s);
    assert_true(tci_str_eq(s.reason, TC_STR("aborted")));
    assert_int_equal(atomic_load(&f->ncancels), 1);
    assert_string_equal(f->cancelled, HOUR);
    assert_string_equal(world_kinds(&f->w), "pi.user pi.system");
    CHECK_JSON(world_doc(&f->w, &tci_live_doc), "{}");
}

static void abort_between_polls_cancels(void **state)
{
    far f;
    (void)state;
    far_init(&f);
    world_open(&f.w);
    run_model_say(&f.w.model, later(HOUR));
    uint64_t id = world_say(&f.w, "go");
    wait_live(&f, "\"deferred\"");
    OK(tc_conversation_abort(f.w.h, NULL, f.w.root, false, err));
    check_aborted(&f, id);
    world_done(&f.w);
}

static void abort_during_a_poll_ends_it_and_cancels(void **state)
{
    far f;
    (void)state;
    far_init(&f);
    world_open(&f.w);
    run_model_say(&f.w.model, later(SOON));
    f.polls[0].message = later(HOUR);
    f.polls[1].is_held = true;
    uint64_t id = world_say(&f.w, "go");
    wait_live(&f, "\"deferred\"");
    wait_count(&f, &f.npolls, 1);
    while (look_at_sleep(&f) < tc_harness_now(f.w.h) + 1000000)
        tci_wake_wait(&f.wake, tci_wake_count(&f.wake), tci_clock_mono_ns() + 1000000);
    atomic_store(&f.w.clock, sleeps_until(&f));
    OK(tc_harness_resume(f.w.h, err));
    wait_count(&f, &f.nheld, 1);
    OK(tc_conversation_abort(f.w.h, NULL, f.w.root, false, err));
    assert_int_equal(atomic_load(&f.nended), 1);
    check_aborted(&f, id);
    world_done(&f.w);
}

/* Whoever was killed with the mark stored cancels when he is back. */
static void abort_that_was_cut_off_cancels_later(void **state)
{
    far f;
    bool is_terminal;
    tc_inspection seen;
    (void)state;
    far_init(&f);
    world_open(&f.w);
    run_model_say(&f.w.model, later(HOUR));
    uint64_t id = world_say(&f.w, "go");
    wait_live(&f, "\"deferred\"");
    reopen(&f, true); /* nothing runs yet */
    OK(tc_harness_inspect(f.w.h, NULL, f.w.r, &seen, err));
    OK(tc_harness_abort_task(f.w.h, NULL, seen.tasks[0].id, &is_terminal, err));
    assert_int_equal(atomic_load(&f.ncancels), 0);
    reopen(&f, true);
    world_idle(&f.w);
    check_aborted(&f, id);
    world_done(&f.w);
}

static void cancel_that_fails_is_told_and_the_run_ends(void **state)
{
    far f;
    (void)state;
    far_init(&f);
    atomic_store(&f.is_cancel_failing, true);
    world_open(&f.w);
    run_model_say(&f.w.model, later(HOUR));
    uint64_t id = world_say(&f.w, "go");
    wait_live(&f, "\"deferred\"");
    OK(tc_conversation_abort(f.w.h, NULL, f.w.root, false, err));
    check_aborted(&f, id);
    world_wait_report(&f.w, "host_error  cannot be reached");
    world_done(&f.w);
}

/* ---- failures ---- */

static void poll_that_breaks_faults_the_run(void **state)
{
    far f;
    tc_submission s;
    (void)state;
    far_init(&f);
    world_open(&f.w);
    run_model_say(&f.w.model, later(SOON)); /* and the poll has no answer */
    world_wait(&f.w, world_say(&f.w, "go"), &s);
    assert_true(tci_str_eq(s.reason, TC_STR("faulted")));
    assert_true(has_text(s.detail, "nobody there"));
    CHECK_JSON(world_doc(&f.w, &tci_live_doc), "{}");
    world_done(&f.w);
}

static void error_that_comes_of_a_poll_is_an_answer(void **state)
{
    far f;
    tc_submission s;
    (void)state;
    far_init(&f);
    f.w.settings.retry.base_delay_ms = 1;
    world_open(&f.w);
    run_model_say(&f.w.model, later(SOON));
    f.polls[0].message = run_error("503 overloaded"); /* asked anew */
    run_model_say(&f.w.model, later(SOON));
    f.polls[1].message = run_text("fine");
    assert_string_equal(world_answer(&f.w, world_say(&f.w, "go")), "fine");
    assert_int_equal(run_model_asked(&f.w.model), 2);
    run_model_say(&f.w.model, later(SOON));
    f.polls[2].message = run_error("400 no such answer");
    world_wait(&f.w, world_say(&f.w, "again"), &s);
    assert_true(tci_str_eq(s.reason, TC_STR("model_error")));
    assert_true(has_text(s.detail, "no such answer"));
    assert_int_equal(atomic_load(&f.ncancels), 0);
    world_done(&f.w);
}

static void model_that_is_gone_ends_the_run(void **state)
{
    for (int is_method = 0; is_method < 2; is_method++) {
        far f;
        tc_submission s;
        (void)state;
        far_init(&f);
        world_open(&f.w);
        run_model_say(&f.w.model, later(HOUR));
        uint64_t id = world_say(&f.w, "go");
        wait_live(&f, "\"deferred\"");
        int64_t until = sleeps_until(&f);
        world_close(&f.w);
        if (is_method)
            f.w.model.models.fetch_deferred = NULL;
        else
            f.w.model.is_missing = true;
        atomic_store(&f.w.clock, until);
        world_open(&f.w);
        world_wait(&f.w, id, &s);
        assert_true(tci_str_eq(s.reason, TC_STR("no_model")));
        CHECK_JSON(world_doc(&f.w, &tci_live_doc), "{}");
        world_done(&f.w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(polls_until_the_answer_is_there),
        cmocka_unit_test(nothing_is_deferred_unless_it_may_be),
        cmocka_unit_test(deferred_calls_are_made),
        cmocka_unit_test(time_of_the_next_poll),
        cmocka_unit_test(sleep_between_polls_survives),
        cmocka_unit_test(poll_that_was_cut_off_is_made_again),
        cmocka_unit_test(abort_between_polls_cancels),
        cmocka_unit_test(abort_during_a_poll_ends_it_and_cancels),
        cmocka_unit_test(abort_that_was_cut_off_cancels_later),
        cmocka_unit_test(cancel_that_fails_is_told_and_the_run_ends),
        cmocka_unit_test(poll_that_breaks_faults_the_run),
        cmocka_unit_test(error_that_comes_of_a_poll_is_an_answer),
        cmocka_unit_test(model_that_is_gone_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
