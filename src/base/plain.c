/* SPDX-License-Identifier: Apache-2.0
 *
 * Text made fit to be shown. Leaves when that is wanted to its callers. Any thread. Invariant: what is
 * appended is valid UTF-8, whatever comes in. */
#include "base/plain.h"

#include "base/utf8.h"

enum { DEL = 0x7f, SURROGATE_BYTES = 3 };

bool tci_plain_is_control(int32_t scalar)
{
    return scalar < 0x20 || (scalar >= DEL && scalar < 0xa0) || scalar == 0x61c ||
           scalar == 0x200e || scalar == 0x200f || (scalar >= 0x2028 && scalar <= 0x202e) ||
           (scalar >= 0x2066 && scalar <= 0x2069);
}

/* A surrogate in WTF-8 at the front of s; 0: none. */
static uint32_t surrogate(tc_str s)
{
    if (s.len < SURROGATE_BYTES)
        return 0;
    const unsigned char *p = (const unsigned char *)s.ptr;
    if (p[0] != 0xed || p[1] < 0xa0 || p[1] > 0xbf || (p[2] & 0xc0) != 0x80)
        return 0;
    return 0xd000u | (uint32_t)(p[1] & 0x3f) << 6 | (uint32_t)(p[2] & 0x3f);
}

/* What is no UTF-8, at the front of s. Gives its length. */
static size_t put_bad(tci_buf *b, tc_str s)
{
    char out[4];
    uint32_t high = surrogate(s), low = 0;
    if (high >= 0xd800 && high < 0xdc00)
        low = surrogate(tci_str_sub(s, SURROGATE_BYTES, SIZE_MAX));
    if (low >= 0xdc00) {
        uint32_t scalar = 0x10000u + ((high - 0xd800u) << 10) + (low - 0xdc00u);
        tci_buf_append(b, out, tci_utf8_encode(scalar, out));
        return (size_t)2 * SURROGATE_BYTES;
    }
    tci_buf_append_str(b, TC_STR("\xEF\xBF\xBD"));
    return high != 0 ? SURROGATE_BYTES : 1;
}

/* Of a form other than UTF8: may the character at the front of s stay as it is? */
static bool may_stay(tc_str s, int32_t scalar, tci_plain_form form)
{
    if (!tci_plain_is_control(scalar))
        return true;
    if (form == TCI_PLAIN_LINE)
        return false;
    return scalar == '\n' || scalar == '\t' || (scalar == '\r' && s.len > 1 && s.ptr[1] == '\n');
}

void tci_plain_put(tci_buf *b, tc_str s, tci_plain_form form)
{
    size_t from = 0, at = 0; /* of what is to be appended as it is */
    while (at < s.len) {
        tc_str rest = tci_str_sub(s, at, SIZE_MAX);
        size_t len = 0;
        int32_t scalar = tci_utf8_decode(rest, &len);
        if (scalar >= 0 && (form == TCI_PLAIN_UTF8 || may_stay(rest, scalar, form))) {
            at += len;
            continue;
        }
        tci_buf_append(b, s.ptr + from, at - from);
        if (scalar < 0)
            len = put_bad(b, rest);
        else if (form == TCI_PLAIN_JSON)
            tci_buf_printf(b, "\\u%04x", (unsigned)scalar);
        else
            tci_buf_append_byte(b, '?');
        at += len;
        from = at;
    }
    tci_buf_append(b, s.ptr + from, at - from);
}
