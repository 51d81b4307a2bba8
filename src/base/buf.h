/* SPDX-License-Identifier: Apache-2.0
 *
 * Owned, growing bytes with a maximum. Appends remember failure: append freely, ask
 * tci_buf_error once at the end. */
#ifndef TCI_BUF_H
#define TCI_BUF_H

#include "base/mem.h"
#include "base/str.h"

typedef struct tci_buf {
    char *ptr;
    size_t len, cap, max;
    tc_code failed; /* TC_OK, TC_E_NO_MEMORY or TC_E_TOO_BIG */
} tci_buf;

#define TCI_BUF_MAX ((size_t)1 << 40)

void tci_buf_init(tci_buf *b, size_t max_bytes); /* no allocation */
void tci_buf_done(tci_buf *b);
void tci_buf_clear(tci_buf *b); /* keeps capacity; forgets failure */
/* Give memory back when more than keep_bytes are held and the buffer is empty. */
void tci_buf_trim(tci_buf *b, size_t keep_bytes);

static inline bool tci_buf_ok(const tci_buf *b)
{
    return b->failed == TC_OK;
}
static inline tc_str tci_buf_str(const tci_buf *b)
{
    return tci_str_of(b->ptr, b->len);
}
/* 0, or err set to what went wrong. */
int tci_buf_error(const tci_buf *b, tc_err *err) TC_CHECKED;

void tci_buf_append(tci_buf *b, const void *bytes, size_t len);
void tci_buf_append_str(tci_buf *b, tc_str s);
void tci_buf_append_byte(tci_buf *b, char c);
void tci_buf_append_u64(tci_buf *b, uint64_t value); /* decimal */
void tci_buf_append_i64(tci_buf *b, int64_t value);
void tci_buf_append_be(tci_buf *b, uint64_t value, unsigned nbytes); /* big-endian, 1..8 bytes */
void tci_buf_printf(tci_buf *b, const char *fmt, ...) TC_PRINTF(2, 3);

/* Room for len more bytes at the end; NULL after a failure. Commit says how many were used. */
char *tci_buf_reserve(tci_buf *b, size_t len);
void tci_buf_commit(tci_buf *b, size_t len);
/* Drop the first n bytes (moves the rest). */
void tci_buf_consume(tci_buf *b, size_t n);
/* Shorten to len bytes. */
void tci_buf_truncate(tci_buf *b, size_t len);

#endif
