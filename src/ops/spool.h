/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command has printed: one object per stream. Small output stays in memory and never becomes
 * a file; larger output is <dir>/<reference>.spool. Append-only, readable from 0 to retained bytes
 * at all times, no gaps. Space is charged as it is retained, nothing is reserved. Loop thread, but
 * for tci_spool_view_read. */
#ifndef TCI_OPS_SPOOL_H
#define TCI_OPS_SPOOL_H

#include "base/list.h"
#include "base/mem.h"

/* A budget; charges go to it and all its parents, or to none. */
typedef struct tci_spool_quota {
    struct tci_spool_quota *parent; /* NULL: none */
    uint64_t max_bytes, used_bytes;
    uint64_t max_objects, used_objects;
} tci_spool_quota;

/* Bytes that all of the chain still has room for. */
uint64_t tci_spool_quota_free_bytes(const tci_spool_quota *quota);

/* The directory the files go to. Storage and dir_fd are the owner's and outlive every spool in it.
 */
typedef struct tci_spool_dir {
    int dir_fd;
} tci_spool_dir;

enum { TCI_SPOOL_MEMORY_MAX = 4096, TCI_SPOOL_REFERENCE_MAX = 64 };

typedef struct tci_spool tci_spool;

/* An empty object. reference becomes a file name: letters, digits, '-', '_' only (INVALID). QUOTA
 * when no object is left in the budget (which must outlive the spool), NO_MEMORY. */
int tci_spool_new(const tci_spool_dir *dir, tc_str reference, uint64_t ceiling_bytes,
                  tci_spool_quota *quota, tci_spool **ret_spool, tc_err *err) TC_CHECKED;
/* Deletes the file and gives the charge back. On IO (the file could not be deleted) the object
 * stays and may be released again. */
int tci_spool_release(tci_spool *spool, tc_err *err) TC_CHECKED;
/* As release, whatever happens. NULL is fine. */
void tci_spool_free(tci_spool *spool);

tc_str tci_spool_reference(const tci_spool *spool);

typedef struct tci_spool_info {
    uint64_t produced_bytes; /* written by the command, as far as seen */
    uint64_t retained_bytes; /* kept: what can be read */
    bool producer_complete;  /* no more will come */
    bool content_complete;   /* producer_complete and nothing was dropped */
} tci_spool_info;
tci_spool_info tci_spool_info_of(const tci_spool *spool);

/* Take bytes from the command. OUTPUT_LIMIT: what fits under the ceiling is kept, the rest counted
 * only. QUOTA, NO_SPACE, IO: dropped (counted); the object takes nothing more. After a failure
 * content is incomplete for good, and later appends only count and return the same code. */
int tci_spool_append(tci_spool *spool, tc_str bytes, tc_err *err) TC_CHECKED;
/* The stream has ended; closes the file. was_cut: more may have been on its way. */
void tci_spool_finish(tci_spool *spool, bool was_cut);

/* Up to len bytes from offset on; 0 at the end. INVALID: offset over retained. IO. */
int tci_spool_read(const tci_spool *spool, uint64_t offset, void *out, size_t len, size_t *ret_len,
                   tc_err *err) TC_CHECKED;

/* The same for a job: a view of what is retained now, usable on any thread until _done, even after
 * the spool is gone. */
typedef struct tci_spool_view {
    int fd; /* -1: in memory */
    uint64_t len;
    char *memory;
} tci_spool_view;
int tci_spool_view_init(tci_spool_view *view, const tci_spool *spool, tc_err *err) TC_CHECKED;
int tci_spool_view_read(const tci_spool_view *view, uint64_t offset, void *out, size_t len,
                        size_t *ret_len, tc_err *err) TC_CHECKED;
void tci_spool_view_done(tci_spool_view *view);

/* Be told once when more is retained, the producer completes, or the spool is released (then
 * was_released). Storage is the caller's until cb or _unwait. */
typedef struct tci_spool_wait {
    tci_link link;
    void (*cb)(struct tci_spool_wait *wait, bool was_released);
} tci_spool_wait;
void tci_spool_wait_add(tci_spool *spool, tci_spool_wait *wait);
void tci_spool_wait_cancel(tci_spool_wait *wait); /* fine when not waiting */

#endif
