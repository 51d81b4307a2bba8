/* SPDX-License-Identifier: Apache-2.0
 *
 * The two questions asked of schemas, and the words of the answers, which models read. Any thread. */
#include "harness/schema/validate.h"

#include "base/json_tree.h"

static void put_indented(tci_buf *b, const tci_json *v, unsigned depth)
{
    bool is_object = v->kind == TCI_JSON_OBJECT;
    if ((!is_object && v->kind != TCI_JSON_ARRAY) || v->count == 0) {
        tci_json_put(b, v, TCI_JSON_AS_IS);
        return;
    }
    tci_buf_append_byte(b, is_object ? '{' : '[');
    for (size_t i = 0; i < v->count; i++) {
        tci_buf_printf(b, "%s\n%*s", i > 0 ? "," : "", (int)(depth + 1) * 2, "");
        if (is_object) {
            tci_json_put_str(b, v->u.members[i].key);
            tci_buf_append_str(b, TC_STR(": "));
        }
        put_indented(b, is_object ? &v->u.members[i].value : &v->u.items[i], depth + 1);
    }
    tci_buf_printf(b, "\n%*s%c", (int)depth * 2, "", is_object ? '}' : ']');
}

static int take_text(tci_buf *b, tci_arena *a, tc_str *ret, tc_err *err)
{
    int rc = tci_buf_error(b, err);
    if (rc == 0)
        rc = tci_arena_dup(a, tci_buf_str(b), ret, err);
    tci_buf_done(b);
    return rc;
}

static void put_refusal(tci_buf *b, tc_str name, const tci_flaw *first, const tci_json *arguments)
{
    tci_buf_printf(b, "Validation failed for tool \"%.*s\":\n", TC_STR_ARG(name));
    if (first == NULL)
        tci_buf_append_str(b, TC_STR("  - root: Expected object\n"));
    for (const tci_flaw *f = first; f != NULL; f = f->next)
        tci_buf_printf(b, "  - %.*s: %.*s\n", TC_STR_ARG(f->path), TC_STR_ARG(f->message));
    tci_buf_append_str(b, TC_STR("\nReceived arguments:\n"));
    put_indented(b, arguments, 0);
}

int tci_validate_arguments(tc_str name, tc_str schema, const tci_json *arguments, tci_arena *a,
                           bool *ret_is_valid, tc_str *ret_text, tc_err *err)
{
    tci_json parsed = {.kind = TCI_JSON_OBJECT};
    tci_checker c;
    tci_buf b;
    if (schema.len > 0 && tci_json_parse(schema, TCI_JSON_DURABLE, a, &parsed, err) < 0)
        return tc_err_wrap(err, "schema of tool '%.*s'", TC_STR_ARG(name));
    const tci_json *v = arguments;
    if (v->kind == TCI_JSON_OBJECT)
        v = tci_drop_nulls(a, v, &parsed);
    if (v != NULL && v->kind == TCI_JSON_OBJECT)
        v = tci_coerce(a, v, &parsed);
    if (v == NULL)
        return tci_arena_error(a, err);
    tci_checker_init(&c, a, NULL);
    tci_check(&c, v, &parsed, (tc_str){0});
    if (c.has_failed)
        return tci_arena_error(a, err);
    bool is_valid = v->kind == TCI_JSON_OBJECT && c.first == NULL;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (is_valid)
        tci_json_put(&b, v, TCI_JSON_AS_IS);
    else
        put_refusal(&b, name, c.first, arguments);
    if (take_text(&b, a, ret_text, err) < 0)
        return err->code;
    *ret_is_valid = is_valid;
    return 0;
}

int tci_validate_output(tc_str name, tc_str schema, const tci_json *output, bool is_error,
                        tci_arena *a, tc_str *ret_problem, tc_err *err)
{
    tci_json parsed;
    tci_checker c;
    *ret_problem = (tc_str){0};
    if (schema.len == 0 && output == NULL)
        return 0;
    if (schema.len == 0)
        return tci_arena_printf(
            a, ret_problem, err,
            "Tool %.*s returned structuredOutput but declares no structuredOutputSchema",
            TC_STR_ARG(name));
    if (output == NULL && is_error)
        return 0;
    if (output == NULL)
        return tci_arena_printf(a, ret_problem, err, "Tool %.*s returned no structuredOutput",
                                TC_STR_ARG(name));
    if (tci_json_parse(schema, TCI_JSON_DURABLE, a, &parsed, err) < 0)
        return tc_err_wrap(err, "schema of tool '%.*s'", TC_STR_ARG(name));
    tci_checker_init(&c, a, &parsed);
    tci_check(&c, output, &parsed, (tc_str){0});
    if (c.has_failed)
        return tci_arena_error(a, err);
    if (c.first == NULL)
        return 0;
    return tci_arena_printf(
        a, ret_problem, err,
        "Tool %.*s returned structuredOutput that does not match its schema: %.*s: %.*s",
        TC_STR_ARG(name), TC_STR_ARG(c.first->path), TC_STR_ARG(c.first->message));
}
