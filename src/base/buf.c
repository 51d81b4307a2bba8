/* SPDX-License-Identifier: Apache-2.0
 *
 * Owned bytes that grow by doubling up to a maximum. Leaves what the bytes mean to others. One
 * thread at a time. Invariant: len <= cap, len <= max, and after a failure nothing changes until
 * clear: what was appended before stays readable. */
#include "base/buf.h"
#include "base/num.h"
#include <stdarg.h>
#include <stdio.h>

enum { CAP_FIRST = 128 };

void tci_buf_init(tci_buf *b, size_t max_bytes)
{
    *b = (tci_buf){.max = max_bytes};
}

void tci_buf_done(tci_buf *b)
{
    tci_mem_free(b->ptr);
    *b = (tci_buf){.max = b->max};
}

void tci_buf_clear(tci_buf *b)
{
    b->len = 0;
    b->failed = TC_OK;
}

void tci_buf_trim(tci_buf *b, size_t keep_bytes)
{
    if (b->len > 0 || b->cap <= keep_bytes)
        return;
    tci_mem_free(b->ptr);
    b->ptr = NULL;
    b->cap = 0;
}

int tci_buf_error(const tci_buf *b, tc_err *err)
{
    if (b->failed == TC_OK)
        return 0;
    if (b->failed == TC_E_TOO_BIG)
        return tc_err_set(err, TC_E_TOO_BIG, "more than %zu bytes", b->max);
    return tci_err_no_memory(err);
}

/* Makes cap - len >= len bytes. */
static bool grow(tci_buf *b, size_t len)
{
    if (b->failed != TC_OK)
        return false;
    if (len > b->max - b->len) {
        b->failed = TC_E_TOO_BIG;
        return false;
    }
    size_t need = b->len + len;
    size_t cap = b->cap < CAP_FIRST ? CAP_FIRST : b->cap;
    while (cap < need) /* ends: need is at most max, and doubling past it is cut below */
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    if (cap > b->max)
        cap = b->max;
    char *ptr = tci_mem_resize(b->ptr, cap);
    if (ptr == NULL) {
        b->failed = TC_E_NO_MEMORY;
        return false;
    }
    b->ptr = ptr;
    b->cap = cap;
    return true;
}

static inline char *room(tci_buf *b, size_t len)
{
    if (TCI_UNLIKELY(b->failed != TC_OK))
        return NULL;
    if (TCI_UNLIKELY(len > b->cap - b->len || b->ptr == NULL) && !grow(b, len))
        return NULL;
    return b->ptr + b->len;
}

char *tci_buf_reserve(tci_buf *b, size_t len)
{
    return room(b, len);
}

void tci_buf_commit(tci_buf *b, size_t len)
{
    TC_ASSERT(len <= b->cap - b->len);
    b->len += len;
}

static inline void append(tci_buf *b, const void *bytes, size_t len)
{
    if (len == 0)
        return;
    char *at = room(b, len);
    if (at == NULL)
        return;
    memcpy(at, bytes, len);
    b->len += len;
}

void tci_buf_append(tci_buf *b, const void *bytes, size_t len)
{
    append(b, bytes, len);
}

void tci_buf_append_str(tci_buf *b, tc_str s)
{
    append(b, s.ptr, s.len);
}

void tci_buf_append_byte(tci_buf *b, char c)
{
    char *at = room(b, 1);
    if (at == NULL)
        return;
    *at = c;
    b->len++;
}

void tci_buf_append_u64(tci_buf *b, uint64_t value)
{
    char text[TCI_NUM_TEXT_MAX];
    size_t at = sizeof text;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    append(b, text + at, sizeof text - at);
}

void tci_buf_append_i64(tci_buf *b, int64_t value)
{
    if (value < 0) {
        tci_buf_append_byte(b, '-');
        tci_buf_append_u64(b, 0 - (uint64_t)value);
    } else {
        tci_buf_append_u64(b, (uint64_t)value);
    }
}

void tci_buf_append_be(tci_buf *b, uint64_t value, unsigned nbytes)
{
    TC_ASSERT(nbytes >= 1 && nbytes <= 8);
    char *at = tci_buf_reserve(b, nbytes);
    if (at == NULL)
        return;
    for (unsigned i = 0; i < nbytes; i++)
        at[i] = (char)(unsigned char)(value >> (8 * (nbytes - 1 - i)));
    b->len += nbytes;
}

void tci_buf_printf(tci_buf *b, const char *fmt, ...)
{
    if (b->failed != TC_OK)
        return;
    /* vsnprintf ends with a NUL, which may be one byte more than max allows. */
    char small[512], *text = small;
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    TC_ASSERT(len >= 0); /* only a bad format of ours gets here */
    if ((size_t)len >= sizeof small) {
        if ((text = tci_mem_resize(NULL, (size_t)len + 1)) == NULL) {
            b->failed = TC_E_NO_MEMORY;
            return;
        }
        va_start(args, fmt);
        (void)vsnprintf(text, (size_t)len + 1, fmt, args); /* measured above */
        va_end(args);
    }
    tci_buf_append(b, text, (size_t)len);
    if (text != small)
        tci_mem_free(text);
}

void tci_buf_consume(tci_buf *b, size_t n)
{
    TC_ASSERT(n <= b->len);
    if (n == 0)
        return;
    b->len -= n;
    if (b->len > 0)
        memmove(b->ptr, b->ptr + n, b->len);
}

void tci_buf_truncate(tci_buf *b, size_t len)
{
    TC_ASSERT(len <= b->len);
    b->len = len;
}
