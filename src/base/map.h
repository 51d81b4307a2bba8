/* SPDX-License-Identifier: Apache-2.0
 *
 * From text to pointer: an open hash table. Keys are borrowed from the values and must live as
 * long as the entry. Seeded, so that names chosen from outside cannot line up. */
#ifndef TCI_MAP_H
#define TCI_MAP_H

#include "base/mem.h"
#include "base/str.h"

typedef struct tci_map_slot {
    uint64_t hash; /* 0: never used, 1: deleted */
    tc_str key;
    void *value;
} tci_map_slot;

typedef struct tci_map {
    tci_map_slot *slots;
    size_t cap, nitems, nused;
    uint64_t seed;
} tci_map;

void tci_map_init(tci_map *m, uint64_t seed); /* no allocation */
void tci_map_done(tci_map *m);                /* values are the caller's */

void *tci_map_get(const tci_map *m, tc_str key); /* NULL when absent */
/* CONFLICT when the key is there already. value is not NULL. */
int tci_map_put(tci_map *m, tc_str key, void *value, tc_err *err) TC_CHECKED;
void *tci_map_remove(tci_map *m, tc_str key); /* the value, or NULL */

/* Walk: *at starts at 0; NULL at the end. Entries may be removed while walking, not added. */
void *tci_map_next(const tci_map *m, size_t *at);

#endif
