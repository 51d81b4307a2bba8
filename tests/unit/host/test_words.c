/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes from outside as text: codes, forms' words, pairing requests; and how often an address may ask. */
#include "host/limit.h"
#include "host/pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void check_text(tci_buf *b, const char *want)
{
    tci_buf_append_byte(b, '\0');
    assert_true(tci_buf_ok(b));
    assert_string_equal(b->ptr, want);
    tci_buf_done(b);
}

/* ---- secrets ---- */

static void test_codes_as_people_type_them(void **state)
{
    TCI_UNUSED(state);
    static const char *const fine[] = {"BCDF-GHJK", "bcdfghjk", " bcdf ghjk ", "BCDF-gh-JK"};
    static const char *const bad[] = {"",          "BCDF",      "BCDF-GHJKL",
                                      "BCDF-GHJA", "BCDF-GHJ1", "BCDF_GHJK"};
    char code[TCI_CODE_LEN];
    for (size_t i = 0; i < TCI_ARRAY_LEN(fine); i++) {
        assert_true(tci_code_read(tci_str(fine[i]), code));
        assert_memory_equal(code, "BCDF-GHJK", sizeof code);
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        assert_false(tci_code_read(tci_str(bad[i]), code));
    assert_false(tci_code_read(TC_STR("BCDF\0GHJK"), code));
    for (int i = 0; i < 200; i++) {
        char made[TCI_CODE_LEN];
        tci_random_code(made);
        assert_true(tci_code_read(tci_str_of(made, sizeof made), code));
        assert_memory_equal(code, made, sizeof code);
    }
}

static void test_digests(void **state)
{
    TCI_UNUSED(state);
    tci_digest a = tci_digest_of(TC_STR("abc")), b = a;
    char hex[TCI_SHA256_HEX + 1] = {0};
    tci_hex(a.bytes, sizeof a.bytes, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_true(tci_digest_eq(&a, &b));
    for (size_t i = 0; i < sizeof b.bytes; i++) {
        b.bytes[i] ^= 0x10;
        assert_false(tci_digest_eq(&a, &b));
        b.bytes[i] ^= 0x10;
    }
}

static void test_form_word_belongs_to_one_session(void **state)
{
    TCI_UNUSED(state);
    char one[TCI_SHA256_HEX], two[TCI_SHA256_HEX];
    tci_csrf_of(TC_STR("session one"), one);
    tci_csrf_of(TC_STR("session two"), two);
    assert_memory_not_equal(one, two, sizeof one);
    assert_true(tci_csrf_is(TC_STR("session one"), tci_str_of(one, sizeof one)));
    assert_false(tci_csrf_is(TC_STR("session one"), tci_str_of(two, sizeof two)));
    assert_false(tci_csrf_is(TC_STR("session one"), tci_str_of(one, sizeof one - 1)));
    assert_false(tci_csrf_is(TC_STR("session one"), TC_STR("")));
    /* It must not give the session away. */
    tci_digest digest = tci_digest_of(TC_STR("session one"));
    char hex[TCI_SHA256_HEX];
    tci_hex(digest.bytes, sizeof digest.bytes, hex);
    assert_memory_not_equal(one, hex, sizeof one);
}

/* ---- limits ---- */

static tci_addr addr(const char *text)
{
    tci_addr a;
    assert_true(tci_addr_parse_ip(tci_str(text), &a));
    return a;
}

static void test_limit_fills_again_with_time(void **state)
{
    TCI_UNUSED(state);
    static tci_limit l;
    tci_addr one = addr("192.0.2.1"), two = addr("192.0.2.2");
    int64_t wait_ms = 0;
    tci_limit_init(&l, 3, 60000);
    for (int i = 0; i < 3; i++)
        assert_true(tci_limit_take(&l, &one, 5000, &wait_ms));
    assert_false(tci_limit_take(&l, &one, 5000, &wait_ms));
    assert_int_equal(wait_ms, 60000);
    assert_true(tci_limit_take(&l, &two, 5000, &wait_ms)); /* another's is its own */
    /* Asking all the time makes it no longer. */
    for (int64_t now_ms = 5001; now_ms < 65000; now_ms += 7)
        assert_false(tci_limit_take(&l, &one, now_ms, &wait_ms));
    assert_true(wait_ms <= 120);
    assert_true(tci_limit_take(&l, &one, 65000 + 120, &wait_ms));
    assert_false(tci_limit_has(&l, &one, 65000 + 120, &wait_ms));
    /* Never more than the burst, and a clock that goes back gives nothing. */
    int64_t late_ms = INT64_C(1000000000);
    for (int i = 0; i < 3; i++)
        assert_true(tci_limit_take(&l, &one, late_ms, &wait_ms));
    assert_false(tci_limit_take(&l, &one, late_ms, &wait_ms));
    assert_false(tci_limit_take(&l, &one, late_ms - 500000, &wait_ms));
}

static void test_limit_counts_networks_of_ipv6(void **state)
{
    TCI_UNUSED(state);
    static tci_limit l;
    tci_addr one = addr("2001:db8:1:2::1"), same = addr("2001:db8:1:2:ffff::9"),
             other = addr("2001:db8:1:3::1");
    int64_t wait_ms;
    tci_limit_init(&l, 1, 1000);
    assert_true(tci_limit_take(&l, &one, 0, &wait_ms));
    assert_false(tci_limit_take(&l, &same, 0, &wait_ms));
    assert_true(tci_limit_take(&l, &other, 0, &wait_ms));
}

static void test_limit_forgets_who_was_longest_away(void **state)
{
    TCI_UNUSED(state);
    static tci_limit l;
    tci_addr a = addr("10.0.0.1"), first = a;
    int64_t wait_ms;
    tci_limit_init(&l, 1, 1000000);
    for (int i = 0; i < TCI_LIMIT_PLACES; i++) {
        a.ip[2] = (uint8_t)(i >> 8);
        a.ip[3] = (uint8_t)i;
        assert_true(tci_limit_take(&l, &a, 1000 + i, &wait_ms));
        assert_false(tci_limit_has(&l, &a, 1000 + i, &wait_ms));
    }
    a.ip[1] = 99; /* one too many: the first has to go */
    assert_true(tci_limit_take(&l, &a, 5000, &wait_ms));
    first.ip[2] = 0;
    first.ip[3] = 1; /* the second is still known */
    assert_false(tci_limit_has(&l, &first, 5000, &wait_ms));
}

/* ---- pairing ---- */

static int read_body(tc_str body, tci_pair_ask *ret)
{
    static tci_arena a;
    tc_err err;
    tci_arena_done(&a);
    tci_arena_init(&a, 0);
    return tci_pair_read(body, &a, ret, &err);
}

static void test_pairing_body(void **state)
{
    TCI_UNUSED(state);
    tci_pair_ask ask = {.device_id = {0}};
    static const char body[] =
        " {\"name\":\"B\\u00fcro \\ud83d\\ude00\", \"device_id\":\"device-0a._-Z\"}\n";
    assert_int_equal(read_body(tci_str(body), &ask), 0);
    assert_true(tci_str_eq(ask.device_id, TC_STR("device-0a._-Z")));
    assert_true(tci_str_eq(ask.name, TC_STR("B\xc3\xbcro \xf0\x9f\x98\x80")));
    for (size_t len = 0; len + 2 < sizeof body; len++) /* cut at each byte */
        assert_true(read_body(tci_str_of(body, len), &ask) < 0);
}

static void test_pairing_body_is_strict(void **state)
{
    TCI_UNUSED(state);
    tci_pair_ask ask;
    static const char *const bad[] = {"",
                                      "null",
                                      "[]",
                                      "{}",
                                      "{\"device_id\":\"d\"}",
                                      "{\"name\":\"n\"}",
                                      "{\"device_id\":\"d\",\"name\":\"n\",\"more\":1}",
                                      "{\"device_id\":\"d\",\"name\":\"n\",\"name\":\"n\"}",
                                      "{\"device_id\":\"d\",\"device_id\":\"e\"}",
                                      "{\"device_id\":1,\"name\":\"n\"}",
                                      "{\"device_id\":\"d\",\"name\":null}",
                                      "{\"device_id\":\"\",\"name\":\"n\"}",
                                      "{\"device_id\":\"d\",\"name\":\"\"}",
                                      "{\"device_id\":\"a/b\",\"name\":\"n\"}",
                                      "{\"device_id\":\"a b\",\"name\":\"n\"}",
                                      "{\"device_id\":\"a\\u0000\",\"name\":\"n\"}",
                                      "{\"device_id\":\"\\u00e4\",\"name\":\"n\"}",
                                      "{\"device_id\":\"d\",\"name\":\"a\\nb\"}",
                                      "{\"device_id\":\"d\",\"name\":\"\\u001b[2J\"}",
                                      "{\"device_id\":\"d\",\"name\":\"\\u0085\"}",
                                      "{\"device_id\":\"d\",\"name\":\"a\\u202eb\"}",
                                      "{\"device_id\":\"d\",\"name\":\"\\ud800\"}",
                                      "{\"device_id\":\"d\",\"name\":\"n\"} x"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        if (read_body(tci_str(bad[i]), &ask) >= 0)
            fail_msg("taken: %s", bad[i]);
    char body[TCI_PAIR_BODY_MAX + 64];
    int n = snprintf(body, sizeof body, "{\"device_id\":\"d\",\"name\":\"%*s\"}", TCI_PAIR_NAME_MAX,
                     "n");
    assert_int_equal(read_body(tci_str_of(body, (size_t)n), &ask), 0);
    n = snprintf(body, sizeof body, "{\"device_id\":\"d\",\"name\":\"%*s\"}", TCI_PAIR_NAME_MAX + 1,
                 "n");
    assert_int_equal(read_body(tci_str_of(body, (size_t)n), &ask), TC_E_INVALID);
    n = snprintf(body, sizeof body, "{\"device_id\":\"d\",\"name\":\"n\"}%*s", TCI_PAIR_BODY_MAX,
                 "");
    assert_int_equal(read_body(tci_str_of(body, (size_t)n), &ask), TC_E_TOO_BIG);
}

static void test_bearer(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tc_str credential;
    char value[128];
    static const char hex[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const char *const forms[] = {"Bearer %s", "bearer %s"};
    static const char *const bad[] = {"%s",       "Bearer  %s", "Bearer %s ",
                                      "Basic %s", "Bearer%s",   "Bearer %s0"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(forms); i++) {
        int n = i == 0 ? snprintf(value, sizeof value, "Bearer %s", hex)
                       : snprintf(value, sizeof value, "bearer %s", hex);
        assert_int_equal(tci_pair_read_bearer(tci_str_of(value, (size_t)n), &credential, &err), 0);
        assert_true(tci_str_eq(credential, tci_str(hex)));
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        tc_str form = tci_str(bad[i]);
        size_t at = tci_str_find_byte(form, '%');
        int n =
            snprintf(value, sizeof value, "%.*s%s%s", (int)at, form.ptr, hex, form.ptr + at + 2);
        assert_int_equal(tci_pair_read_bearer(tci_str_of(value, (size_t)n), &credential, &err),
                         TC_E_AUTH);
    }
    assert_int_equal(tci_pair_read_bearer(TC_STR(""), &credential, &err), TC_E_AUTH);
    (void)snprintf(value, sizeof value, "Bearer %s", hex);
    value[20] = 'A'; /* upper case is another text */
    assert_int_equal(tci_pair_read_bearer(tci_str(value), &credential, &err), TC_E_AUTH);
}

static void test_pairing_answers(void **state)
{
    TCI_UNUSED(state);
    tci_buf b;
    tci_pair_answer answer = {.status = TCI_PAIR_PENDING,
                              .id = TC_STR("dev-1"),
                              .challenge_id = TC_STR("c1"),
                              .code = TC_STR("BCDF-GHJK")};
    tci_buf_init(&b, TCI_BUF_MAX);
    assert_int_equal(tci_pair_put(&b, &answer, TC_STR("/")), 200);
    check_text(&b, "{\"status\":\"pending\",\"challenge\":{\"verification_code\":\"BCDF-GHJK\"},"
                   "\"approval_url\":\"/approve/c1\",\"poll_after_seconds\":2}");
    answer.status = TCI_PAIR_APPROVED;
    tci_buf_init(&b, TCI_BUF_MAX);
    assert_int_equal(tci_pair_put(&b, &answer, TC_STR("/host/")), 200);
    check_text(&b, "{\"status\":\"approved\",\"resource_id\":\"dev-1\","
                   "\"websocket_url\":\"/host/api/devices/dev-1/connect\"}");
    static const struct {
        tci_pair_status status;
        unsigned http;
        const char *code;
    } refusals[] = {{TCI_PAIR_REVOKED, 403, "{\"error\":{\"code\":\"device_revoked\","},
                    {TCI_PAIR_REJECTED, 403, "{\"error\":{\"code\":\"pairing_rejected\","},
                    {TCI_PAIR_CLASH, 409, "{\"error\":{\"code\":\"identity_in_use\","},
                    {TCI_PAIR_FULL, 429, "{\"error\":{\"code\":\"too_many_requests\","}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(refusals); i++) {
        answer.status = refusals[i].status;
        tci_buf_init(&b, TCI_BUF_MAX);
        assert_int_equal(tci_pair_put(&b, &answer, TC_STR("/")), refusals[i].http);
        assert_true(tci_str_starts(tci_buf_str(&b), tci_str(refusals[i].code)));
        assert_true(tci_str_find(tci_buf_str(&b), TC_STR("BCDF")) == b.len);
        tci_buf_done(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_as_people_type_them),
        cmocka_unit_test(test_digests),
        cmocka_unit_test(test_form_word_belongs_to_one_session),
        cmocka_unit_test(test_limit_fills_again_with_time),
        cmocka_unit_test(test_limit_counts_networks_of_ipv6),
        cmocka_unit_test(test_limit_forgets_who_was_longest_away),
        cmocka_unit_test(test_pairing_body),
        cmocka_unit_test(test_pairing_body_is_strict),
        cmocka_unit_test(test_bearer),
        cmocka_unit_test(test_pairing_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
