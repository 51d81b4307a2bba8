/* SPDX-License-Identifier: Apache-2.0
 *
 * What the session methods share. Inside of the client; the caller's thread. */
#ifndef TCI_CLIENT_SESSION_INT_H
#define TCI_CLIENT_SESSION_INT_H

#include "client/client_int.h"

/* Ask a session method. */
int tci_session_ask(tc_session *s, const tc_call *call, int method, void *params, void *result,
                    tc_err *err) TC_CHECKED;
/* NULL, or a struct that begins with a size of at least size bytes. */
int tci_options_check(const void *options, size_t size, tc_err *err) TC_CHECKED;
tci_eip_write_mode tci_put_write_mode(tc_write_mode mode);
/* Fill a request from a command. What is allocated lives in the arena. */
int tci_put_command(tci_arena *a, const tc_command *in, tci_eip_command_request *out,
                    tc_err *err) TC_CHECKED;

#endif
