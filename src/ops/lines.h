/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a range of lines lies in a file, and how long it is as text, without keeping any of it. Lines
 * are counted from 0 and end at LF; a file with n of them has n + 1 lines. Text is what the Encoding
 * Standard's UTF-8 decoder makes of the selection, each U+FFFD three bytes; a mark at the start of the
 * file counts nothing. Any thread, no memory. */
#ifndef TCI_OPS_LINES_H
#define TCI_OPS_LINES_H

#include "base/str.h"

typedef struct tci_lines {
    uint64_t newlines;       /* in the whole file */
    uint64_t start;          /* offset of the first line selected */
    uint64_t end;            /* of the last one, without its LF */
    uint64_t first_line_end; /* without its LF */
    uint64_t last_line_start;
    uint64_t selected_bytes;   /* from start to end as text */
    uint64_t first_line_bytes; /* of the first line as text */
} tci_lines;

/* Fields are private; here so that it can be a member. */
typedef struct tci_lines_scan {
    uint64_t start_line, end_line; /* end_line UINT64_MAX: to the end */
    uint64_t line, offset;
    bool has_first_end, is_past;
    unsigned char need, seen, low, high; /* of a sequence that has begun */
    bool may_be_mark;
    tci_lines at;
} tci_lines_scan;

/* Select the lines from start_line up to, not including, end_line (UINT64_MAX: all that follow), which
 * is larger. */
void tci_lines_init(tci_lines_scan *s, uint64_t start_line, uint64_t end_line);
/* The next bytes of the file, in order. */
void tci_lines_feed(tci_lines_scan *s, tc_str bytes);
/* The file ends here. When it has no line start_line, all offsets are its size and both texts are
 * empty. */
void tci_lines_end(tci_lines_scan *s, tci_lines *ret);

#endif
