/* SPDX-License-Identifier: Apache-2.0
 *
 * The one table from system error numbers to codes, and how a failed file call is worded. Leaves
 * the decision what a code means for a request to the callers. Any thread. */
#include "plat/posix/file_int.h"

#include <errno.h>

typedef struct errno_row {
    int os;
    tc_code code;
} errno_row;

static const errno_row rows[] = {
    {ENOENT, TC_E_NOT_FOUND},
    {ESRCH, TC_E_NOT_FOUND},
    {ENODATA, TC_E_NOT_FOUND},
    {EACCES, TC_E_DENIED},
    {EPERM, TC_E_DENIED},
    {EROFS, TC_E_DENIED},
    {ELOOP, TC_E_DENIED},
    {EISDIR, TC_E_DENIED},
    {ENOTDIR, TC_E_DENIED},
    {ENXIO, TC_E_DENIED}, /* a FIFO without a reader, a socket, a device that is not there */
    {ENODEV, TC_E_DENIED},
    {ETXTBSY, TC_E_DENIED},
    {EEXIST, TC_E_CONFLICT},
    {ENOTEMPTY, TC_E_CONFLICT},
    {EADDRINUSE, TC_E_CONFLICT},
    {ENOSPC, TC_E_NO_SPACE},
    {EDQUOT, TC_E_NO_SPACE},
    {EFBIG, TC_E_QUOTA},
    {ENOSYS, TC_E_UNSUPPORTED},
    {EOPNOTSUPP, TC_E_UNSUPPORTED},
    {EXDEV, TC_E_UNSUPPORTED},
    {EAFNOSUPPORT, TC_E_UNSUPPORTED},
    {EPROTONOSUPPORT, TC_E_UNSUPPORTED},
    {EMFILE, TC_E_BUSY},
    {ENFILE, TC_E_BUSY},
    {EAGAIN, TC_E_BUSY},
    {EBUSY, TC_E_BUSY},
    {ENOLCK, TC_E_BUSY},
    {ENOMEM, TC_E_NO_MEMORY},
    {ENOBUFS, TC_E_NO_MEMORY},
    {ENAMETOOLONG, TC_E_INVALID},
    {EINVAL, TC_E_INVALID},
    {EADDRNOTAVAIL, TC_E_INVALID},
    {E2BIG, TC_E_TOO_BIG},
    {EPIPE, TC_E_CLOSED},
    {ECONNRESET, TC_E_CLOSED},
    {ECONNABORTED, TC_E_CLOSED},
    {ENOTCONN, TC_E_CLOSED},
    {ECONNREFUSED, TC_E_CONNECT},
    {EHOSTUNREACH, TC_E_CONNECT},
    {ENETUNREACH, TC_E_CONNECT},
    {EHOSTDOWN, TC_E_CONNECT},
    {ENETDOWN, TC_E_CONNECT},
    {ETIMEDOUT, TC_E_TIMEOUT},
    {ECANCELED, TC_E_CANCELLED},
};

tc_code tci_errno_code(int os_error)
{
    if (os_error == 0)
        return TC_OK;
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++)
        if (rows[i].os == os_error)
            return rows[i].code;
    return TC_E_IO;
}

int tci_file_fail(tc_err *err, const char *what, tc_str path)
{
    int os = errno;
    return tc_err_set_os(err, tci_errno_code(os), os, "cannot %s '%.*s'", what, TC_STR_ARG(path));
}

int tci_file_fail_fd(tc_err *err, const char *what)
{
    int os = errno;
    return tc_err_set_os(err, tci_errno_code(os), os, "cannot %s an open file", what);
}
