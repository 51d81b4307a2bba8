/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether there is a proxy for a target: the environment's variables. Leaves the tunnel to
 * proxy_stream.c. Pure, any thread. Invariant: no message holds a variable's value, which may hold
 * a password. */
#include "net/proxy.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/num.h"
#include "plat/env.h"
#include "plat/socket.h"

enum { VALUE_MAX = 4096 };

/* ---- NO_PROXY ---- */

typedef struct target {
    tc_str host;
    tci_addr ip; /* NONE: host is a name */
    uint16_t port;
} target;

/* "10.0.0.0/8" */
static bool is_in_network(tc_str network, const tci_addr *ip)
{
    size_t slash = tci_str_find_byte(network, '/');
    tci_addr base;
    uint64_t nbits = 0;
    tc_err ignored;
    if (slash == network.len || !tci_addr_parse_ip(tci_str_sub(network, 0, slash), &base) ||
        base.family != ip->family)
        return false;
    if (tci_num_u64(tci_str_sub(network, slash + 1, network.len), &nbits, &ignored) < 0 ||
        nbits > (ip->family == TCI_ADDR_IPV4 ? 32u : 128u))
        return false;
    size_t nbytes = (size_t)nbits / 8;
    if (memcmp(base.ip, ip->ip, nbytes) != 0)
        return false;
    unsigned rest = (unsigned)nbits % 8;
    return rest == 0 || ((base.ip[nbytes] ^ ip->ip[nbytes]) >> (8 - rest)) == 0;
}

/* Take ":port" off an entry. false: it names another port. */
static bool take_port(tc_str *entry, uint16_t port)
{
    uint64_t value = 0;
    tc_err ignored;
    size_t colon = tci_str_rfind_byte(*entry, ':');
    bool is_bare_ipv6 =
        entry->len > 0 && entry->ptr[0] != '[' && tci_str_find_byte(*entry, ':') != colon;
    bool is_bracket_end = entry->len > 0 && entry->ptr[entry->len - 1] == ']';
    if (colon < entry->len && !is_bare_ipv6 && !is_bracket_end) {
        tc_str text = tci_str_sub(*entry, colon + 1, entry->len);
        if (tci_num_u64(text, &value, &ignored) < 0 || value != port)
            return false;
        *entry = tci_str_sub(*entry, 0, colon);
    }
    if (entry->len > 2 && entry->ptr[0] == '[' && entry->ptr[entry->len - 1] == ']')
        *entry = tci_str_sub(*entry, 1, entry->len - 2);
    return true;
}

static bool is_excepted_by(tc_str entry, const target *t)
{
    tci_addr ip;
    if (tci_str_eq(entry, TC_STR("*")))
        return true;
    if (!take_port(&entry, t->port) || entry.len == 0)
        return false;
    if (t->ip.family != TCI_ADDR_NONE)
        return tci_addr_parse_ip(entry, &ip) ? tci_addr_eq(&ip, &t->ip)
                                             : is_in_network(entry, &t->ip);
    if (tci_str_starts(entry, TC_STR("*.")))
        entry = tci_str_sub(entry, 2, entry.len);
    else if (entry.ptr[0] == '.')
        entry = tci_str_sub(entry, 1, entry.len);
    if (entry.len == 0 || entry.len > t->host.len)
        return false;
    size_t before = t->host.len - entry.len;
    if (!tci_str_eq_nocase(tci_str_sub(t->host, before, entry.len), entry))
        return false;
    return before == 0 || t->host.ptr[before - 1] == '.';
}

static bool is_excepted(const char *list, const target *t)
{
    tc_str rest = tci_str(list), entry = {0};
    while (tci_str_split(&rest, ',', &entry))
        if (is_excepted_by(tci_str_trim(entry), t))
            return true;
    return false;
}

/* ---- the proxy's own address ---- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* false: not well formed. */
static bool percent_decode(tc_str s, tci_buf *out)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            int high = i + 2 < s.len ? hex_value(s.ptr[i + 1]) : -1;
            int low = high >= 0 ? hex_value(s.ptr[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        tci_buf_append_byte(out, c);
    }
    return true;
}

static void wipe(tci_buf *b)
{
    if (b->ptr != NULL)
        tci_mem_wipe(b->ptr, b->cap);
    tci_buf_done(b);
}

/* RFC 7617: "Basic " and the padded base64 of user:password. */
static int make_authorization(tc_str userinfo, const char *variable, tci_secret *ret, tc_err *err)
{
    tci_buf plain, value;
    tci_buf_init(&plain, VALUE_MAX);
    tci_buf_init(&value, 2 * VALUE_MAX);
    (void)tci_buf_reserve(&plain, userinfo.len + 1); /* at once, so that no copy stays behind */
    (void)tci_buf_reserve(&value, tci_base64_encoded_len(userinfo.len + 1) + 10); /* likewise */
    int rc = 0;
    if (!percent_decode(userinfo, &plain))
        rc = tc_err_set(err, TC_E_INVALID, "%s: user or password not well formed", variable);
    if (tci_str_find_byte(userinfo, ':') == userinfo.len)
        tci_buf_append_byte(&plain, ':');
    if (rc == 0)
        rc = tci_buf_error(&plain, err);
    if (rc == 0) {
        tci_buf_append_str(&value, TC_STR("Basic "));
        tci_base64_append(&value, tci_buf_str(&plain));
        for (size_t n = plain.len; n % 3 != 0; n++)
            tci_buf_append_byte(&value, '=');
        rc = tci_buf_error(&value, err);
    }
    if (rc == 0)
        rc = tci_secret_init(ret, tci_buf_str(&value), err);
    wipe(&plain);
    wipe(&value);
    return rc;
}

static int read_proxy(tc_str text, const char *variable, tci_proxy *ret_proxy, tc_err *err)
{
    tci_url url;
    tci_proxy p = {.is_used = true};
    if (tci_url_parse(text, TCI_URL_USERINFO, &url, err) < 0)
        return tc_err_wrap(err, "%s", variable);
    memcpy(p.host, url.host, sizeof p.host);
    p.port = url.port;
    int rc = 0;
    if (url.userinfo.len > 0)
        rc = make_authorization(url.userinfo, variable, &p.authorization, err);
    if (rc == 0)
        *ret_proxy = p;
    return rc;
}

static int parse_variable(const char *value, const char *variable, tci_proxy *ret_proxy,
                          tc_err *err)
{
    tc_str text = tci_str_trim(tci_str(value));
    size_t scheme_len = tci_str_find(text, TC_STR("://"));
    if (scheme_len < text.len) {
        if (tci_str_eq_nocase(tci_str_sub(text, 0, scheme_len), TC_STR("http")))
            return read_proxy(text, variable, ret_proxy, err);
        (void)tc_err_set(err, TC_E_UNSUPPORTED, "%s: only http:// proxies are supported", variable);
        return tc_err_hint(err, "set %s to an http:// address or unset it", variable);
    }
    tci_buf full;
    tci_buf_init(&full, VALUE_MAX);
    (void)tci_buf_reserve(&full, text.len + 8); /* at once, so that no copy stays behind */
    tci_buf_append_str(&full, TC_STR("http://"));
    tci_buf_append_str(&full, text);
    int rc = tci_buf_error(&full, err);
    if (rc == 0)
        rc = read_proxy(tci_buf_str(&full), variable, ret_proxy, err);
    wipe(&full);
    return rc;
}

/* The first of both names that is set and not empty, or NULL. */
static const char *first_set(tci_proxy_getenv get, void *user, const char *upper, const char *lower,
                             const char **ret_name)
{
    const char *const names[] = {upper, lower};
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++) {
        const char *value = get(user, names[i]);
        if (value != NULL && value[0] != '\0') {
            *ret_name = names[i];
            return value;
        }
    }
    return NULL;
}

int tci_proxy_for(tci_url_scheme scheme, tc_str host, uint16_t port, tci_proxy_getenv get,
                  void *user, tci_proxy *ret_proxy, tc_err *err)
{
    const char *name = NULL;
    target t = {.host = host, .port = port};
    if (tci_str_ends(host, TC_STR(".")))
        t.host.len--;
    if (!tci_addr_parse_ip(host, &t.ip))
        t.ip.family = TCI_ADDR_NONE;
    bool is_tls = scheme == TCI_URL_HTTPS || scheme == TCI_URL_WSS;
    bool is_direct = !is_tls || tci_host_is_loopback(host);
    const char *value = first_set(get, user, "NO_PROXY", "no_proxy", &name);
    if (!is_direct && value != NULL)
        is_direct = is_excepted(value, &t);
    value = is_direct ? NULL : first_set(get, user, "HTTPS_PROXY", "https_proxy", &name);
    if (value != NULL)
        return parse_variable(value, name, ret_proxy, err);
    *ret_proxy = (tci_proxy){.is_used = false};
    return 0;
}

static const char *process_getenv(void *user, const char *name)
{
    TCI_UNUSED(user);
    return tci_env_get(name);
}

int tci_proxy_for_process(tci_url_scheme scheme, tc_str host, uint16_t port, tci_proxy *ret_proxy,
                          tc_err *err)
{
    return tci_proxy_for(scheme, host, port, process_getenv, NULL, ret_proxy, err);
}

void tci_proxy_done(tci_proxy *p)
{
    tci_secret_done(&p->authorization);
    *p = (tci_proxy){.is_used = false};
}
