/* SPDX-License-Identifier: Apache-2.0
 *
 * Content-Length frames, as the stdio carrier speaks them: a header block, an empty line, a body.
 * The same grammar in both directions. Bytes in, frames out: no descriptor, no clock, no
 * allocation. A body is handed out where it lies when it is there as a whole; otherwise the caller
 * learns its length and reads the rest wherever it likes. Any thread, one at a time. Source: EIP
 * section 2.1. */
#ifndef TCI_WIRE_FRAMES_H
#define TCI_WIRE_FRAMES_H

#include "base/str.h"

enum {
    TCI_FRAMES_HEAD_MAX = 8192, /* header block with its final empty line */
    TCI_FRAMES_LINE_MAX = 4096, /* one header line with its line end */
    TCI_FRAMES_LINES_MAX = 32,
    TCI_FRAMES_PUT_MAX = 96 /* room that tci_frames_put_head needs */
};

typedef enum tci_frame_kind {
    TCI_FRAME_CONTROL, /* one JSON message, valid UTF-8 */
    TCI_FRAME_DATA     /* one EIPD frame, see wire/eipd.h */
} tci_frame_kind;

typedef enum tci_frames_event {
    TCI_FRAMES_MORE,  /* all input is consumed and the header is not complete */
    TCI_FRAMES_FRAME, /* a whole frame: its body lies in the input */
    TCI_FRAMES_PART   /* a whole header: the body is not all there yet */
} tci_frames_event;

/* A frame. The body is borrowed from whoever gave the bytes. */
typedef struct tci_frame {
    tci_frame_kind kind;
    tc_str body;
} tci_frame;

/* The reader. Fields are the codec's; read kind and body_len while has_head. */
typedef struct tci_frames {
    uint64_t max_control_bytes, max_data_bytes;
    bool has_head; /* the header is parsed, its body outstanding */
    tci_frame_kind kind;
    size_t body_len;
    size_t head_len;                /* bytes gathered of a header cut by the end of the input */
    size_t line_at;                 /* offset in the header of the line being read */
    size_t scan_at;                 /* how far it was searched */
    unsigned nlines;                /* complete lines so far */
    char head[TCI_FRAMES_HEAD_MAX]; /* only used for a cut header */
} tci_frames;

/* max_control_bytes, max_data_bytes: longest body accepted of each kind. No allocation. */
void tci_frames_init(tci_frames *f, uint64_t max_control_bytes, uint64_t max_data_bytes);

/* Take the next thing from the front of in.
 *
 *   ret_used   bytes of in that are done with: never give them again
 *   ret_event  MORE: *ret_used is in.len; come back with the bytes that follow.
 *              FRAME: *ret_frame is set, its body borrowed from in; *ret_used covers it.
 *              PART: header read, f->kind and f->body_len (over 0) known, *ret_used covers the
 *              header only, and what follows it in `in` is the start of the body. Then either call
 *              again with that start and more bytes behind it in one piece, until FRAME; or gather
 *              f->body_len bytes elsewhere and call tci_frames_body.
 *
 * Errors: PROTOCOL, with the text the reference daemon uses; the carrier is then lost. */
int tci_frames_next(tci_frames *f, tc_str in, size_t *ret_used, tci_frames_event *ret_event,
                    tci_frame *ret_frame, tc_err *err) TC_CHECKED;

/* After PART: the whole body, gathered by the caller, exactly f->body_len bytes. Ready for the next
 * header afterwards. Errors: PROTOCOL (a control body that is not UTF-8). */
int tci_frames_body(tci_frames *f, tc_str body, tci_frame *ret_frame, tc_err *err) TC_CHECKED;

/* The input ended. 0 at a frame boundary, otherwise PROTOCOL. */
int tci_frames_eof(const tci_frames *f, tc_err *err) TC_CHECKED;

/* Write the header of a frame with a body of body_len bytes, final empty line included. Returns its
 * length, at most TCI_FRAMES_PUT_MAX. */
size_t tci_frames_put_head(char out[TCI_FRAMES_PUT_MAX], tci_frame_kind kind, uint64_t body_len);

#endif
