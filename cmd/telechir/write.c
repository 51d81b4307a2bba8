/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir write`: a file from standard input, a local file or an argument, whole or not at all. */
#include "cli.h"

#include "plat/file.h"

static int read_mode(cli *c, tc_write_options *o)
{
    static const struct {
        const char *name;
        tc_write_mode mode;
    } modes[] = {
        {"create", TC_WRITE_CREATE}, {"replace", TC_WRITE_REPLACE}, {"append", TC_WRITE_APPEND}};
    size_t nmodes = 0;
    *o = (tc_write_options){.size = sizeof *o};
    for (size_t i = 0; i < TCI_ARRAY_LEN(modes); i++)
        if (cli_has(c, modes[i].name)) {
            o->mode = modes[i].mode;
            nmodes++;
        }
    if (nmodes > 1)
        return tc_err_set(&c->err, TC_E_INVALID,
                          "--create, --replace and --append exclude each other");
    if (cli_has(c, "text") && cli_has(c, "file"))
        return tc_err_set(&c->err, TC_E_INVALID, "--text and --file exclude each other");
    if (cli_has(c, "executable-bit"))
        o->executable = TC_YES;
    return 0;
}

static int from_file(void *user, void *buf, size_t cap, size_t *ret_len, tc_err *err)
{
    tci_file *f = user;
    return tci_file_read(*f, buf, cap, ret_len, err);
}

static int write_it(cli *c, tc_env *env, tc_str path, const tc_write_options *o, tc_transfer *t)
{
    tc_call call = cli_call(c);
    const char *text = cli_value(c, "text"), *file = cli_value(c, "file");
    if (text != NULL)
        return tc_env_write(env, &call, path, tci_str(text), o, t, &c->err);
    if (file != NULL && strcmp(file, "-") != 0) {
        TCI_FILE_AUTO f = TCI_FILE_NONE;
        int rc = tci_file_openat(TCI_FILE_CWD, tci_str(file), TCI_OPEN_READ, 0, &f, &c->err);
        return rc < 0 ? rc : tc_env_write_stream(env, &call, path, o, from_file, &f, t, &c->err);
    }
    cli_feed feed = {.ctx = c->ctx};
    int rc = cli_input_open(c, &feed.in, &c->err);
    return rc < 0 ? rc
                  : tc_env_write_stream(env, &call, path, o, cli_input_source, &feed, t, &c->err);
}

int cmd_write(cli *c)
{
    tc_write_options o;
    tc_transfer t;
    if (!cli_want_args(c, 1, 1) || read_mode(c, &o) < 0)
        return cli_fail(c);
    cli_place p;
    if (cli_there(c, c->args[0], &p) < 0)
        return cli_fail(c);
    if (write_it(c, p.env, tci_str(p.path), &o, &t) < 0) {
        (void)cli_blame(c, "write", c->args[0], NULL);
        return cli_fail(c);
    }
    if (!c->is_json) {
        cli_detail(c, "wrote %llu bytes to '%s'", (unsigned long long)t.nbytes, c->args[0]);
        return CLI_OK;
    }
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "path", p.absolute);
    cli_json_u64(&b, &first, "bytes", t.nbytes);
    cli_json_str(&b, &first, "sha256", tci_str(t.sha256));
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine ? CLI_OK : cli_fail(c);
}
