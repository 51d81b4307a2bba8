/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 messages. The head is gathered, checked line by line against the strict grammar and then
 * given to llhttp in one piece, which decides on framing and decodes the body; so two readers must
 * agree before a message is believed. Leaves connections, time and meaning to net/httpd and
 * net/http_client. No thread of its own. Invariant: no byte behind the end of a message is consumed
 * with it. */
#include "wire/http1_int.h"
#include <llhttp.h>

/* ---- llhttp's callbacks ---- */

static int on_headers_complete(llhttp_t *p)
{
    tci_http1 *h = p->data;
    if (h->skips_body)
        p->flags |= F_SKIPBODY;
    if (!h->head.is_upgrade)
        p->upgrade = 0; /* an offer nobody wants: go on as usual */
    h->head.keeps_alive = llhttp_should_keep_alive(p) != 0;
    h->is_head_parsed = true;
    return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
    tci_http1 *h = p->data;
    h->body = tci_str_of(at, len);
    h->meta_run = 0;
    return HPE_PAUSED;
}

static int on_message_complete(llhttp_t *p)
{
    tci_http1 *h = p->data;
    h->is_complete = true;
    return HPE_PAUSED;
}

static int on_chunk_meta(llhttp_t *p, const char *at, size_t len)
{
    tci_http1 *h = p->data;
    TCI_UNUSED(at);
    h->chunk_meta += len;
    if (h->chunk_meta <= TCI_HTTP1_CHUNK_META_MAX)
        return 0;
    h->is_over = true;
    return HPE_USER;
}

/* The last chunk ends llhttp's part: it would take a bare line feed for the end of the trailer. */
static int on_chunk_header(llhttp_t *p)
{
    tci_http1 *h = p->data;
    if (p->content_length > 0)
        return 0;
    h->in_trailer = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
    .on_chunk_extension_name = on_chunk_meta,
    .on_chunk_extension_value = on_chunk_meta,
    .on_chunk_header = on_chunk_header,
};

/* ---- life ---- */

/* One allocation; the reader comes first, so that freeing it frees both. */
struct whole {
    tci_http1 reader;
    llhttp_t parser;
};

int tci_http1_new(tci_http1_type type, tci_http1 **ret_reader, tc_err *err)
{
    struct whole *whole = tci_new(struct whole);
    if (whole == NULL)
        return tci_err_no_memory(err);
    tci_http1 *h = &whole->reader;
    h->parser = &whole->parser;
    h->type = type;
    tci_buf_init(&h->raw, TCI_HTTP1_HEAD_MAX);
    *ret_reader = h;
    return 0;
}

void tci_http1_free(tci_http1 *h)
{
    if (h == NULL)
        return;
    tci_buf_done(&h->raw);
    tci_free(h);
}

void tci_http1_set_flags(tci_http1 *h, unsigned flags)
{
    TC_ASSERT(tci_http1_is_between(h) || h->state == TCI_HTTP1_S_END);
    h->flags = flags;
}

const tci_http_head *tci_http1_head(const tci_http1 *h)
{
    return &h->head;
}

bool tci_http1_is_between(const tci_http1 *h)
{
    return h->state == TCI_HTTP1_S_BETWEEN || h->state == TCI_HTTP1_S_CLOSED;
}

static int fail(tci_http1 *h, int rc)
{
    h->state = TCI_HTTP1_S_FAILED;
    return rc;
}

/* ---- gathering the head ---- */

static void begin_message(tci_http1 *h)
{
    tci_buf_clear(&h->raw);
    memset(&h->head, 0, sizeof h->head);
    h->is_head_parsed = h->is_complete = h->is_over = h->skips_body = h->in_trailer = false;
    h->trailer_has_cr = h->trailer_has_name = false;
    h->trailer_line_len = 0;
    h->line_at = h->nlines = h->nskipped = 0;
    h->chunk_meta = h->trailer_bytes = h->meta_run = 0;
    h->state = TCI_HTTP1_S_HEAD;
}

/* Append the piece of one line that is in hand. *ret_is_end: it was the final empty line. */
static int take_line_piece(tci_http1 *h, tc_str piece, bool has_lf, bool *ret_is_end, tc_err *err)
{
    *ret_is_end = false;
    if (piece.len > TCI_HTTP1_HEAD_MAX - h->raw.len)
        return tc_err_set(err, TC_E_TOO_BIG, "HTTP head is over %d bytes", TCI_HTTP1_HEAD_MAX);
    tci_buf_append_str(&h->raw, piece);
    if (!tci_buf_ok(&h->raw))
        return tci_buf_error(&h->raw, err);
    if (!has_lf)
        return 0;
    tc_str line = tci_str_sub(tci_buf_str(&h->raw), h->line_at, h->raw.len);
    if (line.len < 2 || line.ptr[line.len - 2] != '\r')
        return tc_err_set(err, TC_E_PARSE, "HTTP head: line feed without carriage return");
    if (line.len > 2) {
        h->line_at = h->raw.len;
        h->nlines++;
        return 0;
    }
    if (h->nlines > 0) {
        *ret_is_end = true;
        return 0;
    }
    /* Some clients send an empty line after a body; RFC 9112 section 2.2 lets a server skip it. */
    if (h->type == TCI_HTTP1_RESPONSE || ++h->nskipped > 2)
        return tc_err_set(err, TC_E_PARSE, "HTTP head begins with an empty line");
    tci_buf_clear(&h->raw);
    return 0;
}

/* *ret_is_end: the head is complete and parsed. */
static int take_head(tci_http1 *h, tc_str in, size_t *ret_used, bool *ret_is_end, tc_err *err)
{
    size_t used = 0;
    bool is_end = false;
    while (used < in.len && !is_end) {
        tc_str rest = tci_str_sub(in, used, in.len);
        size_t lf = tci_str_find_byte(rest, '\n');
        bool has_lf = lf < rest.len;
        tc_str piece = tci_str_sub(rest, 0, has_lf ? lf + 1 : rest.len);
        int rc = take_line_piece(h, piece, has_lf, &is_end, err);
        if (rc < 0)
            return rc;
        used += piece.len;
    }
    if (is_end) {
        int rc = tci_http1_parse_head(h, &settings, err);
        if (rc < 0)
            return rc;
    }
    *ret_used = used;
    *ret_is_end = is_end;
    return 0;
}

/* ---- the body ---- */

static int body_error(const tci_http1 *h, tc_err *err)
{
    if (h->is_over)
        return tc_err_set(err, TC_E_TOO_BIG, "HTTP body: too much beside its contents");
    const char *reason = llhttp_get_error_reason(h->parser);
    return tc_err_set(err, TC_E_PARSE, "malformed HTTP body: %s",
                      reason != NULL && *reason != '\0' ? reason : "syntax");
}

/* One byte behind the last chunk. */
static int take_trailer_byte(tci_http1 *h, char c, tc_err *err)
{
    if (++h->trailer_bytes > TCI_HTTP1_TRAILER_MAX)
        return tc_err_set(err, TC_E_TOO_BIG, "HTTP trailer is over %d bytes",
                          TCI_HTTP1_TRAILER_MAX);
    if (h->trailer_has_cr) {
        if (c != '\n' || (h->trailer_line_len > 0 && !h->trailer_has_name))
            return tc_err_set(err, TC_E_PARSE, "malformed HTTP trailer");
        h->is_complete = h->trailer_line_len == 0;
        h->trailer_has_cr = h->trailer_has_name = false;
        h->trailer_line_len = 0;
        return 0;
    }
    if (c == '\r') {
        h->trailer_has_cr = true;
        return 0;
    }
    if (h->type == TCI_HTTP1_REQUEST)
        return tc_err_set(err, TC_E_PARSE, "HTTP trailer fields are not accepted");
    bool is_text = (unsigned char)c >= 0x20 && c != 0x7f;
    if (h->trailer_has_name
            ? !is_text && c != '\t'
            : !tci_http1_is_token(tci_str_of(&c, 1)) && (c != ':' || h->trailer_line_len == 0))
        return tc_err_set(err, TC_E_PARSE, "malformed HTTP trailer");
    h->trailer_has_name |= c == ':';
    h->trailer_line_len++;
    return 0;
}

static int take_trailer(tci_http1 *h, tc_str in, size_t *ret_used, tc_err *err)
{
    size_t used = 0;
    while (used < in.len && !h->is_complete) {
        int rc = take_trailer_byte(h, in.ptr[used++], err);
        if (rc < 0)
            return rc;
    }
    *ret_used = used;
    return 0;
}

static int take_chunks(tci_http1 *h, tc_str in, size_t *ret_used, tc_err *err)
{
    const char *at = in.len > 0 ? in.ptr : "";
    llhttp_errno_t rc = llhttp_execute(h->parser, at, in.len);
    size_t used = in.len;
    if (rc == HPE_PAUSED) {
        used = (size_t)(llhttp_get_error_pos(h->parser) - at);
        llhttp_resume(h->parser);
    } else if (rc != HPE_OK)
        return body_error(h, err);
    h->meta_run += used - h->body.len;
    if (h->meta_run > TCI_HTTP1_CHUNK_META_MAX) {
        h->is_over = true;
        return body_error(h, err);
    }
    *ret_used = used;
    return 0;
}

static int take_body(tci_http1 *h, tc_str in, size_t *ret_used, tci_http1_event *ret_event,
                     tc_str *ret_body, tc_err *err)
{
    size_t used = 0, n = 0;
    int rc = 0;
    h->body = tci_str_of(NULL, 0);
    if (!h->in_trailer)
        rc = take_chunks(h, in, &used, err);
    if (rc == 0 && h->in_trailer)
        rc = take_trailer(h, tci_str_sub(in, used, in.len), &n, err);
    if (rc < 0)
        return rc;
    *ret_used = used + n;
    if (h->body.len > 0) {
        *ret_body = h->body;
        *ret_event = TCI_HTTP1_BODY;
    } else if (h->is_complete) {
        h->state = TCI_HTTP1_S_END;
        *ret_event = TCI_HTTP1_END;
    } else
        *ret_event = TCI_HTTP1_MORE;
    return 0;
}

/* ---- the reader ---- */

int tci_http1_next(tci_http1 *h, tc_str in, size_t *ret_used, tci_http1_event *ret_event,
                   tc_str *ret_body, tc_err *err)
{
    bool is_end = false;
    int rc = 0;
    if (h->state == TCI_HTTP1_S_END)
        h->state = h->head.keeps_alive ? TCI_HTTP1_S_BETWEEN : TCI_HTTP1_S_CLOSED;
    if (in.len == 0 && tci_http1_is_between(h)) {
        *ret_used = 0;
        *ret_event = TCI_HTTP1_MORE;
        return 0;
    }
    switch (h->state) {
    case TCI_HTTP1_S_BETWEEN:
        begin_message(h);
        TCI_FALLTHROUGH;
    case TCI_HTTP1_S_HEAD:
        rc = take_head(h, in, ret_used, &is_end, err);
        if (rc < 0)
            return fail(h, rc);
        *ret_event = is_end ? TCI_HTTP1_HEAD : TCI_HTTP1_MORE;
        if (is_end)
            h->state = h->head.is_upgrade ? TCI_HTTP1_S_UPGRADED : TCI_HTTP1_S_BODY;
        return 0;
    case TCI_HTTP1_S_BODY:
        if (h->is_complete) {
            *ret_used = 0;
            *ret_event = TCI_HTTP1_END;
            h->state = TCI_HTTP1_S_END;
            return 0;
        }
        rc = take_body(h, in, ret_used, ret_event, ret_body, err);
        return rc < 0 ? fail(h, rc) : 0;
    case TCI_HTTP1_S_UPGRADED:
        *ret_used = 0;
        *ret_event = TCI_HTTP1_UPGRADED;
        return 0;
    case TCI_HTTP1_S_CLOSED:
        return tc_err_set(err, TC_E_PROTOCOL, "bytes after the last HTTP message");
    case TCI_HTTP1_S_END:
    case TCI_HTTP1_S_FAILED:
        break;
    }
    return tc_err_set(err, TC_E_PROTOCOL, "the HTTP connection has failed before");
}

int tci_http1_eof(tci_http1 *h, bool *ret_is_end, tc_err *err)
{
    bool is_end = false;
    if (h->state == TCI_HTTP1_S_BODY && !h->is_complete && !h->in_trailer) {
        /* A paused completion shows as HPE_PAUSED; only a body without a length may end so. */
        llhttp_errno_t rc = llhttp_finish(h->parser);
        is_end = h->is_complete && (rc == HPE_OK || rc == HPE_PAUSED);
        if (is_end)
            h->state = TCI_HTTP1_S_CLOSED;
    }
    if (h->state == TCI_HTTP1_S_HEAD || h->state == TCI_HTTP1_S_BODY ||
        h->state == TCI_HTTP1_S_FAILED) {
        h->state = TCI_HTTP1_S_FAILED;
        return tc_err_set(err, TC_E_PROTOCOL, "the connection ended inside an HTTP message");
    }
    *ret_is_end = is_end;
    return 0;
}
