/* SPDX-License-Identifier: Apache-2.0
 *
 * Does something listen on a TCP port of this machine? Asked by connecting, IPv4 only. Loop thread;
 * nothing blocks. */
#ifndef TCI_OPS_PORTS_H
#define TCI_OPS_PORTS_H

#include "base/rfc3339.h"
#include "loop/loop.h"

typedef enum tci_port_address {
    TCI_PORT_LOOPBACK,
    TCI_PORT_ANY
} tci_port_address; /* 127.0.0.1, 0.0.0.0 */
typedef enum tci_port_status {
    TCI_PORT_LISTENING,
    TCI_PORT_NOT_LISTENING,
    TCI_PORT_UNKNOWN /* no answer within TCI_PORT_CONNECT_MS, or another failure */
} tci_port_status;
enum { TCI_PORT_CONNECT_MS = 100, TCI_PORT_POLL_MS = 25 };

typedef struct tci_port_check {
    tci_loop *loop;
    tci_port_address address;
    uint16_t port;
    bool is_wait;
    tci_port_status desired;
    int64_t deadline_ns;
    int fd;
    bool is_active;
    tci_watch watch;
    tci_timer timer;    /* connect limit, or next poll */
    tci_timer deadline; /* of a wait */
    tci_port_status status;
    tci_instant observed_at;
    void (*cb)(struct tci_port_check *check, int rc, const tc_err *err);
} tci_port_check;

/* Look once. cb comes exactly once, never from inside this call, unless cancelled; with rc 0 status
 * and observed_at are set. Zeroed storage, the caller's until cb or _cancel. INVALID: port 0.
 * NO_MEMORY. */
int tci_port_inspect(tci_port_check *check, tci_loop *loop, tci_port_address address, uint16_t port,
                     void (*cb)(tci_port_check *check, int rc, const tc_err *err),
                     tc_err *err) TC_CHECKED;
/* Look every TCI_PORT_POLL_MS until the status is the desired one, or TIMEOUT at deadline_ns (of
 * tci_loop_now_ns). */
int tci_port_wait(tci_port_check *check, tci_loop *loop, tci_port_address address, uint16_t port,
                  tci_port_status desired, int64_t deadline_ns,
                  void (*cb)(tci_port_check *check, int rc, const tc_err *err),
                  tc_err *err) TC_CHECKED;
/* No callback after this. Fine when finished. */
void tci_port_cancel(tci_port_check *check);

#endif
