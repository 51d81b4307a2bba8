/* SPDX-License-Identifier: Apache-2.0
 *
 * One owner per session. The kernel holds the lock, so it is gone with the process that had it,
 * whatever became of that process and whoever has its number now; what the lock file says only tells
 * people who the owner is. The file is `owner.lock` in a folder of JSON lines and
 * `<path>-owner.lock` beside an SQLite file: names that the originals ignore, and they take no notice
 * of the lock either. Any thread; one lock by one thread at a time. */
#ifndef TCI_STORE_LOCK_H
#define TCI_STORE_LOCK_H

#include "base/arena.h"

typedef struct tci_lock tci_lock;

/* Is this the path of an SQLite session (by its ending)? */
bool tci_store_path_is_sqlite(tc_str path);
/* Make the folders above path that are missing, and with itself path too. */
int tci_store_make_folders(tc_str path, bool itself, tc_err *err) TC_CHECKED;

/* Become the owner of the session at path, at once or not at all. The folder that the lock file is to
 * be in must exist.
 * Errors: BUSY, with the owner's pid, program, host and start in the message; UNSUPPORTED (the file
 * system has no locks); DENIED, IO and others. */
int tci_lock_take(tc_str path, tci_lock **ret_lock, tc_err *err) TC_CHECKED;
/* Own the session's own file too, by whatever name others know it; once it is there. tci_lock_take has done
 * so for one that was there. Nothing when it is done already, or when there is no such file yet.
 * Errors: BUSY, with the owner in the message; what the system says. */
int tci_lock_bind(tci_lock *lock, tc_err *err) TC_CHECKED;
/* Stop being it, and remove the lock file. NULL is fine. After the backend has closed its files. */
void tci_lock_release(tci_lock *lock);

/* Who owns the session now? "process 4711 (telechir) on host 'box', since 2026-11-29T16:11:02Z", in a;
 * empty when nobody does. Looks only. */
int tci_lock_owner(tc_str path, tci_arena *a, tc_str *ret_owner, tc_err *err) TC_CHECKED;

#endif
