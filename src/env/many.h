/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files, many at a time from one thread: a request is begun, and waited for later, so that the
 * time there and back is spent once for many and nobody is woken for each. For environments over
 * pi-env only; with the others one thread per file does it.
 *
 * Storage is the caller's, zeroed at first and used again and again; its call's result must be its own
 * alone. What was begun must be ended before the environment is released. One thread. */
#ifndef TCI_ENV_MANY_H
#define TCI_ENV_MANY_H

#include "client/pienv/pienv.h"
#include "env/env.h"

bool tci_env_has_many(const tc_env *env);

/* ---- writing ---- */

typedef struct tci_env_put {
    tc_env *env;
    tc_call call;
    tc_str path;
    tci_pi_call request;
    tci_pi_write_result reply;
} tci_env_put;

/* As tc_env_write with these options, which must be UPSERT. bytes: at most 64 KiB; stay until the end.
 * After a failure there is nothing to end. */
int tci_env_put_begin(tci_env_put *p, tc_env *env, const tc_call *call, tc_str path, tc_str bytes,
                      const tc_write_options *options, tc_err *err) TC_CHECKED;
/* Wait for the answer; the errors of tc_env_write. */
int tci_env_put_end(tci_env_put *p, tc_err *err) TC_CHECKED;

/* ---- reading ---- */

typedef struct tci_env_get {
    tc_env *env;
    tc_call call;
    tc_str path;
    tci_pi_call request, closing;
    tci_pi_open_result open;
    bool is_open, is_closing;
} tci_env_get;

/* As tc_env_read_file: open it. After a failure of any of these there is nothing to end. */
int tci_env_get_begin(tci_env_get *g, tc_env *env, const tc_call *call, tc_str path,
                      tc_err *err) TC_CHECKED;
/* Wait until it is open, and say what it is. */
int tci_env_get_info(tci_env_get *g, tc_file_info *ret_info, tc_err *err) TC_CHECKED;
/* Begin to read its first cap bytes (not 0) into buf, which stays until the end. */
int tci_env_get_read(tci_env_get *g, void *buf, size_t cap, tc_err *err) TC_CHECKED;
/* Wait for what was asked for, and let go of the file. */
int tci_env_get_end(tci_env_get *g, size_t *ret_len, tc_err *err) TC_CHECKED;
/* Let go of it at any time, also when all has ended. */
void tci_env_get_drop(tci_env_get *g);

#endif
