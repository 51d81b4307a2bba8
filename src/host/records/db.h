/* SPDX-License-Identifier: Apache-2.0
 *
 * The Host's records: one SQLite file `host.sqlite` in a folder of its own. Everything that has been
 * answered is on the disk by then. What the rows mean is for devices.h and owners.h. Blocks; any thread, one
 * at a time. */
#ifndef TCI_HOST_DB_H
#define TCI_HOST_DB_H

#include "base/arena.h"

typedef struct tci_host_db tci_host_db;

enum { TCI_HOST_SCHEMA_VERSION = 2 };

/* Open the records in folder, as their only owner; both are made when they are missing, for this user alone
 * (0700 and 0600).
 * Errors: BUSY (another process has them, named in the message), DENIED (others may look into the folder),
 * INCOMPATIBLE (of a newer version), PARSE (no such records), and what the system says. */
int tci_host_db_open(tc_str folder, tci_host_db **ret_db, tc_err *err) TC_CHECKED;
/* NULL is fine. */
void tci_host_db_close(tci_host_db *db);

/* A change is whole or not at all: begin, then commit, or roll back (fine when nothing is open). */
int tci_host_db_begin(tci_host_db *db, tc_err *err) TC_CHECKED;
int tci_host_db_commit(tci_host_db *db, tc_err *err) TC_CHECKED;
void tci_host_db_rollback(tci_host_db *db);

/* One statement: open, bind its parameters (from 1 on; what is bound is borrowed until close), then step. A
 * time of 0 is stored as NULL and read as 0. */
typedef struct tci_query {
    tci_host_db *db;
    struct sqlite3_stmt *stmt;
} tci_query;
int tci_query_open(tci_query *q, tci_host_db *db, const char *sql, tc_err *err) TC_CHECKED;
void tci_query_close(tci_query *q); /* fine when it is not open */
void tci_query_bind_str(tci_query *q, int at, tc_str text);
void tci_query_bind_bytes(tci_query *q, int at, const void *bytes, size_t len);
void tci_query_bind_int(tci_query *q, int at, int64_t value);
void tci_query_bind_time(tci_query *q, int at, int64_t ms);
/* 1: a row; 0: no (more) rows. CONFLICT: a row like this is there already. */
int tci_query_step(tci_query *q, tc_err *err) TC_CHECKED;
/* A statement that answers nothing, once, and close it. *ret_changed may be NULL. */
int tci_query_run(tci_query *q, size_t *ret_changed, tc_err *err) TC_CHECKED;
int64_t tci_query_int(const tci_query *q, int column); /* columns from 0 on; 0 for NULL */
/* Until the next step. */
tc_str tci_query_str(const tci_query *q, int column);
typedef struct tci_query_text {
    int column;
    tc_str *to;
} tci_query_text;
/* Copies of texts of the row, in a. */
int tci_query_dup(const tci_query *q, const tci_query_text *texts, size_t count, tci_arena *a,
                  tc_err *err) TC_CHECKED;

#endif
