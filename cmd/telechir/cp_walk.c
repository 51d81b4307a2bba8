/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in a tree, here or there. The main thread. Invariant: no link is followed; whatever is
 * neither a file nor a folder is reported. */
#include "cp.h"

#include "base/utf8.h"
#include "plat/dir.h"

enum { PAGE = 5000, DEPTH_MAX = 128 };

int cp_list_add(cp_job *job, cp_list *list, const cp_item *item)
{
    tci_arena *a = &job->c->arena;
    if (list->count == list->cap) {
        size_t cap = list->cap * 2 + 64;
        cp_item *items =
            tci_arena_grow(a, list->items, list->cap * sizeof *items, cap * sizeof *items);
        if (items == NULL)
            return tci_arena_error(a, &job->c->err);
        list->items = items;
        list->cap = cap;
    }
    cp_item kept = *item;
    int rc = tci_arena_dup(a, item->from, &kept.from, &job->c->err);
    if (rc == 0)
        rc = tci_arena_dup(a, item->to, &kept.to, &job->c->err);
    if (rc == 0)
        list->items[list->count++] = kept;
    return rc;
}

static int add(cp_job *job, cp_list *list, const cp_root *root, tc_str rel, uint64_t size,
               bool is_executable)
{
    cp_item item = {.root = root, .from = rel, .to = rel, .size = size};
    item.is_executable = is_executable;
    return cp_list_add(job, list, &item);
}

/* ---- here ---- */

static int walk_here(cp_job *job, const cp_root *root, const tci_dir *dir, tci_buf *rel,
                     unsigned depth);

/* A folder cannot be read: its files are missing, which is a failure of theirs. */
static void failed_at(cp_job *job, const cp_root *root, tc_str rel)
{
    tci_buf path;
    tci_buf_init(&path, TCI_BUF_MAX);
    cp_failed(job, cp_join(&path, root->from.path, rel), &job->c->err);
    tci_buf_done(&path);
}

static void skipped_at(cp_job *job, const cp_root *root, tc_str rel, const char *why)
{
    tci_buf path;
    tci_buf_init(&path, TCI_BUF_MAX);
    cp_skipped(job, cp_join(&path, root->from.path, rel), why);
    tci_buf_done(&path);
}

static int walk_folder_here(cp_job *job, const cp_root *root, const tci_dir *dir, const char *name,
                            unsigned mode, tci_buf *rel, unsigned depth)
{
    tci_dir sub = {0};
    int rc = add(job, &job->folders, root, tci_buf_str(rel), 0, false);
    if (rc < 0)
        return rc;
    job->folders.items[job->folders.count - 1].is_private = cp_is_private_mode(mode);
    if (depth >= DEPTH_MAX) {
        (void)tc_err_set(&job->c->err, TC_E_TOO_BIG, "more than %d folders deep", DEPTH_MAX);
        failed_at(job, root, tci_buf_str(rel));
        return 0;
    }
    if (tci_dir_open(dir, name, TCI_DIR_NO_FOLLOW, &sub, &job->c->err) < 0) {
        failed_at(job, root, tci_buf_str(rel));
        return 0;
    }
    rc = walk_here(job, root, &sub, rel, depth + 1);
    tci_dir_close(&sub);
    return rc;
}

static int walk_entry_here(cp_job *job, const cp_root *root, const tci_dir *dir, const char *name,
                           tci_buf *rel, unsigned depth)
{
    tci_dir_stat st;
    tc_str path = tci_buf_str(rel);
    if (root->to.env != NULL && !tci_utf8_is_valid(path)) {
        (void)tc_err_set(&job->c->err, TC_E_UNSUPPORTED, "the name is not UTF-8");
        failed_at(job, root, path);
        return 0;
    }
    if (tci_dir_stat_at(dir, name, false, &st, &job->c->err) < 0) {
        failed_at(job, root, path);
        return 0;
    }
    if (st.kind == TCI_DIR_KIND_DIRECTORY)
        return walk_folder_here(job, root, dir, name, st.mode, rel, depth);
    if (st.kind == TCI_DIR_KIND_FILE)
        return add(job, &job->files, root, path, st.size_bytes, st.is_executable);
    skipped_at(job, root, path, st.kind == TCI_DIR_KIND_SYMLINK ? "symlink" : "special file");
    return 0;
}

static int walk_here(cp_job *job, const cp_root *root, const tci_dir *dir, tci_buf *rel,
                     unsigned depth)
{
    tci_dir_reader reader;
    tci_dir_entry entry;
    size_t len = rel->len;
    char *buf = tci_mem_alloc(TCI_DIR_READ_BYTES);
    int rc = buf != NULL ? tci_dir_read_start(&reader, dir, buf, &job->c->err)
                         : tci_err_no_memory(&job->c->err);
    while (rc >= 0) {
        rc = tci_dir_read_next(&reader, &entry, &job->c->err);
        if (rc <= 0)
            break;
        if (len > 0)
            tci_buf_append_byte(rel, '/');
        tci_buf_append_str(rel, entry.name);
        rc = tci_buf_error(rel, &job->c->err);
        if (rc == 0)
            rc = walk_entry_here(job, root, dir, entry.name.ptr, rel, depth);
        tci_buf_truncate(rel, len);
    }
    tci_free(buf);
    return rc;
}

static int walk_root_here(cp_job *job, const cp_root *root)
{
    tci_dir dir = {0};
    tci_buf rel;
    char *path;
    int rc = tci_arena_cstr(&job->c->arena, root->from.path, &path, &job->c->err);
    if (rc == 0)
        rc = tci_dir_open(NULL, path, 0, &dir, &job->c->err);
    if (rc < 0)
        return rc;
    tci_buf_init(&rel, TCI_BUF_MAX);
    rc = walk_here(job, root, &dir, &rel, 0);
    tci_buf_done(&rel);
    tci_dir_close(&dir);
    return rc;
}

/* ---- there ---- */

static int add_found(cp_job *job, const cp_root *root, const tc_file_entry *e)
{
    switch (e->info.kind) {
    case TC_FILE_DIRECTORY:
        return add(job, &job->folders, root, e->relative_path, 0, false);
    case TC_FILE_REGULAR:
        return add(job, &job->files, root, e->relative_path, e->info.size_bytes,
                   e->info.is_executable);
    case TC_FILE_SYMLINK:
        skipped_at(job, root, e->relative_path, "symlink");
        return 0;
    case TC_FILE_OTHER:
        break;
    }
    skipped_at(job, root, e->relative_path, "special file");
    return 0;
}

static void count_unnamed(cp_job *job, const cp_root *root, uint64_t n)
{
    if (n == 0)
        return;
    (void)tc_err_set(&job->c->err, TC_E_UNSUPPORTED, "%llu name%s in it not in UTF-8",
                     (unsigned long long)n, cli_s(n));
    failed_at(job, root, TC_STR(""));
}

static int walk_root_there(cp_job *job, const cp_root *root)
{
    cli *c = job->c;
    tc_find_options o = {.size = sizeof o, .max_results = PAGE, .include_hidden = true};
    for (;;) {
        tc_file_page page;
        tc_call call = cli_call(c);
        tc_result_clear(c->result);
        int rc =
            tc_env_find(root->from.env, &call, root->from.path, TC_STR("*"), &o, &page, &c->err);
        for (size_t i = 0; rc == 0 && i < page.count; i++)
            rc = add_found(job, root, &page.entries[i]);
        if (rc < 0)
            return rc;
        o.offset += page.count;
        if (page.has_more)
            continue;
        count_unnamed(job, root, page.omitted_unrepresentable);
        return 0;
    }
}

int cp_walk(cp_job *job, const cp_root *root)
{
    return root->from.env == NULL ? walk_root_here(job, root) : walk_root_there(job, root);
}
