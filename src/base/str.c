/* SPDX-License-Identifier: Apache-2.0
 *
 * Borrowed text. Leaves owning to buf and arena, meaning to utf8. Any thread. Invariant: a tc_str
 * of length 0 may have a NULL pointer, so no library function is called with one. */
#include "base/str.h"

int tci_str_cmp(tc_str a, tc_str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n > 0 ? memcmp(a.ptr, b.ptr, n) : 0;
    if (order != 0)
        return order;
    return (a.len > b.len) - (a.len < b.len);
}

static unsigned char lower(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 'A' && u <= 'Z' ? (unsigned char)(u | 0x20) : u;
}

bool tci_str_eq_nocase(tc_str a, tc_str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    }
    return true;
}

bool tci_str_starts(tc_str s, tc_str prefix)
{
    return s.len >= prefix.len && tci_str_eq(tci_str_of(s.ptr, prefix.len), prefix);
}

bool tci_str_ends(tc_str s, tc_str suffix)
{
    if (suffix.len == 0)
        return true;
    return s.len >= suffix.len && memcmp(s.ptr + (s.len - suffix.len), suffix.ptr, suffix.len) == 0;
}

size_t tci_str_find_byte(tc_str s, char c)
{
    const char *hit = s.len > 0 ? memchr(s.ptr, c, s.len) : NULL;
    return hit != NULL ? (size_t)(hit - s.ptr) : s.len;
}

size_t tci_str_rfind_byte(tc_str s, char c)
{
    for (size_t i = s.len; i > 0; i--) {
        if (s.ptr[i - 1] == c)
            return i - 1;
    }
    return s.len;
}

size_t tci_str_count_byte(tc_str s, char c)
{
    enum { LANE_MAX = 255 }; /* words before a byte of the sums may overflow */
    const uint64_t ones = 0x0101010101010101u, low7 = 0x7f7f7f7f7f7f7f7fu;
    const uint64_t wanted = ones * (unsigned char)c;
    size_t count = 0, i = 0;
    while (s.len - i >= 8) {
        uint64_t sums = 0;
        for (int n = 0; n < LANE_MAX && s.len - i >= 8; n++, i += 8) {
            uint64_t w;
            memcpy(&w, s.ptr + i, sizeof w);
            w ^= wanted; /* zero where it is c */
            sums += ~(((w & low7) + low7) | w | low7) >> 7;
        }
        sums = (sums & 0x00ff00ff00ff00ffu) + (sums >> 8 & 0x00ff00ff00ff00ffu);
        count += (size_t)(sums * 0x0001000100010001u >> 48);
    }
    for (; i < s.len; i++)
        count += s.ptr[i] == c;
    return count;
}

size_t tci_str_find(tc_str s, tc_str needle)
{
    if (needle.len == 0)
        return 0;
    if (needle.len > s.len)
        return s.len;
    /* Linear also for texts chosen to be bad, which a search of our own would have to earn. */
    const char *hit = memmem(s.ptr, s.len, needle.ptr, needle.len);
    return hit != NULL ? (size_t)(hit - s.ptr) : s.len;
}

tc_str tci_str_sub(tc_str s, size_t from, size_t len)
{
    if (from > s.len)
        from = s.len;
    if (len > s.len - from)
        len = s.len - from;
    return tci_str_of(from > 0 ? s.ptr + from : s.ptr, len);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

tc_str tci_str_trim(tc_str s)
{
    while (s.len > 0 && is_blank(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && is_blank(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

bool tci_str_split(tc_str *rest, char sep, tc_str *ret_part)
{
    if (rest->ptr == NULL)
        return false;
    size_t at = tci_str_find_byte(*rest, sep);
    tc_str part = tci_str_of(rest->ptr, at);
    if (at == rest->len)
        *rest = tci_str_of(NULL, 0);
    else
        *rest = tci_str_of(rest->ptr + at + 1, rest->len - at - 1);
    *ret_part = part;
    return true;
}

int tci_cstr(tc_str s, char *dst, size_t dst_size, tc_err *err)
{
    if (tci_str_find_byte(s, '\0') != s.len)
        return tc_err_set(err, TC_E_INVALID, "text contains a zero byte");
    if (s.len >= dst_size)
        return tc_err_set(err, TC_E_TOO_BIG, "text of %zu bytes is too long, at most %zu fit",
                          s.len, dst_size > 0 ? dst_size - 1 : 0);
    if (s.len > 0)
        memcpy(dst, s.ptr, s.len);
    dst[s.len] = '\0';
    return 0;
}
