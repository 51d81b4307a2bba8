/* SPDX-License-Identifier: Apache-2.0
 *
 * Unified diffs, applied exactly. */
#include "files_help.h"

#include "ops/patch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tc_err err;

#define END "\\ No newline at end of file\n"
#define ABCD "a\nb\nc\nd\n"

typedef struct row {
    const char *source, *patch;
    int code;
    const char *result; /* when code is 0 */
    unsigned hunks;     /* 0: 1 */
} row;

static const row rows[] = {
    {ABCD, "@@ -2 +2 @@\n-b\n+B\n", 0, "a\nB\nc\nd\n", 0},
    {ABCD, "--- x\n+++ y\n@@ -1,2 +1,2 @@ in f()\n a\n-b\n+B\n", 0, "a\nB\nc\nd\n", 0},
    {ABCD, "+++ y\n@@ -2 +2 @@in f()\n+B\n-b\n", 0, "a\nB\nc\nd\n", 0},
    {ABCD, "@@ -1 +1,2 @@\n a\n+x\n@@ -3 +4 @@\n-c\n+C\n", 0, "a\nx\nb\nC\nd\n", 2},
    {ABCD, "@@ -1 +1 @@\n-a\n+A\n@@ -2 +2 @@\n-b\n+B\n", 0, "A\nB\nc\nd\n", 2},
    /* counts of nothing stand after their line */
    {ABCD, "@@ -2,0 +3 @@\n+x\n", 0, "a\nb\nx\nc\nd\n", 0},
    {ABCD, "@@ -0,0 +1 @@\n+x\n", 0, "x\na\nb\nc\nd\n", 0},
    {ABCD, "@@ -4,0 +5 @@\n+x\n", 0, "a\nb\nc\nd\nx\n", 0},
    {ABCD, "@@ -2 +1,0 @@\n-b\n", 0, "a\nc\nd\n", 0},
    {ABCD, "@@ -1,4 +0,0 @@\n-a\n-b\n-c\n-d\n", 0, "", 0},
    {ABCD, "@@ -0,0 +0,0 @@\n", 0, ABCD, 0},
    {"", "@@ -0,0 +1,2 @@\n+a\n+b\n", 0, "a\nb\n", 0},
    {ABCD, "@@ -02 +2 @@\r\n-b\n+B\n", 0, "a\nB\nc\nd\n", 0},
    /* line ends belong to lines */
    {"a\r\nb\r\n", "@@ -2 +2 @@\n-b\r\n+B\r\n", 0, "a\r\nB\r\n", 0},
    {"a\r\nb\r\n", "@@ -2 +2 @@\n-b\n+B\n", TC_E_CONFLICT, NULL, 0},
    {"a\nb", "@@ -2 +2 @@\n-b\n" END "+B\n", 0, "a\nB\n", 0},
    {"a\nb", "@@ -2 +2 @@\n-b\n" END "+B\n\\ No newline at end of file", 0, "a\nB", 0},
    {"a\nb", "@@ -2 +2 @@\n-b\n+B\n", TC_E_CONFLICT, NULL, 0},
    {"a\nb\n", "@@ -2 +2 @@\n-b\n" END "+B\n", TC_E_CONFLICT, NULL, 0},
    {"a\nb", "@@ -1,2 +1,2 @@\n-a\n+A\n b", 0, "A\nb", 0},
    {ABCD, "@@ -4 +4 @@\n-d\n+D", 0, "a\nb\nc\nD", 0},
    {ABCD, "@@ -4 +4 @@\n-d\n+D\n\\ No newline at end of file\r\n", 0, "a\nb\nc\nD", 0},
    {ABCD, "@@ -2,2 +2,2 @@\n-b\n+B\n" END " c\n", 0, "a\nBc\nd\n", 0},
    {"a\nb", "@@ -2,0 +3 @@\n+c\n", 0, "a\nbc\n", 0},
    /* it does not fit */
    {ABCD, "@@ -2 +2 @@\n-x\n+B\n", TC_E_CONFLICT, NULL, 0},
    {ABCD, "@@ -2,2 +2,2 @@\n-b\n+B\n x\n", TC_E_CONFLICT, NULL, 0},
    {ABCD, "@@ -9 +9 @@\n-b\n+B\n", TC_E_CONFLICT, NULL, 0},
    {ABCD, "@@ -9,0 +10 @@\n+B\n", TC_E_CONFLICT, NULL, 0},
    {ABCD, "@@ -4,2 +4 @@\n-d\n-e\n+D\n", TC_E_CONFLICT, NULL, 0},
    {ABCD, "@@ -2 +2 @@\n-b\n+B\n@@ -1 +1 @@\n-a\n+A\n", TC_E_CONFLICT, NULL, 0},
    {"", "@@ -1,0 +1,2 @@\n+a\n+b\n", TC_E_CONFLICT, NULL, 0},
    {ABCD, "@@ -1 +1 @@\n-a\n+A\n--- a\n+++ b\n", TC_E_CONFLICT, NULL, 0},
    /* outside the grammar */
    {ABCD, "", TC_E_INVALID, NULL, 0},
    {ABCD, "--- a\n", TC_E_INVALID, NULL, 0},
    {ABCD, "---a\n@@ -2 +2 @@\n-b\n+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "+++ a\n--- b\n@@ -2 +2 @@\n-b\n+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "diff a b\n@@ -2 +2 @@\n-b\n+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -2 +3 @@\n-b\n+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -2 +2,0 @@\n-b\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -0 +1 @@\n-a\n+b\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -1,2 +1,2 @@\n-a\n+A\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -1 +1 @@\n-a\n+A\n+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -2 +2 @@\n-b\n+B\n\n", TC_E_INVALID, NULL, 0},
    {"a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -2 +2 @@\n-b\n+B\n\\ something\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -2 +2 @@\n" END "-b\n+B\n", TC_E_INVALID, NULL, 0},
    {"a\nb", "@@ -2 +2 @@\n-b\n" END END "+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -1,10001 +1 @@\n-b\n+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -2 +2\n-b\n+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -2, +2 @@\n-b\n+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@  -2 +2 @@\n-b\n+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -2  +2 @@\n-b\n+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -2 +2@@\n-b\n+B\n", TC_E_INVALID, NULL, 0},
    {ABCD, "@@ -99999999999999999999 +2 @@\n-b\n+B\n", TC_E_INVALID, NULL, 0},
};

static int apply(tc_str source, tc_str patch, size_t max, tci_buf *out, uint64_t *hunks)
{
    tci_buf_init(out, max);
    return tci_patch_apply(source, patch, out, hunks, &err);
}

static void the_grammar_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tci_buf out;
        uint64_t hunks = 0;
        const row *r = &rows[i];
        int rc = apply(tci_str(r->source), tci_str(r->patch), 10000, &out, &hunks);
        if (rc != r->code)
            fail_msg("row %zu gave %s: %s", i, tc_code_name(rc), rc < 0 ? err.msg : "");
        if (rc == 0) {
            assert_true(tci_str_eq(tci_buf_str(&out), tci_str(r->result)));
            assert_int_equal(hunks, r->hunks == 0 ? 1 : r->hunks);
        }
        tci_buf_done(&out);
    }
}

static void every_cut_of_a_patch_is_refused_or_whole(void **state)
{
    (void)state;
    tc_str patch = TC_STR("--- x\n+++ y\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -4 +4 @@\n-d\n+D\n" END);
    for (size_t cut = 0; cut <= patch.len; cut++) {
        tci_buf out;
        uint64_t hunks = 0;
        int rc = apply(TC_STR(ABCD), tci_str_sub(patch, 0, cut), 1000, &out, &hunks);
        if (rc == 0)
            assert_true(out.len >= 6 && hunks >= 1);
        else
            assert_true(rc == TC_E_INVALID || rc == TC_E_CONFLICT);
        tci_buf_done(&out);
    }
}

static void long_lines_and_large_results(void **state)
{
    (void)state;
    static char patch[70000];
    tci_buf out;
    uint64_t hunks = 0;
    for (size_t n = 65534; n <= 65535; n++) { /* sign and LF count */
        int head = snprintf(patch, sizeof patch, "@@ -2 +2 @@\n-b\n+");
        memset(patch + head, 'x', n);
        patch[(size_t)head + n] = '\n';
        int rc = apply(TC_STR(ABCD), tci_str_of(patch, (size_t)head + n + 1), 100000, &out, &hunks);
        assert_int_equal(rc, n == 65534 ? 0 : TC_E_INVALID);
        tci_buf_done(&out);
    }
    int rc = apply(TC_STR(ABCD), TC_STR("@@ -2 +2 @@\n-b\n+BBBB\n"), 10, &out, &hunks);
    assert_int_equal(rc, TC_E_QUOTA);
    tci_buf_done(&out);
    rc = apply(TC_STR(ABCD), TC_STR("@@ -2 +2 @@\n-b\n+BBBB\n"), 11, &out, &hunks);
    assert_int_equal(rc, 0);
    tci_buf_done(&out);
    rc = apply(TC_STR("a\n"), tci_str_of("@@ -1 +1 @@\n-a\n+\0\n", 19), 100, &out, &hunks);
    assert_int_equal(rc, TC_E_INVALID);
    tci_buf_done(&out);
}

static void at_most_ten_thousand_hunks(void **state)
{
    (void)state;
    tci_buf source, patch, out;
    tci_buf_init(&source, 1 << 20);
    tci_buf_init(&patch, 1 << 22);
    for (int i = 1; i <= TCI_PATCH_HUNKS_MAX; i++) {
        tci_buf_printf(&source, "%d\n", i);
        tci_buf_printf(&patch, "@@ -%d +%d @@\n-%d\n+x%d\n", i, i, i, i);
    }
    uint64_t hunks = 0;
    assert_int_equal(apply(tci_buf_str(&source), tci_buf_str(&patch), 1 << 20, &out, &hunks), 0);
    assert_int_equal(hunks, TCI_PATCH_HUNKS_MAX);
    assert_int_equal(out.len, source.len + TCI_PATCH_HUNKS_MAX);
    tci_buf_done(&out);
    tci_buf_append_str(&source, TC_STR("y\n"));
    tci_buf_append_str(&patch, TC_STR("@@ -10001 +10001 @@\n-y\n+z\n"));
    assert_int_equal(apply(tci_buf_str(&source), tci_buf_str(&patch), 1 << 20, &out, &hunks),
                     TC_E_INVALID);
    tci_buf_done(&out);
    tci_buf_done(&source);
    tci_buf_done(&patch);
}

static void case_28_only_the_patched_bytes_of_a_crlf_file_with_a_mark_change(void **state)
{
    (void)state;
    world_new();
    put("f", "\xef\xbb\xbfone\r\ntwo\r\nthree\r\n", 20, 0640);
    assert_int_equal(patch_text("f", "@@ -1,2 +1,2 @@\n \xef\xbb\xbfone\r\n-two\r\n+2\r\n", &err),
                     0);
    assert_true(same("f", "\xef\xbb\xbfone\r\n2\r\nthree\r\n"));
    assert_int_equal(mode_of("f"), 0640);
    assert_int_equal(patch_text("f", "@@ -2 +2 @@\n-2\n+two\n", &err), TC_E_CONFLICT);
    assert_true(same("f", "\xef\xbb\xbfone\r\n2\r\nthree\r\n"));
    assert_int_equal(patch_text("none", "@@ -2 +2 @@\n-2\n+two\n", &err), TC_E_NOT_FOUND);
    assert_int_equal(patch_text("f", "nonsense", &err), TC_E_INVALID);
    assert_int_equal(count_stages(""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_grammar_and_nothing_else),
        cmocka_unit_test(every_cut_of_a_patch_is_refused_or_whole),
        cmocka_unit_test(long_lines_and_large_results),
        cmocka_unit_test(at_most_ten_thousand_hunks),
        cmocka_unit_test(case_28_only_the_patched_bytes_of_a_crlf_file_with_a_mark_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
