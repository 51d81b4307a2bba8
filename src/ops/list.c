/* SPDX-License-Identifier: Apache-2.0
 *
 * file.list: read all names, sort them, look at the page only. Leaves to others: the wire. Any pool
 * thread. Invariant: a page that follows another starts behind the last name of that one. */
#include "ops/list.h"
#include "ops/walk_int.h"

typedef struct listing {
    const tci_ops_list_request *req;
    const tci_cancel *cancel;
    tci_walk_cache *cache;
    tci_arena *arena;
    tci_dir dir;
    tci_names *names;
} listing;

static int read_names(listing *l, tc_err *err)
{
    unsigned flags = TCI_NAMES_NO_KIND | (l->req->include_hidden ? (unsigned)TCI_NAMES_HIDDEN : 0) |
                     (l->req->keep_raw_names ? (unsigned)TCI_NAMES_RAW : 0);
    tci_dir_stat st;
    tci_instant now = tci_clock_now();
    bool use_cache = l->cache != NULL && tci_dir_stat_at(&l->dir, NULL, false, &st, err) == 0;
    if (use_cache) {
        l->names = tci_walk_cache_get_names(l->cache, &st, flags);
        if (l->names != NULL)
            return 0;
    }
    l->names = tci_names_new();
    char *buf = tci_mem_resize(NULL, TCI_DIR_READ_BYTES);
    int rc = l->names == NULL || buf == NULL ? tci_err_no_memory(err) : 0;
    if (rc == 0)
        rc = tci_names_read(l->names, &l->dir, flags, buf, err);
    tci_free(buf);
    if (rc == 0)
        rc = tci_names_sort(l->names, false, err);
    bool is_whole = l->req->offset == 0 && l->req->max_results >= (rc == 0 ? l->names->count : 0);
    if (rc == 0 && use_cache && !is_whole)
        tci_walk_cache_put_names(l->cache, l->names, &l->dir, &st, now);
    return rc;
}

static int fill_page(listing *l, size_t at, tci_ops_entries *out, tc_err *err)
{
    const tci_ops_list_request *req = l->req;
    size_t left = l->names->count - at;
    size_t room = req->max_results < left ? (size_t)req->max_results : left;
    uint64_t spent = 0;
    out->items = tci_arena_items(l->arena, tci_walk_info, room + 1);
    if (out->items == NULL)
        return tci_arena_error(l->arena, err);
    for (; at < l->names->count; at++) {
        if (out->count == req->max_results) {
            out->has_more = true;
            return 0;
        }
        int rc = out->count % 1024 == 0 ? tci_cancel_check(l->cancel, err) : 0;
        if (rc < 0)
            return rc;
        char name[512];
        tc_str text = tci_names_text(l->names, &l->names->items[at]);
        rc = tci_cstr(text, name, sizeof name, err);
        if (rc < 0)
            return rc;
        tci_walk_item item = {.relative_path = text, .name = name, .dir = &l->dir};
        tci_walk_info *info = &out->items[out->count];
        rc = tci_walk_item_info(&item, req->path, l->arena, info, err);
        if (rc < 0)
            return rc;
        if (rc == 0)
            continue;
        spent += tci_walk_json_entry_size(info) + (out->count > 0);
        if (req->budget_bytes > 0 && spent > req->budget_bytes) {
            if (out->count == 0)
                return tc_err_set(err, TC_E_OUTPUT_LIMIT, "one entry is larger than a page");
            out->has_more = true;
            return 0;
        }
        out->count++;
    }
    return 0;
}

static int list(listing *l, tci_ops_entries *out, tc_err *err)
{
    const tci_ops_list_request *req = l->req;
    char *path;
    int rc = tci_arena_cstr(l->arena, req->path, &path, err);
    if (rc == 0)
        rc = tci_cancel_check(l->cancel, err);
    if (rc == 0)
        rc = tci_dir_open(NULL, path, 0, &l->dir, err);
    if (rc == 0)
        rc = read_names(l, err);
    if (rc < 0)
        return rc;
    out->omitted_unrepresentable = l->names->omitted;
    tci_walk_key key = {1, 1};
    unsigned options = req->include_hidden | (unsigned)req->keep_raw_names << 1;
    tci_walk_key_add(l->cache, &key, req->path.ptr, req->path.len);
    tci_walk_key_add(l->cache, &key, &options, sizeof options);
    size_t at = req->offset < l->names->count ? (size_t)req->offset : l->names->count;
    tci_walk_cursor cursor;
    bool enter;
    if (tci_walk_cache_get_cursor(l->cache, key, req->offset, l->arena, &cursor))
        at = tci_names_seek(l->names, cursor.path, false, &enter);
    rc = fill_page(l, at, out, err);
    if (rc == 0 && out->has_more) {
        cursor = (tci_walk_cursor){.path = out->items[out->count - 1].relative_path};
        tci_walk_cache_put_cursor(l->cache, key, req->offset + out->count, &cursor);
    }
    return rc;
}

int tci_ops_list(const tci_ops_list_request *req, const tci_cancel *cancel, tci_walk_cache *cache,
                 tci_arena *a, tci_ops_entries *ret_entries, tc_err *err)
{
    listing l = {.req = req, .cancel = cancel, .cache = cache, .arena = a};
    tci_ops_entries out = {0};
    int rc = list(&l, &out, err);
    tci_dir_close(&l.dir);
    tci_names_unref(l.names);
    if (rc == 0)
        *ret_entries = out;
    return rc;
}
