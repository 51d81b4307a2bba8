/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching when there is too much of it or too little to do it with: limits of the system, bursts,
 * trees that change while they are looked at, no memory. */
#include "watch_help.h"

#include <stdio.h>
#include <string.h>

static void put_many(const fix *f, const char *dir, unsigned n, const char *text)
{
    char path[128];
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(path, sizeof path, "%s/%05u", dir, i);
        put(f, path, text);
    }
}

static void make_many(const fix *f, const char *dir, unsigned n)
{
    char path[128];
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(path, sizeof path, "%s/%u/%u", dir, i / 50, i % 50);
        make_dir(f, path);
    }
}

/* ---- the user's limits ---- */

static void test_case_41_watch_limit_while_opening(void **state)
{
    fix *f = *state;
    seen s;
    make_many(f, "w", 500);
    tci_notifier_test_limit(100);
    seen_target(&s, f, "w", true);
    assert_int_equal(s.nswitches, 1);
    assert_int_equal(s.noverflows, 1);
    assert_int_equal(s.mode, TCI_OPS_WATCH_POLLING);
    assert_int_equal(s.why.code, TC_E_QUOTA); /* and not "no space" */
    assert_non_null(strstr(s.why.msg, "limit of inotify watches"));
    assert_non_null(strstr(s.why.hint, "max_user_watches"));
    seen_forget(&s);
    put(f, "w/3/7/new", "x");
    WAIT_FOR(f, seen_has(&s, at(f, "w/3/7/new")));
    put(f, "w/9/49/new", "x");
    WAIT_FOR(f, seen_has(&s, at(f, "w/9/49/new")));
    tci_notifier_test_limit(UINT32_MAX); /* polling is for good */
    put(f, "w/9/48/new", "x");
    seen_expect(&s, "w/9/48/new");
    assert_int_equal(s.mode, TCI_OPS_WATCH_POLLING);
    assert_int_equal(s.nswitches, 1);
    seen_close(&s);
}

static void test_case_41_watch_limit_later(void **state)
{
    fix *f = *state;
    seen s;
    make_dir(f, "w");
    tci_notifier_test_limit(60);
    seen_target(&s, f, "w", true);
    assert_int_equal(s.mode, TCI_OPS_WATCH_NATIVE);
    put(f, "w/x", "x");
    seen_expect(&s, "w/x");
    make_many(f, "w", 200);
    WAIT_FOR(f, s.nswitches == 1);
    assert_true(s.noverflows != 0);
    assert_int_equal(s.mode, TCI_OPS_WATCH_POLLING);
    assert_int_equal(s.why.code, TC_E_QUOTA);
    seen_forget(&s);
    put(f, "w/3/49/new", "x");
    WAIT_FOR(f, seen_has(&s, at(f, "w/3/49/new")));
    seen_close(&s);
}

static void test_case_41_no_notifier(void **state)
{
    fix *f = *state;
    seen s;
    make_dir(f, "w");
    tci_notifier_test_refuse(true);
    seen_target(&s, f, "w", true);
    assert_int_equal(s.nswitches, 1);
    assert_int_equal(s.mode, TCI_OPS_WATCH_POLLING);
    assert_int_equal(s.why.code, TC_E_QUOTA);
    assert_non_null(strstr(s.why.hint, "max_user_instances"));
    seen_forget(&s);
    put(f, "w/x", "x");
    WAIT_FOR(f, seen_has(&s, at(f, "w/x")));
    seen_close(&s);
}

static void test_auto_is_native_here(void **state)
{
    fix *f = *state;
    seen s;
    tci_ops_watch_target t[] = {target(f, "w", true), target(f, "missing/x", false)};
    tci_ops_watch_options o = options(f, t, 2);
    make_dir(f, "w");
    o.mode = TCI_OPS_WATCH_AUTO;
    tci_dir dir = {0};
    tc_err err;
    assert_int_equal(tci_dir_open(NULL, f->root, 0, &dir, &err), 0);
    bool misses = tci_notifier_misses(&dir);
    tci_dir_close(&dir);
    seen_open(&s, f, &o);
    assert_int_equal(s.mode, misses ? TCI_OPS_WATCH_POLLING : TCI_OPS_WATCH_NATIVE);
    assert_int_equal(s.nswitches, 0);
    put(f, "missing/x", "x");
    seen_expect(&s, "missing/x");
    seen_close(&s);
}

/* ---- bursts ---- */

static void test_case_41_burst_that_nobody_reads(void **state)
{
    fix *f = *state;
    seen s;
    make_dir(f, "w/sub");
    seen_target(&s, f, "w", true);
    put_many(f, "w", 10000,
             ""); /* two notices each: more notices than the system keeps; the loop does not turn */
    put_many(f, "w/sub", 10, "");
    WAIT_FOR(f, s.noverflows != 0 || (s.npaths >= 10010 && seen_has(&s, at(f, "w/sub/00009"))));
    assert_int_equal(s.mode, TCI_OPS_WATCH_NATIVE); /* it goes on as before */
    seen_forget(&s);
    put(f, "w/sub/after", "x");
    WAIT_FOR(f, seen_has(&s, at(f, "w/sub/after")));
    put(f, "w/09999", "x");
    seen_expect(&s, "w/09999");
    seen_close(&s);
}

static void test_case_41_burst_of_many_writes(void **state)
{
    fix *f = *state;
    seen s;
    make_dir(f, "w");
    put_many(f, "w", 50, "x");
    seen_target(&s, f, "w", false);
    for (unsigned i = 0; i < 100; i++) { /* three notices a write */
        put_many(f, "w", 50, i % 2 != 0 ? "xx" : "x");
        tci_loop_turn(f->loop, 0);
    }
    put(f, "w/last", "x");
    WAIT_FOR(f, s.noverflows != 0 || seen_has(&s, at(f, "w/last")));
    char path[64];
    for (unsigned i = 0; i < 50; i++) {
        (void)snprintf(path, sizeof path, "w/%05u", i);
        assert_true(seen_covers(&s, at(f, path)));
    }
    seen_close(&s);
}

/* From then on: what a scan finds that runs by now is still told. */
static void hold(seen *s)
{
    tci_ops_watch_hold(s->watch, true);
    WAIT_FOR(s->f, tci_loop_pending_jobs(s->f->loop) == 0);
}

/* More names in notices than are kept: the folder itself is told. */
static void test_more_names_than_are_kept(void **state)
{
    fix *f = *state;
    seen s;
    char path[300], name[201];
    make_dir(f, "w");
    seen_target(&s, f, "w", true);
    hold(&s);
    memset(name, 'n', 200);
    name[200] = '\0';
    for (unsigned i = 0; i < 8000; i++) {
        (void)snprintf(path, sizeof path, "w/%s%05u", name, i);
        put(f, path, "");
        discard(f, path);
        tci_loop_turn(f->loop, 0);
    }
    assert_int_equal(s.nchanges, 0);
    tci_ops_watch_hold(s.watch, false);
    WAIT_FOR(f, s.noverflows != 0 || seen_has(&s, at(f, "w")));
    seen_close(&s);
}

/* ---- trees that change while they are looked at ---- */

static uint64_t next_number(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void storm(fix *f, uint64_t *seed)
{
    char a[40], b[64];
    unsigned x = (unsigned)next_number(seed);
    (void)snprintf(a, sizeof a, "w/%u/%u", x % 3, x / 3 % 3);
    (void)snprintf(b, sizeof b, "w/%u/%u", x / 9 % 3, x / 27 % 3);
    switch (x / 81 % 5) {
    case 0:
        make_dir(f, a);
        break;
    case 1:
        if (rename(at(f, a), at(f, b)) < 0) /* neither need be possible */
            make_dir(f, b);
        break;
    case 2:
        a[3] = '\0';
        if (rename(at(f, a), at(f, "w/3")) < 0)
            make_dir(f, "w/3");
        break;
    case 3:
        make_dir(f, a);
        discard(f, a);
        break;
    case 4:
        (void)snprintf(b, sizeof b, "%s/f", a);
        put(f, b, "x");
        break;
    }
}

static void test_every_folder_is_watched_after_a_storm(void **state)
{
    fix *f = *state;
    seen s;
    char path[64];
    uint64_t seed = 7;
    make_dir(f, "w");
    seen_target(&s, f, "w", true);
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < 400; i++) {
            storm(f, &seed);
            if (i % 3 == 0)
                tci_loop_turn(f->loop, i % 60 == 0 ? 10 : 0);
        }
        put(f, "w/done", round % 2 != 0 ? "xx" : "x");
        seen_expect(&s, "w/done");
        for (unsigned i = 0; i < 16; i++) {
            (void)snprintf(path, sizeof path, "w/%u/%u/g%u", i / 4, i % 4, round);
            put(f, path, "x");
        }
        for (unsigned i = 0; i < 16; i++) {
            (void)snprintf(path, sizeof path, "w/%u/%u/g%u", i / 4, i % 4, round);
            WAIT_FOR(f, seen_has(&s, at(f, path)));
        }
        seen_forget(&s);
        discard(f, "w/3");
        seen_expect(&s, "w/3");
        assert_false(s.has_failed);
    }
    seen_close(&s);
}

static void test_target_removed_and_made_again(void **state)
{
    fix *f = *state;
    seen s;
    put(f, "a/w/x", "x");
    seen_target(&s, f, "a/w", true);
    for (unsigned i = 0; i < 100; i++) {
        discard(f, i % 2 != 0 ? "a" : "a/w");
        tci_loop_turn(f->loop, 0);
        put(f, "a/w/sub/x", "x");
        tci_loop_turn(f->loop, i % 10 == 0 ? 60 : 0);
    }
    put(f, "a/w/sub/y", "x");
    seen_expect(&s, "a/w/sub/y");
    put(f, "a/w/sub/z", "x");
    WAIT_FOR(f, seen_has(&s, at(f, "a/w/sub/z")));
    seen_close(&s);
}

/* ---- closing and holding ---- */

static void test_close_during_a_scan(void **state)
{
    fix *f = *state;
    seen s;
    make_many(f, "w", 1000);
    tci_ops_watch_target t = target(f, "w", true);
    tci_ops_watch_options o = options(f, &t, 1);
    for (int turns = 0; turns < 40; turns++) {
        seen_start(&s, f, &o);
        for (int i = 0; i < turns; i++)
            tci_loop_turn(f->loop, 0);
        size_t nbefore = s.nready;
        tci_ops_watch_close(s.watch);
        while (tci_loop_pending_jobs(f->loop) > 0)
            tci_loop_turn(f->loop, 10);
        assert_int_equal(s.nready, nbefore);
        assert_false(s.has_failed);
        s.watch = NULL;
        seen_close(&s);
    }
}

static void test_hold(void **state)
{
    fix *f = *state;
    seen s, other;
    make_dir(f, "w");
    seen_target(&s, f, "w", true);
    seen_target(&other, f, "w", true);
    hold(&s);
    put(f, "w/a/x", "x");
    WAIT_FOR(f, seen_has(&other, at(f, "w/a/x")));
    put(f, "w/a/x", "xx");
    put(f, "w/y", "x");
    WAIT_FOR(f, seen_has(&other, at(f, "w/y")));
    assert_int_equal(s.nchanges, 0);
    tci_ops_watch_hold(s.watch, false);
    WAIT_FOR(f, seen_has(&s, at(f, "w/y")) && seen_has(&s, at(f, "w/a/x")));
    seen_close(&s);
    seen_close(&other);
}

static void test_an_idle_watcher_does_nothing(void **state)
{
    fix *f = *state;
    seen s;
    put(f, "w/sub/x", "x");
    seen_target(&s, f, "w/sub", true);
    put(f, "w/beside", "not on the way to it");
    put(f, "beside", "nor is this");
    for (int i = 0; i < 20; i++) {
        tci_loop_turn(f->loop, 10);
        assert_int_equal(tci_loop_pending_jobs(f->loop), 0);
    }
    assert_int_equal(s.nchanges, 0);
    seen_close(&s);
}

/* ---- no memory ---- */

static void test_no_memory_while_opening(void **state)
{
    fix *f = *state;
    tc_err err;
    put(f, "w/a/x", "x");
    put(f, "w/b", "x");
    make_link(f, "w", "link");
    const tc_str names[] = {TC_STR("out")};
    tci_ops_watch_target t[] = {target(f, "link", true), target(f, "w/b", false)};
    t[0].names = names;
    t[0].nnames = 1;
    tci_ops_watch_options o = options(f, t, 2);
    for (size_t n = 1;; n++) {
        seen s;
        bool was_ready = false;
        seen_prepare(&s, f);
        tci_mem_fail_at(n);
        int rc = tci_ops_watch_open(f->loop, &o, seen_event, &s, &s.watch, &err);
        if (rc == 0) {
            WAIT_FOR(f, s.nready == 1 || s.has_failed);
            was_ready = s.nready == 1 && s.nswitches == 0;
            assert_true(!s.has_failed || s.error.code == TC_E_NO_MEMORY);
        } else {
            assert_int_equal(rc, TC_E_NO_MEMORY);
        }
        size_t count = tci_mem_count();
        tci_mem_fail_at(0);
        seen_close(&s);
        while (tci_loop_pending_jobs(f->loop) > 0)
            tci_loop_turn(f->loop, 10);
        if (was_ready && count < n)
            break;
    }
}

static void test_no_memory_for_a_while(void **state)
{
    fix *f = *state;
    seen s;
    char path[32];
    put(f, "w/a/x", "x");
    seen_target(&s, f, "w", true);
    for (size_t n = 1; n < 16; n += 3) {
        (void)snprintf(path, sizeof path, "w/new%zu/x", n);
        tci_mem_fail_at(n);
        put(f, path, "x");
        for (int i = 0; i < 4; i++)
            tci_loop_turn(f->loop, 60);
        tci_mem_fail_at(0);
        if (s.has_failed) { /* not even a timer could be had */
            assert_int_equal(s.error.code, TC_E_NO_MEMORY);
            seen_close(&s);
            seen_target(&s, f, "w", true);
            continue;
        }
        seen_expect(&s, path);
    }
    put(f, "w/a/y", "x");
    seen_expect(&s, "w/a/y");
    assert_false(s.has_failed);
    seen_close(&s);
}

static void test_refuses(void **state)
{
    fix *f = *state;
    tc_err err;
    tci_ops_watch *w = NULL;
    tci_ops_watch_target t = target(f, "w", true);
    tci_ops_watch_options o = options(f, &t, 0);
    assert_int_equal(tci_ops_watch_open(f->loop, &o, seen_event, NULL, &w, &err), TC_E_INVALID);
    o.ntargets = 1;
    t.path = TC_STR("");
    assert_int_equal(tci_ops_watch_open(f->loop, &o, seen_event, NULL, &w, &err), TC_E_INVALID);
    t.path = TC_STR("/a\0b");
    assert_int_equal(tci_ops_watch_open(f->loop, &o, seen_event, NULL, &w, &err), TC_E_INVALID);
    assert_null(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE_MODE(test_case_41_watch_limit_while_opening, help_native),
        ONE_MODE(test_case_41_watch_limit_later, help_native),
        ONE_MODE(test_case_41_no_notifier, help_native),
        ONE_MODE(test_auto_is_native_here, help_native),
        ONE_MODE(test_case_41_burst_that_nobody_reads, help_native),
        BOTH_MODES(test_case_41_burst_of_many_writes),
        ONE_MODE(test_more_names_than_are_kept, help_native),
        BOTH_MODES(test_every_folder_is_watched_after_a_storm),
        BOTH_MODES(test_target_removed_and_made_again),
        BOTH_MODES(test_close_during_a_scan),
        BOTH_MODES(test_hold),
        ONE_MODE(test_an_idle_watcher_does_nothing, help_native),
        BOTH_MODES(test_no_memory_while_opening),
        BOTH_MODES(test_no_memory_for_a_while),
        ONE_MODE(test_refuses, help_native),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
