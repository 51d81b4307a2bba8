/* SPDX-License-Identifier: Apache-2.0
 *
 * Time and randomness: the only places they come from. Any thread. */
#ifndef TCI_PLAT_CLOCK_H
#define TCI_PLAT_CLOCK_H

#include "base/rfc3339.h"
#include <stdatomic.h>

int64_t tci_clock_mono_ns(void);
tci_instant tci_clock_now(void); /* wall clock */
/* Cryptographically strong bytes; aborts only when the system has none. */
void tci_random_bytes(void *out, size_t len);

/* What ends an operation early. Shared between the loop (which sets) and a worker (which looks).
 * deadline_ns is monotonic; 0: none. */
typedef struct tci_cancel {
    atomic_bool is_cancelled;
    int64_t deadline_ns;
} tci_cancel;
/* 0, or CANCELLED, or TIMEOUT. c may be NULL. Reads the clock: call once per file or block. */
int tci_cancel_check(const tci_cancel *c, tc_err *err) TC_CHECKED;

#endif
