/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS 1.2 and 1.3 as a stream on top of any stream. OpenSSL is initialised when the first context
 * is made, not before. Streams: loop thread only; contexts may be made on any thread (they read
 * files) and are then used on the loop thread. */
#ifndef TCI_NET_TLS_H
#define TCI_NET_TLS_H

#include "base/str.h"
#include "net/stream.h"

/* What many streams share. Streams keep what they need of it: it may be freed before them. */
typedef struct tci_tls_ctx tci_tls_ctx;

/* The embedding program's say over a context: ssl_ctx is OpenSSL's SSL_CTX. A failure is passed on.
 */
typedef int (*tci_tls_configure)(void *ssl_ctx, void *user, tc_err *err);

/* A server's certificate: PEM files, the chain from the leaf up. ALPN chooses http/1.1 when the
 * client offers protocols; a client that offers only others is refused.
 * Errors: NOT_FOUND or DENIED (a file cannot be read), INVALID (not PEM, key protected by a
 * password, key of another certificate), NO_MEMORY. */
int tci_tls_ctx_new_server(const char *cert_pem_path, const char *key_pem_path,
                           tci_tls_ctx **ret_ctx, tc_err *err) TC_CHECKED;

/* Zero is the usual: system roots, verification on. */
typedef struct tci_tls_client_options {
    const char *ca_pem_path;     /* trusted besides the system's roots; NULL: none */
    bool without_system_roots;   /* trust only ca_pem_path */
    bool insecure_no_verify;     /* the person asked for it: any certificate will do */
    tci_tls_configure configure; /* NULL: none; runs last */
    void *configure_user;
} tci_tls_client_options;

/* Errors: NOT_FOUND or DENIED (ca_pem_path cannot be read), INVALID (no certificate in it),
 * what configure returned, NO_MEMORY. */
int tci_tls_ctx_new_client(const tci_tls_client_options *options, tci_tls_ctx **ret_ctx,
                           tc_err *err) TC_CHECKED;
/* One more holder, who frees it too. Returns ctx. */
tci_tls_ctx *tci_tls_ctx_hold(tci_tls_ctx *ctx);
void tci_tls_ctx_free(tci_tls_ctx *ctx); /* NULL is fine; gone with its last holder */

/* Put TLS on top of under. The handshake runs inside, by itself: the first WRITE readiness means
 * it is done; when it fails, what was asked for is reported ready and read and writev return why.
 *
 *   under               taken over, also when this fails; its on_ready and user are used here
 *   handshake_timeout_ms  0: no limit of its own
 *   host                (client) name or numeric address the certificate must be for; also sent as
 *                       SNI when it is a name
 *
 * read:  END after the peer's close_notify; CLOSED when the connection ended without it (what came
 *        may be cut short); UNTRUSTED: certificate not trusted or not for host; PROTOCOL; TIMEOUT.
 * writev: takes whole records and keeps at most one batch of them that under did not take yet.
 * shutdown_write: sends close_notify, then ends under. WRITE readiness after it or after writev
 *        means everything was handed to under.
 * close: what was accepted is still delivered, for at most 5 seconds, then under is closed.
 * Errors: NO_MEMORY, INVALID. */
int tci_tls_server_new(tci_tls_ctx *ctx, tci_loop *loop, tci_stream *under_own,
                       int64_t handshake_timeout_ms, tci_stream **ret_stream,
                       tc_err *err) TC_CHECKED;
int tci_tls_client_new(tci_tls_ctx *ctx, tci_loop *loop, tci_stream *under_own, tc_str host,
                       int64_t handshake_timeout_ms, tci_stream **ret_stream,
                       tc_err *err) TC_CHECKED;

/* Whether the handshake is done. s must be a stream made here. */
bool tci_tls_is_established(const tci_stream *s);

#endif
