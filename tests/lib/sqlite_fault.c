/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk under SQLite that breaks: a layer over the default one. Of every file it knows what was synced
 * last and what was written since. */
#include "sqlite_fault.h"

#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES_MAX = 16, NAME_MAX_BYTES = 1024, SECTOR = 512 };

typedef struct pending {
    sqlite3_int64 offset;
    size_t len;
    char *bytes; /* NULL: a truncation to offset */
    struct pending *next;
} pending;

/* What is on the disk under a name. */
typedef struct disk_file {
    char name[NAME_MAX_BYTES];
    char *synced;
    size_t len, cap;
    pending *first, **last;
} disk_file;

typedef struct fault_file {
    sqlite3_file base;
    disk_file *disk; /* NULL: not looked at */
    sqlite3_file *real;
} fault_file;

static struct {
    sqlite3_vfs vfs, *real;
    sqlite3_io_methods methods;
    disk_file files[FILES_MAX];
    fault_how how;
    unsigned at, count;
    bool has_struck;
} F;

/* ---- counting ---- */

/* What becomes of the operation that is about to happen. */
typedef enum verdict { GOES, HALF, FAILS } verdict;

static verdict next_operation(bool is_sync)
{
    if (F.how == FAULT_SYNC_FAILS && !is_sync)
        return GOES;
    F.count++;
    if (F.how == FAULT_NONE || F.count < F.at)
        return GOES;
    bool is_first = F.count == F.at;
    F.has_struck = true;
    if (F.how == FAULT_SYNC_FAILS)
        return is_first ? FAILS : GOES;
    return F.how == FAULT_CUTS && is_first ? HALF : FAILS;
}

static int error_of(int otherwise)
{
    return F.how == FAULT_FULL ? SQLITE_FULL : otherwise;
}

void fault_set(fault_how how, unsigned n)
{
    F.how = how;
    F.at = n;
    F.count = 0;
    F.has_struck = false;
}

unsigned fault_count(void)
{
    return F.count;
}

bool fault_has_struck(void)
{
    return F.has_struck;
}

/* ---- what is on the disk ---- */

static void load(disk_file *d);

static disk_file *disk_of(const char *name)
{
    disk_file *free_one = NULL;
    for (size_t i = 0; i < FILES_MAX; i++) {
        if (strcmp(F.files[i].name, name) == 0)
            return &F.files[i];
        if (F.files[i].name[0] == 0 && free_one == NULL)
            free_one = &F.files[i];
    }
    if (free_one == NULL || strlen(name) >= NAME_MAX_BYTES)
        abort();
    (void)snprintf(free_one->name, sizeof free_one->name, "%s", name);
    free_one->last = &free_one->first;
    load(free_one);
    return free_one;
}

static void *must_have(void *ptr)
{
    if (ptr == NULL)
        abort();
    return ptr;
}

/* What was there before us is on the disk for good. */
static void load(disk_file *d)
{
    FILE *f = fopen(d->name, "rb");
    if (f == NULL)
        return;
    (void)fseek(f, 0, SEEK_END);
    d->len = (size_t)ftell(f);
    rewind(f);
    d->cap = d->len + 1;
    d->synced = must_have(malloc(d->cap));
    if (fread(d->synced, 1, d->len, f) != d->len)
        abort();
    (void)fclose(f);
}

static void drop_pending(disk_file *d)
{
    while (d->first != NULL) {
        pending *p = d->first;
        d->first = p->next;
        free(p->bytes);
        free(p);
    }
    d->last = &d->first;
}

static void forget(disk_file *d)
{
    drop_pending(d);
    free(d->synced);
    memset(d, 0, sizeof *d);
}

static void note(disk_file *d, const void *bytes, size_t len, sqlite3_int64 offset)
{
    pending *p = must_have(calloc(1, sizeof *p));
    p->offset = offset;
    p->len = len;
    if (bytes != NULL) {
        p->bytes = must_have(malloc(len));
        memcpy(p->bytes, bytes, len);
    }
    *d->last = p;
    d->last = &p->next;
}

/* Put one piece where it belongs in the synced image. */
static void put(disk_file *d, size_t offset, const char *bytes, size_t len)
{
    if (offset + len > d->len) {
        if (offset + len > d->cap) {
            d->cap = 2 * (offset + len);
            d->synced = must_have(realloc(d->synced, d->cap));
        }
        memset(d->synced + d->len, 0, offset + len - d->len);
        d->len = offset + len;
    }
    memcpy(d->synced + offset, bytes, len);
}

static void settle(disk_file *d, bool (*is_kept)(void *user), void *user)
{
    for (const pending *p = d->first; p != NULL; p = p->next) {
        if (p->bytes == NULL) {
            if (is_kept(user) && (size_t)p->offset < d->len)
                d->len = (size_t)p->offset;
            continue;
        }
        for (size_t at = 0; at < p->len; at += SECTOR) {
            size_t len = p->len - at < SECTOR ? p->len - at : SECTOR;
            if (is_kept(user))
                put(d, (size_t)p->offset + at, p->bytes + at, len);
        }
    }
    drop_pending(d);
}

static bool all(void *user)
{
    (void)user;
    return true;
}

static bool none(void *user)
{
    (void)user;
    return false;
}

static bool some(void *user)
{
    uint64_t *state = user;
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 60) & 1;
}

static void write_out(const disk_file *d)
{
    FILE *f = must_have(fopen(d->name, "wb"));
    if (fwrite(d->synced, 1, d->len, f) != d->len || fclose(f) != 0)
        abort();
}

void fault_restart(fault_after after, unsigned seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < FILES_MAX; i++) {
        disk_file *d = &F.files[i];
        size_t len = strlen(d->name);
        if (len == 0)
            continue;
        if (after != AFTER_KILL) {
            settle(d, after == AFTER_POWER_CUT ? none : some, &state);
            write_out(d);
        }
        char index[NAME_MAX_BYTES + 8];
        (void)snprintf(index, sizeof index, "%s-shm", d->name);
        (void)unlink(index); /* it is only memory */
        forget(d);
    }
    fault_set(FAULT_NONE, 0);
}

/* ---- the file calls ---- */

static fault_file *of(sqlite3_file *f)
{
    return (fault_file *)(void *)f;
}

static int do_close(sqlite3_file *f)
{
    sqlite3_file *real = of(f)->real;
    int rc = real->pMethods != NULL ? real->pMethods->xClose(real) : SQLITE_OK;
    of(f)->base.pMethods = NULL;
    return rc;
}

static int do_read(sqlite3_file *f, void *bytes, int len, sqlite3_int64 offset)
{
    sqlite3_file *real = of(f)->real;
    return real->pMethods->xRead(real, bytes, len, offset);
}

static int do_write(sqlite3_file *f, const void *bytes, int len, sqlite3_int64 offset)
{
    sqlite3_file *real = of(f)->real;
    disk_file *d = of(f)->disk;
    verdict v = d != NULL ? next_operation(false) : GOES;
    if (v == FAILS)
        return error_of(SQLITE_IOERR_WRITE);
    int n = v == HALF ? len / 2 : len;
    int rc = n > 0 ? real->pMethods->xWrite(real, bytes, n, offset) : SQLITE_OK;
    if (rc == SQLITE_OK && d != NULL && n > 0)
        note(d, bytes, (size_t)n, offset);
    return v == HALF ? SQLITE_IOERR_WRITE : rc;
}

static int do_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    sqlite3_file *real = of(f)->real;
    disk_file *d = of(f)->disk;
    if (d != NULL && next_operation(false) != GOES)
        return error_of(SQLITE_IOERR_TRUNCATE);
    int rc = real->pMethods->xTruncate(real, size);
    if (rc == SQLITE_OK && d != NULL)
        note(d, NULL, 0, size);
    return rc;
}

/* The disk of the tests keeps what it is told to keep: there is no need to wait for the real one. */
static int do_sync(sqlite3_file *f, int flags)
{
    (void)flags;
    disk_file *d = of(f)->disk;
    if (d == NULL)
        return SQLITE_OK;
    if (next_operation(true) != GOES)
        return error_of(SQLITE_IOERR_FSYNC);
    settle(d, all, NULL);
    return SQLITE_OK;
}

static int do_file_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    sqlite3_file *real = of(f)->real;
    return real->pMethods->xFileSize(real, ret);
}
static int do_lock(sqlite3_file *f, int level)
{
    sqlite3_file *real = of(f)->real;
    return real->pMethods->xLock(real, level);
}
static int do_unlock(sqlite3_file *f, int level)
{
    sqlite3_file *real = of(f)->real;
    return real->pMethods->xUnlock(real, level);
}
static int do_check_reserved(sqlite3_file *f, int *ret)
{
    sqlite3_file *real = of(f)->real;
    return real->pMethods->xCheckReservedLock(real, ret);
}
static int do_file_control(sqlite3_file *f, int op, void *arg)
{
    sqlite3_file *real = of(f)->real;
    return real->pMethods->xFileControl(real, op, arg);
}
static int do_sector_size(sqlite3_file *f)
{
    sqlite3_file *real = of(f)->real;
    return real->pMethods->xSectorSize(real);
}
static int do_characteristics(sqlite3_file *f)
{
    sqlite3_file *real = of(f)->real;
    return real->pMethods->xDeviceCharacteristics(real);
}
static int do_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **ret)
{
    sqlite3_file *real = of(f)->real;
    return real->pMethods->xShmMap(real, page, size, extend, ret);
}
static int do_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    sqlite3_file *real = of(f)->real;
    return real->pMethods->xShmLock(real, offset, n, flags);
}
static void do_shm_barrier(sqlite3_file *f)
{
    sqlite3_file *real = of(f)->real;
    real->pMethods->xShmBarrier(real);
}
static int do_shm_unmap(sqlite3_file *f, int delete_it)
{
    sqlite3_file *real = of(f)->real;
    return real->pMethods->xShmUnmap(real, delete_it);
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
    (void)vfs;
    fault_file *file = of(f);
    file->real = (sqlite3_file *)(void *)(file + 1);
    file->disk = NULL;
    file->base.pMethods = NULL;
    int rc = F.real->xOpen(F.real, name, file->real, flags, ret_flags);
    if (file->real->pMethods == NULL)
        return rc;
    F.methods.iVersion = 2; /* without memory maps: every read and write is to be seen */
    file->base.pMethods = &F.methods;
    if (rc == SQLITE_OK && name != NULL &&
        (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0)
        file->disk = disk_of(name);
    return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    (void)vfs;
    if (next_operation(false) != GOES)
        return error_of(SQLITE_IOERR_DELETE);
    int rc = F.real->xDelete(F.real, name, sync_folder);
    for (size_t i = 0; i < FILES_MAX; i++)
        if (strcmp(F.files[i].name, name) == 0)
            forget(&F.files[i]);
    return rc;
}

void fault_install(void)
{
    F.real = sqlite3_vfs_find(NULL);
    F.vfs = *F.real;
    F.vfs.zName = "fault";
    F.vfs.pNext = NULL;
    F.vfs.szOsFile = (int)sizeof(fault_file) + F.real->szOsFile;
    F.vfs.xOpen = vfs_open;
    F.vfs.xDelete = vfs_delete;
    F.methods = (sqlite3_io_methods){2,
                                     do_close,
                                     do_read,
                                     do_write,
                                     do_truncate,
                                     do_sync,
                                     do_file_size,
                                     do_lock,
                                     do_unlock,
                                     do_check_reserved,
                                     do_file_control,
                                     do_sector_size,
                                     do_characteristics,
                                     do_shm_map,
                                     do_shm_lock,
                                     do_shm_barrier,
                                     do_shm_unmap,
                                     NULL,
                                     NULL};
    (void)sqlite3_vfs_register(&F.vfs, 1);
}

void fault_uninstall(void)
{
    for (size_t i = 0; i < FILES_MAX; i++)
        if (F.files[i].name[0] != 0)
            forget(&F.files[i]);
    (void)sqlite3_vfs_unregister(&F.vfs);
    (void)sqlite3_vfs_register(F.real, 1);
}
