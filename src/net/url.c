/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading addresses. Leaves name lookup to net/tcp.c. Pure, any thread. Invariant: what is not
 * known to be harmless is refused, and messages never repeat the text. */
#include "net/url.h"

#include "base/num.h"
#include "plat/socket.h"
#include <stdio.h>

typedef struct scheme_row {
    tc_str name;
    uint16_t port;
    bool is_tls;
} scheme_row;

static const scheme_row schemes[] = {
    [TCI_URL_HTTP] = {{"http", 4}, 80, false},
    [TCI_URL_HTTPS] = {{"https", 5}, 443, true},
    [TCI_URL_WS] = {{"ws", 2}, 80, false},
    [TCI_URL_WSS] = {{"wss", 3}, 443, true},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Visible ASCII without what RFC 3986 excludes and parsers disagree about. */
static bool is_plain(tc_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>' || c == '^' ||
            c == '`' || c == '{' || c == '|' || c == '}')
            return false;
    }
    return true;
}

static int bad(tc_err *err, const char *what)
{
    return tc_err_set(err, TC_E_INVALID, "address not accepted: %s", what);
}

static int read_scheme(tc_str text, tci_url *url, tc_str *ret_rest, tc_err *err)
{
    size_t at = tci_str_find(text, TC_STR("://"));
    tc_str name = tci_str_sub(text, 0, at);
    for (size_t i = 0; at < text.len && i < TCI_ARRAY_LEN(schemes); i++) {
        if (!tci_str_eq_nocase(name, schemes[i].name))
            continue;
        url->scheme = (tci_url_scheme)i;
        url->is_tls = schemes[i].is_tls;
        url->port = schemes[i].port;
        *ret_rest = tci_str_sub(text, at + 3, text.len);
        return 0;
    }
    return bad(err, "it must begin with http://, https://, ws:// or wss://");
}

static bool is_hex(char c)
{
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f');
}

/* Decimal or 0x: some resolvers read a name that ends so as an IPv4 address, in many spellings. */
static bool is_number(tc_str label)
{
    bool is_hex_form = label.len >= 2 && label.ptr[0] == '0' && lower(label.ptr[1]) == 'x';
    for (size_t i = is_hex_form ? 2 : 0; i < label.len; i++)
        if (!(is_hex_form ? is_hex(label.ptr[i]) : is_digit(label.ptr[i])))
            return false;
    return true;
}

static bool is_label(tc_str label)
{
    for (size_t i = 0; i < label.len; i++)
        if (!is_letter(label.ptr[i]) && !is_digit(label.ptr[i]) && label.ptr[i] != '-' &&
            label.ptr[i] != '_')
            return false;
    return label.len > 0 && label.len <= 63;
}

static bool is_name(tc_str host)
{
    if (host.len > 1 && host.ptr[host.len - 1] == '.')
        host.len--; /* written down to the root */
    tc_str label = {0};
    while (tci_str_split(&host, '.', &label))
        if (!is_label(label))
            return false;
    return !is_number(label);
}

static int read_host(tc_str host, tci_url *url, tc_err *err)
{
    tci_addr ip;
    bool in_brackets = host.len > 0 && host.ptr[0] == '[';
    if (in_brackets) {
        host = tci_str_sub(host, 1, host.len - 2);
        if (!tci_addr_parse_ip(host, &ip) || ip.family != TCI_ADDR_IPV6)
            return bad(err, "no IPv6 address in brackets");
        url->is_ipv6 = true;
    } else if (host.len == 0) {
        return bad(err, "no host");
    } else if (host.len > TCI_URL_HOST_MAX || !(is_name(host) || tci_addr_parse_ip(host, &ip))) {
        return bad(err, "the host is not a name or address");
    }
    for (size_t i = 0; i < host.len; i++)
        url->host[i] = lower(host.ptr[i]);
    url->host[host.len] = '\0';
    return 0;
}

static int read_port(tc_str port, tci_url *url, tc_err *err)
{
    uint64_t value = 0;
    tc_err ignored;
    if (tci_num_u64(port, &value, &ignored) < 0 || value == 0 || value > 65535)
        return bad(err, "the port is not a number from 1 to 65535");
    url->port = (uint16_t)value;
    url->has_port = true;
    return 0;
}

static int read_authority(tc_str s, unsigned allow, tci_url *url, tc_err *err)
{
    size_t at = tci_str_rfind_byte(s, '@');
    if (at < s.len) {
        if (!(allow & TCI_URL_USERINFO))
            return bad(err, "it must not hold a user or password");
        url->userinfo = tci_str_sub(s, 0, at);
        s = tci_str_sub(s, at + 1, s.len);
    }
    size_t end = tci_str_find_byte(s, ':');
    if (s.len > 0 && s.ptr[0] == '[') {
        end = tci_str_find_byte(s, ']');
        if (end == s.len)
            return bad(err, "no IPv6 address in brackets");
        end++;
        if (end < s.len && s.ptr[end] != ':')
            return bad(err, "something follows the host");
    }
    int rc = read_host(tci_str_sub(s, 0, end), url, err);
    if (rc == 0 && end < s.len)
        rc = read_port(tci_str_sub(s, end + 1, s.len), url, err);
    return rc;
}

int tci_url_parse(tc_str text, unsigned allow, tci_url *ret_url, tc_err *err)
{
    tci_url url = {0};
    tc_str rest = {0};
    if (!is_plain(text))
        return bad(err, "it holds a space or another character that has no place there");
    int rc = read_scheme(text, &url, &rest, err);
    if (rc < 0)
        return rc;
    size_t hash = tci_str_find_byte(rest, '#');
    if (hash < rest.len) {
        if (!(allow & TCI_URL_FRAGMENT))
            return bad(err, "it must not have a fragment ('#')");
        url.fragment = tci_str_sub(rest, hash + 1, rest.len);
        rest = tci_str_sub(rest, 0, hash);
    }
    size_t mark = tci_str_find_byte(rest, '?');
    if (mark < rest.len) {
        if (!(allow & TCI_URL_QUERY))
            return bad(err, "it must not have a query ('?')");
        url.query = tci_str_sub(rest, mark + 1, rest.len);
        rest = tci_str_sub(rest, 0, mark);
    }
    size_t slash = tci_str_find_byte(rest, '/');
    url.path = tci_str_sub(rest, slash, rest.len);
    if (url.path.len > 1 && !(allow & TCI_URL_PATH))
        return bad(err, "it must not have a path");
    rc = read_authority(tci_str_sub(rest, 0, slash), allow, &url, err);
    if (rc == 0)
        *ret_url = url;
    return rc;
}

const char *tci_url_scheme_name(tci_url_scheme scheme)
{
    return schemes[scheme].name.ptr;
}

const char *tci_url_authority(const tci_url *url, char out[TCI_URL_AUTHORITY_MAX])
{
    char port[8] = "";
    if (url->port != schemes[url->scheme].port)
        (void)snprintf(port, sizeof port, ":%u", (unsigned)url->port);
    (void)snprintf(out, TCI_URL_AUTHORITY_MAX, url->is_ipv6 ? "[%s]%s" : "%s%s", url->host, port);
    return out;
}

bool tci_url_same_origin(const tci_url *a, const tci_url *b)
{
    return a->scheme == b->scheme && a->port == b->port &&
           tci_str_eq(tci_str(a->host), tci_str(b->host));
}

bool tci_host_is_loopback(tc_str host)
{
    tci_addr ip;
    if (tci_addr_parse_ip(host, &ip))
        return tci_addr_is_loopback(&ip);
    if (tci_str_ends(host, TC_STR(".")))
        host.len--;
    tc_str last = tci_str_sub(host, tci_str_rfind_byte(host, '.') + 1, host.len);
    return tci_str_eq_nocase(last.len > 0 ? last : host, TC_STR("localhost"));
}
