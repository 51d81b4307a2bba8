/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at sixteen bytes of text at once: the parser's and the emitter's scan. The compiler makes
 * of the vectors what the machine has, or plain words. */
#ifndef TCI_JSON_INT_H
#define TCI_JSON_INT_H

#include "base/compiler.h"
#include <string.h>

enum { TCI_JSON_STEP = 16 };

typedef unsigned char tci_json_bytes __attribute__((vector_size(TCI_JSON_STEP)));
typedef uint64_t tci_json_words __attribute__((vector_size(TCI_JSON_STEP)));

static inline tci_json_bytes tci_json_load(const char *p)
{
    tci_json_bytes v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Bytes that end a run of plain ones in a JSON string: all bits set where there is a quote, a
 * backslash or a control character. */
static inline tci_json_bytes tci_json_stops(tci_json_bytes v)
{
    return (tci_json_bytes)(v < 0x20) | (tci_json_bytes)(v == '"') | (tci_json_bytes)(v == '\\');
}

/* Offset of the first byte of found that is not zero; TCI_JSON_STEP when all are. Each is 0 or
 * 0xff. */
static inline size_t tci_json_first(tci_json_bytes found)
{
    tci_json_words w = (tci_json_words)found;
    uint64_t low = w[0], high = w[1];
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    low = __builtin_bswap64(low);
    high = __builtin_bswap64(high);
#endif
    if (low != 0)
        return (size_t)__builtin_ctzll(low) / 8;
    return high != 0 ? 8 + (size_t)__builtin_ctzll(high) / 8 : TCI_JSON_STEP;
}

#endif
