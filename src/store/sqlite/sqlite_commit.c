/* SPDX-License-Identifier: Apache-2.0
 *
 * One batch as one transaction: who may have which id, the rows of conversations, entries, tasks and
 * submissions, the metadata. Documents are sqlite_commit_docs.c. Thread: the session's line.
 * Invariants: a batch that is refused leaves no trace; a column and its index are only written when
 * they change, since every page touched goes to the log. */
#include "store/sqlite/sqlite_int.h"

#include "store/delta.h"
#include "store/jsonl/jsonl_scan.h"

#include <stdio.h>

static tci_sqlite *of(tci_store *store)
{
    return TCI_CONTAINER(store, tci_sqlite, store);
}

/* ---- ids ---- */

/* How a batch finds what it writes: the row as it is stored against the record as it is to be. */
typedef enum row_state {
    ROW_NEW,         /* not stored yet */
    ROW_DIFFERS,     /* stored; any column may differ */
    ROW_STATUS,      /* only the status and the record differ */
    ROW_SAME_COLUMNS /* only the record differs */
} row_state;

typedef struct batch {
    tci_sqlite *s;
    const tci_write *writes;
    size_t nwrites;
    row_state *rows; /* per write */
    uint64_t seq, next_id;
    bool is_begun; /* something of it may be written */
} batch;

/* 0 for writes that name no new or replaced record. */
static uint64_t written_id(const tci_write *w, tci_record_type *ret_type)
{
    switch (w->type) {
    case TCI_WRITE_CONVERSATION:
        *ret_type = TCI_RECORD_CONVERSATION;
        return w->u.conversation.id;
    case TCI_WRITE_ENTRY:
        *ret_type = TCI_RECORD_ENTRY;
        return w->u.entry.id;
    case TCI_WRITE_TASK:
        *ret_type = TCI_RECORD_TASK;
        return w->u.task.id;
    case TCI_WRITE_SUBMISSION:
        *ret_type = TCI_RECORD_SUBMISSION;
        return w->u.submission.id;
    case TCI_WRITE_DOC_CREATE:
    case TCI_WRITE_DOC_COPY:
        *ret_type = TCI_RECORD_DOCUMENT;
        return w->u.document.id;
    case TCI_WRITE_DOC_CHANGE:
    case TCI_WRITE_DOC_RETIRE:
        return 0;
    }
    return 0;
}

/* ---- texts: what is no JSON object (or no operations) must not get in ---- */

static tc_str text_of(const tci_write *w, bool *ret_may_be_empty)
{
    *ret_may_be_empty = false;
    switch (w->type) {
    case TCI_WRITE_CONVERSATION:
        *ret_may_be_empty = true; /* made from the fields */
        return w->u.conversation.json;
    case TCI_WRITE_ENTRY:
        return w->u.entry.json;
    case TCI_WRITE_TASK:
        return w->u.task.json;
    case TCI_WRITE_SUBMISSION:
        return w->u.submission.json;
    case TCI_WRITE_DOC_CREATE:
    case TCI_WRITE_DOC_COPY:
        *ret_may_be_empty = true;
        return w->u.document.json;
    case TCI_WRITE_DOC_CHANGE:
    case TCI_WRITE_DOC_RETIRE:
        break;
    }
    *ret_may_be_empty = true;
    return (tc_str){NULL, 0};
}

static int check_content_text(tci_sqlite *s, const tci_write *w, tc_err *err)
{
    const tci_content *c = &w->content;
    if (c->version == 0 || c->version > TCI_ID_MAX)
        return tc_err_set(err, TC_E_INVALID, "document %llu: no version",
                          (unsigned long long)w->u.document.id);
    if (!tci_json_is_line(c->json) || (!c->is_delta && !tci_raw_is_object(c->json)))
        return tc_err_set(err, TC_E_INVALID, "document %llu: its content is no JSON object",
                          (unsigned long long)w->u.document.id);
    int rc = c->is_delta ? tci_delta_check(c->json, &s->scratch, err) : 0;
    return rc == TC_E_PARSE ? tc_err_recode(err, TC_E_INVALID) : rc;
}

static int check_write(tci_sqlite *s, const tci_write *w, tc_err *err)
{
    tci_record_type type;
    bool may_be_empty;
    tc_str text = text_of(w, &may_be_empty);
    bool is_reference = w->type == TCI_WRITE_DOC_CHANGE || w->type == TCI_WRITE_DOC_RETIRE;
    uint64_t id = is_reference ? w->u.document.id : written_id(w, &type);
    if (id == 0 || id > TCI_ID_MAX)
        return tc_err_set(err, TC_E_INVALID, "%llu is no id", (unsigned long long)id);
    bool is_sound =
        text.len == 0 ? may_be_empty : tci_raw_is_object(text) && tci_json_is_line(text);
    if (!is_sound)
        return tc_err_set(err, TC_E_INVALID, "record %llu is no JSON object",
                          (unsigned long long)id);
    return w->type == TCI_WRITE_DOC_CREATE || w->type == TCI_WRITE_DOC_CHANGE
               ? check_content_text(s, w, err)
               : 0;
}

/* ---- rows against what is stored ---- */

static void bind_task(sqlite3_stmt *stmt, const tci_task *t)
{
    tci_sqlite_bind_u64(stmt, 1, t->id);
    tci_sqlite_bind_u64(stmt, 2, t->conversation_id);
    tci_sqlite_bind_name(stmt, 4, tci_task_status_name(t->status));
    tci_sqlite_bind_u64(stmt, 5, t->is_abort_requested);
    tci_sqlite_bind_u64(stmt, 6, t->is_background);
}

static int bind_submission(tci_sqlite *s, sqlite3_stmt *stmt, const tci_submission *m, tc_err *err)
{
    tci_sqlite_bind_u64(stmt, 1, m->id);
    tci_sqlite_bind_u64(stmt, 2, m->conversation_id);
    tci_sqlite_bind_name(stmt, 4, tci_submission_status_name(m->status));
    if (m->has_request_id)
        return tci_sqlite_bind_identity(stmt, 3, &s->key, m->request_id, err);
    (void)sqlite3_bind_null(stmt, 3);
    return 0;
}

/* Is there such a task or submission already, and what of it changes? */
static int look_at_row(tci_sqlite *s, const tci_write *w, row_state *ret, tc_err *err)
{
    bool is_task = w->type == TCI_WRITE_TASK;
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, is_task ? TCI_SQL_TASK_LOOK : TCI_SQL_SUBMISSION_LOOK, &stmt, err);
    if (rc < 0)
        return rc;
    if (is_task) {
        bind_task(stmt, &w->u.task);
        rc = tci_sqlite_bind_identity(stmt, 3, &s->kind, w->u.task.kind, err);
    } else {
        rc = bind_submission(s, stmt, &w->u.submission, err);
    }
    if (rc == 0)
        rc = tci_sqlite_step(s, stmt, err);
    if (rc < 0)
        return rc;
    *ret = ROW_NEW;
    if (rc == 1) {
        bool same_rest = sqlite3_column_int(stmt, 0) != 0;
        bool same_status = sqlite3_column_int(stmt, 1) != 0;
        *ret = !same_rest ? ROW_DIFFERS : same_status ? ROW_SAME_COLUMNS : ROW_STATUS;
        (void)sqlite3_reset(stmt);
    }
    return 0;
}

/* The type that id is stored under, or NULL, into *ret (static storage). */
static int stored_type(tci_sqlite *s, uint64_t id, const char **ret, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, TCI_SQL_ID_GET, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, id);
    rc = tci_sqlite_step(s, stmt, err);
    if (rc <= 0) {
        *ret = NULL;
        return rc;
    }
    tc_str name = tci_sqlite_text(stmt, 0);
    *ret = "a record of unknown type";
    for (int i = 0; i < TCI_RECORD_TYPES; i++)
        if (tci_str_eq(name, tci_str(tci_record_type_name((tci_record_type)i))))
            *ret = tci_record_type_name((tci_record_type)i);
    (void)sqlite3_reset(stmt);
    return 0;
}

static bool may_repeat(tci_record_type type)
{
    return type == TCI_RECORD_TASK || type == TCI_RECORD_SUBMISSION;
}

/* May write number i have its id? */
static int check_id(batch *b, size_t i, uint64_t id, tci_record_type type, tc_err *err)
{
    uintptr_t *seen = tci_id_map_put(&b->s->seen, id);
    if (seen == NULL)
        return tci_err_no_memory(err);
    b->rows[i] = ROW_NEW;
    if (*seen != 0) { /* the batch wrote it already */
        tci_record_type earlier = (tci_record_type)(*seen - 1);
        if (!may_repeat(type))
            return tc_err_set(err, TC_E_CONFLICT, "ID %llu is written more than once",
                              (unsigned long long)id);
        if (earlier != type)
            return tc_err_set(err, TC_E_CONFLICT, "ID %llu is written as two record types",
                              (unsigned long long)id);
        b->rows[i] = ROW_DIFFERS;
        return 0;
    }
    *seen = (uintptr_t)type + 1;
    if (may_repeat(type)) {
        int rc = look_at_row(b->s, &b->writes[i], &b->rows[i], err);
        if (rc < 0 || b->rows[i] != ROW_NEW)
            return rc; /* a row of that type: the id is its own */
    }
    const char *stored;
    int rc = stored_type(b->s, id, &stored, err);
    if (rc < 0)
        return rc;
    if (stored != NULL && !(may_repeat(type) && strcmp(stored, tci_record_type_name(type)) == 0))
        return tc_err_set(err, TC_E_CONFLICT, "ID %llu already belongs to %s",
                          (unsigned long long)id, stored);
    return 0;
}

static int check_ids(batch *b, tc_err *err)
{
    tci_id_map_clear(&b->s->seen);
    b->rows = tci_arena_items(&b->s->batch, row_state, b->nwrites + 1);
    if (b->rows == NULL)
        return tci_arena_error(&b->s->batch, err);
    for (size_t i = 0; i < b->nwrites; i++) {
        tci_record_type type = TCI_RECORD_ENTRY;
        uint64_t id = written_id(&b->writes[i], &type);
        if (id == 0)
            continue;
        int rc = check_id(b, i, id, type, err);
        if (rc < 0)
            return rc;
        b->next_id = id + 1 > b->next_id ? id + 1 : b->next_id;
    }
    return 0;
}

int tci_sqlite_claim(tci_sqlite *s, uint64_t id, tci_record_type type, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, TCI_SQL_ID_ADD, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, id);
    tci_sqlite_bind_name(stmt, 2, tci_record_type_name(type));
    return tci_sqlite_run(s, stmt, err);
}

/* ---- rows ---- */

int tci_sqlite_add_conversation(tci_sqlite *s, const tci_conversation *c, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_claim(s, c->id, TCI_RECORD_CONVERSATION, err);
    if (rc == 0)
        rc = tci_sqlite_stmt(s, TCI_SQL_CONVERSATION_ADD, &stmt, err);
    if (rc < 0)
        return rc;
    tci_buf text;
    tci_buf_init(&text, TCI_BUF_MAX);
    if (c->json.len != 0)
        tci_buf_append_str(&text, c->json);
    else
        tci_conversation_put(&text, c);
    rc = tci_buf_error(&text, err);
    if (rc == 0) {
        tci_sqlite_bind_u64(stmt, 1, c->id);
        tci_sqlite_bind_id(stmt, 2, c->owner_conversation_id);
        tci_sqlite_bind_id(stmt, 3, c->owner_task_id);
        tci_sqlite_bind_str(stmt, 4, tci_buf_str(&text));
        rc = tci_sqlite_run(s, stmt, err);
    }
    tci_buf_done(&text);
    return rc;
}

int tci_sqlite_add_entry(tci_sqlite *s, const tci_entry *e, uint64_t seq, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_claim(s, e->id, TCI_RECORD_ENTRY, err);
    if (rc == 0)
        rc = tci_sqlite_stmt(s, TCI_SQL_ENTRY_ADD, &stmt, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, e->id);
    tci_sqlite_bind_u64(stmt, 2, e->conversation_id);
    tci_sqlite_bind_id(stmt, 3, e->head);
    tci_sqlite_bind_u64(stmt, 4, seq);
    tci_sqlite_bind_str(stmt, 5, e->json);
    return tci_sqlite_run(s, stmt, err);
}

static int put_task(tci_sqlite *s, const tci_task *t, row_state row, tc_err *err)
{
    static const tci_sql which[] = {
        [ROW_NEW] = TCI_SQL_TASK_ADD,
        [ROW_DIFFERS] = TCI_SQL_TASK_SET,
        [ROW_STATUS] = TCI_SQL_TASK_SET_STATUS,
        [ROW_SAME_COLUMNS] = TCI_SQL_TASK_SET_RECORD,
    };
    sqlite3_stmt *stmt;
    int rc = row == ROW_NEW ? tci_sqlite_claim(s, t->id, TCI_RECORD_TASK, err) : 0;
    if (rc == 0)
        rc = tci_sqlite_stmt(s, which[row], &stmt, err);
    if (rc < 0)
        return rc;
    bind_task(stmt, t);
    tci_sqlite_bind_str(stmt, 7, t->json);
    if (row == ROW_NEW || row == ROW_DIFFERS)
        rc = tci_sqlite_bind_identity(stmt, 3, &s->kind, t->kind, err);
    return rc < 0 ? rc : tci_sqlite_run(s, stmt, err);
}

static int put_submission(tci_sqlite *s, const tci_submission *m, row_state row, tc_err *err)
{
    static const tci_sql which[] = {
        [ROW_NEW] = TCI_SQL_SUBMISSION_ADD,
        [ROW_DIFFERS] = TCI_SQL_SUBMISSION_SET,
        [ROW_STATUS] = TCI_SQL_SUBMISSION_SET_STATUS,
        [ROW_SAME_COLUMNS] = TCI_SQL_SUBMISSION_SET_RECORD,
    };
    sqlite3_stmt *stmt;
    int rc = row == ROW_NEW ? tci_sqlite_claim(s, m->id, TCI_RECORD_SUBMISSION, err) : 0;
    if (rc == 0)
        rc = tci_sqlite_stmt(s, which[row], &stmt, err);
    if (rc == 0)
        rc = bind_submission(s, stmt, m, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_str(stmt, 5, m->json);
    return tci_sqlite_run(s, stmt, err);
}

int tci_sqlite_add_task(tci_sqlite *s, const tci_task *t, tc_err *err)
{
    return put_task(s, t, ROW_NEW, err);
}

int tci_sqlite_add_submission(tci_sqlite *s, const tci_submission *m, tc_err *err)
{
    return put_submission(s, m, ROW_NEW, err);
}

static int apply_row(batch *b, size_t i, tc_err *err)
{
    const tci_write *w = &b->writes[i];
    switch (w->type) {
    case TCI_WRITE_CONVERSATION:
        return tci_sqlite_add_conversation(b->s, &w->u.conversation, err);
    case TCI_WRITE_ENTRY:
        return tci_sqlite_add_entry(b->s, &w->u.entry, b->seq, err);
    case TCI_WRITE_TASK:
        return put_task(b->s, &w->u.task, b->rows[i], err);
    case TCI_WRITE_SUBMISSION:
        return put_submission(b->s, &w->u.submission, b->rows[i], err);
    case TCI_WRITE_DOC_CREATE:
    case TCI_WRITE_DOC_COPY:
    case TCI_WRITE_DOC_CHANGE:
    case TCI_WRITE_DOC_RETIRE:
        return 0;
    }
    return 0;
}

/* ---- metadata ---- */

static int read_metadata(batch *b, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(b->s, TCI_SQL_META_GET, &stmt, err);
    if (rc == 0)
        rc = tci_sqlite_step(b->s, stmt, err);
    if (rc == 0)
        return tc_err_set(err, TC_E_PARSE, "the metadata of the session is missing");
    if (rc < 0)
        return rc;
    tc_err ignored;
    uint64_t seq = tci_sqlite_u64(stmt, 1), stored = 0;
    rc = tci_num_u64(tci_sqlite_text(stmt, 0), &stored, &ignored);
    (void)sqlite3_reset(stmt);
    if (rc < 0 || seq == 0 || seq > TCI_ID_MAX)
        return tc_err_set(err, TC_E_PARSE, "the metadata of the session is damaged");
    b->seq = seq;
    b->next_id = stored > b->next_id ? stored : b->next_id;
    return 0;
}

int tci_sqlite_set_metadata(tci_sqlite *s, uint64_t next_id, uint64_t next_seq, tc_err *err)
{
    sqlite3_stmt *stmt;
    char text[TCI_NUM_TEXT_MAX];
    int rc = tci_sqlite_stmt(s, TCI_SQL_META_SET, &stmt, err);
    if (rc < 0)
        return rc;
    int len = snprintf(text, sizeof text, "%llu", (unsigned long long)next_id);
    tci_sqlite_bind_str(stmt, 1, tci_str_of(text, (size_t)len));
    tci_sqlite_bind_u64(stmt, 2, next_seq);
    return tci_sqlite_run(s, stmt, err);
}

/* ---- the whole ---- */

static int run_batch(batch *b, tci_doc_actions *documents, tc_err *err)
{
    b->seq = b->s->next_seq;
    int rc = b->s->is_pending ? 0 : read_metadata(b, err);
    if (rc == 0)
        rc = check_ids(b, err);
    if (rc == 0)
        rc = tci_sqlite_check_documents(b->s, documents, err);
    b->is_begun = rc == 0;
    for (size_t i = 0; rc == 0 && i < b->nwrites; i++)
        rc = apply_row(b, i, err);
    return rc < 0 ? rc : tci_sqlite_apply_documents(b->s, documents, b->seq, err);
}

static bool is_refusal(int rc)
{
    return rc == TC_E_CONFLICT || rc == TC_E_INVALID || rc == TC_E_TOO_BIG;
}

/* The transaction has failed with rc: end it. Whatever was not a refusal of the batch makes the session
 * unusable: what is on the disk is for the next opening to see. */
static int give_up(tci_sqlite *s, bool is_begun, int rc, tc_err *err)
{
    bool had_pending = s->is_pending;
    if (had_pending && !is_begun && is_refusal(rc))
        return rc; /* nothing of it is in the transaction, which goes on */
    s->is_pending = false;
    memset(s->known, 0, sizeof s->known); /* one of them may not come to be */
    if (!is_refusal(rc) || had_pending)
        s->is_failed = true;
    if (sqlite3_get_autocommit(s->db) != 0)
        return rc; /* SQLite has rolled back by itself */
    tc_err second;
    int rolled_back = tci_sqlite_do(s, TCI_SQL_ROLLBACK, &second);
    if (rolled_back < 0) {
        s->is_failed = true;
        return tc_err_wrap(err, "rolling back failed too (%s)", second.msg),
               tc_err_recode(err, (tc_code)rolled_back);
    }
    return rc;
}

/* The transaction that is open becomes a commit. */
static int end_transaction(tci_sqlite *s, bool is_synced, tc_err *err)
{
    int rc = tci_sqlite_set_metadata(s, s->next_id, s->next_seq, err);
    if (rc < 0)
        return rc;
    tci_sqlite_vfs_sync_commits(s->vfs, is_synced || !s->syncs_commits);
    rc = tci_sqlite_do(s, TCI_SQL_COMMIT, err);
    tci_sqlite_vfs_sync_commits(s->vfs, true);
    if (rc == 0)
        s->is_pending = false;
    return rc < 0 && is_refusal(rc) ? tc_err_recode(err, TC_E_IO) : rc; /* too late to be one */
}

int tci_sqlite_flush(tci_sqlite *s, tc_err *err)
{
    if (!s->is_pending)
        return 0;
    int rc = end_transaction(s, true, err);
    return rc < 0 ? give_up(s, true, rc, err) : 0;
}

/* May it share a transaction with others? Only if nothing can speak against it once it is begun. */
static bool may_join(const tci_write *writes, size_t nwrites)
{
    enum { JOINED_MAX = 1024 * 1024 };
    size_t bytes = 0;
    for (size_t i = 0; i < nwrites; i++) {
        bool ignored;
        bytes += text_of(&writes[i], &ignored).len + writes[i].content.json.len;
        if (writes[i].type == TCI_WRITE_DOC_COPY || bytes > JOINED_MAX)
            return false;
    }
    return true;
}

int tci_sqlite_commit(tci_store *store, const tci_write *writes, size_t nwrites, tci_commit_how how,
                      uint64_t *ret_seq, tc_err *err)
{
    tci_sqlite *s = of(store);
    int rc = 0;
    if (s->is_read_only)
        return tc_err_set(err, TC_E_DENIED, "the session was opened for reading only");
    for (size_t i = 0; rc == 0 && i < nwrites; i++)
        rc = check_write(s, &writes[i], err);
    if (rc < 0)
        return rc;

    tci_arena_clear(&s->batch);
    batch b = {.s = s, .writes = writes, .nwrites = nwrites, .next_id = s->next_id};
    tci_doc_actions documents = {.count = 0};
    bool joins = may_join(writes, nwrites);
    rc = tci_sqlite_collect(s, writes, nwrites, &documents, err);
    if (rc == 0 && !joins)
        rc = tci_sqlite_flush(s, err);
    if (rc == 0 && !s->is_pending)
        rc = tci_sqlite_do(s, TCI_SQL_BEGIN_IMMEDIATE, err);
    if (rc == 0) {
        rc = run_batch(&b, &documents, err);
        if (rc == 0) {
            s->next_id = b.next_id;
            s->next_seq = b.seq + 1;
        }
        if (rc == 0 && how == TCI_COMMIT_DEFERRED && joins)
            s->is_pending = true;
        else if (rc == 0)
            rc = end_transaction(s, how == TCI_COMMIT_SYNCED, err);
        if (rc < 0)
            rc = give_up(s, b.is_begun, rc, err);
    }
    if (rc < 0)
        return rc;
    *ret_seq = b.seq;
    return 0;
}

int tci_sqlite_mint(tci_store *store, uint64_t *ret_id, tc_err *err)
{
    tci_sqlite *s = of(store);
    if (s->next_id > TCI_ID_MAX)
        return tc_err_set(err, TC_E_TOO_BIG, "ID space is exhausted");
    *ret_id = s->next_id++;
    return 0;
}
