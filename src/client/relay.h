/* SPDX-License-Identifier: Apache-2.0
 *
 * A device for who passes on what others ask of it: raw requests and transfers, over whatever connection it has,
 * without a thread. Sessions belong to those others: nothing here keeps one alive or ends one, but those that were
 * used through a relay are attached again when the device is back on a new link, in the same generation and within
 * its grace. Nothing is ever sent twice. Loop thread of the runtime, all of it. */
#ifndef TCI_CLIENT_RELAY_H
#define TCI_CLIENT_RELAY_H

#include "client/client_int.h"

enum {
    TCI_RELAY_ASKS_MAX = 512, /* requests of one device under way or waiting */
    TCI_RELAY_SESSIONS_MAX =
        256, /* sessions of one device that are remembered; the longest unused go first */
    TCI_RELAY_OVER_MAX = 64,  /* of those that have ended, for frames that are late */
    TCI_RELAY_XFERS_MAX = 128 /* transfers of one device */
};

typedef struct tci_relay_sess tci_relay_sess;

/* One device, by whatever links it has one after the other. */
typedef struct tci_relay {
    tc_runtime *rt;
    tc_device *device; /* NULL: not linked */
    uint64_t generation;
    tci_list sessions; /* of tci_relay_sess, the longest unused first */
    tci_list over;
    tci_list asks;  /* of tci_relay_ask */
    tci_list xfers; /* of tci_relay_xfer, also those that only wait for the echo of a reset */
    size_t nsessions, nover, nasks, nxfers;
    size_t ndrops;   /* devices being let go of */
    unsigned nlinks; /* that there have been */
    /* Something of it has ended; for who waits for all of it. NULL: nobody. */
    void (*idle)(struct tci_relay *r);
} tci_relay;

void tci_relay_init(tci_relay *r, tc_runtime *rt);
/* Go on with this device, which was initialized; the reference is taken over. A link that it had before is let go
 * of first. */
void tci_relay_link_own(tci_relay *r, tc_device *device);
/* Let go of the device: what is under way over it ends, and its sessions are remembered. Fine without one. */
void tci_relay_unlink(tci_relay *r);
/* Give back a reference to a device of which other references may be gone by then. */
void tci_relay_drop_device(tci_relay *r, tc_device *device);
static inline bool tci_relay_is_linked(const tci_relay *r)
{
    return r->device != NULL && tc_device_is_alive(r->device);
}
/* Forget everything. What is under way ends; the owner waits until it is idle before it frees r. */
void tci_relay_end(tci_relay *r);
static inline bool tci_relay_is_idle(const tci_relay *r)
{
    return r->device == NULL && r->nasks == 0 && r->nxfers == 0 && r->ndrops == 0;
}
/* The same with what is to be said of it. */
void tci_relay_fail(tci_relay *r, const tc_err *err);

/* ---- requests ---- */

/* One request on its way; the owner's storage until done. Zeroed, then filled in:
 *   method     of that name; NULL: it is not one of ours
 *   session    its selector, copied where needed; has_session false: none
 *   request    its text, complete; taken over
 *   id_at, id_len   where in it the id is. It gets one of ours
 *   done       once, never from inside tci_relay_ask_start */
typedef struct tci_relay_ask {
    const tci_method *method;
    bool has_session;
    tc_str session;
    tci_buf request;
    size_t id_at, id_len;
    void (*done)(struct tci_relay_ask *a);
    void *user;
    /* After it: an answer (freed by the owner) with the id in it; or why there is none, and whether that means
     * that the device never got the request. */
    tci_held *held;
    tc_str id_text;
    int code;
    tc_err err;
    bool is_unsent;
    /* ours */
    tci_link link; /* relay->asks */
    tci_relay *relay;
    tci_relay_sess *sess;
    tci_link wait_link; /* sess->waiting */
    tci_call call;
    tci_post post;
    bool is_calling, is_left;
} tci_relay_ask;

/* BUSY: too many. Everything else is told by done. */
int tci_relay_ask_start(tci_relay *r, tci_relay_ask *a, tc_err *err) TC_CHECKED;
/* Nobody is interested any more: taken back when none of it has left, else the answer is awaited and dropped. A
 * session that was being opened is closed. done still comes. */
void tci_relay_ask_leave(tci_relay_ask *a);

/* Put id where another one is in a request or an answer; true, or false when there is no memory (b is failed). */
bool tci_relay_put_id(tci_buf *b, size_t at, size_t len, tc_str id);

/* ---- transfers ---- */

typedef enum tci_relay_state {
    TCI_RELAY_ATTACHING,
    TCI_RELAY_OPEN,
    TCI_RELAY_ENDED, /* all of it has come, or was taken and confirmed */
    TCI_RELAY_FAILED /* err says why */
} tci_relay_state;

typedef struct tci_relay_xfer {
    tci_xfer x;
    tci_link link; /* relay->xfers */
    tci_relay *relay;
    tci_relay_sess *sess;
    char *handle;
    tci_later later;
    void (*news)(struct tci_relay_xfer *rx);
    void *user;
    tci_list blanks; /* writer: blocks to fill */
    unsigned nout;   /* writer: blocks that are on their way */
    bool is_finishing, is_left, is_cut;
    int64_t left_ms;
    tc_err err; /* when it was cut */
} tci_relay_xfer;

/* Begin a transfer of a session that is known here, with a handle that was opened in it.
 *   news   the state has changed, or content has come, or there is room for more; at the end of a turn
 * Errors: BAD_HANDLE (no such session here, or the handle is being transferred), BUSY, NO_MEMORY. */
int tci_relay_xfer_start(tci_relay *r, tc_str session, tc_str handle, bool is_read,
                         void (*news)(tci_relay_xfer *rx), void *user, tci_relay_xfer **ret,
                         tc_err *err) TC_CHECKED;
tci_relay_state tci_relay_xfer_state(const tci_relay_xfer *rx);
const tc_err *tci_relay_xfer_error(const tci_relay_xfer *rx); /* of one that failed */
/* Reader: what comes next, or NULL: nothing yet, or the end. Given back with _taken when it was passed on, which
 * makes room for more; at most a window of it is held. */
tci_block *tci_relay_xfer_next(tci_relay_xfer *rx);
void tci_relay_xfer_taken(tci_relay_xfer *rx, tci_block *b);
/* Writer: an empty block, or NULL: the window is full. It is filled (payload, len up to cap) and sent, or freed. */
tci_block *tci_relay_xfer_blank(tci_relay_xfer *rx);
void tci_relay_xfer_send(tci_relay_xfer *rx, tci_block *b);
/* Writer: is anything on its way? */
static inline bool tci_relay_xfer_is_idle(const tci_relay_xfer *rx)
{
    return rx->nout == 0;
}
void tci_relay_xfer_finish(tci_relay_xfer *rx);
/* The owner has no use for it any more: it is reset unless it has ended. rx is gone for the owner. */
void tci_relay_xfer_leave(tci_relay_xfer *rx);
/* Reset one by its handle. done: it was reset, or there was nothing left of it to reset; false: the device knows
 * of none. May come before this returns, but not after a failure. Errors: as start, but for one being transferred. */
typedef struct tci_relay_reset {
    void (*done)(struct tci_relay_reset *q, bool was_reset);
    void *user;
    tci_timer timer;
    tci_relay_xfer *rx;
} tci_relay_reset;
int tci_relay_reset_start(tci_relay *r, tc_str session, tc_str handle, bool is_read,
                          tci_relay_reset *q, tc_err *err) TC_CHECKED;
/* Not interested any more: done does not come. */
void tci_relay_reset_leave(tci_relay_reset *q);

/* ---- inside: relay.c and relay_xfer.c ---- */

/* A session as it is known here. */
struct tci_relay_sess {
    tci_link link; /* relay->sessions or over */
    tci_relay *relay;
    char *id_text;
    tc_str id;
    tci_sess *sess; /* on the link there is; NULL: none */
    bool is_known;  /* the device has answered for it */
    bool is_over;   /* closed: only what is late is for it */
    bool is_attaching;
    unsigned nuses;       /* asks and transfers */
    unsigned attach_link; /* relay->nlinks of then */
    int64_t used_ms;      /* when somebody last asked */
    tci_list waiting;     /* asks, until it is attached */
    tci_relay_ask attach;
};

tci_relay_sess *tci_relay_find(tci_relay *r, tc_str session);
void tci_relay_release(tci_relay_sess *s); /* one use less */
void tci_relay_xfer_cut(tci_relay_xfer *rx, const tc_err *err);

#endif
