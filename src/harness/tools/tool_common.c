/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tools share. The thread of the call. */
#include "harness/tools/tool_common.h"

#include "base/num.h"
#include "harness/schema/unicode.h"
#include <math.h>
#include <stdio.h>

int tci_work_begin(tci_work *w, tc_tool_api *api, tc_ctx *ctx, tc_str arguments, tc_err *err)
{
    *w = (tci_work){.api = api, .ctx = ctx, .r = tc_tool_result_memory(api), .err = err};
    if (tc_tool_require_env(api, &w->env, err) < 0)
        return err->code;
    return tci_parse(w->r, arguments, &w->arguments, err);
}

bool tci_work_text(const tci_work *w, tc_str key, tc_str *ret)
{
    return tci_json_as_str(tci_json_get(w->arguments, key), ret);
}

bool tci_work_number(const tci_work *w, tc_str key, double *ret)
{
    const tci_json *v = tci_json_get(w->arguments, key);
    if (v == NULL || v->kind != TCI_JSON_NUMBER)
        return false;
    if (!tci_json_as_double(v, ret)) /* too large for one */
        *ret = v->u.text.ptr[0] == '-' ? -HUGE_VAL : HUGE_VAL;
    return true;
}

bool tci_work_flag(const tci_work *w, tc_str key)
{
    bool v = false;
    return tci_json_as_bool(tci_json_get(w->arguments, key), &v) && v;
}

int tci_work_count(const tci_work *w, tc_str key, uint64_t most, uint64_t value, uint64_t *ret)
{
    double n;
    *ret = value;
    if (!tci_work_number(w, key, &n))
        return 0;
    if (!(n >= 1) || n > 9007199254740991.0 || n > floor(n))
        return tc_tool_fail(w->api, w->err, "%.*s must be a positive integer", TC_STR_ARG(key));
    *ret = tci_min_u64((uint64_t)n, most);
    return 0;
}

/* ---- paths ---- */

static bool is_odd_space(uint32_t c)
{
    return c == 0xA0 || (c >= 0x2000 && c <= 0x200A) || c == 0x202F || c == 0x205F || c == 0x3000;
}

int tci_work_path(const tci_work *w, tc_str path, tc_str *ret_path)
{
    tci_buf b;
    tc_str plain;
    tc_call call = tci_work_call(w);
    size_t at = 0, len;
    tci_buf_init(&b, TCI_BUF_MAX);
    while (at < path.len) {
        uint32_t c = tci_char_at(tci_str_sub(path, at, path.len), &len);
        if (is_odd_space(c))
            tci_buf_append_byte(&b, ' ');
        else
            tci_buf_append(&b, path.ptr + at, len);
        at += len;
    }
    if (tci_result_take(w->r, &b, &plain, w->err) < 0)
        return w->err->code;
    if (plain.len > 0 && plain.ptr[0] == '@')
        plain = tci_str_sub(plain, 1, plain.len);
    return tc_env_resolve_path(w->env, &call, plain, ret_path, w->err);
}

/* " AM." and " PM." in any case: with a narrow space, as some systems name screenshots. */
static void put_narrow(tci_buf *b, tc_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        tc_str four = tci_str_sub(s, i, 4);
        bool is_it = four.len == 4 && four.ptr[0] == ' ' && four.ptr[3] == '.' &&
                     (tci_str_eq_nocase(tci_str_sub(four, 1, 2), TC_STR("AM")) ||
                      tci_str_eq_nocase(tci_str_sub(four, 1, 2), TC_STR("PM")));
        if (is_it)
            tci_buf_append_str(b, TC_STR("\xE2\x80\xAF"));
        else
            tci_buf_append_byte(b, s.ptr[i]);
    }
}

static void put_curly(tci_buf *b, tc_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '\'')
            tci_buf_append_str(b, TC_STR("\xE2\x80\x99"));
        else
            tci_buf_append_byte(b, s.ptr[i]);
    }
}

static void put_curly_nfd(tci_buf *b, tc_str s)
{
    tci_buf curly;
    tci_buf_init(&curly, TCI_BUF_MAX);
    put_curly(&curly, s);
    tci_put_nfd(b, tci_buf_str(&curly));
    tci_buf_done(&curly);
}

int tci_work_path_to_read(const tci_work *w, tc_str path, tc_str *ret_path)
{
    static void (*const variants[])(tci_buf * b, tc_str s) = {put_narrow, tci_put_nfd, put_curly,
                                                              put_curly_nfd};
    tc_str plain, other;
    tc_call call = tci_work_call(w);
    bool exists;
    if (tci_work_path(w, path, &plain) < 0 ||
        tc_env_path_exists(w->env, &call, plain, &exists, w->err) < 0)
        return w->err->code;
    for (size_t i = 0; i < TCI_ARRAY_LEN(variants) && !exists; i++) {
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        variants[i](&b, plain);
        if (tci_result_take(w->r, &b, &other, w->err) < 0)
            return w->err->code;
        if (tci_str_eq(other, plain))
            continue;
        if (tc_env_path_exists(w->env, &call, other, &exists, w->err) < 0)
            return w->err->code;
        if (exists)
            plain = other;
    }
    *ret_path = plain;
    return 0;
}

/* ---- results ---- */

int tci_work_say(const tci_work *w, tc_str text, tc_tool_result *ret)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '[');
    if (text.len > 0) {
        tci_buf_append_str(&b, TC_STR("{\"type\":\"text\",\"text\":"));
        tci_json_put_str(&b, text);
        tci_buf_append_byte(&b, '}');
    }
    tci_buf_append_byte(&b, ']');
    return tci_result_take(w->r, &b, &ret->output, w->err);
}

static int add_remark(const tci_work *w, tc_tool_result *ret, tc_severity severity, tc_str code,
                      tc_str text)
{
    tc_str there = ret->diagnostics;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (there.len > 0) {
        tci_buf_append_str(&b, tci_str_sub(there, 0, there.len - 1));
        tci_buf_append_byte(&b, ',');
    } else {
        tci_buf_append_byte(&b, '[');
    }
    tci_put_diagnostic(&b, severity, code, text);
    tci_buf_append_byte(&b, ']');
    return tci_result_take(w->r, &b, &ret->diagnostics, w->err);
}

int tci_work_remark(const tci_work *w, tc_tool_result *ret, tc_severity severity, const char *code,
                    const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = n >= 0 ? tci_arena_bytes(tci_work_arena(w), (size_t)n + 1) : NULL;
    if (text == NULL)
        return tci_arena_error(tci_work_arena(w), w->err);
    va_start(args, fmt);
    (void)vsnprintf(text, (size_t)n + 1, fmt, args); /* as long as it was measured */
    va_end(args);
    tc_str message = tci_str_of(text, (size_t)n);
    if (ret != NULL)
        return add_remark(w, ret, severity, tci_str(code), message);
    return tc_tool_diagnostic(w->api, severity, tci_str(code), message, w->err);
}

int tci_work_say_lines(const tci_work *w, tci_buf *b, tc_tool_result *ret, uint64_t *ret_nlines,
                       bool *ret_is_cut)
{
    static const tci_output_limits limits = {
        .max_bytes = TCI_OUTPUT_MAX_BYTES, .max_lines = UINT64_MAX, .retain = TC_RETAIN_HEAD};
    tci_output_slice s;
    int rc = tci_buf_error(b, w->err);
    if (rc == 0) {
        tc_str text = tci_buf_str(b);
        tci_output_bound(text, &limits, &s);
        text = tci_str_sub(text, 0, s.end);
        *ret_nlines = tci_output_count_lines(text);
        *ret_is_cut = s.dropped_bytes > 0;
        rc = tci_work_say(w, text, ret);
    }
    tci_buf_done(b);
    return rc;
}

int tci_work_check_abort(const tci_work *w)
{
    if (tci_ctx_check(w->ctx, w->err) == 0)
        return 0;
    tc_code code = w->err->code;
    (void)tc_tool_fail(w->api, w->err, "Operation aborted");
    return tc_err_recode(w->err, code);
}

/* Over EIP a write that finds no folder makes it and writes again, under one operation id: make it
 * before, so that the id is used once. */
static int make_parent(const tci_work *w, tc_str path)
{
    tc_call call = tci_work_call(w);
    tc_str parts[2] = {path, TC_STR("..")}, parent;
    bool exists;
    if (tc_env_join_path(w->env, &call, parts, 2, &parent, w->err) < 0 ||
        tc_env_path_exists(w->env, &call, parent, &exists, w->err) < 0)
        return w->err->code;
    return exists ? 0 : tc_env_create_dir(w->env, &call, parent, true, w->err);
}

int tci_work_write(const tci_work *w, tc_str path, tc_str shown_path, tc_str bytes)
{
    tc_call call = tci_work_call(w);
    tc_str what;
    if (tci_result_printf(w->r, &what, w->err, "write %.*s", TC_STR_ARG(shown_path)) < 0 ||
        tc_tool_operation(w->api, w->ctx, what, w->r, &call.operation_id, w->err) < 0)
        return w->err->code;
    if (call.operation_id.len > 0 && make_parent(w, path) < 0)
        return w->err->code;
    return tc_env_write_file(w->env, &call, path, bytes, w->err);
}
