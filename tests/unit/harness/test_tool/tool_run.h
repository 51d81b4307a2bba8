/* SPDX-License-Identifier: Apache-2.0
 *
 * A harness with a model that follows a script and tools of the test, over a session that can be closed,
 * opened again, and copied as it is at a moment (as a crash would leave it). */
#ifndef TC_TEST_TOOL_RUN_H
#define TC_TEST_TOOL_RUN_H

#include "tool_world.h"

#include "harness/calls/approval.h"
#include <telechir/model.h>

enum { TURNS_MAX = 8, EXTENSIONS_MAX = 4, REPORTS_MAX = 32 };

typedef struct run {
    world *w;
    char path[2200]; /* of the session */
    const char *suffix;
    tc_registry *registry;
    tc_durable *durable; /* the harness's */
    tc_harness *h, *left_h;
    tc_registry *left_registry;
    tc_models models;
    /* set before run_open */
    const tc_extension *extensions[EXTENSIONS_MAX];
    size_t nextensions;
    const char
        *turns[TURNS_MAX]; /* content of each answer, JSON; the stop reason follows from it */
    size_t nturns;
    int (*env)(void *user, const tc_env_target *target, tc_ctx *ctx, tc_env **ret_env, tc_err *err);
    void *user;             /* of env */
    uint64_t restart_limit; /* 0: default */
    tc_settings settings;
    uint64_t conversation;
    tci_mutex lock;
    tci_wake news; /* of reports */
    char reports[REPORTS_MAX][200];
    size_t nreports;
    tc_str last_messages; /* what the model was sent last, in last_result */
    tc_result *last_result;
} run;

/* name: of the session's folder in the world. */
void run_init(run *r, world *w, const char *name);
void run_open(run *r);
void run_close(run *r);
void run_done(run *r);
/* What a crash at this moment leaves becomes a session of another name, where run_open goes on; the
 * harness of before is closed. */
void run_crash(run *r, const char *name);
/* The same, but the harness of before goes on, as a program that hangs: until run_close_left. */
void run_crash_and_leave(run *r, const char *name);
void run_close_left(run *r);

uint64_t run_submit(run *r, const char *text);
/* Submit, and wait for the end of the run. */
tc_submission run_prompt(run *r, const char *text);
/* The entries of a kind, oldest first: the nth; empty: none. */
tc_str run_entry(run *r, const char *kind, size_t nth);
/* Its first message's content as one text. */
tc_str run_result_text(run *r, size_t nth);
/* "pi.live", JSON. */
tc_str run_live(run *r);
/* Until something with these words in it was reported. */
void run_wait_report(run *r, const char *words);

/* Something happened in a tool or was allowed to. */
typedef struct signal {
    tci_mutex lock;
    tci_wake wake;
    unsigned count;
} signal;
void signal_init(signal *s);
void signal_set(signal *s);
/* Until it was set n times; fails the test after a while. False: ctx ended. */
bool signal_wait(signal *s, unsigned n, tc_ctx *ctx);

#endif
