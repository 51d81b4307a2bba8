/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir target`: saved targets. Leaves the look at one to target_check.c. */
#include "target.h"

enum { NAME_MAX_BYTES = 64 };

static int answer(cli *c, tci_buf *b)
{
    bool is_fine = cli_out_json(c, b);
    tci_buf_done(b);
    return is_fine ? CLI_OK : cli_fail(c);
}

static void put_target(tci_buf *b, tc_str name, const cli_target *t)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    cli_json_str(b, &first, "name", name);
    cli_target_put(b, &first, t);
}

static void put_name_only(tci_buf *b, tc_str name)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    cli_json_str(b, &first, "name", name);
}

/* ---- add, remove ---- */

static int check_name(cli *c, tc_str name)
{
    static const char *const taken[] = {"local", "ssh", "host", "http", "https"};
    bool is_fine =
        name.len > 0 && name.len <= NAME_MAX_BYTES && name.ptr[0] != '.' && name.ptr[0] != '-';
    for (size_t i = 0; i < name.len; i++) {
        char ch = name.ptr[i];
        is_fine = is_fine && ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                              (ch >= '0' && ch <= '9') || ch == '.' || ch == '_' || ch == '-');
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(taken); i++)
        is_fine = is_fine && !tci_str_eq(name, tci_str(taken[i]));
    if (is_fine)
        return 0;
    tc_err_set(&c->err, TC_E_INVALID, "'%.*s' cannot name a target", TC_STR_ARG(name));
    return tc_err_hint(&c->err, "1 to 64 letters, digits, '.', '_' and '-'; not a form's word");
}

static int say_target(cli *c, const char *what, tc_str name, const cli_target *t)
{
    if (!c->is_json) {
        cli_say(c, "%s '%.*s'", what, TC_STR_ARG(name));
        return CLI_OK;
    }
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (t != NULL)
        put_target(&b, name, t);
    else
        put_name_only(&b, name);
    tci_buf_append_byte(&b, '}');
    return answer(c, &b);
}

static int target_add(cli *c)
{
    cli_target t;
    if (c->nargs != 3)
        return cli_usage(c, "target add takes a name and a form");
    tc_str name = tci_str(c->args[1]);
    int rc = check_name(c, name);
    if (rc == 0)
        rc = cli_target_of_form(c, tci_str(c->args[2]), &t, &c->err);
    if (rc == 0)
        rc = cli_targets_change(c, name, &t, cli_has(c, "replace"), &c->err);
    return rc == 0 ? say_target(c, "saved", name, &t) : cli_fail(c);
}

static int target_remove(cli *c)
{
    if (c->nargs != 2)
        return cli_usage(c, "target remove takes a name");
    tc_str name = tci_str(c->args[1]);
    return cli_targets_change(c, name, NULL, false, &c->err) == 0
               ? say_target(c, "removed", name, NULL)
               : cli_fail(c);
}

/* ---- list, show ---- */

static int list_one(cli *c, const tci_json_member *m)
{
    cli_target t;
    if (cli_target_of_json(&m->value, &t, &c->err) < 0)
        return tc_err_wrap(&c->err, "target '%.*s'", TC_STR_ARG(m->key));
    if (!c->is_json)
        return cli_outf(c, "%-16.*s %.*s%s%.*s%s%.*s\n", TC_STR_ARG(m->key), TC_STR_ARG(t.form),
                        t.device_id.len > 0 ? "  device " : "", TC_STR_ARG(t.device_id),
                        t.host.len > 0 ? "  at " : "", TC_STR_ARG(t.host))
                   ? 0
                   : c->err.code;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    put_target(&b, m->key, &t);
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine ? 0 : c->err.code;
}

static int target_list(cli *c)
{
    cli_targets saved;
    if (c->nargs != 1)
        return cli_usage(c, "target list takes nothing more");
    int rc = cli_targets_load(c, &saved, &c->err);
    for (size_t i = 0; rc == 0 && i < saved.count; i++)
        rc = list_one(c, &saved.members[i]);
    if (rc == 0 && saved.count == 0)
        cli_say(c, "no saved targets; add one with: telechir target add NAME FORM");
    return rc == 0 ? CLI_OK : cli_fail(c);
}

static int target_show(cli *c)
{
    cli_targets saved;
    cli_target t;
    if (c->nargs != 2)
        return cli_usage(c, "target show takes a name");
    tc_str name = tci_str(c->args[1]);
    if (cli_targets_load(c, &saved, &c->err) < 0)
        return cli_fail(c);
    const tci_json *v = cli_targets_get(&saved, name);
    if (v == NULL) {
        (void)tc_err_set(&c->err, TC_E_NOT_FOUND, "there is no target '%.*s'", TC_STR_ARG(name));
        (void)tc_err_hint(&c->err, "telechir target list shows those there are");
        return cli_fail(c);
    }
    if (cli_target_of_json(v, &t, &c->err) < 0)
        return cli_fail(c);
    if (c->is_json)
        return say_target(c, "", name, &t);
    const struct {
        const char *what;
        tc_str text;
    } lines[] = {
        {"form", t.form},
        {"Host", t.host},
        {"device id", t.device_id},
        {"credential file", t.credential_file},
        {"CA file", t.ca_file},
        {"executable", t.executable},
        {"known hosts", t.known_hosts},
        {"host key alias", t.host_key_alias},
        {"identity", t.identity},
        {"ssh configuration", t.ssh_config},
        {"login shell", t.is_login_shell ? TC_STR("yes") : TC_STR("")},
        {"certificate check", t.is_insecure ? TC_STR("off") : TC_STR("")},
        {"plaintext private link", t.is_plaintext_allowed ? TC_STR("allowed") : TC_STR("")}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(lines); i++)
        if (lines[i].text.len > 0 &&
            !cli_outf(c, "%s: %.*s\n", lines[i].what, TC_STR_ARG(lines[i].text)))
            return cli_fail(c);
    return CLI_OK;
}

int cmd_target(cli *c)
{
    static const struct {
        const char *name;
        int (*run)(cli *c);
    } words[] = {{"add", target_add},       {"list", target_list},     {"ls", target_list},
                 {"show", target_show},     {"remove", target_remove}, {"rm", target_remove},
                 {"check", cli_target_look}};
    if (c->nargs == 0)
        return cli_usage(c, "target: add, list, show, remove or check?");
    for (size_t i = 0; i < TCI_ARRAY_LEN(words); i++)
        if (strcmp(words[i].name, c->args[0]) == 0)
            return words[i].run(c);
    return cli_usage(c, "target has no '%s'", c->args[0]);
}
