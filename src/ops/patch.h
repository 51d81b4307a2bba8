/* SPDX-License-Identifier: Apache-2.0
 *
 * Unified diffs, applied exactly: no fuzz, no search for another place. Pure text in, text out. */
#ifndef TCI_OPS_PATCH_H
#define TCI_OPS_PATCH_H

#include "base/buf.h"
#include "base/str.h"
#include <telechir/error.h>

enum {
    TCI_PATCH_HUNKS_MAX = 10000,
    TCI_PATCH_LINES_MAX = 10000, /* old or new lines of one hunk */
    TCI_PATCH_LINE_BYTES_MAX = 65536,
};

/* Apply patch to source and append the result to out, in one pass over both.
 *
 *   source   UTF-8; lines end at LF, a CR before it belongs to the line
 *   patch    an optional line "--- ", an optional line "+++ ", then hunks; nothing else
 *   out      given with its maximum; what was appended before a failure means nothing
 *   ret_hunks   hunks applied
 *
 * Errors: INVALID (outside the grammar; the message names the patch line), CONFLICT (a context or
 * removed line, or a position, does not agree with source), QUOTA (out is full), NO_MEMORY. */
int tci_patch_apply(tc_str source, tc_str patch, tci_buf *out, uint64_t *ret_hunks,
                    tc_err *err) TC_CHECKED;

#endif
