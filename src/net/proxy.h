/* SPDX-License-Identifier: Apache-2.0
 *
 * Going through an http:// proxy by CONNECT (RFC 9110 section 9.3.6). Credentials never show in
 * an error. */
#ifndef TCI_NET_PROXY_H
#define TCI_NET_PROXY_H

#include "base/secret.h"
#include "net/stream.h"
#include "net/url.h"

/* Which way to go. Zero: directly. */
typedef struct tci_proxy {
    bool is_used;
    uint16_t port;
    char host[TCI_URL_HOST_MAX + 1];
    tci_secret authorization; /* value of Proxy-Authorization; empty: none */
} tci_proxy;

/* Value of an environment variable, NULL when unset; borrowed for the call. */
typedef const char *(*tci_proxy_getenv)(void *user, const char *name);

/* Find the proxy for one target. Pure: the environment comes from get.
 *
 *   scheme  of the target. https and wss ask HTTPS_PROXY, then https_proxy; http and ws go directly
 *   host    without brackets. localhost and loopback addresses are always direct
 *
 * NO_PROXY, then no_proxy: a list by commas; "*" is every host; "example.com", ".example.com" and
 * "*.example.com" are that name and all below it; addresses match exactly or as "10.0.0.0/8"; each
 * with an optional ":port". An empty variable counts as unset. A proxy without a port uses 80; text
 * without a scheme is read as http://. Errors: INVALID: the variable's name is told, its value is
 * not; UNSUPPORTED: not an http proxy. */
int tci_proxy_for(tci_url_scheme scheme, tc_str host, uint16_t port, tci_proxy_getenv get,
                  void *user, tci_proxy *ret_proxy, tc_err *err) TC_CHECKED;
/* The same with the process's own environment. */
int tci_proxy_for_process(tci_url_scheme scheme, tc_str host, uint16_t port, tci_proxy *ret_proxy,
                          tc_err *err) TC_CHECKED;
void tci_proxy_done(tci_proxy *p);

/* Open a tunnel to host:port over under, which is connected to the proxy. The request runs inside,
 * as TLS's handshake does: the first WRITE readiness means the tunnel is there; when it fails, what
 * was asked for is reported ready and read and writev return why.
 *
 *   under  taken over, also when this fails
 *   proxy  borrowed; host borrowed, IPv6 without brackets
 *   timeout_ms  for the tunnel; 0: no limit of its own
 *
 * Errors: NO_MEMORY. From read and writev: AUTH (407), CONNECT (any other refusal, with the
 * status), PROTOCOL (not an HTTP answer, or a head over 16 KiB), CLOSED, TIMEOUT; the message names
 * the proxy, the target and the step. */
int tci_proxy_stream_new(tci_loop *loop, tci_stream *under_own, const tci_proxy *proxy, tc_str host,
                         uint16_t port, int64_t timeout_ms, tci_stream **ret_stream,
                         tc_err *err) TC_CHECKED;

#endif
