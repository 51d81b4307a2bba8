/* SPDX-License-Identifier: Apache-2.0
 *
 * The usual places of trusted certificates. Leaves reading them, and SSL_CERT_FILE and SSL_CERT_DIR, to
 * TLS libraries. Any thread; holds nothing. */
#include "plat/roots.h"

#include <unistd.h>

static const char *const places[] = {
    "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Arch, Alpine, NixOS */
    "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, RHEL */
    "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* newer Fedora */
    "/etc/ssl/cert.pem",                                 /* OpenSSL, BSD, macOS */
    "/data/data/com.termux/files/usr/etc/tls/cert.pem",
};

const char *tci_roots_file(void)
{
    for (size_t i = 0; i < TCI_ARRAY_LEN(places); i++) {
        if (access(places[i], R_OK) == 0)
            return places[i];
    }
    return NULL;
}
