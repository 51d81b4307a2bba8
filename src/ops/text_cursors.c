/* SPDX-License-Identifier: Apache-2.0
 *
 * A fixed table under a lock; entries are found by a hash of the path, which may collide: see the
 * header. */
#include "ops/text_cursors.h"

#include "base/hash.h"
#include "plat/thread.h"

enum { NCURSORS = 32 };

typedef struct slot {
    uint64_t path_hash; /* 0: free */
    uint64_t used;
    tci_text_cursor cursor;
} slot;

struct tci_text_cursors {
    tci_mutex lock;
    uint64_t clock, seed;
    slot slots[NCURSORS];
};

int tci_text_cursors_new(tci_text_cursors **ret, tc_err *err)
{
    tci_text_cursors *c = tci_new(tci_text_cursors);
    if (c == NULL)
        return tci_err_no_memory(err);
    tci_mutex_init(&c->lock);
    tci_random_bytes(&c->seed, sizeof c->seed);
    *ret = c;
    return 0;
}

void tci_text_cursors_free(tci_text_cursors *c)
{
    if (c == NULL)
        return;
    tci_mutex_done(&c->lock);
    tci_free(c);
}

static uint64_t hash_of(const tci_text_cursors *c, tc_str path)
{
    return tci_hash64(path.ptr, path.len, c->seed) | 1;
}

void tci_text_cursors_get(tci_text_cursors *c, tc_str path, uint64_t line, tci_text_cursor *ret)
{
    uint64_t hash = hash_of(c, path);
    memset(ret, 0, sizeof *ret);
    tci_mutex_lock(&c->lock);
    for (size_t i = 0; i < NCURSORS; i++) {
        slot *s = &c->slots[i];
        if (s->path_hash != hash || s->cursor.line > line)
            continue;
        *ret = s->cursor;
        s->used = ++c->clock;
        break;
    }
    tci_mutex_unlock(&c->lock);
}

void tci_text_cursors_put(tci_text_cursors *c, tc_str path, const tci_text_cursor *cursor)
{
    uint64_t hash = hash_of(c, path);
    tci_mutex_lock(&c->lock);
    slot *to = &c->slots[0];
    for (size_t i = 0; i < NCURSORS; i++) {
        slot *s = &c->slots[i];
        if (s->path_hash == hash) {
            to = s;
            break;
        }
        if (s->used < to->used)
            to = s;
    }
    to->path_hash = hash;
    to->cursor = *cursor;
    to->used = ++c->clock;
    tci_mutex_unlock(&c->lock);
}
