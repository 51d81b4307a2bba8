/* SPDX-License-Identifier: Apache-2.0
 *
 * Removing a whole tree, of any size and depth, with few descriptors. */
#ifndef TCI_OPS_REMOVAL_H
#define TCI_OPS_REMOVAL_H

#include "base/str.h"

/* Remove a folder with all in it. Links are removed, never followed, and a folder that is swapped for a
 * link meanwhile is not entered. What was removed before a failure stays removed.
 *
 *   ret_syscall  what failed: "rmdir", "unlink", "scandir"; static storage; may be NULL
 *
 * Errors: with the system's number in err->os. BUSY: the root folder. Thread: worker. */
int tci_ops_remove_tree(tc_str path, const char **ret_syscall, tc_err *err) TC_CHECKED;

#endif
