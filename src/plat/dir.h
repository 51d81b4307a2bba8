/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories: open them, read what is in them, look at entries and read small files relative to
 * them. Names are bytes. All calls may block; any thread, one thread per object at a time. */
#ifndef TCI_PLAT_DIR_H
#define TCI_PLAT_DIR_H

#include "base/buf.h"
#include "base/rfc3339.h"
#include <telechir/error.h>

/* In the order of the wire's kinds; UNKNOWN: the file system did not say, ask tci_dir_stat. */
typedef enum tci_dir_kind {
    TCI_DIR_KIND_FILE,
    TCI_DIR_KIND_DIRECTORY,
    TCI_DIR_KIND_SYMLINK,
    TCI_DIR_KIND_OTHER,
    TCI_DIR_KIND_UNKNOWN
} tci_dir_kind;

/* An open directory. Zeroed is closed (the handle is kept plus one). */
typedef struct tci_dir {
    int fd_plus_1;
} tci_dir;

static inline bool tci_dir_is_open(const tci_dir *d)
{
    return d->fd_plus_1 != 0;
}

typedef enum tci_dir_flags {
    TCI_DIR_NO_FOLLOW = 1 << 0, /* the last component must not be a symbolic link */
    TCI_DIR_BARE = 1 << 1       /* only a place to start from: needs no read permission */
} tci_dir_flags;

/* Open path, relative to `at` or, when at is NULL, to the process (so make it absolute). name is
 * a C string. Errors: NOT_FOUND, DENIED (permission; err->os EACCES or EPERM, and ENOTDIR or ELOOP
 * when it is no directory), IO and others with err->os. Closes nothing. */
int tci_dir_open(const tci_dir *at, const char *name, unsigned flags, tci_dir *ret_dir,
                 tc_err *err) TC_CHECKED;
void tci_dir_close(tci_dir *d); /* fine when closed */

/* The absolute path without symbolic links, appended to out. */
int tci_dir_real_path(const tci_dir *d, tci_buf *out, tc_err *err) TC_CHECKED;

/* Entries in the order the system has them, without "." and "..". The reader borrows the directory
 * and a buffer of TCI_DIR_READ_BYTES (aligned for uint64_t). */
enum { TCI_DIR_READ_BYTES = 64 * 1024 };
typedef struct tci_dir_reader {
    const tci_dir *dir;
    char *buf;
    size_t at, len;
} tci_dir_reader;
typedef struct tci_dir_entry {
    tc_str name; /* NUL-terminated too; valid until the next call */
    tci_dir_kind kind;
} tci_dir_entry;
/* From the start of the directory. */
int tci_dir_read_start(tci_dir_reader *r, const tci_dir *d, char *buf, tc_err *err) TC_CHECKED;
/* 1: *ret_entry is set; 0: the end; negative: error. */
int tci_dir_read_next(tci_dir_reader *r, tci_dir_entry *ret_entry, tc_err *err) TC_CHECKED;

typedef struct tci_dir_stat {
    tci_dir_kind kind;
    bool is_executable; /* any x bit */
    uint32_t mode;
    uint64_t size_bytes;
    uint64_t dev, ino;
    tci_instant modified_at, changed_at;
} tci_dir_stat;
/* name NULL: the directory itself. follow: through a symbolic link at the end. Errors as open. */
int tci_dir_stat_at(const tci_dir *d, const char *name, bool follow, tci_dir_stat *ret_stat,
                    tc_err *err) TC_CHECKED;
/* The same by absolute path. */
int tci_dir_stat_path(const char *path, bool follow, tci_dir_stat *ret_stat,
                      tc_err *err) TC_CHECKED;

/* The target of a symbolic link, appended to out. */
int tci_dir_read_link(const tci_dir *d, const char *name, tci_buf *out, tc_err *err) TC_CHECKED;

/* True when a change of the directory's entries is sure to show in its times: known local file
 * systems only (not procfs, not network mounts). */
bool tci_dir_times_tell(const tci_dir *d);

/* Whole content of the regular file name, never through a symbolic link, never blocking on a FIFO,
 * into out (replaced; its capacity is reused). More than max_bytes: TOO_BIG, nothing is read. Not a
 * regular file: DENIED. name may be an absolute path when d is NULL; then a link at the end is
 * followed when follow is set. */
int tci_dir_read_file(const tci_dir *d, const char *name, bool follow, uint64_t max_bytes,
                      tci_buf *out, tc_err *err) TC_CHECKED;

#endif
