/* SPDX-License-Identifier: Apache-2.0
 *
 * The SQLite backend's own: the open session, its statements, and what its files share.
 *   sqlite.c          opening and closing, the table of calls, refusing after a failure
 *   sqlite_db.c       the connection: pragmas, statements, errors
 *   sqlite_wal.c      its log, written a commit at a time; sqlite_locks.c: its main file and the locks;
 *                     sqlite_ahead.c: the main file's pages, read many at a time
 *   sqlite_schema.c   tables, migrations, prefixes
 *   sqlite_commit.c   one batch as one transaction; sqlite_commit_docs.c: the documents of it
 *   sqlite_read.c     single records and documents; sqlite_scan.c: pages
 *   sqlite_check.c    looking for damage; sqlite_repair.c: saving what is sound */
#ifndef TCI_STORE_SQLITE_INT_H
#define TCI_STORE_SQLITE_INT_H

#include "store/ids.h"
#include "store/store_int.h"
#include <sqlite3.h>

typedef enum tci_sql {
#define X(name, text) TCI_SQL_##name,
#include "store/sqlite/sqlite_sql.def"
#undef X
    TCI_SQL_COUNT
} tci_sql;

enum {
    TCI_SQLITE_PREFIX_MAX = 64,
    TCI_SQLITE_BUSY_MS = 5000,
    TCI_SQLITE_WAL_PAGES = 4000, /* of 512 bytes */
    TCI_SQLITE_ARENA_MAX =
        1024 * 1024 * 1024,        /* what one record may take to parse; SQLite ends there */
    TCI_SQLITE_SEGMENTS = 8,       /* conversations whose place in the fork chain is remembered */
    TCI_SQLITE_SCHEMA_VERSION = 2, /* the newest we know */
    TCI_SQLITE_SCANS = 288         /* slots for the statements of scans, see sqlite_scan.c */
};

typedef struct tci_sqlite_vfs tci_sqlite_vfs;

typedef struct tci_sqlite_segment {
    uint64_t id, parent_id, parent_at;
} tci_sqlite_segment;

typedef struct tci_sqlite {
    tci_store store;
    tci_sqlite_vfs *vfs;
    sqlite3 *db;
    sqlite3_stmt *stmts[TCI_SQL_COUNT];    /* prepared at first use */
    sqlite3_stmt *scans[TCI_SQLITE_SCANS]; /* the same for scans */
    char prefix[TCI_SQLITE_PREFIX_MAX];
    bool is_read_only;
    bool syncs_commits; /* SQLite does, each; else (NORMAL) the log before a checkpoint only */
    bool is_failed;     /* a failure that only opening again can judge */
    bool is_pending;    /* a transaction with deferred commits is open */
    uint64_t next_id;
    uint64_t next_seq; /* while a transaction is open: the metadata are written with its end */
    tci_sqlite_segment known[TCI_SQLITE_SEGMENTS]; /* asked for last; id 0: none */
    size_t next_known;
    tci_buf kind, key; /* encoded identities of the statement that is being bound */
    tci_arena scratch; /* for one record */
    /* Of the batch that is being committed. */
    tci_arena batch;
    tci_id_map seen;    /* id to tci_record_type + 1 */
    tci_id_map touched; /* document to its place in tci_doc_actions + 1 */
} tci_sqlite;

/* ---- sqlite_db.c ---- */

/* err from what SQLite said last; `what` is what was being done. */
int tci_sqlite_fail(sqlite3 *db, int rc, const char *what, tc_err *err);
/* Connect: path to sqlite3_open_v2, the pragmas of the originals, no schema. */
int tci_sqlite_connect(tci_sqlite *s, tc_str path, const tci_store_options *options,
                       tc_err *err) TC_CHECKED;
/* Statements without parameters or answers. */
int tci_sqlite_exec(tci_sqlite *s, const char *sql, tc_err *err) TC_CHECKED;
/* Whether SQLite is to look at pages where sqlite_ahead.c has them. It then looks for each page in the log
 * before it looks into its cache: good for long tables only, which do not go through the cache. */
void tci_sqlite_fetch_pages(tci_sqlite *s, bool is_wanted);
/* text with the prefix put in. */
int tci_sqlite_prepare(tci_sqlite *s, const char *text, sqlite3_stmt **ret, tc_err *err) TC_CHECKED;
/* A fixed statement, ready to be bound. */
int tci_sqlite_stmt(tci_sqlite *s, tci_sql which, sqlite3_stmt **ret, tc_err *err) TC_CHECKED;
/* One step. 1: a row; 0: no (more) rows, and the statement is reset; negative: error, reset too. */
int tci_sqlite_step(tci_sqlite *s, sqlite3_stmt *stmt, tc_err *err) TC_CHECKED;
/* A statement that answers nothing. */
int tci_sqlite_run(tci_sqlite *s, sqlite3_stmt *stmt, tc_err *err) TC_CHECKED;
/* The same for a fixed one without parameters. */
int tci_sqlite_do(tci_sqlite *s, tci_sql which, tc_err *err) TC_CHECKED;
void tci_sqlite_finalize(tci_sqlite *s); /* all statements */

/* Bound text is borrowed until the next step. An id 0 is bound as NULL. */
void tci_sqlite_bind_u64(sqlite3_stmt *stmt, int at, uint64_t value);
void tci_sqlite_bind_id(sqlite3_stmt *stmt, int at, uint64_t id);
void tci_sqlite_bind_str(sqlite3_stmt *stmt, int at, tc_str text);
void tci_sqlite_bind_name(sqlite3_stmt *stmt, int at, const char *name);
/* The identity columns hold JSON strings. enc is cleared and keeps the text until the next use. */
int tci_sqlite_bind_identity(sqlite3_stmt *stmt, int at, tci_buf *enc, tc_str value,
                             tc_err *err) TC_CHECKED;
uint64_t tci_sqlite_u64(sqlite3_stmt *stmt, int column); /* 0 for NULL and what is negative */
tc_str tci_sqlite_text(sqlite3_stmt *stmt, int column);  /* until the next step or reset */

/* ---- sqlite_wal.c ---- */

/* A layer over SQLite's default one, registered; for one connection. NULL: no memory. */
tci_sqlite_vfs *tci_sqlite_vfs_new(void) TC_CHECKED;
const char *tci_sqlite_vfs_name(const tci_sqlite_vfs *v);
void tci_sqlite_vfs_free(tci_sqlite_vfs *v); /* after the connection is closed; NULL is fine */
/* Whether commits from here on are to be synced by themselves. Without: only where SQLite syncs every
 * commit, or the sync of the log before a checkpoint would be taken for a commit's. */
void tci_sqlite_vfs_sync_commits(tci_sqlite_vfs *v, bool is_wanted);

/* ---- sqlite_locks.c: the main file of such a layer ---- */

size_t tci_sqlite_main_bytes(void); /* to be followed by those of the layer below */
int tci_sqlite_main_open(sqlite3_vfs *below, const char *name, sqlite3_file *f, int flags,
                         int *ret_flags);

/* ---- sqlite_ahead.c ---- */

enum { TCI_SQLITE_BLOCKS = 8 };
/* Many pages, one after the other. */
typedef struct tci_sqlite_block {
    char *bytes;          /* NULL: not allocated */
    sqlite3_int64 number; /* -1: does not count any more */
    int len;
    unsigned nlent;   /* pages of it that SQLite has */
    uint64_t used_at; /* in a->clock */
    bool was_used;    /* since tci_sqlite_ahead_forget */
} tci_sqlite_block;
typedef struct tci_sqlite_misses {
    sqlite3_int64 number; /* of a block */
    unsigned n;
} tci_sqlite_misses;
typedef struct tci_sqlite_ahead {
    sqlite3_file *file;
    tci_sqlite_block blocks[TCI_SQLITE_BLOCKS];
    tci_sqlite_misses misses[TCI_SQLITE_BLOCKS];
    size_t last; /* the block asked for last */
    uint64_t clock;
    sqlite3_int64 size; /* of the file; -1: not asked for yet */
    sqlite3_int64 newest,
        resume;     /* blocks: read last; read last in the transaction before, -1: none */
    unsigned nread; /* blocks in this transaction */
    bool is_begun;  /* there is something to forget */
} tci_sqlite_ahead;

void tci_sqlite_ahead_init(tci_sqlite_ahead *a, sqlite3_file *file);
void tci_sqlite_ahead_done(tci_sqlite_ahead *a);
/* What was read does not count any more: a transaction begins, or the file is written. */
void tci_sqlite_ahead_forget(tci_sqlite_ahead *a);
/* A page that SQLite does not have: false: read it alone. */
bool tci_sqlite_ahead_read(tci_sqlite_ahead *a, void *bytes, int len, sqlite3_int64 offset);
/* A page for SQLite to look at until it is taken back; NULL: it is not in hand. */
void *tci_sqlite_ahead_lend(tci_sqlite_ahead *a, int len, sqlite3_int64 offset);
void tci_sqlite_ahead_take_back(tci_sqlite_ahead *a, const void *page);

/* ---- sqlite_schema.c ---- */

int tci_sqlite_check_prefix(tc_str prefix, tc_err *err) TC_CHECKED;
/* Are the tables of a session of a version we know there? NOT_FOUND, INCOMPATIBLE. */
int tci_sqlite_check_tables(tci_sqlite *s, tc_err *err) TC_CHECKED;
/* Bring the tables to the newest version, in one transaction, and read the metadata.
 * NOT_FOUND: must_exist and there are none; CONFLICT: is_fresh and there are; INCOMPATIBLE. */
int tci_sqlite_migrate(tci_sqlite *s, const tci_store_options *options, tc_err *err) TC_CHECKED;

/* ---- sqlite_read.c ---- */

/* Decode a record: the text is copied into a, parsing takes s->scratch (which is cleared). */
int tci_sqlite_conversation_of(tci_sqlite *s, tc_str text, tci_arena *a, tci_conversation *ret,
                               tc_err *err) TC_CHECKED;
int tci_sqlite_entry_of(tci_sqlite *s, tc_str text, tci_arena *a, tci_entry *ret,
                        tc_err *err) TC_CHECKED;
int tci_sqlite_task_of(tci_sqlite *s, tc_str text, tci_arena *a, tci_task *ret,
                       tc_err *err) TC_CHECKED;
int tci_sqlite_submission_of(tci_sqlite *s, tc_str text, tci_arena *a, tci_submission *ret,
                             tc_err *err) TC_CHECKED;
int tci_sqlite_document_of(tci_sqlite *s, tc_str text, tci_arena *a, tci_document *ret,
                           tc_err *err) TC_CHECKED;

/* Only what forks need of a conversation, which never changes; false in *ret_found: there is none. */
int tci_sqlite_segment_of(tci_sqlite *s, uint64_t id, tci_sqlite_segment *ret, bool *ret_found,
                          tc_err *err) TC_CHECKED;

/* Bind the five columns of an address from parameter 1 on. */
int tci_sqlite_bind_address(tci_sqlite *s, sqlite3_stmt *stmt, const tci_address *address,
                            tc_err *err) TC_CHECKED;
/* A document inside a transaction; clears s->scratch. ret_value may be NULL. */
int tci_sqlite_materialize(tci_sqlite *s, uint64_t id, uint64_t at, tci_arena *a,
                           tci_document_state *ret, tci_tree *ret_value, tc_err *err) TC_CHECKED;

int tci_sqlite_conversation(tci_store *store, uint64_t id, tci_arena *a, tci_conversation *ret,
                            tc_err *err);
int tci_sqlite_task(tci_store *store, uint64_t id, tci_arena *a, tci_task *ret, tc_err *err);
int tci_sqlite_submission(tci_store *store, uint64_t id, tci_arena *a, tci_submission *ret,
                          tc_err *err);
int tci_sqlite_entry(tci_store *store, uint64_t conversation_id, uint64_t id, tci_arena *a,
                     tci_entry *ret, uint64_t *ret_seq, tc_err *err);
int tci_sqlite_head_marker(tci_store *store, uint64_t conversation_id, uint64_t cutoff,
                           tci_arena *a, tci_entry *ret, tc_err *err);
int tci_sqlite_submission_by_request(tci_store *store, uint64_t conversation_id, tc_str request_id,
                                     tci_arena *a, tci_submission *ret, tc_err *err);
int tci_sqlite_find_document(tci_store *store, const tci_address *address, uint64_t at,
                             tci_arena *a, tci_document *ret, tc_err *err);
int tci_sqlite_document(tci_store *store, uint64_t id, uint64_t at, tci_arena *a,
                        tci_document_state *ret, tci_tree *ret_value, tc_err *err);

/* ---- sqlite_scan.c ---- */

int tci_sqlite_scan_conversations(tci_store *store, uint64_t owner_conversation_id,
                                  uint64_t owner_task_id, const tci_page *page, tci_arena *a,
                                  tci_conversation **ret, size_t *ret_count, tci_cursor *ret_next,
                                  tc_err *err);
int tci_sqlite_scan_entries(tci_store *store, uint64_t conversation_id, uint64_t min, uint64_t max,
                            const tci_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                            size_t *ret_count, tci_cursor *ret_next, tc_err *err);
int tci_sqlite_scan_tasks(tci_store *store, const tci_task_query *query, const tci_page *page,
                          tci_arena *a, tci_task **ret, size_t *ret_count, tci_cursor *ret_next,
                          tc_err *err);
int tci_sqlite_scan_submissions(tci_store *store, uint64_t conversation_id, int status,
                                const tci_page *page, tci_arena *a, tci_submission **ret,
                                size_t *ret_count, tci_cursor *ret_next, tc_err *err);
int tci_sqlite_scan_documents(tci_store *store, int scope, uint64_t owner_id, tc_str kind,
                              uint64_t at, const tci_page *page, tci_arena *a, tci_document **ret,
                              size_t *ret_count, tci_cursor *ret_next, tc_err *err);

/* ---- sqlite_commit.c, sqlite_commit_docs.c ---- */

int tci_sqlite_commit(tci_store *store, const tci_write *writes, size_t nwrites, tci_commit_how how,
                      uint64_t *ret_seq, tc_err *err);
int tci_sqlite_mint(tci_store *store, uint64_t *ret_id, tc_err *err);
/* Give deferred commits to the system. */
int tci_sqlite_flush(tci_sqlite *s, tc_err *err) TC_CHECKED;

/* What a batch does to one document. */
typedef struct tci_doc_action {
    uint64_t id;
    const tci_write *create, *change, *copy; /* at most one */
    bool is_retired;
    tci_document record; /* of one that exists, in the batch's arena */
    uint64_t last_seq;   /* of its newest revision, 0: none */
    bool is_last_base;
} tci_doc_action;
typedef struct tci_doc_actions {
    tci_doc_action *items; /* in first-touch order, in s->batch */
    size_t count;
} tci_doc_actions;

/* Collect; no I/O. CONFLICT: more than one content command, retired twice. */
int tci_sqlite_collect(tci_sqlite *s, const tci_write *writes, size_t nwrites, tci_doc_actions *ret,
                       tc_err *err) TC_CHECKED;
int tci_sqlite_check_documents(tci_sqlite *s, tci_doc_actions *actions, tc_err *err) TC_CHECKED;
int tci_sqlite_apply_documents(tci_sqlite *s, const tci_doc_actions *actions, uint64_t seq,
                               tc_err *err) TC_CHECKED;
/* Single rows, new ones. The id is claimed with them. A document's text gets the times put in. */
int tci_sqlite_add_conversation(tci_sqlite *s, const tci_conversation *c, tc_err *err) TC_CHECKED;
int tci_sqlite_add_entry(tci_sqlite *s, const tci_entry *e, uint64_t seq, tc_err *err) TC_CHECKED;
int tci_sqlite_add_task(tci_sqlite *s, const tci_task *t, tc_err *err) TC_CHECKED;
int tci_sqlite_add_submission(tci_sqlite *s, const tci_submission *m, tc_err *err) TC_CHECKED;
int tci_sqlite_add_document(tci_sqlite *s, const tci_document *d, uint64_t created_at,
                            uint64_t retired_at, tc_err *err) TC_CHECKED;
int tci_sqlite_add_revision(tci_sqlite *s, uint64_t id, uint64_t seq, const tci_content *c,
                            tc_err *err) TC_CHECKED;
int tci_sqlite_set_metadata(tci_sqlite *s, uint64_t next_id, uint64_t next_seq,
                            tc_err *err) TC_CHECKED;
int tci_sqlite_claim(tci_sqlite *s, uint64_t id, tci_record_type type, tc_err *err) TC_CHECKED;

/* ---- sqlite_check.c: reading all there is, damaged or not ---- */

typedef struct tci_sqlite_walk {
    tci_sqlite *from;
    tci_sqlite *to; /* gets every sound record, inside a transaction of its own; NULL: only look */
    tci_damage_fn on_damage;
    void *user;
    tci_check_report report;
    uint64_t max_id, max_seq; /* seen anywhere */
    tci_arena a;              /* of one row */
} tci_sqlite_walk;

/* A session of its own for the walk; read-only. The caller releases it with tci_sqlite_release. */
int tci_sqlite_open_for_walk(tc_str path, tci_sqlite **ret, tc_err *err) TC_CHECKED;
/* 0 also when there is damage. PARSE: not even the tables can be found (told of as damage, too). */
int tci_sqlite_walk_all(tci_sqlite_walk *w, tc_err *err) TC_CHECKED;

/* ---- sqlite.c ---- */

/* A session that is not open yet, with nothing to release but itself. NULL: no memory. */
tci_sqlite *tci_sqlite_new(const tci_store_options *options) TC_CHECKED;
void tci_sqlite_release(tci_sqlite *s);

#endif
