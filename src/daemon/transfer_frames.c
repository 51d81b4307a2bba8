/* SPDX-License-Identifier: Apache-2.0
 *
 * The data-frame front end of transfers: turns frames into calls and events into frames. Keeps no
 * state of its own but the carrier pointer in front_state.
 *
 * Invariant: every frame that cannot be served is answered by one RESET, except for transfers that
 * have ended, which stay silent. */
#include "daemon/transfer_frames.h"

#include "daemon/device.h"
#include "daemon/transfer.h"

/* ---- sending ---- */

static void free_frame(tci_out_frame *f, bool was_sent)
{
    TCI_UNUSED(was_sent);
    tci_free(f);
}

/* A frame without payload. Without memory nothing is sent: the peer's deadline ends the transfer. */
static void send(tci_carrier *c, tc_str session, tc_str handle, tci_eipd_kind kind,
                 tci_eipd_status status, uint64_t offset)
{
    tci_eipd e = {
        .kind = kind, .status = status, .offset = offset, .session = session, .handle = handle};
    tci_out_frame *f = tci_mem_alloc(sizeof *f + TCI_FRAME_HEADROOM + tci_eipd_head_len(&e));
    if (f == NULL)
        return;
    f->bytes = (char *)(f + 1) + TCI_FRAME_HEADROOM;
    f->len = tci_eipd_put_head(&e, f->bytes);
    f->on_sent = free_frame;
    c->v->send_frame(c, f);
}

static void send_of(tci_transfer *t, tci_eipd_kind kind, tci_eipd_status status, uint64_t offset)
{
    tci_carrier *c = t->front_state;
    if (!c->is_closed)
        send(c, t->session->id, t->handle, kind, status, offset);
}

static void block_sent(tci_out_frame *f, bool was_sent)
{
    tci_block *b = TCI_CONTAINER(f, tci_block, frame);
    tci_transfer *t = f->owner;
    TCI_UNUSED(was_sent); /* a lost link ends the transfer through its session */
    tci_reader_sent(t, b);
}

static void on_block(tci_transfer *t, tci_block *b)
{
    tci_carrier *c = t->front_state;
    tci_eipd e = {.kind = TCI_EIPD_CHUNK,
                  .offset = b->offset,
                  .session = t->session->id,
                  .handle = t->handle,
                  .payload = tci_str_of(b->payload, b->len)};
    size_t head = tci_eipd_head_len(&e);
    b->frame.bytes = b->payload - head;
    b->frame.len = head + b->len;
    b->frame.on_sent = block_sent;
    b->frame.owner = t;
    (void)tci_eipd_put_head(&e, b->frame.bytes);
    c->v->send_frame(c, &b->frame);
}

static void on_end(tci_transfer *t)
{
    send_of(t, TCI_EIPD_END, TCI_EIPD_STATUS_NONE, t->produced);
}

static void on_consumed(tci_transfer *t, tci_chunk *chunk)
{
    tci_carrier *c = t->front_state;
    send_of(t, TCI_EIPD_CREDIT, TCI_EIPD_STATUS_NONE, chunk->end);
    if (c->keep != NULL && !c->is_closed && chunk->base != NULL) {
        c->keep(c, chunk->base, chunk->base_cap);
        chunk->base = NULL;
    }
    tci_chunk_free(chunk);
}

static void on_sealed(tci_transfer *t)
{
    send_of(t, TCI_EIPD_END_ACK, TCI_EIPD_STATUS_NONE, t->received);
}

static void on_reset(tci_transfer *t, tci_eipd_status status, uint64_t offset)
{
    send_of(t, TCI_EIPD_RESET, status, offset);
}

static const tci_front frame_front = {on_block, on_end, on_consumed, on_sealed, on_reset};

/* ---- receiving ---- */

static int attach(tci_carrier *c, tci_transfer *t, tc_err *err)
{
    if (t->state != TCI_TRANSFER_OPEN)
        return tc_err_set(err, TC_E_PROTOCOL, "attached before");
    send(c, t->session->id, t->handle, TCI_EIPD_ATTACHED, TCI_EIPD_STATUS_NONE, 0);
    return tci_transfer_attach(t, &frame_front, c, err);
}

static int push(tci_transfer *t, const tci_eipd *e, char *own, size_t own_cap, tc_err *err)
{
    tci_chunk *chunk = tci_new(tci_chunk);
    if (chunk == NULL) {
        tci_free(own);
        return tci_err_no_memory(err);
    }
    chunk->base = own;
    chunk->base_cap = own_cap;
    chunk->payload = e->payload;
    return tci_writer_push_own(t, e->offset, chunk, err);
}

/* A RESET that waits for the stage file to go: who hears of a reset finds no leftover. */
typedef struct late_reset {
    tci_release_wait wait;
    tci_carrier *carrier; /* referenced */
    tci_eipd_status status;
    uint64_t offset;
} late_reset;

static void tell_late(tci_release_wait *w, tci_transfer *t)
{
    late_reset *l = TCI_CONTAINER(w, late_reset, wait);
    if (!l->carrier->is_closed)
        send(l->carrier, t->session->id, t->handle, TCI_EIPD_RESET, l->status, l->offset);
    tci_carrier_unref(l->carrier);
    tci_free(l);
}

/* Without memory the RESET goes at once. */
static void tell_reset(tci_carrier *c, tci_transfer *t, tci_eipd_status status, uint64_t offset)
{
    late_reset *l = NULL;
    if (t->is_writer && tci_transfer_is_releasing(t))
        l = tci_new(late_reset);
    if (l == NULL) {
        send(c, t->session->id, t->handle, TCI_EIPD_RESET, status, offset);
        return;
    }
    *l = (late_reset){.wait.on_released = tell_late,
                      .carrier = tci_carrier_ref(c),
                      .status = status,
                      .offset = offset};
    tci_transfer_when_released(t, &l->wait);
}

static void peer_reset(tci_carrier *c, tci_transfer *t, tci_eipd_status status)
{
    uint64_t progress = tci_transfer_progress(t);
    /* Nobody attached yet: the echo still has to find its way. */
    if (tci_transfer_reset(t, status, progress, false))
        tell_reset(c, t, status, progress);
}

static bool is_silent(const tci_transfer *t, const tci_eipd *e)
{
    if (t->state < TCI_TRANSFER_ENDED)
        return false;
    if (t->is_closed)
        return e->kind == TCI_EIPD_CREDIT || e->kind == TCI_EIPD_RESET;
    if (t->is_writer)
        return t->state == TCI_TRANSFER_RESET ||
               (t->state >= TCI_TRANSFER_COMMITTING && e->kind == TCI_EIPD_RESET);
    return t->state == TCI_TRANSFER_RESET &&
           (e->kind == TCI_EIPD_CREDIT || e->kind == TCI_EIPD_RESET);
}

static void receive_for(tci_carrier *c, tci_transfer *t, const tci_eipd *e, char *own,
                        size_t own_cap)
{
    tc_err err;
    int rc;
    if (is_silent(t, e)) {
        tci_free(own);
        return;
    }
    if (e->kind == TCI_EIPD_RESET) {
        peer_reset(c, t, e->status);
        tci_free(own);
        return;
    }
    if (e->kind == TCI_EIPD_ATTACH)
        rc = attach(c, t, &err);
    else if (e->kind == TCI_EIPD_CREDIT && !t->is_writer)
        rc = tci_reader_credit(t, e->offset, &err);
    else if (e->kind == TCI_EIPD_END && t->is_writer)
        rc = tci_writer_end(t, e->offset, &err);
    else if (e->kind == TCI_EIPD_CHUNK && t->is_writer) {
        rc = push(t, e, own, own_cap, &err);
        own = NULL;
    } else
        rc = tc_err_set(&err, TC_E_PROTOCOL, "not a frame for this transfer");
    tci_free(own);
    if (rc == 0)
        return;
    tci_eipd_status status = rc == TC_E_PROTOCOL ? TCI_EIPD_STATUS_PROTOCOL
                             : rc == TC_E_QUOTA  ? TCI_EIPD_STATUS_LIMIT
                                                 : TCI_EIPD_STATUS_INTERNAL;
    (void)tci_transfer_reset(t, status, e->offset, false);
    tell_reset(c, t, status, e->offset);
}

void tci_frames_receive(tci_carrier *c, const tci_eipd *e, char *own, size_t own_cap)
{
    tci_session *s = tci_session_find(c->device, e->session);
    if (s == NULL || s->owner != c || s->state != TCI_SESSION_READY) {
        send(c, e->session, e->handle, TCI_EIPD_RESET, TCI_EIPD_STATUS_PROTOCOL, e->offset);
        tci_free(own);
        return;
    }
    tci_transfer *t = tci_transfer_find(s, e->handle);
    if (t == NULL) {
        send(c, e->session, e->handle, TCI_EIPD_RESET, TCI_EIPD_STATUS_DENIED, e->offset);
        tci_free(own);
        return;
    }
    receive_for(c, t, e, own, own_cap);
}
