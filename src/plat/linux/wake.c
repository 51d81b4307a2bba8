/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting on a word by futex(2). Any thread, and signal handlers for waking. Invariant: the count changes
 * before anybody is woken, so a waiter either sees the change or is woken by it. */
#include "plat/thread.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void tci_wake_send(tci_wake *w, uint32_t bits)
{
    syscall(SYS_futex, &w->count, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, bits);
}

void tci_wake_all(tci_wake *w)
{
    tci_wake_count_one(w);
    tci_wake_send(w, FUTEX_BITSET_MATCH_ANY);
}

void tci_wake_wait(tci_wake *w, unsigned seen, int64_t deadline_ns)
{
    tci_wake_wait_bits(w, seen, FUTEX_BITSET_MATCH_ANY, deadline_ns);
}

void tci_wake_wait_bits(tci_wake *w, unsigned seen, uint32_t bits, int64_t deadline_ns)
{
    struct timespec at = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                          .tv_nsec = (long)(deadline_ns % 1000000000)};
    /* WAIT_BITSET takes an absolute time of the monotonic clock. */
    syscall(SYS_futex, &w->count, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline_ns > 0 ? &at : NULL,
            NULL, bits);
}
