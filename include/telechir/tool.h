/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools: what a model may call. A tool is a table of facts and one function; it acts on the world
 * only through the execution environment of its call, and everything it reports while it runs is
 * durable.
 *
 * JSON goes in and out as text (telechir/json.h reads it). An empty text where a value may be
 * missing means that it is missing; null is the text "null". Numbers keep the digits they were
 * written with.
 *
 * Replay: the intent to run a tool is committed before it runs, its result after. A call that was cut
 * off between the two runs again only when the tool was declared safe then and is now; otherwise the
 * model is told that it was interrupted and may have partly run. */
#ifndef TELECHIR_TOOL_H
#define TELECHIR_TOOL_H

#include <telechir/env.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tc_harness;
struct tc_tx;

/* What a running call may do: the functions tc_tool_* below. It lives until execute returns; from
 * then on every call with a pointer to it is the caller's mistake. */
typedef struct tc_tool_api tc_tool_api;

/* ---- definition ---- */

typedef enum tc_tool_replay {
    TC_REPLAY_UNSAFE = 0, /* at most once */
    TC_REPLAY_SAFE        /* may run again after it was cut off */
} tc_tool_replay;

typedef enum tc_tool_callers {
    TC_CALLERS_BOTH = 0,
    TC_CALLERS_MODEL = 1 << 0, /* offered to models */
    TC_CALLERS_TOOLS = 1 << 1  /* may be called by other tools */
} tc_tool_callers;

typedef enum tc_output_retain {
    TC_RETAIN_HEAD = 0, /* the first lines are kept */
    TC_RETAIN_TAIL      /* the last ones */
} tc_output_retain;

typedef enum tc_severity { TC_SEVERITY_INFO = 0, TC_SEVERITY_WARN, TC_SEVERITY_ERROR } tc_severity;

/* What a call returns. Zero is a good result without anything: its content is then the output that
 * was reported while it ran. Texts live in api's result (tc_tool_result_memory) or are static.
 *   output             JSON array of content items {"type":"text","text":...} or
 *                      {"type":"image","data":base64,"mimeType":...}; empty: the reported output
 *   structured_output  JSON, of a tool that declares a schema for it
 *   details            JSON for people and programs, not for the model; empty: the last reported
 *   diagnostics        JSON array of {"severity","message","code"?}, after the reported ones
 *   usage              JSON, of models the tool used
 *   control            JSON {"addTools":[names]?,"terminate":true?,"handoff":text?} */
typedef struct tc_tool_result {
    size_t size;
    bool is_error;
    tc_str output, structured_output, details, diagnostics, usage, control;
} tc_tool_result;

/* Run the call. arguments: a JSON object that was checked against the schema. ctx ends when the call
 * is aborted or the harness closes: return soon then, with any code. A failure becomes a result with
 * is_error whose diagnostic "tool_error" is err->msg (or what tc_tool_fail was given); the run
 * goes on. The calling thread is a thread of the call's own; no lock is held. */
typedef int (*tc_tool_execute)(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                               tc_tool_result *ret_result, tc_err *err);

/* Repair arguments a model often gets wrong, before they are checked. Fast, no waiting. Leave
 * *ret_arguments alone to keep them. */
typedef int (*tc_tool_prepare)(void *user, tc_str arguments, tc_result *r, tc_str *ret_arguments,
                               tc_err *err);

/* A tool. Zero is the default of everything but name and execute. It and its texts are borrowed for as
 * long as the registry lives that it is installed in.
 *   parameters             JSON Schema of the arguments; empty: any object
 *   is_sequential          the calls of one answer run one after another when this tool is among them
 *   structured_output_schema   JSON Schema; the result must carry a matching value then
 *   callers                tc_tool_callers, 0: both
 *   is_deferred            offered only after it was loaded (tc_tool_search)
 *   max_output_bytes, max_output_lines   51200, 2000
 *   constrained_sampling   JSON, part of the declaration that models see */
typedef struct tc_tool {
    size_t size;
    tc_str name, description, parameters;
    tc_tool_execute execute;
    tc_tool_prepare prepare;
    void *user;
    tc_tool_replay replay;
    bool is_sequential, is_deferred;
    unsigned callers;
    tc_str structured_output_schema;
    uint64_t max_output_bytes, max_output_lines;
    tc_output_retain retain;
    tc_str constrained_sampling;
} tc_tool;

/* ---- during a call ---- */

/* Whose call it is. */
TC_API uint64_t tc_tool_task_id(const tc_tool_api *api);
TC_API uint64_t tc_tool_conversation_id(const tc_tool_api *api);
TC_API tc_str
tc_tool_call_id(const tc_tool_api *api); /* as the model gave it; "<parent>/<key>" nested */
TC_API int64_t tc_tool_now_ms(const tc_tool_api *api); /* the harness clock */
TC_API struct tc_harness *tc_tool_harness(const tc_tool_api *api);

/* A conversation, to be used on behalf of this call until it ends (telechir/agent.h: tc_bound). NOT_FOUND. */
struct tc_bound;
TC_API int tc_tool_conversation(tc_tool_api *api, uint64_t id, struct tc_bound *ret_bound,
                                tc_err *err) TC_CHECKED;

/* Storage that lives until the result was committed: for the texts of tc_tool_result. One thread at
 * a time. */
TC_API tc_result *tc_tool_result_memory(tc_tool_api *api);

/* The environment of this call; NULL when there is none. Borrowed for the call. */
TC_API tc_env *tc_tool_env(const tc_tool_api *api);
/* The same, but none is an error with the words models know. */
TC_API int tc_tool_require_env(const tc_tool_api *api, tc_env **ret_env, tc_err *err) TC_CHECKED;

/* End the call with a message of any length, which is also cut into err. Returns INVALID, so that a
 * tool writes `return tc_tool_fail(api, err, ...)`. */
TC_API int tc_tool_fail(tc_tool_api *api, tc_err *err, const char *fmt, ...) TC_PRINTF(3, 4);

/* Report output as it comes. bytes: UTF-8, may be cut anywhere; bad bytes become U+FFFD. Only
 * the head or tail is kept, what is dropped is counted. skipped: what the producer left out before
 * these bytes, only with TC_RETAIN_TAIL; or NULL. Any thread. Errors: NO_MEMORY, INVALID, CLOSED. */
TC_API int tc_tool_output(tc_tool_api *api, tc_str bytes, const tc_skipped *skipped,
                          tc_err *err) TC_CHECKED;
/* What is kept of it now, as the model would see it. */
TC_API int tc_tool_retained_output(tc_tool_api *api, tc_result *r, tc_str *ret_text,
                                   tc_err *err) TC_CHECKED;
/* A remark beside the output. code may be empty. */
TC_API int tc_tool_diagnostic(tc_tool_api *api, tc_severity severity, tc_str code, tc_str message,
                              tc_err *err) TC_CHECKED;
/* Progress for watchers: any JSON value; the last one is the result's details unless it has some. */
TC_API int tc_tool_details(tc_tool_api *api, tc_str json, tc_err *err) TC_CHECKED;
/* Wait until everything reported so far is committed. */
TC_API int tc_tool_flush(tc_tool_api *api, tc_ctx *ctx, tc_err *err) TC_CHECKED;

/* What a watcher of a tail-keeping tool keeps of the output, for tc_exec_options.window: NULL for
 * others. */
typedef struct tc_output_window {
    uint64_t max_bytes, max_lines, min_interval_ms, bytes_per_second;
} tc_output_window;
TC_API const tc_output_window *tc_tool_output_window(const tc_tool_api *api);

/* A value that survives restarts of this call: stored when name has none yet; *ret_value is what is
 * stored then, by whoever was first. value empty: only look (*ret_value empty: none). */
TC_API int tc_tool_memo(tc_tool_api *api, tc_ctx *ctx, tc_str name, tc_str value, tc_result *r,
                        tc_str *ret_value, tc_err *err) TC_CHECKED;

/* One commit of the tool's own. change runs with the line held: no waiting, no effects in it. Any
 * return but 0 rolls back and is returned. */
typedef int (*tc_tool_change)(void *user, struct tc_tx *tx, tc_err *err);
TC_API int tc_tool_commit(tc_tool_api *api, tc_ctx *ctx, tc_tool_change change, void *user,
                          tc_err *err) TC_CHECKED;

/* Call another tool of this conversation's agent, as a task of this one.
 *   key            names the call within this one, so that a rerun finds it again; empty: "1", "2", ...
 *                  in call order. No '/', not a positive integer, not "__proto__". The same key with the
 *                  same tool and arguments is the same call; with others it is a CONFLICT
 *   without_progress   its output while it runs is not shown */
typedef struct tc_nested_options {
    size_t size;
    tc_str key;
    bool without_progress;
} tc_nested_options;
/* How a nested call ended. structured_output, details, diagnostics (an array), usage: JSON. */
typedef struct tc_nested_result {
    uint64_t task_id;
    bool is_error;
    tc_str structured_output, details, diagnostics, usage;
    bool has_duration;
    int64_t duration_ms;
} tc_nested_result;
/* Blocks until it ended; several at once from several threads are fine. A failing tool is a result.
 * options may be NULL. Errors: CONFLICT, INVALID (key), CANCELLED. */
TC_API int tc_tool_execute_tool(tc_tool_api *api, tc_ctx *ctx, tc_str name, tc_str arguments,
                                const tc_nested_options *options, tc_result *r,
                                tc_nested_result *ret_result, tc_err *err) TC_CHECKED;

/* A fresh operation id for one change in the call's environment, to be put in tc_call.operation_id.
 * Where changes can be asked about later (providers over EIP), who would have to be asked is committed
 * before this returns, and after a restart the receipt decides what the model is told; elsewhere the
 * id is empty and costs nothing. Use it once, at once. what: "write notes.txt", for people. */
TC_API int tc_tool_operation(tc_tool_api *api, tc_ctx *ctx, tc_str what, tc_result *r,
                             tc_str *ret_operation_id, tc_err *err) TC_CHECKED;

/* One change of a file at a time within this process, in order of arrival: what read-change-write
 * tools hold from reading to writing. Keyed by the environment's files and the file's canonical path,
 * so links and relative names meet. Other files never wait. No lock against commands. */
typedef struct tc_file_turn tc_file_turn;
TC_API int tc_tool_file_turn(tc_tool_api *api, tc_ctx *ctx, tc_str path, tc_file_turn **ret_turn,
                             tc_err *err) TC_CHECKED;
TC_API void tc_file_turn_end(tc_file_turn *turn); /* NULL is fine */

/* ---- the tools that come with it ---- */

/* Options are borrowed for as long as the tool is installed; NULL: defaults. ret_tool is filled. */

/* An image on its way to a model: bytes and type in, others out (in r), or none (NOT_FOUND). */
typedef struct tc_image {
    tc_str bytes, mime_type;
    uint32_t width, height; /* 0: not known */
} tc_image;
typedef int (*tc_image_processor)(void *user, const tc_image *image, uint32_t max_width,
                                  uint32_t max_height, uint64_t max_base64_bytes, tc_result *r,
                                  tc_image *ret_image, tc_err *err);
typedef struct tc_read_options {
    size_t size;
    tc_image_processor process_image; /* NULL: images go as they are, or not at all */
    void *user;
    uint32_t max_image_width, max_image_height; /* 2000 */
    uint64_t max_image_base64_bytes;            /* 4718592 */
} tc_read_options;
/* Lines of a text file, or an image. */
TC_API void tc_tool_read(const tc_read_options *options, tc_tool *ret_tool);
/* A whole file. */
TC_API void tc_tool_write(tc_tool *ret_tool);
/* Exact replacements in a file; every byte that is not replaced stays as it is. */
TC_API void tc_tool_edit(tc_tool *ret_tool);

/* What a command is, before it runs. */
typedef struct tc_bash_command {
    tc_str command, cwd;
    const tc_pair *set_env;
    size_t nset_env;
    bool without_inherited_env;
} tc_bash_command;
typedef struct tc_bash_options {
    size_t size;
    tc_str command_prefix; /* lines before every command */
    int (*prepare)(void *user, tc_result *r, tc_bash_command *command, tc_err *err);
    void *user;
    tc_strs powershell_programs; /* of tc_tool_powershell: "pwsh", "powershell" */
} tc_bash_options;
/* A command of the environment's shell. */
TC_API void tc_tool_bash(const tc_bash_options *options, tc_tool *ret_tool);
TC_API void tc_tool_powershell(const tc_bash_options *options, tc_tool *ret_tool);

/* Entries of one directory; lines that match a pattern; names that match one. */
TC_API void tc_tool_ls(tc_tool *ret_tool);
TC_API void tc_tool_grep(tc_tool *ret_tool);
TC_API void tc_tool_find(tc_tool *ret_tool);

/* Finds deferred tools by words and loads them. */
TC_API void tc_tool_search(tc_tool *ret_tool);

/* They come as extensions (telechir/agent.h): "coding-tools" (read, write, edit, bash), "telechir-tools"
 * (ls, grep, find) and "tool-search". Nothing installs them by itself. Options as above. Free them after
 * the registry they were installed in. */
struct tc_extension;
TC_API int tc_coding_tools_new(const tc_read_options *read, const tc_bash_options *bash,
                               struct tc_extension **ret_extension, tc_err *err) TC_CHECKED;
TC_API int tc_telechir_tools_new(struct tc_extension **ret_extension, tc_err *err) TC_CHECKED;
TC_API int tc_tool_search_new(struct tc_extension **ret_extension, tc_err *err) TC_CHECKED;
/* What a _new of this header made. NULL is fine. */
TC_API void tc_tools_free(struct tc_extension *extension);

/* ---- approvals ---- */

/* A gate before tools run: every call of a gated tool waits until somebody says yes or no. The
 * request is a document of its task ("tc.approval"), committed before anybody is asked, and bound to the exact
 * arguments: it survives restarts under the same id, and an answer for other arguments is refused. */
typedef enum tc_approval_state {
    TC_APPROVAL_PENDING = 0,
    TC_APPROVAL_GRANTED,
    TC_APPROVAL_REFUSED
} tc_approval_state;
typedef struct tc_approval {
    tc_str request_id;
    uint64_t conversation_id, task_id;
    tc_str call_id, tool, arguments; /* JSON, as they would run */
    tc_str digest;                   /* of tool and arguments: 64 hex digits */
    int64_t asked_at_ms;
    tc_approval_state state;
} tc_approval;
typedef struct tc_approvals {
    const tc_approval *items;
    size_t count;
} tc_approvals;

/* The gate, as the extension "ask": every call waits for an answer, also one that a tool makes, but not
 * calls of the tools named. Free it with tc_tools_free. */
TC_API int tc_approval_gate_new(tc_strs free_tools, struct tc_extension **ret_extension,
                                tc_err *err) TC_CHECKED;
/* What waits to be answered (conversation_id 0: everywhere), oldest first. */
TC_API int tc_approval_list(struct tc_harness *h, tc_ctx *ctx, uint64_t conversation_id,
                            tc_result *r, tc_approvals *ret_approvals, tc_err *err) TC_CHECKED;
/* Answer one, durably. digest: of the request that was looked at; another is a CONFLICT and nothing
 * changes. The same answer twice is fine and runs the call once; another answer after the first is a CONFLICT.
 * NOT_FOUND: no such request, or its call has ended. reason: told to the model when refused. */
TC_API int tc_approval_answer(struct tc_harness *h, tc_ctx *ctx, tc_str request_id, tc_str digest,
                              bool is_granted, tc_str reason, tc_err *err) TC_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
