/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes: starting one without copying the parent, waiting for it by handle, signalling, and
 * looking at others. No SIGCHLD handler anywhere: a child is a pidfd that a loop can watch. Any
 * thread unless said otherwise. */
#ifndef TCI_PLAT_PROC_H
#define TCI_PLAT_PROC_H

#include "base/arena.h"

typedef enum tci_spawn_flags {
    /* New session (setsid): own process group, no controlling terminal. */
    TCI_SPAWN_SESSION = 1 << 0,
    /* Own process group in the parent's session. Ignored with SESSION. */
    TCI_SPAWN_GROUP = 1 << 1,
    /* Standard input is a terminal and becomes the controlling one. Only with SESSION. */
    TCI_SPAWN_TERMINAL = 1 << 2,
    /* SIGKILL when the spawning thread ends, so that a killed daemon leaves no command behind. */
    TCI_SPAWN_DIE_WITH_PARENT = 1 << 3
} tci_spawn_flags;

/* Start from TCI_SPAWN_OPTS_NONE: 0 is a descriptor. Everything is borrowed for the call. */
typedef struct tci_spawn_opts {
    const char *program;     /* absolute path */
    const char *const *argv; /* NULL-terminated, at least argv[0] */
    const char *const *envp; /* NULL-terminated */
    const char *cwd;         /* NULL: cwd_fd, else the parent's */
    int cwd_fd;              /* -1: none */
    int stdio[3];            /* become 0, 1, 2; -1: /dev/null */
    const int *more_fds;     /* become 3, 4, ... in this order; nothing else is passed on */
    size_t nmore_fds;        /* at most TCI_SPAWN_FDS_MAX */
    int cgroup_fd;           /* cgroup v2 directory to be born in; -1: the parent's */
    unsigned flags;          /* tci_spawn_flags */
    uint64_t mark;           /* inherited by all descendants, see tci_proc_mark; 0: none */
} tci_spawn_opts;

enum { TCI_SPAWN_FDS_MAX = 16 };
#define TCI_SPAWN_OPTS_NONE ((tci_spawn_opts){.cwd_fd = -1, .stdio = {-1, -1, -1}, .cgroup_fd = -1})

typedef struct tci_child {
    int pid;
    int pidfd; /* readable once the child has ended; the owner's to close; -1: none */
} tci_child;
#define TCI_CHILD_NONE ((tci_child){.pid = 0, .pidfd = -1})

/* Start a program and return once it has been executed. Costs the same in a parent of any size;
 * works in a process with several threads; signals are held back meanwhile. The child gets default
 * signal dispositions and an empty mask. A file without "#!" that the system cannot execute is
 * given to /bin/sh.
 *
 * Errors, all with the errno in err->os, nothing left behind: NOT_FOUND (no program or cwd), DENIED
 * (not executable, or no access), START_FAILED (other reason to refuse to execute), BUSY (no
 * process or descriptor to be had), UNSUPPORTED (cgroup_fd is given and this system cannot be born
 * into it: the same call without it may work), NO_MEMORY, INVALID. */
int tci_spawn(const tci_spawn_opts *opts, tci_child *ret_child, tc_err *err) TC_CHECKED;

typedef struct tci_exit {
    bool is_signal;
    int code;   /* exit status when not is_signal */
    int signum; /* signal number when is_signal */
} tci_exit;

/* Without waiting: true when the child has ended. _peek leaves it a zombie (its pid and group id
 * stay taken), _reap takes it and closes pidfd. A child that somebody else has reaped counts as
 * ended by SIGKILL with *ret_was_lost set. */
bool tci_child_peek(const tci_child *child, tci_exit *ret_exit, bool *ret_was_lost);
bool tci_child_reap(tci_child *child, tci_exit *ret_exit, bool *ret_was_lost);
/* As _reap, but waits. For failure paths and tests. */
void tci_child_reap_wait(tci_child *child, tci_exit *ret_exit, bool *ret_was_lost);
/* To the one process, by handle: never hits another with the same number. false: already ended. */
bool tci_child_signal(const tci_child *child, int signum);
/* To a process group whose leader is not reaped yet. false: no such group. */
bool tci_group_signal(int pgid, int signum);

/* A process other than a child: signal it only when it still carries the start time seen before. */
bool tci_proc_signal(int pid, uint64_t start_ticks, int signum);

/* Signal numbers, for code that may not include system headers. */
typedef enum tci_signum {
    TCI_SIG_HUP = 1,
    TCI_SIG_INT = 2,
    TCI_SIG_QUIT = 3,
    TCI_SIG_KILL = 9,
    TCI_SIG_PIPE = 13,
    TCI_SIG_TERM = 15,
#ifdef __APPLE__
    TCI_SIG_CHLD = 20
#else
    TCI_SIG_CHLD = 17
#endif
} tci_signum;

int tci_proc_self(void); /* own pid */

/* What /proc/<pid>/stat says. */
typedef struct tci_proc_stat {
    int pid, ppid, pgid, sid;
    char state;           /* 'R', 'S', 'D', 'Z', ... */
    uint64_t start_ticks; /* with pid, names a process for good */
    char name[16];        /* at most 15 bytes, NUL; any bytes a program chose */
} tci_proc_stat;
/* false: no such process (any more). */
bool tci_proc_stat_read(int pid, tci_proc_stat *ret_stat);
/* The mark a process was born with (tci_spawn_opts.mark), 0 when none or not readable. Kept in the
 * soft limit of a resource that Linux no longer counts (RLIMIT_LOCKS, see getrlimit(2)): it
 * survives fork, exec, setsid and the death of every ancestor. */
uint64_t tci_proc_mark(int pid);

/* Pids into out; returns how many there are, which may be more than max. _children: direct children
 * of all threads of pid, -1 when this system does not list them. _all: every process. */
long tci_proc_children(int pid, int *out, size_t max);
long tci_proc_all(int *out, size_t max);

/* Orphaned descendants become our children instead of init's. For programs only. UNSUPPORTED. */
int tci_subreaper_set(bool on, tc_err *err) TC_CHECKED;
/* A child that has ended and is not reaped, without taking it: its pid, or 0. Sees children of all
 * threads. For programs that reap what they did not start. */
int tci_proc_next_zombie(void);
/* Reap one child by number, unseen. true when it was there and dead. */
bool tci_proc_reap(int pid);

/* The environment of this process, copied: "NAME=value" strings, NULL-terminated. */
int tci_environ_snapshot(tci_arena *a, const char *const **ret_envp, size_t *ret_nitems,
                         tc_err *err) TC_CHECKED;
/* Value of name in such a list, or NULL. */
const char *tci_environ_get(const char *const *envp, const char *name);

#endif
