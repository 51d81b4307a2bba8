/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices as clients ask for them: what the records said of a name and a token, the link that a device has, the
 * connection to one that the Host reaches itself, and waiting for one that is expected back. Leaves rows to
 * devices.c and connecting to reach.c, which a thread of its own waits for: one for each device, not for each
 * request. Loop thread. Invariant: who waits for a device is told once, and nothing that changed in the records is
 * answered from memory. */
#include "host/eip/eip.h"

enum { KNOWN_MS = 30000, CONNECT_MS = 20000, STACK_BYTES = 256 * 1024 };

static int64_t now_ms(const tci_host *h)
{
    return tci_loop_now_ms(h->loop);
}

/* ---- what the records said ---- */

static bool is_for(const tci_eip_known *k, const tci_digest *token, tc_str name)
{
    return k->remote != NULL && tci_digest_eq(&k->token, token) &&
           tci_str_eq(tci_str_of(k->name, k->name_len), name);
}

tci_eip_remote *tci_eip_remote_known(tci_host_req *r)
{
    tci_host_eip *e = r->host->eip;
    tci_digest token = tci_digest_of(r->token);
    int64_t now = now_ms(r->host);
    for (size_t i = 0; i < TCI_EIP_KNOWN_MAX; i++)
        if (is_for(&e->known[i], &token, r->id) && e->known[i].until_ms > now)
            return e->known[i].remote;
    return NULL;
}

static void keep(tci_host_req *r, tci_eip_remote *m)
{
    tci_host_eip *e = r->host->eip;
    tci_digest token = tci_digest_of(r->token);
    if (r->id.len >= sizeof e->known[0].name)
        return;
    tci_eip_known *k = &e->known[e->next_known];
    for (size_t i = 0; i < TCI_EIP_KNOWN_MAX; i++)
        if (is_for(&e->known[i], &token, r->id))
            k = &e->known[i];
    if (k == &e->known[e->next_known])
        e->next_known = (e->next_known + 1) % TCI_EIP_KNOWN_MAX;
    k->token = token;
    memcpy(k->name, r->id.ptr, r->id.len);
    k->name_len = r->id.len;
    k->remote = m;
    k->until_ms = now_ms(r->host) + KNOWN_MS;
}

void tci_host_eip_records_changed(tci_host *h)
{
    if (h->eip != NULL)
        memset(h->eip->known, 0, sizeof h->eip->known);
}

/* ---- devices ---- */

static tci_eip_remote *find(const tci_host_eip *e, tc_str id)
{
    if (e == NULL)
        return NULL;
    TCI_LIST_EACH (&e->remotes, k) {
        tci_eip_remote *m = TCI_CONTAINER(k, tci_eip_remote, link);
        if (tci_str_eq(m->row.id, id))
            return m;
    }
    return NULL;
}

static void on_connected(tci_post *post);
static void on_patience(tci_timer *timer);
static void on_idle(tci_relay *relay);

static int copy_row(tci_eip_remote *m, const tci_host_device *d, tc_err *err)
{
    m->row = *d;
    const struct {
        tc_str from, *to;
    } texts[] = {{d->id, &m->row.id},          {d->device_id, &m->row.device_id},
                 {d->name, &m->row.name},      {d->address, &m->row.address},
                 {d->url, &m->row.url},        {d->credential_file, &m->row.credential_file},
                 {d->ca_file, &m->row.ca_file}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++)
        if (tci_arena_dup(&m->strings, texts[i].from, texts[i].to, err) < 0)
            return err->code;
    m->row.clash_address = m->row.challenge_id = m->row.code = m->row.trouble = (tc_str){0};
    return 0;
}

static tci_eip_remote *remote_new(tci_host *h, const tci_host_device *d)
{
    tc_err err;
    tci_eip_remote *m = tci_new(tci_eip_remote);
    if (m == NULL)
        return NULL;
    m->host = h;
    tci_arena_init(&m->strings, 0);
    tci_list_init(&m->waiting);
    tci_relay_init(&m->relay, h->rt);
    m->relay.idle = on_idle;
    m->connected.cb = on_connected;
    tci_timer_init(&m->patience, h->loop, on_patience);
    if (copy_row(m, d, &err) < 0) {
        tci_arena_done(&m->strings);
        tci_free(m);
        return NULL;
    }
    tci_list_push_back(&h->eip->remotes, &m->link);
    return m;
}

tci_eip_remote *tci_eip_remote_of(tci_host_req *r)
{
    tci_eip_remote *m = find(r->host->eip, r->device.id);
    if (m == NULL)
        m = remote_new(r->host, &r->device);
    if (m != NULL)
        keep(r, m);
    return m;
}

/* ---- links ---- */

static void serve_waiting(tci_eip_remote *m, const tc_err *err)
{
    tci_list all;
    tci_list_init(&all);
    tci_timer_stop(&m->patience);
    for (tci_link *k; (k = tci_list_pop_front(&m->waiting)) != NULL;)
        tci_list_push_back(&all, k);
    for (tci_link *k; (k = tci_list_pop_front(&all)) != NULL;) {
        tci_eip_exchange *x = TCI_CONTAINER(k, tci_eip_exchange, wait_link);
        if (err == NULL)
            tci_eip_exchange_go_on(x);
        else
            tci_eip_exchange_give_up(x, err);
    }
}

static void link_own(tci_eip_remote *m, tc_device *device)
{
    m->lost_ms = 0;
    m->max_request_bytes = atomic_load(&device->conn->max_request_bytes);
    m->grace_ms = device->info.disconnect_grace_ms;
    tci_relay_link_own(&m->relay, device);
}

static void link_lost(tci_eip_remote *m)
{
    if (m->relay.device == NULL)
        return;
    tci_relay_unlink(&m->relay);
    m->lost_ms = now_ms(m->host);
}

/* The connection that it has now, if it has one. A reference. */
static tc_device *peek(tci_eip_remote *m)
{
    tc_err err;
    tc_device *device = NULL;
    if (m->row.kind == TCI_HOST_EXTERNAL)
        return tci_outside_peek(m->host->outside, m->row.id);
    int rc = tc_connections_wait(m->host->connections, NULL, m->row.device_id, 0, &device, &err);
    return rc == 0 ? device : NULL;
}

static bool is_linked(tci_eip_remote *m)
{
    if (m->relay.device != NULL && !tci_relay_is_linked(&m->relay))
        link_lost(m);
    if (m->relay.device != NULL && m->row.kind == TCI_HOST_LINKED)
        return true;
    tc_device *device = peek(m);
    if (device == NULL || device == m->relay.device) {
        tc_device_close(device); /* not the last one: the relay has its own */
        return m->relay.device != NULL;
    }
    link_own(m, device);
    return true;
}

void tci_host_eip_linked(void *user, tc_device *device)
{
    tci_host *h = user;
    TCI_LIST_EACH (&h->eip->remotes, k) {
        tci_eip_remote *m = TCI_CONTAINER(k, tci_eip_remote, link);
        if (m->row.kind != TCI_HOST_LINKED || !tci_str_eq(m->row.device_id, device->info.device_id))
            continue;
        link_own(m, tc_device_retain(device));
        serve_waiting(m, NULL);
    }
}

void tci_host_eip_unlinked(tci_host *h, tc_str id)
{
    tci_eip_remote *m = find(h->eip, id);
    if (m != NULL && m->relay.device != NULL && !tci_relay_is_linked(&m->relay))
        link_lost(m);
}

void tci_host_eip_forget(tci_host *h, tc_str id)
{
    tc_err err;
    tci_eip_remote *m = find(h->eip, id);
    if (m == NULL)
        return;
    tc_err_set(&err, TC_E_DENIED, "the device was revoked or removed");
    tci_relay_fail(&m->relay, &err);
    m->lost_ms = 0;
    serve_waiting(m, &err);
}

/* ---- waiting ---- */

static void on_patience(tci_timer *timer)
{
    tc_err err;
    tci_eip_remote *m = TCI_CONTAINER(timer, tci_eip_remote, patience);
    tc_err_set(&err, TC_E_NOT_READY, "'%.*s' is offline", TC_STR_ARG(m->row.name));
    if (m->connecting == NULL)
        serve_waiting(m, &err);
}

/* How much longer; 0: not any more. */
static int64_t expected_ms(const tci_eip_remote *m)
{
    int64_t gone_ms = now_ms(m->host) - m->lost_ms;
    int64_t left_ms = (int64_t)tci_min_u64(m->grace_ms, TCI_EIP_BACK_MS) - gone_ms;
    return m->lost_ms != 0 && left_ms > 0 && m->relay.nsessions > 0 ? left_ms : 0;
}

bool tci_eip_remote_is_expected(const tci_eip_remote *m)
{
    return expected_ms(m) > 0;
}

int tci_eip_remote_wait(tci_eip_remote *m, tci_eip_exchange *x, tc_err *err)
{
    if (!tci_timer_is_armed(&m->patience) && tci_timer_start(&m->patience, expected_ms(m), err) < 0)
        return err->code;
    tci_list_push_back(&m->waiting, &x->wait_link);
    return 1;
}

/* ---- connecting to an external one ---- */

static void run_connect(void *arg)
{
    tci_eip_remote *m = arg;
    m->rc = tci_host_reach(m->host, &m->row, m->ctx, &m->device, &m->err);
    tci_loop_post(m->host->loop, &m->connected);
}

static void on_connected(tci_post *post)
{
    tci_eip_remote *m = TCI_CONTAINER(post, tci_eip_remote, connected);
    tci_thread_join(m->connecting); /* this was its last word */
    m->connecting = NULL;
    tc_ctx_free(m->ctx);
    m->ctx = NULL;
    if (m->relay.device != NULL && !tci_relay_is_linked(&m->relay))
        link_lost(m);
    if (m->rc == 0 && (m->host->eip->is_ending || m->device == m->relay.device))
        tci_relay_drop_device(&m->relay, m->device);
    else if (m->rc == 0)
        link_own(m, m->device);
    m->device = NULL;
    serve_waiting(m, m->rc == 0 ? NULL : &m->err);
    tci_host_links_ended(m->host);
}

static int connect(tci_eip_remote *m, tci_eip_exchange *x, tc_err *err)
{
    if (m->host->eip->is_ending)
        return tc_err_set(err, TC_E_CLOSED, "the Host is ending");
    if (m->connecting == NULL) {
        int rc = tc_ctx_new(CONNECT_MS, &m->ctx, err);
        if (rc == 0)
            rc = tci_thread_new(run_connect, m, STACK_BYTES, &m->connecting, err);
        if (rc < 0) {
            tc_ctx_free(m->ctx);
            m->ctx = NULL;
            return rc;
        }
    }
    tci_list_push_back(&m->waiting, &x->wait_link);
    return 1;
}

int tci_eip_remote_want(tci_eip_remote *m, tci_eip_exchange *x, tc_err *err)
{
    if (is_linked(m))
        return 0;
    if (m->row.kind == TCI_HOST_EXTERNAL)
        return connect(m, x, err);
    return tc_err_set(err, TC_E_NOT_READY, "'%.*s' is offline", TC_STR_ARG(m->row.name));
}

int tci_eip_remote_verify(tci_eip_remote *m, tci_eip_exchange *x, tc_err *err)
{
    return m->row.kind == TCI_HOST_EXTERNAL ? connect(m, x, err) : 0;
}

/* ---- life ---- */

int tci_host_eip_new(tci_host *h, tc_err *err)
{
    h->eip = tci_new(tci_host_eip);
    if (h->eip == NULL)
        return tci_err_no_memory(err);
    h->eip->host = h;
    tci_list_init(&h->eip->remotes);
    return 0;
}

static void on_idle(tci_relay *relay)
{
    tci_eip_remote *m = TCI_CONTAINER(relay, tci_eip_remote, relay);
    if (m->host->eip->is_ending)
        tci_host_links_ended(m->host);
}

void tci_host_eip_end(tci_host *h)
{
    tc_err err;
    if (h->eip == NULL || h->eip->is_ending)
        return;
    tc_err_set(&err, TC_E_CLOSED, "the Host is ending");
    h->eip->is_ending = true;
    TCI_LIST_EACH (&h->eip->remotes, k) {
        tci_eip_remote *m = TCI_CONTAINER(k, tci_eip_remote, link);
        if (m->ctx != NULL)
            tc_ctx_cancel(m->ctx);
        serve_waiting(m, &err);
        tci_relay_end(&m->relay);
    }
}

bool tci_host_eip_is_idle(const tci_host *h)
{
    if (h->eip == NULL)
        return true;
    TCI_LIST_EACH (&h->eip->remotes, k) {
        const tci_eip_remote *m = TCI_CONTAINER(k, tci_eip_remote, link);
        if (m->connecting != NULL || !tci_relay_is_idle(&m->relay))
            return false;
    }
    return true;
}

void tci_host_eip_free(tci_host *h)
{
    if (h->eip == NULL)
        return;
    for (tci_link *k; (k = tci_list_pop_front(&h->eip->remotes)) != NULL;) {
        tci_eip_remote *m = TCI_CONTAINER(k, tci_eip_remote, link);
        tci_arena_done(&m->strings);
        tci_free(m);
    }
    tci_free(h->eip);
    h->eip = NULL;
}
