/* SPDX-License-Identifier: Apache-2.0
 *
 * The tasks that were written last, with their texts: who runs a task reads what it has just committed, many
 * times in each step, and no backend need look for it or parse it. The store's thread. */
#ifndef TCI_STORE_RECENT_H
#define TCI_STORE_RECENT_H

#include "store/store.h"

enum { TCI_RECENT_TASKS = 8, TCI_RECENT_TEXT_MAX = 32 * 1024 };

typedef struct tci_recent {
    tci_task tasks[TCI_RECENT_TASKS]; /* id 0: none; json and kind lie in texts */
    tci_buf texts[TCI_RECENT_TASKS];
    size_t next; /* which is replaced by one that is not there yet */
} tci_recent;

void tci_recent_init(tci_recent *r);
void tci_recent_done(tci_recent *r);
/* These writes are committed. */
void tci_recent_note(tci_recent *r, const tci_write *writes, size_t nwrites);
/* 1 and the task, its texts copied into a; 0: not here; negative: no memory. */
int tci_recent_task(const tci_recent *r, uint64_t id, tci_arena *a, tci_task *ret,
                    tc_err *err) TC_CHECKED;

#endif
