/* SPDX-License-Identifier: Apache-2.0
 *
 * Children by handle and other processes by /proc, on Linux. Leaves starting them to spawn.c. Any
 * thread. Invariant: a signal goes to a number only while something pins that number: an unreaped
 * child, or a handle whose start time was checked after it was opened. */
#include "plat/proc.h"

#include "base/num.h"
#include "plat/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { P_PIDFD_ID = 3, PROC_PATH_MAX = 64, PROC_TEXT_MAX = 4096 };

/* ---- children ---- */

static bool wait_child(const tci_child *child, int options, tci_exit *ret_exit, bool *ret_was_lost)
{
    siginfo_t info = {0};
    bool by_handle = child->pidfd >= 0;
    int rc;
    for (;;) {
        rc = by_handle ? waitid((idtype_t)P_PIDFD_ID, (id_t)child->pidfd, &info, WEXITED | options)
                       : waitid(P_PID, (id_t)child->pid, &info, WEXITED | options);
        if (rc < 0 && by_handle && (errno == EINVAL || errno == EBADF))
            by_handle = false; /* before Linux 5.4, or not a pidfd: see spawn.c */
        else if (rc == 0 || errno != EINTR)
            break;
    }
    tci_exit how = {.is_signal = true, .signum = SIGKILL};
    if (rc < 0) { /* ECHILD: reaped elsewhere, or SIGCHLD is ignored in this program */
        *ret_exit = how;
        *ret_was_lost = true;
        return true;
    }
    if (info.si_pid == 0)
        return false;
    how.is_signal = info.si_code != CLD_EXITED;
    how.code = how.is_signal ? 0 : info.si_status;
    how.signum = how.is_signal ? info.si_status : 0;
    *ret_exit = how;
    *ret_was_lost = false;
    return true;
}

bool tci_child_peek(const tci_child *child, tci_exit *ret_exit, bool *ret_was_lost)
{
    return wait_child(child, WNOHANG | WNOWAIT, ret_exit, ret_was_lost);
}

bool tci_child_reap(tci_child *child, tci_exit *ret_exit, bool *ret_was_lost)
{
    if (!wait_child(child, WNOHANG, ret_exit, ret_was_lost))
        return false;
    tci_fd_close(&child->pidfd);
    return true;
}

void tci_child_reap_wait(tci_child *child, tci_exit *ret_exit, bool *ret_was_lost)
{
    (void)wait_child(child, 0, ret_exit, ret_was_lost); /* always true without WNOHANG */
    tci_fd_close(&child->pidfd);
}

static bool pidfd_signal(int pidfd, int signum)
{
    return syscall(SYS_pidfd_send_signal, pidfd, signum, NULL, 0) == 0;
}

bool tci_child_signal(const tci_child *child, int signum)
{
    if (child->pidfd < 0)
        return false;
    if (pidfd_signal(child->pidfd, signum))
        return true;
    /* Before Linux 5.1, or not a pidfd (see spawn.c): by number, which our child holds. */
    tci_exit how;
    bool was_lost;
    return errno != ESRCH && !tci_child_peek(child, &how, &was_lost) &&
           kill(child->pid, signum) == 0;
}

bool tci_proc_signal(int pid, uint64_t start_ticks, int signum)
{
    tci_proc_stat st;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    /* Before Linux 5.3 nothing can pin the number: the look and the signal, as close as can be. */
    if (fd < 0 && errno == ENOSYS)
        return tci_proc_stat_read(pid, &st) && st.start_ticks == start_ticks &&
               kill(pid, signum) == 0;
    if (fd < 0)
        return false;
    bool was_sent =
        tci_proc_stat_read(pid, &st) && st.start_ticks == start_ticks && pidfd_signal(fd, signum);
    tci_fd_close(&fd);
    return was_sent;
}

int tci_subreaper_set(bool on, tc_err *err)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, on ? 1L : 0L, 0L, 0L, 0L) < 0)
        return tc_err_set_os(err, TC_E_UNSUPPORTED, errno, "cannot become a subreaper");
    return 0;
}

int tci_proc_next_zombie(void)
{
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
        return 0;
    return info.si_pid;
}

bool tci_proc_reap(int pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid == pid;
}

/* ---- /proc ---- */

/* Length read into out (NUL-terminated), or 0. Files of /proc answer whole in one read this small.
 */
static size_t read_proc(const char *path, char out[PROC_TEXT_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, out, PROC_TEXT_MAX - 1);
    tci_fd_close(&fd);
    if (n <= 0)
        return 0;
    out[n] = '\0';
    return (size_t)n;
}

static bool next_word(tc_str *rest, tc_str *ret_word)
{
    while (rest->len > 0 && (*rest->ptr == ' ' || *rest->ptr == '\n'))
        *rest = tci_str_sub(*rest, 1, rest->len);
    if (rest->len == 0)
        return false;
    size_t n = 0;
    while (n < rest->len && rest->ptr[n] != ' ' && rest->ptr[n] != '\n')
        n++;
    *ret_word = tci_str_sub(*rest, 0, n);
    *rest = tci_str_sub(*rest, n, rest->len);
    return true;
}

static bool word_i64(tc_str word, int64_t *ret)
{
    tc_err err;
    return tci_num_i64(word, ret, &err) == 0;
}

bool tci_proc_stat_read(int pid, tci_proc_stat *ret_stat)
{
    /* Fields after the name: state, then numbers; see proc_pid_stat(5). */
    enum { AT_STATE, AT_PPID, AT_PGID, AT_SID, AT_START = 19 };
    char path[PROC_PATH_MAX], text[PROC_TEXT_MAX];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid); /* fits */
    size_t len = read_proc(path, text);
    tc_str all = tci_str_of(text, len);
    size_t open_at = tci_str_find_byte(all, '('), close_at = tci_str_rfind_byte(all, ')');
    if (open_at >= all.len || close_at >= all.len || close_at < open_at)
        return false;
    tci_proc_stat st = {.pid = pid};
    size_t name_len = tci_min_size(close_at - open_at - 1, sizeof st.name - 1);
    memcpy(st.name, text + open_at + 1, name_len);
    tc_str rest = tci_str_sub(all, close_at + 1, all.len), word;
    for (int at = 0; at <= AT_START; at++) {
        int64_t v = 0;
        if (!next_word(&rest, &word))
            return false;
        if (at == AT_STATE) {
            st.state = word.ptr[0];
            continue;
        }
        if (at > AT_SID && at < AT_START)
            continue;
        if (!word_i64(word, &v))
            return false;
        if (at == AT_PPID)
            st.ppid = (int)v;
        else if (at == AT_PGID)
            st.pgid = (int)v;
        else if (at == AT_SID)
            st.sid = (int)v;
        else
            st.start_ticks = (uint64_t)v;
    }
    *ret_stat = st;
    return true;
}

uint64_t tci_proc_mark(int pid)
{
    char path[PROC_PATH_MAX], text[PROC_TEXT_MAX];
    (void)snprintf(path, sizeof path, "/proc/%d/limits", pid); /* fits */
    tc_str all = tci_str_of(text, read_proc(path, text));
    tc_str label = TC_STR("Max file locks"), word;
    size_t at = tci_str_find(all, label);
    if (at >= all.len)
        return 0;
    tc_str rest = tci_str_sub(all, at + label.len, all.len);
    uint64_t mark = 0;
    tc_err err;
    if (!next_word(&rest, &word) || tci_num_u64(word, &mark, &err) < 0) /* "unlimited" */
        return 0;
    return mark;
}

static bool is_number(const char *name)
{
    return name[0] >= '1' && name[0] <= '9';
}

static int name_number(const char *name)
{
    int64_t v = 0;
    return word_i64(tci_str(name), &v) ? (int)v : 0;
}

/* Adds the pids of one children file to out. false: the file is not there. */
static bool add_children(const char *path, int *out, size_t max, size_t *n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    char text[PROC_TEXT_MAX];
    size_t have = 0;
    int pid = 0;
    for (;;) {
        ssize_t got = read(fd, text, sizeof text);
        if (got <= 0)
            break;
        have = (size_t)got;
        for (size_t i = 0; i < have; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
            } else if (pid != 0) {
                if (*n < max)
                    out[*n] = pid;
                ++*n;
                pid = 0;
            }
        }
    }
    tci_fd_close(&fd);
    return true;
}

long tci_proc_children(int pid, int *out, size_t max)
{
    char path[PROC_PATH_MAX];
    size_t n = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task", pid); /* fits */
    DIR *dir = opendir(path);
    if (dir == NULL)
        return errno == ENOENT || errno == ESRCH ? 0 : -1;
    bool has_any = false, has_file = false;
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (!is_number(e->d_name))
            continue;
        has_any = true;
        (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, name_number(e->d_name));
        has_file = add_children(path, out, max, &n) || has_file;
    }
    closedir(dir);
    return has_any && !has_file && pid == (int)getpid() ? -1 : (long)n;
}

long tci_proc_all(int *out, size_t max)
{
    DIR *dir = opendir("/proc");
    if (dir == NULL)
        return -1;
    size_t n = 0;
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        int pid = is_number(e->d_name) ? name_number(e->d_name) : 0;
        if (pid == 0)
            continue;
        if (n < max)
            out[n] = pid;
        n++;
    }
    closedir(dir);
    return (long)n;
}
