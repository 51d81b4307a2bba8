/* SPDX-License-Identifier: Apache-2.0
 *
 * Time and randomness on POSIX systems. Leaves waiting to loop. Any thread. Invariant: the two
 * clocks are never compared with each other. */
#include "plat/clock.h"
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { ENTROPY_MAX = 256 }; /* what one getentropy call gives at most */

int64_t tci_clock_mono_ns(void)
{
    struct timespec t;
    TC_ASSERT(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

tci_instant tci_clock_now(void)
{
    struct timespec t;
    TC_ASSERT(clock_gettime(CLOCK_REALTIME, &t) == 0);
    return (tci_instant){t.tv_sec, (int32_t)t.tv_nsec};
}

void tci_random_bytes(void *out, size_t len)
{
    char *at = out;
    while (len > 0) {
        size_t n = len < ENTROPY_MAX ? len : ENTROPY_MAX;
        TC_ASSERT(getentropy(at, n) == 0);
        at += n;
        len -= n;
    }
}

int tci_cancel_check(const tci_cancel *c, tc_err *err)
{
    if (c == NULL)
        return 0;
    if (atomic_load_explicit(&c->is_cancelled, memory_order_acquire))
        return tc_err_set(err, TC_E_CANCELLED, "cancelled");
    if (c->deadline_ns != 0 && tci_clock_mono_ns() >= c->deadline_ns)
        return tc_err_set(err, TC_E_TIMEOUT, "time ran out");
    return 0;
}
