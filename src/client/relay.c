/* SPDX-License-Identifier: Apache-2.0
 *
 * Passing on requests, and knowing the sessions they were for. Leaves content to relay_xfer.c, and what is in
 * flight to conn.c. Loop thread. Invariant: everything of a link (its sessions there, its calls, its transfers) is
 * let go of before the reference to its device is. */
#include "client/relay.h"

#include <stdio.h>

/* ---- sessions ---- */

static int64_t now_ms(const tci_relay *r)
{
    return tci_loop_now_ms(r->rt->loop);
}

tci_relay_sess *tci_relay_find(tci_relay *r, tc_str session)
{
    TCI_LIST_EACH (&r->sessions, k) {
        tci_relay_sess *s = TCI_CONTAINER(k, tci_relay_sess, link);
        if (tci_str_eq(s->id, session))
            return s;
    }
    return NULL;
}

static void sess_unlink(tci_relay_sess *s)
{
    if (s->sess == NULL)
        return;
    tci_sess_remove(s->sess);
    tci_sess_free(s->sess);
    s->sess = NULL;
}

/* Nobody uses it any more. */
static void sess_free(tci_relay_sess *s)
{
    if (s->is_over)
        s->relay->nover--;
    else
        s->relay->nsessions--;
    tci_link_remove(&s->link);
    sess_unlink(s);
    tci_free(s->id_text);
    tci_free(s);
}

/* The link's half of it. */
static bool sess_link(tci_relay_sess *s)
{
    const tc_device *d = s->relay->device;
    if (s->sess != NULL)
        return true;
    s->sess = tci_sess_new(d->conn, s->id, d->info.limits.max_concurrent_operations, 0);
    if (s->sess == NULL)
        return false;
    s->sess->is_relayed = true;
    tci_sess_add(s->sess);
    return true;
}

static tci_relay_sess *sess_new(tci_relay *r, tc_str id)
{
    tci_relay_sess *s = tci_new(tci_relay_sess);
    char *text = tci_mem_cstr(id);
    if (s == NULL || text == NULL) {
        tci_free(s);
        tci_free(text);
        return NULL;
    }
    s->relay = r;
    s->id_text = text;
    s->id = tci_str_of(text, id.len);
    s->used_ms = now_ms(r);
    tci_list_init(&s->waiting);
    tci_list_push_back(&r->sessions, &s->link);
    r->nsessions++;
    return s;
}

/* Those that nobody has used for longest go, when there are too many. */
static void forget_oldest(tci_relay *r)
{
    TCI_LIST_EACH (&r->sessions, k) {
        if (r->nsessions <= TCI_RELAY_SESSIONS_MAX)
            return;
        tci_relay_sess *s = TCI_CONTAINER(k, tci_relay_sess, link);
        if (s->nuses == 0)
            sess_free(s);
    }
}

/* It has ended. What is still on its way for it must find something that drops it. */
static void sess_over(tci_relay_sess *s)
{
    tci_relay *r = s->relay;
    tc_err err;
    if (s->is_over)
        return;
    s->is_over = true;
    s->is_known = false;
    tci_link_remove(&s->link);
    r->nsessions--;
    tci_list_push_back(&r->over, &s->link);
    r->nover++;
    if (s->sess != NULL) {
        tc_err_set(&err, TC_E_BAD_HANDLE, "the session was closed");
        tci_sess_fail(s->sess, &err);
    }
    TCI_LIST_EACH (&r->over, k) {
        tci_relay_sess *old = TCI_CONTAINER(k, tci_relay_sess, link);
        if (r->nover > TCI_RELAY_OVER_MAX && old->nuses == 0)
            sess_free(old);
    }
}

void tci_relay_release(tci_relay_sess *s)
{
    s->nuses--;
    if (s->nuses > 0)
        return;
    if (s->is_over ? s->sess == NULL : !s->is_known)
        sess_free(s);
}

static void use(tci_relay_sess *s)
{
    s->nuses++;
    s->used_ms = now_ms(s->relay);
    tci_link_remove(&s->link);
    tci_list_push_back(&s->relay->sessions, &s->link);
}

/* ---- requests: their end ---- */

/* What an answer says of a session. */
static void note_answer(tci_relay_ask *a, const tci_eip_reply *reply)
{
    tci_relay *r = a->relay;
    tci_relay_sess *s = a->sess;
    tc_str id;
    if (reply->result == NULL || r->device == NULL || a->call.conn != r->device->conn)
        return; /* of a link that is over, nothing is new */
    if (a->method == &tci_eip_methods[TCI_EIP_SESSION_OPEN]) {
        const tci_json *descriptor = tci_json_get(reply->result, TC_STR("descriptor"));
        if (descriptor == NULL ||
            !tci_json_as_str(tci_json_get(descriptor, TC_STR("session_id")), &id))
            return;
        s = tci_relay_find(r, id);
        s = s != NULL ? s : sess_new(r, id);
        if (s == NULL || !sess_link(s))
            return;
        s->is_known = true;
        if (a->is_left) {
            tci_sess_tell_close(s->sess);
            sess_over(s);
        }
        forget_oldest(r);
        return;
    }
    if (s == NULL || s->is_over)
        return;
    if (a->method == &tci_eip_methods[TCI_EIP_SESSION_CLOSE]) {
        sess_over(s);
        return;
    }
    s->is_known = true;
    forget_oldest(r);
}

static void finish(tci_relay_ask *a)
{
    tci_relay_sess *s = a->sess;
    tci_link_remove(&a->link);
    a->relay->nasks--;
    tci_buf_done(&a->request);
    a->sess = NULL;
    a->done(a); /* it may be gone */
    if (s != NULL)
        tci_relay_release(s);
}

/* Its call is over, or it never came to one. */
static void on_done(tci_post *post)
{
    tci_relay_ask *a = TCI_CONTAINER(post, tci_relay_ask, post);
    if (a->is_calling) {
        a->code = a->call.code;
        a->err = a->call.err;
        a->is_unsent = a->call.is_unsent;
        a->held = a->call.held;
        a->id_text = a->call.reply.id_text;
        tci_buf_done(&a->call.request);
        if (a->held != NULL)
            note_answer(a, &a->call.reply);
    }
    finish(a);
}

/* End it before it was a call. */
static void fail_own(tci_relay_ask *a, const tc_err *err)
{
    a->code = err->code;
    a->err = *err;
    a->is_unsent = true;
    tci_loop_post(a->relay->rt->loop, &a->post);
}

/* ---- requests: their beginning ---- */

bool tci_relay_put_id(tci_buf *b, size_t at, size_t len, tc_str id)
{
    size_t tail = b->len - at - len;
    if (id.len > len && tci_buf_reserve(b, id.len - len) == NULL)
        return false;
    memmove(b->ptr + at + id.len, b->ptr + at + len, tail);
    memcpy(b->ptr + at, id.ptr, id.len);
    b->len = at + id.len + tail;
    return true;
}

/* One that nobody here knows takes the lane of what is like it. */
static const tci_method *lane_method(const tci_relay_ask *a)
{
    if (a->method != NULL)
        return a->method;
    return &tci_eip_methods[a->has_session ? TCI_EIP_FILE_STAT : TCI_EIP_DEVICE_DESCRIBE];
}

static int take_id(tci_relay_ask *a, tci_conn *c, tc_err *err)
{
    char text[24];
    uint64_t max = atomic_load(&c->max_request_bytes);
    a->call.id = atomic_fetch_add(&c->next_id, 1);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)a->call.id); /* fits */
    if (!tci_relay_put_id(&a->request, a->id_at, a->id_len, tci_str(text)))
        return tci_buf_error(&a->request, err);
    if (a->request.len > max)
        return tc_err_set(err, TC_E_TOO_BIG, "the request is over the device's limit of %llu bytes",
                          (unsigned long long)max);
    return 0;
}

static int no_link(tc_err *err)
{
    return tc_err_set(err, TC_E_NOT_READY, "the device is not connected");
}

static void send(tci_relay_ask *a)
{
    tci_relay *r = a->relay;
    tc_err err;
    int rc = tci_relay_is_linked(r) ? 0 : no_link(&err);
    if (rc == 0 && a->sess != NULL && !sess_link(a->sess))
        rc = tci_err_no_memory(&err);
    if (rc == 0)
        rc = take_id(a, r->device->conn, &err);
    if (rc < 0) {
        fail_own(a, &err);
        return;
    }
    a->is_calling = true;
    a->call.conn = r->device->conn;
    a->call.sess = a->sess != NULL ? a->sess->sess : NULL;
    a->call.method = lane_method(a);
    a->call.wake = &a->call.own_wake;
    a->call.done = &a->post;
    a->call.request = a->request;
    tci_buf_init(&a->request, 0);
    tci_call_start(&a->call);
}

int tci_relay_ask_start(tci_relay *r, tci_relay_ask *a, tc_err *err)
{
    tci_loop_assert(r->rt->loop);
    tci_relay_sess *s = NULL;
    int rc = 0;
    if (r->nasks >= TCI_RELAY_ASKS_MAX)
        rc = tc_err_set(err, TC_E_BUSY, "%d requests of this device are under way",
                        TCI_RELAY_ASKS_MAX);
    if (rc == 0 && a->has_session) {
        s = tci_relay_find(r, a->session);
        if (s != NULL && s->sess != NULL && s->sess->is_dead && tci_relay_is_linked(r)) {
            sess_over(s); /* the device may still say something of its own about it */
            s = NULL;
        }
        s = s != NULL ? s : sess_new(r, a->session);
        rc = s != NULL ? 0 : tci_err_no_memory(err);
    }
    if (rc < 0) {
        tci_buf_done(&a->request);
        return rc;
    }
    a->relay = r;
    a->sess = s;
    a->post.cb = on_done;
    tci_list_push_back(&r->asks, &a->link);
    r->nasks++;
    if (s != NULL)
        use(s);
    if (s != NULL && s->is_attaching)
        tci_list_push_back(&s->waiting, &a->wait_link);
    else
        send(a);
    return 0;
}

void tci_relay_ask_leave(tci_relay_ask *a)
{
    tc_err err;
    a->is_left = true;
    tc_err_set(&err, TC_E_CANCELLED, "who asked is gone");
    if (tci_link_is_in(&a->wait_link)) {
        tci_link_remove(&a->wait_link);
        fail_own(a, &err);
    } else if (a->is_calling && !a->call.is_done && tci_call_is_untouched(&a->call)) {
        a->call.stop_err = err;
        tci_call_abandon(&a->call);
    }
}

/* ---- links ---- */

static void start_waiting(tci_relay_sess *s)
{
    for (tci_link *k; (k = tci_list_pop_front(&s->waiting)) != NULL;)
        send(TCI_CONTAINER(k, tci_relay_ask, wait_link));
}

static void attach(tci_relay_sess *s);

/* Attached, or not: then the device itself says what it knows of it. */
static void on_attached(tci_relay_ask *a)
{
    tci_relay_sess *s = a->user;
    bool is_attached = a->held != NULL && a->call.reply.result != NULL;
    bool has_answer = a->held != NULL;
    tci_held_free(a->held);
    a->held = NULL;
    s->is_attaching = false;
    if (has_answer && !is_attached)
        s->is_known = false;
    if (!has_answer && s->is_known && s->attach_link != s->relay->nlinks)
        attach(s); /* there is another link by now */
    if (!s->is_attaching)
        start_waiting(s);
}

static void attach(tci_relay_sess *s)
{
    tci_relay *r = s->relay;
    const tci_method *m = &tci_eip_methods[TCI_EIP_SESSION_ATTACH];
    tci_eip_session_attach_params none = {0};
    tci_relay_ask *a = &s->attach;
    tc_err err;
    if (s->is_attaching)
        return; /* over the link before; its end begins this one */
    *a = (tci_relay_ask){.method = m, .has_session = true, .session = s->id, .done = on_attached};
    a->user = s;
    tci_buf_init(&a->request, TCI_BUF_MAX);
    tci_eip_put_request(&a->request, 0, &s->id, m->name, m->params, &none, false);
    a->id_at = tci_str_find(tci_buf_str(&a->request), TC_STR("\"id\":0,")) + sizeof "\"id\":" - 1;
    a->id_len = 1;
    if (!tci_buf_ok(&a->request) || a->id_at + 1 > a->request.len) {
        tci_buf_done(&a->request);
        return;
    }
    int64_t used_ms = s->used_ms;
    if (tci_relay_ask_start(r, a, &err) < 0)
        return; /* too much is going on: the device says what it knows of it */
    s->is_attaching = true;
    s->attach_link = r->nlinks;
    s->used_ms = used_ms; /* this was not somebody who asked */
}

/* Another generation knows none of the old one's sessions. */
static void forget_all(tci_relay *r)
{
    TCI_LIST_EACH (&r->sessions, k) {
        tci_relay_sess *s = TCI_CONTAINER(k, tci_relay_sess, link);
        s->is_known = false;
        if (s->nuses == 0)
            sess_free(s);
    }
}

void tci_relay_init(tci_relay *r, tc_runtime *rt)
{
    *r = (tci_relay){.rt = rt};
    tci_list_init(&r->sessions);
    tci_list_init(&r->over);
    tci_list_init(&r->asks);
    tci_list_init(&r->xfers);
}

void tci_relay_link_own(tci_relay *r, tc_device *device)
{
    tci_loop_assert(r->rt->loop);
    tci_relay_unlink(r);
    bool is_same = r->generation == device->info.generation;
    r->device = device;
    r->nlinks++;
    r->generation = device->info.generation;
    if (!is_same) {
        forget_all(r);
        return;
    }
    int64_t idle_ms = (int64_t)tci_min_u64(device->info.idle_timeout_ms, INT64_MAX / 2);
    TCI_LIST_EACH (&r->sessions, k) {
        tci_relay_sess *s = TCI_CONTAINER(k, tci_relay_sess, link);
        if (s->is_known && now_ms(r) - s->used_ms < idle_ms)
            attach(s);
        else if (s->nuses == 0)
            sess_free(s);
    }
}

/* ---- letting go of a device ---- */

typedef struct drop_job {
    tci_job job;
    tci_relay *relay;
    tc_device *device;
} drop_job;

static void drop_work(tci_job *job)
{
    tc_device_close(TCI_CONTAINER(job, drop_job, job)->device);
}

static void drop_done(tci_job *job)
{
    drop_job *j = TCI_CONTAINER(job, drop_job, job);
    tci_relay *r = j->relay;
    tci_free(j);
    r->ndrops--;
    if (r->idle != NULL)
        r->idle(r);
}

/* The last reference of a connection that is still there closes it, which takes a moment. */
void tci_relay_drop_device(tci_relay *r, tc_device *d)
{
    tci_mutex_lock(&r->rt->lock);
    bool is_stopped = d->conn->is_stopped;
    tci_mutex_unlock(&r->rt->lock);
    drop_job *j = is_stopped ? NULL : tci_new(drop_job);
    if (is_stopped)
        tci_device_drop(d);
    if (j == NULL)
        return; /* without memory the runtime ends it */
    *j = (drop_job){.job = {.work = drop_work, .done = drop_done}, .relay = r, .device = d};
    r->ndrops++;
    tci_job_submit(r->rt->loop, TCI_JOB_BULK, &j->job);
}

static void end_asks(tci_relay *r, const tci_conn *c, const tc_err *err)
{
    TCI_LIST_EACH (&r->asks, k) {
        tci_relay_ask *a = TCI_CONTAINER(k, tci_relay_ask, link);
        if (!a->is_calling || a->call.conn != c || a->call.is_done)
            continue;
        a->call.stop_err = *err;
        tci_call_abandon(&a->call);
    }
}

static void unlink_for(tci_relay *r, const tc_err *err)
{
    tc_device *d = r->device;
    if (d == NULL)
        return;
    const tc_err *why = d->conn->is_dead ? &d->conn->fail : err;
    end_asks(r, d->conn, why);
    TCI_LIST_EACH (&r->xfers, k)
        tci_relay_xfer_cut(TCI_CONTAINER(k, tci_relay_xfer, link), why);
    TCI_LIST_EACH (&r->sessions, k)
        sess_unlink(TCI_CONTAINER(k, tci_relay_sess, link));
    TCI_LIST_EACH (&r->over, k) {
        tci_relay_sess *s = TCI_CONTAINER(k, tci_relay_sess, link);
        sess_unlink(s);
        if (s->nuses == 0)
            sess_free(s);
    }
    r->device = NULL;
    tci_relay_drop_device(r, d);
}

void tci_relay_unlink(tci_relay *r)
{
    tc_err err;
    tci_loop_assert(r->rt->loop);
    tc_err_set(&err, TC_E_CLOSED, "the link to the device ended");
    unlink_for(r, &err);
}

void tci_relay_fail(tci_relay *r, const tc_err *err)
{
    unlink_for(r, err);
    TCI_LIST_EACH (&r->sessions, k) {
        tci_relay_sess *s = TCI_CONTAINER(k, tci_relay_sess, link);
        s->is_known = false;
        for (tci_link *w; (w = tci_list_pop_front(&s->waiting)) != NULL;)
            fail_own(TCI_CONTAINER(w, tci_relay_ask, wait_link), err);
        if (s->nuses == 0)
            sess_free(s);
    }
}

void tci_relay_end(tci_relay *r)
{
    tc_err err;
    tc_err_set(&err, TC_E_CLOSED, "this is ending");
    tci_relay_fail(r, &err);
}
