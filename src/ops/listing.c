/* SPDX-License-Identifier: Apache-2.0
 *
 * See listing.h. Leaves the meaning of ignore files to base/ignore.h. Any thread, one per listing.
 *
 * A stack of open folders, each with the names it holds, sorted. Every folder knows the ignore file it
 * has and where the rules begin that hold for it: at the top of its work tree.
 *
 * Invariant: path is that of the folder on top, with a slash behind it unless it is the root. */
#include "ops/listing.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/ignore.h"
#include "base/utf8_stream.h"
#include "plat/file.h"

#include <errno.h>
#include <stdlib.h>

enum { LOOK_EVERY = 256, PATH_BYTES_MAX = 1 << 20 };

typedef struct item {
    tc_str name; /* NUL-terminated */
    tci_dir_kind kind;
} item;

/* The rules of one folder; of the folders above the root, too. */
typedef struct rules {
    const struct rules
        *up; /* of the folder above; NULL: the work tree begins here, or there is none */
    const tci_ignore *file; /* NULL: no ignore file */
    const tci_ignore *info; /* of .git/info/exclude, at the top of a work tree */
    bool is_inside;         /* a work tree */
    size_t path_len;        /* of the folder's path below the root, with its slash */
    tc_str above;           /* of folders above the root: the root's path below it, with a slash */
} rules;

typedef struct level {
    tci_dir dir;
    tci_arena arena; /* names and rules */
    item *items;
    size_t n, cap, next;
    rules rules;
} level;

typedef struct listing {
    const tci_listing_options *o;
    tci_listing_emit *emit;
    void *ctx;
    tci_arena arena; /* what lives as long as the listing */
    level *levels;
    size_t depth, cap;
    tci_buf path, scratch;
    char *read_buf;
    uint64_t entries, bytes;
    bool is_cut;
} listing;

/* ---- reading a folder ---- */

static bool is_excluded_name(const listing *l, tc_str name)
{
    if (tci_str_eq(name, TC_STR(".git")) || (!l->o->include_hidden && name.ptr[0] == '.'))
        return true;
    for (size_t i = 0; i < l->o->nexclude; i++)
        if (tci_str_eq(l->o->exclude[i], name))
            return true;
    return false;
}

/* 0; TIMEOUT is no failure but a bound. */
static int look_at_time(listing *l, tc_err *err)
{
    int rc = tci_cancel_check(l->o->cancel, err);
    if (rc == TC_E_TIMEOUT) {
        l->is_cut = true;
        rc = 0;
    }
    return rc;
}

static int keep_item(level *v, const tci_dir_entry *e, tc_err *err)
{
    tci_dir_stat st;
    tci_dir_kind kind = e->kind;
    if (kind == TCI_DIR_KIND_UNKNOWN) {
        tc_err ignored; /* gone, or not to be looked at: left out */
        if (tci_dir_stat_at(&v->dir, e->name.ptr, false, &st, &ignored) < 0)
            return 0;
        kind = st.kind;
    }
    if (kind == TCI_DIR_KIND_OTHER)
        return 0;
    if (v->n == v->cap) {
        size_t cap = v->cap > 0 ? v->cap * 2 : 32;
        item *grown =
            tci_arena_grow(&v->arena, v->items, v->cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL)
            return tci_arena_error(&v->arena, err);
        v->items = grown;
        v->cap = cap;
    }
    char *name = tci_arena_bytes(&v->arena, e->name.len + 1);
    if (name == NULL)
        return tci_arena_error(&v->arena, err);
    memcpy(name, e->name.ptr, e->name.len + 1);
    v->items[v->n++] = (item){.name = {name, e->name.len}, .kind = kind};
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return tci_str_cmp(((const item *)a)->name, ((const item *)b)->name);
}

static int read_names(listing *l, level *v, tc_err *err)
{
    tci_dir_entry e;
    tci_dir_reader reader;
    int rc = tci_dir_read_start(&reader, &v->dir, l->read_buf, err);
    for (unsigned n = 1; rc >= 0 && !l->is_cut; n++) {
        rc = tci_dir_read_next(&reader, &e, err);
        if (rc <= 0)
            break;
        rc = is_excluded_name(l, e.name) ? 0 : keep_item(v, &e, err);
        if (rc == 0 && n % LOOK_EVERY == 0)
            rc = look_at_time(l, err);
    }
    if (rc == 0 && v->n > 1)
        qsort(v->items, v->n, sizeof v->items[0], by_name);
    return rc;
}

/* ---- ignore rules ---- */

/* The file's rules, or NULL when there is none that can be read. NO_MEMORY and the like fail. */
static int read_rules(listing *l, const tci_dir *dir, const char *name, tci_arena *a,
                      const tci_ignore **ret, tc_err *err)
{
    tc_err ignored;
    tc_str text;
    *ret = NULL;
    if (tci_dir_read_file(dir, name, true, TCI_IGNORE_MAX_BYTES, &l->scratch, &ignored) < 0)
        return 0;
    if (tci_arena_dup(a, tci_buf_str(&l->scratch), &text, err) < 0)
        return err->code;
    return tci_ignore_parse(text, a, NULL, NULL, ret, err);
}

/* "<prefix>value\n" of a small file, as a C string into out. */
static bool read_pointer(listing *l, const tci_dir *dir, const char *name, tc_str prefix, char *out,
                         size_t out_size)
{
    tc_err ignored;
    if (tci_dir_read_file(dir, name, true, TCI_PATH_MAX, &l->scratch, &ignored) < 0)
        return false;
    tc_str text = tci_buf_str(&l->scratch);
    while (text.len > 0 && (text.ptr[text.len - 1] == '\n' || text.ptr[text.len - 1] == '\r'))
        text.len--;
    if (!tci_str_starts(text, prefix))
        return false;
    text = tci_str_trim(tci_str_sub(text, prefix.len, text.len));
    return text.len > 0 && tci_cstr(text, out, out_size, &ignored) == 0;
}

/* info/exclude of the repository that dir is the top of: .git may be a folder, or a file that names one
 * (a linked work tree), which may name a common one. */
static int read_info(listing *l, const tci_dir *dir, tci_arena *a, const tci_ignore **ret,
                     tc_err *err)
{
    char path[TCI_PATH_MAX];
    tci_dir git = {0}, common = {0};
    tc_err ignored;
    *ret = NULL;
    if (tci_dir_open(dir, ".git", TCI_DIR_BARE, &git, &ignored) < 0 &&
        (!read_pointer(l, dir, ".git", TC_STR("gitdir:"), path, sizeof path) ||
         tci_dir_open(dir, path, TCI_DIR_BARE, &git, &ignored) < 0))
        return 0;
    if (read_pointer(l, &git, "commondir", TC_STR(""), path, sizeof path) &&
        tci_dir_open(&git, path, TCI_DIR_BARE, &common, &ignored) < 0)
        common = (tci_dir){0};
    int rc = read_rules(l, tci_dir_is_open(&common) ? &common : &git, "info/exclude", a, ret, err);
    tci_dir_close(&common);
    tci_dir_close(&git);
    return rc;
}

static bool has_git(const tci_dir *dir)
{
    tc_err ignored;
    tci_dir_stat st;
    return tci_dir_stat_at(dir, ".git", true, &st, &ignored) == 0;
}

/* The rules of a folder whose folder above has those of up (NULL: none). */
static int enter_rules(listing *l, const tci_dir *dir, tci_arena *a, const rules *up, rules *ret,
                       tc_err *err)
{
    bool is_top = has_git(dir);
    ret->is_inside = is_top || (up != NULL && up->is_inside);
    ret->up = is_top ? NULL : up;
    if (!l->o->use_gitignore || !ret->is_inside)
        return 0;
    if (is_top && read_info(l, dir, a, &ret->info, err) < 0)
        return err->code;
    return read_rules(l, dir, ".gitignore", a, &ret->file, err);
}

/* The folders above the root up to the top of its work tree, the top first. real: the root's path. */
static int rules_above(listing *l, tc_str real, const rules **ret, tc_err *err)
{
    tc_str at = real, name;
    tci_dir dirs[TCI_LISTING_DEPTH_MAX];
    size_t lens[TCI_LISTING_DEPTH_MAX], n = 0;
    bool is_found = false;
    *ret = NULL;
    while (at.len > 1 && n < TCI_LISTING_DEPTH_MAX && !is_found) {
        char path[TCI_PATH_MAX];
        tc_err ignored;
        tci_path_split(at, &at, &name);
        if (tci_cstr(at, path, sizeof path, &ignored) < 0 ||
            tci_dir_open(NULL, path, TCI_DIR_BARE, &dirs[n], &ignored) < 0)
            break;
        lens[n] = at.len;
        is_found = has_git(&dirs[n]);
        n++;
    }
    int rc = 0;
    for (size_t i = n; is_found && rc == 0 && i-- > 0;) {
        rules *one = tci_arena_new(&l->arena, rules);
        size_t skip = lens[i] == 1 ? 1 : lens[i] + 1;
        if (one == NULL || tci_arena_printf(&l->arena, &one->above, err, "%.*s/",
                                            TC_STR_ARG(tci_str_sub(real, skip, real.len))) < 0)
            rc = tci_arena_error(&l->arena, err);
        else
            rc = enter_rules(l, &dirs[i], &l->arena, *ret, one, err);
        *ret = one;
    }
    while (n > 0)
        tci_dir_close(&dirs[--n]);
    return rc;
}

static tci_ignore_verdict ask(listing *l, const rules *of, const tci_ignore *file, tc_str path,
                              bool is_folder)
{
    if (file == NULL)
        return TCI_IGNORE_NONE;
    if (of->above.len == 0)
        return tci_ignore_match(file, tci_str_sub(path, of->path_len, path.len), is_folder);
    tci_buf_clear(&l->scratch);
    tci_buf_append_str(&l->scratch, of->above);
    tci_buf_append_str(&l->scratch, path);
    return tci_ignore_match(file, tci_buf_str(&l->scratch), is_folder);
}

/* From the entry's own folder up; .git/info/exclude of the top has the last word. */
static bool is_ignored(listing *l, const rules *innermost, tc_str path, bool is_folder)
{
    tci_ignore_verdict verdict = TCI_IGNORE_NONE;
    for (const rules *r = innermost; r != NULL && verdict == TCI_IGNORE_NONE; r = r->up) {
        verdict = ask(l, r, r->file, path, is_folder);
        if (verdict == TCI_IGNORE_NONE)
            verdict = ask(l, r, r->info, path, is_folder);
    }
    return verdict == TCI_IGNORE_EXCLUDED;
}

/* ---- the walk ---- */

/* dir is taken over, also on failure. */
static int push(listing *l, tci_dir dir, const rules *up, tc_err *err)
{
    if (l->depth == l->cap) {
        /* Rules point at those of the level above: levels must not move. */
        tci_dir_close(&dir);
        return tc_err_set(err, TC_E_TOO_BIG, "too deep");
    }
    level *v = &l->levels[l->depth++];
    *v = (level){.dir = dir};
    v->rules.path_len = l->path.len;
    tci_arena_init(&v->arena, 0);
    int rc = enter_rules(l, &v->dir, &v->arena, up, &v->rules, err);
    return rc < 0 ? rc : read_names(l, v, err);
}

static void pop(listing *l)
{
    level *v = &l->levels[--l->depth];
    tci_dir_close(&v->dir);
    tci_arena_done(&v->arena);
}

static uint64_t cost_of(listing *l, tc_str path)
{
    tci_utf8_stream decoder = {.has_begun = true};
    uint64_t n = tci_utf8_stream_feed(&decoder, path, &l->scratch).len;
    return n + tci_utf8_stream_end(&decoder).len + 2;
}

static int add(listing *l, tc_str path, tci_dir_kind kind, tc_err *err)
{
    uint64_t cost = cost_of(l, path);
    int rc = look_at_time(l, err);
    if (rc < 0)
        return rc;
    if (l->entries >= l->o->max_entries || cost > l->o->max_bytes ||
        l->bytes > l->o->max_bytes - cost || (!l->is_cut && !l->emit(l->ctx, path, kind)))
        l->is_cut = true;
    l->entries++;
    l->bytes += cost;
    return 0;
}

static int descend(listing *l, level *v, const item *it, tc_err *err)
{
    tci_dir dir;
    tc_err ignored; /* cannot be read, or gone: passed over */
    if (l->depth == l->cap ||
        tci_dir_open(&v->dir, it->name.ptr, TCI_DIR_NO_FOLLOW, &dir, &ignored) < 0)
        return 0;
    size_t before = l->path.len;
    tci_buf_append_byte(&l->path, '/');
    if (tci_buf_error(&l->path, err) < 0) {
        tci_dir_close(&dir);
        return err->code;
    }
    int rc = push(l, dir, &v->rules, err);
    if (rc < 0 && rc != TC_E_NO_MEMORY && rc != TC_E_CANCELLED) {
        pop(l);
        tci_buf_truncate(&l->path, before);
        rc = 0;
    }
    return rc;
}

/* The next entry of the folder on top, or back to the one above. */
static int step(listing *l, tc_err *err)
{
    level *v = &l->levels[l->depth - 1];
    tci_buf_truncate(&l->path, v->rules.path_len);
    if (v->next == v->n) {
        pop(l);
        return 0;
    }
    const item *it = &v->items[v->next++];
    tci_buf_append_str(&l->path, it->name);
    if (tci_buf_error(&l->path, err) < 0)
        return err->code;
    tc_str path = tci_buf_str(&l->path);
    bool is_folder = it->kind == TCI_DIR_KIND_DIRECTORY;
    if (is_ignored(l, &v->rules, path, is_folder))
        return 0;
    int rc = add(l, path, it->kind, err);
    if (rc < 0 || l->is_cut || !is_folder)
        return rc;
    return descend(l, v, it, err);
}

static int begin(listing *l, tc_err *err)
{
    tci_dir root;
    char path[TCI_PATH_MAX];
    const rules *up = NULL;
    if (l->o->path.len >= sizeof path)
        return tc_err_set_os(err, TC_E_INVALID, ENAMETOOLONG, "a path of %zu bytes",
                             l->o->path.len);
    if (tci_cstr(l->o->path, path, sizeof path, err) < 0 ||
        tci_dir_open(NULL, path, 0, &root, err) < 0)
        return err->code;
    tci_buf real;
    tci_buf_init(&real, TCI_PATH_MAX);
    tc_err ignored; /* then there is nothing above it */
    int rc = 0;
    if (l->o->use_gitignore && !has_git(&root) && tci_dir_real_path(&root, &real, &ignored) == 0)
        rc = rules_above(l, tci_buf_str(&real), &up, err);
    tci_buf_done(&real);
    if (rc < 0) {
        tci_dir_close(&root);
        return rc;
    }
    return push(l, root, up, err);
}

static int run(listing *l, tc_err *err)
{
    l->cap = TCI_LISTING_DEPTH_MAX;
    l->levels = tci_mem_resize(NULL, l->cap * sizeof *l->levels);
    l->read_buf = tci_mem_resize(NULL, TCI_DIR_READ_BYTES);
    if (l->levels == NULL || l->read_buf == NULL)
        return tci_err_no_memory(err);
    int rc = begin(l, err);
    while (rc == 0 && l->depth > 0 && !l->is_cut)
        rc = step(l, err);
    return rc;
}

int tci_ops_listing(const tci_listing_options *options, tci_listing_emit *emit, void *ctx,
                    bool *ret_truncated, tc_err *err)
{
    listing l = {.o = options, .emit = emit, .ctx = ctx};
    tci_arena_init(&l.arena, 0);
    tci_buf_init(&l.path, PATH_BYTES_MAX);
    tci_buf_init(&l.scratch, TCI_BUF_MAX);
    int rc = run(&l, err);
    while (l.depth > 0)
        pop(&l);
    tci_free(l.levels);
    tci_free(l.read_buf);
    tci_buf_done(&l.path);
    tci_buf_done(&l.scratch);
    tci_arena_done(&l.arena);
    if (rc == 0)
        *ret_truncated = l.is_cut;
    return rc;
}
