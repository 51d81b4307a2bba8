/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two files of TLS share. */
#ifndef TCI_TLS_INT_H
#define TCI_TLS_INT_H

#include "net/tls.h"
#include <openssl/ssl.h>

/* Counted: its maker and every stream hold it. */
struct tci_tls_ctx {
    SSL_CTX *ssl_ctx;
    BIO_METHOD *carrier; /* how OpenSSL reads and writes the stream below; made by tls.c */
    atomic_uint nrefs;
    bool is_server, verifies;
};

/* tls.c: NULL when memory is gone. */
BIO_METHOD *tci_tls_carrier_new(void);

/* The text of the oldest error in OpenSSL's queue, which is emptied; "unknown" when there is none.
 */
void tci_tls_reason(char *out, size_t out_size);

#endif
