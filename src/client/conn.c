/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in flight on a connection: lanes, the table of requests by id, and ending everything at
 * once. Leaves bytes to the carriers and sessions to sess.c. Loop thread, but for close. Invariant:
 * a call is finished exactly once, and its pending entry outlives it until the carrier lets go of
 * it. */
#include "client/client_int.h"

enum { ORDINARY_MAX = 224, DEVICE_MAX = 8, GRACE_MS = 2500 };

static void lane_init(tci_lane_queue *l, unsigned max)
{
    l->in_flight = 0;
    l->max = max;
    tci_list_init(&l->waiting);
}

void tci_conn_init(tci_conn *c, const tci_conn_vtable *v, tc_runtime *rt)
{
    c->v = v;
    c->rt = rt;
    atomic_init(&c->is_alive, true);
    atomic_init(&c->next_id, 1);
    for (size_t i = 0; i < TCI_CONN_BUCKETS; i++)
        tci_list_init(&c->buckets[i]);
    tci_list_init(&c->sessions);
    lane_init(&c->device_lane, DEVICE_MAX);
    c->max_ordinary = ORDINARY_MAX;
}

void tci_conn_add(tci_conn *c)
{
    tci_loop_assert(c->rt->loop);
    tci_list_push_back(&c->rt->conns, &c->link);
}

/* ---- finishing calls ---- */

void tci_call_finish(tci_call *call, int code, const tc_err *err, bool is_unsent)
{
    if (tci_link_is_in(&call->lane_link)) {
        tci_link_remove(&call->lane_link);
        call->conn->nwaiting--;
    }
    tci_timer_stop(&call->grace);
    if (call->pending != NULL) {
        call->pending->call = NULL;
        call->pending = NULL;
    }
    tc_runtime *rt = call->conn->rt;
    tci_mutex_lock(&rt->lock);
    call->code = code;
    if (err != NULL)
        call->err = *err;
    call->is_unsent = is_unsent;
    call->is_done = true;
    tci_wake *wake = call->wake;
    tci_post *done = call->done;
    uint64_t id = call->id;
    tci_wake_count_one(wake);
    tci_mutex_unlock(&rt->lock); /* the call may be gone from here on, unless nobody waits */
    tci_wake_send(wake, tci_wake_bit(id));
    if (done != NULL)
        tci_loop_post(rt->loop, done);
}

static void pump(tci_conn *c);

/* Unlink p, give its place in the lane to the next, and free it (a message: once it is done). */
static void drop_pending(tci_conn *c, tci_pending *p)
{
    tci_link_remove(&p->link);
    if (p->lane != NULL) {
        p->lane->in_flight--;
        p->lane = NULL;
    }
    if (p->is_ordinary)
        c->nordinary--;
    p->is_ordinary = false;
    tci_pending_release(p);
    pump(c);
}

void tci_pending_release(tci_pending *p)
{
    if (p->is_busy) {
        p->is_orphan = true;
        return;
    }
    tci_held_free(p->held);
    if (p->method == &tci_eip_methods[TCI_EIP_SESSION_OPEN] ||
        p->method == &tci_eip_methods[TCI_EIP_EGRESS_UPDATE])
        tci_mem_wipe(p->request.ptr, p->request.len); /* secrets */
    tci_buf_done(&p->request);
    tci_buf_done(&p->body);
    tci_free(p);
}

void tci_conn_end_pending(tci_conn *c, tci_pending *p, const tc_err *err, bool is_unsent)
{
    if (p->call != NULL)
        tci_call_finish(p->call, err->code, err, is_unsent);
    drop_pending(c, p);
}

/* ---- starting calls ---- */

static tci_lane_queue *lane_of(tci_conn *c, tci_sess *s, const tci_method *m)
{
    if (s == NULL)
        return &c->device_lane;
    switch (m->lane) {
    case TCI_LANE_CLEANUP:
        return &s->cleanup;
    case TCI_LANE_KEEPALIVE:
        return &s->keepalive;
    case TCI_LANE_ORDINARY:
        break;
    }
    return &s->ordinary;
}

static bool has_room(const tci_conn *c, const tci_lane_queue *lane, const tci_method *m)
{
    return lane->in_flight < lane->max &&
           (m->lane != TCI_LANE_ORDINARY || c->nordinary < c->max_ordinary);
}

/* Hand a request to the carrier. Takes the contents of request. */
static tci_pending *send_request(tci_conn *c, tci_sess *s, const tci_method *m, uint64_t id,
                                 tci_buf *request, tci_lane_queue *lane)
{
    tci_pending *p = tci_new(tci_pending);
    if (p == NULL)
        return NULL;
    p->id = id;
    p->method = m;
    p->sess = s;
    p->is_session = s != NULL;
    p->request = *request;
    tci_buf_init(request, TCI_BUF_MAX);
    p->lane = lane;
    if (lane != NULL)
        lane->in_flight++;
    p->is_ordinary = lane != NULL && m->lane == TCI_LANE_ORDINARY;
    if (p->is_ordinary)
        c->nordinary++;
    tci_buf_init(&p->body, (size_t)atomic_load(&c->max_response_bytes));
    tci_list_push_back(&c->buckets[id % TCI_CONN_BUCKETS], &p->link);
    if (s != NULL)
        s->last_sent_ms = tci_loop_now_ms(c->rt->loop);
    return p;
}

static void start_now(tci_call *call, tci_lane_queue *lane)
{
    tci_conn *c = call->conn;
    tci_pending *p = send_request(c, call->sess, call->method, call->id, &call->request, lane);
    if (p == NULL) {
        tc_err err;
        tci_err_no_memory(&err);
        tci_call_finish(call, err.code, &err, true);
        return;
    }
    p->call = call;
    call->pending = p;
    c->v->send(c, p);
}

void tci_call_start(tci_call *call)
{
    tci_conn *c = call->conn;
    tci_loop_assert(c->rt->loop);
    if (c->is_dead) {
        tci_call_finish(call, c->fail.code, &c->fail, true);
        return;
    }
    if (call->sess != NULL && call->sess->is_dead) {
        tci_call_finish(call, call->sess->fail.code, &call->sess->fail, true);
        return;
    }
    tci_lane_queue *lane = lane_of(c, call->sess, call->method);
    if (tci_list_is_empty(&lane->waiting) && has_room(c, lane, call->method))
        start_now(call, lane);
    else {
        tci_list_push_back(&lane->waiting, &call->lane_link);
        c->nwaiting++;
    }
}

static bool pump_lane(tci_conn *c, tci_lane_queue *lane)
{
    tci_link *link = tci_list_first(&lane->waiting);
    if (link == NULL)
        return false;
    tci_call *call = TCI_CONTAINER(link, tci_call, lane_link);
    if (!has_room(c, lane, call->method))
        return false;
    tci_link_remove(link);
    c->nwaiting--;
    start_now(call, lane);
    return true;
}

/* Start what waited; one of each session in turn. */
static void pump(tci_conn *c)
{
    bool again = true;
    while (again && c->nwaiting > 0 && !c->is_dead) {
        again = pump_lane(c, &c->device_lane);
        TCI_LIST_EACH (&c->sessions, link) {
            tci_sess *s = TCI_CONTAINER(link, tci_sess, link);
            again |= pump_lane(c, &s->cleanup);
            again |= pump_lane(c, &s->ordinary);
            again |= pump_lane(c, &s->keepalive);
        }
    }
}

void tci_conn_tell(tci_conn *c, tci_sess *s, int method, tci_buf *request, uint64_t id)
{
    const tci_method *m = &tci_eip_methods[method];
    tci_pending *p = send_request(c, s, m, id, request, NULL);
    tci_buf_done(request);
    if (p != NULL)
        c->v->send(c, p);
}

/* ---- giving up ---- */

static void cancel_on_daemon(tci_call *call)
{
    if (call->operation_id.len == 0 || call->sess == NULL || call->sess->is_dead)
        return;
    tc_str own = tci_sess_operation_id(call->sess);
    tci_eip_operation_cancel_params params = {
        .context = {.operation_id = own},
        .target_operation_id = call->operation_id,
    };
    tci_buf text;
    tci_buf_init(&text, TCI_BUF_MAX);
    const tci_method *m = &tci_eip_methods[TCI_EIP_OPERATION_CANCEL];
    uint64_t id = atomic_fetch_add(&call->conn->next_id, 1);
    tci_eip_put_request(&text, id, &call->sess->id, m->name, m->params, &params, false);
    if (tci_buf_ok(&text))
        tci_conn_tell(call->conn, call->sess, TCI_EIP_OPERATION_CANCEL, &text, id);
    else
        tci_buf_done(&text);
}

void tci_call_abandon(tci_call *call)
{
    tci_pending *p = call->pending;
    bool is_unsent = true;
    if (p != NULL) {
        call->pending = NULL;
        p->call = NULL;
        is_unsent = call->conn->v->abandon(call->conn, p);
    }
    tci_call_finish(call, call->stop_err.code, &call->stop_err, is_unsent);
}

static void on_grace(tci_timer *t)
{
    tci_call_abandon(TCI_CONTAINER(t, tci_call, grace));
}

bool tci_call_is_untouched(const tci_call *call)
{
    return call->pending == NULL || call->conn->v->is_untouched(call->pending);
}

void tci_call_stop(tci_call *call)
{
    if (tci_call_is_untouched(call)) {
        tci_call_abandon(call);
        return;
    }
    cancel_on_daemon(call);
    tc_err err;
    tci_timer_init(&call->grace, call->conn->rt->loop, on_grace);
    /* For a change it is worth waiting a little for what became of it. */
    if (call->method->replay != TCI_REPLAY_TERMINAL ||
        tci_timer_start(&call->grace, GRACE_MS, &err) < 0)
        tci_call_abandon(call);
}

/* ---- answers ---- */

static tci_pending *find_pending(tci_conn *c, uint64_t id)
{
    TCI_LIST_EACH (&c->buckets[id % TCI_CONN_BUCKETS], link) {
        tci_pending *p = TCI_CONTAINER(link, tci_pending, link);
        if (p->id == id)
            return p;
    }
    return NULL;
}

/* Somebody gave up waiting for session.open, and now there is one nobody owns. */
static void close_unwanted(tci_conn *c, const tci_eip_reply *reply)
{
    const tci_json *descriptor = tci_json_get(reply->result, TC_STR("descriptor"));
    tc_str id;
    if (descriptor == NULL || !tci_json_as_str(tci_json_get(descriptor, TC_STR("session_id")), &id))
        return;
    tci_sess *s = tci_sess_new(c, id, 1, 0);
    if (s == NULL)
        return;
    tci_sess_add(s);
    tci_sess_tell_close(s);
    tci_sess_remove(s);
    tci_sess_free(s);
}

/* NULL when the answer fits the request. */
static const char *mismatch(const tci_pending *p, const tci_eip_reply *reply)
{
    if (!reply->has_session)
        return p->is_session && reply->result != NULL ? "an answer without its session" : NULL;
    if (!p->is_session)
        return "an answer with a session nobody asked about";
    if (p->sess != NULL && !tci_str_eq(reply->session, p->sess->id))
        return "an answer for another session";
    return NULL;
}

static void fail_protocol(tci_conn *c, const char *what)
{
    tc_err err;
    tc_err_set(&err, TC_E_PROTOCOL, "the daemon broke the protocol: %s", what);
    tci_conn_fail(c, &err);
}

void tci_conn_reply_own(tci_conn *c, tci_held *h, tci_pending *expected)
{
    tci_eip_reply reply = {0};
    tc_err err;
    if (tci_eip_reply_decode(tci_str_of(h->text, h->len), &h->arena, &reply, &err) < 0) {
        tci_held_free(h);
        tc_err_wrap(&err, "the daemon broke the protocol");
        err.code = TC_E_PROTOCOL;
        tci_conn_fail(c, &err);
        return;
    }
    tci_pending *p = reply.has_id ? find_pending(c, reply.id) : NULL;
    const char *wrong = NULL;
    if (!reply.has_id)
        wrong = "it could not read a request of ours";
    else if (p == NULL || (expected != NULL && p != expected))
        wrong = "an answer to a request that is not open";
    else
        wrong = mismatch(p, &reply);
    if (wrong != NULL) {
        tci_held_free(h);
        fail_protocol(c, wrong);
        return;
    }
    if (p->call != NULL) {
        tci_call *call = p->call;
        call->held = h;
        call->reply = reply;
        tci_call_finish(call, 0, NULL, false);
    } else {
        if (p->method == &tci_eip_methods[TCI_EIP_SESSION_OPEN] && reply.result != NULL)
            close_unwanted(c, &reply);
        tci_held_free(h);
    }
    drop_pending(c, p);
}

/* ---- the end ---- */

void tci_conn_lane_fail(tci_conn *c, tci_lane_queue *lane, const tc_err *err)
{
    for (tci_link *link; (link = tci_list_pop_front(&lane->waiting)) != NULL;) {
        c->nwaiting--;
        tci_call_finish(TCI_CONTAINER(link, tci_call, lane_link), err->code, err, true);
    }
}

/* Whoever waits for an answer, by what was written when the link broke. */
static void fail_pending(tci_conn *c, const tc_err *err)
{
    for (size_t i = 0; i < TCI_CONN_BUCKETS; i++)
        TCI_LIST_EACH (&c->buckets[i], link) {
            tci_pending *p = TCI_CONTAINER(link, tci_pending, link);
            if (p->call != NULL)
                tci_call_finish(p->call, err->code, err, c->v->is_unsent(p));
        }
}

void tci_conn_fail_session(tci_conn *c, tci_sess *s, const tc_err *err)
{
    for (size_t i = 0; i < TCI_CONN_BUCKETS; i++)
        TCI_LIST_EACH (&c->buckets[i], link) {
            tci_pending *p = TCI_CONTAINER(link, tci_pending, link);
            tci_call *call = p->sess == s ? p->call : NULL;
            if (call == NULL)
                continue;
            call->stop_err = *err;
            tci_call_abandon(call);
        }
}

void tci_conn_forget_session(tci_conn *c, tci_sess *s)
{
    for (size_t i = 0; i < TCI_CONN_BUCKETS; i++)
        TCI_LIST_EACH (&c->buckets[i], link) {
            tci_pending *p = TCI_CONTAINER(link, tci_pending, link);
            if (p->sess != s)
                continue;
            p->sess = NULL;
            p->lane = NULL;
        }
}

void tci_conn_fail(tci_conn *c, const tc_err *err)
{
    tci_loop_assert(c->rt->loop);
    if (c->is_dead)
        return;
    c->is_dead = true;
    c->fail = *err;
    atomic_store(&c->is_alive, false);
    if (c->v->halt != NULL)
        c->v->halt(c);
    /* Before anybody is woken: who asks then must see it. */
    TCI_LIST_EACH (&c->sessions, link)
        atomic_store(&TCI_CONTAINER(link, tci_sess, link)->is_alive, false);
    tci_conn_lane_fail(c, &c->device_lane, err);
    fail_pending(c, err);
    TCI_LIST_EACH (&c->sessions, link) {
        tci_sess *s = TCI_CONTAINER(link, tci_sess, link);
        s->is_left_open = !s->is_dead && !s->is_relayed;
        tci_sess_fail(s, err);
    }
    c->v->stop(c);
    for (size_t i = 0; i < TCI_CONN_BUCKETS; i++)
        TCI_LIST_EACH (&c->buckets[i], link)
            drop_pending(c, TCI_CONTAINER(link, tci_pending, link));
}

/* ---- closing, from any thread ---- */

typedef struct break_job {
    tci_conn *conn;
    const tc_err *err;
} break_job;

static void break_on_loop(void *arg)
{
    break_job *job = arg;
    tci_conn_fail(job->conn, job->err);
}

void tci_conn_break(tci_conn *c, const tc_err *err)
{
    break_job job = {c, err};
    (void)tci_runtime_run(c->rt, break_on_loop, &job); /* without a loop it is dead already */
}

static void close_on_loop(void *arg)
{
    tci_conn *c = arg;
    tc_err err;
    tc_err_set(&err, TC_E_CLOSED, "the connection was closed");
    tci_conn_fail(c, &err);
}

void tci_conn_stopped(tci_conn *c)
{
    tc_runtime *rt = c->rt;
    tci_mutex_lock(&rt->lock);
    c->is_stopped = true;
    tci_wake_all(&c->stopped);
    tci_mutex_unlock(&rt->lock);
}

static void unlink_on_loop(void *arg)
{
    tci_conn *c = arg;
    tci_link_remove(&c->link);
}

void tci_conn_close(tci_conn *c)
{
    tc_runtime *rt = c->rt;
    if (tci_runtime_run(rt, close_on_loop, c)) {
        for (;;) {
            unsigned seen = tci_wake_count(&c->stopped);
            tci_mutex_lock(&rt->lock);
            bool is_stopped = c->is_stopped || rt->is_closed;
            tci_mutex_unlock(&rt->lock);
            if (is_stopped)
                break;
            tci_wake_wait(&c->stopped, seen, 0);
        }
        (void)tci_runtime_run(rt, unlink_on_loop, c); /* without a loop there is no list */
    }
    c->v->free(c);
}
