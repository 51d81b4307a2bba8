/* SPDX-License-Identifier: Apache-2.0
 *
 * Version 2 control groups as a bag of processes: make, empty, prove empty, remove. Linux only;
 * elsewhere tci_cgroup_base_open answers UNSUPPORTED. See cgroup-v2 in the kernel's admin guide. */
#ifndef TCI_PLAT_CGROUP_H
#define TCI_PLAT_CGROUP_H

#include "base/compiler.h"
#include <telechir/error.h>

/* Our own directory below the cgroup this process is in, held by a lock that ends with us. */
typedef struct tci_cgroup_base {
    int parent_fd; /* the cgroup of this process; -1: not open */
    int fd;        /* <parent>/telechir-<pid>; -1: not open */
    char name[32];
} tci_cgroup_base;
#define TCI_CGROUP_BASE_NONE ((tci_cgroup_base){.parent_fd = -1, .fd = -1})

typedef struct tci_cgroup {
    int fd;        /* directory; what tci_spawn_opts.cgroup_fd takes; -1: not open */
    int events_fd; /* cgroup.events */
    uint32_t id;   /* its name below the base */
    bool is_kept;
} tci_cgroup;
#define TCI_CGROUP_NONE ((tci_cgroup){.fd = -1, .events_fd = -1})

/* Finds the mount, makes the directory, and clears away what dead owners left behind (their
 * processes are killed). UNSUPPORTED when there is no version 2 hierarchy; DENIED when it is not
 * writable. */
int tci_cgroup_base_open(tci_cgroup_base *ret_base, tc_err *err) TC_CHECKED;
/* Removes the directory when it is empty. Fine when not open. */
void tci_cgroup_base_close(tci_cgroup_base *base);

/* is_kept: its processes may outlive the owner of the base; a later owner does not kill them. */
int tci_cgroup_make(const tci_cgroup_base *base, uint32_t id, bool is_kept, tci_cgroup *ret_cg,
                    tc_err *err) TC_CHECKED;
/* Some process, or one in a group below it, is alive. */
bool tci_cgroup_is_populated(const tci_cgroup *cg);
/* SIGKILL to all, those being born included. false: the system refused. */
bool tci_cgroup_kill(const tci_cgroup *cg);
/* Pids into out; returns how many there are (this group and those below), possibly more than max.
 */
size_t tci_cgroup_pids(const tci_cgroup *cg, int *out, size_t max);
/* Close and remove, with groups that processes made below it. false: still populated, left there.
 */
bool tci_cgroup_remove(const tci_cgroup_base *base, tci_cgroup *cg);
/* Close without removing. */
void tci_cgroup_close(tci_cgroup *cg);

#endif
