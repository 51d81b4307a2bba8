/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir mkdir`: making folders. */
#include "cli.h"

static int say_made(cli *c, tc_str path)
{
    tci_buf b;
    bool first = true;
    if (!c->is_json)
        return 0;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "path", path);
    cli_json_str(&b, &first, "kind", TC_STR("directory"));
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine ? 0 : c->err.code;
}

int cmd_mkdir(cli *c)
{
    bool with_parents = cli_has(c, "parents");
    int status = CLI_OK;
    if (!cli_want_args(c, 1, SIZE_MAX))
        return cli_fail(c);
    for (size_t i = 0; i < c->nargs; i++) {
        cli_place p;
        tc_call call = cli_call(c);
        if (cli_there(c, c->args[i], &p) < 0)
            return cli_fail(c);
        int rc = tc_env_mkdir(p.env, &call, tci_str(p.path), with_parents, with_parents, &c->err);
        if (rc == 0)
            rc = say_made(c, p.absolute);
        if (rc == 0)
            continue;
        (void)cli_blame(c, "make", c->args[i], NULL);
        if (rc == TC_E_NOT_FOUND && c->err.hint[0] == '\0')
            (void)tc_err_hint(&c->err, "pass -p to make the folders above it too");
        status = cli_fail(c);
        if (cli_caught() != 0)
            break;
    }
    return status;
}
