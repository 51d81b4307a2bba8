/* SPDX-License-Identifier: Apache-2.0
 *
 * The documents of a batch: what it does to each, whether it may, and the rows of documents and
 * revisions. Thread: the session's line, inside the batch's transaction (collecting excepted).
 * Invariant: of a current-only document nothing older than its newest base is stored. */
#include "store/sqlite/sqlite_int.h"

#include <stdio.h>

/* ---- collecting ---- */

static int add_content(tci_doc_action *d, const tci_write *w, tc_err *err)
{
    if (d->create != NULL || d->change != NULL || d->copy != NULL)
        return tc_err_set(err, TC_E_CONFLICT, "Document %llu has more than one content command",
                          (unsigned long long)d->id);
    if (w->type == TCI_WRITE_DOC_CREATE)
        d->create = w;
    else if (w->type == TCI_WRITE_DOC_COPY)
        d->copy = w;
    else
        d->change = w;
    if (w->type == TCI_WRITE_DOC_CREATE && w->content.is_delta)
        return tc_err_set(err, TC_E_INVALID, "Document %llu is created without a base",
                          (unsigned long long)d->id);
    return 0;
}

int tci_sqlite_collect(tci_sqlite *s, const tci_write *writes, size_t nwrites, tci_doc_actions *ret,
                       tc_err *err)
{
    tci_id_map_clear(&s->touched);
    ret->items = tci_arena_items(&s->batch, tci_doc_action, nwrites + 1);
    if (ret->items == NULL)
        return tci_arena_error(&s->batch, err);
    for (size_t i = 0; i < nwrites; i++) {
        const tci_write *w = &writes[i];
        if (w->type < TCI_WRITE_DOC_CREATE)
            continue;
        uintptr_t *place = tci_id_map_put(&s->touched, w->u.document.id);
        if (place == NULL)
            return tci_err_no_memory(err);
        if (*place == 0) {
            ret->items[ret->count++] = (tci_doc_action){.id = w->u.document.id};
            *place = ret->count;
        }
        tci_doc_action *d = &ret->items[*place - 1];
        if (w->type != TCI_WRITE_DOC_RETIRE) {
            int rc = add_content(d, w, err);
            if (rc < 0)
                return rc;
        } else if (d->is_retired) {
            return tc_err_set(err, TC_E_CONFLICT, "Document %llu is retired more than once",
                              (unsigned long long)d->id);
        } else {
            d->is_retired = true;
        }
    }
    return 0;
}

/* ---- checking ---- */

static const tci_document *new_record(const tci_doc_action *d)
{
    const tci_write *w = d->create != NULL ? d->create : d->copy;
    return w != NULL ? &w->u.document : NULL;
}

static int read_existing(tci_sqlite *s, tci_doc_action *d, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, TCI_SQL_DOCUMENT_GET, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, d->id);
    rc = tci_sqlite_step(s, stmt, err);
    if (rc == 1) {
        rc = tci_sqlite_document_of(s, tci_sqlite_text(stmt, 0), &s->batch, &d->record, err);
        (void)sqlite3_reset(stmt);
    }
    return rc;
}

static int read_last_revision(tci_sqlite *s, tci_doc_action *d, uint64_t *ret_version, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, TCI_SQL_REVISION_LAST, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, d->id);
    rc = tci_sqlite_step(s, stmt, err);
    if (rc == 1) {
        d->last_seq = tci_sqlite_u64(stmt, 0);
        d->is_last_base = tci_str_eq(tci_sqlite_text(stmt, 1), TC_STR("base"));
        *ret_version = tci_sqlite_u64(stmt, 2);
        (void)sqlite3_reset(stmt);
        rc = 0;
    }
    return rc;
}

static int check_content(tci_sqlite *s, tci_doc_action *d, tc_err *err)
{
    const tci_content *c = &d->change->content;
    uint64_t version = 0;
    int rc = read_last_revision(s, d, &version, err);
    if (rc < 0 || !c->is_delta)
        return rc;
    if (d->last_seq == 0)
        return tc_err_set(err, TC_E_CONFLICT, "Document %llu delta has no base",
                          (unsigned long long)d->id);
    if (version != c->version)
        return tc_err_set(err, TC_E_CONFLICT, "Document %llu version transition requires a base",
                          (unsigned long long)d->id);
    return 0;
}

static tci_address address_of(const tci_document *d)
{
    return (tci_address){
        .kind = d->kind,
        .scope = d->scope,
        .owner_id = d->scope == TCI_SCOPE_SESSION ? 0 : d->owner_id,
        .has_key = d->has_key,
        .key = d->key,
    };
}

static bool is_same_address(const tci_document *a, const tci_document *b)
{
    tci_address x = address_of(a), y = address_of(b);
    return x.scope == y.scope && x.owner_id == y.owner_id && x.has_key == y.has_key &&
           tci_str_eq(x.kind, y.kind) && (!x.has_key || tci_str_eq(x.key, y.key));
}

/* A document that comes to live must find its address free: of what is stored, and of what the batch
 * creates before it. */
static int check_address(tci_sqlite *s, const tci_doc_actions *actions, const tci_doc_action *d,
                         tc_err *err)
{
    const tci_document *record = new_record(d);
    bool is_taken = false;
    for (const tci_doc_action *o = actions->items; o < d && !is_taken; o++)
        is_taken =
            new_record(o) != NULL && !o->is_retired && is_same_address(new_record(o), record);
    tci_address address = address_of(record);
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, TCI_SQL_DOCUMENT_LIVE, &stmt, err);
    if (rc == 0)
        rc = tci_sqlite_bind_address(s, stmt, &address, err);
    if (rc == 0)
        rc = tci_sqlite_step(s, stmt, err);
    if (rc < 0)
        return rc;
    if (rc == 1) {
        uintptr_t *place = tci_id_map_get(&s->touched, tci_sqlite_u64(stmt, 0));
        is_taken = is_taken || place == NULL || !actions->items[*place - 1].is_retired;
        (void)sqlite3_reset(stmt);
    }
    if (is_taken)
        return tc_err_set(err, TC_E_CONFLICT, "Document address already has a current incarnation");
    return 0;
}

static int check_one(tci_sqlite *s, const tci_doc_actions *actions, tci_doc_action *d, tc_err *err)
{
    unsigned long long id = d->id;
    bool is_new = new_record(d) != NULL;
    if (d->copy != NULL && tci_id_map_get(&s->touched, d->copy->source_id) != NULL)
        return tc_err_set(err, TC_E_CONFLICT,
                          "Document copy %llu source is changed in the copy batch", id);
    int rc = 0;
    if (!is_new) { /* the id of a new one was found to be new */
        rc = read_existing(s, d, err);
        if (rc == 0 && d->record.id == 0)
            return tc_err_set(err, TC_E_CONFLICT, "Unknown document: %llu", id);
        if (rc == 0 && d->record.retired_at != 0)
            return tc_err_set(err, TC_E_CONFLICT, "Document %llu is retired", id);
        if (rc == 0 && d->change != NULL)
            rc = check_content(s, d, err);
    } else if (!d->is_retired) {
        rc = check_address(s, actions, d, err);
    }
    return rc;
}

int tci_sqlite_check_documents(tci_sqlite *s, tci_doc_actions *actions, tc_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < actions->count; i++)
        rc = check_one(s, actions, &actions->items[i], err);
    return rc;
}

/* ---- records ---- */

/* The record as it is stored: the text it came with, its times put in; or made from the fields. */
static int put_record(tci_sqlite *s, const tci_document *d, uint64_t created_at,
                      uint64_t retired_at, tci_buf *ret, tc_err *err)
{
    if (d->json.len == 0) {
        tci_document full = *d;
        full.created_at = created_at;
        full.retired_at = retired_at;
        tci_document_put(ret, &full);
        return tci_buf_error(ret, err);
    }
    tci_json v;
    tci_arena_clear(&s->scratch);
    int rc = tci_json_parse(d->json, TCI_JSON_DURABLE, &s->scratch, &v, err);
    if (rc < 0)
        return tc_err_wrap(err, "the record of document %llu", (unsigned long long)d->id);
    char created[TCI_NUM_TEXT_MAX], retired[TCI_NUM_TEXT_MAX];
    int ncreated = snprintf(created, sizeof created, "%llu", (unsigned long long)created_at);
    int nretired = snprintf(retired, sizeof retired, "%llu", (unsigned long long)retired_at);
    const tci_json_change changes[] = {
        {TC_STR("createdAt"), tci_str_of(created, (size_t)ncreated)},
        {TC_STR("retiredAt"), tci_str_of(retired, (size_t)nretired)},
    };
    tci_json_edit(ret, &v, changes, retired_at != 0 ? 2 : 1);
    return tci_buf_error(ret, err);
}

int tci_sqlite_add_document(tci_sqlite *s, const tci_document *d, uint64_t created_at,
                            uint64_t retired_at, tc_err *err)
{
    tci_address address = address_of(d);
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_claim(s, d->id, TCI_RECORD_DOCUMENT, err);
    if (rc == 0)
        rc = tci_sqlite_stmt(s, TCI_SQL_DOCUMENT_ADD, &stmt, err);
    if (rc < 0)
        return rc;
    tci_buf text;
    tci_buf_init(&text, TCI_BUF_MAX);
    rc = put_record(s, d, created_at, retired_at, &text, err);
    if (rc == 0)
        rc = tci_sqlite_bind_identity(stmt, 2, &s->kind, address.kind, err);
    if (rc == 0)
        rc = tci_sqlite_bind_identity(stmt, 4, &s->key, address.has_key ? address.key : TC_STR(""),
                                      err);
    if (rc == 0) {
        tci_sqlite_bind_u64(stmt, 1, d->id);
        tci_sqlite_bind_u64(stmt, 3, address.has_key);
        tci_sqlite_bind_name(stmt, 5, tci_scope_name(address.scope));
        tci_sqlite_bind_u64(stmt, 6, address.owner_id);
        tci_sqlite_bind_u64(stmt, 7, created_at);
        tci_sqlite_bind_id(stmt, 8, retired_at);
        tci_sqlite_bind_str(stmt, 9, tci_buf_str(&text));
        rc = tci_sqlite_run(s, stmt, err);
    }
    tci_buf_done(&text);
    return rc;
}

static int retire_document(tci_sqlite *s, const tci_doc_action *d, uint64_t seq, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, TCI_SQL_DOCUMENT_RETIRE, &stmt, err);
    if (rc < 0)
        return rc;
    tci_buf text;
    tci_buf_init(&text, TCI_BUF_MAX);
    rc = put_record(s, &d->record, d->record.created_at, seq, &text, err);
    if (rc == 0) {
        tci_sqlite_bind_u64(stmt, 1, d->id);
        tci_sqlite_bind_u64(stmt, 2, seq);
        tci_sqlite_bind_str(stmt, 3, tci_buf_str(&text));
        rc = tci_sqlite_run(s, stmt, err);
    }
    tci_buf_done(&text);
    return rc;
}

/* ---- revisions ---- */

int tci_sqlite_add_revision(tci_sqlite *s, uint64_t id, uint64_t seq, const tci_content *c,
                            tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, TCI_SQL_REVISION_ADD, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, id);
    tci_sqlite_bind_u64(stmt, 2, seq);
    tci_sqlite_bind_name(stmt, 3, c->is_delta ? "delta" : "base");
    tci_sqlite_bind_u64(stmt, 4, c->version);
    tci_sqlite_bind_str(stmt, 5, c->json);
    return tci_sqlite_run(s, stmt, err);
}

static int drop_revisions(tci_sqlite *s, uint64_t id, uint64_t before, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(
        s, before != 0 ? TCI_SQL_REVISIONS_DROP_BEFORE : TCI_SQL_REVISIONS_DROP, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, id);
    if (before != 0)
        tci_sqlite_bind_u64(stmt, 2, before);
    return tci_sqlite_run(s, stmt, err);
}

/* A new base of a document of which only the current content counts takes the place of the newest row:
 * one page less to write than a row that goes and a row that comes. */
static int replace_base(tci_sqlite *s, const tci_doc_action *d, uint64_t seq, tc_err *err)
{
    const tci_content *c = &d->change->content;
    sqlite3_stmt *stmt;
    int rc = d->is_last_base ? 0 : drop_revisions(s, d->id, d->last_seq, err);
    if (rc == 0)
        rc = tci_sqlite_stmt(s, TCI_SQL_REVISION_SET_BASE, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, d->id);
    tci_sqlite_bind_u64(stmt, 2, seq);
    tci_sqlite_bind_u64(stmt, 4, c->version);
    tci_sqlite_bind_str(stmt, 5, c->json);
    tci_sqlite_bind_u64(stmt, 6, d->last_seq);
    return tci_sqlite_run(s, stmt, err);
}

static int change_content(tci_sqlite *s, const tci_doc_action *d, uint64_t seq, tc_err *err)
{
    bool is_replaced = !d->change->content.is_delta && d->last_seq != 0 &&
                       tci_document_is_current_only(&d->record);
    if (is_replaced && d->is_retired)
        return 0; /* all of it goes */
    return is_replaced ? replace_base(s, d, seq, err)
                       : tci_sqlite_add_revision(s, d->id, seq, &d->change->content, err);
}

/* ---- copies ---- */

static bool is_copy_of(const tci_document *copy, const tci_document *source)
{
    return source->scope == TCI_SCOPE_CONVERSATION && copy->scope == TCI_SCOPE_CONVERSATION &&
           tci_str_eq(copy->kind, source->kind) && copy->has_key == source->has_key &&
           (!copy->has_key || tci_str_eq(copy->key, source->key)) &&
           copy->history == source->history && copy->fork == source->fork;
}

static int copy_content(tci_sqlite *s, const tci_doc_action *d, uint64_t seq, tc_err *err)
{
    const tci_write *w = d->copy;
    unsigned long long source = w->source_id;
    tci_document_state state;
    tci_tree value = TCI_TREE_NONE;
    int rc = tci_sqlite_materialize(s, w->source_id, w->source_at, &s->batch, &state, &value, err);
    if (rc == TC_E_UNSUPPORTED)
        rc = tc_err_recode(err, TC_E_CONFLICT);
    if (rc == 0 && state.record.id == 0)
        rc = tc_err_set(err, TC_E_CONFLICT, "Fork source document %llu cannot be read", source);
    if (rc == 0 && !is_copy_of(&w->u.document, &state.record))
        rc = tc_err_set(err, TC_E_CONFLICT,
                        "Fork source document %llu does not match the copied record", source);
    if (rc < 0) {
        tci_tree_done(&value);
        return tc_err_wrap(err, "Document copy %llu was rejected", (unsigned long long)d->id);
    }
    tci_buf text;
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_json_put(&text, &value.root, TCI_JSON_AS_IS);
    tci_tree_done(&value);
    rc = tci_buf_error(&text, err);
    tci_content base = {.version = state.version, .json = tci_buf_str(&text)};
    if (rc == 0)
        rc = tci_sqlite_add_revision(s, d->id, seq, &base, err);
    tci_buf_done(&text);
    return rc;
}

/* ---- applying ---- */

static int apply_one(tci_sqlite *s, const tci_doc_action *d, uint64_t seq, tc_err *err)
{
    const tci_document *record = new_record(d);
    int rc = 0;
    if (record != NULL)
        rc = tci_sqlite_add_document(s, record, seq, d->is_retired ? seq : 0, err);
    if (rc == 0 && d->create != NULL)
        rc = tci_sqlite_add_revision(s, d->id, seq, &d->create->content, err);
    if (rc == 0 && d->copy != NULL)
        rc = copy_content(s, d, seq, err);
    if (rc == 0 && d->change != NULL)
        rc = change_content(s, d, seq, err);
    if (rc == 0 && d->is_retired && record == NULL)
        rc = retire_document(s, d, seq, err);
    if (rc == 0 && d->is_retired &&
        tci_document_is_current_only(record != NULL ? record : &d->record))
        rc = drop_revisions(s, d->id, 0, err);
    return rc;
}

int tci_sqlite_apply_documents(tci_sqlite *s, const tci_doc_actions *actions, uint64_t seq,
                               tc_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < actions->count; i++)
        rc = apply_one(s, &actions->items[i], seq, err);
    return rc;
}
