/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the carriers' test share. */
#ifndef TEST_NET_H
#define TEST_NET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "net/stream.h"

extern const struct CMUnitTest url_tests[], fd_tests[], tcp_tests[], tls_tests[], tunnel_tests[];
extern const size_t nurl_tests, nfd_tests, ntcp_tests, ntls_tests, ntunnel_tests;

tci_loop *new_loop(void);

/* Turn until the condition holds; the test's own time limit ends what never comes true. */
#define TURN_UNTIL(loop, cond)         \
    do {                               \
        while (!(cond))                \
            tci_loop_turn((loop), -1); \
    } while (0)

/* An owner of a stream: reads all that comes, writes all it is given. */
typedef struct end {
    tci_stream *stream;
    tci_buf in, out;
    size_t out_at;
    bool ends_after_out;   /* shutdown_write once out is written */
    bool closes_after_out; /* close once out was accepted */
    bool is_open;          /* WRITE was reported */
    bool is_over;          /* a read or write failed, or the end came: result, err */
    bool is_paused;        /* does not read */
    size_t read_cap;       /* bytes per read; 0: many */
    int result;
    tc_err err;
} end;

void end_init(end *e, tci_stream *stream);
void end_send(end *e, const void *bytes, size_t len);
void end_done(end *e);
/* Go on reading after is_paused. */
void end_resume(end *e);

/* Two streams that are connected; each a socket of a pair. */
void stream_pair(tci_loop *loop, tci_stream *ret[2]);

/* Files made below the test's folder: an authority, a certificate of it for localhost and
 * 127.0.0.1, and another authority. */
typedef struct cert_files {
    const char *ca, *other_ca, *cert, *key, *locked_key, *not_pem;
} cert_files;
const cert_files *make_certs(void);

#endif
