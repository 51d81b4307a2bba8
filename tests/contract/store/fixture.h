/* SPDX-License-Identifier: Apache-2.0
 *
 * One storage of the backend under test, and short ways to write to it and to look at it. Records are
 * written as JSON here as they would be stored. In the runs named "reopen" every commit is
 * followed by closing and opening. */
#ifndef CONTRACT_STORE_FIXTURE_H
#define CONTRACT_STORE_FIXTURE_H

#include "store/store.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { WRITES_MAX = 700 };

typedef struct rig {
    tci_store *store;
    tci_arena arena; /* until the end of the case: what was read stays valid over reopening */
    tci_write writes[WRITES_MAX];
    size_t nwrites;
    char path[512];
    tc_err err;
} rig;

/* Of the command line: the backend, and whether to reopen. */
int contract_start(int argc, char **argv);
bool contract_reopens(void);

int rig_setup(void **state);
int rig_teardown(void **state);
void rig_reopen(rig *r);

/* ---- a batch: writes one after the other, then commit ---- */

void conversation(rig *r, const char *json);
void entry(rig *r, const char *json);
void task(rig *r, const char *json);
void submission(rig *r, const char *json);
void create(rig *r, const char *record, uint64_t version, const char *value);
void copy(rig *r, const char *record, uint64_t source, uint64_t at);
void base(rig *r, uint64_t id, uint64_t version, const char *value);
void delta(rig *r, uint64_t id, uint64_t version, const char *ops);
void retire(rig *r, uint64_t id);

#define commit(r) commit_at((r), __FILE__, __LINE__)
#define refuse(r, text) refuse_at((r), (text), __FILE__, __LINE__)
uint64_t commit_at(rig *r, const char *file, int line);
/* The batch must fail with this in its message and leave the storage usable. */
void refuse_at(rig *r, const char *text, const char *file, int line);

/* Shorthand for records that only have to exist: an entry of kind "t" (head 0: none), a pending task. */
void plain_entry(rig *r, uint64_t id, uint64_t conversation_id, uint64_t head);
void plain_task(rig *r, uint64_t id, uint64_t conversation_id, const char *kind, const char *state);
/* The record of a document of a conversation, of history "latest" or "rewindable". */
const char *doc_record(rig *r, uint64_t id, uint64_t conversation_id, const char *kind,
                       const char *history);

/* ---- looking ---- */

#define same_json(r, actual, expected) same_json_at((r), (actual), (expected), __FILE__, __LINE__)
void same_json_at(rig *r, tc_str actual, const char *expected, const char *file, int line);
/* The value of a document, its version and its deltas since the base. at 0: now. */
#define same_value(r, id, at, version, deltas, expected) \
    same_value_at((r), (id), (at), (version), (deltas), (expected), __FILE__, __LINE__)
void same_value_at(rig *r, uint64_t id, uint64_t at, uint64_t version, uint64_t deltas,
                   const char *expected, const char *file, int line);
/* A document cannot be read there: it does not exist, or is not alive. */
#define no_document(r, id, at) no_document_at((r), (id), (at), __FILE__, __LINE__)
void no_document_at(rig *r, uint64_t id, uint64_t at, const char *file, int line);
uint64_t mint(rig *r);
tci_task read_task(rig *r, uint64_t id);
tci_submission read_submission(rig *r, uint64_t id);
tci_entry read_entry(rig *r, uint64_t conversation_id, uint64_t id, uint64_t *ret_seq);
uint64_t head_marker(rig *r, uint64_t conversation_id, uint64_t cutoff);
/* Id of the document alive at an address; key NULL: none. */
uint64_t find(rig *r, const char *kind, tci_scope scope, uint64_t owner, const char *key,
              uint64_t at);

/* A page of ids as "30 20 10", with "+" behind it when there are more; order as in store.h. The cursor
 * is moved on. */
const char *entries(rig *r, uint64_t conversation_id, uint64_t min, uint64_t max, size_t limit,
                    tci_order order, tci_cursor *cursor);
const char *conversations(rig *r, uint64_t owner_conversation, uint64_t owner_task, size_t limit,
                          tci_order order, tci_cursor *cursor);
const char *tasks(rig *r, const tci_task_query *q, size_t limit, tci_order order,
                  tci_cursor *cursor);
const char *submissions(rig *r, uint64_t conversation_id, int status, size_t limit, tci_order order,
                        tci_cursor *cursor);
const char *documents(rig *r, int scope, uint64_t owner, const char *kind, uint64_t at,
                      size_t limit, tci_cursor *cursor);

/* The cases of one file. */
extern const struct CMUnitTest record_cases[], scan_cases[], document_cases[];
extern const size_t nrecord_cases, nscan_cases, ndocument_cases;

#endif
