/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command costs: time per `true`, alone and several at once, beside the bare spawn; and how
 * fast its output is captured. spawn_bench [walk] [rounds]: with "walk" trees are held without
 * cgroups. */
#include "ops/exec.h"
#include "plat/clock.h"
#include "plat/env.h"
#include "plat/fd.h"
#include "plat/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    tci_loop *loop;
    tci_ptree_host *trees;
    tci_exec_host *host;
    tci_spool_dir dir;
    tci_spool_quota quota;
    size_t left, running, nspools;
    const char *script;
} bench;

typedef struct command {
    bench *b;
    tci_exec *exec;
    tci_spool *out, *err;
} command;

static void die(const tc_err *err)
{
    (void)fprintf(stderr, "spawn_bench: %s\n", err->msg);
    exit(1);
}

static tci_spool *new_spool(bench *b)
{
    tc_err err;
    char name[32];
    tci_spool *spool;
    int len = snprintf(name, sizeof name, "output-%zu", ++b->nspools);
    if (tci_spool_new(&b->dir, tci_str_of(name, (size_t)len), 1ULL << 30, &b->quota, &spool, &err) <
        0)
        die(&err);
    return spool;
}

static void start_one(bench *b);

static void on_done(tci_exec *exec)
{
    command *c = tci_exec_user(exec);
    bench *b = c->b;
    tci_exec_status st = tci_exec_status_of(exec);
    if (st.phase != TCI_EXEC_EXITED || st.exit_code != 0 ||
        st.cleanup != TCI_EXEC_CLEANUP_COMPLETE) {
        (void)fprintf(stderr, "spawn_bench: command failed: phase %d\n", (int)st.phase);
        exit(1);
    }
    tci_exec_free(exec);
    tci_spool_free(c->out);
    tci_spool_free(c->err);
    tci_free(c);
    b->running--;
    if (b->left > 0)
        start_one(b);
}

static void start_one(bench *b)
{
    tc_err err;
    command *c = tci_new(command);
    c->b = b;
    c->out = new_spool(b);
    c->err = new_spool(b);
    const char *argv[] = {b->script != NULL ? "/bin/sh" : "/bin/true",
                          b->script != NULL ? "-c" : NULL, b->script, NULL};
    tci_exec_opts opts = TCI_EXEC_OPTS_NONE;
    opts.program = argv[0];
    opts.argv = argv;
    opts.envp = (const char *const *)tci_env_list();
    opts.out = c->out;
    opts.err = c->err;
    opts.wall_time_ms = 60000;
    opts.user = c;
    opts.on_done = on_done;
    if (tci_exec_start(b->host, &opts, &c->exec, &err) < 0)
        die(&err);
    b->left--;
    b->running++;
}

static double run(bench *b, size_t n, size_t at_once, const char *script)
{
    b->left = n;
    b->script = script;
    int64_t from = tci_clock_mono_ns();
    for (size_t i = 0; i < at_once && b->left > 0; i++)
        start_one(b);
    while (b->running > 0)
        tci_loop_turn(b->loop, 1000);
    return (double)(tci_clock_mono_ns() - from) / 1e6;
}

/* The floor: the spawn alone, waited for by the simplest means. */
static double bare(size_t n)
{
    tc_err err;
    const char *argv[] = {"/bin/true", NULL};
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    opts.program = argv[0];
    opts.argv = argv;
    opts.envp = (const char *const *)tci_env_list();
    int64_t from = tci_clock_mono_ns();
    for (size_t i = 0; i < n; i++) {
        tci_child child;
        tci_exit how;
        bool was_lost;
        if (tci_spawn(&opts, &child, &err) < 0)
            die(&err);
        tci_child_reap_wait(&child, &how, &was_lost);
    }
    return (double)(tci_clock_mono_ns() - from) / 1e6;
}

/* Pages of ours in memory. */
static unsigned long resident(void)
{
    unsigned long total = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%lu %lu", &total, &pages) != 2)
        pages = 0;
    if (f != NULL)
        (void)fclose(f);
    return pages;
}

static double running_kib(bench *b, size_t n)
{
    unsigned long before = resident();
    b->left = n;
    b->script = "sleep 1";
    for (size_t i = 0; i < n; i++)
        start_one(b);
    double kib = (double)(resident() - before) * 4 / (double)n;
    while (b->running > 0)
        tci_loop_turn(b->loop, 1000);
    return kib;
}

int main(int argc, char **argv)
{
    tc_err err;
    bench b = {.quota = {.max_bytes = 1ULL << 40, .max_objects = 1000}};
    tci_ptree_opts tree_opts = {.is_program = true,
                                .no_cgroup = argc > 1 && strcmp(argv[1], "walk") == 0};
    char dir[64];
    (void)snprintf(dir, sizeof dir, "/tmp/spawn_bench.%d", tci_proc_self());
    tci_file root = TCI_FILE_NONE;
    if (tci_file_mkdir(TCI_FILE_CWD, tci_str(dir), 0700, &err) < 0 ||
        tci_file_open(tci_str(dir), TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &root, &err) < 0 ||
        tci_loop_new(&b.loop, &err) < 0 ||
        tci_ptree_host_new(b.loop, &tree_opts, &b.trees, &err) < 0 ||
        tci_exec_host_new(b.loop, b.trees, &b.host, &err) < 0)
        die(&err);
    b.dir.dir_fd = root.fd;
    enum { ROUNDS = 1000, MIB = 192 };
    printf("trees held by %s\n", tci_ptree_host_has_cgroups(b.trees) ? "cgroups" : "marks");
    printf("memory per running one    %7.1f KiB\n", running_kib(&b, 128));
    for (int i = 0; i < 3; i++) {
        printf("bare spawn of true        %7.3f ms\n", bare(ROUNDS) / ROUNDS);
        printf("true, one at a time       %7.3f ms\n", run(&b, ROUNDS, 1, NULL) / ROUNDS);
        printf("true, 8 in flight         %7.3f ms each\n", run(&b, ROUNDS, 8, NULL) / ROUNDS);
        printf("100 started at once       %7.1f ms in all\n", run(&b, 100, 100, NULL));
        printf("head | tr, 192 MiB        %7.0f MiB/s\n",
               MIB / (run(&b, 1, 1, "head -c 201326592 /dev/zero | tr '\\0' a") / 1e3));
        printf("cat /dev/zero, 192 MiB    %7.0f MiB/s\n",
               MIB / (run(&b, 1, 1, "head -c 201326592 /dev/zero") / 1e3));
    }
    tci_exec_host_free(b.host);
    tci_ptree_host_free(b.trees);
    tci_loop_free(b.loop);
    tci_file_close(&root);
    if (tci_file_rmdir(TCI_FILE_CWD, tci_str(dir), &err) < 0)
        die(&err);
    return 0;
}
