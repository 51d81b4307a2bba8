/* SPDX-License-Identifier: Apache-2.0
 *
 * websocket_envd: environments on a daemon that dials in to this program. Only uses a connection that
 * the program accepted: listens, starts, extends and stops nothing. The caller's thread. Invariant:
 * nothing is looked for before ready, and closing an adapter leaves the connection as it is. */
#include "env/env_int.h"

#include "client/connections/connections.h"

enum { CONNECTION_MS = 30000 };

typedef struct websocket_own {
    tc_connections *connections; /* a reference, or NULL */
    int64_t timeout_ms;
} websocket_own;

static const tci_env_vtable websocket_vtable = TCI_EIP_ENV_VTABLE("websocket_envd");

static void websocket_forget(tci_eip_env *e)
{
    websocket_own *own = e->own;
    tci_connections_release(own->connections);
    tci_free(own);
}

static int websocket_connect(tci_eip_env *e, tc_ctx *ctx, tc_device **ret_device, tc_err *err)
{
    websocket_own *own = e->own;
    if (own->connections == NULL) {
        tc_err_set(err, TC_E_NOT_READY, "'websocket_envd' has no connections to look for '%.*s' in",
                   TC_STR_ARG(e->base.device_id));
        return tc_err_hint(err, "give it those that the program's listener attaches to");
    }
    return tc_connections_wait(own->connections, ctx, e->base.device_id, own->timeout_ms,
                               ret_device, err);
}

static int check_options(tc_runtime *rt, const tc_websocket_options *o, tc_err *err)
{
    int rc = tci_env_options_check(o, sizeof *o, err);
    if (rc == 0 && o != NULL && o->connections != NULL &&
        tci_connections_runtime(o->connections) != rt)
        rc = tc_err_set(err, TC_E_INVALID, "the connections belong to another runtime");
    return rc;
}

int tc_env_create_websocket(tc_runtime *rt, const tc_env_options *options,
                            const tc_websocket_options *websocket, tc_env **ret_env, tc_err *err)
{
    tc_websocket_options none = {.size = sizeof none};
    const tc_websocket_options *o = websocket != NULL ? websocket : &none;
    tci_eip_env *e = NULL;
    int rc = check_options(rt, websocket, err);
    if (rc == 0)
        rc = tci_eip_env_new(rt, &websocket_vtable, options, true, &e, err);
    if (rc < 0)
        return rc;
    websocket_own *own = tci_new(websocket_own);
    if (own == NULL) {
        tci_eip_free(&e->base);
        return tci_err_no_memory(err);
    }
    if (o->connections != NULL)
        own->connections = tci_connections_retain(o->connections);
    own->timeout_ms = o->connection_timeout_ms > 0 ? o->connection_timeout_ms : CONNECTION_MS;
    e->own = own;
    e->forget = websocket_forget;
    e->connect = websocket_connect;
    *ret_env = &e->base;
    return 0;
}
