/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's side of a WebSocket's beginning: one upgrade request through the HTTP client. Loop thread.
 *
 * Invariant: call is NULL once the HTTP client is done with it; on_done is the last thing that happens. */
#include "net/ws_dial.h"

#include "base/num.h"
#include "plat/clock.h"

enum { FIELDS = 5 };

struct tci_ws_dial {
    tci_loop *loop;
    tci_http_call *call;
    tci_ws_options options;
    char key[TCI_WS_KEY_LEN];
    char *subprotocol;
    tci_ws_on_dialled on_done;
    void *user;
    bool is_cancelled;
    tci_ws_dialled result;
};

static void dial_free(tci_ws_dial *d)
{
    tci_free(d->subprotocol);
    tci_free(d);
}

static void finish(tci_ws_dial *d)
{
    tci_ws_on_dialled on_done = d->on_done;
    void *user = d->user;
    tci_ws_dialled result = d->result;
    dial_free(d);
    on_done(user, &result);
}

static int take(tci_ws_dial *d, tci_http_call *call, tc_err *err)
{
    tci_buf rest;
    tci_stream *stream;
    tci_buf_init(&rest, TCI_BUF_MAX);
    int rc = tci_http_call_take_stream(call, &stream, &rest, err);
    if (rc == 0) {
        d->call = NULL;
        rc = tci_ws_new(d->loop, stream, tci_buf_str(&rest), &d->options, &d->result.ws, err);
    }
    tci_buf_done(&rest);
    return rc;
}

static void on_head(tci_http_call *call, const tci_http_head *head)
{
    tci_ws_dial *d = tci_http_call_user(call);
    tc_err *err = &d->result.err;
    d->result.was_asked = true;
    if (head->status != 101) {
        d->result.status = head->status;
        (void)tc_err_set(err, TC_E_DENIED, "the upgrade was answered with status %u", head->status);
    } else if (!head->is_upgrade) {
        (void)tc_err_set(err, TC_E_PROTOCOL, "the answer does not upgrade to websocket");
    } else if (tci_ws_check_answer(head, d->key, tci_str(d->subprotocol), err) == 0) {
        (void)take(d, call, err); /* err says it */
    }
    if (d->call == NULL)
        finish(d);
    else
        tci_http_call_cancel(call); /* on_done finishes */
}

static void on_body(tci_http_call *call, tc_str bytes)
{
    TCI_UNUSED(call); /* cancelled with its head: nothing comes */
    TCI_UNUSED(bytes);
}

static void on_done(tci_http_call *call, int result, bool not_sent, const tc_err *err)
{
    tci_ws_dial *d = tci_http_call_user(call);
    d->call = NULL;
    d->result.was_asked = !not_sent;
    if (d->is_cancelled) {
        dial_free(d);
        return;
    }
    if (d->result.err.code == TC_OK && result < 0)
        d->result.err = *err;
    else if (d->result.err.code == TC_OK)
        (void)tc_err_set(&d->result.err, TC_E_PROTOCOL, "the upgrade was not answered");
    finish(d);
}

static const tci_http_call_handler handler = {
    .on_head = on_head, .on_body = on_body, .on_done = on_done};

static int start(tci_ws_dial *d, tci_http_client *client, const tci_ws_dial_options *o, tc_err *err)
{
    const tci_http_header own[FIELDS] = {
        {TC_STR("Connection"), TC_STR("Upgrade")},
        {TC_STR("Upgrade"), TC_STR("websocket")},
        {TC_STR("Sec-WebSocket-Version"), TC_STR("13")},
        {TC_STR("Sec-WebSocket-Key"), tci_str_of(d->key, sizeof d->key)},
        {TC_STR("Sec-WebSocket-Protocol"), o->subprotocol}};
    const tci_url *u = o->url;
    tci_buf target;
    tci_http_header *headers = tci_mem_array(FIELDS + o->nheaders, sizeof *headers);
    tci_buf_init(&target, TCI_BUF_MAX);
    tci_buf_append_str(&target, u->path.len > 0 ? u->path : TC_STR("/"));
    if (u->query.len > 0) {
        tci_buf_append_byte(&target, '?');
        tci_buf_append_str(&target, u->query);
    }
    int rc = headers == NULL ? tci_err_no_memory(err) : tci_buf_error(&target, err);
    if (rc == 0) {
        memcpy(headers, own, sizeof own);
        if (o->nheaders > 0)
            memcpy(headers + FIELDS, o->headers, o->nheaders * sizeof *headers);
        tci_http_request r = {.scheme = u->is_tls ? TC_STR("https") : TC_STR("http"),
                              .host = tci_str(u->host),
                              .port = u->port,
                              .method = TC_STR("GET"),
                              .target = tci_buf_str(&target),
                              .headers = headers,
                              .nheaders = FIELDS + o->nheaders,
                              .deadline_ns = o->timeout_ms > 0
                                                 ? tci_add_ns(tci_clock_mono_ns(),
                                                              tci_ms_to_ns((uint64_t)o->timeout_ms))
                                                 : 0,
                              .takes_upgrade = true,
                              .handler = &handler,
                              .user = d};
        rc = tci_http_call_start(client, &r, &d->call, err);
    }
    tci_buf_done(&target);
    tci_free(headers);
    return rc;
}

int tci_ws_dial_open(tci_loop *loop, tci_http_client *client, const tci_ws_dial_options *options,
                     tci_ws_on_dialled on_dialled, void *user, tci_ws_dial **ret_dial, tc_err *err)
{
    uint8_t random[16];
    tci_loop_assert(loop);
    tci_ws_dial *d = tci_new(tci_ws_dial);
    if (d == NULL)
        return tci_err_no_memory(err);
    d->loop = loop;
    d->options = options->ws;
    d->options.role = TCI_WS_CLIENT;
    d->on_done = on_dialled;
    d->user = user;
    d->subprotocol = tci_mem_cstr(options->subprotocol);
    tci_random_bytes(random, sizeof random);
    tci_ws_key(random, d->key);
    int rc = d->subprotocol == NULL ? tci_err_no_memory(err) : start(d, client, options, err);
    if (rc < 0) {
        dial_free(d);
        return rc;
    }
    *ret_dial = d;
    return 0;
}

void tci_ws_dial_cancel(tci_ws_dial *d)
{
    if (d == NULL)
        return;
    d->is_cancelled = true;
    tci_http_call_cancel(d->call);
}
