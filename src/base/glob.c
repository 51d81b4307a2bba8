/* SPDX-License-Identifier: Apache-2.0
 *
 * Path patterns: braces are expanded when compiled, each alternative is cut into segments, common
 * forms of a segment get a comparison of their own. The rest is matched by walking the pattern's
 * text with one remembered star, and the segments with one remembered "**", which is enough
 * because a later star can do whatever an earlier one could. Leaves to others: what is hidden or
 * ignored. Any thread. Invariant: what is matched was validated by compile. */
#include "base/glob.h"
#include "base/utf8.h"

typedef enum seg_kind {
    SEG_STARSTAR,
    SEG_ANY,
    SEG_EXACT,
    SEG_PREFIX,
    SEG_SUFFIX,
    SEG_GENERAL
} seg_kind;

typedef struct seg {
    seg_kind kind;
    tc_str text; /* EXACT, PREFIX, SUFFIX: the literal part; GENERAL: the pattern */
} seg;

typedef struct alt {
    seg *segs;
    uint32_t nsegs;
    bool is_basename; /* one segment, compared with the last one of the path */
    bool is_any;
} alt;

struct tci_glob {
    alt *alts;
    size_t nalts;
    bool is_any;
    bool wants_basename;
};

static int invalid(tc_err *err, const char *why)
{
    return tc_err_set(err, TC_E_INVALID, "invalid pattern: %s", why);
}

/* One character from s at *at: a scalar, or a value of its own for a byte that is not UTF-8. */
static uint32_t next_char(tc_str s, size_t *at)
{
    unsigned char c = (unsigned char)s.ptr[*at];
    if (c < 0x80) {
        (*at)++;
        return c;
    }
    size_t n = 1;
    int32_t v = tci_utf8_decode(tci_str_of(s.ptr + *at, s.len - *at), &n);
    if (v < 0) {
        (*at)++;
        return 0x110000u + c;
    }
    *at += n;
    return (uint32_t)v;
}

/* ---- classes ---- */

/* Walk the class that starts at p.ptr[*at] == '['. On success *at is behind the ']' and the answer
 * tells whether c is in it; on a malformed class *ret_why says what is wrong. A '-' after a
 * finished range stretches that range (a-c-e is a-e). */
static bool class_has(tc_str p, size_t *at, uint32_t c, const char **ret_why)
{
    size_t i = *at + 1;
    bool is_negated = false, is_first = true, in_range = false, is_found = false, have = false;
    uint32_t low = 0, high = 0;
    if (i < p.len && (p.ptr[i] == '!' || p.ptr[i] == '^')) {
        is_negated = true;
        i++;
    }
    for (;; is_first = false) {
        if (i >= p.len) {
            *ret_why = "unclosed class";
            return false;
        }
        uint32_t v = next_char(p, &i);
        if (v == ']' && !is_first)
            break;
        if (v == '/') {
            *ret_why = "'/' in a class";
            return false;
        }
        if (v == '-' && !is_first && !in_range) {
            in_range = true;
            continue;
        }
        if (in_range) {
            if (v < low) {
                *ret_why = "reversed range";
                return false;
            }
            high = v;
            in_range = false;
        } else {
            low = high = v;
            have = true;
        }
        is_found = is_found || (have && c >= low && c <= high);
    }
    is_found = is_found || (in_range && c == '-'); /* a '-' at the end stands for itself */
    *at = i;
    return is_found != is_negated;
}

/* ---- matching ---- */

static bool match_general(tc_str p, tc_str s)
{
    size_t pi = 0, si = 0, star_p = SIZE_MAX, star_s = 0;
    const char *why = NULL;
    while (si < s.len) {
        if (pi < p.len) {
            char c = p.ptr[pi];
            if (c == '*') {
                star_p = ++pi;
                star_s = si;
                continue;
            }
            size_t next_p = pi + 1, next_s = si + 1;
            bool is_match;
            if (c == '?') {
                next_s = si;
                (void)next_char(s, &next_s);
                is_match = true;
            } else if (c == '[') {
                next_p = pi;
                next_s = si;
                uint32_t v = next_char(s, &next_s);
                is_match = class_has(p, &next_p, v, &why);
            } else {
                is_match = c == s.ptr[si];
            }
            if (is_match) {
                pi = next_p;
                si = next_s;
                continue;
            }
        }
        if (star_p == SIZE_MAX)
            return false;
        (void)next_char(s, &star_s);
        pi = star_p;
        si = star_s;
    }
    while (pi < p.len && p.ptr[pi] == '*')
        pi++;
    return pi == p.len;
}

static bool match_segment(const seg *g, tc_str s)
{
    switch (g->kind) {
    case SEG_STARSTAR:
    case SEG_ANY:
        return true;
    case SEG_EXACT:
        return tci_str_eq(g->text, s);
    case SEG_PREFIX:
        return tci_str_starts(s, g->text);
    case SEG_SUFFIX:
        return tci_str_ends(s, g->text);
    case SEG_GENERAL:
        return match_general(g->text, s);
    }
    return false;
}

static bool match_path(const alt *a, tc_str path)
{
    size_t p = 0, at = 0, star_p = SIZE_MAX, star_at = 0;
    while (at <= path.len) { /* at is the start of a segment; len + 1: none left */
        if (p < a->nsegs && a->segs[p].kind == SEG_STARSTAR) {
            star_p = ++p;
            star_at = at;
            if (p == a->nsegs)
                return true; /* at least this segment is there */
            continue;
        }
        tc_str rest = tci_str_of(path.ptr + at, path.len - at);
        size_t n = tci_str_find_byte(rest, '/');
        if (p < a->nsegs && match_segment(&a->segs[p], tci_str_of(rest.ptr, n))) {
            p++;
            at += n + 1;
            continue;
        }
        if (star_p == SIZE_MAX)
            return false;
        star_at += tci_str_find_byte(tci_str_of(path.ptr + star_at, path.len - star_at), '/') + 1;
        p = star_p;
        at = star_at;
    }
    return p == a->nsegs;
}

bool tci_glob_matches(const tci_glob *g, tc_str path)
{
    if (g->is_any)
        return true;
    if (path.len == 0)
        path = TC_STR("");
    tc_str name = path;
    if (g->wants_basename) {
        size_t slash = tci_str_rfind_byte(path, '/');
        if (slash < path.len)
            name = tci_str_of(path.ptr + slash + 1, path.len - slash - 1);
    }
    for (size_t i = 0; i < g->nalts; i++) {
        const alt *a = &g->alts[i];
        if (a->is_basename ? match_segment(a->segs, name) : match_path(a, path))
            return true;
    }
    return false;
}

bool tci_glob_is_any(const tci_glob *g)
{
    return g->is_any;
}

/* ---- compiling ---- */

static bool is_plain(tc_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] == '*' || s.ptr[i] == '?' || s.ptr[i] == '[')
            return false;
    return true;
}

static int check_segment(tc_str s, tc_err *err)
{
    for (size_t i = 0; i < s.len;) {
        if (s.ptr[i] == '[') {
            const char *why = NULL;
            (void)class_has(s, &i, 0, &why);
            if (why != NULL)
                return invalid(err, why);
        } else if (s.ptr[i] == '*' && i + 1 < s.len && s.ptr[i + 1] == '*') {
            return invalid(err, "'**' must be a whole segment");
        } else {
            i++;
        }
    }
    return 0;
}

static int compile_segment(tc_str s, seg *ret, tc_err *err)
{
    if (tci_str_eq(s, TC_STR("**"))) {
        *ret = (seg){.kind = SEG_STARSTAR};
        return 0;
    }
    int rc = check_segment(s, err);
    if (rc < 0)
        return rc;
    *ret = (seg){.kind = SEG_GENERAL, .text = s};
    if (is_plain(s)) {
        ret->kind = SEG_EXACT;
    } else if (s.ptr[0] == '*' && is_plain(tci_str_sub(s, 1, s.len))) {
        ret->kind = s.len == 1 ? SEG_ANY : SEG_SUFFIX;
        ret->text = tci_str_sub(s, 1, s.len);
    } else if (s.ptr[s.len - 1] == '*' && is_plain(tci_str_sub(s, 0, s.len - 1))) {
        ret->kind = SEG_PREFIX;
        ret->text = tci_str_sub(s, 0, s.len - 1);
    }
    return 0;
}

/* '/' never lies in a valid class, so cutting at every slash is right; a class that is cut is
 * found unclosed. */
static int compile_alt(tc_str text, tci_arena *a, alt *ret, tc_err *err)
{
    bool is_anchored = text.len > 0 && text.ptr[0] == '/';
    if (is_anchored)
        text = tci_str_sub(text, 1, text.len);
    if (text.len == 0)
        return invalid(err, "empty");
    size_t nslash = 0;
    for (size_t i = 0; i < text.len; i++)
        nslash += text.ptr[i] == '/';
    *ret = (alt){.segs = tci_arena_items(a, seg, nslash + 1)};
    if (ret->segs == NULL)
        return tci_arena_error(a, err);
    tc_str part, rest = text;
    while (tci_str_split(&rest, '/', &part)) {
        seg s;
        int rc = compile_segment(part, &s, err);
        if (rc < 0)
            return rc;
        bool is_repeat = s.kind == SEG_STARSTAR && ret->nsegs > 0 &&
                         ret->segs[ret->nsegs - 1].kind == SEG_STARSTAR;
        if (!is_repeat)
            ret->segs[ret->nsegs++] = s;
    }
    const seg *g = ret->segs;
    /* A slash behind nothing but "**" asks for nothing more. */
    if (ret->nsegs == 2 && g[0].kind == SEG_STARSTAR && g[1].kind == SEG_EXACT &&
        g[1].text.len == 0)
        ret->nsegs = 1;
    if (ret->nsegs == 2 && g[0].kind == SEG_STARSTAR) { /* any depth and a name: the name alone */
        ret->segs++;
        ret->nsegs = 1;
        ret->is_basename = true;
    } else if (ret->nsegs == 1) {
        ret->is_basename = !is_anchored && nslash == 0;
    }
    ret->is_any = ret->nsegs == 1 && (ret->segs[0].kind == SEG_STARSTAR ||
                                      (ret->segs[0].kind == SEG_ANY && ret->is_basename));
    return 0;
}

/* A group of alternatives in the pattern. */
typedef struct brace {
    size_t start, end; /* of "{...}", end behind the '}' */
    size_t nparts;
} brace;

enum { BRACES_MAX = 8 }; /* two alternatives each make 256 */

/* Find the groups; outside of them classes hide braces, inside of them they do not. */
static int find_braces(tc_str p, brace *ret, size_t *ret_count, tc_err *err)
{
    size_t n = 0, total = 1;
    for (size_t i = 0; i < p.len; i++) {
        if (p.ptr[i] == '[') {
            const char *why = NULL;
            (void)class_has(p, &i, 0, &why);
            if (why != NULL)
                return invalid(err, why);
            i--;
        } else if (p.ptr[i] == '}') {
            return invalid(err, "unbalanced '}'");
        } else if (p.ptr[i] == '{') {
            size_t len = tci_str_find_byte(tci_str_sub(p, i, p.len), '}');
            if (i + len >= p.len)
                return invalid(err, "unclosed '{'");
            tc_str part, rest = tci_str_sub(p, i + 1, len - 1);
            if (tci_str_find_byte(rest, '{') < rest.len)
                return invalid(err, "nested '{'");
            size_t nparts = 0;
            for (; tci_str_split(&rest, ',', &part); nparts++)
                if (part.len == 0)
                    return invalid(err, "empty alternative");
            if (nparts < 2)
                return invalid(err, "a single alternative");
            total *= nparts;
            if (nparts > TCI_GLOB_MAX_EXPANSIONS || total > TCI_GLOB_MAX_EXPANSIONS)
                return invalid(err, "too many alternatives");
            ret[n++] = (brace){i, i + len + 1, nparts};
            i += len;
        }
    }
    *ret_count = n;
    return 0;
}

/* The k-th expansion: the last group turns fastest. */
static int expand(tc_str p, const brace *b, size_t nb, size_t k, tci_arena *a, tc_str *ret,
                  tc_err *err)
{
    char *out = tci_arena_bytes(a, p.len > 0 ? p.len : 1);
    if (out == NULL)
        return tci_arena_error(a, err);
    size_t len = 0, at = 0, turn = 1;
    for (size_t i = 0; i < nb; i++)
        turn *= b[i].nparts;
    for (size_t i = 0; i < nb; i++) {
        turn /= b[i].nparts;
        size_t pick = k / turn % b[i].nparts;
        memcpy(out + len, p.ptr + at, b[i].start - at);
        len += b[i].start - at;
        tc_str part = {NULL, 0}, rest = tci_str_sub(p, b[i].start + 1, b[i].end - b[i].start - 2);
        for (size_t j = 0; j <= pick; j++)
            (void)tci_str_split(&rest, ',', &part); /* counted before */
        memcpy(out + len, part.ptr, part.len);
        len += part.len;
        at = b[i].end;
    }
    memcpy(out + len, p.ptr + at, p.len - at);
    *ret = tci_str_of(out, len + p.len - at);
    return 0;
}

int tci_glob_compile(tc_str pattern, tci_arena *a, const tci_glob **ret_glob, tc_err *err)
{
    if (pattern.len == 0 || tci_str_eq(pattern, TC_STR("/")))
        return invalid(err, "empty");
    if (pattern.len > TCI_GLOB_MAX_BYTES)
        return invalid(err, "too long");
    if (tci_str_find_byte(pattern, '\\') < pattern.len)
        return invalid(err, "backslash");
    if (tci_str_find_byte(pattern, '\0') < pattern.len)
        return invalid(err, "NUL");
    brace braces[BRACES_MAX];
    size_t nbraces = 0, nalts = 1;
    int rc = find_braces(pattern, braces, &nbraces, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < nbraces; i++)
        nalts *= braces[i].nparts;
    tci_glob *g = tci_arena_new(a, tci_glob);
    if (g == NULL || (g->alts = tci_arena_items(a, alt, nalts)) == NULL)
        return tci_arena_error(a, err);
    g->nalts = nalts;
    for (size_t i = 0; i < nalts; i++) {
        tc_str text = {NULL, 0};
        if ((rc = expand(pattern, braces, nbraces, i, a, &text, err)) < 0 ||
            (rc = compile_alt(text, a, &g->alts[i], err)) < 0)
            return rc;
        g->is_any = g->is_any || g->alts[i].is_any;
        g->wants_basename = g->wants_basename || g->alts[i].is_basename;
    }
    *ret_glob = g;
    return 0;
}
