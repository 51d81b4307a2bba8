/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of Linux: /proc/stat, meminfo, pressure, diskstats, net/dev, net/tcp and udp, self/mountinfo,
 * statvfs. Leaves control groups to metrics_group.c. Any thread; holds nothing.
 *
 * Invariant: a file is read line by line through one buffer, however long it is. */
#include "plat/metrics.h"

#include "base/num.h"
#include "plat/file.h"
#include "plat/linux/metrics_int.h"

#include <net/if.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { LINE_BYTES = 16 * 1024, SECTOR_BYTES = 512 };

/* ---- lines and words ---- */

bool tci_raw_lines(tci_file root, tc_str path, bool (*line_cb)(void *user, tc_str line), void *user)
{
    tc_err err;
    char buf[LINE_BYTES];
    size_t have = 0, got = 0;
    bool is_cut = false; /* the rest of a line that was too long is passed over */
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    if (tci_file_openat(root, path, TCI_OPEN_READ, 0, &f, &err) < 0)
        return false;
    for (;;) {
        if (tci_file_read(f, buf + have, sizeof buf - have, &got, &err) < 0)
            return false;
        have += got;
        tc_str rest = tci_str_of(buf, have);
        size_t end;
        while ((end = tci_str_find_byte(rest, '\n')) < rest.len) {
            if (!is_cut && !line_cb(user, tci_str_sub(rest, 0, end)))
                return true;
            is_cut = false;
            rest = tci_str_sub(rest, end + 1, rest.len);
        }
        if (got == 0) {
            if (rest.len > 0 && !is_cut)
                (void)line_cb(user, rest); /* the last one */
            return true;
        }
        if (rest.len == sizeof buf) {
            if (!is_cut && !line_cb(user, rest))
                return true;
            is_cut = true;
            rest.len = 0;
        }
        have = rest.len;
        memmove(buf, rest.ptr, have);
    }
}

bool tci_raw_word(tc_str *rest, tc_str *ret)
{
    tc_str s = tci_str_trim(*rest);
    size_t len = 0;
    while (len < s.len && s.ptr[len] != ' ' && s.ptr[len] != '\t')
        len++;
    *ret = tci_str_sub(s, 0, len);
    *rest = tci_str_sub(s, len, s.len);
    return len > 0;
}

tci_raw_count tci_raw_number(tc_str text)
{
    tc_err err;
    tci_raw_count n = {0};
    n.is_known = tci_num_u64(text, &n.value, &err) == 0;
    return n;
}

static tci_raw_count next_number(tc_str *rest)
{
    tc_str word;
    return tci_raw_word(rest, &word) ? tci_raw_number(word) : (tci_raw_count){0};
}

static tci_raw_count times(tci_raw_count n, uint64_t factor)
{
    if (n.is_known && __builtin_mul_overflow(n.value, factor, &n.value))
        n.value = UINT64_MAX;
    return n;
}

/* ---- the machine ---- */

static bool on_stat_line(void *user, tc_str line)
{
    tci_raw_system *s = user;
    tc_str rest = line, name;
    if (!tci_raw_word(&rest, &name) || !tci_str_starts(name, TC_STR("cpu")))
        return false; /* they come first */
    if (name.len > 3) {
        s->processors.is_known = true;
        s->processors.value++;
        return true;
    }
    for (size_t i = 0; i < TCI_RAW_CPU_MODES; i++)
        s->cpu_ticks[i] = next_number(&rest);
    return true;
}

static bool on_memory_line(void *user, tc_str line)
{
    tci_raw_system *s = user;
    struct {
        tc_str name;
        tci_raw_count *to;
    } wanted[] = {
        {TC_STR("MemTotal:"), &s->memory_total},
        {TC_STR("MemAvailable:"), &s->memory_available},
        {TC_STR("SwapTotal:"), &s->swap_total},
        {TC_STR("SwapFree:"), &s->swap_free},
    };
    tc_str rest = line, name;
    if (!tci_raw_word(&rest, &name))
        return true;
    for (size_t i = 0; i < TCI_ARRAY_LEN(wanted); i++) {
        if (tci_str_eq(name, wanted[i].name))
            *wanted[i].to = times(next_number(&rest), 1024);
    }
    return true;
}

static bool on_pressure_line(void *user, tc_str line)
{
    tci_raw_pressure *p = user;
    tci_raw_stall stall = {.is_known = true};
    struct {
        tc_str key;
        double *to;
    } averages[] = {{TC_STR("avg10="), &stall.avg10},
                    {TC_STR("avg60="), &stall.avg60},
                    {TC_STR("avg300="), &stall.avg300}};
    tc_err err;
    tc_str rest = line, kind, word;
    if (!tci_raw_word(&rest, &kind))
        return true;
    while (tci_raw_word(&rest, &word)) {
        for (size_t i = 0; i < TCI_ARRAY_LEN(averages); i++) {
            if (tci_str_starts(word, averages[i].key) &&
                tci_num_double(tci_str_sub(word, averages[i].key.len, word.len), averages[i].to,
                               &err) < 0)
                return true;
        }
        if (tci_str_starts(word, TC_STR("total=")))
            stall.total_usec = tci_raw_number(tci_str_sub(word, 6, word.len)).value;
    }
    if (tci_str_eq(kind, TC_STR("some")))
        p->some = stall;
    else if (tci_str_eq(kind, TC_STR("full")))
        p->full = stall;
    return true;
}

void tci_raw_pressure_read(tci_file root, tc_str path, tci_raw_pressure *ret)
{
    (void)tci_raw_lines(root, path, on_pressure_line, ret); /* without the file: absent */
}

void tci_raw_system_read(tci_raw_system *ret)
{
    long hz = sysconf(_SC_CLK_TCK);
    *ret = (tci_raw_system){.ticks_per_second = hz > 0 ? (uint64_t)hz : 100};
    /* Without a file its numbers are absent. */
    (void)tci_raw_lines(TCI_FILE_CWD, TC_STR("/proc/stat"), on_stat_line, ret);
    (void)tci_raw_lines(TCI_FILE_CWD, TC_STR("/proc/meminfo"), on_memory_line, ret);
    tci_raw_pressure_read(TCI_FILE_CWD, TC_STR("/proc/pressure/cpu"), &ret->pressure.cpu);
    tci_raw_pressure_read(TCI_FILE_CWD, TC_STR("/proc/pressure/memory"), &ret->pressure.memory);
    tci_raw_pressure_read(TCI_FILE_CWD, TC_STR("/proc/pressure/io"), &ret->pressure.io);
    ret->pressure.cpu.full.is_known = false; /* always zero for the machine as a whole */
}

/* ---- disks ---- */

typedef struct gathering {
    void *items;
    size_t max, n;
    bool has_more;
} gathering;

/* The last parts of /sys/block/<name>; a slash in a name is written '!' there. */
static bool block_path(const char *name, const char *file, char *out, size_t size)
{
    int n = snprintf(out, size, "/sys/block/%s%s", name, file);
    if (n < 0 || (size_t)n >= size)
        return false;
    for (char *p = out + sizeof "/sys/block/" - 1; *p != '\0' && *p != '\n'; p++) {
        if (*p == '/' && (size_t)(p - out) < (size_t)n - strlen(file))
            *p = '!';
    }
    return true;
}

static void add_sequence(tci_raw_disk *d)
{
    char path[160], text[32];
    size_t len = 0;
    tc_err err;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    if (!block_path(d->name, "/diskseq", path, sizeof path) ||
        tci_file_open(tci_str(path), TCI_OPEN_READ, 0, &f, &err) < 0 ||
        tci_file_read(f, text, sizeof text, &len, &err) < 0)
        return;
    while (len > 0 && text[len - 1] == '\n')
        len--;
    size_t used = strlen(d->identity);
    if (tci_raw_number(tci_str_of(text, len)).is_known)
        (void)snprintf(d->identity + used, sizeof d->identity - used, ":%.*s", (int)len, text);
}

static bool is_whole_disk(const char *name)
{
    char path[160];
    if (strncmp(name, "loop", 4) == 0 || strncmp(name, "ram", 3) == 0)
        return false;
    return block_path(name, "", path, sizeof path) && access(path, F_OK) == 0;
}

static void read_disk_numbers(tc_str rest, tci_raw_disk *d)
{
    d->reads = next_number(&rest);
    (void)next_number(&rest); /* merged */
    d->read_bytes = times(next_number(&rest), SECTOR_BYTES);
    d->read_ms = next_number(&rest);
    d->writes = next_number(&rest);
    (void)next_number(&rest); /* merged */
    d->written_bytes = times(next_number(&rest), SECTOR_BYTES);
    d->write_ms = next_number(&rest);
    d->in_progress = next_number(&rest);
    d->busy_ms = next_number(&rest);
    d->weighted_ms = next_number(&rest);
}

static bool on_disk_line(void *user, tc_str line)
{
    gathering *g = user;
    tci_raw_disk d = {.name = ""};
    tc_str rest = line, major, minor, name;
    if (!tci_raw_word(&rest, &major) || !tci_raw_word(&rest, &minor) ||
        !tci_raw_word(&rest, &name) || name.len >= sizeof d.name)
        return true;
    memcpy(d.name, name.ptr, name.len);
    if (!is_whole_disk(d.name))
        return true;
    if (g->n == g->max) {
        g->has_more = true;
        return false;
    }
    (void)snprintf(d.identity, sizeof d.identity, "%.*s:%.*s", (int)tci_min_size(major.len, 10),
                   major.ptr, (int)tci_min_size(minor.len, 10), minor.ptr);
    add_sequence(&d);
    read_disk_numbers(rest, &d);
    ((tci_raw_disk *)g->items)[g->n++] = d;
    return true;
}

bool tci_raw_disks_read(tci_raw_disk *items, size_t max, size_t *ret_n, bool *ret_more)
{
    gathering g = {.items = items, .max = max};
    if (!tci_raw_lines(TCI_FILE_CWD, TC_STR("/proc/diskstats"), on_disk_line, &g))
        return false;
    *ret_n = g.n;
    *ret_more = g.has_more;
    return true;
}

/* ---- interfaces ---- */

/* name: bytes packets errs drop fifo frame compressed multicast, the same for sending. */
static bool on_interface_line(void *user, tc_str line)
{
    gathering *g = user;
    uint64_t n[12];
    size_t colon = tci_str_find_byte(line, ':');
    tc_str name = tci_str_trim(tci_str_sub(line, 0, colon));
    tc_str rest = tci_str_sub(line, colon + 1, line.len);
    if (colon == line.len || name.len >= TCI_RAW_NAME_MAX)
        return true; /* the two lines of titles have none */
    if (g->n == g->max) {
        g->has_more = true;
        return false;
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(n); i++) {
        tci_raw_count c = next_number(&rest);
        if (!c.is_known)
            return true;
        n[i] = c.value;
    }
    tci_raw_interface *to = &((tci_raw_interface *)g->items)[g->n++];
    *to = (tci_raw_interface){.received_bytes = n[0],
                              .received_packets = n[1],
                              .receive_errors = n[2],
                              .receive_drops = n[3],
                              .transmitted_bytes = n[8],
                              .transmitted_packets = n[9],
                              .transmit_errors = n[10],
                              .transmit_drops = n[11]};
    memcpy(to->name, name.ptr, name.len);
    to->index = if_nametoindex(to->name);
    return true;
}

bool tci_raw_interfaces_read(tci_raw_interface *items, size_t max, size_t *ret_n, bool *ret_more)
{
    gathering g = {.items = items, .max = max};
    if (!tci_raw_lines(TCI_FILE_CWD, TC_STR("/proc/net/dev"), on_interface_line, &g))
        return false;
    *ret_n = g.n;
    *ret_more = g.has_more;
    return true;
}

/* ---- sockets ---- */

const char *tci_raw_tcp_state_name(size_t state)
{
    /* include/net/tcp_states.h counts from 1 */
    static const char *const names[TCI_RAW_TCP_STATES] = {
        "established", "syn_sent",         "syn_received", "fin_wait_1", "fin_wait_2",
        "time_wait",   "closed",           "close_wait",   "last_ack",   "listen",
        "closing",     "new_syn_received", "unknown"};
    return names[state];
}

static bool on_tcp_line(void *user, tc_str line)
{
    tc_err err;
    uint64_t state;
    tci_raw_sockets *s = user;
    tc_str rest = line, word;
    for (int i = 0; i < 4; i++) {
        if (!tci_raw_word(&rest, &word))
            return true;
    }
    if (word.len != 2 || tci_num_hex_u64(word, &state, &err) < 0)
        return true; /* the line of titles */
    s->tcp.value++;
    s->by_state[state >= 1 && state < TCI_RAW_TCP_STATES ? state - 1 : TCI_RAW_TCP_STATES - 1]++;
    return true;
}

static bool on_udp_line(void *user, tc_str line)
{
    tci_raw_sockets *s = user;
    tc_str rest = line, word;
    if (tci_raw_word(&rest, &word) && word.ptr[word.len - 1] == ':')
        s->udp.value++;
    return true;
}

void tci_raw_sockets_read(tci_raw_sockets *ret)
{
    *ret = (tci_raw_sockets){0};
    ret->tcp.is_known = tci_raw_lines(TCI_FILE_CWD, TC_STR("/proc/net/tcp"), on_tcp_line, ret);
    ret->udp.is_known = tci_raw_lines(TCI_FILE_CWD, TC_STR("/proc/net/udp"), on_udp_line, ret);
    /* A system without IPv6 has none of it. */
    (void)tci_raw_lines(TCI_FILE_CWD, TC_STR("/proc/net/tcp6"), on_tcp_line, ret);
    (void)tci_raw_lines(TCI_FILE_CWD, TC_STR("/proc/net/udp6"), on_udp_line, ret);
}

/* ---- file systems ---- */

bool tci_raw_space_read(const char *path, tci_raw_space *ret)
{
    struct statvfs st;
    if (statvfs(path, &st) != 0)
        return false;
    uint64_t unit = st.f_frsize > 0 ? st.f_frsize : st.f_bsize;
    bool has_inodes = st.f_files > 0; /* some file systems make them as they go and say 0 */
    *ret = (tci_raw_space){
        .total_bytes = times((tci_raw_count){true, st.f_blocks}, unit).value,
        .free_bytes = times((tci_raw_count){true, st.f_bfree}, unit).value,
        .available_bytes = times((tci_raw_count){true, st.f_bavail}, unit).value,
        .total_inodes = {has_inodes, st.f_files},
        .free_inodes = {has_inodes, st.f_ffree},
        .available_inodes = {has_inodes, st.f_favail},
    };
    return true;
}

static bool is_local_type(tc_str type)
{
    static const char *const types[] = {"ext2",  "ext3",     "ext4",   "xfs",      "btrfs", "f2fs",
                                        "jfs",   "reiserfs", "zfs",    "bcachefs", "ntfs",  "ntfs3",
                                        "exfat", "vfat",     "nilfs2", "hfsplus"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(types); i++) {
        if (tci_str_eq(tci_str(types[i]), type))
            return true;
    }
    return false;
}

static bool is_octal(tc_str s)
{
    return s.len == 4 && s.ptr[0] == '\\' && s.ptr[1] >= '0' && s.ptr[1] <= '3' &&
           s.ptr[2] >= '0' && s.ptr[2] <= '7' && s.ptr[3] >= '0' && s.ptr[3] <= '7';
}

/* Blanks and backslashes of the path come as \ooo. */
static bool decode_mount_path(tc_str text, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (n + 1 >= size)
            return false;
        tc_str four = tci_str_sub(text, i, 4);
        if (is_octal(four)) {
            out[n++] = (char)(((four.ptr[1] - '0') << 6) | ((four.ptr[2] - '0') << 3) |
                              (four.ptr[3] - '0'));
            i += 3;
        } else {
            out[n++] = text.ptr[i];
        }
    }
    out[n] = '\0';
    return true;
}

/* id parent major:minor root path options [more ...] - type source options */
static bool on_mount_line(void *user, tc_str line)
{
    gathering *g = user;
    tci_raw_mount *mounts = g->items;
    char path[TCI_PATH_MAX];
    tc_str rest = line, word, device = TC_STR(""), where = TC_STR("");
    for (int i = 0; i < 6; i++) {
        if (!tci_raw_word(&rest, &word))
            return true;
        device = i == 2 ? word : device;
        where = i == 4 ? word : where;
    }
    while (tci_raw_word(&rest, &word) && !tci_str_eq(word, TC_STR("-")))
        ;
    if (!tci_raw_word(&rest, &word) || !is_local_type(word) || device.len >= TCI_RAW_ID_MAX ||
        !decode_mount_path(where, path, sizeof path))
        return true;
    for (size_t i = 0; i < g->n; i++) {
        if (tci_str_eq(tci_str(mounts[i].device), device))
            return true;
    }
    if (g->n == g->max) {
        g->has_more = true;
        return false;
    }
    tci_raw_mount *m = &mounts[g->n++];
    *m = (tci_raw_mount){.device = ""};
    memcpy(m->device, device.ptr, device.len);
    m->is_readable = tci_raw_space_read(path, &m->space);
    return true;
}

bool tci_raw_mounts_read(tci_raw_mount *items, size_t max, size_t *ret_n, bool *ret_more)
{
    gathering g = {.items = items, .max = max};
    if (!tci_raw_lines(TCI_FILE_CWD, TC_STR("/proc/self/mountinfo"), on_mount_line, &g))
        return false;
    *ret_n = g.n;
    *ret_more = g.has_more;
    return true;
}
