/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir trust` and `telechir forget`: whose host keys count for ssh targets. Leaves scanning and
 * the file of keys to the library. The main thread. Invariant: a key is accepted only after a person
 * said yes to its fingerprint or gave it on the command line; a changed one never is. */
#include "target.h"

#include "plat/fd.h"

#include <stdio.h>

enum { FD_IN = 0, FD_ERR = 2 };

typedef struct trusting {
    const char *typed;
    cli_target target;
    tc_ssh_target ssh;
    tc_str alias;
    tc_ssh_status_info status;
    bool is_accepted;
} trusting;

/* ---- what it is about ---- */

/* The name keys are kept under, as tc_ssh_target says. */
static int alias_of(cli *c, const tc_ssh_target *ssh, tc_str *ret)
{
    enum { SSH_PORT = 22 };
    char *text;
    if (ssh->host_key_alias.len > 0) {
        *ret = ssh->host_key_alias;
        return 0;
    }
    int rc = tci_arena_cstr(&c->arena, ssh->host, &text, &c->err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < ssh->host.len; i++)
        if (text[i] >= 'A' && text[i] <= 'Z')
            text[i] = (char)(text[i] - 'A' + 'a');
    if (ssh->port == 0 || ssh->port == SSH_PORT) {
        *ret = tci_str_of(text, ssh->host.len);
        return 0;
    }
    return tci_arena_printf(&c->arena, ret, &c->err, "[%s]:%u", text, (unsigned)ssh->port);
}

static int open_host(cli *c, trusting *t)
{
    t->typed = c->args[0];
    int rc = cli_target_of_host(c, tci_str(t->typed), &t->target, &c->err);
    if (rc == 0)
        rc = cli_target_ssh(&t->target, &t->ssh, &c->err);
    if (rc == 0)
        rc = alias_of(c, &t->ssh, &t->alias);
    if (rc == 0 && cli_runtime(c) == NULL)
        rc = c->err.code;
    return rc;
}

/* The command that does this to the same host: its words, with the options that matter. */
static tc_str command_line(cli *c, const trusting *t, const char *command)
{
    tci_buf b;
    tc_str line = {0};
    tc_err ignored; /* then there is just no example */
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "telechir %s %s", command, t->typed);
    if (cli_value(c, "known-hosts") != NULL)
        tci_buf_printf(&b, " --known-hosts %s", cli_value(c, "known-hosts"));
    if (cli_value(c, "host-key-alias") != NULL)
        tci_buf_printf(&b, " --host-key-alias %s", cli_value(c, "host-key-alias"));
    if (cli_value(c, "ssh-config") != NULL)
        tci_buf_printf(&b, " --ssh-config %s", cli_value(c, "ssh-config"));
    int rc = tci_arena_dup(&c->arena, tci_buf_str(&b), &line, &ignored);
    TCI_UNUSED(rc);
    tci_buf_done(&b);
    return line;
}

/* ---- answering ---- */

static void put_keys(tci_buf *b, bool *first, const char *name, const tc_ssh_keys *keys)
{
    tci_json_put_key(b, first, tci_str(name));
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < keys->count; i++) {
        bool inner = true;
        tci_buf_append_str(b, i > 0 ? TC_STR(",{") : TC_STR("{"));
        cli_json_str(b, &inner, "type", keys->items[i].type);
        cli_json_str(b, &inner, "fingerprint", keys->items[i].fingerprint);
        tci_buf_append_byte(b, '}');
    }
    tci_buf_append_byte(b, ']');
}

static const char *trust_name(tc_ssh_trust trust)
{
    static const char *const names[] = {"unknown", "trusted", "changed"};
    return names[trust];
}

static bool put_answer(cli *c, const trusting *t, const tc_err *err)
{
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "host", tci_str(t->typed));
    cli_json_str(&b, &first, "alias", t->alias);
    if (t->ssh.known_hosts_file.len > 0)
        cli_json_str(&b, &first, "known_hosts", t->ssh.known_hosts_file);
    cli_json_str(&b, &first, "trust", tci_str(trust_name(t->status.trust)));
    cli_json_bool(&b, &first, "accepted", t->is_accepted);
    put_keys(&b, &first, "trusted", &t->status.trusted);
    put_keys(&b, &first, "offered", &t->status.offered);
    if (err != NULL)
        cli_json_error(&b, &first, c, err);
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine;
}

/* c->err, with what was learnt; gives the status. */
static int refuse(cli *c, const trusting *t)
{
    tc_err why = c->err;
    int status = tc_code_exit_status(why.code);
    if (cli_caught() != 0 || !c->is_json)
        return cli_fail(c);
    if (!put_answer(c, t, &why))
        return cli_fail(c);
    cli_warn(c, "%s", why.msg);
    if (why.hint[0] != '\0')
        cli_warn(c, "%s", why.hint);
    return status;
}

static void say_keys(const cli *c, const char *what, const tc_ssh_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++)
        cli_warn(c, "  %s%.*s (%.*s)", what, TC_STR_ARG(keys->items[i].fingerprint),
                 TC_STR_ARG(keys->items[i].type));
}

/* ---- accepting ---- */

/* The lines to accept: all that were offered, or the one with this fingerprint. */
static int choose(cli *c, const trusting *t, const char *fingerprint, tc_strs *ret)
{
    const tc_ssh_keys *offered = &t->status.offered;
    tc_str *lines = tci_arena_items(&c->arena, tc_str, offered->count + 1);
    size_t n = 0;
    if (lines == NULL)
        return tci_arena_error(&c->arena, &c->err);
    for (size_t i = 0; i < offered->count; i++)
        if (fingerprint == NULL || tci_str_eq(offered->items[i].fingerprint, tci_str(fingerprint)))
            lines[n++] = offered->items[i].line;
    *ret = (tc_strs){lines, n};
    if (n > 0)
        return 0;
    if (fingerprint == NULL)
        return tc_err_set(&c->err, TC_E_CONNECT, "'%s' shows no key", t->typed);
    tc_err_set(&c->err, TC_E_DENIED, "'%s' shows no key with the fingerprint %s, but %.*s",
               t->typed, fingerprint, TC_STR_ARG(offered->items[0].fingerprint));
    return tc_err_hint(&c->err,
                       "nothing was accepted; ask the owner of the machine which is right");
}

/* y or yes. */
static int ask(cli *c, bool *ret_yes)
{
    cli_input *in = NULL;
    char answer[16] = {0};
    size_t len = 0, n = 1;
    (void)fprintf(stderr, "telechir: is that the right key? [y/N] ");
    int rc = cli_input_open(c, &in, &c->err);
    while (rc == 0 && n > 0 && len < sizeof answer && memchr(answer, '\n', len) == NULL) {
        rc = cli_input_read(in, c->ctx, answer + len, sizeof answer - len, &n, &c->err);
        len += rc == 0 ? n : 0;
    }
    tc_str word = tci_str_of(answer, len);
    word = tci_str_trim(tci_str_sub(word, 0, tci_str_find_byte(word, '\n')));
    *ret_yes = tci_str_eq(word, TC_STR("y")) || tci_str_eq(word, TC_STR("yes")) ||
               tci_str_eq(word, TC_STR("Y"));
    return rc;
}

static int cannot_ask(cli *c, const trusting *t)
{
    tc_str line = command_line(c, t, "trust");
    tc_err_set(&c->err, TC_E_DENIED, "nobody can be asked here whether that key of '%s' is right",
               t->typed);
    return tc_err_hint(&c->err, "if the owner of the machine confirms it: %.*s --fingerprint %.*s",
                       TC_STR_ARG(line), TC_STR_ARG(t->status.offered.items[0].fingerprint));
}

/* A person's yes, or the fingerprint given. */
static int consent(cli *c, trusting *t, tc_strs *ret_lines)
{
    const char *fingerprint = cli_value(c, "fingerprint");
    bool is_yes = false;
    int rc = choose(c, t, fingerprint, ret_lines);
    if (rc < 0 || fingerprint != NULL)
        return rc;
    cli_warn(c, "nothing is known of '%s' yet; it shows:", t->typed);
    say_keys(c, "", &t->status.offered);
    if (c->is_json || !tci_fd_is_terminal(FD_IN) || !tci_fd_is_terminal(FD_ERR))
        return cannot_ask(c, t);
    rc = ask(c, &is_yes);
    return rc == 0 && !is_yes ? tc_err_set(&c->err, TC_E_DENIED, "nothing was accepted") : rc;
}

static int accept_keys(cli *c, trusting *t)
{
    tc_strs lines;
    int rc = consent(c, t, &lines);
    if (rc == 0)
        rc = tc_ssh_accept(c->rt, &t->ssh, lines, &c->err);
    if (rc == 0)
        rc = tc_ssh_list(c->rt, c->result, &t->ssh, true, &t->status.trusted, &c->err);
    if (rc < 0)
        return rc;
    t->is_accepted = true;
    t->status.trust = TC_SSH_TRUSTED;
    for (size_t i = 0; i < t->status.trusted.count; i++)
        cli_say(c, "trusted: '%.*s' is %.*s (%.*s)", TC_STR_ARG(t->alias),
                TC_STR_ARG(t->status.trusted.items[i].fingerprint),
                TC_STR_ARG(t->status.trusted.items[i].type));
    return 0;
}

static int changed(cli *c, const trusting *t)
{
    const tc_ssh_keys *old = &t->status.trusted, *now = &t->status.offered;
    tc_str line = command_line(c, t, "forget");
    if (!c->is_quiet) {
        cli_warn(c, "the key of '%s' is not the one that is trusted", t->typed);
        say_keys(c, "trusted: ", old);
        say_keys(c, "shown:   ", now);
    }
    tc_err_set(&c->err, TC_E_UNTRUSTED,
               "the key of '%s' has changed: %.*s is trusted, it shows %.*s", t->typed,
               TC_STR_ARG(old->count > 0 ? old->items[0].fingerprint : TC_STR("none")),
               TC_STR_ARG(now->count > 0 ? now->items[0].fingerprint : TC_STR("none")));
    return tc_err_hint(&c->err,
                       "somebody may be in between; if its owner says that the key is new: %.*s",
                       TC_STR_ARG(line));
}

/* It was trusted before: which is fine, unless another key was asked for. */
static int trusted_already(cli *c, trusting *t)
{
    const char *fingerprint = cli_value(c, "fingerprint");
    const tc_ssh_keys *keys = &t->status.trusted;
    bool is_among = fingerprint == NULL;
    for (size_t i = 0; i < keys->count; i++) {
        tc_str own = keys->items[i].fingerprint;
        is_among = is_among || tci_str_eq(own, tci_str(fingerprint));
        cli_say(c, "already trusted: '%.*s' is %.*s (%.*s)", TC_STR_ARG(t->alias), TC_STR_ARG(own),
                TC_STR_ARG(keys->items[i].type));
    }
    return is_among ? 0 : accept_keys(c, t);
}

static int trust_host(cli *c)
{
    trusting t = {0};
    int rc = open_host(c, &t);
    if (rc == 0)
        rc = tc_ssh_status(c->rt, c->ctx, c->result, &t.ssh, &t.status, &c->err);
    if (rc < 0) {
        (void)tc_err_wrap(&c->err, "cannot ask '%s' for its key", c->args[0]);
        return cli_fail(c);
    }
    switch (t.status.trust) {
    case TC_SSH_UNKNOWN:
        rc = accept_keys(c, &t);
        break;
    case TC_SSH_TRUSTED:
        rc = trusted_already(c, &t);
        break;
    case TC_SSH_CHANGED:
        rc = changed(c, &t);
        break;
    }
    if (rc < 0)
        return refuse(c, &t);
    return !c->is_json || put_answer(c, &t, NULL) ? CLI_OK : cli_fail(c);
}

/* ---- the list ---- */

static int put_key(cli *c, const tc_ssh_key *k)
{
    tci_buf b;
    bool first = true;
    if (!c->is_json)
        return cli_outf(c, "%-24.*s %.*s (%.*s)\n", TC_STR_ARG(k->alias),
                        TC_STR_ARG(k->fingerprint), TC_STR_ARG(k->type))
                   ? 0
                   : c->err.code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "alias", k->alias);
    cli_json_str(&b, &first, "type", k->type);
    cli_json_str(&b, &first, "fingerprint", k->fingerprint);
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine ? 0 : c->err.code;
}

static int list_all(cli *c)
{
    cli_target t;
    tc_ssh_target ssh;
    tc_ssh_keys keys = {0};
    /* Any host will do: all keys of the file are asked for. */
    int rc = cli_target_of_form(c, TC_STR("ssh:localhost"), &t, &c->err);
    if (rc == 0)
        rc = cli_target_ssh(&t, &ssh, &c->err);
    if (rc == 0 && cli_runtime(c) == NULL)
        rc = c->err.code;
    if (rc == 0)
        rc = tc_ssh_list(c->rt, c->result, &ssh, false, &keys, &c->err);
    for (size_t i = 0; rc == 0 && i < keys.count; i++)
        rc = put_key(c, &keys.items[i]);
    if (rc == 0 && keys.count == 0)
        cli_say(c, "no host is trusted yet; telechir trust HOST");
    return rc == 0 ? CLI_OK : cli_fail(c);
}

int cmd_trust(cli *c)
{
    bool is_list = cli_has(c, "list");
    if (is_list && cli_has(c, "fingerprint"))
        return cli_usage(c, "--list goes without --fingerprint");
    if (!cli_want_args(c, is_list ? 0 : 1, is_list ? 0 : 1))
        return cli_fail(c);
    return is_list ? list_all(c) : trust_host(c);
}

int cmd_forget(cli *c)
{
    trusting t = {0};
    uint64_t n = 0;
    if (!cli_want_args(c, 1, 1) || open_host(c, &t) < 0 ||
        tc_ssh_forget(c->rt, &t.ssh, &n, &c->err) < 0)
        return cli_fail(c);
    if (!c->is_json) {
        if (n > 0)
            cli_say(c, "forgot %llu key%s of '%.*s'", (unsigned long long)n, cli_s(n),
                    TC_STR_ARG(t.alias));
        else
            cli_say(c, "nothing was trusted under '%.*s'", TC_STR_ARG(t.alias));
        return CLI_OK;
    }
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "host", tci_str(t.typed));
    cli_json_str(&b, &first, "alias", t.alias);
    cli_json_u64(&b, &first, "removed", n);
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine ? CLI_OK : cli_fail(c);
}
