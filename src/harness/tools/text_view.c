/* SPDX-License-Identifier: Apache-2.0
 *
 * Making views, and finding the way back. Any thread.
 *
 * To keep: units are in order and do not overlap; between two of them view and source are the same
 * bytes. */
#include "harness/tools/text_view.h"

#include "base/num.h"
#include "base/utf8.h"
#include "base/utf8_stream.h"
#include "harness/schema/unicode.h"

static void add_unit(tci_text_view *v, tc_str shown, size_t source, size_t nsource)
{
    if (v->nunits == v->cap) {
        size_t cap = v->cap == 0 ? 32 : v->cap * 2;
        tci_view_unit *grown = tci_mem_resize(v->units, cap * sizeof *grown);
        if (grown == NULL) {
            v->failed = TC_E_NO_MEMORY;
            return;
        }
        v->units = grown;
        v->cap = cap;
    }
    v->units[v->nunits++] = (tci_view_unit){v->text.len, shown.len, source, nsource};
    tci_buf_append_str(&v->text, shown);
}

static void init(tci_text_view *v)
{
    *v = (tci_text_view){0};
    tci_buf_init(&v->text, TCI_BUF_MAX);
}

void tci_view_done(tci_text_view *v)
{
    tci_buf_done(&v->text);
    tci_mem_free(v->units);
    v->units = NULL;
}

int tci_view_error(const tci_text_view *v, tc_err *err)
{
    if (v->failed != TC_OK)
        return tci_err_no_memory(err);
    return tci_buf_error(&v->text, err);
}

/* ---- lines ---- */

/* Bytes of the first bad sequence, as one replacement sign stands for them. */
static size_t bad_length(tc_str s)
{
    tci_utf8_stream stream = {.has_begun = true};
    tci_buf scratch;
    size_t n = 1, found = 0;
    tci_buf_init(&scratch, 16);
    for (; n <= 4 && n <= s.len && found == 0;
         n++) /* the sign comes out with the byte that cannot follow */
        if (tci_utf8_stream_feed(&stream, tci_str_sub(s, n - 1, 1), &scratch).len > 0)
            found = n == 1 ? 1 : n - 1;
    tci_buf_done(&scratch);
    return found > 0 ? found : tci_min_size(s.len, 3);
}

void tci_view_lines(tci_text_view *v, tc_str bytes)
{
    static const char mark[] = "\xEF\xBB\xBF";
    size_t at = 0, same = 0;
    init(v);
    if (tci_str_starts(bytes, tci_str_of(mark, 3))) {
        add_unit(v, (tc_str){0}, 0, 3);
        at = same = 3;
    }
    while (at < bytes.len) {
        tc_str rest = tci_str_sub(bytes, at, bytes.len);
        size_t valid = tci_utf8_valid_prefix(rest);
        size_t cr = tci_str_find_byte(tci_str_sub(rest, 0, valid), '\r');
        at += cr;
        if (at == bytes.len)
            break;
        tci_buf_append(&v->text, bytes.ptr + same, at - same);
        size_t n;
        if (cr < valid) {
            n = at + 1 < bytes.len && bytes.ptr[at + 1] == '\n' ? 2 : 1;
            add_unit(v, TC_STR("\n"), at, n);
        } else {
            n = bad_length(tci_str_sub(bytes, at, bytes.len));
            add_unit(v, TC_STR("\xEF\xBF\xBD"), at, n);
        }
        at += n;
        same = at;
    }
    if (same < bytes.len)
        tci_buf_append(&v->text, bytes.ptr + same, bytes.len - same);
}

/* ---- loosely ---- */

static uint32_t plain_char(uint32_t c)
{
    if (c >= 0x2018 && c <= 0x201B)
        return '\'';
    if (c >= 0x201C && c <= 0x201F)
        return '"';
    if ((c >= 0x2010 && c <= 0x2015) || c == 0x2212)
        return '-';
    if (c == 0xA0 || (c >= 0x2002 && c <= 0x200A) || c == 0x202F || c == 0x205F || c == 0x3000)
        return ' ';
    return c;
}

/* The end of the line without the blanks there. */
static size_t trimmed_end(tc_str text, size_t start, size_t end)
{
    while (end > start) {
        size_t at = end - 1, len;
        while (at > start && ((unsigned char)text.ptr[at] & 0xC0) == 0x80)
            at--;
        if (!tci_is_blank_char(tci_char_at(tci_str_sub(text, at, end - at), &len)))
            break;
        end = at;
    }
    return end;
}

/* One segment: [at, end) of text. */
static void add_segment(tci_text_view *v, tc_str text, size_t at, size_t end)
{
    uint32_t in[TCI_SEGMENT_MAX], out[TCI_SEGMENT_MAX];
    size_t n = 0, len;
    tc_str source = tci_str_sub(text, at, end - at);
    for (size_t i = 0; i < source.len && n < TCI_SEGMENT_MAX; i += len)
        in[n++] = tci_char_at(tci_str_sub(source, i, source.len), &len);
    size_t nout = n < TCI_SEGMENT_MAX && in[0] < TCI_RAW_BYTE
                      ? tci_compose_segment(in, n, out, TCI_SEGMENT_MAX)
                      : 0;
    char bytes[TCI_SEGMENT_MAX * 4];
    tci_buf b = {.ptr = bytes, .cap = sizeof bytes, .max = sizeof bytes};
    for (size_t i = 0; i < nout; i++)
        tci_put_char(&b, plain_char(out[i]));
    if (nout == 0 || tci_str_eq(tci_buf_str(&b), source))
        tci_buf_append_str(&v->text, source);
    else
        add_unit(v, tci_buf_str(&b), at, source.len);
}

static void add_line(tci_text_view *v, tc_str text, size_t start, size_t end)
{
    size_t at = start, len;
    while (at < end) {
        size_t from = at;
        while (at < end && (unsigned char)text.ptr[at] < 0x80)
            at++;
        if (at < end && at > from)
            at--; /* a mark that follows belongs to the last of them */
        tci_buf_append(&v->text, text.ptr + from, at - from);
        if (at == end)
            break;
        from = at;
        (void)tci_char_at(tci_str_sub(text, at, end - at), &len); /* only its length */
        at += len;
        while (at < end && !tci_starts_segment(tci_char_at(tci_str_sub(text, at, end - at), &len)))
            at += len;
        add_segment(v, text, from, at);
    }
}

void tci_view_loosely(tci_text_view *v, tc_str text)
{
    size_t start = 0;
    init(v);
    while (start < text.len) {
        size_t end = start + tci_str_find_byte(tci_str_sub(text, start, text.len), '\n');
        size_t last = trimmed_end(text, start, end);
        add_line(v, text, start, last);
        if (last < end)
            add_unit(v, (tc_str){0}, last, end - last);
        if (end < text.len)
            tci_buf_append_byte(&v->text, '\n');
        start = end + 1;
    }
}

/* ---- the way back ---- */

/* The first unit that ends behind at, or, with at_too, at it. */
static size_t first_unit_after(const tci_text_view *v, size_t at, bool at_too)
{
    size_t low = 0, high = v->nunits;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        size_t end = v->units[mid].view + v->units[mid].nview;
        if (end < at || (end == at && !at_too))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Where the source goes on when the first n units are behind. */
static size_t source_behind(const tci_text_view *v, size_t n, size_t at)
{
    if (n == 0)
        return at;
    const tci_view_unit *u = &v->units[n - 1];
    return u->source + u->nsource + (at - (u->view + u->nview));
}

void tci_view_back(const tci_text_view *v, size_t start, size_t end, tci_view_range *ret_range)
{
    tc_str text = tci_buf_str(&v->text);
    tci_view_range range = {0};
    size_t i = first_unit_after(v, start, false); /* all that ends at or before start is behind */
    if (i < v->nunits && v->units[i].view < start) {
        range.start = v->units[i].source;
        range.before = tci_str_sub(text, v->units[i].view, start - v->units[i].view);
    } else {
        range.start = source_behind(v, i, start);
    }
    /* The end: a unit that is nothing there and stands right behind it is not in the range. */
    size_t j = first_unit_after(v, end, true);
    while (j < v->nunits && v->units[j].view + v->units[j].nview == end && v->units[j].nview > 0)
        j++;
    if (j < v->nunits && v->units[j].view < end && v->units[j].view + v->units[j].nview > end) {
        const tci_view_unit *u = &v->units[j];
        range.end = u->source + u->nsource;
        range.after = tci_str_sub(text, end, u->view + u->nview - end);
    } else {
        range.end = source_behind(v, j, end);
    }
    if (range.end < range.start)
        range.end = range.start;
    *ret_range = range;
}
