/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames in, frames out, over one stream. Leaves the meaning of control bodies to dispatch.c and of data
 * frames to transfer_frames.c. Loop thread.
 *
 * Reading: one buffer that many small frames are taken from in place; a body that does not fit is
 * gathered in a heap block of its own, which then goes with the request or the chunk.
 * Writing: answers of one turn are gathered and leave in one writev, after the turn. Control goes first,
 * but after eight control frames one data frame has its turn.
 *
 * Invariant: a frame whose first byte was written is at the head of wire until its last byte is. */
#include "daemon/carrier/carrier_stdio.h"

#include "daemon/req.h"
#include "wire/frames.h"

#include <stdio.h>

enum {
    IN_BYTES = 256 * 1024,
    FIRST_FRAME_MS = 30000,
    FLUSH_MS = 1000,
    BATCH_FRAMES = 8,
    BATCH_BYTES = 64 * 1024,
    WIRE_BYTES_MAX = 1024 * 1024,
    OUT_BYTES_MAX = 64 * 1024 * 1024
};

/* What is queued: a batch of control frames in one buffer, or one data frame. */
typedef struct piece {
    tci_link link;
    char head[TCI_FRAMES_PUT_MAX]; /* of a large control frame that has a piece to itself */
    size_t head_len;
    tci_buf bytes;        /* control */
    unsigned nframes;     /* control */
    tci_out_frame *frame; /* data */
    size_t done;          /* bytes written */
} piece;

struct tci_stdio {
    tci_carrier base;
    tci_stream *stream;
    tci_frames frames;
    char *in;
    size_t in_at, in_len; /* what is left of the last read: only while output is full */
    char *body;           /* being gathered; NULL: none */
    size_t body_have;
    tci_list control, data; /* pieces, data as tci_out_frame.link */
    tci_list wire;
    size_t wire_bytes;
    size_t out_bytes;     /* queued answers and frames without payload; what a request can cause */
    unsigned control_run; /* control frames since the last data frame */
    tci_later flush;
    tci_timer limit; /* first frame, then the last flush */
    tci_drain drain;
    bool must_drain, is_draining, is_drained, is_ended;
    int status;
    char message[TC_ERR_MSG_MAX];
    void (*on_end)(void *user, int status, tc_str message);
    void *user;
};

static void update_want(tci_stdio *s);
static void begin_drain(tci_stdio *s);

static size_t piece_len(const piece *p)
{
    return p->frame != NULL ? p->frame->head_len + p->frame->len : p->head_len + p->bytes.len;
}

/* ---- end ---- */

/* The drain begins at the end of the turn: whoever is answering now goes through lists of requests that it
 * would end. */
static void fail(tci_stdio *s, const char *message)
{
    if (s->status == 0) {
        s->status = 1;
        (void)snprintf(s->message, sizeof s->message, "%s", message);
    }
    if (s->is_draining || s->is_ended)
        return;
    s->must_drain = true;
    tci_loop_later(s->base.device->loop, &s->flush);
}

static bool is_stopping(const tci_stdio *s)
{
    return s->must_drain || s->is_draining;
}

static bool is_full(const tci_stdio *s)
{
    return s->out_bytes > OUT_BYTES_MAX || tci_carrier_is_behind(&s->base);
}

/* Blocks of a download are bounded by its window; the rest is caused by what is read. */
static size_t cost_of(const tci_out_frame *f)
{
    return f->owner != NULL ? 0 : sizeof *f + TCI_FRAME_HEADROOM + f->len;
}

static void drop_frame(tci_stdio *s, tci_out_frame *f, bool was_sent)
{
    s->out_bytes -= cost_of(f);
    f->on_sent(f, was_sent);
}

static void drop_piece(tci_stdio *s, piece *p, bool was_sent)
{
    tci_link_remove(&p->link);
    if (p->frame != NULL)
        drop_frame(s, p->frame, was_sent);
    else
        s->out_bytes -= piece_len(p);
    tci_buf_done(&p->bytes);
    tci_free(p);
}

static void drop_output(tci_stdio *s)
{
    for (tci_link *k; (k = tci_list_first(&s->wire)) != NULL;)
        drop_piece(s, TCI_CONTAINER(k, piece, link), false);
    for (tci_link *k; (k = tci_list_first(&s->control)) != NULL;)
        drop_piece(s, TCI_CONTAINER(k, piece, link), false);
    for (tci_link *k; (k = tci_list_pop_front(&s->data)) != NULL;)
        drop_frame(s, TCI_CONTAINER(k, tci_out_frame, link), false);
    s->wire_bytes = 0;
}

static bool has_output(const tci_stdio *s)
{
    return !tci_list_is_empty(&s->wire) || !tci_list_is_empty(&s->control) ||
           !tci_list_is_empty(&s->data);
}

static void end(tci_stdio *s)
{
    if (s->is_ended)
        return;
    s->is_ended = true;
    s->base.is_closed = true;
    tci_timer_stop(&s->limit);
    tci_later_cancel(&s->flush);
    drop_output(s);
    tci_stream_close(s->stream);
    s->stream = NULL;
    void (*on_end)(void *, int, tc_str) = s->on_end;
    void *user = s->user;
    int status = s->status;
    char message[TC_ERR_MSG_MAX];
    memcpy(message, s->message, sizeof message);
    tci_carrier_unref(&s->base);
    on_end(user, status, tci_str(message));
}

static void stdio_free(tci_carrier *c)
{
    tci_stdio *s = TCI_CONTAINER(c, tci_stdio, base);
    tci_link_remove(&c->link);
    tci_free(s->in);
    tci_free(s->body);
    tci_free(s);
}

static void on_drained(tci_drain *drain, bool is_clean)
{
    tc_err err;
    tci_stdio *s = TCI_CONTAINER(drain, tci_stdio, drain);
    s->is_drained = true;
    if (!is_clean)
        fail(s, "Device cleanup incomplete");
    if (!has_output(s) || tci_timer_start(&s->limit, FLUSH_MS, &err) < 0)
        end(s);
}

/* The rest of a block that is on its way, in memory of the carrier's own. Without memory the transfer waits
 * for it. */
static void take_over(tci_stdio *s, piece *p)
{
    size_t len = piece_len(p);
    tci_out_frame *f = p->frame;
    tci_buf_init(&p->bytes, TCI_BUF_MAX);
    tci_buf_append(&p->bytes, f->bytes - f->head_len + p->done, len - p->done);
    if (!tci_buf_ok(&p->bytes))
        return;
    s->wire_bytes -= p->done;
    p->frame = NULL;
    p->done = 0;
    s->out_bytes += piece_len(p);
    f->on_sent(f, false);
}

/* Downloads end with the drain: their sessions must not wait for a client that does not read. */
static void let_blocks_go(tci_stdio *s)
{
    TCI_LIST_EACH (&s->data, k) {
        tci_out_frame *f = TCI_CONTAINER(k, tci_out_frame, link);
        if (f->owner == NULL)
            continue;
        tci_link_remove(k);
        f->on_sent(f, false);
    }
    TCI_LIST_EACH (&s->wire, k) {
        piece *p = TCI_CONTAINER(k, piece, link);
        if (p->frame == NULL || p->frame->owner == NULL)
            continue;
        if (p->done > 0) {
            take_over(s, p);
            continue;
        }
        s->wire_bytes -= piece_len(p);
        drop_piece(s, p, false);
    }
}

static void begin_drain(tci_stdio *s)
{
    if (s->is_draining)
        return;
    s->is_draining = true;
    tci_timer_stop(&s->limit);
    s->drain.done = on_drained;
    update_want(s);
    tci_carrier_ref(&s->base);
    tci_device_drain(s->base.device, &s->drain);
    if (!s->is_ended)
        let_blocks_go(s);
    tci_carrier_unref(&s->base);
}

void tci_stdio_drain(tci_stdio *s)
{
    begin_drain(s);
}

static void on_limit(tci_timer *t)
{
    tci_stdio *s = TCI_CONTAINER(t, tci_stdio, limit);
    if (!s->is_draining) {
        fail(s, "Device initialization timed out");
        return;
    }
    fail(s, "response drain timed out");
    end(s);
}

/* ---- writing ---- */

static void to_wire(tci_stdio *s, piece *p)
{
    tci_list_push_back(&s->wire, &p->link);
    s->wire_bytes += piece_len(p);
}

static bool next_data_to_wire(tci_stdio *s)
{
    tci_link *k = tci_list_first(&s->data);
    piece *p = k != NULL ? tci_new(piece) : NULL;
    if (p == NULL)
        return false; /* without memory it stays queued until a later turn */
    tci_link_remove(k);
    p->frame = TCI_CONTAINER(k, tci_out_frame, link);
    to_wire(s, p);
    s->control_run = 0;
    return true;
}

/* Move what goes next to the wire, in the order of priority. */
static void fill_wire(tci_stdio *s)
{
    while (s->wire_bytes < WIRE_BYTES_MAX) {
        tci_link *k = tci_list_first(&s->control);
        bool data_due = k == NULL || s->control_run >= BATCH_FRAMES;
        if (data_due && next_data_to_wire(s))
            continue;
        if (k == NULL)
            return;
        piece *p = TCI_CONTAINER(k, piece, link);
        tci_link_remove(k);
        s->control_run += p->nframes;
        to_wire(s, p);
    }
}

/* The parts of a piece that are still to be written: at most two. */
static size_t piece_parts(const piece *p, tci_iovec v[2])
{
    size_t n = 0;
    const char *bytes = p->frame != NULL ? p->frame->bytes - p->frame->head_len : p->bytes.ptr;
    size_t done = p->done;
    if (done < p->head_len) {
        v[n++] = (tci_iovec){p->head + done, p->head_len - done};
        done = p->head_len;
    }
    v[n++] = (tci_iovec){bytes + (done - p->head_len), piece_len(p) - done};
    return n;
}

static size_t gather(const tci_stdio *s, tci_iovec v[TCI_IOVEC_MAX])
{
    size_t n = 0;
    TCI_LIST_EACH (&s->wire, k) {
        n += piece_parts(TCI_CONTAINER(k, piece, link), v + n);
        if (n > TCI_IOVEC_MAX - 2)
            break;
    }
    return n;
}

static void written(tci_stdio *s, size_t n)
{
    while (n > 0) {
        piece *p = TCI_CONTAINER(tci_list_first(&s->wire), piece, link);
        size_t left = piece_len(p) - p->done;
        if (n < left) {
            p->done += n;
            return;
        }
        n -= left;
        s->wire_bytes -= piece_len(p);
        drop_piece(s, p, true); /* may queue more data */
    }
}

static void flush(tci_stdio *s)
{
    tc_err err;
    tci_iovec v[TCI_IOVEC_MAX];
    while (!s->is_ended) {
        fill_wire(s);
        size_t nv = gather(s, v), n = 0, total = 0;
        if (nv == 0) {
            if (has_output(s))
                fail(s, "out of memory"); /* nothing would come back to what is left */
            break;
        }
        for (size_t i = 0; i < nv; i++)
            total += v[i].len;
        if (tci_stream_writev(s->stream, v, nv, &n, &err) < 0) {
            drop_output(s);
            fail(s, "standard output is closed");
            break;
        }
        written(s, n);
        if (n < total)
            break;
    }
    if (s->is_drained && !has_output(s))
        end(s);
    else
        update_want(s);
}

static void resume(tci_stdio *s);

static void on_flush(tci_later *later)
{
    tci_stdio *s = TCI_CONTAINER(later, tci_stdio, flush);
    tci_carrier_ref(&s->base);
    if (s->must_drain)
        begin_drain(s);
    if (!s->is_ended)
        flush(s);
    resume(s);
    tci_carrier_unref(&s->base);
}

static piece *new_control(tci_stdio *s)
{
    piece *p = tci_new(piece);
    if (p == NULL)
        return NULL;
    tci_buf_init(&p->bytes, TCI_BUF_MAX);
    tci_list_push_back(&s->control, &p->link);
    return p;
}

static piece *open_batch(tci_stdio *s, size_t len)
{
    if (!tci_list_is_empty(&s->control)) {
        piece *p = TCI_CONTAINER(s->control.head.prev, piece, link);
        if (p->head_len == 0 && p->nframes < BATCH_FRAMES && p->bytes.len + len <= BATCH_BYTES)
            return p;
    }
    return new_control(s);
}

/* The whole frame or nothing of it. */
static bool append_frame(tci_buf *to, const char *head, size_t head_len, const tci_buf *body)
{
    size_t before = to->len;
    tci_buf_append(to, head, head_len);
    tci_buf_append(to, body->ptr, body->len);
    if (!tci_buf_ok(to))
        tci_buf_truncate(to, before);
    return tci_buf_ok(to);
}

/* Small answers share a buffer, a large one brings its own. */
static void queue_control(tci_stdio *s, tci_buf *body)
{
    char head[TCI_FRAMES_PUT_MAX];
    size_t len = body->len, head_len = tci_frames_put_head(head, TCI_FRAME_CONTROL, len);
    bool is_large = len > BATCH_BYTES / 2;
    piece *p = is_large ? new_control(s) : open_batch(s, head_len + len);
    if (p == NULL) {
        fail(s, "out of memory");
        return;
    }
    if (is_large) {
        memcpy(p->head, head, head_len);
        p->head_len = head_len;
        p->bytes = *body;
        tci_buf_init(body, body->max);
    } else if (!append_frame(&p->bytes, head, head_len, body)) {
        if (p->bytes.len == 0)
            drop_piece(s, p, false);
        fail(s, "out of memory");
        return;
    }
    p->nframes++;
    s->out_bytes += head_len + len;
}

static void reply(tci_carrier *c, void *reply_to, bool is_refused, tci_buf *body)
{
    tci_stdio *s = TCI_CONTAINER(c, tci_stdio, base);
    TCI_UNUSED(reply_to);
    TCI_UNUSED(is_refused);
    if (s->is_ended)
        return;
    if (body == NULL || !tci_buf_ok(body)) {
        fail(s, "out of memory"); /* an unanswered request would hang its sender */
        return;
    }
    queue_control(s, body);
    tci_loop_later(c->device->loop, &s->flush);
}

static void send_frame(tci_carrier *c, tci_out_frame *f)
{
    tci_stdio *s = TCI_CONTAINER(c, tci_stdio, base);
    if (s->is_ended) {
        f->on_sent(f, false);
        return;
    }
    char head[TCI_FRAMES_PUT_MAX];
    f->head_len = tci_frames_put_head(head, TCI_FRAME_DATA, f->len);
    memcpy(f->bytes - f->head_len, head, f->head_len);
    s->out_bytes += cost_of(f);
    tci_list_push_back(&s->data, &f->link);
    tci_loop_later(c->device->loop, &s->flush);
}

/* ---- reading ---- */

static void after_first(tci_stdio *s)
{
    tci_timer_stop(&s->limit);
    if (!s->base.is_initialized)
        begin_drain(s); /* the answer says why; the end is orderly */
}

/* One whole frame. own: the heap block that body lies in, taken over; NULL: in place. */
static int take_frame(tci_stdio *s, const tci_frame *f, char *own, tc_err *err)
{
    bool is_first = !s->base.is_initialized;
    if (f->kind == TCI_FRAME_CONTROL) {
        tci_dispatch(&s->base, NULL, f->body, own);
        if (is_first)
            after_first(s);
        return 0;
    }
    if (is_first) {
        tci_free(own);
        return tc_err_set(err, TC_E_PROTOCOL, "initialize must be the first frame");
    }
    return tci_carrier_take_data(&s->base, f->body, own, err);
}

static int begin_body(tci_stdio *s, tc_str have, tc_err *err)
{
    s->body = tci_mem_resize(NULL, s->frames.body_len);
    if (s->body == NULL)
        return tci_err_no_memory(err);
    memcpy(s->body, have.ptr, have.len);
    s->body_have = have.len;
    return 0;
}

/* Take all whole frames out of the buffer; what output has no room for stays. */
static int parse(tci_stdio *s, tc_err *err)
{
    while (s->in_at < s->in_len && !is_stopping(s) && !is_full(s)) {
        size_t used;
        tci_frames_event event;
        tci_frame f;
        tc_str in = tci_str_of(s->in + s->in_at, s->in_len - s->in_at);
        if (tci_frames_next(&s->frames, in, &used, &event, &f, err) < 0)
            return err->code;
        s->in_at += used;
        if (event == TCI_FRAMES_FRAME && take_frame(s, &f, NULL, err) < 0)
            return err->code;
        if (event == TCI_FRAMES_PART) {
            if (begin_body(s, tci_str_of(s->in + s->in_at, s->in_len - s->in_at), err) < 0)
                return err->code;
            s->in_at = s->in_len;
        }
    }
    return 0;
}

/* One read. ret_more: there may be more right away. */
static int read_some(tci_stdio *s, bool *ret_more, tc_err *err)
{
    size_t n = 0;
    *ret_more = true;
    if (s->in_at < s->in_len)
        return parse(s, err);
    bool is_body = s->body != NULL;
    char *to = is_body ? s->body + s->body_have : s->in;
    size_t cap = is_body ? s->frames.body_len - s->body_have : IN_BYTES;
    int rc = tci_stream_read(s->stream, to, cap, &n, err);
    *ret_more = n == cap;
    if (rc < 0 || n == 0)
        return rc;
    if (!is_body) {
        s->in_at = 0;
        s->in_len = n;
        return parse(s, err);
    }
    s->body_have += n;
    if (s->body_have < s->frames.body_len)
        return 0;
    tci_frame f;
    char *own = s->body;
    tc_str body = tci_str_of(own, s->body_have);
    s->body = NULL;
    if (tci_frames_body(&s->frames, body, &f, err) < 0) {
        tci_free(own);
        return err->code;
    }
    *ret_more = true;
    return take_frame(s, &f, own, err);
}

static int at_eof(tci_stdio *s, tc_err *err)
{
    if (s->body != NULL)
        return tc_err_set(err, TC_E_PROTOCOL, "EOF inside stdio frame body");
    return tci_frames_eof(&s->frames, err);
}

static void on_readable(tci_stdio *s)
{
    tc_err err;
    bool more = true;
    int rc = 0;
    for (int turns = 0; more && rc == 0 && turns < 16 && !is_stopping(s) && !is_full(s); turns++)
        rc = read_some(s, &more, &err);
    if (rc == TC_E_END)
        rc = at_eof(s, &err) < 0 ? (int)err.code : TC_E_END;
    if (rc == TC_E_END)
        begin_drain(s);
    else if (rc < 0)
        fail(s, err.msg);
}

/* No event tells of what was read before. */
static void resume(tci_stdio *s)
{
    if (!s->is_ended && !is_stopping(s) && !is_full(s) && s->in_at < s->in_len)
        on_readable(s);
}

static void on_ready(tci_stream *stream, unsigned events)
{
    tci_stdio *s = stream->user;
    tci_carrier_ref(&s->base);
    if ((events & TCI_WATCH_READ) != 0 && !is_stopping(s))
        on_readable(s);
    if (!s->is_ended && (events & TCI_WATCH_WRITE) != 0)
        flush(s);
    resume(s);
    if (!s->is_ended)
        update_want(s);
    tci_carrier_unref(&s->base);
}

static void update_want(tci_stdio *s)
{
    tc_err err;
    unsigned events = 0;
    if (s->is_ended)
        return;
    if (!is_stopping(s) && !is_full(s))
        events |= TCI_WATCH_READ;
    if (!tci_list_is_empty(&s->wire))
        events |= TCI_WATCH_WRITE;
    if (tci_stream_want(s->stream, events, &err) < 0)
        fail(s, err.msg);
}

static const tci_carrier_vtable stdio_vtable = {reply, send_frame, stdio_free};

int tci_stdio_serve(tci_device *device, tci_stream *stream,
                    void (*on_end)(void *user, int status, tc_str message), void *user,
                    tci_stdio **ret, tc_err *err)
{
    const tci_limits *l = &device->config->limits;
    tci_stdio *s = tci_new(tci_stdio);
    char *in = tci_mem_resize(NULL, IN_BYTES);
    if (s == NULL || in == NULL) {
        tci_free(s);
        tci_free(in);
        return tci_err_no_memory(err);
    }
    s->base = (tci_carrier){.v = &stdio_vtable, .device = device, .refs = 1};
    s->stream = stream;
    s->in = in;
    s->on_end = on_end;
    s->user = user;
    tci_frames_init(&s->frames, l->max_request_bytes, l->max_transfer_frame_bytes);
    tci_list_init(&s->control);
    tci_list_init(&s->data);
    tci_list_init(&s->wire);
    s->flush.cb = on_flush;
    tci_timer_init(&s->limit, device->loop, on_limit);
    stream->user = s;
    stream->on_ready = on_ready;
    if (tci_timer_start(&s->limit, FIRST_FRAME_MS, err) < 0 ||
        tci_stream_want(stream, TCI_WATCH_READ, err) < 0) {
        tci_timer_stop(&s->limit);
        stdio_free(&s->base);
        return err->code;
    }
    tci_list_push_back(&device->carriers, &s->base.link);
    *ret = s;
    return 0;
}
