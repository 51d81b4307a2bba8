/* SPDX-License-Identifier: Apache-2.0
 *
 * Which staged files a process has open, so that the next one can clear up after a kill.
 *
 * One file per process in a private folder, `stage-<16 hex>`, held locked by the kernel as long as
 * the process lives: a journal whose lock can be had belongs to the dead. It is an array of fixed
 * slots, mapped: noting a candidate is a copy into memory that outlives the process (not a power
 * failure: after one, a candidate may stay), with no system call. Any thread. */
#ifndef TCI_OPS_STAGE_JOURNAL_H
#define TCI_OPS_STAGE_JOURNAL_H

#include "plat/clock.h"
#include "plat/file.h"

typedef struct tci_stage_journal tci_stage_journal;

/* Every candidate is called this, then 32 lower-case hex digits. */
#define TCI_STAGE_PREFIX ".eip-stage-"
bool tci_stage_is_stage_name(tc_str name);

typedef struct tci_stage_replay {
    unsigned journals; /* of dead processes found */
    unsigned removed;  /* candidates removed */
    unsigned left; /* candidates that could not be removed; their journal is kept for next time */
} tci_stage_replay;

/* Clear up after dead processes, then start a journal of our own in the folder (which must exist
 * and belong to this user only). Only regular files whose name is a candidate's are ever removed.
 *   ret_replay   may be NULL
 * Errors: NOT_FOUND, DENIED, NO_SPACE, IO. Blocks on disk: before the loop runs, or on a worker. */
int tci_stage_journal_open(tc_str folder, tci_stage_journal **ret, tci_stage_replay *ret_replay,
                           tc_err *err) TC_CHECKED;
/* Every stage must have ended. Removes the journal file. NULL is fine. */
void tci_stage_journal_close(tci_stage_journal *journal);

/* A fresh name for a candidate: the prefix, then this journal's own 16 hex digits, then a count.
 * With journal NULL, or after a name turned out to be taken, all of it is random. */
enum { TCI_STAGE_NAME_LEN = 43 };
void tci_stage_journal_name(tci_stage_journal *journal, char out[TCI_STAGE_NAME_LEN + 1]);

/* Note a candidate before it is made; returns a slot, or -1 when all slots are taken or the path is
 * too long: the write goes on, unremembered. */
int tci_stage_journal_note(tci_stage_journal *journal, tc_str folder, tc_str name);
void tci_stage_journal_forget(tci_stage_journal *journal, int slot);

/* Hold the lock number `key` (a hash of what is protected; a collision costs waiting, no more),
 * among all processes that share the folder. Waits at most wait_ms, and until cancel says stop.
 * Ends when *ret is closed. Errors: BUSY, CANCELLED, TIMEOUT, IO. Thread: worker. */
int tci_stage_journal_lock(tci_stage_journal *journal, uint64_t key, const tci_cancel *cancel,
                           unsigned wait_ms, tci_file *ret, tc_err *err) TC_CHECKED;

#endif
