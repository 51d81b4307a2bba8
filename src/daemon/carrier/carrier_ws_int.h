/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the reverse WebSocket carrier: carrier_ws.c dials, waits and ends; carrier_ws_link.c is one
 * connection. Loop thread. */
#ifndef TCI_DAEMON_CARRIER_WS_INT_H
#define TCI_DAEMON_CARRIER_WS_INT_H

#include "daemon/carrier/carrier_ws.h"
#include "net/http_dial.h"
#include "net/ws_dial.h"

/* One connection, and after its loss what is left of it: the carrier that requests in flight answer to.
 * Counted as a carrier; the first reference is its own until it is over. */
typedef struct tci_ws_link {
    tci_carrier base;
    tci_link link;           /* the service's lost ones */
    tci_ws_carrier *service; /* NULL: lost */
    tci_ws *ws;              /* NULL: lost */
    tci_list frames;         /* data frames that are queued */
    bool is_paused;          /* until the disk has caught up */
    int64_t since_ms;
    tci_timer limit; /* for the first message; after the loss, for requests in flight */
} tci_ws_link;

struct tci_ws_carrier {
    tci_device *device;
    tci_ws_carrier_options options; /* complete */
    unsigned refs;                  /* until its end, and by a job */
    tci_url url;
    tci_http_net_dialler dialler;
    tci_http_client *http;
    tci_tls_ctx *tls; /* NULL: plain, or not made yet */
    tci_secret credential;
    tci_job job; /* reads files before an attempt */
    int job_rc;
    tc_err job_err;
    tci_ws_dial *dial;
    tci_ws_link *link; /* NULL: not connected */
    tci_list lost;     /* whose requests still have their second */
    tci_timer backoff;
    uint64_t backoff_ms;
    tci_later step; /* what may not be done in the middle of something */
    tci_drain drain;
    bool is_stopping, is_draining, is_drained, is_ended;
    bool has_complained; /* that the Host is out of reach: once for each time it is */
    int status;
    char message[TC_ERR_MSG_MAX];
    void (*on_end)(void *user, int status, tc_str message);
    void *user;
};

/* End the daemon with these last words. What is under way is undisturbed until the turn's end. */
void tci_ws_carrier_fail(tci_ws_carrier *s, const char *fmt, ...) TC_PRINTF(2, 3);
/* The connection is gone (s->link is NULL): what next? lived_ms: how long it was there. */
void tci_ws_carrier_lost(tci_ws_carrier *s, int64_t lived_ms);

extern const tci_ws_handler tci_ws_link_handler;
/* Serve a connection whose user is s: s->link. NULL: no memory. */
tci_ws_link *tci_ws_link_new(tci_ws_carrier *s, tci_ws *ws);
/* What it still sends of downloads goes back: their sessions are closing. */
void tci_ws_link_let_go(tci_ws_link *l);
/* A lost one: forget its requests. */
void tci_ws_link_forget(tci_ws_link *l);

#endif
