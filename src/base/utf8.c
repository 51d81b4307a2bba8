/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 as RFC 3629 has it. Leaves escapes to json. Any thread. Invariant: validity is decided in
 * sequence_len; what skips over ASCII and over runs of three-byte sequences is only faster. */
#include "base/utf8.h"

static const uint64_t high_bits = 0x8080808080808080u;

static uint64_t load8(const char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* The byte at p is the lowest of the word on every machine. */
static uint32_t load4(const char *p)
{
    uint32_t w;
    memcpy(&w, p, sizeof w);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap32(w);
#endif
    return w;
}

static bool is_tail(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* Bytes of the valid sequence at the front of p, 0 when there is none. p < end. */
static inline size_t sequence_len(const unsigned char *p, const unsigned char *end)
{
    unsigned char c = p[0];
    size_t left = (size_t)(end - p);
    if (c < 0x80)
        return 1;
    if (c < 0xe0)
        return c >= 0xc2 && left >= 2 && is_tail(p[1]) ? 2 : 0;
    if (c < 0xf0) {
        if (left < 3 || !is_tail(p[1]) || !is_tail(p[2]))
            return 0;
        unsigned value = (unsigned)(c & 0x0f) << 12 | (unsigned)(p[1] & 0x3f) << 6;
        return value >= 0x800 && (value & 0xf800) != 0xd800 ? 3 : 0;
    }
    if (c > 0xf4 || left < 4 || !is_tail(p[1]) || !is_tail(p[2]) || !is_tail(p[3]))
        return 0;
    unsigned value = (unsigned)(c & 0x07) << 18 | (unsigned)(p[1] & 0x3f) << 12;
    return value >= 0x10000 && value <= 0x10ffff ? 4 : 0;
}

/* The first byte from p on that is ASCII or not valid. */
static const char *skip_high(const char *p, const char *end)
{
    while (p != end && (unsigned char)*p >= 0x80) {
        /* Most scripts outside ASCII are written in threes: one load and two looks for each. */
        while (end - p >= 4) {
            uint32_t w = load4(p);
            uint32_t top = w & 0x200f; /* of the value: zero is overlong, 0x200d a surrogate */
            if ((w & 0xc0c0f0) != 0x8080e0 || top == 0 || top == 0x200d)
                break;
            p += 3;
        }
        if (p == end || (unsigned char)*p < 0x80)
            break;
        size_t n = sequence_len((const unsigned char *)p, (const unsigned char *)end);
        if (n == 0)
            break;
        p += n;
    }
    return p;
}

size_t tci_utf8_high_prefix(tc_str s)
{
    return s.len > 0 ? (size_t)(skip_high(s.ptr, s.ptr + s.len) - s.ptr) : 0;
}

size_t tci_utf8_valid_prefix(tc_str s)
{
    const char *p = s.ptr, *end = s.len > 0 ? s.ptr + s.len : s.ptr;
    while (p != end) {
        while (end - p >= 16 && ((load8(p) | load8(p + 8)) & high_bits) == 0)
            p += 16;
        while (p != end && (unsigned char)*p < 0x80)
            p++;
        const char *after = skip_high(p, end);
        if (after == p && p != end)
            break;
        p = after;
    }
    return (size_t)(p - s.ptr);
}

/* Whether n bytes that begin like a longer sequence can still become a valid one: some filling
 * with the least or the greatest tail bytes is. */
static bool can_become_valid(const unsigned char *p, size_t n)
{
    for (int i = 0; i < 2; i++) {
        unsigned char full[4] = {0x80, 0x80, 0x80, 0x80};
        memset(full, i == 0 ? 0x80 : 0xbf, sizeof full);
        memcpy(full, p, n);
        if (sequence_len(full, full + sizeof full) > n)
            return true;
    }
    return false;
}

size_t tci_utf8_cut_tail(tc_str s)
{
    for (size_t n = 1; n <= 3 && n <= s.len; n++) {
        const unsigned char *p = (const unsigned char *)s.ptr + (s.len - n);
        if (*p < 0x80)
            return 0;
        if (!is_tail(*p))
            return can_become_valid(p, n) ? n : 0;
    }
    return 0;
}

/* How many of the 8 bytes begin a scalar. */
static size_t count_starts(uint64_t w)
{
    uint64_t tails = w & ~(w << 1) & high_bits; /* bit 7 set, bit 6 clear */
    return 8 - (size_t)__builtin_popcountll(tails);
}

size_t tci_utf8_count(tc_str s)
{
    size_t count = 0, i = 0;
    for (; s.len - i >= 8; i += 8)
        count += count_starts(load8(s.ptr + i));
    for (; i < s.len; i++)
        count += !is_tail((unsigned char)s.ptr[i]);
    return count;
}

size_t tci_utf8_prefix_bytes(tc_str s, size_t nscalars)
{
    size_t i = 0;
    for (; s.len - i >= 8; i += 8) {
        size_t starts = count_starts(load8(s.ptr + i));
        if (starts > nscalars)
            break;
        nscalars -= starts;
    }
    for (; i < s.len; i++) {
        if (is_tail((unsigned char)s.ptr[i]))
            continue;
        if (nscalars == 0)
            break;
        nscalars--;
    }
    return i;
}

int32_t tci_utf8_decode(tc_str s, size_t *ret_len)
{
    static const unsigned char lead_mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    if (s.len == 0)
        return -1;
    const unsigned char *p = (const unsigned char *)s.ptr;
    size_t n = sequence_len(p, p + s.len);
    if (n == 0)
        return -1;
    int32_t scalar = p[0] & lead_mask[n];
    for (size_t i = 1; i < n; i++)
        scalar = scalar << 6 | (p[i] & 0x3f);
    *ret_len = n;
    return scalar;
}

size_t tci_utf8_encode(uint32_t scalar, char out[4])
{
    unsigned char *p = (unsigned char *)out;
    if (scalar < 0x80) {
        p[0] = (unsigned char)scalar;
        return 1;
    }
    if (scalar < 0x800) {
        p[0] = (unsigned char)(0xc0 | scalar >> 6);
        p[1] = (unsigned char)(0x80 | (scalar & 0x3f));
        return 2;
    }
    if (scalar < 0x10000) {
        if ((scalar & 0xf800) == 0xd800)
            return 0;
        p[0] = (unsigned char)(0xe0 | scalar >> 12);
        p[1] = (unsigned char)(0x80 | (scalar >> 6 & 0x3f));
        p[2] = (unsigned char)(0x80 | (scalar & 0x3f));
        return 3;
    }
    if (scalar > 0x10ffff)
        return 0;
    p[0] = (unsigned char)(0xf0 | scalar >> 18);
    p[1] = (unsigned char)(0x80 | (scalar >> 12 & 0x3f));
    p[2] = (unsigned char)(0x80 | (scalar >> 6 & 0x3f));
    p[3] = (unsigned char)(0x80 | (scalar & 0x3f));
    return 4;
}
