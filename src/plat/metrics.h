/* SPDX-License-Identifier: Apache-2.0
 *
 * What the system counts: processors, memory, stalls, disks, interfaces, sockets, file systems, control
 * groups. Raw numbers only; what a number is for is decided elsewhere. A number that is not to be
 * had is marked absent, never guessed. Every call reads files or waits for a file system: worker only.
 * Nothing here allocates. */
#ifndef TCI_PLAT_METRICS_H
#define TCI_PLAT_METRICS_H

#include "base/str.h"

/* A number that may be absent. */
typedef struct tci_raw_count {
    bool is_known;
    uint64_t value;
} tci_raw_count;

/* ---- the machine ---- */

typedef enum tci_raw_cpu_mode {
    TCI_RAW_CPU_USER,
    TCI_RAW_CPU_NICE,
    TCI_RAW_CPU_SYSTEM,
    TCI_RAW_CPU_IDLE,
    TCI_RAW_CPU_IOWAIT,
    TCI_RAW_CPU_IRQ,
    TCI_RAW_CPU_SOFTIRQ,
    TCI_RAW_CPU_STEAL,
    TCI_RAW_CPU_MODES
} tci_raw_cpu_mode;

/* One line of a pressure file. */
typedef struct tci_raw_stall {
    bool is_known;
    double avg10, avg60, avg300; /* percent */
    uint64_t total_usec;
} tci_raw_stall;

typedef struct tci_raw_pressure {
    tci_raw_stall some, full;
} tci_raw_pressure;

typedef struct tci_raw_pressures {
    tci_raw_pressure cpu, memory, io;
} tci_raw_pressures;

typedef struct tci_raw_system {
    tci_raw_count cpu_ticks[TCI_RAW_CPU_MODES];
    uint64_t ticks_per_second;
    tci_raw_count processors;
    tci_raw_count memory_total, memory_available, swap_total, swap_free; /* bytes */
    tci_raw_pressures pressure;
} tci_raw_system;

void tci_raw_system_read(tci_raw_system *ret);

/* ---- disks, interfaces, sockets ---- */

enum { TCI_RAW_NAME_MAX = 64, TCI_RAW_ID_MAX = 48 };

typedef struct tci_raw_disk {
    char name[TCI_RAW_NAME_MAX];
    char
        identity[TCI_RAW_ID_MAX]; /* "major:minor", ":sequence" after it where the system has one */
    tci_raw_count read_bytes, written_bytes, reads, writes;
    tci_raw_count read_ms, write_ms, busy_ms, weighted_ms, in_progress;
} tci_raw_disk;

typedef struct tci_raw_interface {
    char name[TCI_RAW_NAME_MAX];
    unsigned index; /* 0: not to be had */
    uint64_t received_bytes, received_packets, receive_errors, receive_drops;
    uint64_t transmitted_bytes, transmitted_packets, transmit_errors, transmit_drops;
} tci_raw_interface;

/* Up to max of them into items. *ret_n is how many; *ret_more: there were more. false: not to be had.
 * Disks: whole devices, without memory and loop devices. */
bool tci_raw_disks_read(tci_raw_disk *items, size_t max, size_t *ret_n, bool *ret_more);
bool tci_raw_interfaces_read(tci_raw_interface *items, size_t max, size_t *ret_n, bool *ret_more);

/* By state; the last is for numbers that have no name here. */
enum { TCI_RAW_TCP_STATES = 13 };
typedef struct tci_raw_sockets {
    tci_raw_count tcp; /* IPv4 and IPv6 */
    uint64_t by_state[TCI_RAW_TCP_STATES];
    tci_raw_count udp;
} tci_raw_sockets;
/* "established", "time_wait"; static storage. */
const char *tci_raw_tcp_state_name(size_t state);
void tci_raw_sockets_read(tci_raw_sockets *ret);

/* ---- file systems ---- */

typedef struct tci_raw_space {
    uint64_t total_bytes, free_bytes, available_bytes; /* available: to this account */
    tci_raw_count total_inodes, free_inodes, available_inodes;
} tci_raw_space;
/* The file system that path is on. path is a C string. false: not to be had. */
bool tci_raw_space_read(const char *path, tci_raw_space *ret);

typedef struct tci_raw_mount {
    char device[TCI_RAW_ID_MAX]; /* "major:minor" */
    bool is_readable;
    tci_raw_space space;
} tci_raw_mount;
/* Mounted file systems on devices of this machine, each device once. As the disks above. */
bool tci_raw_mounts_read(tci_raw_mount *items, size_t max, size_t *ret_n, bool *ret_more);

/* ---- one control group ---- */

/* A limit that may be infinite. */
typedef struct tci_raw_limit {
    bool is_known, is_unlimited;
    uint64_t value;
} tci_raw_limit;

enum { TCI_RAW_GROUP_DISKS_MAX = 64 };
typedef struct tci_raw_group {
    tci_raw_count usage_usec, user_usec, system_usec, periods, throttled_periods, throttled_usec;
    tci_raw_limit cpu_quota_usec;
    uint64_t cpu_period_usec; /* with cpu_quota_usec */
    tci_raw_count memory_current;
    tci_raw_limit memory_max;
    tci_raw_count low, high, max, oom, oom_kill, oom_group_kill; /* memory events */
    tci_raw_pressures pressure;
    tci_raw_count pids_current;
    tci_raw_limit pids_max;
    bool has_disks, has_more_disks;
    size_t ndisks;
    tci_raw_disk
        disks[TCI_RAW_GROUP_DISKS_MAX]; /* only bytes and numbers of operations; name is the id */
} tci_raw_group;
/* directory is the group's folder (cgroup v2). What its files do not say is absent. */
void tci_raw_group_read(tc_str directory, tci_raw_group *ret);

#endif
