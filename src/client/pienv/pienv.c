/* SPDX-License-Identifier: Apache-2.0
 *
 * The pi-env connection: who needs a session, the thread that starts one, and the end. Leaves the
 * session itself to pienv_sess.c. Callers' threads, and one of its own for each start. Invariant: at
 * most one start is under way, and it ends in the state LIVE or, with every waiter told, in IDLE. */
#include "client/pienv/pienv_int.h"

#include "plat/fd.h"

enum {
    START_MS = 60000,
    PING_MS = 5000,
    DEAD_MS = 30000,
    STARTER_STACK_BYTES = 1024 * 1024,
    TOKEN_BYTES = 16
};

/* ---- making ---- */

static void end_with_runtime(tci_ender *ender)
{
    tci_pi *pi = TCI_CONTAINER(ender, tci_pi, ender);
    tc_err err;
    tc_err_set(&err, TC_E_CLOSED, "the runtime was closed");
    tci_mutex_lock(&pi->lock);
    pi->is_closed = true;
    if (pi->start_ctx != NULL)
        tc_ctx_cancel(pi->start_ctx);
    tci_pi_wake_all(pi);
    tci_mutex_unlock(&pi->lock);
    if (pi->sess != NULL)
        tci_pi_sess_end(pi->sess, &err, false);
}

static void add_to_runtime(void *arg)
{
    tci_pi *pi = arg;
    tci_list_push_back(&pi->rt->enders, &pi->ender.link);
}

static void remove_from_runtime(void *arg)
{
    tci_pi *pi = arg;
    tci_link_remove(&pi->ender.link);
}

static int64_t or_default(int64_t ms, int64_t def)
{
    return ms > 0 ? ms : def;
}

static void free_pi(tci_pi *pi)
{
    if (pi->launcher.free != NULL)
        pi->launcher.free(pi->launcher.user);
    tci_arena_done(&pi->facts_arena);
    tci_mutex_done(&pi->lock);
    tci_runtime_release(pi->rt);
    tci_free(pi);
}

int tci_pi_new_own(tc_runtime *rt, const tci_pi_launcher *launcher, const tci_pi_options *options,
                   tci_pi **ret_pi, tc_err *err)
{
    tci_pi *pi = tci_new(tci_pi);
    if (pi == NULL) {
        if (launcher->free != NULL)
            launcher->free(launcher->user);
        return tci_err_no_memory(err);
    }
    atomic_init(&pi->refs, 1);
    pi->rt = tci_runtime_retain(rt);
    pi->launcher = *launcher;
    if (options != NULL)
        pi->options = *options;
    pi->options.start_ms = or_default(pi->options.start_ms, START_MS);
    pi->options.ping_ms = or_default(pi->options.ping_ms, PING_MS);
    pi->options.dead_ms = or_default(pi->options.dead_ms, DEAD_MS);
    pi->ender.end = end_with_runtime;
    tci_mutex_init(&pi->lock);
    tci_arena_init(&pi->facts_arena, 0);
    tci_list_init(&pi->waiters);
    tci_list_init(&pi->sessions);
    if (!tci_runtime_run(rt, add_to_runtime, pi)) {
        free_pi(pi);
        return tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
    }
    *ret_pi = pi;
    return 0;
}

tci_pi *tci_pi_retain(tci_pi *pi)
{
    atomic_fetch_add(&pi->refs, 1);
    return pi;
}

void tci_pi_release(tci_pi *pi)
{
    if (pi == NULL || atomic_fetch_sub(&pi->refs, 1) != 1)
        return;
    tci_pi_close(pi);
    (void)tci_runtime_run(pi->rt, remove_from_runtime,
                          pi); /* false: the loop is gone, and its list */
    free_pi(pi);
}

/* ---- waiting ---- */

typedef struct waiter {
    tci_link link;
    uint64_t attempt; /* the start it waits for; 0: none in particular */
    tci_wake *wake;
    tci_wake own;
    tci_pi_failure *failure;
} waiter;

void tci_pi_wake_all(tci_pi *pi)
{
    TCI_LIST_EACH (&pi->waiters, link)
        tci_wake_all(TCI_CONTAINER(link, waiter, link)->wake);
}

static int await(tci_pi *pi, tc_ctx *ctx, waiter *w, tc_err *err)
{
    w->wake = ctx != NULL ? &ctx->wake : &w->own;
    unsigned seen = tci_wake_count(w->wake);
    tci_list_push_back(&pi->waiters, &w->link);
    tci_mutex_unlock(&pi->lock);
    int rc = tci_ctx_check(ctx, err);
    if (rc == 0)
        tci_wake_wait(w->wake, seen, tci_ctx_deadline_ns(ctx));
    tci_mutex_lock(&pi->lock);
    tci_link_remove(&w->link);
    return rc;
}

int tci_pi_await(tci_pi *pi, tc_ctx *ctx, tc_err *err)
{
    waiter w = {.attempt = 0};
    return await(pi, ctx, &w, err);
}

void tci_pi_start_failed_own(tci_pi *pi, tci_pi_failure *f)
{
    tci_mutex_lock(&pi->lock);
    pi->state = TCI_PI_IDLE;
    pi->is_launching = false;
    TCI_LIST_EACH (&pi->waiters, link) {
        waiter *w = TCI_CONTAINER(link, waiter, link);
        if (w->attempt == pi->attempt && w->failure == NULL && f != NULL) {
            atomic_fetch_add(&f->refs, 1);
            w->failure = f;
        }
    }
    tci_pi_wake_all(pi);
    tci_mutex_unlock(&pi->lock);
    tci_pi_failure_release(f);
}

/* ---- the starting thread ---- */

static void make_token(char out[2 * TOKEN_BYTES])
{
    unsigned char bytes[TOKEN_BYTES];
    tci_random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        out[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
}

static void destroy_child(tci_pi_child *c)
{
    if (c->out_fd == c->in_fd)
        c->out_fd = -1;
    tci_fd_close(&c->in_fd);
    tci_fd_close(&c->out_fd);
    tci_fd_close(&c->err_fd);
    tci_free(c->early);
    if (c->child.pid > 0) {
        tci_exit exit;
        bool was_lost;
        (void)tci_child_signal(&c->child, TCI_SIG_KILL); /* reaped right below */
        tci_child_reap_wait(&c->child, &exit, &was_lost);
    }
}

typedef struct open_job {
    tci_pi *pi;
    const tci_pi_child *child;
    tc_str token;
    int code;
    tc_err *err;
} open_job;

static void open_on_loop(void *arg)
{
    open_job *job = arg;
    tci_pi *pi = job->pi;
    tci_mutex_lock(&pi->lock);
    pi->is_launching = false;
    bool is_closed = pi->is_closed;
    tci_mutex_unlock(&pi->lock);
    job->code = is_closed ? tc_err_set(job->err, TC_E_CLOSED, "connection closed")
                          : tci_pi_sess_open(pi, job->child, job->token, job->err);
}

static void starter_main(void *arg)
{
    tci_pi *pi = arg;
    tci_pi_child child = TCI_PI_CHILD_NONE;
    char token[2 * TOKEN_BYTES];
    tc_err err;
    make_token(token);
    open_job job = {
        .pi = pi, .child = &child, .token = tci_str_of(token, sizeof token), .err = &err};
    int rc = pi->launcher.launch(pi->launcher.user, pi->start_ctx, job.token, &child, &err);
    if (rc < 0) {
        tci_pi_start_failed_own(pi, tci_pi_failure_new(&err, TC_STR("spawn_error"), true));
        return;
    }
    if (!tci_runtime_run(pi->rt, open_on_loop, &job))
        job.code = tc_err_set(&err, TC_E_CLOSED, "the runtime is closed");
    if (job.code < 0) {
        destroy_child(&child);
        tci_pi_start_failed_own(
            pi, tci_pi_failure_new(&err, TC_STR("unknown"), err.code != TC_E_CLOSED));
    } else {
        tci_free(child.early);
    }
}

/* The lock is held, and let go meanwhile; nobody else starts, since the state says STARTING. */
static int start(tci_pi *pi, tc_err *err)
{
    pi->state = TCI_PI_STARTING;
    pi->attempt++;
    pi->is_launching = true;
    pi->is_start_cancelled = false;
    tci_thread *old = pi->starter;
    tc_ctx *old_ctx = pi->start_ctx;
    pi->starter = NULL;
    pi->start_ctx = NULL;
    tci_mutex_unlock(&pi->lock);
    tci_thread_join(old); /* it has nothing more to do */
    tc_ctx_free(old_ctx);
    tc_ctx *ctx = NULL;
    int rc = tc_ctx_new(-1, &ctx, err);
    tci_mutex_lock(&pi->lock);
    if (rc == 0 && pi->is_closed)
        rc = tc_err_set(err, TC_E_CLOSED, "connection closed");
    pi->start_ctx = ctx;
    if (rc == 0)
        rc = tci_thread_new(starter_main, pi, STARTER_STACK_BYTES, &pi->starter, err);
    if (rc < 0) {
        pi->start_ctx = NULL;
        tc_ctx_free(ctx);
        pi->state = TCI_PI_IDLE;
        pi->is_launching = false;
        tci_pi_wake_all(pi);
    }
    return rc;
}

/* ctx of one that waited has ended: the launch is not worth going on with when it was the last. */
static void leave_start(tci_pi *pi)
{
    if (pi->state != TCI_PI_STARTING || !pi->is_launching || pi->start_ctx == NULL)
        return;
    TCI_LIST_EACH (&pi->waiters, link)
        if (TCI_CONTAINER(link, waiter, link)->attempt == pi->attempt)
            return;
    pi->is_start_cancelled = true;
    tc_ctx_cancel(pi->start_ctx);
}

static int want_session(tci_pi *pi, tc_ctx *ctx, uint64_t session, tci_pi_failure **ret_failure,
                        tc_err *err)
{
    for (;;) {
        if (pi->is_closed)
            return tc_err_set(err, TC_E_CLOSED, "connection closed");
        bool is_live = pi->state == TCI_PI_LIVE;
        if (session != 0 && (!is_live || pi->facts.session != session)) {
            tc_err_set(err, TC_E_CLOSED, "pi-env connection lost");
            return tc_err_hint(err, "what was opened with it is gone: open it again");
        }
        if (is_live)
            return 0;
        if (pi->state == TCI_PI_IDLE && start(pi, err) < 0)
            return err->code;
        if (pi->state != TCI_PI_STARTING)
            continue;
        waiter w = {.attempt = pi->is_start_cancelled ? 0 : pi->attempt};
        int rc = await(pi, ctx, &w, err);
        if (pi->is_closed) { /* which is why the start failed */
            tci_pi_failure_release(w.failure);
            continue;
        }
        if (w.failure != NULL) {
            *ret_failure = w.failure;
            return tci_pi_tell_failure(w.failure, NULL, NULL, err);
        }
        if (rc < 0 && pi->state != TCI_PI_LIVE) {
            leave_start(pi);
            return rc;
        }
    }
}

int tci_pi_want_session(tci_pi *pi, tc_ctx *ctx, uint64_t session, tci_pi_failure **ret_failure,
                        tc_err *err)
{
    tci_mutex_lock(&pi->lock);
    int rc = want_session(pi, ctx, session, ret_failure, err);
    tci_mutex_unlock(&pi->lock);
    return rc;
}

uint64_t tci_pi_session(tci_pi *pi)
{
    tci_mutex_lock(&pi->lock);
    uint64_t session = pi->state == TCI_PI_LIVE ? pi->facts.session : 0;
    tci_mutex_unlock(&pi->lock);
    return session;
}

/* ---- facts ---- */

static int copy_facts(const tci_pi_facts *from, tc_result *r, tci_pi_facts *ret, tc_err *err)
{
    tci_pi_facts to = *from;
    tc_str *strings[] = {&to.version,   &to.os,     &to.arch, &to.home,
                         &to.separator, &to.tmpdir, &to.cwd};
    for (size_t i = 0; i < TCI_ARRAY_LEN(strings); i++)
        if (tc_result_dup(r, *strings[i], strings[i], err) < 0)
            return err->code;
    *ret = to;
    return 0;
}

int tci_pi_get_facts(tci_pi *pi, tc_ctx *ctx, tc_result *r, tci_pi_facts *ret_facts,
                     tci_pi_fault *ret_fault, tc_err *err)
{
    tci_pi_failure *failure = NULL;
    if (ret_fault != NULL)
        *ret_fault = (tci_pi_fault){.is_lost = false};
    int rc = tci_ctx_check(ctx, err);
    if (rc < 0)
        return rc;
    tci_mutex_lock(&pi->lock);
    rc = want_session(pi, ctx, 0, &failure, err);
    if (rc == 0)
        rc = copy_facts(&pi->facts, r, ret_facts, err);
    tci_mutex_unlock(&pi->lock);
    if (failure != NULL)
        rc = tci_pi_tell_failure(failure, r, ret_fault, err);
    tci_pi_failure_release(failure);
    return rc;
}

/* ---- the end ---- */

static void close_on_loop(void *arg)
{
    tci_pi *pi = arg;
    tc_err err;
    tc_err_set(&err, TC_E_CLOSED, "connection closed");
    if (pi->sess != NULL)
        tci_pi_sess_end(pi->sess, &err, false);
}

void tci_pi_close(tci_pi *pi)
{
    tci_mutex_lock(&pi->lock);
    pi->is_closed = true;
    tci_thread *starter = pi->starter;
    pi->starter = NULL;
    if (pi->start_ctx != NULL)
        tc_ctx_cancel(pi->start_ctx);
    tc_device *device = pi->device;
    pi->device = NULL;
    tci_pi_wake_all(pi);
    tci_mutex_unlock(&pi->lock);
    tc_device_close(device); /* while its tunnel is there, so that it can say goodbye */
    (void)tci_runtime_run(pi->rt, close_on_loop, pi); /* false: the runtime's end has done it */
    tci_thread_join(starter);
    tci_mutex_lock(&pi->lock);
    tc_err err;
    while (pi->nopen > 0 && tci_pi_await(pi, NULL, &err) == 0)
        ;
    tc_ctx *ctx = starter != NULL ? pi->start_ctx : NULL;
    if (starter != NULL)
        pi->start_ctx = NULL;
    tci_mutex_unlock(&pi->lock);
    tc_ctx_free(ctx);
}
