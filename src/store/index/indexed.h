/* SPDX-License-Identifier: Apache-2.0
 *
 * A storage whose facts are in an index: what the memory and the JSON lines backends have in common,
 * which is every read. After an error that leaves its state in doubt it is poisoned and refuses
 * everything until it is opened again. */
#ifndef TCI_STORE_INDEXED_H
#define TCI_STORE_INDEXED_H

#include "store/index/index.h"
#include "store/store_int.h"

/* The front of a backend's struct. */
typedef struct tci_indexed {
    tci_store store;
    tci_index ix;
    bool is_poisoned;
    char why[TC_ERR_MSG_MAX]; /* it is */
} tci_indexed;

static inline tci_indexed *tci_indexed_of(tci_store *store)
{
    return (tci_indexed *)(void *)store;
}
/* NOT_READY when it is poisoned. */
int tci_indexed_usable(const tci_indexed *s, tc_err *err) TC_CHECKED;
/* Refuse everything from now on because of *err, which says so then. Returns its code. */
int tci_indexed_poison(tci_indexed *s, tc_err *err);

/* Calls of store_int.h. */
int tci_indexed_mint(tci_store *store, uint64_t *ret_id, tc_err *err);
int tci_indexed_conversation(tci_store *store, uint64_t id, tci_arena *a, tci_conversation *ret,
                             tc_err *err);
int tci_indexed_task(tci_store *store, uint64_t id, tci_arena *a, tci_task *ret, tc_err *err);
int tci_indexed_submission(tci_store *store, uint64_t id, tci_arena *a, tci_submission *ret,
                           tc_err *err);
int tci_indexed_entry(tci_store *store, uint64_t conversation_id, uint64_t id, tci_arena *a,
                      tci_entry *ret, uint64_t *ret_seq, tc_err *err);
int tci_indexed_head_marker(tci_store *store, uint64_t conversation_id, uint64_t cutoff,
                            tci_arena *a, tci_entry *ret, tc_err *err);
int tci_indexed_by_request(tci_store *store, uint64_t conversation_id, tc_str request_id,
                           tci_arena *a, tci_submission *ret, tc_err *err);
int tci_indexed_find_document(tci_store *store, const tci_address *address, uint64_t at,
                              tci_arena *a, tci_document *ret, tc_err *err);
int tci_indexed_document(tci_store *store, uint64_t id, uint64_t at, tci_arena *a,
                         tci_document_state *ret, tci_tree *ret_value, tc_err *err);
int tci_indexed_scan_conversations(tci_store *store, uint64_t owner_conversation_id,
                                   uint64_t owner_task_id, const tci_page *page, tci_arena *a,
                                   tci_conversation **ret, size_t *ret_count, tci_cursor *ret_next,
                                   tc_err *err);
int tci_indexed_scan_entries(tci_store *store, uint64_t conversation_id, uint64_t min, uint64_t max,
                             const tci_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                             size_t *ret_count, tci_cursor *ret_next, tc_err *err);
int tci_indexed_scan_tasks(tci_store *store, const tci_task_query *query, const tci_page *page,
                           tci_arena *a, tci_task **ret, size_t *ret_count, tci_cursor *ret_next,
                           tc_err *err);
int tci_indexed_scan_submissions(tci_store *store, uint64_t conversation_id, int status,
                                 const tci_page *page, tci_arena *a, tci_submission **ret,
                                 size_t *ret_count, tci_cursor *ret_next, tc_err *err);
int tci_indexed_scan_documents(tci_store *store, int scope, uint64_t owner_id, tc_str kind,
                               uint64_t at, const tci_page *page, tci_arena *a, tci_document **ret,
                               size_t *ret_count, tci_cursor *ret_next, tc_err *err);

/* All but close and commit, in an initializer of tci_store_ops. */
#define TCI_INDEXED_OPS                                                                           \
    .mint = tci_indexed_mint, .conversation = tci_indexed_conversation, .task = tci_indexed_task, \
    .submission = tci_indexed_submission, .entry = tci_indexed_entry,                             \
    .head_marker = tci_indexed_head_marker, .submission_by_request = tci_indexed_by_request,      \
    .find_document = tci_indexed_find_document, .document = tci_indexed_document,                 \
    .scan_conversations = tci_indexed_scan_conversations,                                         \
    .scan_entries = tci_indexed_scan_entries, .scan_tasks = tci_indexed_scan_tasks,               \
    .scan_submissions = tci_indexed_scan_submissions, .scan_documents = tci_indexed_scan_documents

#endif
