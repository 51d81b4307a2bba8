/* SPDX-License-Identifier: Apache-2.0
 *
 * Records and values as text, for hosts: in a transaction before its first write, and without one. Leaves
 * reading to read.c. The calling thread. Invariant: a record that does not exist is an empty text. */
#include "session/session_int.h"

static const tc_str NONE = {0};

/* Scans give arrays of records; hosts get their texts. */
static int texts(const void *items, size_t item_size, size_t json_at, size_t n, tc_cursor next,
                 tci_arena *a, tc_records *ret, tc_err *err)
{
    tc_str *out = tci_arena_items(a, tc_str, n + 1);
    if (out == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < n; i++)
        memcpy(&out[i], (const char *)items + i * item_size + json_at, sizeof *out);
    *ret = (tc_records){.count = n, .items = out, .has_more = next.after != 0, .next = next};
    return 0;
}

#define TEXTS(type, items, n, next, a, ret, err) \
    texts((items), sizeof(type), offsetof(type, json), (n), (next), (a), (ret), (err))

/* Public readers are refused while the session closes; those on the line are not. */
static int check(tc_durable *s, tc_err *err)
{
    return tci_line_is_mine(&s->line) ? 0 : tci_durable_check(s, err);
}

/* ---- one record ---- */

int tc_durable_conversation(tc_durable *s, uint64_t id, tc_result *r, tc_str *ret_json, tc_err *err)
{
    tci_conversation c = {0};
    int rc = check(s, err);
    if (rc == 0)
        rc = tci_durable_conversation(s, id, tci_result_arena(r), &c, err);
    if (rc == 0)
        *ret_json = c.id != 0 ? c.json : NONE;
    return rc;
}

int tc_durable_entry(tc_durable *s, uint64_t conversation, uint64_t id, tc_result *r,
                     tc_str *ret_json, tc_err *err)
{
    tci_entry e = {0};
    int rc = check(s, err);
    if (rc == 0)
        rc = tci_durable_entry(s, conversation, id, tci_result_arena(r), &e, NULL, err);
    if (rc == 0)
        *ret_json = e.id != 0 ? e.json : NONE;
    return rc;
}

int tc_durable_task(tc_durable *s, uint64_t id, tc_result *r, tc_str *ret_json, tc_err *err)
{
    tci_task t = {0};
    int rc = check(s, err);
    if (rc == 0)
        rc = tci_durable_task(s, id, tci_result_arena(r), &t, err);
    if (rc == 0)
        *ret_json = t.id != 0 ? t.json : NONE;
    return rc;
}

int tc_durable_submission(tc_durable *s, uint64_t id, tc_result *r, tc_str *ret_json, tc_err *err)
{
    tci_submission m = {0};
    int rc = check(s, err);
    if (rc == 0)
        rc = tci_durable_submission(s, id, tci_result_arena(r), &m, err);
    if (rc == 0)
        *ret_json = m.id != 0 ? m.json : NONE;
    return rc;
}

int tc_durable_submission_by_request(tc_durable *s, uint64_t conversation, tc_str request_id,
                                     tc_result *r, tc_str *ret_json, tc_err *err)
{
    tci_submission m = {0};
    int rc = check(s, err);
    if (rc == 0)
        rc = tci_durable_submission_by_request(s, conversation, request_id, tci_result_arena(r), &m,
                                               err);
    if (rc == 0)
        *ret_json = m.id != 0 ? m.json : NONE;
    return rc;
}

/* ---- pages ---- */

int tc_durable_conversations(tc_durable *s, uint64_t owner_conversation, uint64_t owner_task,
                             const tc_page *page, tc_result *r, tc_records *ret_records,
                             tc_err *err)
{
    tci_arena *a = tci_result_arena(r);
    tci_conversation *items = NULL;
    size_t n = 0;
    tc_cursor next = {0};
    int rc = check(s, err);
    if (rc == 0)
        rc = tci_durable_scan_conversations(s, owner_conversation, owner_task, page, a, &items, &n,
                                            &next, err);
    return rc < 0 ? rc : TEXTS(tci_conversation, items, n, next, a, ret_records, err);
}

int tc_durable_entries(tc_durable *s, uint64_t conversation, uint64_t min, uint64_t max,
                       const tc_page *page, tc_result *r, tc_records *ret_records, tc_err *err)
{
    tci_arena *a = tci_result_arena(r);
    tci_entry *items = NULL;
    size_t n = 0;
    tc_cursor next = {0};
    int rc = check(s, err);
    if (rc == 0)
        rc = tci_durable_scan_entries(s, conversation, min, max, page, a, &items, &n, &next, err);
    return rc < 0 ? rc : TEXTS(tci_entry, items, n, next, a, ret_records, err);
}

int tc_durable_tasks(tc_durable *s, const tc_task_query *query, const tc_page *page, tc_result *r,
                     tc_records *ret_records, tc_err *err)
{
    tci_arena *a = tci_result_arena(r);
    tci_task *items = NULL;
    size_t n = 0;
    tc_cursor next = {0};
    int rc = check(s, err);
    if (rc == 0)
        rc = tci_durable_scan_tasks(s, query, page, a, &items, &n, &next, err);
    return rc < 0 ? rc : TEXTS(tci_task, items, n, next, a, ret_records, err);
}

int tc_durable_submissions(tc_durable *s, uint64_t conversation, tc_str status, const tc_page *page,
                           tc_result *r, tc_records *ret_records, tc_err *err)
{
    tci_arena *a = tci_result_arena(r);
    tci_submission *items = NULL;
    size_t n = 0;
    tc_cursor next = {0};
    int wanted = -1;
    tci_submission_status known;
    if (status.len > 0) {
        if (!tci_submission_status_of(status, &known))
            return tc_err_set(err, TC_E_INVALID, "submissions have no status '%.*s'",
                              TC_STR_ARG(status));
        wanted = (int)known;
    }
    int rc = check(s, err);
    if (rc == 0)
        rc = tci_durable_scan_submissions(s, conversation, wanted, page, a, &items, &n, &next, err);
    return rc < 0 ? rc : TEXTS(tci_submission, items, n, next, a, ret_records, err);
}

int tc_durable_documents(tc_durable *s, tc_scope scope, uint64_t owner, tc_str kind,
                         const tc_page *page, tc_result *r, tc_records *ret_records, tc_err *err)
{
    tci_arena *a = tci_result_arena(r);
    tci_document *items = NULL;
    size_t n = 0;
    tc_cursor next = {0};
    int rc = check(s, err);
    if (rc == 0)
        rc = tci_durable_scan_documents(s, tci_scope_of(scope), owner, kind, page, a, &items, &n,
                                        &next, err);
    return rc < 0 ? rc : TEXTS(tci_document, items, n, next, a, ret_records, err);
}

/* ---- the same in a transaction ---- */

int tc_tx_conversation(tc_tx *tx, uint64_t id, tc_result *r, tc_str *ret_json, tc_err *err)
{
    int rc = tci_tx_check_read(tx, "conversation", err);
    return rc < 0 ? rc : tc_durable_conversation(tx->s, id, r, ret_json, err);
}

int tc_tx_entry(tc_tx *tx, uint64_t id, tc_result *r, tc_str *ret_json, tc_err *err)
{
    int rc = tci_tx_check_read(tx, "entry", err);
    return rc < 0 ? rc : tc_durable_entry(tx->s, 0, id, r, ret_json, err);
}

int tc_tx_task(tc_tx *tx, uint64_t id, tc_result *r, tc_str *ret_json, tc_err *err)
{
    int rc = tci_tx_check_read(tx, "task", err);
    return rc < 0 ? rc : tc_durable_task(tx->s, id, r, ret_json, err);
}

int tc_tx_submission(tc_tx *tx, uint64_t id, tc_result *r, tc_str *ret_json, tc_err *err)
{
    int rc = tci_tx_check_read(tx, "submission", err);
    return rc < 0 ? rc : tc_durable_submission(tx->s, id, r, ret_json, err);
}

int tc_tx_submission_by_request(tc_tx *tx, uint64_t conversation, tc_str request_id, tc_result *r,
                                tc_str *ret_json, tc_err *err)
{
    int rc = tci_tx_check_read(tx, "submission by request", err);
    if (rc < 0)
        return rc;
    return tc_durable_submission_by_request(tx->s, conversation, request_id, r, ret_json, err);
}

int tc_tx_head_marker(tc_tx *tx, uint64_t conversation, tc_result *r, tc_str *ret_json, tc_err *err)
{
    tci_entry e = {0};
    int rc = tci_tx_check_read(tx, "head marker", err);
    if (rc == 0)
        rc = tci_durable_head_marker(tx->s, conversation, 0, tci_result_arena(r), &e, err);
    if (rc == 0)
        *ret_json = e.id != 0 ? e.json : NONE;
    return rc;
}

int tc_tx_scan_conversations(tc_tx *tx, uint64_t owner_conversation, uint64_t owner_task,
                             const tc_page *page, tc_result *r, tc_records *ret_records,
                             tc_err *err)
{
    int rc = tci_tx_check_read(tx, "scan of conversations", err);
    if (rc < 0)
        return rc;
    return tc_durable_conversations(tx->s, owner_conversation, owner_task, page, r, ret_records,
                                    err);
}

int tc_tx_scan_entries(tc_tx *tx, uint64_t conversation, uint64_t min, uint64_t max,
                       const tc_page *page, tc_result *r, tc_records *ret_records, tc_err *err)
{
    int rc = tci_tx_check_read(tx, "scan of entries", err);
    return rc < 0 ? rc
                  : tc_durable_entries(tx->s, conversation, min, max, page, r, ret_records, err);
}

int tc_tx_scan_tasks(tc_tx *tx, const tc_task_query *query, const tc_page *page, tc_result *r,
                     tc_records *ret_records, tc_err *err)
{
    int rc = tci_tx_check_read(tx, "scan of tasks", err);
    return rc < 0 ? rc : tc_durable_tasks(tx->s, query, page, r, ret_records, err);
}

/* ---- values of documents ---- */

int tc_durable_snapshot(tc_durable *s, const tc_doc_addr *addr, tc_result *r, tc_str *ret_json,
                        tc_err *err)
{
    const tc_json *value = NULL;
    tc_str text = {0};
    int rc = tci_session_read(s, err);
    if (rc < 0)
        return rc;
    rc = tci_durable_doc(s, addr, &value, NULL, err);
    if (rc == 0 && value != NULL)
        rc = tc_json_text(value, r, &text, err);
    tci_session_leave(s);
    if (rc == 0)
        *ret_json = text;
    return rc;
}

static int check_history(const tc_doc_addr *addr, tc_err *err)
{
    if (addr->def->scope == TC_SCOPE_CONVERSATION && addr->def->history == TC_HISTORY_REWINDABLE)
        return 0;
    return tc_err_set(err, TC_E_UNSUPPORTED, "document '%s' keeps no history", addr->def->kind);
}

/* The record alive at the commit of the entry, in the conversation that holds the entry. */
static int find_as_of(tc_durable *s, const tc_doc_addr *addr, uint64_t entry, tci_document *ret,
                      uint64_t *ret_seq, tc_err *err)
{
    tci_entry e = {0};
    tci_address address;
    int rc = tci_store_entry(s->store, addr->owner, entry, &s->arena, &e, ret_seq, err);
    if (rc == 0 && e.id == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "entry %llu is not visible from conversation %llu",
                          (unsigned long long)entry, (unsigned long long)addr->owner);
    if (rc == 0)
        rc = tci_address_of(addr->def, e.conversation_id, addr->key, &address, err);
    if (rc == 0)
        rc = tci_store_find_document(s->store, &address, *ret_seq, &s->arena, ret, err);
    return tci_session_after_read(s, rc, err);
}

static int value_as_of(tc_durable *s, const tc_doc_addr *addr, uint64_t entry, tci_tree *ret_value,
                       bool *ret_is_there, tc_err *err)
{
    tci_document found = {0};
    tci_document_state state = {0};
    uint64_t seq = 0;
    int rc = find_as_of(s, addr, entry, &found, &seq, err);
    *ret_is_there = rc == 0 && found.id != 0;
    if (!*ret_is_there)
        return rc;
    rc = tci_store_document(s->store, found.id, seq, &s->arena, &state, ret_value, err);
    rc = tci_session_after_read(s, rc, err);
    if (rc < 0)
        return rc;
    if (state.record.id == 0)
        return tc_err_set(err, TC_E_PARSE, "document %llu cannot be read as of commit %llu",
                          (unsigned long long)found.id, (unsigned long long)seq);
    rc = tci_doc_check_record(addr->def, &state.record, err);
    if (rc == 0)
        rc = tci_doc_check_version(addr->def, &state.record, state.version, err);
    return rc < 0 ? rc : tci_doc_migrate(s, addr->def, state.version, ret_value, err);
}

int tc_durable_snapshot_as_of(tc_durable *s, const tc_doc_addr *addr, uint64_t entry, tc_result *r,
                              tc_str *ret_json, tc_err *err)
{
    tci_tree value = TCI_TREE_NONE;
    tc_str text = {0};
    bool is_there = false;
    int rc = check_history(addr, err);
    if (rc == 0)
        rc = tci_session_read(s, err);
    if (rc < 0)
        return rc;
    rc = value_as_of(s, addr, entry, &value, &is_there, err);
    if (rc == 0 && is_there)
        rc = tc_json_text(&value.root, r, &text, err);
    tci_tree_done(&value);
    tci_session_leave(s);
    if (rc == 0)
        *ret_json = text;
    return rc;
}
