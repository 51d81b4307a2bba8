/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of monitoring share: collecting (worker) and the text for Prometheus (loop). */
#ifndef TCI_DAEMON_METRICS_INT_H
#define TCI_DAEMON_METRICS_INT_H

#include "base/arena.h"
#include "base/buf.h"
#include "daemon/config/config.h"
#include "plat/metrics.h"
#include "proto/gen/eip.h"

/* One collection: all but the daemon's own numbers, the age and the sequence. Everything lives in the
 * arena, which must be empty. before: processor time of the collection before, NULL when there was none.
 * ret_ticks is what to pass the next time. Worker. NO_MEMORY only. */
int tci_metrics_collect(const tci_config *config, const uint64_t *before, tci_arena *a,
                        tci_eip_metrics_sample *ret, uint64_t ret_ticks[TCI_RAW_CPU_MODES],
                        tc_err *err) TC_CHECKED;

typedef struct tci_prometheus_source {
    tc_str device_id;
    uint64_t generation, interval_ms;
    const tci_eip_metrics_sample *sample; /* NULL: none yet; with its age */
} tci_prometheus_source;
void tci_prometheus_put(tci_buf *out, const tci_prometheus_source *source);

#endif
