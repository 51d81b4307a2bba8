/* SPDX-License-Identifier: Apache-2.0
 *
 * See scan.h. Selected text goes through the decoder only to be measured. Invariant: between two
 * pieces, offset is that of the next byte and line its line. */
#include "env/scan.h"

enum { REPLACED = 3 }; /* bytes of U+FFFD */

static bool is_selected(const tci_scan *s)
{
    return s->line >= s->start_line && s->line < s->end_line;
}

static void begin_line(tci_scan *s)
{
    if (s->line == s->start_line) {
        s->found.start = s->offset;
        s->decoder = (tci_utf8_stream){.has_begun = s->offset > 0};
    }
    if (is_selected(s))
        s->found.last_line_start = s->offset;
}

static void measure(tci_scan *s, tc_str text)
{
    s->found.selected_bytes += tci_utf8_stream_feed(&s->decoder, text, &s->scratch).len;
}

/* A selected line ends at offset. */
static void end_line(tci_scan *s)
{
    if (s->line != s->start_line)
        return;
    s->found.first_line_end = s->offset;
    s->found.first_line_bytes = s->found.selected_bytes + (s->decoder.nheld > 0 ? REPLACED : 0);
}

static void complete(tci_scan *s)
{
    s->found.end = s->offset;
    s->found.selected_bytes += tci_utf8_stream_end(&s->decoder).len;
    s->is_complete = true;
}

static void newline(tci_scan *s)
{
    if (is_selected(s)) {
        end_line(s);
        if (s->line + 1 < s->end_line)
            measure(s, TC_STR("\n"));
        else
            complete(s);
    }
    s->found.newlines++;
    s->offset++;
    s->line++;
    begin_line(s);
}

void tci_scan_feed(tci_scan *s, tc_str bytes)
{
    if (!s->has_begun) {
        tci_buf_init(&s->scratch, TCI_BUF_MAX);
        begin_line(s);
        s->has_begun = true;
    }
    while (bytes.len > 0) {
        size_t n = tci_str_find_byte(bytes, '\n');
        if (is_selected(s))
            measure(s, tci_str_sub(bytes, 0, n));
        s->offset += n;
        if (n == bytes.len)
            return;
        newline(s);
        bytes = tci_str_sub(bytes, n + 1, SIZE_MAX);
    }
}

tc_line_scan tci_scan_end(tci_scan *s)
{
    tci_scan_feed(s, (tc_str){0});
    tc_line_scan *f = &s->found;
    if (s->line < s->start_line) {
        f->start = f->end = f->first_line_end = f->last_line_start = s->offset;
    } else if (!s->is_complete) {
        end_line(s);
        complete(s);
    }
    return *f;
}

void tci_scan_done(tci_scan *s)
{
    if (s->has_begun)
        tci_buf_done(&s->scratch);
}
