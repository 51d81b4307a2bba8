/* SPDX-License-Identifier: Apache-2.0
 *
 * How often one address may do something: a bucket for each that fills again with time. A fixed table; when it
 * is full, the address that was seen longest ago is forgotten. Pure: the time comes from the caller. */
#ifndef TCI_HOST_LIMIT_H
#define TCI_HOST_LIMIT_H

#include "plat/socket.h"

enum { TCI_LIMIT_PLACES = 512 };

typedef struct tci_limit_place {
    uint8_t ip[16];
    uint8_t family; /* 0: free */
    int64_t at_ms;  /* when level was true */
    int64_t level;  /* thousandths left */
} tci_limit_place;

typedef struct tci_limit {
    int64_t burst;   /* at once */
    int64_t each_ms; /* and one more in so many milliseconds */
    tci_limit_place places[TCI_LIMIT_PLACES];
} tci_limit;

void tci_limit_init(tci_limit *l, unsigned burst, int64_t each_ms);
/* Take one. false: none is left, and there will be one in *ret_wait_ms. IPv6 addresses of one /64 are one. */
bool tci_limit_take(tci_limit *l, const tci_addr *who, int64_t now_ms, int64_t *ret_wait_ms);
/* Is one left? Takes none. */
bool tci_limit_has(tci_limit *l, const tci_addr *who, int64_t now_ms, int64_t *ret_wait_ms);

#endif
