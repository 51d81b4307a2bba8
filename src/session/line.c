/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock behind a session's line: like a mutex, but a thread may stop waiting for it, and a thread
 * that was passed over once is not passed over again. Leaves what is done with the line to others. Any
 * thread. Invariant: is_held changes only under m; a granted waiter is the owner before it runs. */
#include "session/session_int.h"

typedef struct tci_line_waiter {
    struct tci_line_waiter *next;
    tci_wake *wake;
    bool is_granted;
    unsigned nlosses;
} tci_line_waiter;

static _Thread_local const char thread_mark;

uintptr_t tci_thread_mark(void)
{
    return (uintptr_t)(const void *)&thread_mark;
}

void tci_line_init(tci_line *l)
{
    tci_mutex_init(&l->m);
}

void tci_line_done(tci_line *l)
{
    tci_mutex_done(&l->m);
}

static void drop_waiter(tci_line *l, tci_line_waiter *w)
{
    tci_line_waiter *before = NULL;
    for (tci_line_waiter *at = l->first; at != NULL; before = at, at = at->next) {
        if (at != w)
            continue;
        if (before == NULL)
            l->first = w->next;
        else
            before->next = w->next;
        if (l->last == w)
            l->last = before;
        return;
    }
}

static void add_waiter(tci_line *l, tci_line_waiter *w)
{
    if (l->last == NULL)
        l->first = w;
    else
        l->last->next = w;
    l->last = w;
}

/* With m; returns with m. */
static int wait_for_line(tci_line *l, tc_ctx *ctx, tc_err *err)
{
    tci_wake own = {0};
    tci_line_waiter w = {.wake = ctx != NULL ? tci_ctx_wake(ctx) : &own};
    add_waiter(l, &w);
    int rc = 0;
    while (l->is_held && !w.is_granted) {
        rc = tci_ctx_check(ctx, err);
        if (rc < 0)
            break;
        unsigned seen = tci_wake_count(w.wake);
        tci_mutex_unlock(&l->m);
        tci_wake_wait(w.wake, seen, tci_ctx_deadline_ns(ctx));
        tci_mutex_lock(&l->m);
        w.nlosses++;
    }
    drop_waiter(l, &w);
    return rc;
}

int tci_line_lock(tci_line *l, tc_ctx *ctx, tc_err *err)
{
    int rc = 0;
    tci_mutex_lock(&l->m);
    if (TCI_UNLIKELY(l->is_held))
        rc = wait_for_line(l, ctx, err);
    if (rc == 0) {
        l->is_held = true;
        atomic_store_explicit(&l->owner, tci_thread_mark(), memory_order_relaxed);
    }
    tci_mutex_unlock(&l->m);
    return rc;
}

void tci_line_lock_always(tci_line *l)
{
    tc_err never;
    int rc = tci_line_lock(l, NULL, &never);
    TC_ASSERT(rc == 0);
}

void tci_line_unlock(tci_line *l)
{
    tci_wake *wake = NULL;
    tci_mutex_lock(&l->m);
    atomic_store_explicit(&l->owner, 0, memory_order_relaxed);
    tci_line_waiter *w = l->first;
    if (w != NULL) {
        w->is_granted = w->nlosses > 0;
        wake = w->wake;
        tci_wake_count_one(wake);
    }
    l->is_held = w != NULL && w->is_granted;
    tci_mutex_unlock(&l->m);
    if (wake != NULL)
        tci_wake_send(wake, UINT32_MAX);
}
