/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server's connections: accepting, reading, parsing, time limits, ends. Answers are made
 * in httpd_answer.c; the meaning of requests is the handler's. Loop thread. Invariant: at most one
 * request per connection is active, and nothing is parsed behind it before it is done; a
 * connection's storage goes only in tci_httpd_leave, when no call on it is in progress. */
#include "net/httpd_int.h"
#include "base/num.h"

enum { CONNECTIONS_DEFAULT = 256, READS_PER_TURN = 4 };

/* ---- the ends of a connection ---- */

static void check_drained(tci_httpd *httpd)
{
    if (httpd->is_draining && httpd->nconns == 0 && httpd->drain_cb != NULL) {
        httpd->drain_is_clean = true;
        tci_loop_later(httpd->loop, &httpd->drain_later);
    }
}

/* No more callbacks from stream and timer; storage stays. */
static void let_go(tci_httpd_conn *c)
{
    c->is_dead = true;
    tci_timer_stop(&c->timer);
    tci_later_cancel(&c->later);
    tci_later_cancel(&c->parse);
    tci_link_remove(&c->idle_link);
    if (tci_link_is_in(&c->link)) {
        tci_link_remove(&c->link);
        c->httpd->nconns--;
    }
}

void tci_httpd_kill(tci_httpd_conn *c)
{
    if (c->is_dead)
        return;
    let_go(c);
    tci_stream_close(c->stream);
    c->stream = NULL;
    if (c->req.is_active)
        tci_httpd_finish(c, false);
    check_drained(c->httpd);
}

static void on_ready(tci_stream *stream, unsigned events);

/* Not at once: whoever called in may still hold the request. */
static void give_up_later(tci_httpd_conn *c)
{
    c->is_lost = true;
    tci_loop_later(c->httpd->loop, &c->later);
}

/* What the loop should tell us from now on. */
static void set_interest(tci_httpd_conn *c)
{
    unsigned want = 0;
    tc_err err;
    bool is_full = c->in_len - c->in_at >= TCI_HTTPD_IN_MIN && c->phase == TCI_HTTPD_REQUEST &&
                   (c->body_ended || c->is_paused);
    if (!c->is_paused && !is_full)
        want |= TCI_WATCH_READ;
    if (!tci_http_out_is_empty(&c->out) || (c->req.is_active && c->req.is_pending))
        want |= TCI_WATCH_WRITE;
    if (tci_stream_want(c->stream, want, &err) < 0)
        give_up_later(c);
}

/* The earliest moment at which something must have happened; INT64_MAX for none. */
static int64_t next_deadline_ms(const tci_httpd_conn *c)
{
    const tci_httpd_options *o = &c->httpd->options;
    int64_t due = INT64_MAX;
    switch (c->phase) {
    case TCI_HTTPD_IDLE:
        if (o->idle_timeout_ms >= 0)
            due = c->since_ms + o->idle_timeout_ms;
        break;
    case TCI_HTTPD_HEAD:
        if (o->head_timeout_ms >= 0)
            due = c->since_ms + o->head_timeout_ms;
        break;
    case TCI_HTTPD_REQUEST:
        if (o->body_timeout_ms >= 0 && !c->body_ended && !c->is_paused && !c->req.is_answered)
            due = c->read_ms + o->body_timeout_ms;
        if (c->body_due_ms > 0 && !c->body_ended && !c->req.is_answered && c->body_due_ms < due)
            due = c->body_due_ms;
        break;
    case TCI_HTTPD_DISCARD:
    case TCI_HTTPD_LINGER:
        due = c->since_ms + TCI_HTTPD_LINGER_MS;
        break;
    }
    if (o->write_timeout_ms >= 0 && !tci_http_out_is_empty(&c->out) &&
        c->write_ms + o->write_timeout_ms < due)
        due = c->write_ms + o->write_timeout_ms;
    return due;
}

static void set_timer(tci_httpd_conn *c)
{
    int64_t due = next_deadline_ms(c);
    tc_err err;
    /* A timer that fires too early looks again; so it is not moved for every byte. */
    int64_t due_ns = due < 0 ? 0 : tci_ms_to_ns((uint64_t)due);
    if (due == INT64_MAX || (tci_timer_is_armed(&c->timer) && c->timer.due_ns <= due_ns))
        return;
    if (tci_timer_start_at(&c->timer, due_ns, &err) < 0)
        give_up_later(c);
}

void tci_httpd_leave(tci_httpd_conn *c)
{
    if (--c->depth > 0)
        return;
    if (!c->is_dead)
        set_interest(c);
    if (!c->is_dead)
        set_timer(c);
    if (!c->is_dead)
        return;
    tci_http1_free(c->reader);
    tci_http_out_done(&c->out);
    tci_free(c->in);
    tci_free(c);
}

static void on_timer(tci_timer *timer)
{
    tci_httpd_conn *c = TCI_CONTAINER(timer, tci_httpd_conn, timer);
    tci_httpd_enter(c);
    if (next_deadline_ms(c) <= tci_loop_now_ms(c->httpd->loop)) {
        bool is_slow_reader = !tci_http_out_is_empty(&c->out);
        bool is_slow_writer = c->phase == TCI_HTTPD_HEAD || c->phase == TCI_HTTPD_REQUEST;
        if (is_slow_writer && !is_slow_reader && !tci_http1_is_between(c->reader))
            tci_httpd_refuse(c, 408);
        else
            tci_httpd_kill(c);
    }
    tci_httpd_leave(c);
}

static void on_later(tci_later *later)
{
    tci_httpd_conn *c = TCI_CONTAINER(later, tci_httpd_conn, later);
    tci_httpd_enter(c);
    if (c->is_lost)
        tci_httpd_kill(c);
    else
        tci_httpd_flush(c);
    tci_httpd_leave(c);
}

/* ---- parsing ---- */

void tci_httpd_set_phase(tci_httpd_conn *c, tci_httpd_phase phase)
{
    c->phase = phase;
    c->since_ms = tci_loop_now_ms(c->httpd->loop);
    tci_link_remove(&c->idle_link);
    if (phase == TCI_HTTPD_IDLE)
        tci_list_push_back(&c->httpd->idle, &c->idle_link);
    else if (phase != TCI_HTTPD_REQUEST)
        tci_list_push_back(&c->httpd->slow, &c->idle_link);
}

static void begin_request(tci_httpd_conn *c)
{
    const tci_http_head *head = tci_http1_head(c->reader);
    tc_str host;
    size_t nhosts = 0;
    tci_httpd_set_phase(c, TCI_HTTPD_REQUEST);
    c->read_ms = c->since_ms;
    c->body_due_ms = 0;
    c->body_ended = c->got_body = c->is_paused = false;
    c->closes = c->httpd->is_draining || !head->keeps_alive || head->is_upgrade;
    c->owes_continue = head->wants_continue && head->has_body;
    c->ndiscarded = 0;
    memset(&c->req, 0, sizeof c->req);
    c->req.conn = c;
    if (head->minor == 1 && !tci_http_head_get(head, TC_STR("host"), &host, &nhosts)) {
        tci_httpd_refuse(c, 400);
        return;
    }
    c->req.is_active = true;
    c->httpd->nrequests++;
    c->httpd->options.handler->on_head(&c->req);
}

/* The client waits for a word before it sends the body: now the handler wants it. */
static void send_continue(tci_httpd_conn *c)
{
    if (!c->owes_continue || c->is_dead || c->is_paused || !c->req.is_active || c->req.is_answered)
        return;
    c->owes_continue = false;
    if (c->got_body)
        return;
    tci_http1_put_status(&c->out.buf, 100);
    tci_http1_put_end(&c->out.buf);
    tci_httpd_flush(c);
}

static void take_body(tci_httpd_conn *c, tc_str bytes)
{
    const tci_httpd_handler *handler = c->httpd->options.handler;
    c->got_body = true;
    if (c->req.is_active && !c->req.is_answered) {
        if (handler->on_body != NULL)
            handler->on_body(&c->req, bytes);
        return;
    }
    c->ndiscarded += bytes.len;
    if (c->ndiscarded > TCI_HTTPD_LINGER_MAX)
        tci_httpd_kill(c);
}

static void take_end(tci_httpd_conn *c)
{
    const tci_httpd_handler *handler = c->httpd->options.handler;
    c->body_ended = true;
    if (c->phase == TCI_HTTPD_REQUEST)
        tci_link_remove(&c->idle_link); /* it was late no more */
    if (c->phase == TCI_HTTPD_DISCARD)
        tci_httpd_set_phase(c, TCI_HTTPD_IDLE);
    else if (c->req.is_active && !c->req.is_answered && handler->on_end != NULL)
        handler->on_end(&c->req);
}

static void refuse_for(tci_httpd_conn *c, const tc_err *err)
{
    unsigned status = 400;
    if (c->phase == TCI_HTTPD_HEAD && err->code == TC_E_TOO_BIG)
        status = 431;
    if (c->phase == TCI_HTTPD_HEAD && err->code == TC_E_UNSUPPORTED)
        status = tci_http1_head(c->reader)->nheaders == 0 ? 505 : 501;
    if (c->phase == TCI_HTTPD_DISCARD || err->code == TC_E_NO_MEMORY)
        tci_httpd_kill(c);
    else
        tci_httpd_refuse(c, status);
}

/* One event. false: nothing more to do with what is in the buffer. */
static bool step(tci_httpd_conn *c)
{
    tc_str in = tci_str_of(c->in + c->in_at, c->in_len - c->in_at), body;
    tci_http1_event event = TCI_HTTP1_MORE;
    size_t used = 0;
    tc_err err;
    bool is_refused = c->phase == TCI_HTTPD_REQUEST && !c->req.is_active;
    if (c->phase == TCI_HTTPD_LINGER || is_refused) {
        c->ndiscarded += in.len;
        c->in_at = c->in_len;
        if (c->ndiscarded > TCI_HTTPD_LINGER_MAX)
            tci_httpd_kill(c);
        return false;
    }
    if (c->phase == TCI_HTTPD_REQUEST && (c->is_paused || c->body_ended))
        return false;
    if (c->phase == TCI_HTTPD_IDLE) {
        if (in.len == 0)
            return false;
        tci_httpd_set_phase(c, TCI_HTTPD_HEAD);
    }
    if (tci_http1_next(c->reader, in, &used, &event, &body, &err) < 0) {
        refuse_for(c, &err);
        return false;
    }
    c->in_at += used;
    switch (event) {
    case TCI_HTTP1_MORE:
        send_continue(c);
        return false;
    case TCI_HTTP1_HEAD:
        begin_request(c);
        break;
    case TCI_HTTP1_BODY:
        take_body(c, body);
        break;
    case TCI_HTTP1_END:
        take_end(c);
        break;
    case TCI_HTTP1_UPGRADED: /* nobody took it: as if the request had no more to say */
        take_end(c);
        break;
    }
    return !c->is_dead;
}

void tci_httpd_process(tci_httpd_conn *c)
{
    if (c->in_process || c->is_dead)
        return;
    c->in_process = true;
    while (!c->is_dead && step(c))
        continue;
    c->in_process = false;
}

void tci_httpd_process_soon(tci_httpd_conn *c)
{
    if (!c->in_process && !c->is_dead) /* else the parser above us goes on by itself */
        tci_loop_later(c->httpd->loop, &c->parse);
}

static void on_parse(tci_later *later)
{
    tci_httpd_conn *c = TCI_CONTAINER(later, tci_httpd_conn, parse);
    tci_httpd_enter(c);
    tci_httpd_process(c);
    tci_httpd_leave(c);
}

/* ---- reading ---- */

/* Room to read into: the front is moved away or the buffer grown when that pays. */
static int make_room(tci_httpd_conn *c, tc_err *err)
{
    size_t kept = c->in_len - c->in_at;
    const tci_http_head *head = tci_http1_head(c->reader);
    bool is_bulk = c->phase == TCI_HTTPD_REQUEST && !c->body_ended && head->has_body &&
                   (head->is_chunked || head->content_length > TCI_HTTPD_IN_MIN);
    size_t cap = is_bulk ? TCI_HTTPD_IN_MAX : TCI_HTTPD_IN_MIN;
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

static void on_peer_end(tci_httpd_conn *c)
{
    /* A peer that ends its side while it waits for an answer is taken to be gone: that is what a
     * closed socket looks like until something is written to it. */
    tci_httpd_kill(c);
}

static void read_some(tci_httpd_conn *c)
{
    tc_err err;
    for (int i = 0; i < READS_PER_TURN && !c->is_dead && !c->is_paused; i++) {
        size_t n = 0;
        if (make_room(c, &err) < 0) {
            tci_httpd_kill(c);
            return;
        }
        if (c->in_len == c->in_cap)
            return;
        int rc = tci_stream_read(c->stream, c->in + c->in_len, c->in_cap - c->in_len, &n, &err);
        if (rc < 0) {
            on_peer_end(c);
            return;
        }
        if (n == 0)
            return;
        c->in_len += n;
        c->read_ms = tci_loop_now_ms(c->httpd->loop);
        tci_httpd_process(c);
    }
}

static void on_ready(tci_stream *stream, unsigned events)
{
    tci_httpd_conn *c = stream->user;
    tci_httpd_enter(c);
    if (events & TCI_WATCH_WRITE)
        tci_httpd_flush(c);
    if ((events & TCI_WATCH_READ) && !c->is_dead)
        read_some(c);
    tci_httpd_leave(c);
}

void tci_httpd_pause(tci_httpd_req *req)
{
    if (!req->is_answered)
        req->conn->is_paused = true;
}

void tci_httpd_resume(tci_httpd_req *req)
{
    tci_httpd_conn *c = req->conn;
    if (!c->is_paused)
        return;
    tci_httpd_enter(c);
    c->is_paused = false;
    c->read_ms = tci_loop_now_ms(c->httpd->loop);
    tci_httpd_process_soon(c);
    tci_httpd_leave(c);
}

void tci_httpd_body_within(tci_httpd_req *req, int64_t ms)
{
    tci_httpd_conn *c = req->conn;
    if (req->is_answered || !tci_http1_head(c->reader)->has_body)
        return;
    c->body_due_ms = tci_loop_now_ms(c->httpd->loop) + ms;
    tci_link_remove(&c->idle_link);
    tci_list_push_back(&c->httpd->slow, &c->idle_link);
}

int tci_httpd_take_stream(tci_httpd_req *req, tci_stream **ret_stream, tci_buf *rest, tc_err *err)
{
    tci_httpd_conn *c = req->conn;
    if (req->is_answered || c->got_body || !tci_http1_head(c->reader)->is_upgrade)
        return tc_err_set(err, TC_E_CONFLICT, "the connection cannot change its protocol now");
    tci_buf_append(rest, c->in + c->in_at, c->in_len - c->in_at);
    if (!tci_buf_ok(rest))
        return tci_buf_error(rest, err);
    tci_stream *stream = c->stream;
    int rc = tci_stream_want(stream, 0, err); /* the new owner will ask for what it wants */
    if (rc < 0)
        return rc;
    tci_httpd_enter(c);
    stream->on_ready = NULL;
    stream->user = NULL;
    c->stream = NULL;
    c->req.is_active = false;
    c->httpd->nrequests--;
    let_go(c);
    check_drained(c->httpd);
    *ret_stream = stream;
    tci_httpd_leave(c);
    return 0;
}

/* ---- the server ---- */

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value == 0 ? otherwise : value;
}

/* A handler may end further requests in its on_done, so the list is asked anew each time. */
static void kill_all(tci_httpd *httpd)
{
    for (tci_link *k = tci_list_first(&httpd->conns); k != NULL;
         k = tci_list_first(&httpd->conns)) {
        tci_httpd_conn *c = TCI_CONTAINER(k, tci_httpd_conn, link);
        tci_httpd_enter(c);
        tci_httpd_kill(c);
        tci_httpd_leave(c);
    }
}

static void on_drain_timer(tci_timer *timer)
{
    tci_httpd *httpd = TCI_CONTAINER(timer, tci_httpd, drain_timer);
    kill_all(httpd);
    httpd->drain_is_clean = false;
    tci_loop_later(httpd->loop, &httpd->drain_later);
}

static void on_drain_later(tci_later *later)
{
    tci_httpd *httpd = TCI_CONTAINER(later, tci_httpd, drain_later);
    void (*cb)(tci_httpd *, bool) = httpd->drain_cb;
    tci_timer_stop(&httpd->drain_timer);
    httpd->drain_cb = NULL;
    if (cb != NULL)
        cb(httpd, httpd->drain_is_clean);
}

int tci_httpd_new(tci_loop *loop, const tci_httpd_options *options, tci_httpd **ret_httpd,
                  tc_err *err)
{
    tci_loop_assert(loop);
    tci_httpd *httpd = tci_new(tci_httpd);
    if (httpd == NULL)
        return tci_err_no_memory(err);
    httpd->loop = loop;
    httpd->options = *options;
    tci_httpd_options *o = &httpd->options;
    o->max_connections = o->max_connections > 0 ? o->max_connections : CONNECTIONS_DEFAULT;
    o->head_timeout_ms = or_default(o->head_timeout_ms, 10000);
    o->idle_timeout_ms = or_default(o->idle_timeout_ms, 60000);
    o->body_timeout_ms = or_default(o->body_timeout_ms, 60000);
    o->write_timeout_ms = or_default(o->write_timeout_ms, 30000);
    tci_list_init(&httpd->conns);
    tci_list_init(&httpd->idle);
    tci_list_init(&httpd->slow);
    tci_timer_init(&httpd->drain_timer, loop, on_drain_timer);
    httpd->drain_later.cb = on_drain_later;
    httpd->date_sec = INT64_MIN;
    if (options->server != NULL) {
        httpd->server = tci_mem_cstr(tci_str(options->server));
        if (httpd->server == NULL) {
            tci_free(httpd);
            return tci_err_no_memory(err);
        }
    }
    *ret_httpd = httpd;
    return 0;
}

void tci_httpd_free(tci_httpd *httpd)
{
    if (httpd == NULL)
        return;
    httpd->drain_cb = NULL;
    kill_all(httpd);
    tci_timer_stop(&httpd->drain_timer);
    tci_later_cancel(&httpd->drain_later);
    tci_free(httpd->server);
    tci_free(httpd);
}

/* At the limit: the connection that has been idle longest goes, or the one that has kept us waiting longest:
 * whoever opens many and says little on each must not keep others out. false: all are at work. */
static bool make_way(tci_httpd *httpd)
{
    tci_link *k = tci_list_first(&httpd->idle);
    if (k == NULL)
        k = tci_list_first(&httpd->slow);
    if (k == NULL)
        return false;
    tci_httpd_conn *c = TCI_CONTAINER(k, tci_httpd_conn, idle_link);
    tci_httpd_enter(c);
    tci_httpd_kill(c);
    tci_httpd_leave(c);
    return true;
}

void tci_httpd_accept_own(tci_httpd *httpd, tci_stream *stream)
{
    static const tci_addr nobody = {.family = TCI_ADDR_NONE};
    tci_httpd_accept_from_own(httpd, stream, &nobody);
}

void tci_httpd_accept_from_own(tci_httpd *httpd, tci_stream *stream, const tci_addr *peer)
{
    tc_err err;
    tci_loop_assert(httpd->loop);
    if (httpd->is_draining ||
        (httpd->nconns >= httpd->options.max_connections && !make_way(httpd))) {
        tci_stream_close(stream);
        return;
    }
    tci_httpd_conn *c = tci_new(tci_httpd_conn);
    if (c == NULL || tci_http1_new(TCI_HTTP1_REQUEST, &c->reader, &err) < 0) {
        tci_free(c);
        tci_stream_close(stream);
        return;
    }
    c->httpd = httpd;
    c->stream = stream;
    c->peer = *peer;
    c->req.conn = c;
    tci_http1_set_flags(c->reader, TCI_HTTP1_UPGRADE);
    tci_http_out_init(&c->out);
    tci_timer_init(&c->timer, httpd->loop, on_timer);
    c->later.cb = on_later;
    c->parse.cb = on_parse;
    tci_list_push_back(&httpd->conns, &c->link);
    httpd->nconns++;
    stream->user = c;
    stream->on_ready = on_ready;
    /* Until the first request is there the head's limit counts, not the idle one's. */
    tci_httpd_set_phase(c, TCI_HTTPD_HEAD);
    c->read_ms = c->write_ms = c->since_ms;
    tci_httpd_enter(c);
    tci_httpd_leave(c);
}

void tci_httpd_drain(tci_httpd *httpd, int64_t timeout_ms,
                     void (*cb)(tci_httpd *httpd, bool is_clean))
{
    tc_err err;
    tci_loop_assert(httpd->loop);
    httpd->is_draining = true;
    httpd->drain_cb = cb;
    TCI_LIST_EACH (&httpd->conns, k) {
        tci_httpd_conn *c = TCI_CONTAINER(k, tci_httpd_conn, link);
        tci_httpd_enter(c);
        c->closes = true;
        if (c->phase != TCI_HTTPD_REQUEST &&
            (c->phase != TCI_HTTPD_HEAD || tci_http1_is_between(c->reader)))
            tci_httpd_kill(c);
        tci_httpd_leave(c);
    }
    if (httpd->nconns == 0)
        check_drained(httpd);
    else if (tci_timer_start(&httpd->drain_timer, timeout_ms, &err) < 0)
        on_drain_timer(&httpd->drain_timer);
}

size_t tci_httpd_nconnections(const tci_httpd *httpd)
{
    return httpd->nconns;
}

size_t tci_httpd_nrequests(const tci_httpd *httpd)
{
    return httpd->nrequests;
}

void *tci_httpd_user(const tci_httpd *httpd)
{
    return httpd->options.user;
}

const tci_http_head *tci_httpd_head(const tci_httpd_req *req)
{
    return tci_http1_head(req->conn->reader);
}

tci_httpd *tci_httpd_of(const tci_httpd_req *req)
{
    return req->conn->httpd;
}

const tci_addr *tci_httpd_peer(const tci_httpd_req *req)
{
    return &req->conn->peer;
}

void tci_httpd_set_data(tci_httpd_req *req, void *data)
{
    req->data = data;
}

void *tci_httpd_data(const tci_httpd_req *req)
{
    return req->data;
}
