/* SPDX-License-Identifier: Apache-2.0
 *
 * One reverse WebSocket connection as a carrier: text is control, binary is data frames. Leaves dialling and
 * the end of the daemon to carrier_ws.c, the connection to net/ws.h. Loop thread.
 *
 * Invariant: when the connection ends, in this order: nothing is queued any more (ws did that), answers are
 * dropped, sessions have no owner; requests in flight hold what is left until they are done. */
#include "base/log.h"
#include "daemon/carrier/carrier_ws_int.h"
#include "daemon/req.h"

/* A data frame on its way: what the connection needs beside the frame. */
typedef struct queued {
    tci_ws_out out;
    tci_link link; /* the link's frames */
    tci_out_frame *frame;
} queued;

/* ---- sending ---- */

static void check_pace(tci_ws_link *l)
{
    bool is_behind = tci_carrier_is_behind(&l->base);
    if (l->ws == NULL || is_behind == l->is_paused)
        return;
    l->is_paused = is_behind;
    if (is_behind)
        tci_ws_pause(l->ws);
    else
        tci_ws_resume(l->ws);
}

/* Without memory for an answer its sender would wait for ever: the connection ends, and both begin anew. */
static void give_up(tci_ws_link *l)
{
    if (l->ws != NULL)
        tci_ws_close(l->ws, TCI_WS_CODE_INTERNAL, TC_STR(""));
}

static void reply(tci_carrier *c, void *reply_to, bool is_refused, tci_buf *body)
{
    tc_err err;
    tci_ws_link *l = TCI_CONTAINER(c, tci_ws_link, base);
    TCI_UNUSED(reply_to);
    TCI_UNUSED(is_refused);
    if (l->ws == NULL)
        return;
    if (body == NULL || !tci_buf_ok(body) || tci_ws_send_own(l->ws, TCI_WS_TEXT, body, &err) < 0)
        give_up(l);
    else
        check_pace(l);
}

static void frame_done(tci_ws_out *out, bool was_sent)
{
    queued *q = TCI_CONTAINER(out, queued, out);
    tci_out_frame *f = q->frame;
    tci_link_remove(&q->link);
    tci_free(q);
    f->on_sent(f, was_sent);
}

static void send_frame(tci_carrier *c, tci_out_frame *f)
{
    tci_ws_link *l = TCI_CONTAINER(c, tci_ws_link, base);
    queued *q = l->ws != NULL ? tci_new(queued) : NULL;
    if (q == NULL) {
        give_up(l);
        f->on_sent(f, false);
        return;
    }
    /* A block is filled anew before it is sent again; its window bounds it. */
    q->out = (tci_ws_out){.kind = TCI_WS_BINARY,
                          .parts = {{f->bytes, f->len}},
                          .nparts = 1,
                          .may_overwrite = true,
                          .is_uncounted = f->owner != NULL,
                          .on_done = frame_done};
    q->frame = f;
    tci_list_push_back(&l->frames, &q->link);
    tci_ws_send(l->ws, &q->out);
    check_pace(l);
}

static void keep(tci_carrier *c, char *block, size_t size)
{
    tci_ws_link *l = TCI_CONTAINER(c, tci_ws_link, base);
    if (l->ws != NULL)
        tci_ws_keep(l->ws, block, size);
    else
        tci_free(block);
}

void tci_ws_link_let_go(tci_ws_link *l)
{
    TCI_LIST_EACH (&l->frames, k) {
        queued *q = TCI_CONTAINER(k, queued, link);
        if (q->frame->owner != NULL)
            (void)tci_ws_take_back(l->ws, &q->out); /* without memory it is waited for */
    }
}

/* ---- receiving ---- */

/* The first message: it must be initialize, and succeed. */
static void take_first(tci_ws_link *l, tci_ws_kind kind, tc_str bytes, char *own)
{
    if (kind != TCI_WS_TEXT) {
        tci_free(own);
        tci_ws_carrier_fail(l->service, "initialize must be the first EIP WebSocket message");
        return;
    }
    tci_timer_stop(&l->limit);
    tci_dispatch(&l->base, NULL, bytes, own);
    if (!l->base.is_initialized && l->ws != NULL)
        tci_ws_close(l->ws, TCI_WS_CODE_POLICY, TC_STR("")); /* after the answer that says why */
    if (l->base.is_initialized && l->service != NULL)
        l->service->has_complained = false;
}

static void on_message(tci_ws *ws, tci_ws_kind kind, tc_str bytes, char *own)
{
    tc_err err;
    tci_ws_carrier *s = tci_ws_user(ws);
    tci_ws_link *l = s->link;
    if (l == NULL || s->is_stopping || s->is_draining) {
        tci_free(own);
        return;
    }
    (void)tci_carrier_ref(&l->base);
    if (!l->base.is_initialized)
        take_first(l, kind, bytes, own);
    else if (kind == TCI_WS_TEXT)
        tci_dispatch(&l->base, NULL, bytes, own);
    else if (tci_carrier_take_data(&l->base, bytes, own, &err) == TC_E_PROTOCOL)
        tci_ws_carrier_fail(s, "invalid EIP WebSocket data frame");
    else
        check_pace(l);
    tci_carrier_unref(&l->base);
}

/* ---- requests of a lost connection ---- */

/* Changes of files that have begun run to their end, and keep their evidence; so does what cleans up. */
static bool goes_on(const tci_req *r)
{
    const tci_method *m = r->method;
    return r->is_closing || m->lane == TCI_LANE_CLEANUP ||
           (m->replay == TCI_REPLAY_TERMINAL && m->family != TCI_FAMILY_COMMAND);
}

static tci_req *next_of(tci_list *requests, const tci_carrier *c)
{
    TCI_LIST_EACH (requests, k) {
        tci_req *r = TCI_CONTAINER(k, tci_req, link);
        if (r->carrier == c && !goes_on(r) && !atomic_load(&r->cancel.is_cancelled))
            return r;
    }
    return NULL;
}

static tci_req *next_in_flight(tci_device *d, const tci_carrier *c)
{
    tci_req *r = next_of(&d->requests, c);
    if (r != NULL)
        return r;
    TCI_LIST_EACH (&d->session_list, k) {
        r = next_of(&TCI_CONTAINER(k, tci_session, link)->requests, c);
        if (r != NULL)
            return r;
    }
    return NULL;
}

void tci_ws_link_forget(tci_ws_link *l)
{
    tci_timer_stop(&l->limit);
    tci_link_remove(&l->link);
    for (tci_req *r; (r = next_in_flight(l->base.device, &l->base)) != NULL;)
        tci_req_cancel(r);
    tci_carrier_unref(&l->base);
}

/* ---- life ---- */

static void on_limit(tci_timer *t)
{
    tci_ws_link *l = TCI_CONTAINER(t, tci_ws_link, limit);
    if (l->ws != NULL)
        tci_ws_close(l->ws, TCI_WS_CODE_POLICY, TC_STR("")); /* nobody said initialize */
    else
        tci_ws_link_forget(l);
}

static void detach_sessions(tci_ws_link *l)
{
    TCI_LIST_EACH (&l->base.device->session_list, k) {
        tci_session *session = TCI_CONTAINER(k, tci_session, link);
        if (session->owner == &l->base)
            tci_session_detach(session);
    }
}

/* The link is lost to its service; the service goes on without it. */
static void lose(tci_ws_link *l)
{
    tc_err err;
    tci_ws_carrier *s = l->service;
    l->ws = NULL;
    l->service = NULL;
    l->base.is_closed = true;
    s->link = NULL;
    tci_link_remove(&l->base.link); /* it counts as a connection no more */
    detach_sessions(l);
    tci_list_push_back(&s->lost, &l->link);
    if (tci_timer_start(&l->limit, s->options.in_flight_ms, &err) < 0)
        tci_ws_link_forget(l);
}

static void tell_violation(tci_ws_carrier *s, const tci_ws_end *end)
{
    if (end->err.code == TC_E_TOO_BIG)
        tci_ws_carrier_fail(s, "WebSocket message exceeds its EIP limit");
    else
        tci_ws_carrier_fail(s, "reverse WebSocket peer violated the carrier profile (%s)",
                            end->err.msg);
}

static void on_end(tci_ws *ws, const tci_ws_end *end)
{
    tci_ws_carrier *s = tci_ws_user(ws);
    tci_ws_link *l = s->link;
    int64_t lived_ms = tci_loop_now_ms(s->device->loop) - l->since_ms;
    if (l->base.is_initialized && !s->is_draining && !s->is_stopping)
        tci_log(TCI_LOG_WARN, "the connection to the Host is lost: %s", end->err.msg);
    lose(l);
    if (end->cause == TCI_WS_VIOLATION)
        tell_violation(s, end);
    tci_ws_free(ws);
    tci_ws_carrier_lost(s, lived_ms);
}

const tci_ws_handler tci_ws_link_handler = {.on_message = on_message, .on_end = on_end};

static void link_free(tci_carrier *c)
{
    tci_ws_link *l = TCI_CONTAINER(c, tci_ws_link, base);
    tci_link_remove(&c->link);
    tci_free(l);
}

static const tci_carrier_vtable link_vtable = {reply, send_frame, link_free};

tci_ws_link *tci_ws_link_new(tci_ws_carrier *s, tci_ws *ws)
{
    tc_err err;
    tci_ws_link *l = tci_new(tci_ws_link);
    if (l == NULL)
        return NULL;
    l->base = (tci_carrier){.v = &link_vtable, .device = s->device, .refs = 1, .keep = keep};
    l->service = s;
    l->ws = ws;
    l->since_ms = tci_loop_now_ms(s->device->loop);
    tci_list_init(&l->frames);
    tci_timer_init(&l->limit, s->device->loop, on_limit);
    if (tci_timer_start(&l->limit, s->options.first_message_ms, &err) < 0) {
        tci_free(l);
        return NULL;
    }
    tci_list_push_back(&s->device->carriers, &l->base.link);
    return l;
}
