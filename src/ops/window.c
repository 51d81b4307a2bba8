/* SPDX-License-Identifier: Apache-2.0
 *
 * See window.h. Leaves when to ask to its owner. Invariant: the runs cover text without a gap; once
 * something is skipped there is one run, and text is larger than the window. Text is copied in
 * once; trimming moves what remains, which is a quarter of what is held at most, so each byte is
 * moved less than once on average. */
#include "ops/window.h"

#include "base/num.h"

enum { SLACK = 4, FIRST_RUNS = 8 };

typedef struct tci_window_run {
    size_t end; /* offset in text */
    unsigned stream;
} tci_window_run;

static uint64_t times_slack(uint64_t window)
{
    return window >= UINT64_MAX / SLACK - 1 ? UINT64_MAX : SLACK * (window + 1);
}

void tci_window_init(tci_window *w, const tci_window_opts *opts)
{
    *w = (tci_window){.opts = *opts, .due_ns = INT64_MIN};
    if (!(w->opts.min_interval_ms > 0))
        w->opts.min_interval_ms = 0;
    if (!(w->opts.bytes_per_second > 1))
        w->opts.bytes_per_second = 1;
    tci_buf_init(&w->text, TCI_BUF_MAX);
}

void tci_window_done(tci_window *w)
{
    tci_buf_done(&w->text);
    tci_mem_free(w->runs);
    w->runs = NULL;
    w->nruns = w->runs_cap = 0;
}

/* ---- leaving out ---- */

/* Where the window ends that has more than max_bytes bytes. */
static size_t cut_by_bytes(const tci_window *w)
{
    enum { TAILS_MAX = 3 };
    if (w->text.len <= w->opts.max_bytes)
        return 0;
    size_t at = w->text.len - (size_t)w->opts.max_bytes - 1;
    for (int n = 0; n < TAILS_MAX && at > 0 && ((unsigned char)w->text.ptr[at] & 0xc0) == 0x80; n++)
        at--;
    return at;
}

/* Where the window ends that has more than max_lines newlines: it begins with one. */
static size_t cut_by_lines(const tci_window *w)
{
    if (w->nnewlines <= w->opts.max_lines)
        return 0;
    size_t at = w->text.len;
    for (uint64_t n = 0; n <= w->opts.max_lines; n++)
        at = tci_str_rfind_byte(tci_str_of(w->text.ptr, at), '\n');
    return at;
}

static void skip(tci_window *w, tc_str text, uint64_t nnewlines)
{
    if (text.len == 0)
        return;
    w->skipped_bytes += text.len;
    w->skipped_newlines += nnewlines;
    w->skipped_ends_with_newline = text.ptr[text.len - 1] == '\n';
}

static void trim(tci_window *w)
{
    if (w->next_run > 0)
        return; /* in the middle of a delivery */
    if (w->text.len <= times_slack(w->opts.max_bytes) &&
        w->nnewlines <= times_slack(w->opts.max_lines))
        return;
    size_t by_bytes = cut_by_bytes(w), by_lines = cut_by_lines(w);
    size_t at = by_bytes > by_lines ? by_bytes : by_lines;
    if (at == 0)
        return;
    tc_str all = tci_buf_str(&w->text), kept = tci_str_sub(all, at, all.len);
    uint64_t nkept = tci_str_count_byte(kept, '\n');
    skip(w, tci_str_sub(all, 0, at), w->nnewlines - nkept);
    w->nnewlines = nkept;
    tci_buf_consume(&w->text, at);
    w->runs[0] = (tci_window_run){.end = w->text.len, .stream = w->runs[w->nruns - 1].stream};
    w->nruns = 1;
}

/* Text so long that what is held before it, and its own beginning, would not stay anyway. Returns
 * the part to keep. */
static tc_str skip_ahead(tci_window *w, tc_str text)
{
    uint64_t limit = times_slack(w->opts.max_bytes);
    if (text.len <= limit || w->next_run > 0)
        return text;
    size_t at = text.len - (size_t)limit;
    while (at > 0 && ((unsigned char)text.ptr[at] & 0xc0) == 0x80)
        at--;
    if (at == 0)
        return text;
    tc_str left_out = tci_str_sub(text, 0, at);
    skip(w, tci_buf_str(&w->text), w->nnewlines);
    skip(w, left_out, tci_str_count_byte(left_out, '\n'));
    tci_buf_clear(&w->text);
    w->nnewlines = 0;
    w->nruns = 0;
    return tci_str_sub(text, at, text.len);
}

/* ---- putting ---- */

static bool make_run(tci_window *w)
{
    if (w->nruns < w->runs_cap)
        return true;
    size_t cap = w->runs_cap == 0 ? (size_t)FIRST_RUNS : w->runs_cap * 2, size;
    if (!tci_mul_size(cap, sizeof *w->runs, &size))
        return false;
    tci_window_run *grown = tci_mem_resize(w->runs, size);
    if (grown == NULL)
        return false;
    w->runs = grown;
    w->runs_cap = cap;
    return true;
}

int tci_window_put(tci_window *w, unsigned stream, tc_str text, tc_err *err)
{
    if (text.len == 0)
        return 0;
    if (!make_run(w))
        return tci_err_no_memory(err);
    text = skip_ahead(w, text);
    tci_buf_append_str(&w->text, text);
    if (tci_buf_error(&w->text, err) < 0) {
        w->text.failed = TC_OK; /* what is held is whole */
        return err->code;
    }
    w->nnewlines += tci_str_count_byte(text, '\n');
    /* After an omission everything is one event, which names the last stream. */
    bool is_same = w->nruns > 0 && w->runs[w->nruns - 1].stream == stream;
    if (w->nruns == 0 || (!is_same && w->skipped_bytes == 0))
        w->nruns++;
    w->runs[w->nruns - 1] = (tci_window_run){.end = w->text.len, .stream = stream};
    trim(w);
    return 0;
}

bool tci_window_is_full(const tci_window *w)
{
    return w->text.len > TCI_WINDOW_HOLD_MAX;
}

/* ---- taking ---- */

int64_t tci_window_due_ns(const tci_window *w)
{
    return w->text.len == 0 || w->is_unwritten ? INT64_MAX : w->due_ns;
}

static int64_t seconds_to_ns(double seconds)
{
    double ns = seconds * 1e9;
    return ns >= 9e18 ? INT64_MAX : (int64_t)ns;
}

static void end_delivery(tci_window *w, int64_t now_ns)
{
    double nbytes = (double)tci_min_u64(w->ndelivered, w->opts.max_bytes);
    double wait = nbytes / w->opts.bytes_per_second, least = w->opts.min_interval_ms / 1e3;
    w->due_ns = tci_add_ns(now_ns, seconds_to_ns(wait > least ? wait : least));
    w->ndelivered = 0;
    w->is_unwritten = true;
    w->nnewlines = 0;
    w->nruns = w->next_run = w->taken = 0;
    tci_buf_clear(&w->text);
}

int tci_window_take(tci_window *w, int64_t now_ns, tci_window_event *ret_event, bool *ret_has,
                    tc_err *err)
{
    *ret_has = false;
    if (w->text.len == 0)
        return 0;
    tci_window_run run = w->runs[w->next_run];
    tci_window_event event = {.stream = run.stream, .is_last = w->next_run + 1 == w->nruns};
    tci_buf_init(&event.text, TCI_BUF_MAX);
    if (w->nruns == 1) { /* all of it: hand the memory over */
        tci_buf text = w->text;
        w->text = event.text;
        event.text = text;
    } else {
        tci_buf_append(&event.text, w->text.ptr + w->taken, run.end - w->taken);
        if (tci_buf_error(&event.text, err) < 0) {
            tci_buf_done(&event.text);
            return err->code;
        }
    }
    w->ndelivered += event.text.len;
    w->taken = run.end;
    w->next_run++;
    event.has_skipped = w->skipped_bytes > 0;
    event.skipped_bytes = w->skipped_bytes;
    event.skipped_newlines = w->skipped_newlines;
    event.skipped_ends_with_newline = w->skipped_ends_with_newline;
    w->skipped_bytes = w->skipped_newlines = 0;
    w->skipped_ends_with_newline = false;
    if (event.is_last)
        end_delivery(w, now_ns);
    *ret_event = event;
    *ret_has = true;
    return 0;
}

void tci_window_written(tci_window *w)
{
    w->is_unwritten = false;
}
