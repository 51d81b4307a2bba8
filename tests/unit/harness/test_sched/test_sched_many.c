/* SPDX-License-Identifier: Apache-2.0
 *
 * Many conversations with tasks at once, with callers from several threads: what a thread sanitizer
 * should look at. */
#include "sched_world.h"

#include <stdio.h>
#include <string.h>

enum { CONVERSATIONS = 200, CALLERS = 4 };

static world *the_world;
static atomic_uint nsteps;

static int leaf_start(tc_task *t, tc_err *err)
{
    atomic_fetch_add(&nsteps, 1);
    if (tc_task_current(t)->id % 7 == 0)
        return tc_task_sleep_until(t, tc_task_now(t) + 1, TC_STR("{\"phase\":\"late\"}"), err);
    return next_phase(t, "{\"phase\":\"late\"}", err);
}
static int leaf_late(tc_task *t, tc_err *err)
{
    atomic_fetch_add(&nsteps, 1);
    return next_done(t, "1", err);
}
DEF(leaf, "t.leaf", 1, {"start", leaf_start}, {"late", leaf_late});

static int run_start(tc_task *t, tc_err *err)
{
    uint64_t ids[3];
    tc_str record;
    for (size_t i = 0; i < 3; i++)
        if (tc_task_create(t, &leaf, TC_STR("1"), false, &ids[i], err) < 0)
            return err->code;
    if (tc_task_current(t)->id % 3 == 0) { /* some wait in place */
        for (size_t i = 0; i < 3; i++)
            if (tc_task_wait(t, ids[i], &record, err) < 0)
                return err->code;
        return next_done(t, "1", err);
    }
    return next_wait(t, "{\"phase\":\"over\"}", ids, 3, TC_WAIT_ALL_SETTLED, err);
}
static int run_over(tc_task *t, tc_err *err)
{
    return next_done(t, "1", err);
}
DEF(run, "t.run", 1, {"start", run_start}, {"over", run_over});

typedef struct caller {
    world *w;
    unsigned index;
    atomic_uint nfailed;
} caller;

static void check(caller *c, int rc)
{
    if (rc < 0)
        atomic_fetch_add(&c->nfailed, 1);
}

static void call_around(void *arg)
{
    caller *c = arg;
    tc_durable *s = tc_harness_session(c->w->h);
    tc_result *r;
    tc_err err;
    check(c, tc_result_new(&r, &err));
    for (unsigned i = c->index; i < CONVERSATIONS; i += CALLERS) {
        tc_tx *tx;
        uint64_t conversation = 0, id = 0;
        tc_str record;
        tc_task_options options = TC_TASK_OPTIONS;
        tc_result_clear(r);
        if (tc_durable_begin(s, NULL, &tx, &err) < 0) {
            check(c, err.code); /* closed */
            break;
        }
        check(c, tc_tx_create_conversation(tx, 0, &conversation, &err));
        options.conversation_id = conversation;
        check(c, tc_tx_create_task_of(tx, &run, TC_STR("1"), &options, &id, &err));
        check(c, tc_tx_commit(tx, &err));
        if (i % 10 == 0) {
            tc_inspection all;
            check(c, tc_harness_inspect(c->w->h, NULL, r, &all, &err));
            (void)tc_harness_wake(c->w->h);
        }
        if (i % 11 == 3) {
            bool is_terminal;
            check(c, tc_harness_abort_task(c->w->h, NULL, id, &is_terminal, &err));
        }
        if (i % 4 == 1)
            check(c, tc_harness_wait_idle(c->w->h, NULL, conversation, &err));
        if (i % 4 == 2)
            check(c, tc_harness_wait_task(c->w->h, NULL, id, r, &record, &err));
    }
    tc_result_free(r);
}

static void start_callers(world *w, caller callers[CALLERS], tci_thread *threads[CALLERS])
{
    tc_err err;
    for (unsigned i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.w = w, .index = i};
        assert_int_equal(tci_thread_new(call_around, &callers[i], 0, &threads[i], &err), 0);
    }
}

static void two_hundred_conversations_with_tasks_all_end(void **state)
{
    (void)state;
    world w;
    caller callers[CALLERS];
    tci_thread *threads[CALLERS];
    const tc_task_def *const defs[] = {&run, &leaf};
    world_init(&w, "");
    the_world = &w;
    w.options.max_running = 32;
    leaf.is_prompt = true; /* some threads go on with what follows themselves */
    world_install(&w, "test", defs, 2);
    world_open(&w);
    world_resume(&w);
    start_callers(&w, callers, threads);
    for (unsigned i = 0; i < CALLERS; i++) {
        tci_thread_join(threads[i]);
        assert_int_equal(atomic_load(&callers[i].nfailed), 0);
    }
    world_wait_idle(&w, 0);
    assert_int_equal(w.h->nodes.count, 0);
    assert_int_equal(w.nreports, 0);
    assert_true(atomic_load(&nsteps) >= 2 * CONVERSATIONS);
    world_done(&w);
}

static void a_close_in_the_middle_of_it_leaves_everything_to_be_resumed(void **state)
{
    (void)state;
    world w;
    caller callers[CALLERS];
    tci_thread *threads[CALLERS];
    const tc_task_def *const defs[] = {&run, &leaf};
    world_init(&w, "many.sqlite");
    the_world = &w;
    world_install(&w, "test", defs, 2);
    world_open(&w);
    world_resume(&w);
    unsigned before = atomic_load(&nsteps);
    start_callers(&w, callers, threads);
    while (atomic_load(&nsteps) < before + 50)
        ;
    tc_err err;
    assert_int_equal(tc_harness_close(w.h, &err), 0);
    for (unsigned i = 0; i < CALLERS; i++)
        tci_thread_join(threads[i]); /* with errors: it is closed */
    tc_harness_free(w.h);
    world_open(&w);
    tc_task_query query = TC_TASK_QUERY_ALL;
    tc_records running;
    query.status = TC_STR("running");
    assert_int_equal(tc_durable_tasks(tc_harness_session(w.h), &query, NULL, w.r, &running, &err),
                     0);
    assert_int_equal(running.count, 0);
    world_wait_idle(&w, 0);
    assert_int_equal(w.h->nodes.count, 0);
    assert_int_equal(w.nreports, 0);
    world_done(&w);
}

/* ---- calls at a later time ---- */

typedef struct beat {
    tci_later later;
    tc_harness *h;
    atomic_uint ncalls;
    unsigned left;
    tci_wake wake;
} beat;

static void beat_call(void *arg)
{
    beat *b = arg;
    atomic_fetch_add(&b->ncalls, 1);
    if (--b->left > 0)
        tci_later_set(b->h, &b->later, tci_clock_mono_ns() + 100000, beat_call, b);
    tci_wake_all(&b->wake);
}

static void calls_come_once_when_due_and_not_after_they_were_cancelled(void **state)
{
    (void)state;
    enum { BEATS = 20 };
    static beat beats[BEATS], never;
    world w;
    world_init(&w, "");
    world_open(&w);
    memset(beats, 0, sizeof(beats));
    memset(&never, 0, sizeof(never));
    int64_t now = tci_clock_mono_ns();
    for (unsigned i = 0; i < BEATS; i++) {
        beats[i].h = w.h;
        beats[i].left = 5;
        tci_later_set(w.h, &beats[i].later, now + (int64_t)(BEATS - i) * 100000, beat_call,
                      &beats[i]);
    }
    never.h = w.h;
    never.left = 1;
    tci_later_set(w.h, &never.later, now + INT64_C(3600) * 1000 * 1000 * 1000, beat_call, &never);
    for (unsigned i = 0; i < BEATS; i++) {
        unsigned seen = tci_wake_count(&beats[i].wake);
        while (atomic_load(&beats[i].ncalls) < 5) {
            tci_wake_wait(&beats[i].wake, seen, 0);
            seen = tci_wake_count(&beats[i].wake);
        }
    }
    tci_later_drop(&never.later);
    for (unsigned i = 0; i < BEATS; i++) {
        tci_later_drop(&beats[i].later);
        assert_int_equal(atomic_load(&beats[i].ncalls), 5);
    }
    assert_int_equal(atomic_load(&never.ncalls), 0);
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_hundred_conversations_with_tasks_all_end),
        cmocka_unit_test(a_close_in_the_middle_of_it_leaves_everything_to_be_resumed),
        cmocka_unit_test(calls_come_once_when_due_and_not_after_they_were_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
