/* SPDX-License-Identifier: Apache-2.0
 *
 * The tunnel: one EIP byte stream inside of a session's frames, as a tci_stream under the framed
 * carrier, so that the EIP client runs over it unchanged. Each side may send TCI_PIENV_TUNNEL_WINDOW
 * bytes beyond what the other has credited. open is said by us, close once by each side; only then may
 * the tunnel be opened again. Stream and frames on the loop thread, tci_pi_device on callers'.
 * Invariant: the tunnel outlives its frames in the session's queues, not its owner's close. */
#include "client/framed.h"
#include "client/pienv/pienv_int.h"

#include <stdio.h>

enum { OUT_BYTES = 256 * 1024, CREDIT_EVERY = TCI_PIENV_TUNNEL_WINDOW / 4, NOTE_BYTES = 64 };

struct tci_pi_tunnel {
    tci_stream base;
    tci_pi_sess *sess; /* NULL: the session is over, or we closed it */
    tci_framed *framed;
    bool is_peer_closed;
    bool is_open; /* the stream is not closed by its owner */
    unsigned wanted;
    tci_later ready;
    /* in */
    tci_list in;  /* of tci_pi_in */
    size_t in_at; /* of the first */
    size_t nunread;
    uint64_t nowed; /* bytes read and not credited yet */
    /* out */
    uint64_t credit;
    bool is_out_busy, is_note_busy;
    tci_pi_out out, note;
    char head[TCI_PIENV_HEAD_BYTES + 2];
    char note_bytes[TCI_PIENV_HEAD_BYTES + NOTE_BYTES];
    char *buf;
};

static tci_pi_tunnel *of(tci_stream *s)
{
    return TCI_CONTAINER(s, tci_pi_tunnel, base);
}

static void free_if_over(tci_pi_tunnel *t)
{
    if (t->is_open || t->is_out_busy || t->is_note_busy)
        return;
    tci_pi_in_free_all(&t->in);
    tci_free(t->buf);
    tci_free(t);
}

/* ---- readiness ---- */

static unsigned ready_events(const tci_pi_tunnel *t)
{
    bool is_over = t->sess == NULL || t->is_peer_closed;
    unsigned events = 0;
    if (t->nunread > 0 || is_over)
        events |= TCI_WATCH_READ;
    if (is_over || (t->credit > 0 && !t->is_out_busy))
        events |= TCI_WATCH_WRITE;
    return events & t->wanted;
}

static void look_again(tci_pi_tunnel *t)
{
    if (t->is_open && ready_events(t) != 0)
        tci_loop_later(t->framed->base.rt->loop, &t->ready);
}

static void on_ready(tci_later *later)
{
    tci_pi_tunnel *t = TCI_CONTAINER(later, tci_pi_tunnel, ready);
    unsigned events = ready_events(t);
    if (events != 0 && t->base.on_ready != NULL)
        t->base.on_ready(&t->base, events); /* may close it */
}

/* ---- credit ---- */

static void give_credit(tci_pi_tunnel *t);

static void note_done(tci_pi_out *out, bool is_written)
{
    tci_pi_tunnel *t = TCI_CONTAINER(out, tci_pi_tunnel, note);
    t->is_note_busy = false;
    if (is_written && t->is_open)
        give_credit(t);
    free_if_over(t);
}

static void give_credit(tci_pi_tunnel *t)
{
    if (t->nowed < CREDIT_EVERY || t->is_note_busy || t->sess == NULL)
        return;
    tc_err err;
    char *json = t->note_bytes + TCI_PIENV_HEAD_BYTES;
    int n = snprintf(json, NOTE_BYTES, "{\"credit\":%llu}", (unsigned long long)t->nowed);
    tci_pienv_head head = {.type = TCI_PIENV_TUNNEL, .json_len = (uint32_t)n};
    if (tci_pienv_head_put(&head, t->note_bytes, &err) < 0)
        return; /* cannot be: it is short */
    t->nowed = 0;
    t->note = (tci_pi_out){.parts = {{t->note_bytes, TCI_PIENV_HEAD_BYTES + (size_t)n}},
                           .nparts = 1,
                           .done = note_done};
    t->is_note_busy = true;
    tci_pi_put(t->sess, &t->note);
}

/* ---- the stream ---- */

static int tunnel_read(tci_stream *base, void *buf, size_t cap, size_t *ret_n, tc_err *err)
{
    tci_pi_tunnel *t = of(base);
    size_t n = 0;
    while (n < cap && t->nunread > 0) {
        tci_pi_in *in = TCI_CONTAINER(tci_list_first(&t->in), tci_pi_in, link);
        size_t len = tci_min_size(cap - n, in->head.payload_len - t->in_at);
        memcpy((char *)buf + n, in->text + in->head.json_len + t->in_at, len);
        n += len;
        t->in_at += len;
        t->nunread -= len;
        if (t->in_at == in->head.payload_len) {
            tci_link_remove(&in->link);
            tci_pi_in_free(in);
            t->in_at = 0;
        }
    }
    if (n == 0 && cap > 0 && t->sess == NULL)
        return tc_err_set(err, TC_E_CLOSED, "pi-env connection lost");
    if (n == 0 && cap > 0 && t->is_peer_closed)
        return tc_err_set(err, TC_E_END, "the other end closed the tunnel");
    t->nowed += n;
    give_credit(t);
    *ret_n = n;
    return 0;
}

static void out_done(tci_pi_out *out, bool is_written)
{
    TCI_UNUSED(is_written);
    tci_pi_tunnel *t = TCI_CONTAINER(out, tci_pi_tunnel, out);
    t->is_out_busy = false;
    look_again(t);
    free_if_over(t);
}

static int tunnel_writev(tci_stream *base, const tci_iovec *v, size_t nv, size_t *ret_n,
                         tc_err *err)
{
    tci_pi_tunnel *t = of(base);
    if (t->sess == NULL || t->is_peer_closed)
        return tc_err_set(err, TC_E_CLOSED, "the tunnel is closed");
    size_t room = t->is_out_busy ? 0 : (size_t)tci_min_u64(t->credit, OUT_BYTES), n = 0;
    for (size_t i = 0; i < nv && n < room; i++) {
        size_t len = tci_min_size(v[i].len, room - n);
        memcpy(t->buf + n, v[i].ptr, len);
        n += len;
    }
    *ret_n = n;
    if (n == 0)
        return 0;
    tci_pienv_head head = {.type = TCI_PIENV_TUNNEL, .json_len = 2, .payload_len = (uint32_t)n};
    if (tci_pienv_head_put(&head, t->head, err) < 0)
        return err->code;
    memcpy(t->head + TCI_PIENV_HEAD_BYTES, "{}", 2);
    t->credit -= n;
    t->out = (tci_pi_out){.parts = {{t->head, sizeof t->head}, {t->buf, n}},
                          .nparts = 2,
                          .is_bulk = true,
                          .done = out_done};
    t->is_out_busy = true;
    tci_pi_put(t->sess, &t->out);
    tci_pi_update_want(t->sess); /* somebody waits for the link now */
    return 0;
}

static int tunnel_want(tci_stream *base, unsigned events, tc_err *err)
{
    TCI_UNUSED(err);
    tci_pi_tunnel *t = of(base);
    t->wanted = events;
    look_again(t);
    return 0;
}

/* Its owner has no half-closed state to express; the end is said by close. */
static int tunnel_shutdown_write(tci_stream *base, tc_err *err)
{
    TCI_UNUSED(base);
    TCI_UNUSED(err);
    return 0;
}

static void say_close(tci_pi_sess *s)
{
    tci_pi_put_small(s, TCI_PIENV_TUNNEL, 0, TC_STR("{\"close\":true}"));
}

static void tunnel_close(tci_stream *base)
{
    tci_pi_tunnel *t = of(base);
    tci_pi_sess *s = t->sess;
    t->is_open = false;
    t->sess = NULL;
    tci_later_cancel(&t->ready);
    if (s != NULL) {
        s->tunnel = NULL;
        s->is_tunnel_closing = !t->is_peer_closed;
        say_close(s);
    }
    free_if_over(t);
}

static const tci_stream_vtable tunnel_vtable = {
    .read = tunnel_read,
    .writev = tunnel_writev,
    .want = tunnel_want,
    .shutdown_write = tunnel_shutdown_write,
    .close = tunnel_close,
};

/* ---- the session's side ---- */

static void closed_by_peer(tci_pi_sess *s)
{
    tci_pi *pi = s->pi;
    if (s->tunnel != NULL) {
        s->tunnel->is_peer_closed = true;
        look_again(s->tunnel);
    }
    s->is_tunnel_closing = false;
    tci_mutex_lock(&pi->lock);
    tci_pi_wake_all(pi); /* somebody may wait to open it again */
    tci_mutex_unlock(&pi->lock);
}

static bool take_payload_own(tci_pi_tunnel *t, tci_pi_in *in)
{
    size_t len = in->head.payload_len;
    if (t == NULL || len == 0 || t->is_peer_closed) {
        tci_pi_in_free(in);
        return true;
    }
    if (t->nunread + t->nowed + len > TCI_PIENV_TUNNEL_WINDOW) {
        tci_pi_in_free(in);
        return false;
    }
    tci_list_push_back(&t->in, &in->link);
    t->nunread += len;
    look_again(t);
    return true;
}

void tci_pi_tunnel_frame_own(tci_pi_sess *s, tci_pi_in *in)
{
    tci_pi_tunnel_note note;
    tc_err err;
    if (tci_proto_decode_lenient(&tci_pi_tunnel_note_type, &in->json, &in->held->arena, &note,
                                 &err) < 0)
        note = (tci_pi_tunnel_note){.credit = 0};
    tci_pi_tunnel *t = s->tunnel;
    if (!take_payload_own(t, in)) {
        tc_err_set(&err, TC_E_PROTOCOL, "Corrupt frame from pi-env: more than the tunnel's credit");
        tci_pi_sess_end_with(s, &err);
        return;
    }
    if (t != NULL && note.credit > 0) {
        t->credit = tci_min_u64(t->credit + tci_min_u64(note.credit, TCI_PIENV_TUNNEL_WINDOW),
                                TCI_PIENV_TUNNEL_WINDOW);
        look_again(t);
    }
    if (note.close)
        closed_by_peer(s);
}

void tci_pi_tunnel_lost(tci_pi_sess *s)
{
    tci_pi_tunnel *t = s->tunnel;
    s->tunnel = NULL;
    if (t == NULL)
        return;
    t->sess = NULL;
    if (t->is_open) {
        tc_err err;
        tc_err_set(&err, TC_E_CLOSED, "pi-env connection lost");
        tci_conn_fail(&t->framed->base, &err); /* closes it */
    }
}

bool tci_pi_tunnel_is_busy(const tci_pi_sess *s)
{
    const tci_pi_tunnel *t = s->tunnel;
    if (t == NULL)
        return false;
    if (t->is_out_busy || t->framed->base.nwaiting > 0)
        return true;
    for (size_t i = 0; i < TCI_CONN_BUCKETS; i++)
        if (!tci_list_is_empty(&t->framed->base.buckets[i]))
            return true;
    TCI_LIST_EACH (&t->framed->base.sessions, link)
        if (!tci_list_is_empty(&TCI_CONTAINER(link, tci_sess, link)->xfers))
            return true;
    return false;
}

/* ---- opening ---- */

typedef struct open_job {
    tci_pi *pi;
    uint64_t session;
    tci_framed *framed;
    int code;
    tc_err *err;
} open_job;

static int open_tunnel(tci_pi_sess *s, tci_framed *f, tc_err *err)
{
    tci_pi_tunnel *t = tci_new(tci_pi_tunnel);
    if (t == NULL)
        return tci_err_no_memory(err);
    t->buf = tci_mem_resize(NULL, OUT_BYTES);
    if (t->buf == NULL) {
        tci_free(t);
        return tci_err_no_memory(err);
    }
    t->base.v = &tunnel_vtable;
    t->sess = s;
    t->framed = f;
    t->is_open = true;
    t->credit = TCI_PIENV_TUNNEL_WINDOW;
    t->ready.cb = on_ready;
    tci_list_init(&t->in);
    s->tunnel = t;
    tci_pi_put_small(s, TCI_PIENV_TUNNEL, 0, TC_STR("{\"open\":true}"));
    return tci_framed_start_own(f, &t->base, err);
}

static void open_on_loop(void *arg)
{
    open_job *job = arg;
    tci_pi_sess *s = job->pi->sess;
    if (s == NULL || s->phase != TCI_PI_READY || s->number != job->session)
        job->code = tc_err_set(job->err, TC_E_CLOSED, "pi-env connection lost");
    else if (s->tunnel != NULL || s->is_tunnel_closing)
        job->code = tc_err_set(job->err, TC_E_BUSY, "the tunnel before this one is still there");
    else
        job->code = open_tunnel(s, job->framed, job->err);
}

static int connect_device(tci_pi *pi, tc_ctx *ctx, uint64_t session, const tc_device_options *o,
                          tc_device **ret_device, tc_err *err)
{
    open_job job = {.pi = pi, .session = session, .err = err};
    int rc = tci_framed_new(pi->rt, o, &job.framed, err);
    if (rc < 0)
        return rc;
    if (!tci_runtime_run(pi->rt, open_on_loop, &job))
        job.code = tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
    if (job.code < 0) {
        tci_conn_close(&job.framed->base);
        return job.code;
    }
    return tci_device_start_own(pi->rt, &job.framed->base, ctx, o, ret_device, err);
}

/* The lock is held. 1: the caller is to connect, session *ret_session. */
static int claim_device(tci_pi *pi, tc_ctx *ctx, tc_device **ret_device, uint64_t *ret_session,
                        tc_err *err)
{
    for (;;) {
        if (pi->is_closed)
            return tc_err_set(err, TC_E_CLOSED, "connection closed");
        if (pi->state != TCI_PI_LIVE)
            return tc_err_set(err, TC_E_CLOSED, "pi-env connection lost");
        if (!pi->facts.has_ext) {
            tc_err_set(err, TC_E_UNSUPPORTED, "the daemon over there is not one of ours");
            return tc_err_hint(err, "only files and commands can be reached through it");
        }
        bool is_this = pi->device != NULL && pi->device_session == pi->facts.session;
        if (is_this && tc_device_is_alive(pi->device)) {
            *ret_device = tc_device_retain(pi->device);
            return 0;
        }
        if (!pi->is_device_starting) {
            pi->is_device_starting = true;
            *ret_session = pi->facts.session;
            return 1;
        }
        int rc = tci_pi_await(pi, ctx, err);
        if (rc < 0)
            return rc;
    }
}

/* A tunnel that was just closed is answered soon. */
static int connect_patiently(tci_pi *pi, tc_ctx *ctx, uint64_t session, const tc_device_options *o,
                             tc_device **ret_device, tc_err *err)
{
    for (;;) {
        int rc = connect_device(pi, ctx, session, o, ret_device, err);
        if (rc != TC_E_BUSY)
            return rc;
        tci_mutex_lock(&pi->lock);
        rc = pi->is_closed ? tc_err_set(err, TC_E_CLOSED, "connection closed")
                           : tci_pi_await(pi, ctx, err);
        tci_mutex_unlock(&pi->lock);
        if (rc < 0)
            return rc;
    }
}

int tci_pi_device(tci_pi *pi, tc_ctx *ctx, const tc_device_options *options, tc_device **ret_device,
                  tc_err *err)
{
    tc_device_options none = {.size = sizeof none};
    const tc_device_options *o = options != NULL ? options : &none;
    tci_pi_failure *failure = NULL;
    uint64_t session = 0;
    int rc = tci_device_options_check(o, err);
    if (rc == 0)
        rc = tci_ctx_check(ctx, err);
    if (rc == 0)
        rc = tci_pi_want_session(pi, ctx, 0, &failure, err);
    tci_pi_failure_release(failure);
    if (rc < 0)
        return rc;
    tci_mutex_lock(&pi->lock);
    rc = claim_device(pi, ctx, ret_device, &session, err);
    tc_device *old = rc == 1 ? pi->device : NULL;
    if (rc == 1)
        pi->device = NULL;
    tci_mutex_unlock(&pi->lock);
    if (rc <= 0)
        return rc;
    tc_device_close(old);
    tc_device *fresh = NULL;
    rc = connect_patiently(pi, ctx, session, o, &fresh, err);
    tci_mutex_lock(&pi->lock);
    pi->is_device_starting = false;
    if (rc == 0 && !pi->is_closed) {
        pi->device = tc_device_retain(fresh);
        pi->device_session = session;
    }
    tci_pi_wake_all(pi);
    tci_mutex_unlock(&pi->lock);
    if (rc == 0)
        *ret_device = fresh;
    return rc;
}
