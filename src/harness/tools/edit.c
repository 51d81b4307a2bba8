/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool "edit": exact replacements in one file. Finding them is edit_match.c's. The thread of the
 * call.
 *
 * To keep: from reading to writing the file's turn is held, and only splices change its bytes. */
#include "harness/tools/edit_match.h"
#include "harness/tools/tool_common.h"

enum { MAX_FILE_BYTES = 256 * 1024 * 1024 };

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"path\":{\"type\":\"string\",\"description\":\"File to edit, relative or absolute\"},"
    "\"edits\":{\"type\":\"array\",\"description\":\"Replacements. All are looked for in the file "
    "as it "
    "is now, not after each other, and may not overlap; two that touch the same lines are better "
    "one\","
    "\"items\":{\"type\":\"object\",\"properties\":{"
    "\"oldText\":{\"type\":\"string\",\"description\":\"Text that occurs exactly once in the "
    "file\"},"
    "\"newText\":{\"type\":\"string\",\"description\":\"What stands there afterwards\"}},"
    "\"required\":[\"oldText\",\"newText\"]}}},\"required\":[\"path\",\"edits\"]}";

/* ---- shapes that models send ---- */

static bool is_one_edit(const tci_json *v)
{
    tc_str text;
    return tci_json_as_str(tci_json_get(v, TC_STR("oldText")), &text) &&
           tci_json_as_str(tci_json_get(v, TC_STR("newText")), &text);
}

/* "edits" as it should be: an array, or one edit, or either as text. NULL: none of these. */
static const tci_json *edits_of(tc_result *r, const tci_json *edits, bool *ret_is_single)
{
    tc_str text;
    const tci_json *parsed = edits;
    tc_err ignored;
    if (tci_json_as_str(edits, &text) && tci_parse(r, text, &parsed, &ignored) < 0)
        return NULL;
    *ret_is_single = is_one_edit(parsed);
    if (*ret_is_single || (parsed != NULL && parsed->kind == TCI_JSON_ARRAY))
        return parsed;
    return NULL;
}

static void put_edits(tci_buf *b, const tci_json *edits, bool is_single, const tci_json *more)
{
    size_t n = 0;
    tci_buf_append_byte(b, '[');
    if (is_single) {
        tci_json_put(b, edits, TCI_JSON_AS_IS);
        n = 1;
    }
    for (size_t i = 0; !is_single && edits != NULL && i < edits->count; i++, n++) {
        tci_buf_append_str(b, n > 0 ? TC_STR(",") : TC_STR(""));
        tci_json_put(b, &edits->u.items[i], TCI_JSON_AS_IS);
    }
    if (more != NULL) {
        tci_buf_append_str(b, n > 0 ? TC_STR(",{\"oldText\":") : TC_STR("{\"oldText\":"));
        tci_json_put(b, tci_json_get(more, TC_STR("oldText")), TCI_JSON_AS_IS);
        tci_buf_append_str(b, TC_STR(",\"newText\":"));
        tci_json_put(b, tci_json_get(more, TC_STR("newText")), TCI_JSON_AS_IS);
        tci_buf_append_byte(b, '}');
    }
    tci_buf_append_byte(b, ']');
}

static int prepare(void *user, tc_str arguments, tc_result *r, tc_str *ret_arguments, tc_err *err)
{
    const tci_json *v;
    bool is_single = false;
    tci_buf edits, b;
    TCI_UNUSED(user);
    if (tci_parse(r, arguments, &v, err) < 0)
        return err->code;
    const tci_json *given = tci_json_get(v, TC_STR("edits"));
    const tci_json *list = edits_of(r, given, &is_single);
    bool has_more = is_one_edit(v);
    if (v->kind != TCI_JSON_OBJECT ||
        (!has_more && (list == NULL || (list == given && !is_single))))
        return 0;
    tci_buf_init(&edits, TCI_BUF_MAX);
    tci_buf_init(&b, TCI_BUF_MAX);
    put_edits(&edits, list, is_single, has_more ? v : NULL);
    tci_json_change changes[] = {{TC_STR("edits"), tci_buf_str(&edits)},
                                 {TC_STR("oldText"), {NULL, 0}},
                                 {TC_STR("newText"), {NULL, 0}}};
    tci_json_edit(&b, v, changes, has_more ? 3 : 1);
    int rc = tci_buf_error(&edits, err);
    tci_buf_done(&edits);
    if (rc < 0) {
        tci_buf_done(&b);
        return rc;
    }
    return tci_result_take(r, &b, ret_arguments, err);
}

/* ---- editing ---- */

typedef struct job {
    tci_work w;
    tc_str path, absolute, before;
    tci_edit *edits;
    size_t nedits;
} job;

static int refuse_access(job *j)
{
    tc_env_error why = tc_result_evidence(j->w.r)->env_error;
    if (j->w.ctx != NULL && tc_ctx_is_cancelled(j->w.ctx))
        return tci_work_check_abort(&j->w);
    return tc_tool_fail(j->w.api, j->w.err, "Could not edit file: %.*s. Error code: %s.",
                        TC_STR_ARG(j->path), why != TC_ENV_OK ? tc_env_error_name(why) : "unknown");
}

static int read_edits(job *j)
{
    const tci_json *list = tci_json_get(j->w.arguments, TC_STR("edits"));
    if (list == NULL || list->count == 0)
        return tc_tool_fail(
            j->w.api, j->w.err,
            "Edit tool input is invalid. edits must contain at least one replacement.");
    j->nedits = list->count;
    j->edits = tci_arena_items(tci_work_arena(&j->w), tci_edit, j->nedits);
    if (j->edits == NULL)
        return tci_arena_error(tci_work_arena(&j->w), j->w.err);
    for (size_t i = 0; i < j->nedits; i++)
        (void)(tci_json_as_str(tci_json_get(&list->u.items[i], TC_STR("oldText")),
                               &j->edits[i].old_text) &&
               tci_json_as_str(tci_json_get(&list->u.items[i], TC_STR("newText")),
                               &j->edits[i].new_text)); /* the schema demands them */
    return 0;
}

static int read_file(job *j)
{
    tc_env_file info;
    tc_call call = tci_work_call(&j->w);
    if (tc_env_file_info(j->w.env, &call, j->absolute, &info, j->w.err) < 0)
        return refuse_access(j);
    if (info.kind != TC_FILE_REGULAR && info.kind != TC_FILE_SYMLINK)
        return tc_tool_fail(j->w.api, j->w.err, "Could not edit file: %.*s. Path is not a file.",
                            TC_STR_ARG(j->path));
    if (info.kind == TC_FILE_REGULAR && info.size > MAX_FILE_BYTES)
        return tc_tool_fail(j->w.api, j->w.err, "Could not edit file: %.*s. It is too large.",
                            TC_STR_ARG(j->path));
    if (tc_env_read_binary_file(j->w.env, &call, j->absolute, &j->before, j->w.err) < 0)
        return refuse_access(j);
    tc_str kind = tci_binary_kind(tci_str_sub(j->before, 0, 8192), j->before.len > 8192);
    if (tci_str_starts(kind, TC_STR("UTF-16")))
        return tc_tool_fail(j->w.api, j->w.err,
                            "Could not edit file: %.*s. It is %.*s, and edit changes UTF-8 only.",
                            TC_STR_ARG(j->path), TC_STR_ARG(kind));
    return 0;
}

static int tell(job *j, tc_str after, const tci_splice *splices, size_t nsplices,
                tc_tool_result *ret)
{
    tci_buf diff, patch, b;
    uint64_t first_line = 0;
    bool first = true;
    tc_str done;
    tci_buf_init(&diff, TCI_BUF_MAX);
    tci_buf_init(&patch, TCI_BUF_MAX);
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = tci_edit_diff(j->before, after, splices, nsplices, j->path, &diff, &patch, &first_line,
                           j->w.err);
    if (rc == 0) {
        tci_buf_append_byte(&b, '{');
        tci_put_str_member(&b, &first, TC_STR("diff"), tci_buf_str(&diff));
        tci_put_str_member(&b, &first, TC_STR("patch"), tci_buf_str(&patch));
        if (first_line > 0)
            tci_put_u64_member(&b, &first, TC_STR("firstChangedLine"), first_line);
        tci_buf_append_byte(&b, '}');
        rc = tci_result_take(j->w.r, &b, &ret->details, j->w.err);
    } else {
        tci_buf_done(&b);
    }
    tci_buf_done(&diff);
    tci_buf_done(&patch);
    if (rc < 0 ||
        tci_result_printf(j->w.r, &done, j->w.err, "Successfully replaced %zu block(s) in %.*s.",
                          j->nedits, TC_STR_ARG(j->path)) < 0)
        return j->w.err->code;
    return tci_work_say(&j->w, done, ret);
}

static int edit_in_turn(job *j, tc_tool_result *ret)
{
    tci_splice *splices;
    size_t nsplices;
    tc_str refusal, after;
    tci_buf b;
    if (tci_work_check_abort(&j->w) < 0 || read_file(j) < 0 || tci_work_check_abort(&j->w) < 0 ||
        tci_edit_match(j->before, j->edits, j->nedits, j->path, tci_work_arena(&j->w), &splices,
                       &nsplices, &refusal, j->w.err) < 0)
        return j->w.err->code;
    if (refusal.len > 0)
        return tc_tool_fail(j->w.api, j->w.err, "%.*s", TC_STR_ARG(refusal));
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_edit_apply(&b, j->before, splices, nsplices);
    if (tci_result_take(j->w.r, &b, &after, j->w.err) < 0 || tci_work_check_abort(&j->w) < 0)
        return j->w.err->code;
    if (tci_work_write(&j->w, j->absolute, j->path, after) < 0)
        return refuse_access(j);
    if (tci_work_check_abort(&j->w) < 0)
        return j->w.err->code;
    return tell(j, after, splices, nsplices, ret);
}

static int execute(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                   tc_err *err)
{
    job j = {0};
    tc_file_turn *turn;
    TCI_UNUSED(user);
    if (tci_work_begin(&j.w, api, ctx, arguments, err) < 0)
        return err->code;
    (void)tci_work_text(&j.w, TC_STR("path"), &j.path); /* the schema demands it */
    if (read_edits(&j) < 0 || tci_work_path(&j.w, j.path, &j.absolute) < 0)
        return err->code;
    if (tc_tool_file_turn(api, ctx, j.absolute, &turn, err) < 0)
        return err->code;
    int rc = edit_in_turn(&j, ret);
    tc_file_turn_end(turn);
    return rc;
}

void tc_tool_edit(tc_tool *ret_tool)
{
    *ret_tool = (tc_tool){.size = sizeof *ret_tool,
                          .name = TC_STR("edit"),
                          .description = TC_STR("Replace text in one file. Each oldText must occur "
                                                "exactly once in the file as it is now, "
                                                "and the replaced parts may not overlap. Keep "
                                                "oldText short, but long enough to be unique."),
                          .parameters = {schema, sizeof schema - 1},
                          .execute = execute,
                          .prepare = prepare};
}
