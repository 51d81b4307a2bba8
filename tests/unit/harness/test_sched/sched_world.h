/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of the scheduler share: a session with a harness that can be closed, or dropped as a dead
 * process leaves it, and opened again; reports that were given; handlers that wait for the test. */
#ifndef SCHED_WORLD_H
#define SCHED_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "harness/sched/sched_int.h"
#include "plat/clock.h"
#include "store/store.h"

enum { WORLD_WAIT_MS = 30000, NOTES_MAX = 256 };

/* A place in a handler or callback that a test waits for, and lets go on. */
typedef struct gate {
    tci_wake wake;
    atomic_uint narrived, nopen;
} gate;

typedef struct note {
    char text[160];
} note;

typedef struct world {
    char path[512];
    tc_registry *registry;
    tc_harness *h;
    tc_result *r;
    tc_harness_options options;
    tci_run_parts parts;
    atomic_llong now; /* 0: the wall clock */
    uint64_t root;

    tci_mutex lock;
    tci_wake wake;
    note reports[NOTES_MAX]; /* "task_faulted threw kind id" */
    size_t nreports;
    note effects[NOTES_MAX]; /* what handlers did, in order */
    size_t neffects;
    tc_wake last_wake;
    size_t nwakes;
} world;

/* path: empty: in memory, for tests that do not reopen. */
void world_init(world *w, const char *path);
void world_open(world *w);
void world_close(world *w);
/* As if the process died: what is stored when this is called is what a copy under a new path opens
 * with. The dead one is closed where nobody looks. */
void world_kill(world *w);
void world_copy(const char *from, const char *to);
void world_done(world *w);
void world_install(world *w, const char *extension, const tc_task_def *const *defs, size_t n);

uint64_t world_conversation(world *w, uint64_t owner_task);
/* In a commit of its own. */
uint64_t world_task(world *w, const tc_task_def *def, const char *input);
uint64_t world_task_with(world *w, const tc_task_def *def, const char *input,
                         const tc_task_options *options);
void world_resume(world *w);
/* The record's member by pointer, as JSON text; "" when absent. Lives until the next call. */
const char *world_get(world *w, uint64_t id, const char *pointer);
void world_wait_task(world *w, uint64_t id);
void world_wait_idle(world *w, uint64_t conversation);
/* The state an inspection shows, with its reason: "ready", "blocked missing_task". */
const char *world_state(world *w, uint64_t id);
bool world_abort(world *w, uint64_t id);

void world_effect(world *w, const char *fmt, ...) TC_PRINTF(2, 3);
size_t world_count(world *w, const char *effect); /* how many exactly like this */
void world_wait_effect(world *w, const char *effect, size_t n);
void world_wait_report(world *w, const char *report);
size_t world_count_reports(world *w, const char *report);

/* In a handler: arrive and wait to be let through, or for the task's end (CANCELLED). */
int gate_pass(gate *g, tc_task *t, tc_err *err);
void gate_wait(gate *g, unsigned n); /* in the test: until n have arrived */
void gate_open(gate *g, unsigned n); /* let n more through */

/* Short forms for handlers. */
int next_phase(tc_task *t, const char *checkpoint, tc_err *err);
int next_done(tc_task *t, const char *result, tc_err *err);
int next_wait(tc_task *t, const char *checkpoint, const uint64_t *on, size_t n,
              tc_wait_policy policy, tc_err *err);
int abort_plain(tc_task *t, tc_err *err); /* an abort handler */
int initial_start(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint, tc_err *err);
tc_str lit(const char *s);

#define DEF(var, kind, ver, ...)                                                         \
    static const tc_task_phase var##_phases[] = {__VA_ARGS__};                           \
    static tc_task_def var = {.size = sizeof(tc_task_def),                               \
                              .name = kind,                                              \
                              .version = ver,                                            \
                              .initial = initial_start,                                  \
                              .phases = var##_phases,                                    \
                              .nphases = sizeof(var##_phases) / sizeof(var##_phases[0]), \
                              .abort = abort_plain}

#endif
