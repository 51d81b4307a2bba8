/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "check.h"

static void blocks_are_zeroed_aligned_and_apart(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tci_arena_init(&a, 0);
    assert_int_equal(tci_mem_count(), 0);
    unsigned char *blocks[200];
    for (size_t i = 0; i < 200; i++) {
        size_t size = i * 37 % 500;
        char *text = tci_arena_bytes(&a, i % 3); /* leaves the end unaligned */
        assert_non_null(text);
        blocks[i] = tci_arena_alloc(&a, size);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
        for (size_t k = 0; k < size; k++)
            assert_int_equal(blocks[i][k], 0);
        memset(blocks[i], (int)i, size);
    }
    for (size_t i = 0; i < 200; i++) {
        for (size_t k = 0; k < i * 37 % 500; k++)
            assert_int_equal(blocks[i][k], i);
    }
    tci_arena_done(&a);
}

static void a_cleared_arena_hands_out_zeros_again_without_new_memory(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tci_arena_init(&a, 0);
    memset(tci_arena_alloc(&a, 3000), 'x', 3000);
    memset(tci_arena_alloc(&a, 1000000), 'x', 1000000);
    tci_arena_clear(&a);
    assert_true(a.used < 64 * 1024);
    tci_mem_fail_at(1);
    unsigned char *p = tci_arena_alloc(&a, 3000);
    tci_mem_fail_at(0);
    assert_non_null(p);
    for (size_t i = 0; i < 3000; i++)
        assert_int_equal(p[i], 0);
    tci_arena_done(&a);
    tci_arena_done(&a); /* and again: nothing is left */
}

static void the_limit_is_too_big_and_not_a_crash(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tc_err err;
    tci_arena_init(&a, 10000);
    assert_non_null(tci_arena_alloc(&a, 9000));
    assert_null(tci_arena_alloc(&a, 2000));
    assert_int_equal(tci_arena_error(&a, &err), TC_E_TOO_BIG);
    assert_null(tci_arena_alloc(&a, SIZE_MAX));
    assert_null(tci_arena_alloc(&a, SIZE_MAX - 40));
    assert_null(tci_arena_array(&a, SIZE_MAX / 2, 4));
    assert_int_equal(tci_arena_error(&a, &err), TC_E_TOO_BIG);
    assert_non_null(tci_arena_alloc(&a, 500)); /* what still fits is served */
    tci_arena_clear(&a);
    assert_non_null(tci_arena_alloc(&a, 9000));
    tci_arena_done(&a);
}

static void small_blocks_fill_the_limit(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tci_arena_init(&a, 100000);
    size_t n = 0;
    while (tci_arena_alloc(&a, 16) != NULL)
        n++;
    assert_true(n >= 100000 / 16 - 16); /* little is lost at the ends of chunks */
    assert_true(n <= 100000 / 16);
    tci_arena_done(&a);
}

static void growing_keeps_contents_and_zeroes_the_rest(void **state)
{
    TCI_UNUSED(state);
    static const size_t sizes[] = {10, 100, 5000, 6000, 300000, 900000, 3000000};
    tci_arena a;
    tci_arena_init(&a, 0);
    unsigned char *p = NULL;
    size_t old = 0;
    for (size_t i = 0; i < TCI_ARRAY_LEN(sizes); i++) {
        p = tci_arena_grow(&a, p, old, sizes[i]);
        assert_non_null(p);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(p[k], k < old ? k % 251 : 0);
        for (size_t k = 0; k < sizes[i]; k++)
            p[k] = (unsigned char)(k % 251);
        old = sizes[i];
    }
    tci_arena_done(&a);
}

static void growing_the_last_block_stays_in_place(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tci_arena_init(&a, 0);
    char *p = tci_arena_alloc(&a, 100);
    assert_ptr_equal(tci_arena_grow(&a, p, 100, 1000), p);
    char *q = tci_arena_alloc(&a, 10);
    assert_true(q >= p + 1000);
    assert_ptr_not_equal(tci_arena_grow(&a, p, 1000, 1200), p);
    char *r = tci_arena_bytes(&a, 50);
    assert_ptr_equal(tci_arena_grow(&a, r, 50, 5), r); /* gives back */
    assert_ptr_equal(tci_arena_bytes(&a, 1), r + 5);
    tci_arena_done(&a);
}

static void copies_of_text(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tc_err err;
    tc_str s;
    char *c;
    tci_arena_init(&a, 0);
    char text[] = "borrowed";
    assert_int_equal(tci_arena_dup(&a, tci_str(text), &s, &err), 0);
    assert_int_equal(tci_arena_cstr(&a, tci_str(text), &c, &err), 0);
    text[0] = 'x';
    assert_text(s, "borrowed");
    assert_string_equal(c, "borrowed");
    assert_int_equal(tci_arena_cstr(&a, TC_STR("a\0b"), &c, &err), TC_E_INVALID);
    assert_string_equal(c, "borrowed");
    assert_int_equal(tci_arena_printf(&a, &s, &err, "%d of %s", 3, "five"), 0);
    assert_text(s, "3 of five");
    assert_int_equal(s.ptr[s.len], 0);
    assert_int_equal(tci_arena_dup(&a, tci_str_of(NULL, 0), &s, &err), 0);
    assert_int_equal(s.len, 0);
    unsigned long long *copy = tci_arena_copy(&a, &(unsigned long long){42}, sizeof *copy);
    assert_non_null(copy);
    assert_true(*copy == 42);
    tci_arena_done(&a);
}

static int use_arena(void *arg)
{
    TCI_UNUSED(arg);
    tci_arena a;
    tc_err err;
    tc_str s;
    tci_arena_init(&a, 0);
    int rc = 0;
    void *p = NULL;
    size_t old = 0;
    for (size_t size = 100; rc == 0 && size < 2000000; size *= 3) {
        void *grown = tci_arena_grow(&a, p, old, size);
        if (grown == NULL)
            rc = tci_arena_error(&a, &err);
        else
            memset(p = grown, 'x', old = size);
        if (rc == 0)
            rc = tci_arena_printf(&a, &s, &err, "%zu", size);
    }
    tci_arena_done(&a);
    return rc;
}

static void every_failing_allocation_is_reported(void **state)
{
    TCI_UNUSED(state);
    assert_true(each_allocation_fails(use_arena, NULL) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_aligned_and_apart),
        cmocka_unit_test(a_cleared_arena_hands_out_zeros_again_without_new_memory),
        cmocka_unit_test(the_limit_is_too_big_and_not_a_crash),
        cmocka_unit_test(small_blocks_fill_the_limit),
        cmocka_unit_test(growing_keeps_contents_and_zeroes_the_rest),
        cmocka_unit_test(growing_the_last_block_stays_in_place),
        cmocka_unit_test(copies_of_text),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
