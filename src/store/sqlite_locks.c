/* SPDX-License-Identifier: Apache-2.0
 *
 * The locks on the index of the log, kept from one transaction to the next. SQLite takes and gives back a
 * reader's lock around each statement and the writer's around each commit, a system call every time;
 * the owner of a session will want them again at once. So a lock that is given back stays until it is in
 * the way of another that SQLite asks for, or the file is closed. Readers elsewhere take locks of their
 * own, which these do not hinder: only another writer has to wait, and there is none beside the owner.
 * Pages that are read one after another are read many at a time; what is read ahead counts for one
 * transaction, whose pages nobody changes in the main file. Everything else about the file is the
 * system's layer below. Thread: the session's line. Invariant: what SQLite believes it holds is held, and
 * what is held beyond that is in kept. */
#include "store/sqlite_int.h"

/* Bytes of the index, as SQLite's file format names them. */
enum { WRITER = 0, FIRST_READER = 3, SLOTS = 8 };
/* How reading ahead is begun. */
enum { AHEAD_BYTES = 64 * 1024, AHEAD_NEAR = 8 * 1024, AHEAD_READS = 16 };

typedef struct main_file {
    sqlite3_file base; /* first: SQLite hands it back */
    sqlite3_file *below;
    unsigned kept; /* a bit for each slot: held, though given back */
    /* Pages read before they are asked for. */
    char *ahead;
    sqlite3_int64 ahead_at;
    int ahead_len;
    sqlite3_int64 last; /* where the table that is read has come to */
    int nearby;         /* how many reads went on from there, less those that did not */
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
    m->ahead_len = 0;
}

static int main_shm_lock(sqlite3_file *f, int first, int n, int flags)
{
    main_file *m = of(f);
    unsigned slots = bits_of(first, n);
    if ((flags & SQLITE_SHM_LOCK) != 0) /* a transaction begins, or something else that matters */
        forget_ahead(m);
    bool may_keep =
        n == 1 && (first == WRITER || first >= FIRST_READER) && (flags & kind_of(first)) != 0;
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
    tci_mem_free(m->ahead);
    m->base.pMethods = NULL;
    return m->below->pMethods->xClose(m->below);
}

static bool is_ahead(const main_file *m, int len, sqlite3_int64 offset)
{
    return offset >= m->ahead_at && offset + len <= m->ahead_at + m->ahead_len;
}

/* All pages around offset: a table that grew is there one after the other, if not in order. */
static void read_ahead(main_file *m, sqlite3_int64 offset)
{
    sqlite3_int64 size;
    if (m->ahead == NULL)
        m->ahead = tci_mem_resize(NULL, AHEAD_BYTES);
    m->ahead_len = 0;
    m->ahead_at = offset - offset % AHEAD_BYTES;
    if (m->ahead == NULL || m->below->pMethods->xFileSize(m->below, &size) != SQLITE_OK ||
        size <= m->ahead_at)
        return;
    int want = size - m->ahead_at < AHEAD_BYTES ? (int)(size - m->ahead_at) : AHEAD_BYTES;
    if (m->below->pMethods->xRead(m->below, m->ahead, want, m->ahead_at) == SQLITE_OK)
        m->ahead_len = want;
}

/* Pages are small: a long table is read in pieces of many. */
static int main_read(sqlite3_file *f, void *bytes, int len, sqlite3_int64 offset)
{
    main_file *m = of(f);
    sqlite3_int64 distance = offset > m->last ? offset - m->last : m->last - offset;
    bool is_near = distance <= AHEAD_NEAR;
    if (is_near)
        m->nearby += m->nearby < 2 * AHEAD_READS ? 1 : 0;
    else
        m->nearby -= m->nearby > 0 ? 1 : 0; /* a page of an index, maybe */
    if (is_near || m->nearby == 0)
        m->last = offset;
    if (is_near && !is_ahead(m, len, offset) && m->nearby >= AHEAD_READS)
        read_ahead(m, offset);
    if (!is_ahead(m, len, offset))
        return m->below->pMethods->xRead(m->below, bytes, len, offset);
    memcpy(bytes, m->ahead + (offset - m->ahead_at), (size_t)len);
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
    return of(f)->below->pMethods->xLock(of(f)->below, level);
}

static int main_unlock(sqlite3_file *f, int level)
{
    return of(f)->below->pMethods->xUnlock(of(f)->below, level);
}

static int main_check_reserved(sqlite3_file *f, int *ret)
{
    return of(f)->below->pMethods->xCheckReservedLock(of(f)->below, ret);
}

static int main_control(sqlite3_file *f, int op, void *arg)
{
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
    .iVersion = 2, /* nothing is mapped but the index */
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
    int rc = below->xOpen(below, name, m->below, flags, ret_flags);
    if (m->below->pMethods != NULL && m->below->pMethods->iVersion >= 2)
        m->base.pMethods = &main_methods;
    if (m->base.pMethods == NULL && m->below->pMethods != NULL) { /* not one we know */
        (void)m->below->pMethods->xClose(m->below);
        rc = rc != SQLITE_OK ? rc : SQLITE_CANTOPEN;
    }
    return rc;
}
