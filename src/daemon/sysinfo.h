/* SPDX-License-Identifier: Apache-2.0
 *
 * What people want to know of a machine: system, release, kernel, processor. */
#ifndef TCI_DAEMON_SYSINFO_H
#define TCI_DAEMON_SYSINFO_H

#include "proto/gen/eip.h"

/* Fills what can be found; text in the arena. Blocking, but quick. */
void tci_sysinfo(tci_arena *a, tci_eip_system_info *ret);

#endif
