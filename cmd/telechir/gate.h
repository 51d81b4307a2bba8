/* SPDX-License-Identifier: Apache-2.0
 *
 * A small listener on the loopback that one daemon may dial in to: a bearer credential says who it is.
 * The main thread; what it does itself runs on the runtime's loop. */
#ifndef TCI_CLI_GATE_H
#define TCI_CLI_GATE_H

#include "cli.h"

typedef struct gate gate;

/* Listen on 127.0.0.1.
 *
 *   port             0: the system chooses, see gate_url
 *   credential_file  what the daemon must present; read once
 *
 * INVALID (no credential, or not one), NOT_FOUND, CONFLICT (port in use), IO. */
int gate_open(cli *c, uint16_t port, tc_str device_id, tc_str credential_file,
              gate **ret_gate) TC_CHECKED;
/* Stop listening and end the daemon's connection, not the daemon. NULL is fine. */
void gate_close(gate *g);
tc_connections *gate_connections(const gate *g);
/* What the daemon is to be given: "ws://127.0.0.1:8788". Lives as long as the gate. */
const char *gate_url(const gate *g);
/* How many were turned away for their credential. */
unsigned gate_nrefused(gate *g);

#endif
