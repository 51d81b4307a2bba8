/* SPDX-License-Identifier: Apache-2.0
 *
 * Characters of an expression: escapes, classes, properties. A class becomes one bracket where it
 * can, else alternatives and one-character look-aheads (which PCRE2 gets from us only, never from
 * the pattern). Leaves to others: sequences and repeats. Any thread. Invariant: what is written
 * matches exactly one character, never an LF. */
#include "base/utf8.h"
#include "ops/regex/regex_int.h"

static int fail(tci_regex_parser *ps, const char *why)
{
    return tc_err_set(ps->err, TC_E_INVALID, "invalid expression at byte %zu: %s", ps->at, why);
}

/* A set of characters: bracket items, and '|'-separated expressions. */
typedef struct set {
    tci_buf items, more;
} set;

enum { SET_MAX = 1 << 18 };

static void set_init(set *s)
{
    tci_buf_init(&s->items, SET_MAX);
    tci_buf_init(&s->more, SET_MAX);
}

static void set_done(set *s)
{
    tci_buf_done(&s->items);
    tci_buf_done(&s->more);
}

static void add_more(set *s, tc_str expression)
{
    if (s->more.len > 0)
        tci_buf_append_byte(&s->more, '|');
    tci_buf_append_str(&s->more, expression);
}

static void add_items(set *s, const char *items)
{
    tci_buf_append_str(&s->items, tci_str(items));
}

/* All but these items. */
static void add_all_but(set *s, const char *items)
{
    if (s->more.len > 0)
        tci_buf_append_byte(&s->more, '|');
    tci_buf_printf(&s->more, "[^%s\\n]", items);
}

static void put_item_char(tci_buf *b, uint32_t c)
{
    bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (is_plain)
        tci_buf_append_byte(b, (char)c);
    else
        tci_buf_printf(b, "\\x{%x}", c);
}

static void add_range(set *s, uint32_t low, uint32_t high)
{
    if (low <= '\n' && high >= '\n') { /* an LF is never part of a line */
        if (low < '\n')
            add_range(s, low, '\n' - 1);
        if (high > '\n')
            add_range(s, '\n' + 1, high);
        return;
    }
    put_item_char(&s->items, low);
    if (high > low) {
        tci_buf_append_byte(&s->items, '-');
        put_item_char(&s->items, high);
    }
}

static void put_set(const set *s, tci_buf *out)
{
    bool has_items = s->items.len > 0, has_more = s->more.len > 0;
    if (!has_items && !has_more) {
        tci_buf_append_str(out, TC_STR("(?!)"));
        return;
    }
    if (has_more)
        tci_buf_append_str(out, TC_STR("(?:"));
    if (has_items) {
        tci_buf_append_byte(out, '[');
        tci_buf_append_str(out, tci_buf_str(&s->items));
        tci_buf_append_byte(out, ']');
    }
    if (has_items && has_more)
        tci_buf_append_byte(out, '|');
    if (has_more) {
        tci_buf_append_str(out, tci_buf_str(&s->more));
        tci_buf_append_byte(out, ')');
    }
    if (!tci_buf_ok(&s->items) || !tci_buf_ok(&s->more))
        out->failed = tci_buf_ok(&s->items) ? s->more.failed : s->items.failed;
}

/* ---- single characters ---- */

void tci_regex_put_char(tci_regex_parser *ps, uint32_t c)
{
    char text[4];
    if (c == '\n')
        tci_regex_put(ps, "(?!)");
    else if (c < 0x80)
        put_item_char(ps->out, c);
    else
        tci_buf_append(ps->out, text, tci_utf8_encode(c, text));
}

uint32_t tci_regex_take_char(tci_regex_parser *ps)
{
    size_t n = 1;
    int32_t v = tci_utf8_decode(tci_str_sub(ps->p, ps->at, ps->p.len), &n);
    ps->at += v < 0 ? 1 : n;
    return v < 0 ? 0xfffd : (uint32_t)v;
}

bool tci_regex_skip_space(tci_regex_parser *ps)
{
    size_t before = ps->at;
    while (ps->at < ps->p.len) {
        size_t start = ps->at;
        uint32_t c = tci_regex_take_char(ps);
        if (c == '#') {
            ps->at += tci_str_find_byte(tci_str_sub(ps->p, ps->at, ps->p.len), '\n');
            continue;
        }
        bool is_space = (c >= '\t' && c <= '\r') || c == ' ' || c == 0x85 || c == 0xa0 ||
                        c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
                        c == 0x202f || c == 0x205f || c == 0x3000;
        if (!is_space) {
            ps->at = start;
            break;
        }
    }
    return ps->at > before;
}

/* max_digits exactly, or braces around any number of them. */
static int take_hex(tci_regex_parser *ps, unsigned ndigits, uint32_t *ret)
{
    bool is_braced = tci_regex_peek(ps, TC_STR("{"));
    uint32_t v = 0;
    unsigned n = 0;
    ps->at += is_braced;
    for (; ps->at < ps->p.len && (is_braced || n < ndigits); ps->at++, n++) {
        char c = ps->p.ptr[ps->at], lower = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            v = v * 16 + (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            v = v * 16 + (uint32_t)(lower - 'a') + 10;
        else
            break;
        if (v > 0x10ffff)
            return fail(ps, "no such character");
    }
    if (n == 0 || (!is_braced && n < ndigits) || (is_braced && !tci_regex_peek(ps, TC_STR("}"))))
        return fail(ps, "bad hexadecimal number");
    ps->at += is_braced;
    if (v >= 0xd800 && v <= 0xdfff)
        return fail(ps, "no such character");
    if (!(ps->flags & TCI_REGEX_U) && v >= 0x80 && v <= 0xff)
        return fail(ps, "may match half a character");
    *ret = v;
    return 0;
}

int tci_regex_take_char_escape(tci_regex_parser *ps, uint32_t *ret)
{
    static const char names[] = "aftnrv", values[] = "\a\f\t\n\r\v";
    ps->at++;
    if (ps->at >= ps->p.len)
        return fail(ps, "backslash at the end");
    char c = ps->p.ptr[ps->at];
    const char *name = c != '\0' ? strchr(names, c) : NULL;
    bool is_alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    if (name != NULL) {
        *ret = (unsigned char)values[name - names];
    } else if (c == 'x' || c == 'u' || c == 'U') {
        ps->at++;
        return take_hex(ps, c == 'x' ? 2 : c == 'u' ? 4 : 8, ret);
    } else if (is_alnum || c == '<' || c == '>' || (unsigned char)c >= 0x80) {
        return fail(ps, "unknown escape");
    } else {
        *ret = (unsigned char)c;
    }
    ps->at++;
    return 0;
}

/* ---- properties ---- */

/* Long names of general categories, as they look without case, blanks, '_' and '-'. */
static const struct {
    const char *name, *code;
} categories[] = {
    {"other", "C"},
    {"control", "Cc"},
    {"cntrl", "Cc"},
    {"format", "Cf"},
    {"unassigned", "Cn"},
    {"privateuse", "Co"},
    {"surrogate", "Cs"},
    {"letter", "L"},
    {"casedletter", "L&"},
    {"lc", "L&"},
    {"lowercaseletter", "Ll"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"titlecaseletter", "Lt"},
    {"uppercaseletter", "Lu"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"nonspacingmark", "Mn"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"digit", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"punct", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"closepunctuation", "Pe"},
    {"finalpunctuation", "Pf"},
    {"initialpunctuation", "Pi"},
    {"otherpunctuation", "Po"},
    {"openpunctuation", "Ps"},
    {"symbol", "S"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"mathsymbol", "Sm"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"spaceseparator", "Zs"},
};

enum { PROPERTY_MAX = 64 };

static void normalize(tc_str s, char out[PROPERTY_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < s.len && n + 1 < PROPERTY_MAX; i++) {
        char c = s.ptr[i];
        if (c != ' ' && c != '_' && c != '-')
            out[n++] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    out[n] = '\0';
}

/* "lu" and its long name to "Lu"; false when it is no general category. */
static bool category_of(const char *name, char code[4])
{
    size_t len = strlen(name);
    for (size_t i = 0; i < TCI_ARRAY_LEN(categories); i++) {
        if (strcmp(categories[i].name, name) == 0) {
            memcpy(code, categories[i].code, strlen(categories[i].code) + 1);
            return true;
        }
    }
    if (len == 0 || len > 2 || strchr("clmnpsz", name[0]) == NULL ||
        (len == 2 && (name[1] < 'a' || name[1] > 'z')))
        return false;
    memcpy(code, name, len + 1);
    code[0] = (char)(code[0] & ~0x20);
    return tci_regex_has_property(code);
}

/* The property as PCRE2 writes it into body, "" for every character; *ret_has_lf when it may hold
 * the LF. False when there is no such property. */
static bool property_of(tc_str text, char body[PROPERTY_MAX + 8], bool *ret_has_lf)
{
    char key[PROPERTY_MAX] = "", name[PROPERTY_MAX], code[4];
    size_t eq = tci_str_find_byte(text, '=');
    if (eq == text.len)
        eq = tci_str_find_byte(text, ':');
    if (eq < text.len) {
        normalize(tci_str_sub(text, 0, eq), key);
        text = tci_str_sub(text, eq + 1, text.len);
    }
    normalize(text, name);
    size_t len = strlen(name);
    *ret_has_lf = true;
    bool is_category =
        key[0] == '\0' || strcmp(key, "gc") == 0 || strcmp(key, "generalcategory") == 0;
    if (is_category && category_of(name, code)) {
        *ret_has_lf = strcmp(code, "C") == 0 || strcmp(code, "Cc") == 0;
        memcpy(body, code, sizeof code);
        return true;
    }
    bool is_extended = strcmp(key, "scx") == 0 || strcmp(key, "scriptextensions") == 0;
    bool is_script = strcmp(key, "sc") == 0 || strcmp(key, "script") == 0;
    if (key[0] != '\0' && !is_extended && !is_script)
        return false;
    const char *prefix = is_extended ? "scx:" : "sc:";
    size_t nprefix = strlen(prefix);
    memcpy(body, prefix, nprefix);
    memcpy(body + nprefix, name, len + 1);
    if (tci_regex_has_property(body)) {
        *ret_has_lf = strcmp(name, "common") == 0 || strcmp(name, "zyyy") == 0;
        return true;
    }
    memcpy(body, name, len + 1);
    bool is_ours = strncmp(name, "x", 1) == 0 && len == 3 && strcmp(name, "xidc") != 0;
    return key[0] == '\0' && !is_ours && name[0] >= 'a' && name[0] <= 'z' &&
           strchr(name, '&') == NULL && tci_regex_has_property(body);
}

/* Without case the cases of letters are one; PCRE2 leaves that to us. */
static void fold_property(char *body)
{
    static const char *const cased[] = {"Lu",        "Ll",    "Lt",   "uppercase",
                                        "lowercase", "upper", "lower"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(cased); i++)
        if (strcmp(cased[i], body) == 0)
            memcpy(body, "L&", 3);
}

static void add_property(set *s, const char *body, bool is_negated, bool has_lf)
{
    char item[PROPERTY_MAX + 16];
    tci_buf one;
    tci_buf_init(&one, sizeof item);
    tci_buf_printf(&one, "\\p{%s}", body);
    tci_buf_append_byte(&one, '\0');
    if (!tci_buf_ok(&one)) {
        s->items.failed = one.failed;
    } else if (is_negated) {
        add_all_but(s, one.ptr);
    } else if (has_lf) {
        add_more(s, TC_STR("(?!\\n)"));
        tci_buf_append_str(&s->more, tci_str(one.ptr));
    } else {
        add_items(s, one.ptr);
    }
    tci_buf_done(&one);
}

/* At \p or \P. */
static int take_property(tci_regex_parser *ps, set *s)
{
    bool is_negated = ps->p.ptr[ps->at + 1] == 'P', has_lf;
    char body[PROPERTY_MAX + 8], plain[PROPERTY_MAX];
    ps->at += 2;
    tc_str rest = tci_str_sub(ps->p, ps->at, ps->p.len), name;
    if (rest.len > 0 && rest.ptr[0] == '{') {
        size_t end = tci_str_find_byte(rest, '}');
        if (end == rest.len)
            return fail(ps, "unclosed property");
        name = tci_str_sub(rest, 1, end - 1);
        ps->at += end + 1;
    } else {
        name = tci_str_sub(rest, 0, 1);
        ps->at += name.len;
    }
    if (name.len == 0 || name.len >= PROPERTY_MAX)
        return fail(ps, "unknown property");
    if (!(ps->flags & TCI_REGEX_U))
        return fail(ps, "properties need Unicode");
    normalize(name, plain);
    if (strcmp(plain, "any") == 0) {
        if (!is_negated)
            add_all_but(s, "");
    } else if (strcmp(plain, "ascii") == 0) {
        if (is_negated)
            add_range(s, 0x80, 0x10ffff);
        else
            add_range(s, 0, 0x7f);
    } else if (strcmp(plain, "assigned") == 0) {
        add_property(s, "Cn", !is_negated, false);
    } else {
        if (!property_of(name, body, &has_lf))
            return fail(ps, "unknown property");
        if (ps->flags & TCI_REGEX_I)
            fold_property(body);
        add_property(s, body, is_negated, has_lf);
    }
    return 0;
}

/* ---- \d \s \w ---- */

#define SPACES                                                                                   \
    "\\x09\\x0b-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
    "\\x{205f}\\x{3000}"
#define WORDS "0-9A-Za-z_\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\p{Alphabetic}\\x{200c}\\x{200d}"

/* At a backslash; 1 when s got what it means, 0 when it is not a class. */
static int take_class_escape(tci_regex_parser *ps, set *s)
{
    if (ps->at + 1 >= ps->p.len)
        return 0;
    char c = ps->p.ptr[ps->at + 1];
    bool is_unicode = (ps->flags & TCI_REGEX_U) != 0;
    if (c == 'p' || c == 'P') {
        int rc = take_property(ps, s);
        return rc < 0 ? rc : 1;
    }
    const char *items;
    switch (c | 0x20) {
    case 'd':
        items = is_unicode ? "0-9\\p{Nd}" : "0-9";
        break;
    case 's':
        items = is_unicode ? SPACES : "\\x09\\x0b-\\x0d\\x20";
        break;
    case 'w':
        items = is_unicode ? WORDS : "0-9A-Za-z_";
        break;
    default:
        return 0;
    }
    ps->at += 2;
    if (c & 0x20) {
        add_items(s, items);
    } else {
        if (!is_unicode)
            return fail(ps, "may match half a character");
        add_all_but(s, items);
    }
    return 1;
}

int tci_regex_take_class_escape(tci_regex_parser *ps)
{
    set s;
    set_init(&s);
    int rc = take_class_escape(ps, &s);
    if (rc > 0)
        put_set(&s, ps->out);
    set_done(&s);
    return rc;
}

/* ---- brackets ---- */

static const struct {
    const char *name, *items;
} posix_classes[] = {
    {"alnum", "0-9A-Za-z"},
    {"alpha", "A-Za-z"},
    {"ascii", "\\x00-\\x09\\x0b-\\x7f"},
    {"blank", "\\x09\\x20"},
    {"cntrl", "\\x00-\\x09\\x0b-\\x1f\\x7f"},
    {"digit", "0-9"},
    {"graph", "\\x21-\\x7e"},
    {"lower", "a-z"},
    {"print", "\\x20-\\x7e"},
    {"punct", "\\x21-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7e"},
    {"space", "\\x09\\x0b-\\x0d\\x20"},
    {"upper", "A-Z"},
    {"word", "0-9A-Za-z_"},
    {"xdigit", "0-9A-Fa-f"},
};

/* At "[:" : 1 when it is a posix name, 0 when it is an ordinary nested class. */
static int take_posix(tci_regex_parser *ps, set *s)
{
    tc_str rest = tci_str_sub(ps->p, ps->at + 2, ps->p.len);
    size_t skipped = 2;
    bool is_negated = tci_str_starts(rest, TC_STR("^"));
    rest = tci_str_sub(rest, is_negated, rest.len);
    skipped += is_negated;
    size_t end = tci_str_find(rest, TC_STR(":]"));
    if (end == rest.len)
        return 0;
    tc_str name = tci_str_sub(rest, 0, end);
    for (size_t i = 0; i < TCI_ARRAY_LEN(posix_classes); i++) {
        if (!tci_str_eq(tci_str(posix_classes[i].name), name))
            continue;
        ps->at += skipped + end + 2;
        if (is_negated && !(ps->flags & TCI_REGEX_U))
            return fail(ps, "may match half a character");
        if (is_negated)
            add_all_but(s, posix_classes[i].items);
        else
            add_items(s, posix_classes[i].items);
        return 1;
    }
    return 0;
}

/* One character or escape that may start a range: 0 and *ret, or 1 when it was a class. */
static int take_bracket_char(tci_regex_parser *ps, set *s, uint32_t *ret)
{
    if (ps->p.ptr[ps->at] != '\\') {
        *ret = tci_regex_take_char(ps);
        return 0;
    }
    int rc = take_class_escape(ps, s);
    return rc != 0 ? rc : tci_regex_take_char_escape(ps, ret);
}

static void skip_space(tci_regex_parser *ps)
{
    if (ps->flags & TCI_REGEX_X)
        (void)tci_regex_skip_space(ps); /* whether there was some does not matter */
}

static int take_range(tci_regex_parser *ps, set *s)
{
    uint32_t low = 0, high = 0;
    int rc = take_bracket_char(ps, s, &low);
    if (rc < 0)
        return rc;
    skip_space(ps);
    tc_str rest = tci_str_sub(ps->p, ps->at, ps->p.len);
    bool is_range = rest.len > 1 && rest.ptr[0] == '-' && rest.ptr[1] != ']' && rest.ptr[1] != '-';
    if (!is_range) {
        if (rc == 0)
            add_range(s, low, low);
        return 0;
    }
    ps->at++;
    skip_space(ps);
    if (ps->at >= ps->p.len)
        return fail(ps, "unclosed class");
    int second = take_bracket_char(ps, s, &high);
    if (second < 0)
        return second;
    if (rc != 0 || second != 0)
        return fail(ps, "a class cannot end a range");
    if (high < low)
        return fail(ps, "reversed range");
    add_range(s, low, high);
    return 0;
}

/* left op right, into left. */
static void combine(set *left, char op, set *right)
{
    tci_buf l, r, both;
    tci_buf_init(&l, SET_MAX);
    tci_buf_init(&r, SET_MAX);
    tci_buf_init(&both, SET_MAX);
    put_set(left, &l);
    put_set(right, &r);
    if (tci_buf_ok(&l) && tci_buf_ok(&r)) {
        if (op == '&')
            tci_buf_printf(&both, "(?=%.*s)%.*s", (int)r.len, r.ptr, (int)l.len, l.ptr);
        else if (op == '-')
            tci_buf_printf(&both, "(?!%.*s)%.*s", (int)r.len, r.ptr, (int)l.len, l.ptr);
        else
            tci_buf_printf(&both, "(?!%.*s)%.*s|(?!%.*s)%.*s", (int)r.len, r.ptr, (int)l.len, l.ptr,
                           (int)l.len, l.ptr, (int)r.len, r.ptr);
    } else {
        both.failed = tci_buf_ok(&l) ? r.failed : l.failed;
    }
    tci_buf_clear(&left->items);
    tci_buf_clear(&left->more);
    tci_buf_append_str(&left->more, tci_buf_str(&both));
    if (!tci_buf_ok(&both))
        left->more.failed = both.failed;
    tci_buf_done(&l);
    tci_buf_done(&r);
    tci_buf_done(&both);
}

static int take_set(tci_regex_parser *ps, set *s);

/* The members up to the ']' or an operator. */
static int take_union(tci_regex_parser *ps, set *s)
{
    for (;;) {
        skip_space(ps);
        if (ps->at >= ps->p.len)
            return fail(ps, "unclosed class");
        if (tci_regex_peek(ps, TC_STR("]")) || tci_regex_peek(ps, TC_STR("&&")) ||
            tci_regex_peek(ps, TC_STR("--")) || tci_regex_peek(ps, TC_STR("~~")))
            return 0;
        int rc = tci_regex_peek(ps, TC_STR("[:")) ? take_posix(ps, s) : 0;
        if (rc < 0)
            return rc;
        if (rc > 0)
            continue;
        if (!tci_regex_peek(ps, TC_STR("["))) {
            rc = take_range(ps, s);
        } else {
            set inner;
            set_init(&inner);
            rc = take_set(ps, &inner);
            tci_buf_append_str(&s->items, tci_buf_str(&inner.items));
            if (inner.more.len > 0)
                add_more(s, tci_buf_str(&inner.more));
            set_done(&inner);
        }
        if (rc < 0)
            return rc;
    }
}

static void negate(set *s)
{
    tci_buf all;
    tci_buf_init(&all, SET_MAX);
    if (s->more.len == 0)
        tci_buf_printf(&all, "[^%.*s\\n]", (int)s->items.len, s->items.len > 0 ? s->items.ptr : "");
    else {
        tci_buf_append_str(&all, TC_STR("(?!"));
        put_set(s, &all);
        tci_buf_append_str(&all, TC_STR(")[^\\n]"));
    }
    tci_buf_clear(&s->items);
    tci_buf_clear(&s->more);
    tci_buf_append_str(&s->more, tci_buf_str(&all));
    if (!tci_buf_ok(&all))
        s->more.failed = all.failed;
    tci_buf_done(&all);
}

/* At '[', into an empty set. */
static int take_set(tci_regex_parser *ps, set *s)
{
    if (++ps->depth > TCI_REGEX_DEPTH_MAX)
        return fail(ps, "nested too deeply");
    ps->at++;
    skip_space(ps);
    bool is_negated = tci_regex_peek(ps, TC_STR("^"));
    ps->at += is_negated;
    skip_space(ps);
    if (is_negated && !(ps->flags & TCI_REGEX_U))
        return fail(ps, "may match half a character");
    bool is_first = true;
    for (; tci_regex_peek(ps, TC_STR("-")); is_first = false) {
        add_range(s, '-', '-');
        ps->at++;
        skip_space(ps);
    }
    if (is_first && tci_regex_peek(ps, TC_STR("]"))) {
        add_range(s, ']', ']');
        ps->at++;
    }
    int rc = take_union(ps, s);
    while (rc == 0 && !tci_regex_peek(ps, TC_STR("]"))) {
        char op = ps->p.ptr[ps->at];
        ps->at += 2;
        set right;
        set_init(&right);
        rc = take_union(ps, &right);
        if (rc == 0)
            combine(s, op, &right);
        set_done(&right);
    }
    if (rc < 0)
        return rc;
    ps->at++;
    ps->depth--;
    if (is_negated)
        negate(s);
    return 0;
}

int tci_regex_take_class(tci_regex_parser *ps)
{
    set s;
    set_init(&s);
    int rc = take_set(ps, &s);
    if (rc == 0)
        put_set(&s, ps->out);
    set_done(&s);
    return rc;
}
