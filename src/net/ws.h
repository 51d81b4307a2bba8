/* SPDX-License-Identifier: Apache-2.0
 *
 * A WebSocket connection over any stream, after the handshake, as client or as server: whole messages
 * in, whole messages out, pings, deadlines, and one end with its cause. No extensions. net/ws_dial.h
 * makes the connection of a client, tci_ws_upgrade that of a server. Loop thread only.
 *
 * A Host in outline (the daemon dials, the Host is the WebSocket server):
 *
 *   tci_httpd_handler.on_head: authenticate, then
 *       tci_ws_options o = {.handler = &h, .user = me, .max_text_bytes = ..., .max_binary_bytes = ...};
 *       if (tci_ws_upgrade(req, loop, TC_STR("eip.v1"), &o, &ws, &err) < 0) return; // answered
 *   to send:    tci_ws_send(ws, &out)        until out.on_done the parts stay as they are
 *   to end:     tci_ws_close(ws, 1000, ...)  then on_end; or tci_ws_free at any time
 *   on_end:     the cause; tci_ws_free(ws)   here or later, once */
#ifndef TCI_NET_WS_H
#define TCI_NET_WS_H

#include "base/list.h"
#include "net/stream.h"
#include "wire/ws.h"

struct tci_httpd_req;

typedef struct tci_ws tci_ws;

/* Why a connection ended. */
typedef enum tci_ws_cause {
    TCI_WS_CLOSED,      /* by tci_ws_close: everything queued was sent, or its second is over */
    TCI_WS_PEER_CLOSED, /* the peer sent a close frame: code (1005: it had none) and reason */
    TCI_WS_VIOLATION, /* the peer broke a rule or a limit: err says which, code what it was told */
    TCI_WS_PING_TIMEOUT, /* our ping was not answered in time */
    TCI_WS_SEND_TIMEOUT, /* the peer's system took not one byte for too long */
    TCI_WS_LOST          /* end of stream or failure without a close frame, or no memory */
} tci_ws_cause;

typedef struct tci_ws_end {
    tci_ws_cause cause;
    unsigned code; /* of the close frame that was received (PEER_CLOSED) or sent (VIOLATION);
                      else 1006 */
    tc_str reason; /* PEER_CLOSED: the peer's words, valid UTF-8; borrowed for the call */
    /* CLOSED, PEER_CLOSED and LOST: CLOSED, or what the stream said; VIOLATION: PROTOCOL (also text
     * that is no UTF-8) or TOO_BIG; the timeouts: TIMEOUT; NO_MEMORY. Always with a message. */
    tc_err err;
} tci_ws_end;

/* What the owner is told. None of these comes from inside a call of the owner's, and each may call
 * anything here, tci_ws_free too.
 *
 *   on_message   one whole message; text is valid UTF-8. own NULL: bytes are borrowed for the call.
 *                Else own is a heap block (tci_free) that the callee takes over: headroom[kind]
 *                bytes of its own, then the message. The bytes may be written to
 *   on_writable  what is queued has fallen to half of max_queued_bytes after it was full. May be NULL
 *   on_end       once, and nothing after it. Messages that were not sent have got their on_done */
typedef struct tci_ws_handler {
    void (*on_message)(tci_ws *ws, tci_ws_kind kind, tc_str bytes, char *own);
    void (*on_writable)(tci_ws *ws);
    void (*on_end)(tci_ws *ws, const tci_ws_end *end);
} tci_ws_handler;

typedef struct tci_ws_options {
    tci_ws_role role;              /* not for tci_ws_upgrade */
    const tci_ws_handler *handler; /* static storage */
    void *user;
    /* Longest message of a kind, all fragments together. Checked when a frame's header is there,
     * before memory is taken for it. A longer one is a violation (1009). Not 0. */
    uint64_t max_text_bytes, max_binary_bytes;
    size_t headroom[TCI_WS_KINDS]; /* bytes in front of a message in its own block */
    size_t max_kept_bytes;         /* see tci_ws_keep */
    /* While more than this waits to be sent, nothing is read. 0: 64 MiB. See tci_ws_out. */
    size_t max_queued_bytes;
    /* Milliseconds; 0: never. */
    int64_t
        ping_interval_ms; /* a ping of 8 random bytes, so long after the last one was answered */
    int64_t
        pong_timeout_ms; /* its pong must come within this of the ping, or of the last byte of anything
                                 else. The time in which we do not read does not count, nor that in
                                 which a slow peer takes what we sent before the ping */
    int64_t
        send_timeout_ms; /* while something is to be sent: longest time without one byte taken. Where
                                 the system tells, by the peer's system; noticed up to a quarter later */
    bool closes_without_code; /* our close frames carry neither code nor reason */
} tci_ws_options;

enum { TCI_WS_CLOSE_MS = 1000, TCI_WS_PARTS_MAX = 3 };

/* One message to send. The caller's memory, with its parts, until on_done. Zeroed but for: */
typedef struct tci_ws_out {
    tci_ws_kind kind;
    tci_iovec parts[TCI_WS_PARTS_MAX];
    unsigned nparts;
    /* A client's frames must be masked. Set: the parts are masked where they lie (they are rubbish
     * afterwards); not set: in a copy of ours, made when its turn comes. A server sends the parts as
     * they are. */
    bool may_overwrite;
    bool is_uncounted; /* not part of what max_queued_bytes bounds: something else bounds it */
    /* Exactly once: the bytes have left (was_sent), or will not. */
    void (*on_done)(struct tci_ws_out *out, bool was_sent);
    /* --- the connection's own --- */
    tci_link link;
    size_t len, done;
    char head[TCI_WS_HEAD_MAX];
    uint8_t head_len;
    uint8_t mask[4];
    char *copy;
    bool is_begun;
} tci_ws_out;

/* A connection on a stream over which the handshake was done.
 *
 *   stream  taken over, also when this fails
 *   rest    bytes of the peer that were read beyond the handshake; copied
 *
 * Reading begins on a later turn. Errors: NO_MEMORY, and what the stream says. */
int tci_ws_new(tci_loop *loop, tci_stream *stream_own, tc_str rest, const tci_ws_options *options,
               tci_ws **ret_ws, tc_err *err) TC_CHECKED;

/* The server's side of the handshake, in on_head of a request whose head says is_upgrade. Checks the
 * request, takes the connection from the HTTP server, and answers 101 with the subprotocol. When it
 * fails, the request was answered (400, 405, 426 or 500): req is done.
 * Errors: PROTOCOL (not a request for this), NO_MEMORY. */
int tci_ws_upgrade(struct tci_httpd_req *req, tci_loop *loop, tc_str subprotocol,
                   const tci_ws_options *options, tci_ws **ret_ws, tc_err *err) TC_CHECKED;

void *tci_ws_user(const tci_ws *ws);

/* Queue a message; it goes out at the end of the turn, together with others. Text goes before binary,
 * but after eight texts in a row one waiting binary message has its turn; within a kind, in order. On
 * a connection that is closing or has ended it is dropped: on_done(false) before this returns. */
void tci_ws_send(tci_ws *ws, tci_ws_out *out);
/* The same for bytes that need no memory of the caller's: takes the contents of body.
 * Errors: NO_MEMORY: nothing was queued, and body keeps its contents. */
int tci_ws_send_own(tci_ws *ws, tci_ws_kind kind, tci_buf *body, tc_err *err) TC_CHECKED;
/* Give a queued message up: on_done(false) before this returns. One that is partly out is completed
 * from a copy of ours, since a frame cannot be broken off. False: no memory for that, it stays. */
bool tci_ws_take_back(tci_ws *ws, tci_ws_out *out);

/* The block of a message that was handed over, back, as the memory of one to come: fresh memory costs more
 * than the copy into it. size: at least the message's, without its headroom. It is freed when there are
 * enough, at the next ping, or at the end. */
void tci_ws_keep(tci_ws *ws, char *own, size_t size);

/* Bytes that wait to be sent and are counted. */
size_t tci_ws_queued_bytes(const tci_ws *ws);
static inline bool tci_ws_out_is_queued(const tci_ws_out *out)
{
    return tci_link_is_in(&out->link);
}

/* Stop taking messages; go on. What was read and not yet handed over waits. Nothing is read from the
 * stream meanwhile, so neither pongs nor the peer's end are noticed, and no ping is sent. */
void tci_ws_pause(tci_ws *ws);
void tci_ws_resume(tci_ws *ws);

/* Is the peer still there? Ping it now; when neither a byte of it comes within this time nor its system
 * takes one, the end is TCI_WS_PING_TIMEOUT. Nothing new while a probe runs, while closing, or while we do
 * not read. */
void tci_ws_probe(tci_ws *ws, int64_t within_ms);

/* End in good order: what is queued is sent, then a close frame, then the peer's is waited for, all
 * that within TCI_WS_CLOSE_MS. No message is handed over any more. on_end follows (CLOSED; or what
 * happened first). Idempotent. reason: at most TCI_WS_REASON_MAX bytes are used; borrowed. */
void tci_ws_close(tci_ws *ws, unsigned code, tc_str reason);

/* Everything is over now: the stream is closed, every queued message gets on_done(false), there is no
 * on_end any more. Must be called once, before or after on_end. NULL is fine. */
void tci_ws_free(tci_ws *ws);

#endif
