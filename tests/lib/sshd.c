/* SPDX-License-Identifier: Apache-2.0
 *
 * The C side of tests/lib/sshd. */
#include "sshd.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static _Noreturn void die(const char *what, const char *about)
{
    fprintf(stderr, "sshd helper: %s '%s': %s\n", what, about, strerror(errno));
    exit(1);
}

static void join(char *out, size_t size, const char *a, const char *b)
{
    int n = snprintf(out, size, "%s/%s", a, b);
    if (n < 0 || (size_t)n >= size)
        die("too long a path", a);
}

static void make_folders(const char *path)
{
    char copy[4096];
    int n = snprintf(copy, sizeof copy, "%s", path);
    if (n < 0 || (size_t)n >= sizeof copy)
        die("too long a path", path);
    for (char *p = copy + 1; *p != '\0'; p++)
        if (*p == '/') {
            *p = '\0';
            if (mkdir(copy, 0755) < 0 && errno != EEXIST)
                die("cannot make", copy);
            *p = '/';
        }
}

void tc_test_write(const char *path, const char *text, unsigned mode)
{
    make_folders(path);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t len = strlen(text);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len || fchmod(fd, mode) < 0)
        die("cannot write", path);
    close(fd);
}

const char *tc_test_read(const char *path)
{
    static char text[1 << 20];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    size_t len = 0;
    for (ssize_t n; len < sizeof text - 1 && (n = read(fd, text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)n;
    close(fd);
    text[len] = '\0';
    return text;
}

static const char *read_line(const char *dir, const char *name)
{
    char path[4096];
    join(path, sizeof path, dir, name);
    const char *text = tc_test_read(path);
    if (text == NULL)
        die("cannot read", path);
    char *end = strchr(text, '\n');
    if (end != NULL)
        *end = '\0';
    return text;
}

/* Runs the script; its standard output goes to out. Returns its exit status. */
static int run(const char *verb, const char *dir, const char *prepare, char *out, size_t size)
{
    char *argv[] = {(char *)(uintptr_t)TC_TESTS_LIB "/sshd", (char *)(uintptr_t)verb,
                    (char *)(uintptr_t)dir, (char *)(uintptr_t)prepare, NULL};
    int fds[2], status = 0;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe(fds) < 0)
        die("cannot make", "a pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    posix_spawn_file_actions_addclose(&actions, fds[0]);
    posix_spawn_file_actions_addclose(&actions, fds[1]);
    errno = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    if (errno != 0)
        die("cannot run", argv[0]);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    size_t len = 0;
    for (ssize_t n; len < size - 1 && (n = read(fds[0], out + len, size - 1 - len)) > 0;)
        len += (size_t)n;
    close(fds[0]);
    out[len] = '\0';
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const char *tc_sshd_start(tc_sshd *s, const char *dir, const char *prepare)
{
    static char reason[512];
    memset(s, 0, sizeof *s);
    snprintf(s->dir, sizeof s->dir, "%s", dir);
    join(s->home, sizeof s->home, dir, "home");
    join(s->id, sizeof s->id, dir, "id");
    make_folders(s->id);
    int status = run("start", dir, prepare, reason, sizeof reason);
    char *end = strchr(reason, '\n');
    if (end != NULL)
        *end = '\0';
    if (status == 77)
        return reason;
    if (status != 0) {
        fprintf(stderr, "%s\n", reason);
        exit(1);
    }
    snprintf(s->user, sizeof s->user, "%s", read_line(dir, "user"));
    if (sscanf(read_line(dir, "port"), "%u", &s->port) != 1)
        die("no port in", dir);
    char type[64], base64[400];
    if (sscanf(read_line(dir, "host.pub"), "%63s %399s", type, base64) != 2)
        die("no host key in", dir);
    snprintf(s->host_key, sizeof s->host_key, "%s %s", type, base64);
    s->is_running = true;
    return NULL;
}

void tc_sshd_stop(tc_sshd *s)
{
    char out[256];
    if (s->is_running)
        run("stop", s->dir, NULL, out, sizeof out);
    s->is_running = false;
}

void tc_sshd_login(tc_sshd *s, const char *home, const char *shell)
{
    char path[4096], text[4096];
    if (home != NULL) {
        snprintf(s->home, sizeof s->home, "%s", home);
        snprintf(text, sizeof text, "%s/", home);
        make_folders(text);
    }
    join(path, sizeof path, s->dir, "login.home");
    snprintf(text, sizeof text, "%s\n", s->home);
    tc_test_write(path, text, 0644);
    join(path, sizeof path, s->dir, "login.shell");
    snprintf(text, sizeof text, "%s\n", shell);
    tc_test_write(path, text, 0644);
}

void tc_sshd_before(tc_sshd *s, const char *script)
{
    char path[4096];
    join(path, sizeof path, s->dir, "login.before");
    if (script != NULL)
        tc_test_write(path, script, 0644);
    else
        unlink(path);
}

void tc_sshd_trust(const tc_sshd *s, const char *known_hosts, const char *alias)
{
    char line[1024];
    snprintf(line, sizeof line, "%s %s\n", alias, s->host_key);
    tc_test_write(known_hosts, line, 0600);
}

unsigned tc_sshd_log_count(const tc_sshd *s, const char *text)
{
    char path[4096];
    join(path, sizeof path, s->dir, "log");
    const char *log = tc_test_read(path);
    unsigned n = 0;
    for (const char *p = log; p != NULL && (p = strstr(p, text)) != NULL; p += strlen(text))
        n++;
    return n;
}
