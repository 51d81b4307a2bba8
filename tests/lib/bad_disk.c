/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that breaks under a whole program: preloaded (LD_PRELOAD) into one that was not built for it. Only
 * files whose path begins with BAD_DISK_PATH are on that disk. BAD_DISK is what happens, and to which
 * operation (writes, syncs, truncations, renames and removals are counted, from 1):
 *     kill N    the process is killed before the n-th
 *     cut N     the n-th, if it writes, is done by half, and the process is killed
 *     full N    no space, from the n-th on: nothing grows
 *     sync N    the n-th sync and every later one fails
 *     lost N    the n-th sync fails, the next one succeeds, as a kernel does that has forgotten what it lost
 * When it happens the first time, the file BAD_DISK_STRUCK is made. Any thread; no sanitizer looks at it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

typedef enum how { NOTHING, KILL, CUT, FULL, SYNC, LOST } how;
typedef enum what { IS_WRITE, IS_SYNC, IS_OTHER } what;
typedef enum verdict { GOES_ON, FAILS, BY_HALF } verdict;

static const char *const words[] = {"", "kill ", "cut ", "full ", "sync ", "lost "};
static atomic_uint noperations, nsyncs;

/* The next one of that name: libc's, or a sanitizer's in front of it. */
static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        abort();
    return found;
}
/* ISO C knows no cast from an object's address to a function's. */
#define NEXT(name)                        \
    __typeof__(&name) real;               \
    do {                                  \
        void *at_ = next(#name);          \
        memcpy(&real, &at_, sizeof real); \
    } while (0)

static how plan(unsigned *ret_n)
{
    const char *text = getenv("BAD_DISK");
    for (size_t i = 1; text != NULL && i < sizeof words / sizeof words[0]; i++) {
        if (strncmp(text, words[i], strlen(words[i])) != 0)
            continue;
        unsigned n = 0;
        for (const char *d = text + strlen(words[i]); *d >= '0' && *d <= '9'; d++)
            n = n * 10 + (unsigned)(*d - '0');
        *ret_n = n;
        return (how)i;
    }
    return NOTHING;
}

static bool is_below(const char *path)
{
    const char *disk = getenv("BAD_DISK_PATH");
    return disk != NULL && disk[0] == '/' && strncmp(path, disk, strlen(disk)) == 0;
}

static bool is_there(int fd)
{
    char link[32], path[PATH_MAX];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return false;
    path[n] = '\0';
    return is_below(path);
}

static bool is_name_there(int folder, const char *name)
{
    return name[0] == '/' ? is_below(name) : folder != AT_FDCWD && is_there(folder);
}

static void note(void)
{
    const char *struck = getenv("BAD_DISK_STRUCK");
    int fd = struck != NULL ? open(struck, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0)
        (void)close(fd);
}

static verdict strike(bool is_killed, int why)
{
    note();
    if (is_killed)
        (void)raise(SIGKILL);
    errno = why;
    return FAILS;
}

/* One more operation on the disk: what becomes of it? */
static verdict count(what kind)
{
    unsigned n = 0;
    how h = plan(&n);
    unsigned at = atomic_fetch_add(&noperations, 1) + 1;
    unsigned nth_sync = kind == IS_SYNC ? atomic_fetch_add(&nsyncs, 1) + 1 : 0;
    switch (h) {
    case KILL:
        return at >= n ? strike(true, 0) : GOES_ON;
    case CUT:
        if (at < n)
            return GOES_ON;
        return kind == IS_WRITE ? BY_HALF : strike(true, 0);
    case FULL:
        return at >= n && kind == IS_WRITE ? strike(false, ENOSPC) : GOES_ON;
    case SYNC:
        return nth_sync >= n && nth_sync > 0 ? strike(false, EIO) : GOES_ON;
    case LOST:
        return nth_sync == n && nth_sync > 0 ? strike(false, EIO) : GOES_ON;
    case NOTHING:
        break;
    }
    return GOES_ON;
}

static ssize_t half_written(ssize_t rc)
{
    (void)strike(true, 0);
    return rc;
}

ssize_t write(int fd, const void *bytes, size_t len);
ssize_t write(int fd, const void *bytes, size_t len)
{
    NEXT(write);
    verdict v = is_there(fd) ? count(IS_WRITE) : GOES_ON;
    if (v == FAILS)
        return -1;
    return v == BY_HALF ? half_written(real(fd, bytes, len / 2)) : real(fd, bytes, len);
}

ssize_t writev(int fd, const struct iovec *parts, int nparts);
ssize_t writev(int fd, const struct iovec *parts, int nparts)
{
    NEXT(writev);
    verdict v = is_there(fd) ? count(IS_WRITE) : GOES_ON;
    if (v == FAILS)
        return -1;
    return v == BY_HALF ? half_written(real(fd, parts, nparts / 2)) : real(fd, parts, nparts);
}

/* Inside what a file has already, a full disk takes writes. */
static bool grows(int fd, off_t end)
{
    struct stat st;
    return fstat(fd, &st) < 0 || end > st.st_size;
}

#define PWRITE(name)                                                     \
    ssize_t name(int fd, const void *bytes, size_t len, off_t at);       \
    ssize_t name(int fd, const void *bytes, size_t len, off_t at)        \
    {                                                                    \
        NEXT(name);                                                      \
        what kind = grows(fd, at + (off_t)len) ? IS_WRITE : IS_OTHER;    \
        verdict v = is_there(fd) ? count(kind) : GOES_ON;                \
        if (v == FAILS)                                                  \
            return -1;                                                   \
        return v == BY_HALF ? half_written(real(fd, bytes, len / 2, at)) \
                            : real(fd, bytes, len, at);                  \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define SYNC_BY(name)                                                     \
    int name(int fd);                                                     \
    int name(int fd)                                                      \
    {                                                                     \
        NEXT(name);                                                       \
        return is_there(fd) && count(IS_SYNC) != GOES_ON ? -1 : real(fd); \
    }
SYNC_BY(fsync)
SYNC_BY(fdatasync)

#define TRUNCATE(name)                                                           \
    int name(int fd, off_t size);                                                \
    int name(int fd, off_t size)                                                 \
    {                                                                            \
        NEXT(name);                                                              \
        return is_there(fd) && count(IS_OTHER) != GOES_ON ? -1 : real(fd, size); \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

int unlinkat(int folder, const char *path, int flags);
int unlinkat(int folder, const char *path, int flags)
{
    NEXT(unlinkat);
    return is_name_there(folder, path) && count(IS_OTHER) != GOES_ON ? -1
                                                                     : real(folder, path, flags);
}

int renameat(int from, const char *old_path, int to, const char *new_path);
int renameat(int from, const char *old_path, int to, const char *new_path)
{
    NEXT(renameat);
    return is_name_there(to, new_path) && count(IS_OTHER) != GOES_ON
               ? -1
               : real(from, old_path, to, new_path);
}
