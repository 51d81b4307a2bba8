/* SPDX-License-Identifier: Apache-2.0
 *
 * A command's output, from its pipes into spools or to its owner. Leaves keeping it to spool.c.
 * Loop thread; no thread of its own: a pipe is copied through one buffer all commands share, at
 * most TURN_BYTES at a time so that others get their turn. Invariant: a stream that has ended has
 * told its spool, once. */
#include "ops/exec_int.h"

#include "plat/fd.h"

enum {
    BUFFER_BYTES = 256 * 1024,
    TURN_BYTES = 1024 * 1024,
    LARGE_PIPE_BYTES = 1024 * 1024,
    GROW_AFTER_BYTES = 256 * 1024, /* a command that writes this much is worth a large pipe */
    DIRTY_BYTES = 64 * 1024
};

static bool is_shared_spool(const tci_exec *exec)
{
    return exec->streams[0].spool != NULL && exec->streams[0].spool == exec->streams[1].spool;
}

static void end_stream(exec_stream *s, bool was_cut)
{
    tci_exec *exec = s->exec;
    if (s->fd < 0)
        return;
    tci_watch_close(&s->watch);
    tci_fd_close(&s->fd);
    if (s->spool == NULL || (is_shared_spool(exec) && !tci_exec_out_is_ended(exec)))
        return;
    tci_spool_finish(s->spool, was_cut);
}

static void take(exec_stream *s, tc_str bytes)
{
    tci_exec *exec = s->exec;
    tc_err err;
    int rc = 0;
    s->nseen += bytes.len;
    if (s->spool != NULL)
        rc = tci_spool_append(s->spool, bytes, &err);
    else if (exec->on_output != NULL)
        rc = exec->on_output(exec, s->which, bytes, &err);
    if (rc < 0)
        tci_exec_end_by(exec,
                        rc == TC_E_OUTPUT_LIMIT ? TCI_EXEC_REASON_OUTPUT_LIMIT
                                                : TCI_EXEC_REASON_BACKEND_LOST,
                        err.msg);
    if (!s->is_grown && s->nseen >= GROW_AFTER_BYTES) {
        s->is_grown = true;
        tci_fd_grow_pipe(s->fd, LARGE_PIPE_BYTES);
    }
}

static bool make_buffer(tci_exec_host *host)
{
    if (host->buf == NULL)
        host->buf = tci_mem_resize(NULL, BUFFER_BYTES);
    return host->buf != NULL;
}

static void read_stream(exec_stream *s)
{
    tci_exec *exec = s->exec;
    tci_exec_host *host = exec->host;
    if (!make_buffer(host)) {
        tci_exec_end_by(exec, TCI_EXEC_REASON_BACKEND_LOST, "no memory to read output with");
        end_stream(s, true);
        return;
    }
    for (size_t nread = 0; nread < TURN_BYTES && s->fd >= 0 && !exec->is_paused;) {
        tc_err err;
        size_t n = 0;
        int rc = tci_fd_read(s->fd, host->buf, BUFFER_BYTES, &n, &err);
        if (rc < 0) {
            if (rc != TC_E_END)
                tci_exec_end_by(exec, TCI_EXEC_REASON_BACKEND_LOST, err.msg);
            end_stream(s, rc != TC_E_END);
            return;
        }
        if (n == 0)
            return; /* nothing now */
        host->is_buf_dirty = host->is_buf_dirty || n > DIRTY_BYTES;
        nread += n;
        take(s, tci_str_of(host->buf, n));
    }
}

static void on_readable(tci_watch *watch, unsigned events)
{
    TCI_UNUSED(events);
    exec_stream *s = TCI_CONTAINER(watch, exec_stream, watch);
    tci_exec *exec = s->exec;
    uint64_t before = s->nseen;
    read_stream(s);
    tc_err err;
    bool is_waited_for = exec->leave_others && exec->asked == TCI_EXEC_REASON_NONE;
    if (is_waited_for && s->nseen != before && tci_timer_is_armed(&exec->pipes) &&
        tci_timer_start(&exec->pipes, TCI_EXEC_QUIET_MS, &err) < 0)
        tci_exec_out_cut(exec); /* no memory to wait with */
    tci_exec_settle(exec);
}

int tci_exec_out_open(tci_exec *exec, int fds[TCI_EXEC_STREAMS], tc_err *err)
{
    for (int i = 0; i < TCI_EXEC_STREAMS; i++) {
        exec->streams[i].fd = fds[i];
        fds[i] = -1;
    }
    for (int i = 0; i < TCI_EXEC_STREAMS; i++) {
        exec_stream *s = &exec->streams[i];
        int rc = tci_watch_open(&s->watch, exec_loop(exec), s->fd, on_readable, err);
        if (rc == 0)
            rc = tci_watch_set(&s->watch, TCI_WATCH_READ, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

void tci_exec_out_drain(tci_exec *exec)
{
    for (int i = 0; i < TCI_EXEC_STREAMS; i++)
        if (exec->streams[i].fd >= 0)
            read_stream(&exec->streams[i]);
}

bool tci_exec_out_is_ended(const tci_exec *exec)
{
    return exec->streams[0].fd < 0 && exec->streams[1].fd < 0;
}

void tci_exec_out_cut(tci_exec *exec)
{
    for (int i = 0; i < TCI_EXEC_STREAMS; i++)
        end_stream(&exec->streams[i], true);
}

void tci_exec_out_drop(tci_exec *exec)
{
    for (int i = 0; i < TCI_EXEC_STREAMS; i++) {
        tci_watch_close(&exec->streams[i].watch);
        tci_fd_close(&exec->streams[i].fd);
    }
}

void tci_exec_pause_output(tci_exec *exec, bool is_paused)
{
    exec->is_paused = is_paused;
    for (int i = 0; i < TCI_EXEC_STREAMS; i++) {
        tc_err err;
        exec_stream *s = &exec->streams[i];
        if (s->fd >= 0 && tci_watch_set(&s->watch, is_paused ? 0 : TCI_WATCH_READ, &err) < 0)
            tci_exec_end_by(exec, TCI_EXEC_REASON_BACKEND_LOST, err.msg);
    }
}
