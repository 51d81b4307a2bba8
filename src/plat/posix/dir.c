/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories and what is in them, by descriptors. Reading the entries themselves is the system's
 * own file (linux/dir_read.c). Leaves to others: order, filters, policy. Any thread. Invariant:
 * names are resolved relative to an open directory, one component at a time where links matter. */
#include "plat/dir.h"
#include "plat/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static int dir_fd(const tci_dir *d)
{
    return d != NULL && d->fd_plus_1 != 0 ? d->fd_plus_1 - 1 : AT_FDCWD;
}

int tci_dir_open(const tci_dir *at, const char *name, unsigned flags, tci_dir *ret_dir, tc_err *err)
{
    int how = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK;
    if (flags & TCI_DIR_NO_FOLLOW)
        how |= O_NOFOLLOW;
#ifdef O_PATH
    if (flags & TCI_DIR_BARE)
        how = (how & ~(O_RDONLY | O_NONBLOCK)) | O_PATH;
#endif
    int fd;
    do {
        fd = openat(dir_fd(at), name, how);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return tc_err_set_os(err, tci_errno_code(errno), errno, "cannot open directory '%s'", name);
    ret_dir->fd_plus_1 = fd + 1;
    return 0;
}

void tci_dir_close(tci_dir *d)
{
    if (d->fd_plus_1 != 0)
        (void)close(d->fd_plus_1 - 1); /* nothing was written through it */
    d->fd_plus_1 = 0;
}

static tci_dir_kind kind_of_mode(mode_t mode)
{
    if (S_ISREG(mode))
        return TCI_DIR_KIND_FILE;
    if (S_ISDIR(mode))
        return TCI_DIR_KIND_DIRECTORY;
    return S_ISLNK(mode) ? TCI_DIR_KIND_SYMLINK : TCI_DIR_KIND_OTHER;
}

#ifdef __APPLE__
#define ST_MTIM st_mtimespec
#define ST_CTIM st_ctimespec
#else
#define ST_MTIM st_mtim
#define ST_CTIM st_ctim
#endif

static void take_stat(const struct stat *st, tci_dir_stat *ret)
{
    *ret = (tci_dir_stat){
        .kind = kind_of_mode(st->st_mode),
        .is_executable = (st->st_mode & 0111) != 0,
        .mode = (uint32_t)st->st_mode & 07777,
        .size_bytes = (uint64_t)st->st_size,
        .dev = (uint64_t)st->st_dev,
        .ino = (uint64_t)st->st_ino,
        .modified_at = {st->ST_MTIM.tv_sec, (int32_t)st->ST_MTIM.tv_nsec},
        .changed_at = {st->ST_CTIM.tv_sec, (int32_t)st->ST_CTIM.tv_nsec},
    };
}

int tci_dir_stat_at(const tci_dir *d, const char *name, bool follow, tci_dir_stat *ret_stat,
                    tc_err *err)
{
    struct stat st;
    int rc = name == NULL ? fstat(dir_fd(d), &st)
                          : fstatat(dir_fd(d), name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW);
    if (rc < 0)
        return tc_err_set_os(err, tci_errno_code(errno), errno, "cannot look at '%s'",
                             name != NULL ? name : ".");
    take_stat(&st, ret_stat);
    return 0;
}

int tci_dir_stat_path(const char *path, bool follow, tci_dir_stat *ret_stat, tc_err *err)
{
    return tci_dir_stat_at(NULL, path, follow, ret_stat, err);
}

int tci_dir_read_link(const tci_dir *d, const char *name, tci_buf *out, tc_err *err)
{
    for (size_t room = 256; room <= (size_t)1 << 20; room *= 4) {
        char *to = tci_buf_reserve(out, room);
        if (to == NULL)
            return tci_buf_error(out, err);
        ssize_t n = readlinkat(dir_fd(d), name, to, room);
        if (n < 0)
            return tc_err_set_os(err, tci_errno_code(errno), errno, "cannot read link '%s'", name);
        if ((size_t)n < room) {
            tci_buf_commit(out, (size_t)n);
            return 0;
        }
    }
    return tc_err_set(err, TC_E_TOO_BIG, "link '%s' is too long", name);
}

/* Read what is there, size known from the facts, into out. */
static int read_all(int fd, uint64_t size, uint64_t max_bytes, tci_buf *out, const char *name,
                    tc_err *err)
{
    uint64_t got = 0;
    for (;;) {
        size_t room = got < size ? (size_t)(size - got) + 1 : 64 * 1024;
        char *to = tci_buf_reserve(out, room);
        if (to == NULL)
            return tci_buf_error(out, err);
        ssize_t n = read(fd, to, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tc_err_set_os(err, tci_errno_code(errno), errno, "cannot read '%s'", name);
        tci_buf_commit(out, (size_t)n);
        got += (uint64_t)n;
        if (got > max_bytes)
            return tc_err_set(err, TC_E_TOO_BIG, "'%s' is too big", name);
        /* A regular file gives all it has, so less than asked for is the end. */
        if (n == 0 || (size > 0 && (size_t)n < room))
            return 0;
    }
}

int tci_dir_read_file(const tci_dir *d, const char *name, bool follow, uint64_t max_bytes,
                      tci_buf *out, tc_err *err)
{
    int how = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow ? 0 : O_NOFOLLOW);
    int fd;
    do {
        fd = openat(dir_fd(d), name, how);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return tc_err_set_os(err, tci_errno_code(errno), errno, "cannot open '%s'", name);
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st) < 0)
        rc = tc_err_set_os(err, tci_errno_code(errno), errno, "cannot look at '%s'", name);
    else if (!S_ISREG(st.st_mode))
        rc = tc_err_set(err, TC_E_DENIED, "'%s' is not a regular file", name);
    else if ((uint64_t)st.st_size > max_bytes)
        rc = tc_err_set(err, TC_E_TOO_BIG, "'%s' is too big", name);
    tci_buf_clear(out);
    if (rc == 0)
        rc = read_all(fd, (uint64_t)st.st_size, max_bytes, out, name, err);
    (void)close(fd); /* only read */
    return rc;
}
