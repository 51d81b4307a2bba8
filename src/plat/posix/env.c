/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment of the process. Leaves meaning to callers. Any thread; holds nothing. */
#include "plat/env.h"

#include <stdlib.h>
#include <unistd.h>

const char *tci_env_get(const char *name)
{
    return getenv(name);
}

char *const *tci_env_list(void)
{
    static char *const empty[] = {NULL};
    return environ != NULL ? environ : empty;
}
