/* SPDX-License-Identifier: Apache-2.0
 *
 * Durable records: the JSON texts a session is made of, and the fields of them that our code acts
 * on. A record keeps its text: a field we do not know stays in it, whatever is rewritten
 * (tci_json_edit in base/json_tree.h). Decoding is strict about what it knows: a missing field, a
 * wrong type or range is PARSE with the path of the field. Field names are the persisted ones.
 * Texts in the structs are decoded (WTF-8: a lone surrogate is three bytes) and borrowed from the
 * JSON and the arena. Any thread. */
#ifndef TCI_PROTO_DURABLE_H
#define TCI_PROTO_DURABLE_H

#include "base/json.h"

/* Conversations, entries, tasks, submissions and documents share one namespace of ids. 0: none. */
#define TCI_ID_MAX UINT64_C(9007199254740991)
enum { TCI_ROOT_ID = 1 };

typedef enum tci_record_type {
    TCI_RECORD_CONVERSATION,
    TCI_RECORD_ENTRY,
    TCI_RECORD_TASK,
    TCI_RECORD_SUBMISSION,
    TCI_RECORD_DOCUMENT
} tci_record_type;
enum { TCI_RECORD_TYPES = 5 };
const char *tci_record_type_name(tci_record_type type); /* "conversation"; static storage */

typedef struct tci_conversation {
    tc_str json;
    uint64_t id;
    uint64_t parent_id, parent_at;                 /* of a fork, else 0 */
    uint64_t owner_conversation_id, owner_task_id; /* 0: nobody's */
} tci_conversation;

typedef struct tci_entry {
    tc_str json;
    uint64_t id, conversation_id;
    tc_str kind;
    uint64_t head;       /* of a head marker, else 0 */
    uint64_t by_task_id; /* 0: none */
    bool has_model, has_edits;
} tci_entry;

typedef enum tci_task_status {
    TCI_TASK_PENDING,
    TCI_TASK_RUNNING,
    TCI_TASK_WAITING,
    TCI_TASK_SLEEPING,
    TCI_TASK_COMPLETING,
    TCI_TASK_TERMINAL
} tci_task_status;
enum { TCI_TASK_STATUSES = 6 };
const char *tci_task_status_name(tci_task_status status);
bool tci_task_status_of(tc_str name, tci_task_status *ret);

typedef struct tci_task {
    tc_str json;
    uint64_t id, conversation_id;
    tc_str kind;
    uint64_t version;
    uint64_t owner; /* 0: its conversation */
    bool is_background, is_abort_requested;
    bool is_abort_by_restart; /* abortReason "restart" */
    bool is_abandoned_on_restart;
    int64_t started_at, ended_at; /* ms; 0: absent */
    uint64_t restarts;            /* 0: absent */
    tci_task_status status;
} tci_task;

typedef enum tci_submission_type { TCI_SUBMISSION_INPUT, TCI_SUBMISSION_WRITE } tci_submission_type;
typedef enum tci_submission_status {
    TCI_SUBMISSION_QUEUED,
    TCI_SUBMISSION_PLACED,
    TCI_SUBMISSION_DONE,
    TCI_SUBMISSION_UNANSWERED
} tci_submission_status;
enum { TCI_SUBMISSION_STATUSES = 4 };
const char *tci_submission_status_name(tci_submission_status status);
bool tci_submission_status_of(tc_str name, tci_submission_status *ret);

typedef struct tci_submission {
    tc_str json;
    uint64_t id, conversation_id;
    bool has_request_id;
    tc_str request_id;
    tci_submission_type type;
    tci_submission_status status;
    uint64_t entry, answer; /* 0: absent */
    tc_str reason;          /* empty: absent */
} tci_submission;

typedef enum tci_scope { TCI_SCOPE_SESSION, TCI_SCOPE_CONVERSATION, TCI_SCOPE_TASK } tci_scope;
const char *tci_scope_name(tci_scope scope);
typedef enum tci_history {
    TCI_HISTORY_NONE,
    TCI_HISTORY_LATEST,
    TCI_HISTORY_REWINDABLE
} tci_history;
typedef enum tci_fork {
    TCI_FORK_NONE,
    TCI_FORK_AS_OF,
    TCI_FORK_CURRENT,
    TCI_FORK_INITIAL
} tci_fork;

/* One incarnation of a document. json in storage holds createdAt and retiredAt; in a create it does
 * not. history and fork are NONE unless the scope is a conversation. */
typedef struct tci_document {
    tc_str json;
    uint64_t id;
    tc_str kind;
    tci_scope scope;
    uint64_t owner_id; /* 0 for session scope */
    bool has_key;
    tc_str key;
    tci_history history;
    tci_fork fork;
    uint64_t created_at, retired_at; /* sequence numbers; 0: absent */
} tci_document;

/* Only the newest content of these is kept. */
static inline bool tci_document_is_current_only(const tci_document *d)
{
    return d->history != TCI_HISTORY_REWINDABLE;
}

/* A whole value, or what changes it. json: the object, or the array of operations. */
typedef struct tci_content {
    bool is_delta;
    uint64_t version;
    tc_str json;
} tci_content;

/* From a parsed record (parse with TCI_JSON_KEEP_SURROGATES); text is what it was parsed from and
 * becomes ret->json. */
int tci_conversation_of(const tci_json *v, tc_str text, tci_conversation *ret,
                        tc_err *err) TC_CHECKED;
int tci_entry_of(const tci_json *v, tc_str text, tci_entry *ret, tc_err *err) TC_CHECKED;
int tci_task_of(const tci_json *v, tc_str text, tci_task *ret, tc_err *err) TC_CHECKED;
int tci_submission_of(const tci_json *v, tc_str text, tci_submission *ret, tc_err *err) TC_CHECKED;
int tci_document_of(const tci_json *v, tc_str text, tci_document *ret, tc_err *err) TC_CHECKED;

/* The same from text: parses into a, which then holds the tree as well (*ret_tree; NULL: not
 * wanted). */
int tci_conversation_parse(tc_str text, tci_arena *a, tci_conversation *ret,
                           tc_err *err) TC_CHECKED;
int tci_entry_parse(tc_str text, tci_arena *a, const tci_json **ret_tree, tci_entry *ret,
                    tc_err *err) TC_CHECKED;
int tci_task_parse(tc_str text, tci_arena *a, const tci_json **ret_tree, tci_task *ret,
                   tc_err *err) TC_CHECKED;
int tci_submission_parse(tc_str text, tci_arena *a, tci_submission *ret, tc_err *err) TC_CHECKED;
int tci_document_parse(tc_str text, tci_arena *a, tci_document *ret, tc_err *err) TC_CHECKED;

/* The records whose whole content is in their struct, as text. A document without createdAt and
 * retiredAt where they are 0. */
void tci_conversation_put(tci_buf *b, const tci_conversation *c);
void tci_document_put(tci_buf *b, const tci_document *d);

/* An id, sequence number or version as the originals demand it: a plain integer token, 1 to
 * TCI_ID_MAX. */
bool tci_json_as_id(const tci_json *v, uint64_t *ret);

#endif
