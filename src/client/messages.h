/* SPDX-License-Identifier: Apache-2.0
 *
 * EIP over anything that carries whole messages of two kinds: control (JSON) and data (EIPD frames).
 * What carries them is a link: Content-Length frames over a stream (framed.h), or a WebSocket
 * (arrival.h). Inside of the client; loop thread. */
#ifndef TCI_CLIENT_MESSAGES_H
#define TCI_CLIENT_MESSAGES_H

#include "client/client_int.h"

typedef struct tci_messages tci_messages;

/* How far a message has got that was put and is not done. */
typedef enum tci_progress {
    TCI_PROGRESS_NONE, /* not one byte of it is out */
    TCI_PROGRESS_PART, /* the peer cannot have all of it, and will not get it should the link end now */
    TCI_PROGRESS_ALL /* the peer may have all of it */
} tci_progress;

typedef struct tci_message_link {
    /* A head of wire/frames.h goes in front of every message. */
    bool has_heads;
    /* Send the parts; they stay as they are until out->done. done comes at the latest in stop, with
     * is_written when all of it has left or may have. */
    void (*put)(tci_messages *m, tci_out *out);
    tci_progress (*progress)(tci_messages *m, const tci_out *out);
    /* One of which nothing is out: done, not written. False: it is too late for that. */
    bool (*take_back)(tci_messages *m, tci_out *out);
    /* As in tci_conn_vtable. halt may be NULL. */
    void (*halt)(tci_messages *m);
    void (*stop)(tci_messages *m);
    void (*free)(tci_messages *m);
} tci_message_link;

struct tci_messages {
    tci_conn base;
    const tci_message_link *link;
};

static inline tci_messages *tci_messages_of(tci_conn *c)
{
    return TCI_CONTAINER(c, tci_messages, base);
}

/* link: static storage. */
void tci_messages_init(tci_messages *m, const tci_message_link *link, tc_runtime *rt,
                       const tc_device_options *options);
void tci_messages_put(tci_messages *m, tci_out *out);

/* What arrived; taken over, also on failure. A failure ends the link. */
int tci_messages_control_own(tci_messages *m, tci_held *h, tc_err *err) TC_CHECKED;
/* A data frame whose bytes lie in `bytes`: in block, or elsewhere when that is NULL. */
int tci_messages_data_own(tci_messages *m, tc_str bytes, tci_block *block, tc_err *err) TC_CHECKED;
/* End the connection for why the last of these failed, said as the daemon's fault where it is one. */
void tci_messages_fail(tci_messages *m, tc_err *err);
/* A block around bytes that are elsewhere. NULL: no memory. */
tci_held *tci_held_of(tc_str bytes);

/* What transfers send (framed_xfer.c). */
void tci_framed_xfer_start(tci_xfer *x);
void tci_framed_xfer_give(tci_xfer *x, tci_block *b);
void tci_framed_xfer_end(tci_xfer *x);
void tci_framed_xfer_reset(tci_xfer *x, tci_eipd_status status);
void tci_framed_xfer_forget(tci_xfer *x);

#endif
