/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates for tests, made once per run. */
#include "test_net.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

static X509 *make_cert(const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key,
                       long serial)
{
    X509 *x = X509_new();
    assert_non_null(x);
    assert_int_equal(X509_set_version(x, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(x), serial), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(x), -3600));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(x), 86400));
    assert_int_equal(X509_set_pubkey(x, key), 1);
    X509_NAME *subject = X509_get_subject_name(x);
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                                (const unsigned char *)name, -1, -1, 0),
                     1);
    assert_int_equal(
        X509_set_issuer_name(x, issuer != NULL ? X509_get_subject_name(issuer) : subject), 1);
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer != NULL ? issuer : x, x, NULL, NULL, 0);
    const char *basic = issuer != NULL ? "critical,CA:FALSE" : "critical,CA:TRUE";
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, NID_basic_constraints, basic);
    assert_int_equal(X509_add_ext(x, e, -1), 1);
    X509_EXTENSION_free(e);
    if (issuer != NULL) {
        e = X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
        assert_int_equal(X509_add_ext(x, e, -1), 1);
        X509_EXTENSION_free(e);
    }
    assert_true(X509_sign(x, issuer_key, EVP_sha256()) > 0);
    return x;
}

static void write_cert(const char *path, X509 *x)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, x), 1);
    assert_int_equal(fclose(f), 0);
}

static void write_key(const char *path, EVP_PKEY *key, const char *password)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(PEM_write_PKCS8PrivateKey(f, key, password != NULL ? EVP_aes_128_cbc() : NULL,
                                               password, password != NULL ? 6 : 0, NULL, NULL),
                     1);
    assert_int_equal(fclose(f), 0);
}

const cert_files *make_certs(void)
{
    static const cert_files files = {"ca.pem",  "other-ca.pem", "cert.pem",
                                     "key.pem", "locked.pem",   "not.pem"};
    FILE *f = fopen(files.not_pem, "rb");
    if (f != NULL) { /* made before */
        assert_int_equal(fclose(f), 0);
        return &files;
    }
    EVP_PKEY *keys[3];
    for (int i = 0; i < 3; i++)
        assert_non_null(keys[i] = EVP_EC_gen("P-256"));
    X509 *ca = make_cert("test authority", keys[0], NULL, keys[0], 1);
    X509 *other = make_cert("another authority", keys[1], NULL, keys[1], 2);
    X509 *cert = make_cert("localhost", keys[2], ca, keys[0], 3);
    write_cert(files.ca, ca);
    write_cert(files.other_ca, other);
    write_cert(files.cert, cert);
    write_key(files.key, keys[2], NULL);
    write_key(files.locked_key, keys[2], "secret");
    X509_free(ca);
    X509_free(other);
    X509_free(cert);
    for (int i = 0; i < 3; i++)
        EVP_PKEY_free(keys[i]);
    f = fopen(files.not_pem, "wb");
    assert_non_null(f);
    assert_true(fputs("not a certificate\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    return &files;
}
