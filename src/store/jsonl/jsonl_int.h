/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON lines backend, for its own files. A session is a folder:
 *
 *     main.jsonl        a marker for each commit: what stays, and references to what lies beside it
 *     doc-<id>.jsonl    the contents of a document
 *     task-<id>.jsonl   the records of a task that has not ended
 *
 * The sidecars (doc, task) are written first, the marker last: it is the commit. A record of a
 * sidecar is confirmed when a marker refers to it by (sequence number, ordinal); what is not confirmed is
 * the rest of a commit that did not happen. Contents before the newest base of a document that keeps no
 * history, and sidecars of tasks that have ended, are obsolete: they may be there or not.
 *
 * Beside them lies recent.journal (jsonl_journal.h), under durability full and only while the session is open,
 * or after a crash.
 *
 * A marker of a commit that was not synced (TCI_COMMIT_LAZY, under durability full) ends in a blank,
 * which readers of JSON do not see. After a power cut it may be there without its sidecars. Lazy
 * markers at the end of main.jsonl with records missing therefore have not happened, while a missing
 * record of any other marker is damage. */
#ifndef TCI_STORE_JSONL_INT_H
#define TCI_STORE_JSONL_INT_H

#include "base/list.h"
#include "plat/file.h"
#include "store/index/indexed.h"
#include "store/jsonl/jsonl_journal.h"

#define TCI_JSONL_MAIN "main.jsonl"
#define TCI_JSONL_RECLAIM ".reclaim"
enum {
    TCI_JSONL_OPEN_MAX = 48,                 /* sidecars held open */
    TCI_JSONL_LINE_MAX = 1024 * 1024 * 1024, /* bytes of a line */
    TCI_JSONL_BUF_KEEP = 128 * 1024,         /* bytes, of memory kept from commit to commit */
    TCI_JSONL_OBSOLETE_MIN = 512 * 1024,     /* bytes, before a sidecar is rewritten */
    TCI_JSONL_OBSOLETE_TIMES = 4,            /* what is needed, likewise */
    TCI_JSONL_WINDOW = 64 * 1024             /* bytes of main.jsonl read at once by scans */
};

/* ---- sidecars (jsonl_files.c) ---- */

struct tci_jsonl_file {
    uint64_t id;
    bool is_task;
    bool is_there;                /* the file has been made */
    bool is_obsolete;             /* all of it: to be removed */
    tci_file f;                   /* NONE: not held open now */
    tci_link lru;                 /* of those held open; the last one used is last */
    tci_link dirty;               /* of those with bytes that are not synced */
    tci_link reclaim;             /* of those that have something obsolete to be cleared away */
    uint64_t size;                /* bytes */
    uint64_t live_from;           /* where what is needed begins; of a document without history */
    size_t first_line, last_line; /* of the commit at hand, one up */
};

struct tci_jsonl {
    tci_indexed base;
    tci_file folder, main; /* main is NONE until the first commit */
    uint64_t main_size;
    bool is_full, is_read_only;
    bool is_main_dirty, is_folder_dirty; /* not synced in place */
    bool must_sync_folder; /* before the journal speaks of what its entries lead to by now */
    tci_jsonl_journal journal;
    tci_id_map files; /* tci_jsonl_file by tci_jsonl_key */
    tci_list open, dirty, reclaim;
    size_t nopen;
    tci_arena arena; /* of the commit at hand */
    tci_buf marker, lines;
    char *window; /* part of main.jsonl */
    uint64_t window_at;
    size_t window_len;
};

enum { TCI_JSONL_NAME_MAX = 48 };
/* "doc-7.jsonl"; in name. */
tc_str tci_jsonl_file_name(bool is_task, uint64_t id, char name[TCI_JSONL_NAME_MAX]);
/* Is it such a name? */
bool tci_jsonl_parse_name(tc_str name, bool *ret_is_task, uint64_t *ret_id);
/* The sidecar's struct, made when it is new; NULL: NO_MEMORY. */
tci_jsonl_file *tci_jsonl_file_put(tci_jsonl *j, bool is_task, uint64_t id, tc_err *err) TC_CHECKED;
tci_jsonl_file *tci_jsonl_file_get(const tci_jsonl *j, bool is_task, uint64_t id); /* or NULL */
/* A key in maps: a file of a task may lie about where there is a document with its id. */
static inline uint64_t tci_jsonl_key(bool is_task, uint64_t id)
{
    return id * 2 + is_task;
}
/* Have it open (made when missing unless read-only), closing another one when there are too many. */
int tci_jsonl_file_open(tci_jsonl *j, tci_jsonl_file *f, tc_err *err) TC_CHECKED;
int tci_jsonl_file_append(tci_jsonl *j, tci_jsonl_file *f, tc_str text, tc_err *err) TC_CHECKED;
void tci_jsonl_file_shut(tci_jsonl *j, tci_jsonl_file *f); /* close the descriptor */
void tci_jsonl_files_done(tci_jsonl *j);
/* Sync what is dirty: sidecars, then the folder. */
int tci_jsonl_sync_sidecars(tci_jsonl *j, tc_err *err) TC_CHECKED;
/* Sync what is dirty: sidecars, the folder, main.jsonl. */
int tci_jsonl_sync_all(tci_jsonl *j, tc_err *err) TC_CHECKED;
/* Open main.jsonl, made when missing. */
int tci_jsonl_open_main(tci_jsonl *j, tc_err *err) TC_CHECKED;

/* tci_load_fn of this backend; user is the tci_jsonl. */
int tci_jsonl_load(void *user, uint64_t document_id, uint64_t offset, size_t len, int direction,
                   char *out, tc_err *err) TC_CHECKED;

/* ---- clearing away (jsonl_reclaim.c): best effort ---- */

/* Note that the file has something obsolete. */
void tci_jsonl_obsolete(tci_jsonl *j, tci_jsonl_file *f);
typedef enum tci_reclaim_how {
    TCI_RECLAIM_WORTH, /* what is worth it */
    TCI_RECLAIM_ALL    /* at opening and closing */
} tci_reclaim_how;
/* Remove and rewrite. Waits until main.jsonl is synced when it has to be. */
void tci_jsonl_reclaim(tci_jsonl *j, tci_reclaim_how how);

/* ---- lines (jsonl_line.c) ---- */

/* A write of a marker. has_sidecar: the record or content is in the sidecar, under ordinal. */
typedef struct tci_jsonl_write {
    tci_write w; /* texts are borrowed from the line, or in the arena */
    tc_str record;
    bool has_sidecar;
    bool is_bad; /* read loosely: sound JSON, and no such write */
    uint64_t ordinal;
} tci_jsonl_write;
typedef struct tci_jsonl_marker {
    uint64_t seq;
    bool is_lazy;
    bool is_cut; /* read loosely: what comes behind the writes cannot be read */
    tci_jsonl_write *writes;
    size_t nwrites;
} tci_jsonl_marker;
/* A line without its end. PARSE with what is wrong. */
int tci_jsonl_parse_marker(tc_str line, tci_arena *a, tci_jsonl_marker *ret,
                           tc_err *err) TC_CHECKED;

/* For salvaging: writes that are wrong are marked, and of a line that is broken within its writes those
 * before the break are there. PARSE: nothing can be told. */
int tci_jsonl_parse_loosely(tc_str line, tci_arena *a, tci_jsonl_marker *ret,
                            tc_err *err) TC_CHECKED;

/* A line of a sidecar. value: the task's record, or the value or operations of a content. */
typedef struct tci_jsonl_record {
    uint64_t seq, ordinal, id;
    bool is_task;
    tci_task task;       /* of a task */
    tci_content content; /* of a document */
    tc_str value;
} tci_jsonl_record;
int tci_jsonl_parse_record(tc_str line, tci_arena *a, tci_jsonl_record *ret,
                           tc_err *err) TC_CHECKED;
/* The record of a task, from its text: the fields an index needs. */
int tci_jsonl_parse_task(tc_str text, tci_arena *a, tci_task *ret, tc_err *err) TC_CHECKED;

/* Lines of a file from its start, read in pieces. */
typedef struct tci_jsonl_reader {
    tci_file f;
    uint64_t limit;       /* bytes that are looked at */
    uint64_t at;          /* offset of the line that comes next */
    tci_buf buf;          /* the bytes from at on, as far as they were read */
    size_t used, scanned; /* of the buffer: the last line; without an end of line */
    unsigned number;      /* of the last line, from 1 */
} tci_jsonl_reader;
void tci_jsonl_reader_init(tci_jsonl_reader *r, tci_file f, uint64_t limit);
void tci_jsonl_reader_done(tci_jsonl_reader *r);
/* 1: *ret_line without its end, valid until the next call, and its offset; 0: the end, and *ret_offset
 * is where a line that has no end begins (or limit); negative: an error. */
int tci_jsonl_reader_next(tci_jsonl_reader *r, tc_str *ret_line, uint64_t *ret_offset,
                          tc_err *err) TC_CHECKED;

/* ---- opening (jsonl_open.c, jsonl_replay.c) ---- */

/* One record of a sidecar, while a session is being opened. */
typedef struct tci_jsonl_rec {
    uint64_t seq, ordinal, id, version;
    uint64_t line_at, value_at;
    uint32_t value_len;
    bool is_task, is_delta, is_confirmed;
    tci_place text; /* read-only: its value, as the file may be replaced by its owner */
} tci_jsonl_rec;
typedef struct tci_jsonl_sidecar {
    tci_jsonl_file *file;
    tci_jsonl_rec *recs;
    size_t nrecs, cap;
    size_t cursor;  /* where the next reference is expected */
    uint64_t end;   /* behind the last whole line, then behind the last confirmed one */
    uint64_t size;  /* of the file */
    bool is_recent; /* written not long ago: its writer may have died before it was synced */
} tci_jsonl_sidecar;

/* A reference to a record that is not there. */
typedef struct tci_jsonl_missing {
    uint64_t seq, id;
    bool is_task;
    uint64_t marker_at;
} tci_jsonl_missing;

/* What opening has found, before anything is changed. */
typedef struct tci_jsonl_opening {
    tci_jsonl *j;
    tci_jsonl_sidecar *sidecars;
    size_t nsidecars, cap;
    tci_id_map by_key; /* number of a sidecar, one up */
    tci_jsonl_missing *missing;
    size_t nmissing, missing_cap;
    uint64_t main_limit; /* bytes of main.jsonl that are looked at */
    uint64_t main_end;   /* behind the last marker that counts */
    uint64_t lazy_from;  /* first of the lazy markers at the end */
    bool is_cut; /* lazy markers without their records: main_limit was lowered, do it again */
} tci_jsonl_opening;
/* Main is not there although its commits were: what the sidecars hold is not from the first of them. */
bool tci_jsonl_has_lost_main(const tci_jsonl *j, const tci_jsonl_opening *o);

int tci_jsonl_read_sidecar(tci_jsonl_opening *o, tci_jsonl_file *f, tc_err *err) TC_CHECKED;
/* Read main.jsonl and take its commits into the index. */
int tci_jsonl_replay(tci_jsonl_opening *o, tc_err *err) TC_CHECKED;
void tci_jsonl_opening_done(tci_jsonl_opening *o);
/* Was a file with these facts written not long ago? */
bool tci_jsonl_is_recent(const tci_file_stat *st);
/* Damage: PARSE with the place in front of the message in *err. */
int tci_jsonl_damage(tc_err *err, tc_str file, uint64_t offset);

/* ---- committing (jsonl_commit.c) ---- */

int tci_jsonl_commit(tci_store *store, const tci_write *writes, size_t nwrites, tci_commit_how how,
                     uint64_t *ret_seq, tc_err *err) TC_CHECKED;

#endif
