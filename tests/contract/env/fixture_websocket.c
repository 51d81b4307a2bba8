/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a daemon that dials in, and a listener for it. */
#include "fixture_websocket.h"

#include "client/connections/connections.h"
#include "net/httpd.h"
#include "net/tcp.h"
#include "plat/clock.h"
#include "plat/file.h"

#define CREDENTIAL "contract-credential"
#define DEVICE TC_STR("env-contract")

enum { START_MS = 60000, LOOK_MS = 5 };

typedef struct host {
    tc_runtime *rt;
    tc_connections *connections;
    tci_httpd *httpd;
    tci_tcp_listener *listener;
    uint16_t port;
    int code;
    tc_err err;
} host;

static void on_head(tci_httpd_req *req)
{
    const host *h = tci_httpd_user(tci_httpd_of(req));
    tc_str value = {0};
    tc_err err;
    if (!tci_http_head_get(tci_httpd_head(req), TC_STR("authorization"), &value, NULL) ||
        !tci_str_eq(value, TC_STR("Bearer " CREDENTIAL))) {
        (void)!tci_httpd_respond(req, 401, NULL, 0, TC_STR(""), &err);
        return;
    }
    (void)!tci_connections_upgrade(h->connections, req, DEVICE, NULL, NULL, &err);
}

static const tci_httpd_handler handler = {.on_head = on_head};

static void on_accept(void *user, tci_stream *stream, const tci_addr *peer)
{
    const host *h = user;
    TCI_UNUSED(peer);
    tci_httpd_accept_own(h->httpd, stream);
}

static void listen_on_loop(void *arg)
{
    host *h = arg;
    tci_addr at;
    tci_httpd_options o = {.handler = &handler, .user = h};
    tci_loop *loop = tci_runtime_loop(h->rt);
    h->code = tci_addr_parse(TC_STR("127.0.0.1:0"), &at, &h->err);
    if (h->code == 0)
        h->code = tci_httpd_new(loop, &o, &h->httpd, &h->err);
    if (h->code == 0)
        h->code = tci_tcp_listener_open(loop, &at, 0, on_accept, h, &h->listener, &h->err);
    if (h->code == 0)
        h->port = tci_tcp_listener_addr(h->listener).port;
}

static void close_on_loop(void *arg)
{
    host *h = arg;
    tci_tcp_listener_close(h->listener);
    tci_httpd_free(h->httpd);
}

static void start_daemon(fixture *f, const host *h)
{
    char vars[8][2300];
    const char *envp[16];
    size_t n = 0;
    snprintf(vars[n++], sizeof vars[0], "A13N_ENVD_RUNTIME_DIR=%s/run", f->root);
    snprintf(vars[n++], sizeof vars[0], "A13N_ENVD_DEVICE_ID=env-contract");
    snprintf(vars[n++], sizeof vars[0], "A13N_ENVD_DEFAULT_WORKING_DIRECTORY=%s", f->root);
    snprintf(vars[n++], sizeof vars[0], "A13N_ENVD_TRANSPORT=reverse_websocket");
    snprintf(vars[n++], sizeof vars[0], "A13N_ENVD_REVERSE_WS_URL=ws://127.0.0.1:%u",
             (unsigned)h->port);
    snprintf(vars[n++], sizeof vars[0], "A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE=%s",
             f->credential_file);
    snprintf(vars[n++], sizeof vars[0], "A13N_ENVD_FULL_CONTROL=true");
    snprintf(vars[n++], sizeof vars[0], "HOME=%s", f->root);
    for (size_t i = 0; i < n; i++)
        envp[i] = vars[i];
    envp[n++] = "PATH=/usr/local/bin:/usr/bin:/bin";
    envp[n] = NULL;
    const char *argv[] = {f->daemon, NULL};
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    opts.program = f->daemon;
    opts.argv = argv;
    opts.envp = envp;
    opts.flags = TCI_SPAWN_DIE_WITH_PARENT;
    assert_ok(f, tci_spawn(&opts, &f->child, &f->err));
}

static const char *start(fixture *f)
{
    host *h = calloc(1, sizeof *h);
    tc_device *d = NULL;
    tci_file file = TCI_FILE_NONE;
    f->own = h;
    h->rt = f->rt;
    snprintf(f->credential_file, sizeof f->credential_file, "%s/credential", f->root);
    assert_ok(f, tci_file_open(text(f->credential_file), TCI_OPEN_WRITE | TCI_OPEN_CREATE, 0600,
                               &file, &f->err));
    assert_ok(f, tci_file_write_all(file, CREDENTIAL "\n", sizeof CREDENTIAL, &f->err));
    tci_file_close(&file);
    assert_ok(f, tc_connections_open(f->rt, NULL, &h->connections, &f->err));
    assert_true(tci_runtime_run(f->rt, listen_on_loop, h));
    assert_int_equal(h->code, 0);
    start_daemon(f, h);
    assert_ok(f, tc_connections_wait(h->connections, NULL, DEVICE, START_MS, &d, &f->err));
    tc_device_close(d);
    return NULL;
}

/* Before the runtime is closed. */
static void stop(fixture *f)
{
    host *h = f->own;
    tci_exit how;
    bool was_lost;
    if (f->child.pid != 0) {
        tci_child_signal(&f->child, TCI_SIG_TERM);
        tci_child_reap_wait(&f->child, &how, &was_lost);
    }
    (void)tci_runtime_run(h->rt, close_on_loop, h);
    tc_connections_close(h->connections);
    free(h);
}

static int make(fixture *f, tc_env_options *options, tc_env **ret_env)
{
    tc_websocket_options o = {.size = sizeof o, .connections = websocket_connections(f)};
    if (options->state.len == 0)
        assert_ok(
            f, tc_env_state_make(TC_STR("websocket_envd"), DEVICE, f->r, &options->state, &f->err));
    return tc_env_create_websocket(f->rt, options, &o, ret_env, &f->err);
}

static void kill_dialler(fixture *f, tc_env *env)
{
    tci_exit how;
    bool was_lost;
    TCI_UNUSED(env);
    tci_child_signal(&f->child, TCI_SIG_KILL);
    tci_child_reap_wait(&f->child, &how, &was_lost);
    f->child = TCI_CHILD_NONE;
}

tc_connections *websocket_connections(fixture *f)
{
    const host *h = f->own;
    return h->connections;
}

tc_device *websocket_device(fixture *f, const tc_device *old)
{
    tci_wake never = {0};
    for (;;) {
        tc_device *d = NULL;
        assert_ok(
            f, tc_connections_wait(websocket_connections(f), NULL, DEVICE, START_MS, &d, &f->err));
        if (d != old)
            return d;
        tc_device_close(d); /* its end is not noticed yet */
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + (int64_t)LOOK_MS * 1000000);
    }
}

static void cut_on_loop(void *arg)
{
    const host *h = arg;
    tc_err err;
    tc_err_set(&err, TC_E_CLOSED, "the link was cut");
    (void)tci_connections_end(h->connections, DEVICE, &err);
}

void websocket_cut(fixture *f)
{
    assert_true(tci_runtime_run(f->rt, cut_on_loop, f->own));
}

void websocket_restart(fixture *f)
{
    kill_dialler(f, NULL);
    start_daemon(f, f->own);
}

const provider websocket_envd_provider = {.name = "websocket_envd",
                                          .has_ext = true,
                                          .start = start,
                                          .stop_first = stop,
                                          .make = make,
                                          .kill = kill_dialler};
