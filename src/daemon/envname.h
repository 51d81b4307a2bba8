/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of environment variables that commands may have. Pure; any thread. */
#ifndef TCI_DAEMON_ENVNAME_H
#define TCI_DAEMON_ENVNAME_H

#include "base/str.h"

/* A letter or '_', then letters, digits and '_' (ASCII). */
bool tci_envname_is_valid(tc_str name);
/* It belongs to the daemon or to the protocol: no command sees or sets it. Case does not matter. */
bool tci_envname_is_reserved(tc_str name);

#endif
