/* SPDX-License-Identifier: Apache-2.0
 *
 * directory.list: the folders in a folder, for a person who picks one: directories and symbolic
 * links to directories, hidden ones too, sorted bytewise. Blocking; any pool thread. */
#ifndef TCI_OPS_DIRLIST_H
#define TCI_OPS_DIRLIST_H

#include "base/arena.h"
#include "plat/clock.h"

enum { TCI_DIRLIST_WINDOW = 10000, TCI_DIRLIST_SCAN_MAX = 100000 };

typedef struct tci_ops_dirlist_request {
    tc_str path; /* absolute */
    uint64_t offset;
    uint64_t limit;        /* >= 1 */
    uint64_t budget_bytes; /* names and paths together; 0: no limit */
} tci_ops_dirlist_request;

typedef struct tci_ops_dirlist_entry {
    tc_str name;
    tc_str path; /* ends with name */
} tci_ops_dirlist_entry;

typedef struct tci_ops_dirlist_result {
    tc_str path; /* canonical */
    bool has_parent;
    tc_str parent_path;
    tci_ops_dirlist_entry *items;
    size_t count;
    bool has_next;
    uint64_t next_offset;
} tci_ops_dirlist_result;

/* Names that are not UTF-8, entries that vanish or may not be looked at are left out. Errors:
 * NOT_FOUND; DENIED (no permission; not a directory); QUOTA (offset + limit over
 * TCI_DIRLIST_WINDOW, more than TCI_DIRLIST_SCAN_MAX entries in the folder, over budget_bytes);
 * TIMEOUT, CANCELLED; memory. */
int tci_ops_dirlist(const tci_ops_dirlist_request *req, const tci_cancel *cancel, tci_arena *a,
                    tci_ops_dirlist_result *ret_result, tc_err *err) TC_CHECKED;

#endif
