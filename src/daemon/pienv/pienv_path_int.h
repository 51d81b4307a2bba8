/* SPDX-License-Identifier: Apache-2.0
 *
 * How operations on files choose where they run and say what failed: shared by pienv_file.c,
 * pienv_write.c and pienv_handle.c. */
#ifndef TCI_DAEMON_PIENV_PATH_INT_H
#define TCI_DAEMON_PIENV_PATH_INT_H

#include "daemon/pienv/pienv_core_int.h"

/* What is right as long as every file system is this machine's; otherwise all goes to threads of its
 * own. */
typedef enum tci_pi_place {
    TCI_PI_AT_ONCE,   /* on the loop */
    TCI_PI_ON_POOL,   /* takes some time, but a foreseeable one */
    TCI_PI_OWN_THREAD /* may take any time */
} tci_pi_place;

/* Run work there, then after (NULL: tci_pi_finish). r may be gone afterwards. Loop. */
void tci_pi_run(tci_pi_req *r, tci_pi_place place, void (*work)(tci_pi_req *r),
                tci_pi_handler after);
/* The usual place, or OWN_THREAD when path is a FIFO, a device or a socket. Loop. */
tci_pi_place tci_pi_place_of(tci_pi_req *r, tc_str path, tci_pi_place usual);

static inline bool tci_pi_has_failed(const tci_pi_req *r)
{
    return r->failure.code != NULL || r->failure.os != 0;
}
/* Set r->failure; returns -1. syscall and path are kept. Any thread that has the request. */
int tci_pi_failed(tci_pi_req *r, const tc_err *err, const char *syscall, tc_str path);
int tci_pi_failed_os(tci_pi_req *r, int os, const char *syscall, tc_str path);

/* Make a folder and those above it; what is there is fine. 0, or -1 with r->failure set. */
int tci_pi_make_folders(tci_pi_req *r, tc_str path);

#endif
