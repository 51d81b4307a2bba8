/* SPDX-License-Identifier: Apache-2.0
 *
 * Running commands in tests: one loop with everything a command needs, in each way of holding
 * trees. */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/exec.h"
#include "plat/file.h"

typedef enum fix_mode {
    FIX_CGROUP,  /* cgroups */
    FIX_MARK,    /* marks, as a subreaper */
    FIX_LIBRARY, /* marks, in somebody else's process */
    FIX_MODES
} fix_mode;

typedef struct fix {
    fix_mode mode;
    tci_loop *loop;
    tci_ptree_host *trees;
    tci_exec_host *host;
    tci_file root;
    tci_spool_dir dir;
    tci_spool_quota device, session;
    unsigned nspools;
} fix;

/* A command, and what has become of it. */
typedef struct run {
    fix *f;
    tci_exec *exec; /* NULL once done */
    tci_spool *out, *err;
    uint64_t ceiling; /* per stream; 0: 256 MiB */
    bool is_done, has_started, has_exit;
    int started_rc;
    tci_exec_status at_exit, status;
    int64_t started_ns, ended_ns; /* monotonic; ended: on_done */
    size_t nleft, nsurvivors;
    int left_pid; /* the first named one */
    char failure[160];
} run;

int fix_setup(void **state); /* *state: points to a fix_mode; becomes a fix */
int fix_teardown(void **state);
fix *fix_of(void **state);
tci_exec_opts fix_opts(void);

/* sh -c script. The opts may be changed before; out, err, callbacks and user are set here. */
void run_start(run *r, fix *f, const char *script, tci_exec_opts opts);
void run_argv(run *r, fix *f, const char *const *argv, tci_exec_opts opts);
/* Turn the loop until done; fails the test after limit_ms. */
void run_wait(run *r, int64_t limit_ms);
/* Until *flag. */
void fix_wait_for(fix *f, const bool *flag, int64_t limit_ms);
void run_script(run *r, fix *f, const char *script); /* start with defaults, and wait */
/* Also when it still runs. */
void run_done(run *r);

/* All of a stream, NUL-terminated, to be tci_free'd. */
char *spool_text(const tci_spool *spool);
#define assert_output(spool, text)          \
    do {                                    \
        char *text_ = spool_text(spool);    \
        assert_string_equal(text_, (text)); \
        tci_free(text_);                    \
    } while (0)

/* Run with a limit on its time, to the end, and return that limit: the least of half a second, one,
 * two... that leaves the script the time to write the file name. */
int64_t run_limited(run *r, fix *f, const char *script, tci_exec_opts opts, const char *name);

/* The number a command has written to a file of this folder; waits until it is there. */
int pid_in_file(fix *f, const char *name);
bool is_alive(int pid); /* and no zombie */
bool file_exists(const char *name);
size_t count_entries(const char *dir);
/* Own children that have ended and are not reaped. */
size_t count_zombies(void);

/* Programs this test program turns into when it is started with an argument. */
int as_pid1(bool no_cgroup);
int as_terminal_program(void);

int run_exec_tests(void);
int run_exec_io_tests(void);
int run_exec_tree_tests(void);

/* One test in each mode. */
#define IN_ALL_MODES(test)                                                                  \
    {#test " (cgroup)", test, fix_setup, fix_teardown, (void *)(uintptr_t)&fix_modes[0]},   \
        {#test " (mark)", test, fix_setup, fix_teardown, (void *)(uintptr_t)&fix_modes[1]}, \
    {                                                                                       \
#test " (library)", test, fix_setup, fix_teardown, (void *)(uintptr_t)&fix_modes[2] \
    }
#define IN_ONE_MODE(test)                                                      \
    {                                                                          \
#test, test, fix_setup, fix_teardown, (void *)(uintptr_t)&fix_modes[1] \
    }
extern const fix_mode fix_modes[FIX_MODES];

#endif
