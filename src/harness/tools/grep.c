/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool "grep": lines that match a pattern. The device searches where it can (tc_env_search); where it
 * cannot, and in a single file, lines are read and matched here. The thread of the call.
 *
 * To keep: a line is shown whole up to LINE_MAX_CHARS, else around its matches with their columns. */
#include "harness/tools/tool_common.h"

#include "base/glob.h"
#include "base/num.h"
#include "base/utf8.h"
#include "harness/schema/validate_pattern.h"

enum {
    LIMIT = 100,
    LIMIT_MAX = 2000,
    CONTEXT_MAX = 20,
    LINE_MAX_CHARS = 500,
    AROUND = 100, /* bytes shown on each side of a match in a long line */
    EXCERPTS = 3, /* of one line */
    LONG_LINE_MAX = 8 * 1024 * 1024,
    MAX_FILES = 5000,
    MAX_FILE_BYTES = 16 * 1024 * 1024
};

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"pattern\":{\"type\":\"string\",\"description\":\"Regular expression, or text with "
    "literal\"},"
    "\"path\":{\"type\":\"string\",\"description\":\"Folder or file to search; without it the "
    "working "
    "directory\"},"
    "\"glob\":{\"type\":\"string\",\"description\":\"Only files whose path matches: *.ts, "
    "src/**/*.c\"},"
    "\"ignoreCase\":{\"type\":\"boolean\"},"
    "\"literal\":{\"type\":\"boolean\",\"description\":\"Take the pattern as plain text\"},"
    "\"context\":{\"type\":\"number\",\"description\":\"Lines to show before and after each match "
    "(0)\"},"
    "\"offset\":{\"type\":\"number\",\"description\":\"Match to start at, from 1\"},"
    "\"limit\":{\"type\":\"number\",\"description\":\"Most matches to show (100)\"}},"
    "\"required\":[\"pattern\"]}";

typedef struct job {
    tci_work w;
    tc_str pattern, glob_text, root, shown;
    bool is_literal, ignores_case, is_file;
    uint64_t first, limit, context;
    const tci_pattern *regex; /* NULL: not to be had here */
    const tci_glob *glob;
    tci_buf out;
    uint64_t nfound; /* matches seen, those before first too */
    uint64_t nshown;
    bool has_more, is_partial; /* files were passed over */
    tc_str last_path;
    uint64_t last_line; /* shown last of last_path; 0: none */
} job;

/* ---- lines ---- */

static tc_str shown_path(const job *j, tc_str path)
{
    tc_str below = path;
    if (tci_str_starts(path, j->root) && path.len > j->root.len) {
        below = tci_str_sub(path, j->root.len, path.len);
        while (below.len > 0 && below.ptr[0] == '/')
            below = tci_str_sub(below, 1, below.len);
    }
    return below;
}

static void put_prefix(job *j, tc_str path, uint64_t line, char sign)
{
    if (!j->is_file)
        tci_buf_append_str(&j->out, j->shown);
    tci_buf_append_str(&j->out, path);
    tci_buf_append_byte(&j->out, sign);
    tci_buf_append_u64(&j->out, line);
    tci_buf_append_byte(&j->out, sign);
}

static tc_str without_return(tc_str line)
{
    return line.len > 0 && line.ptr[line.len - 1] == '\r' ? tci_str_sub(line, 0, line.len - 1)
                                                          : line;
}

/* At a character's border, towards 0. */
static size_t border(tc_str s, size_t at)
{
    while (at > 0 && at < s.len && ((unsigned char)s.ptr[at] & 0xC0) == 0x80)
        at--;
    return at;
}

static int find_in(job *j, tc_str text, bool *ret_is_found, size_t *ret_start, size_t *ret_end)
{
    if (j->is_literal && !j->ignores_case) {
        size_t at = tci_str_find(text, j->pattern);
        *ret_is_found = at < text.len || j->pattern.len == 0;
        *ret_start = at;
        *ret_end = at + j->pattern.len;
        return 0;
    }
    if (j->regex != NULL)
        return tci_pattern_find(j->regex, text, ret_is_found, ret_start, ret_end, j->w.err);
    *ret_is_found = false;
    return 0;
}

/* Parts of a long line around its matches: "path:12:34567: ...text...". */
static int put_excerpts(job *j, tc_str path, uint64_t number, tc_str line)
{
    size_t at = 0, n = 0;
    for (; n < EXCERPTS && at < line.len; n++) {
        bool is_found;
        size_t start = 0, end = 0;
        if (find_in(j, tci_str_sub(line, at, line.len), &is_found, &start, &end) < 0)
            return j->w.err->code;
        if (!is_found)
            break;
        start += at;
        end += at;
        size_t from = border(line, start > AROUND ? start - AROUND : 0);
        size_t to =
            border(line, tci_min_size(tci_min_size(end, start + AROUND) + AROUND, line.len));
        put_prefix(j, path, number, ':');
        tci_buf_append_u64(&j->out, tci_utf8_count(tci_str_sub(line, 0, start)) + 1);
        tci_buf_append_str(&j->out, from > 0 ? TC_STR(": ...") : TC_STR(": "));
        tci_buf_append_str(&j->out, tci_str_sub(line, from, to - from));
        tci_buf_append_str(&j->out, to < line.len ? TC_STR("...\n") : TC_STR("\n"));
        at = to > end ? to : end + (end == start);
    }
    if (n == 0) {
        put_prefix(j, path, number, ':');
        tci_buf_append_byte(&j->out, ' ');
        tci_buf_append_str(&j->out,
                           tci_str_sub(line, 0, border(line, tci_min_size(2 * AROUND, line.len))));
        tci_buf_append_str(&j->out, TC_STR("... (long line)\n"));
    }
    return 0;
}

static void put_line(job *j, tc_str path, uint64_t number, tc_str line, char sign)
{
    put_prefix(j, path, number, sign);
    tci_buf_append_byte(&j->out, ' ');
    line = without_return(line);
    size_t cut = border(line, tci_min_size(LINE_MAX_CHARS * 2, line.len));
    tci_buf_append_str(&j->out, tci_str_sub(line, 0, cut));
    tci_buf_append_str(&j->out, cut < line.len ? TC_STR("...\n") : TC_STR("\n"));
}

static int put_match(job *j, tc_str path, uint64_t number, tc_str line)
{
    line = without_return(line);
    if (line.len <= LINE_MAX_CHARS)
        put_line(j, path, number, line, ':');
    else if (put_excerpts(j, path, number, line) < 0)
        return j->w.err->code;
    j->last_path = path;
    j->last_line = number;
    return 0;
}

/* Between parts that do not touch, when there is context at all. */
static void put_break(job *j, tc_str path, uint64_t next)
{
    bool touches = tci_str_eq(j->last_path, path) && j->last_line + 1 >= next;
    if (j->context > 0 && j->out.len > 0 && !touches)
        tci_buf_append_str(&j->out, TC_STR("--\n"));
    if (!tci_str_eq(j->last_path, path))
        j->last_line = 0;
}

/* ---- by the device ---- */

/* The line of a match whose preview was cut, as far as it is sane. */
static int fetch_line(job *j, tc_str path, uint64_t number, tc_str *ret_line)
{
    tc_call call = tci_work_call(&j->w);
    tc_binary_reader *reader;
    tc_line_scan at;
    int64_t end = (int64_t)number;
    if (tc_env_open_binary_reader(j->w.env, &call, path, false, &reader, j->w.err) < 0)
        return j->w.err->code;
    int rc = tc_binary_reader_scan_lines(reader, &call, (int64_t)number - 1, &end, &at, j->w.err);
    if (rc == 0)
        rc = tc_binary_reader_read(reader, &call, (int64_t)at.start,
                                   (int64_t)tci_min_u64(at.end - at.start, LONG_LINE_MAX), ret_line,
                                   j->w.err);
    tc_binary_reader_free(reader);
    return rc;
}

static int put_context(job *j, const tc_search_match *m, tc_str path)
{
    tc_str rest = m->context, line;
    uint64_t number = m->context_start_line;
    while (rest.ptr != NULL && tci_str_split(&rest, '\n', &line)) {
        if (rest.ptr == NULL && line.len == 0)
            break; /* behind the last newline */
        if (number != m->line_number && number > j->last_line) {
            put_line(j, path, number, line, '-');
            j->last_line = number;
        } else if (number == m->line_number && put_match(j, path, number, line) < 0) {
            return j->w.err->code;
        }
        number++;
    }
    return 0;
}

static int show_found(job *j, const tc_search_match *m)
{
    tc_str path = shown_path(j, m->path), line = m->preview;
    put_break(j, path, m->context.len > 0 ? m->context_start_line : m->line_number);
    j->last_path = path;
    j->nshown++;
    if (!m->is_preview_truncated && m->context.len > 0)
        return put_context(j, m, path);
    if (m->is_preview_truncated && fetch_line(j, m->path, m->line_number, &line) < 0)
        return j->w.err->code;
    return put_match(j, path, m->line_number, line);
}

static int search_there(job *j)
{
    tc_call call = tci_work_call(&j->w);
    tc_search_options o = {.size = sizeof o,
                           .is_regex = !j->is_literal,
                           .ignore_case = j->ignores_case,
                           .include_hidden = true,
                           .respect_git_ignore = true,
                           .offset = j->first - 1,
                           .max_results = (uint32_t)j->limit,
                           .max_line_length = LINE_MAX_CHARS,
                           .include_pattern = j->glob_text,
                           .context_lines = (uint32_t)j->context};
    tc_search_page page;
    if (tc_env_search(j->w.env, &call, j->root, j->pattern, &o, &page, j->w.err) < 0)
        return j->w.err->code;
    j->has_more = page.has_more;
    for (size_t i = 0; i < page.count; i++)
        if (show_found(j, &page.matches[i]) < 0)
            return j->w.err->code;
    return 0;
}

/* ---- here ---- */

typedef struct kept_line {
    tc_str text;
    uint64_t number;
} kept_line;

typedef struct file_search {
    tc_str path, shown;
    kept_line before[CONTEXT_MAX];
    size_t nbefore;
    uint64_t after; /* lines still to be shown behind the last match */
    uint64_t number;
} file_search;

static int match_line(job *j, file_search *f, tc_str line)
{
    bool is_found;
    size_t start, end;
    if (find_in(j, line, &is_found, &start, &end) < 0)
        return j->w.err->code;
    if (is_found && ++j->nfound >= j->first) {
        if (j->nshown == j->limit) {
            j->has_more = true;
            return 0;
        }
        put_break(j, f->shown, f->nbefore > 0 ? f->before[0].number : f->number);
        for (size_t i = 0; i < f->nbefore; i++)
            put_line(j, f->shown, f->before[i].number, f->before[i].text, '-');
        f->nbefore = 0;
        f->after = j->context;
        j->nshown++;
        return put_match(j, f->shown, f->number, line);
    }
    if (f->after > 0) {
        f->after--;
        put_line(j, f->shown, f->number, line, '-');
        j->last_line = f->number;
        return 0;
    }
    if (j->context == 0)
        return 0;
    if (f->nbefore == j->context) {
        memmove(f->before, f->before + 1, (f->nbefore - 1) * sizeof f->before[0]);
        f->nbefore--;
    }
    f->before[f->nbefore++] = (kept_line){line, f->number};
    return 0;
}

static int search_file(job *j, tc_str path, tc_str shown)
{
    tc_call call = tci_work_call(&j->w);
    file_search f = {.path = path, .shown = shown};
    tc_env_file info;
    tc_str text, line;
    if (tc_env_file_info(j->w.env, &call, path, &info, j->w.err) < 0 ||
        info.size > MAX_FILE_BYTES ||
        tc_env_read_binary_file(j->w.env, &call, path, &text, j->w.err) < 0) {
        j->is_partial = true; /* gone, not readable or too large: passed over */
        return tci_ctx_check(j->w.ctx, j->w.err);
    }
    if (tci_str_find_byte(text, '\0') < text.len || !tci_utf8_is_valid(text))
        return 0; /* no text */
    while (!j->has_more && tci_str_split(&text, '\n', &line)) {
        f.number++;
        if (text.ptr == NULL && line.len == 0)
            break;
        if (match_line(j, &f, line) < 0)
            return j->w.err->code;
    }
    return 0;
}

static int search_tree(job *j)
{
    tc_tree tree;
    size_t nfiles = 0;
    if (tci_work_tree(&j->w, j->root, &tree) < 0)
        return j->w.err->code;
    j->is_partial |= tree.is_truncated;
    for (size_t i = 0; i < tree.count && !j->has_more; i++) {
        tc_str path, below = tree.entries[i].path;
        if (tree.entries[i].kind != TC_FILE_REGULAR ||
            (j->glob != NULL && !tci_glob_matches(j->glob, below)))
            continue;
        if (++nfiles > MAX_FILES) {
            j->is_partial = true;
            break;
        }
        if (tci_result_printf(j->w.r, &path, j->w.err, "%.*s/%.*s", TC_STR_ARG(j->root),
                              TC_STR_ARG(below)) < 0 ||
            search_file(j, path, below) < 0)
            return j->w.err->code;
    }
    return 0;
}

/* ---- the tool ---- */

/* The pattern as this program can match it: the device's dialect is larger. */
static int compile_here(job *j)
{
    tc_str pattern = j->pattern;
    tci_buf b;
    if (j->is_literal) {
        tci_buf_init(&b, TCI_BUF_MAX);
        for (size_t i = 0; i < j->pattern.len; i++) {
            if (strchr("\\^$.|?*+()[]{}", j->pattern.ptr[i]) != NULL && j->pattern.ptr[i] != '\0')
                tci_buf_append_byte(&b, '\\');
            tci_buf_append_byte(&b, j->pattern.ptr[i]);
        }
        if (tci_result_take(j->w.r, &b, &pattern, j->w.err) < 0)
            return j->w.err->code;
    }
    return tci_pattern_compile(pattern, j->ignores_case, tci_work_arena(&j->w), &j->regex,
                               j->w.err);
}

static int search(job *j)
{
    tc_call call = tci_work_call(&j->w);
    tc_env_file info;
    tc_err problem = {0};
    int compiled = compile_here(j);
    if (compiled < 0) {
        problem = *j->w.err;
        j->regex = NULL;
    }
    if (j->glob_text.len > 0 &&
        tci_glob_compile(j->glob_text, tci_work_arena(&j->w), &j->glob, j->w.err) < 0)
        return j->w.err->code;
    if (tc_env_file_info(j->w.env, &call, j->root, &info, j->w.err) < 0)
        return j->w.err->code;
    j->is_file = info.kind == TC_FILE_REGULAR;
    int rc = TC_E_UNSUPPORTED;
    if (!j->is_file || compiled < 0)
        rc = search_there(j);
    if (rc != TC_E_UNSUPPORTED && rc != TC_E_NO_METHOD)
        return rc;
    if (compiled < 0) {
        *j->w.err = problem;
        return problem.code;
    }
    tci_buf_clear(&j->out);
    return j->is_file ? search_file(j, j->root, tci_str_sub(j->shown, 0, j->shown.len - 1))
                      : search_tree(j);
}

static int say(job *j, tc_tool_result *ret)
{
    uint64_t nlines, last = j->first - 1 + j->nshown;
    bool is_cut;
    if (j->nshown == 0)
        tci_buf_append_str(&j->out, j->first > 1 ? TC_STR("No more matches\n")
                                                 : TC_STR("No matches found\n"));
    if (tci_work_say_lines(&j->w, &j->out, ret, &nlines, &is_cut) < 0)
        return j->w.err->code;
    if (is_cut &&
        tci_work_remark(&j->w, ret, TC_SEVERITY_INFO, "truncated",
                        "Output cut at 50.0KB. Use a smaller limit, or a narrower pattern or "
                        "path, to see the rest.") < 0)
        return j->w.err->code;
    if (j->has_more &&
        tci_work_remark(&j->w, ret, TC_SEVERITY_INFO, "truncated",
                        "Showing matches %llu-%llu; there are more. Use offset=%llu to "
                        "continue.",
                        (unsigned long long)j->first, (unsigned long long)last,
                        (unsigned long long)last + 1) < 0)
        return j->w.err->code;
    if (j->is_partial &&
        tci_work_remark(&j->w, ret, TC_SEVERITY_WARN, "truncated",
                        "Some files were too large, too many or not readable, and were "
                        "not searched.") < 0)
        return j->w.err->code;
    return tci_result_printf(j->w.r, &ret->details, j->w.err, "{\"shown\":%llu,\"more\":%s}",
                             (unsigned long long)j->nshown,
                             j->has_more || is_cut ? "true" : "false");
}

static int read_context(job *j)
{
    double n;
    if (!tci_work_number(&j->w, TC_STR("context"), &n))
        return 0;
    if (!(n >= 0))
        return tc_tool_fail(j->w.api, j->w.err, "context must not be negative");
    j->context = n > CONTEXT_MAX ? CONTEXT_MAX : (uint64_t)n;
    return 0;
}

static int execute(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                   tc_err *err)
{
    job j = {0};
    TCI_UNUSED(user);
    if (tci_work_begin(&j.w, api, ctx, arguments, err) < 0)
        return err->code;
    (void)tci_work_text(&j.w, TC_STR("pattern"), &j.pattern); /* the schema demands it */
    (void)tci_work_text(&j.w, TC_STR("glob"), &j.glob_text);  /* absent: every file */
    j.is_literal = tci_work_flag(&j.w, TC_STR("literal"));
    j.ignores_case = tci_work_flag(&j.w, TC_STR("ignoreCase"));
    if (j.pattern.len == 0)
        return tc_tool_fail(api, err, "pattern must not be empty");
    if (tci_work_count(&j.w, TC_STR("offset"), UINT32_MAX, 1, &j.first) < 0 ||
        tci_work_count(&j.w, TC_STR("limit"), LIMIT_MAX, LIMIT, &j.limit) < 0 ||
        read_context(&j) < 0 || tci_work_root(&j.w, &j.root, &j.shown) < 0)
        return err->code;
    tci_buf_init(&j.out, TCI_BUF_MAX);
    int rc = search(&j);
    if (rc == 0)
        return say(&j, ret);
    tci_buf_done(&j.out);
    return rc;
}

void tc_tool_grep(tc_tool *ret_tool)
{
    *ret_tool = (tc_tool){.size = sizeof *ret_tool,
                          .name = TC_STR("grep"),
                          .description = TC_STR("Search files for lines that match a regular "
                                                "expression (or, with literal, a text). Gives "
                                                "path:line: text. Ignored files (.gitignore) and "
                                                ".git are left out, hidden ones are not. Long "
                                                "results go on with offset."),
                          .parameters = {schema, sizeof schema - 1},
                          .execute = execute,
                          .replay = TC_REPLAY_SAFE};
}
