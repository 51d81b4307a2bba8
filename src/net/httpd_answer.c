/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server's answers: heads, fixed and streamed bodies, and what becomes of the connection
 * after them. Loop thread. Invariant: is_answered is set before the first byte of a final head is
 * made, and tci_httpd_finish runs once per active request. */
#include "net/httpd_int.h"
#include "base/num.h"
#include "plat/clock.h"
#include <stdio.h>

enum { COPY_MAX = 8 * 1024 }; /* a body up to this goes out in one piece with its head */

/* ---- the head ---- */

/* "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 section 5.6.7). */
static void date_text(int64_t sec, char *out, size_t size)
{
    static const char days[] = "ThuFriSatSunMonTueWed"; /* day 0 of the epoch was a Thursday */
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int64_t day = sec / 86400, of_day = sec % 86400;
    /* Years that begin in March put the leap day last; eras of 400 years repeat. */
    int64_t z = day + 719468, era = z / 146097, doe = z % 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    int64_t mday = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 2 : mp - 10;
    int64_t year = yoe + era * 400 + (month < 2);
    (void)snprintf(out, size, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + day % 7 * 3,
                   (int)mday, months + month * 3, (int)year, (int)(of_day / 3600),
                   (int)(of_day / 60 % 60), (int)(of_day % 60)); /* 29 characters */
}

static tc_str date_now(tci_httpd *httpd)
{
    int64_t sec = tci_clock_now().sec;
    if (sec != httpd->date_sec && sec >= 0) {
        httpd->date_sec = sec;
        date_text(sec, httpd->date, sizeof httpd->date);
    }
    return tci_str(httpd->date);
}

static bool is_ours(tc_str name)
{
    static const char *const names[] = {"content-length", "transfer-encoding", "connection",
                                        "server", "date"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++)
        if (tci_str_eq_nocase(name, tci_str(names[i])))
            return true;
    return false;
}

/* Is what remains of the body short enough to read it for the connection's sake? */
static bool rest_is_short(const tci_httpd_conn *c)
{
    const tci_http_head *head = tci_http1_head(c->reader);
    if (c->body_ended || !head->has_body)
        return true;
    return !c->owes_continue && !head->is_chunked && head->content_length <= TCI_HTTPD_DISCARD_MAX;
}

/* length: bytes of the body, or TCI_HTTPD_CHUNKED. */
static int put_head(tci_httpd_conn *c, unsigned status, const tci_http_header *headers,
                    size_t nheaders, uint64_t length, tc_err *err)
{
    tci_buf *b = &c->out.buf;
    const tci_http_head *head = tci_http1_head(c->reader);
    if (!rest_is_short(c))
        c->closes = true;
    tci_http1_put_status(b, status);
    tci_buf_append_str(b, TC_STR("Date: "));
    tci_buf_append_str(b, date_now(c->httpd));
    tci_buf_append_str(b, TC_STR("\r\n"));
    if (c->httpd->server != NULL) {
        int rc = tci_http1_put_header(b, TC_STR("Server"), tci_str(c->httpd->server), err);
        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < nheaders; i++) {
        if (is_ours(headers[i].name))
            return tc_err_set(err, TC_E_INVALID, "HTTP header '%.*s' is the server's own",
                              TC_STR_ARG(headers[i].name));
        int rc = tci_http1_put_header(b, headers[i].name, headers[i].value, err);
        if (rc < 0)
            return rc;
    }
    if (length == TCI_HTTPD_CHUNKED)
        tci_buf_append_str(b, TC_STR("Transfer-Encoding: chunked\r\n"));
    else if (status != 204 && status != 304) {
        tci_buf_append_str(b, TC_STR("Content-Length: "));
        tci_buf_append_u64(b, length);
        tci_buf_append_str(b, TC_STR("\r\n"));
    }
    if (c->closes)
        tci_buf_append_str(b, TC_STR("Connection: close\r\n"));
    else if (head->minor == 0)
        tci_buf_append_str(b, TC_STR("Connection: keep-alive\r\n"));
    tci_http1_put_end(b);
    return tci_buf_error(b, err);
}

/* ---- after the answer ---- */

/* The peer must be able to read the answer before it learns that we are gone: say that nothing more
 * comes, then read what it still sends for a while. */
static void begin_linger(tci_httpd_conn *c)
{
    tc_err err;
    bool is_all_read = c->body_ended || !tci_http1_head(c->reader)->has_body;
    if (is_all_read && c->in_at == c->in_len) {
        tci_httpd_kill(c);
        return;
    }
    tci_httpd_set_phase(c, TCI_HTTPD_LINGER);
    c->ndiscarded = 0;
    c->is_paused = false;
    if (tci_stream_shutdown_write(c->stream, &err) < 0)
        tci_httpd_kill(c);
}

void tci_httpd_finish(tci_httpd_conn *c, bool is_whole)
{
    const tci_httpd_handler *handler = c->httpd->options.handler;
    tci_httpd *httpd = c->httpd;
    c->req.is_active = false;
    c->req.is_answered = true;
    httpd->nrequests--;
    if (handler->on_done != NULL)
        handler->on_done(&c->req, is_whole);
    if (c->is_dead)
        return;
    c->is_paused = false;
    if (!is_whole) {
        tci_httpd_kill(c);
        return;
    }
    if (c->closes || httpd->is_draining) {
        begin_linger(c);
        return;
    }
    tci_httpd_set_phase(c, c->body_ended ? TCI_HTTPD_IDLE : TCI_HTTPD_DISCARD);
    tci_httpd_process_soon(c);
}

/* Everything pending is out. */
static void on_flushed(tci_httpd_conn *c)
{
    tci_httpd_req *req = &c->req;
    if (!req->is_active) {
        if (req->is_answered && c->phase == TCI_HTTPD_REQUEST)
            begin_linger(c); /* an answer of our own, see refuse */
        return;
    }
    if (!req->is_answered)
        return; /* 100 Continue */
    if (!req->is_streaming || (req->is_ending && !req->is_pending)) {
        tci_httpd_finish(c, !req->is_streaming || req->is_chunked || req->skips_body ||
                                req->left == 0);
        return;
    }
    if (!req->is_pending)
        return;
    req->is_pending = false;
    if (req->is_ending) {
        req->is_ending = false;
        tci_httpd_stream_end(req);
        return;
    }
    c->httpd->options.handler->on_writable(req);
}

/* false: the connection is lost. */
static bool write_out(tci_httpd_conn *c)
{
    bool wrote = false;
    tc_err err;
    bool was_empty = tci_http_out_is_empty(&c->out);
    if (tci_http_out_write(&c->out, c->stream, &wrote, &err) < 0) {
        c->is_lost = true;
        return false;
    }
    if (wrote || was_empty)
        c->write_ms = tci_loop_now_ms(c->httpd->loop);
    return true;
}

void tci_httpd_flush(tci_httpd_conn *c)
{
    if (c->is_dead)
        return;
    if (!write_out(c)) {
        tci_httpd_kill(c);
        return;
    }
    if (tci_http_out_is_empty(&c->out))
        on_flushed(c);
}

void tci_httpd_refuse(tci_httpd_conn *c, unsigned status)
{
    tc_err err;
    bool was_active = c->req.is_active, is_begun = c->req.is_answered;
    if (was_active && is_begun) {
        tci_httpd_kill(c);
        return;
    }
    c->closes = true;
    tci_httpd_set_phase(c, TCI_HTTPD_REQUEST);
    c->is_paused = false;
    if (put_head(c, status, NULL, 0, 0, &err) < 0) {
        tci_httpd_kill(c);
        return;
    }
    c->req.is_answered = true;
    if (was_active) {
        c->req.is_active = false;
        c->httpd->nrequests--;
        if (c->httpd->options.handler->on_done != NULL)
            c->httpd->options.handler->on_done(&c->req, false);
    }
    if (!c->is_dead)
        tci_httpd_flush(c);
}

/* ---- fixed bodies ---- */

static int check_unanswered(const tci_httpd_req *req, tc_err *err)
{
    if (req->is_answered)
        return tc_err_set(err, TC_E_CONFLICT, "the request is answered already");
    return 0;
}

static bool has_no_body(const tci_httpd_req *req, unsigned status)
{
    return status == 204 || status == 304 ||
           tci_str_eq(tci_httpd_head(req)->method, TC_STR("HEAD"));
}

/* The head is in the buffer; an error ends the connection. */
static int start_answer(tci_httpd_req *req, unsigned status, const tci_http_header *headers,
                        size_t nheaders, uint64_t length, tc_err *err)
{
    tci_httpd_conn *c = req->conn;
    TC_ASSERT(status >= 200);
    req->is_answered = true;
    req->skips_body = has_no_body(req, status);
    c->is_paused = false;
    /* What is pending is at most a "100 Continue" that the peer was slow to take. */
    c->write_ms = tci_loop_now_ms(c->httpd->loop);
    int rc = put_head(c, status, headers, nheaders, length, err);
    if (rc < 0)
        tci_httpd_kill(c);
    return rc;
}

int tci_httpd_respond(tci_httpd_req *req, unsigned status, const tci_http_header *headers,
                      size_t nheaders, tc_str body, tc_err *err)
{
    tci_httpd_conn *c = req->conn;
    int rc = check_unanswered(req, err);
    if (rc < 0)
        return rc;
    tci_httpd_enter(c);
    rc = start_answer(req, status, headers, nheaders, body.len, err);
    if (rc == 0 && !req->skips_body) {
        if (body.len <= COPY_MAX)
            tci_buf_append_str(&c->out.buf, body);
        else
            tci_http_out_body(&c->out, body);
    }
    if (rc == 0 && !write_out(c))
        tci_httpd_kill(c);
    else if (rc == 0 && tci_http_out_keep(&c->out, err) < 0) {
        rc = TC_E_NO_MEMORY;
        tci_httpd_kill(c);
    } else if (rc == 0 && tci_http_out_is_empty(&c->out))
        on_flushed(c);
    if (rc == 0 && !c->is_dead)
        tci_httpd_process_soon(c); /* the rest of the body is dropped from now on */
    tci_httpd_leave(c);
    return rc;
}

int tci_httpd_respond_own(tci_httpd_req *req, unsigned status, const tci_http_header *headers,
                          size_t nheaders, tci_buf *body, tc_err *err)
{
    tci_httpd_conn *c = req->conn;
    tci_buf taken = *body;
    tci_buf_init(body, taken.max);
    int rc = check_unanswered(req, err);
    if (rc < 0) {
        tci_buf_done(&taken);
        return rc;
    }
    tci_httpd_enter(c);
    rc = start_answer(req, status, headers, nheaders, taken.len, err);
    if (rc == 0) {
        tci_buf_done(&c->out.own);
        c->out.own = taken;
        if (!req->skips_body)
            tci_http_out_body(&c->out, tci_buf_str(&taken));
        tci_httpd_flush(c);
    } else
        tci_buf_done(&taken);
    if (rc == 0 && !c->is_dead)
        tci_httpd_process_soon(c);
    tci_httpd_leave(c);
    return rc;
}

/* ---- streamed bodies ---- */

int tci_httpd_stream_start(tci_httpd_req *req, unsigned status, const tci_http_header *headers,
                           size_t nheaders, uint64_t length, tc_err *err)
{
    tci_httpd_conn *c = req->conn;
    int rc = check_unanswered(req, err);
    if (rc < 0)
        return rc;
    if (length == TCI_HTTPD_CHUNKED && tci_httpd_head(req)->minor == 0) {
        rc = tci_httpd_respond(req, 505, NULL, 0, tci_str(NULL), err);
        if (rc < 0)
            return rc;
        return tc_err_set(err, TC_E_UNSUPPORTED, "an HTTP/1.0 client cannot take a stream");
    }
    tci_httpd_enter(c);
    rc = start_answer(req, status, headers, nheaders, length, err);
    if (rc == 0) {
        req->is_streaming = true;
        req->is_chunked = length == TCI_HTTPD_CHUNKED;
        req->left = length;
        c->out.nwritten = 0;
        tci_loop_later(c->httpd->loop, &c->later);
        tci_httpd_process_soon(c);
    }
    tci_httpd_leave(c);
    return rc;
}

static int check_piece(tci_httpd_req *req, const tci_iovec *parts, size_t nparts,
                       uint64_t *ret_total, tc_err *err)
{
    uint64_t total = 0;
    if (!req->is_streaming || req->is_pending || req->is_ending || !req->is_active)
        return tc_err_set(err, TC_E_CONFLICT, "no piece of a body is expected now");
    if (req->conn->is_lost || req->conn->is_dead)
        return tc_err_set(err, TC_E_CLOSED, "the peer is gone");
    if (nparts > TCI_HTTPD_PARTS_MAX || !tci_http_parts_total(parts, nparts, &total) ||
        (!req->is_chunked && total > req->left))
        return tc_err_set(err, TC_E_TOO_BIG, "the piece is longer than the body may be");
    *ret_total = total;
    return 0;
}

int tci_httpd_stream_write(tci_httpd_req *req, const tci_iovec *parts, size_t nparts,
                           bool *ret_is_pending, tc_err *err)
{
    tci_httpd_conn *c = req->conn;
    uint64_t total = 0;
    int rc = check_piece(req, parts, nparts, &total, err);
    if (rc < 0)
        return rc;
    if (!req->is_chunked)
        req->left -= total;
    *ret_is_pending = false;
    if (total == 0 || req->skips_body)
        return 0;
    tci_httpd_enter(c);
    bool was_empty = tci_http_out_is_empty(&c->out);
    if (was_empty)
        c->write_ms = tci_loop_now_ms(c->httpd->loop);
    tci_http_out_piece(&c->out, parts, nparts, total, req->is_chunked);
    if (!write_out(c)) {
        tci_loop_later(c->httpd->loop, &c->later);
        rc = tc_err_set(err, TC_E_CLOSED, "the peer is gone");
    } else {
        /* One fast reader must not keep the loop from the others: now and then a piece that is
         * written counts as pending until the next turn. */
        bool is_turn_over = c->out.nwritten >= TCI_HTTP_OUT_TURN_MAX;
        if (is_turn_over)
            c->out.nwritten = 0;
        req->is_pending = is_turn_over || !tci_http_out_is_empty(&c->out);
        *ret_is_pending = req->is_pending;
    }
    tci_httpd_leave(c);
    return rc;
}

void tci_httpd_stream_end(tci_httpd_req *req)
{
    tci_httpd_conn *c = req->conn;
    TC_ASSERT(req->is_streaming && !req->is_ending);
    req->is_ending = true;
    if (req->is_pending || c->is_lost || c->is_dead)
        return; /* goes on when the piece is out; a lost connection ends on its own */
    tci_httpd_enter(c);
    if (req->is_chunked && !req->skips_body)
        tci_buf_append_str(&c->out.buf, TCI_HTTP1_LAST_CHUNK);
    tci_httpd_flush(c);
    tci_httpd_leave(c);
}

void tci_httpd_abort(tci_httpd_req *req)
{
    tci_httpd_conn *c = req->conn;
    tci_httpd_enter(c);
    tci_httpd_kill(c);
    tci_httpd_leave(c);
}
