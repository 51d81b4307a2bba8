/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP client's calls and its pool: which call runs on which connection, when it is given up,
 * and what its request head says. Bytes are http_conn.c's, making streams the dialler's. Loop
 * thread. Invariant: every call is in exactly one state of tci_http_call_state, and on_done comes
 * once, from tci_http_call_finish. */
#include "net/http_client_int.h"
#include "base/num.h"

enum { IDLE_DEFAULT = 4, CONNECTIONS_DEFAULT = 64, IDLE_MS_DEFAULT = 30000 };

/* ---- calls ---- */

void tci_http_call_finish(tci_http_call *call, int result, const tc_err *err)
{
    TC_ASSERT(call->conn == NULL);
    tci_timer_stop(&call->deadline);
    tci_later_cancel(&call->later);
    tci_link_remove(&call->wait_link);
    tci_link_remove(&call->link);
    if (call->dial != NULL) {
        call->client->options.dialler->cancel(call->client->options.dialler, call->dial);
        call->dial = NULL;
        call->origin->nconns--;
    }
    if (call->handler != NULL)
        call->handler->on_done(call, result, !call->was_sent, err);
    tci_buf_done(&call->head);
    tci_free(call);
}

/* Ended from outside: its connection, in use as it is, goes with it. */
static void end_call(tci_http_call *call, const tc_err *err)
{
    tci_http_conn *c = call->conn;
    tci_http_origin *origin = call->origin;
    if (c == NULL) {
        tci_http_call_finish(call, err->code, err);
        tci_http_origin_serve(origin);
        return;
    }
    tci_http_conn_enter(c);
    tci_http_conn_kill(c);
    c->call = NULL;
    call->conn = NULL;
    tci_http_call_finish(call, err->code, err);
    tci_http_origin_serve(origin);
    tci_http_conn_leave(c);
}

void tci_http_call_cancel(tci_http_call *call)
{
    tc_err err;
    tc_err_set(&err, TC_E_CANCELLED, "the HTTP request was cancelled");
    end_call(call, &err);
}

static void on_deadline(tci_timer *timer)
{
    tci_http_call *call = TCI_CONTAINER(timer, tci_http_call, deadline);
    tc_err err;
    tc_err_set(&err, TC_E_TIMEOUT, "no complete answer from '%s' in time", call->origin->host);
    end_call(call, &err);
}

static void on_dialled(void *arg, tci_stream *stream, const tc_err *dial_err)
{
    tci_http_call *call = arg;
    tci_http_origin *origin = call->origin;
    tci_http_conn *c = NULL;
    tc_err err;
    call->dial = NULL;
    int rc = 0;
    if (stream == NULL) {
        err = *dial_err;
        rc = err.code;
    } else
        rc = tci_http_conn_new(origin, stream, &c, &err);
    if (rc < 0) {
        origin->nconns--;
        tci_http_call_finish(call, rc, &err);
        tci_http_origin_serve(origin);
        return;
    }
    tci_http_conn_run(c, call);
}

/* Give the call a connection, or a place in the queue for one. */
static void place(tci_http_call *call)
{
    tci_http_origin *origin = call->origin;
    const tci_http_client_options *o = &call->client->options;
    tci_link *k = origin->idle.head.prev; /* the one used last is the likeliest to live */
    tc_err err;
    if (k != &origin->idle.head) {
        tci_http_conn_run(TCI_CONTAINER(k, tci_http_conn, idle_link), call);
        return;
    }
    if (origin->nconns >= o->max_connections) {
        call->state = TCI_HTTP_CALL_WAITING;
        tci_list_push_back(&origin->waiting, &call->wait_link);
        return;
    }
    call->state = TCI_HTTP_CALL_DIALLING;
    origin->nconns++;
    if (o->dialler->dial(o->dialler, tci_str(origin->scheme), tci_str(origin->host), origin->port,
                         on_dialled, call, &call->dial, &err) < 0) {
        origin->nconns--;
        call->dial = NULL;
        tci_http_call_finish(call, err.code, &err);
        tci_http_origin_serve(origin);
    }
}

static void on_later(tci_later *later)
{
    place(TCI_CONTAINER(later, tci_http_call, later));
}

void tci_http_call_again(tci_http_call *call)
{
    call->state = TCI_HTTP_CALL_NEW;
    call->may_write = call->is_pending = call->owes_last_chunk = false;
    tci_loop_later(call->client->loop, &call->later);
}

void tci_http_origin_serve(tci_http_origin *origin)
{
    size_t max = origin->client->options.max_connections;
    size_t nfree = origin->nidle + (max > origin->nconns ? max - origin->nconns : 0);
    /* A call whose place was taken before its turn queues again. */
    for (; nfree > 0 && !tci_list_is_empty(&origin->waiting); nfree--) {
        tci_link *k = tci_list_pop_front(&origin->waiting);
        tci_http_call_again(TCI_CONTAINER(k, tci_http_call, wait_link));
    }
}

/* ---- the request ---- */

static int put_host(tci_buf *b, const tci_http_request *r, tc_err *err)
{
    char port[16];
    size_t nport = 0;
    bool is_v6 = tci_str_find_byte(r->host, ':') < r->host.len;
    unsigned usual = tci_str_eq(r->scheme, TC_STR("https")) ? 443 : 80;
    if (r->host.len == 0 || !tci_http1_target_is_valid(r->host))
        return tc_err_set(err, TC_E_INVALID, "no HTTP host");
    for (unsigned v = r->port; v > 0; v /= 10)
        port[sizeof port - ++nport] = (char)('0' + v % 10);
    tci_buf_append_str(b, TC_STR("Host: "));
    tci_buf_append_str(b, is_v6 ? TC_STR("[") : TC_STR(""));
    tci_buf_append_str(b, r->host);
    tci_buf_append_str(b, is_v6 ? TC_STR("]") : TC_STR(""));
    if (r->port != usual) {
        tci_buf_append_byte(b, ':');
        tci_buf_append(b, port + sizeof port - nport, nport);
    }
    tci_buf_append_str(b, TC_STR("\r\n"));
    return 0;
}

static bool is_ours(const tci_http_request *r, tc_str name)
{
    if (tci_str_eq_nocase(name, TC_STR("connection")))
        return !r->takes_upgrade;
    return tci_str_eq_nocase(name, TC_STR("host")) ||
           tci_str_eq_nocase(name, TC_STR("content-length")) ||
           tci_str_eq_nocase(name, TC_STR("transfer-encoding"));
}

static void put_framing(tci_buf *b, const tci_http_request *r)
{
    uint64_t length = r->streams_body ? r->body_length : r->body.len;
    bool expects_body = tci_str_eq(r->method, TC_STR("POST")) ||
                        tci_str_eq(r->method, TC_STR("PUT")) ||
                        tci_str_eq(r->method, TC_STR("PATCH"));
    if (r->streams_body && length == TCI_HTTP_BODY_CHUNKED)
        tci_buf_append_str(b, TC_STR("Transfer-Encoding: chunked\r\n"));
    else if (r->streams_body || length > 0 || expects_body) {
        tci_buf_append_str(b, TC_STR("Content-Length: "));
        tci_buf_append_u64(b, length);
        tci_buf_append_str(b, TC_STR("\r\n"));
    }
}

static int put_head(tci_buf *b, const tci_http_request *r, tc_err *err)
{
    bool is_http = tci_str_eq(r->scheme, TC_STR("http")) || tci_str_eq(r->scheme, TC_STR("https"));
    if (!is_http || r->port == 0 || r->port > 65535)
        return tc_err_set(err, TC_E_INVALID, "not an address of HTTP");
    if (!tci_http1_is_token(r->method) || !tci_http1_target_is_valid(r->target))
        return tc_err_set(err, TC_E_INVALID, "HTTP method or target cannot be sent");
    tci_http1_put_request(b, r->method, r->target);
    int rc = put_host(b, r, err);
    for (size_t i = 0; i < r->nheaders && rc == 0; i++) {
        if (is_ours(r, r->headers[i].name))
            return tc_err_set(err, TC_E_INVALID, "HTTP header '%.*s' is the client's own",
                              TC_STR_ARG(r->headers[i].name));
        rc = tci_http1_put_header(b, r->headers[i].name, r->headers[i].value, err);
    }
    if (rc < 0)
        return rc;
    put_framing(b, r);
    tci_http1_put_end(b);
    return tci_buf_error(b, err);
}

/* ---- origins ---- */

static void origin_free(tci_http_origin *origin)
{
    tci_mem_free(origin->scheme);
    tci_mem_free(origin->host);
    tci_free(origin);
}

static int find_origin(tci_http_client *client, const tci_http_request *r,
                       tci_http_origin **ret_origin, tc_err *err)
{
    TCI_LIST_EACH (&client->origins, k) {
        tci_http_origin *o = TCI_CONTAINER(k, tci_http_origin, link);
        if (o->port == r->port && tci_str_eq(tci_str(o->scheme), r->scheme) &&
            tci_str_eq_nocase(tci_str(o->host), r->host)) {
            *ret_origin = o;
            return 0;
        }
    }
    tci_http_origin *o = tci_new(tci_http_origin);
    if (o == NULL)
        return tci_err_no_memory(err);
    o->client = client;
    o->port = r->port;
    o->scheme = tci_mem_cstr(r->scheme);
    o->host = tci_mem_cstr(r->host);
    tci_list_init(&o->idle);
    tci_list_init(&o->waiting);
    if (o->scheme == NULL || o->host == NULL) {
        origin_free(o);
        return tci_err_no_memory(err);
    }
    tci_list_push_back(&client->origins, &o->link);
    *ret_origin = o;
    return 0;
}

/* ---- starting ---- */

static void fill_call(tci_http_call *call, tci_http_client *client, const tci_http_request *r)
{
    call->client = client;
    call->handler = r->handler;
    call->user = r->user;
    call->body = r->streams_body ? tci_str_of(NULL, 0) : r->body;
    call->streams_body = r->streams_body;
    call->is_ended = !r->streams_body;
    call->is_chunked = r->streams_body && r->body_length == TCI_HTTP_BODY_CHUNKED;
    call->left = r->body_length;
    call->takes_upgrade = r->takes_upgrade;
    call->reader_flags = r->takes_upgrade ? TCI_HTTP1_UPGRADE : 0;
    if (tci_str_eq(r->method, TC_STR("HEAD")))
        call->reader_flags |= TCI_HTTP1_NO_BODY;
    if (tci_str_eq(r->method, TC_STR("CONNECT")))
        call->reader_flags |= TCI_HTTP1_TO_CONNECT;
    call->later.cb = on_later;
    tci_timer_init(&call->deadline, client->loop, on_deadline);
}

int tci_http_call_start(tci_http_client *client, const tci_http_request *request,
                        tci_http_call **ret_call, tc_err *err)
{
    tci_loop_assert(client->loop);
    if (client->is_closing)
        return tc_err_set(err, TC_E_CLOSED, "the HTTP client is being closed");
    tci_http_call *call = tci_new(tci_http_call);
    if (call == NULL)
        return tci_err_no_memory(err);
    tci_buf_init(&call->head, TCI_HTTP1_HEAD_MAX);
    fill_call(call, client, request);
    int rc = put_head(&call->head, request, err);
    if (rc == 0)
        rc = find_origin(client, request, &call->origin, err);
    if (rc == 0 && request->deadline_ns != 0)
        rc = tci_timer_start_at(&call->deadline, request->deadline_ns, err);
    if (rc < 0) {
        tci_buf_done(&call->head);
        tci_free(call);
        return rc;
    }
    tci_list_push_back(&client->calls, &call->link);
    tci_loop_later(client->loop, &call->later);
    *ret_call = call;
    return 0;
}

void *tci_http_call_user(const tci_http_call *call)
{
    return call->user;
}

/* ---- the client ---- */

int tci_http_client_new(tci_loop *loop, const tci_http_client_options *options,
                        tci_http_client **ret_client, tc_err *err)
{
    tci_loop_assert(loop);
    tci_http_client *client = tci_new(tci_http_client);
    if (client == NULL)
        return tci_err_no_memory(err);
    client->loop = loop;
    client->options = *options;
    tci_http_client_options *o = &client->options;
    o->max_idle = o->max_idle > 0 ? o->max_idle : IDLE_DEFAULT;
    o->max_connections = o->max_connections > 0 ? o->max_connections : CONNECTIONS_DEFAULT;
    o->idle_timeout_ms = o->idle_timeout_ms > 0 ? o->idle_timeout_ms : IDLE_MS_DEFAULT;
    tci_list_init(&client->origins);
    tci_list_init(&client->calls);
    tci_list_init(&client->conns);
    *ret_client = client;
    return 0;
}

static void kill_conn(tci_http_conn *c)
{
    tci_http_conn_enter(c);
    tci_http_conn_kill(c);
    tci_http_conn_leave(c);
}

void tci_http_client_drop_idle(tci_http_client *client)
{
    TCI_LIST_EACH (&client->conns, k) {
        tci_http_conn *c = TCI_CONTAINER(k, tci_http_conn, link);
        if (c->call == NULL)
            kill_conn(c);
    }
}

void tci_http_client_free(tci_http_client *client)
{
    if (client == NULL)
        return;
    client->is_closing = true;
    for (tci_link *k = tci_list_first(&client->calls); k != NULL;
         k = tci_list_first(&client->calls))
        tci_http_call_cancel(TCI_CONTAINER(k, tci_http_call, link));
    for (tci_link *k = tci_list_first(&client->conns); k != NULL;
         k = tci_list_first(&client->conns))
        kill_conn(TCI_CONTAINER(k, tci_http_conn, link));
    for (tci_link *k = tci_list_pop_front(&client->origins); k != NULL;
         k = tci_list_pop_front(&client->origins))
        origin_free(TCI_CONTAINER(k, tci_http_origin, link));
    tci_free(client);
}
