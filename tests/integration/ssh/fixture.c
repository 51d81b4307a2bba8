/* SPDX-License-Identifier: Apache-2.0
 *
 * The fixture of the ssh tests. */
#include "fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "plat/clock.h"
#include "plat/fd.h"

fixture fix;
static unsigned logins_before;

const char *path_of(const char *name)
{
    static char paths[16][4096];
    static unsigned next;
    char *p = paths[next++ % 16];
    snprintf(p, sizeof paths[0], "%s/%s", fix.dir, name);
    return p;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *f)
{
    TCI_UNUSED(st);
    TCI_UNUSED(kind);
    TCI_UNUSED(f);
    remove(path);
    return 0;
}

void run_cleanup(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

int run_command(const char *command)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

unsigned count_names(const char *folder, const char *prefix, char ret[256])
{
    unsigned n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 && strcmp(e->d_name, ".") != 0 &&
            strcmp(e->d_name, "..") != 0) {
            n++;
            if (ret != NULL)
                snprintf(ret, 256, "%s", e->d_name);
        }
    if (d != NULL)
        closedir(d);
    return n;
}

const char *deployed_folder(void)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/.cache/telechir", fix.sshd.home);
    return path;
}

unsigned nlogins(void)
{
    return tc_sshd_log_count(&fix.sshd, "Accepted publickey") - logins_before;
}

void mark_logins(void)
{
    logins_before = tc_sshd_log_count(&fix.sshd, "Accepted publickey");
}

/* Says the sync line, then who it is in one line, then repeats its input. */
void write_daemon(const char *extra)
{
    char text[8192];
    snprintf(text, sizeof text,
             "#!/bin/sh\n%s\n"
             "if [ \"$1\" = --version ]; then echo 'stand-in 1'; exit 0; fi\n"
             "printf 'PI-ENV %%s\\n' \"$3\"\n"
             "echo \"|argv=$*|home=$HOME|pwd=$(pwd)|umask=$(umask)|X=$X|pid=$$|self=$0|"
             "env=$(env | cut -d= -f1 | sort | tr '\\n' ' ')|\"\n"
             "exec cat\n",
             extra);
    tc_test_write(fix.daemon, text, 0755);
}

static void on_log(void *user, tc_str text)
{
    TCI_UNUSED(user);
    size_t n = tci_min_size(text.len, sizeof fix.log - 1 - fix.log_len);
    memcpy(fix.log + fix.log_len, text.ptr, n);
    fix.log_len += n;
    fix.log[fix.log_len] = '\0';
}

const char *fixture_start(const char *prepare)
{
    snprintf(fix.dir, sizeof fix.dir, "%s", getenv("TC_TEST_DIR"));
    return tc_sshd_start(&fix.sshd, path_of("sshd"), prepare);
}

void fixture_stop(void)
{
    tc_sshd_stop(&fix.sshd);
}

static void set_options(void)
{
    snprintf(fix.known_hosts, sizeof fix.known_hosts, "%s", path_of("known/hosts"));
    snprintf(fix.daemon, sizeof fix.daemon, "%s", path_of("stand-in"));
    fix.options = (tc_ssh_options){.size = sizeof fix.options,
                                   .daemon = tci_str(fix.daemon),
                                   .log = on_log,
                                   .target = {.size = sizeof fix.options.target,
                                              .host = TC_STR("127.0.0.1"),
                                              .port = fix.sshd.port,
                                              .user = tci_str(fix.sshd.user),
                                              .identity_file = tci_str(fix.sshd.id),
                                              .known_hosts_file = tci_str(fix.known_hosts),
                                              .host_key_alias = TC_STR("box"),
                                              .config_file = TC_STR("none")}};
    fix.start_ms = 0;
    tc_sshd_trust(&fix.sshd, fix.known_hosts, "box");
    write_daemon("");
}

int setup(void **state)
{
    static unsigned serial;
    char home[64];
    TCI_UNUSED(state);
    snprintf(home, sizeof home, "homes/%u", serial++);
    tc_sshd_login(&fix.sshd, path_of(home), "/bin/sh");
    tc_sshd_before(&fix.sshd, NULL);
    fix.log_len = 0;
    fix.log[0] = '\0';
    set_options();
    assert_int_equal(tc_runtime_open(NULL, &fix.rt, &fix.err), 0);
    assert_int_equal(tc_result_new(&fix.r, &fix.err), 0);
    mark_logins();
    return 0;
}

int teardown(void **state)
{
    TCI_UNUSED(state);
    tc_result_free(fix.r);
    tc_runtime_close(fix.rt);
    fix.rt = NULL;
    return 0;
}

/* ---- starting ---- */

/* Until the stand-in has said its two lines. */
static void hear(started *s)
{
    int64_t deadline_ns = tci_clock_mono_ns() + INT64_C(60000000000);
    size_t len = tci_min_size(s->child.early_len, sizeof s->said - 1);
    memcpy(s->said, s->child.early != NULL ? s->child.early : "", len);
    for (;;) {
        s->said[len] = '\0';
        char *sync = strstr(s->said, "PI-ENV " TOKEN "\n"), *at = sync;
        char *line = at != NULL ? strchr(at, '\n') + 1 : NULL;
        if (line != NULL && strchr(line, '\n') != NULL) {
            snprintf(s->facts, sizeof s->facts, "%s", line);
            return;
        }
        assert_true(tci_clock_mono_ns() < deadline_ns);
        tci_fd_event ev = {.fd = s->child.out_fd, .want_read = true};
        size_t n = 0;
        assert_int_equal(tci_fd_wait(&ev, 1, 1000, &fix.err), 0);
        if (ev.can_read)
            assert_int_equal(
                tci_fd_read(s->child.out_fd, s->said + len, sizeof s->said - 1 - len, &n, &fix.err),
                0);
        len += n;
    }
}

int start(started *s)
{
    tci_pi_launcher launcher;
    tc_ctx *ctx;
    *s = (started){.child = TCI_PI_CHILD_NONE};
    int rc = tci_ssh_launcher_new(fix.rt, &fix.options, fix.start_ms, &launcher, &fix.err);
    if (rc < 0)
        return rc;
    assert_int_equal(tc_ctx_new(60000, &ctx, &fix.err), 0);
    rc = launcher.launch(launcher.user, ctx, TC_STR(TOKEN), &s->child, &fix.err);
    launcher.free(launcher.user);
    tc_ctx_free(ctx);
    if (rc == 0)
        hear(s);
    return rc;
}

void end(started *s)
{
    tci_exit how;
    bool was_lost;
    tci_fd_close(&s->child.in_fd);
    tci_child_reap_wait(&s->child.child, &how, &was_lost);
    tci_fd_close(&s->child.out_fd);
    tci_fd_close(&s->child.err_fd);
    tci_free(s->child.early);
}

const char *start_and_end(void)
{
    static char facts[4096];
    started s;
    int rc = start(&s);
    if (rc < 0)
        print_message("%s: %s (%s)\n", tc_code_name(rc), fix.err.msg, fix.err.hint);
    assert_int_equal(rc, 0);
    end(&s);
    snprintf(facts, sizeof facts, "%s", s.facts);
    return facts;
}

const char *fact(const char *facts, const char *name)
{
    static char value[4096];
    char key[64];
    snprintf(key, sizeof key, "|%s=", name);
    const char *at = strstr(facts, key);
    assert_non_null(at);
    at += strlen(key);
    snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "|"), at);
    return value;
}
