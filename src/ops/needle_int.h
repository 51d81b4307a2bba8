/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding one text in another, by its rarest byte. Private to ops. */
#ifndef TCI_OPS_NEEDLE_INT_H
#define TCI_OPS_NEEDLE_INT_H

#include "base/str.h"

typedef struct tci_needle {
    tc_str text;      /* borrowed */
    bool is_caseless; /* ASCII only, and the text is ASCII */
    size_t rare_at;   /* the byte that is looked for first */
    char rare, other; /* the same in the other case; equal when it has none */
    /* While searching: where rare and other come next, so that nothing is looked at twice. */
    tc_str in;
    size_t next_rare, next_other;
    size_t nmisses; /* rare bytes that led nowhere */
} tci_needle;

/* text has at least one byte. */
void tci_needle_init(tci_needle *n, tc_str text, bool is_caseless);
void tci_needle_start(tci_needle *n, tc_str in);
/* Offset of the first occurrence at or behind `from`, or in.len. from may only grow, or go back to
 * the start of the line of the last hit. */
size_t tci_needle_find(tci_needle *n, size_t from);

#endif
