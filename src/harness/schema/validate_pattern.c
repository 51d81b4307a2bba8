/* SPDX-License-Identifier: Apache-2.0
 *
 * A pattern becomes a program of steps, and a text is run through all its branches at once, one
 * character after the other, so no pattern can take exponential time. Captures are not kept; search
 * on a device's files is the device's (tc_env_search), and this stands in where it has none.
 * Any thread.
 *
 * To keep: a step only ever jumps within the program, and each step is entered at most once for
 * each character of the text. */
#include "harness/schema/validate_pattern.h"

#include "base/num.h"
#include "base/utf8.h"

typedef enum step_kind {
    STEP_CLASS, /* one character that is in ranges */
    STEP_SPLIT, /* both to and other */
    STEP_START, /* only at the text's start */
    STEP_END,
    STEP_BORDER, /* between a word character and another */
    STEP_INSIDE, /* not there */
    STEP_MATCH
} step_kind;

typedef struct range {
    uint32_t first, last;
} range;

typedef struct step {
    step_kind kind;
    bool is_negated;
    uint32_t to, other;
    const range *ranges;
    size_t nranges;
} step;

struct tci_pattern {
    step *steps;
    uint32_t nsteps, begin;
    bool ignore_case;
};

/* A byte that is not UTF-8 counts as a character above all of Unicode. */
enum { RAW_BYTE = 0x110000, REPEAT_MAX = 1000, GROUP_DEPTH_MAX = 100 };
static const uint32_t NONE = UINT32_MAX;

/* A piece of program: where to enter it, and the steps whose `to` is still open, linked by it. */
typedef struct piece {
    uint32_t begin, open, open_last;
} piece;

typedef struct builder {
    tc_str text;
    size_t at;
    tci_arena *a;
    step *steps;
    uint32_t nsteps, cap;
    unsigned depth;
    bool ignore_case;
    tc_err *err;
} builder;

static const range digits[] = {{'0', '9'}};
static const range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const range spaces[] = {
    {9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
static const range newlines[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static int bad(builder *b, const char *what)
{
    return tc_err_set(b->err, TC_E_INVALID, "pattern: %s at offset %zu", what, b->at);
}

static int unsupported(builder *b, const char *what)
{
    return tc_err_set(b->err, TC_E_UNSUPPORTED, "pattern: %s", what);
}

static int add_step(builder *b, step s, uint32_t *ret_index)
{
    if (b->nsteps >= TCI_PATTERN_MAX_STEPS)
        return unsupported(b, "too large");
    if (b->nsteps == b->cap) {
        size_t cap = b->cap == 0 ? 64 : (size_t)b->cap * 2;
        step *grown = tci_arena_grow(b->a, b->steps, b->cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL)
            return tci_arena_error(b->a, b->err);
        b->steps = grown;
        b->cap = (uint32_t)cap;
    }
    *ret_index = b->nsteps;
    b->steps[b->nsteps++] = s;
    return 0;
}

/* One step whose exit is open. */
static int add_piece(builder *b, step s, piece *ret)
{
    uint32_t at;
    s.to = NONE;
    if (add_step(b, s, &at) < 0)
        return b->err->code;
    *ret = (piece){at, at, at};
    return 0;
}

static void close_to(builder *b, const piece *p, uint32_t target)
{
    for (uint32_t at = p->open; at != NONE;) {
        uint32_t next = b->steps[at].to;
        b->steps[at].to = target;
        at = next;
    }
}

/* The open exits of both. */
static void join_open(builder *b, piece *p, const piece *q)
{
    if (p->open == NONE) {
        p->open = q->open;
        p->open_last = q->open_last;
    } else if (q->open != NONE) {
        b->steps[p->open_last].to = q->open;
        p->open_last = q->open_last;
    }
}

/* A split that enters `into` and leaves its second exit open: its own `to` carries the open link, so
 * the entered branch is `other`. */
static int add_split(builder *b, uint32_t into, piece *ret)
{
    uint32_t at;
    step s = {.kind = STEP_SPLIT, .to = NONE, .other = into};
    if (add_step(b, s, &at) < 0)
        return b->err->code;
    *ret = (piece){at, at, at};
    return 0;
}

/* ---- characters and classes ---- */

static bool peek(const builder *b, char c)
{
    return b->at < b->text.len && b->text.ptr[b->at] == c;
}

static bool take(builder *b, char c)
{
    if (!peek(b, c))
        return false;
    b->at++;
    return true;
}

static int take_char(builder *b, uint32_t *ret)
{
    size_t len;
    int32_t c = tci_utf8_decode(tci_str_sub(b->text, b->at, b->text.len), &len);
    if (c < 0)
        return bad(b, "no UTF-8");
    b->at += len;
    *ret = (uint32_t)c;
    return 0;
}

static bool take_hex(builder *b, unsigned ndigits, uint32_t *ret)
{
    uint64_t v;
    tc_err ignored;
    tc_str text = tci_str_sub(b->text, b->at, ndigits);
    if (text.len != ndigits || tci_num_hex_u64(text, &v, &ignored) < 0)
        return false;
    b->at += ndigits;
    *ret = (uint32_t)v;
    return true;
}

/* What \d and its like stand for; NULL: none of them. */
static const range *shorthand(uint32_t c, size_t *ret_n, bool *ret_is_negated)
{
    *ret_is_negated = c == 'D' || c == 'W' || c == 'S';
    switch (c) {
    case 'd':
    case 'D':
        *ret_n = TCI_ARRAY_LEN(digits);
        return digits;
    case 'w':
    case 'W':
        *ret_n = TCI_ARRAY_LEN(words);
        return words;
    case 's':
    case 'S':
        *ret_n = TCI_ARRAY_LEN(spaces);
        return spaces;
    default:
        return NULL;
    }
}

/* The character of an escape, behind its backslash and first letter c. */
static int escaped_char(builder *b, uint32_t c, uint32_t *ret)
{
    static const char names[] = "tnrfv0";
    static const char values[] = "\t\n\r\f\v\0";
    const char *at = c < 0x80 && c != 0 ? strchr(names, (int)c) : NULL;
    if (at != NULL) {
        *ret = (unsigned char)values[at - names];
        return 0;
    }
    if (c == 'x')
        return take_hex(b, 2, ret) ? 0 : bad(b, "\\x wants two hex digits");
    if (c == 'u') {
        if (take(b, '{')) {
            size_t n = tci_str_find_byte(tci_str_sub(b->text, b->at, b->text.len), '}');
            if (n > 6 || !take_hex(b, (unsigned)n, ret) || !take(b, '}'))
                return bad(b, "\\u{} wants a number");
            return 0;
        }
        return take_hex(b, 4, ret) ? 0 : bad(b, "\\u wants four hex digits");
    }
    if (c == 'c' && b->at < b->text.len)
        return take_char(b, ret) < 0 ? b->err->code : (*ret %= 32, 0);
    if (c >= '1' && c <= '9')
        return unsupported(b, "back references are not regular");
    if (c == 'p' || c == 'P' || c == 'k')
        return unsupported(b, "this escape is not known");
    *ret = c;
    return 0;
}

typedef struct class_builder {
    range *items;
    size_t n, cap;
} class_builder;

static int class_add(builder *b, class_builder *k, uint32_t first, uint32_t last)
{
    if (k->n == k->cap) {
        size_t cap = k->cap == 0 ? 8 : k->cap * 2;
        range *grown = tci_arena_grow(b->a, k->items, k->cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL)
            return tci_arena_error(b->a, b->err);
        k->items = grown;
        k->cap = cap;
    }
    k->items[k->n++] = (range){first, last};
    return 0;
}

/* A shorthand inside a class; a negated one adds what lies between its ranges. */
static int class_add_shorthand(builder *b, class_builder *k, const range *r, size_t n, bool negated)
{
    uint32_t from = 0;
    for (size_t i = 0; i < n; i++) {
        if (!negated && class_add(b, k, r[i].first, r[i].last) < 0)
            return b->err->code;
        if (negated && r[i].first > from && class_add(b, k, from, r[i].first - 1) < 0)
            return b->err->code;
        from = r[i].last + 1;
    }
    return negated ? class_add(b, k, from, RAW_BYTE + 255) : 0;
}

/* One member of a class: a character in *ret_char, or a shorthand, which is added (*ret_is_set). */
static int class_member(builder *b, class_builder *k, uint32_t *ret_char, bool *ret_is_set)
{
    uint32_t c;
    *ret_is_set = false;
    if (!take(b, '\\'))
        return take_char(b, ret_char);
    if (b->at >= b->text.len)
        return bad(b, "nothing behind the backslash");
    if (take_char(b, &c) < 0)
        return b->err->code;
    size_t n;
    bool negated;
    const range *r = shorthand(c, &n, &negated);
    if (r != NULL) {
        *ret_is_set = true;
        return class_add_shorthand(b, k, r, n, negated);
    }
    if (c == 'b') {
        *ret_char = '\b';
        return 0;
    }
    return escaped_char(b, c, ret_char);
}

static int parse_class(builder *b, piece *ret)
{
    class_builder k = {0};
    bool negated = take(b, '^'), is_set;
    while (!take(b, ']')) {
        uint32_t first, last;
        if (b->at >= b->text.len)
            return bad(b, "class without an end");
        if (class_member(b, &k, &first, &is_set) < 0)
            return b->err->code;
        if (is_set)
            continue;
        last = first;
        tc_str ahead = tci_str_sub(b->text, b->at, 2);
        if (ahead.len == 2 && ahead.ptr[0] == '-' && ahead.ptr[1] != ']') {
            b->at++;
            if (class_member(b, &k, &last, &is_set) < 0)
                return b->err->code;
            if (is_set) { /* "a-\d": three members */
                last = first;
                if (class_add(b, &k, '-', '-') < 0)
                    return b->err->code;
            } else if (last < first) {
                return bad(b, "range out of order");
            }
        }
        if (class_add(b, &k, first, last) < 0)
            return b->err->code;
    }
    step s = {.kind = STEP_CLASS, .is_negated = negated, .ranges = k.items, .nranges = k.n};
    return add_piece(b, s, ret);
}

static int add_char(builder *b, uint32_t c, piece *ret)
{
    class_builder k = {0};
    if (class_add(b, &k, c, c) < 0)
        return b->err->code;
    step s = {.kind = STEP_CLASS, .ranges = k.items, .nranges = 1};
    return add_piece(b, s, ret);
}

static int parse_escape(builder *b, piece *ret)
{
    uint32_t c;
    if (b->at >= b->text.len)
        return bad(b, "nothing behind the backslash");
    if (take_char(b, &c) < 0)
        return b->err->code;
    if (c == 'b' || c == 'B')
        return add_piece(b, (step){.kind = c == 'b' ? STEP_BORDER : STEP_INSIDE}, ret);
    size_t n;
    bool negated;
    const range *r = shorthand(c, &n, &negated);
    if (r != NULL)
        return add_piece(
            b, (step){.kind = STEP_CLASS, .is_negated = negated, .ranges = r, .nranges = n}, ret);
    if (escaped_char(b, c, &c) < 0)
        return b->err->code;
    return add_char(b, c, ret);
}

/* ---- structure ---- */

static int parse_choice(builder *b, piece *ret);

static int parse_group(builder *b, piece *ret)
{
    if (take(b, '?')) {
        if (take(b, '<')) { /* a name, unless it looks behind */
            if (peek(b, '=') || peek(b, '!'))
                return unsupported(b, "look-around is not regular");
            size_t n = tci_str_find_byte(tci_str_sub(b->text, b->at, b->text.len), '>');
            b->at += n;
            if (!take(b, '>'))
                return bad(b, "group name without an end");
        } else if (!take(b, ':')) {
            return unsupported(b, "look-around is not regular");
        }
    }
    if (++b->depth > GROUP_DEPTH_MAX)
        return unsupported(b, "groups nested too deep");
    if (parse_choice(b, ret) < 0)
        return b->err->code;
    b->depth--;
    return take(b, ')') ? 0 : bad(b, "group without an end");
}

static int parse_atom(builder *b, piece *ret)
{
    uint32_t c;
    switch (b->text.ptr[b->at]) {
    case '(':
        b->at++;
        return parse_group(b, ret);
    case '[':
        b->at++;
        return parse_class(b, ret);
    case '.':
        b->at++;
        return add_piece(b,
                         (step){.kind = STEP_CLASS,
                                .is_negated = true,
                                .ranges = newlines,
                                .nranges = TCI_ARRAY_LEN(newlines)},
                         ret);
    case '^':
        b->at++;
        return add_piece(b, (step){.kind = STEP_START}, ret);
    case '$':
        b->at++;
        return add_piece(b, (step){.kind = STEP_END}, ret);
    case '\\':
        b->at++;
        return parse_escape(b, ret);
    case '*':
    case '+':
    case '?':
        return bad(b, "nothing to repeat");
    default:
        if (take_char(b, &c) < 0)
            return b->err->code;
        return add_char(b, c, ret);
    }
}

/* "{2}", "{2,}", "{2,5}"; anything else is no repetition and stays where it is. */
static bool parse_counts(builder *b, uint64_t *ret_min, uint64_t *ret_max)
{
    tc_err ignored;
    tc_str rest = tci_str_sub(b->text, b->at, b->text.len), min, max;
    size_t end = tci_str_find_byte(rest, '}');
    if (rest.len == 0 || rest.ptr[0] != '{' || end == rest.len)
        return false;
    tc_str inner = tci_str_sub(rest, 1, end - 1);
    size_t comma = tci_str_find_byte(inner, ',');
    min = tci_str_sub(inner, 0, comma);
    max = tci_str_sub(inner, comma + 1, inner.len);
    if (tci_num_u64(min, ret_min, &ignored) < 0)
        return false;
    if (comma == inner.len)
        *ret_max = *ret_min;
    else if (max.len == 0)
        *ret_max = UINT64_MAX;
    else if (tci_num_u64(max, ret_max, &ignored) < 0)
        return false;
    b->at += end + 1;
    return true;
}

static int append_piece(builder *b, piece *p, bool *is_empty, const piece *more)
{
    if (*is_empty) {
        *p = *more;
        *is_empty = false;
        return 0;
    }
    close_to(b, p, more->begin);
    p->open = more->open;
    p->open_last = more->open_last;
    return 0;
}

/* The atom that begins at `from` of the pattern, once more: its text is compiled again. */
static int again(builder *b, size_t from, piece *ret)
{
    size_t at = b->at;
    b->at = from;
    int rc = parse_atom(b, ret);
    b->at = at;
    return rc;
}

/* Make p optional, or repeatable for ever. */
static int make_optional(builder *b, piece *p, bool is_loop)
{
    piece split;
    if (add_split(b, p->begin, &split) < 0)
        return b->err->code;
    if (is_loop)
        close_to(b, p, split.begin);
    else
        join_open(b, &split, p);
    *p = split;
    return 0;
}

static int repeat(builder *b, size_t from, piece *p, uint64_t min, uint64_t max)
{
    piece whole = {NONE, NONE, NONE}, one = *p;
    bool is_empty = true, is_first = true;
    if (min > REPEAT_MAX || (max != UINT64_MAX && max > REPEAT_MAX))
        return unsupported(b, "repeated too often");
    if (max < min)
        return bad(b, "counts out of order");
    for (uint64_t i = 0; i < min; i++, is_first = false) {
        if (!is_first && again(b, from, &one) < 0)
            return b->err->code;
        append_piece(b, &whole, &is_empty, &one);
    }
    uint64_t more = max == UINT64_MAX ? 1 : max - min;
    piece exits = {NONE, NONE, NONE};
    for (uint64_t i = 0; i < more; i++, is_first = false) {
        if (!is_first && again(b, from, &one) < 0)
            return b->err->code;
        if (max == UINT64_MAX) {
            if (make_optional(b, &one, true) < 0)
                return b->err->code;
            append_piece(b, &whole, &is_empty, &one);
            break;
        }
        piece split;
        if (add_split(b, one.begin, &split) < 0)
            return b->err->code;
        piece inner = {split.begin, one.open, one.open_last}; /* goes on through the atom */
        split.begin = NONE;
        append_piece(b, &whole, &is_empty, &inner);
        join_open(b, &exits, &split);
    }
    if (is_empty) { /* {0}: a step that is passed at once */
        if (add_split(b, NONE, &whole) < 0)
            return b->err->code;
        b->steps[whole.begin].other = whole.begin;
    }
    join_open(b, &whole, &exits);
    *p = whole;
    return 0;
}

static int parse_repeated(builder *b, piece *ret)
{
    size_t from = b->at;
    uint64_t min, max;
    if (parse_atom(b, ret) < 0)
        return b->err->code;
    if (take(b, '*')) {
        min = 0, max = UINT64_MAX;
    } else if (take(b, '+')) {
        min = 1, max = UINT64_MAX;
    } else if (take(b, '?')) {
        min = 0, max = 1;
    } else if (!parse_counts(b, &min, &max)) {
        return 0;
    }
    (void)take(b, '?'); /* lazy or not, what is found is the same */
    if (b->at < b->text.len && memchr("*+?", b->text.ptr[b->at], 3) != NULL)
        return bad(b, "nothing to repeat");
    return repeat(b, from, ret, min, max);
}

static int parse_sequence(builder *b, piece *ret)
{
    bool is_empty = true;
    while (b->at < b->text.len && !peek(b, '|') && !peek(b, ')')) {
        piece one;
        if (parse_repeated(b, &one) < 0)
            return b->err->code;
        append_piece(b, ret, &is_empty, &one);
    }
    if (!is_empty)
        return 0;
    if (add_split(b, NONE, ret) < 0)
        return b->err->code;
    b->steps[ret->begin].other = ret->begin;
    return 0;
}

static int parse_choice(builder *b, piece *ret)
{
    if (parse_sequence(b, ret) < 0)
        return b->err->code;
    while (take(b, '|')) {
        piece more;
        uint32_t at;
        if (parse_sequence(b, &more) < 0 ||
            add_step(b, (step){.kind = STEP_SPLIT, .to = ret->begin, .other = more.begin}, &at) < 0)
            return b->err->code;
        join_open(b, ret, &more);
        ret->begin = at;
    }
    return 0;
}

int tci_pattern_compile(tc_str pattern, bool ignore_case, tci_arena *a,
                        const tci_pattern **ret_pattern, tc_err *err)
{
    builder b = {.text = pattern, .a = a, .ignore_case = ignore_case, .err = err};
    piece whole;
    uint32_t match;
    if (pattern.len > TCI_PATTERN_MAX_BYTES)
        return unsupported(&b, "too long");
    if (parse_choice(&b, &whole) < 0)
        return err->code;
    if (b.at < pattern.len)
        return bad(&b, "unmatched parenthesis");
    if (add_step(&b, (step){.kind = STEP_MATCH}, &match) < 0)
        return err->code;
    close_to(&b, &whole, match);
    tci_pattern *p = tci_arena_new(a, tci_pattern);
    if (p == NULL)
        return tci_arena_error(a, err);
    *p = (tci_pattern){b.steps, b.nsteps, whole.begin, ignore_case};
    *ret_pattern = p;
    return 0;
}

/* ---- running ---- */

typedef struct thread {
    uint32_t step;
    size_t start;
} thread;

typedef struct runner {
    const tci_pattern *p;
    tc_str text;
    thread *now, *next;
    uint32_t nnow, nnext;
    uint64_t *seen; /* by step: the position it was last entered at, plus 1 */
    uint32_t *stack;
    bool is_found;
    size_t start, end;
} runner;

static bool is_word(int32_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_border(tc_str text, size_t at)
{
    bool before = at > 0 && is_word((unsigned char)text.ptr[at - 1]);
    bool after = at < text.len && is_word((unsigned char)text.ptr[at]);
    return before != after;
}

static uint32_t fold(uint32_t c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

static bool class_has(const step *s, uint32_t c, bool ignore_case)
{
    bool in = false;
    for (size_t i = 0; i < s->nranges && !in; i++) {
        in = c >= s->ranges[i].first && c <= s->ranges[i].last;
        if (!in && ignore_case && fold(c) != c)
            in = fold(c) >= s->ranges[i].first && fold(c) <= s->ranges[i].last;
        if (!in && ignore_case && c >= 'a' && c <= 'z')
            in = c - 32 >= s->ranges[i].first && c - 32 <= s->ranges[i].last;
    }
    return in != s->is_negated;
}

static bool may_pass(const runner *r, const step *s, size_t at)
{
    switch (s->kind) {
    case STEP_START:
        return at == 0;
    case STEP_END:
        return at == r->text.len;
    case STEP_BORDER:
        return is_border(r->text, at);
    case STEP_INSIDE:
        return !is_border(r->text, at);
    case STEP_CLASS:
    case STEP_SPLIT:
    case STEP_MATCH:
        break;
    }
    return true;
}

/* Enter a step and all that follows without a character, before position at. */
static void enter(runner *r, uint32_t first, size_t start, size_t at)
{
    size_t n = 0;
    r->stack[n++] = first;
    while (n > 0) {
        uint32_t i = r->stack[--n];
        const step *s = &r->p->steps[i];
        if (r->seen[i] == at + 1)
            continue;
        r->seen[i] = at + 1;
        if (s->kind == STEP_MATCH) {
            if (!r->is_found || start < r->start || (start == r->start && at > r->end)) {
                r->start = start;
                r->end = at;
            }
            r->is_found = true;
        } else if (s->kind == STEP_CLASS) {
            r->next[r->nnext++] = (thread){i, start};
        } else if (may_pass(r, s, at)) {
            r->stack[n++] = s->to;
            if (s->kind == STEP_SPLIT)
                r->stack[n++] = s->other;
        }
    }
}

static void swap(runner *r)
{
    thread *t = r->now;
    r->now = r->next;
    r->nnow = r->nnext;
    r->next = t;
    r->nnext = 0;
}

static void run(runner *r)
{
    size_t at = 0;
    enter(r, r->p->begin, 0, 0);
    while (at < r->text.len) {
        size_t len;
        int32_t c = tci_utf8_decode(tci_str_sub(r->text, at, 4), &len);
        if (c < 0) {
            c = RAW_BYTE + (unsigned char)r->text.ptr[at];
            len = 1;
        }
        swap(r);
        if (r->nnow == 0 && r->is_found)
            return;
        at += len;
        for (uint32_t i = 0; i < r->nnow; i++) { /* in order of their starts: the leftmost first */
            const step *s = &r->p->steps[r->now[i].step];
            if ((!r->is_found || r->now[i].start <= r->start) &&
                class_has(s, (uint32_t)c, r->p->ignore_case))
                enter(r, s->to, r->now[i].start, at);
        }
        if (!r->is_found)
            enter(r, r->p->begin, at, at);
    }
}

int tci_pattern_find(const tci_pattern *p, tc_str text, bool *ret_is_found, size_t *ret_start,
                     size_t *ret_end, tc_err *err)
{
    size_t n = p->nsteps;
    runner r = {.p = p, .text = text};
    r.now = tci_mem_array(n, sizeof *r.now);
    r.next = tci_mem_array(n, sizeof *r.next);
    r.seen = tci_mem_array(n, sizeof *r.seen);
    r.stack = tci_mem_array(n * 2 + 2, sizeof *r.stack);
    bool has_memory = r.now != NULL && r.next != NULL && r.seen != NULL && r.stack != NULL;
    if (has_memory) {
        run(&r);
        *ret_is_found = r.is_found;
        if (r.is_found && ret_start != NULL)
            *ret_start = r.start;
        if (r.is_found && ret_end != NULL)
            *ret_end = r.end;
    }
    tci_mem_free(r.now);
    tci_mem_free(r.next);
    tci_mem_free(r.seen);
    tci_mem_free(r.stack);
    return has_memory ? 0 : tci_err_no_memory(err);
}
