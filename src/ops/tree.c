/* SPDX-License-Identifier: Apache-2.0
 *
 * Command trees: start, kill, proof. Leaves the primitives to plat and the marks' search to
 * tree_walk.c. Loop thread. Invariant: a process is killed only while something pins its identity:
 * the cgroup it is in, the unreaped first process for its session, or its start time behind a
 * handle. So a tree without a cgroup keeps its dead first process as a zombie until the others are
 * gone. */
#include "ops/tree_int.h"

#include "base/num.h"
#include "plat/clock.h"
#include "plat/fd.h"

enum {
    IDLE_GROUPS_MAX = 16,
    LOOK_AT_USED = 4,  /* groups looked at per start, whether they are empty by now */
    FIRST_WAIT_MS = 1, /* between looks at a dying tree; doubles up to: */
    LONGEST_WAIT_MS = 64,
    GROUP_PIDS_MAX = 256
};

/* A first process that outlived the grace; reaped if it ever ends. */
typedef struct late_child {
    tci_link link;
    tci_child child;
    tci_watch watch;
} late_child;

/* ---- groups ---- */

static void free_group(tci_ptree_host *host, tci_ptree_group *group)
{
    (void)tci_cgroup_remove(&host->base,
                            &group->cg); /* stays while populated: nothing more to do */
    tci_free(group);
}

/* A group that was killed once is not used again: Linux compares the count of kills of the new
 * child's group with that of the parent's (seen in 6.18), and kills the child at birth when they
 * differ. */
static void put_idle_group(tci_ptree_host *host, tci_ptree_group *group)
{
    bool is_kept = group->cg.is_kept;
    if (host->nidle[is_kept] >= IDLE_GROUPS_MAX || group->was_killed) {
        free_group(host, group);
        return;
    }
    tci_list_push_front(&host->idle[is_kept], &group->link);
    host->nidle[is_kept]++;
}

/* Groups that were still populated when their tree ended. */
static void look_at_used_groups(tci_ptree_host *host)
{
    for (int i = 0; i < LOOK_AT_USED; i++) {
        tci_link *k = tci_list_pop_front(&host->used);
        if (k == NULL)
            return;
        tci_ptree_group *group = TCI_CONTAINER(k, tci_ptree_group, link);
        if (tci_cgroup_is_populated(&group->cg))
            tci_list_push_back(&host->used, k);
        else
            put_idle_group(host, group);
    }
}

static void release_group(tci_ptree *tree)
{
    tci_ptree_group *group = tree->group;
    if (group == NULL)
        return;
    tree->group = NULL;
    if (!group->is_empty && tci_cgroup_is_populated(&group->cg))
        tci_list_push_back(&tree->host->used, &group->link);
    else
        put_idle_group(tree->host, group);
}

/* NULL: hold the tree by its mark. */
static tci_ptree_group *take_group(tci_ptree_host *host, bool is_kept)
{
    look_at_used_groups(host);
    tci_link *k = tci_list_pop_front(&host->idle[is_kept]);
    if (k != NULL) {
        host->nidle[is_kept]--;
        return TCI_CONTAINER(k, tci_ptree_group, link);
    }
    tci_ptree_group *group = tci_new(tci_ptree_group);
    tc_err err;
    if (group != NULL &&
        tci_cgroup_make(&host->base, ++host->last_group_id, is_kept, &group->cg, &err) == 0)
        return group;
    tci_free(group);
    return NULL;
}

/* ---- first processes that would not die ---- */

static void free_late(late_child *late)
{
    tci_watch_close(&late->watch);
    tci_fd_close(&late->child.pidfd);
    tci_link_remove(&late->link);
    tci_free(late);
}

static void on_late(tci_watch *watch, unsigned events)
{
    TCI_UNUSED(events);
    late_child *late = TCI_CONTAINER(watch, late_child, watch);
    tci_exit how;
    bool was_lost;
    if (tci_child_reap(&late->child, &how, &was_lost))
        free_late(late);
}

static void leave_child(tci_ptree *tree)
{
    late_child *late = tci_new(late_child);
    tc_err err;
    if (late == NULL) {
        tci_fd_close(&tree->child.pidfd); /* it stays a zombie when it ends */
    } else {
        late->child = tree->child;
        tci_list_push_back(&tree->host->late, &late->link);
        if (tci_watch_open(&late->watch, tree->host->loop, late->child.pidfd, on_late, &err) < 0 ||
            tci_watch_set(&late->watch, TCI_WATCH_READ, &err) < 0)
            free_late(late);
    }
    tree->child = TCI_CHILD_NONE;
}

/* ---- the host ---- */

static bool is_own_child(const tci_ptree_host *host, int pid, tci_ptree_owned **ret_owned)
{
    *ret_owned = NULL;
    TCI_LIST_EACH (&host->trees, k)
        if (TCI_CONTAINER(k, tci_ptree, link)->child.pid == pid)
            return true;
    TCI_LIST_EACH (&host->owned, o) {
        tci_ptree_owned *owned = TCI_CONTAINER(o, tci_ptree_owned, link);
        if (owned->pid == pid) {
            *ret_owned = owned;
            return true;
        }
    }
    TCI_LIST_EACH (&host->late, l)
        if (TCI_CONTAINER(l, late_child, link)->child.pid == pid)
            return true;
    return false;
}

bool tci_ptree_host_is_own(const tci_ptree_host *host, int pid)
{
    tci_ptree_owned *owned;
    return is_own_child(host, pid, &owned);
}

/* A dead child of our own hides the dead behind it: take the others by name. */
static void reap_listed(tci_ptree_host *host)
{
    int *pids;
    size_t n = tci_ptree_list_children(tci_proc_self(), &pids);
    for (size_t i = 0; i < n; i++)
        if (!tci_ptree_host_is_own(host, pids[i]))
            (void)tci_proc_reap(pids[i]); /* alive: not yet */
    tci_mem_free(pids);
}

static void on_sigchld(tci_signal *sig, int signum)
{
    TCI_UNUSED(signum);
    tci_ptree_host *host = TCI_CONTAINER(sig, tci_ptree_host, sigchld);
    for (int pid = tci_proc_next_zombie(); pid != 0; pid = tci_proc_next_zombie()) {
        tci_ptree_owned *owned;
        if (!is_own_child(host, pid, &owned)) {
            (void)tci_proc_reap(pid); /* just seen */
            continue;
        }
        if (owned != NULL && owned->ended != NULL)
            owned->ended(owned);
        reap_listed(host);
        return;
    }
}

static int start_reaping(tci_ptree_host *host, tc_err *err)
{
    if (host->is_reaping)
        return 0;
    int rc = tci_signal_open(&host->sigchld, host->loop, TCI_SIG_CHLD, on_sigchld, err);
    if (rc < 0)
        return rc;
    host->is_reaping = true;
    return 0;
}

/* Whoever is given orphans must reap them, so that comes first. When it cannot be had now (asked again at
 * the next start), trees are found among all processes instead of our children. */
static void take_orphans(tci_ptree_host *host)
{
    tc_err err;
    if (host->opts.is_program && !host->is_subreaper && start_reaping(host, &err) == 0)
        host->is_subreaper = tci_subreaper_set(true, &err) == 0;
}

static void choose(tci_ptree_host *host)
{
    tc_err err;
    host->has_chosen = true;
    host->has_cgroups = !host->opts.no_cgroup && tci_cgroup_base_open(&host->base, &err) == 0;
}

int tci_ptree_host_new(tci_loop *loop, const tci_ptree_opts *opts, tci_ptree_host **ret_host,
                       tc_err *err)
{
    tci_ptree_host *host = tci_new(tci_ptree_host);
    if (host == NULL)
        return tci_err_no_memory(err);
    host->loop = loop;
    host->opts = *opts;
    host->base = TCI_CGROUP_BASE_NONE;
    tci_list_init(&host->trees);
    tci_list_init(&host->owned);
    tci_list_init(&host->idle[0]);
    tci_list_init(&host->idle[1]);
    tci_list_init(&host->used);
    tci_list_init(&host->late);
    tci_random_bytes(&host->last_mark, sizeof host->last_mark);
    host->last_mark = (host->last_mark >> 2) | 1; /* far below "unlimited" */
    if (opts->is_program && tci_proc_self() == 1) {
        int rc = start_reaping(host, err);
        if (rc < 0) {
            tci_free(host);
            return rc;
        }
    }
    *ret_host = host;
    return 0;
}

void tci_ptree_host_free(tci_ptree_host *host)
{
    if (host == NULL)
        return;
    tci_loop_assert(host->loop);
    TC_ASSERT(tci_list_is_empty(&host->trees));
    if (host->is_reaping) {
        reap_listed(host); /* signals not seen yet */
        tci_signal_close(&host->sigchld);
    }
    for (tci_link *k = tci_list_first(&host->late); k != NULL; k = tci_list_first(&host->late))
        free_late(TCI_CONTAINER(k, late_child, link));
    tc_err err;
    int rc = host->is_subreaper ? tci_subreaper_set(false, &err) : 0;
    TC_ASSERT(rc == 0); /* a subreaper can stop being one */
    TCI_UNUSED(rc);
    for (int i = 0; i < 2; i++)
        for (tci_link *k; (k = tci_list_pop_front(&host->idle[i])) != NULL;)
            free_group(host, TCI_CONTAINER(k, tci_ptree_group, link));
    for (tci_link *k = tci_list_pop_front(&host->used); k != NULL;
         k = tci_list_pop_front(&host->used))
        free_group(host, TCI_CONTAINER(k, tci_ptree_group, link));
    tci_cgroup_base_close(&host->base);
    tci_free(host);
}

bool tci_ptree_host_has_cgroups(const tci_ptree_host *host)
{
    tci_ptree_host *h = (tci_ptree_host *)(uintptr_t)host; /* decided when first asked */
    if (!h->has_chosen)
        choose(h);
    return h->has_cgroups;
}

void tci_ptree_own(tci_ptree_host *host, tci_ptree_owned *owned)
{
    tci_list_push_back(&host->owned, &owned->link);
}

void tci_ptree_disown(tci_ptree_owned *owned)
{
    tci_link_remove(&owned->link);
}

/* ---- what is alive ---- */

static void note(tci_ptree_list **list, int pid)
{
    tci_proc_stat st;
    if (!tci_proc_stat_read(pid, &st) || st.state == 'Z' || st.state == 'X')
        return;
    tci_ptree_note(list, &st);
}

void tci_ptree_note(tci_ptree_list **list, const tci_proc_stat *st)
{
    if (*list == NULL)
        *list = tci_new(tci_ptree_list);
    if (*list == NULL)
        return; /* no memory to name them with; they are killed all the same */
    tci_ptree_list *l = *list;
    l->total++;
    for (size_t i = 0; i < l->n; i++)
        if (l->procs[i].pid == st->pid)
            return;
    if (l->n >= TCI_TREE_NAMED_MAX)
        return;
    l->procs[l->n].pid = st->pid;
    memcpy(l->procs[l->n].name, st->name, sizeof st->name);
    l->n++;
}

/* Processes of the group but the dead first one; their names into *list when it is given. A task on
 * its last way out may keep a group populated for a moment after its process is gone. */
static bool group_is_alive(const tci_ptree *tree, tci_ptree_list **list)
{
    tree->group->is_empty = tree->has_exited && !tci_cgroup_is_populated(&tree->group->cg);
    if (tree->group->is_empty)
        return false;
    int pids[GROUP_PIDS_MAX];
    size_t n = tci_cgroup_pids(&tree->group->cg, pids, TCI_ARRAY_LEN(pids));
    bool is_alive = false;
    for (size_t i = 0; i < tci_min_size(n, TCI_ARRAY_LEN(pids)); i++) {
        if (tree->has_exited && pids[i] == tree->sid)
            continue;
        is_alive = true;
        if (list != NULL)
            note(list, pids[i]);
    }
    return is_alive;
}

/* SIGKILL to all but a dead first process; true while some are alive. */
static bool kill_all(tci_ptree *tree, tci_ptree_list **list)
{
    if (tree->group != NULL) {
        if (!group_is_alive(tree, list))
            return false;
        tree->group->was_killed = true;
        (void)tci_cgroup_kill(&tree->group->cg); /* asked again at the next look */
        return true;
    }
    bool is_alive = tci_ptree_walk(tree, list, true) > 0;
    if (!is_alive || tree->is_reaped)
        return is_alive;
    (void)tci_group_signal(tree->sid, TCI_SIG_KILL); /* those born since the walk */
    return true;
}

/* ---- the life of a tree ---- */

void tci_ptree_init(tci_ptree *tree, tci_ptree_host *host, void (*on_exit)(tci_ptree *tree),
                    void (*on_end)(tci_ptree *tree))
{
    *tree =
        (tci_ptree){.host = host, .child = TCI_CHILD_NONE, .on_exit = on_exit, .on_end = on_end};
}

void tci_ptree_done(tci_ptree *tree)
{
    TC_ASSERT(tree->state != TCI_TREE_ALIVE && tree->state != TCI_TREE_ENDING);
    tci_free(tree->left);
    tci_free(tree->survivors);
    tree->left = tree->survivors = NULL;
}

static void reap(tci_ptree *tree)
{
    if (tree->is_reaped || tree->child.pid == 0)
        return;
    tci_exit how;
    bool was_lost;
    tci_watch_close(&tree->watch);
    if (!tci_child_reap(&tree->child, &how, &was_lost)) {
        leave_child(tree); /* it would not die: reap it if it ever does */
        return;
    }
    tree->is_reaped = true;
    tree->child = TCI_CHILD_NONE;
}

static void end(tci_ptree *tree, tci_ptree_state state)
{
    tci_timer_stop(&tree->timer);
    reap(tree);
    release_group(tree);
    tci_link_remove(&tree->link);
    tree->state = state;
    tree->on_end(tree);
}

static void look_again(tci_ptree *tree)
{
    int64_t wait_ms = FIRST_WAIT_MS;
    for (unsigned i = 0; i < tree->tries && wait_ms < LONGEST_WAIT_MS; i++)
        wait_ms *= 2;
    tree->tries++;
    tc_err err;
    if (tci_timer_start(&tree->timer, wait_ms, &err) == 0 || !tree->has_exited)
        return; /* without memory for the timer the first process's end is what comes next */
    end(tree, TCI_TREE_SURVIVED); /* no memory to wait with: nothing is proved */
}

static void settle(tci_ptree *tree, bool is_alive)
{
    if (!is_alive && tree->has_exited) {
        end(tree, TCI_TREE_GONE);
        return;
    }
    if (tci_loop_now_ns(tree->host->loop) < tree->grace_ends_ns) {
        look_again(tree);
        return;
    }
    if (tree->group != NULL)
        (void)group_is_alive(tree, &tree->survivors); /* for the names */
    else
        (void)tci_ptree_walk(tree, &tree->survivors, false);
    if (!tree->has_exited)
        note(&tree->survivors, tree->sid);
    end(tree, TCI_TREE_SURVIVED);
}

static void begin_ending(tci_ptree *tree)
{
    if (tree->state == TCI_TREE_ENDING)
        return;
    tree->state = TCI_TREE_ENDING;
    tree->grace_ends_ns = tci_loop_now_ns(tree->host->loop) + (int64_t)TCI_TREE_GRACE_MS * 1000000;
}

/* The first process has ended if it is seen to have. */
static bool look_at_first(tci_ptree *tree)
{
    if (tree->has_exited || !tci_child_peek(&tree->child, &tree->exit, &tree->was_lost))
        return false;
    tci_watch_close(&tree->watch);
    tci_timer_stop(&tree->timer);
    tree->has_exited = true;
    if (tree->was_lost) {
        tree->is_reaped = true; /* nothing pins the session's number any more */
        tci_fd_close(&tree->child.pidfd);
        tree->child = TCI_CHILD_NONE;
    }
    bool was_asked = tree->state == TCI_TREE_ENDING, is_alive = false;
    bool is_let_go = tree->leave_others && !was_asked;
    if (!is_let_go) {
        is_alive = kill_all(tree, was_asked ? NULL : &tree->left);
        begin_ending(tree);
    }
    if (tree->group != NULL)
        reap(tree);
    tree->on_exit(tree);
    if (!is_let_go) {
        tree->tries = 0;
        settle(tree, is_alive);
    }
    return true;
}

static void on_pidfd(tci_watch *watch, unsigned events)
{
    TCI_UNUSED(events);
    (void)look_at_first(TCI_CONTAINER(watch, tci_ptree, watch)); /* a false alarm is no harm */
}

static void on_timer(tci_timer *timer)
{
    tci_ptree *tree = TCI_CONTAINER(timer, tci_ptree, timer);
    if (!look_at_first(tree))
        settle(tree, kill_all(tree, NULL));
}

static int spawn(tci_ptree *tree, tci_spawn_opts *opts, tc_err *err)
{
    tci_ptree_host *host = tree->host;
    if (tci_ptree_host_has_cgroups(host))
        tree->group = take_group(host, tree->leave_others);
    if (tree->group != NULL) {
        tree->group->is_empty = false;
        opts->cgroup_fd = tree->group->cg.fd;
        int rc = tci_spawn(opts, &tree->child, err);
        if (rc == 0)
            host->has_used_cgroups = true;
        if (rc < 0)
            release_group(tree);
        if (rc != TC_E_UNSUPPORTED)
            return rc;
        if (!host->has_used_cgroups)
            host->has_cgroups = false; /* the directory can be made, but nothing born into it */
        opts->cgroup_fd = -1;
    }
    if (!host->has_cgroups)
        take_orphans(host);
    tree->mark = opts->mark = ++host->last_mark;
    return tci_spawn(opts, &tree->child, err);
}

int tci_ptree_start(tci_ptree *tree, const tci_spawn_opts *opts, bool leave_others, tc_err *err)
{
    tci_ptree_host *host = tree->host;
    tci_loop_assert(host->loop);
    TC_ASSERT(tree->state == TCI_TREE_IDLE);
    tci_spawn_opts full = *opts;
    full.flags |= TCI_SPAWN_SESSION | TCI_SPAWN_DIE_WITH_PARENT;
    tree->leave_others = leave_others;
    int rc = spawn(tree, &full, err);
    if (rc < 0)
        return rc;
    tci_timer_init(&tree->timer, host->loop, on_timer);
    tree->sid = tree->child.pid;
    rc = tci_watch_open(&tree->watch, host->loop, tree->child.pidfd, on_pidfd, err);
    if (rc == 0)
        rc = tci_watch_set(&tree->watch, TCI_WATCH_READ, err);
    if (rc < 0) {
        tci_watch_close(&tree->watch);
        (void)kill_all(tree, NULL); /* it has only just begun: nothing to wait for */
        (void)tci_child_signal(&tree->child, TCI_SIG_KILL);
        bool was_lost;
        tci_child_reap_wait(&tree->child, &tree->exit, &was_lost);
        tree->child = TCI_CHILD_NONE;
        release_group(tree);
        return rc;
    }
    tree->state = TCI_TREE_ALIVE;
    tci_list_push_back(&host->trees, &tree->link);
    return 0;
}

bool tci_ptree_signal(tci_ptree *tree, int signum)
{
    bool is_there = tree->state == TCI_TREE_ALIVE || tree->state == TCI_TREE_ENDING;
    return is_there && !tree->has_exited && tci_group_signal(tree->sid, signum);
}

void tci_ptree_kill(tci_ptree *tree)
{
    if (tree->state != TCI_TREE_ALIVE)
        return;
    begin_ending(tree);
    if (!tree->is_reaped)
        (void)tci_group_signal(tree->sid, TCI_SIG_KILL); /* the quick way for most */
    (void)kill_all(tree, NULL);                          /* looked at again below */
    tree->tries = 0;
    look_again(tree);
}

void tci_ptree_let_go(tci_ptree *tree)
{
    TC_ASSERT(tree->state != TCI_TREE_ALIVE || (tree->leave_others && tree->has_exited));
    if (tree->state == TCI_TREE_ALIVE)
        end(tree, TCI_TREE_GONE);
}

size_t tci_ptree_left(const tci_ptree *tree, const tci_ptree_proc **ret_procs, size_t *ret_nprocs)
{
    *ret_procs = tree->left != NULL ? tree->left->procs : NULL;
    *ret_nprocs = tree->left != NULL ? tree->left->n : 0;
    return tree->left != NULL ? tree->left->total : 0;
}

size_t tci_ptree_survivors(const tci_ptree *tree, const tci_ptree_proc **ret_procs,
                           size_t *ret_nprocs)
{
    *ret_procs = tree->survivors != NULL ? tree->survivors->procs : NULL;
    *ret_nprocs = tree->survivors != NULL ? tree->survivors->n : 0;
    return tree->survivors != NULL ? tree->survivors->total : 0;
}
