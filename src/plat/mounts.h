/* SPDX-License-Identifier: Apache-2.0
 *
 * Which folders of this machine are file systems whose calls may wait for another machine or process. */
#ifndef TCI_PLAT_MOUNTS_H
#define TCI_PLAT_MOUNTS_H

#include "base/mem.h"
#include "base/str.h"

typedef struct tci_mounts {
    char *text;  /* owns what points points to */
    tc_str *points; /* absolute mount points of such file systems */
    size_t npoints;
    int64_t loaded_ns;
} tci_mounts;

/* Read the list again when it is older than five seconds. A list that cannot be read counts every path
 * as slow. now_ns: monotonic. Quick: the list is a file of the kernel's. */
void tci_mounts_refresh(tci_mounts *m, int64_t now_ns);
void tci_mounts_done(tci_mounts *m);
/* Does path, as written, lie on one of them? Links on the way are not looked through. */
bool tci_mounts_is_slow(const tci_mounts *m, tc_str path);

#endif
