/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir cat`: the bytes of files, as they are. */
#include "cli.h"

enum { JSON_BYTES_MAX = 64 * 1024 * 1024 };

static int to_stdout(void *user, const void *bytes, size_t len, tc_err *err)
{
    TCI_UNUSED(user);
    return cli_write_stdout(tci_str_of(bytes, len), err);
}

static int cat_json(cli *c, const cli_place *p)
{
    tc_str path = tci_str(p->path);
    tc_call call = cli_call(c);
    tc_str bytes;
    tci_buf b;
    bool first = true;
    int rc = tc_env_read(p->env, &call, path, NULL, JSON_BYTES_MAX, &bytes, &c->err);
    if (rc < 0)
        return rc;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "path", p->absolute);
    cli_json_u64(&b, &first, "size", bytes.len);
    cli_json_bytes(&b, &first, "data", bytes);
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine ? 0 : c->err.code;
}

int cmd_cat(cli *c)
{
    if (!cli_want_args(c, 1, SIZE_MAX))
        return cli_fail(c);
    for (size_t i = 0; i < c->nargs; i++) {
        cli_place p;
        tc_call call = cli_call(c);
        tc_result_clear(c->result);
        if (cli_there(c, c->args[i], &p) < 0)
            return cli_fail(c);
        int rc = c->is_json ? cat_json(c, &p)
                            : tc_env_read_stream(p.env, &call, tci_str(p.path), NULL, to_stdout,
                                                 NULL, NULL, &c->err);
        if (rc < 0) {
            (void)cli_blame(c, "read", c->args[i], "it changed meanwhile, or is no file");
            return cli_fail(c);
        }
    }
    return CLI_OK;
}
