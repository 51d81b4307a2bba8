/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir websocket-envd`: wait for a daemon to dial in, write a file through it and read it back. The
 * listener is this command's; the daemon is neither started nor stopped. */
#include "envd_visit.h"
#include "gate.h"

enum { WAIT_MS = 60000, PORT_MAX = 65535 };

static int make(cli *c, void *arg, const tc_env_options *options, tc_env **ret_env)
{
    gate *g = arg;
    tc_websocket_options o = {
        .size = sizeof o, .connections = gate_connections(g), .connection_timeout_ms = WAIT_MS};
    return tc_env_create_websocket(cli_runtime(c), options, &o, ret_env, &c->err);
}

static int visit(cli *c, gate *g, tc_str device_id)
{
    envd_visit v = {.make = make,
                    .arg = g,
                    .provider = TC_STR("websocket_envd"),
                    .device_id = device_id,
                    .at_name = "url",
                    .at = tci_str(gate_url(g))};
    tc_device *device = NULL;
    int rc = tc_connections_wait(gate_connections(g), c->ctx, device_id, 0, &device, &c->err);
    if (rc == TC_E_TIMEOUT) {
        cli_say(c, "listening at %s; waiting up to %d s for '%.*s' to dial in", gate_url(g),
                WAIT_MS / 1000, TC_STR_ARG(device_id));
        rc = tc_connections_wait(gate_connections(g), c->ctx, device_id, WAIT_MS, &device, &c->err);
    }
    tc_device_close(device); /* the connection stays */
    if (rc == TC_E_TIMEOUT) {
        tc_err_set(&c->err, TC_E_CONNECT, "'%.*s' did not dial in within %d s",
                   TC_STR_ARG(device_id), WAIT_MS / 1000);
        return gate_nrefused(g) > 0
                   ? tc_err_hint(&c->err, "somebody came with another credential: is "
                                          "A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE the same file?")
                   : tc_err_hint(&c->err,
                                 "start it with A13N_ENVD_TRANSPORT=reverse_websocket and "
                                 "A13N_ENVD_REVERSE_WS_URL=%s",
                                 gate_url(g));
    }
    return rc == 0 ? envd_visit_twice(c, &v) : rc;
}

int cmd_websocket_envd(cli *c)
{
    uint64_t port = 0;
    gate *g = NULL;
    const char *device_id = cli_value(c, "device-id"), *file = cli_value(c, "credential-file");
    if (!cli_want_args(c, 0, 0))
        return cli_fail(c);
    if (cli_value(c, "port") == NULL)
        return cli_usage(c, "--port N is missing");
    if (!cli_number(c, "port", 0, 0, &port))
        return cli_fail(c);
    if (port > PORT_MAX)
        return cli_usage(c, "--port takes a number up to %d", PORT_MAX);
    if (device_id == NULL || file == NULL)
        return cli_usage(c, "--%s is missing",
                         device_id == NULL ? "device-id ID" : "credential-file FILE");
    int rc = gate_open(c, (uint16_t)port, tci_str(device_id), tci_str(file), &g);
    if (rc == 0)
        rc = visit(c, g, tci_str(device_id));
    int status = rc == 0 ? CLI_OK : cli_fail(c);
    gate_close(g);
    return status;
}
