/* SPDX-License-Identifier: Apache-2.0
 *
 * What the text of a target means. Leaves saving to target_store.c and connecting to env.c. The main
 * thread. Invariant: no credential is ever taken from the text. */
#include "host.h"
#include "target.h"

#include "base/plain.h"
#include "base/utf8.h"
#include "net/url.h"
#include "plat/file.h"

int cli_here(cli *c, tc_str *ret, tc_err *err)
{
    char buf[TCI_PATH_MAX];
    tc_str path;
    int rc = tci_file_realpath(TC_STR("."), buf, &path, err);
    return rc == 0 ? tci_arena_dup(&c->arena, path, ret, err)
                   : tc_err_wrap(err, "cannot tell the working folder");
}

/* Saved paths must mean the same from everywhere. */
static int absolute(cli *c, const char *option, tc_str *out, tc_err *err)
{
    tc_str path = tci_str(cli_value(c, option)), here;
    if (path.len == 0)
        return 0;
    if (path.ptr[0] == '/') {
        *out = path;
        return 0;
    }
    int rc = cli_here(c, &here, err);
    return rc == 0 ? tci_arena_printf(&c->arena, out, err, "%.*s/%.*s", TC_STR_ARG(here),
                                      TC_STR_ARG(path))
                   : rc;
}

/* ---- forms ---- */

static int check_url(tc_str form, tc_err *err)
{
    tci_url url;
    tc_err first;
    if (tci_url_parse(form, 0, &url, err) == 0)
        return 0;
    /* Say which part is wrong, without repeating what may be a credential. */
    if (tci_url_parse(form, TCI_URL_USERINFO | TCI_URL_PATH | TCI_URL_QUERY | TCI_URL_FRAGMENT,
                      &url, &first) == 0 &&
        url.userinfo.len > 0) {
        tc_err_set(err, TC_E_INVALID, "a credential does not belong in a URL");
        return tc_err_hint(err, "write it to a file and pass --credential-file FILE");
    }
    tc_err_wrap(err, "not a target");
    return tc_err_hint(err, "write http://HOST:PORT or https://HOST, without a path");
}

static bool is_http(tc_str s)
{
    return tci_str_starts(s, TC_STR("http://")) || tci_str_starts(s, TC_STR("https://"));
}

static int apply_options(cli *c, cli_target *t, tc_err *err)
{
    tc_str device_id = tci_str(cli_value(c, "device-id"));
    tc_str alias = tci_str(cli_value(c, "host-key-alias"));
    if (device_id.len > 0)
        t->device_id = device_id;
    if (alias.len > 0)
        t->host_key_alias = alias;
    if (cli_value(c, "host") != NULL && host_url_of(c, cli_value(c, "host"), &t->host, err) < 0)
        return err->code;
    const struct {
        const char *option;
        tc_str *path;
    } paths[] = {{"credential-file", &t->credential_file},
                 {"ca-file", &t->ca_file},
                 {"executable", &t->executable},
                 {"known-hosts", &t->known_hosts},
                 {"identity", &t->identity},
                 {"ssh-config", &t->ssh_config}};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < TCI_ARRAY_LEN(paths); i++)
        rc = absolute(c, paths[i].option, paths[i].path, err);
    t->is_insecure = t->is_insecure || cli_has(c, "insecure");
    t->is_plaintext_allowed = t->is_plaintext_allowed || cli_has(c, "allow-plaintext-private-link");
    t->is_login_shell = t->is_login_shell || cli_has(c, "login-shell");
    return rc;
}

tc_http_options cli_target_http(const cli_target *t)
{
    return (tc_http_options){.size = sizeof(tc_http_options),
                             .endpoint = t->form,
                             .credential_file = t->credential_file,
                             .ca_file = t->ca_file,
                             .insecure_no_verify = t->is_insecure,
                             .allow_plaintext_private_link = t->is_plaintext_allowed};
}

int cli_target_ssh(const cli_target *t, tc_ssh_target *ret, tc_err *err)
{
    tc_ssh_target ssh = {.size = sizeof ssh,
                         .known_hosts_file = t->known_hosts,
                         .host_key_alias = t->host_key_alias,
                         .identity_file = t->identity,
                         .config_file = t->ssh_config};
    int rc = tc_ssh_target_parse(t->form, &ssh, err);
    if (rc == 0)
        rc = tc_ssh_target_check(&ssh, err);
    if (rc == 0)
        *ret = ssh;
    return rc;
}

/* An option that means nothing for this kind of target was meant for another one. */
static int check_options(const cli_target *t, tc_err *err)
{
    enum {
        LOCAL = 1 << CLI_TARGET_LOCAL,
        HTTP = 1 << CLI_TARGET_HTTP,
        SSH = 1 << CLI_TARGET_SSH,
        HOST = 1 << CLI_TARGET_HOST
    };
    const struct {
        const char *option;
        bool is_given;
        unsigned kinds;
    } all[] = {{"device-id", t->device_id.len > 0, HTTP | HOST},
               {"host", t->host.len > 0, HOST},
               {"credential-file", t->credential_file.len > 0, HTTP},
               {"ca-file", t->ca_file.len > 0, HTTP},
               {"insecure", t->is_insecure, HTTP},
               {"allow-plaintext-private-link", t->is_plaintext_allowed, HTTP},
               {"executable", t->executable.len > 0, LOCAL | SSH},
               {"known-hosts", t->known_hosts.len > 0, SSH},
               {"host-key-alias", t->host_key_alias.len > 0, SSH},
               {"identity", t->identity.len > 0, SSH},
               {"ssh-config", t->ssh_config.len > 0, SSH},
               {"login-shell", t->is_login_shell, SSH}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(all); i++)
        if (all[i].is_given && (all[i].kinds & 1u << t->kind) == 0)
            return tc_err_set(err, TC_E_INVALID, "--%s means nothing for '%.*s'", all[i].option,
                              TC_STR_ARG(t->form));
    return 0;
}

static int check_http(const cli_target *t, tc_err *err)
{
    int rc = check_url(t->form, err);
    if (rc < 0)
        return rc;
    if (t->device_id.len == 0 || t->credential_file.len == 0) {
        tc_err_set(err, TC_E_INVALID, "'%.*s' needs %s", TC_STR_ARG(t->form),
                   t->device_id.len == 0 ? "--device-id ID" : "--credential-file FILE");
        return tc_err_hint(err, "its operator gives you the device id and the credential");
    }
    tc_http_options http = cli_target_http(t);
    return tc_http_options_check(&http, err);
}

static int check_ssh(const cli_target *t, tc_err *err)
{
    tc_ssh_target ssh;
    if (cli_target_ssh(t, &ssh, err) == 0)
        return 0;
    if (err->hint[0] == '\0')
        (void)tc_err_hint(err, "write ssh:[USER@]HOST[:PORT]");
    return err->code;
}

/* The name of a device, or its id; and which Host is meant stays the same from here on. */
static int check_host(cli *c, cli_target *t, tc_err *err)
{
    enum { NAME_MAX_BYTES = 256 };
    host_at at;
    tc_str name = cli_target_device(t);
    bool is_fine = name.len > 0 && name.len <= NAME_MAX_BYTES && tci_utf8_is_valid(name);
    for (size_t i = 0, len = 0; is_fine && i < name.len; i += len)
        is_fine = !tci_plain_is_control(tci_utf8_decode(tci_str_sub(name, i, SIZE_MAX), &len));
    if (!is_fine) {
        (void)tc_err_set(err, TC_E_INVALID, "not a target: 'host:' and no device's name");
        return tc_err_hint(err, "write host:NAME; `telechir devices` shows those of the Host");
    }
    if (t->host.len > 0)
        return 0;
    int rc = host_saved_find(c, NULL, &at, err);
    if (rc == 0)
        t->host = at.url;
    return rc;
}

static int check_target(cli *c, cli_target *t, tc_err *err)
{
    int rc = 0;
    if (t->kind == CLI_TARGET_HTTP)
        rc = check_http(t, err);
    else if (t->kind == CLI_TARGET_SSH)
        rc = check_ssh(t, err);
    else if (t->kind == CLI_TARGET_HOST)
        rc = check_host(c, t, err);
    return rc == 0 ? check_options(t, err) : rc;
}

#define FORMS \
    "forms: local, ssh:[USER@]HOST[:PORT], http://HOST:PORT, https://HOST[:PORT], host:NAME"

/* A host as scp takes it, perhaps with a user. */
static bool is_host(tc_str s)
{
    enum { HOST_MAX = 64 };
    size_t at = tci_str_find_byte(s, '@');
    tc_str host = at < s.len ? tci_str_sub(s, at + 1, SIZE_MAX) : s;
    bool is_fine = at != 0 && host.len > 0 && s.len <= HOST_MAX && s.ptr[0] != '-';
    for (size_t i = 0; is_fine && i < s.len; i++) {
        char ch = s.ptr[i];
        is_fine = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                  (ch >= '0' && ch <= '9') || ch == '.' || ch == '-' || ch == '_' ||
                  (ch == '@' && i == at);
    }
    return is_fine;
}

bool cli_is_scp_form(tc_str text)
{
    size_t colon = tci_str_find_byte(text, ':');
    tc_str path = tci_str_sub(text, colon + 1, SIZE_MAX);
    return is_host(tci_str_sub(text, 0, colon)) && path.len > 0 &&
           (path.ptr[0] == '/' || path.ptr[0] == '~') && !tci_str_starts(path, TC_STR("//"));
}

/* Such words hold no secret, so they may be repeated. */
static bool hint_scp(tc_str form, tc_err *err)
{
    size_t colon = tci_str_find_byte(form, ':');
    tc_str host = tci_str_sub(form, 0, colon), path = tci_str_sub(form, colon + 1, SIZE_MAX);
    bool has_path = cli_is_scp_form(form);
    if (!has_path && (path.len > 0 || !is_host(host)))
        return false;
    tc_err_set(err, TC_E_INVALID, "'%.*s' is no target", TC_STR_ARG(host));
    if (has_path)
        (void)tc_err_hint(err,
                          "a machine behind ssh is ssh:%.*s; the path comes with the file, as in "
                          "ssh:%.*s:%.*s of cp",
                          TC_STR_ARG(host), TC_STR_ARG(host), TC_STR_ARG(path));
    else
        (void)tc_err_hint(err,
                          "a machine behind ssh is ssh:%.*s, with a path ssh:%.*s:/path; " FORMS
                          "; saved names: telechir target list",
                          TC_STR_ARG(host), TC_STR_ARG(host));
    return true;
}

static int no_target(tc_str form, tc_err *err)
{
    if (hint_scp(form, err))
        return err->code;
    /* With a colon it may be anything, a credential too, so it is not repeated. */
    if (tci_str_find_byte(form, ':') < form.len) {
        tc_err_set(err, TC_E_INVALID, "not a target: no such form");
        return tc_err_hint(err, FORMS);
    }
    tc_err_set(err, TC_E_INVALID, "'%.*s' is no target", TC_STR_ARG(form));
    return tc_err_hint(err, FORMS "; saved names: telechir target list");
}

int cli_target_of_form(cli *c, tc_str form, cli_target *ret, tc_err *err)
{
    cli_target t = {.form = form};
    if (tci_str_starts(form, TC_STR("host:"))) {
        t.kind = CLI_TARGET_HOST;
    } else if (is_http(form)) {
        t.kind = CLI_TARGET_HTTP;
        if (tci_str_ends(form, TC_STR("/")))
            t.form = tci_str_sub(form, 0, form.len - 1);
    } else if (tci_str_starts(form, TC_STR("ssh:"))) {
        t.kind = CLI_TARGET_SSH;
    } else if (!tci_str_eq(form, TC_STR("local"))) {
        return no_target(form, err);
    }
    int rc = apply_options(c, &t, err);
    if (rc == 0)
        rc = check_target(c, &t, err);
    if (rc == 0)
        *ret = t;
    return rc;
}

bool cli_target_is_saved(cli *c, tc_str name)
{
    cli_targets saved;
    tc_err ignored; /* whoever needs the target says what is wrong with the file */
    return name.len > 0 && cli_targets_load(c, &saved, &ignored) == 0 &&
           cli_targets_get(&saved, name) != NULL;
}

int cli_target_of_host(cli *c, tc_str text, cli_target *ret, tc_err *err)
{
    bool is_full = tci_str_starts(text, TC_STR("ssh:"));
    if (!is_full && cli_target_is_saved(c, text)) {
        int rc = cli_target_resolve(c, text, ret, err);
        if (rc == 0 && ret->kind != CLI_TARGET_SSH)
            return tc_err_set(err, TC_E_INVALID, "the saved target '%.*s' is '%.*s', not over ssh",
                              TC_STR_ARG(text), TC_STR_ARG(ret->form));
        return rc;
    }
    tc_str form = text;
    int rc = is_full ? 0 : tci_arena_printf(&c->arena, &form, err, "ssh:%.*s", TC_STR_ARG(text));
    return rc == 0 ? cli_target_of_form(c, form, ret, err) : rc;
}

int cli_target_resolve(cli *c, tc_str text, cli_target *ret, tc_err *err)
{
    cli_targets saved;
    if (tci_str_eq(text, TC_STR("local")) || tci_str_find_byte(text, ':') < text.len)
        return cli_target_of_form(c, text, ret, err);
    int rc = cli_targets_load(c, &saved, err);
    if (rc < 0)
        return rc;
    const tci_json *found = cli_targets_get(&saved, text);
    if (found == NULL)
        return cli_target_of_form(c, text, ret, err);
    cli_target t;
    rc = cli_target_of_json(found, &t, err);
    if (rc == 0)
        rc = apply_options(c, &t, err);
    if (rc == 0)
        rc = check_target(c, &t, err);
    if (rc == 0)
        *ret = t;
    return rc;
}
