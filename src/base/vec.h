/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at sixteen bytes of text at once, for whatever steps over JSON. The compiler makes of the vectors what
 * the machine has, or plain words. */
#ifndef TCI_VEC_H
#define TCI_VEC_H

#include "base/compiler.h"
#include <string.h>

enum { TCI_VEC_BYTES = 16 };

typedef unsigned char tci_vec __attribute__((vector_size(TCI_VEC_BYTES)));
typedef uint64_t tci_vec_words __attribute__((vector_size(TCI_VEC_BYTES)));

static inline tci_vec tci_vec_load(const char *p)
{
    tci_vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Bytes that end a run of plain ones in a JSON string: all bits set where there is a quote, a
 * backslash or a control character. Flipping one bit puts the quote directly behind the control characters, and
 * nothing else there. */
static inline tci_vec tci_vec_json_stops(tci_vec v)
{
    return (tci_vec)((v ^ 2) <= ('"' ^ 2)) | (tci_vec)(v == '\\');
}

/* Is any byte of found set? Each is 0 or 0xff. */
static inline bool tci_vec_any(tci_vec found)
{
    tci_vec_words w = (tci_vec_words)found;
    return (w[0] | w[1]) != 0;
}

/* Offset of the first byte of found that is set; TCI_VEC_BYTES when none is. */
static inline size_t tci_vec_first(tci_vec found)
{
    tci_vec_words w = (tci_vec_words)found;
    uint64_t low = w[0], high = w[1];
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    low = __builtin_bswap64(low);
    high = __builtin_bswap64(high);
#endif
    if (low != 0)
        return (size_t)__builtin_ctzll(low) / 8;
    return high != 0 ? 8 + (size_t)__builtin_ctzll(high) / 8 : TCI_VEC_BYTES;
}

#endif
