/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of a WebSocket connection: ws.c has its life and its reading, ws_out.c its writing,
 * ws_accept.c and ws_dial.c the two ways to begin. Loop thread. */
#ifndef TCI_NET_WS_INT_H
#define TCI_NET_WS_INT_H

#include "net/ws.h"

enum {
    TCI_WS_URGENT_MAX = 512, /* answer of the handshake; later ping, pong and close together */
    TCI_WS_KEYS = 64,
    TCI_WS_SEND_LOOKS = 4, /* at a peer that takes nothing, within send_timeout_ms */
    TCI_WS_PING_BYTES = 8
};

typedef enum tci_ws_state {
    TCI_WS_OPEN,
    TCI_WS_CLOSING,      /* tci_ws_close: the queue goes out, then our close frame */
    TCI_WS_PEER_CLOSING, /* the peer's close frame came: ours goes out */
    TCI_WS_REFUSING,     /* a violation: our close frame goes out, what comes is dropped unread */
    TCI_WS_ENDED
} tci_ws_state;

struct tci_ws {
    tci_loop *loop;
    tci_stream *stream; /* NULL once it is closed */
    tci_ws_options options;
    tci_ws_state state;
    unsigned depth; /* callers on the stack that look at it after a callback */
    bool is_freed;

    /* reading */
    tci_ws_reader reader;
    char *in;
    size_t in_at, in_len;
    char *own; /* a message being gathered: headroom, then its bytes */
    size_t own_cap, own_have;
    struct tci_ws_kept *kept; /* blocks to be used again, the last one first */
    size_t kept_bytes;
    bool is_paused, is_full;
    int64_t read_ns; /* when the last bytes came */

    /* writing: what is out before and between messages */
    char urgent[TCI_WS_URGENT_MAX];
    size_t urgent_len, urgent_done;
    bool is_ping_due, is_pong_due, is_ping_in_urgent;
    bool is_close_made, is_close_sent; /* our close frame: in urgent; written */
    char ping[TCI_WS_PING_BYTES], pong[TCI_WS_CONTROL_MAX];
    uint8_t pong_len;
    char close[TCI_WS_CONTROL_MAX]; /* payload */
    size_t close_len;
    /* messages */
    tci_list lanes[TCI_WS_KINDS]; /* of tci_ws_out.link; current is first in its lane */
    tci_list finished;            /* written, their on_done is due */
    tci_ws_out *current;          /* partly written */
    unsigned text_run;
    size_t queued;
    bool was_full;
    int64_t
        sent_ns; /* when the peer's system took the last byte we know of, or output began to wait */
    uint64_t written,
        delivered;       /* bytes of the stream; what the peer's system had when last looked at */
    uint64_t ping_end;   /* where our ping ends in them */
    bool is_ping_behind; /* much was in front of it, or is: it may not be there yet */
    uint8_t keys[TCI_WS_KEYS][4];
    unsigned nkeys;

    tci_later flush;
    tci_timer live; /* until the next ping; with is_ping_out until its pong is late */
    tci_timer send;
    tci_timer limit; /* of the closing */
    tci_timer probe; /* until there must be a sign of life */
    int64_t probe_ns;
    bool is_ping_out;

    /* the end, once it is known */
    bool is_failing;
    tci_ws_end end;
    char reason[TCI_WS_REASON_MAX];
};

void tci_ws_enter(tci_ws *ws);
void tci_ws_leave(tci_ws *ws); /* ws may be gone after it */
/* What the end will be: the first one counts. It is told in tci_ws_leave. err may be NULL. */
void tci_ws_fail(tci_ws *ws, tci_ws_cause cause, const tc_err *err, const char *what);
/* Is nothing more taken from or given to the stream? */
static inline bool tci_ws_is_over(const tci_ws *ws)
{
    return ws->is_freed || ws->is_failing || ws->state == TCI_WS_ENDED;
}
void tci_ws_update_want(tci_ws *ws);
/* A block of at least this size and not much more; NULL: none is kept. */
char *tci_ws_reuse(tci_ws *ws, size_t size, size_t *ret_size);
void tci_ws_forget_kept(tci_ws *ws);

/* ---- ws_out.c ---- */

bool tci_ws_has_output(const tci_ws *ws);
/* Write what can be written now. */
void tci_ws_flush(tci_ws *ws);
/* Has the peer's system taken more meanwhile? Then sent_ns says when that was seen. */
void tci_ws_look(tci_ws *ws);
/* on_done(false) for all that has not begun; with_current: also for what has. */
void tci_ws_drop(tci_ws *ws, bool with_current);
/* tci_ws_new whose first bytes out are these. */
int tci_ws_new_with(tci_loop *loop, tci_stream *stream_own, tc_str rest, tc_str first,
                    const tci_ws_options *options, tci_ws **ret_ws, tc_err *err) TC_CHECKED;

#endif
