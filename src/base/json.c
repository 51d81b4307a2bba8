/* SPDX-License-Identifier: Apache-2.0
 *
 * The strict parser: one pass over the text, no recursion. Leaves emitting to json_put.c and
 * meaning to proto. One thread at a time.
 *
 * Invariant: values under construction lie on a stack of plain bytes in order of the text: a slot
 * of 24 bytes (tci_json) for each item of an open array, of 40 (tci_json_member) for each member
 * of an open object. When a container closes, its slots are copied to the arena at once, and its
 * own slot, just below, gets the result. */
#include "base/json.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/utf8.h"
#include "base/vec.h"

enum {
    STACK_FIRST = 4096, /* bytes on the C stack; more comes from the heap */
    LINEAR_MAX = 24     /* members up to which a look at each is quicker than a table */
};

typedef struct open_container {
    size_t base; /* stack offset of the first slot */
    bool is_object;
} open_container;

typedef struct parser {
    const char *begin, *at, *end;
    tci_arena *arena;
    tc_err *err;
    unsigned flags;
    tc_code failed; /* why the walk stopped early */
    bool has_conflict;
    tc_str repeated; /* the first repeated key */
    unsigned depth;
    char *stack;
    size_t top, cap;
    open_container open[TCI_JSON_DEPTH_MAX];
    _Alignas(16) char first[STACK_FIRST];
} parser;

/* --- failing ---------------------------------------------------------------------------------- */

static bool malformed(parser *p, const char *at, const char *what)
{
    if (p->failed != TC_OK)
        return false;
    p->failed = TC_E_PARSE;
    (void)tc_err_set(p->err, TC_E_PARSE, "malformed JSON at byte %zu: %s", (size_t)(at - p->begin),
                     what);
    return false;
}

static bool arena_failed(parser *p)
{
    p->failed = (tc_code)tci_arena_error(p->arena, p->err);
    return false;
}

static bool no_memory(parser *p)
{
    p->failed = TC_E_NO_MEMORY;
    (void)tci_err_no_memory(p->err);
    return false;
}

/* --- the stack -------------------------------------------------------------------------------- */

static bool stack_grow(parser *p)
{
    size_t cap = p->cap * 2;
    if (cap > p->arena->limit) {
        p->failed = (tc_code)tc_err_set(
            p->err, TC_E_TOO_BIG, "more than %zu bytes of working memory needed", p->arena->limit);
        return false;
    }
    char *stack = tci_mem_resize(p->stack == p->first ? NULL : p->stack, cap);
    if (stack == NULL)
        return no_memory(p);
    if (p->stack == p->first)
        memcpy(stack, p->first, p->top);
    p->stack = stack;
    p->cap = cap;
    return true;
}

/* Offset of the new slot in *at. */
static inline bool push(parser *p, size_t size)
{
    if (TCI_UNLIKELY(size > p->cap - p->top) && !stack_grow(p))
        return false;
    p->top += size;
    return true;
}

/* Every slot ends in its tci_json, so the value on top is always there. Filled in place: a value
 * put together elsewhere and then copied waits for its own stores. */
static inline tci_json *top(parser *p)
{
    return (tci_json *)(void *)(p->stack + p->top - sizeof(tci_json));
}

/* --- strings ---------------------------------------------------------------------------------- */

/* The first byte from at on that needs a look: a quote, a backslash, a control character, one
 * outside ASCII, or the end. */
static inline const char *plain_end(const char *at, const char *end)
{
    while (end - at >= TCI_VEC_BYTES) {
        tci_vec v = tci_vec_load(at);
        size_t n = tci_vec_first(tci_vec_json_stops(v) | (tci_vec)(v > 0x7f));
        at += n;
        if (n < TCI_VEC_BYTES)
            return at;
    }
    for (; at != end; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\' || c < 0x20 || c > 0x7f)
            break;
    }
    return at;
}

static bool hex4(const char *at, const char *end, unsigned *ret)
{
    unsigned value = 0;
    if (end - at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = at[i], low = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            value = value << 4 | (unsigned)(c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value << 4 | (unsigned)(low - 'a' + 10);
        else
            return false;
    }
    *ret = value;
    return true;
}

/* The escape \uXXXX whose digits begin at from; moves past it, and past the second half of a pair.
 * Returns the end of what it wrote to out, NULL on failure. */
static char *unicode_escape(parser *p, const char **from, const char *end, char *out)
{
    unsigned unit, low;
    const char *at = *from;
    if (!hex4(at, end, &unit)) {
        (void)malformed(p, at - 2, "\\u needs four hexadecimal digits");
        return NULL;
    }
    *from = at + 4;
    if ((unit & 0xf800) != 0xd800)
        return out + tci_utf8_encode(unit, out);
    if ((unit & 0xfc00) == 0xd800 && end - at >= 10 && at[4] == '\\' && at[5] == 'u' &&
        hex4(at + 6, end, &low) && (low & 0xfc00) == 0xdc00) {
        *from = at + 10;
        return out + tci_utf8_encode(0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff), out);
    }
    if (!(p->flags & TCI_JSON_KEEP_SURROGATES)) {
        (void)malformed(p, at - 2, "half of a surrogate pair");
        return NULL;
    }
    *out++ = (char)(unsigned char)(0xe0 | unit >> 12);
    *out++ = (char)(unsigned char)(0x80 | (unit >> 6 & 0x3f));
    *out++ = (char)(unsigned char)(0x80 | (unit & 0x3f));
    return out;
}

/* Decodes raw (which has no bare quote, no control characters and is valid UTF-8) into out, which
 * has room for raw.len bytes: no escape is shorter than what it stands for. NULL on failure. */
static char *unescape(parser *p, tc_str raw, char *out)
{
    static const char plain[256] = {['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
                                    ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t'};
    const char *at = raw.ptr, *end = raw.ptr + raw.len;
    for (;;) {
        if (end - at >= TCI_VEC_BYTES) {
            tci_vec v = tci_vec_load(at); /* out lags behind at, so there is room */
            memcpy(out, &v, sizeof v);
            size_t n = tci_vec_first((tci_vec)(v == '\\'));
            at += n;
            out += n;
            if (n == TCI_VEC_BYTES)
                continue;
        } else {
            while (at != end && *at != '\\')
                *out++ = *at++;
            if (at == end)
                return out;
        }
        char c = at[1];
        at += 2; /* the scan saw to it that a byte follows */
        if (c == 'u') {
            out = unicode_escape(p, &at, end, out);
            if (out == NULL)
                return NULL;
        } else if (plain[(unsigned char)c] != 0) {
            *out++ = plain[(unsigned char)c];
        } else {
            (void)malformed(p, at - 2, "unknown escape");
            return NULL;
        }
    }
}

/* The closing quote of the string that begins at end; sets whether it has escapes. NULL on failure.
 */
static const char *string_end(parser *p, const char *end, bool *has_escapes)
{
    for (;;) {
        end = plain_end(end, p->end);
        if (TCI_UNLIKELY(end == p->end)) {
            (void)malformed(p, end, "the string does not end");
            return NULL;
        }
        unsigned char c = (unsigned char)*end;
        if (c == '"')
            return end;
        if (c == '\\') {
            *has_escapes = true;
            end += p->end - end >= 2 && (unsigned char)end[1] < 0x80 ? 2 : 1;
        } else if (c > 0x7f) {
            size_t n = tci_utf8_high_prefix(tci_str_of(end, (size_t)(p->end - end)));
            end += n;
            if (n == 0) {
                (void)malformed(p, end, "not UTF-8");
                return NULL;
            }
        } else {
            (void)malformed(p, end, "control character in a string");
            return NULL;
        }
    }
}

/* p->at is after the opening quote; moves after the closing one. */
static bool read_string(parser *p, tc_str *ret)
{
    const char *begin = p->at;
    bool has_escapes = false;
    const char *end = string_end(p, begin, &has_escapes);
    if (end == NULL)
        return false;
    tc_str raw = tci_str_of(begin, (size_t)(end - begin));
    p->at = end + 1;
    *ret = raw;
    if (!has_escapes)
        return true;
    char *out = tci_arena_bytes(p->arena, raw.len);
    if (out == NULL)
        return arena_failed(p);
    char *out_end = unescape(p, raw, out);
    if (out_end == NULL)
        return false;
    size_t len = (size_t)(out_end - out);
    *ret = tci_str_of(tci_arena_grow(p->arena, out, raw.len, len), len); /* gives back the rest */
    return true;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static bool is_digit(const parser *p, const char *at)
{
    return at != p->end && *at >= '0' && *at <= '9';
}

static bool read_number(parser *p, tc_str *ret)
{
    const char *begin = p->at, *at = begin;
    at += *at == '-';
    if (!is_digit(p, at))
        return malformed(p, at, at == p->end ? "the text ends early" : "not a value");
    if (*at == '0' && is_digit(p, at + 1))
        return malformed(p, at, "number with a leading zero");
    while (is_digit(p, at))
        at++;
    if (at != p->end && *at == '.') {
        if (!is_digit(p, ++at))
            return malformed(p, at, "digit missing after the decimal point");
        while (is_digit(p, at))
            at++;
    }
    if (at != p->end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at != p->end && (*at == '+' || *at == '-');
        if (!is_digit(p, at))
            return malformed(p, at, "digit missing in the exponent");
        while (is_digit(p, at))
            at++;
    }
    p->at = at;
    *ret = tci_str_of(begin, (size_t)(at - begin));
    return true;
}

/* The next byte that is no blank, not consumed; 0 at the end (a NUL in the text is as wrong). */
static inline char next(parser *p)
{
    while (p->at != p->end) {
        char c = *p->at;
        if (c > ' ' || (c != ' ' && c != '\n' && c != '\r' && c != '\t'))
            return c;
        p->at++;
    }
    return 0;
}

/* --- equal keys ------------------------------------------------------------------------------- */

static void keep_one(parser *p, tci_json_member *kept, const tci_json_member *again)
{
    if (p->flags & TCI_JSON_LAST_KEY_WINS) {
        kept->value = again->value;
    } else if (!p->has_conflict) {
        p->has_conflict = true;
        p->repeated = again->key;
    }
}

/* One bit of 64 by which most keys of a small object differ. */
static uint64_t key_bit(tc_str key)
{
    if (key.len == 0)
        return 1;
    unsigned char first = (unsigned char)key.ptr[0], last = (unsigned char)key.ptr[key.len - 1];
    return (uint64_t)1 << ((key.len * 7 + first * 3u + last) & 63);
}

/* Drops later members with an earlier key; returns how many stay. */
static size_t unique_few(parser *p, tci_json_member *m, size_t n)
{
    uint64_t seen = 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t bit = key_bit(m[i].key);
        size_t j = kept;
        if (TCI_UNLIKELY(seen & bit)) {
            for (j = 0; j < kept && !tci_str_eq(m[j].key, m[i].key); j++)
                ;
        }
        if (TCI_UNLIKELY(j < kept)) {
            keep_one(p, &m[j], &m[i]);
            continue;
        }
        seen |= bit;
        if (kept != i)
            m[kept] = m[i];
        kept++;
    }
    return kept;
}

/* The same with a table of 32-bit places, 0 for none. SIZE_MAX without memory. */
static size_t unique_many(parser *p, tci_json_member *m, size_t n)
{
    size_t cap = 64;
    while (cap < n * 2)
        cap *= 2;
    uint32_t *table = tci_mem_array(cap, sizeof *table);
    if (table == NULL)
        return SIZE_MAX;
    /* Where the memory lies is not known to whoever wrote the text. */
    uint64_t seed = (uint64_t)(uintptr_t)table * 0x9e3779b97f4a7c15u ^ (uint64_t)(uintptr_t)p;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = tci_hash64(m[i].key.ptr, m[i].key.len, seed) & (cap - 1);
        while (table[at] != 0 && !tci_str_eq(m[table[at] - 1].key, m[i].key))
            at = (at + 1) & (cap - 1);
        if (table[at] != 0) {
            keep_one(p, &m[table[at] - 1], &m[i]);
            continue;
        }
        if (kept != i)
            m[kept] = m[i];
        table[at] = (uint32_t)++kept;
    }
    tci_mem_free(table);
    return kept;
}

/* --- containers ------------------------------------------------------------------------------- */

static bool open_one(parser *p, bool is_object)
{
    if (p->depth == TCI_JSON_DEPTH_MAX)
        return malformed(p, p->at, "nested too deeply");
    p->open[p->depth++] = (open_container){p->top, is_object};
    p->at++;
    return true;
}

static bool close_one(parser *p)
{
    open_container c = p->open[--p->depth];
    size_t size = c.is_object ? sizeof(tci_json_member) : sizeof(tci_json);
    size_t bytes = p->top - c.base, n = bytes / size;
    void *slots = NULL;
    p->at++;
    if (n >= UINT32_MAX)
        return malformed(p, p->at, "too many members"); /* count is 32 bits wide */
    if (n > 0) {
        slots = tci_arena_copy(p->arena, p->stack + c.base, bytes);
        if (slots == NULL)
            return arena_failed(p);
        if (c.is_object && n > 1) {
            n = n <= LINEAR_MAX ? unique_few(p, slots, n) : unique_many(p, slots, n);
            if (n == SIZE_MAX)
                return no_memory(p);
        }
    }
    p->top = c.base;
    tci_json *v = top(p);
    v->kind = c.is_object ? TCI_JSON_OBJECT : TCI_JSON_ARRAY;
    v->count = (uint32_t)n;
    if (c.is_object)
        v->u.members = slots;
    else
        v->u.items = slots;
    return true;
}

/* A key, its colon, and a slot for the member. */
static bool read_key(parser *p)
{
    if (next(p) != '"')
        return malformed(p, p->at, p->at == p->end ? "the text ends early" : "a key must follow");
    p->at++;
    if (!push(p, sizeof(tci_json_member)))
        return false;
    tci_json_member *m = TCI_CONTAINER(top(p), tci_json_member, value);
    if (!read_string(p, &m->key))
        return false;
    if (next(p) != ':')
        return malformed(p, p->at,
                         p->at == p->end ? "the text ends early" : "':' must follow a key");
    p->at++;
    return true;
}

/* --- the walk --------------------------------------------------------------------------------- */

typedef enum step { STEP_FAILED, STEP_VALUE_DONE, STEP_OPENED } step;

static step read_word(parser *p, const char *word, size_t len, tci_json_kind kind)
{
    if ((size_t)(p->end - p->at) < len || memcmp(p->at, word, len) != 0) {
        (void)malformed(p, p->at, "not a value");
        return STEP_FAILED;
    }
    p->at += len;
    *top(p) = (tci_json){.kind = kind};
    return STEP_VALUE_DONE;
}

/* One value into the slot on top; a container only as far as its opening. */
static step read_value(parser *p)
{
    tci_json *v = top(p);
    v->count = 0;
    switch (next(p)) {
    case '"':
        p->at++;
        v->kind = TCI_JSON_STRING;
        return read_string(p, &v->u.text) ? STEP_VALUE_DONE : STEP_FAILED;
    case '{':
        return open_one(p, true) ? STEP_OPENED : STEP_FAILED;
    case '[':
        return open_one(p, false) ? STEP_OPENED : STEP_FAILED;
    case 't':
        return read_word(p, "true", 4, TCI_JSON_TRUE);
    case 'f':
        return read_word(p, "false", 5, TCI_JSON_FALSE);
    case 'n':
        return read_word(p, "null", 4, TCI_JSON_NULL);
    case 0:
        (void)malformed(p, p->at, p->at == p->end ? "the text ends early" : "not a value");
        return STEP_FAILED;
    default:
        v->kind = TCI_JSON_NUMBER;
        return read_number(p, &v->u.text) ? STEP_VALUE_DONE : STEP_FAILED;
    }
}

/* After an opening: the slot of the first member, or the end of an empty container. */
static step begin_members(parser *p)
{
    bool is_object = p->open[p->depth - 1].is_object;
    if (next(p) == (is_object ? '}' : ']'))
        return close_one(p) ? STEP_VALUE_DONE : STEP_FAILED;
    bool is_ok = is_object ? read_key(p) : push(p, sizeof(tci_json));
    return is_ok ? STEP_OPENED : STEP_FAILED;
}

/* After a value inside a container: the slot of the next one, or the end of the container. */
static step after_value(parser *p)
{
    bool is_object = p->open[p->depth - 1].is_object;
    char c = next(p);
    if (c == ',') {
        p->at++;
        bool is_ok = is_object ? read_key(p) : push(p, sizeof(tci_json));
        return is_ok ? STEP_OPENED : STEP_FAILED;
    }
    if (c == (is_object ? '}' : ']'))
        return close_one(p) ? STEP_VALUE_DONE : STEP_FAILED;
    (void)malformed(p, p->at,
                    p->at == p->end ? "the text ends early"
                    : is_object     ? "',' or '}' must follow"
                                    : "',' or ']' must follow");
    return STEP_FAILED;
}

/* The value in slot 0, or false with p->failed. */
static bool walk(parser *p)
{
    if (!push(p, sizeof(tci_json)))
        return false;
    for (;;) {
        step s = read_value(p);
        if (s == STEP_OPENED)
            s = begin_members(p);
        while (s == STEP_VALUE_DONE && p->depth > 0)
            s = after_value(p);
        if (s == STEP_FAILED)
            return false;
        if (s == STEP_VALUE_DONE)
            break;
    }
    if (next(p) != 0 || p->at != p->end)
        return malformed(p, p->at, "something follows the value");
    return true;
}

int tci_json_parse(tc_str text, unsigned flags, tci_arena *a, tci_json *ret_value, tc_err *err)
{
    parser p; /* not initialised as a whole: most of it is the stack */
    p.begin = p.at = text.len > 0 ? text.ptr : "";
    p.end = p.begin + text.len;
    p.arena = a;
    p.err = err;
    p.flags = flags;
    p.failed = TC_OK;
    p.has_conflict = false;
    p.depth = 0;
    p.stack = p.first;
    p.top = 0;
    p.cap = sizeof p.first;
    bool is_ok = walk(&p);
    if (is_ok)
        memcpy(ret_value, p.stack, sizeof *ret_value);
    if (p.stack != p.first)
        tci_mem_free(p.stack);
    if (!is_ok)
        return p.failed;
    if (p.has_conflict)
        return tc_err_set(err, TC_E_CONFLICT, "repeated key '%.*s'",
                          (int)tci_min_size(p.repeated.len, 64), p.repeated.ptr);
    return 0;
}

/* --- reading the tree ------------------------------------------------------------------------- */

const tci_json *tci_json_get(const tci_json *v, tc_str key)
{
    if (v == NULL || v->kind != TCI_JSON_OBJECT)
        return NULL;
    for (uint32_t i = 0; i < v->count; i++) {
        if (tci_str_eq(v->u.members[i].key, key))
            return &v->u.members[i].value;
    }
    return NULL;
}

bool tci_json_as_u64(const tci_json *v, uint64_t *ret)
{
    tc_err ignored; /* the answer is yes or no */
    return v != NULL && v->kind == TCI_JSON_NUMBER && tci_num_u64(v->u.text, ret, &ignored) == 0;
}

bool tci_json_as_i64(const tci_json *v, int64_t *ret)
{
    tc_err ignored;
    return v != NULL && v->kind == TCI_JSON_NUMBER && tci_num_i64(v->u.text, ret, &ignored) == 0;
}

bool tci_json_as_double(const tci_json *v, double *ret)
{
    tc_err ignored;
    return v != NULL && v->kind == TCI_JSON_NUMBER && tci_num_double(v->u.text, ret, &ignored) == 0;
}

bool tci_json_as_str(const tci_json *v, tc_str *ret)
{
    if (v == NULL || v->kind != TCI_JSON_STRING)
        return false;
    *ret = v->u.text;
    return true;
}

bool tci_json_as_bool(const tci_json *v, bool *ret)
{
    if (v == NULL || (v->kind != TCI_JSON_TRUE && v->kind != TCI_JSON_FALSE))
        return false;
    *ret = v->kind == TCI_JSON_TRUE;
    return true;
}

tc_str tci_json_str_member(const tci_json *v, const char *key)
{
    tc_str s = {NULL, 0};
    const tci_json *m = tci_json_get(v, tci_str(key));
    if (m != NULL)
        (void)tci_json_as_str(m, &s); /* another type counts as absent */
    return s;
}
