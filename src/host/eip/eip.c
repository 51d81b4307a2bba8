/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of EIP, and control requests: checked as a daemon checks them, sent on with an id of the Host's, answered
 * with the client's. Nothing else of a request or an answer is changed. Leaves content to eip_transfer.c, devices to
 * eip_remote.c. The runtime's loop. Invariant: an exchange lives as long as its request, and an ask of it holds
 * that; what a client sends wrong is its own affair, and never reaches the device. */
#include "host/eip/eip.h"

#include "base/utf8.h"

enum {
    SMALL_BYTES = 8 * 1024,      /* an answer up to this is copied into one piece */
    RESERVE_BYTES = 1024 * 1024, /* of a request, before any of it has come */
    ID_SLACK = 32                /* our id may be longer than the client's */
};

/* ---- answers ---- */

void tci_eip_refuse(tci_eip_exchange *x, unsigned status, const char *code, tc_str message)
{
    tci_host_req *r = x->r;
    if (r->request == NULL || x->is_answered)
        return;
    x->is_answered = true;
    tci_host_answer_error(r, status, code, message);
}

void tci_eip_answer_failure(tci_eip_exchange *x, const tc_err *err, bool is_unsent)
{
    static const struct {
        tc_code code;
        unsigned status;
        const char *name;
    } unsent[] = {{TC_E_BUSY, 429, "busy"},           {TC_E_TOO_BIG, 413, "too_large"},
                  {TC_E_QUOTA, 413, "too_large"},     {TC_E_DENIED, 403, "revoked"},
                  {TC_E_NOT_FOUND, 404, "not_found"}, {TC_E_BAD_HANDLE, 409, "bad_handle"},
                  {TC_E_NOT_READY, 503, "offline"}};
    for (size_t i = 0; is_unsent && i < TCI_ARRAY_LEN(unsent); i++)
        if (unsent[i].code == err->code) {
            tci_eip_refuse(x, unsent[i].status, unsent[i].name, tci_str(err->msg));
            return;
        }
    if (is_unsent)
        tci_eip_refuse(x, 503, "not_delivered", tci_str(err->msg));
    else
        tci_eip_refuse(x, 502, "answer_lost", tci_str(err->msg));
}

enum { NHEADERS = 2 };

static void headers_of(tci_http_header h[NHEADERS], const char *type)
{
    h[0] = (tci_http_header){TC_STR("Cache-Control"), TC_STR("no-store")};
    h[1] = (tci_http_header){TC_STR("Content-Type"), tci_str(type)};
}

static void answer_buf(tci_eip_exchange *x, unsigned status, const char *type, tci_buf *body)
{
    tc_err err;
    tci_http_header h[NHEADERS];
    if (x->r->request == NULL || x->is_answered) {
        tci_buf_done(body);
        return;
    }
    if (!tci_buf_ok(body)) {
        tci_buf_done(body);
        tci_eip_refuse(x, 500, "internal", TC_STR("out of memory"));
        return;
    }
    x->is_answered = true;
    headers_of(h, type);
    if (tci_httpd_respond_own(x->r->request, status, h, NHEADERS, body, &err) < 0)
        return; /* its connection is gone */
}

void tci_eip_answer_empty(tci_eip_exchange *x, unsigned status)
{
    tci_buf none;
    tci_buf_init(&none, 0);
    answer_buf(x, status, "application/octet-stream", &none);
}

void tci_eip_pause(tci_eip_exchange *x)
{
    if (!x->is_paused && x->r->request != NULL)
        tci_httpd_pause(x->r->request);
    x->is_paused = true;
}

void tci_eip_resume(tci_eip_exchange *x)
{
    bool was_paused = x->is_paused;
    x->is_paused = false;
    if (was_paused && x->r->request != NULL && !x->is_answered)
        tci_httpd_resume(x->r->request);
}

/* ---- the answer of the device ---- */

/* In three parts: what is before the id, the client's id, what is after it. */
static void answer_parts(tci_eip_exchange *x, tc_str before, tc_str after)
{
    tc_err err;
    bool is_pending = false;
    tci_http_header h[NHEADERS];
    const tci_iovec parts[] = {
        {before.ptr, before.len}, {x->id.ptr, x->id.len}, {after.ptr, after.len}};
    size_t total = before.len + x->id.len + after.len;
    if (total <= SMALL_BYTES) {
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        (void)tci_buf_reserve(&b, total); /* as one block */
        tci_buf_append_str(&b, before);
        tci_buf_append_str(&b, x->id);
        tci_buf_append_str(&b, after);
        answer_buf(x, 200, "application/json", &b);
        return;
    }
    headers_of(h, "application/json");
    x->is_answered = true;
    tci_httpd_req *request = x->r->request;
    if (tci_httpd_stream_start(request, 200, h, NHEADERS, total, &err) < 0 ||
        tci_httpd_stream_write(request, parts, TCI_ARRAY_LEN(parts), &is_pending, &err) < 0)
        return;                    /* the client is gone */
    tci_httpd_stream_end(request); /* goes out with what is pending */
}

static void answer_text(tci_eip_exchange *x, tc_str text, tc_str id)
{
    size_t at = (size_t)(id.ptr - text.ptr);
    if (x->r->request != NULL)
        answer_parts(x, tci_str_sub(text, 0, at), tci_str_sub(text, at + id.len, SIZE_MAX));
}

static void on_answer(tci_relay_ask *a)
{
    tci_eip_exchange *x = a->user;
    tci_host_req *r = x->r;
    x->is_asking = false;
    x->held = a->held;
    if (a->held != NULL)
        answer_text(x, tci_str_of(a->held->text, a->held->len), a->id_text);
    else
        tci_eip_answer_failure(x, &a->err, a->is_unsent);
    if (r->request == NULL) {
        tci_held_free(x->held);
        x->held = NULL;
    }
    tci_host_release(r);
}

/* ---- requests ---- */

static void unreserve(tci_eip_exchange *x)
{
    x->r->host->eip->nbody_bytes -= x->nreserved;
    x->nreserved = 0;
}

/* The whole of what is being read is bounded, not only each of it. */
static bool reserve(tci_eip_exchange *x, size_t bytes)
{
    tci_host_eip *e = x->r->host->eip;
    if (bytes <= x->nreserved)
        return true;
    if (bytes - x->nreserved > TCI_EIP_BODIES_MAX - e->nbody_bytes)
        return false;
    e->nbody_bytes += bytes - x->nreserved;
    x->nreserved = bytes;
    return true;
}

static void refuse_busy(tci_eip_exchange *x)
{
    tci_eip_refuse(x, 429, "busy", TC_STR("too much is going on; try again later"));
}

static void open_control(tci_eip_exchange *x)
{
    tci_host_req *r = x->r;
    const tci_http_head *head = tci_httpd_head(r->request);
    uint64_t max = x->remote->max_request_bytes;
    if (head->has_length && head->content_length > max) {
        tci_eip_refuse(x, 413, "too_large", TC_STR("the request is over the device's limit"));
        return;
    }
    tci_buf_done(&r->body);
    tci_buf_init(&r->body, (size_t)max + ID_SLACK);
    if (head->has_length)
        (void)tci_buf_reserve(&r->body, (size_t)tci_min_u64(head->content_length, RESERVE_BYTES) +
                                            ID_SLACK); /* it grows all the same */
}

static void control_body(tci_eip_exchange *x, tc_str bytes)
{
    tci_host_req *r = x->r;
    if (!reserve(x, r->body.len + bytes.len)) {
        refuse_busy(x);
        return;
    }
    tci_buf_append_str(&r->body, bytes);
    if (r->body.failed == TC_E_TOO_BIG || r->body.len > x->remote->max_request_bytes)
        tci_eip_refuse(x, 413, "too_large", TC_STR("the request is over the device's limit"));
    else if (!tci_buf_ok(&r->body))
        tci_eip_refuse(x, 500, "internal", TC_STR("out of memory"));
}

/* A link is initialized once, when it begins; what the device said then is what it says. (An external one is asked:
 * over HTTP it may be asked again, and behind the same address there may be another generation by now.) */
static void answer_initialize(tci_eip_exchange *x, const tci_eip_text *t)
{
    tc_err err;
    tci_buf b;
    tci_eip_cause cause;
    const tc_device *d = x->remote->relay.device;
    if (tci_eip_text_check_initialize(t, d->info.device_id, &x->r->arena, &cause, &err) == 0) {
        answer_text(x, d->initialized, d->initialized_id);
        return;
    }
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_eip_text_put_error(&b, t, cause);
    answer_buf(x, 200, "application/json", &b);
}

static void send_on(tci_eip_exchange *x, const tci_eip_text *t)
{
    tc_err err;
    tci_host_req *r = x->r;
    x->ask = (tci_relay_ask){.method = t->method,
                             .has_session = t->request.has_session,
                             .session = t->request.session,
                             .request = r->body,
                             .id_at = t->id_at,
                             .id_len = t->id_len,
                             .done = on_answer,
                             .user = x};
    tci_buf_init(&r->body, 0);
    if (tci_relay_ask_start(&x->remote->relay, &x->ask, &err) < 0) {
        tci_eip_answer_failure(x, &err, true);
        return;
    }
    x->is_asking = true;
    tci_host_hold(r);
}

/* The device may have gone, and come back, while the request was read. */
static bool is_there(tci_eip_exchange *x, const tci_eip_text *t)
{
    tc_err err;
    tci_eip_remote *m = x->remote;
    bool is_known = t->request.has_session && tci_relay_find(&m->relay, t->request.session) != NULL;
    int rc = tci_eip_remote_want(m, x, &err);
    if (rc == 0 && t->method == &tci_eip_methods[TCI_EIP_INITIALIZE] && !x->is_verified) {
        x->is_verified = true; /* who begins must not begin with one that was started again */
        rc = tci_eip_remote_verify(m, x, &err);
    }
    if (rc == TC_E_NOT_READY && is_known && tci_eip_remote_is_expected(m))
        rc = tci_eip_remote_wait(m, x, &err);
    if (rc < 0)
        tci_eip_answer_failure(x, &err, true);
    return rc == 0;
}

static void control_end(tci_eip_exchange *x)
{
    tc_err err;
    tci_buf b;
    tci_eip_text t;
    tci_host_req *r = x->r;
    tc_str text = tci_buf_str(&r->body);
    unreserve(x);
    if (!tci_utf8_is_valid(text)) {
        tci_eip_refuse(x, 400, "invalid_request", TC_STR("the request is not UTF-8"));
        return;
    }
    int rc = tci_eip_text_read(text, &r->arena, &t, &err);
    if (rc < 0 && rc != TC_E_PARSE && rc != TC_E_INVALID) {
        tci_eip_refuse(x, 500, "internal", TC_STR("out of memory"));
        return;
    }
    if (rc < 0) {
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_eip_text_put_refusal(&b, &t, rc);
        answer_buf(x, 200, "application/json", &b);
        return;
    }
    if (!is_there(x, &t))
        return;
    if (tci_arena_dup(&r->arena, tci_str_sub(text, t.id_at, t.id_len), &x->id, &err) < 0)
        tci_eip_refuse(x, 500, "internal", TC_STR("out of memory"));
    else if (t.method == &tci_eip_methods[TCI_EIP_INITIALIZE] &&
             x->remote->row.kind == TCI_HOST_LINKED)
        answer_initialize(x, &t);
    else
        send_on(x, &t);
}

/* ---- the device ---- */

static void opened(tci_eip_exchange *x)
{
    x->is_open = true;
    if (x->kind == TCI_EIP_CONTROL)
        open_control(x);
    if (x->kind == TCI_EIP_WRITE && !x->is_answered)
        tci_eip_upload_start(x); /* goes on when the device is ready for it */
    else
        tci_eip_resume(x);
}

static void want_device(tci_eip_exchange *x)
{
    tc_err err;
    int rc = tci_eip_remote_want(x->remote, x, &err);
    if (rc == TC_E_NOT_READY && x->kind == TCI_EIP_CONTROL && tci_eip_remote_is_expected(x->remote))
        rc = 0; /* which session it is for says whether it is worth waiting */
    if (rc < 0)
        tci_eip_answer_failure(x, &err, true);
    else if (rc > 0)
        tci_eip_pause(x);
    else
        opened(x);
}

void tci_eip_exchange_go_on(tci_eip_exchange *x)
{
    tci_host_req *r = x->r;
    tci_host_hold(r);
    if (x->is_whole)
        control_end(x);
    else
        want_device(x);
    tci_host_release(r);
}

void tci_eip_exchange_give_up(tci_eip_exchange *x, const tc_err *err)
{
    tci_eip_answer_failure(x, err, true);
}

/* ---- who asks, and for what ---- */

static void found(tci_eip_exchange *x, tci_eip_remote *m)
{
    x->remote = m;
    if (m == NULL)
        tci_eip_refuse(x, 500, "internal", TC_STR("out of memory"));
    else
        want_device(x);
}

static void on_resolve(tci_host_op *op)
{
    tci_host_req *r = TCI_CONTAINER(op, tci_host_req, op);
    tci_host_db *db = r->host->db;
    r->rc = tci_host_signed_in(db, tci_host_now_ms(), r->token, TCI_SIGN_IN_TERMINAL, &r->err);
    if (r->rc == 0)
        r->rc = tci_host_device_get(db, tci_host_now_ms(), r->id, &r->arena, &r->device, &r->err);
}

static void on_resolved(tci_host_op *op)
{
    tci_host_req *r = TCI_CONTAINER(op, tci_host_req, op);
    tci_eip_exchange *x = r->exchange;
    if (r->request == NULL)
        x->is_answered = true;
    else if (r->rc < 0) {
        x->is_answered = true;
        tci_host_answer_refusal(r);
    } else if (r->device.state == TCI_HOST_REVOKED)
        tci_eip_refuse(x, 403, "revoked", TC_STR("this device's connection was revoked"));
    else if (r->device.state == TCI_HOST_PENDING)
        tci_eip_refuse(x, 403, "not_approved", TC_STR("this device waits for approval"));
    else
        found(x, tci_eip_remote_of(r));
    tci_host_release(r);
}

/* false: refused. */
static bool check_token(tci_eip_exchange *x)
{
    tc_err err;
    tc_str value, scheme = TC_STR("Bearer ");
    tci_host_req *r = x->r;
    if (tci_host_authorization(r, &value) && tci_str_starts(value, scheme) &&
        tci_is_hex(tci_str_sub(value, scheme.len, SIZE_MAX), TCI_TOKEN_LEN) &&
        tci_arena_dup(&r->arena, tci_str_sub(value, scheme.len, SIZE_MAX), &r->token, &err) == 0)
        return true;
    tci_eip_refuse(x, 401, "unauthenticated", TC_STR("not signed in"));
    return false;
}

static bool has(const tci_http_head *head, const char *name)
{
    tc_str value;
    return tci_http_head_get(head, tci_str(name), &value, NULL);
}

static bool is_of_type(const tci_http_head *head, const char *want)
{
    tc_str type = {0};
    (void)tci_http_head_get(head, TC_STR("content-type"), &type, NULL); /* absent: the empty one */
    return tci_str_eq_nocase(type, tci_str(want));
}

/* In the order of a daemon's checks. false: refused. */
static bool check_head(tci_eip_exchange *x, const tci_http_head *head)
{
    bool is_control = x->kind == TCI_EIP_CONTROL;
    if (tci_str_find_byte(head->target, '?') < head->target.len) {
        tci_eip_refuse(x, 400, "invalid_request", TC_STR("a query is not taken here"));
        return false;
    }
    if (!check_token(x))
        return false;
    if (has(head, "cookie") || has(head, "content-encoding")) {
        tci_eip_refuse(x, 400, "invalid_request",
                       TC_STR("cookies and content encodings are not taken here"));
        return false;
    }
    if (!is_of_type(head, is_control ? "application/json" : "application/octet-stream") ||
        (is_control && (has(head, "eip-transfer-handle") || has(head, "eip-transfer-direction")))) {
        tci_eip_refuse(x, 415, "unsupported_media_type", TC_STR("not with this content type"));
        return false;
    }
    if (is_control && has(head, "eip-session")) {
        tci_eip_refuse(x, 400, "invalid_request", TC_STR("the session is named in the request"));
        return false;
    }
    return is_control || tci_eip_transfer_head(x, head);
}

static tci_eip_kind kind_of(const tci_route *route, const tci_http_head *head)
{
    if (!tci_str_ends(tci_str(route->path), TC_STR("transfer")))
        return TCI_EIP_CONTROL;
    return tci_str_eq(head->method, TC_STR("DELETE")) ? TCI_EIP_RESET : TCI_EIP_READ;
}

static bool count_in(tci_eip_exchange *x)
{
    tci_host *h = x->r->host;
    if (h->eip->is_ending || h->eip->nexchanges >= TCI_EIP_EXCHANGES_MAX ||
        h->nwaiting >= TCI_HOST_WAITING_MAX)
        return false;
    h->eip->nexchanges++;
    x->is_counted = true;
    return true;
}

void tci_host_eip_head(tci_host_req *r)
{
    const tci_http_head *head = tci_httpd_head(r->request);
    tci_eip_exchange *x = tci_arena_new(&r->arena, tci_eip_exchange);
    if (x == NULL) {
        tci_host_answer_error(r, 500, "internal", TC_STR("out of memory"));
        return;
    }
    r->exchange = x;
    x->r = r;
    x->kind = kind_of(r->route, head);
    if (!check_head(x, head))
        return;
    if (!count_in(x)) {
        refuse_busy(x);
        return;
    }
    tci_eip_remote *known = tci_eip_remote_known(r);
    if (known != NULL) {
        found(x, known);
        return;
    }
    tci_eip_pause(x);
    tci_host_hold(r);
    r->op = (tci_host_op){.work = on_resolve, .done = on_resolved};
    tci_host_do(r->host, &r->op);
}

/* ---- HTTP ---- */

void tci_host_eip_body(tci_host_req *r, tc_str bytes)
{
    tci_eip_exchange *x = r->exchange;
    if (x == NULL || x->is_answered)
        return;
    if (x->kind == TCI_EIP_CONTROL)
        control_body(x, bytes);
    else if (x->kind == TCI_EIP_WRITE)
        tci_eip_upload_body(x, bytes);
    else
        x->has_body = true;
}

void tci_host_eip_end_of_body(tci_host_req *r)
{
    tci_eip_exchange *x = r->exchange;
    if (x == NULL || x->is_answered)
        return;
    x->is_whole = true;
    if (x->kind == TCI_EIP_WRITE)
        tci_eip_upload_end(x);
    else if (x->kind == TCI_EIP_CONTROL)
        control_end(x);
    else if (x->has_body)
        tci_eip_refuse(x, 400, "invalid_request", TC_STR("a body is not taken here"));
    else if (x->kind == TCI_EIP_READ)
        tci_eip_download_start(x);
    else
        tci_eip_reset_start(x);
}

void tci_host_eip_writable(tci_host_req *r)
{
    tci_eip_exchange *x = r->exchange;
    if (x != NULL && x->kind != TCI_EIP_CONTROL)
        tci_eip_transfer_writable(x);
}

void tci_host_eip_gone(tci_host_req *r)
{
    tci_eip_exchange *x = r->exchange;
    if (x == NULL)
        return;
    unreserve(x);
    tci_link_remove(&x->wait_link);
    if (x->is_counted)
        r->host->eip->nexchanges--;
    x->is_counted = false;
    if (x->is_asking)
        tci_relay_ask_leave(&x->ask);
    if (x->kind != TCI_EIP_CONTROL)
        tci_eip_transfer_gone(x);
    if (!x->is_asking) {
        tci_held_free(x->held);
        x->held = NULL;
    }
}
