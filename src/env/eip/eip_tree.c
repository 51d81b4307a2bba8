/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole trees over EIP: a walk with one listing for each directory, and the ignore rules of a git
 * work tree applied here (EIP's own apply outside of one, too). The caller's thread. Invariant: an
 * ignored or excluded directory is not entered, and no link is. */
#include "env/eip/eip_int.h"

#include "base/ignore.h"
#include "plat/clock.h"

enum { ENTRY_COST = 2, DEPTH_MAX = 1000 };

/* One file of rules, and those that it overrules. */
typedef struct rules {
    const struct rules *outer;
    const tci_ignore *ignore;
    size_t base; /* bytes of a path from the top that the rules do not see */
} rules;

typedef struct walk {
    tc_env *env;
    const tc_call *call;
    const tc_list_files_options *o;
    tci_arena *a; /* of the call's result */
    int64_t deadline_ns;
    tc_str root, top; /* top: of the work tree; empty when there is none */
    tc_tree_entry *entries;
    size_t count, cap;
    uint64_t cost;
    bool is_truncated;
} walk;

static int join(const walk *w, tc_str dir, tc_str name, tc_str *ret, tc_err *err)
{
    if (dir.len == 0) {
        *ret = name;
        return 0;
    }
    const char *separator = dir.ptr[dir.len - 1] == '/' ? "" : "/";
    return tci_arena_printf(w->a, ret, err, "%.*s%s%.*s", TC_STR_ARG(dir), separator,
                            TC_STR_ARG(name));
}

/* ---- rules ---- */

static int into_buffer(void *user, const void *bytes, size_t len, tc_err *err)
{
    tci_buf *b = user;
    tci_buf_append(b, bytes, len);
    return tci_buf_error(b, err);
}

/* The rules in a file, on top of outer; outer alone when there are none to be read. */
static int add_rules(walk *w, tc_str path, size_t base, const rules *outer, const rules **ret,
                     tc_err *err)
{
    tc_call aside;
    tci_buf b;
    tc_err ignored; /* a file that cannot be read has no rules */
    *ret = outer;
    int rc = tci_eip_aside(w->call, &aside, err);
    if (rc < 0)
        return rc;
    tci_buf_init(&b, TCI_IGNORE_MAX_BYTES);
    if (tci_eip_read_stream(w->env, &aside, path, NULL, into_buffer, &b, NULL, &ignored) == 0) {
        rules *r = tci_arena_new(w->a, rules);
        rc = r != NULL ? tci_ignore_parse(tci_buf_str(&b), w->a, NULL, NULL, &r->ignore, err)
                       : tci_arena_error(w->a, err);
        if (rc == 0) {
            r->outer = outer;
            r->base = base;
            *ret = r;
        }
    }
    tci_buf_done(&b);
    tci_eip_aside_done(&aside);
    return rc;
}

static bool is_ignored(const walk *w, const rules *r, tc_str path, bool is_directory)
{
    tc_str from_top = tci_str_sub(path, w->top.len + (w->top.len > 1 ? 1 : 0), SIZE_MAX);
    for (; r != NULL; r = r->outer) {
        tci_ignore_verdict v =
            tci_ignore_match(r->ignore, tci_str_sub(from_top, r->base, SIZE_MAX), is_directory);
        if (v != TCI_IGNORE_NONE)
            return v == TCI_IGNORE_EXCLUDED;
    }
    return false;
}

static tc_str parent_of(tc_str path)
{
    size_t slash = tci_str_rfind_byte(path, '/');
    return slash == 0 || slash >= path.len ? TC_STR("/") : tci_str_sub(path, 0, slash);
}

/* The work tree that root is in. */
static int find_top(walk *w, tc_err *err)
{
    tc_call aside;
    int rc = tci_eip_aside(w->call, &aside, err);
    for (tc_str dir = w->root; rc == 0 && w->top.len == 0; dir = parent_of(dir)) {
        tc_str git;
        tc_file_info info;
        tc_err ignored;
        rc = join(w, dir, TC_STR(".git"), &git, err);
        if (rc == 0 && tci_eip_stat(w->env, &aside, git, false, &info, &ignored) == 0)
            w->top = dir;
        if (dir.len <= 1)
            break;
    }
    tci_eip_aside_done(&aside);
    return rc;
}

/* The rules from the top down to, but not in, the directory that is listed. */
static int outer_rules(walk *w, const rules **ret, tc_err *err)
{
    tc_str path;
    size_t skip = w->top.len + (w->top.len > 1 ? 1 : 0);
    int rc = join(w, w->top, TC_STR(".git/info/exclude"), &path, err);
    if (rc == 0)
        rc = add_rules(w, path, 0, NULL, ret, err);
    for (size_t at = w->top.len; rc == 0 && at < w->root.len;) {
        tc_str dir = tci_str_sub(w->root, 0, at > 0 ? at : 1);
        size_t base = at + 1 > skip ? at + 1 - skip : 0;
        rc = join(w, dir, TC_STR(".gitignore"), &path, err);
        if (rc == 0)
            rc = add_rules(w, path, base, *ret, ret, err);
        tc_str rest = tci_str_sub(w->root, at + 1, SIZE_MAX);
        at += 1 + tci_str_find_byte(rest, '/');
    }
    return rc;
}

/* ---- entries ---- */

static bool is_excluded(const walk *w, tc_str name)
{
    if (tci_str_eq(name, TC_STR(".git")) || (w->o->without_hidden && name.ptr[0] == '.'))
        return true;
    for (size_t i = 0; i < w->o->exclude.count; i++)
        if (tci_str_eq(name, w->o->exclude.items[i]))
            return true;
    return false;
}

static int add_entry(walk *w, tc_str path, tc_file_kind kind, tc_err *err)
{
    enum { FIRST = 64 };
    uint64_t cost = w->cost + path.len + ENTRY_COST;
    w->is_truncated = w->count == (uint64_t)w->o->max_entries || cost > (uint64_t)w->o->max_bytes ||
                      tci_clock_mono_ns() >= w->deadline_ns;
    if (w->is_truncated)
        return 0;
    if (w->count == w->cap) {
        size_t cap = w->cap > 0 ? 2 * w->cap : FIRST;
        tc_tree_entry *grown =
            tci_arena_grow(w->a, w->entries, w->cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL)
            return tci_arena_error(w->a, err);
        w->entries = grown;
        w->cap = cap;
    }
    w->entries[w->count++] = (tc_tree_entry){path, kind};
    w->cost = cost;
    return 0;
}

/* ---- the walk ---- */

static int walk_directory(walk *w, tc_str below, const rules *outer, unsigned depth, tc_err *err);

static int walk_entry(walk *w, tc_str below, const tc_env_file *file, const rules *r,
                      unsigned depth, tc_err *err)
{
    tc_str path, full;
    bool is_dir = file->kind == TC_FILE_DIRECTORY;
    if (is_excluded(w, file->name))
        return 0;
    int rc = join(w, w->root, below, &full, err);
    if (rc == 0)
        rc = join(w, below.len > 0 ? full : w->root, file->name, &full, err);
    if (rc == 0 && w->top.len > 0 && is_ignored(w, r, full, is_dir))
        return 0;
    tc_str name = {0};
    if (rc == 0)
        rc = tci_arena_dup(w->a, file->name, &name, err);
    if (rc == 0)
        rc = join(w, below, name, &path, err);
    if (rc == 0)
        rc = add_entry(w, path, file->kind, err);
    if (rc < 0 || w->is_truncated || !is_dir || depth >= DEPTH_MAX)
        return rc;
    rc = walk_directory(w, path, r, depth + 1, err);
    /* A directory below that cannot be read is left as it is. */
    return rc == TC_E_DENIED || rc == TC_E_NOT_FOUND ? 0 : rc;
}

static int with_own_rules(walk *w, tc_str dir, const tci_file_list *list, const rules *outer,
                          const rules **ret, tc_err *err)
{
    tc_str path;
    *ret = outer;
    for (size_t i = 0; w->top.len > 0 && i < list->count; i++) {
        if (!tci_str_eq(list->items[i].name, TC_STR(".gitignore")))
            continue;
        size_t base = dir.len == w->top.len ? 0 : dir.len + 1 - w->top.len - (w->top.len > 1);
        int rc = join(w, dir, TC_STR(".gitignore"), &path, err);
        return rc == 0 ? add_rules(w, path, base, outer, ret, err) : rc;
    }
    return 0;
}

static int walk_directory(walk *w, tc_str below, const rules *outer, unsigned depth, tc_err *err)
{
    tc_call aside;
    tc_str dir = w->root;
    tci_file_list list = {0};
    const rules *r = outer;
    int rc = below.len > 0 ? join(w, w->root, below, &dir, err) : 0;
    if (rc == 0)
        rc = tci_eip_aside(w->call, &aside, err);
    if (rc < 0)
        return rc;
    rc = tci_eip_list_dir(w->env, &aside, dir, &list, err);
    if (rc < 0 && depth == 0)
        tci_env_blame(w->call, tc_result_evidence(aside.result)->env_error, dir);
    if (rc == 0)
        rc = with_own_rules(w, dir, &list, outer, &r, err);
    for (size_t i = 0; rc == 0 && !w->is_truncated && i < list.count; i++)
        rc = walk_entry(w, below, &list.items[i], r, depth, err);
    tci_eip_aside_done(&aside);
    return rc;
}

int tci_eip_list_files(tc_env *env, const tc_call *call, tc_str path,
                       const tc_list_files_options *options, tc_tree *ret_tree, tc_err *err)
{
    const rules *outer = NULL;
    walk w = {
        .env = env, .call = call, .o = options, .a = tci_result_arena(call->result), .root = path};
    w.deadline_ns = tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns((uint64_t)options->timeout_ms));
    int rc = options->without_gitignore ? 0 : find_top(&w, err);
    if (rc == 0 && w.top.len > 0)
        rc = outer_rules(&w, &outer, err);
    if (rc == 0)
        rc = walk_directory(&w, (tc_str){0}, outer, 0, err);
    if (rc == 0)
        *ret_tree = (tc_tree){w.entries, w.count, w.is_truncated};
    return rc;
}
