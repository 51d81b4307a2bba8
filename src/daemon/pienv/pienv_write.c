/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing: in place, or (between our own two ends) into a new file that takes the name at the end.
 * Leaves handles to pienv_handle.c and how a file is replaced to ops/stage.h.
 *
 * Invariant: chunks of one handle are written one at a time in the order they came, and none after one
 * that failed. */
#include "daemon/pienv/pienv_path_int.h"

#include <errno.h>

enum { SMALL_BYTES = 64 * 1024, LINKS_MAX = 16 };

typedef struct write_state {
    bool may_wait;            /* a FIFO's reader, say */
    bool is_absent, is_plain; /* what was there at first: nothing, a regular file that is no link */
    tci_file file;            /* of one frame's work */
} write_state;

/* ---- opening ---- */

static tc_str parent_of(tc_str path)
{
    tc_str parent, name;
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    tci_path_split(path, &parent, &name);
    return name.len > 0 ? parent : path;
}

/* Missing folders are made only when it turns out that they are missing: the usual write makes one call. */
static int open_in_place(tci_pi_req *r, bool may_wait, tci_file *ret)
{
    tc_err err;
    const tci_pi_write_params *p = r->params;
    unsigned flags = TCI_OPEN_WRITE | TCI_OPEN_CREATE |
                     (p->append ? TCI_OPEN_APPEND : TCI_OPEN_TRUNCATE) |
                     (may_wait ? 0 : TCI_OPEN_NONBLOCK);
    int rc = tci_file_open(p->path, flags, 0666, ret, &err);
    if (rc < 0 && p->parents && (err.os == ENOENT || err.os == ENOTDIR)) {
        if (tci_pi_make_folders(r, parent_of(p->path)) < 0)
            return -1;
        rc = tci_file_open(p->path, flags, 0666, ret, &err);
    }
    return rc < 0 ? tci_pi_failed(r, &err, "open", p->path) : 0;
}

static void work_in_place(tci_pi_req *r)
{
    tc_err err;
    write_state *w = r->state;
    const tci_pi_write_params *p = r->params;
    if (open_in_place(r, w->may_wait, &w->file) < 0)
        return;
    if (r->payload.len > 0 && tci_file_write_all(w->file, r->payload.ptr, r->payload.len, &err) < 0)
        (void)tci_pi_failed(r, &err, "write", p->path);
    if (p->keep && !tci_pi_has_failed(r))
        r->handle->file = tci_file_take(&w->file);
    tci_file_close(&w->file);
}

/* ---- a new file that takes the name ---- */

/* Where a link leads, also when nothing is there yet. */
static int follow_links(tci_pi_req *r, tc_str path, tc_str *ret)
{
    tc_err err;
    tci_file_stat st;
    char buf[TCI_PATH_MAX];
    tc_str text;
    for (int i = 0; i < LINKS_MAX; i++) {
        bool is_link = tci_file_stat_at(TCI_FILE_CWD, path, false, &st, &err) == 0 &&
                       st.kind == TCI_FILE_KIND_SYMLINK;
        if (!is_link) {
            *ret = path;
            return 0;
        }
        if (tci_file_readlink(TCI_FILE_CWD, path, buf, sizeof buf, &text, &err) < 0)
            return tci_pi_failed(r, &err, "readlink", path);
        bool is_absolute = text.len > 0 && text.ptr[0] == '/';
        tc_str parent = parent_of(path);
        int rc = is_absolute ? tci_arena_dup(&r->arena, text, &path, &err)
                             : tci_arena_printf(&r->arena, &path, &err, "%.*s/%.*s",
                                                TC_STR_ARG(parent), TC_STR_ARG(text));
        if (rc < 0)
            return tci_pi_failed(r, &err, "readlink", path);
    }
    return tci_pi_failed_os(r, ELOOP, "open", path);
}

static int check_kind(tci_pi_req *r, tc_str path)
{
    tc_err ignored; /* the stage will tell */
    tci_file_stat st;
    if (tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &ignored) < 0)
        return 0;
    if (st.kind == TCI_FILE_KIND_DIRECTORY)
        return tci_pi_failed_os(r, EISDIR, "open", path);
    if (st.kind == TCI_FILE_KIND_OTHER)
        return tci_pi_failed_os(r, EINVAL, "open", path);
    return 0;
}

static int open_stage(tci_pi_req *r, tc_str path)
{
    tc_err err;
    const tci_pi_write_params *p = r->params;
    const write_state *w = r->state;
    tci_stage *stage = &r->handle->stage;
    tci_stage_options o = {
        .path = path,
        .mode = p->append ? TCI_WRITE_APPEND : TCI_WRITE_UPSERT,
        .has_executable = p->has_executable,
        .executable = p->executable,
        .has_mode = p->has_mode,
        .file_mode = p->mode,
        .plain_mode = true,
        .leave_unsynced = !p->sync,
        .expects_none = w->is_absent,
        .unnamed = p->keep,
        .max_bytes = INT64_MAX,
    };
    int rc = tci_stage_open(stage, &o, NULL, &err);
    if (rc == TC_E_NOT_FOUND && p->append) { /* nothing to append to */
        o.mode = TCI_WRITE_UPSERT;
        rc = tci_stage_open(stage, &o, NULL, &err);
    }
    bool has_no_parent = rc < 0 && (err.os == ENOENT || err.os == ENOTDIR);
    if (has_no_parent && p->parents) {
        if (tci_pi_make_folders(r, parent_of(path)) < 0)
            return -1;
        rc = tci_stage_open(stage, &o, NULL, &err);
    }
    return rc < 0 ? tci_pi_failed(r, &err, "open", p->path) : 0;
}

static int publish(tci_pi_req *r, tc_str path, tci_pi_info *ret)
{
    tc_err err;
    tci_file_info info;
    tci_stage *stage = &r->handle->stage;
    int rc = tci_stage_seal(stage, NULL, &err);
    if (rc == 0)
        rc = tci_stage_publish(stage, &info, &err);
    if (rc < 0) {
        (void)tci_pi_failed(r, &err, "rename", path);
        if (rc == TC_E_UNKNOWN_OUTCOME)
            r->failure.code = "UNKNOWN";
        return -1;
    }
    tci_file_stat st = {.kind = info.kind,
                        .mode = info.mode,
                        .size = info.size,
                        .dev = info.dev,
                        .ino = info.ino,
                        .modified = info.modified};
    tci_pi_info_of(&st, tci_pi_last_name(path), true, ret);
    return 0;
}

static void work_atomic(tci_pi_req *r)
{
    tc_err err;
    const tci_pi_write_params *p = r->params;
    const write_state *w = r->state;
    tci_pi_write_result *result = r->result;
    tc_str path = p->path;
    bool is_known = w->is_absent || w->is_plain;
    if (!is_known && (follow_links(r, p->path, &path) < 0 || check_kind(r, path) < 0))
        return;
    if (open_stage(r, path) < 0)
        return;
    if (r->payload.len > 0 &&
        tci_stage_write(&r->handle->stage, r->payload.ptr, r->payload.len, &err) < 0)
        (void)tci_pi_failed(r, &err, "write", p->path);
    else if (!p->keep)
        result->has_info = publish(r, p->path, &result->info) == 0;
}

/* ---- write ---- */

static void after_write(tci_pi_req *r)
{
    const tci_pi_write_params *p = r->params;
    tci_pi_write_result *result = r->result;
    if (!tci_pi_has_failed(r) && p->keep) {
        result->has_handle = true;
        result->handle = tci_pi_handle_enter(r->handle);
    }
    tci_pi_finish(r);
}

static bool is_in_memory(tci_pi_req *r, tc_str path)
{
    return tci_mounts_kind_of(&r->server->mounts, path) == TCI_MOUNT_MEMORY;
}

static tci_pi_place place_for(const tci_pi_handle *h, size_t len)
{
    if (h->may_hang)
        return TCI_PI_OWN_THREAD;
    return h->in_memory && len <= TCI_PI_BLOCK_BYTES ? TCI_PI_AT_ONCE : TCI_PI_ON_POOL;
}

/* One look tells most of what there is to know: each that finds nothing costs as much as making a file. */
static tci_pi_place look(tci_pi_req *r, tc_str path, write_state *w)
{
    tc_err ignored; /* the work itself will tell */
    tci_file_stat st;
    if (!tci_pi_all_local(r->server))
        return TCI_PI_OWN_THREAD;
    int rc = tci_file_stat_at(TCI_FILE_CWD, path, false, &st, &ignored);
    w->is_absent = rc == TC_E_NOT_FOUND;
    w->is_plain = rc == 0 && st.kind == TCI_FILE_KIND_REGULAR;
    return w->is_absent || w->is_plain ? TCI_PI_ON_POOL : tci_pi_place_of(r, path, TCI_PI_ON_POOL);
}

void tci_pi_on_write(tci_pi_req *r)
{
    const tci_pi_write_params *p = r->params;
    bool is_atomic = r->server->has_ext && p->atomic;
    write_state *w = tci_arena_new(&r->arena, write_state);
    tci_pi_place place = TCI_PI_ON_POOL;
    int os = ENOMEM;
    if (w != NULL) {
        *w = (write_state){.file = TCI_FILE_NONE};
        place = is_atomic ? look(r, p->path, w) : tci_pi_place_of(r, p->path, place);
        w->may_wait = place == TCI_PI_OWN_THREAD;
    }
    r->state = w;
    if (w != NULL && (p->keep || is_atomic)) {
        r->handle = tci_pi_handle_new(
            r->server, is_atomic ? TCI_PI_HANDLE_ATOMIC : TCI_PI_HANDLE_WRITE, p->path, &os);
    }
    if (w == NULL || (r->handle == NULL && (p->keep || is_atomic))) {
        tci_pi_fail_os(r, os, "open", p->path);
        return;
    }
    bool in_memory = place != TCI_PI_OWN_THREAD && is_in_memory(r, p->path);
    if (r->handle != NULL) {
        r->handle->may_hang = place == TCI_PI_OWN_THREAD;
        r->handle->in_memory = in_memory;
    }
    bool may_sync = is_atomic && p->sync && !p->keep;
    if (in_memory && r->payload.len <= SMALL_BYTES && !may_sync)
        place = TCI_PI_AT_ONCE;
    if (may_sync)
        place = TCI_PI_OWN_THREAD;
    tci_pi_run(r, place, is_atomic ? work_atomic : work_in_place, after_write);
}

/* ---- writeChunk ---- */

static void work_chunk(tci_pi_req *r)
{
    tc_err err;
    tci_pi_handle *h = r->handle;
    tc_str path = tci_str_of(h->path, h->path_len);
    int rc = 0;
    if (r->payload.len > 0 && h->kind == TCI_PI_HANDLE_ATOMIC)
        rc = tci_stage_write(&h->stage, r->payload.ptr, r->payload.len, &err);
    else if (r->payload.len > 0)
        rc = tci_file_write_all(h->file, r->payload.ptr, r->payload.len, &err);
    if (rc < 0)
        (void)tci_pi_failed(r, &err, "write", path);
}

static void after_chunk(tci_pi_req *r)
{
    r->handle->is_damaged = r->handle->is_damaged || tci_pi_has_failed(r);
    tci_pi_end_turn(r);
}

static void start_chunk(tci_pi_req *r)
{
    if (r->handle->is_damaged) {
        r->failure = (tci_pi_failure){.os = EBADF,
                                      .syscall = "write",
                                      .message = TC_STR("EBADF: an earlier write failed, write")};
        tci_pi_end_turn(r);
        return;
    }
    tci_pi_run(r, place_for(r->handle, r->payload.len), work_chunk, after_chunk);
}

void tci_pi_on_write_chunk(tci_pi_req *r)
{
    const tci_pi_write_chunk_params *p = r->params;
    if (!tci_pi_take_handle(r, p->handle, 1u << TCI_PI_HANDLE_WRITE | 1u << TCI_PI_HANDLE_ATOMIC,
                            "write"))
        return;
    tci_pi_take_turn(r, start_chunk);
}

/* ---- commit ---- */

static void work_commit(tci_pi_req *r)
{
    const tci_pi_commit_params *p = r->params;
    tci_pi_commit_result *result = r->result;
    tci_pi_handle *h = r->handle;
    tci_stage_set_sync(&h->stage, p->sync);
    (void)publish(r, tci_str_of(h->path, h->path_len), &result->info); /* in r->failure */
}

static void after_commit(tci_pi_req *r)
{
    r->handle->is_damaged = true; /* what still waits comes too late */
    tci_pi_end_turn(r);
}

static void start_commit(tci_pi_req *r)
{
    const tci_pi_commit_params *p = r->params;
    if (r->handle->is_damaged) {
        start_chunk(r);
        return;
    }
    tci_pi_handle_leave(r->handle);
    tci_pi_run(r, p->sync ? TCI_PI_OWN_THREAD : place_for(r->handle, 0), work_commit, after_commit);
}

void tci_pi_on_commit(tci_pi_req *r)
{
    const tci_pi_commit_params *p = r->params;
    if (tci_pi_take_handle(r, p->handle, 1u << TCI_PI_HANDLE_ATOMIC, "rename"))
        tci_pi_take_turn(r, start_commit);
}
