/* SPDX-License-Identifier: Apache-2.0
 *
 * What a WebSocket connection sends: messages of two kinds by priority, control frames between them,
 * masks for a client's frames. Leaves when to close and what was received to ws.c. Loop thread.
 *
 * Invariant: a frame whose first byte was written is current (or urgent) until its last byte is; a
 * message is masked once, when its header is made. */
#include "net/ws_int.h"

#include "base/num.h"
#include "plat/clock.h"

enum { TEXT_RUN_MAX = 8, BATCH_BYTES = 1024 * 1024, MUCH_BYTES = 64 * 1024 };

/* Messages that go out in one write. */
typedef struct batch {
    tci_iovec v[TCI_IOVEC_MAX];
    tci_ws_out *outs[TCI_IOVEC_MAX];
    size_t nv, nouts, nbytes;
} batch;

/* A message whose bytes are the connection's. */
typedef struct own_out {
    tci_ws_out out;
    tci_buf bytes;
} own_out;

static size_t total_of(const tci_ws_out *out)
{
    return out->head_len + out->len;
}

bool tci_ws_has_output(const tci_ws *ws)
{
    return ws->urgent_done < ws->urgent_len || ws->is_ping_due || ws->is_pong_due ||
           !tci_list_is_empty(&ws->lanes[TCI_WS_TEXT]) ||
           !tci_list_is_empty(&ws->lanes[TCI_WS_BINARY]) ||
           (ws->state != TCI_WS_OPEN && !ws->is_close_made);
}

/* ---- masks ---- */

/* Keys nobody can foresee (section 5.3), fetched many at a time. */
static const uint8_t *new_key(tci_ws *ws)
{
    if (ws->nkeys == 0) {
        tci_random_bytes(ws->keys, sizeof ws->keys);
        ws->nkeys = TCI_WS_KEYS;
    }
    return ws->keys[--ws->nkeys];
}

static void mask_parts(tci_ws_out *out)
{
    uint64_t at = 0;
    for (unsigned i = 0; i < out->nparts; i++) {
        char *bytes = (char *)out->parts[i].ptr; /* the owner said that it may be overwritten */
        tci_ws_mask(bytes, bytes, out->parts[i].len, out->mask, at);
        at += out->parts[i].len;
    }
}

/* The parts may not be touched: from here on they are one masked copy, behind the header. */
static bool mask_copy(tci_ws_out *out)
{
    size_t at = 0;
    char *copy = tci_mem_resize(NULL, out->len > 0 ? out->len : 1);
    if (copy == NULL)
        return false;
    for (unsigned i = 0; i < out->nparts; i++) {
        tci_ws_mask(copy + at, out->parts[i].ptr, out->parts[i].len, out->mask, at);
        at += out->parts[i].len;
    }
    out->parts[0] = (tci_iovec){copy, out->len};
    out->nparts = 1;
    out->copy = copy;
    return true;
}

/* Make the header, and mask. False: no memory. */
static bool begin(tci_ws *ws, tci_ws_out *out)
{
    bool is_client = ws->options.role == TCI_WS_CLIENT;
    if (out->is_begun)
        return true;
    if (is_client) {
        memcpy(out->mask, new_key(ws), sizeof out->mask);
        if (out->may_overwrite)
            mask_parts(out);
        else if (!mask_copy(out))
            return false;
    }
    tci_ws_opcode op = out->kind == TCI_WS_TEXT ? TCI_WS_OP_TEXT : TCI_WS_OP_BINARY;
    out->head_len =
        (uint8_t)tci_ws_put_head(out->head, op, true, out->len, is_client ? out->mask : NULL);
    out->is_begun = true;
    return true;
}

/* ---- the end of messages ---- */

static void out_done(tci_ws *ws, tci_ws_out *out, bool was_sent)
{
    tci_link_remove(&out->link);
    if (!out->is_uncounted)
        ws->queued -= out->len;
    tci_free(out->copy);
    out->copy = NULL;
    out->on_done(out, was_sent);
}

static void tell_finished(tci_ws *ws)
{
    for (tci_link *k; (k = tci_list_first(&ws->finished)) != NULL;)
        out_done(ws, TCI_CONTAINER(k, tci_ws_out, link), true);
}

static void drop_lane(tci_ws *ws, tci_ws_kind kind)
{
    for (;;) {
        tci_link *k = tci_list_first(&ws->lanes[kind]);
        if (k != NULL && ws->current != NULL && k == &ws->current->link)
            k = tci_list_next(&ws->lanes[kind], k);
        if (k == NULL)
            return;
        out_done(ws, TCI_CONTAINER(k, tci_ws_out, link), false);
    }
}

void tci_ws_drop(tci_ws *ws, bool with_current)
{
    if (with_current)
        ws->current = NULL;
    tell_finished(ws);
    drop_lane(ws, TCI_WS_TEXT);
    drop_lane(ws, TCI_WS_BINARY);
}

/* ---- control frames ---- */

static void put_control(tci_ws *ws, tci_ws_opcode op, const char *payload, size_t len)
{
    const uint8_t *mask = ws->options.role == TCI_WS_CLIENT ? new_key(ws) : NULL;
    char *at = ws->urgent + ws->urgent_len;
    at += tci_ws_put_head(at, op, true, len, mask);
    if (mask != NULL)
        tci_ws_mask(at, payload, len, mask, 0);
    else if (len > 0)
        memcpy(at, payload, len);
    ws->urgent_len = (size_t)(at - ws->urgent) + len;
}

/* What goes between two messages: made when the last of its kind is out. The close frame ends it all, so it
 * waits until no message is left. */
static void make_urgent(tci_ws *ws)
{
    if (ws->urgent_done < ws->urgent_len || ws->is_close_made)
        return;
    ws->urgent_len = ws->urgent_done = 0;
    if (ws->is_pong_due)
        put_control(ws, TCI_WS_OP_PONG, ws->pong, ws->pong_len);
    if (ws->is_ping_due)
        put_control(ws, TCI_WS_OP_PING, ws->ping, sizeof ws->ping);
    ws->is_ping_in_urgent = ws->is_ping_due;
    ws->is_pong_due = ws->is_ping_due = false;
    bool is_empty =
        tci_list_is_empty(&ws->lanes[TCI_WS_TEXT]) && tci_list_is_empty(&ws->lanes[TCI_WS_BINARY]);
    if (ws->state != TCI_WS_OPEN && is_empty) {
        put_control(ws, TCI_WS_OP_CLOSE, ws->close, ws->close_len);
        ws->is_close_made = true;
    }
}

/* What of the stream's bytes the peer's system has taken. Where nobody knows, all that left ours. */
static uint64_t delivered(const tci_ws *ws)
{
    int64_t unsent = ws->stream != NULL ? tci_stream_unsent(ws->stream) : -1;
    bool is_known = unsent >= 0 && (uint64_t)unsent <= ws->written;
    return is_known ? ws->written - (uint64_t)unsent : ws->written;
}

void tci_ws_look(tci_ws *ws)
{
    uint64_t now = delivered(ws);
    if (now > ws->delivered) {
        ws->delivered = now;
        ws->sent_ns = tci_loop_now_ns(ws->loop);
    }
}

static void ping_written(tci_ws *ws)
{
    ws->ping_end = ws->written;
    ws->is_ping_behind = ws->written - delivered(ws) > MUCH_BYTES;
}

static void urgent_written(tci_ws *ws)
{
    tc_err err;
    if (ws->urgent_done < ws->urgent_len)
        return;
    if (ws->is_ping_in_urgent)
        ping_written(ws);
    if (ws->is_ping_in_urgent && ws->state == TCI_WS_OPEN && ws->options.pong_timeout_ms > 0 &&
        tci_timer_start(&ws->live, ws->options.pong_timeout_ms, &err) < 0)
        tci_ws_fail(ws, TCI_WS_LOST, &err, NULL);
    ws->is_ping_in_urgent = false;
    ws->is_close_sent = ws->is_close_made;
}

/* ---- writing ---- */

static void add_urgent(const tci_ws *ws, batch *b)
{
    size_t len = ws->urgent_len - ws->urgent_done;
    if (len == 0)
        return;
    b->v[b->nv++] = (tci_iovec){ws->urgent + ws->urgent_done, len};
    b->nbytes += len;
}

static void add_part(batch *b, size_t *skip, const void *ptr, size_t len)
{
    if (*skip >= len) {
        *skip -= len;
        return;
    }
    b->v[b->nv++] = (tci_iovec){(const char *)ptr + *skip, len - *skip};
    b->nbytes += len - *skip;
    *skip = 0;
}

static void add_rest(batch *b, tci_ws_out *out)
{
    size_t skip = out->done;
    b->outs[b->nouts++] = out;
    add_part(b, &skip, out->head, out->head_len);
    for (unsigned i = 0; i < out->nparts; i++)
        add_part(b, &skip, out->parts[i].ptr, out->parts[i].len);
}

/* The next after those chosen already: text first, but binary gets its turn. */
static tci_link *pick(tci_ws *ws, tci_link **text, tci_link **binary, unsigned *run)
{
    tci_link *t = *text, *b = *binary;
    if (t != NULL && (b == NULL || *run < TEXT_RUN_MAX)) {
        *text = tci_list_next(&ws->lanes[TCI_WS_TEXT], t);
        (*run)++;
        return t;
    }
    if (b != NULL) {
        *binary = tci_list_next(&ws->lanes[TCI_WS_BINARY], b);
        *run = 0;
    }
    return b;
}

static bool gather(tci_ws *ws, batch *b)
{
    tci_link *text = tci_list_first(&ws->lanes[TCI_WS_TEXT]);
    tci_link *binary = tci_list_first(&ws->lanes[TCI_WS_BINARY]);
    unsigned run = ws->text_run;
    if (ws->current != NULL) {
        add_rest(b, ws->current);
        if (&ws->current->link == text)
            text = tci_list_next(&ws->lanes[TCI_WS_TEXT], text);
        else
            binary = tci_list_next(&ws->lanes[TCI_WS_BINARY], binary);
    }
    make_urgent(ws);
    add_urgent(ws, b);
    while (b->nv + 1 + TCI_WS_PARTS_MAX <= TCI_IOVEC_MAX && b->nbytes < BATCH_BYTES) {
        tci_link *k = pick(ws, &text, &binary, &run);
        if (k == NULL)
            break;
        tci_ws_out *out = TCI_CONTAINER(k, tci_ws_out, link);
        if (!begin(ws, out))
            return false;
        add_rest(b, out);
    }
    return true;
}

/* Take n written bytes off one message; returns what is left of n. */
static size_t account_out(tci_ws *ws, tci_ws_out *out, size_t n)
{
    size_t part = tci_min_size(n, total_of(out) - out->done);
    out->done += part;
    ws->current = out->done < total_of(out) ? out : NULL;
    if (ws->current != NULL)
        return 0;
    ws->text_run = out->kind == TCI_WS_TEXT ? ws->text_run + 1 : 0;
    tci_link_remove(&out->link);
    tci_list_push_back(&ws->finished, &out->link);
    return n - part;
}

/* In the order of gather: the rest of current, urgent, messages. */
static void account(tci_ws *ws, const batch *b, size_t n)
{
    size_t i = 0;
    if (ws->current != NULL) {
        n = account_out(ws, ws->current, n);
        i = 1;
        if (ws->current != NULL)
            return;
    }
    size_t urgent = tci_min_size(n, ws->urgent_len - ws->urgent_done);
    if (urgent > 0) {
        ws->urgent_done += urgent;
        n -= urgent;
        urgent_written(ws);
    }
    for (; i < b->nouts && n > 0; i++)
        n = account_out(ws, b->outs[i], n);
}

static void watch_sending(tci_ws *ws)
{
    tc_err err;
    if (!tci_ws_has_output(ws) || ws->state != TCI_WS_OPEN) {
        tci_timer_stop(&ws->send);
        return;
    }
    if (ws->options.send_timeout_ms > 0 && !tci_timer_is_armed(&ws->send)) {
        tci_ws_look(ws);
        ws->sent_ns = tci_loop_now_ns(ws->loop);
        if (tci_timer_start(&ws->send, ws->options.send_timeout_ms / TCI_WS_SEND_LOOKS + 1, &err) <
            0)
            tci_ws_fail(ws, TCI_WS_LOST, &err, NULL);
    }
}

static void check_room(tci_ws *ws)
{
    if (!ws->is_full || ws->queued > ws->options.max_queued_bytes / 2)
        return;
    ws->is_full = false;
    ws->was_full = true; /* told in tci_ws_leave */
}

void tci_ws_flush(tci_ws *ws)
{
    tc_err err;
    while (!tci_ws_is_over(ws) && tci_ws_has_output(ws)) {
        batch b = {.nv = 0};
        size_t n = 0;
        if (!gather(ws, &b)) {
            tci_err_no_memory(&err);
            tci_ws_fail(ws, TCI_WS_LOST, &err, NULL);
            return;
        }
        if (b.nv == 0)
            break;
        if (tci_stream_writev(ws->stream, b.v, b.nv, &n, &err) < 0) {
            tci_ws_fail(ws, TCI_WS_LOST, &err, "cannot send");
            return;
        }
        if (n > 0)
            ws->sent_ns = tci_loop_now_ns(ws->loop);
        ws->written += n;
        account(ws, &b, n);
        tell_finished(ws);
        if (n < b.nbytes)
            break;
    }
    if (tci_ws_is_over(ws))
        return;
    check_room(ws);
    watch_sending(ws);
}

/* ---- for the owner ---- */

void tci_ws_send(tci_ws *ws, tci_ws_out *out)
{
    tci_loop_assert(ws->loop);
    out->len = out->done = 0;
    out->is_begun = false;
    out->copy = NULL;
    for (unsigned i = 0; i < out->nparts; i++)
        out->len += out->parts[i].len;
    if (ws->state != TCI_WS_OPEN || tci_ws_is_over(ws)) {
        out->on_done(out, false);
        return;
    }
    if (!out->is_uncounted)
        ws->queued += out->len;
    if (ws->queued > ws->options.max_queued_bytes)
        ws->is_full = true;
    tci_list_push_back(&ws->lanes[out->kind], &out->link);
    tci_loop_later(ws->loop, &ws->flush);
}

static void own_done(tci_ws_out *out, bool was_sent)
{
    own_out *o = TCI_CONTAINER(out, own_out, out);
    TCI_UNUSED(was_sent); /* nobody asked to be told */
    tci_buf_done(&o->bytes);
    tci_free(o);
}

int tci_ws_send_own(tci_ws *ws, tci_ws_kind kind, tci_buf *body, tc_err *err)
{
    own_out *o = tci_new(own_out);
    if (o == NULL)
        return tci_err_no_memory(err);
    o->bytes = *body;
    tci_buf_init(body, body->max);
    o->out = (tci_ws_out){.kind = kind,
                          .parts = {{o->bytes.ptr, o->bytes.len}},
                          .nparts = 1,
                          .may_overwrite = true,
                          .on_done = own_done};
    tci_ws_send(ws, &o->out);
    return 0;
}

/* The rest of a message that is partly out, in memory of our own, at the same place in its lane. */
static bool replace(tci_ws *ws, tci_ws_out *out)
{
    batch b = {.nv = 0};
    own_out *o = tci_new(own_out);
    if (o == NULL)
        return false;
    tci_buf_init(&o->bytes, TCI_BUF_MAX);
    add_rest(&b, out);
    for (size_t i = 0; i < b.nv; i++)
        tci_buf_append(&o->bytes, b.v[i].ptr, b.v[i].len);
    if (!tci_buf_ok(&o->bytes)) {
        tci_buf_done(&o->bytes);
        tci_free(o);
        return false;
    }
    /* Its header is out, or the beginning of what is copied: a frame without one of its own. */
    o->out = (tci_ws_out){.kind = out->kind,
                          .parts = {{o->bytes.ptr, o->bytes.len}},
                          .nparts = 1,
                          .is_begun = true,
                          .len = o->bytes.len,
                          .on_done = own_done};
    ws->queued += o->out.len;
    tci_list_push_front(&ws->lanes[out->kind], &o->out.link);
    ws->current = &o->out;
    return true;
}

bool tci_ws_take_back(tci_ws *ws, tci_ws_out *out)
{
    tci_loop_assert(ws->loop);
    if (!tci_ws_out_is_queued(out))
        return true;
    bool was_sent = out->is_begun && out->done == total_of(out);
    if (out == ws->current && !replace(ws, out))
        return false;
    out_done(ws, out, was_sent);
    return true;
}

size_t tci_ws_queued_bytes(const tci_ws *ws)
{
    return ws->queued;
}
