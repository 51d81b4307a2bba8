/* SPDX-License-Identifier: Apache-2.0
 *
 * The durable harness: a session with a scheduler that runs its tasks. A task is a state machine
 * kept in the session: what it means to do is committed before it is done, and what came of it
 * after, so that a program that dies goes on where it was when the session is opened again.
 *
 * Conversations, prompts and agents are in telechir/agent.h, tools in telechir/tool.h. JSON goes in
 * and out as text (telechir/json.h reads it). Times are milliseconds since the epoch, ids are
 * 1..2^53-1 and 0 is none. Any thread may call; calls block, bounded by a tc_ctx where they take one
 * (NULL: as long as it takes). */
#ifndef TELECHIR_HARNESS_H
#define TELECHIR_HARNESS_H

#include <telechir/env.h>
#include <telechir/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tc_harness tc_harness;
typedef struct tc_registry tc_registry;
struct tc_models;    /* telechir/model.h */
struct tc_extension; /* telechir/agent.h */

/* ---- definitions of tasks ---- */

/* One invocation of a task, as its handler sees it. Used by the thread that runs the handler, and
 * only until it returns. */
typedef struct tc_task tc_task;

/* Runs one phase, or the abort handler. Fails with *err set: the task ends as faulted with that text,
 * unless the failure came from its own cancellation (abort, close), which is no fault.
 * A phase has to commit a state that is not the one it started with. */
typedef int (*tc_task_fn)(tc_task *t, tc_err *err);

typedef struct tc_task_phase {
    const char *name;
    tc_task_fn run;
} tc_task_phase;

/* What can run tasks of one kind. Compared by address: another address is another definition, which
 * takes tasks over at their next phase. It is borrowed and stays where it is for as long as a
 * registry that ever held it.
 *   name, version   stored with each task
 *   initial         the first checkpoint of a new task: a JSON object with a string "phase"; text
 *                   in r. Called while the task is created, on the line: straight code
 *   phases          by the checkpoint's "phase"
 *   abort           once the task is marked and its own work is gone; must commit an end
 *   migrate         of a record stored by a lower version, on the line; NULL: such tasks are blocked
 *   on_restart_limit  run instead of a phase when the task was cut off too often; must commit an
 *                   end. NULL: the task is parked instead
 *   on_fault        joins the commit in which the scheduler itself ends the task (faulted or
 *                   orphaned; outcome is that JSON object). On the line; NULL: nothing
 *   user            what tc_task_user gives
 *   is_prompt       its handlers return at once after a commit of any state but RUNNING: their thread
 *                   then goes on with what follows, without waking another
 *   commits_first   its phases change nothing outside the session before they have committed something
 *                   (or may do it again): that one was reserved is then not synced by itself */
typedef struct tc_task_def {
    size_t size;
    const char *name;
    uint64_t version;
    int (*initial)(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint, tc_err *err);
    const tc_task_phase *phases;
    size_t nphases;
    tc_task_fn abort;
    int (*migrate)(void *user, tc_str input, tc_str checkpoint, uint64_t from_version, tc_result *r,
                   tc_str *ret_input, tc_str *ret_checkpoint, tc_err *err);
    tc_task_fn on_restart_limit;
    int (*on_fault)(void *user, tc_harness *h, tc_tx *tx, tc_str record, tc_str outcome,
                    tc_err *err);
    void *user;
    bool is_prompt, commits_first;
} tc_task_def;

/* ---- the registry ---- */

/* Holds extensions by name, each with its tasks; a snapshot of it never changes. Any thread. */

/* With the three built-in tasks, which a harness must have. */
TC_API int tc_registry_new(tc_registry **ret_registry, tc_err *err) TC_CHECKED;
/* No harness may be using it. NULL is fine. */
TC_API void tc_registry_free(tc_registry *reg);
/* The extension and all it points to is borrowed until the registry is freed. An installed one of
 * that name is replaced in its place. CONFLICT: another one has a task of the same name (nothing
 * changes then). Running harnesses notice at once. */
TC_API int tc_registry_install(tc_registry *reg, const struct tc_extension *extension,
                               tc_err *err) TC_CHECKED;
/* An extension that has only tasks. Copies name, borrows the definitions. */
TC_API int tc_registry_install_tasks(tc_registry *reg, tc_str name, const tc_task_def *const *tasks,
                                     size_t ntasks, tc_err *err) TC_CHECKED;
/* NOT_FOUND when none of that name is installed. */
TC_API int tc_registry_uninstall(tc_registry *reg, tc_str name, tc_err *err) TC_CHECKED;

/* ---- settings ---- */

typedef struct tc_retry_settings {
    bool is_enabled;       /* true */
    uint32_t max_retries;  /* 3 */
    int64_t base_delay_ms; /* 2000 */
    int64_t max_delay_ms;  /* 60000 */
} tc_retry_settings;

typedef struct tc_compaction_policy {
    bool is_enabled;             /* true */
    uint64_t reserve_tokens;     /* 16384 */
    uint64_t keep_recent_tokens; /* 20000 */
    uint64_t background_tokens;  /* 32768 */
} tc_compaction_policy;

/* Which fields of policy replace the general ones for a model. */
typedef enum tc_compaction_fields {
    TC_COMPACTION_ENABLED = 1 << 0,
    TC_COMPACTION_RESERVE = 1 << 1,
    TC_COMPACTION_KEEP_RECENT = 1 << 2,
    TC_COMPACTION_BACKGROUND = 1 << 3
} tc_compaction_fields;

typedef struct tc_compaction_override {
    tc_str model;    /* "provider/modelId" */
    unsigned fields; /* tc_compaction_fields */
    tc_compaction_policy policy;
} tc_compaction_override;

typedef enum tc_queue_mode { TC_QUEUE_ONE_AT_A_TIME = 0, TC_QUEUE_ALL } tc_queue_mode;
typedef enum tc_tool_execution { TC_TOOLS_PARALLEL = 0, TC_TOOLS_SEQUENTIAL } tc_tool_execution;
typedef enum tc_after_failed_run {
    TC_FAILED_RUN_KEEP = 0,
    TC_FAILED_RUN_CONTINUE,
    TC_FAILED_RUN_WITHDRAW
} tc_after_failed_run;

#define TC_NO_RESTART_LIMIT UINT64_MAX

/* Never stored; read at each use. Made by tc_settings_init, which fills in the defaults (in the
 * comments).
 *   has_extensions  false: every installed extension, in the order they were installed
 *   stream          request options, a JSON object: "{}"
 *   context_retention_ms   600000; 0: nothing kept; TC_RETAIN_FOREVER
 *   restart_limit   5; at least 1; TC_NO_RESTART_LIMIT: never parked */
typedef struct tc_settings {
    size_t size;
    bool has_extensions;
    const tc_str *extensions;
    size_t nextensions;
    tc_str stream;
    tc_retry_settings retry;
    tc_compaction_policy compaction;
    const tc_compaction_override *compaction_overrides;
    size_t ncompaction_overrides;
    int64_t partial_interval_ms; /* 100 */
    int64_t output_interval_ms;  /* 100 */
    tc_tool_execution tool_execution;
    tc_queue_mode steering_mode, follow_up_mode;
    int64_t context_retention_ms;
    tc_after_failed_run after_failed_run;
    uint64_t restart_limit;
} tc_settings;

TC_API void tc_settings_init(tc_settings *settings);

/* ---- reports ---- */

typedef enum tc_report_type {
    TC_REPORT_SESSION_FAILED,
    TC_REPORT_TASK_FAULTED, /* reason "threw" or "restart_limit" */
    TC_REPORT_TASK_PARKED,
    TC_REPORT_MIGRATION_FAILED,
    TC_REPORT_TASK_OUTDATED, /* reason "missing_task" or "incompatible_task" */
    TC_REPORT_TASK_ERROR,
    TC_REPORT_EXTENSION_ERROR,
    TC_REPORT_HOST_ERROR, /* callback says which */
    TC_REPORT_LISTENER_ERROR
} tc_report_type;
TC_API const char *tc_report_type_name(tc_report_type type); /* "task_faulted"; static storage */

/* An error that fails nothing else.
 *   message         its text
 *   task_id, kind, conversation_id   0 and empty when it is not about a task; conversation_id also
 *                   alone
 *   extension       whose code it was; may be empty
 *   reason          see above
 *   callback        "settings", "env", "models", "setTimer" */
typedef struct tc_report {
    tc_report_type type;
    tc_str message;
    uint64_t task_id;
    tc_str kind;
    uint64_t conversation_id;
    tc_str extension;
    tc_str reason;
    tc_str callback;
} tc_report;

/* ---- opening ---- */

/* What an environment is asked for.
 *   cwd       from the conversation's agent; empty when unset
 *   harness   for reads of committed documents */
typedef struct tc_env_target {
    uint64_t conversation_id;
    tc_str cwd;
    tc_harness *harness;
} tc_env_target;

/* is_active: something runs, or could run now. at_ms: when the next sleeping task is due; 0: none. */
typedef struct tc_wake {
    bool is_active;
    int64_t at_ms;
} tc_wake;

/* A timer that the program is to arm: call tc_timer_fire with a copy of it, once, delay_ms (0 or more)
 * from now.
 *   is_background  it only frees memory that is not used any more: it may be declined, and the memory is
 *                  freed by what is done later instead. The others make work go on: a sleep that is over,
 *                  progress to be committed */
typedef struct tc_timer {
    tc_harness *harness;
    uint64_t id; /* of no other timer of this harness */
    int64_t delay_ms;
    bool is_background;
} tc_timer;
/* The timer is not wanted any more; as set_timer, called by the same thread or by who closes. Must not
 * wait for a tc_timer_fire that is under way: one that comes after it does nothing. */
typedef void (*tc_disarm)(void *user, const tc_timer *timer);
/* Its time has come. From any thread, also from inside set_timer, and also after it was disarmed (nothing
 * happens then): until tc_harness_free is called. Returns at once; calls nothing of the program's.
 * A sleep that is not over by the session's clock is armed again for the rest; that progress may be
 * committed is believed. */
TC_API void tc_timer_fire(const tc_timer *timer);

/* Everything is borrowed for the life of the harness. Callbacks may be called by several threads at
 * once, except where said.
 *   registry        required; holds the built-in tasks
 *   models          or get_models, asked at each use; may be NULL: then no run finds a model
 *   settings        or get_settings: *settings comes with the defaults, change what differs; texts
 *                   and arrays live in r, or longer. It may be called on the line: no call of ours
 *                   in it. A failure is reported, and the defaults hold
 *   env             the environment of one call or preparation, NULL in *ret_env for none. Asked
 *                   again for every call, never on the line. A failure fails the call that asked
 *   env_release     given what env returned, once, when that use of it is over; may be NULL
 *   conversation_created   joins every commit that creates or forks a conversation, after the
 *                   built-in documents exist
 *   on_wake         instead of the timer for sleeping tasks: called when the answer of
 *                   tc_harness_wake changes, by one thread at a time and never on the line; call
 *                   tc_harness_resume at at_ms
 *   on_report       by one thread at a time, in order, never on the line; must be quick, and may
 *                   not wait for a task
 *   max_running     invocations that hold a thread at once, waits not counted; 0: 256
 *   set_timer       all timers of the harness go through it: sleeping tasks (unless on_wake does that),
 *                   pacing of progress, memory kept for a while. NULL: our own. *ret_disarm comes as NULL;
 *                   left so, the timer is declined. One of a foreground timer that is declined or fails
 *                   is armed as if there were no set_timer, and the first such is reported (HOST_ERROR,
 *                   "setTimer"). Called by the scheduler's thread alone, never on the line and without a
 *                   lock of ours: it may call us, but not wait for anything of this harness. Limits of
 *                   calls (tc_ctx) and of the network are no timers of the harness */
typedef struct tc_harness_options {
    size_t size;
    tc_registry *registry;
    struct tc_models *models;
    struct tc_models *(*get_models)(void *user);
    const tc_settings *settings;
    int (*get_settings)(void *user, tc_result *r, tc_settings *settings, tc_err *err);
    int (*env)(void *user, const tc_env_target *target, tc_ctx *ctx, tc_env **ret_env, tc_err *err);
    void (*env_release)(void *user, tc_env *env);
    int (*conversation_created)(void *user, tc_tx *tx, uint64_t conversation_id, tc_err *err);
    void (*on_wake)(void *user, const tc_wake *wake);
    void (*on_report)(void *user, const tc_report *report);
    void *user;
    uint32_t max_running;
    int (*set_timer)(void *user, const tc_timer *timer, tc_disarm *ret_disarm, tc_err *err);
} tc_harness_options;

/* Takes the session over, also when it fails (it is closed and freed then). Tasks that were cut off are made
 * ready again; nothing runs before tc_harness_resume or a call that implies it.
 * Errors: INVALID (a built-in task is missing), CANCELLED, those of the session. */
TC_API int tc_harness_open(tc_durable *session_own, const tc_harness_options *options, tc_ctx *ctx,
                           tc_harness **ret_harness, tc_err *err) TC_CHECKED;
/* Ends every invocation and waits for the handlers, writes what they were doing back as ready, and
 * closes the session. Waits of other threads end with CLOSED. Again: nothing. Not from a handler or
 * callback. 0, or what closing the storage said. */
TC_API int tc_harness_close(tc_harness *h, tc_err *err);
/* Closes first if need be. No call may be in it. NULL is fine. */
TC_API void tc_harness_free(tc_harness *h);
/* The session inside; lives as long. Its commits are seen by the scheduler as all others. */
TC_API tc_durable *tc_harness_session(tc_harness *h);
TC_API int64_t tc_harness_now(tc_harness *h); /* the session's clock */

/* ---- running ---- */

/* Let tasks run. Idempotent. */
TC_API int tc_harness_resume(tc_harness *h, tc_err *err) TC_CHECKED;
TC_API tc_wake tc_harness_wake(tc_harness *h);

typedef enum tc_task_state {
    TC_TASK_RUNNING,
    TC_TASK_COMPLETING,
    TC_TASK_WAITING,  /* on */
    TC_TASK_SLEEPING, /* until_ms */
    TC_TASK_READY,    /* migrates */
    TC_TASK_BLOCKED   /* reason, error */
} tc_task_state;
TC_API const char *tc_task_state_name(tc_task_state state); /* "ready"; static storage */

/*   record     the stored record, JSON
 *   reason     "missing_task", "task_too_old", "migration_failed", "restart_limit" */
typedef struct tc_task_inspection {
    uint64_t id;
    tc_str record;
    tc_task_state state;
    const uint64_t *on;
    size_t non;
    int64_t until_ms;
    bool migrates;
    tc_str reason, error;
} tc_task_inspection;

/*   scheduling   "paused", "running", "closing"
 *   tasks        live ones, ascending by id
 *   submissions  queued and placed ones: records, JSON */
typedef struct tc_inspection {
    tc_str scheduling;
    const tc_task_inspection *tasks;
    size_t ntasks;
    const tc_str *submissions;
    size_t nsubmissions;
} tc_inspection;

TC_API int tc_harness_inspect(tc_harness *h, tc_ctx *ctx, tc_result *r, tc_inspection *ret,
                              tc_err *err) TC_CHECKED;

/* The record of a task, JSON. NOT_FOUND. */
TC_API int tc_harness_get_task(tc_harness *h, tc_ctx *ctx, uint64_t id, tc_result *r,
                               tc_str *ret_record, tc_err *err) TC_CHECKED;
/* Ask for its end. Its abort handler runs once its own work is gone; a task that nothing can run
 * ends as orphaned at once. Returns when a phase that was running has ended; scheduling stays as it
 * is. *ret_is_terminal: it had ended before. NOT_FOUND. */
TC_API int tc_harness_abort_task(tc_harness *h, tc_ctx *ctx, uint64_t id, bool *ret_is_terminal,
                                 tc_err *err) TC_CHECKED;
/* Wait for its end; its last record. Enables scheduling. Not on the line. NOT_FOUND, CLOSED. */
TC_API int tc_harness_wait_task(tc_harness *h, tc_ctx *ctx, uint64_t id, tc_result *r,
                                tc_str *ret_record, tc_err *err) TC_CHECKED;
/* Forget how often it was cut off. Enables scheduling. NOT_FOUND. */
TC_API int tc_harness_retry_task(tc_harness *h, tc_ctx *ctx, uint64_t id, tc_err *err) TC_CHECKED;
/* Wait until nothing but background work is alive below the conversation; 0: below any that is not
 * owned by a task. Enables scheduling. CLOSED. */
TC_API int tc_harness_wait_idle(tc_harness *h, tc_ctx *ctx, uint64_t conversation_id,
                                tc_err *err) TC_CHECKED;
/* {"tasks":{"<id>":node}} of the live tasks: id, kind, conversationId, owner?, background,
 * abortRequested, state, blocked?, conversations. */
TC_API int tc_harness_task_graph(tc_harness *h, tc_ctx *ctx, tc_result *r, tc_str *ret_graph,
                                 tc_err *err) TC_CHECKED;

/* A watch of it (telechir/session.h): frames set or delete the nodes of the tasks that changed. Free it
 * before the harness. */
TC_API int tc_harness_watch_task_graph(tc_harness *h, tc_ctx *ctx, tc_watch **ret_watch,
                                       tc_err *err) TC_CHECKED;

/* ---- creating tasks ---- */

/*   conversation_id   required without an owner; with one it is the owner's
 *   owner_task_id     0: the conversation is the owner
 *   is_background     not with an owner
 *   abandon_on_restart  never resumed after the program died or closed */
typedef struct tc_task_options {
    size_t size;
    uint64_t conversation_id;
    uint64_t owner_task_id;
    bool is_background;
    bool abandon_on_restart;
} tc_task_options;
#ifdef __cplusplus
#define TC_TASK_OPTIONS (tc_task_options{sizeof(tc_task_options), 0, 0, false, false})
#else
#define TC_TASK_OPTIONS ((tc_task_options){sizeof(tc_task_options), 0, 0, false, false})
#endif

/* In a transaction: the new task, pending with its initial checkpoint. */
TC_API int tc_tx_create_task_of(tc_tx *tx, const tc_task_def *def, tc_str input,
                                const tc_task_options *options, uint64_t *ret_id,
                                tc_err *err) TC_CHECKED;

/* ---- inside a handler ---- */

typedef enum tc_wait_policy { TC_WAIT_ALL_SETTLED = 0, TC_WAIT_FAIL_FAST } tc_wait_policy;

typedef enum tc_next_kind {
    TC_NEXT_STAY,      /* no new state: the commit is about other things */
    TC_NEXT_RUNNING,   /* checkpoint: the next phase, in this invocation */
    TC_NEXT_WAITING,   /* checkpoint, on, policy */
    TC_NEXT_SLEEPING,  /* checkpoint, until_ms >= 0 */
    TC_NEXT_COMPLETED, /* result */
    TC_NEXT_FAILED,    /* message, detail?, result? */
    TC_NEXT_ABORTED    /* reason?, result? */
} tc_next_kind;

/* JSON texts; empty: absent. checkpoint is an object with a string "phase". message and reason are
 * plain text. */
typedef struct tc_next {
    tc_next_kind kind;
    tc_str checkpoint;
    const uint64_t *on;
    size_t non;
    tc_wait_policy policy;
    int64_t until_ms;
    tc_str result;
    tc_str message;
    tc_str detail;
    tc_str reason;
} tc_next;

/* The record the phase started with, decoded. Valid until the handler returns.
 *   record      all of it, JSON
 *   input, checkpoint   JSON
 *   abort_reason   "restart" or empty */
typedef struct tc_task_info {
    uint64_t id, conversation_id, owner_task_id;
    tc_str kind;
    uint64_t version;
    tc_str record, input, checkpoint, phase;
    bool is_background, is_abort, abandon_on_restart;
    tc_str abort_reason;
    uint64_t restarts;
} tc_task_info;

TC_API const tc_task_info *tc_task_current(const tc_task *t);
TC_API void *tc_task_user(const tc_task *t); /* of the definition */
TC_API tc_harness *tc_task_harness(const tc_task *t);
/* Cancelled when the task is aborted (in a phase) or the harness closes; for calls made meanwhile. */
TC_API tc_ctx *tc_task_ctx(tc_task *t);
/* For what lives until the phase returns. */
TC_API tc_result *tc_task_result(tc_task *t);
TC_API int64_t tc_task_now(tc_task *t);

/* Take the line for a commit of this task. *ret_record (may be NULL): its record as it is now, JSON,
 * valid until the commit ends. Refused with CANCELLED when the task is marked (in a phase) or the
 * harness closes, with CLOSED when the invocation has ended. Entries appended in it name this task.
 * While the line is held, nothing may be waited for. */
TC_API int tc_task_begin(tc_task *t, tc_tx **ret_tx, tc_str *ret_record, tc_err *err) TC_CHECKED;
/* Commit with a next state, which ends the transaction in any case. Errors besides those of the
 * session: INVALID for a bad state (a task that does not exist, failFast on one that is not owned,
 * a checkpoint without phase), CONFLICT for a wait that would never end (the message has the
 * circle). */
TC_API int tc_task_commit(tc_task *t, tc_tx *tx, const tc_next *next, tc_err *err) TC_CHECKED;
/* A commit of the next state alone. */
TC_API int tc_task_next(tc_task *t, const tc_next *next, tc_err *err) TC_CHECKED;
/* A commit of a sleep alone. */
TC_API int tc_task_sleep_until(tc_task *t, int64_t until_ms, tc_str checkpoint,
                               tc_err *err) TC_CHECKED;

/* Store value (JSON) under name unless there is one; the stored one, in the task's result. */
TC_API int tc_task_memo(tc_task *t, tc_str name, tc_str value, tc_str *ret_value,
                        tc_err *err) TC_CHECKED;
/* *ret_is_known false: none. */
TC_API int tc_task_get_memo(tc_task *t, tc_str name, bool *ret_is_known, tc_str *ret_value,
                            tc_err *err) TC_CHECKED;

/* A task owned by this one, in a commit of its own. */
TC_API int tc_task_create(tc_task *t, const tc_task_def *def, tc_str input, bool abandon_on_restart,
                          uint64_t *ret_id, tc_err *err) TC_CHECKED;
TC_API int tc_task_get(tc_task *t, uint64_t id, tc_str *ret_record, tc_err *err) TC_CHECKED;
/* Wait in place for the end of another task, which costs this thread but nobody else's. The better
 * way is to commit TC_NEXT_WAITING. CANCELLED when this task is to end. */
TC_API int tc_task_wait(tc_task *t, uint64_t id, tc_str *ret_record, tc_err *err) TC_CHECKED;
/* Mark a task owned by this one and wait for its end. INVALID: not owned. */
TC_API int tc_task_abort_owned(tc_task *t, uint64_t id, tc_err *err) TC_CHECKED;
/* Ids of the live tasks this one owns directly, ascending; in the task's result. */
TC_API int tc_task_owned(tc_task *t, const uint64_t **ret_ids, size_t *ret_n,
                         tc_err *err) TC_CHECKED;
/* The outcome, JSON, of a task that has ended; CONFLICT when it has not. */
TC_API int tc_task_outcome(tc_task *t, uint64_t id, tc_str *ret_outcome, tc_err *err) TC_CHECKED;
/* Sleep in place, the thread parked. CANCELLED when this task is to end. */
TC_API int tc_task_pause(tc_task *t, int64_t ms, tc_err *err) TC_CHECKED;
/* A conversation, to be used on behalf of this task (telechir/agent.h). NOT_FOUND. */
struct tc_bound;
TC_API int tc_task_conversation(tc_task *t, uint64_t id, struct tc_bound *ret_bound,
                                tc_err *err) TC_CHECKED;
/* Asks options.env for this task's conversation. NULL in *ret_env: there is none. Give it back with
 * tc_task_env_release, before the handler returns. */
TC_API int tc_task_env(tc_task *t, tc_env **ret_env, tc_err *err) TC_CHECKED;
TC_API void tc_task_env_release(tc_task *t, tc_env *env); /* NULL is fine */
/* Tell options.on_report; type TASK_ERROR with this task. */
TC_API void tc_task_report(tc_task *t, const tc_err *error);

#ifdef __cplusplus
}
#endif
#endif
