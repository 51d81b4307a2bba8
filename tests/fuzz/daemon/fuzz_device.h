/* SPDX-License-Identifier: Apache-2.0
 *
 * A device for fuzz targets: its working folder and its runtime folder are temporary and removed at exit,
 * commands are disabled. */
#ifndef FUZZ_DAEMON_DEVICE_H
#define FUZZ_DAEMON_DEVICE_H

#include "daemon/device.h"

typedef struct fuzz_device {
    tci_loop *loop;
    tci_config config;
    tci_device *device;
    char folder[64];
} fuzz_device;

/* The one of this process, made with the first call. Its device is fresh when the last use drained it. */
fuzz_device *fuzz_device_get(void);
/* All sessions gone, all requests answered, no job left. */
void fuzz_device_settle(fuzz_device *f);
/* The input with every mention of the recordings' folder made ours. Heap; never NULL. */
char *fuzz_device_localize(const fuzz_device *f, const uint8_t *data, size_t size, size_t *ret_len);

#endif
