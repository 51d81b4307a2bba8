/* SPDX-License-Identifier: Apache-2.0
 *
 * What file and transfer handlers share: records of the wire made from facts of ops/. */
#ifndef TCI_DAEMON_ON_FILE_H
#define TCI_DAEMON_ON_FILE_H

#include "daemon/device.h"
#include "ops/file.h"

/* path as it was requested; borrowed by the result. */
tci_eip_file_info tci_wire_file_info(tc_str path, const tci_file_info *info);
tci_write_mode tci_native_write_mode(tci_eip_write_mode mode);
/* Largest file that may be made: both limits apply to every candidate. */
uint64_t tci_write_max(const tci_device *d);

#endif
