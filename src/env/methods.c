/* SPDX-License-Identifier: Apache-2.0
 *
 * The ExecutionEnv interface, but for readers, watchers and commands: checks what a provider need
 * not, and goes there. The caller's thread. Invariant: no provider sees a relative path, a number
 * out of range, or a call that was aborted before it began. */
#include "env/methods_int.h"

#include "base/hash.h"
#include "base/utf8.h"
#include "base/utf8_stream.h"
#include "plat/clock.h"
#include <stdlib.h>

enum { LIST_ENTRIES = 50000, LIST_BYTES = 4 * 1024 * 1024, LIST_BYTES_MAX = 15900000 };
enum { LIST_MS = 10000, UUID_BYTES = 16, UUID_TEXT = 36 };

/* ---- paths ---- */

tc_str tci_env_cwd_now(const tc_env *env)
{
    tci_mutex *lock = (tci_mutex *)(uintptr_t)&env->lock; /* looking takes the lock too */
    tci_mutex_lock(lock);
    tc_str cwd = env->cwd;
    tci_mutex_unlock(lock);
    return cwd;
}

static void look_at_place(tc_env *env, tci_env_place *place, tc_str *cwd, bool *has_place,
                          bool *has_home)
{
    tci_mutex_lock(&env->lock);
    *place = env->place;
    *cwd = env->cwd;
    *has_place = env->has_place;
    *has_home = env->has_home;
    tci_mutex_unlock(&env->lock);
}

/* The place, known as far as it is needed. */
static int know_place(tc_env *env, const tc_call *call, bool needs_home, tci_env_place *place,
                      tc_str *cwd, tc_err *err)
{
    bool has_place, has_home;
    look_at_place(env, place, cwd, &has_place, &has_home);
    if (has_place && (has_home || !needs_home))
        return 0;
    int rc = env->v->methods->know(env, call, needs_home, err);
    if (rc == 0)
        look_at_place(env, place, cwd, &has_place, &has_home);
    return rc;
}

int tci_env_absolute(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_path, tc_err *err)
{
    tci_env_place place;
    tc_str cwd;
    int rc = know_place(env, call, false, &place, &cwd, err);
    if (rc == 0 && tci_env_is_home_path(place.is_windows, path))
        rc = know_place(env, call, true, &place, &cwd, err);
    if (rc < 0)
        return rc;
    return tci_env_resolve_at(&place, cwd, path, tci_result_arena(call->result), ret_path, err);
}

int tc_env_resolve_path(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_path,
                        tc_err *err)
{
    if (call == NULL || call->size < sizeof *call || call->result == NULL)
        return tc_err_set(err, TC_E_INVALID, "a call needs its size and a result");
    tci_result_reset_evidence(call->result, TC_OUTCOME_NONE);
    int rc = tci_env_absolute(env, call, path, ret_path, err);
    if (rc < 0 && tci_env_evidence(call)->env_error == TC_ENV_OK)
        tci_env_blame(call, tci_env_word_of(rc), path);
    return rc;
}

int tc_env_absolute_path(tc_env *env, tc_str path, tc_result *r, tc_str *ret_path, tc_err *err)
{
    tc_call call = TC_CALL(NULL, r);
    return tc_env_resolve_path(env, &call, path, ret_path, err);
}

int tc_env_join_path(tc_env *env, const tc_call *call, const tc_str *parts, size_t nparts,
                     tc_str *ret_path, tc_err *err)
{
    if (call == NULL || call->size < sizeof *call || call->result == NULL)
        return tc_err_set(err, TC_E_INVALID, "a call needs its size and a result");
    tci_env_place place;
    tc_str cwd;
    tci_result_reset_evidence(call->result, TC_OUTCOME_NONE);
    int rc = know_place(env, call, false, &place, &cwd, err);
    if (rc == 0)
        rc = tci_env_join(place.is_windows, parts, nparts, tci_result_arena(call->result), ret_path,
                          err);
    if (rc < 0)
        tci_env_blame(call, tci_env_word_of(rc), (tc_str){0});
    return rc;
}

int tc_env_canonical_path(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_path,
                          tc_err *err)
{
    int rc = tci_env_begin_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    return tci_env_finish(env, call, env->v->methods->canonical(env, call, path, ret_path, err),
                          path);
}

/* ---- facts ---- */

void tci_env_set_time(tc_env_file *f, int64_t sec, uint32_t nsec)
{
    f->modified_at = (tc_time){.is_known = true, .sec = sec, .nsec = (int32_t)nsec};
    f->mtime_ms = (double)sec * 1000.0 + (double)nsec / 1e6;
}

int tc_env_file_info(tc_env *env, const tc_call *call, tc_str path, tc_env_file *ret_file,
                     tc_err *err)
{
    tc_env_file file = {.kind = TC_FILE_OTHER};
    int rc = tci_env_begin_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    rc = env->v->methods->info(env, call, path, &file, err);
    if (rc == 0 && file.kind == TC_FILE_OTHER)
        rc = tci_env_fail(call, TC_ENV_INVALID, path, err, TC_E_INVALID,
                          "'%.*s' is of an unsupported file type", TC_STR_ARG(path));
    if (rc == 0) {
        file.path = path;
        file.name = tci_env_base_name(env->place.is_windows, path);
        *ret_file = file;
    }
    return tci_env_finish(env, call, rc, path);
}

int tc_env_path_exists(tc_env *env, const tc_call *call, tc_str path, bool *ret_exists, tc_err *err)
{
    tc_env_file file;
    int rc = tci_env_begin_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    rc = env->v->methods->info(env, call, path, &file, err);
    tc_env_error word = tci_env_evidence(call)->env_error;
    bool is_missing = word == TC_ENV_NOT_FOUND || (rc == TC_E_NOT_FOUND && word == TC_ENV_OK);
    if (rc < 0 && !is_missing)
        return tci_env_finish(env, call, rc, path);
    *ret_exists = rc == 0;
    return tci_env_finish(env, call, 0, path);
}

/* ---- whole files ---- */

static bool is_mark(tc_str s)
{
    return tci_str_starts(s, TC_STR("\xEF\xBB\xBF"));
}

int tci_env_to_text(const tc_call *call, tc_str bytes, bool keep_mark, tc_str *ret_text,
                    tc_err *err)
{
    if (!keep_mark && is_mark(bytes))
        bytes = tci_str_sub(bytes, 3, SIZE_MAX);
    if (tci_utf8_is_valid(bytes)) {
        *ret_text = bytes;
        return 0;
    }
    tci_utf8_stream decoder = {.has_begun = true};
    tci_buf text, scratch;
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_buf_init(&scratch, TCI_BUF_MAX);
    tci_buf_append_str(&text, tci_utf8_stream_feed(&decoder, bytes, &scratch));
    tci_buf_append_str(&text, tci_utf8_stream_end(&decoder));
    int rc = tci_buf_error(&scratch, err);
    if (rc == 0)
        rc = tci_buf_error(&text, err);
    char *out = rc == 0 ? tci_result_bytes(call->result, text.len + 1) : NULL;
    if (out != NULL) {
        memcpy(out, text.ptr, text.len);
        *ret_text = tci_str_of(out, text.len);
    } else if (rc == 0) {
        rc = tci_err_no_memory(err);
    }
    tci_buf_done(&text);
    tci_buf_done(&scratch);
    return rc;
}

int tc_env_read_binary_file(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_bytes,
                            tc_err *err)
{
    int rc = tci_env_begin_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    return tci_env_finish(env, call, env->v->methods->read(env, call, path, ret_bytes, err), path);
}

int tc_env_read_text_file(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_text,
                          tc_err *err)
{
    tc_str bytes;
    int rc = tci_env_begin_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    rc = env->v->methods->read(env, call, path, &bytes, err);
    if (rc == 0)
        rc = tci_env_to_text(call, bytes, true, ret_text, err);
    return tci_env_finish(env, call, rc, path);
}

static int write_or_append(tc_env *env, const tc_call *call, tc_str path, tc_str bytes,
                           unsigned how, tc_err *err)
{
    int rc = tci_env_begin_path(env, call, true, &path, err);
    if (rc < 0)
        return rc;
    return tci_env_finish(env, call, env->v->methods->write(env, call, path, bytes, how, err),
                          path);
}

int tc_env_write_file(tc_env *env, const tc_call *call, tc_str path, tc_str bytes, tc_err *err)
{
    return write_or_append(env, call, path, bytes, 0, err);
}

int tc_env_append_file(tc_env *env, const tc_call *call, tc_str path, tc_str bytes, tc_err *err)
{
    return write_or_append(env, call, path, bytes, TCI_WRITE_APPEND, err);
}

int tc_env_truncate_file(tc_env *env, const tc_call *call, tc_str path, int64_t size, tc_err *err)
{
    int rc = tci_env_begin_path(env, call, true, &path, err);
    if (rc < 0)
        return rc;
    if (size < 0 || size > TC_SAFE_INTEGER_MAX)
        rc = tci_env_fail(call, TC_ENV_INVALID, path, err, TC_E_INVALID,
                          "a file cannot have %lld bytes", (long long)size);
    else
        rc = env->v->methods->truncate(env, call, path, (uint64_t)size, err);
    return tci_env_finish(env, call, rc, path);
}

int tc_env_flush_file(tc_env *env, const tc_call *call, tc_str path, tc_err *err)
{
    int rc = tci_env_begin_path(env, call, true, &path, err);
    if (rc < 0)
        return rc;
    return tci_env_finish(env, call, env->v->methods->flush(env, call, path, err), path);
}

int tc_env_rename_file(tc_env *env, const tc_call *call, tc_str from, tc_str to, tc_err *err)
{
    int rc = tci_env_begin_path(env, call, true, &from, err);
    if (rc < 0) {
        if (tci_env_evidence(call)->env_error == TC_ENV_ABORTED)
            tci_env_blame(call, TC_ENV_ABORTED, to);
        return rc;
    }
    rc = tci_env_absolute(env, call, to, &to, err);
    if (rc == 0)
        rc = env->v->methods->rename(env, call, from, to, err);
    return tci_env_finish(env, call, rc, from);
}

/* ---- directories ---- */

int tci_file_list_add(tci_file_list *l, const tc_call *call, const tc_env *env, tc_str dir,
                      tc_str name, const tc_env_file *file, tc_err *err)
{
    enum { FIRST = 32 };
    tci_arena *a = tci_result_arena(call->result);
    if (file->kind == TC_FILE_OTHER)
        return 0;
    if (l->count == l->cap) {
        size_t cap = l->cap > 0 ? 2 * l->cap : FIRST;
        tc_env_file *grown =
            tci_arena_grow(a, l->items, l->cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL)
            return tci_arena_error(a, err);
        l->items = grown;
        l->cap = cap;
    }
    tc_env_file *out = &l->items[l->count];
    char last = dir.len > 0 ? dir.ptr[dir.len - 1] : '/';
    char separator = env->place.is_windows ? '\\' : '/';
    bool needs_one = last != separator;
    *out = *file;
    int rc = needs_one ? tci_arena_printf(a, &out->path, err, "%.*s%c%.*s", TC_STR_ARG(dir),
                                          separator, TC_STR_ARG(name))
                       : tci_arena_printf(a, &out->path, err, "%.*s%.*s", TC_STR_ARG(dir),
                                          TC_STR_ARG(name));
    if (rc < 0)
        return rc;
    out->name = tci_str_sub(out->path, out->path.len - name.len, SIZE_MAX);
    l->count++;
    return 0;
}

static int by_name(const void *left, const void *right)
{
    const tc_env_file *a = left, *b = right;
    return tci_str_cmp(a->name, b->name);
}

void tci_file_list_sort(tci_file_list *l)
{
    if (l->count > 1)
        qsort(l->items, l->count, sizeof *l->items, by_name);
}

int tc_env_list_dir(tc_env *env, const tc_call *call, tc_str path, tc_env_files *ret_files,
                    tc_err *err)
{
    tci_file_list list = {0};
    int rc = tci_env_begin_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    rc = env->v->methods->list_dir(env, call, path, &list, err);
    if (rc == 0)
        *ret_files = (tc_env_files){list.items, list.count, true};
    return tci_env_finish(env, call, rc, path);
}

/* Every bound filled in and in range. */
static int check_listing(tc_list_files_options *o, const tc_call *call, tc_str path, tc_err *err)
{
    if (!o->has_max_entries)
        o->max_entries = LIST_ENTRIES;
    if (!o->has_max_bytes)
        o->max_bytes = LIST_BYTES;
    if (!o->has_timeout_ms)
        o->timeout_ms = LIST_MS;
    o->has_max_entries = o->has_max_bytes = o->has_timeout_ms = true;
    bool is_good = o->max_entries >= 0 && o->max_entries <= TC_SAFE_INTEGER_MAX &&
                   o->max_bytes >= 0 && o->max_bytes <= LIST_BYTES_MAX && o->timeout_ms >= 0 &&
                   o->timeout_ms <= TC_SAFE_INTEGER_MAX;
    if (is_good)
        return 0;
    return tci_env_fail(call, TC_ENV_INVALID, path, err, TC_E_INVALID,
                        "a bound of the listing is out of range");
}

int tc_env_list_files(tc_env *env, const tc_call *call, tc_str path,
                      const tc_list_files_options *options, tc_tree *ret_tree, tc_err *err)
{
    tc_list_files_options o = {.size = sizeof o};
    int rc = tci_env_options_check(options, sizeof o, err);
    if (rc == 0)
        rc = tci_env_begin_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    if (options != NULL)
        o = *options;
    rc = check_listing(&o, call, path, err);
    if (rc == 0)
        rc = env->v->methods->list_files(env, call, path, &o, ret_tree, err);
    return tci_env_finish(env, call, rc, path);
}

int tc_env_create_dir(tc_env *env, const tc_call *call, tc_str path, bool is_recursive, tc_err *err)
{
    int rc = tci_env_begin_path(env, call, true, &path, err);
    if (rc < 0)
        return rc;
    return tci_env_finish(env, call,
                          env->v->methods->create_dir(env, call, path, is_recursive, err), path);
}

int tc_env_remove_path(tc_env *env, const tc_call *call, tc_str path, bool is_recursive, bool force,
                       tc_err *err)
{
    int rc = tci_env_begin_path(env, call, true, &path, err);
    if (rc < 0)
        return rc;
    return tci_env_finish(env, call,
                          env->v->methods->remove(env, call, path, is_recursive, force, err), path);
}

/* ---- temporary names ---- */

/* A private directory below the temporary one; its name begins with prefix. */
static int make_temp(tc_env *env, const tc_call *call, tc_str prefix, tc_str *ret_path, tc_err *err)
{
    tci_env_place place;
    tc_str cwd, parts[2], start;
    int rc = know_place(env, call, true, &place, &cwd, err);
    if (rc < 0)
        return rc;
    parts[0] = place.tmpdir;
    parts[1] = prefix;
    rc = tci_env_join(place.is_windows, parts, 2, tci_result_arena(call->result), &start, err);
    if (rc == 0 && prefix.len > 0 && memchr(prefix.ptr, 0, prefix.len) != NULL)
        rc = tci_env_fail(call, TC_ENV_INVALID, start, err, TC_E_INVALID, "a name with a NUL byte");
    return rc == 0 ? env->v->methods->make_temp(env, call, start, ret_path, err) : rc;
}

int tc_env_create_temp_dir(tc_env *env, const tc_call *call, tc_str prefix, tc_str *ret_path,
                           tc_err *err)
{
    int rc = tci_env_begin(env, call, true, err);
    if (rc < 0)
        return rc;
    if (prefix.ptr == NULL)
        prefix = TC_STR("tmp-");
    return tci_env_finish(env, call, make_temp(env, call, prefix, ret_path, err), (tc_str){0});
}

/* Version 4, as text. */
static void make_uuid(char out[UUID_TEXT])
{
    static const unsigned char groups[] = {4, 2, 2, 2, 6};
    uint8_t bytes[UUID_BYTES];
    const uint8_t *from = bytes;
    tci_random_bytes(bytes, sizeof bytes);
    bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof groups; i++) {
        if (i > 0)
            *out++ = '-';
        tci_hex(from, groups[i], out);
        from += groups[i];
        out += (size_t)2 * groups[i];
    }
}

static int make_temp_file(tc_env *env, const tc_call *call, tc_str prefix, tc_str suffix,
                          tc_str *ret_path, tc_err *err)
{
    char uuid[UUID_TEXT];
    tc_str dir, name, path;
    tci_arena *a = tci_result_arena(call->result);
    make_uuid(uuid);
    int rc = make_temp(env, call, TC_STR("tmp-"), &dir, err);
    if (rc == 0)
        rc = tci_arena_printf(a, &name, err, "%.*s%.*s%.*s", TC_STR_ARG(prefix), UUID_TEXT, uuid,
                              TC_STR_ARG(suffix));
    if (rc < 0)
        return rc;
    tc_str parts[] = {dir, name};
    rc = tci_env_join(env->place.is_windows, parts, 2, a, &path, err);
    if (rc == 0)
        rc = env->v->methods->write(env, call, path, (tc_str){0}, TCI_WRITE_NO_PARENTS, err);
    if (rc == 0)
        *ret_path = path;
    return rc;
}

int tc_env_create_temp_file(tc_env *env, const tc_call *call, tc_str prefix, tc_str suffix,
                            tc_str *ret_path, tc_err *err)
{
    int rc = tci_env_begin(env, call, true, err);
    if (rc < 0)
        return rc;
    return tci_env_finish(env, call, make_temp_file(env, call, prefix, suffix, ret_path, err),
                          (tc_str){0});
}
