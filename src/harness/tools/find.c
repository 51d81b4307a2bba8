/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool "find": files whose names match a pattern. The thread of the call. */
#include "harness/tools/tool_common.h"

#include "base/glob.h"
#include "base/num.h"

enum { LIMIT = 1000, LIMIT_MAX = 10000 };

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"pattern\":{\"type\":\"string\",\"description\":\"Glob: *.c, **/test_*.py, src/**/*.{h,c}; "
    "without "
    "/ it is matched against names, else against paths below the folder\"},"
    "\"path\":{\"type\":\"string\",\"description\":\"Folder to look in; without it the working "
    "directory\"},"
    "\"offset\":{\"type\":\"number\",\"description\":\"Match to start at, from 1\"},"
    "\"limit\":{\"type\":\"number\",\"description\":\"Most matches to list (1000)\"}},"
    "\"required\":[\"pattern\"]}";

static int say(const tci_work *w, const tc_tree *tree, const tci_glob *glob, tc_str shown_root,
               uint64_t first, uint64_t limit, tc_tool_result *ret)
{
    tci_buf b;
    uint64_t n = 0, last = first - 1, nshown;
    bool is_cut;
    tci_buf_init(&b, TCI_BUF_MAX);
    for (size_t i = 0; i < tree->count; i++) {
        const tc_tree_entry *e = &tree->entries[i];
        if (!tci_glob_matches(glob, e->path) || ++n < first || n >= first + limit)
            continue;
        tci_buf_append_str(&b, shown_root);
        tci_buf_append_str(&b, e->path);
        tci_buf_append_str(&b, e->kind == TC_FILE_DIRECTORY ? TC_STR("/\n") : TC_STR("\n"));
        last = n;
    }
    if (n == 0)
        tci_buf_append_str(&b, TC_STR("No files found matching the pattern\n"));
    if (tci_work_say_lines(w, &b, ret, &nshown, &is_cut) < 0)
        return w->err->code;
    last = is_cut ? first - 1 + nshown : last;
    if (last < n &&
        tci_work_remark(w, ret, TC_SEVERITY_INFO, "truncated",
                        "Showing matches %llu-%llu of %llu%s. Use offset=%llu to continue.",
                        (unsigned long long)first, (unsigned long long)last, (unsigned long long)n,
                        is_cut ? " (50.0KB limit)" : "", (unsigned long long)last + 1) < 0)
        return w->err->code;
    if (tree->is_truncated &&
        tci_work_remark(
            w, ret, TC_SEVERITY_WARN, "truncated",
            "The tree is too large: %zu entries were looked at. Give a path further down.",
            tree->count) < 0)
        return w->err->code;
    return tci_result_printf(
        w->r, &ret->details, w->err, "{\"matches\":%llu,\"first\":%llu,\"last\":%llu}",
        (unsigned long long)n, (unsigned long long)first, (unsigned long long)last);
}

static int execute(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                   tc_err *err)
{
    tci_work w;
    tc_str root, shown, pattern = {0};
    uint64_t first, limit;
    const tci_glob *glob;
    tc_tree tree;
    TCI_UNUSED(user);
    if (tci_work_begin(&w, api, ctx, arguments, err) < 0)
        return err->code;
    (void)tci_work_text(&w, TC_STR("pattern"), &pattern); /* the schema demands it */
    if (tci_work_count(&w, TC_STR("offset"), UINT32_MAX, 1, &first) < 0 ||
        tci_work_count(&w, TC_STR("limit"), LIMIT_MAX, LIMIT, &limit) < 0 ||
        tci_glob_compile(pattern, tci_work_arena(&w), &glob, err) < 0 ||
        tci_work_root(&w, &root, &shown) < 0 || tci_work_tree(&w, root, &tree) < 0)
        return err->code;
    return say(&w, &tree, glob, shown, first, limit, ret);
}

void tc_tool_find(tc_tool *ret_tool)
{
    *ret_tool =
        (tc_tool){.size = sizeof *ret_tool,
                  .name = TC_STR("find"),
                  .description = TC_STR(
                      "Find files and folders by a glob pattern, in order of their paths. Hidden "
                      "ones are found, ignored ones (.gitignore) and .git are not."),
                  .parameters = {schema, sizeof schema - 1},
                  .execute = execute,
                  .replay = TC_REPLAY_SAFE};
}
