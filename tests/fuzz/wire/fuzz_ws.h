/* SPDX-License-Identifier: Apache-2.0
 *
 * What both WebSocket targets share: the same bytes whole and in pieces must say the same. The first byte
 * tells the sizes of the pieces, the rest is the stream. */
#ifndef TC_FUZZ_WS_H
#define TC_FUZZ_WS_H

#include "wire/ws.h"

#include <stdlib.h>

typedef struct tally {
    uint64_t nframes, nmessages, nbytes, sum;
    unsigned violation, close_code;
} tally;

static inline void fuzz_ws_add(tally *t, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        t->sum = t->sum * 31 + (uint8_t)bytes[i];
    t->nbytes += len;
}

static inline void fuzz_ws_piece(tci_ws_reader *r, tally *t, char *piece, size_t len)
{
    size_t at = 0;
    while (at < len && t->violation == 0) {
        size_t used = 0;
        tci_ws_event event;
        tc_err err;
        if (r->frame_left > 0) {
            size_t n = r->frame_left < len - at ? (size_t)r->frame_left : len - at;
            tci_ws_payload(r, piece + at, n);
            fuzz_ws_add(t, piece + at, n);
            at += n;
            t->nmessages += r->frame_left == 0 && r->is_last;
            continue;
        }
        if (tci_ws_next(r, tci_str_of(piece + at, len - at), &used, &event, &err) < 0) {
            t->violation = r->violation;
            if (r->violation == 0 || err.msg[0] == '\0')
                abort();
            return;
        }
        if (used > len - at || (used == 0 && event == TCI_WS_MORE))
            abort();
        at += used;
        if (event == TCI_WS_FRAME) {
            t->nframes++;
            t->nmessages += r->frame_left == 0 && r->is_last;
            if (r->message_len > r->max[r->kind])
                abort();
        } else if (event != TCI_WS_MORE) {
            fuzz_ws_add(t, r->control, r->control_len);
        }
        if (event == TCI_WS_CLOSE)
            t->close_code = r->close_code;
    }
}

static inline tally fuzz_ws_run(tci_ws_role role, const uint8_t *data, size_t size, size_t step)
{
    tally t = {0};
    tci_ws_reader r;
    char *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    tci_ws_reader_init(&r, role, 4096, 100000);
    for (size_t at = 0; at < size; at += step)
        fuzz_ws_piece(&r, &t, copy + at, step < size - at ? step : size - at);
    free(copy);
    return t;
}

static inline void fuzz_ws(tci_ws_role role, const uint8_t *data, size_t size)
{
    if (size == 0)
        return;
    size_t step = (size_t)data[0] + 1;
    tally whole = fuzz_ws_run(role, data + 1, size - 1, size);
    tally cut = fuzz_ws_run(role, data + 1, size - 1, step);
    if (memcmp(&whole, &cut, sizeof whole) != 0)
        abort();
}

#endif
