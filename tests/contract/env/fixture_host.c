/* SPDX-License-Identifier: Apache-2.0
 *
 * The provider over a Host: a daemon dials in to it, and the environments ask the daemon through it. */
#include "fixture.h"

#include "host/host_int.h"
#include "plat/clock.h"
#include "plat/file.h"

#define DEVICE TC_STR("env-contract")
#define CREDENTIAL "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

enum { START_MS = 60000 };

typedef struct behind {
    tc_runtime *rt; /* the Host's own, as in another process */
    tci_host *host;
    char id[TCI_RESOURCE_ID_LEN + 1], token[TCI_TOKEN_LEN + 1], path[64];
} behind;

static void enroll(fixture *f, behind *b)
{
    tci_arena a;
    tci_pair_answer paired;
    tci_host_device device;
    int64_t now_ms = tci_host_now_ms(), expires_ms;
    char code[TCI_LINK_CODE_LEN];
    tci_pair_ask ask = {.device_id = DEVICE,
                        .name = TC_STR("contract"),
                        .digest = tci_digest_of(TC_STR(CREDENTIAL)),
                        .address = TC_STR("127.0.0.1"),
                        .may_begin = true};
    tci_arena_init(&a, 0);
    assert_ok(f, tci_host_pair(b->host->db, now_ms, &ask, &a, &paired, &f->err));
    tci_challenge_ref which = {.code = paired.code};
    assert_ok(f, tci_host_approve(b->host->db, now_ms, &which, &a, &device, &f->err));
    snprintf(b->id, sizeof b->id, "%.*s", TC_STR_ARG(device.id));
    tci_arena_done(&a);
    assert_ok(f, tci_host_link_new(b->host->db, now_ms, code, &expires_ms, &f->err));
    assert_ok(f, tci_host_sign_in(b->host->db, now_ms, tci_str_of(code, sizeof code),
                                  TCI_SIGN_IN_TERMINAL, TC_STR("test"), b->token, &expires_ms,
                                  &f->err));
}

static void start_daemon(fixture *f, const behind *b)
{
    char vars[8][2300];
    const char *envp[16];
    size_t n = 0;
    snprintf(vars[n++], sizeof vars[0], "A13N_ENVD_RUNTIME_DIR=%s/run", f->root);
    snprintf(vars[n++], sizeof vars[0], "A13N_ENVD_DEVICE_ID=env-contract");
    snprintf(vars[n++], sizeof vars[0], "A13N_ENVD_DEFAULT_WORKING_DIRECTORY=%s", f->root);
    snprintf(vars[n++], sizeof vars[0], "A13N_ENVD_TRANSPORT=reverse_websocket");
    snprintf(vars[n++], sizeof vars[0], "A13N_ENVD_REVERSE_WS_URL=ws%s/api/devices/%s/connect",
             f->endpoint + 4, b->id);
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
    behind *b = calloc(1, sizeof *b);
    tc_device *d = NULL;
    tci_file file = TCI_FILE_NONE;
    char data[2200];
    assert_non_null(b);
    f->own = b;
    snprintf(f->credential_file, sizeof f->credential_file, "%s/credential", f->root);
    assert_ok(f, tci_file_open(text(f->credential_file), TCI_OPEN_WRITE | TCI_OPEN_CREATE, 0600,
                               &file, &f->err));
    assert_ok(f, tci_file_write_all(file, CREDENTIAL "\n", sizeof CREDENTIAL, &f->err));
    tci_file_close(&file);
    snprintf(data, sizeof data, "%s/host", f->root);
    assert_ok(f, tc_runtime_open(NULL, &b->rt, &f->err));
    tci_host_options o = {.bind = TC_STR("127.0.0.1:0"), .data = text(data)};
    assert_ok(f, tci_host_open(b->rt, &o, &b->host, &f->err));
    enroll(f, b);
    tc_str url = tci_host_url(b->host);
    snprintf(f->endpoint, sizeof f->endpoint, "%.*s", (int)url.len - 1, url.ptr);
    snprintf(b->path, sizeof b->path, "/api/devices/contract/");
    start_daemon(f, b);
    assert_ok(f, tc_connections_wait(b->host->connections, NULL, DEVICE, START_MS, &d, &f->err));
    tc_device_close(d);
    return NULL;
}

static void stop(fixture *f)
{
    behind *b = f->own;
    tci_exit how;
    bool was_lost;
    if (f->child.pid != 0) {
        tci_child_signal(&f->child, TCI_SIG_TERM);
        tci_child_reap_wait(&f->child, &how, &was_lost);
    }
    tci_host_close(b->host);
    tc_runtime_close(b->rt);
    free(b);
}

static int make(fixture *f, tc_env_options *options, tc_env **ret_env)
{
    const behind *b = f->own;
    tc_http_options http = {.size = sizeof http,
                            .endpoint = text(f->endpoint),
                            .path = text(b->path),
                            .credential = tci_str_of(b->token, TCI_TOKEN_LEN)};
    if (options->state.len == 0)
        assert_ok(f,
                  tc_env_state_make(TC_STR("http_envd"), DEVICE, f->r, &options->state, &f->err));
    return tc_env_create_http(f->rt, options, &http, ret_env, &f->err);
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

const provider host_provider = {.name = "host",
                                .has_ext = true,
                                .start = start,
                                .stop = stop,
                                .make = make,
                                .kill = kill_dialler};
