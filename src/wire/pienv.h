/* SPDX-License-Identifier: Apache-2.0
 *
 * pi-env's bytes: the sync line, and frames of 13 bytes of head, JSON, and a raw payload. No
 * sockets, no clock; any thread. */
#ifndef TCI_WIRE_PIENV_H
#define TCI_WIRE_PIENV_H

#include "base/str.h"
#include <telechir/error.h>

enum {
    TCI_PIENV_HEAD_BYTES = 13,
    TCI_PIENV_LENGTH_MIN = 9, /* of the first field, which counts what follows it */
    TCI_PIENV_LENGTH_MAX = 16 * 1024 * 1024,
    TCI_PIENV_PREAD_MAX = TCI_PIENV_LENGTH_MAX - 64 * 1024,
    TCI_PIENV_WRITE_CHUNK = 512 * 1024,
    TCI_PIENV_UNSYNCED_MAX = 1024 * 1024,
    TCI_PIENV_TUNNEL_WINDOW = 1024 * 1024
};

/* Any other number is a frame to be skipped. */
typedef enum tci_pienv_type {
    TCI_PIENV_REQUEST = 1,
    TCI_PIENV_RESULT = 2,
    TCI_PIENV_ERROR = 3,
    TCI_PIENV_EVENT = 4,
    TCI_PIENV_CANCEL = 5,
    TCI_PIENV_PING = 6,
    TCI_PIENV_TUNNEL = 64 /* only between our own two ends */
} tci_pienv_type;

typedef struct tci_pienv_head {
    uint8_t type;
    uint32_t id;
    uint32_t json_len, payload_len; /* bytes; both follow the head in this order */
} tci_pienv_head;

/* Read a head. PROTOCOL when its lengths are out of range or contradict each other: the stream
 * cannot be followed any further. */
int tci_pienv_head_read(const char bytes[TCI_PIENV_HEAD_BYTES], tci_pienv_head *ret_head,
                        tc_err *err) TC_CHECKED;
/* TOO_BIG when the frame would be longer than the protocol allows; nothing is written then. */
int tci_pienv_head_put(const tci_pienv_head *head, char out[TCI_PIENV_HEAD_BYTES],
                       tc_err *err) TC_CHECKED;

/* Looks for "PI-ENV <token>\n" in what a login shell and a daemon print. It need not start a line.
 * Zeroed, with marker set, it is at the start. */
enum { TCI_PIENV_MARKER_MAX = 160 };
typedef struct tci_pienv_sync {
    char marker[TCI_PIENV_MARKER_MAX];
    size_t len;     /* of the marker */
    size_t matched; /* bytes of it at the end of what came so far */
    bool is_found;
} tci_pienv_sync;

/* TOO_BIG for a token that is too long for marker. */
int tci_pienv_sync_init(tci_pienv_sync *s, tc_str token, tc_err *err) TC_CHECKED;
/* Feed bytes; returns how many of them are noise or marker. When is_found is set afterwards, the
 * rest belongs to the first frame; otherwise all of them were taken. The bytes of a marker that did
 * not come to its end are noise, too: what is shown of the noise is up to the caller, who has the
 * bytes. No memory is taken. */
size_t tci_pienv_sync_feed(tci_pienv_sync *s, tc_str bytes);

#endif
