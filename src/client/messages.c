/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests and answers as whole messages. Leaves transfers to framed_xfer.c and bytes to the link. Loop
 * thread. Invariant: what is said of a request without an answer is what the link knows of its
 * message, once nothing more is handed to the wire. */
#include "client/messages.h"

enum {
    REQUEST_MAX = 16 * 1024 * 1024,
    RESPONSE_MAX = 64 * 1024 * 1024,
    FRAME_MAX = 4 * 1024 * 1024
};

/* ---- in ---- */

void tci_messages_fail(tci_messages *m, tc_err *err)
{
    if (err->code != TC_E_NO_MEMORY) {
        tc_err_recode(err, TC_E_PROTOCOL);
        tc_err_wrap(err, "the daemon broke the protocol");
    }
    tci_conn_fail(&m->base, err);
}

int tci_messages_data_own(tci_messages *m, tc_str bytes, tci_block *block, tc_err *err)
{
    tci_eipd frame;
    int rc = tci_eipd_decode(bytes, &frame, err);
    if (rc < 0) {
        tci_free(block);
        return rc;
    }
    if (block == NULL && frame.payload.len > 0) {
        block = tci_block_new(0, frame.payload.len);
        if (block == NULL)
            return tci_err_no_memory(err);
        memcpy(block->payload, frame.payload.ptr, frame.payload.len);
        block->len = frame.payload.len;
    } else if (block != NULL) {
        block->payload = block->bytes + (frame.payload.ptr - bytes.ptr);
        block->len = frame.payload.len;
    }
    tci_conn_data_own(&m->base, &frame, block);
    return 0;
}

tci_held *tci_held_of(tc_str bytes)
{
    tci_held *h = tci_held_new(bytes.len);
    if (h != NULL && bytes.len > 0)
        memcpy(h->text, bytes.ptr, bytes.len);
    return h;
}

int tci_messages_control_own(tci_messages *m, tci_held *h, tc_err *err)
{
    if (h == NULL)
        return tci_err_no_memory(err);
    tci_conn_reply_own(&m->base, h, NULL);
    return 0;
}

/* ---- out ---- */

void tci_messages_put(tci_messages *m, tci_out *out)
{
    out->nbytes = 0;
    out->nsent = 0;
    out->carried = NULL;
    for (unsigned i = 0; i < out->nparts; i++)
        out->nbytes += out->parts[i].len;
    m->link->put(m, out);
}

static void request_written(tci_out *out, bool is_written)
{
    tci_pending *p = TCI_CONTAINER(out, tci_pending, out);
    p->is_written = is_written;
    p->is_busy = false;
    if (p->is_orphan)
        tci_pending_release(p);
}

static void send_request(tci_conn *c, tci_pending *p)
{
    tci_messages *m = tci_messages_of(c);
    p->conn = c;
    p->out = (tci_out){.is_control = true, .done = request_written};
    if (m->link->has_heads) {
        size_t head = tci_frames_put_head(p->head, TCI_FRAME_CONTROL, p->request.len);
        p->out.parts[p->out.nparts++] = (tci_iovec){p->head, head};
    }
    p->out.parts[p->out.nparts++] = (tci_iovec){p->request.ptr, p->request.len};
    p->is_busy = true;
    tci_messages_put(m, &p->out);
}

static tci_progress progress(const tci_pending *p)
{
    tci_messages *m = tci_messages_of(p->conn);
    if (p->is_written)
        return TCI_PROGRESS_ALL;
    return p->is_busy ? m->link->progress(m, &p->out) : TCI_PROGRESS_NONE;
}

static bool is_untouched(const tci_pending *p)
{
    return progress(p) == TCI_PROGRESS_NONE;
}

static bool is_unsent(const tci_pending *p)
{
    return progress(p) != TCI_PROGRESS_ALL;
}

static bool abandon(tci_conn *c, tci_pending *p)
{
    tci_messages *m = tci_messages_of(c);
    if (!is_untouched(p) || (p->is_busy && !m->link->take_back(m, &p->out)))
        return false; /* its answer is still awaited, by nobody */
    tc_err err;
    tc_err_set(&err, TC_E_CANCELLED, "taken back");
    tci_conn_end_pending(c, p, &err, true);
    return true;
}

static void halt(tci_conn *c)
{
    tci_messages *m = tci_messages_of(c);
    if (m->link->halt != NULL)
        m->link->halt(m);
}

static void stop(tci_conn *c)
{
    tci_messages *m = tci_messages_of(c);
    m->link->stop(m);
}

static void free_messages(tci_conn *c)
{
    tci_messages *m = tci_messages_of(c);
    m->link->free(m);
}

static const tci_conn_vtable vtable = {
    .send = send_request,
    .abandon = abandon,
    .is_untouched = is_untouched,
    .is_unsent = is_unsent,
    .xfer_start = tci_framed_xfer_start,
    .xfer_give = tci_framed_xfer_give,
    .xfer_end = tci_framed_xfer_end,
    .xfer_reset = tci_framed_xfer_reset,
    .xfer_forget = tci_framed_xfer_forget,
    .halt = halt,
    .stop = stop,
    .free = free_messages,
};

/* ---- opening ---- */

void tci_conn_set_limits(tci_conn *c, const tc_device_options *o)
{
    atomic_store(&c->max_request_bytes,
                 o->max_request_bytes > 0 ? o->max_request_bytes : REQUEST_MAX);
    atomic_store(&c->max_response_bytes,
                 o->max_response_bytes > 0 ? o->max_response_bytes : RESPONSE_MAX);
    atomic_store(&c->max_frame_bytes, o->max_frame_bytes > 0 ? o->max_frame_bytes : FRAME_MAX);
}

void tci_messages_init(tci_messages *m, const tci_message_link *link, tc_runtime *rt,
                       const tc_device_options *options)
{
    tci_conn_init(&m->base, &vtable, rt);
    tci_conn_set_limits(&m->base, options);
    m->link = link;
}
