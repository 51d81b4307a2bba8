/* SPDX-License-Identifier: Apache-2.0
 *
 * A simple owner of a stream, for tests. */
#include "test_net.h"

#include "net/fd.h"
#include "plat/socket.h"

tci_loop *new_loop(void)
{
    tc_err err;
    tci_loop *loop = NULL;
    assert_int_equal(tci_loop_new(&loop, &err), 0);
    return loop;
}

/* After the peer's end writing goes on; after a failure nothing does. */
static bool may_write(const end *e)
{
    return e->stream != NULL && (!e->is_over || e->result == TC_E_END);
}

static void over(end *e, int result)
{
    e->is_over = true;
    e->result = result;
}

static void update(end *e)
{
    tc_err err;
    unsigned events = 0;
    if (e->stream == NULL)
        return;
    if (!e->is_paused && !e->is_over)
        events |= TCI_WATCH_READ;
    if (may_write(e) && (e->out_at < e->out.len || e->ends_after_out || !e->is_open))
        events |= TCI_WATCH_WRITE;
    assert_int_equal(tci_stream_want(e->stream, events, &err), 0);
}

static void read_some(end *e)
{
    static char room[200000];
    size_t n = 0, cap = e->read_cap > 0 ? e->read_cap : sizeof room;
    int rc = tci_stream_read(e->stream, room, cap, &n, &e->err);
    if (rc < 0)
        over(e, rc);
    else
        tci_buf_append(&e->in, room, n);
}

/* In up to three parts, so that gathering is tried as well. */
static void write_some(end *e)
{
    size_t left = e->out.len - e->out_at, n = 0, third = left / 3;
    const char *at = e->out.ptr + e->out_at;
    tci_iovec v[] = {{at, third}, {at + third, third}, {at + 2 * third, left - 2 * third}};
    if (left > 0) {
        int rc = tci_stream_writev(e->stream, v, 3, &n, &e->err);
        if (rc < 0) {
            over(e, rc);
            return;
        }
    }
    e->out_at += n;
    if (e->out_at < e->out.len)
        return;
    if (e->closes_after_out) {
        tci_stream_close(e->stream);
        e->stream = NULL;
        over(e, 0);
    } else if (e->ends_after_out) {
        e->ends_after_out = false;
        assert_int_equal(tci_stream_shutdown_write(e->stream, &e->err), 0);
    }
}

static void on_ready(tci_stream *s, unsigned events)
{
    end *e = s->user;
    if ((events & TCI_WATCH_WRITE) && may_write(e)) {
        e->is_open = true;
        write_some(e);
    }
    if ((events & TCI_WATCH_READ) && e->stream != NULL && !e->is_over)
        read_some(e);
    update(e);
}

void end_init(end *e, tci_stream *stream)
{
    *e = (end){.stream = stream};
    tci_buf_init(&e->in, TCI_BUF_MAX);
    tci_buf_init(&e->out, TCI_BUF_MAX);
    stream->on_ready = on_ready;
    stream->user = e;
    update(e);
}

void end_send(end *e, const void *bytes, size_t len)
{
    tci_buf_append(&e->out, bytes, len);
    assert_true(tci_buf_ok(&e->out));
    update(e);
}

void end_resume(end *e)
{
    e->is_paused = false;
    update(e);
}

void end_done(end *e)
{
    tci_stream_close(e->stream);
    tci_buf_done(&e->in);
    tci_buf_done(&e->out);
}

void stream_pair(tci_loop *loop, tci_stream *ret[2])
{
    tc_err err;
    int fds[2];
    assert_int_equal(tci_socket_pair(fds, &err), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tci_fd_stream_new(loop, fds[i], fds[i], true, &ret[i], &err), 0);
}
