/* SPDX-License-Identifier: Apache-2.0
 *
 * A session that lasts (tc_durable; a tc_session is something else, one visit to a device):
 * conversations, entries, tasks, submissions and documents over one storage,
 * changed by commits that happen wholly or not at all, one after another.
 *
 * JSON comes and goes as text; telechir/json.h reads it. Ids are 1 to 2^53-1 and 0 means none; times
 * are milliseconds since the epoch. A record that does not exist is an empty text, not an error.
 * Answers live in the tc_result given. Any thread may call anything, except where said.
 *
 * The line. Commits, and all reads that must agree with them, take turns on one lock. A transaction
 * holds it from tc_durable_begin to its end, on one thread; keep that short and never wait for a
 * model, a tool or a person in between. The thread that has an open transaction, or is inside a
 * listener that runs on the line, may call every reading function here (it sees the documents as the
 * transaction has them, the records as they are committed); beginning another one is CONFLICT.
 *
 * Failure. The first error of the storage ends the session: nothing more is published, every later
 * call is CLOSED (the message says why, tc_durable_failure tells the first error), and the session must
 * be opened again. Other errors (INVALID, NOT_FOUND, CONFLICT, ...) have no effect. */
#ifndef TELECHIR_SESSION_H
#define TELECHIR_SESSION_H

#include <telechir/json.h>
#include <telechir/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tc_durable tc_durable;
typedef struct tc_tx tc_tx;
typedef struct tc_doc tc_doc;

/* ---- opening and closing ---- */

/* FULL: a tc_tx_commit of the program that returned is on stable storage, with every commit before it.
 * Some steps of the harness are synced later, with the next commit that is or by closing: those that
 * nothing outside the session follows from (a task is taken up, a round of calls is over, a question is
 * about to be asked, an answer still streams in). Listeners are told of them at once; if the power goes
 * before that sync (or, of an SQLite session, the process before the next commit) they never happened and
 * are taken once more. What a tool is about to do, what came of it, answers and inputs are synced
 * before anything is done on their strength, so no effect is lost or done twice by it.
 * NORMAL: a commit survives the process, but for those same steps, and perhaps not a power cut. */
typedef enum tc_durability { TC_DURABILITY_FULL = 0, TC_DURABILITY_NORMAL } tc_durability;

#define TC_RETAIN_FOREVER INT64_MAX
#define TC_RETAIN_NOTHING INT64_C(-1)

/*   durability
 *   is_read_only           no lock is taken and nothing is written: every begin is DENIED
 *   must_exist             NOT_FOUND instead of a new, empty session
 *   is_fresh               CONFLICT instead of an existing one
 *   table_prefix           of an SQLite session; empty: none
 *   document_retention_ms  how long an unobserved document stays in memory after its last use;
 *                          0: 600000
 *   now_ms, now_user       the clock of records; NULL: the wall clock. Called on the line */
typedef struct tc_durable_options {
    size_t size;
    tc_durability durability;
    bool is_read_only, must_exist, is_fresh;
    tc_str table_prefix;
    int64_t document_retention_ms;
    int64_t (*now_ms)(void *user);
    void *now_user;
} tc_durable_options;

/* path: ending in ".sqlite": an SQLite file; ":memory:": nothing is kept; else a folder of JSON lines.
 * options may be NULL. Repairs what a crash left. BUSY: another process owns it (the message names
 * it). PARSE: damaged. INCOMPATIBLE: of a newer version. */
TC_API int tc_durable_open(tc_str path, const tc_durable_options *options, tc_durable **ret_durable,
                           tc_err *err) TC_CHECKED;
/* Nothing more is admitted; observers end; waits for the transaction that is open (so: never from
 * inside one or from a listener on the line) and closes the storage. May be called again, and by
 * several threads: all return when it is closed. The error is of the storage's last words; everything
 * acknowledged is safe. */
TC_API int tc_durable_close(tc_durable *s, tc_err *err);
/* Close, and give up the handle. Observers still held may only be freed. NULL is fine. */
TC_API void tc_durable_free(tc_durable *s);
/* True when the session failed; *ret_cause is then the first error. ret_cause may be NULL. */
TC_API bool tc_durable_failure(tc_durable *s, tc_err *ret_cause);
TC_API bool tc_durable_is_closed(tc_durable *s); /* or closing, or failed */

/* ---- transactions ---- */

/* Take the line. CLOSED; CONFLICT: this thread has it already; CANCELLED, TIMEOUT: ctx ended before it
 * was this call's turn (ctx may be NULL). Until commit or rollback: this thread only. */
TC_API int tc_durable_begin(tc_durable *s, tc_ctx *ctx, tc_tx **ret_tx, tc_err *err) TC_CHECKED;
/* Both end the transaction and free it with everything that belongs to it, whatever they return. A
 * commit without changes writes nothing and takes no sequence number. INVALID, CONFLICT, NOT_FOUND,
 * TOO_BIG: refused as a whole, no effect. Listeners run before it returns. Using a transaction that
 * has ended, or another thread's, is CONFLICT as long as the session is there. */
TC_API int tc_tx_commit(tc_tx *tx, tc_err *err) TC_CHECKED;
TC_API void tc_tx_rollback(tc_tx *tx);
/* The sequence number of the last commit made through this handle, 0: none yet. */
TC_API uint64_t tc_durable_seq(tc_durable *s);

/* Which entries are model input, who owns a task: the meaning of records is the harness's. */

/* Reads see what is committed, and are allowed only before the first table write of the transaction
 * (CONFLICT, "read after write"): read first, then decide, then write. */
TC_API int tc_tx_conversation(tc_tx *tx, uint64_t id, tc_result *r, tc_str *ret_json,
                              tc_err *err) TC_CHECKED;
TC_API int tc_tx_entry(tc_tx *tx, uint64_t id, tc_result *r, tc_str *ret_json,
                       tc_err *err) TC_CHECKED;
TC_API int tc_tx_task(tc_tx *tx, uint64_t id, tc_result *r, tc_str *ret_json,
                      tc_err *err) TC_CHECKED;
TC_API int tc_tx_submission(tc_tx *tx, uint64_t id, tc_result *r, tc_str *ret_json,
                            tc_err *err) TC_CHECKED;
TC_API int tc_tx_submission_by_request(tc_tx *tx, uint64_t conversation, tc_str request_id,
                                       tc_result *r, tc_str *ret_json, tc_err *err) TC_CHECKED;
/* The newest entry visible from the conversation that has a head: where its context starts. */
TC_API int tc_tx_head_marker(tc_tx *tx, uint64_t conversation, tc_result *r, tc_str *ret_json,
                             tc_err *err) TC_CHECKED;

/* Scans give a page at a time. order DEFAULT: ascending ids, of entries descending; with a cursor, the
 * cursor's order (any other is INVALID). limit 0: 100. Go on with page.cursor = records.next while
 * has_more. */
typedef enum tc_order { TC_ORDER_DEFAULT = 0, TC_ORDER_ASCENDING, TC_ORDER_DESCENDING } tc_order;
typedef struct tc_cursor {
    uint64_t after; /* 0: from the start */
    tc_order order;
} tc_cursor;
typedef struct tc_page {
    tc_order order;
    uint32_t limit;
    tc_cursor cursor;
} tc_page;
typedef struct tc_records {
    size_t count;
    const tc_str *items; /* JSON texts */
    bool has_more;
    tc_cursor next;
} tc_records;

/* What is not asked for is 0, empty, or -1 (TC_TASK_QUERY_ALL). status: "pending", "running",
 * "waiting", "sleeping", "completing", "terminal". */
typedef struct tc_task_query {
    uint64_t conversation;
    tc_str kind, status;
    int is_abort_requested, is_background;
} tc_task_query;
#ifdef __cplusplus
#define TC_TASK_QUERY_ALL (tc_task_query{0, {0, 0}, {0, 0}, -1, -1})
#else
#define TC_TASK_QUERY_ALL ((tc_task_query){0, {NULL, 0}, {NULL, 0}, -1, -1})
#endif

/* page may be NULL in all of these. owner_*, min, max: 0 for any; min and max are inclusive. */
TC_API int tc_tx_scan_conversations(tc_tx *tx, uint64_t owner_conversation, uint64_t owner_task,
                                    const tc_page *page, tc_result *r, tc_records *ret_records,
                                    tc_err *err) TC_CHECKED;
TC_API int tc_tx_scan_entries(tc_tx *tx, uint64_t conversation, uint64_t min, uint64_t max,
                              const tc_page *page, tc_result *r, tc_records *ret_records,
                              tc_err *err) TC_CHECKED;
TC_API int tc_tx_scan_tasks(tc_tx *tx, const tc_task_query *query, const tc_page *page,
                            tc_result *r, tc_records *ret_records, tc_err *err) TC_CHECKED;

/* Table writes. owner_task 0: nobody's. Ids are given at once and are the order of the transcript. */
TC_API int tc_tx_create_conversation(tc_tx *tx, uint64_t owner_task, uint64_t *ret_id,
                                     tc_err *err) TC_CHECKED;
/* Number 1, the reserved one. CONFLICT at the commit when it exists. */
TC_API int tc_tx_create_root_conversation(tc_tx *tx, tc_err *err) TC_CHECKED;
/* A conversation that starts with what is visible from parent up to entry at (committed), and with
 * copies of the parent's documents as their definitions say (tc_fork). Those documents cannot be
 * changed in the same transaction. */
TC_API int tc_tx_fork_conversation(tc_tx *tx, uint64_t parent, uint64_t at, uint64_t owner_task,
                                   uint64_t *ret_id, tc_err *err) TC_CHECKED;
/* draft: {"kind":..., "model"?:[...], "data"?:..., "head"?: id or "self", "edits"?:[...]}; any other
 * field is INVALID. */
TC_API int tc_tx_append_entry(tc_tx *tx, uint64_t conversation, tc_str draft, uint64_t *ret_id,
                              tc_err *err) TC_CHECKED;
/* fields: {"type":"input"|"write", "status":..., "requestId"?, "entry"?, ...} without the ids. */
TC_API int tc_tx_create_submission(tc_tx *tx, uint64_t conversation, tc_str fields,
                                   uint64_t *ret_id, tc_err *err) TC_CHECKED;
/* A queued input becomes placed, a queued write done. CONFLICT at the commit when it is not queued. */
TC_API int tc_tx_place_submission(tc_tx *tx, uint64_t id, uint64_t entry, tc_err *err) TC_CHECKED;
/* Done with an answer (it must be a placed input), or answer 0: unanswered for a reason; detail: JSON
 * text or empty. Nothing happens to one that is settled already. */
typedef struct tc_settlement {
    uint64_t answer;
    tc_str reason, detail;
} tc_settlement;
TC_API int tc_tx_settle_submission(tc_tx *tx, uint64_t id, const tc_settlement *settlement,
                                   tc_err *err) TC_CHECKED;

/* ---- documents ---- */

typedef enum tc_scope { TC_SCOPE_SESSION = 0, TC_SCOPE_CONVERSATION, TC_SCOPE_TASK } tc_scope;
/* Only of conversation documents; others are LATEST. REWINDABLE keeps every revision. */
typedef enum tc_history { TC_HISTORY_LATEST = 0, TC_HISTORY_REWINDABLE } tc_history;
/* What a fork gets: INITIAL: nothing; CURRENT: a copy of the parent's value now; AS_OF (rewindable
 * only): of the value when the entry it forks at was committed. */
typedef enum tc_fork { TC_FORK_INITIAL = 0, TC_FORK_CURRENT, TC_FORK_AS_OF } tc_fork;

/* A change that is about to be stored. ops: a JSON array of nops operations (durable formats). */
typedef struct tc_doc_change {
    const tc_json *value;
    tc_str ops;
    size_t nops;
    uint64_t deltas_since_base;
} tc_doc_change;

/* What the program knows about a kind of document; only kind and version are stored. Static or
 * otherwise alive as long as the session. Its functions are called on the line.
 *   size             sizeof(tc_doc_def)
 *   version          from 1; a stored document of a newer one is INCOMPATIBLE
 *   is_family        documents of this kind have a key
 *   initial_json     the first value, an object; NULL: {}
 *   initial          instead: append the text to r and point *ret_json at it. seed: JSON text as given
 *                    to tc_tx_doc, or empty
 *   migrate          an older value to this version's; needed once version is over 1 (without it:
 *                    INCOMPATIBLE). Applied when read, stored with the next change
 *   checkpoint_when  true: store the whole value now, not the change. NULL: always */
typedef struct tc_doc_def {
    size_t size;
    const char *kind;
    uint64_t version;
    tc_scope scope;
    tc_history history;
    tc_fork fork;
    bool is_family;
    const char *initial_json;
    int (*initial)(void *user, tc_str seed, tc_result *r, tc_str *ret_json, tc_err *err);
    int (*migrate)(void *user, const tc_json *value, uint64_t from_version, tc_result *r,
                   tc_str *ret_json, tc_err *err);
    bool (*checkpoint_when)(void *user, const tc_doc_change *change);
    void *user;
} tc_doc_def;
/* A checkpoint_when: never store the whole value (but on a new version, and after 4096 operations). */
TC_API bool tc_checkpoint_never(void *user, const tc_doc_change *change);

/* A document by its address. owner: the conversation or task, 0 for session scope. key: of a family
 * member, may be empty; not looked at otherwise. */
typedef struct tc_doc_addr {
    const tc_doc_def *def;
    uint64_t owner;
    tc_str key;
} tc_doc_addr;

/* The document, made when there is none, to be changed below. The same handle for the same address
 * within a transaction. INVALID: it is stored with another scope, history or fork; INCOMPATIBLE: of a
 * newer version; NOT_FOUND: no such owner; CONFLICT: the owning task is terminal. seed: JSON text,
 * empty: none; used only when it is made. */
TC_API int tc_tx_doc(tc_tx *tx, const tc_doc_def *def, uint64_t owner, tc_str key, tc_str seed,
                     tc_doc **ret_doc, tc_err *err) TC_CHECKED;
/* Its value as the transaction has it, without making it: NULL when there is none. Valid until the
 * transaction ends or the document is changed. */
TC_API int tc_tx_doc_value(tc_tx *tx, const tc_doc_def *def, uint64_t owner, tc_str key,
                           const tc_json **ret_value, tc_err *err) TC_CHECKED;
/* Its life ends with the commit; nothing happens when there is none. The handle is unusable from
 * here on; tc_tx_doc makes a new document at the address. */
TC_API int tc_tx_retire_doc(tc_tx *tx, const tc_doc_def *def, uint64_t owner, tc_str key,
                            tc_err *err) TC_CHECKED;

TC_API uint64_t tc_doc_id(const tc_doc *doc);
TC_API bool tc_doc_is_new(const tc_doc *doc); /* made in this transaction */
/* Valid until the transaction ends or the document is changed. */
TC_API const tc_json *tc_doc_value(const tc_doc *doc);

/* Changes, at a JSON Pointer (RFC 6901; "" is the whole value, "/items/-" as the place of set is the
 * end of an array). They are what is stored: appending 40 bytes to a long text costs 40 bytes. Numbers
 * keep the digits they are written with. INVALID: nothing there, or of the wrong kind; nothing changed.
 *   set      a member (new: at the end of its object) or an existing item; json: its value
 *   delete   a member (none: nothing happens) or an item
 *   append   text to the end of a string
 *   trim     the first nbytes of a string, ending between characters
 *   splice   nremove items from index on make place for those of items, an array
 *   reorder  new[i] = old[order[i]], norder is the number of items
 *   replace  the whole value; json: an object */
TC_API int tc_doc_set(tc_doc *doc, tc_str pointer, tc_str json, tc_err *err) TC_CHECKED;
TC_API int tc_doc_delete(tc_doc *doc, tc_str pointer, tc_err *err) TC_CHECKED;
TC_API int tc_doc_append(tc_doc *doc, tc_str pointer, tc_str text, tc_err *err) TC_CHECKED;
TC_API int tc_doc_trim(tc_doc *doc, tc_str pointer, size_t nbytes, tc_err *err) TC_CHECKED;
TC_API int tc_doc_splice(tc_doc *doc, tc_str pointer, size_t index, size_t nremove, tc_str items,
                         tc_err *err) TC_CHECKED;
TC_API int tc_doc_reorder(tc_doc *doc, tc_str pointer, const size_t *order, size_t norder,
                          tc_err *err) TC_CHECKED;
TC_API int tc_doc_replace(tc_doc *doc, tc_str json, tc_err *err) TC_CHECKED;

/* ---- reading without a transaction ----
 * Each call takes the line for itself. */

TC_API int tc_durable_conversation(tc_durable *s, uint64_t id, tc_result *r, tc_str *ret_json,
                                   tc_err *err) TC_CHECKED;
/* conversation not 0: only when visible from there (NOT_FOUND: no such conversation). */
TC_API int tc_durable_entry(tc_durable *s, uint64_t conversation, uint64_t id, tc_result *r,
                            tc_str *ret_json, tc_err *err) TC_CHECKED;
TC_API int tc_durable_task(tc_durable *s, uint64_t id, tc_result *r, tc_str *ret_json,
                           tc_err *err) TC_CHECKED;
TC_API int tc_durable_submission(tc_durable *s, uint64_t id, tc_result *r, tc_str *ret_json,
                                 tc_err *err) TC_CHECKED;
TC_API int tc_durable_submission_by_request(tc_durable *s, uint64_t conversation, tc_str request_id,
                                            tc_result *r, tc_str *ret_json, tc_err *err) TC_CHECKED;
TC_API int tc_durable_conversations(tc_durable *s, uint64_t owner_conversation, uint64_t owner_task,
                                    const tc_page *page, tc_result *r, tc_records *ret_records,
                                    tc_err *err) TC_CHECKED;
/* conversation 0: all entries of the session. */
TC_API int tc_durable_entries(tc_durable *s, uint64_t conversation, uint64_t min, uint64_t max,
                              const tc_page *page, tc_result *r, tc_records *ret_records,
                              tc_err *err) TC_CHECKED;
TC_API int tc_durable_tasks(tc_durable *s, const tc_task_query *query, const tc_page *page,
                            tc_result *r, tc_records *ret_records, tc_err *err) TC_CHECKED;
/* status: "queued", "placed", "done", "unanswered"; empty: any. conversation 0: any. */
TC_API int tc_durable_submissions(tc_durable *s, uint64_t conversation, tc_str status,
                                  const tc_page *page, tc_result *r, tc_records *ret_records,
                                  tc_err *err) TC_CHECKED;
/* Records of the documents alive now in one scope; kind empty: any. */
TC_API int tc_durable_documents(tc_durable *s, tc_scope scope, uint64_t owner, tc_str kind,
                                const tc_page *page, tc_result *r, tc_records *ret_records,
                                tc_err *err) TC_CHECKED;

/* The committed value as text; empty: no such document. */
TC_API int tc_durable_snapshot(tc_durable *s, const tc_doc_addr *addr, tc_result *r,
                               tc_str *ret_json, tc_err *err) TC_CHECKED;
/* Of a rewindable document: the value when the entry was committed, in the conversation that holds the
 * entry. NOT_FOUND: the entry is not visible from addr->owner. UNSUPPORTED: not rewindable. */
TC_API int tc_durable_snapshot_as_of(tc_durable *s, const tc_doc_addr *addr, uint64_t entry,
                                     tc_result *r, tc_str *ret_json, tc_err *err) TC_CHECKED;

/* ---- observing ---- */

/* One commit, for listeners; all of it is valid during the call only.
 *   records  new and changed records, in the order written
 *   docs     new, changed and retired documents. ops: what changed, a JSON array; of a new document
 *            (and where no operations are known) one replacement of the root. value: as committed; NULL
 *            when retired, or copied by a fork and not in memory */
typedef enum tc_record_type {
    TC_RECORD_CONVERSATION = 0,
    TC_RECORD_ENTRY,
    TC_RECORD_TASK,
    TC_RECORD_SUBMISSION,
    TC_RECORD_DOCUMENT
} tc_record_type;
typedef struct tc_commit_record {
    tc_record_type type;
    uint64_t id, conversation;
    tc_str json;
} tc_commit_record;
typedef struct tc_commit_doc {
    tc_str record; /* JSON text */
    uint64_t id;
    tc_str kind, key;
    tc_scope scope;
    uint64_t owner;
    uint64_t conversation; /* it belongs to, also that of an owning task; 0: the session's */
    bool is_new, is_retired;
    tc_str ops;
    const tc_json *value;
} tc_commit_doc;
typedef struct tc_commit {
    uint64_t seq;
    size_t nrecords, ndocs;
    const tc_commit_record *records;
    const tc_commit_doc *docs;
} tc_commit;

typedef struct tc_listener tc_listener;
typedef void (*tc_commit_fn)(void *user, const tc_commit *commit);
/* Called after every commit, on the thread that commits, with the line held: be quick. It may read, not
 * begin, close or wait for another thread that does. */
TC_API int tc_durable_on_commit(tc_durable *s, tc_commit_fn fn, void *user,
                                tc_listener **ret_listener, tc_err *err) TC_CHECKED;
/* Called once when the session closes (failure NULL) or failed, on the thread that does, without the
 * line: before the storage of a closing session is closed. Closed already: CLOSED. */
typedef void (*tc_close_fn)(void *user, const tc_err *failure);
TC_API int tc_durable_on_close(tc_durable *s, tc_close_fn fn, void *user,
                               tc_listener **ret_listener, tc_err *err) TC_CHECKED;
/* No call begins after it returns, and none is running but that it is called from. It frees the listener,
 * before or after tc_durable_free. Of a close listener: not by a thread that has the line. NULL is
 * fine. */
TC_API void tc_listener_remove(tc_listener *listener);

/* A document that follows its commits, bound to the incarnation alive when it is made. It keeps its
 * last value when the session closes. */
typedef struct tc_state tc_state;
/* *ret_state NULL: there is no such document. */
TC_API int tc_durable_state(tc_durable *s, const tc_doc_addr *addr, tc_state **ret_state,
                            tc_err *err) TC_CHECKED;
/* The value now, as text; empty: retired. */
TC_API int tc_state_value(tc_state *st, tc_result *r, tc_str *ret_json, tc_err *err) TC_CHECKED;
/* fn gets the value at once (sequence as it is, 0 before the first change), on this thread, and then
 * each later one on the thread that commits: with the line held, as a commit listener. value NULL:
 * retired. */
typedef void (*tc_state_fn)(void *user, uint64_t sequence, const tc_json *value);
TC_API int tc_state_subscribe(tc_state *st, tc_state_fn fn, void *user, tc_listener **ret_listener,
                              tc_err *err) TC_CHECKED;
TC_API void tc_state_free(tc_state *st); /* its listeners too stop; free them before */

/* A watch: every change of one thing (a document here; views and graphs elsewhere), none skipped, taken
 * when the watcher is ready. At most 100 wait; then they are replaced by one frame that replaces the
 * whole value. */
typedef struct tc_watch tc_watch;
typedef enum tc_watch_end {
    TC_WATCH_OPEN = 0,
    TC_WATCH_STOPPED,
    TC_WATCH_CANCELLED,
    TC_WATCH_SESSION_CLOSED,
    TC_WATCH_SESSION_FAILED,
    TC_WATCH_RETIRED,
    TC_WATCH_LISTENER_ERROR
} tc_watch_end;
TC_API const char *tc_watch_end_name(tc_watch_end end); /* "session_closed"; static storage */

/* ops: JSON array of operations that lead from the value before to value. value NULL: retired (the last
 * frame), or a stream of events, that has none: then ops is the events. */
typedef struct tc_frame {
    tc_str ops;
    const tc_json *value;
} tc_frame;

/* *ret_watch NULL: there is no such document. */
TC_API int tc_durable_watch(tc_durable *s, const tc_doc_addr *addr, tc_watch **ret_watch,
                            tc_err *err) TC_CHECKED;
/* The value as of the last frame taken, at first that of its making; valid until the next is taken. */
TC_API const tc_json *tc_watch_value(tc_watch *w);
/* Wait for the next frame, on the caller's thread; valid until the next call. END: the watch ended, see
 * tc_watch_reason. CANCELLED, TIMEOUT: of ctx; the watch goes on. One thread at a time. */
TC_API int tc_watch_next(tc_watch *w, tc_ctx *ctx, tc_frame *ret_frame, tc_err *err) TC_CHECKED;
/* Instead of next: fn gets the frames, one at a time, on a thread of this watch's own; 0 to go on, any
 * other return ends the watch (LISTENER_ERROR). Cancelling ctx ends it too. Once. */
typedef int (*tc_watch_fn)(void *user, const tc_frame *frame, tc_err *err);
TC_API int tc_watch_start(tc_watch *w, tc_ctx *ctx, tc_watch_fn fn, void *user,
                          tc_err *err) TC_CHECKED;
/* No new call begins. Also from inside fn. */
TC_API void tc_watch_stop(tc_watch *w);
/* Wait until it has ended; *ret_reason (may be NULL): why. CANCELLED, TIMEOUT: of ctx. One thread at a
 * time; not from inside fn. */
TC_API int tc_watch_wait(tc_watch *w, tc_ctx *ctx, tc_watch_end *ret_reason,
                         tc_err *err) TC_CHECKED;
/* OPEN while it lasts; later why it ended. *ret_error: the session's or the listener's; may be NULL. */
TC_API tc_watch_end tc_watch_reason(tc_watch *w, tc_err *ret_error);
/* Stop, wait for a call that is running, free. Not from inside fn, and not by a thread that has the
 * line. NULL is fine. */
TC_API void tc_watch_free(tc_watch *w);

#ifdef __cplusplus
}
#endif
#endif
