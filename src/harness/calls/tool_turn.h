/* SPDX-License-Identifier: Apache-2.0
 *
 * One change of a file after the other within a harness: queues by a key that names the file. Any
 * thread. */
#ifndef TCI_HARNESS_TOOL_TURN_H
#define TCI_HARNESS_TOOL_TURN_H

#include "plat/call.h"
#include <telechir/tool.h>

typedef struct tci_turns tci_turns;

tci_turns *tci_turns_new(void); /* NULL: no memory */
/* Nobody may hold or wait for a turn. NULL is fine. */
void tci_turns_free(tci_turns *t);

/* Get into the queue of key, at its end: never waits. */
int tci_turns_join(tci_turns *t, tc_str key, tc_file_turn **ret_turn, tc_err *err) TC_CHECKED;
/* Until all that came before are gone. On CANCELLED and TIMEOUT the place in the queue is given up, and
 * the turn is gone. */
int tci_turn_wait(tc_file_turn *turn, tc_ctx *ctx, tc_err *err) TC_CHECKED;

/* What names the file at an absolute path in env: its namespace, and the path without links, as far as
 * it exists. In the call's result. */
int tci_turn_key(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_key,
                 tc_err *err) TC_CHECKED;

#endif
