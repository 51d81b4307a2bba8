/* SPDX-License-Identifier: Apache-2.0
 *
 * The quick scan: what it passes is what the parser takes, wherever the text is cut. */
#include "store/jsonl/jsonl_scan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

/* From a copy without a byte to spare, as the parser says. */
static void agrees(tc_str text)
{
    tci_arena a;
    tci_json v;
    tc_err err;
    char *copy = tci_mem_resize(NULL, text.len > 0 ? text.len : 1);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    tc_str exact = tci_str_of(copy, text.len);
    tci_arena_init(&a, 0);
    bool is_json =
        tci_json_parse(exact, TCI_JSON_KEEP_SURROGATES | TCI_JSON_LAST_KEY_WINS, &a, &v, &err) == 0;
    if (tci_json_is_line(exact) != is_json)
        fail_msg("the parser %s '%.*s'", is_json ? "takes" : "refuses", TC_STR_ARG(text));
    tci_arena_done(&a);
    tci_mem_free(copy);
}

static void test_agrees_with_the_parser(void **state)
{
    TCI_UNUSED(state);
    static const char *const texts[] = {
        "{\"jsonrpc\": \"2.0\",\"id\":17,\"p\":{\"a\":[true,false,null,-1.5e3,[],{},\"x\"]}}",
        "[0,-0,10,1.25,1e5,1E+5,1e-05,1.0e+1]",
        "\"plain text that is longer than sixteen bytes, \\u00e9\\ud83d\\ude00\\ud800 \xc3\xa9 "
        "\xe2\x80\xa8\"",
        "\"\\b\\f\\n\\r\\t\\\"\\\\\\/\"",
        " { } ",
        "[ ]",
        "{\"\":\"\"}",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "--1",
        "NaN",
        "Infinity",
        "tru",
        "nulll",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1 \"b\":2}",
        "{1:2}",
        "{a:1}",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\t\"",
        "\"\x7f\"",
        "\"\xff\"",
        "\"\xed\xa0\x80\"",
        "[}",
        "{]",
        "]",
        "1 2",
        "\"a\"\"b\"",
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++) {
        tc_str text = tci_str(texts[i]);
        for (size_t len = 0; len <= text.len; len++)
            agrees(tci_str_sub(text, 0, len));
    }
}

static void test_depth_and_lines(void **state)
{
    TCI_UNUSED(state);
    char text[2 * (TCI_JSON_DEPTH_MAX + 3)];
    for (size_t depth = TCI_JSON_DEPTH_MAX - 1; depth < TCI_JSON_DEPTH_MAX + 3; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        agrees(tci_str_of(text, 2 * depth));
    }
    assert_true(tci_json_is_line(TC_STR("{\"a\":[\t1\r]}")));
    assert_false(tci_json_is_line(TC_STR("{\"a\":\n1}"))); /* sound, but two lines */
    assert_false(tci_json_is_line(TC_STR("")));
}

static void test_members_in_passing(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tci_scan s =
        tci_scan_of(TC_STR(" { \"a\" : [1, {\"b\":2} ] ,\"\\u0062\":\"x\\n\", \"c\":{} } "));
    bool first = true, inner = true;
    tc_str key, raw, text;
    uint64_t id;
    tci_arena_init(&a, 0);
    assert_true(tci_scan_object(&s) && tci_scan_member(&s, &first, &a, &key));
    assert_true(tci_str_eq(key, TC_STR("a")) && tci_scan_array(&s));
    assert_true(tci_scan_item(&s, &inner) && tci_scan_value(&s, &raw) && tci_raw_id(raw, &id));
    assert_true(tci_scan_item(&s, &inner) && tci_scan_value(&s, &raw));
    assert_true(tci_str_eq(raw, TC_STR("{\"b\":2}")));
    assert_false(tci_scan_item(&s, &inner));
    assert_true(tci_scan_member(&s, &first, &a, &key) && tci_str_eq(key, TC_STR("b")));
    assert_true(tci_scan_value(&s, &raw) && tci_raw_string(raw, &a, &text));
    assert_true(tci_str_eq(text, TC_STR("x\n")));
    assert_true(tci_scan_member(&s, &first, &a, &key) && tci_scan_value(&s, NULL));
    assert_false(tci_scan_member(&s, &first, &a, &key));
    assert_true(tci_scan_ok(&s) && tci_jsonl_scan_end(&s));
    tci_arena_done(&a);
}

static void test_ids(void **state)
{
    TCI_UNUSED(state);
    uint64_t id;
    assert_true(tci_raw_id(TC_STR("9007199254740991"), &id));
    assert_true(tci_raw_count(TC_STR("0"), &id));
    static const char *const bad[] = {"0",     "-1", "1.0", "1e2", "9007199254740992",
                                      "\"1\"", "",   "01"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        assert_false(tci_raw_id(tci_str(bad[i]), &id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_the_parser),
        cmocka_unit_test(test_depth_and_lines),
        cmocka_unit_test(test_members_in_passing),
        cmocka_unit_test(test_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
