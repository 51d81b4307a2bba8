/* SPDX-License-Identifier: Apache-2.0
 *
 * Normal forms (Unicode Standard Annex 15), for comparing texts that were typed differently. Tables
 * come from tools/gen_unicode.py; Hangul is computed. Any thread. */
#include "harness/schema/unicode.h"

#include "base/num.h"
#include "base/utf8.h"

#include "harness/schema/gen/unicode_table.h"

enum {
    HANGUL_S = 0xAC00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11A7,
    HANGUL_LS = 19,
    HANGUL_VS = 21,
    HANGUL_TS = 28,
    HANGUL_SS = 11172
};

uint32_t tci_char_at(tc_str s, size_t *ret_len)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    if (p[0] < 0x80) {
        *ret_len = 1;
        return p[0];
    }
    int32_t c = tci_utf8_decode(tci_str_sub(s, 0, 4), ret_len);
    if (c >= 0)
        return (uint32_t)c;
    if (p[0] == 0xED && s.len >= 3 && (p[1] & 0xE0) == 0xA0 && (p[2] & 0xC0) == 0x80) {
        *ret_len = 3;
        return 0xD000u | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    }
    *ret_len = 1;
    return TCI_RAW_BYTE + p[0];
}

void tci_put_char(tci_buf *b, uint32_t c)
{
    char out[4];
    size_t n = tci_utf8_encode(c, out);
    if (n > 0) {
        tci_buf_append(b, out, n);
        return;
    }
    tci_buf_append_byte(b, (char)(0xE0 | c >> 12));
    tci_buf_append_byte(b, (char)(0x80 | (c >> 6 & 0x3F)));
    tci_buf_append_byte(b, (char)(0x80 | (c & 0x3F)));
}

static const decomposition *find_decomposition(uint32_t c)
{
    size_t low = 0, high = TCI_ARRAY_LEN(decompositions);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (decompositions[mid].c < c)
            low = mid + 1;
        else
            high = mid;
    }
    return low < TCI_ARRAY_LEN(decompositions) && decompositions[low].c == c ? &decompositions[low]
                                                                             : NULL;
}

static unsigned order_of(uint32_t c)
{
    size_t low = 0, high = TCI_ARRAY_LEN(classes);
    if (c < 0x300)
        return 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (classes[mid].last < c)
            low = mid + 1;
        else
            high = mid;
    }
    return low < TCI_ARRAY_LEN(classes) && classes[low].first <= c ? classes[low].order : 0;
}

static bool is_second(uint32_t c)
{
    if ((c >= HANGUL_V && c < HANGUL_V + HANGUL_VS) || (c > HANGUL_T && c < HANGUL_T + HANGUL_TS))
        return true;
    for (size_t i = 0; i < TCI_ARRAY_LEN(seconds); i++)
        if (seconds[i] == c)
            return true;
    return false;
}

bool tci_starts_segment(uint32_t c)
{
    if (c < 0x300 || c >= TCI_RAW_BYTE)
        return true;
    const decomposition *d = find_decomposition(c);
    uint32_t first = d != NULL ? parts[d->full_at] : c;
    return order_of(first) == 0 && !is_second(first);
}

/* Into out, in canonical order behind what is there; the new length, or 0: no room. */
static size_t put_decomposed(uint32_t c, bool is_full, uint32_t *out, size_t n, size_t cap)
{
    uint32_t hangul[3], one = c;
    const uint32_t *from = &one;
    size_t count = 1;
    if (c >= HANGUL_S && c < HANGUL_S + HANGUL_SS) {
        uint32_t at = c - HANGUL_S, t = at % HANGUL_TS;
        hangul[0] = HANGUL_L + at / (HANGUL_VS * HANGUL_TS);
        hangul[1] = HANGUL_V + at % (HANGUL_VS * HANGUL_TS) / HANGUL_TS;
        hangul[2] = HANGUL_T + t;
        from = hangul;
        count = t == 0 ? 2 : 3;
    } else if (c >= 0xA0) {
        const decomposition *d = find_decomposition(c);
        if (d != NULL && (is_full || d->plain_n > 0)) {
            from = &parts[is_full ? d->full_at : d->plain_at];
            count = is_full ? d->full_n : d->plain_n;
        }
    }
    if (n + count > cap)
        return 0;
    for (size_t i = 0; i < count; i++) {
        unsigned order = order_of(from[i]);
        size_t at = n++;
        while (order > 0 && at > 0 && order_of(out[at - 1]) > order) {
            out[at] = out[at - 1];
            at--;
        }
        out[at] = from[i];
    }
    return n;
}

static uint32_t compose(uint32_t first, uint32_t second)
{
    if (first >= HANGUL_L && first < HANGUL_L + HANGUL_LS && second >= HANGUL_V &&
        second < HANGUL_V + HANGUL_VS)
        return HANGUL_S + ((first - HANGUL_L) * HANGUL_VS + second - HANGUL_V) * HANGUL_TS;
    if (first >= HANGUL_S && first < HANGUL_S + HANGUL_SS && (first - HANGUL_S) % HANGUL_TS == 0 &&
        second > HANGUL_T && second < HANGUL_T + HANGUL_TS)
        return first + second - HANGUL_T;
    size_t low = 0, high = TCI_ARRAY_LEN(compositions);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const composition *m = &compositions[mid];
        if (m->first < first || (m->first == first && m->second < second))
            low = mid + 1;
        else
            high = mid;
    }
    if (low < TCI_ARRAY_LEN(compositions) && compositions[low].first == first &&
        compositions[low].second == second)
        return compositions[low].whole;
    return 0;
}

size_t tci_compose_segment(const uint32_t *in, size_t n, uint32_t *out, size_t cap)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        len = put_decomposed(in[i], true, out, len, cap);
        if (len == 0)
            return 0;
    }
    size_t starter = SIZE_MAX, kept = 0;
    unsigned last = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned order = order_of(out[i]);
        bool is_blocked = starter != SIZE_MAX && kept > starter + 1 && last >= order;
        uint32_t whole = starter != SIZE_MAX && !is_blocked ? compose(out[starter], out[i]) : 0;
        if (whole != 0) {
            out[starter] = whole;
            continue;
        }
        if (order == 0)
            starter = kept;
        last = order;
        out[kept++] = out[i];
    }
    return kept;
}

/* Does what c decomposes to begin with a character that marks belong to? */
static bool begins_run(uint32_t c)
{
    const decomposition *d = c >= 0xA0 && c < TCI_RAW_BYTE ? find_decomposition(c) : NULL;
    return order_of(d != NULL && d->plain_n > 0 ? parts[d->plain_at] : c) == 0;
}

void tci_put_nfd(tci_buf *b, tc_str text)
{
    uint32_t run[TCI_SEGMENT_MAX];
    size_t n = 0, at = 0, len;
    while (at < text.len) {
        uint32_t c = tci_char_at(tci_str_sub(text, at, text.len), &len);
        bool is_raw = c >= TCI_RAW_BYTE;
        if (is_raw || begins_run(c) || n + 8 > TCI_SEGMENT_MAX) {
            for (size_t i = 0; i < n; i++)
                tci_put_char(b, run[i]);
            n = 0;
        }
        if (is_raw)
            tci_buf_append(b, text.ptr + at, 1);
        else
            n = put_decomposed(c, false, run, n, TCI_SEGMENT_MAX);
        at += len;
    }
    for (size_t i = 0; i < n; i++)
        tci_put_char(b, run[i]);
}

bool tci_is_blank_char(uint32_t c)
{
    return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000 || c == 0xFEFF;
}
