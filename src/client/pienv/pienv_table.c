/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls in flight, on the loop: started, noted, answered, cancelled, given up. Leaves waiting to
 * pienv_call.c. Loop thread. Invariant: a call ends exactly once, and once it has ended nothing here
 * touches its caller's memory. */
#include "client/pienv/pienv_int.h"

enum { BULK_PAYLOAD_BYTES = 64 * 1024 };

static const tci_pi_trait traits[TCI_PI_OP_COUNT] = {
    [TCI_PI_WRITE] = {.is_change = true},
    [TCI_PI_WRITE_CHUNK] = {.is_change = true, .is_bulk = true},
    [TCI_PI_COMMIT] = {.is_change = true},
    [TCI_PI_TRUNCATE] = {.is_change = true},
    [TCI_PI_RENAME] = {.is_change = true},
    [TCI_PI_MKDIR] = {.is_change = true},
    [TCI_PI_RM] = {.is_change = true},
    [TCI_PI_MKDTEMP] = {.is_change = true},
    [TCI_PI_SCAN_LINES] = {.can_cancel = true},
    [TCI_PI_EXEC] = {.is_change = true, .can_cancel = true},
    [TCI_PI_INPUT] = {.is_change = true}, /* never ahead of its exec: not in another queue */
    [TCI_PI_WATCH] = {.can_cancel = true, .is_watch = true},
    [TCI_PI_LIST_FILES] = {.can_cancel = true},
};

const tci_pi_trait *tci_pi_trait_of(int op)
{
    return &traits[op];
}

/* ---- references ---- */

static void free_pending(tci_pi_pending *p)
{
    tci_pi_in_free_all(&p->notes);
    tci_pi_in_free(p->answer);
    tci_buf_done(&p->json);
    tci_free(p);
}

void tci_pi_pending_release(tci_pi_pending *p)
{
    tci_pi *pi = p->pi;
    tci_mutex_lock(&pi->lock);
    bool is_last = --p->refs == 0;
    tci_mutex_unlock(&pi->lock);
    if (is_last)
        free_pending(p);
}

/* ---- the table ---- */

static tci_list *bucket(tci_pi_sess *s, uint32_t id)
{
    return &s->buckets[id % TCI_PI_BUCKETS];
}

tci_pi_pending *tci_pi_pending_find(tci_pi_sess *s, uint32_t id)
{
    TCI_LIST_EACH (bucket(s, id), link) {
        tci_pi_pending *p = TCI_CONTAINER(link, tci_pi_pending, link);
        if (p->id == id)
            return p;
    }
    return NULL;
}

/* Take it out of the table, and let go of the caller's memory. The reference stays. Returns whether
 * not a byte of the request was sent, and none will be. */
static bool take_out(tci_pi_pending *p)
{
    tci_pi_sess *s = p->sess;
    if (s == NULL)
        return true;
    tci_link_remove(&p->link);
    s->npending--;
    p->sess = NULL;
    bool is_taken_back = tci_pi_out_forget(s, &p->out);
    if (s->dst_owner == p) {
        s->dst_owner = NULL;
        s->payload_to = NULL; /* the rest goes nowhere */
        tci_pi_in_free(s->part);
        s->part = NULL;
    }
    p->dst = NULL;
    if (p->is_over)
        s->nover--;
    p->is_over = false;
    tci_pi_update_want(s);
    return is_taken_back;
}

/* The lock is held; whoever waits is woken by wake_caller, once it is not. */
static tci_wake *count_one(const tci_pi_pending *p)
{
    if (p->wake != NULL)
        tci_wake_count_one(p->wake);
    return p->is_awaited ? p->wake : NULL;
}

static void wake_caller(tci_wake *wake, uint32_t id)
{
    if (wake != NULL)
        tci_wake_send(wake, tci_wake_bit(id));
}

static void finish(tci_pi_pending *p, const tc_err *err, bool is_lost, bool is_unsent)
{
    tci_pi *pi = p->pi;
    tci_mutex_lock(&pi->lock);
    p->code = err != NULL ? err->code : 0;
    if (err != NULL)
        p->err = *err;
    p->is_lost = is_lost;
    p->is_unsent = is_unsent;
    p->is_done = true;
    tci_wake *wake = count_one(p);
    uint32_t id = p->id;
    bool is_last = --p->refs == 0;
    tci_mutex_unlock(&pi->lock);
    wake_caller(wake, id);
    if (is_last)
        free_pending(p);
}

void tci_pi_end(tci_pi_pending *p, const tc_err *err, bool is_lost, bool is_unsent)
{
    (void)take_out(p); /* the caller of this knows better what was sent */
    finish(p, err, is_lost, is_unsent);
}

void tci_pi_end_all(tci_pi_sess *s, const tc_err *err, bool is_lost)
{
    for (size_t i = 0; i < TCI_PI_BUCKETS; i++)
        TCI_LIST_EACH (&s->buckets[i], link) {
            tci_pi_pending *p = TCI_CONTAINER(link, tci_pi_pending, link);
            tci_pi_end(p, err, is_lost, !p->is_written);
        }
}

void tci_pi_answer_own(tci_pi_pending *p, tci_pi_in *in, bool is_in_dst)
{
    tci_mutex_lock(&p->pi->lock);
    p->answer = in;
    p->is_in_dst = is_in_dst;
    tci_mutex_unlock(&p->pi->lock);
    (void)take_out(p); /* an answer came, so it was sent */
    finish(p, NULL, false, false);
}

/* ---- starting ---- */

static void request_written(tci_pi_out *out, bool is_written)
{
    TCI_CONTAINER(out, tci_pi_pending, out)->is_written = is_written;
}

void tci_pi_pending_start(tci_post *post)
{
    tci_pi_pending *p = TCI_CONTAINER(post, tci_pi_pending, start);
    tci_pi *pi = p->pi;
    tci_pi_sess *s = pi->sess;
    if (s == NULL || s->phase != TCI_PI_READY || s->number != p->session) {
        tc_err err;
        tci_mutex_lock(&pi->lock);
        bool is_closed = pi->is_closed;
        tci_mutex_unlock(&pi->lock);
        tc_err_set(&err, TC_E_CLOSED, is_closed ? "connection closed" : "pi-env connection lost");
        finish(p, &err, !is_closed, true);
        return;
    }
    size_t payload = 0;
    for (unsigned i = 2; i < p->out.nparts; i++)
        payload += p->out.parts[i].len;
    p->sess = s;
    p->out.is_bulk = tci_pi_trait_of(p->op)->is_bulk || payload > BULK_PAYLOAD_BYTES;
    p->out.done = request_written;
    tci_list_push_back(bucket(s, p->id), &p->link);
    s->npending++;
    tci_pi_put(s, &p->out);
    if (s->nover > 0)
        tci_pi_update_want(s);
}

/* ---- giving up ---- */

static void send_cancel(tci_pi_pending *p, tci_pi_cancel_kind kind)
{
    if (kind <= p->cancel_sent || !tci_pi_trait_of(p->op)->can_cancel)
        return;
    p->cancel_sent = kind;
    tci_pi_put_small(p->sess, TCI_PIENV_CANCEL, p->id,
                     kind == TCI_PI_KILL ? TC_STR("{\"mode\":\"kill\"}") : TC_STR("{}"));
}

void tci_pi_pending_cancel(tci_post *post)
{
    tci_pi_pending *p = TCI_CONTAINER(post, tci_pi_pending, cancel);
    tci_pi *pi = p->pi;
    tci_mutex_lock(&pi->lock);
    p->is_cancel_posted = false;
    tci_pi_cancel_kind kind = p->cancel_wanted;
    tci_mutex_unlock(&pi->lock);
    if (p->sess != NULL && kind == TCI_PI_ABORT && p->out.nsent == 0 && !p->is_written) {
        tc_err err;
        tc_err_set(&err, TC_E_CANCELLED, "cancelled before it was sent");
        tci_pi_end(p, &err, false, true);
    } else if (p->sess != NULL) {
        send_cancel(p, kind);
    }
    tci_pi_pending_release(p);
}

void tci_pi_pending_stop(tci_post *post)
{
    tci_pi_pending *p = TCI_CONTAINER(post, tci_pi_pending, stop);
    if (p->sess != NULL) {
        tc_err err = p->stop_err;
        bool is_unsent = p->out.nsent == 0 && !p->is_written;
        if (!is_unsent)
            send_cancel(p, TCI_PI_ABORT);
        tci_pi_end(p, &err, false, is_unsent);
    }
    tci_pi_pending_release(p);
}

/* ---- notes, and the memory they take ---- */

bool tci_pi_is_paused(const tci_pi_sess *s)
{
    if (s->nover == 0 || tci_pi_tunnel_is_busy(s))
        return false;
    for (size_t i = 0; i < TCI_PI_BUCKETS; i++)
        TCI_LIST_EACH (&s->buckets[i], link) {
            const tci_pi_pending *p = TCI_CONTAINER(link, tci_pi_pending, link);
            if (!p->is_over && !tci_pi_trait_of(p->op)->is_watch)
                return false;
        }
    return true;
}

static void note_limit(tci_pi_pending *p)
{
    tc_err err;
    tc_err_set(&err, TC_E_OUTPUT_LIMIT, "output came faster than it was taken");
    send_cancel(p, TCI_PI_ABORT);
    tci_pi_end(p, &err, false, false);
}

void tci_pi_note_own(tci_pi_pending *p, tci_pi_in *in)
{
    tci_pi *pi = p->pi;
    size_t size = sizeof *in + in->head.json_len + in->head.payload_len;
    if (!p->has_notes_wanted) {
        tci_pi_in_free(in);
        return;
    }
    tci_mutex_lock(&pi->lock);
    tci_list_push_back(&p->notes, &in->link);
    p->notes_bytes += size;
    size_t total = p->notes_bytes;
    tci_wake *wake = count_one(p);
    tci_mutex_unlock(&pi->lock);
    wake_caller(wake, p->id);
    if (total > TCI_PI_NOTES_MAX) {
        note_limit(p);
    } else if (total > TCI_PI_NOTES_HIGH && !p->is_over) {
        p->is_over = true;
        p->sess->nover++;
        tci_pi_update_want(p->sess);
    }
}

void tci_pi_pending_resume(tci_post *post)
{
    tci_pi_pending *p = TCI_CONTAINER(post, tci_pi_pending, resume);
    tci_pi *pi = p->pi;
    tci_mutex_lock(&pi->lock);
    p->is_resume_posted = false;
    bool is_low = p->notes_bytes <= TCI_PI_NOTES_LOW;
    tci_mutex_unlock(&pi->lock);
    if (p->sess != NULL && p->is_over && is_low) {
        p->is_over = false;
        p->sess->nover--;
        tci_pi_update_want(p->sess);
    }
    tci_pi_pending_release(p);
}
