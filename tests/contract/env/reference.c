/* SPDX-License-Identifier: Apache-2.0
 *
 * See reference.h. Straight from the description of the interface, without a thought for speed. */
#include "reference.h"

#include "base/utf8_stream.h"
#include "plat/dir.h"
#include "plat/file.h"
#include <errno.h>

enum { PATH = 4096, LINES_MAX = 1 << 20 };

void same_fail(tci_buf *out, tc_env_error word)
{
    tci_buf_printf(out, "fails: %s\n", tc_env_error_name(word));
}

void same_file(tci_buf *out, tc_str name, tc_file_kind kind, uint64_t size)
{
    /* How large a directory is, is the file system's own business. */
    tci_buf_printf(out, "%.*s %d %llu\n", TC_STR_ARG(name), (int)kind,
                   kind == TC_FILE_DIRECTORY ? 0ULL : (unsigned long long)size);
}

void same_text(tci_buf *out, tc_str text_of_it)
{
    tci_buf_printf(out, "%zu:", text_of_it.len);
    tci_buf_append_str(out, text_of_it);
    tci_buf_append_byte(out, '\n');
}

static void fail_errno(tci_buf *out, int number)
{
    tc_env_error word = TC_ENV_UNKNOWN;
    if (number == ENOENT)
        word = TC_ENV_NOT_FOUND;
    else if (number == EACCES || number == EPERM)
        word = TC_ENV_PERMISSION_DENIED;
    else if (number == ENOTDIR)
        word = TC_ENV_NOT_DIRECTORY;
    else if (number == EISDIR)
        word = TC_ENV_IS_DIRECTORY;
    else if (number == EINVAL)
        word = TC_ENV_INVALID;
    same_fail(out, word);
}

static tc_str full(char buf[PATH], tc_str root, const char *path)
{
    int n = snprintf(buf, PATH, "%.*s/%s", TC_STR_ARG(root), path);
    return tci_str_of(buf, (size_t)n);
}

static tc_str parent_of(tc_str path)
{
    return tci_str_sub(path, 0, tci_str_rfind_byte(path, '/'));
}

/* ---- making folders ---- */

/* 0 or an errno. */
static int make_folders(tc_str path, tc_str root)
{
    tci_file_stat st;
    tc_err err;
    if (tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &err) == 0)
        return st.kind == TCI_FILE_KIND_DIRECTORY ? 0 : EEXIST;
    if (err.os != ENOENT)
        return err.os;
    if (path.len > root.len) {
        int number = make_folders(parent_of(path), root);
        if (number != 0)
            return number == EEXIST ? ENOTDIR : number;
    }
    return tci_file_mkdir(TCI_FILE_CWD, path, 0777, &err) == 0 ? 0 : err.os;
}

/* ---- whole files ---- */

static void write_file(const same_step *s, tc_str root, bool is_append, tci_buf *out)
{
    char buf[PATH];
    tc_str path = full(buf, root, s->path);
    tc_err err;
    tci_file file = TCI_FILE_NONE;
    int number = make_folders(parent_of(path), root);
    if (number != 0) {
        fail_errno(out, number);
        return;
    }
    unsigned flags = TCI_OPEN_WRITE | TCI_OPEN_CREATE;
    flags |= is_append ? (unsigned)TCI_OPEN_APPEND : (unsigned)TCI_OPEN_TRUNCATE;
    if (tci_file_open(path, flags, 0666, &file, &err) < 0 ||
        tci_file_write_all(file, s->bytes.ptr, s->bytes.len, &err) < 0)
        fail_errno(out, err.os);
    else
        tci_buf_append_str(out, TC_STR("written\n"));
    tci_file_close(&file);
}

/* All of it, or false with the failure in out. */
static bool read_all(tc_str path, tci_buf *content, tci_buf *out)
{
    tc_err err;
    tci_file file = TCI_FILE_NONE;
    int rc = tci_file_open(path, TCI_OPEN_READ, 0, &file, &err);
    for (size_t n = 1; rc == 0 && n > 0;) {
        char piece[4096];
        rc = tci_file_read(file, piece, sizeof piece, &n, &err);
        if (rc == 0)
            tci_buf_append(content, piece, n);
    }
    tci_file_close(&file);
    if (rc < 0)
        fail_errno(out, err.os);
    return rc == 0;
}

static void decode(tc_str bytes, bool keeps_mark, tci_buf *ret)
{
    tci_buf scratch;
    tci_utf8_stream decoder = {.has_begun = keeps_mark};
    tci_buf_init(&scratch, TCI_BUF_MAX);
    tci_buf_append_str(ret, tci_utf8_stream_feed(&decoder, bytes, &scratch));
    tci_buf_append_str(ret, tci_utf8_stream_end(&decoder));
    tci_buf_done(&scratch);
}

static void put_lines(tc_str decoded, int64_t max, tci_buf *out)
{
    tc_str rest = decoded, line;
    for (int64_t n = 0; n < max && rest.len > 0; n++) {
        size_t at = tci_str_find_byte(rest, '\n');
        line = tci_str_sub(rest, 0, at);
        rest = tci_str_sub(rest, at + 1, SIZE_MAX);
        same_text(out, line);
    }
}

static void read_file(const same_step *s, tc_str root, tci_buf *out)
{
    char buf[PATH];
    tci_buf content, decoded;
    if (s->op == SAME_READ_LINES && s->a <= 0)
        return;
    tci_buf_init(&content, TCI_BUF_MAX);
    tci_buf_init(&decoded, TCI_BUF_MAX);
    if (read_all(full(buf, root, s->path), &content, out)) {
        decode(tci_buf_str(&content), s->op == SAME_READ_TEXT, &decoded);
        if (s->op == SAME_READ_LINES)
            put_lines(tci_buf_str(&decoded), s->a, out);
        else
            same_text(out, tci_buf_str(s->op == SAME_READ_TEXT ? &decoded : &content));
    }
    tci_buf_done(&content);
    tci_buf_done(&decoded);
}

/* ---- facts ---- */

static tc_file_kind kind_of(tci_file_kind kind)
{
    static const tc_file_kind kinds[] = {[TCI_FILE_KIND_OTHER] = TC_FILE_OTHER,
                                         [TCI_FILE_KIND_REGULAR] = TC_FILE_REGULAR,
                                         [TCI_FILE_KIND_DIRECTORY] = TC_FILE_DIRECTORY,
                                         [TCI_FILE_KIND_SYMLINK] = TC_FILE_SYMLINK};
    return kinds[kind];
}

static void look(const same_step *s, tc_str root, tci_buf *out)
{
    char buf[PATH];
    tci_file_stat st;
    tc_err err;
    tc_str path = full(buf, root, s->path);
    int rc = tci_file_stat_at(TCI_FILE_CWD, path, false, &st, &err);
    if (s->op == SAME_EXISTS && (rc == 0 || err.os == ENOENT))
        tci_buf_printf(out, "%s\n", rc == 0 ? "there" : "not there");
    else if (rc < 0)
        fail_errno(out, err.os);
    else
        same_file(out, tci_str_sub(path, tci_str_rfind_byte(path, '/') + 1, SIZE_MAX),
                  kind_of(st.kind), st.size);
}

static int by_text(const void *left, const void *right)
{
    return tci_str_cmp(*(const tc_str *)left, *(const tc_str *)right);
}

static void list(const same_step *s, tc_str root, tci_buf *out)
{
    enum { MAX = 256 };
    char buf[PATH];
    char *block = malloc(TCI_DIR_READ_BYTES);
    tci_dir dir = {0};
    tci_dir_reader reader;
    tci_dir_entry entry;
    tc_err err;
    tc_str names[MAX], path = full(buf, root, s->path);
    tci_arena a;
    size_t n = 0;
    tci_arena_init(&a, 0);
    tci_file_stat st;
    int rc = tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &err);
    if (rc == 0 && st.kind != TCI_FILE_KIND_DIRECTORY)
        rc = tc_err_set_os(&err, TC_E_DENIED, ENOTDIR, "no folder");
    if (rc == 0)
        rc = tci_dir_open(NULL, buf, 0, &dir, &err);
    if (rc == 0)
        rc = tci_dir_read_start(&reader, &dir, block, &err);
    while (rc == 0 && tci_dir_read_next(&reader, &entry, &err) == 1)
        if (tci_arena_dup(&a, entry.name, &names[n], &err) == 0)
            n++;
    if (rc < 0)
        fail_errno(out, err.os);
    qsort(names, n, sizeof names[0], by_text);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        same_step one = {.op = SAME_INFO};
        char below_it[PATH];
        snprintf(below_it, sizeof below_it, "%s/%.*s", s->path, TC_STR_ARG(names[i]));
        one.path = below_it;
        look(&one, root, out);
    }
    tci_dir_close(&dir);
    tci_arena_done(&a);
    free(block);
}

static void canonical(const same_step *s, tc_str root, tci_buf *out)
{
    char buf[PATH], real[TCI_PATH_MAX], real_root[TCI_PATH_MAX];
    tc_str path, top;
    tc_err err;
    if (tci_file_realpath(full(buf, root, s->path), real, &path, &err) < 0 ||
        tci_file_realpath(root, real_root, &top, &err) < 0)
        fail_errno(out, err.os);
    else
        same_text(out, tci_str_sub(path, top.len, SIZE_MAX));
}

/* ---- changes ---- */

static int remove_tree(tc_str path)
{
    tc_err err;
    char *block = malloc(TCI_DIR_READ_BYTES), buf[PATH], child[PATH];
    tci_dir dir = {0};
    tci_dir_reader reader;
    tci_dir_entry entry;
    int rc = tci_cstr(path, buf, sizeof buf, &err);
    if (rc == 0)
        rc = tci_dir_open(NULL, buf, 0, &dir, &err);
    if (rc == 0)
        rc = tci_dir_read_start(&reader, &dir, block, &err);
    while (rc == 0 && tci_dir_read_next(&reader, &entry, &err) == 1) {
        int n = snprintf(child, sizeof child, "%s/%.*s", buf, TC_STR_ARG(entry.name));
        if (tci_file_unlink(TCI_FILE_CWD, tci_str_of(child, (size_t)n), &err) < 0)
            rc = remove_tree(tci_str_of(child, (size_t)n));
    }
    tci_dir_close(&dir);
    free(block);
    return rc == 0 ? tci_file_rmdir(TCI_FILE_CWD, path, &err) : rc;
}

static void remove_it(const same_step *s, tc_str root, tci_buf *out)
{
    char buf[PATH];
    tc_str path = full(buf, root, s->path);
    tci_file_stat st;
    tc_err err;
    int rc = tci_file_stat_at(TCI_FILE_CWD, path, false, &st, &err);
    if (rc < 0 && err.os == ENOENT && s->force)
        tci_buf_append_str(out, TC_STR("removed\n"));
    else if (rc < 0)
        fail_errno(out, err.os);
    else if (st.kind == TCI_FILE_KIND_DIRECTORY && !s->flag)
        same_fail(out, TC_ENV_UNKNOWN);
    else if ((st.kind == TCI_FILE_KIND_DIRECTORY ? remove_tree(path)
                                                 : tci_file_unlink(TCI_FILE_CWD, path, &err)) < 0)
        same_fail(out, TC_ENV_UNKNOWN);
    else
        tci_buf_append_str(out, TC_STR("removed\n"));
}

static void change(const same_step *s, tc_str root, tci_buf *out)
{
    char buf[PATH], to[PATH];
    tc_str path = full(buf, root, s->path);
    tc_err err = {.os = 0};
    tci_file file = TCI_FILE_NONE;
    tci_file_stat st;
    int number = 0;
    if (s->op == SAME_CREATE_DIR && s->flag) {
        number = make_folders(path, root);
    } else if (s->op == SAME_CREATE_DIR) {
        number = tci_file_mkdir(TCI_FILE_CWD, path, 0777, &err) < 0 ? err.os : 0;
    } else if (s->op == SAME_RENAME) {
        number = tci_file_rename(TCI_FILE_CWD, path, TCI_FILE_CWD, full(to, root, s->to),
                                 TCI_RENAME_REPLACE, &err) < 0
                     ? err.os
                     : 0;
    } else if (s->op == SAME_FLUSH && tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &err) == 0 &&
               st.kind == TCI_FILE_KIND_DIRECTORY) {
        number = EISDIR;
    } else {
        int rc = tci_file_open(path, TCI_OPEN_READ | TCI_OPEN_WRITE, 0, &file, &err);
        if (rc == 0)
            rc = s->op == SAME_FLUSH ? tci_file_sync(file, &err)
                                     : tci_file_truncate(file, (uint64_t)s->a, &err);
        number = rc < 0 ? err.os : 0;
        tci_file_close(&file);
    }
    if (number != 0)
        fail_errno(out, number);
    else
        tci_buf_append_str(out, TC_STR("done\n"));
}

/* ---- a reader ---- */

/* A scan of all lines, by decoding everything. */
static void put_scan(tc_str file, tci_buf *out)
{
    tci_buf decoded;
    size_t nnewlines = 0, last = 0;
    for (size_t i = 0; i < file.len; i++) {
        nnewlines += file.ptr[i] == '\n';
        last = file.ptr[i] == '\n' ? i + 1 : last;
    }
    tci_buf_init(&decoded, TCI_BUF_MAX);
    decode(file, false, &decoded);
    size_t first = tci_str_find_byte(tci_buf_str(&decoded), '\n');
    tci_buf_printf(out, "scan %zu %zu %zu %zu %zu\n", nnewlines, last,
                   tci_str_find_byte(file, '\n'), decoded.len, first);
    tci_buf_done(&decoded);
}

static void reader(const same_step *s, tc_str root, tci_buf *out)
{
    char buf[PATH];
    tc_str path = full(buf, root, s->path);
    tci_file_stat st;
    tc_err err;
    tci_buf content;
    if (s->flag && tci_file_stat_at(TCI_FILE_CWD, path, false, &st, &err) == 0 &&
        st.kind == TCI_FILE_KIND_SYMLINK) {
        same_fail(out, TC_ENV_INVALID);
        return;
    }
    tci_buf_init(&content, TCI_BUF_MAX);
    if (read_all(path, &content, out)) {
        same_text(out, tci_str_sub(tci_buf_str(&content), (size_t)s->a, (size_t)s->b));
        put_scan(tci_buf_str(&content), out);
    }
    tci_buf_done(&content);
}

void reference_step(const same_step *s, tc_str root, tci_buf *out)
{
    switch (s->op) {
    case SAME_WRITE:
    case SAME_APPEND:
        write_file(s, root, s->op == SAME_APPEND, out);
        break;
    case SAME_READ_TEXT:
    case SAME_READ_BYTES:
    case SAME_READ_LINES:
        read_file(s, root, out);
        break;
    case SAME_INFO:
    case SAME_EXISTS:
        look(s, root, out);
        break;
    case SAME_LIST:
    case SAME_PAGES:
        list(s, root, out);
        break;
    case SAME_REMOVE:
        remove_it(s, root, out);
        break;
    case SAME_CREATE_DIR:
    case SAME_RENAME:
    case SAME_TRUNCATE:
    case SAME_FLUSH:
        change(s, root, out);
        break;
    case SAME_CANONICAL:
        canonical(s, root, out);
        break;
    case SAME_READER:
        reader(s, root, out);
        break;
    case SAME_COUNT:
        break;
    }
}
