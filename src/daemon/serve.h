/* SPDX-License-Identifier: Apache-2.0
 *
 * The daemon as a whole: a device, its one transport, and the end of both. */
#ifndef TCI_DAEMON_SERVE_H
#define TCI_DAEMON_SERVE_H

#include "daemon/config/config.h"

/* Serve until the end: the transport ends, or SIGTERM or SIGINT arrives. Returns 0 for an orderly end;
 * otherwise err->msg is the last word. Makes and runs the loop; the calling thread is the loop's. */
int tci_serve(const tci_config *config, tc_err *err) TC_CHECKED;

#endif
