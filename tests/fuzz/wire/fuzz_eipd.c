/* SPDX-License-Identifier: Apache-2.0
 *
 * EIPD frames from anybody: what decodes passes the sender's check and encodes to the same bytes;
 * the head alone says the same as the whole. */
#include "wire/eipd.h"
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_err err;
    tci_eipd frame, head;
    size_t need = 0;
    static char out[TCI_EIPD_FIXED_BYTES + 2 * TCI_EIPD_ID_MAX];
    tc_str in = tci_str_of(data, size);
    bool is_valid = tci_eipd_decode(in, &frame, &err) == 0;
    size_t have = size < 24 ? size : 24;
    while (tci_eipd_decode_head(tci_str_sub(in, 0, have), size, &head, &need, &err) == 0) {
        if (need == 0)
            break;
        TC_ASSERT(need > have && need <= 24 + 2 * TCI_EIPD_ID_MAX);
        if (need > size)
            break;
        have = need;
    }
    if (!is_valid)
        return 0;
    TC_ASSERT(need == 0 && head.kind == frame.kind && head.payload.len == frame.payload.len);
    TC_ASSERT(tci_eipd_check(&frame, &err) == 0);
    TC_ASSERT(tci_eipd_frame_len(&frame) == size);
    size_t n = tci_eipd_put_head(&frame, out);
    TC_ASSERT(memcmp(out, data, n) == 0 && frame.payload.ptr == in.ptr + n);
    return 0;
}
