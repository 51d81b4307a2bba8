/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream over descriptors. Leaves system calls to plat/, readiness to the loop. Loop thread.
 * Invariant: nothing of a stream is touched after its on_ready was called, which may have closed
 * it. */
#include "net/fd.h"

#include "base/mem.h"
#include "plat/fd.h"
#include "plat/socket.h"
#include <assert.h>

enum { PIPE_BYTES = 1024 * 1024 };

static_assert(sizeof(tci_iovec) == sizeof(tci_fd_part) &&
                  offsetof(tci_iovec, ptr) == offsetof(tci_fd_part, ptr) &&
                  offsetof(tci_iovec, len) == offsetof(tci_fd_part, len),
              "parts are handed on as they are");

/* One direction. With read_fd == write_fd the reading end watches for both. */
typedef struct fd_end {
    tci_watch watch;
    int fd; /* -1: none */
    bool is_socket;
    bool was_blocking; /* to be given back */
} fd_end;

typedef struct fd_stream {
    tci_stream base;
    fd_end in, out;
    bool is_one_fd, owns_fds;
    bool is_drained; /* the last read emptied the descriptor */
    unsigned wanted;
} fd_stream;

static fd_stream *of(tci_stream *s)
{
    return TCI_CONTAINER(s, fd_stream, base);
}

static int fd_read(tci_stream *base, void *buf, size_t cap, size_t *ret_n, tc_err *err)
{
    fd_stream *s = of(base);
    if (s->is_drained) {
        *ret_n = 0;
        return 0;
    }
    if (s->in.fd < 0)
        return tc_err_set(err, TC_E_END, "end of input");
    size_t n = 0;
    int rc = tci_fd_read(s->in.fd, buf, cap, &n, err);
    if (rc < 0)
        return rc;
    s->is_drained = n < cap;
    *ret_n = n;
    return 0;
}

static int fd_writev(tci_stream *base, const tci_iovec *v, size_t nv, size_t *ret_n, tc_err *err)
{
    fd_stream *s = of(base);
    const fd_end *out = s->is_one_fd ? &s->in : &s->out;
    TC_ASSERT(nv <= TCI_IOVEC_MAX);
    if (out->fd < 0)
        return tc_err_set(err, TC_E_CLOSED, "cannot write: closed");
    const tci_fd_part *parts = (const tci_fd_part *)(const void *)v;
    if (out->is_socket)
        return tci_socket_send(out->fd, parts, nv, ret_n, err);
    return tci_fd_writev(out->fd, parts, nv, ret_n, err);
}

static int fd_want(tci_stream *base, unsigned events, tc_err *err)
{
    fd_stream *s = of(base);
    if (events == s->wanted)
        return 0;
    if (events & ~s->wanted & TCI_WATCH_READ)
        s->is_drained = false; /* time has passed */
    s->wanted = events;
    if (s->is_one_fd)
        return tci_watch_set(&s->in.watch, events, err);
    int rc = 0;
    if (s->in.fd >= 0)
        rc = tci_watch_set(&s->in.watch, events & TCI_WATCH_READ, err);
    if (rc == 0 && s->out.fd >= 0)
        rc = tci_watch_set(&s->out.watch, events & TCI_WATCH_WRITE, err);
    return rc;
}

static void on_in(tci_watch *w, unsigned events)
{
    fd_stream *s = TCI_CONTAINER(w, fd_stream, in.watch);
    if (events & TCI_WATCH_READ)
        s->is_drained = false;
    events &= s->wanted;
    if (events != 0)
        s->base.on_ready(&s->base, events);
}

static void on_out(tci_watch *w, unsigned events)
{
    fd_stream *s = TCI_CONTAINER(w, fd_stream, out.watch);
    events &= s->wanted & TCI_WATCH_WRITE;
    if (events != 0)
        s->base.on_ready(&s->base, events);
}

/* Best effort: the lender may have closed it meanwhile. */
static void set_blocking(int fd)
{
    tc_err err;
    int rc = tci_fd_set_nonblocking(fd, false, NULL, &err);
    TCI_UNUSED(rc);
}

static void give_back(fd_end *end, bool is_owned)
{
    tci_watch_close(&end->watch);
    if (end->fd < 0)
        return;
    if (end->was_blocking && !is_owned)
        set_blocking(end->fd);
    if (is_owned)
        tci_fd_close(&end->fd);
    end->fd = -1;
}

static int fd_shutdown_write(tci_stream *base, tc_err *err)
{
    fd_stream *s = of(base);
    if (!s->is_one_fd) {
        bool is_owned_socket = s->out.is_socket && s->out.fd >= 0;
        int rc = is_owned_socket ? tci_socket_shutdown_write(s->out.fd, err) : 0;
        give_back(&s->out, s->owns_fds);
        return rc;
    }
    if (s->in.is_socket)
        return tci_socket_shutdown_write(s->in.fd, err);
    return 0; /* a terminal or a file: nothing to tell it */
}

static void fd_close(tci_stream *base)
{
    fd_stream *s = of(base);
    give_back(&s->in, s->owns_fds);
    give_back(&s->out, s->owns_fds);
    tci_free(s);
}

static const tci_stream_vtable fd_vtable = {
    .read = fd_read,
    .writev = fd_writev,
    .want = fd_want,
    .shutdown_write = fd_shutdown_write,
    .close = fd_close,
};

static int64_t fd_unsent(const tci_stream *base)
{
    const fd_stream *s = TCI_CONTAINER(base, const fd_stream, base);
    const fd_end *out = s->is_one_fd ? &s->in : &s->out;
    return out->is_socket && out->fd >= 0 ? tci_socket_unsent(out->fd) : -1;
}

static int open_end(fd_end *end, tci_loop *loop, int fd, void (*cb)(tci_watch *, unsigned),
                    tc_err *err)
{
    if (fd < 0)
        return 0;
    tci_fd_kind kind = tci_fd_kind_of(fd);
    bool was_nonblocking = true;
    int rc = 0;
    if (kind != TCI_FD_FILE)
        rc = tci_fd_set_nonblocking(fd, true, &was_nonblocking, err);
    if (rc < 0)
        return rc;
    if (kind == TCI_FD_PIPE)
        tci_fd_grow_pipe(fd, PIPE_BYTES);
    rc = tci_watch_open(&end->watch, loop, fd, cb, err);
    if (rc < 0) {
        if (!was_nonblocking)
            set_blocking(fd);
        return rc;
    }
    end->fd = fd;
    end->is_socket = kind == TCI_FD_SOCKET;
    end->was_blocking = !was_nonblocking;
    return 0;
}

int tci_fd_stream_new(tci_loop *loop, int read_fd, int write_fd, bool own_fds,
                      tci_stream **ret_stream, tc_err *err)
{
    fd_stream *s = tci_new(fd_stream);
    if (s == NULL)
        return tci_err_no_memory(err);
    s->base.v = &fd_vtable;
    s->base.unsent = fd_unsent;
    s->in.fd = s->out.fd = -1;
    s->is_one_fd = read_fd >= 0 && read_fd == write_fd;
    int rc = open_end(&s->in, loop, read_fd, on_in, err);
    if (rc == 0 && !s->is_one_fd)
        rc = open_end(&s->out, loop, write_fd, on_out, err);
    if (rc < 0) {
        fd_close(&s->base); /* owns nothing yet */
        return rc;
    }
    s->owns_fds = own_fds;
    *ret_stream = &s->base;
    return 0;
}
