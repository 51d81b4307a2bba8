/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on paths. Leaves open files to pienv_handle.c, writing to pienv_write.c.
 *
 * A handler decides on the loop where its work runs: metadata of this machine's own file systems at once,
 * since changing threads costs more than the call; what takes long on a thread of the pool; what may hang
 * on a thread of its own. The work is the same function in all places.
 *
 * Invariant: work touches nothing but its request. */
#include "daemon/pienv/pienv_path_int.h"

#include "ops/removal.h"
#include "plat/clock.h"

#include <errno.h>

enum { TEMP_TRIES = 128 };
#define QUICK_REMOVE_BYTES (16 * 1024 * 1024)

/* ---- facts ---- */

/* As a path is taken apart: "a/b/" and "a/b/." are b; "/", "." and ".." have no name. */
tc_str tci_pi_last_name(tc_str path)
{
    for (;;) {
        while (path.len > 0 && path.ptr[path.len - 1] == '/')
            path.len--;
        if (path.len < 2 || !tci_str_ends(path, TC_STR("/.")))
            break;
        path.len--;
    }
    size_t slash = tci_str_rfind_byte(path, '/');
    tc_str name = slash < path.len ? tci_str_sub(path, slash + 1, path.len) : path;
    bool is_none = tci_str_eq(name, TC_STR(".")) || tci_str_eq(name, TC_STR(".."));
    return is_none ? TC_STR("") : name;
}

void tci_pi_info_of(const tci_file_stat *st, tc_str name, bool has_ext, tci_pi_info *ret)
{
    static const tci_pi_kind kinds[] = {
        [TCI_FILE_KIND_OTHER] = TCI_PI_KIND_OTHER,
        [TCI_FILE_KIND_REGULAR] = TCI_PI_KIND_FILE,
        [TCI_FILE_KIND_DIRECTORY] = TCI_PI_KIND_DIRECTORY,
        [TCI_FILE_KIND_SYMLINK] = TCI_PI_KIND_SYMLINK,
    };
    *ret = (tci_pi_info){
        .name = name,
        .kind = kinds[st->kind],
        .size = st->size,
        .mtime_sec = st->modified.sec,
        .mtime_nsec = (uint32_t)st->modified.nsec,
        .dev = st->dev,
        .ino = st->ino,
        .has_mode = has_ext,
        .mode = st->mode,
    };
}

/* ---- where work runs ---- */

void tci_pi_run(tci_pi_req *r, tci_pi_place place, void (*work)(tci_pi_req *r),
                tci_pi_handler after)
{
    bool is_local = tci_pi_all_local(r->server);
    if (!is_local || place == TCI_PI_OWN_THREAD)
        tci_pi_work(r, TCI_PI_STUCK, work, after);
    else if (place == TCI_PI_ON_POOL)
        tci_pi_work(r, TCI_PI_QUICK, work, after);
    else {
        work(r);
        if (after != NULL)
            after(r);
        else
            tci_pi_finish(r);
    }
}

tci_pi_place tci_pi_place_of(tci_pi_req *r, tc_str path, tci_pi_place usual)
{
    tc_err ignored; /* the call itself will tell */
    tci_file_stat st;
    if (!tci_pi_all_local(r->server))
        return TCI_PI_OWN_THREAD;
    bool is_other = tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &ignored) == 0 &&
                    st.kind == TCI_FILE_KIND_OTHER;
    return is_other ? TCI_PI_OWN_THREAD : usual;
}

int tci_pi_failed(tci_pi_req *r, const tc_err *err, const char *syscall, tc_str path)
{
    tci_pi_failure_of(err, syscall, path, &r->arena, &r->failure);
    return -1;
}

int tci_pi_failed_os(tci_pi_req *r, int os, const char *syscall, tc_str path)
{
    r->failure = (tci_pi_failure){.os = os, .syscall = syscall, .path = path};
    return -1;
}

/* ---- lstat, realpath ---- */

static void work_lstat(tci_pi_req *r)
{
    tc_err err;
    tci_file_stat st;
    const tci_pi_lstat_params *p = r->params;
    bool has_ext = tci_pi_has_ext(r->server), follow = has_ext && p->follow;
    if (tci_file_stat_at(TCI_FILE_CWD, p->path, follow, &st, &err) < 0)
        (void)tci_pi_failed(r, &err, follow ? "stat" : "lstat", p->path);
    else
        tci_pi_info_of(&st, tci_pi_last_name(p->path), has_ext, r->result);
}

void tci_pi_on_lstat(tci_pi_req *r)
{
    tci_pi_run(r, TCI_PI_AT_ONCE, work_lstat, NULL);
}

static void work_realpath(tci_pi_req *r)
{
    tc_err err;
    tc_str real;
    tci_buf text;
    char buf[TCI_PATH_MAX];
    const tci_pi_realpath_params *p = r->params;
    tci_pi_realpath_result *result = r->result;
    if (tci_file_realpath(p->path, buf, &real, &err) < 0) {
        (void)tci_pi_failed(r, &err, "realpath", p->path);
        return;
    }
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_pi_put_lossy(&text, real);
    if (!tci_buf_ok(&text) || tci_arena_dup(&r->arena, tci_buf_str(&text), &result->path, &err) < 0)
        (void)tci_pi_failed_os(r, ENOMEM, "realpath", p->path);
    tci_buf_done(&text);
}

void tci_pi_on_realpath(tci_pi_req *r)
{
    tci_pi_run(r, TCI_PI_AT_ONCE, work_realpath, NULL);
}

/* ---- truncate, fsync, syncfs ---- */

static void work_truncate(tci_pi_req *r)
{
    tc_err err;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    const tci_pi_truncate_params *p = r->params;
    if (p->size > INT64_MAX)
        (void)tci_pi_failed_os(r, EINVAL, "ftruncate", p->path);
    else if (tci_file_open(p->path, TCI_OPEN_READ | TCI_OPEN_WRITE, 0, &f, &err) < 0)
        (void)tci_pi_failed(r, &err, "open", p->path);
    else if (tci_file_truncate(f, p->size, &err) < 0)
        (void)tci_pi_failed(r, &err, "ftruncate", p->path);
}

void tci_pi_on_truncate(tci_pi_req *r)
{
    const tci_pi_truncate_params *p = r->params;
    tci_pi_run(r, tci_pi_place_of(r, p->path, TCI_PI_ON_POOL), work_truncate, NULL);
}

static void work_fsync(tci_pi_req *r)
{
    tc_err err;
    tci_file_stat st;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    const tci_pi_fsync_params *p = r->params;
    bool is_known = tci_file_stat_at(TCI_FILE_CWD, p->path, true, &st, &err) == 0;
    if (is_known && st.kind == TCI_FILE_KIND_DIRECTORY)
        (void)tci_pi_failed_os(r, EISDIR, "open", p->path);
    else if (tci_file_open(p->path, TCI_OPEN_READ | TCI_OPEN_WRITE, 0, &f, &err) < 0)
        (void)tci_pi_failed(r, &err, "open", p->path);
    else if (tci_file_sync(f, &err) < 0)
        (void)tci_pi_failed(r, &err, "fsync", p->path);
}

void tci_pi_on_fsync(tci_pi_req *r)
{
    tci_pi_run(r, TCI_PI_OWN_THREAD, work_fsync, NULL);
}

static void work_syncfs(tci_pi_req *r)
{
    tc_err err;
    tc_str parent, name;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    const tci_pi_syncfs_params *p = r->params;
    int rc = tci_file_open(p->path, TCI_OPEN_READ | TCI_OPEN_NONBLOCK, 0, &f, &err);
    if (rc < 0 && (err.os == EACCES || err.os == ENXIO)) { /* its folder will do */
        tci_path_split(p->path, &parent, &name);
        rc = tci_file_open(parent, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &f, &err);
    }
    if (rc < 0)
        (void)tci_pi_failed(r, &err, "open", p->path);
    else if (tci_file_sync_fs(f, &err) < 0)
        (void)tci_pi_failed(r, &err, "syncfs", p->path);
}

void tci_pi_on_syncfs(tci_pi_req *r)
{
    tci_pi_run(r, TCI_PI_OWN_THREAD, work_syncfs, NULL);
}

/* ---- rename ---- */

static void work_rename(tci_pi_req *r)
{
    tc_err err;
    const tci_pi_rename_params *p = r->params;
    if (tci_file_rename(TCI_FILE_CWD, p->path, TCI_FILE_CWD, p->to, TCI_RENAME_REPLACE, &err) == 0)
        return;
    (void)tci_pi_failed(r, &err, "rename", p->path);
    r->failure.dest = p->to;
}

void tci_pi_on_rename(tci_pi_req *r)
{
    tci_pi_run(r, TCI_PI_AT_ONCE, work_rename, NULL);
}

/* ---- folders ---- */

static bool is_folder(tc_str path)
{
    tc_err ignored;
    tci_file_stat st;
    return tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &ignored) == 0 &&
           st.kind == TCI_FILE_KIND_DIRECTORY;
}

/* One step: a folder that is there is fine. */
static int make_one(tc_str path, tc_err *err)
{
    int rc = tci_file_mkdir(TCI_FILE_CWD, path, 0777, err);
    return rc < 0 && err->os == EEXIST && is_folder(path) ? 0 : rc;
}

/* Up to the first folder that can be made or is there, then down again. */
int tci_pi_make_folders(tci_pi_req *r, tc_str path)
{
    tc_err err;
    tc_str at = path, parent, name;
    int rc = make_one(at, &err);
    while (rc < 0 && err.os == ENOENT) {
        tc_str full = at;
        while (full.len > 1 && full.ptr[full.len - 1] == '/')
            full.len--;
        tci_path_split(full, &parent, &name);
        if (parent.len >= full.len || name.len == 0 || parent.ptr != path.ptr)
            break; /* nothing is above it */
        at = parent;
        rc = make_one(at, &err);
    }
    if (rc < 0 && err.os == EEXIST && at.len < path.len)
        return tci_pi_failed_os(r, ENOTDIR, "mkdir", path); /* in the way: a link to nothing */
    while (rc == 0 && at.len < path.len) {
        size_t end = at.len;
        while (end < path.len && path.ptr[end] == '/')
            end++;
        while (end < path.len && path.ptr[end] != '/')
            end++;
        at = tci_str_sub(path, 0, end);
        rc = make_one(at, &err);
    }
    return rc < 0 ? tci_pi_failed(r, &err, "mkdir", at) : 0;
}

static void work_mkdir(tci_pi_req *r)
{
    tc_err err;
    const tci_pi_mkdir_params *p = r->params;
    if (p->recursive)
        (void)tci_pi_make_folders(r, p->path);
    else if (tci_file_mkdir(TCI_FILE_CWD, p->path, 0777, &err) < 0)
        (void)tci_pi_failed(r, &err, "mkdir", p->path);
}

void tci_pi_on_mkdir(tci_pi_req *r)
{
    tci_pi_run(r, TCI_PI_AT_ONCE, work_mkdir, NULL);
}

/* As even as 256 allows: 62 * 4 = 248 values count, the others are drawn again. */
void tci_pi_random_letters(char out[TCI_PI_TEMP_LETTERS])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    for (size_t n = 0; n < TCI_PI_TEMP_LETTERS;) {
        uint8_t byte;
        tci_random_bytes(&byte, sizeof byte);
        if (byte < 248)
            out[n++] = letters[byte % 62];
    }
}

static void work_mkdtemp(tci_pi_req *r)
{
    tc_err err;
    const tci_pi_mkdtemp_params *p = r->params;
    tci_pi_mkdtemp_result *result = r->result;
    char *text = tci_arena_bytes(&r->arena, p->path.len + TCI_PI_TEMP_LETTERS);
    if (text == NULL) {
        (void)tci_pi_failed_os(r, ENOMEM, "mkdtemp", p->path);
        return;
    }
    if (p->path.len > 0)
        memcpy(text, p->path.ptr, p->path.len);
    result->path = tci_str_of(text, p->path.len + TCI_PI_TEMP_LETTERS);
    if (tci_str_find_byte(p->path, '\0') < p->path.len) {
        (void)tci_pi_failed_os(r, EINVAL, "mkdtemp", p->path);
        return;
    }
    int rc = -1;
    err.os = EEXIST;
    for (int i = 0; rc < 0 && err.os == EEXIST && i < TEMP_TRIES; i++) {
        tci_pi_random_letters(text + p->path.len);
        rc = tci_file_mkdir(TCI_FILE_CWD, result->path, 0700, &err);
    }
    if (rc < 0)
        (void)tci_pi_failed(r, &err, "mkdtemp", result->path);
}

void tci_pi_on_mkdtemp(tci_pi_req *r)
{
    tci_pi_run(r, TCI_PI_AT_ONCE, work_mkdtemp, NULL);
}

/* ---- rm ---- */

/* true: a name to unlink. false: it is settled, or (with a folder) the tree has to go. */
static bool look_at(tci_pi_req *r, tci_file_stat *st)
{
    tc_err err;
    const tci_pi_rm_params *p = r->params;
    if (tci_file_stat_at(TCI_FILE_CWD, p->path, false, st, &err) < 0) {
        if (!p->force || err.os != ENOENT)
            (void)tci_pi_failed(r, &err, "lstat", p->path);
        return false;
    }
    if (st->kind != TCI_FILE_KIND_DIRECTORY)
        return true;
    if (!p->recursive) {
        r->failure = (tci_pi_failure){.code = "ERR_FS_EISDIR", .syscall = "rm", .path = p->path};
        if (tci_arena_printf(&r->arena, &r->failure.message, &err,
                             "Path is a directory: rm returned EISDIR (is a directory) %.*s",
                             TC_STR_ARG(p->path)) < 0)
            r->failure.message = TC_STR("Path is a directory");
    }
    return false;
}

static void unlink_it(tci_pi_req *r)
{
    tc_err err;
    const tci_pi_rm_params *p = r->params;
    if (tci_file_unlink(TCI_FILE_CWD, p->path, &err) < 0 && !(p->force && err.os == ENOENT))
        (void)tci_pi_failed(r, &err, "unlink", p->path);
}

static void remove_folder(tci_pi_req *r)
{
    tc_err err;
    const char *syscall = "rmdir";
    const tci_pi_rm_params *p = r->params;
    int rc = tci_ops_remove_tree(p->path, &syscall, &err);
    if (rc < 0 && !(p->force && err.os == ENOENT))
        (void)tci_pi_failed(r, &err, syscall, p->path);
}

static void work_rm(tci_pi_req *r)
{
    tci_file_stat st;
    st.kind = TCI_FILE_KIND_OTHER;
    if (look_at(r, &st))
        unlink_it(r);
    else if (!tci_pi_has_failed(r) && st.kind == TCI_FILE_KIND_DIRECTORY)
        remove_folder(r);
}

/* Giving the blocks of a large file back takes its time, and so does a tree. */
void tci_pi_on_rm(tci_pi_req *r)
{
    tc_err ignored;
    tci_file_stat st;
    const tci_pi_rm_params *p = r->params;
    tci_pi_place place = TCI_PI_AT_ONCE;
    if (tci_pi_all_local(r->server) &&
        tci_file_stat_at(TCI_FILE_CWD, p->path, false, &st, &ignored) == 0) {
        if (st.kind == TCI_FILE_KIND_DIRECTORY && p->recursive)
            place = TCI_PI_OWN_THREAD;
        else if (st.kind == TCI_FILE_KIND_REGULAR && st.size > QUICK_REMOVE_BYTES)
            place = TCI_PI_ON_POOL;
    }
    tci_pi_run(r, place, work_rm, NULL);
}
