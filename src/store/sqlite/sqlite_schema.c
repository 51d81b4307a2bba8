/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of a session, and how an older file becomes one of today. Names, columns and checks are
 * the originals', so that either side opens the other's files; the version lives in a table of its
 * own. Thread: the session's line. Invariant: a version is either there with everything that
 * belongs to it, or not begun. */
#include "store/sqlite/sqlite_int.h"

#include "base/num.h"

#define STATUSES_1 "'pending','running','waiting','completing','terminal'"
#define STATUSES_2 "'pending','running','waiting','sleeping','completing','terminal'"
#define TASK_COLUMNS(statuses)                                           \
    "(id INTEGER PRIMARY KEY,"                                           \
    "conversation_id INTEGER NOT NULL,"                                  \
    "kind TEXT NOT NULL,"                                                \
    "status TEXT NOT NULL CHECK (status IN (" statuses ")),"             \
    "abort_requested INTEGER NOT NULL CHECK (abort_requested IN (0,1))," \
    "background INTEGER NOT NULL CHECK (background IN (0,1)),"           \
    "record TEXT NOT NULL CHECK (json_valid(record))) STRICT"

/* "@" is the prefix. Each list is what one version adds. */
static const char *const task_indexes[] = {
    "CREATE INDEX @tasks_by_status ON @tasks(status,id)",
    "CREATE INDEX @tasks_by_conversation ON @tasks(conversation_id,id)",
    "CREATE INDEX @tasks_by_kind ON @tasks(kind,id)",
    "CREATE INDEX @tasks_by_abort_requested ON @tasks(abort_requested,id)",
    "CREATE INDEX @tasks_by_background ON @tasks(background,id)",
};

static const char *const version_1[] = {
    "CREATE TABLE @durable_metadata(singleton INTEGER PRIMARY KEY CHECK (singleton=1),"
    "next_id TEXT NOT NULL,next_seq INTEGER NOT NULL) STRICT",
    "INSERT INTO @durable_metadata(singleton,next_id,next_seq) VALUES(1,'2',1)",
    "CREATE TABLE @record_ids(id INTEGER PRIMARY KEY,record_type TEXT NOT NULL"
    " CHECK (record_type IN ('conversation','entry','task','submission','document'))) STRICT",

    "CREATE TABLE @conversations(id INTEGER PRIMARY KEY,owner_conversation_id INTEGER,"
    "owner_task_id INTEGER,record TEXT NOT NULL CHECK (json_valid(record))) STRICT",
    "CREATE INDEX @conversations_by_owner_conversation ON"
    " @conversations(owner_conversation_id,id)",
    "CREATE INDEX @conversations_by_owner_task ON @conversations(owner_task_id,id)",

    "CREATE TABLE @entries(id INTEGER PRIMARY KEY,conversation_id INTEGER NOT NULL,head INTEGER,"
    "commit_seq INTEGER NOT NULL,record TEXT NOT NULL CHECK (json_valid(record))) STRICT",
    "CREATE INDEX @entries_by_conversation ON @entries(conversation_id,id DESC)",
    "CREATE INDEX @entry_heads_by_conversation ON @entries(conversation_id,id DESC)"
    " WHERE head IS NOT NULL",

    "CREATE TABLE @submissions(id INTEGER PRIMARY KEY,conversation_id INTEGER NOT NULL,"
    "request_id TEXT,status TEXT NOT NULL CHECK"
    " (status IN ('queued','placed','done','unanswered')),"
    "record TEXT NOT NULL CHECK (json_valid(record))) STRICT",
    "CREATE INDEX @submissions_by_request ON @submissions(conversation_id,request_id)",
    "CREATE INDEX @submissions_by_conversation ON @submissions(conversation_id,id)",
    "CREATE INDEX @submissions_by_status ON @submissions(status,id)",

    "CREATE TABLE @documents(id INTEGER PRIMARY KEY,kind TEXT NOT NULL,"
    "family INTEGER NOT NULL CHECK (family IN (0,1)),key_value TEXT NOT NULL,"
    "scope_kind TEXT NOT NULL CHECK (scope_kind IN ('session','conversation','task')),"
    "owner_id INTEGER NOT NULL,created_at INTEGER NOT NULL,retired_at INTEGER,"
    "record TEXT NOT NULL CHECK (json_valid(record))) STRICT",
    "CREATE INDEX @documents_by_address ON"
    " @documents(kind,scope_kind,owner_id,family,key_value,created_at DESC,retired_at)",
    "CREATE INDEX @documents_by_scope ON @documents(scope_kind,owner_id,id)",
    "CREATE INDEX @documents_by_scope_kind ON @documents(scope_kind,owner_id,kind,id)",

    "CREATE TABLE @document_revisions(document_id INTEGER NOT NULL,seq INTEGER NOT NULL,"
    "kind TEXT NOT NULL CHECK (kind IN ('base','delta')),version INTEGER NOT NULL,"
    "content TEXT NOT NULL CHECK (json_valid(content)),PRIMARY KEY(document_id,seq)) STRICT",
    "CREATE INDEX @document_revisions_by_kind ON @document_revisions(document_id,kind,seq DESC)",
};

static const char *const tasks_1[] = {"CREATE TABLE @tasks" TASK_COLUMNS(STATUSES_1)};

/* A check cannot be changed in place: the table is built anew around its rows. */
static const char *const version_2[] = {
    "CREATE TABLE @tasks_v2" TASK_COLUMNS(STATUSES_2),
    ("INSERT INTO @tasks_v2(id,conversation_id,kind,status,abort_requested,background,record)"
     " SELECT id,conversation_id,kind,status,abort_requested,background,record FROM @tasks"),
    "DROP TABLE @tasks",
    "ALTER TABLE @tasks_v2 RENAME TO @tasks",
};

int tci_sqlite_check_prefix(tc_str prefix, tc_err *err)
{
    for (size_t i = 0; i < prefix.len; i++) {
        char c = prefix.ptr[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!is_letter && (i == 0 || c < '0' || c > '9'))
            return tc_err_set(err, TC_E_INVALID, "'%.*s' is no prefix of tables: %s",
                              TC_STR_ARG(prefix), "letters, digits and '_', a digit not first");
    }
    if (prefix.len >= TCI_SQLITE_PREFIX_MAX)
        return tc_err_set(err, TC_E_INVALID, "a prefix of tables has at most %d bytes",
                          TCI_SQLITE_PREFIX_MAX - 1);
    if (tci_str_eq_nocase(tci_str_sub(prefix, 0, 7), TC_STR("sqlite_")))
        return tc_err_set(err, TC_E_INVALID, "the prefix '%.*s' is reserved", TC_STR_ARG(prefix));
    return 0;
}

/* ---- statements that run once ---- */

static int run_once(tci_sqlite *s, const char *text, tc_err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = tci_sqlite_prepare(s, text, &stmt, err);
    if (rc == 0)
        rc = tci_sqlite_run(s, stmt, err);
    (void)sqlite3_finalize(stmt);
    return rc;
}

static int run_list(tci_sqlite *s, const char *const *list, size_t count, tc_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = run_once(s, list[i], err);
    return rc;
}

static int go_to_version(tci_sqlite *s, int version, tc_err *err)
{
    int rc;
    if (version == 1) {
        rc = run_list(s, version_1, TCI_ARRAY_LEN(version_1), err);
        if (rc == 0)
            rc = run_list(s, tasks_1, TCI_ARRAY_LEN(tasks_1), err);
    } else {
        rc = run_list(s, version_2, TCI_ARRAY_LEN(version_2), err);
    }
    if (rc == 0)
        rc = run_list(s, task_indexes, TCI_ARRAY_LEN(task_indexes), err);
    return rc < 0
               ? rc
               : run_once(s,
                          version == 1 ? "UPDATE @durable_schema SET version=1 WHERE singleton=1"
                                       : "UPDATE @durable_schema SET version=2 WHERE singleton=1",
                          err);
}

/* ---- what is there ---- */

/* *ret: the version; 0: an empty file, or one of somebody else. */
static int read_version(tci_sqlite *s, int *ret, tc_err *err)
{
    sqlite3_stmt *stmt = NULL;
    tci_buf name;
    tci_buf_init(&name, 256);
    tci_buf_append_str(&name, tci_str(s->prefix));
    tci_buf_append_str(&name, TC_STR("durable_schema"));
    int rc = tci_sqlite_prepare(s, "SELECT 1 FROM sqlite_schema WHERE type='table' AND name=?1",
                                &stmt, err);
    if (rc == 0) {
        tci_sqlite_bind_str(stmt, 1, tci_buf_str(&name));
        rc = tci_sqlite_step(s, stmt, err);
    }
    (void)sqlite3_finalize(stmt);
    tci_buf_done(&name);
    if (rc <= 0) {
        *ret = 0;
        return rc;
    }
    stmt = NULL;
    rc = tci_sqlite_prepare(s, "SELECT version FROM @durable_schema WHERE singleton=1", &stmt, err);
    if (rc == 0)
        rc = tci_sqlite_step(s, stmt, err);
    sqlite3_int64 version = rc == 1 ? sqlite3_column_int64(stmt, 0) : 0;
    (void)sqlite3_finalize(stmt);
    if (rc < 0)
        return rc;
    if (version < 0 || version > TCI_SQLITE_SCHEMA_VERSION)
        return tc_err_set(err, TC_E_INCOMPATIBLE,
                          "the session has schema version %lld, which is newer than %d, the newest "
                          "known here",
                          (long long)version, TCI_SQLITE_SCHEMA_VERSION);
    *ret = (int)version;
    return 0;
}

static int check_expected(int version, const tci_store_options *options, tc_err *err)
{
    if (version == 0 && (options->must_exist || options->is_read_only))
        return tc_err_set(err, TC_E_NOT_FOUND, "there is no session in this file");
    if (version != 0 && options->is_fresh)
        return tc_err_set(err, TC_E_CONFLICT, "there is a session already");
    return 0;
}

/* Inside a transaction. */
static int migrate_from_now(tci_sqlite *s, const tci_store_options *options, tc_err *err)
{
    static const char *const first[] = {
        "CREATE TABLE IF NOT EXISTS @durable_schema(singleton INTEGER PRIMARY KEY"
        " CHECK (singleton=1),version INTEGER NOT NULL CHECK (version>=0)) STRICT",
        "INSERT OR IGNORE INTO @durable_schema(singleton,version) VALUES(1,0)",
    };
    int version;
    int rc = read_version(s, &version, err); /* again: somebody else may have been quicker */
    if (rc == 0)
        rc = check_expected(version, options, err);
    if (rc == 0)
        rc = run_list(s, first, TCI_ARRAY_LEN(first), err);
    while (rc == 0 && version < TCI_SQLITE_SCHEMA_VERSION)
        rc = go_to_version(s, ++version, err);
    return rc;
}

static int read_metadata(tci_sqlite *s, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, TCI_SQL_META_GET, &stmt, err);
    if (rc == 0)
        rc = tci_sqlite_step(s, stmt, err);
    if (rc == 0)
        return tc_err_set(err, TC_E_PARSE, "the metadata of the session is missing");
    if (rc < 0)
        return rc;
    tc_err ignored;
    rc = tci_num_u64(tci_sqlite_text(stmt, 0), &s->next_id, &ignored);
    (void)sqlite3_reset(stmt);
    if (rc < 0 || s->next_id == 0)
        return tc_err_set(err, TC_E_PARSE, "the metadata of the session is damaged: next_id");
    return 0;
}

int tci_sqlite_check_tables(tci_sqlite *s, tc_err *err)
{
    const tci_store_options options = {.must_exist = true};
    int version;
    int rc = read_version(s, &version, err);
    return rc < 0 ? rc : check_expected(version, &options, err);
}

int tci_sqlite_migrate(tci_sqlite *s, const tci_store_options *options, tc_err *err)
{
    int version;
    int rc = read_version(s, &version, err);
    if (rc == 0)
        rc = check_expected(version, options, err);
    if (rc == 0 && version < TCI_SQLITE_SCHEMA_VERSION && !options->is_read_only) {
        rc = tci_sqlite_do(s, TCI_SQL_BEGIN_IMMEDIATE, err);
        if (rc == 0) {
            rc = migrate_from_now(s, options, err);
            if (rc == 0)
                rc = tci_sqlite_do(s, TCI_SQL_COMMIT, err);
            tc_err ignored;
            if (rc < 0 && sqlite3_get_autocommit(s->db) == 0)
                (void)!tci_sqlite_do(s, TCI_SQL_ROLLBACK, &ignored); /* closing does it too */
        }
    }
    return rc < 0 ? rc : read_metadata(s, err);
}
