/* SPDX-License-Identifier: Apache-2.0
 *
 * file.find: walk, match, look at what is returned. Leaves to others: the wire; order, filters of
 * names and ignore rules (walk). Any pool thread. Invariant: a page that follows another starts
 * behind the last path of that one, when the cache remembers it. */
#include "ops/find.h"
#include "base/glob.h"
#include "ops/walk_int.h"

typedef struct finding {
    const tci_ops_find_request *req;
    tci_arena *arena;
    const tci_glob *glob;
    tci_walk *walk;
    uint64_t skip; /* matches before the page */
    size_t cap;
    uint64_t spent;
    uint64_t omitted; /* up to the last entry of the page */
    tci_ops_entries out;
} finding;

static int add_entry(finding *f, const tci_walk_item *item, tc_err *err)
{
    if (f->out.count == f->cap) {
        size_t cap = f->cap < 64 ? 64 : f->cap * 2, size = sizeof *f->out.items;
        void *items = tci_arena_grow(f->arena, f->out.items, f->cap * size, cap * size);
        if (items == NULL)
            return tci_arena_error(f->arena, err);
        f->out.items = items;
        f->cap = cap;
    }
    tci_walk_info info;
    int rc = tci_walk_item_info(item, f->req->root, f->arena, &info, err);
    if (rc <= 0)
        return rc;
    f->spent += tci_walk_json_entry_size(&info) + (f->out.count > 0);
    if (f->req->budget_bytes > 0 && f->spent > f->req->budget_bytes) {
        if (f->out.count == 0)
            return tc_err_set(err, TC_E_OUTPUT_LIMIT, "one entry is larger than a page");
        f->out.has_more = true;
        return 0;
    }
    f->out.items[f->out.count++] = info;
    f->omitted = tci_walk_omitted(f->walk);
    return 0;
}

static int fill_page(finding *f, tc_err *err)
{
    tci_walk_item item;
    int rc;
    while ((rc = tci_walk_next(f->walk, &item, err)) > 0) {
        if (f->req->kinds != 0 && !(f->req->kinds & 1u << item.kind))
            continue;
        if (!tci_glob_matches(f->glob, item.relative_path))
            continue;
        if (f->skip > 0) {
            f->skip--;
            continue;
        }
        if (f->out.count == f->req->max_results) {
            f->out.has_more = true;
            return 0;
        }
        rc = add_entry(f, &item, err);
        if (rc < 0 || f->out.has_more)
            return rc;
    }
    return rc;
}

static tci_walk_key key_of(const tci_walk_cache *cache, const tci_ops_find_request *req)
{
    tci_walk_key key = {2, 2};
    unsigned options = (unsigned)req->is_recursive | (unsigned)req->include_hidden << 1 |
                       (unsigned)req->respect_git_ignore << 2 | (unsigned)req->keep_raw_names << 3 |
                       req->kinds << 4;
    tci_walk_key_add(cache, &key, req->root.ptr, req->root.len);
    tci_walk_key_add(cache, &key, req->pattern.ptr, req->pattern.len);
    tci_walk_key_add(cache, &key, &options, sizeof options);
    return key;
}

static int find(finding *f, tci_walk_options *o, tci_walk_cache *cache, tc_err *err)
{
    const tci_ops_find_request *req = f->req;
    tci_walk_key key = key_of(cache, req);
    tci_walk_cursor cursor = {0};
    bool is_resumed = tci_walk_cache_get_cursor(cache, key, req->offset, f->arena, &cursor);
    f->skip = is_resumed ? 0 : req->offset;
    o->after = cursor.path;
    int rc = tci_walk_open(req->root, o, &f->walk, err);
    if (rc == 0)
        rc = fill_page(f, err);
    /* Names that cannot be told are counted to the end where that is near. */
    int is_end = !f->out.has_more;
    if (rc == 0 && f->out.has_more && !is_resumed)
        rc = is_end = tci_walk_drain(f->walk, TCI_WALK_COUNT_AHEAD, err);
    if (rc < 0)
        return rc;
    if (!cursor.omitted_is_total)
        cursor.omitted += is_end ? tci_walk_omitted(f->walk) : f->omitted;
    f->out.omitted_unrepresentable = cursor.omitted;
    if (f->out.has_more) {
        cursor.path = f->out.items[f->out.count - 1].relative_path;
        cursor.omitted_is_total = cursor.omitted_is_total || is_end;
        tci_walk_cache_put_cursor(cache, key, req->offset + f->out.count, &cursor);
    }
    return 0;
}

int tci_ops_find(const tci_ops_find_request *req, tci_walk_warn warn, const tci_cancel *cancel,
                 tci_walk_cache *cache, tci_arena *a, tci_ops_entries *ret_entries,
                 const char **ret_detail, tc_err *err)
{
    finding f = {.req = req, .arena = a};
    if (ret_detail != NULL)
        *ret_detail = NULL;
    int rc = tci_glob_compile(req->pattern, a, &f.glob, err);
    if (rc < 0) {
        if (rc == TC_E_INVALID && ret_detail != NULL)
            *ret_detail = "invalid_glob";
        return rc;
    }
    tci_walk_options o = {
        .is_recursive = req->is_recursive,
        .include_hidden = req->include_hidden,
        .respect_git_ignore = req->respect_git_ignore,
        .keep_raw_names = req->keep_raw_names,
        .warn = warn,
        .cancel = cancel,
        .cache = cache,
    };
    rc = find(&f, &o, cache, err);
    tci_walk_close(f.walk);
    if (rc == 0)
        *ret_entries = f.out;
    return rc;
}
