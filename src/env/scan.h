/* SPDX-License-Identifier: Apache-2.0
 *
 * Where lines are in a file that comes in pieces: what a reader's scan says, for providers whose
 * other side cannot say it. */
#ifndef TCI_ENV_SCAN_H
#define TCI_ENV_SCAN_H

#include "base/utf8_stream.h"
#include <telechir/env.h>

/* Set start_line and end_line (UINT64_MAX: none), zero the rest. */
typedef struct tci_scan {
    uint64_t start_line, end_line;
    uint64_t line, offset; /* where we are */
    tc_line_scan found;
    bool has_begun, is_complete; /* the file; the selection */
    tci_utf8_stream decoder;
    tci_buf scratch;
} tci_scan;

void tci_scan_feed(tci_scan *s, tc_str bytes);
/* After the last byte. */
tc_line_scan tci_scan_end(tci_scan *s);
void tci_scan_done(tci_scan *s);

#endif
