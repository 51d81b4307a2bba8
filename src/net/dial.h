/* SPDX-License-Identifier: Apache-2.0
 *
 * From an address to a stream that is ready for HTTP: TCP, a proxy's tunnel when the environment
 * asks for one, TLS when the scheme does, all under one deadline. Loop thread only. */
#ifndef TCI_NET_DIAL_H
#define TCI_NET_DIAL_H

#include "net/proxy.h"
#include "net/tls.h"

typedef struct tci_dial tci_dial;

/* The end, exactly once: an open stream without on_ready (the callee's: set on_ready and user, then
 * want), or NULL and *err. The tci_dial is gone when this is called. */
typedef void (*tci_dial_on_done)(void *user, tci_stream *stream, const tc_err *err);

/* Dial the origin of url.
 *
 *   url         copied as far as needed
 *   tls         needed for https and wss; borrowed for the call
 *   proxy       NULL: directly; borrowed for the call
 *   timeout_ms  for TCP, tunnel and TLS together; 0 means 10,000
 *   on_done     called later, never from within this call
 *
 * Errors here: INVALID, NO_MEMORY. In on_done: those of net/tcp.h, net/proxy.h and net/tls.h; the
 * message names the step. */
int tci_dial_open(tci_loop *loop, const tci_url *url, tci_tls_ctx *tls, const tci_proxy *proxy,
                  int64_t timeout_ms, tci_dial_on_done on_done, void *user, tci_dial **ret_dial,
                  tc_err *err) TC_CHECKED;
/* Give up: on_done is not called. NULL is fine. */
void tci_dial_cancel(tci_dial *d);

#endif
