/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers of lines, bytes and directories over what a provider opens: closing, arguments, splitting
 * text into lines. The caller's thread, one at a time for each reader. Invariant: a line
 * that was not handed out is handed out by the next call. */
#include "env/methods_int.h"

#include "base/utf8_stream.h"

enum { LINE_CHUNK = 64 * 1024, DIRECT_MAX = 8 * 1024 * 1024 };

/* What all have in common. */
typedef struct any_reader {
    tc_env *env;
    tc_str path; /* owned */
    bool is_closed;
} any_reader;

static int reader_init(any_reader *r, tc_env *env, tc_str path, tc_err *err)
{
    char *copy = tci_mem_alloc(path.len + 1);
    if (copy == NULL)
        return tci_err_no_memory(err);
    memcpy(copy, path.ptr, path.len);
    r->path = tci_str_of(copy, path.len);
    r->env = tc_env_retain(env);
    return 0;
}

static void reader_done(any_reader *r)
{
    tc_env_release(r->env);
    tci_free((char *)(uintptr_t)r->path.ptr);
}

/* Aborted, closed, then is_valid; then the environment. */
static int reader_begin(any_reader *r, const tc_call *call, const char *what, bool is_valid,
                        tc_err *err)
{
    if (call == NULL || call->size < sizeof *call || call->result == NULL)
        return tc_err_set(err, TC_E_INVALID, "a call needs its size and a result");
    tci_result_reset_evidence(call->result, TC_OUTCOME_NONE);
    int rc = tci_env_check_abort(call, r->path, err);
    if (rc < 0)
        return rc;
    if (r->is_closed)
        return tci_env_fail(call, TC_ENV_INVALID, r->path, err, TC_E_INVALID, "the %s is closed",
                            what);
    if (!is_valid)
        return tci_env_fail(call, TC_ENV_INVALID, r->path, err, TC_E_INVALID,
                            "a number given to the %s is out of range", what);
    rc = tci_env_enter(r->env, err);
    if (rc < 0)
        tci_env_blame(call, TC_ENV_UNKNOWN, r->path);
    return rc;
}

static bool is_safe(int64_t n)
{
    return n >= 0 && n <= TC_SAFE_INTEGER_MAX;
}

/* Open a provider's file; aborted while it was opened counts as not opened. */
static int open_file(tc_env *env, const tc_call *call, tc_str path, unsigned how,
                     tci_open_file **ret_file, tc_err *err)
{
    tci_open_file *f = NULL;
    int rc = env->v->methods->open_file(env, call, path, how, &f, err);
    if (rc == 0)
        rc = tci_env_check_abort(call, path, err);
    if (rc == 0)
        *ret_file = f;
    else if (f != NULL)
        f->v->close(f);
    return rc;
}

/* ---- lines ---- */

struct tc_line_reader {
    any_reader base;
    tci_open_file *file;
    uint64_t offset; /* of the next chunk */
    bool at_end;
    tci_utf8_stream decoder;
    tci_buf text;   /* decoded and not handed out */
    size_t scanned; /* bytes of it without a newline */
    tci_buf scratch;
};

static int lines_open(tc_env *env, const tc_call *call, tc_str path, tc_line_reader **ret_reader,
                      tc_err *err)
{
    tc_line_reader *r = tci_new(tc_line_reader);
    if (r == NULL)
        return tci_err_no_memory(err);
    int rc = reader_init(&r->base, env, path, err);
    if (rc < 0) {
        tci_free(r);
        return rc;
    }
    tci_buf_init(&r->text, TCI_BUF_MAX);
    tci_buf_init(&r->scratch, TCI_BUF_MAX);
    rc = open_file(env, call, r->base.path, TCI_OPEN_LINES, &r->file, err);
    if (rc < 0) {
        tc_line_reader_free(r);
        return rc;
    }
    *ret_reader = r;
    return 0;
}

static int more_text(tc_line_reader *r, const tc_call *call, tc_err *err)
{
    char *chunk = tci_mem_alloc(LINE_CHUNK);
    size_t n = 0;
    if (chunk == NULL)
        return tci_err_no_memory(err);
    int rc = tci_env_check_abort(call, r->base.path, err);
    if (rc == 0)
        rc = r->file->v->read(r->file, call, r->offset, chunk, LINE_CHUNK, &n, err);
    if (rc == 0) {
        tc_str got = tci_str_of(chunk, n);
        tci_buf_append_str(&r->text, tci_utf8_stream_feed(&r->decoder, got, &r->scratch));
        r->offset += n;
        r->at_end = n < LINE_CHUNK;
        if (r->at_end)
            tci_buf_append_str(&r->text, tci_utf8_stream_end(&r->decoder));
        rc = tci_buf_error(&r->text, err);
        if (rc == 0)
            rc = tci_buf_error(&r->scratch, err);
    }
    tci_free(chunk);
    return rc;
}

/* Hand out the first len bytes and drop one more when it is a newline. */
static int take_line(tc_line_reader *r, const tc_call *call, size_t len, bool is_terminated,
                     tc_line *ret_line, tc_err *err)
{
    tc_str text = {0};
    int rc = tc_result_dup(call->result, tci_str_of(r->text.ptr, len), &text, err);
    if (rc < 0)
        return rc;
    tci_buf_consume(&r->text, len + (is_terminated ? 1 : 0));
    r->scanned = 0;
    *ret_line = (tc_line){.text = text, .is_terminated = is_terminated};
    return 0;
}

static int lines_next(tc_line_reader *r, const tc_call *call, tc_line *ret_line, tc_err *err)
{
    for (;;) {
        tc_str rest = tci_str_sub(tci_buf_str(&r->text), r->scanned, SIZE_MAX);
        size_t at = tci_str_find_byte(rest, '\n');
        if (at < rest.len)
            return take_line(r, call, r->scanned + at, true, ret_line, err);
        r->scanned = r->text.len;
        if (r->at_end)
            break;
        int rc = more_text(r, call, err);
        if (rc < 0)
            return rc;
    }
    if (r->text.len > 0)
        return take_line(r, call, r->text.len, false, ret_line, err);
    *ret_line = (tc_line){.is_end = true};
    return 0;
}

int tc_env_open_line_reader(tc_env *env, const tc_call *call, tc_str path,
                            tc_line_reader **ret_reader, tc_err *err)
{
    int rc = tci_env_begin_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    return tci_env_finish(env, call, lines_open(env, call, path, ret_reader, err), path);
}

int tc_line_reader_next(tc_line_reader *reader, const tc_call *call, tc_line *ret_line, tc_err *err)
{
    int rc = reader_begin(&reader->base, call, "line reader", true, err);
    if (rc < 0)
        return rc;
    return tci_env_finish(reader->base.env, call, lines_next(reader, call, ret_line, err),
                          reader->base.path);
}

void tc_line_reader_close(tc_line_reader *reader)
{
    reader->base.is_closed = true;
    if (reader->file != NULL)
        reader->file->v->close(reader->file);
    reader->file = NULL;
    tci_buf_clear(&reader->text);
}

void tc_line_reader_free(tc_line_reader *reader)
{
    if (reader == NULL)
        return;
    tc_line_reader_close(reader);
    tci_buf_done(&reader->text);
    tci_buf_done(&reader->scratch);
    reader_done(&reader->base);
    tci_free(reader);
}

static int all_lines(tc_line_reader *r, const tc_call *call, int64_t max, tc_strs *ret, tc_err *err)
{
    enum { FIRST = 64 };
    tci_arena *a = tci_result_arena(call->result);
    tc_str *items = NULL;
    size_t n = 0, cap = 0;
    while ((int64_t)n < max) {
        tc_line line;
        int rc = lines_next(r, call, &line, err);
        if (rc < 0)
            return rc;
        if (line.is_end)
            break;
        if (n == cap) {
            size_t more = cap > 0 ? 2 * cap : FIRST;
            items = tci_arena_grow(a, items, cap * sizeof *items, more * sizeof *items);
            if (items == NULL)
                return tci_arena_error(a, err);
            cap = more;
        }
        items[n++] = line.text;
    }
    *ret = (tc_strs){items, n};
    return 0;
}

int tc_env_read_text_lines(tc_env *env, const tc_call *call, tc_str path, const int64_t *max_lines,
                           tc_strs *ret_lines, tc_err *err)
{
    tc_line_reader *r = NULL;
    int64_t max = max_lines != NULL ? *max_lines : INT64_MAX;
    int rc = tci_env_begin_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    if (max <= 0) {
        *ret_lines = (tc_strs){0};
        return tci_env_finish(env, call, 0, path);
    }
    rc = lines_open(env, call, path, &r, err);
    if (rc == 0)
        rc = all_lines(r, call, max, ret_lines, err);
    tc_line_reader_free(r);
    return tci_env_finish(env, call, rc, path);
}

/* ---- bytes ---- */

struct tc_binary_reader {
    any_reader base;
    tci_open_file *file;
};

static int bytes_open(tc_env *env, const tc_call *call, tc_str path, bool no_follow,
                      tc_binary_reader **ret_reader, tc_err *err)
{
    tc_binary_reader *r = tci_new(tc_binary_reader);
    if (r == NULL)
        return tci_err_no_memory(err);
    int rc = reader_init(&r->base, env, path, err);
    if (rc < 0) {
        tci_free(r);
        return rc;
    }
    unsigned how = TCI_OPEN_REGULAR | (no_follow ? TCI_OPEN_REFUSE_LINK : 0U);
    rc = open_file(env, call, r->base.path, how, &r->file, err);
    if (rc < 0) {
        tc_binary_reader_free(r);
        return rc;
    }
    *ret_reader = r;
    return 0;
}

int tc_env_open_binary_reader(tc_env *env, const tc_call *call, tc_str path, bool no_follow,
                              tc_binary_reader **ret_reader, tc_err *err)
{
    int rc = tci_env_begin_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    return tci_env_finish(env, call, bytes_open(env, call, path, no_follow, ret_reader, err), path);
}

int tc_binary_reader_info(tc_binary_reader *reader, const tc_call *call, tc_env_file *ret_file,
                          tc_err *err)
{
    tc_env_file file = {.kind = TC_FILE_REGULAR};
    int rc = reader_begin(&reader->base, call, "reader", true, err);
    if (rc < 0)
        return rc;
    rc = reader->file->v->info(reader->file, call, &file, err);
    if (rc == 0)
        rc = tc_result_dup(call->result, reader->base.path, &file.path, err);
    if (rc == 0) {
        file.name = tci_env_base_name(reader->base.env->place.is_windows, file.path);
        *ret_file = file;
    }
    return tci_env_finish(reader->base.env, call, rc, reader->base.path);
}

/* How many bytes to make room for: what was asked for, or what the file has when that is much. */
static int room_for(tc_binary_reader *r, const tc_call *call, uint64_t offset, uint64_t length,
                    size_t *ret_room, tc_err *err)
{
    tc_env_file file = {0};
    *ret_room = (size_t)length;
    if (length <= DIRECT_MAX)
        return 0;
    int rc = r->file->v->info(r->file, call, &file, err);
    uint64_t rest = file.size > offset ? file.size - offset : 0;
    *ret_room = (size_t)tci_min_u64(length, rest);
    return rc;
}

int tc_binary_reader_read(tc_binary_reader *reader, const tc_call *call, int64_t offset,
                          int64_t length, tc_str *ret_bytes, tc_err *err)
{
    size_t room = 0, n = 0;
    int rc = reader_begin(&reader->base, call, "reader", is_safe(offset) && is_safe(length), err);
    if (rc < 0)
        return rc;
    rc = room_for(reader, call, (uint64_t)offset, (uint64_t)length, &room, err);
    char *buf = NULL;
    if (rc == 0 && room > 0) {
        buf = tci_result_bytes(call->result, room);
        rc = buf != NULL
                 ? reader->file->v->read(reader->file, call, (uint64_t)offset, buf, room, &n, err)
                 : tci_err_no_memory(err);
    }
    if (rc == 0)
        *ret_bytes = tci_str_of(buf, n);
    return tci_env_finish(reader->base.env, call, rc, reader->base.path);
}

int tc_binary_reader_scan_lines(tc_binary_reader *reader, const tc_call *call, int64_t start_line,
                                const int64_t *end_line, tc_line_scan *ret_scan, tc_err *err)
{
    bool is_valid =
        is_safe(start_line) && (end_line == NULL || (is_safe(*end_line) && *end_line > start_line));
    int rc = reader_begin(&reader->base, call, "reader", is_valid, err);
    if (rc < 0)
        return rc;
    uint64_t end = end_line != NULL ? (uint64_t)*end_line : UINT64_MAX;
    rc = reader->file->v->scan(reader->file, call, (uint64_t)start_line, end, ret_scan, err);
    return tci_env_finish(reader->base.env, call, rc, reader->base.path);
}

void tc_binary_reader_close(tc_binary_reader *reader)
{
    reader->base.is_closed = true;
    if (reader->file != NULL)
        reader->file->v->close(reader->file);
    reader->file = NULL;
}

void tc_binary_reader_free(tc_binary_reader *reader)
{
    if (reader == NULL)
        return;
    tc_binary_reader_close(reader);
    reader_done(&reader->base);
    tci_free(reader);
}

/* ---- directories ---- */

struct tc_dir_reader {
    any_reader base;
    tci_open_dir *dir;
    bool is_done;
};

static int dir_open(tc_env *env, const tc_call *call, tc_str path, tc_dir_reader **ret_reader,
                    tc_err *err)
{
    tc_dir_reader *r = tci_new(tc_dir_reader);
    if (r == NULL)
        return tci_err_no_memory(err);
    int rc = reader_init(&r->base, env, path, err);
    if (rc < 0) {
        tci_free(r);
        return rc;
    }
    rc = env->v->methods->open_dir(env, call, r->base.path, &r->dir, err);
    if (rc == 0)
        rc = tci_env_check_abort(call, path, err);
    if (rc < 0) {
        tc_dir_reader_free(r);
        return rc;
    }
    *ret_reader = r;
    return 0;
}

int tc_env_open_dir_reader(tc_env *env, const tc_call *call, tc_str path,
                           tc_dir_reader **ret_reader, tc_err *err)
{
    int rc = tci_env_begin_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    return tci_env_finish(env, call, dir_open(env, call, path, ret_reader, err), path);
}

int tc_dir_reader_next(tc_dir_reader *reader, const tc_call *call, int64_t max_entries,
                       tc_env_files *ret_files, tc_err *err)
{
    tci_file_list list = {0};
    bool is_done = reader->is_done;
    int rc = reader_begin(&reader->base, call, "directory reader",
                          max_entries > 0 && is_safe(max_entries), err);
    if (rc < 0)
        return rc;
    while (rc == 0 && !is_done && (int64_t)list.count < max_entries)
        rc = reader->dir->v->next(reader->dir, call, (size_t)max_entries - list.count, &list,
                                  &is_done, err);
    if (rc == 0) {
        reader->is_done = is_done;
        *ret_files = (tc_env_files){list.items, list.count, is_done};
    }
    return tci_env_finish(reader->base.env, call, rc, reader->base.path);
}

void tc_dir_reader_close(tc_dir_reader *reader)
{
    reader->base.is_closed = true;
    if (reader->dir != NULL)
        reader->dir->v->close(reader->dir);
    reader->dir = NULL;
}

void tc_dir_reader_free(tc_dir_reader *reader)
{
    if (reader == NULL)
        return;
    tc_dir_reader_close(reader);
    reader_done(&reader->base);
    tci_free(reader);
}
