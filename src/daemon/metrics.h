/* SPDX-License-Identifier: Apache-2.0
 *
 * Monitoring: a sample of the machine, its filesystems, network and this daemon, taken every interval
 * on the pool and kept until the next one. Reading never collects. Loop thread. */
#ifndef TCI_DAEMON_METRICS_H
#define TCI_DAEMON_METRICS_H

#include "base/buf.h"
#include "proto/gen/eip.h"

struct tci_device;
typedef struct tci_metrics tci_metrics;

/* Start collecting for a device whose configuration has monitoring. */
int tci_metrics_new(struct tci_device *d, tci_metrics **ret, tc_err *err) TC_CHECKED;
/* The loop must not run any more jobs of it. NULL is fine. */
void tci_metrics_free(tci_metrics *m);
/* The last sample with its age; false until the first is complete. Borrowed until the next turn. */
bool tci_metrics_sample(tci_metrics *m, tci_eip_metrics_sample *ret);
uint64_t tci_metrics_interval_ms(const tci_metrics *m);
/* How many connections there are, for a transport with more than one to a carrier; without it every
 * carrier counts as one. count NULL takes it away again. Called on the loop when a sample is begun. */
void tci_metrics_count_connections(tci_metrics *m, size_t (*count)(void *user), void *user);
/* The Prometheus text of the last sample. */
void tci_metrics_put_prometheus(tci_metrics *m, tci_buf *out);

#endif
