/* SPDX-License-Identifier: Apache-2.0
 *
 * What one page leaves behind for the next: where it stopped, and the sorted names of large
 * directories. Leaves to others: what a page is. Any thread; the lock is held for copying and
 * counting only. Invariant: names are handed out only while the directory's times equal those read
 * before the names were, and only if those times were old enough then to show every later change.
 */
#include "ops/walk_int.h"
#include "base/hash.h"
#include "plat/thread.h"

enum { NCURSORS = 32, NLISTINGS = 32, MIN_NAMES = 256 };
#define KEEP_NS ((int64_t)60 * 1000 * 1000 * 1000)

typedef struct cursor_slot {
    tci_walk_key key;
    uint64_t offset;
    tci_walk_cursor cursor; /* path on the heap */
    int64_t used_ns;        /* 0: empty */
} cursor_slot;

typedef struct listing_slot {
    tci_names *names;
    int64_t used_ns;
} listing_slot;

struct tci_walk_cache {
    tci_mutex lock;
    uint64_t seed;
    cursor_slot cursors[NCURSORS];
    listing_slot listings[NLISTINGS];
};

int tci_walk_cache_new(tci_walk_cache **ret_cache, tc_err *err)
{
    tci_walk_cache *c = tci_new(tci_walk_cache);
    if (c == NULL)
        return tci_err_no_memory(err);
    tci_mutex_init(&c->lock);
    tci_random_bytes(&c->seed, sizeof c->seed);
    *ret_cache = c;
    return 0;
}

static void drop_cursor(cursor_slot *s)
{
    tci_free((void *)(uintptr_t)s->cursor.path.ptr);
    *s = (cursor_slot){0};
}

static void drop_listing(listing_slot *s)
{
    tci_names_unref(s->names);
    *s = (listing_slot){0};
}

void tci_walk_cache_clear(tci_walk_cache *cache)
{
    tci_mutex_lock(&cache->lock);
    for (size_t i = 0; i < NCURSORS; i++)
        drop_cursor(&cache->cursors[i]);
    for (size_t i = 0; i < NLISTINGS; i++)
        drop_listing(&cache->listings[i]);
    tci_mutex_unlock(&cache->lock);
}

void tci_walk_cache_free(tci_walk_cache *cache)
{
    if (cache == NULL)
        return;
    tci_walk_cache_clear(cache);
    tci_mutex_done(&cache->lock);
    tci_free(cache);
}

void tci_walk_key_add(const tci_walk_cache *cache, tci_walk_key *key, const void *part, size_t len)
{
    if (cache == NULL)
        return;
    key->a = tci_hash64(part, len, key->a ^ cache->seed ^ len);
    key->b = tci_hash64(part, len, key->b ^ ~cache->seed);
}

static cursor_slot *find_cursor(tci_walk_cache *cache, tci_walk_key key, uint64_t offset)
{
    for (size_t i = 0; i < NCURSORS; i++) {
        cursor_slot *s = &cache->cursors[i];
        if (s->used_ns != 0 && s->key.a == key.a && s->key.b == key.b && s->offset == offset)
            return s;
    }
    return NULL;
}

bool tci_walk_cache_get_cursor(tci_walk_cache *cache, tci_walk_key key, uint64_t offset,
                               tci_arena *a, tci_walk_cursor *ret_cursor)
{
    if (cache == NULL || offset == 0)
        return false;
    bool is_found = false;
    tc_err ignored;
    tci_mutex_lock(&cache->lock);
    cursor_slot *s = find_cursor(cache, key, offset);
    if (s != NULL) {
        tci_walk_cursor c = s->cursor;
        /* Without memory for a copy the page is found the long way. */
        is_found = tci_arena_dup(a, s->cursor.path, &c.path, &ignored) == 0;
        if (is_found) {
            *ret_cursor = c;
            s->used_ns = tci_clock_mono_ns();
        }
    }
    tci_mutex_unlock(&cache->lock);
    return is_found;
}

void tci_walk_cache_put_cursor(tci_walk_cache *cache, tci_walk_key key, uint64_t offset,
                               const tci_walk_cursor *cursor)
{
    if (cache == NULL || offset == 0)
        return;
    char *path = tci_mem_cstr(cursor->path);
    if (path == NULL)
        return; /* the next page is found the long way */
    tci_mutex_lock(&cache->lock);
    cursor_slot *s = find_cursor(cache, key, offset);
    if (s == NULL) {
        s = &cache->cursors[0];
        for (size_t i = 1; i < NCURSORS; i++)
            if (cache->cursors[i].used_ns < s->used_ns)
                s = &cache->cursors[i];
    }
    drop_cursor(s);
    *s = (cursor_slot){
        .key = key, .offset = offset, .cursor = *cursor, .used_ns = tci_clock_mono_ns()};
    s->cursor.path.ptr = path;
    tci_mutex_unlock(&cache->lock);
}

static bool is_same_instant(tci_instant a, tci_instant b)
{
    return a.sec == b.sec && a.nsec == b.nsec;
}

tci_names *tci_walk_cache_get_names(tci_walk_cache *cache, const tci_dir_stat *st, unsigned flags)
{
    tci_names *found = NULL;
    int64_t now = tci_clock_mono_ns();
    tci_mutex_lock(&cache->lock);
    for (size_t i = 0; i < NLISTINGS; i++) {
        listing_slot *s = &cache->listings[i];
        const tci_names *n = s->names;
        if (n == NULL)
            continue;
        if (n->dev == st->dev && n->ino == st->ino && n->flags == flags &&
            is_same_instant(n->modified_at, st->modified_at) &&
            is_same_instant(n->changed_at, st->changed_at)) {
            atomic_fetch_add(&s->names->refs, 1);
            s->used_ns = now;
            found = s->names;
        } else if (now - s->used_ns > KEEP_NS) {
            drop_listing(s);
        }
    }
    tci_mutex_unlock(&cache->lock);
    return found;
}

/* File systems with coarse times, recognised by a missing fraction, get a wider margin. */
static bool is_settled(tci_instant t, tci_instant now)
{
    int64_t age_ms = (now.sec - t.sec) * 1000 + (now.nsec - t.nsec) / 1000000;
    return age_ms > (t.nsec == 0 ? 3000 : 50);
}

void tci_walk_cache_put_names(tci_walk_cache *cache, tci_names *names, const tci_dir *d,
                              const tci_dir_stat *st, tci_instant read_at)
{
    size_t bytes = tci_names_bytes(names);
    if (names->count < MIN_NAMES || bytes > TCI_WALK_CACHE_BYTES ||
        !is_settled(st->modified_at, read_at) || !is_settled(st->changed_at, read_at) ||
        !tci_dir_times_tell(d))
        return;
    names->dev = st->dev;
    names->ino = st->ino;
    names->modified_at = st->modified_at;
    names->changed_at = st->changed_at;
    tci_mutex_lock(&cache->lock);
    for (;;) {
        listing_slot *oldest = NULL, *empty = NULL;
        size_t held = 0;
        for (size_t i = 0; i < NLISTINGS; i++) {
            listing_slot *s = &cache->listings[i];
            if (s->names != NULL && s->names->dev == names->dev && s->names->ino == names->ino &&
                s->names->flags == names->flags)
                drop_listing(s);
            if (s->names == NULL) {
                empty = s;
                continue;
            }
            held += tci_names_bytes(s->names);
            if (oldest == NULL || s->used_ns < oldest->used_ns)
                oldest = s;
        }
        if (empty != NULL && held + bytes <= TCI_WALK_CACHE_BYTES) {
            atomic_fetch_add(&names->refs, 1);
            *empty = (listing_slot){names, tci_clock_mono_ns()};
            break;
        }
        drop_listing(oldest); /* there is one: an empty cache has room */
    }
    tci_mutex_unlock(&cache->lock);
}
