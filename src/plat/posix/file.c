/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, facts and content of files on POSIX systems. Leaves names (file_names.c), what one
 * system does differently (its own folder) and all policy to others. Any thread. Invariant: every
 * interrupted call is repeated, and a descriptor is either in ret or closed. */
#include "plat/posix/file_int.h"

#include "base/mem.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* The most one call is asked to move; Linux caps at this, and others refuse more than INT_MAX. */
enum { IO_CALL_MAX = 0x7ffff000 };

static size_t io_size(size_t len)
{
    return len < IO_CALL_MAX ? len : IO_CALL_MAX;
}

int tci_file_root_fd(tci_file root)
{
    return root.fd == TCI_FILE_CWD.fd ? AT_FDCWD : root.fd;
}

int tci_file_cpath_init(tci_file_cpath *c, tc_str path, tc_err *err)
{
    if (path.len >= sizeof c->text)
        return tc_err_set_os(err, TC_E_INVALID, ENAMETOOLONG, "path of %zu bytes", path.len);
    return tci_cstr(path, c->text, sizeof c->text, err);
}

void tci_file_close(tci_file *f)
{
    if (f->fd >= 0)
        (void)close(f->fd); /* what must be kept was synced; EINTR has closed it too */
    *f = TCI_FILE_NONE;
}

int tci_file_dup(tci_file f, tci_file *ret, tc_err *err)
{
    int fd = fcntl(f.fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return tci_file_fail_fd(err, "duplicate");
    ret->fd = fd;
    return 0;
}

static int os_open_flags(unsigned flags)
{
    static const struct {
        unsigned ours;
        int os;
    } map[] = {
        {TCI_OPEN_CREATE, O_CREAT},        {TCI_OPEN_EXCL, O_EXCL},
        {TCI_OPEN_TRUNCATE, O_TRUNC},      {TCI_OPEN_APPEND, O_APPEND},
        {TCI_OPEN_NOFOLLOW, O_NOFOLLOW},   {TCI_OPEN_NONBLOCK, O_NONBLOCK},
        {TCI_OPEN_DIRECTORY, O_DIRECTORY},
#ifdef O_PATH
        {TCI_OPEN_PATH, O_PATH},
#endif
#ifdef O_TMPFILE
        {TCI_OPEN_UNNAMED, O_TMPFILE},
#endif
    };
    int os = O_CLOEXEC | O_NOCTTY;
    if ((flags & TCI_OPEN_READ) != 0 && (flags & TCI_OPEN_WRITE) != 0)
        os |= O_RDWR;
    else if ((flags & TCI_OPEN_WRITE) != 0)
        os |= O_WRONLY;
    for (size_t i = 0; i < TCI_ARRAY_LEN(map); i++)
        if ((flags & map[i].ours) != 0)
            os |= map[i].os;
    return os;
}

int tci_file_openat(tci_file root, tc_str path, unsigned flags, unsigned mode, tci_file *ret,
                    tc_err *err)
{
    tci_file_cpath c;
    int rc = tci_file_cpath_init(&c, path, err);
    if (rc < 0)
        return rc;
    int os = os_open_flags(flags);
    int fd;
    do {
        fd = openat(tci_file_root_fd(root), c.text, os, (mode_t)mode);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        rc = tci_file_fail(err, "open", path);
        /* Kernels before 3.11 and some file systems answer so to a file without a name. */
        if ((flags & TCI_OPEN_UNNAMED) != 0 && (err->os == EISDIR || err->os == EINVAL))
            return tc_err_recode(err, TC_E_UNSUPPORTED);
        return rc;
    }
    ret->fd = fd;
    return 0;
}

int tci_file_open(tc_str path, unsigned flags, unsigned mode, tci_file *ret, tc_err *err)
{
    return tci_file_openat(TCI_FILE_CWD, path, flags, mode, ret, err);
}

static tci_instant instant_of(struct timespec t)
{
    return (tci_instant){.sec = (int64_t)t.tv_sec, .nsec = (int32_t)t.tv_nsec};
}

static tci_file_kind kind_of(mode_t mode)
{
    if (S_ISREG(mode))
        return TCI_FILE_KIND_REGULAR;
    if (S_ISDIR(mode))
        return TCI_FILE_KIND_DIRECTORY;
    return S_ISLNK(mode) ? TCI_FILE_KIND_SYMLINK : TCI_FILE_KIND_OTHER;
}

static void fill_stat(const struct stat *st, tci_file_stat *ret)
{
    *ret = (tci_file_stat)
    {
        .kind = kind_of(st->st_mode), .mode = (uint32_t)(st->st_mode & 07777),
        .uid = (uint32_t)st->st_uid, .gid = (uint32_t)st->st_gid, .nlink = (uint64_t)st->st_nlink,
        .size = (uint64_t)st->st_size, .blocks = (uint64_t)st->st_blocks,
        .dev = (uint64_t)st->st_dev, .ino = (uint64_t)st->st_ino,
#if defined(__APPLE__)
        .modified = instant_of(st->st_mtimespec), .changed = instant_of(st->st_ctimespec),
#else
        .modified = instant_of(st->st_mtim), .changed = instant_of(st->st_ctim),
#endif
    };
}

int tci_file_stat_of(tci_file f, tci_file_stat *ret, tc_err *err)
{
    struct stat st;
    if (fstat(f.fd, &st) < 0)
        return tci_file_fail_fd(err, "examine");
    fill_stat(&st, ret);
    return 0;
}

int tci_file_stat_at(tci_file root, tc_str path, bool follow, tci_file_stat *ret, tc_err *err)
{
    tci_file_cpath c;
    int rc = tci_file_cpath_init(&c, path, err);
    if (rc < 0)
        return rc;
    struct stat st;
    if (fstatat(tci_file_root_fd(root), c.text, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
        return tci_file_fail(err, "examine", path);
    fill_stat(&st, ret);
    return 0;
}

bool tci_file_may_write(tci_file root, tc_str path)
{
    tci_file_cpath c;
    tc_err ignored;
    if (tci_file_cpath_init(&c, path, &ignored) < 0)
        return false;
    return faccessat(tci_file_root_fd(root), c.text, W_OK, AT_EACCESS) == 0;
}

uint32_t tci_file_euid(void)
{
    return (uint32_t)geteuid();
}
uint32_t tci_file_egid(void)
{
    return (uint32_t)getegid();
}

int tci_file_free_bytes(tci_file f, uint64_t *ret, tc_err *err)
{
    struct statvfs v;
    if (fstatvfs(f.fd, &v) < 0)
        return tci_file_fail_fd(err, "examine the file system of");
    if (__builtin_mul_overflow((uint64_t)v.f_bavail, (uint64_t)v.f_frsize, ret))
        *ret = UINT64_MAX;
    return 0;
}

int tci_file_read(tci_file f, void *buf, size_t len, size_t *ret_len, tc_err *err)
{
    ssize_t n;
    do {
        n = read(f.fd, buf, io_size(len));
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return tci_file_fail_fd(err, "read");
    *ret_len = (size_t)n;
    return 0;
}

int tci_file_pread(tci_file f, void *buf, size_t len, uint64_t offset, size_t *ret_len, tc_err *err)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = pread(f.fd, (char *)buf + got, io_size(len - got), (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tci_file_fail_fd(err, "read");
        if (n == 0)
            break;
        got += (size_t)n;
    }
    *ret_len = got;
    return 0;
}

/* offset NULL: at the position. */
static int write_fully(tci_file f, const char *bytes, size_t len, const uint64_t *offset,
                       tc_err *err)
{
    size_t done = 0;
    while (done < len) {
        size_t want = tci_file_fault_write(io_size(len - done));
        ssize_t n = -1;
        if (want == 0)
            return tci_file_fail_fd(err, "write");
        if (offset == NULL)
            n = write(f.fd, bytes + done, want);
        else
            n = pwrite(f.fd, bytes + done, want, (off_t)(*offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tci_file_fail_fd(err, "write");
        done += (size_t)n;
    }
    return 0;
}

int tci_file_write_all(tci_file f, const void *bytes, size_t len, tc_err *err)
{
    return write_fully(f, bytes, len, NULL, err);
}

int tci_file_pwrite_all(tci_file f, const void *bytes, size_t len, uint64_t offset, tc_err *err)
{
    return write_fully(f, bytes, len, &offset, err);
}

int tci_file_seek(tci_file f, uint64_t offset, tc_err *err)
{
    if (lseek(f.fd, (off_t)offset, SEEK_SET) < 0)
        return tci_file_fail_fd(err, "seek in");
    return 0;
}

int tci_file_truncate(tci_file f, uint64_t size, tc_err *err)
{
    int rc;
    do {
        rc = ftruncate(f.fd, (off_t)size);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 ? tci_file_fail_fd(err, "set the size of") : 0;
}

int tci_file_sync(tci_file f, tc_err *err)
{
    int rc;
    do {
        rc = tci_file_fault_sync() ? -1 : fsync(f.fd);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 ? tci_file_fail_fd(err, "sync") : 0;
}

void tci_file_advise(tci_file f, uint64_t offset, uint64_t len, tci_file_advice advice)
{
#ifdef POSIX_FADV_SEQUENTIAL
    int os = advice == TCI_FILE_SEQUENTIAL ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_DONTNEED;
    (void)posix_fadvise(f.fd, (off_t)offset, (off_t)len, os); /* a hint */
#else
    TCI_UNUSED(f), TCI_UNUSED(offset), TCI_UNUSED(len), TCI_UNUSED(advice);
#endif
}

/* Read on from `have` bytes until the end, growing the block; files of /proc have no size. */
static int read_to_end(tci_file f, size_t max_bytes, char **block, size_t *cap, size_t *len,
                       tc_err *err)
{
    for (;;) {
        size_t n = 0;
        if (*len == *cap) {
            if (*cap > max_bytes)
                return tc_err_set(err, TC_E_TOO_BIG, "a file of more than %zu bytes", max_bytes);
            size_t more = *cap < 4096 ? 4096 : *cap * 2;
            char *grown = tci_mem_resize(*block, more + 1);
            if (grown == NULL)
                return tci_err_no_memory(err);
            *block = grown;
            *cap = more;
        }
        int rc = tci_file_read(f, *block + *len, *cap - *len, &n, err);
        if (rc < 0)
            return rc;
        if (n == 0)
            break;
        *len += n;
    }
    if (*len > max_bytes)
        return tc_err_set(err, TC_E_TOO_BIG, "a file of more than %zu bytes", max_bytes);
    (*block)[*len] = '\0';
    return 0;
}

int tci_file_read_whole(tci_file root, tc_str path, size_t max_bytes, char **ret, size_t *ret_len,
                        tc_err *err)
{
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    int rc = tci_file_openat(root, path, TCI_OPEN_READ, 0, &f, err);
    if (rc < 0)
        return rc;
    tci_file_stat st;
    rc = tci_file_stat_of(f, &st, err);
    if (rc < 0)
        return rc;
    if (st.size > max_bytes)
        return tc_err_set(err, TC_E_TOO_BIG, "'%.*s' has more than %zu bytes", TC_STR_ARG(path),
                          max_bytes);
    /* One byte more than it says, so that the read after the last byte needs no growth. */
    size_t cap = (size_t)st.size + 1, len = 0;
    char *block = tci_mem_resize(NULL, cap + 1);
    if (block == NULL)
        return tci_err_no_memory(err);
    rc = read_to_end(f, max_bytes, &block, &cap, &len, err);
    if (rc < 0) {
        tci_mem_free(block);
        return tc_err_wrap(err, "'%.*s'", TC_STR_ARG(path));
    }
    *ret = block;
    *ret_len = len;
    return 0;
}

int tci_file_map(tci_file f, size_t size, void **ret, tc_err *err)
{
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, f.fd, 0);
    if (map == MAP_FAILED)
        return tci_file_fail_fd(err, "map");
    *ret = map;
    return 0;
}

void tci_file_unmap(void *map, size_t size)
{
    if (map != NULL)
        (void)munmap(map, size); /* only fails for a range that is not ours */
}

int tci_file_chmod(tci_file f, unsigned mode, tc_err *err)
{
    return fchmod(f.fd, (mode_t)mode) < 0 ? tci_file_fail_fd(err, "set the mode of") : 0;
}

int tci_file_chown(tci_file f, uint32_t uid, uint32_t gid, tc_err *err)
{
    return fchown(f.fd, (uid_t)uid, (gid_t)gid) < 0 ? tci_file_fail_fd(err, "set the owner of") : 0;
}

int tci_file_set_modified(tci_file f, tci_instant modified, tc_err *err)
{
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = (time_t)modified.sec, .tv_nsec = modified.nsec},
    };
    return futimens(f.fd, times) < 0 ? tci_file_fail_fd(err, "set the time of") : 0;
}
