/* SPDX-License-Identifier: Apache-2.0
 *
 * "pi.usage": what a conversation has spent, by model and by tool. */
#ifndef TCI_HARNESS_USAGE_H
#define TCI_HARNESS_USAGE_H

#include "harness/documents.h"

/* Add a usage object to what is counted under key, in bucket "models" or "tools". Nothing for a
 * usage that is empty or no object. On the line. */
int tci_usage_record(tc_tx *tx, uint64_t conversation, tc_str bucket, tc_str key, tc_str usage,
                     tc_err *err) TC_CHECKED;
/* The sum of two usage objects as text. Counters that neither has are left out where they are
 * optional. Integers stay integers. */
void tci_usage_put_sum(tci_buf *b, const tci_json *a, const tci_json *c);
/* totalTokens, or the sum of its parts; 0 without usage. */
uint64_t tci_usage_context_tokens(const tci_json *usage);

#endif
