/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranking short texts by words (Okapi BM25), for finding tools. Any thread. */
#ifndef TCI_HARNESS_SEARCH_H
#define TCI_HARNESS_SEARCH_H

#include "base/arena.h"
#include "base/buf.h"

/* The words of a text as they are compared: split at camelCase and at what is no letter or digit, lower
 * case, in the singular, without the commonest. In arena a. */
typedef struct tci_words {
    tc_str *items;
    size_t count;
} tci_words;
int tci_words_of(tc_str text, tci_arena *a, tci_words *ret_words, tc_err *err) TC_CHECKED;

/* Indexes of the best matching texts, best first; equal ones keep their order. At most limit. */
int tci_search_rank(tc_str query, const tc_str *texts, size_t ntexts, size_t limit, tci_arena *a,
                    size_t **ret_indexes, size_t *ret_count, tc_err *err) TC_CHECKED;

#endif
