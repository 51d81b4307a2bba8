/* SPDX-License-Identifier: Apache-2.0
 *
 * Daemons that dial in, for a listener of our own on the runtime's loop: no threads, no copies.
 * What the public calls do for a listener of somebody else's, see telechir/connections.h. */
#ifndef TCI_CLIENT_CONNECTIONS_H
#define TCI_CLIENT_CONNECTIONS_H

#include "client/client.h"
#include <telechir/connections.h>

struct tci_httpd_req;

/* How it is found out that nobody is there any more, in milliseconds. Pings are for links of ours only: a
 * socket of somebody else's has those of its server. */
typedef struct tci_link_times {
    int64_t ping_interval_ms; /* 20 s */
    int64_t pong_timeout_ms;  /* 10 s */
    int64_t send_timeout_ms;  /* 10 s without a byte taken */
    int64_t
        probe_ms; /* 5 s: the device dials again while its link is up: an answer on that, or it goes */
} tci_link_times;

/* For tests: other times. Before the first link. */
void tci_connections_set_times(tc_connections *c, const tci_link_times *times);

/* Take an upgrade request (in its on_head) of the daemon that the program knows as device_id, and serve
 * it as tc_connections_attach does. The request is answered in any case: 101; 503, so that the daemon
 * dials again later, when the device is connected already, there are too many, or c is closed; 400,
 * 405, 426 or 500. A device that is connected already is asked for a sign of life, so that a link that has
 * died in silence does not keep its daemon out for long.
 *
 *   on_end  once, on the loop, after the link has ended, when this succeeded: code and err are what
 *           attach would return. May be NULL
 *
 * Errors: CONFLICT, BUSY, CLOSED, INVALID, PROTOCOL, NO_MEMORY. Loop thread of the runtime. */
int tci_connections_upgrade(tc_connections *c, struct tci_httpd_req *req, tc_str device_id,
                            void (*on_end)(void *user, int code, const tc_err *err), void *user,
                            tc_err *err) TC_CHECKED;
/* Tell user of every device that is initialized from now on; device is borrowed. Loop thread, both. */
void tci_connections_on_live(tc_connections *c, void (*told)(void *user, tc_device *device),
                             void *user);
/* End the link of a device for the reason given, which goes to whoever waits for an answer; false:
 * there is none. Loop thread. */
bool tci_connections_end(tc_connections *c, tc_str device_id, const tc_err *why);

tc_runtime *tci_connections_runtime(const tc_connections *c);
/* Another reference to the memory (not to its being open). Any thread. */
tc_connections *tci_connections_retain(tc_connections *c);
void tci_connections_release(tc_connections *c); /* NULL is fine */

#endif
