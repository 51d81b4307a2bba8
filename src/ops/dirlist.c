/* SPDX-License-Identifier: Apache-2.0
 *
 * directory.list: the directories in a directory. Leaves to others: the wire. Any pool thread.
 * Invariant: a symbolic link counts by what it leads to, at the time of the call. */
#include "ops/dirlist.h"
#include "ops/names_int.h"

/* Links are followed here, before paging, since what they lead to decides whether they count. */
static int keep_directories(tci_names *n, const tci_dir *dir, const tci_cancel *cancel, tc_err *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < n->count; i++) {
        tci_name *item = &n->items[i];
        int rc = i % 1024 == 0 ? tci_cancel_check(cancel, err) : 0;
        if (rc < 0)
            return rc;
        if (item->kind == TCI_DIR_KIND_SYMLINK || item->kind == TCI_DIR_KIND_UNKNOWN) {
            char name[512];
            tci_dir_stat st;
            if (tci_cstr(tci_names_text(n, item), name, sizeof name, err) < 0 ||
                tci_dir_stat_at(dir, name, true, &st, err) < 0)
                continue; /* leads nowhere, or not for us */
            item->kind = (uint8_t)st.kind;
        }
        if (item->kind == TCI_DIR_KIND_DIRECTORY)
            n->items[kept++] = *item;
    }
    n->count = kept;
    return 0;
}

static int fill(const tci_ops_dirlist_request *req, const tci_names *n, tci_arena *a,
                tci_ops_dirlist_result *out, tc_err *err)
{
    size_t at = req->offset < n->count ? (size_t)req->offset : n->count;
    size_t room = req->limit < n->count - at ? (size_t)req->limit : n->count - at;
    uint64_t spent = 0;
    tc_str base = tci_str_eq(out->path, TC_STR("/")) ? tci_str_of("", 0) : out->path;
    out->items = tci_arena_items(a, tci_ops_dirlist_entry, room + 1);
    if (out->items == NULL)
        return tci_arena_error(a, err);
    for (; out->count < room; at++) {
        tc_str name = tci_names_text(n, &n->items[at]), path;
        int rc = tci_arena_printf(a, &path, err, "%.*s/%.*s", TC_STR_ARG(base), TC_STR_ARG(name));
        if (rc < 0)
            return rc;
        spent += name.len + path.len;
        if (req->budget_bytes > 0 && spent > req->budget_bytes)
            return tc_err_set(err, TC_E_QUOTA, "the page is too large");
        out->items[out->count++] =
            (tci_ops_dirlist_entry){tci_str_sub(path, path.len - name.len, name.len), path};
    }
    out->has_next = at < n->count;
    out->next_offset = req->offset + req->limit;
    return 0;
}

static int name_folder(const tci_dir *dir, tci_arena *a, tci_ops_dirlist_result *out, tc_err *err)
{
    tci_buf path;
    tci_buf_init(&path, TCI_BUF_MAX);
    int rc = tci_dir_real_path(dir, &path, err);
    if (rc == 0)
        rc = tci_arena_dup(a, tci_buf_str(&path), &out->path, err);
    tci_buf_done(&path);
    if (rc < 0 || out->path.len < 2)
        return rc;
    size_t slash = tci_str_rfind_byte(out->path, '/');
    out->has_parent = true;
    out->parent_path = tci_str_sub(out->path, 0, slash > 0 ? slash : 1);
    return 0;
}

static int list(const tci_ops_dirlist_request *req, const tci_cancel *cancel, tci_arena *a,
                tci_dir *dir, tci_names *n, char *buf, tci_ops_dirlist_result *out, tc_err *err)
{
    char *path;
    int rc = tci_arena_cstr(a, req->path, &path, err);
    if (rc == 0)
        rc = tci_cancel_check(cancel, err);
    if (rc == 0)
        rc = tci_dir_open(NULL, path, 0, dir, err);
    if (rc == 0)
        rc = name_folder(dir, a, out, err);
    if (rc == 0)
        rc = tci_names_read(n, dir, TCI_NAMES_HIDDEN | TCI_NAMES_NO_KIND, buf, err);
    if (rc == 0 && n->visited > TCI_DIRLIST_SCAN_MAX)
        rc = tc_err_set(err, TC_E_QUOTA, "more than %d entries", TCI_DIRLIST_SCAN_MAX);
    if (rc == 0)
        rc = keep_directories(n, dir, cancel, err);
    if (rc == 0)
        rc = tci_names_sort(n, false, err);
    if (rc == 0)
        rc = fill(req, n, a, out, err);
    return rc;
}

int tci_ops_dirlist(const tci_ops_dirlist_request *req, const tci_cancel *cancel, tci_arena *a,
                    tci_ops_dirlist_result *ret_result, tc_err *err)
{
    if (req->offset > TCI_DIRLIST_WINDOW || req->limit > TCI_DIRLIST_WINDOW - req->offset)
        return tc_err_set(err, TC_E_QUOTA, "only the first %d entries can be listed",
                          TCI_DIRLIST_WINDOW);
    tci_ops_dirlist_result out = {0};
    tci_dir dir = {0};
    tci_names *n = tci_names_new();
    char *buf = tci_mem_resize(NULL, TCI_DIR_READ_BYTES);
    int rc = n == NULL || buf == NULL ? tci_err_no_memory(err)
                                      : list(req, cancel, a, &dir, n, buf, &out, err);
    tci_dir_close(&dir);
    tci_free(buf);
    tci_names_unref(n);
    if (rc == 0)
        *ret_result = out;
    return rc;
}
