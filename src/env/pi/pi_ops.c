/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on paths and directories over pi-env, one request each but for pages. The caller's
 * thread. Invariant: a handle goes only to the session it came from, and is closed. */
#include "env/pi/pi_int.h"

#include "base/json.h"
#include <stdlib.h>

enum { PAGE = 1024 };

/* ---- facts ---- */

static tc_file_kind kind_of(tci_pi_kind kind)
{
    switch (kind) {
    case TCI_PI_KIND_FILE:
        return TC_FILE_REGULAR;
    case TCI_PI_KIND_DIRECTORY:
        return TC_FILE_DIRECTORY;
    case TCI_PI_KIND_SYMLINK:
        return TC_FILE_SYMLINK;
    case TCI_PI_KIND_OTHER:
        break;
    }
    return TC_FILE_OTHER;
}

void tci_penv_to_file(const tci_pi_info *info, tc_env_file *ret_file)
{
    *ret_file = (tc_env_file){.kind = kind_of(info->kind), .size = info->size};
    tci_env_set_time(ret_file, info->mtime_sec, info->mtime_nsec);
}

void tci_penv_to_file_info(const tci_pi_info *info, tc_str path, tc_file_info *ret_info)
{
    enum { ANY_EXECUTE = 0111 };
    bool is_regular = info->kind == TCI_PI_KIND_FILE;
    *ret_info = (tc_file_info){
        .path = path,
        .kind = kind_of(info->kind),
        .has_size = is_regular,
        .has_executable = is_regular && info->has_mode,
        .is_executable = is_regular && (info->mode & ANY_EXECUTE) != 0,
        .has_mode = info->has_mode,
        .mode = info->mode,
        .size_bytes = is_regular ? info->size : 0,
        .modified_at = {.is_known = true,
                        .sec = info->mtime_sec,
                        .nsec = (int32_t)info->mtime_nsec},
    };
}

int tci_penv_stat(tc_env *env, const tc_call *call, tc_str path, bool follow_symlink,
                  tc_file_info *ret_info, tc_err *err)
{
    tci_pi_info info = {0};
    tci_pi_lstat_params params = {.path = path, .follow = follow_symlink};
    tci_pi_call request = {.op = TCI_PI_LSTAT,
                           .params = &params,
                           .reply = &info,
                           .result = call->result,
                           .needs_ext = follow_symlink};
    int rc = tci_pi_do(tci_penv_of(env)->pi, call->ctx, &request, err);
    if (rc < 0)
        return tci_penv_blame(call, &request, rc, path);
    tci_penv_to_file_info(&info, path, ret_info);
    return 0;
}

static int pi_info(tc_env *env, const tc_call *call, tc_str path, tc_env_file *ret_file,
                   tc_err *err)
{
    tci_pi_info info = {0};
    tci_pi_lstat_params params = {.path = path};
    int rc = tci_penv_ask(env, call, TCI_PI_LSTAT, &params, &info, path, err);
    if (rc == 0)
        tci_penv_to_file(&info, ret_file);
    return rc;
}

static int pi_canonical(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_path,
                        tc_err *err)
{
    tci_pi_realpath_result reply = {.path = {0}};
    tci_pi_realpath_params params = {.path = path};
    int rc = tci_penv_ask(env, call, TCI_PI_REALPATH, &params, &reply, path, err);
    if (rc == 0)
        *ret_path = reply.path;
    return rc;
}

/* ---- changes ---- */

static int pi_truncate(tc_env *env, const tc_call *call, tc_str path, uint64_t size, tc_err *err)
{
    tci_pi_truncate_params params = {.path = path, .size = size};
    int rc = tci_penv_ask(env, call, TCI_PI_TRUNCATE, &params, NULL, path, err);
    return rc == 0 ? tci_env_check_abort(call, path, err) : rc;
}

static int pi_flush(tc_env *env, const tc_call *call, tc_str path, tc_err *err)
{
    tci_pi_fsync_params params = {.path = path};
    int rc = tci_penv_ask(env, call, TCI_PI_FSYNC, &params, NULL, path, err);
    return rc == 0 ? tci_env_check_abort(call, path, err) : rc;
}

static int pi_rename(tc_env *env, const tc_call *call, tc_str from, tc_str to, tc_err *err)
{
    tci_pi_rename_params params = {.path = from, .to = to};
    return tci_penv_ask(env, call, TCI_PI_RENAME, &params, NULL, from, err);
}

static int pi_create_dir(tc_env *env, const tc_call *call, tc_str path, bool is_recursive,
                         tc_err *err)
{
    tci_pi_mkdir_params params = {.path = path, .recursive = is_recursive};
    return tci_penv_ask(env, call, TCI_PI_MKDIR, &params, NULL, path, err);
}

static int pi_remove(tc_env *env, const tc_call *call, tc_str path, bool is_recursive, bool force,
                     tc_err *err)
{
    tci_pi_rm_params params = {.path = path, .recursive = is_recursive, .force = force};
    return tci_penv_ask(env, call, TCI_PI_RM, &params, NULL, path, err);
}

static int pi_make_temp(tc_env *env, const tc_call *call, tc_str prefix, tc_str *ret_path,
                        tc_err *err)
{
    tci_pi_mkdtemp_result reply = {.path = {0}};
    tci_pi_mkdtemp_params params = {.path = prefix};
    int rc = tci_penv_ask(env, call, TCI_PI_MKDTEMP, &params, &reply, prefix, err);
    if (rc == 0)
        *ret_path = reply.path;
    return rc;
}

/* ---- directories ---- */

typedef struct pi_dir {
    tci_open_dir base;
    uint64_t session, handle;
} pi_dir;

/* A failed lstat of an entry, as the whole call's failure. */
static int entry_failed(tc_env *env, const tc_call *call, tc_str dir, const tci_pi_dir_entry *entry,
                        tc_err *err)
{
    tci_file_list one = {0};
    tc_env_file file = {.kind = TC_FILE_REGULAR};
    tci_pi_call as_request = {.fault = {.error = entry->error}};
    tc_str path = entry->error.path;
    if (path.len == 0 && tci_file_list_add(&one, call, env, dir, entry->name, &file, err) == 0)
        path = one.items[0].path;
    int rc = tc_err_set(err, tci_pi_code_of(entry->error.code), "%.*s",
                        TC_STR_ARG(entry->error.message));
    return tci_penv_blame(call, &as_request, rc, path);
}

static bool is_gone(const tci_pi_dir_entry *entry)
{
    return entry->has_error && tci_str_eq(entry->error.code, TC_STR("ENOENT"));
}

static int read_page(tc_env *env, const tc_call *call, const pi_dir *d, size_t max,
                     tci_pi_readdir_result *reply, tc_err *err)
{
    tci_pi_readdir_params params = {.handle = d->handle, .max = max};
    return tci_penv_ask_in(env, call, d->session, TCI_PI_READDIR, &params, reply, d->base.path,
                           err);
}

static int dir_next(tci_open_dir *dir, const tc_call *call, size_t max, tci_file_list *list,
                    bool *ret_is_done, tc_err *err)
{
    pi_dir *d = TCI_CONTAINER(dir, pi_dir, base);
    tci_pi_readdir_result reply = {.done = false};
    int rc = read_page(dir->env, call, d, tci_min_size(max, PAGE), &reply, err);
    for (size_t i = 0; rc == 0 && i < reply.entries.count; i++) {
        const tci_pi_dir_entry *entry = &reply.entries.items[i];
        tc_env_file file;
        if (is_gone(entry))
            continue;
        if (entry->has_error || !entry->has_info)
            return entry_failed(dir->env, call, dir->path, entry, err);
        tci_penv_to_file(&entry->info, &file);
        rc = tci_file_list_add(list, call, dir->env, dir->path, entry->name, &file, err);
    }
    if (rc == 0)
        *ret_is_done = reply.done;
    return rc;
}

static void dir_close(tci_open_dir *dir)
{
    pi_dir *d = TCI_CONTAINER(dir, pi_dir, base);
    tci_penv_close_later(tci_penv_of(dir->env), d->session, d->handle);
    tci_free(d);
}

static const tci_open_dir_vtable dir_vtable = {.next = dir_next, .close = dir_close};

static int open_handle(tc_env *env, const tc_call *call, tc_str path, pi_dir *d, tc_err *err)
{
    tci_pi_opendir_result reply = {.handle = 0};
    tci_pi_opendir_params params = {.path = path};
    tci_pi_call request = {
        .op = TCI_PI_OPENDIR, .params = &params, .reply = &reply, .result = call->result};
    int rc = tci_pi_do(tci_penv_of(env)->pi, call->ctx, &request, err);
    if (rc < 0)
        return tci_penv_blame(call, &request, rc, path);
    *d = (pi_dir){.base = {.v = &dir_vtable, .env = env, .path = path},
                  .session = request.ran_in,
                  .handle = reply.handle};
    return 0;
}

static int pi_open_dir(tc_env *env, const tc_call *call, tc_str path, tci_open_dir **ret_dir,
                       tc_err *err)
{
    pi_dir *d = tci_new(pi_dir);
    if (d == NULL)
        return tci_err_no_memory(err);
    int rc = open_handle(env, call, path, d, err);
    if (rc == 0)
        *ret_dir = &d->base;
    else
        tci_free(d);
    return rc;
}

/* An entry that remembers its name's real bytes, to be sorted by them. */
typedef struct sortable {
    tc_str raw;
    const tci_pi_dir_entry *entry;
} sortable;

static int by_raw(const void *left, const void *right)
{
    const sortable *a = left, *b = right;
    return tci_str_cmp(a->raw, b->raw);
}

static int raw_name(tci_arena *a, const tci_pi_dir_entry *entry, tc_str *ret, tc_err *err)
{
    *ret = entry->name;
    if (entry->raw.count == 0)
        return 0;
    char *bytes = tci_arena_bytes(a, entry->raw.count);
    if (bytes == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < entry->raw.count; i++)
        bytes[i] = (char)entry->raw.items[i];
    *ret = tci_str_of(bytes, entry->raw.count);
    return 0;
}

/* All pages of an open directory. */
static int read_all(tc_env *env, const tc_call *call, const pi_dir *d, sortable **ret_all,
                    size_t *ret_count, tc_err *err)
{
    tci_arena *a = tci_result_arena(call->result);
    sortable *all = NULL;
    size_t n = 0;
    for (bool is_done = false; !is_done;) {
        tci_pi_readdir_result reply = {.done = false};
        int rc = read_page(env, call, d, PAGE, &reply, err);
        if (rc < 0)
            return rc;
        if (reply.entries.count > 0) {
            all = tci_arena_grow(a, all, n * sizeof *all, (n + reply.entries.count) * sizeof *all);
            if (all == NULL)
                return tci_arena_error(a, err);
        }
        for (size_t i = 0; i < reply.entries.count; i++, n++) {
            all[n].entry = &reply.entries.items[i];
            rc = raw_name(a, all[n].entry, &all[n].raw, err);
            if (rc < 0)
                return rc;
        }
        is_done = reply.done;
    }
    *ret_all = all;
    *ret_count = n;
    return 0;
}

static int pi_list_dir(tc_env *env, const tc_call *call, tc_str path, tci_file_list *list,
                       tc_err *err)
{
    pi_dir d;
    sortable *all = NULL;
    size_t n = 0;
    int rc = open_handle(env, call, path, &d, err);
    if (rc < 0)
        return rc;
    rc = read_all(env, call, &d, &all, &n, err);
    tci_penv_close_later(tci_penv_of(env), d.session, d.handle);
    if (rc == 0 && n > 1 && !env->place.is_windows)
        qsort(all, n, sizeof *all, by_raw);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        tc_env_file file;
        if (all[i].entry->has_error || !all[i].entry->has_info)
            return entry_failed(env, call, path, all[i].entry, err);
        tci_penv_to_file(&all[i].entry->info, &file);
        rc = tci_file_list_add(list, call, env, path, all[i].entry->name, &file, err);
    }
    return rc;
}

/* ---- whole trees ---- */

static int take_listing(const tc_call *call, tc_str payload, tc_tree *ret_tree, tc_err *err)
{
    tci_arena *a = tci_result_arena(call->result);
    tci_json tree;
    tci_pi_listing listing = {.entries = {0}};
    int rc = tci_json_parse(payload, 0, a, &tree, err);
    if (rc == 0)
        rc = tci_proto_decode_lenient(&tci_pi_listing_type, &tree, a, &listing, err);
    tc_tree_entry *entries =
        rc == 0 ? tci_arena_items(a, tc_tree_entry, listing.entries.count) : NULL;
    if (rc == 0 && entries == NULL && listing.entries.count > 0)
        rc = tci_arena_error(a, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < listing.entries.count; i++)
        entries[i] =
            (tc_tree_entry){listing.entries.items[i].path, kind_of(listing.entries.items[i].kind)};
    ret_tree->entries = entries;
    ret_tree->count = listing.entries.count;
    return 0;
}

static int pi_list_files(tc_env *env, const tc_call *call, tc_str path,
                         const tc_list_files_options *o, tc_tree *ret_tree, tc_err *err)
{
    tci_arena *a = tci_result_arena(call->result);
    tci_pi_list_files_result reply = {.truncated = false};
    tci_pi_list_files_params params = {
        .path = path,
        .hidden = !o->without_hidden,
        .gitignore = !o->without_gitignore,
        .max_entries = (uint64_t)o->max_entries,
        .max_bytes = (uint64_t)o->max_bytes,
        .timeout_ms = (uint64_t)o->timeout_ms,
    };
    params.exclude.items = tci_arena_copy(a, o->exclude.items, o->exclude.count * sizeof(tc_str));
    params.exclude.count = o->exclude.count;
    if (params.exclude.items == NULL && params.exclude.count > 0)
        return tci_arena_error(a, err);
    tci_pi_call request = {
        .op = TCI_PI_LIST_FILES, .params = &params, .reply = &reply, .result = call->result};
    int rc = tci_pi_do(tci_penv_of(env)->pi, call->ctx, &request, err);
    bool is_unknown_op = rc == TC_E_INVALID &&
                         tci_str_find(request.fault.error.message, TC_STR("unknown operation")) <
                             request.fault.error.message.len;
    if (is_unknown_op)
        return tci_env_fail(call, TC_ENV_NOT_SUPPORTED, path, err, TC_E_UNSUPPORTED,
                            "the daemon over there cannot list whole trees");
    if (rc < 0)
        return tci_penv_blame(call, &request, rc, path);
    ret_tree->is_truncated = reply.truncated;
    rc = take_listing(call, request.payload, ret_tree, err);
    return rc < 0 ? tc_err_recode(err, TC_E_PROTOCOL) : 0;
}

const tci_env_methods tci_penv_methods = {
    .know = tci_penv_know,
    .info = pi_info,
    .canonical = pi_canonical,
    .read = tci_penv_read,
    .write = tci_penv_write,
    .truncate = pi_truncate,
    .flush = pi_flush,
    .rename = pi_rename,
    .open_file = tci_penv_open_file,
    .open_dir = pi_open_dir,
    .list_dir = pi_list_dir,
    .list_files = pi_list_files,
    .create_dir = pi_create_dir,
    .remove = pi_remove,
    .make_temp = pi_make_temp,
    .exec = tci_penv_exec,
    .watch = tci_penv_watch,
};
