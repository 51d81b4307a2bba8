/* SPDX-License-Identifier: Apache-2.0
 *
 * From the dialect to PCRE2: one recursive pass that checks, rewrites and gathers facts. Leaves to
 * others: compiling and matching; whether a property name exists (PCRE2 says so). Any thread.
 * Invariants: every class written out matches exactly one character and never an LF, so that a
 * match cannot leave its line; groups do not capture. */
#include "ops/regex/regex.h"
#include "base/num.h"
#include "base/utf8.h"
#include "ops/regex/regex_int.h"

enum { OUT_MAX = 1 << 20, CHOICES_MAX = 12, LONG_REPEAT = 8, COUNT_MAX = 65535 };

static int fail(tci_regex_parser *ps, const char *why)
{
    return tc_err_set(ps->err, TC_E_INVALID, "invalid expression at byte %zu: %s", ps->at, why);
}

bool tci_regex_peek(const tci_regex_parser *ps, tc_str text)
{
    return tci_str_starts(tci_str_sub(ps->p, ps->at, ps->p.len), text);
}

void tci_regex_put(tci_regex_parser *ps, const char *text)
{
    tci_buf_append_str(ps->out, tci_str(text));
}

/* ---- the literal every match contains ---- */

static void literal_end(tci_regex_parser *ps)
{
    tci_regex_facts *f = ps->facts;
    if (ps->nrun > f->nliteral) {
        memcpy(f->literal, ps->run, ps->nrun);
        f->nliteral = ps->nrun;
        f->is_literal_caseless = ps->is_run_caseless;
    }
    ps->nrun = 0;
}

/* The pending character becomes part of the run. */
static void literal_take(tci_regex_parser *ps)
{
    bool is_caseless = (ps->flags & TCI_REGEX_I) != 0;
    if (ps->npending == 0)
        return;
    if (ps->nrun > 0 && ps->is_run_caseless != is_caseless)
        literal_end(ps);
    if (ps->nrun + ps->npending > sizeof ps->run) {
        literal_end(ps);
        ps->facts->is_only_literal = false;
    }
    memcpy(ps->run + ps->nrun, ps->pending, ps->npending);
    ps->nrun += ps->npending;
    ps->is_run_caseless = is_caseless;
    ps->npending = 0;
    if (ps->is_pending_repeated)
        literal_end(ps);
    ps->is_pending_repeated = false;
}

static void literal_break(tci_regex_parser *ps)
{
    literal_take(ps);
    literal_end(ps);
    ps->facts->is_only_literal = false;
}

static void literal_char(tci_regex_parser *ps, uint32_t c)
{
    literal_take(ps);
    if (c == '\n') { /* never in a line */
        literal_break(ps);
        return;
    }
    if (ps->flags & TCI_REGEX_I) {
        /* Folding partners outside ASCII: the long s and the Kelvin sign. */
        if (c >= 0x80 || c == 'k' || c == 'K' || c == 's' || c == 'S') {
            literal_break(ps);
            return;
        }
    }
    if (ps->depth == 0)
        ps->npending = tci_utf8_encode(c, ps->pending);
}

/* ---- repeats ---- */

typedef struct count {
    uint64_t min, max; /* max UINT64_MAX: no end */
} count;

static bool take_decimal(tci_regex_parser *ps, uint64_t *ret)
{
    size_t from = ps->at;
    uint64_t v = 0;
    for (; ps->at < ps->p.len && ps->p.ptr[ps->at] >= '0' && ps->p.ptr[ps->at] <= '9'; ps->at++) {
        if (v > COUNT_MAX)
            return false;
        v = v * 10 + (uint64_t)(ps->p.ptr[ps->at] - '0');
    }
    *ret = v;
    return ps->at > from && v <= COUNT_MAX;
}

static int take_count(tci_regex_parser *ps, count *ret)
{
    ps->at++;
    if (!take_decimal(ps, &ret->min))
        return fail(ps, "expected a count");
    ret->max = ret->min;
    if (tci_regex_peek(ps, TC_STR(","))) {
        ps->at++;
        ret->max = UINT64_MAX;
        if (!tci_regex_peek(ps, TC_STR("}")) && !take_decimal(ps, &ret->max))
            return fail(ps, "expected a count");
    }
    if (!tci_regex_peek(ps, TC_STR("}")))
        return fail(ps, "unclosed count");
    ps->at++;
    return ret->max < ret->min ? fail(ps, "counts in the wrong order") : 0;
}

static int take_repeat(tci_regex_parser *ps, count *ret)
{
    char c = ps->p.ptr[ps->at];
    int rc = 0;
    if (c == '{') {
        rc = take_count(ps, ret);
    } else {
        ps->at++;
        *ret = (count){c == '+' ? 1 : 0, c == '?' ? 1 : UINT64_MAX};
    }
    if (rc == 0 && tci_regex_peek(ps, TC_STR("?")))
        ps->at++; /* lazy: makes no difference to whether a line matches */
    return rc;
}

static void wrap(tci_buf *b, size_t start)
{
    if (tci_buf_reserve(b, 4) == NULL)
        return;
    memmove(b->ptr + start + 3, b->ptr + start, b->len - start);
    memcpy(b->ptr + start, "(?:", 3);
    tci_buf_commit(b, 3);
    tci_buf_append_byte(b, ')');
}

/* Append a copy of out[start, end). */
static void put_again(tci_buf *b, size_t start, size_t end)
{
    char *to = tci_buf_reserve(b, end - start);
    if (to == NULL)
        return;
    memcpy(to, b->ptr + start, end - start);
    tci_buf_commit(b, end - start);
}

/* The part of out from `start` on gets a repeat. One character repeated at least n times is written
 * as n of them and a star: the state machine of PCRE2 counts the rounds of its '+', so that its
 * states would grow with the line. */
static void put_repeat(tci_regex_parser *ps, size_t start, bool is_simple, count c)
{
    tci_buf *b = ps->out;
    if (!is_simple)
        wrap(b, start);
    size_t end = b->len;
    if (c.max == 1 && c.min == 0) {
        tci_buf_append_byte(b, '?');
    } else if (c.max == UINT64_MAX) {
        if (c.min > 1 && !is_simple) {
            tci_buf_printf(b, "{%u,}", (unsigned)c.min);
            return;
        }
        if (c.min > 1)
            tci_buf_printf(b, "{%u}", (unsigned)c.min);
        if (c.min > 0 && is_simple)
            put_again(b, start, end);
        tci_buf_append_byte(b, c.min == 1 && !is_simple ? '+' : '*');
    } else {
        tci_buf_printf(b, "{%u,%u}", (unsigned)c.min, (unsigned)c.max);
    }
}

/* ---- atoms ---- */

static void put_assertion(tci_regex_parser *ps, const char *unicode, const char *ascii)
{
    tci_regex_put(ps, ps->flags & TCI_REGEX_U ? unicode : ascii);
}

#define ASCII_WORD "[0-9A-Za-z_]"
static const struct {
    tc_str name;
    const char *unicode, *ascii;
} assertions[] = {
#define NAME(text)             \
    {                          \
        text, sizeof(text) - 1 \
    }
    {NAME("b{start}"), "\\b(?=\\w)", "(?<!" ASCII_WORD ")(?=" ASCII_WORD ")"},
    {NAME("b{end}"), "\\b(?<=\\w)", "(?<=" ASCII_WORD ")(?!" ASCII_WORD ")"},
    {NAME("b{start-half}"), "(?<!\\w)", "(?<!" ASCII_WORD ")"},
    {NAME("b{end-half}"), "(?!\\w)", "(?!" ASCII_WORD ")"},
    {NAME("<"), "\\b(?=\\w)", "(?<!" ASCII_WORD ")(?=" ASCII_WORD ")"},
    {NAME(">"), "\\b(?<=\\w)", "(?<=" ASCII_WORD ")(?!" ASCII_WORD ")"},
    {NAME("b"), "\\b",
     "(?:(?<=" ASCII_WORD ")(?!" ASCII_WORD ")|(?<!" ASCII_WORD ")(?=" ASCII_WORD "))"},
    {NAME("B"), "\\B",
     "(?:(?<=" ASCII_WORD ")(?=" ASCII_WORD ")|(?<!" ASCII_WORD ")(?!" ASCII_WORD "))"},
    {NAME("A"), "^", "^"},
    {NAME("z"), "$", "$"},
#undef NAME
};

/* One atom at a backslash. *ret_simple: a repeat may follow as it is. */
static int take_escape(tci_regex_parser *ps, bool *ret_simple)
{
    tc_str rest = tci_str_sub(ps->p, ps->at + 1, ps->p.len);
    if (tci_str_starts(rest, TC_STR("b{"))) { /* either one of the names or an error */
        size_t end = tci_str_find_byte(rest, '}');
        rest.len = end < rest.len ? end + 1 : rest.len;
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(assertions); i++) {
        tc_str name = assertions[i].name;
        if (!tci_str_starts(rest, name) || (name.len == 1 && tci_str_starts(rest, TC_STR("b{"))))
            continue;
        literal_break(ps);
        ps->at += 1 + name.len;
        put_assertion(ps, assertions[i].unicode, assertions[i].ascii);
        *ret_simple = false;
        return 0;
    }
    if (tci_str_starts(rest, TC_STR("b{")))
        return fail(ps, "unknown boundary");
    *ret_simple = true;
    uint32_t c;
    int rc = tci_regex_take_class_escape(ps);
    if (rc != 0) {
        literal_break(ps);
        return rc < 0 ? rc : 0;
    }
    rc = tci_regex_take_char_escape(ps, &c);
    if (rc < 0)
        return rc;
    literal_char(ps, c);
    tci_regex_put_char(ps, c);
    return 0;
}

static int take_atom(tci_regex_parser *ps, bool *ret_simple)
{
    char c = ps->p.ptr[ps->at];
    *ret_simple = true;
    if (c == '\\')
        return take_escape(ps, ret_simple);
    if (c == '[') {
        literal_break(ps);
        return tci_regex_take_class(ps);
    }
    if (c == '.' || c == '^' || c == '$') {
        literal_break(ps);
        ps->at++;
        *ret_simple = c == '.';
        bool is_crlf = (ps->flags & TCI_REGEX_R) != 0;
        if (c == '.' && !(ps->flags & TCI_REGEX_U))
            return fail(ps, "may match half a character");
        if (c == '.')
            tci_regex_put(ps, is_crlf ? "[^\\r\\n]" : ".");
        else if (c == '$' && is_crlf && (ps->flags & TCI_REGEX_M))
            tci_regex_put(ps, "(?=\\r?$)");
        else
            tci_buf_append_byte(ps->out, c);
        return 0;
    }
    uint32_t v = tci_regex_take_char(ps);
    literal_char(ps, v);
    tci_regex_put_char(ps, v);
    return 0;
}

/* ---- groups ---- */

static int parse_alternatives(tci_regex_parser *ps);

static unsigned flag_of(char c)
{
    static const char letters[] = "imsUuxR";
    static const unsigned bits[] = {TCI_REGEX_I, TCI_REGEX_M, TCI_REGEX_S, TCI_REGEX_SWAP,
                                    TCI_REGEX_U, TCI_REGEX_X, TCI_REGEX_R};
    const char *at = c != '\0' ? strchr(letters, c) : NULL;
    return at != NULL ? bits[at - letters] : 0;
}

/* Behind "(?": letters up to ')' or ':'. */
static int take_flags(tci_regex_parser *ps, char *ret_end)
{
    unsigned on = 0, off = 0, nseen = 0;
    bool is_off = false;
    for (;; ps->at++, nseen++) {
        if (ps->at >= ps->p.len)
            return fail(ps, "unclosed group");
        char c = ps->p.ptr[ps->at];
        if (c == ')' || c == ':') {
            if ((c == ')' && nseen == 0) || (is_off && off == 0))
                return fail(ps, "no flag");
            ps->flags = (ps->flags | on) & ~off;
            *ret_end = c;
            ps->at++;
            return 0;
        }
        if (c == '-' && !is_off) {
            is_off = true;
            continue;
        }
        unsigned bit = flag_of(c);
        if (bit == 0 || ((on | off) & bit))
            return fail(ps, bit == 0 ? "unknown flag or group" : "repeated flag");
        if (is_off)
            off |= bit;
        else
            on |= bit;
    }
}

static bool is_name_char(unsigned char c, bool is_first)
{
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
    return is_letter || (!is_first && ((c >= '0' && c <= '9') || c == '.' || c == '[' || c == ']'));
}

/* Behind "(?<" or "(?P<". */
static int take_name(tci_regex_parser *ps)
{
    size_t from = ps->at;
    while (ps->at < ps->p.len && is_name_char((unsigned char)ps->p.ptr[ps->at], ps->at == from))
        ps->at++;
    tc_str name = tci_str_sub(ps->p, from, ps->at - from);
    if (name.len == 0 || !tci_regex_peek(ps, TC_STR(">")))
        return fail(ps, "bad group name");
    ps->at++;
    tc_str known, rest = tci_buf_str(&ps->names);
    while (tci_str_split(&rest, '>', &known))
        if (tci_str_eq(known, name))
            return fail(ps, "repeated group name");
    tci_buf_append_str(&ps->names, name);
    tci_buf_append_byte(&ps->names, '>');
    return tci_buf_error(&ps->names, ps->err);
}

/* At '('. *ret_is_atom false: it only set flags. */
static int take_group(tci_regex_parser *ps, bool *ret_is_atom)
{
    unsigned saved = ps->flags;
    int rc = 0;
    literal_break(ps);
    ps->at++;
    if (tci_regex_peek(ps, TC_STR("?P<")) ||
        (tci_regex_peek(ps, TC_STR("?<")) && !tci_regex_peek(ps, TC_STR("?<=")) &&
         !tci_regex_peek(ps, TC_STR("?<!")))) {
        ps->at += ps->p.ptr[ps->at + 1] == 'P' ? 3 : 2;
        rc = take_name(ps);
    } else if (tci_regex_peek(ps, TC_STR("?"))) {
        char end = 0;
        ps->at++;
        rc = take_flags(ps, &end);
        if (rc == 0 && end == ')') {
            *ret_is_atom = false;
            bool is_caseless = (ps->flags & TCI_REGEX_I) != 0;
            if (is_caseless != ((saved & TCI_REGEX_I) != 0))
                tci_regex_put(ps, is_caseless ? "(?i)" : "(?-i)");
            return 0;
        }
    }
    if (rc < 0)
        return rc;
    tci_regex_put(ps, ps->flags & TCI_REGEX_I ? "(?i:" : "(?-i:");
    if (++ps->depth > TCI_REGEX_DEPTH_MAX)
        return fail(ps, "nested too deeply");
    rc = parse_alternatives(ps);
    ps->depth--;
    if (rc < 0)
        return rc;
    if (!tci_regex_peek(ps, TC_STR(")")))
        return fail(ps, "unclosed group");
    ps->at++;
    tci_buf_append_byte(ps->out, ')');
    ps->flags = saved;
    *ret_is_atom = true;
    return 0;
}

/* ---- sequences ---- */

/* What the last atom was, for a repeat that follows. */
typedef struct atom {
    bool is_there, is_simple;
    size_t start;         /* in out */
    unsigned nrepeats_in; /* loops before it */
} atom;

static int repeat_atom(tci_regex_parser *ps, atom *a)
{
    count c;
    if (!a->is_there)
        return fail(ps, "nothing to repeat");
    int rc = take_repeat(ps, &c);
    if (rc < 0)
        return rc;
    ps->facts->is_only_literal = false;
    ps->is_pending_repeated = ps->npending > 0;
    if (c.min == 0) { /* another repeat may have come before */
        ps->npending = 0;
        ps->is_pending_repeated = false;
        literal_break(ps);
    }
    bool is_long = c.max > LONG_REPEAT;
    if (is_long && ps->facts->nrepeats > a->nrepeats_in)
        ps->facts->is_nested = true;
    ps->facts->nrepeats += is_long;
    ps->nchoices += !is_long && c.max != c.min;
    put_repeat(ps, a->start, a->is_simple, c);
    a->is_simple = false;
    return 0;
}

static int parse_sequence(tci_regex_parser *ps)
{
    atom a = {0};
    int rc = 0;
    while (rc == 0 && ps->at < ps->p.len && tci_buf_ok(ps->out)) {
        if ((ps->flags & TCI_REGEX_X) && tci_regex_skip_space(ps))
            continue;
        char c = ps->p.ptr[ps->at];
        if (c == '|' || c == ')')
            break;
        if (c == '*' || c == '+' || c == '?' || c == '{') {
            rc = repeat_atom(ps, &a);
            continue;
        }
        a = (atom){true, true, ps->out->len, ps->facts->nrepeats};
        a.is_simple = c != '(';
        rc = c == '(' ? take_group(ps, &a.is_there) : take_atom(ps, &a.is_simple);
    }
    return rc;
}

static int parse_alternatives(tci_regex_parser *ps)
{
    for (;;) {
        int rc = parse_sequence(ps);
        if (rc < 0)
            return rc;
        if (!tci_regex_peek(ps, TC_STR("|")))
            return 0;
        ps->at++;
        ps->nchoices++;
        literal_break(ps);
        ps->has_alternatives = ps->has_alternatives || ps->depth == 0;
        tci_buf_append_byte(ps->out, '|');
    }
}

int tci_regex_translate(tc_str pattern, bool is_caseless, tci_buf *out, tci_regex_facts *ret_facts,
                        tc_err *err)
{
    tci_regex_facts facts = {.is_only_literal = true};
    tci_regex_parser ps = {.p = pattern, .out = out, .facts = &facts, .err = err};
    ps.flags = TCI_REGEX_U | (is_caseless ? (unsigned)TCI_REGEX_I : 0);
    tci_buf_init(&ps.names, OUT_MAX);
    int rc = tci_utf8_is_valid(pattern) ? parse_alternatives(&ps) : fail(&ps, "not UTF-8");
    if (rc == 0 && ps.at < pattern.len)
        rc = fail(&ps, "unopened group");
    if (rc == 0 && !tci_buf_ok(out))
        rc = out->failed == TC_E_NO_MEMORY ? tci_err_no_memory(err) : fail(&ps, "too large");
    tci_buf_done(&ps.names);
    if (rc < 0)
        return rc;
    literal_take(&ps);
    literal_end(&ps);
    if (ps.has_alternatives)
        facts.nliteral = 0;
    facts.is_only_literal = facts.is_only_literal && facts.nliteral > 0;
    facts.is_nested = facts.is_nested || ps.nchoices > CHOICES_MAX;
    *ret_facts = facts;
    return 0;
}
