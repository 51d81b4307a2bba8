/* SPDX-License-Identifier: Apache-2.0
 *
 * Stepping over JSON (RFC 8259) without building anything: one look at each byte, sixteen at a
 * time inside strings. Leaves UTF-8 to base/utf8.h and decoding to base/json.h. Any thread.
 * Invariant: at never passes end, and what was stepped over is well formed. */
#include "store/jsonl/jsonl_scan.h"
#include "base/num.h"
#include "base/utf8.h"
#include "base/vec.h"

static bool fail(tci_scan *s)
{
    s->at = NULL;
    return false;
}

static inline bool is_blank(char c)
{
    return TCI_UNLIKELY((unsigned char)c <= ' ') &&
           (c == ' ' || c == '\t' || c == '\n' || c == '\r');
}

static inline const char *blanks(const char *p, const char *end)
{
    while (p < end && is_blank(*p))
        p++;
    return p;
}

/* The first byte that is not an ordinary one of a string; end when there is none. */
static inline const char *plain_end(const char *p, const char *end)
{
    for (; end - p >= TCI_VEC_BYTES; p += TCI_VEC_BYTES) {
        tci_vec stops = tci_vec_json_stops(tci_vec_load(p));
        if (tci_vec_any(stops))
            return p + tci_vec_first(stops);
        for (; end - p >= 3 * TCI_VEC_BYTES;
             p += 2 * TCI_VEC_BYTES) { /* in a long text, two at once */
            if (tci_vec_any(tci_vec_json_stops(tci_vec_load(p + TCI_VEC_BYTES)) |
                            tci_vec_json_stops(tci_vec_load(p + 2 * TCI_VEC_BYTES))))
                break;
        }
    }
    while (p < end && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\')
        p++;
    return p;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* p at a backslash; behind the escape, or NULL. */
static const char *escape_end(const char *p, const char *end)
{
    if (end - p < 2)
        return NULL;
    if (p[1] != 'u')
        return memchr("\"\\/bfnrt", p[1], 8) != NULL ? p + 2 : NULL;
    if (end - p < 6)
        return NULL;
    for (int i = 2; i < 6; i++) {
        if (!is_hex(p[i]))
            return NULL;
    }
    return p + 6;
}

/* p at the opening quote; behind the closing one, or NULL. */
static const char *string_end(const char *p, const char *end)
{
    p++;
    for (;;) {
        p = plain_end(p, end);
        if (p == end || (unsigned char)*p < 0x20)
            return NULL;
        if (*p == '"')
            return p + 1;
        p = escape_end(p, end);
        if (p == NULL)
            return NULL;
    }
}

static const char *digits(const char *p, const char *end)
{
    const char *from = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p > from ? p : NULL;
}

static const char *number_end(const char *p, const char *end)
{
    if (*p == '-')
        p++;
    if (p < end && *p == '0')
        p++;
    else
        p = digits(p, end);
    if (p != NULL && p < end && *p == '.')
        p = digits(p + 1, end);
    if (p == NULL || p == end || (*p != 'e' && *p != 'E'))
        return p;
    p++;
    if (p < end && (*p == '+' || *p == '-'))
        p++;
    return digits(p, end);
}

static const char *word_end(const char *p, const char *end, const char *word, size_t len)
{
    return (size_t)(end - p) >= len && memcmp(p, word, len) == 0 ? p + len : NULL;
}

/* A value that holds no others. */
static const char *scalar_end(const char *p, const char *end)
{
    switch (*p) {
    case '"':
        return string_end(p, end);
    case 't':
        return word_end(p, end, "true", 4);
    case 'f':
        return word_end(p, end, "false", 5);
    case 'n':
        return word_end(p, end, "null", 4);
    default:
        return *p == '-' || (*p >= '0' && *p <= '9') ? number_end(p, end) : NULL;
    }
}

/* p before a key; behind its colon, or NULL. */
static const char *key_end(const char *p, const char *end)
{
    p = blanks(p, end);
    if (p == end || *p != '"')
        return NULL;
    p = string_end(p, end);
    if (p == NULL)
        return NULL;
    p = blanks(p, end);
    return p < end && *p == ':' ? p + 1 : NULL;
}

/* The containers around the place where we are: a bit each, set for an object. */
typedef struct nest {
    uint64_t bits[TCI_SCAN_DEPTH_MAX / 64];
    size_t depth, max;
} nest;

static bool nest_push(nest *n, bool is_object)
{
    if (n->depth == n->max)
        return false;
    uint64_t bit = UINT64_C(1) << (n->depth % 64), *word = &n->bits[n->depth / 64];
    *word = is_object ? *word | bit : *word & ~bit;
    n->depth++;
    return true;
}

static bool nest_is_object(const nest *n)
{
    return (n->bits[(n->depth - 1) / 64] >> ((n->depth - 1) % 64) & 1) != 0;
}

/* Behind a value: the place where the next one of the innermost container begins, NULL for malformed.
 * *is_done: the outermost value has ended there. */
static const char *to_next(nest *n, const char *p, const char *end, bool *is_done)
{
    while (n->depth > 0) {
        p = blanks(p, end);
        if (p == end)
            return NULL;
        bool is_object = nest_is_object(n);
        if (*p == ',')
            return is_object ? key_end(p + 1, end) : p + 1;
        if (*p != (is_object ? '}' : ']'))
            return NULL;
        n->depth--;
        p++;
    }
    *is_done = true;
    return p;
}

/* p at an opening brace or bracket; where its first value begins, or behind the empty container. */
static const char *into(nest *n, const char *p, const char *end, bool *is_empty)
{
    bool is_object = *p == '{';
    const char *inside = blanks(p + 1, end);
    *is_empty = inside < end && *inside == (is_object ? '}' : ']');
    if (*is_empty)
        return n->depth < n->max ? inside + 1 : NULL;
    if (!nest_push(n, is_object))
        return NULL;
    return is_object ? key_end(inside, end) : inside;
}

static const char *value_end(const char *p, const char *end, size_t max_depth)
{
    nest n = {.max = max_depth};
    bool is_done = false;
    while (!is_done) {
        p = blanks(p, end);
        if (p == end)
            return NULL;
        bool has_ended = true;
        if (*p == '{' || *p == '[')
            p = into(&n, p, end, &has_ended);
        else
            p = scalar_end(p, end);
        if (p != NULL && has_ended)
            p = to_next(&n, p, end, &is_done);
        if (p == NULL)
            return NULL;
    }
    return p;
}

bool tci_scan_value(tci_scan *s, tc_str *ret_raw)
{
    if (s->at == NULL)
        return false;
    const char *from = blanks(s->at, s->end);
    const char *to = NULL;
    if (from < s->end)
        to = *from == '{' || *from == '[' ? value_end(from, s->end, TCI_SCAN_DEPTH_MAX)
                                          : scalar_end(from, s->end);
    if (to == NULL)
        return fail(s);
    s->at = to;
    if (ret_raw != NULL)
        *ret_raw = tci_str_of(from, (size_t)(to - from));
    return true;
}

static bool enter(tci_scan *s, char open)
{
    if (s->at == NULL)
        return false;
    s->at = blanks(s->at, s->end);
    if (s->at == s->end || *s->at != open)
        return fail(s);
    s->at++;
    return true;
}

bool tci_scan_object(tci_scan *s)
{
    return enter(s, '{');
}

bool tci_scan_array(tci_scan *s)
{
    return enter(s, '[');
}

/* True when there is another one, whose first byte is then at s->at. */
static bool another(tci_scan *s, bool *first, char close)
{
    if (s->at == NULL)
        return false;
    s->at = blanks(s->at, s->end);
    if (s->at == s->end)
        return fail(s);
    if (*s->at == close) {
        s->at++;
        return false;
    }
    if (!*first) {
        if (*s->at != ',')
            return fail(s);
        s->at = blanks(s->at + 1, s->end);
    }
    *first = false;
    return s->at < s->end || fail(s);
}

bool tci_scan_member(tci_scan *s, bool *first, tci_arena *a, tc_str *ret_key)
{
    if (!another(s, first, '}'))
        return false;
    const char *from = s->at;
    if (*from != '"')
        return fail(s);
    const char *to = string_end(from, s->end);
    if (to == NULL || !tci_raw_string(tci_str_of(from, (size_t)(to - from)), a, ret_key))
        return fail(s);
    s->at = blanks(to, s->end);
    if (s->at == s->end || *s->at != ':')
        return fail(s);
    s->at++;
    return true;
}

bool tci_scan_item(tci_scan *s, bool *first)
{
    return another(s, first, ']');
}

bool tci_jsonl_scan_end(tci_scan *s)
{
    if (s->at == NULL)
        return false;
    s->at = blanks(s->at, s->end);
    return s->at == s->end || fail(s);
}

bool tci_raw_string(tc_str raw, tci_arena *a, tc_str *ret)
{
    if (raw.len < 2 || raw.ptr[0] != '"')
        return false;
    if (tci_str_find_byte(raw, '\\') == raw.len) {
        *ret = tci_str_sub(raw, 1, raw.len - 2);
        return true;
    }
    tci_json v;
    tc_err err;
    return tci_json_parse(raw, TCI_JSON_KEEP_SURROGATES, a, &v, &err) == 0 &&
           tci_json_as_str(&v, ret);
}

bool tci_raw_count(tc_str raw, uint64_t *ret)
{
    uint64_t n;
    tc_err err;
    if (raw.len == 0 || raw.ptr[0] < '0' || raw.ptr[0] > '9' || tci_num_u64(raw, &n, &err) < 0 ||
        n > UINT64_C(9007199254740991))
        return false;
    *ret = n;
    return true;
}

bool tci_raw_id(tc_str raw, uint64_t *ret)
{
    uint64_t n;
    if (!tci_raw_count(raw, &n) || n == 0)
        return false;
    *ret = n;
    return true;
}

bool tci_raw_bool(tc_str raw, bool *ret)
{
    bool is_true = tci_str_eq(raw, TC_STR("true"));
    if (!is_true && !tci_str_eq(raw, TC_STR("false")))
        return false;
    *ret = is_true;
    return true;
}

bool tci_json_is_line(tc_str text)
{
    if (text.len == 0 || memchr(text.ptr, '\n', text.len) != NULL || !tci_utf8_is_valid(text))
        return false;
    const char *end = text.ptr + text.len;
    const char *from = blanks(text.ptr, end);
    const char *to = from < end ? value_end(from, end, TCI_JSON_DEPTH_MAX) : NULL;
    return to != NULL && blanks(to, end) == end;
}
