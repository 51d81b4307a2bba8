/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching over EIP, which tells of no changes: look at intervals, and compare with what was there.
 * The watcher's thread. Invariant: a look that failed halfway is thrown away, and the next one is
 * compared with the last whole one. */
#include "env/eip/eip_int.h"

#include "plat/clock.h"
#include <stdlib.h>

typedef struct seen {
    tc_str path;
    bool is_target; /* as a target, links followed; wins over a listing */
    tc_file_kind kind;
    uint64_t size;
    int64_t sec;
    int32_t nsec;
} seen;

/* One look at everything. */
typedef struct look {
    tc_env *env;
    const tci_watch_view *view;
    tc_call call; /* with a result of its own */
    seen *items;
    size_t count, cap;
    uint64_t ndirectories;
} look;

static int add(look *l, const tc_env_file *file, tc_str path, bool is_target, tc_err *err)
{
    enum { FIRST = 64 };
    tci_arena *a = tci_result_arena(l->call.result);
    if (l->count == l->cap) {
        size_t cap = l->cap > 0 ? 2 * l->cap : FIRST;
        seen *grown = tci_arena_grow(a, l->items, l->cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL)
            return tci_arena_error(a, err);
        l->items = grown;
        l->cap = cap;
    }
    l->items[l->count++] = (seen){.path = path,
                                  .is_target = is_target,
                                  .kind = file->kind,
                                  .size = file->size,
                                  .sec = file->modified_at.sec,
                                  .nsec = file->modified_at.nsec};
    return 0;
}

static bool is_excluded(const tc_watch_target *t, tc_str name)
{
    if (t->exclude_hidden && name.ptr[0] == '.')
        return true;
    for (size_t i = 0; i < t->exclude_names.count; i++)
        if (tci_str_eq(name, t->exclude_names.items[i]))
            return true;
    return false;
}

static bool is_gone(int rc)
{
    return rc == TC_E_NOT_FOUND || rc == TC_E_DENIED;
}

static int look_into(look *l, const tc_watch_target *t, tc_str dir, bool is_target, tc_err *err)
{
    tci_file_list list = {0};
    if (++l->ndirectories > l->view->options.max_directories)
        return tci_env_fail(&l->call, TC_ENV_INVALID, dir, err, TC_E_INVALID,
                            "Watched paths exceed %llu directories",
                            (unsigned long long)l->view->options.max_directories);
    int rc = tci_eip_list_dir(l->env, &l->call, dir, &list, err);
    if (rc < 0 && is_gone(rc) &&
        (!is_target || tc_result_evidence(l->call.result)->env_error != TC_ENV_PERMISSION_DENIED))
        return 0; /* it went away meanwhile, or is not to be read */
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        const tc_env_file *file = &list.items[i];
        if (is_excluded(t, file->name))
            continue;
        rc = add(l, file, file->path, false, err);
        if (rc == 0 && t->is_recursive && file->kind == TC_FILE_DIRECTORY)
            rc = look_into(l, t, file->path, false, err);
    }
    return rc;
}

static int look_at(look *l, const tc_watch_target *t, tc_err *err)
{
    tc_file_info info;
    tc_env_file file;
    int rc = tci_eip_stat(l->env, &l->call, t->path, true, &info, err);
    if (rc < 0)
        return is_gone(rc) ? 0 : rc;
    tci_eip_to_file(&info, &file);
    rc = add(l, &file, t->path, true, err);
    if (rc == 0 && info.kind == TC_FILE_DIRECTORY)
        rc = look_into(l, t, t->path, true, err);
    return rc;
}

static int by_path(const void *left, const void *right)
{
    const seen *a = left, *b = right;
    int order = tci_str_cmp(a->path, b->path);
    return order != 0 ? order : (int)b->is_target - (int)a->is_target;
}

/* Sorted, each path once. */
static void put_in_order(look *l)
{
    size_t n = 0;
    if (l->count > 1)
        qsort(l->items, l->count, sizeof *l->items, by_path);
    for (size_t i = 0; i < l->count; i++)
        if (n == 0 || !tci_str_eq(l->items[n - 1].path, l->items[i].path))
            l->items[n++] = l->items[i];
    l->count = n;
}

static int look_around(tc_env *env, const tci_watch_view *view, const tc_call *call, look *ret,
                       tc_err *err)
{
    *ret = (look){.env = env, .view = view};
    int rc = tci_eip_aside(call, &ret->call, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < view->ntargets; i++)
        rc = look_at(ret, &view->targets[i], err);
    if (rc < 0) {
        const tc_evidence *e = tc_result_evidence(ret->call.result);
        tci_env_blame(call, e->env_error != TC_ENV_OK ? e->env_error : tci_env_word_of(rc),
                      e->path);
        tci_eip_aside_done(&ret->call);
        return rc;
    }
    put_in_order(ret);
    return 0;
}

/* ---- what changed ---- */

static bool is_same(const seen *a, const seen *b)
{
    return a->kind == b->kind && a->size == b->size && a->sec == b->sec && a->nsec == b->nsec;
}

static int tell_changes(const look *before, const look *now, tc_err *err)
{
    tci_arena *a = tci_result_arena(now->call.result);
    tc_str *paths = tci_arena_items(a, tc_str, before->count + now->count);
    size_t n = 0, i = 0, k = 0;
    if (paths == NULL && before->count + now->count > 0)
        return tci_arena_error(a, err);
    while (i < before->count || k < now->count) {
        int order = i == before->count ? 1
                    : k == now->count  ? -1
                                       : tci_str_cmp(before->items[i].path, now->items[k].path);
        if (order < 0)
            paths[n++] = before->items[i++].path;
        else if (order > 0)
            paths[n++] = now->items[k++].path;
        else if (!is_same(&before->items[i++], &now->items[k++]))
            paths[n++] = now->items[k - 1].path;
    }
    tci_watcher_changed(now->view->watcher, (tc_strs){paths, n});
    return 0;
}

/* False: the watcher ends. */
static bool wait_for_next(const tci_watch_view *view)
{
    tci_wake *wake = tci_ctx_wake(view->ctx);
    int64_t until = tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns(view->options.poll_interval_ms));
    for (;;) {
        unsigned seen_count = tci_wake_count(wake);
        if (tc_ctx_is_cancelled(view->ctx))
            return false;
        if (tci_clock_mono_ns() >= until)
            return true;
        tci_wake_wait(wake, seen_count, until);
    }
}

int tci_eip_watch(tc_env *env, const tci_watch_view *view, tc_call *call, bool *ret_is_lost,
                  tc_err *err)
{
    look before, now;
    *ret_is_lost = false; /* a lost session does not come back */
    if (view->options.mode == TC_WATCH_NATIVE)
        return tci_env_fail(call, TC_ENV_NOT_SUPPORTED, (tc_str){0}, err, TC_E_UNSUPPORTED,
                            "this environment can only be watched by looking at intervals");
    int rc = look_around(env, view, call, &before, err);
    if (rc < 0)
        return tc_ctx_is_cancelled(view->ctx) ? 0 : rc;
    tci_watcher_is_ready(view->watcher, TC_WATCH_POLLING);
    while (wait_for_next(view)) {
        rc = look_around(env, view, call, &now, err);
        if (rc < 0)
            break;
        rc = tell_changes(&before, &now, err);
        tci_eip_aside_done(&before.call);
        before = now;
        if (rc < 0)
            break;
    }
    tci_eip_aside_done(&before.call);
    return tc_ctx_is_cancelled(view->ctx) ? 0 : rc;
}
