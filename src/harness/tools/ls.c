/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool "ls": the entries of one folder. The thread of the call. */
#include "harness/tools/tool_common.h"

#include "base/num.h"
#include <stdlib.h>

enum { LIMIT = 500, LIMIT_MAX = 10000, READ_MAX = 200000, PAGE = 1000 };

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"path\":{\"type\":\"string\",\"description\":\"Folder to list; without it the working "
    "directory\"},"
    "\"offset\":{\"type\":\"number\",\"description\":\"Entry to start at, from 1\"},"
    "\"limit\":{\"type\":\"number\",\"description\":\"Most entries to list (500)\"}}}";

typedef struct names {
    tc_env_file *items;
    size_t n, cap;
    bool is_cut; /* the folder has more than are looked at */
} names;

static int by_name(const void *a, const void *b)
{
    return tci_str_cmp(((const tc_env_file *)a)->name, ((const tc_env_file *)b)->name);
}

static int keep(const tci_work *w, names *all, const tc_env_files *page)
{
    tci_arena *a = tci_work_arena(w);
    size_t room = READ_MAX - all->n, n = tci_min_size(page->count, room);
    all->is_cut |= n < page->count;
    if (all->n + n > all->cap) {
        size_t cap = tci_min_size(all->cap == 0 ? PAGE : all->cap * 2, READ_MAX);
        tc_env_file *grown =
            tci_arena_grow(a, all->items, all->cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL)
            return tci_arena_error(a, w->err);
        all->items = grown;
        all->cap = cap;
    }
    if (n > 0)
        memcpy(all->items + all->n, page->entries, n * sizeof *all->items);
    all->n += n;
    return 0;
}

static int read_all(const tci_work *w, tc_str path, names *all)
{
    tc_call call = tci_work_call(w);
    tc_dir_reader *reader;
    tc_env_files page = {0};
    if (tc_env_open_dir_reader(w->env, &call, path, &reader, w->err) < 0)
        return w->err->code;
    int rc = 0;
    while (rc == 0 && !page.is_done && !all->is_cut) {
        rc = tc_dir_reader_next(reader, &call, PAGE, &page, w->err);
        if (rc == 0)
            rc = keep(w, all, &page);
    }
    tc_dir_reader_free(reader);
    if (rc == 0 && all->n > 1)
        qsort(all->items, all->n, sizeof *all->items, by_name);
    return rc;
}

static const char *sign_of(tc_file_kind kind)
{
    return kind == TC_FILE_DIRECTORY ? "/" : kind == TC_FILE_SYMLINK ? "@" : "";
}

static int say(const tci_work *w, const names *all, uint64_t first, uint64_t limit,
               tc_tool_result *ret)
{
    tci_buf b;
    uint64_t shown;
    bool is_cut;
    if (first > 1 && first > all->n)
        return tc_tool_fail(w->api, w->err, "Offset %llu is beyond the end (%zu entries)",
                            (unsigned long long)first, all->n);
    tci_buf_init(&b, TCI_BUF_MAX);
    uint64_t last = tci_min_u64(first - 1 + limit, all->n);
    for (uint64_t i = first - 1; i < last; i++) {
        tci_buf_append_str(&b, all->items[i].name);
        tci_buf_append_str(&b, tci_str(sign_of(all->items[i].kind)));
        tci_buf_append_byte(&b, '\n');
    }
    if (all->n == 0)
        tci_buf_append_str(&b, TC_STR("(empty folder)\n"));
    if (tci_work_say_lines(w, &b, ret, &shown, &is_cut) < 0)
        return w->err->code;
    last = is_cut ? first - 1 + shown : last;
    if (last < all->n &&
        tci_work_remark(w, ret, TC_SEVERITY_INFO, "truncated",
                        "Showing entries %llu-%llu of %zu%s. Use offset=%llu to continue.",
                        (unsigned long long)first, (unsigned long long)last, all->n,
                        is_cut ? " (50.0KB limit)" : "", (unsigned long long)last + 1) < 0)
        return w->err->code;
    if (all->is_cut &&
        tci_work_remark(w, ret, TC_SEVERITY_WARN, "truncated",
                        "The folder has more than %d entries; the rest was not looked at.",
                        READ_MAX) < 0)
        return w->err->code;
    return tci_result_printf(w->r, &ret->details, w->err,
                             "{\"entries\":%zu,\"first\":%llu,\"last\":%llu}", all->n,
                             (unsigned long long)first, (unsigned long long)last);
}

static int execute(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                   tc_err *err)
{
    tci_work w;
    tc_str root, shown;
    uint64_t first, limit;
    names all = {0};
    TCI_UNUSED(user);
    if (tci_work_begin(&w, api, ctx, arguments, err) < 0 ||
        tci_work_count(&w, TC_STR("offset"), UINT32_MAX, 1, &first) < 0 ||
        tci_work_count(&w, TC_STR("limit"), LIMIT_MAX, LIMIT, &limit) < 0 ||
        tci_work_root(&w, &root, &shown) < 0 || read_all(&w, root, &all) < 0)
        return err->code;
    return say(&w, &all, first, limit, ret);
}

void tc_tool_ls(tc_tool *ret_tool)
{
    *ret_tool =
        (tc_tool){.size = sizeof *ret_tool,
                  .name = TC_STR("ls"),
                  .description = TC_STR(
                      "List a folder: names in order, hidden ones too, folders with / behind "
                      "them and links with @. Long lists go on with offset."),
                  .parameters = {schema, sizeof schema - 1},
                  .execute = execute,
                  .replay = TC_REPLAY_SAFE};
}
