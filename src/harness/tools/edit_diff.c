/* SPDX-License-Identifier: Apache-2.0
 *
 * What an edit changed, line by line: for people, and as a unified diff. Only the lines that splices
 * touch are compared. Any thread.
 *
 * To keep: runs are in order and cover both files; a run of kind SAME has as many lines in both. */
#include "base/num.h"
#include "harness/tools/edit_match.h"

#include "base/utf8_stream.h"

enum { CONTEXT = 4, TABLE_MAX = 1000 * 1000 };

typedef enum run_kind { RUN_SAME, RUN_REMOVED, RUN_ADDED } run_kind;

/* n lines from old (SAME, REMOVED) and new (SAME, ADDED) on. */
typedef struct run {
    run_kind kind;
    size_t old, new, n;
} run;

typedef struct lines {
    tc_str bytes;
    size_t *starts; /* of each line, and the end */
    size_t n;
} lines;

typedef struct differ {
    lines old, new;
    run *runs;
    size_t nruns, cap;
    tc_err *err;
} differ;

/* ---- lines ---- */

/* Behind the line that begins at at. */
static size_t line_behind(tc_str bytes, size_t at)
{
    while (at < bytes.len && bytes.ptr[at] != '\n' && bytes.ptr[at] != '\r')
        at++;
    if (at < bytes.len && bytes.ptr[at] == '\r')
        at++;
    else
        return at < bytes.len ? at + 1 : at;
    return at < bytes.len && bytes.ptr[at] == '\n' ? at + 1 : at;
}

static int split(lines *l, tc_str bytes, tc_err *err)
{
    size_t cap = 0;
    *l = (lines){.bytes = bytes};
    for (size_t at = 0;; at = line_behind(bytes, at)) {
        if (l->n + 1 >= cap) {
            cap = cap == 0 ? 256 : cap * 2;
            size_t *grown = tci_mem_resize(l->starts, cap * sizeof *grown);
            if (grown == NULL)
                return tci_err_no_memory(err);
            l->starts = grown;
        }
        l->starts[l->n] = at;
        if (at >= bytes.len)
            return 0;
        l->n++;
    }
}

/* Without its end. */
static tc_str line_at(const lines *l, size_t i)
{
    tc_str s = tci_str_sub(l->bytes, l->starts[i], l->starts[i + 1] - l->starts[i]);
    while (s.len > 0 && (s.ptr[s.len - 1] == '\n' || s.ptr[s.len - 1] == '\r'))
        s.len--;
    return s;
}

static bool has_end(const lines *l, size_t i)
{
    char last = l->bytes.ptr[l->starts[i + 1] - 1];
    return last == '\n' || last == '\r';
}

static bool is_same_line(const differ *d, size_t old, size_t new)
{
    return tci_str_eq(line_at(&d->old, old), line_at(&d->new, new)) &&
           has_end(&d->old, old) == has_end(&d->new, new);
}

/* The line that holds the byte at, or that a text put there would go on; the number of lines when it is
 * behind the end of the last. */
static size_t line_of(const lines *l, size_t at)
{
    size_t low = 0, high = l->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (l->starts[mid + 1] <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low == l->n && l->n > 0 && !has_end(l, l->n - 1) ? l->n - 1 : low;
}

/* ---- runs ---- */

static int add_run(differ *d, run_kind kind, size_t old, size_t new, size_t n)
{
    if (n == 0)
        return 0;
    run *last = d->nruns > 0 ? &d->runs[d->nruns - 1] : NULL;
    if (last != NULL && last->kind == kind) {
        last->n += n;
        return 0;
    }
    if (d->nruns == d->cap) {
        size_t cap = d->cap == 0 ? 32 : d->cap * 2;
        run *grown = tci_mem_resize(d->runs, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(d->err);
        d->runs = grown;
        d->cap = cap;
    }
    d->runs[d->nruns++] = (run){kind, old, new, n};
    return 0;
}

/* The longest common subsequence of two short ranges, by a table of what remains. */
static int compare_by_table(differ *d, size_t old, size_t nold, size_t new, size_t nnew)
{
    size_t width = nnew + 1, i = 0, j = 0;
    uint32_t *best = tci_mem_array((nold + 1) * width, sizeof *best);
    int rc = 0;
    if (best == NULL)
        return tci_err_no_memory(d->err);
    for (size_t x = nold; x-- > 0;)
        for (size_t y = nnew; y-- > 0;) {
            uint32_t down = best[(x + 1) * width + y], right = best[x * width + y + 1];
            best[x * width + y] = is_same_line(d, old + x, new + y)
                                      ? best[(x + 1) * width + y + 1] + 1
                                      : (down > right ? down : right);
        }
    while (rc == 0 && (i < nold || j < nnew)) {
        if (i < nold && j < nnew && is_same_line(d, old + i, new + j)) {
            rc = add_run(d, RUN_SAME, old + i, new + j, 1);
            i++;
            j++;
        } else if (i < nold &&
                   (j == nnew || best[(i + 1) * width + j] >= best[i * width + j + 1])) {
            rc = add_run(d, RUN_REMOVED, old + i, new + j, 1);
            i++;
        } else {
            rc = add_run(d, RUN_ADDED, old + i, new + j, 1);
            j++;
        }
    }
    tci_mem_free(best);
    return rc;
}

/* Two ranges of lines of which something differs. */
static int compare(differ *d, size_t old, size_t nold, size_t new, size_t nnew)
{
    size_t head = 0, tail = 0, most = tci_min_size(nold, nnew), size;
    while (head < most && is_same_line(d, old + head, new + head))
        head++;
    while (tail < most - head && is_same_line(d, old + nold - 1 - tail, new + nnew - 1 - tail))
        tail++;
    int rc = add_run(d, RUN_SAME, old, new, head);
    size_t o = nold - head - tail, n = nnew - head - tail;
    if (rc == 0 && tci_mul_size(o + 1, n + 1, &size) && size <= TABLE_MAX) {
        rc = compare_by_table(d, old + head, o, new + head, n);
    } else if (rc == 0) {
        rc = add_run(d, RUN_REMOVED, old + head, new + head, o);
        if (rc == 0)
            rc = add_run(d, RUN_ADDED, old + head + o, new + head, n);
    }
    return rc < 0 ? rc : add_run(d, RUN_SAME, old + nold - tail, new + nnew - tail, tail);
}

static int compare_files(differ *d, const tci_splice *splices, size_t nsplices)
{
    size_t old = 0, new = 0, added = 0, removed = 0;
    for (size_t i = 0; i < nsplices;) {
        size_t first = line_of(&d->old, splices[i].start);
        size_t first_new = line_of(&d->new, splices[i].start + added - removed);
        size_t last, last_new;
        do { /* all splices that touch the same lines */
            size_t new_end = splices[i].start + added - removed + splices[i].text.len;
            last = line_of(&d->old, splices[i].end);
            last_new = line_of(&d->new, new_end);
            added += splices[i].text.len;
            removed += splices[i].end - splices[i].start;
            i++;
        } while (i < nsplices && line_of(&d->old, splices[i].start) <= last);
        size_t end = tci_min_size(last + 1, d->old.n),
               end_new = tci_min_size(last_new + 1, d->new.n);
        if (first > old && add_run(d, RUN_SAME, old, new, first - old) < 0)
            return d->err->code;
        if (compare(d, first, end - first, first_new, end_new - first_new) < 0)
            return d->err->code;
        old = end;
        new = end_new;
    }
    return add_run(d, RUN_SAME, old, new, d->old.n - old);
}

/* ---- for people ---- */

/* Lossy: what is no UTF-8 is shown as U+FFFD. */
static void put_text(tci_buf *b, tc_str line)
{
    tci_utf8_stream s = {.has_begun = true};
    tci_buf scratch;
    tci_buf_init(&scratch, TCI_BUF_MAX);
    tci_buf_append_str(b, tci_utf8_stream_feed(&s, line, &scratch));
    tci_buf_append_str(b, tci_utf8_stream_end(&s));
    tci_buf_done(&scratch);
}

static void put_numbered(tci_buf *b, char sign, size_t number, size_t width, tc_str line)
{
    if (b->len > 0)
        tci_buf_append_byte(b, '\n');
    tci_buf_printf(b, "%c%*zu ", sign, (int)width, number);
    put_text(b, line);
}

static void put_gap(tci_buf *b, size_t width)
{
    if (b->len > 0)
        tci_buf_append_byte(b, '\n');
    tci_buf_printf(b, " %*s ...", (int)width, "");
}

static void put_same(const differ *d, tci_buf *b, const run *r, size_t from, size_t to,
                     size_t width)
{
    for (size_t i = from; i < to; i++)
        put_numbered(b, ' ', r->old + i + 1, width, line_at(&d->old, r->old + i));
}

/* A run of lines that are the same: as much of it as is near a change. */
static void put_context(const differ *d, tci_buf *b, size_t i, size_t width)
{
    const run *r = &d->runs[i];
    size_t head = i > 0 ? tci_min_size(CONTEXT, r->n) : 0;
    size_t tail = i + 1 < d->nruns ? tci_min_size(CONTEXT, r->n) : 0;
    if (head + tail >= r->n) {
        put_same(d, b, r, 0, i > 0 || i + 1 < d->nruns ? r->n : 0, width);
        return;
    }
    put_same(d, b, r, 0, head, width);
    put_gap(b, width);
    put_same(d, b, r, r->n - tail, r->n, width);
}

static size_t digits(size_t n)
{
    size_t count = 1;
    for (; n >= 10; n /= 10)
        count++;
    return count;
}

static void put_diff(const differ *d, tci_buf *b, uint64_t *ret_first)
{
    /* Counted with the empty line behind a last newline, as editors number lines. */
    size_t old = d->old.n + (d->old.n == 0 || has_end(&d->old, d->old.n - 1));
    size_t new = d->new.n + (d->new.n == 0 || has_end(&d->new, d->new.n - 1));
    size_t width = digits(old > new ? old : new);
    *ret_first = 0;
    for (size_t i = 0; i < d->nruns; i++) {
        const run *r = &d->runs[i];
        if (r->kind != RUN_SAME && *ret_first == 0)
            *ret_first = r->new + 1;
        if (r->kind == RUN_SAME)
            put_context(d, b, i, width);
        for (size_t k = 0; r->kind == RUN_REMOVED && k < r->n; k++)
            put_numbered(b, '-', r->old + k + 1, width, line_at(&d->old, r->old + k));
        for (size_t k = 0; r->kind == RUN_ADDED && k < r->n; k++)
            put_numbered(b, '+', r->new + k + 1, width, line_at(&d->new, r->new + k));
    }
}

/* ---- for programs ---- */

static void put_line(tci_buf *b, char sign, const lines *l, size_t i)
{
    tci_buf_append_byte(b, sign);
    put_text(b, line_at(l, i));
    tci_buf_append_byte(b, '\n');
    if (!has_end(l, i))
        tci_buf_append_str(b, TC_STR("\\ No newline at end of file\n"));
}

/* Runs [first, last] as one hunk, with context of runs before and after. */
static void put_hunk(const differ *d, tci_buf *b, size_t first, size_t last)
{
    const run *f = &d->runs[first], *l = &d->runs[last];
    size_t before = first > 0 ? tci_min_size(CONTEXT, d->runs[first - 1].n) : 0;
    size_t after = last + 1 < d->nruns ? tci_min_size(CONTEXT, d->runs[last + 1].n) : 0;
    size_t old_end = l->old + (l->kind == RUN_ADDED ? 0 : l->n);
    size_t new_end = l->new + (l->kind == RUN_REMOVED ? 0 : l->n);
    size_t old = f->old - before, new = f->new - before;
    size_t nold = old_end + after - old, nnew = new_end + after - new;
    tci_buf_printf(b, "@@ -%zu,%zu +%zu,%zu @@\n", nold > 0 ? old + 1 : old, nold,
                   nnew > 0 ? new + 1 : new, nnew);
    for (size_t i = 0; i < before; i++)
        put_line(b, ' ', &d->old, old + i);
    for (size_t i = first; i <= last; i++) {
        const run *r = &d->runs[i];
        for (size_t k = 0; k < r->n; k++) {
            if (r->kind == RUN_ADDED)
                put_line(b, '+', &d->new, r->new + k);
            else
                put_line(b, r->kind == RUN_SAME ? ' ' : '-', &d->old, r->old + k);
        }
    }
    for (size_t i = 0; i < after; i++)
        put_line(b, ' ', &d->old, old_end + i);
}

static void put_patch(const differ *d, tci_buf *b, tc_str path)
{
    tci_buf_append_str(b, TC_STR("--- "));
    tci_buf_append_str(b, path);
    tci_buf_append_str(b, TC_STR("\n+++ "));
    tci_buf_append_str(b, path);
    tci_buf_append_byte(b, '\n');
    for (size_t i = 0; i < d->nruns; i++) {
        if (d->runs[i].kind == RUN_SAME)
            continue;
        size_t last = i;
        for (size_t k = i + 1; k < d->nruns; k++) { /* gaps of up to two contexts stay inside */
            if (d->runs[k].kind != RUN_SAME)
                last = k;
            else if (d->runs[k].n > 2 * CONTEXT)
                break;
        }
        put_hunk(d, b, i, last);
        i = last;
    }
}

int tci_edit_diff(tc_str before, tc_str after, const tci_splice *splices, size_t nsplices,
                  tc_str path, tci_buf *diff, tci_buf *patch, uint64_t *ret_first_line, tc_err *err)
{
    differ d = {.err = err};
    int rc = split(&d.old, before, err);
    if (rc == 0)
        rc = split(&d.new, after, err);
    if (rc == 0)
        rc = compare_files(&d, splices, nsplices);
    if (rc == 0) {
        put_diff(&d, diff, ret_first_line);
        put_patch(&d, patch, path);
        rc = tci_buf_error(diff, err);
    }
    if (rc == 0)
        rc = tci_buf_error(patch, err);
    tci_mem_free(d.old.starts);
    tci_mem_free(d.new.starts);
    tci_mem_free(d.runs);
    return rc;
}
