/* SPDX-License-Identifier: Apache-2.0
 *
 * Output kept for later reading. Leaves the meaning of a full spool to whoever runs the command.
 * Loop thread, but for views. Invariant: retained bytes are in memory while there is no file and
 * all in the file once there is one; charged is what the quota was charged, never less than
 * retained. */
#include "ops/spool.h"

#include "base/num.h"
#include "plat/file.h"

#include <stdio.h>

enum { FILE_MODE = 0600, FIRST_CAPACITY = 64, SPOOL_NAME_MAX = TCI_SPOOL_REFERENCE_MAX + 8 };

struct tci_spool {
    const tci_spool_dir *dir;
    tci_spool_quota *quota;
    char reference[TCI_SPOOL_REFERENCE_MAX + 1];
    uint64_t ceiling, produced, retained, charged;
    bool is_complete, is_cut, has_file;
    tc_code failed; /* of the first append that failed; TC_OK */
    tci_file file;  /* open only while it grows */
    char *memory;
    size_t capacity;
    tci_list waits;
};

/* ---- quota ---- */

uint64_t tci_spool_quota_free_bytes(const tci_spool_quota *quota)
{
    uint64_t room = UINT64_MAX;
    for (const tci_spool_quota *q = quota; q != NULL; q = q->parent)
        room = tci_min_u64(room, q->max_bytes - tci_min_u64(q->max_bytes, q->used_bytes));
    return room;
}

static bool take_object(tci_spool_quota *quota)
{
    for (const tci_spool_quota *q = quota; q != NULL; q = q->parent)
        if (q->used_objects >= q->max_objects)
            return false;
    for (tci_spool_quota *q = quota; q != NULL; q = q->parent)
        q->used_objects++;
    return true;
}

static void charge(tci_spool *s, uint64_t nbytes)
{
    for (tci_spool_quota *q = s->quota; q != NULL; q = q->parent)
        q->used_bytes += nbytes;
    s->charged += nbytes;
}

static void give_back(tci_spool *s)
{
    for (tci_spool_quota *q = s->quota; q != NULL; q = q->parent) {
        q->used_bytes -= s->charged;
        q->used_objects--;
    }
}

/* ---- life ---- */

static bool is_file_name(tc_str s)
{
    if (s.len == 0 || s.len > TCI_SPOOL_REFERENCE_MAX)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool is_fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
        if (!is_fine)
            return false;
    }
    return true;
}

int tci_spool_new(const tci_spool_dir *dir, tc_str reference, uint64_t ceiling_bytes,
                  tci_spool_quota *quota, tci_spool **ret_spool, tc_err *err)
{
    if (!is_file_name(reference))
        return tc_err_set(err, TC_E_INVALID, "'%.*s' is no output reference",
                          TC_STR_ARG(reference));
    tci_spool *s = tci_new(tci_spool);
    if (s == NULL)
        return tci_err_no_memory(err);
    if (!take_object(quota)) {
        tci_free(s);
        return tc_err_set(err, TC_E_QUOTA, "too many outputs are kept");
    }
    s->dir = dir;
    s->quota = quota;
    s->ceiling = ceiling_bytes;
    s->file = TCI_FILE_NONE;
    memcpy(s->reference, reference.ptr, reference.len);
    tci_list_init(&s->waits);
    *ret_spool = s;
    return 0;
}

static tc_str file_name(const tci_spool *s, char out[SPOOL_NAME_MAX])
{
    (void)snprintf(out, SPOOL_NAME_MAX, "%s.spool", s->reference); /* fits */
    return tci_str(out);
}

static tci_file root_of(const tci_spool *s)
{
    return (tci_file){.fd = s->dir->dir_fd};
}

static void wake(tci_spool *s, bool was_released)
{
    tci_list batch;
    tci_list_init(&batch);
    for (tci_link *k = tci_list_pop_front(&s->waits); k != NULL; k = tci_list_pop_front(&s->waits))
        tci_list_push_back(&batch, k);
    for (tci_link *k = tci_list_pop_front(&batch); k != NULL; k = tci_list_pop_front(&batch)) {
        tci_spool_wait *wait = TCI_CONTAINER(k, tci_spool_wait, link);
        wait->cb(wait, was_released);
    }
}

int tci_spool_release(tci_spool *s, tc_err *err)
{
    tci_file_close(&s->file);
    if (s->has_file) {
        char name[SPOOL_NAME_MAX];
        int rc = tci_file_unlink(root_of(s), file_name(s, name), err);
        if (rc < 0 && rc != TC_E_NOT_FOUND)
            return tc_err_recode(err, TC_E_IO);
        s->has_file = false;
    }
    give_back(s);
    wake(s, true);
    tci_mem_free(s->memory);
    tci_free(s);
    return 0;
}

void tci_spool_free(tci_spool *s)
{
    tc_err err;
    if (s == NULL || tci_spool_release(s, &err) == 0)
        return;
    s->has_file = false; /* it stays behind; the directory goes with its owner */
    int rc = tci_spool_release(s, &err);
    TC_ASSERT(rc == 0); /* without a file there is nothing to fail */
}

tc_str tci_spool_reference(const tci_spool *s)
{
    return tci_str(s->reference);
}

tci_spool_info tci_spool_info_of(const tci_spool *s)
{
    return (tci_spool_info){
        .produced_bytes = s->produced,
        .retained_bytes = s->retained,
        .producer_complete = s->is_complete,
        .content_complete = s->is_complete && !s->is_cut && s->produced == s->retained,
    };
}

/* ---- writing ---- */

static int keep_in_memory(tci_spool *s, tc_str bytes, tc_err *err)
{
    size_t need = (size_t)s->retained + bytes.len;
    if (need > s->capacity) {
        size_t capacity = s->capacity != 0 ? s->capacity : FIRST_CAPACITY;
        while (capacity < need)
            capacity *= 2;
        char *grown = tci_mem_resize(s->memory, capacity);
        if (grown == NULL)
            return tci_err_no_memory(err);
        s->memory = grown;
        s->capacity = capacity;
    }
    memcpy(s->memory + s->retained, bytes.ptr, bytes.len);
    return 0;
}

static int open_file(tci_spool *s, tc_err *err)
{
    char name[SPOOL_NAME_MAX];
    int rc = tci_file_openat(root_of(s), file_name(s, name),
                             TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_EXCL,
                             FILE_MODE, &s->file, err);
    if (rc < 0)
        return rc;
    s->has_file = true;
    if (s->retained > 0)
        rc = tci_file_pwrite_all(s->file, s->memory, (size_t)s->retained, 0, err);
    if (rc < 0) { /* keep reading from memory */
        tc_err ignored;
        tci_file_close(&s->file);
        if (tci_file_unlink(root_of(s), tci_str(name), &ignored) == 0)
            s->has_file = false;
        return rc;
    }
    tci_mem_free(s->memory);
    s->memory = NULL;
    s->capacity = 0;
    return 0;
}

static int keep(tci_spool *s, tc_str bytes, tc_err *err)
{
    if (tci_spool_quota_free_bytes(s->quota) < bytes.len)
        return tc_err_set(err, TC_E_QUOTA, "no room is left for output");
    int rc = 0;
    if (!tci_file_is_open(s->file)) {
        if (s->retained + bytes.len <= TCI_SPOOL_MEMORY_MAX) {
            rc = keep_in_memory(s, bytes, err);
            bytes.ptr = NULL;
        } else {
            rc = open_file(s, err);
        }
    }
    if (rc == 0 && bytes.ptr != NULL)
        rc = tci_file_pwrite_all(s->file, bytes.ptr, bytes.len, s->retained, err);
    if (rc < 0)
        return tc_err_wrap(err, "cannot keep output '%s'", s->reference);
    charge(s, bytes.len);
    s->retained += bytes.len;
    return 0;
}

static int again(const tci_spool *s, tc_err *err)
{
    return tc_err_set(err, s->failed, "output '%s' takes no more", s->reference);
}

int tci_spool_append(tci_spool *s, tc_str bytes, tc_err *err)
{
    TC_ASSERT(!s->is_complete);
    s->produced += bytes.len;
    if (s->failed != TC_OK)
        return again(s, err);
    if (bytes.len == 0)
        return 0;
    uint64_t room = s->ceiling - s->retained;
    tc_str kept = tci_str_sub(bytes, 0, (size_t)tci_min_u64(room, bytes.len));
    int rc = kept.len > 0 ? keep(s, kept, err) : 0;
    if (rc == 0 && kept.len < bytes.len)
        rc = tc_err_set(err, TC_E_OUTPUT_LIMIT, "output is over its limit of %llu bytes",
                        (unsigned long long)s->ceiling);
    if (rc < 0)
        s->failed = (tc_code)rc;
    wake(s, false);
    return rc;
}

void tci_spool_finish(tci_spool *s, bool was_cut)
{
    if (s->is_complete)
        return;
    s->is_complete = true;
    s->is_cut = was_cut;
    tci_file_close(&s->file);
    if (s->memory != NULL && s->capacity > s->retained) {
        char *fitting = tci_mem_resize(s->memory, (size_t)s->retained);
        if (fitting != NULL)
            s->memory = fitting;
    }
    wake(s, false);
}

/* ---- reading ---- */

static int check_offset(uint64_t offset, uint64_t end, tc_err *err)
{
    if (offset <= end)
        return 0;
    return tc_err_set(err, TC_E_INVALID, "offset %llu is past the end %llu",
                      (unsigned long long)offset, (unsigned long long)end);
}

static int open_for_reading(const tci_spool *s, tci_file *ret, tc_err *err)
{
    char name[SPOOL_NAME_MAX];
    return tci_file_openat(root_of(s), file_name(s, name), TCI_OPEN_READ | TCI_OPEN_NOFOLLOW, 0,
                           ret, err);
}

static int read_at(const char *memory, tci_file file, uint64_t end, uint64_t offset, void *out,
                   size_t len, size_t *ret_len, tc_err *err)
{
    size_t n = (size_t)tci_min_u64(len, end - offset);
    if (n == 0 || memory != NULL) {
        if (n > 0)
            memcpy(out, memory + offset, n);
        *ret_len = n;
        return 0;
    }
    size_t got = 0;
    int rc = tci_file_pread(file, out, n, offset, &got, err);
    if (rc < 0)
        return rc;
    if (got != n)
        return tc_err_set(err, TC_E_IO, "output file is shorter than what was written");
    *ret_len = n;
    return 0;
}

int tci_spool_read(const tci_spool *s, uint64_t offset, void *out, size_t len, size_t *ret_len,
                   tc_err *err)
{
    int rc = check_offset(offset, s->retained, err);
    if (rc < 0)
        return rc;
    if (s->memory != NULL || tci_file_is_open(s->file) || offset == s->retained)
        return read_at(s->memory, s->file, s->retained, offset, out, len, ret_len, err);
    TCI_FILE_AUTO file = TCI_FILE_NONE;
    rc = open_for_reading(s, &file, err);
    if (rc < 0)
        return tc_err_recode(err, TC_E_IO);
    return read_at(NULL, file, s->retained, offset, out, len, ret_len, err);
}

int tci_spool_view_init(tci_spool_view *view, const tci_spool *s, tc_err *err)
{
    tci_spool_view v = {.fd = -1, .len = s->retained};
    if (s->memory != NULL) {
        v.memory = tci_mem_alloc((size_t)s->retained);
        if (v.memory == NULL)
            return tci_err_no_memory(err);
        memcpy(v.memory, s->memory, (size_t)s->retained);
    } else if (s->retained > 0) {
        tci_file file = TCI_FILE_NONE;
        int rc = open_for_reading(s, &file, err);
        if (rc < 0)
            return rc;
        v.fd = file.fd;
    }
    *view = v;
    return 0;
}

int tci_spool_view_read(const tci_spool_view *view, uint64_t offset, void *out, size_t len,
                        size_t *ret_len, tc_err *err)
{
    int rc = check_offset(offset, view->len, err);
    if (rc < 0)
        return rc;
    return read_at(view->memory, (tci_file){.fd = view->fd}, view->len, offset, out, len, ret_len,
                   err);
}

void tci_spool_view_done(tci_spool_view *view)
{
    tci_file file = {.fd = view->fd};
    tci_file_close(&file);
    tci_mem_free(view->memory);
    *view = (tci_spool_view){.fd = -1};
}

void tci_spool_wait_add(tci_spool *s, tci_spool_wait *wait)
{
    tci_list_push_back(&s->waits, &wait->link);
}

void tci_spool_wait_cancel(tci_spool_wait *wait)
{
    tci_link_remove(&wait->link);
}
