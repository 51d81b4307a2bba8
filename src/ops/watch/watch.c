/* SPDX-License-Identifier: Apache-2.0
 *
 * A watcher: when to scan, and telling what came of it. Leaves what is known about the trees to the
 * set. Loop thread; scans are jobs.
 *
 * Invariants: while is_running the set belongs to the job, its notices included, and nothing here
 * touches it; on_event is never called after close; the storage goes when no job and no callback
 * uses it. */
#include "ops/watch/watch_int.h"

enum {
    DEBOUNCE_MS = 50, /* after the first notice */
    DRAIN_PER_TURN = 4096,
    FREE_HERE = 256, /* directories; more of them are freed by a job, which takes a while */
    RETRY_MS = 1000  /* after a scan that failed for want of memory or descriptors */
};

struct tci_ops_watch {
    tci_loop *loop;
    void (*on_event)(void *user, const tci_ops_watch_event *event);
    void *user;
    tci_wset *set;
    int64_t poll_interval_ms;
    tci_job job;
    tci_cancel cancel;
    int rc; /* of the scan */
    tc_err err;
    tci_watch notices;
    tci_timer debounce; /* a scan of what is dirty */
    tci_timer poll;     /* polling: the next scan; native: places that cannot be watched */
    bool is_running, is_ready, is_over, is_held, is_closed, is_in_cb;
};

static void scan_work(tci_job *job)
{
    tci_ops_watch *w = TCI_CONTAINER(job, tci_ops_watch, job);
    w->rc = w->is_ready ? tci_wset_scan(w->set, &w->cancel, &w->err)
                        : tci_wset_open(w->set, &w->cancel, &w->err);
}

static void stop_waiting(tci_ops_watch *w)
{
    tc_err err;
    tci_timer_stop(&w->debounce);
    tci_timer_stop(&w->poll);
    int rc = w->notices.handle != NULL ? tci_watch_set(&w->notices, 0, &err) : 0;
    TC_ASSERT(rc == 0); /* only what is not open refuses */
}

static void scan_start(tci_ops_watch *w)
{
    stop_waiting(w);
    tci_wset_touch_blind(w->set); /* few, and so they are never put off for ever */
    w->is_running = true;
    tci_job_submit(w->loop, TCI_JOB_BULK, &w->job);
}

/* false: it was closed. */
static bool tell(tci_ops_watch *w, const tci_ops_watch_event *event)
{
    w->is_in_cb = true;
    w->on_event(w->user, event);
    w->is_in_cb = false;
    return !w->is_closed;
}

static void tell_failed(tci_ops_watch *w, const tc_err *error)
{
    w->is_over = true;
    stop_waiting(w);
    tci_watch_close(&w->notices);
    (void)tell(w, &(tci_ops_watch_event){
                      .kind = TCI_OPS_WATCH_FAILED, .mode = w->set->mode, .error = error});
}

static void free_work(tci_job *job)
{
    tci_wset_free(TCI_CONTAINER(job, tci_ops_watch, job)->set);
}

static void free_done(tci_job *job)
{
    tci_free(TCI_CONTAINER(job, tci_ops_watch, job));
}

static void watch_free(tci_ops_watch *w)
{
    stop_waiting(w);
    tci_watch_close(&w->notices);
    w->job = (tci_job){.work = free_work, .done = free_done};
    if (w->set->ndirectories > FREE_HERE) {
        tci_job_submit(w->loop, TCI_JOB_BULK, &w->job);
        return;
    }
    free_work(&w->job);
    free_done(&w->job);
}

static void on_notices(tci_watch *notices, unsigned events)
{
    tci_ops_watch *w = TCI_CONTAINER(notices, tci_ops_watch, notices);
    tc_err err;
    (void)events;
    tci_wset_drain(w->set, DRAIN_PER_TURN);
    if (!tci_wset_is_dirty(w->set) || tci_timer_is_armed(&w->debounce) || w->is_held)
        return;
    if (tci_timer_start(&w->debounce, DEBOUNCE_MS, &err) < 0)
        scan_start(w); /* no memory for the timer: then at once */
}

static void on_debounce(tci_timer *t)
{
    scan_start(TCI_CONTAINER(t, tci_ops_watch, debounce));
}

static void on_poll(tci_timer *t)
{
    scan_start(TCI_CONTAINER(t, tci_ops_watch, poll));
}

/* Wait for the next reason to scan. */
static int wait_on(tci_ops_watch *w, tc_err *err)
{
    int rc = 0;
    bool is_native = w->set->mode == TCI_OPS_WATCH_NATIVE;
    if (!is_native) { /* in this order: the loop knows the descriptor */
        tci_watch_close(&w->notices);
        tci_notifier_close(&w->set->notifier);
    } else if (w->notices.handle == NULL) {
        rc = tci_watch_open(&w->notices, w->loop, tci_notifier_fd(&w->set->notifier), on_notices,
                            err);
    }
    if (rc == 0 && is_native)
        rc = tci_watch_set(&w->notices, TCI_WATCH_READ, err);
    if (w->is_held)
        return rc;
    if (rc == 0 && is_native && tci_wset_is_dirty(w->set))
        rc = tci_timer_start(&w->debounce, DEBOUNCE_MS, err);
    if (rc == 0 && (!is_native || tci_wset_has_blind(w->set)))
        rc = tci_timer_start(&w->poll, w->poll_interval_ms, err);
    return rc;
}

/* Tell what the scan found. false: it was closed. */
static bool tell_changes(tci_ops_watch *w)
{
    tci_ops_watch_event event;
    bool is_open = true;
    if (tci_wreport_take(w->set, &event))
        is_open = tell(w, &event);
    tci_wreport_clear(w->set);
    if (is_open && !w->is_ready) {
        w->is_ready = true;
        is_open =
            tell(w, &(tci_ops_watch_event){.kind = TCI_OPS_WATCH_READY, .mode = w->set->mode});
    }
    return is_open;
}

/* The scan could not be done for want of something that comes back: again later, all of it. */
static bool may_retry(tci_ops_watch *w)
{
    tc_err err;
    if (!w->is_ready || (w->rc != TC_E_BUSY && w->rc != TC_E_NO_MEMORY))
        return false;
    w->set->is_all = true;
    return w->is_held || tci_timer_start(&w->poll, RETRY_MS, &err) == 0;
}

static void scan_done(tci_job *job)
{
    tci_ops_watch *w = TCI_CONTAINER(job, tci_ops_watch, job);
    tc_err err;
    w->is_running = false;
    if (!w->is_closed && w->rc == 0) {
        if (tell_changes(w) && wait_on(w, &err) < 0)
            tell_failed(w, &err);
    } else if (!w->is_closed && !may_retry(w)) {
        tell_failed(w, &w->err);
    }
    if (w->is_closed)
        watch_free(w);
}

int tci_ops_watch_open(tci_loop *loop, const tci_ops_watch_options *options,
                       void (*on_event)(void *user, const tci_ops_watch_event *event), void *user,
                       tci_ops_watch **ret, tc_err *err)
{
    tci_loop_assert(loop);
    tci_ops_watch *w = tci_new(tci_ops_watch);
    if (w == NULL)
        return tci_err_no_memory(err);
    int rc = tci_wset_new(options, &w->set, err);
    if (rc < 0) {
        tci_free(w);
        return rc;
    }
    w->loop = loop;
    w->on_event = on_event;
    w->user = user;
    w->poll_interval_ms = options->poll_interval_ms > 0 ? options->poll_interval_ms : 1;
    w->job = (tci_job){.work = scan_work, .done = scan_done};
    tci_timer_init(&w->debounce, loop, on_debounce);
    tci_timer_init(&w->poll, loop, on_poll);
    scan_start(w);
    *ret = w;
    return 0;
}

void tci_ops_watch_hold(tci_ops_watch *w, bool is_held)
{
    tc_err err;
    tci_loop_assert(w->loop);
    if (w->is_held == is_held || w->is_closed)
        return;
    w->is_held = is_held;
    if (w->is_running || w->is_in_cb || w->is_over)
        return; /* waits, or not, when it is done */
    stop_waiting(w);
    if (wait_on(w, &err) < 0)
        scan_start(w); /* no memory for a timer */
}

void tci_ops_watch_close(tci_ops_watch *w)
{
    if (w == NULL || w->is_closed)
        return;
    tci_loop_assert(w->loop);
    w->is_closed = true;
    if (w->is_running) {
        atomic_store(&w->cancel.is_cancelled, true);
        return; /* scan_done frees it */
    }
    if (!w->is_in_cb)
        watch_free(w);
}
