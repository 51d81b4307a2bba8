/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 by libcrypto; in a build without it hash_own.c takes this file's place. Leaves hex and the
 * hash of tables to hash_table.c, comparing secrets to secret. Any thread. Invariant: nothing here
 * starts the crypto library.
 *
 * The SHA256_ calls are deprecated since OpenSSL 3.0 in favour of EVP, but EVP fetches the digest
 * from a provider, and the first fetch starts the library: it takes longer than the whole rest of
 * the daemon's start, and its tables would be the larger part of an idle daemon's memory. The block
 * functions below are the same code without that. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/hash.h"
#include <openssl/sha.h>

_Static_assert(sizeof(SHA256_CTX) <= sizeof(tci_sha256), "tci_sha256 holds the library's state");
_Static_assert(_Alignof(SHA256_CTX) <= _Alignof(tci_sha256), "and is aligned for it");

static SHA256_CTX *state(tci_sha256 *h)
{
    return (SHA256_CTX *)(void *)h->opaque;
}

/* The three calls answer 1 always: with a context and no provider there is nothing to fail. */
void tci_sha256_init(tci_sha256 *h)
{
    (void)SHA256_Init(state(h));
}

void tci_sha256_update(tci_sha256 *h, const void *bytes, size_t len)
{
    if (len > 0)
        (void)SHA256_Update(state(h), bytes, len);
}

void tci_sha256_final(tci_sha256 *h, uint8_t out[TCI_SHA256_BYTES])
{
    (void)SHA256_Final(out, state(h));
}

void tci_sha256_of(tc_str s, uint8_t out[TCI_SHA256_BYTES])
{
    tci_sha256 h;
    tci_sha256_init(&h);
    tci_sha256_update(&h, s.ptr, s.len);
    tci_sha256_final(&h, out);
}
