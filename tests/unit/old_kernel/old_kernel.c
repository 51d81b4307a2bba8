/* SPDX-License-Identifier: Apache-2.0
 *
 * old_kernel MODE PROGRAM [ARG...]: runs a program on a kernel that lacks what came later.
 *   4.18   no clone3, pidfds, close_range, and no waiting for a pidfd
 *   5.4    no clone3 and close_range, as behind a container's filter
 * Leaves everything else as it is. Exits with 77 where filters cannot be installed. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { P_PIDFD_ID = 3, SKIPPED = 77 };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (n))
#define ANSWER(os) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (os))
#define REFUSE(call) SKIP_UNLESS((call), 1), ANSWER(ENOSYS)

static struct sock_filter everything_since_4_18[] = {
    LOAD(nr),
    REFUSE(SYS_clone3),
    REFUSE(SYS_close_range),
    REFUSE(SYS_pidfd_open),
    REFUSE(SYS_pidfd_send_signal),
    SKIP_UNLESS(SYS_waitid, 4),
    LOAD(args[0]), /* the low half on little-endian machines */
    SKIP_UNLESS(P_PIDFD_ID, 1),
    ANSWER(EINVAL),
    LOAD(nr),
    SKIP_UNLESS(SYS_clone, 4),
    LOAD(args[0]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_PIDFD, 0, 1),
    ANSWER(EINVAL),
    LOAD(nr),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static struct sock_filter everything_since_5_4[] = {
    LOAD(nr),
    REFUSE(SYS_clone3),
    REFUSE(SYS_close_range),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

int main(int argc, char **argv)
{
    bool is_4_18 = argc >= 3 && strcmp(argv[1], "4.18") == 0;
    if (argc < 3 || (!is_4_18 && strcmp(argv[1], "5.4") != 0)) {
        (void)fprintf(stderr, "usage: old_kernel 4.18|5.4 PROGRAM [ARG...]\n"); /* leaving anyway */
        return 2;
    }
    struct sock_fprog filter = {
        .len = is_4_18 ? sizeof everything_since_4_18 / sizeof *everything_since_4_18
                       : sizeof everything_since_5_4 / sizeof *everything_since_5_4,
        .filter = is_4_18 ? everything_since_4_18 : everything_since_5_4,
    };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0) {
        perror("skipped: no filter of system calls to be had");
        return SKIPPED;
    }
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
