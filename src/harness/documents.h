/* SPDX-License-Identifier: Apache-2.0
 *
 * The documents every conversation has (durable formats, "Built-in document values"). */
#ifndef TCI_HARNESS_DOCUMENTS_H
#define TCI_HARNESS_DOCUMENTS_H

#include "harness/sched/harness_int.h"

extern const tc_doc_def tci_live_doc;     /* "pi.live" */
extern const tc_doc_def tci_inbox_doc;    /* "pi.inbox" */
extern const tc_doc_def tci_usage_doc;    /* "pi.usage" */
extern const tc_doc_def tci_provider_doc; /* "pi.provider" */
extern const tc_doc_def tci_agent_doc;    /* "pi.agent" */

enum { TCI_BUILT_IN_DOCS = 5 };
/* In the order in which a new conversation gets them: live, inbox, usage, provider, agent. */
extern const tc_doc_def *const tci_built_in_docs[TCI_BUILT_IN_DOCS];

/* A conversation's document to be changed; made when there is none. On the line. */
static inline int tci_doc_of(tc_tx *tx, const tc_doc_def *def, uint64_t conversation,
                             tc_doc **ret_doc, tc_err *err)
{
    return tc_tx_doc(tx, def, conversation, (tc_str){NULL, 0}, (tc_str){NULL, 0}, ret_doc, err);
}

/* Text by a format, in r. */
int tci_result_printf(tc_result *r, tc_str *ret, tc_err *err, const char *fmt, ...) TC_CHECKED
    TC_PRINTF(4, 5);
/* What b holds, in r; b is released, also on failure. */
int tci_result_take(tc_result *r, tci_buf *b, tc_str *ret, tc_err *err) TC_CHECKED;

/* JSON text of a value, parsed into r, lone surrogates kept, of equal keys the last. */
int tci_parse(tc_result *r, tc_str text, const tci_json **ret, tc_err *err) TC_CHECKED;

/* Writing: "key":value with a comma before unless *first. */
void tci_put_str_member(tci_buf *b, bool *first, tc_str key, tc_str text);
void tci_put_u64_member(tci_buf *b, bool *first, tc_str key, uint64_t n);
void tci_put_i64_member(tci_buf *b, bool *first, tc_str key, int64_t n);
void tci_put_bool_member(tci_buf *b, bool *first, tc_str key, bool v);
void tci_put_raw_member(tci_buf *b, bool *first, tc_str key, tc_str json);

#endif
