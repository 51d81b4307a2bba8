/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of a session share. Everything in a tc_durable is guarded by its line unless a comment
 * says otherwise; locks are taken in the order line, watch, state of the session (m). */
#ifndef TCI_SESSION_INT_H
#define TCI_SESSION_INT_H

#include "base/list.h"
#include "base/map.h"
#include "session/session.h"
#include "store/delta.h"
#include "store/store.h"

/* ---- line.c: the lock of a session ---- */

struct tci_line_waiter;
/* Who comes first mostly goes first: a waiter that was woken and found the line taken again gets it
 * handed over the next time. */
typedef struct tci_line {
    tci_mutex m;
    bool is_held;
    struct tci_line_waiter *first, *last;
    atomic_uintptr_t owner; /* tci_thread_mark of who has it; 0: nobody */
} tci_line;

uintptr_t tci_thread_mark(void); /* different for every thread that lives */
void tci_line_init(tci_line *l);
void tci_line_done(tci_line *l);
/* ctx NULL: never fails. CANCELLED, TIMEOUT: not taken. */
int tci_line_lock(tci_line *l, tc_ctx *ctx, tc_err *err) TC_CHECKED;
void tci_line_lock_always(tci_line *l);
void tci_line_unlock(tci_line *l);
static inline bool tci_line_is_mine(const tci_line *l)
{
    return atomic_load_explicit(&l->owner, memory_order_relaxed) == tci_thread_mark();
}

/* ---- a session ---- */

typedef enum tci_phase { TCI_PHASE_OPEN, TCI_PHASE_CLOSING, TCI_PHASE_CLOSED } tci_phase;

enum { TCI_KNOWN_CONVERSATIONS = 64 };

struct tc_durable {
    atomic_uint refs; /* the handle, every observer, every listener */
    tci_line line;
    unsigned depth; /* nested uses by the thread that has the line */

    tci_store *store;     /* NULL: closed */
    tci_map docs;         /* address key to tci_loaded */
    tci_list idle;        /* tci_loaded that nobody observes, longest unused first */
    tc_tx *tx;            /* the one transaction, reused */
    bool is_tx_open;      /* its drafts are what readers on the line see */
    unsigned npublishing; /* listeners are being called: nothing they know may be freed */
    tci_list removed;     /* tc_listener, tc_state: to be freed when that ends */
    tci_list internal_listeners, commit_listeners; /* tc_listener */
    tci_list states, watches;
    tc_result *scratch; /* of document definitions' functions */
    tci_arena arena;    /* of single reads */
    atomic_uint_fast64_t seq;
    uint64_t known[TCI_KNOWN_CONVERSATIONS]; /* ids that exist, for good, by their low bits */

    tci_durable_hooks hooks;
    bool is_read_only;
    int64_t retention_ns; /* INT64_MAX: forever; 0: none */
    int64_t (*now_ms)(void *user);
    void *now_user;

    tci_mutex m;        /* what follows */
    atomic_int phase;   /* tci_phase */
    atomic_bool failed; /* cause is set */
    tc_err cause;
    bool is_torn_down; /* after a failure: observers ended, storage closed (line) */
    bool is_told;      /* close listeners were called or are being called */
    tci_list close_listeners;
    tc_listener *telling; /* being called, by telling_mark */
    uintptr_t telling_mark, closer_mark;
    bool is_joining;
    tci_wake changed; /* phase or telling */
};

void tci_durable_ref(tc_durable *s);
void tci_durable_unref(tc_durable *s);

/* For reading functions: CLOSED when closing, unless this thread has the line already. */
int tci_session_read(tc_durable *s, tc_err *err) TC_CHECKED;
/* After the outermost: tear down after a failure, sweep, unlock, tell. */
void tci_session_leave(tc_durable *s);
/* rc of a reading call of the storage: any failure that is not about the request ends the session. */
int tci_session_after_read(tc_durable *s, int rc, tc_err *err) TC_CHECKED;
/* rc of commit and mint: any failure ends the session. */
int tci_session_after_write(tc_durable *s, int rc, tc_err *err) TC_CHECKED;
int tci_session_mint(tc_durable *s, uint64_t *ret_id, tc_err *err) TC_CHECKED;
/* End every watch and state. On the line. */
void tci_session_end_observers(tc_durable *s, const tc_err *failure);
/* Drop every document. On the line. */
void tci_session_drop_docs(tc_durable *s);
void tci_session_sweep_docs(tc_durable *s);

/* page as the storage wants it. */
tci_page tci_page_of(const tc_page *page);
void tci_cursor_back(tci_cursor next, tc_cursor *ret_next); /* ret_next may be NULL */

/* ---- docs.c: documents in memory ---- */

/* One incarnation. Counted: the map, a draft that made it, every state. */
typedef struct tci_loaded {
    unsigned refs;
    tc_str address_key; /* in the map */
    bool is_installed;
    tci_link in_idle;
    int64_t used_ns;
    tci_document record; /* texts in this block */
    uint64_t stored_version, value_version, deltas_since_base;
    tci_tree value;
    tc_doc *draft;            /* of the open transaction, or NULL */
    tci_list states, watches; /* bound to it */
} tci_loaded;

/* Address with its key in the map. Built on a stack where it is short, else in an arena. */
enum { TCI_ADDRESS_KEY_SHORT = 192 };
typedef struct tci_address_key {
    tc_str text;
    char room[TCI_ADDRESS_KEY_SHORT];
} tci_address_key;
int tci_address_key_of(const tci_address *address, tci_arena *a, tci_address_key *ret,
                       tc_err *err) TC_CHECKED;
/* The address def, owner and key mean. INVALID: a definition or owner that cannot be. */
int tci_address_of(const tc_doc_def *def, uint64_t owner, tc_str key, tci_address *ret,
                   tc_err *err) TC_CHECKED;
bool tci_address_is(const tci_address *address, const tci_document *record);
tci_scope tci_scope_of(tc_scope scope);
tci_history tci_history_of(const tc_doc_def *def);
tci_fork tci_fork_of(const tc_doc_def *def);

int tci_doc_check_record(const tc_doc_def *def, const tci_document *record, tc_err *err) TC_CHECKED;
int tci_doc_check_version(const tc_doc_def *def, const tci_document *record, uint64_t version,
                          tc_err *err) TC_CHECKED;
/* A stored value to the definition's version; *value is replaced when it had to be migrated. */
int tci_doc_migrate(tc_durable *s, const tc_doc_def *def, uint64_t version, tci_tree *value,
                    tc_err *err) TC_CHECKED;
int tci_doc_initial(tc_durable *s, const tc_doc_def *def, tc_str seed, tci_tree *ret_value,
                    tc_err *err) TC_CHECKED;

/* With the texts of record copied; value is taken over on success. One reference. */
int tci_loaded_new(const tci_document *record, tc_str address_key, tci_tree *value,
                   tci_loaded **ret_loaded, tc_err *err) TC_CHECKED;
void tci_loaded_unref(tci_loaded *l);
/* Keep it in memory: false when there is no room for that. */
bool tci_loaded_install(tc_durable *s, tci_loaded *l);
void tci_loaded_evict(tc_durable *s, tci_loaded *l);
/* Observed or used: not to be swept now. */
void tci_loaded_touch(tc_durable *s, tci_loaded *l);
/* From memory, else from the storage, for this definition; *ret_loaded NULL: none. */
int tci_doc_load(tc_durable *s, const tc_doc_def *def, const tci_address *address, tc_str key,
                 tci_loaded **ret_loaded, tc_err *err) TC_CHECKED;

/* ---- a transaction ---- */

typedef enum tci_target {
    TCI_TARGET_NONE,    /* making it failed: passed over */
    TCI_TARGET_LOADED,  /* a committed one, with a draft */
    TCI_TARGET_CREATED, /* made here */
    TCI_TARGET_COPY,    /* a fork's copy, not looked into */
    TCI_TARGET_RETIRE   /* a committed one that is only retired */
} tci_target;

struct tc_doc {
    tc_tx *tx;
    tc_doc *next;
    tc_str address_key;
    tci_address address; /* texts in the transaction's arena */
    const tc_doc_def *def;
    tci_target target;
    tci_loaded *loaded;            /* LOADED, CREATED (a reference) */
    tci_document record;           /* COPY, RETIRE */
    uint64_t source_id, source_at; /* COPY */
    bool is_retired;

    tci_undo undo;
    tci_buf ops;   /* "[op,op", the bracket is closed when it is prepared */
    size_t nops;   /* recorded */
    bool is_whole; /* one replacement stands for all operations */

    /* the plan */
    bool has_content, is_base;
    tci_buf text; /* of a base, or of a replacement */
    uint64_t conversation_id;
};

typedef struct tci_staged_task {
    uint64_t id;
    bool has_committed, has_write, is_new;
    tci_task committed, write; /* committed.id 0: there is none */
} tci_staged_task;

typedef struct tci_submission_change {
    struct tci_submission_change *next;
    uint64_t id;
    bool is_placement;
    uint64_t entry;
    tc_settlement settlement;
} tci_submission_change;

/* Conversations and entries in one order. */
typedef struct tci_row {
    bool is_entry;
    size_t index;
} tci_row;

/* Growing arrays in the transaction's arena. */
#define TCI_VEC(type)      \
    struct {               \
        type *items;       \
        size_t count, cap; \
    }

struct tc_tx {
    tc_durable *s;
    tci_arena arena;
    tci_buf buf; /* for texts on their way into the arena */
    bool at_close, has_table_write;
    tci_tx_how how; /* more than that is not needed */
    bool is_broken; /* something failed half way: it can only be rolled back */
    uint64_t author_task, author_conversation;
    TCI_VEC(tci_conversation) conversations;
    TCI_VEC(tci_entry) entries;
    TCI_VEC(tci_row) rows;
    TCI_VEC(tci_staged_task *) tasks; /* in the order touched */
    TCI_VEC(tci_submission) submissions;
    TCI_VEC(uint64_t) fork_parents;
    TCI_VEC(uint64_t) fork_sources;
    tci_map by_id; /* tci_staged_task by its id's bytes */
    tci_submission_change *changes, *last_change;
    tc_doc *docs, *last_doc;
};

int tci_vec_grow(tci_arena *a, void **items, size_t count, size_t *cap, size_t item_size,
                 tc_err *err) TC_CHECKED;
/* Room for one more item. */
#define TCI_VEC_ROOM(a, v, err)                                                             \
    ((v)->count < (v)->cap ? 0                                                              \
                           : tci_vec_grow((a), (void **)&(v)->items, (v)->count, &(v)->cap, \
                                          sizeof(*(v)->items), (err)))

int tci_tx_new(tc_durable *s, tc_tx **ret_tx, tc_err *err) TC_CHECKED;
void tci_tx_free(tc_tx *tx);
/* CONFLICT: it has ended, or this is not its thread. */
static inline bool tci_tx_is_open(const tc_tx *tx)
{
    return tci_line_is_mine(&tx->s->line) && tx->s->is_tx_open;
}
int tci_tx_check(const tc_tx *tx, tc_err *err) TC_CHECKED;
/* The same, and from now on it has written to a table. */
int tci_tx_write(tc_tx *tx, tc_err *err) TC_CHECKED;
/* Release what it holds and leave the line; drafts were rolled back or adopted. */
void tci_tx_end(tc_tx *tx);
/* What tx->buf holds, as text in the arena; the buffer is empty again. */
int tci_tx_text(tc_tx *tx, tc_str *ret_text, tc_err *err) TC_CHECKED;
int tci_tx_require_conversation(tc_tx *tx, uint64_t id, tc_err *err) TC_CHECKED;
/* Touches it. ->committed is read. */
int tci_tx_task_of(tc_tx *tx, uint64_t id, tci_staged_task **ret, tc_err *err) TC_CHECKED;
tci_staged_task *tci_tx_staged(const tc_tx *tx, uint64_t id); /* NULL: not touched */
/* Staged or committed; id 0: none. In the transaction's arena. */
int tci_tx_task_now(tc_tx *tx, uint64_t id, tci_task *ret, tc_err *err) TC_CHECKED;
int tci_tx_check_read(const tc_tx *tx, const char *what, tc_err *err) TC_CHECKED;
/* Apply what was asked of submissions. */
int tci_tx_settle_changes(tc_tx *tx, tc_err *err) TC_CHECKED;
tci_submission *tci_tx_staged_submission(const tc_tx *tx, uint64_t id);

/* tx_doc.c */
tc_doc *tci_tx_find_doc(const tc_tx *tx, tc_str address_key); /* the newest at the address */
tc_doc *tci_tx_add_doc(tc_tx *tx, const tci_address *address, tc_str key, const tc_doc_def *def,
                       tc_err *err) TC_CHECKED;
void tci_doc_rollback(tc_doc *d);
void tci_doc_release(tc_doc *d); /* what it holds */

/* The record of it, created, committed or copied. */
static inline const tci_document *tci_doc_record(const tc_doc *d)
{
    return d->loaded != NULL ? &d->loaded->record : &d->record;
}

/* adopt.c, once the storage has it */
void tci_tx_adopt(tc_tx *tx, uint64_t seq);
void tci_tx_publish(tc_tx *tx, uint64_t seq, bool is_lazy);

/* fork.c: stage the copies a fork makes. */
int tci_tx_stage_copies(tc_tx *tx, uint64_t parent, uint64_t at, uint64_t child,
                        tc_err *err) TC_CHECKED;

/* publish.c */
bool tci_session_has_listeners(const tc_durable *s); /* of commits */
/* Tell the listeners of commits: internal ones, then those of hosts. */
void tci_session_publish(tc_durable *s, const tci_commit *commit);
/* [["r",value]]; value NULL: [["r",null]]. */
void tci_put_replacement(tci_buf *b, const tci_json *value);

/* observe.c, watch.c */
typedef enum tci_listener_kind {
    TCI_LISTEN_INTERNAL,
    TCI_LISTEN_COMMIT,
    TCI_LISTEN_CLOSE,
    TCI_LISTEN_STATE
} tci_listener_kind;
typedef struct tci_doomed { /* waits in removed */
    tci_link link;
    void (*release)(struct tci_doomed *d);
} tci_doomed;
struct tc_listener {
    tci_link link;
    tci_doomed doomed;
    tci_listener_kind kind;
    tc_durable *s;
    bool is_removed;
    uint64_t after; /* commits up to this one were before it */
    void *user;
    tci_commit_fn internal;
    tc_commit_fn commit;
    tc_close_fn close;
    tc_state_fn state;
};
/* While listeners are called: begin, end, on the line; what is doomed meanwhile is freed at the end. */
void tci_session_calling(tc_durable *s);
void tci_session_called(tc_durable *s);
/* Free it now, or when nobody is calling. On the line. */
void tci_session_doom(tc_durable *s, tci_doomed *d, void (*release)(tci_doomed *d));
/* The line for observers: works whatever became of the session. True: taken here, so leave it. */
bool tci_session_observe(tc_durable *s);
int tci_listener_new(tc_durable *s, tci_listener_kind kind, void *user, tc_listener **ret_listener,
                     tc_err *err) TC_CHECKED;
void tci_session_tell_close(tc_durable *s);
/* After a commit changed or retired the document. */
void tci_states_advance(tci_loaded *l, uint64_t version, size_t nops, bool is_retired);
void tci_watches_advance(tci_loaded *l, uint64_t version, tc_str ops, size_t nops, bool is_retired);
void tci_states_end(tc_durable *s);
void tci_watches_end(tc_durable *s, const tc_err *failure);

#endif
