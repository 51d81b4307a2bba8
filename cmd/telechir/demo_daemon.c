/* SPDX-License-Identifier: Apache-2.0
 *
 * The demo's temporary daemon, over each transport. Leaves what the demo shows to demo.c. The main
 * thread. Invariant: what was started is ended and what was made is removed by demo_daemon_stop,
 * wherever starting stopped. */
#include "demo.h"

#include "base/hash.h"
#include "env/env.h"
#include "plat/clock.h"
#include "plat/env.h"
#include "plat/file.h"
#include "plat/self.h"
#include "plat/socket.h"

enum {
    PRIVATE_FOLDER = 0700,
    PRIVATE_FILE = 0600,
    ANY_EXECUTE = 0111,
    CREDENTIAL_BYTES = 32,
    START_TRIES = 5,
    START_MS = 10000,
    STOP_MS = 11000,
    LOOK_MS = 10,
    LOG_TAIL = 300
};

/* ---- which program ---- */

static bool is_program(tc_str path)
{
    tci_file_stat st;
    tc_err err;
    return tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &err) == 0 &&
           st.kind == TCI_FILE_KIND_REGULAR && (st.mode & ANY_EXECUTE) != 0;
}

int demo_find_daemon(cli *c, tc_str *ret)
{
    const char *given = cli_value(c, "executable");
    char buf[TCI_PATH_MAX];
    tc_str path, parent, name;
    tc_err err;
    if (given == NULL && tci_self_program(buf, &path, &err) == 0) {
        tci_path_split(path, &parent, &name);
        if (tci_arena_printf(&c->arena, ret, &c->err, "%.*s/telechird", TC_STR_ARG(parent)) < 0)
            return c->err.code;
        if (is_program(*ret))
            return 0;
    }
    if (given == NULL)
        given = tci_env_get("TELECHIRD_EXECUTABLE");
    if (given == NULL)
        given = tci_env_get("A13N_ENVD_EXECUTABLE");
    if (given == NULL) {
        tc_err_set(&c->err, TC_E_NOT_FOUND, "there is no telechird beside this program");
        return tc_err_hint(&c->err, "pass --executable FILE");
    }
    if (tci_file_realpath(tci_str(given), buf, &path, &c->err) < 0)
        return tc_err_wrap(&c->err, "cannot run '%s'", given);
    if (!is_program(path))
        return tc_err_set(&c->err, TC_E_DENIED, "'%s' is not a program", given);
    return tci_arena_dup(&c->arena, path, ret, &c->err);
}

/* ---- its folder ---- */

static int write_credential(cli *c, const demo_daemon *d)
{
    uint8_t random[CREDENTIAL_BYTES];
    char hex[2 * CREDENTIAL_BYTES];
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tci_random_bytes(random, sizeof random);
    tci_hex(random, sizeof random, hex);
    int rc = tci_file_open(d->credential_file, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_EXCL,
                           PRIVATE_FILE, &f, &c->err);
    if (rc == 0)
        rc = tci_file_write_all(f, hex, sizeof hex, &c->err);
    tci_mem_wipe(random, sizeof random);
    tci_mem_wipe(hex, sizeof hex);
    return rc;
}

static int make_folders(cli *c, demo_daemon *d)
{
    tc_runtime *rt = cli_runtime(c);
    tci_arena *a = &c->arena;
    tc_err *err = &c->err;
    if (rt == NULL)
        return err->code;
    int rc = tci_env_temp_folder(rt, a, &d->base, err);
    if (rc == 0)
        rc = tci_arena_printf(a, &d->workspace, err, "%.*s/workspace", TC_STR_ARG(d->base));
    if (rc == 0)
        rc = tci_arena_printf(a, &d->runtime, err, "%.*s/runtime", TC_STR_ARG(d->base));
    if (rc == 0)
        rc = tci_arena_printf(a, &d->credential_file, err, "%.*s/credential", TC_STR_ARG(d->base));
    if (rc == 0)
        rc = tci_arena_printf(a, &d->log, err, "%.*s/log", TC_STR_ARG(d->base));
    if (rc == 0)
        rc = tci_file_mkdir(TCI_FILE_CWD, d->workspace, PRIVATE_FOLDER, err);
    return rc < 0 ? tc_err_wrap(err, "cannot make a temporary folder") : 0;
}

/* ---- over stdio ---- */

static int start_stdio(cli *c, demo_daemon *d)
{
    tc_pair settings[] = {
        {TC_STR("A13N_ENVD_DEVICE_ID"), d->device_id},
        {TC_STR("A13N_ENVD_DEFAULT_WORKING_DIRECTORY"), d->workspace},
    };
    tc_spawn_options spawn = {.size = sizeof spawn,
                              .program = d->program,
                              .is_env_clear = true,
                              .set_env = settings,
                              .nset_env = TCI_ARRAY_LEN(settings),
                              .cwd = d->workspace,
                              .runtime_dir = d->runtime};
    tc_device_options device = {.size = sizeof device, .expected_device_id = d->device_id};
    return tc_device_spawn(cli_runtime(c), c->ctx, &spawn, &device, &d->device, &c->err);
}

/* ---- over http ---- */

int demo_pick_port(uint16_t *ret_port, tc_err *err)
{
    tci_addr addr;
    int fd = -1;
    int rc = tci_addr_parse(TC_STR("127.0.0.1:0"), &addr, err);
    if (rc == 0)
        rc = tci_socket_listen(&addr, 1, &fd, err);
    if (rc == 0)
        rc = tci_socket_local_addr(fd, &addr, err);
    if (rc == 0)
        *ret_port = addr.port;
    tci_fd_close(&fd);
    return rc;
}

static int setting(cli *c, const char **envp, size_t *n, const char *name, tc_str value)
{
    tc_str entry;
    char *text;
    int rc = tci_arena_printf(&c->arena, &entry, &c->err, "%s=%.*s", name, TC_STR_ARG(value));
    if (rc == 0)
        rc = tci_arena_cstr(&c->arena, entry, &text, &c->err);
    if (rc == 0)
        envp[(*n)++] = text;
    return rc;
}

typedef struct named {
    const char *name;
    tc_str value;
} named;

static int settings_of(cli *c, const demo_daemon *d, tc_str bind, const char **envp)
{
    const named all[] = {
        {"A13N_ENVD_RUNTIME_DIR", d->runtime},
        {"A13N_ENVD_DEVICE_ID", d->device_id},
        {"A13N_ENVD_DEFAULT_WORKING_DIRECTORY", d->workspace},
    };
    const named http[] = {
        {"A13N_ENVD_TRANSPORT", TC_STR("http")},
        {"A13N_ENVD_HTTP_BIND", bind},
        {"A13N_ENVD_HTTP_CREDENTIAL_FILE", d->credential_file},
        {"A13N_ENVD_HTTP_PLAINTEXT_SCOPE", TC_STR("loopback")},
    };
    const named websocket[] = {
        {"A13N_ENVD_TRANSPORT", TC_STR("reverse_websocket")},
        {"A13N_ENVD_REVERSE_WS_URL", d->endpoint},
        {"A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE", d->credential_file},
    };
    bool is_websocket = d->kind == DEMO_WEBSOCKET;
    const named *more = is_websocket ? websocket : http;
    size_t nmore = is_websocket ? TCI_ARRAY_LEN(websocket) : TCI_ARRAY_LEN(http), n = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < TCI_ARRAY_LEN(all); i++)
        rc = setting(c, envp, &n, all[i].name, all[i].value);
    for (size_t i = 0; rc == 0 && i < nmore; i++)
        rc = setting(c, envp, &n, more[i].name, more[i].value);
    tc_str path = tci_str(tci_env_get("PATH"));
    bool has_full_control = d->kind == DEMO_HTTP_FULL_CONTROL;
    if (rc == 0 && has_full_control)
        rc = setting(c, envp, &n, "A13N_ENVD_FULL_CONTROL", TC_STR("true"));
    if (rc == 0 && has_full_control && path.len > 0)
        rc = setting(c, envp, &n, "PATH", path);
    return rc;
}

static int spawn_daemon(cli *c, demo_daemon *d, tc_str bind)
{
    enum { SETTINGS_MAX = 16 };
    const char *envp[SETTINGS_MAX] = {NULL};
    char *program = NULL, *cwd = NULL;
    TCI_FILE_AUTO log = TCI_FILE_NONE;
    int rc = settings_of(c, d, bind, envp);
    if (rc == 0)
        rc = tci_arena_cstr(&c->arena, d->program, &program, &c->err);
    if (rc == 0)
        rc = tci_arena_cstr(&c->arena, d->workspace, &cwd, &c->err);
    if (rc == 0)
        rc = tci_file_open(d->log, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE,
                           PRIVATE_FILE, &log, &c->err);
    if (rc < 0)
        return rc;
    const char *argv[] = {program, NULL};
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    opts.program = program;
    opts.argv = argv;
    opts.envp = envp;
    opts.cwd = cwd;
    opts.stdio[1] = log.fd;
    opts.stdio[2] = log.fd;
    opts.flags = TCI_SPAWN_SESSION | TCI_SPAWN_DIE_WITH_PARENT;
    rc = tci_spawn(&opts, &d->child, &c->err);
    return rc < 0 ? tc_err_wrap(&c->err, "cannot start the daemon '%s'", program) : 0;
}

int demo_ended_early(cli *c, tc_str log, const char *what)
{
    char *text = NULL;
    size_t len = 0;
    tc_err ignored;
    tc_str tail = {0};
    if (tci_file_read_whole(TCI_FILE_CWD, log, 1 << 20, &text, &len, &ignored) == 0) {
        tail = tci_str_of(text, len);
        while (tail.len > 0 && tail.ptr[tail.len - 1] == '\n')
            tail.len--;
        size_t line = tci_str_rfind_byte(tail, '\n');
        if (line < tail.len)
            tail = tci_str_sub(tail, line + 1, SIZE_MAX);
        tail = tci_str_sub(tail, 0, LOG_TAIL);
    }
    int rc = tc_err_set(&c->err, TC_E_CONNECT, "%s ended at once: %.*s", what, TC_STR_ARG(tail));
    tci_free(text);
    return rc;
}

void demo_look_later(const cli *c)
{
    tci_wake never = {0};
    if (!tc_ctx_is_cancelled(c->ctx))
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + (int64_t)LOOK_MS * 1000000);
}

static int connect_once(cli *c, const demo_daemon *d)
{
    tc_http_options http = {
        .size = sizeof http, .endpoint = d->endpoint, .credential_file = d->credential_file};
    tc_device_options options = {.size = sizeof options, .expected_device_id = d->device_id};
    tc_device *device = NULL;
    int rc = tc_device_connect_http(cli_runtime(c), c->ctx, &http, &options, &device, &c->err);
    tc_device_close(device);
    return rc;
}

/* Until it answers with our credential. 1: it ended instead. */
static int wait_http(cli *c, demo_daemon *d)
{
    int64_t until = tci_clock_mono_ns() + (int64_t)START_MS * 1000000;
    for (;;) {
        tci_exit ended;
        bool was_lost;
        int rc = connect_once(c, d);
        if (rc != TC_E_CONNECT)
            return rc;
        if (tci_child_peek(&d->child, &ended, &was_lost))
            return 1;
        if (tci_clock_mono_ns() > until)
            return tc_err_wrap(&c->err, "the daemon does not answer");
        demo_look_later(c);
    }
}

static int start_http_once(cli *c, demo_daemon *d)
{
    uint16_t port;
    tc_str bind;
    int rc = demo_pick_port(&port, &c->err);
    if (rc == 0)
        rc = tci_arena_printf(&c->arena, &bind, &c->err, "127.0.0.1:%u", (unsigned)port);
    if (rc == 0)
        rc = tci_arena_printf(&c->arena, &d->endpoint, &c->err, "http://%.*s", TC_STR_ARG(bind));
    if (rc == 0)
        rc = spawn_daemon(c, d, bind);
    return rc == 0 ? wait_http(c, d) : rc;
}

static int start_http(cli *c, demo_daemon *d)
{
    int rc = write_credential(c, d);
    /* The port may be taken between our look and the daemon's: then it ends, and another is tried. */
    for (int i = 0; rc >= 0 && i < START_TRIES; i++) {
        rc = start_http_once(c, d);
        if (rc <= 0)
            return rc;
        demo_reap(&d->child);
    }
    return rc > 0 ? demo_ended_early(c, d->log, "the daemon") : rc;
}

/* ---- it dials in ---- */

/* Until it is there. 1: it ended instead. */
static int wait_dialled(cli *c, demo_daemon *d)
{
    int64_t until = tci_clock_mono_ns() + (int64_t)START_MS * 1000000;
    for (;;) {
        tc_device *device = NULL;
        tci_exit ended;
        bool was_lost;
        int rc = tc_connections_wait(gate_connections(d->gate), c->ctx, d->device_id, LOOK_MS,
                                     &device, &c->err);
        tc_device_close(device); /* the connection stays */
        if (rc != TC_E_TIMEOUT)
            return rc;
        if (tci_child_peek(&d->child, &ended, &was_lost))
            return 1;
        if (tci_clock_mono_ns() > until)
            return tc_err_set(&c->err, TC_E_CONNECT, "the daemon does not dial in");
    }
}

static int start_websocket(cli *c, demo_daemon *d)
{
    int rc = write_credential(c, d);
    if (rc == 0)
        rc = gate_open(c, 0, d->device_id, d->credential_file, &d->gate);
    if (rc < 0)
        return rc;
    d->endpoint = tci_str(gate_url(d->gate));
    rc = spawn_daemon(c, d, (tc_str){0});
    if (rc == 0)
        rc = wait_dialled(c, d);
    return rc > 0 ? demo_ended_early(c, d->log, "the daemon") : rc;
}

/* ---- the whole ---- */

int demo_daemon_start(cli *c, demo_kind kind, demo_daemon *d)
{
    *d = (demo_daemon){.kind = kind, .child = TCI_CHILD_NONE};
    d->device_id = TC_STR("env-demo-machine");
    int rc = demo_find_daemon(c, &d->program);
    if (rc == 0)
        rc = make_folders(c, d);
    if (rc < 0)
        return rc;
    switch (kind) {
    case DEMO_STDIO:
        return start_stdio(c, d);
    case DEMO_WEBSOCKET:
        return start_websocket(c, d);
    case DEMO_HTTP:
    case DEMO_HTTP_FULL_CONTROL:
        break;
    }
    return start_http(c, d);
}

bool demo_daemon_is_alive(const demo_daemon *d)
{
    tci_exit ended;
    bool was_lost;
    if (d->kind != DEMO_STDIO)
        return d->child.pid != 0 && !tci_child_peek(&d->child, &ended, &was_lost);
    return d->device != NULL && tc_device_is_alive(d->device);
}

int demo_daemon_adapter(cli *c, const demo_daemon *d, tc_env **ret_env)
{
    tc_env_options options = {.size = sizeof options, .environment_id = TC_STR("env-my-project")};
    tc_http_options http = {
        .size = sizeof http, .endpoint = d->endpoint, .credential_file = d->credential_file};
    tc_env *env = NULL;
    tc_str key = d->kind == DEMO_WEBSOCKET ? TC_STR("websocket_envd") : TC_STR("http_envd");
    int rc = 0;
    if (d->kind != DEMO_STDIO)
        rc = tc_env_state_make(key, d->device_id, c->result, &options.state, &c->err);
    if (rc == 0 && d->kind == DEMO_STDIO) {
        rc = tc_env_create_on_device(d->device, &options, &env, &c->err);
    } else if (rc == 0 && d->kind == DEMO_WEBSOCKET) {
        tc_websocket_options websocket = {.size = sizeof websocket,
                                          .connections = gate_connections(d->gate)};
        rc = tc_env_create_websocket(cli_runtime(c), &options, &websocket, &env, &c->err);
    } else if (rc == 0) {
        rc = tc_env_create_http(cli_runtime(c), &options, &http, &env, &c->err);
    }
    if (rc == 0)
        rc = tc_env_ready(env, c->ctx, &c->err);
    if (rc == 0)
        *ret_env = env;
    else
        tc_env_release(env);
    return rc;
}

void demo_reap(tci_child *child)
{
    tci_exit ended;
    bool was_lost;
    tci_child_reap_wait(child, &ended, &was_lost);
    *child = TCI_CHILD_NONE;
}

void demo_end_child(tci_child *child)
{
    tci_exit ended;
    bool was_lost;
    int64_t until = tci_clock_mono_ns() + (int64_t)STOP_MS * 1000000;
    tci_wake never = {0};
    if (child->pid == 0)
        return;
    (void)tci_child_signal(child, TCI_SIG_TERM);
    while (!tci_child_peek(child, &ended, &was_lost) && tci_clock_mono_ns() < until)
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + (int64_t)LOOK_MS * 1000000);
    (void)tci_child_signal(child, TCI_SIG_KILL);
    demo_reap(child);
}

void demo_daemon_stop(cli *c, demo_daemon *d)
{
    tc_device_close(d->device);
    d->device = NULL;
    demo_end_child(&d->child);
    gate_close(d->gate);
    d->gate = NULL;
    /* Ends a child over stdio, and waits for it, before its folder goes. */
    tc_runtime_close(c->rt);
    c->rt = NULL;
    if (d->base.len > 0)
        tci_env_remove_folder(d->base);
}
