/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in text, and sizes that may not overflow. */
#ifndef TCI_NUM_H
#define TCI_NUM_H

#include "base/str.h"

/* The whole of s must be one canonical decimal: no sign (i64: an optional '-'), no leading zero,
 * no blanks. INVALID otherwise or when out of range. */
int tci_num_u64(tc_str s, uint64_t *ret, tc_err *err) TC_CHECKED;
int tci_num_i64(tc_str s, int64_t *ret, tc_err *err) TC_CHECKED;
/* A finite JSON number (RFC 8259 section 6). Locale-independent. */
int tci_num_double(tc_str s, double *ret, tc_err *err) TC_CHECKED;
int tci_num_hex_u64(tc_str s, uint64_t *ret, tc_err *err) TC_CHECKED; /* 1..16 hex digits */

enum { TCI_NUM_TEXT_MAX = 32 };
/* Shortest text that reads back as the same double, as JSON. Returns its length. */
size_t tci_num_double_text(double v, char out[TCI_NUM_TEXT_MAX]);
/* Base 36, lower case, no padding. Returns the length. */
size_t tci_num_base36_text(uint64_t v, char out[TCI_NUM_TEXT_MAX]);

/* false on overflow; *ret then untouched. */
static inline bool tci_add_size(size_t a, size_t b, size_t *ret)
{
    return !__builtin_add_overflow(a, b, ret);
}
static inline bool tci_mul_size(size_t a, size_t b, size_t *ret)
{
    return !__builtin_mul_overflow(a, b, ret);
}
static inline bool tci_add_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
    return !__builtin_add_overflow(a, b, ret);
}
/* Times: from outside in milliseconds, inside in nanoseconds; what does not fit is as late as can be. */
static inline int64_t tci_ms_to_ns(uint64_t ms)
{
    return ms > INT64_MAX / 1000000 ? INT64_MAX : (int64_t)ms * 1000000;
}
static inline int64_t tci_add_ns(int64_t at_ns, int64_t more_ns)
{
    int64_t sum;
    return __builtin_add_overflow(at_ns, more_ns, &sum) ? INT64_MAX : sum;
}
static inline uint64_t tci_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static inline uint64_t tci_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
static inline size_t tci_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
