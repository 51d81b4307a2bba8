/* SPDX-License-Identifier: Apache-2.0
 *
 * Other programs of this machine that the command starts for itself. The main thread. */
#ifndef TCI_CLI_CHILD_H
#define TCI_CLI_CHILD_H

#include "cli.h"
#include "plat/proc.h"

/* The absolute path of a program on PATH, or in the folders where servers are (sbin). In the
 * command's arena. NOT_FOUND. */
int cli_find_program(cli *c, const char *name, tc_str *ret, tc_err *err) TC_CHECKED;
/* Run argv (argv[0] absolute, NULL at the end) to its end, without input; both its outputs come into
 * out, up to its maximum. Ctrl-C kills it: CANCELLED. NOT_FOUND, DENIED, START_FAILED, ... */
int cli_child_run(cli *c, const char *const *argv, tci_buf *out, tci_exit *ret_exit,
                  tc_err *err) TC_CHECKED;

#endif
