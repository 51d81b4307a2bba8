/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds members and items in JSON text by skipping over values. Leaves checking the text to whoever
 * stored it. Any thread. Invariant: nothing is read outside the text, whatever is in it. */
#include "harness/generation/context_scan.h"
#include "base/json.h"
#include "base/vec.h"

static const char *skip_blank(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

/* The next quote; NULL when there is none. Keys and short values end in the first bytes, where a call would
 * cost more than it finds. */
static inline const char *find_quote(const char *at, const char *end)
{
    if (end - at >= TCI_VEC_BYTES) {
        size_t n = tci_vec_first((tci_vec)(tci_vec_load(at) == '"'));
        at += n;
        if (n < TCI_VEC_BYTES)
            return at;
    }
    return memchr(at, '"', (size_t)(end - at));
}

/* at is after the opening quote; the result is after the closing one, or end. */
static inline const char *skip_string(const char *at, const char *end)
{
    const char *start = at;
    while (at < end) {
        const char *quote = find_quote(at, end);
        if (quote == NULL)
            return end;
        const char *back = quote;
        while (back > start && back[-1] == '\\')
            back--;
        at = quote + 1;
        if ((quote - back) % 2 == 0)
            return at;
    }
    return end;
}

static const char *skip_nested(const char *at, const char *end)
{
    size_t depth = 0;
    while (at < end) {
        char c = *at++;
        if (c == '"') {
            at = skip_string(at, end);
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (--depth == 0)
                return at;
        }
    }
    return end;
}

static const char *skip_value(const char *at, const char *end)
{
    if (at >= end)
        return end;
    if (*at == '"')
        return skip_string(at + 1, end);
    if (*at == '{' || *at == '[')
        return skip_nested(at, end);
    while (at < end && (unsigned char)*at > ' ' && *at != ',' && *at != '}' && *at != ']')
        at++;
    return at;
}

static bool enter(tc_str text, char opener, tci_parts *ret)
{
    const char *end = text.ptr + text.len;
    const char *at = skip_blank(text.ptr, end);
    if (text.len == 0 || at == end || *at != opener)
        return false;
    ret->at = at + 1;
    ret->end = end;
    return true;
}

bool tci_part_object(tc_str text, tci_parts *ret)
{
    return enter(text, '{', ret);
}

bool tci_part_array(tc_str text, tci_parts *ret)
{
    return enter(text, '[', ret);
}

/* at is behind a value: to behind a comma after it. */
static const char *skip_comma(const char *at, const char *end)
{
    at = skip_blank(at, end);
    return at < end && *at == ',' ? at + 1 : at;
}

/* The value at s, and the position behind it and a comma. */
static tc_str take_value(tci_parts *s)
{
    const char *from = skip_blank(s->at, s->end);
    const char *to = skip_value(from, s->end);
    s->at = skip_comma(to, s->end);
    return tci_str_of(from, (size_t)(to - from));
}

bool tci_part_enter(tci_parts *s, char opener)
{
    const char *at = skip_blank(s->at, s->end);
    if (at == s->end || *at != opener)
        return false;
    s->at = at + 1;
    return true;
}

bool tci_part_next(tci_parts *s)
{
    s->at = skip_blank(s->at, s->end);
    return s->at < s->end && *s->at != ']';
}

const char *tci_part_leave(tci_parts *s, char closer)
{
    const char *at = skip_blank(s->at, s->end);
    if (at == s->end || *at != closer)
        return NULL;
    s->at = skip_comma(at + 1, s->end);
    return at + 1;
}

tc_str tci_part_skip(tci_parts *s)
{
    return take_value(s);
}

/* The next key as written; s is then before its value. */
static bool take_key(tci_parts *s, tc_str *ret_key)
{
    const char *at = skip_blank(s->at, s->end);
    if (at >= s->end || *at != '"')
        return false;
    const char *key = at + 1;
    const char *after = skip_string(key, s->end);
    at = skip_blank(after, s->end);
    if (at >= s->end || *at != ':' || after <= key)
        return false;
    s->at = at + 1;
    *ret_key = tci_str_of(key, (size_t)(after - key) - 1);
    return true;
}

bool tci_part_member(tci_parts *s, tc_str *ret_key, tc_str *ret_value)
{
    if (!take_key(s, ret_key))
        return false;
    *ret_value = take_value(s);
    return ret_value->len > 0;
}

bool tci_part_item(tci_parts *s, tc_str *ret_value)
{
    const char *at = skip_blank(s->at, s->end);
    if (at >= s->end || *at == ']')
        return false;
    *ret_value = take_value(s);
    return ret_value->len > 0;
}

/* Compare escaped text with plain text. */
static bool escaped_is(tc_str raw, tc_str plain)
{
    char room[512];
    if (raw.len + 2 > sizeof room)
        return false;
    room[0] = '"';
    memcpy(room + 1, raw.ptr, raw.len);
    room[raw.len + 1] = '"';
    tci_arena a;
    tci_arena_init(&a, 0);
    tci_json v;
    tc_err err;
    tc_str text;
    bool is_same = tci_json_parse(tci_str_of(room, raw.len + 2), TCI_JSON_KEEP_SURROGATES, &a, &v,
                                  &err) == 0 &&
                   tci_json_as_str(&v, &text) && tci_str_eq(text, plain);
    tci_arena_done(&a);
    return is_same;
}

static bool raw_is(tc_str raw, tc_str plain)
{
    if (tci_str_eq(raw, plain))
        return true;
    return raw.len > plain.len && memchr(raw.ptr, '\\', raw.len) != NULL && escaped_is(raw, plain);
}

bool tci_part_find(tc_str object, tc_str key, tci_parts *ret)
{
    tci_parts s;
    tc_str k;
    if (!tci_part_object(object, &s))
        return false;
    while (take_key(&s, &k)) {
        if (raw_is(k, key)) {
            *ret = s;
            return true;
        }
        if (take_value(&s).len == 0)
            return false;
    }
    return false;
}

tc_str tci_part_get(tc_str object, tc_str key)
{
    tci_parts s;
    return tci_part_find(object, key, &s) ? take_value(&s) : (tc_str){NULL, 0};
}

bool tci_part_is_str(tc_str text, tc_str s)
{
    return text.len >= 2 && text.ptr[0] == '"' && raw_is(tci_str_sub(text, 1, text.len - 2), s);
}

bool tci_part_str(tc_str text, tci_arena *a, tc_str *ret)
{
    if (text.len < 2 || text.ptr[0] != '"')
        return false;
    if (memchr(text.ptr, '\\', text.len) == NULL) {
        *ret = tci_str_sub(text, 1, text.len - 2);
        return true;
    }
    tci_json *v = tci_arena_new(a, tci_json);
    tc_err err;
    return v != NULL && tci_json_parse(text, TCI_JSON_KEEP_SURROGATES, a, v, &err) == 0 &&
           tci_json_as_str(v, ret);
}

bool tci_part_u64(tc_str text, uint64_t *ret)
{
    uint64_t n = 0;
    if (text.len == 0 || text.len > 19)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    *ret = n;
    return true;
}
