/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids in order: sorted lists of them, lists found by what they have in common, and a map from an id
 * to something. Ids are never 0. One thread at a time. */
#ifndef TCI_STORE_IDS_H
#define TCI_STORE_IDS_H

#include "base/mem.h"
#include "base/num.h"

/* Ascending, each once. Zeroed is empty. */
typedef struct tci_ids {
    uint64_t *at;
    size_t count, cap;
} tci_ids;

void tci_ids_done(tci_ids *ids);
int tci_ids_add(tci_ids *ids, uint64_t id, tc_err *err) TC_CHECKED; /* fine when it is there */
void tci_ids_remove(tci_ids *ids, uint64_t id);                     /* fine when it is not */

/* Ids in ascending order wherever they lie: a list of them, or a table of structs that begin with one. */
typedef struct tci_id_view {
    const void *base;
    size_t stride, count;
} tci_id_view;

static inline tci_id_view tci_ids_view(const tci_ids *ids) /* NULL is empty */
{
    return (tci_id_view){ids != NULL ? ids->at : NULL, sizeof(uint64_t),
                         ids != NULL ? ids->count : 0};
}
static inline uint64_t tci_id_at(const tci_id_view *v, size_t i)
{
    return *(const uint64_t *)(const void *)((const char *)v->base + i * v->stride);
}
/* Offset of the first that is not below id; count when there is none. */
size_t tci_id_find(const tci_id_view *v, uint64_t id);

/* From an id to a pointer or a number. Zeroed is empty. */
typedef struct tci_id_map {
    struct tci_id_slot {
        uint64_t id; /* 0: free */
        uintptr_t value;
    } * slots;
    size_t count, cap;
} tci_id_map;

void tci_id_map_done(tci_id_map *m);
void tci_id_map_clear(tci_id_map *m); /* keeps a small table */
/* The place for the value of id, 0 in it when it is new; NULL: NO_MEMORY. Valid until the next call. */
uintptr_t *tci_id_map_put(tci_id_map *m, uint64_t id) TC_CHECKED;
/* NULL when there is none. */
uintptr_t *tci_id_map_get(const tci_id_map *m, uint64_t id);
void tci_id_map_remove(tci_id_map *m, uint64_t id);

/* Lists by (what, key), made when first asked for. Zeroed is empty. */
typedef struct tci_postings {
    struct tci_posting {
        uint64_t key;
        unsigned what_plus_1; /* 0: free */
        tci_ids ids;
    } * slots;
    size_t count, cap;
} tci_postings;

void tci_postings_done(tci_postings *p);
/* NULL when nothing was ever put there. Valid until the next add. */
const tci_ids *tci_postings_get(const tci_postings *p, unsigned what, uint64_t key);
int tci_postings_add(tci_postings *p, unsigned what, uint64_t key, uint64_t id,
                     tc_err *err) TC_CHECKED;
void tci_postings_remove(tci_postings *p, unsigned what, uint64_t key, uint64_t id);

#endif
