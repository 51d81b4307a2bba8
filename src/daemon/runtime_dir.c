/* SPDX-License-Identifier: Apache-2.0
 *
 * See runtime_dir.h. Runs before the loop and after it; blocking.
 *
 * Invariant: nothing is removed or made below the folder before its lock is held. */
#include "daemon/runtime_dir.h"

#include "base/hash.h"
#include "base/mem.h"
#include "ops/stage_journal.h"
#include "plat/clock.h"
#include "plat/dir.h"
#include "plat/file.h"

#include <stdio.h>

#define LOCK_NAME ".a13n-envd.lock"
#define GENERATION_PREFIX "generation-"
enum { ID_BYTES = 16, LOCK_WAIT_MS = 10000, TREE_DEPTH_MAX = 8 };

struct tci_runtime_dir {
    tci_file parent, lock;
    tci_stage_journal *journal;
    bool has_left;       /* generations of dead daemons that are still needed */
    char generation[64]; /* name below parent */
    char folder[TCI_PATH_MAX];
    char spool[TCI_PATH_MAX];
};

/* ---- removing ---- */

static int remove_tree(tci_file parent, tc_str name, unsigned depth, tc_err *err);

static int remove_children(tci_file dir, unsigned depth, tc_err *err)
{
    tci_dir_entry e;
    tci_dir_reader reader;
    tci_dir view = {.fd_plus_1 = dir.fd + 1}; /* borrowed: never closed through this */
    char *buf = tci_mem_alloc(TCI_DIR_READ_BYTES);
    if (buf == NULL)
        return tci_err_no_memory(err);
    int rc = tci_dir_read_start(&reader, &view, buf, err);
    while (rc >= 0 && (rc = tci_dir_read_next(&reader, &e, err)) > 0) {
        rc = e.kind == TCI_DIR_KIND_DIRECTORY ? remove_tree(dir, e.name, depth + 1, err)
                                              : tci_file_unlink(dir, e.name, err);
    }
    tci_free(buf);
    return rc;
}

/* Our own folders only: shallow, never through a link. */
static int remove_tree(tci_file parent, tc_str name, unsigned depth, tc_err *err)
{
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    if (depth > TREE_DEPTH_MAX)
        return tc_err_set(err, TC_E_INVALID, "'%.*s' is too deep to be ours", TC_STR_ARG(name));
    if (tci_file_openat(parent, name, TCI_OPEN_READ | TCI_OPEN_DIRECTORY | TCI_OPEN_NOFOLLOW, 0,
                        &dir, err) < 0 ||
        remove_children(dir, depth, err) < 0)
        return err->code;
    tci_file_close(&dir);
    return tci_file_rmdir(parent, name, err);
}

/* ---- opening ---- */

static int make_folder(tc_str path, tci_file *ret, tc_err *err)
{
    tc_err mkdir_err;
    tci_file_stat st;
    int rc = tci_file_mkdir(TCI_FILE_CWD, path, 0700, &mkdir_err);
    if (rc == TC_E_NOT_FOUND) { /* make the parents too */
        tc_str parent, name;
        TCI_FILE_AUTO made = TCI_FILE_NONE;
        tci_path_split(path, &parent, &name);
        if (name.len == 0 || make_folder(parent, &made, err) < 0)
            return name.len == 0 ? tc_err_set(err, TC_E_NOT_FOUND, "no root folder")
                                 : (int)err->code;
        rc = tci_file_mkdir(TCI_FILE_CWD, path, 0700, &mkdir_err);
    }
    if (rc < 0 && rc != TC_E_CONFLICT) {
        *err = mkdir_err;
        return rc;
    }
    if (tci_file_open(path, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, ret, err) < 0)
        return err->code;
    return tci_file_stat_of(*ret, &st, err);
}

static int take_lock(tci_runtime_dir *d, tc_str path, tc_err *err)
{
    unsigned flags = TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_NOFOLLOW;
    if (tci_file_openat(d->parent, TC_STR(LOCK_NAME), flags, 0600, &d->lock, err) < 0)
        return tc_err_wrap(err, "cannot open runtime lock");
    int rc = tci_file_try_lock(d->lock, err);
    if (rc == TC_E_BUSY) {
        rc = tc_err_set(err, TC_E_CONFLICT, "runtime parent is already owned: %.*s",
                        TC_STR_ARG(path));
        (void)tc_err_hint(err,
                          "stop the other daemon, or name another folder in TELECHIRD_RUNTIME_DIR");
    }
    return rc;
}

/* Clear up after one dead generation: its staged files elsewhere, then its folder. */
static int clear_stale(tci_runtime_dir *d, tc_str path, tc_str name, tc_err *err)
{
    char folder[TCI_PATH_MAX];
    tci_stage_journal *journal = NULL;
    int n = snprintf(folder, sizeof folder, "%.*s/%.*s", TC_STR_ARG(path), TC_STR_ARG(name));
    if (n < 0 || (size_t)n >= sizeof folder)
        return tc_err_set(err, TC_E_TOO_BIG, "runtime path is too long");
    tci_stage_replay replay;
    if (tci_stage_journal_open(tci_str(folder), &journal, &replay, err) < 0)
        return err->code;
    tci_stage_journal_close(journal);
    if (replay.left > 0) { /* they could not be removed: their journal tries again next time */
        d->has_left = true;
        return 0;
    }
    return remove_tree(d->parent, name, 0, err);
}

static int check_entry(tci_runtime_dir *d, tc_str path, tc_str name, tc_err *err)
{
    tci_file_stat st;
    if (tci_str_eq(name, TC_STR(LOCK_NAME)))
        return 0;
    if (tci_file_stat_at(d->parent, name, false, &st, err) < 0)
        return err->code;
    if (st.kind != TCI_FILE_KIND_DIRECTORY || !tci_str_starts(name, TC_STR(GENERATION_PREFIX)))
        return tc_err_set(err, TC_E_INVALID, "runtime parent holds an unknown entry: %.*s",
                          TC_STR_ARG(name));
    return clear_stale(d, path, name, err);
}

static int clear_all(tci_runtime_dir *d, tc_str path, tc_err *err)
{
    tci_dir_entry e;
    tci_dir_reader reader;
    tci_dir view = {.fd_plus_1 = d->parent.fd + 1};
    char *buf = tci_mem_alloc(TCI_DIR_READ_BYTES);
    if (buf == NULL)
        return tci_err_no_memory(err);
    int rc = tci_dir_read_start(&reader, &view, buf, err);
    while (rc >= 0 && (rc = tci_dir_read_next(&reader, &e, err)) > 0)
        rc = check_entry(d, path, e.name, err);
    tci_free(buf);
    return rc;
}

static int make_generation(tci_runtime_dir *d, tc_str path, tc_err *err)
{
    uint8_t id[ID_BYTES];
    char hex[2 * ID_BYTES];
    tci_random_bytes(id, sizeof id);
    tci_hex(id, sizeof id, hex);
    (void)snprintf(d->generation, sizeof d->generation, GENERATION_PREFIX "%.*s", (int)sizeof hex,
                   hex);
    int n = snprintf(d->spool, sizeof d->spool, "%.*s/%s/spool", TC_STR_ARG(path), d->generation);
    int m = snprintf(d->folder, sizeof d->folder, "%.*s/%s", TC_STR_ARG(path), d->generation);
    if (n < 0 || (size_t)n >= sizeof d->spool || m < 0 || (size_t)m >= sizeof d->folder)
        return tc_err_set(err, TC_E_TOO_BIG, "runtime path is too long");
    if (tci_file_mkdir(d->parent, tci_str(d->generation), 0700, err) < 0 ||
        tci_file_mkdir(TCI_FILE_CWD, tci_str(d->spool), 0700, err) < 0)
        return err->code;
    return 0;
}

int tci_runtime_dir_open(tc_str path, tci_runtime_dir **ret, tc_err *err)
{
    tci_runtime_dir *d = tci_new(tci_runtime_dir);
    if (d == NULL)
        return tci_err_no_memory(err);
    d->parent = d->lock = TCI_FILE_NONE;
    int rc = make_folder(path, &d->parent, err);
    if (rc == 0)
        rc = tci_file_chmod(d->parent, 0700, err);
    if (rc == 0)
        rc = take_lock(d, path, err);
    if (rc == 0)
        rc = clear_all(d, path, err);
    if (rc >= 0)
        rc = make_generation(d, path, err);
    if (rc < 0) {
        tci_runtime_dir_close(d);
        return rc;
    }
    *ret = d;
    return 0;
}

bool tci_runtime_dir_is_alone(const tci_runtime_dir *d)
{
    return !d->has_left;
}

void tci_runtime_dir_close(tci_runtime_dir *d)
{
    tc_err err;
    if (d == NULL)
        return;
    tci_stage_journal_close(d->journal);
    if (d->generation[0] != '\0' && remove_tree(d->parent, tci_str(d->generation), 0, &err) < 0)
        d->generation[0] = '\0'; /* left for the next start, which clears it */
    tci_file_close(&d->parent);
    tci_file_close(&d->lock);
    tci_free(d);
}

tc_str tci_runtime_dir_spool(const tci_runtime_dir *d)
{
    return tci_str(d->spool);
}

int tci_runtime_dir_journal(tci_runtime_dir *d, tci_stage_journal **ret, tc_err *err)
{
    if (d->journal == NULL &&
        tci_stage_journal_open(tci_str(d->folder), &d->journal, NULL, err) < 0)
        return tc_err_wrap(err, "cannot keep a journal of staged files");
    *ret = d->journal;
    return 0;
}

/* ---- identity ---- */

static bool is_identity(tc_str s)
{
    static const char digits[] = "0123456789abcdef";
    if (s.len != 7 + 2 * ID_BYTES || !tci_str_starts(s, TC_STR("device-")))
        return false;
    for (size_t i = 7; i < s.len; i++) {
        if (memchr(digits, s.ptr[i], sizeof digits - 1) == NULL)
            return false;
    }
    return true;
}

static int read_identity(tci_file dir, tci_arena *a, tc_str *ret_id, tc_err *err)
{
    char *text;
    size_t len;
    if (tci_file_read_whole(dir, TC_STR("device-id"), 4096, &text, &len, err) < 0)
        return err->code;
    int rc = is_identity(tci_str_of(text, len))
                 ? tci_arena_dup(a, tci_str_of(text, len), ret_id, err)
                 : tc_err_set(err, TC_E_INVALID, "persisted device identity is malformed");
    tci_free(text);
    return rc;
}

/* Under the lock: a name of its own first, so that a reader never sees half an identity. */
static int create_identity(tci_file dir, tc_err *err)
{
    uint8_t id[ID_BYTES];
    char text[7 + 2 * ID_BYTES] = "device-";
    tc_err unlink_err;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tc_str temp = TC_STR(".device-id.new");
    tci_random_bytes(id, sizeof id);
    tci_hex(id, sizeof id, text + 7);
    int rc = tci_file_openat(dir, temp, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE, 0644,
                             &f, err);
    if (rc == 0)
        rc = tci_file_write_all(f, text, sizeof text, err);
    if (rc == 0)
        rc = tci_file_sync(f, err);
    if (rc == 0)
        rc = tci_file_rename(dir, temp, dir, TC_STR("device-id"), TCI_RENAME_REPLACE, err);
    if (rc == 0)
        rc = tci_file_sync(dir, err);
    else if (tci_file_unlink(dir, temp, &unlink_err) < 0)
        (void)tc_err_hint(err, "remove '%.*s' by hand", TC_STR_ARG(temp));
    return rc;
}

int tci_device_identity(tc_str state_dir, tci_arena *a, tc_str *ret_id, tc_err *err)
{
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    TCI_FILE_AUTO lock = TCI_FILE_NONE;
    int rc = make_folder(state_dir, &dir, err);
    if (rc == 0)
        rc = tci_file_openat(dir, TC_STR(".device-id.lock"),
                             TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_NOFOLLOW,
                             0600, &lock, err);
    if (rc == 0)
        rc = tci_file_lock_byte(lock, 0, LOCK_WAIT_MS, err);
    if (rc < 0)
        return tc_err_wrap(err, "cannot use the state folder '%.*s'", TC_STR_ARG(state_dir));
    rc = read_identity(dir, a, ret_id, err);
    if (rc != TC_E_NOT_FOUND)
        return rc;
    rc = create_identity(dir, err);
    return rc < 0 ? rc : read_identity(dir, a, ret_id, err);
}
