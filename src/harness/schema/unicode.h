/* SPDX-License-Identifier: Apache-2.0
 *
 * Unicode text in forms that compare: NFD, and NFKC piece by piece. Any thread. */
#ifndef TCI_HARNESS_UNICODE_H
#define TCI_HARNESS_UNICODE_H

#include "base/buf.h"

/* The character at the front of s, which is not empty; *ret_len: its bytes. What is no UTF-8 is one byte
 * and at least TCI_RAW_BYTE; a surrogate (three bytes) is itself. */
enum { TCI_RAW_BYTE = 0x110000 };
uint32_t tci_char_at(tc_str s, size_t *ret_len);
void tci_put_char(tci_buf *b, uint32_t c); /* also a surrogate; not a raw byte */

/* Nothing before c can change its normal form or be changed by it. */
bool tci_starts_segment(uint32_t c);
/* The NFKC of a segment: characters of which only the first starts one. n characters in, at most cap
 * out; the number out, or 0 when they do not fit. */
enum { TCI_SEGMENT_MAX = 64 };
size_t tci_compose_segment(const uint32_t *in, size_t n, uint32_t *out, size_t cap);

/* Canonically decomposed, appended. */
void tci_put_nfd(tci_buf *b, tc_str text);

/* What ends of lines are trimmed of: white space as ECMAScript has it, without line ends. */
bool tci_is_blank_char(uint32_t c);

#endif
