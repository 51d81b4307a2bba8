/* SPDX-License-Identifier: Apache-2.0
 *
 * The paths that have to be told: gathered while scanning, told once, in order. Leaves to others
 * whether they fit what they are sent in. Owner of the set. Invariant: a path that could not be kept
 * has set is_overflow, which makes all paths needless. */
#include "ops/watch/watch_int.h"

#include <stdlib.h>

static void overflow(tci_wset *s)
{
    s->is_overflow = true;
    tci_buf_clear(&s->report);
    tci_buf_trim(&s->report, 0);
    s->report_count = 0;
}

void tci_wreport_rel(const tci_wdir *d, tci_buf *out)
{
    size_t len = 0;
    for (const tci_wdir *at = d; at != NULL && at->parent != NULL; at = at->parent)
        len += at->name_len + 1;
    char *end = tci_buf_reserve(out, len);
    if (end == NULL || len == 0)
        return;
    end += len;
    for (const tci_wdir *at = d; at->parent != NULL; at = at->parent) {
        *--end = '/'; /* behind each name but the last, where the next round of the loop is over */
        end -= at->name_len;
        memcpy(end, at->name, at->name_len);
    }
    tci_buf_commit(out, len - 1);
}

void tci_wreport(tci_wtarget *t, const tci_wdir *d, tc_str name)
{
    tci_wset *s = t->set;
    if (s->is_quiet || s->is_overflow)
        return;
    tci_buf *out = &s->report;
    tci_buf_append(out, t->path, t->path_len);
    bool ends_in_slash = t->path_len != 0 && t->path[t->path_len - 1] == '/';
    if (d != NULL && d->parent != NULL) {
        if (!ends_in_slash)
            tci_buf_append_byte(out, '/');
        ends_in_slash = false;
        tci_wreport_rel(d, out);
    }
    if (name.len != 0) {
        if (!ends_in_slash)
            tci_buf_append_byte(out, '/');
        tci_buf_append_str(out, name);
    }
    tci_buf_append_byte(out, '\0');
    s->report_count++;
    if (!tci_buf_ok(out) || out->len > TCI_WATCH_REPORT_BYTES)
        overflow(s);
}

/* Order of UTF-16 code units. It differs from that of bytes only where a character above U+FFFF
 * (lead byte F0 and up; as UTF-16 a surrogate) meets one from U+E000 on (lead byte EE or EF). */
static int compare_utf16(const void *a, const void *b)
{
    tc_str x = *(const tc_str *)a, y = *(const tc_str *)b;
    size_t n = x.len < y.len ? x.len : y.len, i = 0;
    while (i < n && x.ptr[i] == y.ptr[i])
        i++;
    if (i == n)
        return x.len < y.len ? -1 : x.len > y.len;
    unsigned char p = (unsigned char)x.ptr[i], q = (unsigned char)y.ptr[i];
    bool is_less = p < q;
    if ((p >= 0xf0 && (q == 0xee || q == 0xef)) || (q >= 0xf0 && (p == 0xee || p == 0xef)))
        is_less = !is_less;
    return is_less ? -1 : 1;
}

bool tci_wreport_take(tci_wset *s, tci_ops_watch_event *ret)
{
    if (s->report_count != 0)
        s->sorted = tci_mem_array(s->report_count, sizeof *s->sorted);
    if (s->report_count != 0 && s->sorted == NULL)
        overflow(s);
    *ret = (tci_ops_watch_event){.kind = TCI_OPS_WATCH_CHANGE,
                                 .mode = s->mode,
                                 .has_switched = s->has_switched,
                                 .is_overflow = s->is_overflow,
                                 .why = s->has_switched ? &s->why : NULL};
    if (s->is_overflow)
        return true;
    size_t at = 0, n = 0;
    for (size_t i = 0; i < s->report_count; i++) {
        s->sorted[i] = tci_str(s->report.ptr + at);
        at += s->sorted[i].len + 1;
    }
    if (s->report_count > 1)
        qsort(s->sorted, s->report_count, sizeof *s->sorted, compare_utf16);
    for (size_t i = 0; i < s->report_count; i++)
        if (n == 0 || !tci_str_eq(s->sorted[n - 1], s->sorted[i]))
            s->sorted[n++] = s->sorted[i];
    ret->paths = s->sorted;
    ret->npaths = n;
    return n != 0;
}

void tci_wreport_clear(tci_wset *s)
{
    tci_free(s->sorted);
    s->sorted = NULL;
    s->report_count = 0;
    s->is_overflow = s->has_switched = false;
    tci_buf_clear(&s->report);
    tci_buf_trim(&s->report, 0);
}
