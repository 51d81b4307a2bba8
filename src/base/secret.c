/* SPDX-License-Identifier: Apache-2.0
 *
 * Secrets in memory. Leaves keeping them on disk to their owners. One thread at a time. Invariant:
 * the bytes are never moved, so no stale copy stays behind, and are wiped before they are freed. */
#include "base/secret.h"

int tci_secret_init(tci_secret *s, tc_str bytes, tc_err *err)
{
    char *copy = tci_mem_alloc(bytes.len);
    if (copy == NULL)
        return tci_err_no_memory(err);
    if (bytes.len > 0)
        memcpy(copy, bytes.ptr, bytes.len);
    *s = (tci_secret){copy, bytes.len};
    return 0;
}

void tci_secret_done(tci_secret *s)
{
    if (s->bytes != NULL)
        tci_mem_wipe(s->bytes, s->len);
    tci_mem_free(s->bytes);
    *s = (tci_secret){0};
}

bool tci_secret_eq(const tci_secret *s, tc_str other)
{
    if (s->len != other.len)
        return false;
    volatile unsigned char different = 0; /* volatile: no early way out */
    for (size_t i = 0; i < s->len; i++)
        different = (unsigned char)(different | (s->bytes[i] ^ other.ptr[i]));
    return different == 0;
}
