/* SPDX-License-Identifier: Apache-2.0
 *
 * "pi.inbox" and boundaries: what waits in a conversation, and when it is its turn. On the line. */
#ifndef TCI_HARNESS_INBOX_H
#define TCI_HARNESS_INBOX_H

#include "harness/documents.h"

/* What a boundary looks at before the first table write of its transaction.
 *   head   where the active range starts, moved on by what is placed; 0: the beginning */
typedef struct tci_boundary {
    uint64_t conversation;
    tc_doc *inbox;
    tc_queue_mode steering_mode, follow_up_mode;
    uint64_t head;
} tci_boundary;
int tci_boundary_prepare(tc_harness *h, tc_tx *tx, uint64_t conversation, tci_boundary *ret,
                         tc_err *err) TC_CHECKED;

/*   users   submissions placed, in order; in the transaction's arena */
typedef struct tci_placed {
    const uint64_t *users;
    size_t nusers;
    bool is_reset;
} tci_placed;
/* Place what the boundary selects, writes first; a queued reset makes it final in any case. */
int tci_boundary_apply(tc_tx *tx, tci_boundary *b, bool is_final, int64_t now_ms, tci_placed *ret,
                       tc_err *err) TC_CHECKED;

bool tci_inbox_has_reset(const tc_json *inbox);
size_t tci_inbox_count(const tc_json *inbox);
/* Another item at the end: JSON text. */
int tci_inbox_add(tc_doc *inbox, tc_str item, tc_err *err) TC_CHECKED;
/* Take the item of a submission out; nothing when there is none. */
int tci_inbox_remove(tc_tx *tx, uint64_t conversation, uint64_t submission, tc_err *err) TC_CHECKED;
/* Settle every queued input as unanswered, and take them out. */
int tci_inbox_withdraw(tc_tx *tx, uint64_t conversation, tc_str reason, tc_err *err) TC_CHECKED;

/* The entry an input becomes. content: JSON; entry: {"kind","data"?} or empty. */
int tci_append_input(tc_tx *tx, uint64_t conversation, tc_str content, tc_str entry, int64_t now_ms,
                     uint64_t *ret_entry, tc_err *err) TC_CHECKED;
/* Whether a draft's head lies before the active range. */
bool tci_is_stale(const tci_boundary *b, const tc_json *draft);

#endif
