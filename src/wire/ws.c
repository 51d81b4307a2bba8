/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of RFC 6455: headers in and out, the order they may come in, masks. Leaves the handshake to
 * ws_shake.c, the bytes of messages and whether text is UTF-8 to its caller. Any thread.
 *
 * Invariant: while frame_left is over 0 the next bytes are payload; a limit is checked when a header is
 * whole, so nobody needs memory for what will be refused. */
#include "wire/ws.h"

#include "base/num.h"
#include "base/utf8.h"

#include <inttypes.h>

enum {
    BIT_LAST = 0x80,
    BITS_RESERVED = 0x70,
    BITS_OP = 0x0f,
    BIT_MASK = 0x80,
    BITS_LEN = 0x7f,
    LEN_16 = 126,
    LEN_64 = 127
};

static uint64_t get_be(const char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | (uint8_t)p[i];
    return v;
}

static void put_be(char *p, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (char)(v >> 8 * (n - 1 - i) & 0xff);
}

/* ---- masks ---- */

void tci_ws_mask(char *to, const char *from, size_t len, const uint8_t mask[4], uint64_t at)
{
    uint8_t key[8];
    uint64_t wide, v;
    size_t i = 0;
    for (size_t k = 0; k < sizeof key; k++)
        key[k] = mask[(at + k) & 3];
    memcpy(&wide, key, sizeof wide);
    for (; i + sizeof v <= len; i += sizeof v) {
        memcpy(&v, from + i, sizeof v);
        v ^= wide;
        memcpy(to + i, &v, sizeof v);
    }
    for (; i < len; i++)
        to[i] = (char)((uint8_t)from[i] ^ key[i & 7]);
}

/* ---- reading ---- */

void tci_ws_reader_init(tci_ws_reader *r, tci_ws_role role, uint64_t max_text, uint64_t max_binary)
{
    memset(r, 0, sizeof *r);
    r->role = role;
    r->max[TCI_WS_TEXT] = max_text;
    r->max[TCI_WS_BINARY] = max_binary;
}

static int broken(tci_ws_reader *r, tc_err *err, const char *what)
{
    r->violation = TCI_WS_CODE_PROTOCOL;
    return tc_err_set(err, TC_E_PROTOCOL, "WebSocket: %s", what);
}

bool tci_ws_code_is_valid(unsigned code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

/* Bytes of a header that begins with these two. */
static size_t head_need(const char *head)
{
    uint8_t second = (uint8_t)head[1];
    unsigned len = second & BITS_LEN;
    size_t extra = len == LEN_16 ? 2 : len == LEN_64 ? 8 : 0;
    return 2 + extra + ((second & BIT_MASK) != 0 ? 4 : 0);
}

/* What the first two bytes already say. */
static int check_start(tci_ws_reader *r, tc_err *err)
{
    unsigned first = (uint8_t)r->head[0], second = (uint8_t)r->head[1];
    unsigned op = first & BITS_OP, len = second & BITS_LEN;
    bool is_control = op >= TCI_WS_OP_CLOSE, is_masked = (second & BIT_MASK) != 0;
    if (r->is_closed)
        return broken(r, err, "a frame after the close frame");
    if ((first & BITS_RESERVED) != 0)
        return broken(r, err, "a reserved bit is set");
    if (op > TCI_WS_OP_PONG || (op > TCI_WS_OP_BINARY && !is_control))
        return broken(r, err, "a reserved kind of frame");
    if (is_masked != (r->role == TCI_WS_SERVER))
        return broken(r, err,
                      is_masked ? "a masked frame from the server"
                                : "a frame without a mask from the client");
    if (is_control && ((first & BIT_LAST) == 0 || len > TCI_WS_CONTROL_MAX))
        return broken(r, err, "a control frame that is too long or in fragments");
    if (op == TCI_WS_OP_CONTINUE && !r->in_message)
        return broken(r, err, "a continuation of nothing");
    if (!is_control && op != TCI_WS_OP_CONTINUE && r->in_message)
        return broken(r, err, "a new message inside another");
    return 0;
}

static int take_len(tci_ws_reader *r, uint64_t *ret_len, tc_err *err)
{
    unsigned len = (uint8_t)r->head[1] & BITS_LEN;
    uint64_t v = len;
    if (len == LEN_16)
        v = get_be(r->head + 2, 2);
    else if (len == LEN_64)
        v = get_be(r->head + 2, 8);
    if ((len == LEN_16 && v < LEN_16) || (len == LEN_64 && v <= 0xffff) || v > INT64_MAX)
        return broken(r, err, "a length that is not written in the shortest way");
    *ret_len = v;
    return 0;
}

static int begin_data(tci_ws_reader *r, unsigned op, bool is_last, uint64_t len, tc_err *err)
{
    tci_ws_kind kind = op == TCI_WS_OP_CONTINUE ? r->kind
                       : op == TCI_WS_OP_TEXT   ? TCI_WS_TEXT
                                                : TCI_WS_BINARY;
    uint64_t before = op == TCI_WS_OP_CONTINUE ? r->message_len : 0;
    if (len > r->max[kind] || before > r->max[kind] - len) {
        r->violation = TCI_WS_CODE_TOO_BIG;
        return tc_err_set(err, TC_E_TOO_BIG,
                          "WebSocket: a %s message of more than %" PRIu64 " bytes",
                          kind == TCI_WS_TEXT ? "text" : "binary", r->max[kind]);
    }
    r->kind = kind;
    r->message_len = before + len;
    r->frame_left = len;
    r->is_last = is_last;
    r->in_message = !is_last;
    return 0;
}

/* The header is whole. */
static int take_head(tci_ws_reader *r, tc_err *err)
{
    uint64_t len;
    unsigned op = (uint8_t)r->head[0] & BITS_OP;
    if (take_len(r, &len, err) < 0)
        return err->code;
    r->is_masked = ((uint8_t)r->head[1] & BIT_MASK) != 0;
    r->mask_at = 0;
    if (r->is_masked)
        memcpy(r->mask, r->head + r->head_len - sizeof r->mask, sizeof r->mask);
    r->head_len = 0;
    if (op < TCI_WS_OP_CLOSE)
        return begin_data(r, op, ((uint8_t)r->head[0] & BIT_LAST) != 0, len, err);
    r->in_control = true;
    r->control_op = (uint8_t)op;
    r->control_need = (uint8_t)len;
    r->control_len = 0;
    return 0;
}

static int take_close(tci_ws_reader *r, tc_err *err)
{
    r->is_closed = true;
    r->close_code = TCI_WS_CODE_NONE;
    r->close_reason = tci_str_of(r->control, 0);
    if (r->control_len == 0)
        return 0;
    if (r->control_len == 1)
        return broken(r, err, "a close frame with half a code");
    unsigned code = (unsigned)get_be(r->control, 2);
    tc_str reason = tci_str_of(r->control + 2, r->control_len - 2u);
    if (!tci_ws_code_is_valid(code))
        return broken(r, err, "a close frame with a code that nobody may send");
    if (!tci_utf8_is_valid(reason)) {
        r->violation = TCI_WS_CODE_INVALID;
        return tc_err_set(err, TC_E_PROTOCOL, "WebSocket: a close frame whose reason is no UTF-8");
    }
    r->close_code = code;
    r->close_reason = reason;
    return 0;
}

/* Gather a control frame. *ret_event stays MORE until it is whole. */
static int take_control(tci_ws_reader *r, tc_str in, size_t *used, tci_ws_event *ret_event,
                        tc_err *err)
{
    size_t n = tci_min_size(r->control_need - (size_t)r->control_len, in.len - *used);
    if (n > 0)
        memcpy(r->control + r->control_len, in.ptr + *used, n);
    *used += n;
    r->control_len = (uint8_t)(r->control_len + n);
    if (r->control_len < r->control_need)
        return 0;
    if (r->is_masked)
        tci_ws_mask(r->control, r->control, r->control_len, r->mask, 0);
    r->in_control = false;
    *ret_event = r->control_op == TCI_WS_OP_PING   ? TCI_WS_PING
                 : r->control_op == TCI_WS_OP_PONG ? TCI_WS_PONG
                                                   : TCI_WS_CLOSE;
    return *ret_event == TCI_WS_CLOSE ? take_close(r, err) : 0;
}

/* Gather a header. True: it is whole. */
static int gather_head(tci_ws_reader *r, tc_str in, size_t *used, bool *ret_whole, tc_err *err)
{
    *ret_whole = false;
    for (;;) {
        size_t need = r->head_len < 2 ? 2 : head_need(r->head);
        if (r->head_len == need) {
            *ret_whole = true;
            return 0;
        }
        if (*used == in.len)
            return 0;
        size_t n = tci_min_size(need - r->head_len, in.len - *used);
        memcpy(r->head + r->head_len, in.ptr + *used, n);
        *used += n;
        r->head_len = (uint8_t)(r->head_len + n);
        if (need == 2 && r->head_len == 2 && check_start(r, err) < 0)
            return err->code;
    }
}

int tci_ws_next(tci_ws_reader *r, tc_str in, size_t *ret_used, tci_ws_event *ret_event, tc_err *err)
{
    size_t used = 0;
    bool is_whole;
    *ret_event = TCI_WS_MORE;
    *ret_used = 0;
    TC_ASSERT(r->frame_left == 0);
    if (!r->in_control) {
        if (gather_head(r, in, &used, &is_whole, err) < 0)
            return err->code;
        if (is_whole && take_head(r, err) < 0)
            return err->code;
        if (is_whole && !r->in_control)
            *ret_event = TCI_WS_FRAME;
    }
    if (r->in_control && take_control(r, in, &used, ret_event, err) < 0)
        return err->code;
    *ret_used = used;
    return 0;
}

void tci_ws_payload(tci_ws_reader *r, char *bytes, size_t len)
{
    TC_ASSERT(len <= r->frame_left);
    if (r->is_masked)
        tci_ws_mask(bytes, bytes, len, r->mask, r->mask_at);
    r->mask_at = (unsigned)((r->mask_at + len) & 3);
    r->frame_left -= len;
}

/* ---- writing ---- */

size_t tci_ws_put_head(char out[TCI_WS_HEAD_MAX], tci_ws_opcode op, bool is_last, uint64_t len,
                       const uint8_t mask[4])
{
    size_t n = 2;
    unsigned bit = mask != NULL ? BIT_MASK : 0;
    out[0] = (char)((is_last ? BIT_LAST : 0) | (int)op);
    if (len < LEN_16) {
        out[1] = (char)(bit | (unsigned)len);
    } else if (len <= 0xffff) {
        out[1] = (char)(bit | LEN_16);
        put_be(out + 2, len, 2);
        n = 4;
    } else {
        out[1] = (char)(bit | LEN_64);
        put_be(out + 2, len, 8);
        n = 10;
    }
    if (mask != NULL) {
        memcpy(out + n, mask, 4);
        n += 4;
    }
    return n;
}

size_t tci_ws_put_close(char out[TCI_WS_CONTROL_MAX], unsigned code, tc_str reason)
{
    if (code == TCI_WS_CODE_NONE)
        return 0;
    tc_str text = tci_str_sub(reason, 0, TCI_WS_REASON_MAX);
    text.len = tci_utf8_valid_prefix(text);
    put_be(out, code, 2);
    if (text.len > 0)
        memcpy(out + 2, text.ptr, text.len);
    return 2 + text.len;
}
