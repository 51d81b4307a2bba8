/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage of one session: records and documents in memory, in a folder of JSON lines, or in an
 * SQLite file, behind one interface. A commit is all or nothing and has one sequence number.
 *
 * Records are JSON texts with decoded fields beside them (proto/durable.h). What goes in is copied;
 * what comes out lies in the caller's arena. Not thread-safe: one thread at a time (the session's line
 * sees to that).
 *
 * Errors. A request that cannot be served as it stands, and only that, is INVALID (bad cursor or order)
 * or NOT_FOUND (unknown conversation) or UNSUPPORTED (history not retained); every other failure of a
 * read, and every failure of commit and mint, means that the storage must be closed and opened again
 * (CLOSED after close). A commit that was refused before anything was written says CONFLICT, INVALID
 * or TOO_BIG and leaves the storage usable. */
#ifndef TCI_STORE_H
#define TCI_STORE_H

#include "base/json_tree.h"
#include "proto/durable.h"

typedef struct tci_store tci_store;

/* ---- opening ---- */

/* FULL: an acknowledged commit is on stable storage. NORMAL: as the originals do it: it survives the
 * process, and perhaps not a power cut. */
typedef enum tci_durability { TCI_DURABILITY_FULL, TCI_DURABILITY_NORMAL } tci_durability;

/*   durability
 *   is_read_only    nothing is written, repaired or locked; other processes may write meanwhile. Only what a
 *                   power cut has taken from the files of JSON lines is put back first (jsonl_journal.h)
 *   must_exist      NOT_FOUND instead of a new, empty session
 *   is_fresh        CONFLICT instead of an existing one
 *   without_lock    the caller holds it
 *   prefix          of tables and indexes (SQLite); empty: none
 *   busy_timeout_ms 0: 5000 (SQLite)
 *   wal_pages       0: 4000 (SQLite: pages after which the log is written back) */
typedef struct tci_store_options {
    tci_durability durability;
    bool is_read_only, must_exist, is_fresh, without_lock;
    tc_str prefix;
    unsigned busy_timeout_ms, wal_pages;
} tci_store_options;

/* A path ending in ".sqlite" is an SQLite session, every other a folder of JSON lines; missing
 * parents are made. Opening repairs what a crash may leave (torn tails, unconfirmed records), nothing
 * else. options may be NULL. BUSY: another process owns it (the message names it). PARSE: damaged
 * (tci_store_check says where). INCOMPATIBLE: of a newer version. */
int tci_store_open(tc_str path, const tci_store_options *options, tci_store **ret_store,
                   tc_err *err) TC_CHECKED;
/* The three, for those who know; the path is theirs to choose. No lock is taken. */
int tci_store_open_memory(tci_store **ret_store, tc_err *err) TC_CHECKED;
int tci_store_open_jsonl(tc_str path, const tci_store_options *options, tci_store **ret_store,
                         tc_err *err) TC_CHECKED;
int tci_store_open_sqlite(tc_str path, const tci_store_options *options, tci_store **ret_store,
                          tc_err *err) TC_CHECKED;
/* Releases everything, whatever fails; *err then says what (what was acknowledged is safe). NULL is fine. */
int tci_store_close(tci_store *store, tc_err *err);

/* ---- writing ---- */

typedef enum tci_write_type {
    TCI_WRITE_CONVERSATION, /* create */
    TCI_WRITE_ENTRY,        /* create */
    TCI_WRITE_TASK,         /* create or replace, the whole record */
    TCI_WRITE_SUBMISSION,   /* create or replace, the whole record */
    TCI_WRITE_DOC_CREATE,   /* document and its first content, a base */
    TCI_WRITE_DOC_COPY,     /* document; its content is a source's */
    TCI_WRITE_DOC_CHANGE,   /* id and content */
    TCI_WRITE_DOC_RETIRE    /* id */
} tci_write_type;

typedef struct tci_write {
    tci_write_type type;
    union {
        tci_conversation conversation;
        tci_entry entry;
        tci_task task;
        tci_submission submission;
        tci_document
            document; /* create, copy: without created_at; change, retire: only id counts */
    } u;
    tci_content content;           /* create, change */
    uint64_t source_id, source_at; /* copy; at 0: current */
} tci_write;

/* LAZY: not synced by itself, whatever the durability; a later commit that is synced syncs it too, and
 * it is never kept when an earlier one is lost. DEFERRED: like LAZY, and it may be given to the system
 * only together with the next commit: a process that is killed before that has lost it, and no other
 * process sees it until then. Closing keeps all there is. */
typedef enum tci_commit_how {
    TCI_COMMIT_SYNCED,
    TCI_COMMIT_LAZY,
    TCI_COMMIT_DEFERRED
} tci_commit_how;

/* All writes or none. Checked before anything is written (durable formats, "Writes"): ids new where
 * they must be, of one type, written once; documents known, alive, one content command and one retire
 * each; a delta of the version its document has; one live incarnation at an address; sources of
 * copies readable, untouched and equal in kind, key, history and fork. The messages contain the
 * originals' words ("ID 3 already belongs to task"). An empty batch is a commit too. */
int tci_store_commit(tci_store *store, const tci_write *writes, size_t nwrites, tci_commit_how how,
                     uint64_t *ret_seq, tc_err *err) TC_CHECKED;
/* The next id; nothing is written. */
int tci_store_mint(tci_store *store, uint64_t *ret_id, tc_err *err) TC_CHECKED;

/* ---- reading ----
 * "None" is id 0 in the answer. */

int tci_store_conversation(tci_store *store, uint64_t id, tci_arena *a, tci_conversation *ret,
                           tc_err *err) TC_CHECKED;
int tci_store_task(tci_store *store, uint64_t id, tci_arena *a, tci_task *ret,
                   tc_err *err) TC_CHECKED;
int tci_store_submission(tci_store *store, uint64_t id, tci_arena *a, tci_submission *ret,
                         tc_err *err) TC_CHECKED;
/* conversation_id not 0: only if it is visible from there (NOT_FOUND: unknown conversation). */
int tci_store_entry(tci_store *store, uint64_t conversation_id, uint64_t id, tci_arena *a,
                    tci_entry *ret, uint64_t *ret_seq, tc_err *err) TC_CHECKED;
/* The newest visible entry with a head and an id up to cutoff (0: any). */
int tci_store_head_marker(tci_store *store, uint64_t conversation_id, uint64_t cutoff, tci_arena *a,
                          tci_entry *ret, tc_err *err) TC_CHECKED;
int tci_store_submission_by_request(tci_store *store, uint64_t conversation_id, tc_str request_id,
                                    tci_arena *a, tci_submission *ret, tc_err *err) TC_CHECKED;

/* Where a document may live. */
typedef struct tci_address {
    tc_str kind;
    tci_scope scope;
    uint64_t owner_id;
    bool has_key;
    tc_str key;
} tci_address;
/* The incarnation alive at an address, now (at 0) or after commit at. */
int tci_store_find_document(tci_store *store, const tci_address *address, uint64_t at, tci_arena *a,
                            tci_document *ret, tc_err *err) TC_CHECKED;
/* A document and its value. value: a tree of its own, which the caller releases; NULL: not wanted.
 * id 0 in ret->record: none. UNSUPPORTED: at is not 0 and history is not retained. */
typedef struct tci_document_state {
    tci_document record;
    uint64_t version, deltas_since_base;
} tci_document_state;
int tci_store_document(tci_store *store, uint64_t id, uint64_t at, tci_arena *a,
                       tci_document_state *ret, tci_tree *ret_value, tc_err *err) TC_CHECKED;

/* Scans, a page at a time. A page continues where a cursor says, in the cursor's order; asking for
 * another order than the cursor's is INVALID. The default order of a scan without a cursor is
 * ascending, of entries descending. limit at least 1. *ret_next: where to go on; after 0: that was all. */
typedef enum tci_order { TCI_ORDER_DEFAULT, TCI_ORDER_ASCENDING, TCI_ORDER_DESCENDING } tci_order;
typedef struct tci_cursor {
    uint64_t after; /* the last id of the page before; 0: from the start */
    tci_order order;
} tci_cursor;
typedef struct tci_page {
    tci_order order;
    tci_cursor cursor;
    size_t limit;
} tci_page;
int tci_store_scan_conversations(tci_store *store, uint64_t owner_conversation_id,
                                 uint64_t owner_task_id, const tci_page *page, tci_arena *a,
                                 tci_conversation **ret, size_t *ret_count, tci_cursor *ret_next,
                                 tc_err *err) TC_CHECKED;
/* min, max: inclusive bounds, 0: none. Crosses the fork chain. conversation_id 0: every entry of the
 * session (for dumps). NOT_FOUND: unknown conversation. */
int tci_store_scan_entries(tci_store *store, uint64_t conversation_id, uint64_t min, uint64_t max,
                           const tci_page *page, tci_arena *a, tci_entry **ret, size_t *ret_count,
                           tci_cursor *ret_next, tc_err *err) TC_CHECKED;
/* The same, the texts of the entries in an arena of their own, where they may outlive the rest. */
int tci_store_read_entries(tci_store *store, uint64_t conversation_id, uint64_t min, uint64_t max,
                           const tci_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                           size_t *ret_count, tci_cursor *ret_next, tc_err *err) TC_CHECKED;
/* What is not asked for is 0, empty, or -1. */
typedef struct tci_task_query {
    uint64_t conversation_id;
    tc_str kind;
    int status;             /* a tci_task_status */
    int is_abort_requested; /* 0, 1 */
    int is_background;      /* 0, 1 */
} tci_task_query;
#define TCI_TASK_QUERY_ALL ((tci_task_query){0, {NULL, 0}, -1, -1, -1})
int tci_store_scan_tasks(tci_store *store, const tci_task_query *query, const tci_page *page,
                         tci_arena *a, tci_task **ret, size_t *ret_count, tci_cursor *ret_next,
                         tc_err *err) TC_CHECKED;
/* status: a tci_submission_status, or -1. */
int tci_store_scan_submissions(tci_store *store, uint64_t conversation_id, int status,
                               const tci_page *page, tci_arena *a, tci_submission **ret,
                               size_t *ret_count, tci_cursor *ret_next, tc_err *err) TC_CHECKED;
/* scope -1: every document, retired ones too (at must be 0; for dumps). kind empty: any. Ascending. */
int tci_store_scan_documents(tci_store *store, int scope, uint64_t owner_id, tc_str kind,
                             uint64_t at, const tci_page *page, tci_arena *a, tci_document **ret,
                             size_t *ret_count, tci_cursor *ret_next, tc_err *err) TC_CHECKED;

/* ---- looking after files ---- */

/* One piece of damage: where (file and byte offset, or table and row), and what. */
typedef struct tci_damage {
    tc_str where, what;
    bool is_lost; /* repair cannot keep the record */
} tci_damage;
/* Called for each, in order. */
typedef void (*tci_damage_fn)(void *user, const tci_damage *damage);
typedef struct tci_check_report {
    uint64_t nrecords; /* that are sound */
    uint64_t ndamaged;
    uint64_t nlost; /* of the damaged: what repair cannot keep */
    uint64_t
        ntails; /* of the damaged: rests of a commit that did not happen; opening removes them */
    uint64_t ncommits;
    bool is_unreadable; /* as a whole: there is nothing that repair could take records from */
} tci_check_report;
/* Read every record without changing anything. 0 also when there is damage: see the report. */
int tci_store_check(tc_str path, tci_damage_fn on_damage, void *user, tci_check_report *ret,
                    tc_err *err) TC_CHECKED;
/* Make it open again: every sound record is kept, the rest is moved aside and told of. BUSY while
 * somebody owns the session. *ret_aside: path of what was moved, in a; empty when nothing was. */
int tci_store_repair(tc_str path, tci_damage_fn on_damage, void *user, tci_arena *a,
                     tc_str *ret_aside, tci_check_report *ret, tc_err *err) TC_CHECKED;

/* ---- for backends ---- */

typedef struct tci_store_ops tci_store_ops; /* store_int.h */

#endif
