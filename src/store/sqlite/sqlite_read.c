/* SPDX-License-Identifier: Apache-2.0
 *
 * Single records and documents out of an SQLite session; pages are sqlite_scan.c. Thread: the session's
 * line. Invariant: what is answered lies in the caller's arena or tree; s->scratch holds only what
 * parsing needs for a moment. */
#include "store/sqlite/sqlite_int.h"

#include "base/utf8.h"
#include "store/delta.h"
#include "store/jsonl/jsonl_scan.h"

static tci_sqlite *of(tci_store *store)
{
    return TCI_CONTAINER(store, tci_sqlite, store);
}

/* ---- decoding ---- */

static int parse_kept(tci_sqlite *s, tc_str text, tci_json *ret, tc_err *err)
{
    tci_arena_clear(&s->scratch);
    int rc = tci_json_parse(text, TCI_JSON_DURABLE, &s->scratch, ret, err);
    return rc < 0 ? tc_err_wrap(err, "a record of the session is damaged") : 0;
}

static int parse(tci_sqlite *s, tc_str stored, tci_arena *a, tc_str *ret_text, tci_json *ret,
                 tc_err *err)
{
    int rc = tci_arena_dup(a, stored, ret_text, err);
    return rc < 0 ? rc : parse_kept(s, *ret_text, ret, err);
}

/* A decoded text that does not lie in the record's own text lies in the scratch: bring it over. */
static int keep(tc_str text, tci_arena *a, tc_str *inner, tc_err *err)
{
    if (inner->len == 0 || (inner->ptr >= text.ptr && inner->ptr < text.ptr + text.len))
        return 0;
    return tci_arena_dup(a, *inner, inner, err);
}

static int damaged(int rc, tc_err *err)
{
    return rc < 0 ? tc_err_wrap(err, "a record of the session is damaged") : 0;
}

int tci_sqlite_conversation_of(tci_sqlite *s, tc_str stored, tci_arena *a, tci_conversation *ret,
                               tc_err *err)
{
    tc_str text;
    tci_json v;
    int rc = parse(s, stored, a, &text, &v, err);
    return rc < 0 ? rc : damaged(tci_conversation_of(&v, text, ret, err), err);
}

/* The fields of an entry, in passing. */
static bool scan_entry_field(tci_entry *e, unsigned *seen, tc_str key, tc_str raw, tci_arena *a)
{
    static const tc_str names[] = {{"id", 2},   {"conversationId", 14}, {"kind", 4},
                                   {"head", 4}, {"byTaskId", 8},        {"model", 5},
                                   {"edits", 5}};
    uint64_t *const ids[] = {&e->id, &e->conversation_id, NULL, &e->head, &e->by_task_id};
    size_t i = 0;
    while (i < TCI_ARRAY_LEN(names) && !tci_str_eq(key, names[i]))
        i++;
    if (i == TCI_ARRAY_LEN(names))
        return true;
    if ((*seen & 1U << i) != 0)
        return false;
    *seen |= 1U << i;
    if (i < TCI_ARRAY_LEN(ids) && ids[i] != NULL)
        return tci_raw_id(raw, ids[i]);
    if (i == 2)
        return tci_raw_string(raw, a, &e->kind) && e->kind.len > 0;
    e->has_model = e->has_model || i == 5;
    e->has_edits = e->has_edits || i == 6;
    return tci_raw_is_array(raw);
}

/* An entry without building its values, of which contexts take a hundred thousand at once. False when it is
 * not what is nearly always there: then it is parsed, which also knows what is wrong with it. */
static bool scan_entry(tc_str text, tci_arena *a, tci_entry *ret)
{
    enum { REQUIRED = 7 }; /* id, conversation, kind */
    tci_scan scan = tci_scan_of(text);
    tci_entry e = {.json = text};
    unsigned seen = 0;
    bool first = true;
    tc_str key, raw;
    if (!tci_utf8_is_valid(text) || !tci_scan_object(&scan))
        return false;
    while (tci_scan_member(&scan, &first, a, &key)) {
        if (!tci_scan_value(&scan, &raw) || !scan_entry_field(&e, &seen, key, raw, a))
            return false;
    }
    if (!tci_scan_ok(&scan) || !tci_jsonl_scan_end(&scan) || (seen & REQUIRED) != REQUIRED)
        return false;
    *ret = e;
    return true;
}

int tci_sqlite_entry_of(tci_sqlite *s, tc_str stored, tci_arena *a, tci_entry *ret, tc_err *err)
{
    tc_str text;
    tci_json v;
    if (tci_arena_dup(a, stored, &text, err) < 0)
        return err->code;
    if (scan_entry(text, a, ret))
        return 0;
    int rc = parse_kept(s, text, &v, err);
    if (rc == 0)
        rc = damaged(tci_entry_of(&v, text, ret, err), err);
    return rc < 0 ? rc : keep(text, a, &ret->kind, err);
}

int tci_sqlite_task_of(tci_sqlite *s, tc_str stored, tci_arena *a, tci_task *ret, tc_err *err)
{
    tc_str text;
    tci_json v;
    int rc = parse(s, stored, a, &text, &v, err);
    if (rc == 0)
        rc = damaged(tci_task_of(&v, text, ret, err), err);
    return rc < 0 ? rc : keep(text, a, &ret->kind, err);
}

int tci_sqlite_submission_of(tci_sqlite *s, tc_str stored, tci_arena *a, tci_submission *ret,
                             tc_err *err)
{
    tc_str text;
    tci_json v;
    int rc = parse(s, stored, a, &text, &v, err);
    if (rc == 0)
        rc = damaged(tci_submission_of(&v, text, ret, err), err);
    if (rc == 0)
        rc = keep(text, a, &ret->request_id, err);
    return rc < 0 ? rc : keep(text, a, &ret->reason, err);
}

int tci_sqlite_document_of(tci_sqlite *s, tc_str stored, tci_arena *a, tci_document *ret,
                           tc_err *err)
{
    tc_str text;
    tci_json v;
    int rc = parse(s, stored, a, &text, &v, err);
    if (rc == 0)
        rc = damaged(tci_document_of(&v, text, ret, err), err);
    if (rc == 0)
        rc = keep(text, a, &ret->kind, err);
    return rc < 0 ? rc : keep(text, a, &ret->key, err);
}

/* ---- single records ---- */

/* Look one up: 1: found, the statement is on its row; 0: none. */
static int find(tci_sqlite *s, tci_sql which, uint64_t id, sqlite3_stmt **ret, tc_err *err)
{
    int rc = tci_sqlite_stmt(s, which, ret, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(*ret, 1, id);
    return tci_sqlite_step(s, *ret, err);
}

int tci_sqlite_conversation(tci_store *store, uint64_t id, tci_arena *a, tci_conversation *ret,
                            tc_err *err)
{
    tci_sqlite *s = of(store);
    sqlite3_stmt *stmt;
    int rc = find(s, TCI_SQL_CONVERSATION_GET, id, &stmt, err);
    if (rc == 0)
        *ret = (tci_conversation){.id = 0};
    if (rc <= 0)
        return rc;
    rc = tci_sqlite_conversation_of(s, tci_sqlite_text(stmt, 0), a, ret, err);
    (void)sqlite3_reset(stmt);
    return rc;
}

int tci_sqlite_task(tci_store *store, uint64_t id, tci_arena *a, tci_task *ret, tc_err *err)
{
    tci_sqlite *s = of(store);
    sqlite3_stmt *stmt;
    int rc = find(s, TCI_SQL_TASK_GET, id, &stmt, err);
    if (rc == 0)
        *ret = (tci_task){.id = 0};
    if (rc <= 0)
        return rc;
    rc = tci_sqlite_task_of(s, tci_sqlite_text(stmt, 0), a, ret, err);
    (void)sqlite3_reset(stmt);
    return rc;
}

/* The rest of a lookup of a submission: rc is what the step said. */
static int submission_found(tci_sqlite *s, sqlite3_stmt *stmt, int rc, tci_arena *a,
                            tci_submission *ret, tc_err *err)
{
    if (rc == 0)
        *ret = (tci_submission){.id = 0};
    if (rc <= 0)
        return rc;
    rc = tci_sqlite_submission_of(s, tci_sqlite_text(stmt, 0), a, ret, err);
    (void)sqlite3_reset(stmt);
    return rc;
}

int tci_sqlite_submission(tci_store *store, uint64_t id, tci_arena *a, tci_submission *ret,
                          tc_err *err)
{
    tci_sqlite *s = of(store);
    sqlite3_stmt *stmt;
    int rc = find(s, TCI_SQL_SUBMISSION_GET, id, &stmt, err);
    return submission_found(s, stmt, rc, a, ret, err);
}

int tci_sqlite_submission_by_request(tci_store *store, uint64_t conversation_id, tc_str request_id,
                                     tci_arena *a, tci_submission *ret, tc_err *err)
{
    tci_sqlite *s = of(store);
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, TCI_SQL_SUBMISSION_BY_REQUEST, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, conversation_id);
    rc = tci_sqlite_bind_identity(stmt, 2, &s->key, request_id, err);
    if (rc < 0)
        return rc;
    return submission_found(s, stmt, tci_sqlite_step(s, stmt, err), a, ret, err);
}

/* ---- entries and the fork chain ---- */

int tci_sqlite_segment_of(tci_sqlite *s, uint64_t id, tci_sqlite_segment *ret, bool *ret_found,
                          tc_err *err)
{
    sqlite3_stmt *stmt;
    for (size_t i = 0; i < TCI_SQLITE_SEGMENTS; i++) {
        if (id != 0 && s->known[i].id == id) {
            *ret = s->known[i];
            *ret_found = true;
            return 0;
        }
    }
    int rc = find(s, TCI_SQL_CONVERSATION_GET, id, &stmt, err);
    if (rc == 0)
        *ret_found = false;
    if (rc <= 0)
        return rc;
    tc_str text = tci_sqlite_text(stmt, 0);
    tci_json v;
    tci_conversation c;
    tci_arena_clear(&s->scratch);
    rc = tci_json_parse(text, TCI_JSON_DURABLE, &s->scratch, &v, err);
    if (rc == 0)
        rc = tci_conversation_of(&v, text, &c, err);
    (void)sqlite3_reset(stmt);
    if (rc < 0)
        return damaged(rc, err);
    *ret = (tci_sqlite_segment){.id = id, .parent_id = c.parent_id, .parent_at = c.parent_at};
    s->known[s->next_known++ % TCI_SQLITE_SEGMENTS] = *ret;
    *ret_found = true;
    return 0;
}

/* *ret: may an entry of `owner` with this id be seen from conversation `from`? */
static int is_visible(tci_sqlite *s, uint64_t from, uint64_t owner, uint64_t id, bool *ret,
                      tc_err *err)
{
    tci_sqlite_segment at;
    uint64_t cap = TCI_ID_MAX;
    bool is_found;
    int rc = tci_sqlite_segment_of(s, from, &at, &is_found, err);
    if (rc == 0 && !is_found)
        return tc_err_set(err, TC_E_NOT_FOUND, "Unknown conversation: %llu",
                          (unsigned long long)from);
    /* Each parent is older than its fork; a chain that is not would never end. */
    while (rc == 0 && is_found && at.id != owner && at.parent_id != 0 && at.parent_id < at.id) {
        cap = at.parent_at < cap ? at.parent_at : cap;
        rc = tci_sqlite_segment_of(s, at.parent_id, &at, &is_found, err);
    }
    if (rc == 0)
        *ret = is_found && at.id == owner && id <= cap;
    return rc;
}

int tci_sqlite_entry(tci_store *store, uint64_t conversation_id, uint64_t id, tci_arena *a,
                     tci_entry *ret, uint64_t *ret_seq, tc_err *err)
{
    tci_sqlite *s = of(store);
    sqlite3_stmt *stmt;
    tci_entry entry = {.id = 0};
    uint64_t seq = 0;
    bool is_seen = true;
    int rc = find(s, TCI_SQL_ENTRY_GET, id, &stmt, err);
    if (rc == 1) {
        seq = tci_sqlite_u64(stmt, 1);
        rc = tci_sqlite_entry_of(s, tci_sqlite_text(stmt, 0), a, &entry, err);
        (void)sqlite3_reset(stmt);
    }
    if (rc == 0 && conversation_id != 0)
        rc = is_visible(s, conversation_id, entry.conversation_id, id, &is_seen, err);
    if (rc < 0)
        return rc;
    *ret = is_seen ? entry : (tci_entry){.id = 0};
    *ret_seq = is_seen ? seq : 0;
    return 0;
}

int tci_sqlite_head_marker(tci_store *store, uint64_t conversation_id, uint64_t cutoff,
                           tci_arena *a, tci_entry *ret, tc_err *err)
{
    tci_sqlite *s = of(store);
    uint64_t upper = cutoff != 0 ? cutoff : TCI_ID_MAX;
    tci_sqlite_segment at;
    bool is_found;
    int rc = tci_sqlite_segment_of(s, conversation_id, &at, &is_found, err);
    if (rc == 0 && !is_found)
        return tc_err_set(err, TC_E_NOT_FOUND, "Unknown conversation: %llu",
                          (unsigned long long)conversation_id);
    while (rc == 0 && is_found) {
        sqlite3_stmt *stmt;
        rc = tci_sqlite_stmt(s, TCI_SQL_ENTRY_HEAD, &stmt, err);
        if (rc < 0)
            return rc;
        tci_sqlite_bind_u64(stmt, 1, at.id);
        tci_sqlite_bind_u64(stmt, 2, upper);
        rc = tci_sqlite_step(s, stmt, err);
        if (rc == 1) {
            rc = tci_sqlite_entry_of(s, tci_sqlite_text(stmt, 0), a, ret, err);
            (void)sqlite3_reset(stmt);
            return rc;
        }
        if (rc < 0 || at.parent_id == 0 || at.parent_id >= at.id)
            break;
        upper = at.parent_at < upper ? at.parent_at : upper;
        rc = tci_sqlite_segment_of(s, at.parent_id, &at, &is_found, err);
    }
    if (rc == 0)
        *ret = (tci_entry){.id = 0};
    return rc;
}

/* ---- documents ---- */

int tci_sqlite_bind_address(tci_sqlite *s, sqlite3_stmt *stmt, const tci_address *address,
                            tc_err *err)
{
    int rc = tci_sqlite_bind_identity(stmt, 1, &s->kind, address->kind, err);
    if (rc == 0)
        rc = tci_sqlite_bind_identity(stmt, 5, &s->key,
                                      address->has_key ? address->key : TC_STR(""), err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_name(stmt, 2, tci_scope_name(address->scope));
    tci_sqlite_bind_u64(stmt, 3, address->scope == TCI_SCOPE_SESSION ? 0 : address->owner_id);
    tci_sqlite_bind_u64(stmt, 4, address->has_key ? 1 : 0);
    return 0;
}

int tci_sqlite_find_document(tci_store *store, const tci_address *address, uint64_t at,
                             tci_arena *a, tci_document *ret, tc_err *err)
{
    tci_sqlite *s = of(store);
    sqlite3_stmt *stmt;
    int rc =
        tci_sqlite_stmt(s, at == 0 ? TCI_SQL_DOCUMENT_LIVE : TCI_SQL_DOCUMENT_AS_OF, &stmt, err);
    if (rc == 0)
        rc = tci_sqlite_bind_address(s, stmt, address, err);
    if (rc < 0)
        return rc;
    if (at != 0)
        tci_sqlite_bind_u64(stmt, 6, at);
    rc = tci_sqlite_step(s, stmt, err);
    if (rc == 0)
        *ret = (tci_document){.id = 0};
    if (rc <= 0)
        return rc;
    rc = tci_sqlite_document_of(s, tci_sqlite_text(stmt, 1), a, ret, err);
    (void)sqlite3_reset(stmt);
    return rc;
}

/* The newest base up to `upper`: its sequence number, version and value. */
static int read_base(tci_sqlite *s, uint64_t id, uint64_t upper, uint64_t *ret_seq,
                     uint64_t *ret_version, tci_tree *ret_value, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, TCI_SQL_REVISION_BASE, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, id);
    tci_sqlite_bind_u64(stmt, 2, upper);
    rc = tci_sqlite_step(s, stmt, err);
    if (rc == 0)
        return tc_err_set(err, TC_E_PARSE, "Document %llu is missing a required base",
                          (unsigned long long)id);
    if (rc < 0)
        return rc;
    *ret_seq = tci_sqlite_u64(stmt, 0);
    *ret_version = tci_sqlite_u64(stmt, 1);
    rc = 0;
    if (ret_value != NULL)
        rc = tci_tree_parse(tci_sqlite_text(stmt, 2), TCI_JSON_DURABLE, ret_value, err);
    (void)sqlite3_reset(stmt);
    return rc;
}

static int read_tail(tci_sqlite *s, uint64_t id, uint64_t base_seq, uint64_t upper,
                     tci_document_state *state, tci_tree *value, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, TCI_SQL_REVISION_TAIL, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, id);
    tci_sqlite_bind_u64(stmt, 2, base_seq);
    tci_sqlite_bind_u64(stmt, 3, upper);
    while ((rc = tci_sqlite_step(s, stmt, err)) == 1) {
        state->deltas_since_base++;
        if (!tci_str_eq(tci_sqlite_text(stmt, 0), TC_STR("delta")) ||
            tci_sqlite_u64(stmt, 1) != state->version)
            rc = tc_err_set(err, TC_E_PARSE,
                            "Document %llu crosses a stored version boundary without a base",
                            (unsigned long long)id);
        else if (value != NULL)
            rc = tci_delta_apply(value, tci_sqlite_text(stmt, 2), &s->scratch, err);
        if (rc < 0) {
            (void)sqlite3_reset(stmt);
            return rc;
        }
    }
    return rc;
}

static bool is_alive(const tci_document *d, uint64_t at)
{
    if (at == 0)
        return d->retired_at == 0;
    return d->created_at <= at && (d->retired_at == 0 || at < d->retired_at);
}

int tci_sqlite_materialize(tci_sqlite *s, uint64_t id, uint64_t at, tci_arena *a,
                           tci_document_state *ret, tci_tree *ret_value, tc_err *err)
{
    sqlite3_stmt *stmt;
    tci_document_state state = {.deltas_since_base = 0};
    uint64_t upper = at != 0 ? at : TCI_ID_MAX, base_seq = 0;
    int rc = find(s, TCI_SQL_DOCUMENT_GET, id, &stmt, err);
    if (rc == 1) {
        rc = tci_sqlite_document_of(s, tci_sqlite_text(stmt, 0), a, &state.record, err);
        (void)sqlite3_reset(stmt);
    }
    if (rc < 0)
        return rc;
    if (state.record.id != 0 && at != 0 && tci_document_is_current_only(&state.record))
        return tc_err_set(err, TC_E_UNSUPPORTED, "Document %llu does not retain historical content",
                          (unsigned long long)id);
    if (state.record.id == 0 || !is_alive(&state.record, at)) {
        *ret = (tci_document_state){.record = {.id = 0}};
        return 0;
    }
    tci_tree value = TCI_TREE_NONE;
    tci_tree *wanted = ret_value != NULL ? &value : NULL;
    rc = read_base(s, id, upper, &base_seq, &state.version, wanted, err);
    if (rc == 0)
        rc = read_tail(s, id, base_seq, upper, &state, wanted, err);
    if (rc < 0) {
        tci_tree_done(&value);
        return tc_err_wrap(err, "document %llu cannot be read", (unsigned long long)id);
    }
    *ret = state;
    if (ret_value != NULL)
        *ret_value = value;
    return 0;
}

int tci_sqlite_document(tci_store *store, uint64_t id, uint64_t at, tci_arena *a,
                        tci_document_state *ret, tci_tree *ret_value, tc_err *err)
{
    tci_sqlite *s = of(store);
    if (s->is_pending)
        return tci_sqlite_materialize(s, id, at, a, ret, ret_value, err);
    /* Record and revisions of one state, whatever another process commits meanwhile. */
    int rc = tci_sqlite_do(s, TCI_SQL_BEGIN, err);
    if (rc < 0)
        return rc;
    rc = tci_sqlite_materialize(s, id, at, a, ret, ret_value, err);
    tc_err ignored;
    (void)!tci_sqlite_do(s, TCI_SQL_ROLLBACK, &ignored); /* nothing was written */
    return rc;
}
