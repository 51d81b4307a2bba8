/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses in text, and the proxy the environment names. */
#include "test_net.h"

#include "net/proxy.h"
#include "net/url.h"
#include "plat/socket.h"
#include <string.h>

static void accepted_addresses(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *text, *host, *authority, *path;
        unsigned allow;
        tci_url_scheme scheme;
        uint16_t port;
    } rows[] = {
        {"http://example.com", "example.com", "example.com", "", 0, TCI_URL_HTTP, 80},
        {"HTTPS://Example.COM/", "example.com", "example.com", "/", 0, TCI_URL_HTTPS, 443},
        {"http://127.0.0.1:8080", "127.0.0.1", "127.0.0.1:8080", "", 0, TCI_URL_HTTP, 8080},
        {"wss://[::1]:443/a/b", "::1", "[::1]", "/a/b", TCI_URL_PATH, TCI_URL_WSS, 443},
        {"ws://[2001:DB8::1]", "2001:db8::1", "[2001:db8::1]", "", 0, TCI_URL_WS, 80},
        {"https://a_b.c-d.e.:65535", "a_b.c-d.e.", "a_b.c-d.e.:65535", "", 0, TCI_URL_HTTPS, 65535},
        {"https://1.2.3.x4", "1.2.3.x4", "1.2.3.x4", "", 0, TCI_URL_HTTPS, 443},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        tc_err err;
        tci_url url;
        char authority[TCI_URL_AUTHORITY_MAX];
        assert_int_equal(tci_url_parse(tci_str(rows[i].text), rows[i].allow, &url, &err), 0);
        assert_string_equal(url.host, rows[i].host);
        assert_string_equal(tci_url_authority(&url, authority), rows[i].authority);
        assert_int_equal(url.scheme, rows[i].scheme);
        assert_int_equal(url.port, rows[i].port);
        assert_true(tci_str_eq(url.path, tci_str(rows[i].path)));
    }
    tc_err err;
    tci_url url;
    assert_int_equal(
        tci_url_parse(TC_STR("http://u:p@w@h/x?y=/?#z#"),
                      TCI_URL_USERINFO | TCI_URL_PATH | TCI_URL_QUERY | TCI_URL_FRAGMENT, &url,
                      &err),
        0);
    assert_true(tci_str_eq(url.userinfo, TC_STR("u:p@w")));
    assert_string_equal(url.host, "h");
    assert_true(tci_str_eq(url.path, TC_STR("/x")));
    assert_true(tci_str_eq(url.query, TC_STR("y=/?")));
    assert_true(tci_str_eq(url.fragment, TC_STR("z#")));
}

static void refused_addresses(void **state)
{
    TCI_UNUSED(state);
    static const char *const rows[] = {
        "",
        "example.com",
        "ftp://example.com",
        "http:/example.com",
        "http://",
        "http://:80",
        "http://user@example.com",
        "http://user:secret@example.com",
        "http://example.com?x",
        "http://example.com#x",
        "http://example.com/path",
        "http://example.com:",
        "http://example.com:0",
        "http://example.com:65536",
        "http://example.com:080",
        "http://example.com:80:80",
        "http://exa mple.com",
        "http://example.com\r\n",
        "http://ex\xc3\xa4mple.com",
        "http://example..com",
        "http://.example.com",
        "http://exam%70le.com",
        "http://127.1",
        "http://2130706433",
        "http://0x7f.0x0.0x0.0x1",
        "http://0x7f000001",
        "http://256.1.1.1",
        "http://1.2.3.4.5",
        "http://::1",
        "http://[::1",
        "http://[::1]x",
        "http://[127.0.0.1]",
        "http://[fe80::1%25eth0]",
        "http://a\\b",
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        tc_err err;
        tci_url url;
        assert_int_equal(tci_url_parse(tci_str(rows[i]), 0, &url, &err), TC_E_INVALID);
        assert_null(strstr(err.msg, "secret"));
    }
}

static void loopback_hosts(void **state)
{
    TCI_UNUSED(state);
    static const char *const yes[] = {"localhost", "LOCALHOST.", "a.localhost",     "127.0.0.1",
                                      "127.9.9.9", "::1",        "::ffff:127.0.0.1"};
    static const char *const no[] = {
        "localhost.example.com", "example.com", "128.0.0.1", "::2", "0.0.0.0", "", "xlocalhost"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(yes); i++)
        assert_true(tci_host_is_loopback(tci_str(yes[i])));
    for (size_t i = 0; i < TCI_ARRAY_LEN(no); i++)
        assert_false(tci_host_is_loopback(tci_str(no[i])));
}

static void numeric_addresses(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_addr a, b;
    char text[TCI_ADDR_TEXT_MAX];
    assert_int_equal(tci_addr_parse(TC_STR("127.0.0.1:0"), &a, &err), 0);
    assert_true(tci_addr_is_loopback(&a));
    assert_string_equal(tci_addr_text(&a, text), "127.0.0.1:0");
    assert_int_equal(tci_addr_parse(TC_STR("[::1]:65535"), &b, &err), 0);
    assert_true(tci_addr_is_loopback(&b));
    assert_string_equal(tci_addr_text(&b, text), "[::1]:65535");
    assert_false(tci_addr_eq(&a, &b));
    assert_int_equal(tci_addr_parse(TC_STR("0.0.0.0:1"), &a, &err), 0);
    assert_true(tci_addr_is_any(&a));
    static const char *const bad[] = {"",           ":80",         "127.0.0.1",     "::1:80",
                                      "[::1]",      "[1.2.3.4]:1", "1.2.3.4:65536", "host:80",
                                      "1.2.3.4:-1", "1.2.3.4:"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        assert_int_equal(tci_addr_parse(tci_str(bad[i]), &a, &err), TC_E_INVALID);
}

/* ---- proxies ---- */

typedef struct variables {
    const char *upper, *lower, *no_upper, *no_lower;
} variables;

static const char *get(void *user, const char *name)
{
    const variables *v = user;
    if (strcmp(name, "HTTPS_PROXY") == 0)
        return v->upper;
    if (strcmp(name, "https_proxy") == 0)
        return v->lower;
    if (strcmp(name, "NO_PROXY") == 0)
        return v->no_upper;
    return strcmp(name, "no_proxy") == 0 ? v->no_lower : NULL;
}

/* The proxy's host, or "direct". */
static void expect_proxy(variables v, tci_url_scheme scheme, const char *host, const char *expected)
{
    tc_err err;
    tci_proxy p = {0};
    assert_int_equal(tci_proxy_for(scheme, tci_str(host), 8443, get, &v, &p, &err), 0);
    assert_string_equal(p.is_used ? p.host : "direct", expected);
    tci_proxy_done(&p);
}

static void proxy_is_chosen_by_scheme_and_host(void **state)
{
    TCI_UNUSED(state);
    variables v = {.upper = "http://proxy:3128"};
    expect_proxy(v, TCI_URL_HTTPS, "example.com", "proxy");
    expect_proxy(v, TCI_URL_WSS, "example.com", "proxy");
    expect_proxy(v, TCI_URL_HTTP, "example.com", "direct");
    expect_proxy(v, TCI_URL_WS, "example.com", "direct");
    expect_proxy(v, TCI_URL_HTTPS, "localhost", "direct");
    expect_proxy(v, TCI_URL_HTTPS, "127.0.0.1", "direct");
    expect_proxy(v, TCI_URL_HTTPS, "::1", "direct");
    expect_proxy((variables){0}, TCI_URL_HTTPS, "example.com", "direct");
    expect_proxy((variables){.upper = "", .lower = "low:1"}, TCI_URL_HTTPS, "example.com", "low");
    expect_proxy((variables){.upper = "up", .lower = "low"}, TCI_URL_HTTPS, "example.com", "up");
    expect_proxy((variables){.upper = "not a proxy"}, TCI_URL_HTTP, "example.com", "direct");
}

static void no_proxy_makes_exceptions(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *list, *host;
        bool is_direct;
    } rows[] = {
        {"*", "example.com", true},
        {"example.com", "example.com", true},
        {"example.com", "EXAMPLE.com.", true},
        {"example.com", "a.example.com", true},
        {"example.com", "badexample.com", false},
        {".example.com", "a.example.com", true},
        {".example.com", "example.com", true},
        {"*.example.com", "a.b.example.com", true},
        {"a.example.com", "example.com", false},
        {" other , example.com ", "example.com", true},
        {"example.com:8443", "example.com", true},
        {"example.com:443", "example.com", false},
        {"example.com:x", "example.com", false},
        {"10.0.0.0/8", "10.1.2.3", true},
        {"10.0.0.0/8", "11.1.2.3", false},
        {"10.128.0.0/9", "10.129.0.1", true},
        {"10.128.0.0/9", "10.1.0.1", false},
        {"0.0.0.0/0", "1.2.3.4", true},
        {"10.0.0.0/33", "10.0.0.1", false},
        {"10.1.2.3", "10.1.2.3", true},
        {"10.1.2.3:8443", "10.1.2.3", true},
        {"2001:db8::/32", "2001:db8::5", true},
        {"2001:db8::5", "2001:db8:0::5", true},
        {"[2001:db8::5]:8443", "2001:db8::5", true},
        {"[2001:db8::5]:1", "2001:db8::5", false},
        {"::/0", "10.1.2.3", false},
        {",,.,", "example.com", false},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        variables v = {.upper = "http://proxy", .no_lower = rows[i].list};
        expect_proxy(v, TCI_URL_HTTPS, rows[i].host, rows[i].is_direct ? "direct" : "proxy");
    }
    variables both = {.upper = "http://proxy", .no_upper = "other", .no_lower = "example.com"};
    expect_proxy(both, TCI_URL_HTTPS, "example.com", "proxy");
}

static void proxy_password_becomes_a_header_and_stays_out_of_errors(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_proxy p = {0};
    variables v = {.upper = "http://user:p%40ss@proxy:3128/"};
    assert_int_equal(tci_proxy_for(TCI_URL_HTTPS, TC_STR("h"), 443, get, &v, &p, &err), 0);
    assert_int_equal(p.port, 3128);
    assert_true(tci_secret_eq(&p.authorization, TC_STR("Basic dXNlcjpwQHNz")));
    tci_proxy_done(&p);
    v.upper = "http://user@proxy";
    assert_int_equal(tci_proxy_for(TCI_URL_HTTPS, TC_STR("h"), 443, get, &v, &p, &err), 0);
    assert_true(tci_secret_eq(&p.authorization, TC_STR("Basic dXNlcjo=")));
    assert_int_equal(p.port, 80);
    tci_proxy_done(&p);
    static const struct {
        const char *value;
        int code;
    } bad[] = {
        {"http://user:hidden@pro xy", TC_E_INVALID},
        {"http://user:hidden%4@proxy", TC_E_INVALID},
        {"http://user:hidden%zz@proxy", TC_E_INVALID},
        {"http://user:hidden@proxy/path", TC_E_INVALID},
        {"user:hidden@", TC_E_INVALID},
        {"socks5://user:hidden@proxy", TC_E_UNSUPPORTED},
        {"https://user:hidden@proxy", TC_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        v.upper = bad[i].value;
        assert_int_equal(tci_proxy_for(TCI_URL_HTTPS, TC_STR("h"), 443, get, &v, &p, &err),
                         bad[i].code);
        assert_non_null(strstr(err.msg, "HTTPS_PROXY"));
        assert_null(strstr(err.msg, "hidden"));
        assert_null(strstr(err.hint, "hidden"));
    }
}

const struct CMUnitTest url_tests[] = {
    cmocka_unit_test(accepted_addresses),
    cmocka_unit_test(refused_addresses),
    cmocka_unit_test(loopback_hosts),
    cmocka_unit_test(numeric_addresses),
    cmocka_unit_test(proxy_is_chosen_by_scheme_and_host),
    cmocka_unit_test(no_proxy_makes_exceptions),
    cmocka_unit_test(proxy_password_becomes_a_header_and_stays_out_of_errors),
};
const size_t nurl_tests = TCI_ARRAY_LEN(url_tests);
