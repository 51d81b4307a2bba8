/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the index share: its tables and lists, and documents. */
#ifndef TCI_STORE_INDEX_INT_H
#define TCI_STORE_INDEX_INT_H

#include "store/index/index.h"

/* What a list of ids has in common; the key beside it is in brackets. */
typedef enum tci_list_of {
    TCI_LIST_ENTRIES,       /* of a conversation [id] */
    TCI_LIST_HEADS,         /* entries with a head, of a conversation [id] */
    TCI_LIST_OWNED_BY,      /* conversations owned by tasks of a conversation [id] */
    TCI_LIST_OWNED_BY_TASK, /* conversations [task id] */
    TCI_LIST_TASKS,         /* of a conversation [id] */
    TCI_LIST_TASK_STATUS,   /* [status] */
    TCI_LIST_TASK_ABORT,    /* abort requested [0] */
    TCI_LIST_SUBMISSIONS,   /* of a conversation [id] */
    TCI_LIST_SUB_STATUS,    /* [status] */
    TCI_LIST_REQUEST,       /* submissions [hash of conversation and request id] */
    TCI_LIST_ADDRESS,       /* documents [hash of the address] */
    TCI_LIST_SCOPE          /* documents, one number for each scope kind [owner id] */
} tci_list_of;

/* What a batch does to one document. Numbers of writes are one up: 0 is none. */
typedef struct tci_doc_step {
    uint64_t id;
    tci_doc *doc; /* before the batch; NULL: made by it */
    size_t content, retire;
    uint64_t address_hash; /* of one made by it */
    size_t same_hash;      /* the one before with this hash, one up */
} tci_doc_step;

void *tci_table_find(const tci_table *t, uint64_t id); /* NULL when there is none */
/* The struct with id, made (zeroed) when there is none; NULL: NO_MEMORY. Valid until the next one
 * is made. */
void *tci_table_put(tci_table *t, uint64_t id) TC_CHECKED;
static inline tci_id_view tci_table_view(const tci_table *t)
{
    return (tci_id_view){t->base, t->stride, t->count};
}

uint64_t tci_request_hash(uint64_t conversation_id, tc_str request_id);
uint64_t tci_address_hash(const tci_document *d);
bool tci_address_equal(const tci_document *a, const tci_document *b);
/* Number of a task kind; 0 when no task has it. */
uint32_t tci_index_kind(const tci_index *ix, tc_str kind);
/* The same, numbering one that is new; 0: NO_MEMORY. */
uint32_t tci_index_add_kind(tci_index *ix, tc_str kind, tc_err *err) TC_CHECKED;

/* The conversations whose entries are seen from one: itself, then its ancestors, each up to a cap. */
typedef struct tci_segments {
    const tci_index *ix;
    const tci_ix_conversation *c; /* the next one */
    uint64_t cap;
    size_t left;
} tci_segments;
/* NOT_FOUND: unknown conversation. */
int tci_segments_of(const tci_index *ix, uint64_t conversation_id, tci_segments *ret,
                    tc_err *err) TC_CHECKED;
bool tci_segments_next(tci_segments *s, uint64_t *ret_conversation, uint64_t *ret_cap);

/* The text of a place, in a. */
int tci_index_text(tci_index *ix, const tci_place *place, uint64_t document_id, int direction,
                   tci_arena *a, tc_str *ret, tc_err *err) TC_CHECKED;
/* Is a document alive at a point (0: now)? */
bool tci_doc_is_alive(const tci_doc *doc, uint64_t at);
/* Revisions up to a point: *ret_base is the newest base, *ret_end is behind the last one. False
 * when there is none. */
bool tci_doc_range(const tci_doc *doc, uint64_t at, size_t *ret_base, size_t *ret_end);
/* The value that these revisions lead to. */
int tci_doc_value(tci_index *ix, const tci_doc *doc, size_t base, size_t end, tci_tree *ret,
                  tc_err *err) TC_CHECKED;
/* The record as it is handed out, in a. */
int tci_doc_record(const tci_doc *doc, tci_arena *a, tci_document *ret, tc_err *err) TC_CHECKED;
/* UNSUPPORTED when history is asked for and not kept. */
int tci_doc_check_point(const tci_doc *doc, uint64_t at, tc_err *err) TC_CHECKED;

#endif
