/* SPDX-License-Identifier: Apache-2.0
 *
 * Running another program of this machine and reading what it says. The main thread. Invariant: a
 * child that was started is reaped. */
#include "child.h"

#include "client/client.h"
#include "plat/env.h"
#include "plat/fd.h"

enum { LOOK_MS = 100, PIECE = 4096 };

int cli_find_program(cli *c, const char *name, tc_str *ret, tc_err *err)
{
    static const char *const more[] = {"/usr/sbin", "/usr/local/sbin", "/sbin"};
    tc_runtime *rt = cli_runtime(c);
    tc_err ignored; /* the first failure tells most */
    if (rt == NULL) {
        *err = c->err;
        return err->code;
    }
    int rc = tci_find_program(rt, tci_str(name), &c->arena, ret, err);
    for (size_t i = 0; rc == TC_E_NOT_FOUND && i < TCI_ARRAY_LEN(more); i++) {
        tc_str path;
        if (tci_arena_printf(&c->arena, &path, err, "%s/%s", more[i], name) < 0)
            return err->code;
        if (tci_find_program(rt, path, &c->arena, ret, &ignored) == 0)
            rc = 0;
    }
    return rc;
}

/* Until its output ends. */
static int read_all(cli *c, int fd, tci_buf *out, tc_err *err)
{
    for (;;) {
        char piece[PIECE];
        size_t n = 0;
        tci_fd_event event = {.fd = fd, .want_read = true};
        int rc = tci_fd_wait(&event, 1, LOOK_MS, err);
        if (rc == 0 && tc_ctx_is_cancelled(c->ctx))
            rc = tc_err_set(err, TC_E_CANCELLED, "cancelled");
        if (rc == 0 && event.can_read)
            rc = tci_fd_read(fd, piece, sizeof piece, &n, err);
        if (rc == TC_E_END)
            return 0;
        if (rc < 0)
            return rc;
        tci_buf_append(out, piece, n);
    }
}

int cli_child_run(cli *c, const char *const *argv, tci_buf *out, tci_exit *ret_exit, tc_err *err)
{
    int fds[2] = {-1, -1};
    tci_child child = TCI_CHILD_NONE;
    bool was_lost;
    int rc = tci_fd_pipe(fds, err);
    if (rc < 0)
        return rc;
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    opts.program = argv[0];
    opts.argv = argv;
    opts.envp = (const char *const *)tci_env_list();
    opts.stdio[1] = fds[1];
    opts.stdio[2] = fds[1];
    opts.flags = TCI_SPAWN_SESSION;
    rc = tci_spawn(&opts, &child, err);
    tci_fd_close(&fds[1]);
    if (rc == 0) {
        rc = read_all(c, fds[0], out, err);
        if (rc < 0)
            (void)tci_child_signal(&child, TCI_SIG_KILL); /* reaped right below */
        tci_child_reap_wait(&child, ret_exit, &was_lost);
    }
    tci_fd_close(&fds[0]);
    return rc;
}
