/* SPDX-License-Identifier: Apache-2.0
 *
 * The strict grammar of a message head (RFC 9112 sections 3 to 6), beside llhttp's. No thread of
 * its own. Invariant: every line ends with CRLF before this is called, and no view leaves the raw
 * head. */
#include "wire/http1_int.h"
#include <llhttp.h>

static int malformed(tc_err *err, const char *what)
{
    return tc_err_set(err, TC_E_PARSE, "malformed HTTP head: %s", what);
}

/* ---- start line ---- */

static int parse_version(tc_str s, unsigned *ret_minor, tc_err *err)
{
    if (s.len != 8 || memcmp(s.ptr, "HTTP/", 5) != 0 || s.ptr[6] != '.')
        return malformed(err, "version");
    if (s.ptr[5] != '1' || (s.ptr[7] != '0' && s.ptr[7] != '1'))
        return tc_err_set(err, TC_E_UNSUPPORTED, "HTTP version is neither 1.0 nor 1.1");
    *ret_minor = s.ptr[7] == '1';
    return 0;
}

static int parse_request_line(tci_http1 *h, tc_str line, tc_err *err)
{
    size_t first = tci_str_find_byte(line, ' ');
    tc_str rest = tci_str_sub(line, first + 1, line.len);
    size_t second = tci_str_find_byte(rest, ' ');
    h->head.method = tci_str_sub(line, 0, first);
    h->head.target = tci_str_sub(rest, 0, second);
    if (!tci_http1_is_token(h->head.method) || !tci_http1_target_is_valid(h->head.target))
        return malformed(err, "request line");
    return parse_version(tci_str_sub(rest, second + 1, rest.len), &h->head.minor, err);
}

static int parse_status_line(tci_http1 *h, tc_str line, tc_err *err)
{
    int rc = parse_version(tci_str_sub(line, 0, 8), &h->head.minor, err);
    if (rc < 0)
        return rc;
    unsigned status = 0;
    for (size_t i = 9; i < 12; i++) {
        if (i >= line.len || line.ptr[i] < '0' || line.ptr[i] > '9')
            return malformed(err, "status");
        status = status * 10 + (unsigned)(line.ptr[i] - '0');
    }
    if (line.ptr[8] != ' ' || status < 100 || status > 599 ||
        (line.len > 12 && line.ptr[12] != ' '))
        return malformed(err, "status");
    h->head.status = status;
    h->head.reason = tci_str_sub(line, 13, line.len);
    return 0;
}

/* ---- fields ---- */

static bool is_clean_text(tc_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static int parse_field(tci_http1 *h, tc_str line, tc_err *err)
{
    size_t colon = tci_str_find_byte(line, ':');
    tc_str name = tci_str_sub(line, 0, colon);
    if (colon == line.len || !tci_http1_is_token(name))
        return malformed(err, "header name");
    if (h->head.nheaders == TCI_HTTP1_HEADERS_MAX)
        return tc_err_set(err, TC_E_TOO_BIG, "HTTP head has over %d headers",
                          TCI_HTTP1_HEADERS_MAX);
    tci_http_header *header = &h->headers[h->head.nheaders++];
    header->name = name;
    header->value = tci_str_trim(tci_str_sub(line, colon + 1, line.len));
    return 0;
}

static int split_lines(tci_http1 *h, tc_err *err)
{
    tc_str raw = tci_buf_str(&h->raw), line;
    for (size_t nline = 0;; nline++) {
        size_t lf = tci_str_find_byte(raw, '\n');
        line = tci_str_sub(raw, 0, lf - 1);
        raw = tci_str_sub(raw, lf + 1, raw.len);
        if (line.len == 0)
            return 0;
        if (!is_clean_text(line))
            return malformed(err, "control character");
        int rc = 0;
        if (nline > 0)
            rc = parse_field(h, line, err);
        else if (h->type == TCI_HTTP1_REQUEST)
            rc = parse_request_line(h, line, err);
        else
            rc = parse_status_line(h, line, err);
        if (rc < 0)
            return rc;
    }
}

/* How often a field is there, and that all is well with the ones that frame the message. */
static int check_framing(tci_http1 *h, tc_err *err)
{
    tc_str coding, value;
    size_t ncodings = 0, nlengths = 0, nhosts = 0;
    h->head.headers = h->headers;
    bool has_coding = tci_http_head_get(&h->head, TC_STR("transfer-encoding"), &coding, &ncodings);
    (void)tci_http_head_get(&h->head, TC_STR("content-length"), &value, &nlengths); /* counted */
    (void)tci_http_head_get(&h->head, TC_STR("host"), &value, &nhosts);             /* counted */
    if (has_coding && nlengths > 0)
        return malformed(err, "both Transfer-Encoding and Content-Length");
    if (nlengths > 1)
        return malformed(err, "more than one Content-Length");
    if (h->type == TCI_HTTP1_REQUEST && nhosts > 1)
        return malformed(err, "more than one Host");
    if (has_coding && h->head.minor == 0)
        return malformed(err, "Transfer-Encoding in HTTP/1.0");
    if (has_coding && (ncodings > 1 || !tci_str_eq_nocase(coding, TC_STR("chunked"))))
        return tc_err_set(err, TC_E_UNSUPPORTED, "HTTP transfer coding other than chunked");
    return 0;
}

/* Does the list `value` hold `word`? */
static bool list_has(tc_str value, tc_str word)
{
    tc_str part;
    while (tci_str_split(&value, ',', &part))
        if (tci_str_eq_nocase(tci_str_trim(part), word))
            return true;
    return false;
}

static bool is_upgrade(const tci_http1 *h)
{
    if ((h->flags & TCI_HTTP1_UPGRADE) == 0)
        return false;
    if (h->type == TCI_HTTP1_RESPONSE)
        return h->head.status == 101 ||
               ((h->flags & TCI_HTTP1_TO_CONNECT) != 0 && h->head.status / 100 == 2);
    if (tci_str_eq(h->head.method, TC_STR("CONNECT")))
        return true;
    bool has_upgrade = false, is_asked = false, has_body = false;
    for (size_t i = 0; i < h->head.nheaders; i++) {
        const tci_http_header *f = &h->headers[i];
        has_body |= tci_str_eq_nocase(f->name, TC_STR("transfer-encoding")) ||
                    (tci_str_eq_nocase(f->name, TC_STR("content-length")) &&
                     !tci_str_eq(f->value, TC_STR("0")));
        has_upgrade |= tci_str_eq_nocase(f->name, TC_STR("upgrade")) &&
                       list_has(f->value, TC_STR("websocket"));
        is_asked |= tci_str_eq_nocase(f->name, TC_STR("connection")) &&
                    list_has(f->value, TC_STR("upgrade"));
    }
    return has_upgrade && is_asked && !has_body && h->head.minor == 1;
}

/* ---- llhttp's opinion ---- */

static int run_parser(tci_http1 *h, const llhttp_settings_t *settings, tc_err *err)
{
    llhttp_init(h->parser, h->type == TCI_HTTP1_REQUEST ? HTTP_REQUEST : HTTP_RESPONSE, settings);
    h->parser->data = h;
    llhttp_errno_t rc = llhttp_execute(h->parser, h->raw.ptr, h->raw.len);
    if (rc == HPE_PAUSED && h->is_complete &&
        llhttp_get_error_pos(h->parser) == h->raw.ptr + h->raw.len) {
        llhttp_resume(h->parser);
        rc = HPE_OK;
    }
    if (h->is_head_parsed && h->head.is_upgrade && rc != HPE_OK)
        rc = rc == HPE_PAUSED_UPGRADE || rc == HPE_PAUSED ? HPE_OK : rc;
    if (rc != HPE_OK || !h->is_head_parsed) {
        const char *reason = llhttp_get_error_reason(h->parser);
        return malformed(err, reason != NULL && *reason != '\0' ? reason : "syntax");
    }
    return 0;
}

int tci_http1_parse_head(tci_http1 *h, const llhttp_settings_t *settings, tc_err *err)
{
    tci_http_head *head = &h->head;
    int rc = split_lines(h, err);
    if (rc == 0)
        rc = check_framing(h, err);
    if (rc < 0)
        return rc;
    h->skips_body = h->type == TCI_HTTP1_RESPONSE &&
                    ((h->flags & TCI_HTTP1_NO_BODY) != 0 || head->status < 200 ||
                     head->status == 204 || head->status == 304);
    head->is_upgrade = is_upgrade(h);
    if (h->type == TCI_HTTP1_RESPONSE && head->status == 101 && !head->is_upgrade)
        return tc_err_set(err, TC_E_PROTOCOL, "HTTP upgrade that was not asked for");
    rc = run_parser(h, settings, err);
    if (rc < 0)
        return rc;
    head->has_length = (h->parser->flags & F_CONTENT_LENGTH) != 0;
    head->is_chunked = (h->parser->flags & F_CHUNKED) != 0;
    head->content_length = head->has_length ? h->parser->content_length : 0;
    head->has_body = !head->is_upgrade && !h->is_complete;
    tc_str value;
    size_t count = 0;
    if (h->type == TCI_HTTP1_REQUEST && head->minor == 1 &&
        tci_http_head_get(head, TC_STR("expect"), &value, &count))
        head->wants_continue = list_has(value, TC_STR("100-continue"));
    return 0;
}
