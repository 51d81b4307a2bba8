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
    /* The same credential, while this link was up: */
    int64_t nsecond, second_ms;
    char second_address[TCI_ADDR_TEXT_MAX];
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

/* What is to be written down of one device. */
typedef struct seen_note {
    tci_link link; /* host->unseen, or its op's */
    char id[TCI_RESOURCE_ID_LEN + 1];
    int64_t at_ms;
} seen_note;

/* All that has gathered, in one commit: a thousand devices cost one sync and one place in the queue. */
typedef struct seen_op {
    tci_host_op op;
    tci_list notes;
    int rc;
    tc_err err;
} seen_op;

static int write_notes(tci_host_db *db, tci_list *notes, tc_err *err)
{
    int rc = tci_host_db_begin(db, err);
    for (tci_link *k = tci_list_first(notes); rc == 0 && k != NULL; k = tci_list_next(notes, k)) {
        const seen_note *n = TCI_CONTAINER(k, seen_note, link);
        rc = tci_host_seen(db, tci_str(n->id), n->at_ms, err);
    }
    if (rc == 0)
        rc = tci_host_db_commit(db, err);
    if (rc < 0)
        tci_host_db_rollback(db);
    return rc;
}

static void seen_work(tci_host_op *op)
{
    seen_op *s = TCI_CONTAINER(op, seen_op, op);
    s->rc = write_notes(op->host->db, &s->notes, &s->err);
}

static void write_unseen(tci_host *h);

static void free_notes(tci_list *notes)
{
    for (tci_link *k; (k = tci_list_pop_front(notes)) != NULL;)
        tci_free(TCI_CONTAINER(k, seen_note, link));
}

static void seen_done(tci_host_op *op)
{
    seen_op *s = TCI_CONTAINER(op, seen_op, op);
    tci_host *h = op->host;
    if (s->rc < 0)
        tci_host_trouble(h, &s->err);
    free_notes(&s->notes);
    tci_free(s);
    h->is_noting = false;
    write_unseen(h);
}

static void write_unseen(tci_host *h)
{
    seen_op *s = h->is_noting || tci_list_is_empty(&h->unseen) ? NULL : tci_new(seen_op);
    if (s == NULL)
        return; /* when what is being written is done; without memory, with the next note */
    s->op = (tci_host_op){.work = seen_work, .done = seen_done};
    tci_list_init(&s->notes);
    for (tci_link *k; (k = tci_list_pop_front(&h->unseen)) != NULL;)
        tci_list_push_back(&s->notes, k);
    h->is_noting = true;
    tci_host_do(h, &s->op);
}

static seen_note *note_of(tci_host *h, const char *id)
{
    TCI_LIST_EACH (&h->unseen, k) {
        seen_note *n = TCI_CONTAINER(k, seen_note, link);
        if (strcmp(n->id, id) == 0)
            return n;
    }
    return NULL;
}

/* One note for a device at most: there are never more than devices. */
static void note_seen(const tci_host_linked *l)
{
    tci_host *h = l->host;
    seen_note *n = note_of(h, l->id);
    if (n == NULL) {
        n = tci_new(seen_note);
        if (n == NULL)
            return; /* the next one will be noted */
        memcpy(n->id, l->id, sizeof n->id);
        tci_list_push_back(&h->unseen, &n->link);
    }
    n->at_ms = tci_host_now_ms();
}

static void on_seen_timer(tci_timer *timer)
{
    tc_err err;
    tci_host *h = TCI_CONTAINER(timer, tci_host, seen_timer);
    TCI_LIST_EACH (&h->linked, k)
        note_seen(TCI_CONTAINER(k, tci_host_linked, link));
    write_unseen(h);
    if (tci_timer_start(timer, SEEN_EVERY_MS, &err) < 0)
        tci_host_trouble(h, &err);
}

int tci_host_links_start(tci_host *h, tc_err *err)
{
    tci_timer_init(&h->seen_timer, h->loop, on_seen_timer);
    tci_list_init(&h->unseen);
    return tci_timer_start(&h->seen_timer, SEEN_EVERY_MS, err);
}

void tci_host_links_stop(tci_host *h)
{
    if (h->seen_timer.loop != NULL)
        tci_timer_stop(&h->seen_timer);
    if (h->unseen.head.next != NULL)
        free_notes(&h->unseen);
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
    return tci_host_admit(r->host->db, r->id, &r->digest, &r->arena, &r->device, err);
}

static void on_link_end(void *user, int code, const tc_err *err)
{
    tci_host_linked *l = user;
    tci_host *h = l->host;
    TCI_UNUSED(code); /* it dials again, or it does not */
    TCI_UNUSED(err);
    tci_link_remove(&l->link);
    note_seen(l);
    write_unseen(h);
    tci_host_eip_unlinked(h, tci_str(l->id));
    tci_free(l);
    tci_host_links_ended(h);
}

/* A link that was lost without a word is found dead by its pings, and this goes with it. What stays is somebody
 * with a copy of the device's files. */
static void note_second(tci_host_linked *l, tc_str address)
{
    size_t n = address.len < sizeof l->second_address ? address.len : 0;
    l->nsecond++;
    l->second_ms = tci_host_now_ms();
    memcpy(l->second_address, address.ptr, n);
    l->second_address[n] = '\0';
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
        l = err.code == TC_E_CONFLICT ? find(h, r->device.id) : NULL;
        if (l != NULL)
            note_second(l, r->address);
        return;
    }
    tci_list_push_back(&h->linked, &l->link);
    note_seen(l);
    write_unseen(h);
}

void tci_host_second_links(tci_host *h, tci_host_device *devices, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const tci_host_linked *l = find(h, devices[i].id);
        if (l == NULL || l->nsecond == 0)
            continue;
        devices[i].second_links = l->nsecond;
        devices[i].second_ms = l->second_ms;
        devices[i].second_address = tci_str(l->second_address);
    }
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
