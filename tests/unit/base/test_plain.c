/* SPDX-License-Identifier: Apache-2.0
 *
 * Text of others: what a terminal would obey is shown instead, and what comes out is UTF-8. */
#include "base/plain.h"

#include "base/json.h"
#include "base/utf8.h"
#include "check.h"

static void check_form(tci_plain_form form, tc_str in, const char *expected)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_plain_put(&b, in, form);
    if (!tci_buf_ok(&b) || !tci_str_eq(tci_buf_str(&b), tci_str(expected)))
        fail_msg("form %d: '%.*s', expected '%s'", form, TC_STR_ARG(tci_buf_str(&b)), expected);
    tci_buf_done(&b);
}

static void controls_are_shown(void **state)
{
    TCI_UNUSED(state);
    tc_str in = TC_STR("a\tb\r\nc\x1b]0;t\x07 \x7f \xc2\x9b"
                       "1m \xe2\x80\xae"
                       "x\xe2\x81\xa6 \rz\xd8\x9c");
    check_form(TCI_PLAIN_TEXT, in, "a\tb\r\nc?]0;t? ? ?1m ?x? ?z?");
    check_form(TCI_PLAIN_LINE, in, "a?b??c?]0;t? ? ?1m ?x? ?z?");
    tci_buf same;
    tci_buf_init(&same, TCI_BUF_MAX);
    tci_plain_put(&same, in, TCI_PLAIN_UTF8);
    assert_true(tci_str_eq(tci_buf_str(&same), in));
    tci_buf_done(&same);
    check_form(TCI_PLAIN_LINE, tci_str_of("a\0b", 3), "a?b");
    check_form(TCI_PLAIN_TEXT, TC_STR(""), "");
    check_form(TCI_PLAIN_LINE, TC_STR("h\xc3\xa9llo \xf0\x9f\x98\x80 \xe2\x80\x8d"),
               "h\xc3\xa9llo \xf0\x9f\x98\x80 \xe2\x80\x8d");
}

static void what_comes_out_is_utf8(void **state)
{
    TCI_UNUSED(state);
#define BAD "\xef\xbf\xbd"
    static const tci_plain_form forms[] = {TCI_PLAIN_UTF8, TCI_PLAIN_TEXT, TCI_PLAIN_LINE,
                                           TCI_PLAIN_JSON};
    for (size_t i = 0; i < TCI_ARRAY_LEN(forms); i++) {
        check_form(forms[i], TC_STR("a\xed\xa0\xbd"), "a" BAD);
        check_form(forms[i], TC_STR("\xed\xb8\x80\xed\xa0\xbd."), BAD BAD ".");
        check_form(forms[i], TC_STR("\xed\xa0\xbd\xed\xb8\x80."), "\xf0\x9f\x98\x80.");
        check_form(forms[i], TC_STR("x\x80\xff y\xe2\x80"), "x" BAD BAD " y" BAD BAD);
        check_form(forms[i], TC_STR("\xed\xa0"), BAD BAD);
    }
    uint32_t seed = 12345;
    for (int round = 0; round < 2000; round++) {
        char bytes[24];
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 1664525u + 1013904223u;
            static const unsigned char hard[] = {0xed, 0xa0, 0xb8, 0x80, 0x9b, 0xe2, 0xf0, 0x1b};
            bytes[i] = (char)(seed & 0x10000 ? hard[seed >> 20 & 7] : (unsigned char)(seed >> 24));
        }
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_plain_put(&b, tci_str_of(bytes, sizeof bytes), forms[round & 3]);
        assert_true(tci_utf8_is_valid(tci_buf_str(&b)));
        tci_buf_done(&b);
    }
}

static void json_means_the_same(void **state)
{
    TCI_UNUSED(state);
    check_form(TCI_PLAIN_JSON, TC_STR("{\"a\":\"\xc2\x9b\xe2\x80\xae\x7f \\ud800 \\u001b\"}\n"),
               "{\"a\":\"\\u009b\\u202e\\u007f \\ud800 \\u001b\"}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controls_are_shown),
        cmocka_unit_test(what_comes_out_is_utf8),
        cmocka_unit_test(json_means_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
