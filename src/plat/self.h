/* SPDX-License-Identifier: Apache-2.0
 *
 * This process's own program. Any thread. */
#ifndef TCI_PLAT_SELF_H
#define TCI_PLAT_SELF_H

#include "plat/file.h"

/* The absolute path of the running program, links resolved, NUL-terminated into buf.
 * Errors: as tci_file_readlink. */
int tci_self_program(char buf[TCI_PATH_MAX], tc_str *ret, tc_err *err) TC_CHECKED;

#endif
