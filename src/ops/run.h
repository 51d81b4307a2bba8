/* SPDX-License-Identifier: Apache-2.0
 *
 * One command as pi-env runs it: a shell or a program, its output as text (or raw), kept in a file
 * once it is long, and one settled end. On top of exec.h, which holds the processes. Loop thread
 * only. */
#ifndef TCI_OPS_RUN_H
#define TCI_OPS_RUN_H

#include "base/arena.h"
#include "ops/exec.h"

typedef struct tci_run_var {
    tc_str name, value;
} tci_run_var;

typedef enum tci_run_end {
    TCI_RUN_EXITED,       /* by itself, by a signal, or killed by tci_run_kill */
    TCI_RUN_TIMED_OUT,    /* whatever else happened */
    TCI_RUN_ABORTED,      /* and not timed out */
    TCI_RUN_SPILL_FAILED, /* output could not be kept or read: killed */
    TCI_RUN_LOST          /* somebody else took its status */
} tci_run_end;

/* Strings and lists are borrowed for the callback. */
typedef struct tci_run_result {
    tci_run_end end;
    int exit_code;                   /* or 128 and the signal; EXITED only */
    int signum;                      /* that ended it; 0: none. EXITED only */
    tc_str spill_path;               /* empty: no file was begun */
    tc_str message;                  /* of SPILL_FAILED and LOST */
    const tci_ptree_proc *survivors; /* processes a kill could not end */
    size_t nsurvivors;
} tci_run_result;

typedef struct tci_run tci_run;

/* Borrowed for the call of tci_run_start, but for user. Start from TCI_RUN_OPTS_NONE. */
typedef struct tci_run_opts {
    tc_str command;     /* for the shell; ptr NULL: argv */
    const tc_str *argv; /* argv[0] is looked for as execvp(3) does, in the PATH of the command */
    size_t nargv;
    tc_str cwd;
    const tci_run_var *vars; /* win over what is inherited; the last of equal names wins */
    size_t nvars;
    bool inherit_env;   /* the environment of this process */
    tc_str shell_path;  /* ptr NULL: /bin/bash, else bash in our PATH, else sh in the command's */
    bool is_login;      /* the account's shell instead (shell_path still wins), as a login shell */
    int64_t timeout_ns; /* from the start; negative: none */
    bool has_spill;     /* keep all output in a file once there is more than this */
    uint64_t spill_after_bytes, spill_after_lines;
    tc_str tmp_dir; /* where the file's folder is made; absolute */
    bool is_raw;    /* output as it is, not decoded */
    bool has_stdin; /* a pipe, see tci_run_write_stdin; else /dev/null */

    void *user;
    /* Output in the order it came; never empty; borrowed. Text is whole characters. NO_MEMORY: the
     * command is killed and settles as SPILL_FAILED. Never from inside tci_run_start. */
    int (*on_output)(tci_run *run, tci_exec_stream stream, tc_str text, tc_err *err);
    /* Once, last, never from inside another call. The run is to be freed in or after it. */
    void (*on_done)(tci_run *run, const tci_run_result *result);
} tci_run_opts;
#define TCI_RUN_OPTS_NONE ((tci_run_opts){.timeout_ns = -1, .inherit_env = true})

/* The command gets a session of its own and ends when its first process has ended and its streams
 * have, too, or are quiet for TCI_EXEC_QUIET_MS; others it started live on. On a timeout, an abort,
 * a kill or a failure the whole tree is killed.
 *
 *   a   for what is made on the way; may be reset after the call
 *
 * Errors: NOT_FOUND (the shell of shell_path is not there), START_FAILED (anything else that kept
 * it from running; the text says what), NO_MEMORY. Nothing is left behind and nobody called. */
int tci_run_start(tci_exec_host *host, const tci_run_opts *opts, tci_arena *a, tci_run **ret_run,
                  tc_err *err) TC_CHECKED;
/* After on_done, or in it. NULL is fine. */
void tci_run_free(tci_run *run);
/* No more callbacks (writes to stdin get CANCELLED); the tree is killed; freed by itself, and ended
 * (may be NULL) is called then. */
void tci_run_abandon(tci_run *run, void (*ended)(void *user), void *user);

void *tci_run_user(const tci_run *run);
/* Kill it, and settle as ABORTED. No effect once it has settled. */
void tci_run_abort(tci_run *run);
/* Kill it, and settle as EXITED by what that did to it. */
void tci_run_kill(tci_run *run);
/* Kill it, and settle as SPILL_FAILED with that text: its output could not be passed on. */
void tci_run_fail(tci_run *run, const char *why);
/* Stop or go on reading its output; it blocks once its pipes are full. */
void tci_run_pause_output(tci_run *run, bool is_paused);

/* See tci_exec_write_stdin; there is no limit in size or time here. CONFLICT: there is no pipe, or
 * it is closed. rc 0 with accepted < data.len: the command closed its end. */
int tci_run_write_stdin(tci_run *run, tci_exec_write *write, tc_err *err) TC_CHECKED;
void tci_run_close_stdin(tci_run *run);

#endif
