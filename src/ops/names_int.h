/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of one directory, sorted. Private to ops. */
#ifndef TCI_OPS_NAMES_INT_H
#define TCI_OPS_NAMES_INT_H

#include "plat/dir.h"
#include <stdatomic.h>

/* A place in the order of a walk: an entry, or (is_descent) what lies below a directory, whose text
 * ends with '/' so that it sorts where its entries belong. */
typedef struct tci_name {
    uint64_t key; /* eight bytes behind the prefix all names share, big-endian */
    uint32_t off;
    uint16_t len;
    uint8_t kind;
    bool is_descent;
} tci_name;

typedef enum tci_names_flags {
    TCI_NAMES_HIDDEN = 1 << 0,   /* those that begin with '.' too */
    TCI_NAMES_RAW = 1 << 1,      /* those that are not UTF-8 too */
    TCI_NAMES_NO_GIT = 1 << 2,   /* .git is not there */
    TCI_NAMES_DESCENTS = 1 << 3, /* used by the cache: sorted with descents */
    TCI_NAMES_NO_KIND = 1 << 4   /* kinds may stay UNKNOWN */
} tci_names_flags;

typedef struct tci_names {
    atomic_uint refs;
    char *bytes; /* each name followed by '/' */
    size_t nbytes, bytes_cap;
    tci_name *items;
    size_t count, cap;
    uint64_t omitted; /* not UTF-8 */
    uint64_t visited;
    bool has_ignore_file;
    /* What the cache knows them by. */
    unsigned flags;
    uint64_t dev, ino;
    tci_instant modified_at, changed_at;
} tci_names;

tci_names *tci_names_new(void) TC_CHECKED; /* NULL: no memory; one reference */
void tci_names_unref(tci_names *n);        /* NULL is fine */
static inline tc_str tci_names_text(const tci_names *n, const tci_name *i)
{
    return (tc_str){n->bytes + i->off, i->len};
}
size_t tci_names_bytes(const tci_names *n); /* memory held */

/* Replace the contents by what is in d. buf: TCI_DIR_READ_BYTES. Not sorted yet. */
int tci_names_read(tci_names *n, const tci_dir *d, unsigned flags, char *buf,
                   tc_err *err) TC_CHECKED;
/* Take out those for which drop says true. */
void tci_names_drop(tci_names *n, bool (*drop)(void *ctx, tc_str name, tci_dir_kind kind),
                    void *ctx);
int tci_names_sort(tci_names *n, bool with_descents, tc_err *err) TC_CHECKED;

/* The first place behind `after` (at it, when is_inclusive). *ret_enter: it is a descent and
 * `after` lies in it. */
size_t tci_names_seek(const tci_names *n, tc_str after, bool is_inclusive, bool *ret_enter);

#endif
