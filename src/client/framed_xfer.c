/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers over data messages: attaching, the window of eight chunks, credit, ends and resets.
 * Leaves content and digests to the caller's side (xfer.c). Loop thread. Invariant: a frame that
 * does not fit the state ends the session, since nothing after it can be trusted. */
#include "client/messages.h"

/* A frame without payload, made and freed here. */
typedef struct small_frame {
    tci_out out;
    char head[TCI_FRAMES_PUT_MAX];
    char bytes[];
} small_frame;

static void small_done(tci_out *out, bool is_written)
{
    TCI_UNUSED(is_written);
    tci_free(TCI_CONTAINER(out, small_frame, out));
}

static void put_small(tci_xfer *x, tci_eipd_kind kind, tci_eipd_status status, uint64_t offset)
{
    tci_eipd data = {
        .kind = kind,
        .status = status,
        .offset = offset,
        .session = x->sess->id,
        .handle = x->handle,
    };
    size_t len = tci_eipd_head_len(&data);
    small_frame *s = tci_mem_alloc(sizeof *s + len);
    if (s == NULL) {
        tc_err err;
        tci_err_no_memory(&err);
        tci_xfer_fail(x, &err);
        return;
    }
    tci_eipd_put_head(&data, s->bytes);
    tci_messages *m = tci_messages_of(x->conn);
    s->out = (tci_out){.done = small_done};
    if (m->link->has_heads) {
        size_t head = tci_frames_put_head(s->head, TCI_FRAME_DATA, len);
        s->out.parts[s->out.nparts++] = (tci_iovec){s->head, head};
    }
    s->out.parts[s->out.nparts++] = (tci_iovec){s->bytes, len};
    tci_messages_put(m, &s->out);
}

void tci_framed_xfer_start(tci_xfer *x)
{
    x->state = TCI_XFER_ATTACHING;
    put_small(x, TCI_EIPD_ATTACH, TCI_EIPD_STATUS_NONE, 0);
}

/* ---- sending chunks ---- */

static void credit_up_to(tci_xfer *x, uint64_t end)
{
    x->credit_due = 0;
    for (;;) {
        tci_block *b = TCI_CONTAINER(tci_list_pop_front(&x->sent), tci_block, link);
        x->credited = b->offset + b->len;
        tci_xfer_deliver(x, b);
        if (x->credited == end)
            return;
    }
}

/* It is given back at its credit, or when the transfer is over. */
static void chunk_done(tci_out *out, bool is_written)
{
    TCI_UNUSED(is_written);
    tci_block *b = TCI_CONTAINER(out, tci_block, out);
    b->is_out = false;
    if (b->xfer == NULL)
        tci_free(b); /* the transfer is over */
    else if (b->xfer->credit_due != 0 && b->xfer->credit_due == b->offset + b->len)
        credit_up_to(b->xfer, b->xfer->credit_due);
}

static void send_chunk(tci_xfer *x, tci_block *b)
{
    tci_eipd data = {
        .kind = TCI_EIPD_CHUNK,
        .offset = x->moved,
        .session = x->sess->id,
        .handle = x->handle,
        .payload = {b->payload, b->len},
    };
    tci_messages *m = tci_messages_of(x->conn);
    size_t frame_head = tci_eipd_head_len(&data), n = 0;
    char head[TCI_FRAMES_PUT_MAX];
    if (m->link->has_heads)
        n = tci_frames_put_head(head, TCI_FRAME_DATA, tci_eipd_frame_len(&data));
    /* Both heads go right in front of the payload: one part. */
    char *at = b->payload - frame_head;
    tci_eipd_put_head(&data, at);
    memcpy(at - n, head, n);
    b->offset = x->moved;
    x->moved += b->len;
    tci_list_push_back(&x->sent, &b->link);
    b->is_out = true;
    b->out = (tci_out){
        .parts = {{at - n, n + frame_head + b->len}},
        .nparts = 1,
        .done = chunk_done,
    };
    tci_messages_put(m, &b->out);
}

void tci_framed_xfer_give(tci_xfer *x, tci_block *b)
{
    if (!x->is_read && x->state == TCI_XFER_OPEN) {
        send_chunk(x, b);
        return;
    }
    if (x->is_read && x->state == TCI_XFER_OPEN) {
        x->credited = b->offset + b->len;
        for (unsigned i = 0; i < x->nends; i++)
            if (x->ends[i] == x->credited) {
                x->nends -= i + 1;
                memmove(x->ends, x->ends + i + 1, x->nends * sizeof x->ends[0]);
                break;
            }
        put_small(x, TCI_EIPD_CREDIT, TCI_EIPD_STATUS_NONE, x->credited);
    }
    tci_free(b);
}

void tci_framed_xfer_end(tci_xfer *x)
{
    if (x->state != TCI_XFER_OPEN)
        return;
    x->state = TCI_XFER_ENDING;
    put_small(x, TCI_EIPD_END, TCI_EIPD_STATUS_NONE, x->moved);
}

void tci_framed_xfer_reset(tci_xfer *x, tci_eipd_status status)
{
    if (x->state == TCI_XFER_FAILED || x->state == TCI_XFER_RESETTING)
        return;
    x->state = TCI_XFER_RESETTING;
    put_small(x, TCI_EIPD_RESET, status, x->is_read ? x->credited : x->moved);
}

/* Let go of chunks; those still being written free themselves. */
void tci_framed_xfer_forget(tci_xfer *x)
{
    for (tci_link *link; (link = tci_list_pop_front(&x->sent)) != NULL;) {
        tci_block *b = TCI_CONTAINER(link, tci_block, link);
        b->xfer = NULL;
        if (!b->is_out)
            tci_free(b);
    }
}

/* ---- receiving ---- */

static const char *got_chunk(tci_xfer *x, const tci_eipd *frame, tci_block *b)
{
    uint64_t end;
    if (!x->is_read || x->state != TCI_XFER_OPEN)
        return "a chunk out of place";
    if (frame->offset != x->moved)
        return "a gap or overlap between chunks";
    if (x->nends == TCI_WINDOW)
        return "more chunks than the window allows";
    if (!tci_add_u64(x->moved, b->len, &end) || end > x->max_bytes)
        return "more bytes than the file has";
    b->xfer = x;
    b->offset = frame->offset;
    x->moved = end;
    x->ends[x->nends++] = end;
    tci_xfer_deliver(x, b);
    return NULL;
}

static const char *got_credit(tci_xfer *x, uint64_t end)
{
    if (x->is_read || (x->state != TCI_XFER_OPEN && x->state != TCI_XFER_ENDING))
        return "credit out of place";
    tci_messages *m = tci_messages_of(x->conn);
    TCI_LIST_EACH (&x->sent, link) {
        const tci_block *b = TCI_CONTAINER(link, tci_block, link);
        if (b->is_out && m->link->progress(m, &b->out) != TCI_PROGRESS_ALL)
            break; /* not even written: it cannot have been received */
        if (b->offset + b->len != end)
            continue;
        if (b->is_out)
            x->credit_due = end; /* its memory is still looked at */
        else
            credit_up_to(x, end);
        return NULL;
    }
    return "credit that is not the end of an outstanding chunk";
}

static const char *got_end(tci_xfer *x, const tci_eipd *frame)
{
    if (!x->is_read || x->state != TCI_XFER_OPEN || frame->offset != x->moved)
        return "an end out of place";
    if (x->nends > 0)
        return "an end before every chunk was credited";
    x->state = TCI_XFER_ENDED;
    tci_xfer_tell(x, &x->is_ended);
    return NULL;
}

static const char *got_end_ack(tci_xfer *x, const tci_eipd *frame)
{
    if (x->is_read || x->state != TCI_XFER_ENDING || frame->offset != x->moved ||
        !tci_list_is_empty(&x->sent))
        return "an acknowledged end out of place";
    x->state = TCI_XFER_ENDED;
    tci_xfer_tell(x, &x->is_ended);
    return NULL;
}

static const char *got_attached(tci_xfer *x)
{
    if (x->state != TCI_XFER_ATTACHING)
        return "a transfer attached out of place";
    x->state = TCI_XFER_OPEN;
    tci_xfer_tell(x, &x->is_attached);
    return NULL;
}

static void got_reset(tci_xfer *x, const tci_eipd *frame)
{
    bool is_echo = x->state == TCI_XFER_RESETTING;
    x->state = TCI_XFER_FAILED;
    x->reset_status = frame->status;
    tci_xfer_tell(x, &x->is_reset);
    if (is_echo)
        return;
    tc_err err;
    tci_xfer_reset_error(frame->status, &err);
    tci_xfer_fail(x, &err);
}

static const char *dispatch(tci_xfer *x, const tci_eipd *frame, tci_block **b)
{
    tci_block *block = *b;
    switch (frame->kind) {
    case TCI_EIPD_CHUNK: {
        const char *wrong = got_chunk(x, frame, block);
        if (wrong == NULL)
            *b = NULL; /* delivered */
        return wrong;
    }
    case TCI_EIPD_CREDIT:
        return got_credit(x, frame->offset);
    case TCI_EIPD_END:
        return got_end(x, frame);
    case TCI_EIPD_END_ACK:
        return got_end_ack(x, frame);
    case TCI_EIPD_ATTACHED:
        return got_attached(x);
    case TCI_EIPD_RESET:
        got_reset(x, frame);
        return NULL;
    case TCI_EIPD_ATTACH:
        break;
    }
    return "a frame that only clients send";
}

void tci_xfer_frame_own(tci_xfer *x, const tci_eipd *frame, tci_block *b)
{
    /* Until our reset is echoed, what was under way still arrives. */
    bool is_late = (x->state == TCI_XFER_RESETTING || x->state == TCI_XFER_FAILED) &&
                   frame->kind != TCI_EIPD_RESET;
    const char *wrong = is_late ? NULL : dispatch(x, frame, &b);
    tci_free(b);
    if (wrong == NULL)
        return;
    tc_err err;
    tc_err_set(&err, TC_E_PROTOCOL, "the daemon broke the protocol: %s", wrong);
    tci_sess *s = x->sess;
    tci_sess_fail(s, &err);
    tci_sess_tell_close(s);
}
