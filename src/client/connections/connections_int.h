/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of accepted connections: the registry (connections.c), one arrival of a daemon on the loop
 * (connections_arrival.c), and the two things its messages may come by: somebody's blocking socket
 * (connections_socket.c, connections_attach.c) and a WebSocket of ours (connections_ws.c). */
#ifndef TCI_CLIENT_CONNECTIONS_INT_H
#define TCI_CLIENT_CONNECTIONS_INT_H

#include "client/connections/connections.h"
#include "client/messages.h"

struct tc_connections {
    atomic_uint refs;
    tc_runtime *rt;
    size_t max_devices;
    tc_device_options device;
    tci_link_times times;
    void (*on_live)(void *user, tc_device *device); /* loop thread, with its user */
    void *live_user;
    tci_ender ender; /* loop thread; holds a reference while it is in the runtime's list */
    tci_mutex lock;  /* guards the rest */
    bool is_closed;
    tci_list arrivals; /* of tci_arrival, that have not begun to end */
    tci_list waiters;  /* of tci_connections_waiter */
    size_t nleft;      /* links that are not gone */
    tci_wake emptied;
};

/* Somebody who waits for a device. */
typedef struct tci_connections_waiter {
    tci_link link;
    tci_wake *wake;
    tci_wake own;
} tci_connections_waiter;

typedef struct tci_arrival tci_arrival;

/* NULL: there is none. It stays until the loop's next turn at least. Loop thread. */
tci_arrival *tci_connections_find(tc_connections *c, tc_str device_id);

/* A connection that was accepted. It is freed with the last reference to its device. */
struct tci_arrival {
    tci_messages messages;
    tc_connections *registry; /* until over */
    tci_link link;            /* registry->arrivals, under its lock */
    bool is_live;             /* under its lock: initialized */
    char *device_id;
    /* loop thread */
    tc_device *device; /* our reference, until over */
    tci_device_start *start;
    tci_post started;
    tci_timer limit;
    bool is_begun;
    bool was_live;
    bool is_peer_end; /* the link was ended by the other side, or lost */
    unsigned nparts;  /* what still has to end */
    /* Its last word: nothing of it is left on the loop or with the link. */
    void (*over)(tci_arrival *a);
};

static inline tci_arrival *tci_arrival_of(tci_messages *m)
{
    return TCI_CONTAINER(m, tci_arrival, messages);
}

/* Set up a zeroed arrival with a device of its own: one reference, the arrival's. The arrival is taken over,
 * also on failure (link->free is called then). Any thread. */
int tci_arrival_init_own(tci_arrival *a, const tci_message_link *link, tc_connections *c,
                         tc_str device_id, void (*over)(tci_arrival *a), tc_err *err) TC_CHECKED;
/* Take a place in the registry. CONFLICT, BUSY, CLOSED. Any thread. */
int tci_arrival_reserve(tci_arrival *a, tc_connections *c, tc_err *err) TC_CHECKED;
/* Instead of begin: give the place back, and free the arrival. Not on the loop thread. */
void tci_arrival_cancel(tci_arrival *a);
/* The same on the loop thread. */
void tci_arrival_drop(tci_arrival *a);

/* Loop thread, once the link works: initialize. */
void tci_arrival_begin(tci_arrival *a);
/* For link->stop: no longer to be found. False: it never began, and tci_conn_stopped was called. */
bool tci_arrival_stopping(tci_arrival *a);
/* The link has a part of its own more, or one less, that has to end before the arrival is over. Not from
 * inside of stop. */
void tci_arrival_part_done(tci_arrival *a);
/* The other side ended the link, or it was lost. */
void tci_arrival_lost(tci_arrival *a, const tc_err *err);
/* In over: what attach returns. */
int tci_arrival_result(const tci_arrival *a, tc_err *err);
/* The close code that tells the other side why. */
unsigned tci_arrival_close_code(const tci_arrival *a);
void tci_arrival_free_parts(tci_arrival *a); /* for link->free */

/* The close code for a socket that is not taken. */
unsigned tci_close_code_of(int code);

#endif
