/* SPDX-License-Identifier: Apache-2.0
 *
 * Base64 without padding, standard alphabet (RFC 4648 section 4), strict when reading. */
#ifndef TCI_BASE64_H
#define TCI_BASE64_H

#include "base/buf.h"

static inline size_t tci_base64_encoded_len(size_t n)
{
    return n / 3 * 4 + (n % 3 ? n % 3 + 1 : 0);
}
/* Upper bound for the decoded length of n characters. */
static inline size_t tci_base64_decoded_max(size_t n)
{
    return n / 4 * 3 + 3;
}

/* Writes exactly tci_base64_encoded_len(s.len) characters. */
void tci_base64_encode(tc_str s, char *out);
void tci_base64_append(tci_buf *out, tc_str s);
/* INVALID for padding, other characters, a length of 4n+1, or trailing bits that are not zero.
 * out has room for tci_base64_decoded_max(s.len). */
int tci_base64_decode(tc_str s, char *out, size_t *ret_len, tc_err *err) TC_CHECKED;

#endif
