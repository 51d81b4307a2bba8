/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

static void fresh_memory_is_zero(void **state)
{
    TCI_UNUSED(state);
    unsigned char *p = tci_mem_alloc(4096);
    assert_non_null(p);
    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(p[i], 0);
    tci_mem_free(p);
    p = tci_mem_alloc(0);
    assert_non_null(p);
    tci_mem_free(p);
    tci_mem_free(NULL);
}

static void an_array_too_large_is_refused(void **state)
{
    TCI_UNUSED(state);
    assert_null(tci_mem_array(SIZE_MAX / 2, 3));
    void *p = tci_mem_array(3, 5);
    assert_non_null(p);
    tci_mem_free(p);
}

static void resizing_keeps_the_contents(void **state)
{
    TCI_UNUSED(state);
    char *p = tci_mem_resize(NULL, 4);
    assert_non_null(p);
    memcpy(p, "hand", 4);
    p = tci_mem_resize(p, 4000);
    assert_non_null(p);
    assert_memory_equal(p, "hand", 4);
    tci_mem_fail_at(1);
    assert_null(tci_mem_resize(p, 8000));
    tci_mem_fail_at(0);
    assert_memory_equal(p, "hand", 4);
    tci_mem_free(p);
}

static void a_c_string_is_a_copy(void **state)
{
    TCI_UNUSED(state);
    char text[] = "reach";
    char *p = tci_mem_cstr(tci_str(text));
    text[0] = 'x';
    assert_string_equal(p, "reach");
    tci_mem_free(p);
    p = tci_mem_cstr(tci_str_of(NULL, 0));
    assert_string_equal(p, "");
    tci_mem_free(p);
}

static void the_nth_allocation_and_all_later_ones_fail(void **state)
{
    TCI_UNUSED(state);
    tci_mem_fail_at(3);
    void *a = tci_mem_alloc(1), *b = tci_mem_alloc(1), *c = tci_mem_alloc(1), *d = tci_mem_alloc(1);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(c);
    assert_null(d);
    assert_int_equal(tci_mem_count(), 4);
    tci_mem_fail_at(0);
    assert_int_equal(tci_mem_count(), 0);
    tci_mem_free(a);
    tci_mem_free(b);
}

static void wiping_leaves_zeros(void **state)
{
    TCI_UNUSED(state);
    char secret[32];
    memset(secret, 'x', sizeof secret);
    tci_mem_wipe(secret, sizeof secret);
    for (size_t i = 0; i < sizeof secret; i++)
        assert_int_equal(secret[i], 0);
    tci_mem_wipe(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_memory_is_zero),
        cmocka_unit_test(an_array_too_large_is_refused),
        cmocka_unit_test(resizing_keeps_the_contents),
        cmocka_unit_test(a_c_string_is_a_copy),
        cmocka_unit_test(the_nth_allocation_and_all_later_ones_fail),
        cmocka_unit_test(wiping_leaves_zeros),
    };
    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
