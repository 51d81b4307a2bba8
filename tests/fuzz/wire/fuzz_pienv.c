/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream of pi-env from anybody: the sync line is found at the same place however the bytes are
 * cut, and heads that are believed are written back as they came. */
#include "wire/pienv.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t noise(tc_str in, size_t piece)
{
    tci_pienv_sync s;
    tc_err err;
    size_t taken = 0;
    TC_ASSERT(tci_pienv_sync_init(&s, TC_STR("aPI-ENV a"), &err) == 0);
    for (size_t at = 0; at < in.len && !s.is_found; at += piece)
        taken += tci_pienv_sync_feed(&s, tci_str_sub(in, at, piece));
    TC_ASSERT(!s.is_found || (taken >= s.len && taken <= in.len &&
                              memcmp(in.ptr + taken - s.len, s.marker, s.len) == 0));
    return s.is_found ? taken : SIZE_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_str in = tci_str_of(data, size);
    size_t whole = noise(in, size + 1);
    TC_ASSERT(whole == noise(in, 1) && whole == noise(in, 7));
    for (size_t at = whole == SIZE_MAX ? 0 : whole; in.len - at >= TCI_PIENV_HEAD_BYTES;) {
        tci_pienv_head head;
        char out[TCI_PIENV_HEAD_BYTES];
        tc_err err;
        if (tci_pienv_head_read(in.ptr + at, &head, &err) < 0)
            break;
        TC_ASSERT(tci_pienv_head_put(&head, out, &err) == 0);
        TC_ASSERT(memcmp(out, in.ptr + at, sizeof out) == 0);
        size_t body = (size_t)head.json_len + head.payload_len;
        at += sizeof out;
        if (body > in.len - at)
            break;
        at += body;
    }
    return 0;
}
