/* SPDX-License-Identifier: Apache-2.0
 *
 * Timers: those of the program when it has some, else the scheduler's thread waits itself. Leaves what is
 * to be done in time to timer.c, the sleeps and sweep. Arming and disarming are done by the scheduler's
 * thread, and when that has ended by who closes. Invariant: an id is in at most one place and used once,
 * so that a timer that fires late is told from the one that took its place. */
#include "harness/sched/sched_int.h"

#include "base/num.h"
#include "plat/clock.h"

/* A wall clock may be set, and stands while the machine sleeps: not longer than this at a time. */
#define SLEEP_MAX_MS INT64_C(60000)

static int64_t delay_of(tc_harness *h, tci_timer_kind kind, int64_t due)
{
    int64_t left =
        kind == TCI_TIMER_SLEEP ? due - tci_durable_now_ms(h->session) : due - tci_clock_mono_ns();
    if (left <= 0)
        return 0;
    return kind == TCI_TIMER_SLEEP ? left : left / 1000000 + (left % 1000000 != 0);
}

/* With the lock, which is given back. */
static void disarm(tc_harness *h, tci_host_timer *slot)
{
    const tci_host_timer old = *slot;
    *slot = (tci_host_timer){.due = 0};
    if (old.timer.id == 0 || old.disarm == NULL)
        return;
    tci_mutex_unlock(&h->lock);
    old.disarm(h->options.user, &old.timer);
    tci_mutex_lock(&h->lock);
}

/* The program does not make it. With the lock, which is given back. */
static void fall_back(tc_harness *h, tci_timer_kind kind, const tc_err *failure)
{
    bool is_memory = kind == TCI_TIMER_MEMORY;
    bool is_news = is_memory ? failure != NULL : !h->is_timer_reported;
    h->timers[kind].timer.id = 0;
    h->timers[kind].is_own = !is_memory;
    if (is_memory)
        h->is_memory_declined = true;
    else
        h->is_timer_reported = true;
    if (!is_news)
        return;
    tci_mutex_unlock(&h->lock);
    tci_harness_report(
        h, &(tc_report){.type = TC_REPORT_HOST_ERROR,
                        .message = failure != NULL
                                       ? tci_str(failure->msg)
                                       : TC_STR("set_timer declined a timer that work depends on: "
                                                "it is waited for without it"),
                        .callback = TC_STR("setTimer")});
    tci_mutex_lock(&h->lock);
}

static void ask(tc_harness *h, tci_timer_kind kind, const tc_timer *timer)
{
    tci_host_timer *slot = &h->timers[kind];
    tc_disarm made = NULL;
    tc_err failure = {0};
    tci_mutex_unlock(&h->lock);
    int rc = h->options.set_timer(h->options.user, timer, &made, &failure);
    tci_mutex_lock(&h->lock);
    if (slot->timer.id != timer->id)
        return; /* it has fired */
    if (rc < 0)
        fall_back(h, kind, &failure);
    else if (made == NULL)
        fall_back(h, kind, NULL);
    else
        slot->disarm = made;
}

static void arm(tc_harness *h, tci_timer_kind kind, int64_t due)
{
    tci_host_timer *slot = &h->timers[kind];
    if (slot->due == due)
        return;
    disarm(h, slot);
    slot->due = due;
    if (due == 0 || h->options.set_timer == NULL) {
        slot->is_own = due != 0;
        return;
    }
    slot->timer = (tc_timer){.harness = h,
                             .id = ++h->timer_serial,
                             .delay_ms = delay_of(h, kind, due),
                             .is_background = kind == TCI_TIMER_MEMORY};
    const tc_timer timer = slot->timer;
    ask(h, kind, &timer);
}

/* Until when the thread has to wait for it. */
static int64_t wait_of(tc_harness *h, tci_timer_kind kind, int64_t due)
{
    if (kind != TCI_TIMER_SLEEP)
        return due;
    int64_t left_ms = due - tci_durable_now_ms(h->session);
    left_ms = left_ms < SLEEP_MAX_MS ? left_ms : SLEEP_MAX_MS;
    return tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns((uint64_t)(left_ms > 0 ? left_ms : 1)));
}

int64_t tci_host_timers_arm(tc_harness *h, const int64_t due[TCI_NTIMERS])
{
    int64_t deadline = 0;
    for (int kind = 0; kind < TCI_NTIMERS; kind++) {
        bool is_declined = kind == TCI_TIMER_MEMORY && h->is_memory_declined;
        arm(h, (tci_timer_kind)kind, is_declined ? 0 : due[kind]);
        if (!h->timers[kind].is_own)
            continue;
        int64_t until = wait_of(h, (tci_timer_kind)kind, due[kind]);
        if (deadline == 0 || until < deadline)
            deadline = until;
    }
    return deadline;
}

void tc_timer_fire(const tc_timer *timer)
{
    tc_harness *h = timer->harness;
    tci_mutex_lock(&h->lock);
    for (int kind = 0; kind < TCI_NTIMERS; kind++) {
        tci_host_timer *slot = &h->timers[kind];
        if (timer->id == 0 || slot->timer.id != timer->id)
            continue;
        if (kind == TCI_TIMER_CALLS)
            h->calls_until_ns = slot->due;
        else if (kind == TCI_TIMER_SLEEP)
            tci_sched_kick_locked(h);
        else
            h->is_memory_due = true;
        *slot = (tci_host_timer){.due = 0};
        tci_sched_call_locked(h);
        break;
    }
    tci_mutex_unlock(&h->lock);
}

void tci_host_timers_stop(tc_harness *h)
{
    tci_mutex_lock(&h->lock);
    for (int kind = 0; kind < TCI_NTIMERS; kind++)
        disarm(h, &h->timers[kind]);
    tci_mutex_unlock(&h->lock);
}

/* ---- memory ---- */

void tci_harness_keep(tc_harness *h, int64_t due_ns)
{
    tci_mutex_lock(&h->lock);
    if (h->memory_due_ns == 0 || due_ns < h->memory_due_ns) {
        h->memory_due_ns = due_ns;
        if (h->thread != NULL)
            tci_sched_call_locked(h);
    }
    tci_mutex_unlock(&h->lock);
}

void tci_host_timers_sweep(tc_harness *h)
{
    tci_mutex_lock(&h->lock);
    bool is_due =
        h->is_memory_due || (h->timers[TCI_TIMER_MEMORY].is_own && h->memory_due_ns != 0 &&
                             h->memory_due_ns <= tci_clock_mono_ns());
    is_due = is_due && !h->is_closing && !h->is_failed;
    if (is_due) {
        h->memory_due_ns = 0;
        h->is_memory_due = false;
    }
    tci_mutex_unlock(&h->lock);
    if (!is_due || h->parts == NULL || h->parts->sweep == NULL)
        return;
    int64_t next = h->parts->sweep(h, h->run_state);
    if (next != 0)
        tci_harness_keep(h, next);
}
