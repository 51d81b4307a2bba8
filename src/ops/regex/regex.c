/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding lines that match. Three steps, each only where the one before leaves something: the text
 * every match contains, by byte search; the compiled expression, over runs of whole lines; and
 * where that gives up or could take long, PCRE2's state machine over one line, whose time is
 * bounded by the length of the line times the size of the pattern. Leaves to others: files,
 * validity of the text, counting. One thread per object. Invariant: PCRE2 sees only valid UTF-8 and
 * whole lines. */
#include "ops/regex/regex.h"
#include "ops/needle_int.h"
#include "ops/regex/regex_int.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum {
    MATCH_LIMIT = 100000, /* backtracking steps from one start */
    GIVE_UPS_MAX = 8,     /* after that many the state machine is asked first */
    JIT_STACK_MIN = 32 * 1024,
    JIT_STACK_MAX = 1024 * 1024,
    NEST_MAX = 3 * TCI_REGEX_DEPTH_MAX,
    WORKSPACE_MIN = 4096,
    WORKSPACE_MAX = 1 << 22
};

#define COMPILE_OPTIONS \
    (PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_ALT_CIRCUMFLEX | PCRE2_NEVER_BACKSLASH_C)

struct tci_regex {
    tci_regex_facts facts;
    tci_buf text;  /* the plain text, or the translated pattern */
    bool is_plain; /* finding the needle is all there is to do */
    bool has_needle;
    bool is_caseless;
    bool is_never; /* cannot match: the plain text holds an LF */
    tci_needle needle;
    size_t run_bytes;  /* how much is given to the compiled expression at once */
    bool is_line_safe; /* lines longer than that too */
    unsigned ngive_ups;
    pcre2_code *code, *machine;
    pcre2_match_data *data;
    pcre2_match_context *match;
    pcre2_jit_stack *stack;
    bool has_jit;
    int *workspace;
    size_t nworkspace;
    tc_str in;
};

/* ---- compiling ---- */

static pcre2_code *compile(tc_str pattern, uint32_t options, pcre2_compile_context *context,
                           int *ret_code)
{
    PCRE2_SIZE at;
    return pcre2_compile((PCRE2_SPTR)(pattern.len > 0 ? pattern.ptr : ""), pattern.len, options,
                         ret_code, &at, context);
}

bool tci_regex_has_property(const char *name)
{
    char text[128];
    size_t len = strlen(name);
    int code;
    if (len == 0 || len > sizeof text - 5)
        return false;
    memcpy(text, "\\p{", 3);
    memcpy(text + 3, name, len);
    text[3 + len] = '}';
    pcre2_code *re = compile(tci_str_of(text, len + 4), PCRE2_UTF, NULL, &code);
    pcre2_code_free(re);
    return re != NULL;
}

static int compile_both(tci_regex *re, tc_err *err)
{
    int code = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context == NULL)
        return tci_err_no_memory(err);
    (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);   /* a known value */
    (void)pcre2_set_parens_nest_limit(context, NEST_MAX); /* cannot fail */
    re->code = compile(tci_buf_str(&re->text),
                       COMPILE_OPTIONS | (re->is_caseless ? PCRE2_CASELESS : 0), context, &code);
    pcre2_compile_context_free(context);
    if (re->code == NULL) {
        char why[128] = "";
        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why); /* may be cut */
        return tc_err_set(err, code == PCRE2_ERROR_NOMEMORY ? TC_E_NO_MEMORY : TC_E_INVALID,
                          "invalid expression: %s", why);
    }
    re->data = pcre2_match_data_create(1, NULL);
    re->match = pcre2_match_context_create(NULL);
    if (re->data == NULL || re->match == NULL)
        return tci_err_no_memory(err);
    (void)pcre2_set_match_limit(re->match, MATCH_LIMIT); /* cannot fail */
    /* Without the compiler (a system that forbids it) the interpreter answers the same. */
    re->has_jit = pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE) == 0;
    if (re->has_jit) {
        re->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL);
        if (re->stack == NULL)
            return tci_err_no_memory(err);
        pcre2_jit_stack_assign(re->match, NULL, re->stack);
    }
    return 0;
}

/* The state machine looks for all starts at once: ".*?" in front, tied to the start of the line. */
static int compile_machine(tci_regex *re, tc_err *err)
{
    tci_buf p;
    int code;
    tci_buf_init(&p, TCI_BUF_MAX);
    tci_buf_append_str(&p, TC_STR(".*?(?:"));
    tci_buf_append_str(&p, tci_buf_str(&re->text));
    tci_buf_append_byte(&p, ')');
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (tci_buf_ok(&p) && context != NULL) {
        (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        (void)pcre2_set_parens_nest_limit(context, NEST_MAX + 1);
        re->machine =
            compile(tci_buf_str(&p),
                    COMPILE_OPTIONS | PCRE2_ANCHORED | (re->is_caseless ? PCRE2_CASELESS : 0),
                    context, &code);
    }
    pcre2_compile_context_free(context);
    tci_buf_done(&p);
    /* What compiled before compiles now, but for memory or size. */
    return re->machine != NULL ? 0 : tci_err_no_memory(err);
}

/* How long a run may be so that even a bad expression stays within some milliseconds. */
static void choose_run(tci_regex *re)
{
    const tci_regex_facts *f = &re->facts;
    re->is_line_safe = f->nrepeats == 0 && !f->is_nested;
    if (re->is_line_safe)
        re->run_bytes = 1 << 20;
    else if (f->is_nested)
        re->run_bytes = 4096;
    else
        re->run_bytes = f->nrepeats == 1 ? 32768 : f->nrepeats == 2 ? 8192 : 1024;
}

/* Plain text that must fold: as an expression with everything escaped. */
static void escape(tc_str text, tci_buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        bool is_alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (c < 0x80 && !is_alnum && c != '<' && c != '>')
            tci_buf_append_byte(out, '\\');
        tci_buf_append_byte(out, (char)c);
    }
}

static int prepare(tci_regex *re, tc_str pattern, bool is_text, tc_err *err)
{
    int rc = 0;
    if (is_text && (!re->is_caseless || tci_str_find_byte(pattern, '\n') < pattern.len)) {
        tci_buf_append_str(&re->text, pattern);
        re->is_plain = re->has_needle = true;
        re->is_never = tci_str_find_byte(pattern, '\n') < pattern.len;
        tci_needle_init(&re->needle, tci_buf_str(&re->text), false);
        return tci_buf_error(&re->text, err);
    }
    tci_buf escaped;
    tci_buf_init(&escaped, TCI_BUF_MAX);
    if (is_text)
        escape(pattern, &escaped);
    rc = tci_buf_error(&escaped, err);
    if (rc == 0)
        rc = tci_regex_translate(is_text ? tci_buf_str(&escaped) : pattern, re->is_caseless,
                                 &re->text, &re->facts, err);
    tci_buf_done(&escaped);
    if (rc < 0)
        return rc;
    const tci_regex_facts *f = &re->facts;
    re->has_needle = f->nliteral > 0;
    re->is_plain = f->is_only_literal;
    if (re->has_needle)
        tci_needle_init(&re->needle, tci_str_of(f->literal, f->nliteral), f->is_literal_caseless);
    choose_run(re);
    return re->is_plain ? 0 : compile_both(re, err);
}

int tci_regex_new(tc_str pattern, bool is_text, bool is_caseless, tci_regex **ret_regex,
                  tc_err *err)
{
    tci_regex *re = tci_new(tci_regex);
    if (re == NULL)
        return tci_err_no_memory(err);
    re->is_caseless = is_caseless;
    tci_buf_init(&re->text, TCI_BUF_MAX);
    int rc = prepare(re, pattern, is_text, err);
    if (rc < 0) {
        tci_regex_free(re);
        return rc;
    }
    *ret_regex = re;
    return 0;
}

void tci_regex_free(tci_regex *re)
{
    if (re == NULL)
        return;
    pcre2_code_free(re->code);
    pcre2_code_free(re->machine);
    pcre2_match_data_free(re->data);
    pcre2_match_context_free(re->match);
    pcre2_jit_stack_free(re->stack);
    tci_buf_done(&re->text);
    tci_free(re->workspace);
    tci_free(re);
}

/* ---- matching ---- */

void tci_regex_start(tci_regex *re, tc_str text)
{
    re->in = text;
    if (re->has_needle)
        tci_needle_start(&re->needle, text);
}

static int grow_workspace(tci_regex *re, tc_err *err)
{
    size_t n = re->nworkspace == 0 ? WORKSPACE_MIN : re->nworkspace * 4;
    int *w = n <= WORKSPACE_MAX ? tci_mem_resize(re->workspace, n * sizeof *w) : NULL;
    if (w == NULL)
        return tci_err_no_memory(err);
    re->workspace = w;
    re->nworkspace = n;
    return 0;
}

/* 1, 0 or an error, by the state machine. line has no LF. */
static int match_by_machine(tci_regex *re, tc_str line, tc_err *err)
{
    if (re->machine == NULL) {
        int rc = compile_machine(re, err);
        if (rc < 0)
            return rc;
    }
    for (;;) {
        int rc = re->nworkspace > 0 ? pcre2_dfa_match(re->machine, (PCRE2_SPTR)line.ptr, line.len,
                                                      0, PCRE2_NO_UTF_CHECK | PCRE2_DFA_SHORTEST,
                                                      re->data, NULL, re->workspace, re->nworkspace)
                                    : PCRE2_ERROR_DFA_WSSIZE;
        if (rc >= 0)
            return 1;
        if (rc == PCRE2_ERROR_NOMATCH)
            return 0;
        if (rc != PCRE2_ERROR_DFA_WSSIZE && rc != PCRE2_ERROR_DFA_RECURSE)
            return tc_err_set(err, rc == PCRE2_ERROR_NOMEMORY ? TC_E_NO_MEMORY : TC_E_INTERNAL,
                              "matching failed (%d)", rc);
        rc = grow_workspace(re, err);
        if (rc < 0)
            return rc;
    }
}

/* 1 and *ret_at, 0, or -1 when it gave up. */
static int match_compiled(tci_regex *re, tc_str run, size_t *ret_at)
{
    int rc = re->has_jit ? pcre2_jit_match(re->code, (PCRE2_SPTR)run.ptr, run.len, 0,
                                           PCRE2_NO_UTF_CHECK, re->data, re->match)
                         : pcre2_match(re->code, (PCRE2_SPTR)run.ptr, run.len, 0,
                                       PCRE2_NO_UTF_CHECK, re->data, re->match);
    if (rc >= 0)
        *ret_at = pcre2_get_ovector_pointer(re->data)[0];
    return rc >= 0 ? 1 : rc == PCRE2_ERROR_NOMATCH ? 0 : -1;
}

/* line without its LF. */
static int match_line(tci_regex *re, tc_str line, tc_err *err)
{
    size_t at;
    bool try_compiled =
        (line.len <= re->run_bytes || re->is_line_safe) && re->ngive_ups < GIVE_UPS_MAX;
    int rc = try_compiled ? match_compiled(re, line, &at) : -1;
    if (rc >= 0)
        return rc;
    re->ngive_ups += try_compiled;
    return match_by_machine(re, line, err);
}

static size_t line_end(tc_str s, size_t from) /* the LF, or s.len */
{
    return from + tci_str_find_byte(tci_str_of(s.ptr + from, s.len - from), '\n');
}

/* From the line start `from` to a line start as far on as a run may be; one line at least. */
static size_t run_end(const tci_regex *re, size_t from)
{
    if (re->in.len - from <= re->run_bytes)
        return re->in.len;
    tc_str window = tci_str_of(re->in.ptr + from, re->run_bytes);
    size_t lf = tci_str_rfind_byte(window, '\n');
    if (lf < window.len)
        return from + lf + 1;
    size_t end = line_end(re->in, from + re->run_bytes);
    return end < re->in.len ? end + 1 : end;
}

/* All lines of [from, end), one at a time. */
static int match_lines(tci_regex *re, size_t from, size_t end, const tci_cancel *cancel,
                       size_t *ret_at, tc_err *err)
{
    int rc = 0;
    while (rc == 0 && from < end) {
        size_t stop = line_end(re->in, from);
        rc = tci_cancel_check(cancel, err);
        if (rc == 0)
            rc = match_line(re, tci_str_of(re->in.ptr + from, stop - from), err);
        *ret_at = from;
        from = stop + 1;
    }
    return rc;
}

static int find_by_runs(tci_regex *re, size_t from, const tci_cancel *cancel, size_t *ret_at,
                        tc_err *err)
{
    size_t at;
    int rc = 0;
    for (size_t nruns = 1; rc == 0 && from < re->in.len; nruns++) {
        size_t end = run_end(re, from);
        if (nruns % 64 == 0 && (rc = tci_cancel_check(cancel, err)) < 0)
            return rc;
        tc_str run = tci_str_of(re->in.ptr + from, end - from);
        if (run.ptr[run.len - 1] == '\n')
            run.len--;
        bool try_compiled =
            (run.len <= re->run_bytes || re->is_line_safe) && re->ngive_ups < GIVE_UPS_MAX;
        rc = try_compiled ? match_compiled(re, run, &at) : -1;
        if (rc > 0)
            *ret_at = from + at;
        else if (rc < 0)
            rc = match_lines(re, from, end, cancel, ret_at, err);
        from = end;
    }
    return rc;
}

/* Lines that hold the needle. */
static int find_by_needle(tci_regex *re, size_t from, const tci_cancel *cancel, size_t *ret_at,
                          tc_err *err)
{
    int rc = 0;
    for (size_t nlines = 1; rc == 0 && from < re->in.len; nlines++) {
        if (nlines % 256 == 0 && (rc = tci_cancel_check(cancel, err)) < 0)
            return rc;
        size_t hit = tci_needle_find(&re->needle, from);
        if (hit >= re->in.len)
            return 0;
        size_t lf = tci_str_rfind_byte(tci_str_of(re->in.ptr + from, hit - from), '\n');
        size_t start = lf < hit - from ? from + lf + 1 : from;
        size_t end = line_end(re->in, hit);
        rc = match_line(re, tci_str_of(re->in.ptr + start, end - start), err);
        *ret_at = start;
        from = end + 1;
    }
    return rc;
}

int tci_regex_find(tci_regex *re, size_t from, bool is_valid, const tci_cancel *cancel,
                   size_t *ret_at, tc_err *err)
{
    if (re->is_never || from >= re->in.len)
        return 0;
    if (re->has_needle && (re->is_plain || !is_valid)) {
        size_t hit = tci_needle_find(&re->needle, from);
        *ret_at = hit;
        return hit < re->in.len;
    }
    if (!is_valid) {
        *ret_at = from;
        return 1;
    }
    return re->has_needle ? find_by_needle(re, from, cancel, ret_at, err)
                          : find_by_runs(re, from, cancel, ret_at, err);
}
