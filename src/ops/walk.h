/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking a tree in the bytewise order of relative paths ('/' is 0x2f), directory by directory,
 * without a global sort, so that a page can stop early and the next one can start in the middle.
 * Under list, find and search. Blocking: a pool thread; one thread per walk. */
#ifndef TCI_OPS_WALK_H
#define TCI_OPS_WALK_H

#include "base/arena.h"
#include "plat/clock.h"
#include "plat/dir.h"

enum { TCI_WALK_MAX_DEPTH = 128, TCI_WALK_COUNT_AHEAD = 10000 };

/* What the wire says about one entry. size_bytes and is_executable mean something for regular files
 * only (has_size, has_executable). path is root "/" relative_path; relative_path is its tail. */
typedef struct tci_walk_info {
    tc_str path;
    tc_str relative_path;
    tci_dir_kind kind;
    bool has_size;
    bool has_executable;
    bool is_executable;
    bool has_modified_at;
    uint64_t size_bytes;
    tci_instant modified_at;
} tci_walk_info;

/* Remembers between two pages of the same question where the first one stopped, and the sorted
 * names of large directories, so that paging costs the same on every page. Bounded
 * (TCI_WALK_CACHE_BYTES); names are used again only while the directory's times prove them current.
 * One per session; every op takes NULL for "none". Safe for several threads at once (a lock of its
 * own, held for copying only). free: no operation may be using it any more. */
typedef struct tci_walk_cache tci_walk_cache;
enum { TCI_WALK_CACHE_BYTES = 8 * 1024 * 1024 };
int tci_walk_cache_new(tci_walk_cache **ret_cache, tc_err *err) TC_CHECKED;
void tci_walk_cache_free(tci_walk_cache *cache); /* NULL is fine */
/* Give memory back (an idle session). */
void tci_walk_cache_clear(tci_walk_cache *cache);

/* Told about things that do not fail the call: an ignore file with a line nobody can use. message
 * is borrowed. Called on the thread of the walk. */
typedef struct tci_walk_warn {
    void (*fn)(void *ctx, const char *message); /* NULL: nobody listens */
    void *ctx;
} tci_walk_warn;

/* Bytes of s as a JSON string, quotes included: escapes as tci_json_put_str writes them. */
size_t tci_walk_json_str_size(tc_str s);
/* Bytes of {"info":{...},"relative_path":...} as the wire has it. */
size_t tci_walk_json_entry_size(const tci_walk_info *e);

/* ---- the walker itself ---- */

typedef struct tci_walk_options {
    bool is_recursive;
    bool include_hidden;     /* false: entries beginning with '.' do not exist */
    bool respect_git_ignore; /* .git is left out, .gitignore files apply */
    bool keep_raw_names;     /* names that are not UTF-8 are returned instead of counted */
    tc_str after;            /* start behind this relative path; empty: from the start */
    bool is_after_included;  /* start at it */
    tci_walk_warn warn;
    const tci_cancel *cancel; /* looked at once per directory; may be NULL */
    tci_walk_cache *cache;    /* may be NULL */
} tci_walk_options;

typedef struct tci_walk tci_walk;

typedef struct tci_walk_item {
    tc_str relative_path; /* NUL-terminated; valid until the next call */
    const char *name;     /* its last segment */
    tci_dir_kind kind;    /* never UNKNOWN */
    const tci_dir *dir;   /* the open directory that holds it; until the next call */
} tci_walk_item;

/* root: absolute; a symbolic link at its end is followed. Errors: NOT_FOUND; DENIED (no permission,
 * or not a directory); INVALID (embedded NUL); CANCELLED, TIMEOUT; those of memory. Options are
 * borrowed until close. */
int tci_walk_open(tc_str root, const tci_walk_options *options, tci_walk **ret_walk,
                  tc_err *err) TC_CHECKED;
/* The next entry in order. 1: *ret_item is set; 0: the end; negative: error (a directory that
 * cannot be read: DENIED; one that vanished is passed over). Symbolic links are not entered; below
 * depth TCI_WALK_MAX_DEPTH nothing is seen. */
int tci_walk_next(tci_walk *w, tci_walk_item *ret_item, tc_err *err) TC_CHECKED;
void tci_walk_close(tci_walk *w); /* NULL is fine */

/* Names left out because they are not UTF-8, so far. */
uint64_t tci_walk_omitted(const tci_walk *w);
/* Entries seen so far, those filtered out included. */
uint64_t tci_walk_visited(const tci_walk *w);
/* Complete *ret_info for an item: 1, or 0 when it has gone or may not be looked at (leave it out).
 */
int tci_walk_item_info(const tci_walk_item *item, tc_str root, tci_arena *a,
                       tci_walk_info *ret_info, tc_err *err) TC_CHECKED;

#endif
