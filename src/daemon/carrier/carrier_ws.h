/* SPDX-License-Identifier: Apache-2.0
 *
 * The reverse WebSocket carrier: dials out to a Host, serves its connection, and dials again when it is
 * lost. Sessions outlive connections by their grace time. Loop thread. */
#ifndef TCI_DAEMON_CARRIER_WS_H
#define TCI_DAEMON_CARRIER_WS_H

#include "daemon/device.h"

typedef struct tci_ws_carrier tci_ws_carrier;

/* Times in milliseconds and chance, for tests. A zero takes the documented value. */
typedef struct tci_ws_carrier_options {
    int64_t connect_ms;       /* 10 s: TCP, proxy, TLS and upgrade together */
    int64_t first_message_ms; /* 30 s: from the upgrade to initialize */
    int64_t ping_interval_ms; /* 20 s */
    int64_t pong_timeout_ms;  /* 10 s */
    int64_t send_timeout_ms;  /* 10 s */
    int64_t in_flight_ms;     /* 1 s: what requests get after their connection is lost */
    int64_t
        settled_ms; /* 60 s: a connection that lived so long puts the back-off to its start; below
                           0: every connection does */
    /* A number of 0..max, each as likely; NULL: the real thing. The delay before the next attempt. */
    uint64_t (*random_upto)(void *arg, uint64_t max);
    void *arg;
} tci_ws_carrier_options;

/* Begin to dial. on_end is called once: status 0 after tci_ws_carrier_drain, otherwise 1 and message is
 * the last word. The carrier is gone after it. options NULL: as documented.
 * Errors: UNSUPPORTED in a build without TLS, NO_MEMORY. */
int tci_ws_carrier_open(tci_device *device, const tci_ws_carrier_options *options,
                        void (*on_end)(void *user, int status, tc_str message), void *user,
                        tci_ws_carrier **ret, tc_err *err) TC_CHECKED;
/* Close sessions and connection (a signal asks for it). Idempotent. */
void tci_ws_carrier_drain(tci_ws_carrier *s);

#endif
