/* SPDX-License-Identifier: Apache-2.0
 *
 * Replacing text and writing the change as a diff. Pure. Invariant: applied to the text it was made
 * from, the diff gives exactly the bytes that replacing gives. */
#include "edit.h"

#include "base/utf8.h"

/* What file.patch_text takes. */
enum { LINE_BYTES_MAX = 65536, HUNK_LINES_MAX = 10000, HUNKS_MAX = 10000 };

size_t cli_edit_count(tc_str text, tc_str needle)
{
    size_t n = 0;
    for (;;) {
        size_t at = tci_str_find(text, needle);
        if (at == text.len)
            return n;
        n++;
        text = tci_str_sub(text, at + needle.len, SIZE_MAX);
    }
}

void cli_edit_replace(tc_str text, tc_str needle, tc_str with, size_t n, tci_buf *out)
{
    for (; n > 0; n--) {
        size_t at = tci_str_find(text, needle);
        if (at == text.len)
            break;
        tci_buf_append(out, text.ptr, at);
        tci_buf_append_str(out, with);
        text = tci_str_sub(text, at + needle.len, SIZE_MAX);
    }
    tci_buf_append_str(out, text);
}

/* Lines [from, to) of text in bytes, and what takes their place. */
typedef struct region {
    size_t from, to;
    tci_buf now;
} region;

typedef struct differ {
    tc_str text, needle, with;
    tci_buf *out;
    size_t counted; /* bytes of text whose lines are in old_line */
    size_t old_line;
    int64_t shift; /* new line number less old line number */
    size_t nhunks;
    bool is_fine;
} differ;

static size_t line_start(tc_str text, size_t at)
{
    while (at > 0 && text.ptr[at - 1] != '\n')
        at--;
    return at;
}

/* Just behind the line that the byte before `at` is in. */
static size_t line_end(tc_str text, size_t at)
{
    while (at < text.len && text.ptr[at - 1] != '\n')
        at++;
    return at;
}

static size_t count_lines(tc_str s)
{
    size_t n = 0, from = 0;
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] == '\n') {
            n++;
            from = i + 1;
        }
    return from < s.len ? n + 1 : n;
}

static void put_lines(differ *d, char mark, tc_str s)
{
    while (s.len > 0) {
        size_t end = tci_str_find_byte(s, '\n');
        d->is_fine = d->is_fine && end < LINE_BYTES_MAX;
        tci_buf_append_byte(d->out, mark);
        tci_buf_append(d->out, s.ptr, end);
        tci_buf_append_byte(d->out, '\n');
        if (end == s.len)
            tci_buf_append_str(d->out, TC_STR("\\ No newline at end of file\n"));
        s = tci_str_sub(s, end + 1, SIZE_MAX);
    }
}

static void put_hunk(differ *d, const region *r)
{
    tc_str was = tci_str_sub(d->text, r->from, r->to - r->from);
    tc_str now = tci_buf_str(&r->now);
    size_t nold = count_lines(was), nnew = count_lines(now);
    d->old_line += count_lines(tci_str_sub(d->text, d->counted, r->from - d->counted));
    size_t first_old = d->old_line + 1;
    int64_t first_new = (int64_t)first_old + d->shift;
    d->is_fine =
        d->is_fine && nold <= HUNK_LINES_MAX && nnew <= HUNK_LINES_MAX && ++d->nhunks <= HUNKS_MAX;
    tci_buf_printf(d->out, "@@ -%zu,%zu +%lld,%zu @@\n", first_old, nold,
                   (long long)(nnew > 0 ? first_new : first_new - 1), nnew);
    put_lines(d, '-', was);
    put_lines(d, '+', now);
    d->old_line += nold;
    d->counted = r->to;
    d->shift += (int64_t)nnew - (int64_t)nold;
}

/* Does a part without its line end, or nothing at all, stand where text goes on? Then the next line
 * belongs to the region too. */
static bool wants_more(const differ *d, const region *r)
{
    tc_str now = tci_buf_str(&r->now);
    return r->to < d->text.len && !tci_str_ends(now, TC_STR("\n"));
}

static size_t next_match(const differ *d, size_t from)
{
    return from + tci_str_find(tci_str_sub(d->text, from, SIZE_MAX), d->needle);
}

/* The region that begins with the match at `at`; *at becomes the next match, *n what is left. */
static void take_region(differ *d, region *r, size_t *at, size_t *n)
{
    size_t done = line_start(d->text, *at); /* of text, as far as it is in r->now */
    r->from = done;
    do {
        while (*n > 0 && (done == r->from || *at < r->to)) {
            tci_buf_append(&r->now, d->text.ptr + done, *at - done);
            tci_buf_append_str(&r->now, d->with);
            done = *at + d->needle.len;
            r->to = line_end(d->text, done);
            *n -= 1;
            *at = *n > 0 ? next_match(d, done) : d->text.len;
        }
        tci_buf_append(&r->now, d->text.ptr + done, r->to - done);
        done = r->to;
        if (!wants_more(d, r))
            return;
        r->to = line_end(d->text, r->to + 1);
    } while (tci_buf_ok(&r->now));
}

bool cli_edit_diff(tc_str text, tc_str needle, tc_str with, size_t n, tci_buf *out)
{
    differ d = {.text = text, .needle = needle, .with = with, .out = out, .is_fine = true};
    if (!tci_utf8_is_valid(text) || !tci_utf8_is_valid(with) ||
        tci_str_find_byte(text, '\0') < text.len || tci_str_find_byte(with, '\0') < with.len)
        return false;
    size_t at = next_match(&d, 0);
    while (n > 0 && d.is_fine && tci_buf_ok(out)) {
        region r = {0};
        tci_buf_init(&r.now, TCI_BUF_MAX);
        take_region(&d, &r, &at, &n);
        d.is_fine = d.is_fine && tci_buf_ok(&r.now);
        put_hunk(&d, &r);
        tci_buf_done(&r.now);
    }
    return d.is_fine && tci_buf_ok(out);
}
