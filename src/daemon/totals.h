/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of JSON on standard error that says what a daemon holds: once at start, and after that when
 * something has changed, at most every 30 seconds. Who changes something calls tci_totals_touch; an idle
 * daemon does not wake up. Loop thread. */
#ifndef TCI_DAEMON_TOTALS_H
#define TCI_DAEMON_TOTALS_H

#include "base/buf.h"

struct tci_device;
typedef struct tci_totals tci_totals;

enum { TCI_TOTALS_INTERVAL_MS = 30000 };

/* The first line is said in the loop's first turn. */
int tci_totals_new(struct tci_device *d, tci_totals **ret, tc_err *err) TC_CHECKED;
void tci_totals_free(tci_totals *t); /* NULL is fine */
/* Something may have changed. Cheap; NULL is fine. */
void tci_totals_touch(tci_totals *t);
/* The line itself, with its end, as things are now. */
void tci_totals_put(const struct tci_device *d, tci_buf *out);

#endif
