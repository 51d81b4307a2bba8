/* SPDX-License-Identifier: Apache-2.0
 *
 * What exec.c (life and status), exec_out.c (output) and exec_in.c (stdin) share. */
#ifndef TCI_EXEC_INT_H
#define TCI_EXEC_INT_H

#include "ops/exec.h"

enum { TCI_EXEC_STREAMS = 2, TCI_EXEC_FAILURE_MAX = 160 };

struct tci_exec_host {
    tci_loop *loop;
    tci_ptree_host *trees;
    tci_list execs;
    size_t nexecs;
    int null_fd;
    char *buf;         /* for reading; there while some command runs */
    bool is_buf_dirty; /* most of it has been touched: worth giving back */
};

typedef struct exec_stream {
    tci_exec *exec;
    tci_exec_stream which;
    tci_watch watch;
    int fd; /* -1: ended */
    tci_spool *spool;
    uint64_t nseen;
    bool is_grown; /* its pipe has been made larger */
} exec_stream;

typedef struct exec_stdin {
    int fd; /* -1: closed */
    tci_watch watch;
    tci_timer timer; /* acceptance of what is being written */
    char *initial;   /* what the pipe has not taken yet */
    size_t initial_len, initial_at;
    tci_list writes;   /* waiting, the first is being written */
    tci_list answered; /* to be called back */
    uint64_t accepted, promised;
    uint64_t max_bytes;
    bool must_take, may_wait, is_closing;
} exec_stdin;

struct tci_exec {
    tci_link link;
    tci_exec_host *host;
    tci_ptree tree;
    tci_exec_status status;
    tci_exec_reason asked; /* why it is being killed; the first reason stays */
    int pid;
    bool leave_others, is_paused, is_abandoned;
    exec_stream streams[TCI_EXEC_STREAMS];
    exec_stdin in;
    tci_timer wall;
    tci_timer pipes; /* for the streams to end, or to get quiet */
    char failure[TCI_EXEC_FAILURE_MAX];

    /* What the user is to be told, in this order, from later. */
    tci_later later;
    bool tell_started, tell_exit, tell_done, is_done, has_told_started;
    int started_rc;
    void *user;
    int (*on_output)(tci_exec *exec, tci_exec_stream stream, tc_str bytes, tc_err *err);
    void (*on_started)(tci_exec *exec, int rc, const tc_err *err);
    void (*on_exit)(tci_exec *exec);
    void (*on_done)(tci_exec *exec);
    void (*ended)(void *user);
    void *ended_user;
};

static inline tci_loop *exec_loop(const tci_exec *exec)
{
    return exec->host->loop;
}

/* exec.c */
/* Kill it for this reason; text (may be NULL) says more. */
void tci_exec_end_by(tci_exec *exec, tci_exec_reason reason, const char *text);
void tci_exec_started(tci_exec *exec, int rc);
/* Something came to an end: is everything? */
void tci_exec_settle(tci_exec *exec);

/* exec_out.c */
/* Takes both descriptors over, also when it fails: they are then read at the end only. */
int tci_exec_out_open(tci_exec *exec, int fds[TCI_EXEC_STREAMS], tc_err *err) TC_CHECKED;
/* Read what is there now, up to what pipes can hold. */
void tci_exec_out_drain(tci_exec *exec);
bool tci_exec_out_is_ended(const tci_exec *exec);
/* Give up on streams still open. */
void tci_exec_out_cut(tci_exec *exec);
/* Without telling the spools: the command never ran. */
void tci_exec_out_drop(tci_exec *exec);

/* exec_in.c */
/* Before the command runs, while nobody can close the other end: as much of the initial bytes as the pipe
 * takes. fd -1: no pipe. */
int tci_exec_in_fill(tci_exec *exec, int fd, const tci_exec_opts *opts, tc_err *err) TC_CHECKED;
/* Takes *fd over. The command runs. */
void tci_exec_in_open(tci_exec *exec, int *fd);
/* No reader any more. */
void tci_exec_in_end(tci_exec *exec);
/* All writes are answered with CANCELLED. */
void tci_exec_in_abandon(tci_exec *exec);
/* Call back what is answered. */
void tci_exec_in_tell(tci_exec *exec);
void tci_exec_in_done(tci_exec *exec);

#endif
