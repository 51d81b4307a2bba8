/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree as people see it: every entry below a folder, depth first, without .git and, inside a git work
 * tree, without what its ignore rules leave out. */
#ifndef TCI_OPS_LISTING_H
#define TCI_OPS_LISTING_H

#include "base/str.h"
#include "plat/clock.h"
#include "plat/dir.h"

enum { TCI_LISTING_DEPTH_MAX = 512 }; /* nothing is seen below */

typedef struct tci_listing_options {
    tc_str path;         /* the root; followed when it is a link */
    bool include_hidden; /* names that begin with a dot */
    bool use_gitignore;  /* .git/info/exclude and .gitignore files of the work tree, nothing else */
    const tc_str *exclude; /* names left out at any depth, with what is below */
    size_t nexclude;
    uint64_t max_entries;
    uint64_t max_bytes;       /* each entry counts the bytes of its path as text, and two */
    const tci_cancel *cancel; /* deadline_ns: the listing is cut then (0: never) */
} tci_listing_options;

/* path: relative to the root, bytes; kind: FILE, DIRECTORY or SYMLINK. false: no room, cut here. */
typedef bool tci_listing_emit(void *ctx, tc_str path, tci_dir_kind kind);

/* A folder comes before its contents, siblings by the bytes of their names; links are told, not
 * entered; a folder below the root that cannot be read is passed over.
 *
 *   ret_truncated  a bound was reached before the end
 *
 * Errors: of the root, with the system's number in err->os; CANCELLED; NO_MEMORY. Thread: worker. */
int tci_ops_listing(const tci_listing_options *options, tci_listing_emit *emit, void *ctx,
                    bool *ret_truncated, tc_err *err) TC_CHECKED;

#endif
