/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream over bytes in memory: they come in pieces of a given length, and the end only when it is allowed.
 * What is written is kept. Loop thread. */
#ifndef TC_FUZZ_MEM_STREAM_H
#define TC_FUZZ_MEM_STREAM_H

#include "base/buf.h"
#include "net/stream.h"

typedef struct mem_stream {
    tci_stream base;
    tci_loop *loop;
    tci_later tell;
    unsigned want;
    tc_str in;
    size_t at, piece; /* bytes of in that were read; longest read */
    tci_buf out;
    bool may_end; /* after in comes the end; until then nothing */
    bool is_closed, is_shut;
} mem_stream;

static inline mem_stream *mem_of(tci_stream *s)
{
    return TCI_CONTAINER(s, mem_stream, base);
}

static inline int mem_read(tci_stream *s, void *buf, size_t cap, size_t *ret_n, tc_err *err)
{
    mem_stream *m = mem_of(s);
    size_t n = m->in.len - m->at;
    TC_ASSERT(!m->is_closed && cap > 0);
    if (n == 0 && m->may_end)
        return tc_err_set(err, TC_E_END, "the end");
    n = n < cap ? n : cap;
    n = n < m->piece ? n : m->piece;
    if (n > 0)
        memcpy(buf, m->in.ptr + m->at, n);
    m->at += n;
    *ret_n = n;
    return 0;
}

static inline int mem_writev(tci_stream *s, const tci_iovec *v, size_t nv, size_t *ret_n,
                             tc_err *err)
{
    mem_stream *m = mem_of(s);
    TCI_UNUSED(err);
    TC_ASSERT(!m->is_closed && !m->is_shut && nv <= TCI_IOVEC_MAX);
    *ret_n = 0;
    for (size_t i = 0; i < nv; i++) {
        tci_buf_append(&m->out, v[i].ptr, v[i].len);
        *ret_n += v[i].len;
    }
    return 0;
}

static inline int mem_want(tci_stream *s, unsigned events, tc_err *err)
{
    mem_stream *m = mem_of(s);
    TCI_UNUSED(err);
    TC_ASSERT(!m->is_closed);
    m->want = events;
    if (events != 0)
        tci_loop_later(m->loop, &m->tell);
    return 0;
}

static inline int mem_shutdown(tci_stream *s, tc_err *err)
{
    TCI_UNUSED(err);
    mem_of(s)->is_shut = true;
    return 0;
}

static inline void mem_close(tci_stream *s)
{
    mem_stream *m = mem_of(s);
    TC_ASSERT(!m->is_closed);
    m->is_closed = true;
    tci_later_cancel(&m->tell);
}

static inline void mem_tell(tci_later *later)
{
    mem_stream *m = TCI_CONTAINER(later, mem_stream, tell);
    bool can_read = m->at < m->in.len || m->may_end;
    unsigned events = m->want & (can_read ? ~0U : ~(unsigned)TCI_WATCH_READ);
    if (events != 0 && m->base.on_ready != NULL)
        m->base.on_ready(&m->base, events);
    if (!m->is_closed && m->want != 0 && (m->at < m->in.len || m->may_end))
        tci_loop_later(m->loop, &m->tell);
}

static inline void mem_init(mem_stream *m, tci_loop *loop, tc_str in, size_t piece)
{
    static const tci_stream_vtable v = {mem_read, mem_writev, mem_want, mem_shutdown, mem_close};
    *m = (mem_stream){.base = {.v = &v}, .loop = loop, .in = in, .piece = piece};
    m->tell.cb = mem_tell;
    tci_buf_init(&m->out, TCI_BUF_MAX);
}

/* Until nothing moves any more. */
static inline void mem_settle(mem_stream *m)
{
    for (int quiet = 0; quiet < 6 && !m->is_closed;) {
        size_t at = m->at, len = m->out.len;
        tci_loop_turn(m->loop, 0);
        quiet = at == m->at && len == m->out.len ? quiet + 1 : 0;
    }
}

/* No more bytes, and that is the end. */
static inline void mem_end(mem_stream *m)
{
    m->may_end = true;
    if (!m->is_closed && m->want != 0)
        tci_loop_later(m->loop, &m->tell);
    mem_settle(m);
}

#endif
