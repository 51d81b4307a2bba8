/* SPDX-License-Identifier: Apache-2.0
 *
 * The emitter. Leaves punctuation between values to the caller, or to tci_json_put for a whole
 * tree. One thread at a time. Invariant: a string is measured before it is written where the
 * buffer has no room for the worst case, so a buffer fills to its maximum exactly. */
#include "base/base64.h"
#include "base/json.h"
#include "base/num.h"
#include "base/vec.h"
#include <math.h>
#include <stdlib.h>

enum {
    ESCAPE_MAX = 6,      /* \u00xx, or \udxxx for the three bytes of a kept surrogate */
    SORT_FEW = 32,       /* members sorted without the heap */
    PUT_DEPTH_MAX = 1000 /* of a tree built by hand; parsed ones are flatter */
};

/* Is the byte at offset i the front of a surrogate kept as three bytes? */
static bool is_surrogate(tc_str s, size_t i)
{
    return (unsigned char)s.ptr[i] == 0xed && s.len - i >= 3 &&
           (unsigned char)s.ptr[i + 1] >= 0xa0 && (unsigned char)s.ptr[i + 1] <= 0xbf;
}

/* What may not stand as it is: 0xed begins a kept surrogate, and some ordinary characters. */
static inline size_t first_stop(tci_vec v)
{
    return tci_vec_first(tci_vec_json_stops(v) | (tci_vec)(v == 0xed));
}

/* The same for one byte. */
static inline bool is_stop(char c)
{
    static const bool stops[256] = {1, 1, 1, 1, 1, 1, 1, 1, 1,         1,          1,         1,
                                    1, 1, 1, 1, 1, 1, 1, 1, 1,         1,          1,         1,
                                    1, 1, 1, 1, 1, 1, 1, 1, ['"'] = 1, ['\\'] = 1, [0xed] = 1};
    return stops[(unsigned char)c];
}

/* Is there any such byte among eight? (Where is not told: bytes above the first may be false.) */
static inline bool has_stop(uint64_t w)
{
    const uint64_t ones = 0x0101010101010101u, tops = ones * 0x80;
    uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\', lead = w ^ ones * 0xed;
    uint64_t found = ((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) |
                     ((slash - ones) & ~slash) | ((lead - ones) & ~lead);
    return (found & tops) != 0;
}

/* Copies n < TCI_VEC_BYTES plain bytes, by two words that overlap: most names and values are that
 * short, and a loop of unknown length is what they would cost. False, and nothing is promised of
 * out, when one of them is not plain. */
static inline bool copy_short(char *out, const char *p, size_t n)
{
    uint64_t w[2] = {0, 0};
    if (n >= 8) {
        memcpy(&w[0], p, 8);
        memcpy(&w[1], p + n - 8, 8);
        memcpy(out, &w[0], 8);
        memcpy(out + n - 8, &w[1], 8);
        return !has_stop(w[0]) && !has_stop(w[1]);
    }
    if (n >= 4) {
        uint32_t h[2];
        memcpy(&h[0], p, 4);
        memcpy(&h[1], p + n - 4, 4);
        memcpy(out, &h[0], 4);
        memcpy(out + n - 4, &h[1], 4);
        return !has_stop((uint64_t)h[0] << 32 | h[1]);
    }
    for (size_t i = 0; i < n; i++) {
        if (is_stop(p[i]))
            return false;
        out[i] = p[i];
    }
    return true;
}

/* The letter of a short escape, 0 when there is none. */
static char short_escape(char c)
{
    static const char letters[0x60] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                       ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
    return (unsigned char)c < sizeof letters ? letters[(unsigned char)c] : 0;
}

/* What the character at *i, which is_stop, becomes; moves past it. Returns its length. */
static size_t escape(tc_str s, size_t *i, char out[ESCAPE_MAX])
{
    const char *digits = "0123456789abcdef";
    char c = s.ptr[*i];
    if (is_surrogate(s, *i)) {
        unsigned b = (unsigned char)s.ptr[*i + 1], d = (unsigned char)s.ptr[*i + 2];
        memcpy(out, "\\ud", 3);
        out[3] = digits[b >> 2 & 0xf];
        out[4] = digits[(b & 3) << 2 | (d >> 4 & 3)];
        out[5] = digits[d & 0xf];
        *i += 3;
        return 6;
    }
    (*i)++;
    if ((unsigned char)c == 0xed) { /* an ordinary character up to U+D7FF */
        out[0] = c;
        return 1;
    }
    out[0] = '\\';
    out[1] = short_escape(c);
    if (out[1] != 0)
        return 2;
    memcpy(out, "\\u00", 4);
    out[4] = digits[(unsigned char)c >> 4];
    out[5] = digits[c & 0xf];
    return 6;
}

static size_t escaped_len(tc_str s)
{
    char ignored[ESCAPE_MAX];
    size_t len = 0, i = 0;
    while (i < s.len) {
        size_t n = TCI_VEC_BYTES;
        while (n == TCI_VEC_BYTES && s.len - i >= TCI_VEC_BYTES) {
            n = first_stop(tci_vec_load(s.ptr + i));
            i += n;
            len += n;
        }
        for (; i < s.len && !is_stop(s.ptr[i]); i++)
            len++;
        if (i < s.len)
            len += escape(s, &i, ignored);
    }
    return len;
}

/* Room for an escape, the rest of s and what follows it. A string may fill the buffer to its last
 * byte, so room is never asked for that it may not need: at first for the least, and when escapes
 * make that too little, for exactly the rest. NULL after a failure. */
static char *more_room(tci_buf *b, char *out, size_t escape_len, tc_str rest, size_t after)
{
    b->len = (size_t)(out - b->ptr);
    if (b->cap - b->len >= escape_len + rest.len + after)
        return out;
    return tci_buf_reserve(b, escape_len + escaped_len(rest) + after);
}

/* [,]"s"[:] */
static void put_quoted(tci_buf *b, bool has_comma, tc_str s, bool has_colon)
{
    if (s.ptr == NULL) /* so that it can be pointed into */
        s = TC_STR("");
    const size_t before = b->len, after = 1 + (size_t)has_colon;
    size_t least, at = 0;
    if (!tci_add_size(s.len, 1 + (size_t)has_comma + after, &least)) {
        b->failed = TC_E_TOO_BIG;
        return;
    }
    char *out = tci_buf_reserve(b, least);
    if (out == NULL)
        return;
    const char *end = b->ptr + b->cap;
    if (has_comma)
        *out++ = ',';
    *out++ = '"';
    for (;;) {
        size_t n = TCI_VEC_BYTES;
        while (n == TCI_VEC_BYTES && s.len - at >= TCI_VEC_BYTES) {
            tci_vec v = tci_vec_load(s.ptr + at);
            memcpy(out, &v, sizeof v);
            n = first_stop(v);
            at += n;
            out += n;
        }
        if (n == TCI_VEC_BYTES && copy_short(out, s.ptr + at, s.len - at)) {
            out += s.len - at;
            break;
        }
        while (!is_stop(s.ptr[at])) /* there is one: the scan or the copy saw it */
            *out++ = s.ptr[at++];
        char letter = short_escape(s.ptr[at]);
        if (letter != 0 && end - out > (ptrdiff_t)(s.len - at + after)) {
            *out++ = '\\';
            *out++ = letter;
            at++;
            continue;
        }
        char text[ESCAPE_MAX];
        n = escape(s, &at, text);
        out = more_room(b, out, n, tci_str_sub(s, at, s.len), after);
        if (out == NULL) {
            b->len = before;
            return;
        }
        end = b->ptr + b->cap;
        for (size_t i = 0; i < n; i++)
            *out++ = text[i];
    }
    *out++ = '"';
    if (has_colon)
        *out++ = ':';
    b->len = (size_t)(out - b->ptr);
}

void tci_json_put_str(tci_buf *b, tc_str s)
{
    put_quoted(b, false, s, false);
}

void tci_json_put_bool(tci_buf *b, bool v)
{
    tci_buf_append_str(b, v ? TC_STR("true") : TC_STR("false"));
}

void tci_json_put_double(tci_buf *b, double v)
{
    TC_ASSERT(isfinite(v));
    char text[TCI_NUM_TEXT_MAX];
    tci_buf_append(b, text, tci_num_double_text(v, text));
}

void tci_json_put_base64(tci_buf *b, tc_str bytes)
{
    tci_buf_append_byte(b, '"');
    tci_base64_append(b, bytes);
    tci_buf_append_byte(b, '"');
}

void tci_json_put_key(tci_buf *b, bool *first, tc_str key)
{
    put_quoted(b, !*first, key, true);
    *first = false;
}

void tci_json_put_member(tci_buf *b, bool *first, const char *key, tc_str text)
{
    tci_json_put_key(b, first, tci_str(key));
    tci_json_put_str(b, text);
}

static void put(tci_buf *b, const tci_json *v, tci_json_order order, unsigned depth);

static int by_key(const void *a, const void *b)
{
    const tci_json_member *const *left = a, *const *right = b;
    return tci_str_cmp((*left)->key, (*right)->key);
}

static void put_sorted(tci_buf *b, const tci_json *v, unsigned depth)
{
    const tci_json_member *few[SORT_FEW], **sorted = few;
    if (v->count > SORT_FEW) {
        sorted = tci_mem_array(v->count, sizeof *sorted);
        if (sorted == NULL) {
            b->failed = TC_E_NO_MEMORY;
            return;
        }
    }
    for (uint32_t i = 0; i < v->count; i++)
        sorted[i] = &v->u.members[i];
    qsort(sorted, v->count, sizeof *sorted, by_key);
    bool first = true;
    for (uint32_t i = 0; i < v->count && tci_buf_ok(b); i++) {
        tci_json_put_key(b, &first, sorted[i]->key);
        put(b, &sorted[i]->value, TCI_JSON_SORTED, depth + 1);
    }
    if (sorted != few)
        tci_mem_free(sorted);
}

static void put_members(tci_buf *b, const tci_json *v, tci_json_order order, unsigned depth)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    if (order == TCI_JSON_SORTED) {
        put_sorted(b, v, depth);
    } else {
        for (uint32_t i = 0; i < v->count && tci_buf_ok(b); i++) {
            tci_json_put_key(b, &first, v->u.members[i].key);
            put(b, &v->u.members[i].value, order, depth + 1);
        }
    }
    tci_buf_append_byte(b, '}');
}

static void put(tci_buf *b, const tci_json *v, tci_json_order order, unsigned depth)
{
    TC_ASSERT(depth < PUT_DEPTH_MAX);
    switch (v->kind) {
    case TCI_JSON_NULL:
        tci_buf_append_str(b, TC_STR("null"));
        break;
    case TCI_JSON_FALSE:
    case TCI_JSON_TRUE:
        tci_json_put_bool(b, v->kind == TCI_JSON_TRUE);
        break;
    case TCI_JSON_NUMBER:
        tci_buf_append_str(b, v->u.text);
        break;
    case TCI_JSON_STRING:
        tci_json_put_str(b, v->u.text);
        break;
    case TCI_JSON_ARRAY:
        tci_buf_append_byte(b, '[');
        for (uint32_t i = 0; i < v->count && tci_buf_ok(b); i++) {
            if (i > 0)
                tci_buf_append_byte(b, ',');
            put(b, &v->u.items[i], order, depth + 1);
        }
        tci_buf_append_byte(b, ']');
        break;
    case TCI_JSON_OBJECT:
        put_members(b, v, order, depth);
        break;
    }
}

void tci_json_put(tci_buf *b, const tci_json *v, tci_json_order order)
{
    put(b, v, order, 0);
}
