/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of runs share: a harness with a scripted model, some tools and a clock that counts, which
 * can be closed, or dropped as a dead process leaves it, and opened again. */
#ifndef RUN_WORLD_H
#define RUN_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "harness/conversation.h"
#include "run_model.h"
#include <telechir/tool.h>

#define OK(call)                                                          \
    do {                                                                  \
        tc_err e_;                                                        \
        tc_err *err = &e_;                                                \
        if ((call) < 0)                                                   \
            fail_msg("%s:%d: %s: %s", __FILE__, __LINE__, #call, e_.msg); \
    } while (0)
#define FAILS(code, call)                                                                        \
    do {                                                                                         \
        tc_err e_;                                                                               \
        tc_err *err = &e_;                                                                       \
        int rc_ = (call);                                                                        \
        if (rc_ != (code))                                                                       \
            fail_msg("%s:%d: %s: %d %s", __FILE__, __LINE__, #call, rc_, rc_ < 0 ? e_.msg : ""); \
    } while (0)

enum { RUN_REPORTS_MAX = 64 };

typedef struct world {
    char path[512];
    unsigned nkills;
    run_model model;
    tc_registry *registry;
    tc_settings settings;
    tc_harness_options options;
    tc_harness *h;
    tc_result *r;
    tc_hooks hooks; /* of the extension; their user is the world */
    uint64_t root;
    atomic_llong clock; /* each look adds one; 0: the wall clock */
    tci_mutex lock;
    tci_wake wake;
    char reports[RUN_REPORTS_MAX][256];
    size_t nreports;
    atomic_uint nexecuted; /* how often a tool ran */
    tci_wake held_wake;    /* the tool "held" waits here */
    atomic_uint nholding, nlet;
} world;

/* An extension "test" is installed: tools echo (unsafe), safe (safe), held and held-safe (wait for
 * world_let), and what a test adds. The clock starts at 1700000000000. */
void world_init(world *w);
/* Before opening: only the first n of echo, safe, held, held-safe, boom, control. */
void world_limit_tools(world *w, size_t n);
void world_open(world *w); /* and the root conversation with model faux/faux-1 */
void world_close(world *w);
/* As if the process died now. */
void world_kill(world *w);
void world_done(world *w);

/* Submit text to the root conversation. */
uint64_t world_say(world *w, const char *text);
uint64_t world_say_when(world *w, const char *text, tc_when_busy when);
void world_wait(world *w, uint64_t submission, tc_submission *ret);
/* The answer's text; "" when unanswered. */
const char *world_answer(world *w, uint64_t submission);
void world_idle(world *w);

/* Snapshot of a built-in document of the root; lives until the world is done. */
tc_str world_doc(world *w, const tc_doc_def *def);
/* The entries of the root as "kind" or "kind:role", oldest first, one space between. */
const char *world_kinds(world *w);
tc_str world_entry(world *w, size_t index); /* oldest first */
size_t world_nentries(world *w);

void world_wait_holding(world *w, unsigned n);
void world_let(world *w);
void world_wait_report(world *w, const char *prefix);
size_t world_count_reports(world *w, const char *prefix);

/* JSON equal as values; times (members timestamp, startedAt, endedAt, at, until, durationMs over 10^12 or
 * in records) count as equal. */
void check_json(tc_str actual, const char *expected, const char *file, int line);
#define CHECK_JSON(actual, expected) check_json((actual), (expected), __FILE__, __LINE__)
bool has_text(tc_str haystack, const char *needle);
size_t count_text(tc_str haystack, const char *needle);

#endif
