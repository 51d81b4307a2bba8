/* SPDX-License-Identifier: Apache-2.0
 *
 * One running ssh: starting it, its three pipes, its end. Leaves what is said over the pipes to
 * others. The thread that started it; it may block, and looks at its context several times a
 * second. Invariant: a child that was started is reaped or handed over, and gets no signal typed at
 * our terminal and no terminal to ask on. */
#include "env/ssh/ssh_int.h"

#include "plat/clock.h"
#include "plat/fd.h"

enum { READ_BYTES = 64 * 1024, LOOK_MS = 50 };

static void keep_complaints(tci_ssh_child *c, const char *bytes, size_t n)
{
    if (c->log != NULL)
        c->log(c->log_user, tci_str_of(bytes, n));
    size_t total = c->complaints.len + n;
    if (total > TCI_SSH_COMPLAINTS_MAX)
        tci_buf_consume(&c->complaints,
                        tci_min_size(c->complaints.len, total - TCI_SSH_COMPLAINTS_MAX));
    tci_buf_append(&c->complaints, bytes, tci_min_size(n, TCI_SSH_COMPLAINTS_MAX));
}

/* ---- starting ---- */

typedef struct pipes {
    int in[2], out[2], err[2];
} pipes;

static void close_pipes(pipes *p)
{
    for (int i = 0; i < 2; i++) {
        tci_fd_close(&p->in[i]);
        tci_fd_close(&p->out[i]);
        tci_fd_close(&p->err[i]);
    }
}

static int spawn(tci_ssh_to *to, const tci_ssh_want *want, pipes *p, tci_child *ret_child,
                 tc_err *err)
{
    tci_arena a;
    tci_arena_init(&a, 0);
    tc_str program = {0};
    char *cprogram = NULL;
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    int rc = tci_find_program(to->rt, to->target.program, &a, &program, err);
    if (rc == 0)
        rc = tci_arena_cstr(&a, program, &cprogram, err);
    if (rc == 0)
        rc = tci_ssh_args(to, want, &a, &opts.argv, err);
    if (rc == 0)
        rc = tci_ssh_environ(to, &a, &opts.envp, err);
    if (rc == 0)
        rc = tci_fd_pipe(p->in, err);
    if (rc == 0)
        rc = tci_fd_pipe(p->out, err);
    if (rc == 0)
        rc = tci_fd_pipe(p->err, err);
    if (rc == 0) {
        opts.program = cprogram;
        opts.stdio[0] = p->in[0];
        opts.stdio[1] = p->out[1];
        opts.stdio[2] = p->err[1];
        opts.flags = TCI_SPAWN_SESSION;
        rc = tci_spawn(&opts, ret_child, err);
    }
    if (rc == TC_E_NOT_FOUND || rc == TC_E_DENIED || rc == TC_E_START_FAILED) {
        tc_err_wrap(err, "cannot start ssh");
        tc_err_hint(err, "install the OpenSSH client, or name the program");
        rc = tc_err_recode(err, TC_E_START_FAILED);
    }
    tci_arena_done(&a);
    return rc;
}

int tci_ssh_start(tci_ssh_to *to, const tci_ssh_want *want, size_t max_out, tci_ssh_child *ret_c,
                  tc_err *err)
{
    pipes p = {{-1, -1}, {-1, -1}, {-1, -1}};
    tci_ssh_child c = {.child = TCI_CHILD_NONE};
    int rc = spawn(to, want, &p, &c.child, err);
    if (rc < 0) {
        close_pipes(&p);
        return rc;
    }
    c.in_fd = p.in[1];
    c.out_fd = p.out[0];
    c.err_fd = p.err[0];
    p.in[1] = p.out[0] = p.err[0] = -1;
    close_pipes(&p);
    tci_buf_init(&c.out, max_out + READ_BYTES);
    tci_buf_init(&c.complaints, TCI_SSH_COMPLAINTS_MAX);
    int fds[] = {c.in_fd, c.out_fd, c.err_fd};
    for (size_t i = 0; i < TCI_ARRAY_LEN(fds) && rc == 0; i++)
        rc = tci_fd_set_nonblocking(fds[i], true, NULL, err);
    if (rc < 0) {
        tci_ssh_end(&c);
        return rc;
    }
    c.log = ret_c->log;
    c.log_user = ret_c->log_user;
    *ret_c = c;
    return 0;
}

/* ---- reading ---- */

/* One read. true: there may be more. */
static bool take_out(tci_ssh_child *c, tc_err *err)
{
    char *room = tci_buf_reserve(&c->out, READ_BYTES);
    size_t n = 0;
    if (room == NULL || tci_fd_read(c->out_fd, room, READ_BYTES, &n, err) < 0) {
        c->is_out_ended = true;
        return false;
    }
    tci_buf_commit(&c->out, n);
    return n > 0;
}

static bool take_err(tci_ssh_child *c)
{
    char buf[4096];
    size_t n = 0;
    tc_err err;
    if (tci_fd_read(c->err_fd, buf, sizeof buf, &n, &err) < 0) {
        c->is_err_ended = true;
        return false;
    }
    keep_complaints(c, buf, n);
    return n > 0;
}

/* The process is gone: what it wrote is in the pipes; others that hold them do not count. */
static void take_rest(tci_ssh_child *c)
{
    tc_err err;
    while (!c->is_out_ended && tci_buf_ok(&c->out) && c->out.len + READ_BYTES <= c->out.max &&
           take_out(c, &err))
        continue;
    while (!c->is_err_ended && take_err(c))
        continue;
    c->is_over = true;
}

static int wait_ms(tc_ctx *ctx, int64_t deadline_ns)
{
    int64_t until = deadline_ns, ctx_ns = tci_ctx_deadline_ns(ctx);
    if (ctx_ns != 0 && ctx_ns < until)
        until = ctx_ns;
    int64_t ms = (until - tci_clock_mono_ns()) / 1000000 + 1;
    return ms < 0 ? 0 : ms > LOOK_MS ? LOOK_MS : (int)ms;
}

/* wants_room: also return once standard input takes more. */
static int pump(tci_ssh_child *c, tc_ctx *ctx, int64_t deadline_ns, bool wants_room, tc_err *err)
{
    for (;;) {
        int rc = tci_ctx_check(ctx, err);
        if (rc < 0)
            return rc;
        if (tci_clock_mono_ns() >= deadline_ns)
            return tc_err_set(err, TC_E_TIMEOUT, "time ran out");
        if (c->is_over)
            return 0;
        tci_fd_event ev[] = {{.fd = c->out_fd, .want_read = !c->is_out_ended},
                             {.fd = c->err_fd, .want_read = !c->is_err_ended},
                             {.fd = c->child.pidfd, .want_read = true},
                             {.fd = c->in_fd, .want_write = wants_room}};
        rc = tci_fd_wait(ev, TCI_ARRAY_LEN(ev), wait_ms(ctx, deadline_ns), err);
        if (rc < 0)
            return rc;
        if (ev[0].can_read)
            (void)take_out(c, err); /* its end is in the child */
        if (ev[1].can_read)
            (void)take_err(c);
        if (!tci_buf_ok(&c->out))
            return tci_buf_error(&c->out, err);
        bool was_lost;
        if (ev[2].can_read && tci_child_reap(&c->child, &c->exit, &was_lost)) {
            c->child = TCI_CHILD_NONE;
            take_rest(c);
            return 0;
        }
        if (ev[0].can_read || ev[1].can_read || ev[3].can_write)
            return 0;
    }
}

int tci_ssh_pump(tci_ssh_child *c, tc_ctx *ctx, int64_t deadline_ns, tc_err *err)
{
    return pump(c, ctx, deadline_ns, false, err);
}

int tci_ssh_finish(tci_ssh_child *c, tc_ctx *ctx, int64_t deadline_ns, tc_err *err)
{
    tci_fd_close(&c->in_fd);
    while (!c->is_over) {
        int rc = tci_ssh_pump(c, ctx, deadline_ns, err);
        if (rc < 0)
            return rc;
        if (c->out.len + READ_BYTES > c->out.max)
            return tc_err_set(err, TC_E_TOO_BIG, "ssh says more than it should");
    }
    return 0;
}

int tci_ssh_write(tci_ssh_child *c, tc_ctx *ctx, int64_t deadline_ns, tc_str bytes, tc_err *err)
{
    while (bytes.len > 0) {
        size_t n = 0;
        int rc = tci_fd_write(c->in_fd, bytes.ptr, bytes.len, &n, err);
        if (rc < 0)
            return rc;
        bytes = tci_str_sub(bytes, n, SIZE_MAX);
        if (bytes.len == 0)
            break;
        rc = pump(c, ctx, deadline_ns, true, err);
        if (rc < 0)
            return rc;
        if (c->is_over || c->out.len + READ_BYTES > c->out.max)
            return tc_err_set(err, TC_E_CLOSED, "ssh reads no more");
    }
    return 0;
}

void tci_ssh_end(tci_ssh_child *c)
{
    if (c->child.pid == 0 && c->out.max == 0)
        return; /* never started */
    bool was_lost;
    if (c->child.pid != 0) {
        (void)tci_child_signal(&c->child, TCI_SIG_KILL); /* reaped right below */
        tci_child_reap_wait(&c->child, &c->exit, &was_lost);
        c->child = TCI_CHILD_NONE;
    }
    tci_fd_close(&c->in_fd);
    tci_fd_close(&c->out_fd);
    tci_fd_close(&c->err_fd);
    tci_buf_done(&c->out);
    tci_buf_done(&c->complaints);
    tc_ssh_log log = c->log;
    void *log_user = c->log_user;
    *c = (tci_ssh_child){.child = TCI_CHILD_NONE, .in_fd = -1, .out_fd = -1, .err_fd = -1};
    c->log = log;
    c->log_user = log_user;
}
