/* SPDX-License-Identifier: Apache-2.0
 *
 * Applies a unified diff to a text, exactly. Leaves reading and writing the file, and whether it is
 * text, to file.c. Any thread.
 *
 * Invariant: source is used up from front to back, each byte once; out holds the result up to
 * there. */
#include "ops/patch.h"

#include "base/num.h"

typedef struct patcher {
    tc_str source, patch;
    size_t source_at, patch_at;
    uint64_t source_line; /* lines of source used up */
    uint64_t out_line;    /* lines put out */
    uint64_t patch_line;  /* lines of patch read, for messages */
    tci_buf *out;
} patcher;

typedef struct hunk {
    uint64_t old_start, old_count, new_start, new_count;
} hunk;

/* The line at *at with its LF; empty at the end. Does not move. */
static tc_str line_at(tc_str text, size_t at)
{
    tc_str rest = tci_str_sub(text, at, text.len);
    size_t lf = tci_str_find_byte(rest, '\n');
    return tci_str_sub(rest, 0, lf < rest.len ? lf + 1 : rest.len);
}

static int bad(const patcher *p, tc_err *err, const char *what)
{
    return tc_err_set(err, TC_E_INVALID, "patch line %llu: %s", (unsigned long long)p->patch_line,
                      what);
}

static int misfit(const patcher *p, tc_err *err, const char *what)
{
    (void)tc_err_set(err, TC_E_CONFLICT, "patch line %llu does not fit line %llu of the file: %s",
                     (unsigned long long)p->patch_line, (unsigned long long)p->source_line + 1,
                     what);
    return tc_err_hint(err, "read the file again and make a new patch");
}

static tc_str peek(const patcher *p)
{
    return line_at(p->patch, p->patch_at);
}

static void advance(patcher *p, tc_str line)
{
    p->patch_at += line.len;
    p->patch_line++;
}

static int put(patcher *p, tc_str line, tc_err *err)
{
    tci_buf_append_str(p->out, line);
    if (tci_buf_ok(p->out))
        return 0;
    return p->out->failed == TC_E_TOO_BIG
               ? tc_err_set(err, TC_E_QUOTA, "the result is larger than allowed")
               : tci_buf_error(p->out, err);
}

/* ---- header ---- */

static bool take(tc_str *s, const char *text)
{
    tc_str t = tci_str(text);
    if (!tci_str_starts(*s, t))
        return false;
    *s = tci_str_sub(*s, t.len, s->len);
    return true;
}

static bool take_number(tc_str *s, uint64_t *ret)
{
    size_t n = 0;
    uint64_t v = 0;
    for (; n < s->len && s->ptr[n] >= '0' && s->ptr[n] <= '9'; n++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s->ptr[n] - '0'), &v))
            return false;
    *s = tci_str_sub(*s, n, s->len);
    *ret = v;
    return n > 0;
}

/* start[,count] */
static bool take_range(tc_str *s, uint64_t *ret_start, uint64_t *ret_count)
{
    *ret_count = 1;
    return take_number(s, ret_start) && (!take(s, ",") || take_number(s, ret_count)) &&
           *ret_count <= TCI_PATCH_LINES_MAX && (*ret_start > 0 || *ret_count == 0);
}

static int read_header(patcher *p, hunk *ret, tc_err *err)
{
    tc_str s = peek(p);
    advance(p, s);
    if (!take(&s, "@@ -") || !take_range(&s, &ret->old_start, &ret->old_count) || !take(&s, " +") ||
        !take_range(&s, &ret->new_start, &ret->new_count) || !take(&s, " @@"))
        return bad(p, err, "not a hunk header");
    return 0;
}

/* Lines before a range: with a count of 0 it stands after its start. */
static uint64_t lines_before(uint64_t start, uint64_t count)
{
    return count == 0 ? start : start - 1;
}

/* Put out everything up to the hunk. */
static int go_to(patcher *p, const hunk *h, tc_err *err)
{
    uint64_t before = lines_before(h->old_start, h->old_count);
    if (before < p->source_line)
        return misfit(p, err, "the hunk lies before the end of the one above it");
    size_t from = p->source_at;
    while (p->source_line < before) {
        size_t n = line_at(p->source, p->source_at).len;
        if (n == 0)
            return misfit(p, err, "the file ends before the hunk");
        p->source_at += n;
        p->source_line++;
        p->out_line++;
    }
    int rc = put(p, tci_str_sub(p->source, from, p->source_at - from), err);
    if (rc == 0 && lines_before(h->new_start, h->new_count) != p->out_line)
        rc = bad(p, err, "the new start does not follow from the lines above");
    return rc;
}

/* ---- body ---- */

/* "\ No newline at end of file", the way diff writes it, with or without its own line end. */
static bool is_no_newline(tc_str line)
{
    tc_str rest = line;
    if (!take(&rest, "\\ No newline at end of file"))
        return false;
    (void)(take(&rest, "\r\n") || take(&rest, "\n")); /* either end is fine, and none */
    return rest.len == 0;
}

/* A context or removed line. */
static int match(patcher *p, tc_str text, tc_err *err)
{
    tc_str have = line_at(p->source, p->source_at);
    if (have.len == 0)
        return misfit(p, err, "the file ends here");
    if (!tci_str_eq(have, text))
        return misfit(p, err, "it is another line");
    p->source_at += have.len;
    p->source_line++;
    return 0;
}

/* One line of a body; *old and *new_ count. Whether they agree with the header shows at its end: a
 * line too many that does not fit is first of all a line that does not fit. */
static int apply_line(patcher *p, uint64_t *old, uint64_t *new_, tc_err *err)
{
    tc_str line = peek(p);
    advance(p, line);
    char sign = line.ptr[0];
    if (line.len > TCI_PATCH_LINE_BYTES_MAX)
        return bad(p, err, "too long");
    if (sign != ' ' && sign != '-' && sign != '+')
        return bad(p, err, "begins with none of space, '-', '+'");
    tc_str text = tci_str_sub(line, 1, line.len);
    tc_str next = peek(p);
    bool has_end = text.len > 0 && text.ptr[text.len - 1] == '\n';
    if (has_end && is_no_newline(next)) {
        text.len--;
        advance(p, next);
    }
    bool is_old = sign != '+', is_new = sign != '-';
    int rc = is_old ? match(p, text, err) : 0;
    if (rc == 0 && is_new)
        rc = put(p, text, err);
    *old += is_old;
    *new_ += is_new;
    p->out_line += is_new;
    return rc;
}

static int apply_hunk(patcher *p, tc_err *err)
{
    hunk h;
    int rc = read_header(p, &h, err);
    if (rc == 0)
        rc = go_to(p, &h, err);
    uint64_t old = 0, new_ = 0;
    while (rc == 0 && p->patch_at < p->patch.len && !tci_str_starts(peek(p), TC_STR("@@")))
        rc = apply_line(p, &old, &new_, err);
    if (rc == 0 && (old != h.old_count || new_ != h.new_count))
        rc = bad(p, err, "the hunk has not the lines that its header says");
    return rc;
}

static void skip_name(patcher *p, const char *sign)
{
    tc_str line = peek(p), rest = line;
    if (take(&rest, sign))
        advance(p, line);
}

int tci_patch_apply(tc_str source, tc_str patch, tci_buf *out, uint64_t *ret_hunks, tc_err *err)
{
    patcher p = {.source = source, .patch = patch, .out = out};
    uint64_t hunks = 0;
    int rc = 0;
    if (patch.len > 0 && memchr(patch.ptr, 0, patch.len) != NULL)
        return tc_err_set(err, TC_E_INVALID, "the patch has a NUL");
    skip_name(&p, "--- ");
    skip_name(&p, "+++ ");
    if (p.patch_at == patch.len)
        return bad(&p, err, "no hunk");
    while (rc == 0 && p.patch_at < patch.len) {
        if (hunks == TCI_PATCH_HUNKS_MAX)
            return bad(&p, err, "too many hunks");
        rc = apply_hunk(&p, err);
        hunks++;
    }
    if (rc == 0)
        rc = put(&p, tci_str_sub(source, p.source_at, source.len), err);
    if (rc == 0)
        *ret_hunks = hunks;
    return rc;
}
