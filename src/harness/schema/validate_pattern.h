/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions as JSON Schema writes them (ECMAScript's, as far as they are regular): found or
 * not, in time bounded by pattern length times text length. Over bytes of UTF-8; a byte that is no
 * UTF-8 is a character of its own that only ., negated classes and \W \D \S match. */
#ifndef TCI_HARNESS_VALIDATE_PATTERN_H
#define TCI_HARNESS_VALIDATE_PATTERN_H

#include "base/arena.h"

typedef struct tci_pattern tci_pattern;

enum { TCI_PATTERN_MAX_BYTES = 4096, TCI_PATTERN_MAX_STEPS = 20000 };

/* UNSUPPORTED: look-around, back references, \p{...}, or larger than the limits; INVALID: no pattern.
 * In arena a; immutable. */
int tci_pattern_compile(tc_str pattern, bool ignore_case, tci_arena *a,
                        const tci_pattern **ret_pattern, tc_err *err) TC_CHECKED;
/* Is there a match anywhere in text? NO_MEMORY. ret_start, ret_end (may be NULL): the leftmost, longest
 * one. Any thread. */
int tci_pattern_find(const tci_pattern *p, tc_str text, bool *ret_is_found, size_t *ret_start,
                     size_t *ret_end, tc_err *err) TC_CHECKED;

#endif
