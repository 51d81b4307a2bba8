/* SPDX-License-Identifier: Apache-2.0
 *
 * Base64 without padding. Leaves quoting to json. Any thread. Invariant: one text for each byte
 * string and the other way round, so digests over the text and over the bytes agree.
 *
 * The encoder looks up 12 bits at a time: half the loads of the usual 6, and 8 KiB of table still
 * stay in the first-level cache. */
#include "base/base64.h"

static const char alphabet[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* clang-format off */
#define ROW(a) \
    {a, 'A'}, {a, 'B'}, {a, 'C'}, {a, 'D'}, {a, 'E'}, {a, 'F'}, {a, 'G'}, {a, 'H'}, \
    {a, 'I'}, {a, 'J'}, {a, 'K'}, {a, 'L'}, {a, 'M'}, {a, 'N'}, {a, 'O'}, {a, 'P'}, \
    {a, 'Q'}, {a, 'R'}, {a, 'S'}, {a, 'T'}, {a, 'U'}, {a, 'V'}, {a, 'W'}, {a, 'X'}, \
    {a, 'Y'}, {a, 'Z'}, {a, 'a'}, {a, 'b'}, {a, 'c'}, {a, 'd'}, {a, 'e'}, {a, 'f'}, \
    {a, 'g'}, {a, 'h'}, {a, 'i'}, {a, 'j'}, {a, 'k'}, {a, 'l'}, {a, 'm'}, {a, 'n'}, \
    {a, 'o'}, {a, 'p'}, {a, 'q'}, {a, 'r'}, {a, 's'}, {a, 't'}, {a, 'u'}, {a, 'v'}, \
    {a, 'w'}, {a, 'x'}, {a, 'y'}, {a, 'z'}, {a, '0'}, {a, '1'}, {a, '2'}, {a, '3'}, \
    {a, '4'}, {a, '5'}, {a, '6'}, {a, '7'}, {a, '8'}, {a, '9'}, {a, '+'}, {a, '/'}
static const char pairs[4096][2] = {
    ROW('A'), ROW('B'), ROW('C'), ROW('D'), ROW('E'), ROW('F'), ROW('G'), ROW('H'),
    ROW('I'), ROW('J'), ROW('K'), ROW('L'), ROW('M'), ROW('N'), ROW('O'), ROW('P'),
    ROW('Q'), ROW('R'), ROW('S'), ROW('T'), ROW('U'), ROW('V'), ROW('W'), ROW('X'),
    ROW('Y'), ROW('Z'), ROW('a'), ROW('b'), ROW('c'), ROW('d'), ROW('e'), ROW('f'),
    ROW('g'), ROW('h'), ROW('i'), ROW('j'), ROW('k'), ROW('l'), ROW('m'), ROW('n'),
    ROW('o'), ROW('p'), ROW('q'), ROW('r'), ROW('s'), ROW('t'), ROW('u'), ROW('v'),
    ROW('w'), ROW('x'), ROW('y'), ROW('z'), ROW('0'), ROW('1'), ROW('2'), ROW('3'),
    ROW('4'), ROW('5'), ROW('6'), ROW('7'), ROW('8'), ROW('9'), ROW('+'), ROW('/'),
};
#undef ROW

enum { NO = 0x80 }; /* not a character of the alphabet */
static const unsigned char values[256] = {
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 62, NO, NO, NO, 63,
    52, 53, 54, 55, 56, 57, 58, 59, 60, 61, NO, NO, NO, NO, NO, NO,
    NO, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
    15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, NO, NO, NO, NO, NO,
    NO, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
    41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
};
/* clang-format on */

void tci_base64_encode(tc_str s, char *out)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    size_t left = s.len;
    /* 6 bytes become 8 characters; the load takes 8, so two must follow. */
    for (; left >= 8; left -= 6, p += 6, out += 8) {
        uint64_t w = (uint64_t)p[0] << 40 | (uint64_t)p[1] << 32 | (uint64_t)p[2] << 24 |
                     (uint64_t)p[3] << 16 | (uint64_t)p[4] << 8 | p[5];
        memcpy(out, pairs[w >> 36], 2);
        memcpy(out + 2, pairs[w >> 24 & 0xfff], 2);
        memcpy(out + 4, pairs[w >> 12 & 0xfff], 2);
        memcpy(out + 6, pairs[w & 0xfff], 2);
    }
    for (; left >= 3; left -= 3, p += 3, out += 4) {
        unsigned w = (unsigned)p[0] << 16 | (unsigned)p[1] << 8 | p[2];
        memcpy(out, pairs[w >> 12], 2);
        memcpy(out + 2, pairs[w & 0xfff], 2);
    }
    if (left == 0)
        return;
    unsigned w = (unsigned)p[0] << 16 | (left == 2 ? (unsigned)p[1] << 8 : 0);
    memcpy(out, pairs[w >> 12], 2);
    if (left == 2)
        out[2] = alphabet[w >> 6 & 0x3f];
}

void tci_base64_append(tci_buf *out, tc_str s)
{
    if (s.len > TCI_BUF_MAX) {
        out->failed = TC_E_TOO_BIG;
        return;
    }
    size_t len = tci_base64_encoded_len(s.len);
    char *at = tci_buf_reserve(out, len);
    if (at == NULL)
        return;
    tci_base64_encode(s, at);
    tci_buf_commit(out, len);
}

static int bad_character(tc_str s, size_t from, tc_err *err)
{
    while (from < s.len && values[(unsigned char)s.ptr[from]] != NO)
        from++;
    if (from < s.len && s.ptr[from] == '=')
        return tc_err_set(err, TC_E_INVALID, "padding in base64 at byte %zu", from);
    return tc_err_set(err, TC_E_INVALID, "not a base64 character at byte %zu", from);
}

int tci_base64_decode(tc_str s, char *out, size_t *ret_len, tc_err *err)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    char *at = out;
    size_t left = s.len;
    for (; left >= 4; left -= 4, p += 4, at += 3) {
        unsigned a = values[p[0]], b = values[p[1]], c = values[p[2]], d = values[p[3]];
        if (TCI_UNLIKELY((a | b | c | d) & NO))
            return bad_character(s, s.len - left, err);
        unsigned w = a << 18 | b << 12 | c << 6 | d;
        at[0] = (char)(unsigned char)(w >> 16);
        at[1] = (char)(unsigned char)(w >> 8);
        at[2] = (char)(unsigned char)w;
    }
    if (left > 0) {
        unsigned a = values[p[0]], b = left > 1 ? values[p[1]] : 0, c = left > 2 ? values[p[2]] : 0;
        if ((a | b | c) & NO)
            return bad_character(s, s.len - left, err);
        if (left == 1)
            return tc_err_set(err, TC_E_INVALID, "base64 cut after %zu characters", s.len);
        unsigned w = a << 18 | b << 12 | c << 6;
        if ((w & (left == 2 ? 0xffff : 0xff)) != 0)
            return tc_err_set(err, TC_E_INVALID, "unused bits of base64 are not zero");
        *at++ = (char)(unsigned char)(w >> 16);
        if (left == 3)
            *at++ = (char)(unsigned char)(w >> 8);
    }
    *ret_len = (size_t)(at - out);
    return 0;
}
