/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection of the HTTP client: sends the request of its call, hands the answer over, goes
 * back to the pool. Which call it gets, and time, are http_client.c's. Loop thread. Invariant:
 * storage goes only in tci_http_conn_leave, when no call on it is in progress; conn->call and
 * call->conn are set and cleared together. */
#include "net/http_client_int.h"
#include "base/num.h"

enum { READS_PER_TURN = 4 };

/* ---- ends ---- */

static void let_go(tci_http_conn *c)
{
    c->is_dead = true;
    tci_timer_stop(&c->idle_timer);
    tci_later_cancel(&c->later);
    tci_link_remove(&c->link);
    if (tci_link_is_in(&c->idle_link)) {
        tci_link_remove(&c->idle_link);
        c->origin->nidle--;
    }
    c->origin->nconns--;
}

void tci_http_conn_kill(tci_http_conn *c)
{
    if (c->is_dead)
        return;
    let_go(c);
    tci_stream_close(c->stream);
    c->stream = NULL;
}

static tci_http_call *detach(tci_http_conn *c)
{
    tci_http_call *call = c->call;
    c->call = NULL;
    call->conn = NULL;
    return call;
}

/* The connection is lost; so is its call, unless none of it was sent. */
static void lose(tci_http_conn *c, const tc_err *err)
{
    tci_http_origin *origin = c->origin;
    tci_http_conn_kill(c);
    if (c->call != NULL) {
        tci_http_call *call = detach(c);
        if (c->is_reused && !call->was_sent)
            tci_http_call_again(call);
        else
            tci_http_call_finish(call, err->code, err);
    }
    tci_http_origin_serve(origin);
}

static void set_interest(tci_http_conn *c)
{
    unsigned want = c->is_paused ? 0 : TCI_WATCH_READ;
    tc_err err;
    if (!c->write_failed &&
        (!tci_http_out_is_empty(&c->out) || (c->call != NULL && c->call->is_pending)))
        want |= TCI_WATCH_WRITE;
    /* Not at once: whoever called in may still hold the call. */
    if (tci_stream_want(c->stream, want, &err) < 0) {
        c->is_lost = true;
        tci_loop_later(c->origin->client->loop, &c->later);
    }
}

void tci_http_conn_leave(tci_http_conn *c)
{
    if (c->depth == 1 && !c->is_dead)
        set_interest(c);
    if (--c->depth > 0 || !c->is_dead)
        return;
    TC_ASSERT(c->call == NULL);
    tci_http1_free(c->reader);
    tci_http_out_done(&c->out);
    tci_free(c->in);
    tci_free(c);
}

void tci_http_conn_release(tci_http_conn *c, bool is_reusable)
{
    tci_http_client *client = c->origin->client;
    tc_err err;
    tci_http_origin *origin = c->origin;
    if (c->is_dead)
        return;
    if (!is_reusable || client->is_closing || origin->nidle >= client->options.max_idle ||
        tci_timer_start(&c->idle_timer, client->options.idle_timeout_ms, &err) < 0)
        tci_http_conn_kill(c);
    else {
        tci_list_push_back(&origin->idle, &c->idle_link);
        origin->nidle++;
    }
    tci_http_origin_serve(origin);
}

/* ---- sending ---- */

static int write_out(tci_http_conn *c, tci_http_call *call, tc_err *err)
{
    bool wrote = false;
    if (call->owes_last_chunk && c->out.part_at == c->out.nparts) {
        call->owes_last_chunk = false;
        tci_buf_append_str(&c->out.buf, TCI_HTTP1_LAST_CHUNK);
    }
    int rc = tci_http_out_write(&c->out, c->stream, &wrote, err);
    call->was_sent |= wrote;
    if (rc == 0 && call->owes_last_chunk && tci_http_out_is_empty(&c->out))
        return write_out(c, call, err);
    return rc;
}

void tci_http_conn_flush(tci_http_conn *c)
{
    tc_err err;
    tci_http_call *call = c->call;
    if (c->is_dead || c->write_failed || call == NULL)
        return;
    if (write_out(c, call, &err) < 0) {
        if (!call->was_sent) {
            lose(c, &err);
            return;
        }
        /* An answer may already be on its way to us; reading will tell. */
        c->write_failed = true;
        tci_loop_later(c->origin->client->loop, &c->later);
        return;
    }
    if (!tci_http_out_is_empty(&c->out) || !call->streams_body || call->is_ended)
        return;
    if (call->may_write && !call->is_pending)
        return;
    call->may_write = true;
    call->is_pending = false;
    call->handler->on_writable(call);
}

void tci_http_conn_run(tci_http_conn *c, tci_http_call *call)
{
    tci_http_conn_enter(c);
    tci_timer_stop(&c->idle_timer);
    if (tci_link_is_in(&c->idle_link)) {
        tci_link_remove(&c->idle_link);
        c->origin->nidle--;
    }
    c->call = call;
    call->conn = c;
    call->state = TCI_HTTP_CALL_RUNNING;
    tci_http1_set_flags(c->reader, call->reader_flags);
    tci_buf_append_str(&c->out.buf, tci_buf_str(&call->head));
    if (call->body.len > 0)
        tci_http_out_body(&c->out, call->body);
    tci_http_conn_flush(c);
    tci_http_conn_leave(c);
}

/* ---- receiving ---- */

static void answer_complete(tci_http_conn *c)
{
    tci_http_call *call = c->call;
    bool is_sent = tci_http_out_is_empty(&c->out) && call->is_ended && !c->write_failed;
    bool is_reusable = is_sent && tci_http1_head(c->reader)->keeps_alive && c->in_at == c->in_len;
    (void)detach(c); /* it is in hand */
    tci_http_call_finish(call, 0, NULL);
    c->is_paused = false;
    c->is_reused = true;
    tci_http_conn_release(c, is_reusable);
}

static void take_head(tci_http_conn *c)
{
    const tci_http_head *head = tci_http1_head(c->reader);
    tci_http_call *call = c->call;
    if (head->status < 200 && !head->is_upgrade)
        return;
    call->got_head = true;
    if (call->handler->on_head != NULL)
        call->handler->on_head(call, head);
}

/* One event. false: nothing more to do with what is in the buffer. */
static bool step(tci_http_conn *c)
{
    tc_str in = tci_str_of(c->in + c->in_at, c->in_len - c->in_at), body;
    tci_http1_event event = TCI_HTTP1_MORE;
    size_t used = 0;
    tc_err err;
    if (c->call == NULL) {
        if (in.len > 0)
            tci_http_conn_kill(c); /* nobody asked for anything */
        return false;
    }
    if (c->is_paused)
        return false;
    if (tci_http1_next(c->reader, in, &used, &event, &body, &err) < 0) {
        lose(c, &err);
        return false;
    }
    c->in_at += used;
    switch (event) {
    case TCI_HTTP1_MORE:
        return false;
    case TCI_HTTP1_HEAD:
        take_head(c);
        break;
    case TCI_HTTP1_BODY:
        if (c->call->handler->on_body != NULL)
            c->call->handler->on_body(c->call, body);
        break;
    case TCI_HTTP1_END:
        if (c->call->got_head)
            answer_complete(c);
        break;
    case TCI_HTTP1_UPGRADED:
        tc_err_set(&err, TC_E_PROTOCOL, "the connection changed its protocol and nobody took it");
        lose(c, &err);
        break;
    }
    return !c->is_dead;
}

void tci_http_conn_process(tci_http_conn *c)
{
    if (c->in_process || c->is_dead)
        return;
    c->in_process = true;
    while (!c->is_dead && step(c))
        continue;
    c->in_process = false;
}

static int make_room(tci_http_conn *c, tc_err *err)
{
    const tci_http_head *head = tci_http1_head(c->reader);
    bool is_bulk = c->call != NULL && c->call->got_head && head->has_body &&
                   (!head->has_length || head->content_length > TCI_HTTP_IN_MIN);
    size_t cap = is_bulk ? TCI_HTTP_IN_MAX : TCI_HTTP_IN_MIN, kept = c->in_len - c->in_at;
    if (kept > 0 && c->in_at > 0)
        memmove(c->in, c->in + c->in_at, kept);
    c->in_at = 0;
    c->in_len = kept;
    if (c->in_cap == cap || (c->in_cap > cap && kept > cap))
        return 0;
    char *in = tci_mem_resize(c->in, cap);
    if (in == NULL)
        return tci_err_no_memory(err);
    c->in = in;
    c->in_cap = cap;
    return 0;
}

static void on_peer_end(tci_http_conn *c, const tc_err *why)
{
    bool is_end = false;
    tc_err err = *why;
    if (c->call != NULL && why->code == TC_E_END) {
        if (tci_http1_eof(c->reader, &is_end, &err) == 0 && is_end && c->call->got_head) {
            answer_complete(c);
            return;
        }
        tc_err_set(&err, TC_E_CLOSED, "the server closed the connection before its answer was %s",
                   c->call->got_head ? "complete" : "there");
    }
    lose(c, &err);
}

static void read_some(tci_http_conn *c)
{
    tc_err err;
    for (int i = 0; i < READS_PER_TURN && !c->is_dead && !c->is_paused; i++) {
        size_t n = 0;
        int rc = make_room(c, &err);
        if (rc == 0 && c->in_len == c->in_cap)
            return;
        if (rc == 0)
            rc = tci_stream_read(c->stream, c->in + c->in_len, c->in_cap - c->in_len, &n, &err);
        if (rc < 0) {
            on_peer_end(c, &err);
            return;
        }
        if (n == 0)
            return;
        c->in_len += n;
        tci_http_conn_process(c);
    }
}

static void on_ready(tci_stream *stream, unsigned events)
{
    tci_http_conn *c = stream->user;
    tci_http_conn_enter(c);
    if (events & TCI_WATCH_READ)
        read_some(c);
    if ((events & TCI_WATCH_WRITE) && !c->is_dead)
        tci_http_conn_flush(c);
    tci_http_conn_leave(c);
}

static void on_later(tci_later *later)
{
    tci_http_conn *c = TCI_CONTAINER(later, tci_http_conn, later);
    tci_http_conn_enter(c);
    if (c->is_lost) {
        tc_err err;
        tc_err_set(&err, TC_E_NO_MEMORY, "cannot wait for the connection");
        lose(c, &err);
    } else
        read_some(c);
    tci_http_conn_leave(c);
}

static void on_idle_timer(tci_timer *timer)
{
    tci_http_conn *c = TCI_CONTAINER(timer, tci_http_conn, idle_timer);
    tci_http_conn_enter(c);
    tci_http_conn_kill(c);
    tci_http_conn_leave(c);
}

/* ---- life ---- */

int tci_http_conn_new(tci_http_origin *origin, tci_stream *stream_own, tci_http_conn **ret_conn,
                      tc_err *err)
{
    tci_http_conn *c = tci_new(tci_http_conn);
    int rc =
        c == NULL ? tci_err_no_memory(err) : tci_http1_new(TCI_HTTP1_RESPONSE, &c->reader, err);
    if (rc < 0) {
        tci_free(c);
        tci_stream_close(stream_own);
        return rc;
    }
    c->origin = origin;
    c->stream = stream_own;
    tci_http_out_init(&c->out);
    tci_timer_init(&c->idle_timer, origin->client->loop, on_idle_timer);
    c->later.cb = on_later;
    tci_list_push_back(&origin->client->conns, &c->link);
    stream_own->user = c;
    stream_own->on_ready = on_ready;
    *ret_conn = c;
    return 0;
}

/* ---- the call's side of it ---- */

static int check_piece(const tci_http_call *call, const tci_iovec *parts, size_t nparts,
                       uint64_t *ret_total, tc_err *err)
{
    uint64_t total = 0;
    if (!call->may_write || call->is_pending || call->is_ended)
        return tc_err_set(err, TC_E_CONFLICT, "no piece of a request body is expected now");
    if (nparts > TCI_HTTP_OUT_PARTS_MAX || !tci_http_parts_total(parts, nparts, &total) ||
        (!call->is_chunked && total > call->left))
        return tc_err_set(err, TC_E_TOO_BIG, "the piece is longer than the body may be");
    *ret_total = total;
    return 0;
}

int tci_http_call_write(tci_http_call *call, const tci_iovec *parts, size_t nparts,
                        bool *ret_is_pending, tc_err *err)
{
    uint64_t total = 0;
    int rc = check_piece(call, parts, nparts, &total, err);
    if (rc < 0)
        return rc;
    tci_http_conn *c = call->conn;
    if (!call->is_chunked)
        call->left -= total;
    *ret_is_pending = false;
    if (total == 0)
        return 0;
    if (c->write_failed)
        return call->got_head ? 0 : tc_err_set(err, TC_E_CLOSED, "the connection is lost");
    tci_http_conn_enter(c);
    tci_http_out_piece(&c->out, parts, nparts, total, call->is_chunked);
    if (write_out(c, call, err) < 0) {
        c->write_failed = true;
        tci_loop_later(c->origin->client->loop, &c->later);
        rc = tc_err_set(err, TC_E_CLOSED, "the connection is lost");
    } else {
        bool is_turn_over = c->out.nwritten >= TCI_HTTP_OUT_TURN_MAX;
        if (is_turn_over)
            c->out.nwritten = 0;
        call->is_pending = is_turn_over || !tci_http_out_is_empty(&c->out);
        *ret_is_pending = call->is_pending;
    }
    tci_http_conn_leave(c);
    return rc;
}

void tci_http_call_write_end(tci_http_call *call)
{
    tci_http_conn *c = call->conn;
    TC_ASSERT(call->streams_body && call->may_write && !call->is_ended);
    call->is_ended = true;
    if (!call->is_chunked && call->left > 0) {
        tc_err err;
        tc_err_set(&err, TC_E_INVALID, "the request body ended before its announced length");
        tci_http_conn_enter(c);
        lose(c, &err);
        tci_http_conn_leave(c);
        return;
    }
    if (!call->is_chunked || c->write_failed)
        return;
    tci_http_conn_enter(c);
    call->owes_last_chunk = true;
    call->is_pending = false;
    tci_http_conn_flush(c);
    tci_http_conn_leave(c);
}

void tci_http_call_pause(tci_http_call *call)
{
    if (call->conn != NULL)
        call->conn->is_paused = true;
}

void tci_http_call_resume(tci_http_call *call)
{
    tci_http_conn *c = call->conn;
    if (c == NULL || !c->is_paused)
        return;
    tci_http_conn_enter(c);
    c->is_paused = false;
    tci_http_conn_process(c);
    tci_http_conn_leave(c);
}

int tci_http_call_take_stream(tci_http_call *call, tci_stream **ret_stream, tci_buf *rest,
                              tc_err *err)
{
    tci_http_conn *c = call->conn;
    if (c == NULL || !call->got_head || !tci_http1_head(c->reader)->is_upgrade)
        return tc_err_set(err, TC_E_CONFLICT, "the connection did not change its protocol");
    tci_buf_append(rest, c->in + c->in_at, c->in_len - c->in_at);
    if (!tci_buf_ok(rest))
        return tci_buf_error(rest, err);
    int rc = tci_stream_want(c->stream, 0, err); /* the new owner will ask for what it wants */
    if (rc < 0)
        return rc;
    tci_http_conn_enter(c);
    c->stream->on_ready = NULL;
    c->stream->user = NULL;
    *ret_stream = c->stream;
    c->stream = NULL;
    let_go(c);
    tci_http_origin *origin = c->origin;
    call = detach(c);
    call->handler = NULL; /* no on_done */
    tci_http_call_finish(call, 0, NULL);
    tci_http_origin_serve(origin);
    tci_http_conn_leave(c);
    return 0;
}
