/* SPDX-License-Identifier: Apache-2.0
 *
 * What kind of file system a path lies on, from the system's table of mounts. */
#ifndef TCI_PLAT_MOUNTS_H
#define TCI_PLAT_MOUNTS_H

#include "base/mem.h"
#include "base/str.h"

typedef enum tci_mount_kind {
    TCI_MOUNT_SLOW,  /* calls may wait for another machine or process (NFS, FUSE, ...) */
    TCI_MOUNT_DISK,  /* of this machine */
    TCI_MOUNT_MEMORY /* content and metadata in memory: nothing waits, syncing is free */
} tci_mount_kind;

typedef struct tci_mount {
    tc_str point; /* absolute */
    tci_mount_kind kind;
} tci_mount;

typedef struct tci_mounts {
    char *text; /* owns what points points to */
    tci_mount *items;
    size_t count, nslow;
    int64_t loaded_ns;
} tci_mounts;

/* Read the table again when it is older than five seconds. While it cannot be read every path counts as
 * SLOW. now_ns: monotonic. Quick: the table is a file of the kernel's. */
void tci_mounts_refresh(tci_mounts *m, int64_t now_ns);
void tci_mounts_done(tci_mounts *m);
/* By the path as written: links on the way are not looked through. */
tci_mount_kind tci_mounts_kind_of(const tci_mounts *m, tc_str path);

#endif
