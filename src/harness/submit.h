/* SPDX-License-Identifier: Apache-2.0
 *
 * Admitting what is submitted to a conversation. */
#ifndef TCI_HARNESS_SUBMIT_H
#define TCI_HARNESS_SUBMIT_H

#include "harness/documents.h"

/*   content     of an input: JSON
 *   entry       of a write: the draft; of an input: {"kind","data"?} or empty
 *   request_id  empty: none */
typedef struct tci_submit {
    bool is_write;
    tc_str content, entry;
    tc_str request_id;
    tc_when_busy when_busy;
} tci_submit;

/* On the line, before the first table write of the transaction. NOT_FOUND: no such conversation. */
int tci_submit_admit(tc_harness *h, tc_tx *tx, uint64_t conversation, const tci_submit *submit,
                     int64_t now_ms, uint64_t *ret_id, tc_err *err) TC_CHECKED;
/* In a transaction of its own; enables scheduling. */
int tci_submit_now(tc_harness *h, tc_ctx *ctx, uint64_t conversation, const tci_submit *submit,
                   uint64_t *ret_id, tc_err *err) TC_CHECKED;

#endif
