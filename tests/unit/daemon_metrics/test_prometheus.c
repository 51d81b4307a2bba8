/* SPDX-License-Identifier: Apache-2.0
 *
 * The text for Prometheus: names, labels, values, and that each family is announced once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/metrics_int.h"

#include <string.h>

static tci_buf put(const tci_eip_metrics_sample *sample, const char *id)
{
    tci_buf out;
    tci_prometheus_source source = {
        .device_id = tci_str(id), .generation = UINT64_MAX, .interval_ms = 1000, .sample = sample};
    tci_buf_init(&out, TCI_BUF_MAX);
    tci_prometheus_put(&out, &source);
    tci_buf_append_byte(&out, '\0'); /* for strstr */
    assert_true(tci_buf_ok(&out));
    return out;
}

/* The line of one sample, labels after the two that all have. */
#define LINE(name, labels, value) \
    "\n" name "{device_id=\"d\",generation=\"18446744073709551615\"" labels "} " value "\n"

static void has(const tci_buf *text, const char *line)
{
    if (strstr(text->ptr, line) == NULL)
        fail_msg("no '%s' in:\n%s", line, text->ptr);
}

static void has_not(const tci_buf *text, const char *part)
{
    assert_null(strstr(text->ptr, part));
}

static void before_the_first_sample(void **state)
{
    tci_buf text = put(NULL, "d");
    (void)state;
    has(&text, LINE("envd_sample_interval_seconds", "", "1.0"));
    has(&text, LINE("envd_sample_available", "", "0"));
    has(&text, LINE("envd_sample_fresh", "", "0"));
    has_not(&text, "envd_sample_sequence");
    has_not(&text, "envd_daemon");
    tci_buf_done(&text);
}

static tci_eip_metrics_sample small_sample(void)
{
    return (tci_eip_metrics_sample){
        .sequence = 7,
        .sampled_at = {.sec = 1700000000, .nsec = 250000000},
        .sample_age_ms = 1500,
        .collection_duration_ms = 20,
        .system = {.has_logical_cpu_count = true,
                   .logical_cpu_count = 4,
                   .has_cpu_busy_percent = true,
                   .cpu_busy_percent = 25,
                   .has_memory_total_bytes = true,
                   .memory_total_bytes = UINT64_C(9007199254740993)},
        .has_daemon = true,
        .daemon = {.sessions = 2, .connections = 3},
    };
}

static void a_sample(void **state)
{
    tci_eip_metrics_sample s = small_sample();
    tci_buf text = put(&s, "d");
    (void)state;
    has(&text, LINE("envd_sample_available", "", "1"));
    has(&text, LINE("envd_sample_fresh", "", "1"));
    has(&text, LINE("envd_sample_sequence", "", "7"));
    has(&text, LINE("envd_sample_timestamp_seconds", "", "1700000000.25"));
    has(&text, LINE("envd_sample_age_seconds", "", "1.5"));
    has(&text, LINE("envd_collection_duration_seconds", "", "0.02"));
    has(&text, LINE("envd_system_logical_cpus", "", "4"));
    has(&text, LINE("envd_system_cpu_busy_ratio", "", "0.25"));
    has(&text, LINE("envd_system_memory_total_bytes", "", "9007199254740993"));
    has(&text, LINE("envd_daemon_sessions", "", "2"));
    has(&text, LINE("envd_daemon_connections", "", "3"));
    has_not(&text, "envd_daemon_processes"); /* absent is not zero */
    has_not(&text, "envd_system_swap");
    has(&text, "\n# TYPE envd_sample_sequence gauge\n");
    tci_buf_done(&text);
}

static void a_stale_sample_has_no_resources(void **state)
{
    tci_eip_metrics_sample s = small_sample();
    (void)state;
    s.sample_age_ms = 2000;
    tci_buf text = put(&s, "d");
    has(&text, LINE("envd_sample_fresh", "", "1"));
    tci_buf_done(&text);
    s.sample_age_ms = 2001;
    text = put(&s, "d");
    has(&text, LINE("envd_sample_fresh", "", "0"));
    has(&text, LINE("envd_sample_sequence", "", "7"));
    has_not(&text, "envd_system");
    has_not(&text, "envd_daemon");
    tci_buf_done(&text);
}

#define CONST_STR(literal)           \
    {                                \
        literal, sizeof(literal) - 1 \
    }

static tci_eip_metrics_sample full_sample(void)
{
    static tci_eip_disk_io_metrics_entry disks[] = {
        {CONST_STR("sda"),
         {.identity = CONST_STR("8:0:1"),
          .has_read_bytes = true,
          .read_bytes = 5,
          .has_busy_time_ms = true,
          .busy_time_ms = 1500,
          .has_in_progress = true,
          .in_progress = 1}},
        {CONST_STR("sdb"),
         {.identity = CONST_STR("8:16"), .has_read_bytes = true, .read_bytes = 6}}};
    static tci_eip_network_interface_metrics_entry interfaces[] = {
        {CONST_STR("eth\"0"),
         {.identity = CONST_STR("2"), .has_received_bytes = true, .received_bytes = 11}}};
    static tci_eip_u64_entry states[] = {{CONST_STR("listen"), 4}};
    static tci_eip_filesystem_observation_entry configured[] = {
        {CONST_STR("none"), {.has_metrics = false}},
        {CONST_STR("root"),
         {.has_metrics = true,
          .metrics = {.total_bytes = 10, .free_bytes = 9, .available_bytes = 8}}}};
    static tci_eip_filesystem_observation_entry found[] = {
        {CONST_STR("8:1"),
         {.has_metrics = true,
          .metrics = {.total_bytes = 20, .has_total_inodes = true, .total_inodes = 3}}}};
    tci_eip_metrics_sample s = small_sample();
    s.system.has_pressure = true;
    s.system.pressure.has_io = true;
    s.system.pressure.io.has_full = true;
    s.system.pressure.io.full =
        (tci_eip_pressure_level){.avg60_percent = 12.5, .total_usec = 1500000};
    s.system.has_cpu_time_seconds = true;
    s.system.cpu_time_seconds = (tci_eip_cpu_time_seconds){.has_user = true, .user = 1.5};
    s.has_cgroup_v2 = true;
    s.cgroup_v2.has_cpu_usage_usec = true;
    s.cgroup_v2.cpu_usage_usec = 2500000;
    s.cgroup_v2.has_cpu_max = true;
    s.cgroup_v2.cpu_max.kind = TCI_EIP_CPU_LIMIT_UNLIMITED;
    s.cgroup_v2.has_memory_max = true;
    s.cgroup_v2.memory_max =
        (tci_eip_memory_limit){.kind = TCI_EIP_MEMORY_LIMIT_LIMITED, .u.limited = {.bytes = 64}};
    s.cgroup_v2.memory_events.has_oom_kill = true;
    s.cgroup_v2.memory_events.oom_kill = 2;
    s.cgroup_v2.has_io = true;
    s.cgroup_v2.io.devices.items = disks;
    s.cgroup_v2.io.devices.count = 1;
    s.has_disks = s.has_network = s.has_connections = s.has_local_filesystems = true;
    s.disks.devices.items = disks;
    s.disks.devices.count = 2;
    s.network.interfaces.items = interfaces;
    s.network.interfaces.count = 1;
    s.network.truncated = true;
    s.connections.tcp_states.items = states;
    s.connections.tcp_states.count = 1;
    s.connections.has_tcp_total = true;
    s.connections.tcp_total = 4;
    s.filesystems.items = configured;
    s.filesystems.count = 2;
    s.local_filesystems.filesystems.items = found;
    s.local_filesystems.filesystems.count = 1;
    return s;
}

static void families_with_labels(void **state)
{
    tci_eip_metrics_sample s = full_sample();
    tci_buf text = put(&s, "d");
    (void)state;
    has(&text, LINE("envd_system_cpu_time_seconds_total", ",mode=\"user\"", "1.5"));
    has(&text, LINE("envd_system_pressure_ratio", ",resource=\"io\",level=\"full\",window=\"60\"",
                    "0.125"));
    has(&text,
        LINE("envd_system_pressure_stall_seconds_total", ",resource=\"io\",level=\"full\"", "1.5"));
    has(&text, LINE("envd_cgroup_cpu_usage_seconds_total", "", "2.5"));
    has(&text, LINE("envd_cgroup_cpu_limit_unlimited", "", "1"));
    has_not(&text, "envd_cgroup_cpu_quota_seconds");
    has(&text, LINE("envd_cgroup_memory_limit_unlimited", "", "0"));
    has(&text, LINE("envd_cgroup_memory_limit_bytes", "", "64"));
    has(&text, LINE("envd_cgroup_memory_events_total", ",event=\"oom_kill\"", "2"));
    has(&text, LINE("envd_cgroup_io_read_bytes_total", ",disk=\"sda\",identity=\"8:0:1\"", "5"));
    has(&text, LINE("envd_disk_read_bytes_total", ",disk=\"sdb\",identity=\"8:16\"", "6"));
    has(&text,
        LINE("envd_disk_busy_time_seconds_total", ",disk=\"sda\",identity=\"8:0:1\"", "1.5"));
    has(&text, LINE("envd_disk_in_progress", ",disk=\"sda\",identity=\"8:0:1\"", "1"));
    has(&text, LINE("envd_disk_truncated", "", "0"));
    has(&text, LINE("envd_network_truncated", "", "1"));
    has(&text,
        LINE("envd_network_received_bytes_total", ",interface=\"eth\\\"0\",identity=\"2\"", "11"));
    has(&text, LINE("envd_tcp_state_connections", ",state=\"listen\"", "4"));
    has(&text, LINE("envd_filesystem_available", ",filesystem=\"none\"", "0"));
    has(&text, LINE("envd_filesystem_available", ",filesystem=\"root\"", "1"));
    has(&text, LINE("envd_filesystem_total_bytes", ",filesystem=\"auto:8:1\"", "20"));
    has(&text, LINE("envd_filesystem_total_inodes", ",filesystem=\"auto:8:1\"", "3"));
    has_not(&text, "envd_filesystem_total_inodes{device_id=\"d\",generation="
                   "\"18446744073709551615\",filesystem=\"root\"");
    has(&text, "\n# TYPE envd_disk_read_bytes_total counter\n");
    has(&text, "\n# TYPE envd_disk_in_progress gauge\n");
    tci_buf_done(&text);
}

/* Every sample belongs to the family announced last, and no family comes twice. */
static void each_family_is_announced_once(void **state)
{
    tci_eip_metrics_sample s = full_sample();
    tci_buf text = put(&s, "d");
    tc_str rest = tci_str(text.ptr), line, family = TC_STR(""), seen[128];
    size_t nseen = 0;
    (void)state;
    while (tci_str_split(&rest, '\n', &line)) {
        if (tci_str_starts(line, TC_STR("# HELP "))) {
            family = tci_str_sub(line, 7, line.len);
            family.len = tci_str_find_byte(family, ' ');
            for (size_t i = 0; i < nseen; i++)
                assert_false(tci_str_eq(seen[i], family));
            assert_true(nseen < TCI_ARRAY_LEN(seen));
            seen[nseen++] = family;
        } else if (line.len > 0 && line.ptr[0] != '#') {
            assert_true(tci_str_eq(tci_str_sub(line, 0, tci_str_find_byte(line, '{')), family));
        }
    }
    assert_true(nseen > 30);
    tci_buf_done(&text);
}

static void labels_are_escaped(void **state)
{
    tci_buf text = put(NULL, "a\\b\"c\nd");
    (void)state;
    has(&text, "{device_id=\"a\\\\b\\\"c\\nd\",generation=");
    tci_buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_first_sample),         cmocka_unit_test(a_sample),
        cmocka_unit_test(a_stale_sample_has_no_resources), cmocka_unit_test(families_with_labels),
        cmocka_unit_test(each_family_is_announced_once),   cmocka_unit_test(labels_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
