/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of a Linux machine, and what a program asks of the system for itself. */
#include "plat/system.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

void tci_system_names_of(tci_system_names *ret)
{
    struct utsname u;
    memset(ret, 0, sizeof *ret);
    (void)snprintf(ret->os, sizeof ret->os, "linux");
    if (uname(&u) != 0)
        return;
    (void)snprintf(ret->kernel, sizeof ret->kernel, "%.*s", (int)sizeof ret->kernel - 1, u.release);
    (void)snprintf(ret->machine, sizeof ret->machine, "%.*s", (int)sizeof ret->machine - 1,
                   u.machine);
}

void tci_system_host_name(char out[TCI_SYSTEM_HOST_MAX])
{
    struct utsname u;
    bool is_known = uname(&u) == 0 && u.nodename[0] != 0;
    (void)snprintf(out, TCI_SYSTEM_HOST_MAX, "%s", is_known ? u.nodename : "?");
}

unsigned tci_system_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? (unsigned)n : 1;
}

bool tci_system_has_aes(void)
{
#if defined(__x86_64__) || defined(__i386__)
    enum { LEAF_FEATURES = 1, PCLMULQDQ = 1 << 1, AES = 1 << 25 };
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(LEAF_FEATURES, &a, &b, &c, &d) != 0 && (c & AES) != 0 &&
           (c & PCLMULQDQ) != 0;
#elif defined(__aarch64__)
    enum { HWCAP_BIT_AES = 1 << 3, HWCAP_BIT_PMULL = 1 << 4 };
    unsigned long caps = getauxval(AT_HWCAP);
    return (caps & HWCAP_BIT_AES) != 0 && (caps & HWCAP_BIT_PMULL) != 0;
#else
    return false;
#endif
}

void tci_system_harden_process(void)
{
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none); /* best effort: a core file would hold secrets */
    tci_system_hide_memory();
}

void tci_system_hide_memory(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0,
                0); /* best effort, too; a program that is started is dumpable again */
}

uint64_t tci_system_more_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return 0;
    if (files.rlim_cur < files.rlim_max) {
        struct rlimit all = {files.rlim_max, files.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &all) == 0)
            files = all;
    }
    return files.rlim_cur;
}

void tci_system_fill_stdio(void)
{
    enum { STDIO_MAX = 3 };
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd < STDIO_MAX);
    if (fd >= 0)
        (void)close(fd); /* one too many */
}

void tci_system_ignore_sigpipe(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* cannot fail for SIGPIPE */
}
