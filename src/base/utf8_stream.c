/* SPDX-License-Identifier: Apache-2.0
 *
 * See utf8_stream.h. Leaves the search for errors to utf8.c, which skips over clean text quickly.
 * Any thread. Invariant: held is empty or the beginning of a sequence that more bytes can make
 * valid. */
#include "base/utf8_stream.h"

#include "base/num.h"
#include "base/utf8.h"

#define REPLACEMENT TC_STR("\xef\xbf\xbd")
#define MARK TC_STR("\xef\xbb\xbf")

enum { SEQUENCE_MAX = 4 };

/* Bytes a sequence with this lead has; 0: none begins so. The second byte's bounds are where
 * overlong forms, surrogates and values over U+10FFFF are found out. */
static size_t lead_len(unsigned char lead, unsigned char *ret_low, unsigned char *ret_high)
{
    *ret_low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    *ret_high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

typedef enum verdict { WHOLE, CUT, BAD } verdict;

/* Judge what is at the front of s (not empty). *ret_len: bytes of the sequence, of what there is of
 * it, or of the subpart to replace. */
static verdict judge(tc_str s, size_t *ret_len)
{
    unsigned char low, high;
    size_t want = lead_len((unsigned char)s.ptr[0], &low, &high), n = 1;
    if (want == 0) {
        *ret_len = 1;
        return BAD;
    }
    for (; n < want && n < s.len; n++) {
        unsigned char c = (unsigned char)s.ptr[n];
        if (c < low || c > high)
            break;
        low = 0x80;
        high = 0xbf;
    }
    *ret_len = n;
    if (n == want)
        return WHOLE;
    return n == s.len ? CUT : BAD;
}

static void hold(tci_utf8_stream *s, tc_str tail)
{
    memcpy(s->held, tail.ptr, tail.len);
    s->nheld = (uint8_t)tail.len;
}

/* Put the held bytes and what completes them, or their replacement, into scratch. Returns how many
 * of bytes that took. */
static size_t settle_held(tci_utf8_stream *s, tc_str bytes, tci_buf *scratch)
{
    char joined[2 * SEQUENCE_MAX];
    size_t nheld = s->nheld, nmore = tci_min_size(bytes.len, SEQUENCE_MAX), n;
    memcpy(joined, s->held, nheld);
    memcpy(joined + nheld, bytes.ptr, nmore);
    tc_str all = tci_str_of(joined, nheld + nmore);
    verdict v = judge(all, &n);
    if (v == CUT) {
        hold(s, all);
        return nmore; /* and that was all there is */
    }
    s->nheld = 0;
    tci_buf_append_str(scratch, v == WHOLE ? tci_str_of(joined, n) : REPLACEMENT);
    return n - nheld;
}

static tc_str drop_mark(tci_utf8_stream *s, tc_str text)
{
    if (s->has_begun || text.len == 0)
        return text;
    s->has_begun = true;
    return tci_str_starts(text, MARK) ? tci_str_sub(text, MARK.len, text.len) : text;
}

tc_str tci_utf8_stream_feed(tci_utf8_stream *s, tc_str bytes, tci_buf *scratch)
{
    size_t n, at = 0;
    tci_buf_clear(scratch);
    if (bytes.len == 0)
        return TC_STR("");
    if (s->nheld == 0) {
        at = tci_utf8_valid_prefix(bytes);
        tc_str rest = tci_str_sub(bytes, at, bytes.len);
        if (rest.len == 0 || judge(rest, &n) == CUT) {
            hold(s, rest);
            return drop_mark(s, tci_str_sub(bytes, 0, at));
        }
        tci_buf_append_str(scratch, tci_str_sub(bytes, 0, at));
    } else {
        at = settle_held(s, bytes, scratch);
    }
    while (at < bytes.len) {
        tc_str rest = tci_str_sub(bytes, at, bytes.len);
        size_t nclean = tci_utf8_valid_prefix(rest);
        tci_buf_append_str(scratch, tci_str_sub(rest, 0, nclean));
        at += nclean;
        rest = tci_str_sub(bytes, at, bytes.len);
        if (rest.len == 0)
            break;
        verdict v = judge(rest, &n);
        if (v == CUT)
            hold(s, rest);
        else
            tci_buf_append_str(scratch, REPLACEMENT);
        at += n;
    }
    return drop_mark(s, tci_buf_str(scratch));
}

tc_str tci_utf8_stream_end(tci_utf8_stream *s)
{
    bool was_cut = s->nheld > 0;
    *s = (tci_utf8_stream){0};
    return was_cut ? REPLACEMENT : TC_STR("");
}
