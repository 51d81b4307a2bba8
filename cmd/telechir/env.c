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

/* What ssh, the login files over there and the deployment say. Any thread. */
static void on_ssh_log(void *user, tc_str text)
{
    const cli *c = user;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    while (text.len > 0 && (text.ptr[text.len - 1] == '\n' || text.ptr[text.len - 1] == '\r'))
        text.len--;
    cli_put_name(&b, text);
    tc_str line = tci_buf_str(&b);
    if (line.len > 0)
        cli_detail(c, "ssh: %.*s", TC_STR_ARG(line));
    tci_buf_done(&b);
}

static int create_local(cli *c, tc_runtime *rt, const cli_target *t, tc_env_options *options,
                        tc_env **ret_env, tc_err *err)
{
    /* As the person who typed the command: from their folder, with all they may do. */
    tc_local_pi_options local = {.size = sizeof local, .executable = t->executable};
    int rc = cli_here(c, &options->working_directory, err);
    return rc == 0 ? tc_env_create_local_pi(rt, options, &local, ret_env, err) : rc;
}

static int create_ssh(cli *c, tc_runtime *rt, const cli_target *t, const tc_env_options *options,
                      tc_env **ret_env, tc_err *err)
{
    tc_ssh_options ssh = {.size = sizeof ssh,
                          .daemon = t->executable,
                          .login_shell = t->is_login_shell,
                          .log = on_ssh_log,
                          .log_user = c};
    int rc = cli_target_ssh(t, &ssh.target, err);
    return rc == 0 ? tc_env_create_ssh(rt, options, &ssh, ret_env, err) : rc;
}

int cli_env_create(cli *c, tc_runtime *rt, const cli_target *t, tc_env **ret_env, tc_err *err)
{
    tc_env_options options = {.size = sizeof options, .environment_id = TC_STR("telechir")};
    if (t->kind == CLI_TARGET_LOCAL)
        return create_local(c, rt, t, &options, ret_env, err);
    if (t->kind == CLI_TARGET_SSH)
        return create_ssh(c, rt, t, &options, ret_env, err);
    cli_link link;
    int rc = cli_target_link(c, t, &link, err);
    if (rc == 0)
        rc = tc_env_state_make(TC_STR("http_envd"), link.device_id, c->result, &options.state, err);
    return rc == 0 ? tc_env_create_http(rt, &options, &link.http, ret_env, err) : rc;
}

/* ---- why it cannot be reached ---- */

static bool says(const tc_err *err, const char *word)
{
    tc_str msg = tci_str(err->msg);
    return tci_str_find(msg, tci_str(word)) < msg.len;
}

/* The daemon only says that it is not the one asked for: ask which one it is. */
static void name_both_devices(cli *c, const cli_target *t)
{
    tc_http_options http = cli_target_http(t);
    tc_device *device = NULL;
    tc_err ignored; /* the first failure stays */
    if (tc_device_connect_http(c->rt, c->ctx, &http, NULL, &device, &ignored) < 0)
        return;
    tc_str id = tc_device_get_info(device)->device_id;
    if (!tci_str_eq(id, t->device_id)) {
        (void)tc_err_set(&c->err, TC_E_INCOMPATIBLE,
                         "the daemon is device '%.*s', and --device-id says '%.*s'", TC_STR_ARG(id),
                         TC_STR_ARG(t->device_id));
        (void)tc_err_hint(&c->err, "is that the right address? Its operator knows its device id");
    }
    tc_device_close(device);
}

void cli_explain_reach(cli *c, const cli_target *t)
{
    tc_err *err = &c->err;
    bool is_tls = tci_str_starts(t->form, TC_STR("https:"));
    tc_str rest = tci_str_sub(t->form, tci_str_find(t->form, TC_STR("://")), SIZE_MAX);
    if (t->kind == CLI_TARGET_LOCAL && says(err, "before it was ready"))
        (void)tc_err_hint(err,
                          "the daemon of 'local' has to be a telechird; --executable names one");
    if (t->kind != CLI_TARGET_HTTP)
        return;
    if (err->code == TC_E_INCOMPATIBLE)
        name_both_devices(c, t);
    else if (err->code == TC_E_CONNECT && says(err, "refused"))
        (void)tc_err_hint(err, "nothing listens there: is telechird running, with this address and "
                               "port in TELECHIRD_HTTP_BIND?");
    else if (err->code == TC_E_CONNECT && !is_tls && says(err, "closed the connection before"))
        (void)tc_err_hint(err, "that port may speak TLS: try https%.*s", TC_STR_ARG(rest));
    else if (err->code == TC_E_PROTOCOL && is_tls && says(err, "wrong version number"))
        (void)tc_err_hint(err,
                          "that port may not speak TLS: http%.*s goes to this machine, and with "
                          "--allow-plaintext-private-link to another",
                          TC_STR_ARG(rest));
}

/* ---- opening ---- */

static void say_opened(const cli *c, const char *text, const tc_env *env)
{
    tc_str id = tc_env_device_id(env), session = tc_env_session_id(env), cwd = tc_env_cwd(env);
    if (session.len > 0)
        cli_detail(c, "%s: ready, device %.*s, session %.*s, folder %.*s", text, TC_STR_ARG(id),
                   TC_STR_ARG(session), TC_STR_ARG(cwd));
    else
        cli_detail(c, "%s: ready, folder %.*s", text, TC_STR_ARG(cwd));
}

/* What of the user's ssh configuration does not count, for those who wonder. */
static void say_ignored(cli *c, const cli_target *t)
{
    tc_ssh_target ssh;
    tc_strs lines;
    tc_err ignored; /* connecting says what is wrong */
    if (!c->is_verbose || t->kind != CLI_TARGET_SSH || cli_target_ssh(t, &ssh, &ignored) < 0 ||
        tc_ssh_ignored(c->rt, c->ctx, c->result, &ssh, &lines, &ignored) < 0)
        return;
    for (size_t i = 0; i < lines.count; i++)
        cli_detail(c, "of the ssh configuration, not used: %.*s", TC_STR_ARG(lines.items[i]));
}

/* What to type about a key that is not trusted, for the target as it was typed. */
static void hint_trust(cli *c, const cli_target *t, const char *text)
{
    static const char *const options[] = {"ssh-config", "known-hosts", "host-key-alias"};
    tci_buf b;
    if (t->kind != CLI_TARGET_SSH || c->err.code != TC_E_UNTRUSTED)
        return;
    tc_str name = tci_str(text);
    if (tci_str_starts(name, TC_STR("ssh:")))
        name = tci_str_sub(name, sizeof "ssh:" - 1, SIZE_MAX);
    tci_buf_init(&b, TC_ERR_HINT_MAX);
    tci_buf_printf(&b, "%s: telechir %s %.*s", c->err.hint,
                   c->err.cause == TC_E_INTEGRITY ? "forget" : "trust", TC_STR_ARG(name));
    for (size_t i = 0; i < TCI_ARRAY_LEN(options); i++)
        if (cli_value(c, options[i]) != NULL)
            tci_buf_printf(&b, " --%s %s", options[i], cli_value(c, options[i]));
    if (tci_buf_ok(&b))
        (void)tc_err_hint(&c->err, "%.*s", (int)b.len, b.ptr);
    tci_buf_done(&b);
}

static tc_env *open_env(cli *c, const char *text)
{
    cli_target t;
    tc_env *env = NULL;
    if (cli_target_resolve(c, tci_str(text), &t, &c->err) < 0)
        return NULL;
    tc_runtime *rt = cli_runtime(c);
    if (rt == NULL)
        return NULL;
    if (cli_env_create(c, rt, &t, &env, &c->err) < 0) {
        if (t.kind == CLI_TARGET_HOST)
            (void)tc_err_wrap(&c->err, "cannot use the target '%s'", text);
        return NULL;
    }
    say_ignored(c, &t);
    if (tc_env_ready(env, c->ctx, &c->err) < 0) {
        cli_explain_reach(c, &t);
        hint_trust(c, &t, text);
        (void)tc_err_wrap(&c->err, "cannot use the target '%s'", text);
        tc_env_release(env);
        return NULL;
    }
    say_opened(c, text, env);
    return env;
}

tc_env *cli_env(cli *c, const char *on)
{
    const char *text = on != NULL ? on : cli_value(c, "on");
    text = text != NULL ? text : "local";
    for (size_t i = 0; i < c->nenvs; i++)
        if (strcmp(c->envs[i].target, text) == 0)
            return c->envs[i].env;
    if (c->nenvs == CLI_ENVS_MAX) {
        (void)tc_err_set(&c->err, TC_E_INVALID, "more than %d targets in one command",
                         CLI_ENVS_MAX);
        return NULL;
    }
    tc_env *env = open_env(c, text);
    if (env != NULL)
        c->envs[c->nenvs++] = (cli_opened){text, env};
    return env;
}

bool cli_is_eip(const tc_env *env)
{
    tc_str provider = tc_env_provider(env);
    return !tci_str_eq(provider, TC_STR("local")) && !tci_str_eq(provider, TC_STR("ssh"));
}

/* ---- places ---- */

/* Where a path begins behind a full form: ":/" or ":~". */
static size_t form_end(tc_str text, size_t from)
{
    for (size_t i = from; i + 1 < text.len; i++)
        if (text.ptr[i] == ':' && (text.ptr[i + 1] == '/' || text.ptr[i + 1] == '~'))
            return i;
    return text.len;
}

/* "http://", "ssh:", ... at the start; 0: none. */
static size_t form_start(tc_str text)
{
    static const char *const forms[] = {"http://", "https://", "ssh:", "host:"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(forms); i++)
        if (tci_str_starts(text, tci_str(forms[i])))
            return strlen(forms[i]);
    return 0;
}

/* Where the target ends in "TARGET:path"; the length when it is a path here. */
static size_t place_colon(tc_str text)
{
    size_t form = form_start(text);
    size_t slash = tci_str_find_byte(text, '/');
    size_t colon = tci_str_find_byte(text, ':');
    if (form > 0)
        return form_end(text, form);
    return colon < slash ? colon : text.len;
}

/* "HOST:PATH" as scp takes it. What is wrong with the file of saved names comes first. */
static int no_such_name(cli *c, const char *target, const char *path)
{
    cli_target t;
    int rc = cli_target_resolve(c, tci_str(target), &t, &c->err);
    if (rc != TC_E_INVALID || (tci_str(target).len == 0))
        return rc < 0 ? rc : tc_err_set(&c->err, TC_E_INVALID, "'%s' is no target", target);
    bool is_rooted = path[0] == '/' || path[0] == '~';
    return tc_err_hint(&c->err,
                       "a machine behind ssh: ssh:%s:%s%s; a file here whose name holds a "
                       "colon: ./%s:%s; saved names: telechir target list",
                       target, is_rooted ? "" : "~/", path, target, path);
}

static int open_place(cli *c, const char *text, size_t colon, cli_place *ret)
{
    char *target = NULL;
    const char *path = text + colon + 1;
    int rc = cli_check_text(c, text);
    if (rc == 0)
        rc = tci_arena_cstr(&c->arena, tci_str_sub(tci_str(text), 0, colon), &target, &c->err);
    if (rc < 0)
        return rc;
    if (form_start(tci_str(text)) == 0 && !tci_str_eq(tci_str(target), TC_STR("local")) &&
        !cli_target_is_saved(c, tci_str(target)))
        return no_such_name(c, target, path);
    tc_env *env = cli_env(c, target);
    if (env == NULL)
        return c->err.code;
    *ret = (cli_place){.env = env, .path = *path != '\0' ? path : ".", .target = target};
    return 0;
}

static int no_path(cli *c, tc_str whole)
{
    cli_target t;
    int rc = cli_target_of_form(c, whole, &t, &c->err); /* what is wrong with it comes first */
    if (rc < 0)
        return rc;
    const char *form = t.kind == CLI_TARGET_SSH ? "ssh:HOST" : "URL";
    return tc_err_set(&c->err, TC_E_INVALID, "a path is missing: write %s:/path",
                      t.kind == CLI_TARGET_HOST ? "host:NAME" : form);
}

int cli_place_of(cli *c, const char *text, cli_place *ret)
{
    tc_str whole = tci_str(text);
    size_t colon = place_colon(whole);
    if (colon < whole.len)
        return open_place(c, text, colon, ret);
    if (form_start(whole) > 0)
        return no_path(c, whole);
    *ret = (cli_place){.is_local = true, .path = text};
    return 0;
}

static int open_there(cli *c, const char *text, cli_place *ret)
{
    tc_str whole = tci_str(text);
    size_t colon = place_colon(whole);
    tc_str name = tci_str_sub(whole, 0, colon);
    if (!cli_has(c, "on") && form_start(whole) > 0)
        return cli_place_of(c, text, ret);
    if (!cli_has(c, "on") && colon < whole.len &&
        (tci_str_eq(name, TC_STR("local")) || cli_target_is_saved(c, name)))
        return open_place(c, text, colon, ret);
    tc_env *env = cli_env(c, NULL);
    if (env == NULL)
        return c->err.code;
    *ret = (cli_place){.env = env, .path = text};
    return 0;
}

int cli_there(cli *c, const char *text, cli_place *ret)
{
    int rc = open_there(c, text, ret);
    if (rc < 0 || !c->is_json)
        return rc;
    rc = tc_env_absolute_path(ret->env, tci_str(ret->path), c->result, &ret->absolute, &c->err);
    return rc == 0 ? tci_arena_dup(&c->arena, ret->absolute, &ret->absolute, &c->err) : rc;
}

int cli_leave(cli *c, tc_env *env, int rc)
{
    tc_err ignored;
    if (rc == 0)
        rc = tc_env_close(env, c->ctx, &c->err);
    else
        (void)tc_env_close(env, NULL, &ignored); /* the first failure is told */
    tc_env_release(env);
    return rc;
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
