/* SPDX-License-Identifier: Apache-2.0
 *
 * What the harness asks about answers besides telechir/model.h. Any thread. */
#ifndef TCI_LLM_H
#define TCI_LLM_H

#include "base/compiler.h"
#include <telechir/model.h>

/* What a member "role" of this value stands for. */
tc_role tci_role_named(tc_str name);

/* Of the errorMessage of an answer with stopReason "error": may another attempt, a little later, do
 * better? Never when the account is at its end. */
bool tci_llm_is_retryable(tc_str error_message);
/* Was the question too long for the model? */
bool tci_llm_is_overflow(tc_str error_message);

/* How an error begins when whatever answered is no model's server: asking again is of no use. */
#define TCI_NOT_AN_ANSWER "not an answer of a model API"

#endif
