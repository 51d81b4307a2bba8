/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact replacement in bytes, as the new content and as a unified diff. Pure; any thread. */
#ifndef TCI_CLI_EDIT_H
#define TCI_CLI_EDIT_H

#include "base/buf.h"

/* How often needle is in text, without overlaps. needle is not empty. */
size_t cli_edit_count(tc_str text, tc_str needle);
/* text with the first n occurrences of needle replaced, appended to out. */
void cli_edit_replace(tc_str text, tc_str needle, tc_str with, size_t n, tci_buf *out);
/* The same change as a unified diff without context: hunks of the lines touched. false when the
 * diff form cannot carry it (text that is not UTF-8, NUL, a line or a hunk over the form's limits). */
bool cli_edit_diff(tc_str text, tc_str needle, tc_str with, size_t n, tci_buf *out);

#endif
