/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept of a text that may be of any length: whole lines from its beginning or its end, and
 * exact counts of what was dropped. Any thread, one at a time for each object. */
#ifndef TCI_HARNESS_OUTPUT_H
#define TCI_HARNESS_OUTPUT_H

#include "base/utf8_stream.h"
#include <telechir/tool.h>

enum { TCI_OUTPUT_MAX_BYTES = 50 * 1024, TCI_OUTPUT_MAX_LINES = 2000 };
/* Watchers are told of output at most this fast. */
enum { TCI_OUTPUT_BYTES_PER_SECOND = 100 * 1024 };

typedef struct tci_output_limits {
    uint64_t max_bytes, max_lines;
    tc_output_retain retain;
} tci_output_limits;

/* The part of a text within the limits, as bytes [start, end) of it: the first lines, or the last,
 * their last newline included; one line that is longer than max_bytes alone is cut between characters. */
typedef struct tci_output_slice {
    size_t start, end;
    uint64_t dropped_bytes, dropped_lines;
} tci_output_slice;
void tci_output_bound(tc_str text, const tci_output_limits *limits, tci_output_slice *ret_slice);

/* Lines of a text; a newline at its end begins no further one. */
uint64_t tci_output_count_lines(tc_str text);

/* Append text without U+0000-0008, U+000B-001F and U+FFF9-FFFB, which spoil displays. */
void tci_output_clean(tci_buf *b, tc_str text);

/* A running output. What it holds is bounded by the limits, whatever comes in. */
typedef struct tci_output {
    tci_output_limits limits;
    tci_utf8_stream stream;
    tci_buf scratch;
    tci_buf kept;     /* of a head its beginning, of a tail more than the window needs */
    uint64_t kept_at; /* where in the whole text kept begins */
    uint64_t total_bytes, total_newlines;
    bool is_open_line; /* the last line has no newline yet */
    bool is_full;      /* of a head: nothing more is ever needed */
} tci_output;

void tci_output_init(tci_output *o, const tci_output_limits *limits);
void tci_output_done(tci_output *o);
/* Bytes of UTF-8, which may be cut anywhere; skipped (or NULL): what the producer left out before
 * them, only of a tail, else INVALID. *ret_accepted: there is something new to show. NO_MEMORY. */
int tci_output_push(tci_output *o, tc_str bytes, const tc_skipped *skipped, bool *ret_accepted,
                    tc_err *err) TC_CHECKED;
/* No more comes: a character that was cut is one U+FFFD. */
void tci_output_end(tci_output *o);

/* What is kept now, raw; borrowed until the next push. at: where in the whole text it begins. */
typedef struct tci_output_view {
    tc_str text;
    uint64_t at, dropped_bytes, dropped_lines;
} tci_output_view;
void tci_output_look(const tci_output *o, tci_output_view *ret_view);

/* The first whole lines of a text within both limits, without the newline behind the last of them: how
 * files are shown. prefix: the text, or its beginning, which then is longer than max_bytes + 1 or
 * has max_lines newlines; total_*: of the whole.
 *   is_first_line_too_long   nothing fits: len is 0 */
typedef struct tci_head {
    size_t len; /* of prefix that is shown */
    bool is_truncated, is_by_bytes, is_first_line_too_long;
    uint64_t nlines, total_lines, total_bytes;
} tci_head;
void tci_head_of(tc_str prefix, uint64_t total_lines, uint64_t total_bytes, tci_head *ret_head);

/* "512B", "1.5KB", "3.0MB" */
void tci_put_size(tci_buf *b, uint64_t nbytes);

#endif
