/* SPDX-License-Identifier: Apache-2.0
 *
 * Passing on content, a window of it at a time. Leaves frames and HTTP bodies to the carriers. Loop thread.
 * Invariant: one that its owner has left stays until the device has let go of it too (a reset and its echo), so
 * that what is still under way finds it. */
#include "client/relay.h"

#include "base/utf8.h"

enum { HANDLE_MAX = 512, RESET_MS = 5000, SILENT_MS = 60000 };

/* ---- life ---- */

static tci_block *pop(tci_list *list)
{
    tci_link *k = tci_list_pop_front(list);
    return k != NULL ? TCI_CONTAINER(k, tci_block, link) : NULL;
}

static void drop_blocks(tci_relay_xfer *rx)
{
    for (tci_block *b; (b = pop(&rx->x.ready)) != NULL;)
        tci_free(b);
    for (tci_block *b; (b = pop(&rx->blanks)) != NULL;)
        tci_free(b);
}

/* The link's half ends. */
static void cut(tci_relay_xfer *rx)
{
    if (rx->is_cut)
        return;
    rx->is_cut = true;
    tci_xfer_unlink(&rx->x);
    rx->x.conn->v->xfer_forget(&rx->x);
    drop_blocks(rx);
}

static void xfer_free(tci_relay_xfer *rx)
{
    tci_relay *r = rx->relay;
    cut(rx);
    tci_later_cancel(&rx->later);
    tci_link_remove(&rx->link);
    tci_relay_release(rx->sess);
    tci_free(rx->handle);
    tci_free(rx);
    r->nxfers--;
    if (r->idle != NULL)
        r->idle(r);
}

tci_relay_state tci_relay_xfer_state(const tci_relay_xfer *rx)
{
    if (rx->is_cut || rx->x.is_failed || rx->x.state == TCI_XFER_FAILED)
        return TCI_RELAY_FAILED;
    if (rx->x.is_ended)
        return TCI_RELAY_ENDED;
    return rx->x.is_attached ? TCI_RELAY_OPEN : TCI_RELAY_ATTACHING;
}

const tc_err *tci_relay_xfer_error(const tci_relay_xfer *rx)
{
    return rx->x.is_failed ? &rx->x.err : &rx->err;
}

void tci_relay_xfer_cut(tci_relay_xfer *rx, const tc_err *err)
{
    rx->err = *err;
    cut(rx);
    tci_loop_later(rx->relay->rt->loop, &rx->later); /* who owns it, or nobody */
}

/* ---- news ---- */

static void maybe_finish(tci_relay_xfer *rx)
{
    if (!rx->is_finishing || rx->nout > 0 || rx->x.state != TCI_XFER_OPEN)
        return;
    rx->is_finishing = false;
    rx->x.conn->v->xfer_end(&rx->x);
}

/* The device has taken some: there is room again. */
static void take_back(tci_relay_xfer *rx)
{
    for (tci_block *b; !rx->x.is_read && (b = pop(&rx->x.ready)) != NULL;) {
        rx->nout--;
        tci_list_push_back(&rx->blanks, &b->link);
    }
}

static void on_later(tci_later *later)
{
    tci_relay_xfer *rx = TCI_CONTAINER(later, tci_relay_xfer, later);
    if (rx->is_left) {
        if (rx->is_cut || rx->x.is_reset || rx->x.state == TCI_XFER_FAILED)
            xfer_free(rx);
        return;
    }
    if (!rx->is_cut) {
        take_back(rx);
        maybe_finish(rx);
    }
    rx->news(rx);
}

static void on_news(tci_xfer *x)
{
    tci_relay_xfer *rx = TCI_CONTAINER(x, tci_relay_xfer, x);
    tci_loop_later(rx->relay->rt->loop, &rx->later);
}

/* ---- beginning ---- */

static tci_relay_xfer *find(tci_relay *r, const tci_relay_sess *s, tc_str handle)
{
    TCI_LIST_EACH (&r->xfers, k) {
        tci_relay_xfer *rx = TCI_CONTAINER(k, tci_relay_xfer, link);
        if (rx->sess == s && !rx->is_cut && tci_str_eq(rx->x.handle, handle))
            return rx;
    }
    return NULL;
}

/* Those of which the device never said that they are reset. */
static void forget_silent(tci_relay *r)
{
    int64_t before_ms = tci_loop_now_ms(r->rt->loop) - SILENT_MS;
    TCI_LIST_EACH (&r->xfers, k) {
        tci_relay_xfer *rx = TCI_CONTAINER(k, tci_relay_xfer, link);
        if (rx->is_left && rx->left_ms < before_ms)
            xfer_free(rx);
    }
}

/* The session as it is on the link. */
static int find_sess(tci_relay *r, tc_str session, tc_str handle, tci_relay_sess **ret, tc_err *err)
{
    tci_relay_sess *s = tci_relay_find(r, session);
    if (!tci_relay_is_linked(r) || s == NULL || !s->is_known || s->is_attaching ||
        s->sess == NULL || s->sess->is_dead)
        return tc_err_set(err, TC_E_BAD_HANDLE, "no such session");
    if (handle.len == 0 || handle.len > HANDLE_MAX || !tci_utf8_is_valid(handle))
        return tc_err_set(err, TC_E_BAD_HANDLE, "no such handle");
    forget_silent(r);
    if (r->nxfers >= TCI_RELAY_XFERS_MAX)
        return tc_err_set(err, TC_E_BUSY, "%d transfers of this device are under way",
                          TCI_RELAY_XFERS_MAX);
    *ret = s;
    return 0;
}

static int xfer_new(tci_relay *r, tci_relay_sess *s, tc_str handle, bool is_read,
                    tci_relay_xfer **ret, tc_err *err)
{
    tci_relay_xfer *rx = tci_new(tci_relay_xfer);
    char *text = tci_mem_cstr(handle);
    if (rx == NULL || text == NULL) {
        tci_free(rx);
        tci_free(text);
        return tci_err_no_memory(err);
    }
    rx->relay = r;
    rx->sess = s;
    rx->handle = text;
    rx->later.cb = on_later;
    tci_list_init(&rx->blanks);
    tci_xfer_init(&rx->x, r->device->conn, s->sess, tci_str_of(text, handle.len), is_read, NULL);
    rx->x.max_bytes = UINT64_MAX; /* who asked knows how many */
    rx->x.reset_status = TCI_EIPD_STATUS_CANCELLED;
    rx->x.news = on_news;
    s->nuses++;
    tci_list_push_back(&r->xfers, &rx->link);
    r->nxfers++;
    tci_xfer_link(&rx->x);
    *ret = rx;
    return 0;
}

int tci_relay_xfer_start(tci_relay *r, tc_str session, tc_str handle, bool is_read,
                         void (*news)(tci_relay_xfer *rx), void *user, tci_relay_xfer **ret,
                         tc_err *err)
{
    tci_relay_sess *s;
    tci_loop_assert(r->rt->loop);
    int rc = find_sess(r, session, handle, &s, err);
    if (rc == 0 && find(r, s, handle) != NULL)
        rc = tc_err_set(err, TC_E_BAD_HANDLE, "it is being transferred");
    if (rc == 0)
        rc = xfer_new(r, s, handle, is_read, ret, err);
    if (rc < 0)
        return rc;
    (*ret)->news = news;
    (*ret)->user = user;
    (*ret)->x.conn->v->xfer_start(&(*ret)->x);
    return 0;
}

/* ---- content ---- */

tci_block *tci_relay_xfer_next(tci_relay_xfer *rx)
{
    return rx->is_cut ? NULL : pop(&rx->x.ready);
}

static void give(tci_relay_xfer *rx, tci_block *b)
{
    tci_xfer *x = &rx->x;
    b->xfer = x;
    if (rx->is_cut || x->state == TCI_XFER_FAILED || x->state == TCI_XFER_RESETTING)
        tci_free(b);
    else
        x->conn->v->xfer_give(x, b);
}

void tci_relay_xfer_taken(tci_relay_xfer *rx, tci_block *b)
{
    give(rx, b);
}

tci_block *tci_relay_xfer_blank(tci_relay_xfer *rx)
{
    tci_xfer *x = &rx->x;
    if (rx->is_cut)
        return NULL;
    take_back(rx);
    tci_block *b = pop(&rx->blanks);
    if (b == NULL && x->nblocks < TCI_WINDOW) {
        b = tci_block_new(x->head_cap, x->chunk_bytes);
        if (b != NULL)
            x->nblocks++;
    }
    if (b != NULL)
        b->len = 0;
    return b;
}

void tci_relay_xfer_send(tci_relay_xfer *rx, tci_block *b)
{
    rx->nout++;
    give(rx, b);
}

void tci_relay_xfer_finish(tci_relay_xfer *rx)
{
    rx->is_finishing = true;
    if (!rx->is_cut)
        maybe_finish(rx);
}

/* ---- the end ---- */

static void note_left(tci_relay_xfer *rx)
{
    rx->is_left = true;
    rx->left_ms = tci_loop_now_ms(rx->relay->rt->loop);
    rx->news = NULL;
}

void tci_relay_xfer_leave(tci_relay_xfer *rx)
{
    note_left(rx);
    if (tci_relay_xfer_state(rx) >= TCI_RELAY_ENDED) {
        xfer_free(rx);
        return;
    }
    rx->x.conn->v->xfer_reset(&rx->x, TCI_EIPD_STATUS_CANCELLED); /* on_later frees it */
}

static void reset_over(tci_relay_reset *q, bool was_reset)
{
    tci_timer_stop(&q->timer);
    q->rx = NULL;
    q->done(q, was_reset);
}

static void on_reset_news(tci_relay_xfer *rx)
{
    tci_relay_reset *q = rx->user;
    if (!rx->is_cut && !rx->x.is_reset && rx->x.state != TCI_XFER_FAILED)
        return;
    bool was_reset =
        !rx->is_cut && !rx->x.is_failed && rx->x.reset_status == TCI_EIPD_STATUS_CANCELLED;
    xfer_free(rx);
    reset_over(q, was_reset);
}

/* The device is silent about one that it knows nothing of, or that has ended. */
static void on_reset_limit(tci_timer *t)
{
    tci_relay_reset *q = TCI_CONTAINER(t, tci_relay_reset, timer);
    xfer_free(q->rx);
    reset_over(q, false);
}

int tci_relay_reset_start(tci_relay *r, tc_str session, tc_str handle, bool is_read,
                          tci_relay_reset *q, tc_err *err)
{
    tci_relay_sess *s;
    tci_relay_xfer *rx;
    int rc = find_sess(r, session, handle, &s, err);
    if (rc < 0)
        return rc;
    rx = find(r, s, handle);
    if (rx != NULL || tci_sess_has_ended_handle(s->sess, handle)) {
        /* Its owner hears of it, and what is left of it goes. */
        if (rx != NULL && tci_relay_xfer_state(rx) < TCI_RELAY_ENDED) {
            tc_err_set(&rx->err, TC_E_CANCELLED, "the transfer was reset");
            rx->x.conn->v->xfer_reset(&rx->x, TCI_EIPD_STATUS_CANCELLED);
        }
        q->done(q, true);
        return 0;
    }
    tci_timer_init(&q->timer, r->rt->loop, on_reset_limit);
    rc = tci_timer_start(&q->timer, RESET_MS, err);
    if (rc == 0)
        rc = xfer_new(r, s, handle, is_read, &rx, err);
    if (rc < 0) {
        tci_timer_stop(&q->timer);
        return rc;
    }
    rx->news = on_reset_news;
    rx->user = q;
    q->rx = rx;
    rx->x.conn->v->xfer_reset(&rx->x, TCI_EIPD_STATUS_CANCELLED);
    return 0;
}

void tci_relay_reset_leave(tci_relay_reset *q)
{
    tci_timer_stop(&q->timer);
    if (q->rx == NULL)
        return;
    note_left(q->rx);
    q->rx = NULL;
}
