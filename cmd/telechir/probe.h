/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at a target that is ready: what it is, what carries it, how far it is. For `target check`
 * and `doctor`. The main thread; texts live as long as the command. */
#ifndef TCI_CLI_PROBE_H
#define TCI_CLI_PROBE_H

#include "target.h"

/* What is empty is not known. */
typedef struct cli_facts {
    tc_str os, os_version, kernel, machine;
    tc_str daemon_version, daemon_path, user;
} cli_facts;

/* Of local and ssh, from what a script there sees. */
int cli_probe_facts(cli *c, tc_env *env, cli_facts *ret, tc_err *err) TC_CHECKED;
/* Median time of a question and its answer, in microseconds. */
int cli_probe_round_trip(cli *c, tc_env *env, int64_t *ret_us, tc_err *err) TC_CHECKED;
/* The keys that are trusted for an ssh target. */
int cli_probe_keys(cli *c, const cli_target *t, tc_ssh_keys *ret, tc_err *err) TC_CHECKED;

#endif
