/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "check.h"

static void check_put_str(tc_str s, const char *expected)
{
    tci_buf b;
    char *copy = exact_copy(s);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put_str(&b, tci_str_of(copy, s.len));
    assert_text(tci_buf_str(&b), expected);
    tci_buf_done(&b);
    /* The same when there is exactly the room it takes, and one byte less. */
    size_t need = strlen(expected);
    tci_buf_init(&b, need);
    tci_json_put_str(&b, tci_str_of(copy, s.len));
    assert_text(tci_buf_str(&b), expected);
    tci_buf_done(&b);
    tci_buf_init(&b, need - 1);
    tci_json_put_str(&b, tci_str_of(copy, s.len));
    assert_int_equal(b.failed, TC_E_TOO_BIG);
    assert_int_equal(b.len, 0);
    tci_buf_done(&b);
    tci_mem_free(copy);
}

static void strings_are_quoted_as_the_reference_does(void **state)
{
    TCI_UNUSED(state);
    check_put_str(TC_STR(""), "\"\"");
    check_put_str(tci_str_of(NULL, 0), "\"\"");
    check_put_str(TC_STR("plain / text \x7f"), "\"plain / text \x7f\"");
    check_put_str(TC_STR("\b\t\n\f\r\"\\"), "\"\\b\\t\\n\\f\\r\\\"\\\\\"");
    check_put_str(TC_STR("\0\1\x1f\x0b"), "\"\\u0000\\u0001\\u001f\\u000b\"");
    check_put_str(TC_STR("\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\xe2\x80\xa8"),
                  "\"\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\xe2\x80\xa8\"");
    check_put_str(TC_STR("\xed\x9f\xbf"), "\"\xed\x9f\xbf\""); /* U+D7FF, next to the surrogates */
    check_put_str(TC_STR("\xed\xa0\x80z\xed\xbf\xbf"), "\"\\ud800z\\udfff\"");
    check_put_str(TC_STR("\xed\xa7\xaa\xed\xad"), "\"\\ud9ea\xed\xad\"");
}

static void what_must_be_escaped_is_found_at_every_offset(void **state)
{
    TCI_UNUSED(state);
    char text[40], expected[48];
    for (size_t at = 0; at < 30; at++) {
        memset(text, 'a', 30);
        memset(expected, 'a', sizeof expected);
        text[at] = '\n';
        expected[0] = '"';
        expected[at + 1] = '\\';
        expected[at + 2] = 'n';
        expected[32] = '"';
        expected[33] = '\0';
        check_put_str(tci_str_of(text, 30), expected);
    }
}

static void single_values(void **state)
{
    TCI_UNUSED(state);
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_json_put_key(&b, &first, TC_STR("a"));
    tci_json_put_double(&b, 12);
    tci_json_put_key(&b, &first, TC_STR("b\n"));
    tci_json_put_bool(&b, false);
    tci_json_put_key(&b, &first, TC_STR("c"));
    tci_json_put_base64(&b, TC_STR("fo"));
    tci_buf_append_byte(&b, '}');
    assert_text(tci_buf_str(&b), "{\"a\":12.0,\"b\\n\":false,\"c\":\"Zm8\"}");
    tci_buf_done(&b);
}

static void check_put(const char *text, unsigned flags, tci_json_order order, const char *expected)
{
    tci_arena a;
    tci_json v;
    tci_buf b;
    tc_err err;
    tci_arena_init(&a, 0);
    tci_buf_init(&b, TCI_BUF_MAX);
    assert_int_equal(tci_json_parse(tci_str(text), flags, &a, &v, &err), 0);
    tci_json_put(&b, &v, order);
    assert_text(tci_buf_str(&b), expected);
    tci_buf_done(&b);
    tci_arena_done(&a);
}

static void trees_come_out_as_they_were(void **state)
{
    TCI_UNUSED(state);
    const char *text =
        "{\"b\":[1.50,-0,1E+2,\"\\ud800\",{}],\"a\":{\"z\":null,\"y\":[true,false]}}";
    check_put(text, TCI_JSON_KEEP_SURROGATES, TCI_JSON_AS_IS, text);
    check_put(" [ ] ", 0, TCI_JSON_AS_IS, "[]");
    check_put("\"\\u0041\\/\"", 0, TCI_JSON_AS_IS, "\"A/\"");
}

static void sorted_trees_have_keys_ascending_at_every_level(void **state)
{
    TCI_UNUSED(state);
    check_put("{\"b\":1,\"a\":[{\"d\":1,\"c\":2}],\"\xc3\xa9\":3,\"aa\":4,\"\":5,\"B\":6}", 0,
              TCI_JSON_SORTED,
              "{\"\":5,\"B\":6,\"a\":[{\"c\":2,\"d\":1}],\"aa\":4,\"b\":1,\"\xc3\xa9\":3}");
}

/* More members than are sorted without the heap. */
static int put_large(void *arg)
{
    tci_arena a;
    tci_json v;
    tci_buf in, out;
    tc_err err;
    TCI_UNUSED(arg);
    tci_arena_init(&a, 0);
    tci_buf_init(&in, TCI_BUF_MAX);
    tci_buf_init(&out, TCI_BUF_MAX);
    for (int i = 0; i < 500; i++)
        tci_buf_printf(&in, "%c\"k%03d\":%d", i == 0 ? '{' : ',', (i * 7) % 500, i);
    tci_buf_append_byte(&in, '}');
    int rc = tci_buf_error(&in, &err);
    if (rc == 0)
        rc = tci_json_parse(tci_buf_str(&in), 0, &a, &v, &err);
    if (rc == 0) {
        tci_json_put(&out, &v, TCI_JSON_SORTED);
        rc = tci_buf_error(&out, &err);
    }
    if (rc == 0) {
        assert_true(tci_str_starts(tci_buf_str(&out), TC_STR("{\"k000\":0,\"k001\":143,\"k002\"")));
        assert_true(tci_str_ends(tci_buf_str(&out), TC_STR(",\"k499\":357}")));
    }
    tci_buf_done(&in);
    tci_buf_done(&out);
    tci_arena_done(&a);
    return rc;
}

static void every_failing_allocation_is_reported(void **state)
{
    TCI_UNUSED(state);
    assert_true(each_allocation_fails(put_large, NULL) >= 10);
}

static void a_full_buffer_stays_failed(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tci_json v;
    tci_buf b;
    tc_err err;
    tci_arena_init(&a, 0);
    tci_buf_init(&b, 10);
    assert_int_equal(tci_json_parse(TC_STR("[\"aaaa\",\"bbbb\",{\"c\":1}]"), 0, &a, &v, &err), 0);
    tci_json_put(&b, &v, TCI_JSON_SORTED);
    assert_int_equal(tci_buf_error(&b, &err), TC_E_TOO_BIG);
    assert_true(b.len <= 10);
    tci_buf_done(&b);
    tci_arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_quoted_as_the_reference_does),
        cmocka_unit_test(what_must_be_escaped_is_found_at_every_offset),
        cmocka_unit_test(single_values),
        cmocka_unit_test(trees_come_out_as_they_were),
        cmocka_unit_test(sorted_trees_have_keys_ascending_at_every_level),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(a_full_buffer_stays_failed),
    };
    return cmocka_run_group_tests_name("json_put", tests, NULL, NULL);
}
