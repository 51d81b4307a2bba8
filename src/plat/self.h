/* SPDX-License-Identifier: Apache-2.0
 *
 * This process's own program, and its standard error. Any thread. */
#ifndef TCI_PLAT_SELF_H
#define TCI_PLAT_SELF_H

#include "plat/file.h"

/* The absolute path of the running program, links resolved, NUL-terminated into buf.
 * Errors: as tci_file_readlink. */
int tci_self_program(char buf[TCI_PATH_MAX], tc_str *ret, tc_err *err) TC_CHECKED;

enum { TCI_SELF_SAY_MAX = 4096 };
/* Put text on standard error, whole or not at all, and never wait for whoever reads it. At most
 * TCI_SELF_SAY_MAX bytes. false: nothing was written (nobody reads, or reads too slowly). */
bool tci_self_say(tc_str text);

#endif
