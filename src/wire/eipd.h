/* SPDX-License-Identifier: Apache-2.0
 *
 * The EIPD data frame: a 24-byte big-endian header, session id, handle, payload. Strict both ways,
 * borrowed views, no allocation. Any thread. Source: EIP section 3.1. */
#ifndef TCI_WIRE_EIPD_H
#define TCI_WIRE_EIPD_H

#include "base/str.h"

enum {
    TCI_EIPD_FIXED_BYTES = 24,
    TCI_EIPD_ID_MAX = 65535 /* session id, handle */
};

typedef enum tci_eipd_kind {
    TCI_EIPD_ATTACH = 1,
    TCI_EIPD_ATTACHED = 2,
    TCI_EIPD_CHUNK = 3,
    TCI_EIPD_END = 4,
    TCI_EIPD_END_ACK = 5,
    TCI_EIPD_RESET = 6,
    TCI_EIPD_CREDIT = 7
} tci_eipd_kind;

typedef enum tci_eipd_status {
    TCI_EIPD_STATUS_NONE = 0, /* every kind but RESET */
    TCI_EIPD_STATUS_PROTOCOL = 1,
    TCI_EIPD_STATUS_DENIED = 2,
    TCI_EIPD_STATUS_EXPIRED = 3,
    TCI_EIPD_STATUS_SOURCE = 4,
    TCI_EIPD_STATUS_LIMIT = 5,
    TCI_EIPD_STATUS_CANCELLED = 6,
    TCI_EIPD_STATUS_INTERNAL = 7
} tci_eipd_status;

typedef struct tci_eipd {
    tci_eipd_kind kind;
    tci_eipd_status status;
    uint64_t offset;
    tc_str session; /* 1..65535 bytes of UTF-8 */
    tc_str handle;  /* the same */
    tc_str payload; /* CHUNK: 1 byte or more; else empty */
} tci_eipd;

/* One frame, whole. Views point into frame. Errors: PROTOCOL "invalid EIP data frame". */
int tci_eipd_decode(tc_str frame, tci_eipd *ret_data, tc_err *err) TC_CHECKED;

/* The front of a frame whose payload is still to come.
 *
 *   start      the first bytes of the frame
 *   frame_len  length of the whole frame
 *   ret_data   everything but payload.ptr (NULL); payload.len is what the header announces
 *   ret_need   0: *ret_data is set, and the payload begins tci_eipd_head_len(ret_data) bytes into
 * the frame; else *ret_data is untouched: call again with at least so many first bytes
 *
 * Errors: PROTOCOL, as soon as the bytes cannot become a valid frame of that length. */
int tci_eipd_decode_head(tc_str start, uint64_t frame_len, tci_eipd *ret_data, size_t *ret_need,
                         tc_err *err) TC_CHECKED;

/* May this be sent: the rules that decoding applies. Errors: INVALID. */
int tci_eipd_check(const tci_eipd *data, tc_err *err) TC_CHECKED;

/* Bytes in front of the payload; bytes in all. */
static inline size_t tci_eipd_head_len(const tci_eipd *data)
{
    return TCI_EIPD_FIXED_BYTES + data->session.len + data->handle.len;
}
static inline uint64_t tci_eipd_frame_len(const tci_eipd *data)
{
    return (uint64_t)tci_eipd_head_len(data) + data->payload.len;
}

/* Write header, session id and handle: exactly tci_eipd_head_len bytes, to be followed by the
 * payload (payload.ptr is not looked at). data passes tci_eipd_check. Returns the bytes written. */
size_t tci_eipd_put_head(const tci_eipd *data, char *out);

/* Static text: "CHUNK", "protocol"; "?" for values outside the enums. */
const char *tci_eipd_kind_name(tci_eipd_kind kind);
const char *tci_eipd_status_name(tci_eipd_status status);

#endif
