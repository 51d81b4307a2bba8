/* SPDX-License-Identifier: Apache-2.0
 *
 * The writing side of one HTTP connection: a small buffer of ours in front, then parts that lie in
 * somebody else's memory, one vectored write for all. Private to net. Loop thread only. */
#ifndef TCI_NET_HTTP_OUT_INT_H
#define TCI_NET_HTTP_OUT_INT_H

#include "base/buf.h"
#include "net/stream.h"
#include "wire/http1.h"

enum { TCI_HTTP_OUT_PARTS_MAX = 8, TCI_HTTP_OUT_TURN_MAX = 1024 * 1024 };

typedef struct tci_http_out {
    tci_buf buf; /* heads, chunk heads, small bodies */
    size_t buf_at;
    tci_iovec parts[TCI_HTTP_OUT_PARTS_MAX + 1]; /* and a chunk's tail */
    size_t nparts, part_at;
    tci_buf own; /* a body taken over; one of the parts points into it */
    uint64_t nwritten;
} tci_http_out;

void tci_http_out_init(tci_http_out *o);
void tci_http_out_done(tci_http_out *o);
static inline bool tci_http_out_is_empty(const tci_http_out *o)
{
    return o->buf_at == o->buf.len && o->part_at == o->nparts;
}

/* Append one piece behind buf: as a chunk (head into buf, tail behind) or as it is. Nothing but buf
 * is pending; total is the parts' length, over 0. */
void tci_http_out_piece(tci_http_out *o, const tci_iovec *parts, size_t nparts, uint64_t total,
                        bool is_chunk);
/* A whole body behind buf: borrowed for now, see tci_http_out_keep. */
void tci_http_out_body(tci_http_out *o, tc_str body);
/* Copy what is left of the parts, whose memory goes away. */
int tci_http_out_keep(tci_http_out *o, tc_err *err) TC_CHECKED;

/* Write as much as s takes. *ret_wrote: something went out. */
int tci_http_out_write(tci_http_out *o, tci_stream *s, bool *ret_wrote, tc_err *err) TC_CHECKED;

/* Length of all parts; false on overflow. */
bool tci_http_parts_total(const tci_iovec *parts, size_t nparts, uint64_t *ret_total);

#endif
