/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry of daemons that dialled in: who is there, and who waits for whom. Leaves each of them to
 * connections_arrival.c. Any thread. Invariant: what is found under the lock has a reference of its
 * arrival's until it leaves the list, under the same lock. */
#include "client/connections/connections_int.h"

enum { DEVICES_DEFAULT = 64 };

static const tci_link_times default_times = {.ping_interval_ms = 20000,
                                             .pong_timeout_ms = 10000,
                                             .send_timeout_ms = 10000,
                                             .probe_ms = 5000};

tc_runtime *tci_connections_runtime(const tc_connections *c)
{
    return c->rt;
}

tc_connections *tci_connections_retain(tc_connections *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}

void tci_connections_release(tc_connections *c)
{
    if (c == NULL || atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    tci_mutex_done(&c->lock);
    tci_runtime_release(c->rt);
    tci_free(c);
}

/* ---- opening ---- */

/* Nobody waits or comes any more. Any thread. */
static void shut(tc_connections *c)
{
    tci_mutex_lock(&c->lock);
    c->is_closed = true;
    TCI_LIST_EACH (&c->waiters, link)
        tci_wake_all(TCI_CONTAINER(link, tci_connections_waiter, link)->wake);
    tci_mutex_unlock(&c->lock);
}

/* The runtime is closed, and has ended the links itself. */
static void on_runtime_end(tci_ender *ender)
{
    tc_connections *c = TCI_CONTAINER(ender, tc_connections, ender);
    shut(c);
    tci_connections_release(c);
}

static void add_ender(void *arg)
{
    tc_connections *c = arg;
    c->ender.end = on_runtime_end;
    tci_list_push_back(&c->rt->enders, &tci_connections_retain(c)->ender.link);
}

int tc_connections_open(tc_runtime *rt, const tc_connections_options *options,
                        tc_connections **ret_connections, tc_err *err)
{
    tc_connections_options none = {.size = sizeof none};
    tc_device_options no_device = {.size = sizeof no_device};
    const tc_connections_options *o = options != NULL ? options : &none;
    if (o->size < sizeof none)
        return tc_err_set(err, TC_E_INVALID, "options without their size");
    const tc_device_options *device = o->device != NULL ? o->device : &no_device;
    int rc = tci_device_options_check(device, err);
    if (rc < 0)
        return rc;
    tc_connections *c = tci_new(tc_connections);
    if (c == NULL)
        return tci_err_no_memory(err);
    atomic_init(&c->refs, 1);
    c->rt = tci_runtime_retain(rt);
    c->max_devices = o->max_devices > 0 ? o->max_devices : DEVICES_DEFAULT;
    c->device = *device;
    c->device.size = sizeof c->device;
    c->device.expected_device_id = (tc_str){0};
    c->times = default_times;
    tci_mutex_init(&c->lock);
    tci_list_init(&c->arrivals);
    tci_list_init(&c->waiters);
    if (!tci_runtime_run(rt, add_ender, c)) {
        tci_connections_release(c);
        return tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
    }
    *ret_connections = c;
    return 0;
}

void tci_connections_set_times(tc_connections *c, const tci_link_times *times)
{
    c->times = *times;
}

/* ---- closing ---- */

static tci_arrival *first_arrival(tc_connections *c)
{
    tci_mutex_lock(&c->lock);
    tci_link *link = tci_list_first(&c->arrivals);
    /* One that is reserved and has not begun ends by itself, when it sees that we are closed. */
    while (link != NULL && !TCI_CONTAINER(link, tci_arrival, link)->is_begun)
        link = tci_list_next(&c->arrivals, link);
    tci_mutex_unlock(&c->lock);
    return link != NULL ? TCI_CONTAINER(link, tci_arrival, link) : NULL;
}

static void end_all(void *arg)
{
    tc_connections *c = arg;
    tc_err err;
    if (tci_link_is_in(&c->ender.link)) {
        tci_link_remove(&c->ender.link);
        tci_connections_release(c);
    }
    tc_err_set(&err, TC_E_CLOSED, "the connections were closed");
    for (tci_arrival *a; (a = first_arrival(c)) != NULL;)
        tci_conn_fail(&a->messages.base, &err); /* leaves the list */
}

void tc_connections_close(tc_connections *c)
{
    if (c == NULL)
        return;
    shut(c);
    (void)tci_runtime_run(c->rt, end_all, c); /* without a loop they have ended already */
    for (;;) {
        unsigned seen = tci_wake_count(&c->emptied);
        tci_mutex_lock(&c->lock);
        bool is_empty = c->nleft == 0;
        tci_mutex_unlock(&c->lock);
        if (is_empty)
            break;
        tci_wake_wait(&c->emptied, seen, 0);
    }
    tci_connections_release(c);
}

/* ---- finding ---- */

/* Under the lock. */
static tci_arrival *find(tc_connections *c, tc_str device_id)
{
    TCI_LIST_EACH (&c->arrivals, link) {
        tci_arrival *a = TCI_CONTAINER(link, tci_arrival, link);
        if (tci_str_eq(tci_str(a->device_id), device_id))
            return a;
    }
    return NULL;
}

tci_arrival *tci_connections_find(tc_connections *c, tc_str device_id)
{
    tci_loop_assert(c->rt->loop);
    tci_mutex_lock(&c->lock);
    tci_arrival *a = find(c, device_id);
    tci_mutex_unlock(&c->lock);
    return a;
}

void tci_connections_on_live(tc_connections *c, void (*told)(void *user, tc_device *device),
                             void *user)
{
    tci_loop_assert(c->rt->loop);
    c->on_live = told;
    c->live_user = user;
}

bool tci_connections_end(tc_connections *c, tc_str device_id, const tc_err *why)
{
    tci_arrival *a = tci_connections_find(c, device_id);
    if (a == NULL || !a->is_begun)
        return false;
    tci_conn_fail(&a->messages.base, why);
    return true;
}

/* 0, CLOSED, or 1: not there. Under the lock. */
static int look(tc_connections *c, tc_str device_id, tc_device **ret_device, tc_err *err)
{
    if (c->is_closed)
        return tc_err_set(err, TC_E_CLOSED, "the connections are closed");
    tci_arrival *a = find(c, device_id);
    if (a == NULL || !a->is_live || !tc_device_is_alive(a->device))
        return 1;
    *ret_device = tc_device_retain(a->device);
    return 0;
}

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
    if (a_ns == 0 || b_ns == 0)
        return a_ns + b_ns;
    return a_ns < b_ns ? a_ns : b_ns;
}

int tc_connections_wait(tc_connections *c, tc_ctx *ctx, tc_str device_id, int64_t timeout_ms,
                        tc_device **ret_device, tc_err *err)
{
    tci_connections_waiter w = {.wake = tci_ctx_wake(ctx)};
    int64_t until_ns =
        timeout_ms < 0 ? 0 : tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns((uint64_t)timeout_ms));
    int64_t deadline_ns = earlier(until_ns, tci_ctx_deadline_ns(ctx));
    if (device_id.len == 0)
        return tc_err_set(err, TC_E_INVALID, "a device id is missing");
    if (w.wake == NULL)
        w.wake = &w.own;
    tci_mutex_lock(&c->lock);
    tci_list_push_back(&c->waiters, &w.link);
    int rc;
    for (;;) {
        unsigned seen = tci_wake_count(w.wake);
        rc = look(c, device_id, ret_device, err);
        if (rc <= 0)
            break;
        rc = tci_ctx_check(ctx, err);
        if (rc == 0 && until_ns != 0 && tci_clock_mono_ns() >= until_ns)
            rc = tc_err_set(err, TC_E_TIMEOUT, "device '%.*s' is not connected",
                            TC_STR_ARG(device_id));
        if (rc < 0)
            break;
        tci_mutex_unlock(&c->lock);
        tci_wake_wait(w.wake, seen, deadline_ns);
        tci_mutex_lock(&c->lock);
    }
    tci_link_remove(&w.link);
    tci_mutex_unlock(&c->lock);
    return rc;
}

int tc_connections_list(tc_connections *c, tc_result *r, tc_strs *ret_device_ids, tc_err *err)
{
    size_t n = 0, max = 0;
    int rc = 0;
    tci_mutex_lock(&c->lock);
    TCI_LIST_EACH (&c->arrivals, link)
        max++;
    tc_str *ids = tci_arena_items(&r->arena, tc_str, max);
    if (ids == NULL)
        rc = tci_arena_error(&r->arena, err);
    TCI_LIST_EACH (&c->arrivals, link) {
        const tci_arrival *a = TCI_CONTAINER(link, tci_arrival, link);
        if (rc == 0 && a->is_live)
            rc = tc_result_dup(r, tci_str(a->device_id), &ids[n++], err);
    }
    tci_mutex_unlock(&c->lock);
    if (rc == 0)
        *ret_device_ids = (tc_strs){ids, n};
    return rc;
}
