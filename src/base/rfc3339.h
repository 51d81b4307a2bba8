/* SPDX-License-Identifier: Apache-2.0
 *
 * Instants as text, UTC only: 2026-11-29T16:11:02.341955887Z (RFC 3339). */
#ifndef TCI_RFC3339_H
#define TCI_RFC3339_H

#include "base/str.h"

typedef struct tci_instant {
    int64_t sec;  /* since 1970-01-01T00:00:00Z; may be negative */
    int32_t nsec; /* 0..999999999 */
} tci_instant;

enum { TCI_RFC3339_MAX = 40 };
/* Fraction of 0, 3, 6 or 9 digits, the fewest that lose nothing. Returns the length. */
size_t tci_rfc3339_text(tci_instant t, char out[TCI_RFC3339_MAX]);
int tci_rfc3339_parse(tc_str s, tci_instant *ret, tc_err *err) TC_CHECKED; /* 'Z' only */

#endif
