/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream of frames, control and data, through the stdio carrier in memory. The first byte says in which
 * pieces it arrives and how fast the answers go. However it ends, what was sent are whole frames. */
#include "daemon/carrier/carrier_stdio.h"
#include "fuzz_device.h"
#include "wire/eipd.h"
#include "wire/frames.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct memory_stream {
    tci_stream base;
    const char *in;
    size_t in_len, piece, out_piece;
    unsigned wanted;
    tci_frames frames;
    char *out;
    size_t out_len, out_cap;
    bool has_ended, is_closed;
} memory_stream;

static int read_some(tci_stream *base, void *buf, size_t cap, size_t *ret_n, tc_err *err)
{
    memory_stream *m = TCI_CONTAINER(base, memory_stream, base);
    if (m->in_len == 0)
        return tc_err_set(err, TC_E_END, "end of input");
    size_t n = m->in_len < m->piece ? m->in_len : m->piece;
    n = n < cap ? n : cap;
    memcpy(buf, m->in, n);
    m->in += n;
    m->in_len -= n;
    *ret_n = n;
    return 0;
}

static void check_frame(const tci_frame *f)
{
    tc_err err;
    tci_eipd e;
    if (f->kind == TCI_FRAME_DATA && tci_eipd_decode(f->body, &e, &err) < 0)
        abort();
    if (f->kind == TCI_FRAME_CONTROL && (f->body.len == 0 || f->body.ptr[f->body.len - 1] != '}'))
        abort();
}

static void check_output(memory_stream *m)
{
    tc_err err;
    size_t at = 0, used;
    tci_frames_event event = TCI_FRAMES_FRAME;
    while (at < m->out_len && event == TCI_FRAMES_FRAME) {
        tci_frame f;
        if (tci_frames_next(&m->frames, tci_str_of(m->out + at, m->out_len - at), &used, &event, &f,
                            &err) < 0)
            abort();
        at += used;
        if (event == TCI_FRAMES_FRAME)
            check_frame(&f);
    }
    if (at > 0)
        memmove(m->out, m->out + at, m->out_len - at);
    m->out_len -= at;
}

static int write_some(tci_stream *base, const tci_iovec *v, size_t nv, size_t *ret_n, tc_err *err)
{
    memory_stream *m = TCI_CONTAINER(base, memory_stream, base);
    TCI_UNUSED(err);
    *ret_n = 0;
    for (size_t i = 0; i < nv && *ret_n < m->out_piece; i++) {
        size_t n = v[i].len < m->out_piece - *ret_n ? v[i].len : m->out_piece - *ret_n;
        if (m->out_len + n > m->out_cap) {
            m->out_cap = 2 * (m->out_len + n);
            m->out = realloc(m->out, m->out_cap);
            if (m->out == NULL)
                abort();
        }
        memcpy(m->out + m->out_len, v[i].ptr, n);
        m->out_len += n;
        *ret_n += n;
    }
    return 0;
}

static int want(tci_stream *base, unsigned events, tc_err *err)
{
    TCI_UNUSED(err);
    TCI_CONTAINER(base, memory_stream, base)->wanted = events;
    return 0;
}

static int shutdown_write(tci_stream *base, tc_err *err)
{
    TCI_UNUSED(base);
    TCI_UNUSED(err);
    return 0;
}

static void close_stream(tci_stream *base)
{
    TCI_CONTAINER(base, memory_stream, base)->is_closed = true;
}

static const tci_stream_vtable vtable = {read_some, write_some, want, shutdown_write, close_stream};

static void on_end(void *user, int status, tc_str message)
{
    memory_stream *m = user;
    m->has_ended = true;
    if ((status != 0) != (message.len > 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t pieces[] = {1, 7, 64, 1000, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
    tc_err err;
    tci_stdio *stdio;
    size_t len;
    if (size == 0)
        return 0;
    fuzz_device *f = fuzz_device_get();
    char *text = fuzz_device_localize(f, data + 1, size - 1, &len);
    memory_stream m = {.base = {.v = &vtable},
                       .in = text,
                       .in_len = len,
                       .piece = pieces[data[0] & 7],
                       .out_piece = pieces[3 + (data[0] >> 3 & 3)]};
    tci_frames_init(&m.frames, UINT64_C(1) << 30, UINT64_C(1) << 30);
    if (tci_stdio_serve(f->device, &m.base, on_end, &m, &stdio, &err) < 0)
        abort();
    while (!m.has_ended) {
        if (m.wanted != 0 && !m.is_closed)
            m.base.on_ready(&m.base, m.wanted);
        tci_loop_turn(f->loop, m.wanted == 0 ? 2 : 0);
        check_output(&m);
    }
    fuzz_device_settle(f);
    check_output(&m);
    if (m.out_len > 0 || tci_frames_eof(&m.frames, &err) < 0)
        abort();
    free(m.out);
    free(text);
    return 0;
}
