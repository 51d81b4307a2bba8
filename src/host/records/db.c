/* SPDX-License-Identifier: Apache-2.0
 *
 * SQLite behind the Host's records: opening for one owner, the tables, statements, errors. What the rows mean
 * is for others. Any thread, one at a time. Invariant: a commit that was answered survives a power cut, so the
 * log is synced with every one of them. */
#include "host/records/db.h"

#include "plat/file.h"
#include "store/lock.h"

#include <sqlite3.h>

enum { FOLDER_MODE = 0700, FILE_MODE = 0600, OTHERS = 0077, BUSY_MS = 5000 };

struct tci_host_db {
    sqlite3 *db;
    tci_lock *lock;
    tci_arena strings;
};

/* What each version adds. */
static const char *const versions[TCI_HOST_SCHEMA_VERSION] = {
    "CREATE TABLE devices("
    "id TEXT PRIMARY KEY,"
    "device_id TEXT NOT NULL UNIQUE,"
    "name TEXT NOT NULL,"
    "state TEXT NOT NULL CHECK (state IN ('pending','approved','revoked')),"
    "digest BLOB NOT NULL UNIQUE CHECK (length(digest)=32),"
    "address TEXT NOT NULL,"
    "created_ms INTEGER NOT NULL,"
    "approved_ms INTEGER,"
    "revoked_ms INTEGER,"
    "seen_ms INTEGER,"
    "clashes INTEGER NOT NULL DEFAULT 0,"
    "clash_ms INTEGER,"
    "clash_address TEXT) STRICT;"
    "CREATE TABLE challenges("
    "id TEXT PRIMARY KEY,"
    "device TEXT NOT NULL UNIQUE REFERENCES devices(id) ON DELETE CASCADE,"
    "code TEXT NOT NULL UNIQUE,"
    "created_ms INTEGER NOT NULL,"
    "expires_ms INTEGER NOT NULL,"
    "rejected_ms INTEGER) STRICT;"
    "CREATE TABLE sign_ins("
    "digest BLOB PRIMARY KEY CHECK (length(digest)=32),"
    "kind TEXT NOT NULL CHECK (kind IN ('link','browser','terminal')),"
    "label TEXT NOT NULL,"
    "created_ms INTEGER NOT NULL,"
    "expires_ms INTEGER NOT NULL) STRICT;",
    "CREATE TABLE externals("
    "id TEXT PRIMARY KEY,"
    "device_id TEXT NOT NULL,"
    "name TEXT NOT NULL UNIQUE,"
    "url TEXT NOT NULL,"
    "credential_file TEXT NOT NULL,"
    "ca_file TEXT NOT NULL,"
    "is_plaintext_allowed INTEGER NOT NULL CHECK (is_plaintext_allowed IN (0,1)),"
    "created_ms INTEGER NOT NULL,"
    "seen_ms INTEGER) STRICT;"
    "CREATE INDEX devices_by_name ON devices(name);",
};

/* ---- errors ---- */

static tc_code code_of(sqlite3 *db, int rc)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return TC_E_BUSY;
    case SQLITE_FULL:
        return TC_E_NO_SPACE;
    case SQLITE_NOMEM:
        return TC_E_NO_MEMORY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
        return TC_E_PARSE;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
        return TC_E_DENIED;
    case SQLITE_CONSTRAINT:
        return TC_E_CONFLICT;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
        return db != NULL && sqlite3_system_errno(db) != 0
                   ? tci_errno_code(sqlite3_system_errno(db))
                   : TC_E_IO;
    default:
        return TC_E_INTERNAL;
    }
}

static int fail(sqlite3 *db, int rc, tc_err *err)
{
    return tc_err_set(err, code_of(db, rc), "cannot use the Host's records: %s",
                      db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
}

static int execute(tci_host_db *db, const char *sql, tc_err *err)
{
    int rc = sqlite3_exec(db->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : fail(db->db, rc, err);
}

/* ---- opening ---- */

static int check_folder(tc_str folder, tc_err *err)
{
    tci_file_stat st;
    int rc = tci_file_stat_at(TCI_FILE_CWD, folder, true, &st, err);
    if (rc < 0)
        return rc;
    if (st.kind != TCI_FILE_KIND_DIRECTORY)
        return tc_err_set(err, TC_E_INVALID, "'%.*s' is not a folder", TC_STR_ARG(folder));
    if (st.uid != tci_file_euid() || (st.mode & OTHERS) != 0) {
        (void)tc_err_set(err, TC_E_DENIED, "others may look into '%.*s'", TC_STR_ARG(folder));
        return tc_err_hint(err, "chmod 700 it, or name a folder of the Host's own with --data");
    }
    return 0;
}

static int make_folder(tc_str folder, tc_err *err)
{
    tc_str above, name;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    int rc = tci_store_make_folders(folder, false, err);
    if (rc == 0)
        rc = tci_file_mkdir(TCI_FILE_CWD, folder, FOLDER_MODE, err);
    if (rc < 0 && rc != TC_E_CONFLICT)
        return tc_err_wrap(err, "cannot make the Host's folder");
    tci_path_split(folder, &above, &name);
    if (rc == 0 && tci_str_starts(folder, TC_STR("/")) && /* so that it outlives a power cut */
        tci_file_openat(TCI_FILE_CWD, above, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &f, err) == 0)
        (void)!tci_file_sync(f, err); /* where it cannot be done, what is synced below has to do */
    return check_folder(folder, err);
}

/* SQLite gives what it puts beside the file the file's mode. */
static int make_file(tc_str path, tc_err *err)
{
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    int rc = tci_file_openat(TCI_FILE_CWD, path,
                             TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_NOFOLLOW,
                             FILE_MODE, &f, err);
    if (rc == 0)
        rc = tci_file_chmod(f, FILE_MODE, err);
    return rc;
}

static int read_version(tci_host_db *db, int64_t *ret, tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db, "PRAGMA user_version", err);
    if (rc < 0)
        return rc;
    rc = tci_query_step(&q, err);
    if (rc > 0)
        *ret = tci_query_int(&q, 0);
    tci_query_close(&q);
    return rc < 0 ? rc : 0;
}

static int migrate(tci_host_db *db, tc_err *err)
{
    int64_t version = 0;
    tc_str pragma;
    int rc = read_version(db, &version, err);
    if (rc < 0)
        return rc;
    if (version > TCI_HOST_SCHEMA_VERSION || version < 0) {
        (void)tc_err_set(err, TC_E_INCOMPATIBLE, "the Host's records are of a newer version");
        return tc_err_hint(err, "use the telechir that wrote them");
    }
    if (version == TCI_HOST_SCHEMA_VERSION)
        return 0;
    rc = tci_host_db_begin(db, err);
    for (int64_t i = version; rc == 0 && i < TCI_HOST_SCHEMA_VERSION; i++)
        rc = execute(db, versions[i], err);
    if (rc == 0)
        rc = tci_arena_printf(&db->strings, &pragma, err, "PRAGMA user_version=%d",
                              (int)TCI_HOST_SCHEMA_VERSION);
    if (rc == 0)
        rc = execute(db, pragma.ptr, err);
    if (rc == 0)
        rc = tci_host_db_commit(db, err);
    if (rc < 0)
        tci_host_db_rollback(db);
    return rc;
}

static int connect(tci_host_db *db, const char *path, tc_err *err)
{
    int rc = sqlite3_open_v2(path, &db->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK)
        return fail(db->db, rc, err);
    (void)sqlite3_busy_timeout(db->db, BUSY_MS);
    return execute(db,
                   "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; "
                   "PRAGMA trusted_schema=OFF",
                   err);
}

/* "./" in front, so that no path is taken for a URI. */
static int name_file(tci_host_db *db, tc_str folder, tc_str *ret, tc_err *err)
{
    if (tci_str_find_byte(folder, 0) != folder.len || folder.len == 0)
        return tc_err_set(err, TC_E_INVALID, "the Host's folder has no usable name");
    return tci_arena_printf(&db->strings, ret, err, "%s%.*s/host.sqlite",
                            folder.ptr[0] == '/' ? "" : "./", TC_STR_ARG(folder));
}

int tci_host_db_open(tc_str folder, tci_host_db **ret_db, tc_err *err)
{
    tc_str path;
    tci_host_db *db = tci_new(tci_host_db);
    if (db == NULL)
        return tci_err_no_memory(err);
    tci_arena_init(&db->strings, 0);
    int rc = name_file(db, folder, &path, err);
    if (rc == 0)
        rc = make_folder(folder, err);
    if (rc == 0)
        rc = tci_lock_take(path, &db->lock, err);
    if (rc == 0)
        rc = make_file(path, err);
    if (rc == 0)
        rc = tci_lock_bind(db->lock, err);
    if (rc == 0)
        rc = connect(db, path.ptr, err);
    if (rc == 0)
        rc = migrate(db, err);
    if (rc < 0) {
        tci_host_db_close(db);
        return rc;
    }
    *ret_db = db;
    return 0;
}

void tci_host_db_close(tci_host_db *db)
{
    if (db == NULL)
        return;
    (void)sqlite3_close(db->db); /* what was committed is on the disk already */
    tci_lock_release(db->lock);
    tci_arena_done(&db->strings);
    tci_free(db);
}

/* ---- statements ---- */

int tci_host_db_begin(tci_host_db *db, tc_err *err)
{
    return execute(db, "BEGIN IMMEDIATE", err);
}

int tci_host_db_commit(tci_host_db *db, tc_err *err)
{
    return execute(db, "COMMIT", err);
}

void tci_host_db_rollback(tci_host_db *db)
{
    if (!sqlite3_get_autocommit(db->db))
        (void)sqlite3_exec(db->db, "ROLLBACK", NULL, NULL, NULL); /* it cannot do otherwise */
}

int tci_query_open(tci_query *q, tci_host_db *db, const char *sql, tc_err *err)
{
    *q = (tci_query){.db = db};
    int rc = sqlite3_prepare_v2(db->db, sql, -1, &q->stmt, NULL);
    return rc == SQLITE_OK ? 0 : fail(db->db, rc, err);
}

void tci_query_close(tci_query *q)
{
    (void)sqlite3_finalize(q->stmt); /* its step has said what was wrong */
    q->stmt = NULL;
}

/* A bind that fails (no memory) leaves NULL, which the tables refuse or which equals nothing. */
void tci_query_bind_str(tci_query *q, int at, tc_str text)
{
    (void)sqlite3_bind_text64(q->stmt, at, text.ptr != NULL ? text.ptr : "", text.len,
                              SQLITE_STATIC, SQLITE_UTF8);
}

void tci_query_bind_bytes(tci_query *q, int at, const void *bytes, size_t len)
{
    (void)sqlite3_bind_blob64(q->stmt, at, bytes, len, SQLITE_STATIC);
}

void tci_query_bind_int(tci_query *q, int at, int64_t value)
{
    (void)sqlite3_bind_int64(q->stmt, at, value);
}

void tci_query_bind_time(tci_query *q, int at, int64_t ms)
{
    if (ms != 0)
        tci_query_bind_int(q, at, ms);
}

int tci_query_step(tci_query *q, tc_err *err)
{
    int rc = sqlite3_step(q->stmt);
    if (rc == SQLITE_ROW)
        return 1;
    return rc == SQLITE_DONE ? 0 : fail(q->db->db, rc, err);
}

int tci_query_run(tci_query *q, size_t *ret_changed, tc_err *err)
{
    int rc = tci_query_step(q, err);
    if (rc >= 0 && ret_changed != NULL)
        *ret_changed = (size_t)sqlite3_changes64(q->db->db);
    tci_query_close(q);
    return rc < 0 ? rc : 0;
}

int64_t tci_query_int(const tci_query *q, int column)
{
    return sqlite3_column_int64(q->stmt, column);
}

tc_str tci_query_str(const tci_query *q, int column)
{
    const void *bytes = sqlite3_column_type(q->stmt, column) == SQLITE_BLOB
                            ? sqlite3_column_blob(q->stmt, column)
                            : sqlite3_column_text(q->stmt, column);
    return tci_str_of(bytes, bytes != NULL ? (size_t)sqlite3_column_bytes(q->stmt, column) : 0);
}

int tci_query_dup(const tci_query *q, const tci_query_text *texts, size_t count, tci_arena *a,
                  tc_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = tci_arena_dup(a, tci_query_str(q, texts[i].column), texts[i].to, err);
    return rc;
}
