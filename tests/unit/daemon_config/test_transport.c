/* SPDX-License-Identifier: Apache-2.0
 *
 * Which transport, and what HTTP demands: address, credential, certificate, plaintext scope. */
#include "load.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HTTP "A13N_ENVD_TRANSPORT=http"
#define BIND "A13N_ENVD_HTTP_BIND=127.0.0.1:0"
#define SCOPE "A13N_ENVD_HTTP_PLAINTEXT_SCOPE="
#define LOOPBACK SCOPE "loopback"

static void which_transport(void **state)
{
    (void)state;
    static const verdict rows[] = {
        {{{NULL}}, {{"A13N_ENVD_TRANSPORT=stdio"}}, NULL},
        {{{NULL}},
         {{"A13N_ENVD_TRANSPORT="}},
         "A13N_ENVD_TRANSPORT must be stdio, http or reverse_websocket"},
        {{{NULL}}, {{"A13N_ENVD_TRANSPORT=x"}}, "A13N_ENVD_TRANSPORT must be"},
        {{{NULL}},
         {{"A13N_ENVD_TRANSPORT=reverse_websocket"}},
         "A13N_ENVD_REVERSE_WS_URL is required"},
        {{{NULL}},
         {{"A13N_ENVD_TRANSPORT=reverse_websocket", "A13N_ENVD_REVERSE_WS_URL=ws://h/"}},
         "A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE is required"},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

/* Even an empty one is a mistake that somebody should hear of. */
static void variables_of_another_transport_are_refused(void **state)
{
    (void)state;
    static const verdict rows[] = {
        {{{NULL}}, {{BIND}}, "A13N_ENVD_HTTP_BIND is not valid with stdio transport"},
        {{{NULL}},
         {{"A13N_ENVD_HTTP_BIND="}},
         "A13N_ENVD_HTTP_BIND is not valid with stdio transport"},
        {{{NULL}},
         {{"TELECHIRD_HTTP_TLS_KEY_FILE="}},
         "TELECHIRD_HTTP_TLS_KEY_FILE is not valid with stdio"},
        {{{NULL}}, {{"A13N_ENVD_HTTP_CREDENTIAL_FILE=/c"}}, "is not valid with stdio transport"},
        {{{NULL}}, {{LOOPBACK}}, "is not valid with stdio transport"},
        {{{NULL}},
         {{"A13N_ENVD_REVERSE_WS_URL="}},
         "A13N_ENVD_REVERSE_WS_URL is not valid with stdio transport"},
        {{{NULL}}, {{HTTP, "A13N_ENVD_REVERSE_WS_CA_FILE=/x"}}, "is not valid with http transport"},
        {{{NULL}},
         {{"A13N_ENVD_TRANSPORT=reverse_websocket", "A13N_ENVD_HTTP_BIND="}},
         "is not valid with reverse_websocket transport"},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

static void http_needs_a_numeric_address(void **state)
{
    (void)state;
    static const verdict rows[] = {
        {{{NULL}}, {{HTTP}}, "A13N_ENVD_HTTP_BIND is required"},
        {{{NULL}},
         {{HTTP, "A13N_ENVD_HTTP_BIND=localhost:1"}},
         "A13N_ENVD_HTTP_BIND must be a numeric IP address"},
        {{{NULL}},
         {{HTTP, "A13N_ENVD_HTTP_BIND=127.0.0.1"}},
         "A13N_ENVD_HTTP_BIND must be a numeric IP address"},
        {{{NULL}}, {{HTTP, "A13N_ENVD_HTTP_BIND=127.0.0.1:70000"}}, "must be a numeric IP address"},
        {{{NULL}}, {{HTTP, "A13N_ENVD_HTTP_BIND=::1:80"}}, "must be a numeric IP address"},
        {{{NULL}}, {{HTTP, "A13N_ENVD_HTTP_BIND="}}, "must be a numeric IP address"},
        {{{NULL}}, {{HTTP, BIND}}, "A13N_ENVD_HTTP_CREDENTIAL_FILE is required"},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

/* ---- the credential ---- */

typedef struct credential_row {
    const char *text;
    size_t len;
    const char *credential; /* NULL: refused */
} credential_row;

static void credential_content(void **state)
{
    char most[8193];
    (void)state;
    memset(most, 'a', sizeof most);
    const credential_row rows[] = {
        {"secret", 6, "secret"},
        {"secret\n", 7, "secret"},
        {"secret\r\n", 8, "secret"},
        {"s\xc3\xa9", 3, "s\xc3\xa9"},
        {"\xff", 1, "\xff"},
        {"", 0, NULL},
        {"\n", 1, NULL},
        {"a\n\n", 3, NULL},
        {"a b", 3, NULL},
        {"a\tb", 3, NULL},
        {"a\0b", 3, NULL},
        {"a\x7f", 2, NULL},
        {"a\r", 2, NULL},
        {most, 8193, NULL},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        loaded l;
        (void)put_file("credential", rows[i].text, rows[i].len);
        words vars = {
            {HTTP, BIND, LOOPBACK, var_path("A13N_ENVD_HTTP_CREDENTIAL_FILE", "credential")}};
        load(&l, "a13n-envd", NULL, &vars);
        if (rows[i].credential != NULL) {
            assert_int_equal(l.rc, 0);
            assert_text(tci_secret_str(&l.config.http_credential), rows[i].credential);
        } else {
            assert_int_equal(l.rc, TC_E_INVALID);
            assert_has(l.err.msg, "A13N_ENVD_HTTP_CREDENTIAL_FILE must hold 1 to 8192 bytes");
        }
        unload(&l);
    }
}

static void the_longest_credential(void **state)
{
    loaded l;
    char most[8194];
    (void)state;
    memset(most, 'a', 8192);
    memcpy(most + 8192, "\r\n", 2);
    (void)put_file("longest", most, sizeof most);
    words vars = {{HTTP, BIND, LOOPBACK, var_path("A13N_ENVD_HTTP_CREDENTIAL_FILE", "longest")}};
    load(&l, "a13n-envd", NULL, &vars);
    assert_int_equal(l.rc, 0);
    assert_int_equal(tci_secret_str(&l.config.http_credential).len, 8192);
    unload(&l);
}

static void credential_file(void **state)
{
    (void)state;
    const char *good = put_text_file("good", "secret");
    assert_int_equal(symlink(good, path_of("link")), 0);
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    const char *link = var_path("A13N_ENVD_HTTP_CREDENTIAL_FILE", "link");
    const char *fifo = var_path("A13N_ENVD_HTTP_CREDENTIAL_FILE", "fifo");
    const verdict rows[] = {
        {{{NULL}},
         {{HTTP, BIND, LOOPBACK, "A13N_ENVD_HTTP_CREDENTIAL_FILE=rel"}},
         "must be an absolute path"},
        {{{NULL}},
         {{HTTP, BIND, LOOPBACK, "A13N_ENVD_HTTP_CREDENTIAL_FILE="}},
         "must be an absolute path"},
        {{{NULL}},
         {{HTTP, BIND, LOOPBACK, "A13N_ENVD_HTTP_CREDENTIAL_FILE=/nowhere"}},
         "cannot read A13N_ENVD_HTTP_CREDENTIAL_FILE"},
        {{{NULL}},
         {{HTTP, BIND, LOOPBACK, "A13N_ENVD_HTTP_CREDENTIAL_FILE=/"}},
         "must be a regular file, not a symlink"},
        {{{NULL}}, {{HTTP, BIND, LOOPBACK, link}}, "must be a regular file, not a symlink"},
        {{{NULL}}, {{HTTP, BIND, LOOPBACK, fifo}}, "must be a regular file, not a symlink"},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

/* ---- plaintext and TLS ---- */

static void plaintext_is_for_loopback_or_a_private_link(void **state)
{
    (void)state;
    (void)put_text_file("secret", "secret");
    const char *file = var_path("A13N_ENVD_HTTP_CREDENTIAL_FILE", "secret");
    const verdict rows[] = {
        {{{NULL}}, {{HTTP, BIND, file}}, "A13N_ENVD_HTTP_PLAINTEXT_SCOPE is required"},
        {{{NULL}}, {{HTTP, BIND, file, SCOPE}}, "must be loopback or provider_private_link"},
        {{{NULL}}, {{HTTP, BIND, file, SCOPE "all"}}, "must be loopback or provider_private_link"},
        {{{NULL}}, {{HTTP, BIND, file, LOOPBACK}}, NULL},
        {{{NULL}}, {{HTTP, "A13N_ENVD_HTTP_BIND=127.5.5.5:80", file, LOOPBACK}}, NULL},
        {{{NULL}}, {{HTTP, "A13N_ENVD_HTTP_BIND=[::1]:80", file, LOOPBACK}}, NULL},
        {{{NULL}},
         {{HTTP, "A13N_ENVD_HTTP_BIND=0.0.0.0:80", file, LOOPBACK}},
         "loopback|A13N_ENVD_HTTP_BIND"},
        {{{NULL}}, {{HTTP, "A13N_ENVD_HTTP_BIND=10.0.0.1:80", file, LOOPBACK}}, "loopback"},
        {{{NULL}},
         {{HTTP, "A13N_ENVD_HTTP_BIND=[::ffff:127.0.0.1]:80", file, LOOPBACK}},
         "loopback"},
        {{{NULL}},
         {{HTTP, "A13N_ENVD_HTTP_BIND=0.0.0.0:80", file, SCOPE "provider_private_link"}},
         NULL},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

static void certificate_and_key_belong_together(void **state)
{
    (void)state;
    (void)put_text_file("secret", "secret");
    (void)put_text_file("cert", "cert");
    const char *file = var_path("A13N_ENVD_HTTP_CREDENTIAL_FILE", "secret");
    const char *cert = var_path("A13N_ENVD_HTTP_TLS_CERT_FILE", "cert");
    const char *key = var_path("A13N_ENVD_HTTP_TLS_KEY_FILE", "cert");
    const verdict rows[] = {
        {{{NULL}},
         {{HTTP, BIND, file, cert}},
         "A13N_ENVD_HTTP_TLS_CERT_FILE|A13N_ENVD_HTTP_TLS_KEY_FILE|together"},
        {{{NULL}}, {{HTTP, BIND, file, key}}, "belong together"},
        {{{NULL}},
         {{HTTP, BIND, file, key, "A13N_ENVD_HTTP_TLS_CERT_FILE=rel"}},
         "must be an absolute path"},
        {{{NULL}},
         {{HTTP, BIND, file, key, "A13N_ENVD_HTTP_TLS_CERT_FILE="}},
         "must be an absolute path"},
        {{{NULL}},
         {{HTTP, BIND, file, cert, "A13N_ENVD_HTTP_TLS_KEY_FILE=/nowhere"}},
         "cannot read A13N_ENVD_HTTP_TLS_KEY_FILE"},
        {{{NULL}},
         {{HTTP, BIND, file, cert, key, LOOPBACK}},
         "A13N_ENVD_HTTP_PLAINTEXT_SCOPE is not valid with TLS"},
        {{{NULL}}, {{HTTP, "A13N_ENVD_HTTP_BIND=0.0.0.0:80", file, cert, key}}, NULL},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

static void http_values_arrive(void **state)
{
    loaded l;
    (void)state;
    (void)put_text_file("secret", "secret");
    (void)put_text_file("pem", "pem");
    words vars = {{HTTP, "A13N_ENVD_HTTP_BIND=0.0.0.0:8443",
                   var_path("A13N_ENVD_HTTP_CREDENTIAL_FILE", "secret"),
                   var_path("A13N_ENVD_HTTP_TLS_CERT_FILE", "pem"),
                   var_path("A13N_ENVD_HTTP_TLS_KEY_FILE", "pem")}};
    load(&l, "a13n-envd", NULL, &vars);
    assert_int_equal(l.rc, 0);
    assert_int_equal(l.config.transport, TCI_TRANSPORT_HTTP);
    assert_text(l.config.http_bind, "0.0.0.0:8443");
    assert_string_equal(l.config.http_tls_cert_file.ptr, path_of("pem"));
    assert_string_equal(l.config.http_tls_key_file.ptr, path_of("pem"));
    unload(&l);
}

/* ---- dialling out ---- */

#define WS "A13N_ENVD_TRANSPORT=reverse_websocket"
#define WS_URL "A13N_ENVD_REVERSE_WS_URL="
#define WS_FAULT "must be ws or wss with a host and without user info, query, or fragment"

static void where_to_dial(void **state)
{
    (void)state;
    (void)put_text_file("host-token", "secret");
    const char *file = var_path("A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE", "host-token");
    const verdict rows[] = {
        {{{NULL}}, {{WS, WS_URL "ws://h/", file}}, NULL},
        {{{NULL}}, {{WS, WS_URL "ws://h", file}}, NULL},
        {{{NULL}}, {{WS, WS_URL "WSS://h:8443/a/b", file}}, NULL},
        {{{NULL}}, {{WS, WS_URL "wss://[::1]:1/", file}}, NULL},
        {{{NULL}}, {{WS, WS_URL "http://h/", file}}, "A13N_ENVD_REVERSE_WS_URL " WS_FAULT},
        {{{NULL}}, {{WS, WS_URL "https://h/", file}}, WS_FAULT},
        {{{NULL}}, {{WS, WS_URL "ws://u:p@h/", file}}, WS_FAULT},
        {{{NULL}}, {{WS, WS_URL "ws://h/?", file}}, WS_FAULT},
        {{{NULL}}, {{WS, WS_URL "ws://h/?q=1", file}}, WS_FAULT},
        {{{NULL}}, {{WS, WS_URL "ws://h/#f", file}}, WS_FAULT},
        {{{NULL}}, {{WS, WS_URL "h", file}}, "must be a valid ws or wss URL"},
        {{{NULL}}, {{WS, WS_URL "ws:///p", file}}, "must be a valid ws or wss URL"},
        {{{NULL}}, {{WS, WS_URL "ws://h:99999/", file}}, "must be a valid ws or wss URL"},
        {{{NULL}}, {{WS, WS_URL "", file}}, "must be a valid ws or wss URL"},
        {{{NULL}},
         {{WS, WS_URL "ws://h/", "A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE=rel"}},
         "A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE must be an absolute path"},
        {{{NULL}},
         {{WS, WS_URL "ws://h/", "A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE=/nowhere"}},
         "cannot read A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE"},
        {{{NULL}},
         {{WS, WS_URL "ws://h/", file, "A13N_ENVD_REVERSE_WS_CA_FILE="}},
         "A13N_ENVD_REVERSE_WS_CA_FILE must be an absolute path"},
        {{{NULL}},
         {{WS, WS_URL "ws://h/", file, "A13N_ENVD_REVERSE_WS_CA_FILE=/"}},
         "must be a regular file, not a symlink"},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

static void what_to_dial_with(void **state)
{
    loaded l;
    (void)state;
    const char *token = put_text_file("host-token", "secret");
    const char *ca = put_text_file("host-ca", "pem");
    words vars = {{"TELECHIRD_TRANSPORT=reverse_websocket", "TELECHIRD_REVERSE_WS_URL=wss://h/p",
                   var_path("TELECHIRD_REVERSE_WS_CREDENTIAL_FILE", "host-token"),
                   var_path("TELECHIRD_REVERSE_WS_CA_FILE", "host-ca")}};
    load(&l, "telechird", NULL, &vars);
    assert_int_equal(l.rc, 0);
    assert_int_equal(l.config.transport, TCI_TRANSPORT_REVERSE_WEBSOCKET);
    assert_text(l.config.ws_url, "wss://h/p");
    assert_text(l.config.ws_credential_file, token);
    assert_text(l.config.ws_credential_name, "TELECHIRD_REVERSE_WS_CREDENTIAL_FILE");
    assert_text(l.config.ws_ca_file, ca);
    unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_transport),
        cmocka_unit_test(variables_of_another_transport_are_refused),
        cmocka_unit_test(http_needs_a_numeric_address),
        cmocka_unit_test(credential_content),
        cmocka_unit_test(the_longest_credential),
        cmocka_unit_test(credential_file),
        cmocka_unit_test(plaintext_is_for_loopback_or_a_private_link),
        cmocka_unit_test(certificate_and_key_belong_together),
        cmocka_unit_test(http_values_arrive),
        cmocka_unit_test(where_to_dial),
        cmocka_unit_test(what_to_dial_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
