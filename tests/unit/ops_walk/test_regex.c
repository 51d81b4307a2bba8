/* SPDX-License-Identifier: Apache-2.0
 *
 * The dialect: what is taken and what is refused, what a pattern says about the text it needs, and
 * that only lines that match are found. */
#include "walk_help.h"

#include "ops/regex/regex.h"

#include <string.h>

static const char *const taken[] = {
    "a++",
    "a**",
    "a{2}{3}",
    "}",
    "a}",
    "]",
    "[]a]",
    "[^]a]",
    "[a-]",
    "[-a]",
    "[a-z&&[^aeiou]]",
    "[a--b]",
    "[a~~b]",
    "[[:alpha:]]",
    "[[:foo:]]",
    "[:alpha:]",
    "[[:^alpha:]]",
    "[[a]b]",
    "[a[^b]]",
    "(\?P<n>a)",
    "(\?<n>a)",
    "(\?R)",
    "(\?i)ABC",
    "(\?i:ABC)",
    "(\?-i)a",
    "(\?x) a b c ",
    "(\?x)a#c",
    "(\?s).",
    "(\?m)^a",
    "(\?U)a+",
    "(\?u)a",
    "(\?-u)a",
    "(\?-u:\\w)",
    "(\?-u:\\b)",
    "\\v",
    "\\z",
    "\\A",
    "\\a",
    "\\f",
    "\\x41",
    "\\x{41}",
    "\\u0041",
    "\\u{41}",
    "\\U00000041",
    "\\-",
    "\\/",
    "\\ ",
    "\\_",
    "\\<",
    "\\>",
    "\\b{start}",
    "\\b{end}",
    "\\b{start-half}",
    "\\B",
    "\\p{L}",
    "\\pL",
    "\\p{Greek}",
    "\\p{Letter}",
    "\\p{Lowercase_Letter}",
    "\\p{gc=Lu}",
    "\\p{gc:Lu}",
    "\\p{Script=Greek}",
    "\\p{sc=Han}",
    "\\p{scx=Han}",
    "\\p{Han}",
    "\\P{L}",
    "\\p{Alphabetic}",
    "\\p{any}",
    "\\p{Any}",
    "\\p{ascii}",
    "\\p{ASCII}",
    "\\p{assigned}",
    "\\p{LC}",
    "\\pZ",
    "\\p{White_Space}",
    "\\p{Emoji}",
    "\\p{lowercase}",
    "\\p{greek}",
    "\\p{cn}",
    "()",
    "a",
    "b",
    "^*",
    "$+",
    "\\b+",
    "\\b*",
    "(\?i)k",
    "(\?:)",
    "[\\w&&\\d]",
    "[&&a]",
    "[a&&]",
    "[a&&b&&c]",
    "[^a&&b]",
    "[[^a]&&[^b]]",
    "[a-c-e]",
    "[a-a]",
    "[\\x41-\\x43]",
    "[a\\-z]",
    "[.]",
    "[*+\?]",
    "[#]",
    "[{}]",
    "[()]",
    "a{1000}",
    "a{1001}",
    "(a{100}){100}",
    "(\?x)[a b]",
    "(\?x)a\\ b",
    "(\?R)a$",
    "\\n",
    "a\\nb",
    "\\r",
    "\\D\\W\\S",
    "[^\\d\\s]",
    "[[:word:]]",
    "[[:ascii:]]",
    "[a&b]",
    "[a&&&b]",
    "[a-b-]",
    "[--a]",
    "[a---b]",
    "&&",
    "~~",
    "--",
    "\\&",
    "\\~",
    "\\#",
    "\\%",
    "\\@",
    "\\!",
    "\\\"",
    "\\'",
    "\\,",
    "\\:",
    "\\;",
    "\\=",
    "\\`",
    "(\?<a.b>x)",
    "(\?<a[0]>x)",
    "(\?<_>x)",
    "(\?<"
    "\xc3"
    "\xa9"
    ">x)",
    "\\u{1F600}",
    "[\\u{1F600}-\\u{1F64F}]",
    ".{0}",
    "(\?:a){0}",
    "^^",
    "(\?i)[^k]",
    "(\?i)\\x{212a}",
    "(\?i)straSSe",
    "\\s",
    "\\w+$",
    "\\b"
    "\xc3"
    "\xa9"
    "",
    "(\?i:"
    "\xc3"
    "\xa9"
    ")",
    "(\?i)"
    "\xc3"
    "\x89"
    "",
    "a.b",
    "X",
    "x{2,}\?",
    "x\?\?",
    "x*\?",
    "x+\?",
    "x+\?\?",
    "a|b",
    "(a|b)",
    "a||b",
    "(|a)",
    "|a",
    "a|",
    "|",
};

static const char *const refused[] = {
    "a{,3}",
    "a{",
    "a{}",
    "a{x}",
    "a{1",
    "{",
    "{1}",
    "[]",
    "[\\d-z]",
    "[a-\\d]",
    "(\?=a)",
    "(\?!a)",
    "(\?<=a)",
    "(\?<!a)",
    "(\?>a)",
    "(\?<n>a)(\?<n>b)",
    "(\?'n'a)",
    "(\?P=n)",
    "\\1",
    "(a)\\1",
    "\\k<n>",
    "(\?1)",
    "(\?-u:.)",
    "(\?-u:\\xff)",
    "(\?-u:[^a])",
    "(\?#c)a",
    "(*FAIL)",
    "(\?C1)",
    "(\?",
    "a)",
    "\\Q.\\E",
    "\\R",
    "\\X",
    "\\h",
    "\\H",
    "\\V",
    "\\N",
    "\\K",
    "\\G",
    "\\Z",
    "\\C",
    "\\e",
    "\\0",
    "\\07",
    "\\o{7}",
    "\\x4",
    "\\x",
    "\\cA",
    "\\b{foo}",
    "\\p{^L}",
    "\\p{Foo}",
    "\\p{L&}",
    "\\p{Lu",
    "\\p{Xan}",
    "(",
    ")",
    "*a",
    "+",
    "\?",
    "(\?i",
    "(\?q)",
    "(\?i-",
    "(\?-)",
    "(\?)",
    "(\?i-i)",
    "(\?ii)",
    "(\?P<1n>a)",
    "(\?P<n-x>a)",
    "(\?P<>a)",
    "[z-a]",
    "[a",
    "\\",
    "[\\]",
    "[\\b]",
    "[\\B]",
    "[\\A]",
    "[\\p{L}-z]",
    "a{2,1}",
    "\\"
    "\xc3"
    "\xa9"
    "",
    "\\j",
    "\\y",
    "\\i",
    "\\x{110000}",
    "\\x{D800}",
    "\\x{}",
    "\\p{}",
    "\\p",
    "(\?|a)",
    "\\p{Lu|x",
    "x|*",
    "a{65536}",
    "\\p{age=6.0}",
    "\xff",
};

static int compile(const char *pattern, tci_regex **ret)
{
    tc_err err;
    return tci_regex_new(tci_str(pattern), false, false, ret, &err);
}

static void what_is_taken(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(taken); i++) {
        tci_regex *re;
        if (compile(taken[i], &re) != 0)
            fail_msg("'%s' was refused", taken[i]);
        tci_regex_free(re);
    }
}

static void what_is_refused(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(refused); i++) {
        tci_regex *re;
        if (compile(refused[i], &re) != TC_E_INVALID)
            fail_msg("'%s' was taken", refused[i]);
    }
}

typedef struct row {
    const char *pattern, *text;
    int line; /* the first that matches, 1-based; 0: none */
} row;

static const row rows[] = {
    {"a++", "b\naa", 2},
    {"x+\?\?z", "z", 1},
    {"[a-c&&[^b]]$", "b\nc", 2},
    {"[a-z--[aeiou]]", "e\nt", 2},
    {"[a-c~~b-d]$", "b\nc\nd", 3},
    {"[^[a-c]x]", "a\nx\nd", 3},
    {"[[:^alpha:]]", "a\n1", 2},
    {"\\v", "a\n\x0b", 2},
    {"\\h", "a", -1},
    {"(\?x) a b # c", "a b\nab", 2},
    {"(\?x)[a b]c", " c\nbc", 2},
    {"(\?-u:\\w)", "\xc3\xa9\na", 2},
    {"\\w", "-\n\xc3\xa9", 2},
    {"\\d", "a\n\xd9\xa3", 2},
    {"\\s", "a\n\xc2\xa0", 2},
    {"\\b{start}b", "ab\nb", 2},
    {"b\\>", "ba\nb", 2},
    {"\\x{e9}", "\xc3\xa9", 1},
    {"\\P{L}", "a\n1", 2},
    {"\\p{Letter}", "1\na", 2},
    {"\\p{sc=Greek}", "a\n\xce\xb1", 2},
    {"(\?i)\\p{Lu}x", "1x\nax", 2},
    {"(\?s)a.b", "a\nb\naxb", 3},
    {"[\\s\\S]{3}", "a\nb\nabc", 3},
    {"a{2}{2}", "aaa\naaaa", 2},
    {"(\?R)(\?m)a$", "ab\na\r", 2},
    {"\\Qa", "a", -1},
    {"(\?<y>a)(\?P<z>b)", "ab", 1},
    {"a||b", "c", 1},
    {"foo(bar)\?baz", "foobar\nfoobaz", 2},
    {"(\?i:k)elvin", "KELVIN\nKelvin", 2},
    {"fo{0}x", "fox\nfx", 2},
};

static void first_lines(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        tci_regex *re;
        tc_err err;
        size_t at = 0;
        int rc = compile(rows[i].pattern, &re), line = rc == 0 ? 0 : -1;
        if (rc == 0) {
            tci_regex_start(re, tci_str(rows[i].text));
            if (tci_regex_find(re, 0, true, NULL, &at, &err) == 1)
                for (line = 1; at > 0; at--)
                    line += rows[i].text[at - 1] == '\n';
            tci_regex_free(re);
        }
        if (line != rows[i].line)
            fail_msg("'%s' on '%s': line %d", rows[i].pattern, rows[i].text, line);
    }
}

static void facts(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *pattern, *literal;
        bool is_only;
    } known[] = {
        {"needle", "needle", true}, {"needle_x\\d+ of thi", "needle_x", false},
        {"ab*cd", "cd", false},     {"a|b", "", false},
        {"ab{2}c", "ab", false},    {"(ab)+cde", "cde", false},
        {"x+\?\?yz", "yz", false},  {"(\?i)mask_it", "_it", false},
        {"\\.txt$", ".txt", false}, {"a\\nb", "a", false},
        {"ab\?", "a", false},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(known); i++) {
        tci_buf out;
        tci_regex_facts f;
        tc_err err;
        tci_buf_init(&out, TCI_BUF_MAX);
        assert_int_equal(tci_regex_translate(tci_str(known[i].pattern), false, &out, &f, &err), 0);
        if (!tci_str_eq(tci_str_of(f.literal, f.nliteral), tci_str(known[i].literal)))
            fail_msg("'%s' needs '%.*s'", known[i].pattern, (int)f.nliteral, f.literal);
        assert_int_equal(f.is_only_literal, known[i].is_only);
        tci_buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(first_lines),
        cmocka_unit_test(facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
