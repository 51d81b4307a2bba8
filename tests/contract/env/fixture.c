/* SPDX-License-Identifier: Apache-2.0
 *
 * The fixture of the contract tests: starts a daemon behind HTTP for http_envd, and lets local_envd start its
 * own. */
#include "fixture.h"
#include "fixture_ssh.h"

#include "base/arena.h"
#include "plat/clock.h"
#include "plat/file.h"
#include "plat/socket.h"

/* Below the ports that the system hands out by itself. */
enum { FIRST_PORT = 21000, PORTS = 11500, PORT_TRIES = 5, START_MS = 60000, POLL_NS = 5000000 };

static const provider *chosen;
static const char *why_not;

bool fixture_choose(int argc, char **argv)
{
    static const provider *const all[] = {
        &local_provider,      &reference_provider,      &local_envd_provider, &http_envd_provider,
        &https_envd_provider, &websocket_envd_provider, &ssh_provider,
#ifdef TC_TEST_HOST
        &host_provider,
#endif
    };
    const char *name = argc > 1 ? argv[1] : "local";
    for (size_t i = 0; i < TCI_ARRAY_LEN(all); i++)
        if (strcmp(all[i]->name, name) == 0)
            chosen = all[i];
    if (chosen == NULL)
        why_not = "there is no such provider";
    else if (chosen == &reference_provider && getenv("TELECHIR_PIENV_REFERENCE") == NULL)
        why_not = "TELECHIR_PIENV_REFERENCE names no other daemon to compare with";
    else if (chosen == &ssh_provider)
        why_not = ssh_why_not();
    if (why_not != NULL)
        printf("%s: %s\n", name, why_not);
    return why_not == NULL;
}

tc_str text(const char *cstr)
{
    return tci_str(cstr);
}

static void start_daemon(fixture *f, unsigned port)
{
    char bind[32], runtime[2200], cwd[2200], home[2200];
    char vars[9][2300];
    const char *envp[16];
    size_t n = 0, nvars = 8;
    snprintf(bind, sizeof bind, "127.0.0.1:%u", port);
    snprintf(f->endpoint, sizeof f->endpoint, "%s://%s", f->is_tls ? "https" : "http", bind);
    snprintf(runtime, sizeof runtime, "%s/run", f->root);
    snprintf(cwd, sizeof cwd, "%s", f->root);
    snprintf(vars[0], sizeof vars[0], "A13N_ENVD_RUNTIME_DIR=%s", runtime);
    snprintf(vars[1], sizeof vars[1], "A13N_ENVD_DEVICE_ID=env-contract");
    snprintf(vars[2], sizeof vars[2], "A13N_ENVD_DEFAULT_WORKING_DIRECTORY=%s", cwd);
    snprintf(vars[3], sizeof vars[3], "A13N_ENVD_TRANSPORT=http");
    snprintf(vars[4], sizeof vars[4], "A13N_ENVD_HTTP_BIND=%s", bind);
    snprintf(vars[5], sizeof vars[5], "A13N_ENVD_HTTP_CREDENTIAL_FILE=%s", f->credential_file);
    snprintf(vars[6], sizeof vars[6], "A13N_ENVD_HTTP_PLAINTEXT_SCOPE=loopback");
    snprintf(vars[7], sizeof vars[7], "A13N_ENVD_FULL_CONTROL=true");
    if (f->is_tls) {
        snprintf(vars[6], sizeof vars[6], "A13N_ENVD_HTTP_TLS_CERT_FILE=%s", f->ca_file);
        snprintf(vars[8], sizeof vars[8], "A13N_ENVD_HTTP_TLS_KEY_FILE=%s", f->key_file);
        nvars = 9;
    }
    for (size_t i = 0; i < nvars; i++)
        envp[n++] = vars[i];
    snprintf(home, sizeof home, "HOME=%s", f->root);
    envp[n++] = home;
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

/* The daemon has no start-up line: ask until it answers, or is gone. */
static bool wait_for_daemon(fixture *f)
{
    tc_http_options http = http_options(f);
    int64_t until = tci_clock_mono_ns() + (int64_t)START_MS * 1000000;
    tci_wake never = {0};
    for (;;) {
        tci_exit how;
        bool was_lost;
        tc_device *d = NULL;
        if (tc_device_connect_http(f->rt, NULL, &http, NULL, &d, &f->err) == 0) {
            tc_device_close(d);
            return true;
        }
        if (tci_child_peek(&f->child, &how, &was_lost) || tci_clock_mono_ns() > until)
            return false;
        tci_wake_wait(&never, tci_wake_count(&never), tci_clock_mono_ns() + POLL_NS);
    }
}

static const char *start_http(fixture *f)
{
    tci_file file = TCI_FILE_NONE;
    char credential[64]; /* nobody else's: another daemon on that port is not taken for this one */
    int len = snprintf(credential, sizeof credential, "contract-credential-%d\n", tci_proc_self());
    snprintf(f->credential_file, sizeof f->credential_file, "%s/credential", f->root);
    assert_ok(f, tci_file_open(text(f->credential_file), TCI_OPEN_WRITE | TCI_OPEN_CREATE, 0600,
                               &file, &f->err));
    assert_ok(f, tci_file_write_all(file, credential, (size_t)len, &f->err));
    tci_file_close(&file);
    unsigned port = FIRST_PORT + (unsigned)tci_proc_self() % PORTS;
    for (int i = 0; i < PORT_TRIES; i++) {
        bool was_lost;
        tci_exit how;
        start_daemon(f, port + (unsigned)i * 11);
        if (wait_for_daemon(f))
            return NULL;
        tci_child_signal(&f->child, TCI_SIG_KILL);
        tci_child_reap_wait(&f->child, &how, &was_lost);
    }
    fail_msg("the daemon does not start: %s", f->err.msg);
    return NULL;
}

static void stop_http(fixture *f)
{
    tci_exit how;
    bool was_lost;
    if (f->child.pidfd < 0)
        return;
    tci_child_signal(&f->child, TCI_SIG_TERM);
    tci_child_reap_wait(&f->child, &how, &was_lost);
}

int fixture_open(void **state)
{
    fixture *f = calloc(1, sizeof *f); /* cmocka's own ways: no allocation of ours is under test */
    const char *daemon = getenv("TC_DAEMON");
    f->p = chosen;
    f->child = TCI_CHILD_NONE;
    f->is_tls = chosen->is_tls;
    f->is_http = chosen->is_http;
    snprintf(f->ca_file, sizeof f->ca_file, "%s/cert.pem", getenv("TC_TEST_DIR"));
    snprintf(f->key_file, sizeof f->key_file, "%s/key.pem", getenv("TC_TEST_DIR"));
    snprintf(f->daemon, sizeof f->daemon, "%s", daemon != NULL ? daemon : TC_DEFAULT_DAEMON);
    snprintf(f->root, sizeof f->root, "%s/%s", getenv("TC_TEST_DIR"), chosen->name);
    assert_ok(f, tci_file_mkdir(TCI_FILE_CWD, text(f->root), 0700, &f->err));
    assert_ok(f, tc_runtime_open(NULL, &f->rt, &f->err));
    assert_ok(f, tc_result_new(&f->r, &f->err));
    const char *problem = chosen->start != NULL ? chosen->start(f) : NULL;
    if (problem != NULL)
        fail_msg("%s: %s", chosen->name, problem);
    *state = f;
    return 0;
}

int fixture_close(void **state)
{
    fixture *f = *state;
    tc_result_free(f->r);
    if (chosen->stop_first != NULL)
        chosen->stop_first(f);
    tc_runtime_close(f->rt);
    if (chosen->stop != NULL)
        chosen->stop(f);
    free(f);
    return 0;
}

tc_str folder(fixture *f, const char *name)
{
    tc_str path;
    char buf[4096];
    snprintf(buf, sizeof buf, "%s/%s", f->root, name);
    assert_ok(f, tci_file_mkdir(TCI_FILE_CWD, text(buf), 0700, &f->err));
    assert_ok(f, tc_result_dup(f->r, text(buf), &path, &f->err));
    return path;
}

tc_env_options env_options(tc_str cwd)
{
    return (tc_env_options){.size = sizeof(tc_env_options),
                            .environment_id = TC_STR("env-test"),
                            .working_directory = cwd};
}

tc_http_options http_options(fixture *f)
{
    tc_http_options http = {.size = sizeof http,
                            .endpoint = text(f->endpoint),
                            .credential_file = text(f->credential_file)};
    if (f->is_tls)
        http.ca_file = text(f->ca_file);
    return http;
}

/* ---- the providers ---- */

static int make_http(fixture *f, tc_env_options *options, tc_env **ret_env)
{
    tc_http_options http = http_options(f);
    if (options->state.len == 0)
        assert_ok(f, tc_env_state_make(TC_STR("http_envd"), TC_STR("env-contract"), f->r,
                                       &options->state, &f->err));
    return tc_env_create_http(f->rt, options, &http, ret_env, &f->err);
}

static int make_local_envd(fixture *f, tc_env_options *options, tc_env **ret_env)
{
    tc_local_envd_options local = {
        .size = sizeof local, .executable = text(f->daemon), .full_control = true};
    return tc_env_create_local(f->rt, options, &local, ret_env, &f->err);
}

static int make_local(fixture *f, tc_env_options *options, tc_env **ret_env)
{
    tc_local_pi_options local = {.size = sizeof local, .executable = text(f->daemon)};
    return tc_env_create_local_pi(f->rt, options, &local, ret_env, &f->err);
}

static int make_reference(fixture *f, tc_env_options *options, tc_env **ret_env)
{
    tc_local_pi_options local = {.size = sizeof local,
                                 .executable = text(getenv("TELECHIR_PIENV_REFERENCE"))};
    return tc_env_create_local_pi(f->rt, options, &local, ret_env, &f->err);
}

static void kill_http(fixture *f, tc_env *env)
{
    tci_exit how;
    bool was_lost;
    TCI_UNUSED(env);
    tci_child_signal(&f->child, TCI_SIG_KILL);
    tci_child_reap_wait(&f->child, &how, &was_lost);
}

const provider local_provider = {.name = "local",
                                 .is_pi = true,
                                 .has_ext = true,
                                 .make = make_local,
                                 .kill = kill_daemon_from_inside};
const provider reference_provider = {
    .name = "reference", .is_pi = true, .make = make_reference, .kill = kill_daemon_from_inside};
const provider local_envd_provider = {.name = "local_envd",
                                      .has_ext = true,
                                      .make = make_local_envd,
                                      .kill = kill_daemon_from_inside};
const provider http_envd_provider = {.name = "http_envd",
                                     .has_ext = true,
                                     .is_http = true,
                                     .start = start_http,
                                     .stop = stop_http,
                                     .make = make_http,
                                     .kill = kill_http};
const provider https_envd_provider = {.name = "https_envd",
                                      .has_ext = true,
                                      .is_http = true,
                                      .is_tls = true,
                                      .start = start_http,
                                      .stop = stop_http,
                                      .make = make_http,
                                      .kill = kill_http};

int make_env_with(fixture *f, tc_env_options *options, tc_env **ret_env)
{
    return f->p->make(f, options, ret_env);
}

tc_env *make_env(fixture *f, tc_str cwd)
{
    tc_env *env = NULL;
    tc_env_options options = env_options(cwd);
    assert_ok(f, make_env_with(f, &options, &env));
    assert_ok(f, tc_env_ready(env, NULL, &f->err));
    return env;
}

tc_call plain_call(fixture *f)
{
    return TC_CALL(NULL, f->r);
}

void kill_daemon(fixture *f, tc_env *env)
{
    f->p->kill(f, env);
}

void kill_daemon_from_inside(fixture *f, tc_env *env)
{
    tc_call call = plain_call(f);
    tc_exec_outcome out;
    tc_exec_options o = {.size = sizeof o};
    /* A command finds it, by its name among its own ancestors. */
    o.script = TC_STR("p=$$; while [ \"$p\" -gt 1 ]; do n=$(cat /proc/$p/comm); "
                      "case $n in *envd*|telechird*|pi-env*) v=$p;; esac; "
                      "p=$(awk '/^PPid:/{print $2}' /proc/$p/status); done; kill -9 $v");
    int rc = tc_env_exec(env, &call, &o, &out, &f->err);
    TCI_UNUSED(rc); /* it takes its own answer along */
}

bool file_exists(const char *path)
{
    tci_file_stat st;
    tc_err err;
    return tci_file_stat_at(TCI_FILE_CWD, tci_str(path), false, &st, &err) == 0;
}
