/* SPDX-License-Identifier: Apache-2.0
 *
 * The writing side of one HTTP connection, used by server and client. Leaves waiting for
 * writability and telling the owner to them. Loop thread. Invariant: buf goes out before the parts,
 * and no memory but buf's is allocated per piece. */
#include "net/http_out_int.h"
#include "base/num.h"

enum { BUF_MAX = 256 * 1024, BUF_KEPT = 4096 };

void tci_http_out_init(tci_http_out *o)
{
    memset(o, 0, sizeof *o);
    tci_buf_init(&o->buf, BUF_MAX);
    tci_buf_init(&o->own, TCI_BUF_MAX);
}

void tci_http_out_done(tci_http_out *o)
{
    tci_buf_done(&o->buf);
    tci_buf_done(&o->own);
}

bool tci_http_parts_total(const tci_iovec *parts, size_t nparts, uint64_t *ret_total)
{
    uint64_t total = 0;
    for (size_t i = 0; i < nparts; i++)
        if (!tci_add_u64(total, parts[i].len, &total))
            return false;
    *ret_total = total;
    return true;
}

static void add_part(tci_http_out *o, const void *ptr, size_t len)
{
    TC_ASSERT(o->nparts < TCI_ARRAY_LEN(o->parts));
    if (len > 0)
        o->parts[o->nparts++] = (tci_iovec){ptr, len};
}

void tci_http_out_piece(tci_http_out *o, const tci_iovec *parts, size_t nparts, uint64_t total,
                        bool is_chunk)
{
    TC_ASSERT(o->nparts == 0 && nparts <= TCI_HTTP_OUT_PARTS_MAX && total > 0);
    if (is_chunk) {
        char head[TCI_HTTP1_CHUNK_HEAD_MAX];
        tci_buf_append(&o->buf, head, tci_http1_put_chunk_head(head, total));
    }
    for (size_t i = 0; i < nparts; i++)
        add_part(o, parts[i].ptr, parts[i].len);
    if (is_chunk)
        add_part(o, TCI_HTTP1_CHUNK_TAIL.ptr, TCI_HTTP1_CHUNK_TAIL.len);
}

void tci_http_out_body(tci_http_out *o, tc_str body)
{
    TC_ASSERT(o->nparts == 0);
    add_part(o, body.ptr, body.len);
}

int tci_http_out_keep(tci_http_out *o, tc_err *err)
{
    if (o->part_at == o->nparts)
        return 0;
    tci_buf_clear(&o->own);
    for (size_t i = o->part_at; i < o->nparts; i++)
        tci_buf_append(&o->own, o->parts[i].ptr, o->parts[i].len);
    if (!tci_buf_ok(&o->own))
        return tci_buf_error(&o->own, err);
    o->part_at = 0;
    o->nparts = 1;
    o->parts[0] = (tci_iovec){o->own.ptr, o->own.len};
    return 0;
}

static void advance(tci_http_out *o, size_t n)
{
    size_t of_buf = tci_min_size(n, o->buf.len - o->buf_at);
    o->buf_at += of_buf;
    n -= of_buf;
    while (n > 0) {
        tci_iovec *part = &o->parts[o->part_at];
        size_t k = tci_min_size(n, part->len);
        part->ptr = (const char *)part->ptr + k;
        part->len -= k;
        n -= k;
        if (part->len == 0)
            o->part_at++;
    }
}

static void reset(tci_http_out *o)
{
    tci_buf_clear(&o->buf);
    tci_buf_trim(&o->buf, BUF_KEPT);
    o->buf_at = o->nparts = o->part_at = 0;
    tci_buf_done(&o->own); /* gives the memory back; usable again */
}

int tci_http_out_write(tci_http_out *o, tci_stream *s, bool *ret_wrote, tc_err *err)
{
    bool wrote = false;
    if (!tci_buf_ok(&o->buf))
        return tci_buf_error(&o->buf, err);
    while (!tci_http_out_is_empty(o)) {
        tci_iovec v[TCI_HTTP_OUT_PARTS_MAX + 2];
        size_t nv = 0, n = 0, offered = 0;
        if (o->buf_at < o->buf.len)
            v[nv++] = (tci_iovec){o->buf.ptr + o->buf_at, o->buf.len - o->buf_at};
        for (size_t i = o->part_at; i < o->nparts; i++)
            v[nv++] = o->parts[i];
        for (size_t i = 0; i < nv; i++)
            offered += v[i].len;
        int rc = tci_stream_writev(s, v, nv, &n, err);
        if (rc < 0)
            return rc;
        TC_ASSERT(n <= offered);
        advance(o, n);
        o->nwritten += n;
        wrote |= n > 0;
        if (n < offered)
            break;
    }
    if (tci_http_out_is_empty(o))
        reset(o);
    *ret_wrote = wrote;
    return 0;
}
