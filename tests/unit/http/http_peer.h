/* SPDX-License-Identifier: Apache-2.0
 *
 * The other end of a stream under test: a socket that the test writes and reads by hand while it
 * turns the loop. For the tests of this folder. */
#ifndef TC_TEST_HTTP_PEER_H
#define TC_TEST_HTTP_PEER_H

#include "net/fd.h"
#include "plat/clock.h"
#include "plat/fd.h"
#include "plat/socket.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { PEER_PATIENCE_MS = 20000 };

typedef struct peer {
    tci_loop *loop;
    int fd;
    char *got; /* all that came, NUL-terminated */
    size_t ngot, cap;
    bool at_end;   /* the other side closed */
    bool is_reset; /* and not in good order */
} peer;

/* A pair: one end as a stream, the other as a peer. */
static inline tci_stream *peer_open(peer *p, tci_loop *loop)
{
    int fds[2];
    tc_err err;
    tci_stream *stream = NULL;
    *p = (peer){.loop = loop};
    assert_int_equal(tci_socket_pair(fds, &err), 0);
    p->fd = fds[0];
    assert_int_equal(tci_fd_set_nonblocking(p->fd, true, NULL, &err), 0);
    assert_int_equal(tci_fd_stream_new(loop, fds[1], fds[1], true, &stream, &err), 0);
    p->cap = 1024;
    p->got = malloc(p->cap);
    assert_non_null(p->got);
    p->got[0] = '\0';
    return stream;
}

static inline void peer_close(peer *p)
{
    tci_fd_close(&p->fd);
    free(p->got);
    p->got = NULL;
}

/* Read what is there now; at most max bytes. */
static inline size_t peer_read(peer *p, size_t max)
{
    size_t total = 0;
    while (!p->at_end && total < max) {
        size_t n = 0, want = max - total < 65536 ? max - total : 65536;
        tc_err err;
        if (p->cap - p->ngot <= want) {
            p->cap = (p->cap + want) * 2;
            p->got = realloc(p->got, p->cap);
            assert_non_null(p->got);
        }
        if (tci_fd_read(p->fd, p->got + p->ngot, want, &n, &err) < 0) {
            p->at_end = true;
            p->is_reset = err.code != TC_E_END;
            break;
        }
        if (n == 0)
            break;
        p->ngot += n;
        p->got[p->ngot] = '\0';
        total += n;
    }
    return total;
}

/* Turn the loop until cond holds. */
#define PEER_UNTIL(p, cond)                                                         \
    do {                                                                            \
        int64_t until_ = tci_clock_mono_ns() + (int64_t)PEER_PATIENCE_MS * 1000000; \
        while (!(cond)) {                                                           \
            tci_loop_turn((p)->loop, 5);                                            \
            if (tci_clock_mono_ns() > until_)                                       \
                fail_msg("never: %s; got \"%.200s\"", #cond, (p)->got);             \
        }                                                                           \
    } while (0)

/* Some turns in which nothing should happen. */
static inline void peer_settle(peer *p)
{
    for (int i = 0; i < 5; i++)
        tci_loop_turn(p->loop, 1);
}

/* Write some of it; how much went. */
static inline size_t peer_try_send(peer *p, const void *bytes, size_t len)
{
    size_t n = 0;
    tc_err err;
    tci_fd_part part = {(void *)(uintptr_t)bytes, len};
    if (tci_socket_send(p->fd, &part, 1, &n, &err) < 0)
        return 0;
    return n;
}

static inline void peer_send_bytes(peer *p, const char *bytes, size_t len)
{
    size_t at = 0;
    PEER_UNTIL(p, (at += peer_try_send(p, bytes + at, len - at)) == len);
}

static inline void peer_send(peer *p, const char *text)
{
    peer_send_bytes(p, text, strlen(text));
}

/* Take lines that differ from run to run out of what came. */
static inline void peer_drop_dates(peer *p)
{
    for (char *at = strstr(p->got, "Date: "); at != NULL; at = strstr(p->got, "Date: ")) {
        char *end = strstr(at, "\r\n");
        if (end == NULL)
            return;
        memmove(at, end + 2, strlen(end + 2) + 1);
        p->ngot -= (size_t)(end + 2 - at);
    }
}

static inline bool peer_has(peer *p, const char *text)
{
    peer_read(p, SIZE_MAX);
    peer_drop_dates(p);
    return strcmp(p->got, text) == 0;
}

static inline bool peer_contains(peer *p, const char *text)
{
    peer_read(p, SIZE_MAX);
    return strstr(p->got, text) != NULL;
}

/* Exactly this has come, no more, no less; then forget it. */
static inline void peer_expect(peer *p, const char *text)
{
    int64_t until = tci_clock_mono_ns() + (int64_t)PEER_PATIENCE_MS * 1000000;
    while (!peer_has(p, text)) {
        if (tci_clock_mono_ns() > until || (p->at_end && !peer_has(p, text))) {
            assert_string_equal(p->got, text);
            return;
        }
        tci_loop_turn(p->loop, 5);
    }
    p->ngot = 0;
    p->got[0] = '\0';
}

static inline bool peer_is_at_end(peer *p)
{
    peer_read(p, SIZE_MAX);
    return p->at_end;
}

#endif
