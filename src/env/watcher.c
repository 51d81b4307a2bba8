/* SPDX-License-Identifier: Apache-2.0
 *
 * Watchers: a thread that runs a provider's watch, tells the program of changes, and opens it again
 * after a lost link. Leaves noticing to the provider. Invariant: callbacks come one at a time, from
 * that thread only, the first after opening has succeeded, none after close has returned. */
#include "env/methods_int.h"

#include "plat/clock.h"

enum { STACK = 256 * 1024, RETRY_FIRST_MS = 1000, RETRY_MAX_MS = 30000 };
enum { POLL_MS = 2000, DIRECTORIES_MAX = 10000 };

struct tc_watcher {
    tci_link link; /* env->watchers */
    tc_env *env;
    tc_result *held; /* of the targets, and for the thread's calls */
    tc_result *r;
    tci_watch_view view;
    tc_watch_callback callback;
    void *user;
    tci_thread *thread;
    atomic_int mode; /* tc_watch_mode */
    /* what the opener waits for, under the lock */
    tci_mutex lock;
    tci_wake own_wake;
    tci_wake *wake; /* NULL when nobody waits any more */
    bool is_open, is_over, is_closed;
    bool was_lost; /* the thread's: coverage had a gap */
    int rc;
    tc_err err;
};

static void wake_opener(tc_watcher *w)
{
    if (w->wake != NULL)
        tci_wake_all(w->wake);
}

/* ---- what a provider says ---- */

static void tell(tc_watcher *w, const tc_watch_event *event)
{
    if (!tc_ctx_is_cancelled(w->view.ctx))
        w->callback(w->user, event);
}

void tci_watcher_set_mode(tc_watcher *w, tc_watch_mode mode)
{
    atomic_store(&w->mode, (int)mode);
}

void tci_watcher_is_ready(tc_watcher *w, tc_watch_mode mode)
{
    tci_watcher_set_mode(w, mode);
    tci_mutex_lock(&w->lock);
    w->is_open = true;
    wake_opener(w);
    tci_mutex_unlock(&w->lock);
    if (w->was_lost)
        tci_watcher_overflow(w);
    w->was_lost = false;
}

void tci_watcher_changed(tc_watcher *w, tc_strs paths)
{
    tc_watch_event event = {.kind = TC_WATCH_CHANGE, .paths = paths};
    if (paths.count > 0)
        tell(w, &event);
}

void tci_watcher_overflow(tc_watcher *w)
{
    tc_watch_event event = {.kind = TC_WATCH_OVERFLOW};
    tell(w, &event);
}

/* ---- the thread ---- */

/* False: the watcher was closed meanwhile. */
static bool wait_before_retry(tc_watcher *w, int64_t ms)
{
    int64_t until = tci_clock_mono_ns() + tci_ms_to_ns((uint64_t)ms);
    tci_wake *wake = tci_ctx_wake(w->view.ctx);
    for (;;) {
        unsigned seen = tci_wake_count(wake);
        if (tc_ctx_is_cancelled(w->view.ctx))
            return false;
        if (tci_clock_mono_ns() >= until)
            return true;
        tci_wake_wait(wake, seen, until);
    }
}

static int watch_once(tc_watcher *w, bool *ret_is_lost, tc_err *err)
{
    tc_result_clear(w->r);
    tc_call call = TC_CALL(w->view.ctx, w->r);
    int rc = tci_env_enter(w->env, err);
    if (rc < 0) {
        tci_env_blame(&call, TC_ENV_UNKNOWN, (tc_str){0});
        return rc;
    }
    rc = w->env->v->methods->watch(w->env, &w->view, &call, ret_is_lost, err);
    return tci_env_finish(w->env, &call, rc, (tc_str){0});
}

static void end_with(tc_watcher *w, int rc, const tc_err *err)
{
    tci_mutex_lock(&w->lock);
    bool was_open = w->is_open;
    w->is_over = true;
    w->rc = rc;
    w->err = *err;
    wake_opener(w);
    tci_mutex_unlock(&w->lock);
    bool is_asked_for = w->is_closed;
    if (!was_open || rc == 0 || is_asked_for)
        return;
    tc_watch_event event = {
        .kind = TC_WATCH_FAILED, .env_error = tc_result_evidence(w->r)->env_error, .err = err};
    w->callback(w->user, &event);
}

static bool is_open_now(tc_watcher *w)
{
    tci_mutex_lock(&w->lock);
    bool is_open = w->is_open;
    tci_mutex_unlock(&w->lock);
    return is_open;
}

static void run(void *arg)
{
    tc_watcher *w = arg;
    tc_err err = {0};
    int64_t pause_ms = RETRY_FIRST_MS;
    for (;;) {
        bool is_lost = false;
        int rc = watch_once(w, &is_lost, &err);
        if (!is_lost || !is_open_now(w) || tc_ctx_is_cancelled(w->view.ctx)) {
            end_with(w, tc_ctx_is_cancelled(w->view.ctx) && rc == 0 ? 0 : rc, &err);
            return;
        }
        if (!w->was_lost)
            pause_ms = RETRY_FIRST_MS;
        w->was_lost = true;
        if (!wait_before_retry(w, pause_ms)) {
            end_with(w, 0, &err);
            return;
        }
        pause_ms = pause_ms * 2 < RETRY_MAX_MS ? pause_ms * 2 : RETRY_MAX_MS;
    }
}

/* ---- opening ---- */

static int keep_names(tc_watcher *w, tc_strs *names, tc_err *err)
{
    tci_arena *a = tci_result_arena(w->held);
    tc_str *items = tci_arena_items(a, tc_str, names->count);
    if (items == NULL && names->count > 0)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < names->count; i++) {
        int rc = tc_result_dup(w->held, names->items[i], &items[i], err);
        if (rc < 0)
            return rc;
    }
    *names = (tc_strs){items, names->count};
    return 0;
}

static int keep_targets(tc_watcher *w, const tc_call *call, const tc_watch_target *targets,
                        size_t n, tc_err *err)
{
    tci_arena *a = tci_result_arena(w->held);
    tc_watch_target *kept = tci_arena_items(a, tc_watch_target, n);
    if (kept == NULL && n > 0)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < n; i++) {
        tc_str path;
        kept[i] = targets[i];
        int rc = tci_env_absolute(w->env, call, targets[i].path, &path, err);
        if (rc == 0)
            rc = tc_result_dup(w->held, path, &kept[i].path, err);
        if (rc == 0)
            rc = keep_names(w, &kept[i].exclude_names, err);
        if (rc < 0)
            return rc;
    }
    w->view.targets = kept;
    w->view.ntargets = n;
    return 0;
}

static void destroy(tc_watcher *w)
{
    tc_ctx_free(w->view.ctx);
    tc_result_free(w->held);
    tc_result_free(w->r);
    tci_mutex_done(&w->lock);
    tc_env_release(w->env);
    tci_free(w);
}

/* Until it is open, over, or the opener's time is. */
static int wait_until_open(tc_watcher *w, const tc_call *call, tc_err *err)
{
    for (;;) {
        unsigned seen = tci_wake_count(w->wake);
        tci_mutex_lock(&w->lock);
        bool is_open = w->is_open, is_over = w->is_over;
        if (is_open)
            w->wake = NULL;
        tci_mutex_unlock(&w->lock);
        if (is_open)
            return 0;
        if (is_over) {
            *err = w->err;
            tci_env_blame(call, tc_result_evidence(w->r)->env_error,
                          tc_result_evidence(w->r)->path);
            return w->rc < 0 ? w->rc : tc_err_set(err, TC_E_CLOSED, "the watcher ended");
        }
        int rc = tci_env_check_abort(call, (tc_str){0}, err);
        if (rc < 0)
            return rc;
        tci_wake_wait(w->wake, seen, tci_ctx_deadline_ns(call->ctx));
    }
}

static void stop_thread(tc_watcher *w)
{
    tci_mutex_lock(&w->lock);
    w->is_closed = true;
    w->wake = NULL;
    tci_mutex_unlock(&w->lock);
    tc_ctx_cancel(w->view.ctx);
    tci_mutex_lock(&w->env->lock);
    if (tci_link_is_in(&w->link))
        tci_link_remove(&w->link);
    tci_mutex_unlock(&w->env->lock);
    tci_thread_join(w->thread);
    w->thread = NULL;
}

static int start(tc_watcher *w, const tc_call *call, tc_err *err)
{
    w->wake = call->ctx != NULL ? tci_ctx_wake(call->ctx) : &w->own_wake;
    int rc = tci_thread_new(run, w, STACK, &w->thread, err);
    if (rc < 0)
        return rc;
    tci_mutex_lock(&w->env->lock);
    tci_list_push_back(&w->env->watchers, &w->link);
    tci_mutex_unlock(&w->env->lock);
    rc = wait_until_open(w, call, err);
    if (rc < 0)
        stop_thread(w);
    return rc;
}

static int make(tc_env *env, const tc_watch_options *options, tc_watch_callback callback,
                void *user, tc_watcher **ret, tc_err *err)
{
    tc_watcher *w = tci_new(tc_watcher);
    if (w == NULL)
        return tci_err_no_memory(err);
    w->env = tc_env_retain(env);
    w->callback = callback;
    w->user = user;
    w->view.watcher = w;
    w->view.options = (tc_watch_options){.size = sizeof(tc_watch_options)};
    if (options != NULL)
        w->view.options = *options;
    if (w->view.options.poll_interval_ms == 0)
        w->view.options.poll_interval_ms = POLL_MS;
    if (w->view.options.max_directories == 0)
        w->view.options.max_directories = DIRECTORIES_MAX;
    tci_mutex_init(&w->lock);
    int rc = tc_ctx_new(-1, &w->view.ctx, err);
    if (rc == 0)
        rc = tc_result_new(&w->held, err);
    if (rc == 0)
        rc = tc_result_new(&w->r, err);
    if (rc == 0)
        *ret = w;
    else
        destroy(w);
    return rc;
}

int tc_env_watch(tc_env *env, const tc_call *call, const tc_watch_target *targets, size_t ntargets,
                 const tc_watch_options *options, tc_watch_callback callback, void *user,
                 tc_watcher **ret_watcher, tc_err *err)
{
    tc_watcher *w = NULL;
    int rc = tci_env_options_check(options, sizeof *options, err);
    if (rc == 0)
        rc = tci_env_begin(env, call, false, err);
    if (rc < 0)
        return rc;
    rc = make(env, options, callback, user, &w, err);
    if (rc == 0)
        rc = keep_targets(w, call, targets, ntargets, err);
    if (rc == 0)
        rc = tci_env_check_abort(call, (tc_str){0}, err);
    if (rc == 0)
        rc = start(w, call, err);
    if (rc == 0)
        *ret_watcher = w;
    else if (w != NULL)
        destroy(w);
    return tci_env_finish(env, call, rc, (tc_str){0});
}

/* ---- the end ---- */

tc_watch_mode tc_watcher_mode(const tc_watcher *w)
{
    return (tc_watch_mode)atomic_load(&w->mode);
}

void tc_watcher_close(tc_watcher *w)
{
    stop_thread(w);
}

void tc_watcher_free(tc_watcher *w)
{
    if (w == NULL)
        return;
    stop_thread(w);
    destroy(w);
}

void tci_watchers_stop(tc_env *env)
{
    tci_mutex_lock(&env->lock);
    TCI_LIST_EACH (&env->watchers, link)
        tc_ctx_cancel(TCI_CONTAINER(link, tc_watcher, link)->view.ctx);
    tci_mutex_unlock(&env->lock);
}
