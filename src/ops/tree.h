/* SPDX-License-Identifier: Apache-2.0
 *
 * All processes of one command, held together so that a kill can be proved: in a control group
 * where one can be made, otherwise by session, parentage and an inherited mark. Loop thread only.
 */
#ifndef TCI_OPS_TREE_H
#define TCI_OPS_TREE_H

#include "base/list.h"
#include "loop/loop.h"
#include "plat/proc.h"

/* What all trees of a loop share: the base cgroup and a few empty cgroups ready for use, and the
 * reaper. */
typedef struct tci_ptree_host tci_ptree_host;

typedef struct tci_ptree_opts {
    bool is_program; /* the process is ours: may become a subreaper and watch SIGCHLD */
    bool no_cgroup;  /* hold trees by marks even where cgroups would do */
} tci_ptree_opts;

/* Never fails for lack of cgroups. In a program that is PID 1 or holds trees by marks, children
 * that nobody here started are reaped from now on; then every child not started through a tree must
 * be made known with tci_ptree_own before the loop runs again. NO_MEMORY, IO. */
int tci_ptree_host_new(tci_loop *loop, const tci_ptree_opts *opts, tci_ptree_host **ret_host,
                       tc_err *err) TC_CHECKED;
/* No tree may be left. Removes the cgroups. NULL is fine. */
void tci_ptree_host_free(tci_ptree_host *host);
bool tci_ptree_host_has_cgroups(const tci_ptree_host *host);

/* A child of this process that is not a tree's: the reaper leaves it alone and calls ended (may be
 * NULL) when it sees it dead, which is only a hint to look. Storage is the caller's until _disown.
 */
typedef struct tci_ptree_owned {
    tci_link link;
    int pid;
    void (*ended)(struct tci_ptree_owned *owned);
} tci_ptree_owned;
void tci_ptree_own(tci_ptree_host *host, tci_ptree_owned *owned);
void tci_ptree_disown(tci_ptree_owned *owned);

/* A process found alive when it should not have been. */
typedef struct tci_ptree_proc {
    int pid;
    char name[16]; /* NUL-terminated, any bytes */
} tci_ptree_proc;
enum { TCI_TREE_NAMED_MAX = 16 };

typedef enum tci_ptree_state {
    TCI_TREE_IDLE,    /* nothing started */
    TCI_TREE_ALIVE,   /* first process runs */
    TCI_TREE_ENDING,  /* first process ended or kill asked for; others being killed */
    TCI_TREE_GONE,    /* proved: no process left */
    TCI_TREE_SURVIVED /* grace is over and some are left, see tci_ptree_survivors */
} tci_ptree_state;

struct tci_ptree_group;
struct tci_ptree_list;

/* Zeroed storage, set up by init. Fields are private but state, exit and was_lost. */
typedef struct tci_ptree {
    tci_ptree_host *host;
    tci_link link; /* in the host's list while something runs */
    tci_ptree_state state;
    tci_exit exit; /* how the first process ended; valid after on_exit */
    bool was_lost; /* its status was stolen by somebody else */
    bool leave_others;
    bool has_exited, is_reaped;
    tci_child child;
    int sid; /* session and group of the first process */
    uint64_t mark;
    tci_watch watch;
    tci_timer timer;
    int64_t grace_ends_ns;
    unsigned tries;
    struct tci_ptree_group *group; /* NULL: held by the mark */
    struct tci_ptree_list *left, *survivors;
    void (*on_exit)(struct tci_ptree *tree);
    void (*on_end)(struct tci_ptree *tree);
} tci_ptree;

/* on_exit: the first process has ended; its status is in tree->exit and the rest is being killed.
 * on_end: after on_exit, once, with state GONE or SURVIVED; within TCI_TREE_GRACE_MS of the kill.
 * The tree may be _done in on_end, not in on_exit. When even the first process outlives a kill,
 * on_end comes without on_exit, with SURVIVED. */
void tci_ptree_init(tci_ptree *tree, tci_ptree_host *host, void (*on_exit)(tci_ptree *tree),
                    void (*on_end)(tci_ptree *tree));
/* Only in IDLE, GONE or SURVIVED. */
void tci_ptree_done(tci_ptree *tree);
enum { TCI_TREE_GRACE_MS = 2000 };

/* As tci_spawn; the first process also gets SIGKILL when the loop thread ends, however that happens.
 * cgroup_fd, mark and the session are set here (opts->flags is added to). On failure
 * the tree is IDLE. leave_others: when the first process ends by itself the others are not killed;
 * the tree then waits for tci_ptree_let_go or tci_ptree_kill, either of which leads to on_end. */
int tci_ptree_start(tci_ptree *tree, const tci_spawn_opts *opts, bool leave_others,
                    tc_err *err) TC_CHECKED;
/* To the group of the first process. false: it has ended. */
bool tci_ptree_signal(tci_ptree *tree, int signum);
/* SIGKILL to every process of the tree, and watch until all are gone. Idempotent. */
void tci_ptree_kill(tci_ptree *tree);

/* With leave_others, after on_exit: the others live on and are no business of ours. on_end comes
 * from inside, with GONE. No effect once a kill was asked for. */
void tci_ptree_let_go(tci_ptree *tree);

/* Processes found when the first one ended, all killed: at most TCI_TREE_NAMED_MAX in *ret_procs,
 * the return value counts all. Nothing when the kill was asked for. */
size_t tci_ptree_left(const tci_ptree *tree, const tci_ptree_proc **ret_procs, size_t *ret_nprocs);
/* Processes alive after the grace. */
size_t tci_ptree_survivors(const tci_ptree *tree, const tci_ptree_proc **ret_procs,
                           size_t *ret_nprocs);

#endif
