/* SPDX-License-Identifier: Apache-2.0
 *
 * A listener for a daemon that dials in. Leaves the link to the client's connections. Set up and ended
 * from the main thread, all else on the runtime's loop. Invariant: nobody is upgraded without the
 * credential, and it never shows. */
#include "gate.h"

#include "base/secret.h"
#include "client/connections/connections.h"
#include "net/httpd.h"
#include "net/tcp.h"
#include "plat/file.h"

#include <stdio.h>

enum { CREDENTIAL_MAX = 8192, URL_MAX = 64, CONNECTIONS_MAX = 16, BACKLOG = 16 };

struct gate {
    tc_runtime *rt;
    tc_connections *connections;
    tc_str device_id; /* in the command's arena */
    tci_secret authorization;
    char url[URL_MAX];
    uint16_t port;
    atomic_uint nrefused;
    /* loop */
    tci_httpd *httpd;
    tci_tcp_listener *listener;
    int code;
    tc_err *err;
};

/* ---- requests: loop ---- */

static void answer(tci_httpd_req *req, unsigned status)
{
    tc_err err;
    if (tci_httpd_respond(req, status, NULL, 0, TC_STR(""), &err) < 0)
        return; /* the request is done all the same */
}

static void on_head(tci_httpd_req *req)
{
    gate *g = tci_httpd_user(tci_httpd_of(req));
    const tci_http_head *head = tci_httpd_head(req);
    tc_str value = {0};
    size_t count = 0;
    tc_err err;
    if (!tci_http_head_get(head, TC_STR("authorization"), &value, &count) || count != 1 ||
        !tci_secret_eq(&g->authorization, value)) {
        atomic_fetch_add(&g->nrefused, 1);
        answer(req, 401);
        return;
    }
    if (!tci_str_eq(head->target, TC_STR("/"))) {
        answer(req, 404);
        return;
    }
    if (tci_connections_upgrade(g->connections, req, g->device_id, NULL, NULL, &err) < 0)
        return; /* it was answered */
}

static const tci_httpd_handler handler = {.on_head = on_head};

static void on_accept(void *user, tci_stream *stream, const tci_addr *peer)
{
    TCI_UNUSED(peer);
    const gate *g = user;
    tci_httpd_accept_own(g->httpd, stream);
}

static void open_on_loop(void *arg)
{
    gate *g = arg;
    tci_loop *loop = tci_runtime_loop(g->rt);
    tci_addr at;
    tci_httpd_options o = {.handler = &handler, .user = g, .max_connections = CONNECTIONS_MAX};
    g->code = tci_addr_parse(TC_STR("127.0.0.1:0"), &at, g->err);
    at.port = g->port;
    if (g->code == 0)
        g->code = tci_httpd_new(loop, &o, &g->httpd, g->err);
    if (g->code == 0)
        g->code = tci_tcp_listener_open(loop, &at, BACKLOG, on_accept, g, &g->listener, g->err);
    if (g->code == 0)
        g->port = tci_tcp_listener_addr(g->listener).port;
}

static void close_on_loop(void *arg)
{
    gate *g = arg;
    tci_tcp_listener_close(g->listener);
    tci_httpd_free(g->httpd);
}

/* ---- the main thread ---- */

static int take_credential(gate *g, tc_str credential, tc_err *err)
{
    bool is_good = credential.len > 0 && credential.len <= CREDENTIAL_MAX;
    for (size_t i = 0; is_good && i < credential.len; i++)
        is_good = credential.ptr[i] > ' ' && credential.ptr[i] < 0x7f;
    if (!is_good)
        return tc_err_set(err, TC_E_INVALID,
                          "a credential has 1 to %d bytes, none of them blank or control",
                          CREDENTIAL_MAX);
    char value[CREDENTIAL_MAX + 8];
    memcpy(value, "Bearer ", 7);
    memcpy(value + 7, credential.ptr, credential.len);
    int rc = tci_secret_init(&g->authorization, tci_str_of(value, 7 + credential.len), err);
    tci_mem_wipe(value, sizeof value);
    return rc;
}

static int read_credential(gate *g, tc_str path, tc_err *err)
{
    char *bytes = NULL;
    size_t len = 0;
    int rc = tci_file_read_whole(TCI_FILE_CWD, path, CREDENTIAL_MAX + 2, &bytes, &len, err);
    if (rc < 0)
        return tc_err_wrap(err, "cannot read the credential file");
    tc_str credential = tci_str_of(bytes, len);
    if (credential.len > 0 && credential.ptr[credential.len - 1] == '\n')
        credential.len--;
    if (credential.len < len && credential.len > 0 && credential.ptr[credential.len - 1] == '\r')
        credential.len--;
    rc = take_credential(g, credential, err);
    tci_mem_wipe(bytes, len);
    tci_free(bytes);
    return rc;
}

int gate_open(cli *c, uint16_t port, tc_str device_id, tc_str credential_file, gate **ret_gate)
{
    tc_runtime *rt = cli_runtime(c);
    if (rt == NULL)
        return c->err.code;
    gate *g = tci_new(gate);
    if (g == NULL)
        return tci_err_no_memory(&c->err);
    g->rt = rt;
    g->port = port;
    g->device_id = device_id;
    g->err = &c->err;
    int rc = read_credential(g, credential_file, &c->err);
    if (rc == 0)
        rc = tc_connections_open(rt, NULL, &g->connections, &c->err);
    if (rc == 0) {
        if (!tci_runtime_run(rt, open_on_loop, g))
            g->code = tc_err_set(&c->err, TC_E_CLOSED, "the runtime is closed");
        rc = g->code;
    }
    if (rc < 0) {
        gate_close(g);
        return rc;
    }
    snprintf(g->url, sizeof g->url, "ws://127.0.0.1:%u", (unsigned)g->port);
    *ret_gate = g;
    return 0;
}

void gate_close(gate *g)
{
    if (g == NULL)
        return;
    (void)tci_runtime_run(g->rt, close_on_loop, g); /* nothing is closed before us */
    tc_connections_close(g->connections);
    tci_secret_done(&g->authorization);
    tci_free(g);
}

tc_connections *gate_connections(const gate *g)
{
    return g->connections;
}

const char *gate_url(const gate *g)
{
    return g->url;
}

unsigned gate_nrefused(gate *g)
{
    return atomic_load(&g->nrefused);
}
