/* SPDX-License-Identifier: Apache-2.0
 *
 * One .gitignore file, with the semantics of gitignore(5) as git itself applies them: bytes, not
 * characters; the last matching line wins; '!' re-includes; a trailing '/' means directories only.
 * Which files apply to a path, and that nothing below an ignored directory can come back, is the
 * caller's business (ops/walk). */
#ifndef TCI_IGNORE_H
#define TCI_IGNORE_H

#include "base/arena.h"

typedef struct tci_ignore tci_ignore;

enum { TCI_IGNORE_MAX_BYTES = 1024 * 1024 }; /* larger files are not read at all */

typedef enum tci_ignore_verdict {
    TCI_IGNORE_NONE,     /* no line matches: ask the file further up */
    TCI_IGNORE_INCLUDED, /* a '!' line matched last */
    TCI_IGNORE_EXCLUDED
} tci_ignore_verdict;

/* Told about a line that can never match (a class without end, a lone backslash at the end);
 * such lines are skipped. line_number is 1-based; line is borrowed. */
typedef void tci_ignore_warn(void *ctx, size_t line_number, tc_str line);

/* Compile the file's text, which may go afterwards. warn may be NULL. Errors: those of the arena.
 */
int tci_ignore_parse(tc_str text, tci_arena *a, tci_ignore_warn *warn, void *ctx,
                     const tci_ignore **ret_ignore, tc_err *err) TC_CHECKED;

/* path: relative to the directory that holds the file. Any thread. */
tci_ignore_verdict tci_ignore_match(const tci_ignore *ignore, tc_str path, bool is_directory);
/* Nothing in it can match. */
bool tci_ignore_is_empty(const tci_ignore *ignore);

#endif
