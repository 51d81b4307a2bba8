/* SPDX-License-Identifier: Apache-2.0
 *
 * The trees that find and grep look through. The thread of the call. */
#include "harness/tools/tool_common.h"

enum { MAX_ENTRIES = 50000, MAX_DEPTH = 64, PAGE = 1000 };

int tci_work_root(const tci_work *w, tc_str *ret_root, tc_str *ret_shown)
{
    tc_str path = TC_STR(".");
    tci_buf b;
    (void)tci_work_text(w, TC_STR("path"), &path); /* absent: here */
    if (path.len == 0)
        path = TC_STR(".");
    if (tci_work_path(w, path, ret_root) < 0)
        return w->err->code;
    while (path.len > 2 && path.ptr[0] == '.' && path.ptr[1] == '/')
        path = tci_str_sub(path, 2, path.len);
    tci_buf_init(&b, TCI_BUF_MAX);
    if (!tci_str_eq(path, TC_STR(".")) && !tci_str_eq(path, TC_STR("./"))) {
        tci_buf_append_str(&b, path);
        if (path.ptr[path.len - 1] != '/')
            tci_buf_append_byte(&b, '/');
    }
    return tci_result_take(w->r, &b, ret_shown, w->err);
}

typedef struct walk {
    const tci_work *w;
    tc_str root;
    tc_tree_entry *entries;
    size_t n, cap;
    bool is_truncated;
} walk;

static int add(walk *k, tc_str path, tc_file_kind kind)
{
    tci_arena *a = tci_work_arena(k->w);
    if (k->n == k->cap) {
        size_t cap = k->cap == 0 ? 256 : k->cap * 2;
        tc_tree_entry *grown =
            tci_arena_grow(a, k->entries, k->cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL)
            return tci_arena_error(a, k->w->err);
        k->entries = grown;
        k->cap = cap;
    }
    k->entries[k->n++] = (tc_tree_entry){path, kind};
    return 0;
}

static int walk_folder(walk *k, tc_str below, unsigned depth);

static int take_entry(walk *k, tc_str below, const tc_env_file *file, unsigned depth)
{
    tc_str path;
    if (tci_str_eq(file->name, TC_STR(".git")))
        return 0;
    if (tci_result_printf(k->w->r, &path, k->w->err, "%.*s%s%.*s", TC_STR_ARG(below),
                          below.len > 0 ? "/" : "", TC_STR_ARG(file->name)) < 0 ||
        add(k, path, file->kind) < 0)
        return k->w->err->code;
    return file->kind == TC_FILE_DIRECTORY && depth < MAX_DEPTH ? walk_folder(k, path, depth + 1)
                                                                : 0;
}

static int walk_folder(walk *k, tc_str below, unsigned depth)
{
    tc_call call = tci_work_call(k->w);
    tc_str parts[2] = {k->root, below}, path = k->root;
    tc_dir_reader *reader;
    tc_env_files page = {0};
    if (below.len > 0 && tc_env_join_path(k->w->env, &call, parts, 2, &path, k->w->err) < 0)
        return k->w->err->code;
    if (tc_env_open_dir_reader(k->w->env, &call, path, &reader, k->w->err) < 0)
        return depth > 0 ? 0 : k->w->err->code; /* one that cannot be opened is passed over */
    int rc = 0;
    while (rc == 0 && !page.is_done && !k->is_truncated) {
        rc = tc_dir_reader_next(reader, &call, PAGE, &page, k->w->err);
        for (size_t i = 0; rc == 0 && i < page.count && !k->is_truncated; i++) {
            k->is_truncated = k->n >= MAX_ENTRIES;
            rc = k->is_truncated ? 0 : take_entry(k, below, &page.entries[i], depth);
        }
    }
    tc_dir_reader_free(reader);
    return rc;
}

int tci_work_tree(const tci_work *w, tc_str root, tc_tree *ret_tree)
{
    tc_call call = tci_work_call(w);
    tc_list_files_options o = {
        .size = sizeof o, .has_max_entries = true, .max_entries = MAX_ENTRIES};
    walk k = {.w = w, .root = root};
    if (tc_env_list_files(w->env, &call, root, &o, ret_tree, w->err) == 0)
        return 0;
    if (tc_result_evidence(w->r)->env_error != TC_ENV_NOT_SUPPORTED ||
        walk_folder(&k, (tc_str){0}, 0) < 0)
        return w->err->code;
    *ret_tree = (tc_tree){k.entries, k.n, k.is_truncated};
    return 0;
}
