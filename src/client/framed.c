/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing frames. Leaves the child to spawn.c, and what is in them to messages.c. Loop
 * thread. Invariant: nothing here fails the connection from inside a call of conn.c: failures found
 * while writing are told at the end of the turn. */
#include "client/framed.h"

#include "plat/fd.h"

enum { READ_BYTES = 64 * 1024, READS_PER_TURN = 16, CONTROL_RUN_MAX = 8 };

/* ---- the end ---- */

static void on_end(tci_later *later)
{
    tci_framed *f = TCI_CONTAINER(later, tci_framed, end);
    tci_hatch_explain(f, &f->end_err);
    tci_conn_fail(&f->base, &f->end_err);
}

static void end_with(tci_framed *f, const tc_err *err)
{
    if (f->base.is_dead || f->end_err.code != TC_OK)
        return;
    f->end_err = *err;
    tci_loop_later(f->base.rt->loop, &f->end);
}

static void drop_outs(tci_list *list)
{
    for (tci_link *link; (link = tci_list_pop_front(list)) != NULL;) {
        tci_out *out = TCI_CONTAINER(link, tci_out, link);
        out->done(out, false);
    }
}

static void framed_stop(tci_messages *m)
{
    tci_framed *f = tci_framed_of(&m->base);
    tci_later_cancel(&f->flush);
    tci_later_cancel(&f->end);
    f->current = NULL;
    drop_outs(&f->control);
    drop_outs(&f->data);
    if (f->is_stream_open)
        tci_stream_close(f->stream);
    f->is_stream_open = false;
    if (f->has_hatch)
        tci_hatch_stop(f);
    else
        tci_conn_stopped(&f->base);
}

static void framed_free(tci_messages *m)
{
    tci_framed *f = tci_framed_of(&m->base);
    tci_held_free(f->part_held);
    tci_free(f->part_block);
    tci_free(f->buf);
    tci_free(f);
}

/* ---- writing ---- */

static void framed_put(tci_messages *m, tci_out *out)
{
    tci_framed *f = tci_framed_of(&m->base);
    tci_list_push_back(out->is_control ? &f->control : &f->data, &out->link);
    if (f->base.is_dead || f->end_err.code != TC_OK)
        return; /* stop drops it */
    tci_loop_later(f->base.rt->loop, &f->flush);
}

/* Which frame comes next after those chosen already: control first, but data gets its turn. */
static tci_link *pick(tci_framed *f, tci_link **control, tci_link **data, unsigned *run)
{
    tci_link *c = *control, *d = *data;
    if (c != NULL && (d == NULL || *run < CONTROL_RUN_MAX)) {
        *control = tci_list_next(&f->control, c);
        (*run)++;
        return c;
    }
    if (d != NULL) {
        *data = tci_list_next(&f->data, d);
        *run = 0;
    }
    return d;
}

typedef struct batch {
    tci_iovec v[TCI_IOVEC_MAX];
    tci_out *outs[TCI_IOVEC_MAX];
    size_t nv, nouts;
} batch;

static void add_rest(batch *b, tci_out *out)
{
    size_t skip = out->nsent;
    b->outs[b->nouts++] = out;
    for (unsigned i = 0; i < out->nparts; i++) {
        if (skip >= out->parts[i].len) {
            skip -= out->parts[i].len;
            continue;
        }
        b->v[b->nv++] =
            (tci_iovec){(const char *)out->parts[i].ptr + skip, out->parts[i].len - skip};
        skip = 0;
    }
}

static void gather(tci_framed *f, batch *b)
{
    tci_link *control = tci_list_first(&f->control), *data = tci_list_first(&f->data);
    unsigned run = f->ncontrol_in_a_row;
    if (f->current != NULL) {
        add_rest(b, f->current);
        if (&f->current->link == control)
            control = tci_list_next(&f->control, control);
        else
            data = tci_list_next(&f->data, data);
    }
    while (b->nv + 3 <= TCI_IOVEC_MAX) {
        tci_link *link = pick(f, &control, &data, &run);
        if (link == NULL)
            return;
        add_rest(b, TCI_CONTAINER(link, tci_out, link));
    }
}

static void account(tci_framed *f, const batch *b, size_t written)
{
    for (size_t i = 0; i < b->nouts && written > 0; i++) {
        tci_out *out = b->outs[i];
        size_t part = tci_min_size(written, out->nbytes - out->nsent);
        out->nsent += part;
        written -= part;
        f->current = out->nsent < out->nbytes ? out : NULL;
        if (f->current != NULL)
            return;
        f->ncontrol_in_a_row = out->is_control ? f->ncontrol_in_a_row + 1 : 0;
        tci_link_remove(&out->link);
        out->done(out, true);
    }
}

static bool has_output(const tci_framed *f)
{
    return !tci_list_is_empty(&f->control) || !tci_list_is_empty(&f->data);
}

static void write_out(tci_framed *f)
{
    tc_err err;
    while (has_output(f) && f->end_err.code == TC_OK) {
        batch b = {.nv = 0};
        size_t n = 0;
        gather(f, &b);
        if (tci_stream_writev(f->stream, b.v, b.nv, &n, &err) < 0) {
            tc_err_wrap(&err, "cannot write to the daemon");
            err.code = TC_E_CLOSED;
            end_with(f, &err);
            return;
        }
        if (n == 0)
            break;
        account(f, &b, n);
    }
    unsigned want = TCI_WATCH_READ | (has_output(f) ? TCI_WATCH_WRITE : 0u);
    if (tci_stream_want(f->stream, want, &err) < 0)
        end_with(f, &err);
}

static void on_flush(tci_later *later)
{
    tci_framed *f = TCI_CONTAINER(later, tci_framed, flush);
    if (f->is_stream_open)
        write_out(f);
}

/* ---- reading ---- */

/* The body is larger than what is here: gather it in the memory it will stay in. */
static int begin_part(tci_framed *f, tc_err *err)
{
    size_t len = f->reader.body_len;
    if (f->reader.kind == TCI_FRAME_CONTROL) {
        f->part_held = tci_held_new(len);
        f->part = f->part_held != NULL ? f->part_held->text : NULL;
    } else {
        f->part_block = tci_block_new(len, 0);
        f->part = f->part_block != NULL ? f->part_block->bytes : NULL;
    }
    if (f->part == NULL)
        return tci_err_no_memory(err);
    f->part_len = len;
    f->part_got = tci_min_size(len, f->len - f->at);
    memcpy(f->part, f->buf + f->at, f->part_got);
    f->at += f->part_got;
    return 0;
}

static int end_part(tci_framed *f, tc_err *err)
{
    tci_frame frame;
    tci_held *held = f->part_held;
    tci_block *block = f->part_block;
    tc_str body = tci_str_of(f->part, f->part_len);
    f->part = NULL;
    f->part_held = NULL;
    f->part_block = NULL;
    if (tci_frames_body(&f->reader, body, &frame, err) < 0) {
        tci_held_free(held);
        tci_free(block);
        return err->code;
    }
    if (block != NULL)
        return tci_messages_data_own(&f->messages, body, block, err);
    return tci_messages_control_own(&f->messages, held, err);
}

static int take_frame(tci_framed *f, const tci_frame *frame, tc_err *err)
{
    if (frame->kind == TCI_FRAME_CONTROL)
        return tci_messages_control_own(&f->messages, tci_held_of(frame->body), err);
    return tci_messages_data_own(&f->messages, frame->body, NULL, err);
}

/* Everything that is complete in the buffer. */
static int parse(tci_framed *f, tc_err *err)
{
    while (f->at < f->len && !f->base.is_dead) {
        size_t used = 0;
        tci_frames_event event;
        tci_frame frame;
        tc_str in = tci_str_of(f->buf + f->at, f->len - f->at);
        int rc = tci_frames_next(&f->reader, in, &used, &event, &frame, err);
        if (rc < 0)
            return rc;
        f->at += used;
        switch (event) {
        case TCI_FRAMES_MORE:
            break;
        case TCI_FRAMES_PART:
            return begin_part(f, err);
        case TCI_FRAMES_FRAME:
            rc = take_frame(f, &frame, err);
            if (rc < 0)
                return rc;
            break;
        }
    }
    f->at = f->len = 0;
    return 0;
}

static int at_eof(tci_framed *f, tc_err *err)
{
    if (f->part != NULL || tci_frames_eof(&f->reader, err) < 0)
        return tc_err_set(err, TC_E_CLOSED, "the daemon's output ended inside a frame");
    return tc_err_set(err, TC_E_CLOSED, "the daemon ended the connection");
}

/* One read. *ret_n 0: nothing there now. */
static int read_some(tci_framed *f, size_t *ret_n, tc_err *err)
{
    int rc;
    if (f->part != NULL)
        rc = tci_stream_read(f->stream, f->part + f->part_got, f->part_len - f->part_got, ret_n,
                             err);
    else
        rc = tci_stream_read(f->stream, f->buf, READ_BYTES, ret_n, err);
    if (rc == TC_E_END)
        return at_eof(f, err);
    if (rc < 0) {
        tc_err_wrap(err, "cannot read from the daemon");
        return tc_err_recode(err, TC_E_CLOSED);
    }
    if (f->part == NULL) {
        f->at = 0;
        f->len = *ret_n;
        return parse(f, err);
    }
    f->part_got += *ret_n;
    return f->part_got == f->part_len ? end_part(f, err) : 0;
}

static void on_ready(tci_stream *s, unsigned events)
{
    tci_framed *f = s->user;
    tc_err err;
    if ((events & TCI_WATCH_READ) != 0)
        for (int i = 0; i < READS_PER_TURN && !f->base.is_dead; i++) {
            size_t n = 0;
            if (read_some(f, &n, &err) < 0) {
                if (err.code != TC_E_CLOSED && err.code != TC_E_NO_MEMORY) {
                    tc_err_recode(&err, TC_E_PROTOCOL);
                    tc_err_wrap(&err, "the daemon broke the protocol");
                }
                end_with(f, &err);
                return;
            }
            if (n == 0)
                break;
        }
    if ((events & TCI_WATCH_WRITE) != 0 && f->is_stream_open)
        write_out(f);
}

/* ---- the link ---- */

static tci_progress framed_progress(tci_messages *m, const tci_out *out)
{
    TCI_UNUSED(m);
    return out->nsent == 0 ? TCI_PROGRESS_NONE : TCI_PROGRESS_PART; /* nsent == nbytes is done */
}

static bool framed_take_back(tci_messages *m, tci_out *out)
{
    TCI_UNUSED(m);
    if (out->nsent > 0)
        return false;
    tci_link_remove(&out->link);
    out->done(out, false);
    return true;
}

static const tci_message_link framed_link = {
    .has_heads = true,
    .put = framed_put,
    .progress = framed_progress,
    .take_back = framed_take_back,
    .stop = framed_stop,
    .free = framed_free,
};

/* ---- opening ---- */

int tci_framed_new(tc_runtime *rt, const tc_device_options *options, tci_framed **ret_framed,
                   tc_err *err)
{
    tci_framed *f = tci_new(tci_framed);
    char *buf = tci_mem_resize(NULL, READ_BYTES);
    if (f == NULL || buf == NULL) {
        tci_free(f);
        tci_free(buf);
        return tci_err_no_memory(err);
    }
    tci_messages_init(&f->messages, &framed_link, rt, options);
    f->buf = buf;
    f->flush.cb = on_flush;
    f->end.cb = on_end;
    f->hatch.stderr_fd = -1;
    f->hatch.child = TCI_CHILD_NONE;
    tci_list_init(&f->control);
    tci_list_init(&f->data);
    tci_frames_init(&f->reader, atomic_load(&f->base.max_response_bytes),
                    atomic_load(&f->base.max_frame_bytes));
    *ret_framed = f;
    return 0;
}

int tci_framed_start_own(tci_framed *f, tci_stream *stream, tc_err *err)
{
    f->stream = stream;
    f->is_stream_open = true;
    stream->on_ready = on_ready;
    stream->user = f;
    tci_conn_add(&f->base);
    return tci_stream_want(stream, TCI_WATCH_READ, err);
}

typedef struct open_job {
    tci_framed *framed;
    int read_fd, write_fd;
    int code;
    tc_err *err;
} open_job;

static void open_on_loop(void *arg)
{
    open_job *job = arg;
    tci_stream *stream = NULL;
    job->code = tci_fd_stream_new(job->framed->base.rt->loop, job->read_fd, job->write_fd, true,
                                  &stream, job->err);
    if (job->code == 0)
        job->code = tci_framed_start_own(job->framed, stream, job->err);
}

int tci_framed_open_own(tc_runtime *rt, int read_fd, int write_fd, const tc_device_options *options,
                        tci_conn **ret_conn, tc_err *err)
{
    tci_framed *f = NULL;
    open_job job = {.read_fd = read_fd, .write_fd = write_fd, .err = err};
    job.code = tci_framed_new(rt, options, &f, err);
    job.framed = f;
    if (job.code == 0 && !tci_runtime_run(rt, open_on_loop, &job))
        job.code = tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
    if (job.code < 0) {
        if (f == NULL || !f->is_stream_open) {
            if (write_fd != read_fd)
                tci_fd_close(&write_fd);
            tci_fd_close(&read_fd);
        }
        if (f != NULL)
            tci_conn_close(&f->base);
        return job.code;
    }
    *ret_conn = &f->base;
    return 0;
}
