/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate before tools run: inside. */
#ifndef TCI_HARNESS_APPROVAL_H
#define TCI_HARNESS_APPROVAL_H

#include "harness/agent.h"

extern const tc_doc_def tci_approval_doc; /* "tc.approval", of the call's task */

/* Is this extension a gate? */
bool tci_approval_is_gate(const tc_extension *extension);
/* Are these the arguments that were granted? Hooks behind the gate may have changed them. *ret_refusal:
 * why not; empty: they are, or the tool needs no approval. */
int tci_approval_check(tc_task *t, tc_str tool, tc_str arguments, tc_str *ret_refusal,
                       tc_err *err) TC_CHECKED;

#endif
