/* SPDX-License-Identifier: Apache-2.0
 *
 * What the text of a target means. Leaves saving to target_store.c and connecting to env.c. The main
 * thread. Invariant: no credential is ever taken from the text. */
#include "target.h"

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

static int not_yet(tc_str form, tc_err *err)
{
    bool is_ssh = tci_str_starts(form, TC_STR("ssh:"));
    tc_err_set(err, TC_E_INVALID, "'%s' targets are not available in this version",
               is_ssh ? "ssh:" : "host:");
    return is_ssh
               ? tc_err_hint(err, "run telechird there with TELECHIRD_TRANSPORT=http, forward "
                                  "its port (ssh -L), and use http://127.0.0.1:PORT")
               : tc_err_hint(err, "run telechird there with TELECHIRD_TRANSPORT=http and use its "
                                  "https:// address");
}

static bool is_http(tc_str s)
{
    return tci_str_starts(s, TC_STR("http://")) || tci_str_starts(s, TC_STR("https://"));
}

static int apply_options(cli *c, cli_target *t, tc_err *err)
{
    tc_str device_id = tci_str(cli_value(c, "device-id"));
    if (device_id.len > 0)
        t->device_id = device_id;
    int rc = absolute(c, "credential-file", &t->credential_file, err);
    if (rc == 0)
        rc = absolute(c, "ca-file", &t->ca_file, err);
    if (rc == 0)
        rc = absolute(c, "executable", &t->executable, err);
    t->is_insecure = t->is_insecure || cli_has(c, "insecure");
    t->is_plaintext_allowed = t->is_plaintext_allowed || cli_has(c, "allow-plaintext-private-link");
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

static int check_target(const cli_target *t, tc_err *err)
{
    if (t->kind == CLI_TARGET_LOCAL) {
        if (t->credential_file.len == 0 && t->ca_file.len == 0 && !t->is_insecure)
            return 0;
        return tc_err_set(err, TC_E_INVALID, "'local' takes no credential and no certificate");
    }
    int rc = check_url(t->form, err);
    if (rc < 0)
        return rc;
    if (t->device_id.len == 0 || t->credential_file.len == 0) {
        tc_err_set(err, TC_E_INVALID, "'%.*s' needs %s", TC_STR_ARG(t->form),
                   t->device_id.len == 0 ? "--device-id ID" : "--credential-file FILE");
        return tc_err_hint(err, "its operator gives you the device id and the credential");
    }
    if (t->executable.len > 0)
        return tc_err_set(err, TC_E_INVALID, "--executable is for 'local' only");
    tc_http_options http = cli_target_http(t);
    return tc_http_options_check(&http, err);
}

int cli_target_of_form(cli *c, tc_str form, cli_target *ret, tc_err *err)
{
    cli_target t = {.form = form};
    if (tci_str_starts(form, TC_STR("ssh:")) || tci_str_starts(form, TC_STR("host:")))
        return not_yet(form, err);
    if (is_http(form)) {
        t.kind = CLI_TARGET_HTTP;
        if (tci_str_ends(form, TC_STR("/")))
            t.form = tci_str_sub(form, 0, form.len - 1);
    } else if (!tci_str_eq(form, TC_STR("local"))) {
        /* It may be anything, a credential too, so it is not repeated. */
        if (tci_str_find_byte(form, ':') < form.len) {
            tc_err_set(err, TC_E_INVALID, "not a target: no such form");
            return tc_err_hint(err, "forms: local, http://HOST:PORT, https://HOST[:PORT]");
        }
        tc_err_set(err, TC_E_INVALID, "'%.*s' is no target", TC_STR_ARG(form));
        return tc_err_hint(err, "forms: local, http://HOST:PORT, https://HOST[:PORT]; saved names: "
                                "telechir target list");
    }
    int rc = apply_options(c, &t, err);
    if (rc == 0)
        rc = check_target(&t, err);
    if (rc == 0)
        *ret = t;
    return rc;
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
        rc = check_target(&t, err);
    if (rc == 0)
        *ret = t;
    return rc;
}
