/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP client's way to net/dial.h. Loop thread. Invariant: a tci_http_dial is a tci_dial under
 * another name. */
#include "net/http_dial.h"

static int fill_url(tc_str scheme, tc_str host, unsigned port, tci_url *url, tc_err *err)
{
    memset(url, 0, sizeof *url);
    url->is_tls = tci_str_eq(scheme, TC_STR("https"));
    url->scheme = url->is_tls ? TCI_URL_HTTPS : TCI_URL_HTTP;
    url->is_ipv6 = tci_str_find_byte(host, ':') < host.len;
    url->has_port = true;
    url->port = (uint16_t)port;
    return tci_cstr(host, url->host, sizeof url->host, err);
}

static int dial(tci_http_dialler *dialler, tc_str scheme, tc_str host, unsigned port,
                void (*done)(void *arg, tci_stream *stream, const tc_err *err), void *arg,
                tci_http_dial **ret_dial, tc_err *err)
{
    tci_http_net_dialler *d = TCI_CONTAINER(dialler, tci_http_net_dialler, base);
    tci_url url;
    tci_proxy proxy = {.is_used = false};
    tci_dial *made = NULL;
    int rc = fill_url(scheme, host, port, &url, err);
    if (rc < 0)
        return rc;
    if (url.is_tls && d->tls == NULL)
        return tc_err_set(err, TC_E_INVALID, "https is not set up");
    if (d->uses_proxy) {
        rc = tci_proxy_for_process(url.scheme, host, url.port, &proxy, err);
        if (rc < 0)
            return rc;
    }
    rc = tci_dial_open(d->loop, &url, d->tls, proxy.is_used ? &proxy : NULL, d->timeout_ms, done,
                       arg, &made, err);
    tci_proxy_done(&proxy);
    if (rc == 0)
        *ret_dial = (tci_http_dial *)(void *)made;
    return rc;
}

static void cancel(tci_http_dialler *dialler, tci_http_dial *dialled)
{
    TCI_UNUSED(dialler);
    tci_dial_cancel((tci_dial *)(void *)dialled);
}

void tci_http_net_dialler_init(tci_http_net_dialler *d, tci_loop *loop, tci_tls_ctx *tls,
                               bool uses_proxy, int64_t timeout_ms)
{
    *d = (tci_http_net_dialler){.base = {.dial = dial, .cancel = cancel},
                                .loop = loop,
                                .tls = tls,
                                .uses_proxy = uses_proxy,
                                .timeout_ms = timeout_ms};
}
