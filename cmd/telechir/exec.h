/* SPDX-License-Identifier: Apache-2.0
 *
 * Running one command with its output passed on as it comes: by one call where input can be fed to it
 * (exec_run.c), as a process that is followed over EIP (exec_follow.c). What both print is in
 * exec_out.c. */
#ifndef TCI_CLI_EXEC_H
#define TCI_CLI_EXEC_H

#include "cli.h"
#include "plat/thread.h"

/* Run it, and give the exit status of our program; failures are reported. has_input: our standard
 * input becomes the command's. The main thread. */
int cli_run_command(cli *c, tc_env *env, const tc_command *command, bool has_input);
/* --cwd, --env, --env-file and --timeout into *ret. In the command's arena. */
int cli_command_options(cli *c, tc_command *ret) TC_CHECKED;
/* The same run through EIP processes. */
int cli_follow_command(cli *c, tc_env *env, const tc_command *command, bool has_input);

/* ---- what is printed (exec_out.c) ---- */

enum { EXEC_CARRY_MAX = 3 }; /* bytes of a character that is not whole yet */

typedef struct exec_stream {
    uint64_t nbytes;
    char carry[EXEC_CARRY_MAX];
    size_t ncarry;
} exec_stream;

/* Both streams of one command. */
typedef struct exec_out {
    cli *c;
    tci_mutex lock; /* JSON lines may come from two threads */
    exec_stream streams[2];
    bool is_started; /* it was said */
} exec_out;

/* What is known at the end, for the message and the last JSON line.
 *   outcome  "done", "killed", "unknown", "not_started"
 *   signum   of the signal that ended it, when process says SIGNALED; 0: its number is not known */
typedef struct exec_ending {
    bool has_status;
    tc_process_status process;
    const char *outcome;
    int signum;
    const tc_err *err; /* NULL: it went as it should */
    int status;
} exec_ending;

void exec_out_init(exec_out *o, cli *c);
void exec_out_done(exec_out *o);
/* Pass output on. One thread for each stream. */
int exec_put(exec_out *o, tc_stream_kind stream, tc_str data, tc_err *err) TC_CHECKED;
/* No more of that stream follows. */
int exec_put_rest(exec_out *o, tc_stream_kind stream, tc_err *err) TC_CHECKED;
/* The line that says it was started, with --json, once; env's facts and the result's evidence are in
 * it. */
int exec_put_started(exec_out *o, const tc_env *env, tc_err *err) TC_CHECKED;
/* The same before the end is told, unless it was not started: who reads can rely on it. */
void exec_put_started_late(exec_out *o, const tc_env *env, const exec_ending *e);
/* Tell the end; gives the exit status. */
int exec_finish(exec_out *o, const exec_ending *e);
/* By the way it ended of its own, or at its limit: fills in outcome and status, and says it. err is
 * where a failure is put. */
exec_ending exec_ending_of(cli *c, const tc_process_status *process, tc_err *err);
/* The target could not even be reached: c->err, and the last line with --json. Gives the status. */
int exec_no_target(cli *c);

#endif
