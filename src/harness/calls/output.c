/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeping the head or the tail of a text. Counting and pacing what is committed of it is
 * tool_report.c; what models see beside it is tool_result.c. Any thread.
 *
 * To keep: kept of a tail always holds at least one byte more than the window may have, or all there
 * was since the last skip, so that the window's first line start can be found in it. */
#include "harness/calls/output.h"

#include "base/num.h"

static bool is_inside(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* The last character boundary at or before at. */
static size_t boundary_before(tc_str s, size_t at)
{
    while (at > 0 && at < s.len && is_inside(s.ptr[at]))
        at--;
    return at;
}

static size_t boundary_after(tc_str s, size_t at)
{
    while (at < s.len && is_inside(s.ptr[at]))
        at++;
    return at;
}

uint64_t tci_output_count_lines(tc_str text)
{
    if (text.len == 0)
        return 0;
    return tci_str_count_byte(text, '\n') + (text.ptr[text.len - 1] != '\n');
}

static size_t head_end(tc_str text, const tci_output_limits *limits)
{
    if (limits->max_lines == 0 || limits->max_bytes == 0)
        return 0;
    size_t end = 0;
    for (uint64_t n = 0; n < limits->max_lines && end < text.len && end <= limits->max_bytes; n++) {
        tc_str rest = tci_str_sub(text, end, text.len);
        size_t at = tci_str_find_byte(rest, '\n');
        end += at == rest.len ? at : at + 1;
    }
    if (end <= limits->max_bytes)
        return end;
    tc_str fits = tci_str_sub(text, 0, (size_t)limits->max_bytes);
    size_t at = tci_str_rfind_byte(fits, '\n');
    return at == fits.len ? boundary_before(text, (size_t)limits->max_bytes) : at + 1;
}

static size_t tail_start(tc_str text, const tci_output_limits *limits)
{
    if (limits->max_lines == 0 || limits->max_bytes == 0)
        return text.len;
    size_t start = 0;
    size_t end = text.len > 0 && text.ptr[text.len - 1] == '\n' ? text.len - 1 : text.len;
    for (uint64_t n = 1; end > 0; n++) { /* the newline before each line, from the last line on */
        size_t at = tci_str_rfind_byte(tci_str_sub(text, 0, end), '\n');
        if (at == end)
            break;
        if (n == limits->max_lines || text.len - at > limits->max_bytes + 1) {
            start = at + 1;
            break;
        }
        end = at;
    }
    if (text.len - start <= limits->max_bytes)
        return start;
    size_t first = text.len - (size_t)limits->max_bytes;
    size_t from = first > 0 ? first - 1 : 0;
    size_t at = from + tci_str_find_byte(tci_str_sub(text, from, text.len), '\n');
    return at + 1 < text.len ? at + 1 : boundary_after(text, first);
}

void tci_output_bound(tc_str text, const tci_output_limits *limits, tci_output_slice *ret_slice)
{
    tci_output_slice s = {.end = text.len};
    if (limits->retain == TC_RETAIN_HEAD)
        s.end = head_end(text, limits);
    else
        s.start = tail_start(text, limits);
    size_t n = s.end - s.start;
    s.dropped_bytes = text.len - n;
    if (s.dropped_bytes > 0)
        s.dropped_lines =
            tci_output_count_lines(text) - tci_output_count_lines(tci_str_sub(text, s.start, n));
    *ret_slice = s;
}

/* Bytes at at of a character that is not shown; 0: it is. */
static size_t unshown(tc_str s, size_t at)
{
    unsigned char c = (unsigned char)s.ptr[at];
    if (c < 0x20)
        return c != '\t' && c != '\n';
    /* U+FFF9-FFFB are EF BF B9-BB */
    if (c == 0xEF && at + 2 < s.len && (unsigned char)s.ptr[at + 1] == 0xBF) {
        unsigned char last = (unsigned char)s.ptr[at + 2];
        return last >= 0xB9 && last <= 0xBB ? 3 : 0;
    }
    return 0;
}

void tci_output_clean(tci_buf *b, tc_str text)
{
    size_t from = 0, at = 0;
    while (at < text.len) {
        size_t n = unshown(text, at);
        if (n == 0) {
            at++;
            continue;
        }
        tci_buf_append(b, text.ptr + from, at - from);
        at += n;
        from = at;
    }
    if (from < at)
        tci_buf_append(b, text.ptr + from, at - from);
}

/* ---- a running output ---- */

void tci_output_init(tci_output *o, const tci_output_limits *limits)
{
    *o = (tci_output){.limits = *limits};
    tci_buf_init(&o->scratch, TCI_BUF_MAX);
    tci_buf_init(&o->kept, TCI_BUF_MAX);
}

void tci_output_done(tci_output *o)
{
    tci_buf_done(&o->scratch);
    tci_buf_done(&o->kept);
}

/* Of a head: nothing past a full window is ever needed. */
static void keep_head(tci_output *o, tc_str text)
{
    if (o->is_full)
        return;
    size_t room = (size_t)o->limits.max_bytes + 1 - o->kept.len;
    tci_buf_append_str(&o->kept,
                       tci_str_sub(text, 0, boundary_after(text, tci_min_size(room, text.len))));
    o->is_full = o->kept.len > o->limits.max_bytes ||
                 tci_str_count_byte(tci_buf_str(&o->kept), '\n') >= o->limits.max_lines;
}

static void keep_tail(tci_output *o, tc_str text, uint64_t at)
{
    size_t window = (size_t)o->limits.max_bytes + 1;
    if (text.len > window) {
        size_t from = boundary_before(text, text.len - window);
        tci_buf_clear(&o->kept);
        text = tci_str_sub(text, from, text.len);
        at += from;
    }
    if (o->kept.len == 0)
        o->kept_at = at;
    tci_buf_append_str(&o->kept, text);
    if (o->kept.len > 2 * window + 4096) { /* seldom, so that each byte moves once or twice */
        size_t from = boundary_before(tci_buf_str(&o->kept), o->kept.len - window);
        tci_buf_consume(&o->kept, from);
        o->kept_at += from;
    }
}

static bool accept(tci_output *o, tc_str text)
{
    if (text.len == 0)
        return false;
    uint64_t at = o->total_bytes;
    o->total_bytes += text.len;
    o->total_newlines += tci_str_count_byte(text, '\n');
    o->is_open_line = text.ptr[text.len - 1] != '\n';
    if (o->limits.retain == TC_RETAIN_HEAD)
        keep_head(o, text);
    else
        keep_tail(o, text, at);
    return true;
}

static void skip(tci_output *o, const tc_skipped *skipped)
{
    if (skipped->nbytes == 0)
        return;
    o->total_bytes += skipped->nbytes;
    o->total_newlines += skipped->nnewlines;
    o->is_open_line = !skipped->ends_with_newline;
    tci_buf_clear(&o->kept);
    o->kept_at = o->total_bytes;
}

int tci_output_push(tci_output *o, tc_str bytes, const tc_skipped *skipped, bool *ret_accepted,
                    tc_err *err)
{
    bool accepted = false;
    if (skipped != NULL) {
        if (o->limits.retain != TC_RETAIN_TAIL)
            return tc_err_set(err, TC_E_INVALID, "skipped output requires tail retention");
        bool has_begun = o->stream.has_begun;
        if (o->stream.nheld > 0)
            accept(o, tci_utf8_stream_end(&o->stream));
        skip(o, skipped);
        o->stream.has_begun = has_begun || skipped->nbytes > 0;
        accepted = true;
    }
    tci_buf_clear(&o->scratch);
    if (accept(o, tci_utf8_stream_feed(&o->stream, bytes, &o->scratch)))
        accepted = true;
    *ret_accepted = accepted;
    if (tci_buf_error(&o->scratch, err) < 0)
        return err->code;
    return tci_buf_error(&o->kept, err);
}

void tci_output_end(tci_output *o)
{
    accept(o, tci_utf8_stream_end(&o->stream));
}

void tci_output_look(const tci_output *o, tci_output_view *ret_view)
{
    tc_str kept = tci_buf_str(&o->kept);
    tci_output_slice s;
    tci_output_bound(kept, &o->limits, &s);
    tci_output_view v = {.text = tci_str_sub(kept, s.start, s.end - s.start),
                         .at = o->kept_at + s.start};
    v.dropped_bytes = o->total_bytes - v.text.len;
    uint64_t lines = o->total_newlines + (o->is_open_line ? 1 : 0);
    v.dropped_lines = lines - tci_output_count_lines(v.text);
    *ret_view = v;
}

/* ---- the head of a file ---- */

void tci_head_of(tc_str prefix, uint64_t total_lines, uint64_t total_bytes, tci_head *ret_head)
{
    tci_head h = {.total_lines = total_lines, .total_bytes = total_bytes};
    if (total_lines <= TCI_OUTPUT_MAX_LINES && total_bytes <= TCI_OUTPUT_MAX_BYTES) {
        h.len = prefix.len;
        h.nlines = total_lines;
        *ret_head = h;
        return;
    }
    h.is_truncated = true;
    size_t at = 0;
    while (at < prefix.len && h.nlines < TCI_OUTPUT_MAX_LINES) {
        tc_str rest = tci_str_sub(prefix, at, prefix.len);
        size_t end = at + tci_str_find_byte(rest, '\n');
        if (end > TCI_OUTPUT_MAX_BYTES) {
            h.is_by_bytes = true;
            break;
        }
        h.len = end;
        h.nlines++;
        at = end + 1;
    }
    h.is_first_line_too_long = h.nlines == 0 && h.is_by_bytes;
    if (!h.is_by_bytes && h.nlines >= total_lines)
        h.is_by_bytes = true;
    *ret_head = h;
}

void tci_put_size(tci_buf *b, uint64_t nbytes)
{
    if (nbytes < 1024) {
        tci_buf_printf(b, "%lluB", (unsigned long long)nbytes);
        return;
    }
    bool is_mib = nbytes >= 1024 * 1024;
    uint64_t unit = is_mib ? 1024 * 1024 : 1024;
    uint64_t tenths = (nbytes % unit * 10 + unit / 2) / unit;
    tci_buf_printf(b, "%llu.%llu%s", (unsigned long long)(nbytes / unit + tenths / 10),
                   (unsigned long long)(tenths % 10), is_mib ? "MB" : "KB");
}
