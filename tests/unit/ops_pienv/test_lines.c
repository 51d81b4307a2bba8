/* SPDX-License-Identifier: Apache-2.0
 *
 * Where lines lie, whatever the pieces are in which the file comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/utf8_stream.h"
#include "ops/lines.h"

static tci_lines scan(tc_str file, size_t piece, uint64_t start, uint64_t end)
{
    tci_lines lines;
    tci_lines_scan s;
    tci_lines_init(&s, start, end);
    for (size_t at = 0; at < file.len; at += piece)
        tci_lines_feed(&s, tci_str_sub(file, at, piece));
    tci_lines_end(&s, &lines);
    return lines;
}

static const tc_str sample = {"\xEF\xBB\xBF"
                              "a\n\xE2\x82\n\n\xEF\xBB\xBF"
                              "b\n\xC3\xA9",
                              16};

static void table_in_any_pieces(void **state)
{
    static const struct {
        uint64_t from, to;
        tci_lines is;
    } rows[] = {
        {0, UINT64_MAX, {4, 0, 16, 4, 14, 14, 1}},
        {1, 3, {4, 5, 8, 7, 8, 4, 3}},
        {9, UINT64_MAX, {4, 16, 16, 16, 16, 0, 0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t piece = 1; piece <= 16; piece++) {
            tci_lines is = scan(sample, piece, rows[i].from, rows[i].to);
            assert_int_equal(is.newlines, rows[i].is.newlines);
            assert_int_equal(is.start, rows[i].is.start);
            assert_int_equal(is.end, rows[i].is.end);
            assert_int_equal(is.first_line_end, rows[i].is.first_line_end);
            assert_int_equal(is.last_line_start, rows[i].is.last_line_start);
            assert_int_equal(is.selected_bytes, rows[i].is.selected_bytes);
            assert_int_equal(is.first_line_bytes, rows[i].is.first_line_bytes);
        }
    }
}

/* The size of the decoded bytes, by the decoder itself. */
static uint64_t decoded(tc_str bytes, bool at_start)
{
    tci_buf scratch;
    tci_utf8_stream d = {.has_begun = !at_start};
    tci_buf_init(&scratch, TCI_BUF_MAX);
    uint64_t n = tci_utf8_stream_feed(&d, bytes, &scratch).len;
    n += tci_utf8_stream_end(&d).len;
    tci_buf_done(&scratch);
    return n;
}

/* The plain way: all in memory. */
static tci_lines expected(tc_str file, uint64_t from, uint64_t to)
{
    tci_lines r = {0};
    uint64_t line = 0;
    size_t at = 0;
    bool has_start = false;
    for (;;) {
        size_t n = tci_str_find_byte(tci_str_sub(file, at, file.len), '\n');
        bool is_last = at + n == file.len;
        if (line >= from && line < to) {
            if (!has_start) {
                r.start = at;
                r.first_line_end = at + n;
            }
            has_start = true;
            r.end = at + n;
            r.last_line_start = at;
        }
        if (is_last)
            break;
        r.newlines++;
        at += n + 1;
        line++;
    }
    if (!has_start) {
        r.start = r.end = r.first_line_end = r.last_line_start = file.len;
        return r;
    }
    r.selected_bytes = decoded(tci_str_sub(file, r.start, r.end - r.start), r.start == 0);
    r.first_line_bytes =
        decoded(tci_str_sub(file, r.start, r.first_line_end - r.start), r.start == 0);
    return r;
}

static void same(const tci_lines *a, const tci_lines *b)
{
    assert_int_equal(a->newlines, b->newlines);
    assert_int_equal(a->start, b->start);
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->first_line_end, b->first_line_end);
    assert_int_equal(a->last_line_start, b->last_line_start);
    assert_int_equal(a->selected_bytes, b->selected_bytes);
    assert_int_equal(a->first_line_bytes, b->first_line_bytes);
}

static void any_bytes_agree_with_decoding_the_whole(void **state)
{
    static const unsigned char alphabet[] = {'a',  '\n', '\n', '\r', 0xE2, 0x82, 0xAC,
                                             0xEF, 0xBB, 0xBF, 0xF0, 0x9F, 0x98, 0x80,
                                             0xED, 0xA0, 0xC0, 0xFF, 0xC3, 0xA9};
    uint32_t seed = 12345;
    (void)state;
    for (int round = 0; round < 3000; round++) {
        char text[24];
        size_t len = 0;
        seed = seed * 1664525 + 1013904223;
        size_t want = (seed >> 16) % sizeof text;
        while (len < want) {
            seed = seed * 1664525 + 1013904223;
            text[len++] = (char)alphabet[(seed >> 16) % sizeof alphabet];
        }
        tc_str file = tci_str_of(text, len);
        for (uint64_t from = 0; from < 4; from++) {
            for (uint64_t to = from + 1; to < 6; to++) {
                uint64_t until = to == 5 ? UINT64_MAX : to;
                tci_lines is = scan(file, 1 + (size_t)round % 5, from, until);
                tci_lines want_lines = expected(file, from, until);
                same(&is, &want_lines);
            }
        }
    }
}

static void an_empty_file_has_one_line(void **state)
{
    (void)state;
    tci_lines is = scan(TC_STR(""), 1, 0, UINT64_MAX);
    tci_lines none = {0};
    same(&is, &none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_in_any_pieces),
        cmocka_unit_test(any_bytes_agree_with_decoding_the_whole),
        cmocka_unit_test(an_empty_file_has_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
