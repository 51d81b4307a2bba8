/* SPDX-License-Identifier: Apache-2.0
 *
 * The demo's SSH server. Needs no root and no set-up; as root it needs the folder that sshd insists
 * on, which stays. Leaves what the demo shows to demo_ssh.c. The main thread. Invariant: what was
 * started is ended, and all else that was made is removed, by demo_sshd_stop, wherever starting
 * stopped. */
#include "demo_sshd.h"

#include "child.h"
#include "demo.h"
#include "env/env.h"
#include "plat/clock.h"
#include "plat/env.h"
#include "plat/file.h"

enum {
    PRIVATE_FOLDER = 0700,
    PRIVATE_FILE = 0600,
    RUN_FOLDER = 0755,
    START_TRIES = 5,
    START_MS = 10000
};

/* sshd refuses to run as root without it (sshd(8), FILES); others do not need it. */
static const char run_folder[] = "/run/sshd";

/* ---- its files ---- */

static int write_file(cli *c, tc_str path, tc_str content)
{
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    int rc = tci_file_open(path, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE, PRIVATE_FILE,
                           &f, &c->err);
    return rc == 0 ? tci_file_write_all(f, content.ptr, content.len, &c->err) : rc;
}

static int name_files(cli *c, demo_sshd *s)
{
    const struct {
        const char *name;
        tc_str *path;
    } all[] = {{"host_key", &s->host_key},
               {"user_key", &s->user_key},
               {"authorized_keys", &s->authorized},
               {"sshd_config", &s->config},
               {"ssh_config", &s->client_config},
               {"trust/known_hosts", &s->known_hosts},
               {"log", &s->log},
               {"workspace", &s->workspace},
               {"daemons", &s->daemons}};
    int rc = tci_env_temp_folder(cli_runtime(c), &c->arena, &s->base, &c->err);
    for (size_t i = 0; rc == 0 && i < TCI_ARRAY_LEN(all); i++)
        rc = tci_arena_printf(&c->arena, all[i].path, &c->err, "%.*s/%s", TC_STR_ARG(s->base),
                              all[i].name);
    if (rc == 0)
        rc = tci_file_mkdir(TCI_FILE_CWD, s->workspace, PRIVATE_FOLDER, &c->err);
    return rc < 0 ? tc_err_wrap(&c->err, "cannot make a temporary folder") : 0;
}

/* Run ssh-keygen; its output in the command's arena. */
static int keygen(cli *c, const demo_sshd *s, const char *const *words, size_t nwords, tc_str *ret)
{
    enum { WORDS_MAX = 12, OUTPUT_MAX = 64 * 1024 };
    const char *argv[WORDS_MAX + 2] = {NULL};
    char *program;
    tci_buf out;
    tci_exit ended;
    int rc = tci_arena_cstr(&c->arena, s->keygen, &program, &c->err);
    if (rc < 0)
        return rc;
    argv[0] = program;
    for (size_t i = 0; i < nwords && i < WORDS_MAX; i++)
        argv[i + 1] = words[i];
    tci_buf_init(&out, OUTPUT_MAX);
    rc = cli_child_run(c, argv, &out, &ended, &c->err);
    if (rc == 0 && (ended.is_signal || ended.code != 0))
        rc = tc_err_set(&c->err, TC_E_START_FAILED, "ssh-keygen failed: %.*s", (int)out.len,
                        out.ptr != NULL ? out.ptr : "");
    if (rc == 0)
        rc = tci_arena_dup(&c->arena, tci_buf_str(&out), ret, &c->err);
    tci_buf_done(&out);
    return rc;
}

static int make_key(cli *c, const demo_sshd *s, tc_str path)
{
    char *file;
    tc_str ignored;
    int rc = tci_arena_cstr(&c->arena, path, &file, &c->err);
    const char *words[] = {"-q", "-t", "ed25519", "-N", "", "-C", "telechir-demo", "-f", file};
    return rc == 0 ? keygen(c, s, words, TCI_ARRAY_LEN(words), &ignored) : rc;
}

/* "256 SHA256:... comment (ED25519)": as somebody at that machine would read it. */
static int read_fingerprint(cli *c, demo_sshd *s)
{
    char *file;
    tc_str said, word;
    int rc = tci_arena_cstr(&c->arena, s->host_key, &file, &c->err);
    const char *words[] = {"-l", "-E", "sha256", "-f", file};
    if (rc == 0)
        rc = keygen(c, s, words, TCI_ARRAY_LEN(words), &said);
    while (rc == 0 && tci_str_split(&said, ' ', &word))
        if (tci_str_starts(word, TC_STR("SHA256:"))) {
            s->fingerprint = word;
            return 0;
        }
    return rc < 0 ? rc : tc_err_set(&c->err, TC_E_PROTOCOL, "ssh-keygen shows no fingerprint");
}

static int allow_user_key(cli *c, const demo_sshd *s)
{
    enum { KEY_MAX = 16 * 1024 };
    char *text = NULL;
    size_t len = 0;
    tc_str path;
    int rc = tci_arena_printf(&c->arena, &path, &c->err, "%.*s.pub", TC_STR_ARG(s->user_key));
    if (rc == 0)
        rc = tci_file_read_whole(TCI_FILE_CWD, path, KEY_MAX, &text, &len, &c->err);
    if (rc == 0)
        rc = write_file(c, s->authorized, tci_str_of(text, len));
    tci_free(text);
    return rc;
}

static int write_config(cli *c, const demo_sshd *s)
{
    tc_str text;
    int rc =
        tci_arena_printf(&c->arena, &text, &c->err,
                         "ListenAddress 127.0.0.1\n"
                         "Port %u\n"
                         "HostKey %.*s\n"
                         "AuthorizedKeysFile %.*s\n"
                         "PidFile none\n"
                         "StrictModes no\n"
                         "UsePAM no\n"
                         "UseDNS no\n"
                         "PermitRootLogin yes\n"
                         "PasswordAuthentication no\n"
                         "KbdInteractiveAuthentication no\n"
                         "PrintMotd no\n",
                         (unsigned)s->port, TC_STR_ARG(s->host_key), TC_STR_ARG(s->authorized));
    return rc == 0 ? write_file(c, s->config, text) : rc;
}

/* ---- the server ---- */

static void make_run_folder(cli *c)
{
    tci_file_stat st;
    tc_str path = tci_str(run_folder);
    if (tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &c->err) == 0)
        return;
    /* It stays: another server may have come to need it. Whoever may not make it does not need it. */
    if (tci_file_mkdir(TCI_FILE_CWD, path, RUN_FOLDER, &c->err) == 0)
        cli_detail(c, "made '%s', which sshd insists on", run_folder);
}

static int spawn(cli *c, demo_sshd *s)
{
    char *program, *config;
    TCI_FILE_AUTO log = TCI_FILE_NONE;
    int rc = tci_arena_cstr(&c->arena, s->program, &program, &c->err);
    if (rc == 0)
        rc = tci_arena_cstr(&c->arena, s->config, &config, &c->err);
    if (rc == 0)
        rc = tci_file_open(s->log, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE,
                           PRIVATE_FILE, &log, &c->err);
    if (rc < 0)
        return rc;
    const char *argv[] = {program, "-D", "-e", "-f", config, NULL};
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    opts.program = program;
    opts.argv = argv;
    opts.envp = (const char *const *)tci_env_list();
    opts.stdio[1] = log.fd;
    opts.stdio[2] = log.fd;
    opts.flags = TCI_SPAWN_SESSION | TCI_SPAWN_DIE_WITH_PARENT;
    rc = tci_spawn(&opts, &s->child, &c->err);
    return rc < 0 ? tc_err_wrap(&c->err, "cannot start the SSH server '%s'", program) : 0;
}

/* Until it shows its key. 1: it ended instead. */
static int wait_for_it(cli *c, demo_sshd *s)
{
    int64_t until = tci_clock_mono_ns() + (int64_t)START_MS * 1000000;
    tc_ssh_target target = demo_sshd_target(s);
    for (;;) {
        tci_exit ended;
        bool was_lost;
        tc_ssh_keys keys;
        int rc = tc_ssh_scan(c->rt, c->ctx, c->result, &target, &keys, &c->err);
        if (rc != TC_E_CONNECT)
            return rc;
        if (tci_child_peek(&s->child, &ended, &was_lost))
            return 1;
        if (tci_clock_mono_ns() > until)
            return tc_err_wrap(&c->err, "the SSH server does not answer");
        demo_look_later(c);
    }
}

static int start_once(cli *c, demo_sshd *s)
{
    int rc = demo_pick_port(&s->port, &c->err);
    if (rc == 0)
        rc = write_config(c, s);
    if (rc == 0)
        rc = spawn(c, s);
    return rc == 0 ? wait_for_it(c, s) : rc;
}

static int find_programs(cli *c, demo_sshd *s)
{
    if (cli_runtime(c) == NULL)
        return c->err.code;
    if (cli_find_program(c, "sshd", &s->program, &c->err) < 0) {
        tc_err_set(&c->err, TC_E_NOT_FOUND, "no sshd program is installed here");
        return tc_err_hint(&c->err, "install OpenSSH's server (openssh-server); it need not run");
    }
    if (cli_find_program(c, "ssh-keygen", &s->keygen, &c->err) < 0) {
        tc_err_set(&c->err, TC_E_NOT_FOUND, "no ssh-keygen program is installed here");
        return tc_err_hint(&c->err, "install OpenSSH's client (openssh-client)");
    }
    return 0;
}

int demo_sshd_start(cli *c, demo_sshd *s)
{
    *s = (demo_sshd){.child = TCI_CHILD_NONE};
    int rc = find_programs(c, s);
    if (rc == 0)
        rc = name_files(c, s);
    if (rc == 0)
        rc = make_key(c, s, s->host_key);
    if (rc == 0)
        rc = make_key(c, s, s->user_key);
    if (rc == 0)
        rc = read_fingerprint(c, s);
    if (rc == 0)
        rc = allow_user_key(c, s);
    if (rc == 0)
        rc = write_file(c, s->client_config, TC_STR("# of nobody's\n"));
    if (rc == 0)
        make_run_folder(c);
    /* The port may be taken between our look and the server's: then it ends, and another is tried. */
    for (int i = 0; rc >= 0 && i < START_TRIES; i++) {
        rc = start_once(c, s);
        if (rc <= 0)
            return rc;
        demo_reap(&s->child);
    }
    return rc > 0 ? demo_ended_early(c, s->log, "the SSH server") : rc;
}

tc_ssh_target demo_sshd_target(const demo_sshd *s)
{
    return (tc_ssh_target){.size = sizeof(tc_ssh_target),
                           .host = TC_STR("127.0.0.1"),
                           .port = s->port,
                           .identity_file = s->user_key,
                           .no_agent = true,
                           .known_hosts_file = s->known_hosts,
                           .host_key_alias = TC_STR("telechir-demo"),
                           .config_file = s->client_config};
}

/* ---- the end ---- */

/* The processes of sshd below pid: it has one or two for each connection. */
static size_t kill_below(int pid, int depth)
{
    enum { CHILDREN_MAX = 64, DEPTH_MAX = 3 };
    int children[CHILDREN_MAX];
    size_t killed = 0;
    long n = depth < DEPTH_MAX ? tci_proc_children(pid, children, CHILDREN_MAX) : 0;
    for (long i = 0; i < n && i < CHILDREN_MAX; i++) {
        tci_proc_stat st;
        if (!tci_proc_stat_read(children[i], &st) || strncmp(st.name, "sshd", 4) != 0)
            continue;
        killed += kill_below(st.pid, depth + 1);
        killed += tci_proc_signal(st.pid, st.start_ticks, TCI_SIG_KILL) ? 1 : 0;
    }
    return killed;
}

size_t demo_sshd_cut(const demo_sshd *s)
{
    return kill_below(s->child.pid, 0);
}

void demo_sshd_stop(cli *c, demo_sshd *s)
{
    /* Ends the connections, and waits for them, before the server and the folder go. */
    tc_runtime_close(c->rt);
    c->rt = NULL;
    if (s->child.pid != 0)
        (void)demo_sshd_cut(s);
    demo_end_child(&s->child);
    if (s->base.len > 0)
        tci_env_remove_folder(s->base);
}
