/* SPDX-License-Identifier: Apache-2.0
 *
 * "pi.live": who runs in a conversation, and what is to be seen of it. Changes are made on the line,
 * to the document of one transaction. */
#ifndef TCI_HARNESS_LIVE_H
#define TCI_HARNESS_LIVE_H

#include "harness/documents.h"

/* Where something is in the document: a JSON Pointer. Empty: nowhere. */
typedef struct tci_spot {
    char text[64];
} tci_spot;
static inline tc_str tci_spot_str(const tci_spot *spot)
{
    return tci_str(spot->text);
}
/* spot with a member: "/tools/0/output". name is a plain literal. */
tci_spot tci_spot_member(const tci_spot *spot, const char *name);

/* ---- runs ---- */

/* Whether a run is under way, whose it is (0: none) and the inputs it answers. */
bool tci_live_run(const tc_json *live, uint64_t *ret_task);
/* A new generation task that answers these submissions. */
int tci_live_start_run(tc_harness *h, tc_tx *tx, tc_doc *live, uint64_t conversation,
                       const uint64_t *inputs, size_t ninputs, tc_err *err) TC_CHECKED;
/* More inputs for the run of this task; nothing when it has none. */
int tci_live_join_run(tc_doc *live, uint64_t task, const uint64_t *inputs, size_t ninputs,
                      tc_err *err) TC_CHECKED;
/* Another task goes on with the run. */
int tci_live_hand_over(tc_doc *live, uint64_t from_task, uint64_t to_task, tc_err *err) TC_CHECKED;
/* The run of this task is over: its inputs are settled, and what was shown of it is removed. */
int tci_live_end_run(tc_tx *tx, tc_doc *live, uint64_t task, const tc_settlement *settlement,
                     tc_err *err) TC_CHECKED;

/* ---- tool calls ---- */

/* The slot of a tool task, called by the model or by another tool; empty when there is none. */
tci_spot tci_live_slot(const tc_json *live, uint64_t task);
/* The first slot of the round with this call id and no task. */
tci_spot tci_live_slot_without_task(const tc_json *live, tc_str call_id);
/* Remove output, dropped counts, details, diagnostics. */
int tci_live_clear_progress(tc_doc *live, const tci_spot *slot, tc_err *err) TC_CHECKED;
/* Done, and nothing to be seen of how it went; entry or summary is the caller's to set. */
int tci_live_finish_slot(tc_doc *live, const tci_spot *slot, tc_err *err) TC_CHECKED;
/* Remove the slots of calls made below this task, at any depth. */
int tci_live_remove_nested(tc_doc *live, uint64_t task, tc_err *err) TC_CHECKED;

/* ---- compactions ---- */

int tci_live_add_compaction(tc_doc *live, uint64_t task, tc_str reason, bool is_blocking,
                            tc_err *err) TC_CHECKED;
tci_spot tci_live_compaction(const tc_json *live, uint64_t task); /* empty: none */
int tci_live_remove_compaction(tc_doc *live, uint64_t task, tc_err *err) TC_CHECKED;
/* Remove it, and tell why it failed. */
int tci_live_fail_compaction(tc_doc *live, uint64_t task, tc_str error, tc_err *err) TC_CHECKED;

#endif
