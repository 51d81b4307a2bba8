/* SPDX-License-Identifier: Apache-2.0
 *
 * One command from start to proved end: spawn, stdin, both output streams into spools, wall time,
 * kill, status. Takes no thread and no process of its own. Loop thread only. */
#ifndef TCI_OPS_EXEC_H
#define TCI_OPS_EXEC_H

#include "base/rfc3339.h"
#include "ops/spool.h"
#include "ops/tree.h"

/* What all commands of a loop share: the read buffer and /dev/null. */
typedef struct tci_exec_host tci_exec_host;
int tci_exec_host_new(tci_loop *loop, tci_ptree_host *trees, tci_exec_host **ret_host,
                      tc_err *err) TC_CHECKED;
/* No command may be left. NULL is fine. */
void tci_exec_host_free(tci_exec_host *host);
/* Commands not yet done (abandoned ones included). */
size_t tci_exec_host_count(const tci_exec_host *host);

typedef enum tci_exec_phase {
    TCI_EXEC_STARTING, /* initial stdin is not delivered yet */
    TCI_EXEC_RUNNING,
    TCI_EXEC_EXITED,
    TCI_EXEC_SIGNALED,
    TCI_EXEC_TIMED_OUT,
    TCI_EXEC_CANCELLED,
    TCI_EXEC_FAILED
} tci_exec_phase;
static inline bool tci_exec_phase_is_terminal(tci_exec_phase p)
{
    return p >= TCI_EXEC_EXITED;
}

typedef enum tci_exec_reason {
    TCI_EXEC_REASON_NONE, /* not terminal yet */
    TCI_EXEC_REASON_EXIT,
    TCI_EXEC_REASON_SIGNAL,
    TCI_EXEC_REASON_TIMEOUT,
    TCI_EXEC_REASON_CANCELLED,
    TCI_EXEC_REASON_OUTPUT_LIMIT,
    TCI_EXEC_REASON_BACKEND_LOST /* output could not be kept, or the truth about the end is lost */
} tci_exec_reason;

typedef enum tci_exec_signal {
    TCI_EXEC_SIGNAL_NONE, /* none, or one without a name on the wire: see signum */
    TCI_EXEC_SIGNAL_INTERRUPT,
    TCI_EXEC_SIGNAL_TERMINATE,
    TCI_EXEC_SIGNAL_KILL
} tci_exec_signal;

typedef enum tci_exec_cleanup {
    TCI_EXEC_CLEANUP_PENDING,
    TCI_EXEC_CLEANUP_COMPLETE, /* no process of the tree is left */
    TCI_EXEC_CLEANUP_FAILED    /* see tci_exec_survivors */
} tci_exec_cleanup;

typedef struct tci_exec_status {
    tci_exec_phase phase;
    tci_exec_reason reason;
    bool has_exit_code; /* only EXITED */
    int exit_code;
    tci_exec_signal signal; /* only SIGNALED */
    int signum; /* the signal that ended the first process, whatever the phase; 0: none */
    tci_instant started_at;
    bool has_ended; /* ended_at is valid */
    tci_instant ended_at;
    tci_exec_cleanup cleanup;
} tci_exec_status;

typedef struct tci_exec tci_exec;
typedef enum tci_exec_stream { TCI_EXEC_OUT, TCI_EXEC_ERR } tci_exec_stream;

/* Borrowed for the call of tci_exec_start, but for the spools and user. */
typedef struct tci_exec_opts {
    const char *program;     /* absolute path */
    const char *const *argv; /* NULL-terminated */
    const char *const *envp; /* NULL-terminated, complete */
    const char *cwd;         /* NULL: cwd_fd */
    int cwd_fd;              /* used when cwd is NULL; -1: the daemon's */
    const int *more_fds;     /* passed as 3, 4, ... (a sandbox plan) */
    size_t nmore_fds;
    tc_str initial_stdin;
    bool keep_stdin_open;
    /* Initial stdin must be read to the end within TCI_EXEC_STDIN_MS, or the start is
     * UNKNOWN_OUTCOME and the command is killed. Without it, a command may take what it wants and
     * as long as it wants. */
    bool must_take_stdin;
    bool stdin_may_wait; /* later writes have no time limit: TCI_EXEC_STDIN_MS is not for them */
    uint64_t stdin_max_bytes; /* over its whole life, initial stdin included; 0: no limit */
    int64_t wall_time_ms;     /* 0: none */
    tci_spool *out, *err;     /* must outlive the command; finished by it. The same twice: both into
                                 one. NULL: that stream goes to on_output */
    /* After a normal end of the first process nothing else is killed, and each stream is closed
     * once it is quiet for TCI_EXEC_QUIET_MS; the wall time goes on until then. Others of the tree
     * live on. */
    bool leave_others;

    void *user;
    /* Bytes of a stream without a spool, borrowed, in the order they came. Non-zero: the command is
     * killed, FAILED by BACKEND_LOST with err->msg as failure. See tci_exec_pause_output. */
    int (*on_output)(tci_exec *exec, tci_exec_stream stream, tc_str bytes, tc_err *err);
    /* Each at most once, in this order, never from inside tci_exec_start. All may be NULL.
     * on_started: 0, or UNKNOWN_OUTCOME as above (the command is being killed then).
     * on_exit: the phase is terminal now; the rest of the tree is dying, output may still come in.
     * on_done: cleanup is settled and both streams are complete. The command may be freed in it. */
    void (*on_started)(tci_exec *exec, int rc, const tc_err *err);
    void (*on_exit)(tci_exec *exec);
    void (*on_done)(tci_exec *exec);
} tci_exec_opts;
#define TCI_EXEC_OPTS_NONE ((tci_exec_opts){.cwd_fd = -1})

enum {
    TCI_EXEC_STDIN_MS = 5000, /* for initial stdin, and for each later write */
    TCI_EXEC_PIPES_MS = 2000, /* for both streams to end after the first process */
    TCI_EXEC_QUIET_MS = 100   /* see leave_others */
};

/* Errors of tci_spawn, nothing left behind and no callback called; the spools are untouched.
 * OUTPUT_LIMIT: initial stdin over stdin_max_bytes. */
int tci_exec_start(tci_exec_host *host, const tci_exec_opts *opts, tci_exec **ret_exec,
                   tc_err *err) TC_CHECKED;
/* Only after on_done (or when is_done). NULL is fine. */
void tci_exec_free(tci_exec *exec);
/* No more callbacks (pending writes get CANCELLED at once); kill the tree; freed by itself when
 * done. ended is called then, when the spools are no longer in use. May be NULL. */
void tci_exec_abandon(tci_exec *exec, void (*ended)(void *user), void *user);

void *tci_exec_user(const tci_exec *exec);
tci_exec_status tci_exec_status_of(const tci_exec *exec);
bool tci_exec_is_done(const tci_exec *exec);
bool tci_exec_is_stdin_open(const tci_exec *exec);
/* Bytes of stdin the command's pipe has taken so far. */
uint64_t tci_exec_stdin_accepted(const tci_exec *exec);
int tci_exec_pid(const tci_exec *exec);
/* Why the phase is FAILED: "no space left" and the like; empty otherwise. Borrowed until freed. */
tc_str tci_exec_failure(const tci_exec *exec);

/* Processes that the first process left behind and that were killed; those that a kill could not
 * end. At most TCI_TREE_NAMED_MAX in *ret_procs; the return value counts all. Valid after on_done.
 */
size_t tci_exec_left(const tci_exec *exec, const tci_ptree_proc **ret_procs, size_t *ret_nprocs);
size_t tci_exec_survivors(const tci_exec *exec, const tci_ptree_proc **ret_procs,
                          size_t *ret_nprocs);

/* Write to stdin; writes are served in order. data is the caller's and stays valid until cb, as
 * does the storage. rc: 0 (accepted < data.len when the reader closed), UNKNOWN_OUTCOME (not
 * accepted in TCI_EXEC_STDIN_MS; accepted says how much was), CANCELLED (abandoned). */
typedef struct tci_exec_write {
    tc_str data;
    bool close_after;
    void (*cb)(struct tci_exec_write *write, int rc, const tc_err *err);
    size_t accepted;
    int rc;
    tci_link link;
    tci_exec *exec;
} tci_exec_write;
/* CONFLICT: stdin is closed (or about to be). OUTPUT_LIMIT: over stdin_max_bytes. No callback then;
 * otherwise cb comes exactly once, never from inside this call. */
int tci_exec_write_stdin(tci_exec *exec, tci_exec_write *write, tc_err *err) TC_CHECKED;
/* After what is queued. Idempotent. */
void tci_exec_close_stdin(tci_exec *exec);
/* To the group of the first process; false when it has ended. */
bool tci_exec_send_signal(tci_exec *exec, tci_exec_signal signal);
/* SIGKILL to the whole tree; on_exit and on_done tell the rest. Phase SIGNALED by kill; CANCELLED;
 * TIMED_OUT (for a deadline that is not the wall time). Without effect once terminal. */
void tci_exec_kill(tci_exec *exec);
void tci_exec_cancel(tci_exec *exec);
void tci_exec_time_out(tci_exec *exec);
/* Stop or go on reading both streams: the command blocks once its pipe is full. Limits after the
 * end of the first process do not run while paused. */
void tci_exec_pause_output(tci_exec *exec, bool is_paused);

#endif
