/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rfc3339.h"
#include "check.h"

typedef struct sample {
    int64_t sec;
    int32_t nsec;
    const char *text;
} sample;

static const sample samples[] = {
    {0, 0, "1970-01-01T00:00:00Z"},
    {-1, 0, "1969-12-31T23:59:59Z"},
    {1000000000, 1000000, "2001-09-09T01:46:40.001Z"},
    {951782400, 1000, "2000-02-29T00:00:00.000001Z"},
    {1795968662, 341955887, "2026-11-29T16:11:02.341955887Z"},
    {-2203891200, 1, "1900-03-01T00:00:00.000000001Z"},
    {-62135596800, 0, "0001-01-01T00:00:00Z"},
    {-62167219200, 500000000, "0000-01-01T00:00:00.500Z"},
    {253402300799, 999999999, "9999-12-31T23:59:59.999999999Z"},
    {4107542400, 0, "2100-03-01T00:00:00Z"},
};

static void instants_and_their_texts(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(samples); i++) {
        char out[TCI_RFC3339_MAX];
        tci_instant t = {samples[i].sec, samples[i].nsec}, back = {0};
        tc_err err;
        assert_text(tci_str_of(out, tci_rfc3339_text(t, out)), samples[i].text);
        assert_int_equal(tci_rfc3339_parse(tci_str(samples[i].text), &back, &err), 0);
        assert_true(back.sec == t.sec && back.nsec == t.nsec);
    }
}

static void any_number_of_fraction_digits_is_read(void **state)
{
    TCI_UNUSED(state);
    tci_instant t = {0};
    tc_err err;
    assert_int_equal(tci_rfc3339_parse(TC_STR("1970-01-01T00:00:01.5Z"), &t, &err), 0);
    assert_true(t.sec == 1 && t.nsec == 500000000);
    assert_int_equal(tci_rfc3339_parse(TC_STR("1970-01-01T00:00:01.00000012Z"), &t, &err), 0);
    assert_int_equal(t.nsec, 120);
}

static void every_day_of_eight_centuries_survives(void **state)
{
    TCI_UNUSED(state);
    for (int64_t day = -146097; day <= 146097; day++) {
        char out[TCI_RFC3339_MAX];
        tci_instant t = {day * 86400 + 86399, 0}, back = {0};
        tc_err err;
        tc_str text = tci_str_of(out, tci_rfc3339_text(t, out));
        assert_int_equal(tci_rfc3339_parse(text, &back, &err), 0);
        assert_true(back.sec == t.sec);
    }
}

static void a_year_beyond_four_digits_has_a_text_that_fits(void **state)
{
    TCI_UNUSED(state);
    char out[TCI_RFC3339_MAX];
    tci_instant t = {INT64_MAX, 999999999};
    assert_text(tci_str_of(out, tci_rfc3339_text(t, out)),
                "+292277026596-12-04T15:30:07.999999999Z");
    t.sec = INT64_MIN;
    assert_text(tci_str_of(out, tci_rfc3339_text(t, out)),
                "-292277022657-01-27T08:29:52.999999999Z");
    t = (tci_instant){253402300800, 0};
    assert_text(tci_str_of(out, tci_rfc3339_text(t, out)), "+10000-01-01T00:00:00Z");
}

static int parse_exact(tc_str s)
{
    char *copy = exact_copy(s);
    tci_instant t;
    tc_err err;
    int rc = tci_rfc3339_parse(tci_str_of(copy, s.len), &t, &err);
    tci_mem_free(copy);
    return rc;
}

static void everything_else_is_refused(void **state)
{
    TCI_UNUSED(state);
    static const char *const bad[] = {
        "2026-11-29T16:11:02+00:00", "2026-11-29t16:11:02Z",  "2026-11-29T16:11:02z",
        "2026-11-29 16:11:02Z",      "2026-11-29T16:11:02.Z", "2026-11-29T16:11:02.1234567890Z",
        "2026-11-29T16:11:02Z ",     "2026-02-29T00:00:00Z",  "1900-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",      "2026-00-01T00:00:00Z",  "2026-01-00T00:00:00Z",
        "2026-04-31T00:00:00Z",      "2026-11-29T24:00:00Z",  "2026-11-29T00:60:00Z",
        "2026-11-29T23:59:60Z",      "2026-11-29T16:11Z",     "+026-11-29T16:11:02Z",
        "2026-11-29T16:11:02,5Z",    "20261-1-29T16:11:02Z",  "2026-11-29T16:11:-2Z",
        "2026-11-29T16:11:02.5 Z"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        assert_int_equal(parse_exact(tci_str(bad[i])), TC_E_INVALID);
}

static void a_text_cut_at_any_byte_is_refused(void **state)
{
    TCI_UNUSED(state);
    tc_str text = TC_STR("2026-11-29T16:11:02.341955887Z");
    assert_int_equal(parse_exact(text), 0);
    for (size_t n = 0; n < text.len; n++)
        assert_int_equal(parse_exact(tci_str_sub(text, 0, n)), TC_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instants_and_their_texts),
        cmocka_unit_test(any_number_of_fraction_digits_is_read),
        cmocka_unit_test(every_day_of_eight_centuries_survives),
        cmocka_unit_test(a_year_beyond_four_digits_has_a_text_that_fits),
        cmocka_unit_test(everything_else_is_refused),
        cmocka_unit_test(a_text_cut_at_any_byte_is_refused),
    };
    return cmocka_run_group_tests_name("rfc3339", tests, NULL, NULL);
}
