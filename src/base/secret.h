/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that must never be shown: wiped when freed, compared in constant time. There is no way to
 * print it: whoever needs the bytes calls tci_secret_str and is responsible for them. */
#ifndef TCI_SECRET_H
#define TCI_SECRET_H

#include "base/mem.h"
#include "base/str.h"

typedef struct tci_secret {
    char *bytes;
    size_t len;
} tci_secret;

int tci_secret_init(tci_secret *s, tc_str bytes, tc_err *err) TC_CHECKED; /* copies */
void tci_secret_done(tci_secret *s);
static inline tc_str tci_secret_str(const tci_secret *s)
{
    return tci_str_of(s->bytes, s->len);
}
/* Time depends on the lengths only. */
bool tci_secret_eq(const tci_secret *s, tc_str other);

#endif
