/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading everything an SQLite session holds, damaged or not: the pages, each record, the columns
 * beside it, the ids, the revisions of each document. What is sound is counted and, when the session
 * is being repaired, handed on. Thread: the caller's. Invariant: a table that cannot be read at one
 * place is read before and behind it; what is told of as lost was found nowhere. */
#include "store/sqlite/sqlite_int.h"

#include "base/num.h"
#include "store/delta.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    GAP_IDS_MAX = 1000000,  /* ids behind a damaged page that are tried one by one */
    PAGE_DAMAGES_MAX = 100, /* lines of SQLite's own check */
    TELL_MAX = 512          /* bytes of a message */
};

/* ---- telling ---- */

static void tell(tci_sqlite_walk *w, bool is_lost, tc_str where, tc_str what)
{
    tci_damage damage = {.where = where, .what = what, .is_lost = is_lost};
    w->report.ndamaged++;
    w->report.nlost += is_lost;
    if (w->on_damage != NULL)
        w->on_damage(w->user, &damage);
}

static void tell_row(tci_sqlite_walk *w, bool is_lost, const char *table, uint64_t row,
                     const char *what)
{
    char where[TELL_MAX];
    int len = snprintf(where, sizeof where, "table %s, row %llu", table, (unsigned long long)row);
    tell(w, is_lost, tci_str_of(where, (size_t)len), tci_str(what));
}

/* ---- rows of a table, around what cannot be read ---- */

struct table;
typedef int (*row_fn)(tci_sqlite_walk *w, const struct table *t, sqlite3_stmt *stmt, tc_err *err);

/* The first column is the row's number, the second the record or content, then what row_fn looks
 * at. */
typedef struct table {
    const char *name, *columns;
    row_fn on_row;
} table;

/* Is this the end of the walk, or only of what can be read here? */
static bool is_damage(int rc)
{
    return rc == TC_E_PARSE || rc == TC_E_IO;
}

static int one_row(tci_sqlite_walk *w, const table *t, sqlite3_stmt *stmt, tc_err *err)
{
    tci_arena_clear(&w->a);
    return t->on_row(w, t, stmt, err);
}

/* Rows from ?1 on in one direction. *ret_last: the last one that could be read, 0 or the start when
 * there was none. */
static int run_rows(tci_sqlite_walk *w, const table *t, bool is_up, uint64_t after,
                    uint64_t *ret_last, tc_err *err)
{
    char sql[TELL_MAX];
    sqlite3_stmt *stmt = NULL;
    (void)snprintf(sql, sizeof sql, "SELECT rowid,%s FROM @%s WHERE rowid>?1 ORDER BY rowid%s",
                   t->columns, t->name, is_up ? "" : " DESC");
    int rc = tci_sqlite_prepare(w->from, sql, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, after);
    while ((rc = tci_sqlite_step(w->from, stmt, err)) == 1) {
        *ret_last = tci_sqlite_u64(stmt, 0);
        rc = one_row(w, t, stmt, err);
        if (rc < 0)
            break;
    }
    (void)sqlite3_finalize(stmt);
    return rc;
}

/* Between two rows, each number by itself. */
static int probe_rows(tci_sqlite_walk *w, const table *t, uint64_t above, uint64_t below,
                      tc_err *err)
{
    char sql[TELL_MAX];
    sqlite3_stmt *stmt = NULL;
    (void)snprintf(sql, sizeof sql, "SELECT rowid,%s FROM @%s WHERE rowid=?1", t->columns, t->name);
    int rc = tci_sqlite_prepare(w->from, sql, &stmt, err);
    uint64_t last = below - above > GAP_IDS_MAX ? above + GAP_IDS_MAX : below;
    for (uint64_t id = above + 1; rc >= 0 && id < last; id++) {
        tc_err ignored;
        tci_sqlite_bind_u64(stmt, 1, id);
        if (tci_sqlite_step(w->from, stmt, &ignored) != 1)
            continue;
        rc = one_row(w, t, stmt, err);
        (void)sqlite3_reset(stmt);
    }
    (void)sqlite3_finalize(stmt);
    return rc;
}

static int each_row(tci_sqlite_walk *w, const table *t, tc_err *err)
{
    uint64_t up = 0, down = 0;
    int rc = run_rows(w, t, true, 0, &up, err);
    if (!is_damage(rc))
        return rc;
    tell_row(w, true, t->name, up, "what comes after it cannot be read");
    tc_err from_behind;
    rc = run_rows(w, t, false, up, &down, &from_behind);
    if (rc < 0 && !is_damage(rc)) {
        *err = from_behind;
        return rc;
    }
    return down > up + 1 ? probe_rows(w, t, up, down, err) : 0;
}

/* ---- records ---- */

/* The record of a row is not sound. */
static int lost(tci_sqlite_walk *w, const table *t, uint64_t row, const tc_err *why)
{
    if (why->code == TC_E_NO_MEMORY)
        return TC_E_NO_MEMORY;
    tell_row(w, true, t->name, row, why->msg);
    return 0;
}

static bool is_u64(sqlite3_stmt *stmt, int column, uint64_t expected)
{
    return tci_sqlite_u64(stmt, column) == expected;
}

static bool is_text(sqlite3_stmt *stmt, int column, const char *expected)
{
    return tci_str_eq(tci_sqlite_text(stmt, column), tci_str(expected));
}

static bool is_identity(tci_sqlite_walk *w, sqlite3_stmt *stmt, int column, tc_str expected)
{
    tci_buf *b = &w->from->key;
    tci_buf_clear(b);
    tci_json_put_ascii(b, expected);
    return tci_buf_ok(b) && tci_str_eq(tci_sqlite_text(stmt, column), tci_buf_str(b));
}

/* What every record has to go through: its id, the type of its id, the columns. A record with wrong
 * columns is kept: the columns only repeat it. */
static int sound(tci_sqlite_walk *w, const table *t, uint64_t row, tci_record_type type,
                 bool is_same, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(w->from, TCI_SQL_ID_GET, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, row);
    rc = tci_sqlite_step(w->from, stmt, err);
    if (rc == 0 || is_damage(rc))
        tell_row(w, false, t->name, row, "its id is not in record_ids");
    else if (rc < 0)
        return rc;
    else if (!is_text(stmt, 0, tci_record_type_name(type)))
        tell_row(w, false, t->name, row, "its id is of another type in record_ids");
    (void)sqlite3_reset(stmt);
    if (!is_same)
        tell_row(w, false, t->name, row, "its columns differ from its record");
    w->report.nrecords++;
    w->max_id = row > w->max_id ? row : w->max_id;
    return 0;
}

static int wrong_id(tci_sqlite_walk *w, const table *t, uint64_t row)
{
    tell_row(w, true, t->name, row, "its record has another id");
    return 0;
}

static int on_conversation(tci_sqlite_walk *w, const table *t, sqlite3_stmt *stmt, tc_err *err)
{
    tc_err why;
    tci_conversation c;
    uint64_t row = tci_sqlite_u64(stmt, 0);
    if (tci_sqlite_conversation_of(w->from, tci_sqlite_text(stmt, 1), &w->a, &c, &why) < 0)
        return lost(w, t, row, &why);
    if (c.id != row)
        return wrong_id(w, t, row);
    int rc =
        sound(w, t, row, TCI_RECORD_CONVERSATION,
              is_u64(stmt, 2, c.owner_conversation_id) && is_u64(stmt, 3, c.owner_task_id), err);
    return rc < 0 || w->to == NULL ? rc : tci_sqlite_add_conversation(w->to, &c, err);
}

static int on_entry(tci_sqlite_walk *w, const table *t, sqlite3_stmt *stmt, tc_err *err)
{
    tc_err why;
    tci_entry e;
    uint64_t row = tci_sqlite_u64(stmt, 0), seq = tci_sqlite_u64(stmt, 4);
    if (tci_sqlite_entry_of(w->from, tci_sqlite_text(stmt, 1), &w->a, &e, &why) < 0)
        return lost(w, t, row, &why);
    if (e.id != row)
        return wrong_id(w, t, row);
    int rc = sound(w, t, row, TCI_RECORD_ENTRY,
                   is_u64(stmt, 2, e.conversation_id) && is_u64(stmt, 3, e.head) && seq != 0, err);
    w->max_seq = seq > w->max_seq ? seq : w->max_seq;
    return rc < 0 || w->to == NULL ? rc : tci_sqlite_add_entry(w->to, &e, seq, err);
}

static int on_task(tci_sqlite_walk *w, const table *t, sqlite3_stmt *stmt, tc_err *err)
{
    tc_err why;
    tci_task k;
    uint64_t row = tci_sqlite_u64(stmt, 0);
    if (tci_sqlite_task_of(w->from, tci_sqlite_text(stmt, 1), &w->a, &k, &why) < 0)
        return lost(w, t, row, &why);
    if (k.id != row)
        return wrong_id(w, t, row);
    bool is_same = is_u64(stmt, 2, k.conversation_id) && is_identity(w, stmt, 3, k.kind) &&
                   is_text(stmt, 4, tci_task_status_name(k.status)) &&
                   is_u64(stmt, 5, k.is_abort_requested) && is_u64(stmt, 6, k.is_background);
    int rc = sound(w, t, row, TCI_RECORD_TASK, is_same, err);
    return rc < 0 || w->to == NULL ? rc : tci_sqlite_add_task(w->to, &k, err);
}

static int on_submission(tci_sqlite_walk *w, const table *t, sqlite3_stmt *stmt, tc_err *err)
{
    tc_err why;
    tci_submission m;
    uint64_t row = tci_sqlite_u64(stmt, 0);
    if (tci_sqlite_submission_of(w->from, tci_sqlite_text(stmt, 1), &w->a, &m, &why) < 0)
        return lost(w, t, row, &why);
    if (m.id != row)
        return wrong_id(w, t, row);
    bool is_request_same = m.has_request_id ? is_identity(w, stmt, 3, m.request_id)
                                            : sqlite3_column_type(stmt, 3) == SQLITE_NULL;
    int rc = sound(w, t, row, TCI_RECORD_SUBMISSION,
                   is_u64(stmt, 2, m.conversation_id) && is_request_same &&
                       is_text(stmt, 4, tci_submission_status_name(m.status)),
                   err);
    return rc < 0 || w->to == NULL ? rc : tci_sqlite_add_submission(w->to, &m, err);
}

/* ---- documents ---- */

/* The revisions of one document, one after another. */
typedef struct replay {
    tci_sqlite_walk *w;
    const tci_document *record;
    tci_tree value;
    bool has_base, is_broken; /* broken: deltas mean nothing until the next base */
    uint64_t version;
    size_t nkept, nuseless; /* useless: since it broke */
} replay;

/* The revisions that built on a damaged one, in one line. */
static void tell_useless(replay *r)
{
    char what[TELL_MAX];
    if (r->nuseless == 0)
        return;
    (void)snprintf(what, sizeof what, "%zu more revisions build on the damaged one", r->nuseless);
    tell_row(r->w, true, "document_revisions", r->record->id, what);
    r->nuseless = 0;
}

static int revision_of(replay *r, const tci_content *c, tc_err *why)
{
    if (!c->is_delta) {
        tci_tree_done(&r->value);
        r->value = TCI_TREE_NONE;
        r->has_base = false;
        int rc = tci_tree_parse(c->json, TCI_JSON_DURABLE, &r->value, why);
        if (rc < 0)
            return rc;
        if (r->value.root.kind != TCI_JSON_OBJECT)
            return tc_err_set(why, TC_E_PARSE, "a base that is no object");
        r->has_base = true;
        r->version = c->version;
        return 0;
    }
    if (!r->has_base)
        return tc_err_set(why, TC_E_PARSE, "a delta without a base");
    if (c->version != r->version)
        return tc_err_set(why, TC_E_PARSE, "a delta of another version than its base");
    return tci_delta_apply(&r->value, c->json, &r->w->from->scratch, why);
}

static int on_revision(replay *r, sqlite3_stmt *stmt, tc_err *err)
{
    char what[TELL_MAX];
    tc_err why;
    uint64_t seq = tci_sqlite_u64(stmt, 0);
    tci_content c = {
        .is_delta = !is_text(stmt, 1, "base"),
        .version = tci_sqlite_u64(stmt, 2),
        .json = tci_sqlite_text(stmt, 3),
    };
    tci_sqlite_walk *w = r->w;
    w->max_seq = seq > w->max_seq ? seq : w->max_seq;
    if (r->is_broken && c.is_delta) {
        r->nuseless++;
        return 0;
    }
    tell_useless(r);
    if (revision_of(r, &c, &why) < 0) {
        if (why.code == TC_E_NO_MEMORY)
            return TC_E_NO_MEMORY;
        (void)snprintf(what, sizeof what, "its revision of commit %llu: %s",
                       (unsigned long long)seq, why.msg);
        tell_row(w, true, "document_revisions", r->record->id, what);
        r->is_broken = true;
        return 0;
    }
    r->is_broken = false;
    r->nkept++;
    return w->to == NULL ? 0 : tci_sqlite_add_revision(w->to, r->record->id, seq, &c, err);
}

static int replay_document(tci_sqlite_walk *w, const tci_document *d, size_t *ret_kept, tc_err *err)
{
    replay r = {.w = w, .record = d, .value = TCI_TREE_NONE};
    sqlite3_stmt *stmt = NULL;
    int rc = tci_sqlite_prepare(w->from,
                                "SELECT seq,kind,version,content FROM @document_revisions WHERE"
                                " document_id=?1 ORDER BY seq",
                                &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, d->id);
    while ((rc = tci_sqlite_step(w->from, stmt, err)) == 1) {
        rc = on_revision(&r, stmt, err);
        if (rc < 0)
            break;
    }
    (void)sqlite3_finalize(stmt);
    tci_tree_done(&r.value);
    tell_useless(&r);
    if (is_damage(rc)) {
        tell_row(w, true, "document_revisions", d->id, "its revisions cannot be read");
        rc = 0;
    }
    *ret_kept = r.nkept;
    return rc;
}

static bool is_address_same(tci_sqlite_walk *w, sqlite3_stmt *stmt, const tci_document *d)
{
    return is_identity(w, stmt, 2, d->kind) && is_u64(stmt, 3, d->has_key) &&
           is_identity(w, stmt, 4, d->has_key ? d->key : TC_STR("")) &&
           is_text(stmt, 5, tci_scope_name(d->scope)) &&
           is_u64(stmt, 6, d->scope == TCI_SCOPE_SESSION ? 0 : d->owner_id);
}

static int on_document(tci_sqlite_walk *w, const table *t, sqlite3_stmt *stmt, tc_err *err)
{
    tc_err why;
    tci_document d;
    uint64_t row = tci_sqlite_u64(stmt, 0);
    if (tci_sqlite_document_of(w->from, tci_sqlite_text(stmt, 1), &w->a, &d, &why) < 0)
        return lost(w, t, row, &why);
    if (d.id != row || d.created_at == 0)
        return wrong_id(w, t, row);
    bool is_same = is_address_same(w, stmt, &d) && is_u64(stmt, 7, d.created_at) &&
                   is_u64(stmt, 8, d.retired_at);
    uint64_t newest = d.retired_at != 0 ? d.retired_at : d.created_at;
    w->max_seq = newest > w->max_seq ? newest : w->max_seq;
    size_t nkept = 0;
    int rc = replay_document(w, &d, &nkept, err);
    if (rc < 0)
        return rc;
    bool has_content =
        d.retired_at == 0 || (!tci_document_is_current_only(&d) && d.retired_at > d.created_at);
    if (nkept == 0 && has_content) {
        w->max_id = row > w->max_id ? row : w->max_id;
        tell_row(w, true, t->name, row, "there is no content to it");
        return 0;
    }
    rc = sound(w, t, row, TCI_RECORD_DOCUMENT, is_same, err);
    return rc < 0 || w->to == NULL
               ? rc
               : tci_sqlite_add_document(w->to, &d, d.created_at, d.retired_at, err);
}

static const table tables[] = {
    {"conversations", "record,owner_conversation_id,owner_task_id", on_conversation},
    {"entries", "record,conversation_id,head,commit_seq", on_entry},
    {"tasks", "record,conversation_id,kind,status,abort_requested,background", on_task},
    {"submissions", "record,conversation_id,request_id,status", on_submission},
    {"documents", "record,kind,family,key_value,scope_kind,owner_id,created_at,retired_at",
     on_document},
};

/* ---- ids, metadata, pages ---- */

/* An id whose record is in none of the tables. */
static int on_id(tci_sqlite_walk *w, const table *t, sqlite3_stmt *stmt, tc_err *err)
{
    TCI_UNUSED(err);
    uint64_t id = tci_sqlite_u64(stmt, 0);
    w->max_id = id > w->max_id ? id : w->max_id;
    if (sqlite3_column_int(stmt, 1) == 0)
        tell_row(w, true, t->name, id, "its record is missing");
    return 0;
}

static const table ids = {
    "record_ids",
    "CASE record_type"
    " WHEN 'conversation' THEN EXISTS(SELECT 1 FROM @conversations t WHERE t.id=@record_ids.id)"
    " WHEN 'entry' THEN EXISTS(SELECT 1 FROM @entries t WHERE t.id=@record_ids.id)"
    " WHEN 'task' THEN EXISTS(SELECT 1 FROM @tasks t WHERE t.id=@record_ids.id)"
    " WHEN 'submission' THEN EXISTS(SELECT 1 FROM @submissions t WHERE t.id=@record_ids.id)"
    " ELSE EXISTS(SELECT 1 FROM @documents t WHERE t.id=@record_ids.id) END",
    on_id,
};

/* Revisions that no document claims. */
static int check_orphans(tci_sqlite_walk *w, tc_err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = tci_sqlite_prepare(w->from,
                                "SELECT DISTINCT document_id FROM @document_revisions r WHERE NOT"
                                " EXISTS(SELECT 1 FROM @documents d WHERE d.id=r.document_id)",
                                &stmt, err);
    while (rc >= 0 && (rc = tci_sqlite_step(w->from, stmt, err)) == 1)
        tell_row(w, true, "document_revisions", tci_sqlite_u64(stmt, 0),
                 "revisions of a document that is not there");
    (void)sqlite3_finalize(stmt);
    return is_damage(rc) ? 0 : rc; /* told of by SQLite's own check */
}

static int check_metadata(tci_sqlite_walk *w, tc_err *err)
{
    uint64_t next_id = 0, next_seq = 0;
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(w->from, TCI_SQL_META_GET, &stmt, err);
    if (rc == 0)
        rc = tci_sqlite_step(w->from, stmt, err);
    if (rc == 1) {
        tc_err ignored;
        (void)!tci_num_u64(tci_sqlite_text(stmt, 0), &next_id, &ignored);
        next_seq = tci_sqlite_u64(stmt, 1);
        (void)sqlite3_reset(stmt);
    }
    if (rc < 0 && !is_damage(rc))
        return rc;
    if (next_id <= w->max_id)
        tell_row(w, false, "durable_metadata", 1, "its next id is taken already");
    if (next_seq <= w->max_seq)
        tell_row(w, false, "durable_metadata", 1, "its next sequence number is taken already");
    w->max_id = next_id > w->max_id + 1 ? next_id - 1 : w->max_id;
    w->max_seq = next_seq > w->max_seq + 1 ? next_seq - 1 : w->max_seq;
    w->report.ncommits = w->max_seq;
    return 0;
}

static int check_pages(tci_sqlite_walk *w, tc_err *err)
{
    char sql[TELL_MAX];
    sqlite3_stmt *stmt = NULL;
    (void)snprintf(sql, sizeof sql, "PRAGMA integrity_check(%d)", PAGE_DAMAGES_MAX);
    int rc = tci_sqlite_prepare(w->from, sql, &stmt, err);
    while (rc >= 0 && (rc = tci_sqlite_step(w->from, stmt, err)) == 1)
        if (!is_text(stmt, 0, "ok"))
            tell(w, false, TC_STR("the pages of the file"), tci_sqlite_text(stmt, 0));
    (void)sqlite3_finalize(stmt);
    if (is_damage(rc)) {
        tell(w, false, TC_STR("the pages of the file"), tci_str(err->msg));
        rc = 0;
    }
    return rc;
}

/* ---- the whole ---- */

int tci_sqlite_walk_all(tci_sqlite_walk *w, tc_err *err)
{
    tci_arena_init(&w->a, TCI_SQLITE_ARENA_MAX);
    int rc = check_pages(w, err);
    for (size_t i = 0; rc == 0 && i < TCI_ARRAY_LEN(tables); i++)
        rc = each_row(w, &tables[i], err);
    if (rc == 0)
        rc = each_row(w, &ids, err);
    if (rc == 0)
        rc = check_orphans(w, err);
    if (rc == 0)
        rc = check_metadata(w, err);
    tci_arena_done(&w->a);
    return rc;
}

int tci_sqlite_open_for_walk(tc_str path, tci_sqlite **ret, tc_err *err)
{
    const tci_store_options options = {.is_read_only = true};
    tci_sqlite *s = tci_sqlite_new(&options);
    if (s == NULL)
        return tci_err_no_memory(err);
    int rc = tci_sqlite_connect(s, path, &options, err);
    if (rc == 0) /* look closer at what is read */
        rc = tci_sqlite_exec(s, "PRAGMA cell_size_check=ON;SELECT 1 FROM sqlite_schema", err);
    if (rc == 0)
        rc = tci_sqlite_check_tables(s, err);
    if (rc < 0) {
        tci_sqlite_release(s);
        return rc;
    }
    *ret = s;
    return 0;
}

int tci_sqlite_check(tc_str path, tci_damage_fn on_damage, void *user, tci_check_report *ret,
                     tc_err *err)
{
    tci_sqlite_walk w = {.on_damage = on_damage, .user = user};
    int rc = tci_sqlite_open_for_walk(path, &w.from, err);
    if (is_damage(rc)) {
        tell(&w, true, path, tci_str(err->msg));
        w.report.is_unreadable = true;
        *ret = w.report;
        return 0;
    }
    if (rc < 0)
        return rc;
    rc = tci_sqlite_walk_all(&w, err);
    tci_sqlite_release(w.from);
    if (rc == 0)
        *ret = w.report;
    return rc;
}
