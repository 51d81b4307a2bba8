/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors: pipes, reading, writing, flags. Everything made here is close-on-exec. Calls are
 * repeated when a signal interrupts them. Any thread. */
#ifndef TCI_PLAT_FD_H
#define TCI_PLAT_FD_H

#include "base/compiler.h"
#include <telechir/error.h>

/* One part of a vectored read or write. Laid out as the system's own. */
typedef struct tci_fd_part {
    void *ptr;
    size_t len;
} tci_fd_part;

typedef enum tci_fd_kind {
    TCI_FD_OTHER, /* terminals, event descriptors and whatever else */
    TCI_FD_FILE,
    TCI_FD_DIR,
    TCI_FD_PIPE,
    TCI_FD_SOCKET
} tci_fd_kind;

/* OTHER for a descriptor that is not open. */
tci_fd_kind tci_fd_kind_of(int fd);

/* Read what is there. 0 with *ret_n > 0: bytes; 0 with *ret_n == 0: a non-blocking descriptor has
 * nothing now (or cap was 0).
 * Errors: END at the end of the input, CLOSED when the peer reset the connection, IO. */
int tci_fd_read(int fd, void *buf, size_t cap, size_t *ret_n, tc_err *err) TC_CHECKED;
int tci_fd_readv(int fd, const tci_fd_part *parts, size_t nparts, size_t *ret_n,
                 tc_err *err) TC_CHECKED;

/* Write what fits; *ret_n is 0 when a non-blocking descriptor takes nothing now. A pipe without a
 * reader raises SIGPIPE: programs ignore that signal.
 * Errors: CLOSED when nobody reads any more, NO_SPACE, IO. */
int tci_fd_write(int fd, const void *buf, size_t len, size_t *ret_n, tc_err *err) TC_CHECKED;
int tci_fd_writev(int fd, const tci_fd_part *parts, size_t nparts, size_t *ret_n,
                  tc_err *err) TC_CHECKED;

/* Write all of it on a blocking descriptor. Errors as tci_fd_write. */
int tci_fd_write_all(int fd, const void *buf, size_t len, tc_err *err) TC_CHECKED;

/* ret_fds[0] reads, ret_fds[1] writes; blocking. Errors: BUSY (no descriptors left), IO. */
int tci_fd_pipe(int ret_fds[2], tc_err *err) TC_CHECKED;
/* A second descriptor for the same thing. Errors: BUSY, IO. */
int tci_fd_dup(int fd, int *ret_fd, tc_err *err) TC_CHECKED;
/* Close *fd unless it is negative, and make it -1. A late write error of the close is not
 * reported: whoever must know calls fsync first. */
void tci_fd_close(int *fd);

/* Set or clear O_NONBLOCK. ret_was may be NULL. Errors: IO. */
int tci_fd_set_nonblocking(int fd, bool is_on, bool *ret_was, tc_err *err) TC_CHECKED;
int tci_fd_set_cloexec(int fd, bool is_on, tc_err *err) TC_CHECKED;
/* The same pipe or terminal opened once more for writing, without waiting, whatever others do with fd:
 * setting O_NONBLOCK would be seen by everybody who shares it. fd itself is not changed.
 * Errors: UNSUPPORTED (something else, or it cannot be opened again). */
int tci_fd_open_again(int fd, int *ret_fd, tc_err *err) TC_CHECKED;
/* Ask for a pipe buffer of nbytes; the system may refuse, and a smaller buffer works too. */
void tci_fd_grow_pipe(int fd, size_t nbytes);
bool tci_fd_is_terminal(int fd);

/* For code that owns no loop: what to wait for, and what came. A negative fd is left out. Readable
 * and writable as poll(2) says, an end or an error as both. */
typedef struct tci_fd_event {
    int fd;
    bool want_read, want_write;
    bool can_read, can_write;
} tci_fd_event;
enum { TCI_FD_EVENTS_MAX = 8 };
/* Until one of them is ready or timeout_ms (-1: none) is over; a signal may end it, too. The answers
 * are in the items. Errors: NO_MEMORY, INVALID (over TCI_FD_EVENTS_MAX), IO. */
int tci_fd_wait(tci_fd_event *items, size_t nitems, int timeout_ms, tc_err *err) TC_CHECKED;

#endif
