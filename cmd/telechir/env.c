/* SPDX-License-Identifier: Apache-2.0
 *
 * From a target's text to an environment that is ready; each target of a command is opened once.
 * Leaves what the text means to target_form.c. The main thread. Invariant: everything opened is
 * closed at the end, also after Ctrl-C. */
#include "target.h"

enum { CLOSE_MS = 5000 };

tc_runtime *cli_runtime(cli *c)
{
    if (c->rt == NULL && tc_runtime_open(NULL, &c->rt, &c->err) < 0)
        return NULL;
    return c->rt;
}

tc_call cli_call(cli *c)
{
    return TC_CALL(c->ctx, c->result);
}

/* A command's output may be read in many pieces, and each answer repeats the preview: a small one for
 * a daemon of our own. It also keeps more output, and takes more input, than a shared daemon would. */
static const char exec_limits[] =
    "{\"limits\":{\"max_request_bytes\":68719476736,\"max_output_preview_bytes\":1024,\"max_output_"
    "bytes_per_stream\":68719476736,"
    "\"max_spool_bytes\":137438953472,\"max_device_spool_bytes\":137438953472}}";

static int create(cli *c, tc_runtime *rt, const cli_target *t, tc_env **ret_env, tc_err *err)
{
    tc_env_options options = {.size = sizeof options, .environment_id = TC_STR("telechir")};
    if (t->kind == CLI_TARGET_LOCAL) {
        /* As the person who typed the command: from their folder, with all they may do. */
        tc_local_envd_options local = {
            .size = sizeof local,
            .executable = t->executable,
            .device_id = t->device_id,
            .config_json = c->command->is_exec_like ? tci_str(exec_limits) : TC_STR(""),
            .full_control = true};
        int rc = cli_here(c, &options.working_directory, err);
        return rc == 0 ? tc_env_create_local(rt, &options, &local, ret_env, err) : rc;
    }
    tc_http_options http = cli_target_http(t);
    int rc = tc_env_state_make(TC_STR("http_envd"), t->device_id, c->result, &options.state, err);
    return rc == 0 ? tc_env_create_http(rt, &options, &http, ret_env, err) : rc;
}

tc_env *cli_env(cli *c, const char *on)
{
    const char *text = on != NULL ? on : cli_value(c, "on");
    text = text != NULL ? text : "local";
    for (size_t i = 0; i < c->nenvs; i++)
        if (strcmp(c->envs[i].target, text) == 0)
            return c->envs[i].env;
    cli_target t;
    tc_env *env = NULL;
    if (c->nenvs == CLI_ENVS_MAX) {
        (void)tc_err_set(&c->err, TC_E_INVALID, "more than %d targets in one command",
                         CLI_ENVS_MAX);
        return NULL;
    }
    if (cli_target_resolve(c, tci_str(text), &t, &c->err) < 0)
        return NULL;
    tc_runtime *rt = cli_runtime(c);
    if (rt == NULL || create(c, rt, &t, &env, &c->err) < 0)
        return NULL;
    if (tc_env_ready(env, c->ctx, &c->err) < 0) {
        (void)tc_err_wrap(&c->err, "cannot use the target '%s'", text);
        tc_env_release(env);
        return NULL;
    }
    cli_detail(c, "%s: device %.*s, session %.*s, folder %.*s", text,
               TC_STR_ARG(tc_env_device_id(env)), TC_STR_ARG(tc_env_session_id(env)),
               TC_STR_ARG(tc_env_cwd(env)));
    c->envs[c->nenvs++] = (cli_opened){text, env};
    return env;
}

/* Where the target ends in "TARGET:path"; the length when it is a path here. */
static size_t place_colon(tc_str text)
{
    size_t scheme = tci_str_find(text, TC_STR("://"));
    size_t slash = tci_str_find_byte(text, '/');
    size_t colon = tci_str_find_byte(text, ':');
    if (scheme < slash) {
        size_t from = scheme + 3;
        size_t at = tci_str_find(tci_str_sub(text, from, SIZE_MAX), TC_STR(":/"));
        return from + at < text.len ? from + at : text.len;
    }
    return colon < slash ? colon : text.len;
}

int cli_place_of(cli *c, const char *text, cli_place *ret)
{
    tc_str whole = tci_str(text);
    size_t colon = place_colon(whole);
    char *target = NULL;
    if (tci_str_starts(whole, TC_STR("ssh:")) || tci_str_starts(whole, TC_STR("host:"))) {
        cli_target t;
        return cli_target_of_form(c, whole, &t, &c->err);
    }
    if (colon == whole.len) {
        if (tci_str_find(whole, TC_STR("://")) < whole.len && tci_str_starts(whole, TC_STR("http")))
            return tc_err_set(&c->err, TC_E_INVALID, "a path is missing: write URL:/path");
        *ret = (cli_place){.is_local = true, .path = text};
        return 0;
    }
    int rc = tci_arena_cstr(&c->arena, tci_str_sub(whole, 0, colon), &target, &c->err);
    if (rc < 0)
        return rc;
    tc_env *env = cli_env(c, target);
    if (env == NULL)
        return c->err.code;
    const char *path = text + colon + 1;
    *ret = (cli_place){.env = env, .path = *path != '\0' ? path : ".", .target = target};
    return 0;
}

void cli_close(cli *c)
{
    tc_ctx *ctx = NULL;
    tc_err err;
    if (c->nenvs > 0 && tc_ctx_new(CLOSE_MS, &ctx, &err) < 0)
        ctx = NULL;
    for (size_t i = 0; i < c->nenvs; i++) {
        if (tc_env_close(c->envs[i].env, ctx, &err) < 0)
            cli_detail(c, "closing the session: %s", err.msg);
        tc_env_release(c->envs[i].env);
    }
    c->nenvs = 0;
    tc_ctx_free(ctx);
    tc_runtime_close(c->rt);
    c->rt = NULL;
}
