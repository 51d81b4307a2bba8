/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "check.h"
#include <stdio.h>

typedef struct parsed {
    tci_arena arena;
    tci_json value;
    char *text;
    tc_err err;
    int rc;
} parsed;

/* From a copy without a byte to spare. */
static parsed parse_flags(tc_str text, unsigned flags)
{
    parsed p = {.text = exact_copy(text)};
    tci_arena_init(&p.arena, 0);
    p.value.kind = TCI_JSON_ARRAY;
    p.value.count = 4711; /* to see that failures leave it alone */
    p.rc = tci_json_parse(tci_str_of(p.text, text.len), flags, &p.arena, &p.value, &p.err);
    return p;
}

static parsed parse(tc_str text)
{
    return parse_flags(text, 0);
}

static void done(parsed *p)
{
    tci_arena_done(&p->arena);
    tci_mem_free(p->text);
}

static void check_rc(tc_str text, unsigned flags, int rc)
{
    parsed p = parse_flags(text, flags);
    if (p.rc != rc)
        fail_msg("%.*s: %d, not %d", TC_STR_ARG(text), p.rc, rc);
    if (rc == TC_E_PARSE)
        assert_int_equal(p.value.count, 4711);
    done(&p);
}

static void check_string(const char *text, unsigned flags, tc_str expected)
{
    parsed p = parse_flags(tci_str(text), flags);
    tc_str s;
    assert_int_equal(p.rc, 0);
    assert_true(tci_json_as_str(&p.value, &s));
    assert_bytes(s, expected);
    done(&p);
}

static const char request[] =
    " {\"jsonrpc\": \"2.0\", \"id\":17,\"method\":\"file.read_text\",\t\"params\":{\"path\":"
    "{\"path\":\"/tmp/\\u00e9\\n\"},\"offset\":0,\"list\":[true,false,null,-1.5e3,[],{},\"x\"],"
    "\"t\":\"\xe4\xb8\xad\xf0\x9f\x98\x80\"}}\r\n";

static void a_request_becomes_a_tree(void **state)
{
    TCI_UNUSED(state);
    parsed p = parse(tci_str(request));
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.value.kind, TCI_JSON_OBJECT);
    assert_int_equal(p.value.count, 4);
    assert_text(p.value.u.members[0].key, "jsonrpc"); /* the order written */
    assert_text(p.value.u.members[3].key, "params");
    uint64_t id = 0;
    assert_true(tci_json_as_u64(tci_json_get(&p.value, TC_STR("id")), &id));
    assert_true(id == 17);
    const tci_json *params = tci_json_get(&p.value, TC_STR("params"));
    tc_str s;
    assert_true(
        tci_json_as_str(tci_json_get(tci_json_get(params, TC_STR("path")), TC_STR("path")), &s));
    assert_text(s, "/tmp/\xc3\xa9\n");
    assert_true(tci_json_as_str(tci_json_get(params, TC_STR("t")), &s));
    assert_text(s, "\xe4\xb8\xad\xf0\x9f\x98\x80");
    const tci_json *list = tci_json_get(params, TC_STR("list"));
    static const tci_json_kind kinds[] = {TCI_JSON_TRUE,   TCI_JSON_FALSE, TCI_JSON_NULL,
                                          TCI_JSON_NUMBER, TCI_JSON_ARRAY, TCI_JSON_OBJECT,
                                          TCI_JSON_STRING};
    assert_int_equal(list->count, TCI_ARRAY_LEN(kinds));
    for (size_t i = 0; i < TCI_ARRAY_LEN(kinds); i++)
        assert_int_equal(list->u.items[i].kind, kinds[i]);
    assert_text(list->u.items[3].u.text, "-1.5e3"); /* as written */
    double d = 0;
    assert_true(tci_json_as_double(&list->u.items[3], &d));
    assert_true(d == -1500);
    assert_null(tci_json_get(params, TC_STR("lis")));
    assert_null(tci_json_get(list, TC_STR("x")));
    assert_null(tci_json_get(NULL, TC_STR("x")));
    done(&p);
}

static void strings_without_escapes_point_into_the_input(void **state)
{
    TCI_UNUSED(state);
    parsed p = parse(TC_STR("[\"plain\"]"));
    assert_int_equal(p.rc, 0);
    assert_ptr_equal(p.value.u.items[0].u.text.ptr, p.text + 2);
    done(&p);
}

static void a_request_cut_at_any_byte_is_malformed(void **state)
{
    TCI_UNUSED(state);
    tc_str text = tci_str(request);
    for (size_t n = 0; n < text.len - 2; n++) /* without the line end it is whole */
        check_rc(tci_str_sub(text, 0, n), 0, TC_E_PARSE);
    check_rc(tci_str_sub(text, 0, text.len - 1), 0, 0);
}

/* Any one byte replaced by any other: never a crash or a read out of bounds, and if it parses the
 * strings are UTF-8 (checked by parsing what is emitted). */
static void a_request_with_any_byte_changed_is_judged(void **state)
{
    TCI_UNUSED(state);
    char text[sizeof request];
    for (size_t i = 0; i < sizeof request - 1; i++) {
        for (unsigned c = 0; c < 256; c++) {
            memcpy(text, request, sizeof request);
            text[i] = (char)(unsigned char)c;
            parsed p = parse(tci_str_of(text, sizeof request - 1));
            if (p.rc == 0) {
                tci_buf b;
                tci_buf_init(&b, TCI_BUF_MAX);
                tci_json_put(&b, &p.value, TCI_JSON_AS_IS);
                check_rc(tci_buf_str(&b), 0, 0);
                tci_buf_done(&b);
            } else {
                assert_true(p.rc == TC_E_PARSE || p.rc == TC_E_CONFLICT);
            }
            done(&p);
        }
    }
}

static void single_values(void **state)
{
    TCI_UNUSED(state);
    static const char *const good[] = {
        "null", " true ", "0",         "-0",  "12.50",   "1E+9",     "\"\"",     "[]",
        "{}",   "[1]",    "\t\r\n[ ]", "{ }", "[[],{}]", "1e999999", "\"\x7f\"", "{\"\":0}"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(good); i++)
        check_rc(tci_str(good[i]), 0, 0);
}

static void malformed_texts(void **state)
{
    TCI_UNUSED(state);
    static const char *const bad[] = {"",
                                      " ",
                                      "nul",
                                      "nulL",
                                      "True",
                                      "tru e",
                                      "01",
                                      "-",
                                      "-a",
                                      "+1",
                                      ".5",
                                      "1.",
                                      "1.e5",
                                      "1e",
                                      "1e+",
                                      "0x10",
                                      "NaN",
                                      "Infinity",
                                      "-Infinity",
                                      "1 2",
                                      "[1,]",
                                      "[,1]",
                                      "[1 2]",
                                      "[1",
                                      "]",
                                      "[}",
                                      "{]",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{,}",
                                      "{a:1}",
                                      "{'a':1}",
                                      "{\"a\" 1}",
                                      "{\"a\":1 \"b\":2}",
                                      "{1:2}",
                                      "\"",
                                      "\"\\\"",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\u12g4\"",
                                      "\"\\u\"",
                                      "\"a\nb\"",
                                      "\"\x01\"",
                                      "\"\\\n\"",
                                      "// c\n1",
                                      "/**/1",
                                      "[1]x",
                                      "null,",
                                      "\xef\xbb\xbfnull",
                                      "\xa0null",
                                      "\"\xff\"",
                                      "\"\xc0\xaf\"",
                                      "\"\xed\xa0\x80\"",
                                      "\"\xf4\x90\x80\x80\"",
                                      "\"\xe4\xb8\"",
                                      "\"abcdefghijk\xe4\xb8\"",
                                      "{\"\xff\":1}",
                                      "\xff",
                                      "\"\\ud800\"",
                                      "\"\\udc00\"",
                                      "\"\\ud800\\ud800\"",
                                      "\"\\ud800x\"",
                                      "\"\\ud800\\n\"",
                                      "\"\\ud83d\\u0041\"",
                                      "{\"\\udfff\":1}",
                                      "\v1",
                                      "\f1",
                                      "[1,2",
                                      "{\"a\":[}"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        check_rc(tci_str(bad[i]), 0, TC_E_PARSE);
    check_rc(TC_STR("null\0"), 0, TC_E_PARSE);
    check_rc(TC_STR("\0"), 0, TC_E_PARSE);
    check_rc(TC_STR("\"a\0b\""), 0, TC_E_PARSE);
    check_rc(tci_str_of(NULL, 0), 0, TC_E_PARSE);
}

static void the_message_names_the_byte(void **state)
{
    TCI_UNUSED(state);
    parsed p = parse(TC_STR("{\"a\": tru}"));
    assert_string_equal(p.err.msg, "malformed JSON at byte 6: not a value");
    done(&p);
    p = parse(TC_STR("\"abc\xff\""));
    assert_string_equal(p.err.msg, "malformed JSON at byte 4: not UTF-8");
    done(&p);
}

static void escapes_are_decoded(void **state)
{
    TCI_UNUSED(state);
    check_string("\"\\b\\t\\n\\f\\r\\\"\\\\\\/\"", 0, TC_STR("\b\t\n\f\r\"\\/"));
    check_string("\"\\u0041\\u00e9\\u4E2D\\ud83d\\ude00\"", 0,
                 TC_STR("A\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80"));
    check_string("\"a\\u0000b\"", 0, TC_STR("a\0b"));
    check_string("\"\\udbff\\udfff\\ud7ff\\ue000\"", 0,
                 TC_STR("\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80"));
    check_string("\"a long run of plain text, then\\n another long run of it\\\\\"", 0,
                 TC_STR("a long run of plain text, then\n another long run of it\\"));
}

/* An escape, a quote or a bad byte at each offset of a text longer than the words it is scanned by.
 */
static void what_is_special_is_found_at_every_offset(void **state)
{
    TCI_UNUSED(state);
    char text[48];
    for (size_t at = 1; at < 40; at++) {
        memset(text, 'a', sizeof text);
        text[0] = text[41] = '"';
        tc_str whole = tci_str_of(text, 42);
        text[at] = '\\';
        text[at + 1] = 'n';
        parsed p = parse(whole);
        assert_int_equal(p.rc, 0);
        assert_int_equal(p.value.u.text.len, 39);
        assert_int_equal(p.value.u.text.ptr[at - 1], '\n');
        done(&p);
        text[at + 1] = 'a';
        static const char bad[] = {
            '\0', '\x1f', '\n', '"', (char)(unsigned char)0x80, (char)(unsigned char)0xff};
        for (size_t k = 0; k < sizeof bad; k++) {
            text[at] = bad[k];
            check_rc(whole, 0, TC_E_PARSE);
        }
    }
}

static void lone_surrogates_survive_when_asked_for(void **state)
{
    TCI_UNUSED(state);
    check_string("\"\\ud800\"", TCI_JSON_KEEP_SURROGATES, TC_STR("\xed\xa0\x80"));
    check_string("\"x\\uDFFFy\"", TCI_JSON_KEEP_SURROGATES, TC_STR("x\xed\xbf\xbfy"));
    check_string("\"\\ud800\\ud83d\\ude00\\ude00\"", TCI_JSON_KEEP_SURROGATES,
                 TC_STR("\xed\xa0\x80\xf0\x9f\x98\x80\xed\xb8\x80"));
    check_string("\"\\ud800\\n\"", TCI_JSON_KEEP_SURROGATES, TC_STR("\xed\xa0\x80\n"));
    check_rc(TC_STR("\"\xed\xa0\x80\""), TCI_JSON_KEEP_SURROGATES, TC_E_PARSE); /* raw: not UTF-8 */
    check_rc(TC_STR("\"\\ud800\\u12\""), TCI_JSON_KEEP_SURROGATES, TC_E_PARSE);
}

static tc_str nested(char *text, unsigned depth)
{
    size_t n = 0;
    for (unsigned i = 0; i < depth; i++) {
        bool is_object = i % 2 != 0;
        memcpy(text + n, is_object ? "{\"a\":" : "[", is_object ? 5 : 1);
        n += is_object ? 5 : 1;
    }
    text[n++] = '1';
    for (unsigned i = depth; i > 0; i--)
        text[n++] = i % 2 == 0 ? '}' : ']';
    return tci_str_of(text, n);
}

static void depth_of_127_containers_and_not_one_more(void **state)
{
    TCI_UNUSED(state);
    char text[2000];
    check_rc(nested(text, 127), 0, 0);
    check_rc(nested(text, 128), 0, TC_E_PARSE);
    memset(text, '[', sizeof text);
    check_rc(tci_str_of(text, sizeof text), 0, TC_E_PARSE);
    memset(text, '[', 127);
    memset(text + 127, ']', 127);
    check_rc(tci_str_of(text, 254), 0, 0);
}

static void equal_keys_conflict_with_a_complete_tree(void **state)
{
    TCI_UNUSED(state);
    parsed p = parse(TC_STR("{\"id\":5,\"p\":{\"a\":1,\"b\":2,\"\\u0061\":3},\"q\":[9]}"));
    assert_int_equal(p.rc, TC_E_CONFLICT);
    assert_string_equal(p.err.msg, "repeated key 'a'");
    uint64_t n = 0;
    assert_true(tci_json_as_u64(tci_json_get(&p.value, TC_STR("id")), &n) && n == 5);
    const tci_json *inner = tci_json_get(&p.value, TC_STR("p"));
    assert_int_equal(inner->count, 2);
    assert_true(tci_json_as_u64(tci_json_get(inner, TC_STR("a")), &n) && n == 1);
    assert_true(tci_json_as_u64(tci_json_get(inner, TC_STR("b")), &n) && n == 2);
    assert_int_equal(tci_json_get(&p.value, TC_STR("q"))->count, 1);
    done(&p);
    check_rc(TC_STR("{\"a\":1,\"a\":2"), 0, TC_E_PARSE); /* malformed goes first */
    check_rc(TC_STR("[{\"a\":1},{\"a\":2}]"), 0, 0);
    check_rc(TC_STR("{\"\":1,\"\":2}"), 0, TC_E_CONFLICT);
}

static void the_last_of_equal_keys_wins_when_asked_for(void **state)
{
    TCI_UNUSED(state);
    parsed p = parse_flags(TC_STR("{\"a\":1,\"b\":2,\"a\":{\"c\":3}}"), TCI_JSON_LAST_KEY_WINS);
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.value.count, 2);
    assert_int_equal(tci_json_get(&p.value, TC_STR("a"))->kind, TCI_JSON_OBJECT);
    done(&p);
}

/* n members, all different but for the last when repeats is set. */
static tci_buf object_of(unsigned n, bool repeats)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    for (unsigned i = 0; i < n; i++)
        tci_buf_printf(&b, "%s\"key%u\":%u", i > 0 ? "," : "",
                       repeats && i == n - 1 ? (n - 1) / 2 : i, i);
    tci_buf_append_byte(&b, '}');
    return b;
}

static void equal_keys_are_found_in_objects_of_any_size(void **state)
{
    TCI_UNUSED(state);
    for (unsigned n = 2; n < 300; n += n < 40 ? 1 : 37) {
        tci_buf b = object_of(n, true);
        parsed p = parse(tci_buf_str(&b));
        assert_int_equal(p.rc, TC_E_CONFLICT);
        assert_int_equal(p.value.count, n - 1);
        done(&p);
        p = parse_flags(tci_buf_str(&b), TCI_JSON_LAST_KEY_WINS);
        assert_int_equal(p.rc, 0);
        assert_int_equal(p.value.count, n - 1);
        char key[16];
        int len = snprintf(key, sizeof key, "key%u", (n - 1) / 2);
        uint64_t value = 0;
        assert_true(tci_json_as_u64(tci_json_get(&p.value, tci_str_of(key, (size_t)len)), &value));
        assert_true(value == n - 1);
        done(&p);
        tci_buf_done(&b);
        b = object_of(n, false);
        check_rc(tci_buf_str(&b), 0, 0);
        tci_buf_done(&b);
    }
}

/* Would take minutes if each key were compared with each. */
static void a_hundred_thousand_keys(void **state)
{
    TCI_UNUSED(state);
    tci_buf b = object_of(100000, false);
    parsed p = parse(tci_buf_str(&b));
    assert_int_equal(p.rc, 0);
    assert_int_equal(p.value.count, 100000);
    assert_text(p.value.u.members[99999].key, "key99999");
    done(&p);
    tci_buf_done(&b);
}

static void typed_reads_refuse_what_is_not_exact(void **state)
{
    TCI_UNUSED(state);
    parsed p = parse(TC_STR("[18446744073709551615,-9223372036854775808,1.0,1e2,-1,\"1\",true,"
                            "18446744073709551616,1e999,-0,0.1]"));
    const tci_json *v = p.value.u.items;
    uint64_t u = 3;
    int64_t i = 3;
    double d = 3;
    bool b = false;
    tc_str s;
    assert_true(tci_json_as_u64(&v[0], &u) && u == UINT64_MAX);
    assert_false(tci_json_as_i64(&v[0], &i));
    assert_true(tci_json_as_i64(&v[1], &i) && i == INT64_MIN);
    for (size_t k = 1; k < 10; k++)
        assert_false(tci_json_as_u64(&v[k], &u));
    assert_true(tci_json_as_i64(&v[4], &i) && i == -1);
    assert_false(tci_json_as_i64(&v[2], &i));
    assert_true(tci_json_as_double(&v[2], &d) && d == 1);
    assert_false(tci_json_as_double(&v[5], &d));
    assert_false(tci_json_as_double(&v[8], &d)); /* not finite */
    assert_true(tci_json_as_double(&v[10], &d) && d == 0.1);
    assert_true(tci_json_as_bool(&v[6], &b) && b);
    assert_false(tci_json_as_bool(&v[0], &b));
    assert_true(tci_json_as_str(&v[5], &s));
    assert_false(tci_json_as_str(&v[6], &s));
    assert_false(tci_json_as_u64(NULL, &u) || tci_json_as_i64(NULL, &i) ||
                 tci_json_as_double(NULL, &d) || tci_json_as_str(NULL, &s) ||
                 tci_json_as_bool(NULL, &b));
    done(&p);
}

static void the_arena_s_limit_is_too_big(void **state)
{
    TCI_UNUSED(state);
    tci_buf b = object_of(5000, false);
    tci_arena a;
    tci_json v = {.count = 4711};
    tc_err err;
    tci_arena_init(&a, 50000);
    assert_int_equal(tci_json_parse(tci_buf_str(&b), 0, &a, &v, &err), TC_E_TOO_BIG);
    assert_int_equal(v.count, 4711);
    tci_arena_done(&a);
    tci_arena_init(&a, 250000); /* room for the members, not for the parser's doubling stack */
    assert_int_equal(tci_json_parse(tci_buf_str(&b), 0, &a, &v, &err), TC_E_TOO_BIG);
    tci_arena_done(&a);
    tci_buf_done(&b);
}

static int parse_object(void *arg)
{
    const tci_buf *b = arg;
    tci_arena a;
    tci_json v;
    tc_err err;
    tci_arena_init(&a, 0);
    int rc = tci_json_parse(tci_buf_str(b), 0, &a, &v, &err);
    tci_arena_done(&a);
    return rc;
}

static void every_failing_allocation_is_reported(void **state)
{
    TCI_UNUSED(state);
    tci_buf b = object_of(3000, false);
    b.len--;
    tci_buf_append_str(&b, TC_STR(",\"x\\n\":[[[\"\\u0041\"]],{\"y\":[{}]}]}"));
    assert_true(each_allocation_fails(parse_object, &b) >= 8);
    tci_buf_done(&b);
}

static void a_small_request_needs_one_allocation(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tci_json v;
    tc_err err;
    tci_arena_init(&a, 0);
    tci_mem_fail_at(0);
    assert_int_equal(tci_json_parse(tci_str(request), 0, &a, &v, &err), 0);
    assert_int_equal(tci_mem_count(), 1); /* the arena's first chunk */
    tci_arena_clear(&a);
    assert_int_equal(tci_json_parse(tci_str(request), 0, &a, &v, &err), 0);
    assert_int_equal(tci_mem_count(), 1);
    tci_arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_becomes_a_tree),
        cmocka_unit_test(strings_without_escapes_point_into_the_input),
        cmocka_unit_test(a_request_cut_at_any_byte_is_malformed),
        cmocka_unit_test(a_request_with_any_byte_changed_is_judged),
        cmocka_unit_test(single_values),
        cmocka_unit_test(malformed_texts),
        cmocka_unit_test(the_message_names_the_byte),
        cmocka_unit_test(escapes_are_decoded),
        cmocka_unit_test(what_is_special_is_found_at_every_offset),
        cmocka_unit_test(lone_surrogates_survive_when_asked_for),
        cmocka_unit_test(depth_of_127_containers_and_not_one_more),
        cmocka_unit_test(equal_keys_conflict_with_a_complete_tree),
        cmocka_unit_test(the_last_of_equal_keys_wins_when_asked_for),
        cmocka_unit_test(equal_keys_are_found_in_objects_of_any_size),
        cmocka_unit_test(a_hundred_thousand_keys),
        cmocka_unit_test(typed_reads_refuse_what_is_not_exact),
        cmocka_unit_test(the_arena_s_limit_is_too_big),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(a_small_request_needs_one_allocation),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
