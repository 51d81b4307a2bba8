/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir http-envd`: a file written through a daemon that is running already, and read back in a
 * new session. The daemon is neither started nor stopped, and the file stays. */
#include "target.h"

static const char file_name[] = "provider-example.txt";
static const char greeting[] = "hello from remote envd\n";

typedef struct visit {
    tc_str session_id, cwd, path, text;
    uint64_t generation;
} visit;

static int remember(cli *c, const tc_env *env, visit *v)
{
    tci_arena *a = &c->arena;
    v->generation = tc_env_generation(env);
    int rc = tci_arena_dup(a, tc_env_session_id(env), &v->session_id, &c->err);
    return rc == 0 ? tci_arena_dup(a, tc_env_cwd(env), &v->cwd, &c->err) : rc;
}

static int use(cli *c, tc_env *env, bool is_first, visit *v)
{
    tc_call call = cli_call(c);
    tc_file_info info;
    tc_text_page page;
    if (is_first) {
        int rc = tc_env_write_text(env, &call, tci_str(file_name), tci_str(greeting), NULL, &info,
                                   &c->err);
        return rc == 0 ? tci_arena_dup(&c->arena, info.path, &v->path, &c->err) : rc;
    }
    int rc = tc_env_read_text(env, &call, tci_str(file_name), NULL, &page, &c->err);
    return rc == 0 ? tci_arena_dup(&c->arena, page.text, &v->text, &c->err) : rc;
}

/* One adapter's life. */
static int visit_once(cli *c, const cli_target *t, bool is_first, visit *v)
{
    tc_env_options options = {.size = sizeof options, .environment_id = TC_STR("env-my-project")};
    tc_http_options http = cli_target_http(t);
    tc_env *env = NULL;
    tc_err ignored;
    tc_runtime *rt = cli_runtime(c);
    if (rt == NULL)
        return c->err.code;
    int rc =
        tc_env_state_make(TC_STR("http_envd"), t->device_id, c->result, &options.state, &c->err);
    if (rc == 0)
        rc = tc_env_create_http(rt, &options, &http, &env, &c->err);
    if (rc < 0)
        return rc;
    rc = tc_env_ready(env, c->ctx, &c->err);
    if (rc == 0)
        rc = remember(c, env, v);
    if (rc == 0)
        rc = use(c, env, is_first, v);
    if (rc == 0)
        rc = tc_env_close(env, c->ctx, &c->err);
    else
        (void)tc_env_close(env, NULL, &ignored); /* the first failure is told */
    tc_env_release(env);
    return rc;
}

static int compare(cli *c, const visit *a, const visit *b)
{
    if (!tci_str_eq(b->text, tci_str(greeting)))
        return tc_err_set(&c->err, TC_E_INTEGRITY, "the file came back different");
    if (a->generation != b->generation)
        return tc_err_set(&c->err, TC_E_INCOMPATIBLE, "the daemon was restarted meanwhile");
    return 0;
}

static bool show(cli *c, const cli_target *t, const visit *a, const visit *b)
{
    tc_str text = tci_str_sub(b->text, 0, b->text.len - 1);
    if (!c->is_json)
        return cli_outf(c, "device: %.*s, generation %llu\n", TC_STR_ARG(t->device_id),
                        (unsigned long long)a->generation) &&
               cli_outf(c, "wrote: %.*s in session %.*s\n", TC_STR_ARG(a->path),
                        TC_STR_ARG(a->session_id)) &&
               cli_outf(c, "read back in session %.*s: %.*s\n", TC_STR_ARG(b->session_id),
                        TC_STR_ARG(text)) &&
               cli_outf(c, "independent Sessions: %s\n",
                        tci_str_eq(a->session_id, b->session_id) ? "False" : "True");
    tci_buf j;
    bool first = true;
    tci_buf_init(&j, TCI_BUF_MAX);
    tci_buf_append_byte(&j, '{');
    cli_json_str(&j, &first, "endpoint", t->form);
    cli_json_str(&j, &first, "device_id", t->device_id);
    cli_json_u64(&j, &first, "generation", a->generation);
    cli_json_str(&j, &first, "path", a->path);
    cli_json_str(&j, &first, "first_session", a->session_id);
    cli_json_str(&j, &first, "second_session", b->session_id);
    cli_json_str(&j, &first, "read", text);
    tci_buf_append_byte(&j, '}');
    bool is_fine = cli_out_json(c, &j);
    tci_buf_done(&j);
    return is_fine;
}

int cmd_http_envd(cli *c)
{
    cli_target t;
    visit a = {0}, b = {0};
    const char *endpoint = cli_value(c, "endpoint");
    if (!cli_want_args(c, 0, 0))
        return cli_fail(c);
    if (endpoint == NULL)
        return cli_usage(c, "--endpoint URL is missing");
    if (!tci_str_starts(tci_str(endpoint), TC_STR("http")))
        return cli_usage(c, "--endpoint takes http://HOST:PORT or https://HOST[:PORT]");
    if (cli_target_of_form(c, tci_str(endpoint), &t, &c->err) < 0)
        return cli_fail(c);
    int rc = visit_once(c, &t, true, &a);
    if (rc == 0)
        rc = visit_once(c, &t, false, &b);
    if (rc == 0)
        rc = compare(c, &a, &b);
    return rc == 0 && show(c, &t, &a, &b) ? CLI_OK : cli_fail(c);
}
