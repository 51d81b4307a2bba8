/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"
#include "check.h"
#include <locale.h>
#include <math.h>
#include <stdio.h>

static void whole_numbers_are_canonical(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    uint64_t u = 1;
    int64_t i = 1;
    assert_int_equal(tci_num_u64(TC_STR("0"), &u, &err), 0);
    assert_true(u == 0);
    assert_int_equal(tci_num_u64(TC_STR("18446744073709551615"), &u, &err), 0);
    assert_true(u == UINT64_MAX);
    static const char *const bad[] = {"",
                                      "-",
                                      "01",
                                      "00",
                                      "+1",
                                      "-0",
                                      " 1",
                                      "1 ",
                                      "1.",
                                      "1e3",
                                      "0x1",
                                      "18446744073709551616",
                                      "99999999999999999999",
                                      "100000000000000000000"};
    for (size_t k = 0; k < TCI_ARRAY_LEN(bad); k++) {
        assert_int_equal(tci_num_u64(tci_str(bad[k]), &u, &err), TC_E_INVALID);
        assert_int_equal(tci_num_i64(tci_str(bad[k]), &i, &err), TC_E_INVALID);
    }
    assert_true(u == UINT64_MAX && i == 1); /* untouched by failures */
    assert_int_equal(tci_num_i64(TC_STR("-9223372036854775808"), &i, &err), 0);
    assert_true(i == INT64_MIN);
    assert_int_equal(tci_num_i64(TC_STR("9223372036854775807"), &i, &err), 0);
    assert_true(i == INT64_MAX);
    assert_int_equal(tci_num_i64(TC_STR("-12"), &i, &err), 0);
    assert_true(i == -12);
    assert_int_equal(tci_num_i64(TC_STR("9223372036854775808"), &i, &err), TC_E_INVALID);
    assert_int_equal(tci_num_i64(TC_STR("-9223372036854775809"), &i, &err), TC_E_INVALID);
    assert_int_equal(tci_num_u64(TC_STR("-1"), &u, &err), TC_E_INVALID);
}

static void hexadecimal(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    uint64_t u = 0;
    assert_int_equal(tci_num_hex_u64(TC_STR("00fF"), &u, &err), 0);
    assert_true(u == 255);
    assert_int_equal(tci_num_hex_u64(TC_STR("ffffffffffffffff"), &u, &err), 0);
    assert_true(u == UINT64_MAX);
    assert_int_equal(tci_num_hex_u64(TC_STR("10000000000000000"), &u, &err), TC_E_INVALID);
    assert_int_equal(tci_num_hex_u64(TC_STR(""), &u, &err), TC_E_INVALID);
    assert_int_equal(tci_num_hex_u64(TC_STR("0x1"), &u, &err), TC_E_INVALID);
    assert_int_equal(tci_num_hex_u64(TC_STR("@"), &u, &err), TC_E_INVALID);
}

static double value_of(const char *text)
{
    tc_err err;
    double v = 0;
    assert_int_equal(tci_num_double(tci_str(text), &v, &err), 0);
    return v;
}

static void doubles_are_rounded_correctly(void **state)
{
    TCI_UNUSED(state);
    static const char *const texts[] = {
        "0",
        "-0",
        "1",
        "-1.5",
        "0.1",
        "1e22",
        "1e23",
        "123456789012345678",
        "9007199254740993",
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "4.9e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "0.000000000000000000000000000000000001e36",
        "1E+2",
        "1e-2",
        "179769313486231570000000000000000000000e270",
        "0e999999999999999999999",
        "6.02214076e23",
        "1e-400",
        "7.2057594037927933e16",
        "100000000000000016777215",
        "9007199254740992.99999999999999999999999999999999999999999999999999999999"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++) {
        double expected = strtod(texts[i], NULL), actual = value_of(texts[i]);
        if (memcmp(&actual, &expected, sizeof actual) != 0)
            fail_msg("%s: %a is not %a", texts[i], actual, expected);
    }
}

/* Half way between 1 and the next double lies 1 + 2^-53, which has 53 decimals. A digit far behind,
 * later than any that is kept, still decides. */
static void a_distant_digit_decides_a_tie(void **state)
{
    TCI_UNUSED(state);
    static const char half[] = "1.00000000000000011102230246251565404236316680908203125";
    const size_t n = sizeof half - 1;
    char text[2000];
    memcpy(text, half, sizeof half);
    assert_true(value_of(text) == 1.0); /* to even */
    memset(text + n, '0', 1900);
    text[n + 1900] = '1';
    text[n + 1901] = '\0';
    assert_true(value_of(text) == 1.0 + 0x1p-52);
    memset(text, '0', 1999); /* a long zero is one as well, with a point */
    text[1] = '.';
    text[1999] = '\0';
    assert_true(value_of(text) == 0);
}

static void what_json_does_not_allow_is_refused(void **state)
{
    TCI_UNUSED(state);
    static const char *const bad[] = {"",    "-",     ".5",     "1.",  "01",
                                      "1e",  "1e+",   "+1",     "nan", "inf",
                                      "0x1", "1e400", "-1e309", " 1",  "1 ",
                                      "1,5", "1.5.",  "1e5e",   "--1", "1e99999999999999999999"};
    tc_err err;
    double v = 7;
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        assert_int_equal(tci_num_double(tci_str(bad[i]), &v, &err), TC_E_INVALID);
    assert_true(v == 7);
}

static void check_double_text(double v, const char *expected)
{
    char out[TCI_NUM_TEXT_MAX];
    size_t len = tci_num_double_text(v, out);
    assert_text(tci_str_of(out, len), expected);
}

static void doubles_print_shortest(void **state)
{
    TCI_UNUSED(state);
    check_double_text(0, "0.0");
    check_double_text(-0.0, "-0.0");
    check_double_text(12, "12.0");
    check_double_text(-1.5, "-1.5");
    check_double_text(0.1, "0.1");
    check_double_text(0.1 + 0.2, "0.30000000000000004");
    check_double_text(1e15, "1000000000000000.0");
    check_double_text(1234567890123456, "1234567890123456.0");
    check_double_text(1e16, "1e16");
    check_double_text(1.5e300, "1.5e300");
    check_double_text(0.00001234, "0.00001234");
    check_double_text(0.000001234, "1.234e-6");
    check_double_text(100.25, "100.25");
    check_double_text(5e-324, "5e-324");
    check_double_text(2.2250738585072014e-308, "2.2250738585072014e-308");
    check_double_text(-1.7976931348623157e308, "-1.7976931348623157e308");
    check_double_text(0x1p53, "9007199254740992.0");
    check_double_text(0x1p-44, "5.684341886080802e-14");
}

/* Two known worst cases are above; here a spread of bit patterns, powers of two among them. */
static void printed_doubles_read_back_the_same(void **state)
{
    TCI_UNUSED(state);
    uint64_t bits = 0x9e3779b97f4a7c15u;
    tc_err err;
    for (int i = 0; i < 20000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        uint64_t pattern = i % 4 == 0 ? bits & 0xfff0000000000000u : bits;
        double v, again;
        memcpy(&v, &pattern, sizeof v);
        if (!isfinite(v))
            continue;
        char out[TCI_NUM_TEXT_MAX];
        size_t len = tci_num_double_text(v, out);
        assert_int_equal(tci_num_double(tci_str_of(out, len), &again, &err), 0);
        if (memcmp(&v, &again, sizeof v) != 0)
            fail_msg("%a came back as %a", v, again);
    }
}

static void the_locale_changes_nothing(void **state)
{
    TCI_UNUSED(state);
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "ps_AF.UTF-8"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++) {
        if (setlocale(LC_NUMERIC, names[i]) != NULL)
            break;
    }
    check_double_text(0.30000000000000004, "0.30000000000000004");
    assert_true(value_of("1234567890.12345678901") == 1234567890.12345678901);
    assert_non_null(setlocale(LC_NUMERIC, "C"));
}

static void base36(void **state)
{
    TCI_UNUSED(state);
    char out[TCI_NUM_TEXT_MAX];
    assert_text(tci_str_of(out, tci_num_base36_text(0, out)), "0");
    assert_text(tci_str_of(out, tci_num_base36_text(35, out)), "z");
    assert_text(tci_str_of(out, tci_num_base36_text(36, out)), "10");
    assert_text(tci_str_of(out, tci_num_base36_text(UINT64_MAX, out)), "3w5e11264sgsf");
}

static void sizes_do_not_overflow(void **state)
{
    TCI_UNUSED(state);
    size_t n = 5;
    assert_false(tci_add_size(SIZE_MAX, 1, &n));
    assert_true(tci_add_size(SIZE_MAX - 1, 1, &n));
    assert_false(tci_mul_size(SIZE_MAX / 2 + 1, 2, &n));
    assert_true(tci_mul_size(3, 4, &n));
    assert_int_equal(n, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_canonical),
        cmocka_unit_test(hexadecimal),
        cmocka_unit_test(doubles_are_rounded_correctly),
        cmocka_unit_test(a_distant_digit_decides_a_tie),
        cmocka_unit_test(what_json_does_not_allow_is_refused),
        cmocka_unit_test(doubles_print_shortest),
        cmocka_unit_test(printed_doubles_read_back_the_same),
        cmocka_unit_test(the_locale_changes_nothing),
        cmocka_unit_test(base36),
        cmocka_unit_test(sizes_do_not_overflow),
    };
    return cmocka_run_group_tests_name("num", tests, NULL, NULL);
}
