/* SPDX-License-Identifier: Apache-2.0
 *
 * The tunnel through a proxy, as a stream over the stream to the proxy. Leaves choosing the proxy
 * to proxy.c. Loop thread. Invariants: once open it adds nothing but the bytes that came along with
 * the proxy's answer; nothing of a stream is touched after its on_ready was called. */
#include "net/proxy.h"

#include "base/buf.h"
#include "base/mem.h"
#include <stdio.h>

enum { HEAD_MAX = 16384 };

typedef struct tunnel {
    tci_stream base;
    tci_loop *loop;
    tci_stream *under;
    tci_buf request; /* holds the credential: wiped */
    size_t request_at;
    tci_buf head; /* the answer; when open: bytes of the peer from head_at on */
    size_t head_at;
    unsigned wanted;
    tci_later later; /* there is something to report though the stream below is quiet */
    tci_timer timer;
    bool is_open, has_failed, wants_shutdown;
    tc_err failure;
    char names[2 * TCI_URL_AUTHORITY_MAX + 64]; /* the step, for messages */
} tunnel;

static tunnel *of(tci_stream *s)
{
    return TCI_CONTAINER(s, tunnel, base);
}

static void forget_request(tunnel *t)
{
    if (t->request.ptr != NULL)
        tci_mem_wipe(t->request.ptr, t->request.cap);
    tci_buf_done(&t->request);
    t->request_at = 0;
}

static void fail(tunnel *t, tc_err *err)
{
    if (t->has_failed)
        return;
    (void)tc_err_wrap(err, "%s", t->names);
    t->failure = *err;
    t->has_failed = true;
    tci_timer_stop(&t->timer);
    forget_request(t);
}

static int give_failure(const tunnel *t, tc_err *err)
{
    *err = t->failure;
    return err->code;
}

static void want_below(tunnel *t)
{
    tc_err err;
    unsigned events = t->wanted;
    if (t->has_failed)
        events = 0;
    else if (!t->is_open)
        events = TCI_WATCH_READ | (t->request_at < t->request.len ? TCI_WATCH_WRITE : 0u);
    if (tci_stream_want(t->under, events, &err) < 0)
        fail(t, &err);
}

static void report_later(tunnel *t)
{
    bool has_rest = t->is_open && t->head_at < t->head.len && (t->wanted & TCI_WATCH_READ);
    if (has_rest || (t->has_failed && t->wanted != 0))
        tci_loop_later(t->loop, &t->later);
}

/* ---- the exchange with the proxy ---- */

static void send_request(tunnel *t)
{
    tc_err err;
    while (!t->has_failed && t->request_at < t->request.len) {
        tci_iovec part = {t->request.ptr + t->request_at, t->request.len - t->request_at};
        size_t n = 0;
        if (tci_stream_writev(t->under, &part, 1, &n, &err) < 0) {
            fail(t, &err);
            return;
        }
        if (n == 0)
            return;
        t->request_at += n;
    }
    forget_request(t);
}

/* "HTTP/1.1 200 text": the status, or 0 for something else. */
static int read_status(tc_str head)
{
    tc_str line = tci_str_sub(head, 0, tci_str_find(head, TC_STR("\r\n")));
    if (!tci_str_starts(line, TC_STR("HTTP/1.")) || line.len < 12 || line.ptr[8] != ' ' ||
        (line.len > 12 && line.ptr[12] != ' '))
        return 0;
    int status = 0;
    for (size_t i = 9; i < 12; i++) {
        if (line.ptr[i] < '0' || line.ptr[i] > '9')
            return 0;
        status = status * 10 + (line.ptr[i] - '0');
    }
    return status;
}

static void refuse(tunnel *t, int status)
{
    tc_err err;
    if (status == 0) {
        (void)tc_err_set(&err, TC_E_PROTOCOL, "the answer is not HTTP");
    } else if (status == 407) {
        (void)tc_err_set(&err, TC_E_AUTH, "the proxy wants a user and password (status 407)");
        (void)tc_err_hint(&err, "put user:password@ into the proxy's address");
    } else {
        (void)tc_err_set(&err, TC_E_CONNECT, "the proxy refused with status %d", status);
    }
    fail(t, &err);
}

static void open_tunnel(tunnel *t, size_t head_len)
{
    tc_err err;
    t->is_open = true;
    t->head_at = head_len;
    tci_timer_stop(&t->timer);
    if (t->head_at == t->head.len) {
        tci_buf_done(&t->head);
        t->head_at = 0;
    }
    if (t->wants_shutdown && tci_stream_shutdown_write(t->under, &err) < 0)
        fail(t, &err);
}

/* Look at what came so far. */
static void judge_answer(tunnel *t)
{
    for (;;) {
        tc_str text = tci_buf_str(&t->head);
        size_t len = tci_str_find(text, TC_STR("\r\n\r\n"));
        if (len == text.len) {
            tc_err err;
            if (text.len < HEAD_MAX)
                return;
            (void)tc_err_set(&err, TC_E_PROTOCOL, "the proxy's answer is too long");
            fail(t, &err);
            return;
        }
        len += 4;
        int status = read_status(text);
        if (status / 100 == 1) { /* "wait a moment": the answer proper follows */
            tci_buf_consume(&t->head, len);
            continue;
        }
        if (status / 100 == 2)
            open_tunnel(t, len);
        else
            refuse(t, status);
        return;
    }
}

static void read_answer(tunnel *t)
{
    while (!t->has_failed && !t->is_open) {
        tc_err err;
        size_t n = 0;
        char *room = tci_buf_reserve(&t->head, HEAD_MAX - t->head.len);
        if (room == NULL) {
            int rc = tci_buf_error(&t->head, &err);
            TC_ASSERT(rc < 0);
            fail(t, &err);
            return;
        }
        int rc = tci_stream_read(t->under, room, HEAD_MAX - t->head.len, &n, &err);
        if (rc == TC_E_END)
            (void)tc_err_set(&err, TC_E_CLOSED, "the proxy ended the connection");
        if (rc < 0) {
            fail(t, &err);
            return;
        }
        if (n == 0)
            return;
        tci_buf_commit(&t->head, n);
        judge_answer(t);
    }
}

static void on_below(tci_stream *under, unsigned events)
{
    tunnel *t = under->user;
    unsigned ready = events;
    if (!t->is_open && !t->has_failed) {
        if (events & TCI_WATCH_WRITE)
            send_request(t);
        if (events & TCI_WATCH_READ)
            read_answer(t);
        if (!t->is_open && !t->has_failed) {
            want_below(t);
            return;
        }
        ready = TCI_WATCH_READ | TCI_WATCH_WRITE;
    }
    want_below(t);
    ready &= t->wanted;
    if (ready != 0)
        t->base.on_ready(&t->base, ready);
}

static void on_later(tci_later *later)
{
    tunnel *t = TCI_CONTAINER(later, tunnel, later);
    unsigned events = t->has_failed ? t->wanted : t->wanted & TCI_WATCH_READ;
    if (events != 0)
        t->base.on_ready(&t->base, events);
}

static void on_timer(tci_timer *timer)
{
    tunnel *t = TCI_CONTAINER(timer, tunnel, timer);
    tc_err err;
    (void)tc_err_set(&err, TC_E_TIMEOUT, "no answer in time");
    fail(t, &err);
    want_below(t);
    if (t->wanted != 0)
        t->base.on_ready(&t->base, t->wanted);
}

/* ---- towards the owner ---- */

static int tunnel_read(tci_stream *base, void *buf, size_t cap, size_t *ret_n, tc_err *err)
{
    tunnel *t = of(base);
    if (t->has_failed)
        return give_failure(t, err);
    if (!t->is_open) {
        *ret_n = 0;
        return 0;
    }
    size_t rest = t->head.len - t->head_at;
    if (rest == 0)
        return tci_stream_read(t->under, buf, cap, ret_n, err);
    size_t n = rest < cap ? rest : cap;
    memcpy(buf, t->head.ptr + t->head_at, n);
    t->head_at += n;
    if (n == rest) {
        tci_buf_done(&t->head);
        t->head_at = 0;
    }
    report_later(t);
    *ret_n = n;
    return 0;
}

static int tunnel_writev(tci_stream *base, const tci_iovec *v, size_t nv, size_t *ret_n,
                         tc_err *err)
{
    tunnel *t = of(base);
    if (t->has_failed)
        return give_failure(t, err);
    if (t->is_open)
        return tci_stream_writev(t->under, v, nv, ret_n, err);
    *ret_n = 0;
    return 0;
}

static int tunnel_want(tci_stream *base, unsigned events, tc_err *err)
{
    TCI_UNUSED(err);
    tunnel *t = of(base);
    if (events == t->wanted)
        return 0;
    t->wanted = events;
    want_below(t); /* its failure is reported like any other */
    report_later(t);
    return 0;
}

static int tunnel_shutdown_write(tci_stream *base, tc_err *err)
{
    tunnel *t = of(base);
    if (t->has_failed)
        return give_failure(t, err);
    if (t->is_open)
        return tci_stream_shutdown_write(t->under, err);
    t->wants_shutdown = true;
    return 0;
}

static void tunnel_close(tci_stream *base)
{
    tunnel *t = of(base);
    tci_later_cancel(&t->later);
    tci_timer_stop(&t->timer);
    tci_stream_close(t->under);
    forget_request(t);
    tci_buf_done(&t->head);
    tci_free(t);
}

static const tci_stream_vtable tunnel_vtable = {
    .read = tunnel_read,
    .writev = tunnel_writev,
    .want = tunnel_want,
    .shutdown_write = tunnel_shutdown_write,
    .close = tunnel_close,
};

static int64_t tunnel_unsent(const tci_stream *base)
{
    return tci_stream_unsent(TCI_CONTAINER(base, const tunnel, base)->under);
}

/* ---- making ---- */

static int make_request(tunnel *t, const tci_proxy *proxy, const char *target, tc_err *err)
{
    tci_buf *b = &t->request;
    tc_str authorization = tci_secret_str(&proxy->authorization);
    (void)tci_buf_reserve(b, 2 * TCI_URL_AUTHORITY_MAX + authorization.len + 80); /* see below */
    tci_buf_printf(b, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", target, target);
    if (authorization.len > 0) {
        tci_buf_append_str(b, TC_STR("Proxy-Authorization: "));
        tci_buf_append_str(b, authorization); /* reserved at once: no copy is left behind */
        tci_buf_append_str(b, TC_STR("\r\n"));
    }
    tci_buf_append_str(b, TC_STR("\r\n"));
    return tci_buf_error(b, err);
}

/* host:port, as CONNECT wants it: always with the port. INVALID for what would break the request.
 */
static int target_text(tc_str host, uint16_t port, char *out, size_t out_size, tc_err *err)
{
    for (size_t i = 0; i < host.len; i++)
        if (host.ptr[i] <= ' ' || host.ptr[i] >= 0x7f || strchr("/@?#\\", host.ptr[i]) != NULL)
            return tc_err_set(err, TC_E_INVALID, "the host is not a name or address");
    if (host.len == 0 || host.len > TCI_URL_HOST_MAX)
        return tc_err_set(err, TC_E_INVALID, "the host is not a name or address");
    bool is_ipv6 = tci_str_find_byte(host, ':') < host.len;
    (void)snprintf(out, out_size, is_ipv6 ? "[%.*s]:%u" : "%.*s:%u", TC_STR_ARG(host),
                   (unsigned)port);
    return 0;
}

int tci_proxy_stream_new(tci_loop *loop, tci_stream *under_own, const tci_proxy *proxy, tc_str host,
                         uint16_t port, int64_t timeout_ms, tci_stream **ret_stream, tc_err *err)
{
    char target[TCI_URL_AUTHORITY_MAX], via[TCI_URL_AUTHORITY_MAX];
    tunnel *t = tci_new(tunnel);
    if (t == NULL) {
        tci_stream_close(under_own);
        return tci_err_no_memory(err);
    }
    t->base.v = &tunnel_vtable;
    t->base.unsent = tunnel_unsent;
    t->loop = loop;
    t->under = under_own;
    t->later.cb = on_later;
    tci_timer_init(&t->timer, loop, on_timer);
    tci_buf_init(&t->request, HEAD_MAX);
    tci_buf_init(&t->head, HEAD_MAX);
    under_own->on_ready = on_below;
    under_own->user = t;
    int rc = target_text(host, port, target, sizeof target, err);
    if (rc == 0)
        rc = target_text(tci_str(proxy->host), proxy->port, via, sizeof via, err);
    if (rc == 0)
        rc = make_request(t, proxy, target, err);
    if (rc == 0 && timeout_ms > 0)
        rc = tci_timer_start(&t->timer, timeout_ms, err);
    if (rc < 0) {
        tunnel_close(&t->base);
        return rc;
    }
    (void)snprintf(t->names, sizeof t->names, "tunnel to '%s' through proxy '%s'", target, via);
    want_below(t); /* its failure is reported once the owner asks */
    *ret_stream = &t->base;
    return 0;
}
