/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secret.h"
#include "check.h"

static void a_secret_is_a_copy_and_compares(void **state)
{
    TCI_UNUSED(state);
    char text[] = "hunter2";
    tci_secret s;
    tc_err err;
    assert_int_equal(tci_secret_init(&s, tci_str(text), &err), 0);
    memset(text, 'x', sizeof text - 1);
    assert_text(tci_secret_str(&s), "hunter2");
    assert_true(tci_secret_eq(&s, TC_STR("hunter2")));
    assert_false(tci_secret_eq(&s, TC_STR("hunter3")));
    assert_false(tci_secret_eq(&s, TC_STR("iunter2")));
    assert_false(tci_secret_eq(&s, TC_STR("hunter")));
    assert_false(tci_secret_eq(&s, TC_STR("hunter22")));
    tci_secret_done(&s);
    assert_int_equal(tci_secret_str(&s).len, 0);
    tci_secret_done(&s);
}

static void an_empty_secret_equals_only_the_empty_text(void **state)
{
    TCI_UNUSED(state);
    tci_secret s;
    tc_err err;
    assert_int_equal(tci_secret_init(&s, tci_str_of(NULL, 0), &err), 0);
    assert_true(tci_secret_eq(&s, TC_STR("")));
    assert_false(tci_secret_eq(&s, TC_STR("a")));
    tci_secret_done(&s);
}

static void without_memory_there_is_no_secret(void **state)
{
    TCI_UNUSED(state);
    tci_secret s = {0};
    tc_err err;
    tci_mem_fail_at(1);
    int rc = tci_secret_init(&s, TC_STR("x"), &err);
    tci_mem_fail_at(0);
    assert_int_equal(rc, TC_E_NO_MEMORY);
    assert_null(s.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_is_a_copy_and_compares),
        cmocka_unit_test(an_empty_secret_equals_only_the_empty_text),
        cmocka_unit_test(without_memory_there_is_no_secret),
    };
    return cmocka_run_group_tests_name("secret", tests, NULL, NULL);
}
