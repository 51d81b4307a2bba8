/* SPDX-License-Identifier: Apache-2.0
 *
 * All output of a command in a file, begun when there is more of it than the reader wants to see at
 * once. Leaves deleting the file to whoever reads it. Loop thread: a write goes to the page cache.
 * Invariant: what came so far is in held, or all of it is in the file. */
#include "ops/run_int.h"

#include "plat/clock.h"

#include <stdio.h>

enum {
    HELD_MAX = 16 * 1024 * 1024, /* then a file is begun although less was asked for */
    TRIES = 100,
    RANDOM_CHARS = 6,
    UUID_BYTES = 16,
    DIR_MODE = 0700,
    FILE_MODE = 0600
};

int tci_run_spill_init(run_spill *s, const tci_run_opts *opts, tc_err *err)
{
    *s = (run_spill){.is_wanted = opts->has_spill,
                     .after_bytes = opts->spill_after_bytes,
                     .after_lines = opts->spill_after_lines,
                     .file = TCI_FILE_NONE};
    tci_buf_init(&s->held, TCI_BUF_MAX);
    if (!s->is_wanted)
        return 0;
    s->tmp_dir = tci_mem_cstr(opts->tmp_dir);
    return s->tmp_dir != NULL ? 0 : tci_err_no_memory(err);
}

void tci_run_spill_done(run_spill *s)
{
    tci_file_close(&s->file);
    tci_buf_done(&s->held);
    tci_mem_free(s->tmp_dir);
    tci_mem_free(s->path);
    s->tmp_dir = s->path = NULL;
}

static void put_random_chars(tci_buf *out)
{
    static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    uint32_t random[RANDOM_CHARS];
    tci_random_bytes(random, sizeof random);
    for (size_t i = 0; i < RANDOM_CHARS; i++)
        tci_buf_append_byte(out, chars[random[i] % (sizeof chars - 1)]);
}

/* Version 4 of RFC 9562. */
static void put_uuid(tci_buf *out)
{
    uint8_t b[UUID_BYTES];
    tci_random_bytes(b, sizeof b);
    b[6] = (uint8_t)(0x40 | (b[6] & 0x0f));
    b[8] = (uint8_t)(0x80 | (b[8] & 0x3f));
    for (size_t i = 0; i < UUID_BYTES; i++)
        tci_buf_printf(out, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", b[i]);
}

/* A new folder only we may enter; its path into out. */
static int make_folder(const run_spill *s, tci_buf *out, tc_err *err)
{
    for (int i = 0; i < TRIES; i++) {
        tci_buf_clear(out);
        tci_buf_printf(out, "%s/tmp-", s->tmp_dir);
        put_random_chars(out);
        if (tci_buf_error(out, err) < 0)
            return err->code;
        int rc = tci_file_mkdir(TCI_FILE_CWD, tci_buf_str(out), DIR_MODE, err);
        if (rc != TC_E_CONFLICT)
            return rc;
    }
    return err->code;
}

static int begin_file(run_spill *s, tc_err *err)
{
    tci_buf path;
    tci_buf_init(&path, TCI_PATH_MAX);
    int rc = make_folder(s, &path, err);
    if (rc == 0) {
        size_t folder_len = path.len;
        tci_buf_append_str(&path, TC_STR("/pi-output-"));
        put_uuid(&path);
        tci_buf_append_str(&path, TC_STR(".log"));
        rc = tci_buf_error(&path, err);
        if (rc == 0)
            rc = tci_file_open(tci_buf_str(&path),
                               TCI_OPEN_WRITE | TCI_OPEN_APPEND | TCI_OPEN_CREATE | TCI_OPEN_EXCL,
                               FILE_MODE, &s->file, err);
        if (rc == 0)
            s->path = tci_mem_cstr(tci_buf_str(&path));
        if (rc == 0 && s->path == NULL) {
            tci_file_discard(TCI_FILE_CWD, tci_buf_str(&path));
            rc = tci_err_no_memory(err);
        }
        tc_err ignored;
        int left =
            rc < 0 ? tci_file_rmdir(TCI_FILE_CWD, tci_str_of(path.ptr, folder_len), &ignored) : 0;
        TCI_UNUSED(left); /* an empty folder at worst */
    }
    tci_buf_done(&path);
    if (rc == 0)
        rc = tci_file_write_all(s->file, s->held.ptr, s->held.len, err);
    tci_buf_done(&s->held);
    return rc;
}

static int put(run_spill *s, tc_str bytes, tc_err *err)
{
    if (s->path != NULL)
        return tci_file_write_all(s->file, bytes.ptr, bytes.len, err);
    s->nbytes += bytes.len;
    s->nnewlines += tci_str_count_byte(bytes, '\n');
    uint64_t nlines = s->nnewlines + (bytes.ptr[bytes.len - 1] != '\n');
    bool is_over = s->nbytes > s->after_bytes || nlines > s->after_lines || s->nbytes > HELD_MAX;
    if (!is_over) {
        tci_buf_append_str(&s->held, bytes);
        return tci_buf_error(&s->held, err);
    }
    int rc = begin_file(s, err);
    return rc == 0 ? tci_file_write_all(s->file, bytes.ptr, bytes.len, err) : rc;
}

int tci_run_spill_put(run_spill *s, tc_str bytes, tc_err *err)
{
    if (!s->is_wanted || s->has_failed || bytes.len == 0)
        return 0;
    int rc = put(s, bytes, err);
    if (rc == 0)
        return 0;
    s->has_failed = true;
    tci_file_close(&s->file);
    tci_buf_done(&s->held);
    return rc;
}
