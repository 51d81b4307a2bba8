/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting processes: descriptors, signals, session, folder, scripts, threads. */
#include "tests_spool.h"

#include "base/str.h"
#include "plat/clock.h"
#include "plat/env.h"
#include "plat/fd.h"
#include "plat/proc.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Run sh -c script and return its output, at most 4095 bytes. */
static void output_of(const char *script, tci_spawn_opts opts, char out[4096], tci_exit *ret_exit)
{
    tc_err err;
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    int pair[2];
    assert_int_equal(tci_fd_pipe(pair, &err), 0);
    if (opts.program == NULL) {
        opts.program = argv[0];
        opts.argv = argv;
    }
    opts.envp = (const char *const *)tci_env_list();
    opts.stdio[1] = pair[1];
    tci_child child;
    int rc = tci_spawn(&opts, &child, &err);
    if (rc < 0)
        print_message("%s\n", err.msg);
    assert_int_equal(rc, 0);
    tci_fd_close(&pair[1]);
    size_t len = 0, n = 0;
    while (len < 4095 && tci_fd_read(pair[0], out + len, 4095 - len, &n, &err) == 0)
        len += n;
    out[len] = '\0';
    tci_fd_close(&pair[0]);
    bool was_lost;
    tci_child_reap_wait(&child, ret_exit, &was_lost);
    assert_false(was_lost);
    assert_int_equal(child.pidfd, -1);
}

static void only_the_descriptors_meant_for_it(void **state)
{
    TCI_UNUSED(state);
    char out[4096];
    tci_exit how;
    int leak = dup(0), more[2]; /* not close-on-exec */
    assert_true(leak > 2);
    FILE *a = tmpfile(), *b = tmpfile();
    assert_true(a != NULL && b != NULL);
    (void)fputs("first", a);
    (void)fputs("second", b);
    rewind(a);
    rewind(b);
    more[0] = fileno(a);
    more[1] = fileno(b);
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    opts.more_fds = more;
    opts.nmore_fds = 2;
    output_of("for f in /proc/$$/fd/*; do [ -e $f ] && printf '%s ' ${f##*/}; done; echo; cat <&3; "
              "cat <&4",
              opts, out, &how); /* what the shell had open while it listed is gone when it looks */
    assert_string_equal(out, "0 1 2 3 4 \nfirstsecond");
    (void)close(leak);
    (void)fclose(a);
    (void)fclose(b);

    /* Sources that lie where others have to go. */
    int low[2];
    tc_err err;
    assert_int_equal(tci_fd_pipe(low, &err), 0);
    assert_int_equal(tci_fd_write_all(low[1], "x", 1, &err), 0);
    tci_fd_close(&low[1]);
    int swapped[] = {2, low[0]};
    opts.more_fds = swapped;
    opts.stdio[2] = low[0];
    output_of("cat <&2; [ -e /proc/$$/fd/3 ] && [ -e /proc/$$/fd/4 ] && echo y", opts, out, &how);
    assert_string_equal(out, "xy\n");
    tci_fd_close(&low[0]);
}

static void signals_are_as_new(void **state)
{
    TCI_UNUSED(state);
    char out[4096];
    tci_exit how;
    sigset_t blocked, before, after;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGUSR1);
    (void)sigaddset(&blocked, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &blocked, &before);
    void (*old_pipe)(int) = signal(SIGPIPE, SIG_IGN);
    void (*old_hup)(int) = signal(SIGHUP, SIG_IGN);
    output_of("while read k v; do case $k in Sig[BI]*) echo $k $v;; esac; done </proc/self/status",
              TCI_SPAWN_OPTS_NONE, out, &how);
    (void)pthread_sigmask(SIG_SETMASK, &before, &after);
    (void)signal(SIGPIPE, old_pipe);
    (void)signal(SIGHUP, old_hup);
    assert_int_equal(sigismember(&after, SIGUSR1), 1); /* ours is as it was */
    assert_string_equal(out, "SigBlk: 0000000000000000\nSigIgn: 0000000000000000\n");
}

static void session_folder_and_script(void **state)
{
    TCI_UNUSED(state);
    char out[4096];
    tci_exit how;
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    opts.flags = TCI_SPAWN_SESSION;
    opts.cwd = "/usr/bin";
    output_of("read pid name state ppid group session x </proc/$$/stat; "
              "[ $group = $$ ] && [ $session = $$ ] && pwd",
              opts, out, &how);
    assert_string_equal(out, "/usr/bin\n");
    opts.cwd = NULL;
    opts.cwd_fd = open("/usr", O_RDONLY | O_DIRECTORY);
    output_of("pwd -P", opts, out, &how);
    assert_string_equal(out, "/usr\n");
    (void)close(opts.cwd_fd);

    FILE *f = fopen("script", "w"); /* no "#!" */
    assert_non_null(f);
    (void)fputs("echo \"$# $1 $2\"; exit 7\n", f);
    (void)fclose(f);
    assert_int_equal(chmod("script", 0700), 0);
    char path[4200], cwd[4096];
    assert_non_null(getcwd(cwd, sizeof cwd));
    (void)snprintf(path, sizeof path, "%s/script", cwd);
    const char *argv[] = {path, "one", "two words", NULL};
    tci_spawn_opts script = TCI_SPAWN_OPTS_NONE;
    script.program = path;
    script.argv = argv;
    output_of(NULL, script, out, &how);
    assert_string_equal(out, "2 one two words\n");
    assert_int_equal(how.code, 7);
    (void)remove("script");
}

static void failures_leave_nothing(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_child child = TCI_CHILD_NONE;
    const char *argv[] = {"x", NULL}, *envp[] = {NULL};
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    opts.argv = argv;
    opts.envp = envp;
    opts.program = "/does/not/exist";
    assert_int_equal(tci_spawn(&opts, &child, &err), TC_E_NOT_FOUND);
    assert_int_equal(err.os, 2);
    opts.program = "/etc/passwd";
    assert_int_equal(tci_spawn(&opts, &child, &err), TC_E_DENIED);
    opts.program = "relative";
    assert_int_equal(tci_spawn(&opts, &child, &err), TC_E_INVALID);
    opts.program = "/bin/true";
    opts.cwd = "/does/not/exist";
    assert_int_equal(tci_spawn(&opts, &child, &err), TC_E_NOT_FOUND);
    assert_int_equal(child.pid, 0);
    assert_int_equal(tci_proc_next_zombie(), 0);
}

static void what_proc_says(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_proc_stat st;
    tci_child child;
    tci_exit how;
    bool was_lost;
    /* A name made to mislead whoever looks for the end of it. */
    int src = open("/bin/sleep", O_RDONLY),
        dst = open(") S 1 1", O_WRONLY | O_CREAT | O_TRUNC, 0700);
    assert_true(src >= 0 && dst >= 0);
    char buf[65536];
    for (ssize_t n; (n = read(src, buf, sizeof buf)) > 0;)
        assert_int_equal(write(dst, buf, (size_t)n), n);
    (void)close(src);
    (void)close(dst);
    char path[4200], cwd[4096];
    assert_non_null(getcwd(cwd, sizeof cwd));
    (void)snprintf(path, sizeof path, "%s/) S 1 1", cwd);
    const char *argv[] = {path, "100", NULL}, *envp[] = {NULL};
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    opts.program = path;
    opts.argv = argv;
    opts.envp = envp;
    opts.flags = TCI_SPAWN_SESSION;
    opts.mark = 123456789;
    assert_int_equal(tci_spawn(&opts, &child, &err), 0);
    assert_true(tci_proc_stat_read(child.pid, &st));
    assert_string_equal(st.name, ") S 1 1");
    assert_int_equal(st.ppid, tci_proc_self());
    assert_int_equal(st.pgid, child.pid);
    assert_int_equal(st.sid, child.pid);
    assert_int_equal(tci_proc_mark(child.pid), 123456789);
    assert_int_equal(tci_proc_mark(tci_proc_self()), 0);
    int pids[8];
    assert_int_equal(tci_proc_children(tci_proc_self(), pids, 8), 1);
    assert_int_equal(pids[0], child.pid);
    assert_false(tci_child_peek(&child, &how, &was_lost));
    assert_false(tci_proc_signal(child.pid, st.start_ticks + 1, SIGKILL)); /* not that one */
    assert_true(tci_proc_signal(child.pid, st.start_ticks, SIGTERM));
    tci_child_reap_wait(&child, &how, &was_lost);
    assert_true(how.is_signal);
    assert_int_equal(how.signum, SIGTERM);
    assert_false(tci_proc_stat_read(st.pid, &st));
    (void)remove(") S 1 1");
}

static void *spawn_many(void *arg)
{
    int *nfine = arg;
    const char *argv[] = {"/bin/sh", "-c", "exit 5", NULL}, *envp[] = {NULL};
    for (int i = 0; i < 50; i++) {
        tc_err err;
        tci_child child;
        tci_exit how;
        bool was_lost;
        tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
        opts.program = argv[0];
        opts.argv = argv;
        opts.envp = envp;
        if (tci_spawn(&opts, &child, &err) < 0)
            continue;
        tci_child_reap_wait(&child, &how, &was_lost);
        *nfine += !was_lost && !how.is_signal && how.code == 5;
    }
    return NULL;
}

static void from_several_threads(void **state)
{
    TCI_UNUSED(state);
    enum { NTHREADS = 4 };
    pthread_t threads[NTHREADS];
    int nfine[NTHREADS] = {0};
    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, spawn_many, &nfine[i]), 0);
    for (int i = 0; i < NTHREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(nfine[i], 50);
    }
}

static void environment_copy(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_arena a;
    tci_arena_init(&a, 0);
    const char *const *envp;
    size_t n;
    assert_int_equal(tci_environ_snapshot(&a, &envp, &n, &err), 0);
    assert_null(envp[n]);
    assert_string_equal(tci_environ_get(envp, "PATH"), tci_env_get("PATH"));
    assert_null(tci_environ_get(envp, "PAT"));
    tci_arena_done(&a);
}

int run_spawn_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_descriptors_meant_for_it),
        cmocka_unit_test(signals_are_as_new),
        cmocka_unit_test(session_folder_and_script),
        cmocka_unit_test(failures_leave_nothing),
        cmocka_unit_test(what_proc_says),
        cmocka_unit_test(from_several_threads),
        cmocka_unit_test(environment_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
