/* SPDX-License-Identifier: Apache-2.0
 *
 * A command's stdin: the initial bytes, then writes in order, then the end. Leaves saying what an
 * undelivered start means to exec.c. Loop thread. Invariant: the descriptor is watched only while
 * something waits to be written and the pipe is full. */
#include "ops/exec_int.h"

#include "plat/fd.h"

enum { LARGE_PIPE_BYTES = 1024 * 1024, USUAL_PIPE_BYTES = 64 * 1024 };

static void close_fd(exec_stdin *in)
{
    tci_timer_stop(&in->timer);
    tci_watch_close(&in->watch);
    tci_fd_close(&in->fd);
}

static void drop_initial(exec_stdin *in)
{
    tci_mem_free(in->initial);
    in->initial = NULL;
    in->initial_len = in->initial_at = 0;
}

static void answer(tci_exec *exec, tci_exec_write *write, int rc)
{
    tci_link_remove(&write->link);
    write->rc = rc;
    tci_list_push_back(&exec->in.answered, &write->link);
    tci_loop_later(exec_loop(exec), &exec->later);
}

static tci_exec_write *first_write(const exec_stdin *in)
{
    tci_link *k = tci_list_first(&in->writes);
    return k != NULL ? TCI_CONTAINER(k, tci_exec_write, link) : NULL;
}

static bool start_timer(exec_stdin *in, tc_err *err)
{
    return tci_timer_start(&in->timer, TCI_EXEC_STDIN_MS, err) == 0;
}

static void on_writable(tci_watch *watch, unsigned events);

/* The pipe is full: go on when it is not. */
static void wait_writable(tci_exec *exec)
{
    exec_stdin *in = &exec->in;
    tc_err err;
    bool is_timed = in->initial == NULL ? !in->may_wait : in->must_take;
    int rc = 0;
    if (in->watch.handle == NULL)
        rc = tci_watch_open(&in->watch, exec_loop(exec), in->fd, on_writable, &err);
    if (rc == 0)
        rc = tci_watch_set(&in->watch, TCI_WATCH_WRITE, &err);
    if (rc < 0 || (is_timed && !tci_timer_is_armed(&in->timer) && !start_timer(in, &err)))
        tci_exec_end_by(exec, TCI_EXEC_REASON_BACKEND_LOST, err.msg);
}

/* One write. false: the pipe is full, or broken and then everything is ended. */
static bool put(tci_exec *exec, tc_str bytes, size_t *ret_n)
{
    tc_err err;
    size_t n = 0;
    int rc = tci_fd_write(exec->in.fd, bytes.ptr, bytes.len, &n, &err);
    if (rc < 0) {
        tci_exec_in_end(exec);
        return false;
    }
    exec->in.accepted += n;
    *ret_n = n;
    if (n == bytes.len)
        return true;
    if (n == 0)
        wait_writable(exec);
    return n > 0;
}

static void pump(tci_exec *exec)
{
    exec_stdin *in = &exec->in;
    while (in->fd >= 0) {
        size_t n = 0;
        tci_exec_write *write = first_write(in);
        if (in->initial != NULL) {
            if (!put(exec,
                     tci_str_of(in->initial + in->initial_at, in->initial_len - in->initial_at),
                     &n))
                return;
            in->initial_at += n;
            if (in->initial_at < in->initial_len)
                continue;
            drop_initial(in);
            tci_exec_started(exec, 0);
        } else if (write != NULL) {
            tc_str rest = tci_str_sub(write->data, write->accepted, write->data.len);
            if (rest.len > 0 && !put(exec, rest, &n))
                return;
            write->accepted += n;
            if (write->accepted < write->data.len)
                continue;
            answer(exec, write, 0);
        } else {
            break;
        }
        tci_timer_stop(&in->timer); /* the next one has its own time */
    }
    tc_err err;
    if (in->fd >= 0 && in->is_closing)
        close_fd(in);
    else if (in->watch.handle != NULL && tci_watch_set(&in->watch, 0, &err) < 0)
        tci_exec_end_by(exec, TCI_EXEC_REASON_BACKEND_LOST, err.msg);
}

static void on_writable(tci_watch *watch, unsigned events)
{
    TCI_UNUSED(events);
    tci_exec *exec = TCI_CONTAINER(watch, tci_exec, in.watch);
    pump(exec);
    tci_exec_settle(exec);
}

/* What is being written was not taken in time. */
static void on_timer(tci_timer *timer)
{
    tci_exec *exec = TCI_CONTAINER(timer, tci_exec, in.timer);
    exec_stdin *in = &exec->in;
    if (in->initial != NULL) {
        tci_exec_started(exec, TC_E_UNKNOWN_OUTCOME);
        tci_exec_in_end(exec);
        return;
    }
    tci_exec_write *write = first_write(in);
    if (write == NULL)
        return;
    answer(exec, write, TC_E_UNKNOWN_OUTCOME);
    pump(exec); /* the next one may be empty, or only a close */
}

int tci_exec_in_fill(tci_exec *exec, int fd, const tci_exec_opts *opts, tc_err *err)
{
    exec_stdin *in = &exec->in;
    tc_str initial = opts->initial_stdin;
    tci_timer_init(&in->timer, exec_loop(exec), on_timer);
    in->must_take = opts->must_take_stdin;
    in->may_wait = opts->stdin_may_wait;
    in->max_bytes = opts->stdin_max_bytes;
    in->promised = initial.len;
    in->is_closing = !opts->keep_stdin_open;
    if (fd < 0)
        return 0;
    int rc = tci_fd_set_nonblocking(fd, true, NULL, err);
    if (rc < 0)
        return rc;
    if (initial.len > USUAL_PIPE_BYTES)
        tci_fd_grow_pipe(fd, LARGE_PIPE_BYTES);
    while (in->accepted < initial.len) {
        size_t n = 0, at = (size_t)in->accepted;
        rc = tci_fd_write(fd, initial.ptr + at, initial.len - at, &n, err);
        if (rc < 0)
            return rc;
        if (n == 0)
            break; /* full */
        in->accepted += n;
    }
    tc_str rest = tci_str_sub(initial, (size_t)in->accepted, initial.len);
    if (rest.len == 0)
        return 0;
    in->initial = tci_mem_alloc(rest.len);
    if (in->initial == NULL)
        return tci_err_no_memory(err);
    memcpy(in->initial, rest.ptr, rest.len);
    in->initial_len = rest.len;
    return 0;
}

void tci_exec_in_open(tci_exec *exec, int *fd)
{
    exec_stdin *in = &exec->in;
    in->fd = *fd;
    *fd = -1;
    if (in->initial != NULL || in->is_closing)
        pump(exec);
}

void tci_exec_in_end(tci_exec *exec)
{
    exec_stdin *in = &exec->in;
    bool was_cut = in->initial != NULL;
    close_fd(in);
    drop_initial(in);
    if (was_cut)
        tci_exec_started(exec, in->must_take ? TC_E_UNKNOWN_OUTCOME : 0);
    for (tci_exec_write *w = first_write(in); w != NULL; w = first_write(in))
        answer(exec, w, 0); /* accepted says how much was read or lies in the pipe */
}

void tci_exec_in_abandon(tci_exec *exec)
{
    for (tci_exec_write *w = first_write(&exec->in); w != NULL; w = first_write(&exec->in))
        answer(exec, w, TC_E_CANCELLED);
}

void tci_exec_in_tell(tci_exec *exec)
{
    for (tci_link *k = tci_list_pop_front(&exec->in.answered); k != NULL;
         k = tci_list_pop_front(&exec->in.answered)) {
        tci_exec_write *write = TCI_CONTAINER(k, tci_exec_write, link);
        tc_err err = {0};
        if (write->rc == TC_E_UNKNOWN_OUTCOME)
            (void)tc_err_set(&err, TC_E_UNKNOWN_OUTCOME,
                             "the command did not take its input in time");
        else if (write->rc < 0)
            (void)tc_err_set(&err, TC_E_CANCELLED, "the command was given up");
        write->cb(write, write->rc, &err);
    }
}

void tci_exec_in_done(tci_exec *exec)
{
    close_fd(&exec->in);
    drop_initial(&exec->in);
}

int tci_exec_write_stdin(tci_exec *exec, tci_exec_write *write, tc_err *err)
{
    exec_stdin *in = &exec->in;
    tci_loop_assert(exec_loop(exec));
    if (!tci_exec_is_stdin_open(exec))
        return tc_err_set(err, TC_E_CONFLICT, "stdin is closed");
    if (in->max_bytes != 0 && write->data.len > in->max_bytes - in->promised)
        return tc_err_set(err, TC_E_OUTPUT_LIMIT, "stdin is over its limit of %llu bytes",
                          (unsigned long long)in->max_bytes);
    in->promised += write->data.len;
    write->accepted = 0;
    write->exec = exec;
    tci_list_push_back(&in->writes, &write->link);
    in->is_closing = write->close_after;
    bool is_first = in->initial == NULL && first_write(in) == write;
    if (is_first)
        pump(exec);
    return 0;
}

void tci_exec_close_stdin(tci_exec *exec)
{
    exec_stdin *in = &exec->in;
    if (in->is_closing)
        return;
    in->is_closing = true;
    if (in->initial == NULL && first_write(in) == NULL)
        close_fd(in);
}

bool tci_exec_is_stdin_open(const tci_exec *exec)
{
    return exec->in.fd >= 0 && !exec->in.is_closing;
}

uint64_t tci_exec_stdin_accepted(const tci_exec *exec)
{
    return exec->in.accepted;
}
