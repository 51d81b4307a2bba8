/* SPDX-License-Identifier: Apache-2.0
 *
 * The locks on the index of the log, kept from one transaction to the next. SQLite takes and gives back a
 * reader's lock around each statement and the writer's around each commit, a system call every time;
 * the owner of a session will want them again at once. So a lock that is given back stays until it is in
 * the way of another that SQLite asks for, or the file is closed. Readers elsewhere take locks of their
 * own, which these do not hinder: only another writer has to wait, and there is none beside the owner.
 * Who only reads keeps nothing. Pages come by way of sqlite_ahead.c, and SQLite looks at them there as
 * long as it does not write. Everything else about the file is the system's layer below. Thread: the
 * session's line. Invariant: what SQLite believes it holds is held, and what is held beyond that is in
 * kept. */
#include "store/sqlite/sqlite_int.h"

/* Bytes of the index, as SQLite's file format names them. */
enum { WRITER = 0, FIRST_READER = 3, SLOTS = 8 };

typedef struct main_file {
    sqlite3_file base; /* first: SQLite hands it back */
    sqlite3_file *below;
    unsigned kept; /* a bit for each slot: held, though given back */
    bool keeps_locks, is_writing;
    tci_sqlite_ahead ahead;
} main_file;

static main_file *of(sqlite3_file *f)
{
    return (main_file *)(void *)f;
}

static unsigned bits_of(int first, int n)
{
    return ((1U << n) - 1) << first;
}

static int kind_of(int slot)
{
    return slot == WRITER ? SQLITE_SHM_EXCLUSIVE : SQLITE_SHM_SHARED;
}

/* Give back for good what is kept of those slots. */
static int drop(main_file *m, unsigned slots)
{
    for (int i = 0; i < SLOTS && (m->kept & slots) != 0; i++) {
        unsigned bit = 1U << i;
        if ((m->kept & slots & bit) == 0)
            continue;
        m->kept &= ~bit;
        int rc = m->below->pMethods->xShmLock(m->below, i, 1, SQLITE_SHM_UNLOCK | kind_of(i));
        if (rc != SQLITE_OK)
            return rc;
    }
    return SQLITE_OK;
}

static void forget_ahead(main_file *m)
{
    tci_sqlite_ahead_forget(&m->ahead);
}

static int shm_lock(main_file *m, int first, int n, int flags)
{
    unsigned slots = bits_of(first, n);
    if ((flags & SQLITE_SHM_LOCK) != 0) /* a transaction begins, or something else that matters */
        forget_ahead(m);
    bool may_keep = m->keeps_locks && n == 1 && (first == WRITER || first >= FIRST_READER) &&
                    (flags & kind_of(first)) != 0;
    if (may_keep && (flags & SQLITE_SHM_UNLOCK) != 0) {
        m->kept |= slots;
        return SQLITE_OK;
    }
    if (may_keep && (m->kept & slots) != 0) {
        m->kept &= ~slots;
        return SQLITE_OK;
    }
    int rc = SQLITE_OK;
    if ((flags & SQLITE_SHM_LOCK) != 0) {
        if (may_keep &&
            first >= FIRST_READER) /* another place in the log to read from: one is enough */
            slots |= bits_of(FIRST_READER, SLOTS - FIRST_READER);
        rc = drop(m, slots);
    }
    return rc != SQLITE_OK ? rc : m->below->pMethods->xShmLock(m->below, first, n, flags);
}

static int main_shm_lock(sqlite3_file *f, int first, int n, int flags)
{
    int rc = shm_lock(of(f), first, n, flags);
    if (rc == SQLITE_OK && first == WRITER)
        of(f)->is_writing = (flags & SQLITE_SHM_LOCK) != 0;
    return rc;
}

static int main_shm_unmap(sqlite3_file *f, int is_deleted)
{
    main_file *m = of(f);
    int rc = drop(m, ~0U);
    int unmapped = m->below->pMethods->xShmUnmap(m->below, is_deleted);
    return unmapped != SQLITE_OK ? unmapped : rc;
}

/* ---- the rest, handed on ---- */

static int main_close(sqlite3_file *f)
{
    main_file *m = of(f);
    tci_sqlite_ahead_done(&m->ahead);
    m->base.pMethods = NULL;
    return m->below->pMethods->xClose(m->below);
}

static int main_read(sqlite3_file *f, void *bytes, int len, sqlite3_int64 offset)
{
    if (tci_sqlite_ahead_read(&of(f)->ahead, bytes, len, offset))
        return SQLITE_OK;
    return of(f)->below->pMethods->xRead(of(f)->below, bytes, len, offset);
}

static int main_fetch(sqlite3_file *f, sqlite3_int64 offset, int len, void **ret_page)
{
    *ret_page = of(f)->is_writing ? NULL : tci_sqlite_ahead_lend(&of(f)->ahead, len, offset);
    return SQLITE_OK;
}

static int main_unfetch(sqlite3_file *f, sqlite3_int64 offset, void *page)
{
    (void)offset;
    if (page != NULL)
        tci_sqlite_ahead_take_back(&of(f)->ahead, page);
    else
        forget_ahead(of(f));
    return SQLITE_OK;
}

static int main_write(sqlite3_file *f, const void *bytes, int len, sqlite3_int64 offset)
{
    forget_ahead(of(f));
    return of(f)->below->pMethods->xWrite(of(f)->below, bytes, len, offset);
}

static int main_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    forget_ahead(of(f));
    return of(f)->below->pMethods->xTruncate(of(f)->below, size);
}

static int main_sync(sqlite3_file *f, int flags)
{
    return of(f)->below->pMethods->xSync(of(f)->below, flags);
}

static int main_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    return of(f)->below->pMethods->xFileSize(of(f)->below, ret);
}

static int main_lock(sqlite3_file *f, int level)
{
    forget_ahead(of(f)); /* without a log, a transaction begins with this one */
    of(f)->is_writing = level >= SQLITE_LOCK_RESERVED;
    return of(f)->below->pMethods->xLock(of(f)->below, level);
}

static int main_unlock(sqlite3_file *f, int level)
{
    of(f)->is_writing = false;
    return of(f)->below->pMethods->xUnlock(of(f)->below, level);
}

static int main_check_reserved(sqlite3_file *f, int *ret)
{
    return of(f)->below->pMethods->xCheckReservedLock(of(f)->below, ret);
}

static int main_control(sqlite3_file *f, int op, void *arg)
{
    if (op == SQLITE_FCNTL_MMAP_SIZE) /* what is to be mapped is fetched from us */
        return SQLITE_NOTFOUND;
    return of(f)->below->pMethods->xFileControl(of(f)->below, op, arg);
}

static int main_sector_size(sqlite3_file *f)
{
    return of(f)->below->pMethods->xSectorSize(of(f)->below);
}

static int main_characteristics(sqlite3_file *f)
{
    return of(f)->below->pMethods->xDeviceCharacteristics(of(f)->below);
}

static int main_shm_map(sqlite3_file *f, int region, int size, int may_extend,
                        void volatile **ret_region)
{
    return of(f)->below->pMethods->xShmMap(of(f)->below, region, size, may_extend, ret_region);
}

static void main_shm_barrier(sqlite3_file *f)
{
    of(f)->below->pMethods->xShmBarrier(of(f)->below);
}

static const sqlite3_io_methods main_methods = {
    .iVersion = 3,
    .xClose = main_close,
    .xRead = main_read,
    .xWrite = main_write,
    .xTruncate = main_truncate,
    .xSync = main_sync,
    .xFileSize = main_size,
    .xLock = main_lock,
    .xUnlock = main_unlock,
    .xCheckReservedLock = main_check_reserved,
    .xFileControl = main_control,
    .xSectorSize = main_sector_size,
    .xDeviceCharacteristics = main_characteristics,
    .xShmMap = main_shm_map,
    .xShmLock = main_shm_lock,
    .xShmBarrier = main_shm_barrier,
    .xShmUnmap = main_shm_unmap,
    .xFetch = main_fetch,
    .xUnfetch = main_unfetch,
};

size_t tci_sqlite_main_bytes(void)
{
    return sizeof(main_file);
}

int tci_sqlite_main_open(sqlite3_vfs *below, const char *name, sqlite3_file *f, int flags,
                         int *ret_flags)
{
    main_file *m = of(f);
    memset(m, 0, sizeof *m);
    m->below = (sqlite3_file *)(void *)(m + 1);
    m->keeps_locks = (flags & SQLITE_OPEN_READONLY) == 0;
    tci_sqlite_ahead_init(&m->ahead, m->below);
    int rc = below->xOpen(below, name, m->below, flags, ret_flags);
    if (m->below->pMethods != NULL && m->below->pMethods->iVersion >= 2)
        m->base.pMethods = &main_methods;
    if (m->base.pMethods == NULL && m->below->pMethods != NULL) { /* not one we know */
        (void)m->below->pMethods->xClose(m->below);
        rc = rc != SQLITE_OK ? rc : SQLITE_CANTOPEN;
    }
    return rc;
}
