/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing HTTP/1.1 heads and chunks, and the small questions about tokens and fields. No thread of
 * its own. Invariant: nothing that came from a caller can end a line. */
#include "wire/http1.h"

bool tci_http1_is_token(tc_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool is_alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_alnum && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL))
            return false;
    }
    return s.len > 0;
}

bool tci_http1_target_is_valid(tc_str target)
{
    for (size_t i = 0; i < target.len; i++)
        if (target.ptr[i] <= 0x20 || target.ptr[i] >= 0x7f)
            return false;
    return target.len > 0;
}

bool tci_http_head_get(const tci_http_head *head, tc_str name, tc_str *ret_value, size_t *ret_count)
{
    size_t count = 0;
    for (size_t i = 0; i < head->nheaders; i++) {
        if (!tci_str_eq_nocase(head->headers[i].name, name))
            continue;
        if (count++ == 0)
            *ret_value = head->headers[i].value;
    }
    if (ret_count != NULL)
        *ret_count = count;
    return count > 0;
}

void tci_http1_put_request(tci_buf *b, tc_str method, tc_str target)
{
    TC_ASSERT(tci_http1_is_token(method) && tci_http1_target_is_valid(target));
    tci_buf_append_str(b, method);
    tci_buf_append_byte(b, ' ');
    tci_buf_append_str(b, target);
    tci_buf_append_str(b, TC_STR(" HTTP/1.1\r\n"));
}

static const struct {
    unsigned status;
    const char *reason;
} reasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

tc_str tci_http1_reason(unsigned status)
{
    for (size_t i = 0; i < TCI_ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status)
            return tci_str(reasons[i].reason);
    return TC_STR("");
}

void tci_http1_put_status(tci_buf *b, unsigned status)
{
    TC_ASSERT(status >= 100 && status <= 599);
    tci_buf_append_str(b, TC_STR("HTTP/1.1 "));
    tci_buf_append_u64(b, status);
    tci_buf_append_byte(b, ' ');
    tci_buf_append_str(b, tci_http1_reason(status));
    tci_buf_append_str(b, TC_STR("\r\n"));
}

int tci_http1_put_header(tci_buf *b, tc_str name, tc_str value, tc_err *err)
{
    if (!tci_http1_is_token(name))
        return tc_err_set(err, TC_E_INVALID, "HTTP header name '%.*s' is no token",
                          TC_STR_ARG(tci_str_sub(name, 0, 64)));
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return tc_err_set(err, TC_E_INVALID, "HTTP header '%.*s' has a control character",
                              TC_STR_ARG(tci_str_sub(name, 0, 64)));
    }
    tci_buf_append_str(b, name);
    tci_buf_append_str(b, TC_STR(": "));
    tci_buf_append_str(b, value);
    tci_buf_append_str(b, TC_STR("\r\n"));
    return 0;
}

void tci_http1_put_end(tci_buf *b)
{
    tci_buf_append_str(b, TC_STR("\r\n"));
}

size_t tci_http1_put_chunk_head(char out[TCI_HTTP1_CHUNK_HEAD_MAX], uint64_t len)
{
    char digits[16];
    size_t n = 0, at = 0;
    TC_ASSERT(len > 0); /* an empty chunk would be the last one */
    for (; len > 0; len >>= 4)
        digits[n++] = "0123456789abcdef"[len & 15];
    while (n > 0)
        out[at++] = digits[--n];
    out[at++] = '\r';
    out[at++] = '\n';
    return at;
}
