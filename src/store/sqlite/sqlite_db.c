/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection to one SQLite file and its prepared statements. What the statements mean is the other
 * files' business. Thread: the session's line. Invariant: a statement is reset when it has
 * answered, so that no read transaction stays open behind a call. */
#include "store/sqlite/sqlite_int.h"

#include "plat/file.h"

static const char *const texts[TCI_SQL_COUNT] = {
#define X(name, text) [TCI_SQL_##name] = text,
#include "store/sqlite/sqlite_sql.def"
#undef X
};

/* ---- errors ---- */

static tc_code code_of(sqlite3 *db, int rc, int *ret_os)
{
    *ret_os = 0;
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return TC_E_BUSY;
    case SQLITE_FULL:
        return TC_E_NO_SPACE;
    case SQLITE_NOMEM:
        return TC_E_NO_MEMORY;
    case SQLITE_TOOBIG:
        return TC_E_TOO_BIG;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
        return TC_E_PARSE;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
        return TC_E_DENIED;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
        return TC_E_INVALID;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
        *ret_os = db != NULL ? sqlite3_system_errno(db) : 0;
        if ((rc & 0xff) == SQLITE_CANTOPEN && *ret_os == 0)
            return TC_E_DENIED;
        return *ret_os != 0 ? tci_errno_code(*ret_os) : TC_E_IO;
    default:
        return TC_E_INTERNAL;
    }
}

int tci_sqlite_fail(sqlite3 *db, int rc, const char *what, tc_err *err)
{
    int os;
    tc_code code = code_of(db, rc, &os);
    const char *why = db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
    if (os != 0)
        (void)tc_err_set_os(err, code, os, "cannot %s (%s)", what, why);
    else
        (void)tc_err_set(err, code, "cannot %s: %s", what, why);
    if (code == TC_E_NO_SPACE)
        (void)tc_err_hint(err, "free some space, then open the session again");
    else if (code == TC_E_IO)
        (void)tc_err_hint(err, "see to the disk, then open the session again");
    return code;
}

/* ---- connecting ---- */

int tci_sqlite_exec(tci_sqlite *s, const char *sql, tc_err *err)
{
    int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : tci_sqlite_fail(s->db, rc, "use the session file", err);
}

void tci_sqlite_fetch_pages(tci_sqlite *s, bool is_wanted)
{
    /* What SQLite would map it fetches from our layer. A failure leaves it as it is, which is only slower. */
    (void)sqlite3_exec(s->db, is_wanted ? "PRAGMA mmap_size=2147418112" : "PRAGMA mmap_size=0",
                       NULL, NULL, NULL);
}

/* How SQLite is to be told of path: "file:" at its beginning would make it a URI. */
static int put_name(tci_buf *b, tc_str path, bool is_immutable, tc_err *err)
{
    static const char hex[] = "0123456789abcdef";
    if (tci_str_find_byte(path, 0) != path.len || path.len == 0)
        return tc_err_set(err, TC_E_INVALID, "the path of the session is empty or holds a NUL");
    if (!is_immutable) {
        if (tci_str_starts(path, TC_STR("file:")))
            tci_buf_append_str(b, TC_STR("./"));
        tci_buf_append_str(b, path);
    } else {
        tci_buf_append_str(b, path.ptr[0] == '/' ? TC_STR("file://") : TC_STR("file:"));
        for (size_t i = 0; i < path.len; i++) {
            unsigned char c = (unsigned char)path.ptr[i];
            if (c == '%' || c == '?' || c == '#') {
                tci_buf_append_byte(b, '%');
                tci_buf_append_byte(b, hex[c >> 4]);
                tci_buf_append_byte(b, hex[c & 15]);
            } else {
                tci_buf_append_byte(b, (char)c);
            }
        }
        tci_buf_append_str(b, TC_STR("?immutable=1"));
    }
    tci_buf_append_byte(b, 0);
    return tci_buf_error(b, err);
}

static int open_file(tci_sqlite *s, tc_str path, int flags, bool is_immutable, tc_err *err)
{
    tci_buf name;
    tci_buf_init(&name, 4 * TCI_PATH_MAX);
    int rc = put_name(&name, path, is_immutable, err);
    if (rc == 0) {
        int got = sqlite3_open_v2(
            name.ptr, &s->db, flags | SQLITE_OPEN_NOMUTEX | (is_immutable ? SQLITE_OPEN_URI : 0),
            tci_sqlite_vfs_name(s->vfs));
        if (got == SQLITE_OK)
            (void)sqlite3_extended_result_codes(s->db, 1);
        else
            rc = tci_sqlite_fail(s->db, got, "open the session file", err);
    }
    tci_buf_done(&name);
    if (rc < 0) {
        (void)sqlite3_close(s->db);
        s->db = NULL;
    }
    return rc;
}

/* A session that lies where we may write nothing at all, not even the index of its log: fine as long as
 * there is no log. */
static int open_immutable(tci_sqlite *s, tc_str path, tc_err *err)
{
    tci_file_stat st;
    tc_err ignored;
    tci_buf wal;
    tci_buf_init(&wal, TCI_PATH_MAX);
    tci_buf_append_str(&wal, path);
    tci_buf_append_str(&wal, TC_STR("-wal"));
    bool has_log =
        tci_file_stat_at(TCI_FILE_CWD, tci_buf_str(&wal), true, &st, &ignored) == 0 && st.size > 0;
    tci_buf_done(&wal);
    if (has_log)
        return tc_err_hint(err, "copy the file and its '-wal' to a folder that may be written to"),
               err->code;
    (void)sqlite3_close(s->db);
    s->db = NULL;
    return open_file(s, path, SQLITE_OPEN_READONLY, true, err);
}

static int open_read_only(tci_sqlite *s, tc_str path, unsigned busy_ms, tc_err *err)
{
    int rc = open_file(s, path, SQLITE_OPEN_READONLY, false, err);
    if (rc < 0)
        return rc;
    (void)sqlite3_busy_timeout(s->db, (int)busy_ms);
    rc = tci_sqlite_exec(s, "SELECT 1 FROM sqlite_schema LIMIT 1", err); /* the first real read */
    if (rc == TC_E_DENIED || rc == TC_E_NOT_FOUND || rc == TC_E_IO)
        rc = open_immutable(s, path, err);
    if (rc == 0)
        tci_sqlite_fetch_pages(s, true);
    return rc;
}

int tci_sqlite_connect(tci_sqlite *s, tc_str path, const tci_store_options *options, tc_err *err)
{
    unsigned busy_ms =
        options->busy_timeout_ms != 0 ? options->busy_timeout_ms : TCI_SQLITE_BUSY_MS;
    unsigned wal_pages = options->wal_pages != 0 ? options->wal_pages : TCI_SQLITE_WAL_PAGES;
    if (busy_ms > INT32_MAX || wal_pages > INT32_MAX)
        return tc_err_set(err, TC_E_INVALID, "a timeout or a number of pages is out of range");
    s->vfs = tci_sqlite_vfs_new();
    if (s->vfs == NULL)
        return tci_err_no_memory(err);
    if (options->is_read_only)
        return open_read_only(s, path, busy_ms, err);
    int rc =
        open_file(s, path, SQLITE_OPEN_READWRITE | (options->must_exist ? 0 : SQLITE_OPEN_CREATE),
                  false, err);
    if (rc < 0)
        return rc;
    (void)sqlite3_busy_timeout(s->db, (int)busy_ms);
    /* Small pages (of a new file; an old one keeps its own): a commit changes a few rows on as many
     * pages, and each of them goes to the log whole. Deleted content need not be overwritten. The checks
     * of the tables would parse every text once more; ours are stricter (sqlite_commit.c). */
    rc = tci_sqlite_exec(s,
                         "PRAGMA page_size=512;PRAGMA journal_mode=WAL;"
                         "PRAGMA secure_delete=OFF;PRAGMA ignore_check_constraints=ON",
                         err);
    s->syncs_commits = options->durability == TCI_DURABILITY_FULL;
    if (rc == 0)
        rc = tci_sqlite_exec(
            s, s->syncs_commits ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", err);
    if (rc == 0)
        (void)sqlite3_wal_autocheckpoint(s->db, (int)wal_pages);
    return rc;
}

/* ---- statements ---- */

int tci_sqlite_prepare(tci_sqlite *s, const char *text, sqlite3_stmt **ret, tc_err *err)
{
    tci_buf sql;
    tci_buf_init(&sql, 64 * 1024);
    for (const char *p = text; *p != 0; p++) {
        if (*p == '@')
            tci_buf_append_str(&sql, tci_str(s->prefix));
        else
            tci_buf_append_byte(&sql, *p);
    }
    int rc = tci_buf_error(&sql, err);
    if (rc == 0) {
        int got =
            sqlite3_prepare_v3(s->db, sql.ptr, (int)sql.len, SQLITE_PREPARE_PERSISTENT, ret, NULL);
        if (got != SQLITE_OK)
            rc = tci_sqlite_fail(s->db, got, "use the session file", err);
    }
    tci_buf_done(&sql);
    return rc;
}

int tci_sqlite_stmt(tci_sqlite *s, tci_sql which, sqlite3_stmt **ret, tc_err *err)
{
    if (s->stmts[which] == NULL) {
        int rc = tci_sqlite_prepare(s, texts[which], &s->stmts[which], err);
        if (rc < 0)
            return rc;
    }
    *ret = s->stmts[which];
    return 0;
}

int tci_sqlite_step(tci_sqlite *s, sqlite3_stmt *stmt, tc_err *err)
{
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE) {
        (void)sqlite3_reset(stmt);
        return 0;
    }
    /* SQLite counts COMMIT as reading. */
    bool is_read = sqlite3_stmt_readonly(stmt) && stmt != s->stmts[TCI_SQL_COMMIT];
    rc = tci_sqlite_fail(s->db, rc, is_read ? "read the session" : "write the session", err);
    (void)sqlite3_reset(stmt); /* repeats the error that was reported */
    return rc;
}

int tci_sqlite_run(tci_sqlite *s, sqlite3_stmt *stmt, tc_err *err)
{
    int rc = tci_sqlite_step(s, stmt, err);
    if (rc > 0)
        (void)sqlite3_reset(stmt);
    return rc < 0 ? rc : 0;
}

int tci_sqlite_do(tci_sqlite *s, tci_sql which, tc_err *err)
{
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(s, which, &stmt, err);
    return rc < 0 ? rc : tci_sqlite_run(s, stmt, err);
}

void tci_sqlite_finalize(tci_sqlite *s)
{
    for (size_t i = 0; i < TCI_SQL_COUNT; i++) {
        (void)sqlite3_finalize(s->stmts[i]);
        s->stmts[i] = NULL;
    }
    for (size_t i = 0; i < TCI_SQLITE_SCANS; i++) {
        (void)sqlite3_finalize(s->scans[i]);
        s->scans[i] = NULL;
    }
}

/* ---- values. A failing bind (no memory) leaves NULL, which the NOT NULL of the tables refuses. ---- */

void tci_sqlite_bind_u64(sqlite3_stmt *stmt, int at, uint64_t value)
{
    (void)sqlite3_bind_int64(stmt, at, (sqlite3_int64)value);
}

void tci_sqlite_bind_id(sqlite3_stmt *stmt, int at, uint64_t id)
{
    if (id != 0)
        (void)sqlite3_bind_int64(stmt, at, (sqlite3_int64)id);
    else
        (void)sqlite3_bind_null(stmt, at);
}

void tci_sqlite_bind_str(sqlite3_stmt *stmt, int at, tc_str text)
{
    (void)sqlite3_bind_text64(stmt, at, text.ptr != NULL ? text.ptr : "", text.len, SQLITE_STATIC,
                              SQLITE_UTF8);
}

void tci_sqlite_bind_name(sqlite3_stmt *stmt, int at, const char *name)
{
    tci_sqlite_bind_str(stmt, at, tci_str(name));
}

int tci_sqlite_bind_identity(sqlite3_stmt *stmt, int at, tci_buf *enc, tc_str value, tc_err *err)
{
    tci_buf_clear(enc);
    tci_json_put_ascii(enc, value);
    int rc = tci_buf_error(enc, err);
    if (rc == 0)
        tci_sqlite_bind_str(stmt, at, tci_buf_str(enc));
    return rc;
}

uint64_t tci_sqlite_u64(sqlite3_stmt *stmt, int column)
{
    sqlite3_int64 value = sqlite3_column_int64(stmt, column);
    return value > 0 ? (uint64_t)value : 0;
}

tc_str tci_sqlite_text(sqlite3_stmt *stmt, int column)
{
    const void *text = sqlite3_column_text(stmt, column);
    return tci_str_of(text, text != NULL ? (size_t)sqlite3_column_bytes(stmt, column) : 0);
}
