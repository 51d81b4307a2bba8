/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir http-envd`: a file written through a daemon that runs behind HTTP(S), and read back. */
#include "envd_visit.h"
#include "target.h"

static int make(cli *c, void *arg, const tc_env_options *options, tc_env **ret_env)
{
    const cli_target *t = arg;
    tc_http_options http = cli_target_http(t);
    tc_runtime *rt = cli_runtime(c);
    if (rt == NULL)
        return c->err.code;
    return tc_env_create_http(rt, options, &http, ret_env, &c->err);
}

int cmd_http_envd(cli *c)
{
    cli_target t;
    const char *endpoint = cli_value(c, "endpoint");
    if (!cli_want_args(c, 0, 0))
        return cli_fail(c);
    if (endpoint == NULL)
        return cli_usage(c, "--endpoint URL is missing");
    if (!tci_str_starts(tci_str(endpoint), TC_STR("http")))
        return cli_usage(c, "--endpoint takes http://HOST:PORT or https://HOST[:PORT]");
    if (cli_target_of_form(c, tci_str(endpoint), &t, &c->err) < 0)
        return cli_fail(c);
    envd_visit v = {.make = make,
                    .arg = &t,
                    .provider = TC_STR("http_envd"),
                    .device_id = t.device_id,
                    .at_name = "endpoint",
                    .at = t.form};
    return envd_visit_twice(c, &v) == 0 ? CLI_OK : cli_fail(c);
}
