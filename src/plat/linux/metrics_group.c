/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of one control group, version 2 (Documentation/admin-guide/cgroup-v2.rst). Any thread; holds
 * nothing. */
#include "plat/linux/metrics_int.h"

#include "base/num.h"

/* ---- files of "name value" lines ---- */

typedef struct wanted {
    const char *name;
    tci_raw_count *to;
} wanted;

typedef struct wanted_list {
    const wanted *items;
    size_t count;
} wanted_list;

static bool on_pair(void *user, tc_str line)
{
    const wanted_list *list = user;
    tc_str rest = line, name, value;
    if (!tci_raw_word(&rest, &name) || !tci_raw_word(&rest, &value))
        return true;
    for (size_t i = 0; i < list->count; i++) {
        if (tci_str_eq(tci_str(list->items[i].name), name))
            *list->items[i].to = tci_raw_number(value);
    }
    return true;
}

/* ---- files of one line ---- */

static bool on_only_line(void *user, tc_str line)
{
    tci_raw_limit *limits = user;
    tc_str rest = line, word;
    for (int i = 0; i < 2 && tci_raw_word(&rest, &word); i++) {
        tci_raw_count n = tci_raw_number(word);
        limits[i].is_unlimited = tci_str_eq(word, TC_STR("max"));
        limits[i].is_known = n.is_known || limits[i].is_unlimited;
        limits[i].value = n.value;
    }
    return false;
}

/* "max", a number, or a limit and a second number. */
static void read_limits(tci_file dir, tc_str name, tci_raw_limit ret[2])
{
    ret[0] = ret[1] = (tci_raw_limit){0};
    (void)tci_raw_lines(dir, name, on_only_line, ret); /* without the file: absent */
}

static tci_raw_count read_number(tci_file dir, tc_str name)
{
    tci_raw_limit l[2];
    read_limits(dir, name, l);
    return (tci_raw_count){l[0].is_known && !l[0].is_unlimited, l[0].value};
}

/* ---- disks: "major:minor rbytes=1 wbytes=2 rios=3 wios=4 ..." ---- */

static bool on_disk(void *user, tc_str line)
{
    tci_raw_group *g = user;
    tc_str rest = line, id, word;
    if (!tci_raw_word(&rest, &id) || id.len >= TCI_RAW_ID_MAX ||
        tci_str_find_byte(id, ':') == id.len)
        return true;
    if (g->ndisks == TCI_RAW_GROUP_DISKS_MAX) {
        g->has_more_disks = true;
        return false;
    }
    tci_raw_disk *d = &g->disks[g->ndisks++];
    const wanted keys[] = {{"rbytes", &d->read_bytes},
                           {"wbytes", &d->written_bytes},
                           {"rios", &d->reads},
                           {"wios", &d->writes}};
    *d = (tci_raw_disk){.name = ""};
    memcpy(d->name, id.ptr, id.len);
    memcpy(d->identity, id.ptr, id.len);
    while (tci_raw_word(&rest, &word)) {
        size_t eq = tci_str_find_byte(word, '=');
        for (size_t i = 0; i < TCI_ARRAY_LEN(keys); i++) {
            if (tci_str_eq(tci_str_sub(word, 0, eq), tci_str(keys[i].name)))
                *keys[i].to = tci_raw_number(tci_str_sub(word, eq + 1, word.len));
        }
    }
    return true;
}

/* ---- all of it ---- */

static void read_pairs(tci_file dir, tci_raw_group *g)
{
    const wanted cpu[] = {
        {"usage_usec", &g->usage_usec},          {"user_usec", &g->user_usec},
        {"system_usec", &g->system_usec},        {"nr_periods", &g->periods},
        {"nr_throttled", &g->throttled_periods}, {"throttled_usec", &g->throttled_usec}};
    const wanted memory[] = {{"low", &g->low},           {"high", &g->high},
                             {"max", &g->max},           {"oom", &g->oom},
                             {"oom_kill", &g->oom_kill}, {"oom_group_kill", &g->oom_group_kill}};
    wanted_list cpu_list = {cpu, TCI_ARRAY_LEN(cpu)}, memory_list = {memory, TCI_ARRAY_LEN(memory)};
    /* Without a file its numbers are absent. */
    (void)tci_raw_lines(dir, TC_STR("cpu.stat"), on_pair, &cpu_list);
    (void)tci_raw_lines(dir, TC_STR("memory.events"), on_pair, &memory_list);
}

void tci_raw_group_read(tc_str directory, tci_raw_group *ret)
{
    tc_err err;
    tci_raw_limit l[2];
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    memset(ret, 0, sizeof *ret);
    if (tci_file_open(directory, TCI_OPEN_PATH | TCI_OPEN_DIRECTORY, 0, &dir, &err) < 0)
        return;
    read_pairs(dir, ret);
    read_limits(dir, TC_STR("cpu.max"), l);
    ret->cpu_quota_usec = l[0];
    ret->cpu_quota_usec.is_known = l[0].is_known && l[1].is_known;
    ret->cpu_period_usec = l[1].value;
    ret->memory_current = read_number(dir, TC_STR("memory.current"));
    read_limits(dir, TC_STR("memory.max"), l);
    ret->memory_max = l[0];
    ret->pids_current = read_number(dir, TC_STR("pids.current"));
    read_limits(dir, TC_STR("pids.max"), l);
    ret->pids_max = l[0];
    tci_raw_pressure_read(dir, TC_STR("cpu.pressure"), &ret->pressure.cpu);
    tci_raw_pressure_read(dir, TC_STR("memory.pressure"), &ret->pressure.memory);
    tci_raw_pressure_read(dir, TC_STR("io.pressure"), &ret->pressure.io);
    ret->has_disks = tci_raw_lines(dir, TC_STR("io.stat"), on_disk, ret);
}
