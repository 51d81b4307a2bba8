/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder a daemon owns while it runs: <runtime>/.a13n-envd.lock held by the kernel, and
 * generation-<hex>/spool made anew. What an earlier daemon left is removed at start, staged files that it
 * left elsewhere too (see ops/stage_journal.h). Also the persisted device identity. */
#ifndef TCI_DAEMON_RUNTIME_DIR_H
#define TCI_DAEMON_RUNTIME_DIR_H

#include "base/arena.h"
#include "base/str.h"

typedef struct tci_runtime_dir tci_runtime_dir;

/* Take the folder: made if missing, mode 0700, locked for the life of the object. CONFLICT "runtime
 * parent is already owned: <path>" when another daemon has it; INVALID when it holds anything that is
 * not ours. Blocking; call before the loop runs. */
int tci_runtime_dir_open(tc_str path, tci_runtime_dir **ret, tc_err *err) TC_CHECKED;
/* Is nothing in it but what this process made? Otherwise a staged file of a dead one could not be
 * removed, and what remembers it has to stay. */
bool tci_runtime_dir_is_alone(const tci_runtime_dir *dir);
/* Remove this generation's folder and let go. */
void tci_runtime_dir_close(tci_runtime_dir *dir);
/* Absolute path of the spool folder, valid as long as dir. */
tc_str tci_runtime_dir_spool(const tci_runtime_dir *dir);
/* This generation's journal of staged files, made on first use; the folder's. Loop thread. */
struct tci_stage_journal;
int tci_runtime_dir_journal(tci_runtime_dir *dir, struct tci_stage_journal **ret,
                            tc_err *err) TC_CHECKED;

/* Read <state_dir>/device-id ("device-" and 32 hex digits, no newline), or create it once under a
 * lock. */
int tci_device_identity(tc_str state_dir, tci_arena *a, tc_str *ret_id, tc_err *err) TC_CHECKED;

#endif
