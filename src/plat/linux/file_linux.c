/* SPDX-License-Identifier: Apache-2.0
 *
 * What only Linux has, or has in its own way, of plat/file.h: renames that do not replace, files
 * without a name, copying inside the kernel, locks that belong to an open file, file system types.
 * Leaves extended attributes to file_xattr.c. Any thread. */
#include "plat/posix/file_int.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* From linux/fs.h, which clashes with libc headers of some systems. */
enum { RENAME_FLAG_NOREPLACE = 1, RENAME_FLAG_EXCHANGE = 2 };

static int os_rename(int from_fd, const char *from, int to_fd, const char *to, tci_rename_how how)
{
    if (tci_file_fault_rename())
        return -1;
    switch (how) {
    case TCI_RENAME_REPLACE:
        return renameat(from_fd, from, to_fd, to);
    case TCI_RENAME_NOREPLACE:
        return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, RENAME_FLAG_NOREPLACE);
    case TCI_RENAME_EXCHANGE:
        return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, RENAME_FLAG_EXCHANGE);
    }
    errno = EINVAL;
    return -1;
}

int tci_file_rename(tci_file from_root, tc_str from, tci_file to_root, tc_str to,
                    tci_rename_how how, tc_err *err)
{
    tci_file_cpath a, b;
    int rc = tci_file_cpath_init(&a, from, err);
    if (rc == 0)
        rc = tci_file_cpath_init(&b, to, err);
    if (rc < 0)
        return rc;
    if (os_rename(tci_file_root_fd(from_root), a.text, tci_file_root_fd(to_root), b.text, how) == 0)
        return 0;
    int os = errno;
    /* EINVAL: the file system does not know the flag (or a folder would go into itself). */
    tc_code code =
        os == EINVAL && how != TCI_RENAME_REPLACE ? TC_E_UNSUPPORTED : tci_errno_code(os);
    return tc_err_set_os(err, code, os, "cannot rename '%.*s' to '%.*s'", TC_STR_ARG(from),
                         TC_STR_ARG(to));
}

size_t tci_file_pread_ready(tci_file f, void *buf, size_t len, uint64_t offset)
{
    enum { DO_NOT_WAIT = 8 }; /* RWF_NOWAIT */
    struct iovec v = {buf, len};
    long n = syscall(SYS_preadv2, f.fd, &v, 1L, (long)offset, 0L, (long)DO_NOT_WAIT);
    return n > 0 ? (size_t)n : 0;
}

static void fd_path(int fd, char out[32])
{
    (void)snprintf(out, 32, "/proc/self/fd/%d", fd);
}

int tci_file_link_unnamed(tci_file f, tci_file to_root, tc_str to, tc_err *err)
{
    tci_file_cpath c;
    int rc = tci_file_cpath_init(&c, to, err);
    if (rc < 0)
        return rc;
    /* By the descriptor itself only with CAP_DAC_READ_SEARCH; everybody may go through /proc. */
    char from[32];
    fd_path(f.fd, from);
    if (linkat(AT_FDCWD, from, tci_file_root_fd(to_root), c.text, AT_SYMLINK_FOLLOW) < 0)
        return tci_file_fail(err, "name", to);
    return 0;
}

int tci_file_path_of(tci_file f, char buf[TCI_PATH_MAX], tc_str *ret, tc_err *err)
{
    char link[32];
    fd_path(f.fd, link);
    ssize_t n = readlink(link, buf, TCI_PATH_MAX - 1);
    if (n < 0)
        return tci_file_fail_fd(err, "find the path of");
    buf[n] = '\0';
    *ret = tci_str_of(buf, (size_t)n);
    return 0;
}

/* By a buffer: for file systems that cannot copy themselves. */
static int copy_by_hand(tci_file from, uint64_t from_offset, tci_file to, uint64_t len,
                        uint64_t *done, tc_err *err)
{
    char block[65536];
    while (*done < len) {
        uint64_t want = len - *done;
        size_t n = 0;
        int rc = tci_file_pread(from, block, want < sizeof block ? (size_t)want : sizeof block,
                                from_offset + *done, &n, err);
        if (rc < 0)
            return rc;
        if (n == 0)
            break;
        rc = tci_file_write_all(to, block, n, err);
        if (rc < 0)
            return rc;
        *done += n;
    }
    return 0;
}

static bool cannot_copy_in_kernel(int os)
{
    return os == EXDEV || os == EINVAL || os == ENOSYS || os == EOPNOTSUPP || os == EBADF;
}

int tci_file_copy_range(tci_file from, uint64_t from_offset, tci_file to, uint64_t len,
                        uint64_t *ret_copied, tc_err *err)
{
    uint64_t done = 0;
    off_t at = (off_t)from_offset;
    while (done < len) {
        uint64_t left = len - done;
        size_t want = tci_file_fault_write(left < (1U << 30) ? (size_t)left : (size_t)1 << 30);
        if (want == 0)
            return tci_file_fail_fd(err, "write");
        ssize_t n = copy_file_range(from.fd, &at, to.fd, NULL, want, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && !cannot_copy_in_kernel(errno))
            return tci_file_fail_fd(err, "copy");
        /* 0 is the end of the file, or a file of /proc, which only gives itself to reads. */
        if (n <= 0) {
            int rc = copy_by_hand(from, from_offset, to, len, &done, err);
            if (rc < 0)
                return rc;
            break;
        }
        done += (uint64_t)n;
    }
    *ret_copied = done;
    return 0;
}

int tci_file_allocate(tci_file f, uint64_t size, tc_err *err)
{
    int rc;
    do {
        rc = fallocate(f.fd, 0, 0, (off_t)size);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 ? tci_file_fail_fd(err, "take space for") : 0;
}

int tci_file_sync_data(tci_file f, tc_err *err)
{
    int rc;
    do {
        rc = tci_file_fault_sync() ? -1 : fdatasync(f.fd);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 ? tci_file_fail_fd(err, "sync") : 0;
}

int tci_file_sync_fs(tci_file f, tc_err *err)
{
    if (tci_file_fault_sync() || syncfs(f.fd) < 0)
        return tci_file_fail_fd(err, "sync the file system of");
    return 0;
}

int tci_file_try_lock(tci_file f, tc_err *err)
{
    int rc;
    do {
        rc = flock(f.fd, LOCK_EX | LOCK_NB);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 ? tci_file_fail_fd(err, "lock") : 0;
}

int tci_file_lock_byte(tci_file f, uint64_t offset, unsigned wait_ms, tc_err *err)
{
    /* The kernel can wait for us, but not for a limited time; so ask again, less and less often. */
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = 1};
    unsigned waited_us = 0, pause_us = 100;
    while (fcntl(f.fd, F_OFD_SETLK, &lock) < 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return tci_file_fail_fd(err, "lock a part of");
        if (waited_us / 1000 >= wait_ms)
            return tc_err_set(err, TC_E_BUSY, "somebody else holds the lock");
        struct timespec t = {.tv_nsec = (long)pause_us * 1000};
        (void)nanosleep(&t, NULL); /* cut short by a signal: asked again earlier */
        waited_us += pause_us;
        pause_us = pause_us < 10000 ? pause_us * 2 : pause_us;
    }
    return 0;
}

/* A lock of the process, unlike those above, is one whose owner the kernel names. */
void tci_file_mark_byte(tci_file f, uint64_t offset)
{
    struct flock mark = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = 1};
    (void)fcntl(f.fd, F_SETLK, &mark);
}

int tci_file_marked_by(tci_file f, uint64_t offset)
{
    struct flock mark = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = 1};
    /* Asked as an opening of its own, so that a mark of this very process is seen too. */
    return fcntl(f.fd, F_OFD_GETLK, &mark) == 0 && mark.l_type != F_UNLCK && mark.l_pid > 0
               ? (int)mark.l_pid
               : 0;
}

bool tci_file_is_local_fs(tci_file f)
{
    /* f_type of statfs(2); what is not listed counts as remote. */
    static const uint32_t local[] = {
        0xEF53 /* ext2..4 */,   0x01021994 /* tmpfs */,    0x58465342 /* xfs */,
        0x9123683E /* btrfs */, 0x794C7630 /* overlay */,  0x858458F6 /* ramfs */,
        0x9FA0 /* proc */,      0x62656572 /* sysfs */,    0x73717368 /* squashfs */,
        0xF2F52010 /* f2fs */,  0x2FC12FC1 /* zfs */,      0x4D44 /* fat */,
        0x2011BAB0 /* exfat */, 0xE0F5E1E2 /* erofs */,    0x9660 /* iso9660 */,
        0x7366746E /* ntfs3 */, 0xCA451A4E /* bcachefs */, 0x63677270 /* cgroup2 */,
        0x3153464A /* jfs */,   0x52654973 /* reiserfs */, 0x1CD1 /* devpts */,
    };
    struct statfs s;
    if (fstatfs(f.fd, &s) < 0)
        return false;
    for (size_t i = 0; i < TCI_ARRAY_LEN(local); i++)
        if ((uint32_t)s.f_type == local[i])
            return true;
    return false;
}
