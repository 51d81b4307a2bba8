/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir demo --transport`: the promise about machines on embedded defaults. One adapter writes a file and closes; a
 * new adapter finds the same daemon and the same file. Leaves the daemon to demo_daemon.c. */
#include "demo.h"

static const char file_name[] = "demo.txt";
static const char greeting[] = "hello from remote envd";

/* What is to be compared after an adapter is gone. */
typedef struct visit {
    tc_str session_id, device_id, cwd, path;
    uint64_t generation;
} visit;

static int remember(cli *c, const tc_env *env, visit *v)
{
    tci_arena *a = &c->arena;
    v->generation = tc_env_generation(env);
    int rc = tci_arena_dup(a, tc_env_session_id(env), &v->session_id, &c->err);
    if (rc == 0)
        rc = tci_arena_dup(a, tc_env_device_id(env), &v->device_id, &c->err);
    if (rc == 0)
        rc = tci_arena_dup(a, tc_env_cwd(env), &v->cwd, &c->err);
    return rc;
}

static int write_visit(cli *c, const demo_daemon *d, visit *v)
{
    tc_env *env = NULL;
    tc_call call = cli_call(c);
    tc_file_info info;
    int rc = demo_daemon_adapter(c, d, &env);
    if (rc < 0)
        return rc;
    rc = remember(c, env, v);
    if (rc == 0)
        rc = tc_env_write_text(env, &call, tci_str(file_name), tci_str(greeting), NULL, &info,
                               &c->err);
    if (rc == 0)
        rc = tci_arena_dup(&c->arena, info.path, &v->path, &c->err);
    return cli_leave(c, env, rc);
}

static int read_visit(cli *c, const demo_daemon *d, visit *v, tc_str *ret_text)
{
    tc_env *env = NULL;
    tc_call call = cli_call(c);
    tc_text_page page;
    int rc = demo_daemon_adapter(c, d, &env);
    if (rc < 0)
        return rc;
    rc = remember(c, env, v);
    if (rc == 0)
        rc = tc_env_read_text(env, &call, tci_str(file_name), NULL, &page, &c->err);
    if (rc == 0)
        rc = tci_arena_dup(&c->arena, page.text, ret_text, &c->err);
    return cli_leave(c, env, rc);
}

static const char *const transport_names[] = {[DEMO_STDIO] = "stdio",
                                              [DEMO_HTTP] = "http",
                                              [DEMO_HTTP_FULL_CONTROL] = "http",
                                              [DEMO_WEBSOCKET] = "websocket"};

static bool show_start(cli *c, const demo_daemon *d)
{
    if (c->is_json || c->is_quiet)
        return true;
    static const char *const where[] = {[DEMO_STDIO] = "",
                                        [DEMO_HTTP] = ", at ",
                                        [DEMO_HTTP_FULL_CONTROL] = ", at ",
                                        [DEMO_WEBSOCKET] = ", dialling "};
    return cli_outf(c, "daemon: %.*s\n", TC_STR_ARG(d->program)) &&
           cli_outf(c, "transport: %s%s%.*s\n", transport_names[d->kind], where[d->kind],
                    TC_STR_ARG(d->endpoint)) &&
           cli_outf(c, "workspace: %.*s (temporary, commands disabled)\n",
                    TC_STR_ARG(d->workspace));
}

static bool show_visit(cli *c, const visit *v, const char *what)
{
    if (c->is_json || c->is_quiet)
        return true;
    return cli_outf(c, "%s: device %.*s, generation %llu, session %.*s\n", what,
                    TC_STR_ARG(v->device_id), (unsigned long long)v->generation,
                    TC_STR_ARG(v->session_id));
}

static bool show_json(cli *c, const demo_daemon *d, const visit *a, const visit *b, tc_str text)
{
    tci_buf j;
    bool first = true;
    tci_buf_init(&j, TCI_BUF_MAX);
    tci_buf_append_byte(&j, '{');
    cli_json_str(&j, &first, "transport", tci_str(transport_names[d->kind]));
    cli_json_str(&j, &first, "daemon", d->program);
    cli_json_str(&j, &first, "device_id", a->device_id);
    cli_json_u64(&j, &first, "generation", a->generation);
    cli_json_str(&j, &first, "path", a->path);
    cli_json_str(&j, &first, "first_session", a->session_id);
    cli_json_str(&j, &first, "second_session", b->session_id);
    cli_json_str(&j, &first, "re_entry_read", text);
    cli_json_bool(&j, &first, "independent_sessions", true);
    cli_json_bool(&j, &first, "daemon_preserved", true);
    tci_buf_append_byte(&j, '}');
    bool is_fine = cli_out_json(c, &j);
    tci_buf_done(&j);
    return is_fine;
}

/* What the demo promises, checked. */
static int compare(cli *c, const demo_daemon *d, const visit *a, const visit *b, tc_str text)
{
    if (!tci_str_eq(text, tci_str(greeting)))
        return tc_err_set(&c->err, TC_E_INTEGRITY, "the file came back different");
    if (a->generation != b->generation || !tci_str_eq(a->device_id, b->device_id))
        return tc_err_set(&c->err, TC_E_INCOMPATIBLE, "the second adapter met another daemon");
    if (tci_str_eq(a->session_id, b->session_id))
        return tc_err_set(&c->err, TC_E_PROTOCOL, "both adapters got the same session");
    if (!demo_daemon_is_alive(d))
        return tc_err_set(&c->err, TC_E_CLOSED, "the daemon ended when an adapter was closed");
    return 0;
}

static int show(cli *c, const demo_daemon *d)
{
    visit a = {0}, b = {0};
    tc_str text = {0};
    if (!show_start(c, d))
        return c->err.code;
    int rc = write_visit(c, d, &a);
    if (rc < 0)
        return rc;
    if (!demo_daemon_is_alive(d))
        return tc_err_set(&c->err, TC_E_CLOSED, "the daemon ended when an adapter was closed");
    if (!show_visit(c, &a,
                    "wrote "
                    "demo.txt through one adapter and closed it"))
        return c->err.code;
    rc = read_visit(c, d, &b, &text);
    if (rc == 0)
        rc = compare(c, d, &a, &b, text);
    if (rc < 0)
        return rc;
    if (!show_visit(c, &b, "read it through a new adapter"))
        return c->err.code;
    bool is_fine = c->is_json ? show_json(c, d, &a, &b, text)
                              : cli_outf(c,
                                         "re-entry read: %.*s\n"
                                         "independent Sessions: True\n"
                                         "provider close preserved remote daemon and workspace\n",
                                         TC_STR_ARG(text));
    return is_fine ? 0 : c->err.code;
}

int cmd_demo(cli *c)
{
    const char *transport = cli_value(c, "transport");
    demo_daemon d;
    if (!cli_want_args(c, 0, 0))
        return cli_fail(c);
    if (transport == NULL)
        return demo_agent(c);
    if (strcmp(transport, "ssh") == 0)
        return demo_over_ssh(c);
    demo_kind kind = strcmp(transport, "http") == 0        ? DEMO_HTTP
                     : strcmp(transport, "websocket") == 0 ? DEMO_WEBSOCKET
                                                           : DEMO_STDIO;
    if (kind == DEMO_STDIO && strcmp(transport, "stdio") != 0)
        return cli_usage(c, "--transport is stdio, http, websocket or ssh, not '%s'", transport);
    int rc = demo_daemon_start(c, kind, &d);
    if (rc == 0)
        rc = show(c, &d);
    int status = rc == 0 ? CLI_OK : cli_fail(c);
    demo_daemon_stop(c, &d);
    if (rc == 0 && !c->is_json)
        cli_say(c, "stopped the daemon and removed its files");
    return status;
}
