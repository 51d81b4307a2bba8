/* SPDX-License-Identifier: Apache-2.0
 *
 * From the system's numbers to a sample of the protocol. Worker; writes only into the arena and the
 * sample it was given.
 *
 * Invariant: what could not be read is absent; a number that is there was read now. */
#include "daemon/metrics_int.h"

#include <stdio.h>

/* What one sample lists at most. */
enum { DISKS_MAX = 64, INTERFACES_MAX = 64, MOUNTS_MAX = 16 };

static void put_count(tci_raw_count n, bool *has, uint64_t *to)
{
    *has = n.is_known;
    *to = n.value;
}

/* ---- the machine ---- */

static void put_level(const tci_raw_stall *in, bool *has, tci_eip_pressure_level *out)
{
    *has = in->is_known;
    *out = (tci_eip_pressure_level){.avg10_percent = in->avg10,
                                    .avg60_percent = in->avg60,
                                    .avg300_percent = in->avg300,
                                    .total_usec = in->total_usec};
}

static void put_pressure(const tci_raw_pressure *in, bool *has, tci_eip_pressure *out)
{
    *has = in->some.is_known || in->full.is_known;
    put_level(&in->some, &out->has_some, &out->some);
    put_level(&in->full, &out->has_full, &out->full);
}

static bool put_pressures(const tci_raw_pressures *in, tci_eip_pressures *out)
{
    put_pressure(&in->cpu, &out->has_cpu, &out->cpu);
    put_pressure(&in->memory, &out->has_memory, &out->memory);
    put_pressure(&in->io, &out->has_io, &out->io);
    return out->has_cpu || out->has_memory || out->has_io;
}

static void put_cpu_times(const tci_raw_system *raw, tci_eip_system_metrics *s)
{
    tci_eip_cpu_time_seconds *t = &s->cpu_time_seconds;
    struct {
        bool *has;
        double *to;
    } places[TCI_RAW_CPU_MODES] = {
        [TCI_RAW_CPU_USER] = {&t->has_user, &t->user},
        [TCI_RAW_CPU_NICE] = {&t->has_nice, &t->nice},
        [TCI_RAW_CPU_SYSTEM] = {&t->has_system, &t->system},
        [TCI_RAW_CPU_IDLE] = {&t->has_idle, &t->idle},
        [TCI_RAW_CPU_IOWAIT] = {&t->has_iowait, &t->iowait},
        [TCI_RAW_CPU_IRQ] = {&t->has_irq, &t->irq},
        [TCI_RAW_CPU_SOFTIRQ] = {&t->has_softirq, &t->softirq},
        [TCI_RAW_CPU_STEAL] = {&t->has_steal, &t->steal},
    };
    for (size_t i = 0; i < TCI_RAW_CPU_MODES; i++) {
        *places[i].has = raw->cpu_ticks[i].is_known;
        *places[i].to = (double)raw->cpu_ticks[i].value / (double)raw->ticks_per_second;
        s->has_cpu_time_seconds = s->has_cpu_time_seconds || raw->cpu_ticks[i].is_known;
    }
}

/* Waiting for a disk is not busy. Counters may go back (a processor taken away): then there is no answer. */
static void put_cpu_busy(const uint64_t *before, const uint64_t *now, tci_eip_system_metrics *s)
{
    uint64_t total = 0, idle = 0;
    if (before == NULL || !s->has_cpu_time_seconds)
        return;
    for (size_t i = 0; i < TCI_RAW_CPU_MODES; i++) {
        if (now[i] < before[i])
            return;
        total += now[i] - before[i];
        if (i == TCI_RAW_CPU_IDLE || i == TCI_RAW_CPU_IOWAIT)
            idle += now[i] - before[i];
    }
    if (total == 0)
        return;
    s->has_cpu_busy_percent = true;
    s->cpu_busy_percent = 100.0 * (double)(total - idle) / (double)total;
}

static void put_system(const uint64_t *before, tci_eip_system_metrics *s, uint64_t *ret_ticks)
{
    tci_raw_system raw;
    tci_raw_system_read(&raw);
    for (size_t i = 0; i < TCI_RAW_CPU_MODES; i++)
        ret_ticks[i] = raw.cpu_ticks[i].value;
    put_cpu_times(&raw, s);
    put_cpu_busy(before, ret_ticks, s);
    s->has_logical_cpu_count = raw.processors.is_known;
    s->logical_cpu_count = (uint32_t)raw.processors.value;
    put_count(raw.memory_total, &s->has_memory_total_bytes, &s->memory_total_bytes);
    put_count(raw.memory_available, &s->has_memory_available_bytes, &s->memory_available_bytes);
    put_count(raw.swap_total, &s->has_swap_total_bytes, &s->swap_total_bytes);
    s->has_swap_used_bytes = raw.swap_total.is_known && raw.swap_free.is_known &&
                             raw.swap_free.value <= raw.swap_total.value;
    if (s->has_swap_used_bytes)
        s->swap_used_bytes = raw.swap_total.value - raw.swap_free.value;
    s->has_pressure = put_pressures(&raw.pressure, &s->pressure);
}

/* ---- lists ---- */

static int put_disks(const tci_raw_disk *raw, size_t n, bool has_more, tci_arena *a,
                     tci_eip_disk_metrics *out, tc_err *err)
{
    out->truncated = has_more;
    out->devices.items = tci_arena_items(a, tci_eip_disk_io_metrics_entry, n + 1);
    if (out->devices.items == NULL)
        return tci_arena_error(a, err);
    out->devices.count = n;
    for (size_t i = 0; i < n; i++) {
        tci_eip_disk_io_metrics_entry *e = &out->devices.items[i];
        tci_eip_disk_io_metrics *v = &e->value;
        if (tci_arena_dup(a, tci_str(raw[i].name), &e->key, err) < 0 ||
            tci_arena_dup(a, tci_str(raw[i].identity), &v->identity, err) < 0)
            return err->code;
        put_count(raw[i].read_bytes, &v->has_read_bytes, &v->read_bytes);
        put_count(raw[i].written_bytes, &v->has_written_bytes, &v->written_bytes);
        put_count(raw[i].reads, &v->has_read_operations, &v->read_operations);
        put_count(raw[i].writes, &v->has_write_operations, &v->write_operations);
        put_count(raw[i].read_ms, &v->has_read_time_ms, &v->read_time_ms);
        put_count(raw[i].write_ms, &v->has_write_time_ms, &v->write_time_ms);
        put_count(raw[i].busy_ms, &v->has_busy_time_ms, &v->busy_time_ms);
        put_count(raw[i].weighted_ms, &v->has_weighted_time_ms, &v->weighted_time_ms);
        put_count(raw[i].in_progress, &v->has_in_progress, &v->in_progress);
    }
    return 0;
}

static int collect_disks(tci_arena *a, tci_eip_metrics_sample *s, tc_err *err)
{
    size_t n;
    bool has_more;
    tci_raw_disk *raw = tci_arena_items(a, tci_raw_disk, DISKS_MAX);
    if (raw == NULL)
        return tci_arena_error(a, err);
    s->has_disks = tci_raw_disks_read(raw, DISKS_MAX, &n, &has_more);
    return s->has_disks ? put_disks(raw, n, has_more, a, &s->disks, err) : 0;
}

static int put_interface(const tci_raw_interface *raw, tci_arena *a,
                         tci_eip_network_interface_metrics_entry *e, tc_err *err)
{
    tci_eip_network_interface_metrics *v = &e->value;
    if (tci_arena_dup(a, tci_str(raw->name), &e->key, err) < 0 ||
        tci_arena_printf(a, &v->identity, err, "%u", raw->index) < 0)
        return err->code;
    v->has_received_bytes = v->has_received_packets = v->has_receive_errors = v->has_receive_drops =
        true;
    v->has_transmitted_bytes = v->has_transmitted_packets = v->has_transmit_errors =
        v->has_transmit_drops = true;
    v->received_bytes = raw->received_bytes;
    v->received_packets = raw->received_packets;
    v->receive_errors = raw->receive_errors;
    v->receive_drops = raw->receive_drops;
    v->transmitted_bytes = raw->transmitted_bytes;
    v->transmitted_packets = raw->transmitted_packets;
    v->transmit_errors = raw->transmit_errors;
    v->transmit_drops = raw->transmit_drops;
    return 0;
}

static int collect_network(tci_arena *a, tci_eip_metrics_sample *s, tc_err *err)
{
    size_t n;
    tci_eip_network_metrics *out = &s->network;
    tci_raw_interface *raw = tci_arena_items(a, tci_raw_interface, INTERFACES_MAX);
    out->interfaces.items =
        tci_arena_items(a, tci_eip_network_interface_metrics_entry, INTERFACES_MAX);
    if (raw == NULL || out->interfaces.items == NULL)
        return tci_arena_error(a, err);
    s->has_network = tci_raw_interfaces_read(raw, INTERFACES_MAX, &n, &out->truncated);
    for (size_t i = 0; s->has_network && i < n; i++) {
        if (raw[i].index == 0) /* it went away meanwhile */
            continue;
        if (put_interface(&raw[i], a, &out->interfaces.items[out->interfaces.count++], err) < 0)
            return err->code;
    }
    return 0;
}

static int collect_sockets(tci_arena *a, tci_eip_metrics_sample *s, tc_err *err)
{
    tci_raw_sockets raw;
    tci_eip_connection_metrics *out = &s->connections;
    tci_raw_sockets_read(&raw);
    s->has_connections = raw.tcp.is_known || raw.udp.is_known;
    put_count(raw.tcp, &out->has_tcp_total, &out->tcp_total);
    put_count(raw.udp, &out->has_udp_sockets, &out->udp_sockets);
    out->tcp_states.items = tci_arena_items(a, tci_eip_u64_entry, TCI_RAW_TCP_STATES);
    if (out->tcp_states.items == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < TCI_RAW_TCP_STATES; i++) {
        if (raw.by_state[i] > 0)
            out->tcp_states.items[out->tcp_states.count++] = (tci_eip_u64_entry){
                .key = tci_str(tci_raw_tcp_state_name(i)), .value = raw.by_state[i]};
    }
    return 0;
}

/* ---- file systems ---- */

static tci_eip_filesystem_observation observation(bool is_readable, const tci_raw_space *raw)
{
    tci_eip_filesystem_observation o = {.has_metrics = is_readable};
    if (!is_readable)
        return o;
    o.metrics.total_bytes = raw->total_bytes;
    o.metrics.free_bytes = raw->free_bytes;
    o.metrics.available_bytes = raw->available_bytes;
    put_count(raw->total_inodes, &o.metrics.has_total_inodes, &o.metrics.total_inodes);
    put_count(raw->free_inodes, &o.metrics.has_free_inodes, &o.metrics.free_inodes);
    put_count(raw->available_inodes, &o.metrics.has_available_inodes, &o.metrics.available_inodes);
    return o;
}

static int collect_configured(const tci_config *config, tci_arena *a, tci_eip_metrics_sample *s,
                              tc_err *err)
{
    size_t n = config->nfilesystems;
    s->filesystems.items = tci_arena_items(a, tci_eip_filesystem_observation_entry, n + 1);
    if (s->filesystems.items == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < n; i++) {
        tci_raw_space raw;
        bool is_readable = tci_raw_space_read(config->filesystems[i].path.ptr, &raw);
        s->filesystems.items[i] = (tci_eip_filesystem_observation_entry){
            .key = config->filesystems[i].name, .value = observation(is_readable, &raw)};
    }
    s->filesystems.count = n;
    return 0;
}

static int collect_mounts(tci_arena *a, tci_eip_metrics_sample *s, tc_err *err)
{
    size_t n;
    tci_eip_filesystem_inventory *out = &s->local_filesystems;
    tci_raw_mount *raw = tci_arena_items(a, tci_raw_mount, MOUNTS_MAX);
    out->filesystems.items = tci_arena_items(a, tci_eip_filesystem_observation_entry, MOUNTS_MAX);
    if (raw == NULL || out->filesystems.items == NULL)
        return tci_arena_error(a, err);
    s->has_local_filesystems = tci_raw_mounts_read(raw, MOUNTS_MAX, &n, &out->truncated);
    for (size_t i = 0; s->has_local_filesystems && i < n;
         i++) /* the names stay where they were read */
        out->filesystems.items[out->filesystems.count++] = (tci_eip_filesystem_observation_entry){
            .key = tci_str(raw[i].device), .value = observation(raw[i].is_readable, &raw[i].space)};
    return 0;
}

/* ---- the control group ---- */

static void put_group_cpu(const tci_raw_group *raw, tci_eip_cgroup_metrics *g)
{
    put_count(raw->usage_usec, &g->has_cpu_usage_usec, &g->cpu_usage_usec);
    put_count(raw->user_usec, &g->has_cpu_user_usec, &g->cpu_user_usec);
    put_count(raw->system_usec, &g->has_cpu_system_usec, &g->cpu_system_usec);
    put_count(raw->periods, &g->has_cpu_periods_total, &g->cpu_periods_total);
    put_count(raw->throttled_periods, &g->has_cpu_throttled_periods_total,
              &g->cpu_throttled_periods_total);
    put_count(raw->throttled_usec, &g->has_cpu_throttled_usec, &g->cpu_throttled_usec);
    g->has_cpu_max = raw->cpu_quota_usec.is_known;
    if (raw->cpu_quota_usec.is_unlimited)
        g->cpu_max.kind = TCI_EIP_CPU_LIMIT_UNLIMITED;
    else
        g->cpu_max = (tci_eip_cpu_limit){.kind = TCI_EIP_CPU_LIMIT_LIMITED,
                                         .u.limited = {.quota_usec = raw->cpu_quota_usec.value,
                                                       .period_usec = raw->cpu_period_usec}};
}

static void put_group_memory(const tci_raw_group *raw, tci_eip_cgroup_metrics *g)
{
    tci_eip_memory_events *e = &g->memory_events;
    put_count(raw->memory_current, &g->has_memory_current_bytes, &g->memory_current_bytes);
    g->has_memory_max = raw->memory_max.is_known;
    if (raw->memory_max.is_unlimited)
        g->memory_max.kind = TCI_EIP_MEMORY_LIMIT_UNLIMITED;
    else
        g->memory_max = (tci_eip_memory_limit){.kind = TCI_EIP_MEMORY_LIMIT_LIMITED,
                                               .u.limited = {.bytes = raw->memory_max.value}};
    put_count(raw->low, &e->has_low, &e->low);
    put_count(raw->high, &e->has_high, &e->high);
    put_count(raw->max, &e->has_max, &e->max);
    put_count(raw->oom, &e->has_oom, &e->oom);
    put_count(raw->oom_kill, &e->has_oom_kill, &e->oom_kill);
    put_count(raw->oom_group_kill, &e->has_oom_group_kill, &e->oom_group_kill);
}

static int collect_group(const tci_config *config, tci_arena *a, tci_eip_metrics_sample *s,
                         tc_err *err)
{
    tci_eip_cgroup_metrics *g = &s->cgroup_v2;
    if (config->cgroup_v2_directory.len == 0)
        return 0;
    tci_raw_group *raw = tci_arena_new(a, tci_raw_group);
    if (raw == NULL)
        return tci_arena_error(a, err);
    tci_raw_group_read(config->cgroup_v2_directory, raw);
    s->has_cgroup_v2 = true;
    put_group_cpu(raw, g);
    put_group_memory(raw, g);
    (void)put_pressures(&raw->pressure, &g->pressure); /* the object is there even when empty */
    put_count(raw->pids_current, &g->has_pids_current, &g->pids_current);
    g->has_pids_unlimited = raw->pids_max.is_known;
    g->pids_unlimited = raw->pids_max.is_unlimited;
    g->has_pids_limit = raw->pids_max.is_known && !raw->pids_max.is_unlimited;
    g->pids_limit = raw->pids_max.value;
    g->has_io = raw->has_disks;
    return raw->has_disks ? put_disks(raw->disks, raw->ndisks, raw->has_more_disks, a, &g->io, err)
                          : 0;
}

/* ---- all of it ---- */

int tci_metrics_collect(const tci_config *config, const uint64_t *before, tci_arena *a,
                        tci_eip_metrics_sample *ret, uint64_t ret_ticks[TCI_RAW_CPU_MODES],
                        tc_err *err)
{
    put_system(before, &ret->system, ret_ticks);
    if (collect_group(config, a, ret, err) < 0 || collect_configured(config, a, ret, err) < 0 ||
        collect_network(a, ret, err) < 0 || collect_disks(a, ret, err) < 0 ||
        collect_sockets(a, ret, err) < 0)
        return err->code;
    return collect_mounts(a, ret, err);
}
