/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the processes of a tree that has no cgroup. When orphans come to us (PID 1, subreaper),
 * everything a command started is below us, so that our own children are all there is to look at;
 * otherwise every process of the system is. What belongs to which tree is told by the mark all
 * descendants inherit, and by the session as long as its leader pins the number. Leaves deciding to
 * tree.c. Loop thread; holds nothing. */
#include "ops/tree_int.h"

#include "base/num.h"

enum { FIRST_PIDS = 64, PIDS_MAX = 1 << 16, SLACK = 32 };

/* A growing list of pids. */
typedef struct pid_queue {
    int *pids;
    size_t n, cap;
    bool is_cut; /* there were more than could be held */
} pid_queue;

static bool make_room(pid_queue *q, size_t n)
{
    if (n <= q->cap)
        return true;
    if (n > PIDS_MAX)
        return false;
    int *grown = tci_mem_resize(q->pids, n * sizeof *grown);
    if (grown == NULL)
        return false;
    q->pids = grown;
    q->cap = n;
    return true;
}

static long no_parent_all(int pid, int *out, size_t max)
{
    TCI_UNUSED(pid);
    return tci_proc_all(out, max);
}

/* Append what list gives for pid. false: it gives nothing on this system. */
static bool append(pid_queue *q, int pid, long (*list)(int pid, int *out, size_t max))
{
    size_t want = q->n + FIRST_PIDS;
    for (;;) {
        bool has_room = make_room(q, want);
        long n = list(pid, q->pids != NULL ? q->pids + q->n : NULL, q->cap - q->n);
        if (n < 0)
            return false;
        size_t nfit = tci_min_size((size_t)n, q->cap - q->n);
        if (nfit == (size_t)n || !has_room) {
            q->is_cut = q->is_cut || nfit < (size_t)n;
            q->n += nfit;
            return true;
        }
        want = q->n + (size_t)n + SLACK;
    }
}

size_t tci_ptree_list_children(int pid, int **ret_pids)
{
    pid_queue q = {0};
    if (!append(&q, pid, tci_proc_children)) {
        q.n = 0;
        (void)append(&q, 0, no_parent_all); /* strangers among them are harmless to ask for */
    }
    *ret_pids = q.pids;
    return q.n;
}

static bool is_dead(char state)
{
    return state == 'Z' || state == 'X';
}

static bool is_of_tree(const tci_ptree *tree, const tci_proc_stat *st)
{
    if (!tree->is_reaped && st->sid == tree->sid)
        return true;
    return tree->mark != 0 && tci_proc_mark(st->pid) == tree->mark;
}

static void found(const tci_proc_stat *st, tci_ptree_list **list, bool do_kill)
{
    if (list != NULL)
        tci_ptree_note(list, st);
    if (do_kill)
        (void)tci_proc_signal(st->pid, st->start_ticks, TCI_SIG_KILL); /* or it just ended */
}

/* Who has not looked at all cannot say that there are none. */
static size_t at_least(size_t nfound, const pid_queue *q)
{
    return nfound == 0 && q->is_cut ? 1 : nfound;
}

/* All children of ours, and all below those that belong to the tree. */
static size_t walk_children(const tci_ptree *tree, pid_queue *q, tci_ptree_list **list,
                            bool do_kill)
{
    size_t nfound = 0, ndirect = q->n;
    for (size_t i = 0; i < q->n; i++) {
        int pid = q->pids[i];
        bool is_root = pid == tree->child.pid;
        if (i < ndirect && !is_root && tci_ptree_host_is_own(tree->host, pid))
            continue;
        tci_proc_stat st;
        if (!tci_proc_stat_read(pid, &st))
            continue;
        if (is_dead(st.state)) { /* its children are ours by now */
            if (i < ndirect && !is_root)
                (void)tci_proc_reap(
                    pid); /* an orphan: nobody else will, and the reaper may be late */
            continue;
        }
        if (i < ndirect && !is_root && !is_of_tree(tree, &st))
            continue;
        (void)append(q, pid, tci_proc_children); /* our own could be listed: so can these */
        found(&st, list, do_kill);
        nfound++;
    }
    return nfound;
}

static size_t walk_all(const tci_ptree *tree, tci_ptree_list **list, bool do_kill)
{
    enum { KERNEL_THREADS = 2 };
    pid_queue q = {0};
    size_t nfound = 0;
    (void)append(&q, 0, no_parent_all); /* without /proc there is nothing to find */
    for (size_t i = 0; i < q.n; i++) {
        tci_proc_stat st;
        if (q.pids[i] <= KERNEL_THREADS || !tci_proc_stat_read(q.pids[i], &st) ||
            st.ppid == KERNEL_THREADS || is_dead(st.state) || !is_of_tree(tree, &st))
            continue;
        found(&st, list, do_kill);
        nfound++;
    }
    tci_mem_free(q.pids);
    return at_least(nfound, &q);
}

size_t tci_ptree_walk(const tci_ptree *tree, tci_ptree_list **list, bool do_kill)
{
    pid_queue q = {0};
    const tci_ptree_host *host = tree->host;
    bool gets_orphans = host->is_reaping && (host->is_subreaper || tci_proc_self() == 1);
    if (!gets_orphans || !append(&q, tci_proc_self(), tci_proc_children)) {
        tci_mem_free(q.pids);
        return walk_all(tree, list, do_kill);
    }
    size_t nfound = walk_children(tree, &q, list, do_kill);
    tci_mem_free(q.pids);
    return at_least(nfound, &q);
}
