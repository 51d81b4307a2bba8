/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP: listening on a numeric address, connecting to a name. What comes out are streams of
 * net/fd.h with TCP_NODELAY set. Loop thread only. */
#ifndef TCI_NET_TCP_H
#define TCI_NET_TCP_H

#include "net/stream.h"
#include "plat/socket.h"

typedef struct tci_tcp_listener tci_tcp_listener;

/* A new connection; stream is the callee's from here on. It may close the listener. */
typedef void (*tci_tcp_on_accept)(void *user, tci_stream *stream, const tci_addr *peer);

/* Listen and accept at once.
 *
 *   at         port 0 lets the system choose: ask tci_tcp_listener_addr
 *   backlog    connections the system holds for us; 0 means 128
 *   on_accept  with user
 *
 * When the process has no descriptors left, connections wait in the backlog and accepting is tried
 * again ten times a second.
 * Errors: CONFLICT (address in use), DENIED, INVALID, BUSY, NO_MEMORY, IO. */
int tci_tcp_listener_open(tci_loop *loop, const tci_addr *at, int backlog,
                          tci_tcp_on_accept on_accept, void *user, tci_tcp_listener **ret_listener,
                          tc_err *err) TC_CHECKED;
/* The address really bound. */
tci_addr tci_tcp_listener_addr(const tci_tcp_listener *l);
/* Stop and go on accepting (a full house); connections wait in the backlog. Idempotent. */
void tci_tcp_listener_pause(tci_tcp_listener *l);
void tci_tcp_listener_resume(tci_tcp_listener *l);
/* No callback after this. NULL is fine. */
void tci_tcp_listener_close(tci_tcp_listener *l);

typedef struct tci_tcp_connect tci_tcp_connect;

/* The end of a connect, exactly once: a stream (the callee's), or NULL and *err. The
 * tci_tcp_connect is gone when this is called. */
typedef void (*tci_tcp_on_connect)(void *user, tci_stream *stream, const tc_err *err);

/* Look host up (on the pool, unless it is numeric or localhost) and try its addresses in order;
 * each gets an equal share of the time left.
 *
 *   host        name or numeric address, IPv6 without brackets; copied
 *   timeout_ms  for everything together; 0 means 10,000
 *   on_done     called later, never from within this call
 *
 * Errors here: INVALID (no such name can be), NO_MEMORY. Errors in on_done: NOT_FOUND (no such
 * name), CONNECT, TIMEOUT, BUSY; the message names host, port and the step. */
int tci_tcp_connect_open(tci_loop *loop, tc_str host, uint16_t port, int64_t timeout_ms,
                         tci_tcp_on_connect on_done, void *user, tci_tcp_connect **ret_connect,
                         tc_err *err) TC_CHECKED;
/* Give up: on_done is not called. NULL is fine. */
void tci_tcp_connect_cancel(tci_tcp_connect *c);

#endif
