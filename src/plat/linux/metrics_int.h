/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the text files of the kernel; shared by metrics.c and metrics_group.c. Any thread. */
#ifndef TCI_PLAT_LINUX_METRICS_INT_H
#define TCI_PLAT_LINUX_METRICS_INT_H

#include "plat/file.h"
#include "plat/metrics.h"

/* Every line of a file, without its end; a line over 16 KiB is cut. line_cb returns false to stop.
 * false: the file is not there or cannot be read. */
bool tci_raw_lines(tci_file root, tc_str path, bool (*line_cb)(void *user, tc_str line),
                   void *user);
/* Take the next word off rest; false at the end. */
bool tci_raw_word(tc_str *rest, tc_str *ret);
/* A canonical decimal, else absent. */
tci_raw_count tci_raw_number(tc_str text);
/* A pressure file; what it does not say stays as it was. */
void tci_raw_pressure_read(tci_file root, tc_str path, tci_raw_pressure *ret);

#endif
