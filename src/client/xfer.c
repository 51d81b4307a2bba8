/* SPDX-License-Identifier: Apache-2.0
 *
 * The caller's side of a transfer: handing blocks between its thread and the loop. Leaves frames
 * and HTTP bodies to the carriers, digests to transfer.c. Invariant: the storage is the caller's,
 * and the loop has no pointer to it after tci_xfer_done. */
#include "client/client_int.h"

enum { CHUNK_BYTES = 256 * 1024, ATTACH_MS = 40000, RESET_MS = 5000, END_MS = 600000 };

tci_block *tci_block_new(size_t head_cap, size_t cap)
{
    size_t size;
    if (!tci_add_size(sizeof(tci_block) + head_cap, cap, &size))
        return NULL;
    tci_block *b = tci_mem_resize(NULL, size) /* not zeroed: it is filled */;
    if (b == NULL)
        return NULL;
    memset(b, 0, sizeof *b);
    b->head_cap = head_cap;
    b->cap = cap;
    b->payload = b->bytes + head_cap;
    return b;
}

int tci_xfer_reset_error(tci_eipd_status status, tc_err *err)
{
    tc_code code = TC_E_PROTOCOL;
    switch (status) {
    case TCI_EIPD_STATUS_NONE:
    case TCI_EIPD_STATUS_PROTOCOL:
        code = TC_E_PROTOCOL;
        break;
    case TCI_EIPD_STATUS_DENIED:
        code = TC_E_DENIED;
        break;
    case TCI_EIPD_STATUS_EXPIRED:
        code = TC_E_TIMEOUT;
        break;
    case TCI_EIPD_STATUS_SOURCE:
        code = TC_E_IO;
        break;
    case TCI_EIPD_STATUS_LIMIT:
        code = TC_E_QUOTA;
        break;
    case TCI_EIPD_STATUS_CANCELLED:
        code = TC_E_CANCELLED;
        break;
    case TCI_EIPD_STATUS_INTERNAL:
        code = TC_E_INTERNAL;
        break;
    }
    return tc_err_set(err, code, "the daemon reset the transfer: %s", tci_eipd_status_name(status));
}

/* ---- loop thread ---- */

/* Under the lock, which is given back. A caller's transfer may be gone after this, an owner's on the loop is not. */
static void tell(tci_xfer *x)
{
    void (*news)(tci_xfer *) = x->news;
    tc_runtime *rt = x->conn->rt;
    tci_wake_all(x->wake);
    tci_mutex_unlock(&rt->lock);
    if (news != NULL)
        news(x);
}

void tci_xfer_tell(tci_xfer *x, bool *flag)
{
    tc_runtime *rt = x->conn->rt;
    tci_mutex_lock(&rt->lock);
    *flag = true;
    tell(x);
}

void tci_xfer_deliver(tci_xfer *x, tci_block *b)
{
    tc_runtime *rt = x->conn->rt;
    tci_mutex_lock(&rt->lock);
    tci_list_push_back(&x->ready, &b->link);
    tell(x);
}

void tci_xfer_fail(tci_xfer *x, const tc_err *err)
{
    tc_runtime *rt = x->conn->rt;
    x->state = TCI_XFER_FAILED;
    tci_mutex_lock(&rt->lock);
    if (!x->is_failed) {
        x->is_failed = true;
        x->err = *err;
    }
    x->is_reset = true; /* no echo will come */
    tell(x);
}

static void start_on_loop(void *arg)
{
    tci_xfer *x = arg;
    if (x->sess->is_dead) {
        tci_xfer_fail(x, &x->sess->fail);
        return;
    }
    tci_xfer_link(x);
    x->conn->v->xfer_start(x);
}

static void done_on_loop(void *arg)
{
    tci_xfer *x = arg;
    tci_xfer_unlink(x);
    x->conn->v->xfer_forget(x);
}

static void give_on_loop(tci_post *post)
{
    tci_block *b = TCI_CONTAINER(post, tci_block, post);
    tci_xfer *x = b->xfer;
    if (x->state == TCI_XFER_FAILED || x->state == TCI_XFER_RESETTING)
        tci_free(b);
    else
        x->conn->v->xfer_give(x, b);
}

static void end_on_loop(tci_post *post)
{
    tci_xfer *x = TCI_CONTAINER(post, tci_xfer, end);
    if (x->state == TCI_XFER_OPEN)
        x->conn->v->xfer_end(x);
}

static void reset_on_loop(void *arg)
{
    tci_xfer *x = arg;
    if (x->state == TCI_XFER_FAILED || !x->is_linked) {
        tci_xfer_tell(x, &x->is_reset);
        return;
    }
    x->conn->v->xfer_reset(x, x->reset_status);
}

/* ---- caller's thread ---- */

void tci_xfer_init(tci_xfer *x, tci_conn *c, tci_sess *s, tc_str handle, bool is_read, tc_ctx *ctx)
{
    *x = (tci_xfer){.conn = c, .sess = s, .handle = handle, .is_read = is_read};
    x->wake = ctx != NULL ? &ctx->wake : &x->own_wake;
    /* In front of a payload: the frame's header and the data frame's. */
    x->head_cap = TCI_FRAMES_PUT_MAX + TCI_EIPD_FIXED_BYTES + s->id.len + handle.len;
    uint64_t frame = atomic_load(&c->max_frame_bytes);
    uint64_t head = TCI_EIPD_FIXED_BYTES + s->id.len + handle.len;
    x->chunk_bytes = frame > head ? (size_t)tci_min_u64(frame - head, CHUNK_BYTES) : 1;
    tci_list_init(&x->sent);
    tci_list_init(&x->queue);
    tci_list_init(&x->ready);
}

/* Wait until one of the things looked for is there. The lock is held on return. */
static int wait_for(tci_xfer *x, tc_ctx *ctx, const bool *flag, bool take_block,
                    int64_t patience_ms, const char *what, tc_err *err)
{
    tc_runtime *rt = x->conn->rt;
    int64_t give_up = tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns((uint64_t)patience_ms));
    int64_t deadline = tci_ctx_deadline_ns(ctx);
    bool is_patience = deadline == 0 || give_up < deadline;
    for (;;) {
        unsigned seen = tci_wake_count(x->wake);
        int rc = tci_ctx_check(ctx, err);
        tci_mutex_lock(&rt->lock);
        if ((take_block && !tci_list_is_empty(&x->ready)) || (flag != NULL && *flag))
            return 0;
        if (x->is_failed) {
            *err = x->err;
            return err->code;
        }
        if (rc < 0)
            return rc;
        if (is_patience && tci_clock_mono_ns() >= give_up)
            return tc_err_set(err, TC_E_TIMEOUT, "the daemon did not %s in time", what);
        tci_mutex_unlock(&rt->lock);
        tci_wake_wait(x->wake, seen, is_patience ? give_up : deadline);
    }
}

static int unlock_with(tci_xfer *x, int rc)
{
    tci_mutex_unlock(&x->conn->rt->lock);
    return rc;
}

int tci_xfer_attach(tci_xfer *x, tc_ctx *ctx, tc_err *err)
{
    if (!tci_runtime_run(x->conn->rt, start_on_loop, x))
        return tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
    return unlock_with(
        x, wait_for(x, ctx, &x->is_attached, false, ATTACH_MS, "attach the transfer", err));
}

static tci_block *pop_ready(tci_xfer *x)
{
    tci_link *link = tci_list_pop_front(&x->ready);
    return link != NULL ? TCI_CONTAINER(link, tci_block, link) : NULL;
}

int tci_xfer_next(tci_xfer *x, tc_ctx *ctx, tci_block **ret_block, tc_err *err)
{
    int rc = wait_for(x, ctx, &x->is_ended, true, END_MS, "send content", err);
    if (rc == 0)
        *ret_block = pop_ready(x);
    return unlock_with(x, rc);
}

void tci_xfer_give(tci_xfer *x, tci_block *b)
{
    b->xfer = x;
    b->post.cb = give_on_loop;
    if (!tci_runtime_post(x->conn->rt, &b->post))
        tci_free(b);
}

int tci_xfer_blank(tci_xfer *x, tc_ctx *ctx, tci_block **ret_block, tc_err *err)
{
    if (x->nblocks < TCI_WINDOW) {
        /* Chunks of the same size all along, so that returned ones fit any content. */
        tci_block *b = tci_block_new(x->head_cap, x->chunk_bytes);
        if (b == NULL)
            return tci_err_no_memory(err);
        tci_mutex_lock(&x->conn->rt->lock);
        bool is_failed = x->is_failed;
        if (is_failed)
            *err = x->err;
        tci_mutex_unlock(&x->conn->rt->lock);
        if (is_failed) {
            tci_free(b);
            return err->code;
        }
        x->nblocks++;
        *ret_block = b;
        return 0;
    }
    int rc = wait_for(x, ctx, NULL, true, END_MS, "take content", err);
    if (rc == 0)
        *ret_block = pop_ready(x);
    return unlock_with(x, rc);
}

int tci_xfer_finish(tci_xfer *x, tc_ctx *ctx, tc_err *err)
{
    /* Every chunk is credited before the end is announced. */
    for (unsigned returned = 0; returned < x->nblocks; returned++) {
        tci_block *b = NULL;
        int rc = wait_for(x, ctx, NULL, true, END_MS, "take content", err);
        if (rc == 0)
            b = pop_ready(x);
        unlock_with(x, rc);
        if (rc < 0)
            return rc;
        tci_free(b);
    }
    x->nblocks = 0;
    x->end.cb = end_on_loop;
    if (!tci_runtime_post(x->conn->rt, &x->end))
        return tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
    return unlock_with(x, wait_for(x, ctx, &x->is_ended, false, END_MS, "confirm the end", err));
}

void tci_xfer_abort(tci_xfer *x, tci_eipd_status status)
{
    tc_err err;
    x->reset_status = status;
    if (!tci_runtime_run(x->conn->rt, reset_on_loop, x))
        return;
    int rc = wait_for(x, NULL, &x->is_reset, false, RESET_MS, "echo a reset", &err);
    unlock_with(x, rc);
    if (rc == TC_E_TIMEOUT) {
        tc_err_recode(&err, TC_E_PROTOCOL);
        tci_sess_break(x->sess, &err);
    }
}

void tci_xfer_done(tci_xfer *x)
{
    if (!tci_runtime_run(x->conn->rt, done_on_loop, x))
        x->conn->v->xfer_forget(x); /* nobody else is left */
    for (tci_block *b; (b = pop_ready(x)) != NULL;)
        tci_free(b);
}
