/* SPDX-License-Identifier: Apache-2.0
 *
 * Timers of the program: what waits for time waits for them, and for nothing else. */
#include "run_world.h"

#include "base/json.h"
#include "plat/clock.h"
#include <stdio.h>

enum { TIMERS_MAX = 64 };

typedef enum manner { ARM, DECLINE, FAIL, FIRE_AT_ONCE } manner;

typedef struct timing {
    world w; /* first */
    tci_mutex lock;
    tci_wake wake;
    tc_timer timers[TIMERS_MAX]; /* asked for */
    bool is_disarmed[TIMERS_MAX];
    size_t ntimers;
    manner foreground, background;
    tc_extension extension;
    tc_tool tool;
    const tc_tool *tools[1];
    tc_task_def def;
    tc_task_phase phase;
    const tc_task_def *defs[1];
} timing;

static void disarm(void *user, const tc_timer *timer)
{
    timing *t = user;
    tci_mutex_lock(&t->lock);
    for (size_t i = t->ntimers; i-- > 0;) { /* the newest: another harness counts anew */
        if (t->timers[i].id == timer->id) {
            assert_false(t->is_disarmed[i]);
            t->is_disarmed[i] = true;
            break;
        }
    }
    tci_mutex_unlock(&t->lock);
    tci_wake_all(&t->wake);
}

static int set_timer(void *user, const tc_timer *timer, tc_disarm *ret, tc_err *err)
{
    timing *t = user;
    tci_mutex_lock(&t->lock);
    assert_true(t->ntimers < TIMERS_MAX);
    t->timers[t->ntimers++] = *timer;
    manner how = timer->is_background ? t->background : t->foreground;
    tci_mutex_unlock(&t->lock);
    tci_wake_all(&t->wake);
    assert_null(*ret);
    if (how == FAIL)
        return tc_err_set(err, TC_E_BUSY, "no timers left");
    if (how == FIRE_AT_ONCE)
        tc_timer_fire(timer);
    if (how != DECLINE)
        *ret = disarm;
    return 0;
}

static void timing_init(timing *t)
{
    memset(t, 0, sizeof *t);
    world_init(&t->w);
    tci_mutex_init(&t->lock);
    t->w.options.set_timer = set_timer;
    t->w.settings.context_retention_ms = TC_RETAIN_FOREVER;
}

static void timing_done(timing *t)
{
    world_done(&t->w);
    tci_mutex_done(&t->lock);
}

/* The nth that is not in the background, once it was asked for. */
static tc_timer wait_timer(timing *t, bool is_background, size_t n)
{
    for (;;) {
        unsigned seen = tci_wake_count(&t->wake);
        tc_timer found = {.id = 0};
        size_t left = n;
        tci_mutex_lock(&t->lock);
        for (size_t i = 0; i < t->ntimers && found.id == 0; i++) {
            if (t->timers[i].is_background == is_background && left-- == 0)
                found = t->timers[i];
        }
        tci_mutex_unlock(&t->lock);
        if (found.id != 0)
            return found;
        tci_wake_wait(&t->wake, seen, 0);
    }
}

static size_t count_timers(timing *t, bool is_background)
{
    size_t n = 0;
    tci_mutex_lock(&t->lock);
    for (size_t i = 0; i < t->ntimers; i++)
        n += t->timers[i].is_background == is_background;
    tci_mutex_unlock(&t->lock);
    return n;
}

static bool is_disarmed(timing *t, uint64_t id)
{
    bool is = false;
    tci_mutex_lock(&t->lock);
    for (size_t i = 0; i < t->ntimers; i++)
        is = is || (t->timers[i].id == id && t->is_disarmed[i]);
    tci_mutex_unlock(&t->lock);
    return is;
}

/* ---- sleeps ---- */

static void sleep_waits_for_its_timer(void **state)
{
    timing t;
    (void)state;
    timing_init(&t);
    t.w.settings.retry.base_delay_ms = 3600000;
    t.w.settings.retry.max_delay_ms = 3600000;
    world_open(&t.w);
    run_model_say(&t.w.model, run_error("503 overloaded"));
    run_model_say(&t.w.model, run_text("fine"));
    uint64_t id = world_say(&t.w, "go");
    tc_timer first = wait_timer(&t, false, 0);
    assert_ptr_equal(first.harness, t.w.h);
    assert_true(first.delay_ms > 3590000 && first.delay_ms <= 3600000);
    tc_timer_fire(&first); /* too early: for the rest it is armed again */
    tc_timer second = wait_timer(&t, false, 1);
    assert_true(second.id != first.id);
    assert_true(second.delay_ms > 3590000 && second.delay_ms < first.delay_ms);
    assert_int_equal(run_model_asked(&t.w.model), 1);
    atomic_fetch_add(&t.w.clock, 3600000);
    tc_timer_fire(&first); /* it was used */
    tc_timer_fire(&second);
    assert_string_equal(world_answer(&t.w, id), "fine");
    world_idle(&t.w);
    tc_timer_fire(&second);
    assert_int_equal(count_timers(&t, false), 2);
    assert_false(is_disarmed(&t, first.id) || is_disarmed(&t, second.id)); /* they have fired */
    timing_done(&t);
}

static void timer_that_is_not_wanted_any_more_is_disarmed(void **state)
{
    timing t;
    tc_submission s;
    (void)state;
    timing_init(&t);
    t.w.settings.retry.base_delay_ms = 3600000;
    t.w.settings.retry.max_delay_ms = 3600000;
    world_open(&t.w);
    run_model_say(&t.w.model, run_error("503 overloaded"));
    uint64_t id = world_say(&t.w, "go");
    tc_timer first = wait_timer(&t, false, 0);
    OK(tc_conversation_abort(t.w.h, NULL, t.w.root, false, err));
    world_wait(&t.w, id, &s);
    while (!is_disarmed(&t, first.id))
        tci_wake_wait(&t.wake, tci_wake_count(&t.wake), tci_clock_mono_ns() + 5000000);
    tc_timer_fire(&first); /* it was under way: nothing happens */
    run_model_say(&t.w.model, run_error("503 overloaded"));
    (void)world_say(&t.w, "again");
    tc_timer second = wait_timer(&t, false, 1);
    OK(tc_harness_close(t.w.h, err));
    assert_true(is_disarmed(&t, second.id));
    tc_timer_fire(&second);
    timing_done(&t);
}

static void sleep_survives_in_a_program_with_timers(void **state)
{
    timing t;
    (void)state;
    timing_init(&t);
    t.w.settings.retry.base_delay_ms = 3600000;
    t.w.settings.retry.max_delay_ms = 3600000;
    world_open(&t.w);
    run_model_say(&t.w.model, run_error("503 overloaded"));
    uint64_t id = world_say(&t.w, "go");
    tc_timer first = wait_timer(&t, false, 0);
    world_kill(&t.w);
    assert_true(is_disarmed(&t, first.id));
    run_model_say(&t.w.model, run_text("fine"));
    world_open(&t.w);
    OK(tc_harness_resume(t.w.h, err));
    tc_timer second = wait_timer(&t, false, 1);
    assert_true(second.delay_ms > 3590000);
    atomic_fetch_add(&t.w.clock, 3600000);
    tc_timer_fire(&second);
    assert_string_equal(world_answer(&t.w, id), "fine");
    timing_done(&t);
}

static void on_wake(void *user, const tc_wake *wake)
{
    world *w = user;
    (void)wake;
    tci_wake_all(&w->wake);
}

static void host_that_wakes_is_asked_for_no_timer(void **state)
{
    timing t;
    (void)state;
    timing_init(&t);
    t.w.settings.retry.base_delay_ms = 3600000;
    t.w.settings.retry.max_delay_ms = 3600000;
    t.w.options.on_wake = on_wake;
    world_open(&t.w);
    run_model_say(&t.w.model, run_error("503 overloaded"));
    run_model_say(&t.w.model, run_text("fine"));
    uint64_t id = world_say(&t.w, "go");
    while (tc_harness_wake(t.w.h).at_ms == 0)
        tci_wake_wait(&t.w.wake, tci_wake_count(&t.w.wake), tci_clock_mono_ns() + 5000000);
    atomic_store(&t.w.clock, tc_harness_wake(t.w.h).at_ms);
    OK(tc_harness_resume(t.w.h, err));
    assert_string_equal(world_answer(&t.w, id), "fine");
    assert_int_equal(count_timers(&t, false), 0);
    timing_done(&t);
}

/* ---- a program that has none ---- */

static void work_goes_on_without_them(timing *t, const char *report)
{
    t->w.settings.retry.base_delay_ms = 30;
    world_open(&t->w);
    run_model_say(&t->w.model, run_error("503 overloaded"));
    run_model_say(&t->w.model, run_error("503 overloaded"));
    run_model_say(&t->w.model, run_text("fine"));
    assert_string_equal(world_answer(&t->w, world_say(&t->w, "go")), "fine");
    world_wait_report(&t->w, report);
    assert_true(count_timers(t, false) >= 2); /* asked each time */
    OK(tc_harness_close(t->w.h, err));
    assert_int_equal(world_count_reports(&t->w, "host_error"), 1); /* told once */
}

static void declined_timers_are_made_up_for(void **state)
{
    timing t;
    (void)state;
    timing_init(&t);
    t.foreground = DECLINE;
    work_goes_on_without_them(&t, "host_error  set_timer declined");
    timing_done(&t);
}

static void failing_timers_are_made_up_for(void **state)
{
    timing t;
    (void)state;
    timing_init(&t);
    t.foreground = FAIL;
    work_goes_on_without_them(&t, "host_error  no timers left");
    timing_done(&t);
}

/* ---- pacing ---- */

static int two_words(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                     tc_tool_result *ret, tc_err *err)
{
    (void)user;
    (void)arguments;
    (void)ret;
    if (tc_tool_output(api, TC_STR("one\n"), NULL, err) < 0 || tc_tool_flush(api, ctx, err) < 0 ||
        tc_tool_output(api, TC_STR("two\n"), NULL, err) < 0)
        return err->code;
    return tc_tool_flush(api, ctx, err); /* until its time has come */
}

static void install_tool(timing *t)
{
    t->tool = (tc_tool){.size = sizeof t->tool, .name = TC_STR("words"), .execute = two_words};
    t->tools[0] = &t->tool;
    t->extension = (tc_extension){
        .size = sizeof t->extension, .name = TC_STR("timing"), .tools = t->tools, .ntools = 1};
    OK(tc_registry_install(t->w.registry, &t->extension, err));
    t->w.settings.output_interval_ms = 3600000;
}

static void progress_waits_for_its_timer(void **state)
{
    for (int is_at_once = 0; is_at_once < 2; is_at_once++) {
        timing t;
        (void)state;
        timing_init(&t);
        install_tool(&t);
        t.foreground = is_at_once ? FIRE_AT_ONCE : ARM;
        world_open(&t.w);
        run_model_say(&t.w.model, run_call("c1", "words", "{}"));
        run_model_say(&t.w.model, run_text("fine"));
        uint64_t id = world_say(&t.w, "go");
        tc_timer timer = wait_timer(&t, false, 0);
        assert_true(timer.delay_ms > 3590000 && timer.delay_ms <= 3600000);
        if (!is_at_once) {
            assert_true(has_text(world_doc(&t.w, &tci_live_doc), "\"output\":\"one\\n\""));
            tc_timer_fire(&timer);
        }
        assert_string_equal(world_answer(&t.w, id), "fine");
        assert_int_equal(world_count_reports(&t.w, "host_error"), 0);
        timing_done(&t);
    }
}

static void answers_come_in_by_their_timer(void **state)
{
    timing t;
    (void)state;
    timing_init(&t);
    t.w.settings.partial_interval_ms = 3600000;
    world_open(&t.w);
    run_model_hold(&t.w.model, run_text("half an answer"), 4);
    uint64_t id = world_say(&t.w, "go");
    run_model_wait_held(&t.w.model, 1);
    tc_timer timer = wait_timer(&t, false, 0);
    assert_true(timer.delay_ms > 3590000 && timer.delay_ms <= 3600000);
    assert_false(has_text(world_doc(&t.w, &tci_live_doc), "\"message\""));
    tc_timer_fire(&timer); /* nothing comes from the model meanwhile */
    while (!has_text(world_doc(&t.w, &tci_live_doc), "half"))
        tci_wake_wait(&t.wake, tci_wake_count(&t.wake), tci_clock_mono_ns() + 2000000);
    run_model_release(&t.w.model);
    assert_string_equal(world_answer(&t.w, id), "half an answer");
    assert_string_equal(world_kinds(&t.w), "pi.user pi.system pi.assistant:stop");
    timing_done(&t);
}

static int first_phase(void *user, tc_str input, tc_result *r, tc_str *ret, tc_err *err)
{
    (void)user;
    (void)input;
    (void)r;
    (void)err;
    *ret = TC_STR("{\"phase\":\"go\"}");
    return 0;
}

static int pause_and_end(tc_task *t, tc_err *err)
{
    if (tc_task_pause(t, 3600000, err) < 0)
        return err->code;
    return tc_task_next(t, &(tc_next){.kind = TC_NEXT_COMPLETED, .result = TC_STR("1")}, err);
}

static int end_aborted(tc_task *t, tc_err *err)
{
    return tc_task_next(t, &(tc_next){.kind = TC_NEXT_ABORTED}, err);
}

static uint64_t start_pause(timing *t)
{
    tc_task_options options = TC_TASK_OPTIONS;
    tc_tx *tx;
    uint64_t id;
    options.conversation_id = t->w.root;
    OK(tc_durable_begin(tc_harness_session(t->w.h), NULL, &tx, err));
    OK(tc_tx_create_task_of(tx, &t->def, TC_STR("{}"), &options, &id, err));
    OK(tc_tx_commit(tx, err));
    OK(tc_harness_resume(t->w.h, err));
    return id;
}

static void pause_of_a_task_is_over_with_its_timer(void **state)
{
    timing t;
    tc_str record;
    bool is_terminal;
    (void)state;
    timing_init(&t);
    t.phase = (tc_task_phase){"go", pause_and_end};
    t.def = (tc_task_def){.size = sizeof t.def,
                          .name = "pause",
                          .version = 1,
                          .initial = first_phase,
                          .phases = &t.phase,
                          .nphases = 1,
                          .abort = end_aborted};
    t.defs[0] = &t.def;
    OK(tc_registry_install_tasks(t.w.registry, TC_STR("pauses"), t.defs, 1, err));
    world_open(&t.w);
    uint64_t id = start_pause(&t);
    tc_timer timer = wait_timer(&t, false, 0);
    assert_true(timer.delay_ms > 3590000 && timer.delay_ms <= 3600000);
    tc_timer_fire(&timer);
    OK(tc_harness_wait_task(t.w.h, NULL, id, t.w.r, &record, err));
    assert_true(has_text(record, "\"completed\""));
    id = start_pause(&t);
    timer = wait_timer(&t, false, 1);
    OK(tc_harness_abort_task(t.w.h, NULL, id, &is_terminal, err));
    OK(tc_harness_wait_task(t.w.h, NULL, id, t.w.r, &record, err));
    assert_true(has_text(record, "\"aborted\""));
    timing_done(&t);
}

/* ---- memory ---- */

static bool keeps_contexts(timing *t)
{
    tci_run *run = tci_run_of(t->w.h);
    tci_mutex_lock(&run->lock);
    bool is = run->contexts != NULL;
    tci_mutex_unlock(&run->lock);
    return is;
}

static void wait_freed(timing *t)
{
    while (keeps_contexts(t))
        tci_wake_wait(&t->wake, tci_wake_count(&t->wake), tci_clock_mono_ns() + 2000000);
}

static void run_once(timing *t)
{
    run_model_say(&t->w.model, run_text("fine"));
    assert_string_equal(world_answer(&t->w, world_say(&t->w, "go")), "fine");
    world_idle(&t->w);
}

/* As a program that has timers does. */
static void keep_time(timing *t, int64_t ms)
{
    int64_t until = tci_clock_mono_ns() + ms * 1000000;
    while (tci_clock_mono_ns() < until)
        tci_wake_wait(&t->wake, tci_wake_count(&t->wake), until);
}

static void memory_is_freed_by_a_background_timer(void **state)
{
    timing t;
    (void)state;
    timing_init(&t);
    t.w.settings.context_retention_ms = 30;
    world_open(&t.w);
    run_once(&t);
    assert_true(count_timers(&t, false) == 0);
    tc_timer timer = wait_timer(&t, true, 0);
    assert_true(timer.delay_ms <= 30);
    tc_timer_fire(&timer); /* too early: again for what is left */
    for (size_t n = 1; keeps_contexts(&t);) {
        if (count_timers(&t, true) > n) {
            timer = wait_timer(&t, true, n++);
            keep_time(&t, timer.delay_ms);
            tc_timer_fire(&timer);
        }
        keep_time(&t, 2);
    }
    timing_done(&t);
}

static void memory_is_freed_without_timers_of_the_program(void **state)
{
    timing t;
    (void)state;
    timing_init(&t);
    t.w.options.set_timer = NULL;
    t.w.settings.context_retention_ms = 20;
    world_open(&t.w);
    run_once(&t);
    wait_freed(&t);
    timing_done(&t);
}

static void declined_background_timer_is_no_error(void **state)
{
    timing t;
    (void)state;
    timing_init(&t);
    t.background = DECLINE;
    t.w.settings.context_retention_ms = 1;
    world_open(&t.w);
    run_once(&t);
    (void)wait_timer(&t, true, 0);
    run_once(&t); /* what is kept too long goes with the next turn */
    run_once(&t);
    OK(tc_harness_close(t.w.h, err));
    assert_int_equal(count_timers(&t, true), 1); /* not asked again */
    assert_int_equal(world_count_reports(&t.w, "host_error"), 0);
    timing_done(&t);
}

static void failing_background_timer_is_told(void **state)
{
    timing t;
    (void)state;
    timing_init(&t);
    t.background = FAIL;
    t.w.settings.context_retention_ms = 1;
    world_open(&t.w);
    run_once(&t);
    world_wait_report(&t.w, "host_error  no timers left");
    timing_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sleep_waits_for_its_timer),
        cmocka_unit_test(timer_that_is_not_wanted_any_more_is_disarmed),
        cmocka_unit_test(sleep_survives_in_a_program_with_timers),
        cmocka_unit_test(host_that_wakes_is_asked_for_no_timer),
        cmocka_unit_test(declined_timers_are_made_up_for),
        cmocka_unit_test(failing_timers_are_made_up_for),
        cmocka_unit_test(progress_waits_for_its_timer),
        cmocka_unit_test(answers_come_in_by_their_timer),
        cmocka_unit_test(pause_of_a_task_is_over_with_its_timer),
        cmocka_unit_test(memory_is_freed_by_a_background_timer),
        cmocka_unit_test(memory_is_freed_without_timers_of_the_program),
        cmocka_unit_test(declined_background_timer_is_no_error),
        cmocka_unit_test(failing_background_timer_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
