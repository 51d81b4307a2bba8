/* SPDX-License-Identifier: Apache-2.0
 *
 * The reads of the backends that keep an index, and their refusing. Runs on the store's thread.
 * Invariant: a poisoned storage answers nothing. */
#include "store/index/indexed.h"

static tci_indexed *of(tci_store *store)
{
    return tci_indexed_of(store);
}

int tci_indexed_usable(const tci_indexed *s, tc_err *err)
{
    if (!s->is_poisoned)
        return 0;
    (void)tc_err_set(err, TC_E_NOT_READY, "storage is poisoned and must be opened again: %s",
                     s->why);
    return tc_err_hint(err, "open the session again"), err->code;
}

int tci_indexed_poison(tci_indexed *s, tc_err *err)
{
    tc_str why = tci_str_sub(tci_str(err->msg), 0, sizeof s->why - 1);
    memcpy(s->why, why.ptr, why.len);
    s->why[why.len] = 0;
    s->is_poisoned = true;
    (void)tc_err_hint(err, err->code == TC_E_NO_SPACE
                               ? "free some space, then open the session again"
                           : err->code == TC_E_IO ? "see to the disk, then open the session again"
                                                  : "open the session again");
    return tc_err_wrap(err, "storage is poisoned and must be opened again");
}

int tci_indexed_mint(tci_store *store, uint64_t *ret_id, tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc : tci_index_mint(&of(store)->ix, ret_id, err);
}

int tci_indexed_conversation(tci_store *store, uint64_t id, tci_arena *a, tci_conversation *ret,
                             tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc : tci_index_conversation(&of(store)->ix, id, a, ret, err);
}

int tci_indexed_task(tci_store *store, uint64_t id, tci_arena *a, tci_task *ret, tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc : tci_index_read_task(&of(store)->ix, id, a, ret, err);
}

int tci_indexed_submission(tci_store *store, uint64_t id, tci_arena *a, tci_submission *ret,
                           tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc : tci_index_submission(&of(store)->ix, id, a, ret, err);
}

int tci_indexed_entry(tci_store *store, uint64_t conversation_id, uint64_t id, tci_arena *a,
                      tci_entry *ret, uint64_t *ret_seq, tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc : tci_index_entry(&of(store)->ix, conversation_id, id, a, ret, ret_seq, err);
}

int tci_indexed_head_marker(tci_store *store, uint64_t conversation_id, uint64_t cutoff,
                            tci_arena *a, tci_entry *ret, tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc
                  : tci_index_head_marker(&of(store)->ix, conversation_id, cutoff, a, ret, err);
}

int tci_indexed_by_request(tci_store *store, uint64_t conversation_id, tc_str request_id,
                           tci_arena *a, tci_submission *ret, tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc
                  : tci_index_by_request(&of(store)->ix, conversation_id, request_id, a, ret, err);
}

int tci_indexed_find_document(tci_store *store, const tci_address *address, uint64_t at,
                              tci_arena *a, tci_document *ret, tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc : tci_index_find_document(&of(store)->ix, address, at, a, ret, err);
}

int tci_indexed_document(tci_store *store, uint64_t id, uint64_t at, tci_arena *a,
                         tci_document_state *ret, tci_tree *ret_value, tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc : tci_index_document(&of(store)->ix, id, at, a, ret, ret_value, err);
}

int tci_indexed_scan_conversations(tci_store *store, uint64_t owner_conversation_id,
                                   uint64_t owner_task_id, const tci_page *page, tci_arena *a,
                                   tci_conversation **ret, size_t *ret_count, tci_cursor *ret_next,
                                   tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0
               ? rc
               : tci_index_scan_conversations(&of(store)->ix, owner_conversation_id, owner_task_id,
                                              page, a, ret, ret_count, ret_next, err);
}

int tci_indexed_scan_entries(tci_store *store, uint64_t conversation_id, uint64_t min, uint64_t max,
                             const tci_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                             size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc
                  : tci_index_scan_entries(&of(store)->ix, conversation_id, min, max, page, a,
                                           texts, ret, ret_count, ret_next, err);
}

int tci_indexed_scan_tasks(tci_store *store, const tci_task_query *query, const tci_page *page,
                           tci_arena *a, tci_task **ret, size_t *ret_count, tci_cursor *ret_next,
                           tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc
                  : tci_index_scan_tasks(&of(store)->ix, query, page, a, ret, ret_count, ret_next,
                                         err);
}

int tci_indexed_scan_submissions(tci_store *store, uint64_t conversation_id, int status,
                                 const tci_page *page, tci_arena *a, tci_submission **ret,
                                 size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc
                  : tci_index_scan_submissions(&of(store)->ix, conversation_id, status, page, a,
                                               ret, ret_count, ret_next, err);
}

int tci_indexed_scan_documents(tci_store *store, int scope, uint64_t owner_id, tc_str kind,
                               uint64_t at, const tci_page *page, tci_arena *a, tci_document **ret,
                               size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    int rc = tci_indexed_usable(of(store), err);
    return rc < 0 ? rc
                  : tci_index_scan_documents(&of(store)->ix, scope, owner_id, kind, at, page, a,
                                             ret, ret_count, ret_next, err);
}
