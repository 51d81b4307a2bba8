/* SPDX-License-Identifier: Apache-2.0
 *
 * What a running tool reports, and its way into "pi.live": paced commits that write only what
 * changed. Reports come from any thread; commits are made by one thread of the pool at a time. */
#ifndef TCI_HARNESS_TOOL_REPORT_H
#define TCI_HARNESS_TOOL_REPORT_H

#include "harness/sched/harness_int.h"
#include "harness/calls/output.h"

typedef struct tci_reported {
    tc_harness *h; /* NULL: nothing is committed (tests, silent nested calls) */
    uint64_t task_id, conversation_id;
    tc_task *task;
    int64_t interval_ms;
    tci_mutex lock; /* guards all below but the slot's */
    tci_output output;
    tci_buf diagnostics; /* items, with commas between */
    uint64_t ndiagnostics;
    tci_buf details; /* the last ones; empty: none */
    uint64_t nreports,
        ncommitted; /* how often something was reported, and up to where it is stored */
    bool is_set, is_stopped;
    int64_t next_at_ns;
    tci_later later;
    tci_wake changed;
    tc_err failure; /* of the last commit; code OK: none */
    /* What the slot shows: touched only by who commits. */
    tci_buf shown;
    uint64_t shown_at, shown_end;
    size_t shown_diagnostics; /* bytes */
    bool has_shown_details;
    uint64_t details_version, shown_details_version;
    uint64_t shown_dropped_bytes, shown_dropped_lines;
} tci_reported;

void tci_reported_init(tci_reported *r, const tci_output_limits *limits);
/* Commit what is reported into the slot of this task from now on. */
void tci_reported_publish(tci_reported *r, tc_task *task, int64_t interval_ms);
void tci_reported_done(tci_reported *r);

/* NO_MEMORY, INVALID, CLOSED (stopped). json is valid and compact. */
int tci_reported_output(tci_reported *r, tc_str bytes, const tc_skipped *skipped,
                        tc_err *err) TC_CHECKED;
int tci_reported_diagnostic(tci_reported *r, tc_severity severity, tc_str code, tc_str message,
                            tc_err *err) TC_CHECKED;
int tci_reported_details(tci_reported *r, tc_str json, tc_err *err) TC_CHECKED;
/* Until everything reported before is committed; its failure, if it failed. */
int tci_reported_flush(tci_reported *r, tc_ctx *ctx, tc_err *err) TC_CHECKED;
/* Clean text of what is kept of the output, appended. */
void tci_reported_text(tci_reported *r, tci_buf *b, bool *ret_is_truncated);

/* No commit runs after it, and nothing more is taken. with_rest: one more commit of what is not stored
 * yet, as far as it still can be made. */
void tci_reported_stop(tci_reported *r, bool with_rest);

/* {"severity":..,"code"?:..,"message":..} */
void tci_put_diagnostic(tci_buf *b, tc_severity severity, tc_str code, tc_str message);

#endif
