/* SPDX-License-Identifier: Apache-2.0
 *
 * Content-Length frames. Leaves reading, waiting and the meaning of bodies to the carrier. No
 * thread of its own. Invariant: what is answered does not depend on how the input was cut into
 * pieces, so every limit is judged by the position of the byte that passes it. */
#include "wire/frames.h"
#include "base/num.h"
#include "base/utf8.h"

void tci_frames_init(tci_frames *f, uint64_t max_control_bytes, uint64_t max_data_bytes)
{
    memset(f, 0, offsetof(tci_frames, head));
    f->max_control_bytes = max_control_bytes;
    f->max_data_bytes = max_data_bytes;
}

/* ---- finding the end of the header block ---- */

/* Search block[0..len) for its final empty line, from where the last search stopped. *ret_end is
 * the length of the block, or 0 when it goes on. */
static int scan_head(tci_frames *f, const char *block, size_t len, size_t *ret_end, tc_err *err)
{
    size_t limit = tci_min_size(len, TCI_FRAMES_HEAD_MAX);
    while (f->scan_at < limit) {
        const char *lf = memchr(block + f->scan_at, '\n', limit - f->scan_at);
        size_t at = lf != NULL ? (size_t)(lf - block) : limit;
        if (at >= f->line_at + TCI_FRAMES_LINE_MAX)
            break;
        f->scan_at = lf != NULL ? at + 1 : limit;
        if (lf == NULL || at == f->line_at || block[at - 1] != '\r')
            continue; /* only CRLF ends a line */
        if (at - f->line_at == 1 && f->nlines > 0) {
            *ret_end = at + 1;
            return 0;
        }
        f->line_at = at + 1;
        if (++f->nlines > TCI_FRAMES_LINES_MAX)
            return tc_err_set(err, TC_E_PROTOCOL, "stdio frame header count exceeds its limit");
    }
    if (len > f->line_at + TCI_FRAMES_LINE_MAX &&
        f->line_at + TCI_FRAMES_LINE_MAX <= TCI_FRAMES_HEAD_MAX)
        return tc_err_set(err, TC_E_PROTOCOL, "stdio frame header line exceeds its byte limit");
    if (len > TCI_FRAMES_HEAD_MAX)
        return tc_err_set(err, TC_E_PROTOCOL, "stdio frame header exceeds its byte limit");
    *ret_end = 0;
    return 0;
}

/* ---- one header line ---- */

typedef struct head_state {
    tc_str names[TCI_FRAMES_LINES_MAX];
    size_t nnames;
    bool has_length;
    uint64_t length;
    tci_frame_kind kind;
} head_state;

static int on_length(head_state *st, tc_str value, tc_err *err)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.ptr[i] < '0' || value.ptr[i] > '9')
            return tc_err_set(err, TC_E_PROTOCOL, "Content-Length must be canonical decimal");
    if (value.len > 1 && value.ptr[0] == '0')
        return tc_err_set(err, TC_E_PROTOCOL, "Content-Length must be canonical decimal");
    if (tci_num_u64(value, &st->length, err) < 0)
        return tc_err_set(err, TC_E_PROTOCOL, "Content-Length does not fit this platform");
    st->has_length = true;
    return 0;
}

static int on_type(head_state *st, tc_str value, tc_err *err)
{
    size_t semicolon = tci_str_find_byte(value, ';');
    tc_str type = tci_str_trim(tci_str_sub(value, 0, semicolon));
    bool has_param = semicolon < value.len;
    if (!has_param && tci_str_eq_nocase(type, TC_STR("application/vnd.a13n.eip-data"))) {
        st->kind = TCI_FRAME_DATA;
        return 0;
    }
    tc_str param = tci_str_trim(tci_str_sub(value, semicolon + 1, value.len));
    if (tci_str_eq_nocase(type, TC_STR("application/json")) &&
        (!has_param || tci_str_eq_nocase(param, TC_STR("charset=utf-8"))))
        return 0;
    return tc_err_set(err, TC_E_PROTOCOL, "unsupported stdio Content-Type");
}

static int refuse_sensitive(head_state *st, tc_str value, tc_err *err)
{
    TCI_UNUSED(st);
    TCI_UNUSED(value);
    return tc_err_set(err, TC_E_PROTOCOL, "security-sensitive stdio header is forbidden");
}

static const struct {
    tc_str name;
    int (*take)(head_state *st, tc_str value, tc_err *err);
} known_headers[] = {
    {{"Content-Length", 14}, on_length},           {{"Content-Type", 12}, on_type},
    {{"Authorization", 13}, refuse_sensitive},     {{"Content-Encoding", 16}, refuse_sensitive},
    {{"Transfer-Encoding", 17}, refuse_sensitive}, {{"EIP-Session", 11}, refuse_sensitive},
};

static bool is_name(tc_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-'))
            return false;
    }
    return name.len > 0;
}

static bool is_value(tc_str value)
{
    for (size_t i = 0; i < value.len; i++)
        if ((unsigned char)value.ptr[i] < 0x20 || value.ptr[i] == 0x7f)
            return false;
    return value.len > 0;
}

static int take_line(head_state *st, tc_str line, tc_err *err)
{
    size_t colon = tci_str_find_byte(line, ':');
    if (colon == line.len)
        return tc_err_set(err, TC_E_PROTOCOL, "malformed stdio frame header");
    tc_str name = tci_str_sub(line, 0, colon);
    tc_str value = tci_str_trim(tci_str_sub(line, colon + 1, line.len));
    if (!is_name(name))
        return tc_err_set(err, TC_E_PROTOCOL, "malformed stdio frame header name");
    for (size_t i = 0; i < st->nnames; i++)
        if (tci_str_eq_nocase(st->names[i], name))
            return tc_err_set(err, TC_E_PROTOCOL, "duplicate stdio frame header");
    if (!is_value(value))
        return tc_err_set(err, TC_E_PROTOCOL, "malformed stdio frame header value");
    st->names[st->nnames++] = name;
    for (size_t i = 0; i < TCI_ARRAY_LEN(known_headers); i++)
        if (tci_str_eq_nocase(known_headers[i].name, name))
            return known_headers[i].take(st, value, err);
    if (tci_str_eq_nocase(tci_str_sub(name, 0, 4), TC_STR("EIP-")))
        return tc_err_set(err, TC_E_PROTOCOL, "reserved stdio header is forbidden");
    return 0;
}

/* block holds complete lines and the final empty one. */
static int parse_head(tci_frames *f, tc_str block, tc_err *err)
{
    head_state st;
    st.nnames = 0;
    st.has_length = false;
    st.length = 0;
    st.kind = TCI_FRAME_CONTROL;
    for (size_t i = 0; i < block.len; i++)
        if ((unsigned char)block.ptr[i] >= 0x80)
            return tc_err_set(err, TC_E_PROTOCOL, "stdio frame header must be ASCII");
    tc_str rest = tci_str_sub(block, 0, block.len - 2);
    while (rest.len > 0) {
        size_t end = tci_str_find(rest, TC_STR("\r\n"));
        int rc = take_line(&st, tci_str_sub(rest, 0, end), err);
        if (rc < 0)
            return rc;
        rest = tci_str_sub(rest, end + 2, rest.len);
    }
    if (!st.has_length)
        return tc_err_set(err, TC_E_PROTOCOL, "Content-Length header is required");
    uint64_t max = st.kind == TCI_FRAME_DATA ? f->max_data_bytes : f->max_control_bytes;
    if (st.length > max || st.length > SIZE_MAX)
        return tc_err_set(err, TC_E_PROTOCOL, "stdio frame body exceeds its applicable byte limit");
    f->kind = st.kind;
    f->body_len = (size_t)st.length;
    f->has_head = true;
    return 0;
}

/* ---- the reader ---- */

/* Header bytes from the front of in: straight from there, or after those kept from before. */
static int take_head(tci_frames *f, tc_str in, size_t *ret_used, tc_err *err)
{
    const char *block = in.ptr;
    size_t len = in.len, kept = f->head_len, end = 0;
    if (kept > 0) {
        size_t n = tci_min_size(in.len, TCI_FRAMES_HEAD_MAX - kept);
        memcpy(f->head + kept, in.ptr, n);
        block = f->head;
        len = kept + in.len; /* more than is in the block only when over the limit anyway */
    }
    int rc = scan_head(f, block, len, &end, err);
    if (rc < 0)
        return rc;
    if (end == 0) {
        if (kept == 0 && in.len > 0)
            memcpy(f->head, in.ptr, in.len);
        f->head_len = len;
        *ret_used = in.len;
        return 0;
    }
    f->head_len = f->line_at = f->scan_at = 0;
    f->nlines = 0;
    rc = parse_head(f, tci_str_of(block, end), err);
    if (rc == 0)
        *ret_used = end - kept;
    return rc;
}

int tci_frames_body(tci_frames *f, tc_str body, tci_frame *ret_frame, tc_err *err)
{
    TC_ASSERT(f->has_head && body.len == f->body_len);
    if (f->kind == TCI_FRAME_CONTROL && !tci_utf8_is_valid(body))
        return tc_err_set(err, TC_E_PROTOCOL, "control must be UTF-8");
    ret_frame->kind = f->kind;
    ret_frame->body = body;
    f->has_head = false;
    f->body_len = 0;
    return 0;
}

int tci_frames_next(tci_frames *f, tc_str in, size_t *ret_used, tci_frames_event *ret_event,
                    tci_frame *ret_frame, tc_err *err)
{
    size_t used = 0;
    if (!f->has_head) {
        int rc = take_head(f, in, &used, err);
        if (rc < 0)
            return rc;
        if (!f->has_head) {
            *ret_used = used;
            *ret_event = TCI_FRAMES_MORE;
            return 0;
        }
    }
    if (in.len - used < f->body_len) {
        *ret_used = used;
        *ret_event = TCI_FRAMES_PART;
        return 0;
    }
    size_t body_len = f->body_len;
    int rc = tci_frames_body(f, tci_str_sub(in, used, body_len), ret_frame, err);
    if (rc < 0)
        return rc;
    *ret_used = used + body_len;
    *ret_event = TCI_FRAMES_FRAME;
    return 0;
}

int tci_frames_eof(const tci_frames *f, tc_err *err)
{
    if (f->has_head)
        return tc_err_set(err, TC_E_PROTOCOL, "early eof");
    if (f->head_len > 0)
        return tc_err_set(err, TC_E_PROTOCOL, "EOF inside stdio frame header");
    return 0;
}

/* ---- the writer ---- */

size_t tci_frames_put_head(char out[TCI_FRAMES_PUT_MAX], tci_frame_kind kind, uint64_t body_len)
{
    static const char length[] = "Content-Length: ";
    static const char control[] = "\r\nContent-Type: application/json; charset=utf-8\r\n\r\n";
    static const char data[] = "\r\nContent-Type: application/vnd.a13n.eip-data\r\n\r\n";
    char digits[20];
    size_t ndigits = 0, at = sizeof length - 1;
    do {
        digits[ndigits++] = (char)('0' + body_len % 10);
        body_len /= 10;
    } while (body_len > 0);
    memcpy(out, length, at);
    while (ndigits > 0)
        out[at++] = digits[--ndigits];
    const char *type = kind == TCI_FRAME_DATA ? data : control;
    size_t type_len = kind == TCI_FRAME_DATA ? sizeof data - 1 : sizeof control - 1;
    memcpy(out + at, type, type_len);
    return at + type_len;
}
