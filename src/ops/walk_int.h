/* SPDX-License-Identifier: Apache-2.0
 *
 * What list, find and search share beyond the walker: the cache's inside. Private to ops. */
#ifndef TCI_OPS_WALK_INT_H
#define TCI_OPS_WALK_INT_H

#include "ops/names_int.h"
#include "ops/walk.h"

/* What was asked, page aside. */
typedef struct tci_walk_key {
    uint64_t a, b;
} tci_walk_key;
/* Add a part to the question; NULL cache is fine. */
void tci_walk_key_add(const tci_walk_cache *cache, tci_walk_key *key, const void *part, size_t len);

/* Where a page stopped. */
typedef struct tci_walk_cursor {
    tc_str path;     /* the last relative path returned */
    uint64_t line;   /* search: the last line returned */
    uint64_t nfiles; /* search: files scanned before that path */
    uint64_t omitted;
    bool omitted_is_total;
} tci_walk_cursor;

/* True when the page before offset is remembered; the path is copied into arena a. */
bool tci_walk_cache_get_cursor(tci_walk_cache *cache, tci_walk_key key, uint64_t offset,
                               tci_arena *a, tci_walk_cursor *ret_cursor);
void tci_walk_cache_put_cursor(tci_walk_cache *cache, tci_walk_key key, uint64_t offset,
                               const tci_walk_cursor *cursor);

/* Names of the directory st speaks of, if nothing has changed since; the caller unrefs. */
tci_names *tci_walk_cache_get_names(tci_walk_cache *cache, const tci_dir_stat *st, unsigned flags);
/* Keep a reference when that is worth it and safe: st was taken before the names were read, at the
 * wall time read_at. */
void tci_walk_cache_put_names(tci_walk_cache *cache, tci_names *names, const tci_dir *d,
                              const tci_dir_stat *st, tci_instant read_at);

/* root "/" relative, in the arena; *ret_relative is its tail. */
int tci_walk_join(tc_str root, tc_str relative, tci_arena *a, tc_str *ret_path,
                  tc_str *ret_relative, tc_err *err) TC_CHECKED;

/* Walk on, without looking at anything, until count entries were seen or the tree ends: 1 at the
 * end, 0 before. */
int tci_walk_drain(tci_walk *w, uint64_t count, tc_err *err) TC_CHECKED;

#endif
