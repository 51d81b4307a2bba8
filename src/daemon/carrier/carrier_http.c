/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP resources of the daemon: control, transfer, metrics. Leaves HTTP to net/httpd, requests to dispatch.c,
 * content to transfer.c. Loop thread.
 *
 * Invariant: an exchange (what we know of one HTTP request) lives until HTTP is done with it and nothing
 * of ours points to it any more: until then request is NULL once HTTP is done. */
#include "daemon/carrier/carrier_http.h"

#include "base/utf8.h"
#include "daemon/metrics.h"
#include "daemon/req.h"
#include "daemon/transfer.h"
#include "net/httpd.h"
#include "net/tcp.h"
#include "net/tls.h"

#include <stdio.h>

enum {
    DRAIN_MS = 1000,
    HANDLE_MAX = 512,
    TLS_HANDSHAKE_MS = 10000,
    UPLOAD_PIECE_BYTES = 256 * 1024,
    UPLOAD_HIGH_BYTES = 1024 * 1024,
    UPLOAD_LOW_BYTES = 256 * 1024
};

struct tci_http_carrier {
    tci_carrier base;
    tci_httpd *httpd;
    tci_tcp_listener *listener;
    tci_tls_ctx *tls; /* NULL: plain */
    size_t nbodies;   /* control bodies being read */
    size_t ntransfers;
    tci_drain drain;
    bool is_draining, is_device_drained, is_http_drained, is_ended, is_clean;
    void (*on_end)(void *user, int status, tc_str message);
    void *user;
};

typedef enum exchange_kind {
    EXCHANGE_CONTROL,
    EXCHANGE_READ,
    EXCHANGE_WRITE,
    EXCHANGE_RESET
} exchange_kind;

typedef struct exchange {
    tci_http_carrier *carrier;
    tci_httpd_req *request; /* NULL: HTTP is done with it */
    unsigned holds;         /* callers below on the stack that still look at it */
    exchange_kind kind;
    tci_buf body;       /* control */
    bool is_reading;    /* counts in nbodies */
    bool is_dispatched; /* an answer will come through reply */
    tci_transfer *transfer;
    bool has_body_bytes; /* of a request that may have none */
    bool is_started;     /* the answer's body has begun */
    bool is_paused;
    bool is_active;    /* counts in ntransfers */
    tci_list blocks;   /* tci_block.frame.link, waiting for HTTP; the first may be with it */
    bool is_block_out; /* the first block is with HTTP */
    bool is_end_due;
    uint64_t uploaded;
    tci_list
        spare; /* tci_chunk of UPLOAD_PIECE_BYTES: fresh memory costs more than the copy into it */
} exchange;

/* ---- answers ---- */

static void respond(exchange *x, unsigned status, tc_str type, tci_buf *body)
{
    tc_err err;
    tci_http_header headers[] = {{TC_STR("Cache-Control"), TC_STR("no-store")},
                                 {TC_STR("Content-Type"), type}};
    tci_httpd_req *request = x->request;
    if (request == NULL)
        return;
    int rc = body != NULL ? tci_httpd_respond_own(request, status, headers, 2, body, &err)
                          : tci_httpd_respond(request, status, headers, 2, TC_STR(""), &err);
    if (rc == TC_E_CONFLICT && x->request != NULL)
        tci_httpd_abort(request); /* the answer has begun: it must not look whole */
}

static void refuse(exchange *x, unsigned status)
{
    respond(x, status, TC_STR("application/octet-stream"), NULL);
}

/* Gone when HTTP is done with it, no answer is due and nobody on the stack looks at it. */
static void exchange_drop(exchange *x)
{
    tci_carrier *c = &x->carrier->base;
    if (x->request != NULL || x->is_dispatched || x->holds > 0)
        return;
    tci_buf_done(&x->body);
    for (tci_link *k; (k = tci_list_pop_front(&x->spare)) != NULL;)
        tci_chunk_free(TCI_CONTAINER(k, tci_chunk, link));
    tci_free(x);
    tci_carrier_unref(c);
}

/* ---- control ---- */

static void reply(tci_carrier *c, void *reply_to, bool is_refused, tci_buf *body)
{
    exchange *x = reply_to;
    TCI_UNUSED(c);
    x->is_dispatched = false;
    if (x->request == NULL) { /* the client went away meanwhile */
        exchange_drop(x);
        return;
    }
    if (is_refused)
        refuse(x, 429);
    else if (body == NULL || !tci_buf_ok(body))
        refuse(x, 500);
    else
        respond(x, 200, TC_STR("application/json"), body);
}

static void control_head(exchange *x, const tci_http_head *head)
{
    const tci_limits *l = &x->carrier->base.device->config->limits;
    tc_str type = TC_STR(""), value;
    if (x->carrier->nbodies >= l->max_device_concurrent_operations) {
        refuse(x, 429);
        return;
    }
    (void)tci_http_head_get(head, TC_STR("content-type"), &type, NULL); /* absent: the empty one */
    if (!tci_str_eq_nocase(type, TC_STR("application/json")) ||
        tci_http_head_get(head, TC_STR("eip-transfer-handle"), &value, NULL) ||
        tci_http_head_get(head, TC_STR("eip-transfer-direction"), &value, NULL)) {
        refuse(x, 415);
        return;
    }
    if (tci_http_head_get(head, TC_STR("eip-session"), &value, NULL)) {
        refuse(x, 400);
        return;
    }
    if (head->has_length && head->content_length > l->max_request_bytes) {
        refuse(x, 413);
        return;
    }
    tci_buf_init(&x->body, (size_t)l->max_request_bytes);
    if (head->has_length)
        (void)tci_buf_reserve(&x->body, (size_t)head->content_length);
    x->is_reading = true;
    x->carrier->nbodies++;
}

static void stop_reading(exchange *x)
{
    if (x->is_reading)
        x->carrier->nbodies--;
    x->is_reading = false;
}

static void control_body(exchange *x, tc_str bytes)
{
    tci_buf_append_str(&x->body, bytes);
    if (tci_buf_ok(&x->body))
        return;
    stop_reading(x);
    refuse(x, x->body.failed == TC_E_TOO_BIG ? 413 : 500);
}

static void control_end(exchange *x)
{
    if (!x->is_reading)
        return;
    stop_reading(x);
    tc_str text = tci_buf_str(&x->body);
    if (!tci_utf8_is_valid(text)) {
        refuse(x, 400);
        return;
    }
    char *own = x->body.ptr;
    tci_buf_init(&x->body, 0);
    x->is_dispatched = true;
    tci_dispatch(&x->carrier->base, x, text, own);
}

/* ---- transfers: common ---- */

/* The exchange may be gone before the transfer is: neither points to the other any more. */
static void detach(exchange *x)
{
    if (x->is_active)
        x->carrier->ntransfers--;
    x->is_active = false;
    if (x->transfer != NULL) {
        x->transfer->front = NULL;
        x->transfer->front_state = NULL;
    }
    x->transfer = NULL;
}

static unsigned status_of_reset(const tci_transfer *t, tci_eipd_status status)
{
    if (status == TCI_EIPD_STATUS_EXPIRED && t->is_writer && !t->is_end_seen)
        return 408; /* RFC 9110, 15.5.9: the body did not come in time */
    if (status == TCI_EIPD_STATUS_LIMIT)
        return 413;
    return status == TCI_EIPD_STATUS_SOURCE ? 500 : 409;
}

static void on_reset(tci_transfer *t, tci_eipd_status status, uint64_t offset)
{
    exchange *x = t->front_state;
    TCI_UNUSED(offset);
    if (x->is_started && x->request != NULL) {
        tci_httpd_abort(x->request); /* on_request_done gives the blocks back */
        return;
    }
    tci_httpd_req *paused = x->is_paused ? x->request : NULL;
    x->holds++;
    detach(x);
    x->is_paused = false;
    refuse(x, status_of_reset(t, status));
    if (paused != NULL && x->request == paused)
        tci_httpd_resume(paused); /* the rest of the body is read and dropped */
    x->holds--;
    exchange_drop(x);
}

static tci_transfer *find_transfer(exchange *x, const tci_http_head *head, tc_str handle)
{
    tc_str id;
    if (!tci_http_head_get(head, TC_STR("eip-session"), &id, NULL))
        return NULL;
    tci_session *s = tci_session_find(x->carrier->base.device, id);
    if (s == NULL || s->owner != &x->carrier->base || s->state != TCI_SESSION_READY)
        return NULL;
    return tci_transfer_find(s, handle);
}

/* ---- reading ---- */

static void move_blocks(exchange *x)
{
    tc_err err;
    while (x->is_started && x->request != NULL && x->transfer != NULL && !x->is_block_out) {
        tci_link *k = tci_list_first(&x->blocks);
        if (k == NULL) {
            if (x->is_end_due) {
                tci_httpd_req *request = x->request;
                detach(x);
                tci_httpd_stream_end(request);
            }
            return;
        }
        tci_block *b = TCI_CONTAINER(k, tci_block, frame.link);
        tci_iovec part = {b->payload, b->len};
        bool is_pending = false;
        if (tci_httpd_stream_write(x->request, &part, 1, &is_pending, &err) < 0)
            return; /* on_done follows */
        x->is_block_out = is_pending;
        if (!is_pending) {
            uint64_t end = b->offset + b->len;
            tci_transfer *t = x->transfer;
            tci_link_remove(k);
            tci_reader_sent(t, b);
            if (tci_reader_credit(t, end, &err) < 0)
                return;
        }
    }
}

/* Hand over what is ready. Sending the last block may end the transfer, and with it the request. */
static void pump_blocks(exchange *x)
{
    x->holds++;
    move_blocks(x);
    x->holds--;
    exchange_drop(x);
}

static void on_block(tci_transfer *t, tci_block *b)
{
    exchange *x = t->front_state;
    tci_list_push_back(&x->blocks, &b->frame.link);
    pump_blocks(x);
}

static void on_end(tci_transfer *t)
{
    exchange *x = t->front_state;
    x->is_end_due = true;
    pump_blocks(x);
}

static void on_writable(tci_httpd_req *request)
{
    tc_err err;
    exchange *x = tci_httpd_data(request);
    tci_transfer *t = x->transfer;
    tci_link *k = tci_list_pop_front(&x->blocks);
    x->is_block_out = false;
    if (k == NULL || t == NULL)
        return;
    tci_block *b = TCI_CONTAINER(k, tci_block, frame.link);
    uint64_t end = b->offset + b->len;
    x->holds++;
    tci_reader_sent(t, b);
    if (t->state == TCI_TRANSFER_ACTIVE && tci_reader_credit(t, end, &err) == 0)
        move_blocks(x);
    x->holds--;
    exchange_drop(x);
}

static void drop_blocks(exchange *x, tci_transfer *t)
{
    for (tci_link *k; (k = tci_list_pop_front(&x->blocks)) != NULL;)
        tci_reader_sent(t, TCI_CONTAINER(k, tci_block, frame.link));
}

/* ---- writing ---- */

static void on_consumed(tci_transfer *t, tci_chunk *chunk)
{
    exchange *x = t->front_state;
    if (chunk->base_cap == UPLOAD_PIECE_BYTES)
        tci_list_push_front(&x->spare, &chunk->link);
    else
        tci_chunk_free(chunk);
    if (x->is_paused && x->request != NULL && t->nqueued_bytes <= UPLOAD_LOW_BYTES) {
        x->is_paused = false;
        tci_httpd_resume(x->request);
    }
}

static void on_sealed(tci_transfer *t)
{
    exchange *x = t->front_state;
    detach(x);
    refuse(x, 204);
}

static const tci_front http_front = {on_block, on_end, on_consumed, on_sealed, on_reset};

/* A chunk with room for so many bytes; NULL: no memory. Small pieces get memory of their size, so that what
 * waits stays near UPLOAD_HIGH_BYTES. */
static tci_chunk *upload_chunk(exchange *x, size_t len)
{
    bool is_large = len > UPLOAD_PIECE_BYTES / 4 && len <= UPLOAD_PIECE_BYTES;
    tci_link *k = is_large ? tci_list_pop_front(&x->spare) : NULL;
    if (k != NULL)
        return TCI_CONTAINER(k, tci_chunk, link);
    tci_chunk *c = tci_new(tci_chunk);
    if (c == NULL)
        return NULL;
    c->base_cap = is_large ? UPLOAD_PIECE_BYTES : len;
    c->base = tci_mem_resize(NULL, c->base_cap);
    if (c->base != NULL)
        return c;
    tci_free(c);
    return NULL;
}

static void upload_body(exchange *x, tc_str bytes)
{
    tc_err err;
    tci_transfer *t = x->transfer;
    if (t == NULL)
        return;
    tci_chunk *c = upload_chunk(x, bytes.len);
    if (c == NULL) {
        (void)tci_transfer_reset(t, TCI_EIPD_STATUS_INTERNAL, t->received, true);
        return;
    }
    memcpy(c->base, bytes.ptr, bytes.len);
    c->payload = tci_str_of(c->base, bytes.len);
    if (tci_writer_push_own(t, x->uploaded, c, &err) < 0) {
        tci_eipd_status status =
            err.code == TC_E_QUOTA ? TCI_EIPD_STATUS_LIMIT : TCI_EIPD_STATUS_PROTOCOL;
        (void)tci_transfer_reset(t, status, t->received, true);
        return;
    }
    x->uploaded += bytes.len;
    if (t->nqueued_bytes > UPLOAD_HIGH_BYTES) {
        x->is_paused = true;
        tci_httpd_pause(x->request);
    }
}

static void upload_end(exchange *x)
{
    tc_err err;
    tci_transfer *t = x->transfer;
    if (t != NULL && tci_writer_end(t, x->uploaded, &err) < 0)
        (void)tci_transfer_reset(t, TCI_EIPD_STATUS_PROTOCOL, t->received, true);
}

/* ---- transfers: requests ---- */

static int attach(exchange *x, const tci_http_head *head)
{
    tc_err err;
    tc_str handle;
    const tci_limits *l = &x->carrier->base.device->config->limits;
    (void)tci_http_head_get(head, TC_STR("eip-transfer-handle"), &handle,
                            NULL); /* checked before */
    tci_transfer *t = find_transfer(x, head, handle);
    if (x->carrier->ntransfers >= l->max_device_file_transfers)
        return 429;
    if (t == NULL || t->is_writer != (x->kind == EXCHANGE_WRITE))
        return 409;
    x->transfer = t;
    if (tci_transfer_attach(t, &http_front, x, &err) < 0) {
        x->transfer = NULL;
        return 409;
    }
    x->is_active = true;
    x->carrier->ntransfers++;
    return 0;
}

static void read_start(exchange *x)
{
    tc_err err;
    tci_http_header headers[] = {{TC_STR("Cache-Control"), TC_STR("no-store")},
                                 {TC_STR("Content-Type"), TC_STR("application/octet-stream")}};
    if (x->has_body_bytes) {
        refuse(x, 400);
        return;
    }
    int status = attach(x, tci_httpd_head(x->request));
    if (status != 0) {
        refuse(x, (unsigned)status);
        return;
    }
    x->is_started = true;
    if (tci_httpd_stream_start(x->request, 200, headers, 2, TCI_HTTPD_CHUNKED, &err) == 0)
        pump_blocks(x);
}

static void reset_start(exchange *x)
{
    tc_str handle;
    const tci_http_head *head = tci_httpd_head(x->request);
    if (x->has_body_bytes) {
        refuse(x, 400);
        return;
    }
    (void)tci_http_head_get(head, TC_STR("eip-transfer-handle"), &handle,
                            NULL); /* checked before */
    tci_transfer *t = find_transfer(x, head, handle);
    bool is_done = t != NULL && (t->state == TCI_TRANSFER_RESET ||
                                 tci_transfer_reset(t, TCI_EIPD_STATUS_CANCELLED,
                                                    tci_transfer_progress(t), true));
    refuse(x, is_done ? 204 : 409);
}

static void write_start(exchange *x)
{
    const tci_http_head *head = tci_httpd_head(x->request);
    const tci_limits *l = &x->carrier->base.device->config->limits;
    if (head->has_length && head->content_length > l->max_staged_file_bytes) {
        refuse(x, 413);
        return;
    }
    int status = attach(x, head);
    if (status != 0)
        refuse(x, (unsigned)status);
}

static void transfer_head(exchange *x, const tci_http_head *head)
{
    tc_str type = TC_STR(""), value, direction = TC_STR("");
    (void)tci_http_head_get(head, TC_STR("content-type"), &type, NULL);
    (void)tci_http_head_get(head, TC_STR("eip-transfer-direction"), &direction, NULL);
    bool is_read = tci_str_eq(direction, TC_STR("read"));
    bool is_write = tci_str_eq(direction, TC_STR("write"));
    if (!tci_str_eq_nocase(type, TC_STR("application/octet-stream")))
        refuse(x, 415);
    else if (!tci_http_head_get(head, TC_STR("eip-session"), &value, NULL))
        refuse(x, 409);
    else if (!tci_http_head_get(head, TC_STR("eip-transfer-handle"), &value, NULL) ||
             value.len == 0 || value.len > HANDLE_MAX || (!is_read && !is_write))
        refuse(x, 400);
    else if (tci_str_eq(head->method, TC_STR("DELETE")))
        x->kind = EXCHANGE_RESET;
    else if (is_read)
        x->kind = EXCHANGE_READ;
    else {
        x->kind = EXCHANGE_WRITE;
        write_start(x);
    }
}

/* ---- every request ---- */

static bool is_authorized(const tci_http_carrier *c, const tci_http_head *head)
{
    tc_str value, scheme = TC_STR("Bearer ");
    size_t count = 0;
    if (!tci_http_head_get(head, TC_STR("authorization"), &value, &count) || count != 1 ||
        !tci_str_starts(value, scheme))
        return false;
    return tci_secret_eq(&c->base.device->config->http_credential,
                         tci_str_sub(value, scheme.len, value.len));
}

/* 0, or the status that the first failing check gives. */
static unsigned check(const tci_http_carrier *c, const tci_http_head *head, tc_str *ret_path)
{
    tc_str value;
    size_t query = tci_str_find_byte(head->target, '?');
    tc_str path = tci_str_sub(head->target, 0, query);
    bool is_metrics = tci_str_eq(path, TC_STR("/metrics"));
    bool is_transfer = tci_str_eq(path, TC_STR("/eip/transfer"));
    bool is_get = tci_str_eq(head->method, TC_STR("GET"));
    bool is_post = tci_str_eq(head->method, TC_STR("POST"));
    bool is_delete = tci_str_eq(head->method, TC_STR("DELETE"));
    if (is_metrics ? !is_get : !(is_post || (is_delete && is_transfer)))
        return 405;
    if (query < head->target.len)
        return 400;
    if (!is_authorized(c, head))
        return 401;
    if (tci_http_head_get(head, TC_STR("cookie"), &value, NULL) ||
        tci_http_head_get(head, TC_STR("content-encoding"), &value, NULL))
        return 400;
    if (!is_metrics && !is_transfer && !tci_str_eq(path, TC_STR("/eip/control")))
        return 404;
    if (is_metrics && c->base.device->metrics == NULL)
        return 404;
    *ret_path = path;
    return 0;
}

static void metrics_answer(exchange *x)
{
    tci_buf text;
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_metrics_put_prometheus(x->carrier->base.device->metrics, &text);
    if (tci_buf_ok(&text))
        respond(x, 200, TC_STR("text/plain; version=0.0.4; charset=utf-8"), &text);
    else
        refuse(x, 500);
    tci_buf_done(&text);
}

static void on_head(tci_httpd_req *request)
{
    tci_http_carrier *c = tci_httpd_user(tci_httpd_of(request));
    const tci_http_head *head = tci_httpd_head(request);
    tc_str path;
    exchange *x = tci_new(exchange);
    if (x == NULL) {
        tci_httpd_abort(request);
        return;
    }
    x->carrier = c;
    (void)tci_carrier_ref(&c->base);
    x->request = request;
    tci_buf_init(&x->body, 0);
    tci_list_init(&x->blocks);
    tci_list_init(&x->spare);
    tci_httpd_set_data(request, x);
    unsigned status = check(c, head, &path);
    if (status != 0)
        refuse(x, status);
    else if (tci_str_eq(path, TC_STR("/metrics")))
        metrics_answer(x);
    else if (tci_str_eq(path, TC_STR("/eip/control")))
        control_head(x, head);
    else
        transfer_head(x, head);
}

static void on_body(tci_httpd_req *request, tc_str bytes)
{
    exchange *x = tci_httpd_data(request);
    if (x->kind == EXCHANGE_CONTROL && x->is_reading)
        control_body(x, bytes);
    else if (x->kind == EXCHANGE_WRITE)
        upload_body(x, bytes);
    else
        x->has_body_bytes = true;
}

static void on_request_end(tci_httpd_req *request)
{
    exchange *x = tci_httpd_data(request);
    switch (x->kind) {
    case EXCHANGE_CONTROL:
        control_end(x);
        return;
    case EXCHANGE_READ:
        read_start(x);
        return;
    case EXCHANGE_WRITE:
        upload_end(x);
        return;
    case EXCHANGE_RESET:
        reset_start(x);
        return;
    }
}

static void on_request_done(tci_httpd_req *request, bool is_whole)
{
    exchange *x = tci_httpd_data(request);
    TCI_UNUSED(is_whole); /* whole or not, what it held is given back */
    if (x == NULL)
        return;
    x->request = NULL;
    stop_reading(x);
    tci_transfer *t = x->transfer;
    if (t != NULL) {
        detach(x);
        (void)tci_transfer_reset(t, TCI_EIPD_STATUS_CANCELLED, tci_transfer_progress(t), false);
        drop_blocks(x, t);
    }
    exchange_drop(x);
}

static const tci_httpd_handler handler = {on_head, on_body, on_request_end, on_writable,
                                          on_request_done};

/* ---- life ---- */

static void http_free(tci_carrier *base)
{
    tci_http_carrier *c = TCI_CONTAINER(base, tci_http_carrier, base);
    tci_link_remove(&base->link);
    tci_tls_ctx_free(c->tls);
    tci_free(c);
}

static void maybe_end(tci_http_carrier *c)
{
    if (!c->is_device_drained || !c->is_http_drained || c->is_ended)
        return;
    c->is_ended = true;
    void (*on_end_cb)(void *, int, tc_str) = c->on_end;
    void *user = c->user;
    bool is_clean = c->is_clean;
    tci_carrier_unref(&c->base);
    on_end_cb(user, is_clean ? 0 : 1,
              is_clean ? TC_STR("") : TC_STR("HTTP generation drain exceeded its deadline"));
}

static void device_drained(tci_drain *drain, bool is_clean)
{
    tci_http_carrier *c = TCI_CONTAINER(drain, tci_http_carrier, drain);
    c->is_device_drained = true;
    c->is_clean = c->is_clean && is_clean;
    maybe_end(c);
}

static void http_drained(tci_httpd *httpd, bool is_clean)
{
    tci_http_carrier *c = tci_httpd_user(httpd);
    c->is_http_drained = true;
    c->is_clean = c->is_clean && is_clean;
    c->base.is_closed = true;
    if (c->base.device->metrics != NULL)
        tci_metrics_count_connections(c->base.device->metrics, NULL, NULL);
    tci_httpd_free(httpd);
    maybe_end(c);
}

void tci_http_carrier_drain(tci_http_carrier *c)
{
    if (c->is_draining)
        return;
    c->is_draining = true;
    c->is_clean = true;
    tci_tcp_listener_close(c->listener);
    c->listener = NULL;
    c->drain.done = device_drained;
    (void)tci_carrier_ref(&c->base);
    tci_httpd_drain(c->httpd, DRAIN_MS, http_drained);
    tci_device_drain(c->base.device, &c->drain);
    tci_carrier_unref(&c->base);
}

static void on_accept(void *user, tci_stream *stream, const tci_addr *peer)
{
    tc_err err;
    tci_http_carrier *c = user;
    TCI_UNUSED(peer);
    if (c->tls != NULL && tci_tls_server_new(c->tls, c->base.device->loop, stream, TLS_HANDSHAKE_MS,
                                             &stream, &err) < 0)
        return;
    tci_httpd_accept_own(c->httpd, stream);
}

static const tci_carrier_vtable http_vtable = {.reply = reply, .free = http_free};

static size_t count_connections(void *user)
{
    return tci_httpd_nconnections(((tci_http_carrier *)user)->httpd);
}

static int listen_on(tci_http_carrier *c, const tci_config *config, tc_err *err)
{
    tci_addr at;
    if (tci_addr_parse(config->http_bind, &at, err) < 0)
        return err->code;
    if (config->http_tls_cert_file.len > 0 &&
        tci_tls_ctx_new_server(config->http_tls_cert_file.ptr, config->http_tls_key_file.ptr,
                               &c->tls, err) < 0)
        return err->code;
    tci_httpd_options options = {
        .handler = &handler,
        .user = c,
        .server = config->is_drop_in ? NULL : "telechird/" TC_VERSION,
        .max_connections = 1024,
        .body_timeout_ms = (int64_t)config->limits.max_file_transfer_duration_ms,
    };
    if (tci_httpd_new(c->base.device->loop, &options, &c->httpd, err) < 0)
        return err->code;
    if (tci_tcp_listener_open(c->base.device->loop, &at, 0, on_accept, c, &c->listener, err) < 0)
        return tc_err_wrap(err, "cannot listen on '%.*s'", TC_STR_ARG(config->http_bind));
    if (c->base.device->metrics != NULL)
        tci_metrics_count_connections(c->base.device->metrics, count_connections, c);
    return 0;
}

int tci_http_carrier_open(tci_device *device,
                          void (*on_end_cb)(void *user, int status, tc_str message), void *user,
                          tci_http_carrier **ret, tc_err *err)
{
    tci_http_carrier *c = tci_new(tci_http_carrier);
    if (c == NULL)
        return tci_err_no_memory(err);
    c->base = (tci_carrier){.v = &http_vtable,
                            .device = device,
                            .refs = 1,
                            .is_initialized = true,
                            .is_stateless = true};
    c->on_end = on_end_cb;
    c->user = user;
    tci_list_push_back(&device->carriers, &c->base.link);
    if (listen_on(c, device->config, err) < 0) {
        tci_httpd_free(c->httpd);
        tci_carrier_unref(&c->base);
        return err->code;
    }
    *ret = c;
    return 0;
}
