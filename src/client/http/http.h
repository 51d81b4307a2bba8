/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP carrier: a request is a POST, a transfer a streamed body. Inside of the client; loop
 * thread. */
#ifndef TCI_CLIENT_HTTP_H
#define TCI_CLIENT_HTTP_H

#include "base/secret.h"
#include "client/client_int.h"
#include "net/dial.h"
#include "net/http_client.h"

typedef struct tci_eip_http {
    tci_conn base;
    tci_http_dialler dialler;
    tci_tls_ctx *tls;
    tci_http_client *client;
    tci_url url;
    tci_secret authorization; /* "Bearer ..." */
    char *control, *transfer; /* their paths */
    tci_later stop;
    tci_timer stop_timer;
    unsigned nclosing; /* sessions told to close while we leave */
    bool is_stopping;
    bool is_behind_host; /* below a path: who answers for the daemon may be a Host */
} tci_eip_http;

static inline tci_eip_http *tci_eip_http_of(tci_conn *c)
{
    return TCI_CONTAINER(c, tci_eip_http, base);
}

/* Checked options, and what was read for them. */
int tci_eip_http_new(tc_runtime *rt, const tc_http_options *http, const tc_device_options *options,
                     tci_eip_http **ret_conn, tc_err *err) TC_CHECKED;
/* The rest of the request is the caller's. */
void tci_eip_http_fill(tci_eip_http *h, tci_http_request *request);
/* What an answer must look like. err: why not. */
int tci_eip_http_check_head(const tci_eip_http *h, const tci_http_head *head, unsigned status,
                            tc_str media_type, tc_err *err) TC_CHECKED;

/* http_host.c: what a Host says instead of an answer of the daemon, {"error":{"code","message"}}: into err, and
 * whether the daemon provably never got the request. false: that is not what it is. Loop thread. */
bool tci_eip_http_host_error(const tci_eip_http *h, tc_str body, tc_err *err, bool *ret_is_unsent);
enum { TCI_HOST_ERROR_MAX = 4096 };

extern const tci_conn_vtable tci_eip_http_vtable;

void tci_eip_http_xfer_start(tci_xfer *x);
void tci_eip_http_xfer_give(tci_xfer *x, tci_block *b);
void tci_eip_http_xfer_end(tci_xfer *x);
void tci_eip_http_xfer_reset(tci_xfer *x, tci_eipd_status status);
void tci_eip_http_xfer_forget(tci_xfer *x);

#endif
