/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 client: a small pool of kept-alive connections per origin, one request in flight on
 * each. Nothing is tried twice, with one exception that cannot repeat anything: a kept-alive
 * connection found closed before any byte of the request was written is replaced. No redirects, no
 * decoding of contents: status, headers and bytes are handed over as they are. Loop thread only. */
#ifndef TCI_NET_HTTP_CLIENT_H
#define TCI_NET_HTTP_CLIENT_H

#include "net/stream.h"
#include "wire/http1.h"

typedef struct tci_http_client tci_http_client;
typedef struct tci_http_call tci_http_call;

/* What came of a call. Of the callbacks, on_done comes exactly once and last; none comes from
 * inside tci_http_call_start.
 *
 *   on_head      final status and headers (informational answers are swallowed); borrowed until
 *                on_done
 *   on_body      body bytes, borrowed for the call; when paused in here they stay valid until
 *                resume
 *   on_writable  streamed request body: the head is written and the first piece may come, or the
 *                pending piece is written and its memory free. NULL for fixed bodies
 *   on_done      result 0: the answer is complete. Else *err says why: CONNECT, UNTRUSTED (TLS),
 *                TIMEOUT, CANCELLED, CLOSED or IO (connection lost), PROTOCOL, PARSE,
 *                UNSUPPORTED, TOO_BIG.
 *                not_sent: no byte of the request can have reached the peer, so it was not
 *                started. The call is gone after it */
typedef struct tci_http_call_handler {
    void (*on_head)(tci_http_call *call, const tci_http_head *head);
    void (*on_body)(tci_http_call *call, tc_str bytes);
    void (*on_writable)(tci_http_call *call);
    void (*on_done)(tci_http_call *call, int result, bool not_sent, const tc_err *err);
} tci_http_call_handler;

/* Makes connections, so that tests and other carriers can supply their own. dial begins; done is
 * called once, never from inside dial, with a stream that the client takes over or with NULL and
 * *err; after cancel it is not called. The ordinary one is in
 * net/http_dial.h. */
typedef struct tci_http_dial tci_http_dial; /* one attempt, defined by the dialler */
typedef struct tci_http_dialler {
    int (*dial)(struct tci_http_dialler *dialler, tc_str scheme, tc_str host, unsigned port,
                void (*done)(void *arg, tci_stream *stream, const tc_err *err), void *arg,
                tci_http_dial **ret_dial, tc_err *err);
    void (*cancel)(struct tci_http_dialler *dialler, tci_http_dial *dial);
} tci_http_dialler;

typedef struct tci_http_client_options {
    tci_http_dialler *dialler; /* outlives the client; see net/http_dial.h for the ordinary one */
    size_t max_idle;           /* kept-alive connections per origin; 0: 4 */
    size_t max_connections;  /* per origin, in use or idle; 0: 64. A call over it waits its turn */
    int64_t idle_timeout_ms; /* 0: 30 s; a kept connection older than this is closed */
} tci_http_client_options;

int tci_http_client_new(tci_loop *loop, const tci_http_client_options *options,
                        tci_http_client **ret_client, tc_err *err) TC_CHECKED;
/* Ends every call (on_done, CANCELLED), closes every connection. NULL is fine. Not from inside a
 * callback. */
void tci_http_client_free(tci_http_client *client);
/* Close what is kept alive and not in use. */
void tci_http_client_drop_idle(tci_http_client *client);

#define TCI_HTTP_BODY_CHUNKED UINT64_MAX

typedef struct tci_http_request {
    tc_str scheme; /* "http" or "https" */
    tc_str host;   /* name or address, IPv6 without brackets */
    unsigned port;
    tc_str method;
    tc_str target;                  /* "/path"; no fragment */
    const tci_http_header *headers; /* not Host, Content-Length, Transfer-Encoding, Connection */
    size_t nheaders;
    tc_str body;          /* fixed body; borrowed until on_done, not copied */
    bool streams_body;    /* the body comes by tci_http_call_write */
    uint64_t body_length; /* with streams_body: its length, or TCI_HTTP_BODY_CHUNKED */
    int64_t deadline_ns;  /* monotonic, for the whole call; 0: none */
    bool takes_upgrade;   /* 101 (or success of CONNECT) is wanted: see tci_http_call_take_stream */
    const tci_http_call_handler *handler; /* static storage */
    void *user;
} tci_http_request;

/* Begin. Everything but the fixed body is copied.
 * Errors: INVALID (a header, method, target or host that cannot be sent), NO_MEMORY, CLOSED (the
 * client is being freed); no callback then. */
int tci_http_call_start(tci_http_client *client, const tci_http_request *request,
                        tci_http_call **ret_call, tc_err *err) TC_CHECKED;
void *tci_http_call_user(const tci_http_call *call);

/* A piece of a streamed body, after on_writable; up to 8 parts, without a copy. As for
 * tci_httpd_stream_write: with *ret_is_pending the memory must stay until on_writable or on_done.
 * Errors: CONFLICT, TOO_BIG; CLOSED when the call is failing (on_done follows). An answer that
 * comes before the body is complete is delivered; further pieces are then dropped (accepted, not
 * pending). */
int tci_http_call_write(tci_http_call *call, const tci_iovec *parts, size_t nparts,
                        bool *ret_is_pending, tc_err *err) TC_CHECKED;
void tci_http_call_write_end(tci_http_call *call);

/* Stop and go on reading the answer. Resume may deliver callbacks before it returns. The deadline
 * runs on. */
void tci_http_call_pause(tci_http_call *call);
void tci_http_call_resume(tci_http_call *call);

/* End it now: on_done(CANCELLED) comes before this returns, the connection is closed unless unused.
 */
void tci_http_call_cancel(tci_http_call *call);

/* In on_head of an upgrade (takes_upgrade and head->is_upgrade): the stream is the caller's, *rest
 * gets the bytes beyond the head. The call is gone, without on_done. */
int tci_http_call_take_stream(tci_http_call *call, tci_stream **ret_stream, tci_buf *rest,
                              tc_err *err) TC_CHECKED;

#endif
