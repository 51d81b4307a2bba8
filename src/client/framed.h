/* SPDX-License-Identifier: Apache-2.0
 *
 * The framed carrier: Content-Length frames over a stream, with or without a daemon child behind
 * it. Inside of the client; loop thread. */
#ifndef TCI_CLIENT_FRAMED_H
#define TCI_CLIENT_FRAMED_H

#include "client/messages.h"
#include "net/fd.h"
#include "plat/proc.h"

enum { TCI_STDERR_TAIL = 4096 };

/* The daemon child of a connection. */
typedef struct tci_hatch {
    tci_child child;
    tci_watch exit_watch;
    int stderr_fd;
    tci_watch stderr_watch;
    void (*on_stderr)(void *user, const void *bytes, size_t len);
    void *stderr_user;
    char tail[TCI_STDERR_TAIL]; /* its last words */
    size_t tail_len;
    tci_timer kill_timer;
    int64_t drain_ms;
    bool has_ended, is_awaited;
    tci_exit exit;
} tci_hatch;

typedef struct tci_framed {
    union {
        tci_messages messages;
        tci_conn base; /* the beginning of it */
    };
    tci_stream *stream;
    bool is_stream_open;
    tci_frames reader;
    char *buf; /* unread input: [at, len) */
    size_t at, len;
    tci_held *part_held;   /* a body being gathered: control */
    tci_block *part_block; /* or data */
    char *part;
    size_t part_len, part_got;
    tci_list control, data; /* of tci_out */
    tci_out *current;       /* partly written */
    unsigned ncontrol_in_a_row;
    tci_later flush;
    tci_later end; /* the failure found while reading or writing */
    tc_err end_err;
    bool has_hatch;
    tci_hatch hatch;
} tci_framed;

static inline tci_framed *tci_framed_of(tci_conn *c)
{
    return TCI_CONTAINER(c, tci_framed, base);
}

int tci_framed_new(tc_runtime *rt, const tc_device_options *options, tci_framed **ret_framed,
                   tc_err *err) TC_CHECKED;
/* Loop thread: begin on a stream, which is taken over. */
int tci_framed_start_own(tci_framed *f, tci_stream *stream, tc_err *err) TC_CHECKED;

/* Start a program of this machine with pipes for its standard input, output and error, whose other
 * ends are ret_fds (blocking, the caller's). NOT_FOUND, START_FAILED, INVALID, BUSY. */
int tci_spawn_piped(const tc_runtime *rt, const tc_spawn_options *o, tci_arena *a, int ret_fds[3],
                    tci_child *ret_child, tc_err *err) TC_CHECKED;

/* The child (spawn.c): told that the stream is closed; reports tci_conn_stopped when it is gone. */
void tci_hatch_stop(tci_framed *f);
/* Add the child's last words to an error about a lost link. */
void tci_hatch_explain(tci_framed *f, tc_err *err);

#endif
