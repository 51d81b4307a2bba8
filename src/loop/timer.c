/* SPDX-License-Identifier: Apache-2.0
 *
 * Timers: a binary heap of the callers' storage, ordered by due time, in front of one libuv timer.
 * Leaves the clock to loop.c. Loop thread. Invariant: heap[t->heap_at - 1] == t for every armed
 * timer, and no timer is due before its parent. */
#include "loop/loop_int.h"

#include "base/mem.h"
#include "base/num.h"
#include "plat/clock.h"

static void put(tci_loop *loop, size_t i, tci_timer *t)
{
    loop->heap[i] = t;
    t->heap_at = i + 1;
}

static void sift_up(tci_loop *loop, size_t i, tci_timer *t)
{
    while (i > 0) {
        size_t parent = (i - 1) / 2;
        if (loop->heap[parent]->due_ns <= t->due_ns)
            break;
        put(loop, i, loop->heap[parent]);
        i = parent;
    }
    put(loop, i, t);
}

static void sift_down(tci_loop *loop, size_t i, tci_timer *t)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= loop->ntimers)
            break;
        if (child + 1 < loop->ntimers && loop->heap[child + 1]->due_ns < loop->heap[child]->due_ns)
            child++;
        if (t->due_ns <= loop->heap[child]->due_ns)
            break;
        put(loop, i, loop->heap[child]);
        i = child;
    }
    put(loop, i, t);
}

/* Put t where it belongs, i being a free place or its own. */
static void settle(tci_loop *loop, size_t i, tci_timer *t)
{
    if (i > 0 && loop->heap[(i - 1) / 2]->due_ns > t->due_ns)
        sift_up(loop, i, t);
    else
        sift_down(loop, i, t);
}

void tci_timer_init(tci_timer *t, tci_loop *loop, void (*cb)(tci_timer *timer))
{
    *t = (tci_timer){.loop = loop, .cb = cb};
}

static int make_room(tci_loop *loop, tc_err *err)
{
    if (loop->ntimers < loop->heap_cap)
        return 0;
    size_t cap = loop->heap_cap > 0 ? loop->heap_cap * 2 : 16, size = 0;
    tci_timer **heap = NULL;
    if (tci_mul_size(cap, sizeof(tci_timer *), &size))
        heap = tci_mem_resize(loop->heap, size);
    if (heap == NULL)
        return tci_err_no_memory(err);
    loop->heap = heap;
    loop->heap_cap = cap;
    return 0;
}

int tci_timer_start_at(tci_timer *t, int64_t due_ns, tc_err *err)
{
    tci_loop *loop = t->loop;
    tci_loop_assert(loop);
    if (t->heap_at != 0) {
        t->due_ns = due_ns;
        settle(loop, t->heap_at - 1, t);
        return 0;
    }
    int rc = make_room(loop, err);
    if (rc < 0)
        return rc;
    t->due_ns = due_ns;
    sift_up(loop, loop->ntimers++, t);
    return 0;
}

int tci_timer_start(tci_timer *t, int64_t delay_ms, tc_err *err)
{
    int64_t delay_ns, due_ns;
    if (__builtin_mul_overflow(delay_ms > 0 ? delay_ms : 0, (int64_t)1000000, &delay_ns) ||
        __builtin_add_overflow(tci_loop_now_ns(t->loop), delay_ns, &due_ns))
        due_ns = INT64_MAX; /* beyond the end of any machine */
    return tci_timer_start_at(t, due_ns, err);
}

void tci_timer_stop(tci_timer *t)
{
    if (t->heap_at == 0)
        return;
    tci_loop *loop = t->loop;
    tci_loop_assert(loop);
    size_t i = t->heap_at - 1;
    t->heap_at = 0;
    tci_timer *last = loop->heap[--loop->ntimers];
    if (last != t)
        settle(loop, i, last);
}

bool tci_timers_run(tci_loop *loop)
{
    int64_t now_ns = tci_loop_now_ns(loop);
    bool did_something = false;
    /* One that starts itself again for "now" waits for the next turn. */
    for (size_t left = loop->ntimers; left > 0 && loop->ntimers > 0; left--) {
        tci_timer *first = loop->heap[0];
        if (first->due_ns > now_ns)
            break;
        tci_timer_stop(first);
        did_something = true;
        first->cb(first);
    }
    return did_something;
}

static void on_tick(uv_timer_t *tick)
{
    tci_loop *loop = TCI_CONTAINER(tick, tci_loop, tick);
    loop->tick_due_ns = 0;
    (void)tci_timers_run(loop); /* libuv may be a moment early: it is then armed once more */
}

void tci_timers_arm(tci_loop *loop)
{
    int64_t due_ns = loop->ntimers > 0 ? loop->heap[0]->due_ns : 0;
    if (due_ns == loop->tick_due_ns)
        return;
    loop->tick_due_ns = due_ns;
    if (due_ns == 0) {
        (void)uv_timer_stop(&loop->tick); /* cannot fail */
        return;
    }
    int64_t wait_ns = due_ns - tci_clock_mono_ns();
    uint64_t wait_ms = wait_ns > 0 ? ((uint64_t)wait_ns + 999999) / 1000000 : 0;
    uv_update_time(&loop->uv);
    (void)uv_timer_start(&loop->tick, on_tick, wait_ms, 0); /* fails only without a callback */
}
