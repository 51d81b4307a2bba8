/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts, atomic writes and copies of single files. */
#include "files_help.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static tc_err err;

static int fresh(void **state)
{
    (void)state;
    world_new();
    return 0;
}

/* ---- facts ---- */

static void stat_tells_kind_size_and_time(void **state)
{
    (void)state;
    put("f", "hello", 5, 0755);
    make_link("f", "l");
    make_link("nowhere", "dangling");
    make_link("loop", "loop");
    make_folder("d");
    tci_file_info info;
    assert_int_equal(tci_ops_stat(path("f"), true, &info, &err), 0);
    assert_int_equal(info.kind, TCI_FILE_KIND_REGULAR);
    assert_true(info.has_size && info.size == 5 && info.has_executable && info.executable);
    struct stat st = stat_of("f");
    assert_int_equal(info.modified.sec, st.st_mtim.tv_sec);
    assert_int_equal(info.modified.nsec, st.st_mtim.tv_nsec);
    assert_int_equal(tci_ops_stat(path("l"), true, &info, &err), 0);
    assert_int_equal(info.kind, TCI_FILE_KIND_REGULAR);
    assert_int_equal(tci_ops_stat(path("l"), false, &info, &err), 0);
    assert_int_equal(info.kind, TCI_FILE_KIND_SYMLINK);
    assert_false(info.has_size || info.has_executable);
    assert_int_equal(tci_ops_stat(path("d"), false, &info, &err), 0);
    assert_int_equal(info.kind, TCI_FILE_KIND_DIRECTORY);
    assert_int_equal(tci_ops_stat(path("dangling"), true, &info, &err), TC_E_NOT_FOUND);
    assert_int_equal(tci_ops_stat(path("dangling"), false, &info, &err), 0);
    assert_int_equal(tci_ops_stat(path("f/x"), true, &info, &err), TC_E_DENIED);
    assert_int_equal(tci_ops_stat(path("loop"), true, &info, &err), TC_E_IO);
}

static void names_that_are_not_utf8_or_too_long(void **state)
{
    (void)state;
    tci_file_info info;
    put_text("a\xff", "1");
    put_text("a\xfe", "2");
    put_text("a\xef\xbf\xbd", "3");
    assert_int_equal(tci_ops_stat(path("a\xff"), true, &info, &err), 0);
    assert_int_equal(write_text("a\xfe", TCI_WRITE_REPLACE, "two", &err), 0);
    assert_true(same("a\xff", "1") && same("a\xfe", "two") && same("a\xef\xbf\xbd", "3"));
    char name[300];
    memset(name, 'x', sizeof name);
    name[299] = '\0';
    assert_int_equal(tci_ops_stat(path(name), true, &info, &err), TC_E_IO);
    assert_int_equal(write_text(name, TCI_WRITE_CREATE, "x", &err), TC_E_IO);
    tc_str nul = tci_str_of("/tmp/a\0b", 8);
    assert_int_equal(tci_ops_stat(nul, true, &info, &err), TC_E_INVALID);
}

/* ---- writing ---- */

typedef struct mode_row {
    const char *name;
    int expected[4]; /* create replace upsert append */
} mode_row;

static void write_modes_against_what_exists(void **state)
{
    (void)state;
    static const mode_row rows[] = {
        {"f", {TC_E_CONFLICT, 0, 0, 0}},
        {"new", {0, TC_E_NOT_FOUND, 0, TC_E_NOT_FOUND}},
        {"l", {TC_E_DENIED, TC_E_DENIED, TC_E_DENIED, TC_E_DENIED}},
        {"dangling", {TC_E_DENIED, TC_E_DENIED, TC_E_DENIED, TC_E_DENIED}},
        {"d", {TC_E_DENIED, TC_E_DENIED, TC_E_DENIED, TC_E_DENIED}},
        {"fifo", {TC_E_DENIED, TC_E_DENIED, TC_E_DENIED, TC_E_DENIED}},
        {"none/x", {TC_E_NOT_FOUND, TC_E_NOT_FOUND, TC_E_NOT_FOUND, TC_E_NOT_FOUND}},
        {"f/x", {TC_E_DENIED, TC_E_DENIED, TC_E_DENIED, TC_E_DENIED}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (unsigned mode = 0; mode < 4; mode++) {
            world_new();
            put_text("f", "old");
            make_folder("d");
            make_link("f", "l");
            make_link("nowhere", "dangling");
            assert_int_equal(mkfifo(at("fifo"), 0600), 0);
            int rc = write_text(rows[i].name, (tci_write_mode)mode, "new", &err);
            if (rc != rows[i].expected[mode])
                fail_msg("%s in mode %u gave %s", rows[i].name, mode, tc_code_name(rc));
            if (rc == 0)
                assert_true(same(rows[i].name, mode == TCI_WRITE_APPEND ? "oldnew" : "new"));
            else
                assert_true(same("f", "old"));
            assert_int_equal(count_stages(""), 0);
            assert_false(exists("nowhere"));
        }
}

static void new_files_are_private(void **state)
{
    (void)state;
    tci_file_info info;
    mode_t old = umask(0);
    tci_write_text in = {
        .path = path("plain"), .mode = TCI_WRITE_CREATE, .text = TC_STR("x"), .max_bytes = 10};
    assert_int_equal(tci_ops_write_text(&in, NULL, &info, NULL, &err), 0);
    in.path = path("run");
    in.has_executable = in.executable = true;
    assert_int_equal(tci_ops_write_text(&in, NULL, &info, NULL, &err), 0);
    assert_true(info.executable);
    put("old", "x", 1, 0755);
    in.path = path("old");
    in.mode = TCI_WRITE_UPSERT;
    in.executable = false;
    assert_int_equal(tci_ops_write_text(&in, NULL, &info, NULL, &err), 0);
    assert_false(info.executable);
    (void)umask(old);
    assert_int_equal(mode_of("plain"), 0600);
    assert_int_equal(mode_of("run"), 0700);
    assert_int_equal(mode_of("old"), 0600); /* given: set, not kept */
}

static void limits_and_content_are_checked_before_anything(void **state)
{
    (void)state;
    put_text("f", "12345");
    tci_write_text in = {
        .path = path("f"), .mode = TCI_WRITE_APPEND, .text = TC_STR("678"), .max_bytes = 7};
    tci_file_info info;
    assert_int_equal(tci_ops_write_text(&in, NULL, &info, NULL, &err), TC_E_QUOTA);
    in.max_bytes = 8;
    assert_int_equal(tci_ops_write_text(&in, NULL, &info, NULL, &err), 0);
    assert_true(same("f", "12345678"));
    in.text = tci_str_of("a\0b", 3);
    in.max_bytes = 100;
    assert_int_equal(tci_ops_write_text(&in, NULL, &info, NULL, &err), TC_E_UNSUPPORTED);
    in.text = TC_STR("\xff");
    assert_int_equal(tci_ops_write_text(&in, NULL, &info, NULL, &err), TC_E_UNSUPPORTED);
    put("bin", "a\0b", 3, 0644);
    assert_int_equal(write_text("bin", TCI_WRITE_APPEND, "x", &err), TC_E_UNSUPPORTED);
    put("cut", "a\xe2\x82", 3, 0644);
    assert_int_equal(write_text("cut", TCI_WRITE_APPEND, "x", &err), TC_E_UNSUPPORTED);
    assert_int_equal(write_text("bin", TCI_WRITE_REPLACE, "x", &err), 0);
    assert_int_equal(count_stages(""), 0);
    tci_cancel cancel = {0};
    atomic_store(&cancel.is_cancelled, true);
    in.text = TC_STR("x");
    assert_int_equal(tci_ops_write_text(&in, &cancel, &info, NULL, &err), TC_E_CANCELLED);
    assert_true(same("f", "12345678"));
}

static void case_30_links_stay_links_and_other_names_keep_the_old_content(void **state)
{
    (void)state;
    make_folder("a");
    make_folder("b");
    put_text("b/f", "one\n");
    make_link("../b/f", "a/l");
    assert_int_equal(patch_text("a/l", "@@ -1 +1 @@\n-one\n+two\n", &err), 0);
    assert_true(S_ISLNK(stat_of("a/l").st_mode));
    assert_true(same("b/f", "two\n"));
    assert_int_equal(write_text("a/l", TCI_WRITE_UPSERT, "three\n", &err), TC_E_DENIED);
    assert_true(same("b/f", "two\n"));
    assert_int_equal(link(at("b/f"), at("b/g")), 0);
    assert_int_equal(write_text("b/f", TCI_WRITE_REPLACE, "new\n", &err), 0);
    assert_true(same("b/f", "new\n") && same("b/g", "two\n"));
    assert_int_equal(stat_of("b/g").st_nlink, 1);
    assert_int_equal(count_stages("a") + count_stages("b"), 0);
}

/* ---- what a replaced file keeps ---- */

static void case_31_mode_is_kept_and_set_id_bits_end(void **state)
{
    (void)state;
    put("script", "#!/bin/sh\n", 10, 0750);
    assert_int_equal(write_text("script", TCI_WRITE_UPSERT, "#!/bin/sh\ntrue\n", &err), 0);
    assert_int_equal(mode_of("script"), 0750);
    assert_int_equal(write_text("script", TCI_WRITE_APPEND, "false\n", &err), 0);
    assert_int_equal(mode_of("script"), 0750);
    assert_int_equal(patch_text("script", "@@ -3 +3 @@\n-false\n+true\n", &err), 0);
    assert_int_equal(mode_of("script"), 0750);
    put("setid", "x", 1, 04711);
    assert_int_equal(write_text("setid", TCI_WRITE_REPLACE, "y", &err), 0);
    assert_int_equal(mode_of("setid"), 0711);
}

static void case_31_extended_attributes_are_kept(void **state)
{
    (void)state;
    put_text("f", "old");
    if (setxattr(at("f"), "user.origin", "somewhere", 9, 0) < 0) {
        print_message("skipped: this file system has no user attributes (%s)\n", strerror(errno));
        skip();
    }
    char big[2000];
    memset(big, 'b', sizeof big);
    assert_int_equal(setxattr(at("f"), "user.big", big, sizeof big, 0), 0);
    assert_int_equal(write_text("f", TCI_WRITE_UPSERT, "new", &err), 0);
    char value[3000];
    assert_int_equal(getxattr(at("f"), "user.origin", value, sizeof value), 9);
    assert_memory_equal(value, "somewhere", 9);
    assert_int_equal(getxattr(at("f"), "user.big", value, sizeof value), (int)sizeof big);
}

/* user::rw- user:1:r-- group::r-- mask::r-- other::---, as the kernel stores it. */
static const unsigned char acl[] = {2,    0, 0, 0,                          /* version */
                                    1,    0, 6, 0, 0xff, 0xff, 0xff, 0xff,  /* owner */
                                    2,    0, 4, 0, 1,    0,    0,    0,     /* user 1 */
                                    4,    0, 4, 0, 0xff, 0xff, 0xff, 0xff,  /* group */
                                    0x10, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,  /* mask */
                                    0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}; /* others */
static const char acl_name[] = "system.posix_acl_access";

static void case_31_access_list_is_kept(void **state)
{
    (void)state;
    put("f", "old", 3, 0600);
    if (setxattr(at("f"), acl_name, acl, sizeof acl, 0) < 0) {
        print_message("skipped: this file system has no access lists (%s)\n", strerror(errno));
        skip();
    }
    unsigned mode = mode_of("f");
    assert_int_equal(write_text("f", TCI_WRITE_REPLACE, "new", &err), 0);
    unsigned char value[256];
    assert_int_equal(getxattr(at("f"), acl_name, value, sizeof value), (int)sizeof acl);
    assert_memory_equal(value, acl, sizeof acl);
    assert_int_equal(mode_of("f"), mode);
    /* A folder that gives new files a list does not add it to a file that had none. */
    make_folder("d");
    put("d/f", "old", 3, 0640);
    assert_int_equal(setxattr(at("d"), "system.posix_acl_default", acl, sizeof acl, 0), 0);
    assert_int_equal(write_text("d/f", TCI_WRITE_REPLACE, "new", &err), 0);
    assert_int_equal(getxattr(at("d/f"), acl_name, value, sizeof value), -1);
    assert_int_equal(mode_of("d/f"), 0640);
}

static void case_31_owner_is_kept(void **state)
{
    (void)state;
    put("f", "old", 3, 0644);
    if (geteuid() != 0 || chown(at("f"), 12345, 23456) < 0) {
        print_message("skipped: only root may give files away\n");
        skip();
    }
    assert_int_equal(write_text("f", TCI_WRITE_UPSERT, "new", &err), 0);
    struct stat st = stat_of("f");
    assert_int_equal(st.st_uid, 12345);
    assert_int_equal(st.st_gid, 23456);
    assert_int_equal(st.st_mode & 07777, 0644);
    put("ro", "old", 3, 0444);
    assert_int_equal(write_text("ro", TCI_WRITE_REPLACE, "new", &err), 0); /* root may */
    assert_int_equal(mode_of("ro"), 0444);
}

/* Run check as another user; its answer is the number of the check that failed. */
static int as_nobody(int (*check)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setgid(65534) < 0 || setuid(65534) < 0)
            _exit(99);
        _exit(check());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static bool is_open_to_others(const char *folder)
{
    struct stat st;
    char real[4096];
    assert_non_null(realpath(folder, real));
    for (char *end = strrchr(real, '/'); end != NULL && end != real; end = strrchr(real, '/')) {
        if (stat(real, &st) < 0 || (st.st_mode & S_IXOTH) == 0)
            return false;
        *end = '\0';
    }
    return true;
}

static int refusals_of_nobody(void)
{
    if (write_text("open/theirs", TCI_WRITE_UPSERT, "new", &err) != TC_E_DENIED)
        return 1;
    if (write_text("open/readonly", TCI_WRITE_REPLACE, "new", &err) != TC_E_DENIED)
        return 2;
    if (patch_text("open/readonly", "@@ -1 +1 @@\n-old\n\\ No newline at end of file\n+new\n",
                   &err) != TC_E_DENIED)
        return 3;
    if (write_text("closed/new", TCI_WRITE_CREATE, "new", &err) != TC_E_DENIED)
        return 4;
    if (write_text("blind/new", TCI_WRITE_CREATE, "new", &err) != 0)
        return 5; /* a folder that may be written but not listed */
    if (write_text("open/writeonly", TCI_WRITE_REPLACE, "new", &err) != 0)
        return 6; /* no need to read what is replaced */
    return 0;
}

static void case_31_what_cannot_be_kept_is_refused_before_any_change(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: needs root to act as another user\n");
        skip();
    }
    if (!is_open_to_others(at(""))) {
        print_message("skipped: the test's folder is closed to other users\n");
        skip();
    }
    make_folder("open");
    make_folder("closed");
    make_folder("blind");
    assert_int_equal(chmod(at("open"), 0777), 0);
    assert_int_equal(chmod(at("blind"), 0333), 0);
    put("open/theirs", "old", 3, 0666);
    put("open/readonly", "old", 3, 0444);
    put("open/writeonly", "old", 3, 0200);
    assert_int_equal(chown(at("open/readonly"), 65534, 65534), 0);
    assert_int_equal(chown(at("open/writeonly"), 65534, 65534), 0);
    int failed = as_nobody(refusals_of_nobody);
    assert_int_equal(failed, 0);
    assert_true(same("open/theirs", "old") && same("open/readonly", "old"));
    assert_true(same("open/writeonly", "new"));
    assert_int_equal(mode_of("open/writeonly"), 0200);
    assert_int_equal(count_stages("open") + count_stages("blind"), 0);
}

/* ---- versions ---- */

static void case_36_a_change_since_it_was_read_is_refused(void **state)
{
    (void)state;
    put_text("f", "0\n");
    tci_file_info info;
    assert_int_equal(tci_ops_stat(path("f"), true, &info, &err), 0);
    tci_write_text in = {.path = path("f"),
                         .mode = TCI_WRITE_REPLACE,
                         .text = TC_STR("1\n"),
                         .max_bytes = 100,
                         .has_version = true,
                         .version = tci_file_version_of(&info)};
    tci_file_info after;
    assert_int_equal(tci_ops_write_text(&in, NULL, &after, NULL, &err), 0);
    assert_int_equal(tci_ops_write_text(&in, NULL, &info, NULL, &err), TC_E_CONFLICT);
    in.version = tci_file_version_of(&after); /* what a write answers is the file's version */
    in.text = TC_STR("2\n");
    assert_int_equal(tci_ops_write_text(&in, NULL, &info, NULL, &err), 0);
    assert_int_equal(unlink(at("f")), 0);
    assert_int_equal(tci_ops_write_text(&in, NULL, &info, NULL, &err), TC_E_NOT_FOUND);
}

/* Add one to line `mine` of the file n times, each time from what is there, as an agent does. */
static int edit_many(tci_stage_journal *journal, int mine, int n)
{
    tc_err e;
    for (int done = 0; done < n;) {
        tci_file_info info;
        tci_arena arena;
        tci_arena_init(&arena, 0);
        tci_text_page page;
        tci_read_text read = {
            .path = path("f"), .line_limit = 10, .max_line_length = 100, .page_bytes = 1000};
        if (tci_ops_read_text(&read, NULL, &arena, &page, &e) < 0)
            return 2;
        int values[2];
        if (sscanf(page.text.ptr, "%d\n%d\n", &values[0], &values[1]) != 2)
            return 3;
        values[mine]++;
        char text[64];
        int len = snprintf(text, sizeof text, "%d\n%d\n", values[0], values[1]);
        tci_write_text in = {.path = path("f"),
                             .mode = TCI_WRITE_REPLACE,
                             .text = tci_str_of(text, (size_t)len),
                             .max_bytes = 100,
                             .has_version = true,
                             .version = tci_file_version_of(&page.info),
                             .journal = journal};
        int rc = tci_ops_write_text(&in, NULL, &info, NULL, &e);
        tci_arena_done(&arena);
        if (rc < 0 && rc != TC_E_CONFLICT)
            return 4;
        done += rc == 0;
    }
    return 0;
}

static void case_36_two_editors_lose_no_update(void **state)
{
    (void)state;
    make_folder("run");
    put_text("f", "0\n0\n");
    tci_stage_journal *journal = NULL;
    assert_int_equal(tci_stage_journal_open(path("run"), &journal, NULL, &err), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        tci_stage_journal *mine = NULL;
        tc_err e;
        if (tci_stage_journal_open(path("run"), &mine, NULL, &e) < 0)
            _exit(1);
        _exit(edit_many(mine, 1, 500));
    }
    assert_int_equal(edit_many(journal, 0, 500), 0);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(same("f", "500\n500\n"));
    tci_stage_journal_close(journal);
}

/* ---- copy ---- */

static int copy(const char *from, const char *to, bool replace, uint64_t max_bytes)
{
    tci_copy_file in = {
        .source = path(from), .destination = path(to), .replace = replace, .max_bytes = max_bytes};
    tci_file_info info;
    uint64_t copied = 0;
    int rc = tci_ops_copy(&in, NULL, &info, &copied, &err);
    if (rc == 0)
        assert_int_equal(copied, (uint64_t)stat_of(to).st_size);
    return rc;
}

static void copies_take_content_and_mode(void **state)
{
    (void)state;
    put("f", "content", 7, 0751);
    put("g", "other", 5, 0600);
    make_link("f", "l");
    make_folder("d");
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    assert_int_equal(copy("f", "new", false, 100), 0);
    assert_true(same("new", "content") && mode_of("new") == 0751);
    assert_int_equal(copy("f", "g", false, 100), TC_E_CONFLICT);
    assert_true(same("g", "other"));
    assert_int_equal(copy("l", "g", true, 100), 0);
    assert_true(same("g", "content") && mode_of("g") == 0751);
    assert_int_equal(copy("f", "f", true, 100), 0);
    assert_true(same("f", "content"));
    assert_int_equal(copy("d", "x", true, 100), TC_E_DENIED);
    assert_int_equal(copy("fifo", "x", true, 100), TC_E_DENIED);
    assert_int_equal(copy("f", "l", true, 100), TC_E_DENIED);
    assert_int_equal(copy("f", "d", false, 100), TC_E_DENIED);
    assert_int_equal(copy("none", "x", false, 100), TC_E_NOT_FOUND);
    assert_int_equal(copy("f", "none/x", false, 100), TC_E_NOT_FOUND);
    assert_int_equal(copy("f", "x", false, 6), TC_E_QUOTA);
    put_text("empty", "");
    assert_int_equal(copy("empty", "x", false, 100), 0);
    assert_int_equal(copy("f", "y", false, 7), 0); /* just fits */
    assert_int_equal(count_stages(""), 0);
}

static void files_of_proc_can_be_copied(void **state)
{
    (void)state;
    tci_copy_file in = {
        .source = TC_STR("/proc/version"), .destination = path("v"), .max_bytes = 10000};
    tci_file_info info;
    uint64_t copied = 0;
    if (access("/proc/version", R_OK) < 0) {
        print_message("skipped: no /proc here\n");
        skip();
    }
    assert_int_equal(tci_ops_copy(&in, NULL, &info, &copied, &err), 0);
    assert_true(copied > 0 && info.size == copied);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(stat_tells_kind_size_and_time, fresh),
        cmocka_unit_test_setup(names_that_are_not_utf8_or_too_long, fresh),
        cmocka_unit_test_setup(write_modes_against_what_exists, fresh),
        cmocka_unit_test_setup(new_files_are_private, fresh),
        cmocka_unit_test_setup(limits_and_content_are_checked_before_anything, fresh),
        cmocka_unit_test_setup(case_30_links_stay_links_and_other_names_keep_the_old_content,
                               fresh),
        cmocka_unit_test_setup(case_31_mode_is_kept_and_set_id_bits_end, fresh),
        cmocka_unit_test_setup(case_31_extended_attributes_are_kept, fresh),
        cmocka_unit_test_setup(case_31_access_list_is_kept, fresh),
        cmocka_unit_test_setup(case_31_owner_is_kept, fresh),
        cmocka_unit_test_setup(case_31_what_cannot_be_kept_is_refused_before_any_change, fresh),
        cmocka_unit_test_setup(case_36_a_change_since_it_was_read_is_refused, fresh),
        cmocka_unit_test_setup(case_36_two_editors_lose_no_update, fresh),
        cmocka_unit_test_setup(copies_take_content_and_mode, fresh),
        cmocka_unit_test_setup(files_of_proc_can_be_copied, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
