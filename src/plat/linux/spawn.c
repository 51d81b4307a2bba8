/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting a program on Linux. The child shares the parent's memory until it executes (as vfork(2)
 * does), so the cost does not grow with the parent; it has a stack of its own inside the caller's
 * frame, and reports a failure by writing it there. Leaves waiting to proc.c. Any thread.
 *
 * What an old kernel, a container that hides system calls or an emulator lacks is made up for: no
 * clone3(2): clone(2), with failures reported through a pipe, since an emulator may have copied the
 * memory instead of sharing it; no pidfd: a pipe whose other end a small thread closes when the
 * child ends.
 *
 * Invariant: between clone and exec nothing runs but raw system calls. They go through syscall(2),
 * never through the C library's wrappers, because sanitizers and cancellation points hook those. */
#include "plat/proc.h"

#include "plat/fd.h"
#include "plat/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_SANITIZE __attribute__((no_sanitize("address", "undefined", "thread")))

enum {
    CHILD_STACK_BYTES = 12 * 1024,
    WAITER_STACK_BYTES = 64 * 1024,
    KERNEL_SIGNALS = 64,
    KERNEL_SIGSET_BYTES = 8,
    FIRST_MORE_FD = 3,
    LIST_BYTES = 2048,
    CLOSE_FALLBACK_MAX = 65536
};

enum child_step { STEP_NONE, STEP_SETUP, STEP_CWD, STEP_EXEC };

/* What parent and child share. */
typedef struct child_call {
    const tci_spawn_opts *opts;
    int parent_pid;
    int stdio[3];
    int os;               /* errno of the failure; 0: none */
    enum child_step step; /* where it was */
    int report_fd;        /* where to write os and step too; -1: memory is shared for certain */
    struct rlimit mark;
    bool has_mark;
    unsigned long zero_action[8]; /* a kernel sigaction of any layout: default, no flags */
    uint64_t empty_mask;
} child_call;

/* ---- in the child ---- */

NO_SANITIZE static void child_fail(child_call *call, enum child_step step)
{
    call->os = errno != 0 ? errno : EIO;
    call->step = step;
    if (call->report_fd >= 0) {
        int report[2] = {call->os, (int)step};
        syscall(SYS_write, call->report_fd, report, sizeof report);
    }
    for (;;)
        syscall(SYS_exit_group, 127);
}

NO_SANITIZE static long child_check(child_call *call, long rc)
{
    if (rc < 0)
        child_fail(call, STEP_SETUP);
    return rc;
}

/* Nothing from descriptor n on is passed on, by the list that /proc has of them. Marking does not
 * change the list, so it can be read in pieces. false: no such list. */
NO_SANITIZE static bool child_close_listed(int n)
{
    enum { NAME_AT = 19, RECLEN_AT = 16 }; /* of struct linux_dirent64, see getdents(2) */
    char list[LIST_BYTES];
    int dir = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0)
        return false;
    long len;
    while ((len = syscall(SYS_getdents64, dir, list, sizeof list)) > 0) {
        for (long at = 0; at < len;) {
            int fd = 0;
            for (const char *c = list + at + NAME_AT; *c >= '0' && *c <= '9'; c++)
                fd = fd * 10 + (*c - '0');
            if (fd >= n) /* dir is one of them */
                syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
            at += (unsigned char)list[at + RECLEN_AT] |
                  (long)(unsigned char)list[at + RECLEN_AT + 1] << 8;
        }
    }
    return len == 0;
}

/* Descriptor want[i] becomes i. Sources below the target range are moved above it first, so that no
 * source is overwritten before it is used. */
NO_SANITIZE static void child_descriptors(child_call *call)
{
    const tci_spawn_opts *opts = call->opts;
    int n = FIRST_MORE_FD + (int)opts->nmore_fds;
    int from[FIRST_MORE_FD + TCI_SPAWN_FDS_MAX];
    if (call->report_fd >= 0 && call->report_fd < n)
        call->report_fd =
            (int)child_check(call, syscall(SYS_fcntl, call->report_fd, F_DUPFD_CLOEXEC, n));
    for (int i = 0; i < n; i++) {
        from[i] = i < FIRST_MORE_FD ? call->stdio[i] : opts->more_fds[i - FIRST_MORE_FD];
        if (from[i] < n && from[i] != i)
            from[i] = (int)child_check(call, syscall(SYS_fcntl, from[i], F_DUPFD_CLOEXEC, n));
    }
    for (int i = 0; i < n; i++) {
        if (from[i] == i)
            child_check(call, syscall(SYS_fcntl, i, F_SETFD, 0));
        else
            child_check(call, syscall(SYS_dup3, from[i], i, 0));
    }
    if (syscall(SYS_close_range, (unsigned)n, ~0U, 1U << 2 /* CLOSE_RANGE_CLOEXEC */) == 0)
        return;
    if (child_close_listed(n)) /* before Linux 5.11 */
        return;
    for (int fd = n; fd < CLOSE_FALLBACK_MAX; fd++) /* no /proc */
        syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
}

NO_SANITIZE static void child_main(void *arg)
{
    child_call *call = arg;
    const tci_spawn_opts *opts = call->opts;

    if ((opts->flags & TCI_SPAWN_SESSION) != 0)
        child_check(call, syscall(SYS_setsid));
    else if ((opts->flags & TCI_SPAWN_GROUP) != 0)
        child_check(call, syscall(SYS_setpgid, 0, 0));
    if ((opts->flags & TCI_SPAWN_DIE_WITH_PARENT) != 0) {
        child_check(call, syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0));
        if (syscall(SYS_getppid) != call->parent_pid) /* it went before we asked */
            child_fail(call, STEP_SETUP);
    }
    child_descriptors(call);
    if ((opts->flags & TCI_SPAWN_TERMINAL) != 0)
        child_check(call, syscall(SYS_ioctl, 0, TIOCSCTTY, 0));
    if (call->has_mark)
        syscall(SYS_prlimit64, 0, RLIMIT_LOCKS, &call->mark, NULL); /* without it: no mark */
    if (opts->cwd != NULL ? syscall(SYS_chdir, opts->cwd) < 0
                          : opts->cwd_fd >= 0 && syscall(SYS_fchdir, opts->cwd_fd) < 0)
        child_fail(call, STEP_CWD);

    /* All to default before any can arrive: a handler would run in the parent's memory. */
    for (int sig = 1; sig <= KERNEL_SIGNALS; sig++)
        syscall(SYS_rt_sigaction, sig, call->zero_action, NULL, KERNEL_SIGSET_BYTES);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &call->empty_mask, NULL, KERNEL_SIGSET_BYTES);
    syscall(SYS_execve, opts->program, opts->argv, opts->envp);
    child_fail(call, STEP_EXEC);
}

NO_SANITIZE static int child_entry(void *arg) /* for clone(2) */
{
    child_main(arg);
    return 127;
}

/* ---- in the parent ---- */

/* clone3(2) with a stack has no wrapper that could pass a 64-bit flag: the child must not return
 * into a frame, so it calls fn from here. Returns the pid or -errno; -ENOSYS where this machine is
 * not known. */
NO_SANITIZE static long clone3_call(struct clone_args *args, void (*fn)(void *), void *arg)
{
#if defined(__x86_64__)
    long rc;
    register void (*fn_reg)(void *) __asm__("r12") = fn;
    register void *arg_reg __asm__("r13") = arg;
    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xorl %%ebp, %%ebp\n\t"
                     "movq %[arg], %%rdi\n\t"
                     "callq *%[fn]\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(rc)
                     : "0"((long)SYS_clone3), "D"(args),
                       "S"(sizeof *args), [fn] "r"(fn_reg), [arg] "r"(arg_reg)
                     : "rcx", "r11", "memory", "cc");
    return rc;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_clone3;
    register long x0 __asm__("x0") = (long)args;
    register size_t x1 __asm__("x1") = sizeof *args;
    register void (*fn_reg)(void *) __asm__("x19") = fn;
    register void *arg_reg __asm__("x20") = arg;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, %[arg]\n\t"
                     "blr %[fn]\n\t"
                     "brk #0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), [fn] "r"(fn_reg), [arg] "r"(arg_reg)
                     : "memory", "cc");
    return x0;
#else
    (void)args, (void)fn, (void)arg;
    return -ENOSYS;
#endif
}

/* What a child without shared memory wrote; nothing when it was executed. */
static void read_report(child_call *call, int fd)
{
    int report[2];
    ssize_t n;
    do
        n = read(fd, report, sizeof report);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof report) {
        call->os = report[0];
        call->step = (enum child_step)report[1];
    }
}

/* Without clone3(2). The pid, or -errno; *pidfd stays -1 where there is none to be had. */
static long start_by_clone(child_call *call, char *stack, int *pidfd)
{
    const int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
    char *top = stack + CHILD_STACK_BYTES;
    int report[2];
    if (pipe2(report, O_CLOEXEC) < 0)
        return -errno;
    call->report_fd = report[1];
    long rc = clone(child_entry, top, flags | CLONE_PIDFD, call, pidfd);
    if (rc < 0 && errno == EINVAL)
        rc = clone(child_entry, top, flags, call);
    if (rc < 0)
        rc = -errno;
    tci_fd_close(&report[1]);
    if (rc > 0)
        read_report(call, report[0]);
    tci_fd_close(&report[0]);
    /* Before Linux 5.2 the flag is ignored. Nobody has reaped the child: its number is its own. */
    if (rc > 0 && *pidfd < 0)
        *pidfd = (int)syscall(SYS_pidfd_open, (int)rc, 0);
    return rc;
}

/* The pid, or -errno. */
static long start_child(child_call *call, char *stack, int *pidfd)
{
    struct clone_args args = {
        .flags = (uint64_t)CLONE_VM | CLONE_VFORK | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
        .stack = (uint64_t)(uintptr_t)stack,
        .stack_size = CHILD_STACK_BYTES,
    };
    if (call->opts->cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (unsigned)call->opts->cgroup_fd;
    }
    long rc = clone3_call(&args, child_main, call);
    /* EPERM: how some containers hide what they do not know. */
    if ((rc != -ENOSYS && rc != -EPERM) || call->opts->cgroup_fd >= 0)
        return rc;
    return start_by_clone(call, stack, pidfd);
}

/* Packs a pid and a descriptor into a thread's argument. */
static void *wait_for_end(void *arg)
{
    uint64_t packed = (uint64_t)(uintptr_t)arg;
    int fd = (int)(packed >> 32);
    siginfo_t info;
    int rc;
    do
        rc = waitid(P_PID, (id_t)(packed & 0xffffffff), &info, WEXITED | WNOWAIT);
    while (rc < 0 && errno == EINTR);
    tci_fd_close(&fd);
    return NULL;
}

/* Before Linux 5.3: a descriptor that becomes readable when the child ends, or -1. Called with all
 * signals blocked, which the thread inherits. */
static int end_descriptor(int pid)
{
    int ends[2];
    pthread_attr_t attr;
    pthread_t thread;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    void *arg = (void *)(uintptr_t)((uint64_t)ends[1] << 32 | (unsigned)pid);
    pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, WAITER_STACK_BYTES); /* too small: the default stays */
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED); /* a valid state */
    int rc = pthread_create(&thread, &attr, wait_for_end, arg);
    pthread_attr_destroy(&attr);
    if (rc != 0) {
        tci_fd_close(&ends[0]);
        tci_fd_close(&ends[1]);
    }
    return ends[0];
}

static int refused(const tci_spawn_opts *opts, int os, tc_err *err)
{
    if (opts->cgroup_fd >= 0 && os != EAGAIN && os != ENOMEM)
        return tc_err_set_os(err, TC_E_UNSUPPORTED, os, "cannot start a process in a cgroup");
    return tc_err_set_os(err, os == ENOMEM ? TC_E_NO_MEMORY : TC_E_BUSY, os,
                         "cannot make a process for '%s'", opts->program);
}

static int failed_in_child(const child_call *call, tc_err *err)
{
    const tci_spawn_opts *opts = call->opts;
    tc_code code = tci_errno_code(call->os);
    switch (call->step) {
    case STEP_CWD:
        if (code != TC_E_NOT_FOUND)
            code = TC_E_DENIED;
        return tc_err_set_os(err, code, call->os, "cannot enter working directory '%s'",
                             opts->cwd != NULL ? opts->cwd : ".");
    case STEP_EXEC:
        if (code != TC_E_NOT_FOUND && code != TC_E_NO_MEMORY && call->os != EACCES &&
            call->os != EPERM)
            code = TC_E_START_FAILED;
        return tc_err_set_os(err, code, call->os, "cannot execute '%s'", opts->program);
    case STEP_SETUP:
    case STEP_NONE:
        break;
    }
    return tc_err_set_os(err, TC_E_START_FAILED, call->os, "cannot prepare '%s'", opts->program);
}

static int spawn_once(const tci_spawn_opts *opts, const int stdio[3], tci_child *ret_child,
                      tc_err *err)
{
    _Alignas(16) char stack[CHILD_STACK_BYTES];
    child_call call = {
        .opts = opts,
        .parent_pid = (int)getpid(),
        .stdio = {stdio[0], stdio[1], stdio[2]},
        .report_fd = -1,
        .has_mark = opts->mark != 0,
    };
    if (call.has_mark) {
        if (getrlimit(RLIMIT_LOCKS, &call.mark) < 0 || opts->mark > call.mark.rlim_max)
            call.has_mark = false;
        call.mark.rlim_cur = opts->mark;
    }
    uint64_t all = ~(uint64_t)0, before = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, KERNEL_SIGSET_BYTES);
    int pidfd = -1;
    long pid = start_child(&call, stack, &pidfd);
    if (pid > 0 && call.os == 0 && pidfd < 0)
        pidfd = end_descriptor((int)pid);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, KERNEL_SIGSET_BYTES);
    if (pid < 0)
        return refused(opts, (int)-pid, err);
    tci_child child = {.pid = (int)pid, .pidfd = pidfd};
    if (call.os != 0) {
        tci_exit how;
        bool was_lost;
        tci_child_reap_wait(&child, &how, &was_lost);
        return failed_in_child(&call, err);
    }
    *ret_child = child;
    return 0;
}

/* "program" a b  becomes  /bin/sh "program" a b. */
static int spawn_script(const tci_spawn_opts *opts, const int stdio[3], tci_child *ret_child,
                        tc_err *err)
{
    size_t n = 0;
    while (opts->argv[n] != NULL)
        n++;
    const char **argv = tci_mem_array(n + 2, sizeof *argv);
    if (argv == NULL)
        return tci_err_no_memory(err);
    argv[0] = "/bin/sh";
    argv[1] = opts->program;
    for (size_t i = 1; i < n; i++)
        argv[i + 1] = opts->argv[i];
    tci_spawn_opts script = *opts;
    script.program = "/bin/sh";
    script.argv = argv;
    int rc = spawn_once(&script, stdio, ret_child, err);
    tci_mem_free(argv);
    return rc;
}

int tci_spawn(const tci_spawn_opts *opts, tci_child *ret_child, tc_err *err)
{
    TC_ASSERT(opts->program != NULL && opts->argv != NULL && opts->argv[0] != NULL &&
              opts->envp != NULL && opts->nmore_fds <= TCI_SPAWN_FDS_MAX);
    if (opts->program[0] != '/')
        return tc_err_set(err, TC_E_INVALID, "program '%s' is not an absolute path", opts->program);
    int stdio[3], null_fd = -1;
    for (int i = 0; i < 3; i++) {
        stdio[i] = opts->stdio[i];
        if (stdio[i] >= 0)
            continue;
        if (null_fd < 0)
            null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null_fd < 0)
            return tc_err_set_os(err, TC_E_BUSY, errno, "cannot open '/dev/null'");
        stdio[i] = null_fd;
    }
    int rc = spawn_once(opts, stdio, ret_child, err);
    if (rc < 0 && err->os == ENOEXEC)
        rc = spawn_script(opts, stdio, ret_child, err);
    tci_fd_close(&null_fd);
    return rc;
}
