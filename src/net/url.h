/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict reading of http, https, ws and wss addresses. Pure; any thread. */
#ifndef TCI_NET_URL_H
#define TCI_NET_URL_H

#include "base/str.h"

typedef enum tci_url_scheme { TCI_URL_HTTP, TCI_URL_HTTPS, TCI_URL_WS, TCI_URL_WSS } tci_url_scheme;

enum { TCI_URL_HOST_MAX = 253 };

typedef struct tci_url {
    tci_url_scheme scheme;
    bool is_tls;   /* https, wss */
    bool is_ipv6;  /* host is an IPv6 address: brackets belong around it in a Host header */
    bool has_port; /* written out */
    uint16_t port; /* written or by scheme: 80, 443 */
    char host[TCI_URL_HOST_MAX + 1]; /* lower case, without brackets */
    tc_str userinfo;                 /* these four are borrowed from the text; empty when absent */
    tc_str path;                     /* as written, "" or from '/' on */
    tc_str query;                    /* without '?' */
    tc_str fragment;                 /* without '#' */
} tci_url;

/* What may be there besides scheme, host, port; everything else is refused. */
typedef enum tci_url_allow {
    TCI_URL_PATH = 1 << 0, /* any path; without it only "" and "/" */
    TCI_URL_QUERY = 1 << 1,
    TCI_URL_FRAGMENT = 1 << 2,
    TCI_URL_USERINFO = 1 << 3
} tci_url_allow;

/* The host is a name of letters, digits, '-', '_' and '.', a dotted quad or an IPv6 address in
 * brackets; nothing is percent-decoded; spaces, control and non-ASCII bytes are refused.
 * Errors: INVALID; the message never repeats the text (it may hold a credential). */
int tci_url_parse(tc_str text, unsigned allow, tci_url *ret_url, tc_err *err) TC_CHECKED;

/* "http", "https", "ws", "wss". Static storage. */
const char *tci_url_scheme_name(tci_url_scheme scheme);
enum { TCI_URL_AUTHORITY_MAX = TCI_URL_HOST_MAX + 9 };
/* What a Host header carries: host, in brackets when IPv6, and ":port" unless it is the scheme's.
 * Returns out. */
const char *tci_url_authority(const tci_url *url, char out[TCI_URL_AUTHORITY_MAX]);
/* Same scheme, host and port. */
bool tci_url_same_origin(const tci_url *a, const tci_url *b);
/* localhost, a name under it, or a loopback address (no brackets). */
bool tci_host_is_loopback(tc_str host);

#endif
