/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop's half of a session: its lanes, keeping it alive, its transfers, and its end. Loop
 * thread unless said otherwise. Invariant: a dead session starts nothing and holds no transfer. */
#include "client/client_int.h"

#include "base/hash.h"

enum { CLEANUP_MAX = 3, ORDINARY_SESSION_MAX = 64 };

static const char op_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void tci_operation_id(char out[TCI_OPERATION_ID_LEN + 1])
{
    uint8_t random[12];
    tci_random_bytes(random, sizeof random);
    memcpy(out, "op-", 3);
    for (size_t i = 0; i < sizeof random; i++)
        out[3 + i] = op_alphabet[random[i] & 63];
    out[TCI_OPERATION_ID_LEN] = 0;
}

tc_str tci_sess_operation_id(tci_sess *s)
{
    tci_operation_id(s->op_text);
    return tci_str_of(s->op_text, TCI_OPERATION_ID_LEN);
}

static void lane_init(tci_lane_queue *l, unsigned max)
{
    l->max = max;
    tci_list_init(&l->waiting);
}

tci_sess *tci_sess_new(tci_conn *c, tc_str id, uint64_t max_concurrent, int64_t keepalive_ms)
{
    tci_sess *s = tci_new(tci_sess);
    char *text = tci_mem_cstr(id);
    if (s == NULL || text == NULL) {
        tci_free(s);
        tci_free(text);
        return NULL;
    }
    s->conn = c;
    s->id_text = text;
    s->id = tci_str_of(text, id.len);
    atomic_init(&s->is_alive, true);
    lane_init(&s->ordinary, (unsigned)tci_min_u64(max_concurrent, ORDINARY_SESSION_MAX));
    lane_init(&s->cleanup, CLEANUP_MAX);
    lane_init(&s->keepalive, 1);
    tci_list_init(&s->xfers);
    s->keepalive_ms = keepalive_ms;
    return s;
}

void tci_sess_free(tci_sess *s)
{
    if (s == NULL)
        return;
    tci_free(s->id_text);
    tci_free(s);
}

/* ---- keeping it alive ---- */

static bool put_plain(tci_sess *s, int method, tci_buf *text, uint64_t *ret_id)
{
    const tci_method *m = &tci_eip_methods[method];
    tci_buf_init(text, TCI_BUF_MAX);
    *ret_id = atomic_fetch_add(&s->conn->next_id, 1);
    /* For methods without parameters. */
    tci_eip_session_close_params none = {0};
    tci_eip_put_request(text, *ret_id, &s->id, m->name, m->params, &none, false);
    if (tci_buf_ok(text))
        return true;
    tci_buf_done(text);
    return false;
}

static void tell(tci_sess *s, int method)
{
    tci_buf text;
    uint64_t id;
    if (put_plain(s, method, &text, &id))
        tci_conn_tell(s->conn, s, method, &text, id);
}

void tci_sess_tell_close(tci_sess *s)
{
    tell(s, TCI_EIP_SESSION_CLOSE);
}

static void arm(tci_sess *s, int64_t delay_ms)
{
    tc_err err;
    if (tci_timer_start(&s->timer, delay_ms, &err) < 0)
        s->keepalive_ms = 0; /* no memory for a timer: the session may expire, and says so then */
}

static void on_timer(tci_timer *t)
{
    tci_sess *s = TCI_CONTAINER(t, tci_sess, timer);
    int64_t idle = tci_loop_now_ms(s->conn->rt->loop) - s->last_sent_ms;
    if (idle >= s->keepalive_ms) {
        tell(s, TCI_EIP_SESSION_KEEPALIVE);
        idle = 0;
    }
    if (!s->is_dead)
        arm(s, s->keepalive_ms - idle);
}

void tci_sess_add(tci_sess *s)
{
    tci_conn *c = s->conn;
    tci_loop_assert(c->rt->loop);
    tci_list_push_back(&c->sessions, &s->link);
    s->last_sent_ms = tci_loop_now_ms(c->rt->loop);
    tci_timer_init(&s->timer, c->rt->loop, on_timer);
    if (c->is_dead)
        tci_sess_fail(s, &c->fail);
    else if (s->keepalive_ms > 0)
        arm(s, s->keepalive_ms);
}

/* ---- the end ---- */

void tci_sess_fail(tci_sess *s, const tc_err *err)
{
    if (s->is_dead)
        return;
    s->is_dead = true;
    s->fail = *err;
    atomic_store(&s->is_alive, false);
    tci_timer_stop(&s->timer);
    tci_conn_lane_fail(s->conn, &s->ordinary, err);
    tci_conn_lane_fail(s->conn, &s->cleanup, err);
    tci_conn_lane_fail(s->conn, &s->keepalive, err);
    TCI_LIST_EACH (&s->xfers, link)
        tci_xfer_fail(TCI_CONTAINER(link, tci_xfer, link), err);
    tci_conn_fail_session(s->conn, s, err);
}

void tci_sess_remove(tci_sess *s)
{
    tc_err err;
    tc_err_set(&err, TC_E_CLOSED, "the session was closed");
    tci_sess_fail(s, &err);
    tci_link_remove(&s->link);
    tci_conn_forget_session(s->conn, s);
}

typedef struct break_job {
    tci_sess *sess;
    const tc_err *err;
} break_job;

static void break_on_loop(void *arg)
{
    break_job *job = arg;
    if (job->sess->is_dead)
        return;
    tci_sess_fail(job->sess, job->err);
    if (!job->sess->conn->is_dead)
        tci_sess_tell_close(job->sess);
}

void tci_sess_break(tci_sess *s, const tc_err *err)
{
    break_job job = {s, err};
    (void)tci_runtime_run(s->conn->rt, break_on_loop, &job); /* without a loop it is dead already */
}

/* ---- transfers ---- */

static uint64_t handle_hash(tc_str handle)
{
    return tci_hash64(handle.ptr, handle.len, 1);
}

bool tci_sess_has_ended_handle(const tci_sess *s, tc_str handle)
{
    uint64_t hash = handle_hash(handle);
    for (size_t i = 0; i < TCI_ENDED_RING; i++)
        if (s->ended[i] == hash)
            return true;
    return false;
}

void tci_xfer_link(tci_xfer *x)
{
    tci_list_push_back(&x->sess->xfers, &x->link);
    x->is_linked = true;
}

void tci_xfer_unlink(tci_xfer *x)
{
    if (!x->is_linked)
        return;
    tci_link_remove(&x->link);
    x->is_linked = false;
    x->sess->ended[x->sess->nended++ % TCI_ENDED_RING] = handle_hash(x->handle);
}

static tci_sess *find_session(tci_conn *c, tc_str id)
{
    TCI_LIST_EACH (&c->sessions, link) {
        tci_sess *s = TCI_CONTAINER(link, tci_sess, link);
        if (tci_str_eq(s->id, id))
            return s;
    }
    return NULL;
}

static tci_xfer *find_xfer(tci_sess *s, tc_str handle)
{
    TCI_LIST_EACH (&s->xfers, link) {
        tci_xfer *x = TCI_CONTAINER(link, tci_xfer, link);
        if (tci_str_eq(x->handle, handle))
            return x;
    }
    return NULL;
}

void tci_conn_data_own(tci_conn *c, const tci_eipd *frame, tci_block *b)
{
    tci_sess *s = find_session(c, frame->session);
    tci_xfer *x = s != NULL && !s->is_dead ? find_xfer(s, frame->handle) : NULL;
    if (x != NULL) {
        tci_xfer_frame_own(x, frame, b);
        return;
    }
    /* What was under way when we let go of a transfer or session is no violation. */
    bool is_late = s == NULL ? frame->kind == TCI_EIPD_RESET
                             : s->is_dead || tci_sess_has_ended_handle(s, frame->handle);
    tci_free(b); /* the frame's texts may lie in it */
    if (is_late)
        return;
    tc_err err;
    tc_err_set(&err, TC_E_PROTOCOL, "the daemon broke the protocol: %s for an unknown %s",
               tci_eipd_kind_name(frame->kind), s == NULL ? "session" : "transfer");
    if (s == NULL) {
        tci_conn_fail(c, &err);
        return;
    }
    tci_sess_fail(s, &err);
    tci_sess_tell_close(s);
}
