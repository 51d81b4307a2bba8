/* SPDX-License-Identifier: Apache-2.0
 *
 * When samples are taken, and keeping the last one. Leaves what is in a sample to metrics_collect.c, its
 * text to prometheus.c. Loop thread, but for the work of the job.
 *
 * Invariant: at most one collection runs. It writes into the slot that is not current and nothing else,
 * and the current slot does not change until the collection is done. */
#include "daemon/metrics.h"

#include "base/log.h"
#include "daemon/device.h"
#include "daemon/metrics_int.h"
#include "plat/clock.h"

typedef struct slot {
    tci_arena arena;
    tci_eip_metrics_sample sample;
    uint64_t ticks[TCI_RAW_CPU_MODES];
    int64_t begun_ns;
} slot;

struct tci_metrics {
    tci_device *device;
    tci_timer timer;
    tci_job job;
    bool is_collecting;
    int rc; /* of the job's work */
    slot slots[2];
    slot *current; /* NULL: none yet */
    slot *next;    /* the job's, while it collects */
    uint64_t sequence;
    size_t (*count)(void *user);
    void *user;
};

/* ---- the daemon's own numbers ---- */

static uint64_t connections(const tci_metrics *m)
{
    uint64_t n = 0;
    if (m->count != NULL)
        return m->count(m->user);
    TCI_LIST_EACH (&m->device->carriers, k)
        n++;
    return n;
}

static void describe_daemon(const tci_metrics *m, tci_eip_metrics_sample *s)
{
    const tci_device *d = m->device;
    s->has_daemon = true;
    s->daemon = (tci_eip_daemon_metrics){.sessions = d->nsessions,
                                         .has_processes = true,
                                         .processes = d->nprocesses,
                                         .has_transfers = true,
                                         .transfers = d->ntransfers,
                                         .connections = connections(m),
                                         .has_retained_output_bytes = true,
                                         .retained_output_bytes = d->spool.used_bytes};
}

/* ---- collecting ---- */

static void work(tci_job *job)
{
    tc_err err;
    tci_metrics *m = TCI_CONTAINER(job, tci_metrics, job);
    slot *to = m->next;
    m->rc = tci_metrics_collect(m->device->config, m->current != NULL ? m->current->ticks : NULL,
                                &to->arena, &to->sample, to->ticks, &err);
    to->sample.collection_duration_ms = (uint64_t)(tci_clock_mono_ns() - to->begun_ns) / 1000000;
}

static void done(tci_job *job)
{
    tci_metrics *m = TCI_CONTAINER(job, tci_metrics, job);
    m->is_collecting = false;
    if (m->rc < 0)
        return; /* out of memory: the last sample grows old, and says so */
    m->next->sample.sequence = ++m->sequence;
    m->current = m->next;
}

static void collect(tci_metrics *m)
{
    slot *to = m->current == &m->slots[0] ? &m->slots[1] : &m->slots[0];
    if (m->is_collecting || m->device->is_draining)
        return;
    tci_arena_clear(&to->arena);
    to->sample = (tci_eip_metrics_sample){.sampled_at = tci_clock_now()};
    to->begun_ns = tci_clock_mono_ns();
    describe_daemon(m, &to->sample);
    m->next = to;
    m->is_collecting = true;
    m->job = (tci_job){.work = work, .done = done};
    tci_job_submit(m->device->loop, TCI_JOB_QUICK, &m->job);
}

static void on_timer(tci_timer *t)
{
    tc_err err;
    tci_metrics *m = TCI_CONTAINER(t, tci_metrics, timer);
    if (m->device->is_draining)
        return;
    collect(m);
    if (tci_timer_start(t, (int64_t)m->device->config->sample_interval_ms, &err) < 0)
        tci_log(TCI_LOG_DEBUG, "no more samples: %s", err.msg);
}

/* ---- life ---- */

int tci_metrics_new(struct tci_device *d, tci_metrics **ret, tc_err *err)
{
    tci_metrics *m = tci_new(tci_metrics);
    if (m == NULL)
        return tci_err_no_memory(err);
    m->device = d;
    tci_arena_init(&m->slots[0].arena, 0);
    tci_arena_init(&m->slots[1].arena, 0);
    tci_timer_init(&m->timer, d->loop, on_timer);
    if (tci_timer_start(&m->timer, (int64_t)d->config->sample_interval_ms, err) < 0) {
        tci_metrics_free(m);
        return err->code;
    }
    collect(m);
    *ret = m;
    return 0;
}

void tci_metrics_free(tci_metrics *m)
{
    if (m == NULL)
        return;
    TC_ASSERT(!m->is_collecting);
    tci_timer_stop(&m->timer);
    tci_arena_done(&m->slots[0].arena);
    tci_arena_done(&m->slots[1].arena);
    tci_free(m);
}

void tci_metrics_count_connections(tci_metrics *m, size_t (*count)(void *user), void *user)
{
    m->count = count;
    m->user = user;
}

/* ---- reading ---- */

uint64_t tci_metrics_interval_ms(const tci_metrics *m)
{
    return m->device->config->sample_interval_ms;
}

bool tci_metrics_sample(tci_metrics *m, tci_eip_metrics_sample *ret)
{
    if (m->current == NULL)
        return false;
    *ret = m->current->sample;
    ret->sample_age_ms = (uint64_t)(tci_clock_mono_ns() - m->current->begun_ns) / 1000000;
    return true;
}

void tci_metrics_put_prometheus(tci_metrics *m, tci_buf *out)
{
    tci_eip_metrics_sample sample;
    bool has_sample = tci_metrics_sample(m, &sample);
    tci_prometheus_source source = {.device_id = m->device->id,
                                    .generation = m->device->generation,
                                    .interval_ms = tci_metrics_interval_ms(m),
                                    .sample = has_sample ? &sample : NULL};
    tci_prometheus_put(out, &source);
}
