/* SPDX-License-Identifier: Apache-2.0
 *
 * Listings as people see a tree: order, ignore rules, bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "ops/listing.h"
#include "ops/removal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void folder(const char *path)
{
    assert_int_equal(mkdir(path, 0755), 0);
}

/* One line per entry: path and the first letter of its kind. */
static bool emit(void *ctx, tc_str path, tci_dir_kind kind)
{
    static const char letters[] = "fds";
    tci_buf_printf(ctx, "%.*s %c\n", TC_STR_ARG(path), letters[kind]);
    return true;
}

static tci_listing_options all(const char *path)
{
    return (tci_listing_options){.path = tci_str(path),
                                 .include_hidden = true,
                                 .use_gitignore = true,
                                 .max_entries = 1000,
                                 .max_bytes = 1000000};
}

static void lists(const tci_listing_options *o, const char *text, bool is_cut)
{
    tc_err err;
    tci_buf out;
    bool was_cut;
    tci_buf_init(&out, TCI_BUF_MAX);
    if (tci_ops_listing(o, emit, &out, &was_cut, &err) < 0)
        fail_msg("%s", err.msg);
    tci_buf_append_byte(&out, '\0');
    assert_string_equal(out.ptr, text);
    assert_int_equal(was_cut, is_cut);
    tci_buf_done(&out);
}

static void fails(const char *path, int os)
{
    tc_err err;
    tci_buf out;
    bool was_cut;
    tci_listing_options o = all(path);
    tci_buf_init(&out, TCI_BUF_MAX);
    assert_true(tci_ops_listing(&o, emit, &out, &was_cut, &err) < 0);
    assert_int_equal(err.os, os);
    tci_buf_done(&out);
}

static void depth_first_and_by_bytes(void **state)
{
    (void)state;
    folder("o");
    folder("o/a");
    folder("o/a/b");
    folder("o/.hidden");
    folder("o/empty");
    put("o/b.txt", "");
    put("o/a/z.txt", "");
    put("o/a/b/c.txt", "");
    put("o/.hidden/x", "");
    put("o/A.txt", "");
    put("o/a.txt", "");
    tci_listing_options o = all("o");
    lists(&o,
          ".hidden d\n.hidden/x f\nA.txt f\na d\na/b d\na/b/c.txt f\na/z.txt f\na.txt f\n"
          "b.txt f\nempty d\n",
          false);
    o.include_hidden = false;
    lists(&o, "A.txt f\na d\na/b d\na/b/c.txt f\na/z.txt f\na.txt f\nb.txt f\nempty d\n", false);
    o.path = TC_STR("o/a");
    lists(&o, "b d\nb/c.txt f\nz.txt f\n", false);
    o.path = TC_STR("o/empty");
    lists(&o, "", false);
}

static void ignore_rules_need_a_work_tree(void **state)
{
    static const tc_str modules = {"node_modules", 12};
    char outside[] = "/tmp/test-listing-XXXXXX"; /* the build folder may be in a work tree */
    char here[4096];
    (void)state;
    assert_non_null(getcwd(here, sizeof here));
    assert_non_null(mkdtemp(outside));
    assert_int_equal(chdir(outside), 0);
    folder("g");
    folder("g/out");
    folder("g/sub");
    folder("g/node_modules");
    put("g/.gitignore", "out/\n*.log\n");
    put("g/out/x.js", "");
    put("g/keep.txt", "");
    put("g/a.log", "");
    put("g/sub/keep.txt", "");
    put("g/sub/b.log", "");
    put("g/sub/.gitignore", "!keep.txt\n");
    put("g/node_modules/m", "");
    tci_listing_options o = all("g");
    o.exclude = &modules;
    o.nexclude = 1;
    lists(&o,
          ".gitignore f\na.log f\nkeep.txt f\nout d\nout/x.js f\nsub d\nsub/.gitignore f\n"
          "sub/b.log f\nsub/keep.txt f\n",
          false);
    folder("g/.git");
    folder("g/.git/info");
    put("g/.git/HEAD", "ref: refs/heads/main\n");
    put("g/.git/info/exclude", "keep.txt\r\n");
    lists(&o, ".gitignore f\nsub d\nsub/.gitignore f\nsub/keep.txt f\n", false);
    o.path = TC_STR("g/sub");
    lists(&o, ".gitignore f\nkeep.txt f\n", false);
    o = all("g");
    o.use_gitignore = false;
    lists(&o,
          ".gitignore f\na.log f\nkeep.txt f\nnode_modules d\nnode_modules/m f\nout d\nout/x.js f\n"
          "sub d\nsub/.gitignore f\nsub/b.log f\nsub/keep.txt f\n",
          false);
    tc_err err;
    assert_int_equal(chdir(here), 0);
    if (tci_ops_remove_tree(tci_str(outside), NULL, &err) < 0)
        fail_msg("%s", err.msg);
}

static void a_linked_work_tree_has_the_rules_of_its_repository(void **state)
{
    (void)state;
    folder("repo");
    folder("repo/info");
    folder("repo/worktrees");
    folder("repo/worktrees/w");
    put("repo/info/exclude", "secret\n");
    put("repo/worktrees/w/commondir", "../..\n");
    folder("w");
    put("w/.git", "gitdir: ../repo/worktrees/w\n");
    put("w/secret", "");
    put("w/open", "");
    tci_listing_options o = all("w");
    lists(&o, "open f\n", false);
}

static void a_repository_inside_has_its_own_rules(void **state)
{
    (void)state;
    folder("outer");
    folder("outer/.git");
    folder("outer/inner");
    folder("outer/inner/.git");
    put("outer/.gitignore", "*.tmp\n");
    put("outer/a.tmp", "");
    put("outer/inner/b.tmp", "");
    tci_listing_options o = all("outer");
    lists(&o, ".gitignore f\ninner d\ninner/b.tmp f\n", false);
}

static void bounds_cut_only_what_is_there(void **state)
{
    (void)state;
    folder("n");
    put("n/a", "");
    put("n/b", "");
    put("n/c", "");
    tci_listing_options o = all("n");
    o.max_entries = 2;
    lists(&o, "a f\nb f\n", true);
    o.max_entries = 3;
    lists(&o, "a f\nb f\nc f\n", false);
    o.max_entries = 0;
    lists(&o, "", true);
    o = all("n");
    o.max_bytes = 6;
    lists(&o, "a f\nb f\n", true);
    o.max_bytes = 9;
    lists(&o, "a f\nb f\nc f\n", false);
    tci_cancel late = {.deadline_ns = 1};
    o.cancel = &late;
    lists(&o, "", true);
}

/* A byte that is no text costs what stands for it. */
static void names_that_are_no_text_count_as_their_text(void **state)
{
    (void)state;
    folder("u");
    put("u/\xff", "");
    tci_listing_options o = all("u");
    o.max_bytes = 4;
    lists(&o, "", true);
    o.max_bytes = 5;
    lists(&o, "\xff f\n", false);
}

static void links_are_told_and_not_entered(void **state)
{
    (void)state;
    folder("l");
    folder("l/real");
    put("l/real/f", "");
    assert_int_equal(symlink("nowhere", "l/dangling"), 0);
    assert_int_equal(symlink("real", "l/dir"), 0);
    assert_int_equal(symlink(".", "l/loop"), 0);
    assert_int_equal(mkfifo("l/fifo", 0600), 0);
    assert_int_equal(symlink("l", "l-link"), 0);
    tci_listing_options o = all("l");
    lists(&o, "dangling s\ndir s\nloop s\nreal d\nreal/f f\n", false);
    o.path = TC_STR("l-link");
    lists(&o, "dangling s\ndir s\nloop s\nreal d\nreal/f f\n", false);
}

static void a_folder_that_cannot_be_read_is_passed_over(void **state)
{
    (void)state;
    if (geteuid() == 0)
        skip(); /* nothing is forbidden to root */
    folder("q");
    folder("q/closed");
    put("q/closed/f", "");
    put("q/z", "");
    assert_int_equal(chmod("q/closed", 0), 0);
    tci_listing_options o = all("q");
    lists(&o, "closed d\nz f\n", false);
    fails("q/closed", EACCES);
}

static void the_root_must_be_a_folder(void **state)
{
    (void)state;
    put("plain", "");
    fails("missing", ENOENT);
    fails("plain", ENOTDIR);
    fails("plain/x", ENOTDIR);
}

static void a_cancelled_listing_is_none(void **state)
{
    tc_err err;
    bool was_cut;
    tci_buf out;
    tci_cancel cancel = {.is_cancelled = true};
    (void)state;
    folder("c");
    put("c/a", "");
    tci_listing_options o = all("c");
    o.cancel = &cancel;
    tci_buf_init(&out, TCI_BUF_MAX);
    assert_int_equal(tci_ops_listing(&o, emit, &out, &was_cut, &err), TC_E_CANCELLED);
    assert_int_equal(out.len, 0);
}

int main(void)
{
    if (mkdir(".git", 0755) != 0) /* no rules of a work tree that the build folder is in */
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_first_and_by_bytes),
        cmocka_unit_test(ignore_rules_need_a_work_tree),
        cmocka_unit_test(a_linked_work_tree_has_the_rules_of_its_repository),
        cmocka_unit_test(a_repository_inside_has_its_own_rules),
        cmocka_unit_test(bounds_cut_only_what_is_there),
        cmocka_unit_test(names_that_are_no_text_count_as_their_text),
        cmocka_unit_test(links_are_told_and_not_entered),
        cmocka_unit_test(a_folder_that_cannot_be_read_is_passed_over),
        cmocka_unit_test(the_root_must_be_a_folder),
        cmocka_unit_test(a_cancelled_listing_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
