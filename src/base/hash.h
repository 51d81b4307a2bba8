/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4), by the block functions of libcrypto, which need no library start-up. */
#ifndef TCI_HASH_H
#define TCI_HASH_H

#include "base/str.h"

enum { TCI_SHA256_BYTES = 32, TCI_SHA256_HEX = 64 };

typedef struct tci_sha256 {
    uint64_t opaque[16]; /* large enough for the library's state; checked when compiled */
} tci_sha256;

void tci_sha256_init(tci_sha256 *h);
void tci_sha256_update(tci_sha256 *h, const void *bytes, size_t len);
void tci_sha256_final(tci_sha256 *h, uint8_t out[TCI_SHA256_BYTES]);
void tci_sha256_of(tc_str s, uint8_t out[TCI_SHA256_BYTES]);

/* Lower-case hex: 2*len characters, no NUL. */
void tci_hex(const void *bytes, size_t len, char *out);
/* Exactly 2*len lower-case hex digits into len bytes. */
int tci_unhex(tc_str hex, void *out, size_t len, tc_err *err) TC_CHECKED;

/* Quick, keyed by seed; for hash tables only. */
uint64_t tci_hash64(const void *bytes, size_t len, uint64_t seed);

#endif
