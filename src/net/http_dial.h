/* SPDX-License-Identifier: Apache-2.0
 *
 * The ordinary dialler of the HTTP client: TCP, the proxy that the environment names, TLS for
 * https. Loop thread only. */
#ifndef TCI_NET_HTTP_DIAL_H
#define TCI_NET_HTTP_DIAL_H

#include "net/dial.h"
#include "net/http_client.h"

/* Set up with tci_http_net_dialler_init; outlives the client. */
typedef struct tci_http_net_dialler {
    tci_http_dialler base; /* what tci_http_client_options wants */
    tci_loop *loop;
    tci_tls_ctx *tls;   /* borrowed; NULL: https is refused (INVALID) */
    bool uses_proxy;    /* ask the environment for one */
    int64_t timeout_ms; /* for TCP, tunnel and TLS together; 0: 10 s */
} tci_http_net_dialler;

void tci_http_net_dialler_init(tci_http_net_dialler *d, tci_loop *loop, tci_tls_ctx *tls,
                               bool uses_proxy, int64_t timeout_ms);

#endif
