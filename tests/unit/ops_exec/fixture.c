/* SPDX-License-Identifier: Apache-2.0
 *
 * See fixture.h. */
#include "base/num.h"
#include "fixture.h"

#include "plat/clock.h"
#include "plat/env.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const fix_mode fix_modes[FIX_MODES] = {FIX_CGROUP, FIX_MARK, FIX_LIBRARY};

enum { DEFAULT_CEILING = 256 * 1024 * 1024, WAIT_MS = 30000 };

int fix_setup(void **state)
{
    tc_err err;
    fix *f = tci_new(fix);
    assert_non_null(f);
    f->mode = *(const fix_mode *)*state;
    tci_ptree_opts opts = {.is_program = f->mode != FIX_LIBRARY,
                           .no_cgroup = f->mode != FIX_CGROUP};
    assert_int_equal(tci_loop_new(&f->loop, &err), 0);
    assert_int_equal(tci_ptree_host_new(f->loop, &opts, &f->trees, &err), 0);
    assert_int_equal(tci_exec_host_new(f->loop, f->trees, &f->host, &err), 0);
    f->root = TCI_FILE_NONE;
    if (tci_file_mkdir(TCI_FILE_CWD, TC_STR("spool"), 0700, &err) < 0)
        assert_int_equal(err.code, TC_E_CONFLICT);
    assert_int_equal(tci_file_openat(TCI_FILE_CWD, TC_STR("spool"),
                                     TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &f->root, &err),
                     0);
    f->dir.dir_fd = f->root.fd;
    f->device = (tci_spool_quota){.max_bytes = 4ULL << 30, .max_objects = 65536};
    f->session =
        (tci_spool_quota){.parent = &f->device, .max_bytes = 1ULL << 30, .max_objects = 16384};
    *state = f;
    return 0;
}

int fix_teardown(void **state)
{
    fix *f = *state;
    /* Everything charged has been given back, and no file was left. */
    assert_int_equal(f->device.used_bytes, 0);
    assert_int_equal(f->device.used_objects, 0);
    assert_int_equal(count_entries("spool"), 0);
    assert_int_equal(tci_exec_host_count(f->host), 0);
    tci_exec_host_free(f->host);
    tci_ptree_host_free(f->trees);
    tci_loop_free(f->loop);
    tci_file_close(&f->root);
    tci_free(f);
    return 0;
}

fix *fix_of(void **state)
{
    fix *f = *state;
    if (f->mode == FIX_CGROUP && !tci_ptree_host_has_cgroups(f->trees)) {
        print_message("skipped: no version 2 control group is writable here\n");
        skip();
    }
    return f;
}

tci_exec_opts fix_opts(void)
{
    return TCI_EXEC_OPTS_NONE;
}

static void on_started(tci_exec *exec, int rc, const tc_err *err)
{
    run *r = tci_exec_user(exec);
    TCI_UNUSED(err);
    assert_false(r->has_started);
    r->has_started = true;
    r->started_rc = rc;
}

static void on_exit_cb(tci_exec *exec)
{
    run *r = tci_exec_user(exec);
    assert_true(r->has_started);
    assert_false(r->has_exit);
    r->has_exit = true;
    r->at_exit = tci_exec_status_of(exec);
    assert_true(tci_exec_phase_is_terminal(r->at_exit.phase));
}

static void on_done(tci_exec *exec)
{
    run *r = tci_exec_user(exec);
    const tci_ptree_proc *procs;
    size_t n;
    assert_true(r->has_exit);
    r->is_done = true;
    r->ended_ns = tci_clock_mono_ns();
    r->status = tci_exec_status_of(exec);
    r->nleft = tci_exec_left(exec, &procs, &n);
    r->left_pid = n > 0 ? procs[0].pid : 0;
    r->nsurvivors = tci_exec_survivors(exec, &procs, &n);
    tc_str failure = tci_exec_failure(exec);
    (void)snprintf(r->failure, sizeof r->failure, "%.*s", TC_STR_ARG(failure));
    tci_exec_free(exec);
    r->exec = NULL;
}

static tci_spool *new_spool(run *r)
{
    tc_err err;
    char name[32];
    tci_spool *spool;
    int len = snprintf(name, sizeof name, "output-%u", ++r->f->nspools);
    assert_int_equal(tci_spool_new(&r->f->dir, tci_str_of(name, (size_t)len),
                                   r->ceiling != 0 ? r->ceiling : DEFAULT_CEILING, &r->f->session,
                                   &spool, &err),
                     0);
    return spool;
}

void run_argv(run *r, fix *f, const char *const *argv, tci_exec_opts opts)
{
    tc_err err;
    r->f = f;
    if (opts.on_output == NULL) {
        r->out = new_spool(r);
        r->err = new_spool(r);
    }
    opts.program = argv[0];
    opts.argv = argv;
    if (opts.envp == NULL)
        opts.envp = (const char *const *)tci_env_list();
    opts.out = r->out;
    opts.err = r->err;
    opts.user = r;
    opts.on_started = on_started;
    opts.on_exit = on_exit_cb;
    opts.on_done = on_done;
    r->started_ns = tci_clock_mono_ns();
    int rc = tci_exec_start(f->host, &opts, &r->exec, &err);
    if (rc < 0)
        print_message("start: %s\n", err.msg);
    assert_int_equal(rc, 0);
    assert_false(r->has_started);
}

void run_start(run *r, fix *f, const char *script, tci_exec_opts opts)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    run_argv(r, f, argv, opts);
}

void fix_wait_for(fix *f, const bool *flag, int64_t limit_ms)
{
    int64_t end_ns = tci_clock_mono_ns() + limit_ms * 1000000;
    while (!*flag) {
        if (tci_clock_mono_ns() > end_ns)
            fail_msg("still waiting after %lld ms", (long long)limit_ms);
        tci_loop_turn(f->loop, 100);
    }
}

void run_wait(run *r, int64_t limit_ms)
{
    fix_wait_for(r->f, &r->is_done, limit_ms);
}

void run_script(run *r, fix *f, const char *script)
{
    run_start(r, f, script, fix_opts());
    run_wait(r, WAIT_MS);
}

int64_t run_limited(run *r, fix *f, const char *script, tci_exec_opts opts, const char *name)
{
    enum { LEAST_MS = 500, MOST_MS = 32000 };
    for (int64_t limit_ms = LEAST_MS;; limit_ms *= 2) {
        opts.wall_time_ms = limit_ms;
        run_start(r, f, script, opts);
        run_wait(r, limit_ms + WAIT_MS);
        if (file_exists(name) || limit_ms >= MOST_MS)
            return limit_ms;
        run_done(r);
        *r = (run){0};
    }
}

static void on_abandoned(void *user)
{
    run *r = user;
    r->is_done = true;
}

void run_done(run *r)
{
    if (r->exec != NULL) {
        tci_exec_abandon(r->exec, on_abandoned, r);
        r->exec = NULL;
        run_wait(r, WAIT_MS);
    }
    tci_spool_free(r->out);
    tci_spool_free(r->err);
    r->out = r->err = NULL;
}

char *spool_text(const tci_spool *spool)
{
    tc_err err;
    size_t len = (size_t)tci_spool_info_of(spool).retained_bytes, got = 0;
    char *text = tci_mem_alloc(len + 1);
    assert_non_null(text);
    assert_int_equal(tci_spool_read(spool, 0, text, len, &got, &err), 0);
    assert_int_equal(got, len);
    return text;
}

int pid_in_file(fix *f, const char *name)
{
    int64_t end_ns = tci_clock_mono_ns() + 30000000000;
    for (;;) {
        char line[32] = "";
        FILE *in = fopen(name, "r");
        bool is_whole =
            in != NULL && fgets(line, sizeof line, in) != NULL && strchr(line, '\n') != NULL;
        if (in != NULL)
            (void)fclose(in);
        int64_t pid;
        tc_err err;
        tc_str text = tci_str(line);
        if (is_whole && tci_num_i64(tci_str_sub(text, 0, text.len - 1), &pid, &err) == 0)
            return (int)pid;
        if (tci_clock_mono_ns() > end_ns)
            fail_msg("no pid in %s", name);
        tci_loop_turn(f->loop, 10);
    }
}

bool is_alive(int pid)
{
    tci_proc_stat st;
    return tci_proc_stat_read(pid, &st) && st.state != 'Z' && st.state != 'X';
}

bool file_exists(const char *name)
{
    return access(name, F_OK) == 0;
}

size_t count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    size_t n = 0;
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

size_t count_zombies(void)
{
    int pids[1024];
    size_t n = 0;
    long nall = tci_proc_all(pids, TCI_ARRAY_LEN(pids));
    for (long i = 0; i < nall && i < (long)TCI_ARRAY_LEN(pids); i++) {
        tci_proc_stat st;
        n += tci_proc_stat_read(pids[i], &st) && st.ppid == tci_proc_self() && st.state == 'Z';
    }
    return n;
}
