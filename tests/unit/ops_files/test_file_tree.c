/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders, moving, removing. */
#include "files_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tc_err err;
static tci_file_info info;

static int fresh(void **state)
{
    (void)state;
    world_new();
    return 0;
}

/* ---- mkdir ---- */

static int make(const char *name, bool parents, bool exist_ok, uint64_t *ret_created)
{
    return tci_ops_mkdir(path(name), parents, exist_ok, NULL, &info, ret_created, &err);
}

static void folders_are_made_and_counted(void **state)
{
    (void)state;
    uint64_t n = 0;
    put_text("f", "x");
    make_link("f", "lf");
    make_link("nowhere", "dangling");
    assert_int_equal(make("a", false, false, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(info.kind, TCI_FILE_KIND_DIRECTORY);
    assert_int_equal(make("a", false, false, &n), TC_E_CONFLICT);
    assert_int_equal(make("a", false, true, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(make("b/c/d", false, false, &n), TC_E_NOT_FOUND);
    assert_false(exists("b"));
    assert_int_equal(make("b/c/d", true, false, &n), 0);
    assert_int_equal(n, 3);
    assert_int_equal(make("b/c/e", true, false, &n), 0);
    assert_int_equal(n, 1);
    make_link("b", "lb");
    assert_int_equal(make("lb/x/y", true, false, &n), 0); /* links on the way are followed */
    assert_true(n == 2 && exists("b/x/y"));
    assert_int_equal(make("lb", false, true, &n), 0);
    assert_int_equal(make("f", true, true, &n), TC_E_CONFLICT);
    assert_int_equal(make("lf", true, true, &n), TC_E_CONFLICT);
    assert_int_equal(make("f/x/y", true, true, &n), TC_E_DENIED);
    assert_int_equal(make("dangling", true, true, &n), TC_E_CONFLICT);
    assert_int_equal(tci_ops_mkdir(TC_STR("/"), false, true, NULL, &info, &n, &err), 0);
}

static void case_44_a_dangling_link_makes_nothing_elsewhere(void **state)
{
    (void)state;
    uint64_t n = 9;
    make_folder("in");
    make_link("../out", "in/l");
    assert_int_equal(make("in/l/new/d", true, true, &n), TC_E_CONFLICT);
    assert_int_equal(n, 0);
    assert_int_equal(write_text("in/l", TCI_WRITE_UPSERT, "x", &err), TC_E_DENIED);
    assert_int_equal(write_text("in/l/f", TCI_WRITE_UPSERT, "x", &err), TC_E_NOT_FOUND);
    assert_false(exists("out"));
}

/* ---- move ---- */

static int move(const char *from, const char *to, bool replace)
{
    return tci_ops_move(path(from), path(to), replace, NULL, &info, &err);
}

static void build_for_move(void)
{
    world_new();
    put_text("f", "f");
    put_text("g", "g");
    make_folder("d");
    put_text("d/x", "x");
    make_folder("full");
    make_folder("full/sub");
    put_text("full/sub/y", "y");
    make_link("d", "full/link");
    make_folder("empty");
    make_link("f", "l");
    make_link("nowhere", "dangling");
}

typedef struct move_row {
    const char *from, *to;
    int plain, replacing;
} move_row;

static void moves_against_what_exists(void **state)
{
    (void)state;
    static const move_row rows[] = {
        {"f", "new", 0, 0},
        {"d", "new", 0, 0},
        {"l", "new", 0, 0},
        {"dangling", "new", 0, 0},
        {"none", "new", TC_E_NOT_FOUND, TC_E_NOT_FOUND},
        {"f", "g", TC_E_CONFLICT, 0},
        {"f", "l", TC_E_CONFLICT, 0},
        {"f", "dangling", TC_E_CONFLICT, 0},
        {"f", "d", TC_E_CONFLICT, TC_E_DENIED},
        {"f", "none/x", TC_E_NOT_FOUND, TC_E_NOT_FOUND},
        {"f", "g/x", TC_E_DENIED, TC_E_DENIED},
        {"d", "f", TC_E_CONFLICT, TC_E_DENIED},
        {"d", "empty", TC_E_CONFLICT, 0},
        {"empty", "full", TC_E_CONFLICT, 0},
        {"d", "full", TC_E_CONFLICT, 0},
        {"d", "d/in", TC_E_UNSUPPORTED, TC_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int replace = 0; replace < 2; replace++) {
            build_for_move();
            ino_t ino = exists(rows[i].from) ? stat_of(rows[i].from).st_ino : 0;
            int expected = replace ? rows[i].replacing : rows[i].plain;
            int rc = move(rows[i].from, rows[i].to, replace);
            if (rc != expected)
                fail_msg("%s to %s, replace %d, gave %s", rows[i].from, rows[i].to, replace,
                         tc_code_name(rc));
            if (rc == 0) {
                assert_false(exists(rows[i].from));
                assert_int_equal(stat_of(rows[i].to).st_ino, ino);
                assert_int_equal(info.ino, ino);
            } else {
                assert_true(same("f", "f") && same("g", "g") && same("d/x", "x"));
                assert_true(same("full/sub/y", "y"));
            }
        }
    /* The last successful exchange removed the old folder, and nothing through its link. */
    build_for_move();
    assert_int_equal(move("empty", "full", true), 0);
    assert_false(exists("full/sub") || exists("empty"));
    assert_true(same("d/x", "x"));
}

static void moving_across_devices(void **state)
{
    (void)state;
    struct stat here, there;
    put_text("f", "x");
    here = stat_of("f");
    if (stat("/dev/shm", &there) < 0 || here.st_dev == there.st_dev ||
        access("/dev/shm", W_OK) < 0) {
        print_message("skipped: no second file system to write to\n");
        skip();
    }
    char other[64];
    (void)snprintf(other, sizeof other, "/dev/shm/tc-move-%ld", (long)getpid());
    assert_int_equal(tci_ops_move(path("f"), tci_str(other), false, NULL, &info, &err),
                     TC_E_UNSUPPORTED);
    assert_int_equal(tci_ops_move(path("f"), tci_str(other), true, NULL, &info, &err), TC_E_IO);
    assert_true(same("f", "x"));
    assert_int_equal(access(other, F_OK), -1);
}

/* ---- remove ---- */

static int rm(const char *name, tci_file_kind kind, bool recursive, uint64_t max, uint64_t *removed)
{
    tci_remove in = {
        .path = path(name), .expected_kind = kind, .recursive = recursive, .max_entries = max};
    return tci_ops_remove(&in, NULL, removed, &err);
}

static void removal_checks_kind_and_count_first(void **state)
{
    (void)state;
    uint64_t n = 9;
    make_folder("keep");
    put_text("keep/k", "k");
    make_folder("d");
    make_folder("d/e");
    put_text("d/x", "x");
    put_text("d/e/y", "y");
    make_link("../keep", "d/l");
    make_link("keep", "ld");
    assert_int_equal(rm("d", TCI_FILE_KIND_REGULAR, true, 100, &n), TC_E_CONFLICT);
    assert_int_equal(rm("ld", TCI_FILE_KIND_DIRECTORY, true, 100, &n), TC_E_CONFLICT);
    assert_int_equal(rm("none", TCI_FILE_KIND_REGULAR, false, 1, &n), TC_E_NOT_FOUND);
    assert_int_equal(rm("none", TCI_FILE_KIND_REGULAR, false, 0, &n), TC_E_DENIED);
    assert_int_equal(rm("d", TCI_FILE_KIND_DIRECTORY, false, 100, &n), TC_E_IO);
    assert_int_equal(n, 0);
    assert_int_equal(rm("d", TCI_FILE_KIND_DIRECTORY, true, 4, &n), TC_E_QUOTA);
    assert_int_equal(n, 0);
    assert_true(exists("d/e/y") && exists("d/x") && exists("d/l"));
    assert_int_equal(rm("d", TCI_FILE_KIND_DIRECTORY, true, 5, &n), 0);
    assert_int_equal(n, 5);
    assert_false(exists("d"));
    assert_true(same("keep/k", "k"));
    assert_int_equal(rm("ld", TCI_FILE_KIND_SYMLINK, true, 1, &n), 0);
    assert_true(n == 1 && exists("keep/k"));
    tci_remove root = {.path = TC_STR("/"),
                       .expected_kind = TCI_FILE_KIND_DIRECTORY,
                       .recursive = true,
                       .max_entries = 1};
    assert_int_equal(tci_ops_remove(&root, NULL, &n, &err), TC_E_DENIED);
}

static void deep_trees_are_refused_whole(void **state)
{
    (void)state;
    uint64_t n = 0;
    char cwd[4096];
    assert_non_null(getcwd(cwd, sizeof cwd));
    make_folder("deep");
    assert_int_equal(chdir(at("deep")), 0);
    for (int i = 0; i < 130; i++) {
        assert_int_equal(mkdir("d", 0755), 0);
        assert_int_equal(chdir("d"), 0);
        if (i == 127)
            assert_int_equal(mkdir("leaf", 0755), 0);
    }
    assert_int_equal(chdir(cwd), 0);
    assert_int_equal(rm("deep", TCI_FILE_KIND_DIRECTORY, true, 10000, &n), TC_E_QUOTA);
    assert_int_equal(n, 0);
    /* Two less deep it may go. */
    char below[512] = "deep/d/d";
    assert_int_equal(rename(at(below), at("moved")), 0);
    assert_int_equal(rm("moved", TCI_FILE_KIND_DIRECTORY, true, 10000, &n), 0);
    assert_int_equal(n, 130);
}

static void a_failure_midway_tells_how_far_it_came(void **state)
{
    (void)state;
    uint64_t n = 9;
    make_folder("d");
    for (int i = 0; i < 20; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "d/%d", i);
        make_folder(name);
    }
    tci_cancel cancel = {.deadline_ns = 1}; /* long over */
    tci_remove in = {.path = path("d"),
                     .expected_kind = TCI_FILE_KIND_DIRECTORY,
                     .recursive = true,
                     .max_entries = 100};
    assert_int_equal(tci_ops_remove(&in, &cancel, &n, &err), TC_E_TIMEOUT);
    assert_int_equal(n, 0);
    assert_true(exists("d/7"));
    if (geteuid() == 0)
        return; /* nothing that root may not remove */
    make_folder("d/5/in");
    assert_int_equal(chmod(at("d/5"), 0555), 0);
    assert_int_equal(tci_ops_remove(&in, NULL, &n, &err), TC_E_DENIED);
    assert_true(n < 21);
    assert_int_equal(chmod(at("d/5"), 0755), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(folders_are_made_and_counted, fresh),
        cmocka_unit_test_setup(case_44_a_dangling_link_makes_nothing_elsewhere, fresh),
        cmocka_unit_test_setup(moves_against_what_exists, fresh),
        cmocka_unit_test_setup(moving_across_devices, fresh),
        cmocka_unit_test_setup(removal_checks_kind_and_count_first, fresh),
        cmocka_unit_test_setup(deep_trees_are_refused_whole, fresh),
        cmocka_unit_test_setup(a_failure_midway_tells_how_far_it_came, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
