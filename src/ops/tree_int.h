/* SPDX-License-Identifier: Apache-2.0
 *
 * What tree.c and tree_walk.c share. */
#ifndef TCI_TREE_INT_H
#define TCI_TREE_INT_H

#include "ops/tree.h"
#include "plat/cgroup.h"

typedef struct tci_ptree_group {
    tci_link link; /* in idle or used */
    tci_cgroup cg;
    bool was_killed; /* not to be used again */
    bool is_empty;   /* seen so after its last process */
} tci_ptree_group;

typedef struct tci_ptree_list {
    size_t total, n;
    tci_ptree_proc procs[TCI_TREE_NAMED_MAX];
} tci_ptree_list;

struct tci_ptree_host {
    tci_loop *loop;
    tci_ptree_opts opts;
    bool has_chosen, has_cgroups, has_used_cgroups;
    tci_cgroup_base base;
    uint32_t last_group_id;
    tci_list idle[2]; /* empty groups, ready for use; [1]: those that may outlive us */
    size_t nidle[2];
    tci_list used; /* groups whose tree has ended but that were still populated */
    uint64_t last_mark;
    tci_list trees; /* with a first process not reaped, or others not known to be gone */
    tci_list owned;
    tci_list late; /* first processes that outlived the grace */
    tci_signal sigchld;
    bool is_reaping, is_subreaper;
};

/* A child started here, not to be reaped by the reaper. */
bool tci_ptree_host_is_own(const tci_ptree_host *host, int pid);

/* Add a living process to *list, which is made when needed. */
void tci_ptree_note(tci_ptree_list **list, const tci_proc_stat *st);

/* Direct children of pid into *ret_pids, which is the caller's to free. */
size_t tci_ptree_list_children(int pid, int **ret_pids);

/* Find the living processes of a tree without a cgroup: count, name (list may be NULL), kill. A
 * dead first process does not count. */
size_t tci_ptree_walk(const tci_ptree *tree, tci_ptree_list **list, bool do_kill);

#endif
