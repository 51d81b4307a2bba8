/* SPDX-License-Identifier: Apache-2.0
 *
 * What one collection finds on this machine and in a control group made up for the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/metrics_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct collected {
    tci_config config;
    tci_arena arena;
    tci_eip_metrics_sample sample;
    uint64_t ticks[TCI_RAW_CPU_MODES];
} collected;

static void collect(collected *c, const uint64_t *before)
{
    tc_err err;
    tci_arena_init(&c->arena, 0);
    assert_int_equal(tci_metrics_collect(&c->config, before, &c->arena, &c->sample, c->ticks, &err),
                     0);
}

static tc_str folder_of(const char *name)
{
    static char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", getenv("TC_TEST_DIR"), name);
    return tci_str(path);
}

static void put(tc_str folder, const char *name, const char *text)
{
    char path[2048];
    (void)snprintf(path, sizeof path, "%.*s/%s", TC_STR_ARG(folder), name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void the_machine(void **state)
{
    collected c = {.sample = {.sequence = 1}};
    (void)state;
    collect(&c, NULL);
    const tci_eip_system_metrics *s = &c.sample.system;
    assert_true(s->has_logical_cpu_count && s->logical_cpu_count >= 1);
    assert_true(s->has_memory_total_bytes && s->has_memory_available_bytes);
    assert_true(s->memory_total_bytes > s->memory_available_bytes);
    assert_true(s->memory_total_bytes > 1024 * 1024); /* bytes, not kibibytes */
    assert_true(s->has_cpu_time_seconds && s->cpu_time_seconds.has_user &&
                s->cpu_time_seconds.has_steal);
    assert_true(s->cpu_time_seconds.idle + s->cpu_time_seconds.user > 0);
    assert_false(s->has_cpu_busy_percent); /* there is nothing to compare with yet */
    assert_false(s->has_process_count);    /* not on this system */
    assert_false(c.sample.has_cgroup_v2);
    tci_arena_done(&c.arena);
}

static void busy_is_what_is_not_idle(void **state)
{
    collected c = {.sample = {.sequence = 1}}, d = {.sample = {.sequence = 1}};
    (void)state;
    collect(&c, NULL);
    c.ticks[TCI_RAW_CPU_USER] -=
        c.ticks[TCI_RAW_CPU_USER] > 50 ? 50 : 0; /* so that time has passed */
    collect(&d, c.ticks);
    assert_true(d.sample.system.has_cpu_busy_percent);
    assert_true(d.sample.system.cpu_busy_percent >= 0 && d.sample.system.cpu_busy_percent <= 100);
    tci_arena_done(&c.arena);
    tci_arena_done(&d.arena);
}

static void counters_that_go_back_say_nothing(void **state)
{
    collected c = {.sample = {.sequence = 1}};
    uint64_t later[TCI_RAW_CPU_MODES];
    (void)state;
    memset(later, 0xff, sizeof later);
    collect(&c, later);
    assert_false(c.sample.system.has_cpu_busy_percent);
    tci_arena_done(&c.arena);
}

static void file_systems(void **state)
{
    tci_monitored_fs fs[] = {{TC_STR("root"), TC_STR("/")},
                             {TC_STR("none"), TC_STR("/nowhere/at/all")}};
    collected c = {.config = {.filesystems = fs, .nfilesystems = 2}};
    (void)state;
    collect(&c, NULL);
    assert_int_equal(c.sample.filesystems.count, 2);
    const tci_eip_filesystem_observation *root = &c.sample.filesystems.items[0].value;
    assert_true(root->has_metrics);
    assert_true(root->metrics.total_bytes >= root->metrics.free_bytes);
    assert_true(root->metrics.free_bytes >= root->metrics.available_bytes);
    assert_false(c.sample.filesystems.items[1].value.has_metrics);
    assert_true(c.sample.has_local_filesystems);
    assert_true(c.sample.local_filesystems.filesystems.count <= 16);
    tci_arena_done(&c.arena);
}

static void network_and_sockets(void **state)
{
    collected c = {.sample = {.sequence = 1}};
    uint64_t by_state = 0;
    (void)state;
    collect(&c, NULL);
    assert_true(c.sample.has_network && c.sample.has_connections);
    assert_true(c.sample.network.interfaces.count <= 64);
    for (size_t i = 0; i < c.sample.network.interfaces.count; i++) {
        assert_true(c.sample.network.interfaces.items[i].key.len > 0);
        assert_true(c.sample.network.interfaces.items[i].value.identity.ptr[0] != '0');
    }
    assert_true(c.sample.connections.has_tcp_total);
    for (size_t i = 0; i < c.sample.connections.tcp_states.count; i++)
        by_state += c.sample.connections.tcp_states.items[i].value;
    assert_int_equal(by_state, c.sample.connections.tcp_total);
    tci_arena_done(&c.arena);
}

static void disks_are_whole_devices(void **state)
{
    collected c = {.sample = {.sequence = 1}};
    (void)state;
    collect(&c, NULL);
    for (size_t i = 0; c.sample.has_disks && i < c.sample.disks.devices.count; i++) {
        tc_str name = c.sample.disks.devices.items[i].key;
        assert_false(tci_str_starts(name, TC_STR("loop")));
        assert_false(tci_str_starts(name, TC_STR("ram")));
        assert_true(tci_str_find_byte(c.sample.disks.devices.items[i].value.identity, ':') > 0);
    }
    tci_arena_done(&c.arena);
}

/* ---- a control group ---- */

static void a_limited_group(void **state)
{
    tc_str folder = folder_of("limited");
    (void)state;
    assert_int_equal(mkdir(folder.ptr, 0700), 0);
    put(folder, "cpu.stat",
        "usage_usec 300\nuser_usec 200\nsystem_usec 100\nnice_usec 7\nnr_periods 9\nnr_throttled "
        "4\nthrottled_usec 55\n");
    put(folder, "cpu.max", "50000 100000\n");
    put(folder, "memory.current", "4096\n");
    put(folder, "memory.max", "8192\n");
    put(folder, "memory.events", "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\n");
    put(folder, "memory.pressure",
        "some avg10=1.50 avg60=0.25 avg300=0.00 total=77\nfull avg10=0.50 avg60=0.00 avg300=0.00 "
        "total=33");
    put(folder, "pids.current", "12\n");
    put(folder, "pids.max", "100\n");
    put(folder, "io.stat", "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n259:1 rbytes=9\n");
    collected c = {.config = {.cgroup_v2_directory = folder}};
    collect(&c, NULL);
    const tci_eip_cgroup_metrics *g = &c.sample.cgroup_v2;
    assert_true(c.sample.has_cgroup_v2);
    assert_int_equal(g->cpu_usage_usec, 300);
    assert_int_equal(g->cpu_user_usec, 200);
    assert_int_equal(g->cpu_system_usec, 100);
    assert_int_equal(g->cpu_periods_total, 9);
    assert_int_equal(g->cpu_throttled_periods_total, 4);
    assert_int_equal(g->cpu_throttled_usec, 55);
    assert_true(g->has_cpu_max && g->cpu_max.kind == TCI_EIP_CPU_LIMIT_LIMITED);
    assert_int_equal(g->cpu_max.u.limited.quota_usec, 50000);
    assert_int_equal(g->cpu_max.u.limited.period_usec, 100000);
    assert_int_equal(g->memory_current_bytes, 4096);
    assert_true(g->has_memory_max && g->memory_max.kind == TCI_EIP_MEMORY_LIMIT_LIMITED);
    assert_int_equal(g->memory_max.u.limited.bytes, 8192);
    assert_int_equal(g->memory_events.low, 1);
    assert_int_equal(g->memory_events.oom_group_kill, 6);
    assert_true(g->pressure.has_memory && g->pressure.memory.has_full);
    assert_true(g->pressure.memory.some.avg10_percent > 1.49 &&
                g->pressure.memory.some.avg10_percent < 1.51);
    assert_int_equal(g->pressure.memory.some.total_usec, 77);
    assert_int_equal(g->pressure.memory.full.total_usec,
                     33); /* a last line without its end counts */
    assert_false(g->pressure.has_cpu);
    assert_int_equal(g->pids_current, 12);
    assert_true(g->has_pids_limit && g->has_pids_unlimited && !g->pids_unlimited);
    assert_int_equal(g->pids_limit, 100);
    assert_true(g->has_io);
    assert_int_equal(g->io.devices.count, 2);
    assert_true(tci_str_eq(g->io.devices.items[0].key, TC_STR("8:0")));
    assert_int_equal(g->io.devices.items[0].value.write_operations, 4);
    assert_false(g->io.devices.items[1].value.has_written_bytes);
    assert_false(g->io.devices.items[0].value.has_busy_time_ms);
    tci_arena_done(&c.arena);
}

static void an_unlimited_group(void **state)
{
    tc_str folder = folder_of("unlimited");
    (void)state;
    assert_int_equal(mkdir(folder.ptr, 0700), 0);
    put(folder, "cpu.max", "max 100000\n");
    put(folder, "memory.max", "max\n");
    put(folder, "pids.max", "max\n");
    put(folder, "memory.current", "rubbish\n");
    collected c = {.config = {.cgroup_v2_directory = folder}};
    collect(&c, NULL);
    const tci_eip_cgroup_metrics *g = &c.sample.cgroup_v2;
    assert_true(g->has_cpu_max && g->cpu_max.kind == TCI_EIP_CPU_LIMIT_UNLIMITED);
    assert_true(g->has_memory_max && g->memory_max.kind == TCI_EIP_MEMORY_LIMIT_UNLIMITED);
    assert_true(g->has_pids_unlimited && g->pids_unlimited);
    assert_false(g->has_pids_limit);
    assert_false(g->has_memory_current_bytes);
    assert_false(g->has_io);
    tci_arena_done(&c.arena);
}

/* The objects that the wire demands are there, and empty. */
static void a_group_that_is_not_there(void **state)
{
    tci_buf text;
    collected c = {.config = {.cgroup_v2_directory = TC_STR("/nowhere/at/all")}};
    (void)state;
    collect(&c, NULL);
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_proto_encode(&tci_eip_cgroup_metrics_type, &c.sample.cgroup_v2, &text, 0);
    assert_true(tci_buf_ok(&text));
    assert_true(tci_str_eq(tci_buf_str(&text), TC_STR("{\"memory_events\":{},\"pressure\":{}}")));
    tci_buf_done(&text);
    tci_arena_done(&c.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machine),
        cmocka_unit_test(busy_is_what_is_not_idle),
        cmocka_unit_test(counters_that_go_back_say_nothing),
        cmocka_unit_test(file_systems),
        cmocka_unit_test(network_and_sockets),
        cmocka_unit_test(disks_are_whole_devices),
        cmocka_unit_test(a_limited_group),
        cmocka_unit_test(an_unlimited_group),
        cmocka_unit_test(a_group_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
