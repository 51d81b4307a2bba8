/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4) for builds without libcrypto; it takes the place of hash.c. The processor's
 * own instructions where it has them (Intel SHA Extensions, ARMv8 Cryptographic Extension),
 * otherwise plain C. Leaves hex and the hash of tables to hash_table.c. Any thread. Invariant: the
 * state is a plain value, as the header promises: it may be copied at any time. */
#include "base/hash.h"

#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<cpuid.h>) && __has_include(<immintrin.h>)
#define HAS_X86 1
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#endif
#elif defined(__aarch64__) && defined(__has_include)
#if __has_include(<sys/auxv.h>) && __has_include(<arm_neon.h>)
#define HAS_ARM 1
#include <arm_neon.h>
#include <sys/auxv.h>
#endif
#endif

enum { BLOCK = 64, LENGTH_AT = BLOCK - 8 };

typedef struct state {
    uint32_t h[8];
    uint8_t block[BLOCK]; /* the part of a block that waits for the rest of it */
    uint64_t nbytes;      /* all so far, those waiting included */
} state;

_Static_assert(sizeof(state) <= sizeof(tci_sha256), "tci_sha256 holds the state");
_Static_assert(_Alignof(state) <= _Alignof(tci_sha256), "and is aligned for it");

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static state *state_of(tci_sha256 *h)
{
    return (state *)(void *)h->opaque;
}

static uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be32(uint8_t *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> (24 - 8 * i));
}

/* ---- plain C ---- */

static inline uint32_t rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

/* Word i of the message schedule; w keeps the last 16 of them. */
static inline uint32_t schedule(uint32_t w[16], unsigned i)
{
    uint32_t w15 = w[(i + 1) % 16], w2 = w[(i + 14) % 16];
    uint32_t s0 = rotate(w15, 7) ^ rotate(w15, 18) ^ w15 >> 3;
    uint32_t s1 = rotate(w2, 17) ^ rotate(w2, 19) ^ w2 >> 10;
    return w[i % 16] += s0 + w[(i + 9) % 16] + s1;
}

static void blocks_plain(uint32_t h[8], const uint8_t *p, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, p += BLOCK) {
        uint32_t w[16], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6],
                        k = h[7];
        for (unsigned i = 0; i < 64; i++) {
            uint32_t word = i < 16 ? (w[i] = load_be32(p + 4 * i)) : schedule(w, i);
            uint32_t t1 = k + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                          ((e & f) ^ (~e & g)) + round_constants[i] + word;
            uint32_t t2 =
                (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            k = g, g = f, f = e, e = d + t1;
            d = c, c = b, b = a, a = t1 + t2;
        }
        h[0] += a, h[1] += b, h[2] += c, h[3] += d;
        h[4] += e, h[5] += f, h[6] += g, h[7] += k;
    }
}

/* ---- by the processor ---- */

#ifdef HAS_X86

enum { CPU_UNKNOWN, CPU_PLAIN, CPU_SHA };

/* The one thing here that outlives a call. Asking the processor is a trip to the hypervisor on a
 * virtual machine, as long as a short digest; every thread finds the same answer. */
static atomic_int cpu;

static int look_at_cpu(void)
{
    enum { SSSE3 = 1 << 9, SSE41 = 1 << 19, SHA = 1 << 29 };
    unsigned a, b, c, d;
    bool has = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & SSSE3) != 0 && (c & SSE41) != 0 &&
               __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & SHA) != 0;
    return has ? CPU_SHA : CPU_PLAIN;
}

static bool has_instructions(void)
{
    int known = atomic_load_explicit(&cpu, memory_order_relaxed);
    if (known == CPU_UNKNOWN) {
        known = look_at_cpu();
        atomic_store_explicit(&cpu, known, memory_order_relaxed);
    }
    return known == CPU_SHA;
}

/* The instructions want the state as (a,b,e,f) and (c,d,g,h), highest word first; see Intel's
 * Software Developer's Manual, SHA256RNDS2. Each turn of the inner loop is four rounds. */
__attribute__((target("sha,sse4.1,ssse3"))) static void
blocks_by_instructions(uint32_t h[8], const uint8_t *p, size_t nblocks)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)h);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)(h + 4));
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);

    for (; nblocks > 0; nblocks--, p += BLOCK) {
        __m128i w[4], abef_before = abef, cdgh_before = cdgh;
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i *now = &w[i % 4], last = w[(i + 3) % 4];
            if (i < 4) {
                const void *at = p + 16 * i;
                *now = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)at), big_endian);
            } else {
                __m128i middle = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
                *now = _mm_add_epi32(_mm_sha256msg1_epu32(*now, w[(i + 1) % 4]), middle);
                *now = _mm_sha256msg2_epu32(*now, last);
            }
            const void *constants = round_constants + 4 * i;
            __m128i sum = _mm_add_epi32(*now, _mm_loadu_si128((const __m128i *)constants));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)h, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(h + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#elif defined(HAS_ARM)

static bool has_instructions(void)
{
    enum { SHA2 = 1 << 6 }; /* HWCAP_SHA2 */
    return (getauxval(AT_HWCAP) & SHA2) != 0;
}

/* Each turn of the inner loop is four rounds; see the Arm Architecture Reference Manual, SHA256H. */
#ifdef __clang__
__attribute__((target("sha2"))) static void
#else
__attribute__((target("+crypto"))) static void
#endif
blocks_by_instructions(uint32_t h[8], const uint8_t *p, size_t nblocks)
{
    uint32x4_t abcd = vld1q_u32(h), efgh = vld1q_u32(h + 4);
    for (; nblocks > 0; nblocks--, p += BLOCK) {
        uint32x4_t w[4], abcd_before = abcd, efgh_before = efgh;
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            uint32x4_t *now = &w[i % 4];
            if (i < 4)
                *now = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p + 16 * i)));
            else
                *now = vsha256su1q_u32(vsha256su0q_u32(*now, w[(i + 1) % 4]), w[(i + 2) % 4],
                                       w[(i + 3) % 4]);
            uint32x4_t sum = vaddq_u32(*now, vld1q_u32(round_constants + 4 * i));
            uint32x4_t abcd_now = abcd;
            abcd = vsha256hq_u32(abcd, efgh, sum);
            efgh = vsha256h2q_u32(efgh, abcd_now, sum);
        }
        abcd = vaddq_u32(abcd, abcd_before);
        efgh = vaddq_u32(efgh, efgh_before);
    }
    vst1q_u32(h, abcd);
    vst1q_u32(h + 4, efgh);
}

#endif

static void blocks(uint32_t h[8], const uint8_t *p, size_t nblocks)
{
#if defined(HAS_X86) || defined(HAS_ARM)
    if (has_instructions()) {
        blocks_by_instructions(h, p, nblocks);
        return;
    }
#endif
    blocks_plain(h, p, nblocks);
}

/* ---- the digest ---- */

void tci_sha256_init(tci_sha256 *h)
{
    /* The first 32 bits of the fractional parts of the square roots of the first 8 primes. */
    *state_of(h) = (state){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void tci_sha256_update(tci_sha256 *h, const void *bytes, size_t len)
{
    if (len == 0)
        return;
    state *s = state_of(h);
    const uint8_t *p = bytes;
    size_t waiting = s->nbytes % BLOCK;
    s->nbytes += len;
    if (waiting > 0) {
        size_t n = len < BLOCK - waiting ? len : BLOCK - waiting;
        memcpy(s->block + waiting, p, n);
        if (waiting + n < BLOCK)
            return;
        blocks(s->h, s->block, 1);
        p += n;
        len -= n;
    }
    if (len >= BLOCK)
        blocks(s->h, p, len / BLOCK);
    memcpy(s->block, p + len / BLOCK * BLOCK, len % BLOCK);
}

void tci_sha256_final(tci_sha256 *h, uint8_t out[TCI_SHA256_BYTES])
{
    state *s = state_of(h);
    size_t n = s->nbytes % BLOCK;
    s->block[n++] = 0x80;
    if (n > LENGTH_AT) { /* no room for the length: one more block */
        memset(s->block + n, 0, BLOCK - n);
        blocks(s->h, s->block, 1);
        n = 0;
    }
    memset(s->block + n, 0, LENGTH_AT - n);
    uint64_t nbits = s->nbytes * 8;
    store_be32(s->block + LENGTH_AT, (uint32_t)(nbits >> 32));
    store_be32(s->block + LENGTH_AT + 4, (uint32_t)nbits);
    blocks(s->h, s->block, 1);
    for (size_t i = 0; i < TCI_ARRAY_LEN(s->h); i++)
        store_be32(out + 4 * i, s->h[i]);
}

void tci_sha256_of(tc_str s, uint8_t out[TCI_SHA256_BYTES])
{
    tci_sha256 h;
    tci_sha256_init(&h);
    tci_sha256_update(&h, s.ptr, s.len);
    tci_sha256_final(&h, out);
}
