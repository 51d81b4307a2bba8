/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees go whole, whatever their size, and nothing outside of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/removal.h"
#include "plat/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void touch(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    close(fd);
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void remove_it(const char *path)
{
    tc_err err;
    const char *syscall = "";
    if (tci_ops_remove_tree(tci_str(path), &syscall, &err) < 0)
        fail_msg("%s: %s", syscall, err.msg);
    assert_false(exists(path));
}

static void a_mixed_tree_goes_and_links_are_not_followed(void **state)
{
    (void)state;
    assert_int_equal(mkdir("kept", 0755), 0);
    touch("kept/file");
    assert_int_equal(mkdir("t", 0755), 0);
    assert_int_equal(mkdir("t/empty", 0755), 0);
    assert_int_equal(mkdir("t/a", 0755), 0);
    assert_int_equal(mkdir("t/a/b", 0755), 0);
    touch("t/a/b/f");
    touch("t/\xff\xfe");
    assert_int_equal(symlink("../kept", "t/link"), 0);
    assert_int_equal(symlink("../../kept", "t/a/link"), 0);
    assert_int_equal(symlink("nowhere", "t/dangling"), 0);
    assert_int_equal(mkfifo("t/fifo", 0600), 0);
    remove_it("t");
    assert_true(exists("kept/file"));
}

static void name_of(char *out, size_t size, int i)
{
    (void)snprintf(out, size, "many/%0200d", i);
}

/* More than one read of the folder gives. */
static void many_entries_go(void **state)
{
    char name[256], in[300];
    (void)state;
    assert_int_equal(mkdir("many", 0755), 0);
    for (int i = 0; i < 500; i++) {
        name_of(name, sizeof name, i);
        if (i % 10 != 0) {
            touch(name);
            continue;
        }
        assert_int_equal(mkdir(name, 0755), 0);
        (void)snprintf(in, sizeof in, "%s/x", name);
        touch(in);
    }
    remove_it("many");
}

/* Deeper than a path may be long, and than there are descriptors. */
static void a_deep_tree_goes(void **state)
{
    static const char name[] =
        "a-name-that-is-as-long-as-it-takes-to-make-the-path-of-the-lowest-folder-"
        "longer-than-any-path-may-be";
    struct rlimit files;
    (void)state;
    assert_int_equal(mkdir("deep", 0755), 0);
    int top = open(".", O_RDONLY | O_DIRECTORY);
    assert_true(top >= 0);
    assert_int_equal(chdir("deep"), 0);
    for (int i = 0; i < 60; i++) {
        assert_int_equal(mkdir(name, 0755), 0);
        assert_int_equal(chdir(name), 0);
    }
    touch("bottom");
    assert_int_equal(fchdir(top), 0);
    close(top);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    rlim_t before = files.rlim_cur;
    files.rlim_cur = 16;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    remove_it("deep");
    files.rlim_cur = before;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

static void a_link_is_no_folder_to_enter(void **state)
{
    tc_err err;
    (void)state;
    assert_int_equal(mkdir("real", 0755), 0);
    touch("real/file");
    assert_int_equal(symlink("real", "alias"), 0);
    assert_true(tci_ops_remove_tree(TC_STR("alias"), NULL, &err) < 0);
    assert_int_equal(err.os, ENOTDIR);
    assert_true(exists("real/file"));
}

static void what_cannot_be_removed_is_told(void **state)
{
    tc_err err;
    const char *syscall = "";
    (void)state;
    assert_true(tci_ops_remove_tree(TC_STR("missing"), &syscall, &err) < 0);
    assert_int_equal(err.os, ENOENT);
    assert_true(tci_ops_remove_tree(TC_STR("/"), &syscall, &err) < 0);
    assert_int_equal(err.os, EBUSY);
    assert_true(tci_ops_remove_tree(TC_STR("///"), &syscall, &err) < 0);
    assert_int_equal(err.os, EBUSY);
}

static void a_folder_without_permission_keeps_its_contents(void **state)
{
    tc_err err;
    const char *syscall = "";
    (void)state;
    if (geteuid() == 0)
        skip(); /* nothing is forbidden to root */
    assert_int_equal(mkdir("p", 0755), 0);
    assert_int_equal(mkdir("p/closed", 0755), 0);
    touch("p/closed/f");
    assert_int_equal(chmod("p/closed", 0500), 0);
    assert_true(tci_ops_remove_tree(TC_STR("p"), &syscall, &err) < 0);
    assert_int_equal(err.os, EACCES);
    assert_string_equal(syscall, "unlink");
    assert_true(exists("p/closed/f"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mixed_tree_goes_and_links_are_not_followed),
        cmocka_unit_test(many_entries_go),
        cmocka_unit_test(a_deep_tree_goes),
        cmocka_unit_test(a_link_is_no_folder_to_enter),
        cmocka_unit_test(what_cannot_be_removed_is_told),
        cmocka_unit_test(a_folder_without_permission_keeps_its_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
