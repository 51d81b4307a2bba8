/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of tools that only work on text: what is kept of output, schemas, patterns, edits, and
 * ranking. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "harness/calls/output.h"
#include "harness/calls/search.h"
#include "harness/tools/edit_match.h"
#include "harness/tools/text_view.h"
#include "harness/schema/unicode.h"
#include "harness/schema/validate.h"
#include "harness/schema/validate_pattern.h"
#include <stdio.h>
#include <string.h>

static tc_err err;

#define assert_ok(expr)                         \
    do {                                        \
        if ((expr) != 0)                        \
            fail_msg("%s: %s", #expr, err.msg); \
    } while (0)
#define assert_text(s, cstr)                                                \
    do {                                                                    \
        tc_str assert_s = (s);                                              \
        if (!tci_str_eq(assert_s, tci_str(cstr)))                           \
            fail_msg("'%.*s' instead of '%s'", TC_STR_ARG(assert_s), cstr); \
    } while (0)

/* ---- output ---- */

static void push(tci_output *o, tc_str bytes, const tc_skipped *skipped)
{
    bool accepted;
    assert_ok(tci_output_push(o, bytes, skipped, &accepted, &err));
}

static void check_output(tci_output *o, const char *text, uint64_t bytes, uint64_t lines)
{
    tci_output_view v;
    tci_output_look(o, &v);
    assert_text(v.text, text);
    assert_int_equal(v.dropped_bytes, bytes);
    assert_int_equal(v.dropped_lines, lines);
}

static void head_keeps_first_lines(void **state)
{
    tci_output o;
    tci_output_limits limits = {.max_bytes = 10, .max_lines = 2, .retain = TC_RETAIN_HEAD};
    (void)state;
    tci_output_init(&o, &limits);
    push(&o, TC_STR("ab\n"), NULL);
    check_output(&o, "ab\n", 0, 0);
    push(&o, TC_STR("cd\nef\ngh"), NULL);
    check_output(&o, "ab\ncd\n", 5, 2);
    tci_output_done(&o);
    limits.max_lines = 100;
    tci_output_init(&o, &limits);
    push(&o, TC_STR("ab\n1234567890"), NULL);
    check_output(&o, "ab\n", 10, 1);
    tci_output_done(&o);
}

static void tail_keeps_last_lines(void **state)
{
    tci_output o;
    tci_output_limits limits = {.max_bytes = 10, .max_lines = 2, .retain = TC_RETAIN_TAIL};
    (void)state;
    tci_output_init(&o, &limits);
    push(&o, TC_STR("a\nb\nc\nd\n"), NULL);
    check_output(&o, "c\nd\n", 4, 2);
    push(&o, TC_STR("0123456789abcdef"), NULL); /* one line that is too long alone */
    check_output(&o, "6789abcdef", 14, 4);
    tci_output_done(&o);
    tci_output_init(&o, &limits);
    tc_skipped skipped = {.nbytes = 1000, .nnewlines = 20, .ends_with_newline = true};
    push(&o, TC_STR("x\n"), &skipped);
    check_output(&o, "x\n", 1000, 20);
    tci_output_done(&o);
}

/* A window over a long stream is what it would be over the whole of it, at whatever borders it came. */
static void tail_equals_whole(void **state)
{
    tci_output_limits limits = {.max_bytes = 100, .max_lines = 7, .retain = TC_RETAIN_TAIL};
    tci_buf whole;
    tci_output o;
    uint32_t seed = 7;
    (void)state;
    tci_buf_init(&whole, TCI_BUF_MAX);
    tci_output_init(&o, &limits);
    for (int i = 0; i < 3000; i++) {
        char piece[64];
        seed = seed * 1664525 + 1013904223;
        int n = snprintf(piece, sizeof piece, "%.*s%s%s", (int)(seed >> 28), "0123456789abcdef",
                         (seed >> 9) % 3 == 0 ? "\xC3\xA9" : "", (seed >> 13) % 4 == 0 ? "\n" : "");
        push(&o, tci_str_of(piece, (size_t)n), NULL);
        tci_buf_append(&whole, piece, (size_t)n);
        tci_output_slice s;
        tci_output_view v;
        tci_output_bound(tci_buf_str(&whole), &limits, &s);
        tci_output_look(&o, &v);
        assert_true(tci_str_eq(v.text, tci_str_sub(tci_buf_str(&whole), s.start, s.end - s.start)));
        assert_int_equal(v.at, s.start);
        assert_int_equal(v.dropped_bytes, s.dropped_bytes);
        assert_int_equal(v.dropped_lines, s.dropped_lines);
    }
    assert_true(o.kept.len < 5000);
    tci_output_done(&o);
    tci_buf_done(&whole);
}

static void output_is_decoded_across_pieces_case_22(void **state)
{
    tci_output o;
    tci_output_limits limits = {.max_bytes = 100, .max_lines = 9, .retain = TC_RETAIN_TAIL};
    (void)state;
    tci_output_init(&o, &limits);
    push(&o, TC_STR("\xEF\xBB"), NULL); /* the mark at the start goes */
    push(&o,
         TC_STR("\xBF"
                "a\xF0\x9F"),
         NULL);
    check_output(&o, "a", 0, 0);
    push(&o, TC_STR("\x98\x80"), NULL);
    check_output(&o, "a\xF0\x9F\x98\x80", 0, 0);
    push(&o, TC_STR("\xE2\x82"), NULL);
    tci_output_end(&o);
    check_output(&o, "a\xF0\x9F\x98\x80\xEF\xBF\xBD", 0, 0);
    tci_output_done(&o);
}

static void cut_output_is_whole_characters_case_20_21(void **state)
{
    tci_output_limits limits = {.max_bytes = 25000, .max_lines = 9, .retain = TC_RETAIN_HEAD};
    tci_output_slice s;
    tci_buf b;
    (void)state;
    tci_buf_init(&b, TCI_BUF_MAX);
    for (int i = 0; i < 40000; i++)
        tci_buf_append_str(&b, TC_STR("\xE2\x82\xAC"));
    tci_output_bound(tci_buf_str(&b), &limits, &s);
    assert_int_equal(s.end, 24999);
    assert_int_equal(s.dropped_bytes, 120000 - 24999);
    limits = (tci_output_limits){8000, 9, TC_RETAIN_TAIL};
    tci_output_bound(tci_buf_str(&b), &limits, &s);
    assert_int_equal(s.start, 120000 - 7998);
    tci_buf_done(&b);
}

static void controls_are_not_shown(void **state)
{
    tci_buf b;
    (void)state;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_output_clean(&b, TC_STR("a\tb\r\nc\x1b[31m\x07\xEF\xBF\xB9z\xEF\xBF\xBD"));
    assert_text(tci_buf_str(&b), "a\tb\nc[31mz\xEF\xBF\xBD");
    tci_buf_done(&b);
}

static void sizes_and_heads(void **state)
{
    tci_buf b;
    tci_head h;
    (void)state;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_put_size(&b, 1023);
    tci_buf_append_byte(&b, ' ');
    tci_put_size(&b, 51200);
    tci_buf_append_byte(&b, ' ');
    tci_put_size(&b, 2048 * 1024 - 1);
    tci_buf_append_byte(&b, ' ');
    tci_put_size(&b, 1536 * 1024);
    assert_text(tci_buf_str(&b), "1023B 50.0KB 2.0MB 1.5MB");
    tci_buf_done(&b);
    tci_head_of(TC_STR("a\nb\n"), 2, 4, &h);
    assert_false(h.is_truncated);
    assert_int_equal(h.len, 4);
    tci_buf_init(&b, TCI_BUF_MAX);
    for (int i = 0; i < 3000; i++)
        tci_buf_append_str(&b, TC_STR("line\n"));
    tci_head_of(tci_buf_str(&b), 3000, b.len, &h);
    assert_true(h.is_truncated && !h.is_by_bytes);
    assert_int_equal(h.nlines, 2000);
    assert_int_equal(h.len, 2000 * 5 - 1);
    tci_buf_done(&b);
}

/* ---- schemas ---- */

static tci_arena arena;

static int set_up(void **state)
{
    (void)state;
    tci_arena_init(&arena, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tci_arena_done(&arena);
    return 0;
}

static bool validate(const char *schema, const char *arguments, tc_str *ret)
{
    tci_json v;
    bool is_valid;
    assert_ok(tci_json_parse(tci_str(arguments), TCI_JSON_KEEP_SURROGATES, &arena, &v, &err));
    assert_ok(
        tci_validate_arguments(TC_STR("work"), tci_str(schema), &v, &arena, &is_valid, ret, &err));
    return is_valid;
}

static void assert_becomes(const char *schema, const char *arguments, const char *expected)
{
    tc_str text;
    if (!validate(schema, arguments, &text))
        fail_msg("refused: %.*s", TC_STR_ARG(text));
    assert_text(text, expected);
}

static void arguments_are_repaired(void **state)
{
    (void)state;
    assert_becomes("{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"number\"}}}",
                   "{\"n\":\" 5.50 \"}", "{\"n\":5.50}");
    assert_becomes("{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}",
                   "{\"n\":true}", "{\"n\":1}");
    assert_becomes("{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"boolean\"},"
                   "\"s\":{\"type\":\"string\"},\"z\":{\"type\":\"null\"}}}",
                   "{\"b\":\"true\",\"s\":1.0,\"z\":\"\"}", "{\"b\":true,\"s\":\"1\",\"z\":null}");
    assert_becomes("{\"type\":\"object\",\"properties\":{\"o\":{\"type\":\"string\"},"
                   "\"k\":{\"type\":[\"string\",\"null\"]}}}",
                   "{\"o\":null,\"k\":null}", "{\"k\":null}");
    assert_becomes("{\"type\":\"object\",\"properties\":{\"u\":{\"anyOf\":[{\"type\":\"object\"},"
                   "{\"type\":\"integer\"}]}}}",
                   "{\"u\":\"7\"}", "{\"u\":7}");
    assert_becomes("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":"
                   "{\"type\":\"number\"}}}}",
                   "{\"a\":[\"1\",2,\"3\"]}", "{\"a\":[1,2,3]}");
    assert_becomes("", "{\"any\":[1]}", "{\"any\":[1]}");
}

static void numbers_keep_their_digits_case_84(void **state)
{
    (void)state;
    assert_becomes(
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},"
        "\"b\":{\"type\":\"number\"},\"c\":{\"type\":\"number\"},\"d\":{\"type\":\"number\"}}}",
        "{\"a\":9007199254740993,\"b\":-0,\"c\":1e400,\"d\":0.10000000000000000555}",
        "{\"a\":9007199254740993,\"b\":-0,\"c\":1e400,\"d\":0.10000000000000000555}");
}

static void refusals_say_where_and_what(void **state)
{
    tc_str text;
    (void)state;
    assert_false(
        validate("{\"type\":\"object\",\"properties\":{\"edits\":{\"type\":\"array\",\"items\":"
                 "{\"type\":\"object\",\"required\":[\"oldText\"],\"properties\":{\"oldText\":"
                 "{\"type\":\"string\"}}}},\"n\":{\"type\":\"integer\",\"minimum\":3}},"
                 "\"required\":[\"path\"],\"additionalProperties\":false}",
                 "{\"edits\":[{\"x\":1}],\"n\":2,\"more\":[]}", &text));
    assert_text(text,
                "Validation failed for tool \"work\":\n"
                "  - path: Expected required property\n"
                "  - edits.0.oldText: Expected required property\n"
                "  - n: Expected number to be greater or equal to 3\n"
                "  - more: Expected not to have additional properties\n"
                "\nReceived arguments:\n{\n  \"edits\": [\n    {\n      \"x\": 1\n    }\n  ],\n"
                "  \"n\": 2,\n  \"more\": []\n}");
    assert_false(validate("{\"type\":\"object\"}", "[1]", &text));
    assert_false(
        validate("{\"type\":\"object\",\"properties\":{\"s\":{\"type\":\"string\",\"pattern\":"
                 "\"^[a-z]+$\",\"maxLength\":3},\"e\":{\"enum\":[\"a\",1]},\"u\":{\"uniqueItems\":"
                 "true}}}",
                 "{\"s\":\"AB12\",\"e\":2,\"u\":[0,0.0]}", &text));
    assert_non_null(strstr(text.ptr, "s: Expected string to have a maximum length of 3"));
    assert_non_null(strstr(text.ptr, "s: Expected string to match '^[a-z]+$'"));
    assert_non_null(strstr(text.ptr, "e: Expected one of \"a\", 1"));
    assert_non_null(strstr(text.ptr, "u: Expected array items to be unique"));
}

static void structured_output_is_checked(void **state)
{
    tci_json v;
    tc_str problem;
    const char *schema =
        "{\"$defs\":{\"n\":{\"type\":\"integer\"}},\"type\":\"object\",\"properties\":"
        "{\"a\":{\"$ref\":\"#/$defs/n\"}},\"not\":{\"required\":[\"bad\"]}}";
    (void)state;
    assert_ok(tci_json_parse(TC_STR("{\"a\":\"x\"}"), 0, &arena, &v, &err));
    assert_ok(tci_validate_output(TC_STR("t"), tci_str(schema), &v, false, &arena, &problem, &err));
    assert_text(
        problem,
        "Tool t returned structuredOutput that does not match its schema: a: Expected integer");
    assert_ok(tci_json_parse(TC_STR("{\"bad\":1}"), 0, &arena, &v, &err));
    assert_ok(tci_validate_output(TC_STR("t"), tci_str(schema), &v, false, &arena, &problem, &err));
    assert_true(problem.len > 0);
    assert_ok(
        tci_validate_output(TC_STR("t"), tci_str(schema), NULL, true, &arena, &problem, &err));
    assert_int_equal(problem.len, 0);
    assert_ok(
        tci_validate_output(TC_STR("t"), tci_str(schema), NULL, false, &arena, &problem, &err));
    assert_text(problem, "Tool t returned no structuredOutput");
    assert_ok(tci_validate_output(TC_STR("t"), TC_STR(""), &v, false, &arena, &problem, &err));
    assert_text(problem, "Tool t returned structuredOutput but declares no structuredOutputSchema");
    /* It comes to an end, though the schema does not. */
    schema = "{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"},{\"not\":{\"$ref\":\"#\"}}]}";
    assert_ok(tci_validate_output(TC_STR("t"), tci_str(schema), &v, false, &arena, &problem, &err));
    assert_non_null(strstr(problem.ptr, "asks for too much"));
}

/* ---- patterns ---- */

static void find(const char *pattern, const char *text, const char *expected)
{
    const tci_pattern *p;
    bool is_found;
    size_t start = 0, end = 0;
    if (tci_pattern_compile(tci_str(pattern), false, &arena, &p, &err) < 0)
        fail_msg("%s: %s", pattern, err.msg);
    assert_ok(tci_pattern_find(p, tci_str(text), &is_found, &start, &end, &err));
    if (is_found != (expected != NULL))
        fail_msg("%s in %s: %d", pattern, text, is_found);
    if (expected != NULL)
        assert_text(tci_str_sub(tci_str(text), start, end - start), expected);
}

static void patterns_find_the_leftmost(void **state)
{
    (void)state;
    find("abc", "xxabcx", "abc");
    find("a|ab|abc", "zabcd", "abc");
    find("^a.c$",
         "a\xC3\xA9"
         "c",
         "a\xC3\xA9"
         "c");
    find("[^a-c\\d]+", "abc123xyz9", "xyz");
    find("(foo|ba+r){2,3}", "_foobaarfoo_", "foobaarfoo");
    find("\\bword\\b", "swords word.", "word");
    find("\\w+@\\w+\\.(com|org)", "mail me@host.org now", "me@host.org");
    find("a{0}b", "ab", "b");
    find("(a*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", NULL);
    find("\\u0041\\x42", "xAB", "AB");
    find("x*", "aaa", "");
    find("(?:ab)?c", "abc", "abc");
    find("[\\]x-]+", "a-]x", "-]x");
    find("", "abc", "");
    find("a{2,}", "aXaaa", "aaa");
    const tci_pattern *p;
    assert_int_equal(tci_pattern_compile(TC_STR("(?=a)b"), false, &arena, &p, &err),
                     TC_E_UNSUPPORTED);
    assert_int_equal(tci_pattern_compile(TC_STR("(a)\\1"), false, &arena, &p, &err),
                     TC_E_UNSUPPORTED);
    assert_int_equal(tci_pattern_compile(TC_STR("(a"), false, &arena, &p, &err), TC_E_INVALID);
    assert_int_equal(tci_pattern_compile(TC_STR("a**"), false, &arena, &p, &err), TC_E_INVALID);
    assert_int_equal(tci_pattern_compile(TC_STR("[b-a]"), false, &arena, &p, &err), TC_E_INVALID);
}

/* ---- edits ---- */

typedef struct edits {
    tci_edit items[4];
    size_t n;
} edits;

static tc_str edit(const char *bytes, size_t len, const edits *e, tc_str *ret_refusal)
{
    tci_splice *splices;
    size_t n;
    tci_buf b;
    tc_str out;
    tc_str source = tci_str_of(bytes, len);
    assert_ok(tci_edit_match(source, e->items, e->n, TC_STR("f"), &arena, &splices, &n, ret_refusal,
                             &err));
    if (ret_refusal->len > 0)
        return (tc_str){0};
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_edit_apply(&b, source, splices, n);
    assert_ok(tci_arena_dup(&arena, tci_buf_str(&b), &out, &err));
    tci_buf_done(&b);
    return out;
}

static void assert_edit(const char *before, const char *old, const char *new, const char *after)
{
    tc_str refusal;
    edits e = {{{tci_str(old), tci_str(new)}}, 1};
    tc_str out = edit(before, strlen(before), &e, &refusal);
    if (refusal.len > 0)
        fail_msg("%.*s", TC_STR_ARG(refusal));
    assert_text(out, after);
}

static void edits_change_only_what_they_replace_case_28(void **state)
{
    (void)state;
    assert_edit("\xEF\xBB\xBFone\r\ntwo\r\nthree\r\n", "two\nthree", "2\n2b\nthree",
                "\xEF\xBB\xBFone\r\n2\r\n2b\r\nthree\r\n");
    /* mixed line ends and bad bytes stay */
    assert_edit("a\r\nb\nc\xFF\xFE\r\nd\n", "b", "B", "a\r\nB\nc\xFF\xFE\r\nd\n");
    assert_edit("a\nb\r\nc\n", "b\nc", "b\nx\nc", "a\nb\r\nx\nc\n");
    assert_edit("\xEF\xBB\xBFx", "x", "y", "\xEF\xBB\xBFy");
    assert_edit("a\rb\r", "b", "c\nd", "a\rc\rd\r");
    assert_edit("no end", "end", "end\n", "no end\n");
    assert_edit("x\xC3\xA9y", "\xC3\xA9", "\xC3\xA8", "x\xC3\xA8y");
}

static void edits_match_loosely_and_touch_only_the_match(void **state)
{
    (void)state;
    /* curly quotes, dashes, odd spaces, blanks at ends of lines */
    assert_edit("keep \xE2\x80\x98this\xE2\x80\x99  \nsay \xE2\x80\x9Chi\xE2\x80\x9D \xE2\x80\x94 "
                "now\t\nend\xC2\xA0x\n",
                "say \"hi\" - now\nend x", "say bye\nend",
                "keep \xE2\x80\x98this\xE2\x80\x99  \nsay bye\nend\n");
    assert_edit("a  \nb\t\n", "a\nb", "c\nd", "c\nd\t\n");
    assert_edit("a  \nb\n", "a\t\nb", "c", "c\n");
    /* part of a ligature */
    assert_edit("\xEF\xAC\x81ne\n", "ine", "ile", "file\n");
    /* composed and decomposed */
    assert_edit("caf\x65\xCC\x81 \n", "caf\xC3\xA9", "tea", "tea \n");
}

static void assert_refused(const char *before, const edits *e, const char *words)
{
    tc_str refusal;
    (void)edit(before, strlen(before), e, &refusal);
    if (refusal.len == 0 || strstr(refusal.ptr, words) == NULL)
        fail_msg("'%.*s' has no '%s'", TC_STR_ARG(refusal), words);
}

static void edits_are_refused_with_reasons(void **state)
{
    (void)state;
    edits one = {{{TC_STR("zz"), TC_STR("y")}}, 1};
    assert_refused(
        "abc", &one,
        "Could not find the exact text in f. The old text must match exactly including all "
        "whitespace and newlines.");
    one.items[0] = (tci_edit){TC_STR("a"), TC_STR("b")};
    assert_refused("a a", &one, "Found 2 occurrences of the text in f. The text must be unique.");
    one.items[0] = (tci_edit){TC_STR("'x'"), TC_STR("y")};
    assert_refused("say 'x' and \xE2\x80\x98x\xE2\x80\x99", &one, "Found 2 occurrences");
    one.items[0] = (tci_edit){TC_STR(""), TC_STR("b")};
    assert_refused("a", &one, "oldText must not be empty in f.");
    one.items[0] = (tci_edit){TC_STR("b"), TC_STR("b")};
    assert_refused("abc", &one,
                   "No changes made to f. The replacement produced identical content.");
    edits two = {{{TC_STR("abc"), TC_STR("x")}, {TC_STR("cde"), TC_STR("y")}}, 2};
    assert_refused("abcde", &two, "edits[0] and edits[1] overlap in f.");
    two.items[1].old_text = TC_STR("nope");
    assert_refused("abcde", &two, "Could not find edits[1] in f.");
    tc_str refusal;
    two.items[1].old_text = TC_STR("de"); /* touching is fine, and order does not matter */
    assert_text(edit("abcde", 5, &two, &refusal), "xy");
}

static void changes_are_told_line_by_line(void **state)
{
    const char *before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16";
    edits e = {{{TC_STR("2\n3"), TC_STR("2\nzwei\n3")}, {TC_STR("16"), TC_STR("sixteen")}}, 2};
    tci_splice *splices;
    size_t n;
    tc_str refusal;
    tci_buf after, diff, patch;
    uint64_t first;
    (void)state;
    tci_buf_init(&after, TCI_BUF_MAX);
    tci_buf_init(&diff, TCI_BUF_MAX);
    tci_buf_init(&patch, TCI_BUF_MAX);
    assert_ok(tci_edit_match(tci_str(before), e.items, e.n, TC_STR("f"), &arena, &splices, &n,
                             &refusal, &err));
    tci_edit_apply(&after, tci_str(before), splices, n);
    assert_ok(tci_edit_diff(tci_str(before), tci_buf_str(&after), splices, n, TC_STR("f"), &diff,
                            &patch, &first, &err));
    assert_int_equal(first, 3);
    assert_text(tci_buf_str(&diff),
                "  1 1\n  2 2\n+ 3 zwei\n  3 3\n  4 4\n  5 5\n  6 6\n    ...\n 12 12\n 13 13\n"
                " 14 14\n 15 15\n-16 16\n+17 sixteen");
    assert_text(
        tci_buf_str(&patch),
        "--- f\n+++ f\n@@ -1,6 +1,7 @@\n 1\n 2\n+zwei\n 3\n 4\n 5\n 6\n@@ -12,5 +13,5 @@\n 12\n "
        "13\n"
        " 14\n 15\n-16\n\\ No newline at end of file\n+sixteen\n\\ No newline at end of file\n");
    tci_buf_done(&after);
    tci_buf_done(&diff);
    tci_buf_done(&patch);
}

/* A text put behind it is a change of that line, not a line of its own. */
static void a_last_line_without_end_is_told_as_changed(void **state)
{
    const char *before = "a\nb", *after = "a\nb c";
    tci_splice splice = {3, 3, TC_STR(" c")};
    tci_buf diff, patch;
    uint64_t first;
    (void)state;
    tci_buf_init(&diff, TCI_BUF_MAX);
    tci_buf_init(&patch, TCI_BUF_MAX);
    assert_ok(tci_edit_diff(tci_str(before), tci_str(after), &splice, 1, TC_STR("f"), &diff, &patch,
                            &first, &err));
    assert_int_equal(first, 2);
    assert_text(tci_buf_str(&diff), " 1 a\n-2 b\n+2 b c");
    assert_text(tci_buf_str(&patch),
                "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b c\n"
                "\\ No newline at end of file\n");
    tci_buf_done(&diff);
    tci_buf_done(&patch);
}

static void normal_forms(void **state)
{
    uint32_t out[TCI_SEGMENT_MAX];
    uint32_t hangul[] = {0x1112, 0x1161, 0x11AB};
    tci_buf b;
    (void)state;
    assert_int_equal(tci_compose_segment(hangul, 3, out, TCI_SEGMENT_MAX), 1);
    assert_int_equal(out[0], 0xD55C);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_put_nfd(&b, TC_STR("\xC3\xA9\xED\x95\x9C"));
    assert_text(tci_buf_str(&b), "e\xCC\x81\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB");
    tci_buf_done(&b);
}

/* ---- ranking ---- */

static void tools_are_ranked_by_words(void **state)
{
    static const tc_str texts[] = {
        {"list_issues list issues List the issues of a repository", 55},
        {"createPullRequest Create a pull request", 39},
        {"http_get http get Fetch an HTTPResponse from addresses", 54},
    };
    size_t *found, n;
    (void)state;
    assert_ok(tci_search_rank(TC_STR("issue"), texts, 3, 8, &arena, &found, &n, &err));
    assert_int_equal(n, 1);
    assert_int_equal(found[0], 0);
    assert_ok(tci_search_rank(TC_STR("pull requests"), texts, 3, 8, &arena, &found, &n, &err));
    assert_int_equal(n, 1);
    assert_int_equal(found[0], 1);
    assert_ok(tci_search_rank(TC_STR("response address"), texts, 3, 8, &arena, &found, &n, &err));
    assert_int_equal(n, 1);
    assert_int_equal(found[0], 2);
    assert_ok(tci_search_rank(TC_STR("the of and"), texts, 3, 8, &arena, &found, &n, &err));
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_keeps_first_lines),
        cmocka_unit_test(tail_keeps_last_lines),
        cmocka_unit_test(tail_equals_whole),
        cmocka_unit_test(output_is_decoded_across_pieces_case_22),
        cmocka_unit_test(cut_output_is_whole_characters_case_20_21),
        cmocka_unit_test(controls_are_not_shown),
        cmocka_unit_test(sizes_and_heads),
        cmocka_unit_test_setup_teardown(arguments_are_repaired, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_keep_their_digits_case_84, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refusals_say_where_and_what, set_up, tear_down),
        cmocka_unit_test_setup_teardown(structured_output_is_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(patterns_find_the_leftmost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(edits_change_only_what_they_replace_case_28, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(edits_match_loosely_and_touch_only_the_match, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(edits_are_refused_with_reasons, set_up, tear_down),
        cmocka_unit_test_setup_teardown(changes_are_told_line_by_line, set_up, tear_down),
        cmocka_unit_test(a_last_line_without_end_is_told_as_changed),
        cmocka_unit_test(normal_forms),
        cmocka_unit_test_setup_teardown(tools_are_ranked_by_words, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
