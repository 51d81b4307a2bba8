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

static int cat_json(cli *c, tc_env *env, const char *path)
{
    tc_call call = cli_call(c);
    tc_str bytes;
    tci_buf b;
    bool first = true;
    int rc = tc_env_read(env, &call, tci_str(path), NULL, JSON_BYTES_MAX, &bytes, &c->err);
    if (rc < 0)
        return rc;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "path", tci_str(path));
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
    tc_env *env = cli_env(c, NULL);
    if (env == NULL)
        return cli_fail(c);
    for (size_t i = 0; i < c->nargs; i++) {
        tc_call call = cli_call(c);
        tc_result_clear(c->result);
        int rc = c->is_json ? cat_json(c, env, c->args[i])
                            : tc_env_read_stream(env, &call, tci_str(c->args[i]), NULL, to_stdout,
                                                 NULL, NULL, &c->err);
        if (rc < 0) {
            (void)tc_err_wrap(&c->err, "cannot read '%s'", c->args[i]);
            return cli_fail(c);
        }
    }
    return CLI_OK;
}
