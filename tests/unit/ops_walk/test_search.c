/* SPDX-License-Identifier: Apache-2.0
 *
 * Searching: lines, context, limits, files that are not text, pages; agreement with rg. */
#include "walk_help.h"

#include "plat/clock.h"

#include <string.h>

static fix *fix_of(void **state)
{
    return *state;
}

static tci_ops_search_request text(const char *query)
{
    return (tci_ops_search_request){.query = tci_str(query), .case_sensitive = true};
}

static tci_ops_search_request regex(const char *query)
{
    tci_ops_search_request r = text(query);
    r.is_regex = true;
    return r;
}

/* One page over root, or over a file in it. */
static int search(fix *f, tci_ops_search_request req, const char *file, tci_ops_matches *m)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s%s%s", f->root, file != NULL ? "/" : "",
                   file != NULL ? file : "");
    req.root = tci_str(path);
    req.max_results = req.max_results > 0 ? req.max_results : 1000;
    req.max_line_length = req.max_line_length > 0 ? req.max_line_length : 1000;
    tci_walk_warn warn = {0};
    return tci_ops_search(&req, warn, NULL, f->cache, &f->arena, m, &f->detail, &f->err);
}

static void assert_lines(fix *f, tci_ops_search_request req, const char *content, const char *want)
{
    tci_buf out;
    put(f, "f", content);
    search_all(f, req, 2, &out);
    assert_text(&out, want);
    tci_buf_done(&out);
}

static void lines(void **state)
{
    fix *f = fix_of(state);
    assert_lines(f, text("ab"), "ab ab\nx\nyab", "f:1:ab ab\nf:3:yab\n");
    assert_lines(f, regex("b$"), "ab\r\nab", "f:2:ab\n");
    assert_lines(f, regex("b.$"), "ab\r\nab", "f:1:ab\r\n");
    assert_lines(f, regex("^$"), "\n\na", "f:1:\nf:2:\n");
    assert_lines(f, regex("^$"), "a\n", "");
    assert_lines(f, regex("^$"), "", "");
    assert_lines(f, regex("^$"), "a\n\n", "f:2:\n");
    assert_lines(f, regex("x*"), "a\nb\n", "f:1:a\nf:2:b\n");
    assert_lines(f, text("a\nb"), "a\nb\n", "");
    assert_lines(f, regex("a\\sb"), "a\nb\n", "");
    assert_lines(f, regex("a[^x]b"), "a\nb\na b\n", "f:3:a b\n");
    assert_lines(f, regex("a|\\n"), "b\na\n", "f:2:a\n");
    assert_lines(f, regex("b\\z"), "ab\nba\n", "f:1:ab\n");
}

static void case_folding(void **state)
{
    fix *f = fix_of(state);
    tci_ops_search_request req = text("k");
    req.case_sensitive = false;
    assert_lines(f, req, "\xe2\x84\xaa\nK\nx\n", "f:1:\xe2\x84\xaa\nf:2:K\n");
    req.query = TC_STR("\xc3\xa9t");
    assert_lines(f, req, "\xc3\x89T\n", "f:1:\xc3\x89T\n");
    req.query = TC_STR("NeedLe_X42");
    assert_lines(f, req, "a needle_x42\nNEEDLE_X42 NEEDLE_X42\nneedle_x4\n",
                 "f:1:a needle_x42\nf:2:NEEDLE_X42 NEEDLE_X42\n");
    req.query = TC_STR("<a>*");
    assert_lines(f, req, "x<A>*\n<a>\n", "f:1:x<A>*\n");
    req = regex("(?i)stra\xc3\x9f"
                "e");
    assert_lines(f, req,
                 "STRA\xe1\xba\x9e"
                 "E\n",
                 "f:1:STRA\xe1\xba\x9e"
                 "E\n");
}

static void previews_and_context(void **state)
{
    fix *f = fix_of(state);
    tci_ops_matches m;
    put(f, "f", "1\n2\n3hit\n4hit\n5\n6");
    tci_ops_search_request req = text("hit");
    req.context_lines = 2;
    assert_int_equal(search(f, req, "f", &m), 0);
    assert_int_equal(m.count, 2);
    assert_true(tci_str_eq(m.items[0].context, TC_STR("1\n2\n3hit\n4hit\n5\n")));
    assert_int_equal(m.items[0].context_start_line, 1);
    assert_true(tci_str_eq(m.items[1].context, TC_STR("2\n3hit\n4hit\n5\n6")));
    assert_int_equal(m.items[1].context_start_line, 2);
    put(f, "g", "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\nhit\xc3\xa9\xc3\xa9\r\n");
    req.context_lines = 1;
    req.max_line_length = 3;
    assert_int_equal(search(f, req, "g", &m), 0);
    assert_true(m.items[0].preview_truncated && tci_str_eq(m.items[0].preview, TC_STR("hit")));
    assert_true(tci_str_eq(m.items[0].context, TC_STR("\xc3\xa9\xc3\xa9\xc3\xa9\nhit\n")));
    char want[1024];
    int len =
        snprintf(want, sizeof want,
                 "{\"context\":\"\xc3\xa9\xc3\xa9\xc3\xa9\\nhit\\n\",\"line_number\":2,\"path\":"
                 "{\"path\":\"%s/g\"},\"preview\":\"hit\",\"preview_truncated\":true}",
                 f->root);
    assert_int_equal(tci_search_json_match_size(&m.items[0]), len);
    req.budget_bytes = 10;
    assert_int_equal(search(f, req, "g", &m), TC_E_OUTPUT_LIMIT);
}

/* A bundle of one line: the excerpt is bounded and says that it was cut. */
static void case_25_26_one_long_line(void **state)
{
    fix *f = fix_of(state);
    tci_ops_matches m;
    size_t size = 2000000;
    char *line = malloc(size);
    assert_non_null(line);
    memset(line, 'x', size);
    memcpy(line + size * 2 / 5, "needle_1", 8);
    memcpy(line + size * 9 / 10, "needle_2", 8);
    put_bytes(f, "bundle.js", line, size);
    free(line);
    tci_ops_search_request req = regex("needle_\\d");
    req.max_line_length = 500;
    req.context_lines = 3;
    assert_int_equal(search(f, req, NULL, &m), 0);
    assert_int_equal(m.count, 1);
    assert_true(m.items[0].preview_truncated && m.items[0].preview.len == 500);
    assert_true(m.items[0].context.len == 500 && !m.has_more);
}

static void files_that_are_not_text(void **state)
{
    fix *f = fix_of(state);
    tci_ops_matches m;
    tci_ops_search_request req = text("ab");
    static const char nul[] = "ab\ncd\nx\0y\n";
    put_bytes(f, "f", nul, sizeof nul - 1);
    assert_int_equal(search(f, req, "f", &m), 0);
    assert_int_equal(m.count, 0);
    req.max_matches_per_file = 1; /* the scan stops before the NUL */
    assert_int_equal(search(f, req, "f", &m), 0);
    assert_int_equal(m.count, 1);
    req.context_lines = 2; /* or not */
    assert_int_equal(search(f, req, "f", &m), 0);
    assert_int_equal(m.count, 0);
    req = regex("a.");
    put(f, "f", "ab\n\xff\n");
    assert_int_equal(search(f, req, "f", &m), 0);
    assert_int_equal(m.count, 0);
    put(f, "f", "ab\n\xc3");
    assert_int_equal(search(f, req, "f", &m), 0);
    assert_int_equal(m.count, 0);
}

static void limits(void **state)
{
    fix *f = fix_of(state);
    tci_ops_matches m;
    put(f, "dd/h", "hit\n");
    put(f, "f", "hit\n");
    put(f, "g", "hit\nhit\nhit\n");
    put(f, ".h", "hit\n");
    assert_int_equal(shell(f, "ln -s f link; mkfifo fifo", NULL), 0);
    tci_buf out;
    search_all(f, text("hit"), 1, &out);
    assert_text(&out, "dd/h:1:hit\nf:1:hit\ng:1:hit\ng:2:hit\ng:3:hit\n");
    tci_buf_done(&out);
    tci_ops_search_request req = text("hit");
    req.max_files = 2;
    req.max_results = 1; /* the page is full after one file, yet the answer is the same */
    assert_int_equal(search(f, req, NULL, &m), TC_E_QUOTA);
    req.max_files = 3;
    assert_int_equal(search(f, req, NULL, &m), 0);
    assert_true(m.count == 1 && m.has_more);
    req.max_matches_per_file = 2;
    search_all(f, req, 3, &out);
    assert_text(&out, "dd/h:1:hit\nf:1:hit\ng:1:hit\ng:2:hit\n");
    tci_buf_done(&out);
    req = text("hit");
    req.max_file_bytes = 4;
    search_all(f, req, 9, &out);
    assert_text(&out, "dd/h:1:hit\nf:1:hit\n");
    tci_buf_done(&out);
    req = text("hit");
    req.include_pattern = TC_STR("/f");
    req.include_hidden = true;
    search_all(f, req, 9, &out);
    assert_text(&out, "f:1:hit\n");
    tci_buf_done(&out);
    assert_int_equal(search(f, text("hit"), ".h", &m), 0); /* named itself, so not hidden */
    assert_int_equal(m.count, 1);
    assert_int_equal(search(f, text("hit"), "link", &m), 0);
    assert_int_equal(m.count, 1);
}

static void refusals(void **state)
{
    fix *f = fix_of(state);
    tci_ops_matches m;
    put(f, "f", "x");
    assert_int_equal(shell(f, "mkfifo fifo", NULL), 0);
    assert_int_equal(search(f, text("x"), "fifo", &m), TC_E_INVALID);
    assert_string_equal(f->detail, "not_searchable");
    assert_int_equal(search(f, text(""), NULL, &m), TC_E_INVALID);
    assert_string_equal(f->detail, "empty_pattern");
    assert_int_equal(search(f, regex("("), NULL, &m), TC_E_INVALID);
    assert_string_equal(f->detail, "invalid_regex");
    tci_ops_search_request req = text("x");
    req.include_pattern = TC_STR("[");
    assert_int_equal(search(f, req, NULL, &m), TC_E_INVALID);
    assert_string_equal(f->detail, "invalid_glob");
    char *query = malloc(TCI_SEARCH_QUERY_MAX + 2);
    assert_non_null(query);
    memset(query, 'a', TCI_SEARCH_QUERY_MAX + 1);
    query[TCI_SEARCH_QUERY_MAX + 1] = '\0';
    assert_int_equal(search(f, text(query), NULL, &m), TC_E_INVALID);
    assert_string_equal(f->detail, "pattern_too_large");
    query[TCI_SEARCH_QUERY_MAX] = '\0';
    assert_int_equal(search(f, text(query), NULL, &m), 0);
    req = text(query);
    req.case_sensitive = false;
    assert_int_equal(search(f, req, NULL, &m), 0);
    assert_int_equal(search(f, regex(query), NULL, &m), 0);
    free(query);
    assert_int_equal(search(f, text("x"), "none", &m), TC_E_NOT_FOUND);
}

/* Expressions that make a backtracking matcher explode answer, and answer right. */
static void hostile_expressions_end(void **state)
{
    fix *f = fix_of(state);
    static const char *const queries[] = {"(a+)+$",     "(a*)*$",       "(a|aa)+$",
                                          "(a|a)*$",    "a*a*a*a*$",    "(?:a?){30}a{30}$",
                                          "(.*a){12}$", "a.*a.*a.*a.*$"};
    size_t size = 30000;
    char *line = malloc(size + 8);
    assert_non_null(line);
    memset(line, 'a', size);
    memcpy(line + size, "b\naaa\n", 6);
    put_bytes(f, "f", line, size + 6);
    free(line);
    for (size_t i = 0; i < TCI_ARRAY_LEN(queries); i++) {
        tci_ops_matches m;
        bool needs_more = strstr(queries[i], "30") != NULL || strstr(queries[i], "12") != NULL;
        bool takes_any_end = strcmp(queries[i], "a.*a.*a.*a.*$") == 0;
        bool matches_nothing = strcmp(queries[i], "(a*)*$") == 0 ||
                               strcmp(queries[i], "(a|a)*$") == 0 ||
                               strcmp(queries[i], "a*a*a*a*$") == 0;
        assert_int_equal(search(f, regex(queries[i]), NULL, &m), 0);
        size_t want = needs_more ? 0 : matches_nothing ? 2 : 1;
        if (m.count != want)
            fail_msg("'%s': %zu lines", queries[i], m.count);
        if (want == 1)
            assert_int_equal(m.items[0].line_number, takes_any_end ? 1 : 2);
    }
}

static void a_search_can_be_cancelled(void **state)
{
    fix *f = fix_of(state);
    tci_ops_matches m;
    tci_cancel cancel = {0};
    put(f, "f", "hit\n");
    atomic_store(&cancel.is_cancelled, true);
    tci_ops_search_request req = text("hit");
    req.root = tci_str(f->root);
    req.max_results = req.max_line_length = 1;
    tci_walk_warn warn = {0};
    assert_int_equal(tci_ops_search(&req, warn, &cancel, NULL, &f->arena, &m, NULL, &f->err),
                     TC_E_CANCELLED);
}

static void random_texts(const fix *f)
{
    static const char *const words[] = {"foo",
                                        "bar",
                                        "Foo",
                                        "\xc3\xa9",
                                        ("stra\xc3\x9f"
                                         "e"),
                                        "x1",
                                        "ab",
                                        "aab",
                                        "\xe2\x84\xaa",
                                        "  ",
                                        "\t",
                                        "a.b",
                                        "(x)",
                                        "[y]",
                                        "12",
                                        "_q",
                                        "foo bar"};
    uint64_t seed = 5;
    for (int i = 0; i < 120; i++) {
        tci_buf b;
        char path[64];
        tci_buf_init(&b, TCI_BUF_MAX);
        for (unsigned n = pick(&seed, 60); n > 0; n--) {
            tci_buf_append_str(&b, tci_str(words[pick(&seed, TCI_ARRAY_LEN(words))]));
            tci_buf_append_byte(&b, pick(&seed, 3) == 0 ? '\n' : ' ');
        }
        (void)snprintf(path, sizeof path, "d%u/e%u/f%d", pick(&seed, 4), pick(&seed, 4), i);
        put_bytes(f, path, b.len > 0 ? b.ptr : "", b.len);
        tci_buf_done(&b);
    }
}

static void agrees_with_rg(void **state)
{
    fix *f = fix_of(state);
    static const char *const queries[] = {
        "foo",
        "o b",
        "fo+ ba",
        "^foo",
        "bar $",
        "\\bx1\\b",
        "[^a-z ]{2}",
        "(foo|12) (bar|ab)",
        "\\d+\\s",
        "(?i)FOO bar",
        "(?i)k",
        "\\w+\\.\\w",
        "stra\xc3\x9f.",
        "^\\s*$",
        "[[:upper:]]oo",
        "\\p{Lu}",
        "a{2,}b",
        "_q.*_q",
        "\\(x\\)|\\[y\\]",
        "(?:ab)+",
        "[a-f&&[^b]]\\b",
        "(x1 )?12",
        "[\\d.]b",
        "\\S\\t",
        "(?x) f o o #c",
        "^(?:\\S+ ){6}",
        "\\Afoo",
        "b\\z",
        "(?i)[^k]\\s",
        "\\p{Greek}",
        "\\w\\W\\w",
        "e\\s+f",
        "o??b",
    };
    if (!has_program(f, "rg"))
        skip();
    random_texts(f);
    for (size_t i = 0; i < TCI_ARRAY_LEN(queries); i++) {
        tci_buf ours, theirs;
        search_all(f, regex(queries[i]), 50, &ours);
        put(f, ".query", queries[i]);
        tci_buf_init(&theirs, TCI_BUF_MAX);
        (void)shell(f,
                    "rg -j1 --sort path -n --no-heading --no-config -e \"$(cat .query)\" . | "
                    "sed 's,^\\./,,' | LC_ALL=C sort -t: -k1,1 -k2,2n",
                    &theirs); /* 1: no match */
        tci_buf_append_byte(&theirs, '\0');
        if (strcmp(theirs.ptr, "") != 0 || ours.len > 0)
            assert_text(&ours, theirs.ptr);
        tci_buf_done(&ours);
        tci_buf_done(&theirs);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fix_setup, fix_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines),
        TEST(case_folding),
        TEST(previews_and_context),
        TEST(case_25_26_one_long_line),
        TEST(files_that_are_not_text),
        TEST(limits),
        TEST(refusals),
        TEST(hostile_expressions_end),
        TEST(a_search_can_be_cancelled),
        TEST(agrees_with_rg),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
