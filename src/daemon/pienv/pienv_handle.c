/* SPDX-License-Identifier: Apache-2.0
 *
 * Open files and folders by number. Leaves writing to pienv_write.c and where work runs to
 * pienv_file.c's rules.
 *
 * Invariant: a handle is freed, and what it holds closed, when it is out of the table and no request
 * has it; one request at a time has its turn. Numbers are never used again. */
#include "daemon/pienv/pienv_path_int.h"

#include "ops/lines.h"
#include "plat/fd.h"

#include <errno.h>

enum {
    SMALL_BYTES = 64 * 1024,
    SCAN_BYTES = 64 * 1024,
    FIRST_RESERVE = 1024 * 1024,
    QUICK_ENTRIES = 128,
    PAGE_BYTES_MAX = 4 * 1024 * 1024, /* of names and records: several times that is JSON */
    ENTRY_BYTES = 256
};

/* ---- the table ---- */

tci_pi_handle *tci_pi_handle_new(tci_pi_server *s, tci_pi_handle_kind kind, tc_str path,
                                 int *ret_os)
{
    *ret_os = EMFILE;
    if (s->nhandles >= TCI_PI_HANDLES_MAX)
        return NULL;
    *ret_os = ENOMEM;
    tci_pi_handle *h = tci_new(tci_pi_handle);
    char *copy = h != NULL ? tci_mem_resize(NULL, path.len + 1) : NULL;
    if (copy == NULL) {
        tci_free(h);
        return NULL;
    }
    if (path.len > 0)
        memcpy(copy, path.ptr, path.len);
    copy[path.len] = '\0';
    h->server = s;
    h->kind = kind;
    h->refs = 1;
    h->path = copy;
    h->path_len = path.len;
    h->file = TCI_FILE_NONE;
    tci_list_init(&h->turns);
    s->nhandles++;
    return h;
}

uint64_t tci_pi_handle_enter(tci_pi_handle *h)
{
    tci_pi_server *s = h->server;
    h->number = ++s->last_handle;
    tci_pi_handle **slot = &s->by_handle[h->number % TCI_PI_SLOTS];
    h->next_same = *slot;
    *slot = h;
    h->in_table = true;
    h->refs++;
    return h->number;
}

void tci_pi_handle_leave(tci_pi_handle *h)
{
    if (!h->in_table)
        return;
    tci_pi_handle **at = &h->server->by_handle[h->number % TCI_PI_SLOTS];
    while (*at != h)
        at = &(*at)->next_same;
    *at = h->next_same;
    h->in_table = false;
    tci_pi_handle_unref(h);
}

static void release(tci_pi_handle *h)
{
    tci_stage_abort(&h->stage);
    tci_file_close(&h->file);
    tci_dir_close(&h->dir);
}

static void free_handle(tci_pi_handle *h)
{
    h->server->nhandles--;
    tci_free(h->reader_buf);
    tci_free(h->path);
    tci_free(h);
}

static void run_closing(tci_pi_task *task)
{
    release(TCI_CONTAINER(task, tci_pi_handle, closing));
}

static void closing_done(tci_pi_task *task)
{
    tci_pi_handle *h = TCI_CONTAINER(task, tci_pi_handle, closing);
    tci_pi_server *s = h->server;
    free_handle(h);
    s->nclosing--;
    tci_pi_check_end(s);
}

void tci_pi_handle_unref(tci_pi_handle *h)
{
    if (h == NULL || --h->refs > 0)
        return;
    if (h->may_hang) { /* even closing may wait for another machine */
        h->server->nclosing++;
        h->closing = (tci_pi_task){.run = run_closing, .done = closing_done};
        tci_pi_stuck_submit(&h->server->stuck, &h->closing);
        return;
    }
    release(h);
    free_handle(h);
}

void tci_pi_handles_clear(tci_pi_server *s)
{
    for (size_t i = 0; i < TCI_PI_SLOTS; i++)
        while (s->by_handle[i] != NULL)
            tci_pi_handle_leave(s->by_handle[i]);
}

static tci_pi_handle *find(const tci_pi_server *s, uint64_t number)
{
    tci_pi_handle *h = s->by_handle[number % TCI_PI_SLOTS];
    while (h != NULL && h->number != number)
        h = h->next_same;
    return h;
}

bool tci_pi_take_handle(tci_pi_req *r, uint64_t number, unsigned kinds, const char *syscall)
{
    tci_pi_handle *h = find(r->server, number);
    if (h == NULL || (kinds & 1u << h->kind) == 0) {
        tci_pi_fail_os(r, EBADF, syscall, (tc_str){0});
        return false;
    }
    h->refs++;
    r->handle = h;
    return true;
}

static tc_str path_of(const tci_pi_handle *h)
{
    return tci_str_of(h->path, h->path_len);
}

/* ---- turns ---- */

void tci_pi_take_turn(tci_pi_req *r, tci_pi_handler start)
{
    tci_pi_handle *h = r->handle;
    r->start = start;
    if (h->is_busy) {
        tci_list_push_back(&h->turns, &r->turn);
        return;
    }
    h->is_busy = true;
    start(r);
}

void tci_pi_end_turn(tci_pi_req *r)
{
    tci_pi_handle *h = r->handle;
    h->refs++;
    tci_pi_finish(r);
    h->is_busy = false;
    tci_link *k = tci_list_pop_front(&h->turns);
    if (k != NULL) {
        tci_pi_req *next = TCI_CONTAINER(k, tci_pi_req, turn);
        h->is_busy = true;
        next->start(next);
    }
    tci_pi_handle_unref(h);
}

/* ---- open ---- */

static int not_regular(tci_pi_req *r, tc_str path)
{
    tc_err err;
    tci_pi_failure *f = &r->failure;
    *f = (tci_pi_failure){.code = "NOT_REGULAR", .syscall = "open", .path = path};
    if (tci_arena_printf(&r->arena, &f->message, &err,
                         "NOT_REGULAR: not a regular file, open '%.*s'", TC_STR_ARG(path)) < 0)
        f->message = TC_STR("NOT_REGULAR: not a regular file");
    return -1;
}

static int is_link(tci_pi_req *r, tc_str path)
{
    tc_err err;
    tci_pi_failure *f = &r->failure;
    *f = (tci_pi_failure){.code = "SYMLINK", .syscall = "open", .path = path};
    if (tci_arena_printf(&r->arena, &f->message, &err, "SYMLINK: a symbolic link, open '%.*s'",
                         TC_STR_ARG(path)) < 0)
        f->message = TC_STR("SYMLINK: a symbolic link");
    return -1;
}

static int check_reader(tci_pi_req *r, const tci_file_stat *st, tc_str path)
{
    if (st->kind == TCI_FILE_KIND_DIRECTORY)
        return tci_pi_failed_os(r, EISDIR, "open", path);
    return st->kind != TCI_FILE_KIND_REGULAR ? not_regular(r, path) : 0;
}

/* A reader: a regular file and nothing else. */
static void work_open_reader(tci_pi_req *r)
{
    tc_err err;
    const tci_pi_open_params *p = r->params;
    tci_pi_open_result *result = r->result;
    tci_pi_handle *h = r->handle;
    unsigned flags = TCI_OPEN_READ | TCI_OPEN_NONBLOCK | (p->no_follow ? TCI_OPEN_NOFOLLOW : 0);
    if (tci_file_open(p->path, flags, 0, &h->file, &err) < 0) {
        if (p->no_follow && (err.os == ELOOP || err.os == EMLINK))
            (void)is_link(r, p->path);
        else
            (void)tci_pi_failed(r, &err, "open", p->path);
        return;
    }
    if (tci_file_stat_of(h->file, &h->stat, &err) < 0) {
        (void)tci_pi_failed(r, &err, "fstat", p->path);
        return;
    }
    if (check_reader(r, &h->stat, p->path) < 0)
        return;
    result->has_info = true;
    tci_pi_info_of(&h->stat, tci_pi_last_name(p->path), r->server->has_ext, &result->info);
}

static tc_str kept_message(tci_pi_req *r, const tci_pi_failure *f)
{
    tc_err err;
    tc_str text = TC_STR("");
    const char *what = tci_pi_errno_text(f->os);
    if (f->message.len > 0)
        return f->message;
    if (tci_arena_printf(&r->arena, &text, &err, "%s: %s, %s '%.*s'", tci_pi_errno_name(f->os),
                         what != NULL ? what : "unknown error", f->syscall,
                         TC_STR_ARG(f->path)) < 0)
        text = tci_str(tci_pi_errno_name(f->os));
    return text;
}

/* The record of a failure inside a result. */
static tci_pi_error error_of(tci_pi_req *r, const tci_pi_failure *f)
{
    return (tci_pi_error){
        .code = tci_str(f->code != NULL ? f->code : tci_pi_errno_name(f->os)),
        .message = kept_message(r, f),
        .has_syscall = f->syscall != NULL,
        .syscall = tci_str(f->syscall),
        .has_path = f->path.ptr != NULL,
        .path = f->path,
    };
}

/* Mode read: whatever can be opened. */
static void work_open_any(tci_pi_req *r)
{
    tc_err err;
    const tci_pi_open_params *p = r->params;
    tci_pi_open_result *result = r->result;
    tci_pi_handle *h = r->handle;
    unsigned flags = TCI_OPEN_READ | (h->may_hang ? 0 : TCI_OPEN_NONBLOCK);
    if (tci_file_open(p->path, flags, 0, &h->file, &err) < 0) {
        (void)tci_pi_failed(r, &err, "open", p->path);
        return;
    }
    if (tci_file_stat_of(h->file, &h->stat, &err) < 0) {
        tci_pi_failure f;
        tci_pi_failure_of(&err, "fstat", p->path, &r->arena, &f);
        h->may_hang = true; /* who knows */
        result->has_stat_error = true;
        result->stat_error = error_of(r, &f);
        return;
    }
    if (h->stat.kind == TCI_FILE_KIND_OTHER && !h->may_hang) { /* it became one since we looked */
        h->may_hang = true;
        if (tci_fd_set_nonblocking(h->file.fd, false, NULL, &err) < 0) {
            (void)tci_pi_failed(r, &err, "open", p->path);
            return;
        }
    }
    result->has_stat = true;
    tci_pi_info_of(&h->stat, tci_pi_last_name(p->path), r->server->has_ext, &result->stat);
}

static void after_open(tci_pi_req *r)
{
    tci_pi_open_result *result = r->result;
    if (!tci_pi_has_failed(r))
        result->handle = tci_pi_handle_enter(r->handle);
    tci_pi_finish(r);
}

void tci_pi_on_open(tci_pi_req *r)
{
    int os;
    const tci_pi_open_params *p = r->params;
    tci_pi_place place = tci_pi_place_of(r, p->path, TCI_PI_AT_ONCE);
    r->handle = tci_pi_handle_new(r->server, TCI_PI_HANDLE_READ, p->path, &os);
    if (r->handle == NULL) {
        tci_pi_fail_os(r, os, "open", p->path);
        return;
    }
    r->handle->may_hang = place == TCI_PI_OWN_THREAD;
    r->handle->in_memory = tci_mounts_kind_of(&r->server->mounts, p->path) == TCI_MOUNT_MEMORY;
    bool is_any = tci_str_eq(p->mode, TC_STR("read"));
    tci_pi_run(r, place, is_any ? work_open_any : work_open_reader, after_open);
}

/* ---- pread ---- */

/* To the end of the file, or of what was asked for, without taking the memory for all that was asked
 * for before it is there. */
static void read_at(tci_pi_req *r, const tci_pi_pread_params *p, size_t want)
{
    tc_err err;
    const tci_pi_handle *h = r->handle;
    uint64_t size = h->stat.size > p->offset ? h->stat.size - p->offset : 0;
    size_t room = want;
    if (room > FIRST_RESERVE && size < room)
        room = size > FIRST_RESERVE ? (size_t)size : FIRST_RESERVE;
    while (r->out.len < want) {
        size_t n, ask = want - r->out.len < room ? want - r->out.len : room;
        char *to = tci_buf_reserve(&r->out, ask);
        if (to == NULL) {
            (void)tci_pi_failed_os(r, ENOMEM, "read", path_of(h));
            return;
        }
        if (tci_file_pread(h->file, to, ask, p->offset + r->out.len, &n, &err) < 0) {
            (void)tci_pi_failed(r, &err, "read", path_of(h));
            return;
        }
        tci_buf_commit(&r->out, n);
        if (n < ask)
            return;
    }
}

static void read_on(tci_pi_req *r, size_t want)
{
    tc_err err;
    size_t n;
    const tci_pi_handle *h = r->handle;
    char *to = tci_buf_reserve(&r->out, want);
    if (to == NULL)
        (void)tci_pi_failed_os(r, ENOMEM, "read", path_of(h));
    else if (tci_file_read(h->file, to, want, &n, &err) < 0)
        (void)tci_pi_failed(r, &err, "read", path_of(h));
    else
        tci_buf_commit(&r->out, n);
}

static size_t length_of(const tci_pi_pread_params *p)
{
    return p->length < TCI_PIENV_PREAD_MAX ? (size_t)p->length : (size_t)TCI_PIENV_PREAD_MAX;
}

static void work_pread(tci_pi_req *r)
{
    const tci_pi_pread_params *p = r->params;
    size_t want = length_of(p);
    if (p->has_offset && p->offset > INT64_MAX - want)
        (void)tci_pi_failed_os(r, EINVAL, "read", path_of(r->handle));
    else if (p->has_offset)
        read_at(r, p, want);
    else
        read_on(r, want);
}

/* Without memory the work finds out. */
static void take_block(tci_pi_req *r, size_t want)
{
    r->out.ptr = tci_pi_block_new(r->server, want);
    r->out.cap = r->out.ptr != NULL ? TCI_PI_BLOCK_BYTES : 0;
}

/* Read it here when no device is to be waited for, and on the pool otherwise. */
static void read_piece(tci_pi_req *r)
{
    const tci_pi_pread_params *p = r->params;
    const tci_pi_handle *h = r->handle;
    size_t want = length_of(p);
    take_block(r, want);
    if (!h->in_memory && r->out.ptr != NULL)
        r->out.len = tci_file_pread_ready(h->file, r->out.ptr, want, p->offset);
    if (h->in_memory || r->out.len == want) {
        work_pread(r);
        tci_pi_finish(r);
    } else {
        tci_pi_work(r, TCI_PI_BULKY, work_pread, NULL);
    }
}

void tci_pi_read_pieces(tci_pi_server *s)
{
    while (tci_list_is_empty(&s->bulk) && !tci_list_is_empty(&s->pieces))
        read_piece(TCI_CONTAINER(tci_list_pop_front(&s->pieces), tci_pi_req, turn));
}

static bool is_piece(const tci_pi_pread_params *p)
{
    size_t want = length_of(p);
    return want > TCI_PI_BLOCK_MIN && want <= TCI_PI_BLOCK_BYTES && p->has_offset &&
           p->offset <= INT64_MAX - want;
}

void tci_pi_on_pread(tci_pi_req *r)
{
    const tci_pi_pread_params *p = r->params;
    if (!tci_pi_take_handle(r, p->handle, 1u << TCI_PI_HANDLE_READ, "read"))
        return;
    const tci_pi_handle *h = r->handle;
    size_t want = length_of(p);
    /* What says it is empty may be one of the kernel's own files, which can wait for something to say. */
    bool may_wait = h->may_hang || (!p->has_offset && h->stat.size == 0);
    if (may_wait)
        tci_pi_work(r, TCI_PI_STUCK, work_pread, NULL);
    else if (is_piece(p)) {
        tci_list_push_back(&r->server->pieces, &r->turn);
        tci_pi_want_flush(r->server);
    } else if (want > SMALL_BYTES)
        tci_pi_work(r, TCI_PI_BULKY, work_pread, NULL);
    else
        tci_pi_run(r, h->in_memory ? TCI_PI_AT_ONCE : TCI_PI_ON_POOL, work_pread, NULL);
}

/* ---- fstat ---- */

static void work_fstat(tci_pi_req *r)
{
    tc_err err;
    tci_file_stat st;
    const tci_pi_handle *h = r->handle;
    if (tci_file_stat_of(h->file, &st, &err) < 0)
        (void)tci_pi_failed(r, &err, "fstat", path_of(h));
    else
        tci_pi_info_of(&st, tci_pi_last_name(path_of(h)), r->server->has_ext, r->result);
}

void tci_pi_on_fstat(tci_pi_req *r)
{
    const tci_pi_fstat_params *p = r->params;
    unsigned kinds = 1u << TCI_PI_HANDLE_READ | 1u << TCI_PI_HANDLE_WRITE;
    if (!tci_pi_take_handle(r, p->handle, kinds, "fstat"))
        return;
    tci_pi_run(r, r->handle->may_hang ? TCI_PI_OWN_THREAD : TCI_PI_AT_ONCE, work_fstat, NULL);
}

/* ---- scanLines ---- */

static void scan(tci_pi_req *r, tci_lines_scan *s, char *buf)
{
    tc_err err;
    const tci_pi_handle *h = r->handle;
    size_t n = SCAN_BYTES;
    for (uint64_t at = 0; n == SCAN_BYTES; at += n) {
        if (atomic_load(&r->cancel.is_cancelled)) {
            r->failure = (tci_pi_failure){.code = "aborted", .message = TC_STR("scan aborted")};
            return;
        }
        if (tci_file_pread(h->file, buf, SCAN_BYTES, at, &n, &err) < 0) {
            (void)tci_pi_failed(r, &err, "read", path_of(h));
            return;
        }
        tci_lines_feed(s, tci_str_of(buf, n));
    }
}

static void work_scan_lines(tci_pi_req *r)
{
    tci_lines lines;
    tci_lines_scan s;
    const tci_pi_scan_lines_params *p = r->params;
    tci_pi_scan_lines_result *result = r->result;
    char *buf = tci_mem_resize(NULL, SCAN_BYTES);
    if (buf == NULL) {
        (void)tci_pi_failed_os(r, ENOMEM, "read", path_of(r->handle));
        return;
    }
    tci_lines_init(&s, p->start_line, p->has_end_line ? p->end_line : UINT64_MAX);
    scan(r, &s, buf);
    tci_free(buf);
    tci_lines_end(&s, &lines);
    *result = (tci_pi_scan_lines_result){
        .newlines = lines.newlines,
        .start = lines.start,
        .end = lines.end,
        .first_line_end = lines.first_line_end,
        .last_line_start = lines.last_line_start,
        .selected_bytes = lines.selected_bytes,
        .first_line_bytes = lines.first_line_bytes,
    };
}

void tci_pi_on_scan_lines(tci_pi_req *r)
{
    const tci_pi_scan_lines_params *p = r->params;
    if (p->has_end_line && p->end_line <= p->start_line) {
        tci_pi_fail_code(r, "EINVAL", "endLine is not behind startLine");
        return;
    }
    if (!tci_pi_take_handle(r, p->handle, 1u << TCI_PI_HANDLE_READ, "read"))
        return;
    r->on_cancel = tci_pi_abort_work;
    tci_pi_work(r, r->handle->may_hang ? TCI_PI_STUCK : TCI_PI_BULKY, work_scan_lines, NULL);
}

/* ---- folders ---- */

static void work_opendir(tci_pi_req *r)
{
    tc_err err;
    char path[TCI_PATH_MAX];
    const tci_pi_opendir_params *p = r->params;
    tci_pi_handle *h = r->handle;
    if (p->path.len >= sizeof path)
        (void)tci_pi_failed_os(r, ENAMETOOLONG, "opendir", p->path);
    else if (tci_cstr(p->path, path, sizeof path, &err) < 0 ||
             tci_dir_open(NULL, path, 0, &h->dir, &err) < 0)
        (void)tci_pi_failed(r, &err, "opendir", p->path);
}

static void after_opendir(tci_pi_req *r)
{
    tci_pi_opendir_result *result = r->result;
    if (!tci_pi_has_failed(r))
        result->handle = tci_pi_handle_enter(r->handle);
    tci_pi_finish(r);
}

void tci_pi_on_opendir(tci_pi_req *r)
{
    int os;
    const tci_pi_opendir_params *p = r->params;
    tci_pi_place place = tci_pi_place_of(r, p->path, TCI_PI_AT_ONCE);
    r->handle = tci_pi_handle_new(r->server, TCI_PI_HANDLE_DIR, p->path, &os);
    if (r->handle == NULL) {
        tci_pi_fail_os(r, os, "opendir", p->path);
        return;
    }
    r->handle->may_hang = place == TCI_PI_OWN_THREAD;
    tci_pi_run(r, place, work_opendir, after_opendir);
}

typedef struct page {
    tci_pi_req *req;
    tci_pi_dir_entry *items;
    size_t n, cap;
    size_t bytes;
} page;

static int out_of_memory(tci_pi_req *r)
{
    return tci_pi_failed_os(r, ENOMEM, "readdir", path_of(r->handle));
}

/* The name as text, and its bytes when they are no text. */
static int put_name(page *g, tci_pi_dir_entry *e, tc_str name)
{
    tc_err err;
    tci_buf text;
    tci_arena *a = &g->req->arena;
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_pi_put_lossy(&text, name);
    int rc = tci_buf_error(&text, &err);
    if (rc == 0)
        rc = tci_arena_dup(a, tci_buf_str(&text), &e->name, &err);
    tci_buf_done(&text);
    if (rc < 0)
        return out_of_memory(g->req);
    if (tci_str_eq(e->name, name))
        return 0;
    e->raw.items = tci_arena_items(a, uint32_t, name.len);
    if (e->raw.items == NULL)
        return out_of_memory(g->req);
    e->raw.count = name.len;
    for (size_t i = 0; i < name.len; i++)
        e->raw.items[i] = (unsigned char)name.ptr[i];
    return 0;
}

/* The facts are looked up under the name as it is told, so a name that is no text has none. */
static int put_facts(page *g, tci_pi_dir_entry *e)
{
    tc_err err;
    tci_file_stat st;
    const tci_pi_handle *h = g->req->handle;
    tci_file root = {.fd = h->dir.fd_plus_1 - 1};
    if (tci_file_stat_at(root, e->name, false, &st, &err) == 0) {
        e->has_info = true;
        tci_pi_info_of(&st, e->name, g->req->server->has_ext, &e->info);
        return 0;
    }
    tc_str path;
    tci_pi_failure f;
    bool has_slash = h->path_len > 0 && h->path[h->path_len - 1] == '/';
    tc_err ignored;
    if (tci_arena_printf(&g->req->arena, &path, &ignored, "%s%s%.*s", h->path, has_slash ? "" : "/",
                         TC_STR_ARG(e->name)) < 0)
        return out_of_memory(g->req);
    tci_pi_failure_of(&err, "lstat", path, &g->req->arena, &f);
    e->has_error = true;
    e->error = error_of(g->req, &f);
    return 0;
}

static int add_entry(page *g, tc_str name)
{
    if (g->n == g->cap) {
        size_t cap = g->cap > 0 ? g->cap * 2 : 32;
        tci_pi_dir_entry *grown =
            tci_arena_grow(&g->req->arena, g->items, g->cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL)
            return out_of_memory(g->req);
        g->items = grown;
        g->cap = cap;
    }
    tci_pi_dir_entry *e = &g->items[g->n];
    *e = (tci_pi_dir_entry){0};
    if (put_name(g, e, name) < 0 || put_facts(g, e) < 0)
        return -1;
    g->n++;
    g->bytes += ENTRY_BYTES + name.len * 2;
    return 0;
}

static int start_reading(tci_pi_handle *h, tc_err *err)
{
    if (h->reader_buf != NULL)
        return 0;
    char *buf = tci_mem_resize(NULL, TCI_DIR_READ_BYTES);
    if (buf == NULL)
        return tci_err_no_memory(err);
    int rc = tci_dir_read_start(&h->reader, &h->dir, buf, err);
    if (rc < 0)
        tci_free(buf);
    else
        h->reader_buf = buf;
    return rc;
}

static void work_readdir(tci_pi_req *r)
{
    tc_err err;
    tci_dir_entry e;
    tci_pi_handle *h = r->handle;
    const tci_pi_readdir_params *p = r->params;
    tci_pi_readdir_result *result = r->result;
    page g = {.req = r};
    uint64_t max = p->max > 0 ? p->max : 1;
    int rc = start_reading(h, &err);
    while (rc == 0 && g.n < max && g.bytes < PAGE_BYTES_MAX) {
        int got = tci_dir_read_next(&h->reader, &e, &err);
        if (got <= 0) {
            rc = got;
            result->done = got == 0;
            break;
        }
        if (add_entry(&g, e.name) < 0)
            return;
    }
    if (rc < 0) {
        (void)tci_pi_failed(r, &err, "readdir", path_of(h));
        return;
    }
    result->entries.items = g.items;
    result->entries.count = g.n;
}

static void start_readdir(tci_pi_req *r)
{
    const tci_pi_readdir_params *p = r->params;
    tci_pi_place place = p->max <= QUICK_ENTRIES ? TCI_PI_AT_ONCE : TCI_PI_ON_POOL;
    tci_pi_run(r, r->handle->may_hang ? TCI_PI_OWN_THREAD : place, work_readdir, tci_pi_end_turn);
}

void tci_pi_on_readdir(tci_pi_req *r)
{
    const tci_pi_readdir_params *p = r->params;
    if (tci_pi_take_handle(r, p->handle, 1u << TCI_PI_HANDLE_DIR, "readdir"))
        tci_pi_take_turn(r, start_readdir);
}

/* ---- close ---- */

void tci_pi_on_close(tci_pi_req *r)
{
    const tci_pi_close_params *p = r->params;
    tci_pi_handle *h = find(r->server, p->handle);
    if (h != NULL)
        tci_pi_handle_leave(h);
    tci_pi_finish(r);
}
