/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"
#include "check.h"

/* Slow and by the definition: the table of RFC 3629 section 4. */
static size_t reference_len(const unsigned char *p, size_t n)
{
    static const unsigned char rows[][9] = {/* length, then low and high bound of each byte */
                                            {1, 0x00, 0x7f, 0, 0, 0, 0, 0, 0},
                                            {2, 0xc2, 0xdf, 0x80, 0xbf, 0, 0, 0, 0},
                                            {3, 0xe0, 0xe0, 0xa0, 0xbf, 0x80, 0xbf, 0, 0},
                                            {3, 0xe1, 0xec, 0x80, 0xbf, 0x80, 0xbf, 0, 0},
                                            {3, 0xed, 0xed, 0x80, 0x9f, 0x80, 0xbf, 0, 0},
                                            {3, 0xee, 0xef, 0x80, 0xbf, 0x80, 0xbf, 0, 0},
                                            {4, 0xf0, 0xf0, 0x90, 0xbf, 0x80, 0xbf, 0x80, 0xbf},
                                            {4, 0xf1, 0xf3, 0x80, 0xbf, 0x80, 0xbf, 0x80, 0xbf},
                                            {4, 0xf4, 0xf4, 0x80, 0x8f, 0x80, 0xbf, 0x80, 0xbf}};
    for (size_t r = 0; r < TCI_ARRAY_LEN(rows); r++) {
        size_t len = rows[r][0], i = 0;
        while (i < len && i < n && p[i] >= rows[r][1 + 2 * i] && p[i] <= rows[r][2 + 2 * i])
            i++;
        if (i == len)
            return len;
    }
    return 0;
}

/* All sequences of two bytes, and all third and fourth bytes around the bounds behind them. */
static void sequences_are_judged_as_the_standard_does(void **state)
{
    TCI_UNUSED(state);
    static const unsigned char edges[] = {0x00, 0x7f, 0x80, 0x8f, 0x90,
                                          0x9f, 0xa0, 0xbf, 0xc0, 0xff};
    const size_t nedges = sizeof edges;
    for (unsigned i = 0xbf00; i < 65536; i++) { /* below, nothing depends on what follows */
        for (size_t k = 0; k < nedges * nedges; k++) {
            unsigned char s[4] = {(unsigned char)(i >> 8), (unsigned char)i, edges[k / nedges],
                                  edges[k % nedges]};
            size_t expected = 0, len = 0;
            for (size_t n; expected < 4 && (n = reference_len(s + expected, 4 - expected)) > 0;)
                expected += n;
            assert_int_equal(tci_utf8_valid_prefix(tci_str_of(s, 4)), expected);
            int32_t scalar = tci_utf8_decode(tci_str_of(s, 4), &len);
            assert_int_equal(scalar < 0 ? 0 : len, reference_len(s, 4));
        }
    }
}

static void every_scalar_survives(void **state)
{
    TCI_UNUSED(state);
    for (uint32_t c = 0; c <= 0x110000; c++) {
        char text[4];
        size_t n = tci_utf8_encode(c, text), len = 0;
        bool is_scalar = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
        assert_int_equal(n > 0, is_scalar);
        if (is_scalar) {
            assert_int_equal(tci_utf8_decode(tci_str_of(text, n), &len), c);
            assert_int_equal(len, n);
        }
    }
    assert_int_equal(tci_utf8_encode(UINT32_MAX, (char[4]){0}), 0);
}

static const char mixed[] = "plain text \xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80 and more"
                            " ascii of some length \xef\xbf\xbf\xf4\x8f\xbf\xbf\xed\x9f\xbf";

/* Cut at each byte: what is valid ends where the last whole character ends, and the cut tail is the
 * rest. Copies without a byte to spare show reads past the end. */
static void text_cut_at_each_byte(void **state)
{
    TCI_UNUSED(state);
    size_t whole = 0;
    for (size_t n = 0; n < sizeof mixed; n++) {
        char *cut = exact_copy(tci_str_of(mixed, n));
        for (size_t len; whole < n && (len = reference_len((const unsigned char *)mixed + whole,
                                                           n - whole)) > 0;)
            whole += len;
        assert_int_equal(tci_utf8_valid_prefix(tci_str_of(cut, n)), whole);
        assert_int_equal(tci_utf8_cut_tail(tci_str_of(cut, n)), n - whole);
        tci_mem_free(cut);
    }
}

static void a_hopeless_tail_is_not_a_cut_one(void **state)
{
    TCI_UNUSED(state);
    assert_int_equal(tci_utf8_cut_tail(TC_STR("a\xc0")), 0);
    assert_int_equal(tci_utf8_cut_tail(TC_STR("a\xe0\x80")), 0);     /* overlong */
    assert_int_equal(tci_utf8_cut_tail(TC_STR("a\xed\xa0")), 0);     /* surrogate */
    assert_int_equal(tci_utf8_cut_tail(TC_STR("a\xf4\x90")), 0);     /* over U+10FFFF */
    assert_int_equal(tci_utf8_cut_tail(TC_STR("a\xf0\x80\x80")), 0); /* overlong */
    assert_int_equal(tci_utf8_cut_tail(TC_STR("\x80\x80\x80\x80")), 0);
    assert_int_equal(tci_utf8_cut_tail(TC_STR("\xe0")), 1);
    assert_int_equal(tci_utf8_cut_tail(TC_STR("\xed\x9f")), 2);
    assert_int_equal(tci_utf8_cut_tail(TC_STR("\xf4\x8f\xbf")), 3);
    assert_int_equal(tci_utf8_cut_tail(tci_str_of(NULL, 0)), 0);
}

static void an_error_is_found_wherever_it_is(void **state)
{
    TCI_UNUSED(state);
    char text[80];
    for (size_t at = 0; at < sizeof text; at++) {
        memset(text, 'a', sizeof text);
        text[at] = (char)(unsigned char)0xff;
        assert_int_equal(tci_utf8_valid_prefix(tci_str_of(text, sizeof text)), at);
    }
}

static void runs_outside_ascii_end_at_ascii_or_an_error(void **state)
{
    TCI_UNUSED(state);
    assert_int_equal(tci_utf8_high_prefix(TC_STR("abc")), 0);
    assert_int_equal(tci_utf8_high_prefix(tci_str_of(NULL, 0)), 0);
    assert_int_equal(tci_utf8_high_prefix(TC_STR("\xe4\xb8\xad\xc3\xa9\xf0\x9f\x98\x80z")), 9);
    assert_int_equal(tci_utf8_high_prefix(TC_STR("\xe4\xb8\xad\xed\xa0\x80")), 3);
    assert_int_equal(tci_utf8_high_prefix(TC_STR("\xe4\xb8\xad\xe4\xb8")), 3);
}

static void scalars_are_counted(void **state)
{
    TCI_UNUSED(state);
    tc_str s = tci_str(mixed);
    size_t count = tci_utf8_count(s), at = 0;
    for (size_t n = 0; n <= count; n++) {
        assert_int_equal(tci_utf8_prefix_bytes(s, n), at);
        size_t len = 0;
        if (n < count)
            assert_true(tci_utf8_decode(tci_str_sub(s, at, s.len), &len) >= 0);
        at += len;
    }
    assert_int_equal(at, s.len);
    assert_int_equal(tci_utf8_prefix_bytes(s, count + 1000), s.len);
    assert_int_equal(tci_utf8_count(tci_str_of(NULL, 0)), 0);
    assert_int_equal(tci_utf8_prefix_bytes(tci_str_of(NULL, 0), 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_are_judged_as_the_standard_does),
        cmocka_unit_test(every_scalar_survives),
        cmocka_unit_test(text_cut_at_each_byte),
        cmocka_unit_test(a_hopeless_tail_is_not_a_cut_one),
        cmocka_unit_test(an_error_is_found_wherever_it_is),
        cmocka_unit_test(runs_outside_ascii_end_at_ascii_or_an_error),
        cmocka_unit_test(scalars_are_counted),
    };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
