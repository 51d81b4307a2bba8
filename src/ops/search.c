/* SPDX-License-Identifier: Apache-2.0
 *
 * file.search: walk, read, find lines, cut pages. Leaves to others: expressions (regex), order and
 * ignore rules (walk), which paths (glob), the wire. Any pool thread. Invariant: a file gives all
 * its matches or none, so nothing of it is returned before the part that is scanned is known to be
 * text. */
#include "ops/search.h"
#include "base/glob.h"
#include "base/utf8.h"
#include "ops/regex/regex.h"
#include "ops/walk_int.h"

#include <stdio.h>

#define KEEP_BUFFER_BYTES ((size_t)8 * 1024 * 1024)

typedef struct searching {
    const tci_ops_search_request *req;
    const tci_cancel *cancel;
    tci_arena *arena;
    tci_regex *regex;
    const tci_glob *glob;
    uint64_t max_file_bytes;
    tci_buf content;
    /* paging */
    uint64_t skip;    /* matches before the page */
    tc_str skip_path; /* or: up to this line of this file */
    uint64_t skip_line;
    size_t cap;
    uint64_t spent;
    uint64_t nfiles;      /* scanned so far */
    uint64_t last_nfiles; /* before the file of the last match */
    tc_str last_relative; /* path of the last match; in the arena */
    uint64_t omitted;     /* when it was found */
    tci_ops_matches out;
} searching;

/* One file while it is scanned. */
typedef struct file_scan {
    tc_str path;     /* in the arena once a match was kept; else empty */
    tc_str relative; /* borrowed */
    tc_str text;
    size_t valid;      /* bytes known to be text */
    size_t counted_at; /* lines before this offset are counted */
    uint64_t counted;  /* in number */
    uint64_t nmatches;
    uint64_t omitted;
} file_scan;

/* ---- lines ---- */

static size_t count_lfs(const char *s, size_t len)
{
    const uint64_t ones = 0x0101010101010101u, low7 = 0x7f7f7f7f7f7f7f7fu;
    size_t n = 0, i = 0;
    for (; i + 8 <= len; i += 8) {
        uint64_t x;
        memcpy(&x, s + i, 8);
        x ^= ones * '\n'; /* a zero byte where there was an LF */
        n += (size_t)__builtin_popcountll(~(((x & low7) + low7) | x | low7));
    }
    for (; i < len; i++)
        n += s[i] == '\n';
    return n;
}

static size_t line_start(tc_str s, size_t at)
{
    while (at > 0 && s.ptr[at - 1] != '\n')
        at--;
    return at;
}

/* Behind the LF, or the end. */
static size_t next_line(tc_str s, size_t at)
{
    at += tci_str_find_byte(tci_str_sub(s, at, s.len), '\n');
    return at < s.len ? at + 1 : at;
}

static tc_str without_lf(tc_str line)
{
    if (line.len > 0 && line.ptr[line.len - 1] == '\n')
        line.len--;
    return line;
}

static uint64_t line_number(file_scan *f, size_t start)
{
    f->counted += count_lfs(f->text.ptr + f->counted_at, start - f->counted_at);
    f->counted_at = start;
    return f->counted + 1;
}

/* ---- one match ---- */

static tc_str cut_line(tc_str line, uint64_t max_scalars)
{
    if (line.len <= max_scalars)
        return line;
    return tci_str_sub(line, 0, tci_utf8_prefix_bytes(line, (size_t)max_scalars));
}

/* The lines around start, each cut to the length allowed and with its LF. */
static int put_context(const searching *s, const file_scan *f, size_t start, uint64_t number,
                       tci_ops_match *m, tc_err *err)
{
    size_t from = start, to = start;
    uint64_t first = number;
    for (uint64_t i = 0; i < s->req->context_lines && from > 0; i++, first--)
        from = line_start(f->text, from - 1);
    for (uint64_t i = 0; i <= s->req->context_lines && to < f->text.len; i++)
        to = next_line(f->text, to);
    size_t len = 0;
    for (size_t at = from; at < to;) {
        size_t next = next_line(f->text, at);
        tc_str line = tci_str_sub(f->text, at, next - at), body = without_lf(line);
        len += cut_line(body, s->req->max_line_length).len + (line.len - body.len);
        at = next;
    }
    char *p = tci_arena_bytes(s->arena, len + 1);
    if (p == NULL)
        return tci_arena_error(s->arena, err);
    m->context = tci_str_of(p, len);
    m->context_start_line = first;
    for (size_t at = from; at < to;) {
        size_t next = next_line(f->text, at);
        tc_str line = tci_str_sub(f->text, at, next - at), body = without_lf(line);
        tc_str kept = cut_line(body, s->req->max_line_length);
        if (kept.len > 0)
            memcpy(p, kept.ptr, kept.len);
        p += kept.len;
        if (body.len < line.len)
            *p++ = '\n';
        at = next;
    }
    return 0;
}

static int add_match(searching *s, const tci_ops_match *m, tc_err *err)
{
    s->spent += tci_search_json_match_size(m) + (s->out.count > 0);
    if (s->req->budget_bytes > 0 && s->spent > s->req->budget_bytes) {
        if (s->out.count == 0)
            return tc_err_set(err, TC_E_OUTPUT_LIMIT, "one match is larger than a page");
        s->out.has_more = true;
        return 0;
    }
    if (s->out.count == s->cap) {
        size_t cap = s->cap < 64 ? 64 : s->cap * 2, size = sizeof *m;
        void *items = tci_arena_grow(s->arena, s->out.items, s->cap * size, cap * size);
        if (items == NULL)
            return tci_arena_error(s->arena, err);
        s->out.items = items;
        s->cap = cap;
    }
    s->out.items[s->out.count++] = *m;
    return 0;
}

static int name_file(searching *s, file_scan *f, tc_err *err)
{
    if (f->path.len > 0)
        return 0;
    if (f->relative.len > 0)
        return tci_walk_join(s->req->root, f->relative, s->arena, &f->path, &f->relative, err);
    return tci_arena_dup(s->arena, s->req->root, &f->path, err);
}

static bool is_skipped(searching *s, const file_scan *f, uint64_t number)
{
    if (s->skip > 0) {
        s->skip--;
        return true;
    }
    return s->skip_line >= number && tci_str_eq(s->skip_path, f->relative);
}

/* The line at start matches. */
static int take_match(searching *s, file_scan *f, size_t start, tc_err *err)
{
    uint64_t number = line_number(f, start);
    if (is_skipped(s, f, number))
        return 0;
    if (s->out.count == s->req->max_results) {
        s->out.has_more = true;
        return 0;
    }
    tc_str line = without_lf(tci_str_sub(f->text, start, next_line(f->text, start) - start));
    tc_str preview = cut_line(line, s->req->max_line_length);
    tci_ops_match m = {.line_number = number, .preview_truncated = preview.len < line.len};
    int rc = name_file(s, f, err);
    if (rc == 0)
        rc = tci_arena_dup(s->arena, preview, &m.preview, err);
    if (rc == 0)
        rc = put_context(s, f, start, number, &m, err);
    m.path = f->path;
    if (rc == 0)
        rc = add_match(s, &m, err);
    if (rc == 0 && !s->out.has_more) {
        s->last_relative = f->relative;
        s->last_nfiles = s->nfiles - 1;
        s->omitted = f->omitted;
    }
    return rc;
}

/* ---- one file ---- */

/* Bytes from the start that are text: UTF-8 without NUL. */
static size_t text_prefix(tc_str s)
{
    s.len = tci_str_find_byte(s, '\0');
    return tci_utf8_valid_prefix(s);
}

/* A file that is not text to its end counts only when the scan stops before: at the limit of
 * matches, the lines after the last one that belong to its context, and one at least, included. 1
 * when it does. */
static int stops_in_time(searching *s, file_scan *f, tc_err *err)
{
    size_t end = f->valid, at = 0;
    while (end > 0 && f->text.ptr[end - 1] != '\n')
        end--;
    tci_regex_start(s->regex, tci_str_sub(f->text, 0, end));
    for (uint64_t n = 0; n < s->req->max_matches_per_file; n++) {
        size_t hit;
        int rc = tci_regex_find(s->regex, at, true, s->cancel, &hit, err);
        if (rc <= 0)
            return rc;
        at = next_line(f->text, hit);
    }
    /* One line more is read in any case. */
    for (uint64_t i = 0; i == 0 || i < s->req->context_lines; i++) {
        if (at >= end)
            return 0;
        at = next_line(f->text, at);
    }
    f->text.len = end;
    return 1;
}

static int scan_text(searching *s, file_scan *f, tc_err *err)
{
    size_t at = 0, hit;
    tci_regex_start(s->regex, f->text);
    int rc = tci_regex_find(s->regex, 0, false, s->cancel, &hit, err);
    if (rc <= 0)
        return rc;
    f->valid = text_prefix(f->text);
    if (f->valid < f->text.len) {
        rc = s->req->max_matches_per_file > 0 ? stops_in_time(s, f, err) : 0;
        if (rc <= 0)
            return rc;
        tci_regex_start(s->regex, f->text);
    }
    while (!s->out.has_more) {
        rc = tci_regex_find(s->regex, at, true, s->cancel, &hit, err);
        if (rc <= 0)
            return rc;
        rc = take_match(s, f, line_start(f->text, hit), err);
        if (rc < 0 || ++f->nmatches == s->req->max_matches_per_file)
            return rc;
        at = next_line(f->text, hit);
    }
    return 0;
}

/* relative is empty for a root that is a file. */
static int scan_file(searching *s, const tci_dir *dir, const char *name, tc_str relative,
                     uint64_t omitted, tc_err *err)
{
    int rc = tci_cancel_check(s->cancel, err);
    if (rc == 0)
        rc = tci_dir_read_file(dir, name, dir == NULL, s->max_file_bytes, &s->content, err);
    if (rc == TC_E_TOO_BIG)
        return 0;
    if (rc < 0) /* gone, or no longer a file; a root must be readable */
        return dir != NULL && rc == TC_E_NOT_FOUND ? 0 : rc;
    if (s->req->max_files > 0 && s->nfiles == s->req->max_files)
        return tc_err_set(err, TC_E_QUOTA, "more than %llu files",
                          (unsigned long long)s->req->max_files);
    s->nfiles++;
    file_scan f = {.relative = relative, .text = tci_buf_str(&s->content), .omitted = omitted};
    rc = scan_text(s, &f, err);
    if (s->content.cap > KEEP_BUFFER_BYTES) {
        tci_buf_clear(&s->content);
        tci_buf_trim(&s->content, KEEP_BUFFER_BYTES);
    }
    return rc;
}

/* ---- trees ---- */

static int count_file(searching *s, const tci_walk_item *item, tc_err *err)
{
    tci_dir_stat st;
    if (tci_dir_stat_at(item->dir, item->name, false, &st, err) < 0 ||
        st.kind != TCI_DIR_KIND_FILE || st.size_bytes > s->max_file_bytes)
        return 0;
    if (s->nfiles++ == s->req->max_files)
        return tc_err_set(err, TC_E_QUOTA, "more than %llu files",
                          (unsigned long long)s->req->max_files);
    return 0;
}

static int scan_tree(searching *s, tci_walk *w, tc_err *err)
{
    tci_walk_item item;
    int rc;
    while ((rc = tci_walk_next(w, &item, err)) > 0) {
        if (item.kind != TCI_DIR_KIND_FILE ||
            (s->glob != NULL && !tci_glob_matches(s->glob, item.relative_path)))
            continue;
        if (s->out.has_more) /* the page is full, but more files than allowed is an error */
            rc = count_file(s, &item, err);
        else
            rc = scan_file(s, item.dir, item.name, item.relative_path, tci_walk_omitted(w), err);
        if (rc < 0 || (s->out.has_more && s->req->max_files == 0))
            return rc;
    }
    return rc;
}

static tci_walk_key key_of(const tci_walk_cache *cache, const tci_ops_search_request *req)
{
    tci_walk_key key = {3, 3};
    uint64_t options[] = {
        (uint64_t)req->is_regex | (uint64_t)req->case_sensitive << 1 |
            (uint64_t)req->include_hidden << 2 | (uint64_t)req->respect_git_ignore << 3,
        req->max_matches_per_file, req->max_files, req->max_file_bytes, req->context_lines};
    tci_walk_key_add(cache, &key, req->root.ptr, req->root.len);
    tci_walk_key_add(cache, &key, req->query.ptr, req->query.len);
    tci_walk_key_add(cache, &key, req->include_pattern.ptr, req->include_pattern.len);
    tci_walk_key_add(cache, &key, options, sizeof options);
    return key;
}

static int search_tree(searching *s, tci_walk_options *o, tci_walk_cache *cache, tc_err *err)
{
    const tci_ops_search_request *req = s->req;
    tci_walk_key key = key_of(cache, req);
    tci_walk_cursor cursor = {0};
    tci_walk *w;
    bool is_resumed = tci_walk_cache_get_cursor(cache, key, req->offset, s->arena, &cursor);
    if (is_resumed) {
        s->skip = 0;
        s->skip_path = o->after = cursor.path;
        s->skip_line = cursor.line;
        s->nfiles = cursor.nfiles;
        o->is_after_included = true;
    }
    int rc = tci_walk_open(req->root, o, &w, err);
    if (rc < 0)
        return rc;
    rc = scan_tree(s, w, err);
    int is_end = !s->out.has_more;
    if (rc == 0 && s->out.has_more && !is_resumed)
        rc = is_end = tci_walk_drain(w, TCI_WALK_COUNT_AHEAD, err);
    if (rc >= 0 && !cursor.omitted_is_total)
        cursor.omitted += is_end ? tci_walk_omitted(w) : s->omitted;
    tci_walk_close(w);
    if (rc < 0)
        return rc;
    s->out.omitted_unrepresentable = cursor.omitted;
    if (s->out.has_more) {
        cursor.path = s->last_relative;
        cursor.line = s->out.items[s->out.count - 1].line_number;
        cursor.nfiles = s->last_nfiles;
        cursor.omitted_is_total = cursor.omitted_is_total || is_end;
        tci_walk_cache_put_cursor(cache, key, req->offset + s->out.count, &cursor);
    }
    return 0;
}

static int search_file(searching *s, const char *path, tc_err *err)
{
    size_t slash = tci_str_rfind_byte(s->req->root, '/');
    tc_str name =
        tci_str_sub(s->req->root, slash < s->req->root.len ? slash + 1 : 0, s->req->root.len);
    if (s->glob != NULL && !tci_glob_matches(s->glob, name))
        return 0;
    return scan_file(s, NULL, path, tci_str_of(NULL, 0), 0, err);
}

/* ---- the call ---- */

static int refuse(const char **ret_detail, const char *detail, const char *why, tc_err *err)
{
    *ret_detail = detail;
    return tc_err_set(err, TC_E_INVALID, "%s", why);
}

static int prepare(searching *s, const char **ret_detail, tc_err *err)
{
    const tci_ops_search_request *req = s->req;
    if (req->query.len == 0)
        return refuse(ret_detail, "empty_pattern", "the query is empty", err);
    if (req->query.len > TCI_SEARCH_QUERY_MAX)
        return refuse(ret_detail, "pattern_too_large", "the query is too long", err);
    int rc = 0;
    if (req->include_pattern.len > 0) {
        rc = tci_glob_compile(req->include_pattern, s->arena, &s->glob, err);
        if (rc == TC_E_INVALID)
            *ret_detail = "invalid_glob";
        if (rc == 0 && tci_glob_is_any(s->glob))
            s->glob = NULL;
    }
    if (rc == 0) {
        rc = tci_regex_new(req->query, !req->is_regex, !req->case_sensitive, &s->regex, err);
        if (rc == TC_E_INVALID)
            *ret_detail = "invalid_regex";
    }
    return rc;
}

static int search(searching *s, tci_walk_options *o, tci_walk_cache *cache, const char **ret_detail,
                  tc_err *err)
{
    char *path;
    tci_dir_stat st;
    int rc = prepare(s, ret_detail, err);
    if (rc == 0)
        rc = tci_cancel_check(s->cancel, err);
    if (rc == 0)
        rc = tci_arena_cstr(s->arena, s->req->root, &path, err);
    if (rc == 0)
        rc = tci_dir_stat_path(path, true, &st, err);
    if (rc < 0)
        return rc;
    if (st.kind == TCI_DIR_KIND_DIRECTORY)
        return search_tree(s, o, cache, err);
    if (st.kind == TCI_DIR_KIND_FILE)
        return search_file(s, path, err);
    return refuse(ret_detail, "not_searchable", "neither a directory nor a regular file", err);
}

int tci_ops_search(const tci_ops_search_request *req, tci_walk_warn warn, const tci_cancel *cancel,
                   tci_walk_cache *cache, tci_arena *a, tci_ops_matches *ret_matches,
                   const char **ret_detail, tc_err *err)
{
    const char *detail = NULL;
    searching s = {.req = req, .cancel = cancel, .arena = a, .skip = req->offset};
    s.max_file_bytes = req->max_file_bytes == 0 || req->max_file_bytes > TCI_SEARCH_FILE_BYTES_MAX
                           ? TCI_SEARCH_FILE_BYTES_MAX
                           : req->max_file_bytes;
    tci_buf_init(&s.content, TCI_BUF_MAX);
    tci_walk_options o = {
        .is_recursive = true,
        .include_hidden = req->include_hidden,
        .respect_git_ignore = req->respect_git_ignore,
        .warn = warn,
        .cancel = cancel,
        .cache = cache,
    };
    int rc = search(&s, &o, cache, &detail, err);
    tci_regex_free(s.regex);
    tci_buf_done(&s.content);
    if (rc == 0)
        *ret_matches = s.out;
    if (ret_detail != NULL)
        *ret_detail = detail;
    return rc;
}

size_t tci_search_json_match_size(const tci_ops_match *m)
{
    size_t n =
        sizeof "{\"line_number\":,\"path\":{\"path\":},\"preview\":,\"preview_truncated\":}" - 1;
    char number[24];
    n += tci_walk_json_str_size(m->path) + tci_walk_json_str_size(m->preview);
    n += m->preview_truncated ? 4 : 5;
    n += (size_t)snprintf(number, sizeof number, "%llu", (unsigned long long)m->line_number);
    if (m->context.len > 0)
        n += sizeof "\"context\":," - 1 + tci_walk_json_str_size(m->context);
    if (m->context_start_line != 1)
        n += sizeof "\"context_start_line\":," - 1 +
             (size_t)snprintf(number, sizeof number, "%llu",
                              (unsigned long long)m->context_start_line);
    return n;
}
