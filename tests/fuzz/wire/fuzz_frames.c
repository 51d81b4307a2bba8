/* SPDX-License-Identifier: Apache-2.0
 *
 * Content-Length frames from anybody. The same bytes are read whole and in pieces chosen by the
 * first byte; both readings must say the same. */
#include "base/hash.h"
#include "wire/frames.h"
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY_MAX = 1 << 16 };

/* A digest of all frames and of how it ended. */
static uint64_t read_all(tc_str in, size_t each)
{
    tci_frames f;
    tc_err err;
    uint64_t sum = 0;
    size_t end = 0; /* bytes that have arrived */
    tci_frames_init(&f, BODY_MAX, BODY_MAX);
    for (size_t at = 0;;) {
        size_t used = 0;
        tci_frames_event event = TCI_FRAMES_MORE;
        tci_frame frame;
        if (tci_frames_next(&f, tci_str_sub(in, at, end - at), &used, &event, &frame, &err) < 0)
            return tci_hash64(err.msg, strlen(err.msg), sum);
        TC_ASSERT(used <= end - at);
        at += used;
        if (event == TCI_FRAMES_FRAME)
            sum = tci_hash64(frame.body.ptr, frame.body.len, sum + (uint64_t)frame.kind + 1);
        else if (end == in.len)
            break;
        else
            end = end + each < in.len ? end + each : in.len;
    }
    if (tci_frames_eof(&f, &err) < 0)
        sum = tci_hash64(err.msg, strlen(err.msg), sum);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    tc_str in = tci_str_of(data + 1, size - 1);
    uint64_t whole = read_all(in, in.len + 1);
    TC_ASSERT(whole == read_all(in, (size_t)data[0] % 32 + 1));
    TC_ASSERT(whole == read_all(in, 1));
    return 0;
}
