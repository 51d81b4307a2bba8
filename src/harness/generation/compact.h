/* SPDX-License-Identifier: Apache-2.0
 *
 * Compaction: how large a context is, where it may be cut, and the task that puts a summary in the place
 * of its older part. */
#ifndef TCI_HARNESS_COMPACT_H
#define TCI_HARNESS_COMPACT_H

#include "harness/generation/context.h"
#include "harness/documents.h"

/* The policy for one model: what overrides say, over the general one. */
tc_compaction_policy tci_compaction_policy(const tc_settings *settings, tc_str provider,
                                           tc_str model_id);

/* ---- sizes ---- */

/* Tokens of one message as estimated: characters / 3.5, an image as 4800 characters. */
uint32_t tci_estimate_message(tc_str message);
/* Of a request over the context: what the provider counted for the newest answer after the head marker,
 * and estimates of what follows; without such an answer, estimates of everything. Remembers what it
 * estimated in c. */
uint64_t tci_estimate_context(tci_context *c);

/* ---- the cut ---- */

#define TCI_NO_CUT SIZE_MAX
/* Index into c->active of the first entry that is kept when the newest keep_recent_tokens are to stay;
 * TCI_NO_CUT: there is nothing to be summarised before it. */
size_t tci_select_cut(tci_context *c, uint64_t keep_recent_tokens);

/* ---- the task ---- */

/* A compaction task with its status in live. owner: the generation that waits for it, 0: the
 * conversation's; then in the background unless the reason is "manual". On the line. */
int tci_compaction_create(tc_tx *tx, tc_doc *live, uint64_t conversation, uint64_t owner,
                          tc_str reason, tc_str instructions, uint64_t *ret_task,
                          tc_err *err) TC_CHECKED;

/* ---- compactions that gain nothing ----
 * How often in a row an automatic compaction of a conversation left it above the limit, kept in the
 * document "tc.compaction"; a third is not tried. */
enum { TCI_COMPACTIONS_WITHOUT_GAIN_MAX = 2 };
extern const tc_doc_def tci_gain_doc;
/* Whether the context is what an automatic compaction left: its head marker is one, and no answer came
 * after it. */
bool tci_is_just_compacted(const tci_context *c);

/* ---- text ---- */

/* What the model is asked: the messages before the cut as a transcript, and what to do with it. */
enum { TCI_SUMMARY_MESSAGES = 2 };
int tci_summary_request(const tci_context *c, size_t cut, tc_str instructions, int64_t now_ms,
                        tc_result *r, tc_message ret_messages[TCI_SUMMARY_MESSAGES],
                        tc_err *err) TC_CHECKED;
/* The messages before the cut, a JSON array. */
int tci_summarised_messages(const tci_context *c, size_t cut, tci_buf *b, tc_err *err) TC_CHECKED;
/* Draft of the entry that holds a summary. */
int tci_summary_entry(tc_str summary, uint64_t first_kept, tc_str reason, int64_t now_ms,
                      tc_result *r, tc_str *ret_draft, tc_err *err) TC_CHECKED;

#endif
