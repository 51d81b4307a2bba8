/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames out: two queues, gathered into as few writes as possible. Leaves what is in them to their
 * makers. Loop thread. Invariant: a frame of which a byte was sent is sent to its end, whatever becomes
 * of who wanted it. */
#include "client/pienv/pienv_int.h"

enum { CONTROL_RUN_MAX = 8 };

/* ---- choosing ---- */

typedef struct picker {
    const tci_pi_sess *sess;
    tci_link *control, *bulk; /* the next of each */
    unsigned run;
} picker;

/* Which frame comes after those chosen already: control first, but bulk gets its turn. */
static tci_pi_out *pick(picker *p)
{
    tci_link *c = p->control, *b = p->bulk;
    if (c != NULL && (b == NULL || p->run < CONTROL_RUN_MAX)) {
        p->control = tci_list_next(&p->sess->control, c);
        p->run++;
        return TCI_CONTAINER(c, tci_pi_out, link);
    }
    if (b == NULL)
        return NULL;
    p->bulk = tci_list_next(&p->sess->bulk, b);
    p->run = 0;
    return TCI_CONTAINER(b, tci_pi_out, link);
}

typedef struct batch {
    tci_iovec v[TCI_IOVEC_MAX];
    tci_pi_out *outs[TCI_IOVEC_MAX];
    size_t nv, nouts;
} batch;

static void add_rest(batch *b, tci_pi_out *out)
{
    size_t skip = out->nsent;
    b->outs[b->nouts++] = out;
    for (unsigned i = 0; i < out->nparts; i++) {
        const tci_iovec *part = &out->parts[i];
        if (skip < part->len)
            b->v[b->nv++] = (tci_iovec){(const char *)part->ptr + skip, part->len - skip};
        skip -= tci_min_size(skip, part->len);
    }
}

static void gather(tci_pi_sess *s, batch *b)
{
    picker p = {s, tci_list_first(&s->control), tci_list_first(&s->bulk), s->ncontrol_in_a_row};
    if (s->current != NULL) {
        add_rest(b, s->current);
        if (&s->current->link == p.control)
            p.control = tci_list_next(&s->control, p.control);
        else
            p.bulk = tci_list_next(&s->bulk, p.bulk);
    }
    while (b->nv + TCI_ARRAY_LEN(((tci_pi_out *)NULL)->parts) <= TCI_IOVEC_MAX) {
        tci_pi_out *out = pick(&p);
        if (out == NULL)
            return;
        add_rest(b, out);
    }
}

static void account(tci_pi_sess *s, const batch *b, size_t written)
{
    for (size_t i = 0; i < b->nouts; i++) {
        tci_pi_out *out = b->outs[i];
        size_t part = tci_min_size(written, out->nbytes - out->nsent);
        out->nsent += part;
        written -= part;
        if (out->nsent < out->nbytes) {
            if (out->nsent > 0)
                s->current = out;
            return;
        }
        s->current = NULL;
        s->ncontrol_in_a_row = out->is_bulk ? 0 : s->ncontrol_in_a_row + 1;
        tci_link_remove(&out->link);
        out->done(out, true);
    }
}

/* ---- writing ---- */

static bool has_output(const tci_pi_sess *s)
{
    return !tci_list_is_empty(&s->control) || !tci_list_is_empty(&s->bulk);
}

void tci_pi_update_want(tci_pi_sess *s)
{
    tc_err err;
    if (s->stream == NULL || s->is_eof)
        return;
    bool is_paused = tci_pi_is_paused(s);
    if (s->is_paused && !is_paused)
        s->last_byte_ns = tci_loop_now_ns(s->pi->rt->loop);
    s->is_paused = is_paused;
    unsigned want = is_paused ? 0u : (unsigned)TCI_WATCH_READ;
    if (has_output(s) && !s->is_write_broken)
        want |= TCI_WATCH_WRITE;
    if (tci_stream_want(s->stream, want, &err) < 0)
        tci_pi_sess_end_with(s, &err);
}

void tci_pi_write_out(tci_pi_sess *s)
{
    while (has_output(s) && !s->is_write_broken) {
        batch b = {.nv = 0};
        size_t n = 0;
        tc_err err;
        gather(s, &b);
        if (tci_stream_writev(s->stream, b.v, b.nv, &n, &err) < 0)
            tci_pi_sess_on_unwritable(s);
        if (n == 0)
            break;
        account(s, &b, n);
    }
    tci_pi_update_want(s);
}

static void on_flush(tci_later *later)
{
    tci_pi_sess *s = TCI_CONTAINER(later, tci_pi_sess, flush);
    if (s->stream != NULL)
        tci_pi_write_out(s);
}

void tci_pi_out_init(tci_pi_sess *s)
{
    s->flush.cb = on_flush;
}

/* ---- queueing ---- */

void tci_pi_put(tci_pi_sess *s, tci_pi_out *out)
{
    out->nbytes = 0;
    out->nsent = 0;
    for (unsigned i = 0; i < out->nparts; i++)
        out->nbytes += out->parts[i].len;
    tci_list_push_back(out->is_bulk ? &s->bulk : &s->control, &out->link);
    tci_loop_later(s->pi->rt->loop, &s->flush);
}

void tci_pi_out_drop_all(tci_pi_sess *s)
{
    s->current = NULL;
    tci_list *lists[] = {&s->control, &s->bulk};
    for (size_t i = 0; i < TCI_ARRAY_LEN(lists); i++)
        for (tci_link *link; (link = tci_list_pop_front(lists[i])) != NULL;) {
            tci_pi_out *out = TCI_CONTAINER(link, tci_pi_out, link);
            out->done(out, false);
        }
}

/* A frame whose bytes lie behind it. */
typedef struct own_out {
    tci_pi_out out;
    char bytes[];
} own_out;

static void own_done(tci_pi_out *out, bool is_written)
{
    TCI_UNUSED(is_written);
    tci_free(TCI_CONTAINER(out, own_out, out));
}

static own_out *own_new(size_t len)
{
    own_out *o = tci_mem_alloc(sizeof(own_out) + len);
    if (o == NULL)
        return NULL;
    o->out.parts[0] = (tci_iovec){o->bytes, len};
    o->out.nparts = 1;
    o->out.done = own_done;
    return o;
}

/* Put the rest of out into memory of its own, in its place. */
static bool keep_rest(tci_pi_sess *s, tci_pi_out *out)
{
    size_t at = 0, skip = out->nsent;
    own_out *o = own_new(out->nbytes - out->nsent);
    if (o == NULL)
        return false;
    for (unsigned i = 0; i < out->nparts; i++) {
        size_t drop = tci_min_size(skip, out->parts[i].len);
        size_t len = out->parts[i].len - drop;
        if (len > 0)
            memcpy(o->bytes + at, (const char *)out->parts[i].ptr + drop, len);
        at += len;
        skip -= drop;
    }
    o->out.nbytes = at;
    o->out.is_bulk = out->is_bulk;
    tci_link_insert_before(&out->link, &o->out.link);
    /* Not a byte of the new one was sent, but it has to be the next all the same. */
    s->current = &o->out;
    return true;
}

bool tci_pi_out_forget(tci_pi_sess *s, tci_pi_out *out)
{
    if (!tci_link_is_in(&out->link))
        return false;
    bool is_untouched = out->nsent == 0;
    if (!is_untouched && !keep_rest(s, out)) {
        tc_err err;
        tci_err_no_memory(&err);
        s->current = NULL;
        s->is_write_broken = true; /* the frame cannot be ended, so no other may begin */
        tci_pi_sess_end_with(s, &err);
    }
    tci_link_remove(&out->link);
    return is_untouched;
}

void tci_pi_put_small(tci_pi_sess *s, tci_pienv_type type, uint32_t id, tc_str json)
{
    tc_err err;
    tci_pienv_head head = {.type = (uint8_t)type, .id = id, .json_len = (uint32_t)json.len};
    own_out *o = own_new(TCI_PIENV_HEAD_BYTES + json.len);
    if (o == NULL || tci_pienv_head_put(&head, o->bytes, &err) < 0) {
        tci_free(o);
        tci_err_no_memory(&err);
        tci_pi_sess_end_with(s, &err);
        return;
    }
    memcpy(o->bytes + TCI_PIENV_HEAD_BYTES, json.ptr, json.len);
    tci_pi_put(s, &o->out);
}
