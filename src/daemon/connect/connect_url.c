/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of a Host: the one form they are kept in, and what its relative ones mean. Leaves reading an
 * address to net/url. Pure, any thread.
 *
 * Invariant: what comes out is made of parts that were read, never a copy of what came in. */
#include "daemon/connect/connect_int.h"

#include "base/hash.h"
#include "net/url.h"

#define ANYTHING ((unsigned)(TCI_URL_PATH | TCI_URL_QUERY | TCI_URL_FRAGMENT | TCI_URL_USERINFO))

bool tci_connect_is_name(tc_str name)
{
    if (name.len == 0 || name.len > TCI_CONNECT_NAME_MAX || tci_str_eq(name, TC_STR(".")) ||
        tci_str_eq(name, TC_STR("..")))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool is_alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_alnum && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

/* ---- paths ---- */

/* How many dots a segment stands for, written out or in percent form; 0: it is a name. */
static int dots(tc_str segment)
{
    int n = 0;
    while (segment.len > 0) {
        size_t used = 1;
        if (segment.len >= 3 && tci_str_eq_nocase(tci_str_sub(segment, 0, 3), TC_STR("%2e")))
            used = 3;
        else if (segment.ptr[0] != '.')
            return 0;
        segment = tci_str_sub(segment, used, segment.len);
        n++;
    }
    return n <= 2 ? n : 0;
}

/* Put path, which begins with '/', without dot segments (RFC 3986, section 5.2.4). */
static void put_path(tci_buf *b, tc_str path)
{
    size_t start = b->len;
    tc_str rest = tci_str_sub(path, 1, path.len), segment;
    bool is_open = false; /* the last segment left a '/' behind it */
    while (tci_str_split(&rest, '/', &segment)) {
        int n = dots(segment);
        if (n == 2 && tci_buf_ok(b)) {
            tc_str so_far = tci_str_of(b->ptr + start, b->len - start);
            size_t slash = tci_str_rfind_byte(so_far, '/');
            tci_buf_truncate(b, start + (slash < so_far.len ? slash : 0));
        }
        is_open = n > 0;
        if (n == 0) {
            tci_buf_append_byte(b, '/');
            tci_buf_append_str(b, segment);
        }
    }
    if (is_open || b->len == start)
        tci_buf_append_byte(b, '/');
}

static void put_origin(tci_buf *b, const tci_url *url, tci_url_scheme scheme)
{
    char authority[TCI_URL_AUTHORITY_MAX];
    tci_url as = *url;
    as.scheme = scheme;
    tci_buf_printf(b, "%s://%s", tci_url_scheme_name(scheme), tci_url_authority(&as, authority));
}

static int take(tci_buf *b, tci_arena *a, tc_str *ret, tc_err *err)
{
    int rc = tci_buf_error(b, err);
    if (rc == 0)
        rc = tci_arena_printf(a, ret, err, "%.*s", TC_STR_ARG(tci_buf_str(b)));
    tci_buf_done(b);
    return rc;
}

/* ---- the Host ---- */

/* Only this machine, whatever a resolver says of other names. */
static bool is_here(const tci_url *url)
{
    tc_str host = tci_str(url->host);
    return tci_str_eq(host, TC_STR("localhost")) ||
           (!tci_str_ends(host, TC_STR("localhost")) && !tci_str_ends(host, TC_STR(".")) &&
            tci_host_is_loopback(host));
}

/* http or https, of what may otherwise be no address at all? */
static bool is_http(tc_str text)
{
    tc_str scheme = tci_str_sub(text, 0, tci_str_find(text, TC_STR("://")));
    return tci_str_eq_nocase(scheme, TC_STR("http")) || tci_str_eq_nocase(scheme, TC_STR("https"));
}

int tci_connect_base(tc_str text, tci_arena *a, tc_str *ret, tc_err *err)
{
    tci_url url;
    tci_buf b;
    bool is_read = text.len <= TCI_CONNECT_URL_MAX && tci_url_parse(text, ANYTHING, &url, err) == 0;
    if (!is_http(text) || (is_read && tci_url_parse(text, TCI_URL_PATH, &url, err) < 0))
        return tc_err_set(err, TC_E_INVALID,
                          "Host URL must be HTTP(S), without credentials, query or fragment");
    if (!is_read) {
        (void)tc_err_set(err, TC_E_INVALID, "Host must be an HTTP(S) URL or saved name");
        return tc_err_hint(err, "write it as https://name or https://name:port");
    }
    if (!url.is_tls && !is_here(&url)) {
        (void)tc_err_set(err, TC_E_INVALID,
                         "remote Hosts require HTTPS; HTTP is supported only on loopback");
        return tc_err_hint(err, "use https://; for a Host with a private certificate authority add "
                                "--ca-file");
    }
    tci_buf_init(&b, 2 * TCI_CONNECT_URL_MAX);
    put_origin(&b, &url, url.scheme);
    put_path(&b, url.path.len > 0 ? url.path : TC_STR("/"));
    if (tci_buf_ok(&b) && b.ptr[b.len - 1] != '/')
        tci_buf_append_byte(&b, '/');
    return take(&b, a, ret, err);
}

int tci_connect_default_alias(tc_str base, tci_arena *a, tc_str *ret, tc_err *err)
{
    uint8_t digest[TCI_SHA256_BYTES];
    char hex[16];
    tci_sha256_of(base, digest);
    tci_hex(digest, sizeof hex / 2, hex);
    return tci_arena_printf(a, ret, err, "host-%.*s", (int)sizeof hex, hex);
}

/* ---- references ---- */

static bool has_scheme(tc_str reference)
{
    for (size_t i = 0; i < reference.len; i++) {
        char c = reference.ptr[i];
        if (c == ':')
            return i > 0;
        if (c == '/' || c == '?' || c == '#')
            return false;
    }
    return false;
}

/* The reference written as a whole address, dot segments and all. */
static void join(tci_buf *b, const tci_url *base, tc_str reference)
{
    char first = reference.len > 0 ? reference.ptr[0] : '\0';
    if (has_scheme(reference)) {
        tci_buf_append_str(b, reference);
    } else if (tci_str_starts(reference, TC_STR("//"))) {
        tci_buf_printf(b, "%s:%.*s", tci_url_scheme_name(base->scheme), TC_STR_ARG(reference));
    } else {
        put_origin(b, base, base->scheme);
        if (first != '/')
            tci_buf_append_str(b, base->path);
        tci_buf_append_str(b, reference);
    }
}

/* reference below base, read; the text it points into is *b, which the caller lets go. */
static int read_reference(tc_str base, tc_str reference, tci_buf *b, tci_url *ret_base,
                          tci_url *ret, tc_err *err)
{
    tci_buf_init(b, 4 * TCI_CONNECT_URL_MAX);
    if (reference.len > TCI_CONNECT_URL_MAX)
        return tc_err_set(err, TC_E_INVALID, "address not accepted: it is too long");
    if (tci_url_parse(base, TCI_URL_PATH, ret_base, err) < 0)
        return err->code;
    join(b, ret_base, reference);
    if (tci_buf_error(b, err) < 0)
        return err->code;
    return tci_url_parse(tci_buf_str(b), ANYTHING, ret, err);
}

/* url in its one form, but for its scheme. Without user info: nobody keeps that. */
static int write_url(const tci_url *url, tci_url_scheme scheme, tci_arena *a, tc_str *ret,
                     tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, 4 * TCI_CONNECT_URL_MAX);
    put_origin(&b, url, scheme);
    put_path(&b, url->path.len > 0 ? url->path : TC_STR("/"));
    if (url->query.len > 0)
        tci_buf_printf(&b, "?%.*s", TC_STR_ARG(url->query));
    if (url->fragment.len > 0)
        tci_buf_printf(&b, "#%.*s", TC_STR_ARG(url->fragment));
    return take(&b, a, ret, err);
}

int tci_connect_resolve(tc_str base, tc_str reference, tci_arena *a, tc_str *ret, tc_err *err)
{
    tci_buf b;
    tci_url from, url;
    int rc = read_reference(base, reference, &b, &from, &url, err);
    if (rc == 0)
        rc = write_url(&url, url.scheme, a, ret, err);
    tci_buf_done(&b);
    return rc;
}

int tci_connect_socket_url(tc_str base, tc_str reference, tci_arena *a, tc_str *ret, tc_err *err)
{
    tci_buf b;
    tci_url from, url, ignored;
    int rc = read_reference(base, reference, &b, &from, &url, err);
    /* Read once more without what may not be there: a lone '?' is a query, too. */
    bool stays = rc == 0 && tci_url_parse(tci_buf_str(&b), TCI_URL_PATH, &ignored, err) == 0 &&
                 url.is_tls == from.is_tls && url.port == from.port &&
                 tci_str_eq(tci_str(url.host), tci_str(from.host));
    if (stays)
        rc = write_url(&url, url.is_tls ? TCI_URL_WSS : TCI_URL_WS, a, ret, err);
    else
        rc = tc_err_set(err, TC_E_INVALID,
                        "connection URL must stay on the paired Host and retain TLS");
    tci_buf_done(&b);
    return rc;
}

/* Blanks and what is beyond ASCII in percent form, as browsers send them. */
static void put_encoded(tci_buf *b, tc_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c == ' ' || c >= 0x80)
            tci_buf_printf(b, "%%%02X", c);
        else
            tci_buf_append_byte(b, (char)c);
    }
}

int tci_connect_approval_url(tc_str base, tc_str reference, tci_arena *a, tc_str *ret, tc_err *err)
{
    tci_buf b, encoded;
    tci_url from, url;
    tci_buf_init(&encoded, TCI_CONNECT_URL_MAX + 1);
    put_encoded(&encoded, reference);
    tci_buf_init(&b, 0);
    int rc = tci_buf_error(&encoded, err);
    if (rc == 0)
        rc = read_reference(base, tci_buf_str(&encoded), &b, &from, &url, err);
    if (rc < 0)
        rc = tc_err_set(err, TC_E_INVALID, "invalid approval URL");
    else if (tci_url_same_origin(&from, &url) && url.userinfo.ptr == NULL)
        rc = write_url(&url, url.scheme, a, ret, err);
    else
        *ret = TC_STR("");
    tci_buf_done(&b);
    tci_buf_done(&encoded);
    return rc;
}
