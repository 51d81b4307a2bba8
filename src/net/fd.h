/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream over descriptors: one socket, or a pair of pipes (standard input and output, a child's
 * ends), or a file read as standard input. Loop thread only. */
#ifndef TCI_NET_FD_H
#define TCI_NET_FD_H

#include "net/stream.h"

/* Make a stream that reads read_fd and writes write_fd.
 *
 *   read_fd, write_fd  may be the same (a socket); -1 for a stream that goes one way only
 *   own_fds            closed with the stream; when this fails they stay the caller's. Otherwise
 *                      they are borrowed until close and get their O_NONBLOCK flag back there
 *
 * Pipes are asked for a buffer of 1 MiB. Descriptors are made non-blocking. Sockets never raise
 * SIGPIPE; pipes do, so a program that uses them ignores that signal.
 * shutdown_write ends a socket's sending side; a write descriptor of its own is closed when it is
 * owned, and only left alone when it is borrowed: the peer then sees the end when its lender closes
 * it. A read that came back short is known to have emptied the descriptor, so the next read answers
 * "nothing now" without asking the system until READ is reported.
 * Errors: NO_MEMORY, INVALID (not open, or watched already), IO. */
int tci_fd_stream_new(tci_loop *loop, int read_fd, int write_fd, bool own_fds,
                      tci_stream **ret_stream, tc_err *err) TC_CHECKED;

#endif
