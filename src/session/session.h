/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of telechir/session.h, for the harness: decoded records, tasks, what a transaction has
 * staged, commits that need not be synced, observers that may end the session, watches over things
 * other than documents, and the way a session closes.
 *
 * Everything here may be called by any thread unless it takes a tx (then: the one that began it) or
 * says "on the line": only while this thread has the line, by a transaction, inside an internal
 * listener, or between tci_durable_enter and _leave. Records live in the arena given. */
#ifndef TCI_SESSION_SESSION_H
#define TCI_SESSION_SESSION_H

#include "base/json_tree.h"
#include "plat/call.h"
#include "proto/durable.h"
#include <telechir/session.h>

struct tci_store;

/* ---- opening ---- */

/* Over a storage that is open already (":memory:" goes through here, and tests); it belongs to the
 * session from now on, also when this fails. options: only what is not the storage's. */
int tci_durable_open_store(struct tci_store *store_own, const tc_durable_options *options,
                           tc_durable **ret_durable, tc_err *err) TC_CHECKED;

/* The session's clock, ms. */
int64_t tci_durable_now_ms(tc_durable *s);
bool tci_durable_is_read_only(const tc_durable *s);

/* 0, or CLOSED with the reason: failed, closing or closed. */
int tci_durable_check(tc_durable *s, tc_err *err) TC_CHECKED;
/* The session is over: a mistake in the harness's own bookkeeping. The first cause stays. With the line
 * or without. Close listeners run on this thread, at the latest when it gives the line back. */
void tci_durable_fail(tc_durable *s, const tc_err *cause);

/* ---- the line without a transaction ----
 * For several reads that must agree. The reading functions take the line themselves, or use it when
 * this thread has it. Closing: enter still works until the storage is closed. */
int tci_durable_enter(tc_durable *s, tc_err *err) TC_CHECKED;
void tci_durable_leave(tc_durable *s);
bool tci_durable_has_line(const tc_durable *s); /* this thread */

/* Committed records. "None" is id 0. */
int tci_durable_conversation(tc_durable *s, uint64_t id, tci_arena *a, tci_conversation *ret,
                             tc_err *err) TC_CHECKED;
int tci_durable_task(tc_durable *s, uint64_t id, tci_arena *a, tci_task *ret,
                     tc_err *err) TC_CHECKED;
int tci_durable_submission(tc_durable *s, uint64_t id, tci_arena *a, tci_submission *ret,
                           tc_err *err) TC_CHECKED;
/* conversation 0: wherever it is; else only if visible from there. ret_seq (may be NULL): its commit. */
int tci_durable_entry(tc_durable *s, uint64_t conversation, uint64_t id, tci_arena *a,
                      tci_entry *ret, uint64_t *ret_seq, tc_err *err) TC_CHECKED;
/* The newest with a head, up to cutoff (0: any). */
int tci_durable_head_marker(tc_durable *s, uint64_t conversation, uint64_t cutoff, tci_arena *a,
                            tci_entry *ret, tc_err *err) TC_CHECKED;
int tci_durable_submission_by_request(tc_durable *s, uint64_t conversation, tc_str request_id,
                                      tci_arena *a, tci_submission *ret, tc_err *err) TC_CHECKED;
/* A page, as the public scans: page may be NULL; *ret_next (may be NULL): after 0: that was all. */
int tci_durable_scan_conversations(tc_durable *s, uint64_t owner_conversation, uint64_t owner_task,
                                   const tc_page *page, tci_arena *a, tci_conversation **ret,
                                   size_t *ret_count, tc_cursor *ret_next, tc_err *err) TC_CHECKED;
int tci_durable_scan_entries(tc_durable *s, uint64_t conversation, uint64_t min, uint64_t max,
                             const tc_page *page, tci_arena *a, tci_entry **ret, size_t *ret_count,
                             tc_cursor *ret_next, tc_err *err) TC_CHECKED;
/* The same, the texts in an arena of their own. */
int tci_durable_read_entries(tc_durable *s, uint64_t conversation, uint64_t min, uint64_t max,
                             const tc_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                             size_t *ret_count, tc_cursor *ret_next, tc_err *err) TC_CHECKED;
int tci_durable_scan_tasks(tc_durable *s, const tc_task_query *query, const tc_page *page,
                           tci_arena *a, tci_task **ret, size_t *ret_count, tc_cursor *ret_next,
                           tc_err *err) TC_CHECKED;
/* status: a tci_submission_status, or -1. */
int tci_durable_scan_submissions(tc_durable *s, uint64_t conversation, int status,
                                 const tc_page *page, tci_arena *a, tci_submission **ret,
                                 size_t *ret_count, tc_cursor *ret_next, tc_err *err) TC_CHECKED;
int tci_durable_scan_documents(tc_durable *s, tci_scope scope, uint64_t owner, tc_str kind,
                               const tc_page *page, tci_arena *a, tci_document **ret,
                               size_t *ret_count, tc_cursor *ret_next, tc_err *err) TC_CHECKED;

/* On the line: the committed value itself (with an open transaction that changes it: as it has it).
 * NULL: no such document. Valid until the line is given back or the document is changed. */
int tci_durable_doc(tc_durable *s, const tc_doc_addr *addr, const tc_json **ret_value,
                    uint64_t *ret_id, tc_err *err) TC_CHECKED;

/* Forget the documents in memory that nobody has used for the time of the options. When the next ones will
 * be (monotonic ns); 0: none, or never. */
int64_t tci_durable_sweep(tc_durable *s);
/* On the line: when that is. */
int64_t tci_durable_sweep_due(const tc_durable *s);

/* ---- transactions ---- */

/* The same as tc_durable_begin for the harness's own commits while the session closes: between the
 * call of its join and the end of it, on that thread, after admission was sealed. What it commits is
 * stored but not published (no listeners, no observers). */
int tci_durable_begin_at_close(tc_durable *s, tc_tx **ret_tx, tc_err *err) TC_CHECKED;

/* As tc_tx_commit; *ret_seq (may be NULL) is 0 when nothing was written. LAZY: not synced by itself,
 * whatever the durability; the next synced commit syncs it too: streamed partials, questions to
 * models. DEFERRED: kept only with the next commit: steps that nothing outside the session follows
 * from before another commit, and that are taken once more by a process that finds them missing. */
typedef enum tci_tx_how { TCI_TX_SYNCED, TCI_TX_LAZY, TCI_TX_DEFERRED } tci_tx_how;
int tci_tx_commit(tc_tx *tx, tci_tx_how how, uint64_t *ret_seq, tc_err *err) TC_CHECKED;
/* How tc_tx_commit is to commit it. */
void tci_tx_set_how(tc_tx *tx, tci_tx_how how);

tc_durable *tci_tx_durable(const tc_tx *tx);
/* Memory that goes with the transaction, for what its user wants to keep that long. */
tci_arena *tci_tx_arena(tc_tx *tx);
/* Entries appended from here on say byTaskId; tasks created live in that conversation unless told
 * otherwise. 0, 0: nobody's (the beginning). */
void tci_tx_set_author(tc_tx *tx, uint64_t task_id, uint64_t conversation_id);

/* A new task, pending. Texts are JSON.
 *   owner            an owning task, 0: its conversation. A task-owned one lives in its owner's
 *                    conversation and cannot be background
 *   conversation     0: the owner's, else the author's */
typedef struct tci_task_new {
    tc_str kind;
    uint64_t version;
    tc_str input, checkpoint;
    uint64_t owner, conversation;
    bool is_background, is_abandoned_on_restart;
} tci_task_new;
int tci_tx_create_task(tc_tx *tx, const tci_task_new *task, uint64_t *ret_id,
                       tc_err *err) TC_CHECKED;
/* The whole record of a task in a new state. Times are stamped: startedAt when it is first running,
 * endedAt when terminal. CONFLICT: a terminal one is staged, or it moves to another conversation. */
int tci_tx_set_task(tc_tx *tx, tc_str json, tc_err *err) TC_CHECKED;
/* The same: record with some members written otherwise. */
int tci_tx_change_task(tc_tx *tx, const tci_task *record, const tci_json_change *changes,
                       size_t nchanges, tc_err *err) TC_CHECKED;

/* As they will be after the commit: staged or else committed. Allowed at any time. The texts live as
 * long as the transaction when staged, else in a. Id 0: none. */
int tci_tx_current_conversation(tc_tx *tx, uint64_t id, tci_arena *a, tci_conversation *ret,
                                tc_err *err) TC_CHECKED;
int tci_tx_current_task(tc_tx *tx, uint64_t id, tci_arena *a, tci_task *ret,
                        tc_err *err) TC_CHECKED;
int tci_tx_current_submission(tc_tx *tx, uint64_t id, tci_arena *a, tci_submission *ret,
                              tc_err *err) TC_CHECKED;
/* An entry appended in this transaction, or a committed one. */
int tci_tx_current_entry(tc_tx *tx, uint64_t id, tci_arena *a, tci_entry *ret,
                         tc_err *err) TC_CHECKED;
/* What is staged, in the order first touched; the array is in the transaction's arena. */
int tci_tx_staged_conversations(tc_tx *tx, const tci_conversation **ret, size_t *ret_count,
                                tc_err *err) TC_CHECKED;
int tci_tx_staged_entries(tc_tx *tx, const tci_entry **ret, size_t *ret_count,
                          tc_err *err) TC_CHECKED;
int tci_tx_staged_tasks(tc_tx *tx, const tci_task **ret, size_t *ret_count, tc_err *err) TC_CHECKED;
int tci_tx_staged_submissions(tc_tx *tx, const tci_submission **ret, size_t *ret_count,
                              tc_err *err) TC_CHECKED;

/* Changes of a document with values instead of text, at a path of steps. */
int tci_doc_set(tc_doc *doc, const tci_step *path, size_t nsteps, const tci_json *value,
                tc_err *err) TC_CHECKED;
int tci_doc_delete(tc_doc *doc, const tci_step *path, size_t nsteps, tc_err *err) TC_CHECKED;
int tci_doc_append(tc_doc *doc, const tci_step *path, size_t nsteps, tc_str text,
                   tc_err *err) TC_CHECKED;
int tci_doc_trim(tc_doc *doc, const tci_step *path, size_t nsteps, size_t nbytes,
                 tc_err *err) TC_CHECKED;
int tci_doc_splice(tc_doc *doc, const tci_step *path, size_t nsteps, size_t index, size_t nremove,
                   const tci_json *items, tc_err *err) TC_CHECKED;

/* ---- the harness below a session ----
 * At most one set, installed before anything else uses the session; NULL members are not called.
 *   conversation_created  on the line, in the transaction that creates or forks c, after its copies were
 *                         staged: creates the built-in documents. A failure fails that call
 *   join                  called once by the close, without the line, after admission was sealed and
 *                         observers ended: returns when no thread of the harness is left. Also after a
 *                         failure, which the harness learns before as a close listener */
typedef struct tci_durable_hooks {
    void *user;
    int (*conversation_created)(void *user, tc_tx *tx, const tci_conversation *c, tc_err *err);
    void (*join)(void *user);
} tci_durable_hooks;
void tci_durable_set_hooks(tc_durable *s, const tci_durable_hooks *hooks);

/* ---- observing ---- */

/* A document in a commit. ops as text, value as committed; see tc_commit_doc. def: with which it was
 * changed; NULL: copied or retired without. */
typedef struct tci_commit_doc {
    const tci_document *record; /* with createdAt, and retiredAt when retired */
    const tc_doc_def *def;
    uint64_t conversation_id;
    bool is_new, is_copy, is_retired;
    tc_str ops;
    size_t nops;
    const tc_json *value;
} tci_commit_doc;

typedef struct tci_commit {
    uint64_t seq;
    bool is_lazy;
    const tci_conversation *conversations; /* each in the order written */
    const tci_entry *entries;
    const tci_submission *submissions;
    const tci_task *tasks;
    const tci_commit_doc *docs;
    size_t nconversations, nentries, nsubmissions, ntasks, ndocs;
} tci_commit;

/* After every commit, before the hosts' listeners, in the order they were added, on the committing
 * thread with the line held; it may read (values of documents are the committed ones). A failure ends
 * the session. Remove with tc_listener_remove. */
typedef int (*tci_commit_fn)(void *user, const tci_commit *commit, tc_err *err);
int tci_durable_listen(tc_durable *s, tci_commit_fn fn, void *user, tc_listener **ret_listener,
                       tc_err *err) TC_CHECKED;

/* ---- states and watches of other things (views, graphs, events) ---- */

/*   value    as text: a tree is kept and follows the frames; empty: a stream of events, frames are
 *            texts without a value
 *   collapse called on the line when more than 100 frames wait: append one frame that stands for all of
 *            them and the one now pushed (a batch [["r",value]], or a snapshot event)
 *   gone     called once when the watch is ended or freed, whatever comes first; on any thread, and on
 *            the line when the session ends it there: stop pushing, release user
 * A new watch is on the line. */
typedef struct tci_watch_source {
    void *user;
    int (*collapse)(void *user, tci_buf *out, tc_err *err);
    void (*gone)(void *user);
} tci_watch_source;
int tci_watch_new(tc_durable *s, tc_str value, const tci_watch_source *source, tc_watch **ret_watch,
                  tc_err *err) TC_CHECKED;
/* On the line. ops: a batch of operations (or events), JSON text; copied. Nothing when it ended. */
int tci_watch_push(tc_watch *w, tc_str ops, tc_err *err) TC_CHECKED;
/* End it for this reason; frames that wait are dropped, but RETIRED comes after them. err: may be NULL. */
void tci_watch_end(tc_watch *w, tc_watch_end reason, const tc_err *err);

/* A state of something else: text gives its value when asked, on the line. Same thread rules. */
typedef struct tci_state_source {
    void *user;
    /* The value now; NULL: gone. Valid until the line is given back. */
    const tci_json *(*value)(void *user);
    void (*gone)(void *user); /* as of a watch */
} tci_state_source;
int tci_state_new(tc_durable *s, const tci_state_source *source, tc_state **ret_state,
                  tc_err *err) TC_CHECKED;
/* On the line: there is a later value; listeners are called. */
void tci_state_advance(tc_state *st);
/* The same for something that is told of by operations: the state keeps the value, JSON text at first.
 * source->value is not called and may be NULL. */
int tci_state_new_kept(tc_durable *s, tc_str value, const tci_state_source *source,
                       tc_state **ret_state, tc_err *err) TC_CHECKED;
/* On the line: ops, a batch of operations as text, lead to a later value; listeners are called. A failure
 * leaves it as it was. */
int tci_state_push(tc_state *st, tc_str ops, tc_err *err) TC_CHECKED;

#endif
