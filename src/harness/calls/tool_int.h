/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of "pi.tool": a call, what a running tool holds, and how a result is made and stored. All
 * JSON is text; an empty text is absent. The thread of the task, where no line says otherwise. */
#ifndef TCI_HARNESS_TOOL_INT_H
#define TCI_HARNESS_TOOL_INT_H

#include "harness/agent.h"
#include <telechir/harness.h>
#include "harness/generation/live.h"
#include "harness/calls/tool_report.h"
#include "harness/calls/tool_turn.h"

/* ---- the call ---- */

/* What the task's input says, and the call it stands for.
 *   json       the call as hooks see it: with "parent" when nested
 *   arguments_error   why the arguments could not be read; empty: they could
 * nested only: parent, parent_call_id, key, is_silent (no progress) */
typedef struct tci_tool_call {
    bool is_nested, is_silent;
    tc_str json, id, name, arguments_error;
    const tci_json *arguments; /* NULL: none, or no object */
    uint64_t parent;
    tc_str parent_call_id, key;
} tci_tool_call;

/* Read it, from the assistant entry or the input. Texts in the task's result. NOT_FOUND. */
int tci_tool_read_call(tc_task *t, tci_tool_call *ret_call, tc_err *err) TC_CHECKED;
/* Among those the model is offered, or those tools may call. *ret_tool NULL: it is not there. */
int tci_tool_resolve(tc_task *t, const tci_tool_call *call, const tc_tool **ret_tool,
                     tc_err *err) TC_CHECKED;
/* Repaired and checked. *ret_arguments: what to run with; or *ret_refusal: why not, for the model. */
int tci_tool_check_arguments(tc_task *t, const tci_tool_call *call, const tc_tool *tool,
                             tc_str arguments, bool with_repair, tc_str *ret_arguments,
                             tc_str *ret_refusal, tc_err *err) TC_CHECKED;

tci_output_limits tci_tool_limits(const tc_tool *tool);

/* ---- results ---- */

/* A result without output and with one error diagnostic. */
int tci_tool_error_result(tc_result *r, tc_str code, tc_str message, tc_tool_result *ret_result,
                          tc_err *err) TC_CHECKED;
/* What a slot of "pi.live" says (NULL: nothing), more diagnostics (items without brackets, may be
 * empty), and one error diagnostic. */
int tci_tool_partial_result(tc_result *r, const tc_json *slot, tc_str more, tc_str code,
                            tc_str message, tc_tool_result *ret_result, tc_err *err) TC_CHECKED;
/* The result of a tool that returned: what it reported put in, after_tool hooks run, bounded, checked.
 * PARSE: what the tool returned is no JSON. */
int tci_tool_final_result(tc_task *t, const tci_tool_call *call, const tc_tool *tool,
                          const tc_tool_result *raw, tci_reported *reported,
                          tc_tool_result *ret_result, tc_err *err) TC_CHECKED;

/* The entry of a result: {"kind":"pi.tool-result",...}. duration_ms negative: none. */
int tci_tool_put_entry(tci_buf *b, tc_str call_id, tc_str name, const tc_tool_result *result,
                       int64_t now_ms, int64_t duration_ms, tc_err *err) TC_CHECKED;
/* Append it, and count its usage. On the line. Also for calls that no task was made for. */
int tci_tool_append_result(tc_tx *tx, uint64_t conversation, tc_str call_id, tc_str name,
                           const tc_tool_result *result, int64_t now_ms, int64_t duration_ms,
                           uint64_t *ret_entry, tc_err *err) TC_CHECKED;
/* What the caller of a nested call gets, as stored. */
void tci_tool_put_nested(tci_buf *b, uint64_t task, const tc_tool_result *result,
                         int64_t duration_ms);
/* How a nested call ended, for its slot. */
void tci_tool_put_summary(tci_buf *b, tc_result *r, const tc_tool_result *result,
                          int64_t duration_ms);

/* ---- the end of a task ---- */

typedef struct tci_tool_ending {
    tc_next_kind kind; /* COMPLETED, FAILED, ABORTED */
    tc_str message;    /* of FAILED */
} tci_tool_ending;

/* Ready made, or made from the slot inside the commit: then result is NULL. */
typedef struct tci_tool_settlement {
    const tc_tool_result *result;
    tc_str code, message, more_diagnostics;
    tci_tool_ending ending;
    int64_t duration_ms; /* negative: none */
} tci_tool_settlement;

/* End live nested calls, then store result and end in one commit. */
int tci_tool_settle(tc_task *t, const tci_tool_call *call, const tci_tool_settlement *settlement,
                    tc_err *err) TC_CHECKED;

/* ---- nested calls ---- */

extern const tc_doc_def tci_nested_call_doc; /* "pi.tool.nested-call" */
#define TCI_MADE_NESTED_CALLS TC_STR("pi.tool.madeNestedCalls")

/* ---- changes that can be asked about ---- */

extern const tc_doc_def tci_operation_doc; /* "tc.operation" */

/* What became of the changes that the cut-off attempt of this task noted: diagnostics, items without
 * brackets; empty when there were none. env may be NULL. */
int tci_operation_diagnostics(tc_task *t, tc_str *ret_items, tc_err *err) TC_CHECKED;

/* ---- a running tool ---- */

struct tc_tool_api {
    tc_task *task; /* NULL: nothing is durable (tests) */
    tc_harness *h;
    const tc_tool *tool;
    const tci_tool_call *call;
    uint64_t task_id, conversation_id;
    tc_env *env;
    tc_result *memory;
    tci_turns *turns;
    tc_output_window window; /* max_bytes 0: none */
    tci_reported reported;
    tci_buf failure; /* what tc_tool_fail was given */
    tci_mutex lock;  /* guards the rest */
    uint64_t nnested, noperations;
    bool has_marked_nested;
};

/* task may be NULL. Everything is borrowed. */
int tci_tool_api_init(tc_tool_api *api, tc_task *task, const tci_tool_call *call,
                      const tc_tool *tool, tci_turns *turns, tc_err *err) TC_CHECKED;
void tci_tool_api_done(tc_tool_api *api);

/* The turns of a harness. */
tci_turns *tci_harness_turns(tc_harness *h);

#endif
