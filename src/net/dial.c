/* SPDX-License-Identifier: Apache-2.0
 *
 * Putting carriers on top of each other for one connection out. Leaves each carrier's work to it.
 * Loop thread. Invariant: `stream` is the top of what is built so far; the next carrier takes it
 * over when this one is open. */
#include "net/dial.h"
#include "base/num.h"

#include "base/mem.h"
#include "net/tcp.h"

enum { DEFAULT_TIMEOUT_MS = 10000 };

struct tci_dial {
    tci_loop *loop;
    tci_dial_on_done on_done;
    void *user;
    tci_tcp_connect *connect; /* running */
    tci_stream *stream;
    tci_tls_ctx *tls; /* NULL: not needed, or done */
    tci_proxy proxy;  /* not used: not needed, or done */
    int64_t deadline_ns;
    uint16_t port;
    char host[TCI_URL_HOST_MAX + 1];
};

static void release(tci_dial *d)
{
    tci_tcp_connect_cancel(d->connect);
    tci_stream_close(d->stream);
    tci_tls_ctx_free(d->tls);
    tci_proxy_done(&d->proxy);
    tci_free(d);
}

static void finish(tci_dial *d, const tc_err *err)
{
    tci_dial_on_done on_done = d->on_done;
    void *user = d->user;
    tci_stream *stream = NULL;
    if (err == NULL) {
        stream = d->stream;
        d->stream = NULL;
        stream->on_ready = NULL;
        stream->user = NULL;
    }
    release(d);
    on_done(user, stream, err);
}

static void on_open(tci_stream *stream, unsigned events);

/* Put the next carrier on top, or be done. */
static void go_on(tci_dial *d)
{
    tc_err err;
    int rc = 0;
    tci_stream *under = d->stream;
    int64_t left_ms = (d->deadline_ns - tci_loop_now_ns(d->loop)) / 1000000;
    if (left_ms < 1)
        left_ms = 1;
    d->stream = NULL;
    if (d->proxy.is_used) {
        rc = tci_proxy_stream_new(d->loop, under, &d->proxy, tci_str(d->host), d->port, left_ms,
                                  &d->stream, &err);
        tci_proxy_done(&d->proxy);
    } else if (d->tls != NULL) {
        rc =
            tci_tls_client_new(d->tls, d->loop, under, tci_str(d->host), left_ms, &d->stream, &err);
        tci_tls_ctx_free(d->tls);
        d->tls = NULL;
    } else {
        d->stream = under;
        finish(d, NULL);
        return;
    }
    if (rc == 0) {
        d->stream->on_ready = on_open;
        d->stream->user = d;
        rc = tci_stream_want(d->stream, TCI_WATCH_WRITE, &err);
    }
    if (rc < 0)
        finish(d, &err);
}

static void on_open(tci_stream *stream, unsigned events)
{
    TCI_UNUSED(events);
    tci_dial *d = stream->user;
    tc_err err;
    size_t n = 0;
    int rc = tci_stream_writev(stream, NULL, 0, &n, &err); /* open, or why not */
    if (rc == 0)
        rc = tci_stream_want(stream, 0, &err);
    if (rc < 0)
        finish(d, &err);
    else
        go_on(d);
}

static void on_connected(void *user, tci_stream *stream, const tc_err *err)
{
    tci_dial *d = user;
    d->connect = NULL;
    d->stream = stream;
    if (stream != NULL) {
        go_on(d);
        return;
    }
    tc_err copy = *err;
    if (d->proxy.is_used)
        (void)tc_err_wrap(&copy, "cannot reach the proxy");
    finish(d, &copy);
}

int tci_dial_open(tci_loop *loop, const tci_url *url, tci_tls_ctx *tls, const tci_proxy *proxy,
                  int64_t timeout_ms, tci_dial_on_done on_done, void *user, tci_dial **ret_dial,
                  tc_err *err)
{
    if (url->is_tls && tls == NULL)
        return tc_err_set(err, TC_E_INVALID, "no TLS context to dial '%s' with", url->host);
    tci_dial *d = tci_new(tci_dial);
    if (d == NULL)
        return tci_err_no_memory(err);
    d->loop = loop;
    d->on_done = on_done;
    d->user = user;
    d->port = url->port;
    memcpy(d->host, url->host, sizeof d->host);
    if (timeout_ms <= 0)
        timeout_ms = DEFAULT_TIMEOUT_MS;
    d->deadline_ns = tci_add_ns(tci_loop_now_ns(loop), tci_ms_to_ns((uint64_t)timeout_ms));
    if (url->is_tls)
        d->tls = tci_tls_ctx_hold(tls);
    int rc = 0;
    tc_str host = tci_str(d->host);
    uint16_t port = d->port;
    if (proxy != NULL && proxy->is_used) {
        d->proxy = *proxy;
        d->proxy.authorization = (tci_secret){0};
        if (proxy->authorization.len > 0)
            rc = tci_secret_init(&d->proxy.authorization, tci_secret_str(&proxy->authorization),
                                 err);
        host = tci_str(d->proxy.host);
        port = d->proxy.port;
    }
    if (rc == 0)
        rc = tci_tcp_connect_open(loop, host, port, timeout_ms, on_connected, d, &d->connect, err);
    if (rc < 0) {
        release(d);
        return rc;
    }
    *ret_dial = d;
    return 0;
}

void tci_dial_cancel(tci_dial *d)
{
    if (d != NULL)
        release(d);
}
