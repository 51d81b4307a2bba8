/* SPDX-License-Identifier: Apache-2.0
 *
 * Carrying the plan out: folders first, level by level, then the files, each by a few threads.
 * Invariant: every file of the plan is copied, counted as equal, or reported, unless a failure that
 * all would share ended it. */
#include "cp.h"

#include "base/num.h"

/* ---- reporting ---- */

static void put_json_line(cli *c, tci_buf *b)
{
    tc_err ignored; /* a reader that went away is noticed at the summary */
    tci_buf_append_str(b, TC_STR("}\n"));
    int rc = cli_write_stdout(tci_buf_str(b), &ignored);
    TCI_UNUSED(c);
    TCI_UNUSED(rc);
    tci_buf_done(b);
}

static void begin_json_line(tci_buf *b, bool *first, tc_str path)
{
    tci_buf_init(b, TCI_BUF_MAX);
    tci_buf_append_byte(b, '{');
    cli_json_str(b, first, "path", path);
}

void cp_failed(cp_job *job, tc_str path, const tc_err *err)
{
    tci_mutex_lock(&job->lock);
    bool is_unknown = err->code == TC_E_UNKNOWN_OUTCOME;
    job->counts.failed++;
    job->counts.unknown += is_unknown ? 1 : 0;
    cli_warn(job->c, "%s '%.*s': %s",
             is_unknown ? "not known whether it was written:" : "cannot copy", TC_STR_ARG(path),
             err->msg);
    if (job->c->is_json) {
        tci_buf b;
        bool first = true, inner = true;
        begin_json_line(&b, &first, path);
        tci_json_put_key(&b, &first, TC_STR("error"));
        tci_buf_append_byte(&b, '{');
        cli_json_str(&b, &inner, "code", tci_str(tc_code_name(err->code)));
        cli_json_str(&b, &inner, "message", tci_str(err->msg));
        tci_buf_append_byte(&b, '}');
        put_json_line(job->c, &b);
    }
    tci_mutex_unlock(&job->lock);
}

void cp_skipped(cp_job *job, tc_str path, const char *why)
{
    tci_mutex_lock(&job->lock);
    job->counts.skipped++;
    cli_say(job->c, "left out '%.*s': %s", TC_STR_ARG(path), why);
    if (job->c->is_json) {
        tci_buf b;
        bool first = true;
        begin_json_line(&b, &first, path);
        cli_json_str(&b, &first, "skipped", tci_str(why));
        put_json_line(job->c, &b);
    }
    tci_mutex_unlock(&job->lock);
}

/* ---- folders ---- */

static int make_here(const cp_item *item, bool is_private, tc_err *err)
{
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    enum { FOLDER_MODE = 0777, PRIVATE_MODE = 0700 };
    tc_str name;
    tci_file_stat st;
    int rc = cp_open_parent(item->root->to.dir, item->to, &dir, &name, err);
    if (rc == 0)
        rc = tci_file_mkdir(dir, name, is_private ? PRIVATE_MODE : FOLDER_MODE, err);
    if (rc != TC_E_CONFLICT)
        return rc;
    rc = tci_file_stat_at(dir, name, false, &st, err);
    if (rc == 0 && st.kind != TCI_FILE_KIND_DIRECTORY)
        return tc_err_set(err, TC_E_CONFLICT, "what is there is not a folder");
    return rc;
}

static int make_there(cp_job *job, const cp_item *item, bool is_private, tc_result *r, tc_err *err)
{
    tci_buf path;
    tc_file_info info;
    tc_call call = TC_CALL(job->c->ctx, r);
    tc_result_clear(r);
    tci_buf_init(&path, TCI_BUF_MAX);
    tc_str full = cp_join(&path, item->root->to.path, item->to);
    int rc = tc_env_mkdir(item->root->to.env, &call, full, false, false, err);
    if (rc == 0 && is_private)
        rc = cp_make_private(job, item->root->to.env, full, r, err);
    if (rc == TC_E_CONFLICT) {
        rc = tc_env_stat(item->root->to.env, &call, full, false, &info, err);
        if (rc == 0 && info.kind != TC_FILE_DIRECTORY)
            rc = tc_err_set(err, TC_E_CONFLICT, "what is there is not a folder");
    }
    tci_buf_done(&path);
    return rc;
}

/* Is it in a folder that could not be made? Then nothing may be written below its name: what is
 * there may be a link to somewhere else. */
bool cp_is_below_failed(const cp_job *job, const cp_item *item)
{
    for (size_t i = 0; i < job->failed_folders.count; i++) {
        const cp_item *f = &job->failed_folders.items[i];
        if (f->root == item->root && tci_str_starts(item->to, f->to) && item->to.len > f->to.len &&
            item->to.ptr[f->to.len] == '/')
            return true;
    }
    return false;
}

/* Listings do not say it of folders on a target; over EIP nothing does. */
static int is_private_there(cp_job *job, const cp_item *item, tc_result *r, bool *ret, tc_err *err)
{
    tci_buf path;
    tc_file_info info = {0};
    tc_env *env = item->root->from.env;
    tc_call call = TC_CALL(job->c->ctx, r);
    if (env == NULL || cli_is_eip(env))
        return 0;
    tc_result_clear(r);
    tci_buf_init(&path, TCI_BUF_MAX);
    tc_str full = cp_join(&path, item->root->from.path, item->from);
    int rc = tc_env_stat(env, &call, full, false, &info, err);
    tci_buf_done(&path);
    *ret = rc == 0 && info.has_mode && cp_is_private_mode(info.mode);
    return rc;
}

static int make_folder(cp_job *job, const cp_item *item, tc_result *r, tc_err *err)
{
    if (cp_is_below_failed(job, item))
        return tc_err_set(err, TC_E_CONFLICT, "the folder it belongs in could not be made");
    bool is_private = item->is_private;
    int rc = is_private_there(job, item, r, &is_private, err);
    if (rc < 0)
        return rc;
    return item->root->to.env == NULL ? make_here(item, is_private, err)
                                      : make_there(job, item, is_private, r, err);
}

/* ---- files ---- */

/* Would the next file fail the same way? A link that was lost comes back with the next call over
 * pi-env; when it does not, that call says CONNECT. */
static bool is_shared(const cp_item *item, int rc)
{
    const tc_env *env = item->root->from.env != NULL ? item->root->from.env : item->root->to.env;
    int status = tc_code_exit_status(rc);
    if (rc == TC_E_CLOSED && env != NULL && !cli_is_eip(env))
        return false;
    return status == CLI_UNREACHABLE || rc == TC_E_CANCELLED || rc == TC_E_NO_SPACE;
}

const cp_item *cp_take(cp_job *job)
{
    tci_mutex_lock(&job->lock);
    const cp_item *item = NULL;
    if (job->stopped_by == 0 && job->next < job->until)
        item = &job->taken_from->items[job->next++];
    tci_mutex_unlock(&job->lock);
    return item;
}

static void report(cp_job *job, const cp_item *item, int rc, const tc_err *err)
{
    if (rc < 0 && rc != TC_E_CANCELLED) {
        tci_buf path;
        tci_buf_init(&path, TCI_BUF_MAX);
        cp_failed(job, cp_join(&path, item->root->from.path, item->from), err);
        tci_buf_done(&path);
    }
    tci_mutex_lock(&job->lock);
    if (rc < 0 && is_shared(item, rc) && job->stopped_by == 0) {
        job->stopped_by = rc;
        job->c->err = *err;
    }
    tci_mutex_unlock(&job->lock);
}

void cp_file_done(cp_job *job, const cp_item *item, int rc, bool is_equal, const tc_err *err)
{
    tci_mutex_lock(&job->lock);
    if (rc == 0 && is_equal)
        job->counts.equal++;
    else if (rc == 0)
        job->counts.files++;
    cli_progress_add(&job->progress, is_equal ? item->size : 0, 1);
    tci_mutex_unlock(&job->lock);
    if (rc < 0)
        report(job, item, rc, err);
}

void cp_one_file(cp_job *job, const cp_item *item, tc_result *r)
{
    bool is_equal = false;
    tc_err err;
    int rc = cp_is_below_failed(job, item)
                 ? tc_err_set(&err, TC_E_CONFLICT, "the folder it belongs in could not be made")
                 : cp_file(job, item, r, &is_equal, &err);
    cp_file_done(job, item, rc, is_equal, &err);
}

static void one_folder(cp_job *job, const cp_item *item, tc_result *r)
{
    tc_err err;
    int rc = make_folder(job, item, r, &err);
    tci_mutex_lock(&job->lock);
    if (rc == 0)
        job->counts.folders++;
    else
        job->is_failed[item - job->folders.items] = true;
    tci_mutex_unlock(&job->lock);
    report(job, item, rc, &err);
}

static void work(void *arg)
{
    cp_job *job = arg;
    const cp_item *item;
    tc_result *r = NULL;
    tc_err ignored; /* the other threads do it; if there are none, the count tells */
    if (tc_result_new(&r, &ignored) < 0)
        return;
    if (job->taken_from == &job->files && cp_many_threads(job) > 0)
        cp_many(job, r);
    while ((item = cp_take(job)) != NULL) {
        if (job->taken_from == &job->files)
            cp_one_file(job, item, r);
        else
            one_folder(job, item, r);
    }
    tc_result_free(r);
}

/* Items from first up to, not including, until. */
static int in_parallel(cp_job *job, const cp_list *list, size_t first, size_t until)
{
    tci_thread *threads[CP_THREADS_MAX] = {NULL};
    size_t n = job->nthreads < CP_THREADS_MAX ? (size_t)job->nthreads : CP_THREADS_MAX;
    job->taken_from = list;
    job->next = first;
    job->until = until;
    if (list == &job->files && cp_many_threads(job) > 0)
        n = tci_min_size(n, cp_many_threads(job));
    if (n > until - first)
        n = until - first;
    tc_err ignored; /* fewer threads do the same work */
    for (size_t i = 1; i < n; i++)
        if (tci_thread_new(work, job, 0, &threads[i], &ignored) < 0)
            break;
    if (n > 0)
        work(job);
    for (size_t i = 1; i < n; i++)
        tci_thread_join(threads[i]);
    if (job->stopped_by != 0)
        return job->stopped_by;
    return job->next < until ? tci_err_no_memory(&job->c->err) : 0;
}

static size_t depth_of(const cp_item *item)
{
    size_t depth = 0;
    for (size_t i = 0; i < item->to.len; i++)
        depth += item->to.ptr[i] == '/';
    return depth;
}

/* Folders of one level do not wait for each other. They are in the order of their levels. */
static int make_folders(cp_job *job)
{
    const cp_list *all = &job->folders;
    size_t first = 0;
    int rc = 0;
    job->is_failed = tci_arena_items(&job->c->arena, bool, all->count + 1);
    if (job->is_failed == NULL)
        return tci_arena_error(&job->c->arena, &job->c->err);
    memset(job->is_failed, 0, (all->count + 1) * sizeof *job->is_failed);
    while (rc == 0 && first < all->count) {
        size_t until = first;
        while (until < all->count && depth_of(&all->items[until]) == depth_of(&all->items[first]))
            until++;
        rc = in_parallel(job, all, first, until);
        for (size_t i = first; rc == 0 && i < until; i++)
            if (job->is_failed[i])
                rc = cp_list_add(job, &job->failed_folders, &all->items[i]);
        first = until;
    }
    return rc;
}

/* The i-th of its level before the j-th of a deeper one; otherwise as they were. A counting sort. */
static int sort_folders(cp_job *job)
{
    cp_list *all = &job->folders;
    cp_item *sorted = tci_arena_items(&job->c->arena, cp_item, all->count + 1);
    size_t n = 0;
    if (sorted == NULL)
        return tci_arena_error(&job->c->arena, &job->c->err);
    for (size_t depth = 0; n < all->count; depth++)
        for (size_t i = 0; i < all->count; i++)
            if (depth_of(&all->items[i]) == depth)
                sorted[n++] = all->items[i];
    if (n > 0)
        memcpy(all->items, sorted, n * sizeof *sorted);
    return 0;
}

/* What was written without waiting for the disk is put there now, once for each target. */
static int sync_targets(cp_job *job, const cp_root *roots, size_t nroots)
{
    cli *c = job->c;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < nroots; i++) {
        const cp_end *to = &roots[i].to;
        bool is_new = to->env != NULL && job->counts.files > 0;
        for (size_t k = 0; k < i; k++)
            is_new = is_new && roots[k].to.env != to->env;
        tc_call call = cli_call(c);
        tc_result_clear(c->result);
        if (is_new)
            rc = tc_env_sync(to->env, &call, to->path, &c->err);
    }
    return rc < 0 ? tc_err_wrap(&c->err, "the files are there, but perhaps not on the disk yet")
                  : rc;
}

int cp_run(cp_job *job, const cp_root *roots, size_t nroots)
{
    uint64_t total = 0;
    int rc = sort_folders(job);
    if (rc == 0)
        rc = make_folders(job);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < job->files.count; i++)
        total += job->files.items[i].size;
    cli_progress_start(&job->progress, job->c, "copying", total, job->files.count);
    rc = in_parallel(job, &job->files, 0, job->files.count);
    cli_progress_end(&job->progress);
    return rc == 0 ? sync_targets(job, roots, nroots) : rc;
}
