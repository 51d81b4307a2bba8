/* SPDX-License-Identifier: Apache-2.0
 *
 * What a watcher promises, by notices and by polling alike: files and folders that come, go and are
 * replaced, whatever of the way to them exists. */
#include "watch_help.h"

#include <errno.h>

static void test_missing_file(void **state)
{
    fix *f = *state;
    seen s;
    seen_target(&s, f, "AGENTS.md", false);
    assert_int_equal(s.mode, f->mode);
    put(f, "AGENTS.md", "one");
    seen_expect(&s, "AGENTS.md");
    put(f, "AGENTS.md", "two!");
    seen_expect(&s, "AGENTS.md");
    put(f, "new", "three");
    move(f, "new", "AGENTS.md");
    seen_expect(&s, "AGENTS.md");
    put(f, "AGENTS.md", "rewritten");
    seen_expect(&s, "AGENTS.md");
    discard(f, "AGENTS.md");
    seen_expect(&s, "AGENTS.md");
    seen_close(&s);
}

static void test_missing_ancestors(void **state)
{
    fix *f = *state;
    seen s;
    seen_target(&s, f, "a/b/c/AGENTS.md", false);
    put(f, "a/b/c/AGENTS.md", "here");
    seen_expect(&s, "a/b/c/AGENTS.md");
    put(f, "a/b/c/AGENTS.md", "and again");
    seen_expect(&s, "a/b/c/AGENTS.md");
    discard(f, "a");
    seen_expect(&s, "a/b/c/AGENTS.md");
    put(f, "a/b/c/AGENTS.md", "back");
    seen_expect(&s, "a/b/c/AGENTS.md");
    seen_close(&s);
}

static void test_recursive(void **state)
{
    fix *f = *state;
    seen s;
    make_dir(f, "tree");
    seen_target(&s, f, "tree", true);
    put(f, "tree/a/b/one.txt", "1");
    seen_expect(&s, "tree/a/b/one.txt");
    put(f, "tree/a/b/one.txt", "12");
    seen_expect(&s, "tree/a/b/one.txt");
    put(f, "tree/a/b/c/two.txt", "1");
    seen_expect(&s, "tree/a/b/c/two.txt");
    discard(f, "tree/a");
    seen_expect(&s, "tree/a/b/c/two.txt");
    seen_close(&s);
}

static void test_not_recursive(void **state)
{
    fix *f = *state;
    seen s;
    put(f, "tree/sub/deep.txt", "1");
    seen_target(&s, f, "tree", false);
    put(f, "tree/sub/deep.txt", "changed");
    put(f, "tree/last.txt", "1");
    WAIT_FOR(f, seen_has(&s, at(f, "tree/last.txt")));
    assert_false(seen_mentions(&s, "deep"));
    put(f, "tree/sub/deep.txt", "changed again");
    seen_forget(&s);
    put(f, "tree/last.txt", "12");
    WAIT_FOR(f, seen_has(&s, at(f, "tree/last.txt")));
    assert_false(seen_mentions(&s, "deep"));
    seen_close(&s);
}

static void test_ancestor_renamed(void **state)
{
    fix *f = *state;
    seen s;
    put(f, "proj/.pi/skills/x.md", "x");
    seen_target(&s, f, "proj/.pi/skills", true);
    move(f, "proj/.pi", "proj/away");
    seen_expect(&s, "proj/.pi/skills");
    put(f, "proj/.pi/skills/y.md", "y");
    seen_expect(&s, "proj/.pi/skills/y.md");
    put(f, "proj/.pi/skills/y.md", "yy");
    seen_expect(&s, "proj/.pi/skills/y.md");
    put(f, "proj/.pi/skills/sub/z.md", "z");
    seen_expect(&s, "proj/.pi/skills/sub/z.md");
    seen_close(&s);
}

static void test_excludes(void **state)
{
    fix *f = *state;
    seen s;
    const tc_str names[] = {TC_STR("node_modules"), TC_STR("out")};
    put(f, "w/node_modules/x.js", "x");
    put(f, "w/sub/node_modules/x.js", "x");
    put(f, "w/.dot", "x");
    tci_ops_watch_target t = target(f, "w", true);
    t.exclude_hidden = true;
    t.names = names;
    t.nnames = 2;
    tci_ops_watch_options o = options(f, &t, 1);
    seen_open(&s, f, &o);
    for (int i = 0; i < 2; i++) {
        put(f, "w/node_modules/y.js", i != 0 ? "xx" : "x");
        put(f, "w/sub/node_modules/deep/y.js", i != 0 ? "xx" : "x");
        put(f, "w/out", i != 0 ? "xx" : "x");
        put(f, "w/.dot", i != 0 ? "xxx" : "xx");
        put(f, "w/.git/index", i != 0 ? "xx" : "x");
        put(f, "w/shown.txt", i != 0 ? "xx" : "x");
        WAIT_FOR(f, seen_has(&s, at(f, "w/shown.txt")));
        assert_false(seen_mentions(&s, "node_modules"));
        assert_false(seen_mentions(&s, "/out"));
        assert_false(seen_mentions(&s, "/."));
        assert_int_equal(s.noverflows, 0);
        seen_forget(&s);
    }
    move(f, "w/.dot", "w/dot");
    WAIT_FOR(f, seen_has(&s, at(f, "w/dot")));
    assert_false(seen_mentions(&s, "/."));
    seen_close(&s);
}

static void test_excludes_do_not_hide_the_target(void **state)
{
    fix *f = *state;
    seen s;
    const tc_str names[] = {TC_STR("node_modules")};
    tci_ops_watch_target t = target(f, ".hidden/node_modules", true);
    t.exclude_hidden = true;
    t.names = names;
    t.nnames = 1;
    tci_ops_watch_options o = options(f, &t, 1);
    seen_open(&s, f, &o);
    put(f, ".hidden/node_modules/x.js", "x");
    seen_expect(&s, ".hidden/node_modules/x.js");
    put(f, ".hidden/node_modules/x.js", "xx");
    seen_expect(&s, ".hidden/node_modules/x.js");
    seen_close(&s);
}

static void test_two_targets_one_folder(void **state)
{
    fix *f = *state;
    seen s;
    make_dir(f, "w/sub");
    tci_ops_watch_target t[] = {target(f, "w", false), target(f, "w", true)};
    tci_ops_watch_options o = options(f, t, 2);
    o.max_directories = 2; /* they are the same ones */
    seen_open(&s, f, &o);
    put(f, "w/sub/x", "x");
    seen_expect(&s, "w/sub/x");
    put(f, "w/x", "x");
    WAIT_FOR(f, seen_has(&s, at(f, "w/x")));
    assert_true(s.was_sorted);
    seen_close(&s);
}

static void test_folder_replaced(void **state)
{
    fix *f = *state;
    seen s;
    put(f, "w/old.txt", "x");
    put(f, "next/new.txt", "x");
    seen_target(&s, f, "w", true);
    move(f, "w", "gone");
    move(f, "next", "w");
    seen_expect(&s, "w");
    put(f, "w/later.txt", "x");
    seen_expect(&s, "w/later.txt");
    put(f, "w/later.txt", "xx");
    seen_expect(&s, "w/later.txt");
    put(f, "w/new.txt", "xx");
    seen_expect(&s, "w/new.txt");
    seen_close(&s);
}

static void test_folder_below_replaced(void **state)
{
    fix *f = *state;
    seen s;
    put(f, "w/sub/deep/old.txt", "x");
    put(f, "next/deep/new.txt", "x");
    seen_target(&s, f, "w", true);
    move(f, "w/sub", "gone");
    move(f, "next", "w/sub");
    seen_expect(&s, "w/sub");
    put(f, "gone/deep/old.txt", "it is no longer ours");
    put(f, "w/sub/deep/new.txt", "xx");
    WAIT_FOR(f, seen_has(&s, at(f, "w/sub/deep/new.txt")));
    seen_close(&s);
}

static void test_close(void **state)
{
    fix *f = *state;
    seen s, other;
    make_dir(f, "w");
    seen_target(&s, f, "w", true);
    seen_target(&other, f, "w", true);
    put(f, "w/x", "x");
    seen_expect(&s, "w/x");
    tci_ops_watch_close(s.watch);
    tci_ops_watch_close(NULL);
    seen_forget(&other);
    put(f, "w/y", "y");
    WAIT_FOR(f, seen_has(&other, at(f, "w/y")));
    put(f, "w/z", "z");
    WAIT_FOR(f, seen_has(&other, at(f, "w/z")));
    assert_int_equal(s.npaths, 0);
    s.watch = NULL;
    seen_close(&s);
    seen_close(&other);
}

static void test_close_in_event(void **state)
{
    fix *f = *state;
    seen s;
    make_dir(f, "w");
    seen_target(&s, f, "w", true);
    s.closes_in_event = true;
    put(f, "w/x", "x");
    WAIT_FOR(f, s.npaths != 0);
    assert_null(s.watch);
    tci_buf_done(&s.paths);
}

static void test_link_to_file(void **state)
{
    fix *f = *state;
    seen s;
    put(f, "elsewhere/real.md", "x");
    make_link(f, at(f, "elsewhere/real.md"), "AGENTS.md");
    seen_target(&s, f, "AGENTS.md", false);
    put(f, "elsewhere/real.md", "xx");
    seen_expect(&s, "AGENTS.md");
    /* what it leads to is replaced, goes, and comes back */
    put(f, "elsewhere/tmp", "xxx");
    move(f, "elsewhere/tmp", "elsewhere/real.md");
    seen_expect(&s, "AGENTS.md");
    discard(f, "elsewhere/real.md");
    seen_expect(&s, "AGENTS.md");
    put(f, "elsewhere/real.md", "back");
    seen_expect(&s, "AGENTS.md");
    /* the link itself leads somewhere else now */
    put(f, "other.md", "other");
    make_link(f, "other.md", "link2");
    move(f, "link2", "AGENTS.md");
    seen_expect(&s, "AGENTS.md");
    put(f, "other.md", "other, rewritten");
    seen_expect(&s, "AGENTS.md");
    seen_close(&s);
}

static void test_link_to_folder_of_a_link(void **state)
{
    fix *f = *state;
    seen s;
    make_dir(f, "one/skills");
    make_dir(f, "two/skills");
    make_link(f, "one", "current");
    make_link(f, "../current/skills", "one/../skills");
    discard(f, "skills");
    make_link(f, "current/skills", "skills");
    seen_target(&s, f, "skills", true);
    put(f, "one/skills/x.md", "x");
    seen_expect(&s, "skills/x.md");
    make_link(f, "two", "next");
    move(f, "next", "current"); /* a link on the way */
    seen_expect(&s, "skills");
    put(f, "two/skills/y.md", "y");
    seen_expect(&s, "skills/y.md");
    /* links below are not followed */
    make_dir(f, "far");
    make_link(f, at(f, "far"), "two/skills/far");
    seen_expect(&s, "skills/far");
    put(f, "far/z.md", "z");
    put(f, "two/skills/last.md", "x");
    WAIT_FOR(f, seen_has(&s, at(f, "skills/last.md")));
    assert_false(seen_mentions(&s, "z.md"));
    seen_close(&s);
}

static void test_links_that_lead_nowhere(void **state)
{
    fix *f = *state;
    seen s;
    make_link(f, "loop", "loop");
    make_link(f, "missing/x.md", "dangling");
    tci_ops_watch_target t[] = {target(f, "loop", true), target(f, "dangling", true)};
    tci_ops_watch_options o = options(f, t, 2);
    seen_open(&s, f, &o);
    put(f, "missing/x.md", "x");
    seen_expect(&s, "dangling");
    discard(f, "loop");
    seen_expect(&s, "loop");
    put(f, "loop/x", "x");
    seen_expect(&s, "loop/x");
    seen_close(&s);
}

static void test_same_size_and_time(void **state)
{
    fix *f = *state;
    seen s;
    make_dir(f, "w");
    put(f, "w/x", "aaaa");
    tci_instant now = tci_clock_now();
    set_modified(f, "w/x", now);
    seen_target(&s, f, "w", true);
    for (char c = 'b'; c < 'h'; c++) {
        const char text[] = {c, c, c, c, '\0'};
        put(f, "w/x", text);
        set_modified(f, "w/x", now);
        seen_expect(&s, "w/x");
    }
    seen_close(&s);
}

static void test_names_of_all_kinds(void **state)
{
    fix *f = *state;
    seen s;
    make_dir(f, "w");
    seen_target(&s, f, "w", true);
    put(f, "w/\xff\xfe", "not UTF-8");
    seen_expect(&s, "w/\xff\xfe");
    put(f, "w/with\nnewline and \"quotes\"", "x");
    seen_expect(&s, "w/with\nnewline and \"quotes\"");
    make_dir(f, "next");
    /* U+10000, as UTF-16 D800 DC00, comes before U+FFFD */
    put(f, "next/\xef\xbf\xbd", "x");
    put(f, "next/\xf0\x90\x80\x80", "x");
    put(f, "next/z", "x");
    move(f, "next", "w/sub");
    WAIT_FOR(f, seen_has(&s, at(f, "w/sub/z")));
    tc_str all = tci_buf_str(&s.paths);
    if (s.nchanges == 1)
        assert_true(tci_str_find(all, TC_STR("\xf0\x90\x80\x80")) <
                    tci_str_find(all, TC_STR("\xef\xbf\xbd")));
    seen_close(&s);
}

static void test_file_becomes_folder(void **state)
{
    fix *f = *state;
    seen s;
    put(f, "w/x", "a file");
    seen_target(&s, f, "w/x", true);
    discard(f, "w/x");
    put(f, "w/x/y", "in a folder");
    seen_expect(&s, "w/x/y");
    put(f, "w/x/y", "rewritten");
    seen_expect(&s, "w/x/y");
    discard(f, "w/x");
    put(f, "w/x", "a file again");
    seen_expect(&s, "w/x");
    put(f, "w/x", "a file again, rewritten");
    seen_expect(&s, "w/x");
    discard(f, "w");
    put(f, "w", "a file in the way");
    seen_expect(&s, "w/x");
    discard(f, "w");
    put(f, "w/x/y", "all back");
    seen_expect(&s, "w/x/y");
    seen_close(&s);
}

static void test_too_many_folders(void **state)
{
    fix *f = *state;
    seen s;
    make_dir(f, "w/a");
    make_dir(f, "w/b");
    tci_ops_watch_target t = target(f, "w", true);
    tci_ops_watch_options o = options(f, &t, 1);
    o.max_directories = 2;
    seen_start(&s, f, &o);
    WAIT_FOR(f, s.has_failed);
    assert_int_equal(s.nready, 0);
    assert_int_equal(s.error.code, TC_E_INVALID);
    assert_string_equal(s.error.msg, "watched paths exceed 2 directories");
    seen_close(&s);

    o.max_directories = 3;
    seen_open(&s, f, &o);
    make_dir(f, "w/c");
    WAIT_FOR(f, s.has_failed);
    assert_int_equal(s.error.code, TC_E_INVALID);
    seen_close(&s);
}

static void test_unreadable(void **state)
{
    fix *f = *state;
    seen s;
    be_nobody(true);
    put(f, "w/secret/x", "x");
    put(f, "w/open/x", "x");
    put(f, "dark/x", "x");
    set_mode(f, "w/secret", 0);
    set_mode(f, "dark", 0);
    seen_target(&s, f, "w", true); /* below a target: left out */
    put(f, "w/open/x", "xx");
    WAIT_FOR(f, seen_has(&s, at(f, "w/open/x")));
    assert_false(seen_mentions(&s, "secret/"));
    seen_forget(&s);
    set_mode(f, "w/secret", 0777); /* and taken in when that has become possible */
    WAIT_FOR(f, seen_has(&s, at(f, "w/secret/x")));
    put(f, "w/secret/y", "y");
    seen_expect(&s, "w/secret/y");
    seen_close(&s);

    const char *const denied[] = {"dark", "dark/x"};
    for (size_t i = 0; i < 2; i++) {
        tci_ops_watch_target t = target(f, denied[i], true);
        tci_ops_watch_options o = options(f, &t, 1);
        seen_start(&s, f, &o);
        WAIT_FOR(f, s.nready == 1 || s.has_failed);
        assert_true(s.has_failed);
        assert_int_equal(s.error.code, TC_E_DENIED);
        assert_int_equal(s.error.os, EACCES);
        seen_close(&s);
    }
    set_mode(f, "dark", 0777);
}

static void test_becomes_unreadable(void **state)
{
    fix *f = *state;
    seen s;
    be_nobody(true);
    put(f, "w/x", "x");
    put(f, "w/sub/x", "x");
    seen_target(&s, f, "w", true);
    set_mode(f, "w/sub", 0);
    put(f, "w/x", "xx");
    WAIT_FOR(f, seen_has(&s, at(f, "w/x")));
    assert_false(s.has_failed);
    set_mode(f, "w", 0);
    WAIT_FOR(f, s.has_failed);
    assert_int_equal(s.error.code, TC_E_DENIED);
    assert_int_equal(s.nready, 1);
    set_mode(f, "w", 0777);
    set_mode(f, "w/sub", 0777);
    seen_close(&s);
}

/* A directory that may be passed through but not read cannot be watched: it is looked at instead. */
static void test_ancestor_that_cannot_be_read(void **state)
{
    fix *f = *state;
    seen s;
    be_nobody(true);
    put(f, "dark/file.md", "x");
    set_mode(f, "dark", 0333);
    seen_target(&s, f, "dark/file.md", false);
    assert_int_equal(s.mode, f->mode);
    assert_int_equal(s.nswitches, 0);
    put(f, "dark/file.md", "xx");
    seen_expect(&s, "dark/file.md");
    discard(f, "dark/file.md");
    seen_expect(&s, "dark/file.md");
    put(f, "dark/file.md", "back");
    seen_expect(&s, "dark/file.md");
    set_mode(f, "dark", 0777);
    seen_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_MODES(test_missing_file),
        BOTH_MODES(test_missing_ancestors),
        BOTH_MODES(test_recursive),
        BOTH_MODES(test_not_recursive),
        BOTH_MODES(test_ancestor_renamed),
        BOTH_MODES(test_excludes),
        BOTH_MODES(test_excludes_do_not_hide_the_target),
        BOTH_MODES(test_two_targets_one_folder),
        BOTH_MODES(test_folder_replaced),
        BOTH_MODES(test_folder_below_replaced),
        BOTH_MODES(test_close),
        BOTH_MODES(test_close_in_event),
        BOTH_MODES(test_link_to_file),
        BOTH_MODES(test_link_to_folder_of_a_link),
        BOTH_MODES(test_links_that_lead_nowhere),
        BOTH_MODES(test_same_size_and_time),
        BOTH_MODES(test_names_of_all_kinds),
        BOTH_MODES(test_file_becomes_folder),
        BOTH_MODES(test_too_many_folders),
        BOTH_MODES(test_unreadable),
        BOTH_MODES(test_becomes_unreadable),
        BOTH_MODES(test_ancestor_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
