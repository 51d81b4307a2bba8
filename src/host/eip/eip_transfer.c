/* SPDX-License-Identifier: Apache-2.0
 *
 * Content on its way between a client and a device: an HTTP body on one side, a transfer on the other, a window of
 * it in memory. Leaves frames and credit to the relay. The runtime's loop. Invariant: credit is given when HTTP has
 * handed a piece on, and a body is read on when the device has taken some; what ends early ends both sides, and
 * never looks whole. */
#include "host/eip/eip.h"

enum { SESSION_MAX = 1024, HANDLE_MAX = 512 };

/* ---- the head ---- */

static bool refuse(tci_eip_exchange *x, unsigned status, const char *code, const char *message)
{
    tci_eip_refuse(x, status, code, tci_str(message));
    return false;
}

bool tci_eip_transfer_head(tci_eip_exchange *x, const tci_http_head *head)
{
    tc_err err;
    tc_str session = {0}, handle = {0}, direction = {0};
    (void)tci_http_head_get(head, TC_STR("eip-session"), &session, NULL);
    (void)tci_http_head_get(head, TC_STR("eip-transfer-handle"), &handle, NULL);
    (void)tci_http_head_get(head, TC_STR("eip-transfer-direction"), &direction, NULL);
    bool is_read = tci_str_eq(direction, TC_STR("read"));
    if (session.len == 0 || session.len > SESSION_MAX)
        return refuse(x, 409, "bad_handle", "no such session");
    if (handle.len == 0 || handle.len > HANDLE_MAX ||
        (!is_read && !tci_str_eq(direction, TC_STR("write"))))
        return refuse(x, 400, "invalid_request", "a handle and a direction are needed");
    if (tci_arena_dup(&x->r->arena, session, &x->session, &err) < 0 ||
        tci_arena_dup(&x->r->arena, handle, &x->handle, &err) < 0)
        return refuse(x, 500, "internal", "out of memory");
    x->is_read = is_read;
    if (x->kind == TCI_EIP_READ && !is_read)
        x->kind = TCI_EIP_WRITE;
    return true;
}

/* ---- failures ---- */

/* Before anything of the answer has left. */
static void refuse_by(tci_eip_exchange *x, const tc_err *err)
{
    static const struct {
        tc_code code;
        unsigned status;
        const char *name;
    } kinds[] = {{TC_E_QUOTA, 413, "too_large"},       {TC_E_BUSY, 429, "busy"},
                 {TC_E_IO, 500, "device_failed"},      {TC_E_INTERNAL, 500, "device_failed"},
                 {TC_E_NO_MEMORY, 500, "internal"},    {TC_E_CLOSED, 502, "link_lost"},
                 {TC_E_DENIED, 409, "bad_handle"},     {TC_E_TIMEOUT, 409, "bad_handle"},
                 {TC_E_BAD_HANDLE, 409, "bad_handle"}, {TC_E_CANCELLED, 409, "bad_handle"}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(kinds); i++)
        if (kinds[i].code == err->code) {
            tci_eip_refuse(x, kinds[i].status, kinds[i].name, tci_str(err->msg));
            return;
        }
    tci_eip_refuse(x, 502, "link_lost", tci_str(err->msg));
}

static void leave(tci_eip_exchange *x)
{
    tci_relay_xfer *rx = x->rx;
    x->rx = NULL;
    if (rx != NULL)
        tci_relay_xfer_leave(rx);
}

static void fail(tci_eip_exchange *x)
{
    tc_err err = *tci_relay_xfer_error(x->rx);
    leave(x);
    if (!x->is_started) {
        refuse_by(x, &err);
        return;
    }
    if (x->r->request != NULL)
        tci_httpd_abort(x->r->request); /* it must not look whole */
}

/* ---- down ---- */

static void give_back(tci_eip_exchange *x)
{
    tci_block *b = x->block;
    x->block = NULL;
    x->is_block_out = false;
    if (b == NULL)
        return;
    if (x->rx != NULL)
        tci_relay_xfer_taken(x->rx, b);
    else
        tci_free(b);
}

static bool start_answer(tci_eip_exchange *x)
{
    tc_err err;
    tci_http_header h[] = {{TC_STR("Cache-Control"), TC_STR("no-store")},
                           {TC_STR("Content-Type"), TC_STR("application/octet-stream")}};
    x->is_started = true;
    x->is_answered = true;
    return tci_httpd_stream_start(x->r->request, 200, h, TCI_ARRAY_LEN(h), TCI_HTTPD_CHUNKED,
                                  &err) == 0;
}

/* What has come goes to the client, as fast as it takes it. */
static void pass_down(tci_eip_exchange *x)
{
    tc_err err;
    while (x->r->request != NULL && x->rx != NULL && !x->is_block_out) {
        tci_block *b = tci_relay_xfer_next(x->rx);
        if (b == NULL)
            break;
        tci_iovec part = {b->payload, b->len};
        x->block = b;
        if (tci_httpd_stream_write(x->r->request, &part, 1, &x->is_block_out, &err) < 0) {
            x->is_block_out = true; /* the client is gone, and its request soon */
            return;
        }
        if (!x->is_block_out)
            give_back(x);
    }
}

static void on_news_down(tci_relay_xfer *rx)
{
    tci_eip_exchange *x = rx->user;
    tci_host_req *r = x->r;
    tci_relay_state state = tci_relay_xfer_state(rx);
    tci_host_hold(r);
    if (state == TCI_RELAY_FAILED)
        fail(x);
    else if (state != TCI_RELAY_ATTACHING && (x->is_started || start_answer(x)))
        pass_down(x);
    /* All of it was taken before its end came. */
    if (state == TCI_RELAY_ENDED && x->rx != NULL && r->request != NULL && !x->is_block_out) {
        leave(x);
        tci_httpd_stream_end(r->request);
    }
    tci_host_release(r);
}

void tci_eip_download_start(tci_eip_exchange *x)
{
    tc_err err;
    if (tci_relay_xfer_start(&x->remote->relay, x->session, x->handle, true, on_news_down, x,
                             &x->rx, &err) < 0)
        refuse_by(x, &err);
}

void tci_eip_transfer_writable(tci_eip_exchange *x)
{
    give_back(x);
    if (x->rx != NULL)
        on_news_down(x->rx);
}

/* ---- up ---- */

static bool is_full(const tci_block *b)
{
    return b->len == b->cap;
}

/* A piece goes when it is full, or when there is nothing else on its way: a slow client must not look idle. */
static void send_block(tci_eip_exchange *x)
{
    tci_block *b = x->block;
    x->block = NULL;
    tci_relay_xfer_send(x->rx, b);
}

/* Of what HTTP has read; what the window has no room for stays where it is. */
static void pass_up(tci_eip_exchange *x)
{
    while (x->rest.len > 0) {
        if (x->block == NULL)
            x->block = tci_relay_xfer_blank(x->rx);
        tci_block *b = x->block;
        if (b == NULL)
            break;
        size_t n = tci_min_size(x->rest.len, b->cap - b->len);
        memcpy(b->payload + b->len, x->rest.ptr, n);
        b->len += n;
        x->rest = tci_str_sub(x->rest, n, SIZE_MAX);
        if (is_full(b))
            send_block(x);
    }
    if (x->block != NULL && x->block->len > 0 && (tci_relay_xfer_is_idle(x->rx) || x->is_whole))
        send_block(x);
    if (x->is_whole && x->rest.len == 0 && !x->is_finished) {
        x->is_finished = true;
        tci_relay_xfer_finish(x->rx);
    }
}

static void on_news_up(tci_relay_xfer *rx)
{
    tci_eip_exchange *x = rx->user;
    tci_host_req *r = x->r;
    tci_host_hold(r);
    switch (tci_relay_xfer_state(rx)) {
    case TCI_RELAY_ATTACHING:
        break;
    case TCI_RELAY_OPEN:
        pass_up(x);
        if (x->rest.len == 0)
            tci_eip_resume(x); /* which may bring more, and the end */
        break;
    case TCI_RELAY_ENDED:
        leave(x);
        tci_eip_answer_empty(x, 204);
        break;
    case TCI_RELAY_FAILED:
        fail(x); /* the rest of the body is read and dropped */
        break;
    }
    tci_host_release(r);
}

void tci_eip_upload_start(tci_eip_exchange *x)
{
    tc_err err;
    const tci_http_head *head = tci_httpd_head(x->r->request);
    if (head->has_length &&
        head->content_length > x->remote->relay.device->info.limits.max_file_transfer_bytes) {
        refuse(x, 413, "too_large", "more bytes than the device takes");
        return;
    }
    tci_eip_pause(x);
    if (tci_relay_xfer_start(&x->remote->relay, x->session, x->handle, false, on_news_up, x, &x->rx,
                             &err) < 0)
        refuse_by(x, &err);
}

void tci_eip_upload_body(tci_eip_exchange *x, tc_str bytes)
{
    if (x->rx == NULL)
        return;
    x->rest = bytes;
    pass_up(x);
    if (x->rest.len > 0)
        tci_eip_pause(x); /* the bytes stay until then */
}

void tci_eip_upload_end(tci_eip_exchange *x)
{
    if (x->rx != NULL)
        pass_up(x);
}

/* ---- resets ---- */

static void on_reset(tci_relay_reset *q, bool was_reset)
{
    tci_eip_exchange *x = q->user;
    x->is_resetting = false;
    if (was_reset)
        tci_eip_answer_empty(x, 204);
    else
        (void)refuse(x, 409, "bad_handle", "no such transfer");
}

void tci_eip_reset_start(tci_eip_exchange *x)
{
    tc_err err;
    tci_host_req *r = x->r;
    tci_host_hold(r);
    x->is_resetting = true;
    x->reset = (tci_relay_reset){.done = on_reset, .user = x};
    if (tci_relay_reset_start(&x->remote->relay, x->session, x->handle, x->is_read, &x->reset,
                              &err) < 0) {
        x->is_resetting = false;
        refuse_by(x, &err);
    }
    tci_host_release(r);
}

/* ---- the client is gone ---- */

void tci_eip_transfer_gone(tci_eip_exchange *x)
{
    if (x->is_resetting)
        tci_relay_reset_leave(&x->reset);
    x->is_resetting = false;
    tci_free(x->block);
    x->block = NULL;
    x->rest = (tc_str){0};
    leave(x);
}
