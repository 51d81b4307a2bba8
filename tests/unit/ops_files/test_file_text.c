/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of lines, and what counts as text. */
#include "files_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tc_err err;
static tci_arena arena;
static tci_text_page page;

static int fresh(void **state)
{
    (void)state;
    world_new();
    tci_arena_clear(&arena);
    return 0;
}

static int read_with(const char *name, uint64_t offset, uint64_t limit, uint64_t max_line,
                     uint64_t page_bytes)
{
    tci_read_text in = {.path = path(name),
                        .line_offset = offset,
                        .line_limit = limit,
                        .max_line_length = max_line,
                        .page_bytes = page_bytes};
    return tci_ops_read_text(&in, NULL, &arena, &page, &err);
}

static bool text_is(const char *text)
{
    return tci_str_eq(page.text, tci_str(text));
}

static void pages_of_lines(void **state)
{
    (void)state;
    put_text("f", "one\ntwo\r\nthree\n\nlast");
    assert_int_equal(read_with("f", 0, 100, 100, 1000), 0);
    assert_true(text_is("one\ntwo\r\nthree\n\nlast"));
    assert_int_equal(page.lines_read, 5);
    assert_false(page.has_more);
    assert_int_equal(page.info.size, 20);
    assert_int_equal(read_with("f", 1, 2, 100, 1000), 0);
    assert_true(text_is("two\r\nthree\n"));
    assert_int_equal(page.lines_read, 2);
    assert_true(page.has_more);
    assert_int_equal(read_with("f", 4, 1, 100, 1000), 0);
    assert_true(text_is("last"));
    assert_false(page.has_more);
    assert_int_equal(read_with("f", 5, 1, 100, 1000), 0);
    assert_true(text_is("") && page.lines_read == 0 && !page.has_more);
    assert_int_equal(read_with("f", UINT64_MAX, 1, 1, 1), 0);
    assert_true(text_is(""));
    put_text("empty", "");
    assert_int_equal(read_with("empty", 0, 1, 1, 1), 0);
    assert_true(text_is("") && page.lines_read == 0 && !page.has_more);
    put_text("lf", "\n");
    assert_int_equal(read_with("lf", 0, 10, 1, 10), 0);
    assert_true(text_is("\n") && page.lines_read == 1 && !page.has_more);
}

static void long_lines_are_cut_between_characters(void **state)
{
    (void)state;
    put_text("f", "ab\n\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\nabc\n\xf0\x9f\x98\x80x");
    assert_int_equal(read_with("f", 0, 10, 2, 1000), 0);
    assert_true(text_is("ab\n\xe2\x82\xac\xe2\x82\xac\nab\n\xf0\x9f\x98\x80x"));
    assert_int_equal(page.ntruncated, 2);
    assert_int_equal(page.truncated[0], 2);
    assert_int_equal(page.truncated[1], 3);
    assert_int_equal(read_with("f", 2, 10, 1, 1000), 0);
    assert_true(text_is("a\n\xf0\x9f\x98\x80"));
    assert_int_equal(page.ntruncated, 2);
    assert_int_equal(page.truncated[0], 3);
    assert_int_equal(page.truncated[1], 4);
}

static void the_page_ends_before_a_line_that_does_not_fit(void **state)
{
    (void)state;
    put_text("f", "12345\n12345\n12345\n");
    assert_int_equal(read_with("f", 0, 10, 100, 12), 0);
    assert_true(text_is("12345\n12345\n") && page.lines_read == 2 && page.has_more);
    assert_int_equal(read_with("f", 0, 10, 100, 17), 0);
    assert_true(text_is("12345\n12345\n") && page.lines_read == 2 && page.has_more);
    assert_int_equal(read_with("f", 2, 10, 100, 6), 0);
    assert_true(text_is("12345\n") && !page.has_more);
    assert_int_equal(read_with("f", 2, 10, 100, 5), TC_E_OUTPUT_LIMIT);
    assert_int_equal(read_with("f", 2, 10, 4, 5), 0); /* shortened it fits */
    assert_true(text_is("1234\n"));
}

/* The same answer whatever the blocks are: compared with a plain way to do it. */
static void lines_longer_than_any_block(void **state)
{
    (void)state;
    size_t len = 1500001;
    char *text = malloc(len + 1);
    assert_non_null(text);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + i % 26);
    text[len] = '\0';
    for (size_t i = 0; i + 3 < 700000; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3);
    text[699999] = text[700000] = '\n'; /* one huge line, one empty, one huge */
    put("f", text, len, 0644);
    assert_int_equal(read_with("f", 0, 10, len, 2 * len), 0);
    assert_true(page.text.len == len && memcmp(page.text.ptr, text, len) == 0);
    assert_int_equal(page.lines_read, 3);
    assert_int_equal(read_with("f", 2, 1, 10, 100), 0);
    assert_true(page.text.len == 10 && memcmp(page.text.ptr, text + 700001, 10) == 0);
    assert_int_equal(page.truncated[0], 3);
    assert_int_equal(read_with("f", 0, 3, 5, 100), 0);
    assert_true(page.text.len == 15 + 1 + 1 + 5);
    assert_int_equal(read_with("f", 0, 3, len, len / 3), TC_E_OUTPUT_LIMIT);
    free(text);
}

static void case_34_multi_byte_text_is_text_wherever_a_block_ends(void **state)
{
    (void)state;
    static char text[1100001];
    size_t len = 0;
    for (; len + 3 < 1002; len += 3)
        memcpy(text + len, "\xe3\x81\x82", 3);
    put("small", text, len, 0644);
    assert_int_equal(read_with("small", 0, 1, 10000, 10000), 0);
    assert_int_equal(page.text.len, len);
    for (unsigned lead = 0; lead < 4; lead++) { /* every alignment to the blocks */
        memset(text, 'x', lead);
        for (len = lead; len + 3 < sizeof text; len += 3)
            memcpy(text + len, "\xe3\x81\x82", 3);
        put("large", text, len, 0644);
        assert_int_equal(read_with("large", 0, 1, 2000000, 2000000), 0);
        assert_int_equal(page.text.len, len);
        assert_memory_equal(page.text.ptr, text, len);
        assert_int_equal(read_with("large", 1, 1, 10, 100), 0); /* skipped: looked at too */
        assert_int_equal(page.lines_read, 0);
    }
}

static void case_35_what_is_not_text_is_refused_and_named(void **state)
{
    (void)state;
    put("notes.txt", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16, 0644);
    assert_int_equal(read_with("notes.txt", 0, 10, 10, 1000), TC_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "PNG"));
    assert_non_null(strstr(err.msg, "16 bytes"));
    put("le", "\xff\xfeh\0i\0\n\0", 8, 0644);
    assert_int_equal(read_with("le", 0, 10, 10, 1000), TC_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "UTF-16"));
    put("plain-le", "h\0e\0l\0l\0o\0\n\0", 12, 0644);
    assert_int_equal(read_with("plain-le", 0, 10, 10, 1000), TC_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "UTF-16"));
    assert_int_equal(patch_text("le", "@@ -1 +1 @@\n-hi\n+ho\n", &err), TC_E_UNSUPPORTED);
    put("log", "one\ntw\0o\nthree\n", 15, 0644);
    assert_int_equal(read_with("log", 0, 1, 10, 1000), 0); /* the lines before it can be read */
    assert_int_equal(read_with("log", 0, 2, 10, 1000), TC_E_UNSUPPORTED);
    assert_int_equal(read_with("log", 2, 1, 10, 1000), TC_E_UNSUPPORTED);
    tci_read_text in = {.path = path("log"),
                        .line_limit = 10,
                        .max_line_length = 100,
                        .page_bytes = 100,
                        .show_nul = true};
    assert_int_equal(tci_ops_read_text(&in, NULL, &arena, &page, &err), 0);
    assert_int_equal(page.text.len, 15);
    put("bad", "ok\nb\xc3\n", 6, 0644);
    assert_int_equal(read_with("bad", 0, 10, 10, 1000), TC_E_UNSUPPORTED);
    put("cut", "ok\n\xe2\x82", 5, 0644);
    assert_int_equal(read_with("cut", 0, 10, 10, 1000), TC_E_UNSUPPORTED);
    assert_int_equal(read_with("cut", 5, 10, 10, 1000), TC_E_UNSUPPORTED);
    put("tail", "0123456789\xff\n", 12, 0644);
    assert_int_equal(read_with("tail", 0, 10, 2, 1000), TC_E_UNSUPPORTED); /* in the part cut off */
}

static void only_regular_files_are_read(void **state)
{
    (void)state;
    make_folder("d");
    put_text("f", "x\n");
    make_link("f", "l");
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    assert_int_equal(read_with("d", 0, 1, 1, 10), TC_E_DENIED);
    assert_int_equal(read_with("fifo", 0, 1, 1, 10), TC_E_DENIED);
    assert_int_equal(read_with("none", 0, 1, 1, 10), TC_E_NOT_FOUND);
    assert_int_equal(read_with("l", 0, 1, 1, 10), 0);
    assert_true(text_is("x\n"));
}

static void files_without_a_size_are_read_to_their_end(void **state)
{
    (void)state;
    tci_read_text in = {.path = TC_STR("/proc/self/status"),
                        .line_offset = 1,
                        .line_limit = 1000,
                        .max_line_length = 1000,
                        .page_bytes = 100000};
    int rc = tci_ops_read_text(&in, NULL, &arena, &page, &err);
    if (rc == TC_E_NOT_FOUND) {
        print_message("skipped: no /proc here\n");
        skip();
    }
    assert_int_equal(rc, 0);
    assert_true(page.lines_read > 10 && !page.has_more);
}

/* Pages of every size, with and without the hint of the page before, give the whole file. */
static void a_cursor_changes_nothing_but_the_cost(void **state)
{
    (void)state;
    static char text[400000];
    size_t len = 0;
    unsigned nlines = 0;
    for (unsigned i = 0; len + 64 < sizeof text; i++, nlines++)
        len += (size_t)snprintf(text + len, 64, "%u %.*s\xc3\xa9\n", i, (int)(i * 7 % 40),
                                "........................................");
    len--; /* the last line has no end */
    put("f", text, len, 0644);
    static const uint64_t sizes[] = {1, 997, 3000, 100000};
    for (size_t s = 0; s < 4; s++) {
        tci_read_text in = {.path = path("f"),
                            .line_limit = sizes[s],
                            .max_line_length = 1000,
                            .page_bytes = 70000};
        size_t at_byte = 0;
        bool has_more = true;
        while (has_more) {
            tci_arena_clear(&arena);
            assert_int_equal(tci_ops_read_text(&in, NULL, &arena, &page, &err), 0);
            assert_true(page.text.len > 0 && at_byte + page.text.len <= len);
            assert_memory_equal(page.text.ptr, text + at_byte, page.text.len);
            at_byte += page.text.len;
            has_more = page.has_more;
            in.line_offset += page.lines_read;
            in.cursor = page.cursor;
            if (sizes[s] == 1 && in.line_offset == 50)
                break;
        }
        if (sizes[s] > 1) {
            assert_int_equal(at_byte, len);
            assert_int_equal(in.line_offset, nlines);
        }
    }
    /* Past the end and back by the cursor that this gave. */
    tci_read_text in = {.path = path("f"),
                        .line_offset = nlines + 5,
                        .line_limit = 1,
                        .max_line_length = 1000,
                        .page_bytes = 1000};
    assert_int_equal(tci_ops_read_text(&in, NULL, &arena, &page, &err), 0);
    assert_int_equal(page.lines_read, 0);
    in.cursor = page.cursor;
    in.line_offset = nlines - 1;
    assert_int_equal(tci_ops_read_text(&in, NULL, &arena, &page, &err), 0);
    assert_int_equal(page.lines_read, 1);
    /* A changed file makes the hint worthless, not wrong. */
    put_text("f", "new 0\nnew 1\nnew 2\n");
    in.line_offset = 1;
    in.cursor.line = 1;
    in.cursor.offset = 3;
    assert_int_equal(tci_ops_read_text(&in, NULL, &arena, &page, &err), 0);
    assert_true(text_is("new 1\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(pages_of_lines, fresh),
        cmocka_unit_test_setup(long_lines_are_cut_between_characters, fresh),
        cmocka_unit_test_setup(the_page_ends_before_a_line_that_does_not_fit, fresh),
        cmocka_unit_test_setup(lines_longer_than_any_block, fresh),
        cmocka_unit_test_setup(case_34_multi_byte_text_is_text_wherever_a_block_ends, fresh),
        cmocka_unit_test_setup(case_35_what_is_not_text_is_refused_and_named, fresh),
        cmocka_unit_test_setup(only_regular_files_are_read, fresh),
        cmocka_unit_test_setup(files_without_a_size_are_read_to_their_end, fresh),
        cmocka_unit_test_setup(a_cursor_changes_nothing_but_the_cost, fresh),
    };
    tci_arena_init(&arena, 0);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    tci_arena_done(&arena);
    return rc;
}
