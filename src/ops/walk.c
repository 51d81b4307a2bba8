/* SPDX-License-Identifier: Apache-2.0
 *
 * The walker: a stack of open directories, each with its sorted names. Leaves to others: patterns,
 * pages, content. One thread per walk. Invariant: path holds the path of the level on top, up to
 * and with its slash, plus the text of the item returned last; rel_at is where the root ends in it.
 */
#include "ops/walk_int.h"
#include "base/ignore.h"

#include <errno.h>
#include <stdio.h>

typedef struct level {
    tci_dir dir;
    tci_names *names;
    size_t at;
    size_t path_len;          /* of walk.path up to this directory, slash included */
    const tci_ignore *ignore; /* of its own .gitignore, or NULL */
    tci_arena ignore_arena;
} level;

/* A .gitignore further up than the root. */
typedef struct ancestor {
    const tci_ignore *ignore;
    size_t base; /* where a path relative to it begins in walk.path */
} ancestor;

struct tci_walk {
    tci_walk_options opt;
    char *read_buf;
    tci_buf path;
    tci_buf file; /* the text of an ignore file */
    size_t rel_at;
    tc_str after; /* what is left of options.after while going down to it */
    uint64_t omitted, visited;
    tci_arena arena;     /* of ancestors */
    ancestor *ancestors; /* nearest last */
    size_t nancestors;
    size_t nlevels;
    level levels[TCI_WALK_MAX_DEPTH];
};

/* ---- ignore files ---- */

typedef struct warn_at {
    const tci_walk_warn *warn;
    tc_str dir; /* with its slash */
} warn_at;

static void warn_line(void *ctx, size_t line_number, tc_str line)
{
    const warn_at *at = ctx;
    char text[512];
    (void)snprintf(text, sizeof text, "'%.*s.gitignore' line %zu cannot match anything: '%.*s'",
                   TC_STR_ARG(at->dir), line_number, TC_STR_ARG(line)); /* may be cut */
    at->warn->fn(at->warn->ctx, text);
}

/* dir_text: path of the directory, for messages. *ret is NULL when there is no file to use. */
static int load_ignore(tci_walk *w, const tci_dir *d, const char *name, tc_str dir_text,
                       tci_arena *a, const tci_ignore **ret, tc_err *err)
{
    *ret = NULL;
    int rc = tci_dir_read_file(d, name, false, TCI_IGNORE_MAX_BYTES, &w->file, err);
    if (rc < 0) /* missing, a link, too big, not for us: as if it were not there */
        return rc == TC_E_NO_MEMORY ? rc : 0;
    warn_at at = {&w->opt.warn, dir_text};
    const tci_ignore *ign;
    rc = tci_ignore_parse(tci_buf_str(&w->file), a, w->opt.warn.fn != NULL ? warn_line : NULL, &at,
                          &ign, err);
    if (rc == 0 && !tci_ignore_is_empty(ign))
        *ret = ign;
    return rc;
}

/* path holds the canonical root with a slash at its end. */
static int load_ancestors(tci_walk *w, tc_err *err)
{
    size_t nslash = 0;
    for (size_t i = 0; i < w->path.len; i++)
        nslash += w->path.ptr[i] == '/';
    w->ancestors = tci_arena_items(&w->arena, ancestor, nslash);
    if (w->ancestors == NULL)
        return tci_arena_error(&w->arena, err);
    for (size_t i = 0; i + 1 < w->path.len; i++) {
        if (w->path.ptr[i] != '/')
            continue;
        tc_str dir = tci_str_of(w->path.ptr, i + 1), name;
        int rc = tci_arena_printf(&w->arena, &name, err, "%.*s.gitignore", TC_STR_ARG(dir));
        const tci_ignore *ign = NULL;
        if (rc == 0)
            rc = load_ignore(w, NULL, name.ptr, dir, &w->arena, &ign, err);
        if (rc < 0)
            return rc;
        if (ign != NULL)
            w->ancestors[w->nancestors++] = (ancestor){ign, i + 1};
    }
    return 0;
}

/* The path in w->path, against all files that apply, nearest first. */
static bool is_ignored(const tci_walk *w, bool is_directory)
{
    tc_str path = tci_buf_str(&w->path);
    tci_ignore_verdict v = TCI_IGNORE_NONE;
    for (size_t i = w->nlevels; i > 0 && v == TCI_IGNORE_NONE; i--) {
        const level *l = &w->levels[i - 1];
        if (l->ignore != NULL)
            v = tci_ignore_match(l->ignore, tci_str_sub(path, l->path_len, path.len), is_directory);
    }
    for (size_t i = w->nancestors; i > 0 && v == TCI_IGNORE_NONE; i--) {
        const ancestor *n = &w->ancestors[i - 1];
        v = tci_ignore_match(n->ignore, tci_str_sub(path, n->base, path.len), is_directory);
    }
    return v == TCI_IGNORE_EXCLUDED;
}

static bool drop_ignored(void *ctx, tc_str name, tci_dir_kind kind)
{
    tci_walk *w = ctx;
    tci_buf_truncate(&w->path, w->levels[w->nlevels - 1].path_len);
    tci_buf_append_str(&w->path, name);
    return tci_buf_ok(&w->path) && is_ignored(w, kind == TCI_DIR_KIND_DIRECTORY);
}

/* ---- levels ---- */

static unsigned names_flags(const tci_walk *w)
{
    return (w->opt.include_hidden ? (unsigned)TCI_NAMES_HIDDEN : 0) |
           (w->opt.keep_raw_names ? (unsigned)TCI_NAMES_RAW : 0) |
           (w->opt.respect_git_ignore ? (unsigned)TCI_NAMES_NO_GIT : 0) |
           (w->opt.is_recursive && w->nlevels < TCI_WALK_MAX_DEPTH ? (unsigned)TCI_NAMES_DESCENTS
                                                                   : 0);
}

/* Memory of an earlier directory at this depth is used again, unless the cache holds it too. */
static int own_names(level *l, tc_err *err)
{
    if (l->names != NULL && atomic_load(&l->names->refs) == 1)
        return 0;
    tci_names_unref(l->names);
    l->names = tci_names_new();
    return l->names != NULL ? 0 : tci_err_no_memory(err);
}

static int read_level(tci_walk *w, level *l, unsigned flags, tc_err *err)
{
    int rc = own_names(l, err);
    if (rc == 0)
        rc = tci_names_read(l->names, &l->dir, flags, w->read_buf, err);
    if (rc < 0)
        return rc;
    if (w->opt.respect_git_ignore) {
        if (l->names->has_ignore_file)
            rc = load_ignore(w, &l->dir, ".gitignore", tci_buf_str(&w->path), &l->ignore_arena,
                             &l->ignore, err);
        if (rc < 0)
            return rc;
        tci_names_drop(l->names, drop_ignored, w);
        tci_buf_truncate(&w->path, l->path_len);
    }
    return tci_names_sort(l->names, (flags & TCI_NAMES_DESCENTS) != 0, err);
}

/* A directory on the way to where the last page stopped: it may be remembered, and is worth it. */
static int resume_level(tci_walk *w, level *l, unsigned flags, tc_err *err)
{
    tci_dir_stat st;
    tci_instant now = tci_clock_now();
    bool use_cache = w->opt.cache != NULL && !w->opt.respect_git_ignore &&
                     tci_dir_stat_at(&l->dir, NULL, false, &st, err) == 0;
    tci_names *known = use_cache ? tci_walk_cache_get_names(w->opt.cache, &st, flags) : NULL;
    if (known != NULL) {
        tci_names_unref(l->names);
        l->names = known;
        return 0;
    }
    int rc = read_level(w, l, flags, err);
    if (rc == 0 && use_cache)
        tci_walk_cache_put_names(w->opt.cache, l->names, &l->dir, &st, now);
    return rc;
}

static void pop_level(tci_walk *w)
{
    level *l = &w->levels[--w->nlevels];
    tci_dir_close(&l->dir);
    if (l->ignore != NULL)
        tci_arena_clear(&l->ignore_arena);
    l->ignore = NULL;
}

/* Take over dir, whose path is in w->path with a slash at its end. */
static int push_level(tci_walk *w, tci_dir dir, tc_err *err)
{
    level *l = &w->levels[w->nlevels++];
    l->dir = dir;
    l->at = 0;
    l->path_len = w->path.len;
    bool is_resuming = w->after.len > 0;
    int rc = tci_cancel_check(w->opt.cancel, err);
    if (rc == 0)
        rc = is_resuming ? resume_level(w, l, names_flags(w), err)
                         : read_level(w, l, names_flags(w), err);
    if (rc < 0) {
        pop_level(w);
        return rc;
    }
    if (!is_resuming) { /* else the page before has counted */
        w->omitted += l->names->omitted;
        w->visited += l->names->visited;
        return 0;
    }
    bool enter;
    l->at = tci_names_seek(l->names, w->after, w->opt.is_after_included, &enter);
    w->after = enter ? tci_str_sub(w->after, l->names->items[l->at].len, w->after.len)
                     : tci_str_of(NULL, 0);
    return 0;
}

/* ---- opening ---- */

static bool is_inside_git(tc_str path)
{
    tc_str part;
    while (tci_str_split(&path, '/', &part))
        if (tci_str_eq(part, TC_STR(".git")))
            return true;
    return false;
}

static int open_root(tci_walk *w, tc_str root, tc_err *err)
{
    char *name;
    tci_dir dir = {0};
    int rc = tci_arena_cstr(&w->arena, root, &name, err);
    if (rc == 0)
        rc = tci_dir_open(NULL, name, 0, &dir, err);
    if (rc < 0)
        return rc;
    bool is_empty = false;
    if (w->opt.respect_git_ignore) {
        rc = tci_dir_real_path(&dir, &w->path, err);
        is_empty = rc == 0 && is_inside_git(tci_buf_str(&w->path));
        if (rc == 0 && !tci_str_ends(tci_buf_str(&w->path), TC_STR("/")))
            tci_buf_append_byte(&w->path, '/');
        if (rc == 0)
            rc = tci_buf_error(&w->path, err);
        if (rc == 0)
            rc = load_ancestors(w, err);
        w->rel_at = w->path.len;
    }
    if (rc == 0 && !is_empty)
        return push_level(w, dir, err);
    tci_dir_close(&dir);
    return rc;
}

int tci_walk_open(tc_str root, const tci_walk_options *options, tci_walk **ret_walk, tc_err *err)
{
    tci_walk *w = tci_new(tci_walk);
    if (w == NULL)
        return tci_err_no_memory(err);
    w->opt = *options;
    w->after = options->after;
    tci_buf_init(&w->path, TCI_BUF_MAX);
    tci_buf_init(&w->file, TCI_IGNORE_MAX_BYTES + 64 * 1024);
    tci_arena_init(&w->arena, 0);
    for (size_t i = 0; i < TCI_WALK_MAX_DEPTH; i++)
        tci_arena_init(&w->levels[i].ignore_arena, 0);
    w->read_buf = tci_mem_resize(NULL, TCI_DIR_READ_BYTES);
    int rc = w->read_buf == NULL ? tci_err_no_memory(err) : open_root(w, root, err);
    if (rc < 0) {
        tci_walk_close(w);
        return rc;
    }
    *ret_walk = w;
    return 0;
}

void tci_walk_close(tci_walk *w)
{
    if (w == NULL)
        return;
    while (w->nlevels > 0)
        pop_level(w);
    for (size_t i = 0; i < TCI_WALK_MAX_DEPTH; i++) {
        tci_names_unref(w->levels[i].names);
        tci_arena_done(&w->levels[i].ignore_arena);
    }
    tci_arena_done(&w->arena);
    tci_buf_done(&w->path);
    tci_buf_done(&w->file);
    tci_free(w->read_buf);
    tci_free(w);
}

/* ---- walking ---- */

/* Into the directory named by the last len bytes of path, which end with a slash. */
static int descend(tci_walk *w, const level *l, size_t len, tc_err *err)
{
    tci_dir dir;
    w->path.ptr[w->path.len - 1] = '\0';
    int rc = tci_dir_open(&l->dir, w->path.ptr + w->path.len - len, TCI_DIR_NO_FOLLOW, &dir, err);
    w->path.ptr[w->path.len - 1] = '/';
    if (rc < 0) {
        w->after = tci_str_of(NULL, 0);
        /* Gone meanwhile, or something else now. */
        return err->os == ENOENT || err->os == ENOTDIR || err->os == ELOOP ? 0 : rc;
    }
    return push_level(w, dir, err);
}

int tci_walk_next(tci_walk *w, tci_walk_item *ret_item, tc_err *err)
{
    while (w->nlevels > 0) {
        level *l = &w->levels[w->nlevels - 1];
        if (l->at == l->names->count) {
            pop_level(w);
            continue;
        }
        const tci_name *item = &l->names->items[l->at++];
        tci_buf_truncate(&w->path, l->path_len);
        tci_buf_append_str(&w->path, tci_names_text(l->names, item));
        char *end = tci_buf_reserve(&w->path, 1);
        if (end == NULL)
            return tci_buf_error(&w->path, err);
        *end = '\0';
        if (!item->is_descent) {
            *ret_item = (tci_walk_item){
                .relative_path = tci_str_of(w->path.ptr + w->rel_at, w->path.len - w->rel_at),
                .name = w->path.ptr + l->path_len,
                .kind = (tci_dir_kind)item->kind,
                .dir = &l->dir,
            };
            return 1;
        }
        int rc = descend(w, l, item->len, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int tci_walk_drain(tci_walk *w, uint64_t count, tc_err *err)
{
    tci_walk_item item;
    while (w->visited < count) {
        int rc = tci_walk_next(w, &item, err);
        if (rc <= 0)
            return rc < 0 ? rc : 1;
    }
    return 0;
}

uint64_t tci_walk_omitted(const tci_walk *w)
{
    return w->omitted;
}

uint64_t tci_walk_visited(const tci_walk *w)
{
    return w->visited;
}

/* ---- what is said about an entry ---- */

int tci_walk_join(tc_str root, tc_str relative, tci_arena *a, tc_str *ret_path,
                  tc_str *ret_relative, tc_err *err)
{
    if (tci_str_eq(root, TC_STR("/")))
        root.len = 0;
    size_t len = root.len + 1 + relative.len;
    char *p = tci_arena_bytes(a, len);
    if (p == NULL)
        return tci_arena_error(a, err);
    memcpy(p, root.ptr, root.len);
    p[root.len] = '/';
    memcpy(p + root.len + 1, relative.ptr, relative.len);
    *ret_path = tci_str_of(p, len);
    *ret_relative = tci_str_of(p + root.len + 1, relative.len);
    return 0;
}

int tci_walk_item_info(const tci_walk_item *item, tc_str root, tci_arena *a,
                       tci_walk_info *ret_info, tc_err *err)
{
    tci_dir_stat st;
    int rc = tci_dir_stat_at(item->dir, item->name, false, &st, err);
    if (rc < 0)
        return rc == TC_E_NOT_FOUND || rc == TC_E_DENIED ? 0 : rc;
    bool is_file = st.kind == TCI_DIR_KIND_FILE;
    tci_walk_info info = {
        .kind = st.kind,
        .has_size = is_file,
        .size_bytes = is_file ? st.size_bytes : 0,
        .has_executable = is_file,
        .is_executable = is_file && st.is_executable,
        .has_modified_at = true,
        .modified_at = st.modified_at,
    };
    rc = tci_walk_join(root, item->relative_path, a, &info.path, &info.relative_path, err);
    if (rc < 0)
        return rc;
    *ret_info = info;
    return 1;
}

/* ---- sizes on the wire ---- */

size_t tci_walk_json_str_size(tc_str s)
{
    size_t n = s.len + 2;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        bool is_short =
            c == '"' || c == '\\' || c == '\b' || c == '\t' || c == '\n' || c == '\f' || c == '\r';
        n += is_short ? 1 : 5;
    }
    return n;
}

static size_t decimal_size(uint64_t v)
{
    size_t n = 1;
    while (v >= 10) {
        v /= 10;
        n++;
    }
    return n;
}

static size_t time_size(int32_t nsec)
{
    size_t n = sizeof "\"2000-01-01T00:00:00Z\"" - 1;
    if (nsec == 0)
        return n;
    return n + (nsec % 1000000 == 0 ? 4 : nsec % 1000 == 0 ? 7 : 10);
}

size_t tci_walk_json_entry_size(const tci_walk_info *e)
{
    static const size_t kind_len[] = {4, 9, 7, 5, 7}; /* file directory symlink other unknown */
    size_t n = sizeof "{\"info\":{\"kind\":\"\",\"path\":{\"path\":}},\"relative_path\":}" - 1;
    n += kind_len[e->kind];
    n += tci_walk_json_str_size(e->path) + tci_walk_json_str_size(e->relative_path);
    if (e->has_executable)
        n += sizeof "\"executable\":," - 1 + (e->is_executable ? 4 : 5);
    if (e->has_size)
        n += sizeof ",\"size_bytes\":" - 1 + decimal_size(e->size_bytes);
    if (e->has_modified_at)
        n += sizeof ",\"modified_at\":" - 1 + time_size(e->modified_at.nsec);
    return n;
}
