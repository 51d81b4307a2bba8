/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "check.h"

static void appends_add_up(void **state)
{
    TCI_UNUSED(state);
    tci_buf b;
    tc_err err;
    tci_buf_init(&b, TCI_BUF_MAX);
    assert_int_equal(b.cap, 0);
    tci_buf_append(&b, "ab", 2);
    tci_buf_append(&b, NULL, 0);
    tci_buf_append_str(&b, TC_STR("cd"));
    tci_buf_append_byte(&b, ' ');
    tci_buf_append_u64(&b, UINT64_MAX);
    tci_buf_append_byte(&b, ' ');
    tci_buf_append_u64(&b, 0);
    tci_buf_append_byte(&b, ' ');
    tci_buf_append_i64(&b, INT64_MIN);
    tci_buf_append_i64(&b, 7);
    tci_buf_printf(&b, " %s-%d", "x", 5);
    assert_text(tci_buf_str(&b), "abcd 18446744073709551615 0 -92233720368547758087 x-5");
    assert_int_equal(tci_buf_error(&b, &err), 0);
    tci_buf_clear(&b);
    tci_buf_append_be(&b, 0x0102030405060708, 8);
    tci_buf_append_be(&b, 0xabcd, 2);
    tci_buf_append_be(&b, 0x1ff, 1);
    assert_bytes(tci_buf_str(&b), TC_STR("\1\2\3\4\5\6\7\10\xab\xcd\xff"));
    tci_buf_done(&b);
}

static void a_long_text_is_formatted_whole(void **state)
{
    TCI_UNUSED(state);
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "%01000d", 7);
    assert_int_equal(b.len, 1000);
    assert_int_equal(b.ptr[999], '7');
    tci_buf_done(&b);
}

static void the_maximum_is_reached_exactly(void **state)
{
    TCI_UNUSED(state);
    tci_buf b;
    tc_err err;
    tci_buf_init(&b, 10);
    tci_buf_append(&b, "0123456", 7);
    tci_buf_printf(&b, "%d", 789);
    assert_text(tci_buf_str(&b), "0123456789");
    assert_true(tci_buf_ok(&b));
    tci_buf_append_byte(&b, 'x');
    assert_false(tci_buf_ok(&b));
    assert_int_equal(tci_buf_error(&b, &err), TC_E_TOO_BIG);
    tci_buf_append(&b, NULL, 0); /* failure stays */
    assert_false(tci_buf_ok(&b));
    assert_null(tci_buf_reserve(&b, 0));
    assert_text(tci_buf_str(&b), "0123456789");
    tci_buf_clear(&b);
    assert_true(tci_buf_ok(&b));
    tci_buf_append_byte(&b, 'x');
    assert_text(tci_buf_str(&b), "x");
    assert_null(tci_buf_reserve(&b, SIZE_MAX));
    tci_buf_done(&b);
}

static void reserved_room_is_used_after_commit(void **state)
{
    TCI_UNUSED(state);
    tci_buf b;
    tci_buf_init(&b, 4096);
    char *at = tci_buf_reserve(&b, 1000);
    assert_non_null(at);
    memcpy(at, "hello", 5);
    assert_int_equal(b.len, 0);
    tci_buf_commit(&b, 5);
    assert_text(tci_buf_str(&b), "hello");
    tci_buf_consume(&b, 2);
    assert_text(tci_buf_str(&b), "llo");
    tci_buf_truncate(&b, 1);
    assert_text(tci_buf_str(&b), "l");
    tci_buf_consume(&b, 1);
    assert_int_equal(b.len, 0);
    tci_buf_trim(&b, 2000);
    assert_non_null(b.ptr);
    tci_buf_trim(&b, 500);
    assert_null(b.ptr);
    assert_non_null(tci_buf_reserve(&b, 0));
    tci_buf_done(&b);
}

static void a_full_buffer_is_not_trimmed(void **state)
{
    TCI_UNUSED(state);
    tci_buf b;
    tci_buf_init(&b, 4096);
    tci_buf_append(&b, "kept", 4);
    tci_buf_trim(&b, 0);
    assert_text(tci_buf_str(&b), "kept");
    tci_buf_done(&b);
}

static int use_buf(void *arg)
{
    TCI_UNUSED(arg);
    tci_buf b;
    tc_err err;
    tci_buf_init(&b, TCI_BUF_MAX);
    for (int i = 0; i < 300; i++) {
        tci_buf_append_u64(&b, (uint64_t)i * 1000003);
        tci_buf_printf(&b, "%0600d", i);
    }
    int rc = tci_buf_error(&b, &err);
    tci_buf_done(&b);
    return rc;
}

static void every_failing_allocation_is_remembered(void **state)
{
    TCI_UNUSED(state);
    assert_true(each_allocation_fails(use_buf, NULL) > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_add_up),
        cmocka_unit_test(a_long_text_is_formatted_whole),
        cmocka_unit_test(the_maximum_is_reached_exactly),
        cmocka_unit_test(reserved_room_is_used_after_commit),
        cmocka_unit_test(a_full_buffer_is_not_trimmed),
        cmocka_unit_test(every_failing_allocation_is_remembered),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
