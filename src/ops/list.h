/* SPDX-License-Identifier: Apache-2.0
 *
 * file.list: one directory, one level, sorted bytewise by name, by pages. Only the entries of the
 * page are looked at. Blocking; any pool thread. */
#ifndef TCI_OPS_LIST_H
#define TCI_OPS_LIST_H

#include "ops/walk.h"

typedef struct tci_ops_list_request {
    tc_str path; /* absolute */
    uint64_t offset;
    uint64_t max_results; /* >= 1 */
    bool include_hidden;
    bool keep_raw_names;   /* as in tci_walk_options */
    uint64_t budget_bytes; /* JSON bytes of all entries of a page; 0: no limit */
} tci_ops_list_request;

/* Shared by list and find. entries live in the arena of the call. */
typedef struct tci_ops_entries {
    tci_walk_info *items;
    size_t count;
    bool has_more;
    uint64_t omitted_unrepresentable; /* names that are not UTF-8 */
} tci_ops_entries;

/* The page from offset on. An offset past the end is an empty page. Entries that vanish or may not
 * be looked at are left out. Errors: NOT_FOUND; DENIED (no permission, not a directory);
 * OUTPUT_LIMIT (the first entry alone is over budget_bytes); TIMEOUT; CANCELLED; memory. cancel,
 * cache: may be NULL. */
int tci_ops_list(const tci_ops_list_request *req, const tci_cancel *cancel, tci_walk_cache *cache,
                 tci_arena *a, tci_ops_entries *ret_entries, tc_err *err) TC_CHECKED;

#endif
