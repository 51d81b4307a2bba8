/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that wait for each other: a thread, a lock, and a word to wait on. For code that is called
 * by threads of somebody else's program; what runs on the loop needs none of this. */
#ifndef TCI_PLAT_THREAD_H
#define TCI_PLAT_THREAD_H

#include "base/compiler.h"
#include <stdatomic.h>
#include <telechir/error.h>

typedef struct tci_thread tci_thread;

/* All signals are blocked in it: they belong to the program's own threads. stack_bytes 0: the
 * system's choice. Errors: NO_MEMORY, BUSY. */
int tci_thread_new(void (*run)(void *arg), void *arg, size_t stack_bytes, tci_thread **ret_thread,
                   tc_err *err) TC_CHECKED;
/* Wait for its end and free it. NULL is fine. */
void tci_thread_join(tci_thread *t);

typedef struct tci_mutex {
    uint64_t opaque[8]; /* large enough for the system's; checked when compiled */
} tci_mutex;

void tci_mutex_init(tci_mutex *m);
void tci_mutex_done(tci_mutex *m);
void tci_mutex_lock(tci_mutex *m);
void tci_mutex_unlock(tci_mutex *m);

/* A word that counts events. Waiting is for the next count after one that was looked at before the
 * condition was checked, so that no event is missed:
 *     seen = tci_wake_count(w); if (!condition) tci_wake_wait(w, seen, deadline_ns); again.
 * Zero is the initial value; nothing to release. */
typedef struct tci_wake {
    atomic_uint count;
} tci_wake;

static inline unsigned tci_wake_count(const tci_wake *w)
{
    return atomic_load(&w->count);
}
/* Count one and wake all that wait. Any thread; safe in a signal handler. */
void tci_wake_all(tci_wake *w);
/* Return when the count is no longer seen, at deadline_ns (monotonic; 0: none), or for no reason. */
void tci_wake_wait(tci_wake *w, unsigned seen, int64_t deadline_ns);

/* Several that share a word, each waiting for something of its own: only those are woken whose bits
 * (not 0) meet. Who waits or wakes without bits has all of them. */
static inline uint32_t tci_wake_bit(uint64_t number)
{
    return UINT32_C(1) << (number % 32);
}
void tci_wake_wait_bits(tci_wake *w, unsigned seen, uint32_t bits, int64_t deadline_ns);
/* Waking in two steps, so that nobody is woken into a lock that is still held: count with the lock
 * held, which is what a waiter looks at; send after it was given back. send only names the word to
 * the system and is fine when the word is gone. */
static inline void tci_wake_count_one(tci_wake *w)
{
    atomic_fetch_add(&w->count, 1);
}
void tci_wake_send(tci_wake *w, uint32_t bits);

#endif
