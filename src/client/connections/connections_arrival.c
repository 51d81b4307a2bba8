/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of an accepted connection on the loop: its place in the registry, initializing, and its end.
 * Leaves messages to its link. Loop thread unless said otherwise. Invariant: a device is found in the
 * registry only between its initialize and the first sign of its end, and the arrival's reference to
 * it is dropped when nothing of the link is left. */
#include "client/connections/connections_int.h"

enum { CODE_NORMAL = 1000, CODE_GOING_AWAY = 1001, CODE_PROTOCOL = 1002, CODE_POLICY = 1008 };
enum { CODE_TRY_LATER = 1013, DEVICE_ID_MAX = 256 };

/* ---- setting up ---- */

static int check_device_id(tc_str id, tc_err *err)
{
    bool is_good = id.len > 0 && id.len <= DEVICE_ID_MAX;
    for (size_t i = 0; is_good && i < id.len; i++)
        is_good = (unsigned char)id.ptr[i] >= ' ' && id.ptr[i] != 0x7f;
    if (is_good)
        return 0;
    return tc_err_set(err, TC_E_INVALID, "a device id has 1 to %d bytes, none of them control",
                      DEVICE_ID_MAX);
}

static void on_started(tci_post *post);

int tci_arrival_init_own(tci_arrival *a, const tci_message_link *link, tc_connections *c,
                         tc_str device_id, void (*over)(tci_arrival *a), tc_err *err)
{
    tc_device_options options = c->device;
    options.expected_device_id = device_id;
    int rc = check_device_id(device_id, err);
    if (rc == 0) {
        a->device_id = tci_mem_cstr(device_id);
        rc = a->device_id != NULL ? 0 : tci_err_no_memory(err);
    }
    tci_messages_init(&a->messages, link, c->rt, &options);
    a->started.cb = on_started;
    a->over = over;
    if (rc < 0) {
        link->free(&a->messages);
        return rc;
    }
    return tci_device_new_own(c->rt, &a->messages.base, &options, &a->device, err);
}

void tci_arrival_free_parts(tci_arrival *a)
{
    tci_free(a->device_id);
}

/* ---- its place ---- */

int tci_arrival_reserve(tci_arrival *a, tc_connections *c, tc_err *err)
{
    size_t n = 0;
    int rc = 0;
    tci_mutex_lock(&c->lock);
    TCI_LIST_EACH (&c->arrivals, link) {
        n++;
        if (strcmp(TCI_CONTAINER(link, tci_arrival, link)->device_id, a->device_id) == 0)
            rc = TC_E_CONFLICT;
    }
    if (c->is_closed)
        rc = tc_err_set(err, TC_E_CLOSED, "the connections are closed");
    else if (rc < 0)
        rc = tc_err_set(err, rc, "device '%s' is connected already", a->device_id);
    else if (n >= c->max_devices)
        rc = tc_err_set(err, TC_E_BUSY, "%zu devices are connected, which is the limit", n);
    if (rc == 0) {
        tci_list_push_back(&c->arrivals, &a->link);
        c->nleft++;
        a->registry = tci_connections_retain(c);
    }
    tci_mutex_unlock(&c->lock);
    return rc;
}

/* No longer to be found by anybody. */
static void leave(tci_arrival *a)
{
    tci_mutex_lock(&a->registry->lock);
    tci_link_remove(&a->link);
    a->is_live = false;
    tci_mutex_unlock(&a->registry->lock);
}

/* One less that close waits for. The arrival may be gone. */
static void count_out(tc_connections *c)
{
    tci_mutex_lock(&c->lock);
    c->nleft--;
    tci_wake_all(&c->emptied);
    tci_mutex_unlock(&c->lock);
    tci_connections_release(c);
}

static tc_connections *unreserve(tci_arrival *a)
{
    tc_connections *c = a->registry;
    if (c != NULL)
        leave(a);
    a->registry = NULL;
    return c;
}

void tci_arrival_cancel(tci_arrival *a)
{
    tc_connections *c = unreserve(a);
    tc_device_close(a->device);
    if (c != NULL)
        count_out(c);
}

void tci_arrival_drop(tci_arrival *a)
{
    tc_connections *c = unreserve(a);
    tci_device_drop(a->device);
    if (c != NULL)
        count_out(c);
}

/* ---- initializing ---- */

static void on_limit(tci_timer *t)
{
    tci_arrival *a = TCI_CONTAINER(t, tci_arrival, limit);
    tc_err err;
    tc_err_set(&err, TC_E_TIMEOUT, "device '%s' did not initialize in time", a->device_id);
    tci_conn_fail(&a->messages.base, &err);
}

/* It may have been closed since a place was taken. */
static int check_open(tc_connections *c, tc_err *err)
{
    tci_mutex_lock(&c->lock);
    bool is_closed = c->is_closed;
    tci_mutex_unlock(&c->lock);
    return is_closed ? tc_err_set(err, TC_E_CLOSED, "the connections are closed") : 0;
}

void tci_arrival_begin(tci_arrival *a)
{
    tci_conn *c = &a->messages.base;
    tc_err err;
    tci_conn_add(c);
    c->rt->nbusy++;
    a->is_begun = true;
    a->nparts = 1; /* the link */
    tci_timer_init(&a->limit, c->rt->loop, on_limit);
    int rc = check_open(a->registry, &err);
    if (rc == 0)
        rc = tci_device_start_begin(a->device, &a->started, &a->start, &err);
    if (rc == 0) {
        a->nparts++;
        rc = tci_timer_start(&a->limit, tci_device_initialize_ms(&a->registry->device), &err);
    }
    if (rc < 0)
        tci_conn_fail(c, &err);
}

/* From now on the device can be had. */
static void be_live(tci_arrival *a)
{
    tc_connections *c = a->registry;
    a->was_live = true;
    tci_mutex_lock(&c->lock);
    a->is_live = true;
    TCI_LIST_EACH (&c->waiters, link)
        tci_wake_all(TCI_CONTAINER(link, tci_connections_waiter, link)->wake);
    tci_mutex_unlock(&c->lock);
    if (c->on_live != NULL)
        c->on_live(c->live_user, a->device);
}

static void on_started(tci_post *post)
{
    tci_arrival *a = TCI_CONTAINER(post, tci_arrival, started);
    tci_conn *c = &a->messages.base;
    tc_err err;
    tci_timer_stop(&a->limit);
    int rc = tci_device_start_end_own(a->start, &err);
    a->start = NULL;
    if (rc < 0)
        tci_conn_fail(c, &err);
    else if (!c->is_dead)
        be_live(a);
    tci_arrival_part_done(a);
}

/* ---- the end ---- */

bool tci_arrival_stopping(tci_arrival *a)
{
    if (!a->is_begun) {
        tci_conn_stopped(&a->messages.base);
        return false;
    }
    tci_timer_stop(&a->limit);
    leave(a);
    return true;
}

void tci_arrival_lost(tci_arrival *a, const tc_err *err)
{
    if (!a->messages.base.is_dead)
        a->is_peer_end = true;
    tci_conn_fail(&a->messages.base, err);
}

void tci_arrival_part_done(tci_arrival *a)
{
    tci_conn *c = &a->messages.base;
    tc_runtime *rt = c->rt;
    tc_connections *registry = a->registry;
    if (--a->nparts > 0)
        return;
    tci_link_remove(&c->link);
    rt->nbusy--;
    a->over(a);
    a->registry = NULL;
    tci_conn_stopped(c);
    tci_device_drop(a->device); /* the arrival may be gone from here on */
    tci_runtime_check_end(rt);
    count_out(registry);
}

int tci_arrival_result(const tci_arrival *a, tc_err *err)
{
    *err = a->messages.base.fail;
    if (!a->is_peer_end || err->code != TC_E_CLOSED)
        return err->code;
    if (a->was_live)
        return 0;
    tc_err_wrap(err, "device '%s' was not initialized", a->device_id);
    return tc_err_recode(err, TC_E_CONNECT);
}

unsigned tci_close_code_of(int code)
{
    switch (code) {
    case TC_E_PROTOCOL:
    case TC_E_TOO_BIG:
        return CODE_PROTOCOL;
    case TC_E_INCOMPATIBLE:
    case TC_E_CONFLICT:
    case TC_E_INVALID:
    case TC_E_DENIED:
        return CODE_POLICY;
    case TC_E_BUSY:
        return CODE_TRY_LATER;
    case TC_E_CLOSED:
        return CODE_GOING_AWAY;
    default:
        return CODE_NORMAL;
    }
}

unsigned tci_arrival_close_code(const tci_arrival *a)
{
    return a->is_peer_end ? CODE_NORMAL : tci_close_code_of(a->messages.base.fail.code);
}
