/* SPDX-License-Identifier: Apache-2.0
 *
 * The system's notices as they come. */
#include "watch_help.h"

static unsigned take(tci_notifier *n, int32_t number, const char *name)
{
    tci_notice notice;
    tc_err err;
    unsigned flags = 0;
    while (tci_notifier_next(n, &notice, &err) == 1)
        if (notice.number == number && tci_str_eq(notice.name, tci_str(name)))
            flags |= notice.flags;
    return flags;
}

static int32_t add(tci_notifier *n, const fix *f, const char *path)
{
    tci_dir dir = {0};
    tc_err err;
    int32_t number = -1;
    assert_int_equal(tci_dir_open(NULL, at(f, path), TCI_DIR_BARE, &dir, &err), 0);
    if (tci_notifier_add(n, &dir, at(f, path), &number, &err) < 0)
        fail_msg("%s", err.msg);
    tci_dir_close(&dir);
    return number;
}

static void test_notices(void **state)
{
    fix *f = *state;
    tci_notifier n = {0};
    tc_err err;
    put(f, "d/x", "x");
    assert_int_equal(tci_notifier_open(&n, &err), 0);
    int32_t number = add(&n, f, "d");
    assert_int_equal(add(&n, f, "d"), number); /* one per inode */
    assert_int_equal(take(&n, number, "x"), 0);
    put(f, "d/x", "xx");
    assert_int_equal(take(&n, number, "x"), TCI_NOTICE_CONTENT | TCI_NOTICE_CLOSED);
    put(f, "d/y", "");
    assert_true(take(&n, number, "y") & TCI_NOTICE_ENTRY);
    move(f, "d/y", "y");
    assert_int_equal(take(&n, number, "y"), TCI_NOTICE_ENTRY);
    move(f, "d", "e"); /* the watch is on the inode */
    assert_int_equal(take(&n, number, ""), TCI_NOTICE_MOVED);
    put(f, "e/z", "z");
    assert_true(take(&n, number, "z") & TCI_NOTICE_ENTRY);
    discard(f, "e");
    assert_true(take(&n, number, "") & TCI_NOTICE_GONE);
    tci_notifier_remove(&n, number);
    tci_notifier_close(&n);
    tci_notifier_close(&n);
}

static void test_case_41_limit_is_not_no_space(void **state)
{
    fix *f = *state;
    tci_notifier n = {0};
    tc_err err;
    tci_dir dir = {0};
    int32_t number = -1;
    tci_notifier_test_limit(0);
    assert_int_equal(tci_notifier_open(&n, &err), 0);
    assert_int_equal(tci_dir_open(NULL, f->root, 0, &dir, &err), 0);
    assert_int_equal(tci_notifier_add(&n, &dir, f->root, &number, &err), TC_E_QUOTA);
    assert_int_equal(number, -1);
    tci_dir_close(&dir);
    tci_notifier_close(&n);
    tci_notifier_test_refuse(true);
    assert_int_equal(tci_notifier_open(&n, &err), TC_E_QUOTA);
}

static void test_file_systems_of_others(void **state)
{
    TCI_UNUSED(state);
    const uint32_t misses[] = {0x6969,     0x517b,     0xff534d42, 0xfe534d42,
                               0x65735546, 0x01021997, 0x0bd00bd0, 0x47504653,
                               0x00c36400, 0x5346414f, 0x6b414653, 0x5dca2df5};
    const uint32_t tells[] = {0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0};
    for (size_t i = 0; i < TCI_ARRAY_LEN(misses); i++)
        assert_true(tci_notifier_misses_type(misses[i]));
    for (size_t i = 0; i < TCI_ARRAY_LEN(tells); i++)
        assert_false(tci_notifier_misses_type(tells[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE_MODE(test_notices, help_native),
        ONE_MODE(test_case_41_limit_is_not_no_space, help_native),
        ONE_MODE(test_file_systems_of_others, help_native),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
