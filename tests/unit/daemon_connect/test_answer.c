/* SPDX-License-Identifier: Apache-2.0
 *
 * What a Host answers to a pairing request, and what a person gets to see of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/connect/connect_int.h"

#include <stdio.h>

#define SECRET "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CODE "\"challenge\":{\"verification_code\":\"AB-1\"}"

static int read_text(const char *text, tci_pair_answer *ret, tc_err *err)
{
    tci_arena a;
    tci_arena_init(&a, 0);
    int rc = tci_pair_answer_read(tci_str(text), &a, ret, err);
    tci_arena_done(&a);
    return rc;
}

static void pending(void **state)
{
    static const struct {
        const char *after;
        uint64_t seconds;
    } rows[] = {{"0", 1}, {"1", 1}, {"2", 2}, {"10", 10}, {"11", 10}, {"18446744073709551615", 10}};
    tci_pair_answer answer;
    tc_err err;
    tci_arena a;
    (void)state;
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "{\"status\":\"pending\",\"more\":[{}]," CODE ",\"poll_after_seconds\":%s}",
                       rows[i].after);
        assert_int_equal(read_text(text, &answer, &err), 0);
        assert_false(answer.is_approved);
        assert_int_equal(answer.poll_after_s, rows[i].seconds);
        assert_int_equal(answer.approval_url.len, 0);
    }
    tci_arena_init(&a, 0);
    assert_int_equal(
        tci_pair_answer_read(TC_STR("{\"status\":\"pending\"," CODE
                                    ",\"poll_after_seconds\":3,\"approval_url\":\"/x\"}"),
                             &a, &answer, &err),
        0);
    assert_true(tci_str_eq(answer.verification_code, TC_STR("AB-1")));
    assert_true(tci_str_eq(answer.approval_url, TC_STR("/x")));
    tci_arena_done(&a);
}

static void approved(void **state)
{
    tci_pair_answer answer;
    tc_err err;
    tci_arena a;
    (void)state;
    tci_arena_init(&a, 0);
    assert_int_equal(
        tci_pair_answer_read(TC_STR(" {\"status\":\"approved\",\"resource_id\":\"dev-1\","
                                    "\"websocket_url\":\"/ws\",\"status_text\":null} "),
                             &a, &answer, &err),
        0);
    assert_true(answer.is_approved);
    assert_true(tci_str_eq(answer.resource_id, TC_STR("dev-1")));
    assert_true(tci_str_eq(answer.websocket_url, TC_STR("/ws")));
    tci_arena_done(&a);
}

static void anything_else(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "null",
        "[]",
        "{}",
        "\"pending\"",
        "{\"status\":\"denied\"}",
        "{\"status\":1}",
        "{\"status\":\"pending\"}",
        "{\"status\":\"pending\",\"poll_after_seconds\":1}",
        "{\"status\":\"pending\"," CODE "}",
        "{\"status\":\"pending\"," CODE ",\"poll_after_seconds\":-1}",
        "{\"status\":\"pending\"," CODE ",\"poll_after_seconds\":1.5}",
        "{\"status\":\"pending\"," CODE ",\"poll_after_seconds\":\"1\"}",
        "{\"status\":\"pending\"," CODE ",\"poll_after_seconds\":18446744073709551616}",
        "{\"status\":\"pending\"," CODE ",\"poll_after_seconds\":1,\"approval_url\":5}",
        "{\"status\":\"pending\",\"challenge\":[],\"poll_after_seconds\":1}",
        "{\"status\":\"pending\",\"challenge\":{\"verification_code\":5},\"poll_after_seconds\":1}",
        "{\"status\":\"approved\"}",
        "{\"status\":\"approved\",\"resource_id\":\"a\"}",
        "{\"status\":\"approved\",\"websocket_url\":\"/x\"}",
        "{\"status\":\"approved\",\"resource_id\":\"\",\"websocket_url\":\"/x\"}",
        "{\"status\":\"approved\",\"resource_id\":\"a\\nb\",\"websocket_url\":\"/x\"}",
        "{\"status\":\"approved\",\"resource_id\":\"a\\u0000\",\"websocket_url\":\"/x\"}",
        "{\"status\":\"approved\",\"resource_id\":5,\"websocket_url\":\"/x\"}",
        "{\"status\":\"pending\",\"status\":\"approved\",\"resource_id\":\"a\",\"websocket_url\":"
        "\"/"
        "x\"}",
        "{\"status\":\"approved\",\"resource_id\":\"a\",\"websocket_url\":\"/x\"}{}",
        "\xef\xbb\xbf{\"status\":\"approved\",\"resource_id\":\"a\",\"websocket_url\":\"/x\"}",
        "{\"status\":\"approved\",\"resource_id\":\"\xff\",\"websocket_url\":\"/x\"}",
    };
    (void)state;
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        tci_pair_answer answer;
        tc_err err;
        if (read_text(bad[i], &answer, &err) != TC_E_INVALID)
            fail_msg("accepted: %s", bad[i]);
        assert_string_equal(err.msg, "Host returned an invalid pairing response");
    }
}

static void codes_that_are_none(void **state)
{
    static const char *const bad[] = {
        "", "123456789012345678901234567890123", "a\\u001b[2J", "a\\n", "\\u0085", "a\\u007f"};
    (void)state;
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        char text[256];
        tci_pair_answer answer;
        tc_err err;
        (void)snprintf(text, sizeof text,
                       "{\"status\":\"pending\",\"challenge\":{\"verification_code\":\"%s\"},"
                       "\"poll_after_seconds\":1}",
                       bad[i]);
        assert_int_equal(read_text(text, &answer, &err), TC_E_INVALID);
        assert_string_equal(err.msg, "Host returned an invalid verification code");
    }
}

static void cut_anywhere(void **state)
{
    static const char whole[] =
        "{\"status\":\"approved\",\"resource_id\":\"d\xc3\xa9v\",\"websocket_url\":\"/\\u0078\"}";
    (void)state;
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        tci_pair_answer answer;
        tc_err err;
        tci_arena a;
        char *copy = tci_mem_alloc(n + 1); /* so that a sanitizer sees a step beyond */
        assert_non_null(copy);
        memcpy(copy, whole, n);
        tci_arena_init(&a, 0);
        assert_int_equal(tci_pair_answer_read(tci_str_of(copy, n), &a, &answer, &err),
                         TC_E_INVALID);
        tci_arena_done(&a);
        tci_free(copy);
    }
}

/* ---- refusals ---- */

typedef struct refusal {
    unsigned status;
    const char *body, *want;
} refusal;

static void refusals(void **state)
{
#define PLAIN "Host rejected pairing (HTTP 409); no credential was replaced"
    static const refusal rows[] = {
        {409, "{\"error\":{\"code\":\"gone_1\",\"message\":\"it is over\"}}",
         "Host rejected pairing (HTTP 409): gone_1: it is over; no credential was replaced"},
        {500, "", "Host rejected pairing (HTTP 500); no credential was replaced"},
        {302, "<html>", "Host rejected pairing (HTTP 302); no credential was replaced"},
        {409, "{\"error\":\"gone\"}", PLAIN},
        {409, "{\"error\":{\"code\":\"go ne\",\"message\":\"m\"}}", PLAIN},
        {409, "{\"error\":{\"code\":\"\",\"message\":\"m\"}}", PLAIN},
        {409, "{\"error\":{\"code\":\"c\",\"message\":5}}", PLAIN},
        {409, "{\"error\":{\"code\":\"c\",\"message\":\"a\\u001b[2J\"}}", PLAIN},
        {400, "{\"error\":{\"code\":\"c\",\"message\":\"bad " SECRET " here " SECRET "\"}}",
         "Host rejected pairing (HTTP 400): c: bad [redacted] here [redacted]; no credential was "
         "replaced"},
        {400, "{\"error\":{\"code\":\"" SECRET "\",\"message\":\"x\"}}",
         "Host rejected pairing (HTTP 400): [redacted]: x; no credential was replaced"},
        {400,
         "{\"error\":{\"code\":\"c\",\"message\":"
         "\"0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDE\\u0046\"}}",
         "Host rejected pairing (HTTP 400): c: [redacted]; no credential was replaced"},
    };
#undef PLAIN
    (void)state;
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        tc_err err;
        int rc = tci_pair_refused(rows[i].status, tci_str(rows[i].body), TC_STR(SECRET), &err);
        assert_int_equal(rc, TC_E_AUTH);
        assert_string_equal(err.msg, rows[i].want);
    }
}

/* A message that does not fit ends at a character, and what was promised behind it still stands there. */
static void long_refusals(void **state)
{
    char body[TCI_PAIR_REFUSAL_MAX + 200];
    tc_err err;
    (void)state;
    for (size_t shift = 0; shift < 3; shift++) {
        size_t n = (size_t)snprintf(body, sizeof body, "{\"error\":{\"code\":\"c\",\"message\":\"");
        memset(body + n, 'x', shift);
        n += shift;
        for (int i = 0; i < 160; i++, n += 3)
            memcpy(body + n, "\xe2\x82\xac", 3);
        n += (size_t)snprintf(body + n, sizeof body - n, "\"}}");
        assert_int_equal(tci_pair_refused(409, tci_str_of(body, n), TC_STR(SECRET), &err),
                         TC_E_AUTH);
        assert_true(tci_str_ends(tci_str(err.msg), TC_STR("\xac...; no credential was replaced")));
    }
    memset(body, ' ', sizeof body);
    (void)snprintf(body, 60, "{\"error\":{\"code\":\"c\",\"message\":\"m\"}}");
    body[strlen(body)] = ' ';
    assert_int_equal(
        tci_pair_refused(409, tci_str_of(body, TCI_PAIR_REFUSAL_MAX + 1), TC_STR(SECRET), &err),
        TC_E_AUTH);
    assert_string_equal(err.msg, "Host rejected pairing (HTTP 409); no credential was replaced");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pending),       cmocka_unit_test(approved),
        cmocka_unit_test(anything_else), cmocka_unit_test(codes_that_are_none),
        cmocka_unit_test(cut_anywhere),  cmocka_unit_test(refusals),
        cmocka_unit_test(long_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
