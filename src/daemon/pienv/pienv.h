/* SPDX-License-Identifier: Apache-2.0
 *
 * The pi-env server: one connection over one stream, with the rights of the user. */
#ifndef TCI_DAEMON_PIENV_H
#define TCI_DAEMON_PIENV_H

#include "base/str.h"
#include "loop/loop.h"
#include "net/stream.h"

typedef struct tci_pi_server tci_pi_server;

/* How a connection ended. */
typedef enum tci_pi_end {
    TCI_PI_END_EOF,     /* the peer closed its side between two frames */
    TCI_PI_END_SILENCE, /* no byte for 30 seconds */
    TCI_PI_END_SIGNAL,  /* tci_pi_stop */
    TCI_PI_END_BROKEN   /* the stream failed, or what came is no frame */
} tci_pi_end;

typedef struct tci_pi_options {
    tc_str token; /* goes into the sync line */
    /* Called once, when everything has been killed, closed and flushed: the server is gone after it.
     * message is empty but for BROKEN. is_clean: no work is left that still hangs on another thread;
     * otherwise the loop must not be freed. */
    void (*on_end)(void *user, tci_pi_end how, bool is_clean, tc_str message);
    void *user;
    int64_t ping_ms;    /* between two pings and looks at the silence; 0: 5 seconds */
    int64_t silence_ms; /* without a byte the peer is dead; 0: 30 seconds */
} tci_pi_options;

/* Serve the stream, which is taken over. Errors: NO_MEMORY, IO, TOO_BIG (token); the stream is the
 * caller's then. Loop thread. */
int tci_pi_serve(tci_loop *loop, tci_stream *stream, const tci_pi_options *options,
                 tci_pi_server **ret, tc_err *err) TC_CHECKED;
/* End it: kill every running command, close everything, flush. Idempotent. */
void tci_pi_stop(tci_pi_server *s);

/* The whole program: `serve --token TEXT` on standard input and output. Returns the exit status: 0
 * for an orderly end, 1 with the last word in err. After a signal it ends by that signal. */
int tci_pi_main(tc_str token, tc_err *err);

#endif
