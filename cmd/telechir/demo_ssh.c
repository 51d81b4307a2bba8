/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir demo --transport ssh`: a machine that only SSH reaches, from the first look at its key to a
 * link that breaks. Leaves the server to demo_sshd.c. The main thread. */
#include "demo.h"
#include "demo_sshd.h"

#include <stdarg.h>
#include <stdio.h>

static const char file_name[] = "demo.txt";
static const char greeting[] = "hello from remote envd";
/* The daemon is the parent of the shell it starts. */
static const char daemon_path[] = "readlink /proc/$PPID/exe";

typedef struct demo_ssh {
    cli *c;
    demo_sshd sshd;
    tc_str program; /* the daemon that is put there */
    tc_str path, text, command_said, daemon_at, daemon_again;
    tc_str first_pid, second_pid, third_pid;
    tc_str lost; /* what was told of the command that ran when the link broke */
    tc_outcome lost_outcome;
} demo_ssh;

/* A line of the story; none of them with --json. */
static bool TC_PRINTF(2, 3) say(const demo_ssh *d, const char *fmt, ...)
{
    enum { LINE_MAX = 2048 };
    char line[LINE_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    return d->c->is_json || d->c->is_quiet || cli_outf(d->c, "%s\n", line);
}

/* ---- trust ---- */

static int trust_it(demo_ssh *d)
{
    cli *c = d->c;
    tc_ssh_keys keys;
    tc_ssh_target target = demo_sshd_target(&d->sshd);
    int rc = tc_ssh_scan(c->rt, c->ctx, c->result, &target, &keys, &c->err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < keys.count; i++) {
        if (!tci_str_eq(keys.items[i].fingerprint, d->sshd.fingerprint))
            continue;
        tc_strs lines = {&keys.items[i].line, 1};
        rc = tc_ssh_accept(c->rt, &target, lines, &c->err);
        if (rc == 0 && !say(d, "trusted: %.*s, which is what the server's owner sees",
                            TC_STR_ARG(d->sshd.fingerprint)))
            rc = c->err.code;
        return rc;
    }
    return tc_err_set(&c->err, TC_E_UNTRUSTED, "the server shows another key than its owner sees");
}

/* ---- adapters ---- */

static int open_adapter(demo_ssh *d, tc_env **ret_env)
{
    cli *c = d->c;
    tc_env *env = NULL;
    tc_env_options options = {.size = sizeof options,
                              .environment_id = TC_STR("env-my-project"),
                              .working_directory = d->sshd.workspace};
    tc_ssh_options ssh = {.size = sizeof ssh,
                          .target = demo_sshd_target(&d->sshd),
                          .daemon = d->program,
                          .folder = d->sshd.daemons};
    int rc = tc_env_create_ssh(c->rt, &options, &ssh, &env, &c->err);
    if (rc == 0)
        rc = tc_env_ready(env, c->ctx, &c->err);
    if (rc == 0)
        *ret_env = env;
    else
        tc_env_release(env);
    return rc;
}

/* What a script there prints, without the newline; in the command's arena. */
static int run_script(demo_ssh *d, tc_env *env, const char *script, tc_str *ret)
{
    cli *c = d->c;
    tc_run_result run;
    tc_command command = {.size = sizeof command, .script = tci_str(script)};
    tc_call call = cli_call(c);
    int rc = tc_env_run(env, &call, &command, NULL, &run, &c->err);
    tc_str line = rc == 0 ? tci_str_sub(run.out, 0, tci_str_find_byte(run.out, '\n')) : (tc_str){0};
    return rc == 0 ? tci_arena_dup(&c->arena, line, ret, &c->err) : rc;
}

/* ---- the story ---- */

static int write_visit(demo_ssh *d)
{
    cli *c = d->c;
    tc_env *env = NULL;
    tc_call call = cli_call(c);
    int rc = open_adapter(d, &env);
    if (rc < 0)
        return rc;
    rc = run_script(d, env, daemon_path, &d->daemon_at);
    if (rc == 0)
        rc = run_script(d, env, "echo $PPID", &d->first_pid);
    if (rc == 0)
        rc = tc_env_write(env, &call, tci_str(file_name), tci_str(greeting), NULL, NULL, &c->err);
    if (rc == 0)
        rc = tci_arena_printf(&c->arena, &d->path, &c->err, "%.*s/%s",
                              TC_STR_ARG(d->sshd.workspace), file_name);
    rc = cli_leave(d->c, env, rc);
    if (rc < 0)
        return rc;
    bool is_fine = say(d, "put there: the daemon, as %.*s", TC_STR_ARG(d->daemon_at)) &&
                   say(d, "wrote %s over one connection and closed it: daemon process %.*s",
                       file_name, TC_STR_ARG(d->first_pid));
    return is_fine ? 0 : c->err.code;
}

static int read_file(demo_ssh *d, tc_env *env, tc_str *ret)
{
    cli *c = d->c;
    tc_str bytes;
    tc_call call = cli_call(c);
    int rc = tc_env_read(env, &call, tci_str(file_name), NULL, 0, &bytes, &c->err);
    return rc == 0 ? tci_arena_dup(&c->arena, bytes, ret, &c->err) : rc;
}

static int cut_it(void *user, tc_stream_kind stream, const void *bytes, size_t len, tc_err *err)
{
    demo_ssh *d = user;
    TCI_UNUSED(stream);
    TCI_UNUSED(bytes);
    if (len > 0 && demo_sshd_cut(&d->sshd) == 0)
        return tc_err_set(err, TC_E_UNSUPPORTED, "the connection's process was not found");
    return 0;
}

/* A command says that it runs, and at that moment the link breaks. */
static int break_link(demo_ssh *d, tc_env *env)
{
    cli *c = d->c;
    tc_run_result run;
    tc_command command = {.size = sizeof command, .script = TC_STR("echo running; sleep 300")};
    tc_run_options options = {.size = sizeof options, .on_output = cut_it, .user = d};
    tc_call call = cli_call(c);
    if (tc_env_run(env, &call, &command, &options, &run, &c->err) == 0)
        return tc_err_set(&c->err, TC_E_PROTOCOL, "the link was cut and nothing noticed");
    const tc_evidence *e = tc_result_evidence(c->result);
    if (!e->is_lost)
        return c->err.code;
    d->lost_outcome = e->outcome;
    int rc = tci_arena_dup(&c->arena, tci_str(c->err.msg), &d->lost, &c->err);
    if (rc == 0 && !say(d, "the link broke under a command: %.*s (outcome: %s)",
                        TC_STR_ARG(d->lost), tc_outcome_name(d->lost_outcome)))
        rc = c->err.code;
    return rc;
}

static int go_on(demo_ssh *d, tc_env *env)
{
    cli *c = d->c;
    tc_str text;
    int rc = read_file(d, env, &text);
    if (rc == 0)
        rc = run_script(d, env, "echo $PPID", &d->third_pid);
    if (rc == 0 && !tci_str_eq(text, tci_str(greeting)))
        rc = tc_err_set(&c->err, TC_E_INTEGRITY, "the file came back different");
    if (rc == 0 && !say(d, "went on over a new link: the file is as it was, daemon process %.*s",
                        TC_STR_ARG(d->third_pid)))
        rc = c->err.code;
    return rc;
}

static int read_visit(demo_ssh *d)
{
    cli *c = d->c;
    tc_env *env = NULL;
    int rc = open_adapter(d, &env);
    if (rc < 0)
        return rc;
    rc = read_file(d, env, &d->text);
    if (rc == 0)
        rc = run_script(d, env, "echo $PPID", &d->second_pid);
    if (rc == 0)
        rc = run_script(d, env, daemon_path, &d->daemon_again);
    if (rc == 0)
        rc = run_script(d, env, "uname -sm", &d->command_said);
    if (rc == 0 &&
        (!say(d, "read it over another: daemon process %.*s", TC_STR_ARG(d->second_pid)) ||
         !say(d, "ran `uname -sm` there: %.*s", TC_STR_ARG(d->command_said))))
        rc = c->err.code;
    if (rc == 0)
        rc = break_link(d, env);
    if (rc == 0)
        rc = go_on(d, env);
    return cli_leave(d->c, env, rc);
}

static bool show_json(const demo_ssh *d)
{
    cli *c = d->c;
    tci_buf j;
    bool first = true;
    tci_buf_init(&j, TCI_BUF_MAX);
    tci_buf_append_byte(&j, '{');
    cli_json_str(&j, &first, "transport", TC_STR("ssh"));
    cli_json_str(&j, &first, "daemon", d->program);
    cli_json_str(&j, &first, "put_there", d->daemon_at);
    cli_json_str(&j, &first, "host_key", d->sshd.fingerprint);
    cli_json_str(&j, &first, "path", d->path);
    cli_json_str(&j, &first, "re_entry_read", d->text);
    cli_json_str(&j, &first, "command_output", d->command_said);
    cli_json_str(&j, &first, "first_daemon", d->first_pid);
    cli_json_str(&j, &first, "second_daemon", d->second_pid);
    cli_json_str(&j, &first, "daemon_after_loss", d->third_pid);
    cli_json_str(&j, &first, "loss", d->lost);
    cli_json_str(&j, &first, "outcome_of_lost_command", tci_str(tc_outcome_name(d->lost_outcome)));
    cli_json_bool(&j, &first, "independent_sessions", true);
    cli_json_bool(&j, &first, "daemon_preserved", true);
    tci_buf_append_byte(&j, '}');
    bool is_fine = cli_out_json(c, &j);
    tci_buf_done(&j);
    return is_fine;
}

/* A connection lives as long as the runtime: end it, as a program that goes away does. */
static int start_anew(demo_ssh *d)
{
    cli *c = d->c;
    tc_runtime_close(c->rt);
    c->rt = NULL;
    return cli_runtime(c) != NULL ? 0 : c->err.code;
}

static int compare(const demo_ssh *d)
{
    cli *c = d->c;
    if (!tci_str_eq(d->text, tci_str(greeting)))
        return tc_err_set(&c->err, TC_E_INTEGRITY, "the file came back different");
    if (tci_str_eq(d->first_pid, d->second_pid) || tci_str_eq(d->second_pid, d->third_pid))
        return tc_err_set(&c->err, TC_E_PROTOCOL, "two sessions met one daemon process");
    if (!tci_str_eq(d->daemon_at, d->daemon_again))
        return tc_err_set(&c->err, TC_E_INTEGRITY, "the daemon was put there twice");
    return 0;
}

static int tell(demo_ssh *d)
{
    cli *c = d->c;
    bool is_fine = say(d, "server: %.*s, 127.0.0.1:%u, its own keys", TC_STR_ARG(d->sshd.program),
                       (unsigned)d->sshd.port) &&
                   say(d, "workspace: %.*s (temporary)", TC_STR_ARG(d->sshd.workspace));
    int rc = is_fine ? trust_it(d) : c->err.code;
    if (rc == 0)
        rc = write_visit(d);
    if (rc == 0)
        rc = start_anew(d);
    if (rc == 0)
        rc = read_visit(d);
    if (rc == 0)
        rc = compare(d);
    if (rc < 0)
        return rc;
    is_fine = c->is_json ? show_json(d)
                         : cli_outf(c,
                                    "re-entry read: %.*s\n"
                                    "independent Sessions: True\n"
                                    "provider close preserved remote daemon and workspace\n",
                                    TC_STR_ARG(d->text));
    return is_fine ? 0 : c->err.code;
}

int demo_over_ssh(cli *c)
{
    demo_ssh d = {.c = c};
    int rc = demo_find_daemon(c, &d.program);
    if (rc < 0)
        return cli_fail(c);
    rc = demo_sshd_start(c, &d.sshd);
    if (rc == 0)
        rc = tell(&d);
    int status = rc == 0 ? CLI_OK : cli_fail(c);
    demo_sshd_stop(c, &d.sshd);
    if (rc == 0 && !c->is_json)
        cli_say(c, "stopped the server and removed all files");
    return status;
}
