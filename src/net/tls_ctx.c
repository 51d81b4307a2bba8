/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: certificates, keys, trusted roots, versions, ALPN. Leaves connections to tls.c. Any
 * thread, one at a time per context. Invariant: verification is off only when the options say so.
 */
#include "net/tls_int.h"

#include "base/mem.h"
#include "plat/roots.h"
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>

static const unsigned char http11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

void tci_tls_reason(char *out, size_t out_size)
{
    unsigned long code = ERR_get_error();
    const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;
    if (text != NULL)
        (void)snprintf(out, out_size, "%s", text);
    else if (code != 0 && ERR_SYSTEM_ERROR(code))
        (void)snprintf(out, out_size, "%s", strerror(ERR_GET_REASON(code)));
    else
        (void)snprintf(out, out_size, "unknown");
    ERR_clear_error();
}

/* The file's own trouble, if the queue tells of one; else that it is not what it should be. */
static int file_error(const char *what, const char *path, tc_err *err)
{
    int os = 0;
    for (unsigned long code = ERR_get_error(); code != 0; code = ERR_get_error())
        if (ERR_SYSTEM_ERROR(code) && os == 0)
            os = ERR_GET_REASON(code);
    if (os == ENOENT || os == ENOTDIR)
        return tc_err_set_os(err, TC_E_NOT_FOUND, os, "cannot read %s '%s'", what, path);
    if (os != 0)
        return tc_err_set_os(err, TC_E_DENIED, os, "cannot read %s '%s'", what, path);
    return tc_err_set(err, TC_E_INVALID, "%s '%s' is not usable PEM", what, path);
}

/* Nobody is asked for a password: a key that needs one is refused. */
static int no_password(char *buf, int size, int is_writing, void *user)
{
    TCI_UNUSED(buf);
    TCI_UNUSED(size);
    TCI_UNUSED(is_writing);
    TCI_UNUSED(user);
    return -1;
}

/* RFC 7301 section 3.2: nothing in common ends the handshake. */
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *in, unsigned in_len, void *arg)
{
    TCI_UNUSED(ssl);
    TCI_UNUSED(arg);
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, out_len, http11, sizeof http11, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int new_ctx(const SSL_METHOD *method, bool is_server, tci_tls_ctx **ret_ctx, tc_err *err)
{
    tci_tls_ctx *ctx = tci_new(tci_tls_ctx);
    if (ctx == NULL)
        return tci_err_no_memory(err);
    ERR_clear_error();
    ctx->is_server = is_server;
    atomic_init(&ctx->nrefs, 1);
    ctx->ssl_ctx = SSL_CTX_new(method);
    ctx->carrier = tci_tls_carrier_new();
    if (ctx->ssl_ctx == NULL || ctx->carrier == NULL ||
        SSL_CTX_set_min_proto_version(ctx->ssl_ctx, TLS1_2_VERSION) != 1) {
        tci_tls_ctx_free(ctx);
        return tci_err_no_memory(err);
    }
    SSL_CTX_set_options(ctx->ssl_ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                          SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ctx->ssl_ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_read_ahead(ctx->ssl_ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx->ssl_ctx, 65536);
    (void)SSL_CTX_set_session_cache_mode(ctx->ssl_ctx, SSL_SESS_CACHE_OFF); /* the old mode */
    *ret_ctx = ctx;
    return 0;
}

static int load_identity(SSL_CTX *c, const char *cert_path, const char *key_path, tc_err *err)
{
    SSL_CTX_set_default_passwd_cb(c, no_password);
    if (SSL_CTX_use_certificate_chain_file(c, cert_path) != 1)
        return file_error("certificate", cert_path, err);
    if (SSL_CTX_use_PrivateKey_file(c, key_path, SSL_FILETYPE_PEM) != 1) {
        bool is_other_key = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
        if (!is_other_key)
            return file_error("private key", key_path, err);
        ERR_clear_error();
        return tc_err_set(err, TC_E_INVALID, "private key '%s' is not that of certificate '%s'",
                          key_path, cert_path);
    }
    if (SSL_CTX_check_private_key(c) == 1)
        return 0;
    ERR_clear_error();
    return tc_err_set(err, TC_E_INVALID, "private key '%s' is not that of certificate '%s'",
                      key_path, cert_path);
}

int tci_tls_ctx_new_server(const char *cert_pem_path, const char *key_pem_path,
                           tci_tls_ctx **ret_ctx, tc_err *err)
{
    tci_tls_ctx *ctx = NULL;
    int rc = new_ctx(TLS_server_method(), true, &ctx, err);
    if (rc < 0)
        return rc;
    rc = load_identity(ctx->ssl_ctx, cert_pem_path, key_pem_path, err);
    if (rc < 0) {
        tci_tls_ctx_free(ctx);
        return rc;
    }
    SSL_CTX_set_alpn_select_cb(ctx->ssl_ctx, choose_alpn, NULL);
    SSL_CTX_set_options(ctx->ssl_ctx, SSL_OP_NO_TICKET); /* no keys of past sessions lie about */
    (void)SSL_CTX_set_num_tickets(ctx->ssl_ctx, 0);      /* fails for no number this small */
    *ret_ctx = ctx;
    return 0;
}

static void load_system_roots(SSL_CTX *c)
{
    /* Honours SSL_CERT_FILE and SSL_CERT_DIR. Missing roots show as certificates not trusted. */
    (void)SSL_CTX_set_default_verify_paths(c);
    ERR_clear_error();
    bool has_roots = sk_X509_OBJECT_num(X509_STORE_get0_objects(SSL_CTX_get_cert_store(c))) > 0;
    const char *file = has_roots ? NULL : tci_roots_file();
    if (file != NULL)
        (void)SSL_CTX_load_verify_file(c, file);
    ERR_clear_error();
}

static int set_up_client(tci_tls_ctx *ctx, const tci_tls_client_options *o, tc_err *err)
{
    SSL_CTX *c = ctx->ssl_ctx;
    ctx->verifies = !o->insecure_no_verify;
    if (ctx->verifies) {
        SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
        if (!o->without_system_roots)
            load_system_roots(c);
        if (o->ca_pem_path != NULL && SSL_CTX_load_verify_file(c, o->ca_pem_path) != 1)
            return file_error("CA file", o->ca_pem_path, err);
    }
    if (SSL_CTX_set_alpn_protos(c, http11, sizeof http11) != 0) /* 0 is success here */
        return tci_err_no_memory(err);
    return o->configure != NULL ? o->configure(c, o->configure_user, err) : 0;
}

int tci_tls_ctx_new_client(const tci_tls_client_options *options, tci_tls_ctx **ret_ctx,
                           tc_err *err)
{
    tci_tls_ctx *ctx = NULL;
    int rc = new_ctx(TLS_client_method(), false, &ctx, err);
    if (rc == 0)
        rc = set_up_client(ctx, options, err);
    if (rc < 0) {
        tci_tls_ctx_free(ctx);
        return rc;
    }
    *ret_ctx = ctx;
    return 0;
}

tci_tls_ctx *tci_tls_ctx_hold(tci_tls_ctx *ctx)
{
    atomic_fetch_add(&ctx->nrefs, 1);
    return ctx;
}

void tci_tls_ctx_free(tci_tls_ctx *ctx)
{
    if (ctx == NULL || atomic_fetch_sub(&ctx->nrefs, 1) != 1)
        return;
    BIO_meth_free(ctx->carrier);
    SSL_CTX_free(ctx->ssl_ctx);
    tci_free(ctx);
}
