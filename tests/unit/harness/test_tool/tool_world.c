/* SPDX-License-Identifier: Apache-2.0
 *
 * A world for tools. */
#include "tool_world.h"

#include "harness/schema/validate.h"
#include "plat/file.h"

tc_env *world_env(world *w, const char *name)
{
    char path[2200];
    tc_env *env;
    snprintf(path, sizeof path, "%s%s%s", w->root, name[0] != '\0' ? "/" : "", name);
    if (name[0] != '\0')
        assert_ok(w, tci_file_mkdir(TCI_FILE_CWD, tci_str(path), 0700, &w->err));
    tc_env_options o = {
        .size = sizeof o, .environment_id = TC_STR("tools"), .working_directory = tci_str(path)};
    assert_ok(w, tc_env_create_local_pi(w->rt, &o, NULL, &env, &w->err));
    assert_ok(w, tc_env_ready(env, NULL, &w->err));
    return env;
}

int world_open(void **state)
{
    world *w = calloc(1, sizeof *w); /* cmocka's own ways */
    snprintf(w->root, sizeof w->root, "%s/w", getenv("TC_TEST_DIR"));
    assert_ok(w, tci_file_mkdir(TCI_FILE_CWD, tci_str(w->root), 0700, &w->err));
    assert_ok(w, tc_runtime_open(NULL, &w->rt, &w->err));
    assert_ok(w, tc_result_new(&w->r, &w->err));
    w->turns = tci_turns_new();
    assert_non_null(w->turns);
    w->env = world_env(w, "");
    *state = w;
    return 0;
}

int world_close(void **state)
{
    world *w = *state;
    tc_env_release(w->env);
    tci_turns_free(w->turns);
    tc_result_free(w->r);
    tc_runtime_close(w->rt);
    free(w);
    return 0;
}

static tc_str dup(world *w, tc_str s)
{
    tc_str out = {0};
    if (s.len > 0)
        assert_ok(w, tc_result_dup(w->r, s, &out, &w->err));
    return out;
}

static tc_str first_text(world *w, tc_str output)
{
    const tci_json *v;
    tc_str text = {0};
    if (output.len == 0)
        return text;
    assert_ok(w, tci_parse(w->r, output, &v, &w->err));
    if (v->count > 0)
        (void)tci_json_as_str(tci_json_get(&v->u.items[0], TC_STR("text")), &text);
    return text;
}

static tc_str all_diagnostics(world *w, tc_tool_api *api, tc_str returned)
{
    tci_buf b;
    tc_str out;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, tci_buf_str(&api->reported.diagnostics));
    tci_buf_append_str(&b, returned);
    assert_ok(w, tci_result_take(w->r, &b, &out, &w->err));
    return out;
}

outcome call_tool_in(world *w, tc_env *env, tc_ctx *ctx, const tc_tool *tool, const char *arguments)
{
    struct tc_tool_api api;
    tci_tool_call call = {.id = TC_STR("c1"), .name = tool->name};
    outcome o = {.result = {.size = sizeof o.result}};
    tc_str text = tci_str(arguments), checked;
    const tci_json *v;
    bool is_valid, is_cut;
    tc_err err = {0};
    tci_buf kept;
    if (tool->prepare != NULL)
        assert_ok(w, tool->prepare(tool->user, text, w->r, &text, &w->err));
    assert_ok(w, tci_parse(w->r, text, &v, &w->err));
    assert_ok(w, tci_validate_arguments(tool->name, tool->parameters, v, tci_result_arena(w->r),
                                        &is_valid, &checked, &w->err));
    if (!is_valid)
        fail_msg("%.*s", TC_STR_ARG(checked));
    assert_ok(w, tci_tool_api_init(&api, NULL, &call, tool, w->turns, &w->err));
    api.env = env;
    o.rc = tool->execute(tool->user, checked, &api, ctx, &o.result, &err);
    if (o.rc < 0)
        o.failure = dup(w, api.failure.len > 0 ? tci_buf_str(&api.failure) : tci_str(err.msg));
    o.result.output = dup(w, o.result.output);
    o.result.details = dup(w, o.result.details);
    o.result.structured_output = dup(w, o.result.structured_output);
    o.text = first_text(w, o.result.output);
    o.diagnostics = all_diagnostics(w, &api, o.result.diagnostics);
    tci_buf_init(&kept, TCI_BUF_MAX);
    tci_output_end(&api.reported.output);
    tci_reported_text(&api.reported, &kept, &is_cut);
    o.kept = dup(w, tci_buf_str(&kept));
    tci_buf_done(&kept);
    tci_tool_api_done(&api);
    return o;
}

outcome call_tool(world *w, const tc_tool *tool, const char *arguments)
{
    return call_tool_in(w, w->env, NULL, tool, arguments);
}

void put_file(world *w, const char *name, const void *bytes, size_t len)
{
    tc_call call = TC_CALL(NULL, w->r);
    assert_ok(w, tc_env_write_file(w->env, &call, tci_str(name), tci_str_of(bytes, len), &w->err));
}

tc_str get_file(world *w, const char *name)
{
    tc_call call = TC_CALL(NULL, w->r);
    tc_str bytes;
    assert_ok(w, tc_env_read_binary_file(w->env, &call, tci_str(name), &bytes, &w->err));
    return bytes;
}

bool has_file(world *w, const char *name)
{
    tc_call call = TC_CALL(NULL, w->r);
    bool exists;
    assert_ok(w, tc_env_path_exists(w->env, &call, tci_str(name), &exists, &w->err));
    return exists;
}
