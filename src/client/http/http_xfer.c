/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers as HTTP bodies. Loop thread. Invariant: what a body's end means is decided by the
 * control call that follows; here only that it ended cleanly. */
#include "client/http/http.h"

enum { BLOCKS_AHEAD = 16, BLOCKS_RESUME = 8, XFER_HEADERS = 5 };

static tci_eip_http *conn_of(const tci_xfer *x)
{
    return tci_eip_http_of(x->conn);
}

static int start_call(tci_xfer *x, tc_str method, bool streams,
                      const tci_http_call_handler *handler, tci_http_call **ret_call, tc_err *err)
{
    tci_eip_http *h = conn_of(x);
    tci_http_header headers[XFER_HEADERS] = {
        {TC_STR("Authorization"), tci_secret_str(&h->authorization)},
        {TC_STR("Content-Type"), TC_STR("application/octet-stream")},
        {TC_STR("EIP-Session"), x->sess->id},
        {TC_STR("EIP-Transfer-Handle"), x->handle},
        {TC_STR("EIP-Transfer-Direction"), x->is_read ? TC_STR("read") : TC_STR("write")},
    };
    tci_http_request request = {
        .method = method,
        .target = tci_str(h->transfer),
        .headers = headers,
        .nheaders = XFER_HEADERS,
        .streams_body = streams,
        .body_length = streams ? TCI_HTTP_BODY_CHUNKED : 0,
        .handler = handler,
        .user = x,
    };
    tci_eip_http_fill(h, &request);
    return tci_http_call_start(h->client, &request, ret_call, err);
}

static void fail_with(tci_xfer *x, const tc_err *err)
{
    if (x->state != TCI_XFER_ENDED)
        tci_xfer_fail(x, err);
}

/* ---- reading ---- */

static void read_head(tci_http_call *call, const tci_http_head *head)
{
    tci_xfer *x = tci_http_call_user(call);
    if (tci_eip_http_check_head(conn_of(x), head, 200, TC_STR("application/octet-stream"),
                                &x->http_err) < 0)
        return;
    x->state = TCI_XFER_OPEN;
    tci_xfer_tell(x, &x->is_attached);
}

static void read_body(tci_http_call *call, tc_str bytes)
{
    tci_xfer *x = tci_http_call_user(call);
    if (x->state != TCI_XFER_OPEN || x->http_err.code != TC_OK || bytes.len == 0)
        return;
    if (bytes.len > x->max_bytes - x->moved) {
        tc_err_set(&x->http_err, TC_E_PROTOCOL, "more bytes than the file has");
        return;
    }
    tci_block *b = tci_block_new(0, bytes.len);
    if (b == NULL) {
        tci_err_no_memory(&x->http_err);
        return;
    }
    memcpy(b->payload, bytes.ptr, bytes.len);
    b->len = bytes.len;
    b->xfer = x;
    b->offset = x->moved;
    x->moved += bytes.len;
    x->nends++;
    if (x->nends >= BLOCKS_AHEAD && !x->is_paused) {
        x->is_paused = true;
        tci_http_call_pause(call);
    }
    tci_xfer_deliver(x, b);
}

static void read_done(tci_http_call *call, int result, bool not_sent, const tc_err *err)
{
    TCI_UNUSED(not_sent);
    tci_xfer *x = tci_http_call_user(call);
    x->http = NULL;
    if (result == 0 && x->http_err.code == TC_OK && x->state == TCI_XFER_OPEN) {
        x->state = TCI_XFER_ENDED;
        tci_xfer_tell(x, &x->is_ended);
        return;
    }
    if (x->state != TCI_XFER_RESETTING)
        fail_with(x, x->http_err.code != TC_OK ? &x->http_err : err);
}

static const tci_http_call_handler read_handler = {
    .on_head = read_head,
    .on_body = read_body,
    .on_done = read_done,
};

/* ---- writing ---- */

static void write_head(tci_http_call *call, const tci_http_head *head)
{
    tci_xfer *x = tci_http_call_user(call);
    if (tci_eip_http_check_head(conn_of(x), head, 204, TC_STR("application/octet-stream"),
                                &x->http_err) < 0)
        return;
    if (x->state != TCI_XFER_ENDING)
        tc_err_set(&x->http_err, TC_E_PROTOCOL, "an upload acknowledged before its end");
}

static void recycle(tci_xfer *x, tci_block *b)
{
    tci_xfer_deliver(x, b);
}

static void write_more(tci_xfer *x)
{
    while (x->http != NULL && x->is_writable && x->writing == NULL) {
        tci_link *link = tci_list_pop_front(&x->queue);
        if (link == NULL)
            break;
        tci_block *b = TCI_CONTAINER(link, tci_block, link);
        tci_iovec part = {b->payload, b->len};
        bool is_pending = false;
        tc_err err;
        if (tci_http_call_write(x->http, &part, 1, &is_pending, &err) < 0) {
            tci_free(b); /* the end of the call says why */
            return;
        }
        x->moved += b->len;
        if (is_pending)
            x->writing = b;
        else
            recycle(x, b);
    }
    if (x->is_end_asked && x->http != NULL && x->is_writable && x->writing == NULL &&
        x->state == TCI_XFER_OPEN) {
        x->state = TCI_XFER_ENDING;
        tci_http_call_write_end(x->http);
    }
}

static void write_ready(tci_http_call *call)
{
    tci_xfer *x = tci_http_call_user(call);
    tci_block *b = x->writing;
    x->writing = NULL;
    x->is_writable = true;
    if (b != NULL)
        recycle(x, b);
    if (x->state == TCI_XFER_ATTACHING) {
        x->state = TCI_XFER_OPEN;
        tci_xfer_tell(x, &x->is_attached);
    }
    write_more(x);
}

static void write_body(tci_http_call *call, tc_str bytes)
{
    TCI_UNUSED(call);
    TCI_UNUSED(bytes);
}

static void write_done(tci_http_call *call, int result, bool not_sent, const tc_err *err)
{
    TCI_UNUSED(not_sent);
    tci_xfer *x = tci_http_call_user(call);
    x->http = NULL;
    tci_free(x->writing);
    x->writing = NULL;
    if (result == 0 && x->http_err.code == TC_OK && x->state == TCI_XFER_ENDING) {
        x->state = TCI_XFER_ENDED;
        tci_xfer_tell(x, &x->is_ended);
        return;
    }
    if (x->state == TCI_XFER_RESETTING)
        return;
    tc_err why;
    tc_err_set(&why, TC_E_PROTOCOL, "an upload answered before its end");
    if (result < 0)
        why = *err;
    fail_with(x, x->http_err.code != TC_OK ? &x->http_err : &why);
}

static const tci_http_call_handler write_handler = {
    .on_head = write_head,
    .on_body = write_body,
    .on_writable = write_ready,
    .on_done = write_done,
};

/* ---- the carrier's side of transfers ---- */

void tci_eip_http_xfer_start(tci_xfer *x)
{
    tc_err err;
    x->state = TCI_XFER_ATTACHING;
    if (start_call(x, TC_STR("POST"), !x->is_read, x->is_read ? &read_handler : &write_handler,
                   &x->http, &err) < 0)
        tci_xfer_fail(x, &err);
}

void tci_eip_http_xfer_give(tci_xfer *x, tci_block *b)
{
    if (!x->is_read) {
        tci_list_push_back(&x->queue, &b->link);
        write_more(x);
        return;
    }
    tci_free(b);
    x->nends--;
    if (x->is_paused && x->nends <= BLOCKS_RESUME && x->http != NULL) {
        x->is_paused = false;
        tci_http_call_resume(x->http);
    }
}

void tci_eip_http_xfer_end(tci_xfer *x)
{
    x->is_end_asked = true;
    write_more(x);
}

static void reset_head(tci_http_call *call, const tci_http_head *head)
{
    tci_xfer *x = tci_http_call_user(call);
    if (head->status != 204) /* there was nothing left to reset */
        x->reset_status = TCI_EIPD_STATUS_DENIED;
}

static void reset_done(tci_http_call *call, int result, bool not_sent, const tc_err *err)
{
    TCI_UNUSED(result);
    TCI_UNUSED(not_sent);
    TCI_UNUSED(err);
    tci_xfer *x = tci_http_call_user(call);
    x->http_reset = NULL;
    x->state = TCI_XFER_FAILED;
    tci_xfer_tell(x, &x->is_reset);
}

static const tci_http_call_handler reset_handler = {
    .on_head = reset_head,
    .on_body = write_body,
    .on_done = reset_done,
};

void tci_eip_http_xfer_reset(tci_xfer *x, tci_eipd_status status)
{
    TCI_UNUSED(status); /* HTTP has no word for it */
    if (x->state == TCI_XFER_RESETTING || x->http_reset != NULL)
        return;
    x->state = TCI_XFER_RESETTING;
    if (x->http != NULL)
        tci_http_call_cancel(x->http);
    tc_err err;
    if (start_call(x, TC_STR("DELETE"), false, &reset_handler, &x->http_reset, &err) < 0) {
        x->state = TCI_XFER_FAILED;
        tci_xfer_tell(x, &x->is_reset);
    }
}

void tci_eip_http_xfer_forget(tci_xfer *x)
{
    if (conn_of(x)->client != NULL) {
        if (x->http != NULL)
            tci_http_call_cancel(x->http);
        if (x->http_reset != NULL)
            tci_http_call_cancel(x->http_reset);
    }
    for (tci_link *link; (link = tci_list_pop_front(&x->queue)) != NULL;)
        tci_free(TCI_CONTAINER(link, tci_block, link));
}
