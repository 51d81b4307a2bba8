/* SPDX-License-Identifier: Apache-2.0
 *
 * A sample as Prometheus text (exposition format 0.0.4). Loop thread; pure.
 *
 * Invariant: a family is announced once, and only when it has a sample. */
#include "daemon/metrics_int.h"

#include "base/num.h"

typedef struct label {
    const char *key;
    tc_str value;
} label;

typedef struct text {
    tci_buf *out;
    const tci_prometheus_source *source;
    const char *family; /* announced last */
} text;

/* ---- lines ---- */

static void put_label(tci_buf *b, const char *key, tc_str value)
{
    tci_buf_printf(b, "%s=\"", key);
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c == '\\' || c == '"')
            tci_buf_append_byte(b, '\\');
        if (c == '\n')
            tci_buf_append_str(b, TC_STR("\\n"));
        else
            tci_buf_append_byte(b, c);
    }
    tci_buf_append_byte(b, '"');
}

/* What a name says about how it is counted. */
static const char *kind_of(const char *name)
{
    return tci_str_ends(tci_str(name), TC_STR("_total")) ? "counter" : "gauge";
}

/* name and labels of one sample; the value follows. */
static void begin(text *t, const char *name, const char *help, const label *labels, size_t nlabels)
{
    tci_buf *b = t->out;
    if (t->family == NULL || strcmp(t->family, name) != 0)
        tci_buf_printf(b, "# HELP envd_%s %s\n# TYPE envd_%s %s\n", name, help, name,
                       kind_of(name));
    t->family = name;
    tci_buf_printf(b, "envd_%s{", name);
    put_label(b, "device_id", t->source->device_id);
    tci_buf_printf(b, ",generation=\"%llu\"", (unsigned long long)t->source->generation);
    for (size_t i = 0; i < nlabels; i++) {
        tci_buf_append_byte(b, ',');
        put_label(b, labels[i].key, labels[i].value);
    }
    tci_buf_append_str(b, TC_STR("} "));
}

static void end_count(text *t, uint64_t value)
{
    tci_buf_append_u64(t->out, value);
    tci_buf_append_byte(t->out, '\n');
}

static void end_real(text *t, double value)
{
    char digits[TCI_NUM_TEXT_MAX];
    size_t len = tci_num_double_text(value, digits);
    tci_buf_append(t->out, digits, len);
    tci_buf_append_byte(t->out, '\n');
}

static void put_count(text *t, const char *name, const char *help, bool is_known, uint64_t value)
{
    if (!is_known)
        return;
    begin(t, name, help, NULL, 0);
    end_count(t, value);
}

static void put_real(text *t, const char *name, const char *help, bool is_known, double value)
{
    if (!is_known)
        return;
    begin(t, name, help, NULL, 0);
    end_real(t, value);
}

static void put_usec(text *t, const char *name, const char *help, bool is_known, uint64_t usec)
{
    put_real(t, name, help, is_known, (double)usec / 1e6);
}

/* ---- the sample itself ---- */

static void put_sample(text *t, bool is_fresh)
{
    const tci_eip_metrics_sample *s = t->source->sample;
    put_real(t, "sample_interval_seconds", "Time between two collections.", true,
             (double)t->source->interval_ms / 1e3);
    put_count(t, "sample_available", "1 once a collection is complete.", true, s != NULL);
    put_count(t, "sample_fresh", "1 while the sample is at most two intervals old.", true,
              is_fresh);
    if (s == NULL)
        return;
    put_count(t, "sample_sequence", "Collections since this daemon started.", true, s->sequence);
    put_real(t, "sample_timestamp_seconds", "Unix time at which the collection began.", true,
             (double)s->sampled_at.sec + (double)(s->sampled_at.nsec / 1000000) / 1e3);
    put_real(t, "sample_age_seconds", "Time since the collection began.", true,
             (double)s->sample_age_ms / 1e3);
    put_real(t, "collection_duration_seconds", "Time that the collection took.", true,
             (double)s->collection_duration_ms / 1e3);
}

/* ---- stalls ---- */

static const char ratio_help[] = "Share of the window, in seconds, in which work stalled.";
static const char stall_help[] = "Time in which work stalled.";

typedef struct stall {
    const char *resource, *level;
    bool is_known;
    const tci_eip_pressure_level *values;
} stall;

static size_t stalls_of(const tci_eip_pressures *p, stall out[6])
{
    const stall all[] = {
        {"cpu", "some", p->has_cpu && p->cpu.has_some, &p->cpu.some},
        {"cpu", "full", p->has_cpu && p->cpu.has_full, &p->cpu.full},
        {"memory", "some", p->has_memory && p->memory.has_some, &p->memory.some},
        {"memory", "full", p->has_memory && p->memory.has_full, &p->memory.full},
        {"io", "some", p->has_io && p->io.has_some, &p->io.some},
        {"io", "full", p->has_io && p->io.has_full, &p->io.full},
    };
    size_t n = 0;
    for (size_t i = 0; i < TCI_ARRAY_LEN(all); i++) {
        if (all[i].is_known)
            out[n++] = all[i];
    }
    return n;
}

static void put_window(text *t, const char *name, const stall *s, const char *window,
                       double percent)
{
    const label labels[] = {{"resource", tci_str(s->resource)},
                            {"level", tci_str(s->level)},
                            {"window", tci_str(window)}};
    begin(t, name, ratio_help, labels, TCI_ARRAY_LEN(labels));
    end_real(t, percent / 100.0);
}

static void put_pressures(text *t, const char *ratio_name, const char *stall_name,
                          const tci_eip_pressures *p)
{
    stall stalls[6];
    size_t n = stalls_of(p, stalls);
    for (size_t i = 0; i < n; i++) {
        put_window(t, ratio_name, &stalls[i], "10", stalls[i].values->avg10_percent);
        put_window(t, ratio_name, &stalls[i], "60", stalls[i].values->avg60_percent);
        put_window(t, ratio_name, &stalls[i], "300", stalls[i].values->avg300_percent);
    }
    for (size_t i = 0; i < n; i++) {
        const label labels[] = {{"resource", tci_str(stalls[i].resource)},
                                {"level", tci_str(stalls[i].level)}};
        begin(t, stall_name, stall_help, labels, TCI_ARRAY_LEN(labels));
        end_real(t, (double)stalls[i].values->total_usec / 1e6);
    }
}

/* ---- the machine ---- */

static void put_mode(text *t, const char *mode, bool is_known, double seconds)
{
    const label labels[] = {{"mode", tci_str(mode)}};
    if (!is_known)
        return;
    begin(t, "system_cpu_time_seconds_total", "Processor time since boot.", labels, 1);
    end_real(t, seconds);
}

static void put_cpu_time(text *t, const tci_eip_cpu_time_seconds *c)
{
    put_mode(t, "user", c->has_user, c->user);
    put_mode(t, "nice", c->has_nice, c->nice);
    put_mode(t, "system", c->has_system, c->system);
    put_mode(t, "idle", c->has_idle, c->idle);
    put_mode(t, "iowait", c->has_iowait, c->iowait);
    put_mode(t, "irq", c->has_irq, c->irq);
    put_mode(t, "softirq", c->has_softirq, c->softirq);
    put_mode(t, "steal", c->has_steal, c->steal);
}

static void put_system(text *t, const tci_eip_system_metrics *s)
{
    put_real(t, "system_cpu_busy_ratio",
             "Share of processor time in use between the last two samples.",
             s->has_cpu_busy_percent, s->cpu_busy_percent / 100.0);
    put_count(t, "system_logical_cpus", "Processors of the machine.", s->has_logical_cpu_count,
              s->logical_cpu_count);
    put_count(t, "system_memory_total_bytes", "Memory of the machine.", s->has_memory_total_bytes,
              s->memory_total_bytes);
    put_count(t, "system_memory_available_bytes", "Memory that new work could have.",
              s->has_memory_available_bytes, s->memory_available_bytes);
    if (s->has_cpu_time_seconds)
        put_cpu_time(t, &s->cpu_time_seconds);
    if (s->has_pressure)
        put_pressures(t, "system_pressure_ratio", "system_pressure_stall_seconds_total",
                      &s->pressure);
    put_count(t, "system_swap_used_bytes", "Swap in use.", s->has_swap_used_bytes,
              s->swap_used_bytes);
    put_count(t, "system_swap_total_bytes", "Swap of the machine.", s->has_swap_total_bytes,
              s->swap_total_bytes);
    put_count(t, "system_memory_wired_bytes", "Memory that cannot be moved.",
              s->has_memory_wired_bytes, s->memory_wired_bytes);
    put_count(t, "system_memory_compressed_bytes", "Memory held by the compressor.",
              s->has_memory_compressed_bytes, s->memory_compressed_bytes);
    put_count(t, "system_memory_cache_bytes", "Memory used as a cache of files.",
              s->has_memory_cache_bytes, s->memory_cache_bytes);
    put_count(t, "system_commit_total_bytes", "Memory promised to processes.",
              s->has_commit_total_bytes, s->commit_total_bytes);
    put_count(t, "system_commit_limit_bytes", "Memory that can be promised.",
              s->has_commit_limit_bytes, s->commit_limit_bytes);
    put_count(t, "system_processes", "Processes of the machine.", s->has_process_count,
              s->process_count);
    put_count(t, "system_threads", "Threads of the machine.", s->has_thread_count, s->thread_count);
    put_count(t, "system_handles", "Handles of the machine.", s->has_handle_count, s->handle_count);
}

/* ---- disks and interfaces: one family per counter, one sample per device ---- */

/* A counter of a struct: where it is, and what of it is a second. */
typedef struct counter {
    const char *name;
    size_t has, at;
    bool is_ms;
} counter;

#define DISK(prefix, family, member, is_ms)                             \
    {                                                                   \
        prefix family, offsetof(tci_eip_disk_io_metrics, has_##member), \
            offsetof(tci_eip_disk_io_metrics, member), is_ms            \
    }
#define DISK_COUNTERS(prefix)                                                     \
    {                                                                             \
        DISK(prefix, "_read_bytes_total", read_bytes, false),                     \
            DISK(prefix, "_written_bytes_total", written_bytes, false),           \
            DISK(prefix, "_read_operations_total", read_operations, false),       \
            DISK(prefix, "_write_operations_total", write_operations, false),     \
            DISK(prefix, "_read_time_seconds_total", read_time_ms, true),         \
            DISK(prefix, "_write_time_seconds_total", write_time_ms, true),       \
            DISK(prefix, "_busy_time_seconds_total", busy_time_ms, true),         \
            DISK(prefix, "_weighted_time_seconds_total", weighted_time_ms, true), \
            DISK(prefix, "_in_progress", in_progress, false),                     \
    }
static const counter disk_counters[] = DISK_COUNTERS("disk");
static const counter group_disk_counters[] = DISK_COUNTERS("cgroup_io");

#define NETWORK(member)                                                                         \
    {                                                                                           \
        "network_" #member "_total", offsetof(tci_eip_network_interface_metrics, has_##member), \
            offsetof(tci_eip_network_interface_metrics, member), false                          \
    }
static const counter network_counters[] = {
    NETWORK(received_bytes),      NETWORK(transmitted_bytes), NETWORK(received_packets),
    NETWORK(transmitted_packets), NETWORK(receive_errors),    NETWORK(transmit_errors),
    NETWORK(receive_drops),       NETWORK(transmit_drops),
};

static void put_counter(text *t, const counter *c, const char *help, const void *from,
                        const label *labels)
{
    const char *bytes = from;
    uint64_t value;
    if (!*(const bool *)(bytes + c->has))
        return;
    memcpy(&value, bytes + c->at, sizeof value);
    begin(t, c->name, help, labels, 2);
    if (c->is_ms)
        end_real(t, (double)value / 1e3);
    else
        end_count(t, value);
}

static void put_disks(text *t, const counter *counters, const char *truncated,
                      const tci_eip_disk_metrics *d)
{
    static const char help[] =
        "Counted by the system for one disk; disks on top of each other count twice.";
    put_count(t, truncated, "1 when there are more disks than listed.", true, d->truncated);
    for (size_t i = 0; i < TCI_ARRAY_LEN(disk_counters); i++) {
        for (size_t k = 0; k < d->devices.count; k++) {
            const tci_eip_disk_io_metrics_entry *e = &d->devices.items[k];
            const label labels[] = {{"disk", e->key}, {"identity", e->value.identity}};
            put_counter(t, &counters[i], help, &e->value, labels);
        }
    }
}

static void put_network(text *t, const tci_eip_network_metrics *n)
{
    static const char help[] =
        "Counted by the system for one interface; the same packet may pass several.";
    put_count(t, "network_truncated", "1 when there are more interfaces than listed.", true,
              n->truncated);
    for (size_t i = 0; i < TCI_ARRAY_LEN(network_counters); i++) {
        for (size_t k = 0; k < n->interfaces.count; k++) {
            const tci_eip_network_interface_metrics_entry *e = &n->interfaces.items[k];
            const label labels[] = {{"interface", e->key}, {"identity", e->value.identity}};
            put_counter(t, &network_counters[i], help, &e->value, labels);
        }
    }
}

/* ---- the control group ---- */

static void put_event(text *t, const char *event, bool is_known, uint64_t value)
{
    const label labels[] = {{"event", tci_str(event)}};
    if (!is_known)
        return;
    begin(t, "cgroup_memory_events_total", "How often the group met its memory limits.", labels, 1);
    end_count(t, value);
}

static void put_group_cpu(text *t, const tci_eip_cgroup_metrics *g)
{
    bool is_limited = g->has_cpu_max && g->cpu_max.kind == TCI_EIP_CPU_LIMIT_LIMITED;
    put_usec(t, "cgroup_cpu_usage_seconds_total", "Processor time of the group.",
             g->has_cpu_usage_usec, g->cpu_usage_usec);
    put_usec(t, "cgroup_cpu_user_seconds_total", "Processor time of the group in programs.",
             g->has_cpu_user_usec, g->cpu_user_usec);
    put_usec(t, "cgroup_cpu_system_seconds_total", "Processor time of the group in the kernel.",
             g->has_cpu_system_usec, g->cpu_system_usec);
    put_count(t, "cgroup_cpu_periods_total", "Quota periods that have passed.",
              g->has_cpu_periods_total, g->cpu_periods_total);
    put_count(t, "cgroup_cpu_throttled_periods_total", "Quota periods that ran out.",
              g->has_cpu_throttled_periods_total, g->cpu_throttled_periods_total);
    put_usec(t, "cgroup_cpu_throttled_seconds_total", "Time that the group was throttled.",
             g->has_cpu_throttled_usec, g->cpu_throttled_usec);
    put_count(t, "cgroup_cpu_limit_unlimited", "1 when the group has no processor quota.",
              g->has_cpu_max, !is_limited);
    put_usec(t, "cgroup_cpu_quota_seconds", "Processor time per period.", is_limited,
             is_limited ? g->cpu_max.u.limited.quota_usec : 0);
    put_usec(t, "cgroup_cpu_period_seconds", "Length of a period.", is_limited,
             is_limited ? g->cpu_max.u.limited.period_usec : 0);
}

static void put_group(text *t, const tci_eip_cgroup_metrics *g)
{
    const tci_eip_memory_events *e = &g->memory_events;
    bool is_limited = g->has_memory_max && g->memory_max.kind == TCI_EIP_MEMORY_LIMIT_LIMITED;
    put_group_cpu(t, g);
    put_count(t, "cgroup_memory_current_bytes", "Memory of the group.", g->has_memory_current_bytes,
              g->memory_current_bytes);
    put_count(t, "cgroup_memory_limit_unlimited", "1 when the group has no memory limit.",
              g->has_memory_max, !is_limited);
    put_count(t, "cgroup_memory_limit_bytes", "Memory limit of the group.", is_limited,
              is_limited ? g->memory_max.u.limited.bytes : 0);
    put_event(t, "low", e->has_low, e->low);
    put_event(t, "high", e->has_high, e->high);
    put_event(t, "max", e->has_max, e->max);
    put_event(t, "oom", e->has_oom, e->oom);
    put_event(t, "oom_kill", e->has_oom_kill, e->oom_kill);
    put_event(t, "oom_group_kill", e->has_oom_group_kill, e->oom_group_kill);
    put_count(t, "cgroup_pids_current", "Processes and threads of the group.", g->has_pids_current,
              g->pids_current);
    put_count(t, "cgroup_pids_limit_unlimited", "1 when the group has no limit of processes.",
              g->has_pids_unlimited, g->pids_unlimited);
    put_count(t, "cgroup_pids_limit", "Limit of processes and threads of the group.",
              g->has_pids_limit, g->pids_limit);
    if (g->has_io)
        put_disks(t, group_disk_counters, "cgroup_io_truncated", &g->io);
    put_pressures(t, "cgroup_pressure_ratio", "cgroup_pressure_stall_seconds_total", &g->pressure);
}

/* ---- sockets, the daemon ---- */

static void put_sockets(text *t, const tci_eip_connection_metrics *c)
{
    put_count(t, "tcp_connections", "TCP sockets in any state.", c->has_tcp_total, c->tcp_total);
    put_count(t, "udp_sockets", "UDP sockets.", c->has_udp_sockets, c->udp_sockets);
    for (size_t i = 0; i < c->tcp_states.count; i++) {
        const label labels[] = {{"state", c->tcp_states.items[i].key}};
        begin(t, "tcp_state_connections", "TCP sockets in one state.", labels, 1);
        end_count(t, c->tcp_states.items[i].value);
    }
}

static void put_daemon(text *t, const tci_eip_daemon_metrics *d)
{
    put_count(t, "daemon_sessions", "Sessions of this daemon.", true, d->sessions);
    put_count(t, "daemon_processes", "Commands that run.", d->has_processes, d->processes);
    put_count(t, "daemon_transfers", "Transfers that are open.", d->has_transfers, d->transfers);
    put_count(t, "daemon_connections", "Connections to this daemon.", true, d->connections);
    put_count(t, "daemon_retained_output_bytes", "Output kept for reading.",
              d->has_retained_output_bytes, d->retained_output_bytes);
}

/* ---- file systems ---- */

typedef struct fs_value {
    const char *name, *help;
    bool (*get)(const tci_eip_filesystem_observation *o, uint64_t *ret);
} fs_value;

#define FS_GET(member, is_known)                                                     \
    static bool get_##member(const tci_eip_filesystem_observation *o, uint64_t *ret) \
    {                                                                                \
        *ret = o->metrics.member;                                                    \
        return o->has_metrics && (is_known);                                         \
    }
FS_GET(total_bytes, true)
FS_GET(free_bytes, true)
FS_GET(available_bytes, true)
FS_GET(total_inodes, o->metrics.has_total_inodes)
FS_GET(free_inodes, o->metrics.has_free_inodes)
FS_GET(available_inodes, o->metrics.has_available_inodes)

static bool get_readable(const tci_eip_filesystem_observation *o, uint64_t *ret)
{
    *ret = o->has_metrics;
    return true;
}

static const fs_value fs_values[] = {
    {"filesystem_available", "1 when the file system could be read.", get_readable},
    {"filesystem_total_bytes", "Size of the file system.", get_total_bytes},
    {"filesystem_free_bytes", "Free space of the file system, with what is reserved.",
     get_free_bytes},
    {"filesystem_available_bytes", "Space that this account may have.", get_available_bytes},
    {"filesystem_total_inodes", "Inodes of the file system.", get_total_inodes},
    {"filesystem_free_inodes", "Free inodes of the file system.", get_free_inodes},
    {"filesystem_available_inodes", "Inodes that this account may have.", get_available_inodes},
};

static void put_fs(text *t, const fs_value *v, const char *prefix,
                   const tci_eip_filesystem_observation_entry *e)
{
    char name[128];
    uint64_t value;
    tc_err err;
    size_t len = strlen(prefix);
    if (!v->get(&e->value, &value) || tci_cstr(e->key, name + len, sizeof name - len, &err) < 0)
        return;
    memcpy(name, prefix, len);
    const label labels[] = {{"filesystem", tci_str(name)}};
    begin(t, v->name, v->help, labels, 1);
    end_count(t, value);
}

static void put_filesystems(text *t, const tci_eip_metrics_sample *s)
{
    if (s->has_local_filesystems)
        put_count(t, "local_filesystems_truncated",
                  "1 when there are more file systems than listed.", true,
                  s->local_filesystems.truncated);
    for (size_t i = 0; i < TCI_ARRAY_LEN(fs_values); i++) {
        for (size_t k = 0; k < s->filesystems.count; k++)
            put_fs(t, &fs_values[i], "", &s->filesystems.items[k]);
        for (size_t k = 0; s->has_local_filesystems && k < s->local_filesystems.filesystems.count;
             k++)
            put_fs(t, &fs_values[i], "auto:", &s->local_filesystems.filesystems.items[k]);
    }
}

/* ---- all of it ---- */

void tci_prometheus_put(tci_buf *out, const tci_prometheus_source *source)
{
    const tci_eip_metrics_sample *s = source->sample;
    text t = {.out = out, .source = source};
    bool is_fresh = s != NULL && s->sample_age_ms <= 2 * source->interval_ms;
    put_sample(&t, is_fresh);
    if (!is_fresh)
        return;
    put_system(&t, &s->system);
    if (s->has_cgroup_v2)
        put_group(&t, &s->cgroup_v2);
    if (s->has_network)
        put_network(&t, &s->network);
    if (s->has_disks)
        put_disks(&t, disk_counters, "disk_truncated", &s->disks);
    if (s->has_connections)
        put_sockets(&t, &s->connections);
    if (s->has_daemon)
        put_daemon(&t, &s->daemon);
    put_filesystems(&t, s);
}
