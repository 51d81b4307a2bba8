/* SPDX-License-Identifier: Apache-2.0
 *
 * Replacements in the bytes of a file: finding what is meant, and changing nothing else. Any thread. */
#ifndef TCI_HARNESS_TOOLS_EDIT_MATCH_H
#define TCI_HARNESS_TOOLS_EDIT_MATCH_H

#include "base/arena.h"
#include "base/buf.h"

typedef struct tci_edit {
    tc_str old_text, new_text;
} tci_edit;

/* What is written instead of bytes [start, end) of the file. */
typedef struct tci_splice {
    size_t start, end;
    tc_str text;
} tci_splice;

/* Find every edit in bytes and make the splices, in order and apart from each other; in arena a. All
 * are found in the file as it is, not after each other. Text is matched with "\n" for every line end and
 * without the mark at the start; if one is not found like that, all are matched loosely (text_view.h).
 * New lines end as the line does that they come into. *ret_refusal: why not, for the model; path is the
 * name in it. Errors: NO_MEMORY, TOO_BIG. */
int tci_edit_match(tc_str bytes, const tci_edit *edits, size_t nedits, tc_str path, tci_arena *a,
                   tci_splice **ret_splices, size_t *ret_nsplices, tc_str *ret_refusal,
                   tc_err *err) TC_CHECKED;

/* The bytes with the splices made, appended. */
void tci_edit_apply(tci_buf *b, tc_str bytes, const tci_splice *splices, size_t nsplices);

/* What changed, for people: "diff" with line numbers and "patch" (a unified diff), appended; and the
 * first line of the new file that is not as it was (0: none). */
int tci_edit_diff(tc_str before, tc_str after, const tci_splice *splices, size_t nsplices,
                  tc_str path, tci_buf *diff, tci_buf *patch, uint64_t *ret_first_line,
                  tc_err *err) TC_CHECKED;

#endif
