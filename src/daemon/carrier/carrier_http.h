/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP carrier: one stateless carrier behind all connections of a listener. Loop thread. */
#ifndef TCI_DAEMON_CARRIER_HTTP_H
#define TCI_DAEMON_CARRIER_HTTP_H

#include "daemon/device.h"

typedef struct tci_http_carrier tci_http_carrier;

/* Listen as the configuration says. on_end is called once, after a drain; the carrier is gone then. */
int tci_http_carrier_open(tci_device *device,
                          void (*on_end)(void *user, int status, tc_str message), void *user,
                          tci_http_carrier **ret, tc_err *err) TC_CHECKED;
/* Stop listening, finish what runs within a second, close all sessions. Idempotent. */
void tci_http_carrier_drain(tci_http_carrier *c);

#endif
