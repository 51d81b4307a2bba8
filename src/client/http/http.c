/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests over HTTP: one POST each. Leaves connecting to http_device.c and transfers to
 * http_xfer.c. Loop thread. Invariant: a refused or lost request concerns itself only; the
 * connection as a whole fails when an answer breaks the protocol, or when we leave. */
#include "client/http/http.h"

enum { LEAVE_MS = 2000, HEADERS = 2 };

/* ---- answers ---- */

static tc_code code_of_status(unsigned status)
{
    switch (status) {
    case 401:
    case 403:
        return TC_E_AUTH;
    case 404:
    case 405:
        return TC_E_INCOMPATIBLE;
    case 408:
        return TC_E_TIMEOUT;
    case 409:
        return TC_E_BAD_HANDLE;
    case 413:
        return TC_E_QUOTA;
    case 429:
        return TC_E_BUSY;
    case 500:
        return TC_E_IO;
    case 502:
    case 503:
    case 504:
        return TC_E_CONNECT;
    default:
        return TC_E_PROTOCOL;
    }
}

static int refuse_status(const tci_eip_http *h, unsigned status, tc_err *err)
{
    tc_code code = code_of_status(status);
    const char *who = h->is_behind_host ? "Host" : "daemon";
    if (code == TC_E_AUTH) {
        tc_err_set(err, code, "the %s refused the credential (status %u)", who, status);
        return tc_err_hint(err, h->is_behind_host
                                    ? "sign in again: telechir host login"
                                    : "check the credential file against the daemon's");
    }
    if (code == TC_E_INCOMPATIBLE)
        return tc_err_set(err, code, "no EIP daemon answers there (status %u)", status);
    return tc_err_set(err, code, "the %s answered with status %u", who, status);
}

int tci_eip_http_check_head(const tci_eip_http *h, const tci_http_head *head, unsigned status,
                            tc_str media_type, tc_err *err)
{
    tc_str value;
    size_t count = 0;
    if (head->status != status)
        return refuse_status(h, head->status, err);
    if (tci_http_head_get(head, TC_STR("Content-Encoding"), &value, &count))
        return tc_err_set(err, TC_E_PROTOCOL, "an answer with a content encoding");
    if (!tci_http_head_get(head, TC_STR("Content-Type"), &value, &count) || count != 1 ||
        !tci_str_eq_nocase(value, media_type))
        return tc_err_set(err, TC_E_PROTOCOL, "an answer that is not %.*s", TC_STR_ARG(media_type));
    return 0;
}

/* Before the request was even looked at: see the order of the daemon's checks. */
static bool is_status_unsent(unsigned status)
{
    return status >= 300 && status < 500;
}

static void on_head(tci_http_call *call, const tci_http_head *head)
{
    tci_pending *p = tci_http_call_user(call);
    if (tci_eip_http_check_head(tci_eip_http_of(p->conn), head, 200, TC_STR("application/json"),
                                &p->http_err) < 0) {
        p->is_refused = true;
        p->refused_unsent = is_status_unsent(head->status);
        p->body.max = head->status != 200 ? TCI_HOST_ERROR_MAX : 0;
        return;
    }
    if (!head->has_length || head->content_length > p->body.max)
        return;
    p->held = tci_held_new((size_t)head->content_length); /* NULL: it goes to the buffer */
}

static void on_body(tci_http_call *call, tc_str bytes)
{
    tci_pending *p = tci_http_call_user(call);
    if (p->held == NULL) {
        tci_buf_append_str(&p->body, bytes);
        return;
    }
    memcpy(p->held->text + p->held_len, bytes.ptr, bytes.len);
    p->held_len += bytes.len;
}

static tci_held *take_answer(tci_pending *p)
{
    tci_held *h = p->held;
    if (h == NULL) {
        h = tci_held_new(p->body.len);
        if (h != NULL && p->body.len > 0)
            memcpy(h->text, p->body.ptr, p->body.len);
    }
    p->held = NULL;
    return h;
}

static void on_done(tci_http_call *call, int result, bool not_sent, const tc_err *err)
{
    tci_pending *p = tci_http_call_user(call);
    tci_conn *c = p->conn;
    tc_err why;
    p->http = NULL;
    p->is_busy = false;
    if (p->unsent != NULL)
        *p->unsent = not_sent;
    if (p->is_orphan) {
        tci_pending_release(p);
        return;
    }
    if (result < 0) {
        tci_conn_end_pending(c, p, err, not_sent);
        return;
    }
    if (p->is_refused) {
        why = p->http_err;
        bool is_unsent = p->refused_unsent;
        (void)tci_eip_http_host_error(tci_eip_http_of(c), tci_buf_str(&p->body), &why,
                                      &is_unsent); /* it says less then */
        tci_conn_end_pending(c, p, &why, is_unsent);
        return;
    }
    if (tci_buf_error(&p->body, &why) < 0) {
        tc_err_wrap(&why, "an answer over the limit");
        tci_conn_end_pending(c, p, &why, false);
        return;
    }
    tci_held *h = take_answer(p);
    if (h != NULL) {
        tci_conn_reply_own(c, h, p);
        return;
    }
    tci_err_no_memory(&why);
    tci_conn_end_pending(c, p, &why, false);
}

static const tci_http_call_handler request_handler = {
    .on_head = on_head,
    .on_body = on_body,
    .on_done = on_done,
};

/* ---- requests ---- */

void tci_eip_http_fill(tci_eip_http *h, tci_http_request *request)
{
    request->scheme = tci_str(tci_url_scheme_name(h->url.scheme));
    request->host = tci_str(h->url.host);
    request->port = h->url.port;
}

static int post_control(tci_eip_http *h, tc_str body, const tci_http_call_handler *handler,
                        void *user, tci_http_call **ret_call, tc_err *err)
{
    tci_http_header headers[HEADERS] = {
        {TC_STR("Authorization"), tci_secret_str(&h->authorization)},
        {TC_STR("Content-Type"), TC_STR("application/json")},
    };
    tci_http_request request = {
        .method = TC_STR("POST"),
        .target = tci_str(h->control),
        .headers = headers,
        .nheaders = HEADERS,
        .body = body,
        .handler = handler,
        .user = user,
    };
    tci_eip_http_fill(h, &request);
    return tci_http_call_start(h->client, &request, ret_call, err);
}

static void http_send(tci_conn *c, tci_pending *p)
{
    tc_err err;
    p->conn = c;
    p->is_busy = true;
    if (post_control(tci_eip_http_of(c), tci_buf_str(&p->request), &request_handler, p, &p->http,
                     &err) == 0)
        return;
    p->is_busy = false;
    tci_conn_end_pending(c, p, &err, true);
}

static bool http_abandon(tci_conn *c, tci_pending *p)
{
    TCI_UNUSED(c);
    bool unsent = false;
    /* A session that is being opened must be known to us, to be closed again. */
    if (p->method == &tci_eip_methods[TCI_EIP_SESSION_OPEN] || p->http == NULL)
        return false;
    p->unsent = &unsent;
    tci_http_call_cancel(p->http);
    return unsent;
}

static bool http_never(const tci_pending *p)
{
    TCI_UNUSED(p); /* only the end of the HTTP call tells */
    return false;
}

/* ---- leaving ---- */

typedef struct farewell {
    tci_eip_http *conn;
    tci_buf body;
} farewell;

static void finish_stop(tci_eip_http *h)
{
    if (!h->is_stopping)
        return;
    h->is_stopping = false;
    tci_timer_stop(&h->stop_timer);
    tci_http_client_free(h->client); /* ends what still runs */
    h->client = NULL;
    tc_runtime *rt = h->base.rt;
    rt->nbusy--;
    tci_conn_stopped(&h->base);
    tci_runtime_check_end(rt);
}

static void on_stop(tci_later *later)
{
    tci_eip_http *h = TCI_CONTAINER(later, tci_eip_http, stop);
    if (h->nclosing == 0)
        finish_stop(h);
}

static void on_stop_timer(tci_timer *t)
{
    tci_eip_http *h = TCI_CONTAINER(t, tci_eip_http, stop_timer);
    finish_stop(h);
}

static void on_farewell_done(tci_http_call *call, int result, bool not_sent, const tc_err *err)
{
    TCI_UNUSED(result);
    TCI_UNUSED(not_sent);
    TCI_UNUSED(err);
    farewell *f = tci_http_call_user(call);
    tci_eip_http *h = f->conn;
    tci_buf_done(&f->body);
    tci_free(f);
    h->nclosing--;
    if (h->is_stopping)
        tci_loop_later(h->base.rt->loop, &h->stop); /* not from inside a callback */
}

static void ignore_head(tci_http_call *call, const tci_http_head *head)
{
    TCI_UNUSED(call);
    TCI_UNUSED(head);
}

static void ignore_body(tci_http_call *call, tc_str bytes)
{
    TCI_UNUSED(call);
    TCI_UNUSED(bytes);
}

static const tci_http_call_handler farewell_handler = {
    .on_head = ignore_head,
    .on_body = ignore_body,
    .on_done = on_farewell_done,
};

static void say_farewell(tci_eip_http *h, tci_sess *s)
{
    tci_eip_session_close_params none = {0};
    const tci_method *m = &tci_eip_methods[TCI_EIP_SESSION_CLOSE];
    farewell *f = tci_new(farewell);
    if (f == NULL)
        return;
    f->conn = h;
    tci_buf_init(&f->body, TCI_BUF_MAX);
    uint64_t id = atomic_fetch_add(&h->base.next_id, 1);
    tci_eip_put_request(&f->body, id, &s->id, m->name, m->params, &none, false);
    tci_http_call *call;
    tc_err err;
    if (tci_buf_ok(&f->body) &&
        post_control(h, tci_buf_str(&f->body), &farewell_handler, f, &call, &err) == 0) {
        h->nclosing++;
        return;
    }
    tci_buf_done(&f->body);
    tci_free(f);
}

static void http_stop(tci_conn *c)
{
    tci_eip_http *h = tci_eip_http_of(c);
    if (h->client == NULL) {
        tci_conn_stopped(c);
        return;
    }
    h->is_stopping = true;
    c->rt->nbusy++;
    /* Nobody closes the carrier for the daemon, so sessions would live on until they expire. */
    TCI_LIST_EACH (&c->sessions, link) {
        tci_sess *s = TCI_CONTAINER(link, tci_sess, link);
        if (s->is_left_open)
            say_farewell(h, s);
    }
    tc_err err;
    tci_timer_init(&h->stop_timer, c->rt->loop, on_stop_timer);
    if (h->nclosing > 0 && tci_timer_start(&h->stop_timer, LEAVE_MS, &err) < 0)
        h->nclosing = 0; /* no timer: do not wait */
    tci_loop_later(c->rt->loop, &h->stop);
}

static void http_free(tci_conn *c)
{
    tci_eip_http *h = tci_eip_http_of(c);
    tci_tls_ctx_free(h->tls);
    tci_secret_done(&h->authorization);
    tci_free(h->control);
    tci_free(h->transfer);
    tci_free(h);
}

const tci_conn_vtable tci_eip_http_vtable = {
    .send = http_send,
    .abandon = http_abandon,
    .is_untouched = http_never,
    .is_unsent = http_never,
    .xfer_start = tci_eip_http_xfer_start,
    .xfer_give = tci_eip_http_xfer_give,
    .xfer_end = tci_eip_http_xfer_end,
    .xfer_reset = tci_eip_http_xfer_reset,
    .xfer_forget = tci_eip_http_xfer_forget,
    .stop = http_stop,
    .free = http_free,
};

/* Both are below the same path. */
static int take_path(tci_eip_http *h, tc_str path, tc_err *err)
{
    tci_buf b;
    const char *slash = tci_str_ends(path, TC_STR("/")) ? "" : "/";
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "%.*s%seip/control", TC_STR_ARG(path), slash);
    h->control = tci_buf_ok(&b) ? tci_mem_cstr(tci_buf_str(&b)) : NULL;
    tci_buf_clear(&b);
    tci_buf_printf(&b, "%.*s%seip/transfer", TC_STR_ARG(path), slash);
    h->transfer = tci_buf_ok(&b) ? tci_mem_cstr(tci_buf_str(&b)) : NULL;
    tci_buf_done(&b);
    return h->control != NULL && h->transfer != NULL ? 0 : tci_err_no_memory(err);
}

int tci_eip_http_new(tc_runtime *rt, const tc_http_options *http, const tc_device_options *options,
                     tci_eip_http **ret_conn, tc_err *err)
{
    tci_eip_http *h = tci_new(tci_eip_http);
    if (h == NULL)
        return tci_err_no_memory(err);
    tci_conn_init(&h->base, &tci_eip_http_vtable, rt);
    tci_conn_set_limits(&h->base, options);
    h->stop.cb = on_stop;
    h->is_behind_host = http->path.len > 1;
    int rc = tci_url_parse(http->endpoint, 0, &h->url, err);
    if (rc == 0)
        rc = take_path(h, http->path, err);
    if (rc < 0) {
        http_free(&h->base);
        return rc;
    }
    *ret_conn = h;
    return 0;
}
