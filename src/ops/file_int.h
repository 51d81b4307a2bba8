/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files that make up ops/file.h. */
#ifndef TCI_OPS_FILE_INT_H
#define TCI_OPS_FILE_INT_H

#include "base/num.h"
#include "ops/file.h"

/* Turn what only the system's number table says (in use, out of descriptors) into IO; the codes
 * that ops/file.h names stay. Returns the code. */
int tci_ops_code(tc_err *err);

#endif
