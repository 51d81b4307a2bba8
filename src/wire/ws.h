/* SPDX-License-Identifier: Apache-2.0
 *
 * WebSocket (RFC 6455) without extensions: frame headers, masking, the rules about fragments and
 * control frames, and both halves of the handshake. Payload bytes are not copied: they are unmasked
 * where they lie. No descriptor, no clock, no allocation but for the emitters' buffers. Any thread,
 * one at a time. */
#ifndef TCI_WIRE_WS_H
#define TCI_WIRE_WS_H

#include "wire/http1.h"

enum {
    TCI_WS_HEAD_MAX = 14,     /* bytes of a frame's header */
    TCI_WS_CONTROL_MAX = 125, /* payload of a control frame */
    TCI_WS_REASON_MAX = 123,
    TCI_WS_KEY_LEN = 24,   /* Sec-WebSocket-Key */
    TCI_WS_ACCEPT_LEN = 28 /* Sec-WebSocket-Accept */
};

/* Codes of a close frame (section 7.4.1). */
enum {
    TCI_WS_CODE_NORMAL = 1000,
    TCI_WS_CODE_AWAY = 1001,
    TCI_WS_CODE_PROTOCOL = 1002,
    TCI_WS_CODE_UNSUPPORTED = 1003,
    TCI_WS_CODE_NONE = 1005, /* never on the wire: a close frame without a code */
    TCI_WS_CODE_LOST = 1006, /* never on the wire: no close frame at all */
    TCI_WS_CODE_INVALID = 1007,
    TCI_WS_CODE_POLICY = 1008,
    TCI_WS_CODE_TOO_BIG = 1009,
    TCI_WS_CODE_INTERNAL = 1011
};

typedef enum tci_ws_role { TCI_WS_CLIENT, TCI_WS_SERVER } tci_ws_role;
typedef enum tci_ws_kind { TCI_WS_TEXT, TCI_WS_BINARY, TCI_WS_KINDS } tci_ws_kind;

typedef enum tci_ws_opcode {
    TCI_WS_OP_CONTINUE = 0,
    TCI_WS_OP_TEXT = 1,
    TCI_WS_OP_BINARY = 2,
    TCI_WS_OP_CLOSE = 8,
    TCI_WS_OP_PING = 9,
    TCI_WS_OP_PONG = 10
} tci_ws_opcode;

/* ---- reading ---- */

typedef enum tci_ws_event {
    TCI_WS_MORE,  /* all input is consumed */
    TCI_WS_FRAME, /* the header of a data frame: see the fields of the reader; payload follows */
    TCI_WS_PING,  /* control frames, whole: payload in control */
    TCI_WS_PONG,
    TCI_WS_CLOSE /* close_code and close_reason are set; nothing may follow */
} tci_ws_event;

/* The reader. Fields are the codec's; look at those of the first group after FRAME. */
typedef struct tci_ws_reader {
    tci_ws_kind kind;     /* of the message */
    bool is_last;         /* this frame ends the message */
    uint64_t frame_left;  /* payload bytes of this frame still to come */
    uint64_t message_len; /* bytes of the message up to the end of this frame */

    unsigned violation; /* after an error: the close code that says so */
    unsigned close_code;
    tc_str close_reason;
    char control[TCI_WS_CONTROL_MAX];
    uint8_t control_len;

    tci_ws_role role; /* ours */
    uint64_t max[TCI_WS_KINDS];
    bool in_message, in_control, is_closed;
    uint8_t control_need, control_op;
    bool is_masked;
    uint8_t mask[4];
    unsigned mask_at; /* which byte of the mask is next */
    char head[TCI_WS_HEAD_MAX];
    uint8_t head_len;
} tci_ws_reader;

/* max_text, max_binary: longest message of each kind, all its fragments together. */
void tci_ws_reader_init(tci_ws_reader *r, tci_ws_role role, uint64_t max_text, uint64_t max_binary);

/* Take the next thing from the front of in. Not while payload is due (frame_left over 0): take that
 * with tci_ws_payload. A message is complete when is_last and frame_left is 0; that may be at once.
 *
 * Errors: PROTOCOL (reserved bits or opcodes, a mask that must not or must be there, a length not
 * written in the shortest way, fragments out of order, a control frame that is long or in
 * fragments, an impossible close frame), TOO_BIG (a message over its limit: known from the header,
 * before any of its payload). r->violation is set; the connection is lost. */
int tci_ws_next(tci_ws_reader *r, tc_str in, size_t *ret_used, tci_ws_event *ret_event,
                tc_err *err) TC_CHECKED;

/* The next len payload bytes of the frame (at most frame_left), unmasked where they lie. */
void tci_ws_payload(tci_ws_reader *r, char *bytes, size_t len);

/* Between messages, and no part of a header was seen. */
static inline bool tci_ws_reader_is_between(const tci_ws_reader *r)
{
    return !r->in_message && !r->in_control && r->head_len == 0;
}

/* ---- writing ---- */

/* The header of a frame. mask: four bytes for a client's frame, NULL for a server's. Returns its
 * length. */
size_t tci_ws_put_head(char out[TCI_WS_HEAD_MAX], tci_ws_opcode op, bool is_last, uint64_t len,
                       const uint8_t mask[4]);
/* Mask or unmask; at: how many bytes of the payload came before. to may be from. */
void tci_ws_mask(char *to, const char *from, size_t len, const uint8_t mask[4], uint64_t at);
/* Payload of a close frame: code TCI_WS_CODE_NONE is an empty one; a longer reason is cut between
 * characters. Returns its length. */
size_t tci_ws_put_close(char out[TCI_WS_CONTROL_MAX], unsigned code, tc_str reason);
/* May stand in a close frame. */
bool tci_ws_code_is_valid(unsigned code);

/* ---- the handshake (section 4) ---- */

/* A key of 16 random bytes. */
void tci_ws_key(const uint8_t random[16], char out[TCI_WS_KEY_LEN]);
/* What the server answers to it. */
void tci_ws_accept_of(const char key[TCI_WS_KEY_LEN], char out[TCI_WS_ACCEPT_LEN]);

/* The client's side: is this the answer to a request with that key? Exactly the subprotocol that
 * was asked for, no extension. The status is looked at by the caller.
 * Errors: PROTOCOL; the message says which field. */
int tci_ws_check_answer(const tci_http_head *head, const char key[TCI_WS_KEY_LEN],
                        tc_str subprotocol, tc_err *err) TC_CHECKED;

/* The server's side: a valid request that offers the subprotocol? Extensions that it offers are not
 * taken up. *ret_status: what to answer after a failure: 400, 405 or, with the field
 * Sec-WebSocket-Version: 13, 426. Errors: PROTOCOL. */
int tci_ws_check_request(const tci_http_head *head, tc_str subprotocol,
                         char ret_key[TCI_WS_KEY_LEN], unsigned *ret_status,
                         tc_err *err) TC_CHECKED;
/* The answer 101, whole. Subprotocol: a token. */
void tci_ws_put_answer(tci_buf *b, const char key[TCI_WS_KEY_LEN], tc_str subprotocol);

#endif
