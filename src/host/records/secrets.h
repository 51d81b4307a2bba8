/* SPDX-License-Identifier: Apache-2.0
 *
 * Random words, their digests, and comparing these. Only digests are ever kept. Pure but for randomness; any
 * thread. */
#ifndef TCI_HOST_SECRETS_H
#define TCI_HOST_SECRETS_H

#include "base/hash.h"

typedef struct tci_digest {
    uint8_t bytes[TCI_SHA256_BYTES];
} tci_digest;

/* SHA-256. What is digested here is random and long, so it needs neither salt nor stretching. */
tci_digest tci_digest_of(tc_str secret);
/* The time does not depend on the contents. */
bool tci_digest_eq(const tci_digest *a, const tci_digest *b);

enum { TCI_TOKEN_LEN = 64, TCI_LINK_CODE_LEN = 32, TCI_RESOURCE_ID_LEN = 24, TCI_CODE_LEN = 9 };
/* So many random lower-case hex digits, an even number up to 64; no NUL. */
void tci_random_hex(char *out, size_t len);
/* "BCDF-GHJK": eight consonants, which make neither words nor look like digits; no NUL. */
void tci_random_code(char out[TCI_CODE_LEN]);
/* A code as a person types it, in any case, with or without the hyphen: its usual form. false: no code. */
bool tci_code_read(tc_str typed, char out[TCI_CODE_LEN]);

/* What a form must send along with a browser's session: nobody who lacks the session can know it. */
void tci_csrf_of(tc_str token, char out[TCI_SHA256_HEX]);
bool tci_csrf_is(tc_str token, tc_str given);

/* Is it exactly len lower-case hex digits? */
bool tci_is_hex(tc_str s, size_t len);

#endif
