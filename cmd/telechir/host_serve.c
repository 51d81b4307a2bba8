/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir host serve`: the Host until somebody ends it. The Host itself is the library's. The main thread. */
#include "host.h"

#include "host/host.h"
#include "plat/call.h"
#include "plat/system.h"

static void on_trouble(void *user, const tc_err *err)
{
    const cli *c = user;
    cli_warn(c, "%s", err->msg);
}

static tc_str option(const cli *c, const char *name, const char *dflt)
{
    const char *value = cli_value(c, name);
    return tci_str(value != NULL ? value : dflt);
}

static int data_folder(cli *c, tc_str *ret)
{
    tc_str base;
    const char *named = cli_value(c, "data");
    if (named != NULL) {
        *ret = tci_str(named);
        return 0;
    }
    int rc = cli_our_folder(c, CLI_FOLDER_DATA, &base, NULL, &c->err);
    if (rc == 0)
        rc = cli_make_folder(base, &c->err);
    return rc == 0 ? tci_arena_printf(&c->arena, ret, &c->err, "%.*s/host", TC_STR_ARG(base)) : rc;
}

/* Where it is, and how to get in. */
static bool announce(cli *c, const tci_host *host)
{
    tc_str url = tci_host_url(host), link = tci_host_sign_in_url(host);
    if (!c->is_json) {
        bool is_fine = cli_outf(c, "Host: %.*s\n", TC_STR_ARG(url));
        if (is_fine && link.len > 0)
            is_fine = cli_outf(c, "Sign in, once, within the hour: %.*s\n", TC_STR_ARG(link));
        return is_fine;
    }
    tci_buf j;
    bool first = true;
    tci_buf_init(&j, TCI_BUF_MAX);
    tci_buf_append_byte(&j, '{');
    cli_json_str(&j, &first, "url", url);
    if (link.len > 0)
        cli_json_str(&j, &first, "sign_in_url", link);
    tci_buf_append_byte(&j, '}');
    bool is_fine = cli_out_json(c, &j);
    tci_buf_done(&j);
    return is_fine;
}

static void wait_for_signal(cli *c)
{
    tc_err ended;
    tci_wake *wake = tci_ctx_wake(c->ctx);
    for (;;) {
        unsigned seen = tci_wake_count(wake);
        if (tci_ctx_check(c->ctx, &ended) < 0)
            return;
        tci_wake_wait(wake, seen, 0);
    }
}

int host_serve(cli *c)
{
    tci_host *host = NULL;
    tci_host_options options = {.bind = option(c, "bind", "127.0.0.1:8787"),
                                .public_url = option(c, "public-url", ""),
                                .cert_file = option(c, "tls-cert", ""),
                                .key_file = option(c, "tls-key", ""),
                                .is_behind_proxy = cli_has(c, "behind-proxy"),
                                .takes_no_devices = cli_has(c, "no-pairing"),
                                .wants_link = cli_has(c, "sign-in-link"),
                                .on_trouble = on_trouble,
                                .user = c};
    /* It holds tokens, and links and devices of others. */
    tci_system_harden_process();
    options.max_files = tci_system_more_files();
    if (data_folder(c, &options.data) < 0 || cli_runtime(c) == NULL)
        return cli_fail(c);
    if (tci_host_open(c->rt, &options, &host, &c->err) < 0)
        return cli_fail(c);
    bool is_fine = announce(c, host);
    if (is_fine)
        wait_for_signal(c);
    tci_host_close(host);
    return is_fine ? CLI_OK : cli_fail(c);
}
