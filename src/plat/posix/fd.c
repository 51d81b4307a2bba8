/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors on POSIX systems: one system call each, repeated after a signal, its errno turned
 * into a code. Leaves readiness to the loop and ownership to callers. Any thread; holds nothing.
 * Invariant: "nothing now" is success with a count of 0, never an error. */
#include "plat/fd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static_assert(sizeof(tci_fd_part) == sizeof(struct iovec) &&
                  offsetof(tci_fd_part, ptr) == offsetof(struct iovec, iov_base) &&
                  offsetof(tci_fd_part, len) == offsetof(struct iovec, iov_len),
              "parts are handed to the system as they are");

static bool is_would_block(int e)
{
    return e == EAGAIN || e == EWOULDBLOCK;
}

static tc_code write_code(int e)
{
    if (e == EPIPE || e == ECONNRESET)
        return TC_E_CLOSED;
    return e == ENOSPC || e == EDQUOT ? TC_E_NO_SPACE : TC_E_IO;
}

static tc_code open_code(int e)
{
    return e == EMFILE || e == ENFILE || e == ENOMEM ? TC_E_BUSY : TC_E_IO;
}

/* Common end of all reads. */
static int finish_read(ssize_t n, size_t cap, size_t *ret_n, tc_err *err)
{
    if (n > 0 || (n == 0 && cap == 0)) {
        *ret_n = (size_t)n;
        return 0;
    }
    if (n == 0)
        return tc_err_set(err, TC_E_END, "end of input");
    int e = errno;
    if (is_would_block(e)) {
        *ret_n = 0;
        return 0;
    }
    if (e == ECONNRESET)
        return tc_err_set_os(err, TC_E_CLOSED, e, "connection lost");
    return tc_err_set_os(err, TC_E_IO, e, "cannot read");
}

static int finish_write(ssize_t n, size_t *ret_n, tc_err *err)
{
    if (n >= 0) {
        *ret_n = (size_t)n;
        return 0;
    }
    int e = errno;
    if (is_would_block(e)) {
        *ret_n = 0;
        return 0;
    }
    return tc_err_set_os(err, write_code(e), e, "cannot write");
}

tci_fd_kind tci_fd_kind_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return TCI_FD_OTHER;
    if (S_ISSOCK(st.st_mode))
        return TCI_FD_SOCKET;
    if (S_ISFIFO(st.st_mode))
        return TCI_FD_PIPE;
    if (S_ISDIR(st.st_mode))
        return TCI_FD_DIR;
    return S_ISREG(st.st_mode) ? TCI_FD_FILE : TCI_FD_OTHER;
}

int tci_fd_read(int fd, void *buf, size_t cap, size_t *ret_n, tc_err *err)
{
    ssize_t n;
    do
        n = read(fd, buf, cap);
    while (n < 0 && errno == EINTR);
    return finish_read(n, cap, ret_n, err);
}

int tci_fd_readv(int fd, const tci_fd_part *parts, size_t nparts, size_t *ret_n, tc_err *err)
{
    TC_ASSERT(nparts <= IOV_MAX);
    size_t cap = 0;
    for (size_t i = 0; i < nparts; i++)
        cap += parts[i].len;
    ssize_t n;
    do
        n = readv(fd, (const struct iovec *)(const void *)parts, (int)nparts);
    while (n < 0 && errno == EINTR);
    return finish_read(n, cap, ret_n, err);
}

int tci_fd_write(int fd, const void *buf, size_t len, size_t *ret_n, tc_err *err)
{
    ssize_t n;
    do
        n = write(fd, buf, len);
    while (n < 0 && errno == EINTR);
    return finish_write(n, ret_n, err);
}

int tci_fd_writev(int fd, const tci_fd_part *parts, size_t nparts, size_t *ret_n, tc_err *err)
{
    TC_ASSERT(nparts <= IOV_MAX);
    ssize_t n;
    do
        n = writev(fd, (const struct iovec *)(const void *)parts, (int)nparts);
    while (n < 0 && errno == EINTR);
    return finish_write(n, ret_n, err);
}

int tci_fd_write_all(int fd, const void *buf, size_t len, tc_err *err)
{
    const char *at = buf;
    while (len > 0) {
        size_t n = 0;
        int rc = tci_fd_write(fd, at, len, &n, err);
        if (rc < 0)
            return rc;
        if (n == 0) { /* somebody made it non-blocking: wait as a blocking one would */
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            if (poll(&p, 1, -1) < 0 && errno != EINTR)
                return tc_err_set_os(err, TC_E_IO, errno, "cannot wait to write");
        }
        at += n;
        len -= n;
    }
    return 0;
}

int tci_fd_pipe(int ret_fds[2], tc_err *err)
{
    int fds[2];
#if defined(__APPLE__)
    if (pipe(fds) != 0)
        return tc_err_set_os(err, open_code(errno), errno, "cannot make a pipe");
    (void)fcntl(fds[0], F_SETFD, FD_CLOEXEC); /* cannot fail on a descriptor just made */
    (void)fcntl(fds[1], F_SETFD, FD_CLOEXEC);
#else
    if (pipe2(fds, O_CLOEXEC) != 0)
        return tc_err_set_os(err, open_code(errno), errno, "cannot make a pipe");
#endif
    ret_fds[0] = fds[0];
    ret_fds[1] = fds[1];
    return 0;
}

int tci_fd_dup(int fd, int *ret_fd, tc_err *err)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return tc_err_set_os(err, open_code(errno), errno, "cannot copy a descriptor");
    *ret_fd = copy;
    return 0;
}

void tci_fd_close(int *fd)
{
    if (*fd < 0)
        return;
    (void)close(*fd); /* gone in every case: Linux frees the number even after EINTR */
    *fd = -1;
}

int tci_fd_set_nonblocking(int fd, bool is_on, bool *ret_was, tc_err *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return tc_err_set_os(err, TC_E_IO, errno, "cannot read the flags of a descriptor");
    bool was = (flags & O_NONBLOCK) != 0;
    int want = is_on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    if (was != is_on && fcntl(fd, F_SETFL, want) < 0)
        return tc_err_set_os(err, TC_E_IO, errno, "cannot set the flags of a descriptor");
    if (ret_was != NULL)
        *ret_was = was;
    return 0;
}

int tci_fd_set_cloexec(int fd, bool is_on, tc_err *err)
{
    if (fcntl(fd, F_SETFD, is_on ? FD_CLOEXEC : 0) < 0)
        return tc_err_set_os(err, TC_E_IO, errno, "cannot set the flags of a descriptor");
    return 0;
}

int tci_fd_open_again(int fd, int *ret_fd, tc_err *err)
{
    char path[32];
    bool can_be = tci_fd_kind_of(fd) == TCI_FD_PIPE || isatty(fd) == 1;
    (void)snprintf(path, sizeof path, "/dev/fd/%d", fd); /* fits */
    int again = can_be ? open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    if (again < 0)
        return tc_err_set(err, TC_E_UNSUPPORTED, "descriptor %d cannot be opened again", fd);
    *ret_fd = again;
    return 0;
}

void tci_fd_grow_pipe(int fd, size_t nbytes)
{
#if defined(F_SETPIPE_SZ)
    if (nbytes <= INT_MAX)
        (void)fcntl(fd, F_SETPIPE_SZ, (int)nbytes); /* a smaller buffer works too */
#else
    TCI_UNUSED(fd);
    TCI_UNUSED(nbytes);
#endif
}

bool tci_fd_is_terminal(int fd)
{
    return isatty(fd) == 1;
}

int tci_fd_wait(tci_fd_event *items, size_t nitems, int timeout_ms, tc_err *err)
{
    struct pollfd set[TCI_FD_EVENTS_MAX];
    if (nitems > TCI_ARRAY_LEN(set))
        return tc_err_set(err, TC_E_INVALID, "too many descriptors to wait for");
    for (size_t i = 0; i < nitems; i++) {
        items[i].can_read = items[i].can_write = false;
        set[i] = (struct pollfd){.fd = items[i].fd};
        if (items[i].want_read)
            set[i].events = (short)(set[i].events | POLLIN);
        if (items[i].want_write)
            set[i].events = (short)(set[i].events | POLLOUT);
        if (set[i].events == 0)
            set[i].fd = -1; /* an end nobody asked about would be reported for ever */
    }
    int n = poll(set, (nfds_t)nitems, timeout_ms);
    if (n < 0 && errno == EINTR)
        return 0;
    if (n < 0)
        return tc_err_set_os(err, errno == ENOMEM ? TC_E_NO_MEMORY : TC_E_IO, errno,
                             "cannot wait for descriptors");
    for (size_t i = 0; i < nitems; i++) {
        bool is_over = (set[i].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
        items[i].can_read = (set[i].revents & POLLIN) != 0 || is_over;
        items[i].can_write = (set[i].revents & POLLOUT) != 0 || is_over;
    }
    return 0;
}
