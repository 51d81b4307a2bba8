/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir host`: run one, sign in to one, make a link that signs in elsewhere, sign out. Leaves running it to
 * host_serve.c. The main thread. Invariant: neither a link's code nor a token is ever taken from the command
 * line, nor printed but where it was asked for. */
#include "host.h"

#include "plat/fd.h"
#include "plat/file.h"
#include "plat/system.h"

enum { FD_IN = 0, LINE_MAX_BYTES = 4096 };

/* ---- login ---- */

/* One line of standard input, without its end. */
static int read_line(cli *c, tc_str *ret)
{
    cli_input *in;
    tci_buf line;
    int rc = cli_input_open(c, &in, &c->err);
    if (rc < 0)
        return rc;
    tci_buf_init(&line, LINE_MAX_BYTES);
    for (;;) {
        char buf[LINE_MAX_BYTES];
        size_t n = 0;
        rc = cli_input_read(in, c->ctx, buf, sizeof buf, &n, &c->err);
        if (rc < 0 || n == 0)
            break;
        tci_buf_append(&line, buf, n);
        if (!tci_buf_ok(&line) ||
            tci_str_find_byte(tci_buf_str(&line), '\n') < tci_buf_str(&line).len)
            break;
    }
    if (rc == 0)
        rc = tci_buf_error(&line, &c->err);
    tc_str all = tci_buf_str(&line);
    tc_str one = tci_str_sub(all, 0, tci_str_find_byte(all, '\n'));
    while (one.len > 0 && (one.ptr[one.len - 1] == '\r' || one.ptr[one.len - 1] == ' '))
        one.len--;
    if (rc == 0)
        rc = tci_arena_dup(&c->arena, one, ret, &c->err);
    tci_buf_done(&line);
    return rc;
}

static int ask_for_link(cli *c, tc_str *ret)
{
    if (tci_fd_is_terminal(FD_IN)) {
        tc_err ignored; /* then it is not shown, and typing works all the same */
        int rc = cli_write_stderr(
            TC_STR("Paste a sign-in link (the Host printed one at its first start; `telechir host "
                   "link`\nand the Host's page make more): "),
            &ignored);
        TCI_UNUSED(rc);
    }
    int rc = read_line(c, ret);
    if (rc == 0 && ret->len == 0) {
        (void)tc_err_set(&c->err, TC_E_INVALID, "no sign-in link came on standard input");
        return tc_err_hint(&c->err, "paste it, or pipe it in");
    }
    return rc;
}

static int sign_in(cli *c, host_at *at)
{
    char name[TCI_SYSTEM_HOST_MAX];
    tc_str link;
    tci_buf body;
    tci_json answer;
    bool first = true;
    int rc = ask_for_link(c, &link);
    if (rc < 0)
        return rc;
    tci_system_host_name(name);
    tci_buf_init(&body, TCI_BUF_MAX);
    tci_buf_append_byte(&body, '{');
    cli_json_str(&body, &first, "code", link);
    cli_json_str(&body, &first, "label", tci_str(name));
    tci_buf_append_byte(&body, '}');
    rc = tci_buf_error(&body, &c->err);
    if (rc == 0)
        rc = host_call(c, at, "POST", TC_STR("api/sign-in"), tci_buf_str(&body), &answer, &c->err);
    tci_buf_done(&body);
    if (rc < 0)
        return rc;
    at->token = tci_json_str_member(&answer, "token");
    return at->token.len > 0 ? 0 : tc_err_set(&c->err, TC_E_PROTOCOL, "the Host gave no token");
}

static int absolute_path(cli *c, const char *path, tc_str *ret)
{
    char buf[TCI_PATH_MAX];
    tc_str real;
    int rc = tci_file_realpath(tci_str(path), buf, &real, &c->err);
    return rc == 0 ? tci_arena_dup(&c->arena, real, ret, &c->err) : rc;
}

static int say(cli *c, const char *what, tc_str url)
{
    tci_buf j;
    bool first = true, is_fine;
    if (!c->is_json)
        return cli_outf(c, "%s: %.*s\n", what, TC_STR_ARG(url)) ? 0 : c->err.code;
    tci_buf_init(&j, TCI_BUF_MAX);
    tci_buf_append_byte(&j, '{');
    cli_json_str(&j, &first, "url", url);
    tci_buf_append_byte(&j, '}');
    is_fine = cli_out_json(c, &j);
    tci_buf_done(&j);
    return is_fine ? 0 : c->err.code;
}

static int login(cli *c)
{
    host_at at = {.is_insecure = cli_has(c, "insecure")};
    if (!cli_want_args(c, 2, 2))
        return c->err.code;
    int rc = host_url_of(c, c->args[1], &at.url, &c->err);
    if (rc == 0 && cli_value(c, "ca-file") != NULL)
        rc = absolute_path(c, cli_value(c, "ca-file"), &at.ca_file);
    if (rc == 0)
        rc = sign_in(c, &at);
    if (rc == 0)
        rc = host_saved_put(c, &at, &c->err);
    return rc == 0 ? say(c, "signed in", at.url) : rc;
}

/* ---- more links, and out ---- */

static int make_link(cli *c)
{
    host_at at;
    tci_json answer;
    if (!cli_want_args(c, 1, 1))
        return c->err.code;
    int rc = host_saved_find(c, cli_value(c, "host"), &at, &c->err);
    if (rc == 0)
        rc = host_call(c, &at, "POST", TC_STR("api/sign-in-links"), TC_STR("{}"), &answer, &c->err);
    return rc == 0 ? say(c, "sign in, once, within the hour", tci_json_str_member(&answer, "url"))
                   : rc;
}

static int logout(cli *c)
{
    host_at at;
    tci_json answer;
    if (!cli_want_args(c, 1, 1))
        return c->err.code;
    int rc = host_saved_find(c, cli_value(c, "host"), &at, &c->err);
    if (rc == 0)
        rc = host_call(c, &at, "POST", TC_STR("api/sign-out"), TC_STR("{}"), &answer, &c->err);
    if (rc < 0 && rc != TC_E_AUTH) /* AUTH: it is not valid there any more */
        return rc;
    if (rc < 0 && at.token.len == 0)
        return rc;
    rc = host_saved_remove(c, at.url, &c->err);
    return rc == 0 ? say(c, "signed out", at.url) : rc;
}

static int serve(cli *c)
{
    return cli_want_args(c, 1, 1) ? host_serve(c) : cli_fail(c);
}

int cmd_host(cli *c)
{
    static const struct {
        const char *word;
        int (*run)(cli *c);
    } words[] = {{"login", login}, {"link", make_link}, {"logout", logout}};
    if (c->nargs == 0)
        return cli_usage(c, "host serve, host login URL, host link, or host logout?");
    if (strcmp(c->args[0], "serve") == 0)
        return serve(c);
    for (size_t i = 0; i < TCI_ARRAY_LEN(words); i++)
        if (strcmp(c->args[0], words[i].word) == 0)
            return words[i].run(c) < 0 ? cli_fail(c) : CLI_OK;
    return cli_usage(c, "there is no 'host %s': serve, login, link, logout", c->args[0]);
}
