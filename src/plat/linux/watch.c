/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices by inotify(7). Leaves to the caller what a notice means, and to keep one number per inode
 * apart from its names. Any thread, one at a time per notifier.
 *
 * Invariant: a watch is put on the inode a descriptor holds, by way of /proc/self/fd, so that no
 * rename between looking and watching can put it on another one; without /proc by the path, and then
 * the inode is compared afterwards. */
#include "plat/watch.h"

#include "plat/file.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { READ_BYTES = 16 * 1024 };

static const uint32_t wanted = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY |
                               IN_ATTRIB | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF;

#ifdef TCI_TESTING
static atomic_uint test_limit = UINT32_MAX;
static atomic_bool test_refused;

void tci_notifier_test_limit(uint32_t max_watches)
{
    atomic_store(&test_limit, max_watches);
}

void tci_notifier_test_refuse(bool is_refused)
{
    atomic_store(&test_refused, is_refused);
}

/* Numbers grow by one with each watch and are not used again (inotify(7)), so the number of a new
 * watch says how many there have been. */
static bool is_over_test_limit(int32_t number)
{
    return (uint32_t)number > atomic_load(&test_limit);
}
static bool is_test_refused(void)
{
    return atomic_load(&test_refused);
}
#else
static inline bool is_over_test_limit(int32_t number)
{
    (void)number;
    return false;
}
static inline bool is_test_refused(void)
{
    return false;
}
#endif

static int too_many_notifiers(tc_err *err, int os)
{
    (void)tc_err_set_os(err, TC_E_QUOTA, os, "the limit of inotify instances is reached");
    return tc_err_hint(err, "raise the setting fs.inotify.max_user_instances");
}

int tci_notifier_open(tci_notifier *n, tc_err *err)
{
    if (is_test_refused())
        return too_many_notifiers(err, EMFILE);
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0 && errno == EMFILE) {
        /* The user's limit of instances or the process's of descriptors: the latter shows again. */
        int probe = dup(STDIN_FILENO);
        if (probe >= 0 || errno != EMFILE) {
            if (probe >= 0)
                (void)close(probe); /* a copy that nothing was done with */
            return too_many_notifiers(err, EMFILE);
        }
        errno = EMFILE;
    }
    if (fd < 0)
        return tc_err_set_os(err, tci_errno_code(errno), errno, "cannot watch for changes");
    char *buf = tci_mem_alloc(READ_BYTES);
    if (buf == NULL) {
        (void)close(fd); /* nothing is lost with it */
        return tci_err_no_memory(err);
    }
    *n = (tci_notifier){.fd_plus_1 = fd + 1, .buf = buf};
    return 0;
}

void tci_notifier_close(tci_notifier *n)
{
    if (n->fd_plus_1 != 0)
        (void)close(n->fd_plus_1 - 1); /* its watches go with it */
    tci_free(n->buf);
    *n = (tci_notifier){0};
}

int tci_notifier_fd(const tci_notifier *n)
{
    return n->fd_plus_1 - 1;
}

/* errno of a failed or refused inotify_add_watch as an error. */
static int add_failed(tc_err *err, int os, const char *path)
{
    if (os == ENOSPC) {
        (void)tc_err_set(err, TC_E_QUOTA,
                         "cannot watch '%s': the limit of inotify watches is reached", path);
        return tc_err_hint(err, "raise the setting fs.inotify.max_user_watches");
    }
    return tc_err_set_os(err, tci_errno_code(os), os, "cannot watch '%s'", path);
}

void tci_notifier_remove(tci_notifier *n, int32_t number)
{
    (void)inotify_rm_watch(n->fd_plus_1 - 1, number); /* fails when it has ended by itself */
}

static int add(tci_notifier *n, const char *how, const char *path, uint32_t flags, int32_t *ret,
               tc_err *err)
{
    int32_t number = inotify_add_watch(n->fd_plus_1 - 1, how, wanted | flags);
    if (number < 0)
        return add_failed(err, errno, path);
    if (is_over_test_limit(number)) {
        tci_notifier_remove(n, number);
        return add_failed(err, ENOSPC, path);
    }
    *ret = number;
    return 0;
}

/* Without /proc: by the path, if it still leads to the same inode. */
static int add_by_path(tci_notifier *n, const tci_dir *at, const char *path, int32_t *ret,
                       tc_err *err)
{
    struct stat held, found;
    int32_t number;
    int rc = add(n, path, path, IN_DONT_FOLLOW, &number, err);
    if (rc < 0)
        return rc;
    if (fstat(at->fd_plus_1 - 1, &held) < 0 || lstat(path, &found) < 0 ||
        held.st_dev != found.st_dev || held.st_ino != found.st_ino)
        return add_failed(err, ENOENT, path); /* the watch on the other one does no harm */
    *ret = number;
    return 0;
}

int tci_notifier_add(tci_notifier *n, const tci_dir *at, const char *path, int32_t *ret_number,
                     tc_err *err)
{
    char link[40];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", at->fd_plus_1 - 1); /* fits */
    int rc = add(n, link, path, 0, ret_number, err);
    if (rc < 0 && err->os == ENOENT && access("/proc/self/fd", F_OK) < 0)
        return add_by_path(n, at, path, ret_number, err);
    return rc;
}

static unsigned flags_of(uint32_t mask)
{
    unsigned flags = 0;
    if (mask & (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO))
        flags |= TCI_NOTICE_ENTRY;
    if (mask & (IN_MODIFY | IN_ATTRIB))
        flags |= TCI_NOTICE_CONTENT;
    if (mask & IN_CLOSE_WRITE)
        flags |= TCI_NOTICE_CLOSED;
    if (mask & (IN_MOVE_SELF | IN_DELETE_SELF | IN_UNMOUNT))
        flags |= TCI_NOTICE_MOVED;
    if (mask & IN_IGNORED)
        flags |= TCI_NOTICE_GONE;
    if (mask & IN_Q_OVERFLOW)
        flags |= TCI_NOTICE_LOST;
    return flags;
}

int tci_notifier_next(tci_notifier *n, tci_notice *ret, tc_err *err)
{
    struct inotify_event head;
    while (n->at + sizeof head > n->len) {
        ssize_t got = read(n->fd_plus_1 - 1, n->buf, READ_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return 0;
        if (got <= 0)
            return tc_err_set_os(err, TC_E_IO, got < 0 ? errno : EIO, "cannot read notices");
        n->at = 0;
        n->len = (size_t)got;
    }
    memcpy(&head, n->buf + n->at, sizeof head);
    const char *name = n->buf + n->at + sizeof head;
    n->at += sizeof head + head.len;
    *ret = (tci_notice){.number = head.wd,
                        .flags = flags_of(head.mask),
                        .name = tci_str_of(name, head.len != 0 ? strnlen(name, head.len) : 0)};
    return 1;
}

bool tci_notifier_misses_type(uint32_t fs_type)
{
    /* statfs(2): NFS, SMB, CIFS, SMB2, FUSE, 9P, Lustre, GPFS, Ceph, OpenAFS, kAFS, sdcardfs */
    static const uint32_t types[] = {0x6969,     0x517b,     0xff534d42, 0xfe534d42,
                                     0x65735546, 0x01021997, 0x0bd00bd0, 0x47504653,
                                     0x00c36400, 0x5346414f, 0x6b414653, 0x5dca2df5};
    for (size_t i = 0; i < TCI_ARRAY_LEN(types); i++)
        if (types[i] == fs_type)
            return true;
    return false;
}

bool tci_notifier_misses(const tci_dir *at)
{
    struct statfs fs;
    return fstatfs(at->fd_plus_1 - 1, &fs) == 0 && tci_notifier_misses_type((uint32_t)fs.f_type);
}
