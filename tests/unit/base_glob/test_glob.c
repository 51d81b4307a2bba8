/* SPDX-License-Identifier: Apache-2.0
 *
 * The grammar of path patterns, form by form. */
#include "base/glob.h"
#include "base/str.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct row {
    const char *pattern, *path;
    bool is_match;
} row;

static const row rows[] = {
    {"*", "a", true},
    {"*", "d/a", true},
    {"**", "d/a", true},
    {"**/*", "d/e/f", true},
    {"*.c", "b.c", true},
    {"*.c", "d/e/f.c", true},
    {"*.c", ".c", true},
    {"*.c", "b.cc", false},
    {"?.c", "b.c", true},
    {"?.c", "bb.c", false},
    {"?.c", "\xc3\xa9.c", true},
    {"/*.c", "b.c", true},
    {"/*.c", "d/b.c", false},
    {"/*", "d/b", false},
    {"/d/*", "d/b.c", true},
    {"/d/*", "d/e/b.c", false},
    {"d/**", "d/e/f.c", true},
    {"d/**", "d", false},
    {"d/**/f.c", "d/f.c", true},
    {"d/**/f.c", "d/x/y/f.c", true},
    {"d/**/f.c", "e/f.c", false},
    {"**/f.c", "f.c", true},
    {"**/d/**", "d", false},
    {"**/d/**", "x/d/a", true},
    {"**/**/a", "a", true},
    {"d/**/**", "d/a", true},
    {"**/", "d/a", true},
    {"/**", "d/a", true},
    {"d/**/", "d/a", false},
    {"d//a", "d/a", false},
    {"d/", "d", false},
    {"//a", "a", false},
    {"./a", "a", false},
    {"x/**/z/**/w", "x/y/z/w", true},
    {"x/**/z/**/w", "x/z/q/r/w", true},
    {"x/**/z/**/w", "x/y/w", false},
    {"*/*", "d/a", true},
    {"*/*", "d/e/a", false},
    {"{a,b.c}", "d/a", true},
    {"{a,b.c}", "b.c", true},
    {"{a,b.c}", "c", false},
    {"{a,d/a}", "x/a", true},
    {"{b,d/a}", "d/a", true},
    {"{b,d/a}", "x/d/a", false},
    {"{a,/b}", "d/b", false},
    {"{a,/b}", "b", true},
    {"/{a,d}", "x/a", false},
    {"{d,x}/**/*.{c,txt}", "x/y/w.txt", true},
    {"{a,b}{c,d}", "bc", true},
    {"a,b", "a,b", true},
    {"[ab]", "a", true},
    {"[ab]", "c", false},
    {"[!ab]", "c", true},
    {"[^ab]", "a", false},
    {"[a-c]", "b", true},
    {"[]]", "]", true},
    {"[!]a]", "]", false},
    {"[!]a]", "b", true},
    {"[a-]", "-", true},
    {"[-a]", "-", true},
    {"[--a]", "0", true},
    {"[a-c-e]", "d", true},
    {"[!-a]", "-", false},
    {"[{]q", "{q", true},
    {"[}]", "}", true},
    {"[[:alpha:]]", "a", false},
    {"[[]b", "[b", true},
    {"[\xc3\xa9]", "\xc3\xa9", true},
    {"[a-\xc3\xbf]", "\xc3\xa9", true},
    {"[!a]", "\xc3\xa9", true},
    {"a*b*c", "aXbYc", true},
    {"a*b*c", "aXbY", false},
    {"*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    {"!a", "!a", true},
    {".*", ".a", true},
    {"*", ".a", true},
    {"a", "A", false},
    {"f*", "d/foo", true},
    {"?", "\xff", true},
    {"x\xff*", "x\xff\xfe", true},
};

static const char *const invalid[] = {
    "",      "/",       "\\a",      "a\\",     "a**b",         "**a",       "a**",   "***",
    "d/**a", "{a}",     "{a,}",     "{,a}",    "{}",           "{a,{b,c}}", "a}",    "{a,b",
    "[",     "[]",      "[!]",      "[^]",     "[ab",          "[b-a]",     "[a--]", "[a/b]",
    "d[/]a", "{a,[,]}", "{[{],a}*", "{a,**b}", "[\xc3\xa9-a]",
};

static int compile(const char *pattern, tci_arena *a, const tci_glob **ret)
{
    tc_err err;
    return tci_glob_compile(tci_str(pattern), a, ret, &err);
}

static void forms(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        tci_arena a;
        const tci_glob *g;
        tci_arena_init(&a, 0);
        assert_int_equal(compile(rows[i].pattern, &a, &g), 0);
        if (tci_glob_matches(g, tci_str(rows[i].path)) != rows[i].is_match)
            fail_msg("'%s' on '%s'", rows[i].pattern, rows[i].path);
        tci_arena_done(&a);
    }
}

static void invalid_forms(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(invalid); i++) {
        tci_arena a;
        const tci_glob *g;
        tci_arena_init(&a, 0);
        if (compile(invalid[i], &a, &g) != TC_E_INVALID)
            fail_msg("'%s' was taken", invalid[i]);
        tci_arena_done(&a);
    }
}

static void limits(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    const tci_glob *g;
    tci_arena_init(&a, 0);
    assert_int_equal(compile("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", &a, &g), 0);
    assert_true(tci_glob_matches(g, TC_STR("abababab")));
    assert_false(tci_glob_matches(g, TC_STR("abababac")));
    assert_int_equal(compile("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", &a, &g),
                     TC_E_INVALID);
    char *text = malloc(TCI_GLOB_MAX_BYTES + 2);
    assert_non_null(text);
    memset(text, 'a', TCI_GLOB_MAX_BYTES + 1);
    text[TCI_GLOB_MAX_BYTES + 1] = '\0';
    assert_int_equal(compile(text, &a, &g), TC_E_INVALID);
    text[TCI_GLOB_MAX_BYTES] = '\0';
    assert_int_equal(compile(text, &a, &g), 0);
    /* Stars upon stars over a long path come to an end. */
    for (size_t i = 0; i < TCI_GLOB_MAX_BYTES; i++)
        text[i] = i % 2 == 0 ? '*' : 'a';
    assert_int_equal(compile(text, &a, &g), 0);
    char path[4000];
    memset(path, 'a', sizeof path);
    assert_false(tci_glob_matches(g, tci_str_of(path, sizeof path)));
    free(text);
    tci_arena_done(&a);
}

static void any(void **state)
{
    TCI_UNUSED(state);
    static const char *const all[] = {"*", "**", "**/*", "**/", "/**", "{*,a}"};
    static const char *const some[] = {"/*", "*/*", "*.c", "d/**"};
    tci_arena a;
    const tci_glob *g;
    tci_arena_init(&a, 0);
    for (size_t i = 0; i < TCI_ARRAY_LEN(all); i++) {
        assert_int_equal(compile(all[i], &a, &g), 0);
        assert_true(tci_glob_is_any(g));
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(some); i++) {
        assert_int_equal(compile(some[i], &a, &g), 0);
        assert_false(tci_glob_is_any(g));
    }
    tci_arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(invalid_forms),
        cmocka_unit_test(limits),
        cmocka_unit_test(any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
