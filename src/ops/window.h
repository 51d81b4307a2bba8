/* SPDX-License-Identifier: Apache-2.0
 *
 * A command's output for a reader who is slower than the command and wants its end at least: text
 * is held until it may be delivered, and when too much is held the oldest is left out and counted.
 * What is left out is always followed by more than the window, in the same event, so a reader who
 * keeps a tail of the window's size ends with the tail it would have had without. No clock and no
 * queue of its own: times are passed in. One thread at a time. */
#ifndef TCI_OPS_WINDOW_H
#define TCI_OPS_WINDOW_H

#include "base/buf.h"

typedef struct tci_window_opts {
    uint64_t max_bytes, max_lines; /* the window: text within both is never left out */
    double min_interval_ms;        /* between deliveries; below 0 counts as 0 */
    double bytes_per_second;       /* of deliveries, of which max_bytes count; at least 1 */
} tci_window_opts;

enum { TCI_WINDOW_HOLD_MAX = 4 * 1024 * 1024 }; /* see tci_window_is_full */

typedef struct tci_window_event {
    unsigned stream; /* of its last byte; of all of it unless has_skipped */
    tci_buf text;    /* never empty; the receiver's */
    /* Text was left out before it; then it is all text since, of both streams in order. */
    bool has_skipped;
    uint64_t skipped_bytes, skipped_newlines;
    bool skipped_ends_with_newline;
    bool is_last; /* of this delivery */
} tci_window_event;

struct tci_window_run;

/* Private. */
typedef struct tci_window {
    tci_window_opts opts;
    tci_buf text;
    uint64_t nnewlines;          /* in text */
    struct tci_window_run *runs; /* stretches of one stream in text */
    size_t nruns, runs_cap, next_run, taken;
    uint64_t skipped_bytes, skipped_newlines;
    bool skipped_ends_with_newline;
    bool is_unwritten;   /* the last delivery */
    int64_t due_ns;      /* of the next one */
    uint64_t ndelivered; /* bytes, of a delivery that is being taken */
} tci_window;

void tci_window_init(tci_window *w, const tci_window_opts *opts);
void tci_window_done(tci_window *w);

/* Text of a stream (any small number). It should hold whole characters. NO_MEMORY: it is lost. */
int tci_window_put(tci_window *w, unsigned stream, tc_str text, tc_err *err) TC_CHECKED;
/* A window so large that nothing may be left out, and much is held: put no more until it is taken.
 */
bool tci_window_is_full(const tci_window *w);

/* When the next delivery may be taken: INT64_MAX when there is none or the last one is not written
 * yet, otherwise a time that may be past. */
int64_t tci_window_due_ns(const tci_window *w);
/* Take a delivery, one event after another until false; due or not. NO_MEMORY ends it, and what
 * was not taken stays. *ret_event only when it returned 0 and *ret_has is true. */
int tci_window_take(tci_window *w, int64_t now_ns, tci_window_event *ret_event, bool *ret_has,
                    tc_err *err) TC_CHECKED;
/* The last delivery is on its way. */
void tci_window_written(tci_window *w);

#endif
