/* SPDX-License-Identifier: Apache-2.0
 *
 * One loop with what commands need, and commands whose output is kept. */
#ifndef RUN_FIXTURE_H
#define RUN_FIXTURE_H

#include "tests_run.h"

#include "base/buf.h"
#include "ops/run.h"

typedef enum world_mode {
    WORLD_CGROUP, /* trees held by control groups, where they can be made */
    WORLD_MARK,   /* by marks */
    WORLD_MODES
} world_mode;
extern const world_mode world_modes[WORLD_MODES];

typedef struct world {
    tci_loop *loop;
    tci_ptree_host *trees;
    tci_exec_host *host;
    tci_arena arena;
} world;

enum { STREAMS = 2 };

/* A command, and what has become of it. */
typedef struct task {
    world *w;
    tci_run *run; /* NULL once done */
    tci_buf out[STREAMS];
    tci_buf all; /* of both, as it came */
    size_t nchunks;
    bool is_done;
    tci_run_end end;
    int exit_code, signum;
    char spill_path[512], message[512];
    size_t nsurvivors;
    int64_t started_ns, ended_ns;
} task;

int world_setup(void **state); /* *state: points to a world_mode; becomes a world */
int world_teardown(void **state);

int task_try(task *t, world *w, tci_run_opts opts, tc_err *err);
/* Fails the test when it cannot be started. */
void task_start(task *t, world *w, tci_run_opts opts);
/* sh's own words. */
void task_script(task *t, world *w, const char *script, tci_run_opts opts);
int64_t task_wait(task *t); /* until done; milliseconds it took since the start */
void task_done(task *t);    /* also when it still runs */
/* Not started: the code. */
int task_refused(world *w, tci_run_opts opts, tc_err *err);
void world_wait(world *w, bool (*is_so)(void *arg), void *arg);

tci_run_opts task_opts(void); /* cwd "." */
bool is_running(int pid);     /* and no zombie */
/* The number a command has written into a file here; waits for it. */
int number_in(world *w, const char *name);
bool is_file(const char *name);

#define assert_out(t, text) assert_buf(&(t)->out[TCI_EXEC_OUT], TC_STR(text))
#define assert_err(t, text) assert_buf(&(t)->out[TCI_EXEC_ERR], TC_STR(text))
void assert_buf(const tci_buf *b, tc_str expected);

#define IN_BOTH(test)                                       \
    {#test " (cgroup)", test, world_setup, world_teardown,  \
     (void *)(uintptr_t)&world_modes[WORLD_CGROUP]},        \
    {                                                       \
#test " (mark)", test, world_setup, world_teardown, \
            (void *)(uintptr_t)&world_modes[WORLD_MARK]     \
    }
#define IN_MARK(test)                                                                         \
    {                                                                                         \
#test, test, world_setup, world_teardown, (void *)(uintptr_t)&world_modes[WORLD_MARK] \
    }

#endif
