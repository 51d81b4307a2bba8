/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk under SQLite that breaks. Once installed it is what SQLite opens files with by default; it
 * counts every write, sync, truncation and removal, makes the n-th of them fail or come short, and can
 * cut the power: what was not synced is then gone, or there in parts. One thread. */
#ifndef TC_TEST_SQLITE_FAULT_H
#define TC_TEST_SQLITE_FAULT_H

#include <stdbool.h>
#include <stddef.h>

typedef enum fault_how {
    FAULT_NONE,
    FAULT_DIES,      /* nothing is done from the n-th on: the process was killed before it */
    FAULT_CUTS,      /* the n-th write is done by half, then it was killed */
    FAULT_FULL,      /* no space, from the n-th on, until fault_set again */
    FAULT_SYNC_FAILS /* the n-th sync reports an error; the rest works */
} fault_how;

void fault_install(void);   /* once; forgets nothing of earlier runs */
void fault_uninstall(void); /* with no file open */

/* From now on: the n-th (1-based) operation. Counting starts again. */
void fault_set(fault_how how, unsigned n);
unsigned fault_count(void); /* operations since fault_set */
bool fault_has_struck(void);

typedef enum fault_after {
    AFTER_KILL,       /* the system lived on: all that was written is there */
    AFTER_POWER_CUT,  /* only what was synced is there */
    AFTER_POWER_PARTS /* and some of the rest, in pieces and in no order */
} fault_after;
/* After the last file was closed: make the files on disk what would be found. Then all is well again. */
void fault_restart(fault_after after, unsigned seed);

#endif
