/* SPDX-License-Identifier: Apache-2.0
 *
 * See lines.h. Valid text is as long as its bytes, so only bad sequences are looked at one by one.
 *
 * Invariant: offset is that of the next byte of the file, line its line. */
#include "ops/lines.h"

#include "base/utf8.h"

enum { REPLACED = 3 }; /* bytes of U+FFFD */

void tci_lines_init(tci_lines_scan *s, uint64_t start_line, uint64_t end_line)
{
    *s = (tci_lines_scan){.start_line = start_line, .end_line = end_line};
}

/* ---- length as text ---- */

static void begin_sequence(tci_lines_scan *s, unsigned char b, uint64_t at)
{
    s->low = 0x80;
    s->high = 0xbf;
    s->seen = 1;
    if (b >= 0xc2 && b <= 0xdf)
        s->need = 1;
    else if (b >= 0xe0 && b <= 0xef)
        s->need = 2;
    else if (b >= 0xf0 && b <= 0xf4)
        s->need = 3;
    else {
        s->at.selected_bytes += b < 0x80 ? 1 : REPLACED;
        return;
    }
    if (b == 0xe0)
        s->low = 0xa0;
    else if (b == 0xed)
        s->high = 0x9f;
    else if (b == 0xf0)
        s->low = 0x90;
    else if (b == 0xf4)
        s->high = 0x8f;
    s->may_be_mark = at == 0 && b == 0xef;
}

/* What has begun ends here, unfinished. */
static void cut_sequence(tci_lines_scan *s)
{
    if (s->need > 0)
        s->at.selected_bytes += REPLACED;
    s->need = 0;
}

static void one_byte(tci_lines_scan *s, unsigned char b, uint64_t at)
{
    if (s->need == 0) {
        begin_sequence(s, b, at);
        return;
    }
    if (b < s->low || b > s->high) {
        cut_sequence(s);
        begin_sequence(s, b, at);
        return;
    }
    s->low = 0x80;
    s->high = 0xbf;
    s->seen++;
    s->may_be_mark = s->may_be_mark && b == (at == 1 ? 0xbb : 0xbf);
    if (--s->need == 0 && !s->may_be_mark)
        s->at.selected_bytes += s->seen;
}

/* Selected bytes without LF. */
static void measure(tci_lines_scan *s, tc_str text)
{
    size_t i = 0;
    while (i < text.len) {
        bool may_begin_with_mark = s->offset + i == 0 && text.ptr[0] == '\xef';
        if (s->need == 0 && !may_begin_with_mark) {
            size_t n = tci_utf8_valid_prefix(tci_str_sub(text, i, text.len));
            s->at.selected_bytes += n;
            i += n;
            if (i == text.len)
                return;
        }
        one_byte(s, (unsigned char)text.ptr[i], s->offset + i);
        i++;
    }
}

/* ---- lines ---- */

/* The line that is selected ends at offset. */
static void end_line(tci_lines_scan *s)
{
    if (!s->has_first_end) {
        s->has_first_end = true;
        s->at.first_line_end = s->offset;
        s->at.first_line_bytes = s->at.selected_bytes;
    }
    s->at.end = s->offset;
}

static uint64_t count_newlines(tc_str bytes)
{
    uint64_t n = 0;
    for (size_t i = 0; i < bytes.len; i++)
        n += bytes.ptr[i] == '\n';
    return n;
}

void tci_lines_feed(tci_lines_scan *s, tc_str bytes)
{
    while (bytes.len > 0 && !s->is_past) {
        size_t n = tci_str_find_byte(bytes, '\n');
        bool is_selected = s->line >= s->start_line;
        if (is_selected)
            measure(s, tci_str_sub(bytes, 0, n));
        s->offset += n;
        if (n == bytes.len)
            return;
        if (is_selected) {
            cut_sequence(s);
            end_line(s);
            s->is_past = s->line + 1 == s->end_line;
            s->at.selected_bytes += s->is_past ? 0 : 1;
        }
        s->offset++;
        s->line++;
        s->at.newlines++;
        if (!s->is_past) {
            s->at.last_line_start = s->offset;
            if (s->line == s->start_line)
                s->at.start = s->offset;
        }
        bytes = tci_str_sub(bytes, n + 1, bytes.len);
    }
    s->at.newlines += count_newlines(bytes);
    s->offset += bytes.len;
}

void tci_lines_end(tci_lines_scan *s, tci_lines *ret)
{
    if (s->line < s->start_line) {
        uint64_t size = s->offset;
        *ret = (tci_lines){.newlines = s->at.newlines,
                           .start = size,
                           .end = size,
                           .first_line_end = size,
                           .last_line_start = size};
        return;
    }
    if (!s->is_past) {
        cut_sequence(s);
        end_line(s);
    }
    *ret = s->at;
}
