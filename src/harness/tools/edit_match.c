/* SPDX-License-Identifier: Apache-2.0
 *
 * Matching edits in a view of the file and making them in its bytes. What changed is told by
 * edit_diff.c. Any thread.
 *
 * To keep: a byte outside all splices is never touched, and in exact matching a splice holds only what
 * differs between old and new text. */
#include "harness/tools/edit_match.h"

#include "base/num.h"
#include "harness/tools/text_view.h"

typedef struct match {
    size_t edit, start, end; /* in the view */
    tc_str new_text;
} match;

typedef struct matcher {
    tc_str bytes, path;
    const tci_edit *edits;
    size_t nedits;
    tci_arena *a;
    tci_text_view lines, loose;
    bool is_loose;
    tc_str *old_texts, *loose_old_texts, *new_texts;
    match *matches;
    tc_str refusal;
    tc_err *err;
} matcher;

/* ---- texts ---- */

/* text with "\n" for every line end, in the arena. */
static int to_lines(matcher *m, tc_str text, tc_str *ret)
{
    char *out = tci_arena_bytes(m->a, text.len + 1);
    size_t n = 0;
    if (out == NULL)
        return tci_arena_error(m->a, m->err);
    for (size_t i = 0; i < text.len; i++) {
        bool is_return = text.ptr[i] == '\r';
        out[n++] = is_return ? '\n' : text.ptr[i];
        if (is_return && i + 1 < text.len && text.ptr[i + 1] == '\n')
            i++;
    }
    *ret = tci_str_of(out, n);
    return 0;
}

static int to_loose(matcher *m, tc_str text, tc_str *ret)
{
    tci_text_view v;
    tci_view_loosely(&v, text);
    int rc = tci_view_error(&v, m->err);
    if (rc == 0)
        rc = tci_arena_dup(m->a, tci_buf_str(&v.text), ret, m->err);
    tci_view_done(&v);
    return rc;
}

static int prepare_texts(matcher *m)
{
    m->old_texts = tci_arena_items(m->a, tc_str, m->nedits);
    m->loose_old_texts = tci_arena_items(m->a, tc_str, m->nedits);
    m->new_texts = tci_arena_items(m->a, tc_str, m->nedits);
    m->matches = tci_arena_items(m->a, match, m->nedits);
    if (m->matches == NULL || m->old_texts == NULL || m->loose_old_texts == NULL ||
        m->new_texts == NULL)
        return tci_arena_error(m->a, m->err);
    for (size_t i = 0; i < m->nedits; i++)
        if (to_lines(m, m->edits[i].old_text, &m->old_texts[i]) < 0 ||
            to_lines(m, m->edits[i].new_text, &m->new_texts[i]) < 0 ||
            to_loose(m, m->old_texts[i], &m->loose_old_texts[i]) < 0)
            return m->err->code;
    return 0;
}

/* ---- finding ---- */

/* Occurrences that do not overlap. */
static size_t count(tc_str text, tc_str needle)
{
    size_t n = 0, at = 0;
    while (needle.len > 0 && at < text.len) {
        tc_str rest = tci_str_sub(text, at, text.len);
        size_t found = tci_str_find(rest, needle);
        if (found == rest.len)
            break;
        n++;
        at += found + needle.len;
    }
    return n;
}

static int refuse_empty(matcher *m, size_t edit)
{
    if (m->nedits == 1)
        return tci_arena_printf(m->a, &m->refusal, m->err, "oldText must not be empty in %.*s.",
                                TC_STR_ARG(m->path));
    return tci_arena_printf(m->a, &m->refusal, m->err,
                            "edits[%zu].oldText must not be empty in %.*s.", edit,
                            TC_STR_ARG(m->path));
}

static int refuse_missing(matcher *m, size_t edit)
{
    if (m->nedits == 1)
        return tci_arena_printf(m->a, &m->refusal, m->err,
                                "Could not find the exact text in %.*s. The old text must match "
                                "exactly including all whitespace and newlines.",
                                TC_STR_ARG(m->path));
    return tci_arena_printf(m->a, &m->refusal, m->err,
                            "Could not find edits[%zu] in %.*s. The oldText must match exactly "
                            "including all whitespace and newlines.",
                            edit, TC_STR_ARG(m->path));
}

static int refuse_several(matcher *m, size_t edit, size_t n)
{
    if (m->nedits == 1)
        return tci_arena_printf(m->a, &m->refusal, m->err,
                                "Found %zu occurrences of the text in %.*s. The text must be "
                                "unique. Please provide more context to make it unique.",
                                n, TC_STR_ARG(m->path));
    return tci_arena_printf(m->a, &m->refusal, m->err,
                            "Found %zu occurrences of edits[%zu] in %.*s. Each oldText must be "
                            "unique. Please provide more context to make it unique.",
                            n, edit, TC_STR_ARG(m->path));
}

static int find_one(matcher *m, size_t edit, tc_str text)
{
    tc_str needle = m->is_loose ? m->loose_old_texts[edit] : m->old_texts[edit];
    tc_str loose = tci_buf_str(&m->loose.text), loose_needle = m->loose_old_texts[edit];
    size_t at = tci_str_find(text, needle);
    if (needle.len == 0 || at == text.len)
        return refuse_missing(m, edit);
    /* Counted loosely, so that a text is not taken for unique by its quotes; one of blanks only has no
     * loose form. */
    size_t n = loose_needle.len > 0 ? count(loose, loose_needle) : count(text, needle);
    if (n > 1)
        return refuse_several(m, edit, n);
    m->matches[edit] = (match){edit, at, at + needle.len, m->new_texts[edit]};
    return 0;
}

static int find_all(matcher *m)
{
    tc_str lines = tci_buf_str(&m->lines.text);
    for (size_t i = 0; i < m->nedits; i++)
        if (m->old_texts[i].len == 0)
            return refuse_empty(m, i);
    for (size_t i = 0; i < m->nedits; i++)
        m->is_loose |= tci_str_find(lines, m->old_texts[i]) == lines.len;
    tc_str text = m->is_loose ? tci_buf_str(&m->loose.text) : lines;
    for (size_t i = 0; i < m->nedits && m->refusal.len == 0; i++)
        if (find_one(m, i, text) < 0)
            return m->err->code;
    return 0;
}

static int refuse_overlap(matcher *m, const match *a, const match *b)
{
    return tci_arena_printf(
        m->a, &m->refusal, m->err,
        "edits[%zu] and edits[%zu] overlap in %.*s. Merge them into one edit or "
        "target disjoint regions.",
        a->edit, b->edit, TC_STR_ARG(m->path));
}

static int sort_matches(matcher *m)
{
    for (size_t i = 1; i < m->nedits; i++) {
        match one = m->matches[i];
        size_t at = i;
        for (; at > 0 && m->matches[at - 1].start > one.start; at--)
            m->matches[at] = m->matches[at - 1];
        m->matches[at] = one;
    }
    for (size_t i = 1; i < m->nedits; i++)
        if (m->matches[i - 1].end > m->matches[i].start)
            return refuse_overlap(m, &m->matches[i - 1], &m->matches[i]);
    return 0;
}

/* ---- making splices ---- */

/* How the line ends that holds byte at: as the next line end does, or else the one before. */
static tc_str line_end_at(tc_str bytes, size_t at)
{
    size_t next = at + tci_str_find_byte(tci_str_sub(bytes, at, bytes.len), '\n');
    if (next == bytes.len) {
        tc_str before = tci_str_sub(bytes, 0, at);
        size_t last = tci_str_rfind_byte(before, '\n');
        if (last == before.len)
            return tci_str_find_byte(bytes, '\r') < bytes.len ? TC_STR("\r") : TC_STR("\n");
        next = last;
    }
    return next > 0 && bytes.ptr[next - 1] == '\r' ? TC_STR("\r\n") : TC_STR("\n");
}

/* before, text and after in one, with the file's line ends. */
static int write_text(matcher *m, const tci_view_range *r, tc_str text, tc_str *ret)
{
    tc_str end = line_end_at(m->bytes, r->start);
    size_t nlines = tci_str_count_byte(text, '\n'), n = 0;
    char *out =
        tci_arena_bytes(m->a, r->before.len + text.len + nlines * end.len + r->after.len + 1);
    if (out == NULL)
        return tci_arena_error(m->a, m->err);
    if (r->before.len > 0)
        memcpy(out, r->before.ptr, r->before.len);
    n = r->before.len;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\n') {
            memcpy(out + n, end.ptr, end.len);
            n += end.len;
        } else {
            out[n++] = text.ptr[i];
        }
    }
    if (r->after.len > 0)
        memcpy(out + n, r->after.ptr, r->after.len);
    *ret = tci_str_of(out, n + r->after.len);
    return 0;
}

/* Leave out what old and new text have in common at both ends, between characters. */
static void trim_common(tc_str view, match *x)
{
    tc_str old = tci_str_sub(view, x->start, x->end - x->start), new = x->new_text;
    size_t head = 0, tail = 0, most = tci_min_size(old.len, new.len);
    while (head < most && old.ptr[head] == new.ptr[head])
        head++;
    while (head > 0 && ((head < old.len && ((unsigned char)old.ptr[head] & 0xC0) == 0x80) ||
                        (head < new.len && ((unsigned char)new.ptr[head] & 0xC0) == 0x80)))
        head--;
    while (tail < most - head && old.ptr[old.len - 1 - tail] == new.ptr[new.len - 1 - tail])
        tail++;
    while (tail > 0 && ((unsigned char)old.ptr[old.len - tail] & 0xC0) == 0x80)
        tail--;
    x->start += head;
    x->end -= tail;
    x->new_text = tci_str_sub(new, head, new.len - head - tail);
}

/* A loose match through the line view to the bytes: a unit of the loose view is bytes of the line view. */
static int back_from_loose(matcher *m, const match *x, tci_view_range *ret)
{
    tci_view_range outer, inner;
    tc_str old = m->old_texts[x->edit], lines = tci_buf_str(&m->lines.text);
    tci_view_back(&m->loose, x->start, x->end, &outer);
    /* Blanks at the end of the old text mean the blanks at the end of the line, too. */
    bool has_blanks = old.len > 0 && (old.ptr[old.len - 1] == ' ' || old.ptr[old.len - 1] == '\t');
    while (has_blanks && outer.after.len == 0 && outer.end < lines.len &&
           (lines.ptr[outer.end] == ' ' || lines.ptr[outer.end] == '\t'))
        outer.end++;
    tci_view_back(&m->lines, outer.start, outer.end, &inner);
    *ret = (tci_view_range){inner.start, inner.end, outer.before, outer.after};
    return 0;
}

static int make_splices(matcher *m, tci_splice **ret, size_t *ret_n)
{
    tci_splice *splices = tci_arena_items(m->a, tci_splice, m->nedits);
    size_t n = 0;
    if (splices == NULL)
        return tci_arena_error(m->a, m->err);
    for (size_t i = 0; i < m->nedits; i++) {
        match x = m->matches[i];
        tci_view_range r;
        if (m->is_loose) {
            if (back_from_loose(m, &x, &r) < 0)
                return m->err->code;
        } else {
            trim_common(tci_buf_str(&m->lines.text), &x);
            if (x.start == x.end && x.new_text.len == 0)
                continue; /* old and new are the same */
            tci_view_back(&m->lines, x.start, x.end, &r);
        }
        if (n > 0 && r.start < splices[n - 1].end) {
            *ret_n = 0;
            return refuse_overlap(m, &m->matches[i - 1], &m->matches[i]);
        }
        splices[n] = (tci_splice){.start = r.start, .end = r.end};
        if (write_text(m, &r, x.new_text, &splices[n].text) < 0)
            return m->err->code;
        tc_str there = tci_str_sub(m->bytes, r.start, r.end - r.start);
        n += tci_str_eq(there, splices[n].text) ? 0 : 1;
    }
    *ret = splices;
    *ret_n = n;
    return 0;
}

static int refuse_no_change(matcher *m)
{
    if (m->nedits == 1)
        return tci_arena_printf(m->a, &m->refusal, m->err,
                                "No changes made to %.*s. The replacement produced identical "
                                "content. This might indicate an issue with special characters or "
                                "the text not existing as expected.",
                                TC_STR_ARG(m->path));
    return tci_arena_printf(m->a, &m->refusal, m->err,
                            "No changes made to %.*s. The replacements produced identical content.",
                            TC_STR_ARG(m->path));
}

static int match_all(matcher *m, tci_splice **ret_splices, size_t *ret_n)
{
    *ret_n = 0;
    if (tci_view_error(&m->lines, m->err) < 0 || tci_view_error(&m->loose, m->err) < 0 ||
        prepare_texts(m) < 0 || find_all(m) < 0)
        return m->err->code;
    if (m->refusal.len > 0)
        return 0;
    if (sort_matches(m) < 0)
        return m->err->code;
    if (m->refusal.len > 0)
        return 0;
    if (make_splices(m, ret_splices, ret_n) < 0)
        return m->err->code;
    return *ret_n == 0 && m->refusal.len == 0 ? refuse_no_change(m) : 0;
}

int tci_edit_match(tc_str bytes, const tci_edit *edits, size_t nedits, tc_str path, tci_arena *a,
                   tci_splice **ret_splices, size_t *ret_nsplices, tc_str *ret_refusal, tc_err *err)
{
    matcher m = {
        .bytes = bytes, .path = path, .edits = edits, .nedits = nedits, .a = a, .err = err};
    tci_view_lines(&m.lines, bytes);
    tci_view_loosely(&m.loose, tci_buf_str(&m.lines.text));
    int rc = match_all(&m, ret_splices, ret_nsplices);
    tci_view_done(&m.lines);
    tci_view_done(&m.loose);
    *ret_refusal = m.refusal;
    return rc;
}

void tci_edit_apply(tci_buf *b, tc_str bytes, const tci_splice *splices, size_t nsplices)
{
    size_t at = 0;
    for (size_t i = 0; i < nsplices; i++) {
        tci_buf_append_str(b, tci_str_sub(bytes, at, splices[i].start - at));
        tci_buf_append_str(b, splices[i].text);
        at = splices[i].end;
    }
    tci_buf_append_str(b, tci_str_sub(bytes, at, bytes.len));
}
