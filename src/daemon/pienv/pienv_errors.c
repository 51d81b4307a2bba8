/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong, in pi-env's words: the names that libuv gives to errno values, their texts, and the
 * error object. Leaves sending it to pienv_reply.c. Any thread. */
#include "daemon/pienv/pienv_int.h"

#include "base/utf8.h"
#include "base/utf8_stream.h"

#include <errno.h>
#include <stdio.h>

typedef struct error_row {
    int os;
    const char *name, *text;
} error_row;

static const error_row rows[] = {
    {EPERM, "EPERM", "operation not permitted"},
    {ENOENT, "ENOENT", "no such file or directory"},
    {EIO, "EIO", "i/o error"},
    {EBADF, "EBADF", "bad file descriptor"},
    {EAGAIN, "EAGAIN", "resource temporarily unavailable"},
    {ENOMEM, "ENOMEM", "not enough memory"},
    {EACCES, "EACCES", "permission denied"},
    {EBUSY, "EBUSY", "resource busy or locked"},
    {EEXIST, "EEXIST", "file already exists"},
    {EXDEV, "EXDEV", "cross-device link not permitted"},
    {ENOTDIR, "ENOTDIR", "not a directory"},
    {EISDIR, "EISDIR", "illegal operation on a directory"},
    {EINVAL, "EINVAL", "invalid argument"},
    {ENFILE, "ENFILE", "file table overflow"},
    {EMFILE, "EMFILE", "too many open files"},
    {ETXTBSY, "ETXTBSY", "text file is busy"},
    {EFBIG, "EFBIG", "file too large"},
    {ENOSPC, "ENOSPC", "no space left on device"},
    {EROFS, "EROFS", "read-only file system"},
    {EMLINK, "EMLINK", "too many links"},
    {ENAMETOOLONG, "ENAMETOOLONG", "name too long"},
    {ENOTEMPTY, "ENOTEMPTY", "directory not empty"},
    {ELOOP, "ELOOP", "too many symbolic links encountered"},
    {ENOSYS, "ENOSYS", "function not implemented"},
    {ENOTSUP, "ENOTSUP", "operation not supported on socket"},
#if EOPNOTSUPP != ENOTSUP
    {EOPNOTSUPP, "ENOTSUP", "operation not supported on socket"},
#endif
};

static const error_row *row_of(int os)
{
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++)
        if (rows[i].os == os)
            return &rows[i];
    return NULL;
}

const char *tci_pi_errno_name(int os)
{
    const error_row *row = row_of(os);
    return row != NULL ? row->name : "UNKNOWN";
}

const char *tci_pi_errno_text(int os)
{
    const error_row *row = row_of(os);
    return row != NULL ? row->text : NULL;
}

/* ours are what plat and ops say without a number of the system's */
static int os_of_code(tc_code code)
{
    static const struct {
        tc_code code;
        int os;
    } map[] = {
        {TC_E_NO_MEMORY, ENOMEM}, {TC_E_NOT_FOUND, ENOENT}, {TC_E_DENIED, EACCES},
        {TC_E_CONFLICT, EBUSY},   {TC_E_BUSY, EBUSY},       {TC_E_QUOTA, EFBIG},
        {TC_E_NO_SPACE, ENOSPC},  {TC_E_IO, EIO},           {TC_E_UNSUPPORTED, ENOTSUP},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(map); i++)
        if (map[i].code == code)
            return map[i].os;
    return 0; /* a path with a NUL among them: UNKNOWN */
}

void tci_pi_failure_of(const tc_err *err, const char *syscall, tc_str path, tci_arena *a,
                       tci_pi_failure *ret)
{
    tc_err ignored;
    *ret = (tci_pi_failure){
        .os = err->os != 0 ? err->os : os_of_code(err->code), .syscall = syscall, .path = path};
    if (tci_pi_errno_text(ret->os) != NULL)
        return;
    ret->code = "UNKNOWN";
    if (tci_arena_printf(a, &ret->message, &ignored, "UNKNOWN: %s, %s '%.*s'", err->msg, syscall,
                         TC_STR_ARG(path)) < 0)
        ret->message = TC_STR("UNKNOWN"); /* without memory the code says enough */
}

/* ---- the error object ---- */

void tci_pi_put_lossy(tci_buf *out, tc_str bytes)
{
    tci_buf scratch;
    tci_utf8_stream decoder = {.has_begun = true}; /* a mark in front belongs to the text */
    tci_buf_init(&scratch, TCI_BUF_MAX);
    tci_buf_append_str(out, tci_utf8_stream_feed(&decoder, bytes, &scratch));
    tci_buf_append_str(out, tci_utf8_stream_end(&decoder));
    if (!tci_buf_ok(&scratch))
        out->failed = TC_E_NO_MEMORY;
    tci_buf_done(&scratch);
}

void tci_pi_put_text(tci_buf *out, tc_str bytes)
{
    tci_buf text;
    if (tci_utf8_is_valid(bytes)) {
        tci_json_put_str(out, bytes);
        return;
    }
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_pi_put_lossy(&text, bytes);
    tci_json_put_str(out, tci_buf_str(&text));
    if (!tci_buf_ok(&text))
        out->failed = TC_E_NO_MEMORY;
    tci_buf_done(&text);
}

static void put_message(tci_buf *out, const tci_pi_failure *f, const char *code)
{
    tci_buf text;
    const char *what = tci_pi_errno_text(f->os);
    if (f->message.len > 0) {
        tci_pi_put_text(out, f->message);
        return;
    }
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_buf_printf(&text, "%s: %s", code, what != NULL ? what : "unknown error");
    if (f->syscall != NULL)
        tci_buf_printf(&text, ", %s", f->syscall);
    if (f->path.ptr != NULL)
        tci_buf_printf(&text, " '%.*s'", TC_STR_ARG(f->path));
    if (f->dest.ptr != NULL)
        tci_buf_printf(&text, " -> '%.*s'", TC_STR_ARG(f->dest));
    tci_pi_put_text(out, tci_buf_str(&text));
    tci_buf_done(&text);
}

static void put_member(tci_buf *out, const char *key, tc_str text)
{
    tci_buf_printf(out, ",\"%s\":", key);
    tci_pi_put_text(out, text);
}

void tci_pi_put_failure(tci_buf *out, const tci_pi_failure *f)
{
    const char *code = f->code != NULL ? f->code : tci_pi_errno_name(f->os);
    tci_buf_append_str(out, TC_STR("{\"code\":"));
    tci_json_put_str(out, tci_str(code));
    tci_buf_append_str(out, TC_STR(",\"message\":"));
    put_message(out, f, code);
    if (f->path.ptr != NULL)
        put_member(out, "path", f->path);
    if (f->spill_path.len > 0)
        put_member(out, "spillPath", f->spill_path);
    if (f->syscall != NULL)
        put_member(out, "syscall", tci_str(f->syscall));
    tci_buf_append_byte(out, '}');
}
