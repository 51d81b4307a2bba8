/* SPDX-License-Identifier: Apache-2.0
 *
 * A socket of the kind that programs give to tc_connections_attach, for tests: its messages are the
 * scripted daemon's frames. What is wanted of it can be bent. */
#ifndef TC_TEST_PLUG_H
#define TC_TEST_PLUG_H

#include "peer.h"

#include <stdatomic.h>
#include <telechir/connections.h>

typedef struct plug {
    int fd;
    const char *subprotocol; /* NULL: the right one */
    tc_socket socket;
    tci_frames frames;
    tci_buf in;
    size_t used;
    atomic_int nclose; /* how often it was closed */
    atomic_uint close_code;
    atomic_int nwait;
    atomic_bool is_send_held; /* send blocks until the socket is closed */
    atomic_int nsending;      /* sends that began */
    tci_wake changed;
} plug;

/* fd is taken over. */
void plug_open(plug *p, int fd);
/* After attach has returned. */
void plug_done(plug *p);

/* An attach on a thread of its own. */
typedef struct attached {
    plug plug;
    tc_connections *connections;
    tc_ctx *ctx;
    const char *device_id;
    tci_thread *thread;
    int code;
    tc_err err;
    atomic_bool is_over;
    tci_wake over;
} attached;

/* a zeroed but for plug.subprotocol and ctx. The peer's client_fd is taken over. */
void attach_start(attached *a, tc_connections *c, const char *device_id, peer *p);
/* Wait for its return; gives the code. */
int attach_end(attached *a);
bool attach_is_over(attached *a);

/* From here on every rig is connected this way. */
void rig_use_plugs(void);

#endif
