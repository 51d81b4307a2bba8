/* SPDX-License-Identifier: Apache-2.0
 *
 * What processes have in common on POSIX systems: groups, the own pid, the environment. Any thread.
 */
#include "plat/proc.h"

#include "base/str.h"
#include "plat/env.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

_Static_assert(SIGHUP == (int)TCI_SIG_HUP && SIGINT == (int)TCI_SIG_INT &&
                   SIGQUIT == (int)TCI_SIG_QUIT && SIGKILL == (int)TCI_SIG_KILL &&
                   SIGPIPE == (int)TCI_SIG_PIPE && SIGTERM == (int)TCI_SIG_TERM &&
                   SIGCHLD == (int)TCI_SIG_CHLD,
               "signal numbers of this system differ");

int tci_proc_self(void)
{
    return (int)getpid();
}

bool tci_group_signal(int pgid, int signum)
{
    TC_ASSERT(pgid > 1);
    return kill(-pgid, signum) == 0;
}

int tci_environ_snapshot(tci_arena *a, const char *const **ret_envp, size_t *ret_nitems,
                         tc_err *err)
{
    char *const *list = tci_env_list();
    size_t n = 0;
    while (list[n] != NULL)
        n++;
    const char **copy = tci_arena_items(a, const char *, n + 1);
    if (copy == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < n; i++) {
        char *text;
        int rc = tci_arena_cstr(a, tci_str(list[i]), &text, err);
        if (rc < 0)
            return rc;
        copy[i] = text;
    }
    *ret_envp = copy;
    *ret_nitems = n;
    return 0;
}

const char *tci_environ_get(const char *const *envp, const char *name)
{
    size_t len = strlen(name);
    for (; *envp != NULL; envp++)
        if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
            return *envp + len + 1;
    return NULL;
}
