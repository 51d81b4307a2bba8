/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime: the loop thread, the way from callers to it, the environment it was opened with, and
 * the connections that adapters share. Leaves the connections themselves to conn.c. Any thread.
 * Invariant: nothing is posted once is_closed is set, but the end itself. */
#include "client/client_int.h"

#include "plat/proc.h"

#define CLIENT_NAME TC_STR("telechir")
#define CLIENT_VERSION TC_VERSION

enum { LOOP_STACK_BYTES = 512 * 1024 };

const char *tc_version(void)
{
    return CLIENT_VERSION;
}

/* ---- reaching the loop ---- */

bool tci_runtime_post(tc_runtime *rt, tci_post *post)
{
    tci_mutex_lock(&rt->lock);
    bool is_open = !rt->is_closed;
    if (is_open)
        tci_loop_post(rt->loop, post);
    tci_mutex_unlock(&rt->lock);
    return is_open;
}

typedef struct run_job {
    tci_post post;
    tc_runtime *rt;
    void (*fn)(void *arg);
    void *arg;
    bool is_done;
    tci_wake wake;
} run_job;

static void run_on_loop(tci_post *post)
{
    run_job *job = TCI_CONTAINER(post, run_job, post);
    job->fn(job->arg);
    tc_runtime *rt = job->rt;
    tci_mutex_lock(&rt->lock);
    job->is_done = true;
    tci_wake_all(&job->wake);
    tci_mutex_unlock(&rt->lock);
}

bool tci_runtime_run(tc_runtime *rt, void (*fn)(void *arg), void *arg)
{
    run_job job = {.post = {.cb = run_on_loop}, .rt = rt, .fn = fn, .arg = arg};
    if (!tci_runtime_post(rt, &job.post))
        return false;
    for (;;) {
        unsigned seen = tci_wake_count(&job.wake);
        tci_mutex_lock(&rt->lock);
        bool is_done = job.is_done;
        tci_mutex_unlock(&rt->lock);
        if (is_done)
            return true;
        tci_wake_wait(&job.wake, seen, 0);
    }
}

tci_loop *tci_runtime_loop(const tc_runtime *rt)
{
    return rt->loop;
}

/* ---- opening ---- */

static void loop_main(void *arg)
{
    tc_runtime *rt = arg;
    tci_loop_run(rt->loop);
    tci_loop_free(rt->loop);
}

static int copy_environment(tc_runtime *rt, const char *const *from, tc_err *err)
{
    size_t count = 0;
    if (from == NULL)
        return tci_environ_snapshot(&rt->strings, &rt->environ, &count, err);
    while (from[count] != NULL)
        count++;
    const char **copy = tci_arena_items(&rt->strings, const char *, count + 1);
    if (copy == NULL)
        return tci_arena_error(&rt->strings, err);
    for (size_t i = 0; i < count; i++) {
        char *text;
        int rc = tci_arena_cstr(&rt->strings, tci_str(from[i]), &text, err);
        if (rc < 0)
            return rc;
        copy[i] = text;
    }
    rt->environ = copy;
    return 0;
}

static int copy_name(tc_runtime *rt, tc_str given, tc_str fallback, tc_str *ret, tc_err *err)
{
    return tci_arena_dup(&rt->strings, given.len > 0 ? given : fallback, ret, err);
}

static int setup(tc_runtime *rt, const tc_runtime_options *o, tc_err *err)
{
    int rc = copy_environment(rt, o->environment, err);
    if (rc == 0)
        rc = copy_name(rt, o->client_name, CLIENT_NAME, &rt->client_name, err);
    if (rc == 0)
        rc = copy_name(rt, o->client_version, tci_str(CLIENT_VERSION), &rt->client_version, err);
    rt->resolve_secret = o->resolve_secret;
    rt->resolve_user = o->resolve_user;
    if (rc == 0)
        rc = tci_loop_new(&rt->loop, err);
    if (rc == 0)
        rc = tci_thread_new(loop_main, rt, LOOP_STACK_BYTES, &rt->thread, err);
    return rc;
}

int tc_runtime_open(const tc_runtime_options *options, tc_runtime **ret_runtime, tc_err *err)
{
    tc_runtime_options none = {.size = sizeof none};
    if (options != NULL && options->size < sizeof none)
        return tc_err_set(err, TC_E_INVALID, "options without their size");
    tc_runtime *rt = tci_new(tc_runtime);
    if (rt == NULL)
        return tci_err_no_memory(err);
    atomic_init(&rt->refs, 1);
    tci_mutex_init(&rt->lock);
    tci_list_init(&rt->conns);
    tci_list_init(&rt->enders);
    tci_list_init(&rt->shared);
    tci_list_init(&rt->shared_waiters);
    tci_list_init(&rt->shared_pis);
    tci_arena_init(&rt->strings, 0);
    int rc = setup(rt, options != NULL ? options : &none, err);
    if (rc < 0) {
        tci_loop_free(rt->loop);
        rt->loop = NULL;
        tci_runtime_release(rt);
        return rc;
    }
    *ret_runtime = rt;
    return 0;
}

/* ---- closing ---- */

tc_runtime *tci_runtime_retain(tc_runtime *rt)
{
    atomic_fetch_add(&rt->refs, 1);
    return rt;
}

void tci_runtime_release(tc_runtime *rt)
{
    if (rt == NULL || atomic_fetch_sub(&rt->refs, 1) != 1)
        return;
    tci_arena_done(&rt->strings);
    tci_mutex_done(&rt->lock);
    tci_free(rt);
}

static void close_on_loop(tci_post *post)
{
    tc_runtime *rt = TCI_CONTAINER(post, tc_runtime, close_post);
    rt->is_ending = true;
    tc_err err;
    tc_err_set(&err, TC_E_CLOSED, "the runtime was closed");
    TCI_LIST_EACH (&rt->conns, link)
        tci_conn_fail(TCI_CONTAINER(link, tci_conn, link), &err);
    for (tci_link *link; (link = tci_list_pop_front(&rt->enders)) != NULL;) {
        tci_ender *ender = TCI_CONTAINER(link, tci_ender, link);
        ender->end(ender);
    }
    tci_runtime_check_end(rt);
}

void tci_runtime_check_end(tc_runtime *rt)
{
    if (rt->is_ending && rt->nbusy == 0)
        tci_loop_stop(rt->loop);
}

static void release_shared(tc_runtime *rt)
{
    for (;;) {
        tci_mutex_lock(&rt->lock);
        tci_link *link = tci_list_pop_front(&rt->shared);
        tci_mutex_unlock(&rt->lock);
        if (link == NULL)
            return;
        tci_shared *s = TCI_CONTAINER(link, tci_shared, link);
        tc_device_close(s->device);
        tci_free(s->key);
        tci_free(s);
    }
}

void tc_runtime_close(tc_runtime *rt)
{
    if (rt == NULL)
        return;
    release_shared(rt);
    tci_runtime_release_pis(rt);
    rt->close_post.cb = close_on_loop;
    tci_mutex_lock(&rt->lock);
    rt->is_closed = true;
    tci_loop_post(rt->loop, &rt->close_post);
    tci_mutex_unlock(&rt->lock);
    tci_thread_join(rt->thread);
    rt->thread = NULL;
    rt->loop = NULL;
    tci_runtime_release(rt);
}

/* ---- environment and secrets ---- */

const char *tci_runtime_getenv(const tc_runtime *rt, const char *name)
{
    return tci_environ_get(rt->environ, name);
}

const char *const *tci_runtime_environ(const tc_runtime *rt)
{
    return rt->environ;
}

static int secret_from_environment(tc_runtime *rt, tc_str kind, tc_str name, tc_result *r,
                                   tc_str *ret_value, tc_err *err)
{
    if (!tci_str_eq(kind, TC_STR("environment")))
        return tc_err_set(err, TC_E_UNSUPPORTED, "secret source '%.*s' needs a resolver",
                          TC_STR_ARG(kind));
    char *cname;
    int rc = tci_arena_cstr(&r->arena, name, &cname, err);
    if (rc < 0)
        return rc;
    const char *value = tci_runtime_getenv(rt, cname);
    if (value == NULL)
        return tc_err_set(err, TC_E_NOT_FOUND, "secret source '%s' is not set", cname);
    *ret_value = tci_str(value);
    return 0;
}

int tci_runtime_secret(tc_runtime *rt, tc_str kind, tc_str name, tc_result *r, tc_str *ret_value,
                       tc_err *err)
{
    tc_str value = {0};
    int rc = rt->resolve_secret != NULL
                 ? rt->resolve_secret(rt->resolve_user, kind, name, r, &value, err)
                 : secret_from_environment(rt, kind, name, r, &value, err);
    if (rc < 0)
        return rc;
    if (value.len == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "secret source '%.*s' is empty", TC_STR_ARG(name));
    *ret_value = value;
    return 0;
}

/* ---- shared connections ---- */

static tci_shared *find_shared(tc_runtime *rt, tc_str key)
{
    TCI_LIST_EACH (&rt->shared, link) {
        tci_shared *s = TCI_CONTAINER(link, tci_shared, link);
        if (tci_str_eq(tci_str_of(s->key, s->key_len), key))
            return s;
    }
    return NULL;
}

/* Under the lock. */
static tci_shared *add_shared(tc_runtime *rt, tc_str key)
{
    tci_shared *s = tci_new(tci_shared);
    char *copy = tci_mem_cstr(key);
    if (s == NULL || copy == NULL) {
        tci_free(s);
        tci_free(copy);
        return NULL;
    }
    s->key = copy;
    s->key_len = key.len;
    tci_list_push_back(&rt->shared, &s->link);
    return s;
}

typedef struct waiter {
    tci_link link;
    tci_wake *wake;
    tci_wake own;
} waiter;

/* The lock is held; it is let go while waiting. 1: *ret_shared is the caller's to connect. */
static int claim_shared(tc_runtime *rt, tc_str key, tc_ctx *ctx, tci_shared **ret_shared,
                        tc_device **ret_device, tc_err *err)
{
    for (;;) {
        if (rt->is_closed)
            return tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
        tci_shared *s = find_shared(rt, key);
        if (s == NULL)
            s = add_shared(rt, key);
        if (s == NULL)
            return tci_err_no_memory(err);
        if (s->device != NULL && tc_device_is_alive(s->device)) {
            *ret_device = tc_device_retain(s->device);
            return 0;
        }
        if (!s->is_connecting) {
            s->is_connecting = true;
            *ret_shared = s;
            return 1;
        }
        waiter w = {.own = {0}};
        w.wake = ctx != NULL ? &ctx->wake : &w.own;
        unsigned seen = tci_wake_count(w.wake);
        tci_list_push_back(&rt->shared_waiters, &w.link);
        tci_mutex_unlock(&rt->lock);
        int rc = tci_ctx_check(ctx, err);
        if (rc == 0)
            tci_wake_wait(w.wake, seen, tci_ctx_deadline_ns(ctx));
        tci_mutex_lock(&rt->lock);
        tci_link_remove(&w.link);
        if (rc < 0)
            return rc;
    }
}

int tci_runtime_shared_device(tc_runtime *rt, tc_str key, tc_ctx *ctx, tci_connect_fn make,
                              void *arg, tc_device **ret_device, tc_err *err)
{
    tci_shared *s = NULL;
    tci_mutex_lock(&rt->lock);
    int rc = claim_shared(rt, key, ctx, &s, ret_device, err);
    tc_device *old = rc == 1 ? s->device : NULL;
    if (rc == 1)
        s->device = NULL;
    tci_mutex_unlock(&rt->lock);
    if (rc <= 0)
        return rc;
    tc_device_close(old);
    tc_device *fresh = NULL;
    rc = make(arg, ctx, &fresh, err);
    tci_mutex_lock(&rt->lock);
    s->is_connecting = false;
    if (rc == 0)
        s->device = tc_device_retain(fresh);
    TCI_LIST_EACH (&rt->shared_waiters, link)
        tci_wake_all(TCI_CONTAINER(link, waiter, link)->wake);
    tci_mutex_unlock(&rt->lock);
    if (rc == 0)
        *ret_device = fresh;
    return rc;
}
