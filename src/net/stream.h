/* SPDX-License-Identifier: Apache-2.0
 *
 * A two-way stream of bytes, by readiness: the owner asks to be told when it can go on, then reads
 * into and writes from its own memory. No hidden queue, so bulk data is copied once and back-pressure is
 * the owner's decision. Streams stack: TLS over TCP over a CONNECT proxy is still a tci_stream. Loop
 * thread only. */
#ifndef TCI_NET_STREAM_H
#define TCI_NET_STREAM_H

#include "loop/loop.h"

typedef struct tci_iovec {
    const void *ptr;
    size_t len;
} tci_iovec;

enum { TCI_IOVEC_MAX = 64 };

typedef struct tci_stream tci_stream;

typedef struct tci_stream_vtable {
    int (*read)(tci_stream *s, void *buf, size_t cap, size_t *ret_n, tc_err *err);
    int (*writev)(tci_stream *s, const tci_iovec *v, size_t nv, size_t *ret_n, tc_err *err);
    int (*want)(tci_stream *s, unsigned events, tc_err *err);
    int (*shutdown_write)(tci_stream *s, tc_err *err);
    void (*close)(tci_stream *s);
} tci_stream_vtable;

struct tci_stream {
    const tci_stream_vtable *v;
    void (*on_ready)(tci_stream *s, unsigned events); /* TCI_WATCH_READ | TCI_WATCH_WRITE */
    void *user;                                       /* the owner's */
    /* See tci_stream_unsent; NULL: not known. Of whoever makes the stream. */
    int64_t (*unsent)(const tci_stream *s);
};

/* Read what is there. 0 with *ret_n > 0: bytes; 0 with *ret_n == 0: nothing now, wait for READ.
 * TC_E_END: the peer sent its last byte. Others: the stream is dead. */
TC_CHECKED static inline int tci_stream_read(tci_stream *s, void *buf, size_t cap, size_t *ret_n,
                                             tc_err *err)
{
    return s->v->read(s, buf, cap, ret_n, err);
}
/* Write what fits now; *ret_n may be less than offered (then wait for WRITE). CLOSED: the peer is
 * gone. At most TCI_IOVEC_MAX parts. Never raises SIGPIPE. */
TC_CHECKED static inline int tci_stream_writev(tci_stream *s, const tci_iovec *v, size_t nv,
                                               size_t *ret_n, tc_err *err)
{
    return s->v->writev(s, v, nv, ret_n, err);
}
/* Which readiness to report through on_ready from now on; 0 pauses. Cheap when unchanged. A stream
 * that holds already decrypted bytes reports READ on the next turn. */
TC_CHECKED static inline int tci_stream_want(tci_stream *s, unsigned events, tc_err *err)
{
    return s->v->want(s, events, err);
}
/* No more bytes will be written; the peer sees the end. */
TC_CHECKED static inline int tci_stream_shutdown_write(tci_stream *s, tc_err *err)
{
    return s->v->shutdown_write(s, err);
}
/* Bytes that were written and that the peer's system has not taken yet, roughly (what lies between the
 * streams of a stack is left out, what encryption adds is counted); below 0: not known. A system call. */
static inline int64_t tci_stream_unsent(const tci_stream *s)
{
    return s->unsent != NULL ? s->unsent(s) : -1;
}
/* Close and free; no callback after this. May be called from on_ready. NULL is fine. */
static inline void tci_stream_close(tci_stream *s)
{
    if (s != NULL)
        s->v->close(s);
}

#endif
