/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of an SQLite session, written a commit at a time. SQLite hands its log over in pieces, two for
 * each page; here they are collected and go to the system in one write when the page that ends a
 * commit has come, or before anybody looks. The sync that ends a commit is left out when the commit is one
 * that need not be synced by itself. Everything else about files is the system's layer below.
 * Thread: the session's line. Invariants: no commit is reported done, and nothing synced, with pieces
 * still in hand; what goes wrong when they are written is the error of the call that wrote them. */
#include "store/sqlite/sqlite_int.h"

#include <stdio.h>

enum {
    HEADER = 32,       /* of the log */
    FRAME_HEADER = 24, /* of a page in it; bytes 4 to 7 are not zero in a page that ends a commit */
    HELD_MAX =
        96 * 1024 /* more than a page; SQLite's layer for POSIX writes below 128 KiB at once */
};

struct tci_sqlite_vfs {
    sqlite3_vfs vfs; /* first: SQLite hands it back */
    sqlite3_vfs *below;
    char name[32];
    bool leaves_commits; /* their syncs are left out */
};

typedef struct log_file {
    sqlite3_file base; /* first, likewise */
    sqlite3_file *below;
    const tci_sqlite_vfs *vfs;
    tci_buf held;
    sqlite3_int64 held_at;  /* where the first held byte belongs */
    sqlite3_int64 expected; /* where the next one will, if it goes straight on */
    bool ends_commit;       /* the page whose header came last ends a commit */
    bool is_commit_written; /* such a page came last of all, so the next sync is that commit's */
    bool is_header_new;     /* what came before the first page has to be synced before it counts */
} log_file;

static log_file *of(sqlite3_file *f)
{
    return (log_file *)(void *)f;
}

static int write_held(log_file *l)
{
    if (l->held.len == 0)
        return SQLITE_OK;
    int rc = l->below->pMethods->xWrite(l->below, l->held.ptr, (int)l->held.len, l->held_at);
    tci_buf_clear(&l->held);
    return rc;
}

/* ---- the file ---- */

static int log_write(sqlite3_file *f, const void *bytes, int len, sqlite3_int64 offset)
{
    log_file *l = of(f);
    const unsigned char *header = bytes;
    bool goes_on = offset == l->expected || (offset == 0 && len == HEADER);
    bool is_page = len > HEADER, was_end = l->ends_commit;
    if (len == FRAME_HEADER)
        l->ends_commit = (header[4] | header[5] | header[6] | header[7]) != 0;
    l->expected = offset + len;
    l->is_commit_written = is_page && was_end;
    l->is_header_new = l->is_header_new || offset == 0;
    int rc = SQLITE_OK;
    if (!goes_on || l->held_at + (sqlite3_int64)l->held.len != offset ||
        l->held.len + (size_t)len > HELD_MAX)
        rc = write_held(l);
    if (rc != SQLITE_OK)
        return rc;
    if (!goes_on) /* an old page or header anew: not the end of anything */
        return l->below->pMethods->xWrite(l->below, bytes, len, offset);
    if (l->held.len == 0)
        l->held_at = offset;
    tci_buf_append(&l->held, bytes, (size_t)len);
    if (!tci_buf_ok(&l->held)) {
        tci_buf_clear(&l->held);
        return SQLITE_IOERR_NOMEM;
    }
    return is_page && was_end ? write_held(l) : SQLITE_OK;
}

static int log_read(sqlite3_file *f, void *bytes, int len, sqlite3_int64 offset)
{
    log_file *l = of(f);
    int rc = write_held(l);
    return rc != SQLITE_OK ? rc : l->below->pMethods->xRead(l->below, bytes, len, offset);
}

static int log_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    log_file *l = of(f);
    int rc = write_held(l);
    return rc != SQLITE_OK ? rc : l->below->pMethods->xTruncate(l->below, size);
}

static int log_sync(sqlite3_file *f, int flags)
{
    log_file *l = of(f);
    bool is_commit = l->is_commit_written && !l->is_header_new;
    int rc = write_held(l);
    if (rc != SQLITE_OK)
        return rc;
    l->is_commit_written = false;
    if (is_commit && l->vfs->leaves_commits)
        return SQLITE_OK;
    l->is_header_new = false;
    return l->below->pMethods->xSync(l->below, flags);
}

static int log_file_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    log_file *l = of(f);
    int rc = write_held(l);
    return rc != SQLITE_OK ? rc : l->below->pMethods->xFileSize(l->below, ret);
}

static int log_close(sqlite3_file *f)
{
    log_file *l = of(f);
    (void)write_held(l); /* of a transaction that did not end: nobody will miss it */
    tci_buf_done(&l->held);
    l->base.pMethods = NULL;
    return l->below->pMethods->xClose(l->below);
}

static int log_lock(sqlite3_file *f, int level)
{
    return of(f)->below->pMethods->xLock(of(f)->below, level);
}

static int log_unlock(sqlite3_file *f, int level)
{
    return of(f)->below->pMethods->xUnlock(of(f)->below, level);
}

static int log_check_reserved(sqlite3_file *f, int *ret)
{
    return of(f)->below->pMethods->xCheckReservedLock(of(f)->below, ret);
}

static int log_control(sqlite3_file *f, int op, void *arg)
{
    return of(f)->below->pMethods->xFileControl(of(f)->below, op, arg);
}

static int log_sector_size(sqlite3_file *f)
{
    return of(f)->below->pMethods->xSectorSize(of(f)->below);
}

static int log_characteristics(sqlite3_file *f)
{
    return of(f)->below->pMethods->xDeviceCharacteristics(of(f)->below);
}

static const sqlite3_io_methods log_methods = {
    .iVersion = 1, /* no shared memory, no maps: those are the main file's */
    .xClose = log_close,
    .xRead = log_read,
    .xWrite = log_write,
    .xTruncate = log_truncate,
    .xSync = log_sync,
    .xFileSize = log_file_size,
    .xLock = log_lock,
    .xUnlock = log_unlock,
    .xCheckReservedLock = log_check_reserved,
    .xFileControl = log_control,
    .xSectorSize = log_sector_size,
    .xDeviceCharacteristics = log_characteristics,
};

/* ---- the layer ---- */

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
    sqlite3_vfs *below = ((tci_sqlite_vfs *)(void *)vfs)->below;
    if ((flags & SQLITE_OPEN_MAIN_DB) != 0)
        return tci_sqlite_main_open(below, name, f, flags, ret_flags);
    if ((flags & SQLITE_OPEN_WAL) == 0) /* as if we were not there */
        return below->xOpen(below, name, f, flags, ret_flags);
    log_file *l = of(f);
    memset(l, 0, sizeof *l);
    l->below = (sqlite3_file *)(void *)(l + 1);
    l->vfs = (const tci_sqlite_vfs *)(void *)vfs;
    tci_buf_init(&l->held, HELD_MAX);
    int rc = below->xOpen(below, name, l->below, flags, ret_flags);
    if (l->below->pMethods != NULL)
        l->base.pMethods = &log_methods;
    return rc;
}

tci_sqlite_vfs *tci_sqlite_vfs_new(void)
{
    tci_sqlite_vfs *v = tci_new(tci_sqlite_vfs);
    if (v == NULL)
        return NULL;
    v->below = sqlite3_vfs_find(NULL);
    if (v->below == NULL) {
        tci_free(v);
        return NULL;
    }
    v->vfs = *v->below;
    (void)snprintf(v->name, sizeof v->name, "telechir-%p", (void *)v); /* one for each session */
    v->vfs.zName = v->name;
    v->vfs.pNext = NULL;
    size_t ours = tci_sqlite_main_bytes();
    ours = ours > sizeof(log_file) ? ours : sizeof(log_file);
    v->vfs.szOsFile = (int)ours + v->below->szOsFile;
    v->vfs.xOpen = vfs_open;
    if (sqlite3_vfs_register(&v->vfs, 0) != SQLITE_OK) {
        tci_free(v);
        return NULL;
    }
    return v;
}

const char *tci_sqlite_vfs_name(const tci_sqlite_vfs *v)
{
    return v->name;
}

void tci_sqlite_vfs_sync_commits(tci_sqlite_vfs *v, bool is_wanted)
{
    v->leaves_commits = !is_wanted;
}

void tci_sqlite_vfs_free(tci_sqlite_vfs *v)
{
    if (v == NULL)
        return;
    (void)sqlite3_vfs_unregister(&v->vfs);
    tci_free(v);
}
