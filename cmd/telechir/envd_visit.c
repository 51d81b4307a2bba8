/* SPDX-License-Identifier: Apache-2.0
 *
 * A file written through a daemon that is running already, and read back in a new session. The daemon is
 * neither started nor stopped, and the file stays. Leaves how it is reached to the commands. */
#include "envd_visit.h"

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
static int visit_once(cli *c, const envd_visit *how, bool is_first, visit *v)
{
    tc_env_options options = {.size = sizeof options, .environment_id = TC_STR("env-my-project")};
    tc_env *env = NULL;
    int rc = tc_env_state_make(how->provider, how->device_id, c->result, &options.state, &c->err);
    if (rc == 0)
        rc = how->make(c, how->arg, &options, &env);
    if (rc < 0)
        return rc;
    rc = tc_env_ready(env, c->ctx, &c->err);
    if (rc == 0)
        rc = remember(c, env, v);
    if (rc == 0)
        rc = use(c, env, is_first, v);
    return cli_leave(c, env, rc);
}

static int compare(cli *c, const visit *a, const visit *b)
{
    if (!tci_str_eq(b->text, tci_str(greeting)))
        return tc_err_set(&c->err, TC_E_INTEGRITY, "the file came back different");
    if (a->generation != b->generation)
        return tc_err_set(&c->err, TC_E_INCOMPATIBLE, "the daemon was restarted meanwhile");
    return 0;
}

static bool show(cli *c, const envd_visit *how, const visit *a, const visit *b)
{
    tc_str text = tci_str_sub(b->text, 0, b->text.len - 1);
    if (!c->is_json)
        return cli_outf(c, "device: %.*s, generation %llu\n", TC_STR_ARG(how->device_id),
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
    cli_json_str(&j, &first, how->at_name, how->at);
    cli_json_str(&j, &first, "device_id", how->device_id);
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

int envd_visit_twice(cli *c, const envd_visit *v)
{
    visit a = {0}, b = {0};
    int rc = visit_once(c, v, true, &a);
    if (rc == 0)
        rc = visit_once(c, v, false, &b);
    if (rc == 0)
        rc = compare(c, &a, &b);
    if (rc == 0 && !show(c, v, &a, &b))
        rc = c->err.code;
    return rc;
}
