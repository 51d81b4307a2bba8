/* SPDX-License-Identifier: Apache-2.0
 *
 * The process's environment variables. Read only: a library never changes them, so any thread may
 * read as long as the embedding program does not write. */
#ifndef TCI_PLAT_ENV_H
#define TCI_PLAT_ENV_H

#include "base/compiler.h"

/* The value, or NULL when unset. Borrowed until the program changes its environment. */
const char *tci_env_get(const char *name);
/* All of it, "NAME=value" each, ended by NULL; never NULL itself. Borrowed likewise. */
char *const *tci_env_list(void);

#endif
