/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"
#include "check.h"
#include <errno.h>

static void setting_fills_everything(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    memset(&err, 'x', sizeof err);
    assert_int_equal(tc_err_set(&err, TC_E_NOT_FOUND, "no file '%s'", "a.c"), TC_E_NOT_FOUND);
    assert_int_equal(err.code, TC_E_NOT_FOUND);
    assert_int_equal(err.cause, TC_E_NOT_FOUND);
    assert_int_equal(err.os, 0);
    assert_int_equal(err.line, __LINE__ - 4);
    assert_true(tci_str_ends(tci_str(err.file), TC_STR("test_error.c")));
    assert_string_equal(err.msg, "no file 'a.c'");
    assert_string_equal(err.hint, "");
}

static void the_system_s_reason_is_appended_in_lower_case(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    assert_int_equal(tc_err_set_os(&err, TC_E_DENIED, EACCES, "cannot open '%s'", "x"),
                     TC_E_DENIED);
    assert_int_equal(err.os, EACCES);
    assert_string_equal(err.msg, "cannot open 'x': permission denied");
    assert_int_equal(tc_err_set_os(&err, TC_E_IO, 99999, "cannot read"), TC_E_IO);
    assert_true(tci_str_starts(tci_str(err.msg), TC_STR("cannot read: ")));
    assert_true(strlen(err.msg) > strlen("cannot read: "));
}

static void callers_add_what_they_were_doing(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    (void)tc_err_set(&err, TC_E_IO, "short read");
    assert_int_equal(tc_err_hint(&err, "check the %s", "disk"), TC_E_IO);
    assert_int_equal(tc_err_wrap(&err, "cannot load '%s'", "f"), TC_E_IO);
    assert_string_equal(err.msg, "cannot load 'f': short read");
    assert_int_equal(tc_err_recode(&err, TC_E_INTEGRITY), TC_E_INTEGRITY);
    assert_int_equal(err.code, TC_E_INTEGRITY);
    assert_int_equal(err.cause, TC_E_IO);
    assert_string_equal(err.hint, "check the disk");
    assert_int_equal(tc_err_hint(&err, "other"), TC_E_INTEGRITY);
    assert_string_equal(err.hint, "other");
    (void)tc_err_set(&err, TC_E_INVALID, "again: %s", err.msg); /* its own text as argument */
    assert_string_equal(err.msg, "again: cannot load 'f': short read");
}

static void too_long_is_cut_after_a_whole_character(void **state)
{
    TCI_UNUSED(state);
    char text[1000];
    for (size_t pad = 0; pad < 4; pad++) {
        memset(text, 'a', pad);
        for (size_t i = pad; i + 4 < sizeof text; i += 4)
            memcpy(text + i, "\xf0\x9f\x98\x80", 5);
        tc_err err;
        (void)tc_err_set(&err, TC_E_IO, "%s", text);
        assert_true(strlen(err.msg) >= TC_ERR_MSG_MAX - 4 && strlen(err.msg) < TC_ERR_MSG_MAX);
        assert_true(tci_utf8_is_valid(tci_str(err.msg)));
        (void)tc_err_hint(&err, "%s", text);
        assert_true(strlen(err.hint) >= TC_ERR_HINT_MAX - 4 && strlen(err.hint) < TC_ERR_HINT_MAX);
        assert_true(tci_utf8_is_valid(tci_str(err.hint)));
        (void)tc_err_wrap(&err, "outer");
        assert_true(tci_str_starts(tci_str(err.msg), TC_STR("outer: ")));
        assert_true(strlen(err.msg) < TC_ERR_MSG_MAX);
        assert_true(tci_utf8_is_valid(tci_str(err.msg)));
        (void)tc_err_wrap(&err, "%s", text);
        assert_true(tci_utf8_is_valid(tci_str(err.msg)));
        (void)tc_err_set_os(&err, TC_E_IO, EIO, "%s", text);
        assert_true(tci_utf8_is_valid(tci_str(err.msg)));
    }
}

static void codes_have_their_facts(void **state)
{
    TCI_UNUSED(state);
    assert_string_equal(tc_code_name(TC_E_NOT_FOUND), "NOT_FOUND");
    assert_string_equal(tc_code_text(TC_E_CONNECT), "cannot connect");
    assert_int_equal(tc_code_exit_status(TC_E_CANCELLED), 130);
    assert_int_equal(tc_code_exit_status(TC_E_UNKNOWN_OUTCOME), 5);
    assert_true(tc_code_can_retry(TC_E_BUSY));
    assert_false(tc_code_can_retry(TC_E_INVALID));
    assert_string_equal(tc_code_name(TC_E_END), "END");
    assert_string_equal(tc_code_name(-9999), "INTERNAL");
    assert_int_equal(tc_code_exit_status(12345), tc_code_exit_status(TC_E_INTERNAL));
    assert_int_equal(tc_code_exit_status(TC_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setting_fills_everything),
        cmocka_unit_test(the_system_s_reason_is_appended_in_lower_case),
        cmocka_unit_test(callers_add_what_they_were_doing),
        cmocka_unit_test(too_long_is_cut_after_a_whole_character),
        cmocka_unit_test(codes_have_their_facts),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
