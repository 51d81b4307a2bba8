/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

static void order_is_bytewise_and_a_prefix_comes_first(void **state)
{
    TCI_UNUSED(state);
    assert_true(tci_str_cmp(TC_STR("a"), TC_STR("b")) < 0);
    assert_true(tci_str_cmp(TC_STR("ab"), TC_STR("a")) > 0);
    assert_true(tci_str_cmp(TC_STR("\xff"), TC_STR("a")) > 0);
    assert_int_equal(tci_str_cmp(TC_STR("same"), TC_STR("same")), 0);
    assert_int_equal(tci_str_cmp(tci_str_of(NULL, 0), TC_STR("")), 0);
}

static void case_is_ignored_for_ascii_only(void **state)
{
    TCI_UNUSED(state);
    assert_true(tci_str_eq_nocase(TC_STR("Content-Type"), TC_STR("content-TYPE")));
    assert_false(tci_str_eq_nocase(TC_STR("["), TC_STR("{"))); /* 0x20 apart, no letters */
    assert_false(tci_str_eq_nocase(TC_STR("\xc3\x84"), TC_STR("\xc3\xa4")));
    assert_false(tci_str_eq_nocase(TC_STR("a"), TC_STR("aa")));
}

static void starts_and_ends(void **state)
{
    TCI_UNUSED(state);
    tc_str s = TC_STR("/tmp/file.c");
    assert_true(tci_str_starts(s, TC_STR("/tmp")));
    assert_false(tci_str_starts(TC_STR("/t"), TC_STR("/tmp")));
    assert_true(tci_str_ends(s, TC_STR(".c")));
    assert_false(tci_str_ends(TC_STR("c"), TC_STR(".c")));
    assert_true(tci_str_ends(tci_str_of(NULL, 0), TC_STR("")));
}

static void finding_answers_the_length_when_absent(void **state)
{
    TCI_UNUSED(state);
    tc_str s = TC_STR("a/b/c");
    assert_int_equal(tci_str_find_byte(s, '/'), 1);
    assert_int_equal(tci_str_rfind_byte(s, '/'), 3);
    assert_int_equal(tci_str_find_byte(s, 'x'), 5);
    assert_int_equal(tci_str_rfind_byte(s, 'x'), 5);
    assert_int_equal(tci_str_find(s, TC_STR("b/c")), 2);
    assert_int_equal(tci_str_find(s, TC_STR("b/d")), 5);
    assert_int_equal(tci_str_find(s, TC_STR("")), 0);
    assert_int_equal(tci_str_find(TC_STR("b"), s), 1);
    assert_int_equal(tci_str_find_byte(tci_str_of(NULL, 0), 'x'), 0);
}

static void parts_are_clamped(void **state)
{
    TCI_UNUSED(state);
    tc_str s = TC_STR("abcdef");
    assert_text(tci_str_sub(s, 2, 3), "cde");
    assert_text(tci_str_sub(s, 4, 100), "ef");
    assert_text(tci_str_sub(s, 7, 1), "");
    assert_text(tci_str_sub(s, 6, SIZE_MAX), "");
    assert_text(tci_str_trim(TC_STR(" \t a b \t")), "a b");
    assert_text(tci_str_trim(TC_STR(" \t ")), "");
}

static void splitting_yields_every_part_once(void **state)
{
    TCI_UNUSED(state);
    tc_str rest = TC_STR("a,,b,"), part;
    assert_true(tci_str_split(&rest, ',', &part));
    assert_text(part, "a");
    assert_true(tci_str_split(&rest, ',', &part));
    assert_text(part, "");
    assert_true(tci_str_split(&rest, ',', &part));
    assert_text(part, "b");
    assert_true(tci_str_split(&rest, ',', &part));
    assert_text(part, "");
    assert_null(rest.ptr);
    assert_false(tci_str_split(&rest, ',', &part));
    rest = TC_STR("alone");
    assert_true(tci_str_split(&rest, ',', &part));
    assert_text(part, "alone");
    assert_false(tci_str_split(&rest, ',', &part));
}

static void a_c_string_has_no_zero_byte_and_fits(void **state)
{
    TCI_UNUSED(state);
    char out[5];
    tc_err err;
    assert_int_equal(tci_cstr(TC_STR("four"), out, sizeof out, &err), 0);
    assert_string_equal(out, "four");
    assert_int_equal(tci_cstr(TC_STR("fives"), out, sizeof out, &err), TC_E_TOO_BIG);
    assert_int_equal(tci_cstr(TC_STR("a\0b"), out, sizeof out, &err), TC_E_INVALID);
    assert_string_equal(out, "four"); /* untouched by failures */
    assert_int_equal(tci_cstr(tci_str_of(NULL, 0), out, sizeof out, &err), 0);
    assert_string_equal(out, "");
    assert_int_equal(tci_cstr(TC_STR(""), out, 0, &err), TC_E_TOO_BIG);
}

static void bytes_are_counted(void **state)
{
    TCI_UNUSED(state);
    enum { LONG = 5000 };
    static const unsigned char others[] = {0x00, 0x09, 0x0b, 0x0a + 1, 0x8a, 0x7f, 0xff};
    static char text[LONG];
    for (size_t k = 0; k < sizeof others; k++) {
        for (size_t n = 0; n < 40; n++) {
            size_t expected = 0;
            for (size_t i = 0; i < n; i++) {
                bool is_it = (i * 7 + n + k) % 3 == 0;
                text[i] = is_it ? '\n' : (char)others[k];
                expected += is_it;
            }
            assert_int_equal(tci_str_count_byte(tci_str_of(text, n), '\n'), expected);
        }
    }
    memset(text, '\n', LONG); /* more than the sums of one round hold */
    for (size_t n = LONG - 20; n <= LONG; n++)
        assert_int_equal(tci_str_count_byte(tci_str_of(text, n), '\n'), n);
    assert_int_equal(tci_str_count_byte(tci_str_of(NULL, 0), 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_bytewise_and_a_prefix_comes_first),
        cmocka_unit_test(case_is_ignored_for_ascii_only),
        cmocka_unit_test(starts_and_ends),
        cmocka_unit_test(bytes_are_counted),
        cmocka_unit_test(finding_answers_the_length_when_absent),
        cmocka_unit_test(parts_are_clamped),
        cmocka_unit_test(splitting_yields_every_part_once),
        cmocka_unit_test(a_c_string_has_no_zero_byte_and_fits),
    };
    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
