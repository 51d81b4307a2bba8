/* SPDX-License-Identifier: Apache-2.0
 *
 * Hex, and the hash of tables. Leaves digests to hash.c or hash_own.c. Any thread. Invariant: the
 * hash is for tables of one process; it is never stored or sent. */
#include "base/hash.h"

void tci_hex(const void *bytes, size_t len, char *out)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = "0123456789abcdef"[p[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[p[i] & 15];
    }
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int tci_unhex(tc_str hex, void *out, size_t len, tc_err *err)
{
    if (hex.len % 2 != 0 || hex.len / 2 != len)
        return tc_err_set(err, TC_E_INVALID, "%zu hexadecimal digits needed, not %zu", 2 * len,
                          hex.len);
    unsigned char *p = out;
    for (size_t i = 0; i < len; i++) {
        int high = hex_value(hex.ptr[2 * i]), low = hex_value(hex.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return tc_err_set(err, TC_E_INVALID, "not a lower-case hexadecimal digit near %zu",
                              2 * i);
        p[i] = (unsigned char)(high << 4 | low);
    }
    return 0;
}

/* SipHash-1-3 (Aumasson and Bernstein, 2012): keyed, so that names from outside cannot be chosen to
 * fall together, and quick on the short texts that tables hold. */
typedef struct sip {
    uint64_t v0, v1, v2, v3;
} sip;

static inline uint64_t rotate(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static inline void sip_round(sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
}

uint64_t tci_hash64(const void *bytes, size_t len, uint64_t seed)
{
    const uint64_t key0 = seed, key1 = rotate(seed, 32) ^ 0x9e3779b97f4a7c15u;
    sip s = {key0 ^ 0x736f6d6570736575u, key1 ^ 0x646f72616e646f6du, key0 ^ 0x6c7967656e657261u,
             key1 ^ 0x7465646279746573u};
    const unsigned char *p = bytes;
    size_t left = len;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t w;
        memcpy(&w, p, sizeof w);
        s.v3 ^= w;
        sip_round(&s);
        s.v0 ^= w;
    }
    uint64_t last = (uint64_t)len << 56;
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)p[i] << (8 * i);
    s.v3 ^= last;
    sip_round(&s);
    s.v0 ^= last;
    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
