/* SPDX-License-Identifier: Apache-2.0
 *
 * Committed records as structs, for the harness. Leaves texts for hosts to records.c. Any thread: each
 * takes the line, or uses it where this thread has it. Invariant: a failure of the storage that is not
 * about the request ends the session. */
#include "session/session_int.h"

/* The end of a read that was entered. */
static int leave(tc_durable *s, int rc, tc_err *err)
{
    rc = tci_session_after_read(s, rc, err);
    tci_session_leave(s);
    return rc;
}

int tci_durable_conversation(tc_durable *s, uint64_t id, tci_arena *a, tci_conversation *ret,
                             tc_err *err)
{
    int rc = tci_durable_enter(s, err);
    return rc < 0 ? rc : leave(s, tci_store_conversation(s->store, id, a, ret, err), err);
}

int tci_durable_task(tc_durable *s, uint64_t id, tci_arena *a, tci_task *ret, tc_err *err)
{
    int rc = tci_durable_enter(s, err);
    return rc < 0 ? rc : leave(s, tci_store_task(s->store, id, a, ret, err), err);
}

int tci_durable_submission(tc_durable *s, uint64_t id, tci_arena *a, tci_submission *ret,
                           tc_err *err)
{
    int rc = tci_durable_enter(s, err);
    return rc < 0 ? rc : leave(s, tci_store_submission(s->store, id, a, ret, err), err);
}

int tci_durable_entry(tc_durable *s, uint64_t conversation, uint64_t id, tci_arena *a,
                      tci_entry *ret, uint64_t *ret_seq, tc_err *err)
{
    uint64_t seq = 0;
    int rc = tci_durable_enter(s, err);
    if (rc < 0)
        return rc;
    rc = leave(s, tci_store_entry(s->store, conversation, id, a, ret, &seq, err), err);
    if (rc == 0 && ret_seq != NULL)
        *ret_seq = seq;
    return rc;
}

int tci_durable_head_marker(tc_durable *s, uint64_t conversation, uint64_t cutoff, tci_arena *a,
                            tci_entry *ret, tc_err *err)
{
    int rc = tci_durable_enter(s, err);
    return rc < 0
               ? rc
               : leave(s, tci_store_head_marker(s->store, conversation, cutoff, a, ret, err), err);
}

int tci_durable_submission_by_request(tc_durable *s, uint64_t conversation, tc_str request_id,
                                      tci_arena *a, tci_submission *ret, tc_err *err)
{
    int rc = tci_durable_enter(s, err);
    if (rc < 0)
        return rc;
    return leave(
        s, tci_store_submission_by_request(s->store, conversation, request_id, a, ret, err), err);
}

/* ---- scans ---- */

int tci_durable_scan_conversations(tc_durable *s, uint64_t owner_conversation, uint64_t owner_task,
                                   const tc_page *page, tci_arena *a, tci_conversation **ret,
                                   size_t *ret_count, tc_cursor *ret_next, tc_err *err)
{
    tci_page p = tci_page_of(page);
    tci_cursor next = {0};
    int rc = tci_durable_enter(s, err);
    if (rc < 0)
        return rc;
    rc = tci_store_scan_conversations(s->store, owner_conversation, owner_task, &p, a, ret,
                                      ret_count, &next, err);
    rc = leave(s, rc, err);
    if (rc == 0)
        tci_cursor_back(next, ret_next);
    return rc;
}

int tci_durable_scan_entries(tc_durable *s, uint64_t conversation, uint64_t min, uint64_t max,
                             const tc_page *page, tci_arena *a, tci_entry **ret, size_t *ret_count,
                             tc_cursor *ret_next, tc_err *err)
{
    return tci_durable_read_entries(s, conversation, min, max, page, a, a, ret, ret_count, ret_next,
                                    err);
}

int tci_durable_read_entries(tc_durable *s, uint64_t conversation, uint64_t min, uint64_t max,
                             const tc_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                             size_t *ret_count, tc_cursor *ret_next, tc_err *err)
{
    tci_page p = tci_page_of(page);
    tci_cursor next = {0};
    int rc = tci_durable_enter(s, err);
    if (rc < 0)
        return rc;
    rc = tci_store_read_entries(s->store, conversation, min, max, &p, a, texts, ret, ret_count,
                                &next, err);
    rc = leave(s, rc, err);
    if (rc == 0)
        tci_cursor_back(next, ret_next);
    return rc;
}

static int query_of(const tc_task_query *query, tci_task_query *ret, tc_err *err)
{
    *ret = TCI_TASK_QUERY_ALL;
    if (query == NULL)
        return 0;
    ret->conversation_id = query->conversation;
    ret->kind = query->kind;
    ret->is_abort_requested = query->is_abort_requested;
    ret->is_background = query->is_background;
    if (query->status.len == 0)
        return 0;
    tci_task_status status;
    if (!tci_task_status_of(query->status, &status))
        return tc_err_set(err, TC_E_INVALID, "tasks have no status '%.*s'",
                          TC_STR_ARG(query->status));
    ret->status = (int)status;
    return 0;
}

int tci_durable_scan_tasks(tc_durable *s, const tc_task_query *query, const tc_page *page,
                           tci_arena *a, tci_task **ret, size_t *ret_count, tc_cursor *ret_next,
                           tc_err *err)
{
    tci_page p = tci_page_of(page);
    tci_cursor next = {0};
    tci_task_query q;
    int rc = query_of(query, &q, err);
    if (rc == 0)
        rc = tci_durable_enter(s, err);
    if (rc < 0)
        return rc;
    rc = leave(s, tci_store_scan_tasks(s->store, &q, &p, a, ret, ret_count, &next, err), err);
    if (rc == 0)
        tci_cursor_back(next, ret_next);
    return rc;
}

int tci_durable_scan_submissions(tc_durable *s, uint64_t conversation, int status,
                                 const tc_page *page, tci_arena *a, tci_submission **ret,
                                 size_t *ret_count, tc_cursor *ret_next, tc_err *err)
{
    tci_page p = tci_page_of(page);
    tci_cursor next = {0};
    int rc = tci_durable_enter(s, err);
    if (rc < 0)
        return rc;
    rc = tci_store_scan_submissions(s->store, conversation, status, &p, a, ret, ret_count, &next,
                                    err);
    rc = leave(s, rc, err);
    if (rc == 0)
        tci_cursor_back(next, ret_next);
    return rc;
}

int tci_durable_scan_documents(tc_durable *s, tci_scope scope, uint64_t owner, tc_str kind,
                               const tc_page *page, tci_arena *a, tci_document **ret,
                               size_t *ret_count, tc_cursor *ret_next, tc_err *err)
{
    tci_page p = tci_page_of(page);
    tci_cursor next = {0};
    int rc = tci_durable_enter(s, err);
    if (rc < 0)
        return rc;
    rc = tci_store_scan_documents(s->store, (int)scope, owner, kind, 0, &p, a, ret, ret_count,
                                  &next, err);
    rc = leave(s, rc, err);
    if (rc == 0)
        tci_cursor_back(next, ret_next);
    return rc;
}

/* ---- documents ---- */

static int committed_doc(tc_durable *s, const tc_doc_addr *addr, const tc_json **ret_value,
                         uint64_t *ret_id, tc_err *err)
{
    tci_address address;
    tci_address_key key;
    tci_loaded *l = NULL;
    int rc = tci_address_of(addr->def, addr->owner, addr->key, &address, err);
    if (rc == 0)
        rc = tci_address_key_of(&address, &s->arena, &key, err);
    if (rc == 0)
        rc = tci_doc_load(s, addr->def, &address, key.text, &l, err);
    if (rc < 0)
        return rc;
    *ret_value = l != NULL ? &l->value.root : NULL;
    if (ret_id != NULL)
        *ret_id = l != NULL ? l->record.id : 0;
    return 0;
}

static int drafted_doc(tc_tx *tx, const tc_doc_addr *addr, const tc_json **ret_value,
                       uint64_t *ret_id, tc_err *err)
{
    int rc = tc_tx_doc_value(tx, addr->def, addr->owner, addr->key, ret_value, err);
    if (rc < 0 || ret_id == NULL)
        return rc;
    const tci_json *root = *ret_value;
    *ret_id = root != NULL ? TCI_CONTAINER(root, tci_loaded, value.root)->record.id : 0;
    return 0;
}

int tci_durable_doc(tc_durable *s, const tc_doc_addr *addr, const tc_json **ret_value,
                    uint64_t *ret_id, tc_err *err)
{
    TC_ASSERT(tci_line_is_mine(&s->line));
    int rc = tci_durable_enter(s, err);
    if (rc < 0)
        return rc;
    rc = s->is_tx_open ? drafted_doc(s->tx, addr, ret_value, ret_id, err)
                       : committed_doc(s, addr, ret_value, ret_id, err);
    tci_session_leave(s);
    return rc;
}
