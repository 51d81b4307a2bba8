/* SPDX-License-Identifier: Apache-2.0
 *
 * file.find: entries below a directory whose path matches a pattern, in bytewise order of relative
 * paths, by pages. Trees of any size: a page stops as soon as it is full and knows whether there is
 * more; with a cache the next page starts where the last one stopped. Blocking; any pool thread.
 *
 * omitted_unrepresentable is exact on a last page and whenever the tree has at most
 * TCI_WALK_COUNT_AHEAD entries; else it counts up to where the page ended. */
#ifndef TCI_OPS_FIND_H
#define TCI_OPS_FIND_H

#include "ops/list.h"

typedef struct tci_ops_find_request {
    tc_str root; /* absolute */
    tc_str pattern;
    uint64_t offset;
    uint64_t max_results; /* >= 1 */
    bool is_recursive;
    bool include_hidden;
    bool respect_git_ignore;
    bool keep_raw_names;
    unsigned kinds; /* 1 << tci_dir_kind, combined; 0: any */
    uint64_t budget_bytes;
} tci_ops_find_request;

/* Errors as tci_ops_list, DENIED also for a directory below that cannot be read; INVALID for the
 * pattern, then *ret_detail is "invalid_glob" (NULL otherwise; ret_detail may be NULL). */
int tci_ops_find(const tci_ops_find_request *req, tci_walk_warn warn, const tci_cancel *cancel,
                 tci_walk_cache *cache, tci_arena *a, tci_ops_entries *ret_entries,
                 const char **ret_detail, tc_err *err) TC_CHECKED;

#endif
