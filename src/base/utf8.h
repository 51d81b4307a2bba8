/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 (RFC 3629: no surrogates, no overlong forms, up to U+10FFFF). */
#ifndef TCI_UTF8_H
#define TCI_UTF8_H

#include "base/str.h"

/* Offset of the first byte that is not part of a valid sequence; s.len when all is valid. A cut
 * sequence at the end counts as invalid. Fast over ASCII. */
size_t tci_utf8_valid_prefix(tc_str s);
static inline bool tci_utf8_is_valid(tc_str s)
{
    return tci_utf8_valid_prefix(s) == s.len;
}
/* Bytes at the front of s that are valid sequences outside ASCII. */
size_t tci_utf8_high_prefix(tc_str s);
/* Length of the incomplete but so far valid sequence at the very end: 0..3. */
size_t tci_utf8_cut_tail(tc_str s);
/* Unicode scalar values in valid text. */
size_t tci_utf8_count(tc_str s);
/* Bytes of the first n scalars of valid text (at most s.len). */
size_t tci_utf8_prefix_bytes(tc_str s, size_t nscalars);
/* One scalar from the front of s: its value and, in *ret_len, its bytes; -1 when invalid. */
int32_t tci_utf8_decode(tc_str s, size_t *ret_len);
/* Bytes written to out (1..4); 0 for a surrogate or a value over U+10FFFF. */
size_t tci_utf8_encode(uint32_t scalar, char out[4]);

#endif
