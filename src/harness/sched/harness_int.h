/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of a harness, for the built-in tasks and conversations: the same runtime that handlers of
 * programs get (telechir/harness.h), and what only they need. Any thread, unless a line says
 * otherwise. "On the line" means: inside a transaction, so straight code that waits for nothing. */
#ifndef TCI_HARNESS_INT_H
#define TCI_HARNESS_INT_H

#include "base/buf.h"
#include "base/json_tree.h"
#include "base/list.h"
#include "plat/call.h"
#include "proto/durable.h"
#include "session/session.h"
#include <telechir/agent.h>
#include <telechir/harness.h>

/* ---- registry snapshots ---- */

/* What was installed at one moment, in order. Counted. */
typedef struct tci_snapshot tci_snapshot;

tci_snapshot *tci_registry_snapshot(tc_registry *reg); /* a new reference; never NULL */
tci_snapshot *tci_snapshot_ref(tci_snapshot *s);
void tci_snapshot_unref(tci_snapshot *s); /* NULL is fine */
size_t tci_snapshot_count(const tci_snapshot *s);
const tc_extension *tci_snapshot_extension(const tci_snapshot *s, size_t index);
/* NULL when none of that name is installed. */
const tc_extension *tci_snapshot_find(const tci_snapshot *s, tc_str name);
/* Who can run tasks of this kind; NULL: nobody. ret_extension (may be NULL): whose it is, the empty
 * name for built-in ones. */
const tc_task_def *tci_snapshot_task(const tci_snapshot *s, tc_str kind, tc_str *ret_extension);

/* Without built-in tasks, for tests; install them as any other. */
int tci_registry_new_empty(tc_registry **ret_registry, tc_err *err) TC_CHECKED;
/* Under a name that is no extension's; not to be uninstalled. */
int tci_registry_install_builtin(tc_registry *reg, const tc_task_def *const *tasks, size_t ntasks,
                                 tc_err *err) TC_CHECKED;

/* The built-in tasks. */
extern const tc_task_def tci_generation_task; /* generation.c */
extern const tc_task_def tci_tool_task;       /* tool_task.c */
extern const tc_task_def tci_compaction_task; /* compact.c */

/* ---- what conversations put into a harness ---- */

/* Given when a harness is opened; every function may be NULL.
 *   attach           before anything else is read; the state is what tci_harness_run gives
 *   detach           last, after the session was closed
 *   conversation_created   as tci_durable_hooks: makes the built-in documents, then asks
 *                    options.conversation_created
 *   sweep            off the line, on the scheduler's thread: free what was kept long enough; when to
 *                    do so again (monotonic ns), 0: nothing is kept. See tci_harness_keep
 *   withdraw_inputs  on the line: settle the queued inputs of the conversation, unanswered with
 *                    reason, and take their items out of its inbox. Writes stay */
typedef struct tci_run_parts {
    int (*attach)(tc_harness *h, void **ret_state, tc_err *err);
    void (*detach)(tc_harness *h, void *state);
    int64_t (*sweep)(tc_harness *h, void *state);
    int (*conversation_created)(tc_harness *h, tc_tx *tx, const tci_conversation *c, tc_err *err);
    int (*withdraw_inputs)(tc_harness *h, tc_tx *tx, uint64_t conversation_id, tc_str reason,
                           tc_err *err);
} tci_run_parts;
extern const tci_run_parts tci_conversation_parts; /* conversation.c */

/* As tc_harness_open, with parts of one's own (NULL: none) and without looking for built-in tasks. */
int tci_harness_open_with(tc_durable *session_own, const tc_harness_options *options,
                          const tci_run_parts *parts, tc_ctx *ctx, tc_harness **ret_harness,
                          tc_err *err) TC_CHECKED;
void *tci_harness_run(const tc_harness *h);

/* ---- options ---- */

const tc_harness_options *tci_harness_options(const tc_harness *h);
tc_durable *tci_harness_session(const tc_harness *h);
/* As they are now, defaults filled in; texts in r or longer-lived. Never fails: a failing callback is
 * reported. May be called on the line. */
void tci_harness_settings(tc_harness *h, tc_result *r, tc_settings *ret);
struct tc_models *tci_harness_models(tc_harness *h); /* NULL: none */
tci_snapshot *tci_harness_snapshot(tc_harness *h);   /* a new reference */
bool tci_harness_is_closing(tc_harness *h);
/* The environment of a conversation, as options.env gives it; not on the line. *ret_env NULL: none.
 * Release it when the call is over. */
int tci_harness_env(tc_harness *h, uint64_t conversation_id, tc_ctx *ctx, tc_env **ret_env,
                    tc_err *err) TC_CHECKED;
void tci_harness_env_release(tc_harness *h, tc_env *env); /* NULL is fine */
/* Queued, and given to on_report off the line. Texts are copied. */
void tci_harness_report(tc_harness *h, const tc_report *report);
/* The same about a task and an error. extension, reason may be empty. */
void tci_harness_report_task(tc_harness *h, tc_report_type type, const tc_task_info *task,
                             tc_str extension, tc_str reason, const tc_err *error);
/* Enable scheduling, as submit and the waits do. CLOSED. */
int tci_harness_enable(tc_harness *h, tc_err *err) TC_CHECKED;

/* ---- waits and marks ---- */

/* Somebody who waits: for the end of a task, for a conversation to be idle, or (on no list but of_task) for
 * something else. */
typedef struct tci_waiter {
    tci_link link;       /* in live.waiters or harness.idle_waiters */
    tci_link of_task;    /* in tc_task.waiters */
    tci_wake own, *word; /* word: what is waited on */
    uint64_t conversation_id;
    tc_result *result;
    tc_str record;
    int rc;       /* 1: still waiting; else the answer */
    tc_code code; /* of a failed answer */
} tci_waiter;
void tci_waiter_init(tci_waiter *w, tc_ctx *ctx);
/* 0 as long as it is not answered. */
int tci_waiter_check(tc_harness *h, const tci_waiter *w, tc_err *err) TC_CHECKED;
void tci_waiter_leave(tc_harness *h, tci_waiter *w); /* not waited for any more */

/* Why nothing comes any more: CLOSED, or of a session that failed: what it failed of. */
int tci_harness_closed_error(tc_harness *h, tc_err *err);

/* by: on whose behalf, who must not wait for himself then and is woken when he is to end; NULL: nobody's. */
int tci_harness_wait_idle(tc_harness *h, const tc_bound *by, tc_ctx *ctx, uint64_t conversation_id,
                          tc_err *err) TC_CHECKED;
/* Mark the live tasks below the conversation (background ones too if asked), withdraw the inputs
 * queued there, and wait for idle. Enables scheduling. */
int tci_harness_abort_below(tc_harness *h, const tc_bound *by, tc_ctx *ctx,
                            uint64_t conversation_id, bool with_background, tc_err *err) TC_CHECKED;
/* On the line: mark a live task; nothing for one that has ended. A mark of a restart stays one if
 * keep_restart. */
int tci_tx_mark_task(tc_harness *h, tc_tx *tx, uint64_t id, bool keep_restart,
                     tc_err *err) TC_CHECKED;
/* Is a live task below the conversation that is not background work? On the line. */
int tci_tx_is_idle(tc_harness *h, tc_tx *tx, uint64_t conversation_id, bool *ret_is_idle,
                   tc_err *err) TC_CHECKED;

/* ---- handlers ---- */

/* What was installed when the phase began; borrowed from the task. */
tci_snapshot *tci_task_snapshot(tc_task *t);
/* Room for what is worked out once per phase (the resolved agent): NULL at its start; freed with
 * the function given last when the phase ends. */
void **tci_task_slot(tc_task *t, void (*free_value)(void *value));
bool tci_task_is_abort(const tc_task *t);
tc_str tci_task_extension(const tc_task *t); /* who installed its definition; may be empty */
/* As the public ones, with the answer in r, and another context besides the task's own (NULL: none).
 * Several threads of one task may call at once, until its handler returns. */
int tci_task_wait(tc_task *t, tc_ctx *ctx, uint64_t id, tc_result *r, tc_str *ret_record,
                  tc_err *err) TC_CHECKED;
int tci_task_memo(tc_task *t, tc_str name, tc_str value, tc_result *r, tc_str *ret_value,
                  tc_err *err) TC_CHECKED;
/* *ret_value empty: none. */
int tci_task_get_memo(tc_task *t, tc_str name, tc_result *r, tc_str *ret_value,
                      tc_err *err) TC_CHECKED;
/* Mark a task (owned or not) and wait for its end; nothing when it has ended. */
int tci_task_abort_other(tc_task *t, uint64_t id, tc_err *err) TC_CHECKED;
/* Ids of live tasks owned directly, from inside a transaction of this task; in arena a. */
int tci_task_owned(tc_task *t, tci_arena *a, uint64_t **ret_ids, size_t *ret_n,
                   tc_err *err) TC_CHECKED;
/* How a commit is made: lazily, that is without a sync of its own (streamed text). */
int tci_task_commit_lazy(tc_task *t, tc_tx *tx, tc_err *err) TC_CHECKED;
/* Tell the scheduler that this thread blocks on something that may itself need a thread of the pool,
 * and that it goes on. Nest. */
void tci_task_park(tc_task *t);
void tci_task_unpark(tc_task *t);

/* The same for public calls that may wait and may be made by a handler: the task whose handler runs on
 * this thread is parked; NULL, and nothing happens, when there is none. Unpark it when the wait is
 * over (NULL is fine). */
tc_task *tci_harness_park_here(tc_harness *h);
void tci_harness_unpark_here(tc_task *parked);

/* ---- on behalf of a task (telechir/agent.h) ---- */

/* As tc_durable_begin, when the invocation may still do something. */
int tci_bound_begin(const tc_bound *c, tc_ctx *ctx, tc_tx **ret_tx, tc_err *err) TC_CHECKED;
/* Its end, and the mark that it is to end, answer w; until tci_waiter_leave. */
int tci_bound_join(const tc_bound *c, tci_waiter *w, tc_err *err) TC_CHECKED;
/* As tci_harness_park_here. */
tc_task *tci_bound_park(const tc_bound *c);
/* Does this task wait for the caller, or is it the caller? */
bool tci_bound_is_awaited_by(const tc_bound *c, uint64_t task);

/* ---- later ---- */

/* A function to be called once at a time, on a thread of the pool, off the line. Zeroed storage is
 * not set. The storage belongs to the caller, who cancels before it goes. */
typedef struct tci_later {
    struct tci_later *next; /* by due time */
    tc_harness *harness;
    int64_t due_ns; /* monotonic */
    void (*call)(void *arg);
    void *arg;
    int state; /* sched_int.h */
} tci_later;

/* Set it, or set it anew when it has not been called yet. From any thread, from inside call too. */
void tci_later_set(tc_harness *h, tci_later *later, int64_t due_ns, void (*call)(void *arg),
                   void *arg);
/* Something is kept until then: sweep is called about that time, when the scheduler has a thread. */
void tci_harness_keep(tc_harness *h, int64_t due_ns);
/* After this it is neither running nor going to (waits for a call under way; not from inside it). */
void tci_later_drop(tci_later *later);

#endif
