/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server on one connection. The first byte is the length of the pieces, the rest what a client sends. The
 * handler answers at once, late, in pieces, early, never, or hands the connection on, as the path says. Whole
 * and in pieces it must say the same, every request must end once, and what was answered must be HTTP. */
#include "mem_stream.h"

#include "net/httpd.h"
#include "net/ws.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARTS = 5, BODY_WITHIN_MS = 60000 };

typedef struct app {
    tci_loop *loop;
    tci_httpd *httpd;
    tci_later later;
    tci_httpd_req *held; /* answered, or gone on with, in the next turn */
    unsigned nheads, ndone, left;
    uint64_t nbody;
    tci_ws *ws;
    bool was_taken;
} app;

static app *app_of(tci_httpd_req *req)
{
    return tci_httpd_user(tci_httpd_of(req));
}

static char path_of(tci_httpd_req *req)
{
    tc_str target = tci_httpd_head(req)->target;
    return target.len > 1 ? target.ptr[1] : ' ';
}

static void answer(tci_httpd_req *req, unsigned status)
{
    tc_err err;
    char text[64];
    tci_buf b;
    const tci_http_header type = {TC_STR("Content-Type"), TC_STR("text/plain")};
    tci_buf_init(&b, sizeof text);
    tci_buf_append_u64(&b, app_of(req)->nbody);
    (void)!tci_httpd_respond_own(req, status, &type, 1, &b, &err); /* req is done all the same */
}

static void put_piece(tci_httpd_req *req)
{
    app *a = app_of(req);
    tc_err err;
    bool is_pending = false;
    const tci_iovec parts[] = {{"one ", 4}, {"piece", 5}};
    while (a->left > 0 && !is_pending) {
        a->left--;
        if (tci_httpd_stream_write(req, parts, 2, &is_pending, &err) < 0)
            return;
    }
    if (!is_pending)
        tci_httpd_stream_end(req);
}

static void on_later(tci_later *later)
{
    app *a = TCI_CONTAINER(later, app, later);
    tci_httpd_req *req = a->held;
    a->held = NULL;
    if (req == NULL)
        return;
    if (path_of(req) == 'p')
        tci_httpd_resume(req);
    else
        answer(req, 200);
}

static void hold(tci_httpd_req *req)
{
    app *a = app_of(req);
    a->held = req;
    tci_loop_later(a->loop, &a->later);
}

static void on_message(tci_ws *ws, tci_ws_kind kind, tc_str bytes, char *own)
{
    TCI_UNUSED(ws);
    TCI_UNUSED(kind);
    TCI_UNUSED(bytes);
    tci_free(own);
}

static void on_ws_end(tci_ws *ws, const tci_ws_end *end)
{
    app *a = tci_ws_user(ws);
    TCI_UNUSED(end);
    tci_ws_free(ws);
    a->ws = NULL;
}

static const tci_ws_handler ws_handler = {.on_message = on_message, .on_end = on_ws_end};

static void upgrade(tci_httpd_req *req)
{
    app *a = app_of(req);
    tc_err err;
    tci_ws_options o = {
        .handler = &ws_handler, .user = a, .max_text_bytes = 1000, .max_binary_bytes = 1000};
    if (tci_ws_upgrade(req, a->loop, TC_STR("eip.v1"), &o, &a->ws, &err) < 0)
        return; /* answered */
    a->was_taken = true;
    a->ndone++; /* the request is over, and nobody says so */
}

static void on_head(tci_httpd_req *req)
{
    app *a = app_of(req);
    tc_err err;
    a->nheads++;
    a->nbody = 0;
    if (a->nheads != a->ndone + 1)
        abort();
    switch (path_of(req)) {
    case 'e':
        answer(req, 413);
        break;
    case 'n':
        tci_httpd_abort(req);
        break;
    case 'b':
        tci_httpd_body_within(req, BODY_WITHIN_MS);
        break;
    case 's':
        a->left = PARTS;
        if (tci_httpd_stream_start(req, 200, NULL, 0, TCI_HTTPD_CHUNKED, &err) == 0)
            put_piece(req);
        break;
    case 'w':
        upgrade(req);
        break;
    default:
        break;
    }
}

static void on_body(tci_httpd_req *req, tc_str bytes)
{
    app *a = app_of(req);
    a->nbody += bytes.len;
    if (path_of(req) == 'p') {
        tci_httpd_pause(req);
        hold(req);
    }
}

static void on_end(tci_httpd_req *req)
{
    if (path_of(req) == 'l')
        hold(req);
    else
        answer(req, 200);
}

static void on_done(tci_httpd_req *req, bool is_whole)
{
    app *a = app_of(req);
    TCI_UNUSED(is_whole);
    a->ndone++;
    a->held = NULL;
    tci_later_cancel(&a->later);
}

static const tci_httpd_handler handler = {on_head, on_body, on_end, put_piece, on_done};

/* Without what differs from run to run and from piece to piece: the time, and whether a client that waits for a
 * word before it sends its body got one. */
static void drop_chance(tci_buf *b)
{
    static const char *const froms[] = {"Date: ", "HTTP/1.1 100 Continue\r\n"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(froms); i++) {
        tc_str rest = tci_buf_str(b), from = tci_str(froms[i]);
        tci_buf out;
        tci_buf_init(&out, TCI_BUF_MAX);
        for (;;) {
            size_t at = tci_str_find(rest, from);
            tci_buf_append_str(&out, tci_str_sub(rest, 0, at));
            if (at == rest.len)
                break;
            rest = tci_str_sub(rest, at + from.len, SIZE_MAX);
            rest = tci_str_sub(rest, tci_str_find_byte(rest, '\n') + 1, SIZE_MAX);
        }
        tci_buf_done(b);
        *b = out;
    }
}

/* Every answer is one to a client of ours. 100 Continue among them is fine. */
static void check_answers(tc_str in)
{
    tc_err err;
    tci_http1 *reader;
    if (tci_http1_new(TCI_HTTP1_RESPONSE, &reader, &err) < 0)
        abort();
    while (in.len > 0) {
        size_t used = 0;
        tci_http1_event event;
        tc_str body;
        if (tci_http1_next(reader, in, &used, &event, &body, &err) < 0)
            abort();
        in = tci_str_sub(in, used, SIZE_MAX);
    }
    tci_http1_free(reader);
}

static bool run(tci_loop *loop, tc_str in, size_t piece, tci_buf *ret_out)
{
    tc_err err;
    mem_stream stream;
    app a = {.loop = loop, .later = {.cb = on_later}};
    const tci_httpd_options options = {.handler = &handler, .user = &a, .server = "telechir"};
    mem_init(&stream, loop, in, piece);
    if (tci_httpd_new(loop, &options, &a.httpd, &err) < 0)
        abort();
    tci_httpd_accept_own(a.httpd, &stream.base);
    mem_settle(&stream);
    mem_end(&stream);
    tci_httpd_free(a.httpd);
    tci_ws_free(a.ws);
    if (a.nheads != a.ndone || !stream.is_closed)
        abort();
    tci_loop_turn(loop, 0);
    *ret_out = stream.out;
    return a.was_taken;
}

/* A HEAD's answer has a length without a body, which this reader is not told. */
static bool has_head(tc_str in)
{
    return tci_str_find(in, TC_STR("HEAD")) < in.len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tci_loop *loop;
    tc_err err;
    tci_buf whole, cut;
    if (size == 0 || size > 100000 || (loop == NULL && tci_loop_new(&loop, &err) < 0))
        return 0;
    tc_str in = tci_str_of(data + 1, size - 1);
    bool was_taken = run(loop, in, in.len + 1, &whole);
    if (run(loop, in, (size_t)data[0] + 1, &cut) != was_taken)
        abort();
    drop_chance(&whole);
    drop_chance(&cut);
    if (!was_taken && !has_head(in) && tci_str_find(in, TC_STR("/n")) == in.len) {
        check_answers(tci_buf_str(&whole));
        check_answers(tci_buf_str(&cut));
        if (!tci_str_eq(tci_buf_str(&whole), tci_buf_str(&cut)))
            abort();
    }
    tci_buf_done(&whole);
    tci_buf_done(&cut);
    return 0;
}
