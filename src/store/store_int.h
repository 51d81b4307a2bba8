/* SPDX-License-Identifier: Apache-2.0
 *
 * What a storage is to the functions of store.h: a table of calls. A backend's struct begins with a
 * tci_store. The functions of store.h (store.c; opening, checking and repairing: open.c) do what is the same for all: looking at arguments,
 * cursors and orders, and refusing everything after a close; the calls below are only made with
 * sound arguments. Each has the contract of its function in store.h. */
#ifndef TCI_STORE_INT_H
#define TCI_STORE_INT_H

#include "store/store.h"

struct tci_store_ops {
    /* Frees store, whatever fails. */
    int (*close)(tci_store *store, tc_err *err);
    int (*commit)(tci_store *store, const tci_write *writes, size_t nwrites, tci_commit_how how,
                  uint64_t *ret_seq, tc_err *err);
    int (*mint)(tci_store *store, uint64_t *ret_id, tc_err *err);
    int (*conversation)(tci_store *store, uint64_t id, tci_arena *a, tci_conversation *ret,
                        tc_err *err);
    int (*task)(tci_store *store, uint64_t id, tci_arena *a, tci_task *ret, tc_err *err);
    int (*submission)(tci_store *store, uint64_t id, tci_arena *a, tci_submission *ret,
                      tc_err *err);
    int (*entry)(tci_store *store, uint64_t conversation_id, uint64_t id, tci_arena *a,
                 tci_entry *ret, uint64_t *ret_seq, tc_err *err);
    int (*head_marker)(tci_store *store, uint64_t conversation_id, uint64_t cutoff, tci_arena *a,
                       tci_entry *ret, tc_err *err);
    int (*submission_by_request)(tci_store *store, uint64_t conversation_id, tc_str request_id,
                                 tci_arena *a, tci_submission *ret, tc_err *err);
    int (*find_document)(tci_store *store, const tci_address *address, uint64_t at, tci_arena *a,
                         tci_document *ret, tc_err *err);
    int (*document)(tci_store *store, uint64_t id, uint64_t at, tci_arena *a,
                    tci_document_state *ret, tci_tree *ret_value, tc_err *err);
    /* Scans: page->order is never DEFAULT, page->limit at least 1; page->cursor.order is to be
     * ignored. ret_next->order is set by the caller. */
    int (*scan_conversations)(tci_store *store, uint64_t owner_conversation_id,
                              uint64_t owner_task_id, const tci_page *page, tci_arena *a,
                              tci_conversation **ret, size_t *ret_count, tci_cursor *ret_next,
                              tc_err *err);
    int (*scan_entries)(tci_store *store, uint64_t conversation_id, uint64_t min, uint64_t max,
                        const tci_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                        size_t *ret_count, tci_cursor *ret_next, tc_err *err);
    int (*scan_tasks)(tci_store *store, const tci_task_query *query, const tci_page *page,
                      tci_arena *a, tci_task **ret, size_t *ret_count, tci_cursor *ret_next,
                      tc_err *err);
    int (*scan_submissions)(tci_store *store, uint64_t conversation_id, int status,
                            const tci_page *page, tci_arena *a, tci_submission **ret,
                            size_t *ret_count, tci_cursor *ret_next, tc_err *err);
    int (*scan_documents)(tci_store *store, int scope, uint64_t owner_id, tc_str kind, uint64_t at,
                          const tci_page *page, tci_arena *a, tci_document **ret, size_t *ret_count,
                          tci_cursor *ret_next, tc_err *err);
};

struct tci_store {
    const tci_store_ops *ops;
    struct tci_lock
        *lock; /* tci_store_open's, or NULL; tci_store_close lets go of it (store/lock.h)
                              after the backend's close, which frees the store but not the lock */
    struct tci_recent *recent; /* store.c's, or NULL */
};

/* What tci_store_check and tci_store_repair (open.c) call, by the path's backend; they have taken the
 * lock where one is needed. */
/* Is there something in the journal that its files have lost? Only looks. */
int tci_jsonl_is_cut(tc_str path, bool *ret, tc_err *err) TC_CHECKED;
int tci_jsonl_check(tc_str path, tci_damage_fn on_damage, void *user, tci_check_report *ret,
                    tc_err *err) TC_CHECKED;
int tci_jsonl_repair(tc_str path, tci_damage_fn on_damage, void *user, tci_arena *a,
                     tc_str *ret_aside, tci_check_report *ret, tc_err *err) TC_CHECKED;
int tci_sqlite_check(tc_str path, tci_damage_fn on_damage, void *user, tci_check_report *ret,
                     tc_err *err) TC_CHECKED;
int tci_sqlite_repair(tc_str path, tci_damage_fn on_damage, void *user, tci_arena *a,
                      tc_str *ret_aside, tci_check_report *ret, tc_err *err) TC_CHECKED;

#endif
