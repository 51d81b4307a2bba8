/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a WebSocket connection: reading messages, answering and sending pings, closing, and the one
 * end. Leaves frames to wire/ws.h, what is sent to ws_out.c, the handshake to ws_accept.c and ws_dial.c.
 * Loop thread.
 *
 * Invariant: callbacks are made from the loop only (readiness, timers, the end of a turn), between
 * tci_ws_enter and tci_ws_leave; the storage goes in the outermost leave after tci_ws_free, and nothing is
 * told after that. */
#include "net/ws_int.h"

#include "base/num.h"
#include "base/utf8.h"
#include "plat/clock.h"

#include <stdio.h>

enum { IN_BYTES = 64 * 1024, READS_PER_TURN = 16, QUEUED_DEFAULT = 64 * 1024 * 1024 };

/* ---- the end ---- */

void tci_ws_fail(tci_ws *ws, tci_ws_cause cause, const tc_err *err, const char *what)
{
    if (ws->is_failing || ws->state == TCI_WS_ENDED)
        return;
    tci_ws_end *e = &ws->end;
    ws->is_failing = true;
    if (cause == TCI_WS_LOST && ws->state != TCI_WS_OPEN)
        cause = e->cause; /* what began the closing is what happened */
    if (cause == TCI_WS_VIOLATION)
        err = NULL; /* it was told before */
    e->cause = cause;
    if (cause != TCI_WS_PEER_CLOSED && cause != TCI_WS_VIOLATION)
        e->code = TCI_WS_CODE_LOST;
    if (err != NULL)
        e->err = *err;
    if (err != NULL && what != NULL)
        (void)tc_err_wrap(&e->err, "%s", what);
    if (ws->depth == 0)
        tci_loop_later(ws->loop, &ws->flush); /* tells it */
}

static void fail_with(tci_ws *ws, tci_ws_cause cause, tc_code code, const char *text)
{
    tc_err err;
    (void)tc_err_set(&err, code, "%s", text);
    tci_ws_fail(ws, cause, &err, NULL);
}

static void stop(tci_ws *ws)
{
    ws->state = TCI_WS_ENDED;
    tci_timer_stop(&ws->live);
    tci_timer_stop(&ws->send);
    tci_timer_stop(&ws->limit);
    tci_timer_stop(&ws->probe);
    tci_later_cancel(&ws->flush);
    tci_ws_drop(ws, true);
    tci_stream_close(ws->stream);
    ws->stream = NULL;
    tci_free(ws->own);
    ws->own = NULL;
    tci_ws_forget_kept(ws);
}

static void destroy(tci_ws *ws)
{
    tci_free(ws->in);
    tci_free(ws);
}

void tci_ws_enter(tci_ws *ws)
{
    ws->depth++;
}

static void tell_end(tci_ws *ws)
{
    stop(ws);
    if (!ws->is_freed)
        ws->options.handler->on_end(ws, &ws->end);
}

static void tell_room(tci_ws *ws)
{
    ws->was_full = false;
    if (ws->state == TCI_WS_OPEN && ws->options.handler->on_writable != NULL)
        ws->options.handler->on_writable(ws);
}

void tci_ws_leave(tci_ws *ws)
{
    if (ws->depth == 1 && ws->was_full && !tci_ws_is_over(ws))
        tell_room(ws);
    if (ws->depth == 1 && !tci_ws_is_over(ws))
        tci_ws_update_want(ws);
    if (ws->depth == 1 && ws->is_failing && !ws->is_freed && ws->state != TCI_WS_ENDED)
        tell_end(ws);
    if (--ws->depth == 0 && ws->is_freed)
        destroy(ws);
}

void tci_ws_free(tci_ws *ws)
{
    if (ws == NULL)
        return;
    tci_loop_assert(ws->loop);
    ws->is_freed = true;
    ws->depth++; /* those who are told of dropped messages may call in */
    if (ws->state != TCI_WS_ENDED)
        stop(ws);
    if (--ws->depth == 0)
        destroy(ws);
}

void *tci_ws_user(const tci_ws *ws)
{
    return ws->options.user;
}

/* ---- what is wanted of the stream ---- */

static bool takes_messages(const tci_ws *ws)
{
    return ws->state == TCI_WS_OPEN && !ws->is_paused && !ws->is_full;
}

/* While closing what comes is read and dropped, but for the peer's close frame. */
static bool is_reading(const tci_ws *ws)
{
    return ws->state == TCI_WS_OPEN ? takes_messages(ws) : ws->state != TCI_WS_PEER_CLOSING;
}

void tci_ws_update_want(tci_ws *ws)
{
    tc_err err;
    unsigned events =
        (is_reading(ws) ? TCI_WATCH_READ : 0u) | (tci_ws_has_output(ws) ? TCI_WATCH_WRITE : 0u);
    if (tci_stream_want(ws->stream, events, &err) < 0)
        tci_ws_fail(ws, TCI_WS_LOST, &err, NULL);
}

/* ---- closing ---- */

static void begin_closing(tci_ws *ws, tci_ws_state state, unsigned code, tc_str reason)
{
    tc_err err;
    ws->state = state;
    ws->close_len = ws->options.closes_without_code ? 0 : tci_ws_put_close(ws->close, code, reason);
    tci_timer_stop(&ws->live);
    tci_timer_stop(&ws->send);
    tci_timer_stop(&ws->probe);
    if (tci_timer_start(&ws->limit, TCI_WS_CLOSE_MS, &err) < 0)
        tci_ws_fail(ws, ws->end.cause, &err, NULL);
    tci_loop_later(ws->loop, &ws->flush);
}

void tci_ws_close(tci_ws *ws, unsigned code, tc_str reason)
{
    tci_loop_assert(ws->loop);
    if (ws->state != TCI_WS_OPEN || tci_ws_is_over(ws))
        return;
    ws->end.cause = TCI_WS_CLOSED;
    tci_free(ws->own);
    ws->own = NULL;
    begin_closing(ws, TCI_WS_CLOSING, code, reason);
}

/* Fail the connection (section 7.1.7): say why, and let the peer read it. */
static void refuse(tci_ws *ws, unsigned code, const tc_err *err)
{
    if (tci_ws_is_over(ws))
        return;
    if (ws->state != TCI_WS_OPEN) { /* it has been told to go already */
        fail_with(ws, TCI_WS_CLOSED, TC_E_CLOSED, "closed");
        return;
    }
    ws->end.cause = TCI_WS_VIOLATION;
    ws->end.code = code;
    ws->end.err = *err;
    tci_ws_drop(ws, false);
    if (!tci_ws_is_over(ws))
        begin_closing(ws, TCI_WS_REFUSING, code, tci_str(err->msg));
}

static void end_closing(tci_ws *ws)
{
    static const char *const texts[] = {
        [TCI_WS_CLOSED] = "closed", [TCI_WS_PEER_CLOSED] = "closed by the peer"};
    if (ws->end.cause == TCI_WS_VIOLATION)
        tci_ws_fail(ws, TCI_WS_VIOLATION, NULL, NULL);
    else
        fail_with(ws, ws->end.cause, TC_E_CLOSED, texts[ws->end.cause]);
}

static void on_limit(tci_timer *t)
{
    tci_ws *ws = TCI_CONTAINER(t, tci_ws, limit);
    tci_ws_enter(ws);
    end_closing(ws);
    tci_ws_leave(ws);
}

static void take_close(tci_ws *ws)
{
    const tci_ws_reader *r = &ws->reader;
    if (ws->state == TCI_WS_CLOSING) {
        if (ws->is_close_sent)
            end_closing(ws);
        return; /* ours goes out, and is_closed of the reader says that this was it */
    }
    tci_ws_end *e = &ws->end;
    e->cause = TCI_WS_PEER_CLOSED;
    e->code = r->close_code;
    if (r->close_reason.len > 0)
        memcpy(ws->reason, r->close_reason.ptr, r->close_reason.len);
    e->reason = tci_str_of(ws->reason, r->close_reason.len);
    tci_ws_drop(ws, false);
    if (!tci_ws_is_over(ws))
        begin_closing(ws, TCI_WS_PEER_CLOSING, r->close_code, TC_STR(""));
}

/* After a write: is the closing complete? */
static void check_closing(tci_ws *ws)
{
    tc_err err;
    if (tci_ws_is_over(ws) || !ws->is_close_sent)
        return;
    if (ws->state == TCI_WS_PEER_CLOSING || ws->reader.is_closed)
        end_closing(ws);
    else if (ws->state == TCI_WS_REFUSING && tci_stream_shutdown_write(ws->stream, &err) < 0)
        end_closing(ws);
}

/* ---- liveness ---- */

static void restart_live(tci_ws *ws)
{
    tc_err err;
    ws->is_ping_out = false;
    if (ws->state == TCI_WS_OPEN && ws->options.ping_interval_ms > 0 &&
        tci_timer_start(&ws->live, ws->options.ping_interval_ms, &err) < 0)
        tci_ws_fail(ws, TCI_WS_LOST, &err, NULL);
}

/* A pong cannot come before what was sent in front of it: a slow peer's system may have much of that. */
static bool is_arriving(const tci_ws *ws)
{
    int64_t since_ns = tci_loop_now_ns(ws->loop) - ws->read_ns;
    return since_ns < tci_ms_to_ns((uint64_t)ws->options.pong_timeout_ms);
}

/* Nor can one come to a ping that a slow peer's system has not got yet. */
static bool is_ping_on_its_way(tci_ws *ws)
{
    bool was_behind = ws->is_ping_behind;
    tci_ws_look(ws);
    int64_t since_ns = tci_loop_now_ns(ws->loop) - ws->sent_ns;
    ws->is_ping_behind = ws->delivered < ws->ping_end;
    if (!ws->is_ping_behind)
        return was_behind; /* it has got there since; now it has its time */
    return since_ns < tci_ms_to_ns((uint64_t)ws->options.pong_timeout_ms);
}

static void ping(tci_ws *ws)
{
    tci_random_bytes(ws->ping, sizeof ws->ping);
    ws->is_ping_due = ws->is_ping_out = true;
    tci_ws_flush(ws);
}

static void on_live(tci_timer *t)
{
    tc_err err;
    tci_ws *ws = TCI_CONTAINER(t, tci_ws, live);
    tci_ws_enter(ws);
    tci_ws_forget_kept(ws);
    if (!takes_messages(ws) && !ws->is_ping_out) {
        restart_live(ws);
    } else if (!ws->is_ping_out) {
        ping(ws);
    } else if (!takes_messages(ws) || is_arriving(ws) || is_ping_on_its_way(ws)) {
        if (tci_timer_start(t, ws->options.pong_timeout_ms, &err) < 0)
            tci_ws_fail(ws, TCI_WS_LOST, &err, NULL);
    } else {
        fail_with(ws, TCI_WS_PING_TIMEOUT, TC_E_TIMEOUT, "the peer did not answer a ping in time");
    }
    tci_ws_leave(ws);
}

static void on_probe(tci_timer *t)
{
    tci_ws *ws = TCI_CONTAINER(t, tci_ws, probe);
    tci_ws_enter(ws);
    tci_ws_look(ws);
    bool has_spoken = ws->read_ns > ws->probe_ns;
    bool is_asked = !ws->is_ping_due && ws->delivered >= ws->ping_end;
    if (takes_messages(ws) && !has_spoken && (is_asked || ws->sent_ns <= ws->probe_ns))
        fail_with(ws, TCI_WS_PING_TIMEOUT, TC_E_TIMEOUT,
                  "the peer gave no sign of life when asked");
    tci_ws_leave(ws);
}

void tci_ws_probe(tci_ws *ws, int64_t within_ms)
{
    tc_err err;
    tci_loop_assert(ws->loop);
    if (!takes_messages(ws) || tci_ws_is_over(ws) || tci_timer_is_armed(&ws->probe))
        return;
    if (tci_timer_start(&ws->probe, within_ms, &err) < 0)
        return; /* the next ping will tell */
    tci_ws_enter(ws);
    if (!ws->is_ping_out) {
        tci_timer_stop(&ws->live);
        ping(ws);
    }
    tci_ws_look(ws);
    ws->probe_ns = tci_loop_now_ns(ws->loop);
    tci_ws_leave(ws);
}

static void take_pong(tci_ws *ws)
{
    const tci_ws_reader *r = &ws->reader;
    if (ws->is_ping_out && !ws->is_ping_due && r->control_len == sizeof ws->ping &&
        memcmp(r->control, ws->ping, sizeof ws->ping) == 0)
        restart_live(ws);
}

/* Only the last of several pings needs an answer (section 5.5.3). */
static void take_ping(tci_ws *ws)
{
    memcpy(ws->pong, ws->reader.control, ws->reader.control_len);
    ws->pong_len = ws->reader.control_len;
    ws->is_pong_due = true;
    tci_loop_later(ws->loop, &ws->flush);
}

static void on_send_limit(tci_timer *t)
{
    tc_err err;
    tci_ws *ws = TCI_CONTAINER(t, tci_ws, send);
    int64_t limit_ns = tci_ms_to_ns((uint64_t)ws->options.send_timeout_ms);
    tci_ws_enter(ws);
    tci_ws_look(ws);
    int64_t due_ns = tci_add_ns(ws->sent_ns, limit_ns), now_ns = tci_loop_now_ns(ws->loop);
    if (!tci_ws_has_output(ws))
        ; /* the next flush starts it anew */
    else if (due_ns > now_ns) {
        int64_t look_ns = tci_add_ns(now_ns, limit_ns / TCI_WS_SEND_LOOKS + 1);
        if (tci_timer_start_at(t, due_ns < look_ns ? due_ns : look_ns, &err) < 0)
            tci_ws_fail(ws, TCI_WS_LOST, &err, NULL);
    } else
        fail_with(ws, TCI_WS_SEND_TIMEOUT, TC_E_TIMEOUT, "the peer takes no bytes");
    tci_ws_leave(ws);
}

/* ---- messages ---- */

static void deliver(tci_ws *ws, tc_str bytes, char *own)
{
    tc_err err;
    tci_ws_kind kind = ws->reader.kind;
    if (ws->state != TCI_WS_OPEN) {
        tci_free(own);
        return;
    }
    if (kind == TCI_WS_TEXT && !tci_utf8_is_valid(bytes)) {
        tci_free(own);
        (void)tc_err_set(&err, TC_E_PROTOCOL, "WebSocket: a text message that is no UTF-8");
        refuse(ws, TCI_WS_CODE_INVALID, &err);
        return;
    }
    ws->options.handler->on_message(ws, kind, bytes, own);
}

/* Memory for a message up to the end of this frame. Fragments make it grow by halves, within its limit. */
static int make_room(tci_ws *ws, tc_err *err)
{
    const tci_ws_reader *r = &ws->reader;
    uint64_t max =
        r->kind == TCI_WS_TEXT ? ws->options.max_text_bytes : ws->options.max_binary_bytes;
    uint64_t want = r->message_len, size;
    if (ws->own != NULL && want <= ws->own_cap)
        return 0;
    if (!r->is_last)
        want = tci_min_u64(max, want + want / 2);
    size_t headroom = ws->options.headroom[r->kind];
    if (want > SIZE_MAX / 2 || !tci_add_u64(headroom, want > 0 ? want : 1, &size))
        return tci_err_no_memory(err);
    size_t got = (size_t)size;
    char *own = ws->own == NULL ? tci_ws_reuse(ws, got, &got) : NULL;
    if (own == NULL)
        own = tci_mem_resize(ws->own, got);
    if (own == NULL)
        return tci_err_no_memory(err);
    ws->own = own;
    ws->own_cap = got - headroom;
    return 0;
}

static void complete(tci_ws *ws)
{
    char *own = ws->own;
    tc_str bytes = tci_str_of(own, 0);
    ws->own = NULL;
    if (own != NULL)
        bytes = tci_str_of(own + ws->options.headroom[ws->reader.kind], ws->own_have);
    ws->own_have = 0;
    deliver(ws, bytes, own);
}

/* The header of a data frame was read. */
static int take_frame(tci_ws *ws, tc_err *err)
{
    tci_ws_reader *r = &ws->reader;
    size_t have = ws->in_len - ws->in_at;
    if (ws->state != TCI_WS_OPEN)
        return 0;
    if (r->is_last && ws->own == NULL && r->frame_left <= have) {
        size_t len = (size_t)r->frame_left;
        char *bytes = ws->in + ws->in_at;
        tci_ws_payload(r, bytes, len);
        ws->in_at += len;
        deliver(ws, tci_str_of(bytes, len), NULL);
        return 0;
    }
    if (ws->own == NULL)
        ws->own_have = 0;
    if (make_room(ws, err) < 0)
        return err->code;
    if (r->is_last && r->frame_left == 0)
        complete(ws);
    return 0;
}

/* Payload of a frame that goes into memory of its own, or that nobody wants any more. */
static void take_payload(tci_ws *ws)
{
    tci_ws_reader *r = &ws->reader;
    size_t n = (size_t)tci_min_u64(r->frame_left, ws->in_len - ws->in_at);
    char *from = ws->in + ws->in_at;
    ws->in_at += n;
    if (ws->own == NULL) {
        tci_ws_payload(r, from, n);
        return;
    }
    char *to = ws->own + ws->options.headroom[r->kind] + ws->own_have;
    memcpy(to, from, n);
    tci_ws_payload(r, to, n);
    ws->own_have += n;
    if (r->is_last && r->frame_left == 0)
        complete(ws);
}

static int take_event(tci_ws *ws, tci_ws_event event, tc_err *err)
{
    switch (event) {
    case TCI_WS_MORE:
        return 0;
    case TCI_WS_FRAME:
        return take_frame(ws, err);
    case TCI_WS_PING:
        take_ping(ws);
        return 0;
    case TCI_WS_PONG:
        take_pong(ws);
        return 0;
    case TCI_WS_CLOSE:
        take_close(ws);
        return 0;
    }
    return 0;
}

/* Everything that was read, as long as somebody wants it. A violation is dealt with in here; an error is
 * want of memory. */
static int parse(tci_ws *ws, tc_err *err)
{
    while (ws->in_at < ws->in_len && !tci_ws_is_over(ws) && is_reading(ws)) {
        size_t used;
        tci_ws_event event;
        tc_str in = tci_str_of(ws->in + ws->in_at, ws->in_len - ws->in_at);
        if (ws->state == TCI_WS_REFUSING) {
            ws->in_at = ws->in_len;
            return 0;
        }
        if (ws->reader.frame_left > 0) {
            take_payload(ws);
            continue;
        }
        if (tci_ws_next(&ws->reader, in, &used, &event, err) < 0) {
            refuse(ws, ws->reader.violation, err);
            return 0;
        }
        ws->in_at += used;
        if (take_event(ws, event, err) < 0)
            return err->code;
    }
    return 0;
}

/* One read, straight to where the bytes belong when they are part of a message in its own memory. */
static int read_some(tci_ws *ws, bool *ret_more, tc_err *err)
{
    size_t n = 0;
    *ret_more = true;
    if (ws->in_at < ws->in_len)
        return parse(ws, err);
    tci_ws_reader *r = &ws->reader;
    bool is_direct = ws->own != NULL && r->frame_left > 0;
    char *to = is_direct ? ws->own + ws->options.headroom[r->kind] + ws->own_have : ws->in;
    size_t cap = is_direct ? (size_t)r->frame_left : IN_BYTES;
    int rc = tci_stream_read(ws->stream, to, cap, &n, err);
    *ret_more = n == cap;
    if (rc < 0 || n == 0)
        return rc;
    ws->read_ns = tci_loop_now_ns(ws->loop);
    if (!is_direct) {
        ws->in_at = 0;
        ws->in_len = n;
        return parse(ws, err);
    }
    tci_ws_payload(r, to, n);
    ws->own_have += n;
    if (r->frame_left == 0 && r->is_last)
        complete(ws);
    return 0;
}

static void take_eof(tci_ws *ws)
{
    if (ws->state == TCI_WS_OPEN)
        fail_with(ws, TCI_WS_LOST, TC_E_CLOSED,
                  "the peer ended the connection without a close frame");
    else
        end_closing(ws);
}

static void on_readable(tci_ws *ws)
{
    tc_err err;
    bool more = true;
    int rc = 0;
    for (int i = 0; more && rc == 0 && i < READS_PER_TURN && !tci_ws_is_over(ws) && is_reading(ws);
         i++)
        rc = read_some(ws, &more, &err);
    if (rc == TC_E_END)
        take_eof(ws);
    else if (rc < 0)
        tci_ws_fail(ws, TCI_WS_LOST, &err, "cannot receive");
}

/* No event tells of what was read before. */
static void take_rest(tci_ws *ws)
{
    if (!tci_ws_is_over(ws) && is_reading(ws) && ws->in_at < ws->in_len)
        on_readable(ws);
}

static void on_ready(tci_stream *stream, unsigned events)
{
    tci_ws *ws = stream->user;
    tci_ws_enter(ws);
    if ((events & TCI_WATCH_READ) != 0 && is_reading(ws))
        on_readable(ws);
    if (!tci_ws_is_over(ws) && (events & TCI_WATCH_WRITE) != 0)
        tci_ws_flush(ws);
    check_closing(ws);
    take_rest(ws);
    tci_ws_leave(ws);
}

static void on_flush(tci_later *later)
{
    tci_ws *ws = TCI_CONTAINER(later, tci_ws, flush);
    tci_ws_enter(ws);
    if (!tci_ws_is_over(ws))
        tci_ws_flush(ws);
    check_closing(ws);
    take_rest(ws);
    tci_ws_leave(ws);
}

void tci_ws_pause(tci_ws *ws)
{
    tci_loop_assert(ws->loop);
    ws->is_paused = true;
    if (!tci_ws_is_over(ws))
        tci_loop_later(ws->loop, &ws->flush);
}

void tci_ws_resume(tci_ws *ws)
{
    tc_err err;
    tci_loop_assert(ws->loop);
    if (!ws->is_paused)
        return;
    ws->is_paused = false;
    if (tci_ws_is_over(ws))
        return;
    /* The pong had no way to us meanwhile. */
    if (ws->is_ping_out && tci_timer_is_armed(&ws->live) &&
        tci_timer_start(&ws->live, ws->options.pong_timeout_ms, &err) < 0)
        tci_ws_fail(ws, TCI_WS_LOST, &err, NULL);
    tci_loop_later(ws->loop, &ws->flush);
}

/* ---- begin ---- */

static void init(tci_ws *ws, tci_loop *loop, const tci_ws_options *options)
{
    ws->loop = loop;
    ws->options = *options;
    if (ws->options.max_queued_bytes == 0)
        ws->options.max_queued_bytes = QUEUED_DEFAULT;
    tci_ws_reader_init(&ws->reader, options->role, options->max_text_bytes,
                       options->max_binary_bytes);
    tci_list_init(&ws->lanes[TCI_WS_TEXT]);
    tci_list_init(&ws->lanes[TCI_WS_BINARY]);
    tci_list_init(&ws->finished);
    ws->flush.cb = on_flush;
    tci_timer_init(&ws->live, loop, on_live);
    tci_timer_init(&ws->send, loop, on_send_limit);
    tci_timer_init(&ws->limit, loop, on_limit);
    tci_timer_init(&ws->probe, loop, on_probe);
    ws->end.code = TCI_WS_CODE_LOST;
}

int tci_ws_new_with(tci_loop *loop, tci_stream *stream, tc_str rest, tc_str first,
                    const tci_ws_options *options, tci_ws **ret, tc_err *err)
{
    tci_loop_assert(loop);
    TC_ASSERT(first.len <= TCI_WS_URGENT_MAX);
    tci_ws *ws = tci_new(tci_ws);
    size_t in_bytes = rest.len > IN_BYTES ? rest.len : IN_BYTES;
    char *in = tci_mem_resize(NULL, in_bytes);
    if (ws == NULL || in == NULL) {
        tci_stream_close(stream);
        tci_free(ws);
        tci_free(in);
        return tci_err_no_memory(err);
    }
    init(ws, loop, options);
    ws->in = in;
    ws->in_len = rest.len;
    if (rest.len > 0)
        memcpy(in, rest.ptr, rest.len);
    ws->urgent_len = first.len;
    if (first.len > 0)
        memcpy(ws->urgent, first.ptr, first.len);
    ws->stream = stream;
    stream->user = ws;
    stream->on_ready = on_ready;
    int rc = tci_stream_want(stream, TCI_WATCH_READ, err);
    if (rc == 0 && options->ping_interval_ms > 0)
        rc = tci_timer_start(&ws->live, options->ping_interval_ms, err);
    if (rc < 0) {
        tci_ws_free(ws);
        return rc;
    }
    tci_loop_later(loop, &ws->flush); /* sends first, and takes rest */
    *ret = ws;
    return 0;
}

int tci_ws_new(tci_loop *loop, tci_stream *stream_own, tc_str rest, const tci_ws_options *options,
               tci_ws **ret_ws, tc_err *err)
{
    return tci_ws_new_with(loop, stream_own, rest, TC_STR(""), options, ret_ws, err);
}
