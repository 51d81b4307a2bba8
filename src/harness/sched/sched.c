/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler's thread: it sleeps until something may have changed, then makes the passes there is
 * work for, and gives reports and wakes to the program. Leaves the passes themselves to
 * sched_reconcile.c and sched_reserve.c. Invariant: nothing polls; a change sets is_dirty before it
 * wakes, and the flag is taken before the passes look. */
#include "harness/sched/sched_int.h"

#include "base/num.h"
#include "plat/clock.h"

static void run_scheduler(void *arg);

/* Without scheduling, only some work needs a thread. With the lock. */
static bool has_thread_work(const tc_harness *h)
{
    return h->is_enabled || tci_reconcile_has_work(h) || h->reports != NULL || h->laters != NULL ||
           (h->is_graph_stale && !tci_list_is_empty(&h->graph_watches)) ||
           h->options.on_wake != NULL;
}

static void wake_thread(tc_harness *h)
{
    tc_err err;
    if (h->thread == NULL && h->is_open && !h->is_stopping && has_thread_work(h) &&
        tci_thread_new(run_scheduler, h, TCI_TASK_STACK_BYTES, &h->thread, &err) < 0)
        h->thread = NULL; /* no thread to be had: the next change tries again */
    tci_wake_all(&h->wake);
}

void tci_sched_kick_locked(tc_harness *h)
{
    if (h->is_dirty && h->thread != NULL)
        return;
    h->is_dirty = true;
    if (h->committer == NULL && !h->is_passing)
        wake_thread(h);
}

void tci_sched_call_locked(tc_harness *h)
{
    if (h->is_called && h->thread != NULL)
        return;
    h->is_called = true;
    wake_thread(h);
}

void tci_sched_kick(tc_harness *h)
{
    tci_mutex_lock(&h->lock);
    tci_sched_kick_locked(h);
    tci_mutex_unlock(&h->lock);
}

void tci_sched_registry_changed(void *user)
{
    tc_harness *h = user;
    tci_mutex_lock(&h->lock);
    h->is_registry_changed = h->is_graph_stale = true;
    tci_sched_kick_locked(h);
    tci_sched_call_locked(h);
    tci_mutex_unlock(&h->lock);
}

/* ---- wake ---- */

/* Could it be reserved now? With the lock and the line, or the lock alone. */
static bool may_run(const tci_live *live, const tci_snapshot *snapshot, uint64_t limit,
                    int64_t now_ms)
{
    const tci_task *t = &live->task;
    if (t->status == TCI_TASK_COMPLETING)
        return false;
    if (t->is_abort_requested) {
        if (tci_node_first_below(live->node) != NULL)
            return false;
        return !t->is_abort_by_restart || tci_sched_fit(live, snapshot).kind != TCI_FIT_BLOCKED;
    }
    if ((t->status == TCI_TASK_WAITING && live->nopen > 0) ||
        (t->status == TCI_TASK_SLEEPING && live->until_ms > now_ms))
        return false;
    tci_fit fit = tci_sched_fit(live, snapshot);
    return fit.kind != TCI_FIT_BLOCKED && !tci_sched_is_parked(live, fit.def, limit);
}

tc_wake tci_sched_wake_now(tc_harness *h)
{
    int64_t now_ms = tci_durable_now_ms(h->session);
    uint64_t limit = tci_sched_restart_limit(h);
    tci_snapshot *snapshot = tci_harness_snapshot(h);
    tci_mutex_lock(&h->lock);
    tc_wake wake = {.is_active =
                        h->ninvocations > 0 || h->nreconciling > 0 || tci_reconcile_has_work(h),
                    .at_ms = tci_sched_earliest_sleep(h, now_ms)};
    if (!wake.is_active)
        TCI_LIST_EACH (&h->lives, k) {
            if (may_run(TCI_CONTAINER(k, tci_live, all), snapshot, limit, now_ms)) {
                wake.is_active = true;
                break;
            }
        }
    tci_mutex_unlock(&h->lock);
    tci_snapshot_unref(snapshot);
    return wake;
}

static void tell_wake(tc_harness *h)
{
    if (h->options.on_wake == NULL)
        return;
    tc_wake now = tci_sched_wake_now(h);
    if (now.is_active == h->last_wake.is_active && now.at_ms == h->last_wake.at_ms)
        return;
    h->last_wake = now;
    h->options.on_wake(h->options.user, &now);
}

/* ---- reports ---- */

void tci_sched_give_reports(tc_harness *h)
{
    for (;;) {
        tci_mutex_lock(&h->lock);
        tci_report_item *item = h->reports;
        if (item != NULL) {
            h->reports = item->next;
            if (h->reports == NULL)
                h->reports_last = NULL;
        }
        tci_mutex_unlock(&h->lock);
        if (item == NULL)
            return;
        h->options.on_report(h->options.user, &item->report);
        tci_free(item);
    }
}

/* ---- the thread ---- */

/* A pass that fails for any reason but the end of the session leaves the scheduler's books in a state
 * that cannot be trusted. */
static void failed(tc_harness *h, const tc_err *err)
{
    if (err->code != TC_E_CLOSED)
        tci_durable_fail(h->session, err);
}

static bool reconcile(tc_harness *h)
{
    tc_err err;
    tci_mutex_lock(&h->lock);
    bool has_work = tci_reconcile_has_work(h) && !h->is_closing && !h->is_failed;
    if (has_work)
        h->nreconciling++;
    tci_mutex_unlock(&h->lock);
    if (!has_work)
        return false;
    int rc = tci_reconcile(h, &err);
    if (rc < 0)
        failed(h, &err);
    tci_mutex_lock(&h->lock);
    h->nreconciling--;
    h->is_idle_check_due = true;
    tci_sched_check_idle(h);
    tci_mutex_unlock(&h->lock);
    return rc == 0;
}

static bool reserve(tc_harness *h, tc_task **ret_mine)
{
    tc_err err;
    bool is_again = false;
    tci_mutex_lock(&h->lock);
    bool is_due = h->nsleeps > 0 && h->sleeps[0].until_ms <= tci_durable_now_ms(h->session);
    bool has_work = h->is_enabled && !h->is_closing && !h->is_failed &&
                    (!tci_list_is_empty(&h->runnable) || h->nabandoned > 0 ||
                     h->is_registry_changed || h->has_parked || is_due);
    tci_mutex_unlock(&h->lock);
    if (!has_work)
        return false;
    if (tci_reserve(h, ret_mine, &is_again, &err) < 0)
        failed(h, &err);
    return is_again;
}

static void refresh_graphs(tc_harness *h)
{
    tci_mutex_lock(&h->lock);
    bool is_stale = h->is_graph_stale;
    h->is_graph_stale = false;
    tci_mutex_unlock(&h->lock);
    if (is_stale)
        tci_graph_registry_changed(h);
}

/* Until when to sleep, monotonic; 0: until woken. With the lock, which may be given back meanwhile. */
static int64_t next_deadline(tc_harness *h)
{
    int64_t now_ns = tci_clock_mono_ns(), until_ns = h->calls_until_ns;
    bool is_asleep = h->is_enabled && h->options.on_wake == NULL && !h->is_closing && !h->is_failed;
    h->calls_until_ns = 0;
    const int64_t due[TCI_NTIMERS] = {
        [TCI_TIMER_CALLS] = tci_laters_run(h, until_ns > now_ns ? until_ns : now_ns),
        [TCI_TIMER_SLEEP] =
            is_asleep ? tci_sched_earliest_sleep(h, tci_durable_now_ms(h->session)) : 0,
        [TCI_TIMER_MEMORY] = h->is_closing || h->is_failed ? 0 : h->memory_due_ns};
    return tci_host_timers_arm(h, due);
}

/* Rounds that a thread of a task makes before the scheduler's own goes on. */
enum { ROUNDS_MAX = 4 };

void tci_sched_passes(tc_harness *h, tc_task **ret_mine)
{
    if (ret_mine != NULL)
        *ret_mine = NULL;
    tci_mutex_lock(&h->lock);
    bool is_mine = !h->is_passing && h->is_dirty;
    if (is_mine)
        h->is_passing = true;
    for (unsigned n = 0; is_mine && h->is_dirty && n < ROUNDS_MAX; n++) {
        h->is_dirty = false;
        tci_mutex_unlock(&h->lock);
        while (reconcile(h) || reserve(h, ret_mine))
            ;
        tci_mutex_lock(&h->lock);
        if (ret_mine != NULL && *ret_mine != NULL)
            break; /* it is not to wait for more */
    }
    if (is_mine) {
        h->is_passing = false;
        if (h->is_dirty)
            wake_thread(h);
        if (h->options.on_wake != NULL)
            tci_sched_call_locked(h);
    }
    tci_mutex_unlock(&h->lock);
}

static void run_scheduler(void *arg)
{
    tc_harness *h = arg;
    for (;;) {
        unsigned seen = tci_wake_count(&h->wake);
        tci_mutex_lock(&h->lock);
        bool has_work = h->is_called || (h->is_dirty && !h->is_passing);
        bool is_stopping = h->is_stopping;
        h->is_called = false;
        int64_t deadline = has_work || is_stopping ? 0 : next_deadline(h);
        tci_mutex_unlock(&h->lock);
        if (is_stopping)
            return;
        if (!has_work) {
            tci_wake_wait(&h->wake, seen, deadline);
            if (deadline == 0 || tci_clock_mono_ns() < deadline)
                continue;
            tci_sched_kick(h); /* a sleep may be due */
        }
        tci_sched_passes(h, NULL);
        refresh_graphs(h);
        tci_sched_give_reports(h);
        tell_wake(h);
        tci_host_timers_sweep(h);
    }
}

int tci_harness_enable(tc_harness *h, tc_err *err)
{
    tci_mutex_lock(&h->lock);
    bool is_closed = h->is_closing, is_failed = h->is_failed;
    bool was_enabled = h->is_enabled && h->thread != NULL;
    if (is_failed)
        *err = h->failure;
    h->is_enabled = true;
    if (!was_enabled) {
        tci_sched_kick_locked(h);
        tci_sched_call_locked(h);
    }
    bool has_thread = h->thread != NULL;
    tci_mutex_unlock(&h->lock);
    if (is_failed)
        return err->code;
    if (is_closed)
        return tc_err_set(err, TC_E_CLOSED, "the harness is closed");
    return has_thread ? 0 : tc_err_set(err, TC_E_BUSY, "no thread for the scheduler");
}

/* ---- the end ---- */

/* No new work; what runs is told. With the lock. */
static void stop_all(tc_harness *h)
{
    TCI_LIST_EACH (&h->invocations, k) {
        tci_task_cancel(TCI_CONTAINER(k, tc_task, link));
    }
    tci_waits_end_all(h);
}

void tci_sched_closed(void *user, const tc_err *failure)
{
    tc_harness *h = user;
    if (failure == NULL)
        return;
    tci_mutex_lock(&h->lock);
    h->is_failed = true;
    h->failure = *failure;
    stop_all(h);
    tci_mutex_unlock(&h->lock);
    tci_harness_report(
        h, &(tc_report){.type = TC_REPORT_SESSION_FAILED, .message = tci_str(failure->msg)});
}

static void wait_for_invocations(tc_harness *h)
{
    for (;;) {
        unsigned seen = tci_wake_count(&h->ended);
        tci_mutex_lock(&h->lock);
        bool is_done = h->ninvocations == 0;
        tci_mutex_unlock(&h->lock);
        if (is_done)
            return;
        tci_wake_wait(&h->ended, seen, 0);
    }
}

/* What was running goes back as it was before; a close is no crash. */
static int write_back(tc_harness *h, tc_err *err)
{
    tc_tx *tx;
    if (tci_durable_begin_at_close(h->session, &tx, err) < 0)
        return err->code;
    int rc = 0;
    TCI_LIST_EACH (&h->lives, k) {
        const tci_live *live = TCI_CONTAINER(k, tci_live, all);
        if (rc < 0 || live->task.status != TCI_TASK_RUNNING)
            continue;
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_buf_append_str(&b, TC_STR("{\"status\":\"pending\",\"checkpoint\":"));
        tci_json_put(&b, tci_json_get(live->state, TC_STR("checkpoint")), TCI_JSON_AS_IS);
        tci_buf_append_byte(&b, '}');
        rc = tci_buf_error(&b, err);
        if (rc == 0)
            rc = tci_tx_stage_state(tx, &live->task, tci_buf_str(&b), false, err);
        tci_buf_done(&b);
    }
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    return tc_tx_commit(tx, err);
}

void tci_sched_join(void *user)
{
    tc_harness *h = user;
    tc_err err;
    tci_mutex_lock(&h->lock);
    bool was_joined = h->is_joined;
    bool was_failed = h->is_failed;
    h->is_joined = h->is_closing = h->is_stopping = true;
    if (!was_joined)
        stop_all(h);
    tci_thread *thread = h->thread;
    h->thread = NULL;
    tci_wake_all(&h->wake);
    tci_mutex_unlock(&h->lock);
    if (was_joined)
        return;
    tci_registry_unsubscribe(h->subscription);
    h->subscription = NULL;
    tci_thread_join(thread);
    tci_host_timers_stop(h);
    wait_for_invocations(h);
    tci_laters_stop(h);
    tci_workers_done(&h->workers);
    if (!was_failed)
        (void)write_back(h, &err); /* a storage that fails here fails the session, which tells it */
    tci_sched_give_reports(h);
}
