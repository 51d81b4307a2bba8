/* SPDX-License-Identifier: Apache-2.0
 *
 * See self.h. Any thread; holds nothing. */
#include "plat/self.h"

#include <poll.h>
#include <unistd.h>

int tci_self_program(char buf[TCI_PATH_MAX], tc_str *ret, tc_err *err)
{
    tc_str path;
    if (tci_file_readlink(TCI_FILE_CWD, TC_STR("/proc/self/exe"), buf, TCI_PATH_MAX - 1, &path,
                          err) < 0)
        return err->code;
    buf[path.len] = '\0';
    *ret = tci_str_of(buf, path.len);
    return 0;
}

bool tci_self_say(tc_str text)
{
    /* A pipe that is writable has room for PIPE_BUF bytes (pipe(7)): so many are taken without waiting. The
     * descriptor itself is not made non-blocking: it is shared with whoever started us. */
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (text.len > TCI_SELF_SAY_MAX || poll(&p, 1, 0) != 1 || (p.revents & POLLOUT) == 0)
        return false;
    return write(STDERR_FILENO, text.ptr, text.len) == (ssize_t)text.len;
}
