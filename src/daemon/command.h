/* SPDX-License-Identifier: Apache-2.0
 *
 * From a CommandRequest to something that can be executed: program, arguments, environment, directory,
 * limits, checked against the configuration. Also what all commands of the device share. Loop
 * thread. */
#ifndef TCI_DAEMON_COMMAND_H
#define TCI_DAEMON_COMMAND_H

#include "daemon/req.h"
#include "ops/exec.h"

/* Made apart from the start, so that a daemon that offers no commands has none of it and the first answer
 * does not wait for it. */
typedef struct tci_command_host {
    tci_ptree_host *trees;
    bool has_shared_trees; /* the device does not own them */
    tci_exec_host *execs;
    tci_spool_dir spool_dir;
    tci_arena arena;
    const char *const *base_env; /* NAME=value, NULL-terminated */
    size_t nbase_env;
} tci_command_host;

int tci_command_host_get(struct tci_device *d, tci_command_host **ret, tc_err *err) TC_CHECKED;
void tci_command_host_free(tci_command_host *host); /* NULL is fine; no command may be left */

/* A command ready to start; everything in the request's arena. */
typedef struct tci_command {
    const char *program;
    const char *const *argv;
    const char *const *envp;
    const char *cwd;
    tc_str initial_stdin;
    bool keep_stdin_open;
    uint64_t stdin_max_bytes;
    int64_t wall_time_ms;
} tci_command;

/* UNSUPPORTED (profile, limit), INVALID (shape), DENIED (program, directory). */
int tci_command_prepare(tci_req *r, const tci_eip_command_request *in, tci_command *ret,
                        tc_err *err) TC_CHECKED;

#endif
