/* SPDX-License-Identifier: Apache-2.0
 *
 * Agents over a durable session: conversations and what is submitted to them, what an agent is made
 * of (model, tools, prompt sections, hooks), and watching a run.
 *
 * A conversation, a submission and a task are numbers, good for the life of the session, over any
 * number of restarts. JSON goes in and out as text (telechir/json.h reads it). Calls block the
 * calling thread; any thread may call, but not from inside a commit or a commit listener. */
#ifndef TELECHIR_AGENT_H
#define TELECHIR_AGENT_H

#include <telechir/session.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tc_env;
struct tc_harness;
struct tc_task_def;
struct tc_tool;

/* ---- conversations ---- */

/* How a conversation begins. Zero: nobody's, with an empty agent.
 *   owner_task  the task it belongs to: cancelled with it, and part of what it waits for; 0: nobody's
 *   agent       JSON object, a change to the conversation's agent (see tc_conversation_configure)
 *   init        runs inside the commit that creates it, after the agent's change */
typedef struct tc_conversation_options {
    size_t size;
    uint64_t owner_task;
    tc_str agent;
    int (*init)(void *user, tc_tx *tx, uint64_t conversation, tc_err *err);
    void *user;
} tc_conversation_options;

/* The root conversation, made the first time; options (may be NULL) apply only then. Its id is 1. */
TC_API int tc_harness_root(struct tc_harness *h, tc_ctx *ctx,
                           const tc_conversation_options *options, uint64_t *ret_id,
                           tc_err *err) TC_CHECKED;
TC_API int tc_conversation_create(struct tc_harness *h, tc_ctx *ctx,
                                  const tc_conversation_options *options, uint64_t *ret_id,
                                  tc_err *err) TC_CHECKED;
/* A new conversation that shares everything up to and including entry `at`, which must be visible
 * from id. Its agent is the one in effect when that entry was written. NOT_FOUND otherwise. */
TC_API int tc_conversation_fork(struct tc_harness *h, tc_ctx *ctx, uint64_t id, uint64_t at,
                                const tc_conversation_options *options, uint64_t *ret_id,
                                tc_err *err) TC_CHECKED;
/* Change the agent: a JSON object; each member given replaces the stored one, null clears it:
 *   model {"provider","modelId"}, thinkingLevel ("off" "minimal" "low" "medium" "high" "xhigh" "max"),
 *   extensions (names, or {"add"?,"remove"?}), tools (names, or {"remove"}), modelTools (names, or
 *   {"add"?,"remove"?}), instructions, cwd
 * Takes effect at the next preparation of a request. INVALID for another shape. */
TC_API int tc_conversation_configure(struct tc_harness *h, tc_ctx *ctx, uint64_t id, tc_str change,
                                     tc_err *err) TC_CHECKED;
/* The agent as it resolves now: {"model"?,"thinkingLevel","extensions":[names],"tools":[names the
 * model is offered],"callable":[names other tools may call],"deferred":[names],"sections":[keys],
 * "instructions"?,"cwd"?}. */
TC_API int tc_conversation_agent(struct tc_harness *h, const tc_call *call, uint64_t id,
                                 tc_str *ret_agent, tc_err *err) TC_CHECKED;

/* ---- submissions ---- */

typedef enum tc_when_busy {
    TC_WHEN_BUSY_FOLLOW_UP = 0, /* after the run's answer, as a run of its own */
    TC_WHEN_BUSY_STEER,         /* into the run, at the end of its tool round */
    TC_WHEN_BUSY_REJECT         /* BUSY */
} tc_when_busy;

/* What somebody says to the agent.
 *   text, content  not both: plain text, or the JSON of a content list (text and image items) or string.
 *                  Neither is the empty text
 *   request_id     the same id again answers with the first submission; empty: none
 *   entry_kind     stored under this kind instead of pi.user, with entry_data (JSON, may be empty);
 *                  not a name starting with "pi." */
typedef struct tc_user_input {
    size_t size;
    tc_str text, content;
    tc_str request_id;
    tc_str entry_kind, entry_data;
    tc_when_busy when_busy;
} tc_user_input;

/* Placed at once and answered by a new run when the conversation is idle, else queued. Enables
 * scheduling. Errors: BUSY (busy and REJECT), INVALID, CONFLICT (request id of a write). */
TC_API int tc_conversation_submit(struct tc_harness *h, tc_ctx *ctx, uint64_t id,
                                  const tc_user_input *input, uint64_t *ret_submission,
                                  tc_err *err) TC_CHECKED;
/* An entry of one's own: {"kind","model"?,"data"?,"head"?: entry id or "self","edits"?}. Without
 * model, head and edits it is for display only and placed at once; else when no run is under way. */
TC_API int tc_conversation_write(struct tc_harness *h, tc_ctx *ctx, uint64_t id, tc_str entry,
                                 tc_str request_id, uint64_t *ret_submission,
                                 tc_err *err) TC_CHECKED;

typedef enum tc_submission_status {
    TC_SUBMISSION_QUEUED = 0,
    TC_SUBMISSION_PLACED,
    TC_SUBMISSION_DONE,
    TC_SUBMISSION_UNANSWERED
} tc_submission_status;

/*   entry   the entry it was placed as; answer: the assistant entry that answered; 0: none
 *   reason  of UNANSWERED: "aborted" "reset" "stale" "no_model" "model_error" "run_failed" "faulted" ...
 *   detail  JSON, may be empty; record: the whole record, JSON */
typedef struct tc_submission {
    uint64_t id, conversation;
    bool is_write;
    tc_submission_status status;
    uint64_t entry, answer;
    tc_str request_id, reason, detail, record;
} tc_submission;

TC_API int tc_submission_get(struct tc_harness *h, const tc_call *call, uint64_t id,
                             tc_submission *ret_submission, tc_err *err) TC_CHECKED;
/* Until it is DONE or UNANSWERED. Enables scheduling. CLOSED: the harness was closed meanwhile; of a
 * session that failed: what it failed of. */
TC_API int tc_submission_wait(struct tc_harness *h, const tc_call *call, uint64_t id,
                              tc_submission *ret_submission, tc_err *err) TC_CHECKED;

typedef enum tc_abort_answer {
    TC_ABORT_ABORTED = 0,
    TC_ABORT_ALREADY_PLACED,
    TC_ABORT_SETTLED,
    TC_ABORT_NOT_FOUND
} tc_abort_answer;
/* Take back what is still queued. */
TC_API int tc_submission_abort(struct tc_harness *h, tc_ctx *ctx, uint64_t id,
                               tc_abort_answer *ret_answer, tc_err *err) TC_CHECKED;

/* ---- working with a conversation ---- */

/* What the model is told: the newest head marker's entry id (0: none), the active transcript, each
 * entry's messages after edits, and the messages of a request. All JSON; arrays of equal length
 * except messages. at: as of this entry; 0: the newest. */
typedef struct tc_context_view {
    uint64_t head;
    const tc_str *entries;       /* records */
    const tc_str *contributions; /* an array of messages each */
    size_t nentries;
    const tc_str *messages;
    size_t nmessages;
} tc_context_view;
TC_API int tc_conversation_context(struct tc_harness *h, const tc_call *call, uint64_t id,
                                   uint64_t at, tc_context_view *ret_view, tc_err *err) TC_CHECKED;

/* Its entries, over the fork chain: tc_session_entries (telechir/session.h). */

/* Summarise what is old. instructions may be empty. The task's result says what came of it. */
TC_API int tc_conversation_compact(struct tc_harness *h, tc_ctx *ctx, uint64_t id,
                                   tc_str instructions, uint64_t *ret_task, tc_err *err) TC_CHECKED;
/* Begin anew: what was said before is not sent to the model any more. handoff: what the new part
 * begins with, may be empty. While busy it ends the run after its tool round. */
TC_API int tc_conversation_reset(struct tc_harness *h, tc_ctx *ctx, uint64_t id, tc_str handoff,
                                 uint64_t *ret_submission, tc_err *err) TC_CHECKED;
/* Stop everything that runs for it: queued inputs are taken back (writes stay), tasks aborted.
 * Returns when it is idle. is_background: what runs in the background too. */
TC_API int tc_conversation_abort(struct tc_harness *h, tc_ctx *ctx, uint64_t id, bool is_background,
                                 tc_err *err) TC_CHECKED;
TC_API int tc_conversation_wait_idle(struct tc_harness *h, tc_ctx *ctx, uint64_t id,
                                     tc_err *err) TC_CHECKED;

/* {"models":{"provider/modelId":usage},"tools":{"name":usage}} of one conversation; id 0: of all. */
TC_API int tc_conversation_usage(struct tc_harness *h, const tc_call *call, uint64_t id,
                                 tc_str *ret_usage, tc_err *err) TC_CHECKED;

/* ---- on behalf of a task ---- */

/* A conversation as the code of a task (telechir/harness.h: tc_task_conversation) or of a tool
 * (telechir/tool.h: tc_tool_conversation) uses it: bound to the invocation that asked for it. A plain
 * value, to be copied as one likes; what is in it is ours. Any thread of that code may call.
 *
 * Calls end with CANCELLED when the task is to end (abort, close), also while they wait, whatever their
 * ctx, and answer CLOSED once the invocation is over, for good: a task that comes back after a restart
 * asks for it again. In a phase whose task is marked they are refused; an abort handler may call them. A
 * thread that waits in one lends its place, as in tc_task_wait.
 *
 * What would wait for itself is refused with CONFLICT instead of being waited for. A task is waited
 * for by all that own it, up to a conversation, and on from there when that one is owned by a task;
 * background work is waited for by nobody. So: to be idle, of a conversation that the caller itself
 * keeps busy; and an answer of a run that is waiting for the caller. The caller's own end is what would
 * be needed for either. */
typedef struct tc_bound {
    struct tc_harness *harness;
    uint64_t conversation;
    uint64_t task, invocation;
} tc_bound;

/* As tc_conversation_submit; only inputs (entries are written in a commit of the task's own). A
 * request_id makes a rerun find what was submitted before. */
TC_API int tc_bound_submit(const tc_bound *c, tc_ctx *ctx, const tc_user_input *input,
                           uint64_t *ret_submission, tc_err *err) TC_CHECKED;
/* As tc_submission_wait and tc_submission_abort, of a submission to this conversation; NOT_FOUND for
 * others. */
TC_API int tc_bound_wait(const tc_bound *c, const tc_call *call, uint64_t submission,
                         tc_submission *ret_submission, tc_err *err) TC_CHECKED;
TC_API int tc_bound_withdraw(const tc_bound *c, tc_ctx *ctx, uint64_t submission,
                             tc_abort_answer *ret_answer, tc_err *err) TC_CHECKED;
/* As tc_conversation_abort. When the caller is below the conversation it is marked too, and the call ends
 * with CANCELLED once all are marked. */
TC_API int tc_bound_abort(const tc_bound *c, tc_ctx *ctx, bool is_background,
                          tc_err *err) TC_CHECKED;
/* As tc_conversation_wait_idle. */
TC_API int tc_bound_wait_idle(const tc_bound *c, tc_ctx *ctx, tc_err *err) TC_CHECKED;

/* ---- watching ---- */

/* {"conversation":record,"entries":[active transcript],"docs":{kind:value}} */
TC_API int tc_conversation_view(struct tc_harness *h, const tc_call *call, uint64_t id,
                                tc_str *ret_view, tc_err *err) TC_CHECKED;

/* The view as a state that follows the commits (telechir/session.h: tc_state): read at any time, and told
 * to who subscribes. It keeps its last value when the harness closes. Free it before the harness. */
TC_API int tc_conversation_view_state(struct tc_harness *h, tc_ctx *ctx, uint64_t id,
                                      tc_state **ret_state, tc_err *err) TC_CHECKED;
/* A watch of the view: frames of operations on it, one for each commit that changed it. */
TC_API int tc_conversation_watch(struct tc_harness *h, tc_ctx *ctx, uint64_t id,
                                 tc_watch **ret_watch, tc_err *err) TC_CHECKED;
/* A watch of what the agent does: frames have no value, their ops is an array of events, objects with
 * a "type". The first frame is one "snapshot": all that a consumer holds before the others; a new one
 * comes when more than 100 frames waited. Then one frame for each commit with events: run_start,
 * turn_start, message_start, message_update, message_end, tool_execution_start,
 * tool_execution_update, tool_execution_end, auto_retry_start, auto_retry_end, deferred_poll,
 * compaction_start, compaction_end, task_failed, turn_end, run_end, entry_appended, submission,
 * inbox_update, agent_changed, usage_changed. Experimental. */
TC_API int tc_conversation_watch_events(struct tc_harness *h, tc_ctx *ctx, uint64_t id,
                                        tc_watch **ret_watch, tc_err *err) TC_CHECKED;

/* ---- what an agent is made of ---- */

/* What code that runs for a task may use: valid during the call. */
typedef struct tc_hook tc_hook;
TC_API uint64_t tc_hook_task(const tc_hook *hook);
TC_API uint64_t tc_hook_conversation(const tc_hook *hook);
TC_API struct tc_harness *tc_hook_harness(const tc_hook *hook);
/* Cancelled when the task is: give it to whatever waits. */
TC_API tc_ctx *tc_hook_ctx(const tc_hook *hook);
/* Remember a decision of this task over restarts: stores value (JSON) under name if there is none,
 * and gives what is stored. An empty value only reads; *ret_value is empty when there is none. */
TC_API int tc_hook_memo(tc_hook *hook, tc_str name, tc_str value, tc_result *r, tc_str *ret_value,
                        tc_err *err) TC_CHECKED;

/* What before_tool decides. Both empty: go on. */
typedef struct tc_tool_decision {
    tc_str block;     /* the reason; the call is not made */
    tc_str arguments; /* JSON object, instead of those asked for */
} tc_tool_decision;
/* What before_compact decides. Neither: go on. */
typedef struct tc_compact_decision {
    bool is_declined;
    tc_str summary; /* used instead of asking the model */
} tc_compact_decision;

/* Called on the task's thread, in the order of the extensions. What a hook returns lives in r. A hook
 * that fails is reported and counts as not there (before_tool: blocks the call). ret_ parameters come
 * zeroed. After a restart a hook may run again for the same step: see tc_hook_memo.
 *   before_request  messages: JSON array; *ret_messages, if any, is sent instead
 *   after_response  every final message but a deferred one
 *   on_yield        the answer; *ret_continue (JSON content), if any, goes on with it; the first wins
 *   after_tools     assistant entry and the result entries of its round
 *   before_tool     call: {"type":"toolCall","id","name","arguments","parent"?}
 *   after_tool      result: {"output"?,"structuredOutput"?,"isError"?,"details"?,"diagnostics"?,"usage"?,
 *                   "control"?}; *ret_result, if any, replaces it
 *   before_compact  {"reason","instructions"?,"firstKept","messages":[what is summarised]} */
typedef struct tc_hooks {
    size_t size;
    int (*before_request)(void *user, tc_hook *hook, tc_str messages, tc_result *r,
                          tc_str *ret_messages, tc_err *err);
    int (*after_response)(void *user, tc_hook *hook, tc_str message, tc_err *err);
    int (*on_yield)(void *user, tc_hook *hook, tc_str message, tc_result *r, tc_str *ret_continue,
                    tc_err *err);
    int (*after_tools)(void *user, tc_hook *hook, uint64_t assistant, const uint64_t *results,
                       size_t nresults, tc_err *err);
    int (*before_tool)(void *user, tc_hook *hook, tc_str call, tc_result *r,
                       tc_tool_decision *ret_decision, tc_err *err);
    int (*after_tool)(void *user, tc_hook *hook, tc_str call, tc_str result, tc_result *r,
                      tc_str *ret_result, tc_err *err);
    int (*before_compact)(void *user, tc_hook *hook, tc_str compaction, tc_result *r,
                          tc_compact_decision *ret_decision, tc_err *err);
} tc_hooks;

/* What a section is rendered from. agent: as tc_conversation_agent gives it; env: where the tools
 * will work, may be NULL; shown: {key: text} of the sections the model was told last. */
typedef struct tc_prompt {
    tc_hook *hook;
    uint64_t conversation;
    tc_str agent, shown;
    struct tc_env *env;
} tc_prompt;

/* A named part of the system prompt, wrapped in <key>...</key> unless is_untagged. key matches
 * ^[a-z][a-z0-9_-]*$ and is not "instructions". render leaves *ret_text empty for "not there"; when
 * it fails the text shown last stays. */
typedef struct tc_section {
    tc_str key;
    bool is_untagged;
    int (*render)(void *user, const tc_prompt *prompt, tc_result *r, tc_str *ret_text, tc_err *err);
    void *user;
} tc_section;

/* Puts something around a tool or a section of another extension: gives a tool (or section) of the
 * same name, made in r or living longer. One that fails or renames takes it away.
 *   tool, section  exactly one: the name */
typedef struct tc_wrap {
    tc_str tool, section;
    int (*wrap_tool)(void *user, const struct tc_tool *inner, tc_result *r,
                     const struct tc_tool **ret_tool, tc_err *err);
    int (*wrap_section)(void *user, const tc_section *inner, tc_result *r,
                        const tc_section **ret_section, tc_err *err);
    void *user;
} tc_wrap;

/* A bundle, installed in a registry (telechir/harness.h) and chosen by name per conversation. It and
 * all it points to must stay as they are until the registry is freed.
 *   hooks   may be NULL; user is theirs */
typedef struct tc_extension {
    size_t size;
    tc_str name;
    const struct tc_tool *const *tools;
    size_t ntools;
    const tc_section *sections;
    size_t nsections;
    const tc_hooks *hooks;
    const tc_wrap *wraps;
    size_t nwraps;
    const struct tc_task_def *const *tasks;
    size_t ntasks;
    void *user;
} tc_extension;

#ifdef __cplusplus
}
#endif
#endif
