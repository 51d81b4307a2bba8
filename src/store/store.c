/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of store.h: arguments, cursors and orders are looked at here, the rest is the
 * backend's. Opening, checking and repairing are in open.c. Thread: the line's. Invariant: a
 * backend sees an order that is decided and a limit of at least one. */
#include "store/store.h"
#include "store/lock.h"
#include "store/recent.h"
#include "store/store_int.h"

static void forget_recent(tci_store *store)
{
    if (store->recent != NULL)
        tci_recent_done(store->recent);
    tci_free(store->recent);
    store->recent = NULL;
}

/* After a commit: without memory for it there is none. */
static void note_recent(tci_store *store, const tci_write *writes, size_t nwrites)
{
    if (store->recent == NULL) {
        store->recent = tci_new(tci_recent);
        if (store->recent == NULL)
            return;
        tci_recent_init(store->recent);
    }
    tci_recent_note(store->recent, writes, nwrites);
}

int tci_store_close(tci_store *store, tc_err *err)
{
    if (store == NULL)
        return 0;
    struct tci_lock *lock = store->lock;
    forget_recent(store);
    int rc = store->ops->close(store, err);
    tci_lock_release(lock);
    return rc;
}

/* ---- writing ---- */

int tci_store_commit(tci_store *store, const tci_write *writes, size_t nwrites, tci_commit_how how,
                     uint64_t *ret_seq, tc_err *err)
{
    int rc = store->ops->commit(store, writes, nwrites, how, ret_seq, err);
    if (rc == 0)
        note_recent(store, writes, nwrites);
    else
        forget_recent(store);           /* the backend knows whether it can still be asked */
    if (rc == 0 && store->lock != NULL) /* the first one may have made the file */
        rc = tci_lock_bind(store->lock, err);
    return rc;
}

int tci_store_mint(tci_store *store, uint64_t *ret_id, tc_err *err)
{
    return store->ops->mint(store, ret_id, err);
}

/* ---- reading ---- */

int tci_store_conversation(tci_store *store, uint64_t id, tci_arena *a, tci_conversation *ret,
                           tc_err *err)
{
    return store->ops->conversation(store, id, a, ret, err);
}

int tci_store_task(tci_store *store, uint64_t id, tci_arena *a, tci_task *ret, tc_err *err)
{
    int rc = store->recent != NULL ? tci_recent_task(store->recent, id, a, ret, err) : 0;
    if (rc != 0)
        return rc < 0 ? rc : 0;
    return store->ops->task(store, id, a, ret, err);
}

int tci_store_submission(tci_store *store, uint64_t id, tci_arena *a, tci_submission *ret,
                         tc_err *err)
{
    return store->ops->submission(store, id, a, ret, err);
}

int tci_store_entry(tci_store *store, uint64_t conversation_id, uint64_t id, tci_arena *a,
                    tci_entry *ret, uint64_t *ret_seq, tc_err *err)
{
    uint64_t seq = 0;
    int rc = store->ops->entry(store, conversation_id, id, a, ret, &seq, err);
    if (rc == 0 && ret_seq != NULL)
        *ret_seq = seq;
    return rc;
}

int tci_store_head_marker(tci_store *store, uint64_t conversation_id, uint64_t cutoff, tci_arena *a,
                          tci_entry *ret, tc_err *err)
{
    return store->ops->head_marker(store, conversation_id, cutoff, a, ret, err);
}

int tci_store_submission_by_request(tci_store *store, uint64_t conversation_id, tc_str request_id,
                                    tci_arena *a, tci_submission *ret, tc_err *err)
{
    return store->ops->submission_by_request(store, conversation_id, request_id, a, ret, err);
}

int tci_store_find_document(tci_store *store, const tci_address *address, uint64_t at, tci_arena *a,
                            tci_document *ret, tc_err *err)
{
    return store->ops->find_document(store, address, at, a, ret, err);
}

int tci_store_document(tci_store *store, uint64_t id, uint64_t at, tci_arena *a,
                       tci_document_state *ret, tci_tree *ret_value, tc_err *err)
{
    return store->ops->document(store, id, at, a, ret, ret_value, err);
}

/* ---- scanning ---- */

/* The page with its order decided. */
static int decide(const tci_page *page, tci_order normal, tci_page *ret, tc_err *err)
{
    tci_order cursor_order = page->cursor.order != TCI_ORDER_DEFAULT ? page->cursor.order : normal;
    bool is_continued = page->cursor.after != 0;
    if (page->limit == 0)
        return tc_err_set(err, TC_E_INVALID, "a page has at least one item");
    if ((unsigned)page->order > TCI_ORDER_DESCENDING ||
        (unsigned)page->cursor.order > TCI_ORDER_DESCENDING || page->cursor.after > TCI_ID_MAX)
        return tc_err_set(err, TC_E_INVALID, "bad order or cursor");
    if (is_continued && page->order != TCI_ORDER_DEFAULT && page->order != cursor_order)
        return tc_err_set(err, TC_E_INVALID, "the cursor is of a scan in the other order");
    *ret = *page;
    if (is_continued)
        ret->order = cursor_order;
    else if (page->order == TCI_ORDER_DEFAULT)
        ret->order = normal;
    return 0;
}

/* Where to go on, in the order of the page it came from. */
static tci_cursor next_of(tci_cursor next, const tci_page *page)
{
    next.order = next.after != 0 ? page->order : TCI_ORDER_DEFAULT;
    return next;
}

int tci_store_scan_conversations(tci_store *store, uint64_t owner_conversation_id,
                                 uint64_t owner_task_id, const tci_page *page, tci_arena *a,
                                 tci_conversation **ret, size_t *ret_count, tci_cursor *ret_next,
                                 tc_err *err)
{
    tci_page p;
    tci_cursor next = {0};
    int rc = decide(page, TCI_ORDER_ASCENDING, &p, err);
    if (rc == 0)
        rc = store->ops->scan_conversations(store, owner_conversation_id, owner_task_id, &p, a, ret,
                                            ret_count, &next, err);
    if (rc == 0)
        *ret_next = next_of(next, &p);
    return rc;
}

int tci_store_scan_entries(tci_store *store, uint64_t conversation_id, uint64_t min, uint64_t max,
                           const tci_page *page, tci_arena *a, tci_entry **ret, size_t *ret_count,
                           tci_cursor *ret_next, tc_err *err)
{
    return tci_store_read_entries(store, conversation_id, min, max, page, a, a, ret, ret_count,
                                  ret_next, err);
}

int tci_store_read_entries(tci_store *store, uint64_t conversation_id, uint64_t min, uint64_t max,
                           const tci_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                           size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    tci_page p;
    tci_cursor next = {0};
    int rc = decide(page, TCI_ORDER_DESCENDING, &p, err);
    if (rc == 0)
        rc = store->ops->scan_entries(store, conversation_id, min, max, &p, a, texts, ret,
                                      ret_count, &next, err);
    if (rc == 0)
        *ret_next = next_of(next, &p);
    return rc;
}

int tci_store_scan_tasks(tci_store *store, const tci_task_query *query, const tci_page *page,
                         tci_arena *a, tci_task **ret, size_t *ret_count, tci_cursor *ret_next,
                         tc_err *err)
{
    tci_page p;
    tci_cursor next = {0};
    int rc = decide(page, TCI_ORDER_ASCENDING, &p, err);
    if (rc == 0)
        rc = store->ops->scan_tasks(store, query, &p, a, ret, ret_count, &next, err);
    if (rc == 0)
        *ret_next = next_of(next, &p);
    return rc;
}

int tci_store_scan_submissions(tci_store *store, uint64_t conversation_id, int status,
                               const tci_page *page, tci_arena *a, tci_submission **ret,
                               size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    tci_page p;
    tci_cursor next = {0};
    int rc = decide(page, TCI_ORDER_ASCENDING, &p, err);
    if (rc == 0)
        rc = store->ops->scan_submissions(store, conversation_id, status, &p, a, ret, ret_count,
                                          &next, err);
    if (rc == 0)
        *ret_next = next_of(next, &p);
    return rc;
}

int tci_store_scan_documents(tci_store *store, int scope, uint64_t owner_id, tc_str kind,
                             uint64_t at, const tci_page *page, tci_arena *a, tci_document **ret,
                             size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    tci_page p;
    tci_cursor next = {0};
    int rc = decide(page, TCI_ORDER_ASCENDING, &p, err);
    if (rc == 0)
        rc = store->ops->scan_documents(store, scope, owner_id, kind, at, &p, a, ret, ret_count,
                                        &next, err);
    if (rc == 0)
        *ret_next = next_of(next, &p);
    return rc;
}
