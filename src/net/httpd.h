/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 server side of any stream that somebody accepted. Requests of a connection are served
 * one at a time, in order; a body is handed over straight from the read buffer, an answer written
 * straight from the handler's memory. Loop thread only. */
#ifndef TCI_NET_HTTPD_H
#define TCI_NET_HTTPD_H

#include "net/stream.h"
#include "plat/socket.h"
#include "wire/http1.h"

typedef struct tci_httpd tci_httpd;
typedef struct tci_httpd_req tci_httpd_req;

/* What a program does with requests. The order for one request:
 *   on_head, then on_body any number of times and on_end (only if the body is read to its end),
 *   then, or at any point before, exactly one on_done; nothing after it.
 * The handler answers whenever it likes from on_head on. An answer given before the body has ended
 * discards the rest of the body (no further on_body, no on_end).
 *
 *   on_head      head of a request; borrowed until on_done. Without an answer and without
 *                tci_httpd_pause in here the body is read ("100 Continue" goes out when asked for)
 *   on_body      bytes, borrowed for the call; when the handler pauses in here they stay valid
 *                until it resumes, so a worker may use them in place. NULL: bodies are dropped
 *   on_end       the body is complete (comes also when there is none). May be NULL
 *   on_writable  the streamed piece that was pending is written: its memory is free, the next may
 *                come. NULL when tci_httpd_stream_* is not used
 *   on_done      over. is_whole: the whole answer was handed to the system; else the peer went
 *                away (ending its sending side counts as that), time ran out, or
 *                tci_httpd_abort. req is gone after it. May be NULL */
typedef struct tci_httpd_handler {
    void (*on_head)(tci_httpd_req *req);
    void (*on_body)(tci_httpd_req *req, tc_str bytes);
    void (*on_end)(tci_httpd_req *req);
    void (*on_writable)(tci_httpd_req *req);
    void (*on_done)(tci_httpd_req *req, bool is_whole);
} tci_httpd_handler;

typedef struct tci_httpd_options {
    const tci_httpd_handler *handler; /* static storage */
    void *user;                       /* the program's, see tci_httpd_user */
    const char *server;               /* the Server field, "telechir/0.1.0"; NULL: none. Copied */
    size_t max_connections; /* 0: 256. At the limit the longest idle one makes room, or the one that
                               has let us wait longest for a head or a short body, or the new
                               one is closed */
    /* Milliseconds; 0 takes the default, -1 switches off. */
    int64_t head_timeout_ms;  /* 10 s: from the first byte (or the accept) to the end of the head */
    int64_t idle_timeout_ms;  /* 60 s: between requests */
    int64_t body_timeout_ms;  /* 60 s: no body byte arrived while we were reading */
    int64_t write_timeout_ms; /* 30 s: not one byte of the answer went out while some was pending */
} tci_httpd_options;

int tci_httpd_new(tci_loop *loop, const tci_httpd_options *options, tci_httpd **ret_httpd,
                  tc_err *err) TC_CHECKED;
/* Abort everything that still runs (each request gets on_done), close all connections. NULL is
 * fine. Not from inside a handler. */
void tci_httpd_free(tci_httpd *httpd);

/* Serve an accepted stream (TCP, TLS, a pipe). Takes it over, also when it closes it at once
 * because the limit is reached or memory is short. */
void tci_httpd_accept_own(tci_httpd *httpd, tci_stream *stream);
/* The same, and requests of it know where they came from: peer is copied. */
void tci_httpd_accept_from_own(tci_httpd *httpd, tci_stream *stream, const tci_addr *peer);

/* Graceful end: idle connections close, running requests finish (their answers say
 * Connection: close), streams accepted from now on are closed. cb once none is left or timeout_ms
 * passed (then the rest is aborted first and is_clean is false); never from inside this call. */
void tci_httpd_drain(tci_httpd *httpd, int64_t timeout_ms,
                     void (*cb)(tci_httpd *httpd, bool is_clean));

size_t tci_httpd_nconnections(const tci_httpd *httpd);
size_t tci_httpd_nrequests(const tci_httpd *httpd); /* heads taken, not yet done */
void *tci_httpd_user(const tci_httpd *httpd);

/* --- a request, valid until its on_done returns --- */

const tci_http_head *tci_httpd_head(const tci_httpd_req *req);
tci_httpd *tci_httpd_of(const tci_httpd_req *req);
/* Whose connection it came on; TCI_ADDR_NONE when nobody said. Borrowed until on_done. */
const tci_addr *tci_httpd_peer(const tci_httpd_req *req);
/* The handler's own pointer; NULL at first. */
void tci_httpd_set_data(tci_httpd_req *req, void *data);
void *tci_httpd_data(const tci_httpd_req *req);

/* Stop reading this connection; go on. A handler that is slower than the peer pauses in on_body.
 * While paused the body timeout does not run; a peer that goes away is noticed after resume or on
 * writing. Resume may deliver on_body and on_end before it returns. */
void tci_httpd_pause(tci_httpd_req *req);
void tci_httpd_resume(tci_httpd_req *req);

/* In on_head, for a body that is short: all of it must be here within ms, however steadily it drips, and
 * while it is not, the connection may have to make room for others. */
void tci_httpd_body_within(tci_httpd_req *req, int64_t ms);

/* The whole answer. Content-Length, Server, Date and, as needed, Connection are added; headers may
 * not hold these, nor Transfer-Encoding.
 *
 *   body  borrowed for the call (what cannot be written at once is copied); the _own form takes
 *         the buffer's contents over, always, and is for large bodies. 204 and 304 take none; for
 *         a HEAD request the length is sent without the body
 *
 * Once per request; on_done may come before it returns, so nothing may touch req afterwards.
 * Errors: CONFLICT (answered already); INVALID (header) and NO_MEMORY: the connection is closed,
 * on_done was called. */
int tci_httpd_respond(tci_httpd_req *req, unsigned status, const tci_http_header *headers,
                      size_t nheaders, tc_str body, tc_err *err) TC_CHECKED;
int tci_httpd_respond_own(tci_httpd_req *req, unsigned status, const tci_http_header *headers,
                          size_t nheaders, tci_buf *body, tc_err *err) TC_CHECKED;

enum { TCI_HTTPD_PARTS_MAX = 8 };
#define TCI_HTTPD_CHUNKED UINT64_MAX

/* A streamed answer: start, write any number of times, end. length: bytes in all, or
 * TCI_HTTPD_CHUNKED. An HTTP/1.0 peer cannot take chunks: it gets 505 and start returns
 * UNSUPPORTED. Errors of start as for respond. */
int tci_httpd_stream_start(tci_httpd_req *req, unsigned status, const tci_http_header *headers,
                           size_t nheaders, uint64_t length, tc_err *err) TC_CHECKED;
/* One piece, of up to TCI_HTTPD_PARTS_MAX parts, sent as one chunk, without a copy.
 *   *ret_is_pending false: all of it is written; true: the parts' memory must stay as it is until
 *   on_writable (or on_done), and no further piece is taken before that.
 * Errors: CONFLICT (one is pending, or not started), TOO_BIG (more than length), CLOSED or IO (the
 * peer is gone; on_done follows on a later turn). */
int tci_httpd_stream_write(tci_httpd_req *req, const tci_iovec *parts, size_t nparts,
                           bool *ret_is_pending, tc_err *err) TC_CHECKED;
/* The body is complete. May be called while a piece is pending. on_done may come before it returns.
 * A body shorter than length is an abort. */
void tci_httpd_stream_end(tci_httpd_req *req);

/* Give up: the connection is closed without an end of the body, so that the peer cannot take it for
 * whole. on_done(false) comes before it returns. */
void tci_httpd_abort(tci_httpd_req *req);

/* Take the connection for another protocol, after on_head of a request whose head says is_upgrade:
 * the stream is the caller's from now on, *rest (initialised by the caller) gets the bytes read
 * beyond the head. The caller writes the 101 answer itself. The request is done (no on_done), req
 * is gone. Errors: CONFLICT (answered already, or the body has begun), NO_MEMORY; req then goes on.
 */
int tci_httpd_take_stream(tci_httpd_req *req, tci_stream **ret_stream, tci_buf *rest,
                          tc_err *err) TC_CHECKED;

#endif
