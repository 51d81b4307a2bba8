/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of the machine. Any thread. */
#ifndef TCI_PLAT_SYSTEM_H
#define TCI_PLAT_SYSTEM_H

#include "base/str.h"

typedef struct tci_system_names {
    char os[16];      /* "linux" */
    char kernel[128]; /* release */
    char machine[64]; /* "x86_64" */
} tci_system_names;
void tci_system_names_of(tci_system_names *ret);
/* What this machine calls itself, as a C string; "?" when it does not say. */
enum { TCI_SYSTEM_HOST_MAX = 256 };
void tci_system_host_name(char out[TCI_SYSTEM_HOST_MAX]);

/* Address and name of the kernel's view are not our business; this is: how many processors this process
 * may use, at least 1. */
unsigned tci_system_processors(void);

/* Has this processor instructions for AES and for the multiplication that GCM needs? */
bool tci_system_has_aes(void);

/* For programs at start: no core files, and nobody else of this user may read this process's memory
 * through them. A write to a closed pipe is an error, not the end. */
void tci_system_harden_process(void);
/* For programs whose children may leave core files: only this process leaves none, and is not read by others, from
 * here on. */
void tci_system_hide_memory(void);
void tci_system_ignore_sigpipe(void);
/* For a server: let this process have as many descriptors open as the system allows it. Returns how many. */
uint64_t tci_system_more_files(void);
/* First of all: descriptors 0, 1 and 2 that whoever started us left closed become /dev/null, so that
 * nothing else is opened under their numbers and written to as if it were output. */
void tci_system_fill_stdio(void);

#endif
