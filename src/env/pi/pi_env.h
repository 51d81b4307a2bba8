/* SPDX-License-Identifier: Apache-2.0
 *
 * Environments over a pi-env connection: what makes one. Providers differ in how the daemon is
 * started, which is the launcher's business, and in their names. */
#ifndef TCI_ENV_PI_ENV_H
#define TCI_ENV_PI_ENV_H

#include "client/pienv/pienv.h"
#include "env/env.h"

/*   provider    "ssh"; static storage
 *   files_id    unless the recipe (tc_env_options.files_id) names another; copied
 *   is_lazy     usable without ready: the first operation connects, a failure is that operation's
 *               and the next one tries again. Otherwise ready connects, and a failed one is the end
 *   on_free     of user, once, when the environment is gone; may be NULL */
typedef struct tci_pi_recipe {
    tc_str provider;
    tc_str files_id;
    bool is_lazy;
    void (*on_free)(void *user);
    void *user;
} tci_pi_recipe;

/* Check options and make an environment on a connection. The reference to pi and user are taken over,
 * also on failure (on_free is called then). Adapters may share a connection: closing one ends nothing
 * of the others; what ends the connection is the last reference to it. Nothing is contacted.
 * Errors: INVALID; UNSUPPORTED (allow_create, egress, a restricted boundary, a state). */
int tci_pi_env_new_own(tc_runtime *rt, const tci_pi_recipe *recipe, const tc_env_options *options,
                       tci_pi *pi, tc_env **ret_env, tc_err *err) TC_CHECKED;

/* Where the daemon program of this machine is, as local environments look for it: named, else beside
 * the running program, TELECHIRD_EXECUTABLE, A13N_ENVD_EXECUTABLE, then "telechird" and "a13n-envd"
 * on PATH. In a. NOT_FOUND. */
int tci_env_daemon_program(tc_runtime *rt, tc_str named, tci_arena *a, tc_str *ret_path,
                           tc_err *err) TC_CHECKED;

#endif
