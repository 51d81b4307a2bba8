/* SPDX-License-Identifier: Apache-2.0
 *
 * See run_fixture.h. */
#include "run_fixture.h"

#include "base/num.h"
#include "plat/clock.h"

#include <string.h>
#include <unistd.h>

enum { WAIT_NS_PER_S = 1000000000, WAIT_S = 60 };

const world_mode world_modes[WORLD_MODES] = {WORLD_CGROUP, WORLD_MARK};

int world_setup(void **state)
{
    tc_err err;
    world *w = tci_new(world);
    assert_non_null(w);
    tci_ptree_opts opts = {.is_program = true,
                           .no_cgroup = *(const world_mode *)*state == WORLD_MARK};
    assert_int_equal(tci_loop_new(&w->loop, &err), 0);
    assert_int_equal(tci_ptree_host_new(w->loop, &opts, &w->trees, &err), 0);
    assert_int_equal(tci_exec_host_new(w->loop, w->trees, &w->host, &err), 0);
    tci_arena_init(&w->arena, 0);
    *state = w;
    return 0;
}

int world_teardown(void **state)
{
    world *w = *state;
    assert_int_equal(tci_exec_host_count(w->host), 0);
    tci_exec_host_free(w->host);
    tci_ptree_host_free(w->trees);
    tci_loop_free(w->loop);
    tci_arena_done(&w->arena);
    tci_free(w);
    return 0;
}

tci_run_opts task_opts(void)
{
    tci_run_opts opts = TCI_RUN_OPTS_NONE;
    opts.cwd = TC_STR(".");
    return opts;
}

static int on_output(tci_run *run, tci_exec_stream stream, tc_str text, tc_err *err)
{
    task *t = tci_run_user(run);
    TCI_UNUSED(err);
    assert_true(text.len > 0);
    tci_buf_append_str(&t->out[stream], text);
    tci_buf_append_str(&t->all, text);
    t->nchunks++;
    return 0;
}

static void on_done(tci_run *run, const tci_run_result *result)
{
    task *t = tci_run_user(run);
    assert_false(t->is_done);
    t->is_done = true;
    t->ended_ns = tci_clock_mono_ns();
    t->end = result->end;
    t->exit_code = result->exit_code;
    t->signum = result->signum;
    t->nsurvivors = result->nsurvivors;
    (void)snprintf(t->spill_path, sizeof t->spill_path, "%.*s", TC_STR_ARG(result->spill_path));
    (void)snprintf(t->message, sizeof t->message, "%.*s", TC_STR_ARG(result->message));
    tci_run_free(run);
    t->run = NULL;
}

int task_try(task *t, world *w, tci_run_opts opts, tc_err *err)
{
    *t = (task){.w = w, .started_ns = tci_clock_mono_ns()};
    for (int i = 0; i < STREAMS; i++)
        tci_buf_init(&t->out[i], TCI_BUF_MAX);
    tci_buf_init(&t->all, TCI_BUF_MAX);
    opts.user = t;
    opts.on_output = on_output;
    opts.on_done = on_done;
    int rc = tci_run_start(w->host, &opts, &w->arena, &t->run, err);
    tci_arena_clear(&w->arena);
    return rc;
}

void task_start(task *t, world *w, tci_run_opts opts)
{
    tc_err err;
    int rc = task_try(t, w, opts, &err);
    if (rc < 0)
        print_error("start: %s\n", err.msg);
    assert_int_equal(rc, 0);
}

void task_script(task *t, world *w, const char *script, tci_run_opts opts)
{
    opts.command = tci_str(script);
    task_start(t, w, opts);
}

int task_refused(world *w, tci_run_opts opts, tc_err *err)
{
    tci_run *run = NULL;
    int rc = tci_run_start(w->host, &opts, &w->arena, &run, err);
    tci_arena_clear(&w->arena);
    assert_true(rc < 0);
    assert_null(run);
    assert_int_equal(tci_exec_host_count(w->host), 0);
    return rc;
}

void world_wait(world *w, bool (*is_so)(void *arg), void *arg)
{
    int64_t end_ns = tci_clock_mono_ns() + (int64_t)WAIT_S * WAIT_NS_PER_S;
    while (!is_so(arg)) {
        if (tci_clock_mono_ns() > end_ns)
            fail_msg("nothing came in %d s", WAIT_S);
        tci_loop_turn(w->loop, 50);
    }
}

static bool is_done(void *arg)
{
    const task *t = arg;
    return t->is_done;
}

int64_t task_wait(task *t)
{
    world_wait(t->w, is_done, t);
    return (t->ended_ns - t->started_ns) / 1000000;
}

static void on_abandoned(void *user)
{
    task *t = user;
    t->is_done = true;
}

void task_done(task *t)
{
    if (t->run != NULL) {
        tci_run_abandon(t->run, on_abandoned, t);
        t->run = NULL;
        world_wait(t->w, is_done, t);
    }
    for (int i = 0; i < STREAMS; i++)
        tci_buf_done(&t->out[i]);
    tci_buf_done(&t->all);
}

bool is_running(int pid)
{
    tci_proc_stat st;
    return tci_proc_stat_read(pid, &st) && st.state != 'Z' && st.state != 'X';
}

typedef struct awaited {
    const char *name;
    int number;
} awaited;

static bool has_number(void *arg)
{
    awaited *a = arg;
    char line[32] = "";
    FILE *in = fopen(a->name, "r");
    bool is_whole = in != NULL && fgets(line, sizeof line, in) != NULL;
    if (in != NULL)
        (void)fclose(in);
    tc_str text = tci_str(line);
    tc_err err;
    int64_t number;
    if (!is_whole || !tci_str_ends(text, TC_STR("\n")) ||
        tci_num_i64(tci_str_sub(text, 0, text.len - 1), &number, &err) < 0)
        return false;
    a->number = (int)number;
    return true;
}

int number_in(world *w, const char *name)
{
    awaited a = {.name = name};
    world_wait(w, has_number, &a);
    return a.number;
}

bool is_file(const char *name)
{
    return access(name, F_OK) == 0;
}

void assert_buf(const tci_buf *b, tc_str expected)
{
    if (!tci_str_eq(tci_buf_str(b), expected))
        print_error("got '%.*s', expected '%.*s'\n", TC_STR_ARG(tci_buf_str(b)),
                    TC_STR_ARG(expected));
    assert_true(tci_str_eq(tci_buf_str(b), expected));
}
