/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the last pages of text files ended, so that the next page of each starts there instead of
 * counting lines from the top. A few files, the least recently used one forgotten. Locks itself: any
 * thread. */
#ifndef TCI_OPS_TEXT_CURSORS_H
#define TCI_OPS_TEXT_CURSORS_H

#include "ops/file.h"

typedef struct tci_text_cursors tci_text_cursors;

int tci_text_cursors_new(tci_text_cursors **ret, tc_err *err) TC_CHECKED;
void tci_text_cursors_free(tci_text_cursors *c); /* NULL is fine; nobody may be using it */

/* The cursor for a page of path that starts at line, or zero. A wrong file's cursor does no harm: it
 * carries the file's version. */
void tci_text_cursors_get(tci_text_cursors *c, tc_str path, uint64_t line, tci_text_cursor *ret);
void tci_text_cursors_put(tci_text_cursors *c, tc_str path, const tci_text_cursor *cursor);

#endif
