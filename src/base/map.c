/* SPDX-License-Identifier: Apache-2.0
 *
 * An open hash table with linear probing. Leaves keys and values to the caller. One thread at a
 * time. Invariant: cap is 0 or a power of two, and at least a quarter of the slots were never used
 * since the last rehash, so every probe ends. */
#include "base/map.h"
#include "base/hash.h"

enum { CAP_FIRST = 16, EMPTY = 0, DELETED = 1, HASH_MIN = 2 };

void tci_map_init(tci_map *m, uint64_t seed)
{
    *m = (tci_map){.seed = seed};
}

void tci_map_done(tci_map *m)
{
    tci_mem_free(m->slots);
    *m = (tci_map){.seed = m->seed};
}

static uint64_t hash_of(const tci_map *m, tc_str key)
{
    uint64_t hash = tci_hash64(key.ptr, key.len, m->seed);
    return hash >= HASH_MIN ? hash : hash + HASH_MIN;
}

static tci_map_slot *find(const tci_map *m, tc_str key, uint64_t hash)
{
    if (m->nitems == 0)
        return NULL;
    for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        tci_map_slot *s = &m->slots[i];
        if (s->hash == EMPTY)
            return NULL;
        if (s->hash == hash && tci_str_eq(s->key, key))
            return s;
    }
}

/* slot goes to the first free place from its home on. */
static void place(tci_map *m, tci_map_slot slot)
{
    size_t i = slot.hash & (m->cap - 1);
    while (m->slots[i].hash >= HASH_MIN)
        i = (i + 1) & (m->cap - 1);
    m->nused += m->slots[i].hash == EMPTY;
    m->slots[i] = slot;
}

/* Drops the deleted marks without new memory. No entry ever sits beyond a never used slot from its
 * home, so starting after one, each entry's new place is at or before its old one. */
static void rehash_in_place(tci_map *m)
{
    size_t mask = m->cap - 1, start = 0;
    while (m->slots[start].hash != EMPTY)
        start++;
    for (size_t i = 0; i < m->cap; i++) {
        if (m->slots[i].hash == DELETED)
            m->slots[i].hash = EMPTY;
    }
    m->nused = 0;
    for (size_t n = 1; n <= m->cap; n++) {
        tci_map_slot slot = m->slots[(start + n) & mask];
        if (slot.hash == EMPTY)
            continue;
        m->slots[(start + n) & mask].hash = EMPTY;
        place(m, slot);
    }
}

static bool grow(tci_map *m)
{
    size_t cap = m->cap == 0 ? CAP_FIRST : m->cap * 2;
    tci_map_slot *slots = tci_mem_array(cap, sizeof *slots), *old = m->slots;
    if (slots == NULL)
        return false;
    size_t old_cap = m->cap;
    m->slots = slots;
    m->cap = cap;
    m->nused = 0;
    for (size_t i = 0; i < old_cap; i++) {
        if (old[i].hash >= HASH_MIN)
            place(m, old[i]);
    }
    tci_mem_free(old);
    return true;
}

void *tci_map_get(const tci_map *m, tc_str key)
{
    if (m->nitems == 0)
        return NULL;
    tci_map_slot *s = find(m, key, hash_of(m, key));
    return s != NULL ? s->value : NULL;
}

int tci_map_put(tci_map *m, tc_str key, void *value, tc_err *err)
{
    TC_ASSERT(value != NULL);
    uint64_t hash = hash_of(m, key);
    if (find(m, key, hash) != NULL)
        return tc_err_set(err, TC_E_CONFLICT, "'%.*s' is there already", TC_STR_ARG(key));
    if (m->nused + 1 > m->cap / 4 * 3) {
        /* With half of the room in use by marks, cleaning is enough and pays for itself. */
        if (m->cap > 0 && m->nitems < m->cap / 8 * 3)
            rehash_in_place(m);
        else if (!grow(m))
            return tci_err_no_memory(err);
    }
    place(m, (tci_map_slot){.hash = hash, .key = key, .value = value});
    m->nitems++;
    return 0;
}

void *tci_map_remove(tci_map *m, tc_str key)
{
    tci_map_slot *s = m->nitems > 0 ? find(m, key, hash_of(m, key)) : NULL;
    if (s == NULL)
        return NULL;
    void *value = s->value;
    size_t i = (size_t)(s - m->slots), mask = m->cap - 1;
    *s = (tci_map_slot){.hash = DELETED};
    m->nitems--;
    /* Marks before a never used slot lead nowhere. */
    if (m->slots[(i + 1) & mask].hash == EMPTY) {
        for (; m->slots[i].hash == DELETED; i = (i - 1) & mask) {
            m->slots[i].hash = EMPTY;
            m->nused--;
        }
    }
    return value;
}

void *tci_map_next(const tci_map *m, size_t *at)
{
    while (*at < m->cap) {
        const tci_map_slot *s = &m->slots[(*at)++];
        if (s->hash >= HASH_MIN)
            return s->value;
    }
    return NULL;
}
