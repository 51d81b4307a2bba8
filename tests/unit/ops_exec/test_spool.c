/* SPDX-License-Identifier: Apache-2.0
 *
 * Kept output without a command: memory and file, limits, budgets, views, waiting. */
#include "tests_spool.h"

#include "ops/spool.h"
#include "plat/file.h"

#include <sys/stat.h>
#include <unistd.h>

static tci_file root = {-1};
static tci_spool_dir dir;

static int setup(void **state)
{
    tc_err err;
    TCI_UNUSED(state);
    if (tci_file_mkdir(TCI_FILE_CWD, TC_STR("spools"), 0700, &err) < 0)
        return -1;
    if (tci_file_openat(TCI_FILE_CWD, TC_STR("spools"), TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0,
                        &root, &err) < 0)
        return -1;
    dir.dir_fd = root.fd;
    return 0;
}

static int teardown(void **state)
{
    tc_err err;
    TCI_UNUSED(state);
    tci_file_close(&root);
    return tci_file_rmdir(TCI_FILE_CWD, TC_STR("spools"), &err); /* empty: nothing was left */
}

static tci_spool_quota quota_of(uint64_t nbytes, uint64_t nobjects)
{
    return (tci_spool_quota){.max_bytes = nbytes, .max_objects = nobjects};
}

static tci_spool *make(tci_spool_quota *quota, const char *name, uint64_t ceiling)
{
    tc_err err;
    tci_spool *s;
    assert_int_equal(tci_spool_new(&dir, tci_str(name), ceiling, quota, &s, &err), 0);
    return s;
}

static int append(tci_spool *s, const char *text)
{
    tc_err err;
    return tci_spool_append(s, tci_str(text), &err);
}

static void append_bytes(tci_spool *s, char c, size_t n)
{
    tc_err err;
    char *bytes = tci_mem_alloc(n);
    memset(bytes, c, n);
    assert_int_equal(tci_spool_append(s, tci_str_of(bytes, n), &err), 0);
    tci_free(bytes);
}

static void assert_reads(const tci_spool *s, uint64_t offset, size_t len, const char *text)
{
    tc_err err;
    char out[64];
    size_t n = 99;
    assert_int_equal(tci_spool_read(s, offset, out, len, &n, &err), 0);
    assert_int_equal(n, strlen(text));
    assert_memory_equal(out, text, n);
}

static void small_output_makes_no_file(void **state)
{
    TCI_UNUSED(state);
    tci_spool_quota q = quota_of(10000, 2);
    tci_spool *s = make(&q, "output-1", 10000);
    assert_true(tci_str_eq(tci_spool_reference(s), TC_STR("output-1")));
    assert_int_equal(append(s, "hello "), 0);
    assert_int_equal(append(s, "world"), 0);
    assert_int_equal(access("spools/output-1.spool", F_OK), -1);
    assert_int_equal(q.used_bytes, 11);
    assert_reads(s, 0, 64, "hello world");
    assert_reads(s, 6, 3, "wor");
    assert_reads(s, 11, 3, "");
    tci_spool_finish(s, false);
    assert_reads(s, 6, 64, "world");
    tci_spool_info info = tci_spool_info_of(s);
    assert_true(info.producer_complete && info.content_complete);
    tci_spool_free(s);
    assert_int_equal(q.used_bytes, 0);
    assert_int_equal(q.used_objects, 0);
}

static void large_output_is_a_private_file(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    struct stat st;
    tci_spool_quota q = quota_of(1 << 20, 2);
    tci_spool *s = make(&q, "output-2", 1 << 20);
    append_bytes(s, 'a', TCI_SPOOL_MEMORY_MAX);
    assert_int_equal(access("spools/output-2.spool", F_OK), -1);
    assert_int_equal(append(s, "bc"), 0);
    assert_int_equal(stat("spools/output-2.spool", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, TCI_SPOOL_MEMORY_MAX + 2);
    assert_reads(s, TCI_SPOOL_MEMORY_MAX - 1, 64, "abc");
    tci_spool_finish(s, false);
    assert_reads(s, TCI_SPOOL_MEMORY_MAX - 1, 64, "abc"); /* opened again */
    assert_int_equal(tci_spool_release(s, &err), 0);
    assert_int_equal(access("spools/output-2.spool", F_OK), -1);
}

static void ceiling_and_budgets(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    size_t n = 0;
    char out[8];
    tci_spool_quota device = quota_of(30, 3),
                    session = {.parent = &device, .max_bytes = 25, .max_objects = 9};
    tci_spool *a = make(&session, "a", 10), *b = make(&session, "b", 100),
              *c = make(&device, "c", 100), *d;
    assert_int_equal(tci_spool_new(&dir, TC_STR("d"), 100, &session, &d, &err), TC_E_QUOTA);
    assert_int_equal(append(a, "0123456"), 0);
    assert_int_equal(append(a, "789ab"), TC_E_OUTPUT_LIMIT);
    assert_int_equal(append(a, "more"), TC_E_OUTPUT_LIMIT);
    assert_reads(a, 0, 64, "0123456789");
    tci_spool_info info = tci_spool_info_of(a);
    assert_int_equal(info.produced_bytes, 16);
    assert_int_equal(info.retained_bytes, 10);
    tci_spool_finish(a, false);
    assert_false(tci_spool_info_of(a).content_complete);

    assert_int_equal(append(b, "0123456789"), 0);
    assert_int_equal(tci_spool_quota_free_bytes(&session), 5);
    assert_int_equal(append(b, "012345"), TC_E_QUOTA); /* the session's */
    assert_int_equal(append(c, "0123456789"), 0);
    assert_int_equal(append(c, "0"), TC_E_QUOTA); /* the device's */
    assert_int_equal(session.used_bytes, 20);
    assert_int_equal(device.used_bytes, 30);
    assert_int_equal(tci_spool_read(b, 11, out, 1, &n, &err), TC_E_INVALID);
    tci_spool_free(a);
    tci_spool_free(b);
    tci_spool_free(c);
    assert_int_equal(device.used_bytes, 0);
    assert_int_equal(session.used_objects, 0);
}

static void bad_names(void **state)
{
    TCI_UNUSED(state);
    static const char *const names[] = {"", ".", "..", "a/b", "../x", "a b", "a.b"};
    tci_spool_quota q = quota_of(100, 100);
    tci_spool *s;
    tc_err err;
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++)
        assert_int_equal(tci_spool_new(&dir, tci_str(names[i]), 100, &q, &s, &err), TC_E_INVALID);
    assert_int_equal(q.used_objects, 0);
}

static void views_outlive_the_object(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    char out[16];
    size_t n;
    tci_spool_quota q = quota_of(1 << 20, 10);
    static const size_t sizes[] = {0, 10, 100000};
    for (size_t i = 0; i < TCI_ARRAY_LEN(sizes); i++) {
        tci_spool *s = make(&q, "view", 1 << 20);
        tci_spool_view view;
        if (sizes[i] > 0)
            append_bytes(s, 'v', sizes[i]);
        assert_int_equal(tci_spool_view_init(&view, s, &err), 0);
        assert_int_equal(append(s, "later"), 0);
        tci_spool_free(s);
        assert_int_equal(view.len, sizes[i]);
        uint64_t from = sizes[i] > 2 ? sizes[i] - 2 : 0;
        assert_int_equal(tci_spool_view_read(&view, from, out, sizeof out, &n, &err), 0);
        assert_int_equal(n, sizes[i] - from);
        assert_int_equal(tci_spool_view_read(&view, sizes[i] + 1, out, 1, &n, &err), TC_E_INVALID);
        tci_spool_view_done(&view);
    }
}

typedef struct waiter {
    tci_spool_wait w; /* first */
    int ncalls;
    bool was_released;
} waiter;

static void on_more(tci_spool_wait *w, bool was_released)
{
    waiter *mine = (waiter *)w;
    mine->ncalls++;
    mine->was_released = was_released;
}

static void waiting(void **state)
{
    TCI_UNUSED(state);
    tci_spool_quota q = quota_of(100, 1);
    tci_spool *s = make(&q, "wait", 100);
    waiter a = {.w.cb = on_more}, b = {.w.cb = on_more};
    tci_spool_wait_add(s, &a.w);
    tci_spool_wait_add(s, &b.w);
    tci_spool_wait_cancel(&b.w);
    assert_int_equal(append(s, "x"), 0);
    assert_int_equal(append(s, "y"), 0);
    assert_int_equal(a.ncalls, 1); /* once */
    assert_int_equal(b.ncalls, 0);
    tci_spool_wait_add(s, &a.w);
    tci_spool_finish(s, false);
    assert_int_equal(a.ncalls, 2);
    assert_false(a.was_released);
    tci_spool_wait_add(s, &b.w);
    tci_spool_free(s);
    assert_true(b.was_released);
}

static void broken_disk(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_spool_quota q = quota_of(1 << 20, 1);
    tci_spool *s = make(&q, "broken", 1 << 20);
    append_bytes(s, 'm', 4000);
    tci_file_fail_write_at(1, 28 /* ENOSPC */);
    char *bytes = tci_mem_alloc(5000);
    assert_int_equal(tci_spool_append(s, tci_str_of(bytes, 5000), &err), TC_E_NO_SPACE);
    tci_file_fail_write_at(0, 0);
    assert_int_equal(tci_spool_append(s, tci_str_of(bytes, 1), &err), TC_E_NO_SPACE); /* for good */
    tci_free(bytes);
    assert_int_equal(tci_spool_info_of(s).retained_bytes, 4000);
    assert_int_equal(q.used_bytes, 4000);
    assert_reads(s, 3998, 64, "mm");
    tci_spool_finish(s, false);
    assert_false(tci_spool_info_of(s).content_complete);
    tci_spool_free(s);
}

int run_spool_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_output_makes_no_file),
        cmocka_unit_test(large_output_is_a_private_file),
        cmocka_unit_test(ceiling_and_budgets),
        cmocka_unit_test(bad_names),
        cmocka_unit_test(views_outlive_the_object),
        cmocka_unit_test(waiting),
        cmocka_unit_test(broken_disk),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
