/* SPDX-License-Identifier: Apache-2.0
 *
 * The links of devices: who may have one, when it was seen, and its end when it is revoked. Leaves the link
 * itself to the registry of connections. The runtime's loop. Invariant: a device is linked only while its row
 * says approved: the row is read, and the link made, without other work on the records in between. */
#include "host/host_int.h"

enum { SEEN_EVERY_MS = 60000 };

typedef struct tci_host_linked {
    tci_link link; /* host->linked */
    tci_host *host;
    char id[TCI_RESOURCE_ID_LEN + 1];
    char device_id[TCI_PAIR_DEVICE_ID_MAX + 1];
} tci_host_linked;

static tci_host_linked *find(const tci_host *h, tc_str id)
{
    for (tci_link *k = tci_list_first(&h->linked); k != NULL; k = tci_list_next(&h->linked, k)) {
        tci_host_linked *l = TCI_CONTAINER(k, tci_host_linked, link);
        if (tci_str_eq(tci_str(l->id), id))
            return l;
    }
    return NULL;
}

/* ---- when it was seen ---- */

typedef struct seen_op {
    tci_host_op op;
    char id[TCI_RESOURCE_ID_LEN + 1];
    int64_t at_ms;
    int rc;
    tc_err err;
} seen_op;

static void seen_work(tci_host_op *op)
{
    seen_op *s = TCI_CONTAINER(op, seen_op, op);
    s->rc = tci_host_seen(op->host->db, tci_str(s->id), s->at_ms, &s->err);
}

static void seen_done(tci_host_op *op)
{
    seen_op *s = TCI_CONTAINER(op, seen_op, op);
    if (s->rc < 0)
        tci_host_trouble(op->host, &s->err);
    tci_free(s);
}

static void note_seen(const tci_host_linked *l)
{
    seen_op *s = l->host->nwaiting < TCI_HOST_WAITING_MAX ? tci_new(seen_op) : NULL;
    if (s == NULL)
        return; /* the next one will be noted */
    s->op = (tci_host_op){.work = seen_work, .done = seen_done};
    memcpy(s->id, l->id, sizeof s->id);
    s->at_ms = tci_host_now_ms();
    tci_host_do(l->host, &s->op);
}

static void on_seen_timer(tci_timer *timer)
{
    tc_err err;
    tci_host *h = TCI_CONTAINER(timer, tci_host, seen_timer);
    TCI_LIST_EACH (&h->linked, k)
        note_seen(TCI_CONTAINER(k, tci_host_linked, link));
    if (tci_timer_start(timer, SEEN_EVERY_MS, &err) < 0)
        tci_host_trouble(h, &err);
}

int tci_host_links_start(tci_host *h, tc_err *err)
{
    tci_timer_init(&h->seen_timer, h->loop, on_seen_timer);
    return tci_timer_start(&h->seen_timer, SEEN_EVERY_MS, err);
}

void tci_host_links_stop(tci_host *h)
{
    if (h->seen_timer.loop != NULL)
        tci_timer_stop(&h->seen_timer);
}

/* ---- linking ---- */

bool tci_host_connect_check(tci_host_req *r)
{
    tc_err err;
    tc_str value, credential;
    const tci_http_head *head = tci_httpd_head(r->request);
    if (!head->is_upgrade) {
        tci_host_answer_error(r, 426, "upgrade_required", TC_STR("this is a WebSocket"));
        return false;
    }
    if (!tci_host_authorization(r, &value) || tci_pair_read_bearer(value, &credential, &err) < 0) {
        tci_host_answer_error(r, 401, "unauthenticated",
                              TC_STR("the device's credential is needed"));
        return false;
    }
    r->digest = tci_digest_of(credential);
    return true;
}

int tci_host_connect_work(tci_host_req *r, tc_err *err)
{
    int rc = tci_host_admit(r->host->db, r->id, &r->digest, &r->arena, &r->device, err);
    return rc == 0 ? tci_host_seen(r->host->db, r->id, tci_host_now_ms(), err) : rc;
}

static void on_link_end(void *user, int code, const tc_err *err)
{
    tci_host_linked *l = user;
    tci_host *h = l->host;
    TCI_UNUSED(code); /* it dials again, or it does not */
    TCI_UNUSED(err);
    tci_link_remove(&l->link);
    note_seen(l);
    tci_free(l);
    tci_host_links_ended(h);
}

void tci_host_connect_answer(tci_host_req *r)
{
    tc_err err;
    tci_host *h = r->host;
    tci_httpd_req *request = r->request;
    if (request == NULL)
        return;
    tci_host_linked *l = tci_new(tci_host_linked);
    if (l == NULL || r->device.id.len >= sizeof l->id ||
        r->device.device_id.len >= sizeof l->device_id) {
        tci_free(l);
        tci_host_answer_error(r, 500, "internal", TC_STR("out of memory"));
        return;
    }
    l->host = h;
    memcpy(l->id, r->device.id.ptr, r->device.id.len);
    memcpy(l->device_id, r->device.device_id.ptr, r->device.device_id.len);
    tci_httpd_set_data(request, NULL); /* the registry answers it, or has it taken */
    r->request = NULL;
    if (tci_connections_upgrade(h->connections, request, tci_str(l->device_id), on_link_end, l,
                                &err) < 0) {
        tci_free(l);
        return;
    }
    tci_list_push_back(&h->linked, &l->link);
}

void tci_host_unlink(tci_host *h, tc_str id)
{
    tc_err why;
    tci_host_linked *l = find(h, id);
    if (l == NULL)
        return;
    (void)tc_err_set(&why, TC_E_DENIED, "this device's connection was revoked");
    (void)tci_connections_end(h->connections, tci_str(l->device_id), &why); /* it may be ending */
}
