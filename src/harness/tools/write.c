/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool "write": a file as a whole. The thread of the call. */
#include "harness/tools/tool_common.h"

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"path\":{\"type\":\"string\",\"description\":\"File to write, relative or absolute\"},"
    "\"content\":{\"type\":\"string\",\"description\":\"All of its new content\"}},"
    "\"required\":[\"path\",\"content\"]}";

static int write_in_turn(const tci_work *w, tc_str absolute, tc_str path, tc_str content)
{
    if (tci_work_check_abort(w) < 0 || tci_work_write(w, absolute, path, content) < 0)
        return w->err->code;
    return tci_work_check_abort(w);
}

static int execute(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                   tc_err *err)
{
    tci_work w;
    tc_str path = {0}, content = {0}, absolute, done;
    tc_file_turn *turn;
    TCI_UNUSED(user);
    if (tci_work_begin(&w, api, ctx, arguments, err) < 0)
        return err->code;
    (void)(tci_work_text(&w, TC_STR("path"), &path) &&
           tci_work_text(&w, TC_STR("content"), &content)); /* the schema demands them */
    if (tci_work_path(&w, path, &absolute) < 0 ||
        tc_tool_file_turn(api, ctx, absolute, &turn, err) < 0)
        return err->code;
    int rc = write_in_turn(&w, absolute, path, content);
    tc_file_turn_end(turn);
    if (rc < 0)
        return rc;
    if (tci_result_printf(w.r, &done, err, "Successfully wrote to %.*s", TC_STR_ARG(path)) < 0)
        return err->code;
    return tci_work_say(&w, done, ret);
}

void tc_tool_write(tc_tool *ret_tool)
{
    *ret_tool = (tc_tool){
        .size = sizeof *ret_tool,
        .name = TC_STR("write"),
        .description = TC_STR("Write a file: it is created, or replaced as a whole. Missing parent "
                              "folders are made."),
        .parameters = {schema, sizeof schema - 1},
        .execute = execute};
}
