/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's side of a WebSocket's beginning: TCP, a proxy's tunnel, TLS, the upgrade request and
 * its answer, all under one deadline. Loop thread only. */
#ifndef TCI_NET_WS_DIAL_H
#define TCI_NET_WS_DIAL_H

#include "net/http_client.h"
#include "net/url.h"
#include "net/ws.h"

typedef struct tci_ws_dial tci_ws_dial;

/* What came of it. Exactly one of: ws; a status other than 101; err. */
typedef struct tci_ws_dialled {
    tci_ws *ws;      /* NULL: there is none */
    unsigned status; /* of an answer that was not 101; else 0 */
    bool was_asked;  /* the way was there: at least a part of the request was sent */
    /* Without ws, always: CONNECT, TIMEOUT, CLOSED, IO (the way there); UNTRUSTED (TLS); PROTOCOL
     * or PARSE (the answer is not one to our request, or not HTTP); DENIED (status); NO_MEMORY. */
    tc_err err;
} tci_ws_dialled;

typedef void (*tci_ws_on_dialled)(void *user, const tci_ws_dialled *result);

typedef struct tci_ws_dial_options {
    const tci_url *url;             /* ws or wss; path and query are asked for as they are */
    tc_str subprotocol;             /* a token; the server must choose it */
    const tci_http_header *headers; /* more fields of the request; copied */
    size_t nheaders;
    int64_t timeout_ms; /* for everything; 0: none */
    tci_ws_options ws;  /* role is ignored: client */
} tci_ws_dial_options;

/* Begin. client makes the connection (its dialler knows proxies and TLS); it must outlive the dial.
 * on_done is called once, never from within this call; the dial is gone then. The message of err
 * repeats no header.
 * Errors: INVALID (a header that cannot be sent), NO_MEMORY; no on_done then. */
int tci_ws_dial_open(tci_loop *loop, tci_http_client *client, const tci_ws_dial_options *options,
                     tci_ws_on_dialled on_done, void *user, tci_ws_dial **ret_dial,
                     tc_err *err) TC_CHECKED;
/* Give up: on_done is not called. NULL is fine. */
void tci_ws_dial_cancel(tci_ws_dial *d);

#endif
