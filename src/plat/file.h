/* SPDX-License-Identifier: Apache-2.0
 *
 * Files by descriptor: opening relative to an open folder, facts, content, names, attributes.
 *
 * Every call takes a root and a path relative to it, so that a check and the use that follows see
 * the same folder even when somebody renames things in between; TCI_FILE_CWD as root takes absolute
 * paths. Paths are borrowed bytes: INVALID for an embedded NUL or a path longer than the system
 * takes. Interrupted calls are repeated. All descriptors close on exec.
 *
 * Failures carry tci_errno_code(errno) unless a comment says otherwise, and name the path. Nothing
 * here allocates. Any thread; one descriptor at a time by one thread where the position counts. */
#ifndef TCI_PLAT_FILE_H
#define TCI_PLAT_FILE_H

#include "base/compiler.h"
#include "base/rfc3339.h"
#include "base/str.h"
#include <telechir/error.h>

/* What a system error number means to a caller: NOT_FOUND (missing), DENIED (permission, wrong
 * type, read-only file system, link where none may be), CONFLICT (exists, not empty), NO_SPACE
 * (disk full, disk quota), QUOTA (file size limit), UNSUPPORTED (not on this file system, across
 * devices), BUSY (out of descriptors or processes, in use), NO_MEMORY, CLOSED, CONNECT, TIMEOUT,
 * INVALID (name too long); everything else is IO. 0 gives TC_OK. */
tc_code tci_errno_code(int os_error);

/* ---- descriptors ---- */

typedef struct tci_file {
    int fd; /* -1: none */
} tci_file;

#define TCI_FILE_NONE ((tci_file){-1})
/* Root for absolute paths, and for relative ones from the process's own folder. */
#define TCI_FILE_CWD ((tci_file){-100})
/* A variable that closes itself: TCI_FILE_AUTO f = TCI_FILE_NONE; */
#define TCI_FILE_AUTO TCI_CLEANUP(tci_file_close) tci_file

static inline bool tci_file_is_open(tci_file f)
{
    return f.fd >= 0;
}
/* Close and set to NONE; NONE is fine. Never fails: what must be kept is synced before. */
void tci_file_close(tci_file *f);
/* Hand over: the source becomes NONE. */
static inline tci_file tci_file_take(tci_file *f)
{
    tci_file taken = *f;
    *f = TCI_FILE_NONE;
    return taken;
}
int tci_file_dup(tci_file f, tci_file *ret, tc_err *err) TC_CHECKED;

typedef enum tci_open_flags {
    TCI_OPEN_READ = 1 << 0,
    TCI_OPEN_WRITE = 1 << 1,
    TCI_OPEN_CREATE = 1 << 2,   /* make it when missing, with the mode given */
    TCI_OPEN_EXCL = 1 << 3,     /* with CREATE: CONFLICT when it exists, links included */
    TCI_OPEN_TRUNCATE = 1 << 4, /* empty it */
    TCI_OPEN_APPEND = 1 << 5,   /* every write goes to the end */
    TCI_OPEN_NOFOLLOW =
        1 << 6, /* DENIED when the last part is a link (with PATH: the link itself) */
    TCI_OPEN_NONBLOCK = 1 << 7,  /* do not wait for the other end of a FIFO or a device */
    TCI_OPEN_DIRECTORY = 1 << 8, /* DENIED when it is not a folder */
    TCI_OPEN_PATH = 1 << 9,      /* only a handle on the name: for facts and as a root */
    TCI_OPEN_UNNAMED = 1 << 10,  /* path is a folder; a new file in it without a name; UNSUPPORTED
                                    where the file system cannot */
} tci_open_flags;

/* Open path below root. mode counts only when a file is made (the umask applies).
 *   flags    tci_open_flags or-ed; one of READ, WRITE, PATH at least
 *   ret      the caller closes it */
int tci_file_openat(tci_file root, tc_str path, unsigned flags, unsigned mode, tci_file *ret,
                    tc_err *err) TC_CHECKED;
/* The same for an absolute path. */
int tci_file_open(tc_str path, unsigned flags, unsigned mode, tci_file *ret,
                  tc_err *err) TC_CHECKED;

/* ---- facts ---- */

typedef enum tci_file_kind {
    TCI_FILE_KIND_OTHER, /* devices, FIFOs, sockets */
    TCI_FILE_KIND_REGULAR,
    TCI_FILE_KIND_DIRECTORY,
    TCI_FILE_KIND_SYMLINK,
} tci_file_kind;

typedef struct tci_file_stat {
    tci_file_kind kind;
    uint32_t mode; /* permission bits with set-id and sticky: 07777 */
    uint32_t uid, gid;
    uint64_t nlink;
    uint64_t size;   /* bytes; of a link: of its text */
    uint64_t blocks; /* 512-byte units really taken */
    uint64_t dev, ino;
    tci_instant modified, changed;
} tci_file_stat;

int tci_file_stat_of(tci_file f, tci_file_stat *ret, tc_err *err) TC_CHECKED;
/* follow false: a link is answered as itself. */
int tci_file_stat_at(tci_file root, tc_str path, bool follow, tci_file_stat *ret,
                     tc_err *err) TC_CHECKED;
static inline bool tci_file_stat_same(const tci_file_stat *a, const tci_file_stat *b)
{
    return a->dev == b->dev && a->ino == b->ino;
}
/* true when the process, as it is now, could write the file (mode, ACL, read-only mounts). */
bool tci_file_may_write(tci_file root, tc_str path);
/* true when path is on a file system of this machine whose metadata calls do not wait for another
 * machine or process (not NFS, SMB, FUSE, 9p and the like). false when that cannot be told. */
bool tci_file_is_local_fs(tci_file f);
/* Effective user and group of the process. */
uint32_t tci_file_euid(void);
uint32_t tci_file_egid(void);
int tci_file_free_bytes(tci_file f, uint64_t *ret, tc_err *err) TC_CHECKED; /* for this user */

/* ---- content ---- */

/* One read at the position; *ret_len 0 is the end. */
int tci_file_read(tci_file f, void *buf, size_t len, size_t *ret_len, tc_err *err) TC_CHECKED;
/* Fill buf from offset on; *ret_len < len only at the end of the file. */
int tci_file_pread(tci_file f, void *buf, size_t len, uint64_t offset, size_t *ret_len,
                   tc_err *err) TC_CHECKED;
/* As much of it from offset on as is there without waiting for a device: how many bytes, 0 when none, the
 * end was reached or it cannot be told. Linux: RWF_NOWAIT of preadv2(2). */
size_t tci_file_pread_ready(tci_file f, void *buf, size_t len, uint64_t offset);
/* All of it or an error; how much of it was written before the error is not told. */
int tci_file_write_all(tci_file f, const void *bytes, size_t len, tc_err *err) TC_CHECKED;
int tci_file_pwrite_all(tci_file f, const void *bytes, size_t len, uint64_t offset,
                        tc_err *err) TC_CHECKED;
/* Absolute position. */
int tci_file_seek(tci_file f, uint64_t offset, tc_err *err) TC_CHECKED;
/* Copy up to len bytes between files without passing through the caller, by whatever the file
 * systems can (sharing blocks, in the kernel, or a buffer). From from_offset to to's position,
 * which moves. *ret_copied < len only at the end of from. cancel may be asked between pieces by
 * calling with a bounded len. */
int tci_file_copy_range(tci_file from, uint64_t from_offset, tci_file to, uint64_t len,
                        uint64_t *ret_copied, tc_err *err) TC_CHECKED;
int tci_file_truncate(tci_file f, uint64_t size, tc_err *err) TC_CHECKED;
/* Take the blocks for [0, size) now. UNSUPPORTED where that cannot be done cheaply. */
int tci_file_allocate(tci_file f, uint64_t size, tc_err *err) TC_CHECKED;
/* Content and facts on stable storage; of a folder: its entries. A folder opened with PATH cannot
 * be synced by itself: tci_file_sync_fs of any file in it does (everything of that file system). */
int tci_file_sync(tci_file f, tc_err *err) TC_CHECKED;
int tci_file_sync_data(tci_file f, tc_err *err) TC_CHECKED; /* content and size only */
int tci_file_sync_fs(tci_file f, tc_err *err) TC_CHECKED;
/* Hints: reading straight on from here, or done with these pages. Failure does not matter. */
typedef enum tci_file_advice { TCI_FILE_SEQUENTIAL, TCI_FILE_DONTNEED } tci_file_advice;
void tci_file_advise(tci_file f, uint64_t offset, uint64_t len, tci_file_advice advice);
/* A whole small file. Heap memory: the caller tci_free()s *ret (NUL after the end, not counted).
 * TOO_BIG over max_bytes. */
int tci_file_read_whole(tci_file root, tc_str path, size_t max_bytes, char **ret, size_t *ret_len,
                        tc_err *err) TC_CHECKED;

/* Map the first size bytes for reading and writing, shared with the file. The file must be that
 * long and stay so. */
int tci_file_map(tci_file f, size_t size, void **ret, tc_err *err) TC_CHECKED;
void tci_file_unmap(void *map, size_t size);

/* ---- locks: both end with the descriptor (all its copies), and so with the process ---- */

/* The whole file, exclusively; at once or BUSY. */
int tci_file_try_lock(tci_file f, tc_err *err) TC_CHECKED;
/* One byte, exclusively, waiting at most wait_ms (0: not at all); BUSY when still taken. Two
 * openings of the file exclude each other also within one process. */
int tci_file_lock_byte(tci_file f, uint64_t offset, unsigned wait_ms, tc_err *err) TC_CHECKED;
/* Say who has the file: the process that marked the byte, until it closes any handle of that file or ends.
 * Keeps nobody from anything; no failure matters. */
void tci_file_mark_byte(tci_file f, uint64_t offset);
/* The pid that marked the byte; 0: none that can be seen from here. */
int tci_file_marked_by(tci_file f, uint64_t offset);

/* ---- owner, mode, attributes ---- */

int tci_file_chmod(tci_file f, unsigned mode, tc_err *err) TC_CHECKED;
/* UINT32_MAX leaves one as it is. */
int tci_file_chown(tci_file f, uint32_t uid, uint32_t gid, tc_err *err) TC_CHECKED;
int tci_file_set_modified(tci_file f, tci_instant modified, tc_err *err) TC_CHECKED;
typedef enum tci_xattr_flags {
    TCI_XATTR_ACL = 1 << 0, /* take the access control list over too (it decides the group bits of
                               the mode: set the mode first) */
} tci_xattr_flags;
/* Make to's extended attributes those of from, as far as they belong to a file and not to its
 * content: user.*, trusted.*, security labels, with TCI_XATTR_ACL the access list (removed from
 * `to` when `from` has none). File capabilities and integrity hashes are left out: they vouch for
 * content that is being replaced. DENIED when one may not be read or set. */
int tci_file_copy_xattrs(tci_file from, tci_file to, unsigned flags, tc_err *err) TC_CHECKED;

/* ---- names ---- */

typedef enum tci_rename_how {
    TCI_RENAME_REPLACE,   /* over what is there */
    TCI_RENAME_NOREPLACE, /* CONFLICT when the target exists; atomic; UNSUPPORTED where it cannot be
                           */
    TCI_RENAME_EXCHANGE,  /* both exist and swap names; atomic; UNSUPPORTED where it cannot be */
} tci_rename_how;
int tci_file_rename(tci_file from_root, tc_str from, tci_file to_root, tc_str to,
                    tci_rename_how how, tc_err *err) TC_CHECKED;
/* Give a file a (further) name; CONFLICT when it exists. _unnamed: one opened with UNNAMED. */
int tci_file_link(tci_file from_root, tc_str from, tci_file to_root, tc_str to,
                  tc_err *err) TC_CHECKED;
int tci_file_link_unnamed(tci_file f, tci_file to_root, tc_str to, tc_err *err) TC_CHECKED;
int tci_file_symlink(tc_str target, tci_file root, tc_str path, tc_err *err) TC_CHECKED;
int tci_file_unlink(tci_file root, tc_str path, tc_err *err) TC_CHECKED; /* not a folder */
/* The same when it does not matter whether it works: for clearing up after a failure. */
void tci_file_discard(tci_file root, tc_str path);
int tci_file_rmdir(tci_file root, tc_str path, tc_err *err) TC_CHECKED; /* CONFLICT: not empty */
int tci_file_mkdir(tci_file root, tc_str path, unsigned mode, tc_err *err) TC_CHECKED;

enum { TCI_PATH_MAX = 4096, TCI_NAME_MAX = 255 }; /* bytes, the first with its NUL */
/* The text of a link, not NUL-terminated, into buf; TOO_BIG when it does not fit. */
int tci_file_readlink(tci_file root, tc_str path, char *buf, size_t buf_size, tc_str *ret,
                      tc_err *err) TC_CHECKED;
/* The path with every link resolved; the last part must exist. NUL-terminated into buf. */
int tci_file_realpath(tc_str path, char buf[TCI_PATH_MAX], tc_str *ret, tc_err *err) TC_CHECKED;
/* The name under which the system knows an open descriptor now; for messages and canonical paths.
 */
int tci_file_path_of(tci_file f, char buf[TCI_PATH_MAX], tc_str *ret, tc_err *err) TC_CHECKED;
/* Split an absolute path at its last slash: "/a/b" is "/a" and "b", "/b" is "/" and "b". name is
 * empty for "/". */
void tci_path_split(tc_str path, tc_str *ret_parent, tc_str *ret_name);

#ifdef TCI_TESTING
/* A disk that breaks, for the calling thread only. The n-th write from now (1-based; each system
 * call that writes or copies counts) moves half of what it was asked to; with os_error, all after
 * it fail so until switched off. n 0 switches off. */
void tci_file_fail_write_at(unsigned n, int os_error);
/* The n-th sync, or rename or link, fails with os_error and does nothing. */
void tci_file_fail_sync_at(unsigned n, int os_error);
void tci_file_fail_rename_at(unsigned n, int os_error);
#endif

#endif
