/* SPDX-License-Identifier: Apache-2.0
 *
 * From ids to objects: open addressing, removal by shifting back. Leaves the objects to others. One
 * thread at a time. Invariant: no free slot lies between an id and its home. */
#include "harness/sched/sched_int.h"

static size_t slot_of(const tci_by_id *m, uint64_t id)
{
    return (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (m->cap - 1);
}

void tci_by_id_done(tci_by_id *m)
{
    tci_free(m->slots);
    *m = (tci_by_id){0};
}

void *tci_by_id_get(const tci_by_id *m, uint64_t id)
{
    if (m->count == 0)
        return NULL;
    for (size_t i = slot_of(m, id); m->slots[i].id != 0; i = (i + 1) & (m->cap - 1))
        if (m->slots[i].id == id)
            return m->slots[i].value;
    return NULL;
}

static void place(tci_by_id *m, uint64_t id, void *value)
{
    size_t i = slot_of(m, id);
    while (m->slots[i].id != 0)
        i = (i + 1) & (m->cap - 1);
    m->slots[i] = (tci_by_id_slot){id, value};
}

static int grow(tci_by_id *m, tc_err *err)
{
    tci_by_id old = *m;
    m->cap = old.cap == 0 ? 64 : old.cap * 2;
    m->slots = tci_mem_array(m->cap, sizeof(*m->slots));
    if (m->slots == NULL) {
        *m = old;
        return tci_err_no_memory(err);
    }
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].id != 0)
            place(m, old.slots[i].id, old.slots[i].value);
    tci_free(old.slots);
    return 0;
}

int tci_by_id_put(tci_by_id *m, uint64_t id, void *value, tc_err *err)
{
    if ((m->count + 1) * 4 > m->cap * 3 && grow(m, err) < 0)
        return err->code;
    place(m, id, value);
    m->count++;
    return 0;
}

void tci_by_id_remove(tci_by_id *m, uint64_t id)
{
    if (m->count == 0)
        return;
    size_t i = slot_of(m, id);
    while (m->slots[i].id != 0 && m->slots[i].id != id)
        i = (i + 1) & (m->cap - 1);
    if (m->slots[i].id == 0)
        return;
    for (size_t k = (i + 1) & (m->cap - 1); m->slots[k].id != 0; k = (k + 1) & (m->cap - 1)) {
        size_t home = slot_of(m, m->slots[k].id);
        if (((k - home) & (m->cap - 1)) < ((k - i) & (m->cap - 1)))
            continue; /* it lies between the hole and itself: stays */
        m->slots[i] = m->slots[k];
        i = k;
    }
    m->slots[i] = (tci_by_id_slot){0, NULL};
    m->count--;
}
