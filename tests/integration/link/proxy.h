/* SPDX-License-Identifier: Apache-2.0
 *
 * A TCP proxy between a daemon and a Host, on a thread of its own, that can fall silent, go slow, or turn
 * newcomers away. The test's thread gives the orders. */
#ifndef TEST_LINK_PROXY_H
#define TEST_LINK_PROXY_H

#include "plat/thread.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef enum proxy_silence {
    PROXY_DEAF = 1, /* nothing is read any more: what is sent fills up in front of it */
    PROXY_SWALLOWS  /* everything is read, and nothing passed on */
} proxy_silence;

typedef struct proxy {
    uint16_t port, target; /* on loopback */
    int listener;
    tci_thread *thread;
    atomic_bool is_over, is_refusing;
    atomic_uint naccepted, nrefused;
    atomic_uint nsilent;      /* the first so many connections are silent */
    atomic_uint nhalf;        /* of the first so many, what the daemon sends is not read */
    atomic_int how;           /* proxy_silence */
    atomic_size_t slow_bytes; /* from the daemon: so much in each PROXY_STEP_MS; 0: all */
    tci_wake changed;         /* of the numbers */
} proxy;

enum { PROXY_STEP_MS = 5 };

void proxy_open(proxy *p, uint16_t target);
void proxy_close(proxy *p);
/* The connections of now keep open and pass nothing more on; those that come are as ever. */
void proxy_silence_all(proxy *p, proxy_silence how);
/* The same for what the daemon sends, only, and without reading it. */
void proxy_block_daemon(proxy *p);
/* Newcomers are closed at once. */
void proxy_refuse(proxy *p, bool is_refusing);
/* Wait until one of the numbers is at least that. */
void proxy_wait(proxy *p, const atomic_uint *number, unsigned least);

#endif
