/* SPDX-License-Identifier: Apache-2.0
 *
 * One ignore file: lines, escapes, stars, classes. Agreement with git over whole trees is tested
 * with the walker. */
#include "base/ignore.h"
#include "base/str.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct row {
    const char *text, *path; /* a path that ends with '/' is a directory */
    tci_ignore_verdict verdict;
} row;

#define NONE TCI_IGNORE_NONE
#define IN TCI_IGNORE_INCLUDED
#define OUT TCI_IGNORE_EXCLUDED

static const row rows[] = {
    {"*.o\n!keep.o\n", "a/b.o", OUT},
    {"*.o\n!keep.o\n", "a/keep.o", IN},
    {"*.o", "a.c", NONE},
    {"build/", "build/", OUT},
    {"build/", "build", NONE},
    {"build/", "a/build/", OUT},
    {"/build", "a/build", NONE},
    {"/build", "build", OUT},
    {"a/b", "a/b", OUT},
    {"a/b", "x/a/b", NONE},
    {"a/*/b", "a/x/b", OUT},
    {"a/*/b", "a/x/y/b", NONE},
    {"a/**/b", "a/b", OUT},
    {"a/**/b", "a/x/y/b", OUT},
    {"**/b", "x/y/b", OUT},
    {"**/b/c", "b/c", OUT},
    {"a/**", "a/x/y", OUT},
    {"a/**", "a/", NONE},
    {"a**/b", "axx/b", OUT},
    {"a**/b", "ax/y/b", OUT},
    {"x/a*b", "x/a/b", NONE},
    {"?", "\xc3", OUT},
    {"?", "\xc3\xa9", NONE},
    {"[a-c]x", "bx", OUT},
    {"[!a-c]x", "bx", NONE},
    {"[]x]", "]", OUT},
    {"[[:digit:]]", "7", OUT},
    {"[[:digit:]]", "d", NONE},
    {"[\\]]", "]", OUT},
    {"a/[^x]b", "a/yb", OUT},
    {"a[/]b", "a/b", NONE},
    {"\\#a", "#a", OUT},
    {"#a", "#a", NONE},
    {"\\!a", "!a", OUT},
    {"a ", "a", OUT},
    {"a\\ ", "a ", OUT},
    {"a\\  ", "a ", OUT},
    {"a\t", "a\t", OUT},
    {"a\r\nb", "a", OUT},
    {"\xef\xbb\xbf"
     "a\n",
     "a", OUT},
    {"\\*", "*", OUT},
    {"\\*", "x", NONE},
    {"a\\", "a", NONE},
    {"!", "a", NONE},
    {"/", "a/", NONE},
    {"a\n!a\na", "a", OUT},
    {"", "a", NONE},
    {"**", "a/b", OUT},
    {"*", "a/b", OUT},
    {"foo", "foo/bar", NONE},
    {"a//b", "a/b", NONE},
};

static void lines(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        tci_arena a;
        tc_err err;
        const tci_ignore *ign;
        tci_arena_init(&a, 0);
        assert_int_equal(tci_ignore_parse(tci_str(rows[i].text), &a, NULL, NULL, &ign, &err), 0);
        tc_str path = tci_str(rows[i].path);
        bool is_directory = tci_str_ends(path, TC_STR("/"));
        path.len -= is_directory;
        if (tci_ignore_match(ign, path, is_directory) != rows[i].verdict)
            fail_msg("'%s' on '%s'", rows[i].text, rows[i].path);
        tci_arena_done(&a);
    }
}

static void count_line(void *ctx, size_t line_number, tc_str line)
{
    size_t *sum = ctx;
    TCI_UNUSED(line);
    *sum = *sum * 10 + line_number;
}

static void lines_that_cannot_match_are_told(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tc_err err;
    const tci_ignore *ign;
    size_t sum = 0;
    tci_arena_init(&a, 0);
    assert_int_equal(tci_ignore_parse(TC_STR("bad[\nok\n\\\n# c\n[[:nope:]]\n"), &a, count_line,
                                      &sum, &ign, &err),
                     0);
    assert_int_equal(sum, 135);
    assert_int_equal(tci_ignore_match(ign, TC_STR("ok"), false), OUT);
    tci_arena_done(&a);
}

static void stars_do_not_explode(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tc_err err;
    const tci_ignore *ign;
    tci_arena_init(&a, 0);
    assert_int_equal(tci_ignore_parse(TC_STR("**/*a*a*a*a*a*a*a*a/**/*a*a*a*a*a*a*a*a/**/b"), &a,
                                      NULL, NULL, &ign, &err),
                     0);
    char path[2000];
    for (size_t i = 0; i < sizeof path; i++)
        path[i] = i % 40 == 39 ? '/' : 'a';
    assert_int_equal(tci_ignore_match(ign, tci_str_of(path, sizeof path - 1), false), NONE);
    tci_arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),
        cmocka_unit_test(lines_that_cannot_match_are_told),
        cmocka_unit_test(stars_do_not_explode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
