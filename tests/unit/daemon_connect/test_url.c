/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and addresses of a Host: what is accepted, the one form they get, and where a Host may send us. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/connect/connect_int.h"

#include <stdio.h>

typedef int (*reader)(tc_str base, tc_str text, tci_arena *a, tc_str *ret, tc_err *err);

typedef struct row {
    const char *base, *text;
    const char *want; /* NULL: refused */
} row;

static void check(const row *rows, size_t nrows, reader read)
{
    for (size_t i = 0; i < nrows; i++) {
        tci_arena a;
        tc_err err = {0};
        tc_str got;
        tci_arena_init(&a, 0);
        int rc = read(tci_str(rows[i].base), tci_str(rows[i].text), &a, &got, &err);
        if ((rc == 0) != (rows[i].want != NULL))
            fail_msg("%s: %s", rows[i].text, rc == 0 ? "accepted" : err.msg);
        if (rc == 0 && !tci_str_eq(got, tci_str(rows[i].want)))
            fail_msg("%s: got %.*s, want %s", rows[i].text, TC_STR_ARG(got), rows[i].want);
        tci_arena_done(&a);
    }
}

static int read_base(tc_str base, tc_str text, tci_arena *a, tc_str *ret, tc_err *err)
{
    TCI_UNUSED(base);
    return tci_connect_base(text, a, ret, err);
}

static void names(void **state)
{
    static const char *const good[] = {"a", "work", "A.b-c_9", "...", ".a", "-"};
    static const char *const bad[] = {"", ".", "..", "a/b", "a b", "\xc3\xa9", "a\n", "~", "a:b"};
    char text[80];
    (void)state;
    for (size_t i = 0; i < TCI_ARRAY_LEN(good); i++)
        assert_true(tci_connect_is_name(tci_str(good[i])));
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        assert_false(tci_connect_is_name(tci_str(bad[i])));
    memset(text, 'x', sizeof text);
    assert_true(tci_connect_is_name(tci_str_of(text, 64)));
    assert_false(tci_connect_is_name(tci_str_of(text, 65)));
    assert_false(tci_connect_is_name(tci_str_of("a\0b", 3)));
}

static void addresses_of_hosts(void **state)
{
    static const row rows[] = {
        {"", "https://host.example", "https://host.example/"},
        {"", "HTTPS://Host.Example:443/", "https://host.example/"},
        {"", "https://host.example:8443", "https://host.example:8443/"},
        {"", "https://host.example/a/b", "https://host.example/a/b/"},
        {"", "https://host.example/a/./b/../c/", "https://host.example/a/c/"},
        {"", "https://host.example/../../a", "https://host.example/a/"},
        {"", "https://host.example/a/%2e%2E/b", "https://host.example/b/"},
        {"", "https://host.example/%20", "https://host.example/%20/"},
        {"", "http://localhost", "http://localhost/"},
        {"", "http://LOCALHOST:80", "http://localhost/"},
        {"", "http://127.0.0.1:9", "http://127.0.0.1:9/"},
        {"", "http://127.9.9.9", "http://127.9.9.9/"},
        {"", "http://[::1]:9/x", "http://[::1]:9/x/"},
        /* Only this machine itself. */
        {"", "http://host.example", NULL},
        {"", "http://10.0.0.1", NULL},
        {"", "http://a.localhost", NULL},
        {"", "http://localhost.", NULL},
        {"", "http://127.1", NULL},
        {"", "http://localhost.host.example", NULL},
        {"", "http://0.0.0.0", NULL},
        /* Nothing but a way to a Host. */
        {"", "https://u@host.example", NULL},
        {"", "https://@host.example", NULL},
        {"", "https://u:p@host.example/", NULL},
        {"", "https://host.example/?a", NULL},
        {"", "https://host.example/?", NULL},
        {"", "https://host.example/#", NULL},
        {"", "ftp://127.0.0.1/", NULL},
        {"", "wss://host.example/", NULL},
        {"", "https://", NULL},
        {"", "https://host.example:0/", NULL},
        {"", "https://host.example:70000/", NULL},
        {"", "https://host example/", NULL},
        {"", "https://host.example/a b", NULL},
        {"", "https://host.example/a\\b", NULL},
        {"", "://x", NULL},
        {"", "", NULL},
    };
    (void)state;
    check(rows, TCI_ARRAY_LEN(rows), read_base);
}

static void the_form_is_stable(void **state)
{
    static const char *const texts[] = {"https://H/a/../b//c", "http://127.0.0.1:80",
                                        "http://[::1]"};
    (void)state;
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++) {
        tci_arena a;
        tc_err err;
        tc_str once, twice;
        tci_arena_init(&a, 0);
        assert_int_equal(tci_connect_base(tci_str(texts[i]), &a, &once, &err), 0);
        assert_int_equal(tci_connect_base(once, &a, &twice, &err), 0);
        assert_true(tci_str_eq(once, twice));
        tci_arena_done(&a);
    }
}

static void default_names(void **state)
{
    tci_arena a;
    tc_err err;
    tc_str alias;
    (void)state;
    tci_arena_init(&a, 0);
    assert_int_equal(tci_connect_default_alias(TC_STR("http://127.0.0.1:9/"), &a, &alias, &err), 0);
    assert_true(tci_str_eq(alias, TC_STR("host-0aaac99222ebe069")));
    assert_true(tci_connect_is_name(alias));
    tci_arena_done(&a);
}

/* The examples of RFC 3986, section 5.4, but for those whose base has a query. */
static void references(void **state)
{
#define B "https://a/b/c/"
    static const row rows[] = {
        {B, "g", B "g"},
        {B, "./g", B "g"},
        {B, "g/", B "g/"},
        {B, "/g", "https://a/g"},
        {B, "//g", "https://g/"},
        {B, "?y", B "?y"},
        {B, "g?y", B "g?y"},
        {B, "#s", B "#s"},
        {B, "g#s", B "g#s"},
        {B, "g?y#s", B "g?y#s"},
        {B, ";x", B ";x"},
        {B, "", B},
        {B, ".", B},
        {B, "./", B},
        {B, "..", "https://a/b/"},
        {B, "../g", "https://a/b/g"},
        {B, "../..", "https://a/"},
        {B, "../../g", "https://a/g"},
        {B, "../../../../g", "https://a/g"},
        {B, "/./g", "https://a/g"},
        {B, "g.", B "g."},
        {B, "..g", B "..g"},
        {B, "./../g", "https://a/b/g"},
        {B, "g/./h", B "g/h"},
        {B, "g/../h", B "h"},
        {B, "g?y/../x", B "g?y/../x"},
        {B, "http://g/x", "http://g/x"},
        {B, "mailto:x", NULL},
        {B, "javascript:alert(1)", NULL},
        {B, "g:80/x", NULL},
    };
#undef B
    (void)state;
    check(rows, TCI_ARRAY_LEN(rows), tci_connect_resolve);
}

static void where_the_socket_goes(void **state)
{
#define H "http://127.0.0.1:9/"
#define S "https://h.example/p/"
    static const row rows[] = {
        {H, "/api/devices/dev-1/connect", "ws://127.0.0.1:9/api/devices/dev-1/connect"},
        {H, "http://127.0.0.1:9/x", "ws://127.0.0.1:9/x"},
        {H, "ws://127.0.0.1:9/x", "ws://127.0.0.1:9/x"},
        {H, "ws://127.0.0.1:9", "ws://127.0.0.1:9/"},
        {S, "x/y", "wss://h.example/p/x/y"},
        {S, "https://h.example/x", "wss://h.example/x"},
        {S, "WSS://H.example:443/x", "wss://h.example/x"},
        {S, "//h.example/x", "wss://h.example/x"},
        {H, "ws://127.0.0.1/x", NULL},
        {H, "ws://127.0.0.2:9/x", NULL},
        {H, "ws://localhost:9/x", NULL},
        {H, "wss://127.0.0.1:9/x", NULL},
        {S, "ws://h.example/x", NULL},
        {S, "http://h.example:443/x", NULL},
        {S, "wss://h.example:444/x", NULL},
        {S, "//evil.example/x", NULL},
        {S, "wss://u@h.example/x", NULL},
        {S, "wss://@h.example/x", NULL},
        {S, "x?y", NULL},
        {S, "x?", NULL},
        {S, "x#", NULL},
        {S, "x y", NULL},
        {S, "/\\evil.example", NULL},
        {S, "x\r\nHost: evil", NULL},
    };
    (void)state;
    check(rows, TCI_ARRAY_LEN(rows), tci_connect_socket_url);
}

static void the_page_to_open(void **state)
{
    static const row rows[] = {
        {S, "/approve?c=1#x", "https://h.example/approve?c=1#x"},
        {S, "approve", "https://h.example/p/approve"},
        {S, "a b\xc3\xa9", "https://h.example/p/a%20b%C3%A9"},
        {S, "https://h.example:443/a", "https://h.example/a"},
        /* Not the Host's own: nothing to open. */
        {S, "https://evil.example/a", ""},
        {S, "http://h.example/a", ""},
        {S, "https://h.example:444/a", ""},
        {S, "https://h.example@evil.example/", ""},
        {S, "https://u@h.example/", ""},
        {S, "wss://h.example/", ""},
        {S, "javascript:alert(1)", NULL},
        {S, "http://[x", NULL},
        {S, "/a\x1b[2J", NULL},
    };
#undef H
#undef S
    (void)state;
    check(rows, TCI_ARRAY_LEN(rows), tci_connect_approval_url);
}

static void long_ones_are_refused(void **state)
{
    static char text[TCI_CONNECT_URL_MAX + 100];
    tci_arena a;
    tc_err err;
    tc_str got;
    (void)state;
    tci_arena_init(&a, 0);
    memset(text, 'a', sizeof text);
    memcpy(text, "https://h/", 10);
    tc_str whole = tci_str_of(text, sizeof text), most = tci_str_of(text, TCI_CONNECT_URL_MAX);
    assert_int_equal(tci_connect_base(whole, &a, &got, &err), TC_E_INVALID);
    assert_int_equal(tci_connect_base(most, &a, &got, &err), 0);
    assert_int_equal(tci_connect_socket_url(TC_STR("https://h/"), whole, &a, &got, &err),
                     TC_E_INVALID);
    assert_int_equal(tci_connect_approval_url(TC_STR("https://h/"), whole, &a, &got, &err),
                     TC_E_INVALID);
    tci_arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(addresses_of_hosts),
        cmocka_unit_test(the_form_is_stable),
        cmocka_unit_test(default_names),
        cmocka_unit_test(references),
        cmocka_unit_test(where_the_socket_goes),
        cmocka_unit_test(the_page_to_open),
        cmocka_unit_test(long_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
