/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 bytes from anybody. The same bytes are read whole and in pieces chosen by the first
 * byte; both readings must say the same. */
#ifndef TC_FUZZ_HTTP1_H
#define TC_FUZZ_HTTP1_H

#include "base/hash.h"
#include "wire/http1.h"
#include <stdint.h>
#include <stdlib.h>

static uint64_t fuzz_head(const tci_http_head *head, uint64_t sum)
{
    sum = tci_hash64(head->method.ptr, head->method.len, sum + head->status);
    sum = tci_hash64(head->target.ptr, head->target.len, sum + head->minor);
    TC_ASSERT(head->nheaders <= TCI_HTTP1_HEADERS_MAX);
    for (size_t i = 0; i < head->nheaders; i++) {
        TC_ASSERT(tci_http1_is_token(head->headers[i].name));
        sum = tci_hash64(head->headers[i].name.ptr, head->headers[i].name.len, sum);
        sum = tci_hash64(head->headers[i].value.ptr, head->headers[i].value.len, sum);
    }
    return sum + head->content_length + (uint64_t)head->keeps_alive * 2 + head->has_body;
}

static uint64_t fuzz_read(tci_http1_type type, unsigned flags, tc_str in, size_t each)
{
    tci_http1 *h = NULL;
    tc_err err;
    uint64_t sum = 0, nbody = 0;
    size_t end = 0;
    if (tci_http1_new(type, &h, &err) < 0)
        abort();
    tci_http1_set_flags(h, flags);
    for (size_t at = 0;;) {
        size_t used = 0;
        tci_http1_event event = TCI_HTTP1_MORE;
        tc_str rest = tci_str_sub(in, at, end - at), body = {NULL, 0};
        int rc = tci_http1_next(h, rest, &used, &event, &body, &err);
        if (rc < 0) {
            sum += (uint64_t)-rc << 32;
            break;
        }
        TC_ASSERT(used <= rest.len);
        at += used;
        if (event == TCI_HTTP1_HEAD)
            sum = fuzz_head(tci_http1_head(h), sum);
        if (event == TCI_HTTP1_BODY) {
            TC_ASSERT(body.len > 0 && body.ptr >= rest.ptr &&
                      body.ptr + body.len <= rest.ptr + used);
            for (size_t i = 0; i < body.len; i++)
                sum = sum * 31 + (uint8_t)body.ptr[i];
            nbody += body.len;
        }
        if (event == TCI_HTTP1_END) {
            const tci_http_head *head = tci_http1_head(h);
            TC_ASSERT(!head->has_body || !head->has_length || nbody == head->content_length);
            nbody = 0;
            sum = sum * 31 + 7;
            tci_http1_set_flags(h, flags);
        }
        if (event == TCI_HTTP1_UPGRADED) {
            sum = sum * 31 + 11 + at;
            break;
        }
        if (event != TCI_HTTP1_MORE)
            continue;
        if (end == in.len) {
            bool is_end = false;
            sum = sum * 31 + (tci_http1_eof(h, &is_end, &err) == 0 ? 1 + (uint64_t)is_end : 0);
            break;
        }
        end = end + each < in.len ? end + each : in.len;
    }
    tci_http1_free(h);
    return sum;
}

static void fuzz_http1(tci_http1_type type, const uint8_t *data, size_t size)
{
    if (size < 2)
        return;
    tc_str in = tci_str_of(data + 2, size - 2);
    unsigned flags = data[1] & 7;
    uint64_t whole = fuzz_read(type, flags, in, in.len + 1);
    TC_ASSERT(whole == fuzz_read(type, flags, in, (size_t)data[0] % 64 + 1));
    TC_ASSERT(whole == fuzz_read(type, flags, in, 1));
}

#endif
