/* SPDX-License-Identifier: Apache-2.0
 *
 * Timers, posts, later callbacks, signals. */
#include "test_loop.h"

#include "plat/clock.h"
#include "plat/thread.h"
#include <signal.h>
#include <stdlib.h>

/* ---- timers ---- */

enum { NTIMERS = 5000 };

typedef struct order {
    int64_t last_due_ns;
    size_t nfired;
    bool is_early, is_out_of_order;
} order;

typedef struct ordered_timer {
    tci_timer timer;
    order *order;
    int64_t due_ns;
} ordered_timer;

static void on_ordered(tci_timer *t)
{
    ordered_timer *o = TCI_CONTAINER(t, ordered_timer, timer);
    o->order->is_out_of_order |= o->due_ns < o->order->last_due_ns;
    o->order->is_early |= tci_clock_mono_ns() < o->due_ns;
    o->order->last_due_ns = o->due_ns;
    o->order->nfired++;
}

static void thousands_of_timers_fire_in_order(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_loop *loop = new_loop();
    ordered_timer *timers = calloc(NTIMERS, sizeof *timers);
    assert_non_null(timers);
    order seen = {0};
    uint32_t random = 12345;
    int64_t base_ns = tci_clock_mono_ns();
    for (size_t i = 0; i < NTIMERS; i++) {
        random = random * 1664525u + 1013904223u;
        timers[i].order = &seen;
        timers[i].due_ns = base_ns + (int64_t)(random >> 8) * 3; /* within 50 ms */
        tci_timer_init(&timers[i].timer, loop, on_ordered);
        assert_int_equal(tci_timer_start_at(&timers[i].timer, timers[i].due_ns, &err), 0);
    }
    size_t nleft = NTIMERS;
    for (size_t i = 0; i < NTIMERS; i += 3) { /* stopped ones stay silent */
        tci_timer_stop(&timers[i].timer);
        assert_false(tci_timer_is_armed(&timers[i].timer));
        nleft--;
    }
    for (size_t i = 1; i < NTIMERS; i += 3) { /* restarting replaces */
        timers[i].due_ns = base_ns + (int64_t)(NTIMERS - i) * 10000;
        assert_int_equal(tci_timer_start_at(&timers[i].timer, timers[i].due_ns, &err), 0);
    }
    TURN_UNTIL(loop, seen.nfired == nleft);
    assert_false(seen.is_out_of_order);
    assert_false(seen.is_early);
    for (size_t i = 0; i < NTIMERS; i++)
        assert_false(tci_timer_is_armed(&timers[i].timer));
    free(timers);
    tci_loop_free(loop);
}

typedef struct repeater {
    tci_timer timer;
    int nfired;
    tci_timer *victim;
} repeater;

static void on_repeat(tci_timer *t)
{
    tc_err err;
    repeater *r = TCI_CONTAINER(t, repeater, timer);
    if (r->victim != NULL)
        tci_timer_stop(r->victim);
    if (++r->nfired < 3)
        assert_int_equal(tci_timer_start(t, 0, &err), 0);
    else
        tci_loop_stop(t->loop);
}

static void on_never(tci_timer *t)
{
    TCI_UNUSED(t);
    fail_msg("a stopped timer fired");
}

static void timer_restarts_itself_and_stops_another(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_loop *loop = new_loop();
    tci_timer victim;
    repeater r = {.victim = &victim};
    tci_timer_init(&r.timer, loop, on_repeat);
    tci_timer_init(&victim, loop, on_never);
    assert_int_equal(tci_timer_start_at(&r.timer, 1, &err), 0);
    assert_int_equal(tci_timer_start_at(&victim, 2, &err), 0); /* due in the same turn */
    tci_loop_run(loop);
    assert_int_equal(r.nfired, 3);
    tci_timer far;
    tci_timer_init(&far, loop, on_never);
    assert_int_equal(tci_timer_start(&far, INT64_MAX, &err), 0);
    tci_loop_turn(loop, 0);
    assert_true(tci_timer_is_armed(&far));
    tci_timer_stop(&far);
    tci_timer_stop(&far);
    tci_loop_free(loop);
}

static void turn_ends_at_its_limit(void **state)
{
    TCI_UNUSED(state);
    tci_loop *loop = new_loop();
    int64_t before_ns = tci_clock_mono_ns();
    tci_loop_turn(loop, 20);
    assert_true(tci_clock_mono_ns() - before_ns >= 19 * 1000000);
    tci_loop_free(loop);
}

/* ---- later ---- */

typedef struct counted_later {
    tci_later later;
    tci_loop *loop;
    int nruns, again;
} counted_later;

static void on_later(tci_later *l)
{
    counted_later *c = TCI_CONTAINER(l, counted_later, later);
    c->nruns++;
    if (c->again-- > 0)
        tci_loop_later(c->loop, l);
}

static void later_runs_once_before_the_wait(void **state)
{
    TCI_UNUSED(state);
    tci_loop *loop = new_loop();
    counted_later a = {.later.cb = on_later, .loop = loop}, b = a;
    tci_loop_later(loop, &a.later);
    tci_loop_later(loop, &a.later);
    tci_loop_later(loop, &b.later);
    tci_later_cancel(&b.later);
    tci_loop_turn(loop, -1); /* does not block: something was done */
    assert_int_equal(a.nruns, 1);
    assert_int_equal(b.nruns, 0);
    a.again = 2;
    tci_loop_later(loop, &a.later);
    for (int i = 0; i < 3; i++)
        tci_loop_turn(loop, -1);
    assert_int_equal(a.nruns, 4);
    tci_loop_later(loop, &a.later);
    tci_loop_free(loop); /* one left over is dropped */
    assert_int_equal(a.nruns, 4);
}

/* ---- posts ---- */

enum { NPOSTERS = 4, NPOSTS = 2000 };

typedef struct counted_post {
    tci_post post;
    size_t *ngot, *last_of_poster;
    size_t number;
    bool *is_out_of_order;
} counted_post;

typedef struct poster {
    tci_loop *loop;
    counted_post posts[NPOSTS];
    size_t last;
} poster;

static void on_post(tci_post *p)
{
    counted_post *c = TCI_CONTAINER(p, counted_post, post);
    *c->is_out_of_order |= c->number != *c->last_of_poster;
    ++*c->last_of_poster;
    ++*c->ngot;
}

static void post_all(void *arg)
{
    poster *p = arg;
    for (size_t i = 0; i < NPOSTS; i++)
        tci_loop_post(p->loop, &p->posts[i].post);
}

static void posts_from_four_threads_arrive_in_order(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_loop *loop = new_loop();
    poster *posters = calloc(NPOSTERS, sizeof *posters);
    assert_non_null(posters);
    tci_thread *threads[NPOSTERS];
    size_t ngot = 0;
    bool is_out_of_order = false;
    for (size_t i = 0; i < NPOSTERS; i++) {
        posters[i].loop = loop;
        for (size_t k = 0; k < NPOSTS; k++)
            posters[i].posts[k] = (counted_post){.post.cb = on_post,
                                                 .ngot = &ngot,
                                                 .last_of_poster = &posters[i].last,
                                                 .number = k,
                                                 .is_out_of_order = &is_out_of_order};
        assert_int_equal(tci_thread_new(post_all, &posters[i], 0, &threads[i], &err), 0);
    }
    TURN_UNTIL(loop, ngot == (size_t)NPOSTERS * NPOSTS);
    assert_false(is_out_of_order);
    for (size_t i = 0; i < NPOSTERS; i++)
        tci_thread_join(threads[i]);
    free(posters);
    tci_loop_free(loop);
}

/* ---- signals ---- */

typedef struct seen_signal {
    tci_signal sig;
    int signum;
} seen_signal;

static void on_signal(tci_signal *s, int signum)
{
    TCI_CONTAINER(s, seen_signal, sig)->signum = signum;
}

static void signal_reaches_the_loop(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_loop *loop = new_loop();
    seen_signal s = {0};
    assert_int_equal(tci_signal_open(&s.sig, loop, SIGUSR1, on_signal, &err), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    TURN_UNTIL(loop, s.signum != 0);
    assert_int_equal(s.signum, SIGUSR1);
    tci_signal_close(&s.sig);
    tci_signal_close(&s.sig);
    assert_true(tci_signal_open(&s.sig, loop, SIGKILL, on_signal, &err) < 0);
    tci_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_timers_fire_in_order),
        cmocka_unit_test(timer_restarts_itself_and_stops_another),
        cmocka_unit_test(turn_ends_at_its_limit),
        cmocka_unit_test(later_runs_once_before_the_wait),
        cmocka_unit_test(posts_from_four_threads_arrive_in_order),
        cmocka_unit_test(signal_reaches_the_loop),
    };
    int nfailed = cmocka_run_group_tests_name("loop", tests, NULL, NULL);
    nfailed += _cmocka_run_group_tests("watch", watch_tests, nwatch_tests, NULL, NULL);
    nfailed += _cmocka_run_group_tests("pool", pool_tests, npool_tests, NULL, NULL);
    return nfailed;
}
