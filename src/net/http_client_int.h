/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the HTTP client share. Private to net. */
#ifndef TCI_NET_HTTP_CLIENT_INT_H
#define TCI_NET_HTTP_CLIENT_INT_H

#include "net/http_client.h"
#include "net/http_out_int.h"

enum {
    TCI_HTTP_IN_MIN = 16 * 1024,  /* read buffer for heads and small bodies */
    TCI_HTTP_IN_MAX = 256 * 1024, /* for large bodies */
};

typedef struct tci_http_conn tci_http_conn;

/* Where connections lead. Kept as long as the client. */
typedef struct tci_http_origin {
    tci_link link;
    tci_http_client *client;
    char *scheme, *host;
    unsigned port;
    tci_list idle;        /* connections; most recently used last */
    tci_list waiting;     /* calls that wait for a connection */
    size_t nidle, nconns; /* nconns: in use, idle, or being made */
} tci_http_origin;

typedef enum tci_http_call_state {
    TCI_HTTP_CALL_NEW,      /* begins at the end of this turn */
    TCI_HTTP_CALL_WAITING,  /* in origin->waiting */
    TCI_HTTP_CALL_DIALLING, /* dial is set */
    TCI_HTTP_CALL_RUNNING   /* conn is set */
} tci_http_call_state;

struct tci_http_call {
    tci_link link, wait_link;
    tci_http_client *client;
    tci_http_origin *origin;
    const tci_http_call_handler *handler;
    void *user;
    tci_http_call_state state;
    tci_later later;
    tci_timer deadline;
    tci_http_dial *dial;
    tci_http_conn *conn;
    tci_buf head; /* the request head as it is sent */
    tc_str body;
    unsigned reader_flags;
    bool streams_body, is_chunked, takes_upgrade;
    bool may_write;       /* the head is out: pieces may come */
    bool is_pending;      /* a piece is on its way out */
    bool is_ended;        /* write_end was called, or the body is fixed */
    bool owes_last_chunk; /* behind the piece that is pending */
    bool got_head;        /* the final head came */
    uint64_t left;        /* body bytes still allowed */
    bool was_sent;        /* a byte may have reached the peer */
};

struct tci_http_conn {
    tci_link link, idle_link;
    tci_http_origin *origin;
    tci_http_call *call; /* NULL: idle */
    tci_stream *stream;
    tci_http1 *reader;
    tci_http_out out;
    tci_timer idle_timer;
    tci_later later; /* goes on after a failed write */
    unsigned depth;  /* calls in progress: storage stays until they are back */
    bool is_dead, in_process, is_paused, is_reused, write_failed, is_lost;
    char *in;
    size_t in_cap, in_at, in_len;
};

struct tci_http_client {
    tci_loop *loop;
    tci_http_client_options options;
    tci_list origins, calls, conns;
    bool is_closing;
};

/* A connection over a fresh stream (taken over, also on failure). */
int tci_http_conn_new(tci_http_origin *origin, tci_stream *stream_own, tci_http_conn **ret_conn,
                      tc_err *err) TC_CHECKED;
/* Send a call's request and hand its answer over. */
void tci_http_conn_run(tci_http_conn *c, tci_http_call *call);
/* Close it; its call, if any, is left to the caller. */
void tci_http_conn_kill(tci_http_conn *c);
/* Without a call now: keep it for the next one, or close it. */
void tci_http_conn_release(tci_http_conn *c, bool is_reusable);
static inline void tci_http_conn_enter(tci_http_conn *c)
{
    c->depth++;
}
void tci_http_conn_leave(tci_http_conn *c);
void tci_http_conn_process(tci_http_conn *c);
void tci_http_conn_flush(tci_http_conn *c);

/* The call is over: takes it off whatever it holds, on_done, free. The connection is not touched.
 */
void tci_http_call_finish(tci_http_call *call, int result, const tc_err *err);
/* Its connection turned out dead before a byte was written: find another. */
void tci_http_call_again(tci_http_call *call);
/* A place at this origin is free. */
void tci_http_origin_serve(tci_http_origin *origin);

#endif
