/* SPDX-License-Identifier: Apache-2.0
 *
 * Directory entries by getdents64 in large blocks, with the kinds the file system tells, and two
 * questions only Linux answers this way. Any thread. Invariant: an entry returned points into the
 * reader's buffer and nothing else. */
#include "plat/dir.h"
#include "plat/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The record the kernel writes (getdents64(2)): the name follows the fixed part. */
enum { DENT_RECLEN = 16, DENT_TYPE = 18, DENT_NAME = 19 };

int tci_dir_read_start(tci_dir_reader *r, const tci_dir *d, char *buf, tc_err *err)
{
    *r = (tci_dir_reader){.dir = d, .buf = buf};
    if (lseek(d->fd_plus_1 - 1, 0, SEEK_SET) < 0)
        return tc_err_set_os(err, tci_errno_code(errno), errno, "cannot rewind directory");
    return 0;
}

static tci_dir_kind kind_of_type(unsigned char type)
{
    switch (type) {
    case DT_REG:
        return TCI_DIR_KIND_FILE;
    case DT_DIR:
        return TCI_DIR_KIND_DIRECTORY;
    case DT_LNK:
        return TCI_DIR_KIND_SYMLINK;
    case DT_UNKNOWN:
        return TCI_DIR_KIND_UNKNOWN;
    default:
        return TCI_DIR_KIND_OTHER;
    }
}

int tci_dir_read_next(tci_dir_reader *r, tci_dir_entry *ret_entry, tc_err *err)
{
    for (;;) {
        if (r->at >= r->len) {
            long n = syscall(SYS_getdents64, r->dir->fd_plus_1 - 1, r->buf, TCI_DIR_READ_BYTES);
            if (n < 0 && errno == ENOENT) /* removed while we read: no more entries */
                return 0;
            if (n < 0)
                return tc_err_set_os(err, tci_errno_code(errno), errno, "cannot read directory");
            if (n == 0)
                return 0;
            r->at = 0;
            r->len = (size_t)n;
        }
        const char *rec = r->buf + r->at;
        uint16_t reclen;
        memcpy(&reclen, rec + DENT_RECLEN, sizeof reclen);
        r->at += reclen;
        const char *name = rec + DENT_NAME;
        if (name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0)))
            continue;
        ret_entry->name = tci_str_of(name, strlen(name));
        ret_entry->kind = kind_of_type((unsigned char)rec[DENT_TYPE]);
        return 1;
    }
}

int tci_dir_real_path(const tci_dir *d, tci_buf *out, tc_err *err)
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", d->fd_plus_1 - 1); /* fits */
    return tci_dir_read_link(NULL, link, out, err);
}

bool tci_dir_times_tell(const tci_dir *d)
{
    /* statfs(2): ext, xfs, btrfs, tmpfs, f2fs, overlay, zfs */
    static const uint32_t telling[] = {0xEF53,     0x58465342, 0x9123683E, 0x01021994,
                                       0xF2F52010, 0x794C7630, 0x2FC12FC1};
    struct statfs fs;
    if (fstatfs(d->fd_plus_1 - 1, &fs) < 0)
        return false;
    for (size_t i = 0; i < TCI_ARRAY_LEN(telling); i++)
        if ((uint32_t)fs.f_type == telling[i])
            return true;
    return false;
}
