/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server answers when we ask for a WebSocket, and what it sends after that. The first byte is the length of
 * the pieces; "@K" in the rest stands for the one right answer to our key. Whatever comes, the dial ends once, and
 * with a connection only if the right answer was there. */
#include "mem_stream.h"

#include "net/http_client.h"
#include "net/ws_dial.h"
#include "wire/ws.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct dialler {
    tci_http_dialler base;
    mem_stream *stream;
    tci_later later;
    void (*done)(void *arg, tci_stream *stream, const tc_err *err);
    void *arg;
} dialler;

typedef struct peer {
    tci_ws *ws;
    unsigned ndone, nends, nmessages;
    bool was_open;
} peer;

static void on_dialled_stream(tci_later *later)
{
    dialler *d = TCI_CONTAINER(later, dialler, later);
    d->done(d->arg, &d->stream->base, NULL);
}

static int dial(tci_http_dialler *base, tc_str scheme, tc_str host, unsigned port,
                void (*done)(void *arg, tci_stream *stream, const tc_err *err), void *arg,
                tci_http_dial **ret_dial, tc_err *err)
{
    dialler *d = TCI_CONTAINER(base, dialler, base);
    TCI_UNUSED(scheme);
    TCI_UNUSED(host);
    TCI_UNUSED(port);
    if (d->done != NULL)
        return tc_err_set(err, TC_E_CONNECT, "only once");
    d->done = done;
    d->arg = arg;
    tci_loop_later(d->stream->loop, &d->later);
    *ret_dial = (tci_http_dial *)d;
    return 0;
}

static void cancel(tci_http_dialler *base, tci_http_dial *dialled)
{
    TCI_UNUSED(dialled);
    tci_later_cancel(&TCI_CONTAINER(base, dialler, base)->later);
}

static void on_message(tci_ws *ws, tci_ws_kind kind, tc_str bytes, char *own)
{
    peer *p = tci_ws_user(ws);
    if (bytes.len > (kind == TCI_WS_TEXT ? 500 : 5000))
        abort();
    p->nmessages++;
    tci_free(own);
}

static void on_end(tci_ws *ws, const tci_ws_end *end)
{
    peer *p = tci_ws_user(ws);
    if (end->err.code == TC_OK || end->err.msg[0] == '\0' || ++p->nends > 1)
        abort();
    tci_ws_free(ws);
    p->ws = NULL;
}

static const tci_ws_handler ws_handler = {.on_message = on_message, .on_end = on_end};

static void on_dialled(void *user, const tci_ws_dialled *r)
{
    peer *p = user;
    if (++p->ndone > 1 || (r->ws == NULL && r->err.code == TC_OK) ||
        (r->ws != NULL && r->status != 0) || r->status == 101)
        abort();
    p->ws = r->ws;
    p->was_open = r->ws != NULL;
}

/* Our request is out before the answer is made: it has the key. */
static void put_answer(tci_buf *b, tc_str text, tc_str request)
{
    char accept[TCI_WS_ACCEPT_LEN];
    tc_str mark = TC_STR("Sec-WebSocket-Key: ");
    size_t at = tci_str_find(request, mark);
    if (at == request.len || request.len - at < mark.len + TCI_WS_KEY_LEN)
        abort();
    tci_ws_accept_of(request.ptr + at + mark.len, accept);
    for (;;) {
        at = tci_str_find(text, TC_STR("@K"));
        tci_buf_append_str(b, tci_str_sub(text, 0, at));
        if (at == text.len)
            return;
        tci_buf_append(b, accept, sizeof accept);
        text = tci_str_sub(text, at + 2, SIZE_MAX);
    }
}

static bool run(tci_loop *loop, tc_str text, size_t piece)
{
    tc_err err;
    tci_url url;
    mem_stream stream;
    tci_ws_dial *attempt;
    tci_http_client *client;
    tci_buf in;
    peer p = {.ws = NULL};
    dialler d = {.base = {dial, cancel}, .stream = &stream, .later = {.cb = on_dialled_stream}};
    const tci_http_client_options options = {.dialler = &d.base};
    mem_init(&stream, loop, TC_STR(""), piece);
    if (tci_http_client_new(loop, &options, &client, &err) < 0 ||
        tci_url_parse(TC_STR("ws://host.example/eip"), TCI_URL_PATH, &url, &err) < 0)
        abort();
    tci_ws_dial_options o = {
        .url = &url,
        .subprotocol = TC_STR("eip.v1"),
        .ws = {
            .handler = &ws_handler, .user = &p, .max_text_bytes = 500, .max_binary_bytes = 5000}};
    if (tci_ws_dial_open(loop, client, &o, on_dialled, &p, &attempt, &err) < 0)
        abort();
    mem_settle(&stream);
    tci_buf_init(&in, TCI_BUF_MAX);
    put_answer(&in, text, tci_buf_str(&stream.out));
    stream.in = tci_buf_str(&in);
    if (stream.want != 0)
        tci_loop_later(loop, &stream.tell);
    mem_settle(&stream);
    mem_end(&stream);
    tci_ws_free(p.ws);
    tci_http_client_free(client);
    tci_loop_turn(loop, 0);
    if (p.ndone != 1 || !stream.is_closed)
        abort();
    tci_buf_done(&in);
    tci_buf_done(&stream.out);
    return p.was_open;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tci_loop *loop;
    tc_err err;
    if (size == 0 || size > 100000 || (loop == NULL && tci_loop_new(&loop, &err) < 0))
        return 0;
    tc_str text = tci_str_of(data + 1, size - 1);
    bool was_open = run(loop, text, size * 32);
    if (run(loop, text, (size_t)data[0] + 1) != was_open)
        abort();
    if (was_open && tci_str_find(text, TC_STR("@K")) == text.len)
        abort();
    return 0;
}
