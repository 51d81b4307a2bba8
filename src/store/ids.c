/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted ids, lists of them by what they have in common, and a map from ids. Leaves what the lists mean
 * to the index. Runs on the store's thread. Invariant: a list is ascending without repeats; a table is
 * at most three quarters full, so that looking for something ends. */
#include "store/ids.h"

/* ---- sorted ---- */

void tci_ids_done(tci_ids *ids)
{
    tci_free(ids->at);
    *ids = (tci_ids){0};
}

size_t tci_id_find(const tci_id_view *v, uint64_t id)
{
    if (v->count == 0 || tci_id_at(v, v->count - 1) < id)
        return v->count; /* most are new, and at the end */
    size_t low = 0, high = v->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (tci_id_at(v, mid) < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int tci_ids_add(tci_ids *ids, uint64_t id, tc_err *err)
{
    tci_id_view view = tci_ids_view(ids);
    size_t i = tci_id_find(&view, id);
    if (i < ids->count && ids->at[i] == id)
        return 0;
    if (ids->count == ids->cap) {
        size_t cap = ids->cap < 4 ? 4 : ids->cap + ids->cap / 2;
        uint64_t *grown = tci_mem_resize(ids->at, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(err);
        ids->at = grown;
        ids->cap = cap;
    }
    memmove(&ids->at[i + 1], &ids->at[i], (ids->count - i) * sizeof *ids->at);
    ids->at[i] = id;
    ids->count++;
    return 0;
}

void tci_ids_remove(tci_ids *ids, uint64_t id)
{
    tci_id_view view = tci_ids_view(ids);
    size_t i = tci_id_find(&view, id);
    if (i == ids->count || ids->at[i] != id)
        return;
    ids->count--;
    memmove(&ids->at[i], &ids->at[i + 1], (ids->count - i) * sizeof *ids->at);
}

/* ---- map ---- */

static size_t spread(uint64_t key)
{
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(key ^ key >> 32);
}

void tci_id_map_done(tci_id_map *m)
{
    tci_free(m->slots);
    *m = (tci_id_map){0};
}

void tci_id_map_clear(tci_id_map *m)
{
    enum { KEEP = 1024 };
    if (m->cap > KEEP)
        tci_id_map_done(m);
    else if (m->count > 0)
        memset(m->slots, 0, m->cap * sizeof *m->slots);
    m->count = 0;
}

/* The slot that holds id, or the free one where it would be. The table is never full. */
static struct tci_id_slot *id_slot(const tci_id_map *m, uint64_t id)
{
    size_t i = spread(id) & (m->cap - 1);
    while (m->slots[i].id != 0 && m->slots[i].id != id)
        i = (i + 1) & (m->cap - 1);
    return &m->slots[i];
}

static bool id_map_grow(tci_id_map *m)
{
    tci_id_map larger = {.count = m->count, .cap = m->cap == 0 ? 16 : m->cap * 2};
    larger.slots = tci_mem_array(larger.cap, sizeof *larger.slots);
    if (larger.slots == NULL)
        return false;
    for (size_t i = 0; i < m->cap; i++) {
        if (m->slots[i].id != 0)
            *id_slot(&larger, m->slots[i].id) = m->slots[i];
    }
    tci_free(m->slots);
    *m = larger;
    return true;
}

uintptr_t *tci_id_map_put(tci_id_map *m, uint64_t id)
{
    if ((m->count + 1) * 4 > m->cap * 3 && !id_map_grow(m))
        return NULL;
    struct tci_id_slot *slot = id_slot(m, id);
    if (slot->id == 0) {
        slot->id = id;
        slot->value = 0;
        m->count++;
    }
    return &slot->value;
}

uintptr_t *tci_id_map_get(const tci_id_map *m, uint64_t id)
{
    if (m->count == 0)
        return NULL;
    struct tci_id_slot *slot = id_slot(m, id);
    return slot->id == id ? &slot->value : NULL;
}

void tci_id_map_remove(tci_id_map *m, uint64_t id)
{
    if (m->count == 0)
        return;
    struct tci_id_slot *slot = id_slot(m, id);
    if (slot->id != id)
        return;
    slot->id = 0;
    m->count--;
    /* what comes behind it may have been pushed on by it */
    for (size_t i = ((size_t)(slot - m->slots) + 1) & (m->cap - 1); m->slots[i].id != 0;
         i = (i + 1) & (m->cap - 1)) {
        struct tci_id_slot moved = m->slots[i];
        m->slots[i].id = 0;
        *id_slot(m, moved.id) = moved;
    }
}

/* ---- lists ---- */

void tci_postings_done(tci_postings *p)
{
    for (size_t i = 0; i < p->cap; i++)
        tci_ids_done(&p->slots[i].ids);
    tci_free(p->slots);
    *p = (tci_postings){0};
}

static struct tci_posting *posting_slot(const tci_postings *p, unsigned what, uint64_t key)
{
    size_t i = spread(key * 31 + what) & (p->cap - 1);
    while (p->slots[i].what_plus_1 != 0 &&
           (p->slots[i].what_plus_1 != what + 1 || p->slots[i].key != key))
        i = (i + 1) & (p->cap - 1);
    return &p->slots[i];
}

static bool postings_grow(tci_postings *p)
{
    tci_postings larger = {.count = p->count, .cap = p->cap == 0 ? 32 : p->cap * 2};
    larger.slots = tci_mem_array(larger.cap, sizeof *larger.slots);
    if (larger.slots == NULL)
        return false;
    for (size_t i = 0; i < p->cap; i++) {
        struct tci_posting *old = &p->slots[i];
        if (old->what_plus_1 != 0)
            *posting_slot(&larger, old->what_plus_1 - 1, old->key) = *old;
    }
    tci_free(p->slots);
    *p = larger;
    return true;
}

const tci_ids *tci_postings_get(const tci_postings *p, unsigned what, uint64_t key)
{
    if (p->count == 0)
        return NULL;
    const struct tci_posting *slot = posting_slot(p, what, key);
    return slot->what_plus_1 != 0 ? &slot->ids : NULL;
}

int tci_postings_add(tci_postings *p, unsigned what, uint64_t key, uint64_t id, tc_err *err)
{
    if ((p->count + 1) * 4 > p->cap * 3 && !postings_grow(p))
        return tci_err_no_memory(err);
    struct tci_posting *slot = posting_slot(p, what, key);
    if (slot->what_plus_1 == 0) {
        slot->what_plus_1 = what + 1;
        slot->key = key;
        p->count++;
    }
    return tci_ids_add(&slot->ids, id, err);
}

void tci_postings_remove(tci_postings *p, unsigned what, uint64_t key, uint64_t id)
{
    if (p->count == 0)
        return;
    struct tci_posting *slot = posting_slot(p, what, key);
    if (slot->what_plus_1 != 0)
        tci_ids_remove(&slot->ids, id);
}
