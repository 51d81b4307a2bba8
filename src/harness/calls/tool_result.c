/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of what a tool returned: the reported output put in where it gave none, hooks, limits,
 * the promise about structured output; and the forms in which a result is stored. The thread of the
 * task, off the line, except for the tci_tool_put_* and _append functions.
 *
 * To keep: every JSON text that came from a tool or a hook is parsed here before it is stored. */
#include "harness/calls/tool_int.h"

#include "harness/generation/context_scan.h"
#include "harness/generation/usage.h"
#include "harness/schema/validate.h"

enum { SUMMARY_ERROR_CHARS = 500 };

/* ---- small pieces ---- */

/* The items of a JSON array as they stand, with a comma before them unless *first. */
static void put_items(tci_buf *b, bool *first, tc_str array)
{
    tci_parts s;
    tc_str item;
    if (array.len == 0 || !tci_part_array(array, &s))
        return;
    while (tci_part_item(&s, &item)) {
        if (!*first)
            tci_buf_append_byte(b, ',');
        *first = false;
        tci_buf_append_str(b, item);
    }
}

static void put_text_item(tci_buf *b, tc_str text)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    tci_put_str_member(b, &first, TC_STR("type"), TC_STR("text"));
    tci_put_str_member(b, &first, TC_STR("text"), text);
    tci_buf_append_byte(b, '}');
}

static bool is_text_item(const tci_json *item, tc_str *ret_text)
{
    tc_str type;
    if (!tci_json_as_str(tci_json_get(item, TC_STR("type")), &type) ||
        !tci_str_eq(type, TC_STR("text")))
        return false;
    if (!tci_json_as_str(tci_json_get(item, TC_STR("text")), ret_text))
        *ret_text = (tc_str){0};
    return true;
}

/* The same value, compact; what is no JSON is refused. */
static int checked(tc_result *r, const char *what, tc_str *text, tc_err *err)
{
    const tci_json *v;
    tci_buf b;
    if (text->len == 0)
        return 0;
    if (tci_parse(r, *text, &v, err) < 0)
        return tc_err_wrap(err, "the tool's %s", what);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, v, TCI_JSON_AS_IS);
    return tci_result_take(r, &b, text, err);
}

static int checked_array(tc_result *r, const char *what, tc_str *text, tc_err *err)
{
    if (checked(r, what, text, err) < 0)
        return err->code;
    if (text->len > 0 && text->ptr[0] != '[')
        return tc_err_set(err, TC_E_PARSE, "the tool's %s is no array", what);
    return 0;
}

static int check_all(tc_result *r, tc_tool_result *v, tc_err *err)
{
    if (checked_array(r, "output", &v->output, err) < 0 ||
        checked_array(r, "diagnostics", &v->diagnostics, err) < 0 ||
        checked(r, "structured output", &v->structured_output, err) < 0 ||
        checked(r, "details", &v->details, err) < 0 || checked(r, "usage", &v->usage, err) < 0)
        return err->code;
    return checked(r, "control", &v->control, err);
}

int tci_tool_error_result(tc_result *r, tc_str code, tc_str message, tc_tool_result *ret_result,
                          tc_err *err)
{
    tc_tool_result v = {.size = sizeof v, .is_error = true, .output = TC_STR("[]")};
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '[');
    tci_put_diagnostic(&b, TC_SEVERITY_ERROR, code, message);
    tci_buf_append_byte(&b, ']');
    if (tci_result_take(r, &b, &v.diagnostics, err) < 0)
        return err->code;
    *ret_result = v;
    return 0;
}

/* "Output truncated to its beginning: 3 lines, 120 bytes dropped"; kept may be empty. */
static void put_truncated(tci_buf *b, const char *kept, uint64_t nlines, uint64_t nbytes)
{
    char text[160];
    tci_buf line = {.ptr = text, .cap = sizeof text, .max = sizeof text};
    tci_buf_append_str(&line, TC_STR("Output truncated"));
    tci_buf_append_str(&line, tci_str(kept));
    tci_buf_append_str(&line, TC_STR(": "));
    tci_buf_append_u64(&line, nlines);
    tci_buf_append_str(&line, TC_STR(" lines, "));
    tci_buf_append_u64(&line, nbytes);
    tci_buf_append_str(&line, TC_STR(" bytes dropped"));
    tci_put_diagnostic(b, TC_SEVERITY_WARN, TC_STR("truncated"), tci_buf_str(&line));
}

static const char *kept_words(tc_output_retain retain)
{
    return retain == TC_RETAIN_HEAD ? " to its beginning" : " to its end";
}

/* A member of the slot as text, appended; false: there is none. */
static bool put_member(tci_buf *b, const tci_json *slot, tc_str key)
{
    const tci_json *v = tci_json_get(slot, key);
    if (v != NULL)
        tci_json_put(b, v, TCI_JSON_AS_IS);
    return v != NULL;
}

static int slot_diagnostics(tc_result *r, const tci_json *slot, tc_str more, tc_str code,
                            tc_str message, tc_str *ret, tc_err *err)
{
    uint64_t nbytes = 0, nlines = 0;
    bool first = true;
    tci_buf b, own;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_init(&own, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '[');
    if (put_member(&own, slot, TC_STR("diagnostics")))
        put_items(&b, &first, tci_buf_str(&own));
    tci_buf_done(&own);
    (void)tci_json_as_u64(tci_json_get(slot, TC_STR("droppedBytes")), &nbytes);
    (void)tci_json_as_u64(tci_json_get(slot, TC_STR("droppedLines")), &nlines);
    if (nbytes > 0) {
        tci_buf_append_str(&b, first ? TC_STR("") : TC_STR(","));
        put_truncated(&b, "", nlines, nbytes);
        first = false;
    }
    if (more.len > 0) {
        tci_buf_append_str(&b, first ? TC_STR("") : TC_STR(","));
        tci_buf_append_str(&b, more);
        first = false;
    }
    tci_buf_append_str(&b, first ? TC_STR("") : TC_STR(","));
    tci_put_diagnostic(&b, TC_SEVERITY_ERROR, code, message);
    tci_buf_append_byte(&b, ']');
    return tci_result_take(r, &b, ret, err);
}

int tci_tool_partial_result(tc_result *r, const tci_json *slot, tc_str more, tc_str code,
                            tc_str message, tc_tool_result *ret_result, tc_err *err)
{
    tc_tool_result v = {.size = sizeof v, .is_error = true};
    tc_str text;
    tci_buf b;
    if (slot_diagnostics(r, slot, more, code, message, &v.diagnostics, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '[');
    if (tci_json_as_str(tci_json_get(slot, TC_STR("output")), &text) && text.len > 0)
        put_text_item(&b, text);
    tci_buf_append_byte(&b, ']');
    if (tci_result_take(r, &b, &v.output, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (put_member(&b, slot, TC_STR("details"))) {
        if (tci_result_take(r, &b, &v.details, err) < 0)
            return err->code;
    }
    tci_buf_done(&b);
    *ret_result = v;
    return 0;
}

/* ---- the final result ---- */

/* Everything that making a result needs. */
typedef struct maker {
    tc_task *t;
    tc_result *r;
    const tci_tool_call *call;
    const tc_tool *tool;
    tci_output_limits limits;
    tc_tool_result v;
    bool is_reported_output; /* v.output is what was reported */
    uint64_t reported_bytes, reported_lines;
    tci_buf harness; /* diagnostics of ours, items */
    tc_err *err;
} maker;

static void add_harness(maker *m)
{
    if (m->harness.len > 0)
        tci_buf_append_byte(&m->harness, ',');
}

/* Output, details and diagnostics that were reported go where the tool gave none, or before its own. */
static int take_reported(maker *m, tci_reported *rep)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_mutex_lock(&rep->lock);
    bool first = true;
    tci_buf_append_byte(&b, '[');
    if (rep->diagnostics.len > 0) {
        tci_buf_append_str(&b, tci_buf_str(&rep->diagnostics));
        first = false;
    }
    put_items(&b, &first, m->v.diagnostics);
    tci_buf_append_byte(&b, ']');
    int rc = tci_result_take(m->r, &b, &m->v.diagnostics, m->err);
    if (rc == 0 && m->v.details.len == 0 && rep->details.len > 0)
        rc = tc_result_dup(m->r, tci_buf_str(&rep->details), &m->v.details, m->err);
    tci_mutex_unlock(&rep->lock);
    if (rc < 0 || m->v.output.len > 0)
        return rc;
    tci_output_view view;
    tci_buf text;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_output_look(&rep->output, &view);
    tci_output_clean(&text, view.text);
    tci_buf_append_byte(&b, '[');
    if (text.len > 0)
        put_text_item(&b, tci_buf_str(&text));
    tci_buf_append_byte(&b, ']');
    rc = tci_buf_error(&text, m->err);
    tci_buf_done(&text);
    if (rc < 0) {
        tci_buf_done(&b);
        return rc;
    }
    m->is_reported_output = true;
    m->reported_bytes = view.dropped_bytes;
    m->reported_lines = view.dropped_lines;
    return tci_result_take(m->r, &b, &m->v.output, m->err);
}

static int put_as_object(maker *m, tc_str *ret)
{
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_raw_member(&b, &first, TC_STR("output"), m->v.output);
    if (m->v.structured_output.len > 0)
        tci_put_raw_member(&b, &first, TC_STR("structuredOutput"), m->v.structured_output);
    tci_put_bool_member(&b, &first, TC_STR("isError"), m->v.is_error);
    if (m->v.details.len > 0)
        tci_put_raw_member(&b, &first, TC_STR("details"), m->v.details);
    tci_put_raw_member(&b, &first, TC_STR("diagnostics"), m->v.diagnostics);
    if (m->v.usage.len > 0)
        tci_put_raw_member(&b, &first, TC_STR("usage"), m->v.usage);
    if (m->v.control.len > 0)
        tci_put_raw_member(&b, &first, TC_STR("control"), m->v.control);
    tci_buf_append_byte(&b, '}');
    return tci_result_take(m->r, &b, ret, m->err);
}

static int member_text(maker *m, const tci_json *v, tc_str key, tc_str *ret)
{
    const tci_json *member = tci_json_get(v, key);
    tci_buf b;
    *ret = (tc_str){0};
    if (member == NULL)
        return 0;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, member, TCI_JSON_AS_IS);
    return tci_result_take(m->r, &b, ret, m->err);
}

/* What a hook gave instead. */
static int replace(maker *m, tc_str text)
{
    const tci_json *v;
    tc_tool_result n = {.size = sizeof n};
    if (tci_parse(m->r, text, &v, m->err) < 0)
        return tc_err_wrap(m->err, "the result of an after_tool hook");
    (void)tci_json_as_bool(tci_json_get(v, TC_STR("isError")), &n.is_error);
    if (member_text(m, v, TC_STR("output"), &n.output) < 0 ||
        member_text(m, v, TC_STR("structuredOutput"), &n.structured_output) < 0 ||
        member_text(m, v, TC_STR("details"), &n.details) < 0 ||
        member_text(m, v, TC_STR("diagnostics"), &n.diagnostics) < 0 ||
        member_text(m, v, TC_STR("usage"), &n.usage) < 0 ||
        member_text(m, v, TC_STR("control"), &n.control) < 0 || check_all(m->r, &n, m->err) < 0)
        return m->err->code;
    if (n.output.len == 0)
        n.output = TC_STR("[]");
    if (n.diagnostics.len == 0)
        n.diagnostics = TC_STR("[]");
    m->is_reported_output = m->is_reported_output && tci_str_eq(n.output, m->v.output);
    m->v = n;
    return 0;
}

static int run_after_tool(maker *m)
{
    const tci_agent *agent;
    struct tc_hook hook = {m->t};
    if (tci_task_agent(m->t, &agent, m->err) < 0)
        return m->err->code;
    for (size_t i = 0; i < agent->nextensions; i++) {
        const tc_extension *ext = agent->extensions[i];
        tc_str now, instead = {0};
        tc_err problem = {0};
        if (ext->hooks == NULL || ext->hooks->after_tool == NULL)
            continue;
        if (put_as_object(m, &now) < 0)
            return m->err->code;
        if (ext->hooks->after_tool(ext->user, &hook, m->call->json, now, m->r, &instead, &problem) <
            0)
            tci_hook_failed(m->t, ext, &problem);
        else if (instead.len > 0 && replace(m, instead) < 0)
            return m->err->code;
    }
    return 0;
}

/* All text of the items, one after the other. */
static void join_texts(const tci_json *items, tci_buf *b, const char *between)
{
    tc_str text;
    bool first = true;
    for (size_t i = 0; i < items->count; i++) {
        if (!is_text_item(&items->u.items[i], &text))
            continue;
        if (!first)
            tci_buf_append_str(b, tci_str(between));
        first = false;
        tci_buf_append_str(b, text);
    }
}

/* The items with their text replaced by one, in the place of the first or last text. */
static void put_bounded(maker *m, tci_buf *b, const tci_json *items, tc_str text)
{
    tc_str ignored;
    size_t keep = SIZE_MAX;
    bool first = true;
    for (size_t i = 0; i < items->count; i++)
        if (is_text_item(&items->u.items[i], &ignored) &&
            (keep == SIZE_MAX || m->limits.retain == TC_RETAIN_TAIL))
            keep = i;
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < items->count; i++) {
        const tci_json *item = &items->u.items[i];
        if (i != keep && is_text_item(item, &ignored))
            continue;
        tci_buf_append_str(b, first ? TC_STR("") : TC_STR(","));
        first = false;
        if (i != keep) {
            tci_json_put(b, item, TCI_JSON_AS_IS);
            continue;
        }
        tci_buf quoted;
        tci_buf_init(&quoted, TCI_BUF_MAX);
        tci_json_put_str(&quoted, text);
        tci_json_change change = {TC_STR("text"), tci_buf_str(&quoted)};
        tci_json_edit(b, item, &change, 1);
        tci_buf_done(&quoted);
    }
    tci_buf_append_byte(b, ']');
}

static int bound_output(maker *m, const tci_json **ret_items)
{
    const tci_json *items;
    tci_output_slice s;
    tci_buf joined, b;
    if (m->is_reported_output && m->reported_bytes > 0) {
        add_harness(m);
        put_truncated(&m->harness, kept_words(m->limits.retain), m->reported_lines,
                      m->reported_bytes);
    }
    if (tci_parse(m->r, m->v.output, &items, m->err) < 0)
        return m->err->code;
    *ret_items = items;
    tci_buf_init(&joined, TCI_BUF_MAX);
    join_texts(items, &joined, "");
    if (tci_buf_error(&joined, m->err) < 0) {
        tci_buf_done(&joined);
        return m->err->code;
    }
    tci_output_bound(tci_buf_str(&joined), &m->limits, &s);
    int rc = 0;
    if (s.dropped_bytes > 0) {
        add_harness(m);
        put_truncated(&m->harness, kept_words(m->limits.retain), s.dropped_lines, s.dropped_bytes);
        tci_buf_init(&b, TCI_BUF_MAX);
        put_bounded(m, &b, items, tci_str_sub(tci_buf_str(&joined), s.start, s.end - s.start));
        rc = tci_result_take(m->r, &b, &m->v.output, m->err);
        if (rc == 0)
            rc = tci_parse(m->r, m->v.output, ret_items, m->err);
    }
    tci_buf_done(&joined);
    return rc;
}

/* ---- structured output ---- */

static int report_broken(maker *m, tc_str problem)
{
    const tci_agent *agent;
    tc_err e = {0};
    (void)tc_err_set(&e, TC_E_INVALID, "%.*s", TC_STR_ARG(problem)); /* what is reported */
    if (tci_task_agent(m->t, &agent, m->err) < 0)
        return m->err->code;
    tci_task_extension_failed(m->t, tci_agent_tool_extension(agent, m->tool->name), &e);
    return 0;
}

static int check_structured(maker *m)
{
    const tci_json *v = NULL;
    tc_str problem;
    if (m->v.structured_output.len > 0 && tci_parse(m->r, m->v.structured_output, &v, m->err) < 0)
        return m->err->code;
    if (tci_validate_output(m->tool->name, m->tool->structured_output_schema, v, m->v.is_error,
                            tci_result_arena(m->r), &problem, m->err) < 0)
        return m->err->code;
    if (problem.len == 0)
        return 0;
    m->v.structured_output = (tc_str){0};
    if (!m->call->is_nested) /* the model never sees it: its call stands */
        return report_broken(m, problem);
    m->v.is_error = true;
    add_harness(m);
    tci_put_diagnostic(&m->harness, TC_SEVERITY_ERROR, TC_STR("invalid_structured_output"),
                       problem);
    return 0;
}

static bool has_error_diagnostic(tc_str items)
{
    tci_parts s;
    tc_str item;
    if (!tci_part_array(items, &s))
        return false;
    while (tci_part_item(&s, &item))
        if (tci_part_is_str(tci_part_get(item, TC_STR("severity")), TC_STR("error")))
            return true;
    return false;
}

/* What programs get of a tool without a schema: its output as a value. */
static int output_as_value(maker *m, const tci_json *items)
{
    tc_str text;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (items->count == 0)
        tci_json_put_str(&b, TC_STR(""));
    else if (items->count > 1)
        tci_json_put(&b, items, TCI_JSON_AS_IS);
    else if (is_text_item(&items->u.items[0], &text))
        tci_json_put_str(&b, text);
    else
        tci_json_put(&b, &items->u.items[0], TCI_JSON_AS_IS);
    return tci_result_take(m->r, &b, &m->v.structured_output, m->err);
}

/* Programs get no output, so the text of an error that has nothing else becomes a diagnostic. */
static int text_as_error(maker *m, const tci_json *items)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    join_texts(items, &b, "\n");
    if (b.len > 0) {
        add_harness(m);
        tci_put_diagnostic(&m->harness, TC_SEVERITY_ERROR, TC_STR("tool_error"), tci_buf_str(&b));
    }
    int rc = tci_buf_error(&b, m->err);
    tci_buf_done(&b);
    return rc;
}

static int finish_nested(maker *m, const tci_json *items)
{
    if (!m->call->is_nested)
        return 0;
    if (m->tool->structured_output_schema.len == 0)
        return output_as_value(m, items);
    if (m->v.is_error && m->v.structured_output.len == 0 && m->harness.len == 0 &&
        !has_error_diagnostic(m->v.diagnostics))
        return text_as_error(m, items);
    return 0;
}

static int add_harness_diagnostics(maker *m)
{
    tci_buf b;
    bool first = true;
    if (tci_buf_error(&m->harness, m->err) < 0)
        return m->err->code;
    if (m->harness.len == 0)
        return 0;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '[');
    put_items(&b, &first, m->v.diagnostics);
    tci_buf_append_str(&b, first ? TC_STR("") : TC_STR(","));
    tci_buf_append_str(&b, tci_buf_str(&m->harness));
    tci_buf_append_byte(&b, ']');
    return tci_result_take(m->r, &b, &m->v.diagnostics, m->err);
}

int tci_tool_final_result(tc_task *t, const tci_tool_call *call, const tc_tool *tool,
                          const tc_tool_result *raw, tci_reported *reported,
                          tc_tool_result *ret_result, tc_err *err)
{
    maker m = {.t = t,
               .r = tc_task_result(t),
               .call = call,
               .tool = tool,
               .limits = tci_tool_limits(tool),
               .v = *raw,
               .err = err};
    const tci_json *items = NULL;
    tci_buf_init(&m.harness, TCI_BUF_MAX);
    int rc = check_all(m.r, &m.v, err);
    if (rc == 0)
        rc = take_reported(&m, reported);
    if (rc == 0)
        rc = run_after_tool(&m);
    if (rc == 0)
        rc = bound_output(&m, &items);
    if (rc == 0)
        rc = check_structured(&m);
    if (rc == 0)
        rc = finish_nested(&m, items);
    if (rc == 0)
        rc = add_harness_diagnostics(&m);
    tci_buf_done(&m.harness);
    if (rc == 0)
        *ret_result = m.v;
    return rc;
}

/* ---- how it is stored ---- */

/* "<harness>\n[warn] text\n</harness>" */
static void put_remarks(tci_buf *b, tci_arena *a, tc_str diagnostics)
{
    tci_parts s;
    tc_str item, severity, message;
    if (!tci_part_array(diagnostics, &s))
        return;
    tci_buf_append_str(b, TC_STR("<harness>\n"));
    while (tci_part_item(&s, &item)) {
        if (!tci_part_str(tci_part_get(item, TC_STR("severity")), a, &severity))
            severity = TC_STR("error");
        if (!tci_part_str(tci_part_get(item, TC_STR("message")), a, &message))
            message = (tc_str){0};
        tci_buf_append_byte(b, '[');
        tci_buf_append_str(b, severity);
        tci_buf_append_str(b, TC_STR("] "));
        tci_buf_append_str(b, message);
        tci_buf_append_byte(b, '\n');
    }
    tci_buf_append_str(b, TC_STR("</harness>"));
}

static bool is_empty_array(tc_str array)
{
    tci_parts s;
    tc_str item;
    return array.len == 0 || !tci_part_array(array, &s) || !tci_part_item(&s, &item);
}

static void put_content(tci_buf *b, const tc_tool_result *v)
{
    bool first = true;
    tci_buf_append_byte(b, '[');
    put_items(b, &first, v->output);
    if (!is_empty_array(v->diagnostics)) {
        tci_arena a;
        tci_buf text;
        tci_arena_init(&a, 0);
        tci_buf_init(&text, TCI_BUF_MAX);
        put_remarks(&text, &a, v->diagnostics);
        tci_buf_append_str(b, first ? TC_STR("") : TC_STR(","));
        put_text_item(b, tci_buf_str(&text));
        tci_buf_done(&text);
        tci_arena_done(&a);
    }
    tci_buf_append_byte(b, ']');
}

int tci_tool_put_entry(tci_buf *b, tc_str call_id, tc_str name, const tc_tool_result *v,
                       int64_t now_ms, int64_t duration_ms, tc_err *err)
{
    bool first = true;
    tci_buf_append_str(b, TC_STR("{\"kind\":\"pi.tool-result\",\"model\":[{"));
    tci_put_str_member(b, &first, TC_STR("role"), TC_STR("toolResult"));
    tci_put_str_member(b, &first, TC_STR("toolCallId"), call_id);
    tci_put_str_member(b, &first, TC_STR("toolName"), name);
    tci_json_put_key(b, &first, TC_STR("content"));
    put_content(b, v);
    tci_put_bool_member(b, &first, TC_STR("isError"), v->is_error);
    tci_put_i64_member(b, &first, TC_STR("timestamp"), now_ms);
    if (v->details.len > 0)
        tci_put_raw_member(b, &first, TC_STR("details"), v->details);
    if (v->usage.len > 0)
        tci_put_raw_member(b, &first, TC_STR("usage"), v->usage);
    if (duration_ms >= 0)
        tci_put_i64_member(b, &first, TC_STR("durationMs"), duration_ms);
    tci_buf_append_str(b, TC_STR("}],\"data\":{\"diagnostics\":"));
    tci_buf_append_str(b, v->diagnostics.len > 0 ? v->diagnostics : TC_STR("[]"));
    tci_buf_append_str(b, TC_STR("}}"));
    return tci_buf_error(b, err);
}

int tci_tool_append_result(tc_tx *tx, uint64_t conversation, tc_str call_id, tc_str name,
                           const tc_tool_result *v, int64_t now_ms, int64_t duration_ms,
                           uint64_t *ret_entry, tc_err *err)
{
    tci_buf b;
    if (v->usage.len > 0 &&
        tci_usage_record(tx, conversation, TC_STR("tools"), name, v->usage, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = tci_tool_put_entry(&b, call_id, name, v, now_ms, duration_ms, err);
    if (rc == 0)
        rc = tc_tx_append_entry(tx, conversation, tci_buf_str(&b), ret_entry, err);
    tci_buf_done(&b);
    return rc;
}

void tci_tool_put_nested(tci_buf *b, uint64_t task, const tc_tool_result *v, int64_t duration_ms)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    tci_put_u64_member(b, &first, TC_STR("taskId"), task);
    if (v->structured_output.len > 0)
        tci_put_raw_member(b, &first, TC_STR("structuredOutput"), v->structured_output);
    tci_put_bool_member(b, &first, TC_STR("isError"), v->is_error);
    if (v->details.len > 0)
        tci_put_raw_member(b, &first, TC_STR("details"), v->details);
    tci_put_raw_member(b, &first, TC_STR("diagnostics"),
                       v->diagnostics.len > 0 ? v->diagnostics : TC_STR("[]"));
    if (v->usage.len > 0)
        tci_put_raw_member(b, &first, TC_STR("usage"), v->usage);
    if (duration_ms >= 0)
        tci_put_i64_member(b, &first, TC_STR("durationMs"), duration_ms);
    tci_buf_append_byte(b, '}');
}

/* The first characters of a text. */
static tc_str cut_chars(tc_str s, size_t nchars)
{
    size_t at = 0;
    for (size_t n = 0; at < s.len; at++)
        if (((unsigned char)s.ptr[at] & 0xC0) != 0x80 && n++ == nchars)
            break;
    return tci_str_sub(s, 0, at);
}

/* The messages of error diagnostics, or else the text of the output. */
static void put_error_text(tci_buf *b, tc_result *r, const tc_tool_result *v)
{
    tci_parts s;
    tc_str item, message;
    bool first = true;
    if (tci_part_array(v->diagnostics, &s))
        while (tci_part_item(&s, &item)) {
            if (!tci_part_is_str(tci_part_get(item, TC_STR("severity")), TC_STR("error")) ||
                !tci_part_str(tci_part_get(item, TC_STR("message")), tci_result_arena(r), &message))
                continue;
            tci_buf_append_str(b, first ? TC_STR("") : TC_STR("\n"));
            tci_buf_append_str(b, message);
            first = false;
        }
    const tci_json *items;
    tc_err ignored;
    if (first && v->output.len > 0 && tci_parse(r, v->output, &items, &ignored) == 0)
        join_texts(items, b, "\n");
}

void tci_tool_put_summary(tci_buf *b, tc_result *r, const tc_tool_result *v, int64_t duration_ms)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    tci_put_bool_member(b, &first, TC_STR("isError"), v->is_error);
    if (duration_ms >= 0)
        tci_put_i64_member(b, &first, TC_STR("durationMs"), duration_ms);
    if (v->usage.len > 0)
        tci_put_raw_member(b, &first, TC_STR("usage"), v->usage);
    if (v->is_error) {
        tci_buf text;
        tci_buf_init(&text, TCI_BUF_MAX);
        put_error_text(&text, r, v);
        if (text.len > 0)
            tci_put_str_member(b, &first, TC_STR("error"),
                               cut_chars(tci_buf_str(&text), SUMMARY_ERROR_CHARS));
        tci_buf_done(&text);
    }
    tci_buf_append_byte(b, '}');
}
