/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a session in JSON lines: which sidecars there are, which are held open, which have
 * bytes that are not synced, and reading from them. Leaves what is written to jsonl_commit.c. Runs on the
 * store's thread. Invariant: size is the number of bytes in the file as long as no append failed. */
#include "base/num.h"
#include "store/jsonl/jsonl_int.h"

/* ---- names ---- */

tc_str tci_jsonl_file_name(bool is_task, uint64_t id, char name[TCI_JSONL_NAME_MAX])
{
    char digits[TCI_NUM_TEXT_MAX];
    size_t at = 0, ndigits = 0;
    tc_str prefix = is_task ? TC_STR("task-") : TC_STR("doc-"), suffix = TC_STR(".jsonl");
    do {
        digits[ndigits++] = (char)('0' + id % 10);
        id /= 10;
    } while (id > 0);
    memcpy(name, prefix.ptr, prefix.len);
    at = prefix.len;
    while (ndigits > 0)
        name[at++] = digits[--ndigits];
    memcpy(name + at, suffix.ptr, suffix.len + 1);
    return tci_str_of(name, at + suffix.len);
}

bool tci_jsonl_parse_name(tc_str name, bool *ret_is_task, uint64_t *ret_id)
{
    tc_str suffix = TC_STR(".jsonl");
    tc_err ignored;
    bool is_task = tci_str_starts(name, TC_STR("task-"));
    if ((!is_task && !tci_str_starts(name, TC_STR("doc-"))) || !tci_str_ends(name, suffix))
        return false;
    size_t front = is_task ? 5 : 4;
    if (name.len < front + suffix.len)
        return false;
    tc_str digits = tci_str_sub(name, front, name.len - front - suffix.len);
    if (tci_num_u64(digits, ret_id, &ignored) < 0 || *ret_id > TCI_ID_MAX)
        return false;
    *ret_is_task = is_task;
    return true;
}

/* ---- which there are ---- */

tci_jsonl_file *tci_jsonl_file_get(const tci_jsonl *j, bool is_task, uint64_t id)
{
    uintptr_t *slot = tci_id_map_get(&j->files, tci_jsonl_key(is_task, id));
    return slot != NULL ? (tci_jsonl_file *)*slot : NULL;
}

tci_jsonl_file *tci_jsonl_file_put(tci_jsonl *j, bool is_task, uint64_t id, tc_err *err)
{
    uint64_t key = tci_jsonl_key(is_task, id);
    uintptr_t *slot = tci_id_map_put(&j->files, key);
    if (slot != NULL && *slot != 0)
        return (tci_jsonl_file *)*slot;
    tci_jsonl_file *f = slot != NULL ? tci_new(tci_jsonl_file) : NULL;
    if (f == NULL) {
        if (slot != NULL)
            tci_id_map_remove(&j->files, key);
        (void)tci_err_no_memory(err);
        return NULL;
    }
    f->id = id;
    f->is_task = is_task;
    f->f = TCI_FILE_NONE;
    *slot = (uintptr_t)f;
    return f;
}

void tci_jsonl_file_shut(tci_jsonl *j, tci_jsonl_file *f)
{
    if (!tci_file_is_open(f->f))
        return;
    tci_file_close(&f->f);
    tci_link_remove(&f->lru);
    j->nopen--;
}

void tci_jsonl_files_done(tci_jsonl *j)
{
    for (size_t i = 0; i < j->files.cap; i++) {
        tci_jsonl_file *f = (tci_jsonl_file *)j->files.slots[i].value;
        if (j->files.slots[i].id == 0 || f == NULL)
            continue;
        tci_file_close(&f->f);
        tci_free(f);
    }
    tci_id_map_done(&j->files);
}

/* ---- open ones ---- */

/* Room for one more: the one that was not used for longest goes, with its bytes synced if they are
 * to be. */
static int make_room(tci_jsonl *j, tc_err *err)
{
    while (j->nopen >= TCI_JSONL_OPEN_MAX) {
        tci_jsonl_file *f = TCI_CONTAINER(tci_list_first(&j->open), tci_jsonl_file, lru);
        if (tci_link_is_in(&f->dirty)) {
            int rc = tci_file_sync_data(f->f, err);
            if (rc < 0)
                return rc;
            tci_link_remove(&f->dirty);
        }
        tci_jsonl_file_shut(j, f);
    }
    return 0;
}

int tci_jsonl_file_open(tci_jsonl *j, tci_jsonl_file *f, tc_err *err)
{
    if (tci_file_is_open(f->f)) {
        tci_link_remove(&f->lru);
        tci_list_push_back(&j->open, &f->lru);
        return 0;
    }
    char name[TCI_JSONL_NAME_MAX];
    tc_str path = tci_jsonl_file_name(f->is_task, f->id, name);
    unsigned flags = TCI_OPEN_READ;
    if (!j->is_read_only)
        flags |= TCI_OPEN_WRITE | TCI_OPEN_APPEND | (f->is_there ? 0 : TCI_OPEN_CREATE);
    int rc = make_room(j, err);
    if (rc == 0)
        rc = tci_file_openat(j->folder, path, flags, 0666, &f->f, err);
    if (rc < 0)
        return rc;
    if (!f->is_there)
        j->is_folder_dirty = true;
    f->is_there = true;
    tci_list_push_back(&j->open, &f->lru);
    j->nopen++;
    return 0;
}

int tci_jsonl_file_append(tci_jsonl *j, tci_jsonl_file *f, tc_str text, tc_err *err)
{
    int rc = tci_jsonl_file_open(j, f, err);
    if (rc == 0)
        rc = tci_file_write_all(f->f, text.ptr, text.len, err);
    if (rc < 0)
        return rc;
    f->size += text.len;
    if (j->is_full && !tci_link_is_in(&f->dirty))
        tci_list_push_back(&j->dirty, &f->dirty);
    return 0;
}

int tci_jsonl_sync_sidecars(tci_jsonl *j, tc_err *err)
{
    TCI_LIST_EACH (&j->dirty, k) {
        tci_jsonl_file *f = TCI_CONTAINER(k, tci_jsonl_file, dirty);
        int rc = tci_jsonl_file_open(j, f, err);
        if (rc == 0)
            rc = tci_file_sync_data(f->f, err);
        if (rc < 0)
            return rc;
        tci_link_remove(k);
    }
    if (!j->is_folder_dirty)
        return 0;
    int rc = tci_file_sync(j->folder, err);
    if (rc == 0)
        j->is_folder_dirty = false;
    return rc;
}

int tci_jsonl_open_main(tci_jsonl *j, tc_err *err)
{
    if (tci_file_is_open(j->main))
        return 0;
    int rc = tci_file_openat(j->folder, TC_STR(TCI_JSONL_MAIN),
                             TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_APPEND | TCI_OPEN_CREATE,
                             0666, &j->main, err);
    if (rc == 0)
        j->is_folder_dirty = true;
    return rc;
}

/* ---- reading ---- */

static int read_exactly(tci_file f, uint64_t offset, char *out, size_t len, tc_err *err)
{
    size_t got;
    int rc = tci_file_pread(f, out, len, offset, &got, err);
    if (rc == 0 && got < len)
        rc = tc_err_set(err, TC_E_IO, "a file of the session has become shorter");
    return rc;
}

/* Have the bytes in the window, with what comes next in the direction. */
static int move_window(tci_jsonl *j, uint64_t offset, size_t len, int direction, tc_err *err)
{
    if (j->window == NULL && (j->window = tci_mem_resize(NULL, TCI_JSONL_WINDOW)) == NULL)
        return tci_err_no_memory(err);
    uint64_t from = offset, back = TCI_JSONL_WINDOW - len;
    if (direction < 0)
        from = offset > back ? offset - back : 0;
    size_t got;
    j->window_len = 0;
    int rc = tci_file_pread(j->main, j->window, TCI_JSONL_WINDOW, from, &got, err);
    if (rc < 0)
        return rc;
    j->window_at = from;
    j->window_len = got;
    return 0;
}

static int load_record(tci_jsonl *j, uint64_t offset, size_t len, int direction, char *out,
                       tc_err *err)
{
    bool is_in = offset >= j->window_at && offset - j->window_at + len <= j->window_len;
    if (!is_in && (direction == 0 || len > TCI_JSONL_WINDOW / 2))
        return read_exactly(j->main, offset, out, len, err);
    int rc = is_in ? 0 : move_window(j, offset, len, direction, err);
    if (rc < 0)
        return rc;
    if (offset - j->window_at + len > j->window_len)
        return read_exactly(j->main, offset, out, len, err);
    memcpy(out, j->window + (offset - j->window_at), len);
    return 0;
}

int tci_jsonl_load(void *user, uint64_t document_id, uint64_t offset, size_t len, int direction,
                   char *out, tc_err *err)
{
    tci_jsonl *j = user;
    if (document_id == 0)
        return load_record(j, offset, len, direction, out, err);
    tci_jsonl_file *f = tci_jsonl_file_get(j, false, document_id);
    if (f == NULL)
        return tc_err_set(err, TC_E_IO, "the file of document %llu is gone",
                          (unsigned long long)document_id);
    int rc = tci_jsonl_file_open(j, f, err);
    return rc < 0 ? rc : read_exactly(f->f, offset, out, len, err);
}

/* ---- lines ---- */

enum { READ_STEP = 256 * 1024 };

void tci_jsonl_reader_init(tci_jsonl_reader *r, tci_file f, uint64_t limit)
{
    *r = (tci_jsonl_reader){.f = f, .limit = limit};
    tci_buf_init(&r->buf, (size_t)TCI_JSONL_LINE_MAX + READ_STEP);
}

void tci_jsonl_reader_done(tci_jsonl_reader *r)
{
    tci_buf_done(&r->buf);
}

/* More bytes behind those in the buffer; *ret_got 0 at the end. */
static int read_more(tci_jsonl_reader *r, size_t *ret_got, tc_err *err)
{
    uint64_t from = r->at + r->buf.len;
    size_t len = from < r->limit ? (size_t)tci_min_u64(r->limit - from, READ_STEP) : 0;
    *ret_got = 0;
    if (len == 0)
        return 0;
    char *into = tci_buf_reserve(&r->buf, len);
    if (into == NULL)
        return tci_buf_error(&r->buf, err);
    int rc = tci_file_pread(r->f, into, len, from, ret_got, err);
    if (rc == 0)
        tci_buf_commit(&r->buf, *ret_got);
    return rc;
}

int tci_jsonl_reader_next(tci_jsonl_reader *r, tc_str *ret_line, uint64_t *ret_offset, tc_err *err)
{
    /* the line before is still in front; it is dropped once little is left behind it */
    const char *end = NULL;
    for (;;) {
        const char *from = r->buf.ptr != NULL ? r->buf.ptr + r->used : NULL;
        size_t len = r->buf.len - r->used;
        if (len > r->scanned)
            end = memchr(from + r->scanned, '\n', len - r->scanned);
        if (end != NULL) {
            *ret_line = tci_str_of(from, (size_t)(end - from));
            *ret_offset = r->at + r->used;
            r->used += ret_line->len + 1;
            r->scanned = 0;
            r->number++;
            return 1;
        }
        r->scanned = len;
        r->at += r->used;
        tci_buf_consume(&r->buf, r->used);
        r->used = 0;
        size_t got;
        int rc = read_more(r, &got, err);
        if (rc < 0)
            return rc;
        if (got == 0) {
            *ret_offset = r->at;
            return 0;
        }
    }
}
