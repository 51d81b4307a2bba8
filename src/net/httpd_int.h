/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the HTTP server share. Private to net. */
#ifndef TCI_NET_HTTPD_INT_H
#define TCI_NET_HTTPD_INT_H

#include "net/http_out_int.h"
#include "net/httpd.h"

enum {
    TCI_HTTPD_IN_MIN = 16 * 1024,       /* read buffer for heads and small bodies */
    TCI_HTTPD_IN_MAX = 256 * 1024,      /* for large bodies */
    TCI_HTTPD_DISCARD_MAX = 64 * 1024,  /* rest of a body that is read to keep the connection */
    TCI_HTTPD_LINGER_MAX = 1024 * 1024, /* what is read so that an early answer arrives */
    TCI_HTTPD_LINGER_MS = 2000
};

typedef struct tci_httpd_conn tci_httpd_conn;

struct tci_httpd_req {
    tci_httpd_conn *conn;
    void *data;
    bool is_active;    /* between on_head and on_done */
    bool is_answered;  /* its final head is made */
    bool is_streaming; /* stream_start was called */
    bool is_pending;   /* a piece is on its way out; on_writable follows */
    bool is_ending;    /* stream_end was called */
    bool skips_body;   /* HEAD, 204, 304 */
    bool is_chunked;
    uint64_t left; /* bytes that the announced length still allows */
};

typedef enum tci_httpd_phase {
    TCI_HTTPD_IDLE,
    TCI_HTTPD_HEAD,    /* a request has begun to come in */
    TCI_HTTPD_REQUEST, /* from on_head to on_done */
    TCI_HTTPD_DISCARD, /* answered; the rest of the body is dropped, then the next request */
    TCI_HTTPD_LINGER   /* nothing more to say; waiting for the peer to see it */
} tci_httpd_phase;

struct tci_httpd_conn {
    tci_link link, idle_link; /* idle_link: httpd->idle or httpd->slow */
    tci_httpd *httpd;
    tci_stream *stream;
    tci_http1 *reader;
    tci_timer timer;
    tci_later later; /* flushes a head that no piece followed; ends a lost connection */
    tci_later parse; /* goes on with what is in the buffer */
    tci_httpd_phase phase;
    unsigned depth; /* calls in progress: storage stays until they are back */
    bool is_dead, in_process, is_paused, closes, is_lost, body_ended, owes_continue, got_body;
    char *in;
    size_t in_cap, in_at, in_len;
    size_t ndiscarded;
    tci_http_out out;
    int64_t since_ms;          /* the phase began */
    int64_t read_ms, write_ms; /* last progress */
    int64_t body_due_ms;       /* the body must have ended; 0: whenever it likes */
    tci_addr peer;             /* TCI_ADDR_NONE: not told */
    tci_httpd_req req;
};

struct tci_httpd {
    tci_loop *loop;
    tci_httpd_options options;
    char *server;
    tci_list conns, idle; /* idle: longest first */
    tci_list slow; /* those whose peer has yet to say or to take something short; longest first */
    size_t nconns, nrequests;
    int64_t date_sec;
    char date[96]; /* 29 characters; room for what the compiler fears */
    bool is_draining;
    tci_timer drain_timer;
    tci_later drain_later;
    void (*drain_cb)(tci_httpd *httpd, bool is_clean);
    bool drain_is_clean;
};

/* Bracket every entry: after leave the connection may be gone. */
static inline void tci_httpd_enter(tci_httpd_conn *c)
{
    c->depth++;
}
void tci_httpd_leave(tci_httpd_conn *c);
void tci_httpd_set_phase(tci_httpd_conn *c, tci_httpd_phase phase);
/* Parse what is in the buffer as far as possible. Runs handlers: only from the loop's own callbacks. */
void tci_httpd_process(tci_httpd_conn *c);
/* The same at the end of this turn, for calls that come from handlers: the next request must not
 * begin below whoever answers the one before. */
void tci_httpd_process_soon(tci_httpd_conn *c);
/* Mark dead: the request ends as not whole, the stream is closed. */
void tci_httpd_kill(tci_httpd_conn *c);
/* Write what is pending; tells the request when that is all. */
void tci_httpd_flush(tci_httpd_conn *c);
/* An answer of our own to what cannot become a request, then the end of the connection. */
void tci_httpd_refuse(tci_httpd_conn *c, unsigned status);
/* The answer is written, or never will be. */
void tci_httpd_finish(tci_httpd_conn *c, bool is_whole);

#endif
