/* SPDX-License-Identifier: Apache-2.0
 *
 * Ignore rules: lines into rules, and the wild card match that git makes (gitignore(5)): bytes; '*'
 * and '?' stay within a segment; "**" between slashes crosses them. Leaves to others: reading
 * files, and which file applies where. Any thread. Invariant: a pattern kept is well formed, so the
 * matcher need not look for the end of a class.
 *
 * Matching remembers one '*' and one "**". That is enough: a '*' cannot cross a slash, so once its
 * segment is left there is no other way through it; and what lies between two "**" has a fixed
 * number of slashes, so its earliest fit is as good as any. */
#include "base/ignore.h"
#include "base/str.h"

#include <ctype.h>

typedef enum rule_flags {
    RULE_NEGATED = 1 << 0,
    RULE_DIRECTORY = 1 << 1, /* directories only */
    RULE_BASENAME = 1 << 2,  /* no slash: compared with the last segment */
    RULE_SUFFIX = 1 << 3     /* a star and plain text: compared with the end of the last segment */
} rule_flags;

typedef struct rule {
    tc_str pattern;
    uint32_t nplain; /* bytes at the start without special characters */
    uint32_t flags;
} rule;

struct tci_ignore {
    rule *rules;
    size_t nrules;
};

static bool is_special(char c)
{
    return c == '*' || c == '?' || c == '[' || c == '\\';
}

/* ---- classes ---- */

typedef struct posix_class {
    char name[8];
    int (*has)(int c);
} posix_class;

/* The process stays in the C locale, where these ask about ASCII only. */
static const posix_class posix_classes[] = {
    {"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
    {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
    {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit},
};

/* The byte at *at, an escape resolved; *at moves behind it. -1 at the end. */
static int class_byte(tc_str p, size_t *at)
{
    if (*at < p.len && p.ptr[*at] == '\\')
        (*at)++;
    return *at < p.len ? (unsigned char)p.ptr[(*at)++] : -1;
}

/* "[:name:]" at p[*at]: 1 when c is in it, 0 when not, -2 when it is no such thing (a plain '['),
 * -1 for an unknown name or a class without end. */
static int named_class(tc_str p, size_t *at, unsigned char c)
{
    size_t from = *at + 2, end = from;
    while (end < p.len && p.ptr[end] != ']')
        end++;
    if (end >= p.len)
        return -1;
    if (end == from || p.ptr[end - 1] != ':')
        return -2;
    tc_str name = tci_str_sub(p, from, end - 1 - from);
    for (size_t i = 0; i < TCI_ARRAY_LEN(posix_classes); i++) {
        if (tci_str_eq(tci_str(posix_classes[i].name), name)) {
            *at = end + 1;
            return posix_classes[i].has(c) != 0;
        }
    }
    return -1;
}

/* Whether c is in the class at p[*at] == '['; *at moves behind it. -1: malformed. */
static int class_has(tc_str p, size_t *at, unsigned char c)
{
    size_t i = *at + 1;
    bool is_negated = i < p.len && (p.ptr[i] == '!' || p.ptr[i] == '^'), is_found = false;
    int previous = 0; /* what a '-' may start a range from; 0: nothing */
    i += is_negated;
    for (bool is_first = true; is_first || i >= p.len || p.ptr[i] != ']'; is_first = false) {
        if (i >= p.len)
            return -1;
        bool is_range = p.ptr[i] == '-' && previous != 0 && i + 1 < p.len && p.ptr[i + 1] != ']';
        if (is_range) {
            i++;
            int high = class_byte(p, &i);
            if (high < 0)
                return -1;
            is_found = is_found || (c >= previous && c <= high);
            previous = 0;
            continue;
        }
        if (p.ptr[i] == '[' && i + 1 < p.len && p.ptr[i + 1] == ':') {
            int is_in = named_class(p, &i, c);
            if (is_in == -1)
                return -1;
            if (is_in >= 0) {
                is_found = is_found || is_in == 1;
                previous = 0;
                continue;
            }
        }
        previous = class_byte(p, &i);
        if (previous < 0)
            return -1;
        is_found = is_found || c == previous;
    }
    *at = i + 1;
    return is_found != is_negated;
}

/* ---- matching ---- */

/* What follows a run of stars at p[*at]; *at moves behind it. */
typedef enum star { STAR_ONE, STAR_SLASHES, STAR_FOLDERS, STAR_REST } star;

static star take_stars(tc_str p, size_t *at, bool is_path)
{
    size_t from = *at, i = from;
    while (i < p.len && p.ptr[i] == '*')
        i++;
    *at = i;
    if (!is_path || i - from < 2 || (from > 0 && p.ptr[from - 1] != '/'))
        return STAR_ONE;
    if (i == p.len)
        return STAR_REST;
    if (p.ptr[i] == '/') {
        *at = i + 1;
        return STAR_FOLDERS;
    }
    if (p.ptr[i] == '\\' && i + 1 < p.len && p.ptr[i + 1] == '/') {
        *at = i + 2;
        return STAR_SLASHES;
    }
    return STAR_ONE;
}

/* One pattern character against one byte; *at moves behind the former. */
static bool match_byte(tc_str p, size_t *at, char c, bool is_path)
{
    char want = p.ptr[*at];
    if (want == '?') {
        (*at)++;
        return !is_path || c != '/';
    }
    if (want == '[')
        return class_has(p, at, (unsigned char)c) == 1 && !(is_path && c == '/');
    if (want == '\\')
        want = p.ptr[++*at]; /* there is one: checked when parsed */
    (*at)++;
    return want == c;
}

/* is_path: slashes are special. */
static bool wild_match(tc_str p, tc_str s, bool is_path)
{
    size_t pi = 0, si = 0;
    size_t one_p = SIZE_MAX, one_s = 0;   /* behind the last '*', and where it ends in s now */
    size_t many_p = SIZE_MAX, many_s = 0; /* the same for "**" and its slash */
    for (;;) {
        if (pi < p.len && p.ptr[pi] == '*') {
            star kind = take_stars(p, &pi, is_path);
            if (kind == STAR_REST)
                return true;
            one_p = kind == STAR_ONE ? pi : SIZE_MAX;
            one_s = si;
            if (kind == STAR_ONE)
                continue;
            many_p = pi;
            many_s = si;
            if (kind == STAR_FOLDERS)
                continue;
        } else if (pi == p.len && si == s.len) {
            return true;
        } else if (pi < p.len && si < s.len) {
            size_t next = pi;
            bool was_slash = is_path && s.ptr[si] == '/';
            if (match_byte(p, &next, s.ptr[si], is_path)) {
                pi = next;
                si++;
                if (was_slash)
                    one_p = SIZE_MAX;
                continue;
            }
        }
        /* No way on from here: let the last star take more. */
        if (one_p != SIZE_MAX && one_s < s.len && !(is_path && s.ptr[one_s] == '/')) {
            pi = one_p;
            si = ++one_s;
            continue;
        }
        if (many_p == SIZE_MAX)
            return false;
        many_s += tci_str_find_byte(tci_str_sub(s, many_s, s.len), '/') + 1;
        if (many_s > s.len)
            return false;
        one_p = SIZE_MAX;
        pi = many_p;
        si = many_s;
    }
}

static bool rule_matches(const rule *r, tc_str path, tc_str name)
{
    if (r->flags & RULE_BASENAME) {
        if (r->nplain == r->pattern.len)
            return tci_str_eq(r->pattern, name);
        if (r->flags & RULE_SUFFIX)
            return tci_str_ends(name, tci_str_sub(r->pattern, 1, r->pattern.len));
        return wild_match(r->pattern, name, false);
    }
    tc_str plain = tci_str_sub(r->pattern, 0, r->nplain);
    if (!tci_str_starts(path, plain))
        return false;
    /* The rest is matched as if it began here, as git does: stars right behind plain text
     * count as if they stood at the start. */
    tc_str rest = tci_str_sub(path, r->nplain, path.len);
    if (r->nplain == r->pattern.len)
        return rest.len == 0;
    return wild_match(tci_str_sub(r->pattern, r->nplain, r->pattern.len), rest, true);
}

tci_ignore_verdict tci_ignore_match(const tci_ignore *ignore, tc_str path, bool is_directory)
{
    size_t slash = tci_str_rfind_byte(path, '/');
    tc_str name = slash < path.len ? tci_str_sub(path, slash + 1, path.len) : path;
    for (size_t i = ignore->nrules; i > 0; i--) {
        const rule *r = &ignore->rules[i - 1];
        if ((r->flags & RULE_DIRECTORY) && !is_directory)
            continue;
        if (rule_matches(r, path, name))
            return r->flags & RULE_NEGATED ? TCI_IGNORE_INCLUDED : TCI_IGNORE_EXCLUDED;
    }
    return TCI_IGNORE_NONE;
}

bool tci_ignore_is_empty(const tci_ignore *ignore)
{
    return ignore->nrules == 0;
}

/* ---- parsing ---- */

/* Spaces at the end go, unless a backslash holds them. */
static tc_str trim_spaces(tc_str line)
{
    size_t keep = 0;
    for (size_t i = 0; i < line.len; i++) {
        if (line.ptr[i] == '\\') {
            i++;
            keep = i < line.len ? i + 1 : line.len;
        } else if (line.ptr[i] != ' ') {
            keep = i + 1;
        }
    }
    return tci_str_sub(line, 0, keep);
}

static bool is_well_formed(tc_str p)
{
    for (size_t i = 0; i < p.len;) {
        if (p.ptr[i] == '\\' && i + 1 == p.len)
            return false;
        if (p.ptr[i] == '[') {
            if (class_has(p, &i, 0) < 0)
                return false;
        } else {
            i += p.ptr[i] == '\\' ? 2 : 1;
        }
    }
    return true;
}

/* A line that is neither empty nor a comment. False when it can never match. */
static bool take_rule(tc_str line, rule *ret)
{
    rule r = {0};
    if (line.ptr[0] == '!') {
        r.flags |= RULE_NEGATED;
        line = tci_str_sub(line, 1, line.len);
    }
    if (line.len > 0 && line.ptr[line.len - 1] == '/') {
        r.flags |= RULE_DIRECTORY;
        line.len--;
    }
    if (tci_str_find_byte(line, '/') == line.len)
        r.flags |= RULE_BASENAME;
    else if (line.ptr[0] == '/')
        line = tci_str_sub(line, 1, line.len);
    while (r.nplain < line.len && !is_special(line.ptr[r.nplain]))
        r.nplain++;
    if (line.len > 0 && line.ptr[0] == '*') {
        size_t i = 1;
        while (i < line.len && !is_special(line.ptr[i]))
            i++;
        if (i == line.len)
            r.flags |= RULE_SUFFIX;
    }
    r.pattern = line;
    *ret = r;
    return line.len > 0 && is_well_formed(line);
}

int tci_ignore_parse(tc_str text, tci_arena *a, tci_ignore_warn *warn, void *ctx,
                     const tci_ignore **ret_ignore, tc_err *err)
{
    if (tci_str_starts(text, TC_STR("\xef\xbb\xbf")))
        text = tci_str_sub(text, 3, text.len);
    tc_str copy, line;
    int rc = tci_arena_dup(a, text, &copy, err);
    if (rc < 0)
        return rc;
    size_t nlines = 1;
    for (size_t i = 0; i < copy.len; i++)
        nlines += copy.ptr[i] == '\n';
    tci_ignore *ign = tci_arena_new(a, tci_ignore);
    if (ign == NULL || (ign->rules = tci_arena_items(a, rule, nlines)) == NULL)
        return tci_arena_error(a, err);
    size_t number = 0;
    while (tci_str_split(&copy, '\n', &line)) {
        number++;
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        line.len = tci_str_find_byte(line, '\0');
        line = trim_spaces(line);
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        if (take_rule(line, &ign->rules[ign->nrules]))
            ign->nrules++;
        else if (warn != NULL)
            warn(ctx, number, line);
    }
    *ret_ignore = ign;
    return 0;
}
