/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress of a running tool. The first change after a pause is committed at once, the next not before
 * the interval, and not before the bytes written are worth it (TCI_OUTPUT_BYTES_PER_SECOND); what
 * changes meanwhile goes together. What becomes of it at the end is tool_settle.c's. Reports: any
 * thread. Commits: a thread of the pool (tci_later), or who stops.
 *
 * To keep: lock is never held while the line is taken; shown is what the slot in "pi.live" says,
 * changed only after the commit that makes it so. */
#include "harness/calls/tool_report.h"

#include "harness/generation/live.h"
#include "base/num.h"
#include "plat/clock.h"

static const tc_str severities[] = {{"info", 4}, {"warn", 4}, {"error", 5}};

void tci_put_diagnostic(tci_buf *b, tc_severity severity, tc_str code, tc_str message)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    tci_put_str_member(b, &first, TC_STR("severity"), severities[severity]);
    if (code.len > 0)
        tci_put_str_member(b, &first, TC_STR("code"), code);
    tci_put_str_member(b, &first, TC_STR("message"), message);
    tci_buf_append_byte(b, '}');
}

void tci_reported_init(tci_reported *r, const tci_output_limits *limits)
{
    *r = (tci_reported){.interval_ms = 100};
    tci_mutex_init(&r->lock);
    tci_output_init(&r->output, limits);
    tci_buf_init(&r->diagnostics, TCI_BUF_MAX);
    tci_buf_init(&r->details, TCI_BUF_MAX);
    tci_buf_init(&r->shown, TCI_BUF_MAX);
}

void tci_reported_publish(tci_reported *r, tc_task *task, int64_t interval_ms)
{
    r->h = tc_task_harness(task);
    r->task = task;
    r->task_id = tc_task_current(task)->id;
    r->conversation_id = tc_task_current(task)->conversation_id;
    r->interval_ms = interval_ms > 0 ? interval_ms : 0;
}

void tci_reported_done(tci_reported *r)
{
    tci_reported_stop(r, false);
    tci_output_done(&r->output);
    tci_buf_done(&r->diagnostics);
    tci_buf_done(&r->details);
    tci_buf_done(&r->shown);
    tci_mutex_done(&r->lock);
}

/* ---- one commit ---- */

/* What is to be written, taken under the lock. */
typedef struct change {
    tci_buf raw; /* output as kept */
    uint64_t at, dropped_bytes, dropped_lines;
    tci_buf diagnostics; /* new ones */
    tci_buf details;
    bool has_details;
    uint64_t details_version;
    size_t diagnostics_end;
    uint64_t nreports;
    size_t nbytes; /* that the commit writes */
} change;

static void take_change(tci_reported *r, change *c)
{
    tci_output_view v;
    *c = (change){.nreports = r->nreports, .diagnostics_end = r->diagnostics.len};
    tci_buf_init(&c->raw, TCI_BUF_MAX);
    tci_buf_init(&c->diagnostics, TCI_BUF_MAX);
    tci_buf_init(&c->details, TCI_BUF_MAX);
    tci_output_look(&r->output, &v);
    tci_buf_append_str(&c->raw, v.text);
    c->at = v.at;
    c->dropped_bytes = v.dropped_bytes;
    c->dropped_lines = v.dropped_lines;
    tci_buf_append_str(&c->diagnostics, tci_str_sub(tci_buf_str(&r->diagnostics),
                                                    r->shown_diagnostics, r->diagnostics.len));
    c->has_details = r->details.len > 0 && r->details_version != r->shown_details_version;
    c->details_version = r->details_version;
    if (c->has_details)
        tci_buf_append_str(&c->details, tci_buf_str(&r->details));
}

static void drop_change(change *c)
{
    tci_buf_done(&c->raw);
    tci_buf_done(&c->diagnostics);
    tci_buf_done(&c->details);
}

static int set_text(tc_doc *live, const tci_spot *at, tc_str text, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put_str(&b, text);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_doc_set(live, tci_spot_str(at), tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}

static int set_number(tc_doc *live, const tci_spot *slot, const char *name, uint64_t n, tc_err *err)
{
    tci_spot at = tci_spot_member(slot, name);
    char text[24];
    tci_buf b = {.ptr = text, .cap = sizeof text, .max = sizeof text};
    tci_buf_append_u64(&b, n);
    return tc_doc_set(live, tci_spot_str(&at), tci_buf_str(&b), err);
}

/* The output as it is now, by what was added and what fell off. */
static int write_output(tci_reported *r, change *c, tc_doc *live, const tci_spot *slot,
                        tci_buf *clean, tc_err *err)
{
    tci_spot at = tci_spot_member(slot, "output");
    tc_str raw = tci_buf_str(&c->raw);
    uint64_t end = c->at + raw.len;
    bool follows =
        r->shown.len > 0 && c->at >= r->shown_at && c->at <= r->shown_end && r->shown_end <= end;
    size_t common = follows ? (size_t)(r->shown_end - c->at) : 0;
    tci_output_clean(clean, tci_str_sub(raw, 0, common));
    size_t kept = clean->len;
    tci_output_clean(clean, tci_str_sub(raw, common, raw.len));
    if (tci_buf_error(clean, err) < 0)
        return err->code;
    if (tci_str_eq(tci_buf_str(clean), tci_buf_str(&r->shown)))
        return 0;
    if (kept == 0) {
        c->nbytes += clean->len;
        return set_text(live, &at, tci_buf_str(clean), err);
    }
    if (r->shown.len > kept && tc_doc_trim(live, tci_spot_str(&at), r->shown.len - kept, err) < 0)
        return err->code;
    tc_str more = tci_str_sub(tci_buf_str(clean), kept, clean->len);
    c->nbytes += more.len;
    return more.len == 0 ? 0 : tc_doc_append(live, tci_spot_str(&at), more, err);
}

static int write_diagnostics(change *c, tc_doc *live, const tci_spot *slot, bool is_first,
                             tc_err *err)
{
    tci_spot at = tci_spot_member(slot, "diagnostics");
    tc_str items = tci_buf_str(&c->diagnostics);
    if (items.len == 0)
        return 0;
    if (items.ptr[0] == ',')
        items = tci_str_sub(items, 1, items.len);
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '[');
    tci_buf_append_str(&b, items);
    tci_buf_append_byte(&b, ']');
    c->nbytes += b.len;
    int rc = tci_buf_error(&b, err);
    if (rc == 0 && is_first)
        rc = tc_doc_set(live, tci_spot_str(&at), tci_buf_str(&b), err);
    else if (rc == 0) {
        const tc_json *there = tc_json_find(tc_doc_value(live), at.text);
        rc = tc_doc_splice(live, tci_spot_str(&at), tc_json_count(there), 0, tci_buf_str(&b), err);
    }
    tci_buf_done(&b);
    return rc;
}

static int write_change(tci_reported *r, change *c, tc_doc *live, const tci_spot *slot,
                        tci_buf *clean, tc_err *err)
{
    if (write_output(r, c, live, slot, clean, err) < 0)
        return err->code;
    if (c->dropped_bytes != r->shown_dropped_bytes &&
        set_number(live, slot, "droppedBytes", c->dropped_bytes, err) < 0)
        return err->code;
    if (c->dropped_lines != r->shown_dropped_lines &&
        set_number(live, slot, "droppedLines", c->dropped_lines, err) < 0)
        return err->code;
    if (c->has_details) {
        tci_spot at = tci_spot_member(slot, "details");
        c->nbytes += c->details.len;
        if (tc_doc_set(live, tci_spot_str(&at), tci_buf_str(&c->details), err) < 0)
            return err->code;
    }
    return write_diagnostics(c, live, slot, r->shown_diagnostics == 0, err);
}

/* clean: what the slot shows then. */
static int commit_change(tci_reported *r, change *c, tci_buf *clean, tc_err *err)
{
    tc_tx *tx;
    tc_doc *live;
    if (tci_buf_error(&c->raw, err) < 0 || tci_buf_error(&c->details, err) < 0 ||
        tci_buf_error(&c->diagnostics, err) < 0 ||
        tc_durable_begin(tci_harness_session(r->h), NULL, &tx, err) < 0)
        return err->code;
    int rc = tci_doc_of(tx, &tci_live_doc, r->conversation_id, &live, err);
    if (rc == 0) {
        tci_spot slot = tci_live_slot(tc_doc_value(live), r->task_id);
        if (slot.text[0] != '\0')
            rc = write_change(r, c, live, &slot, clean, err);
    }
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    /* Details may be waited for; all else is a partial that a power cut may take. */
    return tci_tx_commit(tx, c->has_details ? TCI_TX_SYNCED : TCI_TX_LAZY, NULL, err);
}

static void adopt_change(tci_reported *r, const change *c, tci_buf *clean)
{
    tci_buf old = r->shown;
    r->shown = *clean;
    *clean = old;
    r->shown_at = c->at;
    r->shown_end = c->at + c->raw.len;
    r->shown_diagnostics = c->diagnostics_end;
    r->shown_dropped_bytes = c->dropped_bytes;
    r->shown_dropped_lines = c->dropped_lines;
    if (c->has_details)
        r->shown_details_version = c->details_version;
}

static int64_t pause_ns(const tci_reported *r, size_t nbytes)
{
    int64_t by_size_ms = (int64_t)nbytes * 1000 / TCI_OUTPUT_BYTES_PER_SECOND;
    return tci_ms_to_ns((uint64_t)(by_size_ms > r->interval_ms ? by_size_ms : r->interval_ms));
}

static void commit_now(tci_reported *r)
{
    change c;
    tci_buf clean;
    tc_err err = {0};
    int64_t started = tci_clock_mono_ns();
    tci_buf_init(&clean, TCI_BUF_MAX);
    tci_mutex_lock(&r->lock);
    take_change(r, &c);
    tci_mutex_unlock(&r->lock);
    int rc = commit_change(r, &c, &clean, &err);
    if (rc < 0 && !tc_ctx_is_cancelled(tc_task_ctx(r->task)) && rc != TC_E_CLOSED)
        tc_task_report(r->task, &err);
    tci_mutex_lock(&r->lock);
    r->next_at_ns = started + pause_ns(r, rc == 0 ? c.nbytes : 0);
    if (rc == 0)
        adopt_change(r, &c, &clean);
    r->failure = rc == 0 ? (tc_err){0} : err;
    r->ncommitted = c.nreports;
    tci_wake_all(&r->changed);
    tci_mutex_unlock(&r->lock);
    drop_change(&c);
    tci_buf_done(&clean);
}

/* ---- pacing ---- */

static void call_later(void *arg)
{
    tci_reported *r = arg;
    commit_now(r);
    tci_mutex_lock(&r->lock);
    r->is_set = r->nreports != r->ncommitted && !r->is_stopped;
    if (r->is_set)
        tci_later_set(r->h, &r->later, r->next_at_ns, call_later, r);
    tci_mutex_unlock(&r->lock);
}

/* With the lock. */
static void mark(tci_reported *r)
{
    r->nreports++;
    if (r->h == NULL || r->is_set || r->is_stopped)
        return;
    r->is_set = true;
    tci_later_set(r->h, &r->later, r->next_at_ns, call_later, r);
}

static int check_open(const tci_reported *r, tc_err *err)
{
    return r->is_stopped ? tc_err_set(err, TC_E_CLOSED, "the tool call has settled") : 0;
}

int tci_reported_output(tci_reported *r, tc_str bytes, const tc_skipped *skipped, tc_err *err)
{
    bool accepted = false;
    tci_mutex_lock(&r->lock);
    int rc = check_open(r, err);
    if (rc == 0)
        rc = tci_output_push(&r->output, bytes, skipped, &accepted, err);
    if (accepted)
        mark(r);
    tci_mutex_unlock(&r->lock);
    return rc;
}

int tci_reported_diagnostic(tci_reported *r, tc_severity severity, tc_str code, tc_str message,
                            tc_err *err)
{
    tci_mutex_lock(&r->lock);
    int rc = check_open(r, err);
    if (rc == 0) {
        if (r->ndiagnostics++ > 0)
            tci_buf_append_byte(&r->diagnostics, ',');
        tci_put_diagnostic(&r->diagnostics, severity, code, message);
        rc = tci_buf_error(&r->diagnostics, err);
        mark(r);
    }
    tci_mutex_unlock(&r->lock);
    return rc;
}

int tci_reported_details(tci_reported *r, tc_str json, tc_err *err)
{
    tci_mutex_lock(&r->lock);
    int rc = check_open(r, err);
    if (rc == 0) {
        tci_buf_clear(&r->details);
        tci_buf_append_str(&r->details, json);
        r->details_version++;
        rc = tci_buf_error(&r->details, err);
        mark(r);
    }
    tci_mutex_unlock(&r->lock);
    return rc;
}

int tci_reported_flush(tci_reported *r, tc_ctx *ctx, tc_err *err)
{
    int rc = 0;
    tci_wake *wake = tci_ctx_wake(ctx);
    tci_mutex_lock(&r->lock);
    uint64_t wanted = r->nreports;
    /* Both words are looked at in turn: a cancelled context is noticed within the pause. */
    while (rc == 0 && r->h != NULL && !r->is_stopped && r->ncommitted < wanted) {
        unsigned seen = tci_wake_count(&r->changed);
        int64_t until = tci_clock_mono_ns() + tci_ms_to_ns(50);
        tci_mutex_unlock(&r->lock);
        tci_wake_wait(&r->changed, seen, wake != NULL ? until : 0);
        rc = tci_ctx_check(ctx, err);
        tci_mutex_lock(&r->lock);
    }
    if (rc == 0 && r->failure.code != TC_OK) {
        *err = r->failure;
        rc = err->code;
    }
    tci_mutex_unlock(&r->lock);
    return rc;
}

void tci_reported_text(tci_reported *r, tci_buf *b, bool *ret_is_truncated)
{
    tci_output_view v;
    tci_mutex_lock(&r->lock);
    tci_output_look(&r->output, &v);
    tci_output_clean(b, v.text);
    tci_mutex_unlock(&r->lock);
    if (ret_is_truncated != NULL)
        *ret_is_truncated = v.dropped_bytes > 0;
}

void tci_reported_stop(tci_reported *r, bool with_rest)
{
    tci_mutex_lock(&r->lock);
    bool was_stopped = r->is_stopped;
    r->is_stopped = true;
    tci_mutex_unlock(&r->lock);
    tci_later_drop(&r->later); /* also when it is set no more: its call may not have returned yet */
    if (with_rest && !was_stopped && r->h != NULL && r->nreports != r->ncommitted)
        commit_now(r);
    tci_wake_all(&r->changed);
}
