/* SPDX-License-Identifier: Apache-2.0
 *
 * Running one command with its output passed on as it comes. */
#ifndef TCI_CLI_EXEC_H
#define TCI_CLI_EXEC_H

#include "cli.h"

/* Run it, and give the exit status of our program; failures are reported. has_input: our standard
 * input becomes the command's. The main thread. */
int cli_run_command(cli *c, tc_env *env, const tc_command *command, bool has_input);
/* --cwd, --env, --env-file and --timeout into *ret. In the command's arena. */
int cli_command_options(cli *c, tc_command *ret) TC_CHECKED;

#endif
