/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages by a WebSocket of ours, on the runtime's loop: nothing is copied and no thread is needed.
 * Leaves the connection itself to connections_arrival.c. Loop thread. Invariant: once the connection has
 * failed, no message of which nothing is out goes out any more. */
#include "client/connections/connections_int.h"
#include "net/httpd.h"
#include "net/ws.h"

enum { STATUS_LATER = 503 };

typedef struct ws_link {
    tci_arrival arrival;
    tci_ws *ws;     /* NULL once it has ended */
    tci_list outs;  /* of ws_message */
    tci_later fail; /* the failure found while sending */
    tc_err fail_err;
    tci_post gone;
    void (*on_end)(void *user, int code, const tc_err *err);
    void *user;
} ws_link;

typedef struct ws_message {
    tci_ws_out ws;
    tci_link link;
    tci_out *out;
} ws_message;

static ws_link *link_of(tci_messages *m)
{
    return TCI_CONTAINER(tci_arrival_of(m), ws_link, arrival);
}

/* ---- out ---- */

static void on_fail(tci_later *later)
{
    ws_link *l = TCI_CONTAINER(later, ws_link, fail);
    tci_conn_fail(&l->arrival.messages.base, &l->fail_err);
}

static void on_done(tci_ws_out *ws_out, bool was_sent)
{
    ws_message *w = TCI_CONTAINER(ws_out, ws_message, ws);
    tci_out *out = w->out;
    tci_link_remove(&w->link);
    tci_free(w);
    out->carried = NULL;
    out->done(out, was_sent);
}

static void ws_put(tci_messages *m, tci_out *out)
{
    ws_link *l = link_of(m);
    ws_message *w = m->base.is_dead || l->ws == NULL ? NULL : tci_new(ws_message);
    if (w == NULL) {
        if (!m->base.is_dead && l->ws != NULL) {
            tci_err_no_memory(&l->fail_err);
            tci_loop_later(m->base.rt->loop, &l->fail);
        }
        out->done(out, false);
        return;
    }
    w->out = out;
    w->ws = (tci_ws_out){.kind = out->is_control ? TCI_WS_TEXT : TCI_WS_BINARY,
                         .nparts = out->nparts,
                         .on_done = on_done};
    memcpy(w->ws.parts, out->parts, sizeof w->ws.parts);
    out->carried = w;
    tci_list_push_back(&l->outs, &w->link);
    tci_ws_send(l->ws, &w->ws);
}

static tci_progress ws_progress(tci_messages *m, const tci_out *out)
{
    TCI_UNUSED(m);
    const ws_message *w = out->carried;
    /* Of which a part is out, all will be: our closing completes it. */
    return w != NULL && w->ws.done > 0 ? TCI_PROGRESS_ALL : TCI_PROGRESS_NONE;
}

static bool ws_take_back(tci_messages *m, tci_out *out)
{
    ws_message *w = out->carried;
    return w != NULL && w->ws.done == 0 && tci_ws_take_back(link_of(m)->ws, &w->ws);
}

/* ---- in ---- */

static void *own_of(char *own, size_t head)
{
    memset(own, 0, head);
    return own;
}

static tci_held *control_of(tc_str bytes, char *own)
{
    if (own == NULL)
        return tci_held_of(bytes);
    tci_held *h = own_of(own, offsetof(tci_held, text));
    h->len = bytes.len;
    tci_arena_init(&h->arena, 0);
    return h;
}

static tci_block *data_of(tc_str bytes, char *own)
{
    if (own == NULL)
        return NULL; /* copied where it goes */
    tci_block *b = own_of(own, offsetof(tci_block, bytes));
    b->head_cap = bytes.len;
    return b;
}

static void on_message(tci_ws *ws, tci_ws_kind kind, tc_str bytes, char *own)
{
    ws_link *l = tci_ws_user(ws);
    tci_messages *m = &l->arrival.messages;
    tc_err err;
    int rc;
    if (m->base.is_dead) {
        tci_free(own);
        return;
    }
    if (kind == TCI_WS_TEXT) {
        rc = tci_messages_control_own(m, control_of(bytes, own), &err);
    } else {
        tci_block *b = data_of(bytes, own);
        rc = tci_messages_data_own(m, b != NULL ? tci_str_of(b->bytes, bytes.len) : bytes, b, &err);
    }
    if (rc < 0)
        tci_messages_fail(m, &err);
}

/* ---- the end ---- */

static void on_gone(tci_post *post)
{
    ws_link *l = TCI_CONTAINER(post, ws_link, gone);
    tci_arrival_part_done(&l->arrival);
}

static void on_end(tci_ws *ws, const tci_ws_end *end)
{
    ws_link *l = tci_ws_user(ws);
    tci_conn *c = &l->arrival.messages.base;
    tc_err err = end->err;
    tci_ws_free(ws);
    l->ws = NULL;
    tci_loop_post(c->rt->loop, &l->gone);
    if (c->is_dead)
        return;
    if (end->cause == TCI_WS_VIOLATION || err.code == TC_E_NO_MEMORY) {
        if (err.code != TC_E_NO_MEMORY)
            tc_err_recode(&err, TC_E_PROTOCOL);
        tci_conn_fail(c, &err);
        return;
    }
    tc_err_recode(&err, TC_E_CLOSED);
    tci_arrival_lost(&l->arrival, &err);
}

static void ws_halt(tci_messages *m)
{
    ws_link *l = link_of(m);
    TCI_LIST_EACH (&l->outs, link) {
        ws_message *w = TCI_CONTAINER(link, ws_message, link);
        if (w->ws.done == 0)
            (void)tci_ws_take_back(l->ws, &w->ws); /* cannot fail: nothing of it is out */
    }
}

static void ws_stop(tci_messages *m)
{
    ws_link *l = link_of(m);
    if (!tci_arrival_stopping(&l->arrival))
        return;
    tci_later_cancel(&l->fail);
    if (l->ws == NULL)
        return; /* it has ended by itself */
    bool is_plain = l->arrival.is_peer_end;
    tci_ws_close(l->ws, tci_arrival_close_code(&l->arrival),
                 is_plain ? TC_STR("") : tci_str(m->base.fail.msg));
}

static void ws_free(tci_messages *m)
{
    ws_link *l = link_of(m);
    tci_arrival_free_parts(&l->arrival);
    tci_free(l);
}

static void ws_over(tci_arrival *a)
{
    ws_link *l = TCI_CONTAINER(a, ws_link, arrival);
    tc_err err = {0};
    int rc = tci_arrival_result(a, &err);
    if (l->on_end != NULL)
        l->on_end(l->user, rc, &err);
}

static const tci_message_link ws_messages = {
    .put = ws_put,
    .progress = ws_progress,
    .take_back = ws_take_back,
    .halt = ws_halt,
    .stop = ws_stop,
    .free = ws_free,
};

static const tci_ws_handler ws_handler = {.on_message = on_message, .on_end = on_end};

/* ---- beginning ---- */

static int link_new(tc_connections *c, tc_str device_id, ws_link **ret_link, tc_err *err)
{
    ws_link *l = tci_new(ws_link);
    if (l == NULL)
        return tci_err_no_memory(err);
    tci_list_init(&l->outs);
    l->fail.cb = on_fail;
    l->gone.cb = on_gone;
    int rc = tci_arrival_init_own(&l->arrival, &ws_messages, c, device_id, ws_over, err);
    if (rc < 0)
        return rc;
    rc = tci_arrival_reserve(&l->arrival, c, err);
    if (rc < 0) {
        tci_arrival_drop(&l->arrival);
        return rc;
    }
    *ret_link = l;
    return 0;
}

static void answer_later(tci_httpd_req *req)
{
    tc_err err;
    if (tci_httpd_respond(req, STATUS_LATER, NULL, 0, TC_STR(""), &err) < 0)
        return; /* the request is done all the same */
}

/* Its daemon dials again: perhaps because it has seen that this link is dead, and we have not. */
static void probe(tc_connections *c, tc_str device_id)
{
    tci_arrival *a = tci_connections_find(c, device_id);
    if (a == NULL || a->messages.link != &ws_messages || !a->is_begun)
        return;
    ws_link *l = TCI_CONTAINER(a, ws_link, arrival);
    if (l->ws != NULL)
        tci_ws_probe(l->ws, c->times.probe_ms);
}

int tci_connections_upgrade(tc_connections *c, tci_httpd_req *req, tc_str device_id,
                            void (*told)(void *user, int code, const tc_err *err), void *user,
                            tc_err *err)
{
    ws_link *l = NULL;
    tci_loop_assert(c->rt->loop);
    int rc = link_new(c, device_id, &l, err);
    if (rc == TC_E_CONFLICT)
        probe(c, device_id);
    if (rc < 0) {
        answer_later(req);
        return rc;
    }
    const tci_conn *conn = &l->arrival.messages.base;
    tci_ws_options o = {
        .handler = &ws_handler,
        .user = l,
        .max_text_bytes = atomic_load(&conn->max_response_bytes),
        .max_binary_bytes = atomic_load(&conn->max_frame_bytes),
        .headroom = {[TCI_WS_TEXT] = offsetof(tci_held, text),
                     [TCI_WS_BINARY] = offsetof(tci_block, bytes)},
        .ping_interval_ms = c->times.ping_interval_ms,
        .pong_timeout_ms = c->times.pong_timeout_ms,
        .send_timeout_ms = c->times.send_timeout_ms,
    };
    rc = tci_ws_upgrade(req, c->rt->loop, TC_STR(TC_WEBSOCKET_SUBPROTOCOL), &o, &l->ws, err);
    if (rc < 0) {
        tci_arrival_drop(&l->arrival);
        return rc;
    }
    l->on_end = told;
    l->user = user;
    tci_arrival_begin(&l->arrival);
    return 0;
}
