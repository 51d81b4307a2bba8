/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS for builds without it (TC_TLS=OFF): no context can be made, and the caller is told which
 * build has it. Leaves everything else to tls.c and tls_ctx.c, whose place it takes. Loop thread.
 * Invariant: since no context exists, nobody has a stream to ask about. */
#include "net/tls.h"

static int refuse(tc_err *err)
{
    tc_err_set(err, TC_E_UNSUPPORTED, "this build has no TLS");
    return tc_err_hint(err, "use the build with TLS (telechird-tls-...), or plain http behind a "
                            "proxy that ends TLS");
}

int tci_tls_ctx_new_server(const char *cert_pem_path, const char *key_pem_path,
                           tci_tls_ctx **ret_ctx, tc_err *err)
{
    TCI_UNUSED(cert_pem_path);
    TCI_UNUSED(key_pem_path);
    TCI_UNUSED(ret_ctx);
    return refuse(err);
}

int tci_tls_ctx_new_client(const tci_tls_client_options *options, tci_tls_ctx **ret_ctx,
                           tc_err *err)
{
    TCI_UNUSED(options);
    TCI_UNUSED(ret_ctx);
    return refuse(err);
}

tci_tls_ctx *tci_tls_ctx_hold(tci_tls_ctx *ctx)
{
    return ctx;
}

void tci_tls_ctx_free(tci_tls_ctx *ctx)
{
    TC_ASSERT(ctx == NULL);
}

int tci_tls_server_new(tci_tls_ctx *ctx, tci_loop *loop, tci_stream *under_own,
                       int64_t handshake_timeout_ms, tci_stream **ret_stream, tc_err *err)
{
    TCI_UNUSED(ctx);
    TCI_UNUSED(loop);
    TCI_UNUSED(handshake_timeout_ms);
    TCI_UNUSED(ret_stream);
    tci_stream_close(under_own);
    return refuse(err);
}

int tci_tls_client_new(tci_tls_ctx *ctx, tci_loop *loop, tci_stream *under_own, tc_str host,
                       int64_t handshake_timeout_ms, tci_stream **ret_stream, tc_err *err)
{
    TCI_UNUSED(host);
    return tci_tls_server_new(ctx, loop, under_own, handshake_timeout_ms, ret_stream, err);
}

bool tci_tls_is_established(const tci_stream *s)
{
    TCI_UNUSED(s);
    return false;
}
