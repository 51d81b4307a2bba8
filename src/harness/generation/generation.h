/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking models from tasks, and the parts of the generation task. Everything here runs on the task's
 * thread. */
#ifndef TCI_HARNESS_GENERATION_H
#define TCI_HARNESS_GENERATION_H

#include "harness/agent.h"
#include "harness/generation/compact.h"
#include "harness/inbox.h"
#include <telechir/model.h>

/* ---- commits of a task ---- */

/* Straight code in a transaction of the task; next is zeroed (TC_NEXT_STAY). */
typedef int (*tci_change_fn)(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err);
int tci_task_change(tc_task *t, tci_change_fn fn, void *arg, tc_err *err) TC_CHECKED;

/* ---- models ---- */

/* *ret_is_known false: there is no such model, or no models at all. */
int tci_find_model(tc_harness *h, tc_str provider, tc_str model_id, tc_result *r,
                   tc_model *ret_model, bool *ret_is_known, tc_err *err) TC_CHECKED;
/* "No model is configured" or "Model a/b is not available", in r. */
int tci_no_model_text(tc_result *r, tc_str provider, tc_str model_id, tc_str *ret,
                      tc_err *err) TC_CHECKED;
/* The conversation's key for the provider, made if it has none yet. */
int tci_provider_session(tc_task *t, tc_str *ret_session_id, tc_err *err) TC_CHECKED;
/* A question with the persisted options (JSON) filled in; messages are the caller's. */
int tci_request_init(tc_task *t, const tc_model *model, tc_str stream_options,
                     tc_str thinking_level, tc_model_request *ret, tc_err *err) TC_CHECKED;
/* Whether another attempt may follow, and when. */
bool tci_may_retry(const tc_settings *settings, tc_str error_message, uint64_t attempt);
int64_t tci_retry_delay_ms(const tc_settings *settings, uint64_t attempt);

/* ---- generation ---- */

/* What the phases of a generation know of themselves; texts in the task's result. model: JSON. */
typedef struct tci_generation {
    tc_task *t;
    tc_harness *h;
    tc_result *r;
    uint64_t conversation, id;
    const tci_json *checkpoint;
    tc_settings settings;
    uint64_t attempt, compacted, cutoff;
    int64_t poll_at;
    tc_str model, provider, model_id;
} tci_generation;
int tci_generation_init(tci_generation *g, tc_task *t, tc_err *err) TC_CHECKED;

/* generation_stream.c: ask, and show what comes while it comes. */
int tci_generation_ask(tci_generation *g, const tc_model_request *request, tc_str *ret_message,
                       tc_err *err) TC_CHECKED;
/* generation_classify.c: what to do with an answer. */
int tci_generation_classify(tci_generation *g, tc_str message, tc_err *err) TC_CHECKED;
/* generation_tools.c: the two ends of a tool round. message: the answer with these calls. */
int tci_generation_start_tools(tci_generation *g, tc_str message, const tci_json *v,
                               tc_err *err) TC_CHECKED;
int tci_generation_tools(tc_task *t, tc_err *err) TC_CHECKED; /* the phase */
/* The call of an assistant entry's message, by id; NULL when it has none. */
const tci_json *tci_find_call(const tci_json *message, tc_str call_id);

/* generation_end.c: on the line. Append an answer, and count what it used. */
int tci_append_assistant(tc_tx *tx, uint64_t conversation, tc_str message, uint64_t *ret_entry,
                         tc_err *err) TC_CHECKED;
/* What was streamed and not finished becomes an answer that was aborted. */
int tci_convert_partial(tc_tx *tx, tc_doc *live, uint64_t conversation, tc_err *err) TC_CHECKED;
/* A generation that goes on with the run of this one. */
int tci_hand_over(tci_generation *g, tc_tx *tx, tc_doc *live, tc_err *err) TC_CHECKED;
/* The run is over with this settlement; those placed by a boundary, if any, start another. */
int tci_end_and_start(tci_generation *g, tc_tx *tx, tc_doc *live, const tc_settlement *settlement,
                      const tci_placed *placed, tc_err *err) TC_CHECKED;

/* How a run fails. message: of an answer that is still to be appended, empty: none. text: why. gain:
 * as tci_gain_write, negative: leave it. */
typedef struct tci_failure {
    tc_str reason; /* "no_model", "model_error" */
    tc_str text;
    tc_str message;
    int gain;
    uint64_t gain_at;
} tci_failure;
int tci_generation_fail(tci_generation *g, const tci_failure *failure, tc_err *err) TC_CHECKED;

/* How many automatic compactions in a row gained nothing, as of the one at this head marker. On the
 * line; writing 0 where there is nothing writes nothing. */
int tci_gain_read(tc_harness *h, uint64_t conversation, uint64_t *ret_count, uint64_t *ret_at,
                  tc_err *err) TC_CHECKED;
int tci_gain_write(tc_tx *tx, uint64_t conversation, uint64_t count, uint64_t at,
                   tc_err *err) TC_CHECKED;

#endif
