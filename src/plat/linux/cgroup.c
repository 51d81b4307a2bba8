/* SPDX-License-Identifier: Apache-2.0
 *
 * Version 2 control groups through their file system. Leaves starting processes in one to spawn.c
 * and the waiting to its callers. Any thread, one object by one thread at a time. Invariant: a
 * directory telechir-<pid> belongs to whoever holds its flock(2); one that can be locked has no
 * owner any more, whatever pid namespace its name came from. */
#include "plat/cgroup.h"

#include "base/num.h"
#include "plat/fd.h"
#include "plat/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BASE_PREFIX "telechir-"

enum {
    TEXT_MAX = 4096,
    NAME_TRIES = 16,
    DEPTH_MAX = 16,
    SWEEP_TRIES = 100 /* milliseconds that dead owners' processes get to vanish */
};

/* ---- where the hierarchy is ---- */

/* The line of a whole small file for which pick returns true. */
static bool find_line(const char *path, bool (*pick)(tc_str line, char out[TEXT_MAX]),
                      char out[TEXT_MAX])
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    char line[TEXT_MAX];
    bool found = false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        tc_str s = tci_str(line);
        if (s.len > 0 && s.ptr[s.len - 1] == '\n')
            s.len--;
        found = pick(s, out);
    }
    (void)fclose(f); /* nothing was written */
    return found;
}

static bool pick_own_path(tc_str line, char out[TEXT_MAX])
{
    tc_err err;
    return tci_str_starts(line, TC_STR("0::/")) &&
           tci_cstr(tci_str_sub(line, 3, line.len), out, TEXT_MAX, &err) == 0;
}

/* "<root>\n<mount point>" of the cgroup2 line of mountinfo, see proc_pid_mountinfo(5). Names with
 * blanks are written in octal there; such a mount is not used. */
static bool pick_mount(tc_str line, char out[TEXT_MAX])
{
    enum { AT_ROOT = 3, AT_POINT = 4 };
    size_t dash = tci_str_find(line, TC_STR(" - cgroup2 "));
    if (dash >= line.len)
        return false;
    tc_str rest = tci_str_sub(line, 0, dash), part, root = {0}, point = {0};
    for (int i = 0; tci_str_split(&rest, ' ', &part); i++) {
        if (i == AT_ROOT)
            root = part;
        else if (i == AT_POINT)
            point = part;
    }
    if (point.len == 0 || root.len == 0 || tci_str_find_byte(point, '\\') < point.len ||
        tci_str_starts(root, TC_STR("/..")) || root.len + point.len + 2 > TEXT_MAX)
        return false;
    (void)snprintf(out, TEXT_MAX, "%.*s\n%.*s", TC_STR_ARG(root), TC_STR_ARG(point)); /* fits */
    return true;
}

static int open_own_directory(int *ret_fd, tc_err *err)
{
    char own[TEXT_MAX], mount[TEXT_MAX], path[2 * TEXT_MAX];
    if (!find_line("/proc/self/cgroup", pick_own_path, own) ||
        !find_line("/proc/self/mountinfo", pick_mount, mount))
        return tc_err_set(err, TC_E_UNSUPPORTED, "no version 2 control groups here");
    tc_str point = tci_str(mount), root, below = tci_str(own);
    (void)tci_str_split(&point, '\n', &root); /* pick_mount wrote one */
    if (root.len > 1) {
        if (!tci_str_starts(below, root))
            return tc_err_set(err, TC_E_UNSUPPORTED, "own control group is not mounted here");
        below = tci_str_sub(below, root.len, below.len);
    }
    (void)snprintf(path, sizeof path, "%.*s/%.*s", TC_STR_ARG(point), TC_STR_ARG(below)); /* fits */
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return tc_err_set_os(err, tci_errno_code(errno), errno, "cannot open '%s'", path);
    *ret_fd = fd;
    return 0;
}

/* ---- walking ---- */

/* Calls visit for each directory right below fd. */
static void each_directory(int fd, void (*visit)(int fd, const char *name, void *arg), void *arg)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL) {
        tci_fd_close(&copy);
        return;
    }
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        if (e->d_type == DT_DIR && e->d_name[0] != '.')
            visit(fd, e->d_name, arg);
    closedir(dir);
}

static int open_directory(int fd, const char *name)
{
    return openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void remove_below(int fd, const char *name, void *arg)
{
    const int *depth = arg;
    int sub_depth = *depth + 1;
    if (unlinkat(fd, name, AT_REMOVEDIR) == 0 || sub_depth > DEPTH_MAX)
        return;
    int sub = open_directory(fd, name);
    if (sub < 0)
        return;
    each_directory(sub, remove_below, &sub_depth);
    tci_fd_close(&sub);
    (void)unlinkat(fd, name, AT_REMOVEDIR); /* stays when still populated */
}

static bool remove_directory(int fd, const char *name)
{
    int depth = 0;
    remove_below(fd, name, &depth);
    return faccessat(fd, name, F_OK, 0) < 0 && errno == ENOENT;
}

typedef struct pid_list {
    int *out;
    size_t max, n;
    int depth;
} pid_list;

static void add_pids(int fd, pid_list *list);

static void add_pids_of(int fd, const char *name, void *arg)
{
    pid_list *list = arg;
    int sub = list->depth < DEPTH_MAX ? open_directory(fd, name) : -1;
    if (sub < 0)
        return;
    list->depth++;
    add_pids(sub, list);
    list->depth--;
    tci_fd_close(&sub);
}

static void add_pids(int fd, pid_list *list)
{
    int procs = openat(fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    FILE *f = procs >= 0 ? fdopen(procs, "r") : NULL;
    if (f == NULL) {
        tci_fd_close(&procs);
        return;
    }
    char line[TCI_NUM_TEXT_MAX];
    while (fgets(line, sizeof line, f) != NULL) {
        uint64_t pid = 0;
        tc_err err;
        if (tci_num_u64(tci_str_of(line, strcspn(line, "\n")), &pid, &err) < 0 || pid == 0)
            continue; /* 0: a process of another pid namespace */
        if (list->n < list->max)
            list->out[list->n] = (int)pid;
        list->n++;
    }
    (void)fclose(f); /* nothing was written */
    each_directory(fd, add_pids_of, list);
}

/* ---- killing ---- */

static bool kill_directory(int fd)
{
    int kill_fd = openat(fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    if (kill_fd >= 0) {
        bool was_written = write(kill_fd, "1", 1) == 1;
        tci_fd_close(&kill_fd);
        return was_written;
    }
    /* Before Linux 5.14: one by one; callers repeat until the group is empty. */
    int pids[256];
    pid_list list = {.out = pids, .max = TCI_ARRAY_LEN(pids)};
    add_pids(fd, &list);
    for (size_t i = 0; i < tci_min_size(list.n, list.max); i++)
        (void)kill(pids[i], SIGKILL); /* may have ended meanwhile */
    return true;
}

/* ---- the base ---- */

static void kill_owned(int fd, const char *name, void *arg)
{
    bool *has_killed = arg;
    int sub = name[0] == 'c' ? open_directory(fd, name) : -1;
    if (sub < 0)
        return;
    *has_killed = kill_directory(sub) || *has_killed;
    tci_fd_close(&sub);
}

static void sweep_one(int fd, const char *name, void *arg)
{
    const char *own = arg;
    if (!tci_str_starts(tci_str(name), TC_STR(BASE_PREFIX)) || strcmp(name, own) == 0)
        return;
    int stale = open_directory(fd, name);
    if (stale >= 0 && flock(stale, LOCK_EX | LOCK_NB) == 0) {
        bool has_killed = false;
        each_directory(stale, kill_owned, &has_killed);
        for (int i = 0; !remove_directory(fd, name) && i < SWEEP_TRIES; i++) {
            if (!has_killed)
                break; /* what is left may live on */
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    tci_fd_close(&stale);
}

/* Make and lock <parent>/<name>. The directory may be swept between the two: the caller retries. */
static int make_base(tci_cgroup_base *base, tc_err *err)
{
    if (mkdirat(base->parent_fd, base->name, 0755) < 0)
        return tc_err_set_os(err, tci_errno_code(errno), errno, "cannot make control group '%s'",
                             base->name);
    struct stat by_name, by_fd;
    base->fd = open_directory(base->parent_fd, base->name);
    if (base->fd < 0 || flock(base->fd, LOCK_EX | LOCK_NB) < 0 || fstat(base->fd, &by_fd) < 0 ||
        fstatat(base->parent_fd, base->name, &by_name, AT_SYMLINK_NOFOLLOW) < 0 ||
        by_name.st_ino != by_fd.st_ino) {
        tci_fd_close(&base->fd);
        return tc_err_set(err, TC_E_CONFLICT, "control group '%s' was taken away", base->name);
    }
    return 0;
}

int tci_cgroup_base_open(tci_cgroup_base *ret_base, tc_err *err)
{
    tci_cgroup_base base = TCI_CGROUP_BASE_NONE;
    int rc = open_own_directory(&base.parent_fd, err);
    if (rc < 0)
        return rc;
    for (int i = 0; i < NAME_TRIES; i++) {
        (void)snprintf(base.name, sizeof base.name, i == 0 ? BASE_PREFIX "%d" : BASE_PREFIX "%d-%d",
                       (int)getpid(), i); /* fits */
        rc = make_base(&base, err);
        if (rc != TC_E_CONFLICT)
            break;
    }
    if (rc < 0) {
        tci_fd_close(&base.parent_fd);
        return rc == TC_E_NOT_FOUND || rc == TC_E_NO_SPACE ? tc_err_recode(err, TC_E_DENIED) : rc;
    }
    each_directory(base.parent_fd, sweep_one, base.name);
    *ret_base = base;
    return 0;
}

void tci_cgroup_base_close(tci_cgroup_base *base)
{
    if (base->fd >= 0)
        (void)remove_directory(base->parent_fd, base->name); /* stays while something lives in it */
    tci_fd_close(&base->fd);
    tci_fd_close(&base->parent_fd);
}

/* ---- one group ---- */

static void group_name(const tci_cgroup *cg, char out[TCI_NUM_TEXT_MAX])
{
    (void)snprintf(out, TCI_NUM_TEXT_MAX, "%c%u", cg->is_kept ? 'k' : 'c', cg->id); /* fits */
}

int tci_cgroup_make(const tci_cgroup_base *base, uint32_t id, bool is_kept, tci_cgroup *ret_cg,
                    tc_err *err)
{
    tci_cgroup cg = {.fd = -1, .events_fd = -1, .id = id, .is_kept = is_kept};
    char name[TCI_NUM_TEXT_MAX];
    group_name(&cg, name);
    if (mkdirat(base->fd, name, 0755) < 0)
        return tc_err_set_os(err, tci_errno_code(errno), errno, "cannot make control group '%s/%s'",
                             base->name, name);
    cg.fd = open_directory(base->fd, name);
    if (cg.fd >= 0)
        cg.events_fd = openat(cg.fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (cg.events_fd < 0) {
        int os = errno;
        (void)tci_cgroup_remove(base, &cg); /* empty */
        return tc_err_set_os(err, tci_errno_code(os), os, "cannot open control group '%s/%s'",
                             base->name, name);
    }
    *ret_cg = cg;
    return 0;
}

bool tci_cgroup_is_populated(const tci_cgroup *cg)
{
    char text[128];
    ssize_t n = pread(cg->events_fd, text, sizeof text, 0);
    tc_str all = tci_str_of(text, n > 0 ? (size_t)n : 0);
    return tci_str_find(all, TC_STR("populated 0")) >= all.len; /* not readable: assume the worst */
}

bool tci_cgroup_kill(const tci_cgroup *cg)
{
    return kill_directory(cg->fd);
}

size_t tci_cgroup_pids(const tci_cgroup *cg, int *out, size_t max)
{
    pid_list list = {.out = out, .max = max};
    add_pids(cg->fd, &list);
    return list.n;
}

bool tci_cgroup_remove(const tci_cgroup_base *base, tci_cgroup *cg)
{
    char name[TCI_NUM_TEXT_MAX];
    group_name(cg, name);
    tci_cgroup_close(cg);
    return remove_directory(base->fd, name);
}

void tci_cgroup_close(tci_cgroup *cg)
{
    tci_fd_close(&cg->events_fd);
    tci_fd_close(&cg->fd);
}
