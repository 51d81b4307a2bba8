/* SPDX-License-Identifier: Apache-2.0
 *
 * Files by descriptor: what the operations above do not show by themselves. */
#include "files_help.h"

#include "plat/file.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static tc_err err;

static int fresh(void **state)
{
    (void)state;
    world_new();
    return 0;
}

static tci_file root(void)
{
    tci_file f = TCI_FILE_NONE;
    assert_int_equal(tci_file_open(path(""), TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &f, &err), 0);
    return f;
}

static void errors_have_one_meaning_and_name_the_path(void **state)
{
    (void)state;
    static const struct {
        int os, code;
    } rows[] = {{0, TC_OK},
                {ENOENT, TC_E_NOT_FOUND},
                {EACCES, TC_E_DENIED},
                {EROFS, TC_E_DENIED},
                {EISDIR, TC_E_DENIED},
                {EEXIST, TC_E_CONFLICT},
                {ENOSPC, TC_E_NO_SPACE},
                {EDQUOT, TC_E_NO_SPACE},
                {EXDEV, TC_E_UNSUPPORTED},
                {EMFILE, TC_E_BUSY},
                {EIO, TC_E_IO},
                {99999, TC_E_IO}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(tci_errno_code(rows[i].os), rows[i].code);
    tci_file f = TCI_FILE_NONE;
    assert_int_equal(tci_file_open(path("none"), TCI_OPEN_READ, 0, &f, &err), TC_E_NOT_FOUND);
    assert_int_equal(err.os, ENOENT);
    assert_non_null(strstr(err.msg, "/w/none'"));
    assert_false(tci_file_is_open(f));
}

static void a_file_without_a_name_gets_one(void **state)
{
    (void)state;
    TCI_FILE_AUTO dir = root();
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    int rc = tci_file_openat(dir, TC_STR("."), TCI_OPEN_WRITE | TCI_OPEN_UNNAMED, 0600, &f, &err);
    if (rc == TC_E_UNSUPPORTED) {
        print_message("skipped: this file system has no files without a name\n");
        skip();
    }
    assert_int_equal(rc, 0);
    assert_int_equal(tci_file_write_all(f, "hello", 5, &err), 0);
    assert_int_equal(tci_file_link_unnamed(f, dir, TC_STR("named"), &err), 0);
    assert_true(same("named", "hello"));
    assert_int_equal(tci_file_link_unnamed(f, dir, TC_STR("named"), &err), TC_E_CONFLICT);
}

static void renames_replace_exchange_or_refuse(void **state)
{
    (void)state;
    TCI_FILE_AUTO dir = root();
    put_text("a", "a");
    put_text("b", "b");
    assert_int_equal(
        tci_file_rename(dir, TC_STR("a"), dir, TC_STR("b"), TCI_RENAME_NOREPLACE, &err),
        TC_E_CONFLICT);
    assert_int_equal(tci_file_rename(dir, TC_STR("a"), dir, TC_STR("b"), TCI_RENAME_EXCHANGE, &err),
                     0);
    assert_true(same("a", "b") && same("b", "a"));
    assert_int_equal(tci_file_rename(dir, TC_STR("a"), dir, TC_STR("b"), TCI_RENAME_REPLACE, &err),
                     0);
    assert_true(!exists("a") && same("b", "b"));
}

static void reads_and_copies_stop_at_the_end(void **state)
{
    (void)state;
    TCI_FILE_AUTO dir = root();
    TCI_FILE_AUTO from = TCI_FILE_NONE;
    TCI_FILE_AUTO to = TCI_FILE_NONE;
    put_text("from", "0123456789");
    put_text("to", "");
    assert_int_equal(tci_file_openat(dir, TC_STR("from"), TCI_OPEN_READ, 0, &from, &err), 0);
    assert_int_equal(tci_file_openat(dir, TC_STR("to"), TCI_OPEN_WRITE, 0, &to, &err), 0);
    char buf[20];
    size_t n = 0;
    assert_int_equal(tci_file_pread(from, buf, sizeof buf, 4, &n, &err), 0);
    assert_true(n == 6 && memcmp(buf, "456789", 6) == 0);
    uint64_t copied = 0;
    assert_int_equal(tci_file_copy_range(from, 2, to, 3, &copied, &err), 0);
    assert_int_equal(copied, 3);
    assert_int_equal(tci_file_copy_range(from, 8, to, 100, &copied, &err), 0);
    assert_int_equal(copied, 2);
    assert_true(same("to", "23489"));
    char *whole = NULL;
    assert_int_equal(tci_file_read_whole(dir, TC_STR("from"), 10, &whole, &n, &err), 0);
    assert_true(n == 10 && strcmp(whole, "0123456789") == 0);
    tci_free(whole);
    assert_int_equal(tci_file_read_whole(dir, TC_STR("from"), 9, &whole, &n, &err), TC_E_TOO_BIG);
}

static void links_are_told_apart_and_resolved(void **state)
{
    (void)state;
    TCI_FILE_AUTO dir = root();
    make_folder("d");
    put_text("d/f", "x");
    assert_int_equal(tci_file_symlink(TC_STR("d/f"), dir, TC_STR("l"), &err), 0);
    char buf[TCI_PATH_MAX];
    tc_str text;
    assert_int_equal(tci_file_readlink(dir, TC_STR("l"), buf, sizeof buf, &text, &err), 0);
    assert_true(tci_str_eq(text, TC_STR("d/f")));
    assert_int_equal(tci_file_readlink(dir, TC_STR("l"), buf, 3, &text, &err), TC_E_TOO_BIG);
    assert_int_equal(tci_file_realpath(path("l"), buf, &text, &err), 0);
    assert_true(tci_str_ends(text, TC_STR("/w/d/f")));
    tci_file f = TCI_FILE_NONE;
    assert_int_equal(
        tci_file_openat(dir, TC_STR("l"), TCI_OPEN_READ | TCI_OPEN_NOFOLLOW, 0, &f, &err),
        TC_E_DENIED);
    TCI_FILE_AUTO handle = TCI_FILE_NONE;
    tci_file_stat st;
    assert_int_equal(
        tci_file_openat(dir, TC_STR("l"), TCI_OPEN_PATH | TCI_OPEN_NOFOLLOW, 0, &handle, &err), 0);
    assert_int_equal(tci_file_stat_of(handle, &st, &err), 0);
    assert_int_equal(st.kind, TCI_FILE_KIND_SYMLINK);
    tc_str parent, name;
    tci_path_split(TC_STR("/b"), &parent, &name);
    assert_true(tci_str_eq(parent, TC_STR("/")) && tci_str_eq(name, TC_STR("b")));
    tci_path_split(TC_STR("/"), &parent, &name);
    assert_true(tci_str_eq(parent, TC_STR("/")) && name.len == 0);
    tci_path_split(TC_STR("/a/b"), &parent, &name);
    assert_true(tci_str_eq(parent, TC_STR("/a")) && tci_str_eq(name, TC_STR("b")));
}

static void a_lock_ends_with_its_descriptor(void **state)
{
    (void)state;
    TCI_FILE_AUTO dir = root();
    TCI_FILE_AUTO a = TCI_FILE_NONE;
    TCI_FILE_AUTO b = TCI_FILE_NONE;
    put_text("f", "");
    assert_int_equal(tci_file_openat(dir, TC_STR("f"), TCI_OPEN_READ, 0, &a, &err), 0);
    assert_int_equal(tci_file_openat(dir, TC_STR("f"), TCI_OPEN_READ, 0, &b, &err), 0);
    assert_int_equal(tci_file_try_lock(a, &err), 0);
    assert_int_equal(tci_file_try_lock(b, &err), TC_E_BUSY);
    tci_file_close(&a);
    assert_int_equal(tci_file_try_lock(b, &err), 0);
    assert_true(fcntl(b.fd, F_GETFD) & FD_CLOEXEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(errors_have_one_meaning_and_name_the_path, fresh),
        cmocka_unit_test_setup(a_file_without_a_name_gets_one, fresh),
        cmocka_unit_test_setup(renames_replace_exchange_or_refuse, fresh),
        cmocka_unit_test_setup(reads_and_copies_stop_at_the_end, fresh),
        cmocka_unit_test_setup(links_are_told_apart_and_resolved, fresh),
        cmocka_unit_test_setup(a_lock_ends_with_its_descriptor, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
