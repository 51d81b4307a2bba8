/* SPDX-License-Identifier: Apache-2.0
 *
 * Random words, their digests, and comparing these. Who may know which is for others. Any thread. Invariant:
 * nothing here depends, in time, on how much of a guess was right. */
#include "host/records/secrets.h"

#include "plat/clock.h"

static const char letters[] = "BCDFGHJKLMNPQRSTVWXZ";
enum { NLETTERS = sizeof letters - 1, HALF = 4 };

tci_digest tci_digest_of(tc_str secret)
{
    tci_digest d;
    tci_sha256_of(secret, d.bytes);
    return d;
}

bool tci_digest_eq(const tci_digest *a, const tci_digest *b)
{
    volatile uint8_t differ = 0;
    for (size_t i = 0; i < sizeof a->bytes; i++)
        differ = (uint8_t)(differ | (a->bytes[i] ^ b->bytes[i]));
    return differ == 0;
}

void tci_random_hex(char *out, size_t len)
{
    uint8_t bytes[TCI_TOKEN_LEN / 2];
    TC_ASSERT(len % 2 == 0 && len / 2 <= sizeof bytes);
    tci_random_bytes(bytes, len / 2);
    tci_hex(bytes, len / 2, out);
}

/* Without the bias that the rest of a division would have. */
static char random_letter(void)
{
    uint8_t byte;
    do
        tci_random_bytes(&byte, 1);
    while (byte >= UINT8_MAX / NLETTERS * NLETTERS);
    return letters[byte % NLETTERS];
}

void tci_random_code(char out[TCI_CODE_LEN])
{
    for (size_t i = 0; i < TCI_CODE_LEN; i++)
        out[i] = i == HALF ? '-' : random_letter();
}

bool tci_code_read(tc_str typed, char out[TCI_CODE_LEN])
{
    size_t n = 0;
    for (size_t i = 0; i < typed.len; i++) {
        char c = typed.ptr[i];
        if (c == '-' || c == ' ')
            continue;
        if (c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        if (c == '\0' || strchr(letters, c) == NULL || n == TCI_CODE_LEN)
            return false;
        if (n == HALF)
            out[n++] = '-';
        out[n++] = c;
    }
    return n == TCI_CODE_LEN;
}

void tci_csrf_of(tc_str token, char out[TCI_SHA256_HEX])
{
    static const char purpose[] = "telechir form\n";
    tci_sha256 h;
    uint8_t digest[TCI_SHA256_BYTES];
    tci_sha256_init(&h);
    tci_sha256_update(&h, purpose, sizeof purpose - 1);
    tci_sha256_update(&h, token.ptr, token.len);
    tci_sha256_final(&h, digest);
    tci_hex(digest, sizeof digest, out);
}

bool tci_csrf_is(tc_str token, tc_str given)
{
    char right[TCI_SHA256_HEX];
    tci_csrf_of(token, right);
    tci_digest a = tci_digest_of(tci_str_of(right, sizeof right)), b = tci_digest_of(given);
    return tci_digest_eq(&a, &b);
}

bool tci_is_hex(tc_str s, size_t len)
{
    bool is_hex = s.len == len;
    for (size_t i = 0; is_hex && i < len; i++)
        is_hex = (s.ptr[i] >= '0' && s.ptr[i] <= '9') || (s.ptr[i] >= 'a' && s.ptr[i] <= 'f');
    return is_hex;
}
