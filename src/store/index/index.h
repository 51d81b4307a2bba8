/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session consists of, in memory: of each record its few facts and where its text lies, found by
 * id and by what the scans ask for. It checks a batch, takes it over, and answers every read. Where texts
 * lie and how they got there is the backend's: on the heap, or in a file it loads from. One
 * thread at a time. */
#ifndef TCI_STORE_INDEX_H
#define TCI_STORE_INDEX_H

#include "base/map.h"
#include "store/ids.h"
#include "store/store.h"

/* Where a text lies. Zeroed: nowhere (the record is not kept). */
typedef struct tci_place {
    union {
        uint64_t offset; /* in the file that the loader knows */
        char *text;      /* on the heap, owned */
    } u;
    uint32_t len;
    bool is_heap;
} tci_place;
enum { TCI_RECORD_MAX = 256 * 1024 * 1024 }; /* bytes of one text */

/* A copy on the heap. */
int tci_place_dup(tc_str text, tci_place *ret, tc_err *err) TC_CHECKED;
void tci_place_done(tci_place *p);

/* Fetch len bytes. document_id 0: a record; else a content of that document. direction: the next
 * one will lie before (-1) or behind (1) this one, or anywhere (0). */
typedef int (*tci_load_fn)(void *user, uint64_t document_id, uint64_t offset, size_t len,
                           int direction, char *out, tc_err *err);

/* A table of structs that begin with their id, ascending. Zeroed with a stride is empty. */
typedef struct tci_table {
    char *base;
    size_t stride, count, cap;
} tci_table;

typedef struct tci_ix_conversation {
    uint64_t id, parent_id, parent_at, owner_conversation_id, owner_task_id;
    tci_place place;
} tci_ix_conversation;
typedef struct tci_ix_entry {
    uint64_t id, conversation_id, head, seq;
    tci_place place;
} tci_ix_entry;
typedef struct tci_ix_task {
    uint64_t id, conversation_id;
    uint32_t kind; /* number of the name */
    uint8_t status;
    bool is_abort_requested, is_background;
    tci_place place;
} tci_ix_task;
typedef struct tci_ix_submission {
    uint64_t id, conversation_id;
    uint64_t request_hash;
    bool has_request_id;
    uint8_t status;
    tci_place place;
} tci_ix_submission;
typedef struct tci_revision {
    uint64_t seq, version;
    bool is_delta;
    tci_place place;
} tci_revision;
typedef struct tci_ix_document {
    uint64_t id;
    struct tci_doc *doc;
} tci_ix_document;
typedef struct tci_doc {
    tci_document record; /* texts on the heap; json as it was created */
    tci_revision *revisions;
    size_t nrevisions, cap;
    uint64_t address_hash;
} tci_doc;

typedef struct tci_index {
    tci_table conversations, entries, tasks, submissions, documents;
    tci_postings lists;
    tci_map kinds; /* of tasks: name to kind_name */
    uint32_t nkinds;
    tci_id_map batch;  /* the ids of the batch being checked */
    tci_id_map hashes; /* the addresses of the documents it makes */
    tci_arena scratch;
    uint64_t next_id, next_seq;
    tci_load_fn load;
    void *user;
} tci_index;

/* No allocation. load may be NULL when every text is on the heap. */
void tci_index_init(tci_index *ix, tci_load_fn load, void *user);
void tci_index_done(tci_index *ix);

int tci_index_mint(tci_index *ix, uint64_t *ret_id, tc_err *err) TC_CHECKED;

/* ---- a batch ---- */

/* A batch that may be stored. Lives in the arena of its check. */
typedef struct tci_batch {
    const tci_write *writes;
    size_t nwrites;
    tc_str *records;       /* by write: the text of its record; empty where there is none */
    tci_content *contents; /* by write: what is to be stored; of copies, what they copy */
    struct tci_doc_step *docs;
    size_t ndocs;
} tci_batch;

typedef enum tci_check_how {
    TCI_CHECK_TEXTS, /* look at the texts too */
    TCI_CHECK_KNOWN  /* they were looked at when they were read */
} tci_check_how;
/* All rules for a whole batch; nothing is changed. Errors as tci_store_commit; others from loading
 * the source of a copy. */
int tci_index_check(tci_index *ix, const tci_write *writes, size_t nwrites, tci_check_how how,
                    tci_arena *a, tci_batch *ret, tc_err *err) TC_CHECKED;

/* Where the texts of a write have come to lie; heap places are taken over, also on failure. */
typedef struct tci_placed {
    tci_place record, content;
} tci_placed;
/* Take a checked batch over as commit seq. NO_MEMORY leaves the index useless. placed: one for each
 * write. */
int tci_index_apply(tci_index *ix, const tci_batch *batch, uint64_t seq, tci_placed *placed,
                    tc_err *err) TC_CHECKED;

/* The document, or NULL. */
tci_doc *tci_index_doc(const tci_index *ix, uint64_t id);
/* The task, or NULL. */
const tci_ix_task *tci_index_task(const tci_index *ix, uint64_t id);

/* ---- reading: the contracts are those of store.h and store_int.h ---- */

int tci_index_conversation(tci_index *ix, uint64_t id, tci_arena *a, tci_conversation *ret,
                           tc_err *err) TC_CHECKED;
int tci_index_read_task(tci_index *ix, uint64_t id, tci_arena *a, tci_task *ret,
                        tc_err *err) TC_CHECKED;
int tci_index_submission(tci_index *ix, uint64_t id, tci_arena *a, tci_submission *ret,
                         tc_err *err) TC_CHECKED;
int tci_index_entry(tci_index *ix, uint64_t conversation_id, uint64_t id, tci_arena *a,
                    tci_entry *ret, uint64_t *ret_seq, tc_err *err) TC_CHECKED;
int tci_index_head_marker(tci_index *ix, uint64_t conversation_id, uint64_t cutoff, tci_arena *a,
                          tci_entry *ret, tc_err *err) TC_CHECKED;
int tci_index_by_request(tci_index *ix, uint64_t conversation_id, tc_str request_id, tci_arena *a,
                         tci_submission *ret, tc_err *err) TC_CHECKED;
int tci_index_find_document(tci_index *ix, const tci_address *address, uint64_t at, tci_arena *a,
                            tci_document *ret, tc_err *err) TC_CHECKED;
int tci_index_document(tci_index *ix, uint64_t id, uint64_t at, tci_arena *a,
                       tci_document_state *ret, tci_tree *ret_value, tc_err *err) TC_CHECKED;
int tci_index_scan_conversations(tci_index *ix, uint64_t owner_conversation_id,
                                 uint64_t owner_task_id, const tci_page *page, tci_arena *a,
                                 tci_conversation **ret, size_t *ret_count, tci_cursor *ret_next,
                                 tc_err *err) TC_CHECKED;
int tci_index_scan_entries(tci_index *ix, uint64_t conversation_id, uint64_t min, uint64_t max,
                           const tci_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                           size_t *ret_count, tci_cursor *ret_next, tc_err *err) TC_CHECKED;
int tci_index_scan_tasks(tci_index *ix, const tci_task_query *query, const tci_page *page,
                         tci_arena *a, tci_task **ret, size_t *ret_count, tci_cursor *ret_next,
                         tc_err *err) TC_CHECKED;
int tci_index_scan_submissions(tci_index *ix, uint64_t conversation_id, int status,
                               const tci_page *page, tci_arena *a, tci_submission **ret,
                               size_t *ret_count, tci_cursor *ret_next, tc_err *err) TC_CHECKED;
int tci_index_scan_documents(tci_index *ix, int scope, uint64_t owner_id, tc_str kind, uint64_t at,
                             const tci_page *page, tci_arena *a, tci_document **ret,
                             size_t *ret_count, tci_cursor *ret_next, tc_err *err) TC_CHECKED;

#endif
